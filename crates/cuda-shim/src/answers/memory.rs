//! Memory: allocations, pinned host memory, what pointers are, copies and fills.

use fakegpu_cuda::{Attributes, Copy, CopyKind, MemoryKind, Ordinal, Rows, StreamRef, Vouched, World};
use fakegpu_cuda_abi::runtime::answers::Memory;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, put_if_wanted, take};
use crate::shim::{Shim, address, number, ordinal, stream};
use crate::thread;

/// Flags of managed memory: attached to all streams, to the host, or to one stream.
const ATTACH_FLAGS: c_uint = 7;

impl Memory for Shim {
    unsafe fn cudaMalloc(&self, dev_ptr: *mut *mut c_void, size: usize) -> cudaError_t {
        self.on_device(|world, device| {
            let memory = world.malloc(device, size)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dev_ptr, address(memory), "the pointer") }
        })
    }

    unsafe fn cudaMallocManaged(&self, dev_ptr: *mut *mut c_void, size: usize, flags: c_uint) -> cudaError_t {
        self.on_device(|world, device| {
            if flags & !ATTACH_FLAGS != 0 {
                return Err(Failure::invalid(format!("{flags:#x} are no flags of managed memory")));
            }
            let memory = world.malloc_managed(device, size)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dev_ptr, address(memory), "the pointer") }
        })
    }

    unsafe fn cudaMallocHost(&self, ptr: *mut *mut c_void, size: usize) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { host_alloc(world, device, ptr, size, 0) })
    }

    unsafe fn cudaHostAlloc(&self, host: *mut *mut c_void, size: usize, flags: c_uint) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { host_alloc(world, device, host, size, flags) })
    }

    unsafe fn cudaMallocPitch(
        &self,
        dev_ptr: *mut *mut c_void,
        pitch: *mut usize,
        width: usize,
        height: usize,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            let (memory, bytes) = world.malloc_pitch(device, width, height, 1)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pitch, bytes, "the pitch") }?;
            // SAFETY: as above.
            unsafe { put(dev_ptr, address(memory), "the pointer") }
        })
    }

    unsafe fn cudaMalloc3D(&self, pitched_dev_ptr: *mut cudaPitchedPtr, extent: cudaExtent) -> cudaError_t {
        self.on_device(|world, device| {
            let cudaExtent { width, height, depth } = extent;
            let (memory, pitch) = world.malloc_pitch(device, width, height, depth)?;
            let made = cudaPitchedPtr { ptr: address(memory), pitch, xsize: width, ysize: height };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pitched_dev_ptr, made, "the pointer") }
        })
    }

    unsafe fn cudaFree(&self, dev_ptr: *mut c_void) -> cudaError_t {
        self.on_device(|world, _| Ok(world.free(dev_ptr.addr())?))
    }

    unsafe fn cudaFreeHost(&self, ptr: *mut c_void) -> cudaError_t {
        self.on_device(|world, _| Ok(world.host_free(ptr.addr())?))
    }

    unsafe fn cudaHostRegister(&self, ptr: *mut c_void, size: usize, flags: c_uint) -> cudaError_t {
        // SAFETY: the program's memory, which it says it owns, as the C function requires.
        let memory = unsafe { Vouched::new(ptr.expose_provenance()) };
        self.on_device(|world, device| Ok(world.host_register(device, memory, size, flags)?))
    }

    unsafe fn cudaHostUnregister(&self, ptr: *mut c_void) -> cudaError_t {
        self.on_device(|world, _| Ok(world.host_unregister(ptr.addr())?))
    }

    unsafe fn cudaHostGetFlags(&self, flags: *mut c_uint, host: *mut c_void) -> cudaError_t {
        self.on_device(|world, _| {
            let found = world.host_flags(host.addr())?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(flags, found, "the flags") }
        })
    }

    unsafe fn cudaHostGetDevicePointer(
        &self,
        device: *mut *mut c_void,
        host: *mut c_void,
        _flags: c_uint,
    ) -> cudaError_t {
        self.on_device(|world, _| {
            world.host_flags(host.addr())?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(device, host, "the pointer") }
        })
    }

    unsafe fn cudaMemGetInfo(&self, free: *mut usize, total: *mut usize) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { memory_info(world, device, free, total) })
    }

    unsafe fn cudaPointerGetAttributes(
        &self,
        attributes: *mut cudaPointerAttributes12,
        ptr: *const c_void,
    ) -> cudaError_t {
        self.world(|world| {
            let known = world.attributes(ptr.addr())?;
            let told = cudaPointerAttributes12 {
                r#type: kind_of(known.kind),
                device: device_of(&known),
                devicePointer: device_pointer(&known, ptr),
                hostPointer: host_pointer(&known, ptr),
            };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(attributes, told, "the attributes") }
        })
    }

    unsafe fn cudaPointerGetAttributes_v13(
        &self,
        attributes: *mut cudaPointerAttributes13,
        ptr: *const c_void,
    ) -> cudaError_t {
        self.world(|world| {
            let known = world.attributes(ptr.addr())?;
            let told = cudaPointerAttributes13 {
                r#type: kind_of(known.kind),
                device: device_of(&known),
                devicePointer: device_pointer(&known, ptr),
                hostPointer: host_pointer(&known, ptr),
                ..cudaPointerAttributes13::default()
            };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(attributes, told, "the attributes") }
        })
    }

    unsafe fn cudaMemcpy(
        &self,
        dst: *mut c_void,
        src: *const c_void,
        count: usize,
        kind: cudaMemcpyKind,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good for the copy, as the C function requires.
        let (dst, src) = unsafe { ends(dst, src) };
        self.on_device(|world, device| {
            let copy = Copy::flat(dst, src, count, CopyKind::from_raw(kind.0)?);
            Ok(world.copy_sync(device, thread::null_stream(), &copy)?)
        })
    }

    unsafe fn cudaMemcpyAsync(
        &self,
        dst: *mut c_void,
        src: *const c_void,
        count: usize,
        kind: cudaMemcpyKind,
        on: cudaStream_t,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good until the stream has copied, as the C function requires.
        let (dst, src) = unsafe { ends(dst, src) };
        self.on_device(|world, device| {
            let copy = Copy::flat(dst, src, count, CopyKind::from_raw(kind.0)?);
            Ok(world.copy(device, stream(on)?, &copy)?)
        })
    }

    unsafe fn cudaMemcpyPeer(
        &self,
        dst: *mut c_void,
        dst_device: c_int,
        src: *const c_void,
        src_device: c_int,
        count: usize,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good for the copy, as the C function requires.
        let (dst, src) = unsafe { ends(dst, src) };
        self.on_device(|world, device| {
            world.device(ordinal(dst_device)?)?;
            world.device(ordinal(src_device)?)?;
            let copy = Copy::flat(dst, src, count, CopyKind::DeviceToDevice);
            Ok(world.copy_sync(device, thread::null_stream(), &copy)?)
        })
    }

    unsafe fn cudaMemcpyPeerAsync(
        &self,
        dst: *mut c_void,
        dst_device: c_int,
        src: *const c_void,
        src_device: c_int,
        count: usize,
        on: cudaStream_t,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good until the stream has copied, as the C function requires.
        let (dst, src) = unsafe { ends(dst, src) };
        self.on_device(|world, device| {
            world.device(ordinal(dst_device)?)?;
            world.device(ordinal(src_device)?)?;
            let copy = Copy::flat(dst, src, count, CopyKind::DeviceToDevice);
            Ok(world.copy(device, stream(on)?, &copy)?)
        })
    }

    unsafe fn cudaMemcpy2D(
        &self,
        dst: *mut c_void,
        dpitch: usize,
        src: *const c_void,
        spitch: usize,
        width: usize,
        height: usize,
        kind: cudaMemcpyKind,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good for the copy, as the C function requires.
        let ends = unsafe { ends(dst, src) };
        self.on_device(|world, device| {
            let copy = rectangle(ends, (dpitch, spitch), (width, height), kind)?;
            Ok(world.copy_sync(device, thread::null_stream(), &copy)?)
        })
    }

    unsafe fn cudaMemcpy2DAsync(
        &self,
        dst: *mut c_void,
        dpitch: usize,
        src: *const c_void,
        spitch: usize,
        width: usize,
        height: usize,
        kind: cudaMemcpyKind,
        on: cudaStream_t,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good until the stream has copied, as the C function requires.
        let ends = unsafe { ends(dst, src) };
        self.on_device(|world, device| {
            let copy = rectangle(ends, (dpitch, spitch), (width, height), kind)?;
            Ok(world.copy(device, stream(on)?, &copy)?)
        })
    }

    unsafe fn cudaMemcpy3D(&self, p: *const cudaMemcpy3DParms) -> cudaError_t {
        // SAFETY: NULL or readable, of memory good for the copy, as the C function requires.
        let copy = unsafe { parameters_of(p) };
        self.on_device(|world, device| Ok(world.copy_sync(device, thread::null_stream(), &copy?)?))
    }

    unsafe fn cudaMemcpy3DAsync(&self, p: *const cudaMemcpy3DParms, on: cudaStream_t) -> cudaError_t {
        // SAFETY: NULL or readable, of memory good until the stream has copied, as the C function requires.
        let copy = unsafe { parameters_of(p) };
        self.on_device(|world, device| Ok(world.copy(device, stream(on)?, &copy?)?))
    }

    unsafe fn cudaMemcpy3DPeer(&self, p: *const cudaMemcpy3DPeerParms) -> cudaError_t {
        // SAFETY: NULL or readable, of memory good for the copy, as the C function requires.
        let copy = unsafe { peer_parameters_of(p) };
        self.on_device(|world, device| Ok(world.copy_sync(device, thread::null_stream(), &copy?)?))
    }

    unsafe fn cudaMemcpy3DPeerAsync(&self, p: *const cudaMemcpy3DPeerParms, on: cudaStream_t) -> cudaError_t {
        // SAFETY: NULL or readable, of memory good until the stream has copied, as the C function requires.
        let copy = unsafe { peer_parameters_of(p) };
        self.on_device(|world, device| Ok(world.copy(device, stream(on)?, &copy?)?))
    }

    unsafe fn cudaMemset(&self, dev_ptr: *mut c_void, value: c_int, count: usize) -> cudaError_t {
        // SAFETY: the program's memory, good for the memset, as the C function requires.
        let target = unsafe { Vouched::new(dev_ptr.expose_provenance()) };
        self.on_device(|world, device| {
            Ok(world.fill(device, thread::null_stream(), target, byte(value), 1, count)?)
        })
    }

    unsafe fn cudaMemsetAsync(
        &self,
        dev_ptr: *mut c_void,
        value: c_int,
        count: usize,
        on: cudaStream_t,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good until the stream has set it, as the C function requires.
        let target = unsafe { Vouched::new(dev_ptr.expose_provenance()) };
        self.on_device(|world, device| Ok(world.fill(device, stream(on)?, target, byte(value), 1, count)?))
    }

    unsafe fn cudaMemset2D(
        &self,
        dev_ptr: *mut c_void,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good for the memset, as the C function requires.
        let target = unsafe { Vouched::new(dev_ptr.expose_provenance()) };
        let rows = Rows { pitch, slice: 0, width, height, depth: 1 };
        self.on_device(|world, device| set_rows(world, device, thread::null_stream(), target, value, rows))
    }

    unsafe fn cudaMemset2DAsync(
        &self,
        dev_ptr: *mut c_void,
        pitch: usize,
        value: c_int,
        width: usize,
        height: usize,
        on: cudaStream_t,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good until the stream has set it, as the C function requires.
        let target = unsafe { Vouched::new(dev_ptr.expose_provenance()) };
        let rows = Rows { pitch, slice: 0, width, height, depth: 1 };
        self.on_device(|world, device| set_rows(world, device, stream(on)?, target, value, rows))
    }

    unsafe fn cudaMemset3D(&self, pitched: cudaPitchedPtr, value: c_int, extent: cudaExtent) -> cudaError_t {
        // SAFETY: the program's memory, good for the memset, as the C function requires.
        let target = unsafe { Vouched::new(pitched.ptr.expose_provenance()) };
        let rows = box_of(&pitched, extent);
        self.on_device(|world, device| set_rows(world, device, thread::null_stream(), target, value, rows))
    }

    unsafe fn cudaMemset3DAsync(
        &self,
        pitched: cudaPitchedPtr,
        value: c_int,
        extent: cudaExtent,
        on: cudaStream_t,
    ) -> cudaError_t {
        // SAFETY: the program's memory, good until the stream has set it, as the C function requires.
        let target = unsafe { Vouched::new(pitched.ptr.expose_provenance()) };
        let rows = box_of(&pitched, extent);
        self.on_device(|world, device| set_rows(world, device, stream(on)?, target, value, rows))
    }

    unsafe fn cudaMemPrefetchAsync(
        &self,
        dev_ptr: *const c_void,
        _count: usize,
        _dst_device: c_int,
        on: cudaStream_t,
    ) -> cudaError_t {
        self.on_device(|world, device| hint(world, device, dev_ptr, stream(on)?))
    }

    unsafe fn cudaMemPrefetchAsync_v2(
        &self,
        dev_ptr: *const c_void,
        _count: usize,
        _location: cudaMemLocation,
        _flags: c_uint,
        on: cudaStream_t,
    ) -> cudaError_t {
        self.on_device(|world, device| hint(world, device, dev_ptr, stream(on)?))
    }

    unsafe fn cudaMemAdvise(
        &self,
        dev_ptr: *const c_void,
        _count: usize,
        _advice: cudaMemoryAdvise,
        _device: c_int,
    ) -> cudaError_t {
        self.on_device(|world, device| hint(world, device, dev_ptr, StreamRef::Legacy))
    }

    unsafe fn cudaMemAdvise_v2(
        &self,
        dev_ptr: *const c_void,
        _count: usize,
        _advice: cudaMemoryAdvise,
        _location: cudaMemLocation,
    ) -> cudaError_t {
        self.on_device(|world, device| hint(world, device, dev_ptr, StreamRef::Legacy))
    }
}

