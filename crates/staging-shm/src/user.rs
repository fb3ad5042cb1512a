//! Buffers of the calling program: a pointer and a length that it vouches for.
//!
//! No reference to user memory outlives one copy or one kernel call, since send and receive buffer may be the
//! same memory, and the program may hold references of its own.

use std::ptr::NonNull;

/// Memory that an operation reads. NULL is fine where the length is 0.
#[derive(Debug, Clone, Copy)]
pub struct SendBuffer {
    start: NonNull<u8>,
    bytes: usize,
}

/// Memory that an operation writes. NULL is fine where the length is 0.
#[derive(Debug, Clone, Copy)]
pub struct RecvBuffer {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the pointer is only followed under the contract of `new`, which names no thread.
unsafe impl Send for SendBuffer {}
// SAFETY: as for `SendBuffer`.
unsafe impl Send for RecvBuffer {}

impl SendBuffer {
    /// A buffer of `bytes` bytes at `ptr`.
    ///
    /// # Safety
    /// Until the run it is given to has ended (done, failed, or its exchange dropped), the memory must be
    /// readable and must not change but through the run's own receive buffer.
    pub const unsafe fn new(ptr: *const u8, bytes: usize) -> Self {
        match NonNull::new(ptr.cast_mut()) {
            Some(start) => Self { start, bytes },
            None => Self { start: NonNull::dangling(), bytes: 0 },
        }
    }

    /// The `bytes` bytes from `offset` on, as a buffer of their own; `None` where they are not within this one.
    pub fn part(&self, offset: usize, bytes: usize) -> Option<Self> {
        if !within(self.bytes, offset, bytes) {
            return None;
        }
        // SAFETY: the offset is inside the buffer, or at its end where the part is empty.
        let start = unsafe { self.start.add(offset) };
        Some(Self { start, bytes })
    }

    /// Where it begins; of no meaning where it is empty.
    pub fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// Its length in bytes; 0 for NULL.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies from `offset` on until `target`, which is no user memory, is full.
    pub(crate) fn copy_to(&self, offset: usize, target: &mut [u8]) {
        assert!(within(self.bytes, offset, target.len()), "begin() admits no run beyond its buffers");
        // SAFETY: the offset is inside the buffer, by the assertion.
        let source = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: `source` is readable for `target.len()` bytes by the contract of `new` and the assertion;
        // `target` is exclusively borrowed staging memory, so user memory does not overlap it.
        unsafe { copy_in_steps(source, target.as_mut_ptr(), target.len()) }
    }

    /// Copies everything to `target`, which may overlap it.
    ///
    /// # Safety
    /// `target` is writable for as many bytes as the buffer has.
    pub(crate) unsafe fn copy_to_raw(&self, target: *mut u8) {
        // SAFETY: the source is readable by the contract of `new`, the target writable by this function's.
        unsafe { std::ptr::copy(self.start.as_ptr(), target, self.bytes) }
    }

    /// Lends a range to `use_bytes`.
    pub(crate) fn lend<R>(&self, offset: usize, bytes: usize, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        assert!(within(self.bytes, offset, bytes), "begin() admits no run beyond its buffers");
        // SAFETY: the offset is inside the buffer, by the assertion.
        let source = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: readable for `bytes` bytes by the contract of `new` and the assertion; nothing here writes
        // to user memory while `use_bytes` runs, and the reference cannot escape it.
        use_bytes(unsafe { std::slice::from_raw_parts(source, bytes) })
    }
}

impl RecvBuffer {
    /// A buffer of `bytes` bytes at `ptr`.
    ///
    /// # Safety
    /// Until the run it is given to has ended (done, failed, or its exchange dropped), the memory must be
    /// writable, and nothing else may read or write it, but that the run's send buffer may overlap it.
    pub const unsafe fn new(ptr: *mut u8, bytes: usize) -> Self {
        match NonNull::new(ptr) {
            Some(start) => Self { start, bytes },
            None => Self { start: NonNull::dangling(), bytes: 0 },
        }
    }

