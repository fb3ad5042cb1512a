//! Events: marks in streams, which others wait for and which tell modelled time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fakegpu_units::{VirtualSpan, VirtualTime};

use crate::capture::Captured;
use crate::devices::Ordinal;
use crate::engine::{Engine, Poll, Polled, PolledWork, Record, Told, Work};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::handle::{EventHandle, Key, StreamRef};
use crate::memory::{IpcHandle, SharedEvent, Ticket, What};
use crate::world::World;

/// How an event is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFlags {
    /// A mark that is kept: waiters sleep in any case.
    pub blocking_sync: bool,
    /// Whether it tells no time.
    pub disable_timing: bool,
    /// Whether other processes may open it; such an event tells no time.
    pub interprocess: bool,
}

/// One event.
#[derive(Debug)]
pub(crate) struct Event {
    device: Ordinal,
    flags: EventFlags,
    last: Last,
    shared: Option<Arc<SharedEvent>>,
}

/// How an event was last recorded.
#[derive(Debug)]
enum Last {
    Never,
    /// In a stream: when the record tells, but no earlier than this.
    InStream(Arc<Record>, VirtualTime),
    /// In a capture.
    InCapture(Captured),
}

fn stale() -> Error {
    Error::new(ErrorKind::InvalidResourceHandle, "this is no event, or one that was destroyed")
}

fn captured() -> Error {
    let text = "the event was last recorded in a capture, and is a node of a graph since; record it in a stream first";
    Error::new(ErrorKind::CapturedEvent, text)
}

impl Engine {
    fn last(&self, event: EventHandle) -> Result<(Arc<Record>, VirtualTime)> {
        let state = self.state();
        let event = state.events.get(event.0).ok_or_else(stale)?;
        match &event.last {
            Last::Never => Ok((Arc::new(Record::done(NOWHERE, VirtualTime::ZERO)), VirtualTime::ZERO)),
            Last::InStream(record, floor) => Ok((Arc::clone(record), *floor)),
            Last::InCapture(_) => Err(captured()),
        }
    }

    fn shared(&self, event: EventHandle) -> Result<Option<Arc<SharedEvent>>> {
        let state = self.state();
        Ok(state.events.get(event.0).ok_or_else(stale)?.shared.clone())
    }

    fn record(self: &Arc<Self>, device: Ordinal, event: EventHandle, stream: StreamRef) -> Result<()> {
        let (mut state, key) = self.open(device, stream)?;
        let home = state.events.get(event.0).ok_or_else(stale)?.device;
        let found = state.stream(key)?;
        if found.device != home {
            return Err(Error::new(
                ErrorKind::InvalidResourceHandle,
                format!(
                    "the event is device {home}'s and cannot be recorded on a stream of device {}",
                    found.device
                ),
            ));
        }
        if let Some(at) = found.capture.clone() {
            state.capture_alive(&at)?;
            if let Some(event) = state.events.get_mut(event.0) {
                event.last = Last::InCapture(at);
            }
            return Ok(());
        }
        self.refuse_implicit(&mut state, key)?;
        let floor = state.floor(key, self.host_time()).max(state.stream(key)?.clock);
        let mut joined = Vec::new();
        state.joins(key, &mut joined);
        if joined.is_empty() {
            let record = state.tail(key).unwrap_or_else(|| Arc::new(Record::done(key, floor)));
            if let Some(event) = state.events.get_mut(event.0) {
                event.last = Last::InStream(record, floor);
            }
            return Ok(());
        }
        // The mark depends on other streams by the rules of the legacy one, so it stands in the queue as an item.
        let record = self.submit(state, key, Work::Nothing, joined)?;
        let mut state = self.state();
        let record = record.unwrap_or_else(|| Arc::new(Record::done(key, floor)));
        if let Some(event) = state.events.get_mut(event.0) {
            event.last = Last::InStream(record, floor);
        }
        Ok(())
    }

