//! The seam for socket I/O: whole buffers go in, and come out when all of their bytes have moved.
//!
//! Buffers are owned by the engine meanwhile, which is what makes `io_uring` sound: the kernel may touch them at
//! any time until it says otherwise.

mod poll;
mod uring;

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt::Debug;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fakegpu_transport::Wire;

pub use self::poll::PollEngine;
pub use self::uring::UringEngine;
use crate::StagingError;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the buffer to the peer.
    Send,
    /// From the peer into the buffer.
    Receive,
}

/// A buffer whose whole length is to be moved.
#[derive(Debug)]
pub struct Transfer {
    /// The caller's mark, handed back when it ends.
    pub token: u64,
    /// The connection.
    pub wire: Arc<Wire>,
    /// Which way.
    pub direction: Direction,
    /// The bytes to send, or to overwrite.
    pub buffer: Vec<u8>,
}

/// A transfer that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The mark it was submitted with.
    pub token: u64,
    /// Its buffer.
    pub buffer: Vec<u8>,
    /// Whether every byte moved; `UnexpectedEof` where the peer ended the stream first.
    pub result: io::Result<()>,
}

/// Moves buffers over many connections at once. Transfers of one connection and direction move in the order they
/// were submitted; others in any.
pub trait Engine: Send + Debug {
    /// Takes a transfer.
    ///
    /// # Errors
    /// Where the engine itself is of no use; the state of a connection shows in [`Finished`].
    fn submit(&mut self, transfer: Transfer) -> Result<(), StagingError>;

    /// Appends transfers that have ended to `done`. Waits up to `timeout` for the first; may return without any.
    ///
    /// # Errors
    /// Where the engine itself failed.
    fn complete(&mut self, timeout: Duration, done: &mut Vec<Finished>) -> io::Result<()>;

    /// `io_uring` or `poll`.
    fn name(&self) -> &'static str;

    /// Transfers taken and not handed back yet.
    fn pending(&self) -> usize;

    /// Gives up all transfers and shuts down their connections.
    fn cancel_all(&mut self);
}

/// The best engine there is: `io_uring`, or plain sockets where `no_uring` asks for them or the kernel refuses.
pub fn engine(no_uring: bool) -> Box<dyn Engine> {
    if no_uring { Box::new(PollEngine::new()) } else { engine_or_fallback(UringEngine::new) }
}

/// What [`engine`] does with the answer of `probe`. The first refusal is logged, all are counted.
pub fn engine_or_fallback(probe: impl FnOnce() -> Result<UringEngine, StagingError>) -> Box<dyn Engine> {
    match probe() {
        Ok(uring) => Box::new(uring),
        Err(error) => {
            if FALLBACKS.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::warn!(%error, "streaming through plain sockets");
            }
            Box::new(PollEngine::new())
        }
    }
}

/// How often this process fell back from `io_uring` to plain sockets.
pub fn fallbacks() -> u64 {
    FALLBACKS.load(Ordering::Relaxed)
}

static FALLBACKS: AtomicU64 = AtomicU64::new(0);

/// A connection and a direction: what has an order of its own.
type Lane = (RawFd, Direction);

/// A transfer and how many of its bytes have moved.
#[derive(Debug)]
struct Flight {
    transfer: Transfer,
    moved: usize,
}

/// Keeps one transfer of a lane in flight: two sends of one stream would interleave.
#[derive(Debug, Default)]
struct Lanes(BTreeMap<Lane, VecDeque<Transfer>>);

impl Transfer {
    fn lane(&self) -> Lane {
        (self.wire.as_fd().as_raw_fd(), self.direction)
    }
}

impl Flight {
    fn new(transfer: Transfer) -> Self {
        Self { transfer, moved: 0 }
    }

    fn finish(self, result: io::Result<()>) -> Finished {
        let Transfer { token, buffer, .. } = self.transfer;
        Finished { token, buffer, result }
    }

    /// Counts bytes that moved; the end, if there is one. No bytes at all means that the peer is gone.
    fn advance(&mut self, count: usize) -> Option<io::Result<()>> {
        self.moved += count;
        match count {
            0 => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => (self.moved >= self.transfer.buffer.len()).then_some(Ok(())),
        }
    }
}

impl Lanes {
    /// Gives the transfer back if it may start now, and keeps it otherwise.
    fn admit(&mut self, transfer: Transfer) -> Option<Transfer> {
        match self.0.entry(transfer.lane()) {
            Entry::Vacant(lane) => {
                lane.insert(VecDeque::new());
                Some(transfer)
            }
            Entry::Occupied(mut lane) => {
                lane.get_mut().push_back(transfer);
                None
            }
        }
    }

    /// The transfer that may start now that one of `lane` has ended.
    fn release(&mut self, lane: Lane) -> Option<Transfer> {
        let next = self.0.get_mut(&lane).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.0.remove(&lane);
        }
        next
    }

    fn queued(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }
}
