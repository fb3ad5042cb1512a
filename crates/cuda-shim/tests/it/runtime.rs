//! The runtime, driven as a C program drives it.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use fakegpu_cuda_abi::types::*;

use crate::laid_out::{Runtime, call, driver_function, ok, text};

#[test]
fn what_is_copied_to_a_device_comes_back() {
    let cuda = Runtime::load(13);
    let mut memory = null_mut();
    ok!(cuda.cudaMalloc(&raw mut memory, 4096));
    let sent = [7_u8; 4096];
    let mut got = [0_u8; 4096];
    ok!(cuda.cudaMemcpy(memory, sent.as_ptr().cast(), 4096, cudaMemcpyKind::cudaMemcpyHostToDevice));
    ok!(cuda.cudaMemcpy(got.as_mut_ptr().cast(), memory, 4096, cudaMemcpyKind::cudaMemcpyDeviceToHost));
    assert_eq!(got, sent);
    ok!(cuda.cudaMemset(memory, 0x1ff, 16));
    ok!(cuda.cudaMemcpy(got.as_mut_ptr().cast(), memory, 17, cudaMemcpyKind::cudaMemcpyDefault));
    assert_eq!((got[0], got[15], got[16]), (0xff, 0xff, 7));
    ok!(cuda.cudaFree(memory));
    assert_eq!(call!(cuda.cudaFree(memory)), cudaError_t::cudaErrorInvalidValue);
}

#[test]
fn an_error_stays_until_it_is_asked_for_and_its_text_says_what_was_wrong() {
    let cuda = Runtime::load(13);
    let refused = call!(cuda.cudaSetDevice(99));
    assert_eq!(refused, cudaError_t::cudaErrorInvalidDevice);
    // A call that succeeds does not clear it.
    ok!(cuda.cudaDeviceSynchronize());
    assert_eq!(call!(cuda.cudaPeekAtLastError()), refused);
    assert_eq!(call!(cuda.cudaGetLastError()), refused);
    assert_eq!(call!(cuda.cudaGetLastError()), cudaError_t::cudaSuccess);
    let text = text(&cuda, refused);
    assert!(text.starts_with("invalid device ordinal [FakeGPU: there is no device 99;"), "{text}");
    assert_eq!(crate::laid_out::text(&cuda, cudaError_t::cudaErrorNotReady), "device not ready");
}

#[test]
fn each_thread_has_its_own_device_and_last_error() {
    let cuda = Runtime::load(13);
    ok!(cuda.cudaSetDevice(1));
    assert_eq!(call!(cuda.cudaSetDevice(-1)), cudaError_t::cudaErrorInvalidDevice);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let cuda = Runtime::load(13);
            let mut device = -1;
            ok!(cuda.cudaGetDevice(&raw mut device));
            assert_eq!((device, call!(cuda.cudaGetLastError())), (0, cudaError_t::cudaSuccess));
        });
    });
    let mut device = -1;
    ok!(cuda.cudaGetDevice(&raw mut device));
    assert_eq!((device, call!(cuda.cudaGetLastError())), (1, cudaError_t::cudaErrorInvalidDevice));
}

