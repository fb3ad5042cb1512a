//! Memory that the ranks of one host can map into each other: what `ncclMemAlloc` gives out, and what windows are
//! made of.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use crate::pages::{allocate, check_file_size_limit, sealable_memfd};
use crate::{SendBuffer, StagingError};

/// Mapped memory of a memfd of its own. Dropping it unmaps; the memory lives as long as a mapping or a descriptor
/// does. What a peer allocated is held by its mapping alone: a process has more windows than descriptors.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// Where this process allocated it.
    fd: Option<OwnedFd>,
}

// SAFETY: the mapping belongs to the process; it is only accessed through raw copies, which name no thread.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; no reference to the memory is ever made here.
unsafe impl Sync for SharedMemory {}

const NAME: &str = "fakegpu-memory";

/// Sealed against shrinking, so that a peer's mapping cannot end in a `SIGBUS`, and against growing.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl SharedMemory {
    /// New memory of zeros, with all its pages, at a page's start.
    ///
    /// # Errors
    /// Where a limit of the process or the machine's memory does not allow it, naming the call.
    pub fn allocate(bytes: usize) -> Result<Self, StagingError> {
        let wanted = bytes as u64;
        check_file_size_limit(wanted)?;
        let failed =
            |call| move |errno: Errno| StagingError::Memory { call, bytes: wanted, source: errno.into() };
        let fd = sealable_memfd(NAME).map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&fd, wanted).map_err(failed("ftruncate"))?;
        // Before its pages: where addresses are limited, none are taken in vain.
        let mut memory = Self::map(&fd, bytes)?;
        allocate(&fd, 0, wanted).map_err(failed("fallocate"))?;
        rustix::fs::fcntl_add_seals(&fd, SEALS).map_err(failed("fcntl(F_ADD_SEALS)"))?;
        memory.fd = Some(fd);
        Ok(memory)
    }

    /// Maps memory that a peer allocated.
    ///
    /// # Errors
    /// Where the file has not this size, could still shrink, or cannot be mapped.
    pub fn open(fd: BorrowedFd<'_>, bytes: usize) -> Result<Self, StagingError> {
        let wanted = bytes as u64;
        let failed =
            |call| move |errno: Errno| StagingError::Memory { call, bytes: wanted, source: errno.into() };
        let seen = rustix::fs::fstat(fd).map_err(failed("fstat"))?.st_size;
        let seen = u64::try_from(seen).unwrap_or(0);
        if seen != wanted {
            return Err(StagingError::Foreign { what: "its size in bytes", seen, expected: wanted });
        }
        let present = rustix::fs::fcntl_get_seals(fd).map_err(failed("fcntl(F_GET_SEALS)"))?;
        if !present.contains(SEALS) {
            let (seen, expected) = (u64::from(present.bits()), u64::from(SEALS.bits()));
            return Err(StagingError::Foreign { what: "its set of seals", seen, expected });
        }
        Self::map(&fd, bytes)
    }

    /// Its first byte.
    pub const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length in bytes.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes; never.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// What a peer can map it by, where this process allocated it.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Copies all of `from` to `offset` on, which may be memory of its own; whether it fits.
    pub fn put(&self, offset: usize, from: &SendBuffer) -> bool {
        let fits = offset.checked_add(from.len()).is_some_and(|end| end <= self.bytes);
        if fits {
            // SAFETY: `offset` is inside the mapping, by the check above.
            let target = unsafe { self.start.as_ptr().add(offset) };
            // SAFETY: `target` is writable for `from.len()` bytes by the check above. That nobody else reads or
            // writes them meanwhile is what the program vouches for when it puts into a window.
            unsafe { from.copy_to_raw(target) };
        }
        fits
    }

    fn map(fd: &impl AsFd, bytes: usize) -> Result<Self, StagingError> {
        let failed =
            |errno: Errno| StagingError::Memory { call: "mmap", bytes: bytes as u64, source: errno.into() };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory that exists.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd, 0) }
            .map_err(failed)?;
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| failed(Errno::FAULT))?;
        Ok(Self { start, bytes, fd: None })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, unmapped once, here; whoever was given the address owes it to
        // NCCL's rules not to use it any more.
        unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) }.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_puts_the_other_finds() {
        let mine = SharedMemory::allocate(8192).unwrap();
        let theirs = SharedMemory::open(mine.fd().unwrap(), 8192).unwrap();
        let sent = [7_u8, 8, 9];
        // SAFETY: the array outlives the copy.
        let from = unsafe { SendBuffer::new(sent.as_ptr(), sent.len()) };
        assert!(theirs.put(8189, &from));
        assert!(!theirs.put(8190, &from), "past the end");
        // SAFETY: the last three bytes of the mapping.
        let at = unsafe { mine.start().add(8189) };
        // SAFETY: mapped, and nobody writes any more.
        assert_eq!(unsafe { std::slice::from_raw_parts(at, 3) }, sent);
    }

    #[test]
    fn a_file_of_another_size_or_without_seals_is_refused() {
        let memory = SharedMemory::allocate(4096).unwrap();
        let other = SharedMemory::open(memory.fd().unwrap(), 8192).unwrap_err();
        assert!(other.to_string().contains("its size in bytes is `4096`"), "{other}");
        let loose = sealable_memfd(NAME).unwrap();
        rustix::fs::ftruncate(&loose, 4096).unwrap();
        assert!(SharedMemory::open(loose.as_fd(), 4096).unwrap_err().to_string().contains("seals"));
    }
}
