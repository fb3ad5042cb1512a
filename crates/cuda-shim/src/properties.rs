//! A device's properties: numbers by attribute, and the structs that hold most of them.

use std::ffi::{c_char, c_int};

use fakegpu_config::profiles::{BLOCK_THREADS, HostLink, SHARED_PER_BLOCK_BYTES, WARP_THREADS};
use fakegpu_cuda::Device;
use fakegpu_cuda_abi::types::*;

use crate::shim::number;

/// Bytes of constant memory, on every GPU.
const CONSTANT_BYTES: u32 = 64 << 10;
/// Bytes from one row to the next at most.
const MAX_PITCH_BYTES: u32 = i32::MAX.unsigned_abs();

/// An attribute's value; `None` for a number that CUDA 13.2 does not know.
pub(crate) fn attribute(device: &Device, attribute: cudaDeviceAttr) -> Option<c_int> {
    use cudaDeviceAttr as A;
    let profile = device.profile;
    let unit = profile.multiprocessor();
    let (major, minor) = profile.compute_capability;
    let flag = u32::from;
    Some(int(match attribute {
        A::cudaDevAttrMaxThreadsPerBlock | A::cudaDevAttrMaxBlockDimX | A::cudaDevAttrMaxBlockDimY => {
            BLOCK_THREADS
        }
        A::cudaDevAttrMaxBlockDimZ => 64,
        A::cudaDevAttrMaxGridDimX => i32::MAX.unsigned_abs(),
        A::cudaDevAttrMaxGridDimY | A::cudaDevAttrMaxGridDimZ => 65_535,
        A::cudaDevAttrMaxSharedMemoryPerBlock => SHARED_PER_BLOCK_BYTES,
        A::cudaDevAttrTotalConstantMemory => CONSTANT_BYTES,
        A::cudaDevAttrWarpSize => WARP_THREADS,
        A::cudaDevAttrMaxPitch => MAX_PITCH_BYTES,
        A::cudaDevAttrMaxRegistersPerBlock | A::cudaDevAttrMaxRegistersPerMultiprocessor => unit.registers,
        A::cudaDevAttrClockRate => profile.clock_khz,
        A::cudaDevAttrMultiProcessorCount => profile.sm_count,
        A::cudaDevAttrMaxSharedMemoryPerBlockOptin => unit.shared_optin_bytes,
        A::cudaDevAttrMaxSharedMemoryPerMultiprocessor => unit.shared_bytes,
        A::cudaDevAttrReservedSharedMemoryPerBlock => unit.shared_reserved_bytes,
        A::cudaDevAttrMaxThreadsPerMultiProcessor => unit.threads,
        A::cudaDevAttrMaxBlocksPerMultiprocessor => unit.blocks,
        A::cudaDevAttrComputeCapabilityMajor => major,
        A::cudaDevAttrComputeCapabilityMinor => minor,
        A::cudaDevAttrMemoryClockRate => profile.memory_clock_khz,
        A::cudaDevAttrGlobalMemoryBusWidth => profile.memory_bus_bits,
        A::cudaDevAttrL2CacheSize => profile.l2_kib << 10,
        A::cudaDevAttrPciBusId => device.pci_bus,
        A::cudaDevAttrPciDeviceId => device.pci_device,
        A::cudaDevAttrPciDomainId => device.pci_domain,
        A::cudaDevAttrAsyncEngineCount => 3,
        A::cudaDevAttrClusterLaunch => flag(major >= 9),
        A::cudaDevAttrEccEnabled => flag(!profile.product.contains("GeForce")),
        A::cudaDevAttrSingleToDoublePrecisionPerfRatio => {
            if matches!((major, minor), (7, 0) | (8 | 9, 0)) {
                2
            } else {
                32
            }
        }
        A::cudaDevAttrMaxPersistingL2CacheSize => {
            if major >= 8 {
                profile.l2_kib << 9
            } else {
                0
            }
        }
        A::cudaDevAttrMaxAccessPolicyWindowSize => {
            if major >= 8 {
                128 << 20
            } else {
                0
            }
        }
        A::cudaDevAttrTextureAlignment | A::cudaDevAttrSurfaceAlignment => 512,
        A::cudaDevAttrTexturePitchAlignment => 32,
        A::cudaDevAttrPageableMemoryAccess
        | A::cudaDevAttrPageableMemoryAccessUsesHostPageTables
        | A::cudaDevAttrDirectManagedMemAccessFromHost
        | A::cudaDevAttrHostNativeAtomicSupported => flag(profile.host_link == HostLink::C2c),
        // A descriptor, and nothing else.
        A::cudaDevAttrMemoryPoolSupportedHandleTypes => 1,
        A::cudaDevAttrMemSyncDomainCount => {
            if major >= 9 {
                4
            } else {
                1
            }
        }
        A::cudaDevAttrGpuOverlap
        | A::cudaDevAttrCanMapHostMemory
        | A::cudaDevAttrConcurrentKernels
        | A::cudaDevAttrUnifiedAddressing
        | A::cudaDevAttrStreamPrioritiesSupported
        | A::cudaDevAttrGlobalL1CacheSupported
        | A::cudaDevAttrLocalL1CacheSupported
        | A::cudaDevAttrManagedMemory
        | A::cudaDevAttrConcurrentManagedAccess
        | A::cudaDevAttrComputePreemptionSupported
        | A::cudaDevAttrCanUseHostPointerForRegisteredMem
        | A::cudaDevAttrCooperativeLaunch
        | A::cudaDevAttrHostRegisterSupported
        | A::cudaDevAttrMemoryPoolsSupported
        | A::cudaDevAttrIpcEventSupport => 1,
        A::cudaDevAttrNumaId | A::cudaDevAttrHostNumaId => return Some(-1),
        // Textures, surfaces and interoperation, of which there is none, and what is off.
        cudaDeviceAttr(1..=147) => 0,
        _ => return None,
    }))
}

