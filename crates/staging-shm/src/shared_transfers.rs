//! Sends and receives through the channels of a shared segment.
//!
//! A channel belongs to one ordered pair. Its sender counts the pieces it has *written*, its receiver those it has
//! *taken*; a piece may be written while fewer than [`CHANNEL_SLOTS`] are under way. Both ends know the bytes of a
//! transfer and cut it alike, so no length travels.
//!
//! Whoever moves a counter rings its peer's bell, piece by piece, so that both ends copy at the same time. A rank
//! that finds nothing to do sleeps on its own bell: it counts itself among the sleepers and looks at the bell again,
//! the peer rings and then looks for sleepers, and one of the two sees the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fakegpu_units::Rank;

use crate::segment::{CHANNEL_SLOTS, Channel, Descriptor, Segment};
use crate::shared::{Patience, poison, sleep_on, wake_all};
use crate::transfers::{Item, Own};
use crate::{Progress, RecvBuffer, SendBuffer, StagingError, StagingStats, Transfers};

/// One rank's sends and receives in a shared segment.
#[derive(Debug)]
pub struct SharedTransfers {
    segment: Arc<Segment>,
    rank: Rank,
    sends: BTreeMap<Rank, End<SendBuffer>>,
    recvs: BTreeMap<Rank, End<RecvBuffer>>,
    own: Own,
    /// The bell as it stood before the last look.
    heard: u32,
    patience: Patience,
    stats: StagingStats,
}

/// One end of a channel.
#[derive(Debug)]
struct End<B> {
    /// Made by the first transfer that has bytes.
    channel: Option<Channel>,
    queue: VecDeque<Item<B>>,
    /// Pieces this end has moved.
    moved: u32,
}

/// What the two ends of a channel do differently.
trait Side {
    fn bytes(&self) -> usize;

    /// Moves piece `number`, of `bytes` bytes from `at` on, if it can be moved now; whether it was.
    fn move_piece(&self, segment: &Segment, channel: Channel, number: u32, at: usize, bytes: usize) -> bool;

    /// What this side counts by.
    fn counter(segment: &Segment, channel: Channel) -> &AtomicU32;
}

/// What one look at a channel moves at most: other channels and the caller want their turn too.
const VISIT_BYTES: usize = 256 << 10;

impl<B> Default for End<B> {
    fn default() -> Self {
        Self { channel: None, queue: VecDeque::new(), moved: 0 }
    }
}

impl<B: Side> End<B> {
    /// Adds a transfer; `channel` makes the channel where there is none yet.
    fn begin(
        &mut self,
        token: u64,
        buffer: B,
        channel: impl FnOnce() -> Result<Channel, StagingError>,
    ) -> Result<(), StagingError> {
        if self.channel.is_none() && buffer.bytes() > 0 {
            self.channel = Some(channel()?);
        }
        self.queue.push_back(Item::new(token, buffer));
        Ok(())
    }

    /// Moves what can be moved from or to `peer`, a bounded amount; whether anything changed.
    fn step(
        &mut self,
        segment: &Segment,
        peer: Rank,
        ended: &mut Vec<u64>,
        stats: &mut StagingStats,
    ) -> bool {
        let (mut changed, mut visited) = (false, 0);
        while let Some(item) = self.queue.front_mut() {
            let bytes = (item.buffer.bytes() - item.at).min(segment.geometry().piece_bytes());
            if bytes == 0 {
                ended.push(item.token);
                self.queue.pop_front();
                changed = true;
                continue;
            }
            let Some(channel) = self.channel else { break };
            if visited >= VISIT_BYTES || !item.buffer.move_piece(segment, channel, self.moved, item.at, bytes)
            {
                break;
            }
            item.at += bytes;
            self.moved = self.moved.wrapping_add(1);
            B::counter(segment, channel).store(self.moved, Ordering::SeqCst);
            ring(segment, peer);
            (changed, visited) = (true, visited + bytes);
            stats.chunks += 1;
            stats.bytes += bytes as u64;
        }
        changed
    }
}

impl Side for SendBuffer {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn move_piece(&self, segment: &Segment, channel: Channel, number: u32, at: usize, bytes: usize) -> bool {
        let taken = segment.taken(channel).load(Ordering::Acquire);
        let has_room = number.wrapping_sub(taken) < CHANNEL_SLOTS;
        if has_room {
            // SAFETY: this rank sends, and the receiver has taken what the place held before.
            self.copy_to(at, unsafe { segment.piece_mut(channel, number, bytes) });
        }
        has_room
    }

    fn counter(segment: &Segment, channel: Channel) -> &AtomicU32 {
        segment.written(channel)
    }
}

impl Side for RecvBuffer {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn move_piece(&self, segment: &Segment, channel: Channel, number: u32, at: usize, bytes: usize) -> bool {
        let is_there = segment.written(channel).load(Ordering::Acquire) != number;
        if is_there {
            // SAFETY: this rank receives, and the sender has written the piece and awaits its taking.
            self.copy_from(at, unsafe { segment.piece(channel, number, bytes) });
        }
        is_there
    }

    fn counter(segment: &Segment, channel: Channel) -> &AtomicU32 {
        segment.taken(channel)
    }
}

impl SharedTransfers {
    /// `rank`'s end of `segment`; its channels must be fresh.
    ///
    /// # Errors
    /// Where the segment has no such rank.
    pub fn new(segment: Arc<Segment>, rank: Rank) -> Result<Self, StagingError> {
        let size = segment.geometry().size();
        if rank.0 >= size {
            return Err(StagingError::NoSuchRank { rank, size });
        }
        Ok(Self {
            segment,
            rank,
            sends: BTreeMap::new(),
            recvs: BTreeMap::new(),
            own: Own::default(),
            heard: 0,
            patience: Patience::for_ranks(size),
            stats: StagingStats::default(),
        })
    }

