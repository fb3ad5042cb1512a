//! The types of `cuda_runtime_api.h` and `cuda.h` that are not structs, named as C names them: handles, which are never
//! looked into here, and enums, which are open, since a caller's unknown value is a value to refuse.
#![expect(
    non_camel_case_types,
    non_upper_case_globals,
    reason = "C's own names, so that a search finds both sides"
)]

use std::fmt;

pub use std::ffi::{c_char, c_int, c_uint, c_void};

pub use crate::codes::{CUresult, cudaError_t};
pub use crate::layouts::*;

/// An address in a device's memory, as the driver's functions take it.
pub type CUdeviceptr = u64;
/// A device's ordinal, as the driver's functions take it.
pub type CUdevice = c_int;
/// A function of the program's that takes its argument.
pub type cudaHostFn_t = Option<unsafe extern "C" fn(*mut c_void)>;
/// A function of the program's that is told how a stream fared.
pub type cudaStreamCallback_t = Option<unsafe extern "C" fn(cudaStream_t, cudaError_t, *mut c_void)>;
/// The driver's [`cudaStreamCallback_t`].
pub type CUstreamCallback = Option<unsafe extern "C" fn(CUstream, CUresult, *mut c_void)>;
/// The driver's [`cudaIpcMemHandle_t`].
pub type CUipcMemHandle = cudaIpcMemHandle_t;
/// The driver's [`cudaIpcEventHandle_t`].
pub type CUipcEventHandle = cudaIpcEventHandle_t;
/// The driver's [`cudaDeviceAttr`]; the numbers are the same.
pub type CUdevice_attribute = cudaDeviceAttr;

macro_rules! handles {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "`, opaque.")]
        pub type $name = *mut c_void;
    )* };
}

handles! {
    CUarray CUasyncCallbackHandle CUcontext CUcoredumpCallbackHandle CUdevResourceDesc CUevent
    CUexternalMemory CUexternalSemaphore CUfunction CUgraph CUgraphExec CUgraphNode CUgraphicsResource
    CUgreenCtx CUkernel CUlibrary CUlinkState CUlogsCallbackHandle CUmemoryPool CUmipmappedArray CUmodule
    CUstream CUsurfref CUtexref CUuserObject cudaArray_t cudaAsyncCallbackHandle_t cudaDevResourceDesc_t
    cudaEvent_t cudaExecutionContext_t cudaExternalMemory_t cudaExternalSemaphore_t cudaFunction_t
    cudaGraphExec_t cudaGraphNode_t cudaGraph_t cudaGraphicsResource_t cudaKernel_t cudaLibrary_t
    cudaLogsCallbackHandle cudaMemPool_t cudaMipmappedArray_t cudaStream_t cudaUserObject_t
}

macro_rules! numbers {
    ($($name:ident)*) => { $(
        #[doc = concat!("`", stringify!($name), "`, a number that is only handed on.")]
        pub type $name = c_int;
    )* };
}

numbers! {
    CUaddress_mode CUarray_format CUatomicOperation CUcoredumpSettings CUdevice_P2PAttribute CUfilter_mode
    CUflushGPUDirectRDMAWritesScope CUflushGPUDirectRDMAWritesTarget CUfunc_cache CUfunctionLoadingState
    CUgraphMem_attribute CUgraphNodeType CUjitInputType CUjit_option CUlibraryOption CUlimit
    CUmemAccess_flags CUmemAllocationGranularity_flags CUmemAllocationType CUmemPool_attribute
    CUmemRangeHandleType CUmem_advise CUmem_range_attribute CUmoduleLoadingMode
    CUmulticastGranularity_flags CUprocessState CUsharedconfig CUstreamCaptureMode CUstreamCaptureStatus
    CUtensorMapDataType CUtensorMapFloatOOBfill CUtensorMapIm2ColWideMode CUtensorMapInterleave
    CUtensorMapL2promotion CUtensorMapSwizzle cudaAtomicOperation cudaChannelFormatKind
    cudaDevResourceType cudaFlushGPUDirectRDMAWritesScope cudaFlushGPUDirectRDMAWritesTarget cudaFuncCache
    cudaGraphMemAttributeType cudaJitOption cudaLaunchAttributeID cudaLibraryOption cudaMemAllocationType
    cudaMemRangeAttribute cudaMemoryAdvise cudaSharedMemConfig
}

