//! `verification/acceptance.yaml`: what the product promises, row by row, each with the test that holds it.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::workspace::root;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Acceptance {
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// What it belongs to.
    step: String,
    /// What must hold.
    criterion: String,
    /// The tests that hold it: `path/to/file.rs::name`, or a `.py`, `.cpp` or `.yaml` file.
    #[serde(default)]
    tests: Vec<String>,
    /// Why there is none yet.
    #[serde(default)]
    later: Option<String>,
}

fn read() -> Result<Acceptance> {
    let path = root().join("verification/acceptance.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    serde_yaml::from_str(&text).with_context(|| format!("reading {}", path.display()))
}

/// Every row names tests that exist, or says why it has none.
pub(crate) fn check(breaches: &mut Vec<String>) -> Result<()> {
    for row in read()?.rows {
        let at = format!("verification/acceptance.yaml, {}: `{}`", row.step, row.criterion);
        match (row.tests.is_empty(), &row.later) {
            (true, None) => breaches.push(format!("{at} names no test and no reason")),
            (false, Some(_)) => breaches.push(format!("{at} names tests and a reason why there are none")),
            _ => {}
        }
        for test in row.tests {
            if let Some(why) = missing(&test) {
                breaches.push(format!("{at}: {why}"));
            }
        }
    }
    Ok(())
}

/// Why a test cannot be what is meant, if it cannot.
pub(crate) fn missing(test: &str) -> Option<String> {
    let (file, name) = test.split_once("::").map_or((test, None), |(file, name)| (file, Some(name)));
    let Ok(text) = std::fs::read_to_string(root().join(file)) else {
        return Some(format!("there is no file `{file}`"));
    };
    let name = name?;
    let is_test = text.contains(&format!("fn {name}(")) || text.contains(&format!("name: {name}"));
    (!is_test).then(|| format!("`{file}` has no test `{name}`"))
}

/// How many rows are held by a test, and how many wait.
pub(crate) fn counts() -> Result<(usize, usize)> {
    let rows = read()?.rows;
    let held = rows.iter().filter(|row| !row.tests.is_empty()).count();
    Ok((held, rows.len() - held))
}
