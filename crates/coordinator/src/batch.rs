//! Submissions: groups of operations that are matched rank against rank and released all or nothing.
//!
//! A batch is what one process submits at once (one call, or all calls of a group). Batches that share an
//! operation are tied: a conflict in any of them fails all of them before a byte has moved, so none is
//! released before all are matched. That rule alone would hang programs that NCCL runs, so it gives way twice.
//! Where the ranks that are missed are themselves waiting in the tie (rank 0 groups A and B, rank 1 calls A and
//! then B), what is matched is released in order, and the report says so. And an operation that all its ranks
//! have called and that has waited a quarter of a second for the rest of its group goes alone, as it would in
//! NCCL at once: the rest may depend on it in ways that nobody here can see. A mismatch in the rest cannot undo it
//! then, but only from a rank that called later than that: nothing goes where a conflict is known.

use std::collections::{BTreeMap, BTreeSet};

use fakegpu_proto::event::FailureKind;
use fakegpu_proto::{Action, Direction, EventKind, Fault, Release, STREAM, ToRank, Transfer};
use fakegpu_units::{Collective, CommId, GlobalRank, HostTime, Rank, SessionId, VirtualSpan};

use crate::batches::{Batch, BatchId, Booked, Key};
use crate::comm::{Comm, Entry, Slot, Staging, Standing};
use crate::deadline::Due;
use crate::pairs::{Ends, Half, Waiting};
use crate::patience::GROUP_PATIENCE;
use crate::sentence;
use crate::whole::Whole;
use crate::{Coordinator, PeerId};

/// Places that the operations of one communicator may take: each takes one for every rank, filled or not.
const PLACES_MAX: u64 = 1 << 22;

