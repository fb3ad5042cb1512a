//! How a library of this process finds FakeGPU's `libcuda.so.1`: the one that is loaded, or else the one beside itself.
//!
//! Devices, memory and streams live there once a process, whoever asks. A `libcuda.so.1` without our tables is a real
//! driver, and none of our business.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Once, OnceLock};

use crate::answer::Answer;
use crate::codes::cudaError_t;
use crate::runtime::RuntimeTable;
use crate::runtime_version;
use crate::streams::StreamTable;

/// The driver's name for the loader.
const DRIVER: &CStr = c"libcuda.so.1";

/// The symbol of the function that gives out [`RuntimeTable`]s: `const RuntimeTable *(int major)`.
pub const RUNTIME_SYMBOL: &CStr = c"fakegpu_cuda_runtime";
/// The symbol of the function that gives out the [`StreamTable`]: `const StreamTable *(void)`.
pub const STREAMS_SYMBOL: &CStr = c"fakegpu_cuda_streams";

/// A `libcudart`'s side of the table.
#[derive(Debug)]
pub struct Client {
    major: u32,
    table: OnceLock<Option<&'static RuntimeTable>>,
    told: Once,
}

impl Client {
    /// The client of the library of one major version.
    pub const fn new(major: u32) -> Self {
        Self { major, table: OnceLock::new(), told: Once::new() }
    }

    /// The table; `None` where the process has no driver of ours. Searched for once.
    pub fn table(&self) -> Option<&'static RuntimeTable> {
        *self.table.get_or_init(|| find_runtime(self.major))
    }

    /// The answer of a call that needed a driver, said once on standard error too.
    #[expect(
        clippy::print_stderr,
        reason = "without a driver there is no log either, and silence would be a riddle"
    )]
    pub fn without_driver<R: Answer>(&self) -> R {
        self.told.call_once(|| {
            eprintln!(
                "fakegpu: warning: libcudart.so.{} found no libcuda.so.1 of FakeGPU in the process, beside itself or by name; \
                 run the program with `fakegpu run`, or put FakeGPU's lib folder into LD_LIBRARY_PATH",
                self.major
            );
        });
        R::refused(cudaError_t::cudaErrorInsufficientDriver)
    }

    /// Answers `cudaRuntimeGetVersion`, which needs no driver.
    ///
    /// # Safety
    /// `version` is NULL or writable.
    pub unsafe fn write_runtime_version(&self, version: *mut c_int) -> cudaError_t {
        // SAFETY: this function's contract.
        unsafe { write_version(version, runtime_version(self.major)) }
    }
}

/// Writes a version where the caller wants it.
///
/// # Safety
/// `to` is NULL or writable.
pub unsafe fn write_version(to: *mut c_int, version: c_int) -> cudaError_t {
    if to.is_null() {
        return cudaError_t::cudaErrorInvalidValue;
    }
    // SAFETY: not NULL, so writable by this function's contract.
    unsafe { to.write(version) };
    cudaError_t::cudaSuccess
}

/// The streams of the process, where FakeGPU's `libcuda.so.1` is loaded already; nothing is loaded for the question.
pub fn loaded_streams() -> Option<&'static StreamTable> {
    let library = open(DRIVER, libc::RTLD_NOLOAD)?;
    let symbol = library.symbol(STREAMS_SYMBOL)?;
    // SAFETY: the symbol is ours alone, and this is its declaration.
    let give: unsafe extern "C" fn() -> *const StreamTable = unsafe { std::mem::transmute(symbol) };
    // SAFETY: it takes nothing.
    let table = unsafe { give() };
    // SAFETY: NULL or a static table of a library that is never unloaded; its first two members never move.
    unsafe { table.as_ref() }.filter(|table| table.is_ours())
}

fn find_runtime(major: u32) -> Option<&'static RuntimeTable> {
    let library = open(DRIVER, libc::RTLD_NOLOAD).or_else(open_beside).or_else(|| open(DRIVER, 0))?;
    let symbol = library.symbol(RUNTIME_SYMBOL)?;
    // SAFETY: the symbol is ours alone, and this is its declaration.
    let give: unsafe extern "C" fn(c_int) -> *const RuntimeTable = unsafe { std::mem::transmute(symbol) };
    // SAFETY: any number is allowed.
    let table = unsafe { give(c_int::try_from(major).unwrap_or(0)) };
    // SAFETY: NULL or a static table of a library that is never unloaded; its first two members never move.
    unsafe { table.as_ref() }.filter(|table| table.is_ours())
}

/// A loaded library. It stays loaded: tables of it are kept.
struct Loaded(*mut c_void);

impl Loaded {
    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle came from `dlopen` and was never closed; the name is a C string.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    }
}

fn open(name: &CStr, flags: c_int) -> Option<Loaded> {
    // SAFETY: the name is a C string. What a library's constructors do is its own affair; ours do nothing.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL | flags) };
    (!handle.is_null()).then_some(Loaded(handle))
}

/// The driver in the folder of the library that this code is linked into; links are followed too.
fn open_beside() -> Option<Loaded> {
    let own = own_path()?;
    let resolved = own.canonicalize().ok();
    [Some(own), resolved].into_iter().flatten().find_map(|library| {
        let path = library.parent()?.join(Path::new(std::ffi::OsStr::from_bytes(DRIVER.to_bytes())));
        open(&CString::new(path.into_os_string().into_vec()).ok()?, 0)
    })
}

/// Where the library lies that this code is linked into.
fn own_path() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here: fn() -> Option<PathBuf> = own_path;
    // SAFETY: any address may be asked for, and `info` is writable.
    let found = unsafe { libc::dladdr(here as *const c_void, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: zeroed, of which every member is a value, and filled in by the successful call.
    let name: *const c_char = unsafe { info.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: not NULL, so the loader's own C string, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_a_call_says_so_by_its_code() {
        let client = Client::new(13);
        assert_eq!(client.without_driver::<cudaError_t>(), cudaError_t::cudaErrorInsufficientDriver);
        let mut version = 0;
        // SAFETY: a live `int`.
        let code = unsafe { client.write_runtime_version(&raw mut version) };
        assert_eq!((code, version), (cudaError_t::cudaSuccess, 13_020));
        // SAFETY: NULL is allowed.
        let code = unsafe { write_version(std::ptr::null_mut(), 1) };
        assert_eq!(code, cudaError_t::cudaErrorInvalidValue);
    }

    #[test]
    fn a_library_knows_where_it_lies() {
        assert_eq!(
            own_path().unwrap().canonicalize().unwrap(),
            std::env::current_exe().unwrap().canonicalize().unwrap()
        );
    }
}
