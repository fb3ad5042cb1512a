//! Sends and receives through the coordinator, a rank's end.
//!
//! The receiver of a transfer pulls its pieces, a few at a time; see `switch` for why.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::switch::{Frame, PIECE_BYTES_MAX, PULLS, Port};
use crate::transfers::{Item, Own};
use crate::{Progress, RecvBuffer, SendBuffer, StagingError, StagingStats, Transfers};

/// One rank's sends and receives over a connection to the coordinator.
#[derive(Debug)]
pub struct StreamedTransfers {
    port: Port,
    rank: Rank,
    size: u32,
    piece_bytes: usize,
    sends: BTreeMap<Rank, Sends>,
    recvs: BTreeMap<Rank, Recvs>,
    own: Own,
    poisoned: bool,
    stats: StagingStats,
}

/// What goes to one peer.
#[derive(Debug, Default)]
struct Sends {
    queue: VecDeque<Item<SendBuffer>>,
    /// Pieces that the peer is ready for.
    pulled: u32,
}

/// What comes from one peer.
#[derive(Debug, Default)]
struct Recvs {
    queue: VecDeque<Item<RecvBuffer>>,
    /// Bytes of the first transfer that have been asked for.
    asked: usize,
    /// Requests under way.
    pulls: u32,
}

impl StreamedTransfers {
    /// `rank`'s end over `wire`; transfers are cut into pieces of `piece_bytes`, 64 KiB at most, on all ranks alike.
    pub fn new(wire: Wire, rank: Rank, size: u32, piece_bytes: usize) -> Self {
        Self {
            port: Port::new(wire),
            rank,
            size,
            piece_bytes: piece_bytes.clamp(1, PIECE_BYTES_MAX),
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            own: Own::default(),
            poisoned: false,
            stats: StagingStats::default(),
        }
    }

    fn begin(&mut self, peer: Rank) -> Result<(), StagingError> {
        if self.poisoned {
            return Err(StagingError::Poisoned);
        }
        if peer.0 >= self.size {
            return Err(StagingError::NoSuchRank { rank: peer, size: self.size });
        }
        self.stats.operations += 1;
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.own.is_idle()
            && !self.port.has_output()
            && self.sends.values().all(|sends| sends.queue.is_empty())
            && self.recvs.values().all(|recvs| recvs.queue.is_empty())
    }

    fn step(&mut self, ended: &mut Vec<u64>) -> io::Result<bool> {
        let mut moved = self.own.step(ended, &mut self.stats);
        loop {
            let came = match self.port.fill()? {
                Some(came) => came,
                None if self.is_idle() => return Ok(moved),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            };
            self.take_frames()?;
            if !came {
                break;
            }
            moved = true;
        }
        moved |= self.ask(ended);
        moved |= self.answer();
        moved |= self.port.flush()?;
        moved |= self.end_sends(ended);
        Ok(moved)
    }

    fn take_frames(&mut self) -> io::Result<()> {
        let nonsense = |why: &'static str| io::Error::new(io::ErrorKind::InvalidData, why);
        while let Some((frame, bytes)) = self.port.next()? {
            match frame {
                Frame::Pull { peer } => {
                    let sends = self.sends.entry(peer).or_default();
                    sends.pulled += 1;
                    if sends.pulled > PULLS {
                        return Err(nonsense("a peer asks for more than it may"));
                    }
                }
                Frame::Piece { peer, .. } => {
                    let recvs = self.recvs.entry(peer).or_default();
                    let item = recvs.queue.front_mut().filter(|_| recvs.pulls > 0);
                    let item = item.ok_or_else(|| nonsense("a piece came that nobody asked for"))?;
                    let due = (item.buffer.len() - item.at).min(self.piece_bytes);
                    if bytes.len() != due {
                        return Err(nonsense("a piece is not as long as the transfer says"));
                    }
                    item.buffer.copy_from(item.at, bytes);
                    item.at += due;
                    recvs.pulls -= 1;
                    self.stats.chunks += 1;
                    self.stats.bytes += due as u64;
                }
            }
        }
        Ok(())
    }

