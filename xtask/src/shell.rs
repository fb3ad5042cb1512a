//! Running other programs, and finding them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Runs a command to its end; a failure names it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    let status = command.status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a command and gives its standard output; a failure shows what it said.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// A program on the PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// A C++ compiler, by the usual names.
pub(crate) fn cxx() -> Result<Command> {
    compiler("CXX", &["c++", "g++", "clang++"], "a C++ compiler")
}

/// A C compiler, by the usual names.
pub(crate) fn cc() -> Result<Command> {
    compiler("CC", &["cc", "gcc", "clang"], "a C compiler")
}

fn compiler(variable: &str, names: &[&str], what: &str) -> Result<Command> {
    if let Some(chosen) = std::env::var_os(variable) {
        return Ok(Command::new(chosen));
    }
    let found = names.iter().find_map(|name| find(name));
    found
        .map(Command::new)
        .with_context(|| format!("{what} is needed ({}): install one, or set {variable}", names.join(", ")))
}

/// Whether `output` is missing, or older than any of `inputs`.
pub(crate) fn is_stale(output: &Path, inputs: &[PathBuf]) -> bool {
    let time = |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let Some(built) = time(output) else { return true };
    inputs.iter().any(|input| time(input).is_none_or(|changed| changed > built))
}
