//! What must hold after every event, each with a name that a failing seed prints.

use std::collections::BTreeMap;

use fakegpu_proto::{Action, Direction, Event, EventKind};
use fakegpu_units::{Collective, CommId, GlobalRank, HostTime, Rank, VirtualTime};

/// Watches a cluster from outside: it counts for itself what ranks submitted.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    last_at: HostTime,
    submitted: BTreeMap<(CommId, Rank), u64>,
    /// Sends and receives by (communicator, source, destination), which no operation has used yet.
    sends: BTreeMap<(CommId, Rank, Rank), u64>,
    recvs: BTreeMap<(CommId, Rank, Rank), u64>,
    run: BTreeMap<CommId, u64>,
    members: BTreeMap<CommId, Vec<GlobalRank>>,
    clocks: BTreeMap<GlobalRank, VirtualTime>,
    failed: BTreeMap<CommId, String>,
    answered: BTreeMap<(usize, u64), ()>,
}

impl Invariants {
    /// A rank's submission has reached the coordinator.
    pub(crate) fn submission(&mut self, comm: CommId, rank: Rank, action: &Action) {
        let is_operation = match action {
            Action::Collective(_) => true,
            // Of an operation's parts every rank has exactly one of this kind.
            Action::Transfer(transfer) => match (transfer.of, transfer.direction) {
                (Some(Collective::Gather), Direction::Send)
                | (Some(Collective::Scatter), Direction::Recv) => true,
                (Some(Collective::AllToAll), Direction::Send) => transfer.peer == Rank(0),
                _ => false,
            },
            _ => false,
        };
        *self.submitted.entry((comm, rank)).or_default() += u64::from(is_operation);
        if let Action::Transfer(transfer) = action
            && transfer.of.is_none()
        {
            let side = match transfer.direction {
                Direction::Send => self.sends.entry((comm, rank, transfer.peer)),
                Direction::Recv => self.recvs.entry((comm, transfer.peer, rank)),
            };
            *side.or_default() += 1;
        }
    }

    /// A request was answered for good.
    pub(crate) fn answer(&mut self, rank: usize, request: u64) {
        let again = self.answered.insert((rank, request), ()).is_some();
        assert!(!again, "invariant_a_request_is_answered_once: rank {rank} request {request}");
    }

    pub(crate) fn event(&mut self, event: &Event) {
        assert!(event.at >= self.last_at, "invariant_time_is_monotonic: {event:?}");
        self.last_at = event.at;
        match &event.kind {
            EventKind::CommCreated { comm, members, .. } => {
                self.invariant_global_ranks_are_distinct(members);
                self.members.insert(*comm, members.clone());
            }
            EventKind::Operation { comm, seq, start, estimate, .. } => {
                assert!(
                    !self.failed.contains_key(comm),
                    "invariant_a_failed_communicator_runs_nothing: {event:?}"
                );
                self.invariant_no_rank_leaves_a_collective_early(*comm, seq.0);
                self.invariant_virtual_time_is_monotonic(*comm, *start, *start + estimate.total());
            }
            EventKind::Transfer { comm, src, dst, .. } => {
                for sides in [&mut self.sends, &mut self.recvs] {
                    let left = sides.entry((*comm, *src, *dst)).or_default();
                    assert!(*left > 0, "invariant_a_transfer_has_two_sides: {event:?}");
                    *left -= 1;
                }
            }
            EventKind::Failure { comm: Some(comm), detail, .. } => {
                assert!(!detail.is_empty(), "invariant_failures_say_why: {event:?}");
                let again = self.failed.insert(*comm, detail.clone());
                assert_eq!(again, None, "invariant_a_communicator_fails_once: {event:?}");
            }
            _ => {}
        }
    }

    fn invariant_global_ranks_are_distinct(&self, members: &[GlobalRank]) {
        let mut sorted = members.to_vec();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), members.len(), "invariant_global_ranks_are_distinct: {members:?}");
    }

    fn invariant_no_rank_leaves_a_collective_early(&mut self, comm: CommId, seq: u64) {
        let run = self.run.entry(comm).or_default();
        assert_eq!(*run, seq, "invariant_operations_run_in_order: communicator {comm}");
        *run += 1;
        for rank in 0..self.members[&comm].len() {
            let submitted = self.submitted.get(&(comm, Rank::from_index(rank))).copied().unwrap_or(0);
            assert!(
                submitted > seq,
                "invariant_no_rank_leaves_a_collective_early: rank {rank} submitted {submitted}, operation {seq} ran"
            );
        }
    }

    fn invariant_virtual_time_is_monotonic(&mut self, comm: CommId, start: VirtualTime, end: VirtualTime) {
        for rank in &self.members[&comm] {
            let clock = self.clocks.entry(*rank).or_default();
            assert!(start >= *clock && end >= start, "invariant_virtual_time_is_monotonic: rank {rank}");
            *clock = end;
        }
    }
}
