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

/// CUDA's libraries with their packages: what cargo calls each, what programs call it, and the link for linkers.
const CUDA_LIBRARIES: &[(&str, &str, &str, Option<&str>)] = &[
    ("fakegpu-cuda-shim", "libcuda.so", "libcuda.so.1", Some("libcuda.so")),
    ("fakegpu-cudart12", "libcudart12.so", "libcudart.so.12", None),
    ("fakegpu-cudart13", "libcudart13.so", "libcudart.so.13", None),
];

/// The C and C++ clients: source, then what it is built from besides itself.
const CLIENTS: &[&str] =
    &["hello.c", "collectives.cpp", "lifecycle.cpp", "pairs.cpp", "life.cpp", "endure.cpp"];

/// The perf client's names; which of them it is called by says what it measures.
const PERF_NAMES: &[&str] = &[
    "all_reduce_perf",
    "all_gather_perf",
    "reduce_scatter_perf",
    "broadcast_perf",
    "reduce_perf",
    "alltoall_perf",
    "gather_perf",
    "scatter_perf",
    "sendrecv_perf",
    "hypercube_perf",
];

/// Builds everything in release and lays it out.
pub(crate) fn build() -> Result<Layout> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "fakegpu-nccl-shim"]);
    let libraries = CUDA_LIBRARIES.iter().map(|(package, ..)| package);
    for package in PROGRAMS.iter().map(|(package, _)| package).chain(libraries) {
        cargo.args(["--package", package]);
    }
    shell::run(&mut cargo)?;
    let layout = Layout::at_home();
    let built = workspace::target().join("release");
    for (_, program) in PROGRAMS {
        place(&built.join(program), &layout.bin(program))?;
    }
    place_library(&built.join("libnccl.so"), &layout.lib())?;
    for (_, file, name, link) in CUDA_LIBRARIES {
        place(&built.join(file), &layout.lib().join(name))?;
        if let Some(link) = link {
            place_link(name, &layout.lib().join(link))?;
        }
    }
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
    // Its modules, and what `fakegpu setup torch` compiles.
    for module in [".py", ".cpp"].iter().flat_map(|kind| workspace::files(&source, kind)) {
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
    ["libnccl.so.2", "libnccl.so"].iter().try_for_each(|link| place_link(&name, &folder.join(link)))
}

/// A link to a file of the same folder, in place of what was there.
fn place_link(name: &str, at: &Path) -> Result<()> {
    if fs::symlink_metadata(at).is_ok() {
        fs::remove_file(at)?;
    }
    symlink(name, at).with_context(|| format!("linking {}", at.display()))
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
    build_perf(layout)
}

/// Compiles the perf client's host build beside the programs, if it changed, and gives it its names. It finds the
/// library from where it is itself, unless another one is named to the loader.
fn build_perf(layout: &Layout) -> Result<()> {
    let sources = workspace::root().join("cpp/perf");
    let program = layout.bin("fakegpu-perf");
    let mut inputs = workspace::files(&sources, "");
    inputs.push(layout.include().join("nccl.h"));
    if shell::is_stale(&program, &inputs) {
        let mut compiler = shell::cxx()?;
        compiler.args(["-std=c++17", "-pthread", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"]);
        compiler.arg(layout.include()).args(workspace::files(&sources, ".cpp")).arg("-o").arg(&program);
        compiler.arg("-L").arg(layout.lib()).args(["-lnccl", "-ldl", "-Wl,-rpath,$ORIGIN/../lib"]);
        shell::run(&mut compiler)?;
    }
    PERF_NAMES.iter().try_for_each(|name| place_link("fakegpu-perf", &layout.bin(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_finds_the_package_and_its_entry_point_in_the_layout() {
        let folder = std::env::temp_dir().join(format!("fakegpu-python-{}", std::process::id()));
        place_python(&folder).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        assert!(folder.join("fakegpu/__init__.py").is_file());
        let info = folder.join(format!("fakegpu-{version}.dist-info"));
        assert!(info.join("METADATA").is_file());
        let entry = fs::read_to_string(info.join("entry_points.txt")).unwrap();
        let project = fs::read_to_string(workspace::root().join("python/pyproject.toml")).unwrap();
        let module = fs::read_to_string(folder.join("fakegpu/__init__.py")).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(entry, "[torch.backends]\nfakegpu = fakegpu:autoload\n");
        assert!(
            project.contains("[project.entry-points.\"torch.backends\"]\nfakegpu = \"fakegpu:autoload\"\n")
        );
        for (text, line) in [(&project, "\nversion = "), (&module, "\n__version__ = ")] {
            assert!(
                text.contains(&format!("{line}\"{version}\"\n")),
                "another version than the workspace's:\n{text}"
            );
        }
    }
}
