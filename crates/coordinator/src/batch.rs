//! Submissions: groups of operations that are matched rank against rank and released all or nothing.
//!
//! A batch is what one process submits at once (one call, or all calls of a group). Batches that share an
//! operation are tied: a conflict in any of them fails all of them before a byte has moved, so none is
//! released before all are matched. That rule alone would hang programs that NCCL runs, so it gives way twice.
//! Where the ranks that are missed are themselves waiting in the tie (rank 0 groups A and B, rank 1 calls A and
//! then B), what is matched is released in order, and the report says so. And a pair of a send and a receive
//! that has waited a quarter of a second for the rest of its group goes alone, as it would in NCCL at once: the
//! rest may depend on it in ways that nobody here can see.

use std::collections::{BTreeMap, BTreeSet};

use fakegpu_proto::event::FailureKind;
use fakegpu_proto::{Action, Direction, EventKind, Fault, Release, ToRank, Transfer};
use fakegpu_units::{Collective, CommId, GlobalRank, HostSpan, HostTime, Rank, SessionId};

use crate::comm::{Comm, Entry, Slot, Staging, Standing};
use crate::deadline::Due;
use crate::occupation::Occupations;
use crate::pairs::{Ends, Half, Waiting};
use crate::run::Released;
use crate::sentence;
use crate::{Coordinator, PeerId};

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
    done: bool,
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
    /// The job's ranks that wait for it, each once.
    pub(crate) ranks: Vec<GlobalRank>,
    pub(crate) ops: Vec<Booked>,
    /// Whether its operations do not hold each other up: a gather's senders need not wait for one another.
    loose: bool,
    /// Those that the process has not been told about.
    untold: Vec<u32>,
    /// Parts of all-to-alls, gathers and scatters that have run, while the whole has not.
    pub(crate) parts: Vec<Released>,
}

impl Batch {
    /// What it still waits for.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Booked> + '_ {
        self.ops.iter().copied().filter(|op| !op.done && !matches!(op.key, Key::Free(_)))
    }

    fn release(&mut self, index: u32) {
        if let Some(op) = self.ops.get_mut(index as usize)
            && !std::mem::replace(&mut op.done, true)
        {
            self.untold.push(index);
        }
    }
}

/// The submissions that have not been released whole.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    pub(crate) by_id: BTreeMap<BatchId, Batch>,
    by_rank: BTreeMap<GlobalRank, BTreeSet<BatchId>>,
    made: u64,
}

impl Batches {
    fn add(&mut self, batch: Batch) -> BatchId {
        self.made += 1;
        let id = BatchId(self.made);
        for &rank in &batch.ranks {
            self.by_rank.entry(rank).or_default().insert(id);
        }
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
        Some(batch)
    }

    /// The submissions a rank of the job waits for.
    pub(crate) fn of_rank(&self, rank: GlobalRank) -> impl Iterator<Item = BatchId> {
        self.by_rank.get(&rank).into_iter().flatten().copied()
    }

