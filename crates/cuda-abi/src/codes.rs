//! Every code of `cudaError_t` and `CUresult`: one list, since the two agree on their numbers.
#![expect(
    non_camel_case_types,
    non_upper_case_globals,
    reason = "C's own names, so that a search finds both sides"
)]

use std::ffi::{CStr, c_int};
use std::fmt;

/// How a call of the runtime ended. Any number is a value; some have names.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct cudaError_t(pub c_int);

/// How a call of the driver ended. Any number is a value; some have names.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CUresult(pub c_int);

/// A number with what each side calls it.
#[derive(Clone, Copy, Debug)]
pub struct CodeRow {
    /// The number, the same on both sides.
    pub code: c_int,
    /// Its name in the runtime.
    pub runtime: Option<&'static CStr>,
    /// Its name in the driver.
    pub driver: Option<&'static CStr>,
    /// What it means.
    pub text: &'static CStr,
}

macro_rules! constant {
    ($ty:ident - $code:literal $text:literal) => {};
    ($ty:ident $name:ident $code:literal $text:literal) => {
        impl $ty {
            #[doc = concat!("`", stringify!($name), "`: ", $text, ".")]
            pub const $name: Self = Self($code);
        }
    };
}

macro_rules! name {
    (-) => {
        None
    };
    ($name:ident) => {
        Some(cstr(concat!(stringify!($name), "\0")))
    };
}

macro_rules! codes {
    ($($code:literal $runtime:tt $driver:tt $text:literal;)*) => {
        $(
            constant! { cudaError_t $runtime $code $text }
            constant! { CUresult $driver $code $text }
        )*

        /// Every code, in the order of their numbers.
        pub const CODES: &[CodeRow] = &[$(CodeRow {
            code: $code,
            runtime: name!($runtime),
            driver: name!($driver),
            text: cstr(concat!($text, "\0")),
        }),*];
    };
}

/// A literal that ends in NUL, as C wants it.
const fn cstr(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => c"",
    }
}

