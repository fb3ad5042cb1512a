//! Communicators whose bytes are streamed: one thread each receives, folds and answers, chunk by chunk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use fakegpu_executor::plan_of;
use fakegpu_proto::Descriptor;
use fakegpu_staging_shm::{RelayLane, engine};
use fakegpu_transport::Wire;
use fakegpu_units::{CommId, Rank};
use mio::Waker;

/// A streamed communicator that could not go on.
#[derive(Debug)]
pub(crate) struct StreamFailure {
    pub(crate) comm: CommId,
    pub(crate) why: String,
}

/// All streamed communicators.
#[derive(Debug)]
pub(crate) struct Relays {
    by_comm: BTreeMap<CommId, Relay>,
    failures: Sender<StreamFailure>,
    waker: Arc<Waker>,
    no_uring: bool,
}

/// One streamed communicator.
#[derive(Debug)]
enum Relay {
    /// Not all ranks' data connections stand.
    Gathering { wires: Vec<Option<Wire>>, slot_bytes: u32 },
    /// Its thread works.
    Running { work: Sender<Descriptor>, cancelled: Arc<AtomicBool>, thread: JoinHandle<()> },
}

impl Relays {
    pub(crate) fn new(failures: Sender<StreamFailure>, waker: Arc<Waker>, no_uring: bool) -> Self {
        Self { by_comm: BTreeMap::new(), failures, waker, no_uring }
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
        let cancelled = Arc::new(AtomicBool::new(false));
        let (failures, waker, no_uring) = (self.failures.clone(), Arc::clone(&self.waker), self.no_uring);
        let watch = Arc::clone(&cancelled);
        let thread = std::thread::spawn(move || {
            let size = u32::try_from(wires.len()).unwrap_or(u32::MAX);
            let lane = RelayLane::new(wires, engine(no_uring), slot_bytes);
            if let Err(why) = relay(lane, size, &orders, slot_bytes, &watch)
                && !watch.load(Ordering::Acquire)
            {
                // Without a receiver the daemon is ending, and nobody is left to be told.
                failures.send(StreamFailure { comm, why }).unwrap_or_default();
                waker.wake().unwrap_or_default();
            }
        });
        Relay::Running { work, cancelled, thread }
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
        if let Some(Relay::Running { work, cancelled, thread }) = self.by_comm.remove(&comm) {
            cancelled.store(true, Ordering::Release);
            drop(work);
            // It looks at the flag at least every few milliseconds; waiting here would hold up everybody else.
            drop(thread);
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
