//! Memory: what a device has left, who owns an address, and how other processes reach it.
//!
//! A device's memory is a sparse file mapped at one range of addresses ([`arena`]); an allocation is a piece of it
//! ([`allocator`]). What is freed goes back to the machine by a hole in the file, but for [`RETAINED_BYTES`] a device
//! that are kept: a fresh page costs microseconds, and programs allocate again what they freed. Memory is not cleared
//! between two allocations of one process, as CUDA does not clear it.
//!
//! Every process accounts for its own allocations only: two processes on one device do not see each other's.

mod allocator;
mod arena;
mod host;
mod ipc;
mod pool;
mod raw;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use allocator::{Allocator, Extent, Ranges};
use arena::{Arena, PAGE_BYTES, Pinned};
use host::HostMemory;
use ipc::Foreign;

use crate::account::Account;
use crate::devices::{Devices, Ordinal};
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::handle::{PoolHandle, StreamRef};
use crate::world::World;

pub(crate) use arena::ForkGuard;
pub use ipc::IpcHandle;
pub(crate) use ipc::{SharedEvent, Ticket, What};
pub use pool::PoolAttribute;
use pool::Pools;
pub use raw::Vouched;
pub(crate) use raw::{Element, Layout, Move, Set, Shape};

/// What kind of memory an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// None that the world knows of: ordinary host memory, or no memory.
    Unregistered,
    /// Host memory that was allocated or registered as page-locked.
    Host,
    /// A device's.
    Device,
    /// A device's, which the host may use too.
    Managed,
}

/// What the world knows of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// What kind of memory it lies in.
    pub kind: MemoryKind,
    /// The device that owns the memory, or was current when it was allocated; 0 where there is none.
    pub device: Ordinal,
    /// Where the allocation begins; the address itself where there is none.
    pub base: usize,
    /// Bytes of the allocation, as asked for; 0 where there is none.
    pub bytes: usize,
    /// Bytes from `base` to the address.
    pub offset: usize,
    /// Number of the allocation in this process, never used again; 0 where there is none.
    pub id: u64,
    /// The address's place in its device's file, see [`World::device_file`].
    pub file_offset: Option<u64>,
    /// Whether it is another process's memory, opened here.
    pub is_foreign: bool,
    /// The pool that it came from.
    pub pool: Option<PoolHandle>,
}

/// A device's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// What this process may still allocate, in pieces.
    pub free: u64,
    /// What the device has.
    pub total: u64,
}

/// The file behind a device's addresses, for peers that map all of it.
#[derive(Debug)]
pub struct DeviceFile {
    /// A descriptor of the file; sealed against shrinking.
    pub fd: OwnedFd,
    /// Its size.
    pub bytes: u64,
    /// The address of its first byte in this process.
    pub base: usize,
}

/// What an allocation on a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Device,
    Managed,
}

/// Freed memory of a device that is kept for the next allocation instead of being given back to the machine.
const RETAINED_BYTES: u64 = 64 << 20;

/// The first touch of less than this is not worth asking the host about.
const ADMITTED_BYTES: usize = 64 << 10;

/// The memory of all devices and what is known of host memory.
#[derive(Debug)]
pub(crate) struct Memory {
    devices: Vec<DeviceMemory>,
    blocks: RwLock<BTreeMap<usize, Block>>,
    pools: Pools,
    host: HostMemory,
    foreign: Mutex<Foreign>,
    peers: Mutex<BTreeSet<(Ordinal, Ordinal)>>,
    last_id: AtomicU64,
    account: Arc<Account>,
}

#[derive(Debug)]
struct DeviceMemory {
    product: &'static str,
    node_device: u32,
    total: u64,
    usable: u64,
    arena: OnceLock<Arena>,
    state: Mutex<DeviceState>,
}

#[derive(Debug)]
struct DeviceState {
    allocator: Allocator,
    /// Free parts of the file that still hold pages.
    retained: Ranges,
}

/// An allocation, by its first address.
#[derive(Debug)]
struct Block {
    bytes: usize,
    device: Ordinal,
    id: u64,
    /// Whether a stream is about to free it.
    is_leaving: bool,
    owner: Owner,
}

