//! The process's CUDA streams, where FakeGPU's CUDA runtime is in it: calls of NCCL are items of them.

use std::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::time::Duration;

use fakegpu_cuda_abi::client::loaded_streams;
use fakegpu_cuda_abi::codes::cudaError_t;
use fakegpu_cuda_abi::streams::{PointerLook, StreamLook, StreamName, StreamTable, StreamWork as Item, turn};
use fakegpu_cuda_abi::types::cudaMemoryType;
use fakegpu_simulate::{Fault, Remake, Stream, StreamWork, Streams, Turn};

/// The runtime's table, once it is known to be there.
static TABLE: OnceLock<&'static StreamTable> = OnceLock::new();

/// Looks whether the runtime has been loaded meanwhile: a communicator is about to be made.
pub(crate) fn look_for_runtime() {
    if TABLE.get().is_none()
        && let Some(table) = loaded_streams()
    {
        TABLE.get_or_init(|| table);
    }
}

/// Whether the program uses the process's CUDA runtime; a real one it does.
pub(crate) fn is_runtime_used() -> bool {
    // SAFETY: the table's function takes nothing.
    TABLE.get().is_none_or(|table| unsafe { (table.is_used)() } != 0)
}

/// The streams of FakeGPU's CUDA runtime; none where it is not in the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CudaStreams;

impl CudaStreams {
    fn table() -> Result<&'static StreamTable, Fault> {
        TABLE.get().copied().ok_or_else(|| Fault::internal("FakeGPU's CUDA runtime is not in this process"))
    }

    /// The runtime's answer to a call.
    fn answer(table: &StreamTable, code: cudaError_t) -> Result<(), Fault> {
        if code == cudaError_t::cudaSuccess {
            return Ok(());
        }
        let mut text = [0_u8; TEXT_BYTES];
        // SAFETY: the buffer is writable for as many bytes as are said.
        unsafe { (table.last_text)(text.as_mut_ptr().cast::<c_char>(), text.len()) };
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Err(Fault::argument(String::from_utf8_lossy(&text[..end]).into_owned()))
    }
}

/// Room for a sentence of the runtime's.
const TEXT_BYTES: usize = 1024;

fn name(stream: Stream) -> StreamName {
    let device = c_int::try_from(stream.device).unwrap_or(c_int::MAX);
    StreamName { handle: std::ptr::without_provenance_mut(stream.handle), device }
}

impl Streams for CudaStreams {
    fn is_there(&self) -> bool {
        TABLE.get().is_some()
    }

    fn knows(&self, address: usize) -> bool {
        let Ok(table) = Self::table() else { return false };
        let mut look = PointerLook::default();
        // SAFETY: `look` is writable; the address is looked up, never followed.
        let code = unsafe { (table.pointer)(std::ptr::without_provenance(address), &raw mut look) };
        code == cudaError_t::cudaSuccess && look.kind != cudaMemoryType::cudaMemoryTypeUnregistered
    }

    fn is_capturing(&self, stream: Stream) -> Result<bool, Fault> {
        let table = Self::table()?;
        let mut look = StreamLook::default();
        // SAFETY: `look` is writable; the handle is looked up, never followed.
        let code = unsafe { (table.look)(name(stream), &raw mut look) };
        Self::answer(table, code)?;
        Ok(look.is_capturing != 0)
    }

    fn enqueue(&self, stream: Stream, work: Box<dyn StreamWork>) -> Result<(), Fault> {
        put(stream, Work::Now(work), None)
    }

    fn capture(&self, stream: Stream, work: Box<dyn Remake>) -> Result<(), Fault> {
        put(stream, Work::Remade(work), Some(again))
    }

    fn forgive(&self, stream: Stream) {
        if let Ok(table) = Self::table() {
            // SAFETY: the handle is looked up, never followed. A stream that is gone has nothing to be forgiven.
            let _code = unsafe { (table.forgive)(name(stream)) };
        }
    }

    fn join(&self, streams: &[Stream]) -> Result<(), Fault> {
        let table = Self::table()?;
        let names: Vec<StreamName> = streams.iter().copied().map(name).collect();
        // SAFETY: the list is as long as is said; handles are looked up, never followed.
        let code = unsafe { (table.join)(names.as_ptr(), names.len()) };
        Self::answer(table, code)
    }
}

/// What an item's data is.
enum Work {
    /// For one run.
    Now(Box<dyn StreamWork>),
    /// Made anew for each run, and never run itself.
    Remade(Box<dyn Remake>),
}

