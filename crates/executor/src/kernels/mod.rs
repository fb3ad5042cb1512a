//! Reductions and their scalars, bit for bit the same on every processor and every road.
//!
//! - Sums and products run in rank order: in f32 for every float up to 32 bits, in f64 for f64, wrapping for
//!   integers; then *one* rounding to the element type, to nearest even.
//! - An average of floats is a sum of contributions that [`prescale`] multiplied by 1/n; an average of integers
//!   is a wrapped sum, then one division truncating toward zero.
//! - `PreMulSum` is a sum of contributions that [`prescale`] multiplied by each rank's own scalar.
//! - Minimum and maximum take the number where the other side is NaN; −0 is less than +0.
//! - A NaN result is the canonical quiet one, sign clear. 8-bit floats saturate: an infinite or too large result
//!   is ±448 (E4M3) or ±57344 (E5M2).
//! - One rank's sum or product of integers, f32 or f64 is its contribution, NaN payload and all.

mod element;
pub(crate) mod floats;
mod tile;

use std::marker::PhantomData;

use fakegpu_units::{DataType, ReduceOp};

use self::element::{BFloat, E4M3, E5M2, Element, Half, Whole};
use self::tile::{Accumulate, Arithmetic, Average, Extremum, FoldKernel, PrescaleKernel};
use crate::KernelError;
use crate::simd::Level;

/// What is done to one element of every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reduction {
    /// The element type.
    pub data_type: DataType,
    /// The operator.
    pub op: ReduceOp,
    /// Ranks that contribute.
    pub size: u32,
}

impl Reduction {
    /// The scalar every rank's contribution is multiplied by before the fold, if the operator alone says:
    /// 1/n for an average of floats. That of a `PreMulSum` is each rank's own.
    pub fn prescale_scalar(&self) -> Option<Scalar> {
        if self.op == ReduceOp::Avg { Scalar::reciprocal(self.data_type, self.size) } else { None }
    }
}

/// A factor in the element type it applies to, already rounded to that type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scalar {
    data_type: DataType,
    bytes: [u8; 8],
}

impl Scalar {
    /// The scalar that lies in `bytes`, one element in native byte order.
    ///
    /// # Errors
    /// Where `bytes` is not exactly one element.
    pub fn from_bytes(data_type: DataType, bytes: &[u8]) -> Result<Self, KernelError> {
        if bytes.len() != data_type.size() {
            return Err(KernelError::PartialElement { bytes: bytes.len(), data_type });
        }
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        Ok(Self { data_type, bytes: padded })
    }

    /// 1/`size`, which averages of floats multiply by; `None` for integers, whose averages divide, and for 0.
    ///
    /// As NCCL computes it: in double precision, rounded to float, rounded to the type.
    pub fn reciprocal(data_type: DataType, size: u32) -> Option<Self> {
        if size == 0 {
            return None;
        }
        let exact = 1.0 / f64::from(size);
        #[expect(clippy::cast_possible_truncation, reason = "the rounding to float is NCCL's")]
        let single = exact as f32;
        let mut bytes = [0; 8];
        match data_type {
            DataType::Float64 => bytes = f64::narrow(exact),
            DataType::Float32 => bytes[..4].copy_from_slice(&f32::narrow(single)),
            DataType::Float16 => bytes[..2].copy_from_slice(&Half::narrow(single)),
            DataType::BFloat16 => bytes[..2].copy_from_slice(&BFloat::narrow(single)),
            DataType::Float8E4M3 => bytes[..1].copy_from_slice(&E4M3::narrow(single)),
            DataType::Float8E5M2 => bytes[..1].copy_from_slice(&E5M2::narrow(single)),
            _ => return None,
        }
        Some(Self { data_type, bytes })
    }

    /// The element type it applies to.
    pub const fn data_type(&self) -> DataType {
        self.data_type
    }

