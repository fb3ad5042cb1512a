//! Devices: how many, which, and what they are.

use std::ffi::CStr;

use fakegpu_cuda::{Ordinal, World};
use fakegpu_cuda_abi::runtime::answers::Device;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, put_if_wanted};
use crate::process;
use crate::properties::{FromByte as _, attribute, properties12, properties13};
use crate::shim::{Shim, number, ordinal};
use crate::thread;

/// Bytes of `cudaDeviceProp` before CUDA 12: what comes behind was added there.
const PROPERTIES_BEFORE_12: usize = std::mem::offset_of!(cudaDeviceProp12, hostRegisterSupported);

/// Stack, printf buffer and heap of device code, as CUDA has them by default; in bytes but for the third.
const LIMITS: [(cudaLimit, usize); 5] = [
    (cudaLimit::cudaLimitStackSize, 1024),
    (cudaLimit::cudaLimitPrintfFifoSize, 7 << 20),
    (cudaLimit::cudaLimitMallocHeapSize, 8 << 20),
    (cudaLimit::cudaLimitMaxL2FetchGranularity, 64),
    (cudaLimit::cudaLimitPersistingL2CacheSize, 0),
];

impl Device for Shim {
    unsafe fn cudaGetDeviceCount(&self, count: *mut c_int) -> cudaError_t {
        self.world(|world| {
            world.check()?;
            let devices = world.devices();
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(count, c_int::try_from(devices.len()).unwrap_or(0), "the count") }?;
            // CUDA says both: 0, and that there is none.
            if devices.is_empty() { devices.get(Ordinal(0)).map(drop).map_err(Failure::from) } else { Ok(()) }
        })
    }

    unsafe fn cudaGetDevice(&self, device: *mut c_int) -> cudaError_t {
        self.world(|world| {
            world.device(thread::device())?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(device, number(thread::device()), "the device") }
        })
    }

    unsafe fn cudaSetDevice(&self, device: c_int) -> cudaError_t {
        self.world(|world| set_device(world, device))
    }

    unsafe fn cudaInitDevice(&self, device: c_int, _device_flags: c_uint, _flags: c_uint) -> cudaError_t {
        self.world(|world| {
            let device = world.device(ordinal(device)?)?;
            process::note_use(device.ordinal);
            Ok(())
        })
    }

    unsafe fn cudaSetValidDevices(&self, device_arr: *mut c_int, len: c_int) -> cudaError_t {
        self.world(|world| {
            let first = if len > 0 && !device_arr.is_null() {
                // SAFETY: not NULL, so an array of `len` numbers, of which there is one at least.
                unsafe { device_arr.read() }
            } else {
                0
            };
            set_device(world, first)
        })
    }

    unsafe fn cudaChooseDevice(&self, device: *mut c_int, _prop: *const cudaDeviceProp12) -> cudaError_t {
        // All devices of a node are alike as far as a wish can tell.
        // SAFETY: NULL or writable, as the C function requires.
        self.world(|_| unsafe { put(device, 0, "the device") })
    }

    unsafe fn cudaChooseDevice_v13(&self, device: *mut c_int, _prop: *const cudaDeviceProp13) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.world(|_| unsafe { put(device, 0, "the device") })
    }

    unsafe fn cudaGetDeviceProperties_v13(&self, prop: *mut cudaDeviceProp13, device: c_int) -> cudaError_t {
        self.world(|world| {
            let properties = properties13(world.device(ordinal(device)?)?);
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(prop, properties, "the properties") }
        })
    }

    unsafe fn cudaGetDeviceProperties_v2(&self, prop: *mut cudaDeviceProp12, device: c_int) -> cudaError_t {
        self.world(|world| {
            let properties = properties12(world.device(ordinal(device)?)?);
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(prop, properties, "the properties") }
        })
    }

    unsafe fn cudaGetDeviceProperties(&self, prop: *mut c_void, device: c_int) -> cudaError_t {
        self.world(|world| {
            let properties = properties12(world.device(ordinal(device)?)?);
            if prop.is_null() {
                return Err(Failure::invalid("the address for the properties is NULL"));
            }
            let from = (&raw const properties).cast::<u8>();
            // SAFETY: the struct is longer than that, and the caller's is of before CUDA 12, which is as long.
            unsafe { std::ptr::copy_nonoverlapping(from, prop.cast::<u8>(), PROPERTIES_BEFORE_12) };
            Ok(())
        })
    }

    unsafe fn cudaDeviceGetAttribute(
        &self,
        value: *mut c_int,
        attr: cudaDeviceAttr,
        device: c_int,
    ) -> cudaError_t {
        self.world(|world| {
            let device = world.device(ordinal(device)?)?;
            let found = attribute(device, attr);
            let found =
                found.ok_or_else(|| Failure::invalid(format!("{} is no attribute of a device", attr.0)))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(value, found, "the value") }
        })
    }

    unsafe fn cudaDeviceGetPCIBusId(
        &self,
        pci_bus_id: *mut c_char,
        len: c_int,
        device: c_int,
    ) -> cudaError_t {
        self.world(|world| {
            let text = world.device(ordinal(device)?)?.pci_bus_id();
            // SAFETY: NULL or `len` characters, as the C function requires.
            unsafe { put_text(pci_bus_id, len, &text) }
        })
    }

    unsafe fn cudaDeviceGetByPCIBusId(&self, device: *mut c_int, pci_bus_id: *const c_char) -> cudaError_t {
        self.world(|world| {
            // SAFETY: NULL or a C string, as the C function requires.
            let found = unsafe { by_pci_bus_id(world, pci_bus_id) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(device, number(found), "the device") }
        })
    }

    unsafe fn cudaDeviceGetStreamPriorityRange(
        &self,
        least: *mut c_int,
        greatest: *mut c_int,
    ) -> cudaError_t {
        self.on_device(|_, _| {
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(least, World::PRIORITY_LEAST) };
            // SAFETY: as above.
            unsafe { put_if_wanted(greatest, World::PRIORITY_GREATEST) };
            Ok(())
        })
    }

    unsafe fn cudaDeviceSynchronize(&self) -> cudaError_t {
        self.on_device(|world, device| Ok(world.synchronize_device(device)?))
    }

    unsafe fn cudaThreadSynchronize(&self) -> cudaError_t {
        self.on_device(|world, device| Ok(world.synchronize_device(device)?))
    }

    unsafe fn cudaDeviceReset(&self) -> cudaError_t {
        self.on_device(|world, device| Ok(world.synchronize_device(device)?))
    }

    unsafe fn cudaThreadExit(&self) -> cudaError_t {
        self.on_device(|world, device| Ok(world.synchronize_device(device)?))
    }

    unsafe fn cudaSetDeviceFlags(&self, flags: c_uint) -> cudaError_t {
        process::set_device_flags(flags);
        cudaError_t::cudaSuccess
    }

    unsafe fn cudaGetDeviceFlags(&self, flags: *mut c_uint) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.give(unsafe { put(flags, process::device_flags(), "the flags") })
    }

    unsafe fn cudaDeviceGetLimit(&self, value: *mut usize, limit: cudaLimit) -> cudaError_t {
        self.on_device(|_, _| {
            let found = LIMITS.iter().find(|known| known.0 == limit).map(|known| known.1);
            let missing = || {
                Failure::new(cudaError_t::cudaErrorUnsupportedLimit, format!("{limit:?} is not supported"))
            };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(value, found.ok_or_else(missing)?, "the limit") }
        })
    }

    unsafe fn cudaDeviceSetLimit(&self, limit: cudaLimit, _value: usize) -> cudaError_t {
        self.on_device(|_, _| {
            // A limit of device code, of which there is none to keep it.
            if LIMITS.iter().any(|known| known.0 == limit) {
                return Ok(());
            }
            Err(Failure::new(cudaError_t::cudaErrorUnsupportedLimit, format!("{limit:?} is not supported")))
        })
    }

    unsafe fn cudaDeviceGetCacheConfig(&self, cache_config: *mut cudaFuncCache) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|_, _| unsafe { put(cache_config, 0, "the cache configuration") })
    }

    unsafe fn cudaDeviceSetCacheConfig(&self, _cache_config: cudaFuncCache) -> cudaError_t {
        self.on_device(|_, _| Ok(()))
    }

    unsafe fn cudaDeviceGetSharedMemConfig(&self, config: *mut cudaSharedMemConfig) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|_, _| unsafe { put(config, 1, "the configuration") })
    }

    unsafe fn cudaDeviceSetSharedMemConfig(&self, _config: cudaSharedMemConfig) -> cudaError_t {
        self.on_device(|_, _| Ok(()))
    }
}

