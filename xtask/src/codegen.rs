//! Files that are made from code, kept in the repository so that people can read them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::{conformance, readme, workspace};

/// Every generated file with its text.
fn generated() -> Result<Vec<(PathBuf, String)>> {
    let root = workspace::root();
    let readme = root.join("README.md");
    let text = std::fs::read_to_string(&readme).context("reading README.md")?;
    Ok(vec![
        (root.join("cpp/include/nccl.h"), fakegpu_nccl_abi::header::generate()),
        (root.join("crates/report/schema/cluster_report.schema.json"), fakegpu_report::schema()),
        (root.join("matrix/nccl/conformance.md"), conformance::table()?),
        (readme, readme::with_generated_parts(&text)?),
    ])
}

/// Writes the generated files, or checks that they are as they would be written.
pub(crate) fn run(check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for (path, text) in generated()? {
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            continue;
        }
        stale.push(path.strip_prefix(workspace::root()).unwrap_or(&path).display().to_string());
        if !check {
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    match (check, stale.is_empty()) {
        (_, true) => println!("generated files are up to date"),
        (false, false) => println!("wrote {}", stale.join(", ")),
        (true, false) => {
            bail!("{} would change: run `cargo xtask codegen` and commit the result", stale.join(", "))
        }
    }
    Ok(())
}
