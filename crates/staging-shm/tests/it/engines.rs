//! What both engines promise about single transfers, and what `io_uring` alone could get wrong.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use fakegpu_staging_shm::engine::engine_or_fallback;
use fakegpu_staging_shm::{
    Direction, Engine, Finished, PollEngine, StagingError, Transfer, UringEngine, engine,
};
use fakegpu_transport::Wire;

use crate::case::LIMIT;

fn both() -> [Box<dyn Engine>; 2] {
    [Box::new(PollEngine::new()), Box::new(UringEngine::new().unwrap())]
}

fn submit(engine: &mut dyn Engine, token: u64, wire: &Arc<Wire>, direction: Direction, buffer: Vec<u8>) {
    engine.submit(Transfer { token, wire: Arc::clone(wire), direction, buffer }).unwrap();
}

#[track_caller]
fn complete(engine: &mut dyn Engine, count: usize) -> Vec<Finished> {
    let (mut done, start) = (Vec::new(), Instant::now());
    while done.len() < count {
        assert!(start.elapsed() < LIMIT, "{} of {count} transfers ended: {engine:?}", done.len());
        engine.complete(Duration::from_millis(50), &mut done).unwrap();
    }
    done
}

fn connected() -> (Arc<Wire>, Arc<Wire>) {
    let (near, far) = Wire::pair().unwrap();
    (Arc::new(near), Arc::new(far))
}

#[test]
fn transfers_of_one_stream_keep_their_order_and_move_whole() {
    for mut engine in both() {
        let (near, far) = connected();
        // Far more than the socket buffers, in pieces that end anywhere.
        let sizes = [1_000_001, 3, 0, 2_000_003];
        for (token, size) in (0_u8..).zip(sizes) {
            submit(&mut *engine, u64::from(token), &near, Direction::Send, vec![token; size]);
            submit(&mut *engine, 10 + u64::from(token), &far, Direction::Receive, vec![0xff; size]);
        }
        assert_eq!(engine.pending(), 8);
        let mut done = complete(&mut *engine, 8);
        done.sort_by_key(|finished| finished.token);
        for (token, (finished, size)) in (0_u8..).zip(done[4..].iter().zip(sizes)) {
            assert!(finished.result.is_ok());
            assert!(finished.buffer == vec![token; size], "{}: transfer {token} mixed", engine.name());
        }
        assert_eq!(engine.pending(), 0);
    }
}

#[test]
fn the_end_of_a_stream_is_an_error_of_the_transfer() {
    for mut engine in both() {
        let (near, far) = connected();
        far.send_all(&[1; 10], LIMIT).unwrap();
        far.close();
        submit(&mut *engine, 0, &near, Direction::Receive, vec![0; 11]);
        let ended = complete(&mut *engine, 1).remove(0).result.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        // The default action of SIGPIPE would end this test program.
        submit(&mut *engine, 1, &near, Direction::Send, vec![0; 11]);
        let broken = complete(&mut *engine, 1).remove(0).result.unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
    }
}

#[test]
fn waiting_for_a_silent_peer_is_bounded() {
    for mut engine in both() {
        let (near, _far) = connected();
        submit(&mut *engine, 0, &near, Direction::Receive, vec![0; 4]);
        let (start, mut done) = (Instant::now(), Vec::new());
        engine.complete(Duration::from_millis(30), &mut done).unwrap();
        assert!(done.is_empty() && start.elapsed() < Duration::from_secs(20));
        engine.complete(Duration::ZERO, &mut done).unwrap();
        assert!(done.is_empty() && engine.pending() == 1);
    }
}

#[test]
fn cancelling_gives_everything_up_and_tells_the_peer() {
    for mut engine in both() {
        let (near, far) = connected();
        submit(&mut *engine, 0, &near, Direction::Receive, vec![0; 4]);
        submit(&mut *engine, 1, &near, Direction::Receive, vec![0; 4]);
        submit(&mut *engine, 2, &near, Direction::Send, vec![0; 4 << 20]);
        engine.complete(Duration::ZERO, &mut Vec::new()).unwrap();
        let start = Instant::now();
        engine.cancel_all();
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(engine.pending(), 0);
        let mut buffer = vec![0; 1 << 20];
        while far.receive(&mut buffer).unwrap() > 0 {}
        let (near, far) = connected();
        submit(&mut *engine, 3, &near, Direction::Send, vec![9]);
        assert_eq!(complete(&mut *engine, 1)[0].token, 3, "the engine itself is still good");
        assert_eq!(far.receive(&mut buffer).unwrap(), 1);
    }
}

#[test]
fn dropping_an_engine_in_the_middle_of_a_transfer_is_quick() {
    for mut engine in both() {
        let (near, far) = connected();
        submit(&mut *engine, 0, &near, Direction::Receive, vec![0; 1 << 20]);
        engine.complete(Duration::ZERO, &mut Vec::new()).unwrap();
        let start = Instant::now();
        drop(engine);
        assert!(start.elapsed() < Duration::from_secs(2));
        drop(far);
    }
}

#[test]
fn a_transfer_outlives_the_thread_that_submitted_it() {
    for mut engine in both() {
        let (near, far) = connected();
        let mut engine = thread::spawn(move || {
            submit(&mut *engine, 0, &near, Direction::Receive, vec![0; 4]);
            engine.complete(Duration::ZERO, &mut Vec::new()).unwrap();
            engine
        })
        .join()
        .unwrap();
        engine.complete(Duration::from_millis(10), &mut Vec::new()).unwrap();
        far.send_all(b"late", LIMIT).unwrap();
        assert_eq!(complete(&mut *engine, 1)[0].buffer, b"late");
    }
}

#[test]
fn more_transfers_than_the_ring_has_entries() {
    let mut engine = UringEngine::with_entries(2).unwrap();
    let wires: Vec<_> = (0..40).map(|_| connected()).collect();
    for (token, (near, far)) in (0_u64..).zip(&wires) {
        submit(&mut engine, token, near, Direction::Receive, vec![0; 8]);
        submit(&mut engine, 100 + token, far, Direction::Send, token.to_be_bytes().to_vec());
    }
    let done = complete(&mut engine, 80);
    let received = done.iter().filter(|finished| finished.token < 100);
    assert_eq!(received.filter(|finished| finished.buffer == finished.token.to_be_bytes()).count(), 40);
}

#[test]
fn a_refused_ring_falls_back_to_plain_sockets() {
    let refused = UringEngine::with_entries(1 << 20).unwrap_err();
    assert!(matches!(refused, StagingError::UringRefused { what: "setup", .. }), "{refused}");
    let fallback = engine_or_fallback(|| UringEngine::with_entries(1 << 20));
    assert_eq!(fallback.name(), "poll");
    assert_eq!(engine(true).name(), "poll");
    assert_eq!(engine(false).name(), "io_uring");
}
