//! The built library from outside, as the loader and a program see it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fakegpu_nccl_abi::types::ncclResult_t;
use fakegpu_nccl_abi::{ABI_ROWS, VERSION_CODE};
use libloading::{Library, Symbol};
use object::elf::{DT_SONAME, FileHeader64};
use object::read::elf::{Dyn as _, ElfFile};
use object::{Endianness, Object as _, ObjectSymbol as _};

/// `$LAYOUT_DIR/lib/libnccl.so`, or else the one of this profile, built first: cargo builds a cdylib for no
/// test, and one left by an earlier build would make these tests speak of the past.
fn library() -> PathBuf {
    env::var_os("LAYOUT_DIR")
        .map_or_else(build, |layout| PathBuf::from(layout).join("lib"))
        .join("libnccl.so")
}

/// Builds the library in the profile this test was built in, and says into which folder.
fn build() -> PathBuf {
    let test = env::current_exe().expect("the test's own path");
    let folder = test.ancestors().nth(2).expect("`<target>/<profile>/deps/<test>`").to_owned();
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--profile", profile])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", folder.parent().expect("the target folder"))
        .status();
    assert!(cargo.expect("cargo runs").success(), "the library builds");
    folder
}

fn load() -> Library {
    // SAFETY: the library runs nothing when it is loaded.
    unsafe { Library::new(library()) }.expect("the library loads")
}

fn elf(data: &[u8]) -> ElfFile<'_, FileHeader64<Endianness>> {
    ElfFile::parse(data).expect("an ELF file")
}

#[test]
fn its_name_for_the_loader_is_nccls() {
    let data = fs::read(library()).expect("the library can be read");
    let elf = elf(&data);
    let sections = elf.elf_section_table();
    let (entries, strings) =
        sections.dynamic(elf.endian(), &*data).expect("valid").expect("a dynamic section");
    let strings = sections.strings(elf.endian(), &*data, strings).expect("its strings");
    let soname = entries.iter().find(|entry| entry.tag(elf.endian()) == DT_SONAME).expect("a SONAME");
    assert_eq!(soname.string(elf.endian(), strings), Ok(&b"libnccl.so.2"[..]));
}

#[test]
fn it_exports_the_table_and_nothing_else() {
    let data = fs::read(library()).expect("the library can be read");
    let exported: BTreeSet<String> = elf(&data)
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .map(|symbol| symbol.name().expect("a name").to_owned())
        .collect();
    let expected: BTreeSet<String> = ABI_ROWS
        .iter()
        .flat_map(|row| [Some(row.name), row.twin])
        .flatten()
        .chain([
            "fakegpu_version",
            "fakegpu_mark_barrier",
            "fakegpu_use_host_memory",
            "fakegpu_modelled_time",
        ])
        .map(str::to_owned)
        .collect();
    assert_eq!(exported, expected);
}

#[test]
fn the_version_is_that_of_the_header_under_both_names() {
    let library = load();
    for name in [c"ncclGetVersion", c"pncclGetVersion"] {
        let mut version = 0;
        // SAFETY: the C declaration.
        let call: Symbol<'_, unsafe extern "C" fn(*mut c_int) -> ncclResult_t> =
            unsafe { library.get(name) }.expect("an export");
        // SAFETY: a live `int`.
        let code = unsafe { call(&raw mut version) };
        assert_eq!((code, version), (ncclResult_t::ncclSuccess, VERSION_CODE));
    }
}

#[test]
fn texts_are_texts() {
    let library = load();
    // SAFETY: the C declaration.
    let sentence: Symbol<'_, unsafe extern "C" fn(ncclResult_t) -> *const c_char> =
        unsafe { library.get(c"ncclGetErrorString") }.expect("an export");
    // SAFETY: any code is allowed.
    let unknown = unsafe { sentence(ncclResult_t(1234)) };
    // SAFETY: never NULL, and a literal.
    let unknown = unsafe { CStr::from_ptr(unknown) };
    assert_eq!(unknown, c"not a result code of NCCL 2.32");

    // SAFETY: the C declaration.
    let last: Symbol<'_, unsafe extern "C" fn(*mut c_void) -> *const c_char> =
        unsafe { library.get(c"ncclGetLastError") }.expect("an export");
    // SAFETY: NULL is allowed.
    let last = unsafe { last(std::ptr::null_mut()) };
    assert!(!last.is_null());

    // SAFETY: the C declaration.
    let ours: Symbol<'_, unsafe extern "C" fn() -> *const c_char> =
        unsafe { library.get(c"fakegpu_version") }.expect("an export");
    // SAFETY: no arguments.
    let ours = unsafe { ours() };
    // SAFETY: a literal.
    let ours = unsafe { CStr::from_ptr(ours) };
    assert_eq!(ours.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}
