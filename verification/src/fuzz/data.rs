//! What is in a rank's buffers before a call, and what must be in them after it.

use super::element::{self, DataType, Value, decode, encode, widen};
use super::matching::{At, Forecast, Met, Place};
use super::program::{Op, Program, ReduceOp};
use super::random::Random;

/// A call's buffers. In place they are one, of which both are parts.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The buffer that is sent from; empty in place.
    pub send: Vec<u8>,
    /// The buffer that is received into; in place, the one there is.
    pub recv: Vec<u8>,
    /// Where in its buffer what is sent begins.
    pub send_at: usize,
    /// Where in its buffer what is received begins.
    pub recv_at: usize,
    /// Whether there is one buffer only.
    pub shared: bool,
}

/// Bytes of a receive buffer after a call.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where they begin.
    pub at: usize,
    /// How many they are.
    pub bytes: usize,
    /// What they must be once the call has succeeded; `None` where nobody sends them.
    pub wanted: Option<Vec<u8>>,
    /// The type, where no number is as good as another.
    pub combined: Option<DataType>,
}

impl Program {
    /// The operation of a call; `None` for a split.
    pub fn op(&self, at: At) -> Option<&Op> {
        match self.scripts.get(at.rank)?.get(at.step)? {
            super::program::Step::Group { ops, .. } => ops.get(at.op),
            super::program::Step::Split { .. } => None,
        }
    }

    /// What a rank sends in a call, from the first block on.
    fn sent(&self, rank: usize, op: &Op, blocks: usize) -> Vec<u8> {
        let mut random = Random::keyed(&[self.seed, 2, rank as u64, u64::from(op.id)]);
        let mut bytes = Vec::with_capacity(blocks * op.block());
        let special = self.special && op.id.is_multiple_of(2);
        for _ in 0..blocks * op.count {
            put_element(&mut random, op.data_type, special, &mut bytes);
        }
        bytes
    }

    /// The buffers of a call as it finds them.
    pub fn memory(&self, rank: usize, op: &Op, place: Place) -> Memory {
        let (sends, recvs) =
            (op.kind.send_blocks(place.member, place.size), op.kind.recv_blocks(place.member, place.size));
        let send = self.sent(rank, op, sends);
        let mut random = Random::keyed(&[self.seed, 3, rank as u64, u64::from(op.id)]);
        let mut poison = |bytes: usize| {
            let mut filled = Vec::with_capacity(bytes + 8);
            while filled.len() < bytes {
                filled.extend(random.next_u64().to_le_bytes());
            }
            filled.truncate(bytes);
            filled
        };
        if !op.in_place || sends == 0 || recvs == 0 {
            return Memory { send, recv: poison(recvs * op.block()), send_at: 0, recv_at: 0, shared: false };
        }
        let own = place.member * op.block();
        let (send_at, recv_at) = (if recvs > sends { own } else { 0 }, if sends > recvs { own } else { 0 });
        let mut recv = poison(sends.max(recvs) * op.block());
        recv[send_at..send_at + send.len()].copy_from_slice(&send);
        Memory { send: Vec::new(), recv, send_at, recv_at, shared: true }
    }

    /// What a call's receive buffer holds once it has succeeded, from where it begins.
    pub fn pieces(&self, forecast: &Forecast, at: At) -> Vec<Piece> {
        let Some(op) = self.op(at) else { return Vec::new() };
        let Some(place) = forecast.place(at.rank, at.step, op.comm) else { return Vec::new() };
        let whole = op.kind.recv_blocks(place.member, place.size) * op.block();
        match forecast.met(at) {
            Met::Ordered(Some(calls)) if whole > 0 => vec![self.combined(op, place, calls, whole)],
            Met::Paired(received) => received
                .iter()
                .map(|received| Piece {
                    at: received.block * op.block(),
                    bytes: op.block(),
                    wanted: received.from.map(|(from, block)| self.block(from, block)),
                    combined: None,
                })
                .collect(),
            _ => vec![Piece { at: 0, bytes: whole, wanted: None, combined: None }],
        }
    }

    /// One block of what a call sends.
    fn block(&self, at: At, block: usize) -> Vec<u8> {
        let Some(op) = self.op(at) else { return Vec::new() };
        let sent = self.sent(at.rank, op, block + 1);
        sent[block * op.block()..].to_vec()
    }

    fn combined(&self, op: &Op, place: Place, calls: &[At], whole: usize) -> Piece {
        let reduces = op.kind.reduce();
        let wanted = match (reduces, op.kind.root()) {
            (Some(reduce), root) => {
                let block = if op.kind.send_blocks(place.member, place.size) > 1 { place.member } else { 0 };
                debug_assert!(root.is_none_or(|root| usize::try_from(root) == Ok(place.member)));
                let contributions: Vec<Vec<u8>> = calls.iter().map(|&at| self.block(at, block)).collect();
                combine(reduce, op.data_type, &contributions)
            }
            (None, Some(root)) => usize::try_from(root)
                .ok()
                .and_then(|root| calls.get(root))
                .map_or_else(Vec::new, |&at| self.block(at, 0)),
            (None, None) => calls.iter().flat_map(|&at| self.block(at, 0)).collect(),
        };
        Piece { at: 0, bytes: whole, wanted: Some(wanted), combined: reduces.map(|_| op.data_type) }
    }
}

