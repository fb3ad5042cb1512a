//! The CUDA world as a program sees it, through its public interface only.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod captures;
mod copies;
mod memory;
mod processes;
mod schedules;
mod streams;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use fakegpu_cuda::{
    Copy, CopyKind, Devices, Options, Ordinal, Poll, Polled, StreamFlags, StreamHandle, StreamRef, Vouched,
    World,
};
use fakegpu_units::VirtualSpan;

/// The device that most tests use.
pub(crate) const DEVICE: Ordinal = Ordinal(0);

/// A world of two devices of the default kind.
pub(crate) fn world() -> World {
    world_of(&[("FAKEGPU_GPU_COUNT", "2")], Options::default())
}

pub(crate) fn world_of(vars: &[(&str, &str)], options: Options) -> World {
    let vars: Vec<_> = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let settings = fakegpu_config::Settings::from_vars(vars.clone()).unwrap();
    World::new(Devices::new(&settings, None, vars).unwrap(), options).unwrap()
}

pub(crate) fn stream(world: &World) -> StreamHandle {
    world.create_stream(DEVICE, StreamFlags { non_blocking: true }, 0).unwrap()
}

pub(crate) fn blocking_stream(world: &World) -> StreamHandle {
    world.create_stream(DEVICE, StreamFlags { non_blocking: false }, 0).unwrap()
}

/// An address for copies; tests only name memory that outlives the work.
pub(crate) fn at(address: usize) -> Vouched {
    // SAFETY: memory of the world's, or of a test that waits for its work before it drops the memory.
    unsafe { Vouched::new(address) }
}

pub(crate) fn address_of<T>(values: &[T]) -> usize {
    values.as_ptr().expose_provenance()
}

pub(crate) fn address_of_mut<T>(values: &mut [T]) -> usize {
    values.as_mut_ptr().expose_provenance()
}

/// What `bytes` bytes of the world's memory hold.
pub(crate) fn read(world: &World, from: usize, bytes: usize) -> Vec<u8> {
    let mut seen = vec![0; bytes];
    let copy = Copy::flat(at(address_of_mut(&mut seen)), at(from), bytes, CopyKind::Default);
    world.copy_sync(DEVICE, StreamRef::Legacy, &copy).unwrap();
    seen
}

/// A door that a test opens when it wants pending work to go on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar, AtomicUsize)>);

impl Gate {
    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// How often an item looked at it.
    pub(crate) fn looks(&self) -> usize {
        self.0.2.load(Ordering::SeqCst)
    }

    /// An item that is pending until the gate opens, and then takes `span`.
    pub(crate) fn item(&self, span: VirtualSpan) -> GateItem {
        GateItem { gate: self.clone(), span, fails: None }
    }

    pub(crate) fn failing(&self, text: &str) -> GateItem {
        GateItem { gate: self.clone(), span: VirtualSpan::ZERO, fails: Some(text.to_owned()) }
    }
}

pub(crate) struct GateItem {
    gate: Gate,
    span: VirtualSpan,
    fails: Option<String>,
}

impl Polled for GateItem {
    fn poll(&mut self) -> Poll {
        self.gate.0.2.fetch_add(1, Ordering::SeqCst);
        match (&self.fails, *self.gate.0.0.lock().unwrap()) {
            (_, false) => Poll::Pending,
            (None, true) => Poll::Done { took: self.span },
            (Some(text), true) => Poll::Failed { text: text.clone() },
        }
    }

    fn wait(&mut self, at_most: Duration) {
        let open = self.gate.0.0.lock().unwrap();
        drop(self.gate.0.1.wait_timeout_while(open, at_most, |open| !*open).unwrap());
    }

    fn name(&self) -> &str {
        "a gate"
    }
}

/// Something that happens on another thread, to be waited for with a bound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signal(Arc<(AtomicBool, Mutex<()>, Condvar)>);

impl Signal {
    pub(crate) fn give(&self) {
        let _held = self.0.1.lock().unwrap();
        self.0.0.store(true, Ordering::SeqCst);
        self.0.2.notify_all();
    }

    pub(crate) fn is_given(&self) -> bool {
        self.0.0.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub(crate) fn expect(&self) {
        let held = self.0.1.lock().unwrap();
        let (_held, out) =
            self.0.2.wait_timeout_while(held, Duration::from_secs(20), |()| !self.is_given()).unwrap();
        assert!(!out.timed_out(), "it did not happen within 20 s");
    }
}
