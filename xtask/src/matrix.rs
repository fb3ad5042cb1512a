//! The matrix: which modes run which programs on how many ranks, as data, run and shown.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::artefacts::{self, Layout};
use crate::{shell, workspace};

/// One file of matrix/.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sheet {
    claim: String,
    program: String,
    arguments: Vec<String>,
    ranks: Vec<u32>,
    nodes: Vec<u32>,
    modes: Vec<Mode>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mode {
    name: String,
    what: String,
    #[serde(default)]
    not_built: bool,
}

/// One job.
#[derive(Debug)]
struct Cell {
    name: String,
    mode: String,
    ranks: u32,
    nodes: u32,
    program: String,
    arguments: Vec<String>,
    not_built: bool,
}

/// How a cell went.
#[derive(Debug)]
enum Outcome {
    Passed(Duration),
    Failed(String),
    NotBuilt,
}

fn sheets() -> Result<Vec<Sheet>> {
    let folder = workspace::root().join("matrix");
    // Folders below hold other tables.
    let is_sheet = |path: &PathBuf| path.parent() == Some(folder.as_path());
    let files: Vec<_> = workspace::files(&folder, ".yaml").into_iter().filter(is_sheet).collect();
    ensure!(!files.is_empty(), "matrix/ holds no sheet");
    files
        .iter()
        .map(|path| {
            let text = std::fs::read_to_string(path)?;
            serde_yaml::from_str(&text).with_context(|| format!("reading {}", path.display()))
        })
        .collect()
}

fn cells(sheets: &[Sheet]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for sheet in sheets {
        for mode in &sheet.modes {
            for &ranks in &sheet.ranks {
                for &nodes in sheet.nodes.iter().filter(|&&nodes| ranks % nodes == 0) {
                    cells.push(Cell {
                        name: format!("{}-{}-{nodes}x{}", sheet.program, mode.name, ranks / nodes),
                        mode: mode.name.clone(),
                        ranks,
                        nodes,
                        program: sheet.program.clone(),
                        arguments: sheet.arguments.clone(),
                        not_built: mode.not_built,
                    });
                }
            }
        }
    }
    cells
}

/// Runs the cells, prints a table, and fails if one failed.
pub(crate) fn run(filter: Option<&str>, list: bool) -> Result<()> {
    let all = cells(&sheets()?);
    let chosen: Vec<&Cell> =
        all.iter().filter(|cell| filter.is_none_or(|part| cell.name.contains(part))).collect();
    ensure!(!chosen.is_empty(), "no cell's name contains `{}`", filter.unwrap_or_default());
    if list {
        for cell in chosen {
            println!("{}{}", cell.name, if cell.not_built { " (not built yet)" } else { "" });
        }
        return Ok(());
    }
    let layout = artefacts::build()?;
    artefacts::build_clients(&layout)?;
    run_cells(&layout, &chosen).map(|_| ())
}

/// How many cells passed.
pub(crate) fn run_all(layout: &Layout) -> Result<usize> {
    let all = cells(&sheets()?);
    run_cells(layout, &all.iter().collect::<Vec<_>>())
}

fn run_cells(layout: &Layout, cells: &[&Cell]) -> Result<usize> {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    table.set_header(["cell", "ranks", "nodes", "outcome"]);
    let (mut passed, mut failed) = (0, Vec::new());
    for cell in cells {
        let outcome = run_cell(layout, cell);
        let shown = match &outcome {
            Outcome::Passed(took) => format!("passed in {:.1} s", took.as_secs_f64()),
            Outcome::Failed(why) => format!("FAILED: {why}"),
            Outcome::NotBuilt => "not built yet".to_owned(),
        };
        table.add_row([cell.name.clone(), cell.ranks.to_string(), cell.nodes.to_string(), shown]);
        match outcome {
            Outcome::Passed(_) => passed += 1,
            Outcome::Failed(_) => failed.push(cell.name.as_str()),
            Outcome::NotBuilt => {}
        }
    }
    println!("{table}");
    if !failed.is_empty() {
        bail!("cells failed: {}", failed.join(", "));
    }
    Ok(passed)
}

fn run_cell(layout: &Layout, cell: &Cell) -> Outcome {
    if cell.not_built {
        return Outcome::NotBuilt;
    }
    let started = Instant::now();
    match try_cell(layout, cell) {
        Ok(()) => Outcome::Passed(started.elapsed()),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn try_cell(layout: &Layout, cell: &Cell) -> Result<()> {
    let folder: PathBuf = layout.root.join("matrix").join(&cell.name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let mut job = Command::new(layout.bin("fakegpu"));
    job.args(["run", "--mode", &cell.mode, "--nodes", &cell.nodes.to_string()]);
    job.args(["--ranks-per-node", &(cell.ranks / cell.nodes).to_string(), "--report"]).arg(&folder);
    job.arg("--").arg(layout.client(&cell.program)).args(&cell.arguments).arg("--dir").arg(&folder);
    shell::output(&mut job)?;
    check_report(&folder, cell)
}

/// The report must know the job that was run.
fn check_report(folder: &std::path::Path, cell: &Cell) -> Result<()> {
    let text = std::fs::read_to_string(folder.join("cluster_report.json")).context("reading the report")?;
    let report: serde_json::Value = serde_json::from_str(&text).context("reading the report")?;
    let number = |path: &str| {
        report
            .pointer(path)
            .and_then(serde_json::Value::as_u64)
            .with_context(|| format!("the report has no {path}"))
    };
    ensure!(number("/cluster/world_size")? == u64::from(cell.ranks), "the report has another world size");
    ensure!(
        number("/cluster/node_count")? == u64::from(cell.nodes),
        "the report has another number of nodes"
    );
    ensure!(number("/resilience/failure_count")? == 0, "the report has failures");
    for op in [
        "all_reduce",
        "reduce",
        "broadcast",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "gather",
        "scatter",
    ] {
        ensure!(number(&format!("/collectives/{op}/calls"))? > 0, "the report has no {op}");
    }
    Ok(())
}

/// The README's table of what runs where.
pub(crate) fn readme_table() -> Result<String> {
    let mut table = String::new();
    for sheet in sheets()? {
        table.push_str(&format!("`{}`: {}.\n\n| mode |", sheet.program, sheet.claim));
        sheet.ranks.iter().for_each(|ranks| table.push_str(&format!(" {ranks} ranks |")));
        table.push_str(" |\n|---|");
        sheet.ranks.iter().for_each(|_| table.push_str("---|"));
        table.push_str("---|\n");
        for mode in &sheet.modes {
            table.push_str(&format!("| {} |", mode.name));
            for ranks in &sheet.ranks {
                let shapes: Vec<String> = sheet
                    .nodes
                    .iter()
                    .filter(|&nodes| ranks % nodes == 0)
                    .map(|nodes| format!("{nodes}×{}", ranks / nodes))
                    .collect();
                table.push_str(&if mode.not_built {
                    " not built yet |".to_owned()
                } else {
                    format!(" {} |", shapes.join(", "))
                });
            }
            table.push_str(&format!(" {} |\n", mode.what));
        }
    }
    Ok(table)
}
