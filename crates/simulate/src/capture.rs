//! NCCL calls in a CUDA graph: written down when they are called, and made anew, with the same arguments, for every launch.
//!
//! A launch submits when the program launches, not when its turn on the stream comes: so operations have the order of the
//! program's calls on every rank, whether they come from a graph or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fakegpu_proto::{Fault, STREAM};

use crate::engine::Engine;
use crate::operation::Prepared;
use crate::streams::{Remake, Stream, StreamWork, Turn};
use crate::submission::submit;

/// The bit that no number of a real stream has: what is launched by graphs stands behind nothing that the coordinator
/// could know of.
const OF_A_GRAPH: u64 = 1 << 62;

/// Calls that go together, of one session.
#[derive(Debug)]
pub(crate) struct Recipe {
    engine: Arc<Engine>,
    operations: Mutex<Vec<Prepared>>,
    lane: u64,
    launches: Mutex<Launches>,
}

#[derive(Debug, Default)]
struct Launches {
    /// How many each stream's node has had.
    counts: BTreeMap<Stream, u64>,
    /// Work of a launch that its other nodes have yet to fetch.
    open: BTreeMap<u64, BTreeMap<Stream, Box<dyn StreamWork>>>,
}

/// What a stream that captures is to hold.
pub(crate) type Written = (Stream, Box<dyn Remake>);

/// A recipe's node on one stream.
#[derive(Debug)]
struct Node {
    recipe: Arc<Recipe>,
    stream: Stream,
}

/// Work that could not be submitted.
#[derive(Debug)]
struct Refused(Fault);

impl Recipe {
    /// The nodes that a capture has to hold for these operations.
    ///
    /// # Errors
    /// Where one of them cannot be done twice.
    pub(crate) fn nodes(engine: &Arc<Engine>, operations: Vec<Prepared>) -> Result<Vec<Written>, Fault> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        copies(&operations)?;
        let streams: BTreeSet<Stream> = operations.iter().filter_map(|prepared| prepared.stream).collect();
        let recipe = Arc::new(Self {
            engine: Arc::clone(engine),
            operations: Mutex::new(operations),
            lane: STREAM | OF_A_GRAPH | NEXT.fetch_add(1, Ordering::Relaxed),
            launches: Mutex::default(),
        });
        let node = |stream| -> Written { (stream, Box::new(Node { recipe: Arc::clone(&recipe), stream })) };
        Ok(streams.into_iter().map(node).collect())
    }

    /// The work of one launch, for each stream.
    fn launch(&self) -> BTreeMap<Stream, Box<dyn StreamWork>> {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let posted = self.post(&operations);
        posted.unwrap_or_else(|fault| {
            let refused =
                |stream| -> (Stream, Box<dyn StreamWork>) { (stream, Box::new(Refused(fault.clone()))) };
            operations.iter().filter_map(|prepared| prepared.stream).map(refused).collect()
        })
    }

    fn post(&self, operations: &[Prepared]) -> Result<BTreeMap<Stream, Box<dyn StreamWork>>, Fault> {
        operations
            .iter()
            .try_for_each(|prepared| prepared.comm.check_usable("the launch of a graph with NCCL's calls"))?;
        let mut work = BTreeMap::new();
        for submission in submit(copies(operations)?, self.lane)? {
            // The thread goes on, and may call for whoever is waited for.
            submission.put_off();
            work.extend(self.engine.post(submission));
        }
        Ok(work)
    }
}

fn copies(operations: &[Prepared]) -> Result<Vec<Prepared>, Fault> {
    let copy = |prepared: &Prepared| {
        prepared.again().ok_or_else(|| {
            Fault::usage(
                "one-sided calls cannot be captured into a CUDA graph: call them outside the capture",
            )
        })
    };
    operations.iter().map(copy).collect()
}

impl Remake for Node {
    fn again(&self) -> Box<dyn StreamWork> {
        let mut launches = self.recipe.launches.lock().unwrap_or_else(PoisonError::into_inner);
        let count = launches.counts.entry(self.stream).or_default();
        let number = *count;
        *count += 1;
        let mut work = launches.open.remove(&number).unwrap_or_else(|| self.recipe.launch());
        let own = work.remove(&self.stream);
        if !work.is_empty() {
            launches.open.insert(number, work);
        }
        own.unwrap_or_else(|| {
            Box::new(Refused(Fault::internal("a launch of a graph had no work for one of its streams")))
        })
    }
}

impl StreamWork for Refused {
    fn turn(&mut self) -> Turn {
        Turn::Failed(self.0.detail.clone())
    }

    fn wait(&mut self, _: Duration) {}
}
