//! What a switch does when ranks come late, leave or misbehave, and what a rank believes of what comes by its wire.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fakegpu_staging_shm::{
    Progress, RecvBuffer, SendBuffer, StagingError, StreamedTransfers, SwitchLane, Transfers,
};
use fakegpu_transport::Wire;
use fakegpu_units::Rank;

const PIECE_BYTES: usize = 4096;
const LIMIT: Duration = Duration::from_secs(20);

/// A switch in a thread of its own; it ends by itself when all connections have.
struct Switch {
    arrivals: Sender<(Rank, Wire)>,
    thread: JoinHandle<Result<(), StagingError>>,
}

impl Switch {
    fn start(size: u32) -> Self {
        let (arrivals, incoming) = channel();
        let run = move || SwitchLane::new(size, PIECE_BYTES).run(&incoming, &AtomicBool::new(false));
        Self { arrivals, thread: std::thread::spawn(run) }
    }

    /// `rank`'s end of a new connection, listening.
    fn wire(&self, rank: u32) -> Wire {
        let (near, far) = Wire::pair().unwrap();
        self.arrivals.send((Rank(rank), far)).unwrap();
        near.send_all(&frame(PULL, rank, 0, &[]), LIMIT).unwrap();
        near
    }

    fn end(&self, rank: u32, size: u32) -> StreamedTransfers {
        StreamedTransfers::new(self.wire(rank), Rank(rank), size, PIECE_BYTES)
    }

    /// How its thread ends once no more ranks come.
    fn outcome(self) -> Result<(), StagingError> {
        drop(self.arrivals);
        let deadline = Instant::now() + LIMIT;
        while !self.thread.is_finished() {
            assert!(Instant::now() < deadline, "the switch goes on");
            std::thread::yield_now();
        }
        self.thread.join().unwrap()
    }

    #[track_caller]
    fn blames(self, rank: u32, why: &str) {
        let error = self.outcome().unwrap_err();
        assert!(matches!(&error, StagingError::Peer { rank: seen, .. } if *seen == Rank(rank)), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

fn begin_send(end: &mut StreamedTransfers, peer: u32, data: &[u8]) {
    // SAFETY: every test keeps its buffers until its ends are gone.
    end.send(1, Rank(peer), unsafe { SendBuffer::new(data.as_ptr(), data.len()) }).unwrap();
}

fn begin_recv(end: &mut StreamedTransfers, peer: u32, data: &mut [u8]) {
    // SAFETY: as in `begin_send`.
    end.recv(2, Rank(peer), unsafe { RecvBuffer::new(data.as_mut_ptr(), data.len()) }).unwrap();
}

fn finish(end: &mut StreamedTransfers) -> Result<(), StagingError> {
    let (mut ended, deadline) = (Vec::new(), Instant::now() + LIMIT);
    while end.poll(&mut ended)? != Progress::Done {
        end.wait(Duration::from_millis(50));
        assert!(Instant::now() < deadline, "transfers must end");
    }
    Ok(())
}

/// A frame as the wire carries it.
fn frame(kind: [u8; 4], peer: u32, number: u32, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&kind, &peer.to_le_bytes()[..], &number.to_le_bytes(), &length.to_le_bytes(), bytes].concat()
}

const PULL: [u8; 4] = *b"FGpl";
const PIECE: [u8; 4] = *b"FGpc";

/// Reads `bytes` bytes.
fn read(wire: &Wire, bytes: usize) -> Vec<u8> {
    let mut seen = Vec::new();
    while seen.len() < bytes {
        assert!(wire.wait_readable(LIMIT).unwrap(), "only {} of {bytes} bytes came", seen.len());
        let mut buffer = vec![0; bytes - seen.len()];
        let count = wire.receive(&mut buffer).unwrap();
        seen.extend_from_slice(&buffer[..count]);
    }
    seen
}

#[test]
fn ranks_come_when_they_need_to_and_leave_when_they_are_done() {
    let switch = Switch::start(4);
    let (out, mut inn) = (vec![7; 100_000], vec![0; 100_000]);
    // The receiver is first, so its requests wait for the sender at the switch.
    let mut receiver = switch.end(2, 4);
    begin_recv(&mut receiver, 1, &mut inn);
    assert_ne!(receiver.poll(&mut Vec::new()).unwrap(), Progress::Done);
    let mut sender = switch.end(1, 4);
    begin_send(&mut sender, 2, &out);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            finish(&mut sender).unwrap();
            // What it sent is on its way, and it may be gone before that arrives.
            drop(sender);
        });
        finish(&mut receiver).unwrap();
    });
    assert_eq!(inn, out);
    // The one that is left goes on with the next that comes.
    let mut third = switch.end(3, 4);
    let mut back = vec![0; 5000];
    begin_send(&mut receiver, 3, &out[..5000]);
    begin_recv(&mut third, 2, &mut back);
    std::thread::scope(|scope| {
        scope.spawn(|| finish(&mut receiver).unwrap());
        finish(&mut third).unwrap();
    });
    assert_eq!(back, out[..5000]);
    drop((receiver, third));
    switch.outcome().unwrap();
}

