//! The submissions that have not been released whole, found by who made them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use fakegpu_proto::STREAM;
use fakegpu_units::{CommId, GlobalRank, HostTime, Rank, SessionId, VirtualSpan};

use crate::PeerId;
use crate::pairs::Ends;
use crate::run::Released;

/// A batch, numbered in order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchId(u64);

/// Where an operation of a batch waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// In the order of a communicator.
    Order(CommId, u64),
    /// Among a communicator's all-to-alls.
    Exchange(CommId, u64),
    /// Among the pairs of two ranks.
    Pair(CommId, Ends, u64),
    /// Among a rank's waits for signals.
    Await(CommId, Rank, u64),
    /// Nowhere: it needs nobody.
    Free(CommId),
}

impl Key {
    pub(crate) const fn comm(self) -> CommId {
        match self {
            Self::Order(comm, _)
            | Self::Exchange(comm, _)
            | Self::Pair(comm, ..)
            | Self::Await(comm, ..)
            | Self::Free(comm) => comm,
        }
    }
}

/// An operation of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Booked {
    pub(crate) rank: Rank,
    pub(crate) key: Key,
    pub(crate) done: bool,
}

/// One submission.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) peer: PeerId,
    pub(crate) request: u64,
    pub(crate) session: SessionId,
    /// The thread that called, as its process numbers it.
    pub(crate) thread: u64,
    /// Whether that thread goes on without waiting.
    pub(crate) put_off: bool,
    pub(crate) at: HostTime,
    /// When it came to the head of its thread, or when something of it last ran: whatever of it waits now has
    /// waited since then at most.
    pub(crate) moved_at: HostTime,
    /// The job's ranks that wait for it, each once.
    pub(crate) ranks: Vec<GlobalRank>,
    pub(crate) ops: Vec<Booked>,
    /// Whether its operations do not hold each other up: a gather's senders need not wait for one another.
    pub(crate) loose: bool,
    /// Those that the process has not been told about.
    pub(crate) untold: Vec<u32>,
    /// What its operations take in the model: those of pairs at once, others one after the other.
    pub(crate) modelled: VirtualSpan,
    /// Parts of all-to-alls, gathers and scatters that have run, while the whole has not.
    pub(crate) parts: Vec<Released>,
}

impl Batch {
    /// Whether it is on a stream.
    pub(crate) const fn is_on_stream(&self) -> bool {
        self.thread & STREAM != 0
    }

    /// What it still waits for.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Booked> + '_ {
        self.ops.iter().copied().filter(|op| !op.done && !matches!(op.key, Key::Free(_)))
    }

    pub(crate) fn release(&mut self, now: HostTime, index: u32) {
        if let Some(op) = self.ops.get_mut(index as usize)
            && !std::mem::replace(&mut op.done, true)
        {
            self.untold.push(index);
            self.moved_at = now;
        }
    }

    fn callers(&self) -> impl Iterator<Item = Caller> + '_ {
        self.ranks.iter().map(|&rank| Caller { rank, session: self.session, thread: self.thread })
    }
}

/// A thread that calls for one rank of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Caller {
    rank: GlobalRank,
    session: SessionId,
    thread: u64,
}

impl Caller {
    /// Every thread that may call for a rank.
    fn all_of(rank: GlobalRank) -> RangeInclusive<Self> {
        let (first, last) = (SessionId(u64::MIN), SessionId(u64::MAX));
        Self { rank, session: first, thread: u64::MIN }..=Self { rank, session: last, thread: u64::MAX }
    }
}

/// Submissions by who called, oldest first; who has none has no entry.
#[derive(Debug, Default)]
struct ByCaller(BTreeMap<Caller, BTreeSet<BatchId>>);

impl ByCaller {
    fn insert(&mut self, batch: &Batch, id: BatchId) {
        for caller in batch.callers() {
            self.0.entry(caller).or_default().insert(id);
        }
    }

    fn remove(&mut self, batch: &Batch, id: BatchId) {
        for caller in batch.callers() {
            if let Some(batches) = self.0.get_mut(&caller) {
                batches.remove(&id);
                if batches.is_empty() {
                    self.0.remove(&caller);
                }
            }
        }
    }

    /// The oldest of each thread that called for a rank.
    fn heads(&self, rank: GlobalRank) -> impl Iterator<Item = BatchId> {
        self.0.range(Caller::all_of(rank)).filter_map(|(_, batches)| batches.first().copied())
    }
}

