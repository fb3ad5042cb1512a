//! Communicators whose bytes are streamed: one thread each receives, folds and answers, chunk by chunk.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};

use fakegpu_executor::plan_of;
use fakegpu_proto::Descriptor;
use fakegpu_staging_shm::{RelayLane, engine};
use fakegpu_transport::Wire;
use fakegpu_units::{CommId, Rank};

use crate::worker::{Worker, Workers};

/// All streamed communicators.
#[derive(Debug)]
pub(crate) struct Relays {
    by_comm: BTreeMap<CommId, Relay>,
    workers: Workers,
    no_uring: bool,
}

/// One streamed communicator.
#[derive(Debug)]
enum Relay {
    /// Not all ranks' data connections stand.
    Gathering { wires: Vec<Option<Wire>>, slot_bytes: u32 },
    /// Its thread works, or has said why it does not.
    Running { work: Sender<Descriptor>, worker: Worker },
}

impl Relays {
    pub(crate) fn new(workers: Workers, no_uring: bool) -> Self {
        Self { by_comm: BTreeMap::new(), workers, no_uring }
    }

    /// Takes a rank's data connection; with the last one the communicator's thread starts.
    pub(crate) fn attach(&mut self, comm: CommId, rank: Rank, size: u32, slot_bytes: u32, wire: Wire) {
        let relay = self.by_comm.entry(comm).or_insert_with(|| {
            let wires = std::iter::repeat_with(|| None).take(size as usize).collect();
            Relay::Gathering { wires, slot_bytes }
        });
        let Relay::Gathering { wires, slot_bytes } = relay else { return };
        if let Some(place) = wires.get_mut(rank.index()) {
            *place = Some(wire);
        }
        if wires.iter().any(Option::is_none) {
            return;
        }
        let wires: Vec<Wire> = std::mem::take(wires).into_iter().flatten().collect();
        let slot_bytes = *slot_bytes as usize;
        let running = self.start(comm, wires, slot_bytes);
        self.by_comm.insert(comm, running);
    }

    fn start(&self, comm: CommId, wires: Vec<Wire>, slot_bytes: usize) -> Relay {
        let (work, orders) = channel();
        let no_uring = self.no_uring;
        let worker = self.workers.start(comm, move |cancelled| {
            let size = u32::try_from(wires.len()).unwrap_or(u32::MAX);
            let lane = RelayLane::new(wires, engine(no_uring), slot_bytes);
            relay(lane, size, &orders, slot_bytes, cancelled)
        });
        Relay::Running { work, worker }
    }

    /// Orders an operation; all ranks have called it.
    pub(crate) fn stream(&self, comm: CommId, descriptor: Descriptor) -> Result<(), String> {
        match self.by_comm.get(&comm) {
            Some(Relay::Running { work, .. }) => {
                work.send(descriptor).map_err(|_| "the relay has stopped".to_owned())
            }
            Some(Relay::Gathering { .. }) | None => Err("not all ranks' data connections stand".to_owned()),
        }
    }

    /// Ends a communicator's relay and closes its connections.
    pub(crate) fn detach(&mut self, comm: CommId) {
        if let Some(Relay::Running { worker, .. }) = self.by_comm.remove(&comm) {
            worker.cancel();
        }
    }

    pub(crate) fn detach_all(&mut self) {
        for comm in self.by_comm.keys().copied().collect::<Vec<_>>() {
            self.detach(comm);
        }
    }
}

fn relay(
    mut lane: RelayLane,
    size: u32,
    orders: &Receiver<Descriptor>,
    slot_bytes: usize,
    cancelled: &AtomicBool,
) -> Result<(), String> {
    while let Ok(descriptor) = orders.recv() {
        let (plan, reduction) = plan_of(&descriptor, size, slot_bytes).map_err(|error| error.to_string())?;
        lane.run(plan, reduction, cancelled).map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::tests::without_threads;

    #[test]
    fn a_relay_without_a_thread_fails_its_communicator_and_nobody_else() {
        let (workers, told, _poll) = without_threads();
        let mut relays = Relays::new(workers, true);
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let (one, other) = Wire::pair().unwrap();
            near.push(one);
            far.push(other);
        }
        for (rank, wire) in (0..).map(Rank).zip(near) {
            relays.attach(CommId(7), rank, 2, 4096, wire);
        }
        let failure = told.try_recv().unwrap();
        assert_eq!(failure.comm, CommId(7));
        assert!(failure.why.contains("could start no thread"), "{}", failure.why);
        let descriptor = Descriptor {
            op: fakegpu_units::Collective::AllGather,
            count: 1,
            data_type: fakegpu_units::DataType::Int8,
            reduce: None,
            root: None,
        };
        assert_eq!(relays.stream(CommId(7), descriptor), Err("the relay has stopped".to_owned()));
        relays.detach(CommId(7));
    }
}
