//! Handles by which another process of the same user reaches memory and events: 64 bytes that name a descriptor of the
//! exporting process.
//!
//! The opener takes the descriptor from `/proc/PID/fd`, so nothing has to be sent and nothing is left behind. Process
//! numbers come again; a token in the file's name tells whether what was opened is what was exported.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::arena::{Arena, PAGE_BYTES, sealable_memfd, token};
use super::{Memory, Owner, locked};
use crate::devices::Ordinal;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::world::World;

/// A handle as programs send it to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcHandle([u8; 64]);

impl IpcHandle {
    /// The bytes as a program received them; they are checked when the handle is opened.
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        Self(bytes)
    }

    /// The bytes to send.
    pub const fn into_bytes(self) -> [u8; 64] {
        self.0
    }
}

/// What a handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) what: What,
    pub(crate) process: u32,
    pub(crate) descriptor: u32,
    /// The device's number on the node.
    pub(crate) device: u32,
    pub(crate) token: u64,
    /// Where the allocation begins in the file.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Memory = 1,
    Event = 2,
}

const MARK: [u8; 8] = *b"fgpuipc1";

impl Ticket {
    pub(crate) fn into_handle(self) -> IpcHandle {
        let mut bytes = [0; 64];
        let words = [self.what as u32, self.process, self.descriptor, self.device];
        let longs = [self.token, self.offset, self.bytes];
        let fields = MARK.into_iter().chain(words.into_iter().flat_map(u32::to_le_bytes));
        let fields = fields.chain(longs.into_iter().flat_map(u64::to_le_bytes));
        bytes.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
        IpcHandle(bytes)
    }

    pub(crate) fn read(handle: IpcHandle, what: What) -> Result<Self> {
        let bytes = &handle.0;
        let word = |at: usize| {
            let part = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
            part.map_or(0, u32::from_le_bytes)
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        if !bytes.starts_with(&MARK) || word(8) != what as u32 {
            let text = "these 64 bytes are no handle of this kind; were they cut or changed on their way?";
            return Err(Error::new(ErrorKind::InvalidResourceHandle, text));
        }
        let (process, descriptor, device) = (word(12), word(16), word(20));
        Ok(Self { what, process, descriptor, device, token: long(24), offset: long(32), bytes: long(40) })
    }

    /// Not in the process that exported it.
    pub(crate) fn refuse_own(&self) -> Result<()> {
        if self.process == std::process::id() {
            let text =
                "this process exported the handle itself, and CUDA opens handles in other processes only";
            return Err(Error::new(ErrorKind::DeviceUninitialized, text));
        }
        Ok(())
    }

    pub(crate) fn open(&self) -> Result<OwnedFd> {
        let path = format!("/proc/{}/fd/{}", self.process, self.descriptor);
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::open(path.as_str(), flags, Mode::empty()).map_err(|errno| {
            let why = match errno {
                Errno::NOENT | Errno::SRCH => "the process that exported the handle has ended".to_owned(),
                Errno::ACCESS | Errno::PERM => {
                    "the process that exported the handle is not this user's, or may not be looked into"
                        .to_owned()
                }
                _ => std::io::Error::from(errno).to_string(),
            };
            Error::new(ErrorKind::MapBufferObjectFailed, format!("{path} cannot be opened: {why}"))
        })
    }
}

/// Files of other processes that are mapped here, by token; each once.
#[derive(Debug, Default)]
pub(super) struct Foreign(BTreeMap<u64, (Arena, u64)>);

impl Memory {
    fn export(&self, address: usize) -> Result<IpcHandle> {
        let Some(known) = self.locate(address) else {
            return invalid(format!("nothing is allocated at {address:#x}"));
        };
        let (Some(file), false) = (known.file_offset, known.is_foreign) else {
            return invalid(format!("{address:#x} is no memory of a device that this process allocated"));
        };
        let memory = self.device(known.device)?;
        let Some(arena) = memory.arena.get() else { return invalid("the device has no memory yet") };
        let descriptor = u32::try_from(arena.fd().as_raw_fd()).unwrap_or(u32::MAX);
        let ticket = Ticket {
            what: What::Memory,
            process: std::process::id(),
            descriptor,
            device: memory.node_device,
            token: arena.token(),
            offset: file - known.offset as u64,
            bytes: known.bytes as u64,
        };
        Ok(ticket.into_handle())
    }