    /// Its bytes, one element in native byte order.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.data_type.size()]
    }

    fn wide<E: Element>(&self) -> E::Wide {
        E::widen(E::split(&self.bytes).first().copied().unwrap_or_default())
    }
}

/// Folds one source per rank, in rank order, into `dst`.
///
/// # Errors
/// Where there is not one source per rank, lengths differ, or a buffer ends inside an element.
pub fn fold(reduction: Reduction, dst: &mut [u8], srcs: &[&[u8]]) -> Result<(), KernelError> {
    fold_at(Level::detect(), reduction, dst, srcs)
}

/// [`fold`] compiled for the baseline only, to compare results and speed with.
///
/// # Errors
/// As [`fold`].
#[doc(hidden)]
pub fn fold_scalar(reduction: Reduction, dst: &mut [u8], srcs: &[&[u8]]) -> Result<(), KernelError> {
    fold_at(Level::Baseline, reduction, dst, srcs)
}

/// Multiplies each element of `src` by a scalar, rounds once, and writes it to `dst`.
///
/// # Errors
/// Where lengths differ, a buffer ends inside an element, or the scalar is of another type.
pub fn prescale(data_type: DataType, scalar: Scalar, dst: &mut [u8], src: &[u8]) -> Result<(), KernelError> {
    prescale_at(Level::detect(), data_type, scalar, dst, Some(src))
}

/// Multiplies each element of `buffer` by a scalar, in place, rounding once.
///
/// # Errors
/// As [`prescale`].
pub fn prescale_in_place(data_type: DataType, scalar: Scalar, buffer: &mut [u8]) -> Result<(), KernelError> {
    prescale_at(Level::detect(), data_type, scalar, buffer, None)
}

fn fold_at(level: Level, reduction: Reduction, dst: &mut [u8], srcs: &[&[u8]]) -> Result<(), KernelError> {
    let Reduction { data_type, op, size } = reduction;
    if srcs.is_empty() || srcs.len() != size as usize {
        return Err(KernelError::SourceCount { size, sources: srcs.len() });
    }
    check_lengths(data_type, dst, srcs)?;
    let call = FoldCall { level, op, size, dst, srcs };
    match data_type {
        DataType::Int8 => call.wholes::<i8>(),
        DataType::UInt8 => call.wholes::<u8>(),
        DataType::Int32 => call.wholes::<i32>(),
        DataType::UInt32 => call.wholes::<u32>(),
        DataType::Int64 => call.wholes::<i64>(),
        DataType::UInt64 => call.wholes::<u64>(),
        DataType::Float32 => call.exact_floats::<f32>(),
        DataType::Float64 => call.exact_floats::<f64>(),
        DataType::Float16 => call.floats::<Half>(),
        DataType::BFloat16 => call.floats::<BFloat>(),
        DataType::Float8E4M3 => call.floats::<E4M3>(),
        DataType::Float8E5M2 => call.floats::<E5M2>(),
    }
    Ok(())
}

fn prescale_at(
    level: Level,
    data_type: DataType,
    scalar: Scalar,
    dst: &mut [u8],
    src: Option<&[u8]>,
) -> Result<(), KernelError> {
    if scalar.data_type != data_type {
        return Err(KernelError::ScalarType { scalar: scalar.data_type, elements: data_type });
    }
    check_lengths(data_type, dst, src.as_slice())?;
    let call = PrescaleCall { level, scalar, dst, src };
    match data_type {
        // Multiplication that wraps does not know signs.
        DataType::Int8 | DataType::UInt8 => call.elements::<u8>(),
        DataType::Int32 | DataType::UInt32 => call.elements::<u32>(),
        DataType::Int64 | DataType::UInt64 => call.elements::<u64>(),
        DataType::Float16 => call.elements::<Half>(),
        DataType::Float32 => call.elements::<f32>(),
        DataType::Float64 => call.elements::<f64>(),
        DataType::BFloat16 => call.elements::<BFloat>(),
        DataType::Float8E4M3 => call.elements::<E4M3>(),
        DataType::Float8E5M2 => call.elements::<E5M2>(),
    }
    Ok(())
}