impl Piece {
    /// Where bytes are first not the ones that are wanted.
    pub fn differs(&self, found: &[u8]) -> Option<usize> {
        let wanted = self.wanted.as_deref()?;
        if found == wanted {
            return None;
        }
        let size = self.combined.map_or(1, DataType::size);
        let mut elements = found.chunks(size).zip(wanted.chunks(size));
        let is_right = |(found, wanted): (&[u8], &[u8])| {
            found == wanted
                || self.combined.is_some_and(|data_type| {
                    element::is_nan(data_type, found) && element::is_nan(data_type, wanted)
                })
        };
        elements
            .position(|pair| !is_right(pair))
            .or_else(|| (found.len() != wanted.len()).then(|| wanted.len() / size))
    }
}

fn put_element(random: &mut Random, data_type: DataType, special: bool, to: &mut Vec<u8>) {
    let bits = random.next_u64();
    if !data_type.is_float() {
        // Mostly small, sometimes anything, so that sums wrap.
        let small = i64::try_from(bits >> 4).unwrap_or(0) % 201 - 100;
        let value = if bits.is_multiple_of(16) { bits >> 4 } else { small.cast_unsigned() };
        return encode(data_type, Value::Integer(value), to);
    }
    let largest = match data_type {
        DataType::Float16 => 65_504.0,
        DataType::Float8E4M3 => 448.0,
        DataType::Float8E5M2 => 57_344.0,
        _ => 3e38,
    };
    let choice = bits >> 58;
    let number = match choice {
        0..4 if special => f64::NAN,
        4 | 5 if special && !data_type.saturates() => f64::INFINITY,
        6 if special && !data_type.saturates() => f64::NEG_INFINITY,
        7 | 8 if special => largest,
        9 | 10 if special => -largest,
        11..14 if special => 1e-40,
        14 | 15 => 0.0,
        16 | 17 => -0.0,
        18..24 => unit(bits) / 65_536.0,
        _ => unit(bits) * 8.0 - 4.0,
    };
    encode(data_type, widen(data_type, number), to);
}

/// A number from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "32 bits fit")]
fn unit(bits: u64) -> f64 {
    (bits & 0xffff_ffff) as f64 / 4_294_967_296.0
}

/// Elements of all ranks, in rank order, combined into one each.
fn combine(op: ReduceOp, data_type: DataType, contributions: &[Vec<u8>]) -> Vec<u8> {
    let size = data_type.size();
    let ranks = contributions.len();
    let count = contributions.first().map_or(0, |first| first.len() / size);
    let share = rounded(data_type, quotient(data_type, ranks));
    let mut result = Vec::with_capacity(count * size);
    for element in 0..count {
        let mut sum = None;
        for contribution in contributions {
            let mut value = decode(data_type, &contribution[element * size..(element + 1) * size]);
            if op == ReduceOp::Avg && data_type.is_float() {
                value = rounded(data_type, multiply(value, share));
            }
            sum = Some(sum.map_or(value, |sum| apply(op, data_type, sum, value)));
        }
        let mut value = sum.unwrap_or(Value::Integer(0));
        if let (ReduceOp::Avg, Value::Integer(bits)) = (op, value) {
            value = Value::Integer(element::divide(data_type, bits, ranks as u64));
        }
        encode(data_type, value, &mut result);
    }
    result
}

/// One rank's share, in the arithmetic of the type.
#[expect(clippy::cast_precision_loss, reason = "few ranks")]
fn quotient(data_type: DataType, ranks: usize) -> Value {
    match data_type {
        DataType::Float64 => Value::Double(1.0 / ranks as f64),
        _ => Value::Single(1.0 / ranks as f32),
    }
}

/// A value as an element of the type holds it.
fn rounded(data_type: DataType, value: Value) -> Value {
    let mut bytes = Vec::new();
    encode(data_type, value, &mut bytes);
    decode(data_type, &bytes)
}

fn multiply(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Single(one), Value::Single(other)) => Value::Single(one * other),
        (Value::Double(one), Value::Double(other)) => Value::Double(one * other),
        (Value::Integer(one), Value::Integer(other)) => Value::Integer(one.wrapping_mul(other)),
        _ => one,
    }
}

