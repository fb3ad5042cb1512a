//! Streams: made, named, waited for, destroyed.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, Weak};

use fakegpu_units::{VirtualSpan, VirtualTime};

use crate::capture::Captured;
use crate::devices::Ordinal;
use crate::engine::{Engine, HostFunction, PolledWork, Queue, Record, State, Work, in_host_function};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{Key, StreamHandle, StreamRef};
use crate::world::World;

/// How a stream is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFlags {
    /// Whether it does without the legacy stream: neither waits for the other.
    pub non_blocking: bool,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) device: Ordinal,
    pub(crate) id: u64,
    pub(crate) is_legacy: bool,
    pub(crate) is_blocking: bool,
    pub(crate) priority: i32,
    pub(crate) queue: Queue,
    /// While an item is out to be run: the record of its end, if somebody asked for one.
    pub(crate) running: Option<Option<Arc<Record>>>,
    /// Modelled time at which its last item was done.
    pub(crate) clock: VirtualTime,
    pub(crate) failure: Option<Error>,
    pub(crate) capture: Option<Captured>,
    /// Threads that wait for it.
    pub(crate) wanted: u32,
    /// Destroyed by the program, and gone when it is idle.
    pub(crate) is_retired: bool,
}

impl Stream {
    pub(crate) fn legacy(device: Ordinal, id: u64) -> Self {
        Self { is_legacy: true, ..Self::new(device, id, true, 0) }
    }

    fn new(device: Ordinal, id: u64, is_blocking: bool, priority: i32) -> Self {
        Self {
            device,
            id,
            is_legacy: false,
            is_blocking,
            priority,
            queue: Queue::new(),
            running: None,
            clock: VirtualTime::ZERO,
            failure: None,
            capture: None,
            wanted: 0,
            is_retired: false,
        }
    }
}

pub(crate) fn stale() -> Error {
    let text = "this is no stream, or one that was destroyed";
    Error::new(ErrorKind::InvalidResourceHandle, text)
}

/// The calling thread's own default streams, by engine and device; destroyed with the thread.
struct PerThread(Vec<(Weak<Engine>, Ordinal, Key)>);

impl Drop for PerThread {
    fn drop(&mut self) {
        for (engine, _, key) in self.0.drain(..) {
            if let Some(engine) = engine.upgrade().filter(|engine| engine.process == std::process::id()) {
                engine.state().destroy(key);
            }
        }
    }
}

thread_local! {
    static PER_THREAD: RefCell<PerThread> = const { RefCell::new(PerThread(Vec::new())) };
}

impl State {
    /// The stream, if it is there and not destroyed.
    pub(crate) fn stream(&self, key: Key) -> Result<&Stream> {
        self.streams.get(key).filter(|stream| !stream.is_retired).ok_or_else(stale)
    }

    pub(crate) fn stream_mut(&mut self, key: Key) -> Result<&mut Stream> {
        self.streams.get_mut(key).filter(|stream| !stream.is_retired).ok_or_else(stale)
    }

    fn make(&mut self, device: Ordinal, is_blocking: bool, priority: i32) -> Result<Key> {
        let id = self.next_id();
        let made = self.streams.insert(Stream::new(device, id, is_blocking, priority));
        made.ok_or_else(|| {
            Error::new(ErrorKind::MemoryAllocation, "there are too many streams; destroy some")
        })
    }

    /// Destroys a stream: at once if it is idle, else when it is.
    pub(crate) fn destroy(&mut self, key: Key) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.is_retired = true;
            if stream.is_idle() {
                self.streams.remove(key);
            }
        }
    }

    /// The streams that must be idle for a stream to count as idle: the legacy stream speaks for all that it waits for.
    fn is_quiet(&self, key: Key) -> bool {
        let Some(stream) = self.streams.get(key) else { return true };
        if !stream.is_idle() {
            return false;
        }
        let joined = |other: &Key| {
            let other = self.streams.get(*other);
            other.is_some_and(|other| other.is_blocking && other.device == stream.device)
        };
        !(stream.is_legacy && self.active.iter().any(joined))
    }
}

impl Engine {
    /// The stream that a call names.
    pub(crate) fn resolve(self: &Arc<Self>, device: Ordinal, stream: StreamRef) -> Result<Key> {
        match stream {
            StreamRef::Made(handle) => Ok(handle.0),
            StreamRef::Legacy => self.state().legacy.get(device.index()).copied().ok_or_else(stale),
            StreamRef::PerThread => self.per_thread(device),
        }
    }

