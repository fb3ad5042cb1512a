//! What happens when an operation is released: it leaves its queue, is booked on the members' virtual clocks, and
//! becomes an event.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use fakegpu_proto::{Action, Descriptor, Direction, Estimate, EventKind, StagingKind};
use fakegpu_units::{
    Collective, CommId, GlobalRank, HostSpan, HostTime, NodeIndex, Rank, SeqNo, VirtualSpan, VirtualTime,
};

use crate::batches::BatchId;
use crate::comm::{Comm, Slot, Staging, Standing};
use crate::options::TransferWork;
use crate::pairs::{Ends, Half};
use crate::{Coordinator, Errand, PeerId, Work};

/// A pair that was released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Released {
    comm: CommId,
    ends: Ends,
    send: Half,
    recv: Half,
}

impl Coordinator {
    /// The oldest operation in a communicator's order runs.
    pub(crate) fn run_front(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let seq = SeqNo(comm.ran);
        let Some(slot) = comm.retire(now) else { return };
        self.note_crossing(now, id, &slot);
        match slot.action() {
            Some(Action::Collective(descriptor)) => self.run_collective(now, id, seq, &slot, descriptor),
            Some(Action::Split(_)) => self.split_complete(now, id, slot),
            Some(Action::Window(_)) => self.window_complete(id, slot),
            Some(Action::Agree { .. }) => self.agreement_complete(slot),
            Some(Action::Transfer(_) | Action::Put { .. } | Action::Await(_)) | None => {}
        }
    }

    /// The oldest all-to-all that all called by name runs.
    pub(crate) fn run_exchange(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let seq = SeqNo(comm.ran);
        let Some(slot) = comm.retire_exchange(now) else { return };
        if let Some(Action::Collective(descriptor)) = slot.action() {
            self.run_collective(now, id, seq, &slot, descriptor);
        }
    }

    fn run_collective(&mut self, now: HostTime, id: CommId, seq: SeqNo, slot: &Slot, descriptor: Descriptor) {
        for entry in slot.entries.iter().flatten() {
            self.mark_released(now, entry.batch, entry.index);
        }
        let waits = slot.entries.iter().flatten().map(|entry| now.since(entry.at)).collect();
        let took = self.collective_event(now, id, seq, descriptor, waits);
        // Once a batch, also where it holds the calls of several ranks.
        let batches: BTreeSet<BatchId> = slot.entries.iter().flatten().map(|entry| entry.batch).collect();
        for id in batches {
            if let Some(batch) = self.batches.by_id.get_mut(&id) {
                batch.modelled += took;
            }
        }
        let streamed = self
            .comms
            .get(&id)
            .is_some_and(|comm| matches!(comm.staging, Staging::Ready(StagingKind::Streamed)));
        if streamed {
            self.errand(Errand::Stream { comm: id, seq, descriptor });
        }
    }

    fn collective_event(
        &mut self,
        now: HostTime,
        id: CommId,
        seq: SeqNo,
        descriptor: Descriptor,
        waits: Vec<HostSpan>,
    ) -> VirtualSpan {
        let (start, estimate) = self.book(id, &descriptor);
        let took = estimate.total();
        if self.is_barrier(id, &descriptor) {
            let bytes = descriptor.block_bytes();
            self.operations += 1;
            self.event(now, EventKind::Barrier { comm: id, waits, bytes, took });
            return took;
        }
        let (size, chunks) =
            self.comms.get(&id).map_or((0, 0), |comm| (comm.size(), comm.chunks_of(&descriptor)));
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.operations += 1;
        self.event(
            now,
            EventKind::Operation { comm: id, seq, descriptor, size, waits, start, estimate, chunks },
        );
        took
    }

    /// A rank's next all-reduce is a barrier.
    pub(crate) fn mark(&mut self, peer: PeerId, id: CommId, rank: Rank) {
        if self.owned(peer, id, rank).is_ok()
            && let Some(comm) = self.comms.get_mut(&id)
        {
            comm.marked.insert(rank);
        }
    }

