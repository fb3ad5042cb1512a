//! Return types of the tables, and how each says that a call was refused.

use crate::types::*;

/// A return type of [`runtime_table!`](crate::runtime_table).
pub trait Answer: Sized {
    /// The value that tells a C caller about `code` as well as the type can.
    fn refused(code: cudaError_t) -> Self;

    /// The code in it, if it is one.
    fn code(&self) -> Option<cudaError_t> {
        None
    }
}

impl Answer for cudaError_t {
    fn refused(code: cudaError_t) -> Self {
        code
    }

    fn code(&self) -> Option<cudaError_t> {
        Some(*self)
    }
}

impl Answer for *const c_char {
    /// The code's text: callers print what they get, and NULL would end them.
    fn refused(code: cudaError_t) -> Self {
        code.text().as_ptr()
    }
}

/// What `__cudaRegisterFatBinary` returns: somewhere a program may point to, and never looks.
impl Answer for *mut *mut c_void {
    fn refused(_: cudaError_t) -> Self {
        std::ptr::dangling_mut()
    }
}

impl Answer for c_uint {
    fn refused(code: cudaError_t) -> Self {
        code.0.unsigned_abs()
    }
}

impl Answer for c_char {
    /// `__cudaInitModule` says by 0 that it did nothing.
    fn refused(_: cudaError_t) -> Self {
        0
    }
}

impl Answer for cudaChannelFormatDesc {
    fn refused(_: cudaError_t) -> Self {
        Self::default()
    }
}

impl Answer for () {
    fn refused(_: cudaError_t) -> Self {}
}

/// A return type of [`driver_table!`](crate::driver_table).
pub trait DriverAnswer: Sized {
    /// The value that tells a C caller about `code`.
    fn refused(code: CUresult) -> Self;
}

impl DriverAnswer for CUresult {
    fn refused(code: CUresult) -> Self {
        code
    }
}