codes! {
    0 cudaSuccess CUDA_SUCCESS "no error";
    1 cudaErrorInvalidValue CUDA_ERROR_INVALID_VALUE "invalid argument";
    2 cudaErrorMemoryAllocation CUDA_ERROR_OUT_OF_MEMORY "out of memory";
    3 cudaErrorInitializationError CUDA_ERROR_NOT_INITIALIZED "initialization error";
    4 cudaErrorCudartUnloading CUDA_ERROR_DEINITIALIZED "the driver is shutting down";
    5 cudaErrorProfilerDisabled CUDA_ERROR_PROFILER_DISABLED "the profiler is disabled";
    6 cudaErrorProfilerNotInitialized CUDA_ERROR_PROFILER_NOT_INITIALIZED "the profiler was not initialised";
    7 cudaErrorProfilerAlreadyStarted CUDA_ERROR_PROFILER_ALREADY_STARTED "the profiler was started before";
    8 cudaErrorProfilerAlreadyStopped CUDA_ERROR_PROFILER_ALREADY_STOPPED "the profiler was stopped before";
    9 cudaErrorInvalidConfiguration - "invalid launch configuration";
    10 cudaErrorVersionTranslation - "a pointer cannot be translated to this version";
    12 cudaErrorInvalidPitchValue - "invalid pitch";
    13 cudaErrorInvalidSymbol - "invalid device symbol";
    16 cudaErrorInvalidHostPointer - "invalid host pointer";
    17 cudaErrorInvalidDevicePointer - "invalid device pointer";
    18 cudaErrorInvalidTexture - "invalid texture";
    19 cudaErrorInvalidTextureBinding - "invalid texture binding";
    20 cudaErrorInvalidChannelDescriptor - "invalid channel descriptor";
    21 cudaErrorInvalidMemcpyDirection - "invalid copy direction";
    22 cudaErrorAddressOfConstant - "the address of a constant was taken";
    23 cudaErrorTextureFetchFailed - "a texture could not be read";
    24 cudaErrorTextureNotBound - "a texture is not bound";
    25 cudaErrorSynchronizationError - "synchronisation failed";
    26 cudaErrorInvalidFilterSetting - "invalid texture filter";
    27 cudaErrorInvalidNormSetting - "invalid texture normalisation";
    28 cudaErrorMixedDeviceExecution - "device and emulated code were mixed";
    31 cudaErrorNotYetImplemented - "not implemented";
    32 cudaErrorMemoryValueTooLarge - "a value for memory is too large";
    34 cudaErrorStubLibrary CUDA_ERROR_STUB_LIBRARY "this is a stub library";
    35 cudaErrorInsufficientDriver - "CUDA driver version is insufficient for CUDA runtime version";
    36 cudaErrorCallRequiresNewerDriver CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER "the call needs a newer driver";
    37 cudaErrorInvalidSurface - "invalid surface";
    43 cudaErrorDuplicateVariableName - "two variables share a name";
    44 cudaErrorDuplicateTextureName - "two textures share a name";
    45 cudaErrorDuplicateSurfaceName - "two surfaces share a name";
    46 cudaErrorDevicesUnavailable CUDA_ERROR_DEVICE_UNAVAILABLE "all devices are busy or unavailable";
    49 cudaErrorIncompatibleDriverContext - "the context and the runtime do not go together";
    52 cudaErrorMissingConfiguration - "a launch without a configuration";
    53 cudaErrorPriorLaunchFailure - "an earlier launch failed";
    65 cudaErrorLaunchMaxDepthExceeded - "launches are nested too deep";
    66 cudaErrorLaunchFileScopedTex - "a texture of file scope in a nested launch";
    67 cudaErrorLaunchFileScopedSurf - "a surface of file scope in a nested launch";
    68 cudaErrorSyncDepthExceeded - "synchronisation is nested too deep";
    69 cudaErrorLaunchPendingCountExceeded - "too many launches are pending";
    98 cudaErrorInvalidDeviceFunction - "invalid device function";
    100 cudaErrorNoDevice CUDA_ERROR_NO_DEVICE "no CUDA-capable device is detected";
    101 cudaErrorInvalidDevice CUDA_ERROR_INVALID_DEVICE "invalid device ordinal";
    102 cudaErrorDeviceNotLicensed CUDA_ERROR_DEVICE_NOT_LICENSED "the device is not licensed";
    103 cudaErrorSoftwareValidityNotEstablished - "the software is not established as valid";
    127 cudaErrorStartupFailure - "start-up failed in the runtime";
    200 cudaErrorInvalidKernelImage CUDA_ERROR_INVALID_IMAGE "invalid kernel image";
    201 cudaErrorDeviceUninitialized CUDA_ERROR_INVALID_CONTEXT "invalid device context";
    202 - CUDA_ERROR_CONTEXT_ALREADY_CURRENT "the context is current already";
    205 cudaErrorMapBufferObjectFailed CUDA_ERROR_MAP_FAILED "mapping failed";
    206 cudaErrorUnmapBufferObjectFailed CUDA_ERROR_UNMAP_FAILED "unmapping failed";
    207 cudaErrorArrayIsMapped CUDA_ERROR_ARRAY_IS_MAPPED "an array is mapped";
    208 cudaErrorAlreadyMapped CUDA_ERROR_ALREADY_MAPPED "mapped already";
    209 cudaErrorNoKernelImageForDevice CUDA_ERROR_NO_BINARY_FOR_GPU "no kernel image for this device";
    210 cudaErrorAlreadyAcquired CUDA_ERROR_ALREADY_ACQUIRED "acquired already";
    211 cudaErrorNotMapped CUDA_ERROR_NOT_MAPPED "not mapped";
    212 cudaErrorNotMappedAsArray CUDA_ERROR_NOT_MAPPED_AS_ARRAY "not mapped as an array";
    213 cudaErrorNotMappedAsPointer CUDA_ERROR_NOT_MAPPED_AS_POINTER "not mapped as a pointer";
    214 cudaErrorECCUncorrectable CUDA_ERROR_ECC_UNCORRECTABLE "uncorrectable ECC error";
    215 cudaErrorUnsupportedLimit CUDA_ERROR_UNSUPPORTED_LIMIT "the limit is not supported on this device";
    216 cudaErrorDeviceAlreadyInUse CUDA_ERROR_CONTEXT_ALREADY_IN_USE "the device is in use exclusively by another thread";
    217 cudaErrorPeerAccessUnsupported CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "peer access is not supported between these two devices";
    218 cudaErrorInvalidPtx CUDA_ERROR_INVALID_PTX "invalid PTX";
    219 cudaErrorInvalidGraphicsContext CUDA_ERROR_INVALID_GRAPHICS_CONTEXT "invalid graphics context";
    220 cudaErrorNvlinkUncorrectable CUDA_ERROR_NVLINK_UNCORRECTABLE "uncorrectable NVLink error";
    221 cudaErrorJitCompilerNotFound CUDA_ERROR_JIT_COMPILER_NOT_FOUND "no PTX JIT compiler";
    222 cudaErrorUnsupportedPtxVersion CUDA_ERROR_UNSUPPORTED_PTX_VERSION "the PTX version is not supported";
    223 cudaErrorJitCompilationDisabled CUDA_ERROR_JIT_COMPILATION_DISABLED "PTX JIT compilation is disabled";
    224 cudaErrorUnsupportedExecAffinity CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY "the execution affinity is not supported";
    225 cudaErrorUnsupportedDevSideSync CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC "synchronisation from device code is not supported";
    226 cudaErrorContained CUDA_ERROR_CONTAINED "the error is contained to one context";
    300 cudaErrorInvalidSource CUDA_ERROR_INVALID_SOURCE "invalid kernel source";
    301 cudaErrorFileNotFound CUDA_ERROR_FILE_NOT_FOUND "file not found";
    302 cudaErrorSharedObjectSymbolNotFound CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND "a shared object lacks a symbol";
    303 cudaErrorSharedObjectInitFailed CUDA_ERROR_SHARED_OBJECT_INIT_FAILED "a shared object could not be initialised";
    304 cudaErrorOperatingSystem CUDA_ERROR_OPERATING_SYSTEM "an operating system call failed";
    400 cudaErrorInvalidResourceHandle CUDA_ERROR_INVALID_HANDLE "invalid resource handle";
    401 cudaErrorIllegalState CUDA_ERROR_ILLEGAL_STATE "the operation cannot be performed in the present state";
    402 cudaErrorLossyQuery CUDA_ERROR_LOSSY_QUERY "the query would lose part of the answer";
    500 cudaErrorSymbolNotFound CUDA_ERROR_NOT_FOUND "named symbol not found";
    600 cudaErrorNotReady CUDA_ERROR_NOT_READY "device not ready";
    700 cudaErrorIllegalAddress CUDA_ERROR_ILLEGAL_ADDRESS "an illegal memory access was encountered";
    701 cudaErrorLaunchOutOfResources CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES "too many resources requested for launch";
    702 cudaErrorLaunchTimeout CUDA_ERROR_LAUNCH_TIMEOUT "the launch timed out";
    703 cudaErrorLaunchIncompatibleTexturing CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING "textures of incompatible modes in one launch";
    704 cudaErrorPeerAccessAlreadyEnabled CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED "peer access is already enabled";
    705 cudaErrorPeerAccessNotEnabled CUDA_ERROR_PEER_ACCESS_NOT_ENABLED "peer access has not been enabled";
    708 cudaErrorSetOnActiveProcess CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE "the setting cannot change while the process uses CUDA";
    709 cudaErrorContextIsDestroyed CUDA_ERROR_CONTEXT_IS_DESTROYED "the context is destroyed";
    710 cudaErrorAssert CUDA_ERROR_ASSERT "a device-side assertion failed";
    711 cudaErrorTooManyPeers CUDA_ERROR_TOO_MANY_PEERS "too many peers";
    712 cudaErrorHostMemoryAlreadyRegistered CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED "the host memory is registered already";
    713 cudaErrorHostMemoryNotRegistered CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED "the host memory is not registered";
    714 cudaErrorHardwareStackError CUDA_ERROR_HARDWARE_STACK_ERROR "hardware stack error";
    715 cudaErrorIllegalInstruction CUDA_ERROR_ILLEGAL_INSTRUCTION "illegal instruction";
    716 cudaErrorMisalignedAddress CUDA_ERROR_MISALIGNED_ADDRESS "misaligned address";
    717 cudaErrorInvalidAddressSpace CUDA_ERROR_INVALID_ADDRESS_SPACE "an address of the wrong address space";
    718 cudaErrorInvalidPc CUDA_ERROR_INVALID_PC "invalid program counter";
    719 cudaErrorLaunchFailure CUDA_ERROR_LAUNCH_FAILED "unspecified launch failure";
    720 cudaErrorCooperativeLaunchTooLarge CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE "too many blocks in a cooperative launch";
    721 cudaErrorTensorMemoryLeak CUDA_ERROR_TENSOR_MEMORY_LEAK "tensor memory was not freed";
    800 cudaErrorNotPermitted CUDA_ERROR_NOT_PERMITTED "operation not permitted";
    801 cudaErrorNotSupported CUDA_ERROR_NOT_SUPPORTED "operation not supported";
    802 cudaErrorSystemNotReady CUDA_ERROR_SYSTEM_NOT_READY "the system is not ready";
    803 cudaErrorSystemDriverMismatch CUDA_ERROR_SYSTEM_DRIVER_MISMATCH "driver and system do not match";
    804 cudaErrorCompatNotSupportedOnDevice CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE "forward compatibility is not supported on this device";
    805 cudaErrorMpsConnectionFailed CUDA_ERROR_MPS_CONNECTION_FAILED "no connection to the MPS server";
    806 cudaErrorMpsRpcFailure CUDA_ERROR_MPS_RPC_FAILURE "a call of the MPS server failed";
    807 cudaErrorMpsServerNotReady CUDA_ERROR_MPS_SERVER_NOT_READY "the MPS server is not ready";
    808 cudaErrorMpsMaxClientsReached CUDA_ERROR_MPS_MAX_CLIENTS_REACHED "too many MPS clients";
    809 cudaErrorMpsMaxConnectionsReached CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED "too many MPS connections";
    810 cudaErrorMpsClientTerminated CUDA_ERROR_MPS_CLIENT_TERMINATED "the MPS client was terminated";
    811 cudaErrorCdpNotSupported CUDA_ERROR_CDP_NOT_SUPPORTED "dynamic parallelism is not supported";
    812 cudaErrorCdpVersionMismatch CUDA_ERROR_CDP_VERSION_MISMATCH "dynamic parallelism of another version";
    900 cudaErrorStreamCaptureUnsupported CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "operation not permitted when stream is capturing";
    901 cudaErrorStreamCaptureInvalidated CUDA_ERROR_STREAM_CAPTURE_INVALIDATED "the capture was invalidated by an earlier error";
    902 cudaErrorStreamCaptureMerge CUDA_ERROR_STREAM_CAPTURE_MERGE "two captures would have merged";
    903 cudaErrorStreamCaptureUnmatched CUDA_ERROR_STREAM_CAPTURE_UNMATCHED "the capture did not begin on this stream";
    904 cudaErrorStreamCaptureUnjoined CUDA_ERROR_STREAM_CAPTURE_UNJOINED "a captured stream was not joined to the one where the capture began";
    905 cudaErrorStreamCaptureIsolation CUDA_ERROR_STREAM_CAPTURE_ISOLATION "a dependency would leave the capture";
    906 cudaErrorStreamCaptureImplicit CUDA_ERROR_STREAM_CAPTURE_IMPLICIT "operation would make the legacy stream depend on a capturing blocking stream";
    907 cudaErrorCapturedEvent CUDA_ERROR_CAPTURED_EVENT "operation not permitted on an event last recorded in a capturing stream";
    908 cudaErrorStreamCaptureWrongThread CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD "the capture was begun by another thread";
    909 cudaErrorTimeout CUDA_ERROR_TIMEOUT "the wait timed out";
    910 cudaErrorGraphExecUpdateFailure CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE "the graph update was refused";
    911 cudaErrorExternalDevice CUDA_ERROR_EXTERNAL_DEVICE "a device outside CUDA failed";
    912 cudaErrorInvalidClusterSize CUDA_ERROR_INVALID_CLUSTER_SIZE "invalid cluster size";
    913 cudaErrorFunctionNotLoaded CUDA_ERROR_FUNCTION_NOT_LOADED "the function is not loaded";
    914 cudaErrorInvalidResourceType CUDA_ERROR_INVALID_RESOURCE_TYPE "invalid resource type";
    915 cudaErrorInvalidResourceConfiguration CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION "invalid resource configuration";
    916 - CUDA_ERROR_KEY_ROTATION "keys are being rotated";
    917 cudaErrorStreamDetached CUDA_ERROR_STREAM_DETACHED "the stream is detached";
    999 cudaErrorUnknown CUDA_ERROR_UNKNOWN "unknown error";
    10000 cudaErrorApiFailureBase - "an error of a runtime before CUDA 4.1";
}

