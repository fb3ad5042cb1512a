//! The tests that need PyTorch, in a virtual environment that is kept between runs.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::artefacts::Layout;
use crate::{shell, workspace};

/// The torch that the tests run with.
const VERSION: &str = "2.15.0";

/// How the tests can be run, or why they cannot.
pub(crate) enum Torch {
    /// With this command.
    Tests(Command),
    /// Not here.
    Missing(String),
}

/// Sets torch up, if it is not there already: outside the checkout, by version, since it is large.
pub(crate) fn set_up(layout: &Layout) -> Result<Torch> {
    if shell::find("python3").is_none() {
        return Ok(Torch::Missing("there is no python3".to_owned()));
    }
    let venv = cache().join(format!("torch-{VERSION}"));
    let mut setup = Command::new(layout.bin("fakegpu"));
    setup.args(["setup", "torch", "--venv"]).arg(&venv).args(["--version", &format!("=={VERSION}")]);
    let status = setup.status().context("running `fakegpu setup torch`")?;
    if !status.success() {
        // The next run must not take half an environment for a whole one.
        drop(std::fs::remove_dir_all(&venv));
        return Ok(Torch::Missing(
            "`fakegpu setup torch` could not install it; its words are above".to_owned(),
        ));
    }
    let mut tests = Command::new(venv.join("bin/python"));
    tests.args(["-m", "unittest", "discover", "--start-directory", "tests", "--top-level-directory", "."]);
    tests.current_dir(workspace::root().join("python"));
    tests.env("FAKEGPU_LAYOUT", &layout.root).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(Torch::Tests(tests))
}

/// The user's cache.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| value.as_os_str() != OsStr::new(""));
    let cache = set("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || set("HOME").map_or_else(std::env::temp_dir, PathBuf::from).join(".cache");
    cache.unwrap_or_else(home).join("fakegpu")
}
