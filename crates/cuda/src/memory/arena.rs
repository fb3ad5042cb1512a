//! A device's memory: a sparse sealed file without a name, mapped at one reserved range of addresses.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, SeekFrom};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use super::allocator::BLOCK_BYTES;
use crate::error::{Error, ErrorKind, Result};

/// A mapped file. It is unmapped when dropped; a device's is never dropped before its world is.
#[derive(Debug)]
pub(crate) struct Arena {
    start: NonNull<u8>,
    bytes: usize,
    fd: OwnedFd,
    /// Tells this file from any other that a process with the same number had at the same descriptor.
    token: u64,
}

// SAFETY: the mapping belongs to the process; it is accessed through raw copies only, which name no thread.
unsafe impl Send for Arena {}
// SAFETY: as above; no reference to the memory is ever made here.
unsafe impl Sync for Arena {}

/// Sealed against shrinking, so that a peer's mapping cannot end in a `SIGBUS`, against growing, and against more seals,
/// one of which would forbid writing.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 4096;

impl Arena {
    /// A new sparse file of `bytes` for device `device` of the node, and its range of addresses. It takes no memory
    /// before it is written.
    pub(crate) fn create(device: u32, bytes: u64) -> Result<Self> {
        let failed = |call| failed(call, bytes);
        if let Some(limit) = getrlimit(Resource::Fsize).current
            && limit < bytes
        {
            // Growing a file beyond the limit raises SIGXFSZ, which kills.
            return Err(Error::new(
                ErrorKind::MemoryAllocation,
                format!(
                    "a device's memory is a file of {bytes} bytes, but `ulimit -f` allows {limit}; raise it"
                ),
            ));
        }
        let token = token().map_err(failed("getrandom"))?;
        let fd = sealable_memfd(&file_name(device, token)).map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&fd, bytes).map_err(failed("ftruncate"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(failed("fcntl(F_ADD_SEALS)"))?;
        Self::map(fd, bytes, token)
    }

    /// Maps the file of another process.
    pub(crate) fn open(fd: OwnedFd, device: u32, token: u64) -> Result<Self> {
        let name = format!("/memfd:{} (deleted)", file_name(device, token));
        let link = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&fd));
        let seen = std::fs::read_link(link).unwrap_or_default();
        if seen.as_os_str() != name.as_str() {
            return Err(refused(format!(
                "the process that exported this memory is gone: its number belongs to another, whose file is `{}`",
                seen.display()
            )));
        }
        if !rustix::fs::fcntl_get_seals(&fd).is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(refused(
                "the exported memory could still shrink: it is not of this library".to_owned(),
            ));
        }
        let bytes = rustix::fs::fstat(&fd).map_or(0, |status| u64::try_from(status.st_size).unwrap_or(0));
        Self::map(fd, bytes, token)
    }

    fn map(fd: OwnedFd, bytes: u64, token: u64) -> Result<Self> {
        let failed = |call| failed(call, bytes);
        let length = usize::try_from(bytes).map_err(|_| failed("mmap")(Errno::NOMEM))?;
        let align = usize::try_from(BLOCK_BYTES).unwrap_or(1);
        let reserved = length.checked_add(align).ok_or_else(|| failed("mmap")(Errno::NOMEM))?;
        // Reserved longer than needed, to begin at a multiple of a block: what is aligned in the file is so in memory.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that exists.
        let range =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), reserved, ProtFlags::empty(), flags) }
                .map_err(failed("mmap of the address range"))?;
        let skip = range.addr().next_multiple_of(align) - range.addr();
        let start = range.wrapping_byte_add(skip);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: replaces a part of the range that was reserved above and that nobody knows of yet; `skip` is less
        // than `align`, so `length` bytes from `start` lie inside it.
        let mapped = unsafe { rustix::mm::mmap(start, length, access, flags, &fd, 0) };
        release(range, skip);
        release(start.wrapping_byte_add(length), align - skip);
        if mapped.is_err() {
            release(start, length);
        }
        let mapped = mapped.map_err(failed("mmap"))?;
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
            // SAFETY: neither advice changes what this process sees in its own mapping.
            unsafe { rustix::mm::madvise(mapped, length, advice) }.map_err(failed("madvise"))?;
        }
        let start = NonNull::new(mapped.cast::<u8>()).ok_or_else(|| failed("mmap")(Errno::FAULT))?;
        Ok(Self { start, bytes: length, fd, token })
    }

    /// The address of its first byte.
    pub(crate) fn base(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes
    }

    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn contains(&self, address: usize) -> bool {
        (self.base()..self.base() + self.bytes).contains(&address)
    }

    /// Gives the pages from `start` to `end` of the file back to the machine; both are multiples of a page. They read as
    /// zeros after it, here and in every peer.
    pub(crate) fn punch(&self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Where the kernel cannot, the pages stay taken, which is a cost and no fault.
        while rustix::fs::fallocate(&self.fd, how, start, end - start) == Err(Errno::INTR) {}
    }

    /// How many of the bytes from `start` to `end` have no memory behind them yet.
    pub(crate) fn missing_bytes(&self, mut start: u64, end: u64) -> u64 {
        let mut missing = 0;
        while start < end {
            // A file's position is shared, but every use of this one's names its place.
            let data = rustix::fs::seek(&self.fd, SeekFrom::Data(start)).unwrap_or(end).min(end);
            missing += data - start;
            start = rustix::fs::seek(&self.fd, SeekFrom::Hole(data)).unwrap_or(end).clamp(data, end);
            if data == end {
                break;
            }
        }
        missing
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        release(self.start.as_ptr().cast(), self.bytes);
    }
}

