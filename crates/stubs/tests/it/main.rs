//! A stub as a program meets it: loaded by the machine's own loader, linked against, called.

use std::ffi::{CStr, c_char, c_int};
use std::process::Command;

use fakegpu_stubs::{Imports, Kind, Stub, Symbol, write};

fn stub() -> Stub {
    let symbol = |name: &str, kind| Symbol { name: name.to_owned(), kind };
    Stub {
        soname: "libgpustub.so.1".to_owned(),
        version: Some("GPU_1".to_owned()),
        symbols: vec![
            symbol("gpuGetErrorString", Kind::Text),
            symbol("gpuMultiply", Kind::Refuses { code: 15, told: true }),
            symbol("gpuQuiet", Kind::Refuses { code: -2, told: false }),
        ],
    }
}

#[test]
fn the_loader_finds_the_functions_and_they_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libgpustub.so.1");
    std::fs::write(&path, write(&stub()).unwrap()).unwrap();
    // SAFETY: the library has no constructors.
    let library = unsafe { libloading::Library::new(&path) }.unwrap();
    // SAFETY: the functions take nothing and answer with a number.
    let refuse = |name: &[u8]| unsafe { library.get::<extern "C" fn() -> c_int>(name) }.unwrap()();
    assert_eq!((refuse(b"gpuMultiply"), refuse(b"gpuMultiply"), refuse(b"gpuQuiet")), (15, 15, -2));
    // SAFETY: it answers with a text.
    let text = unsafe { library.get::<extern "C" fn() -> *const c_char>(b"gpuGetErrorString") }.unwrap()();
    // SAFETY: the text lies in the library, which is loaded still, and ends.
    let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
    assert_eq!(
        text,
        "fakegpu: gpuGetErrorString of libgpustub.so.1 is not supported: there is no GPU, and no GPU library\n"
    );
}

#[test]
fn a_program_linked_with_it_is_told_once_by_name_and_its_imports_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("libgpustub.so.1"), write(&stub()).unwrap()).unwrap();
    let source = "int gpuMultiply(void); int main(void) { gpuMultiply(); return gpuMultiply(); }";
    std::fs::write(at("main.c"), source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg(at("main.c")).arg("-o").arg(at("main")).arg(at("libgpustub.so.1"));
    assert!(compiler.status().unwrap().success());
    let output = Command::new(at("main")).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(15), "{told}");
    assert_eq!(
        told,
        "fakegpu: gpuMultiply of libgpustub.so.1 is not supported: there is no GPU, and no GPU library\n"
    );
    let mut imports = Imports::default();
    imports.add(&std::fs::read(at("main")).unwrap()).unwrap();
    let found = imports.by_library(|library| library.starts_with("libgpu"), &[]);
    let (version, names) = &found["libgpustub.so.1"];
    assert_eq!(version.as_deref(), Some("GPU_1"));
    assert!(names.iter().eq(["gpuMultiply"]));
}

#[test]
fn a_library_that_is_needed_without_any_of_its_symbols_is_stood_in_for_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let empty = Stub { soname: "libgpuidle.so.1".to_owned(), version: None, symbols: Vec::new() };
    std::fs::write(at("libgpuidle.so.1"), write(&empty).unwrap()).unwrap();
    std::fs::write(at("main.c"), "int main(void) { return 7; }").unwrap();
    let mut compiler = Command::new("cc");
    compiler.arg(at("main.c")).arg("-o").arg(at("main"));
    assert!(compiler.arg("-Wl,--no-as-needed").arg(at("libgpuidle.so.1")).status().unwrap().success());
    let mut imports = Imports::default();
    imports.add(&std::fs::read(at("main")).unwrap()).unwrap();
    let found = imports.by_library(|library| library.starts_with("libgpu"), &[]);
    assert_eq!(found.get("libgpuidle.so.1"), Some(&(None, std::collections::BTreeSet::new())));
    let status = Command::new(at("main")).env("LD_LIBRARY_PATH", folder.path()).status().unwrap();
    assert_eq!(status.code(), Some(7), "the loader takes it");
}