    /// The ranks of the job that wait, each with its oldest submission.
    pub(crate) fn by_rank(&self) -> impl Iterator<Item = (GlobalRank, BatchId)> {
        self.by_rank.iter().filter_map(|(&rank, batches)| Some((rank, *batches.first()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Earlier submissions of the same thread for the same ranks: a later one may not overtake them.
    fn predecessors(&self, id: BatchId) -> impl Iterator<Item = BatchId> {
        let batch = self.by_id.get(&id);
        let ranks = batch.map_or(&[][..], |batch| batch.ranks.as_slice());
        ranks.iter().flat_map(move |&rank| self.of_rank(rank).take_while(move |&other| other < id)).filter(
            move |other| {
                self.by_id.get(other).zip(batch).is_some_and(|(other, batch)| {
                    other.session == batch.session && other.thread == batch.thread
                })
            },
        )
    }

    /// The submission that a request of a connection made.
    fn of_request(&self, peer: PeerId, request: u64) -> Option<BatchId> {
        let mut found = self.by_id.iter().rev();
        found.find(|(_, batch)| batch.peer == peer && batch.request == request).map(|(&id, _)| id)
    }
}

/// Places that the operations of one communicator may take: each takes one for every rank, filled or not.
const PLACES_MAX: u64 = 1 << 22;

/// Operations a rank may have submitted beyond the slowest rank of a communicator of this size.
fn ahead_max(size: usize) -> u64 {
    (PLACES_MAX / (size.max(1) as u64)).min(1 << 20)
}

/// How long a matched pair waits for the rest of its group.
const PAIR_PATIENCE: HostSpan = HostSpan::from_millis(250);

impl Coordinator {
    pub(crate) fn submit(
        &mut self,
        now: HostTime,
        peer: PeerId,
        request: u64,
        ops: Vec<(CommId, Rank, Action)>,
        thread: u64,
    ) {
        if let Err(fault) = self.check_submission(now, peer, &ops) {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let Some(session) = self.peers.session(peer).map(|session| session.id) else { return };
        if ops.is_empty() {
            return self.reply(peer, request, ToRank::Go(Release::Rest));
        }
        let touched: BTreeSet<CommId> = ops.iter().map(|(comm, ..)| *comm).collect();
        let id = self.book_batch(now, (peer, request, session, thread), ops);
        // A conflict that waits for more ranks may be complete with this batch.
        for &comm in &touched {
            self.conflict_complete(now, comm);
        }
        if self.batches.by_id.contains_key(&id) {
            self.release(now, id);
        }
        if self.batches.by_id.contains_key(&id) {
            self.deadlock_watch(now);
        }
        for comm in touched {
            self.watch(now, comm);
        }
    }

    /// The thread that submitted it goes on.
    pub(crate) fn put_off(&mut self, peer: PeerId, submission: u64) {
        if let Some(id) = self.batches.of_request(peer, submission)
            && let Some(batch) = self.batches.by_id.get_mut(&id)
        {
            batch.put_off = true;
        }
    }

    fn book_batch(
        &mut self,
        now: HostTime,
        (peer, request, session, thread): (PeerId, u64, SessionId, u64),
        ops: Vec<(CommId, Rank, Action)>,
    ) -> BatchId {
        let mut ranks = Vec::new();
        for (comm, rank, action) in &ops {
            let Some(global) = self.comms.get(comm).map(|comm| comm.members[rank.index()].global) else {
                continue;
            };
            if !ranks.contains(&global) {
                ranks.push(global);
            }
            self.recorder.note(global, *comm, action, (session, thread));
        }
        let part = |of: Option<Collective>| matches!(of, Some(Collective::Gather | Collective::Scatter));
        let loose = ops
            .iter()
            .all(|(_, _, action)| matches!(action, Action::Transfer(Transfer { of, .. }) if part(*of)));
        let id = self.batches.add(Batch {
            peer,
            request,
            session,
            thread,
            put_off: false,
            at: now,
            ranks,
            ops: Vec::with_capacity(ops.len()),
            loose,
            untold: Vec::new(),
            parts: Vec::new(),
        });
        for (index, (comm, rank, action)) in (0..).zip(ops) {
            self.book_op(now, id, index, comm, rank, action);
        }
        id
    }

    fn book_op(&mut self, now: HostTime, id: BatchId, index: u32, comm: CommId, rank: Rank, action: Action) {
        let Some(found) = self.comms.get_mut(&comm) else { return };
        let (key, conflict) = match action {
            Action::Transfer(transfer) => {
                self.expand_exchanges(comm);
                return self.book_half(comm, rank, Half { transfer, batch: id, index, at: now });
            }
            Action::Await(awaited) => {
                let number = found.signals.put(rank, Waiting { awaited, batch: id, index, at: now });
                (Key::Await(comm, rank, number), false)
            }
            Action::Put { peer, bytes } => {
                self.book_put(now, comm, rank, peer, bytes);
                (Key::Free(comm), false)
            }
            Action::Collective(descriptor) if descriptor.op == Collective::AllToAll => {
                let entry = Entry { action, batch: id, index, at: now };
                if found.pairs.is_idle() {
                    found.enqueue_exchange(rank, entry)
                } else {
                    return self.expand(comm, rank, &entry);
                }
            }
            _ => found.enqueue(rank, Entry { action, batch: id, index, at: now }),
        };
        if let Some(batch) = self.batches.by_id.get_mut(&id) {
            batch.ops.push(Booked { rank, key, done: false });
        }
        if conflict {
            self.conflict_seen(now, comm);
        } else {
            self.note_types(now, key);
        }
    }

    /// Puts one side of a pair in its queue, at the end of its batch's operations.
    fn book_half(&mut self, id: CommId, rank: Rank, half: Half) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let put = comm.pairs.put(rank, half);
        let key = Key::Pair(id, put.ends, put.number);
        if let Some(batch) = self.batches.by_id.get_mut(&half.batch) {
            batch.ops.push(Booked { rank, key, done: false });
        }
        let Some(other) = put.met else { return };
        if other.transfer.bytes() != half.transfer.bytes() {
            // Both sides are here and nobody else is needed to see that they do not fit.
            let text = sentence::unequal(comm, put.ends, put.number);
            self.fail_comm(
                half.at,
                id,
                FailureKind::Mismatch,
                Fault::usage(text),
                &[put.ends.src, put.ends.dst],
            );
        } else if other.transfer.data_type != half.transfer.data_type {
            self.types_differ(half.at, id, &other.transfer.to_string(), &half.transfer.to_string());
        }
    }

    /// Bytes agree and types do not: NCCL moves them, and it is worth a look.
    fn note_types(&mut self, now: HostTime, key: Key) {
        let Key::Order(id, number) = key else { return };
        let Some(comm) = self.comms.get(&id).filter(|comm| !comm.types_told) else { return };
        let Some(slot) = comm.order.at(number) else { return };
        let mut calls = slot.present().filter_map(|(_, entry)| entry.action.descriptor().copied());
        let Some(first) = calls.next() else { return };
        let other = calls.find(|other| other.data_type != first.data_type);
        drop(calls);
        if let Some(other) = other {
            self.types_differ(now, id, &first.to_string(), &other.to_string());
        }
    }

    fn types_differ(&mut self, now: HostTime, id: CommId, first: &str, other: &str) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if !std::mem::replace(&mut comm.types_told, true) {
            let detail =
                format!("the same bytes under different types: {first} on one rank, {other} on another");
            self.event(now, EventKind::Hazard { comm: id, detail });
        }
    }

    /// A rank speaks of its peers one by one: all-to-alls that wait are paired rank by rank too.
    fn expand_exchanges(&mut self, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.exchanges.slots.is_empty() {
            return;
        }
        for (rank, entry) in comm.take_exchanges() {
            self.expand(id, rank, &entry);
        }
    }

    /// Makes a rank's all-to-all the sends and receives that it stands for.
    fn expand(&mut self, id: CommId, rank: Rank, entry: &Entry) {
        let Some(size) = self.comms.get(&id).map(Comm::size) else { return };
        let Some(descriptor) = entry.action.descriptor().copied() else { return };
        let Some(batch) = self.batches.by_id.get_mut(&entry.batch) else { return };
        batch.ops.clear();
        let (peer, request) = (batch.peer, batch.request);
        self.reply(peer, request, ToRank::Go(Release::Pairwise));
        let mut index = 0;
        for peer in (0..size).map(Rank::from_index) {
            for direction in [Direction::Send, Direction::Recv] {
                let transfer = Transfer {
                    direction,
                    peer,
                    count: descriptor.count,
                    data_type: descriptor.data_type,
                    of: Some(Collective::AllToAll),
                };
                self.book_half(id, rank, Half { transfer, batch: entry.batch, index, at: entry.at });
                index += 1;
            }
        }
    }

    fn check_submission(
        &mut self,
        now: HostTime,
        peer: PeerId,
        ops: &[(CommId, Rank, Action)],
    ) -> Result<(), Fault> {
        let mut asked: BTreeMap<(CommId, Rank), u64> = BTreeMap::new();
        for (id, rank, action) in ops {
            let (id, rank) = (*id, *rank);
            let comm = self.owned(peer, id, rank)?;
            if let Some(fault) = &comm.fault
                && !(comm.revoked && matches!(action, Action::Split(_)))
            {
                return Err(fault.clone());
            }
            check_shape(comm, action, ops.len())?;
            if matches!(comm.staging, Staging::Mapping { .. }) {
                return Err(Fault::usage(format!("communicator {id} is not ready yet")));
            }
            if comm.members[rank.index()].standing != Standing::Member {
                return Err(Fault::usage(format!("rank {rank} has left communicator {id}")));
            }
            let (asked, limit) = (asked.entry((id, rank)).or_default(), ahead_max(comm.size()));
            *asked += 1;
            let ahead = comm.members[rank.index()].next - comm.order.base + comm.pairs.halves();
            if ahead + *asked > limit {
                return Err(Fault::usage(format!(
                    "rank {rank} is more than {limit} operations ahead of communicator {id}, which has {} ranks: split the group",
                    comm.size()
                )));
            }
            if let Some(culprit) = comm.leaver_needed(rank, action) {
                // Nobody else can notice that this operation will never be complete.
                let fault = Fault::remote(format!(
                    "rank {rank} calls {action} on communicator {id}, which {} has left after operation {}: all ranks must make the same calls before they destroy a communicator or exit",
                    comm.member_name(culprit),
                    comm.ran
                ));
                self.fail_comm(now, id, FailureKind::RankLeft, fault.clone(), &[culprit]);
                return Err(fault);
            }
        }
        Ok(())
    }

    pub(crate) fn slot(&self, key: Key) -> Option<&Slot> {
        match key {
            Key::Order(comm, number) => self.comms.get(&comm)?.order.at(number),
            Key::Exchange(comm, number) => self.comms.get(&comm)?.exchanges.at(number),
            Key::Pair(..) | Key::Await(..) | Key::Free(_) => None,
        }
    }

    /// Whether everybody whom an operation needs has called.
    fn is_matched(&self, key: Key) -> bool {
        match key {
            Key::Order(..) | Key::Exchange(..) => self.slot(key).is_some_and(Slot::is_matched),
            Key::Pair(comm, ends, number) => self
                .comms
                .get(&comm)
                .and_then(|comm| comm.pairs.get(ends, number))
                .is_some_and(|pair| pair.is_matched()),
            Key::Await(comm, rank, number) => self.comms.get(&comm).is_some_and(|comm| {
                comm.signals.get(rank, number).is_some() && comm.signals.missing(rank, number).is_empty()
            }),
            Key::Free(_) => true,
        }
    }

    /// Who has yet to act before an operation can run.
    pub(crate) fn missing(&self, key: Key) -> Vec<Rank> {
        let Some(comm) = self.comms.get(&key.comm()) else { return Vec::new() };
        match key {
            Key::Order(..) | Key::Exchange(..) => self.slot(key).map_or_else(Vec::new, Slot::missing),
            Key::Pair(_, ends, number) => match comm.pairs.get(ends, number) {
                Some(pair) if pair.send.is_none() => vec![ends.src],
                Some(pair) if pair.recv.is_none() => vec![ends.dst],
                _ => Vec::new(),
            },
            Key::Await(_, rank, number) => comm.signals.missing(rank, number),
            Key::Free(_) => Vec::new(),
        }
    }

    /// The batches that wait in an operation.
    fn batches_at(&self, key: Key) -> Vec<BatchId> {
        let Some(comm) = self.comms.get(&key.comm()) else { return Vec::new() };
        match key {
            Key::Order(..) | Key::Exchange(..) => self
                .slot(key)
                .map_or_else(Vec::new, |slot| slot.present().map(|(_, entry)| entry.batch).collect()),
            Key::Pair(_, ends, number) => comm
                .pairs
                .get(ends, number)
                .map_or_else(Vec::new, |pair| pair.halves().map(|half| half.batch).collect()),
            Key::Await(_, rank, number) => {
                comm.signals.get(rank, number).map(|waiting| waiting.batch).into_iter().collect()
            }
            Key::Free(_) => Vec::new(),
        }
    }

    /// Adds to `closure` everything tied to what is pending.
    fn extend(&self, closure: &mut Closure, mut keys: Vec<Key>, mut batches: Vec<BatchId>) {
        loop {
            if let Some(id) = batches.pop() {
                let Some(batch) = self.batches.by_id.get(&id) else { continue };
                if !closure.batches.insert(id) {
                    continue;
                }
                if !batch.loose {
                    keys.extend(batch.waiting().map(|op| op.key));
                }
                if closure.in_order {
                    batches.extend(self.batches.predecessors(id));
                }
            } else if let Some(key) = keys.pop() {
                if closure.keys.insert(key) {
                    batches.extend(self.batches_at(key));
                }
            } else {
                return;
            }
        }
    }

    fn closure(&self, start: Start) -> Closure {
        let mut closure = Closure { in_order: true, ..Closure::default() };
        match start {
            Start::Batch(id) => self.extend(&mut closure, Vec::new(), vec![id]),
            Start::Key(key) => self.extend(&mut closure, vec![key], Vec::new()),
        }
        closure
    }

    /// Where to look for what a batch completes: a loose one's operations stand each for itself.
    fn starts(&self, id: BatchId) -> Vec<Start> {
        match self.batches.by_id.get(&id) {
            Some(batch) if batch.loose => batch.waiting().map(|op| Start::Key(op.key)).collect(),
            Some(_) => vec![Start::Batch(id)],
            None => Vec::new(),
        }
    }

    /// Releases what the arrival of `id` completes.
    pub(crate) fn release(&mut self, now: HostTime, id: BatchId) {
        self.release_from(now, self.starts(id));
        if self
            .batches
            .by_id
            .get(&id)
            .is_some_and(|batch| batch.waiting().any(|op| self.is_matched_pair(op.key)))
        {
            self.pairs_watch(now + PAIR_PATIENCE);
        }
    }

    /// Releases what can be found from these starts, and from what that lets run.
    fn release_from(&mut self, now: HostTime, mut due: Vec<Start>) {
        while let Some(start) = due.pop() {
            let Some(closure) = self.releasable(now, start) else { continue };
            let ranks = self.run_ready(now, &closure);
            if !ranks.is_empty() {
                due.extend(self.unblocked(&closure, &ranks));
            }
        }
    }

    /// What may run now that a closure has: the next operation of its communicators may have been complete
    /// already, and so may the next submissions of its ranks.
    fn unblocked(&self, closure: &Closure, ranks: &BTreeSet<GlobalRank>) -> Vec<Start> {
        let mut starts = Vec::new();
        for comm in closure.comms() {
            let Some(comm) = self.comms.get(&comm) else { continue };
            for lineup in [&comm.order, &comm.exchanges] {
                let front = lineup.slots.front().filter(|slot| slot.is_matched());
                let batch = front.and_then(|slot| slot.present().next()).map(|(_, entry)| entry.batch);
                starts.extend(batch.into_iter().flat_map(|batch| self.starts(batch)));
            }
        }
        for &rank in ranks {
            starts.extend(self.batches.of_rank(rank).next().into_iter().flat_map(|batch| self.starts(batch)));
        }
        starts
    }

    fn is_matched_pair(&self, key: Key) -> bool {
        matches!(key, Key::Pair(..)) && self.is_matched(key)
    }

    /// What is tied to `start`, if it may run: all of it is matched, or waiting longer would be for ever.
    fn releasable(&mut self, now: HostTime, start: Start) -> Option<Closure> {
        // One operation whose missing ranks are free to come settles it, without a walk over a long group.
        if let Start::Batch(id) = start
            && let Some(op) = self.batches.by_id.get(&id)?.waiting().find(|op| !self.is_matched(op.key))
            && self.blocked_absentees(op.key).is_empty()
        {
            return None;
        }
        let mut closure = self.closure(start);
        if closure.keys.iter().all(|&key| self.is_matched(key)) {
            closure.whole = true;
            return Some(closure);
        }
        if !self.is_stuck(&mut closure) {
            return None;
        }
        if closure.keys.iter().any(|&key| self.is_matched(key) && self.is_front(key)) {
            self.tell_asymmetry(now, &closure);
        }
        Some(closure)
    }

    /// Whether no operation in (what is tied to) the closure can become complete by itself: each misses a rank
    /// that itself waits for another operation in there. Grows the closure by what those ranks wait for.
    fn is_stuck(&self, closure: &mut Closure) -> bool {
        let mut seen = BTreeSet::new();
        loop {
            let unmatched = |key: &Key| !seen.contains(key) && !self.is_matched(*key);
            let Some(next) = closure.keys.iter().copied().find(unmatched) else { return true };
            seen.insert(next);
            let blocked = self.blocked_absentees(next);
            if blocked.is_empty() {
                return false;
            }
            self.extend(closure, Vec::new(), blocked);
        }
    }

    /// What an operation's missing ranks wait for.
    fn blocked_absentees(&self, key: Key) -> Vec<BatchId> {
        let Some(comm) = self.comms.get(&key.comm()) else { return Vec::new() };
        let missing = self.missing(key).into_iter();
        // Who has left does not come, and its number may be another's by now.
        let members = missing
            .map(|rank| &comm.members[rank.index()])
            .filter(|member| member.standing == Standing::Member);
        let blocks = |id: &BatchId| self.batches.by_id.get(id).is_some_and(|batch| !batch.put_off);
        members.flat_map(|member| self.batches.of_rank(member.global)).filter(blocks).collect()
    }

    fn tell_asymmetry(&mut self, now: HostTime, closure: &Closure) {
        for comm in closure.comms() {
            let Some(found) = self.comms.get_mut(&comm) else { continue };
            if !std::mem::replace(&mut found.asymmetry_told, true) {
                let detail = "ranks group the same calls differently (asymmetric grouping): operations run one by one, and a mismatch \
                              in a later one cannot undo an earlier one";
                self.event(now, EventKind::Hazard { comm, detail: detail.to_owned() });
            }
        }
    }

    /// Whether an operation is the oldest of its queue.
    fn is_front(&self, key: Key) -> bool {
        let Some(comm) = self.comms.get(&key.comm()) else { return false };
        match key {
            Key::Order(_, number) => comm.order.base == number,
            Key::Exchange(_, number) => comm.exchanges.base == number,
            Key::Pair(_, ends, number) => number == 0 || comm.pairs.get(ends, number - 1).is_none(),
            Key::Await(_, rank, number) => number == 0 || comm.signals.get(rank, number - 1).is_none(),
            Key::Free(_) => true,
        }
    }

    /// Runs the closure's matched operations, those of one queue in order; gives the ranks that took part, none
    /// where nothing ran.
    fn run_ready(&mut self, now: HostTime, closure: &Closure) -> BTreeSet<GlobalRank> {
        let ranks: BTreeSet<GlobalRank> = closure
            .batches
            .iter()
            .filter_map(|id| self.batches.by_id.get(id))
            .flat_map(|batch| batch.ranks.iter().copied())
            .collect();
        let mut ran = false;
        while self.run_pass(now, closure) {
            ran = true;
            if closure.whole {
                break;
            }
        }
        // What needs nobody has no operation to run, and is to be answered all the same.
        if !ran && !closure.keys.is_empty() {
            return BTreeSet::new();
        }
        for &id in &closure.batches {
            self.tell_released(now, id);
        }
        for comm in closure.comms() {
            // What is oldest now may have come long ago, with nobody left to submit anything.
            self.watch(now, comm);
        }
        ranks
    }

    /// One pass over the closure; whether anything ran.
    fn run_pass(&mut self, now: HostTime, closure: &Closure) -> bool {
        let (mut ran, mut pairs) = (false, Vec::new());
        for &key in &closure.keys {
            let may = self.is_matched(key) && self.is_front(key) && (closure.whole || self.is_next(key));
            if !may {
                continue;
            }
            ran = true;
            match key {
                Key::Order(comm, _) => self.run_front(now, comm),
                Key::Exchange(comm, _) => self.run_exchange(now, comm),
                Key::Pair(comm, ends, number) => pairs.extend(self.take_pair(comm, ends, number)),
                Key::Await(comm, rank, number) => self.run_await(now, comm, rank, number),
                Key::Free(_) => {}
            }
        }
        self.book_transfers(now, &pairs);
        ran
    }

    /// Whether no batch of an operation has an earlier one of its own thread before it.
    fn is_next(&self, key: Key) -> bool {
        self.batches_at(key).into_iter().all(|id| self.batches.predecessors(id).next().is_none())
    }

    pub(crate) fn mark_released(&mut self, batch: BatchId, index: u32) {
        if let Some(batch) = self.batches.by_id.get_mut(&batch) {
            batch.release(index);
        }
    }

    /// Tells a batch's process what it may run, and forgets the batch once that is all.
    fn tell_released(&mut self, now: HostTime, id: BatchId) {
        let Some(batch) = self.batches.by_id.get_mut(&id) else { return };
        let (peer, request) = (batch.peer, batch.request);
        let untold = std::mem::take(&mut batch.untold);
        if batch.waiting().next().is_none() {
            let parts = self.batches.remove(id).map_or_else(Vec::new, |batch| batch.parts);
            self.book_plain(now, &parts);
            self.reply(peer, request, ToRank::Go(Release::Rest));
        } else if !untold.is_empty() {
            self.reply(peer, request, ToRank::Go(Release::Some(untold)));
        }
    }

    fn pairs_watch(&mut self, at: HostTime) {
        if self.pairs_at.is_none() {
            self.pairs_at = Some(at);
            self.deadlines.set(at, Due::Pairs);
        }
    }

    /// Matched pairs have waited long enough for the rest of their groups.
    pub(crate) fn pairs_due(&mut self, now: HostTime) {
        self.pairs_at = None;
        let (mut ripe, mut next) = (Closure::default(), None::<HostTime>);
        for batch in self.batches.by_id.values() {
            for op in batch.waiting() {
                let Key::Pair(comm, ends, number) = op.key else { continue };
                let pair = self.comms.get(&comm).and_then(|comm| comm.pairs.get(ends, number));
                let Some(due) = pair.and_then(|pair| pair.matched_at()).map(|at| at + PAIR_PATIENCE) else {
                    continue;
                };
                if due <= now {
                    ripe.keys.insert(op.key);
                } else {
                    next = Some(next.map_or(due, |next| next.min(due)));
                }
            }
        }
        for &key in &ripe.keys {
            ripe.batches.extend(self.batches_at(key));
        }
        let ranks = self.run_ready(now, &ripe);
        self.release_from(now, self.unblocked(&ripe, &ranks));
        if let Some(next) = next {
            self.pairs_watch(next);
        }
    }

    /// Keeps a communicator's deadline on what has waited longest in it.
    pub(crate) fn watch(&mut self, now: HostTime, id: CommId) {
        let timeout = self.timeout_of(id);
        let notice_after = self.options.notice_after;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.fault.is_some() || comm.due_at.is_some() || comm.is_idle() {
            return;
        }
        let (due, notice) = (now + timeout, now + notice_after);
        comm.due_at = Some(due);
        self.deadlines.set(due, Due::Operation(id));
        if comm.notice_at.is_none() {
            comm.notice_at = Some(notice);
            self.deadlines.set(notice, Due::Notice(id));
        }
    }

    /// How long this communicator's operations may wait at first: the environment's word, else the built-in.
    pub(crate) fn timeout_of(&self, id: CommId) -> HostSpan {
        self.comms.get(&id).and_then(|comm| comm.timeout).unwrap_or(self.options.stuck_timeout)
    }

    pub(crate) fn operation_due(&mut self, now: HostTime, id: CommId) {
        let timeout = self.timeout_of(id);
        let Some(comm) = self.comms.get_mut(&id) else { return };
        comm.due_at = None;
        let Some((first_at, _)) = comm.oldest() else { return };
        let since = first_at.max(comm.moved_at);
        let patient = comm.timeout.is_none();
        if since + timeout > now {
            return self.operation_again(id, since + timeout);
        }
        let missed = self.missed(id);
        // A rank that lives and is not itself blocked here may be computing: NCCL would wait, and so do we.
        let deadline = since + self.options.patience;
        if patient && now < deadline && self.all_compute(&missed) {
            return self.operation_again(id, deadline);
        }
        let fault = Fault::system(sentence::late(self, &self.comms[&id], now.since(first_at)));
        // Where the operation is complete and only tied to one that is not, that one's communicator is the
        // culprit, and takes this one with it.
        let (culprit, ranks) =
            missed.into_iter().next().map_or((id, Vec::new()), |missed| (missed.key.comm(), missed.ranks));
        self.fail_comm(now, culprit, FailureKind::CollectiveTimeout, fault, &ranks);
    }

    fn operation_again(&mut self, id: CommId, at: HostTime) {
        if let Some(comm) = self.comms.get_mut(&id) {
            comm.due_at = Some(at);
            self.deadlines.set(at, Due::Operation(id));
        }
    }

    /// What keeps a communicator's oldest operation: itself, if ranks are missing from it; else the operations
    /// it is tied to that miss ranks.
    pub(crate) fn missed(&self, id: CommId) -> Vec<Missed> {
        let Some((_, oldest)) = self.comms.get(&id).and_then(Comm::oldest) else { return Vec::new() };
        let itself = self.missing(oldest);
        if !itself.is_empty() {
            return vec![Missed { key: oldest, ranks: itself }];
        }
        let closure = self.closure(Start::Key(oldest));
        let missed = closure.keys.iter().map(|&key| Missed { key, ranks: self.missing(key) });
        missed.filter(|missed| !missed.ranks.is_empty()).collect()
    }

    /// Whether there are missing ranks, and all of them compute.
    fn all_compute(&self, missed: &[Missed]) -> bool {
        let occupations = Occupations::of(self);
        let mut ranks =
            missed.iter().flat_map(|missed| missed.ranks.iter().map(|&rank| (missed.key.comm(), rank)));
        !missed.is_empty()
            && ranks.all(|(comm, rank)| {
                self.comms.get(&comm).is_some_and(|comm| self.is_computing(&occupations, comm, rank))
            })
    }

    /// The first call of a submission that has not been released.
    pub(crate) fn call_of(&self, id: BatchId) -> Option<(CommId, String)> {
        let op = self.batches.by_id.get(&id)?.waiting().next()?;
        Some((op.key.comm(), self.call_at(op.key, op.rank)?))
    }

    /// What a rank called, as sentences name it.
    pub(crate) fn call_at(&self, key: Key, rank: Rank) -> Option<String> {
        let comm = self.comms.get(&key.comm())?;
        match key {
            Key::Order(..) | Key::Exchange(..) => {
                Some(self.slot(key)?.entries.get(rank.index())?.as_ref()?.action.to_string())
            }
            Key::Pair(_, ends, number) => {
                let pair = comm.pairs.get(ends, number)?;
                let half = if rank == ends.src { pair.send.or(pair.recv) } else { pair.recv.or(pair.send) };
                Some(half?.transfer.to_string())
            }
            Key::Await(_, rank, number) => {
                Some(Action::Await(comm.signals.get(rank, number)?.awaited.clone()).to_string())
            }
            Key::Free(_) => None,
        }
    }

    pub(crate) fn notice_due(&mut self, now: HostTime, id: CommId) {
        let (after, again) = (self.options.notice_after, now + self.options.notice_again);
        let Some(comm) = self.comms.get_mut(&id) else { return };
        comm.notice_at = None;
        let Some((first_at, key)) = comm.oldest() else { return };
        let is_early = first_at + after > now;
        let next = if is_early { first_at + after } else { again };
        comm.notice_at = Some(next);
        self.deadlines.set(next, Due::Notice(id));
        if is_early {
            return;
        }
        let teller = self.batches_at(key).first().and_then(|id| self.batches.by_id.get(id));
        let Some(peer) = teller.map(|batch| batch.peer) else { return };
        let text = sentence::waiting(self, &self.comms[&id], now.since(first_at));
        self.reply(peer, 0, ToRank::Notice(text));
    }

    /// Two ranks' calls differ: wait a little for the others, so that the sentence can name everybody.
    fn conflict_seen(&mut self, now: HostTime, id: CommId) {
        let at = now + self.options.conflict_grace;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.conflict_at.is_none() && comm.fault.is_none() {
            comm.conflict_at = Some(at);
            self.deadlines.set(at, Due::Conflict(id));
        }
    }

    fn conflict_complete(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get(&id) else { return };
        let mut slots = comm.order.slots.iter().chain(&comm.exchanges.slots);
        if comm.conflict_at.is_some() && slots.any(|slot| slot.conflict && slot.is_full()) {
            self.conflict_due(now, id);
        }
    }

    pub(crate) fn conflict_due(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        self.deadlines.clear(comm.conflict_at.take(), Due::Conflict(id));
        let Some(mismatch) = sentence::mismatch(comm) else { return };
        let fault = Fault::usage(mismatch.text);
        self.fail_comm(now, id, FailureKind::Mismatch, fault, &mismatch.minority);
    }

    /// Fails every batch tied to a communicator; gives the other communicators that they touch.
    pub(crate) fn fail_batches(&mut self, id: CommId, fault: &Fault) -> BTreeSet<CommId> {
        let Some(comm) = self.comms.get(&id) else { return BTreeSet::new() };
        let mut closure = Closure::default();
        self.extend(&mut closure, comm.keys(), Vec::new());
        let mut touched = closure.comms();
        for batch in closure.batches {
            if let Some(batch) = self.batches.remove(batch) {
                touched.extend(batch.waiting().map(|op| op.key.comm()));
                self.reply(batch.peer, batch.request, ToRank::Failed(fault.clone()));
            }
        }
        touched.remove(&id);
        touched
    }

    /// Drops a dead process's batches, so that nothing is released to it.
    pub(crate) fn drop_batches_of(&mut self, session: SessionId) {
        let theirs = self.batches.by_id.iter().filter(|(_, batch)| batch.session == session);
        for id in theirs.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.batches.remove(id);
        }
    }

    /// Whether a process waits in a communicator.
    pub(crate) fn waits_in(&self, session: SessionId, id: CommId) -> bool {
        let mut theirs = self.batches.by_id.values().filter(|batch| batch.session == session);
        theirs.any(|batch| batch.waiting().any(|op| op.key.comm() == id))
    }
}

/// Refuses what no library of ours submits.
fn check_shape(comm: &Comm, action: &Action, ops: usize) -> Result<(), Fault> {
    let size = comm.size();
    let exists = |peer: Rank| {
        if peer.index() < size {
            Ok(())
        } else {
            Err(Fault::argument(format!("{action}: communicator {} has {size} ranks", comm.id)))
        }
    };
    let pairwise = |op| matches!(op, Collective::AllToAll | Collective::Gather | Collective::Scatter);
    match action {
        Action::Transfer(transfer) => exists(transfer.peer),
        Action::Put { peer, .. } => exists(*peer),
        Action::Await(awaited) => awaited.iter().try_for_each(|each| exists(each.peer)),
        Action::Collective(descriptor)
            if pairwise(descriptor.op) && !(descriptor.op == Collective::AllToAll && ops == 1) =>
        {
            Err(Fault::usage(format!("{action} is submitted as sends and receives, or alone")))
        }
        Action::Collective(descriptor) => descriptor.root.map_or(Ok(()), exists),
        _ if ops != 1 => Err(Fault::usage(format!("{action} must be alone in its submission"))),
        _ => Ok(()),
    }
}

/// Where a search for what may run begins.
#[derive(Clone, Copy, Debug)]
enum Start {
    Batch(BatchId),
    Key(Key),
}

/// An operation that misses ranks.
#[derive(Debug)]
pub(crate) struct Missed {
    pub(crate) key: Key,
    pub(crate) ranks: Vec<Rank>,
}

/// Batches tied to one another, and their operations.
#[derive(Debug, Default)]
struct Closure {
    batches: BTreeSet<BatchId>,
    keys: BTreeSet<Key>,
    /// Whether earlier submissions of the same threads belong to it.
    in_order: bool,
    /// Whether all of it is matched.
    whole: bool,
}

impl Closure {
    fn comms(&self) -> BTreeSet<CommId> {
        self.keys.iter().map(|key| key.comm()).collect()
    }
}

impl Comm {
    /// A rank that has left and that an operation of `rank` cannot do without.
    fn leaver_needed(&self, rank: Rank, action: &Action) -> Option<Rank> {
        let left = |other: Rank| {
            self.members.get(other.index()).is_some_and(|member| member.standing == Standing::Left)
        };
        match action {
            Action::Transfer(transfer) => {
                // What it called before it left still pairs.
                let ends = Ends::of(rank, transfer);
                let is_there = || {
                    self.pairs.iter().any(|(other, _, pair)| {
                        other == ends
                            && match transfer.direction {
                                Direction::Send => pair.send.is_none(),
                                Direction::Recv => pair.recv.is_none(),
                            }
                    })
                };
                Some(transfer.peer).filter(|&peer| left(peer) && !is_there())
            }
            Action::Put { peer, .. } => Some(*peer).filter(|&peer| left(peer)),
            Action::Await(_) => None,
            _ => (0..self.size()).map(Rank::from_index).find(|&other| left(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_a_communicator_are_bounded_whatever_its_size() {
        for size in [1, 2, 3, 64, 1_000, 4_096] {
            let places = ahead_max(size) * size as u64;
            assert!(places <= PLACES_MAX && ahead_max(size) >= 1_024, "{size} ranks: {places}");
        }
    }
}