    /// Whether an operation that runs is one that its ranks called as a barrier.
    fn is_barrier(&mut self, id: CommId, descriptor: &Descriptor) -> bool {
        let Some(comm) = self.comms.get_mut(&id) else { return false };
        let all = comm.marked.len() == comm.size();
        descriptor.op == Collective::AllReduce && all && {
            comm.marked.clear();
            true
        }
    }

    /// The modelled time at which a rank's last operation ended.
    pub(crate) fn clock(&self, rank: GlobalRank) -> VirtualTime {
        self.clocks.get(&rank).copied().unwrap_or_default()
    }

    /// How many operations of other communicators run at a modelled time on the same nodes.
    fn concurrent(&self, id: CommId, at: VirtualTime, nodes: &[NodeIndex]) -> u32 {
        let others = self.comms.values().filter(|other| other.id != id && other.overlaps(at, nodes));
        u32::try_from(others.count()).unwrap_or(u32::MAX)
    }

    /// Advances the members' virtual clocks over an operation.
    fn book(&mut self, id: CommId, descriptor: &Descriptor) -> (VirtualTime, Estimate) {
        let Some(comm) = self.comms.get(&id) else { return (VirtualTime::ZERO, Estimate::default()) };
        let start = comm.members.iter().map(|member| self.clock(member.global)).max().unwrap_or_default();
        let concurrent = self.concurrent(id, start, &comm.nodes);
        let estimate = self.cost.0.estimate(&Work { descriptor, nodes: &comm.nodes, concurrent });
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

    /// Takes a matched pair out of its queue.
    pub(crate) fn take_pair(
        &mut self,
        now: HostTime,
        id: CommId,
        ends: Ends,
        number: u64,
    ) -> Option<Released> {
        let comm = self.comms.get_mut(&id)?;
        let pair = comm.pairs.take(now, ends, number)?;
        Some(Released { comm: id, ends, send: pair.send?, recv: pair.recv? })
    }

    /// Books pairs that were released together, on the clocks of their ranks alone.
    pub(crate) fn book_transfers(&mut self, now: HostTime, pairs: &[Released]) {
        let mut plain = Vec::new();
        for pair in pairs {
            self.mark_released(now, pair.send.batch, pair.send.index);
            self.mark_released(now, pair.recv.batch, pair.recv.index);
            match pair.send.transfer.of.filter(|_| pair.send.transfer.of == pair.recv.transfer.of) {
                Some(of) => self.named_part(now, *pair, of),
                None => plain.push(*pair),
            }
        }
        self.book_plain(now, &plain);
    }

    /// Books pairs that are operations of their own.
    pub(crate) fn book_plain(&mut self, now: HostTime, plain: &[Released]) {
        if plain.is_empty() {
            return;
        }
        let works: Vec<TransferWork> = plain.iter().filter_map(|pair| self.transfer_work(pair)).collect();
        let starts: Vec<VirtualTime> =
            works.iter().map(|work| self.clock(work.from).max(self.clock(work.to))).collect();
        let (at, nodes) = (
            starts.iter().copied().max().unwrap_or_default(),
            works.iter().flat_map(|work| [work.src, work.dst]).collect::<Vec<_>>(),
        );
        let concurrent = plain.first().map_or(0, |pair| self.concurrent(pair.comm, at, &nodes));
        let estimates = self.cost.0.transfers(&works, concurrent);
        for (work, (start, estimate)) in works.iter().zip(starts.iter().zip(&estimates)) {
            let end = *start + estimate.total();
            for rank in [work.from, work.to] {
                let clock = self.clock(rank).max(end);
                self.clocks.insert(rank, clock);
            }
        }
        for (pair, (start, estimate)) in plain.iter().zip(starts.into_iter().zip(estimates)) {
            for batch in [pair.send.batch, pair.recv.batch] {
                if let Some(batch) = self.batches.by_id.get_mut(&batch) {
                    batch.modelled = batch.modelled.max(estimate.total());
                }
            }
            self.operations += 1;
            let chunks = self.comms.get_mut(&pair.comm).map_or(0, |comm| {
                comm.transfers += 1;
                pair.send.transfer.bytes().div_ceil(u64::from(comm.slot_bytes.max(1)))
            });
            let kind = EventKind::Transfer {
                comm: pair.comm,
                src: pair.ends.src,
                dst: pair.ends.dst,
                transfer: pair.send.transfer,
                send_wait: now.since(pair.send.at),
                recv_wait: now.since(pair.recv.at),
                start,
                estimate,
                chunks,
            };
            self.event(now, kind);
        }
    }

    fn transfer_work(&self, pair: &Released) -> Option<TransferWork> {
        let comm = self.comms.get(&pair.comm)?;
        Some(comm.transfer_work(pair.ends, pair.send.transfer.bytes()))
    }

    /// A part of an operation that both ranks called by its name: the whole is booked once, with the last part of
    /// its root. Of an all-to-all every rank is the root of what it receives, and rank 0 books.
    fn named_part(&mut self, now: HostTime, pair: Released, of: Collective) {
        let side = if of == Collective::Scatter { pair.send } else { pair.recv };
        let same = |other: &Released| {
            let (one, two) = (other.send.transfer, pair.send.transfer);
            other.comm == pair.comm
                && one.of == two.of
                && (one.count, one.data_type) == (two.count, two.data_type)
        };
        let Some(size) = self.comms.get(&pair.comm).map(Comm::size) else { return };
        let Some(batch) = self.batches.by_id.get_mut(&side.batch) else { return };
        batch.parts.push(pair);
        if batch.parts.iter().filter(|other| same(other)).count() < size {
            return;
        }
        batch.parts.retain(|other| !same(other));
        if of == Collective::AllToAll && pair.ends.dst != Rank(0) {
            return;
        }
        let root = if of == Collective::Scatter { pair.ends.src } else { pair.ends.dst };
        let transfer = pair.send.transfer;
        let descriptor = Descriptor {
            op: of,
            count: transfer.count,
            data_type: transfer.data_type,
            reduce: None,
            root: of.has_root().then_some(root),
        };
        let Some(comm) = self.comms.get_mut(&pair.comm) else { return };
        let seq = SeqNo(comm.ran);
        comm.remember(Some(descriptor.into()));
        self.collective_event(now, pair.comm, seq, descriptor, vec![HostSpan::default(); size]);
    }

    /// A rank's wait for signals is over.
    pub(crate) fn run_await(&mut self, now: HostTime, id: CommId, rank: Rank, number: u64) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if let Some(waiting) = comm.signals.take(now, rank, number) {
            self.mark_released(now, waiting.batch, waiting.index);
        }
    }