/// The submissions that have not been released whole.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(crate) by_id: BTreeMap<BatchId, Batch>,
    by_rank: BTreeMap<GlobalRank, BTreeSet<BatchId>>,
    by_request: BTreeMap<(PeerId, u64), BatchId>,
    by_caller: ByCaller,
    /// Those that hold up the thread that called.
    blocking: ByCaller,
    /// Ranks whose calls failed, so that what they called after those may go.
    pub(crate) freed: BTreeSet<GlobalRank>,
    made: u64,
}

impl Batches {
    pub(crate) fn add(&mut self, batch: Batch) -> BatchId {
        self.made += 1;
        let id = BatchId(self.made);
        for &rank in &batch.ranks {
            self.by_rank.entry(rank).or_default().insert(id);
        }
        self.by_request.insert((batch.peer, batch.request), id);
        self.by_caller.insert(&batch, id);
        self.blocking.insert(&batch, id);
        self.by_id.insert(id, batch);
        id
    }

    pub(crate) fn remove(&mut self, id: BatchId) -> Option<Batch> {
        let batch = self.by_id.remove(&id)?;
        for rank in &batch.ranks {
            if let Some(batches) = self.by_rank.get_mut(rank) {
                batches.remove(&id);
                if batches.is_empty() {
                    self.by_rank.remove(rank);
                }
            }
        }
        self.by_request.remove(&(batch.peer, batch.request));
        self.by_caller.remove(&batch, id);
        self.blocking.remove(&batch, id);
        Some(batch)
    }

    /// Removes one that has run; what its threads called next comes to their heads.
    pub(crate) fn retire(&mut self, now: HostTime, id: BatchId) -> Option<Batch> {
        let batch = self.remove(id)?;
        for caller in batch.callers() {
            let Some(&next) = self.by_caller.0.get(&caller).and_then(BTreeSet::first) else { continue };
            if self.is_head(next)
                && let Some(next) = self.by_id.get_mut(&next)
            {
                next.moved_at = now;
            }
        }
        Some(batch)
    }

    /// The submissions a rank of the job waits for.
    pub(crate) fn of_rank(&self, rank: GlobalRank) -> impl Iterator<Item = BatchId> {
        self.by_rank.get(&rank).into_iter().flatten().copied()
    }

    /// The oldest submission of each thread that called for a rank.
    pub(crate) fn heads(&self, rank: GlobalRank) -> impl Iterator<Item = BatchId> {
        self.by_caller.heads(rank)
    }

    /// What each thread that called for a rank stands in; a thread that goes on stands in none.
    pub(crate) fn blocking(&self, rank: GlobalRank) -> impl Iterator<Item = BatchId> {
        self.blocking.heads(rank)
    }

    /// The ranks of the job for which somebody has called, and nothing came of it yet.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = GlobalRank> {
        self.by_rank.keys().copied()
    }

    /// How many submissions of a rank are under way.
    pub(crate) fn count_of(&self, rank: GlobalRank) -> usize {
        self.by_rank.get(&rank).map_or(0, BTreeSet::len)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Earlier submissions of the same thread for the same ranks: a later one may not overtake them.
    pub(crate) fn predecessors(&self, id: BatchId) -> impl Iterator<Item = BatchId> {
        let callers = self.by_id.get(&id).into_iter().flat_map(Batch::callers);
        let earlier =
            callers.filter_map(move |caller| Some(self.by_caller.0.get(&caller)?.range(..id).copied()));
        earlier.flatten()
    }

    /// The last submission that was called before this one, on the same thread for a rank of its.
    pub(crate) fn last_before(&self, id: BatchId) -> Option<BatchId> {
        let callers = self.by_id.get(&id)?.callers();
        callers.filter_map(|caller| self.by_caller.0.get(&caller)?.range(..id).next_back().copied()).max()
    }

    /// Whether nothing that its thread called earlier is in the way.
    pub(crate) fn is_head(&self, id: BatchId) -> bool {
        self.predecessors(id).next().is_none()
    }

    /// The thread that submitted it goes on.
    pub(crate) fn put_off(&mut self, peer: PeerId, request: u64) {
        if let Some(&id) = self.by_request.get(&(peer, request))
            && let Some(batch) = self.by_id.get_mut(&id)
        {
            batch.put_off = true;
            self.blocking.remove(batch, id);
        }
    }

    /// The threads that stand in a call, whichever ranks they called for, each with the oldest.
    pub(crate) fn held_threads(&self) -> BTreeMap<(SessionId, u64), BatchId> {
        let mut held = BTreeMap::new();
        for (caller, batches) in &self.blocking.0 {
            let Some(&oldest) = batches.first() else { continue };
            let known = held.entry((caller.session, caller.thread)).or_insert(oldest);
            *known = oldest.min(*known);
        }
        held
    }
}