/// Operations a rank may have submitted beyond the slowest rank of a communicator of this size.
fn ahead_max(size: usize) -> u64 {
    (PLACES_MAX / (size.max(1) as u64)).min(1 << 20)
}

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
        self.batches.put_off(peer, submission);
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
        let modelled =
            if thread & STREAM == 0 { VirtualSpan::ZERO } else { self.parts_span(&Whole::all_of(&ops)) };
        let id = self.batches.add(Batch {
            peer,
            request,
            session,
            thread,
            put_off: false,
            at: now,
            moved_at: now,
            ranks,
            ops: Vec::with_capacity(ops.len()),
            loose,
            untold: Vec::new(),
            modelled,
            parts: Vec::new(),
        });
        let mut misfits = Vec::new();
        for (index, (comm, rank, action)) in (0..).zip(ops) {
            self.book_op(now, id, index, (comm, rank, action), &mut misfits);
        }
        // Only what is booked whole can fail whole.
        for Misfit { comm, ends, text } in misfits {
            self.fail_comm(now, comm, FailureKind::Mismatch, Fault::usage(text), &[ends.src, ends.dst]);
        }
        id
    }

    fn book_op(
        &mut self,
        now: HostTime,
        id: BatchId,
        index: u32,
        (comm, rank, action): (CommId, Rank, Action),
        misfits: &mut Vec<Misfit>,
    ) {
        let Some(found) = self.comms.get_mut(&comm) else { return };
        let (key, conflict) = match action {
            Action::Transfer(transfer) => {
                self.expand_exchanges(now, comm, misfits);
                misfits.extend(self.book_half(comm, rank, Half { transfer, batch: id, index, at: now }));
                return;
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
                    return self.expand(comm, rank, &entry, misfits);
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

    /// Puts one side of a pair in its queue, at the end of its batch's operations; what is wrong where it does not
    /// fit the other side. Nobody else is needed to see that.
    fn book_half(&mut self, id: CommId, rank: Rank, half: Half) -> Option<Misfit> {
        let comm = self.comms.get_mut(&id)?;
        let put = comm.pairs.put(rank, half);
        let key = Key::Pair(id, put.ends, put.number);
        if let Some(batch) = self.batches.by_id.get_mut(&half.batch) {
            batch.ops.push(Booked { rank, key, done: false });
        }
        let other = put.met?;
        if other.transfer.bytes() != half.transfer.bytes() {
            let text = sentence::unequal(comm, put.ends, put.number);
            return Some(Misfit { comm: id, ends: put.ends, text });
        }
        if other.transfer.data_type != half.transfer.data_type {
            self.types_differ(half.at, id, &other.transfer.to_string(), &half.transfer.to_string());
        }
        None
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
    fn expand_exchanges(&mut self, now: HostTime, id: CommId, misfits: &mut Vec<Misfit>) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.exchanges.slots.is_empty() {
            return;
        }
        for (rank, entry) in comm.take_exchanges() {
            self.expand(id, rank, &entry, misfits);
        }
        // Pairs among them may be complete now, of ranks that have nothing more to say.
        self.ripe_watch(now + GROUP_PATIENCE);
    }

    /// Makes a rank's all-to-all the sends and receives that it stands for.
    fn expand(&mut self, id: CommId, rank: Rank, entry: &Entry, misfits: &mut Vec<Misfit>) {
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
                misfits.extend(self.book_half(
                    id,
                    rank,
                    Half { transfer, batch: entry.batch, index, at: entry.at },
                ));
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
        // Operations before this one in the submission: of all kinds, and of those that all ranks take part in.
        let mut asked: BTreeMap<(CommId, Rank), (u64, u64)> = BTreeMap::new();
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
            let (of_any_kind, of_all_ranks) = *asked;
            *asked = (of_any_kind + 1, of_all_ranks + u64::from(is_of_all_ranks(action)));
            if comm.ahead(rank) + of_any_kind >= limit {
                return Err(Fault::usage(format!(
                    "rank {rank} is more than {limit} operations ahead of communicator {id}, which has {} ranks: split the group",
                    comm.size()
                )));
            }
            if let Some(culprit) = comm.leaver_needed(rank, of_all_ranks, action) {
                // Nobody else can notice that this operation will never be complete.
                let fault = Fault::remote(sentence::needs_leaver(comm, rank, action, culprit));
                self.fail_comm(now, id, FailureKind::RankLeft, fault.clone(), &[culprit]);
                return Err(fault);
            }
            self.note_use_after_leave(now, peer, id, rank, action);
        }
        Ok(())
    }

    /// Ranks go on with a communicator that others have left, and need none of them.
    fn note_use_after_leave(&mut self, now: HostTime, peer: PeerId, id: CommId, rank: Rank, action: &Action) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let Some(leaver) = comm.departed().next() else { return };
        if std::mem::replace(&mut comm.leave_told, true) {
            return;
        }
        let detail = sentence::used_after_leave(comm, rank, action, leaver);
        self.reply(peer, 0, ToRank::Notice(detail.clone()));
        self.event(now, EventKind::Hazard { comm: id, detail });
    }

    pub(crate) fn slot(&self, key: Key) -> Option<&Slot> {
        match key {
            Key::Order(comm, number) => self.comms.get(&comm)?.order.at(number),
            Key::Exchange(comm, number) => self.comms.get(&comm)?.exchanges.at(number),
            Key::Pair(..) | Key::Await(..) | Key::Free(_) => None,
        }
    }

    /// Whether everybody whom an operation needs has called.
    pub(crate) fn is_matched(&self, key: Key) -> bool {
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
    pub(crate) fn batches_at(&self, key: Key) -> Vec<BatchId> {
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

    /// Everything that is tied to some operations.
    pub(crate) fn closure_of(&self, keys: impl IntoIterator<Item = Key>) -> Closure {
        let mut closure = Closure { in_order: true, ..Closure::default() };
        self.extend(&mut closure, keys.into_iter().collect(), Vec::new());
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
        let Some(batch) = self.batches.by_id.get(&id) else { return };
        if batch.waiting().any(|op| self.is_matched(op.key)) {
            self.ripe_watch(now + GROUP_PATIENCE);
        }
    }

    /// Releases what can be found from these starts, and from what that lets run.
    pub(crate) fn release_from(&mut self, now: HostTime, mut due: Vec<Start>) {
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
    pub(crate) fn unblocked(&self, closure: &Closure, ranks: &BTreeSet<GlobalRank>) -> Vec<Start> {
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
            starts.extend(self.batches.heads(rank).flat_map(|batch| self.starts(batch)));
        }
        starts
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
        if let Start::Batch(id) = start
            && self.waits_behind(id)
        {
            return None;
        }
        let mut closure = self.closure(start);
        if closure.keys.iter().all(|&key| self.is_matched(key)) {
            let is_behind = |id: &BatchId| !self.batches.is_head(*id);
            if closure.batches.iter().any(is_behind)
                && self.order_circle(closure.batches.iter().copied()).is_some()
            {
                // All have called, and yet none can begin before another has ended.
                return None;
            }
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

    /// Whether what stands at the head of a batch's thread waits for a rank that is free to come: then so does
    /// everything behind it, without a walk over all of that.
    fn waits_behind(&self, id: BatchId) -> bool {
        let Some(head) = self.batches.predecessors(id).next() else { return false };
        let mut closure = self.closure(Start::Batch(head));
        !closure.keys.iter().all(|&key| self.is_matched(key)) && !self.is_stuck(&mut closure)
    }

    /// Whether no operation in (what is tied to) the closure can become complete by itself: each misses a rank
    /// that itself waits for another operation in there. Grows the closure by what those ranks wait for.
    fn is_stuck(&self, closure: &mut Closure) -> bool {
        let mut seen = BTreeSet::new();
        loop {
            let fresh: Vec<Key> = closure.keys.difference(&seen).copied().collect();
            if fresh.is_empty() {
                return true;
            }
            let mut waits = Vec::new();
            for &key in fresh.iter().filter(|&&key| !self.is_matched(key)) {
                let blocked = self.blocked_absentees(key);
                if blocked.is_empty() {
                    return false;
                }
                waits.extend(blocked);
            }
            seen.extend(fresh);
            self.extend(closure, Vec::new(), waits);
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
        members.flat_map(|member| self.batches.blocking(member.global)).collect()
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
    pub(crate) fn is_front(&self, key: Key) -> bool {
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
    pub(crate) fn run_ready(&mut self, now: HostTime, closure: &Closure) -> BTreeSet<GlobalRank> {
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
                Key::Pair(comm, ends, number) => pairs.extend(self.take_pair(now, comm, ends, number)),
                Key::Await(comm, rank, number) => self.run_await(now, comm, rank, number),
                Key::Free(_) => {}
            }
        }
        self.book_transfers(now, &pairs);
        ran
    }

    /// Whether no batch of an operation has an earlier one of its own thread before it.
    pub(crate) fn is_next(&self, key: Key) -> bool {
        self.batches_at(key).into_iter().all(|id| self.batches.is_head(id))
    }

    pub(crate) fn mark_released(&mut self, now: HostTime, batch: BatchId, index: u32) {
        if let Some(batch) = self.batches.by_id.get_mut(&batch) {
            batch.release(now, index);
        }
    }

    /// Tells a batch's process what it may run, and forgets the batch once that is all.
    fn tell_released(&mut self, now: HostTime, id: BatchId) {
        let Some(batch) = self.batches.by_id.get_mut(&id) else { return };
        let (peer, request) = (batch.peer, batch.request);
        let untold = std::mem::take(&mut batch.untold);
        if batch.waiting().next().is_none() {
            let (parts, modelled) = self.batches.retire(now, id).map_or_else(Default::default, |batch| {
                let modelled = Some(batch.modelled).filter(|_| batch.is_on_stream());
                (batch.parts, modelled)
            });
            self.book_plain(now, &parts);
            if let Some(modelled) = modelled {
                self.reply(peer, request, ToRank::Modelled(modelled));
            }
            self.reply(peer, request, ToRank::Go(Release::Rest));
        } else if !untold.is_empty() {
            self.reply(peer, request, ToRank::Go(Release::Some(untold)));
        }
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

    /// Two ranks' calls differ: wait a little for the others, so that the sentence can name everybody.
    fn conflict_seen(&mut self, now: HostTime, id: CommId) {
        let at = now + self.options.conflict_grace;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.conflict_at.is_none() && comm.takes_calls() {
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
                self.batches.freed.extend(batch.ranks.iter().copied());
                touched.extend(batch.waiting().map(|op| op.key.comm()));
                self.reply(batch.peer, batch.request, ToRank::Failed(fault.clone()));
            }
        }
        touched.remove(&id);
        touched
    }

    /// What ranks called after something that has failed may be complete already. Not before all that fails with
    /// it has failed.
    pub(crate) fn release_freed(&mut self, now: HostTime) {
        while let Some(rank) = self.batches.freed.pop_first() {
            let starts = self.batches.heads(rank).flat_map(|batch| self.starts(batch)).collect();
            self.release_from(now, starts);
        }
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

/// Whether an operation takes a place in its communicator's order.
fn is_of_all_ranks(action: &Action) -> bool {
    match action {
        Action::Transfer(_) | Action::Put { .. } | Action::Await(_) => false,
        Action::Collective(descriptor) => descriptor.op != Collective::AllToAll,
        _ => true,
    }
}

/// A send and a receive of different sizes, described while both are there.
#[derive(Debug)]
struct Misfit {
    comm: CommId,
    ends: Ends,
    text: String,
}

/// Where a search for what may run begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    Batch(BatchId),
    Key(Key),
}

/// Batches tied to one another, and their operations.
#[derive(Debug, Default)]
pub(crate) struct Closure {
    pub(crate) batches: BTreeSet<BatchId>,
    pub(crate) keys: BTreeSet<Key>,
    /// Whether earlier submissions of the same threads belong to it.
    in_order: bool,
    /// Whether all of it is matched.
    whole: bool,
}

impl Closure {
    pub(crate) fn comms(&self) -> BTreeSet<CommId> {
        self.keys.iter().map(|key| key.comm()).collect()
    }
}

impl Comm {
    /// A rank that takes no part any more and that an operation of `rank` cannot do without, where `earlier`
    /// operations of all ranks come before it in its submission.
    fn leaver_needed(&self, rank: Rank, earlier: u64, action: &Action) -> Option<Rank> {
        let mut departed = self.departed();
        match action {
            Action::Transfer(transfer) => {
                let left = self.members.get(transfer.peer.index());
                let left = left.is_some_and(|member| member.standing != Standing::Member);
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
                Some(transfer.peer).filter(|_| left && !is_there())
            }
            Action::Put { peer, .. } => departed.find(|other| other == peer),
            Action::Await(awaited) => {
                let mut departed = departed.peekable();
                departed.peek()?;
                let short = self.signals.short_of(rank, awaited);
                departed.find(|other| short.contains(other))
            }
            // What it called before it left counts: its next call is the first that it will not make.
            Action::Collective(descriptor) if descriptor.op == Collective::AllToAll => {
                departed.find(|other| {
                    self.members[other.index()].next_exchange <= self.members[rank.index()].next_exchange
                })
            }
            _ => departed
                .find(|other| self.members[other.index()].next <= self.members[rank.index()].next + earlier),
        }
    }

    /// Operations that a rank has submitted and that have not run. An all-to-all may become the sends and
    /// receives that it stands for, and those take a place each.
    fn ahead(&self, rank: Rank) -> u64 {
        let member = &self.members[rank.index()];
        let exchanges = member.next_exchange - self.exchanges.base;
        member.next - self.order.base + 2 * exchanges + self.pairs.halves() + self.signals.waits_of(rank)
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
