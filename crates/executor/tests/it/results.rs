//! Every road gives the bytes that the definition gives.

use fakegpu_executor::local::{UserMemory, run_local, run_over};
use fakegpu_executor::{Plan, Reduction, Relay, Round, Scalar, Shape, prescale};
use fakegpu_units::{Collective, DataType, Rank, ReduceOp};
use proptest::prelude::*;

use crate::naive;
use crate::plans::any_shape;

/// A collective with everything it needs: the plan's shape, what is done, and what ranks send.
#[derive(Debug)]
struct Case {
    shape: Shape,
    reduction: Option<Reduction>,
    sends: Vec<Vec<u8>>,
}

impl Case {
    fn new(shape: Shape, data_type: DataType, op: ReduceOp, seed: u64) -> Self {
        let shape = Shape { elem_bytes: data_type.size(), ..shape };
        let reduction = shape.op.reduces().then_some(Reduction { data_type, op, size: shape.size });
        let elements = shape.count as usize * shape.op.send_blocks(shape.size) as usize;
        let sends = (0..u64::from(shape.size))
            .map(|rank| naive::elements(data_type, elements, seed.wrapping_mul(31).wrapping_add(rank)))
            .collect();
        Self { shape, reduction, sends }
    }

    fn plan(&self) -> Plan {
        Plan::new(self.shape).unwrap()
    }

    /// The outcome by definition; averages of floats scale what is sent first.
    fn expected(&self) -> Vec<Vec<u8>> {
        naive::outcome(&self.shape, self.reduction, &self.scaled(naive::scale))
    }

