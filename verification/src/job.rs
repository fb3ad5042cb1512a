//! The ranks of a program, started, waited for within a bound, and judged.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::{Daemon, Layout};

/// How long a job may take before it is called hung.
const HUNG: Duration = Duration::from_secs(120);

/// A job to be run.
#[derive(Debug)]
pub struct Job {
    program: PathBuf,
    lib: PathBuf,
    ranks: u32,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    folder: tempfile::TempDir,
    prelude: Option<(u32, String)>,
}

/// What became of one rank.
#[derive(Clone, Debug)]
pub struct RankOutcome {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// What it printed, both streams.
    pub output: String,
}

/// What became of a job.
#[derive(Debug)]
pub struct Outcome {
    /// Each rank.
    pub ranks: Vec<RankOutcome>,
    /// How long it took.
    pub took: Duration,
    /// The folder that the ranks shared, gone with this.
    pub folder: tempfile::TempDir,
}

/// A job that runs.
#[derive(Debug)]
pub struct Running {
    children: Vec<Child>,
    readers: Vec<JoinHandle<String>>,
    started: Instant,
    folder: tempfile::TempDir,
}

impl Job {
    /// The checking client on this many ranks.
    ///
    /// # Panics
    /// Where there is no temporary folder.
    pub fn new(layout: &Layout, ranks: u32, arguments: &[&str]) -> Self {
        Self {
            program: layout.client("collectives"),
            lib: layout.lib(),
            ranks,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            environment: Vec::new(),
            folder: tempfile::tempdir().expect("a temporary folder"),
            prelude: None,
        }
    }

    /// Another program.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = program;
        self
    }

    /// The coordinator to use; without one, the first rank starts its own.
    #[must_use]
    pub fn coordinator(self, daemon: &Daemon) -> Self {
        self.env("FAKEGPU_COORDINATOR_ADDR", daemon.address())
    }

    /// A further variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Shell commands that one rank runs before it becomes the program, such as `ulimit`.
    #[must_use]
    pub fn prelude(mut self, rank: u32, commands: &str) -> Self {
        self.prelude = Some((rank, commands.to_owned()));
        self
    }

    /// The folder that the ranks will share.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// Starts all ranks.
    ///
    /// # Panics
    /// Where a rank cannot be started.
    pub fn start(self) -> Running {
        let started = Instant::now();
        let mut children: Vec<Child> =
            (0..self.ranks).map(|rank| self.command(rank).spawn().expect("starting a rank")).collect();
        let readers = children.iter_mut().map(read_all).collect();
        Running { children, readers, started, folder: self.folder }
    }

    /// Runs to the end.
    pub fn run(self) -> Outcome {
        self.start().wait()
    }

    fn command(&self, rank: u32) -> Command {
        let mut command = match &self.prelude {
            Some((chosen, commands)) if *chosen == rank => {
                let mut shell = Command::new("/bin/sh");
                shell.args([
                    "-c",
                    &format!("{commands}; exec \"$0\" \"$@\""),
                    &self.program.display().to_string(),
                ]);
                shell
            }
            _ => Command::new(&self.program),
        };
        command.args(&self.arguments).current_dir(self.folder.path());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", self.ranks.to_string());
        command.env("COLLECTIVES_DIR", self.folder.path()).env("LD_LIBRARY_PATH", &self.lib);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Reads both streams to their end, so that no rank ever waits for us.
fn read_all(child: &mut Child) -> JoinHandle<String> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        let other = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            err.as_mut().map(|err| err.read_to_end(&mut bytes)).transpose().map(|_| ()).unwrap_or_default();
            bytes
        });
        let mut bytes = Vec::new();
        out.as_mut().map(|out| out.read_to_end(&mut bytes)).transpose().map(|_| ()).unwrap_or_default();
        bytes.extend(other.join().unwrap_or_default());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Running {
    /// Kills a rank without a word.
    pub fn kill(&mut self, rank: usize) {
        // It may have ended by itself already.
        self.children[rank].kill().unwrap_or_default();
    }

    /// The ranks' processes.
    pub fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Waits for all ranks.
    ///
    /// # Panics
    /// Where one hangs.
    pub fn wait(self) -> Outcome {
        self.wait_at_most(HUNG)
    }

    /// Waits for all ranks of a job that may take longer than most.
    ///
    /// # Panics
    /// Where one takes longer than this.
    pub fn wait_at_most(mut self, limit: Duration) -> Outcome {
        let deadline = self.started + limit;
        let mut statuses = Vec::new();
        for at in 0..self.children.len() {
            loop {
                if let Some(status) = self.children[at].try_wait().expect("waiting") {
                    statuses.push(status);
                    break;
                }
                if Instant::now() > deadline {
                    self.children.iter_mut().for_each(|child| child.kill().unwrap_or_default());
                    let outputs: Vec<String> =
                        self.readers.drain(..).map(|reader| reader.join().unwrap_or_default()).collect();
                    panic!("rank {at} hangs; outputs: {outputs:#?}");
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
        let took = self.started.elapsed();
        let outputs = self.readers.into_iter().map(|reader| reader.join().unwrap_or_default());
        let ranks = statuses
            .into_iter()
            .zip(outputs)
            .map(|(status, output)| RankOutcome { code: status.code(), signal: status.signal(), output })
            .collect();
        Outcome { ranks, took, folder: self.folder }
    }
}

impl Outcome {
    /// Every rank must have ended well.
    ///
    /// # Panics
    /// Where one did not; its output is shown.
    #[track_caller]
    pub fn assert_success(&self) {
        for (rank, outcome) in self.ranks.iter().enumerate() {
            assert!(
                outcome.code == Some(0),
                "rank {rank}: {:?} {:?}\n{}",
                outcome.code,
                outcome.signal,
                outcome.output
            );
        }
    }

    /// All output of all ranks.
    pub fn output(&self) -> String {
        self.ranks.iter().map(|rank| rank.output.as_str()).collect()
    }
}