fn check_lengths(data_type: DataType, dst: &[u8], srcs: &[&[u8]]) -> Result<(), KernelError> {
    let target_bytes = dst.len();
    if !target_bytes.is_multiple_of(data_type.size()) {
        return Err(KernelError::PartialElement { bytes: target_bytes, data_type });
    }
    match srcs.iter().position(|src| src.len() != target_bytes) {
        Some(source_index) => {
            let source_bytes = srcs[source_index].len();
            Err(KernelError::Length { source_index, source_bytes, target_bytes })
        }
        None => Ok(()),
    }
}

/// A checked call of [`fold`], on its way to the loop for its element type and operator.
struct FoldCall<'a> {
    level: Level,
    op: ReduceOp,
    size: u32,
    dst: &'a mut [u8],
    srcs: &'a [&'a [u8]],
}

impl FoldCall<'_> {
    fn wholes<E: Whole>(self) {
        match self.op {
            ReduceOp::Avg if self.size > 1 => {
                let average = Average::<E>(self.size, PhantomData);
                self.run(average);
            }
            _ => self.exact_floats::<E>(),
        }
    }

    /// Types that are their own wide type: one contribution is its own sum and product.
    fn exact_floats<E: Element>(self) {
        match (self.op, self.srcs) {
            (ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Avg | ReduceOp::PreMulSum, [only]) => {
                self.dst.copy_from_slice(only);
            }
            _ => self.floats::<E>(),
        }
    }

    fn floats<E: Element>(self) {
        match self.op {
            ReduceOp::Sum | ReduceOp::Avg | ReduceOp::PreMulSum => {
                self.run(Accumulate::<E, false>(PhantomData));
            }
            ReduceOp::Prod => self.run(Accumulate::<E, true>(PhantomData)),
            ReduceOp::Min => self.run(Extremum::<E, false>(PhantomData)),
            ReduceOp::Max => self.run(Extremum::<E, true>(PhantomData)),
        }
    }

    fn run<A: Arithmetic>(self, arithmetic: A) {
        self.level.run(FoldKernel { arithmetic, dst: self.dst, srcs: self.srcs });
    }
}

/// A checked call of [`prescale`], on its way to the loop for its element type.
struct PrescaleCall<'a> {
    level: Level,
    scalar: Scalar,
    dst: &'a mut [u8],
    src: Option<&'a [u8]>,
}

