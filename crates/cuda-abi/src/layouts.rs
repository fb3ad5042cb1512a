//! The structs of `cuda_runtime_api.h` and `cuda.h` that are looked into, laid out as C lays them out. Where CUDA 12 and 13
//! differ there are two, with the major number behind the name.
#![expect(non_snake_case, reason = "C's own names, so that a search finds both sides")]

use std::mem::offset_of;

use crate::types::*;

/// A struct as memory sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name here.
    pub name: &'static str,
    /// Bytes, trailing padding included.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Bytes from its start to each member, in order.
    pub offsets: &'static [usize],
}

macro_rules! c_structs {
    ($($(#[doc = $doc:literal])* $name:ident { $($field:ident: $ty:ty),* $(,)? })*) => {
        $(
            $(#[doc = $doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs, reason = "members are named as in C, and mean what they mean there")]
            pub struct $name { $(pub $field: $ty),* }
        )*

        /// Every struct, in the order of this file.
        pub const LAYOUTS: &[Layout] = &[$(Layout {
            name: stringify!($name),
            size: size_of::<$name>(),
            align: align_of::<$name>(),
            offsets: &[$(offset_of!($name, $field)),*],
        }),*];
    };
}

c_structs! {
    /// Three counts: of blocks or of threads.
    dim3 {
        x: c_uint, y: c_uint, z: c_uint,
    }
    /// Sixteen bytes that name a device.
    CUuuid {
        bytes: [c_char; 16],
    }
    /// Where in an array.
    cudaPos {
        x: usize, y: usize, z: usize,
    }
    /// How large in three directions.
    cudaExtent {
        width: usize, height: usize, depth: usize,
    }
    /// Memory in rows.
    cudaPitchedPtr {
        ptr: *mut c_void, pitch: usize, xsize: usize, ysize: usize,
    }
    /// Where memory is.
    cudaMemLocation {
        r#type: cudaMemLocationType, id: c_int,
    }
    /// Who may do what with memory.
    cudaMemAccessDesc {
        location: cudaMemLocation, flags: cudaMemAccessFlags,
    }
    /// What is known of a pointer, of CUDA 12.
    cudaPointerAttributes12 {
        r#type: cudaMemoryType, device: c_int, devicePointer: *mut c_void, hostPointer: *mut c_void,
    }
    /// What is known of a pointer, of CUDA 13.
    cudaPointerAttributes13 {
        r#type: cudaMemoryType, device: c_int, devicePointer: *mut c_void, hostPointer: *mut c_void,
        reserved: [i64; 8],
    }
    /// What is known of a kernel.
    cudaFuncAttributes {
        sharedSizeBytes: usize, constSizeBytes: usize, localSizeBytes: usize, maxThreadsPerBlock: c_int,
        numRegs: c_int, ptxVersion: c_int, binaryVersion: c_int, cacheModeCA: c_int,
        maxDynamicSharedSizeBytes: c_int, preferredShmemCarveout: c_int, clusterDimMustBeSet: c_int,
        requiredClusterWidth: c_int, requiredClusterHeight: c_int, requiredClusterDepth: c_int,
        clusterSchedulingPolicyPreference: c_int, nonPortableClusterSizeAllowed: c_int, reserved0: c_int,
        reserved: [c_int; 15],
    }
    /// What a pool is made of.
    cudaMemPoolProps {
        allocType: c_int, handleTypes: cudaMemAllocationHandleType, location: cudaMemLocation,
        win32SecurityAttributes: *mut c_void, maxSize: usize, usage: u16, reserved: [u8; 54],
    }
    /// A copy of a box.
    cudaMemcpy3DParms {
        srcArray: cudaArray_t, srcPos: cudaPos, srcPtr: cudaPitchedPtr, dstArray: cudaArray_t,
        dstPos: cudaPos, dstPtr: cudaPitchedPtr, extent: cudaExtent, kind: cudaMemcpyKind,
    }
    /// A copy of a box between devices.
    cudaMemcpy3DPeerParms {
        srcArray: cudaArray_t, srcPos: cudaPos, srcPtr: cudaPitchedPtr, srcDevice: c_int,
        dstArray: cudaArray_t, dstPos: cudaPos, dstPtr: cudaPitchedPtr, dstDevice: c_int, extent: cudaExtent,
    }
    /// How a kernel is launched.
    cudaLaunchConfig_t {
        gridDim: dim3, blockDim: dim3, dynamicSmemBytes: usize, stream: cudaStream_t, attrs: *mut c_void,
        numAttrs: c_uint,
    }
    /// Memory of a process, for another.
    cudaIpcMemHandle_t {
        reserved: [c_char; 64],
    }
    /// An event of a process, for another.
    cudaIpcEventHandle_t {
        reserved: [c_char; 64],
    }
    /// The bits of an element of an array.
    cudaChannelFormatDesc {
        x: c_int, y: c_int, z: c_int, w: c_int, f: c_int,
    }
    /// How one node of a graph waits for another.
    cudaGraphEdgeData {
        from_port: u8, to_port: u8, r#type: u8, reserved: [u8; 5],
    }
    /// A host function in a graph.
    cudaHostNodeParams {
        r#fn: cudaHostFn_t, userData: *mut c_void,
    }
    /// A memset in a graph.
    cudaMemsetParams {
        dst: *mut c_void, pitch: usize, value: c_uint, elementSize: c_uint, width: usize, height: usize,
    }
    /// A kernel in a graph.
    cudaKernelNodeParams {
        func: *mut c_void, gridDim: dim3, blockDim: dim3, sharedMemBytes: c_uint,
        kernelParams: *mut *mut c_void, extra: *mut *mut c_void,
    }
    /// What is known of a device, of CUDA 12.
    cudaDeviceProp12 {
        name: [c_char; 256], uuid: CUuuid, luid: [c_char; 8], luidDeviceNodeMask: c_uint,
        totalGlobalMem: usize, sharedMemPerBlock: usize, regsPerBlock: c_int, warpSize: c_int,
        memPitch: usize, maxThreadsPerBlock: c_int, maxThreadsDim: [c_int; 3], maxGridSize: [c_int; 3],
        clockRate: c_int, totalConstMem: usize, major: c_int, minor: c_int, textureAlignment: usize,
        texturePitchAlignment: usize, deviceOverlap: c_int, multiProcessorCount: c_int,
        kernelExecTimeoutEnabled: c_int, integrated: c_int, canMapHostMemory: c_int, computeMode: c_int,
        maxTexture1D: c_int, maxTexture1DMipmap: c_int, maxTexture1DLinear: c_int, maxTexture2D: [c_int; 2],
        maxTexture2DMipmap: [c_int; 2], maxTexture2DLinear: [c_int; 3], maxTexture2DGather: [c_int; 2],
        maxTexture3D: [c_int; 3], maxTexture3DAlt: [c_int; 3], maxTextureCubemap: c_int,
        maxTexture1DLayered: [c_int; 2], maxTexture2DLayered: [c_int; 3],
        maxTextureCubemapLayered: [c_int; 2], maxSurface1D: c_int, maxSurface2D: [c_int; 2],
        maxSurface3D: [c_int; 3], maxSurface1DLayered: [c_int; 2], maxSurface2DLayered: [c_int; 3],
        maxSurfaceCubemap: c_int, maxSurfaceCubemapLayered: [c_int; 2], surfaceAlignment: usize,
        concurrentKernels: c_int, ECCEnabled: c_int, pciBusID: c_int, pciDeviceID: c_int, pciDomainID: c_int,
        tccDriver: c_int, asyncEngineCount: c_int, unifiedAddressing: c_int, memoryClockRate: c_int,
        memoryBusWidth: c_int, l2CacheSize: c_int, persistingL2CacheMaxSize: c_int,
        maxThreadsPerMultiProcessor: c_int, streamPrioritiesSupported: c_int, globalL1CacheSupported: c_int,
        localL1CacheSupported: c_int, sharedMemPerMultiprocessor: usize, regsPerMultiprocessor: c_int,
        managedMemory: c_int, isMultiGpuBoard: c_int, multiGpuBoardGroupID: c_int,
        hostNativeAtomicSupported: c_int, singleToDoublePrecisionPerfRatio: c_int,
        pageableMemoryAccess: c_int, concurrentManagedAccess: c_int, computePreemptionSupported: c_int,
        canUseHostPointerForRegisteredMem: c_int, cooperativeLaunch: c_int,
        cooperativeMultiDeviceLaunch: c_int, sharedMemPerBlockOptin: usize,
        pageableMemoryAccessUsesHostPageTables: c_int, directManagedMemAccessFromHost: c_int,
        maxBlocksPerMultiProcessor: c_int, accessPolicyMaxWindowSize: c_int, reservedSharedMemPerBlock: usize,
        hostRegisterSupported: c_int, sparseCudaArraySupported: c_int, hostRegisterReadOnlySupported: c_int,
        timelineSemaphoreInteropSupported: c_int, memoryPoolsSupported: c_int, gpuDirectRDMASupported: c_int,
        gpuDirectRDMAFlushWritesOptions: c_uint, gpuDirectRDMAWritesOrdering: c_int,
        memoryPoolSupportedHandleTypes: c_uint, deferredMappingCudaArraySupported: c_int,
        ipcEventSupported: c_int, clusterLaunch: c_int, unifiedFunctionPointers: c_int, reserved: [c_int; 63],
    }
    /// What is known of a device, of CUDA 13.
    cudaDeviceProp13 {
        name: [c_char; 256], uuid: CUuuid, luid: [c_char; 8], luidDeviceNodeMask: c_uint,
        totalGlobalMem: usize, sharedMemPerBlock: usize, regsPerBlock: c_int, warpSize: c_int,
        memPitch: usize, maxThreadsPerBlock: c_int, maxThreadsDim: [c_int; 3], maxGridSize: [c_int; 3],
        totalConstMem: usize, major: c_int, minor: c_int, textureAlignment: usize,
        texturePitchAlignment: usize, multiProcessorCount: c_int, integrated: c_int, canMapHostMemory: c_int,
        maxTexture1D: c_int, maxTexture1DMipmap: c_int, maxTexture2D: [c_int; 2],
        maxTexture2DMipmap: [c_int; 2], maxTexture2DLinear: [c_int; 3], maxTexture2DGather: [c_int; 2],
        maxTexture3D: [c_int; 3], maxTexture3DAlt: [c_int; 3], maxTextureCubemap: c_int,
        maxTexture1DLayered: [c_int; 2], maxTexture2DLayered: [c_int; 3],
        maxTextureCubemapLayered: [c_int; 2], maxSurface1D: c_int, maxSurface2D: [c_int; 2],
        maxSurface3D: [c_int; 3], maxSurface1DLayered: [c_int; 2], maxSurface2DLayered: [c_int; 3],
        maxSurfaceCubemap: c_int, maxSurfaceCubemapLayered: [c_int; 2], surfaceAlignment: usize,
        concurrentKernels: c_int, ECCEnabled: c_int, pciBusID: c_int, pciDeviceID: c_int, pciDomainID: c_int,
        tccDriver: c_int, asyncEngineCount: c_int, unifiedAddressing: c_int, memoryBusWidth: c_int,
        l2CacheSize: c_int, persistingL2CacheMaxSize: c_int, maxThreadsPerMultiProcessor: c_int,
        streamPrioritiesSupported: c_int, globalL1CacheSupported: c_int, localL1CacheSupported: c_int,
        sharedMemPerMultiprocessor: usize, regsPerMultiprocessor: c_int, managedMemory: c_int,
        isMultiGpuBoard: c_int, multiGpuBoardGroupID: c_int, hostNativeAtomicSupported: c_int,
        pageableMemoryAccess: c_int, concurrentManagedAccess: c_int, computePreemptionSupported: c_int,
        canUseHostPointerForRegisteredMem: c_int, cooperativeLaunch: c_int, sharedMemPerBlockOptin: usize,
        pageableMemoryAccessUsesHostPageTables: c_int, directManagedMemAccessFromHost: c_int,
        maxBlocksPerMultiProcessor: c_int, accessPolicyMaxWindowSize: c_int, reservedSharedMemPerBlock: usize,
        hostRegisterSupported: c_int, sparseCudaArraySupported: c_int, hostRegisterReadOnlySupported: c_int,
        timelineSemaphoreInteropSupported: c_int, memoryPoolsSupported: c_int, gpuDirectRDMASupported: c_int,
        gpuDirectRDMAFlushWritesOptions: c_uint, gpuDirectRDMAWritesOrdering: c_int,
        memoryPoolSupportedHandleTypes: c_uint, deferredMappingCudaArraySupported: c_int,
        ipcEventSupported: c_int, clusterLaunch: c_int, unifiedFunctionPointers: c_int,
        deviceNumaConfig: c_int, deviceNumaId: c_int, mpsEnabled: c_int, hostNumaId: c_int,
        gpuPciDeviceID: c_uint, gpuPciSubsystemID: c_uint, hostNumaMultinodeIpcSupported: c_int,
        reserved: [c_int; 56],
    }
    /// Where memory is.
    CUmemLocation {
        r#type: c_int, id: c_int,
    }
    /// Who may do what with memory.
    CUmemAccessDesc {
        location: CUmemLocation, flags: c_int,
    }
    /// What a pool is made of.
    CUmemPoolProps {
        allocType: c_int, handleTypes: c_int, location: CUmemLocation, win32SecurityAttributes: *mut c_void,
        maxSize: usize, usage: u16, reserved: [u8; 54],
    }
    /// What a physical allocation is made of.
    CUmemAllocationProp {
        r#type: c_int, requestedHandleTypes: c_int, location: CUmemLocation, win32HandleMetaData: *mut c_void,
        allocFlags: [u8; 8],
    }
    /// A copy of a rectangle.
    CUDA_MEMCPY2D {
        srcXInBytes: usize, srcY: usize, srcMemoryType: CUmemorytype, srcHost: *const c_void,
        srcDevice: CUdeviceptr, srcArray: CUarray, srcPitch: usize, dstXInBytes: usize, dstY: usize,
        dstMemoryType: CUmemorytype, dstHost: *mut c_void, dstDevice: CUdeviceptr, dstArray: CUarray,
        dstPitch: usize, WidthInBytes: usize, Height: usize,
    }
    /// A copy of a box.
    CUDA_MEMCPY3D {
        srcXInBytes: usize, srcY: usize, srcZ: usize, srcLOD: usize, srcMemoryType: CUmemorytype,
        srcHost: *const c_void, srcDevice: CUdeviceptr, srcArray: CUarray, reserved0: *mut c_void,
        srcPitch: usize, srcHeight: usize, dstXInBytes: usize, dstY: usize, dstZ: usize, dstLOD: usize,
        dstMemoryType: CUmemorytype, dstHost: *mut c_void, dstDevice: CUdeviceptr, dstArray: CUarray,
        reserved1: *mut c_void, dstPitch: usize, dstHeight: usize, WidthInBytes: usize, Height: usize,
        Depth: usize,
    }
    /// What is known of a device, in the driver before CUDA 5.
    CUdevprop {
        maxThreadsPerBlock: c_int, maxThreadsDim: [c_int; 3], maxGridSize: [c_int; 3],
        sharedMemPerBlock: c_int, totalConstantMemory: c_int, SIMDWidth: c_int, memPitch: c_int,
        regsPerBlock: c_int, clockRate: c_int, textureAlign: c_int,
    }
}

macro_rules! zeroed {
    ($($name:ident)*) => { $(
        impl Default for $name {
            fn default() -> Self {
                // SAFETY: numbers, arrays of numbers and raw pointers, for all of which zeroes are a value.
                unsafe { std::mem::zeroed() }
            }
        }
    )* };
}

zeroed! {
    dim3 CUuuid cudaPos cudaExtent cudaPitchedPtr cudaMemLocation cudaMemAccessDesc
    cudaPointerAttributes12 cudaPointerAttributes13 cudaFuncAttributes cudaMemPoolProps cudaMemcpy3DParms
    cudaMemcpy3DPeerParms cudaLaunchConfig_t cudaIpcMemHandle_t cudaIpcEventHandle_t cudaChannelFormatDesc
    cudaGraphEdgeData cudaMemsetParams cudaKernelNodeParams cudaDeviceProp12 cudaDeviceProp13
    CUmemLocation CUmemAccessDesc CUmemPoolProps CUmemAllocationProp CUDA_MEMCPY2D CUDA_MEMCPY3D CUdevprop
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, size, alignment and offsets, as a C program prints them that is compiled against the headers of CUDA
    /// 12.8.90 and 13.2.86.
    const MEASURED: &[(&str, usize, usize, &[usize])] = &[
        ("dim3", 12, 4, &[0, 4, 8]),
        ("CUuuid", 16, 1, &[0]),
        ("cudaPos", 24, 8, &[0, 8, 16]),
        ("cudaExtent", 24, 8, &[0, 8, 16]),
        ("cudaPitchedPtr", 32, 8, &[0, 8, 16, 24]),
        ("cudaMemLocation", 8, 4, &[0, 4]),
        ("cudaMemAccessDesc", 12, 4, &[0, 8]),
        ("cudaPointerAttributes12", 24, 8, &[0, 4, 8, 16]),
        ("cudaPointerAttributes13", 88, 8, &[0, 4, 8, 16, 24]),
        (
            "cudaFuncAttributes",
            144,
            8,
            &[0, 8, 16, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80],
        ),
        ("cudaMemPoolProps", 88, 8, &[0, 4, 8, 16, 24, 32, 34]),
        ("cudaMemcpy3DParms", 160, 8, &[0, 8, 32, 64, 72, 96, 128, 152]),
        ("cudaMemcpy3DPeerParms", 168, 8, &[0, 8, 32, 64, 72, 80, 104, 136, 144]),
        ("cudaLaunchConfig_t", 56, 8, &[0, 12, 24, 32, 40, 48]),
        ("cudaIpcMemHandle_t", 64, 1, &[0]),
        ("cudaIpcEventHandle_t", 64, 1, &[0]),
        ("cudaChannelFormatDesc", 20, 4, &[0, 4, 8, 12, 16]),
        ("cudaGraphEdgeData", 8, 1, &[0, 1, 2, 3]),
        ("cudaHostNodeParams", 16, 8, &[0, 8]),
        ("cudaMemsetParams", 40, 8, &[0, 8, 16, 20, 24, 32]),
        ("cudaKernelNodeParams", 56, 8, &[0, 8, 20, 32, 40, 48]),
        (
            "cudaDeviceProp12",
            1032,
            8,
            &[
                0, 256, 272, 280, 288, 296, 304, 308, 312, 320, 324, 336, 348, 352, 360, 364, 368, 376, 384,
                388, 392, 396, 400, 404, 408, 412, 416, 420, 428, 436, 448, 456, 468, 480, 484, 492, 504,
                512, 516, 524, 536, 544, 556, 560, 568, 576, 580, 584, 588, 592, 596, 600, 604, 608, 612,
                616, 620, 624, 628, 632, 636, 640, 648, 652, 656, 660, 664, 668, 672, 676, 680, 684, 688,
                692, 696, 704, 708, 712, 716, 720, 728, 732, 736, 740, 744, 748, 752, 756, 760, 764, 768,
                772, 776, 780,
            ],
        ),
        (
            "cudaDeviceProp13",
            1008,
            8,
            &[
                0, 256, 272, 280, 288, 296, 304, 308, 312, 320, 324, 336, 352, 360, 364, 368, 376, 384, 388,
                392, 396, 400, 404, 412, 420, 432, 440, 452, 464, 468, 476, 488, 496, 500, 508, 520, 528,
                540, 544, 552, 560, 564, 568, 572, 576, 580, 584, 588, 592, 596, 600, 604, 608, 612, 616,
                624, 632, 636, 640, 644, 648, 652, 656, 660, 664, 668, 672, 680, 684, 688, 692, 696, 704,
                708, 712, 716, 720, 724, 728, 732, 736, 740, 744, 748, 752, 756, 760, 764, 768, 772, 776,
                780, 784,
            ],
        ),
        ("CUmemLocation", 8, 4, &[0, 4]),
        ("CUmemAccessDesc", 12, 4, &[0, 8]),
        ("CUmemPoolProps", 88, 8, &[0, 4, 8, 16, 24, 32, 34]),
        ("CUmemAllocationProp", 32, 8, &[0, 4, 8, 16, 24]),
        ("CUDA_MEMCPY2D", 128, 8, &[0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120]),
        (
            "CUDA_MEMCPY3D",
            200,
            8,
            &[
                0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160,
                168, 176, 184, 192,
            ],
        ),
        ("CUdevprop", 56, 4, &[0, 4, 16, 28, 32, 36, 40, 44, 48, 52]),
    ];

    #[test]
    fn every_struct_lies_in_memory_as_in_the_headers() {
        assert_eq!(LAYOUTS.len(), MEASURED.len());
        for (layout, &(name, size, align, offsets)) in LAYOUTS.iter().zip(MEASURED) {
            assert_eq!(*layout, Layout { name, size, align, offsets });
        }
    }
}
