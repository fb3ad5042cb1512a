//! Times an all-reduce of floats over one shared segment among processes: `exchange_speed [RANKS [SLOT_KIB]]`.
//!
//! Prints the median on rank 0, in microseconds, of operations that follow each other back to back, in place and
//! in separate buffers.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measuring program: a panic is its error report"
)]

use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fakegpu_executor::{Plan, Reduction, Shape};
use fakegpu_staging_shm::{Geometry, RecvBuffer, Run, Segment, SendBuffer, SharedExchange, finish};
use fakegpu_transport::Dialer;
use fakegpu_transport_uds::{PrivateSocket, UdsDialer};
use fakegpu_units::{Collective, CommId, DataType, Rank, ReduceOp, SeqNo};

/// Bytes of a tensor, and how often it is reduced.
const SIZES: [(usize, usize); 4] = [(8, 5000), (4 << 10, 5000), (1 << 20, 300), (64 << 20, 12)];
const LIMIT: Duration = Duration::from_secs(30);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, otherwise: u32| arguments.get(at).map_or(otherwise, |text| text.parse().unwrap());
    let geometry = Geometry::new(number(0, 2), number(1, 256) << 10).unwrap();
    match arguments.get(2) {
        None => lead(geometry),
        Some(door) => follow(geometry, door, Rank(number(3, 0))),
    }
}

fn lead(geometry: Geometry) {
    let door = PrivateSocket::bind(&format!("fakegpu-exchange-speed-{}", std::process::id())).unwrap();
    let (segment, fd) = Segment::create(geometry).unwrap();
    let child = |rank: u32| {
        let slot_kib = geometry.slot_bytes() >> 10;
        let arguments =
            [geometry.size().to_string(), slot_kib.to_string(), door.name().to_owned(), rank.to_string()];
        Command::new(std::env::current_exe().unwrap()).args(arguments).spawn().unwrap()
    };
    let mut children: Vec<_> = (1..geometry.size()).map(child).collect();
    for _ in &children {
        door.hand_out(fd.as_fd(), LIMIT).unwrap();
    }
    measure(segment, Rank(0));
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
}

fn follow(geometry: Geometry, door: &str, rank: Rank) {
    let wire = UdsDialer::new(door).dial(LIMIT).unwrap();
    let fd = UdsDialer::receive_fd(&wire, LIMIT).unwrap();
    measure(Segment::open(fd, geometry).unwrap(), rank);
}

fn measure(segment: Segment, rank: Rank) {
    let geometry = segment.geometry();
    let mut exchange = SharedExchange::new(Arc::new(segment), rank).unwrap();
    for (bytes, times) in SIZES {
        let sent = 1.0_f32.to_ne_bytes().repeat(bytes / 4);
        let mut received = vec![1_u8; bytes];
        for in_place in [false, true] {
            let mut micros = Vec::with_capacity(times);
            for seq in 0..times + times / 10 {
                if in_place {
                    received.copy_from_slice(&sent);
                }
                let run = all_reduce(geometry, &sent, &mut received, in_place, seq as u64);
                let start = Instant::now();
                finish(&mut exchange, run, LIMIT).unwrap();
                micros.push(start.elapsed().as_secs_f64() * 1e6);
            }
            let last = f32::from_ne_bytes(received[bytes - 4..].try_into().unwrap());
            assert!(last.to_bits() == (geometry.size() as f32).to_bits(), "sum of ones is `{last}`");
            report(rank, geometry, bytes, in_place, micros.split_off(times / 10));
        }
    }
}

fn all_reduce(geometry: Geometry, sent: &[u8], received: &mut [u8], in_place: bool, seq: u64) -> Run {
    let (data_type, size) = (DataType::Float32, geometry.size());
    let shape = Shape {
        op: Collective::AllReduce,
        size,
        root: Rank(0),
        count: (sent.len() / 4) as u64,
        elem_bytes: 4,
        slot_bytes: geometry.slot_bytes(),
    };
    let send = if in_place { received.as_ptr() } else { sent.as_ptr() };
    Run {
        plan: Plan::new(shape).unwrap(),
        reduction: Some(Reduction { data_type, op: ReduceOp::Sum, size }),
        scalar: None,
        // SAFETY: the caller keeps both buffers, and leaves them alone, until the operation has ended.
        send: unsafe { SendBuffer::new(send, sent.len()) },
        // SAFETY: as above.
        recv: unsafe { RecvBuffer::new(received.as_mut_ptr(), received.len()) },
        data_type,
        comm: CommId(0),
        seq: SeqNo(seq),
    }
}

fn report(rank: Rank, geometry: Geometry, bytes: usize, in_place: bool, mut micros: Vec<f64>) {
    if rank != Rank(0) {
        return;
    }
    micros.sort_by(f64::total_cmp);
    let (median, least) = (micros[micros.len() / 2], micros[0]);
    let (ranks, slot_kib) = (geometry.size(), geometry.slot_bytes() >> 10);
    let place = if in_place { "in place" } else { "separate" };
    println!(
        "{ranks} ranks, {slot_kib} KiB slots, {bytes:>9} B {place}: median {median:>10.2} us, least {least:>10.2} us"
    );
}