    fn import(&self, device: Ordinal, handle: IpcHandle) -> Result<usize> {
        let ticket = Ticket::read(handle, What::Memory)?;
        ticket.refuse_own()?;
        let mut foreign = locked(&self.foreign);
        let (arena, opens) = match foreign.0.entry(ticket.token) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert((Arena::open(ticket.open()?, ticket.device, ticket.token)?, 0))
            }
        };
        let end = ticket.offset.checked_add(ticket.bytes);
        if end.is_none_or(|end| end > arena.len() as u64) || ticket.bytes == 0 {
            let text = "the handle names memory beyond the end of its device";
            return Err(Error::new(ErrorKind::InvalidResourceHandle, text));
        }
        *opens += 1;
        let address = arena.base() + usize::try_from(ticket.offset).unwrap_or(0);
        let bytes = usize::try_from(ticket.bytes).unwrap_or(usize::MAX);
        if let Some(block) = self.blocks_mut().get_mut(&address)
            && let Owner::Foreign { opens, .. } = &mut block.owner
        {
            *opens += 1;
            // The exporter may have freed it and allocated more at the same place.
            block.bytes = block.bytes.max(bytes);
            return Ok(address);
        }
        let owner = Owner::Foreign { token: ticket.token, file_offset: ticket.offset, opens: 1 };
        self.insert(address, bytes, device, owner);
        Ok(address)
    }

    fn close(&self, address: usize) -> Result<()> {
        let mut foreign = locked(&self.foreign);
        let mut blocks = self.blocks_mut();
        let token = match blocks.get_mut(&address).map(|block| &mut block.owner) {
            Some(Owner::Foreign { token, opens, .. }) => {
                *opens -= 1;
                let (token, is_last) = (*token, *opens == 0);
                if is_last {
                    blocks.remove(&address);
                }
                token
            }
            _ => return invalid(format!("no memory of another process was opened at {address:#x}")),
        };
        drop(blocks);
        if let Some((_, opens)) = foreign.0.get_mut(&token) {
            *opens -= 1;
            if *opens == 0 {
                foreign.0.remove(&token);
            }
        }
        Ok(())
    }
}

impl World {
    /// A handle for the whole allocation that an address lies in.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for memory that is not a device's, or not this process's.
    pub fn ipc_memory_handle(&self, address: usize) -> Result<IpcHandle> {
        self.check()?;
        self.memory.export(address)
    }

    /// Maps another process's allocation, and gives its first address here; the same one as long as it is open.
    ///
    /// # Errors
    /// [`ErrorKind::DeviceUninitialized`] in the process that exported it; [`ErrorKind::MapBufferObjectFailed`] where
    /// that process is gone or not this user's; [`ErrorKind::InvalidResourceHandle`] for bytes that are no handle.
    pub fn ipc_open_memory(&self, device: Ordinal, handle: IpcHandle) -> Result<usize> {
        self.device(device)?;
        self.memory.import(device, handle)
    }

    /// Closes what was opened once, after all work of the process is done.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] for an address that was not given by [`World::ipc_open_memory`].
    pub fn ipc_close_memory(&self, address: usize) -> Result<()> {
        self.check()?;
        self.engine.drain(None)?;
        self.memory.close(address)
    }
}

/// The page behind an event that processes share: how often it was recorded, and which record is done.
#[derive(Debug)]
pub(crate) struct SharedEvent {
    page: NonNull<u8>,
    fd: OwnedFd,
    token: u64,
}

// SAFETY: the page is accessed through atomics only.
unsafe impl Send for SharedEvent {}
// SAFETY: as above.
unsafe impl Sync for SharedEvent {}

impl SharedEvent {
    pub(crate) fn create() -> Result<Self> {
        let failed = |errno: Errno| {
            let text =
                format!("an event for several processes cannot be made: {}", std::io::Error::from(errno));
            Error::new(ErrorKind::OperatingSystem, text)
        };
        let token = token().map_err(failed)?;
        let fd = sealable_memfd(&event_name(token)).map_err(failed)?;
        rustix::fs::ftruncate(&fd, PAGE_BYTES).map_err(failed)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(failed)?;
        Self::map(fd, token)
    }

