//! What CUDA keeps for each thread: the current device, the last error and its sentence, and the configurations of
//! launches that were pushed and not popped yet.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};

use fakegpu_cuda::{Ordinal, StreamRef};
use fakegpu_cuda_abi::types::{cudaError_t, cudaStream_t, dim3};

use crate::failure::Failure;
use crate::process;

/// A launch configuration, as `<<<…>>>` pushes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configuration {
    pub(crate) grid: dim3,
    pub(crate) block: dim3,
    pub(crate) shared_bytes: usize,
    pub(crate) stream: cudaStream_t,
}

/// The last refusal's sentence and code, and the text that was last handed out.
#[derive(Debug, Default)]
struct Said {
    code: i32,
    sentence: String,
    handed_out: CString,
}

thread_local! {
    static DEVICE: Cell<u32> = const { Cell::new(0) };
    /// The last error's code, and how often libraries had recovered by then.
    static LAST_ERROR: Cell<(i32, u32)> = const { Cell::new((0, 0)) };
    /// Whether stream 0 is the thread's own: inside a call of a `_ptsz` or `_ptds` function.
    static IS_PER_THREAD: Cell<bool> = const { Cell::new(false) };
    static HAS_CONTEXT: Cell<bool> = const { Cell::new(false) };
    /// Contexts that were pushed over, as devices.
    static CONTEXTS: RefCell<Vec<Option<u32>>> = const { RefCell::new(Vec::new()) };
    static SAID: RefCell<Said> = RefCell::default();
    static PUSHED: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// The current device.
pub(crate) fn device() -> Ordinal {
    Ordinal(DEVICE.get())
}

pub(crate) fn set_device(device: Ordinal) {
    DEVICE.set(device.0);
    HAS_CONTEXT.set(true);
}

/// The device whose context is current in the driver's sense: the thread chose one.
pub(crate) fn context() -> Option<Ordinal> {
    HAS_CONTEXT.get().then(device)
}

/// Makes a device's context current, or none.
pub(crate) fn set_context(device: Option<Ordinal>) {
    match device {
        Some(device) => set_device(device),
        None => HAS_CONTEXT.set(false),
    }
}

/// Makes a device's context current until it is popped.
pub(crate) fn push_context(device: Ordinal) {
    let before = context().map(|device| device.0);
    // In a thread that is ending there is nothing to come back to.
    CONTEXTS.try_with(|contexts| contexts.borrow_mut().push(before)).unwrap_or_default();
    set_device(device);
}

/// Comes back to the context that was current before, if any.
pub(crate) fn pop_context() {
    let before = CONTEXTS.try_with(|contexts| contexts.borrow_mut().pop()).ok().flatten().flatten();
    set_context(before.map(Ordinal));
}

/// Runs a call whose stream 0 is the thread's own.
pub(crate) fn per_thread<R>(call: impl FnOnce() -> R) -> R {
    let before = IS_PER_THREAD.replace(true);
    let answer = call();
    IS_PER_THREAD.set(before);
    answer
}

/// What stream 0 means in the present call.
pub(crate) fn null_stream() -> StreamRef {
    if IS_PER_THREAD.get() { StreamRef::PerThread } else { StreamRef::Legacy }
}

/// Keeps a refusal's sentence.
pub(crate) fn remember(failure: &Failure) {
    let keep = |said: &RefCell<Said>| {
        let mut said = said.borrow_mut();
        said.code = failure.code.0;
        said.sentence.clear();
        said.sentence.push_str(&failure.text);
    };
    // A thread that is ending has nowhere to keep it.
    SAID.try_with(keep).unwrap_or_default();
}

/// Sets the error of `cudaGetLastError`.
pub(crate) fn set_last_error(code: cudaError_t) {
    LAST_ERROR.set((code.0, process::recoveries()));
}

/// The error of `cudaGetLastError`.
pub(crate) fn last_error() -> cudaError_t {
    cudaError_t(LAST_ERROR.get().0)
}

/// Forgets it, unless it is of the kind after which nothing works any more, and nobody has recovered since.
pub(crate) fn clear_last_error() {
    let (code, recoveries) = LAST_ERROR.get();
    if !cudaError_t(code).is_sticky() || recoveries != process::recoveries() {
        LAST_ERROR.set((0, 0));
    }
}

/// The sentence to the last refusal; empty where there was none.
pub(crate) fn sentence() -> String {
    SAID.try_with(|said| said.borrow().sentence.clone()).unwrap_or_default()
}

/// A code's text, with the sentence to it if that is what the thread was refused with last. It is good until the thread
/// asks again.
pub(crate) fn text(code: i32, plain: &'static CStr) -> *const c_char {
    let told = SAID.try_with(|said| {
        let mut said = said.borrow_mut();
        if said.code != code || said.sentence.is_empty() || code == 0 {
            return plain.as_ptr();
        }
        let text = format!("{} [FakeGPU: {}]", plain.to_string_lossy(), said.sentence);
        said.handed_out = CString::new(text.replace('\0', " ")).unwrap_or_default();
        said.handed_out.as_ptr()
    });
    told.unwrap_or(plain.as_ptr())
}

pub(crate) fn push(configuration: Configuration) {
    // A thread that is ending launches no kernel any more.
    PUSHED.try_with(|pushed| pushed.borrow_mut().push(configuration)).unwrap_or_default();
}

pub(crate) fn pop() -> Option<Configuration> {
    PUSHED.try_with(|pushed| pushed.borrow_mut().pop()).ok().flatten()
}
