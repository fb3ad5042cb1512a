//! The shared road, ranks as threads, each with a mapping of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fakegpu_staging_shm::{Exchange, Geometry, Progress, Segment, SharedExchange, StagingError};
use fakegpu_units::{Rank, SeqNo};
use proptest::prelude::*;

use crate::case::{Case, Memory, any_case, long_sum};

fn opened(fd: &OwnedFd, geometry: Geometry, rank: u32) -> SharedExchange {
    let own = fd.as_fd().try_clone_to_owned().unwrap();
    SharedExchange::new(Arc::new(Segment::open(own, geometry).unwrap()), Rank(rank)).unwrap()
}

fn exchanges(size: u32, slot_bytes: u32) -> Vec<SharedExchange> {
    let geometry = Geometry::new(size, slot_bytes).unwrap();
    let (_segment, fd) = Segment::create(geometry).unwrap();
    (0..size).map(|rank| opened(&fd, geometry, rank)).collect()
}

fn check_sequence(size: u32, slot_bytes: u32, cases: &[Case]) {
    let expected: Vec<_> = cases.iter().map(Case::expected).collect();
    let expected = &expected;
    thread::scope(|scope| {
        for (at, mut exchange) in exchanges(size, slot_bytes).into_iter().enumerate() {
            scope.spawn(move || {
                for (seq, case) in cases.iter().enumerate() {
                    let received = case.execute(&mut exchange, Rank::from_index(at), seq as u64).unwrap();
                    assert_eq!(received, expected[seq][at], "rank {at}, operation {seq}: {case:?}");
                }
            });
        }
    });
}

fn any_sequence() -> impl Strategy<Value = (u32, u32, Vec<Case>)> {
    let size = prop::sample::select(vec![1_u32, 2, 3, 8]);
    let slot_bytes = prop::sample::select(vec![64_u32, 640, 4096]);
    (size, slot_bytes).prop_flat_map(|(size, slot_bytes)| {
        let cases = prop::collection::vec(any_case(size, slot_bytes as usize), 1..6);
        (Just(size), Just(slot_bytes), cases)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_collectives_delivers_what_one_thread_would((size, slot_bytes, cases) in any_sequence()) {
        check_sequence(size, slot_bytes, &cases);
    }
}

#[test]
fn many_rounds_and_two_barriers_each() {
    for size in [2, 3, 8] {
        check_sequence(size, 16 << 10, &[long_sum(size, 16 << 10), long_sum(size, 4 << 10)]);
    }
}

#[test]
fn one_thread_drives_all_ranks() {
    let case = long_sum(3, 16 << 10);
    let mut exchanges = exchanges(3, 16 << 10);
    let mut memories: Vec<_> = (0..3).map(|rank| Memory::new(&case, Rank(rank))).collect();
    for (at, (exchange, memory)) in exchanges.iter_mut().zip(&mut memories).enumerate() {
        exchange.begin(case.run(Rank::from_index(at), 0, memory)).unwrap();
        assert!(matches!(exchange.begin(case.run(Rank::from_index(at), 1, memory)), Err(StagingError::Busy)));
    }
    loop {
        let progress: Vec<_> = exchanges.iter_mut().map(|exchange| exchange.poll().unwrap()).collect();
        if progress.iter().all(|&each| each == Progress::Done) {
            break;
        }
    }
    let received: Vec<_> = memories.into_iter().map(|memory| memory.recv).collect();
    assert_eq!(received, case.expected());
    let stats = exchanges[0].stats();
    assert_eq!((stats.operations, stats.chunks, stats.bytes), (1, case.plan().rounds(), 800_000));
}

#[test]
fn a_poll_that_must_wait_says_so_and_a_wait_is_bounded() {
    let case = long_sum(2, 4096);
    let mut exchanges = exchanges(2, 4096);
    let mut memory = Memory::new(&case, Rank(0));
    exchanges[0].begin(case.run(Rank(0), 0, &mut memory)).unwrap();
    while exchanges[0].poll().unwrap() == Progress::Moved {}
    let start = Instant::now();
    exchanges[0].wait(Duration::from_millis(120));
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(120) && waited < Duration::from_secs(20), "{waited:?}");
    assert!(exchanges[0].stats().sleeps >= 1);
    assert_eq!(exchanges[0].poll().unwrap(), Progress::Waiting);
    drop(exchanges.remove(0));
    assert!(matches!(exchanges[0].poll(), Err(StagingError::Poisoned)), "who leaves in the middle says so");
}

#[test]
fn poison_wakes_a_waiting_peer() {
    let case = long_sum(2, 4096);
    let mut exchanges = exchanges(2, 4096);
    let (mut second, mut first) = (exchanges.pop().unwrap(), exchanges.pop().unwrap());
    let waiting = Arc::clone(second.segment());
    let peer = thread::spawn(move || first.poll().and_then(|_| case.execute(&mut first, Rank(0), 3)));
    while waiting.descriptor(Rank(0)).is_none_or(|descriptor| descriptor.staging_id == 0) {
        thread::yield_now();
    }
    let start = Instant::now();
    second.fail();
    assert!(matches!(peer.join().unwrap(), Err(StagingError::Poisoned)));
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(waiting.descriptor(Rank(0)).unwrap().seq(), SeqNo(3));
}

#[test]
fn runs_that_do_not_fit_are_refused_before_anything_happens() {
    let mut exchange = exchanges(2, 4096).remove(0);
    let mut check = |case: &Case, shorten: usize, expected: &str| {
        let mut memory = Memory::new(case, Rank(0));
        memory.recv.truncate(memory.recv.len() - shorten);
        let error = exchange.begin(case.run(Rank(0), 0, &mut memory)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(&long_sum(3, 4096), 0, "plan for `3` ranks does not fit staging memory for `2`");
    check(&long_sum(2, 8192), 0, "plan for `8192` bytes a slot does not fit staging memory for `4096`");
    check(
        &long_sum(2, 4096),
        1,
        "receive buffer of rank 0 has `399999` bytes where the collective uses `400000`",
    );
}

#[test]
fn a_rank_needs_a_place() {
    let (segment, _fd) = Segment::create(Geometry::new(2, 64).unwrap()).unwrap();
    let error = SharedExchange::new(Arc::new(segment), Rank(2)).unwrap_err();
    assert_eq!(error.to_string(), "rank `2` is outside a communicator of `2` ranks");
}
