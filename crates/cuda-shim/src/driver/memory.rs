//! Memory, memory pools, and what pointers are.

use fakegpu_cuda::{Attributes, Copy, CopyKind, MemoryKind, PoolHandle, Rows, Vouched, World};
use fakegpu_cuda_abi::driver::{Memory, Pool};
use fakegpu_cuda_abi::types::*;

use super::context::context_of;
use crate::answers::{get_attribute, host_alloc, memory_info, pool, set_attribute};
use crate::failure::{Failure, Result, put, put_if_wanted, take};
use crate::shim::{Shim, handle, number, ordinal, raw, stream};
use crate::thread;

/// An address as the driver's functions take it.
fn at(pointer: CUdeviceptr) -> Result<usize> {
    usize::try_from(pointer).map_err(|_| Failure::invalid(format!("{pointer:#x} is no address")))
}

/// Memory that the program vouches for.
///
/// # Safety
/// As of [`Vouched::new`].
unsafe fn vouched(pointer: CUdeviceptr) -> Result<Vouched> {
    // SAFETY: this function's contract.
    Ok(unsafe { Vouched::new(at(pointer)?) })
}

/// # Safety
/// As of [`Vouched::new`].
const unsafe fn ends(dst: usize, src: usize) -> (Vouched, Vouched) {
    // SAFETY: this function's contract.
    let dst = unsafe { Vouched::new(dst) };
    // SAFETY: this function's contract.
    let src = unsafe { Vouched::new(src) };
    (dst, src)
}

/// Rows of a memset.
fn row(width: usize) -> Rows {
    Rows { pitch: 0, slice: 0, width, height: 1, depth: 1 }
}

macro_rules! copies {
    ($($sync:ident $on_stream:ident ($dst:ident: $dst_ty:ty, $src:ident: $src_ty:ty) $kind:ident
        ($dst_at:expr, $src_at:expr);)*) => { $(
        unsafe fn $sync(&self, $dst: $dst_ty, $src: $src_ty, byte_count: usize) -> CUresult {
            self.drive_device(|world, device| {
                // SAFETY: the program's memory, good for the copy, as the C function requires.
                let (dst, src) = unsafe { ends($dst_at, $src_at) };
                let copy = Copy::flat(dst, src, byte_count, CopyKind::$kind);
                Ok(world.copy_sync(device, thread::null_stream(), &copy)?)
            })
        }

        unsafe fn $on_stream(
            &self,
            $dst: $dst_ty,
            $src: $src_ty,
            byte_count: usize,
            on: CUstream,
        ) -> CUresult {
            self.drive_device(|world, device| {
                // SAFETY: the program's memory, good until the stream has copied, as the C function requires.
                let (dst, src) = unsafe { ends($dst_at, $src_at) };
                let copy = Copy::flat(dst, src, byte_count, CopyKind::$kind);
                Ok(world.copy(device, stream(on)?, &copy)?)
            })
        }
    )* };
}

macro_rules! memsets {
    ($($sync:ident $on_stream:ident $ty:ty, $bytes:literal;)*) => { $(
        unsafe fn $sync(&self, dst: CUdeviceptr, value: $ty, n: usize) -> CUresult {
            self.drive_device(|world, device| {
                // SAFETY: the program's memory, good for the memset, as the C function requires.
                let target = unsafe { vouched(dst) }?;
                let value = (u32::from(value), $bytes);
                Ok(world.fill_rows(device, thread::null_stream(), target, value, row(n))?)
            })
        }

        unsafe fn $on_stream(&self, dst: CUdeviceptr, value: $ty, n: usize, on: CUstream) -> CUresult {
            self.drive_device(|world, device| {
                // SAFETY: the program's memory, good until the stream has set it, as the C function requires.
                let target = unsafe { vouched(dst) }?;
                Ok(world.fill_rows(device, stream(on)?, target, (u32::from(value), $bytes), row(n))?)
            })
        }
    )* };
}

