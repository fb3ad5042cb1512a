//! `io_uring`: one system call submits and reaps a whole batch, whatever the number of connections.
//!
//! **Invariant:** a buffer that the kernel may touch sits in a flight, and a flight is dropped only after its
//! completion was reaped. Where that cannot be waited for, the flight is leaked.
//!
//! The ring is made without `SINGLE_ISSUER` and the flags that need it, since an exchange may move between
//! threads. A request is tied to the thread that submitted it, though, and cancelled when that thread ends;
//! such a request is submitted again.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, getpid};

use super::{Direction, Engine, Finished, Flight, Lanes, Transfer};
use crate::StagingError;

/// Transfers over a ring of the kernel's.
pub struct UringEngine {
    ring: IoUring,
    /// A ring is shared with forked children, which must leave it alone.
    owner: Pid,
    lanes: Lanes,
    /// Indexed by the user data of a request.
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Transfers that ended without the kernel.
    ready: Vec<Finished>,
    reaped: Vec<(u64, i32)>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Connections are being shut down; nothing is started again.
    Cancelling,
    /// The kernel still holds buffers that it did not give back in time.
    Dead,
}

const ENTRIES: u32 = 256;

/// Longest single request; longer transfers take several.
const REQUEST_BYTES: usize = 1 << 30;

/// How long shut-down connections may take to give their buffers back.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);

impl UringEngine {
    /// An engine over a fresh ring.
    ///
    /// # Errors
    /// Where the kernel, a sandbox or a limit refuses the ring, or the kernel lacks an operation.
    pub fn new() -> Result<Self, StagingError> {
        Self::with_entries(ENTRIES)
    }

    /// The same, with the submission queue's length.
    ///
    /// # Errors
    /// As [`UringEngine::new`]; lengths beyond the kernel's 32768 are refused.
    pub fn with_entries(entries: u32) -> Result<Self, StagingError> {
        let refused = |what| move |source| StagingError::UringRefused { what, source };
        let ring = IoUring::new(entries).map_err(refused("setup"))?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(refused("asking for its operations"))?;
        let needed = [opcode::Send::CODE, opcode::Recv::CODE];
        let complete = needed.iter().all(|&code| probe.is_supported(code));
        let parameters = ring.params();
        if !complete || !parameters.is_feature_ext_arg() || !parameters.is_feature_nodrop() {
            let source = io::ErrorKind::Unsupported.into();
            return Err(refused("send, receive, bounded waits and lossless completions")(source));
        }
        Ok(Self {
            ring,
            owner: getpid(),
            lanes: Lanes::default(),
            flights: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            reaped: Vec::new(),
            state: State::Open,
        })
    }

    fn usable(&self) -> io::Result<()> {
        if getpid() != self.owner {
            return Err(io::Error::other("the ring belongs to the process that forked this one"));
        }
        match self.state {
            State::Dead => Err(io::Error::other("the kernel kept buffers of cancelled transfers")),
            State::Open | State::Cancelling => Ok(()),
        }
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    fn start(&mut self, transfer: Transfer) -> io::Result<()> {
        let index = self.free.pop().unwrap_or(self.flights.len());
        if index == self.flights.len() {
            self.flights.push(None);
        }
        self.flights[index] = Some(Flight::new(transfer));
        self.request(index)
    }

    /// Asks the kernel to move the rest of a flight.
    fn request(&mut self, index: usize) -> io::Result<()> {
        let Some(flight) = self.flights.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        let entry = flight.entry().user_data(index as u64);
        // SAFETY: the entry points into the flight's buffer, which neither moves on the heap nor is freed before
        // the completion with this user data was reaped; the flight also keeps the connection open.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.ring.submit()?;
            // SAFETY: as above.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            pushed.map_err(|_| io::Error::other("the submission queue stays full"))?;
        }
        Ok(())
    }

