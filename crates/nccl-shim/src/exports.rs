//! The exported symbols: every row of the table, its twin, and one of our own.

use fakegpu_nccl_abi::nccl_table;
use fakegpu_nccl_abi::types::*;

use crate::choice::backend;
use crate::fence::fenced;

/// FakeGPU's version as text, for programs that want to know whose library they loaded.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Expands the table into exported functions.
macro_rules! exports {
    ($( $(#[doc = $doc:literal])*
        [$major:literal, $minor:literal, $section:ident] fn $name:ident $(/ $twin:ident)?
        ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty; )*) => {
        $(export! { $name [$name $(, $twin)?] ($($arg: $ty),*) -> $ret })*
    };
}

/// One symbol for each name in the brackets, all answering as the first name's method.
macro_rules! export {
    ($method:ident [$($symbol:ident),+] $params:tt -> $ret:ty) => {
        $(symbol! { $method as $symbol $params -> $ret })+
    };
}

macro_rules! symbol {
    ($method:ident as $symbol:ident ($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "NCCL's signatures; only some are long")]
        unsafe extern "C" fn $symbol($($arg: $ty),*) -> $ret {
            fenced(backend, stringify!($method), |backend| {
                // SAFETY: the C caller owes the backend what the C function's documentation says; it is
                // handed on unchanged.
                unsafe { backend.$method($($arg),*) }
            })
        }
    };
}

nccl_table!(exports);
