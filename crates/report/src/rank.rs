//! What is known of one rank.

use fakegpu_units::{GlobalRank, HostSpan, NodeIndex, SessionId, VirtualSpan, VirtualTime};

use crate::model::{RankEntry, RankTimes};

/// One rank's place and sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankState {
    pub(crate) node: Option<NodeIndex>,
    pub(crate) device: u32,
    pub(crate) session: Option<SessionId>,
    pub(crate) pid: Option<u32>,
    pub(crate) waited: HostSpan,
    pub(crate) longest_barrier_wait: HostSpan,
    pub(crate) longest_wait: HostSpan,
    pub(crate) join_wait: HostSpan,
    pub(crate) timeouts: u64,
    pub(crate) aborts: u64,
    pub(crate) inits: u64,
    pub(crate) collectives: u64,
    pub(crate) point_to_point: u64,
    pub(crate) barriers: u64,
    pub(crate) died: bool,
    /// A communicator of its failed, and it has made none since.
    pub(crate) unrecovered: bool,
    end: VirtualTime,
    communication: VirtualSpan,
}

impl RankState {
    pub(crate) fn wait(&mut self, wait: HostSpan) {
        self.waited += wait;
        self.longest_wait = self.longest_wait.max(wait);
    }

    pub(crate) fn run(&mut self, start: VirtualTime, cost: VirtualSpan) {
        // The operations of a group run side by side: what they share is counted once.
        self.communication += (start + cost).since(self.end.max(start));
        self.end = self.end.max(start + cost);
    }

    pub(crate) fn end(&self) -> VirtualTime {
        self.end
    }

    pub(crate) fn entry(&self, rank: GlobalRank, node: String) -> RankEntry {
        RankEntry {
            rank,
            node,
            local_device: self.device,
            pid: self.pid,
            wait_time_ms: self.waited.as_millis_f64(),
            longest_barrier_wait_ms: self.longest_barrier_wait.as_millis_f64(),
            longest_wait_ms: self.longest_wait.as_millis_f64(),
            timeouts: self.timeouts,
            aborts: self.aborts,
            communicator_inits: self.inits,
            collective_calls: self.collectives,
            point_to_point_calls: self.point_to_point,
            barrier_calls: self.barriers,
            join_wait_ms: self.join_wait.as_millis_f64(),
            died: self.died,
        }
    }

    pub(crate) fn times(&self, rank: GlobalRank) -> RankTimes {
        let end = self.end.since(VirtualTime::ZERO);
        RankTimes {
            rank,
            end_us: end.as_micros_f64(),
            communication_us: self.communication.as_micros_f64(),
            other_us: (end - self.communication).as_micros_f64(),
        }
    }
}