/// An allocation, for who looks for one near an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) base: usize,
    pub(crate) bytes: usize,
    pub(crate) kind: MemoryKind,
    pub(crate) device: Ordinal,
    pub(crate) is_foreign: bool,
}

/// What lies at an address and next to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    pub(crate) at: Option<Piece>,
    pub(crate) before: Option<Piece>,
    pub(crate) behind: Option<Piece>,
}

#[derive(Debug)]
enum Owner {
    Device { piece: Extent, kind: Kind, pool: Option<PoolHandle> },
    Pinned { _memory: Pinned, flags: u32 },
    Registered { flags: u32 },
    Foreign { token: u64, file_offset: u64, opens: u64 },
}

impl Owner {
    const fn kind(&self) -> MemoryKind {
        match self {
            Self::Device { kind: Kind::Device, .. } | Self::Foreign { .. } => MemoryKind::Device,
            Self::Device { kind: Kind::Managed, .. } => MemoryKind::Managed,
            Self::Pinned { .. } | Self::Registered { .. } => MemoryKind::Host,
        }
    }

    /// How a program frees it.
    const fn freed_by(&self) -> &'static str {
        match self {
            Self::Device { .. } => "cudaFree",
            Self::Pinned { .. } => "cudaFreeHost",
            Self::Registered { .. } => "cudaHostUnregister",
            Self::Foreign { .. } => "cudaIpcCloseMemHandle",
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    pub(crate) fn new(devices: &Devices, account: Arc<Account>) -> Self {
        let count = u32::try_from(devices.len()).unwrap_or(0);
        let each = devices.iter().map(|device| DeviceMemory {
            product: device.profile.product,
            node_device: device.node_device,
            total: device.profile.memory_bytes(),
            usable: device.usable_bytes(),
            arena: OnceLock::new(),
            state: Mutex::new(DeviceState {
                allocator: Allocator::new(device.usable_bytes()),
                retained: Ranges::default(),
            }),
        });
        Self {
            devices: each.collect(),
            blocks: RwLock::new(BTreeMap::new()),
            pools: Pools::new(count),
            host: HostMemory::new(),
            foreign: Mutex::default(),
            peers: Mutex::default(),
            last_id: AtomicU64::new(0),
            account,
        }
    }

    fn blocks(&self) -> RwLockReadGuard<'_, BTreeMap<usize, Block>> {
        self.blocks.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn blocks_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<usize, Block>> {
        self.blocks.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn device(&self, device: Ordinal) -> Result<&DeviceMemory> {
        self.devices.get(device.index()).ok_or_else(|| {
            Error::new(ErrorKind::InvalidDevice, format!("there is no device {device} in this process"))
        })
    }

    /// Memory of a device; address 0 for no bytes, as CUDA gives.
    pub(crate) fn allocate(
        &self,
        device: Ordinal,
        bytes: usize,
        kind: Kind,
        pool: Option<PoolHandle>,
    ) -> Result<usize> {
        if bytes == 0 {
            return Ok(0);
        }
        let (base, piece) = self.take(self.device(device)?, device, bytes)?;
        let address = base + usize::try_from(piece.offset).unwrap_or(0);
        self.account.note_allocated(device, piece.bytes);
        self.insert(address, bytes, device, Owner::Device { piece, kind, pool });
        Ok(address)
    }

    fn take(&self, memory: &DeviceMemory, device: Ordinal, bytes: usize) -> Result<(usize, Extent)> {
        // Most of a large allocation may never be touched; whether the machine has room is asked again when it is.
        let first = (bytes as u64).min(allocator::BLOCK_BYTES);
        if let Err(refused) = self.host.admit(first, "an allocation on a device") {
            self.relieve();
            self.host.admit(first, "an allocation on a device").map_err(|_| refused)?;
        }
        let base = memory.base()?;
        let piece = memory.take(bytes as u64).or_else(|| {
            let any = self.shed_pools(device);
            any.then(|| memory.take(bytes as u64)).flatten()
        });
        piece.map(|piece| (base, piece)).ok_or_else(|| memory.refusal(device, bytes))
    }

    fn insert(&self, address: usize, bytes: usize, device: Ordinal, owner: Owner) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.blocks_mut().insert(address, Block { bytes, device, id, is_leaving: false, owner });
    }

    /// A pool's kept piece is an allocation again.
    fn revive(&self, device: Ordinal, address: usize, size: (usize, u64), pool: PoolHandle) {
        let (bytes, rounded) = size;
        let Some(offset) = self.file_offset(device, address) else { return };
        let piece = Extent { offset, bytes: rounded };
        self.account.note_allocated(device, rounded);
        self.insert(address, bytes, device, Owner::Device { piece, kind: Kind::Device, pool: Some(pool) });
    }

    fn file_offset(&self, device: Ordinal, address: usize) -> Option<u64> {
        let arena = self.devices.get(device.index())?.arena.get()?;
        address.checked_sub(arena.base()).map(|offset| offset as u64)
    }

    /// Gives kept memory of all devices back to the machine.
    fn relieve(&self) {
        for (device, memory) in (0..).map(Ordinal).zip(&self.devices) {
            self.shed_pools(device);
            memory.punch_retained();
        }
    }

    /// Frees device or managed memory. The caller made sure that no work of it is pending.
    pub(crate) fn free(&self, address: usize) -> Result<()> {
        let block = self.remove(address, |owner| matches!(owner, Owner::Device { .. }), "cudaFree")?;
        if let Owner::Device { piece, pool, .. } = block.owner {
            self.account.note_freed(block.device, piece.bytes);
            match pool {
                Some(pool) => self.give_back_pooled(pool, block.device, address, piece.bytes),
                None => self.give_back_at(block.device, address, piece.bytes),
            }
        }
        Ok(())
    }

    fn give_back_at(&self, device: Ordinal, address: usize, bytes: u64) {
        if let (Some(offset), Ok(memory)) = (self.file_offset(device, address), self.device(device)) {
            memory.give_back(Extent { offset, bytes });
        }
    }

    /// Marks memory that a stream will free, so that a second attempt is an answer.
    pub(crate) fn begin_free(&self, address: usize) -> Result<()> {
        let mut blocks = self.blocks_mut();
        match blocks.get_mut(&address) {
            Some(block) if block.is_leaving => {
                invalid(format!("the memory at {address:#x} is being freed by an earlier cudaFreeAsync"))
            }
            Some(Block { owner: Owner::Device { .. }, is_leaving, .. }) => {
                *is_leaving = true;
                Ok(())
            }
            found => {
                let refusal = refusal_to_free(address, found.map(|block| &*block), "cudaFreeAsync");
                drop(blocks);
                Err(self.explain(address, refusal))
            }
        }
    }

    pub(crate) fn cancel_free(&self, address: usize) {
        if let Some(block) = self.blocks_mut().get_mut(&address) {
            block.is_leaving = false;
        }
    }

    /// Takes a block out of the table if `call` is how such memory is freed.
    fn remove(&self, address: usize, fits: impl Fn(&Owner) -> bool, call: &str) -> Result<Block> {
        let mut blocks = self.blocks_mut();
        if blocks.get(&address).is_some_and(|block| fits(&block.owner))
            && let Some(block) = blocks.remove(&address)
        {
            return Ok(block);
        }
        let refusal = refusal_to_free(address, blocks.get(&address), call);
        drop(blocks);
        Err(self.explain(address, refusal))
    }

    /// The refusal, with what is known of an address that begins nothing.
    fn explain(&self, address: usize, refusal: Error) -> Error {
        let Some(known) = self.locate(address).filter(|known| known.offset > 0) else { return refusal };
        Error::new(
            refusal.kind(),
            format!(
                "{address:#x} lies {} bytes inside the allocation at {:#x}; only its first address can be freed",
                known.offset, known.base
            ),
        )
    }

    /// What is known of an address; `None` where it lies in no allocation.
    pub(crate) fn locate(&self, address: usize) -> Option<Attributes> {
        let blocks = self.blocks();
        let (&base, block) = blocks.range(..=address).next_back()?;
        let offset = address - base;
        if offset >= block.bytes.max(1) {
            return None;
        }
        let (pool, file) = match &block.owner {
            Owner::Device { piece, pool, .. } => (*pool, Some(piece.offset)),
            Owner::Foreign { file_offset, .. } => (None, Some(*file_offset)),
            Owner::Pinned { .. } | Owner::Registered { .. } => (None, None),
        };
        Some(Attributes {
            kind: block.owner.kind(),
            device: block.device,
            base,
            bytes: block.bytes,
            offset,
            id: block.id,
            file_offset: file.map(|file| file + offset as u64),
            is_foreign: matches!(block.owner, Owner::Foreign { .. }),
            pool,
        })
    }

    /// The allocation that an address lies in, and where none does, those before and behind it.
    pub(crate) fn around(&self, address: usize) -> Around {
        let blocks = self.blocks();
        let shown = |(base, block): (&usize, &Block)| Piece {
            base: *base,
            bytes: block.bytes,
            kind: block.owner.kind(),
            device: block.device,
            is_foreign: matches!(block.owner, Owner::Foreign { .. }),
        };
        let before = blocks.range(..=address).next_back().map(shown);
        let behind = blocks.range(address..).next().map(shown);
        match before {
            Some(piece) if address - piece.base < piece.bytes => Around { at: Some(piece), before, behind },
            _ => Around { at: None, before, behind },
        }
    }

    /// Whether kernels of `from` may touch memory of `to`.
    pub(crate) fn has_peer(&self, from: Ordinal, to: Ordinal) -> bool {
        from == to || locked(&self.peers).contains(&(from, to))
    }

    /// What `bytes` from `address` on lie in, which `what` is about to touch: all in one allocation, or ordinary host
    /// memory.
    pub(crate) fn span(&self, address: usize, bytes: usize, what: &str) -> Result<Attributes> {
        let Some(known) = self.locate(address) else { return self.outside(address, what) };
        let left = known.bytes - known.offset;
        // What was registered is a part of the program's own memory, which may well go on behind it.
        let is_bounded = known.file_offset.is_some() || self.is_pinned(known.base);
        if bytes > left && is_bounded {
            return invalid(format!(
                "{what} of {bytes} bytes at {address:#x} runs over the end of its allocation: {} bytes at {:#x}, of \
                 which {left} lie behind the address",
                known.bytes, known.base
            ));
        }
        Ok(known)
    }

    fn is_pinned(&self, base: usize) -> bool {
        matches!(self.blocks().get(&base), Some(Block { owner: Owner::Pinned { .. }, .. }))
    }

    fn outside(&self, address: usize, what: &str) -> Result<Attributes> {
        let holds = |memory: &DeviceMemory| memory.arena.get().is_some_and(|arena| arena.contains(address));
        if let Some(device) = self.devices.iter().position(holds) {
            return invalid(format!(
                "{what} at {address:#x}: that is memory of device {device}, but of no allocation; was it freed?"
            ));
        }
        Ok(unregistered(address))
    }

    /// Makes sure that the machine has room before `bytes` of a device are written.
    pub(crate) fn admit(&self, known: &Attributes, bytes: usize, what: &str) -> Result<()> {
        if bytes < ADMITTED_BYTES || known.kind == MemoryKind::Unregistered {
            return Ok(());
        }
        let Err(refused) = self.host.admit(bytes as u64, what) else { return Ok(()) };
        self.relieve();
        // Much of it may have its memory already.
        let arena = self.devices.get(known.device.index()).and_then(|memory| memory.arena.get());
        let missing = match (arena, known.file_offset) {
            (Some(arena), Some(start)) if !known.is_foreign => {
                arena.missing_bytes(start, start + bytes as u64)
            }
            _ => bytes as u64,
        };
        if missing == 0 {
            return Ok(());
        }
        self.host.admit(missing, what).map_err(|_| refused)
    }

    fn pin(&self, device: Ordinal, bytes: usize, flags: u32) -> Result<usize> {
        if bytes == 0 {
            return Ok(0);
        }
        self.host.admit((bytes as u64).min(allocator::BLOCK_BYTES), "page-locked memory")?;
        let memory = Pinned::allocate(bytes)?;
        let address = memory.base();
        self.insert(address, bytes, device, Owner::Pinned { _memory: memory, flags });
        Ok(address)
    }

    fn register(&self, device: Ordinal, address: usize, bytes: usize, flags: u32) -> Result<()> {
        let Some(end) = address.checked_add(bytes).filter(|_| address != 0 && bytes != 0) else {
            return invalid(format!("{bytes} bytes at {address:#x} cannot be registered: that is no memory"));
        };
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut blocks = self.blocks_mut();
        let last = blocks.range(..end).next_back().map(|(&base, block)| (base, block.bytes));
        if let Some((base, known)) = last.filter(|&(base, known)| base + known > address) {
            return Err(Error::new(
                ErrorKind::HostMemoryAlreadyRegistered,
                format!(
                    "{bytes} bytes at {address:#x} overlap {known} bytes at {base:#x}, which are known already"
                ),
            ));
        }
        let owner = Owner::Registered { flags };
        blocks.insert(address, Block { bytes, device, id, is_leaving: false, owner });
        Ok(())
    }

    fn unregister(&self, address: usize) -> Result<()> {
        let removed =
            self.remove(address, |owner| matches!(owner, Owner::Registered { .. }), "cudaHostUnregister");
        removed
            .map(drop)
            .map_err(|error| Error::new(ErrorKind::HostMemoryNotRegistered, error.text().to_owned()))
    }

    fn host_flags(&self, address: usize) -> Result<u32> {
        let known = self.locate(address);
        match known.and_then(|known| self.blocks().get(&known.base).map(|block| block.owner.flags())) {
            Some(Some(flags)) => Ok(flags),
            _ => invalid(format!("{address:#x} is no page-locked host memory")),
        }
    }
}

impl Owner {
    const fn flags(&self) -> Option<u32> {
        match self {
            Self::Pinned { flags, .. } | Self::Registered { flags } => Some(*flags),
            Self::Device { .. } | Self::Foreign { .. } => None,
        }
    }
}

fn refusal_to_free(address: usize, found: Option<&Block>, call: &str) -> Error {
    let text = match found {
        Some(block) => {
            let right = block.owner.freed_by();
            format!("{call} cannot free the memory at {address:#x}, which belongs to {right}")
        }
        None => format!("{call}: nothing is allocated at {address:#x}; was it freed already?"),
    };
    Error::new(ErrorKind::InvalidValue, text)
}

fn unregistered(address: usize) -> Attributes {
    Attributes {
        kind: MemoryKind::Unregistered,
        device: Ordinal(0),
        base: address,
        bytes: 0,
        offset: 0,
        id: 0,
        file_offset: None,
        is_foreign: false,
        pool: None,
    }
}

impl DeviceMemory {
    /// The first address, mapped at the first call.
    fn base(&self) -> Result<usize> {
        if let Some(arena) = self.arena.get() {
            return Ok(arena.base());
        }
        let _one_maps = locked(&self.state);
        match self.arena.get() {
            Some(arena) => Ok(arena.base()),
            None => {
                let arena = Arena::create(self.node_device, self.usable)?;
                Ok(self.arena.get_or_init(|| arena).base())
            }
        }
    }

