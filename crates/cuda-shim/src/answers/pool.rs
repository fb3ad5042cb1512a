//! Memory pools, and memory in a stream's order.

use fakegpu_cuda::{Ordinal, PoolAttribute, PoolHandle, World};
use fakegpu_cuda_abi::runtime::answers::Pool;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, take};
use crate::shim::{Shim, address, handle, ordinal, raw, stream};

impl Pool for Shim {
    unsafe fn cudaMallocAsync(
        &self,
        dev_ptr: *mut *mut c_void,
        size: usize,
        on: cudaStream_t,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            let memory = world.malloc_async(device, stream(on)?, size)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dev_ptr, address(memory), "the pointer") }
        })
    }

    unsafe fn cudaMallocFromPoolAsync(
        &self,
        ptr: *mut *mut c_void,
        size: usize,
        mem_pool: cudaMemPool_t,
        on: cudaStream_t,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            let memory = world.malloc_from_pool(pool(mem_pool)?, device, stream(on)?, size)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(ptr, address(memory), "the pointer") }
        })
    }

    unsafe fn cudaFreeAsync(&self, dev_ptr: *mut c_void, on: cudaStream_t) -> cudaError_t {
        self.on_device(|world, device| Ok(world.free_async(device, stream(on)?, dev_ptr.addr())?))
    }

    unsafe fn cudaDeviceGetDefaultMemPool(&self, mem_pool: *mut cudaMemPool_t, device: c_int) -> cudaError_t {
        self.world(|world| {
            let found = world.default_pool(ordinal(device)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(mem_pool, handle(found.into_raw()), "the pool") }
        })
    }

    unsafe fn cudaDeviceGetMemPool(&self, mem_pool: *mut cudaMemPool_t, device: c_int) -> cudaError_t {
        self.world(|world| {
            let found = world.current_pool(ordinal(device)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(mem_pool, handle(found.into_raw()), "the pool") }
        })
    }

    unsafe fn cudaDeviceSetMemPool(&self, device: c_int, mem_pool: cudaMemPool_t) -> cudaError_t {
        self.world(|world| Ok(world.set_current_pool(ordinal(device)?, pool(mem_pool)?)?))
    }

    unsafe fn cudaMemPoolCreate(
        &self,
        mem_pool: *mut cudaMemPool_t,
        props: *const cudaMemPoolProps,
    ) -> cudaError_t {
        self.world(|world| {
            // SAFETY: NULL or readable, as the C function requires.
            let props = unsafe { take(props, "the pool's properties") }?;
            let max = u64::try_from(props.maxSize).unwrap_or(u64::MAX);
            let made = world.create_pool(place(props.location)?, max)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(mem_pool, handle(made.into_raw()), "the pool") }
        })
    }

    unsafe fn cudaMemPoolDestroy(&self, mem_pool: cudaMemPool_t) -> cudaError_t {
        self.world(|world| Ok(world.destroy_pool(pool(mem_pool)?)?))
    }

    unsafe fn cudaMemPoolTrimTo(&self, mem_pool: cudaMemPool_t, min_bytes_to_keep: usize) -> cudaError_t {
        self.world(|world| Ok(world.trim_pool(pool(mem_pool)?, min_bytes_to_keep as u64)?))
    }

    unsafe fn cudaMemPoolGetAttribute(
        &self,
        mem_pool: cudaMemPool_t,
        attr: cudaMemPoolAttr,
        value: *mut c_void,
    ) -> cudaError_t {
        // SAFETY: NULL or what the attribute needs, as the C function requires.
        self.world(|world| unsafe { get_attribute(world, mem_pool, attr.0, value) })
    }

    unsafe fn cudaMemPoolSetAttribute(
        &self,
        mem_pool: cudaMemPool_t,
        attr: cudaMemPoolAttr,
        value: *mut c_void,
    ) -> cudaError_t {
        // SAFETY: NULL or what the attribute needs, as the C function requires.
        self.world(|world| unsafe { set_attribute(world, mem_pool, attr.0, value) })
    }

    unsafe fn cudaMemPoolSetAccess(
        &self,
        mem_pool: cudaMemPool_t,
        desc_list: *const cudaMemAccessDesc,
        count: usize,
    ) -> cudaError_t {
        self.world(|world| {
            let home = world.pool_device(pool(mem_pool)?)?;
            for at in 0..count {
                // SAFETY: NULL or an array of `count`, as the C function requires; NULL is refused before it is read.
                let access = unsafe { take(desc_list.wrapping_add(at), "the list of accesses") }?;
                let device = place(access.location)?;
                if device != home && !world.can_access_peer(device, home)? {
                    let text = format!("device {device} cannot reach memory of device {home}");
                    return Err(Failure::new(cudaError_t::cudaErrorPeerAccessUnsupported, text));
                }
            }
            Ok(())
        })
    }

    unsafe fn cudaMemPoolGetAccess(
        &self,
        flags: *mut cudaMemAccessFlags,
        mem_pool: cudaMemPool_t,
        location: *mut cudaMemLocation,
    ) -> cudaError_t {
        self.world(|world| {
            let home = world.pool_device(pool(mem_pool)?)?;
            // SAFETY: NULL or readable, as the C function requires.
            let device = place(unsafe { take(location.cast_const(), "the location") }?)?;
            let can = device == home || world.can_access_peer(device, home)?;
            let granted = if can {
                cudaMemAccessFlags::cudaMemAccessFlagsProtReadWrite
            } else {
                cudaMemAccessFlags::cudaMemAccessFlagsProtNone
            };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(flags, granted, "the flags") }
        })
    }
}