/// A number as C is told it.
fn int(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// Fills in the members that the structs of CUDA 12 and 13 share.
macro_rules! common {
    ($prop:ident $device:ident) => {{
        let of = |attr| attribute($device, attr).unwrap_or(0);
        let bytes = |attr| usize::try_from(of(attr)).unwrap_or(0);
        $prop.name = text($device.profile.product);
        $prop.uuid = CUuuid { bytes: $device.uuid.0.map(c_char::from_ne_byte) };
        $prop.totalGlobalMem = usize::try_from($device.profile.memory_bytes()).unwrap_or(usize::MAX);
        $prop.sharedMemPerBlock = bytes(cudaDeviceAttr::cudaDevAttrMaxSharedMemoryPerBlock);
        $prop.regsPerBlock = of(cudaDeviceAttr::cudaDevAttrMaxRegistersPerBlock);
        $prop.warpSize = of(cudaDeviceAttr::cudaDevAttrWarpSize);
        $prop.memPitch = bytes(cudaDeviceAttr::cudaDevAttrMaxPitch);
        $prop.maxThreadsPerBlock = of(cudaDeviceAttr::cudaDevAttrMaxThreadsPerBlock);
        $prop.maxThreadsDim = [
            of(cudaDeviceAttr::cudaDevAttrMaxBlockDimX),
            of(cudaDeviceAttr::cudaDevAttrMaxBlockDimY),
            of(cudaDeviceAttr::cudaDevAttrMaxBlockDimZ),
        ];
        $prop.maxGridSize = [
            of(cudaDeviceAttr::cudaDevAttrMaxGridDimX),
            of(cudaDeviceAttr::cudaDevAttrMaxGridDimY),
            of(cudaDeviceAttr::cudaDevAttrMaxGridDimZ),
        ];
        $prop.totalConstMem = bytes(cudaDeviceAttr::cudaDevAttrTotalConstantMemory);
        $prop.major = of(cudaDeviceAttr::cudaDevAttrComputeCapabilityMajor);
        $prop.minor = of(cudaDeviceAttr::cudaDevAttrComputeCapabilityMinor);
        $prop.textureAlignment = bytes(cudaDeviceAttr::cudaDevAttrTextureAlignment);
        $prop.texturePitchAlignment = bytes(cudaDeviceAttr::cudaDevAttrTexturePitchAlignment);
        $prop.multiProcessorCount = of(cudaDeviceAttr::cudaDevAttrMultiProcessorCount);
        $prop.canMapHostMemory = of(cudaDeviceAttr::cudaDevAttrCanMapHostMemory);
        $prop.surfaceAlignment = bytes(cudaDeviceAttr::cudaDevAttrSurfaceAlignment);
        $prop.concurrentKernels = of(cudaDeviceAttr::cudaDevAttrConcurrentKernels);
        $prop.ECCEnabled = of(cudaDeviceAttr::cudaDevAttrEccEnabled);
        $prop.pciBusID = of(cudaDeviceAttr::cudaDevAttrPciBusId);
        $prop.pciDeviceID = of(cudaDeviceAttr::cudaDevAttrPciDeviceId);
        $prop.pciDomainID = of(cudaDeviceAttr::cudaDevAttrPciDomainId);
        $prop.asyncEngineCount = of(cudaDeviceAttr::cudaDevAttrAsyncEngineCount);
        $prop.unifiedAddressing = of(cudaDeviceAttr::cudaDevAttrUnifiedAddressing);
        $prop.memoryBusWidth = of(cudaDeviceAttr::cudaDevAttrGlobalMemoryBusWidth);
        $prop.l2CacheSize = of(cudaDeviceAttr::cudaDevAttrL2CacheSize);
        $prop.persistingL2CacheMaxSize = of(cudaDeviceAttr::cudaDevAttrMaxPersistingL2CacheSize);
        $prop.maxThreadsPerMultiProcessor = of(cudaDeviceAttr::cudaDevAttrMaxThreadsPerMultiProcessor);
        $prop.streamPrioritiesSupported = of(cudaDeviceAttr::cudaDevAttrStreamPrioritiesSupported);
        $prop.globalL1CacheSupported = of(cudaDeviceAttr::cudaDevAttrGlobalL1CacheSupported);
        $prop.localL1CacheSupported = of(cudaDeviceAttr::cudaDevAttrLocalL1CacheSupported);
        $prop.sharedMemPerMultiprocessor = bytes(cudaDeviceAttr::cudaDevAttrMaxSharedMemoryPerMultiprocessor);
        $prop.regsPerMultiprocessor = of(cudaDeviceAttr::cudaDevAttrMaxRegistersPerMultiprocessor);
        $prop.managedMemory = of(cudaDeviceAttr::cudaDevAttrManagedMemory);
        $prop.multiGpuBoardGroupID = number($device.ordinal);
        $prop.hostNativeAtomicSupported = of(cudaDeviceAttr::cudaDevAttrHostNativeAtomicSupported);
        $prop.pageableMemoryAccess = of(cudaDeviceAttr::cudaDevAttrPageableMemoryAccess);
        $prop.concurrentManagedAccess = of(cudaDeviceAttr::cudaDevAttrConcurrentManagedAccess);
        $prop.computePreemptionSupported = of(cudaDeviceAttr::cudaDevAttrComputePreemptionSupported);
        $prop.canUseHostPointerForRegisteredMem =
            of(cudaDeviceAttr::cudaDevAttrCanUseHostPointerForRegisteredMem);
        $prop.cooperativeLaunch = of(cudaDeviceAttr::cudaDevAttrCooperativeLaunch);
        $prop.sharedMemPerBlockOptin = bytes(cudaDeviceAttr::cudaDevAttrMaxSharedMemoryPerBlockOptin);
        $prop.maxBlocksPerMultiProcessor = of(cudaDeviceAttr::cudaDevAttrMaxBlocksPerMultiprocessor);
        $prop.accessPolicyMaxWindowSize = of(cudaDeviceAttr::cudaDevAttrMaxAccessPolicyWindowSize);
        $prop.reservedSharedMemPerBlock = bytes(cudaDeviceAttr::cudaDevAttrReservedSharedMemoryPerBlock);
        $prop.hostRegisterSupported = of(cudaDeviceAttr::cudaDevAttrHostRegisterSupported);
        $prop.memoryPoolsSupported = of(cudaDeviceAttr::cudaDevAttrMemoryPoolsSupported);
        $prop.memoryPoolSupportedHandleTypes =
            of(cudaDeviceAttr::cudaDevAttrMemoryPoolSupportedHandleTypes).unsigned_abs();
        $prop.ipcEventSupported = of(cudaDeviceAttr::cudaDevAttrIpcEventSupport);
        $prop.clusterLaunch = of(cudaDeviceAttr::cudaDevAttrClusterLaunch);
    }};
}

/// The struct of CUDA 12, from 12.0 on.
pub(crate) fn properties12(device: &Device) -> cudaDeviceProp12 {
    let mut prop = cudaDeviceProp12::default();
    common!(prop device);
    let of = |attr| attribute(device, attr).unwrap_or(0);
    prop.clockRate = of(cudaDeviceAttr::cudaDevAttrClockRate);
    prop.memoryClockRate = of(cudaDeviceAttr::cudaDevAttrMemoryClockRate);
    prop.deviceOverlap = of(cudaDeviceAttr::cudaDevAttrGpuOverlap);
    prop.singleToDoublePrecisionPerfRatio = of(cudaDeviceAttr::cudaDevAttrSingleToDoublePrecisionPerfRatio);
    prop
}

/// The struct of CUDA 13.
pub(crate) fn properties13(device: &Device) -> cudaDeviceProp13 {
    let mut prop = cudaDeviceProp13::default();
    common!(prop device);
    prop.deviceNumaId = -1;
    prop.hostNumaId = -1;
    prop
}

/// A text in as many characters, the last of them NUL.
fn text<const SIZE: usize>(text: &str) -> [c_char; SIZE] {
    let mut characters = [0; SIZE];
    for (to, from) in characters.iter_mut().take(SIZE - 1).zip(text.bytes()) {
        *to = c_char::from_ne_byte(from);
    }
    characters
}

/// A byte as C's `char`, which is signed on some machines.
pub(crate) trait FromByte {
    /// The same bits.
    fn from_ne_byte(byte: u8) -> Self;
}

impl FromByte for c_char {
    fn from_ne_byte(byte: u8) -> Self {
        Self::from_ne_bytes([byte])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fakegpu_cuda::Devices;

    fn device(profile: &str) -> Device {
        let vars = [("FAKEGPU_GPU_PROFILE".to_owned(), profile.to_owned())];
        let settings = fakegpu_config::Settings::from_vars(vars.clone()).unwrap();
        Devices::new(&settings, None, vars).unwrap().iter().next().unwrap().clone()
    }

    #[test]
    fn the_structs_of_both_majors_tell_the_same() {
        let device = device("a100");
        let (old, new) = (properties12(&device), properties13(&device));
        assert_eq!((old.major, old.minor, old.multiProcessorCount), (8, 0, 108));
        assert_eq!((new.major, new.minor, new.multiProcessorCount), (8, 0, 108));
        assert_eq!((old.totalGlobalMem, old.clockRate), (new.totalGlobalMem, 1_410_000));
        assert_eq!((new.sharedMemPerBlockOptin, new.regsPerBlock), (166_912, 65_536));
        assert_eq!((old.name, old.uuid.bytes), (new.name, new.uuid.bytes));
    }

    #[test]
    fn an_attribute_that_cuda_does_not_know_has_no_value() {
        let device = device("h100");
        assert_eq!(attribute(&device, cudaDeviceAttr::cudaDevAttrClusterLaunch), Some(1));
        assert_eq!(attribute(&device, cudaDeviceAttr::cudaDevAttrMaxTexture1DWidth), Some(0));
        assert_eq!(
            (attribute(&device, cudaDeviceAttr(0)), attribute(&device, cudaDeviceAttr(148))),
            (None, None)
        );
    }
}
