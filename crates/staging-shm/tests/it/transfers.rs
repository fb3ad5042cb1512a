//! Sends and receives over both roads: the right bytes, in order, and nobody held up by a rank without a part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fakegpu_staging_shm::{
    Descriptor, Exchange, Geometry, Progress, RecvBuffer, Segment, SendBuffer, SharedExchange,
    SharedTransfers, StagingError, StreamedTransfers, SwitchLane, Transfers,
};
use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use proptest::prelude::*;

use crate::case::{Memory, long_sum};

const SLOT_BYTES: u32 = 4096;

/// The road that bytes take.
#[derive(Clone, Copy, Debug)]
enum Road {
    Shared,
    Streamed,
}

/// The ends of all ranks, and what they need to live.
struct Plane {
    ends: Vec<Box<dyn Transfers>>,
    _switch: Option<Switch>,
}

/// A switch in a thread of its own.
struct Switch {
    arrivals: Sender<(Rank, Wire)>,
    cancelled: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), StagingError>>>,
}

impl Switch {
    fn start(size: u32) -> Self {
        let (arrivals, incoming) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let watch = Arc::clone(&cancelled);
        let thread = std::thread::spawn(move || SwitchLane::new(size, 4096).run(&incoming, &watch));
        Self { arrivals, cancelled, thread: Some(thread) }
    }

    fn end(&self, rank: u32, size: u32) -> StreamedTransfers {
        let (near, far) = Wire::pair().unwrap();
        self.arrivals.send((Rank(rank), far)).unwrap();
        StreamedTransfers::new(near, Rank(rank), size, 4096)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join().unwrap();
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
    }
}

fn plane(road: Road, size: u32) -> Plane {
    match road {
        Road::Shared => {
            let (segment, _fd) = Segment::create(Geometry::new(size, SLOT_BYTES).unwrap()).unwrap();
            let segment = Arc::new(segment);
            let end = |rank| SharedTransfers::new(Arc::clone(&segment), Rank(rank)).unwrap();
            Plane {
                ends: (0..size).map(|rank| Box::new(end(rank)) as Box<dyn Transfers>).collect(),
                _switch: None,
            }
        }
        Road::Streamed => {
            let switch = Switch::start(size);
            let ends = (0..size).map(|rank| Box::new(switch.end(rank, size)) as Box<dyn Transfers>).collect();
            Plane { ends, _switch: Some(switch) }
        }
    }
}

fn send(end: &mut dyn Transfers, token: u64, peer: u32, data: &[u8]) {
    // SAFETY: every test keeps its buffers until its transfers have ended.
    let buffer = unsafe { SendBuffer::new(data.as_ptr(), data.len()) };
    end.send(token, Rank(peer), buffer).unwrap();
}

fn recv(end: &mut dyn Transfers, token: u64, peer: u32, data: &mut [u8]) {
    // SAFETY: as in `send`.
    let buffer = unsafe { RecvBuffer::new(data.as_mut_ptr(), data.len()) };
    end.recv(token, Rank(peer), buffer).unwrap();
}

/// Drives one end until nothing of it is under way; the tokens in the order of their ends.
fn finish(end: &mut dyn Transfers) -> Vec<u64> {
    let (mut ended, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(20));
    loop {
        match end.poll(&mut ended).unwrap() {
            Progress::Done => return ended,
            Progress::Moved => {}
            Progress::Waiting => end.wait(Duration::from_millis(50)),
        }
        assert!(Instant::now() < deadline, "transfers must end; so far {ended:?}");
    }
}

/// Drives all ends from one thread, in turns.
fn finish_all(ends: &mut [Box<dyn Transfers>]) -> Vec<Vec<u64>> {
    let (size, mut at) = (ends.len(), 0);
    finish_by(ends, || {
        at += 1;
        at % size
    })
}

