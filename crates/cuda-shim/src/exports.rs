//! The exported symbols: every row of the driver's table and its twin, the list by which `cuGetProcAddress` finds them, and a
//! few functions of our own.

use std::ffi::CStr;

use fakegpu_cuda_abi::driver::*;
use fakegpu_cuda_abi::types::*;
use fakegpu_cuda_abi::{DriverAnswer, driver_table};

use crate::fence::fenced;
use crate::process;
use crate::shim::Shim;
use crate::thread;

/// A driver function as `cuGetProcAddress` is asked for it.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) asked: &'static str,
    pub(crate) since: u32,
    function: Address,
    twin: Option<Address>,
}

/// The address of a function of this library.
#[derive(Clone, Copy)]
struct Address(*const ());

// SAFETY: an address of code, which is the same for every thread.
unsafe impl Sync for Address {}

/// How a search ended.
pub(crate) enum Found {
    Function(*mut c_void),
    TooNew,
    Nothing,
}

/// The newest form of a driver function that a program of this version of CUDA knows, by its plain name, or the function of
/// exactly this symbol.
pub(crate) fn find(asked: &CStr, version: u32, per_thread: bool) -> Found {
    let Ok(asked) = asked.to_str() else { return Found::Nothing };
    let plain = ENTRIES.iter().filter(|entry| entry.asked == asked);
    let mut named = ENTRIES.iter().filter(|entry| entry.name == asked);
    let newest =
        plain.clone().filter(|entry| entry.since <= version).max_by_key(|entry| (entry.since, entry.name));
    let entry = match newest {
        Some(entry) => entry,
        None if plain.clone().next().is_some() => return Found::TooNew,
        None => match named.next() {
            Some(entry) => entry,
            None => return Found::Nothing,
        },
    };
    let twin = entry.twin.filter(|_| per_thread);
    Found::Function(twin.unwrap_or(entry.function).0.cast_mut().cast())
}

macro_rules! exports {
    ($( $section:ident { $(
        [$since:literal $(as $asked:ident)?]
        fn $name:ident $(/ $twin:ident)? ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty;
    )* } )*) => {
        $($(export! { $name [$($twin)?] ($($arg: $ty),*) -> $ret })*)*

        static ENTRIES: &[Entry] = &[$($(Entry {
            name: stringify!($name),
            asked: first(&[$(stringify!($asked),)? stringify!($name)]),
            since: $since,
            function: Address($name as *const ()),
            twin: first_address(&[$(Address($twin as *const ()))?]),
        },)*)*];
    };
}

/// The first of what a macro's `$(...)?` and a default expand to.
const fn first(names: &[&'static str]) -> &'static str {
    match names {
        [name, ..] => name,
        [] => "",
    }
}

/// What a macro's `$(...)?` expands to.
const fn first_address(addresses: &[Address]) -> Option<Address> {
    match addresses {
        [address, ..] => Some(*address),
        [] => None,
    }
}

macro_rules! export {
    ($name:ident [] ($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "CUDA's signatures; only some are long")]
        unsafe extern "C" fn $name($($arg: $ty),*) -> $ret {
            fenced(
                stringify!($name),
                // SAFETY: the C caller owes what the C function's documentation says; it is handed on unchanged.
                || unsafe { Shim.$name($($arg),*) },
                |code| DriverAnswer::refused(code.into()),
            )
        }
    };
    ($name:ident [$twin:ident] ($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        export! { $name [] ($($arg: $ty),*) -> $ret }

        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments, reason = "CUDA's signatures; only some are long")]
        unsafe extern "C" fn $twin($($arg: $ty),*) -> $ret {
            // SAFETY: as of its row's function, which it is but for stream 0.
            thread::per_thread(|| unsafe { $name($($arg),*) })
        }
    };
}

driver_table!(exports);

/// Runs until nothing of the process's streams is outstanding: 0, or a code of `cudaError_t`. For those who look at the memory
/// of devices without CUDA, as our Python package does; a capture under way goes on.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_cuda_drain() -> c_int {
    fenced("fakegpu_cuda_drain", || crate::streams::drain_all().0, |code| code.0)
}

/// The same for the calling thread's device alone.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_cuda_drain_current() -> c_int {
    fenced("fakegpu_cuda_drain_current", || crate::streams::drain_current().0, |code| code.0)
}

/// Runs a stream, and what it waits for, to its end: the caller helps. The code that `cudaStreamSynchronize` would give,
/// but 900 (`cudaErrorStreamCaptureUnsupported`) without harm to the capture where the stream captures.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_cuda_drain_stream(stream: *mut c_void, device: c_int) -> c_int {
    fenced("fakegpu_cuda_drain_stream", || crate::streams::drain_one(stream, device).0, |code| code.0)
}

/// 1 where certainly no work of any stream of the process is outstanding, 0 where there may be some.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_cuda_is_idle() -> c_int {
    fenced("fakegpu_cuda_is_idle", || c_int::from(process::is_idle()), |_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(asked: &CStr, version: u32) -> Option<&'static str> {
        match find(asked, version, false) {
            Found::Function(address) => {
                let same = |entry: &&Entry| std::ptr::eq(entry.function.0, address.cast_const().cast());
                ENTRIES.iter().find(same).map(|entry| entry.name)
            }
            Found::TooNew | Found::Nothing => None,
        }
    }

    #[test]
    fn a_program_gets_the_form_of_a_function_that_it_was_built_for() {
        assert_eq!(symbol(c"cuMemAlloc", 12_000), Some("cuMemAlloc_v2"));
        assert_eq!(symbol(c"cuGetProcAddress", 11_030), Some("cuGetProcAddress"));
        assert_eq!(symbol(c"cuGetProcAddress", 13_020), Some("cuGetProcAddress_v2"));
        assert_eq!(symbol(c"cuMemAlloc_v2", 13_000), Some("cuMemAlloc_v2"));
        assert!(matches!(find(c"cuGreenCtxCreate", 11_000, false), Found::TooNew));
        assert!(matches!(find(c"cuNothing", 13_000, false), Found::Nothing));
    }
}
