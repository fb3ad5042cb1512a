//! What the process's CUDA runtime says about its GPU, where the process has one.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use fakegpu_simulate::CudaDevice;

use crate::streams;

thread_local! {
    static HOST_MEMORY: Cell<bool> = const { Cell::new(false) };
}

/// Beside NCCL's functions: whether the communicators that the calling thread makes from now on are for the program's
/// ordinary memory, and so of no GPU, though the thread may sit on one.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_use_host_memory(on: c_int) {
    HOST_MEMORY.set(on != 0);
}

/// Bytes that a PCI bus id takes as CUDA prints it, the end included, and room to spare.
const BUS_ID_BYTES: c_int = 31;

type GetDevice = unsafe extern "C" fn(*mut c_int) -> c_int;
type GetBusId = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;

/// The device that the calling thread sits on; `None` without a CUDA runtime in the process, where it has no device, or
/// where it is ours and the program, which has memory of its own, never used it.
pub(crate) fn device() -> Option<CudaDevice> {
    if HOST_MEMORY.get() {
        return None;
    }
    let found = current_device();
    // The question has loaded what a CUDA runtime loads at its first call.
    streams::look_for_runtime();
    found.filter(|_| streams::is_runtime_used())
}

fn current_device() -> Option<CudaDevice> {
    let get_device = symbol(c"cudaGetDevice")?;
    let get_bus_id = symbol(c"cudaDeviceGetPCIBusId")?;
    // SAFETY: a symbol of this name is the CUDA runtime's function, which has this signature.
    let get_device = unsafe { std::mem::transmute::<*mut libc::c_void, GetDevice>(get_device) };
    // SAFETY: as above.
    let get_bus_id = unsafe { std::mem::transmute::<*mut libc::c_void, GetBusId>(get_bus_id) };
    let mut device = 0;
    // SAFETY: `device` is writable.
    if unsafe { get_device(&raw mut device) } != 0 {
        return None;
    }
    // One more, which stays the end whatever is written.
    let mut text: [c_char; BUS_ID_BYTES as usize + 1] = [0; BUS_ID_BYTES as usize + 1];
    // SAFETY: the buffer is writable for as many bytes as are said.
    if unsafe { get_bus_id(text.as_mut_ptr(), BUS_ID_BYTES, device) } != 0 {
        return None;
    }
    // SAFETY: the last byte was never offered for writing and is the end.
    let bus_id = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
    Some(CudaDevice { number: u32::try_from(device).ok()?, bus_id })
}

/// A function that some library of the process exports.
fn symbol(name: &CStr) -> Option<*mut libc::c_void> {
    // SAFETY: the name is a C string; looking a symbol up runs nothing of the program's.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_cuda_runtime_there_is_no_device() {
        assert_eq!(device(), None);
        assert!(symbol(c"malloc").is_some());
    }
}