    fn take(&self, bytes: u64) -> Option<Extent> {
        let mut state = locked(&self.state);
        let piece = state.allocator.take(bytes)?;
        let (start, end) =
            (piece.offset - piece.offset % PAGE_BYTES, piece.end().next_multiple_of(PAGE_BYTES));
        state.retained.remove(start, end);
        Some(piece)
    }

    fn give_back(&self, piece: Extent) {
        let mut state = locked(&self.state);
        let whole = state.allocator.give_back(piece);
        // The pages that are free only now: those at the edges may hold a neighbour's bytes, or a free one's.
        let start = (piece.offset - piece.offset % PAGE_BYTES).max(whole.offset.next_multiple_of(PAGE_BYTES));
        let end = piece.end().next_multiple_of(PAGE_BYTES).min(whole.end() - whole.end() % PAGE_BYTES);
        if start >= end {
            return;
        }
        if state.retained.total() + (end - start) <= RETAINED_BYTES {
            state.retained.insert(start, end);
        } else if let Some(arena) = self.arena.get() {
            // Under the lock: whoever is given these bytes next must not lose what it writes.
            arena.punch(start, end);
        }
    }

    fn punch_retained(&self) {
        let mut state = locked(&self.state);
        let ranges = state.retained.take();
        if let Some(arena) = self.arena.get() {
            ranges.into_iter().for_each(|(start, end)| arena.punch(start, end));
        }
    }