/// Unmaps a part of a mapping made here.
fn release(start: *mut std::ffi::c_void, bytes: usize) {
    if bytes > 0 {
        // SAFETY: only called with parts of mappings of this module, which nothing refers to any more.
        unsafe { rustix::mm::munmap(start, bytes) }.unwrap_or_default();
    }
}

fn file_name(device: u32, token: u64) -> String {
    format!("fakegpu-gpu{device}-{token:016x}")
}

/// Eight random bytes.
pub(crate) fn token() -> rustix::io::Result<u64> {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())? {
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(Errno::INTR),
    }
}

/// A memfd that can be sealed; the name is for people who look at `/proc/PID/fd`, and for peers.
pub(crate) fn sealable_memfd(name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Systems may demand the mark of never being executed; kernels before 6.3 do not know it.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        answer => answer,
    }
}

fn failed(call: &'static str, bytes: u64) -> impl Fn(Errno) -> Error {
    move |errno| {
        let mib = bytes >> 20;
        let why = std::io::Error::from(errno);
        Error::new(
            ErrorKind::MemoryAllocation,
            format!(
                "the {mib} MiB of addresses of a device cannot be set up: {call}: {why}; look at `ulimit -v`"
            ),
        )
    }
}

fn refused(text: String) -> Error {
    Error::new(ErrorKind::MapBufferObjectFailed, text)
}

/// Host memory of a mapping of its own: page-locked memory, as CUDA calls it, though nothing locks it here.
#[derive(Debug)]
pub(crate) struct Pinned {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: as for `Arena`.
unsafe impl Send for Pinned {}
// SAFETY: as for `Arena`.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn allocate(bytes: usize) -> Result<Self> {
        let refuse = |why: String| {
            let text = format!("{bytes} bytes of page-locked host memory cannot be had: {why}");
            Error::new(ErrorKind::MemoryAllocation, text)
        };
        let page = usize::try_from(PAGE_BYTES).unwrap_or(1);
        let bytes =
            bytes.checked_next_multiple_of(page).ok_or_else(|| refuse("no machine has that".to_owned()))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that exists.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }
                .map_err(|errno| refuse(std::io::Error::from(errno).to_string()))?;
        let start =
            NonNull::new(start.cast::<u8>()).ok_or_else(|| refuse("mmap gave address 0".to_owned()))?;
        Ok(Self { start, bytes })
    }

    pub(crate) fn base(&self) -> usize {
        self.start.as_ptr().expose_provenance()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        release(self.start.as_ptr().cast(), self.bytes);
    }
}