fn set_device(world: &World, device: c_int) -> Result {
    let device = world.device(ordinal(device)?)?.ordinal;
    thread::set_device(device);
    process::note_use(device);
    Ok(())
}

/// # Safety
/// `text` is NULL or a C string.
pub(crate) unsafe fn by_pci_bus_id(world: &World, text: *const c_char) -> Result<Ordinal> {
    if text.is_null() {
        return Err(Failure::invalid("the PCI bus id is NULL"));
    }
    // SAFETY: not NULL, so a C string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let missing = || {
        let seen = format!("this process sees no device at {text}");
        Failure::new(cudaError_t::cudaErrorInvalidDevice, seen)
    };
    world.devices().by_pci_bus_id(&text).ok_or_else(missing)
}

/// Writes a text, cut to `len` characters with its NUL.
///
/// # Safety
/// `to` is NULL or `len` characters long.
pub(crate) unsafe fn put_text(to: *mut c_char, len: c_int, text: &str) -> Result {
    let room = usize::try_from(len).unwrap_or(0);
    if to.is_null() || room == 0 {
        return Err(Failure::invalid("there is no room for the text"));
    }
    let characters = text.bytes().take(room - 1).chain([0]);
    for (at, byte) in characters.enumerate() {
        // SAFETY: `at` is below `room`, as one less was taken and one added.
        let place = unsafe { to.add(at) };
        // SAFETY: as above.
        unsafe { place.write(c_char::from_ne_byte(byte)) };
    }
    Ok(())
}
