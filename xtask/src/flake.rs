//! `flake.nix`, as far as a machine without nixpkgs can check it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{shell, workspace};

/// The flake must take its toolchain from the file that cargo reads.
pub(crate) fn check(breaches: &mut Vec<String>) -> Result<()> {
    let text = std::fs::read_to_string(workspace::root().join("flake.nix")).context("reading flake.nix")?;
    if !text.contains("./rust-toolchain.toml") {
        breaches.push("flake.nix does not read rust-toolchain.toml".to_owned());
    }
    Ok(())
}

/// Parses the flakes, and evaluates them with a stub in place of nixpkgs. `None` where there is no Nix.
pub(crate) fn evaluate() -> Result<Option<String>> {
    if shell::find("nix-instantiate").is_none() && !install() {
        return Ok(None);
    }
    let root = workspace::root();
    for flake in ["flake.nix", "matrix/flake.nix"] {
        shell::output(Command::new("nix-instantiate").arg("--parse").arg(root.join(flake)))?;
    }
    let scratch = workspace::target().join("nix");
    std::fs::create_dir_all(&scratch)?;
    let stub = write_stub(&scratch)?;
    let main = copy_flake(&root, &scratch.join("main"))?;
    let shell_name = nix(
        &scratch,
        &[
            "eval",
            "--raw",
            &format!("path:{main}#devShells.x86_64-linux.default.name"),
            "--override-input",
            "nixpkgs",
            &stub,
        ],
    )?;
    let cells =
        nix(&scratch, &["eval", "--json", &format!("path:{}#lib.cells", root.join("matrix").display())])?;
    let cells: Vec<serde_json::Value> = serde_json::from_str(&cells).context("reading the flake's cells")?;
    Ok(Some(format!(
        "the development shell evaluates to `{}`, the matrix flake lists {} cells",
        shell_name.trim(),
        cells.len()
    )))
}

/// Debian has Nix; where we may install it, we do.
fn install() -> bool {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|proc| std::os::unix::fs::MetadataExt::uid(&proc) == 0);
    if !is_root || shell::find("apt-get").is_none() {
        return false;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        shell::output(&mut command).is_ok()
    };
    let install = ["install", "-y", "-q", "--no-install-recommends", "nix-bin"];
    apt(&install) || (apt(&["update", "-q"]) && apt(&install))
}

fn nix(scratch: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("nix");
    command.args(["--extra-experimental-features", "nix-command flakes", "--offline"]).args(arguments);
    // Everything it writes stays in our target folder; nothing is fetched.
    command
        .env("HOME", scratch)
        .env("XDG_CACHE_HOME", scratch.join("cache"))
        .env("NIX_CONFIG", "substituters =");
    shell::output(&mut command)
}

/// A flake in nixpkgs' place, with just the functions that ours calls.
fn write_stub(scratch: &Path) -> Result<String> {
    let folder = scratch.join("stub");
    std::fs::create_dir_all(&folder)?;
    let text = r#"{
  outputs = { self }: {
    legacyPackages.x86_64-linux = {
      mkShell = arguments: { name = arguments.name; type = "derivation"; };
      rustup = "rustup"; gcc = "gcc"; cmake = "cmake"; python3 = "python3"; cargo-nextest = "cargo-nextest"; cargo-deny = "cargo-deny";
    };
  };
}
"#;
    std::fs::write(folder.join("flake.nix"), text)?;
    Ok(format!("path:{}", folder.display()))
}

/// The flake and the file it reads, apart from the repository: a path flake copies everything beside it.
fn copy_flake(root: &Path, to: &Path) -> Result<String> {
    std::fs::create_dir_all(to)?;
    for name in ["flake.nix", "rust-toolchain.toml"] {
        std::fs::copy(root.join(name), to.join(name)).with_context(|| format!("copying {name}"))?;
    }
    Ok(to.display().to_string())
}