/// Gives work to a stream.
fn put(
    stream: Stream,
    work: Work,
    again: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
) -> Result<(), Fault> {
    let table = CudaStreams::table()?;
    let data = Box::into_raw(Box::new(work)).cast::<c_void>();
    let item = Item { data, turn: take_turn, wait, drop: free, again, name: c"an NCCL operation".as_ptr() };
    // SAFETY: the item's functions take its data, which is theirs from here on, also where it is refused.
    let code = unsafe { (table.enqueue)(name(stream), item) };
    CudaStreams::answer(table, code)
}

/// # Safety
/// `data` is of [`put`], and alive.
unsafe extern "C" fn again(data: *mut c_void) -> *mut c_void {
    // SAFETY: `data` is a work of `put`, by this function's contract; it is only looked at.
    let work = unsafe { &*data.cast::<Work>() };
    let Work::Remade(remake) = work else { return std::ptr::null_mut() };
    match catch_unwind(AssertUnwindSafe(|| remake.again())) {
        Ok(made) => Box::into_raw(Box::new(Work::Now(made))).cast::<c_void>(),
        Err(_) => std::ptr::null_mut(),
    }
}

/// # Safety
/// `data` is of [`put`] or [`again`] and in no other use; `text` is writable for `text_size` bytes.
unsafe extern "C" fn take_turn(
    data: *mut c_void,
    modelled_ps: *mut u64,
    text: *mut c_char,
    text_size: usize,
) -> c_int {
    // SAFETY: `data` is a work, by this function's contract.
    let work = unsafe { &mut *data.cast::<Work>() };
    let told = catch_unwind(AssertUnwindSafe(|| match work {
        Work::Now(work) => work.turn(),
        Work::Remade(_) => {
            Turn::Failed("it was captured, and is run by launches of its graph only".to_owned())
        }
    }));
    let sentence = match told {
        Ok(Turn::Pending) => return turn::PENDING,
        Ok(Turn::Ended(span)) => {
            if !modelled_ps.is_null() {
                // SAFETY: not NULL, so writable.
                unsafe { modelled_ps.write(span.as_picos()) };
            }
            return turn::ENDED;
        }
        Ok(Turn::Failed(sentence)) => sentence,
        Err(_) => "an NCCL operation hit a bug in FakeGPU".to_owned(),
    };
    let bytes = sentence.as_bytes();
    let count = bytes.len().min(text_size.saturating_sub(1));
    if text_size > 0 && !text.is_null() {
        // SAFETY: `text` has room for `text_size` bytes, of which `count` and one more are written.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast::<c_char>(), text, count) };
        let end = text.wrapping_add(count);
        // SAFETY: as above; `count` is less than `text_size`.
        unsafe { end.write(0) };
    }
    turn::FAILED
}

/// # Safety
/// As [`take_turn`].
unsafe extern "C" fn wait(data: *mut c_void, timeout_us: u64) {
    // SAFETY: `data` is a work, by this function's contract.
    let work = unsafe { &mut *data.cast::<Work>() };
    // A bug in it is told by the next turn.
    drop(catch_unwind(AssertUnwindSafe(|| {
        if let Work::Now(work) = work {
            work.wait(Duration::from_micros(timeout_us));
        }
    })));
}

/// # Safety
/// As [`take_turn`]; the data is of no use afterwards.
unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: `data` was made by `Box::into_raw`, and is dropped once.
    let work = unsafe { Box::from_raw(data.cast::<Work>()) };
    drop(catch_unwind(AssertUnwindSafe(|| drop(work))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_runtime_there_are_no_streams() {
        look_for_runtime();
        assert!(!CudaStreams.is_there());
        assert!(CudaStreams.is_capturing(Stream { handle: 0, device: 0 }).is_err());
    }

    #[derive(Debug)]
    struct Twice(u32);
    impl StreamWork for Twice {
        fn turn(&mut self) -> Turn {
            self.0 += 1;
            match self.0 {
                1 => Turn::Pending,
                2 => Turn::Failed("no".to_owned()),
                _ => panic!("asked again"),
            }
        }
        fn wait(&mut self, _: Duration) {}
    }

    #[test]
    fn a_work_is_asked_through_its_pointer_and_its_panic_stays_behind() {
        let work = Work::Now(Box::new(Twice(0)));
        let data = Box::into_raw(Box::new(work)).cast::<c_void>();
        let mut text = [1 as c_char; 3];
        // SAFETY: the data is a work, and the text as long as is said; freed once, at the end.
        let mut ask = |size| unsafe { take_turn(data, std::ptr::null_mut(), text.as_mut_ptr(), size) };
        assert_eq!((ask(3), ask(2), ask(3)), (turn::PENDING, turn::FAILED, turn::FAILED));
        // SAFETY: as above.
        unsafe { free(data) };
    }
}
