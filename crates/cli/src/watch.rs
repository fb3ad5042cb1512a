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

/// How long a coordinator may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

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
    let target = target(arguments, &sockets::coordinators())?;
    let snapshot = speak::inspect(&target.address, target.token, program, PATIENCE)?;
    if arguments.json {
        say::out(&format!("{}\n", serde_json::to_string_pretty(&snapshot)?));
    } else {
        say::out(&view(&snapshot, Ink { coloured: say::is_coloured() }));
    }
    Ok(0)
}

/// The coordinator that is meant: the one named, else the only one.
fn target(arguments: &WatchArguments, running: &[Running]) -> Result<Target> {
    let named = match &arguments.address {
        Some(address) => Some(("--address", address.clone())),
        None => variable("FAKEGPU_COORDINATOR_ADDR").map(|address| ("FAKEGPU_COORDINATOR_ADDR", address)),
    };
    let text = match &named {
        Some((_, address)) => address,
        None => &only(running)?.address,
    };
    let whence = named.as_ref().map_or("the coordinator's own address", |(whence, _)| whence);
    let address = text.parse().context(whence.to_owned())?;
    let of_process = || {
        let found = running.iter().find(|running| running.address == *text)?;
        sockets::token_of(found.pid?)
    };
    let token = arguments.token.clone().or_else(|| variable("FAKEGPU_COORDINATOR_TOKEN")).or_else(of_process);
    Ok(Target { address, token })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn only(running: &[Running]) -> Result<&Running> {
    match running {
        [] => bail!(
            "no coordinator of this user runs on this machine; one elsewhere, or of another user, is named by --address"
        ),
        [one] => Ok(one),
        several => {
            let line = |one: &Running| match one.pid {
                Some(pid) => format!("\n  --address {}   (pid {pid})", one.address),
                None => format!("\n  --address {}", one.address),
            };
            let lines: String = several.iter().map(line).collect();
            bail!("{} coordinators run; say which one:{lines}", several.len())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(address: &str) -> Running {
        Running { address: address.to_owned(), pid: None }
    }

    fn arguments(address: Option<&str>) -> WatchArguments {
        WatchArguments { address: address.map(str::to_owned), token: Some("t".to_owned()), json: false }
    }

    fn told(address: Option<&str>, running: &[Running]) -> Result<String, String> {
        match target(&arguments(address), running) {
            Ok(target) => Ok(target.address.to_string()),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    #[test]
    fn the_one_that_is_named_is_meant_else_the_only_one() {
        let all = [running("@fakegpu-run-1-a"), running("@fakegpu-run-2-b")];
        assert_eq!(told(Some("127.0.0.1:9"), &all).unwrap(), "127.0.0.1:9");
        assert_eq!(told(None, &all[..1]).unwrap(), "@fakegpu-run-1-a");
        insta::assert_snapshot!(told(None, &all).unwrap_err(), @"
        2 coordinators run; say which one:
          --address @fakegpu-run-1-a
          --address @fakegpu-run-2-b
        ");
        insta::assert_snapshot!(told(None, &[]).unwrap_err(), @"no coordinator of this user runs on this machine; one elsewhere, or of another user, is named by --address");
        insta::assert_snapshot!(told(Some("here"), &[]).unwrap_err(), @"--address: `here` is neither an absolute path, an @abstract-name nor host:port");
    }
}
