//! Point-to-point operations of one communicator: sends and receives that pair by (source, destination) order
//! alone, and signals that ranks wait for. Ranks that take no part are not needed.

use std::collections::{BTreeMap, VecDeque};

use fakegpu_proto::{Awaited, Direction, Transfer};
use fakegpu_units::{HostTime, Rank};

use crate::batches::BatchId;

/// One side of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Half {
    pub(crate) transfer: Transfer,
    pub(crate) batch: BatchId,
    /// The operation's place in its batch.
    pub(crate) index: u32,
    pub(crate) at: HostTime,
}

/// A send and the receive that takes it, as far as they have come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pair {
    pub(crate) send: Option<Half>,
    pub(crate) recv: Option<Half>,
}

/// The ends of a pair: who sends and who receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) src: Rank,
    pub(crate) dst: Rank,
}

/// The pairs of two ranks that have not been released, oldest first; the first has number `base`.
#[derive(Debug, Default)]
struct Queue {
    base: u64,
    pairs: VecDeque<Pair>,
    sends: u64,
    recvs: u64,
    /// When the last one was released, while others wait.
    moved_at: HostTime,
}

/// What became of a half that was put in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) ends: Ends,
    /// Its place among the pairs of these ends.
    pub(crate) number: u64,
    /// The other half, if it was there already.
    pub(crate) met: Option<Half>,
}

/// All pairs of a communicator.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    by_ends: BTreeMap<Ends, Queue>,
    /// Halves that wait, of all queues.
    halves: u64,
}

impl Ends {
    /// Of `rank`'s side of a transfer.
    pub(crate) const fn of(rank: Rank, transfer: &Transfer) -> Self {
        match transfer.direction {
            Direction::Send => Self { src: rank, dst: transfer.peer },
            Direction::Recv => Self { src: transfer.peer, dst: rank },
        }
    }
}

impl Pair {
    pub(crate) const fn is_matched(&self) -> bool {
        self.send.is_some() && self.recv.is_some()
    }

    pub(crate) fn halves(&self) -> impl Iterator<Item = Half> + use<> {
        self.send.into_iter().chain(self.recv)
    }

    /// When its first half came.
    pub(crate) fn first_at(&self) -> Option<HostTime> {
        self.halves().map(|half| half.at).min()
    }

    /// When its last half came, where both have.
    pub(crate) fn matched_at(&self) -> Option<HostTime> {
        Some(self.send?.at.max(self.recv?.at))
    }
}

impl Pairs {
    /// Puts a rank's half at the end of its side of the queue.
    pub(crate) fn put(&mut self, rank: Rank, half: Half) -> Put {
        let ends = Ends::of(rank, &half.transfer);
        let queue = self.by_ends.entry(ends).or_default();
        let next = match half.transfer.direction {
            Direction::Send => &mut queue.sends,
            Direction::Recv => &mut queue.recvs,
        };
        let number = *next;
        *next += 1;
        let at = usize::try_from(number - queue.base).unwrap_or(usize::MAX);
        while queue.pairs.len() <= at {
            queue.pairs.push_back(Pair::default());
        }
        let pair = &mut queue.pairs[at];
        let met = match half.transfer.direction {
            Direction::Send => {
                pair.send = Some(half);
                pair.recv
            }
            Direction::Recv => {
                pair.recv = Some(half);
                pair.send
            }
        };
        self.halves += 1;
        Put { ends, number, met }
    }

    pub(crate) fn get(&self, ends: Ends, number: u64) -> Option<&Pair> {
        let queue = self.by_ends.get(&ends)?;
        queue.pairs.get(usize::try_from(number.checked_sub(queue.base)?).ok()?)
    }

    /// Takes the oldest pair of these ends, if it is this one and both halves are there.
    pub(crate) fn take(&mut self, now: HostTime, ends: Ends, number: u64) -> Option<Pair> {
        let queue = self.by_ends.get_mut(&ends)?;
        if queue.base != number || !queue.pairs.front()?.is_matched() {
            return None;
        }
        let pair = queue.pairs.pop_front()?;
        queue.base += 1;
        queue.moved_at = now;
        self.halves -= 2;
        if queue.pairs.is_empty() {
            // Both sides stand at the same number now, so they may begin anew at 0 together.
            self.by_ends.remove(&ends);
        }
        Some(pair)
    }

