//! Contexts. Each device has one, which every thread of the process shares: what CUDA calls its primary context.

use fakegpu_cuda::{Ordinal, World};
use fakegpu_cuda_abi::DRIVER_VERSION;
use fakegpu_cuda_abi::driver::Context;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, put_if_wanted};
use crate::process;
use crate::shim::{Shim, handle, number, ordinal, raw};
use crate::thread;

/// High bits of a context's handle; no other handle has them, nor any address of user space.
const TAG: u64 = 0x5a << 52;

/// The handle of a device's context.
pub(crate) fn context_of(device: Ordinal) -> CUcontext {
    handle(TAG | (u64::from(device.0) + 1) << 4)
}

/// The device of a context's handle.
pub(crate) fn device_of(context: CUcontext) -> Result<Ordinal> {
    let number = raw(context);
    let place = (number ^ TAG) >> 4;
    match u32::try_from(place) {
        Ok(place) if place > 0 && number & 0xf == 0 => Ok(Ordinal(place - 1)),
        _ => Err(Failure::new(
            cudaError_t::cudaErrorDeviceUninitialized,
            format!("{number:#x} is no context of this process"),
        )),
    }
}

/// The device of the thread's current context.
fn current() -> Result<Ordinal> {
    thread::context().ok_or_else(|| {
        let text = "no context is current in this thread; call cuCtxSetCurrent or cudaSetDevice first";
        Failure::new(cudaError_t::cudaErrorDeviceUninitialized, text)
    })
}

