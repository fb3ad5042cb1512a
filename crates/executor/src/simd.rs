//! Which instructions the kernels are compiled for, chosen once per call.
//!
//! A kernel is one generic body ([`Kernel::run`]); [`Level::run`] instantiates it once for the baseline and once
//! inside a function with AVX2 and F16C, where the compiler vectorises the same loops wider. Only half
//! precision and the 8-bit floats that fit into it need intrinsics. FMA stays off on purpose: fusing a multiply with an add changes bits.

use crate::kernels::floats;

/// Work written once and compiled for every instruction set.
pub(crate) trait Kernel {
    /// Does the work. Implementations are `#[inline(always)]`, or they would be compiled for the baseline only.
    fn run<I: Isa>(self, isa: I);
}

/// What an instruction set offers beyond what the compiler finds for itself: conversions of eight lanes at once,
/// with the results of [`floats`] but for the payload of a NaN that is widened.
pub(crate) trait Isa: Copy {
    /// Whether conversions by lanes beat a loop over single elements.
    const LANES: bool = false;

    /// Widens binary16.
    #[inline(always)]
    fn widen_halves(self, codes: [[u8; 2]; 8]) -> [f32; 8] {
        codes.map(|code| floats::widen_half(u16::from_ne_bytes(code)))
    }

    /// Rounds to binary16.
    #[inline(always)]
    fn narrow_halves(self, values: [f32; 8]) -> [[u8; 2]; 8] {
        values.map(|value| floats::narrow_half(value).to_ne_bytes())
    }

    /// Widens E4M3FN.
    #[inline(always)]
    fn widen_e4m3(self, codes: [[u8; 1]; 8]) -> [f32; 8] {
        codes.map(|[code]| floats::widen_e4m3(code))
    }

    /// Widens E5M2.
    #[inline(always)]
    fn widen_e5m2(self, codes: [[u8; 1]; 8]) -> [f32; 8] {
        codes.map(|[code]| floats::widen_e5m2(code))
    }
}

/// An instruction set this processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    /// What every processor of the target has.
    Baseline,
    /// AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

impl Level {
    /// The best this processor has. The standard library remembers the answer of the first call.
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = Avx2::detect() {
            return Self::Avx2(avx2);
        }
        Self::Baseline
    }

    /// Runs a kernel compiled for this level.
    pub(crate) fn run<K: Kernel>(self, kernel: K) {
        match self {
            Self::Baseline => kernel.run(Baseline),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.run(kernel),
        }
    }
}

#[derive(Clone, Copy)]
struct Baseline;

impl Isa for Baseline {}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Avx2;

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "entering functions with target features, and moving lanes in and out")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256, _CMP_UNORD_Q, _MM_FROUND_TO_NEAREST_INT, _mm_and_si128, _mm_cmpeq_epi16,
        _mm_cvtepu8_epi16, _mm_cvtsi64_si128, _mm_or_si128, _mm_set1_epi16, _mm_slli_epi16, _mm_xor_si128,
        _mm256_blendv_ps, _mm256_cmp_ps, _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_mul_ps, _mm256_set1_ps,
    };
    use std::mem::transmute;

    use super::{Isa, Kernel};

    /// Proof that this processor has AVX2 and F16C: made by [`Avx2::detect`] alone.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Avx2(());

    impl Avx2 {
        pub(super) fn detect() -> Option<Self> {
            (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Self(()))
        }

        pub(super) fn run<K: Kernel>(self, kernel: K) {
            // SAFETY: `self` exists only where detection found both features that `run_wide` is compiled for.
            unsafe { run_wide(self, kernel) }
        }
    }

    #[target_feature(enable = "avx2,f16c")]
    fn run_wide<K: Kernel>(isa: Avx2, kernel: K) {
        kernel.run(isa);
    }

    impl Isa for Avx2 {
        const LANES: bool = true;

        #[inline(always)]
        fn widen_halves(self, codes: [[u8; 2]; 8]) -> [f32; 8] {
            // SAFETY: `self` exists only where detection found the features the function is compiled for.
            unsafe { widen_halves(codes) }
        }

        #[inline(always)]
        fn narrow_halves(self, values: [f32; 8]) -> [[u8; 2]; 8] {
            // SAFETY: `self` exists only where detection found the features the function is compiled for.
            unsafe { narrow_halves(values) }
        }

        #[inline(always)]
        fn widen_e4m3(self, codes: [[u8; 1]; 8]) -> [f32; 8] {
            // SAFETY: `self` exists only where detection found the features the function is compiled for.
            unsafe { widen_e4m3(codes) }
        }

        #[inline(always)]
        fn widen_e5m2(self, codes: [[u8; 1]; 8]) -> [f32; 8] {
            // SAFETY: `self` exists only where detection found the features the function is compiled for.
            unsafe { widen_e5m2(codes) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn widen_halves(codes: [[u8; 2]; 8]) -> [f32; 8] {
        // SAFETY: both are 16 bytes, and any bits are an `__m128i`.
        let packed = unsafe { transmute::<[[u8; 2]; 8], __m128i>(codes) };
        lanes(_mm256_cvtph_ps(packed))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn narrow_halves(values: [f32; 8]) -> [[u8; 2]; 8] {
        // SAFETY: both are 32 bytes, and any bits are an `__m256`.
        let wide = unsafe { transmute::<[f32; 8], __m256>(values) };
        let nan = _mm256_cmp_ps::<_CMP_UNORD_Q>(wide, wide);
        let canonical = _mm256_blendv_ps(wide, _mm256_set1_ps(f32::NAN), nan);
        let packed = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(canonical);
        // SAFETY: both are 16 bytes, and any bits are eight byte pairs.
        unsafe { transmute::<__m128i, [[u8; 2]; 8]>(packed) }
    }

    /// Read as a half, an E4M3 code shifted into place is 2^-8 of its value, which the half can always hold; only
    /// its NaN would be a number.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn widen_e4m3(codes: [[u8; 1]; 8]) -> [f32; 8] {
        let spread = spread(codes);
        let magnitude = _mm_and_si128(spread, _mm_set1_epi16(0x7f));
        let sign = _mm_slli_epi16::<8>(_mm_xor_si128(spread, magnitude));
        let nan = _mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7f));
        // All ones in the exponent and the fraction: a NaN of the half, whatever else is set.
        let half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16::<7>(magnitude), sign), nan);
        lanes(_mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0)))
    }

    /// An E5M2 code is the upper byte of a half.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn widen_e5m2(codes: [[u8; 1]; 8]) -> [f32; 8] {
        lanes(_mm256_cvtph_ps(_mm_slli_epi16::<8>(spread(codes))))
    }

    /// Eight bytes as eight 16-bit lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn spread(codes: [[u8; 1]; 8]) -> __m128i {
        // SAFETY: both are 8 bytes, and any bits are an `i64`.
        let packed = unsafe { transmute::<[[u8; 1]; 8], i64>(codes) };
        _mm_cvtepu8_epi16(_mm_cvtsi64_si128(packed))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes(wide: __m256) -> [f32; 8] {
        // SAFETY: both are 32 bytes, and any bits are eight `f32`.
        unsafe { transmute::<__m256, [f32; 8]>(wide) }
    }
}
