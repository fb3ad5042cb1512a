//! Work of other libraries on streams, by the table that `fakegpu_cuda_streams` gives out.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use fakegpu_cuda_abi::streams::{PointerLook, StreamLook, StreamName, StreamWork, turn};
use fakegpu_cuda_abi::types::*;

use crate::laid_out::{Runtime, call, driver_function, ok, streams};

/// Work that ends when the test says so.
#[derive(Default)]
struct Work {
    state: AtomicI32,
    turns: AtomicU32,
    drops: AtomicU32,
}

unsafe extern "C" fn take_turn(data: *mut c_void, picos: *mut u64, text: *mut c_char, size: usize) -> c_int {
    // SAFETY: `data` is the test's own, alive until `forget`.
    let work = unsafe { &*data.cast_const().cast::<Work>() };
    work.turns.fetch_add(1, Ordering::AcqRel);
    // SAFETY: writable, as the table promises.
    unsafe { picos.write(5_000_000_000) };
    let sentence = c"rank 1 is gone";
    assert!(size > sentence.count_bytes());
    // SAFETY: there is room for it.
    unsafe { text.copy_from(sentence.as_ptr(), sentence.count_bytes() + 1) };
    work.state.load(Ordering::Acquire)
}

unsafe extern "C" fn wait_a_bit(_: *mut c_void, micros: u64) {
    std::thread::sleep(std::time::Duration::from_micros(micros.min(200)));
}

unsafe extern "C" fn forget(data: *mut c_void) {
    // SAFETY: the count that `work_of` gave away.
    let work = unsafe { Arc::from_raw(data.cast_const().cast::<Work>()) };
    work.drops.fetch_add(1, Ordering::AcqRel);
}

fn work_of(work: &Arc<Work>) -> StreamWork {
    let data = Arc::into_raw(Arc::clone(work)).cast_mut().cast();
    let name = c"ncclAllReduce".as_ptr();
    StreamWork { data, turn: take_turn, wait: wait_a_bit, drop: forget, again: None, name }
}

fn stream(cuda: &Runtime) -> StreamName {
    let mut handle = null_mut();
    ok!(cuda.cudaStreamCreateWithFlags(&raw mut handle, 1));
    StreamName { handle, device: 0 }
}

fn enqueue(on: StreamName, work: &Arc<Work>) -> cudaError_t {
    // SAFETY: the work's functions are as the table asks for.
    unsafe { (streams().enqueue)(on, work_of(work)) }
}

fn last_text() -> String {
    let mut text = [0; 512];
    // SAFETY: as long as said.
    unsafe { (streams().last_text)(text.as_mut_ptr(), text.len()) };
    // SAFETY: ended in NUL.
    unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned()
}

#[test]
fn a_stream_is_busy_until_the_work_has_ended_and_events_tell_its_modelled_time() {
    let cuda = Runtime::load(13);
    let on = stream(&cuda);
    let (mut start, mut end) = (null_mut(), null_mut());
    ok!(cuda.cudaEventCreate(&raw mut start));
    ok!(cuda.cudaEventCreate(&raw mut end));
    let work = Arc::new(Work::default());
    ok!(cuda.cudaEventRecord(start, on.handle));
    assert_eq!(enqueue(on, &work), cudaError_t::cudaSuccess);
    ok!(cuda.cudaEventRecord(end, on.handle));
    assert_eq!(call!(cuda.cudaStreamQuery(on.handle)), cudaError_t::cudaErrorNotReady);
    assert_eq!(call!(cuda.cudaEventQuery(end)), cudaError_t::cudaErrorNotReady);
    work.state.store(turn::ENDED, Ordering::Release);
    ok!(cuda.cudaEventSynchronize(end));
    ok!(cuda.cudaStreamQuery(on.handle));
    let mut ms = 0.0;
    ok!(cuda.cudaEventElapsedTime_v2(&raw mut ms, start, end));
    assert!((ms - 5.0).abs() < 1e-3, "{ms} ms");
    assert_eq!(work.drops.load(Ordering::Acquire), 1);
}

