//! Sends and receives through the channels of a shared segment.
//!
//! A channel belongs to one ordered pair. Its sender counts the pieces it has *written*, its receiver those it has
//! *taken*; a piece may be written while fewer than [`CHANNEL_SLOTS`] are under way. Both ends know the bytes of a
//! transfer and cut it alike, so no length travels.
//!
//! Whoever moves a counter rings its peer's bell. A rank that finds nothing to do sleeps on its own bell: it counts
//! itself among the sleepers and looks at the bell again, the peer rings and then looks for sleepers, and one of the
//! two sees the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fakegpu_units::Rank;
use rustix::thread::futex;

use crate::segment::{CHANNEL_SLOTS, Channel, Descriptor, Segment};
use crate::shared::{NAP, Patience, poison, wake_all};
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
    channel: Channel,
    queue: VecDeque<Item<B>>,
    /// Pieces this end has moved.
    moved: u32,
}

impl<B> End<B> {
    const fn new(channel: Channel) -> Self {
        Self { channel, queue: VecDeque::new(), moved: 0 }
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

    fn step_sends(&mut self, ended: &mut Vec<u64>) -> bool {
        let (segment, piece_bytes, mut moved) =
            (&*self.segment, self.segment.geometry().piece_bytes(), false);
        for (&peer, end) in &mut self.sends {
            let mut rang = false;
            while let Some(item) = end.queue.front_mut() {
                let left = item.buffer.len() - item.at;
                if left == 0 {
                    ended.push(item.token);
                    end.queue.pop_front();
                    moved = true;
                    continue;
                }
                let taken = segment.taken(end.channel).load(Ordering::Acquire);
                if end.moved.wrapping_sub(taken) >= CHANNEL_SLOTS {
                    break;
                }
                let bytes = left.min(piece_bytes);
                // SAFETY: this rank sends, and the receiver has taken what the place held before.
                let place = unsafe { segment.piece_mut(end.channel, end.moved, bytes) };
                item.buffer.copy_to(item.at, place);
                item.at += bytes;
                end.moved = end.moved.wrapping_add(1);
                segment.written(end.channel).store(end.moved, Ordering::SeqCst);
                (moved, rang) = (true, true);
                self.stats.chunks += 1;
                self.stats.bytes += bytes as u64;
            }
            if rang {
                ring(segment, peer);
            }
        }
        moved
    }

    fn step_recvs(&mut self, ended: &mut Vec<u64>) -> bool {
        let (segment, piece_bytes, mut moved) =
            (&*self.segment, self.segment.geometry().piece_bytes(), false);
        for (&peer, end) in &mut self.recvs {
            let mut rang = false;
            while let Some(item) = end.queue.front_mut() {
                let left = item.buffer.len() - item.at;
                if left == 0 {
                    ended.push(item.token);
                    end.queue.pop_front();
                    moved = true;
                    continue;
                }
                if segment.written(end.channel).load(Ordering::Acquire) == end.moved {
                    break;
                }
                let bytes = left.min(piece_bytes);
                // SAFETY: this rank receives, and the sender has written the piece and awaits its taking.
                let piece = unsafe { segment.piece(end.channel, end.moved, bytes) };
                item.buffer.copy_from(item.at, piece);
                item.at += bytes;
                end.moved = end.moved.wrapping_add(1);
                segment.taken(end.channel).store(end.moved, Ordering::SeqCst);
                (moved, rang) = (true, true);
                self.stats.chunks += 1;
                self.stats.bytes += bytes as u64;
            }
            if rang {
                ring(segment, peer);
            }
        }
        moved
    }

    fn sleep(&mut self, timeout: Duration) {
        let bell = self.segment.bell(self.rank);
        let sleepers = self.segment.bell_sleepers(self.rank);
        sleepers.fetch_add(1, Ordering::SeqCst);
        if bell.load(Ordering::SeqCst) == self.heard && self.segment.poison().load(Ordering::SeqCst) == 0 {
            let timeout = timeout.min(NAP);
            let timeout = futex::Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
            // Changed, woken, interrupted and timed out are all one to a caller that looks again.
            futex::wait(bell, futex::Flags::empty(), self.heard, Some(&timeout)).unwrap_or_default();
            self.stats.sleeps += 1;
        }
        sleepers.fetch_sub(1, Ordering::SeqCst);
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
        self.begin(1, peer, buffer.len())?;
        if peer == self.rank {
            self.own.send(token, buffer);
            return Ok(());
        }
        if !self.sends.contains_key(&peer) {
            self.sends.insert(peer, End::new(self.segment.channel(self.rank, peer)?));
        }
        if let Some(end) = self.sends.get_mut(&peer) {
            end.queue.push_back(Item::new(token, buffer));
        }
        Ok(())
    }

    fn recv(&mut self, token: u64, peer: Rank, buffer: RecvBuffer) -> Result<(), StagingError> {
        self.begin(2, peer, buffer.len())?;
        if peer == self.rank {
            self.own.recv(token, buffer);
            return Ok(());
        }
        if !self.recvs.contains_key(&peer) {
            self.recvs.insert(peer, End::new(self.segment.channel(peer, self.rank)?));
        }
        if let Some(end) = self.recvs.get_mut(&peer) {
            end.queue.push_back(Item::new(token, buffer));
        }
        Ok(())
    }

    fn poll(&mut self, ended: &mut Vec<u64>) -> Result<Progress, StagingError> {
        if self.poisoned() {
            self.fail();
            return Err(StagingError::Poisoned);
        }
        self.heard = self.segment.bell(self.rank).load(Ordering::SeqCst);
        let moved = self.own.step(ended, &mut self.stats) | self.step_sends(ended) | self.step_recvs(ended);
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
        for at in 0..self.patience.pauses + self.patience.yields {
            if rung(self) {
                return;
            }
            if at < self.patience.pauses {
                std::hint::spin_loop();
            } else {
                rustix::thread::sched_yield();
            }
        }
        let deadline = Instant::now() + timeout;
        while !rung(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.sleep(left);
        }
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
