//! A small process beside a run that ends what the run has started, should the run be killed outright.
//!
//! The run holds the other end of the warden's stdin and writes which process groups there are. An end of that
//! stream without a farewell means that the run is gone. A death signal set in each child would reach the child
//! alone; groups have their children, too.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// How a process group is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mercy {
    /// At once.
    Kill,
    /// By SIGTERM, so that it can write and clean up.
    Terminate,
}

/// The run's side.
#[derive(Debug)]
pub(crate) struct Warden {
    process: Child,
    stdin: Option<ChildStdin>,
}

impl Warden {
    /// Starts a warden that has nothing to watch yet.
    pub(crate) fn start() -> Result<Self> {
        let own = std::env::current_exe().context("this program's own path")?;
        let mut process = Command::new(own)
            .arg("warden")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start the process that watches over the run")?;
        let stdin = process.stdin.take();
        Ok(Self { process, stdin })
    }

    /// The group led by `leader` is to end with the run.
    pub(crate) fn add(&mut self, leader: u32, mercy: Mercy) {
        let verb = match mercy {
            Mercy::Kill => "kill",
            Mercy::Terminate => "terminate",
        };
        self.write(&format!("{verb} {leader}\n"));
    }

    /// The group has ended; its number may soon be another's.
    pub(crate) fn forget(&mut self, leader: u32) {
        self.write(&format!("forget {leader}\n"));
    }

    /// Without a warden a run still ends what it started, unless it is killed.
    fn write(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            stdin.write_all(line.as_bytes()).unwrap_or_default();
        }
    }
}

impl Drop for Warden {
    fn drop(&mut self) {
        self.write("farewell\n");
        self.stdin = None;
        // It ends at once; its status says nothing.
        drop(self.process.wait());
    }
}

/// The warden's side: reads until the run says farewell or is gone.
pub(crate) fn watch() -> Result<()> {
    for (leader, mercy) in groups_left(std::io::stdin().lock()) {
        let signal = match mercy {
            Mercy::Kill => Signal::KILL,
            Mercy::Terminate => Signal::TERM,
        };
        if let Some(leader) = Pid::from_raw(leader) {
            // A group that has ended meanwhile is what is wanted.
            kill_process_group(leader, signal).unwrap_or_default();
        }
    }
    Ok(())
}

/// The groups that the run has left behind; none after a farewell.
fn groups_left(lines: impl BufRead) -> BTreeMap<i32, Mercy> {
    let mut groups = BTreeMap::new();
    for line in lines.lines().map_while(Result::ok) {
        let (verb, leader) = line.split_once(' ').unwrap_or((&line, ""));
        match (verb, leader.parse::<i32>()) {
            ("farewell", _) => return BTreeMap::new(),
            ("kill", Ok(leader @ 2..)) => drop(groups.insert(leader, Mercy::Kill)),
            ("terminate", Ok(leader @ 2..)) => drop(groups.insert(leader, Mercy::Terminate)),
            ("forget", Ok(leader)) => drop(groups.remove(&leader)),
            _ => {}
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_what_was_added_and_not_forgotten() {
        let left = groups_left(&b"kill 10\nterminate 11\nkill 12\nforget 10\n"[..]);
        assert_eq!(left, BTreeMap::from([(11, Mercy::Terminate), (12, Mercy::Kill)]));
    }

    #[test]
    fn after_a_farewell_nothing_is_left() {
        assert!(groups_left(&b"kill 10\nfarewell\n"[..]).is_empty());
    }

    #[test]
    fn no_line_can_name_every_process_or_the_first() {
        assert!(groups_left(&b"kill -1\nkill 0\nkill 1\nkill\nkill x\n"[..]).is_empty());
    }
}