impl Memory for Shim {
    copies! {
        cuMemcpy cuMemcpyAsync (dst: CUdeviceptr, src: CUdeviceptr) Default (at(dst)?, at(src)?);
        cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 (dst: CUdeviceptr, src: *const c_void) HostToDevice
            (at(dst)?, src.expose_provenance());
        cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 (dst: *mut c_void, src: CUdeviceptr) DeviceToHost
            (dst.expose_provenance(), at(src)?);
        cuMemcpyDtoD_v2 cuMemcpyDtoDAsync_v2 (dst: CUdeviceptr, src: CUdeviceptr) DeviceToDevice
            (at(dst)?, at(src)?);
    }

    memsets! {
        cuMemsetD8_v2 cuMemsetD8Async u8, 1;
        cuMemsetD16_v2 cuMemsetD16Async u16, 2;
        cuMemsetD32_v2 cuMemsetD32Async c_uint, 4;
    }

    unsafe fn cuMemGetInfo_v2(&self, free: *mut usize, total: *mut usize) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { memory_info(world, device, free, total) })
    }

    unsafe fn cuMemAlloc_v2(&self, dptr: *mut CUdeviceptr, bytesize: usize) -> CUresult {
        self.drive_device(|world, device| {
            // The driver has no memory of no bytes, unlike the runtime.
            if bytesize == 0 {
                return Err(Failure::invalid("memory of 0 bytes cannot be had"));
            }
            let memory = world.malloc(device, bytesize)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dptr, memory as u64, "the pointer") }
        })
    }

    unsafe fn cuMemAllocPitch_v2(
        &self,
        dptr: *mut CUdeviceptr,
        pitch: *mut usize,
        width_in_bytes: usize,
        height: usize,
        _element_size_bytes: c_uint,
    ) -> CUresult {
        self.drive_device(|world, device| {
            let (memory, bytes) = world.malloc_pitch(device, width_in_bytes, height, 1)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pitch, bytes, "the pitch") }?;
            // SAFETY: as above.
            unsafe { put(dptr, memory as u64, "the pointer") }
        })
    }

    unsafe fn cuMemAllocManaged(&self, dptr: *mut CUdeviceptr, bytesize: usize, _flags: c_uint) -> CUresult {
        self.drive_device(|world, device| {
            let memory = world.malloc_managed(device, bytesize)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dptr, memory as u64, "the pointer") }
        })
    }

    unsafe fn cuMemFree_v2(&self, dptr: CUdeviceptr) -> CUresult {
        self.drive_device(|world, _| Ok(world.free(at(dptr)?)?))
    }

    unsafe fn cuMemAllocHost_v2(&self, pp: *mut *mut c_void, bytesize: usize) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { host_alloc(world, device, pp, bytesize, 0) })
    }

    unsafe fn cuMemHostAlloc(&self, pp: *mut *mut c_void, bytesize: usize, flags: c_uint) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { host_alloc(world, device, pp, bytesize, flags) })
    }

    unsafe fn cuMemFreeHost(&self, p: *mut c_void) -> CUresult {
        self.drive_device(|world, _| Ok(world.host_free(p.addr())?))
    }

    unsafe fn cuMemHostRegister_v2(&self, p: *mut c_void, bytesize: usize, flags: c_uint) -> CUresult {
        // SAFETY: the program's memory, which it says it owns, as the C function requires.
        let memory = unsafe { Vouched::new(p.expose_provenance()) };
        self.drive_device(|world, device| Ok(world.host_register(device, memory, bytesize, flags)?))
    }

    unsafe fn cuMemHostUnregister(&self, p: *mut c_void) -> CUresult {
        self.drive_device(|world, _| Ok(world.host_unregister(p.addr())?))
    }

    unsafe fn cuMemHostGetFlags(&self, flags: *mut c_uint, p: *mut c_void) -> CUresult {
        self.drive_device(|world, _| {
            let found = world.host_flags(p.addr())?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(flags, found, "the flags") }
        })
    }

    unsafe fn cuMemHostGetDevicePointer_v2(
        &self,
        pdptr: *mut CUdeviceptr,
        p: *mut c_void,
        _flags: c_uint,
    ) -> CUresult {
        self.drive_device(|world, _| {
            world.host_flags(p.addr())?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pdptr, p.addr() as u64, "the pointer") }
        })
    }

    unsafe fn cuMemGetAddressRange_v2(
        &self,
        pbase: *mut CUdeviceptr,
        psize: *mut usize,
        dptr: CUdeviceptr,
    ) -> CUresult {
        self.drive_world(|world| {
            let known = known(world, dptr)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(pbase, known.base as u64) };
            // SAFETY: as above.
            unsafe { put_if_wanted(psize, known.bytes) };
            Ok(())
        })
    }

    unsafe fn cuMemcpy2D_v2(&self, copy: *const CUDA_MEMCPY2D) -> CUresult {
        // SAFETY: NULL or readable, of memory good for the copy, as the C function requires.
        let copy = unsafe { rectangle(copy) };
        self.drive_device(|world, device| Ok(world.copy_sync(device, thread::null_stream(), &copy?)?))
    }

    unsafe fn cuMemcpy2DUnaligned_v2(&self, copy: *const CUDA_MEMCPY2D) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuMemcpy2D_v2(copy) }
    }

    unsafe fn cuMemcpy2DAsync_v2(&self, copy: *const CUDA_MEMCPY2D, on: CUstream) -> CUresult {
        // SAFETY: NULL or readable, of memory good until the stream has copied, as the C function requires.
        let copy = unsafe { rectangle(copy) };
        self.drive_device(|world, device| Ok(world.copy(device, stream(on)?, &copy?)?))
    }

    unsafe fn cuPointerGetAttribute(
        &self,
        data: *mut c_void,
        attribute: CUpointer_attribute,
        ptr: CUdeviceptr,
    ) -> CUresult {
        self.drive_world(|world| {
            let known = known(world, ptr)?;
            // SAFETY: NULL or writable as the attribute needs, as the C function requires.
            unsafe { pointer_attribute(&known, attribute, data, ptr) }
        })
    }

    unsafe fn cuPointerGetAttributes(
        &self,
        num_attributes: c_uint,
        attributes: *mut CUpointer_attribute,
        data: *mut *mut c_void,
        ptr: CUdeviceptr,
    ) -> CUresult {
        self.drive_world(|world| {
            let known = world.attributes(at(ptr)?)?;
            for index in 0..usize::try_from(num_attributes).unwrap_or(0) {
                // SAFETY: arrays of so many, as the C function requires; NULL is refused before it is read.
                let attribute =
                    unsafe { take(attributes.wrapping_add(index).cast_const(), "the attributes") }?;
                // SAFETY: as above.
                let to = unsafe { take(data.wrapping_add(index).cast_const(), "the values") }?;
                // SAFETY: NULL or writable as the attribute needs, as the C function requires.
                unsafe { pointer_attribute(&known, attribute, to, ptr) }?;
            }
            Ok(())
        })
    }

    unsafe fn cuPointerSetAttribute(
        &self,
        _value: *const c_void,
        attribute: CUpointer_attribute,
        ptr: CUdeviceptr,
    ) -> CUresult {
        self.drive_world(|world| {
            known(world, ptr)?;
            // That synchronous calls wait, they do in any case.
            match attribute {
                CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => Ok(()),
                other => Err(Failure::invalid(format!("{other:?} cannot be set"))),
            }
        })
    }
}