/// The row of a number.
fn row(code: c_int) -> Option<&'static CodeRow> {
    let at = CODES.binary_search_by_key(&code, |row| row.code).ok()?;
    CODES.get(at)
}

impl cudaError_t {
    /// The name, as `cudaGetErrorName` gives it.
    pub fn name(self) -> &'static CStr {
        row(self.0).and_then(|row| row.runtime).unwrap_or(c"unrecognized error code")
    }

    /// What it means, as `cudaGetErrorString` says it.
    pub fn text(self) -> &'static CStr {
        row(self.0).filter(|row| row.runtime.is_some()).map_or(c"unrecognized error code", |row| row.text)
    }

    /// Whether the process's use of CUDA is over, whatever it does: such an error is answered to every later call.
    pub const fn is_sticky(self) -> bool {
        matches!(self.0, 700 | 702 | 710 | 714..=719 | 721)
    }
}

impl CUresult {
    /// The name, as `cuGetErrorName` gives it.
    pub fn name(self) -> Option<&'static CStr> {
        row(self.0).and_then(|row| row.driver)
    }

    /// What it means, as `cuGetErrorString` says it.
    pub fn text(self) -> Option<&'static CStr> {
        row(self.0).filter(|row| row.driver.is_some()).map(|row| row.text)
    }
}