    fn refusal(&self, device: Ordinal, bytes: usize) -> Error {
        let state = locked(&self.state);
        let (free, longest) = (state.allocator.free_bytes(), state.allocator.largest_bytes());
        let mib = |bytes: u64| bytes >> 20;
        Error::new(
            ErrorKind::MemoryAllocation,
            format!(
                "device {device} ({}) is out of memory: {bytes} bytes were asked for, {} MiB of {} MiB are free, the \
                 longest piece has {} MiB",
                self.product,
                mib(free),
                mib(self.usable),
                mib(longest)
            ),
        )
    }
}

impl World {
    /// Memory on a device, at a multiple of 256 bytes; 0 for no bytes. Two MiB and more begin at a multiple of 2 MiB.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryAllocation`] where the device has no room, or the machine behind it; not during capture.
    pub fn malloc(&self, device: Ordinal, bytes: usize) -> Result<usize> {
        self.malloc_kind(device, bytes, Kind::Device, "cudaMalloc")
    }

    /// Memory on a device that the host may use too.
    ///
    /// # Errors
    /// As [`World::malloc`]; [`ErrorKind::InvalidValue`] for no bytes.
    pub fn malloc_managed(&self, device: Ordinal, bytes: usize) -> Result<usize> {
        if bytes == 0 {
            return invalid("managed memory of 0 bytes cannot be had");
        }
        self.malloc_kind(device, bytes, Kind::Managed, "cudaMallocManaged")
    }

