//! The runtime's functions as C sees them, and the table of them that `libcudart` is handed.

use fakegpu_cuda_abi::runtime::answers::*;
use fakegpu_cuda_abi::types::*;
use fakegpu_cuda_abi::{Answer, RuntimeTable, TABLE_VERSION, runtime_table};

use crate::fence::fenced;
use crate::shim::Shim;
use crate::thread;

/// The functions of the runtime for the `libcudart` of a major version; NULL for one that is not known.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_cuda_runtime(major: c_int) -> *const RuntimeTable {
    if matches!(major, 12 | 13) { &raw const TABLE } else { std::ptr::null() }
}

macro_rules! entries {
    ($( $section:ident { $(
        [$($major:tt $(as $symbol:ident $(/ $symbol_twin:ident)?)?),+]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => {
        $($(entry! { $name [$($twin)?] ($($arg: $ty),*) -> $ret })*)*

        static TABLE: RuntimeTable = RuntimeTable {
            size: size_of::<RuntimeTable>(),
            version: TABLE_VERSION,
            $($($name, $($twin,)?)*)*
        };
    };
}

macro_rules! entry {
    ($name:ident [] ($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[allow(clippy::too_many_arguments, reason = "CUDA's signatures; only some are long")]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            fenced(
                stringify!($name),
                // SAFETY: the C caller owes what the C function's documentation says; it is handed on unchanged.
                || unsafe { Shim.$name($($arg),*) },
                Answer::refused,
            )
        }
    };
    ($name:ident [$twin:ident] ($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        entry! { $name [] ($($arg: $ty),*) -> $ret }

        #[allow(clippy::too_many_arguments, reason = "CUDA's signatures; only some are long")]
        unsafe extern "C" fn $twin($($arg: $ty),*) -> $ret {
            // SAFETY: as of its row's function, which it is but for stream 0.
            thread::per_thread(|| unsafe { $name($($arg),*) })
        }
    };
}

runtime_table!(entries);
