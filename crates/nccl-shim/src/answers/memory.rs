//! Buffers and windows.

use fakegpu_nccl_abi::types::*;
use fakegpu_simulate::{Fault, Outcome};

use crate::edge::{Edge, handle, put};

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommRegister(
    edge: &Edge,
    comm: ncclComm_t,
    buff: *mut c_void,
    size: usize,
    register: *mut *mut c_void,
) -> Result<(), Fault> {
    if register.is_null() {
        return Err(Fault::argument("the registration's address is NULL"));
    }
    let number = edge.runtime().register(handle(comm), buff.addr(), size)?;
    // SAFETY: not NULL, so writable.
    unsafe { put(register, std::ptr::without_provenance_mut(number), "the registration's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommDeregister(
    edge: &Edge,
    comm: ncclComm_t,
    number: *mut c_void,
) -> Result<(), Fault> {
    edge.runtime().deregister(handle(comm), number.addr())
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclMemAlloc(edge: &Edge, ptr: *mut *mut c_void, size: usize) -> Result<(), Fault> {
    if ptr.is_null() {
        return Err(Fault::argument("the memory's address is NULL"));
    }
    let made = edge.runtime().allocate(size)?;
    // SAFETY: not NULL, so writable.
    unsafe { put(ptr, made.cast(), "the memory's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclMemFree(edge: &Edge, ptr: *mut c_void) -> Result<(), Fault> {
    if ptr.is_null() { Ok(()) } else { edge.runtime().free(ptr.addr()) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommWindowRegister(
    edge: &Edge,
    comm: ncclComm_t,
    buff: *mut c_void,
    size: usize,
    win: *mut ncclWindow_t,
    win_flags: c_int,
) -> Result<Outcome, Fault> {
    if win.is_null() {
        return Err(Fault::argument("the window's address is NULL"));
    }
    // SAFETY: not NULL, so writable.
    unsafe { put(win, std::ptr::null_mut(), "the window's address") }?;
    let place = Place(win);
    let show = move |number: usize| {
        let place = place;
        // SAFETY: the C caller keeps the place writable until the call, or the group that holds it, has ended.
        unsafe { place.0.write(std::ptr::without_provenance_mut(number)) };
    };
    edge.runtime().window_register(handle(comm), buff.addr(), size, win_flags, Box::new(show))
}

/// Where a window's handle goes once all ranks have called.
struct Place(*mut ncclWindow_t);

// SAFETY: it is written to under the contract of `ncclCommWindowRegister`, which names no thread.
unsafe impl Send for Place {}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommWindowDeregister(
    edge: &Edge,
    comm: ncclComm_t,
    win: ncclWindow_t,
) -> Result<Outcome, Fault> {
    edge.runtime().window_deregister(handle(comm), win.addr())
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclWinGetUserPtr(
    edge: &Edge,
    comm: ncclComm_t,
    win: ncclWindow_t,
    out_user_ptr: *mut *mut c_void,
) -> Result<(), Fault> {
    let address = edge.runtime().window_user_address(handle(comm), win.addr())?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(out_user_ptr, std::ptr::with_exposed_provenance_mut(address), "the pointer's address") }
}