    fn per_thread(self: &Arc<Self>, device: Ordinal) -> Result<Key> {
        let found = PER_THREAD.try_with(|mine| {
            let mut mine = mine.borrow_mut();
            let is_mine = |entry: &&(Weak<Self>, Ordinal, Key)| {
                std::ptr::eq(entry.0.as_ptr(), Arc::as_ptr(self)) && entry.1 == device
            };
            if let Some(&(_, _, key)) = mine.0.iter().find(is_mine) {
                return Ok(key);
            }
            let key = self.state().make(device, true, 0)?;
            mine.0.push((Arc::downgrade(self), device, key));
            Ok(key)
        });
        // In the last moments of a thread, after its own streams are gone.
        found.unwrap_or_else(|_| self.resolve(device, StreamRef::Legacy))
    }

    /// The state and the key of a stream that can take work.
    pub(crate) fn open(
        self: &Arc<Self>,
        device: Ordinal,
        stream: StreamRef,
    ) -> Result<(MutexGuard<'_, State>, Key)> {
        if in_host_function() {
            let text = "a host function may not call CUDA: it would wait for itself";
            return Err(Error::new(ErrorKind::NotPermitted, text));
        }
        let key = self.resolve(device, stream)?;
        let state = self.state();
        state.refuse_faulted(state.stream(key)?.device)?;
        match &state.stream(key)?.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok((state, key)),
        }
    }

    /// Puts work into a stream, or into the graph that it captures.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        device: Ordinal,
        stream: StreamRef,
        work: Work,
    ) -> Result<Option<Arc<Record>>> {
        let (mut state, key) = self.open(device, stream)?;
        if state.stream(key)?.capture.is_some() {
            return state.capture_work(key, work).map(|()| None);
        }
        self.refuse_implicit(&mut state, key)?;
        self.submit(state, key, work, Vec::new())
    }

    /// A quick thing to do in a stream's order, which cannot be captured.
    pub(crate) fn enqueue_quick(
        self: &Arc<Self>,
        device: Ordinal,
        stream: StreamRef,
        quick: Box<dyn FnOnce() -> Result<()> + Send>,
    ) -> Result<()> {
        self.enqueue(device, stream, Work::Quick(quick)).map(drop)
    }

    /// Whether a deferred item would let a synchronous call wait: for calls that decide by it how to go on.
    pub(crate) fn is_stream_quiet(self: &Arc<Self>, device: Ordinal, stream: StreamRef) -> Result<bool> {
        let (mut state, key) = self.open(device, stream)?;
        let mut joined = Vec::new();
        state.joins(key, &mut joined);
        Ok(joined.is_empty() && state.stream(key)?.is_idle())
    }
}

impl World {
    /// The least priority of a stream.
    pub const PRIORITY_LEAST: i32 = 0;
    /// The greatest priority of a stream, which is the smallest number.
    pub const PRIORITY_GREATEST: i32 = -5;

    /// A new stream; its priority is brought into the range.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`]; [`ErrorKind::MemoryAllocation`] beyond 16 million streams.
    pub fn create_stream(&self, device: Ordinal, flags: StreamFlags, priority: i32) -> Result<StreamHandle> {
        self.device(device)?;
        let priority = priority.clamp(Self::PRIORITY_GREATEST, Self::PRIORITY_LEAST);
        let key = self.engine.state().make(device, !flags.non_blocking, priority)?;
        self.account.note_stream(device);
        Ok(StreamHandle(key))
    }

