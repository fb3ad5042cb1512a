//! The coordinator of a run: started, spoken to, and ended with its report written.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use fakegpu_config::Address;
use fakegpu_config::env::PLACEMENT_VARIABLES;
use rustix::process::Signal;

use super::group::{Group, readable_within};
use super::plan::{STALE, Variables, Way};
use crate::{find, speak};

/// How long a coordinator may take to listen, and to write its report.
const PATIENCE: Duration = Duration::from_secs(10);

/// What comes before the address in the line that says the coordinator is ready.
const READY: &str = "fakegpu-coordinator listening on ";

/// What a coordinator is started with.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// Where to listen; port 0 takes a free one.
    pub(crate) address: &'a str,
    pub(crate) token: String,
    /// Where its stderr goes.
    pub(crate) log: PathBuf,
    /// The report's JSON file; `None` writes no report.
    pub(crate) report: Option<&'a Path>,
    pub(crate) cluster_file: Option<&'a str>,
    /// What it inherits.
    pub(crate) base: &'a Variables,
}

/// A running coordinator. Dropping it kills it, report unwritten.
#[derive(Debug)]
pub(crate) struct Coordinator {
    group: Group,
    way: Way,
    log: PathBuf,
}

impl Coordinator {
    /// Starts one and waits until it listens.
    pub(crate) fn start(start: &Start<'_>) -> Result<Self> {
        let binary = find::coordinator()?;
        let log =
            File::create(&start.log).with_context(|| format!("cannot write `{}`", start.log.display()))?;
        let mut command = Command::new(&binary);
        command.args(["--address", start.address]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        command.env_clear().envs(environment(start));
        if start.report.is_none() {
            command.arg("--no-report");
        }
        let mut group = Group::start(&mut command)
            .with_context(|| format!("cannot start the coordinator `{}`", binary.display()))?;
        let address = match ready(&mut group) {
            Ok(address) => address,
            Err(error) => {
                drop(group);
                return Err(error.context(format!("the coordinator did not start{}", said(&start.log))));
            }
        };
        Ok(Self { group, way: Way { address, token: start.token.clone() }, log: start.log.clone() })
    }

    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    /// Its process group.
    pub(crate) fn id(&self) -> u32 {
        self.group.id()
    }

    /// Ends it and waits until its report is written.
    pub(crate) fn stop(mut self) -> Result<()> {
        let request = speak::with_token("SHUTDOWN", &self.way.token);
        if speak::ask(&self.way.address, &request, Duration::from_secs(2)).is_err() {
            self.group.signal(Signal::TERM);
        }
        if !self.group.has_ended_within(PATIENCE)? {
            bail!("the coordinator did not end within {PATIENCE:?} and was killed{}", said(&self.log));
        }
        let status = self.group.reap()?;
        if !status.success() {
            bail!("the coordinator failed ({}){}", told(status), said(&self.log));
        }
        // An empty log is no news.
        if std::fs::metadata(&self.log).is_ok_and(|metadata| metadata.len() == 0) {
            drop(std::fs::remove_file(&self.log));
        }
        Ok(())
    }
}

fn environment(start: &Start<'_>) -> Variables {
    let mut variables = start.base.clone();
    // It is no rank, and must not load the library that ranks load.
    let rank_only = ["LD_PRELOAD", "FAKEGPU_NODE", "FAKEGPU_DIST_MODE", "FAKEGPU_CLUSTER_CONFIG"];
    let placement = PLACEMENT_VARIABLES.iter().map(|variable| variable.name);
    for name in STALE.iter().copied().chain(rank_only).chain(placement) {
        variables.remove(std::ffi::OsStr::new(name));
    }
    variables.insert("FAKEGPU_COORDINATOR_TOKEN".into(), start.token.clone().into());
    if let Some(file) = start.cluster_file {
        variables.insert("FAKEGPU_CLUSTER_CONFIG".into(), file.into());
    }
    if let Some(path) = start.report {
        variables.insert("FAKEGPU_CLUSTER_REPORT_PATH".into(), path.into());
    }
    variables
}

/// The address in the line that says the coordinator is ready.
fn ready(group: &mut Group) -> Result<Address> {
    let deadline = Instant::now() + PATIENCE;
    let Some(stdout) = group.child_mut().stdout.as_mut() else { bail!("it has no stdout") };
    let mut text = Vec::new();
    loop {
        if !readable_within(stdout.as_fd(), deadline)? {
            bail!("it does not listen after {PATIENCE:?}");
        }
        let mut buffer = [0; 512];
        match stdout.read(&mut buffer)? {
            0 => bail!("it ended before it listened"),
            count => text.extend_from_slice(&buffer[..count]),
        }
        let Some(end) = text.iter().position(|byte| *byte == b'\n') else { continue };
        let line = String::from_utf8_lossy(&text[..end]);
        let Some(address) = line.strip_prefix(READY) else {
            bail!("it says `{line}` where its address should be")
        };
        return address.parse().with_context(|| format!("the address `{address}`"));
    }
}

fn told(status: ExitStatus) -> String {
    status.code().map_or_else(|| status.to_string(), |code| format!("exit status {code}"))
}

/// The end of the log, for an error.
fn said(log: &Path) -> String {
    const LINES: usize = 20;
    let Ok(bytes) = std::fs::read(log) else { return String::new() };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() { String::new() } else { format!("; it says:\n  {}\n", last.join("\n  ")) }
}
