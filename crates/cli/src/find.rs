//! Where the parts of an installation are: `bin/fakegpu`, `bin/fakegpu-coordinator`, `lib/libnccl.so.2`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{Access, access};

/// The coordinator's file name.
pub(crate) const COORDINATOR: &str = "fakegpu-coordinator";

/// The library's file name.
pub(crate) const LIBRARY: &str = "libnccl.so.2";

/// Names another folder for the library. Read here alone, and not handed on to ranks.
pub(crate) const LIB_DIR: &str = "FAKEGPU_LIB_DIR";

/// The coordinator: beside this program, by `FAKEGPU_COORDINATOR_BIN`, on PATH.
pub(crate) fn coordinator() -> Result<PathBuf> {
    if let Some(beside) = own_folder()?.map(|folder| folder.join(COORDINATOR)).filter(|path| is_program(path))
    {
        return Ok(beside);
    }
    if let Some(path) =
        env::var_os("FAKEGPU_COORDINATOR_BIN").filter(|path| !path.is_empty()).map(PathBuf::from)
    {
        if is_program(&path) {
            return Ok(path);
        }
        bail!("FAKEGPU_COORDINATOR_BIN is `{}`, which is no program", path.display());
    }
    on_path(OsStr::new(COORDINATOR)).with_context(|| {
        format!("`{COORDINATOR}` is neither beside `fakegpu` nor on PATH: install it there, or set FAKEGPU_COORDINATOR_BIN")
    })
}

/// The library: in `FAKEGPU_LIB_DIR`, else in `../lib` beside this program's folder.
pub(crate) fn library() -> Result<PathBuf> {
    let folder = match env::var_os(LIB_DIR).filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => own_folder()?.and_then(|bin| Some(bin.parent()?.join("lib"))).unwrap_or_default(),
    };
    let path = std::path::absolute(folder.join(LIBRARY)).context("the library's folder")?;
    if !path.is_file() {
        bail!(
            "`{}` is not there: keep `lib` beside `bin`, or set {LIB_DIR} to the folder that has it",
            path.display()
        );
    }
    Ok(path)
}

/// CUDA's libraries of ours beside the library of NCCL, as far as they are there.
pub(crate) fn companions(library: &Path) -> Vec<PathBuf> {
    const NAMES: [&str; 3] = ["libcuda.so.1", "libcudart.so.12", "libcudart.so.13"];
    NAMES.iter().map(|name| library.with_file_name(name)).filter(|path| path.is_file()).collect()
}

/// The library and its companions, as the loader is told to load them first.
pub(crate) fn preloads(library: &Path) -> OsString {
    let mut paths = vec![library.to_path_buf()];
    paths.extend(companions(library));
    let texts: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
    texts.join(OsStr::new(":"))
}

/// The program that a command names: a path where it has a slash, else the first of PATH.
pub(crate) fn program(name: &OsStr) -> Result<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.try_exists() {
            Ok(true) if is_program(&path) => Ok(path),
            Ok(true) => bail!("`{}` is not executable", path.display()),
            Ok(false) => bail!("there is no program `{}`", path.display()),
            Err(error) => Err(error).with_context(|| format!("cannot look at `{}`", path.display())),
        };
    }
    on_path(name).with_context(|| {
        let name = name.display();
        format!("there is no program `{name}` on PATH; for one in this folder write `./{name}`")
    })
}

/// The first program of that name on PATH.
pub(crate) fn on_path(name: &OsStr) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| is_program(candidate))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// This program's folder, symlinks resolved, so that a link in `~/bin` finds its installation.
fn own_folder() -> Result<Option<PathBuf>> {
    let own = env::current_exe().context("this program's own path")?;
    let own = own.canonicalize().unwrap_or(own);
    Ok(own.parent().map(Path::to_path_buf))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_a_shell_does() {
        assert!(program(OsStr::new("sh")).unwrap().is_absolute());
        assert!(program(OsStr::new("/bin/sh")).is_ok());
    }

    #[test]
    fn what_is_no_program_is_said_with_what_to_do() {
        let told = |name: &str| program(OsStr::new(name)).unwrap_err().to_string();
        assert_eq!(
            told("no-such-thing"),
            "there is no program `no-such-thing` on PATH; for one in this folder write `./no-such-thing`"
        );
        assert_eq!(told("./no/such"), "there is no program `./no/such`");
        assert_eq!(told("/etc/passwd"), "`/etc/passwd` is not executable");
    }
}