/// Drives all ends from one thread, of which `next` says the one to poll.
fn finish_by(ends: &mut [Box<dyn Transfers>], mut next: impl FnMut() -> usize) -> Vec<Vec<u64>> {
    let mut ended = vec![Vec::new(); ends.len()];
    let mut is_done = vec![false; ends.len()];
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_done.iter().all(|&done| done) {
        let at = next();
        is_done[at] = ends[at].poll(&mut ended[at]).unwrap() == Progress::Done;
        assert!(Instant::now() < deadline, "transfers must end; so far {ended:?}");
        std::thread::yield_now();
    }
    ended
}

fn finish_in_one_poll(end: &mut dyn Transfers) -> Vec<u64> {
    let mut ended = Vec::new();
    assert_eq!(end.poll(&mut ended).unwrap(), Progress::Done);
    ended
}

fn pattern(src: u32, dst: u32, number: u64, bytes: usize) -> Vec<u8> {
    let seed = u64::from(src) * 7 + u64::from(dst) * 13 + number * 101;
    (0..bytes as u64).map(|at| (at * 31 + seed).to_le_bytes()[0]).collect()
}

#[test]
fn a_ring_of_threads_that_all_send_first_gets_its_bytes() {
    for road in [Road::Shared, Road::Streamed] {
        let size = 8;
        let mut plane = plane(road, size);
        std::thread::scope(|scope| {
            for (rank, end) in (0..size).zip(&mut plane.ends) {
                scope.spawn(move || {
                    let (to, from) = ((rank + 1) % size, (rank + size - 1) % size);
                    for (number, bytes) in (0..).zip([0, 1, 4095, 4096, (1 << 20) + 3]) {
                        let (out, mut inn) = (pattern(rank, to, number, bytes), vec![0; bytes]);
                        send(&mut **end, 1, to, &out);
                        recv(&mut **end, 2, from, &mut inn);
                        let mut ended = finish(&mut **end);
                        ended.sort_unstable();
                        assert_eq!(ended, [1, 2]);
                        assert_eq!(inn, pattern(from, rank, number, bytes), "{road:?} {bytes} bytes");
                    }
                });
            }
        });
    }
}

#[test]
fn transfers_of_one_pair_keep_their_order() {
    for road in [Road::Shared, Road::Streamed] {
        let mut plane = plane(road, 2);
        let out: Vec<Vec<u8>> =
            (0..1000).map(|number| pattern(0, 1, number, (number % 97) as usize)).collect();
        let mut inn: Vec<Vec<u8>> = out.iter().map(|data| vec![0; data.len()]).collect();
        for (token, (out, inn)) in (0..).zip(out.iter().zip(&mut inn)) {
            send(&mut *plane.ends[0], token, 1, out);
            recv(&mut *plane.ends[1], token, 0, inn);
        }
        let ended = finish_all(&mut plane.ends);
        let expected: Vec<u64> = (0..1000).collect();
        assert_eq!(ended, [expected.clone(), expected]);
        assert_eq!(inn, out, "{road:?}");
    }
}

#[test]
fn a_rank_sends_to_itself_also_from_and_to_one_buffer() {
    for road in [Road::Shared, Road::Streamed] {
        let mut plane = plane(road, 1);
        let end = &mut *plane.ends[0];
        let (out, mut inn) = (pattern(0, 0, 1, 100), vec![0; 100]);
        send(end, 1, 0, &out);
        recv(end, 2, 0, &mut inn);
        assert_eq!(finish(end), [1, 2]);
        assert_eq!(inn, out);
        let mut same = out.clone();
        let view = same.as_ptr();
        // SAFETY: the buffer outlives the transfer; both views of it are raw.
        let buffer = unsafe { SendBuffer::new(view, 100) };
        end.send(3, Rank(0), buffer).unwrap();
        recv(end, 4, 0, &mut same);
        finish(end);
        assert_eq!(same, out);
    }
}

