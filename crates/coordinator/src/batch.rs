//! Submissions: groups of operations that are matched rank against rank and released all or nothing.
//!
//! A batch is what one process submits at once (one call, or all calls of a group). Batches that share an
//! operation are tied: a conflict in any of them fails all of them before a byte has moved, so none is
//! released before all are matched. That rule alone would hang programs whose ranks group differently (rank
//! 0 groups A and B, rank 1 calls A and then B), which NCCL runs; so where the rank that is missed is itself
//! waiting in a tied batch, what is matched is released in order, and the report says so.

use std::collections::{BTreeMap, BTreeSet};

use fakegpu_proto::event::FailureKind;
use fakegpu_proto::{Descriptor, Estimate, EventKind, Fault, Release, StagingKind, ToRank};
use fakegpu_units::{CommId, GlobalRank, HostSpan, HostTime, Rank, SeqNo, SessionId, VirtualTime};

use crate::comm::{Comm, Entry, Slot, Staging, Standing};
use crate::deadline::Due;
use crate::occupation::Occupations;
use crate::sentence;
use crate::{Coordinator, Errand, PeerId, Work};

/// A batch, numbered in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BatchId(u64);

/// One submission.
#[derive(Debug)]
pub(crate) struct Batch {
    peer: PeerId,
    request: u64,
    session: SessionId,
    /// The job's ranks that wait for it, each once.
    ranks: Vec<GlobalRank>,
    ops: Vec<(CommId, Rank, SeqNo)>,
    /// How many of them have been released.
    released: usize,
    /// Those that the process has not been told about.
    untold: Vec<u32>,
}

/// The submissions that have not been released whole.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    by_id: BTreeMap<BatchId, Batch>,
    by_rank: BTreeMap<GlobalRank, BTreeSet<BatchId>>,
    made: u64,
}

impl Batches {
    fn add(&mut self, id: BatchId, batch: Batch) {
        for &rank in &batch.ranks {
            self.by_rank.entry(rank).or_default().insert(id);
        }
        self.by_id.insert(id, batch);
    }

    fn remove(&mut self, id: BatchId) -> Option<Batch> {
        let batch = self.by_id.remove(&id)?;
        for rank in &batch.ranks {
            if let Some(batches) = self.by_rank.get_mut(rank) {
                batches.remove(&id);
            }
        }
        Some(batch)
    }

    /// The submissions a rank of the job waits for.
    fn of_rank(&self, rank: GlobalRank) -> impl Iterator<Item = BatchId> {
        self.by_rank.get(&rank).into_iter().flatten().copied()
    }