/// The ends of a copy.
///
/// # Safety
/// As of [`Vouched::new`].
pub(crate) unsafe fn ends(dst: *mut c_void, src: *const c_void) -> (Vouched, Vouched) {
    // SAFETY: this function's contract.
    let dst = unsafe { Vouched::new(dst.expose_provenance()) };
    // SAFETY: this function's contract.
    let src = unsafe { Vouched::new(src.expose_provenance()) };
    (dst, src)
}

/// A memset's value is a byte, whatever the `int` holds beside it.
const fn byte(value: c_int) -> u32 {
    value.cast_unsigned() & 0xff
}

/// # Safety
/// `to` is NULL or writable.
pub(crate) unsafe fn host_alloc(
    world: &World,
    device: Ordinal,
    to: *mut *mut c_void,
    size: usize,
    flags: c_uint,
) -> Result {
    let memory = world.host_alloc(device, size, flags)?;
    // SAFETY: this function's contract.
    unsafe { put(to, address(memory), "the pointer") }
}

/// # Safety
/// Both are NULL or writable.
pub(crate) unsafe fn memory_info(
    world: &World,
    device: Ordinal,
    free: *mut usize,
    total: *mut usize,
) -> Result {
    let info = world.memory_info(device)?;
    let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    // SAFETY: this function's contract.
    unsafe { put_if_wanted(free, size(info.free)) };
    // SAFETY: as above.
    unsafe { put_if_wanted(total, size(info.total)) };
    Ok(())
}

