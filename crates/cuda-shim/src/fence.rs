//! Where a panic ends: unwinding into a C caller would take the process with it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fakegpu_cuda_abi::types::cudaError_t;

use crate::failure::Failure;
use crate::thread;

/// Runs `body`; a panic in it is answered as `cudaErrorUnknown`, by `refused`.
pub(crate) fn fenced<T>(
    call: &'static str,
    body: impl FnOnce() -> T,
    refused: impl FnOnce(cudaError_t) -> T,
) -> T {
    // Asserted: what the panic left half done is behind locks that are not poisoned, and the caller is told.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let text = format!("{call} hit a bug in FakeGPU: {}", message(&*payload));
        let failure = Failure::new(cudaError_t::cudaErrorUnknown, text);
        thread::remember(&failure);
        refused(failure.code)
    })
}

/// What `panic!` was given.
fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panicked without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_code_and_a_sentence() {
        let code = fenced("cudaMalloc", || panic!("no idea"), |code| code);
        assert_eq!(code, cudaError_t::cudaErrorUnknown);
        assert_eq!(thread::sentence(), "cudaMalloc hit a bug in FakeGPU: no idea");
    }
}
