//! The streamed road of sends and receives, the coordinator's end: frames are passed from connection to connection.
//!
//! A receiver *pulls*: it asks a sender for a piece when it is ready to take it, and has at most [`PULLS`] such
//! requests out for every sender. So what the switch holds for a rank is bounded by what that rank is waiting for,
//! and a rank that takes no part for a while holds up nobody.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::StagingError;

/// Requests that a receiver has out for one sender, at most.
pub(crate) const PULLS: u32 = 2;

/// The longest piece.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// What stands before every piece, and is a request by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Head {
    magic: [u8; 4],
    /// The other rank: whom a frame goes to on its way to the switch, whom it comes from on its way out.
    peer: U32,
    /// Bytes that follow.
    bytes: U32,
}

pub(crate) const HEAD_BYTES: usize = size_of::<Head>();
const PULL: [u8; 4] = *b"FGpl";
const PIECE: [u8; 4] = *b"FGpc";

/// A head as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The receiver is ready for a piece.
    Pull {
        /// The other rank.
        peer: Rank,
    },
    /// A piece follows.
    Piece {
        /// The other rank.
        peer: Rank,
        /// Its length.
        bytes: usize,
    },
}

impl Frame {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        let (magic, peer, bytes) = match self {
            Self::Pull { peer } => (PULL, peer, 0),
            Self::Piece { peer, bytes } => (PIECE, peer, u32::try_from(bytes).unwrap_or(u32::MAX)),
        };
        out.extend_from_slice(Head { magic, peer: U32::new(peer.0), bytes: U32::new(bytes) }.as_bytes());
    }

    /// Reads a head from the start of `bytes`; `None` where more must come.
    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Option<Self>> {
        let Some(bytes) = bytes.get(..HEAD_BYTES) else { return Ok(None) };
        let Ok(head) = Head::read_from_bytes(bytes) else { return Ok(None) };
        let (peer, length) = (Rank(head.peer.get()), head.bytes.get() as usize);
        match head.magic {
            PULL if length == 0 => Ok(Some(Self::Pull { peer })),
            PIECE if length <= PIECE_BYTES_MAX => Ok(Some(Self::Piece { peer, bytes: length })),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the bytes are no frame of a transfer")),
        }
    }
}

/// A connection with what has been read from it and what is to be written to it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) wire: Wire,
    input: Vec<u8>,
    taken: usize,
    pub(crate) output: Vec<u8>,
    written: usize,
}

impl Port {
    pub(crate) const fn new(wire: Wire) -> Self {
        Self { wire, input: Vec::new(), taken: 0, output: Vec::new(), written: 0 }
    }

    pub(crate) fn has_output(&self) -> bool {
        self.written < self.output.len()
    }

