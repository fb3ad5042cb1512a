//! The one that answers: calls of the runtime and of the driver, each with its own way to say no.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use fakegpu_config::env::UnsupportedApi;
use fakegpu_cuda::{EventHandle, Ordinal, StreamRef, World};
use fakegpu_cuda_abi::types::{CUresult, cudaError_t};
use fakegpu_cuda_abi::{driver, runtime};

use crate::failure::{Failure, Result};
use crate::process;
use crate::thread;

/// Stands behind every function of both tables. It has no state: the process's is in `process`, the thread's in
/// `thread`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shim;

/// Functions that were refused because nobody answers them, each told once.
static TOLD: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

impl Shim {
    /// Answers a call of the runtime: a refusal becomes the thread's last error.
    pub(crate) fn give(self, answer: Result) -> cudaError_t {
        match answer {
            Ok(()) => cudaError_t::cudaSuccess,
            Err(failure) => {
                remember(&failure);
                thread::set_last_error(failure.code);
                failure.code
            }
        }
    }

    /// Answers a call of the runtime about the world, which is made now if it was not yet.
    pub(crate) fn world(self, body: impl FnOnce(&World) -> Result) -> cudaError_t {
        self.give(process::world().and_then(body))
    }

    /// Answers a call of the runtime on the thread's device.
    pub(crate) fn on_device(self, body: impl FnOnce(&World, Ordinal) -> Result) -> cudaError_t {
        self.give(use_device().and_then(|(world, device)| body(world, device)))
    }

    /// Answers a call of the driver: the runtime's last error stays what it was.
    pub(crate) fn drive(self, answer: Result) -> CUresult {
        match answer {
            Ok(()) => CUresult::CUDA_SUCCESS,
            Err(failure) => {
                remember(&failure);
                CUresult::from(failure.code)
            }
        }
    }

    /// Answers a call of the driver about the world.
    pub(crate) fn drive_world(self, body: impl FnOnce(&World) -> Result) -> CUresult {
        self.drive(process::world().and_then(body))
    }

    /// Answers a call of the driver on the thread's device.
    pub(crate) fn drive_device(self, body: impl FnOnce(&World, Ordinal) -> Result) -> CUresult {
        self.drive(use_device().and_then(|(world, device)| body(world, device)))
    }
}

/// Keeps a refusal's sentence. Programs poll until work is ready, which would drive out the sentence of what went wrong.
fn remember(failure: &Failure) {
    if failure.code != cudaError_t::cudaErrorNotReady {
        thread::remember(failure);
    }
}

/// The world and the thread's device, which counts as used from now on.
fn use_device() -> Result<(&'static World, Ordinal)> {
    let world = process::world()?;
    let device = thread::device();
    if !process::is_used(device) {
        world.device(device)?;
        process::note_use(device);
    }
    Ok((world, device))
}

/// The stream of a handle.
pub(crate) fn stream(raw: *mut std::ffi::c_void) -> Result<StreamRef> {
    let raw = raw.addr() as u64;
    StreamRef::from_raw(raw, thread::null_stream()).ok_or_else(|| Failure::handle("stream", raw))
}

/// A device's ordinal as C passes it.
pub(crate) fn ordinal(raw: std::ffi::c_int) -> Result<Ordinal> {
    u32::try_from(raw).map(Ordinal).map_err(|_| {
        Failure::new(
            cudaError_t::cudaErrorInvalidDevice,
            format!("{raw} is no device; they are counted from 0"),
        )
    })
}

/// An ordinal as C is told it.
pub(crate) fn number(device: Ordinal) -> std::ffi::c_int {
    std::ffi::c_int::try_from(device.0).unwrap_or(std::ffi::c_int::MAX)
}

/// A call that nobody answers.
fn refusal(call: &'static str) -> Failure {
    let text = format!("{call} is not supported by FakeGPU");
    let is_news = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(call);
    if is_news && process::unsupported() == UnsupportedApi::Warn {
        process::warn(&text);
    }
    Failure::unsupported(text)
}

impl runtime::answers::Refuse for Shim {
    fn refuse(&self, call: &'static str) -> cudaError_t {
        self.give(Err(refusal(call)))
    }
}

impl driver::Refuse for Shim {
    fn refuse(&self, call: &'static str) -> CUresult {
        self.drive(Err(refusal(call)))
    }
}

/// The number behind a handle as C holds it.
pub(crate) fn raw(handle: *mut std::ffi::c_void) -> u64 {
    handle.addr() as u64
}

/// A handle for C; it is never followed.
pub(crate) fn handle(raw: u64) -> *mut std::ffi::c_void {
    std::ptr::without_provenance_mut(usize::try_from(raw).unwrap_or(0))
}

/// An address for C: memory of a device is memory of the process.
pub(crate) const fn address(at: usize) -> *mut std::ffi::c_void {
    std::ptr::with_exposed_provenance_mut(at)
}

/// An event of a handle.
pub(crate) fn event(raw_handle: *mut std::ffi::c_void) -> Result<EventHandle> {
    EventHandle::from_raw(raw(raw_handle)).ok_or_else(|| Failure::handle("event", raw(raw_handle)))
}