/// What is known of an address that is the world's.
fn known(world: &World, pointer: CUdeviceptr) -> Result<Attributes> {
    let known = world.attributes(at(pointer)?)?;
    if known.kind == MemoryKind::Unregistered {
        return Err(Failure::invalid(format!("{pointer:#x} is no memory that CUDA knows of")));
    }
    Ok(known)
}

/// The value of a pointer's attribute, as wide as C has it.
#[derive(Clone, Copy, Debug)]
enum Value {
    Word(u32),
    Long(u64),
}

/// # Safety
/// `to` is NULL or writable as the attribute needs.
unsafe fn pointer_attribute(
    known: &Attributes,
    attribute: CUpointer_attribute,
    to: *mut c_void,
    pointer: CUdeviceptr,
) -> Result {
    let refused = || Failure::invalid(format!("{attribute:?} is no attribute of a pointer that FakeGPU has"));
    match value_of(known, attribute, pointer).ok_or_else(refused)? {
        // SAFETY: this function's contract.
        Value::Word(value) => unsafe { put(to.cast(), value, "the value") },
        // SAFETY: this function's contract.
        Value::Long(value) => unsafe { put(to.cast(), value, "the value") },
    }
}

fn value_of(known: &Attributes, attribute: CUpointer_attribute, pointer: CUdeviceptr) -> Option<Value> {
    use CUpointer_attribute as A;
    let is_known = known.kind != MemoryKind::Unregistered;
    let is_device = known.kind == MemoryKind::Device;
    let flag = |value| Value::Word(u32::from(value));
    let if_known = |value| Value::Long(if is_known { value } else { 0 });
    Some(match attribute {
        A::CU_POINTER_ATTRIBUTE_CONTEXT => if_known(raw(context_of(known.device))),
        A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => Value::Word(match known.kind {
            MemoryKind::Unregistered => 0,
            MemoryKind::Host => CUmemorytype::CU_MEMORYTYPE_HOST.0.unsigned_abs(),
            MemoryKind::Device | MemoryKind::Managed => CUmemorytype::CU_MEMORYTYPE_DEVICE.0.unsigned_abs(),
        }),
        A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => if_known(pointer),
        A::CU_POINTER_ATTRIBUTE_HOST_POINTER => Value::Long(if is_device { 0 } else { pointer }),
        A::CU_POINTER_ATTRIBUTE_BUFFER_ID | A::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => Value::Long(known.id),
        A::CU_POINTER_ATTRIBUTE_IS_MANAGED => flag(known.kind == MemoryKind::Managed),
        A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
            // `cudaInvalidDeviceId` where there is none.
            let device = if is_known { number(known.device) } else { -2 };
            Value::Word(device.cast_unsigned())
        }
        A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => flag(is_device && !known.is_foreign),
        A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR | A::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => {
            Value::Long(known.base as u64)
        }
        A::CU_POINTER_ATTRIBUTE_RANGE_SIZE | A::CU_POINTER_ATTRIBUTE_MAPPING_SIZE => {
            Value::Long(known.bytes as u64)
        }
        A::CU_POINTER_ATTRIBUTE_MAPPED => flag(is_known),
        A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => Value::Long(0),
        // Read and write.
        A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => Value::Word(3),
        A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => Value::Long(known.pool.map_or(0, PoolHandle::into_raw)),
        // Synchronous calls wait in any case.
        A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => flag(true),
        A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
        | A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => flag(false),
        _ => return None,
    })
}

