//! Pairs of devices, and what processes share.

use fakegpu_cuda::{Copy, CopyKind, Vouched};
use fakegpu_cuda_abi::driver::{Ipc, Peer};
use fakegpu_cuda_abi::types::*;

use super::context::device_of;
use crate::answers::{from_c, to_c};
use crate::failure::{Failure, Result, put};
use crate::shim::{Shim, event, handle, ordinal, stream};
use crate::thread;

/// # Safety
/// The ends are good for the copy.
unsafe fn flat(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize) -> Result<Copy> {
    let at = |pointer| usize::try_from(pointer).map_err(|_| Failure::invalid("that is no address"));
    let (dst, src) = (at(dst)?, at(src)?);
    // SAFETY: this function's contract.
    let dst = unsafe { Vouched::new(dst) };
    // SAFETY: this function's contract.
    let src = unsafe { Vouched::new(src) };
    Ok(Copy::flat(dst, src, bytes, CopyKind::DeviceToDevice))
}

impl Peer for Shim {
    unsafe fn cuMemcpyPeer(
        &self,
        dst: CUdeviceptr,
        _dst_context: CUcontext,
        src: CUdeviceptr,
        _src_context: CUcontext,
        byte_count: usize,
    ) -> CUresult {
        // SAFETY: the program's memory, good for the copy, as the C function requires.
        let copy = unsafe { flat(dst, src, byte_count) };
        self.drive_device(|world, device| Ok(world.copy_sync(device, thread::null_stream(), &copy?)?))
    }

    unsafe fn cuMemcpyPeerAsync(
        &self,
        dst: CUdeviceptr,
        _dst_context: CUcontext,
        src: CUdeviceptr,
        _src_context: CUcontext,
        byte_count: usize,
        on: CUstream,
    ) -> CUresult {
        // SAFETY: the program's memory, good until the stream has copied, as the C function requires.
        let copy = unsafe { flat(dst, src, byte_count) };
        self.drive_device(|world, device| Ok(world.copy(device, stream(on)?, &copy?)?))
    }

    unsafe fn cuDeviceCanAccessPeer(
        &self,
        can_access_peer: *mut c_int,
        dev: CUdevice,
        peer_dev: CUdevice,
    ) -> CUresult {
        self.drive_world(|world| {
            let can = world.can_access_peer(ordinal(dev)?, ordinal(peer_dev)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(can_access_peer, c_int::from(can), "the answer") }
        })
    }

    unsafe fn cuCtxEnablePeerAccess(&self, peer_context: CUcontext, _flags: c_uint) -> CUresult {
        self.drive_device(|world, device| Ok(world.enable_peer(device, device_of(peer_context)?)?))
    }

    unsafe fn cuCtxDisablePeerAccess(&self, peer_context: CUcontext) -> CUresult {
        self.drive_device(|world, device| Ok(world.disable_peer(device, device_of(peer_context)?)?))
    }
}

impl Ipc for Shim {
    unsafe fn cuIpcGetMemHandle(&self, to: *mut CUipcMemHandle, dptr: CUdeviceptr) -> CUresult {
        self.drive_world(|world| {
            let exported = world.ipc_memory_handle(usize::try_from(dptr).unwrap_or(0))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, CUipcMemHandle { reserved: to_c(exported) }, "the handle") }
        })
    }

    unsafe fn cuIpcOpenMemHandle_v2(
        &self,
        pdptr: *mut CUdeviceptr,
        from: CUipcMemHandle,
        _flags: c_uint,
    ) -> CUresult {
        self.drive_device(|world, device| {
            let opened = world.ipc_open_memory(device, from_c(from.reserved))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pdptr, opened as u64, "the pointer") }
        })
    }

    unsafe fn cuIpcCloseMemHandle(&self, dptr: CUdeviceptr) -> CUresult {
        self.drive_world(|world| Ok(world.ipc_close_memory(usize::try_from(dptr).unwrap_or(0))?))
    }

    unsafe fn cuIpcGetEventHandle(&self, to: *mut CUipcEventHandle, of: CUevent) -> CUresult {
        self.drive_world(|world| {
            let exported = world.ipc_event_handle(event(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, CUipcEventHandle { reserved: to_c(exported) }, "the handle") }
        })
    }

    unsafe fn cuIpcOpenEventHandle(&self, to: *mut CUevent, from: CUipcEventHandle) -> CUresult {
        self.drive_device(|world, device| {
            let opened = world.ipc_open_event(device, from_c(from.reserved))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(to, handle(opened.into_raw()), "the event") }
        })
    }
}
