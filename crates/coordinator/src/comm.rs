//! A communicator: its members, its operations in order, and what has become of it.

use std::collections::VecDeque;

use fakegpu_proto::{Descriptor, Fault, StagingKind};
use fakegpu_units::{CommId, GlobalRank, HostSpan, HostTime, NodeIndex, Rank, SeqNo, SessionId, VirtualTime};

use crate::barrier::Barrier;
use crate::batch::BatchId;

/// One rank of a communicator.
#[derive(Debug)]
pub(crate) struct MemberState {
    pub(crate) session: SessionId,
    pub(crate) global: GlobalRank,
    pub(crate) pid: u32,
    pub(crate) standing: Standing,
    /// The sequence number of this rank's next operation.
    pub(crate) next: u64,
    /// Whether this rank's data connection stands.
    pub(crate) attached: bool,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) descriptor: Descriptor,
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

    pub(crate) fn missing(&self) -> Vec<Rank> {
        (0..self.entries.len()).filter(|&rank| self.entries[rank].is_none()).map(Rank::from_index).collect()
    }
}

/// How many of the last operations are kept for sentences.
const HISTORY: usize = 3;

/// A communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) id: CommId,
    pub(crate) members: Vec<MemberState>,
    pub(crate) nodes: Vec<NodeIndex>,
    pub(crate) staging: Staging,
    pub(crate) fault: Option<Fault>,
    pub(crate) slot_bytes: u32,
    pub(crate) timeout: Option<HostSpan>,
    pub(crate) barrier: Barrier,
    /// Operations not yet released, oldest first; the first has sequence number `base`.
    pub(crate) slots: VecDeque<Slot>,
    pub(crate) base: u64,
    pub(crate) history: VecDeque<Descriptor>,
    /// When the operation that is running, or ran last, ends in the model.
    pub(crate) busy_until: VirtualTime,
    pub(crate) busy_from: VirtualTime,
    /// When ranks must have told of their staging.
    pub(crate) staging_at: Option<HostTime>,
    /// When the oldest operation became the oldest: its patience begins here, however long it queued.
    pub(crate) front_at: HostTime,
    pub(crate) due_at: Option<HostTime>,
    pub(crate) notice_at: Option<HostTime>,
    pub(crate) conflict_at: Option<HostTime>,
    pub(crate) asymmetry_told: bool,
    /// When the relay gave up, and why.
    pub(crate) stream_fault: Option<(HostTime, String)>,
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
    },
    /// Decided.
    Ready(StagingKind),
}

impl Comm {
    pub(crate) fn size(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn slot_at(&self, seq: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    /// Puts a rank's call in its slot; gives its sequence number and whether it conflicts with another's.
    pub(crate) fn enqueue(&mut self, rank: Rank, entry: Entry) -> (SeqNo, bool) {
        let member = &mut self.members[rank.index()];
        let seq = member.next;
        member.next += 1;
        let at = usize::try_from(seq - self.base).unwrap_or(usize::MAX);
        while self.slots.len() <= at {
            self.slots.push_back(Slot::new(self.members.len(), entry.at));
        }
        let slot = &mut self.slots[at];
        let conflicts = slot
            .present()
            .next()
            .is_some_and(|(_, other)| !other.descriptor.conflicts(&entry.descriptor).is_empty());
        slot.entries[rank.index()] = Some(entry);
        slot.arrived += 1;
        slot.conflict |= conflicts;
        (SeqNo(seq), conflicts)
    }

    /// Takes the oldest slot, which has been released.
    pub(crate) fn retire(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.base += 1;
        if let Some(entry) = slot.entries.iter().flatten().next() {
            if self.history.len() == HISTORY {
                self.history.pop_front();
            }
            self.history.push_back(entry.descriptor);
        }
        Some(slot)
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