#[test]
fn the_runtimes_of_one_process_share_its_memory() {
    let (old, new) = (Runtime::load(12), Runtime::load(13));
    let mut memory = null_mut();
    ok!(old.cudaMalloc(&raw mut memory, 256));
    let mut known = cudaPointerAttributes13::default();
    ok!(new.cudaPointerGetAttributes_v13(&raw mut known, memory));
    assert_eq!((known.r#type, known.devicePointer), (cudaMemoryType::cudaMemoryTypeDevice, memory));
    ok!(new.cudaFree(memory));
    let mut versions = (0, 0);
    ok!(old.cudaRuntimeGetVersion(&raw mut versions.0));
    ok!(new.cudaRuntimeGetVersion_v13(&raw mut versions.1));
    assert_eq!(versions, (12_080, 13_020));
}

/// A struct between bytes that nobody may touch.
#[repr(C)]
struct Guarded<T> {
    before: [u8; 64],
    inner: T,
    after: [u8; 64],
}

#[test]
fn structs_are_filled_in_and_what_lies_behind_them_is_not_touched() {
    let (old, new) = (Runtime::load(12), Runtime::load(13));
    let mut prop = Guarded { before: [0xee; 64], inner: cudaDeviceProp12::default(), after: [0xee; 64] };
    ok!(old.cudaGetDeviceProperties_v2(&raw mut prop.inner, 0));
    assert_eq!((prop.before, prop.after), ([0xee; 64], [0xee; 64]));
    let mut prop = Guarded { before: [0xee; 64], inner: cudaDeviceProp13::default(), after: [0xee; 64] };
    ok!(new.cudaGetDeviceProperties_v13(&raw mut prop.inner, 0));
    assert_eq!((prop.before, prop.after, prop.inner.warpSize), ([0xee; 64], [0xee; 64], 32));
    // Before CUDA 12 the struct ended earlier.
    const END: usize = std::mem::offset_of!(cudaDeviceProp12, hostRegisterSupported);
    let mut bytes = [0xee_u8; END + 64];
    ok!(old.cudaGetDeviceProperties(bytes.as_mut_ptr().cast(), 0));
    assert!(bytes[END..].iter().all(|&byte| byte == 0xee));
    let mut known =
        Guarded { before: [0xee; 64], inner: cudaPointerAttributes12::default(), after: [0xee; 64] };
    ok!(old.cudaPointerGetAttributes(&raw mut known.inner, (&raw const known).cast()));
    assert_eq!((known.after, known.inner.r#type), ([0xee; 64], cudaMemoryType::cudaMemoryTypeUnregistered));
}

#[test]
fn events_tell_modelled_time_and_an_unrecorded_one_none() {
    let cuda = Runtime::load(13);
    let (mut stream, mut start, mut end) = (null_mut(), null_mut(), null_mut());
    ok!(cuda.cudaStreamCreateWithFlags(&raw mut stream, 1));
    assert!(stream.addr() > 2, "a stream is never one of the default streams");
    ok!(cuda.cudaEventCreate(&raw mut start));
    ok!(cuda.cudaEventCreate(&raw mut end));
    let mut ms = -1.0;
    let unrecorded = call!(cuda.cudaEventElapsedTime_v2(&raw mut ms, start, end));
    assert_eq!(unrecorded, cudaError_t::cudaErrorInvalidResourceHandle);
    let (mut host, mut memory) = (null_mut(), null_mut());
    ok!(cuda.cudaMallocHost(&raw mut host, 1 << 20));
    ok!(cuda.cudaMalloc(&raw mut memory, 1 << 20));
    ok!(cuda.cudaEventRecord(start, stream));
    ok!(cuda.cudaMemcpyAsync(memory, host, 1 << 20, cudaMemcpyKind::cudaMemcpyHostToDevice, stream));
    ok!(cuda.cudaEventRecord(end, stream));
    ok!(cuda.cudaEventSynchronize(end));
    ok!(cuda.cudaEventElapsedTime_v2(&raw mut ms, start, end));
    // A MiB over a link of 63 GB/s, whatever the machine is like.
    assert!((0.015..0.03).contains(&ms), "{ms} ms");
    for event in [start, end] {
        ok!(cuda.cudaEventDestroy(event));
    }
    assert_eq!(call!(cuda.cudaEventQuery(end)), cudaError_t::cudaErrorInvalidResourceHandle);
    ok!(cuda.cudaStreamDestroy(stream));
    ok!(cuda.cudaFree(memory));
    ok!(cuda.cudaFreeHost(host));
}

unsafe extern "C" fn add(to: *mut c_void) {
    // SAFETY: the test's own counter, which outlives the stream's work.
    unsafe { *to.cast::<c_int>() += 1 };
}

#[test]
fn host_functions_run_in_order_and_are_refused_without_a_function() {
    let cuda = Runtime::load(13);
    let (mut stream, mut count) = (null_mut(), 0_i32);
    ok!(cuda.cudaStreamCreate(&raw mut stream));
    for _ in 0..3 {
        ok!(cuda.cudaLaunchHostFunc(stream, Some(add), (&raw mut count).cast()));
    }
    ok!(cuda.cudaStreamSynchronize(stream));
    assert_eq!(count, 3);
    assert_eq!(call!(cuda.cudaLaunchHostFunc(stream, None, null_mut())), cudaError_t::cudaErrorInvalidValue);
    ok!(cuda.cudaStreamDestroy(stream));
}

#[test]
fn a_kernel_that_nobody_executes_is_refused_by_its_name() {
    let cuda = Runtime::load(13);
    let function: *const c_void = add as *const c_void;
    let handle = call!(cuda.__cudaRegisterFatBinary(null_mut()));
    let name: *const c_char = c"_Z3addPf".as_ptr();
    let none = null_mut();
    call!(cuda.__cudaRegisterFunction(
        handle,
        function.cast(),
        none,
        name,
        -1,
        none.cast(),
        none.cast(),
        null_mut(),
        null_mut(),
        null_mut()
    ));
    let mut kernel = null_mut();
    ok!(cuda.__cudaGetKernel(&raw mut kernel, function));
    let one = dim3 { x: 1, y: 1, z: 1 };
    let refused = call!(cuda.__cudaLaunchKernel(kernel, one, one, null_mut(), 0, null_mut()));
    assert_eq!(refused, cudaError_t::cudaErrorNotSupported);
    let said = text(&cuda, refused);
    assert!(said.contains("the kernel `_Z3addPf` was not executed"), "{said}");
    call!(cuda.__cudaUnregisterFatBinary(handle));
    let unknown = call!(cuda.cudaLaunchKernel(function, one, one, null_mut(), 0, null_mut()));
    assert_eq!(unknown, cudaError_t::cudaErrorInvalidDeviceFunction);
}

#[test]
fn a_pushed_configuration_is_popped_once() {
    let cuda = Runtime::load(13);
    let (grid, block) = (dim3 { x: 2, y: 3, z: 4 }, dim3 { x: 5, y: 6, z: 7 });
    assert_eq!(call!(cuda.__cudaPushCallConfiguration(grid, block, 48, null_mut())), 0);
    let (mut to_grid, mut to_block, mut shared) = (dim3::default(), dim3::default(), 0);
    let mut stream: cudaStream_t = null_mut();
    let to = (&raw mut stream).cast();
    ok!(cuda.__cudaPopCallConfiguration(&raw mut to_grid, &raw mut to_block, &raw mut shared, to));
    assert_eq!((to_grid.z, to_block.x, shared), (4, 5, 48));
    let missing =
        call!(cuda.__cudaPopCallConfiguration(&raw mut to_grid, &raw mut to_block, &raw mut shared, to));
    assert_eq!(missing, cudaError_t::cudaErrorMissingConfiguration);
}

#[test]
fn a_captured_copy_runs_again_with_every_launch() {
    let cuda = Runtime::load(12);
    let (mut stream, mut from, mut to) = (null_mut(), null_mut(), null_mut());
    ok!(cuda.cudaStreamCreateWithFlags(&raw mut stream, 1));
    ok!(cuda.cudaMalloc(&raw mut from, 64));
    ok!(cuda.cudaMalloc(&raw mut to, 64));
    ok!(cuda.cudaStreamBeginCapture(stream, cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal));
    ok!(cuda.cudaMemcpyAsync(to, from, 64, cudaMemcpyKind::cudaMemcpyDeviceToDevice, stream));
    let mut status = cudaStreamCaptureStatus::default();
    ok!(cuda.cudaStreamIsCapturing(stream, &raw mut status));
    assert_eq!(status, cudaStreamCaptureStatus::cudaStreamCaptureStatusActive);
    let (mut graph, mut exec) = (null_mut(), null_mut());
    ok!(cuda.cudaStreamEndCapture(stream, &raw mut graph));
    ok!(cuda.cudaGraphInstantiate(&raw mut exec, graph, 0));
    for value in [1_u8, 2] {
        let mut got = 0_u8;
        ok!(cuda.cudaMemset(from, c_int::from(value), 64));
        ok!(cuda.cudaDeviceSynchronize());
        ok!(cuda.cudaGraphLaunch(exec, stream));
        ok!(cuda.cudaStreamSynchronize(stream));
        ok!(cuda.cudaMemcpy((&raw mut got).cast(), to, 1, cudaMemcpyKind::cudaMemcpyDefault));
        assert_eq!(got, value);
    }
    ok!(cuda.cudaGraphExecDestroy(exec));
    ok!(cuda.cudaGraphDestroy(graph));
    ok!(cuda.cudaStreamDestroy(stream));
}

#[test]
fn stream_0_of_a_twin_is_the_threads_own() {
    let cuda = Runtime::load(13);
    let mode = cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;
    // The legacy stream cannot be captured, a thread's own can.
    let legacy = call!(cuda.cudaStreamBeginCapture(null_mut(), mode));
    assert_eq!(legacy, cudaError_t::cudaErrorStreamCaptureUnsupported);
    // SAFETY: the C declaration.
    let begin = unsafe { cuda.library.get(c"cudaStreamBeginCapture_ptsz") };
    let begin: libloading::Symbol<
        '_,
        unsafe extern "C" fn(cudaStream_t, cudaStreamCaptureMode) -> cudaError_t,
    > = begin.expect("an export");
    // SAFETY: stream 0.
    assert_eq!(unsafe { begin(null_mut(), mode) }, cudaError_t::cudaSuccess);
    let own: cudaStream_t = std::ptr::without_provenance_mut(2);
    let mut graph = null_mut();
    ok!(cuda.cudaStreamEndCapture(own, &raw mut graph));
    ok!(cuda.cudaGraphDestroy(graph));
}

#[test]
fn a_function_that_nobody_answers_is_refused_by_name() {
    let cuda = Runtime::load(13);
    let refused = call!(cuda.cudaMallocArray(null_mut(), null(), 4, 4, 0));
    assert_eq!(refused, cudaError_t::cudaErrorNotSupported);
    assert_eq!(
        text(&cuda, refused),
        "operation not supported [FakeGPU: cudaMallocArray is not supported by FakeGPU]"
    );
}

#[test]
fn driver_functions_are_found_by_name_and_agree_with_the_runtime() {
    let cuda = Runtime::load(13);
    let mut function = null_mut();
    let mut status = cudaDriverEntryPointQueryResult(-1);
    let name = c"cuMemGetAddressRange".as_ptr();
    ok!(cuda.cudaGetDriverEntryPointByVersion(name, &raw mut function, 12_000, 0, &raw mut status));
    assert_eq!(status, cudaDriverEntryPointQueryResult::cudaDriverEntryPointSuccess);
    // SAFETY: the C declaration of that version.
    let range: unsafe extern "C" fn(*mut CUdeviceptr, *mut usize, CUdeviceptr) -> CUresult =
        unsafe { std::mem::transmute(function) };
    let mut memory = null_mut();
    ok!(cuda.cudaMalloc(&raw mut memory, 1000));
    let (mut base, mut bytes) = (0, 0);
    // SAFETY: live numbers.
    let code = unsafe { range(&raw mut base, &raw mut bytes, memory.addr() as u64 + 10) };
    assert_eq!((code, base, bytes), (CUresult::CUDA_SUCCESS, memory.addr() as u64, 1000));
    ok!(cuda.cudaFree(memory));
    let missing = c"cuNothingLikeIt".as_ptr();
    ok!(cuda.cudaGetDriverEntryPointByVersion(missing, &raw mut function, 12_000, 0, &raw mut status));
    assert_eq!(status, cudaDriverEntryPointQueryResult::cudaDriverEntryPointSymbolNotFound);
}

#[test]
fn a_refusal_of_the_driver_is_no_last_error_of_the_runtime() {
    let cuda = Runtime::load(13);
    let alloc: unsafe extern "C" fn(*mut CUdeviceptr, usize) -> CUresult = driver_function(c"cuMemAlloc_v2");
    // SAFETY: NULL is refused.
    let refused = unsafe { alloc(null_mut(), 0) };
    assert_eq!(refused, CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(call!(cuda.cudaGetLastError()), cudaError_t::cudaSuccess);
}

#[test]
fn contexts_and_devices_are_one_thing() {
    let cuda = Runtime::load(13);
    let current: unsafe extern "C" fn(*mut CUcontext) -> CUresult = driver_function(c"cuCtxGetCurrent");
    let pop: unsafe extern "C" fn(*mut CUcontext) -> CUresult = driver_function(c"cuCtxPopCurrent_v2");
    let push: unsafe extern "C" fn(CUcontext) -> CUresult = driver_function(c"cuCtxPushCurrent_v2");
    let retain: unsafe extern "C" fn(*mut CUcontext, c_int) -> CUresult =
        driver_function(c"cuDevicePrimaryCtxRetain");
    let (mut first, mut other, mut seen) = (null_mut(), null_mut(), null_mut());
    ok!(cuda.cudaSetDevice(0));
    let mut device = -1;
    // SAFETY: live handles and numbers, here and below.
    assert_eq!(unsafe { current(&raw mut first) }, CUresult::CUDA_SUCCESS);
    // SAFETY: as above.
    assert_eq!(unsafe { retain(&raw mut other, 2) }, CUresult::CUDA_SUCCESS);
    // SAFETY: as above.
    assert_eq!(unsafe { push(other) }, CUresult::CUDA_SUCCESS);
    ok!(cuda.cudaGetDevice(&raw mut device));
    // SAFETY: as above.
    assert_eq!(unsafe { pop(&raw mut seen) }, CUresult::CUDA_SUCCESS);
    assert_eq!((device, seen), (2, other));
    ok!(cuda.cudaGetDevice(&raw mut device));
    // SAFETY: as above.
    assert_eq!(unsafe { current(&raw mut seen) }, CUresult::CUDA_SUCCESS);
    assert_eq!((device, seen), (0, first));
}
