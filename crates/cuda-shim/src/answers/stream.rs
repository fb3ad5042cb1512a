//! Streams: their making, waiting for them, host functions on them, and captures.

use std::cell::RefCell;

use fakegpu_cuda::{
    CaptureMode, CaptureStatus, HostFunction, Ordinal, StreamFlags, StreamHandle, StreamRef, World,
};
use fakegpu_cuda_abi::runtime::answers::Stream;
use fakegpu_cuda_abi::types::*;

use crate::failure::{Failure, Result, put, put_if_wanted, take};
use crate::shim::{Shim, event, handle, number, raw, stream};

const NON_BLOCKING: c_uint = 1;

thread_local! {
    /// The nodes that `cudaStreamGetCaptureInfo` told last, which the caller may look at until it asks again.
    static NODES: RefCell<Vec<cudaGraphNode_t>> = const { RefCell::new(Vec::new()) };
}

/// A function of the program's, what it is to be given, and for whom it is called.
struct Foreign {
    argument: *mut c_void,
    stream: cudaStream_t,
}

// SAFETY: the argument is only handed on, and the program says by passing it that any thread may.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Stream for Shim {
    unsafe fn cudaStreamCreate(&self, to: *mut cudaStream_t) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { create(world, device, to, 0, 0) })
    }

    unsafe fn cudaStreamCreateWithFlags(&self, to: *mut cudaStream_t, flags: c_uint) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { create(world, device, to, flags, 0) })
    }

    unsafe fn cudaStreamCreateWithPriority(
        &self,
        to: *mut cudaStream_t,
        flags: c_uint,
        priority: c_int,
    ) -> cudaError_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { create(world, device, to, flags, priority) })
    }

    unsafe fn cudaStreamDestroy(&self, of: cudaStream_t) -> cudaError_t {
        self.world(|world| Ok(world.destroy_stream(made(of)?)?))
    }

    unsafe fn cudaStreamSynchronize(&self, on: cudaStream_t) -> cudaError_t {
        self.on_device(|world, device| Ok(world.synchronize_stream(device, stream(on)?)?))
    }

    unsafe fn cudaStreamQuery(&self, on: cudaStream_t) -> cudaError_t {
        self.on_device(|world, device| Ok(world.query_stream(device, stream(on)?)?))
    }

    unsafe fn cudaStreamWaitEvent(
        &self,
        on: cudaStream_t,
        for_event: cudaEvent_t,
        _flags: c_uint,
    ) -> cudaError_t {
        self.on_device(|world, device| Ok(world.wait_event(device, stream(on)?, event(for_event)?)?))
    }

    unsafe fn cudaStreamGetPriority(&self, of: cudaStream_t, priority: *mut c_int) -> cudaError_t {
        self.on_device(|world, device| {
            let found = world.stream_priority(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(priority, found, "the priority") }
        })
    }

    unsafe fn cudaStreamGetFlags(&self, of: cudaStream_t, flags: *mut c_uint) -> cudaError_t {
        self.on_device(|world, device| {
            let found = world.stream_flags(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(flags, c_uint::from(found.non_blocking), "the flags") }
        })
    }

    unsafe fn cudaStreamGetId(&self, of: cudaStream_t, stream_id: *mut u64) -> cudaError_t {
        self.on_device(|world, device| {
            let found = world.stream_id(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(stream_id, found, "the id") }
        })
    }

    unsafe fn cudaStreamGetDevice(&self, of: cudaStream_t, device_out: *mut c_int) -> cudaError_t {
        self.on_device(|world, device| {
            let found = world.stream_device(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(device_out, number(found), "the device") }
        })
    }

    unsafe fn cudaStreamAttachMemAsync(
        &self,
        on: cudaStream_t,
        _dev_ptr: *mut c_void,
        _length: usize,
        _flags: c_uint,
    ) -> cudaError_t {
        // A hint about who uses managed memory; everybody can.
        self.on_device(|world, device| Ok(world.stream_device(device, stream(on)?).map(drop)?))
    }

    unsafe fn cudaCtxResetPersistingL2Cache(&self) -> cudaError_t {
        self.on_device(|_, _| Ok(()))
    }

    unsafe fn cudaLaunchHostFunc(
        &self,
        on: cudaStream_t,
        function: cudaHostFn_t,
        user_data: *mut c_void,
    ) -> cudaError_t {
        self.on_device(|world, device| call_host(world, device, on, function, user_data))
    }

    unsafe fn cudaStreamAddCallback(
        &self,
        on: cudaStream_t,
        callback: cudaStreamCallback_t,
        user_data: *mut c_void,
        _flags: c_uint,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            let Some(callback) = callback else { return Err(Failure::invalid("the callback is NULL")) };
            call_back(world, device, on, user_data, move |stream, code, argument| {
                // SAFETY: the program's own function with its own argument, as it asked for.
                unsafe { callback(stream, code, argument) };
            })
        })
    }

    unsafe fn cudaStreamBeginCapture(&self, on: cudaStream_t, mode: cudaStreamCaptureMode) -> cudaError_t {
        self.on_device(|world, device| Ok(world.begin_capture(device, stream(on)?, capture_mode(mode)?)?))
    }

    unsafe fn cudaStreamEndCapture(&self, on: cudaStream_t, graph: *mut cudaGraph_t) -> cudaError_t {
        self.on_device(|world, device| {
            // The caller's graph is NULL unless there is one.
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put_if_wanted(graph, std::ptr::null_mut()) };
            let captured = world.end_capture(device, stream(on)?)?;
            // SAFETY: as above.
            unsafe { put(graph, handle(captured.into_raw()), "the graph") }
        })
    }

    unsafe fn cudaStreamIsCapturing(
        &self,
        on: cudaStream_t,
        status: *mut cudaStreamCaptureStatus,
    ) -> cudaError_t {
        self.on_device(|world, device| {
            let info = world.capture_info(device, stream(on)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(status, status_of(info.status), "the status") }
        })
    }

    unsafe fn cudaStreamGetCaptureInfo(
        &self,
        on: cudaStream_t,
        status: *mut cudaStreamCaptureStatus,
        id: *mut u64,
    ) -> cudaError_t {
        let told = CaptureOut { status, id, ..CaptureOut::NONE };
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { capture_info(world, device, on, &told) })
    }

    unsafe fn cudaStreamGetCaptureInfo_v2(
        &self,
        on: cudaStream_t,
        status: *mut cudaStreamCaptureStatus,
        id: *mut u64,
        graph: *mut cudaGraph_t,
        dependencies: *mut *const cudaGraphNode_t,
        count: *mut usize,
    ) -> cudaError_t {
        let told = CaptureOut { status, id, graph, dependencies, count, ..CaptureOut::NONE };
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { capture_info(world, device, on, &told) })
    }

    unsafe fn cudaStreamGetCaptureInfo_v3(
        &self,
        on: cudaStream_t,
        status: *mut cudaStreamCaptureStatus,
        id: *mut u64,
        graph: *mut cudaGraph_t,
        dependencies: *mut *const cudaGraphNode_t,
        edges: *mut *const cudaGraphEdgeData,
        count: *mut usize,
    ) -> cudaError_t {
        let told = CaptureOut { status, id, graph, dependencies, edges, count };
        // SAFETY: NULL or writable, as the C function requires.
        self.on_device(|world, device| unsafe { capture_info(world, device, on, &told) })
    }

    unsafe fn cudaThreadExchangeStreamCaptureMode(&self, mode: *mut cudaStreamCaptureMode) -> cudaError_t {
        self.world(|world| {
            // SAFETY: NULL or readable, as the C function requires.
            let wanted = capture_mode(unsafe { take(mode.cast_const(), "the mode") }?)?;
            let before = match world.exchange_capture_mode(wanted) {
                CaptureMode::Global => cudaStreamCaptureMode::cudaStreamCaptureModeGlobal,
                CaptureMode::ThreadLocal => cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal,
                CaptureMode::Relaxed => cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed,
            };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(mode, before, "the mode") }
        })
    }
}

