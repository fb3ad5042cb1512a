//! Rules that a compiler does not check. Each is a sentence; a breach prints it with the place.

use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::{Package, files, packages, root};
use crate::{acceptance, conformance, flake};

/// The rooms, from the words up; a room may depend on rooms of lower layers only.
const LAYERS: &[(&str, &[&str])] = &[
    ("words", &["fakegpu-units", "fakegpu-nccl-abi", "fakegpu-cuda-abi", "fakegpu-proto", "fakegpu-config"]),
    (
        "cores",
        &[
            "fakegpu-coordinator",
            "fakegpu-rank",
            "fakegpu-fabric",
            "fakegpu-faults",
            "fakegpu-executor",
            "fakegpu-report",
            "fakegpu-stubs",
            "fakegpu-ptx",
        ],
    ),
    (
        "shells",
        &["fakegpu-transport", "fakegpu-transport-uds", "fakegpu-transport-tcp", "fakegpu-staging-shm"],
    ),
    (
        "backends",
        &["fakegpu-simulate", "fakegpu-cuda", "fakegpu-ptx-jit", "fakegpu-hybrid-cuda", "fakegpu-proxy"],
    ),
    (
        "programs",
        &[
            "fakegpu-nccl-shim",
            "fakegpu-cuda-shim",
            "fakegpu-cudart12",
            "fakegpu-cudart13",
            "fakegpu-coordinatord",
            "fakegpu-cli",
        ],
    ),
    ("outside", &["fakegpu-cpp", "fakegpu-testkit", "fakegpu-verification", "xtask"]),
];

/// Edges within one layer that are allowed: words among words, a shell on the transport seam.
fn may_go_sideways(from: &str, to: &str) -> bool {
    layer(from) == 0 || (layer(from) == 2 && to == "fakegpu-transport") || layer(from) == LAYERS.len() - 1
}

/// The layer of a package, 0 for words; outside the list counts as above all.
pub(crate) fn layer(name: &str) -> usize {
    LAYERS.iter().position(|(_, rooms)| rooms.contains(&name)).unwrap_or(LAYERS.len())
}

/// Rooms that may hold `unsafe`, beside which every other lib forbids it.
const UNSAFE_ROOMS: &[&str] = &[
    "fakegpu-nccl-abi",
    "fakegpu-nccl-shim",
    "fakegpu-cuda-abi",
    "fakegpu-cuda-shim",
    "fakegpu-cudart12",
    "fakegpu-cudart13",
    "fakegpu-staging-shm",
    "fakegpu-cuda",
    "fakegpu-ptx-jit",
    "fakegpu-executor",
    "fakegpu-cpp",
    "fakegpu-verification",
];

/// What the repository must not hold: it speaks of the product only.
const FORBIDDEN_WORDS: &[&str] = &["/wo\u{72}k/", "/ro\u{6f}t/", "TO\u{44}O", "XX\u{58}"];

/// Runs every rule.
pub(crate) fn run() -> Result<()> {
    let packages = packages()?;
    let mut breaches = Vec::new();
    for package in &packages {
        layering(package, &mut breaches);
        manifest(package, &mut breaches);
        sources(package, &mut breaches)?;
    }
    words(&mut breaches)?;
    acceptance::check(&mut breaches)?;
    conformance::check(&mut breaches)?;
    flake::check(&mut breaches)?;
    if breaches.is_empty() {
        println!("tidy: {} packages are in order", packages.len());
        return Ok(());
    }
    for breach in &breaches {
        eprintln!("tidy: {breach}");
    }
    bail!("{} breaches", breaches.len())
}

fn layering(package: &Package, breaches: &mut Vec<String>) {
    let name = package.name.as_str();
    if layer(name) == LAYERS.len() {
        breaches.push(format!(
            "{name} stands in no layer: add it to the list in xtask/src/tidy.rs and to crates/README.md"
        ));
    }
    let ours = package
        .dependencies
        .iter()
        .filter(|dependency| dependency.path.is_some() && dependency.kind.as_deref() != Some("dev"));
    for dependency in ours {
        let (from, to) = (layer(name), layer(&dependency.name));
        if to > from || (to == from && !may_go_sideways(name, &dependency.name)) {
            breaches.push(format!(
                "{name} ({}) depends on {} ({}): dependencies point down the layers of crates/README.md",
                LAYERS.get(from).map_or("no layer", |layer| layer.0),
                dependency.name,
                LAYERS.get(to).map_or("no layer", |layer| layer.0),
            ));
        }
        if dependency.name == "fakegpu-testkit" {
            breaches.push(format!("{name} depends on fakegpu-testkit: it is a dev-dependency only"));
        }
    }
}