    fn poisoned(&self) -> bool {
        self.segment.poison().load(Ordering::Relaxed) != 0
    }

    fn begin(&mut self, kind: u32, peer: Rank, bytes: usize) -> Result<(), StagingError> {
        if self.poisoned() {
            return Err(StagingError::Poisoned);
        }
        let size = self.segment.geometry().size();
        if peer.0 >= size {
            return Err(StagingError::NoSuchRank { rank: peer, size });
        }
        self.stats.operations += 1;
        self.segment.describe(Descriptor::of_transfer(kind, self.rank, peer, bytes));
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.own.is_idle()
            && self.sends.values().all(|end| end.queue.is_empty())
            && self.recvs.values().all(|end| end.queue.is_empty())
    }

    fn sleep(&mut self, timeout: Duration) {
        let bell = self.segment.bell(self.rank);
        let sleepers = self.segment.bell_sleepers(self.rank);
        let heard = self.heard;
        let slept = sleep_on(&self.segment, sleepers, bell, timeout, |seen| seen != heard);
        self.stats.sleeps += u64::from(slept);
    }
}

fn ring(segment: &Segment, rank: Rank) {
    let bell = segment.bell(rank);
    bell.fetch_add(1, Ordering::SeqCst);
    if segment.bell_sleepers(rank).load(Ordering::SeqCst) != 0 {
        wake_all(bell);
    }
}

impl Transfers for SharedTransfers {
    fn send(&mut self, token: u64, peer: Rank, buffer: SendBuffer) -> Result<(), StagingError> {
        self.begin(Descriptor::SEND, peer, buffer.len())?;
        if peer == self.rank {
            self.own.send(token, buffer);
            return Ok(());
        }
        let (segment, rank) = (&self.segment, self.rank);
        self.sends.entry(peer).or_default().begin(token, buffer, || segment.channel(rank, peer))
    }

    fn recv(&mut self, token: u64, peer: Rank, buffer: RecvBuffer) -> Result<(), StagingError> {
        self.begin(Descriptor::RECV, peer, buffer.len())?;
        if peer == self.rank {
            self.own.recv(token, buffer);
            return Ok(());
        }
        let (segment, rank) = (&self.segment, self.rank);
        self.recvs.entry(peer).or_default().begin(token, buffer, || segment.channel(peer, rank))
    }

    fn poll(&mut self, ended: &mut Vec<u64>) -> Result<Progress, StagingError> {
        if self.poisoned() {
            self.fail();
            return Err(StagingError::Poisoned);
        }
        self.heard = self.segment.bell(self.rank).load(Ordering::SeqCst);
        let mut moved = self.own.step(ended, &mut self.stats);
        for (&peer, end) in &mut self.sends {
            moved |= end.step(&self.segment, peer, ended, &mut self.stats);
        }
        for (&peer, end) in &mut self.recvs {
            moved |= end.step(&self.segment, peer, ended, &mut self.stats);
        }
        Ok(match (moved, self.is_idle()) {
            (_, true) => Progress::Done,
            (true, false) => Progress::Moved,
            (false, false) => Progress::Waiting,
        })
    }

    fn wait(&mut self, timeout: Duration) {
        if self.is_idle() {
            return;
        }
        let rung = |transfers: &Self| {
            transfers.segment.bell(transfers.rank).load(Ordering::Acquire) != transfers.heard
                || transfers.poisoned()
        };
        self.patience.wait(self, timeout, rung, Self::sleep);
    }

    fn fail(&mut self) {
        self.sends.values_mut().for_each(|end| end.queue.clear());
        self.recvs.values_mut().for_each(|end| end.queue.clear());
        self.own = Own::default();
        poison(&self.segment);
    }

    fn stats(&self) -> StagingStats {
        self.stats
    }
}

impl Drop for SharedTransfers {
    fn drop(&mut self) {
        if !self.is_idle() {
            self.fail();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;

    #[test]
    fn pieces_are_followed_across_the_wrap_of_their_counters() {
        let (segment, _fd) = Segment::create(Geometry::new(2, 64).unwrap()).unwrap();
        let segment = Arc::new(segment);
        let mut ends = [0, 1].map(|rank| SharedTransfers::new(Arc::clone(&segment), Rank(rank)).unwrap());
        let channel = segment.channel(Rank(0), Rank(1)).unwrap();
        // As after that many pieces.
        let moved = u32::MAX - 2;
        segment.written(channel).store(moved, Ordering::SeqCst);
        segment.taken(channel).store(moved, Ordering::SeqCst);
        ends[0].sends.entry(Rank(1)).or_default().moved = moved;
        ends[1].recvs.entry(Rank(0)).or_default().moved = moved;
        let out: Vec<u8> =
            (0..7 * segment.geometry().piece_bytes()).map(|at| (at % 251).to_le_bytes()[0]).collect();
        let mut inn = vec![0; out.len()];
        // SAFETY: both buffers outlive the transfer.
        ends[0].send(1, Rank(1), unsafe { SendBuffer::new(out.as_ptr(), out.len()) }).unwrap();
        // SAFETY: as above.
        ends[1].recv(1, Rank(0), unsafe { RecvBuffer::new(inn.as_mut_ptr(), inn.len()) }).unwrap();
        let mut ended = Vec::new();
        while ended.len() < 2 {
            let moved = ends.each_mut().map(|end| end.poll(&mut ended).unwrap());
            assert!(moved.iter().any(|each| *each != Progress::Waiting), "{ended:?}");
        }
        assert_eq!(inn, out);
    }
}