    fn wait_event(self: &Arc<Self>, device: Ordinal, stream: StreamRef, event: EventHandle) -> Result<()> {
        let (mut state, key) = self.open(device, stream)?;
        let found = state.events.get(event.0).ok_or_else(stale)?;
        let (record, floor) = match &found.last {
            Last::Never => return Ok(()),
            Last::InStream(record, floor) => (Arc::clone(record), *floor),
            Last::InCapture(at) => {
                let at = at.clone();
                return state.join_capture(key, &at, captured);
            }
        };
        if state.stream(key)?.capture.is_some() {
            return state.isolate(key);
        }
        self.refuse_implicit(&mut state, key)?;
        let own = record.stream == key;
        let idle = state.stream(key)?.is_idle();
        let record = match record.told() {
            // What is in the same stream's queue before is done before.
            _ if own => return Ok(()),
            Told::Done(time) if idle => {
                let stream = state.stream_mut(key)?;
                stream.clock = stream.clock.max(time).max(floor);
                return Ok(());
            }
            Told::Done(time) => Arc::new(Record::done(record.stream, time.max(floor))),
            Told::Pending | Told::Failed(_) => record,
        };
        self.submit(state, key, Work::Nothing, vec![record]).map(drop)
    }
}

/// The stream of records that were never in one.
const NOWHERE: Key = Key { index: u32::MAX, generation: 0 };

impl World {
    /// A new event of a device.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for an event that is for several processes and tells time.
    pub fn create_event(&self, device: Ordinal, flags: EventFlags) -> Result<EventHandle> {
        self.device(device)?;
        if flags.interprocess && !flags.disable_timing {
            return invalid("an event for several processes tells no time; add cudaEventDisableTiming");
        }
        let shared = if flags.interprocess { Some(Arc::new(SharedEvent::create()?)) } else { None };
        self.insert_event(device, flags, shared)
    }

    fn insert_event(
        &self,
        device: Ordinal,
        flags: EventFlags,
        shared: Option<Arc<SharedEvent>>,
    ) -> Result<EventHandle> {
        let made = self.engine.state().events.insert(Event { device, flags, last: Last::Never, shared });
        self.account.note_event(device);
        let full = || Error::new(ErrorKind::MemoryAllocation, "there are too many events; destroy some");
        made.map(EventHandle).ok_or_else(full)
    }

    /// Destroys an event; streams that wait for it still do.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`].
    pub fn destroy_event(&self, event: EventHandle) -> Result<()> {
        self.check()?;
        let removed = self.engine.state().events.remove(event.0);
        removed.map(drop).ok_or_else(stale)
    }

    /// Marks where a stream stands.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`] for no event, or one of another device than the stream's.
    pub fn record_event(&self, device: Ordinal, event: EventHandle, stream: StreamRef) -> Result<()> {
        self.device(device)?;
        if let Some(shared) = self.engine.shared(event)? {
            self.engine.refuse_captured(device, stream, "recording an event of several processes")?;
            let number = shared.announce();
            let done = move || {
                shared.completed().fetch_max(number, Ordering::Release);
                Ok(())
            };
            self.engine.enqueue_quick(device, stream, Box::new(done))?;
        }
        self.engine.record(device, event, stream)
    }

    /// Whether what was before the event is done; so it is for one that was never recorded.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`] where it is not; what its stream failed by; [`ErrorKind::CapturedEvent`].
    pub fn query_event(&self, event: EventHandle) -> Result<()> {
        self.check()?;
        self.refuse_in_capture("cudaEventQuery")?;
        if let Some(shared) = self.engine.shared(event)? {
            return if shared.is_done(shared.target()) { Ok(()) } else { Err(Error::not_ready()) };
        }
        let (record, floor) = self.engine.last(event)?;
        match record.told() {
            Told::Pending => Err(Error::not_ready()),
            Told::Failed(error) => Err(error.clone()),
            Told::Done(time) => {
                self.engine.witness(time.max(floor));
                Ok(())
            }
        }
    }

    /// Waits until what was before the event is done.
    ///
    /// # Errors
    /// What its stream failed by; [`ErrorKind::CapturedEvent`]; [`ErrorKind::NotPermitted`] in a host function.
    pub fn synchronize_event(&self, event: EventHandle) -> Result<()> {
        self.check()?;
        self.refuse_in_capture("cudaEventSynchronize")?;
        if let Some(shared) = self.engine.shared(event)? {
            let mut item = WaitShared { target: shared.target(), shared };
            loop {
                match item.poll() {
                    Poll::Done { .. } => return Ok(()),
                    Poll::Pending => item.wait(Duration::from_millis(1)),
                    Poll::Failed { text } => return Err(Error::new(ErrorKind::LaunchFailure, text)),
                    Poll::Faulted { error } => return Err(error),
                }
            }
        }
        let (record, floor) = self.engine.last(event)?;
        self.engine.wait(&record)?;
        self.engine.witness(floor);
        Ok(())
    }

