//! Blocks of a launch, run one thread after the other, and what ends one before its time.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::compile::Kernel;
use crate::context::{CONTEXT_WORDS, Context, Status, Window, at};

/// Who knows which addresses a kernel may touch.
pub trait Memory: Send + Sync {
    /// The allocation that an address lies in, if the kernel may touch it.
    fn find(&self, address: u64) -> Option<Range<u64>>;

    /// Where an address lies that the kernel may not touch, as a sentence without its subject, such as "lies in no
    /// allocation".
    fn describe(&self, address: u64) -> String;
}

/// What a kernel is to be run over.
pub struct Launch {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, which the kernel may ask for and not use.
    pub shared_bytes: u32,
    /// Its arguments, as they lie in memory.
    pub params: Vec<u8>,
    /// Addresses of the variables of its module, in their order.
    pub variables: Vec<u64>,
    /// Multiprocessors of the device, for kernels that ask.
    pub multiprocessors: u32,
    /// Which memory it may touch.
    pub memory: Arc<dyn Memory>,
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("grid", &self.grid)
            .field("block", &self.block)
            .field("param_bytes", &self.params.len())
            .finish_non_exhaustive()
    }
}

impl Launch {
    pub(crate) fn blocks(&self) -> u64 {
        self.grid.iter().map(|side| u64::from(*side)).product()
    }
}

/// What ended a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// It touched memory that it may not.
    IllegalAddress,
    /// It touched memory at an address that is no multiple of the access's size.
    Misaligned,
    /// It executed `trap`.
    Trap,
    /// An assertion of it failed.
    Assert,
}

impl FaultKind {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::IllegalAddress => 0,
            Self::Misaligned => 1,
            Self::Trap => 2,
            Self::Assert => 3,
        }
    }

    const fn from_number(number: u32) -> Self {
        match number {
            0 => Self::IllegalAddress,
            1 => Self::Misaligned,
            2 => Self::Trap,
            _ => Self::Assert,
        }
    }
}

/// The end of a kernel before its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What ended it.
    pub kind: FaultKind,
    /// The kernel, the thread, the line, and what was wrong, as a sentence.
    pub text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Fault {}

/// Whether an access reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    /// With the size, as generated code passes it on.
    pub(crate) fn word(self, shift: u32) -> u32 {
        shift | u32::from(self == Self::Write) << 8
    }
}

/// Ranges that a thread of the host remembers beside those of the code's places.
const REMEMBERED: usize = 8;

/// What a thread of the host keeps while it runs blocks of a launch.
pub(crate) struct Worker {
    kernel: Arc<Kernel>,
    memory: Arc<dyn Memory>,
    /// What belongs to the thread alone: its arguments and its local memory.
    own: [Range<u64>; 2],
    remembered: Vec<Range<u64>>,
    turn: usize,
    fault: Option<Fault>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}

/// A run of blocks on one thread of the host.
pub(crate) struct Runner {
    /// The context and the windows behind it.
    words: Vec<u64>,
    worker: Box<Worker>,
    kernel: Arc<Kernel>,
    /// What the context points to.
    _local: Vec<u128>,
    block: [u32; 3],
    grid: [u32; 3],
}

impl Runner {
    /// # Errors
    /// Where the host has no room for a thread's local memory.
    pub(crate) fn new(kernel: &Arc<Kernel>, launch: &Launch) -> Self {
        let mut local = vec![0_u128; kernel.local_bytes.div_ceil(16)];
        let local_at = local.as_mut_ptr().expose_provenance() as u64;
        let params_at = launch.params.as_ptr().expose_provenance() as u64;
        let span = |start: u64, bytes: usize| start..start + bytes as u64;
        let own = [span(local_at, kernel.local_bytes), span(params_at, launch.params.len())];
        let mut worker = Box::new(Worker {
            kernel: Arc::clone(kernel),
            memory: Arc::clone(&launch.memory),
            own,
            remembered: Vec::with_capacity(REMEMBERED),
            turn: 0,
            fault: None,
        });
        let [x, y, z] = launch.block;
        let context = Context {
            params: params_at,
            variables: launch.variables.as_ptr().expose_provenance() as u64,
            local: local_at,
            worker: &raw mut *worker,
            tid: [0; 3],
            ntid: launch.block,
            ctaid: [0; 3],
            nctaid: launch.grid,
            lane: 0,
            warp: 0,
            warps: x.saturating_mul(y).saturating_mul(z).div_ceil(32),
            multiprocessor: 0,
            multiprocessors: launch.multiprocessors.max(1),
            shared_bytes: launch.shared_bytes,
        };
        let mut words = vec![0_u64; CONTEXT_WORDS + 2 * kernel.places];
        // SAFETY: the vector has room for a context, which is aligned to words and has no destructor.
        unsafe { words.as_mut_ptr().cast::<Context>().write(context) };
        let kernel = Arc::clone(kernel);
        Self { words, worker, kernel, _local: local, block: launch.block, grid: launch.grid }
    }

