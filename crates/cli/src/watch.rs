//! `fakegpu ps` and `fakegpu dump`: what a live job does.
//!
//! Looks, and leaves: no rank notices. How it reads is in [`view`], which knows no socket.

mod view;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use fakegpu_config::Address;
use fakegpu_proto::Snapshot;

use crate::arguments::WatchArguments;
use crate::prose::Ink;
use crate::sockets::{self, Running};
use crate::{say, speak};

/// How long a coordinator may take to answer, and one that is only listed.
const PATIENCE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(500);

/// Where a coordinator is, and the secret it asks for.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    address: Address,
    token: Option<String>,
}

/// Prints what every rank does.
pub(crate) fn ps(arguments: &WatchArguments) -> Result<u8> {
    show(arguments, "fakegpu ps", view::ps)
}

/// Prints everything.
pub(crate) fn dump(arguments: &WatchArguments) -> Result<u8> {
    show(arguments, "fakegpu dump", view::dump)
}

fn show(arguments: &WatchArguments, program: &str, view: fn(&Snapshot, Ink) -> String) -> Result<u8> {
    let target = target(arguments, &sockets::coordinators(), |one| glance(arguments, one, program))?;
    let snapshot = speak::inspect(&target.address, target.token, program, PATIENCE)?;
    if arguments.json {
        say::out(&format!("{}\n", serde_json::to_string_pretty(&snapshot)?));
    } else {
        say::out(&view(&snapshot, Ink { coloured: say::is_coloured() }));
    }
    Ok(0)
}

/// What a coordinator's job looks like, in a few words, so that the one that is meant is recognised.
fn glance(arguments: &WatchArguments, one: &Running, program: &str) -> Option<String> {
    let address = one.address.parse().ok()?;
    let snapshot = speak::inspect(&address, token_for(arguments, one), program, GLANCE).ok()?;
    Some(view::glance(&snapshot))
}

/// The token for a coordinator that was found and not named. Anybody can give a socket such a name, so a secret is
/// shown only to a process that is known to be this user's.
fn token_for(arguments: &WatchArguments, found: &Running) -> Option<String> {
    let pid = found.pid?;
    said_token(arguments).or_else(|| sockets::token_of(pid))
}

fn said_token(arguments: &WatchArguments) -> Option<String> {
    arguments.token.clone().or_else(|| variable("FAKEGPU_COORDINATOR_TOKEN"))
}

/// The coordinator that is meant: the one named, else the only one.
fn target(
    arguments: &WatchArguments,
    running: &[Running],
    glance: impl Fn(&Running) -> Option<String>,
) -> Result<Target> {
    let named = match &arguments.address {
        Some(address) => Some(("--address", address.clone())),
        None => variable("FAKEGPU_COORDINATOR_ADDR").map(|address| ("FAKEGPU_COORDINATOR_ADDR", address)),
    };
    let Some((whence, text)) = named else {
        let found = only(running, glance)?;
        let address = found.address.parse().context("the coordinator's own address")?;
        return Ok(Target { address, token: token_for(arguments, found) });
    };
    let found = running.iter().find(|running| running.address == text);
    let token = said_token(arguments).or_else(|| token_for(arguments, found?));
    Ok(Target { address: text.parse().context(whence)?, token })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn only(running: &[Running], glance: impl Fn(&Running) -> Option<String>) -> Result<&Running> {
    match running {
        [] => bail!(
            "no coordinator of this user runs on this machine; one elsewhere, or of another user, is named by --address"
        ),
        [one] => Ok(one),
        several => {
            let width = several.iter().map(|one| one.address.chars().count()).max().unwrap_or(0);
            let line = |one: &Running| {
                let pid = one.pid.map(|pid| format!("pid {pid}"));
                let known: Vec<String> = pid.into_iter().chain(glance(one)).collect();
                let line = format!("\n  --address {:<width$}  {}", one.address, known.join(": "));
                line.trim_end().to_owned()
            };
            let lines: String = several.iter().map(line).collect();
            bail!("{} coordinators run; say which one:{lines}", several.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(address: &str, pid: Option<u32>) -> Running {
        Running { address: address.to_owned(), pid }
    }

    fn arguments(address: Option<&str>) -> WatchArguments {
        WatchArguments { address: address.map(str::to_owned), token: Some("t".to_owned()), json: false }
    }

    fn told(address: Option<&str>, running: &[Running]) -> Result<String, String> {
        let glance = |one: &Running| one.pid.map(|_| "4 ranks of train, 3 wait".to_owned());
        match target(&arguments(address), running, glance) {
            Ok(target) => Ok(target.address.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    #[test]
    fn a_token_is_shown_to_who_was_named_or_is_this_user_s_process_and_to_nobody_else() {
        let token = |address: Option<&str>, pid| {
            let all = [running("@fakegpu-run-1-a", pid)];
            target(&arguments(address), &all, |_| None).unwrap().token
        };
        assert_eq!(token(None, None), None);
        assert_eq!(token(None, Some(1)).as_deref(), Some("t"));
        assert_eq!(token(Some("@fakegpu-run-1-a"), None).as_deref(), Some("t"));
        assert_eq!(token(Some("127.0.0.1:9"), None).as_deref(), Some("t"));
    }

    #[test]
    fn the_one_that_is_named_is_meant_else_the_only_one() {
        let all = [running("@fakegpu-run-1-a", None), running("@fakegpu-23-b", Some(7))];
        assert_eq!(told(Some("127.0.0.1:9"), &all).unwrap(), "127.0.0.1:9");
        assert_eq!(told(None, &all[..1]).unwrap(), "@fakegpu-run-1-a");
        insta::assert_snapshot!(told(None, &all).unwrap_err(), @"
        2 coordinators run; say which one:
          --address @fakegpu-run-1-a
          --address @fakegpu-23-b     pid 7: 4 ranks of train, 3 wait
        ");
        insta::assert_snapshot!(told(None, &[]).unwrap_err(), @"no coordinator of this user runs on this machine; one elsewhere, or of another user, is named by --address");
        insta::assert_snapshot!(told(Some("here"), &[]).unwrap_err(), @"--address: `here` is neither an absolute path, an @abstract-name nor host:port");
    }
}
