//! Starting the embedded coordinator from inside someone else's process.
//!
//! By posix_spawn, not fork: the process may be large and have many threads. The child gets a session of its
//! own (a Ctrl-C meant for the program is not meant for it), /dev/null as its standard streams, and none of the
//! program's descriptors, which it would otherwise keep open long after the program has ended.

use std::ffi::{CString, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fakegpu_simulate::{Spawn, THREAD_NAME};

/// Starts programs by posix_spawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PosixSpawn;

impl Spawn for PosixSpawn {
    fn spawn(
        &self,
        program: &Path,
        arguments: &[OsString],
        environment: &[(OsString, OsString)],
    ) -> io::Result<u32> {
        let program = CString::new(program.as_os_str().as_bytes())?;
        let mut argv = vec![program.clone()];
        for argument in arguments {
            argv.push(CString::new(argument.as_bytes())?);
        }
        let envp = environment
            .iter()
            .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<Result<Vec<_>, _>>()?;
        spawn_detached(&program, &argv, &envp)
    }

    fn start_thread(&self, job: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let before = block_signals()?;
        let builder = std::thread::Builder::new().name(THREAD_NAME.to_owned()).stack_size(STACK_BYTES);
        // The new thread inherits the mask, so that the program's signals stay its own.
        let started = builder.spawn(job).map(drop);
        restore_signals(&before)?;
        started
    }
}

/// Enough for a plan and a few frames; a program may have thousands of communicators.
const STACK_BYTES: usize = 512 << 10;

/// Blocks all signals in this thread; gives the mask that was there.
fn block_signals() -> io::Result<libc::sigset_t> {
    let mut all = MaybeUninit::uninit();
    // SAFETY: the pointer is to memory for exactly this type, which the call initialises.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    let mut before = MaybeUninit::uninit();
    // SAFETY: `all` was initialised above, and `before` is writable.
    check(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) })?;
    // SAFETY: initialised by the successful call above.
    Ok(unsafe { before.assume_init() })
}

fn restore_signals(mask: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the mask is initialised, and NULL asks for no answer.
    check(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) })
}

/// A NULL-terminated array of pointers into `strings`, which must outlive its use.
fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings.iter().map(|string| string.as_ptr().cast_mut()).chain([std::ptr::null_mut()]).collect()
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

fn spawn_detached(program: &CString, argv: &[CString], envp: &[CString]) -> io::Result<u32> {
    let actions = FileActions::new()?;
    let attributes = Attributes::new()?;
    let (argv, envp) = (pointers(argv), pointers(envp));
    let mut pid = 0;
    // SAFETY: `program` is a C string; `actions` and `attributes` are initialised; `argv` and `envp` are
    // NULL-terminated arrays of C strings that live to the end of this function; `pid` is writable.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            argv.as_ptr(),
            envp.as_ptr(),
        )
    })?;
    u32::try_from(pid).map_err(|_| io::Error::other("the new process has no id"))
}

/// What is done to the child's descriptors.
struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the pointer is to memory for exactly this type, which the call initialises.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: initialised by the successful call above.
        let mut actions = Self(unsafe { actions.assume_init() });
        for (fd, flags) in [(0, libc::O_RDONLY), (1, libc::O_WRONLY), (2, libc::O_WRONLY)] {
            // SAFETY: `actions.0` is initialised and the path is a C string, which the call copies.
            check(unsafe {
                libc::posix_spawn_file_actions_addopen(
                    &raw mut actions.0,
                    fd,
                    c"/dev/null".as_ptr(),
                    flags,
                    0,
                )
            })?;
        }
        // SAFETY: `actions.0` is initialised; the function is glibc's since 2.34, which the build requires.
        check(unsafe { posix_spawn_file_actions_addclosefrom_np(&raw mut actions.0, 3) })?;
        Ok(actions)
    }
}