/// Knows whether this process is a child of the one that made it, without a system call: its page is wiped in a
/// child.
#[derive(Debug)]
pub(crate) struct ForkGuard(NonNull<u8>);

// SAFETY: the page is written once, before it is shared.
unsafe impl Send for ForkGuard {}
// SAFETY: as above.
unsafe impl Sync for ForkGuard {}

impl ForkGuard {
    pub(crate) fn new() -> Result<Self> {
        let failed = |errno: Errno| {
            let text = format!("a page cannot be mapped: {}", std::io::Error::from(errno));
            Error::new(ErrorKind::OperatingSystem, text)
        };
        let bytes = usize::try_from(PAGE_BYTES).unwrap_or(1);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that exists.
        let page =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }
                .map_err(failed)?;
        let start = NonNull::new(page.cast::<u8>()).ok_or_else(|| failed(Errno::FAULT))?;
        let guard = Self(start);
        // SAFETY: the page was just mapped; in a child it is replaced by zeros, which is what this is for.
        unsafe { rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork) }.map_err(failed)?;
        // SAFETY: mapped writable, and nobody else has it yet.
        unsafe { start.as_ptr().write(1) };
        // SAFETY: nothing writes to the page any more; the kernel refuses whoever tries.
        unsafe { rustix::mm::mprotect(page, bytes, MprotectFlags::READ) }.map_err(failed)?;
        Ok(guard)
    }

    pub(crate) fn is_forked(&self) -> bool {
        // SAFETY: mapped readable as long as `self` lives. Volatile, since a fork changes it behind the compiler's
        // back.
        unsafe { self.0.as_ptr().read_volatile() == 0 }
    }
}

impl Drop for ForkGuard {
    fn drop(&mut self) {
        release(self.0.as_ptr().cast(), usize::try_from(PAGE_BYTES).unwrap_or(1));
    }
}

/// A whole small file, as those in `/proc`; empty where it cannot be read.
pub(crate) fn read_small(path: &str) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(1 << 16).read_to_string(&mut text));
    read.map_or_else(|_| String::new(), |_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(arena: &Arena, at: usize) -> *mut u8 {
        arena.start.as_ptr().wrapping_add(at)
    }

    #[test]
    fn a_file_takes_memory_when_written_and_gives_it_back_by_holes() {
        let arena = Arena::create(0, 64 << 20).unwrap();
        assert!(arena.base().is_multiple_of(2 << 20));
        assert_eq!(arena.missing_bytes(0, 64 << 20), 64 << 20);
        // SAFETY: inside the mapping.
        unsafe { byte(&arena, 4096).write(7) };
        assert_eq!(arena.missing_bytes(0, 64 << 20), (64 << 20) - 4096);
        assert_eq!((arena.missing_bytes(4096, 8192), arena.missing_bytes(0, 4096)), (0, 4096));
        arena.punch(4096, 8192);
        // SAFETY: inside the mapping.
        assert_eq!(unsafe { byte(&arena, 4096).read() }, 0);
    }

    #[test]
    fn a_file_is_known_by_its_token_and_its_seals() {
        let arena = Arena::create(3, 1 << 20).unwrap();
        let copy = || arena.fd().try_clone_to_owned().unwrap();
        let other = Arena::open(copy(), 3, arena.token()).unwrap();
        // SAFETY: inside the mapping.
        unsafe { byte(&arena, 9).write(5) };
        // SAFETY: inside the mapping.
        assert_eq!(unsafe { byte(&other, 9).read() }, 5);
        let wrong = Arena::open(copy(), 3, arena.token() ^ 1).unwrap_err();
        assert!(wrong.text().contains("is gone"), "{wrong}");
        let loose = sealable_memfd(&file_name(3, 8)).unwrap();
        assert!(Arena::open(loose, 3, 8).unwrap_err().text().contains("could still shrink"));
    }

    #[test]
    fn a_guard_knows_its_own_process() {
        assert!(!ForkGuard::new().unwrap().is_forked());
    }
}
