//! What generated code calls: the search for memory, and calculations that the host has no instruction for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use cranelift_codegen::ir::{self, AbiParam, FuncRef, types};
use cranelift_jit::JITBuilder;
use cranelift_module::{Linkage, Module as _};
use fakegpu_ptx::{Format, Rounding, round};

use crate::compile::Unit;
use crate::context::Context;
use crate::run::{Worker, fault, find};

macro_rules! helpers {
    ($($name:ident = $symbol:literal $function:ident ($($arg:ident),*) $(-> $ret:ident)?;)*) => {
        /// A function that generated code calls.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Helper { $($name),* }

        impl Helper {
            const fn symbol(self) -> &'static str {
                match self { $(Self::$name => concat!("fakegpu_", $symbol)),* }
            }

            const fn types(self) -> (&'static [ir::Type], &'static [ir::Type]) {
                match self { $(Self::$name => (&[$(types::$arg),*], &[$(types::$ret)?])),* }
            }
        }

        /// Makes the functions known by their names, and those of C's that the compiler itself may call.
        pub(crate) fn register(builder: &mut JITBuilder) {
            $(builder.symbol(Helper::$name.symbol(), $function as *const u8);)*
            let c: [(&str, *const u8); 10] = [
                ("floorf", floor32 as *const u8), ("floor", floor64 as *const u8),
                ("ceilf", ceil32 as *const u8), ("ceil", ceil64 as *const u8),
                ("truncf", trunc32 as *const u8), ("trunc", trunc64 as *const u8),
                ("nearbyintf", even32 as *const u8), ("nearbyint", even64 as *const u8),
                ("fmaf", fma32 as *const u8), ("fma", fma64 as *const u8),
            ];
            builder.symbols(c);
        }
    };
}

helpers! {
    Find = "find" find_memory (I64, I32, I32, I32, I64) -> I32;
    Fault = "fault" note_fault (I64, I32, I32);
    Clock = "clock" clock () -> I64;
    RoundF64 = "round" round_f64 (F64, I32) -> I64;
    RoundInt = "round_int" round_int (I64, I32) -> I64;
    WidenF16 = "widen_f16" widen_f16 (I32) -> F32;
    WidenFp8 = "widen_fp8" widen_fp8 (I32, I32) -> F32;
    Directed = "directed" directed (F32, F32, F32, I32) -> F32;
    FmaNarrow = "fma_narrow" fma_narrow (F64, F64, F64, I32) -> I64;
    Ex2 = "ex2" ex2 (F32) -> F32;
    Lg2 = "lg2" lg2 (F32) -> F32;
    Sin = "sin" sin (F32) -> F32;
    Cos = "cos" cos (F32) -> F32;
    Tanh = "tanh" tanh (F32) -> F32;
    Permute = "permute" permute (I32, I32, I32, I32) -> I32;
    Extract = "extract" extract (I64, I32, I32, I32) -> I64;
    Insert = "insert" insert (I64, I64, I32, I32) -> I64;
    Dp4a = "dp4a" dp4a (I32, I32, I32, I32) -> I32;
    AtomicAddF32 = "atomic_f32" atomic_f32 (I64, I64) -> I64;
    AtomicAddF64 = "atomic_f64" atomic_f64 (I64, I64) -> I64;
    AtomicAddF16 = "atomic_f16" atomic_f16 (I64, I64) -> I64;
    AtomicAddBf16 = "atomic_bf16" atomic_bf16 (I64, I64) -> I64;
    AtomicAddF16x2 = "atomic_f16x2" atomic_f16x2 (I64, I64) -> I64;
    AtomicAddBf16x2 = "atomic_bf16x2" atomic_bf16x2 (I64, I64) -> I64;
    AtomicInc = "atomic_inc" atomic_inc (I64, I64) -> I64;
    AtomicDec = "atomic_dec" atomic_dec (I64, I64) -> I64;
}

impl Helper {
    /// Makes the function known inside one that is being translated.
    pub(crate) fn declare(self, unit: &mut Unit<'_>, function: &mut ir::Function) -> FuncRef {
        let id = unit.helpers.get(&self).copied();
        let id = id.unwrap_or_else(|| {
            let mut signature = unit.jit.make_signature();
            let (args, results) = self.types();
            signature.params.extend(args.iter().map(|ty| AbiParam::new(*ty)));
            signature.returns.extend(results.iter().map(|ty| AbiParam::new(*ty)));
            let declared = unit.jit.declare_function(self.symbol(), Linkage::Import, &signature);
            #[expect(
                clippy::expect_used,
                reason = "each symbol is declared once with one signature; caught all the same"
            )]
            let id = declared.expect("a helper is declared once");
            unit.helpers.insert(self, id);
            id
        });
        unit.jit.declare_func_in_func(id, function)
    }
}