impl PrescaleCall<'_> {
    fn elements<E: Element>(self) {
        let scalar = self.scalar.wide::<E>();
        self.level.run(PrescaleKernel::<E> { scalar, dst: self.dst, src: self.src });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Enough for a full tile, a partial one and a remainder that fills no vector.
    const ELEMENTS: usize = 512 + 77;

    /// Random bits: they hold every NaN, infinity and subnormal of the narrow types; two bytes in sixteen are
    /// saturated so that the wide types see theirs too.
    fn random_bytes(seed: u64, bytes: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33).to_le_bytes()
        };
        (0..bytes)
            .map(|_| match next() {
                [_, 0..16, ..] => 0xff,
                [_, 16..32, ..] => 0x00,
                [_, 32..40, ..] => 0x7f,
                [_, 40..48, ..] => 0x80,
                [random, ..] => random,
            })
            .collect()
    }

    fn unaligned(buffers: &[Vec<u8>]) -> Vec<&[u8]> {
        buffers.iter().map(|buffer| &buffer[1..]).collect()
    }

    #[test]
    fn scalar_and_simd_folds_agree_bit_for_bit() {
        for &data_type in DataType::ALL {
            for &op in ReduceOp::ALL {
                for size in [1, 2, 3, 4, 7, 8, 9, 17] {
                    let bytes = ELEMENTS * data_type.size();
                    let sources: Vec<_> =
                        (0..size).map(|rank| random_bytes(u64::from(rank) + 1, bytes + 1)).collect();
                    let reduction = Reduction { data_type, op, size };
                    let (mut fast, mut slow) = (vec![0; bytes + 1], vec![0; bytes]);
                    fold(reduction, &mut fast[1..], &unaligned(&sources)).unwrap();
                    fold_scalar(reduction, &mut slow, &unaligned(&sources)).unwrap();
                    assert_eq!(fast[1..], slow, "{reduction:?}");
                }
            }
        }
    }

    #[test]
    fn scalar_and_simd_scaling_agree_bit_for_bit() {
        for &data_type in DataType::ALL {
            for seed in 0..20 {
                let src = random_bytes(seed, ELEMENTS * data_type.size());
                let scalar =
                    Scalar::from_bytes(data_type, &random_bytes(seed + 99, data_type.size())).unwrap();
                let (mut fast, mut slow, mut in_place) =
                    (vec![0; src.len()], vec![0; src.len()], src.clone());
                prescale(data_type, scalar, &mut fast, &src).unwrap();
                prescale_at(Level::Baseline, data_type, scalar, &mut slow, Some(&src)).unwrap();
                prescale_in_place(data_type, scalar, &mut in_place).unwrap();
                assert_eq!(fast, slow, "{scalar:?}");
                assert_eq!(fast, in_place, "{scalar:?}");
            }
        }
    }

    #[test]
    fn every_narrow_code_comes_through_the_wide_type_unchanged() {
        let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let is_nan = |data_type, code: u16| match data_type {
            DataType::Float16 => code & 0x7fff > 0x7c00,
            DataType::BFloat16 => code & 0x7fff > 0x7f80,
            DataType::Float8E4M3 => code & 0x7f > 0x7e,
            // Infinities saturate, which is not unchanged either.
            _ => code & 0x7f >= 0x7c,
        };
        for (data_type, codes) in [
            (DataType::Float16, &halves),
            (DataType::BFloat16, &halves),
            (DataType::Float8E4M3, &bytes),
            (DataType::Float8E5M2, &bytes),
        ] {
            let mut result = vec![0; codes.len()];
            fold(Reduction { data_type, op: ReduceOp::Sum, size: 1 }, &mut result, &[codes]).unwrap();
            let pairs = codes.chunks(data_type.size()).zip(result.chunks(data_type.size()));
            for (code, (before, after)) in (0_u16..=u16::MAX).zip(pairs) {
                assert!(before == after || is_nan(data_type, code), "{data_type} {code:#x}: {after:x?}");
            }
        }
    }

    #[track_caller]
    fn check_pair<const N: usize>(data_type: DataType, op: ReduceOp, pair: [[u8; N]; 2], expected: [u8; N]) {
        let mut result = [0; N];
        let [left, right] = &pair;
        fold(Reduction { data_type, op, size: 2 }, &mut result, &[left, right]).unwrap();
        assert_eq!(result, expected);
    }

    #[test]
    fn a_number_wins_over_nan_and_negative_zero_is_less() {
        let (nan, negative_zero) = (f32::NAN, -0.0_f32);
        let floats = |left: f32, right: f32| [left.to_ne_bytes(), right.to_ne_bytes()];
        for op in [ReduceOp::Min, ReduceOp::Max] {
            check_pair(DataType::Float32, op, floats(nan, -3.0), (-3.0_f32).to_ne_bytes());
            check_pair(DataType::Float32, op, floats(f32::INFINITY, nan), f32::INFINITY.to_ne_bytes());
            check_pair(DataType::Float32, op, floats(-nan, nan), nan.to_ne_bytes());
        }
        check_pair(DataType::Float32, ReduceOp::Min, floats(0.0, negative_zero), negative_zero.to_ne_bytes());
        check_pair(DataType::Float32, ReduceOp::Max, floats(negative_zero, 0.0), 0.0_f32.to_ne_bytes());
    }

    #[test]
    fn eight_bit_floats_saturate_but_keep_nan() {
        let (e4m3, e5m2) = (DataType::Float8E4M3, DataType::Float8E5M2);
        check_pair(e4m3, ReduceOp::Sum, [[0x7e], [0x7e]], [0x7e]);
        check_pair(e4m3, ReduceOp::Sum, [[0xfe], [0xfe]], [0xfe]);
        check_pair(e4m3, ReduceOp::Sum, [[0xff], [0x00]], [0x7f]);
        check_pair(e5m2, ReduceOp::Sum, [[0x7c], [0x00]], [0x7b]);
        check_pair(e5m2, ReduceOp::Sum, [[0x7c], [0xfc]], [0x7f]);
        check_pair(e5m2, ReduceOp::Max, [[0x7c], [0x00]], [0x7b]);
        check_pair(e5m2, ReduceOp::Min, [[0xfc], [0x00]], [0xfb]);
    }

    #[test]
    fn integer_averages_wrap_then_truncate_toward_zero() {
        check_pair(DataType::Int8, ReduceOp::Avg, [(-4_i8).to_ne_bytes(), 1_i8.to_ne_bytes()], [0xff]);
        check_pair(DataType::Int8, ReduceOp::Avg, [[100], [100]], (-28_i8).to_ne_bytes());
        check_pair(DataType::UInt8, ReduceOp::Avg, [[200], [100]], [22]);
    }

    #[test]
    fn one_rank_keeps_its_bits() {
        let payload = 0xffa0_1234_u32.to_ne_bytes();
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::PreMulSum] {
            let mut result = [0; 4];
            fold(Reduction { data_type: DataType::Float32, op, size: 1 }, &mut result, &[&payload]).unwrap();
            assert_eq!(result, payload);
        }
    }

    #[test]
    fn averages_scale_by_the_rounded_reciprocal() {
        let third = |data_type| Reduction { data_type, op: ReduceOp::Avg, size: 3 }.prescale_scalar();
        assert_eq!(third(DataType::Float16).unwrap().as_bytes(), 0x3555_u16.to_ne_bytes());
        assert_eq!(third(DataType::BFloat16).unwrap().as_bytes(), 0x3eab_u16.to_ne_bytes());
        assert_eq!(third(DataType::Float8E4M3).unwrap().as_bytes(), [0x2b]);
        assert_eq!(third(DataType::Float64).unwrap().as_bytes(), (1.0_f64 / 3.0).to_ne_bytes());
        assert_eq!(third(DataType::Int32), None);
        assert_eq!(
            Reduction { data_type: DataType::Float32, op: ReduceOp::Sum, size: 3 }.prescale_scalar(),
            None
        );
    }

    #[track_caller]
    fn check_refused(result: Result<(), KernelError>, expected: &str) {
        assert_eq!(result.unwrap_err().to_string(), expected);
    }

    #[test]
    fn ill_fitting_arguments_are_refused() {
        let sum = Reduction { data_type: DataType::Int32, op: ReduceOp::Sum, size: 2 };
        check_refused(
            fold(sum, &mut [0; 4], &[&[0; 4]]),
            "fold over `2` ranks got `1` sources: pass one per rank, in rank order",
        );
        check_refused(
            fold(sum, &mut [0; 6], &[&[0; 6], &[0; 6]]),
            "`6` bytes are not a whole number of int32 elements",
        );
        check_refused(
            fold(sum, &mut [0; 4], &[&[0; 4], &[0; 8]]),
            "source `1` has `8` bytes where the destination has `4`",
        );
        check_refused(
            fold(Reduction { size: 0, ..sum }, &mut [], &[]),
            "fold over `0` ranks got `0` sources: pass one per rank, in rank order",
        );
        let half = Scalar::reciprocal(DataType::Float16, 2).unwrap();
        check_refused(
            prescale_in_place(DataType::Float32, half, &mut [0; 4]),
            "scalar is float16 where the elements are float32",
        );
    }
}