fn apply(op: ReduceOp, data_type: DataType, one: Value, other: Value) -> Value {
    match (op, one, other) {
        (ReduceOp::Prod, ..) => multiply(one, other),
        (ReduceOp::Sum | ReduceOp::Avg, Value::Single(one), Value::Single(other)) => {
            Value::Single(one + other)
        }
        (ReduceOp::Sum | ReduceOp::Avg, Value::Double(one), Value::Double(other)) => {
            Value::Double(one + other)
        }
        (ReduceOp::Sum | ReduceOp::Avg, Value::Integer(one), Value::Integer(other)) => {
            Value::Integer(one.wrapping_add(other))
        }
        (ReduceOp::Sum | ReduceOp::Avg, ..) => one,
        // A number beats no number.
        (ReduceOp::Min | ReduceOp::Max, ..) if is_no_number(one) => other,
        (ReduceOp::Min | ReduceOp::Max, ..) if is_no_number(other) => one,
        (ReduceOp::Min, ..) if is_below(data_type, other, one) => other,
        (ReduceOp::Max, ..) if is_below(data_type, one, other) => other,
        (ReduceOp::Min | ReduceOp::Max, ..) => one,
    }
}

fn is_no_number(value: Value) -> bool {
    match value {
        Value::Integer(_) => false,
        Value::Single(single) => single.is_nan(),
        Value::Double(double) => double.is_nan(),
    }
}

/// Whether the first of two numbers is smaller; -0 is below +0.
fn is_below(data_type: DataType, one: Value, other: Value) -> bool {
    match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => element::is_below(data_type, one, other),
        (Value::Single(one), Value::Single(other)) => one.total_cmp(&other).is_lt(),
        (Value::Double(one), Value::Double(other)) => one.total_cmp(&other).is_lt(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combined(op: ReduceOp, data_type: DataType, numbers: &[f64]) -> f64 {
        let ranks: Vec<Vec<u8>> = numbers
            .iter()
            .map(|&number| {
                let mut bytes = Vec::new();
                encode(data_type, widen(data_type, number), &mut bytes);
                bytes
            })
            .collect();
        match decode(data_type, &combine(op, data_type, &ranks)) {
            Value::Single(single) => f64::from(single),
            Value::Double(double) => double,
            Value::Integer(bits) => i32::try_from(bits.cast_signed()).map_or(f64::NAN, f64::from),
        }
    }

    #[test]
    fn reductions_follow_the_rules() {
        use DataType::{BFloat16, Float8E4M3, Float16, Float32, Int8, Int32, Uint8};
        for (op, data_type, numbers, result) in [
            (ReduceOp::Sum, Float32, &[1.0, 2.5, -4.0][..], -0.5),
            // The sum is rounded once, not at each step: 2048 + 1 is no binary16, 2048 + 2 is.
            (ReduceOp::Sum, Float16, &[2048.0, 1.0, 1.0], 2050.0),
            (ReduceOp::Sum, Float16, &[65504.0, 65504.0], f64::INFINITY),
            (ReduceOp::Sum, Float8E4M3, &[448.0, 448.0], 448.0),
            // A third is rounded to 8 bits, then each product.
            (ReduceOp::Avg, BFloat16, &[3.0, 3.0, 3.0], 3.0),
            (ReduceOp::Avg, Int32, &[-7.0, 2.0], -2.0),
            (ReduceOp::Sum, Int8, &[100.0, 100.0], -56.0),
            (ReduceOp::Avg, Uint8, &[200.0, 100.0], 22.0),
            (ReduceOp::Prod, Int32, &[-3.0, 5.0, 7.0], -105.0),
            (ReduceOp::Min, Float32, &[f64::NAN, 3.0, 2.0], 2.0),
            (ReduceOp::Max, Float32, &[3.0, f64::NAN, 2.0], 3.0),
            (ReduceOp::Max, Float32, &[f64::NAN, -1.0], -1.0),
            (ReduceOp::Min, Int8, &[-5.0, 5.0], -5.0),
        ] {
            assert_eq!(
                combined(op, data_type, numbers).to_bits(),
                f64::to_bits(result),
                "{op:?} of {numbers:?}"
            );
        }
        for (op, sign) in [(ReduceOp::Min, true), (ReduceOp::Max, false)] {
            for numbers in [[0.0, -0.0], [-0.0, 0.0]] {
                assert_eq!(combined(op, Float16, &numbers).is_sign_negative(), sign, "{op:?} of {numbers:?}");
            }
            assert!(combined(op, Float16, &[f64::NAN, f64::NAN]).is_nan());
        }
    }

    #[test]
    fn a_wrong_element_is_found_and_no_number_is_as_good_as_another() {
        let piece = Piece {
            at: 0,
            bytes: 4,
            wanted: Some(vec![0x00, 0x7e, 0x00, 0x3c]),
            combined: Some(DataType::Float16),
        };
        assert_eq!(piece.differs(&[0x01, 0xfe, 0x00, 0x3c]), None);
        assert_eq!(piece.differs(&[0x01, 0xfe, 0x01, 0x3c]), Some(1));
        let moved = Piece { combined: None, ..piece };
        assert_eq!(moved.differs(&[0x01, 0x7e, 0x00, 0x3c]), Some(0), "what moves keeps every bit");
    }
}