#[test]
fn a_sender_that_ends_in_the_middle_is_named_and_its_receiver_fails() {
    let switch = Switch::start(2);
    let mut inn = vec![0; 100_000];
    let mut receiver = switch.end(0, 2);
    begin_recv(&mut receiver, 1, &mut inn);
    receiver.poll(&mut Vec::new()).unwrap();
    let wire = switch.wire(1);
    let pull = frame(PULL, 0, 0, &[]);
    assert_eq!(read(&wire, 2 * pull.len()), pull.repeat(2));
    wire.send_all(&frame(PIECE, 0, 0, &[1; PIECE_BYTES])[..1000], LIMIT).unwrap();
    drop(wire);
    switch.blames(1, "end of file");
    let error = finish(&mut receiver).unwrap_err();
    assert!(matches!(error, StagingError::Connection { .. }), "{error}");
    assert!(matches!(receiver.poll(&mut Vec::new()), Err(StagingError::Poisoned)));
    assert_eq!(inn, vec![0; 100_000], "no part of a piece is delivered");
}

#[test]
fn a_receiver_that_gives_up_is_named() {
    let switch = Switch::start(2);
    let mut inn = vec![0; 10];
    let mut receiver = switch.end(0, 2);
    begin_recv(&mut receiver, 1, &mut inn);
    receiver.poll(&mut Vec::new()).unwrap();
    receiver.fail();
    switch.blames(0, "end of file");
}

#[test]
fn a_rank_that_speaks_nonsense_is_named() {
    let check = |frames: &[Vec<u8>], why: &str| {
        let switch = Switch::start(3);
        let _receiver = switch.wire(1);
        switch.wire(0).send_all(&frames.concat(), LIMIT).unwrap();
        switch.blames(0, why);
    };
    check(&[vec![0; 16]], "no frame of a transfer");
    check(&[frame(PULL, 1, 0, &[1])], "no frame of a transfer");
    check(&[frame(PULL, 3, 0, &[])], "asks a rank for more than it may");
    check(&vec![frame(PULL, 2, 0, &[]); 3], "asks a rank for more than it may");
    check(&[frame(PIECE, 1, 0, &[1; 10])], "sends what nobody asked it for");
    check(&[frame(PIECE, 1, 0, &[1; PIECE_BYTES + 1])], "longer than the communicator's");
    check(&[frame(PULL, 1, 0, &[])[..7].to_vec()], "end of file");
}

#[test]
fn a_rank_believes_nothing_that_comes_by_its_wire() {
    let check = |frames: &[Vec<u8>], why: &str| {
        let (near, far) = Wire::pair().unwrap();
        let mut end = StreamedTransfers::new(near, Rank(0), 3, PIECE_BYTES);
        let (out, mut inn) = ([7; 10], [0; 10]);
        begin_send(&mut end, 2, &out);
        begin_recv(&mut end, 1, &mut inn);
        end.poll(&mut Vec::new()).unwrap();
        far.send_all(&frames.concat(), LIMIT).unwrap();
        let error = finish(&mut end).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(inn, [0; 10]);
    };
    check(&[vec![9; 16]], "no frame of a transfer");
    check(&[frame(PIECE, 1, 0, &[1; 11])], "not as long as the transfer says");
    check(&[frame(PIECE, 1, 0, &[1; 9])], "not as long as the transfer says");
    check(&[frame(PIECE, 1, 0, &[])], "not as long as the transfer says");
    check(&[frame(PIECE, 1, 1, &[1; 10])], "another transfer than the one that is due");
    check(&[frame(PIECE, 2, 0, &[1; 10])], "nobody asked for");
    check(&[frame(PIECE, 3, 0, &[1; 10])], "no peer");
    check(&[frame(PULL, 0, 0, &[])], "no peer");
    check(&[frame(PULL, 2, 1, &[])], "another transfer than the one that is due");
    check(&vec![frame(PULL, 1, 0, &[]); 3], "asks for more than it may");
}

