//! Streams, where a CUDA runtime orders work in this process: calls return once they are submitted, and what they
//! were called for is done when its turn on the stream comes.

use std::fmt::Debug;
use std::time::Duration;

use fakegpu_proto::Fault;
use fakegpu_units::VirtualSpan;

/// A stream of the process's CUDA runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stream {
    /// The handle, as the program passes it.
    pub handle: usize,
    /// The device that a default stream is meant of.
    pub device: u32,
}

/// How far work on a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its peers have yet to do their part.
    Pending,
    /// It has ended, and takes this long in the model.
    Ended(VirtualSpan),
    /// It failed, in this sentence: the stream is no good any more.
    Failed(String),
}

/// Work that a stream comes to, and then asks again and again until it has ended. Dropped before that, it never
/// will be.
pub trait StreamWork: Send + Debug {
    /// Does what can be done without waiting.
    fn turn(&mut self) -> Turn;

    /// Waits a bounded while until more can be done.
    fn wait(&mut self, timeout: Duration);
}

/// Work that is made anew for each run.
pub trait Remake: Send + Sync + Debug {
    /// The work of the next run; what was wrong in making it is told by its turn.
    fn again(&self) -> Box<dyn StreamWork>;
}

/// The process's CUDA runtime.
pub trait Streams: Send + Sync + Debug {
    /// Whether there is one: without it a call ends before it returns.
    fn is_there(&self) -> bool;

    /// Whether an address is memory that the runtime gave out or was told of. Calls on other memory, which a GPU could
    /// not reach, end before they return, whatever their stream.
    fn knows(&self, address: usize) -> bool;

    /// Whether the stream writes its work down into a graph instead of doing it.
    ///
    /// # Errors
    /// In a sentence, where the handle is no stream.
    fn is_capturing(&self, stream: Stream) -> Result<bool, Fault>;

    /// Puts work on a stream, behind all that is there.
    ///
    /// # Errors
    /// As [`is_capturing`](Self::is_capturing).
    fn enqueue(&self, stream: Stream, work: Box<dyn StreamWork>) -> Result<(), Fault>;

    /// Writes work down where a stream captures: each launch of the graph makes it anew.
    ///
    /// # Errors
    /// As [`is_capturing`](Self::is_capturing), and where the capture is spoiled.
    fn capture(&self, stream: Stream, work: Box<dyn Remake>) -> Result<(), Fault>;

    /// A failure that work left on a stream is over with: its communicator was aborted.
    fn forgive(&self, stream: Stream);

    /// Makes each of these streams wait for what the others hold now.
    ///
    /// # Errors
    /// As [`is_capturing`](Self::is_capturing).
    fn join(&self, streams: &[Stream]) -> Result<(), Fault>;
}

/// A process without a CUDA runtime.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStreams;

impl Streams for NoStreams {
    fn is_there(&self) -> bool {
        false
    }

    fn knows(&self, _: usize) -> bool {
        false
    }

    fn is_capturing(&self, _: Stream) -> Result<bool, Fault> {
        Ok(false)
    }

    fn enqueue(&self, _: Stream, _: Box<dyn StreamWork>) -> Result<(), Fault> {
        Err(Fault::internal("work was put on a stream of no CUDA runtime"))
    }

    fn capture(&self, _: Stream, _: Box<dyn Remake>) -> Result<(), Fault> {
        Err(Fault::internal("work was written down for a graph of no CUDA runtime"))
    }

    fn forgive(&self, _: Stream) {}

    fn join(&self, _: &[Stream]) -> Result<(), Fault> {
        Ok(())
    }
}