    /// Writes what fits; whether anything did.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let before = self.written;
        while self.has_output() {
            match self.wire.send(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let wrote = self.written > before;
        if !self.has_output() {
            self.output.clear();
            self.written = 0;
        }
        Ok(wrote)
    }

    /// Reads what is there, a bounded amount; `None` at the end of the stream, else whether anything came.
    pub(crate) fn fill(&mut self) -> io::Result<Option<bool>> {
        if self.taken > 0 {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        let held = self.input.len();
        self.input.resize(held + PIECE_BYTES_MAX + HEAD_BYTES, 0);
        let got = self.wire.receive(&mut self.input[held..]);
        self.input.truncate(held + *got.as_ref().unwrap_or(&0));
        match got {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(true)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// The next whole frame and its bytes.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Frame, &[u8])>> {
        let Some(frame) = Frame::decode(&self.input[self.taken..])? else { return Ok(None) };
        let length = match frame {
            Frame::Pull { .. } => 0,
            Frame::Piece { bytes, .. } => bytes,
        };
        let start = self.taken + HEAD_BYTES;
        if self.input.len() < start + length {
            return Ok(None);
        }
        self.taken = start + length;
        Ok(Some((frame, &self.input[start..start + length])))
    }
}

/// The coordinator's end of one communicator's sends and receives.
#[derive(Debug)]
pub struct SwitchLane {
    size: u32,
    ports: BTreeMap<Rank, Port>,
    /// Requests that have not been answered, by (receiver, sender).
    pulls: BTreeMap<(Rank, Rank), u32>,
    /// Requests to ranks that have not come yet.
    early: BTreeMap<Rank, VecDeque<Rank>>,
}

/// How often a waiting switch looks for new connections and whether it was cancelled.
const SLICE: Duration = Duration::from_millis(5);

impl SwitchLane {
    /// A switch for a communicator of `size` ranks, none of which has come yet. `_piece_bytes` is what ranks cut
    /// transfers to; the switch itself only bounds it.
    pub fn new(size: u32, _piece_bytes: usize) -> Self {
        Self { size, ports: BTreeMap::new(), pulls: BTreeMap::new(), early: BTreeMap::new() }
    }

    /// Passes frames until `cancelled` is set or `incoming` and all connections are closed.
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
                if let Ok((rank, wire)) = incoming.recv_timeout(SLICE * 4) {
                    self.attach(rank, wire)?;
                }
                continue;
            }
            self.wait()?;
            self.turn()?;
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
        let mut port = Port::new(wire);
        for peer in self.early.remove(&rank).unwrap_or_default() {
            Frame::Pull { peer }.encode(&mut port.output);
        }
        port.flush().map_err(|source| StagingError::Peer { rank, source })?;
        self.ports.insert(rank, port);
        Ok(())
    }

    fn wait(&self) -> Result<(), StagingError> {
        let interest = |port: &Port| {
            if port.has_output() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        };
        let mut fds: Vec<PollFd<'_>> =
            self.ports.values().map(|port| PollFd::new(&port.wire, interest(port))).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(SLICE.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(StagingError::Engine { engine: "switch", source: errno.into() }),
        }
    }

    fn turn(&mut self) -> Result<(), StagingError> {
        let ranks: Vec<Rank> = self.ports.keys().copied().collect();
        for rank in ranks {
            let failed = |source| StagingError::Peer { rank, source };
            // A rank may have been dropped earlier in this turn.
            let Some(mut port) = self.ports.remove(&rank) else { continue };
            let open = port.fill().map_err(failed)?.is_some();
            while let Some((frame, bytes)) = port.next().map_err(failed)? {
                self.pass(rank, frame, bytes)?;
            }
            if open {
                port.flush().map_err(failed)?;
                self.ports.insert(rank, port);
            } else if self.pulls.keys().any(|&(receiver, sender)| receiver == rank || sender == rank) {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        for (&rank, port) in &mut self.ports {
            port.flush().map_err(|source| StagingError::Peer { rank, source })?;
        }
        Ok(())
    }

    /// Passes on what `from` sent.
    fn pass(&mut self, from: Rank, frame: Frame, bytes: &[u8]) -> Result<(), StagingError> {
        let nonsense = |why: &str| {
            let source = io::Error::new(io::ErrorKind::InvalidData, why);
            StagingError::Peer { rank: from, source }
        };
        match frame {
            Frame::Pull { peer } => {
                let pulls = self.pulls.entry((from, peer)).or_default();
                if peer.0 >= self.size || peer == from || *pulls >= PULLS {
                    return Err(nonsense("it asks a rank for more than it may"));
                }
                *pulls += 1;
                match self.ports.get_mut(&peer) {
                    Some(port) => Frame::Pull { peer: from }.encode(&mut port.output),
                    None => self.early.entry(peer).or_default().push_back(from),
                }
            }
            Frame::Piece { peer, .. } => {
                match self.pulls.get_mut(&(peer, from)) {
                    Some(1) => drop(self.pulls.remove(&(peer, from))),
                    Some(pulls) => *pulls -= 1,
                    None => return Err(nonsense("it sends what nobody asked it for")),
                }
                let Some(port) = self.ports.get_mut(&peer) else {
                    return Err(nonsense("it sends to a rank that is not there"));
                };
                Frame::Piece { peer: from, bytes: bytes.len() }.encode(&mut port.output);
                port.output.extend_from_slice(bytes);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_noise_is_refused() {
        for frame in [Frame::Pull { peer: Rank(3) }, Frame::Piece { peer: Rank(4), bytes: 5 }] {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            assert_eq!(Frame::decode(&bytes).unwrap(), Some(frame));
            assert_eq!(Frame::decode(&bytes[..HEAD_BYTES - 1]).unwrap(), None);
        }
        assert!(Frame::decode(&[0; HEAD_BYTES]).is_err());
        let mut long = Vec::new();
        Frame::Piece { peer: Rank(0), bytes: PIECE_BYTES_MAX + 1 }.encode(&mut long);
        assert!(Frame::decode(&long).is_err());
    }
}