    /// When a pair of these ends was last released, as far as others still wait.
    pub(crate) fn moved_at(&self, ends: Ends) -> HostTime {
        self.by_ends.get(&ends).map_or(HostTime::ZERO, |queue| queue.moved_at)
    }

    /// Whether no half waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.by_ends.is_empty()
    }

    /// How many halves wait.
    pub(crate) const fn halves(&self) -> u64 {
        self.halves
    }

    /// All waiting pairs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Ends, u64, &Pair)> {
        self.by_ends.iter().flat_map(|(&ends, queue)| {
            (queue.base..).zip(&queue.pairs).map(move |(number, pair)| (ends, number, pair))
        })
    }

    /// The oldest pair of every two ranks.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = (Ends, u64, &Pair)> {
        self.by_ends.iter().filter_map(|(&ends, queue)| Some((ends, queue.base, queue.pairs.front()?)))
    }
}

/// A rank that waits for signals.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) awaited: Vec<Awaited>,
    pub(crate) batch: BatchId,
    pub(crate) index: u32,
    pub(crate) at: HostTime,
}

/// The signals of a communicator, and who waits for them.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// By (to, from): signals that nobody has waited for yet.
    unread: BTreeMap<(Rank, Rank), u64>,
    waiting: BTreeMap<Rank, Waits>,
}

/// A rank's waits, oldest first; the first has number `base`.
#[derive(Debug, Default)]
struct Waits {
    base: u64,
    queue: VecDeque<Waiting>,
    /// When the last one ended.
    moved_at: HostTime,
}

impl Signals {
    pub(crate) fn signal(&mut self, to: Rank, from: Rank) {
        let unread = self.unread.entry((to, from)).or_default();
        *unread = unread.saturating_add(1);
    }

    /// Queues a wait; gives its number among the rank's.
    pub(crate) fn put(&mut self, rank: Rank, waiting: Waiting) -> u64 {
        let waits = self.waiting.entry(rank).or_default();
        waits.queue.push_back(waiting);
        waits.base + waits.queue.len() as u64 - 1
    }

    pub(crate) fn get(&self, rank: Rank, number: u64) -> Option<&Waiting> {
        let waits = self.waiting.get(&rank)?;
        waits.queue.get(usize::try_from(number.checked_sub(waits.base)?).ok()?)
    }

    /// How many waits of a rank have not ended.
    pub(crate) fn waits_of(&self, rank: Rank) -> u64 {
        self.waiting.get(&rank).map_or(0, |waits| waits.queue.len() as u64)
    }

    /// When a wait of a rank last ended.
    pub(crate) fn moved_at(&self, rank: Rank) -> HostTime {
        self.waiting.get(&rank).map_or(HostTime::ZERO, |waits| waits.moved_at)
    }

    /// The peers whose signals a wait still misses. A later wait of a rank comes after its earlier ones.
    pub(crate) fn missing(&self, rank: Rank, number: u64) -> Vec<Rank> {
        let Some(waits) = self.waiting.get(&rank) else { return Vec::new() };
        let through = usize::try_from((number + 1).saturating_sub(waits.base)).unwrap_or(usize::MAX);
        self.short(rank, waits.queue.iter().take(through).flat_map(|waiting| &waiting.awaited))
    }

    /// The peers who have yet to signal before a further wait of a rank could end.
    pub(crate) fn short_of(&self, rank: Rank, awaited: &[Awaited]) -> Vec<Rank> {
        let earlier = self.waiting.get(&rank).into_iter().flat_map(|waits| &waits.queue);
        self.short(rank, earlier.flat_map(|waiting| &waiting.awaited).chain(awaited))
    }

