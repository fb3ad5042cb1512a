//! The threads of the host that run blocks, and launches under way.

use std::collections::VecDeque;
use std::fmt;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::compile::Kernel;
use crate::run::{Fault, FaultKind, Launch, Runner};

/// Threads that run the blocks of launches, one launch after the other; as many as the host has cores. They are started
/// by the first launch, and no signal of the program's is delivered to them.
#[derive(Debug, Default)]
pub struct Pool {
    shared: Arc<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Notified when there is a launch with blocks that nobody has taken.
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    launches: VecDeque<Arc<Shared>>,
    /// Whether the threads were started, and how many there are.
    threads: Option<usize>,
}

/// A launch under way. It goes on when this is dropped.
#[derive(Debug)]
pub struct Job {
    shared: Arc<Shared>,
}

/// A launch, as its threads and whoever waits for it see it.
struct Shared {
    kernel: Arc<Kernel>,
    launch: Launch,
    blocks: u64,
    /// Blocks that are taken at once.
    portion: u64,
    next: AtomicU64,
    finished: AtomicU64,
    is_over: AtomicBool,
    fault: OnceLock<Fault>,
    is_done: Mutex<bool>,
    done: Condvar,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("kernel", &self.kernel)
            .field("launch", &self.launch)
            .field("finished", &self.finished)
            .finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Each thread of the host comes for blocks about this often.
const PORTIONS: u64 = 16;
/// A thread's stack: code of many registers spills them, and calls nest.
const STACK_BYTES: usize = 16 << 20;

impl Pool {
    /// Begins a launch.
    pub fn start(&self, kernel: Arc<Kernel>, launch: Launch) -> Job {
        let blocks = launch.blocks();
        let mut state = locked(&self.shared.state);
        let threads = *state.threads.get_or_insert_with(|| spawn(&self.shared));
        let portion = (blocks / (threads.max(1) as u64 * PORTIONS)).max(1);
        let shared = Arc::new(Shared {
            kernel,
            launch,
            blocks,
            portion,
            next: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            fault: OnceLock::new(),
            is_done: Mutex::new(blocks == 0),
            done: Condvar::new(),
        });
        if threads > 0 {
            state.launches.push_back(Arc::clone(&shared));
        }
        drop(state);
        match (threads, blocks) {
            // Where no thread can be had, the caller does it all.
            (0, _) => shared.work(),
            (_, 1) => self.shared.work.notify_one(),
            _ => self.shared.work.notify_all(),
        }
        Job { shared }
    }
}

impl Job {
    /// How it ended, if it has.
    pub fn poll(&self) -> Option<Result<(), Fault>> {
        if !*locked(&self.shared.is_done) {
            return None;
        }
        Some(self.shared.fault.get().cloned().map_or(Ok(()), Err))
    }

    /// Waits until it has ended, and never longer than this.
    pub fn wait(&self, at_most: Duration) {
        let is_done = locked(&self.shared.is_done);
        if !*is_done {
            drop(self.shared.done.wait_timeout(is_done, at_most));
        }
    }
}

impl Shared {
    fn is_taken(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.blocks
    }

    /// Runs blocks as long as there are some that nobody has taken.
    fn work(&self) {
        let mut runner = None;
        loop {
            let first = self.next.fetch_add(self.portion, Ordering::Relaxed);
            if first >= self.blocks {
                return;
            }
            let end = first.saturating_add(self.portion).min(self.blocks);
            let runner = runner.get_or_insert_with(|| Runner::new(&self.kernel, &self.launch));
            let ran = catch_unwind(AssertUnwindSafe(|| self.portion(runner, first, end)));
            if let Err(fault) = ran.unwrap_or_else(|_| Err(self.panicked())) {
                self.fault.get_or_init(|| fault);
                self.is_over.store(true, Ordering::Release);
            }
            let before = self.finished.fetch_add(end - first, Ordering::AcqRel);
            if before + (end - first) == self.blocks {
                *locked(&self.is_done) = true;
                self.done.notify_all();
            }
        }
    }

    fn portion(&self, runner: &mut Runner, first: u64, end: u64) -> Result<(), Fault> {
        let is_over = || self.is_over.load(Ordering::Relaxed);
        for number in first..end {
            if is_over() {
                break;
            }
            runner.run(number, is_over)?;
        }
        Ok(())
    }

    fn panicked(&self) -> Fault {
        let text = format!("the kernel `{}` could not be run: a helper panicked", self.kernel.name());
        Fault { kind: FaultKind::Trap, text }
    }
}

/// Starts the threads; how many there are.
fn spawn(queue: &Arc<Queue>) -> usize {
    let wanted = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let start = |number: &usize| {
        let queue = Arc::clone(queue);
        spawn_quiet(&format!("fakegpu-sm{number}"), move || serve(&queue)).is_ok()
    };
    (0..wanted).filter(start).count()
}

fn serve(queue: &Queue) {
    let mut state = locked(&queue.state);
    loop {
        while state.launches.front().is_some_and(|launch| launch.is_taken()) {
            state.launches.pop_front();
        }
        let Some(launch) = state.launches.front().cloned() else {
            state = queue.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        launch.work();
        drop(launch);
        state = locked(&queue.state);
    }
}

/// Starts a thread with every signal blocked: handlers run on the program's own threads, which they were written for.
fn spawn_quiet(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is writable.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: `all` was filled above, `before` is writable. The mask is inherited, so it is set here, before the thread
    // exists.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(body);
    if blocked == 0 {
        // SAFETY: `before` was written by the call above, which succeeded.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    }
    thread.map(drop)
}