    /// Rows of `width` bytes, `height` a slice, `depth` slices, each row at a multiple of 512 bytes: the address and
    /// the bytes from one row to the next.
    ///
    /// # Errors
    /// As [`World::malloc`].
    pub fn malloc_pitch(
        &self,
        device: Ordinal,
        width: usize,
        height: usize,
        depth: usize,
    ) -> Result<(usize, usize)> {
        const PITCH_BYTES: usize = 512;
        let bytes = width
            .checked_next_multiple_of(PITCH_BYTES)
            .and_then(|pitch| Some((pitch, pitch.checked_mul(height)?.checked_mul(depth)?)));
        let Some((pitch, bytes)) = bytes else {
            return invalid(format!("{width} x {height} x {depth} bytes exceed the address space"));
        };
        Ok((self.malloc(device, bytes)?, pitch))
    }

    fn malloc_kind(&self, device: Ordinal, bytes: usize, kind: Kind, call: &'static str) -> Result<usize> {
        self.device(device)?;
        self.engine.state().refuse_faulted(device)?;
        self.refuse_in_capture(call)?;
        let answer = self.memory.allocate(device, bytes, kind, None);
        self.note_oom(device, &answer);
        answer
    }

    fn note_oom(&self, device: Ordinal, answer: &Result<usize>) {
        if answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::MemoryAllocation) {
            self.account.note_oom(device);
        }
    }