/// Formats by the number that generated code has for them.
pub(crate) const FORMATS: [Format; 6] =
    [Format::F16, Format::BF16, Format::F32, Format::TF32, Format::E4M3, Format::E5M2];

const ROUNDINGS: [Rounding; 5] =
    [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up, Rounding::NearestAway];

/// A format and a rounding as one number.
pub(crate) fn rounding_word(format: Format, rounding: Rounding) -> u64 {
    let format = FORMATS.iter().position(|known| *known == format).unwrap_or(0);
    let rounding = ROUNDINGS.iter().position(|known| *known == rounding).unwrap_or(0);
    (format << 8 | rounding) as u64
}

fn from_word(word: u32) -> (Format, Rounding) {
    let [rounding, format, ..] = word.to_le_bytes();
    let format = FORMATS.get(usize::from(format)).copied().unwrap_or(Format::F32);
    (format, ROUNDINGS.get(usize::from(rounding)).copied().unwrap_or(Rounding::Nearest))
}

extern "C" fn find_memory(context: *mut Context, place: u32, what: u32, line: u32, address: u64) -> u32 {
    // SAFETY: generated code hands on the context that `run` made, which lives as long as the thread runs.
    let worker: *mut Worker = unsafe { (*context).worker };
    // SAFETY: as above; the worker belongs to this thread of the host, and nobody else refers to it meanwhile.
    let worker = unsafe { &mut *worker };
    u32::from(!find(worker, context, place, what, line, address))
}

extern "C" fn note_fault(context: *mut Context, kind: u32, line: u32) {
    // SAFETY: as in `find_memory`.
    let worker: *mut Worker = unsafe { (*context).worker };
    // SAFETY: as in `find_memory`.
    let worker = unsafe { &mut *worker };
    fault(worker, context, kind, line);
}

/// Nanoseconds since the first question.
extern "C" fn clock() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let began = BEGAN.get_or_init(Instant::now);
    u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

extern "C" fn round_f64(value: f64, word: u32) -> u64 {
    let (format, rounding) = from_word(word);
    round(value, format, rounding)
}

/// An integer, signed where bit 16 of the word says so, as a float; a format of 64 bits is number 7.
extern "C" fn round_int(value: u64, word: u32) -> u64 {
    let is_negative = word & 1 << 16 != 0 && value.cast_signed() < 0;
    let magnitude = if is_negative { value.wrapping_neg() } else { value };
    let (format, rounding) = from_word(word & 0xffff);
    let is_f64 = word >> 8 & 0xff == 7;
    // The low bits that 53 cannot hold become one, which tells every rounding what it must know.
    let shift = 64 - magnitude.leading_zeros();
    let shift = shift.saturating_sub(53);
    if is_f64 {
        return int_to_f64(magnitude, shift, is_negative, rounding);
    }
    let kept = magnitude >> shift;
    let lost = magnitude & ((1 << shift) - 1);
    #[expect(clippy::cast_precision_loss, reason = "53 bits at most")]
    let value = (kept | u64::from(lost != 0)) as f64 * f64::from(1_u32 << shift);
    round(if is_negative { -value } else { value }, format, rounding)
}

fn int_to_f64(magnitude: u64, shift: u32, is_negative: bool, rounding: Rounding) -> u64 {
    let lost = magnitude & ((1 << shift) - 1);
    let half = if shift == 0 { 0 } else { 1_u64 << (shift - 1) };
    let kept = magnitude >> shift;
    let up = match rounding {
        Rounding::Zero => false,
        Rounding::Down => is_negative && lost != 0,
        Rounding::Up => !is_negative && lost != 0,
        _ => shift > 0 && (lost > half || lost == half && kept & 1 == 1),
    };
    #[expect(clippy::cast_precision_loss, reason = "53 bits at most, or a power of 2")]
    let value = (kept + u64::from(up)) as f64 * f64::from(1_u32 << shift);
    (if is_negative { -value } else { value }).to_bits()
}

/// The number that 16 bits of IEEE's are.
extern "C" fn widen_f16(bits: u32) -> f32 {
    widen(bits, Format::F16)
}

extern "C" fn widen_fp8(bits: u32, format: u32) -> f32 {
    widen(bits & 0xff, FORMATS.get(format as usize).copied().unwrap_or(Format::E5M2))
}

