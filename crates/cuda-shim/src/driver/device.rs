//! Devices.

use fakegpu_cuda_abi::driver::Device;
use fakegpu_cuda_abi::types::*;

use crate::answers::{by_pci_bus_id, put_text};
use crate::failure::{Failure, put, put_if_wanted};
use crate::properties::{FromByte as _, attribute};
use crate::shim::{Shim, number, ordinal};

impl Device for Shim {
    unsafe fn cuDeviceGet(&self, device: *mut CUdevice, number_of: c_int) -> CUresult {
        self.drive_world(|world| {
            let found = world.device(ordinal(number_of)?)?.ordinal;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(device, number(found), "the device") }
        })
    }

    unsafe fn cuDeviceGetCount(&self, count: *mut c_int) -> CUresult {
        self.drive_world(|world| {
            world.check()?;
            let found = c_int::try_from(world.devices().len()).unwrap_or(0);
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(count, found, "the count") }
        })
    }

    unsafe fn cuDeviceGetName(&self, name: *mut c_char, len: c_int, dev: CUdevice) -> CUresult {
        self.drive_world(|world| {
            let product = world.device(ordinal(dev)?)?.profile.product;
            // SAFETY: NULL or `len` characters, as the C function requires.
            unsafe { put_text(name, len, product) }
        })
    }

    unsafe fn cuDeviceGetUuid(&self, uuid: *mut CUuuid, dev: CUdevice) -> CUresult {
        self.drive_world(|world| {
            let bytes = world.device(ordinal(dev)?)?.uuid.0.map(c_char::from_ne_byte);
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(uuid, CUuuid { bytes }, "the id") }
        })
    }

    unsafe fn cuDeviceGetUuid_v2(&self, uuid: *mut CUuuid, dev: CUdevice) -> CUresult {
        // SAFETY: handed on unchanged.
        unsafe { self.cuDeviceGetUuid(uuid, dev) }
    }

    unsafe fn cuDeviceTotalMem_v2(&self, bytes: *mut usize, dev: CUdevice) -> CUresult {
        self.drive_world(|world| {
            let total = world.device(ordinal(dev)?)?.profile.memory_bytes();
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(bytes, usize::try_from(total).unwrap_or(usize::MAX), "the size") }
        })
    }

    unsafe fn cuDeviceGetAttribute(
        &self,
        pi: *mut c_int,
        attrib: CUdevice_attribute,
        dev: CUdevice,
    ) -> CUresult {
        self.drive_world(|world| {
            let found = attribute(world.device(ordinal(dev)?)?, attrib);
            let found =
                found.ok_or_else(|| Failure::invalid(format!("{} is no attribute of a device", attrib.0)))?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pi, found, "the value") }
        })
    }

    unsafe fn cuDeviceComputeCapability(
        &self,
        major: *mut c_int,
        minor: *mut c_int,
        dev: CUdevice,
    ) -> CUresult {
        self.drive_world(|world| {
            let capability = world.device(ordinal(dev)?)?.profile.compute_capability;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(major, c_int::try_from(capability.0).unwrap_or(0)) };
            // SAFETY: as above.
            unsafe { put_if_wanted(minor, c_int::try_from(capability.1).unwrap_or(0)) };
            Ok(())
        })
    }

    unsafe fn cuDeviceGetByPCIBusId(&self, dev: *mut CUdevice, pci_bus_id: *const c_char) -> CUresult {
        self.drive_world(|world| {
            // SAFETY: NULL or a C string, as the C function requires.
            let found = unsafe { by_pci_bus_id(world, pci_bus_id) }?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(dev, number(found), "the device") }
        })
    }

    unsafe fn cuDeviceGetPCIBusId(&self, pci_bus_id: *mut c_char, len: c_int, dev: CUdevice) -> CUresult {
        self.drive_world(|world| {
            let text = world.device(ordinal(dev)?)?.pci_bus_id();
            // SAFETY: NULL or `len` characters, as the C function requires.
            unsafe { put_text(pci_bus_id, len, &text) }
        })
    }
}
