//! What must hold after every event, each with a name that a failing seed prints.

use std::collections::BTreeMap;

use fakegpu_proto::{Event, EventKind};
use fakegpu_units::{CommId, GlobalRank, HostTime, Rank, VirtualTime};

/// Watches a cluster from outside: it counts for itself what ranks submitted.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    last_at: HostTime,
    submitted: BTreeMap<(CommId, Rank), u64>,
    run: BTreeMap<CommId, u64>,
    members: BTreeMap<CommId, Vec<GlobalRank>>,
    clocks: BTreeMap<GlobalRank, VirtualTime>,
    failed: BTreeMap<CommId, String>,
    answered: BTreeMap<(usize, u64), ()>,
}

impl Invariants {
    /// A rank's submission has reached the coordinator.
    pub(crate) fn submission(&mut self, comm: CommId, rank: Rank, count: u64) {
        *self.submitted.entry((comm, rank)).or_default() += count;
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