    /// Frees what [`World::malloc`] and its kin gave, after all work of its device is done; 0 is fine.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for an address that is none of theirs, with the call that it belongs to.
    pub fn free(&self, address: usize) -> Result<()> {
        self.check()?;
        if address == 0 {
            return Ok(());
        }
        self.refuse_in_capture("cudaFree")?;
        // What other devices still do with it finds the addresses mapped, whatever they hold.
        let known = self.memory.locate(address);
        self.engine.drain(known.map(|known| known.device))?;
        self.memory.free(address)
    }

    /// Page-locked host memory; `flags` are kept as they are.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryAllocation`] where the machine has none.
    pub fn host_alloc(&self, device: Ordinal, bytes: usize, flags: u32) -> Result<usize> {
        self.check()?;
        self.refuse_in_capture("cudaHostAlloc")?;
        self.memory.pin(device, bytes, flags)
    }

    /// Frees what [`World::host_alloc`] gave, after all work of the process is done; 0 is fine.
    ///
    /// # Errors
    /// As [`World::free`].
    pub fn host_free(&self, address: usize) -> Result<()> {
        self.check()?;
        if address == 0 {
            return Ok(());
        }
        self.refuse_in_capture("cudaFreeHost")?;
        self.engine.drain(None)?;
        let removed =
            self.memory.remove(address, |owner| matches!(owner, Owner::Pinned { .. }), "cudaFreeHost");
        removed.map(drop)
    }

