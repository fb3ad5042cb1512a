//! Floats rounded to fewer bits, exactly, in every direction.

use crate::types::Rounding;

/// A format of floats: a sign, exponent bits, fraction bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bits of the exponent.
    pub exponent_bits: u32,
    /// Bits of the fraction that are stored.
    pub fraction_bits: u32,
    /// Whether what is too large becomes the largest number and no infinity.
    pub is_finite: bool,
}

impl Format {
    /// IEEE's 16 bits.
    pub const F16: Self = Self { exponent_bits: 5, fraction_bits: 10, is_finite: false };
    /// The upper half of 32 bits.
    pub const BF16: Self = Self { exponent_bits: 8, fraction_bits: 7, is_finite: false };
    /// 32 bits of which tensor cores read 19.
    pub const TF32: Self = Self { exponent_bits: 8, fraction_bits: 10, is_finite: false };
    /// IEEE's 32 bits.
    pub const F32: Self = Self { exponent_bits: 8, fraction_bits: 23, is_finite: false };
    /// OCP's 8 bits without infinities.
    pub const E4M3: Self = Self { exponent_bits: 4, fraction_bits: 3, is_finite: true };
    /// OCP's 8 bits with IEEE's exponent of 16.
    pub const E5M2: Self = Self { exponent_bits: 5, fraction_bits: 2, is_finite: true };

    const fn sign_place(self) -> u32 {
        self.exponent_bits + self.fraction_bits
    }

    /// The bits of the largest number.
    const fn largest(self) -> u64 {
        let infinity = ((1 << self.exponent_bits) - 1) << self.fraction_bits;
        // E4M3 has numbers where others have infinities, and one NaN.
        if self.exponent_bits == 4 { infinity | 0b110 } else { infinity - 1 }
    }

    const fn infinity(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }

    /// All ones behind the sign, which is what NVIDIA's processors give.
    const fn nan(self) -> u64 {
        (1 << self.sign_place()) - 1
    }
}

const FRACTION_BITS: u32 = 52;

/// Rounds a number to a format. The rounding is one to a number, not to an integer.
pub fn round(value: f64, format: Format, rounding: Rounding) -> u64 {
    let bits = value.to_bits();
    let is_negative = bits >> 63 != 0;
    let sign = if is_negative { 1 << format.sign_place() } else { 0 };
    if value.is_nan() {
        return format.nan();
    }
    if value.is_infinite() {
        return sign | if format.is_finite { format.largest() } else { format.infinity() };
    }
    if value == 0.0 {
        return sign;
    }
    let (significand, exponent) = parts(bits);
    let bias = (1_i64 << (format.exponent_bits - 1)) - 1;
    // What of the 53 bits does not fit: more of it below the least normal number.
    let least = 1 - bias;
    let below = (least - exponent).max(0);
    let drop = (i64::from(FRACTION_BITS - format.fraction_bits) + below).min(63);
    let drop = u32::try_from(drop).unwrap_or(63);
    let kept = significand >> drop;
    let lost = significand & ((1 << drop) - 1);
    let half = 1_u64 << (drop - 1);
    let up = match rounding {
        Rounding::Nearest | Rounding::NearestInt => lost > half || (lost == half && kept & 1 == 1),
        Rounding::NearestAway => lost >= half,
        Rounding::Zero | Rounding::ZeroInt => false,
        Rounding::Down | Rounding::DownInt => is_negative && lost != 0,
        Rounding::Up | Rounding::UpInt => !is_negative && lost != 0,
    };
    let kept = kept + u64::from(up);
    // The leading bit of a normal number raises the exponent by one, as does a carry out of the fraction.
    let start = u64::try_from((exponent.max(least) + bias - 1).max(0)).unwrap_or(0);
    let magnitude = kept + (start << format.fraction_bits);
    let magnitude =
        if magnitude > format.largest() { overflow(format, rounding, is_negative) } else { magnitude };
    sign | magnitude
}

/// A number's significand, its leading bit at place 52, and its exponent.
fn parts(bits: u64) -> (u64, i64) {
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let exponent = (bits >> FRACTION_BITS) & 0x7ff;
    if exponent != 0 {
        return (fraction | 1 << FRACTION_BITS, i64::try_from(exponent).unwrap_or(0) - 1023);
    }
    let shift = fraction.leading_zeros() - (63 - FRACTION_BITS);
    (fraction << shift, -1022 - i64::from(shift))
}

fn overflow(format: Format, rounding: Rounding, is_negative: bool) -> u64 {
    let stays = match rounding {
        Rounding::Zero | Rounding::ZeroInt => true,
        Rounding::Down | Rounding::DownInt => !is_negative,
        Rounding::Up | Rounding::UpInt => is_negative,
        _ => false,
    };
    if stays || format.is_finite { format.largest() } else { format.infinity() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn as_f32(value: f64, rounding: Rounding) -> f32 {
        f32::from_bits(u32::try_from(round(value, Format::F32, rounding)).unwrap())
    }

    proptest! {
        #[test]
        #[expect(clippy::cast_possible_truncation, reason = "the host's rounding is what is compared with")]
        fn to_32_bits_as_the_host_rounds(bits in any::<u64>(), small in any::<f32>()) {
            for value in [f64::from_bits(bits), f64::from(small) * 1.000_000_01] {
                let expected = value as f32;
                let found = as_f32(value, Rounding::Nearest);
                prop_assert!(found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan());
            }
        }

        #[test]
        fn directions_enclose_the_number(value in any::<f64>()) {
            let (down, up) = (as_f32(value, Rounding::Down), as_f32(value, Rounding::Up));
            prop_assert!(f64::from(down) <= value && value <= f64::from(up));
            prop_assert!(down == up || down.next_up() == up || (down == 0.0 && up == 0.0));
            let zero = as_f32(value, Rounding::Zero);
            prop_assert_eq!(zero, if value > 0.0 { down } else { up });
        }
    }

    #[test]
    fn formats_of_16_and_8_bits_end_where_they_should() {
        let near = |value, format| round(value, format, Rounding::Nearest);
        assert_eq!(near(65_504.0, Format::F16), 0x7bff);
        assert_eq!(near(65_520.0, Format::F16), 0x7c00);
        assert_eq!(near(65_519.9, Format::F16), 0x7bff);
        assert_eq!(near(2.0_f64.powi(-24), Format::F16), 1);
        assert_eq!(near(2.0_f64.powi(-25), Format::F16), 0);
        assert_eq!(near(-1.5, Format::BF16), 0xbfc0);
        assert_eq!(near(1.0 + 1.0 / 256.0, Format::BF16), 0x3f80);
        assert_eq!(near(1.0 + 3.0 / 256.0, Format::BF16), 0x3f82);
        assert_eq!(near(448.0, Format::E4M3), 0x7e);
        assert_eq!(near(1e9, Format::E4M3), 0x7e);
        assert_eq!(near(f64::NAN, Format::E4M3), 0x7f);
        assert_eq!(near(57_344.0, Format::E5M2), 0x7b);
        assert_eq!(near(f64::INFINITY, Format::E5M2), 0x7b);
    }
}
