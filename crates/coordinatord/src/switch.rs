//! Point-to-point bytes of streamed communicators: one thread a communicator passes chunks from rank to rank.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel};

use fakegpu_staging_shm::SwitchLane;
use fakegpu_transport::Wire;
use fakegpu_units::{CommId, Rank};

use crate::worker::{Worker, Workers};

/// All streamed communicators in which ranks have sent or received.
#[derive(Debug)]
pub(crate) struct Switches {
    by_comm: BTreeMap<CommId, Switch>,
    workers: Workers,
}

/// One communicator's switch, whose thread works from the first rank on.
#[derive(Debug)]
struct Switch {
    arrivals: Sender<(Rank, Wire)>,
    worker: Worker,
}

impl Switches {
    pub(crate) fn new(workers: Workers) -> Self {
        Self { by_comm: BTreeMap::new(), workers }
    }

    /// Takes a rank's data connection.
    pub(crate) fn attach(&mut self, comm: CommId, rank: Rank, size: u32, slot_bytes: u32, wire: Wire) {
        let workers = &self.workers;
        let switch =
            self.by_comm.entry(comm).or_insert_with(|| Switch::start(workers, comm, size, slot_bytes));
        // A thread that has ended said why it did; the rank learns it from the coordinator.
        switch.arrivals.send((rank, wire)).unwrap_or_default();
    }

    /// Ends a communicator's switch and closes its connections.
    pub(crate) fn detach(&mut self, comm: CommId) {
        if let Some(switch) = self.by_comm.remove(&comm) {
            switch.worker.cancel();
        }
    }

    pub(crate) fn detach_all(&mut self) {
        for switch in std::mem::take(&mut self.by_comm).into_values() {
            switch.worker.cancel();
        }
    }
}

impl Switch {
    fn start(workers: &Workers, comm: CommId, size: u32, slot_bytes: u32) -> Self {
        let (arrivals, incoming) = channel();
        let worker = workers.start(comm, move |cancelled| {
            let mut lane = SwitchLane::new(size, slot_bytes as usize);
            lane.run(&incoming, cancelled).map_err(|error| error.to_string())
        });
        Self { arrivals, worker }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::tests::without_threads;

    #[test]
    fn a_switch_without_a_thread_fails_its_communicator_once() {
        let (workers, told, _poll) = without_threads();
        let mut switches = Switches::new(workers);
        for rank in [0, 1] {
            let (near, _far) = Wire::pair().unwrap();
            switches.attach(CommId(7), Rank(rank), 2, 4096, near);
        }
        assert_eq!(told.try_iter().map(|failure| failure.comm).collect::<Vec<_>>(), [CommId(7)]);
        switches.detach(CommId(7));
    }
}
