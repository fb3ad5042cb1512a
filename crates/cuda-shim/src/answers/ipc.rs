//! Memory and events that processes share.

use fakegpu_cuda::IpcHandle;
use fakegpu_cuda_abi::runtime::answers::Ipc;
use fakegpu_cuda_abi::types::*;

use crate::failure::put;
use crate::properties::FromByte as _;
use crate::shim::{Shim, address, event, handle};

impl Ipc for Shim {
    unsafe fn cudaIpcGetMemHandle(&self, to: *mut cudaIpcMemHandle_t, dev_ptr: *mut c_void) -> cudaError_t {
        self.world(|world| {
            let exported = world.ipc_memory_handle(dev_ptr.addr())?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, cudaIpcMemHandle_t { reserved: to_c(exported) }, "the handle") }
        })
    }

    unsafe fn cudaIpcOpenMemHandle(
        &self,
        dev_ptr: *mut *mut c_void,
        from: cudaIpcMemHandle_t,
        _flags: c_uint,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            let opened = world.ipc_open_memory(device, from_c(from.reserved))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dev_ptr, address(opened), "the pointer") }
        })
    }

    unsafe fn cudaIpcCloseMemHandle(&self, dev_ptr: *mut c_void) -> cudaError_t {
        self.world(|world| Ok(world.ipc_close_memory(dev_ptr.addr())?))
    }

    unsafe fn cudaIpcGetEventHandle(&self, to: *mut cudaIpcEventHandle_t, of: cudaEvent_t) -> cudaError_t {
        self.world(|world| {
            let exported = world.ipc_event_handle(event(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, cudaIpcEventHandle_t { reserved: to_c(exported) }, "the handle") }
        })
    }

    unsafe fn cudaIpcOpenEventHandle(&self, to: *mut cudaEvent_t, from: cudaIpcEventHandle_t) -> cudaError_t {
        self.on_device(|world, device| {
            let opened = world.ipc_open_event(device, from_c(from.reserved))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, handle(opened.into_raw()), "the event") }
        })
    }
}

pub(crate) fn to_c(handle: IpcHandle) -> [c_char; 64] {
    handle.into_bytes().map(c_char::from_ne_byte)
}

pub(crate) fn from_c(bytes: [c_char; 64]) -> IpcHandle {
    IpcHandle::from_bytes(bytes.map(|byte| u8::from_ne_bytes(byte.to_ne_bytes())))
}