/// Where a capture is told.
#[derive(Clone, Copy)]
pub(crate) struct CaptureOut {
    pub(crate) status: *mut cudaStreamCaptureStatus,
    pub(crate) id: *mut u64,
    pub(crate) graph: *mut cudaGraph_t,
    pub(crate) dependencies: *mut *const cudaGraphNode_t,
    pub(crate) edges: *mut *const cudaGraphEdgeData,
    pub(crate) count: *mut usize,
}

impl CaptureOut {
    /// Nowhere.
    pub(crate) const NONE: Self = Self {
        status: std::ptr::null_mut(),
        id: std::ptr::null_mut(),
        graph: std::ptr::null_mut(),
        dependencies: std::ptr::null_mut(),
        edges: std::ptr::null_mut(),
        count: std::ptr::null_mut(),
    };
}

/// # Safety
/// The places of `told` are NULL or writable.
pub(crate) unsafe fn capture_info(
    world: &World,
    device: Ordinal,
    on: cudaStream_t,
    told: &CaptureOut,
) -> Result {
    let info = world.capture_info(device, stream(on)?)?;
    // SAFETY: NULL or writable, as are all below.
    unsafe { put(told.status, status_of(info.status), "the status") }?;
    // SAFETY: as above.
    unsafe { put_if_wanted(told.id, info.id) };
    // The graph of a capture is a handle only once the capture has ended.
    // SAFETY: as above.
    unsafe { put_if_wanted(told.graph, std::ptr::null_mut()) };
    // All edges are plain ones, which CUDA tells by NULL.
    // SAFETY: as above.
    unsafe { put_if_wanted(told.edges, std::ptr::null()) };
    // SAFETY: as above.
    unsafe { put_if_wanted(told.count, info.dependencies.len()) };
    if !told.dependencies.is_null() {
        let nodes = NODES.try_with(|nodes| {
            let mut nodes = nodes.borrow_mut();
            *nodes = info.dependencies.iter().map(|&node| handle(node)).collect();
            nodes.as_ptr()
        });
        // SAFETY: as above.
        unsafe { put_if_wanted(told.dependencies, nodes.unwrap_or(std::ptr::null())) };
    }
    Ok(())
}

