//! Files of memory without a name, and their pages.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::StagingError;

/// Allocated at a time, so that a process with an interval timer gets on between two signals.
const ALLOCATION_STEP_BYTES: u64 = 1 << 20;

/// Growing a file beyond the limit raises `SIGXFSZ`, which kills.
pub(crate) fn check_file_size_limit(bytes: u64) -> Result<(), StagingError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < bytes => Err(StagingError::FileSizeLimit { bytes, limit }),
        _ => Ok(()),
    }
}

/// A memfd that can be sealed; the name is for people who look at `/proc/PID/fd`.
pub(crate) fn sealable_memfd(name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Systems may demand the mark of never being executed; kernels before 6.3 do not know it.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        answer => answer,
    }
}

/// Takes every page from `at` to `end` now: one that is missing later is a `SIGBUS` in whoever touches it.
pub(crate) fn allocate(fd: impl AsFd, mut at: u64, end: u64) -> rustix::io::Result<()> {
    while at < end {
        let step = ALLOCATION_STEP_BYTES.min(end - at);
        match rustix::fs::fallocate(&fd, FallocateFlags::empty(), at, step) {
            Ok(()) => at += step,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
