//! The engine: the queues of all streams, and who runs what stands in them.
//!
//! A stream is a queue of items. An item runs when it is at its stream's head and what it depends on is done: the
//! records of other streams' items, captured when it was enqueued. Whoever has time runs ready items by the same step:
//! the call that enqueues, if the stream is idle; a thread that waits; and one progress thread, started when
//! the first item has to wait. The queues are under one mutex; items run outside it, their stream marked busy.
//!
//! **Invariant:** the mutex is never held while foreign code runs: items, their drops, host functions.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use fakegpu_units::{VirtualSpan, VirtualTime};

use crate::capture::Capture;
use crate::devices::{Devices, Ordinal};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::graph::{Exec, Graph};
use crate::handle::{Key, Slots};
use crate::memory::{Move, Set, locked};
use crate::signals::spawn_quiet;
use crate::stream::Stream;

/// What a polled item has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It waits for others.
    Pending,
    /// It is done.
    Done {
        /// Its modelled duration, from when the stream reached it.
        took: VirtualSpan,
    },
    /// It failed; its stream fails with it.
    Failed {
        /// Why, as a sentence.
        text: String,
    },
    /// It faulted on its device, which cannot be used any more in this process.
    Faulted {
        /// What every later call of the device is refused with.
        error: Error,
    },
}

/// An item that waits for others, such as a collective. Dropped undone, it is given up.
pub trait Polled: Send {
    /// Does what can be done without waiting. Not called again after another answer than [`Poll::Pending`].
    fn poll(&mut self) -> Poll;

    /// Parks the thread until something of it may have moved, and never longer than `at_most`.
    fn wait(&mut self, at_most: Duration);

    /// What it is, for sentences.
    fn name(&self) -> &str;
}

/// Makes a polled item anew for each launch of a graph.
pub type PolledFactory = Arc<dyn Fn() -> Box<dyn Polled> + Send + Sync>;

/// A polled item to enqueue.
#[derive(Clone)]
pub enum PolledWork {
    /// Made anew for each run, and so fit to be captured.
    Remade(PolledFactory),
    /// For one run; refused by a stream that captures.
    Once(OncePolled),
}

/// A polled item for one run.
#[derive(Clone)]
pub struct OncePolled(Arc<Mutex<Option<Box<dyn Polled>>>>);

impl PolledWork {
    /// For one run.
    pub fn once(item: impl Polled + 'static) -> Self {
        Self::Once(OncePolled(Arc::new(Mutex::new(Some(Box::new(item))))))
    }

    /// Made anew for each run.
    pub fn remade(make: impl Fn() -> Box<dyn Polled> + Send + Sync + 'static) -> Self {
        Self::Remade(Arc::new(make))
    }

    fn into_item(self) -> Option<Box<dyn Polled>> {
        match self {
            Self::Remade(make) => Some(make()),
            Self::Once(once) => locked(&once.0).take(),
        }
    }
}

impl fmt::Debug for PolledWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Remade(_) => "Remade",
            Self::Once(_) => "Once",
        })
    }
}

impl fmt::Debug for OncePolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OncePolled")
    }
}

/// A function of the program's that a stream calls. It may not call CUDA.
#[derive(Clone)]
pub struct HostFunction {
    run: Arc<Callback>,
    even_after_failure: bool,
}

type Callback = dyn Fn(Option<&Error>) + Send + Sync;

impl HostFunction {
    /// As for `cudaLaunchHostFunc`: not called where the stream failed before.
    pub fn new(run: impl Fn() + Send + Sync + 'static) -> Self {
        Self { run: Arc::new(move |_| run()), even_after_failure: false }
    }

    /// As for `cudaStreamAddCallback`: called in any case, with what the stream failed by.
    pub fn callback(run: impl Fn(Option<&Error>) + Send + Sync + 'static) -> Self {
        Self { run: Arc::new(run), even_after_failure: true }
    }

