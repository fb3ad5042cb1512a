//! The clients built with sanitizers, as a user's program may be: nothing is told of us, nor of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use fakegpu_verification::Layout;

/// A client with the sanitizer in it.
fn built(layout: &Layout, folder: &Path, client: &str, sanitizer: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cpp/clients").join(format!("{client}.cpp"));
    let output = folder.join(client);
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-pthread", "-g", "-O1", &format!("-fsanitize={sanitizer}"), "-I"]);
    command.arg(layout.root().join("include")).arg(source).arg("-o").arg(&output);
    let result = command.arg("-L").arg(layout.lib()).arg("-lnccl").output().expect("a C++ compiler");
    assert!(result.status.success(), "{client}: {}", String::from_utf8_lossy(&result.stderr));
    output
}

/// A rank for each process under `fakegpu run`, or all ranks in one process that is run as it is.
fn command(layout: &Layout, folder: &Path, program: &Path, ranks: u32) -> Command {
    if ranks == 1 {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", layout.lib());
        return command;
    }
    let mut command = Command::new(layout.fakegpu());
    command.arg("run").arg("--report").arg(folder.join("report"));
    command.args(["--ranks-per-node", &ranks.to_string(), "--"]).arg(program);
    command
}

fn is_clean(layout: &Layout, program: &Path, ranks: u32, arguments: &[&str], environment: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = command(layout, folder.path(), program, ranks);
    command.args(arguments).current_dir(folder.path());
    command.env("COLLECTIVES_DIR", folder.path().join("meeting")).envs(environment.iter().copied());
    let result = command.output().expect("running it");
    let told = [result.stdout, result.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    assert!(result.status.success(), "{}: {told}", program.display());
    for word in ["Sanitizer", "runtime error"] {
        assert!(!told.contains(word), "{}: {told}", program.display());
    }
}

fn every_client_is_clean(sanitizer: &str, environment: &[(&str, &str)]) {
    let layout = Layout::find();
    let folder = tempfile::tempdir().expect("a folder");
    let clients: [(&str, u32, &[&str]); 4] = [
        ("lifecycle", 1, &[]),
        ("pairs", 3, &[]),
        ("life", 3, &[]),
        ("collectives", 2, &["--quick", "--dtype", "float32"]),
    ];
    for (client, ranks, arguments) in clients {
        let program = built(&layout, folder.path(), client, sanitizer);
        is_clean(&layout, &program, ranks, arguments, environment);
    }
}

#[test]
fn no_bad_address_and_no_leak() {
    every_client_is_clean("address,undefined", &[]);
}

#[test]
fn no_race() {
    // Our library is not instrumented, so its locks are not seen; and one rule is about a forked child.
    let options = "ignore_noninstrumented_modules=1:die_after_fork=0";
    every_client_is_clean("thread", &[("TSAN_OPTIONS", options)]);
}
