//! The library itself: its start, its version, its functions by name, its codes' names.

use std::ffi::CStr;
use std::sync::Once;

use fakegpu_cuda_abi::DRIVER_VERSION;
use fakegpu_cuda_abi::driver::Library;
use fakegpu_cuda_abi::types::*;

use crate::exports::{Found, find};
use crate::failure::{Failure, Result, put, put_if_wanted};
use crate::process;
use crate::shim::Shim;
use crate::thread;

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`: the twin is wanted.
const PER_THREAD: u64 = 2;

/// Tables without a name are asked for by NVIDIA's own runtime only.
const STATIC_RUNTIME: &str = "this program, or a library of it, has NVIDIA's CUDA runtime built into it, which asks the \
    driver for tables that only NVIDIA's driver has; build it with `nvcc -cudart shared`, so that FakeGPU's libcudart is \
    loaded instead";

impl Library for Shim {
    unsafe fn cuInit(&self, flags: c_uint) -> CUresult {
        self.drive(match flags {
            0 => process::world().map(drop),
            _ => Err(Failure::invalid(format!("{flags} are no flags of cuInit; there are none"))),
        })
    }

    unsafe fn cuDriverGetVersion(&self, driver_version: *mut c_int) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(unsafe { put(driver_version, DRIVER_VERSION, "the version") })
    }

    unsafe fn cuGetErrorString(&self, error: CUresult, str: *mut *const c_char) -> CUresult {
        let text = error.text().map(|text| thread::text(error.0, text));
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(unsafe { put_name(str, text, error) })
    }

    unsafe fn cuGetErrorName(&self, error: CUresult, str: *mut *const c_char) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive(unsafe { put_name(str, error.name().map(CStr::as_ptr), error) })
    }

    unsafe fn cuGetExportTable(
        &self,
        _pp_export_table: *mut *const c_void,
        _export_table_id: *const CUuuid,
    ) -> CUresult {
        static TOLD: Once = Once::new();
        // Whoever asks reports a bare number, so the sentence must reach the person by itself.
        TOLD.call_once(|| process::warn(STATIC_RUNTIME));
        self.drive(Err(Failure::unsupported(STATIC_RUNTIME)))
    }

    unsafe fn cuGetProcAddress(
        &self,
        symbol: *const c_char,
        pfn: *mut *mut c_void,
        cuda_version: c_int,
        flags: u64,
    ) -> CUresult {
        let status = std::ptr::null_mut();
        // SAFETY: handed on unchanged.
        unsafe { self.cuGetProcAddress_v2(symbol, pfn, cuda_version, flags, status) }
    }

    unsafe fn cuGetProcAddress_v2(
        &self,
        symbol: *const c_char,
        pfn: *mut *mut c_void,
        cuda_version: c_int,
        flags: u64,
        symbol_status: *mut CUdriverProcAddressQueryResult,
    ) -> CUresult {
        // SAFETY: NULL or a C string, and NULL or writable, as the C function requires.
        self.drive(unsafe { address_of(symbol, pfn, cuda_version, flags, symbol_status) })
    }
}

/// # Safety
/// `to` is NULL or writable.
unsafe fn put_name(to: *mut *const c_char, name: Option<*const c_char>, code: CUresult) -> Result {
    // SAFETY: this function's contract.
    unsafe { put(to, name.unwrap_or(std::ptr::null()), "the text") }?;
    match name {
        Some(_) => Ok(()),
        None => Err(Failure::invalid(format!("{} is no code of the driver", code.0))),
    }
}

/// # Safety
/// `symbol` is NULL or a C string; the others are NULL or writable.
unsafe fn address_of(
    symbol: *const c_char,
    to: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> Result {
    use CUdriverProcAddressQueryResult as Status;
    if symbol.is_null() {
        return Err(Failure::invalid("the symbol is NULL"));
    }
    // SAFETY: not NULL, so a C string.
    let name = unsafe { CStr::from_ptr(symbol) };
    let version = u32::try_from(version).unwrap_or(0);
    let (address, told) = match find(name, version, flags & PER_THREAD != 0) {
        Found::Function(address) => (address, Status::CU_GET_PROC_ADDRESS_SUCCESS),
        Found::TooNew => (std::ptr::null_mut(), Status::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
        Found::Nothing => (std::ptr::null_mut(), Status::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND),
    };
    // SAFETY: NULL or writable.
    unsafe { put(to, address, "the function") }?;
    // SAFETY: NULL or writable.
    unsafe { put_if_wanted(status, told) };
    if address.is_null() {
        let text = format!("the driver has no function {} of CUDA {version}", name.to_string_lossy());
        return Err(Failure::new(cudaError_t::cudaErrorSymbolNotFound, text));
    }
    Ok(())
}
