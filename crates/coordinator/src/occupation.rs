//! What the job's ranks wait for in us. Ranks, not processes: one process may drive several, and one of them
//! waiting says nothing about the others.

use std::collections::BTreeMap;

use fakegpu_units::{CommId, GlobalRank, Rank};

use crate::Coordinator;
use crate::batches::BatchId;
use crate::comm::{Comm, Staging, Standing};

/// Something a rank waits in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Occupation {
    /// A call, or a group of calls.
    Calls(BatchId),
    /// The barrier of a communicator.
    Barrier(CommId),
    /// The making of a communicator that all have joined.
    Staging(CommId),
    /// A communicator that not all have joined.
    Joining,
    /// A smaller communicator that not all have asked for.
    Shrinking(CommId),
}

/// The ranks that wait, each with one thing that it waits in.
#[derive(Debug)]
pub(crate) struct Occupations(BTreeMap<GlobalRank, Occupation>);

impl Occupations {
    pub(crate) fn of(coordinator: &Coordinator) -> Self {
        let mut by_rank: BTreeMap<GlobalRank, Occupation> =
            coordinator.joining().map(|rank| (rank, Occupation::Joining)).collect();
        for comm in coordinator.comms.values() {
            by_rank.extend(comm.staging_ranks().map(|rank| (rank, Occupation::Staging(comm.id))));
            by_rank.extend(comm.shrinking_ranks().map(|rank| (rank, Occupation::Shrinking(comm.id))));
            by_rank.extend(comm.barrier_ranks().map(|rank| (rank, Occupation::Barrier(comm.id))));
        }
        for rank in coordinator.batches.ranks() {
            // A thread that goes on while its call is under way waits in nothing.
            let oldest = coordinator.batches.blocking(rank).min();
            by_rank.extend(oldest.map(|batch| (rank, Occupation::Calls(batch))));
        }
        Self(by_rank)
    }

    /// What a rank waits in; `None` where it is outside, computing perhaps.
    pub(crate) fn get(&self, rank: GlobalRank) -> Option<Occupation> {
        self.0.get(&rank).copied()
    }
}

impl Comm {
    fn barrier_ranks(&self) -> impl Iterator<Item = GlobalRank> {
        let arrived = self.barrier.arrived.iter().zip(&self.members);
        arrived.filter(|(arrival, _)| arrival.is_some()).map(|(_, member)| member.global)
    }

    fn shrinking_ranks(&self) -> impl Iterator<Item = GlobalRank> {
        let ranks = self.shrinking.iter().flat_map(|shrinking| shrinking.ranks());
        ranks.filter_map(|rank| Some(self.members.get(rank.index())?.global))
    }

    fn staging_ranks(&self) -> impl Iterator<Item = GlobalRank> {
        let told = match &self.staging {
            Staging::Mapping { told, .. } => told.as_slice(),
            Staging::Ready(_) => &[],
        };
        told.iter().zip(&self.members).filter(|(told, _)| told.is_some()).map(|(_, member)| member.global)
    }
}

impl Coordinator {
    /// Whether a member's process lives and the rank is not blocked in us.
    pub(crate) fn is_computing(&self, occupations: &Occupations, comm: &Comm, rank: Rank) -> bool {
        let member = &comm.members[rank.index()];
        member.standing == Standing::Member
            && self.peers.peer_of(member.session).is_some()
            && occupations.get(member.global).is_none()
    }
}