#[test]
fn work_that_failed_fails_its_stream_in_its_own_words() {
    let cuda = Runtime::load(13);
    let on = stream(&cuda);
    let work = Arc::new(Work::default());
    work.state.store(turn::FAILED, Ordering::Release);
    let enqueued = enqueue(on, &work);
    let synchronized = call!(cuda.cudaStreamSynchronize(on.handle));
    assert!(enqueued.0 == 0 || enqueued == synchronized, "{enqueued:?}");
    assert_eq!(synchronized, cudaError_t::cudaErrorLaunchFailure);
    assert_eq!(last_text(), "ncclAllReduce failed: rank 1 is gone");
    assert_eq!(work.drops.load(Ordering::Acquire), 1);
    // It stays the last error, asked for or not, until a library has recovered from it.
    assert_eq!(call!(cuda.cudaGetLastError()), synchronized);
    assert_eq!(call!(cuda.cudaGetLastError()), synchronized);
    // SAFETY: a stream of this process.
    assert_eq!(unsafe { (streams().forgive)(on) }, cudaError_t::cudaSuccess);
    ok!(cuda.cudaStreamSynchronize(on.handle));
    assert_eq!(call!(cuda.cudaGetLastError()), synchronized);
    assert_eq!(call!(cuda.cudaGetLastError()), cudaError_t::cudaSuccess);
}

unsafe extern "C" fn once_more(data: *mut c_void) -> *mut c_void {
    // SAFETY: `data` is the test's own, alive until `forget`.
    let work = unsafe { &*data.cast_const().cast::<Work>() };
    work.turns.fetch_add(1, Ordering::AcqRel);
    let again = Work { state: AtomicI32::new(turn::ENDED), ..Work::default() };
    Arc::into_raw(Arc::new(again)).cast_mut().cast()
}

#[test]
fn work_that_can_be_made_anew_is_captured_and_runs_with_every_launch() {
    let cuda = Runtime::load(13);
    let on = stream(&cuda);
    let work = Arc::new(Work::default());
    ok!(cuda.cudaStreamBeginCapture(on.handle, cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed));
    let again = StreamWork { again: Some(once_more), ..work_of(&work) };
    // SAFETY: the work's functions are as the table asks for.
    assert_eq!(unsafe { (streams().enqueue)(on, again) }, cudaError_t::cudaSuccess);
    let (mut graph, mut exec) = (null_mut(), null_mut());
    ok!(cuda.cudaStreamEndCapture(on.handle, &raw mut graph));
    ok!(cuda.cudaGraphInstantiate(&raw mut exec, graph, 0));
    for _ in 0..2 {
        ok!(cuda.cudaGraphLaunch(exec, on.handle));
    }
    ok!(cuda.cudaStreamSynchronize(on.handle));
    assert_eq!(work.turns.load(Ordering::Acquire), 2, "one run a launch");
    ok!(cuda.cudaGraphExecDestroy(exec));
    ok!(cuda.cudaGraphDestroy(graph));
    assert_eq!(work.drops.load(Ordering::Acquire), 1);
}

#[test]
fn work_for_a_handle_that_is_no_stream_is_refused_and_dropped() {
    let work = Arc::new(Work::default());
    let nowhere = StreamName { handle: std::ptr::without_provenance_mut(0x1230), device: 0 };
    assert_eq!(enqueue(nowhere, &work), cudaError_t::cudaErrorInvalidResourceHandle);
    assert_eq!(last_text(), "0x1230 is no stream of this process");
    assert_eq!((work.turns.load(Ordering::Acquire), work.drops.load(Ordering::Acquire)), (0, 1));
    let mut look = StreamLook::default();
    // SAFETY: a live struct.
    let code = unsafe { (streams().look)(nowhere, &raw mut look) };
    assert_eq!(code, cudaError_t::cudaErrorInvalidResourceHandle);
}

#[test]
fn joined_streams_wait_for_what_the_others_hold() {
    let cuda = Runtime::load(13);
    let (first, second) = (stream(&cuda), stream(&cuda));
    let work = Arc::new(Work::default());
    assert_eq!(enqueue(first, &work), cudaError_t::cudaSuccess);
    let both = [first, second];
    // SAFETY: an array of two.
    assert_eq!(unsafe { (streams().join)(both.as_ptr(), 2) }, cudaError_t::cudaSuccess);
    assert_eq!(call!(cuda.cudaStreamQuery(second.handle)), cudaError_t::cudaErrorNotReady);
    work.state.store(turn::ENDED, Ordering::Release);
    // SAFETY: a stream of this process.
    assert_eq!(unsafe { (streams().drain)(second) }, cudaError_t::cudaSuccess);
    assert_eq!(work.drops.load(Ordering::Acquire), 1);
}

