//! Element types and what their bytes mean: decoded to the number they stand for, and rounded back.
//!
//! Written from the formats' definitions, in the plainest arithmetic there is, and on purpose without a line of
//! the library's: two mistakes would have to agree to go unseen.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "rounding to a narrower type is what this module is for; every cast is of a value in range or meant to wrap"
)]

/// An element type of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DataType {
    /// Signed, 8 bits.
    Int8,
    /// Unsigned, 8 bits.
    Uint8,
    /// Signed, 32 bits.
    Int32,
    /// Unsigned, 32 bits.
    Uint32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 64 bits.
    Uint64,
    /// IEEE binary16.
    Float16,
    /// IEEE binary32.
    Float32,
    /// IEEE binary64.
    Float64,
    /// The upper half of a binary32.
    BFloat16,
    /// 4 bits of exponent, no infinity.
    Float8E4M3,
    /// 5 bits of exponent.
    Float8E5M2,
}

impl DataType {
    /// All, in NCCL's order.
    pub const ALL: [Self; 12] = [
        Self::Int8,
        Self::Uint8,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float16,
        Self::Float32,
        Self::Float64,
        Self::BFloat16,
        Self::Float8E4M3,
        Self::Float8E5M2,
    ];

    /// NCCL's number of it.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 | Self::Float8E4M3 | Self::Float8E5M2 => 1,
            Self::Float16 | Self::BFloat16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float32 => 4,
            Self::Int64 | Self::Uint64 | Self::Float64 => 8,
        }
    }

    /// The format of the floats narrower than 32 bits.
    pub(super) const fn narrow(self) -> Option<Narrow> {
        match self {
            Self::Float16 => Some(Narrow { exponent: 5, mantissa: 10, largest: 0x7bff, nan: 0x7e00 }),
            Self::BFloat16 => Some(Narrow { exponent: 8, mantissa: 7, largest: 0x7f7f, nan: 0x7fc0 }),
            Self::Float8E4M3 => Some(Narrow { exponent: 4, mantissa: 3, largest: 0x7e, nan: 0x7f }),
            Self::Float8E5M2 => Some(Narrow { exponent: 5, mantissa: 2, largest: 0x7b, nan: 0x7f }),
            _ => None,
        }
    }

    /// Whether it is a float.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64) || self.narrow().is_some()
    }

    /// Whether too large a number becomes the largest one, not infinity.
    pub const fn saturates(self) -> bool {
        matches!(self, Self::Float8E4M3 | Self::Float8E5M2)
    }
}

/// The format of a narrow float.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrow {
    /// Bits of the exponent.
    pub(super) exponent: u32,
    /// Bits of the mantissa.
    pub(super) mantissa: u32,
    /// The code of the largest number.
    pub(super) largest: u64,
    /// A code that is no number.
    pub(super) nan: u64,
}

/// The number that an element stands for. Narrow floats and 32-bit ones are combined as `f32`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// An integer of any width and sign, as 64 bits of two's complement; only the low ones count.
    Integer(u64),
    /// A float of up to 32 bits.
    Single(f32),
    /// A 64-bit float.
    Double(f64),
}

/// Two to a power that has a normal `f64`.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

impl Narrow {
    const fn least_exponent(self) -> i32 {
        2 - (1 << (self.exponent - 1))
    }

    const fn sign(self) -> u64 {
        1 << (self.exponent + self.mantissa)
    }

    fn decode(self, code: u64, saturates: bool) -> f32 {
        let magnitude = code & (self.sign() - 1);
        let (field, fraction) = (magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1));
        // One code above the largest number is infinity in the formats that have one.
        let has_infinity = !saturates || self.mantissa == 2;
        let size = if magnitude > self.largest {
            if has_infinity && magnitude == self.largest + 1 { f64::INFINITY } else { f64::NAN }
        } else {
            let units = if field == 0 { fraction } else { fraction + (1 << self.mantissa) };
            let exponent = self.least_exponent() + (field.max(1) as i32 - 1);
            units as f64 * power_of_two(exponent - self.mantissa as i32)
        };
        (if code & self.sign() == 0 { size } else { -size }) as f32
    }

    /// To the nearest code, ties to the even one.
    fn encode(self, value: f32, saturates: bool) -> u64 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        let size = f64::from(value.abs());
        if size == 0.0 {
            return sign;
        }
        let beyond = if saturates { self.largest } else { self.largest + 1 };
        if size.is_infinite() {
            return sign | beyond;
        }
        // Every f32 is a normal f64, so the exponent can be read off.
        let exponent = (((size.to_bits() >> 52) as i32) - 1023).max(self.least_exponent());
        let units = (size / power_of_two(exponent - self.mantissa as i32)).round_ties_even() as u64;
        // A carry out of the mantissa moves into the exponent by itself.
        let code = (((exponent - self.least_exponent()) as u64) << self.mantissa) + units;
        sign | if code > self.largest { beyond } else { code }
    }
}

/// The low bits of an integer, as a type has them.
fn fit(data_type: DataType, bits: u64) -> u64 {
    match data_type {
        DataType::Int8 => i64::from(bits as i8) as u64,
        DataType::Int32 => i64::from(bits as i32) as u64,
        DataType::Uint8 => u64::from(bits as u8),
        DataType::Uint32 => u64::from(bits as u32),
        _ => bits,
    }
}

/// Bytes in memory, as a number.
fn code_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |code, &byte| code << 8 | u64::from(byte))
}

