//! A communicator: its members, its operations in order, and what has become of it.

use std::collections::{BTreeSet, VecDeque};

use fakegpu_proto::Origin;
use fakegpu_proto::{Action, Fault, Lane, StagingKind};
use fakegpu_units::{CommId, GlobalRank, HostSpan, HostTime, NodeIndex, Rank, SessionId, VirtualTime};

use crate::barrier::Barrier;
use crate::batches::{BatchId, Key};
use crate::derive::Shrinking;
use crate::pairs::{Pairs, Signals};
use crate::rendezvous::FailedAttempt;

/// One rank of a communicator.
#[derive(Debug)]
pub(crate) struct MemberState {
    pub(crate) session: SessionId,
    pub(crate) global: GlobalRank,
    pub(crate) pid: u32,
    pub(crate) device: u32,
    pub(crate) standing: Standing,
    /// The sequence number of this rank's next operation.
    pub(crate) next: u64,
    /// The same, among all-to-alls.
    pub(crate) next_exchange: u64,
    /// Which data connections of this rank stand.
    pub(crate) attached: BTreeSet<Lane>,
}

/// Whether a rank still takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It does.
    Member,
    /// It left in order.
    Left,
    /// Its process is gone.
    Dead,
}

/// One rank's call within a slot.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) action: Action,
    pub(crate) batch: BatchId,
    /// The operation's place in its batch.
    pub(crate) index: u32,
    pub(crate) at: HostTime,
}

/// The calls of all ranks that carry one sequence number.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) entries: Vec<Option<Entry>>,
    pub(crate) arrived: usize,
    pub(crate) first_at: HostTime,
    pub(crate) conflict: bool,
}

impl Slot {
    fn new(size: usize, at: HostTime) -> Self {
        Self { entries: vec![None; size], arrived: 0, first_at: at, conflict: false }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.arrived == self.entries.len()
    }

    pub(crate) fn is_matched(&self) -> bool {
        self.is_full() && !self.conflict
    }

    pub(crate) fn present(&self) -> impl Iterator<Item = (Rank, &Entry)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(rank, entry)| Some((Rank::from_index(rank), entry.as_ref()?)))
    }

    /// What its first caller called.
    pub(crate) fn action(&self) -> Option<Action> {
        self.present().next().map(|(_, entry)| entry.action.clone())
    }

    pub(crate) fn missing(&self) -> Vec<Rank> {
        (0..self.entries.len()).filter(|&rank| self.entries[rank].is_none()).map(Rank::from_index).collect()
    }
}

/// Operations of all ranks, oldest first; the first has number `base`.
#[derive(Debug, Default)]
pub(crate) struct Lineup {
    pub(crate) slots: VecDeque<Slot>,
    pub(crate) base: u64,
    /// When the last one was released.
    moved_at: HostTime,
}

impl Lineup {
    pub(crate) fn at(&self, number: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Puts a rank's call in its place; whether it conflicts with another's.
    fn put(&mut self, number: u64, size: usize, rank: Rank, entry: Entry) -> bool {
        let at = usize::try_from(number - self.base).unwrap_or(usize::MAX);
        while self.slots.len() <= at {
            self.slots.push_back(Slot::new(size, entry.at));
        }
        let slot = &mut self.slots[at];
        let conflicts =
            slot.present().next().is_some_and(|(_, other)| !other.action.conflicts(&entry.action).is_empty());
        slot.entries[rank.index()] = Some(entry);
        slot.arrived += 1;
        slot.conflict |= conflicts;
        conflicts
    }

    fn retire(&mut self, now: HostTime) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.base += 1;
        self.moved_at = now;
        Some(slot)
    }
}

/// How many of the last operations are kept for sentences.
const HISTORY: usize = 64;