fn widen(bits: u32, format: Format) -> f32 {
    if format == Format::BF16 {
        return f32::from_bits(bits << 16);
    }
    let Format { exponent_bits, fraction_bits, .. } = format;
    let fraction = bits & ((1 << fraction_bits) - 1);
    let exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    let top = (1 << exponent_bits) - 1;
    let sign = bits >> (exponent_bits + fraction_bits) << 31;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let is_e4m3 = exponent_bits == 4;
    let magnitude = if exponent == top && (!is_e4m3 || fraction == 0b111) {
        if fraction == 0 { f32::INFINITY.to_bits() } else { return f32::from_bits(0x7fff_ffff) }
    } else if exponent == 0 {
        #[expect(clippy::cast_precision_loss, reason = "10 bits at most")]
        let value = fraction as f32 * f32::from_bits((127 + 1 - bias - fraction_bits) << 23);
        value.to_bits()
    } else {
        (exponent + 127 - bias) << 23 | fraction << (23 - fraction_bits)
    };
    f32::from_bits(sign | magnitude)
}

/// An operation of 32-bit floats that is not rounded to the nearest: 0 add, 1 multiply, 2 multiply and add, 3 divide,
/// 4 square root.
extern "C" fn directed(a: f32, b: f32, c: f32, word: u32) -> f32 {
    let (_, rounding) = from_word(word & 0xff);
    let (a, b, c) = (f64::from(a), f64::from(b), f64::from(c));
    let exact = match word >> 16 {
        0 => add_to_odd(a, b),
        1 => a * b,
        2 => add_to_odd(a * b, c),
        // A quotient or a root of 24-bit numbers is no nearer to one of theirs than 64-bit floats can tell.
        3 => a / b,
        _ => a.sqrt(),
    };
    let bits = if exact == 0.0 && matches!(word >> 16, 0 | 2) && rounding == Rounding::Down {
        // A sum that is exactly zero is -0 when rounded down, unless both were +0.
        let both = if word >> 16 == 0 { (a, b) } else { (a * b, c) };
        let plus = both.0 == 0.0 && both.0.is_sign_positive() && both.1.is_sign_positive();
        if plus { 0 } else { 1 << 31 }
    } else {
        round(exact, Format::F32, rounding)
    };
    f32::from_bits(u32::try_from(bits).unwrap_or(0))
}