pub(crate) const fn status_of(status: CaptureStatus) -> cudaStreamCaptureStatus {
    match status {
        CaptureStatus::None => cudaStreamCaptureStatus::cudaStreamCaptureStatusNone,
        CaptureStatus::Active => cudaStreamCaptureStatus::cudaStreamCaptureStatusActive,
        CaptureStatus::Invalidated => cudaStreamCaptureStatus::cudaStreamCaptureStatusInvalidated,
    }
}

pub(crate) fn capture_mode(mode: cudaStreamCaptureMode) -> Result<CaptureMode> {
    Ok(match mode {
        cudaStreamCaptureMode::cudaStreamCaptureModeGlobal => CaptureMode::Global,
        cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal => CaptureMode::ThreadLocal,
        cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed => CaptureMode::Relaxed,
        other => return Err(Failure::invalid(format!("{other:?} is no mode of a capture"))),
    })
}

/// # Safety
/// `to` is NULL or writable.
pub(crate) unsafe fn create(
    world: &World,
    device: Ordinal,
    to: *mut cudaStream_t,
    flags: c_uint,
    priority: c_int,
) -> Result {
    if flags & !NON_BLOCKING != 0 {
        return Err(Failure::invalid(format!("{flags:#x} are no flags of a stream")));
    }
    let flags = StreamFlags { non_blocking: flags & NON_BLOCKING != 0 };
    let made = world.create_stream(device, flags, priority)?;
    // SAFETY: this function's contract.
    unsafe { put(to, handle(made.into_raw()), "the stream") }
}

/// A stream that was made, and can be destroyed.
pub(crate) fn made(of: cudaStream_t) -> Result<StreamHandle> {
    match stream(of)? {
        StreamRef::Made(made) => Ok(made),
        StreamRef::Legacy | StreamRef::PerThread => Err(Failure::handle("stream that was made", raw(of))),
    }
}

/// Has a stream call a function that is told how the stream fared.
pub(crate) fn call_back(
    world: &World,
    device: Ordinal,
    on: cudaStream_t,
    argument: *mut c_void,
    callback: impl Fn(cudaStream_t, cudaError_t, *mut c_void) + Send + Sync + 'static,
) -> Result {
    let foreign = Foreign { argument, stream: on };
    let function = HostFunction::callback(move |failure| {
        let foreign = &foreign;
        let code = failure.map_or(0, |error| error.kind().code());
        callback(foreign.stream, cudaError_t(code), foreign.argument);
    });
    Ok(world.enqueue_host_function(device, stream(on)?, function)?)
}

/// Has a stream call a function.
pub(crate) fn call_host(
    world: &World,
    device: Ordinal,
    on: cudaStream_t,
    function: cudaHostFn_t,
    argument: *mut c_void,
) -> Result {
    let Some(function) = function else { return Err(Failure::invalid("the host function is NULL")) };
    let foreign = Foreign { argument, stream: on };
    let function = HostFunction::new(move || {
        let foreign = &foreign;
        // SAFETY: the program's own function with its own argument, as it asked for.
        unsafe { function(foreign.argument) };
    });
    Ok(world.enqueue_host_function(device, stream(on)?, function)?)
}
