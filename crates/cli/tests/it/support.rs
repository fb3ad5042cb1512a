//! Running the binaries.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program under test.
pub(crate) fn fakegpu() -> Command {
    let built = std::env::var_os("NEXTEST_BIN_EXE_fakegpu")
        .map_or_else(|| env!("CARGO_BIN_EXE_fakegpu").into(), PathBuf::from);
    let mut command = Command::new(built);
    // The tests' own surroundings are not the cases'.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FAKEGPU_") {
            command.env_remove(name);
        }
    }
    for name in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    command
}

/// Where the coordinator was built: named by `cargo xtask test`, or beside `fakegpu`.
pub(crate) fn coordinator() -> PathBuf {
    let folder = std::env::var_os("LAYOUT_DIR").map_or_else(
        || Path::new(env!("CARGO_BIN_EXE_fakegpu")).parent().unwrap().to_path_buf(),
        |layout| Path::new(&layout).join("bin"),
    );
    let path = folder.join("fakegpu-coordinator");
    assert!(path.is_file(), "`{}` is not built: run the tests by `cargo xtask test`", path.display());
    path
}

/// A place of a test's own, with a library that stands for `libnccl.so.2`: the programs of these tests call no NCCL.
pub(crate) struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libnccl.so.2"), "").unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A program of the desk's own, copied from elsewhere.
    ///
    /// By another process: what we had open for writing, a child that another test's thread forks right now would hold
    /// until it executes, and nobody can execute a file that somebody writes.
    pub(crate) fn program(&self, name: &str, from: impl AsRef<OsStr>) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("cp").arg(from).arg(&path).status().unwrap().success());
        assert!(Command::new("chmod").arg("+x").arg(&path).status().unwrap().success());
        path
    }

    /// `fakegpu run` with these flags, on a shell script.
    pub(crate) fn run(&self, flags: &str, script: &str) -> Command {
        let mut command = fakegpu();
        command.env("FAKEGPU_LIB_DIR", self.folder.path()).args(["run", "--report"]).arg(self.path("out"));
        command.args(flags.split_ascii_whitespace()).args(["--", "sh", "-c", script]);
        command
    }
}

/// What a command said and how it ended; the loader's complaint about our stand-in library is not its business.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

#[track_caller]
pub(crate) fn said(command: &mut Command) -> Said {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| -> String {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.split_inclusive('\n').filter(|line| !line.contains("ERROR: ld.so: object")).collect()
    };
    Said { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
