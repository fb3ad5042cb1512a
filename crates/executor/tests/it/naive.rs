//! What NCCL promises, by definition: whole tensors, no rounds, values as wide as they come.

use fakegpu_executor::{Reduction, Scalar, Shape};
use fakegpu_units::{Collective, DataType, ReduceOp};

/// An IEEE-like format, by its numbers.
#[derive(Clone, Copy)]
struct Format {
    bits: u32,
    mantissa: u32,
    bias: i32,
    /// The code of the largest finite value.
    largest: u64,
    saturates: bool,
    nan: u64,
}

fn format(data_type: DataType) -> Format {
    let ieee = |bits: u32, mantissa: u32| {
        let infinity = ((1_u64 << (bits - 1 - mantissa)) - 1) << mantissa;
        Format {
            bits,
            mantissa,
            bias: (1 << (bits - 2 - mantissa)) - 1,
            largest: infinity - 1,
            saturates: false,
            nan: infinity | 1 << (mantissa - 1),
        }
    };
    match data_type {
        DataType::Float16 => ieee(16, 10),
        DataType::BFloat16 => ieee(16, 7),
        DataType::Float32 => ieee(32, 23),
        DataType::Float64 => ieee(64, 52),
        DataType::Float8E4M3 => {
            Format { bits: 8, mantissa: 3, bias: 7, largest: 0x7e, saturates: true, nan: 0x7f }
        }
        DataType::Float8E5M2 => Format { saturates: true, nan: 0x7f, ..ieee(8, 2) },
        integer => panic!("{integer} is no float"),
    }
}

impl Format {
    fn sign(self) -> u64 {
        1 << (self.bits - 1)
    }

    fn decode(self, code: u64) -> f64 {
        if self.bits == 64 {
            return f64::from_bits(code);
        }
        let magnitude = code & (self.sign() - 1);
        let (exponent, fraction) = (magnitude >> self.mantissa, magnitude & ((1 << self.mantissa) - 1));
        let unit = (2.0_f64).powi(1 - self.bias - self.mantissa as i32);
        let value = match (magnitude, exponent) {
            (beyond, _) if beyond == self.largest + 1 && self.mantissa != 3 => f64::INFINITY,
            (beyond, _) if beyond > self.largest => f64::NAN,
            (_, 0) => fraction as f64 * unit,
            _ => (fraction + (1 << self.mantissa)) as f64 * unit * (2.0_f64).powi(exponent as i32 - 1),
        };
        if code & self.sign() == 0 { value } else { -value }
    }

    /// The code of the nearest value by search, the even one of two as near.
    fn encode(self, value: f64) -> u64 {
        if value.is_nan() {
            return self.nan;
        }
        if self.bits == 64 {
            return value.to_bits();
        }
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        let target = value.abs();
        let (mut low, mut high) = (0, self.largest + 1);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.decode(middle) <= target { low = middle } else { high = middle }
        }
        // One past the largest counts as the value it would have without an upper end.
        let step = self.decode(self.largest) - self.decode(self.largest - 1);
        let above = if high > self.largest { self.decode(self.largest) + step } else { self.decode(high) };
        let (down, up) = (target - self.decode(low), above - target);
        let nearest = if down < up || (down == up && low % 2 == 0) { low } else { high };
        sign | if self.saturates { nearest.min(self.largest) } else { nearest }
    }
}

fn code_of(bytes: &[u8]) -> u64 {
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(padded)
}

/// Arithmetic of the wide type: exact in f64 and rounded to f32, which for one sum or product of two f32 is the
/// same as rounding once.
fn widened(data_type: DataType, exact: f64) -> f64 {
    if data_type == DataType::Float64 { exact } else { f64::from(exact as f32) }
}

fn fold_floats(reduction: Reduction, codes: &[u64]) -> u64 {
    let Reduction { data_type, op, .. } = reduction;
    let format = format(data_type);
    let values = codes.iter().map(|&code| format.decode(code));
    let numbers = values.clone().filter(|value| !value.is_nan());
    let total = match op {
        ReduceOp::Min => numbers.min_by(f64::total_cmp).unwrap_or(f64::NAN),
        ReduceOp::Max => numbers.max_by(f64::total_cmp).unwrap_or(f64::NAN),
        ReduceOp::Prod => values.reduce(|left, right| widened(data_type, left * right)).unwrap(),
        _ => values.reduce(|left, right| widened(data_type, left + right)).unwrap(),
    };
    let keeps_bits = matches!(data_type, DataType::Float32 | DataType::Float64);
    match codes {
        [only] if keeps_bits && !matches!(op, ReduceOp::Min | ReduceOp::Max) => *only,
        _ => format.encode(total),
    }
}

/// The value modulo 2^bits that the type represents.
fn wrapped(data_type: DataType, value: i128) -> i128 {
    let bits = data_type.size() * 8;
    let low = value & ((1 << bits) - 1);
    let signed = matches!(data_type, DataType::Int8 | DataType::Int32 | DataType::Int64);
    if signed && low >> (bits - 1) == 1 { low - (1 << bits) } else { low }
}