impl Context for Shim {
    unsafe fn cuDevicePrimaryCtxRetain(&self, pctx: *mut CUcontext, dev: CUdevice) -> CUresult {
        self.drive_world(|world| {
            let device = use_device(world, dev)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pctx, context_of(device), "the context") }
        })
    }

    unsafe fn cuDevicePrimaryCtxRelease_v2(&self, dev: CUdevice) -> CUresult {
        self.drive_world(|world| Ok(world.device(ordinal(dev)?).map(drop)?))
    }

    unsafe fn cuDevicePrimaryCtxSetFlags_v2(&self, dev: CUdevice, flags: c_uint) -> CUresult {
        self.drive_world(|world| {
            world.device(ordinal(dev)?)?;
            process::set_device_flags(flags);
            Ok(())
        })
    }

    unsafe fn cuDevicePrimaryCtxGetState(
        &self,
        dev: CUdevice,
        flags: *mut c_uint,
        active: *mut c_int,
    ) -> CUresult {
        self.drive_world(|world| {
            let device = world.device(ordinal(dev)?)?.ordinal;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(flags, process::device_flags()) };
            // SAFETY: as above.
            unsafe { put_if_wanted(active, c_int::from(process::is_used(device))) };
            Ok(())
        })
    }

    unsafe fn cuDevicePrimaryCtxReset_v2(&self, dev: CUdevice) -> CUresult {
        self.drive_world(|world| Ok(world.synchronize_device(ordinal(dev)?)?))
    }

    unsafe fn cuCtxCreate_v2(&self, pctx: *mut CUcontext, _flags: c_uint, dev: CUdevice) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_world(|world| unsafe { create(world, pctx, dev) })
    }

    unsafe fn cuCtxCreate_v3(
        &self,
        pctx: *mut CUcontext,
        _params_array: *mut c_void,
        _num_params: c_int,
        _flags: c_uint,
        dev: CUdevice,
    ) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_world(|world| unsafe { create(world, pctx, dev) })
    }

    unsafe fn cuCtxCreate_v4(
        &self,
        pctx: *mut CUcontext,
        _ctx_create_params: *mut c_void,
        _flags: c_uint,
        dev: CUdevice,
    ) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_world(|world| unsafe { create(world, pctx, dev) })
    }

    unsafe fn cuCtxDestroy_v2(&self, ctx: CUcontext) -> CUresult {
        self.drive(device_of(ctx).map(|device| {
            // The device's one context goes on for others; here it is current no more.
            if thread::context() == Some(device) {
                thread::pop_context();
            }
        }))
    }

    unsafe fn cuCtxPushCurrent_v2(&self, ctx: CUcontext) -> CUresult {
        self.drive_world(|world| {
            let device = device_of(ctx)?;
            world.device(device)?;
            thread::push_context(device);
            Ok(())
        })
    }

    unsafe fn cuCtxPopCurrent_v2(&self, pctx: *mut CUcontext) -> CUresult {
        self.drive(current().map(|device| {
            thread::pop_context();
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(pctx, context_of(device)) };
        }))
    }

    unsafe fn cuCtxSetCurrent(&self, ctx: CUcontext) -> CUresult {
        if ctx.is_null() {
            thread::set_context(None);
            return CUresult::CUDA_SUCCESS;
        }
        self.drive_world(|world| {
            let device = device_of(ctx)?;
            world.device(device)?;
            thread::set_context(Some(device));
            Ok(())
        })
    }

    unsafe fn cuCtxGetCurrent(&self, pctx: *mut CUcontext) -> CUresult {
        let found = thread::context().map_or(std::ptr::null_mut(), context_of);
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(unsafe { put(pctx, found, "the context") })
    }

    unsafe fn cuCtxGetDevice(&self, device: *mut CUdevice) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(current().and_then(|found| unsafe { put(device, number(found), "the device") }))
    }

    unsafe fn cuCtxGetDevice_v2(&self, device: *mut CUdevice, ctx: CUcontext) -> CUresult {
        let found = if ctx.is_null() { current() } else { device_of(ctx) };
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(found.and_then(|found| unsafe { put(device, number(found), "the device") }))
    }

    unsafe fn cuCtxGetFlags(&self, flags: *mut c_uint) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(current().and_then(|_| unsafe { put(flags, process::device_flags(), "the flags") }))
    }

    unsafe fn cuCtxGetId(&self, ctx: CUcontext, ctx_id: *mut u64) -> CUresult {
        let found = if ctx.is_null() { current() } else { device_of(ctx) };
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(found.and_then(|found| unsafe { put(ctx_id, u64::from(found.0) + 1, "the id") }))
    }

    unsafe fn cuCtxSynchronize(&self) -> CUresult {
        self.drive_world(|world| Ok(world.synchronize_device(current()?)?))
    }

    unsafe fn cuCtxSynchronize_v2(&self, ctx: CUcontext) -> CUresult {
        let found = if ctx.is_null() { current() } else { device_of(ctx) };
        self.drive_world(|world| Ok(world.synchronize_device(found?)?))
    }

    unsafe fn cuCtxGetApiVersion(&self, _ctx: CUcontext, version: *mut c_uint) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(unsafe { put(version, DRIVER_VERSION.unsigned_abs(), "the version") })
    }

    unsafe fn cuCtxGetStreamPriorityRange(&self, least: *mut c_int, greatest: *mut c_int) -> CUresult {
        self.drive(current().map(|_| {
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(least, World::PRIORITY_LEAST) };
            // SAFETY: as above.
            unsafe { put_if_wanted(greatest, World::PRIORITY_GREATEST) };
        }))
    }

    unsafe fn cuCtxSetCacheConfig(&self, _config: CUfunc_cache) -> CUresult {
        self.drive(current().map(drop))
    }
}

fn use_device(world: &World, dev: CUdevice) -> Result<Ordinal> {
    let device = world.device(ordinal(dev)?)?.ordinal;
    process::note_use(device);
    Ok(device)
}

/// A context of the program's own is the device's one.
///
/// # Safety
/// `to` is NULL or writable.
unsafe fn create(world: &World, to: *mut CUcontext, dev: CUdevice) -> Result {
    let device = use_device(world, dev)?;
    // SAFETY: this function's contract.
    unsafe { put(to, context_of(device), "the context") }?;
    thread::push_context(device);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_names_its_device_and_nothing_else_is_one() {
        assert_eq!(device_of(context_of(Ordinal(3))).unwrap(), Ordinal(3));
        for wrong in [0, 16, TAG, TAG | 8, u64::MAX] {
            assert!(device_of(handle(wrong)).is_err(), "{wrong:#x}");
        }
    }
}
