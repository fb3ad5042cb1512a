//! The job at one moment, for people who look at it while it runs.

use fakegpu_proto::{CommView, RankHistory, RankView, Snapshot, StagingKind};
use fakegpu_units::{GlobalRank, HostTime, Rank, SeqNo};

use crate::Coordinator;
use crate::comm::{Comm, Staging, Standing};
use crate::occupation::Occupations;
use crate::sentence;

/// Ranks whose history goes with a failure, at most.
const HISTORIES_MAX: usize = 16;

impl Coordinator {
    /// Who waits for whom.
    pub(crate) fn snapshot(&self, now: HostTime) -> Snapshot {
        let occupations = Occupations::of(self);
        let ranks = self.world.ranks().map(|rank| self.rank_view(now, &occupations, rank)).collect();
        let communicators = self.comms.values().map(|comm| self.comm_view(comm)).collect();
        Snapshot { at_ms: now.since(HostTime::ZERO).as_nanos() / 1_000_000, ranks, communicators }
    }

    fn rank_view(&self, now: HostTime, occupations: &Occupations, rank: GlobalRank) -> RankView {
        let placed = self.world.placed(rank);
        let session = placed
            .and_then(|placed| self.peers.peer_of(placed.session))
            .and_then(|peer| self.peers.session(peer));
        let record = self.recorder.get(rank);
        let since = self.batches.of_rank(rank).filter_map(|id| Some(self.batches.by_id.get(&id)?.at)).min();
        let mut waits_for: Vec<GlobalRank> =
            self.batches.of_rank(rank).flat_map(|id| self.links(id)).map(|link| link.for_global).collect();
        waits_for.sort_unstable();
        waits_for.dedup();
        RankView {
            rank,
            pid: session.map_or(0, |session| session.hello.pid),
            program: session.map_or_else(String::new, |session| session.hello.program.clone()),
            node: placed.map_or_else(String::new, |placed| self.world.node_name(placed.node).to_owned()),
            doing: self.doing(occupations, rank),
            waiting_ms: since.map(|since| now.since(since).as_nanos() / 1_000_000),
            waits_for,
            calls: record.map_or(0, |record| record.calls),
            recent: record.map_or_else(Vec::new, crate::recorder::Record::recent),
        }
    }

    /// What a rank does, in words.
    fn doing(&self, occupations: &Occupations, rank: GlobalRank) -> String {
        match occupations.get(rank) {
            Some(occupation) => sentence::waits_in(self, occupation),
            None if self.world.placed(rank).is_none() => "gone".to_owned(),
            None => sentence::outside(self, rank),
        }
    }

    fn comm_view(&self, comm: &Comm) -> CommView {
        let staging = match &comm.staging {
            Staging::Mapping { .. } => "making",
            Staging::Ready(StagingKind::Shared) => "shared",
            Staging::Ready(StagingKind::Streamed) => "streamed",
            Staging::Ready(StagingKind::Off) => "off",
        };
        let oldest = self.longest(comm.id).map(|(_, key)| key);
        let misses = oldest.map_or_else(Vec::new, |key| self.missing(key));
        let call = oldest.and_then(|key| {
            let callers = (0..comm.size()).map(Rank::from_index);
            callers.filter(|rank| !misses.contains(rank)).find_map(|rank| self.call_at(key, rank))
        });
        CommView {
            comm: comm.id,
            name: comm.name.clone(),
            members: comm.members.iter().map(|member| member.global).collect(),
            staging: staging.to_owned(),
            next: SeqNo(comm.ran),
            pending: comm.keys().len() as u64,
            oldest: call,
            misses,
            fault: comm.fault.as_ref().map(|fault| fault.detail.clone()),
        }
    }

    /// What a communicator's members did before it failed, the culprits first.
    pub(crate) fn histories(&self, comm: &Comm, culprits: &[Rank]) -> Vec<RankHistory> {
        let occupations = Occupations::of(self);
        let others = (0..comm.size()).map(Rank::from_index).filter(|rank| !culprits.contains(rank));
        let members =
            culprits.iter().copied().chain(others).filter_map(|rank| comm.members.get(rank.index()));
        members
            .take(HISTORIES_MAX)
            .map(|member| {
                let doing = match member.standing {
                    Standing::Dead => "died".to_owned(),
                    Standing::Left => "had left".to_owned(),
                    Standing::Member => self.doing(&occupations, member.global),
                };
                match self.recorder.get(member.global) {
                    Some(record) => record.history(member.global, doing),
                    None => RankHistory { rank: member.global, doing, ..RankHistory::default() },
                }
            })
            .collect()
    }
}