/// # Safety
/// `copy` is NULL or readable, and its ends are good for the copy.
unsafe fn rectangle(copy: *const CUDA_MEMCPY2D) -> Result<Copy> {
    // SAFETY: this function's contract.
    let copy = unsafe { take(copy, "the copy") }?;
    let corner = |kind: CUmemorytype,
                  host: *const c_void,
                  device: CUdeviceptr,
                  (x, y, pitch): (usize, usize, usize)| {
        let base = match kind {
            CUmemorytype::CU_MEMORYTYPE_HOST => host.expose_provenance(),
            CUmemorytype::CU_MEMORYTYPE_DEVICE | CUmemorytype::CU_MEMORYTYPE_UNIFIED => at(device)?,
            _ => return Err(Failure::unsupported("FakeGPU has no CUDA arrays to copy to or from")),
        };
        Ok(base.saturating_add(y.saturating_mul(pitch)).saturating_add(x))
    };
    let to = (copy.dstXInBytes, copy.dstY, copy.dstPitch);
    let dst = corner(copy.dstMemoryType, copy.dstHost, copy.dstDevice, to)?;
    let from = (copy.srcXInBytes, copy.srcY, copy.srcPitch);
    let src = corner(copy.srcMemoryType, copy.srcHost, copy.srcDevice, from)?;
    // SAFETY: this function's contract.
    let dst = unsafe { Vouched::new(dst) };
    // SAFETY: this function's contract.
    let src = unsafe { Vouched::new(src) };
    let flat = Copy::flat(dst, src, copy.WidthInBytes, CopyKind::Default);
    // A pitch of 0 says that the rows lie side by side.
    let or_width = |pitch| if pitch == 0 { copy.WidthInBytes } else { pitch };
    Ok(Copy {
        dst_pitch: or_width(copy.dstPitch),
        src_pitch: or_width(copy.srcPitch),
        height: copy.Height,
        ..flat
    })
}