/// What CUDA calls a kind of memory.
pub(crate) const fn kind_of(kind: MemoryKind) -> cudaMemoryType {
    match kind {
        MemoryKind::Unregistered => cudaMemoryType::cudaMemoryTypeUnregistered,
        MemoryKind::Host => cudaMemoryType::cudaMemoryTypeHost,
        MemoryKind::Device => cudaMemoryType::cudaMemoryTypeDevice,
        MemoryKind::Managed => cudaMemoryType::cudaMemoryTypeManaged,
    }
}

/// `cudaInvalidDeviceId`.
const NO_DEVICE: c_int = -2;

fn device_of(known: &Attributes) -> c_int {
    if known.kind == MemoryKind::Unregistered { NO_DEVICE } else { number(known.device) }
}

const fn device_pointer(known: &Attributes, pointer: *const c_void) -> *mut c_void {
    if matches!(known.kind, MemoryKind::Unregistered) { std::ptr::null_mut() } else { pointer.cast_mut() }
}

const fn host_pointer(known: &Attributes, pointer: *const c_void) -> *mut c_void {
    // The host's own memory is told even where CUDA knows nothing else of it.
    if matches!(known.kind, MemoryKind::Device) { std::ptr::null_mut() } else { pointer.cast_mut() }
}

fn rectangle(
    (dst, src): (Vouched, Vouched),
    (dst_pitch, src_pitch): (usize, usize),
    (width, height): (usize, usize),
    kind: cudaMemcpyKind,
) -> Result<Copy> {
    let kind = CopyKind::from_raw(kind.0)?;
    Ok(Copy { dst_pitch, src_pitch, height, ..Copy::flat(dst, src, width, kind) })
}

