//! The runtime against a real daemon, both in this process: two runtimes are two processes as far as either knows.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod refusals;
mod together;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use fakegpu_coordinatord::{Daemon, Setup};
use fakegpu_rank::Call;
use fakegpu_simulate::{Collective, Fault, Handle, NeverSpawn, RedOp, Request, Runtime};
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};
use fakegpu_units::{DataType, Rank, ReduceOp};

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

/// A rank of a communicator of two, alone in its runtime.
fn join(runtime: &Runtime, id: u8, rank: i32) -> Result<Handle, Fault> {
    runtime.init(&Request { unique_id: &[id; 128], size: 2, rank, device: None })
}

/// Sums one float over the communicator, in place.
fn sum(runtime: &Runtime, comm: Handle, value: &mut f32) -> Result<(), Fault> {
    let place: *mut f32 = value;
    let call = Call {
        op: fakegpu_units::Collective::AllReduce,
        send: place.addr(),
        recv: place.addr(),
        count: 1,
        data_type: DataType::Float32,
        reduce: Some(ReduceOp::Sum),
        root: None,
        rank: Rank(0),
        size: 2,
    };
    // SAFETY: the float is borrowed for the whole call, which ends before it returns: no test here drives two
    // ranks from one thread.
    let send = unsafe { SendBuffer::new(place.cast_const().cast(), 4) };
    // SAFETY: as above.
    let recv = unsafe { RecvBuffer::new(place.cast(), 4) };
    runtime.collective(Collective { comm, call, op: Some(RedOp::Builtin(ReduceOp::Sum)), send, recv })
}
