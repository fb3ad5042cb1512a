//! What takes a process of its own: a machine without our driver, an environment, an exit.

use std::env;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::process::{Command, Output};

use fakegpu_cuda_abi::types::cudaError_t;
use libloading::Library;

use crate::laid_out::{Runtime, call, folder, ok, text};

/// Runs an ignored test of this file as a process of its own.
fn child(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().expect("the test's own path"));
    command.args(["--exact", &format!("processes::{test}"), "--ignored", "--nocapture", "--test-threads=1"]);
    for (name, _) in env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| name.starts_with("FAKEGPU_"));
        if is_ours || name == "CUDA_VISIBLE_DEVICES" || name == "LD_LIBRARY_PATH" {
            command.env_remove(name);
        }
    }
    // The child would build again; what the parent laid out is there.
    command.env("LAYOUT_DIR", folder().parent().expect("a parent"));
    command.envs(variables.iter().copied()).output().expect("the child runs")
}

fn passed(output: &Output) -> String {
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    said
}

#[test]
fn without_our_driver_calls_fail_as_on_a_machine_without_any() {
    let alone = tempfile::tempdir().expect("a folder");
    let library = alone.path().join("libcudart.so.13");
    std::fs::copy(folder().join("libcudart.so.13"), &library).expect("a copy");
    let output = child("alone", &[("LIBRARY", library.to_str().expect("a path"))]);
    let said = passed(&output);
    let warnings = said.matches("found no libcuda.so.1 of FakeGPU").count();
    assert_eq!(warnings, 1, "{said}");
}

#[test]
#[ignore = "a part of `without_our_driver_calls_fail_as_on_a_machine_without_any`"]
fn alone() {
    let path = env::var_os("LIBRARY").expect("a path");
    // SAFETY: the library runs nothing when it is loaded.
    let library = unsafe { Library::new(path) }.expect("the library loads");
    // SAFETY: the C declaration.
    let count =
        unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> cudaError_t>(c"cudaGetDeviceCount") };
    let count = count.expect("an export");
    // SAFETY: the C declaration.
    let texts =
        unsafe { library.get::<unsafe extern "C" fn(cudaError_t) -> *const c_char>(c"cudaGetErrorString") };
    let texts = texts.expect("an export");
    // SAFETY: the C declaration.
    let free = unsafe { library.get::<unsafe extern "C" fn(*mut c_void) -> cudaError_t>(c"cudaFree") };
    let free = free.expect("an export");
    let mut devices = -1;
    // SAFETY: a live `int`.
    let code = unsafe { count(&raw mut devices) };
    assert_eq!(code, cudaError_t::cudaErrorInsufficientDriver);
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { free(std::ptr::null_mut()) }, cudaError_t::cudaErrorInsufficientDriver);
    // SAFETY: any code is allowed.
    let text = unsafe { texts(code) };
    // SAFETY: a literal.
    let text = unsafe { CStr::from_ptr(text) };
    assert_eq!(text, c"CUDA driver version is insufficient for CUDA runtime version");
}

#[test]
fn the_environment_says_which_devices_there_are() {
    let variables =
        [("FAKEGPU_GPU_COUNT", "4"), ("FAKEGPU_GPU_PROFILE", "a100"), ("CUDA_VISIBLE_DEVICES", "3,1")];
    passed(&child("sees_two_of_four", &variables));
}

#[test]
#[ignore = "a part of `the_environment_says_which_devices_there_are`"]
fn sees_two_of_four() {
    let cuda = Runtime::load(13);
    let mut count = 0;
    ok!(cuda.cudaGetDeviceCount(&raw mut count));
    let mut prop = fakegpu_cuda_abi::types::cudaDeviceProp13::default();
    ok!(cuda.cudaGetDeviceProperties_v13(&raw mut prop, 0));
    // SAFETY: ended in NUL.
    let name = unsafe { CStr::from_ptr(prop.name.as_ptr()) };
    assert_eq!((count, name), (2, c"NVIDIA A100-SXM4-80GB"));
}

#[test]
fn a_mistake_in_the_environment_is_told_with_the_first_call() {
    passed(&child("is_told_of_the_mistake", &[("FAKEGPU_GPU_COUNT", "many")]));
}

#[test]
#[ignore = "a part of `a_mistake_in_the_environment_is_told_with_the_first_call`"]
fn is_told_of_the_mistake() {
    let cuda = Runtime::load(13);
    let mut count = 0;
    let code = call!(cuda.cudaGetDeviceCount(&raw mut count));
    assert_eq!(code, cudaError_t::cudaErrorInitializationError);
    let said = text(&cuda, code);
    assert!(said.contains("FAKEGPU_GPU_COUNT"), "{said}");
}

#[test]
fn a_process_that_used_a_device_leaves_the_report_that_was_asked_for() {
    let out = tempfile::tempdir().expect("a folder");
    let path = out.path().join("deep/gpus.json");
    passed(&child("uses_a_device", &[("FAKEGPU_GPU_REPORT_PATH", path.to_str().expect("a path"))]));
    let report = std::fs::read_to_string(path).expect("a report");
    assert!(report.contains("\"allocations\": 1") && report.contains("\"peak_bytes\""), "{report}");
}

#[test]
fn a_rank_puts_its_process_into_the_reports_name_and_an_idle_process_leaves_none() {
    let out = tempfile::tempdir().expect("a folder");
    let path = out.path().join("gpus.json");
    let path = path.to_str().expect("a path");
    let rank = [("FAKEGPU_GPU_REPORT_PATH", path), ("RANK", "1"), ("WORLD_SIZE", "2")];
    passed(&child("uses_a_device", &rank));
    passed(&child("only_counts", &rank));
    let names: Vec<_> = std::fs::read_dir(out.path()).expect("a folder").flatten().collect();
    let [name] = names.as_slice() else { panic!("one report: {names:?}") };
    let name = name.file_name().into_string().expect("a name");
    let number = name.strip_prefix("gpus.").and_then(|rest| rest.strip_suffix(".json"));
    assert!(number.is_some_and(|number| number.parse::<u32>().is_ok()), "{name}");
}

#[test]
#[ignore = "a part of the tests of reports"]
fn uses_a_device() {
    let cuda = Runtime::load(13);
    let mut memory = std::ptr::null_mut();
    ok!(cuda.cudaMalloc(&raw mut memory, 4096));
}

#[test]
#[ignore = "a part of the tests of reports"]
fn only_counts() {
    let cuda = Runtime::load(13);
    let mut count = 0;
    ok!(cuda.cudaGetDeviceCount(&raw mut count));
}
