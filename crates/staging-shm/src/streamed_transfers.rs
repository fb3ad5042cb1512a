//! Sends and receives through the coordinator, a rank's end.
//!
//! The receiver of a transfer pulls its pieces, a few at a time; see `switch` for why. Both ends number the transfers
//! of a pair and cut them alike, so every frame can be checked, and no length that came by the wire is believed.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use rustix::event::{PollFd, Timespec, poll};

use crate::port::{Frame, PIECE_BYTES_MAX, Port};
use crate::switch::PULLS;
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
    /// The first transfer's number.
    number: u32,
    /// Requests of the peer that are not yet answered, by the number of their transfer.
    pulls: VecDeque<u32>,
    /// Transfers whose bytes are with the port.
    leaving: VecDeque<Leaving>,
}

/// A send that ends once the port has written so many bytes: the rank may close its connection next.
#[derive(Debug)]
struct Leaving {
    token: u64,
    after: u64,
}

/// What comes from one peer.
#[derive(Debug, Default)]
struct Recvs {
    queue: VecDeque<Item<RecvBuffer>>,
    /// The first transfer's number.
    number: u32,
    /// How many of its bytes have been asked for.
    asked: usize,
    /// Requests under way.
    pulls: usize,
}

impl StreamedTransfers {
    /// `rank`'s end over `wire`; transfers are cut into pieces of `piece_bytes`, 64 KiB at most, on all ranks alike.
    pub fn new(wire: Wire, rank: Rank, size: u32, piece_bytes: usize) -> Self {
        let mut port = Port::new(wire);
        // To itself: it listens from here on.
        port.push(Frame::pull(rank, 0), &[]);
        Self {
            port,
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
            && self.sends.values().all(|sends| sends.queue.is_empty() && sends.leaving.is_empty())
            && self.recvs.values().all(|recvs| recvs.queue.is_empty())
    }

    fn step(&mut self, ended: &mut Vec<u64>) -> io::Result<bool> {
        let mut moved = self.own.step(ended, &mut self.stats);
        // Ends by itself: what comes was asked for, and nothing more is asked for here.
        let is_open = loop {
            let came = self.port.fill()?;
            self.take_frames()?;
            match came {
                Some(true) => moved = true,
                Some(false) => break true,
                None => break false,
            }
        };
        moved |= self.ask(ended);
        moved |= self.answer()?;
        moved |= self.port.flush()?;
        moved |= self.end_sends(ended);
        // What came before the end may have been all that was due.
        if is_open || self.is_idle() { Ok(moved) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn take_frames(&mut self) -> io::Result<()> {
        while let Some((frame, bytes)) = self.port.next()? {
            let peer = frame.peer;
            if peer.0 >= self.size || peer == self.rank {
                return Err(nonsense("a frame names a rank that is no peer"));
            }
            if frame.is_pull {
                let pulls = &mut self.sends.entry(peer).or_default().pulls;
                if pulls.len() >= PULLS {
                    return Err(nonsense("a peer asks for more than it may"));
                }
                pulls.push_back(frame.number);
            } else {
                let recvs = self.recvs.get_mut(&peer).filter(|recvs| recvs.pulls > 0);
                let recvs = recvs.ok_or_else(|| nonsense("a piece came that nobody asked for"))?;
                self.stats.bytes += recvs.take(frame.number, bytes, self.piece_bytes)?;
                self.stats.chunks += 1;
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
                    (recvs.asked, recvs.number) = (0, recvs.number.wrapping_add(1));
                    moved = true;
                    continue;
                }
                if recvs.pulls >= PULLS || recvs.asked >= item.buffer.len() {
                    break;
                }
                self.port.push(Frame::pull(peer, recvs.number), &[]);
                recvs.asked += (item.buffer.len() - recvs.asked).min(self.piece_bytes);
                recvs.pulls += 1;
                moved = true;
            }
        }
        moved
    }

    /// Sends what was asked for.
    fn answer(&mut self) -> io::Result<bool> {
        let mut moved = false;
        for (&peer, sends) in &mut self.sends {
            while let Some(item) = sends.queue.front_mut() {
                let left = item.buffer.len() - item.at;
                if left == 0 {
                    sends.let_go(self.port.pushed());
                    moved = true;
                    continue;
                }
                let Some(number) = sends.pulls.pop_front() else { break };
                if number != sends.number {
                    return Err(nonsense("a peer asks for another transfer than the one that is due"));
                }
                let bytes = left.min(self.piece_bytes);
                let write = |place: &mut [u8]| item.buffer.copy_to(item.at, place);
                self.port.push_with(Frame::piece(peer, number), bytes, write);
                item.at += bytes;
                moved = true;
                self.stats.chunks += 1;
                self.stats.bytes += bytes as u64;
            }
        }
        Ok(moved)
    }

    /// Ends what has left the process.
    fn end_sends(&mut self, ended: &mut Vec<u64>) -> bool {
        let (left, before) = (self.port.left(), ended.len());
        for sends in self.sends.values_mut() {
            while let Some(leaving) = sends.leaving.pop_front_if(|leaving| leaving.after <= left) {
                ended.push(leaving.token);
            }
        }
        ended.len() > before
    }
}

impl Sends {
    /// Takes the first transfer, which is with the port as far as `pushed`, out of the queue.
    fn let_go(&mut self, pushed: u64) {
        let Some(item) = self.queue.pop_front() else { return };
        self.number = self.number.wrapping_add(1);
        // One without bytes waits for no others than those of its pair.
        let before = self.leaving.back().map_or(0, |last| last.after);
        let after = if item.buffer.is_empty() { before } else { pushed };
        self.leaving.push_back(Leaving { token: item.token, after });
    }
}

impl Recvs {
    /// Puts a piece that was asked for in its place; its bytes.
    fn take(&mut self, number: u32, bytes: &[u8], piece_bytes: usize) -> io::Result<u64> {
        let item = self.queue.front_mut().filter(|_| number == self.number);
        let item =
            item.ok_or_else(|| nonsense("a piece belongs to another transfer than the one that is due"))?;
        if bytes.len() != (item.buffer.len() - item.at).min(piece_bytes) {
            return Err(nonsense("a piece is not as long as the transfer says"));
        }
        item.buffer.copy_from(item.at, bytes);
        item.at += bytes.len();
        self.pulls -= 1;
        Ok(bytes.len() as u64)
    }
}

fn nonsense(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
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
        self.stats.sleeps += 1;
        if let Ok(timeout) = Timespec::try_from(timeout) {
            // Whatever happened, the caller looks again.
            poll(&mut [PollFd::new(&self.port.wire, self.port.interest())], Some(&timeout))
                .unwrap_or_default();
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