fn set_rows(
    world: &World,
    device: Ordinal,
    on: StreamRef,
    target: Vouched,
    value: c_int,
    rows: Rows,
) -> Result {
    Ok(world.fill_rows(device, on, target, (byte(value), 1), rows)?)
}

const fn box_of(pitched: &cudaPitchedPtr, extent: cudaExtent) -> Rows {
    let cudaExtent { width, height, depth } = extent;
    Rows { pitch: pitched.pitch, slice: pitched.pitch.saturating_mul(pitched.ysize), width, height, depth }
}

/// A hint about where memory will be used, which is no matter here. It is for managed memory only.
fn hint(world: &World, device: Ordinal, pointer: *const c_void, on: StreamRef) -> Result {
    world.stream_device(device, on)?;
    match world.attributes(pointer.addr())?.kind {
        MemoryKind::Managed => Ok(()),
        other => Err(Failure::invalid(format!("{pointer:p} is no managed memory; it is {other:?}"))),
    }
}

/// An end of a copy of a box: an array, of which there are none, or memory in rows and a place in it.
fn corner(array: cudaArray_t, pitched: &cudaPitchedPtr, at: cudaPos) -> Result<(*mut c_void, usize, usize)> {
    if !array.is_null() {
        return Err(Failure::unsupported("FakeGPU has no CUDA arrays to copy to or from"));
    }
    let slice = pitched.pitch.saturating_mul(pitched.ysize);
    let offset =
        at.y.saturating_mul(pitched.pitch).saturating_add(at.z.saturating_mul(slice)).saturating_add(at.x);
    Ok((pitched.ptr.wrapping_byte_add(offset), pitched.pitch, slice))
}

