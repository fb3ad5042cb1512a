//! The streams of the process for other libraries: NCCL's calls become items of them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::Duration;

use fakegpu_cuda::{
    CaptureMode, EventFlags, EventHandle, MemoryKind, Ordinal, Poll, Polled, PolledWork, StreamRef, World,
};
use fakegpu_cuda_abi::StreamTable;
use fakegpu_cuda_abi::streams::{PointerLook, STREAMS_VERSION, StreamLook, StreamName, StreamWork, turn};
use fakegpu_cuda_abi::types::{cudaError_t, cudaStream_t};
use fakegpu_units::VirtualSpan;

use crate::answers::kind_of;
use crate::failure::{Failure, Result, put, take};
use crate::fence::fenced;
use crate::process;
use crate::shim::{number, ordinal, raw};
use crate::thread;

/// The streams of this process. The table is there before anything else is made.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_cuda_streams() -> *const StreamTable {
    &raw const TABLE
}

static TABLE: StreamTable = StreamTable {
    size: size_of::<StreamTable>(),
    version: STREAMS_VERSION,
    look,
    enqueue,
    join,
    drain,
    forgive,
    pointer,
    is_used,
    current_device,
    last_text,
};

/// A code for C; the sentence is kept for `last_text`.
fn give(answer: Result) -> cudaError_t {
    match answer {
        Ok(()) => cudaError_t::cudaSuccess,
        Err(failure) => {
            thread::remember(&failure);
            failure.code
        }
    }
}

fn answered(call: &'static str, body: impl FnOnce() -> Result) -> cudaError_t {
    fenced(call, || give(body()), |code| code)
}

/// The stream that a caller names, and the device that the call is for.
fn resolve(name: StreamName) -> Result<(&'static World, Ordinal, StreamRef)> {
    let world = process::world()?;
    let device = ordinal(name.device)?;
    let number = raw(name.handle);
    // Whose default stream 0 is, the caller has decided by the function that it was called by; NCCL has one only.
    let stream =
        StreamRef::from_raw(number, StreamRef::Legacy).ok_or_else(|| Failure::handle("stream", number))?;
    Ok((world, device, stream))
}

unsafe extern "C" fn look(name: StreamName, to: *mut StreamLook) -> cudaError_t {
    answered("fakegpu_cuda_streams.look", || {
        let (world, device, stream) = resolve(name)?;
        let home = world.stream_device(device, stream)?;
        let info = world.capture_info(device, stream)?;
        let is_capturing = c_int::from(info.status != fakegpu_cuda::CaptureStatus::None);
        // SAFETY: NULL or writable, as the table requires.
        unsafe { put(to, StreamLook { device: number(home), is_capturing }, "the look") }
    })
}

unsafe extern "C" fn enqueue(name: StreamName, work: StreamWork) -> cudaError_t {
    answered("fakegpu_cuda_streams.enqueue", || {
        let item = Item::new(work);
        let (world, device, stream) = resolve(name)?;
        process::note_use(device);
        let work = if work.again.is_some() {
            PolledWork::remade(move || item.again())
        } else {
            PolledWork::once(item)
        };
        Ok(world.enqueue_polled(device, stream, work)?)
    })
}

unsafe extern "C" fn join(streams: *const StreamName, count: usize) -> cudaError_t {
    answered("fakegpu_cuda_streams.join", || {
        let mut members = Vec::new();
        for at in 0..count {
            // SAFETY: NULL or an array of `count`, as the table requires; NULL is refused before it is read.
            let name = unsafe { take(streams.wrapping_add(at), "the list of streams") }?;
            members.push(resolve(name)?);
        }
        join_all(&members)
    })
}