/// A pool of a handle.
pub(crate) fn pool(pool: cudaMemPool_t) -> Result<PoolHandle> {
    PoolHandle::from_raw(raw(pool))
        .ok_or_else(|| Failure::invalid(format!("{:#x} is no memory pool of this process", raw(pool))))
}

fn place(location: cudaMemLocation) -> Result<Ordinal> {
    if location.r#type != cudaMemLocationType::cudaMemLocationTypeDevice {
        return Err(Failure::unsupported(
            "memory pools of FakeGPU are on devices; the location is of another type",
        ));
    }
    ordinal(location.id)
}

/// Attributes that are numbers of 64 bits; the others are an `int`.
const fn is_wide(attribute: c_int) -> bool {
    matches!(attribute, 4..=8)
}

fn known(attribute: c_int) -> Result<PoolAttribute> {
    PoolAttribute::from_raw(attribute).ok_or_else(|| {
        Failure::invalid(format!("{attribute} is no attribute of a memory pool that FakeGPU has"))
    })
}

/// # Safety
/// `value` is NULL or writable as the attribute needs.
pub(crate) unsafe fn get_attribute(
    world: &World,
    of: cudaMemPool_t,
    attribute: c_int,
    value: *mut c_void,
) -> Result {
    let found = world.pool_attribute(pool(of)?, known(attribute)?)?;
    if is_wide(attribute) {
        // SAFETY: NULL or a writable number of 64 bits.
        unsafe { put(value.cast::<u64>(), found, "the value") }
    } else {
        // SAFETY: NULL or a writable `int`.
        unsafe { put(value.cast::<c_int>(), c_int::from(found != 0), "the value") }
    }
}

/// # Safety
/// `value` is NULL or readable as the attribute needs.
pub(crate) unsafe fn set_attribute(
    world: &World,
    of: cudaMemPool_t,
    attribute: c_int,
    value: *mut c_void,
) -> Result {
    let wanted = if is_wide(attribute) {
        // SAFETY: NULL or a readable number of 64 bits.
        unsafe { take(value.cast::<u64>().cast_const(), "the value") }?
    } else {
        // SAFETY: NULL or a readable `int`.
        let flag = unsafe { take(value.cast::<c_int>().cast_const(), "the value") }?;
        u64::from(flag != 0)
    };
    Ok(world.set_pool_attribute(pool(of)?, known(attribute)?, wanted)?)
}