    /// A rank signals a peer.
    pub(crate) fn signal(&mut self, now: HostTime, id: CommId, rank: Rank, peer: Rank) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.fault.is_some() || peer.index() >= comm.size() {
            return;
        }
        comm.signals.signal(peer, rank);
        let waiting = comm.signals.iter().find(|(to, ..)| *to == peer).map(|(_, _, waiting)| waiting.batch);
        if let Some(batch) = waiting {
            self.release(now, batch);
        }
    }

    /// Books bytes that a rank writes into a peer's window.
    pub(crate) fn book_put(&mut self, now: HostTime, id: CommId, src: Rank, dst: Rank, bytes: u64) {
        let Some(comm) = self.comms.get(&id) else { return };
        let work = comm.transfer_work(Ends { src, dst }, bytes);
        let start = self.clock(work.from);
        let estimate = self.cost.0.transfers(&[work], 0).into_iter().next().unwrap_or_default();
        self.clocks.insert(work.from, start + estimate.total());
        self.operations += 1;
        self.event(now, EventKind::Put { comm: id, src, dst, bytes, start, estimate });
    }

    /// What operations of one rank would cost, were all ranks to call them now, one after the other.
    pub(crate) fn predict(&self, ops: &[(CommId, Rank, Action)]) -> VirtualSpan {
        let (mut total, mut works) = (VirtualSpan::ZERO, Vec::new());
        for (id, rank, action) in ops {
            let Some(comm) = self.comms.get(id) else { continue };
            match action {
                Action::Collective(descriptor) => {
                    let work = Work { descriptor, nodes: &comm.nodes, concurrent: 0 };
                    total += self.cost.0.estimate(&work).total();
                }
                Action::Transfer(transfer) if transfer.peer.index() < comm.size() => {
                    works.push(comm.transfer_work(Ends::of(*rank, transfer), transfer.bytes()));
                }
                _ => {}
            }
        }
        // Transfers of a group run side by side.
        let longest = self.cost.0.transfers(&works, 0).iter().map(Estimate::total).max();
        total + longest.unwrap_or_default()
    }

    /// Another communicator with the same ranks, some of which called it before this operation, and some after
    /// it: NCCL may hang on that.
    fn note_crossing(&mut self, now: HostTime, id: CommId, slot: &Slot) {
        let Some(comm) = self.comms.get(&id) else { return };
        if self.comms.len() < 2 {
            return;
        }
        let ours: BTreeMap<GlobalRank, BatchId> =
            slot.present().map(|(rank, entry)| (comm.members[rank.index()].global, entry.batch)).collect();
        let mut others = self.comms.values().filter(|other| {
            other.id != id && comm.crossings.is_news(other.id) && other.crossings.is_news(id)
        });
        let Some(other) = others.find(|other| other.is_crossed_by(&ours)).map(|other| other.id) else {
            return;
        };
        for (one, two) in [(id, other), (other, id)] {
            if let Some(comm) = self.comms.get_mut(&one) {
                comm.crossings.tell(two);
            }
        }
        let detail = format!(
            "communicators {id} and {other} share ranks, which call them concurrently in different orders: on real GPUs this can hang, \
             unless every rank calls them in one order (or each runs where the others' kernels cannot block it)"
        );
        self.event(now, EventKind::Hazard { comm: id, detail });
    }
}