/// What an element's bytes mean.
pub(super) fn decode(data_type: DataType, bytes: &[u8]) -> Value {
    let code = code_of(bytes);
    match (data_type.narrow(), data_type) {
        (Some(narrow), _) => Value::Single(narrow.decode(code, data_type.saturates())),
        (None, DataType::Float32) => Value::Single(f32::from_bits(code as u32)),
        (None, DataType::Float64) => Value::Double(f64::from_bits(code)),
        _ => Value::Integer(fit(data_type, code)),
    }
}

/// A number rounded to an element, whose bytes are appended.
pub(super) fn encode(data_type: DataType, value: Value, to: &mut Vec<u8>) {
    let code = match (value, data_type.narrow()) {
        (Value::Integer(bits), _) => bits,
        (Value::Single(single), Some(narrow)) => narrow.encode(single, data_type.saturates()),
        (Value::Single(single), None) => u64::from(single.to_bits()),
        (Value::Double(double), _) => double.to_bits(),
    };
    to.extend_from_slice(&code.to_le_bytes()[..data_type.size()]);
}

/// A number as a value of a type, before it is rounded: what operators work on.
pub(super) fn widen(data_type: DataType, number: f64) -> Value {
    match data_type {
        DataType::Float64 => Value::Double(number),
        _ if data_type.is_float() => Value::Single(number as f32),
        _ => Value::Integer(number as i64 as u64),
    }
}

/// The sum or the product of two integers of one type wraps; a quotient is truncated toward zero.
pub(super) fn divide(data_type: DataType, bits: u64, by: u64) -> u64 {
    match data_type {
        DataType::Int8 | DataType::Int32 | DataType::Int64 => {
            (fit(data_type, bits) as i64).wrapping_div(by as i64) as u64
        }
        _ => fit(data_type, bits) / by,
    }
}

/// Whether one integer of a type is below another.
pub(super) fn is_below(data_type: DataType, one: u64, other: u64) -> bool {
    match data_type {
        DataType::Int8 | DataType::Int32 | DataType::Int64 => {
            (fit(data_type, one) as i64) < fit(data_type, other) as i64
        }
        _ => fit(data_type, one) < fit(data_type, other),
    }
}

/// Whether these bytes are no number.
pub(super) fn is_nan(data_type: DataType, bytes: &[u8]) -> bool {
    match decode(data_type, bytes) {
        Value::Integer(_) => false,
        Value::Single(single) => single.is_nan(),
        Value::Double(double) => double.is_nan(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(data_type: DataType, number: f64) -> u64 {
        let mut bytes = Vec::new();
        encode(data_type, widen(data_type, number), &mut bytes);
        code_of(&bytes)
    }

    #[test]
    fn known_numbers_have_their_known_codes() {
        use DataType::{BFloat16, Float8E4M3, Float8E5M2, Float16};
        for (data_type, number, code) in [
            (Float16, 1.0, 0x3c00),
            (Float16, -2.0, 0xc000),
            (Float16, 65504.0, 0x7bff),
            (Float16, 65519.0, 0x7bff),
            (Float16, 65520.0, 0x7c00),
            (Float16, 2f64.powi(-24), 0x0001),
            (Float16, 2f64.powi(-25), 0x0000),
            (Float16, 1.5 * 2f64.powi(-25), 0x0001),
            (Float16, 1.0 + 2f64.powi(-11), 0x3c00),
            (Float16, 1.0 + 3.0 * 2f64.powi(-11), 0x3c02),
            (BFloat16, 1.0, 0x3f80),
            (BFloat16, f64::from(f32::MAX), 0x7f80),
            (BFloat16, f64::INFINITY, 0x7f80),
            (Float8E4M3, 448.0, 0x7e),
            (Float8E4M3, 1e6, 0x7e),
            (Float8E4M3, -464.1, 0xfe),
            (Float8E4M3, 1.0, 0x38),
            (Float8E4M3, 2f64.powi(-9), 0x01),
            (Float8E5M2, 57344.0, 0x7b),
            (Float8E5M2, 1e9, 0x7b),
            (Float8E5M2, 1.0, 0x3c),
            (Float8E5M2, -0.0, 0x80),
        ] {
            assert_eq!(encoded(data_type, number), code, "{number} as {data_type:?}");
        }
    }

    #[test]
    fn every_code_that_is_a_number_comes_back_as_itself() {
        for data_type in DataType::ALL {
            let Some(narrow) = data_type.narrow() else { continue };
            let codes = narrow.sign() * 2;
            let mut numbers = 0;
            for code in 0..codes {
                let bytes = &code.to_le_bytes()[..data_type.size()];
                let Value::Single(single) = decode(data_type, bytes) else { panic!("a narrow float") };
                if single.is_nan() || (single.is_infinite() && data_type.saturates()) {
                    continue;
                }
                numbers += 1;
                let mut back = Vec::new();
                encode(data_type, Value::Single(single), &mut back);
                assert_eq!(back, bytes, "{code:#x} of {data_type:?} is {single}");
            }
            assert!(numbers > codes * 3 / 4, "{data_type:?}: {numbers}");
        }
    }

    #[test]
    fn integers_wrap_divide_and_compare_as_their_type_does() {
        assert_eq!(fit(DataType::Int8, 200), (-56i64) as u64);
        assert_eq!(divide(DataType::Int8, 200, 3) as i64, -18);
        assert_eq!(divide(DataType::Uint8, 200, 3), 66);
        assert!(is_below(DataType::Int32, u64::from(u32::MAX), 0));
        assert!(!is_below(DataType::Uint32, u64::from(u32::MAX), 0));
        assert_eq!(divide(DataType::Uint64, u64::MAX, 2), u64::MAX / 2);
    }
}
