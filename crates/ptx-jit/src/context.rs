//! What a running kernel's code knows of its thread: one structure that generated code and Rust share.

use std::mem::offset_of;

use crate::run::Worker;

/// The structure that the code is handed. Behind it lie the ranges that each place of the code found last.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Context {
    /// The address of the launch's arguments.
    pub(crate) params: u64,
    /// The address of the addresses of the module's variables.
    pub(crate) variables: u64,
    /// The address of the thread's local memory.
    pub(crate) local: u64,
    /// What Rust keeps for this thread of the host.
    pub(crate) worker: *mut Worker,
    pub(crate) tid: [u32; 3],
    pub(crate) ntid: [u32; 3],
    pub(crate) ctaid: [u32; 3],
    pub(crate) nctaid: [u32; 3],
    pub(crate) lane: u32,
    pub(crate) warp: u32,
    pub(crate) warps: u32,
    pub(crate) multiprocessor: u32,
    pub(crate) multiprocessors: u32,
    pub(crate) shared_bytes: u32,
}

/// A range of memory that a place of the code may touch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Its first address, a multiple of 16.
    pub(crate) base: u64,
    /// How many elements of the place's size lie in it; 0 in a window that nothing was found for yet.
    pub(crate) elements: u64,
}

/// Where the members lie, as the code addresses them.
pub(crate) mod at {
    use super::*;

    const fn small(offset: usize) -> i32 {
        assert!(offset < 4096, "the structure is small");
        #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "checked above")]
        let offset = offset as i32;
        offset
    }

    pub(crate) const PARAMS: i32 = small(offset_of!(Context, params));
    pub(crate) const VARIABLES: i32 = small(offset_of!(Context, variables));
    pub(crate) const LOCAL: i32 = small(offset_of!(Context, local));
    pub(crate) const TID: i32 = small(offset_of!(Context, tid));
    pub(crate) const NTID: i32 = small(offset_of!(Context, ntid));
    pub(crate) const CTAID: i32 = small(offset_of!(Context, ctaid));
    pub(crate) const NCTAID: i32 = small(offset_of!(Context, nctaid));
    pub(crate) const LANE: i32 = small(offset_of!(Context, lane));
    pub(crate) const WARP: i32 = small(offset_of!(Context, warp));
    pub(crate) const WARPS: i32 = small(offset_of!(Context, warps));
    pub(crate) const MULTIPROCESSOR: i32 = small(offset_of!(Context, multiprocessor));
    pub(crate) const MULTIPROCESSORS: i32 = small(offset_of!(Context, multiprocessors));
    pub(crate) const SHARED_BYTES: i32 = small(offset_of!(Context, shared_bytes));
    pub(crate) const WINDOWS: i32 = small(size_of::<Context>());
}

/// Words of 64 bits that the structure takes.
pub(crate) const CONTEXT_WORDS: usize = size_of::<Context>() / 8;

/// What a call of the code comes back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status;

impl Status {
    pub(crate) const RETURNED: u32 = 0;
    /// The thread has ended inside a function.
    pub(crate) const EXITED: u32 = 1;
    pub(crate) const FAULTED: u32 = 2;
}
