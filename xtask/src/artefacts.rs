//! The release artefacts, laid out as a user finds them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{shell, workspace};

/// `target/fakegpu` and what is in it.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
}

impl Layout {
    pub(crate) fn at_home() -> Self {
        Self { root: workspace::target().join("fakegpu") }
    }

    pub(crate) fn bin(&self, name: &str) -> PathBuf {
        self.root.join("bin").join(name)
    }

    pub(crate) fn lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    pub(crate) fn include(&self) -> PathBuf {
        self.root.join("include")
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.root.join("python")
    }

    pub(crate) fn client(&self, name: &str) -> PathBuf {
        self.root.join("clients").join(name)
    }
}

/// The programs that are laid out, with their packages.
const PROGRAMS: &[(&str, &str)] =
    &[("fakegpu-cli", "fakegpu"), ("fakegpu-coordinatord", "fakegpu-coordinator")];

/// The C and C++ clients: source, then what it is built from besides itself.
const CLIENTS: &[&str] = &["hello.c", "collectives.cpp", "lifecycle.cpp", "pairs.cpp", "life.cpp", "endure.cpp"];

/// Builds everything in release and lays it out.
pub(crate) fn build() -> Result<Layout> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "fakegpu-nccl-shim"]);
    for (package, _) in PROGRAMS {
        cargo.args(["--package", package]);
    }
    shell::run(&mut cargo)?;
    let layout = Layout::at_home();
    let built = workspace::target().join("release");
    for (_, program) in PROGRAMS {
        place(&built.join(program), &layout.bin(program))?;
    }
    place_library(&built.join("libnccl.so"), &layout.lib())?;
    place(&workspace::root().join("cpp/include/nccl.h"), &layout.include().join("nccl.h"))?;
    place_python(&layout.python())?;
    Ok(layout)
}

/// The Python package, so that a PYTHONPATH with this folder is enough: Python finds entry points, by which torch
/// finds the backend, in a `.dist-info` folder beside the package.
fn place_python(folder: &Path) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let source = workspace::root().join("python/fakegpu");
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    for module in workspace::files(&source, ".py") {
        place(&module, &folder.join("fakegpu").join(module.strip_prefix(&source)?))?;
    }
    let info = folder.join(format!("fakegpu-{version}.dist-info"));
    fs::create_dir_all(&info)?;
    fs::write(info.join("METADATA"), format!("Metadata-Version: 2.1\nName: fakegpu\nVersion: {version}\n"))?;
    fs::write(info.join("entry_points.txt"), "[torch.backends]\nfakegpu = fakegpu:autoload\n")?;
    Ok(())
}

/// Copies a file into the layout. The old one is unlinked first: a program that runs it keeps it.
fn place(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)?;
    let fresh = folder.join(format!(".{}.new", std::process::id()));
    fs::copy(from, &fresh).with_context(|| format!("copying {}", from.display()))?;
    fs::rename(&fresh, to).with_context(|| format!("placing {}", to.display()))
}

/// The library under its versioned name, and the links that loaders and linkers look for.
fn place_library(from: &Path, folder: &Path) -> Result<()> {
    let (major, minor, patch) = fakegpu_nccl_abi::VERSION;
    let name = format!("libnccl.so.{major}.{minor}.{patch}");
    place(from, &folder.join(&name))?;
    for link in ["libnccl.so.2", "libnccl.so"] {
        let at = folder.join(link);
        if fs::symlink_metadata(&at).is_ok() {
            fs::remove_file(&at)?;
        }
        symlink(&name, &at).with_context(|| format!("linking {}", at.display()))?;
    }
    Ok(())
}

/// Compiles the clients against the layout, those that changed.
pub(crate) fn build_clients(layout: &Layout) -> Result<()> {
    let sources = workspace::root().join("cpp/clients");
    let mut inputs = workspace::files(&sources, "");
    inputs.push(layout.include().join("nccl.h"));
    for client in CLIENTS {
        let output = layout.client(client.split('.').next().unwrap_or(client));
        if !shell::is_stale(&output, &inputs) {
            continue;
        }
        fs::create_dir_all(output.parent().context("a client has a folder")?)?;
        let is_c = client.ends_with(".c");
        let mut compiler = if is_c { shell::cc()? } else { shell::cxx()? };
        compiler.args(if is_c { ["-std=c11", "-D_GNU_SOURCE"] } else { ["-std=c++17", "-pthread"] });
        compiler.args(["-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(layout.include());
        compiler.arg(sources.join(client)).arg("-o").arg(&output).arg("-L").arg(layout.lib()).arg("-lnccl");
        shell::run(&mut compiler)?;
    }
    Ok(())
}