    /// The ranks of the job that wait, each with its oldest submission.
    pub(crate) fn by_rank(&self) -> impl Iterator<Item = (GlobalRank, BatchId)> {
        self.by_rank.iter().filter_map(|(&rank, batches)| Some((rank, *batches.first()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }
}

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
        ops: &[(CommId, Rank, Descriptor)],
    ) {
        if let Err(fault) = self.check_submission(now, peer, ops) {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let Some(session) = self.peers.session(peer).map(|session| session.id) else { return };
        if ops.is_empty() {
            return self.reply(peer, request, ToRank::Go(Release::Rest));
        }
        self.batches.made += 1;
        let id = BatchId(self.batches.made);
        let mut booked = Vec::with_capacity(ops.len());
        let (mut conflicts, mut ranks) = (BTreeSet::new(), Vec::new());
        for (index, &(comm, rank, descriptor)) in ops.iter().enumerate() {
            let entry =
                Entry { descriptor, batch: id, index: u32::try_from(index).unwrap_or(u32::MAX), at: now };
            let Some(found) = self.comms.get_mut(&comm) else { continue };
            let global = found.members[rank.index()].global;
            if !ranks.contains(&global) {
                ranks.push(global);
            }
            let (seq, conflict) = found.enqueue(rank, entry);
            booked.push((comm, rank, seq));
            if conflict {
                conflicts.insert(comm);
            }
        }
        let batch = Batch { peer, request, session, ranks, ops: booked, released: 0, untold: Vec::new() };
        self.batches.add(id, batch);
        for comm in conflicts {
            self.conflict_seen(now, comm);
        }
        // A conflict that waits for more ranks may be complete with this batch.
        let touched: BTreeSet<CommId> = ops.iter().map(|(comm, ..)| *comm).collect();
        for &comm in &touched {
            self.conflict_complete(now, comm);
        }
        if self.batches.by_id.contains_key(&id) {
            self.release(now, id);
        }
        for comm in touched {
            self.watch(now, comm);
        }
    }

    fn check_submission(
        &mut self,
        now: HostTime,
        peer: PeerId,
        ops: &[(CommId, Rank, Descriptor)],
    ) -> Result<(), Fault> {
        let mut asked: BTreeMap<(CommId, Rank), u64> = BTreeMap::new();
        for &(id, rank, descriptor) in ops {
            let comm = self.owned(peer, id, rank)?;
            if let Some(fault) = &comm.fault {
                return Err(fault.clone());
            }
            if matches!(comm.staging, Staging::Mapping { .. }) {
                return Err(Fault::usage(format!("communicator {id} is not ready yet")));
            }
            if comm.members[rank.index()].standing != Standing::Member {
                return Err(Fault::usage(format!("rank {rank} has left communicator {id}")));
            }
            let (asked, limit) = (asked.entry((id, rank)).or_default(), ahead_max(comm.size()));
            *asked += 1;
            if comm.members[rank.index()].next - comm.base + *asked > limit {
                return Err(Fault::usage(format!(
                    "rank {rank} is more than {limit} operations ahead of communicator {id}, which has {} ranks: split the group",
                    comm.size()
                )));
            }
            let gone = comm.members.iter().position(|member| member.standing == Standing::Left);
            if let Some(gone) = gone {
                // Nobody else can notice that this operation will never be complete.
                let culprit = Rank::from_index(gone);
                let fault = Fault::remote(format!(
                    "rank {rank} calls {descriptor} on communicator {id}, which {} has left: all ranks must make the same calls before they destroy a communicator or exit",
                    comm.member_name(culprit)
                ));
                self.fail_comm(now, id, FailureKind::RankLeft, fault.clone(), &[culprit]);
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Adds to `closure` all batches tied to `start`, and all operations of theirs that have not run.
    fn extend_closure(&self, start: BatchId, closure: &mut Closure) {
        let mut pending = vec![start];
        while let Some(id) = pending.pop() {
            let Some(batch) = self.batches.by_id.get(&id) else { continue };
            if !closure.batches.insert(id) {
                continue;
            }
            for &(comm, _, seq) in &batch.ops {
                let Some(slot) = self.slot(comm, seq) else { continue };
                if closure.slots.insert((comm, seq)) {
                    pending.extend(slot.entries.iter().flatten().map(|entry| entry.batch));
                }
            }
        }
    }

    fn closure(&self, start: BatchId) -> Closure {
        let mut closure = Closure::default();
        self.extend_closure(start, &mut closure);
        closure
    }

    fn slot(&self, comm: CommId, seq: SeqNo) -> Option<&Slot> {
        self.comms.get(&comm)?.slot_at(seq.0)
    }

    /// Releases what the arrival of `id` completes.
    fn release(&mut self, now: HostTime, id: BatchId) {
        let mut due = vec![id];
        while let Some(id) = due.pop() {
            let Some(closure) = self.releasable(now, id) else { continue };
            self.run_ready(now, &closure);
            // An operation may have been complete already and only have waited for its predecessor.
            for comm in closure.comms() {
                let front = self
                    .comms
                    .get(&comm)
                    .and_then(|comm| comm.slots.front())
                    .filter(|slot| slot.is_matched());
                due.extend(front.and_then(|slot| slot.present().next()).map(|(_, entry)| entry.batch));
            }
        }
    }

    /// What is tied to `id`, if it may run: all of it is matched, or waiting longer would be for ever.
    fn releasable(&mut self, now: HostTime, id: BatchId) -> Option<Closure> {
        let batch = self.batches.by_id.get(&id)?;
        // One operation whose missing ranks are free to come settles it, without a walk over a long group.
        let waits = |&&(comm, _, seq): &&(CommId, Rank, SeqNo)| {
            self.slot(comm, seq).is_some_and(|slot| !slot.is_matched())
        };
        if let Some(&(comm, _, seq)) = batch.ops.iter().find(waits)
            && self.blocked_absentees(comm, seq).is_empty()
        {
            return None;
        }
        let mut closure = self.closure(id);
        let matched = |(comm, seq): &(CommId, SeqNo)| self.slot(*comm, *seq).is_some_and(Slot::is_matched);
        if closure.slots.iter().all(matched) {
            return Some(closure);
        }
        if !self.is_stuck(&mut closure) {
            return None;
        }
        self.tell_asymmetry(now, &closure);
        Some(closure)
    }

    /// Whether no operation in (what is tied to) the closure can become complete by itself: each misses a rank
    /// that itself waits for another operation in there. Grows the closure by what those ranks wait for.
    fn is_stuck(&self, closure: &mut Closure) -> bool {
        let mut seen = BTreeSet::new();
        loop {
            let unmatched = |at: &(CommId, SeqNo)| {
                !seen.contains(at) && self.slot(at.0, at.1).is_some_and(|slot| !slot.is_matched())
            };
            let Some(next) = closure.slots.iter().copied().find(unmatched) else { return true };
            seen.insert(next);
            let blocked = self.blocked_absentees(next.0, next.1);
            if blocked.is_empty() {
                return false;
            }
            for batch in blocked {
                self.extend_closure(batch, closure);
            }
        }
    }

    /// What an operation's missing ranks wait for.
    fn blocked_absentees(&self, comm: CommId, seq: SeqNo) -> Vec<BatchId> {
        let Some(found) = self.comms.get(&comm) else { return Vec::new() };
        let Some(slot) = found.slot_at(seq.0) else { return Vec::new() };
        let absentees = slot
            .entries
            .iter()
            .zip(&found.members)
            // Who has left does not come, and its number may be another's by now.
            .filter(|(entry, member)| entry.is_none() && member.standing == Standing::Member);
        absentees.flat_map(|(_, member)| self.batches.of_rank(member.global)).collect()
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

    /// Runs the closure's matched operations, those of one communicator in order.
    fn run_ready(&mut self, now: HostTime, closure: &Closure) {
        for comm in closure.comms() {
            while self.front_is_ready(comm, closure) {
                self.run_front(now, comm);
            }
            // What is oldest now may have come long ago, with nobody left to submit anything.
            self.watch(now, comm);
        }
        for &id in &closure.batches {
            self.tell_released(id);
        }
    }

    fn front_is_ready(&self, id: CommId, closure: &Closure) -> bool {
        let Some(comm) = self.comms.get(&id) else { return false };
        comm.slots.front().is_some_and(Slot::is_matched) && closure.slots.contains(&(id, SeqNo(comm.base)))
    }

    fn run_front(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let seq = SeqNo(comm.base);
        let Some(slot) = comm.retire() else { return };
        self.deadlines.clear(comm.due_at.take(), Due::Operation(id));
        self.deadlines.clear(comm.notice_at.take(), Due::Notice(id));
        let Some(descriptor) = slot.entries.iter().flatten().next().map(|entry| entry.descriptor) else {
            return;
        };
        let streamed = matches!(comm.staging, Staging::Ready(StagingKind::Streamed));
        for entry in slot.entries.iter().flatten() {
            if let Some(batch) = self.batches.by_id.get_mut(&entry.batch) {
                batch.released += 1;
                batch.untold.push(entry.index);
            }
        }
        let (start, estimate) = self.book(id, &descriptor);
        let waits = slot.entries.iter().flatten().map(|entry| now.since(entry.at)).collect();
        let (size, chunks) =
            self.comms.get(&id).map_or((0, 0), |comm| (comm.size(), comm.chunks_of(&descriptor)));
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.operations += 1;
        self.event(
            now,
            EventKind::Operation { comm: id, seq, descriptor, size, waits, start, estimate, chunks },
        );
        if streamed {
            self.errand(Errand::Stream { comm: id, seq, descriptor });
        }
    }

    /// Advances the members' virtual clocks over an operation.
    fn book(&mut self, id: CommId, descriptor: &Descriptor) -> (VirtualTime, Estimate) {
        let Some(comm) = self.comms.get(&id) else { return (VirtualTime::ZERO, Estimate::default()) };
        let clock =
            |member: &crate::comm::MemberState| self.clocks.get(&member.global).copied().unwrap_or_default();
        let start = comm.members.iter().map(clock).max().unwrap_or_default();
        let concurrent =
            self.comms.values().filter(|other| other.id != id && other.overlaps(start, &comm.nodes)).count();
        let work = Work {
            descriptor,
            nodes: &comm.nodes,
            concurrent: u32::try_from(concurrent).unwrap_or(u32::MAX),
        };
        let estimate = self.cost.0.estimate(&work);
        let end = start + estimate.total();
        for member in &comm.members {
            self.clocks.insert(member.global, end);
        }
        if let Some(comm) = self.comms.get_mut(&id) {
            comm.busy_from = start;
            comm.busy_until = end;
        }
        (start, estimate)
    }

    /// Tells a batch's process what it may run, and forgets the batch once that is all.
    fn tell_released(&mut self, id: BatchId) {
        let Some(batch) = self.batches.by_id.get_mut(&id) else { return };
        let (peer, request) = (batch.peer, batch.request);
        let untold = std::mem::take(&mut batch.untold);
        if batch.released == batch.ops.len() {
            self.batches.remove(id);
            self.reply(peer, request, ToRank::Go(Release::Rest));
        } else if !untold.is_empty() {
            self.reply(peer, request, ToRank::Go(Release::Some(untold)));
        }
    }

    /// Keeps a communicator's deadline on its oldest operation.
    fn watch(&mut self, now: HostTime, id: CommId) {
        let timeout = self.timeout_of(id);
        let notice_after = self.options.notice_after;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.fault.is_some() || comm.due_at.is_some() {
            return;
        }
        if comm.slots.is_empty() {
            return;
        }
        let (due, notice) = (now + timeout, now + notice_after);
        comm.front_at = now;
        comm.due_at = Some(due);
        comm.notice_at = Some(notice);
        self.deadlines.set(due, Due::Operation(id));
        self.deadlines.set(notice, Due::Notice(id));
    }

    /// How long this communicator's operations may wait at first: the environment's word, else the built-in.
    pub(crate) fn timeout_of(&self, id: CommId) -> HostSpan {
        self.comms.get(&id).and_then(|comm| comm.timeout).unwrap_or(self.options.stuck_timeout)
    }

    pub(crate) fn operation_due(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        comm.due_at = None;
        let Some(first_at) = comm.slots.front().map(|slot| slot.first_at) else { return };
        let (deadline, patient) = (comm.front_at + self.options.patience, comm.timeout.is_none());
        let missed = self.missed(id);
        // A rank that lives and is not itself blocked here may be computing: NCCL would wait, and so do we.
        if patient && now < deadline && self.all_compute(&missed) {
            if let Some(comm) = self.comms.get_mut(&id) {
                comm.due_at = Some(deadline);
            }
            return self.deadlines.set(deadline, Due::Operation(id));
        }
        let fault = Fault::system(sentence::late(self, &self.comms[&id], now.since(first_at)));
        // Where the operation is complete and only tied to one that is not, that one's communicator is the
        // culprit, and takes this one with it.
        let (culprit, ranks) =
            missed.into_iter().next().map_or((id, Vec::new()), |missed| (missed.comm, missed.ranks));
        self.fail_comm(now, culprit, FailureKind::CollectiveTimeout, fault, &ranks);
    }

    /// What keeps a communicator's oldest operation: itself, if ranks are missing from it; else the operations
    /// it is tied to that miss ranks.
    pub(crate) fn missed(&self, id: CommId) -> Vec<Missed> {
        let Some(comm) = self.comms.get(&id) else { return Vec::new() };
        let Some(front) = comm.slots.front() else { return Vec::new() };
        if !front.is_full() {
            return vec![Missed { comm: id, seq: SeqNo(comm.base), ranks: front.missing() }];
        }
        let mut closure = Closure::default();
        for (_, entry) in front.present() {
            self.extend_closure(entry.batch, &mut closure);
        }
        let missed = closure.slots.iter().filter_map(|&(comm, seq)| {
            let ranks = self.slot(comm, seq)?.missing();
            (!ranks.is_empty()).then_some(Missed { comm, seq, ranks })
        });
        missed.collect()
    }

    /// Whether there are missing ranks, and all of them compute.
    fn all_compute(&self, missed: &[Missed]) -> bool {
        let occupations = Occupations::of(self);
        let mut ranks = missed.iter().flat_map(|missed| missed.ranks.iter().map(|&rank| (missed.comm, rank)));
        !missed.is_empty()
            && ranks.all(|(comm, rank)| {
                self.comms.get(&comm).is_some_and(|comm| self.is_computing(&occupations, comm, rank))
            })
    }

    /// The first call of a submission that has not been released.
    pub(crate) fn call_of(&self, id: BatchId) -> Option<(CommId, Descriptor)> {
        let batch = self.batches.by_id.get(&id)?;
        batch.ops.iter().find_map(|&(comm, rank, seq)| {
            let entry = self.slot(comm, seq)?.entries[rank.index()]?;
            Some((comm, entry.descriptor))
        })
    }

    pub(crate) fn notice_due(&mut self, now: HostTime, id: CommId) {
        let again = now + self.options.notice_again;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let Some(slot) = comm.slots.front() else { return };
        let first_at = slot.first_at;
        let teller = slot.present().next().map(|(rank, _)| comm.members[rank.index()].session);
        comm.notice_at = Some(again);
        self.deadlines.set(again, Due::Notice(id));
        let text = sentence::waiting(self, &self.comms[&id], now.since(first_at));
        if let Some(peer) = teller.and_then(|session| self.peers.peer_of(session)) {
            self.reply(peer, 0, ToRank::Notice(text));
        }
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
        if comm.conflict_at.is_some() && comm.slots.iter().any(|slot| slot.conflict && slot.is_full()) {
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
        let Some(comm) = self.comms.get_mut(&id) else { return BTreeSet::new() };
        let starts: BTreeSet<BatchId> = comm
            .slots
            .iter()
            .flat_map(|slot| slot.entries.iter().flatten().map(|entry| entry.batch))
            .collect();
        let mut touched = BTreeSet::new();
        for start in starts {
            let closure = self.closure(start);
            touched.extend(closure.slots.iter().map(|(comm, _)| *comm));
            for batch in closure.batches {
                if let Some(batch) = self.batches.remove(batch) {
                    self.reply(batch.peer, batch.request, ToRank::Failed(fault.clone()));
                }
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
}

/// An operation that misses ranks.
#[derive(Debug)]
pub(crate) struct Missed {
    pub(crate) comm: CommId,
    pub(crate) seq: SeqNo,
    pub(crate) ranks: Vec<Rank>,
}

/// Batches tied to one another, and their operations.
#[derive(Debug, Default)]
struct Closure {
    batches: BTreeSet<BatchId>,
    slots: BTreeSet<(CommId, SeqNo)>,
}

impl Closure {
    fn comms(&self) -> BTreeSet<CommId> {
        self.slots.iter().map(|(comm, _)| *comm).collect()
    }
}

impl Comm {
    /// Whether this communicator is busy at `at` on any of `nodes`.
    fn overlaps(&self, at: VirtualTime, nodes: &[fakegpu_units::NodeIndex]) -> bool {
        self.busy_from <= at && at < self.busy_until && self.nodes.iter().any(|node| nodes.contains(node))
    }

    /// In how many pieces a rank's part of an operation is staged.
    fn chunks_of(&self, descriptor: &Descriptor) -> u64 {
        let size = u32::try_from(self.size()).unwrap_or(u32::MAX);
        let bytes = descriptor.block_bytes().saturating_mul(u64::from(descriptor.op.send_blocks(size)));
        bytes.div_ceil(u64::from(self.slot_bytes.max(1)))
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
