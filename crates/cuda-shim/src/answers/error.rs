//! Errors: the thread's last, their names, their texts.

use fakegpu_cuda_abi::runtime::answers::Error;
use fakegpu_cuda_abi::types::*;

use crate::shim::Shim;
use crate::thread;

impl Error for Shim {
    unsafe fn cudaGetLastError(&self) -> cudaError_t {
        let last = thread::last_error();
        thread::clear_last_error();
        last
    }

    unsafe fn cudaPeekAtLastError(&self) -> cudaError_t {
        thread::last_error()
    }

    unsafe fn cudaGetErrorString(&self, error: cudaError_t) -> *const c_char {
        thread::text(error.0, error.text())
    }
}