#[test]
fn a_rank_that_does_not_poll_holds_up_only_its_own_transfers() {
    for road in [Road::Shared, Road::Streamed] {
        let mut plane = plane(road, 3);
        let out = pattern(0, 1, 0, 1 << 20);
        let mut inn = [vec![0; 1 << 20], vec![0; 1 << 20]];
        send(&mut *plane.ends[0], 1, 1, &out);
        send(&mut *plane.ends[0], 2, 2, &out);
        let [one, two] = &mut inn;
        recv(&mut *plane.ends[1], 1, 0, one);
        recv(&mut *plane.ends[2], 1, 0, two);
        let (mut ended, mut sent, deadline) =
            (Vec::new(), Vec::new(), Instant::now() + Duration::from_secs(10));
        while ended.is_empty() {
            plane.ends[0].poll(&mut sent).unwrap();
            plane.ends[2].poll(&mut ended).unwrap();
            assert!(Instant::now() < deadline, "{road:?}: rank 2 waits for rank 1, which does not poll");
            std::thread::yield_now();
        }
        assert!(!sent.contains(&1), "rank 1 has taken nothing");
        finish_all(&mut plane.ends);
        assert!(inn.iter().all(|inn| *inn == out));
    }
}

#[test]
fn giving_up_wakes_a_sleeper_and_fails_it() {
    let mut waits: Vec<Duration> = (0..5).map(|_| time_to_notice_a_failure()).collect();
    waits.sort_unstable();
    assert!(waits[2] < Duration::from_millis(100), "{waits:?}");
}

fn time_to_notice_a_failure() -> Duration {
    let mut plane = plane(Road::Shared, 2);
    let mut second = plane.ends.pop().unwrap();
    let mut inn = vec![0; 10];
    let (starting, started) = channel();
    std::thread::scope(|scope| {
        let end = &mut plane.ends[0];
        recv(&mut **end, 1, 1, &mut inn);
        let waiter = scope.spawn(move || {
            starting.send(rustix::thread::gettid()).unwrap();
            let mut ended = Vec::new();
            loop {
                match end.poll(&mut ended) {
                    Ok(_) => end.wait(Duration::from_secs(20)),
                    Err(error) => break (error, Instant::now()),
                }
            }
        });
        let state = format!("/proc/self/task/{}/stat", started.recv().unwrap());
        while !std::fs::read_to_string(&state).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        let failed = Instant::now();
        second.fail();
        let (error, noticed) = waiter.join().unwrap();
        assert!(matches!(error, StagingError::Poisoned), "{error}");
        noticed - failed
    })
}

#[test]
fn what_comes_wakes_a_sleeper_before_its_nap_ends() {
    let mut waits: Vec<Duration> = (0..9).map(|_| time_to_notice_a_piece()).collect();
    waits.sort_unstable();
    // A nap is 50 ms, and the sender starts as soon as it has begun.
    assert!(waits[4] < Duration::from_millis(25), "{waits:?}");
}

fn time_to_notice_a_piece() -> Duration {
    let mut plane = plane(Road::Shared, 2);
    let mut sender = plane.ends.pop().unwrap();
    let (out, mut inn) = ([7; 10], [0; 10]);
    let (starting, started) = channel();
    std::thread::scope(|scope| {
        let end = &mut plane.ends[0];
        recv(&mut **end, 1, 1, &mut inn);
        let waiter = scope.spawn(move || {
            starting.send(rustix::thread::gettid()).unwrap();
            finish(&mut **end);
            Instant::now()
        });
        let state = format!("/proc/self/task/{}/stat", started.recv().unwrap());
        while !std::fs::read_to_string(&state).unwrap().contains(") S ") {
            std::thread::yield_now();
        }
        let sent = Instant::now();
        send(&mut *sender, 1, 0, &out);
        finish(&mut *sender);
        waiter.join().unwrap().saturating_duration_since(sent)
    })
}

