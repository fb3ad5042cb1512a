//! What happens when the process ends in order.

use std::sync::OnceLock;

static HOOK: OnceLock<fn()> = OnceLock::new();

/// Calls `hook` when the process exits by `exit` or by returning from `main`.
pub(crate) fn at_exit(hook: fn()) {
    if HOOK.set(hook).is_ok() {
        // SAFETY: `run` is an `extern "C"` function without arguments that never unwinds, and the library is
        // linked with `nodelete`, so it is still mapped when the process exits.
        let refused = unsafe { libc::atexit(run) };
        if refused != 0 {
            tracing::warn!("no exit hook could be registered: this process's end will look like its death");
        }
    }
}

extern "C" fn run() {
    // A panic must not unwind into libc; there is nobody left to tell.
    drop(std::panic::catch_unwind(|| {
        if let Some(hook) = HOOK.get() {
            hook();
        }
    }));
}