#[test]
fn work_for_one_run_is_refused_by_a_stream_that_captures() {
    let cuda = Runtime::load(13);
    let on = stream(&cuda);
    ok!(cuda.cudaStreamBeginCapture(on.handle, cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed));
    let mut look = StreamLook::default();
    // SAFETY: a live struct.
    assert_eq!(unsafe { (streams().look)(on, &raw mut look) }, cudaError_t::cudaSuccess);
    assert_eq!(look.is_capturing, 1);
    let work = Arc::new(Work::default());
    assert_eq!(enqueue(on, &work), cudaError_t::cudaErrorStreamCaptureUnsupported);
    assert_eq!(work.drops.load(Ordering::Acquire), 1);
    let mut graph = null_mut();
    let spoiled = call!(cuda.cudaStreamEndCapture(on.handle, &raw mut graph));
    assert_eq!(spoiled, cudaError_t::cudaErrorStreamCaptureInvalidated);
}

#[test]
fn draining_waits_for_all_work_and_leaves_a_capture_alone() {
    let cuda = Runtime::load(13);
    let drain: extern "C" fn() -> c_int = driver_function(c"fakegpu_cuda_drain_current");
    let (on, other) = (stream(&cuda), stream(&cuda));
    ok!(cuda.cudaStreamBeginCapture(other.handle, cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal));
    let work = Arc::new(Work::default());
    assert_eq!(enqueue(on, &work), cudaError_t::cudaSuccess);
    let ends = Arc::clone(&work);
    let later = std::thread::spawn(move || {
        while ends.turns.load(Ordering::Acquire) < 3 {
            std::thread::yield_now();
        }
        ends.state.store(turn::ENDED, Ordering::Release);
    });
    assert_eq!(drain(), 0);
    assert_eq!(work.drops.load(Ordering::Acquire), 1);
    later.join().expect("the other thread ends");
    let mut graph = null_mut();
    ok!(cuda.cudaStreamEndCapture(other.handle, &raw mut graph));
    ok!(cuda.cudaGraphDestroy(graph));
}

#[test]
fn draining_a_stream_that_captures_is_refused_without_harm_to_the_capture() {
    let cuda = Runtime::load(13);
    let drain: extern "C" fn(*mut c_void, c_int) -> c_int = driver_function(c"fakegpu_cuda_drain_stream");
    let on = stream(&cuda);
    assert_eq!(drain(on.handle, 0), 0);
    ok!(cuda.cudaStreamBeginCapture(on.handle, cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal));
    assert_eq!(drain(on.handle, 0), cudaError_t::cudaErrorStreamCaptureUnsupported.0);
    let mut graph = null_mut();
    ok!(cuda.cudaStreamEndCapture(on.handle, &raw mut graph));
    ok!(cuda.cudaGraphDestroy(graph));
}

#[test]
fn a_pointer_is_attributed_and_an_unknown_one_is_no_error() {
    let cuda = Runtime::load(13);
    let mut memory = null_mut();
    ok!(cuda.cudaMalloc(&raw mut memory, 300));
    let mut look = PointerLook::default();
    // SAFETY: a live struct.
    let code = unsafe { (streams().pointer)(memory.wrapping_byte_add(299), &raw mut look) };
    assert_eq!((code, look.kind), (cudaError_t::cudaSuccess, cudaMemoryType::cudaMemoryTypeDevice));
    assert_eq!((look.device, look.base, look.size), (0, memory.addr(), 300));
    // SAFETY: a live struct.
    let code = unsafe { (streams().pointer)((&raw const look).cast(), &raw mut look) };
    assert_eq!((code, look.kind), (cudaError_t::cudaSuccess, cudaMemoryType::cudaMemoryTypeUnregistered));
    ok!(cuda.cudaFree(memory));
}
