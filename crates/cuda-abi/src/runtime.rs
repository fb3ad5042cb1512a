//! The runtime's functions as a table of pointers between two libraries, and as traits of answers.
#![expect(non_snake_case, reason = "members and methods carry the names of the C functions they stand for")]

use crate::runtime_table;

/// The form of [`RuntimeTable`]: it changes with every row.
pub const TABLE_VERSION: u32 = 1;

/// The types of the table's members.
mod pointers {
    #![expect(non_camel_case_types, reason = "named as the C functions they point to")]

    use crate::types::*;

    macro_rules! pointers {
        ($( $section:ident { $(
            [$($major:tt $(as $symbol:ident $(/ $symbol_twin:ident)?)?),+]
            fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
        )* } )*) => {
            $($(pub(super) type $name = unsafe extern "C" fn($($ty),*) -> $ret;)*)*
        };
    }
    crate::runtime_table!(pointers);
}

macro_rules! table {
    ($( $section:ident { $(
        [$($major:tt $(as $symbol:ident $(/ $symbol_twin:ident)?)?),+]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => {
        /// The functions of the runtime, as `libcuda.so.1` of FakeGPU hands them to `libcudart`.
        ///
        /// Both are of one release. A table of another size or version is not looked into further.
        #[repr(C)]
        #[allow(missing_docs, reason = "members are named as in C, and do what they do there")]
        pub struct RuntimeTable {
            /// Bytes of the table.
            pub size: usize,
            /// [`TABLE_VERSION`].
            pub version: u32,
            $($(
                pub $name: pointers::$name,
                $(pub $twin: pointers::$name,)?
            )*)*
        }
    };
}
runtime_table!(table);

impl RuntimeTable {
    /// Whether this is the table that this release knows.
    pub const fn is_ours(&self) -> bool {
        self.size == size_of::<Self>() && self.version == TABLE_VERSION
    }
}

impl std::fmt::Debug for RuntimeTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeTable")
            .field("size", &self.size)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// What stands behind the functions of the runtime: a trait a section of [`runtime_table!`], a method a row. A twin has its
/// row's method. A method that nobody overrides refuses, so "not supported" is the absence of code.
pub mod answers {
    use crate::answer::Answer;
    use crate::types::*;

    /// Who is told of calls that are not answered.
    pub trait Refuse: Sync {
        /// Called for a row that is not overridden, with the C function's name. The code is returned to the caller.
        fn refuse(&self, call: &'static str) -> cudaError_t;
    }

    /// The body of a row that nobody overrides.
    macro_rules! default_body {
        ($self:ident cudaGetErrorString($code:ident)) => {
            $code.text().as_ptr()
        };
        ($self:ident cudaGetErrorName($code:ident)) => {
            $code.name().as_ptr()
        };
        ($self:ident $name:ident($($arg:ident),*)) => {
            Answer::refused($self.refuse(stringify!($name)))
        };
    }

    macro_rules! traits {
        ($( $section:ident { $(
            [$($major:tt $(as $symbol:ident $(/ $symbol_twin:ident)?)?),+]
            fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
        )* } )*) => { $(
            #[doc = concat!("The functions of the section ", stringify!($section), ".")]
            pub trait $section: Refuse {
                $(
                    #[doc = concat!("`", stringify!($name), "`.")]
                    ///
                    /// # Safety
                    ///
                    /// As for the C function: pointers are NULL or point to what the function reads or fills in.
                    #[allow(
                        clippy::too_many_arguments,
                        unused_variables,
                        reason = "CUDA's signatures, each different"
                    )]
                    unsafe fn $name(&self, $($arg: $ty),*) -> $ret {
                        default_body!(self $name($($arg),*))
                    }
                )*
            }
        )* };
    }
    crate::runtime_table!(traits);
}

#[cfg(test)]
mod tests {
    use super::answers::{Device, Error, Kernel, Refuse};
    use crate::types::*;
    use std::ffi::CStr;

    struct Refuses;
    impl Refuse for Refuses {
        fn refuse(&self, _: &'static str) -> cudaError_t {
            cudaError_t::cudaErrorNotSupported
        }
    }
    impl Device for Refuses {}
    impl Error for Refuses {}
    impl Kernel for Refuses {}

    #[test]
    fn a_row_nobody_overrides_is_refused_in_its_own_type_and_texts_are_there() {
        // SAFETY: the default bodies look at no pointer.
        let code = unsafe { Refuses.cudaDeviceReset() };
        // SAFETY: as above.
        let handle = unsafe { Refuses.__cudaRegisterFatBinary(std::ptr::null_mut()) };
        // SAFETY: any code is allowed.
        let text = unsafe { Refuses.cudaGetErrorString(cudaError_t(100)) };
        // SAFETY: a literal.
        let text = unsafe { CStr::from_ptr(text) };
        assert_eq!((code.0, handle.is_null(), text), (801, false, c"no CUDA-capable device is detected"));
    }
}
