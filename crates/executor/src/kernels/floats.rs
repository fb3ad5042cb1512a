//! Conversions between the narrow floats and binary32, free of branches so that loops over them vectorise.
//!
//! No step depends on a subnormal binary32, so a program that flushes those to zero does not change what becomes
//! of binary16 and 8-bit values.

const SIGN: u32 = 1 << 31;
const MAGNITUDE: u32 = !SIGN;
const F32_INFINITY: u32 = 0x7f80_0000;

/// A float format of `1 + exponent + MANTISSA` bits with IEEE's layout and subnormals.
struct Narrow<const MANTISSA: u32, const BIAS: u32>;

impl<const MANTISSA: u32, const BIAS: u32> Narrow<MANTISSA, BIAS> {
    const SHIFT: u32 = 23 - MANTISSA;
    const REBIAS: u32 = (127 - BIAS) << 23;
    /// Bits of the smallest normal number, in binary32.
    const NORMAL_MIN: u32 = (127 + 1 - BIAS) << 23;
    /// The smallest subnormal, in binary32.
    const STEP: f32 = f32::from_bits((127 + 1 - BIAS - MANTISSA) << 23);
    /// The binary32 whose last bit is worth one `STEP`: adding it rounds to multiples of `STEP`.
    const ROUNDER: f32 = f32::from_bits((127 + 1 - BIAS - MANTISSA + 23) << 23);

    /// The magnitude of a finite code, as binary32 bits.
    #[inline(always)]
    fn widen(magnitude: u32) -> u32 {
        let normal = (magnitude << Self::SHIFT) + Self::REBIAS;
        let subnormal = (magnitude.cast_signed() as f32 * Self::STEP).to_bits();
        if magnitude < 1 << MANTISSA { subnormal } else { normal }
    }

    /// The code nearest to a magnitude that is not NaN, ties to even, at most `largest`.
    #[inline(always)]
    fn narrow(magnitude: u32, largest: u32) -> u32 {
        let half_below = (1 << (Self::SHIFT - 1)) - 1;
        let odd = (magnitude >> Self::SHIFT) & 1;
        let rounded = (magnitude + half_below + odd) >> Self::SHIFT;
        let normal = rounded.saturating_sub(Self::REBIAS >> Self::SHIFT).min(largest);
        let stepped = f32::from_bits(magnitude) + Self::ROUNDER;
        let subnormal = stepped.to_bits().wrapping_sub(Self::ROUNDER.to_bits());
        if magnitude < Self::NORMAL_MIN { subnormal } else { normal }
    }
}

type Half = Narrow<10, 15>;
type E4M3 = Narrow<3, 7>;
type E5M2 = Narrow<2, 15>;

/// binary16 to binary32; a NaN becomes some NaN.
#[inline(always)]
pub(crate) fn widen_half(code: u16) -> f32 {
    let magnitude = u32::from(code & 0x7fff);
    let special = F32_INFINITY | (magnitude << 13);
    let bits = if magnitude >= 0x7c00 { special } else { Half::widen(magnitude) };
    f32::from_bits(bits | u32::from(code & 0x8000) << 16)
}

/// binary32 to binary16, rounded to nearest even; a NaN becomes the canonical one.
#[inline(always)]
pub(crate) fn narrow_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let magnitude = bits & MAGNITUDE;
    let code = Half::narrow(magnitude, 0x7c00) | (bits & SIGN) >> 16;
    low_u16(if magnitude > F32_INFINITY { 0x7e00 } else { code })
}

/// bfloat16 to binary32.
#[inline(always)]
pub(super) fn widen_bfloat(code: u16) -> f32 {
    f32::from_bits(u32::from(code) << 16)
}

/// binary32 to bfloat16, rounded to nearest even; a NaN becomes the canonical one.
#[inline(always)]
pub(super) fn narrow_bfloat(value: f32) -> u16 {
    let bits = value.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = bits.wrapping_add(0x7fff + odd) >> 16;
    low_u16(if bits & MAGNITUDE > F32_INFINITY { 0x7fc0 } else { rounded })
}

/// E4M3FN to binary32; both NaN codes become NaN.
#[inline(always)]
pub(crate) fn widen_e4m3(code: u8) -> f32 {
    let magnitude = u32::from(code & 0x7f);
    let bits = if magnitude == 0x7f { F32_INFINITY | 1 << 22 } else { E4M3::widen(magnitude) };
    f32::from_bits(bits | u32::from(code & 0x80) << 24)
}

