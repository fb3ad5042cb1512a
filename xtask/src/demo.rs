//! The main job, as a newcomer sees it.

use std::process::Command;

use anyhow::Result;

use crate::{artefacts, shell};

/// Builds all and runs the checking client as 8 ranks on 2 virtual nodes.
pub(crate) fn run() -> Result<()> {
    let layout = artefacts::build()?;
    artefacts::build_clients(&layout)?;
    let folder = layout.root.join("demo");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    println!("\nA C++ program written against NCCL, unmodified, as 8 ranks on 2 virtual nodes:\n");
    let mut job = Command::new(layout.bin("fakegpu"));
    job.args(["run", "--nodes", "2", "--ranks-per-node", "4", "--no-prefix", "--report"])
        .arg(&folder)
        .arg("--");
    // One element, a count that fits nothing, and a tensor of more than one chunk; the time goes into the
    // client's own arithmetic, which checks every element eight times over.
    job.arg(layout.client("collectives")).args(["--sizes", "1,7777,300000", "--dir"]).arg(&folder);
    shell::run(&mut job)?;
    println!(
        "\nYour own program: {} run --nodes 2 --ranks-per-node 4 -- ./your-program",
        layout.bin("fakegpu").display()
    );
    Ok(())
}