    /// Calls it, marked as such for calls of CUDA that it makes all the same.
    pub(crate) fn call(&self, failure: Option<&Error>) {
        let _mark = HostMark(IN_HOST_FUNCTION.replace(true));
        (self.run)(failure);
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFunction").finish_non_exhaustive()
    }
}

/// Puts back what the mark of the thread was, also after a panic.
struct HostMark(bool);

impl Drop for HostMark {
    fn drop(&mut self) {
        IN_HOST_FUNCTION.set(self.0);
    }
}

thread_local! {
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is inside a host function.
pub(crate) fn in_host_function() -> bool {
    IN_HOST_FUNCTION.get()
}

/// What an item does.
pub(crate) enum Work {
    /// Nothing: it only depends on others.
    Nothing,
    /// Nothing, for a modelled while.
    Span(VirtualSpan),
    Move(Move, VirtualSpan),
    /// A copy whose source was set aside when it was enqueued.
    Staged(Vec<u8>, Move, VirtualSpan),
    Set(Set, VirtualSpan),
    Quick(Box<dyn FnOnce() -> Result<()> + Send>),
    Host(HostFunction),
    Polled(PolledWork),
    /// The launch of a graph, and whether it calls host functions.
    Graph(Box<dyn Polled>, bool),
    Running(Box<dyn Polled>),
}

impl Work {
    /// Whether it may not run in the call that enqueues it: what calls host functions.
    const fn defers(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Graph(_, true))
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Span(_) => "Span",
            Self::Move(..) | Self::Staged(..) => "Move",
            Self::Set(..) => "Set",
            Self::Quick(_) => "Quick",
            Self::Host(_) => "Host",
            Self::Graph(..) => "Graph",
            Self::Polled(_) | Self::Running(_) => "Polled",
        })
    }
}

/// What stands in a queue.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) work: Work,
    pub(crate) dependencies: Vec<Arc<Record>>,
    /// The host's clock when it was enqueued: it starts no earlier.
    pub(crate) issued: VirtualTime,
    /// Told when it is done; made when somebody asks.
    pub(crate) record: Option<Arc<Record>>,
}

/// When an item was done, for those who depend on it.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) stream: Key,
    time: AtomicU64,
    error: OnceLock<Error>,
}

/// What a record tells.
#[derive(Debug)]
pub(crate) enum Told<'a> {
    Pending,
    Done(VirtualTime),
    Failed(&'a Error),
}

impl Record {
    const PENDING: u64 = u64::MAX;
    const FAILED: u64 = u64::MAX - 1;

    pub(crate) const fn pending(stream: Key) -> Self {
        Self { stream, time: AtomicU64::new(Self::PENDING), error: OnceLock::new() }
    }

    pub(crate) const fn done(stream: Key, time: VirtualTime) -> Self {
        Self { stream, time: AtomicU64::new(time.as_picos()), error: OnceLock::new() }
    }

    pub(crate) fn told(&self) -> Told<'_> {
        match self.time.load(Ordering::Acquire) {
            Self::PENDING => Told::Pending,
            Self::FAILED => self.error.get().map_or(Told::Pending, Told::Failed),
            picos => Told::Done(VirtualTime::from_picos(picos)),
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.told(), Told::Pending)
    }

    fn complete(&self, time: VirtualTime) {
        self.time.store(time.as_picos().min(Self::FAILED - 1), Ordering::Release);
    }

    fn fail(&self, error: &Error) {
        self.error.get_or_init(|| error.clone());
        self.time.store(Self::FAILED, Ordering::Release);
    }
}

/// The queues and the threads that wait for them.
#[derive(Debug)]
pub(crate) struct Engine {
    state: Mutex<State>,
    /// Notified when an item is done or laid back and somebody waits for it.
    changed: Condvar,
    /// Notified when the progress thread has something to do.
    work: Condvar,
    /// Items enqueued and not done.
    outstanding: AtomicU64,
    /// Captures under way: 0 spares every call a look at them.
    pub(crate) captures: AtomicU32,
    /// How far the program itself has come, in modelled time: as far as the work that it waited for.
    host_clock: AtomicU64,
    is_closing: AtomicBool,
    /// The process that made it: a child after `fork` must not touch the mutex, which may be held for ever there.
    pub(crate) process: u32,
}

