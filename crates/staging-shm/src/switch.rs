//! The streamed road of sends and receives, the coordinator's end: frames are passed from connection to connection.
//!
//! A receiver *pulls*: it asks a sender for a piece when it is ready to take it, and has at most [`PULLS`] such
//! requests out for every sender. So what the switch holds for a rank is bounded by what that rank is waiting for,
//! and a rank that takes no part for a while holds up nobody.
//!
//! A rank says that it listens by a request to itself, and is sent nothing before: its connection was another
//! reader's until then, which may have read more than it asked for. It connects when it runs its first transfer and
//! may leave when its last one has ended. Only what ends while a request is out, or in the middle of a frame, is a
//! failure.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use rustix::event::{PollFd, Timespec, poll};

use crate::StagingError;
use crate::port::{Frame, PIECE_BYTES_MAX, Port};

/// Requests that a receiver has out for one sender, at most.
pub(crate) const PULLS: usize = 2;

/// The coordinator's end of one communicator's sends and receives.
#[derive(Debug)]
pub struct SwitchLane {
    size: u32,
    piece_bytes: usize,
    ports: BTreeMap<Rank, Port>,
    /// The ranks that listen.
    listening: BTreeSet<Rank>,
    /// Requests that have not been answered, by (receiver, sender).
    pulls: BTreeMap<(Rank, Rank), usize>,
    /// Requests to ranks that do not listen yet, as they will be passed on.
    early: BTreeMap<Rank, Vec<Frame>>,
}

/// How often a waiting switch looks whether it was cancelled.
const SLICE: Duration = Duration::from_millis(20);
/// The same while ranks are missing, whose first transfer waits for it.
const GATHERING_SLICE: Duration = Duration::from_millis(5);

impl SwitchLane {
    /// A switch for a communicator of `size` ranks, none of which has come yet, that cut transfers into pieces of
    /// `piece_bytes`, 64 KiB at most.
    pub const fn new(size: u32, piece_bytes: usize) -> Self {
        let piece_bytes = if piece_bytes > PIECE_BYTES_MAX { PIECE_BYTES_MAX } else { piece_bytes };
        Self {
            size,
            piece_bytes,
            ports: BTreeMap::new(),
            listening: BTreeSet::new(),
            pulls: BTreeMap::new(),
            early: BTreeMap::new(),
        }
    }

    /// Passes frames until `cancelled` is set or `incoming` and all connections are closed. Blocks in slices.
    ///
    /// # Errors
    /// Where a rank speaks nonsense, or its connection ends in the middle of a transfer.
    pub fn run(
        &mut self,
        incoming: &Receiver<(Rank, Wire)>,
        cancelled: &AtomicBool,
    ) -> Result<(), StagingError> {
        loop {
            let closed = self.welcome(incoming)?;
            if cancelled.load(Ordering::Acquire) || (closed && self.ports.is_empty()) {
                return Ok(());
            }
            if self.ports.is_empty() {
                if let Ok((rank, wire)) = incoming.recv_timeout(SLICE) {
                    self.attach(rank, wire)?;
                }
                continue;
            }
            for rank in self.wait()? {
                self.serve(rank)?;
            }
            self.flush()?;
        }
    }

    /// Takes new connections; whether no more will come.
    fn welcome(&mut self, incoming: &Receiver<(Rank, Wire)>) -> Result<bool, StagingError> {
        loop {
            match incoming.try_recv() {
                Ok((rank, wire)) => self.attach(rank, wire)?,
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
    }

    fn attach(&mut self, rank: Rank, wire: Wire) -> Result<(), StagingError> {
        if rank.0 >= self.size {
            return Err(StagingError::NoSuchRank { rank, size: self.size });
        }
        // A new connection of a rank that was here before has its own reader first.
        self.listening.remove(&rank);
        self.ports.insert(rank, Port::new(wire));
        Ok(())
    }

    /// Waits a slice; the ranks whose connections want something.
    fn wait(&self) -> Result<Vec<Rank>, StagingError> {
        let slice = if self.ports.len() < self.size as usize { GATHERING_SLICE } else { SLICE };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(slice.subsec_nanos()) };
        let mut fds: Vec<PollFd<'_>> =
            self.ports.values().map(|port| PollFd::new(&port.wire, port.interest())).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(StagingError::Engine { engine: "switch", source: errno.into() }),
        }
        // An interrupted poll leaves all marks as they were made: empty.
        let marked = self.ports.keys().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(marked.map(|(&rank, _)| rank).collect())
    }

    /// Reads from a rank and passes on what it sent.
    fn serve(&mut self, rank: Rank) -> Result<(), StagingError> {
        let failed = |source| StagingError::Peer { rank, source };
        let Some(mut port) = self.ports.remove(&rank) else { return Ok(()) };
        let filled = port.fill();
        let mut listens = false;
        while let Some((frame, bytes)) = port.next().map_err(failed)? {
            if frame.is_pull && frame.peer == rank {
                listens = true;
            } else {
                self.pass(rank, frame, bytes)?;
            }
        }
        if listens {
            self.listening.insert(rank);
            for pull in self.early.remove(&rank).unwrap_or_default() {
                port.push(pull, &[]);
            }
        }
        let ended = match filled {
            Ok(Some(_)) => {
                self.ports.insert(rank, port);
                return Ok(());
            }
            Ok(None) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => error,
        };
        let asked = self.pulls.keys().any(|&(receiver, sender)| receiver == rank || sender == rank);
        if asked || port.has_output() || port.has_input() { Err(failed(ended)) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), StagingError> {
        self.ports.iter_mut().try_for_each(|(&rank, port)| {
            port.flush().map_err(|source| StagingError::Peer { rank, source })?;
            Ok(())
        })
    }

    /// Passes on what `from` sent.
    fn pass(&mut self, from: Rank, frame: Frame, bytes: &[u8]) -> Result<(), StagingError> {
        let peer = frame.peer;
        let why = if frame.is_pull {
            if peer.0 < self.size && peer != from && self.ask(from, peer) {
                let pull = Frame { peer: from, ..frame };
                match self.ports.get_mut(&peer).filter(|_| self.listening.contains(&peer)) {
                    Some(port) => port.push(pull, &[]),
                    None => self.early.entry(peer).or_default().push(pull),
                }
                return Ok(());
            }
            "it asks a rank for more than it may"
        } else if bytes.len() > self.piece_bytes {
            "its piece is longer than the communicator's are"
        } else if self.answered(peer, from)
            && let Some(port) = self.ports.get_mut(&peer)
        {
            port.push(Frame { peer: from, ..frame }, bytes);
            return Ok(());
        } else {
            "it sends what nobody asked it for"
        };
        Err(StagingError::Peer { rank: from, source: io::Error::new(io::ErrorKind::InvalidData, why) })
    }

    /// Notes a request; whether there may be one more.
    fn ask(&mut self, receiver: Rank, sender: Rank) -> bool {
        let pulls = self.pulls.entry((receiver, sender)).or_default();
        *pulls += 1;
        *pulls <= PULLS
    }

    /// Notes an answer; whether there was a request.
    fn answered(&mut self, receiver: Rank, sender: Rank) -> bool {
        match self.pulls.get_mut(&(receiver, sender)) {
            Some(1) => self.pulls.remove(&(receiver, sender)).is_some(),
            Some(pulls) => {
                *pulls -= 1;
                true
            }
            None => false,
        }
    }
}
