//! A call that was refused, as the library carries it: a code of CUDA's and a sentence.

use std::borrow::Cow;

use fakegpu_cuda::Error;
use fakegpu_cuda_abi::types::cudaError_t;

/// The answer of a body.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// A code and, unless the code says it all, a sentence.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: cudaError_t,
    pub(crate) text: Cow<'static, str>,
}

impl Failure {
    pub(crate) fn new(code: cudaError_t, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code, text: text.into() }
    }

    /// For the commonest refusal.
    pub(crate) fn invalid(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(cudaError_t::cudaErrorInvalidValue, text)
    }

    pub(crate) fn unsupported(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(cudaError_t::cudaErrorNotSupported, text)
    }

    /// For a number that is no stream, event, graph or whatever it was passed as.
    pub(crate) fn handle(what: &str, raw: u64) -> Self {
        let text = format!("{raw:#x} is no {what} of this process");
        Self::new(cudaError_t::cudaErrorInvalidResourceHandle, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { code: cudaError_t(error.kind().code()), text: error.text().to_owned().into() }
    }
}

/// Writes an answer where the caller wants it.
///
/// # Safety
/// `to` is NULL or valid for a write of `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T, what: &'static str) -> Result {
    if to.is_null() {
        return Err(Failure::invalid(format!("the address for {what} is NULL")));
    }
    // SAFETY: not NULL, so valid for the write by this function's contract.
    unsafe { to.write(value) };
    Ok(())
}

/// The same where the caller may not want it.
///
/// # Safety
/// `to` is NULL or valid for a write of `T`.
pub(crate) unsafe fn put_if_wanted<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: not NULL, so valid for the write by this function's contract.
        unsafe { to.write(value) };
    }
}

/// Reads what the caller points to.
///
/// # Safety
/// `from` is NULL or valid for a read of `T`.
pub(crate) unsafe fn take<T: Copy>(from: *const T, what: &'static str) -> Result<T> {
    if from.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    // SAFETY: not NULL, so valid for the read by this function's contract.
    Ok(unsafe { from.read() })
}