    /// Registers host memory of the program's own as page-locked.
    ///
    /// # Errors
    /// [`ErrorKind::HostMemoryAlreadyRegistered`] where a part of it is known already.
    pub fn host_register(&self, device: Ordinal, memory: Vouched, bytes: usize, flags: u32) -> Result<()> {
        self.check()?;
        self.memory.register(device, memory.address(), bytes, flags)
    }

    /// Takes the mark of [`World::host_register`] away, after all work of the process is done.
    ///
    /// # Errors
    /// [`ErrorKind::HostMemoryNotRegistered`] for another address.
    pub fn host_unregister(&self, address: usize) -> Result<()> {
        self.check()?;
        self.engine.drain(None)?;
        self.memory.unregister(address)
    }

    /// The flags that page-locked memory was allocated or registered with.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for other memory.
    pub fn host_flags(&self, address: usize) -> Result<u32> {
        self.check()?;
        self.memory.host_flags(address)
    }

    /// What the world knows of an address; memory that it does not know is [`MemoryKind::Unregistered`] and no error.
    ///
    /// # Errors
    /// After `fork` only.
    pub fn attributes(&self, address: usize) -> Result<Attributes> {
        self.check()?;
        Ok(self.memory.locate(address).unwrap_or_else(|| unregistered(address)))
    }

    /// What a device has left for this process.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`].
    pub fn memory_info(&self, device: Ordinal) -> Result<MemoryInfo> {
        self.check()?;
        let memory = self.memory.device(device)?;
        let free = locked(&memory.state).allocator.free_bytes();
        Ok(MemoryInfo { free, total: memory.total })
    }

    /// The file behind a device's addresses, made now if nothing was allocated yet.
    ///
    /// # Errors
    /// Where the file cannot be made or its descriptor not be copied.
    pub fn device_file(&self, device: Ordinal) -> Result<DeviceFile> {
        self.check()?;
        let memory = self.memory.device(device)?;
        memory.base()?;
        let arena = memory.arena.get();
        let copied = arena.map(|arena| (arena, arena.fd().try_clone_to_owned()));
        match copied {
            Some((arena, Ok(fd))) => Ok(DeviceFile { fd, bytes: arena.len() as u64, base: arena.base() }),
            _ => Err(Error::new(ErrorKind::OperatingSystem, "no descriptor is left; look at `ulimit -n`")),
        }
    }

    /// Memory in a stream's order, from its device's current pool.
    ///
    /// # Errors
    /// As [`World::malloc`]; [`ErrorKind::StreamCaptureUnsupported`] on a stream that captures.
    pub fn malloc_async(&self, device: Ordinal, stream: StreamRef, bytes: usize) -> Result<usize> {
        let home = self.stream_device(device, stream)?;
        self.malloc_from_pool(self.memory.pools.current(home)?, device, stream, bytes)
    }