/// Everything under the mutex.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) streams: Slots<Stream>,
    /// The legacy stream of each device.
    pub(crate) legacy: Vec<Key>,
    /// What each device cannot be used any more for, if a kernel faulted on it.
    faults: Vec<Option<Error>>,
    /// Modelled time at which the last blocking stream of each device was done.
    pub(crate) blocking_done: Vec<VirtualTime>,
    /// Streams that are not idle.
    pub(crate) active: Vec<Key>,
    pub(crate) events: Slots<Event>,
    pub(crate) captures: Slots<Capture>,
    pub(crate) graphs: Slots<Graph>,
    pub(crate) execs: Slots<Exec>,
    pub(crate) last_id: u64,
    /// Threads that sleep on `changed`.
    sleepers: u32,
    /// Counts what may have made an item ready, so that the progress thread misses nothing.
    epoch: u64,
    progress: Progress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Unborn,
    /// No thread could be had; waiters do it all.
    Missing,
    Awake,
    Asleep,
}

/// An item taken out of its queue to be run.
#[derive(Debug)]
pub(crate) struct Taken {
    stream: Key,
    item: Item,
    start: VirtualTime,
    /// The stream's failure, or that of a dependency: the item is not run.
    failure: Option<Error>,
}

enum Outcome {
    Pending,
    Done(VirtualSpan),
    Failed(Error),
    /// Its device has failed with it.
    Faulted(Error),
}

/// Shortest and longest time for which the progress thread parks in one item.
const PATIENCE_MIN: Duration = Duration::from_micros(50);
const PATIENCE_MAX: Duration = Duration::from_millis(1);
/// For how long a waiter parks in the item that it waits for.
const WAITER_PATIENCE: Duration = Duration::from_millis(2);
/// Bound on every sleep, in case a wake-up is lost with a thread that died.
const SLEEP_MAX: Duration = Duration::from_millis(50);

