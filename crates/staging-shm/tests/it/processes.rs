//! Ranks as processes that share nothing but a descriptor.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use fakegpu_executor::Shape;
use fakegpu_staging_shm::{
    Descriptor, Geometry, Progress, RecvBuffer, Segment, SendBuffer, SharedExchange, SharedTransfers,
    Transfers,
};
use fakegpu_transport::Dialer;
use fakegpu_transport_uds::{PrivateSocket, UdsDialer};
use fakegpu_units::{Collective, CommId, DataType, Rank, ReduceOp, SeqNo};

use crate::case::Case;

const DOOR: &str = "FAKEGPU_TEST_DOOR";
const SLOT_BYTES: u32 = 4096;

/// This test program again, running one of its ignored tests.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture"]).stdin(Stdio::null());
    command
}

fn geometry() -> Geometry {
    Geometry::new(2, SLOT_BYTES).unwrap()
}

/// A buffer of `root`'s that crosses slot boundaries.
fn broadcast(root: u32) -> Case {
    let slot_bytes = SLOT_BYTES as usize;
    let shape = Shape {
        op: Collective::Broadcast,
        size: 2,
        root: Rank(root),
        count: 50_001,
        elem_bytes: 2,
        slot_bytes,
    };
    let seed = 100 + u64::from(root);
    Case { shape, data_type: DataType::BFloat16, op: ReduceOp::Sum, in_place: false, seed }
}

#[test]
fn unrelated_processes_write_and_read_one_buffer_byte_for_byte() {
    let door = PrivateSocket::bind(&format!("fakegpu-staging-test-{}", std::process::id())).unwrap();
    let (segment, fd) = Segment::create(geometry()).unwrap();
    let mut child = again("processes::other_process").env(DOOR, door.name()).spawn().unwrap();
    door.hand_out(fd.as_fd(), Duration::from_secs(30)).unwrap();
    let mut exchange = SharedExchange::new(Arc::new(segment), Rank(0)).unwrap();
    for (seq, root) in [0, 1].into_iter().enumerate() {
        let case = broadcast(root);
        let received = case.execute(&mut exchange, Rank(0), seq as u64).unwrap();
        assert_eq!(received, case.send(Rank(root)));
    }
    let theirs = exchange.segment().descriptor(Rank(1)).unwrap();
    assert_eq!((theirs.comm(), theirs.seq(), theirs.owner), (CommId(7), SeqNo(1), 1));
    assert_eq!((theirs.data_type(), theirs.staging_id), (Some(DataType::BFloat16), 2));
    assert_eq!((theirs.dims, theirs.shape, theirs.bytes), (1, [50_001], 100_002));
    assert!(child.wait().unwrap().success(), "the other process received the same bytes");
}

#[test]
#[ignore = "the other process of `unrelated_processes_write_and_read_one_buffer_byte_for_byte`"]
fn other_process() {
    let Ok(door) = std::env::var(DOOR) else { return };
    let wire = UdsDialer::new(&door).dial(Duration::from_secs(30)).unwrap();
    let fd = UdsDialer::receive_fd(&wire, Duration::from_secs(30)).unwrap();
    let segment = Arc::new(Segment::open(fd, geometry()).unwrap());
    let mut exchange = SharedExchange::new(segment, Rank(1)).unwrap();
    for (seq, root) in [0, 1].into_iter().enumerate() {
        let case = broadcast(root);
        let received = case.execute(&mut exchange, Rank(1), seq as u64).unwrap();
        assert_eq!(received, case.send(Rank(root)));
    }
}

/// What goes from the first process to the second and comes back doubled.
fn message() -> Vec<u8> {
    (0..(1_u32 << 20) + 3).map(|at| (at % 101).to_le_bytes()[0]).collect()
}

fn transfers(segment: Segment, rank: u32) -> (Arc<Segment>, SharedTransfers) {
    let segment = Arc::new(segment);
    let end = SharedTransfers::new(Arc::clone(&segment), Rank(rank)).unwrap();
    (segment, end)
}

fn send_now(end: &mut SharedTransfers, peer: u32, data: &[u8]) {
    // SAFETY: the buffer is borrowed until the transfer has ended.
    end.send(0, Rank(peer), unsafe { SendBuffer::new(data.as_ptr(), data.len()) }).unwrap();
    finish_transfers(end);
}

fn recv_now(end: &mut SharedTransfers, peer: u32, data: &mut [u8]) {
    // SAFETY: the buffer is borrowed until the transfer has ended.
    end.recv(0, Rank(peer), unsafe { RecvBuffer::new(data.as_mut_ptr(), data.len()) }).unwrap();
    finish_transfers(end);
}

fn finish_transfers(end: &mut SharedTransfers) {
    while end.poll(&mut Vec::new()).unwrap() != Progress::Done {
        end.wait(Duration::from_millis(50));
    }
}

#[test]
fn processes_send_to_each_other_and_a_dead_one_leaves_what_it_was_doing() {
    let door = PrivateSocket::bind(&format!("fakegpu-transfers-test-{}", std::process::id())).unwrap();
    let (segment, fd) = Segment::create(geometry()).unwrap();
    let mut child = again("processes::other_process_of_transfers").env(DOOR, door.name()).spawn().unwrap();
    door.hand_out(fd.as_fd(), Duration::from_secs(30)).unwrap();
    let (segment, mut end) = transfers(segment, 0);
    let (out, mut back) = (message(), vec![0; message().len()]);
    send_now(&mut end, 1, &out);
    recv_now(&mut end, 1, &mut back);
    assert!(back.iter().zip(&out).all(|(back, out)| *back == 2 * out));
    assert_eq!(child.wait().unwrap().code(), Some(7), "it leaves in the middle of its third transfer");
    let told = segment.recent(Rank(1));
    let told: Vec<_> = told.iter().map(|run| (run.staging_id, run.kind, run.peer, run.bytes)).collect();
    let bytes = out.len() as u64;
    let (send, recv) = (Descriptor::SEND, Descriptor::RECV);
    assert_eq!(told, [(1, recv, 0, bytes), (2, send, 0, bytes), (3, recv, 0, 99)]);
}

#[test]
#[ignore = "the other process of `processes_send_to_each_other_and_a_dead_one_leaves_what_it_was_doing`"]
fn other_process_of_transfers() {
    let Ok(door) = std::env::var(DOOR) else { return };
    let wire = UdsDialer::new(&door).dial(Duration::from_secs(30)).unwrap();
    let fd = UdsDialer::receive_fd(&wire, Duration::from_secs(30)).unwrap();
    let (_segment, mut end) = transfers(Segment::open(fd, geometry()).unwrap(), 1);
    let mut data = vec![0; message().len()];
    recv_now(&mut end, 0, &mut data);
    data.iter_mut().for_each(|byte| *byte *= 2);
    send_now(&mut end, 0, &data);
    // SAFETY: the process ends while the buffer lives.
    end.recv(0, Rank(0), unsafe { RecvBuffer::new(data.as_mut_ptr(), 99) }).unwrap();
    std::process::exit(7);
}
