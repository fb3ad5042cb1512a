//! What arithmetic means for each element type: the wide type it is done in, the one rounding back, the order
//! of minimum and maximum.

use super::floats;
use crate::simd::Isa;

/// An element type as it lies in a buffer: native byte order, no alignment.
pub(super) trait Element: Copy {
    /// The element's bytes.
    type Bytes: Copy + Default + 'static;
    /// What sums and products are carried in.
    type Wide: Copy + Default;
    /// What minimum and maximum are carried in: ordered as the values are, −0 before +0.
    type Key: Copy + Default + Ord;
    /// Below every key of a number.
    const KEY_MIN: Self::Key;
    /// Above every key of a number.
    const KEY_MAX: Self::Key;
    /// Whether an [`Isa`] with lanes widens eight at a time.
    const WIDENS_BY_LANES: bool = false;
    /// Whether an [`Isa`] with lanes narrows eight at a time.
    const NARROWS_BY_LANES: bool = false;

    /// A buffer as elements.
    fn split(bytes: &[u8]) -> &[Self::Bytes];
    /// A buffer as elements, to be written.
    fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes];

    fn widen(bytes: Self::Bytes) -> Self::Wide;
    /// The one rounding; a NaN becomes the canonical quiet one, so that results do not depend on which operand's
    /// payload an instruction happens to keep.
    fn narrow(wide: Self::Wide) -> Self::Bytes;
    fn add(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn multiply(left: Self::Wide, right: Self::Wide) -> Self::Wide;

    /// The element's key; `missing` for NaN.
    fn key(bytes: Self::Bytes, missing: Self::Key) -> Self::Key;
    /// The element with this key; a NaN for the extreme keys.
    fn from_key(key: Self::Key) -> Self::Bytes;

    #[inline(always)]
    fn widen_lanes<I: Isa>(_isa: I, lanes: [Self::Bytes; 8]) -> [Self::Wide; 8] {
        lanes.map(Self::widen)
    }

    #[inline(always)]
    fn narrow_lanes<I: Isa>(_isa: I, lanes: [Self::Wide; 8]) -> [Self::Bytes; 8] {
        lanes.map(Self::narrow)
    }
}

/// An integer type, whose averages divide at the end.
pub(super) trait Whole: Element {
    /// Division truncating toward zero; `count` is not 0.
    fn divide(sum: Self::Wide, count: u32) -> Self::Wide;
}

/// IEEE binary16.
#[derive(Clone, Copy)]
pub(super) struct Half;
/// The upper half of a binary32.
#[derive(Clone, Copy)]
pub(super) struct BFloat;
/// 8-bit float E4M3FN.
#[derive(Clone, Copy)]
pub(super) struct E4M3;
/// 8-bit float E5M2.
#[derive(Clone, Copy)]
pub(super) struct E5M2;

macro_rules! buffer_of {
    ($bytes:literal) => {
        type Bytes = [u8; $bytes];

        #[inline(always)]
        fn split(bytes: &[u8]) -> &[Self::Bytes] {
            bytes.as_chunks().0
        }

        #[inline(always)]
        fn split_mut(bytes: &mut [u8]) -> &mut [Self::Bytes] {
            bytes.as_chunks_mut().0
        }
    };
}

macro_rules! integer {
    ($type:ident, $bytes:literal, $widest:ident) => {
        impl Element for $type {
            buffer_of!($bytes);
            type Wide = $type;
            type Key = $type;
            const KEY_MIN: $type = $type::MIN;
            const KEY_MAX: $type = $type::MAX;

            #[inline(always)]
            fn widen(bytes: Self::Bytes) -> $type {
                $type::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn narrow(wide: $type) -> Self::Bytes {
                wide.to_ne_bytes()
            }

            #[inline(always)]
            fn add(left: $type, right: $type) -> $type {
                left.wrapping_add(right)
            }

            #[inline(always)]
            fn multiply(left: $type, right: $type) -> $type {
                left.wrapping_mul(right)
            }

            #[inline(always)]
            fn key(bytes: Self::Bytes, _missing: $type) -> $type {
                $type::from_ne_bytes(bytes)
            }

            #[inline(always)]
            fn from_key(key: $type) -> Self::Bytes {
                key.to_ne_bytes()
            }
        }

        impl Whole for $type {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "a quotient is no larger than its dividend")]
            fn divide(sum: $type, count: u32) -> $type {
                ($widest::from(sum) / $widest::from(count)) as $type
            }
        }
    };
}

integer!(i8, 1, i64);
integer!(u8, 1, u64);
integer!(i32, 4, i64);
integer!(u32, 4, u64);
integer!(i64, 8, i64);
integer!(u64, 8, u64);