fn fold_integers(reduction: Reduction, codes: &[u64]) -> u64 {
    let Reduction { data_type, op, size } = reduction;
    let values = codes.iter().map(|&code| wrapped(data_type, i128::from(code)));
    let total = match op {
        ReduceOp::Min => values.min().unwrap(),
        ReduceOp::Max => values.max().unwrap(),
        ReduceOp::Prod => values.reduce(|left, right| wrapped(data_type, left.wrapping_mul(right))).unwrap(),
        ReduceOp::Avg => wrapped(data_type, values.sum()) / i128::from(size),
        _ => values.sum(),
    };
    (total & i128::from(u64::MAX)) as u64
}

/// The reduction of whole buffers.
pub(crate) fn fold(reduction: Reduction, sources: &[&[u8]]) -> Vec<u8> {
    let elem_bytes = reduction.data_type.size();
    let fold = if reduction.data_type.is_float() { fold_floats } else { fold_integers };
    (0..sources[0].len() / elem_bytes)
        .flat_map(|at| {
            let element = |source: &&[u8]| code_of(&source[at * elem_bytes..][..elem_bytes]);
            let codes: Vec<u64> = sources.iter().map(element).collect();
            fold(reduction, &codes).to_le_bytes().into_iter().take(elem_bytes)
        })
        .collect()
}

/// Each element times the scalar, rounded once from the wide type.
pub(crate) fn scale(scalar: Scalar, source: &[u8]) -> Vec<u8> {
    let data_type = scalar.data_type();
    let times = |code: u64| {
        let factor = code_of(scalar.as_bytes());
        if data_type.is_float() {
            let format = format(data_type);
            format.encode(widened(data_type, format.decode(code) * format.decode(factor)))
        } else {
            code.wrapping_mul(factor)
        }
    };
    let scaled = |element: &[u8]| times(code_of(element)).to_le_bytes().into_iter().take(element.len());
    source.chunks(data_type.size()).flat_map(scaled).collect()
}

/// What each rank's receive buffer holds afterwards; empty for ranks that receive nothing.
pub(crate) fn outcome(shape: &Shape, reduction: Option<Reduction>, sends: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let block = shape.count as usize * shape.elem_bytes;
    let (size, root) = (shape.size as usize, shape.root.index());
    let piece = |rank: usize, index: usize| &sends[rank][index * block..(index + 1) * block];
    let at_root = |bytes: Vec<u8>| -> Vec<Vec<u8>> {
        (0..size).map(|rank| if rank == root { bytes.clone() } else { vec![] }).collect()
    };
    let reduced = |index: usize| {
        let sources: Vec<&[u8]> = (0..size).map(|rank| piece(rank, index)).collect();
        fold(reduction.unwrap(), &sources)
    };
    match shape.op {
        Collective::AllReduce => vec![reduced(0); size],
        Collective::Reduce => at_root(reduced(0)),
        Collective::ReduceScatter => (0..size).map(reduced).collect(),
        Collective::Broadcast => vec![piece(root, 0).to_vec(); size],
        Collective::AllGather => vec![sends.concat(); size],
        Collective::Gather => at_root(sends.concat()),
        Collective::Scatter => (0..size).map(|rank| piece(root, rank).to_vec()).collect(),
        Collective::AllToAll => {
            let column = |to| (0..size).flat_map(|from| piece(from, to)).copied().collect();
            (0..size).map(column).collect()
        }
    }
}

/// Random elements, a quarter of them the values where formats end: zeros, infinities, NaNs, extremes, ±1.
pub(crate) fn elements(data_type: DataType, count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    let bits = data_type.size() * 8;
    let sign = 1_u64 << (bits - 1);
    let telling: Vec<u64> = if data_type.is_float() {
        let Format { largest, nan, mantissa, bias, .. } = format(data_type);
        vec![0, 1, largest, largest + 1, largest + 2, nan, (bias as u64) << mantissa, 1 << mantissa]
    } else {
        vec![0, 1, sign - 1, 2, 3, sign >> 1]
    };
    let mut element = move || match next() {
        pick if pick % 4 == 0 => {
            telling[(pick >> 8) as usize % telling.len()] ^ if pick & 4 == 0 { sign } else { 0 }
        }
        // Magnitudes near one, where sums neither overflow nor vanish.
        pick if pick % 4 == 1 && data_type.is_float() => {
            let code = format(data_type).encode((pick >> 32) as f64 / f64::from(1 << 30) - 2.0);
            if data_type == DataType::Float64 { (pick as f64 / 1e18 - 9.0).to_bits() } else { code }
        }
        random => random,
    };
    (0..count).flat_map(|_| element().to_le_bytes().into_iter().take(bits / 8)).collect()
}
