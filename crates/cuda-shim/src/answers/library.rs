//! The library itself: versions, the driver's functions, the profiler.

use std::ffi::CStr;

use fakegpu_cuda_abi::runtime::answers::Library;
use fakegpu_cuda_abi::types::*;
use fakegpu_cuda_abi::{DRIVER_VERSION, runtime_version};

use crate::exports::{Found, find};
use crate::failure::{Failure, Result, put, put_if_wanted};
use crate::shim::Shim;

/// `cudaEnablePerThreadDefaultStream`: the twin is wanted.
const PER_THREAD: u64 = 2;

impl Library for Shim {
    unsafe fn cudaDriverGetVersion(&self, driver_version: *mut c_int) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.give(unsafe { put(driver_version, DRIVER_VERSION, "the version") })
    }

    unsafe fn cudaRuntimeGetVersion(&self, runtime_version_out: *mut c_int) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.give(unsafe { put(runtime_version_out, runtime_version(12), "the version") })
    }

    unsafe fn cudaRuntimeGetVersion_v13(&self, runtime_version_out: *mut c_int) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.give(unsafe { put(runtime_version_out, runtime_version(13), "the version") })
    }

    unsafe fn cudaGetDriverEntryPoint(
        &self,
        symbol: *const c_char,
        func_ptr: *mut *mut c_void,
        flags: u64,
        driver_status: *mut cudaDriverEntryPointQueryResult,
    ) -> cudaError_t {
        let version = DRIVER_VERSION.unsigned_abs();
        // SAFETY: handed on unchanged.
        unsafe { self.cudaGetDriverEntryPointByVersion(symbol, func_ptr, version, flags, driver_status) }
    }

    unsafe fn cudaGetDriverEntryPointByVersion(
        &self,
        symbol: *const c_char,
        func_ptr: *mut *mut c_void,
        cuda_version: c_uint,
        flags: u64,
        driver_status: *mut cudaDriverEntryPointQueryResult,
    ) -> cudaError_t {
        // SAFETY: NULL or a C string, and NULL or writable, as the C function requires.
        self.give(unsafe { entry_point(symbol, func_ptr, cuda_version, flags, driver_status) })
    }

    unsafe fn cudaProfilerStart(&self) -> cudaError_t {
        cudaError_t::cudaSuccess
    }

    unsafe fn cudaProfilerStop(&self) -> cudaError_t {
        cudaError_t::cudaSuccess
    }
}

/// # Safety
/// `symbol` is NULL or a C string; the others are NULL or writable.
unsafe fn entry_point(
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: u32,
    flags: u64,
    status: *mut cudaDriverEntryPointQueryResult,
) -> Result {
    use cudaDriverEntryPointQueryResult as Status;
    if symbol.is_null() {
        return Err(Failure::invalid("the symbol is NULL"));
    }
    // SAFETY: not NULL, so a C string.
    let name = unsafe { CStr::from_ptr(symbol) };
    let (address, told) = match find(name, version, flags & PER_THREAD != 0) {
        Found::Function(address) => (address, Status::cudaDriverEntryPointSuccess),
        Found::TooNew => (std::ptr::null_mut(), Status::cudaDriverEntryPointVersionNotSufficent),
        Found::Nothing => (std::ptr::null_mut(), Status::cudaDriverEntryPointSymbolNotFound),
    };
    // SAFETY: NULL or writable.
    unsafe { put(function, address, "the function") }?;
    // SAFETY: NULL or writable.
    unsafe { put_if_wanted(status, told) };
    // Without a status to tell, the code must.
    if address.is_null() && status.is_null() {
        let text = format!("the driver has no function {} of CUDA {version}", name.to_string_lossy());
        return Err(Failure::new(cudaError_t::cudaErrorSymbolNotFound, text));
    }
    Ok(())
}
