//! Point-to-point bytes of streamed communicators: one thread a communicator passes chunks from rank to rank.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};

use fakegpu_staging_shm::SwitchLane;
use fakegpu_transport::Wire;
use fakegpu_units::{CommId, Rank};
use mio::Waker;

use crate::relay::StreamFailure;

/// All streamed communicators in which ranks have sent or received.
#[derive(Debug)]
pub(crate) struct Switches {
    by_comm: BTreeMap<CommId, Switch>,
    failures: Sender<StreamFailure>,
    waker: Arc<Waker>,
}

/// One communicator's switch, whose thread works from the first rank on.
#[derive(Debug)]
struct Switch {
    arrivals: Sender<(Rank, Wire)>,
    cancelled: Arc<AtomicBool>,
}

impl Switches {
    pub(crate) fn new(failures: Sender<StreamFailure>, waker: Arc<Waker>) -> Self {
        Self { by_comm: BTreeMap::new(), failures, waker }
    }

    /// Takes a rank's data connection.
    pub(crate) fn attach(&mut self, comm: CommId, rank: Rank, size: u32, slot_bytes: u32, wire: Wire) {
        let (failures, waker) = (&self.failures, &self.waker);
        let switch = self
            .by_comm
            .entry(comm)
            .or_insert_with(|| Switch::start(comm, size, slot_bytes, failures.clone(), Arc::clone(waker)));
        // A thread that has ended said why it did; the rank learns it from the coordinator.
        switch.arrivals.send((rank, wire)).unwrap_or_default();
    }

    /// Ends a communicator's switch and closes its connections.
    pub(crate) fn detach(&mut self, comm: CommId) {
        if let Some(switch) = self.by_comm.remove(&comm) {
            switch.cancelled.store(true, Ordering::Release);
        }
    }

    pub(crate) fn detach_all(&mut self) {
        for switch in std::mem::take(&mut self.by_comm).into_values() {
            switch.cancelled.store(true, Ordering::Release);
        }
    }
}

impl Switch {
    fn start(
        comm: CommId,
        size: u32,
        slot_bytes: u32,
        failures: Sender<StreamFailure>,
        waker: Arc<Waker>,
    ) -> Self {
        let (arrivals, incoming) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let watch = Arc::clone(&cancelled);
        // It looks at the flag at least every few milliseconds, so nobody waits for its end.
        std::thread::spawn(move || {
            let mut lane = SwitchLane::new(size, slot_bytes as usize);
            if let Err(error) = lane.run(&incoming, &watch)
                && !watch.load(Ordering::Acquire)
            {
                // Without a receiver the daemon is ending, and nobody is left to be told.
                failures.send(StreamFailure { comm, why: error.to_string() }).unwrap_or_default();
                waker.wake().unwrap_or_default();
            }
        });
        Self { arrivals, cancelled }
    }
}
