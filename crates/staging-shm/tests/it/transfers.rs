//! Sends and receives over both roads: the right bytes, in order, and nobody held up by a rank without a part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fakegpu_staging_shm::{
    Geometry, Progress, RecvBuffer, Segment, SendBuffer, SharedTransfers, StagingError, StreamedTransfers,
    SwitchLane, Transfers,
};
use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use proptest::prelude::*;

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

/// Drives all ends from one thread.
fn finish_all(ends: &mut [Box<dyn Transfers>]) -> Vec<Vec<u64>> {
    let mut ended = vec![Vec::new(); ends.len()];
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut busy = false;
        for (end, ended) in ends.iter_mut().zip(&mut ended) {
            busy |= end.poll(ended).unwrap() != Progress::Done;
        }
        if !busy {
            return ended;
        }
        assert!(Instant::now() < deadline, "transfers must end; so far {ended:?}");
        std::thread::yield_now();
    }
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
    let mut plane = plane(Road::Shared, 2);
    let mut second = plane.ends.pop().unwrap();
    let mut inn = vec![0; 10];
    let (done, told) = channel();
    std::thread::scope(|scope| {
        let end = &mut plane.ends[0];
        recv(&mut **end, 1, 1, &mut inn);
        scope.spawn(move || {
            let mut ended = Vec::new();
            loop {
                match end.poll(&mut ended) {
                    Ok(_) => end.wait(Duration::from_secs(20)),
                    Err(error) => break done.send(error.to_string()).unwrap(),
                }
            }
        });
        second.fail();
        let error = told.recv_timeout(Duration::from_secs(5)).unwrap();
        assert!(error.contains("given up"), "{error}");
    });
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
    assert_eq!((recent[0].kind, recent[0].peer), (1, 1));
    assert!(segment.recent(Rank(1)).is_empty());
    end.fail();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_set_of_transfers_delivers_its_bytes(
        size in 2..=5_u32,
        transfers in prop::collection::vec((any::<u32>(), any::<u32>(), 0..20_000_usize), 1..24),
    ) {
        for road in [Road::Shared, Road::Streamed] {
            let mut plane = plane(road, size);
            let mut cases: Vec<(u32, u32, Vec<u8>, Vec<u8>)> = (0..)
                .zip(&transfers)
                .map(|(number, &(src, dst, bytes))| {
                    let (src, dst) = (src % size, dst % size);
                    (src, dst, pattern(src, dst, number, bytes), vec![0; bytes])
                })
                .collect();
            for (token, (src, dst, out, inn)) in (0..).zip(&mut cases) {
                send(&mut *plane.ends[*src as usize], 2 * token, *dst, out);
                recv(&mut *plane.ends[*dst as usize], 2 * token + 1, *src, inn);
            }
            let mut ended: Vec<u64> = finish_all(&mut plane.ends).into_iter().flatten().collect();
            ended.sort_unstable();
            prop_assert_eq!(ended, (0..2 * cases.len() as u64).collect::<Vec<_>>());
            for (src, dst, out, inn) in &cases {
                prop_assert_eq!(out, inn, "{:?}: {} to {}", road, src, dst);
            }
        }
    }
}