    /// Asks for what can be taken.
    fn ask(&mut self, ended: &mut Vec<u64>) -> bool {
        let mut moved = false;
        for (&peer, recvs) in &mut self.recvs {
            while let Some(item) = recvs.queue.front() {
                if item.at == item.buffer.len() {
                    ended.push(item.token);
                    recvs.queue.pop_front();
                    (recvs.asked, moved) = (0, true);
                    continue;
                }
                if recvs.pulls >= PULLS || recvs.asked >= item.buffer.len() {
                    break;
                }
                Frame::Pull { peer }.encode(&mut self.port.output);
                recvs.asked += (item.buffer.len() - recvs.asked).min(self.piece_bytes);
                recvs.pulls += 1;
                moved = true;
            }
        }
        moved
    }

    /// Sends what was asked for.
    fn answer(&mut self) -> bool {
        let mut moved = false;
        for (&peer, sends) in &mut self.sends {
            while sends.pulled > 0
                && let Some(item) = sends.queue.iter_mut().find(|item| item.at < item.buffer.len())
            {
                let left = item.buffer.len() - item.at;
                let bytes = left.min(self.piece_bytes);
                Frame::Piece { peer, bytes }.encode(&mut self.port.output);
                let start = self.port.output.len();
                self.port.output.resize(start + bytes, 0);
                item.buffer.copy_to(item.at, &mut self.port.output[start..]);
                item.at += bytes;
                sends.pulled -= 1;
                moved = true;
                self.stats.chunks += 1;
                self.stats.bytes += bytes as u64;
            }
        }
        moved
    }
}

impl StreamedTransfers {
    /// Ends what was sent, once it has left the process: the rank may close its connection next.
    fn end_sends(&mut self, ended: &mut Vec<u64>) -> bool {
        let mut moved = false;
        for sends in self.sends.values_mut().filter(|_| !self.port.has_output()) {
            while let Some(item) = sends.queue.pop_front_if(|item| item.at == item.buffer.len()) {
                ended.push(item.token);
                moved = true;
            }
        }
        moved
    }
}

impl Transfers for StreamedTransfers {
    fn send(&mut self, token: u64, peer: Rank, buffer: SendBuffer) -> Result<(), StagingError> {
        self.begin(peer)?;
        if peer == self.rank {
            self.own.send(token, buffer);
        } else {
            self.sends.entry(peer).or_default().queue.push_back(Item::new(token, buffer));
        }
        Ok(())
    }

    fn recv(&mut self, token: u64, peer: Rank, buffer: RecvBuffer) -> Result<(), StagingError> {
        self.begin(peer)?;
        if peer == self.rank {
            self.own.recv(token, buffer);
        } else {
            self.recvs.entry(peer).or_default().queue.push_back(Item::new(token, buffer));
        }
        Ok(())
    }

    fn poll(&mut self, ended: &mut Vec<u64>) -> Result<Progress, StagingError> {
        if self.poisoned {
            return Err(StagingError::Poisoned);
        }
        match self.step(ended) {
            Ok(_) if self.is_idle() => Ok(Progress::Done),
            Ok(true) => Ok(Progress::Moved),
            Ok(false) => Ok(Progress::Waiting),
            Err(source) => {
                self.fail();
                Err(StagingError::Connection { source })
            }
        }
    }

    fn wait(&mut self, timeout: Duration) {
        if self.poisoned || self.is_idle() {
            return;
        }
        let interest = if self.port.has_output() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        self.stats.sleeps += 1;
        if let Ok(timeout) = Timespec::try_from(timeout) {
            // Whatever happened, the caller looks again.
            poll(&mut [PollFd::new(&self.port.wire, interest)], Some(&timeout)).unwrap_or_default();
        }
    }

    fn fail(&mut self) {
        self.poisoned = true;
        self.sends.clear();
        self.recvs.clear();
        self.own = Own::default();
        self.port.wire.close();
    }

    fn stats(&self) -> StagingStats {
        self.stats
    }
}