impl Comm {
    /// Whether some ranks of another communicator's operation called our oldest one before it, and some after it.
    /// Who has not called ours will call it after; who calls both in one group has no order.
    fn is_crossed_by(&self, ours: &BTreeMap<GlobalRank, BatchId>) -> bool {
        let Some(front) = self.order.slots.front() else { return false };
        let (mut before, mut after) = (false, false);
        for (entry, member) in front.entries.iter().zip(&self.members) {
            let shared = ours.get(&member.global).filter(|_| member.standing == Standing::Member);
            let Some(batch) = shared else { continue };
            match entry.as_ref().map(|entry| entry.batch.cmp(batch)) {
                Some(Ordering::Less) => before = true,
                Some(Ordering::Equal) => {}
                Some(Ordering::Greater) | None => after = true,
            }
        }
        before && after
    }

    /// Whether this communicator is busy at `at` on any of `nodes`.
    fn overlaps(&self, at: VirtualTime, nodes: &[NodeIndex]) -> bool {
        self.busy_from <= at && at < self.busy_until && self.nodes.iter().any(|node| nodes.contains(node))
    }

    /// In how many pieces a rank's part of an operation is staged.
    fn chunks_of(&self, descriptor: &Descriptor) -> u64 {
        let size = u32::try_from(self.size()).unwrap_or(u32::MAX);
        let bytes = descriptor.block_bytes().saturating_mul(u64::from(descriptor.op.send_blocks(size)));
        bytes.div_ceil(u64::from(self.slot_bytes.max(1)))
    }

    fn transfer_work(&self, ends: Ends, bytes: u64) -> TransferWork {
        let at = |rank: Rank| (self.nodes[rank.index()], self.members[rank.index()].global);
        let ((src, from), (dst, to)) = (at(ends.src), at(ends.dst));
        TransferWork { src, dst, from, to, bytes }
    }
}

/// The side of a pair that misses its other one, and what the other is to call.
pub(crate) const fn wanted(direction: Direction) -> &'static str {
    match direction {
        Direction::Send => "ncclRecv",
        Direction::Recv => "ncclSend",
    }
}