impl Pool for Shim {
    unsafe fn cuDeviceGetDefaultMemPool(&self, pool_out: *mut CUmemoryPool, dev: CUdevice) -> CUresult {
        self.drive_world(|world| {
            let found = world.default_pool(ordinal(dev)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pool_out, handle(found.into_raw()), "the pool") }
        })
    }

    unsafe fn cuDeviceGetMemPool(&self, pool_out: *mut CUmemoryPool, dev: CUdevice) -> CUresult {
        self.drive_world(|world| {
            let found = world.current_pool(ordinal(dev)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pool_out, handle(found.into_raw()), "the pool") }
        })
    }

    unsafe fn cuDeviceSetMemPool(&self, dev: CUdevice, of: CUmemoryPool) -> CUresult {
        self.drive_world(|world| Ok(world.set_current_pool(ordinal(dev)?, pool(of)?)?))
    }

    unsafe fn cuMemAllocAsync(&self, dptr: *mut CUdeviceptr, bytesize: usize, on: CUstream) -> CUresult {
        self.drive_device(|world, device| {
            let memory = world.malloc_async(device, stream(on)?, bytesize)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dptr, memory as u64, "the pointer") }
        })
    }

    unsafe fn cuMemAllocFromPoolAsync(
        &self,
        dptr: *mut CUdeviceptr,
        bytesize: usize,
        of: CUmemoryPool,
        on: CUstream,
    ) -> CUresult {
        self.drive_device(|world, device| {
            let memory = world.malloc_from_pool(pool(of)?, device, stream(on)?, bytesize)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dptr, memory as u64, "the pointer") }
        })
    }

    unsafe fn cuMemFreeAsync(&self, dptr: CUdeviceptr, on: CUstream) -> CUresult {
        self.drive_device(|world, device| Ok(world.free_async(device, stream(on)?, at(dptr)?)?))
    }

    unsafe fn cuMemPoolTrimTo(&self, of: CUmemoryPool, min_bytes_to_keep: usize) -> CUresult {
        self.drive_world(|world| Ok(world.trim_pool(pool(of)?, min_bytes_to_keep as u64)?))
    }

    unsafe fn cuMemPoolDestroy(&self, of: CUmemoryPool) -> CUresult {
        self.drive_world(|world| Ok(world.destroy_pool(pool(of)?)?))
    }

    unsafe fn cuMemPoolGetAttribute(
        &self,
        of: CUmemoryPool,
        attr: CUmemPool_attribute,
        value: *mut c_void,
    ) -> CUresult {
        // SAFETY: NULL or what the attribute needs, as the C function requires.
        self.drive_world(|world| unsafe { get_attribute(world, of, attr, value) })
    }

    unsafe fn cuMemPoolSetAttribute(
        &self,
        of: CUmemoryPool,
        attr: CUmemPool_attribute,
        value: *mut c_void,
    ) -> CUresult {
        // SAFETY: NULL or what the attribute needs, as the C function requires.
        self.drive_world(|world| unsafe { set_attribute(world, of, attr, value) })
    }
}
