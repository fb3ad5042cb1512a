//! The threads that move bytes, one for a communicator. Whatever one fails by, also for want of a thread, is a
//! failure of its communicator, and of nobody else.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

use fakegpu_units::CommId;
use mio::Waker;

/// A streamed communicator that could not go on.
#[derive(Debug)]
pub(crate) struct StreamFailure {
    pub(crate) comm: CommId,
    pub(crate) why: String,
}

/// What a thread does.
type Job = Box<dyn FnOnce() + Send>;

/// Starts threads, and tells the event loop of those that fail.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    failures: Sender<StreamFailure>,
    waker: Arc<Waker>,
    spawn: fn(Job) -> io::Result<()>,
}

/// A thread that works for a communicator. It looks at the flag at least every few milliseconds, so nobody waits
/// for its end.
#[derive(Debug)]
pub(crate) struct Worker {
    cancelled: Arc<AtomicBool>,
}

impl Workers {
    pub(crate) fn new(failures: Sender<StreamFailure>, waker: Arc<Waker>) -> Self {
        let spawn = |job| std::thread::Builder::new().name("fakegpu-bytes".to_owned()).spawn(job).map(drop);
        Self { failures, waker, spawn }
    }

    /// Starts a communicator's thread. Where none can be had, `work` is dropped, and its connections with it.
    pub(crate) fn start<W>(&self, comm: CommId, work: W) -> Worker
    where
        W: FnOnce(&AtomicBool) -> Result<(), String> + Send + 'static,
    {
        let cancelled = Arc::new(AtomicBool::new(false));
        let (watch, workers) = (Arc::clone(&cancelled), self.clone());
        let started = (self.spawn)(Box::new(move || {
            if let Err(why) = work(&watch)
                && !watch.load(Ordering::Acquire)
            {
                workers.fail(comm, why);
            }
        }));
        if let Err(error) = started {
            tracing::error!(%error, comm = comm.0, "no thread could be started for a streamed communicator");
            let why = format!(
                "the coordinator could start no thread for them ({error}): raise its limit of processes (ulimit -u, or the container's)"
            );
            self.fail(comm, why);
        }
        Worker { cancelled }
    }

    fn fail(&self, comm: CommId, why: String) {
        // Without a receiver the daemon is ending, and nobody is left to be told.
        self.failures.send(StreamFailure { comm, why }).unwrap_or_default();
        self.waker.wake().unwrap_or_default();
    }
}

impl Worker {
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use mio::{Poll, Token};

    use super::*;

    /// Workers on a machine that has no thread to give, and what they tell.
    pub(crate) fn without_threads() -> (Workers, Receiver<StreamFailure>, Poll) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (failures, told) = channel();
        let spawn = |_| Err(io::Error::from_raw_os_error(rustix::io::Errno::AGAIN.raw_os_error()));
        (Workers { failures, waker, spawn }, told, poll)
    }

    #[test]
    fn a_thread_that_fails_tells_why_unless_it_was_cancelled() {
        let (mut workers, told, mut poll) = without_threads();
        workers.spawn = |job| {
            job();
            Ok(())
        };
        workers.start(CommId(1), |_| Err("a connection ended".to_owned()));
        workers.start(CommId(2), |cancelled| {
            cancelled.store(true, Ordering::Release);
            Err("cancelled".to_owned())
        });
        let failures: Vec<_> = told.try_iter().map(|failure| (failure.comm, failure.why)).collect();
        assert_eq!(failures, [(CommId(1), "a connection ended".to_owned())]);
        let mut events = mio::Events::with_capacity(1);
        poll.poll(&mut events, Some(std::time::Duration::ZERO)).unwrap();
        assert!(!events.is_empty(), "the event loop is woken");
    }
}