/// # Safety
/// `p` is NULL or readable, and its ends are good for the copy.
unsafe fn parameters_of(p: *const cudaMemcpy3DParms) -> Result<Copy> {
    // SAFETY: this function's contract.
    let p = unsafe { take(p, "the copy's parameters") }?;
    let (dst, dst_pitch, dst_slice) = corner(p.dstArray, &p.dstPtr, p.dstPos)?;
    let (src, src_pitch, src_slice) = corner(p.srcArray, &p.srcPtr, p.srcPos)?;
    // SAFETY: this function's contract.
    let (dst, src) = unsafe { ends(dst, src) };
    let cudaExtent { width, height, depth } = p.extent;
    let kind = CopyKind::from_raw(p.kind.0)?;
    Ok(Copy { dst, src, dst_pitch, src_pitch, dst_slice, src_slice, width, height, depth, kind })
}

/// # Safety
/// As of [`parameters_of`].
unsafe fn peer_parameters_of(p: *const cudaMemcpy3DPeerParms) -> Result<Copy> {
    // SAFETY: this function's contract.
    let p = unsafe { take(p, "the copy's parameters") }?;
    let (dst, dst_pitch, dst_slice) = corner(p.dstArray, &p.dstPtr, p.dstPos)?;
    let (src, src_pitch, src_slice) = corner(p.srcArray, &p.srcPtr, p.srcPos)?;
    // SAFETY: this function's contract.
    let (dst, src) = unsafe { ends(dst, src) };
    let cudaExtent { width, height, depth } = p.extent;
    let kind = CopyKind::DeviceToDevice;
    Ok(Copy { dst, src, dst_pitch, src_pitch, dst_slice, src_slice, width, height, depth, kind })
}
