//! `fakegpu check`: files and variables, read as a run would read them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fakegpu_config::cluster::MAX_BYTES;
use fakegpu_config::{Cluster, Settings};

use crate::arguments::CheckArguments;
use crate::{EXIT_MISTAKE, say};

/// Prints what a file or the environment comes to, or every mistake in it.
pub(crate) fn check(arguments: &CheckArguments) -> Result<u8> {
    let mut mistaken = false;
    if let Some(path) = &arguments.file {
        match read_cluster(path) {
            Ok(cluster) => say::out(&cluster.summary()),
            Err(error) => {
                mistaken = true;
                say::err(&format!("{error:#}\n"));
            }
        }
    }
    if arguments.env {
        if arguments.file.is_some() && !mistaken {
            say::out("\n");
        }
        match environment() {
            Ok(settings) => say::out(&settings.explain()),
            Err(error) => {
                mistaken = true;
                say::err(&format!("{error:#}\n"));
            }
        }
    }
    Ok(if mistaken { EXIT_MISTAKE } else { 0 })
}

/// The cluster that a file describes.
pub(crate) fn read_cluster(path: &Path) -> Result<Cluster> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    Cluster::parse(&name, &text).map_err(|mistakes| anyhow::anyhow!("{}", mistakes.to_string().trim_end()))
}

/// A file's text. No more is read than a cluster file may have, so that `/dev/zero` is an error, not a hang.
fn read_text(path: &Path) -> Result<String> {
    let told = || format!("cannot read `{}`", path.display());
    let file = File::open(path).with_context(told)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).with_context(told)?;
    if bytes.len() > MAX_BYTES {
        bail!("`{}` is larger than {MAX_BYTES} bytes, which no cluster file is", path.display());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("`{}` is not UTF-8 text: byte {at} belongs to no character", path.display())
    })
}

/// What this process's environment says.
fn environment() -> Result<Settings> {
    settings(std::env::vars_os())
}

/// What variables say. Those that are not text are refused if they are FakeGPU's, and none of its business
/// otherwise.
pub(crate) fn settings(
    vars: impl IntoIterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Result<Settings> {
    let mut readable = Vec::new();
    for (name, value) in vars {
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => readable.push((name, value)),
            (Ok(name), Err(_)) if name.starts_with("FAKEGPU_") => bail!("{name} is not UTF-8 text"),
            _ => {}
        }
    }
    Settings::from_vars(readable).map_err(|mistakes| anyhow::anyhow!("{}", mistakes.to_string().trim_end()))
}
