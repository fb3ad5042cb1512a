//! Barriers of a communicator: control only, no bytes. NCCL has none; scripts and launchers want them.

use fakegpu_proto::event::FailureKind;
use fakegpu_proto::{EventKind, Fault, ToRank};
use fakegpu_units::{CommId, HostTime, Rank, Ranks, VirtualSpan};

use crate::comm::Standing;
use crate::deadline::Due;
use crate::{Coordinator, PeerId};

/// The barrier that a communicator's ranks are at.
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    pub(crate) arrived: Vec<Option<Arrival>>,
    pub(crate) due_at: Option<HostTime>,
}

/// A rank at a barrier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) peer: PeerId,
    pub(crate) request: u64,
    pub(crate) at: HostTime,
}

impl Barrier {
    pub(crate) fn is_empty(&self) -> bool {
        self.arrived.iter().all(Option::is_none)
    }
}

impl Coordinator {
    pub(crate) fn barrier_message(
        &mut self,
        now: HostTime,
        peer: PeerId,
        request: u64,
        id: CommId,
        rank: Rank,
    ) {
        let checked = self.owned(peer, id, rank).and_then(|comm| match &comm.fault {
            Some(fault) => Err(fault.clone()),
            None if comm.barrier.arrived.get(rank.index()).is_some_and(Option::is_some) => {
                Err(Fault::usage(format!("rank {rank} is already at the barrier of communicator {id}")))
            }
            None => Ok(()),
        });
        if let Err(fault) = checked {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let timeout = self.timeout_of(id);
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let gone = comm.members.iter().position(|member| member.standing != Standing::Member);
        comm.barrier.arrived.resize(comm.members.len(), None);
        if comm.barrier.is_empty() {
            let at = now + timeout;
            comm.barrier.due_at = Some(at);
            self.deadlines.set(at, Due::Barrier(id));
        }
        comm.barrier.arrived[rank.index()] = Some(Arrival { peer, request, at: now });
        if let Some(gone) = gone {
            let fault = Fault::remote(format!(
                "rank {gone} has left communicator {id} and cannot come to its barrier"
            ));
            return self.fail_comm(now, id, FailureKind::RankLeft, fault, &[Rank::from_index(gone)]);
        }
        if comm.barrier.arrived.iter().all(Option::is_some) {
            self.barrier_complete(now, id);
        }
    }

    fn barrier_complete(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let barrier = std::mem::take(&mut comm.barrier);
        self.deadlines.clear(barrier.due_at, Due::Barrier(id));
        let arrivals: Vec<Arrival> = barrier.arrived.into_iter().flatten().collect();
        let waits = arrivals.iter().map(|arrival| now.since(arrival.at)).collect();
        for arrival in &arrivals {
            self.reply(arrival.peer, arrival.request, ToRank::Done);
        }
        self.event(now, EventKind::Barrier { comm: id, waits, bytes: 0, took: VirtualSpan::ZERO });
    }

    pub(crate) fn barrier_due(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get(&id) else { return };
        let missing: Vec<Rank> = (0..comm.size())
            .filter(|&rank| comm.barrier.arrived.get(rank).is_none_or(Option::is_none))
            .map(Rank::from_index)
            .collect();
        let fault = Fault::system(format!(
            "timeout: {} did not come to the barrier of communicator {id}",
            Ranks(&missing)
        ));
        self.fail_comm(now, id, FailureKind::CollectiveTimeout, fault, &missing);
    }
}