/// An open newtype over `int`: any value is valid, some have names.
macro_rules! c_enum {
    ($($(#[doc = $doc:literal])* $name:ident { $($value_name:ident = $value:literal),* $(,)? })*) => { $(
        $(#[doc = $doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub c_int);

        impl $name {
            $(
                #[doc = concat!("`", stringify!($value_name), "`.")]
                pub const $value_name: Self = Self($value);
            )*
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let names: &[(&str, c_int)] = &[$((stringify!($value_name), $value)),*];
                match names.iter().find(|named| named.1 == self.0) {
                    Some(named) => f.write_str(named.0),
                    None => write!(f, concat!(stringify!($name), "({})"), self.0),
                }
            }
        }
    )* };
}

c_enum! {
    /// A property of a device as a number.
    cudaDeviceAttr {
        cudaDevAttrMaxThreadsPerBlock = 1,
        cudaDevAttrMaxBlockDimX = 2,
        cudaDevAttrMaxBlockDimY = 3,
        cudaDevAttrMaxBlockDimZ = 4,
        cudaDevAttrMaxGridDimX = 5,
        cudaDevAttrMaxGridDimY = 6,
        cudaDevAttrMaxGridDimZ = 7,
        cudaDevAttrMaxSharedMemoryPerBlock = 8,
        cudaDevAttrTotalConstantMemory = 9,
        cudaDevAttrWarpSize = 10,
        cudaDevAttrMaxPitch = 11,
        cudaDevAttrMaxRegistersPerBlock = 12,
        cudaDevAttrClockRate = 13,
        cudaDevAttrTextureAlignment = 14,
        cudaDevAttrGpuOverlap = 15,
        cudaDevAttrMultiProcessorCount = 16,
        cudaDevAttrKernelExecTimeout = 17,
        cudaDevAttrIntegrated = 18,
        cudaDevAttrCanMapHostMemory = 19,
        cudaDevAttrComputeMode = 20,
        cudaDevAttrMaxTexture1DWidth = 21,
        cudaDevAttrMaxTexture2DWidth = 22,
        cudaDevAttrMaxTexture2DHeight = 23,
        cudaDevAttrMaxTexture3DWidth = 24,
        cudaDevAttrMaxTexture3DHeight = 25,
        cudaDevAttrMaxTexture3DDepth = 26,
        cudaDevAttrMaxTexture2DLayeredWidth = 27,
        cudaDevAttrMaxTexture2DLayeredHeight = 28,
        cudaDevAttrMaxTexture2DLayeredLayers = 29,
        cudaDevAttrSurfaceAlignment = 30,
        cudaDevAttrConcurrentKernels = 31,
        cudaDevAttrEccEnabled = 32,
        cudaDevAttrPciBusId = 33,
        cudaDevAttrPciDeviceId = 34,
        cudaDevAttrTccDriver = 35,
        cudaDevAttrMemoryClockRate = 36,
        cudaDevAttrGlobalMemoryBusWidth = 37,
        cudaDevAttrL2CacheSize = 38,
        cudaDevAttrMaxThreadsPerMultiProcessor = 39,
        cudaDevAttrAsyncEngineCount = 40,
        cudaDevAttrUnifiedAddressing = 41,
        cudaDevAttrMaxTexture1DLayeredWidth = 42,
        cudaDevAttrMaxTexture1DLayeredLayers = 43,
        cudaDevAttrMaxTexture2DGatherWidth = 45,
        cudaDevAttrMaxTexture2DGatherHeight = 46,
        cudaDevAttrMaxTexture3DWidthAlt = 47,
        cudaDevAttrMaxTexture3DHeightAlt = 48,
        cudaDevAttrMaxTexture3DDepthAlt = 49,
        cudaDevAttrPciDomainId = 50,
        cudaDevAttrTexturePitchAlignment = 51,
        cudaDevAttrMaxTextureCubemapWidth = 52,
        cudaDevAttrMaxTextureCubemapLayeredWidth = 53,
        cudaDevAttrMaxTextureCubemapLayeredLayers = 54,
        cudaDevAttrMaxSurface1DWidth = 55,
        cudaDevAttrMaxSurface2DWidth = 56,
        cudaDevAttrMaxSurface2DHeight = 57,
        cudaDevAttrMaxSurface3DWidth = 58,
        cudaDevAttrMaxSurface3DHeight = 59,
        cudaDevAttrMaxSurface3DDepth = 60,
        cudaDevAttrMaxSurface1DLayeredWidth = 61,
        cudaDevAttrMaxSurface1DLayeredLayers = 62,
        cudaDevAttrMaxSurface2DLayeredWidth = 63,
        cudaDevAttrMaxSurface2DLayeredHeight = 64,
        cudaDevAttrMaxSurface2DLayeredLayers = 65,
        cudaDevAttrMaxSurfaceCubemapWidth = 66,
        cudaDevAttrMaxSurfaceCubemapLayeredWidth = 67,
        cudaDevAttrMaxSurfaceCubemapLayeredLayers = 68,
        cudaDevAttrMaxTexture1DLinearWidth = 69,
        cudaDevAttrMaxTexture2DLinearWidth = 70,
        cudaDevAttrMaxTexture2DLinearHeight = 71,
        cudaDevAttrMaxTexture2DLinearPitch = 72,
        cudaDevAttrMaxTexture2DMipmappedWidth = 73,
        cudaDevAttrMaxTexture2DMipmappedHeight = 74,
        cudaDevAttrComputeCapabilityMajor = 75,
        cudaDevAttrComputeCapabilityMinor = 76,
        cudaDevAttrMaxTexture1DMipmappedWidth = 77,
        cudaDevAttrStreamPrioritiesSupported = 78,
        cudaDevAttrGlobalL1CacheSupported = 79,
        cudaDevAttrLocalL1CacheSupported = 80,
        cudaDevAttrMaxSharedMemoryPerMultiprocessor = 81,
        cudaDevAttrMaxRegistersPerMultiprocessor = 82,
        cudaDevAttrManagedMemory = 83,
        cudaDevAttrIsMultiGpuBoard = 84,
        cudaDevAttrMultiGpuBoardGroupID = 85,
        cudaDevAttrHostNativeAtomicSupported = 86,
        cudaDevAttrSingleToDoublePrecisionPerfRatio = 87,
        cudaDevAttrPageableMemoryAccess = 88,
        cudaDevAttrConcurrentManagedAccess = 89,
        cudaDevAttrComputePreemptionSupported = 90,
        cudaDevAttrCanUseHostPointerForRegisteredMem = 91,
        cudaDevAttrCooperativeLaunch = 95,
        cudaDevAttrCooperativeMultiDeviceLaunch = 96,
        cudaDevAttrMaxSharedMemoryPerBlockOptin = 97,
        cudaDevAttrCanFlushRemoteWrites = 98,
        cudaDevAttrHostRegisterSupported = 99,
        cudaDevAttrPageableMemoryAccessUsesHostPageTables = 100,
        cudaDevAttrDirectManagedMemAccessFromHost = 101,
        cudaDevAttrMaxBlocksPerMultiprocessor = 106,
        cudaDevAttrMaxPersistingL2CacheSize = 108,
        cudaDevAttrMaxAccessPolicyWindowSize = 109,
        cudaDevAttrReservedSharedMemoryPerBlock = 111,
        cudaDevAttrSparseCudaArraySupported = 112,
        cudaDevAttrHostRegisterReadOnlySupported = 113,
        cudaDevAttrTimelineSemaphoreInteropSupported = 114,
        cudaDevAttrMaxTimelineSemaphoreInteropSupported = 114,
        cudaDevAttrMemoryPoolsSupported = 115,
        cudaDevAttrGPUDirectRDMASupported = 116,
        cudaDevAttrGPUDirectRDMAFlushWritesOptions = 117,
        cudaDevAttrGPUDirectRDMAWritesOrdering = 118,
        cudaDevAttrMemoryPoolSupportedHandleTypes = 119,
        cudaDevAttrClusterLaunch = 120,
        cudaDevAttrDeferredMappingCudaArraySupported = 121,
        cudaDevAttrIpcEventSupport = 125,
        cudaDevAttrMemSyncDomainCount = 126,
        cudaDevAttrNumaConfig = 130,
        cudaDevAttrNumaId = 131,
        cudaDevAttrMpsEnabled = 133,
        cudaDevAttrHostNumaId = 134,
        cudaDevAttrD3D12CigSupported = 135,
        cudaDevAttrVulkanCigSupported = 138,
        cudaDevAttrGpuPciDeviceId = 139,
        cudaDevAttrGpuPciSubsystemId = 140,
        cudaDevAttrHostNumaMemoryPoolsSupported = 142,
        cudaDevAttrHostNumaMultinodeIpcSupported = 143,
        cudaDevAttrHostMemoryPoolsSupported = 144,
        cudaDevAttrOnlyPartialHostNativeAtomicSupported = 147,
    }
    /// Which way a copy goes.
    cudaMemcpyKind {
        cudaMemcpyHostToHost = 0,
        cudaMemcpyHostToDevice = 1,
        cudaMemcpyDeviceToHost = 2,
        cudaMemcpyDeviceToDevice = 3,
        cudaMemcpyDefault = 4,
    }
    /// What a pointer points to.
    cudaMemoryType {
        cudaMemoryTypeUnregistered = 0,
        cudaMemoryTypeHost = 1,
        cudaMemoryTypeDevice = 2,
        cudaMemoryTypeManaged = 3,
    }
    /// Whether a stream captures.
    cudaStreamCaptureStatus {
        cudaStreamCaptureStatusNone = 0,
        cudaStreamCaptureStatusActive = 1,
        cudaStreamCaptureStatusInvalidated = 2,
    }
    /// What a capture forbids elsewhere.
    cudaStreamCaptureMode {
        cudaStreamCaptureModeGlobal = 0,
        cudaStreamCaptureModeThreadLocal = 1,
        cudaStreamCaptureModeRelaxed = 2,
    }
    /// A property of a memory pool.
    cudaMemPoolAttr {
        cudaMemPoolReuseFollowEventDependencies = 1,
        cudaMemPoolReuseAllowOpportunistic = 2,
        cudaMemPoolReuseAllowInternalDependencies = 3,
        cudaMemPoolAttrReleaseThreshold = 4,
        cudaMemPoolAttrReservedMemCurrent = 5,
        cudaMemPoolAttrReservedMemHigh = 6,
        cudaMemPoolAttrUsedMemCurrent = 7,
        cudaMemPoolAttrUsedMemHigh = 8,
        cudaMemPoolAttrAllocationType = 9,
        cudaMemPoolAttrExportHandleTypes = 10,
        cudaMemPoolAttrLocationId = 11,
        cudaMemPoolAttrLocationType = 12,
        cudaMemPoolAttrMaxPoolSize = 13,
        cudaMemPoolAttrHwDecompressEnabled = 14,
    }
    /// What a node of a graph does.
    cudaGraphNodeType {
        cudaGraphNodeTypeKernel = 0,
        cudaGraphNodeTypeMemcpy = 1,
        cudaGraphNodeTypeMemset = 2,
        cudaGraphNodeTypeHost = 3,
        cudaGraphNodeTypeGraph = 4,
        cudaGraphNodeTypeEmpty = 5,
        cudaGraphNodeTypeWaitEvent = 6,
        cudaGraphNodeTypeEventRecord = 7,
        cudaGraphNodeTypeExtSemaphoreSignal = 8,
        cudaGraphNodeTypeExtSemaphoreWait = 9,
        cudaGraphNodeTypeMemAlloc = 10,
        cudaGraphNodeTypeMemFree = 11,
        cudaGraphNodeTypeConditional = 13,
        cudaGraphNodeTypeCount = 14,
    }
    /// How a search for a driver function ended.
    cudaDriverEntryPointQueryResult {
        cudaDriverEntryPointSuccess = 0,
        cudaDriverEntryPointSymbolNotFound = 1,
        cudaDriverEntryPointVersionNotSufficent = 2,
    }
    /// A limit of a device.
    cudaLimit {
        cudaLimitStackSize = 0,
        cudaLimitPrintfFifoSize = 1,
        cudaLimitMallocHeapSize = 2,
        cudaLimitDevRuntimeSyncDepth = 3,
        cudaLimitDevRuntimePendingLaunchCount = 4,
        cudaLimitMaxL2FetchGranularity = 5,
        cudaLimitPersistingL2CacheSize = 6,
    }
    /// What a device may do with memory.
    cudaMemAccessFlags {
        cudaMemAccessFlagsProtNone = 0,
        cudaMemAccessFlagsProtRead = 1,
        cudaMemAccessFlagsProtReadWrite = 3,
    }
    /// A property of a kernel that can be set.
    cudaFuncAttribute {
        cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
        cudaFuncAttributePreferredSharedMemoryCarveout = 9,
        cudaFuncAttributeClusterDimMustBeSet = 10,
        cudaFuncAttributeRequiredClusterWidth = 11,
        cudaFuncAttributeRequiredClusterHeight = 12,
        cudaFuncAttributeRequiredClusterDepth = 13,
        cudaFuncAttributeNonPortableClusterSizeAllowed = 14,
        cudaFuncAttributeClusterSchedulingPolicyPreference = 15,
    }
    /// A property of a pair of devices.
    cudaDeviceP2PAttr {
        cudaDevP2PAttrPerformanceRank = 1,
        cudaDevP2PAttrAccessSupported = 2,
        cudaDevP2PAttrNativeAtomicSupported = 3,
        cudaDevP2PAttrCudaArrayAccessSupported = 4,
        cudaDevP2PAttrOnlyPartialNativeAtomicSupported = 5,
    }
    /// What kind of place memory is at.
    cudaMemLocationType {
        cudaMemLocationTypeInvalid = 0,
        cudaMemLocationTypeNone = 0,
        cudaMemLocationTypeDevice = 1,
        cudaMemLocationTypeHost = 2,
        cudaMemLocationTypeHostNuma = 3,
        cudaMemLocationTypeHostNumaCurrent = 4,
        cudaMemLocationTypeInvisible = 5,
    }
    /// How memory can be shared.
    cudaMemAllocationHandleType {
        cudaMemHandleTypeNone = 0,
        cudaMemHandleTypePosixFileDescriptor = 1,
        cudaMemHandleTypeWin32 = 2,
        cudaMemHandleTypeWin32Kmt = 4,
        cudaMemHandleTypeFabric = 8,
    }
    /// A property of a pointer.
    CUpointer_attribute {
        CU_POINTER_ATTRIBUTE_CONTEXT = 1,
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER = 3,
        CU_POINTER_ATTRIBUTE_HOST_POINTER = 4,
        CU_POINTER_ATTRIBUTE_P2P_TOKENS = 5,
        CU_POINTER_ATTRIBUTE_SYNC_MEMOPS = 6,
        CU_POINTER_ATTRIBUTE_BUFFER_ID = 7,
        CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,
        CU_POINTER_ATTRIBUTE_MAPPED = 13,
        CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES = 14,
        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE = 15,
        CU_POINTER_ATTRIBUTE_ACCESS_FLAGS = 16,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE = 17,
        CU_POINTER_ATTRIBUTE_MAPPING_SIZE = 18,
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR = 19,
        CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID = 20,
        CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE = 21,
    }
    /// A property of a kernel.
    CUfunction_attribute {
        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
        CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
        CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
        CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
        CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
        CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
        CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
        CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,
        CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
        CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
    }
    /// How a search for a driver function ended.
    CUdriverProcAddressQueryResult {
        CU_GET_PROC_ADDRESS_SUCCESS = 0,
        CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
        CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
    }
    /// What a pointer points to.
    CUmemorytype {
        CU_MEMORYTYPE_HOST = 1,
        CU_MEMORYTYPE_DEVICE = 2,
        CU_MEMORYTYPE_ARRAY = 3,
        CU_MEMORYTYPE_UNIFIED = 4,
    }
}
