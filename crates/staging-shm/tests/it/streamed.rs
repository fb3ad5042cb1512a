//! The streamed road: ranks and coordinator as threads, over connections without an address.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fakegpu_staging_shm::{
    Engine, Exchange, PollEngine, RelayLane, StagingError, StreamedExchange, UringEngine,
};
use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use proptest::prelude::*;

use crate::case::{Case, LIMIT, any_case, long_sum};

type MakeEngine = fn() -> Box<dyn Engine>;

const ENGINES: [MakeEngine; 2] =
    [|| Box::new(PollEngine::new()), || Box::new(UringEngine::new().expect("these tests need io_uring"))];

struct World {
    lane: RelayLane,
    ranks: Vec<StreamedExchange>,
}

fn pairs(size: u32) -> (Vec<Wire>, Vec<Wire>) {
    (0..size).map(|_| Wire::pair().unwrap()).unzip()
}

fn world(size: u32, slot_bytes: usize, make: MakeEngine) -> World {
    let (near, far) = pairs(size);
    let exchange = |(rank, wire)| StreamedExchange::new(wire, Rank(rank), size, make(), slot_bytes);
    World {
        lane: RelayLane::new(far, make(), slot_bytes),
        ranks: (0..size).zip(near).map(exchange).collect(),
    }
}

fn check_sequence(size: u32, slot_bytes: usize, cases: &[Case], make: MakeEngine) {
    let expected: Vec<_> = cases.iter().map(Case::expected).collect();
    let expected = &expected;
    let World { mut lane, ranks } = world(size, slot_bytes, make);
    thread::scope(|scope| {
        for (at, mut exchange) in ranks.into_iter().enumerate() {
            scope.spawn(move || {
                for (seq, case) in cases.iter().enumerate() {
                    let received = case.execute(&mut exchange, Rank::from_index(at), seq as u64).unwrap();
                    assert_eq!(received, expected[seq][at], "rank {at}, operation {seq}: {case:?}");
                }
                exchange
            });
        }
        for case in cases {
            lane.run(case.plan(), case.reduction(), &AtomicBool::new(false)).unwrap();
        }
    });
}

fn any_sequence() -> impl Strategy<Value = (u32, usize, Vec<Case>)> {
    let size = prop::sample::select(vec![1_u32, 2, 3, 8]);
    let slot_bytes = prop::sample::select(vec![64_usize, 640, 4096]);
    (size, slot_bytes).prop_flat_map(|(size, slot_bytes)| {
        let cases = prop::collection::vec(any_case(size, slot_bytes), 1..5);
        (Just(size), Just(slot_bytes), cases)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_collectives_delivers_what_one_thread_would((size, slot_bytes, cases) in any_sequence()) {
        for make in ENGINES {
            check_sequence(size, slot_bytes, &cases, make);
        }
    }
}

#[test]
fn slots_beyond_what_a_socket_buffers_do_not_deadlock() {
    for make in ENGINES {
        let mut case = long_sum(3, 2 << 20);
        case.shape.count = 3_000_000;
        check_sequence(3, 2 << 20, &[case], make);
    }
}

#[test]
fn a_rank_that_ends_in_the_middle_is_named_and_the_others_fail() {
    for make in ENGINES {
        let case = long_sum(3, 4096);
        let (near, far) = pairs(3);
        let mut lane = RelayLane::new(far, make(), 4096);
        thread::scope(|scope| {
            for (at, wire) in near.into_iter().enumerate() {
                let case = &case;
                scope.spawn(move || {
                    if at == 1 {
                        wire.send_all(&vec![0; 4096 * 5 + 17], LIMIT).unwrap();
                        wait_for_bytes(&wire, 4096 * 5);
                        return;
                    }
                    let rank = Rank::from_index(at);
                    let mut exchange = StreamedExchange::new(wire, rank, 3, make(), 4096);
                    let error = case.execute(&mut exchange, rank, 0).unwrap_err();
                    assert!(matches!(error, StagingError::Connection { .. }), "{error}");
                    assert!(matches!(exchange.poll(), Err(StagingError::Poisoned)));
                });
            }
            let error = lane.run(case.plan(), case.reduction(), &AtomicBool::new(false)).unwrap_err();
            assert!(matches!(error, StagingError::Peer { rank: Rank(1), .. }), "{error}");
        });
    }
}

fn wait_for_bytes(wire: &Wire, mut bytes: usize) {
    let mut buffer = vec![0; 4096];
    while bytes > 0 {
        match wire.receive(&mut buffer) {
            Ok(count) => bytes = bytes.saturating_sub(count),
            Err(_) => assert!(wire.wait_readable(LIMIT).unwrap(), "no reply within the limit"),
        }
    }
}

#[test]
fn a_cancelled_lane_stops_though_ranks_are_silent() {
    for make in ENGINES {
        let World { mut lane, mut ranks } = world(2, 4096, make);
        let case = long_sum(2, 4096);
        let cancelled = AtomicBool::new(false);
        let start = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| cancelled.store(true, Ordering::Relaxed));
            let error = lane.run(case.plan(), case.reduction(), &cancelled).unwrap_err();
            assert!(matches!(error, StagingError::Cancelled), "{error}");
        });
        assert!(start.elapsed() < Duration::from_secs(1));
        let error = case.execute(&mut ranks[0], Rank(0), 0).unwrap_err();
        assert!(matches!(error, StagingError::Connection { .. }), "{error}");
        let again = lane.run(case.plan(), case.reduction(), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(again, StagingError::Poisoned), "{again}");
    }
}

#[test]
fn a_rank_that_gives_up_is_named_at_the_coordinator() {
    for make in ENGINES {
        let World { mut lane, mut ranks } = world(2, 4096, make);
        ranks[1].fail();
        let case = long_sum(2, 4096);
        let error = lane.run(case.plan(), case.reduction(), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, StagingError::Peer { rank: Rank(1), .. }), "{error}");
    }
}

#[test]
fn a_plan_for_other_ranks_is_refused_and_the_lane_stays_usable() {
    let World { mut lane, ranks } = world(2, 4096, ENGINES[0]);
    let case = long_sum(3, 4096);
    let error = lane.run(case.plan(), case.reduction(), &AtomicBool::new(false)).unwrap_err();
    assert_eq!(error.to_string(), "plan for `3` ranks does not fit staging memory for `2`");
    let nothing = Case { shape: fakegpu_executor::Shape { count: 0, ..long_sum(2, 4096).shape }, ..case };
    lane.run(nothing.plan(), nothing.reduction(), &AtomicBool::new(false)).unwrap();
    drop(ranks);
}
