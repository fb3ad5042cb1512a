//! The exported symbols: every row of the table, its twin, and some of our own.

use fakegpu_nccl_abi::nccl_table;
use fakegpu_nccl_abi::types::*;
use fakegpu_units::VirtualTime;

use crate::choice::{backend, edge};
use crate::edge::{Given, handle, put};
use crate::fence::fenced;

/// FakeGPU's version as text, for programs that want to know whose library they loaded.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The modelled time at which the last operation of the communicator's rank ended, in seconds: differences are what
/// the described cluster would have taken.
///
/// # Safety
/// `seconds` is NULL, which is refused, or valid for a write.
#[unsafe(no_mangle)]
unsafe extern "C" fn fakegpu_modelled_time(comm: ncclComm_t, seconds: *mut f64) -> ncclResult_t {
    fenced(backend, "fakegpu_modelled_time", |_| {
        let told = edge().runtime().modelled_time(handle(comm)).and_then(|time| {
            let micros = time.since(VirtualTime::ZERO).as_micros_f64();
            // SAFETY: NULL or valid for the write, by this function's contract.
            unsafe { put(seconds, micros / 1e6, "seconds") }
        });
        told.give(edge())
    })
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
