//! The table by which another library of the process, such as NCCL's, puts work on CUDA streams.

use std::ffi::{c_char, c_int, c_void};

use crate::codes::cudaError_t;
use crate::types::{cudaMemoryType, cudaStream_t};

/// The form of [`StreamTable`] and of what it takes.
pub const STREAMS_VERSION: u32 = 1;

/// Work on a stream: the stream comes to it, and then asks again and again until it has ended.
///
/// The functions are called from any thread, but never two at a time on the same data, and possibly before `enqueue` returns.
/// Whoever takes the work calls `drop` once on each data, ended or not.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StreamWork {
    /// What the functions are given.
    pub data: *mut c_void,
    /// Does what can be done without waiting, and says how far it is: one of [`turn`]'s numbers. When it has ended,
    /// `modelled_ps` is the time it takes, in picoseconds. When it failed, a sentence goes to `text`, of `text_size` bytes,
    /// and ends in NUL.
    pub turn: unsafe extern "C" fn(
        data: *mut c_void,
        modelled_ps: *mut u64,
        text: *mut c_char,
        text_size: usize,
    ) -> c_int,
    /// Waits until more can be done, at most so many microseconds.
    pub wait: unsafe extern "C" fn(data: *mut c_void, timeout_us: u64),
    /// Frees the work.
    pub drop: unsafe extern "C" fn(data: *mut c_void),
    /// Makes new data for one more run, NULL where that cannot be: with it the work may be captured into a graph, whose every
    /// launch runs data made anew, and `data` itself is never run. Without it a stream that captures refuses the work.
    pub again: Option<unsafe extern "C" fn(data: *mut c_void) -> *mut c_void>,
    /// What it is, for sentences; a C string that is copied, or NULL.
    pub name: *const c_char,
}

/// What [`StreamWork::turn`] answers.
pub mod turn {
    use std::ffi::c_int;

    /// Others have yet to do their part.
    pub const PENDING: c_int = 0;
    /// It has ended.
    pub const ENDED: c_int = 1;
    /// It failed, and its stream with it.
    pub const FAILED: c_int = 2;
}

/// A stream as a caller names it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StreamName {
    /// The handle, as the program passes it: 0 and the small numbers of the default streams too.
    pub handle: cudaStream_t,
    /// The device that a default stream is meant of.
    pub device: c_int,
}

/// What is known of a stream.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamLook {
    /// Its device.
    pub device: c_int,
    /// 1 where it is being captured, 0 where not.
    pub is_capturing: c_int,
}

/// What is known of a pointer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PointerLook {
    /// What it points to.
    pub kind: cudaMemoryType,
    /// The device of the memory; -1 where it has none.
    pub device: c_int,
    /// Where the allocation begins.
    pub base: usize,
    /// Bytes of the allocation.
    pub size: usize,
}

/// What FakeGPU's `libcuda.so.1` lets other libraries do; given out by `fakegpu_cuda_streams`.
///
/// Every function answers with a code, and keeps the sentence to it for [`last_text`](Self::last_text) in the calling
/// thread. None sets the error that `cudaGetLastError` answers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StreamTable {
    /// Bytes of the table.
    pub size: usize,
    /// [`STREAMS_VERSION`].
    pub version: u32,
    /// Looks at a stream; `cudaErrorInvalidResourceHandle` where the handle is none.
    pub look: unsafe extern "C" fn(stream: StreamName, look: *mut StreamLook) -> cudaError_t,
    /// Puts work on a stream, behind all that is there. The work is the table's from now on, also where it is refused.
    pub enqueue: unsafe extern "C" fn(stream: StreamName, work: StreamWork) -> cudaError_t,
    /// Makes each of these streams wait for what the others hold now.
    pub join: unsafe extern "C" fn(streams: *const StreamName, count: usize) -> cudaError_t,
    /// Returns when the stream is idle; the caller helps with its work.
    pub drain: unsafe extern "C" fn(stream: StreamName) -> cudaError_t,
    /// Forgets what a stream failed by, so that it can be used again: for a library that recovers from what it let fail.
    pub forgive: unsafe extern "C" fn(stream: StreamName) -> cudaError_t,
    /// Looks at a pointer; an address that CUDA does not know is `cudaMemoryTypeUnregistered`, not an error.
    pub pointer: unsafe extern "C" fn(pointer: *const c_void, look: *mut PointerLook) -> cudaError_t,
    /// 1 once the program has used a device: a runtime that is only loaded is none of a program's business.
    pub is_used: unsafe extern "C" fn() -> c_int,
    /// The calling thread's current device.
    pub current_device: unsafe extern "C" fn(device: *mut c_int) -> cudaError_t,
    /// The sentence to this thread's last refused call, cut to `size` bytes and ended in NUL.
    pub last_text: unsafe extern "C" fn(text: *mut c_char, size: usize),
}

impl StreamTable {
    /// Whether this is the table that this release knows.
    pub const fn is_ours(&self) -> bool {
        self.size == size_of::<Self>() && self.version == STREAMS_VERSION
    }
}
