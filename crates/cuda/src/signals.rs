//! A thread that no signal of the program's is delivered to.

use std::mem::MaybeUninit;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with every signal blocked: handlers run on the program's own threads, which they were written for.
pub(crate) fn spawn_quiet(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was filled above, `before` is writable. The mask is inherited, so it is set here, before the
    // thread exists.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let thread = Builder::new().name(name.to_owned()).spawn(body);
    if blocked == 0 {
        // SAFETY: `before` was written by the call above, which succeeded.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    thread
}
