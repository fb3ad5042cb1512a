//! What must hold of any plan, whatever the bytes are.

use fakegpu_executor::{FoldTarget, Plan, Round, Shape, Source, result_bytes};
use fakegpu_units::{Collective, Rank};
use proptest::prelude::*;

pub(crate) fn any_shape() -> impl Strategy<Value = Shape> {
    let op = prop::sample::select(Collective::ALL);
    let slot_bytes = prop_oneof![Just(64), Just(128), Just(640), Just(4096), Just(65536)];
    let elem_bytes = prop_oneof![Just(1), Just(2), Just(4), Just(8)];
    // Around the chunk and cache-line boundaries of small slots, and some rounds of the large ones.
    let count = prop_oneof![0..20_u64, 60..70_u64, 125..130_u64, 1000..1030_u64, 4090..4100_u64];
    (op, 1..=8_u32, any::<u32>(), count, elem_bytes, slot_bytes).prop_map(
        |(op, size, root, count, elem_bytes, slot_bytes)| Shape {
            op,
            size,
            root: Rank(root % size),
            count,
            elem_bytes,
            slot_bytes,
        },
    )
}

fn rounds_of(plan: &Plan, rank: Rank) -> impl Iterator<Item = Round> + '_ {
    (0..plan.rounds()).map(move |index| {
        let mut round = Round::default();
        plan.fill(index, rank, &mut round);
        round
    })
}

#[track_caller]
fn check_each_byte_once(what: &str, expected_bytes: usize, pieces: impl Iterator<Item = (usize, usize)>) {
    let mut touched = vec![0_u8; expected_bytes];
    for (at, bytes) in pieces {
        touched[at..at + bytes].iter_mut().for_each(|count| *count += 1);
    }
    assert!(touched.iter().all(|&count| count == 1), "{what}: some byte is touched never or twice");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_byte_is_published_once_and_delivered_once(shape in any_shape()) {
        let plan = Plan::new(shape).unwrap();
        for rank in (0..shape.size).map(Rank) {
            let sent = rounds_of(&plan, rank)
                .flat_map(|round| round.publish.into_iter().map(|piece| (piece.user, piece.bytes)));
            check_each_byte_once("send buffer", plan.send_bytes(rank), sent);
            let delivered =
                rounds_of(&plan, rank).flat_map(|round| round.reply_pieces().collect::<Vec<_>>());
            check_each_byte_once("receive buffer", plan.recv_bytes(rank), delivered);
        }
    }

    #[test]
    fn staging_areas_hold_what_is_put_in_and_taken_out(shape in any_shape()) {
        let plan = Plan::new(shape).unwrap();
        let result_capacity = result_bytes(shape.slot_bytes, shape.size);
        for index in 0..plan.rounds() {
            let rounds: Vec<Round> = (0..shape.size)
                .map(|rank| {
                    let mut round = Round::default();
                    plan.fill(index, Rank(rank), &mut round);
                    round
                })
                .collect();
            let mut folds_to_result = false;
            for round in &rounds {
                let packed = round.publish.iter().try_fold(0, |end, piece| {
                    (piece.slot == end).then_some(end + piece.bytes)
                });
                prop_assert!(packed.is_some_and(|end| end <= shape.slot_bytes), "{:?}", round);
                if let Some(step) = round.fold {
                    prop_assert!(rounds.iter().all(|r| step.slot + step.bytes <= r.contribution_bytes()));
                    prop_assert_eq!((step.slot % shape.elem_bytes, step.bytes % shape.elem_bytes), (0, 0));
                    if let FoldTarget::Result { offset } = step.to {
                        prop_assert!(offset + step.bytes <= result_capacity);
                        prop_assert_eq!(step.slot % 64, 0);
                        folds_to_result = true;
                    }
                }
                for piece in &round.collect {
                    let filled = match piece.from {
                        Source::Slot(rank) => rounds[rank.index()].contribution_bytes(),
                        Source::Result(rank) => rounds[rank.index()].fold.map_or(0, |step| step.bytes),
                    };
                    prop_assert!(piece.offset + piece.bytes <= filled);
                }
            }
            prop_assert_eq!(plan.needs_result_barrier(index), folds_to_result);
        }
    }
}