    /// Memory in a stream's order, from a pool.
    ///
    /// # Errors
    /// As [`World::malloc_async`], and where the pool was destroyed or is at its bound.
    pub fn malloc_from_pool(
        &self,
        pool: PoolHandle,
        device: Ordinal,
        stream: StreamRef,
        bytes: usize,
    ) -> Result<usize> {
        self.stream_device(device, stream)?;
        self.engine.refuse_captured(device, stream, "cudaMallocAsync")?;
        if bytes == 0 {
            return Ok(0);
        }
        // What streams are about to free may be what is lacking, so the second attempt comes after them.
        let was_idle = self.engine.is_idle();
        let mut answer = self.memory.allocate_pooled(pool, bytes);
        let is_lacking = answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::MemoryAllocation);
        if is_lacking && !was_idle {
            self.engine.drain(None)?;
            answer = self.memory.allocate_pooled(pool, bytes);
        }
        self.note_oom(self.memory.pools.device(pool)?, &answer);
        answer
    }

    /// Frees memory once the stream's work up to here is done; 0 is fine.
    ///
    /// # Errors
    /// As [`World::free`]; also for memory that is being freed already.
    pub fn free_async(&self, device: Ordinal, stream: StreamRef, address: usize) -> Result<()> {
        self.stream_device(device, stream)?;
        self.engine.refuse_captured(device, stream, "cudaFreeAsync")?;
        if address == 0 {
            return Ok(());
        }
        self.memory.begin_free(address)?;
        let memory = Arc::clone(&self.memory);
        let freed = self.engine.enqueue_quick(device, stream, Box::new(move || memory.free(address)));
        if freed.is_err() {
            self.memory.cancel_free(address);
        }
        freed
    }

    /// The pool that a device was born with.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`].
    pub fn default_pool(&self, device: Ordinal) -> Result<PoolHandle> {
        self.device(device)?;
        self.memory.pools.born(device)
    }

    /// The pool that [`World::malloc_async`] takes from.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`].
    pub fn current_pool(&self, device: Ordinal) -> Result<PoolHandle> {
        self.device(device)?;
        self.memory.pools.current(device)
    }

    /// Sets it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for a pool of another device, or none.
    pub fn set_current_pool(&self, device: Ordinal, pool: PoolHandle) -> Result<()> {
        self.device(device)?;
        self.memory.pools.set_current(device, pool)
    }

    /// A new pool of at most `max_bytes`; 0 for no bound.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`].
    pub fn create_pool(&self, device: Ordinal, max_bytes: u64) -> Result<PoolHandle> {
        self.device(device)?;
        self.memory.pools.create(device, max_bytes)
    }

    /// Destroys a pool; memory taken from it stays until it is freed.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for a device's default pool, or none.
    pub fn destroy_pool(&self, pool: PoolHandle) -> Result<()> {
        self.check()?;
        self.memory.destroy_pool(pool)
    }

    /// Gives back what a pool keeps, down to `keep` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for no pool.
    pub fn trim_pool(&self, pool: PoolHandle, keep: u64) -> Result<()> {
        self.check()?;
        self.memory.trim_pool(pool, keep)
    }

    /// The device of a pool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for no pool.
    pub fn pool_device(&self, pool: PoolHandle) -> Result<Ordinal> {
        self.check()?;
        self.memory.pools.device(pool)
    }

    /// An attribute of a pool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for no pool.
    pub fn pool_attribute(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64> {
        self.check()?;
        self.memory.pools.attribute(pool, attribute)
    }

    /// Sets an attribute of a pool.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for no pool, or a value that the attribute cannot have.
    pub fn set_pool_attribute(&self, pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()> {
        self.check()?;
        self.memory.set_pool_attribute(pool, attribute, value)
    }

    /// Whether `from` could reach memory of `to`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidDevice`].
    pub fn can_access_peer(&self, from: Ordinal, to: Ordinal) -> Result<bool> {
        let (from, to) = (self.device(from)?, self.device(to)?);
        let both = from.profile.has_peer_access() && to.profile.has_peer_access();
        Ok(from.ordinal != to.ordinal && both)
    }

    /// Lets `from` reach memory of `to`.
    ///
    /// # Errors
    /// [`ErrorKind::PeerAccessAlreadyEnabled`], or [`ErrorKind::PeerAccessUnsupported`].
    pub fn enable_peer(&self, from: Ordinal, to: Ordinal) -> Result<()> {
        if from == to {
            return Err(Error::new(ErrorKind::InvalidDevice, "a device is no peer of itself"));
        }
        if !self.can_access_peer(from, to)? {
            let text = format!("devices {from} and {to} cannot reach each other's memory");
            return Err(Error::new(ErrorKind::PeerAccessUnsupported, text));
        }
        if !locked(&self.memory.peers).insert((from, to)) {
            let text = format!("device {from} can reach memory of device {to} already");
            return Err(Error::new(ErrorKind::PeerAccessAlreadyEnabled, text));
        }
        Ok(())
    }

    /// Takes it back.
    ///
    /// # Errors
    /// [`ErrorKind::PeerAccessNotEnabled`].
    pub fn disable_peer(&self, from: Ordinal, to: Ordinal) -> Result<()> {
        self.device(from)?;
        self.device(to)?;
        if !locked(&self.memory.peers).remove(&(from, to)) {
            let text = format!("device {from} was never let reach memory of device {to}");
            return Err(Error::new(ErrorKind::PeerAccessNotEnabled, text));
        }
        Ok(())
    }
}
