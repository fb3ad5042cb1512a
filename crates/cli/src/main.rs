//! `fakegpu`: runs a program as the ranks of a virtual cluster, checks what was written for it, says what the machine
//! can do, and tells what a job does or why it failed.
//!
//! A shell around other rooms: no rule of matching, timing or faults is here, and no file format but the lines that
//! it prints. Everything a run starts is ended by the run, whatever becomes of it.
//!
//! Read [`arguments`] first (what can be asked), then [`run`] (one run from flags to table), then
//! [`run::supervise`] (how ranks end), then [`explain`] and [`watch`] (a failed run, and a live one, for people).
//!
//! ```text
//! fakegpu run --nodes 2 --ranks-per-node 4 -- ./train --steps 10
//! ```
//!
//! Sources: the variables that ranks see follow torchrun and Open MPI; exit codes above 128 follow the shell.
#![forbid(unsafe_code)]

mod arguments;
mod check;
mod doctor;
mod explain;
mod find;
mod prose;
mod rebuild;
mod run;
mod say;
mod setup;
mod sockets;
mod speak;
mod watch;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use fakegpu_config::Cluster;

use arguments::{Arguments, SetupWhat, Verb};

/// Wrong flags, files that cannot be read or are mistaken, a machine that lacks what a run needs.
const EXIT_MISTAKE: u8 = 2;

fn main() -> ExitCode {
    match carry_out(Arguments::parse().verb) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say::err(&format!("fakegpu: {error:#}\n"));
            ExitCode::from(EXIT_MISTAKE)
        }
    }
}

fn carry_out(verb: Verb) -> Result<u8> {
    match verb {
        Verb::Run(arguments) => run::run(&arguments),
        Verb::Exec(arguments) => run::exec(&arguments),
        Verb::Setup { what: SetupWhat::Torch(arguments) } => setup::setup(&arguments),
        Verb::Check(arguments) => check::check(&arguments),
        Verb::Doctor => doctor::doctor(),
        Verb::Explain(arguments) => explain::explain(&arguments),
        Verb::Report(arguments) => rebuild::rebuild(&arguments),
        Verb::Ps(arguments) => watch::ps(&arguments),
        Verb::Dump(arguments) => watch::dump(&arguments),
        Verb::Coordinator { arguments } => Err(become_coordinator(&arguments)),
        Verb::Env => Ok(said(&fakegpu_config::env::markdown_table())),
        Verb::Presets => Ok(said(&presets())),
        Verb::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "fakegpu", &mut script);
            say::out_bytes(&script);
            Ok(0)
        }
        Verb::Warden => run::warden::watch().map(|()| 0),
    }
}

fn said(text: &str) -> u8 {
    say::out(text);
    0
}

fn presets() -> String {
    let summaries: Vec<String> = Cluster::presets()
        .iter()
        .filter_map(|name| Some(format!("preset {name}\n{}", Cluster::preset(name)?.summary())))
        .collect();
    summaries.join("\n")
}

/// Returns only where the coordinator cannot take this process over.
fn become_coordinator(arguments: &[std::ffi::OsString]) -> anyhow::Error {
    let binary = match find::coordinator() {
        Ok(binary) => binary,
        Err(error) => return error,
    };
    let error = Command::new(&binary).args(arguments).exec();
    Err::<(), _>(error)
        .with_context(|| format!("cannot run `{}`", binary.display()))
        .expect_err("exec returns only errors")
}