fn manifest(package: &Package, breaches: &mut Vec<String>) {
    let text = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
    if !text.contains("[lints]\nworkspace = true") {
        breaches.push(format!("{} does not take the workspace's lints", package.manifest_path.display()));
    }
    let described = text.lines().any(|line| line.starts_with("description = ") && line.len() > 40);
    if !described {
        breaches.push(format!("{} has no description of a sentence", package.manifest_path.display()));
    }
    let folder = package.folder();
    let named = folder.file_name().is_some_and(|folder| package.name.ends_with(&*folder.to_string_lossy()));
    if !named {
        breaches.push(format!(
            "{} lies in {}: a folder carries its package's name",
            package.name,
            folder.display()
        ));
    }
}

fn sources(package: &Package, breaches: &mut Vec<String>) -> Result<()> {
    let folder = package.folder();
    for path in files(&folder.join("src"), ".rs").into_iter().chain(files(&folder.join("tests"), ".rs")) {
        let text = std::fs::read_to_string(&path)?;
        if !text.starts_with("//!") {
            breaches.push(format!("{} does not open with `//!`", path.display()));
        }
    }
    library(package, breaches)
}

fn library(package: &Package, breaches: &mut Vec<String>) -> Result<()> {
    let lib = package.folder().join("src/lib.rs");
    let Ok(text) = std::fs::read_to_string(&lib) else { return Ok(()) };
    let name = package.name.as_str();
    if !UNSAFE_ROOMS.contains(&name) && !text.contains("#![forbid(unsafe_code)]") {
        breaches.push(format!(
            "{} does not forbid unsafe code; rooms that may hold it are listed in xtask/src/tidy.rs",
            lib.display()
        ));
    }
    if layer(name) <= 1 && !text.contains("#![warn(missing_docs)]") {
        breaches.push(format!("{} is a word or core and does not warn of missing docs", lib.display()));
    }
    if layer(name) <= 4 && !text.contains("//! Sources:") {
        breaches.push(format!("{} does not name its sources", lib.display()));
    }
    if layer(name) == 1 && !package.folder().join("clippy.toml").exists() && name != "fakegpu-executor" {
        breaches.push(format!("{name} is a core without a clippy.toml that keeps clocks and hash maps out"));
    }
    Ok(())
}

/// No word of machines or of how the work was done.
fn words(breaches: &mut Vec<String>) -> Result<()> {
    let endings = [".rs", ".md", ".toml", ".yaml", ".c", ".cpp", ".hpp", ".h", ".py", ".nix"];
    let all: Vec<_> = endings.iter().flat_map(|ending| files(&root(), ending)).collect();
    for path in all {
        let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        for (at, line) in text.lines().enumerate() {
            if let Some(word) = FORBIDDEN_WORDS.iter().find(|word| line.contains(**word)) {
                breaches.push(format!("{}:{} holds `{word}`", shown(&path), at + 1));
            }
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependency: &str) -> Package {
        let folder = root().join("crates").join(name.trim_start_matches("fakegpu-"));
        let dependency = Dependency { name: dependency.to_owned(), kind: None, path: Some(folder.clone()) };
        Package {
            name: name.to_owned(),
            manifest_path: folder.join("Cargo.toml"),
            dependencies: vec![dependency],
        }
    }

    #[track_caller]
    fn check(name: &str, dependency: &str, allowed: bool) {
        let mut breaches = Vec::new();
        layering(&package(name, dependency), &mut breaches);
        assert_eq!(breaches.is_empty(), allowed, "{breaches:?}");
    }

    #[test]
    fn dependencies_point_down_and_sideways_only_where_allowed() {
        check("fakegpu-coordinator", "fakegpu-proto", true);
        check("fakegpu-proto", "fakegpu-units", true);
        check("fakegpu-transport-uds", "fakegpu-transport", true);
        check("fakegpu-coordinator", "fakegpu-fabric", false);
        check("fakegpu-proto", "fakegpu-coordinator", false);
        check("fakegpu-transport", "fakegpu-staging-shm", false);
        check("fakegpu-cli", "fakegpu-coordinatord", false);
        check("fakegpu-simulate", "fakegpu-testkit", false);
    }
}
