//! Streams and events.

use fakegpu_cuda::Vouched;
use fakegpu_cuda_abi::driver::{Event, Stream};
use fakegpu_cuda_abi::types::*;

use super::context::context_of;
use crate::answers::{
    CaptureOut, call_back, call_host, capture_info, capture_mode, create_event, create_stream, elapsed, made,
    status_of,
};
use crate::failure::{Failure, put};
use crate::shim::{Shim, event, handle, number, stream};

impl Stream for Shim {
    unsafe fn cuStreamCreate(&self, to: *mut CUstream, flags: c_uint) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { create_stream(world, device, to, flags, 0) })
    }

    unsafe fn cuStreamCreateWithPriority(
        &self,
        to: *mut CUstream,
        flags: c_uint,
        priority: c_int,
    ) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { create_stream(world, device, to, flags, priority) })
    }

    unsafe fn cuStreamDestroy_v2(&self, of: CUstream) -> CUresult {
        self.drive_world(|world| Ok(world.destroy_stream(made(of)?)?))
    }

    unsafe fn cuStreamSynchronize(&self, on: CUstream) -> CUresult {
        self.drive_device(|world, device| Ok(world.synchronize_stream(device, stream(on)?)?))
    }

    unsafe fn cuStreamQuery(&self, on: CUstream) -> CUresult {
        self.drive_device(|world, device| Ok(world.query_stream(device, stream(on)?)?))
    }

    unsafe fn cuStreamWaitEvent(&self, on: CUstream, for_event: CUevent, _flags: c_uint) -> CUresult {
        self.drive_device(|world, device| Ok(world.wait_event(device, stream(on)?, event(for_event)?)?))
    }

    unsafe fn cuStreamGetPriority(&self, of: CUstream, priority: *mut c_int) -> CUresult {
        self.drive_device(|world, device| {
            let found = world.stream_priority(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(priority, found, "the priority") }
        })
    }

    unsafe fn cuStreamGetFlags(&self, of: CUstream, flags: *mut c_uint) -> CUresult {
        self.drive_device(|world, device| {
            let found = world.stream_flags(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(flags, c_uint::from(found.non_blocking), "the flags") }
        })
    }

    unsafe fn cuStreamGetId(&self, of: CUstream, stream_id: *mut u64) -> CUresult {
        self.drive_device(|world, device| {
            let found = world.stream_id(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(stream_id, found, "the id") }
        })
    }

    unsafe fn cuStreamGetDevice(&self, of: CUstream, device_out: *mut CUdevice) -> CUresult {
        self.drive_device(|world, device| {
            let found = world.stream_device(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(device_out, number(found), "the device") }
        })
    }

    unsafe fn cuStreamGetCtx(&self, of: CUstream, pctx: *mut CUcontext) -> CUresult {
        self.drive_device(|world, device| {
            let found = world.stream_device(device, stream(of)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(pctx, context_of(found), "the context") }
        })
    }

    unsafe fn cuStreamWriteValue32_v2(
        &self,
        on: CUstream,
        addr: CUdeviceptr,
        value: u32,
        _flags: c_uint,
    ) -> CUresult {
        // SAFETY: the program's memory, good until the stream has set it, as the C function requires.
        let target = unsafe { Vouched::new(usize::try_from(addr).unwrap_or(0)) };
        self.drive_device(|world, device| Ok(world.fill(device, stream(on)?, target, value, 4, 1)?))
    }

    unsafe fn cuStreamAddCallback(
        &self,
        on: CUstream,
        callback: CUstreamCallback,
        user_data: *mut c_void,
        _flags: c_uint,
    ) -> CUresult {
        let call = move |stream, code: cudaError_t, argument| {
            if let Some(callback) = callback {
                // SAFETY: the program's own function with its own argument, as it asked for.
                unsafe { callback(stream, code.into(), argument) };
            }
        };
        self.drive_device(|world, device| match callback {
            Some(_) => call_back(world, device, on, user_data, call),
            None => Err(Failure::invalid("the callback is NULL")),
        })
    }

    unsafe fn cuLaunchHostFunc(
        &self,
        on: CUstream,
        function: cudaHostFn_t,
        user_data: *mut c_void,
    ) -> CUresult {
        self.drive_device(|world, device| call_host(world, device, on, function, user_data))
    }

    unsafe fn cuStreamBeginCapture_v2(&self, on: CUstream, mode: CUstreamCaptureMode) -> CUresult {
        let mode = capture_mode(cudaStreamCaptureMode(mode));
        self.drive_device(|world, device| Ok(world.begin_capture(device, stream(on)?, mode?)?))
    }

    unsafe fn cuStreamEndCapture(&self, on: CUstream, graph: *mut CUgraph) -> CUresult {
        self.drive_device(|world, device| {
            let captured = world.end_capture(device, stream(on)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(graph, handle(captured.into_raw()), "the graph") }
        })
    }

    unsafe fn cuStreamIsCapturing(&self, on: CUstream, status: *mut CUstreamCaptureStatus) -> CUresult {
        self.drive_device(|world, device| {
            let info = world.capture_info(device, stream(on)?)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(status, status_of(info.status).0, "the status") }
        })
    }

    unsafe fn cuStreamGetCaptureInfo_v2(
        &self,
        on: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        count: *mut usize,
    ) -> CUresult {
        let told = CaptureOut { status: status.cast(), id, graph, dependencies, count, ..CaptureOut::NONE };
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { capture_info(world, device, on, &told) })
    }

    unsafe fn cuStreamGetCaptureInfo_v3(
        &self,
        on: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut u64,
        graph: *mut CUgraph,
        dependencies: *mut *const CUgraphNode,
        edges: *mut *const c_void,
        count: *mut usize,
    ) -> CUresult {
        let edges = edges.cast();
        let told = CaptureOut { status: status.cast(), id, graph, dependencies, edges, count };
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { capture_info(world, device, on, &told) })
    }
}

impl Event for Shim {
    unsafe fn cuEventCreate(&self, to: *mut CUevent, flags: c_uint) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_device(|world, device| unsafe { create_event(world, device, to, flags) })
    }

    unsafe fn cuEventDestroy_v2(&self, of: CUevent) -> CUresult {
        self.drive_world(|world| Ok(world.destroy_event(event(of)?)?))
    }

    unsafe fn cuEventRecord(&self, of: CUevent, on: CUstream) -> CUresult {
        self.drive_device(|world, device| Ok(world.record_event(device, event(of)?, stream(on)?)?))
    }

    unsafe fn cuEventRecordWithFlags(&self, of: CUevent, on: CUstream, _flags: c_uint) -> CUresult {
        self.drive_device(|world, device| Ok(world.record_event(device, event(of)?, stream(on)?)?))
    }

    unsafe fn cuEventQuery(&self, of: CUevent) -> CUresult {
        self.drive_world(|world| Ok(world.query_event(event(of)?)?))
    }

    unsafe fn cuEventSynchronize(&self, of: CUevent) -> CUresult {
        self.drive_world(|world| Ok(world.synchronize_event(event(of)?)?))
    }

    unsafe fn cuEventElapsedTime(&self, ms: *mut f32, start: CUevent, end: CUevent) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_world(|world| unsafe { elapsed(world, ms, start, end) })
    }

    unsafe fn cuEventElapsedTime_v2(&self, ms: *mut f32, start: CUevent, end: CUevent) -> CUresult {
        // SAFETY: NULL or writable, as the C function requires.
        self.drive_world(|world| unsafe { elapsed(world, ms, start, end) })
    }
}
