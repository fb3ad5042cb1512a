//! Times sends and receives between two processes: `transfer_speed [PIECE_KIB]`, and what a segment costs to make.
//!
//! Prints, for each road, the latency of a message of 8 bytes (half of a ping-pong's median) and the bandwidth of
//! one of 64 MB. The streamed road's switch is a thread of the first process.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measuring program: a panic is its error report"
)]

use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fakegpu_staging_shm::{
    Geometry, Progress, RecvBuffer, Segment, SendBuffer, SharedTransfers, StreamedTransfers, SwitchLane,
    Transfers,
};
use fakegpu_transport::{Dialer, Wire};
use fakegpu_transport_uds::{PrivateSocket, UdsDialer};
use fakegpu_units::Rank;

/// Bytes of a message, and how often it goes there and back.
const SIZES: [(usize, usize); 2] = [(8, 5000), (64_000_000, 12)];
const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => lead(256 << 10),
        [piece_kib] => lead(piece_kib.parse::<usize>().unwrap() << 10),
        [road, door, piece_bytes] => follow(road, door, piece_bytes.parse().unwrap()),
        _ => panic!("usage: transfer_speed [PIECE_KIB]"),
    }
}

fn lead(piece_bytes: usize) {
    let door = PrivateSocket::bind(&format!("fakegpu-transfer-speed-{}", std::process::id())).unwrap();
    creation();
    let child = again("shared", &door, piece_bytes);
    let (segment, fd) = Segment::create(geometry()).unwrap();
    door.hand_out(fd.as_fd(), LIMIT).unwrap();
    measure("shared", &mut SharedTransfers::new(Arc::new(segment), Rank(0)).unwrap(), Rank(0));
    end(child);

    let child = again("streamed", &door, piece_bytes);
    let cancelled = AtomicBool::new(false);
    let (arrivals, incoming) = channel();
    std::thread::scope(|scope| {
        let watch = &cancelled;
        scope.spawn(move || SwitchLane::new(2, piece_bytes).run(&incoming, watch).unwrap());
        let (near, far) = Wire::pair().unwrap();
        arrivals.send((Rank(0), far)).unwrap();
        arrivals.send((Rank(1), door.accept(LIMIT).unwrap())).unwrap();
        measure("streamed", &mut StreamedTransfers::new(near, Rank(0), 2, piece_bytes), Rank(0));
        end(child);
        cancelled.store(true, Ordering::Release);
    });
}

fn again(road: &str, door: &PrivateSocket, piece_bytes: usize) -> Child {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args([road, door.name(), &piece_bytes.to_string()]).spawn().unwrap()
}

fn end(mut child: Child) {
    assert!(child.wait().unwrap().success());
}

fn follow(road: &str, door: &str, piece_bytes: usize) {
    let wire = UdsDialer::new(door).dial(LIMIT).unwrap();
    if road == "streamed" {
        return measure(road, &mut StreamedTransfers::new(wire, Rank(1), 2, piece_bytes), Rank(1));
    }
    let segment = Segment::open(UdsDialer::receive_fd(&wire, LIMIT).unwrap(), geometry()).unwrap();
    measure(road, &mut SharedTransfers::new(Arc::new(segment), Rank(1)).unwrap(), Rank(1));
}

fn geometry() -> Geometry {
    Geometry::new(2, 256 << 10).unwrap()
}

/// Times the making of a segment for 8 ranks, its pages included.
fn creation() {
    let geometry = Geometry::new(8, 256 << 10).unwrap();
    let mut micros: Vec<f64> = (0..50)
        .map(|_| {
            let start = Instant::now();
            drop(Segment::create(geometry).unwrap());
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    println!("a segment for 8 ranks of {} bytes is made in {:.0} µs", geometry.bytes(), median(&mut micros));
}

fn measure(road: &str, end: &mut dyn Transfers, rank: Rank) {
    let peer = Rank(1 - rank.0);
    for (bytes, times) in SIZES {
        let (sent, mut received) = (vec![1_u8; bytes], vec![0_u8; bytes]);
        let mut micros = Vec::with_capacity(times);
        for _ in 0..times {
            let start = Instant::now();
            for turn in 0..2 {
                if turn == rank.0 {
                    // SAFETY: the buffer outlives the transfer, and nobody writes it.
                    let buffer = unsafe { SendBuffer::new(sent.as_ptr(), bytes) };
                    end.send(0, peer, buffer).unwrap();
                } else {
                    // SAFETY: the buffer outlives the transfer, and nobody else uses it meanwhile.
                    let buffer = unsafe { RecvBuffer::new(received.as_mut_ptr(), bytes) };
                    end.recv(0, peer, buffer).unwrap();
                }
                finish(end);
            }
            micros.push(start.elapsed().as_secs_f64() * 1e6 / 2.0);
        }
        assert!(received == sent, "what came is what was sent");
        if rank == Rank(0) {
            let one_way = median(&mut micros);
            let rate = bytes as f64 / one_way / 1e3;
            println!("{road:8} {bytes:>9} B: {one_way:>10.1} µs one way, {rate:.2} GB/s");
        }
    }
}

fn finish(end: &mut dyn Transfers) {
    let mut ended = Vec::new();
    loop {
        match end.poll(&mut ended).unwrap() {
            Progress::Done => return,
            Progress::Moved => {}
            Progress::Waiting => end.wait(LIMIT),
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