    pub(crate) fn open(ticket: &Ticket) -> Result<Self> {
        let fd = ticket.open()?;
        let name = format!("/memfd:{} (deleted)", event_name(ticket.token));
        let seen = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap_or_default();
        let is_sealed = rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SealFlags::SHRINK));
        let size = rustix::fs::fstat(&fd).map_or(0, |status| status.st_size);
        if seen.as_os_str() != name.as_str() || !is_sealed || u64::try_from(size) != Ok(PAGE_BYTES) {
            let text = "the process that exported this event is gone";
            return Err(Error::new(ErrorKind::MapBufferObjectFailed, text));
        }
        Self::map(fd, ticket.token)
    }

    fn map(fd: OwnedFd, token: u64) -> Result<Self> {
        let failed = |errno: Errno| {
            let text = format!("an event's page cannot be mapped: {}", std::io::Error::from(errno));
            Error::new(ErrorKind::OperatingSystem, text)
        };
        let bytes = usize::try_from(PAGE_BYTES).unwrap_or(1);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that exists.
        let page =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd.as_fd(), 0) }
                .map_err(failed)?;
        let page = NonNull::new(page.cast::<u8>()).ok_or_else(|| failed(Errno::FAULT))?;
        Ok(Self { page, fd, token })
    }

    /// How often it was recorded.
    fn recorded(&self) -> &AtomicU64 {
        // SAFETY: mapped as long as `self` lives, at the start of a page, and accessed as an atomic by everyone.
        unsafe { AtomicU64::from_ptr(self.page.as_ptr().cast()) }
    }

    /// Which record is done: the number that `recorded` had when it was made.
    pub(crate) fn completed(&self) -> &AtomicU64 {
        // SAFETY: the second word of the page.
        let word = unsafe { self.page.as_ptr().add(64) };
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// The process that recorded it last; 0 for none.
    fn recorder(&self) -> &AtomicU64 {
        // SAFETY: a word of the page, on a line of its own.
        let word = unsafe { self.page.as_ptr().add(128) };
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// Says that a record is on its way, and gives it its number.
    pub(crate) fn announce(&self) -> u64 {
        self.recorder().store(u64::from(std::process::id()), Ordering::Relaxed);
        self.recorded().fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last record; 0 for none.
    pub(crate) fn target(&self) -> u64 {
        self.recorded().load(Ordering::Acquire)
    }

    pub(crate) fn is_done(&self, target: u64) -> bool {
        self.completed().load(Ordering::Acquire) >= target
    }

    /// The process that recorded it last, if it has ended.
    pub(crate) fn dead_recorder(&self) -> Option<u64> {
        let process = self.recorder().load(Ordering::Relaxed);
        let is_dead = process != 0 && !std::path::Path::new(&format!("/proc/{process}")).exists();
        is_dead.then_some(process)
    }

    pub(crate) fn ticket(&self, device: u32) -> Ticket {
        Ticket {
            what: What::Event,
            process: std::process::id(),
            descriptor: u32::try_from(self.fd.as_raw_fd()).unwrap_or(u32::MAX),
            device,
            token: self.token,
            offset: 0,
            bytes: PAGE_BYTES,
        }
    }
}

impl Drop for SharedEvent {
    fn drop(&mut self) {
        let bytes = usize::try_from(PAGE_BYTES).unwrap_or(1);
        // SAFETY: mapped by `map`, unmapped once, here, with nothing borrowed from it.
        unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), bytes) }.unwrap_or_default();
    }
}

fn event_name(token: u64) -> String {
    format!("fakegpu-event-{token:016x}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_handle_says_what_was_put_into_it(words: [u32; 3], longs: [u64; 3]) {
            let [process, descriptor, device] = words;
            let [token, offset, bytes] = longs;
            let ticket = Ticket { what: What::Memory, process, descriptor, device, token, offset, bytes };
            let handle = IpcHandle::from_bytes(ticket.into_handle().into_bytes());
            prop_assert_eq!(Ticket::read(handle, What::Memory).unwrap(), ticket);
            prop_assert!(Ticket::read(handle, What::Event).is_err());
        }
    }
}
