//! Work of non-blocking communicators: it goes on in a thread of its own while the call has returned.

use std::sync::Arc;

use fakegpu_proto::Fault;

use crate::Spawn;
use crate::communicator::Communicator;

/// How far a call is when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has done all it was called for.
    Done,
    /// It goes on; `ncclCommGetAsyncError` tells its end.
    InProgress,
}

/// Communicators with an operation under way. Dropped without a word, they have failed by a bug of ours.
struct Marks {
    comms: Vec<Arc<Communicator>>,
    is_told: bool,
}

impl Marks {
    fn new(comms: Vec<Arc<Communicator>>) -> Self {
        comms.iter().for_each(|comm| comm.begin_pending());
        Self { comms, is_told: false }
    }

    fn end(mut self, fault: Option<&Fault>) {
        self.is_told = true;
        self.comms.iter().for_each(|comm| comm.end_pending(fault));
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        if !self.is_told {
            let fault = Fault::internal("an operation in the background did not run to its end");
            self.comms.iter().for_each(|comm| comm.end_pending(Some(&fault)));
        }
    }
}

/// Starts work on these communicators and returns; until it has ended they refuse other calls.
pub(crate) fn start(
    spawn: &dyn Spawn,
    comms: Vec<Arc<Communicator>>,
    work: impl FnOnce() -> Result<(), Fault> + Send + 'static,
) -> Result<Outcome, Fault> {
    let marks = Marks::new(comms);
    let job = Box::new(move || {
        let outcome = work();
        if let Err(fault) = &outcome {
            tracing::warn!("{}", fault.detail);
        }
        marks.end(outcome.err().as_ref());
    });
    spawn.start_thread(job).map_err(|error| {
        Fault::system(format!("no thread could be started for a non-blocking call: {error}"))
    })?;
    Ok(Outcome::InProgress)
}
