//! How ranks end: by themselves, because another failed, or because the run was told to stop.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::group::Group;
use crate::arguments::OnFailure;

/// How long ranks are given to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From a rank's failure to SIGTERM for the others: they learn of it from NCCL and report it.
    pub(crate) report: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) terminate: Duration,
    /// From a signal that was passed on to SIGKILL.
    pub(crate) interrupt: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            report: Duration::from_millis(1500),
            terminate: Duration::from_secs(3),
            interrupt: Duration::from_secs(10),
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Exited(i32),
    Killed(i32),
}

impl Ending {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Killed(signal.unwrap_or_default()),
        }
    }

    fn is_failure(self) -> bool {
        self != Self::Exited(0)
    }

    /// The status that a shell gives it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code).unwrap_or(u8::MAX),
            Self::Killed(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with {code}"),
            Self::Killed(signal) => match signal_hook::low_level::signal_name(*signal) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {signal}"),
            },
        }
    }
}

/// What became of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Ranks that ended by themselves.
    pub(crate) ended: BTreeMap<u32, Ending>,
    /// Ranks that were told to end, and how they did.
    pub(crate) stopped: BTreeMap<u32, Ending>,
    /// The first that failed.
    pub(crate) first_failure: Option<(u32, Ending)>,
    /// The signal that ended the run.
    pub(crate) interrupted: Option<i32>,
}

impl Outcome {
    /// The run's own exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match (self.interrupted, self.first_failure) {
            (Some(signal), _) => Ending::Killed(signal).exit_code(),
            (None, Some((_, ending))) => ending.exit_code(),
            (None, None) => 0,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.ended.values().filter(|ending| ending.is_failure()).count();
        write!(
            f,
            "ranks: {} finished, {failed} failed, {} stopped",
            self.ended.len() - failed,
            self.stopped.len()
        )?;
        if let Some((rank, ending)) = self.first_failure {
            write!(f, "; rank {rank} {ending} first")?;
        }
        Ok(())
    }
}

/// SIGINT, SIGTERM and SIGHUP as bytes in pipes, so that they are events like the ranks' ends.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pipes: Vec<(Signal, UnixStream)>,
}

impl Signals {
    /// Catches the signals from now on, for the rest of the process.
    pub(crate) fn register() -> io::Result<Self> {
        let mut signals = Self::default();
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let writer = signals.add(signal)?;
            signal_hook::low_level::pipe::register(signal.as_raw(), writer)?;
        }
        Ok(signals)
    }

    /// A byte into what comes back is that signal.
    fn add(&mut self, signal: Signal) -> io::Result<UnixStream> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        self.pipes.push((signal, reader));
        Ok(writer)
    }

    /// How often each signal has come since the last time; several of one kind may count as one.
    pub(crate) fn take(&mut self) -> Vec<Signal> {
        let mut taken = Vec::new();
        for (signal, pipe) in &mut self.pipes {
            let mut bytes = [0; 8];
            if let Ok(count) = pipe.read(&mut bytes) {
                taken.extend(std::iter::repeat_n(*signal, count));
            }
        }
        taken
    }
}

/// What a supervisor tells while it works.
pub(crate) trait Audience {
    /// A rank has ended and is about to be forgotten by the kernel.
    fn ended(&mut self, group: u32, running: usize, ended: usize);
    /// Something to say at once.
    fn say(&mut self, text: &str);
}

/// What is done to the ranks that still run, and when.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Instant,
    signal: Signal,
}

/// Watches ranks until all have ended.
pub(crate) struct Supervisor<'a> {
    running: Vec<(u32, Group)>,
    on_failure: OnFailure,
    patience: Patience,
    audience: &'a mut dyn Audience,
    next: Option<Step>,
    stopping: bool,
    outcome: Outcome,
}

impl<'a> Supervisor<'a> {
    pub(crate) fn new(
        ranks: Vec<(u32, Group)>,
        on_failure: OnFailure,
        patience: Patience,
        audience: &'a mut dyn Audience,
    ) -> Self {
        Self {
            running: ranks,
            on_failure,
            patience,
            audience,
            next: None,
            stopping: false,
            outcome: Outcome::default(),
        }
    }