/// A stream that a call names, with the device that the call is for.
type Member = (&'static World, Ordinal, StreamRef);

/// Lets each stream wait for a mark at the end of every other.
fn join_all(members: &[Member]) -> Result {
    if members.len() < 2 {
        return Ok(());
    }
    let mut marks = Vec::new();
    let joined = mark_all(members, &mut marks).and_then(|()| wait_all(members, &marks));
    for (world, mark) in marks {
        world.destroy_event(mark)?;
    }
    joined
}

/// Records a new event on each; what was made is in `marks` in any case.
fn mark_all(members: &[Member], marks: &mut Vec<(&'static World, EventHandle)>) -> Result {
    for &(world, device, stream) in members {
        let home = world.stream_device(device, stream)?;
        let mark = world.create_event(home, EventFlags { disable_timing: true, ..EventFlags::default() })?;
        marks.push((world, mark));
        world.record_event(device, mark, stream)?;
    }
    Ok(())
}

fn wait_all(members: &[Member], marks: &[(&'static World, EventHandle)]) -> Result {
    for (at, &(world, device, stream)) in members.iter().enumerate() {
        for (_, &(_, mark)) in marks.iter().enumerate().filter(|(of, _)| *of != at) {
            world.wait_event(device, stream, mark)?;
        }
    }
    Ok(())
}

unsafe extern "C" fn drain(name: StreamName) -> cudaError_t {
    answered("fakegpu_cuda_streams.drain", || {
        let (world, device, stream) = resolve(name)?;
        Ok(world.synchronize_stream(device, stream)?)
    })
}

unsafe extern "C" fn forgive(name: StreamName) -> cudaError_t {
    answered("fakegpu_cuda_streams.forgive", || {
        let (world, device, stream) = resolve(name)?;
        world.clear_failure(device, stream)?;
        process::note_recovery();
        Ok(())
    })
}

unsafe extern "C" fn pointer(at: *const c_void, to: *mut PointerLook) -> cudaError_t {
    answered("fakegpu_cuda_streams.pointer", || {
        let known = process::world()?.attributes(at.addr())?;
        let device = if known.kind == MemoryKind::Unregistered { -1 } else { number(known.device) };
        let told = PointerLook { kind: kind_of(known.kind), device, base: known.base, size: known.bytes };
        // SAFETY: NULL or writable, as the table requires.
        unsafe { put(to, told, "the look") }
    })
}

unsafe extern "C" fn is_used() -> c_int {
    c_int::from(process::is_any_used())
}

unsafe extern "C" fn current_device(to: *mut c_int) -> cudaError_t {
    answered("fakegpu_cuda_streams.current_device", || {
        process::world()?.device(thread::device())?;
        // SAFETY: NULL or writable, as the table requires.
        unsafe { put(to, number(thread::device()), "the device") }
    })
}

unsafe extern "C" fn last_text(text: *mut c_char, size: usize) {
    let write = || {
        let room = c_int::try_from(size).unwrap_or(c_int::MAX);
        // SAFETY: NULL or as many characters, as the table requires.
        unsafe { crate::answers::put_text(text, room, &thread::sentence()) }
    };
    // Without room there is nothing to say it in either.
    drop(fenced("fakegpu_cuda_streams.last_text", write, |_| Ok(())));
}

/// Runs until nothing of a stream is outstanding; a stream that captures is left alone.
pub(crate) fn drain_one(stream: cudaStream_t, device: c_int) -> cudaError_t {
    give((|| {
        let (world, device, stream) = resolve(StreamName { handle: stream, device })?;
        if world.capture_info(device, stream)?.status != fakegpu_cuda::CaptureStatus::None {
            return Err(Failure::new(
                cudaError_t::cudaErrorStreamCaptureUnsupported,
                "the stream captures, and has nothing to wait for",
            ));
        }
        Ok(world.synchronize_stream(device, stream)?)
    })())
}

/// Runs until nothing of the process is outstanding.
pub(crate) fn drain_all() -> cudaError_t {
    give(process::world().and_then(|world| {
        let mut used =
            world.devices().iter().map(|device| device.ordinal).filter(|&device| process::is_used(device));
        used.try_for_each(|device| drain_device(world, device))
    }))
}

/// Runs until nothing of the calling thread's device is outstanding.
pub(crate) fn drain_current() -> cudaError_t {
    give(process::world().and_then(|world| drain_device(world, thread::device())))
}

/// Waits for a device, and leaves captures alone: what they write down is not outstanding.
fn drain_device(world: &World, device: Ordinal) -> Result {
    let before = world.exchange_capture_mode(CaptureMode::Relaxed);
    let drained = world.synchronize_device(device);
    world.exchange_capture_mode(before);
    Ok(drained?)
}

/// Room for the sentence of work that failed.
const TEXT_BYTES: usize = 1024;

/// Another library's work as an item of a stream.
struct Item {
    work: StreamWork,
    name: String,
}

// SAFETY: the table requires of the work's functions that any thread may call them.
unsafe impl Send for Item {}
// SAFETY: by a shared reference only `again` is called, which the table lets any thread do.
unsafe impl Sync for Item {}

impl Item {
    fn new(work: StreamWork) -> Self {
        let name = if work.name.is_null() {
            "the work of a library".to_owned()
        } else {
            // SAFETY: not NULL, so a C string, as the table requires.
            let name = unsafe { CStr::from_ptr(work.name) };
            name.to_string_lossy().into_owned()
        };
        Self { work, name }
    }

    /// The item for one more run.
    fn again(&self) -> Box<dyn Polled> {
        let data = self.work.again.map_or(std::ptr::null_mut(), |again| {
            // SAFETY: the data is alive until `drop`, which this item alone calls.
            unsafe { again(self.work.data) }
        });
        if data.is_null() {
            return Box::new(Impossible(self.name.clone()));
        }
        let work = StreamWork { data, again: None, name: std::ptr::null(), ..self.work };
        Box::new(Self { work, name: self.name.clone() })
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        // SAFETY: the one call of `drop` for this data.
        unsafe { (self.work.drop)(self.work.data) };
    }
}

impl Polled for Item {
    fn poll(&mut self) -> Poll {
        let mut picos = 0;
        let mut text: Vec<u8> = vec![0; TEXT_BYTES];
        // SAFETY: the data is alive until `drop`; the places are writable and as large as said.
        let state =
            unsafe { (self.work.turn)(self.work.data, &raw mut picos, text.as_mut_ptr().cast(), TEXT_BYTES) };
        match state {
            turn::PENDING => Poll::Pending,
            turn::ENDED => Poll::Done { took: VirtualSpan::from_picos(picos) },
            _ => Poll::Failed { text: sentence(text) },
        }
    }

    fn wait(&mut self, at_most: Duration) {
        let micros = u64::try_from(at_most.as_micros()).unwrap_or(u64::MAX);
        // SAFETY: the data is alive until `drop`.
        unsafe { (self.work.wait)(self.work.data, micros) };
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// The text up to its NUL; all of it where there is none.
fn sentence(text: Vec<u8>) -> String {
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    let text = text.get(..end).unwrap_or_default();
    CString::new(text).unwrap_or_default().to_string_lossy().into_owned()
}

/// Work that could not be made anew.
struct Impossible(String);

impl Polled for Impossible {
    fn poll(&mut self) -> Poll {
        Poll::Failed { text: "it could not be made anew for this launch".to_owned() }
    }

    fn wait(&mut self, _: Duration) {}

    fn name(&self) -> &str {
        &self.0
    }
}
