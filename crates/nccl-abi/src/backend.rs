//! What stands behind the exported functions.
#![expect(non_snake_case, reason = "methods carry the names of the C functions they stand for")]

use std::ffi::CStr;

use crate::types::*;
use crate::{VERSION_CODE, nccl_table};

/// A return type of the table, and how it says that a call failed.
pub trait Answer: Sized {
    /// The value that tells a C caller about `code` as well as the type can.
    fn refused(code: ncclResult_t) -> Self;
}

impl Answer for ncclResult_t {
    fn refused(code: ncclResult_t) -> Self {
        code
    }
}

impl Answer for *const c_char {
    /// An empty text: callers print what they get, and NULL would end them.
    fn refused(_: ncclResult_t) -> Self {
        c"".as_ptr()
    }
}

impl Answer for c_int {
    fn refused(_: ncclResult_t) -> Self {
        0
    }
}

impl Answer for ncclTeam_t {
    fn refused(_: ncclResult_t) -> Self {
        Self::EMPTY
    }
}

impl Answer for () {
    fn refused(_: ncclResult_t) -> Self {}
}

impl ncclResult_t {
    /// The sentence of `ncclGetErrorString`.
    pub const fn text(self) -> &'static CStr {
        match self {
            Self::ncclSuccess => c"success",
            Self::ncclUnhandledCudaError => c"a CUDA call failed (ncclGetLastError says which)",
            Self::ncclSystemError => {
                c"a system call failed or a peer did not take part (ncclGetLastError says which)"
            }
            Self::ncclInternalError => {
                c"a bug in FakeGPU; please report it with the text of ncclGetLastError"
            }
            Self::ncclInvalidArgument => c"an argument is out of range (ncclGetLastError says which)",
            Self::ncclInvalidUsage => {
                c"the call is not allowed here or the ranks disagree (ncclGetLastError says how)"
            }
            Self::ncclRemoteError => c"a peer ended or the network to it failed",
            Self::ncclInProgress => c"the operation has not ended yet",
            Self::ncclTimeout => c"the operation took longer than allowed",
            _ => c"not a result code of NCCL 2.32",
        }
    }
}

/// The body of a row no backend overrides: two rows have one answer for all, the rest are refused.
macro_rules! default_body {
    ($self:ident ncclGetVersion($version:ident)) => {{
        // SAFETY: NULL is ruled out; otherwise the caller passes a writable `int`, as this method requires.
        match unsafe { $version.as_mut() } {
            None => ncclResult_t::ncclInvalidArgument,
            Some(version) => {
                *version = VERSION_CODE;
                ncclResult_t::ncclSuccess
            }
        }
    }};
    ($self:ident ncclGetErrorString($result:ident)) => {
        $result.text().as_ptr()
    };
    ($self:ident $name:ident($($arg:ident),*)) => {
        Answer::refused($self.unsupported(stringify!($name)))
    };
}

macro_rules! backend {
    ($( $(#[doc = $doc:literal])*
        [$major:literal, $minor:literal, $section:ident] fn $name:ident $(/ $twin:ident)?
        ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty; )*) => {
        /// One method per row of [`nccl_table!`], each refusing unless overridden.
        ///
        /// So "not implemented" is the absence of code, and a new row compiles everywhere the day it is added.
        /// `ncclGetVersion` and `ncclGetErrorString` answer for themselves. A method stands for both the
        /// function and its twin.
        pub trait Backend: Sync {
            /// Called for a row that is not overridden, with the C function's name: remember it for
            /// `ncclGetLastError` and the report. The code is returned to the caller,
            /// `ncclInvalidUsage` unless there is a better one.
            fn unsupported(&self, call: &'static str) -> ncclResult_t;

            /// Called after a method panicked, before the caller gets `ncclInternalError`: remember it for
            /// `ncclGetLastError`, and trust nothing the method was in the middle of.
            fn panicked(&self, call: &'static str, message: &str);

            $(
                $(#[doc = $doc])*
                ///
                /// # Safety
                ///
                /// As for the C function: pointers are NULL or point to what the function reads or fills in,
                /// handles came from this backend.
                #[allow(clippy::too_many_arguments, unused_variables, reason = "NCCL's signatures, each different")]
                unsafe fn $name(&self, $($arg: $ty),*) -> $ret {
                    default_body!(self $name($($arg),*))
                }
            )*
        }
    };
}
nccl_table!(backend);

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    struct Refuses;
    impl Backend for Refuses {
        fn unsupported(&self, _: &'static str) -> ncclResult_t {
            ncclResult_t::ncclInvalidUsage
        }
        fn panicked(&self, _: &'static str, _: &str) {}
    }

    #[test]
    fn a_row_nobody_overrides_is_refused_in_its_own_type() {
        let backend: &dyn Backend = &Refuses;
        // SAFETY: the default bodies look at no pointer.
        let finalize = unsafe { backend.ncclCommFinalize(ptr::null_mut()) };
        // SAFETY: as above.
        let last = unsafe { backend.ncclGetLastError(ptr::null_mut()) };
        // SAFETY: a refused text is a literal.
        let last = unsafe { CStr::from_ptr(last) };
        // SAFETY: as above.
        let team = unsafe { backend.ncclTeamWorld(ptr::null_mut()) };
        assert_eq!((finalize, last, team.nRanks), (ncclResult_t::ncclInvalidUsage, c"", 0));
    }

    #[test]
    fn the_version_is_written_and_null_is_refused() {
        let mut version = 0;
        // SAFETY: a live `int`.
        let written = unsafe { Refuses.ncclGetVersion(&raw mut version) };
        // SAFETY: NULL is allowed.
        let refused = unsafe { Refuses.ncclGetVersion(ptr::null_mut()) };
        assert_eq!((version, written), (23_203, ncclResult_t::ncclSuccess));
        assert_eq!(refused, ncclResult_t::ncclInvalidArgument);
    }

    #[test]
    fn every_code_has_a_sentence_of_its_own() {
        let texts: std::collections::BTreeSet<_> = (0..=9).map(|code| ncclResult_t(code).text()).collect();
        assert_eq!(texts.len(), 10);
    }
}