impl Engine {
    pub(crate) fn new(devices: &Devices) -> Arc<Self> {
        let mut streams = Slots::new();
        let legacy = (0..)
            .zip(devices.iter())
            .filter_map(|(id, device)| streams.insert(Stream::legacy(device.ordinal, id)))
            .collect();
        let state = State {
            streams,
            legacy,
            faults: vec![None; devices.len()],
            blocking_done: vec![VirtualTime::ZERO; devices.len()],
            active: Vec::new(),
            events: Slots::new(),
            captures: Slots::new(),
            graphs: Slots::new(),
            execs: Slots::new(),
            last_id: devices.len() as u64,
            sleepers: 0,
            epoch: 0,
            progress: Progress::Unborn,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            work: Condvar::new(),
            outstanding: AtomicU64::new(0),
            captures: AtomicU32::new(0),
            host_clock: AtomicU64::new(0),
            is_closing: AtomicBool::new(false),
            process: std::process::id(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the progress thread; what is queued is given up with the engine.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        let mut state = self.state();
        state.epoch += 1;
        drop(state);
        self.work.notify_all();
    }

    /// Whether no item is outstanding: one load.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding.load(Ordering::Acquire) == 0
    }

    pub(crate) fn host_time(&self) -> VirtualTime {
        VirtualTime::from_picos(self.host_clock.load(Ordering::Relaxed))
    }

    /// The program saw that something was done at `time`.
    pub(crate) fn witness(&self, time: VirtualTime) {
        self.host_clock.fetch_max(time.as_picos(), Ordering::Relaxed);
    }

    /// Puts an item at the end of a stream that does not capture, and runs it now if it is alone there. The record of
    /// its end is returned if it is not done on return.
    pub(crate) fn submit(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        key: Key,
        work: Work,
        dependencies: Vec<Arc<Record>>,
    ) -> Result<Option<Arc<Record>>> {
        let mut dependencies = dependencies;
        state.joins(key, &mut dependencies);
        let issued = state.floor(key, self.host_time());
        let Some(stream) = state.streams.get_mut(key) else { return Err(crate::stream::stale()) };
        self.outstanding.fetch_add(1, Ordering::AcqRel);
        let is_idle = stream.is_idle();
        let is_deferred = !is_idle || work.defers();
        let mut item = Item { work, dependencies, issued, record: None };
        if is_idle {
            state.active.push(key);
        }
        if is_deferred || item.dependencies.iter().any(|record| record.is_pending()) {
            let record = Arc::new(Record::pending(key));
            item.record = Some(Arc::clone(&record));
            if let Some(stream) = state.streams.get_mut(key) {
                stream.queue.push_back(item);
            }
            self.rouse(&mut state);
            return Ok(Some(record));
        }
        if let Some(stream) = state.streams.get_mut(key) {
            stream.queue.push_back(item);
        }
        let Some(taken) = state.take(key) else { return Ok(None) };
        drop(state);
        Ok(self.run_once(taken, None))
    }

    /// Wakes the progress thread, or bears it.
    fn rouse(self: &Arc<Self>, state: &mut State) {
        state.epoch += 1;
        match state.progress {
            Progress::Asleep => self.work.notify_one(),
            Progress::Awake | Progress::Missing => {}
            Progress::Unborn => {
                let engine = Arc::clone(self);
                let thread = spawn_quiet("fakegpu-streams", move || engine.progress());
                state.progress = if thread.is_ok() { Progress::Awake } else { Progress::Missing };
            }
        }
    }

    /// One step of an item, waiting up to `patience` if it waits for others; the record of its end if it still does.
    fn run_once(self: &Arc<Self>, mut taken: Taken, patience: Option<Duration>) -> Option<Arc<Record>> {
        let mut outcome = taken.step();
        if let (Outcome::Pending, Some(patience)) = (&outcome, patience) {
            taken.wait(patience);
            outcome = taken.step();
        }
        self.settle(taken, outcome)
    }

    /// Lays an item back, or closes it.
    fn settle(self: &Arc<Self>, taken: Taken, outcome: Outcome) -> Option<Arc<Record>> {
        let Taken { stream: key, mut item, start, .. } = taken;
        let mut state = self.state();
        let mut dropped = Vec::new();
        let mut left = None;
        let outcome = match outcome {
            Outcome::Faulted(error) => {
                state.note_fault(key, &error);
                Outcome::Failed(error)
            }
            other => other,
        };
        if let Some(stream) = state.streams.get_mut(key) {
            let record = stream.running.take().flatten();
            match outcome {
                Outcome::Pending => {
                    let record = record.unwrap_or_else(|| Arc::new(Record::pending(key)));
                    left = Some(Arc::clone(&record));
                    item.record = Some(record);
                    stream.queue.push_front(item);
                }
                Outcome::Done(span) => {
                    stream.clock = start + span;
                    if let Some(record) = record {
                        record.complete(stream.clock);
                    }
                    self.outstanding.fetch_sub(1, Ordering::AcqRel);
                    dropped.push(item);
                }
                Outcome::Failed(error) => {
                    if let Some(record) = record {
                        record.fail(&error);
                    }
                    dropped.push(item);
                    stream.fail(&error, &mut dropped);
                    self.outstanding.fetch_sub(dropped.len() as u64, Ordering::AcqRel);
                }
                // Made a failure above.
                Outcome::Faulted(_) => {}
            }
        }
        state.retire_if_idle(key);
        if state.sleepers > 0 {
            self.changed.notify_all();
        }
        if state.has_queued() {
            self.rouse(&mut state);
        }
        drop(state);
        drop(dropped);
        left
    }

    /// Waits until the record tells.
    pub(crate) fn wait(self: &Arc<Self>, record: &Record) -> Result<VirtualTime> {
        if in_host_function() {
            let text = "a host function may not wait for streams: it runs on one";
            return Err(Error::new(ErrorKind::NotPermitted, text));
        }
        let mut state = self.state();
        state.want(record.stream, true);
        while record.is_pending() {
            match state.ready_for(record.stream).and_then(|key| state.take(key)) {
                Some(taken) => {
                    drop(state);
                    self.run_once(taken, Some(WAITER_PATIENCE));
                    state = self.state();
                }
                None => {
                    let alone = state.progress == Progress::Missing;
                    state.sleepers += 1;
                    let patience = if alone { PATIENCE_MIN } else { SLEEP_MAX };
                    let woken = self.changed.wait_timeout(state, patience);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                    state.sleepers -= 1;
                }
            }
            if state.progress == Progress::Missing {
                drop(state);
                self.round();
                state = self.state();
            }
        }
        state.want(record.stream, false);
        drop(state);
        match record.told() {
            Told::Done(time) => {
                self.witness(time);
                Ok(time)
            }
            Told::Failed(error) => Err(error.clone()),
            Told::Pending => Err(Error::not_ready()),
        }
    }

    /// Waits until everything that is enqueued now, on one device or all, is done or failed: for calls after which
    /// memory is gone.
    pub(crate) fn drain(self: &Arc<Self>, device: Option<Ordinal>) -> Result<()> {
        if self.is_idle() {
            return Ok(());
        }
        let mut state = self.state();
        let records = state.tails(device);
        drop(state);
        for record in records {
            match self.wait(&record) {
                Err(error) if error.kind() == ErrorKind::NotPermitted => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// The progress thread.
    fn progress(self: Arc<Self>) {
        let mut patience = PATIENCE_MIN;
        let mut turn = 0_usize;
        while !self.is_closing.load(Ordering::Acquire) {
            let Round { epoch, has_moved, pending } = self.round();
            if has_moved {
                patience = PATIENCE_MIN;
                continue;
            }
            let mut state = self.state();
            let next = turn.checked_rem(pending.len()).and_then(|at| pending.get(at).copied());
            match next {
                None if state.epoch == epoch => {
                    state.progress = Progress::Asleep;
                    let woken = self.work.wait_timeout(state, Duration::from_secs(1));
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                    state.progress = Progress::Awake;
                }
                None => {}
                Some(key) => {
                    turn = turn.wrapping_add(1);
                    let Some(taken) = state.take_unwanted(key) else { continue };
                    drop(state);
                    let has_ended = self.run_once(taken, Some(patience)).is_none();
                    patience = if has_ended { PATIENCE_MIN } else { (patience * 2).min(PATIENCE_MAX) };
                }
            }
        }
    }

    /// Runs or polls the head of every stream once.
    fn round(self: &Arc<Self>) -> Round {
        let state = self.state();
        let (epoch, active) = (state.epoch, state.active.clone());
        drop(state);
        let mut round = Round { epoch, has_moved: false, pending: Vec::new() };
        for key in active {
            let taken = self.state().take_unwanted(key);
            match taken.map(|taken| self.run_once(taken, None)) {
                Some(None) => round.has_moved = true,
                Some(Some(_)) => round.pending.push(key),
                None => {}
            }
        }
        round
    }
}

struct Round {
    epoch: u64,
    has_moved: bool,
    pending: Vec<Key>,
}

impl State {
    pub(crate) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn note_fault(&mut self, key: Key, error: &Error) {
        let device = self.streams.get(key).map(|stream| stream.device.index());
        if let Some(fault) = device.and_then(|device| self.faults.get_mut(device)) {
            fault.get_or_insert_with(|| error.clone());
        }
    }

    /// Refuses what is asked of a device on which a kernel faulted.
    pub(crate) fn refuse_faulted(&self, device: Ordinal) -> Result<()> {
        match self.faults.get(device.index()) {
            Some(Some(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn has_queued(&self) -> bool {
        let queued = |key: &Key| self.streams.get(*key).is_some_and(|stream| !stream.queue.is_empty());
        self.active.iter().any(queued)
    }

    /// The record of a stream's last item; `None` where it is idle.
    pub(crate) fn tail(&mut self, key: Key) -> Option<Arc<Record>> {
        let stream = self.streams.get_mut(key)?;
        let record = match stream.queue.back_mut() {
            Some(item) => &mut item.record,
            None => stream.running.as_mut()?,
        };
        Some(Arc::clone(record.get_or_insert_with(|| Arc::new(Record::pending(key)))))
    }

    /// The records of the last items of all streams that are not idle, on one device or all.
    pub(crate) fn tails(&mut self, device: Option<Ordinal>) -> Vec<Arc<Record>> {
        let active = self.active.clone();
        let wanted = |stream: &Stream| device.is_none_or(|device| stream.device == device);
        let keys = active.into_iter().filter(|key| self.streams.get(*key).is_some_and(wanted));
        let keys: Vec<Key> = keys.collect();
        keys.into_iter().filter_map(|key| self.tail(key)).collect()
    }

    /// What an item depends on by the rules of the legacy stream: that waits for all blocking streams of its device,
    /// and they for it.
    pub(crate) fn joins(&mut self, key: Key, dependencies: &mut Vec<Arc<Record>>) {
        let Some(stream) = self.streams.get(key) else { return };
        if self.active.is_empty() || !stream.is_blocking {
            return;
        }
        let device = stream.device;
        let legacy = self.legacy.get(device.index()).copied();
        if legacy != Some(key) {
            dependencies.extend(legacy.and_then(|legacy| self.tail(legacy)));
            return;
        }
        for other in self.active.clone() {
            let joins = |stream: &Stream| stream.is_blocking && stream.device == device;
            if other != key && self.streams.get(other).is_some_and(joins) {
                dependencies.extend(self.tail(other));
            }
        }
    }

    /// Before when an item that is enqueued now cannot start.
    pub(crate) fn floor(&self, key: Key, host: VirtualTime) -> VirtualTime {
        let Some(stream) = self.streams.get(key).filter(|stream| stream.is_blocking) else { return host };
        let legacy = self.legacy.get(stream.device.index()).copied();
        let other = if legacy == Some(key) {
            self.blocking_done.get(stream.device.index()).copied()
        } else {
            legacy.and_then(|legacy| self.streams.get(legacy)).map(|legacy| legacy.clock)
        };
        host.max(other.unwrap_or(VirtualTime::ZERO))
    }

    /// Takes the head of a stream to run it, if it is ready.
    fn take(&mut self, key: Key) -> Option<Taken> {
        let stream = self.streams.get_mut(key).filter(|stream| stream.running.is_none())?;
        let head = stream.queue.front()?;
        let mut start = stream.clock.max(head.issued);
        let mut failure = stream.failure.clone();
        for record in &head.dependencies {
            match record.told() {
                Told::Pending => return None,
                Told::Done(time) => start = start.max(time),
                Told::Failed(error) => failure = Some(error.clone()),
            }
        }
        let mut item = stream.queue.pop_front()?;
        item.dependencies.clear();
        item.issued = start;
        stream.running = Some(item.record.take());
        Some(Taken { stream: key, item, start, failure })
    }

    /// The same, but leaves an item that waits for others to the thread that waits for it.
    fn take_unwanted(&mut self, key: Key) -> Option<Taken> {
        let stream = self.streams.get(key)?;
        let is_wanted = stream.wanted > 0 && matches!(stream.queue.front()?.work, Work::Running(_));
        if is_wanted { None } else { self.take(key) }
    }

    fn want(&mut self, key: Key, begins: bool) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.wanted = if begins { stream.wanted + 1 } else { stream.wanted.saturating_sub(1) };
        }
    }

    /// The stream whose head must run for `key` to come on; `None` where it is running, or nothing is there to run.
    fn ready_for(&self, key: Key) -> Option<Key> {
        let mut at = key;
        // Dependencies point to earlier items, so the way ends; the bound is for what cannot be.
        for _ in 0..=self.active.len() {
            let stream = self.streams.get(at).filter(|stream| stream.running.is_none())?;
            let head = stream.queue.front()?;
            match head.dependencies.iter().find(|record| record.is_pending()) {
                None => return Some(at),
                Some(record) => at = record.stream,
            }
        }
        None
    }

    /// Takes a stream that has become idle off the list, and away if it was destroyed.
    fn retire_if_idle(&mut self, key: Key) {
        let Some(stream) = self.streams.get(key).filter(|stream| stream.is_idle()) else { return };
        if stream.is_blocking
            && let Some(done) = self.blocking_done.get_mut(stream.device.index())
        {
            *done = (*done).max(stream.clock);
        }
        if stream.is_retired {
            self.streams.remove(key);
        }
        if let Some(at) = self.active.iter().rposition(|&active| active == key) {
            self.active.remove(at);
        }
    }
}

impl Taken {
    fn step(&mut self) -> Outcome {
        if let Some(failure) = self.failure.take() {
            // Foreign code, as in `run`.
            if let Work::Host(function) = &self.item.work
                && function.even_after_failure
            {
                let called = catch_unwind(AssertUnwindSafe(|| function.call(Some(&failure))));
                drop(called);
            }
            return Outcome::Failed(failure);
        }
        match catch_unwind(AssertUnwindSafe(|| self.run())) {
            Ok(outcome) => outcome,
            Err(_panic) => {
                let text = format!("the work of a stream panicked: {:?}", self.item.work);
                Outcome::Failed(Error::new(ErrorKind::Unknown, text))
            }
        }
    }

    fn run(&mut self) -> Outcome {
        let work = std::mem::replace(&mut self.item.work, Work::Nothing);
        match work {
            Work::Nothing => Outcome::Done(VirtualSpan::ZERO),
            Work::Span(span) => Outcome::Done(span),
            Work::Move(copy, span) => {
                copy.run();
                Outcome::Done(span)
            }
            Work::Staged(bytes, copy, span) => {
                copy.scatter(&bytes);
                Outcome::Done(span)
            }
            Work::Set(set, span) => {
                set.run();
                Outcome::Done(span)
            }
            Work::Quick(quick) => match quick() {
                Ok(()) => Outcome::Done(VirtualSpan::ZERO),
                Err(error) => Outcome::Failed(error),
            },
            Work::Host(function) => {
                function.call(None);
                Outcome::Done(VirtualSpan::ZERO)
            }
            Work::Polled(work) => match work.into_item() {
                Some(item) => self.poll(item),
                None => Outcome::Failed(Error::new(ErrorKind::IllegalState, "an item for one run ran twice")),
            },
            Work::Graph(item, _) | Work::Running(item) => self.poll(item),
        }
    }

    fn poll(&mut self, mut item: Box<dyn Polled>) -> Outcome {
        match item.poll() {
            Poll::Pending => {
                self.item.work = Work::Running(item);
                Outcome::Pending
            }
            Poll::Done { took } => Outcome::Done(took),
            Poll::Failed { text } => {
                let text = format!("{} failed: {text}", item.name());
                Outcome::Failed(Error::new(ErrorKind::LaunchFailure, text))
            }
            Poll::Faulted { error } => Outcome::Faulted(error),
        }
    }

    fn wait(&mut self, patience: Duration) {
        if let Work::Running(item) = &mut self.item.work {
            // A panic shows again at the next poll, or never.
            drop(catch_unwind(AssertUnwindSafe(|| item.wait(patience))));
        }
    }
}

impl Stream {
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.queue.is_empty()
    }

    /// Fails the stream: what is queued is given up, but for callbacks, which are told.
    fn fail(&mut self, error: &Error, dropped: &mut Vec<Item>) {
        self.failure.get_or_insert_with(|| error.clone());
        let queue = std::mem::take(&mut self.queue);
        for item in queue {
            if matches!(&item.work, Work::Host(function) if function.even_after_failure) {
                self.queue.push_back(item);
                continue;
            }
            if let Some(record) = &item.record {
                record.fail(error);
            }
            dropped.push(item);
        }
    }
}

/// What a stream's queue is made of.
pub(crate) type Queue = VecDeque<Item>;
