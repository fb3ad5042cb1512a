//! A child process that leads a group of its own: signals reach its children, and nothing of it is left behind.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// A running process group. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    /// Readable once the leader has ended.
    ended: OwnedFd,
    is_reaped: bool,
}

impl Group {
    /// Starts `command` as the leader of a new group, out of reach of the terminal's Ctrl-C.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.process_group(0).spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(ended) => Ok(Self { child, ended, is_reaped: false }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// The leader's process id, which is the group's number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The leader, for its pipes.
    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal to all of the group; one that has ended already does not mind.
    pub(crate) fn signal(&self, signal: Signal) {
        if !self.is_reaped {
            kill_process_group(Pid::from_child(&self.child), signal).unwrap_or_default();
        }
    }

    /// Waits for the leader's end; whether it came within `timeout`.
    pub(crate) fn has_ended_within(&self, timeout: Duration) -> io::Result<bool> {
        readable_within(self.ended.as_fd(), Instant::now() + timeout)
    }

    /// Kills what the leader has left behind and takes its status. Until then the leader's number cannot be given to
    /// another process, so the signal meets nobody else.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        self.is_reaped = true;
        self.child.wait()
    }
}

impl AsFd for Group {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_reaped {
            drop(self.reap());
        }
    }
}

/// Waits until `fd` is readable; whether that happened before `deadline`.
pub(crate) fn readable_within(fd: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Ok(count) if count > 0 => return Ok(true),
            Ok(_) if left.is_zero() => return Ok(false),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn what_a_leader_leaves_behind_ends_with_it() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 600 & echo $!"]).stdout(Stdio::piped());
        let mut group = Group::start(&mut command).unwrap();
        let mut stdout = BufReader::new(group.child_mut().stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(group.has_ended_within(Duration::from_secs(10)).unwrap());
        assert!(group.reap().unwrap().success());
        // The sleeper held the pipe; its end is the pipe's.
        assert_eq!(stdout.read_line(&mut line).unwrap(), 0);
    }
}