/// Keys of a float whose codes are sign and magnitude, and which has `$infinity` as the largest magnitude that is
/// not NaN and `$largest` as the largest a result may have.
macro_rules! ordered_as {
    ($code:ident, $key:ident, infinity $infinity:literal, largest $largest:literal, nan $nan:literal) => {
        type Key = $key;
        const KEY_MIN: $key = $key::MIN;
        const KEY_MAX: $key = $key::MAX;

        #[inline(always)]
        fn key(bytes: Self::Bytes, missing: $key) -> $key {
            let code = $code::from_ne_bytes(bytes);
            let magnitude = code & ($code::MAX >> 1);
            if magnitude > $infinity { missing } else { mirror!($code, code.cast_signed()) }
        }

        #[inline(always)]
        fn from_key(key: $key) -> Self::Bytes {
            let code = mirror!($code, key).cast_unsigned();
            let magnitude = code & ($code::MAX >> 1);
            let kept = (code ^ magnitude) | magnitude.min($largest);
            (if magnitude > $infinity { $nan } else { kept }).to_ne_bytes()
        }
    };
}

/// Negative codes count down from −0; flipping their magnitude makes them count up, and back.
macro_rules! mirror {
    ($code:ident, $signed:expr) => {{
        let signed = $signed;
        signed ^ ((signed >> ($code::BITS - 1)).cast_unsigned() >> 1).cast_signed()
    }};
}

macro_rules! arithmetic_in_f32 {
    ($code:ident, $widen:path, $narrow:path) => {
        type Wide = f32;

        #[inline(always)]
        fn widen(bytes: Self::Bytes) -> f32 {
            $widen($code::from_ne_bytes(bytes))
        }

        #[inline(always)]
        fn narrow(wide: f32) -> Self::Bytes {
            $narrow(wide).to_ne_bytes()
        }

        #[inline(always)]
        fn add(left: f32, right: f32) -> f32 {
            left + right
        }

        #[inline(always)]
        fn multiply(left: f32, right: f32) -> f32 {
            left * right
        }
    };
}

impl Element for f32 {
    buffer_of!(4);
    arithmetic_in_f32!(u32, Self::from_bits, canonical_f32);
    ordered_as!(u32, i32, infinity 0x7f80_0000, largest 0x7f80_0000, nan 0x7fc0_0000_u32);
}

impl Element for BFloat {
    buffer_of!(2);
    arithmetic_in_f32!(u16, floats::widen_bfloat, floats::narrow_bfloat);
    ordered_as!(u16, i16, infinity 0x7f80, largest 0x7f80, nan 0x7fc0_u16);
}

impl Element for E4M3 {
    buffer_of!(1);
    arithmetic_in_f32!(u8, floats::widen_e4m3, floats::narrow_e4m3);
    ordered_as!(u8, i8, infinity 0x7e, largest 0x7e, nan 0x7f_u8);
    const WIDENS_BY_LANES: bool = true;

    #[inline(always)]
    fn widen_lanes<I: Isa>(isa: I, lanes: [[u8; 1]; 8]) -> [f32; 8] {
        isa.widen_e4m3(lanes)
    }
}

impl Element for E5M2 {
    buffer_of!(1);
    arithmetic_in_f32!(u8, floats::widen_e5m2, floats::narrow_e5m2);
    ordered_as!(u8, i8, infinity 0x7c, largest 0x7b, nan 0x7f_u8);
    const WIDENS_BY_LANES: bool = true;

    #[inline(always)]
    fn widen_lanes<I: Isa>(isa: I, lanes: [[u8; 1]; 8]) -> [f32; 8] {
        isa.widen_e5m2(lanes)
    }
}

impl Element for Half {
    buffer_of!(2);
    arithmetic_in_f32!(u16, floats::widen_half, floats::narrow_half);
    ordered_as!(u16, i16, infinity 0x7c00, largest 0x7c00, nan 0x7e00_u16);
    const WIDENS_BY_LANES: bool = true;
    const NARROWS_BY_LANES: bool = true;

    #[inline(always)]
    fn widen_lanes<I: Isa>(isa: I, lanes: [[u8; 2]; 8]) -> [f32; 8] {
        isa.widen_halves(lanes)
    }

    #[inline(always)]
    fn narrow_lanes<I: Isa>(isa: I, lanes: [f32; 8]) -> [[u8; 2]; 8] {
        isa.narrow_halves(lanes)
    }
}

impl Element for f64 {
    buffer_of!(8);
    ordered_as!(
        u64, i64, infinity 0x7ff0_0000_0000_0000, largest 0x7ff0_0000_0000_0000, nan 0x7ff8_0000_0000_0000_u64
    );
    type Wide = Self;

    #[inline(always)]
    fn widen(bytes: [u8; 8]) -> Self {
        Self::from_ne_bytes(bytes)
    }

    #[inline(always)]
    fn narrow(wide: Self) -> [u8; 8] {
        let bits = if wide.is_nan() { 0x7ff8_0000_0000_0000 } else { wide.to_bits() };
        bits.to_ne_bytes()
    }

    #[inline(always)]
    fn add(left: Self, right: Self) -> Self {
        left + right
    }

    #[inline(always)]
    fn multiply(left: Self, right: Self) -> Self {
        left * right
    }
}

#[inline(always)]
fn canonical_f32(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}