    fn short<'a>(&self, rank: Rank, awaited: impl Iterator<Item = &'a Awaited>) -> Vec<Rank> {
        let mut wanted: BTreeMap<Rank, u64> = BTreeMap::new();
        for each in awaited {
            let sum = wanted.entry(each.peer).or_default();
            *sum = sum.saturating_add(each.count);
        }
        let unread = |peer: Rank| self.unread.get(&(rank, peer)).copied().unwrap_or(0);
        wanted.into_iter().filter(|&(peer, count)| unread(peer) < count).map(|(peer, _)| peer).collect()
    }

    /// Takes a rank's oldest wait, if it is this one and its signals are there.
    pub(crate) fn take(&mut self, now: HostTime, rank: Rank, number: u64) -> Option<Waiting> {
        if !self.missing(rank, number).is_empty() {
            return None;
        }
        let waits = self.waiting.get_mut(&rank)?;
        if waits.base != number {
            return None;
        }
        let waiting = waits.queue.pop_front()?;
        waits.base += 1;
        waits.moved_at = now;
        for each in &waiting.awaited {
            if let Some(unread) = self.unread.get_mut(&(rank, each.peer)) {
                *unread = unread.saturating_sub(each.count);
            }
        }
        Some(waiting)
    }

    /// All waits, oldest first for each rank.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Rank, u64, &Waiting)> {
        self.waiting.iter().flat_map(|(&rank, waits)| {
            (waits.base..).zip(&waits.queue).map(move |(number, waiting)| (rank, number, waiting))
        })
    }
}

#[cfg(test)]
mod tests {
    use fakegpu_units::DataType;

    use super::*;

    fn half(direction: Direction, peer: u32) -> Half {
        let transfer =
            Transfer { direction, peer: Rank(peer), count: 1, data_type: DataType::Int8, of: None };
        Half { transfer, batch: BatchId::default(), index: 0, at: HostTime::ZERO }
    }

    #[test]
    fn pairs_of_two_ranks_meet_in_order_and_leave_nothing_behind() {
        let mut pairs = Pairs::default();
        let (first, second) =
            (pairs.put(Rank(0), half(Direction::Send, 1)), pairs.put(Rank(0), half(Direction::Send, 1)));
        assert_eq!((first.number, second.number, pairs.halves()), (0, 1, 2));
        let ends = first.ends;
        assert!(pairs.take(HostTime::ZERO, ends, 0).is_none(), "nobody receives yet");
        assert!(pairs.put(Rank(1), half(Direction::Recv, 0)).met.is_some());
        assert!(pairs.take(HostTime::ZERO, ends, 1).is_none(), "not the oldest");
        assert!(pairs.take(HostTime::ZERO, ends, 0).is_some());
        pairs.put(Rank(1), half(Direction::Recv, 0));
        assert!(pairs.take(HostTime::ZERO, ends, 1).is_some());
        assert!(pairs.is_idle());
    }

    #[test]
    fn opposite_directions_do_not_meet() {
        let mut pairs = Pairs::default();
        pairs.put(Rank(0), half(Direction::Send, 1));
        assert!(pairs.put(Rank(1), half(Direction::Send, 0)).met.is_none());
    }

    #[test]
    fn a_wait_takes_the_signals_it_asked_for_and_no_more() {
        let mut signals = Signals::default();
        let wait = |count| Waiting {
            awaited: vec![Awaited { peer: Rank(1), count }],
            batch: BatchId::default(),
            index: 0,
            at: HostTime::ZERO,
        };
        let number = signals.put(Rank(0), wait(2));
        signals.signal(Rank(0), Rank(1));
        assert_eq!(signals.missing(Rank(0), number), [Rank(1)]);
        for _ in 0..2 {
            signals.signal(Rank(0), Rank(1));
        }
        assert!(signals.take(HostTime::ZERO, Rank(0), number).is_some());
        let number = signals.put(Rank(0), wait(1));
        assert!(signals.take(HostTime::ZERO, Rank(0), number).is_some(), "one was left over");
    }
}