    /// Returns when no rank runs any more.
    pub(crate) fn run(mut self, signals: &mut Signals) -> io::Result<Outcome> {
        while !self.running.is_empty() {
            let ended = self.wait(signals)?;
            // From the back, so that removing one leaves the others' places.
            let mut groups: Vec<(u32, Group)> =
                ended.into_iter().rev().map(|at| self.running.remove(at)).collect();
            groups.reverse();
            for (rank, group) in groups {
                self.collect(rank, group)?;
            }
            for signal in signals.take() {
                self.interrupt(signal);
            }
            self.step();
        }
        Ok(self.outcome)
    }

    /// Sleeps until a rank ends, a signal comes or a step is due; the places of the ranks that ended.
    fn wait(&self, signals: &Signals) -> io::Result<Vec<usize>> {
        let ranks = self.running.iter().map(|(_, group)| PollFd::new(group, PollFlags::IN));
        let pipes = signals.pipes.iter().map(|(_, pipe)| PollFd::new(pipe, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = ranks.chain(pipes).collect();
        let left = self.next.map(|step| step.at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ended =
            fds.iter().take(self.running.len()).enumerate().filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ended.map(|(at, _)| at).collect())
    }

    fn collect(&mut self, rank: u32, mut group: Group) -> io::Result<()> {
        let done = self.outcome.ended.len() + self.outcome.stopped.len() + 1;
        self.audience.ended(group.id(), self.running.len(), done);
        let ending = Ending::of(group.reap()?);
        if self.stopping {
            self.outcome.stopped.insert(rank, ending);
            return Ok(());
        }
        self.outcome.ended.insert(rank, ending);
        if ending.is_failure() && self.outcome.first_failure.is_none() {
            self.outcome.first_failure = Some((rank, ending));
            self.failed(rank, ending);
        }
        Ok(())
    }

    fn failed(&mut self, rank: u32, ending: Ending) {
        let others = match (self.running.len(), self.on_failure) {
            (0, _) => String::new(),
            (1, OnFailure::Continue) => "; 1 other runs on".to_owned(),
            (others, OnFailure::Continue) => format!("; {others} others run on"),
            (others, OnFailure::Kill) => {
                self.next = Some(Step { at: Instant::now() + self.patience.report, signal: Signal::TERM });
                let who = if others == 1 { "1 other".to_owned() } else { format!("{others} others") };
                format!("; {who} may report for {:?} before being stopped", self.patience.report)
            }
        };
        self.audience.say(&format!("fakegpu: rank {rank} {ending}{others}\n"));
    }

    /// The first signal is the ranks' to obey; with the second, patience is over.
    fn interrupt(&mut self, signal: Signal) {
        if self.outcome.interrupted.is_some() {
            self.next = Some(Step { at: Instant::now(), signal: Signal::KILL });
            return;
        }
        self.outcome.interrupted = Some(signal.as_raw());
        self.stopping = true;
        self.signal_all(signal);
        self.next = Some(Step { at: Instant::now() + self.patience.interrupt, signal: Signal::KILL });
    }

    fn step(&mut self) {
        let Some(step) = self.next.filter(|step| step.at <= Instant::now()) else { return };
        self.stopping = true;
        self.signal_all(step.signal);
        self.next = (step.signal == Signal::TERM)
            .then(|| Step { at: Instant::now() + self.patience.terminate, signal: Signal::KILL });
    }

    fn signal_all(&self, signal: Signal) {
        for (_, group) in &self.running {
            group.signal(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[derive(Debug, Default)]
    struct Notes(String);

    impl Audience for Notes {
        fn ended(&mut self, _group: u32, _running: usize, _ended: usize) {}

        fn say(&mut self, text: &str) {
            self.0.push_str(text);
        }
    }

    /// Ranks that run these shell scripts, each ready: a script's first line of output has been read.
    fn ranks(scripts: &[&str]) -> Vec<(u32, Group)> {
        let start = |script: &&str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
            let mut group = Group::start(&mut command).unwrap();
            let mut line = String::new();
            BufReader::new(group.child_mut().stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            group
        };
        (0..).zip(scripts.iter().map(start)).collect()
    }

    /// Short enough not to be waited for; where a test must not get as far, `LONG` stands.
    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(600);

    fn supervised(
        scripts: &[&str],
        on_failure: OnFailure,
        patience: Patience,
        signals: &mut Signals,
    ) -> (Outcome, String) {
        let mut notes = Notes::default();
        let outcome = Supervisor::new(ranks(scripts), on_failure, patience, &mut notes).run(signals).unwrap();
        (outcome, notes.0)
    }

    const IMPATIENT: Patience = Patience { report: SHORT, terminate: SHORT, interrupt: SHORT };

    #[test]
    fn ranks_that_finish_are_a_success() {
        let (outcome, notes) =
            supervised(&["exit 0", "exit 0"], OnFailure::Kill, IMPATIENT, &mut Signals::default());
        assert_eq!((outcome.exit_code(), notes.as_str()), (0, ""));
        assert_eq!(outcome.to_string(), "ranks: 2 finished, 0 failed, 0 stopped");
    }

    #[test]
    fn a_failure_stops_the_others_and_is_the_exit_code() {
        let patience = Patience { report: SHORT, terminate: LONG, interrupt: LONG };
        let scripts = ["echo; exec sleep 600", "echo; exit 7", "echo; exec sleep 600"];
        let (outcome, notes) = supervised(&scripts, OnFailure::Kill, patience, &mut Signals::default());
        assert_eq!(outcome.exit_code(), 7);
        assert_eq!(outcome.to_string(), "ranks: 0 finished, 1 failed, 2 stopped; rank 1 exited with 7 first");
        assert_eq!(outcome.stopped[&0], Ending::Killed(15));
        assert_eq!(
            notes,
            "fakegpu: rank 1 exited with 7; 2 others may report for 1ms before being stopped\n"
        );
    }

    #[test]
    fn ranks_that_ignore_sigterm_are_killed() {
        let stubborn = "trap '' TERM; echo; while :; do sleep 600; done";
        let scripts = [stubborn, "echo; kill -SEGV $$"];
        let (outcome, _) = supervised(&scripts, OnFailure::Kill, IMPATIENT, &mut Signals::default());
        assert_eq!(outcome.exit_code(), 128 + 11);
        assert_eq!(outcome.stopped[&0], Ending::Killed(9));
    }

    #[test]
    fn others_have_time_to_report_their_own_failure() {
        let patience = Patience { report: LONG, terminate: LONG, interrupt: LONG };
        let scripts = ["echo; exit 3", "echo; exit 4"];
        let (outcome, _) = supervised(&scripts, OnFailure::Kill, patience, &mut Signals::default());
        assert_eq!(outcome.ended.len(), 2);
        assert!(outcome.stopped.is_empty());
    }

    #[test]
    fn others_run_to_their_end_where_that_is_asked() {
        let scripts = ["echo; sleep 0.1; exit 0", "echo; exit 9"];
        let (outcome, notes) = supervised(&scripts, OnFailure::Continue, IMPATIENT, &mut Signals::default());
        assert_eq!(outcome.exit_code(), 9);
        assert_eq!(outcome.ended[&0], Ending::Exited(0));
        assert!(notes.ends_with("rank 1 exited with 9; 1 other runs on\n"), "{notes}");
    }

    #[test]
    fn a_signal_is_passed_on_for_ranks_to_obey() {
        let mut signals = Signals::default();
        signals.add(Signal::INT).unwrap().write_all(b"x").unwrap();
        let patience = Patience { report: LONG, terminate: LONG, interrupt: LONG };
        let tidy = "trap 'exit 0' INT; echo; while :; do sleep 600 & wait; done";
        let (outcome, _) = supervised(&[tidy], OnFailure::Kill, patience, &mut signals);
        assert_eq!(outcome.exit_code(), 130);
        assert_eq!(outcome.stopped[&0], Ending::Exited(0));
    }

    #[test]
    fn a_second_signal_kills() {
        let mut signals = Signals::default();
        signals.add(Signal::TERM).unwrap().write_all(b"xx").unwrap();
        let patience = Patience { report: LONG, terminate: LONG, interrupt: LONG };
        let stubborn = "trap '' TERM; echo; while :; do sleep 600; done";
        let (outcome, _) = supervised(&[stubborn], OnFailure::Kill, patience, &mut signals);
        assert_eq!(outcome.exit_code(), 143);
        assert_eq!(outcome.stopped[&0], Ending::Killed(9));
    }
}
