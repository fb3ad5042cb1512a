//! The three libraries under the names that programs look for, in one folder, and calls of their functions.

use std::env;
use std::ffi::{CString, c_int};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use fakegpu_cuda_abi::types::cudaError_t;
use fakegpu_cuda_abi::{RUNTIME_ROWS, RuntimeTable, StreamTable};
use libloading::Library;

/// What cargo builds, and what programs call it.
const LIBRARIES: [(&str, &str, &str); 3] = [
    ("fakegpu-cuda-shim", "libcuda.so", "libcuda.so.1"),
    ("fakegpu-cudart12", "libcudart12.so", "libcudart.so.12"),
    ("fakegpu-cudart13", "libcudart13.so", "libcudart.so.13"),
];

/// A folder with the libraries: `$LAYOUT_DIR/lib`, or else those of this profile, built first: cargo builds a cdylib for
/// no test, and one left by an earlier build would make these tests speak of the past.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| match env::var_os("LAYOUT_DIR") {
        Some(layout) => PathBuf::from(layout).join("lib"),
        None => {
            let built = build();
            let folder = built.join("cuda-it/lib");
            std::fs::create_dir_all(&folder).expect("a folder");
            for (_, file, name) in LIBRARIES {
                match symlink(built.join(file), folder.join(name)) {
                    Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                        panic!("{name}: {error}")
                    }
                    _ => {}
                }
            }
            folder
        }
    })
}

/// Builds the libraries in the profile this test was built in, and says into which folder.
fn build() -> PathBuf {
    let test = env::current_exe().expect("the test's own path");
    let folder = test.ancestors().nth(2).expect("`<target>/<profile>/deps/<test>`").to_owned();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", profile]);
    for (package, _, _) in LIBRARIES {
        cargo.args(["--package", package]);
    }
    let cargo = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", folder.parent().expect("the target folder"))
        .status();
    assert!(cargo.expect("cargo runs").success(), "the libraries build");
    folder
}

/// A `libcudart`, and the types of its functions.
pub(crate) struct Runtime {
    pub(crate) library: Library,
    pub(crate) table: &'static RuntimeTable,
    major: u32,
}

impl Runtime {
    pub(crate) fn load(major: u32) -> Self {
        // SAFETY: the library runs nothing when it is loaded.
        let library = unsafe { Library::new(folder().join(format!("libcudart.so.{major}"))) };
        let give: unsafe extern "C" fn(c_int) -> *const RuntimeTable =
            driver_function(c"fakegpu_cuda_runtime");
        // SAFETY: any number is allowed.
        let table = unsafe { give(13) };
        // SAFETY: a static table of a library that is never unloaded.
        let table = unsafe { table.as_ref() }.expect("a table");
        assert!(table.is_ours());
        Self { library: library.expect("the library loads"), table, major }
    }

    /// The exported function of a row, of the type of the table's member.
    pub(crate) fn function<F: Copy>(&self, row: &str, _like: F) -> F {
        let row = RUNTIME_ROWS.iter().find(|known| known.name == row).expect("a row");
        let symbol = CString::new(row.symbol(self.major).expect("a symbol")).expect("a name");
        // SAFETY: the member's type is the function's.
        *unsafe { self.library.get::<F>(symbol.as_c_str()) }.expect("an export")
    }
}

/// Calls a function of a `libcudart` as a program would.
macro_rules! call {
    ($runtime:ident.$name:ident($($arg:expr),* $(,)?)) => {{
        let function = $runtime.function(stringify!($name), $runtime.table.$name);
        // SAFETY: the arguments are what the C function asks for, or what it must refuse.
        unsafe { function($($arg),*) }
    }};
}

/// Calls it and expects success.
macro_rules! ok {
    ($runtime:ident.$name:ident($($arg:expr),* $(,)?)) => {{
        let code = call!($runtime.$name($($arg),*));
        assert_eq!(code, fakegpu_cuda_abi::types::cudaError_t::cudaSuccess, stringify!($name));
    }};
}

pub(crate) use {call, ok};

/// A function of the driver that the process has loaded.
pub(crate) fn driver_function<F: Copy>(name: &std::ffi::CStr) -> F {
    // SAFETY: the library runs nothing when it is loaded.
    let driver = unsafe { Library::new(folder().join("libcuda.so.1")) }.expect("the driver loads");
    // SAFETY: the caller names the function's type.
    *unsafe { driver.get::<F>(name) }.expect("an export")
}

/// The table of streams.
pub(crate) fn streams() -> &'static StreamTable {
    let give: unsafe extern "C" fn() -> *const StreamTable = driver_function(c"fakegpu_cuda_streams");
    // SAFETY: it takes nothing.
    let table = unsafe { give() };
    // SAFETY: a static table of a library that is never unloaded.
    let table = unsafe { table.as_ref() }.expect("a table");
    assert!(table.is_ours());
    table
}

/// The text of a code, as a program prints it.
pub(crate) fn text(runtime: &Runtime, code: cudaError_t) -> String {
    let text = call!(runtime.cudaGetErrorString(code));
    // SAFETY: never NULL, and good until this thread asks again.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