    /// The `bytes` bytes from `offset` on, as a buffer of their own; `None` where they are not within this one.
    pub fn part(&self, offset: usize, bytes: usize) -> Option<Self> {
        if !within(self.bytes, offset, bytes) {
            return None;
        }
        // SAFETY: the offset is inside the buffer, or at its end where the part is empty.
        let start = unsafe { self.start.add(offset) };
        Some(Self { start, bytes })
    }

    /// Where it begins; of no meaning where it is empty.
    pub fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// Its length in bytes; 0 for NULL.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is no room in it.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Copies all of `source` to `offset` on.
    pub(crate) fn copy_from(&self, offset: usize, source: &[u8]) {
        assert!(within(self.bytes, offset, source.len()), "begin() admits no run beyond its buffers");
        // SAFETY: the offset is inside the buffer, by the assertion.
        let target = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: `target` is writable for `source.len()` bytes by the contract of `new` and the assertion;
        // `source` is staging memory or a buffer of ours, so user memory does not overlap it.
        unsafe { copy_in_steps(source.as_ptr(), target, source.len()) }
    }

    /// Copies all of `source`, as far as it fits; the two may overlap.
    pub(crate) fn move_from(&self, source: &SendBuffer) {
        let bytes = self.bytes.min(source.bytes);
        // SAFETY: both are valid for that many bytes by the contracts of their `new`, and `copy` allows overlap.
        unsafe { std::ptr::copy(source.start.as_ptr(), self.start.as_ptr(), bytes) }
    }

    /// Lends a range to `use_bytes`, to be overwritten.
    pub(crate) fn lend<R>(&self, offset: usize, bytes: usize, use_bytes: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(within(self.bytes, offset, bytes), "begin() admits no run beyond its buffers");
        // SAFETY: the offset is inside the buffer, by the assertion.
        let target = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: writable and initialised for `bytes` bytes by the contract of `new` and the assertion; no
        // other reference to user memory exists while `use_bytes` runs, and this one cannot escape it.
        use_bytes(unsafe { std::slice::from_raw_parts_mut(target, bytes) })
    }
}

/// Short enough that glibc's `memcpy` keeps to vector moves. Beyond, it takes to `rep movsb`, which on Zen writes to
/// an unaligned target at a fourteenth of the speed (3.0 instead of 43 GB/s in cache, Zen 5, glibc 2.36); and large
/// allocations start 16 bytes into a page.
const STEP_BYTES: usize = 2 << 10;

/// A copy whose speed does not depend on alignment.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
unsafe fn copy_in_steps(source: *const u8, target: *mut u8, bytes: usize) {
    let mut at = 0;
    while at < bytes {
        let step = STEP_BYTES.min(bytes - at);
        // SAFETY: `at` is inside the source by the caller's promise.
        let from = unsafe { source.add(at) };
        // SAFETY: as above, of the target.
        let to = unsafe { target.add(at) };
        // SAFETY: `at + step` is at most `bytes`, for which the caller vouches.
        unsafe { std::ptr::copy_nonoverlapping(from, to, step) }
        at += step;
    }
}

fn within(len: usize, offset: usize, bytes: usize) -> bool {
    offset.checked_add(bytes).is_some_and(|end| end <= len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_an_empty_buffer_whatever_its_length_says() {
        // SAFETY: nothing is read from it.
        let send = unsafe { SendBuffer::new(std::ptr::null(), 100) };
        assert!(send.is_empty());
        send.copy_to(0, &mut []);
    }

    #[test]
    #[should_panic(expected = "beyond its buffers")]
    fn nothing_is_read_past_the_end() {
        let bytes = [1_u8; 4];
        // SAFETY: the array outlives the buffer.
        let send = unsafe { SendBuffer::new(bytes.as_ptr(), 4) };
        send.copy_to(2, &mut [0; 3]);
    }
}