// The libc crate does not declare it.
unsafe extern "C" {
    fn posix_spawn_file_actions_addclosefrom_np(
        actions: *mut libc::posix_spawn_file_actions_t,
        from: libc::c_int,
    ) -> libc::c_int;
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once, here.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// How the child begins.
struct Attributes(libc::posix_spawnattr_t);

/// glibc's flag to begin a new session; the libc crate does not declare it for every target.
const POSIX_SPAWN_SETSID: libc::c_short = 0x80;

/// The child begins with no signal blocked and those that end it as they are by default.
#[expect(clippy::cast_possible_truncation, reason = "the flags are small numbers in a short by definition")]
const SIGNALS_AT_REST: libc::c_short =
    (libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF) as libc::c_short;

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the pointer is to memory for exactly this type, which the call initialises.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised by the successful call above.
        let mut attributes = Self(unsafe { attributes.assume_init() });
        // SAFETY: `attributes.0` is initialised.
        check(unsafe {
            libc::posix_spawnattr_setflags(&raw mut attributes.0, POSIX_SPAWN_SETSID | SIGNALS_AT_REST)
        })?;
        let mut none = MaybeUninit::uninit();
        // SAFETY: the pointer is to memory for exactly this type, which the call initialises.
        unsafe { libc::sigemptyset(none.as_mut_ptr()) };
        // SAFETY: initialised by the call above, which cannot fail on a valid pointer.
        let none: libc::sigset_t = unsafe { none.assume_init() };
        // A program may have blocked or ignored what ends a daemon.
        // SAFETY: both are initialised.
        check(unsafe { libc::posix_spawnattr_setsigmask(&raw mut attributes.0, &raw const none) })?;
        let mut ending = none;
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGPIPE] {
            // SAFETY: the set is initialised and the signal is one.
            unsafe { libc::sigaddset(&raw mut ending, signal) };
        }
        // SAFETY: both are initialised.
        check(unsafe { libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, &raw const ending) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `new`, destroyed once, here.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script by [`PosixSpawn`] and waits for it.
    fn run(script: &str, environment: &[(OsString, OsString)]) -> libc::c_int {
        let arguments = [OsString::from("-c"), OsString::from(script)];
        let pid = PosixSpawn.spawn(Path::new("/bin/sh"), &arguments, environment).unwrap();
        let mut status = 0;
        // SAFETY: `status` is writable, and the process is our own child.
        unsafe { libc::waitpid(libc::pid_t::try_from(pid).unwrap(), &raw mut status, 0) };
        status
    }

    #[test]
    fn the_child_has_its_own_session_and_none_of_our_descriptors() {
        let file = tempfile::tempfile().unwrap();
        // A descriptor that survives exec, as a careless program's would.
        // SAFETY: the descriptor is open; clearing close-on-exec touches no memory.
        let leaky = unsafe { libc::dup(std::os::fd::AsRawFd::as_raw_fd(&file)) };
        assert!(leaky > 2);
        let script = "set -- $(cut -d' ' -f6 /proc/$$/stat); [ \"$1\" = $$ ] && for fd in /proc/$$/fd/*; do \
                      case $fd in */0|*/1|*/2) ;; *) [ -e $fd ] && exit 9;; esac; done; exit 0";
        assert_eq!(run(script, &[]), 0);
    }

    #[test]
    fn the_child_has_exactly_the_environment_it_is_given() {
        let environment = [("ONLY".into(), "this".into())];
        assert_eq!(run("[ \"$ONLY\" = this ] && [ -z \"$HOME\" ]", &environment), 0);
    }

    #[test]
    fn a_thread_of_ours_takes_no_signals_and_leaves_the_callers_mask_alone() {
        let is_blocked = |signal| {
            let mut mask = MaybeUninit::uninit();
            // SAFETY: NULL changes nothing, and `mask` is writable.
            check(unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr()) })
                .unwrap();
            // SAFETY: initialised by the successful call above.
            unsafe { libc::sigismember(mask.as_ptr(), signal) == 1 }
        };
        let (told, seen) = std::sync::mpsc::channel();
        PosixSpawn
            .start_thread(Box::new(move || {
                told.send((is_blocked(libc::SIGTERM), is_blocked(libc::SIGUSR1))).unwrap()
            }))
            .unwrap();
        assert_eq!(seen.recv().unwrap(), (true, true));
        assert!(!is_blocked(libc::SIGTERM) && !is_blocked(libc::SIGUSR1));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = PosixSpawn.spawn(Path::new("/nonexistent/program"), &[], &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
