//! `cargo xtask test`: everything, in order of cost, with a total at the end.

use std::io::{BufRead, BufReader};
use std::ops::AddAssign;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::torch::{self, Torch};
use crate::{acceptance, artefacts, codegen, flake, matrix, shell, tidy, workspace};

/// What a stage found.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

type Stage = (&'static str, fn() -> Result<Tally>);

const STAGES: &[Stage] = &[
    ("fmt", fmt),
    ("tidy", || tidy::run().map(|()| Tally::default())),
    ("codegen", || codegen::run(true).map(|()| Tally::default())),
    ("clippy", clippy),
    ("doc", doc),
    ("build", build),
    ("unit", unit),
    ("doctest", doctest),
    ("matrix", run_matrix),
    ("torch", run_torch),
    ("nix", nix),
];

/// Runs the stages; a failing one does not keep the later ones from being run.
pub(crate) fn run(only: &[String]) -> Result<()> {
    if let Some(unknown) = only.iter().find(|name| !STAGES.iter().any(|(stage, _)| stage == name)) {
        bail!(
            "`{unknown}` is no stage; stages are {}",
            STAGES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        );
    }
    let started = Instant::now();
    let mut total = Tally::default();
    let mut broken = Vec::new();
    for (name, stage) in
        STAGES.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|wanted| wanted == name))
    {
        println!("\n== {name}");
        let begun = Instant::now();
        let tally = stage().unwrap_or_else(|error| {
            eprintln!("error: {name}: {error:#}");
            Tally { failed: 1, ..Tally::default() }
        });
        println!("== {name}: {:.0} s", begun.elapsed().as_secs_f64());
        total += tally;
        if tally.failed > 0 {
            broken.push(*name);
        }
    }
    let (held, later) = acceptance::counts()?;
    println!(
        "\nacceptance: {held} criteria held by tests, {later} for later; {:.0} s in all",
        started.elapsed().as_secs_f64()
    );
    println!("total: {} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    if broken.is_empty() { Ok(()) } else { bail!("stages failed: {}", broken.join(", ")) }
}

fn fmt() -> Result<Tally> {
    shell::run(workspace::cargo().args([
        "fmt",
        "--all",
        "--check",
        "--",
        "--config-path",
        ".config/rustfmt.toml",
    ]))?;
    Ok(Tally::default())
}

fn clippy() -> Result<Tally> {
    shell::run(workspace::cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))?;
    Ok(Tally::default())
}

fn doc() -> Result<Tally> {
    shell::run(
        workspace::cargo()
            .args(["doc", "--workspace", "--no-deps", "--quiet"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    Ok(Tally::default())
}

fn build() -> Result<Tally> {
    let layout = artefacts::build()?;
    artefacts::build_clients(&layout)?;
    Ok(Tally::default())
}

/// Unit and integration tests, each in a process of its own where cargo-nextest is there.
fn unit() -> Result<Tally> {
    let layout = artefacts::Layout::at_home();
    let mut cargo = workspace::cargo();
    if shell::find("cargo-nextest").is_some() {
        cargo.args(["nextest", "run", "--workspace", "--config-file", ".config/nextest.toml"]);
        cargo.args([
            "--no-fail-fast",
            "--status-level",
            "fail",
            "--final-status-level",
            "fail",
            "--hide-progress-bar",
        ]);
        if std::env::var_os("CI").is_some() {
            cargo.args(["--profile", "ci"]);
        }
    } else {
        println!("cargo-nextest is not installed; `cargo test` does as well, one process a crate");
        cargo.args(["test", "--workspace", "--tests", "--lib", "--bins", "--no-fail-fast", "--quiet"]);
    }
    // Programs under test are the ones laid out, the same that a user runs.
    cargo.env("LAYOUT_DIR", &layout.root).env("INSTA_UPDATE", "no").env_remove("FAKEGPU_LOG");
    counted(&mut cargo)
}

fn doctest() -> Result<Tally> {
    counted(workspace::cargo().args(["test", "--workspace", "--doc", "--quiet"]))
}

fn run_matrix() -> Result<Tally> {
    let layout = artefacts::Layout::at_home();
    artefacts::build_clients(&layout)?;
    Ok(Tally { passed: matrix::run_all(&layout)?, ..Tally::default() })
}

/// Python's tests, where torch can be had.
fn run_torch() -> Result<Tally> {
    match torch::set_up(&artefacts::Layout::at_home())? {
        Torch::Tests(mut tests) => counted(&mut tests),
        Torch::Missing(why) => {
            println!("skipped: {why}");
            Ok(Tally { skipped: 1, ..Tally::default() })
        }
    }
}

fn nix() -> Result<Tally> {
    match flake::evaluate()? {
        Some(found) => {
            println!("{found}");
            Ok(Tally { passed: 1, ..Tally::default() })
        }
        None => {
            println!("skipped: no Nix here, and it could not be installed (Debian's package is nix-bin)");
            Ok(Tally { skipped: 1, ..Tally::default() })
        }
    }
}

/// Runs a test runner, passes on what it says, and counts by its closing lines.
fn counted(command: &mut Command) -> Result<Tally> {
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("starting the test runner")?;
    let stdout = child.stdout.take().context("the runner has no output")?;
    let stderr = child.stderr.take().context("the runner has no error output")?;
    let other = std::thread::spawn(move || count_lines(BufReader::new(stdout), false));
    let mut tally = count_lines(BufReader::new(stderr), true);
    tally += other.join().unwrap_or_default();
    let status = child.wait()?;
    if !status.success() && tally.failed == 0 {
        tally.failed = 1;
    }
    Ok(tally)
}

fn count_lines(lines: impl BufRead, is_error: bool) -> Tally {
    let mut tally = Tally::default();
    // Bytes, not lines of text: a failing test may print anything.
    for line in lines.split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        if is_error {
            eprintln!("{line}");
        } else {
            println!("{line}");
        }
        if let Some(found) = closing_line(&line) {
            tally += found;
        }
    }
    tally
}

/// The counts in a runner's closing line: nextest's `Summary … N passed, N failed`, cargo's `test result: …`, and
/// Python's `Ran N tests in … s`, whose failures follow in a line of their own.
fn closing_line(line: &str) -> Option<Tally> {
    if let Some(ran) = line.strip_prefix("Ran ").filter(|rest| rest.contains(" test")) {
        let passed = ran.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        return Some(Tally { passed, ..Tally::default() });
    }
    if !line.trim_start().starts_with("Summary [") && !line.starts_with("test result: ") {
        return None;
    }
    let words: Vec<&str> = line
        .split(|c: char| c.is_whitespace() || ",;:".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let count = |name: &str| {
        words.windows(2).find(|pair| pair[1] == name).and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
    };
    Some(Tally {
        passed: count("passed"),
        failed: count("failed") + count("exec") + count("timed"),
        skipped: count("skipped") + count("ignored"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(usize, usize, usize)>) {
        assert_eq!(closing_line(line).map(|tally| (tally.passed, tally.failed, tally.skipped)), expected);
    }

    #[test]
    fn closing_lines_are_counted_whoever_wrote_them() {
        check("     Summary [   3.123s] 12 tests run: 10 passed, 2 failed, 1 skipped", Some((10, 2, 1)));
        check("     Summary [   3.123s] 12 tests run: 12 passed (1 slow), 0 skipped", Some((12, 0, 0)));
        check(
            "test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out",
            Some((4, 1, 2)),
        );
        check("running 3 tests", None);
    }
}
