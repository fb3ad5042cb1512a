//! The runtime against a real daemon, both in this process: two runtimes are two processes as far as either knows.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod background;
mod derived;
mod drivers;
mod pairs;
mod refusals;
mod settings;
mod streams;
mod together;
mod windows;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use fakegpu_coordinatord::{Daemon, Setup};
use std::sync::Arc;

use fakegpu_rank::{Call, PointToPoint};
use fakegpu_simulate::{
    Collective, CommOptions, Direction, Fault, Handle, NeverSpawn, Outcome, RedOp, Request, Runtime,
};
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};
use fakegpu_units::{Collective as Op, DataType, Rank, ReduceOp};

/// A coordinator in a thread of its own, ended with its guard.
struct Desk {
    folder: tempfile::TempDir,
    daemon: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().join("c.sock");
        let daemon = Daemon::bind("unix", address.to_str().unwrap(), Setup::default()).unwrap();
        Self { folder, daemon: Some(std::thread::spawn(|| daemon.run())) }
    }

    fn address(&self) -> String {
        self.folder.path().join("c.sock").to_str().unwrap().to_owned()
    }

    fn runtime(&self, more: &[(&str, &str)]) -> Runtime {
        let mut vars = vec![("FAKEGPU_COORDINATOR_ADDR".to_owned(), self.address())];
        vars.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        Runtime::new(vars, Box::new(NeverSpawn))
    }

    fn ask(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(self.address()).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = [0; 256];
        let count = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..count]).into_owned()
    }

    fn stop(&mut self) {
        if let Some(daemon) = self.daemon.take() {
            self.ask("SHUTDOWN");
            daemon.join().unwrap().unwrap();
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where ranks come from: an id of one byte, and how many they are.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: u8,
    size: i32,
    rank: i32,
}

fn join_with(runtime: &Runtime, place: Place, options: CommOptions) -> Result<(Handle, Outcome), Fault> {
    let unique_id = &[place.id; 128];
    runtime.init(&Request { unique_id, size: place.size, rank: place.rank, device: None, gpu: None, options })
}

/// A rank of a communicator of two, alone in its runtime.
fn join(runtime: &Runtime, id: u8, rank: i32) -> Result<Handle, Fault> {
    join_with(runtime, Place { id, size: 2, rank }, CommOptions::default()).map(|(handle, _)| handle)
}

/// A rank in a runtime of its own.
type Seat = (Arc<Runtime>, Handle);

/// A communicator of this many ranks, each in a runtime of its own.
fn seats(desk: &Desk, size: i32, more: &[(&str, &str)]) -> Vec<Seat> {
    let runtimes: Vec<_> = (0..size).map(|_| Arc::new(desk.runtime(more))).collect();
    std::thread::scope(|scope| {
        let joins: Vec<_> = (0..size)
            .zip(&runtimes)
            .map(|(rank, runtime)| {
                scope.spawn(move || {
                    let place = Place { id: 1, size, rank };
                    join_with(runtime, place, CommOptions::default()).unwrap().0
                })
            })
            .collect();
        let handles: Vec<_> = joins.into_iter().map(|join| join.join().unwrap()).collect();
        runtimes.iter().cloned().zip(handles).collect()
    })
}

/// Lets all ranks act at once, each in a thread of its own; what came of it, by rank.
fn all<T: Send>(seats: &[Seat], act: impl Fn(&Runtime, Handle, usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let act = &act;
        let acts: Vec<_> = seats
            .iter()
            .enumerate()
            .map(|(rank, (runtime, handle))| scope.spawn(move || act(runtime, *handle, rank)))
            .collect();
        acts.into_iter().map(|act| act.join().unwrap()).collect()
    })
}

/// Sends floats to a peer. They must live until the call, or the group that holds it, has ended.
fn send(runtime: &Runtime, comm: Handle, peer: i32, values: &[f32]) -> Result<Outcome, Fault> {
    let call = half(Direction::Send, values.as_ptr().addr(), values.len(), peer);
    // SAFETY: every test keeps its buffers until the operation has ended.
    let buffer = unsafe { SendBuffer::new(values.as_ptr().cast(), size_of_val(values)) };
    runtime.send(comm, call, buffer, 0)
}

/// Receives floats from a peer; as [`send`].
fn recv(runtime: &Runtime, comm: Handle, peer: i32, values: &mut [f32]) -> Result<Outcome, Fault> {
    let call = half(Direction::Recv, values.as_ptr().addr(), values.len(), peer);
    // SAFETY: as for `send`; nothing else touches them meanwhile.
    let buffer = unsafe { RecvBuffer::new(values.as_mut_ptr().cast(), size_of_val(values)) };
    runtime.recv(comm, call, buffer, 0)
}

fn half(direction: Direction, buffer: usize, count: usize, peer: i32) -> PointToPoint {
    PointToPoint { direction, buffer, count, data_type: DataType::Float32, peer, size: 0 }
}

/// A collective of floats; as [`send`]. The buffers must be as long as it wants them.
fn collective(
    runtime: &Runtime,
    comm: Handle,
    what: (Op, Option<i32>),
    count: usize,
    buffers: (*const f32, *mut f32),
) -> Result<Outcome, Fault> {
    collective_on(0, runtime, comm, what, count, buffers)
}

/// The same on a stream.
fn collective_on(
    stream: usize,
    runtime: &Runtime,
    comm: Handle,
    (op, root): (Op, Option<i32>),
    count: usize,
    (from, to): (*const f32, *mut f32),
) -> Result<Outcome, Fault> {
    let reduce = op.reduces().then_some(ReduceOp::Sum);
    let size = runtime.size(comm)?;
    let call = Call {
        op,
        send: from.addr(),
        recv: to.addr(),
        count,
        data_type: DataType::Float32,
        reduce,
        root,
        rank: Rank(0),
        size,
    };
    // SAFETY: as for `send`.
    let send = unsafe { SendBuffer::new(from.cast(), call.send_bytes()) };
    // SAFETY: as for `recv`.
    let recv = unsafe { RecvBuffer::new(to.cast(), call.recv_bytes()) };
    runtime.collective(Collective { comm, call, op: reduce.map(RedOp::Builtin), send, recv, stream })
}

/// Sums one float over the communicator, in place.
fn sum(runtime: &Runtime, comm: Handle, value: &mut f32) -> Result<(), Fault> {
    let place: *mut f32 = value;
    collective(runtime, comm, (Op::AllReduce, None), 1, (place, place)).map(|outcome| {
        assert_eq!(outcome, Outcome::Done);
    })
}