    /// Runs one block, until a thread of it faults or `is_over`.
    ///
    /// # Errors
    /// The fault.
    pub(crate) fn run(&mut self, number: u64, is_over: impl Fn() -> bool) -> Result<(), Fault> {
        let [width, height, _] = self.grid.map(u64::from);
        let side = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let ctaid = [side(number % width), side(number / width % height), side(number / width / height)];
        let context = self.words.as_mut_ptr().cast::<Context>();
        // SAFETY: the words begin with the context that `new` wrote; generated code holds no reference to it now.
        let multiprocessors = unsafe { (*context).multiprocessors };
        // SAFETY: as above.
        unsafe { (*context).ctaid = ctaid };
        // SAFETY: as above.
        unsafe { (*context).multiprocessor = side(number % u64::from(multiprocessors)) };
        let [x, y, z] = self.block;
        let mut linear = 0_u32;
        for tid_z in 0..z {
            for tid_y in 0..y {
                for tid_x in 0..x {
                    // SAFETY: as above.
                    unsafe { (*context).tid = [tid_x, tid_y, tid_z] };
                    // SAFETY: as above.
                    unsafe { (*context).lane = linear % 32 };
                    // SAFETY: as above.
                    unsafe { (*context).warp = linear / 32 };
                    // SAFETY: the code was made for a context with as many windows behind it as the kernel has places.
                    // It touches its own local memory and arguments, which live as long as `self` and the launch, and
                    // what `Memory` allows; it calls Rust only through `helpers`.
                    let status = unsafe { (self.kernel.entry)(context) };
                    if status == Status::FAULTED {
                        return Err(self.fault());
                    }
                    linear += 1;
                }
                if is_over() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn fault(&mut self) -> Fault {
        let unknown = || Fault {
            kind: FaultKind::Trap,
            text: format!("the kernel `{}` ended for a reason that it did not tell", self.kernel.name),
        };
        self.worker.fault.take().unwrap_or_else(unknown)
    }
}

/// Looks for the memory that a place of the code wants to touch, and keeps its range there. Whether it may.
pub(crate) fn find(
    worker: &mut Worker,
    context: *mut Context,
    place: u32,
    what: u32,
    line: u32,
    address: u64,
) -> bool {
    let shift = what & 0xff;
    let bytes = 1_u64 << shift.min(32);
    if !address.is_multiple_of(bytes) {
        worker.note(context, FaultKind::Misaligned, line, Some((address, bytes, what >> 8 != 0)));
        return false;
    }
    let fits = |range: &Range<u64>| {
        range.start <= address && address.checked_add(bytes).is_some_and(|end| end <= range.end)
    };
    let Some(range) = worker.look_up(address, fits) else {
        worker.note(context, FaultKind::IllegalAddress, line, Some((address, bytes, what >> 8 != 0)));
        return false;
    };
    let place = place as usize;
    if place >= worker.kernel.places {
        return true;
    }
    // What lies before the first multiple of 16 is looked up each time.
    let base = range.start.next_multiple_of(16);
    let window = Window { base, elements: range.end.saturating_sub(base) >> shift };
    let windows = context.wrapping_byte_add(at::WINDOWS.unsigned_abs() as usize).cast::<Window>();
    // SAFETY: `Runner::new` made as many windows behind the context as the kernel has places.
    unsafe { windows.wrapping_add(place).write(window) };
    true
}

/// Notes the end of a kernel by its own will.
pub(crate) fn fault(worker: &mut Worker, context: *mut Context, kind: u32, line: u32) {
    worker.note(context, FaultKind::from_number(kind), line, None);
}

impl Worker {
    fn look_up(&mut self, address: u64, fits: impl Fn(&Range<u64>) -> bool) -> Option<Range<u64>> {
        let known = self.own.iter().chain(&self.remembered).find(|range| fits(range));
        if let Some(range) = known {
            return Some(range.clone());
        }
        let range = self.memory.find(address).filter(fits)?;
        match self.remembered.get_mut(self.turn) {
            Some(slot) => *slot = range.clone(),
            None => self.remembered.push(range.clone()),
        }
        self.turn = (self.turn + 1) % REMEMBERED;
        Some(range)
    }

    fn note(&mut self, context: *mut Context, kind: FaultKind, line: u32, access: Option<(u64, u64, bool)>) {
        // SAFETY: the context is that of the running thread, which is inside a call of ours.
        let thread = unsafe { (*context).tid };
        // SAFETY: as above.
        let block = unsafe { (*context).ctaid };
        let shown = |[x, y, z]: [u32; 3]| format!("({x},{y},{z})");
        let who = format!(
            "thread {} of block {} of the kernel `{}`, at line {line} of its PTX,",
            shown(thread),
            shown(block),
            self.kernel.name
        );
        let text = match (kind, access) {
            (FaultKind::Misaligned, Some((address, bytes, writes))) => {
                let verb = if writes { "wrote" } else { "read" };
                format!("{who} {verb} {bytes} bytes at {address:#x}, which is no multiple of {bytes}")
            }
            (FaultKind::IllegalAddress, Some((address, bytes, writes))) => {
                let verb = if writes { "wrote" } else { "read" };
                format!("{who} {verb} {bytes} bytes at {address:#x}, which {}", self.memory.describe(address))
            }
            (FaultKind::Assert, _) => format!("{who} failed an assertion"),
            _ => format!("{who} executed a trap"),
        };
        self.fault.get_or_insert(Fault { kind, text });
    }
}