/// A communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) id: CommId,
    pub(crate) members: Vec<MemberState>,
    /// How many of them take no part any more.
    pub(crate) departures: usize,
    pub(crate) nodes: Vec<NodeIndex>,
    pub(crate) staging: Staging,
    pub(crate) fault: Option<Fault>,
    pub(crate) slot_bytes: u32,
    pub(crate) timeout: Option<HostSpan>,
    pub(crate) barrier: Barrier,
    /// Operations of all ranks that have not been released.
    pub(crate) order: Lineup,
    /// All-to-alls that every rank has called by that name and alone so far.
    pub(crate) exchanges: Lineup,
    /// Sends and receives that have not been released.
    pub(crate) pairs: Pairs,
    pub(crate) signals: Signals,
    /// Operations of all ranks that have run.
    pub(crate) ran: u64,
    /// Pairs of a send and a receive that have run and belong to none of those.
    pub(crate) transfers: u64,
    pub(crate) history: VecDeque<Action>,
    /// How it came to be, and its name.
    pub(crate) origin: Origin,
    pub(crate) name: Option<String>,
    /// Whether it failed because a rank revoked it: splits and shrinks go on.
    pub(crate) revoked: bool,
    /// Ranks that are about to leave some others behind.
    pub(crate) shrinking: Option<Shrinking>,
    /// The last attempt of that, where it failed before all had come.
    pub(crate) shrink_failed: Option<FailedAttempt>,
    /// How many times it has grown: the meetings of its ranks and the newcomers are numbered.
    pub(crate) grown: u64,
    pub(crate) crossings: Crossings,
    pub(crate) types_told: bool,
    /// Whether it was said that ranks use it although others have left it.
    pub(crate) leave_told: bool,
    /// When the operation that is running, or ran last, ends in the model.
    pub(crate) busy_until: VirtualTime,
    pub(crate) busy_from: VirtualTime,
    /// When ranks must have told of their staging.
    pub(crate) staging_at: Option<HostTime>,
    pub(crate) due_at: Option<HostTime>,
    pub(crate) notice_at: Option<HostTime>,
    pub(crate) conflict_at: Option<HostTime>,
    pub(crate) asymmetry_told: bool,
    /// Ranks whose next all-reduce is a barrier to their programs.
    pub(crate) marked: BTreeSet<Rank>,
    /// Ranks whose processes ended in order without leaving it, until somebody was told.
    pub(crate) undestroyed: BTreeSet<Rank>,
    /// When the relay gave up, and why.
    pub(crate) stream_fault: Option<(HostTime, String)>,
}

/// Other communicators that share ranks with one, and that ranks call concurrently in different orders.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    /// Those that were told of and still exist.
    with: BTreeSet<CommId>,
    told: u32,
}

impl Crossings {
    /// Crossings that are told of one communicator: a program may make and end others without end.
    const TOLD_MAX: u32 = 16;

    /// Whether there is something to tell of this one.
    pub(crate) fn is_news(&self, other: CommId) -> bool {
        self.told < Self::TOLD_MAX && !self.with.contains(&other)
    }

    pub(crate) fn tell(&mut self, other: CommId) {
        self.with.insert(other);
        self.told += 1;
    }

    pub(crate) fn forget(&mut self, other: CommId) {
        self.with.remove(&other);
    }
}

/// How far the making of a communicator's staging has come.
#[derive(Debug)]
pub(crate) enum Staging {
    /// Ranks are mapping the segment.
    Mapping {
        /// The requests to answer, by rank.
        told: Vec<Option<(crate::PeerId, u64)>>,
        /// How many have told.
        count: usize,
        /// Why bytes will be streamed, and who says so: nobody where the offer did, else the lowest rank that
        /// refused. Rank 0 makes the segment, so its refusal is the cause of all others, whichever came first.
        refused: Option<(Option<Rank>, String)>,
        /// When the first rank joined, and the wait of each, for the event.
        waits: Vec<HostSpan>,
        /// Whether no bytes will be moved at all.
        off: bool,
    },
    /// Decided.
    Ready(StagingKind),
}

impl Comm {
    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    /// Whether anything may wait in it: operations, or, once it was revoked, splits.
    pub(crate) fn takes_calls(&self) -> bool {
        self.fault.is_none() || self.revoked
    }

    /// The ranks that take no part any more.
    pub(crate) fn departed(&self) -> impl Iterator<Item = Rank> {
        // Every call asks, and mostly all are there.
        let members = if self.departures == 0 { &[][..] } else { &self.members };
        let gone = members.iter().enumerate().filter(|(_, member)| member.standing != Standing::Member);
        gone.map(|(rank, _)| Rank::from_index(rank))
    }

    /// A member takes no part any more.
    pub(crate) fn depart(&mut self, rank: Rank, how: Standing) {
        if let Some(member) = self.members.get_mut(rank.index()) {
            self.departures += usize::from(member.standing == Standing::Member);
            member.standing = how;
        }
    }

    /// Puts a rank's call into the communicator's order; where it stands and whether it conflicts with another's.
    pub(crate) fn enqueue(&mut self, rank: Rank, entry: Entry) -> (Key, bool) {
        let size = self.members.len();
        let member = &mut self.members[rank.index()];
        let number = member.next;
        member.next += 1;
        (Key::Order(self.id, number), self.order.put(number, size, rank, entry))
    }