    /// Lets what a stream is given from now on wait for what was before the event when it was last recorded; for
    /// nothing if it never was.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`]; the errors of captures.
    pub fn wait_event(&self, device: Ordinal, stream: StreamRef, event: EventHandle) -> Result<()> {
        self.device(device)?;
        if let Some(shared) = self.engine.shared(event)? {
            self.engine.refuse_captured(device, stream, "waiting for an event of several processes")?;
            let target = shared.target();
            if shared.is_done(target) {
                return Ok(());
            }
            return self.enqueue_polled(device, stream, PolledWork::once(WaitShared { shared, target }));
        }
        self.engine.wait_event(device, stream, event)
    }

    /// Modelled milliseconds from one event to another; negative where they were recorded the other way round.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`] for an event that was never recorded or tells no time;
    /// [`ErrorKind::NotReady`] where one is not done.
    pub fn elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Result<f64> {
        self.check()?;
        let (start, end) = (self.time_of(start)?, self.time_of(end)?);
        Ok((end.as_picos() as f64 - start.as_picos() as f64) / 1e9)
    }

    fn time_of(&self, event: EventHandle) -> Result<VirtualTime> {
        let state = self.engine.state();
        let event = state.events.get(event.0).ok_or_else(stale)?;
        let refuse = |text: &'static str| Err(Error::new(ErrorKind::InvalidResourceHandle, text));
        if event.flags.disable_timing {
            return refuse("the event was made with cudaEventDisableTiming and tells no time");
        }
        match &event.last {
            Last::Never => refuse("the event was never recorded, so there is no time to tell"),
            Last::InCapture(_) => Err(captured()),
            Last::InStream(record, floor) => match record.told() {
                Told::Pending => Err(Error::not_ready()),
                Told::Failed(error) => Err(error.clone()),
                Told::Done(time) => Ok(time.max(*floor)),
            },
        }
    }

    /// A handle by which another process opens the event.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidResourceHandle`] for an event that was not made for several processes.
    pub fn ipc_event_handle(&self, event: EventHandle) -> Result<IpcHandle> {
        self.check()?;
        match self.engine.shared(event)? {
            Some(shared) => Ok(shared.ticket(0).into_handle()),
            None => Err(Error::new(
                ErrorKind::InvalidResourceHandle,
                "the event is this process's alone; make it with cudaEventInterprocess",
            )),
        }
    }

    /// Opens another process's event.
    ///
    /// # Errors
    /// As [`World::ipc_open_memory`].
    pub fn ipc_open_event(&self, device: Ordinal, handle: IpcHandle) -> Result<EventHandle> {
        self.device(device)?;
        let ticket = Ticket::read(handle, What::Event)?;
        ticket.refuse_own()?;
        let shared = Arc::new(SharedEvent::open(&ticket)?);
        let flags = EventFlags { blocking_sync: false, disable_timing: true, interprocess: true };
        self.insert_event(device, flags, Some(shared))
    }
}

/// Waits for an event that another process may have recorded.
struct WaitShared {
    shared: Arc<SharedEvent>,
    target: u64,
}

impl Polled for WaitShared {
    fn poll(&mut self) -> Poll {
        if self.shared.is_done(self.target) {
            return Poll::Done { took: VirtualSpan::ZERO };
        }
        match self.shared.dead_recorder() {
            Some(process) if !self.shared.is_done(self.target) => Poll::Failed {
                text: format!("process {process}, which recorded the event, ended before it was done"),
            },
            Some(_) => Poll::Done { took: VirtualSpan::ZERO },
            None => Poll::Pending,
        }
    }

    fn wait(&mut self, at_most: Duration) {
        // Nobody wakes across processes here: a look now and then is what other processes' work is worth.
        std::thread::sleep(at_most.min(Duration::from_micros(100)));
    }

    fn name(&self) -> &str {
        "waiting for another process's event"
    }
}