    /// Destroys a stream: what is queued is still done.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`] for none; [`ErrorKind::StreamCaptureUnsupported`] while it captures, which
    /// invalidates the capture.
    pub fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        self.check()?;
        let mut state = self.engine.state();
        state.stream(stream.0)?;
        state.refuse_capturing(stream.0, "cudaStreamDestroy")?;
        state.destroy(stream.0);
        Ok(())
    }

    /// How a stream was made.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`].
    pub fn stream_flags(&self, device: Ordinal, stream: StreamRef) -> Result<StreamFlags> {
        self.about(device, stream, |stream| StreamFlags { non_blocking: !stream.is_blocking })
    }

    /// A stream's priority, which is kept and changes nothing.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`].
    pub fn stream_priority(&self, device: Ordinal, stream: StreamRef) -> Result<i32> {
        self.about(device, stream, |stream| stream.priority)
    }

    /// The device of a stream.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`].
    pub fn stream_device(&self, device: Ordinal, stream: StreamRef) -> Result<Ordinal> {
        self.about(device, stream, |stream| stream.device)
    }

    /// A number that no other stream of the process has or will have.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`].
    pub fn stream_id(&self, device: Ordinal, stream: StreamRef) -> Result<u64> {
        self.about(device, stream, |stream| stream.id)
    }

    /// Modelled time at which the stream's last work was done, as far as it is.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`].
    pub fn stream_time(&self, device: Ordinal, stream: StreamRef) -> Result<VirtualTime> {
        self.about(device, stream, |stream| stream.clock)
    }

    fn about<T>(&self, device: Ordinal, stream: StreamRef, ask: impl FnOnce(&Stream) -> T) -> Result<T> {
        self.device(device)?;
        let key = self.engine.resolve(device, stream)?;
        self.engine.state().stream(key).map(ask)
    }

    /// Whether the calling thread is inside a host function of a stream, where CUDA may not be called.
    pub fn in_host_function(&self) -> bool {
        in_host_function()
    }

    /// How far the program has come in modelled time: as far as the work that it waited for.
    pub fn host_time(&self) -> VirtualTime {
        self.engine.host_time()
    }

    /// Whether no work of any stream is outstanding, and no stream captures: two loads.
    pub fn is_idle(&self) -> bool {
        self.engine.is_idle() && self.engine.captures.load(Ordering::Acquire) == 0
    }

    /// Waits until a stream's work is done.
    ///
    /// # Errors
    /// What the stream failed by; [`ErrorKind::StreamCaptureUnsupported`] while it captures, which invalidates the
    /// capture; [`ErrorKind::NotPermitted`] in a host function.
    pub fn synchronize_stream(&self, device: Ordinal, stream: StreamRef) -> Result<()> {
        self.device(device)?;
        let (mut state, key) = self.engine.open(device, stream)?;
        state.refuse_capturing(key, "cudaStreamSynchronize")?;
        self.engine.refuse_implicit(&mut state, key)?;
        let mut records = Vec::new();
        if state.stream(key)?.is_legacy {
            state.joins(key, &mut records);
        }
        records.extend(state.tail(key));
        self.engine.witness(state.stream(key)?.clock);
        drop(state);
        records.iter().try_for_each(|record| self.engine.wait(record).map(drop))?;
        self.failure_of(key)
    }

    fn failure_of(&self, key: Key) -> Result<()> {
        match self.engine.state().stream(key).map(|stream| stream.failure.clone()) {
            Ok(Some(failure)) => Err(failure),
            _ => Ok(()),
        }
    }

    /// Whether a stream's work is done.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`] where it is not; else as [`World::synchronize_stream`].
    pub fn query_stream(&self, device: Ordinal, stream: StreamRef) -> Result<()> {
        self.device(device)?;
        let (mut state, key) = self.engine.open(device, stream)?;
        state.refuse_capturing(key, "cudaStreamQuery")?;
        self.engine.refuse_implicit(&mut state, key)?;
        if !state.is_quiet(key) {
            return Err(Error::not_ready());
        }
        self.engine.witness(state.stream(key)?.clock);
        Ok(())
    }

    /// Waits until all work of a device is done.
    ///
    /// # Errors
    /// What one of its streams failed by; [`ErrorKind::StreamCaptureUnsupported`] during a capture.
    pub fn synchronize_device(&self, device: Ordinal) -> Result<()> {
        self.device(device)?;
        self.refuse_in_capture("cudaDeviceSynchronize")?;
        let mut state = self.engine.state();
        let records = state.tails(Some(device));
        drop(state);
        records.iter().try_for_each(|record| self.engine.wait(record).map(drop))?;
        let state = self.engine.state();
        state.refuse_faulted(device)?;
        let mine = state.streams.iter().map(|(_, stream)| stream).filter(|stream| stream.device == device);
        for stream in mine {
            if let Some(failure) = &stream.failure {
                return Err(failure.clone());
            }
            self.engine.witness(stream.clock);
        }
        Ok(())
    }

    /// Forgets what a stream failed by, so that it can be used again: for libraries that recover, as NCCL does when a
    /// communicator is aborted.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`].
    pub fn clear_failure(&self, device: Ordinal, stream: StreamRef) -> Result<()> {
        self.device(device)?;
        let key = self.engine.resolve(device, stream)?;
        self.engine.state().stream_mut(key)?.failure = None;
        Ok(())
    }

    /// Has a stream call a function of the program's, never inside this call.
    ///
    /// # Errors
    /// As all work: what the stream failed by, or [`ErrorKind::InvalidResourceHandle`].
    pub fn enqueue_host_function(
        &self,
        device: Ordinal,
        stream: StreamRef,
        function: HostFunction,
    ) -> Result<()> {
        self.device(device)?;
        self.engine.enqueue(device, stream, Work::Host(function)).map(drop)
    }

    /// Puts an item that waits for others into a stream. It is polled once in this call if the stream is idle.
    ///
    /// # Errors
    /// As all work; [`ErrorKind::StreamCaptureUnsupported`] for an item for one run on a stream that captures.
    pub fn enqueue_polled(&self, device: Ordinal, stream: StreamRef, work: PolledWork) -> Result<()> {
        self.device(device)?;
        self.engine.enqueue(device, stream, Work::Polled(work)).map(drop)
    }

    /// Lets modelled time pass on a stream: what is computed elsewhere, as its device would have.
    ///
    /// # Errors
    /// As all work.
    pub fn enqueue_modelled(&self, device: Ordinal, stream: StreamRef, span: VirtualSpan) -> Result<()> {
        self.device(device)?;
        self.engine.enqueue(device, stream, Work::Span(span)).map(drop)
    }
}