    /// The same for an all-to-all.
    pub(crate) fn enqueue_exchange(&mut self, rank: Rank, entry: Entry) -> (Key, bool) {
        let size = self.members.len();
        let member = &mut self.members[rank.index()];
        let number = member.next_exchange;
        member.next_exchange += 1;
        (Key::Exchange(self.id, number), self.exchanges.put(number, size, rank, entry))
    }

    /// Takes the oldest operation of the order, which has been released.
    pub(crate) fn retire(&mut self, now: HostTime) -> Option<Slot> {
        let slot = self.order.retire(now)?;
        self.remember(slot.action());
        Some(slot)
    }

    /// The same for all-to-alls.
    pub(crate) fn retire_exchange(&mut self, now: HostTime) -> Option<Slot> {
        let slot = self.exchanges.retire(now)?;
        self.remember(slot.action());
        Some(slot)
    }

    /// An operation of all ranks has run.
    pub(crate) fn remember(&mut self, action: Option<Action>) {
        self.ran += 1;
        if let Some(action) = action {
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            self.history.push_back(action);
        }
    }

    /// Takes all all-to-alls out, to be paired rank by rank; in call order for each rank.
    pub(crate) fn take_exchanges(&mut self) -> Vec<(Rank, Entry)> {
        let slots = std::mem::take(&mut self.exchanges).slots;
        for member in &mut self.members {
            member.next_exchange = 0;
        }
        let ranked = |slot: Slot| slot.entries.into_iter().enumerate();
        slots
            .into_iter()
            .flat_map(ranked)
            .filter_map(|(rank, entry)| Some((Rank::from_index(rank), entry?)))
            .collect()
    }

    /// Everything that waits goes; the order begins anew for all ranks alike.
    pub(crate) fn clear(&mut self) {
        self.order.slots.clear();
        self.exchanges.slots.clear();
        for member in &mut self.members {
            (member.next, member.next_exchange) = (self.order.base, self.exchanges.base);
        }
        self.pairs = Pairs::default();
        self.signals = Signals::default();
    }

    /// Whether nothing waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.order.slots.is_empty()
            && self.exchanges.slots.is_empty()
            && self.pairs.is_idle()
            && self.signals.iter().next().is_none()
    }

    /// When the queue of an operation last moved.
    pub(crate) fn moved_at(&self, key: Key) -> HostTime {
        match key {
            Key::Order(..) => self.order.moved_at,
            Key::Exchange(..) => self.exchanges.moved_at,
            Key::Pair(_, ends, _) => self.pairs.moved_at(ends),
            Key::Await(_, rank, _) => self.signals.moved_at(rank),
            Key::Free(_) => HostTime::ZERO,
        }
    }

    /// What waits at the head of each queue, with the time its first call came.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (HostTime, Key)> + '_ {
        let order =
            self.order.slots.front().map(|slot| (slot.first_at, Key::Order(self.id, self.order.base)));
        let exchange = self
            .exchanges
            .slots
            .front()
            .map(|slot| (slot.first_at, Key::Exchange(self.id, self.exchanges.base)));
        let pairs = self
            .pairs
            .fronts()
            .filter_map(|(ends, number, pair)| Some((pair.first_at()?, Key::Pair(self.id, ends, number))));
        let signals =
            self.signals.iter().map(|(rank, number, wait)| (wait.at, Key::Await(self.id, rank, number)));
        order.into_iter().chain(exchange).chain(pairs).chain(signals)
    }

    /// Every key that waits.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let count = |lineup: &Lineup| lineup.base..lineup.base + lineup.slots.len() as u64;
        let order = count(&self.order).map(|number| Key::Order(self.id, number));
        let exchanges = count(&self.exchanges).map(|number| Key::Exchange(self.id, number));
        let pairs = self.pairs.iter().map(|(ends, number, _)| Key::Pair(self.id, ends, number));
        let waits = self.signals.iter().map(|(rank, number, _)| Key::Await(self.id, rank, number));
        order.chain(exchanges).chain(pairs).chain(waits).collect()
    }

    pub(crate) fn ranks_of(&self, session: SessionId) -> Vec<Rank> {
        self.members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.session == session)
            .map(|(rank, _)| Rank::from_index(rank))
            .collect()
    }

    /// The sessions that still take part, each once, in rank order.
    pub(crate) fn live_sessions(&self) -> Vec<SessionId> {
        let mut sessions = Vec::new();
        for member in self.members.iter().filter(|member| member.standing == Standing::Member) {
            if !sessions.contains(&member.session) {
                sessions.push(member.session);
            }
        }
        sessions
    }

    pub(crate) fn is_deserted(&self) -> bool {
        self.members.iter().all(|member| member.standing != Standing::Member)
    }
}
