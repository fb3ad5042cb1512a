//! The conformance table: every function of the ABI table, what each mode does with it, and the tests that prove it.
//!
//! The functions come from `nccl-abi`, the tests from `matrix/nccl/functions.yaml`; a function without a test there must
//! be one that refuses.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use fakegpu_nccl_abi::{ABI_ROWS, Row, Section};
use serde::Deserialize;

use crate::acceptance;
use crate::workspace::root;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Conformance {
    /// By function: the tests that prove what it does.
    proofs: BTreeMap<String, Vec<String>>,
    /// Functions that refuse, and why.
    refused: BTreeMap<String, String>,
}

fn read() -> Result<Conformance> {
    let path = root().join("matrix/nccl/functions.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_yaml::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

/// Every function is proved or refuses, and every test exists.
pub(crate) fn check(breaches: &mut Vec<String>) -> Result<()> {
    let conformance = read()?;
    let known = |name: &str| ABI_ROWS.iter().any(|row| row.name == name);
    for name in conformance.proofs.keys().chain(conformance.refused.keys()) {
        if !known(name) {
            breaches.push(format!("matrix/nccl/functions.yaml: NCCL has no function `{name}`"));
        }
    }
    for row in ABI_ROWS {
        let at = format!("matrix/nccl/functions.yaml: {}", row.name);
        match (conformance.proofs.get(row.name), conformance.refused.get(row.name)) {
            (None, None) => breaches.push(format!("{at} is neither proved by a test nor refused")),
            (Some(_), Some(_)) => breaches.push(format!("{at} is proved and refused")),
            (Some(tests), None) if tests.is_empty() => breaches.push(format!("{at} names no test")),
            (Some(tests), None) => {
                let missing = tests.iter().filter_map(|test| acceptance::missing(test));
                breaches.extend(missing.map(|why| format!("{at}: {why}")));
            }
            (None, Some(_)) => {}
        }
    }
    Ok(())
}

/// `matrix/nccl/conformance.md`.
pub(crate) fn table() -> Result<String> {
    let conformance = read()?;
    let mut text = String::from(
        "# What becomes of every function of NCCL 2.32\n\n\
         Made by `cargo xtask codegen` from the ABI table and `functions.yaml`. *Since* is the NCCL release that brought the\n\
         function. A `pnccl` twin does the same. Hybrid and proxy are not built yet.\n",
    );
    for section in sections() {
        write!(text, "\n## {}\n\n", section.title())?;
        text.push_str(
            "| function | since | simulate | hybrid | proxy | proved by |\n|---|---|---|---|---|---|\n",
        );
        for row in rows(section) {
            let (state, proof) = match conformance.refused.get(row.name) {
                Some(why) => ("refuses", why.clone()),
                None => ("answers", proofs(&conformance, row)),
            };
            let (major, minor) = row.since;
            writeln!(text, "| `{}` | {major}.{minor} | {state} | – | – | {proof} |", row.name)?;
        }
    }
    Ok(text)
}

fn proofs(conformance: &Conformance, row: &Row) -> String {
    let tests = conformance.proofs.get(row.name).map_or(&[][..], Vec::as_slice);
    let links: Vec<String> = tests
        .iter()
        .map(|test| match test.split_once("::") {
            Some((file, name)) => format!("[{name}](../../{file})"),
            None => format!("[{}](../../{test})", test.rsplit('/').next().unwrap_or(test)),
        })
        .collect();
    links.join(", ")
}

/// The README's part: a line a section.
pub(crate) fn summary() -> Result<String> {
    let conformance = read()?;
    let mut text = String::from("| functions | answered | refused |\n|---|---|---|\n");
    for section in sections() {
        let refused: Vec<_> =
            rows(section).filter(|row| conformance.refused.contains_key(row.name)).collect();
        let all = rows(section).count();
        let why = if refused.is_empty() { String::from("–") } else { refused.len().to_string() };
        writeln!(text, "| {} | {} of {all} | {why} |", section.title(), all - refused.len())?;
    }
    text.push_str(
        "\n[matrix/nccl/conformance.md](matrix/nccl/conformance.md) has every function with the tests that prove it.\n",
    );
    Ok(text)
}

fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = ABI_ROWS.iter().map(|row| row.section).collect();
    sections.dedup();
    sections
}

fn rows(section: Section) -> impl Iterator<Item = &'static Row> {
    ABI_ROWS.iter().filter(move |row| row.section == section)
}