#[test]
fn rows_of_any_length_reach_every_rank_also_empty_ones() {
    /// What goes from `src` to `dst`: nothing at all between every third pair.
    fn row(src: u32, dst: u32) -> Vec<u8> {
        let bytes = if (src + dst).is_multiple_of(3) { 0 } else { 1000 * src as usize + 7 * dst as usize };
        pattern(src, dst, 0, bytes)
    }
    for road in [Road::Shared, Road::Streamed] {
        let size = 5;
        let mut plane = plane(road, size);
        std::thread::scope(|scope| {
            for (rank, end) in (0..size).zip(&mut plane.ends) {
                scope.spawn(move || {
                    let out: Vec<_> = (0..size).map(|to| row(rank, to)).collect();
                    let expected: Vec<_> = (0..size).map(|from| row(from, rank)).collect();
                    let mut inn: Vec<_> = expected.iter().map(|data| vec![0; data.len()]).collect();
                    for (peer, (out, inn)) in (0..size).zip(out.iter().zip(&mut inn)) {
                        send(&mut **end, 1, peer, out);
                        recv(&mut **end, 2, peer, inn);
                    }
                    assert_eq!(finish(&mut **end).len(), 2 * size as usize);
                    assert_eq!(inn, expected, "{road:?}");
                });
            }
        });
    }
}

#[test]
fn transfers_go_on_beside_a_collective() {
    let (segment, _fd) = Segment::create(Geometry::new(2, SLOT_BYTES).unwrap()).unwrap();
    let segment = Arc::new(segment);
    let case = long_sum(2, SLOT_BYTES as usize);
    let (case, segment) = (&case, &segment);
    std::thread::scope(|scope| {
        for rank in 0..2_u32 {
            scope.spawn(move || {
                let mut exchange = SharedExchange::new(Arc::clone(segment), Rank(rank)).unwrap();
                let mut end = SharedTransfers::new(Arc::clone(segment), Rank(rank)).unwrap();
                let mut memory = Memory::new(case, Rank(rank));
                exchange.begin(case.run(Rank(rank), 0, &mut memory)).unwrap();
                let (out, mut inn) = (pattern(rank, 1 - rank, 0, 1 << 20), vec![0; 1 << 20]);
                send(&mut end, 1, 1 - rank, &out);
                recv(&mut end, 2, 1 - rank, &mut inn);
                let (mut ended, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(20));
                loop {
                    let collective = exchange.poll().unwrap();
                    if end.poll(&mut ended).unwrap() == Progress::Done && collective == Progress::Done {
                        break;
                    }
                    assert!(Instant::now() < deadline, "{collective:?}, {ended:?}");
                    std::thread::yield_now();
                }
                assert_eq!(inn, pattern(1 - rank, rank, 0, 1 << 20));
                assert_eq!(memory.recv, case.expected()[rank as usize]);
            });
        }
    });
}

#[test]
fn the_channels_of_many_ranks_are_small_and_those_of_too_many_are_refused() {
    let pieces = [1, 8, 9, 64, 1024].map(|size| Geometry::new(size, 64).unwrap().piece_bytes());
    assert_eq!(pieces, [131_008, 131_008, 65_472, 1984, 1984]);
    let mut many = plane(Road::Shared, 64);
    let (out, mut inn) = (pattern(63, 0, 0, 100_000), vec![0; 100_000]);
    send(&mut *many.ends[63], 1, 0, &out);
    recv(&mut *many.ends[0], 1, 63, &mut inn);
    finish_all(&mut many.ends);
    assert_eq!(inn, out);
    let (segment, _fd) = Segment::create(Geometry::new(1025, 64).unwrap()).unwrap();
    let mut end = SharedTransfers::new(Arc::new(segment), Rank(0)).unwrap();
    // SAFETY: the array outlives the attempt.
    let error = end.send(1, Rank(1), unsafe { SendBuffer::new(out.as_ptr(), 1) }).unwrap_err();
    assert!(error.to_string().contains("more than 1024 ranks have no channels"), "{error}");
    assert_eq!(end.poll(&mut Vec::new()).unwrap(), Progress::Done, "nothing was begun");
}

