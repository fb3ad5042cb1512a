//! Events.

use fakegpu_cuda::{EventFlags, Ordinal, World};
use fakegpu_cuda_abi::runtime::answers::Event;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put};
use crate::shim::{Shim, event, handle, stream};

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;

impl Event for Shim {
    unsafe fn cudaEventCreate(&self, to: *mut cudaEvent_t) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { create(world, device, to, 0) })
    }

    unsafe fn cudaEventCreateWithFlags(&self, to: *mut cudaEvent_t, flags: c_uint) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { create(world, device, to, flags) })
    }

    unsafe fn cudaEventDestroy(&self, of: cudaEvent_t) -> cudaError_t {
        self.world(|world| Ok(world.destroy_event(event(of)?)?))
    }

    unsafe fn cudaEventRecord(&self, of: cudaEvent_t, on: cudaStream_t) -> cudaError_t {
        self.on_device(|world, device| Ok(world.record_event(device, event(of)?, stream(on)?)?))
    }

    unsafe fn cudaEventRecordWithFlags(
        &self,
        of: cudaEvent_t,
        on: cudaStream_t,
        _flags: c_uint,
    ) -> cudaError_t {
        self.on_device(|world, device| Ok(world.record_event(device, event(of)?, stream(on)?)?))
    }

    unsafe fn cudaEventQuery(&self, of: cudaEvent_t) -> cudaError_t {
        self.world(|world| Ok(world.query_event(event(of)?)?))
    }

    unsafe fn cudaEventSynchronize(&self, of: cudaEvent_t) -> cudaError_t {
        self.world(|world| Ok(world.synchronize_event(event(of)?)?))
    }

    unsafe fn cudaEventElapsedTime(&self, ms: *mut f32, start: cudaEvent_t, end: cudaEvent_t) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.world(|world| unsafe { elapsed(world, ms, start, end) })
    }

    unsafe fn cudaEventElapsedTime_v2(
        &self,
        ms: *mut f32,
        start: cudaEvent_t,
        end: cudaEvent_t,
    ) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.world(|world| unsafe { elapsed(world, ms, start, end) })
    }
}

/// # Safety
/// `to` is NULL or writable.
pub(crate) unsafe fn create(world: &World, device: Ordinal, to: *mut cudaEvent_t, flags: c_uint) -> Result {
    if flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0 {
        return Err(Failure::invalid(format!("{flags:#x} are no flags of an event")));
    }
    let flags = EventFlags {
        blocking_sync: flags & BLOCKING_SYNC != 0,
        disable_timing: flags & DISABLE_TIMING != 0,
        interprocess: flags & INTERPROCESS != 0,
    };
    let made = world.create_event(device, flags)?;
    // SAFETY: this function's contract.
    unsafe { put(to, handle(made.into_raw()), "the event") }
}

/// # Safety
/// `ms` is NULL or writable.
#[expect(clippy::cast_possible_truncation, reason = "C's float is all there is room for")]
pub(crate) unsafe fn elapsed(world: &World, ms: *mut f32, start: cudaEvent_t, end: cudaEvent_t) -> Result {
    let elapsed = world.elapsed_ms(event(start)?, event(end)?)?;
    // SAFETY: this function's contract.
    unsafe { put(ms, elapsed as f32, "the time") }
}