    fn scaled(&self, scale: impl Fn(Scalar, &[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
        match self.reduction.and_then(|reduction| reduction.prescale_scalar()) {
            Some(scalar) => self.sends.iter().map(|send| scale(scalar, send)).collect(),
            None => self.sends.clone(),
        }
    }
}

const UNTOUCHED: u8 = 0xa5;

#[track_caller]
fn check_local(case: &Case) {
    let longest = case.shape.count as usize * case.shape.elem_bytes * case.shape.size as usize;
    let mut received = vec![vec![UNTOUCHED; longest + 1]; case.sends.len()];
    run_local(&case.plan(), case.reduction, &case.sends, &mut received).unwrap();
    for (rank, (received, expected)) in received.iter().zip(case.expected()).enumerate() {
        let (written, rest) = received.split_at(expected.len());
        assert_eq!(written, expected, "rank {rank} of {:?} {:?}", case.shape, case.reduction);
        assert!(rest.iter().all(|&byte| byte == UNTOUCHED), "rank {rank} of {:?} wrote too much", case.shape);
    }
}

/// Executes the plan through a relay, as connections would.
fn relayed(case: &Case) -> Vec<Vec<u8>> {
    let plan = case.plan();
    let scaled = case.scaled(|scalar, send| {
        let mut target = vec![0; send.len()];
        prescale(scalar.data_type(), scalar, &mut target, send).unwrap();
        target
    });
    let mut relay = Relay::new(plan, case.reduction).unwrap();
    let mut received: Vec<Vec<u8>> =
        (0..case.shape.size).map(|rank| vec![UNTOUCHED; plan.recv_bytes(Rank(rank))]).collect();
    let (mut replies, mut round) = (Vec::new(), Round::default());
    for index in 0..plan.rounds() {
        let mut contributions = Vec::new();
        for (rank, send) in scaled.iter().enumerate() {
            plan.fill(index, Rank::from_index(rank), &mut round);
            let pieces = round.publish.iter().flat_map(|piece| &send[piece.user..piece.user + piece.bytes]);
            contributions.push(pieces.copied().collect::<Vec<u8>>());
        }
        let slots: Vec<&[u8]> = contributions.iter().map(Vec::as_slice).collect();
        relay.resolve(index, &slots, &mut replies).unwrap();
        for (rank, (mut reply, received)) in replies.iter().map(Vec::as_slice).zip(&mut received).enumerate()
        {
            plan.fill(index, Rank::from_index(rank), &mut round);
            assert_eq!(round.reply_bytes(), reply.len());
            for (user, bytes) in round.reply_pieces() {
                let (piece, rest) = reply.split_at(bytes);
                received[user..user + bytes].copy_from_slice(piece);
                reply = rest;
            }
        }
    }
    received
}

/// NCCL's in-place form: where the receive buffer starts, counted from the send buffer, in blocks of the rank.
fn overlay(case: &Case, rank: u32) -> UserMemory {
    let block = case.shape.count as usize * case.shape.elem_bytes;
    let own_block = rank as usize * block;
    let (send, recv) = match case.shape.op {
        Collective::AllGather | Collective::Gather => (own_block, 0),
        Collective::ReduceScatter | Collective::Scatter => (0, own_block),
        _ => (0, 0),
    };
    let mut bytes = vec![UNTOUCHED; block * case.shape.size as usize];
    let sent = &case.sends[rank as usize];
    bytes[send..send + sent.len()].copy_from_slice(sent);
    UserMemory { bytes, send, recv }
}

#[track_caller]
fn check_in_place(case: &Case) {
    let mut users: Vec<_> = (0..case.shape.size).map(|rank| overlay(case, rank)).collect();
    run_over(&case.plan(), case.reduction, &mut users).unwrap();
    for (rank, (user, expected)) in users.iter().zip(case.expected()).enumerate() {
        let received = &user.bytes[user.recv..user.recv + expected.len()];
        assert_eq!(received, expected, "rank {rank} of {:?} in place", case.shape);
    }
}

/// Every collective × element type × operator × 1..=8 ranks, with counts that end inside a vector, a cache line
/// and a round.
#[test]
fn every_combination_equals_the_definition_bit_for_bit() {
    for &op in Collective::ALL {
        for &data_type in DataType::ALL {
            let redops = if op.reduces() { ReduceOp::ALL } else { &[ReduceOp::Sum] };
            for (&redop, size) in redops.iter().flat_map(|redop| (1..=8).map(move |size| (redop, size))) {
                for (count, slot_bytes) in [(1, 64), (77, 640), (700, 65536)] {
                    let shape = Shape {
                        op,
                        size,
                        root: Rank(size / 2),
                        count,
                        elem_bytes: data_type.size(),
                        slot_bytes,
                    };
                    check_local(&Case::new(shape, data_type, redop, count));
                }
            }
        }
    }
}

fn any_case() -> impl Strategy<Value = Case> {
    let data_type = prop::sample::select(DataType::ALL);
    let op = prop::sample::select(ReduceOp::ALL);
    (any_shape(), data_type, op, any::<u64>())
        .prop_map(|(shape, data_type, op, seed)| Case::new(shape, data_type, op, seed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_plan_equals_the_definition(case in any_case()) {
        check_local(&case);
    }

    #[test]
    fn the_relay_gives_the_same_bytes(case in any_case()) {
        prop_assert_eq!(relayed(&case), case.expected());
    }

    #[test]
    fn overlaid_buffers_give_the_same_bytes(case in any_case()) {
        check_in_place(&case);
    }

    #[test]
    fn how_the_tensor_is_cut_does_not_change_bits(case in any_case(), lines in 1..9_usize) {
        let recut = Case { shape: Shape { slot_bytes: lines * 64, ..case.shape }, ..case };
        check_local(&recut);
    }

    #[test]
    fn scaling_equals_the_definition(
        data_type in prop::sample::select(DataType::ALL), seed in any::<u64>(), count in 0..600_usize,
    ) {
        let source = naive::elements(data_type, count, seed);
        let scalar = Scalar::from_bytes(data_type, &naive::elements(data_type, 1, !seed)).unwrap();
        let mut target = vec![0; source.len()];
        prescale(data_type, scalar, &mut target, &source).unwrap();
        prop_assert_eq!(target, naive::scale(scalar, &source));
    }
}

/// `PreMulSum`: each rank's own scalar, applied before the contribution is published, even if it is alone.
#[test]
fn premultiplied_sums_scale_each_contribution_by_its_ranks_own_scalar() {
    for size in [1, 3] {
        let reduction = Reduction { data_type: DataType::Float16, op: ReduceOp::PreMulSum, size };
        let scaled: Vec<Vec<u8>> = (0..size)
            .map(|rank| {
                let scalar = half::f16::from_f32(rank as f32 + 2.0).to_ne_bytes();
                let scalar = Scalar::from_bytes(DataType::Float16, &scalar).unwrap();
                let mut contribution = half::f16::from_f32(1.5).to_ne_bytes().to_vec();
                fakegpu_executor::prescale_in_place(DataType::Float16, scalar, &mut contribution).unwrap();
                contribution
            })
            .collect();
        let sources: Vec<&[u8]> = scaled.iter().map(Vec::as_slice).collect();
        let mut result = [0; 2];
        fakegpu_executor::fold(reduction, &mut result, &sources).unwrap();
        let expected = if size == 1 { 3.0 } else { 13.5 };
        assert_eq!(half::f16::from_ne_bytes(result).to_f32(), expected);
    }
}