impl From<cudaError_t> for CUresult {
    /// The driver's code for what the runtime reports; `CUDA_ERROR_UNKNOWN` where the driver has none.
    fn from(code: cudaError_t) -> Self {
        if Self(code.0).name().is_some() { Self(code.0) } else { Self::CUDA_ERROR_UNKNOWN }
    }
}

impl fmt::Debug for cudaError_t {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name().to_string_lossy(), self.0)
    }
}

impl fmt::Debug for CUresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().unwrap_or(c"CUresult");
        write!(f, "{} ({})", name.to_string_lossy(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_and_every_code_has_a_name_and_a_text_of_its_own() {
        assert!(CODES.is_sorted_by(|a, b| a.code < b.code));
        let texts: std::collections::BTreeSet<_> = CODES.iter().map(|row| row.text).collect();
        assert_eq!(texts.len(), CODES.len());
        assert!(CODES.iter().all(|row| row.runtime.or(row.driver).is_some_and(|name| !name.is_empty())));
    }

    #[test]
    fn programs_find_the_names_and_texts_that_they_look_for() {
        assert_eq!(cudaError_t::cudaErrorMemoryAllocation.name(), c"cudaErrorMemoryAllocation");
        assert_eq!(cudaError_t(2).text(), c"out of memory");
        assert_eq!(CUresult(2).name(), Some(c"CUDA_ERROR_OUT_OF_MEMORY"));
        assert_eq!(
            (cudaError_t(202).name(), cudaError_t(-7).text()),
            (c"unrecognized error code", c"unrecognized error code")
        );
        assert_eq!(
            CUresult::from(cudaError_t::cudaErrorInvalidMemcpyDirection),
            CUresult::CUDA_ERROR_UNKNOWN
        );
        assert_eq!(format!("{:?}", cudaError_t(600)), "cudaErrorNotReady (600)");
    }
}
