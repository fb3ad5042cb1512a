//! The wheel: the Python package with the programs, libraries and header in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::artefacts::{self, Layout};
use crate::{shell, workspace};

/// What a linker reads where it looks for `-lnccl`: a wheel holds no links, and a copy would be as large as the library.
const LINKER_SCRIPT: &str = "INPUT(libnccl.so.2)\n";

/// Builds the wheel, installs it into a fresh virtual environment and tries it; gives its path.
pub(crate) fn run() -> Result<PathBuf> {
    let layout = artefacts::build()?;
    let folder = workspace::target().join("wheel");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("clearing {}", folder.display()))?;
    }
    let source = folder.join("source");
    stage(&layout, &source)?;
    let python = shell::find("python3").context("there is no python3 to build the wheel with")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]).arg(&folder).arg(&source);
    shell::run(&mut pip)?;
    let wheel = wheel_in(&folder)?;
    try_it(&python, &folder.join("venv"), &wheel)?;
    Ok(wheel)
}

/// Lays the package out as pip is to find it.
fn stage(layout: &Layout, to: &Path) -> Result<()> {
    let python = workspace::root().join("python");
    let package = to.join("fakegpu");
    for name in ["pyproject.toml", "setup.py", "README.md"] {
        copy(&python.join(name), &to.join(name))?;
    }
    let modules = layout.python().join("fakegpu");
    for module in [".py", ".cpp"].iter().flat_map(|kind| workspace::files(&modules, kind)) {
        copy(&module, &package.join(module.strip_prefix(&modules)?))?;
    }
    for program in ["fakegpu", "fakegpu-coordinator"] {
        copy(&layout.bin(program), &package.join("bin").join(program))?;
    }
    for library in ["libnccl.so.2", "libcuda.so.1", "libcudart.so.12", "libcudart.so.13"] {
        let at = package.join("lib").join(library);
        copy(&layout.lib().join(library), &at)?;
        strip(&at)?;
    }
    fs::write(package.join("lib/libnccl.so"), LINKER_SCRIPT)?;
    copy(&layout.include().join("nccl.h"), &package.join("include/nccl.h"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::copy(from, to).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}

/// Takes the debug information out, which is most of a library.
fn strip(library: &Path) -> Result<()> {
    match shell::find("strip") {
        Some(strip) => shell::run(Command::new(strip).arg("--strip-debug").arg(library)),
        None => Ok(()),
    }
}

fn wheel_in(folder: &Path) -> Result<PathBuf> {
    match workspace::files(folder, ".whl").as_slice() {
        [wheel] => Ok(wheel.clone()),
        wheels => bail!("pip left {} wheels in {}, not one", wheels.len(), folder.display()),
    }
}

/// Installs the wheel where nothing else is, and runs what a user would.
fn try_it(python: &Path, venv: &Path, wheel: &Path) -> Result<()> {
    shell::run(Command::new(python).args(["-m", "venv"]).arg(venv))?;
    let bin = venv.join("bin");
    let mut pip = Command::new(bin.join("pip"));
    shell::run(pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-index"]).arg(wheel))?;
    let program = "import fakegpu.nccl as nccl, os; nccl.library(); print('rank', os.environ['RANK'], 'has its library')";
    let mut run = Command::new(bin.join("fakegpu"));
    run.args(["run", "--ranks-per-node", "2", "--report"]).arg(venv.join("report")).arg("--");
    run.arg(bin.join("python")).args(["-c", program]);
    // Nothing of the checkout may help.
    for variable in ["PYTHONPATH", "LD_LIBRARY_PATH", "FAKEGPU_LIB_DIR", "FAKEGPU_COORDINATOR_BIN"] {
        run.env_remove(variable);
    }
    shell::run(run.current_dir(venv))
}