/// binary32 to E4M3FN, rounded to nearest even, ±448 where beyond; a NaN becomes the canonical one.
#[inline(always)]
pub(super) fn narrow_e4m3(value: f32) -> u8 {
    let bits = value.to_bits();
    let magnitude = bits & MAGNITUDE;
    let code = E4M3::narrow(magnitude, 0x7e) | (bits & SIGN) >> 24;
    low_u8(if magnitude > F32_INFINITY { 0x7f } else { code })
}

/// E5M2 to binary32; infinities and NaNs stay what they are.
#[inline(always)]
pub(crate) fn widen_e5m2(code: u8) -> f32 {
    let magnitude = u32::from(code & 0x7f);
    let special = F32_INFINITY | (magnitude << 21);
    let bits = if magnitude >= 0x7c { special } else { E5M2::widen(magnitude) };
    f32::from_bits(bits | u32::from(code & 0x80) << 24)
}

/// binary32 to E5M2, rounded to nearest even, ±57344 where beyond; a NaN becomes the canonical one.
#[inline(always)]
pub(super) fn narrow_e5m2(value: f32) -> u8 {
    let bits = value.to_bits();
    let magnitude = bits & MAGNITUDE;
    let code = E5M2::narrow(magnitude, 0x7b) | (bits & SIGN) >> 24;
    low_u8(if magnitude > F32_INFINITY { 0x7f } else { code })
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the code was just composed in the low bits")]
fn low_u16(code: u32) -> u16 {
    code as u16
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the code was just composed in the low bits")]
fn low_u8(code: u32) -> u8 {
    code as u8
}

#[cfg(test)]
mod tests {
    use float8::{F8E4M3, F8E5M2};
    use half::{bf16, f16};

    use super::*;

    #[track_caller]
    fn check_same(ours: f32, theirs: f32, code: u16) {
        let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
        assert!(same, "code {code:#x}: {ours} instead of {theirs}");
    }

    #[test]
    fn every_code_widens_to_its_value() {
        for code in 0..=u16::MAX {
            check_same(widen_half(code), f16::from_bits(code).to_f32(), code);
            check_same(widen_bfloat(code), bf16::from_bits(code).to_f32(), code);
        }
        for code in 0..=u8::MAX {
            check_same(widen_e4m3(code), F8E4M3::from_bits(code).to_f32(), code.into());
            check_same(widen_e5m2(code), F8E5M2::from_bits(code).to_f32(), code.into());
        }
    }

    /// Every binary32 whose low bits are all clear, all set, or one past either: all that rounding can tell apart.
    fn telling_floats() -> impl Iterator<Item = f32> {
        (0..1_u32 << 20)
            .flat_map(|high| [0, 1, 0x7ff, 0x800, 0x801, 0xfff].map(|low| f32::from_bits(high << 12 | low)))
    }

    #[test]
    fn sixteen_bit_floats_round_to_nearest_even() {
        for value in telling_floats().filter(|value| !value.is_nan()) {
            assert_eq!(narrow_half(value), f16::from_f32_const(value).to_bits(), "{value:e}");
            assert_eq!(narrow_bfloat(value), bf16::from_f32(value).to_bits(), "{value:e}");
        }
    }

    /// By definition rather than by bit tricks: the nearest finite value, the even code of two equally near.
    fn nearest(value: f32, largest: u8, widen: fn(u8) -> f32) -> u8 {
        let target = f64::from(value.abs());
        let above = (0..=largest).find(|&code| f64::from(widen(code)) >= target).unwrap_or(largest);
        let below = above.saturating_sub(1);
        let (down, up) = (target - f64::from(widen(below)), f64::from(widen(above)) - target);
        let code = if down < up || (down == up && below % 2 == 0) { below } else { above };
        code | if value.is_sign_negative() { 0x80 } else { 0 }
    }

    #[test]
    fn eight_bit_floats_round_to_nearest_even_and_saturate() {
        for value in telling_floats().step_by(3).filter(|value| !value.is_nan()) {
            assert_eq!(narrow_e4m3(value), nearest(value, 0x7e, widen_e4m3), "{value:e}");
            assert_eq!(narrow_e5m2(value), nearest(value, 0x7b, widen_e5m2), "{value:e}");
        }
    }

    #[test]
    fn every_nan_becomes_the_canonical_one() {
        for value in [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(u32::MAX)] {
            assert_eq!((narrow_half(value), narrow_bfloat(value)), (0x7e00, 0x7fc0));
            assert_eq!((narrow_e4m3(value), narrow_e5m2(value)), (0x7f, 0x7f));
        }
    }
}