#[test]
fn an_end_of_the_stream_after_the_last_byte_is_no_failure() {
    let (near, far) = Wire::pair().unwrap();
    let mut end = StreamedTransfers::new(near, Rank(0), 2, PIECE_BYTES);
    let (mut inn, mut ended) = ([0; 10], Vec::new());
    begin_recv(&mut end, 1, &mut inn);
    end.poll(&mut ended).unwrap();
    let asked = [frame(PULL, 0, 0, &[]), frame(PULL, 1, 0, &[])].concat();
    assert_eq!(read(&far, asked.len()), asked, "that it listens, and for the first piece");
    far.send_all(&frame(PIECE, 1, 0, &[5; 10]), LIMIT).unwrap();
    drop(far);
    assert_eq!(end.poll(&mut ended).unwrap(), Progress::Done);
    assert_eq!((ended, inn), (vec![2], [5; 10]));
    begin_recv(&mut end, 1, &mut inn);
    assert!(matches!(end.poll(&mut Vec::new()), Err(StagingError::Connection { .. })), "there is no more");
}

#[test]
fn a_send_ends_only_when_its_last_byte_has_left() {
    let (near, far) = Wire::pair().unwrap();
    let mut end = StreamedTransfers::new(near, Rank(0), 2, 64 << 10);
    let (out, mut ended) = (vec![7; 2 << 20], Vec::new());
    begin_send(&mut end, 1, &out);
    // All is asked for, and nothing read: more than a socket holds stays with the rank.
    for _ in 0..out.len() / (2 * (64 << 10)) {
        far.send_all(&frame(PULL, 1, 0, &[]).repeat(2), LIMIT).unwrap();
        assert_ne!(end.poll(&mut ended).unwrap(), Progress::Done);
    }
    assert!(ended.is_empty(), "bytes would be lost if the rank closed its connection now");
    let head = frame(PULL, 0, 0, &[]).len();
    let due = head + out.len() / (64 << 10) * (head + (64 << 10));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(read(&far, due).len(), due));
        finish(&mut end).unwrap();
    });
}

#[test]
fn a_rank_is_sent_nothing_before_it_listens_nor_when_it_comes_again() {
    let switch = Switch::start(2);
    let mut receiver = switch.end(0, 2);
    let (mut inn, pull) = ([0; 10], frame(PULL, 0, 0, &[]));
    let first = switch.wire(1);
    begin_recv(&mut receiver, 1, &mut inn);
    receiver.poll(&mut Vec::new()).unwrap();
    assert_eq!(read(&first, pull.len()), pull);
    first.send_all(&frame(PIECE, 0, 0, &[3; 10]), LIMIT).unwrap();
    finish(&mut receiver).unwrap();
    assert_eq!(inn, [3; 10]);
    let (near, far) = Wire::pair().unwrap();
    switch.arrivals.send((Rank(1), far)).unwrap();
    assert!(first.wait_readable(LIMIT).unwrap());
    assert_eq!(first.receive(&mut [0]).unwrap(), 0, "the new connection takes the place of the old one");

    begin_recv(&mut receiver, 1, &mut inn);
    receiver.poll(&mut Vec::new()).unwrap();
    // Its connection may be read by whoever accepted it until now, and a request would be lost there.
    assert!(!near.wait_readable(Duration::from_millis(60)).unwrap());
    // To itself: it listens.
    near.send_all(&frame(PULL, 1, 0, &[]), LIMIT).unwrap();
    let pull = frame(PULL, 0, 1, &[]);
    assert_eq!(read(&near, pull.len()), pull);
    near.send_all(&frame(PIECE, 0, 1, &[4; 10]), LIMIT).unwrap();
    finish(&mut receiver).unwrap();
    assert_eq!(inn, [4; 10]);
}