#[test]
fn what_nobody_uses_takes_no_memory() {
    let geometry = Geometry::new(8, SLOT_BYTES).unwrap();
    let (segment, fd) = Segment::create(geometry).unwrap();
    let blocks = || rustix::fs::fstat(&fd).unwrap().st_blocks * 512;
    let before = blocks();
    assert!(u64::try_from(before).unwrap() < 2 << 20, "{before} bytes of {}", geometry.bytes());
    let segment = Arc::new(segment);
    let mut ends: Vec<Box<dyn Transfers>> = (0..2)
        .map(|rank| {
            Box::new(SharedTransfers::new(Arc::clone(&segment), Rank(rank)).unwrap()) as Box<dyn Transfers>
        })
        .collect();
    send(&mut *ends[0], 1, 1, &[]);
    recv(&mut *ends[1], 1, 0, &mut []);
    let ended: Vec<Vec<u64>> = ends.iter_mut().map(|end| finish_in_one_poll(&mut **end)).collect();
    assert_eq!((ended, blocks()), (vec![vec![1], vec![1]], before), "no bytes, no channel, no waiting");
    let (out, mut inn) = (vec![1; 10], vec![0; 10]);
    send(&mut *ends[0], 1, 1, &out);
    recv(&mut *ends[1], 1, 0, &mut inn);
    finish_all(&mut ends);
    assert_eq!(blocks() - before, 256 << 10, "one channel");
}

#[test]
fn the_last_runs_of_a_rank_are_readable_by_its_peers() {
    let (segment, _fd) = Segment::create(Geometry::new(2, SLOT_BYTES).unwrap()).unwrap();
    let segment = Arc::new(segment);
    let mut end = SharedTransfers::new(Arc::clone(&segment), Rank(0)).unwrap();
    let out = [0; 40];
    for bytes in 0..40 {
        send(&mut end, bytes as u64, 1, &out[..bytes]);
    }
    let recent = segment.recent(Rank(0));
    let told: Vec<(u64, u64)> = recent.iter().map(|run| (run.staging_id, run.bytes)).collect();
    assert_eq!(told, (24..40).map(|at| (at + 1, at)).collect::<Vec<_>>());
    assert_eq!((recent[0].kind, recent[0].peer), (Descriptor::SEND, 1));
    assert!(segment.recent(Rank(1)).is_empty());
    end.fail();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_set_of_transfers_delivers_its_bytes(
        size in 2..=5_u32,
        transfers in prop::collection::vec((any::<u32>(), any::<u32>(), 0..20_000_usize), 1..24),
        seed in any::<u64>(),
    ) {
        for road in [Road::Shared, Road::Streamed] {
            let mut plane = plane(road, size);
            let mut early = Vec::new();
            let mut cases: Vec<(u32, u32, Vec<u8>, Vec<u8>)> = (0..)
                .zip(&transfers)
                .map(|(number, &(src, dst, bytes))| {
                    let (src, dst) = (src % size, dst % size);
                    (src, dst, pattern(src, dst, number, bytes), vec![0; bytes])
                })
                .collect();
            for (token, (src, dst, out, inn)) in (0..).zip(&mut cases) {
                send(&mut *plane.ends[*src as usize], 2 * token, *dst, out);
                // Some senders are ahead of their receivers.
                plane.ends[*src as usize].poll(&mut early).unwrap();
                recv(&mut *plane.ends[*dst as usize], 2 * token + 1, *src, inn);
            }
            let mut order = seed;
            let next = || {
                order = order.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (order >> 33) as usize % size as usize
            };
            let mut ended: Vec<u64> = finish_by(&mut plane.ends, next).into_iter().flatten().chain(early).collect();
            ended.sort_unstable();
            prop_assert_eq!(ended, (0..2 * cases.len() as u64).collect::<Vec<_>>());
            for (src, dst, out, inn) in &cases {
                prop_assert_eq!(out, inn, "{:?}: {} to {}", road, src, dst);
            }
        }
    }
}