    /// Submits what was asked for, and waits up to `timeout` for a completion if `wanted` is 1.
    fn enter(&mut self, wanted: usize, timeout: Duration) -> io::Result<()> {
        if wanted == 0 && self.ring.submission().is_empty() {
            return Ok(());
        }
        let limit = Timespec::from(timeout.min(Duration::from_secs(86_400)));
        let entered = match wanted {
            0 => self.ring.submit(),
            _ => self.ring.submitter().submit_with_args(wanted, &SubmitArgs::new().timespec(&limit)),
        };
        match entered.map_err(|error| (Errno::from_io_error(&error), error)) {
            // BUSY and AGAIN: the kernel wants completions reaped first, which comes next.
            Ok(_) | Err((Some(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    fn reap(&mut self, done: &mut Vec<Finished>) -> io::Result<()> {
        let mut reaped = std::mem::take(&mut self.reaped);
        reaped.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
        let outcome = reaped.drain(..).try_for_each(|(user_data, result)| {
            let index = usize::try_from(user_data).unwrap_or(usize::MAX);
            self.handle(index, result, done)
        });
        self.reaped = reaped;
        outcome
    }

    fn handle(&mut self, index: usize, result: i32, done: &mut Vec<Finished>) -> io::Result<()> {
        let Some(flight) = self.flights.get_mut(index).and_then(Option::as_mut) else { return Ok(()) };
        let end = match usize::try_from(result) {
            Ok(count) => flight.advance(count),
            Err(_) => failure(result),
        };
        let end = match (end, self.state) {
            (None, State::Open) => return self.request(index),
            (None, _) => Err(io::ErrorKind::ConnectionAborted.into()),
            (Some(end), _) => end,
        };
        let Some(flight) = self.flights[index].take() else { return Ok(()) };
        self.free.push(index);
        let next = self.lanes.release(flight.transfer.lane());
        done.push(flight.finish(end));
        next.map_or(Ok(()), |transfer| self.start(transfer))
    }

    /// Waits, bounded, until the kernel has given all buffers back.
    fn drain(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + CANCEL_LIMIT;
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.enter(1, left)?;
            self.reap(&mut done)?;
        }
        Ok(())
    }
}

/// How a negative result ends a transfer; `None` where it is to be tried again.
fn failure(result: i32) -> Option<io::Result<()>> {
    match Errno::from_raw_os_error(-result) {
        // The submitting thread ended or was interrupted; the connection is as good as before.
        Errno::CANCELED | Errno::INTR | Errno::AGAIN => None,
        errno => Some(Err(errno.into())),
    }
}

impl Flight {
    fn entry(&mut self) -> squeue::Entry {
        let socket = Fd(self.transfer.wire.as_fd().as_raw_fd());
        let rest = &mut self.transfer.buffer[self.moved..];
        let bytes = u32::try_from(rest.len().min(REQUEST_BYTES)).unwrap_or(u32::MAX);
        // MSG_WAITALL has the kernel go on after a short transfer, in both directions.
        let whole = RecvFlags::WAITALL.bits().cast_signed();
        match self.transfer.direction {
            Direction::Send => opcode::Send::new(socket, rest.as_ptr(), bytes)
                .flags(whole | SendFlags::NOSIGNAL.bits().cast_signed())
                .build(),
            Direction::Receive => opcode::Recv::new(socket, rest.as_mut_ptr(), bytes).flags(whole).build(),
        }
    }
}

impl Engine for UringEngine {
    fn submit(&mut self, transfer: Transfer) -> Result<(), StagingError> {
        let failed = |source| StagingError::Engine { engine: "io_uring", source };
        self.usable().map_err(failed)?;
        if transfer.buffer.is_empty() {
            self.ready.push(Flight::new(transfer).finish(Ok(())));
            return Ok(());
        }
        match self.lanes.admit(transfer) {
            Some(transfer) => self.start(transfer).map_err(failed),
            None => Ok(()),
        }
    }

    fn complete(&mut self, timeout: Duration, done: &mut Vec<Finished>) -> io::Result<()> {
        self.usable()?;
        let wait = self.ready.is_empty() && !timeout.is_zero() && self.in_flight() > 0;
        done.append(&mut self.ready);
        self.enter(usize::from(wait), timeout)?;
        self.reap(done)
    }

    fn name(&self) -> &'static str {
        "io_uring"
    }

    fn pending(&self) -> usize {
        self.in_flight() + self.lanes.queued() + self.ready.len()
    }

    fn cancel_all(&mut self) {
        if self.usable().is_err() {
            return;
        }
        self.state = State::Cancelling;
        self.flights.iter().flatten().for_each(|flight| flight.transfer.wire.close());
        self.lanes = Lanes::default();
        self.ready.clear();
        self.state = match self.drain() {
            Ok(()) => State::Open,
            Err(_) => {
                std::mem::forget(std::mem::take(&mut self.flights));
                self.free.clear();
                State::Dead
            }
        };
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        if self.in_flight() > 0 {
            self.cancel_all();
        }
    }
}

impl fmt::Debug for UringEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringEngine")
            .field("owner", &self.owner)
            .field("state", &self.state)
            .field("flights", &self.flights)
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}