/// A sum, of which the last bit is one where it is not exact: so it can be rounded again.
fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    let back = sum - a;
    let error = (a - (sum - back)) + (b - back);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    // Towards the exact sum, whose neighbour is odd.
    let up = (error > 0.0) == (sum > 0.0 || (sum == 0.0 && error > 0.0));
    f64::from_bits(if up { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

extern "C" fn fma_narrow(a: f64, b: f64, c: f64, word: u32) -> u64 {
    let (format, rounding) = from_word(word);
    round(add_to_odd(a * b, c), format, rounding)
}

#[expect(clippy::cast_possible_truncation, reason = "the nearest 32-bit float is what is asked for")]
const fn narrow(value: f64) -> f32 {
    value as f32
}

extern "C" fn ex2(value: f32) -> f32 {
    narrow(f64::from(value).exp2())
}

extern "C" fn lg2(value: f32) -> f32 {
    narrow(f64::from(value).log2())
}

extern "C" fn sin(value: f32) -> f32 {
    narrow(f64::from(value).sin())
}

extern "C" fn cos(value: f32) -> f32 {
    narrow(f64::from(value).cos())
}

extern "C" fn tanh(value: f32) -> f32 {
    narrow(f64::from(value).tanh())
}

/// `prmt`: four bytes out of eight, each chosen by four bits; or one of its six named patterns.
extern "C" fn permute(a: u32, b: u32, selector: u32, mode: u32) -> u32 {
    let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
    let pick = |choice: u32| {
        let byte = bytes.get((choice & 7) as usize).copied().unwrap_or(0);
        if choice & 8 != 0 { if byte >> 7 == 1 { 0xff } else { 0 } } else { byte }
    };
    let low = selector & 3;
    let choice = |place: u32| match mode {
        0 => selector >> (4 * place),
        // f4e, b4e, rc8, ecl, ecr, rc16.
        1 => low + place,
        2 => low.wrapping_sub(place) & 7,
        3 => low,
        4 => place.max(low),
        5 => place.min(low),
        _ => (low & 1) * 2 + (place & 1),
    };
    let chosen = [0, 1, 2, 3].map(|place| {
        let choice = choice(place);
        pick(if mode == 0 { choice } else { choice & 7 })
    });
    u32::from_le_bytes(chosen)
}

/// `bfe`; bit 0 of the word: signed, bit 1: of 64 bits.
extern "C" fn extract(value: u64, place: u32, length: u32, word: u32) -> u64 {
    let bits = if word & 2 != 0 { 64 } else { 32 };
    let (place, length) = (place & 0xff, length & 0xff);
    let is_signed = word & 1 != 0;
    if length == 0 {
        return 0;
    }
    let last = (place + length - 1).min(bits - 1);
    let sign = is_signed && value >> last & 1 == 1;
    let mut result = if place < bits { value >> place } else { 0 };
    let has = if place < bits { length.min(bits - place) } else { 0 };
    if has < 64 {
        result &= (1 << has) - 1;
    }
    if sign && has < 64 {
        result |= u64::MAX << has;
    }
    result
}

/// `bfi` into 64 bits; into 32 where bit 31 of the length says so.
extern "C" fn insert(value: u64, into: u64, place: u32, length: u32) -> u64 {
    let bits = if length >> 31 == 1 { 32 } else { 64 };
    let (place, length) = (place & 0xff, length & 0xff);
    if place >= bits || length == 0 {
        return into;
    }
    let length = length.min(bits - place);
    let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    into & !(mask << place) | (value & mask) << place
}

extern "C" fn dp4a(a: u32, b: u32, c: u32, word: u32) -> u32 {
    let wide = |byte: u8, is_signed: bool| {
        if is_signed { i32::from(byte.cast_signed()) } else { i32::from(byte) }
    };
    let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    products.fold(c, |sum, (a, b)| {
        let product = wide(a, word & 1 != 0).wrapping_mul(wide(b, word & 2 != 0));
        sum.wrapping_add(product.cast_unsigned())
    })
}

/// Replaces a number by what `change` makes of it, atomically; what it was.
macro_rules! atomic {
    ($name:ident, $atomic:ty, $word:ty, $change:expr) => {
        extern "C" fn $name(address: u64, value: u64) -> u64 {
            let change: fn($word, $word) -> $word = $change;
            let at = std::ptr::with_exposed_provenance_mut::<$word>(usize::try_from(address).unwrap_or(0));
            // SAFETY: generated code has checked that the word lies in memory that is mapped for the whole launch, and is
            // aligned. That others change it meanwhile is what atomics are for.
            let word = unsafe { <$atomic>::from_ptr(at) };
            let value = <$word>::try_from(value & u64::from(<$word>::MAX)).unwrap_or_default();
            let changed = |old| Some(change(old, value));
            let old = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
            let old = match old {
                Ok(old) | Err(old) => old,
            };
            u64::from(old)
        }
    };
}

fn add_narrow(a: u16, b: u16, format: Format) -> u16 {
    let sum = f64::from(widen(u32::from(a), format)) + f64::from(widen(u32::from(b), format));
    u16::try_from(round(sum, format, Rounding::Nearest)).unwrap_or(0)
}

fn add_pair(a: u32, b: u32, format: Format) -> u32 {
    let half = |word: u32, shift: u32| u16::try_from(word >> shift & 0xffff).unwrap_or(0);
    let low = add_narrow(half(a, 0), half(b, 0), format);
    let high = add_narrow(half(a, 16), half(b, 16), format);
    u32::from(high) << 16 | u32::from(low)
}

atomic!(atomic_f32, AtomicU32, u32, |a, b| (f32::from_bits(a) + f32::from_bits(b)).to_bits());
atomic!(atomic_f64, AtomicU64, u64, |a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits());
atomic!(atomic_f16, AtomicU16, u16, |a, b| add_narrow(a, b, Format::F16));
atomic!(atomic_bf16, AtomicU16, u16, |a, b| add_narrow(a, b, Format::BF16));
atomic!(atomic_f16x2, AtomicU32, u32, |a, b| add_pair(a, b, Format::F16));
atomic!(atomic_bf16x2, AtomicU32, u32, |a, b| add_pair(a, b, Format::BF16));
atomic!(atomic_inc, AtomicU32, u32, |old, most| if old >= most { 0 } else { old + 1 });
atomic!(atomic_dec, AtomicU32, u32, |old, most| if old == 0 || old > most { most } else { old - 1 });

extern "C" fn floor32(value: f32) -> f32 {
    value.floor()
}
extern "C" fn floor64(value: f64) -> f64 {
    value.floor()
}
extern "C" fn ceil32(value: f32) -> f32 {
    value.ceil()
}
extern "C" fn ceil64(value: f64) -> f64 {
    value.ceil()
}
extern "C" fn trunc32(value: f32) -> f32 {
    value.trunc()
}
extern "C" fn trunc64(value: f64) -> f64 {
    value.trunc()
}
extern "C" fn even32(value: f32) -> f32 {
    value.round_ties_even()
}
extern "C" fn even64(value: f64) -> f64 {
    value.round_ties_even()
}
extern "C" fn fma32(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}
extern "C" fn fma64(a: f64, b: f64, c: f64) -> f64 {
    a.mul_add(b, c)
}
