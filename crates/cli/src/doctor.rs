//! `fakegpu doctor`: what works on this machine, and what to do about what does not.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{ContentArrangement, Table, presets};
use fakegpu_config::env::{PLACEMENT_VARIABLES, VARIABLES};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create, statvfs};
use rustix::process::{Resource, getrlimit};

use crate::run::coordinator::{Coordinator, Start};
use crate::{check, find, run, say, setup, speak};

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ok,
    /// Runs work, some of them slower or smaller.
    Warn,
    /// Nothing runs without it.
    Missing,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Missing => "missing",
        }
    }
}

/// One thing looked at.
#[derive(Debug)]
struct Row {
    what: &'static str,
    state: State,
    seen: String,
    advice: &'static str,
}

impl Row {
    fn ok(what: &'static str, seen: impl Into<String>) -> Self {
        Self { what, state: State::Ok, seen: seen.into(), advice: "" }
    }

    fn warn(what: &'static str, seen: impl Into<String>, advice: &'static str) -> Self {
        Self { what, state: State::Warn, seen: seen.into(), advice }
    }

    fn missing(what: &'static str, seen: impl Into<String>, advice: &'static str) -> Self {
        Self { what, state: State::Missing, seen: seen.into(), advice }
    }
}

/// Looks at everything and prints it; 1 where something is missing.
pub(crate) fn doctor() -> Result<u8> {
    let rows = [
        kernel(),
        cpus(),
        memory(),
        memfd(),
        dev_shm(),
        uring(),
        abstract_sockets(),
        descriptors(),
        limit(
            "locked memory",
            Resource::Memlock,
            4 << 20,
            "io_uring registers no buffers: raise `ulimit -l`",
        ),
        limit("file size", Resource::Fsize, 64 << 20, "segments may not grow: raise `ulimit -f`"),
        library(),
        coordinator(),
        program("python", &["python3", "python"], "PyTorch programs need it; others do not"),
        torch(),
        torch_functions(),
        driver(),
        environment(),
    ];
    say::out(&format!("{}\n", table(&rows)));
    let variables = variables();
    if !variables.is_empty() {
        say::out(&format!("\nset in this shell:\n{variables}"));
    }
    Ok(u8::from(rows.iter().any(|row| row.state == State::Missing)))
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["state", "what", "seen", "what to do"]);
    table.add_rows(rows.iter().map(|row| [row.state.name(), row.what, &row.seen, row.advice]));
    table.trim_fmt()
}

fn kernel() -> Row {
    let name = rustix::system::uname();
    let seen = format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    // pidfd_open(2) and process groups' ends by poll(2) came with 5.3.
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= (5, 3) => Row::ok("kernel", seen),
        _ => Row::missing("kernel", seen, "use Linux 5.3 or newer"),
    }
}

fn cpus() -> Row {
    match std::thread::available_parallelism() {
        Ok(count) => Row::ok("cpus", count.to_string()),
        Err(error) => Row::warn("cpus", error.to_string(), "ranks share whatever there is"),
    }
}

fn memory() -> Row {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    match (kib("MemAvailable"), kib("MemTotal")) {
        (Some(available), Some(total)) => {
            let seen = format!("{} MiB free of {} MiB", available >> 10, total >> 10);
            if available >> 10 >= 256 {
                Row::ok("memory", seen)
            } else {
                Row::warn("memory", seen, "each rank takes up to 16 MiB for staging")
            }
        }
        _ => Row::warn("memory", "unknown", "mount /proc"),
    }
}

fn memfd() -> Row {
    let sealed = || -> rustix::io::Result<()> {
        let file = memfd_create("fakegpu-doctor", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, 4096)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
    };
    match sealed() {
        Ok(()) => Row::ok("memfd", "made and sealed"),
        Err(error) => {
            Row::warn("memfd", error.to_string(), "tensors are streamed through sockets, which is slower")
        }
    }
}

fn dev_shm() -> Row {
    match statvfs("/dev/shm") {
        Ok(status) => Row::ok(
            "/dev/shm",
            format!(
                "{} MiB; FakeGPU does not use it, PyTorch's loaders do",
                (status.f_blocks * status.f_frsize) >> 20
            ),
        ),
        Err(error) => {
            Row::warn("/dev/shm", error.to_string(), "PyTorch's data loaders need it; FakeGPU does not")
        }
    }
}

fn uring() -> Row {
    const ADVICE: &str = "plain sockets are used instead; containers often forbid io_uring";
    match io_uring::IoUring::new(8) {
        Ok(_) => Row::ok("io_uring", "available"),
        Err(error) => {
            let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").unwrap_or_default();
            let why = match (error.raw_os_error(), disabled.trim()) {
                (Some(38), _) => "not in this kernel, or filtered out".to_owned(),
                (_, level @ ("1" | "2")) => format!("switched off: kernel.io_uring_disabled is {level}"),
                _ => error.to_string(),
            };
            Row::warn("io_uring", why, ADVICE)
        }
    }
}

fn abstract_sockets() -> Row {
    use std::os::linux::net::SocketAddrExt;
    let bound = SocketAddr::from_abstract_name(format!("fakegpu-doctor-{}", std::process::id()))
        .and_then(|address| UnixListener::bind_addr(&address));
    match bound {
        Ok(_) => Row::ok("abstract sockets", "bound"),
        Err(error) => {
            Row::missing("abstract sockets", error.to_string(), "allow unix sockets in this sandbox")
        }
    }
}

fn descriptors() -> Row {
    let limit = getrlimit(Resource::Nofile);
    let seen = format!("{} soft, {} hard", shown(limit.current), shown(limit.maximum));
    if limit.maximum.is_none_or(|maximum| maximum >= 1024) {
        Row::ok("open files", seen)
    } else {
        Row::warn("open files", seen, "many ranks need more: raise `ulimit -Hn`")
    }
}

fn limit(what: &'static str, resource: Resource, least: u64, advice: &'static str) -> Row {
    let current = getrlimit(resource).current;
    if current.is_none_or(|current| current >= least) {
        Row::ok(what, shown(current))
    } else {
        Row::warn(what, shown(current), advice)
    }
}

fn shown(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}

fn library() -> Row {
    const ADVICE: &str = "keep `lib` beside `bin`, or set FAKEGPU_LIB_DIR";
    match find::library() {
        Ok(path) => {
            let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
            let seen = format!("{}, {} KiB", path.display(), size >> 10);
            if is_elf(&path) {
                Row::ok("library", seen)
            } else {
                Row::missing("library", format!("{seen}, no shared library"), ADVICE)
            }
        }
        Err(error) => Row::missing("library", error.to_string(), ADVICE),
    }
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

fn coordinator() -> Row {
    const ADVICE: &str = "keep it beside `fakegpu`, or set FAKEGPU_COORDINATOR_BIN";
    match answers() {
        Ok(seen) => Row::ok("coordinator", seen),
        Err(error) => Row::missing("coordinator", format!("{error:#}"), ADVICE),
    }
}

/// Starts a coordinator, asks whether it is there, and ends it.
fn answers() -> Result<String> {
    let binary = find::coordinator()?;
    let address = format!("@fakegpu-doctor-{}-{}", std::process::id(), run::random_hex::<6>()?);
    let log = std::env::temp_dir().join(format!("fakegpu-doctor-{}.log", std::process::id()));
    let base =
        std::env::vars_os().filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"FAKEGPU_")).collect();
    let started = Coordinator::start(&Start {
        address: &address,
        token: run::random_hex::<16>()?,
        log: log.clone(),
        report: None,
        cluster_file: None,
        base: &base,
    });
    let asked = started.and_then(|coordinator| {
        let answer = speak::ask(&coordinator.way().address, "PING", Duration::from_secs(5));
        coordinator.stop().context("it answers, but does not stop")?;
        answer
    });
    drop(fs::remove_file(log));
    Ok(format!("{}, says {}", binary.display(), asked?.trim_start_matches("OK ")))
}

fn program(what: &'static str, names: &[&str], advice: &'static str) -> Row {
    match names.iter().find_map(|name| find::on_path(OsStr::new(name))) {
        Some(path) => Row::ok(what, path.display().to_string()),
        None => Row::warn(what, "not on PATH", advice),
    }
}

/// Whether Python finds PyTorch; looked up, not imported, which takes seconds.
fn torch() -> Row {
    const ADVICE: &str = "`fakegpu setup torch --venv DIR` installs it";
    match torch_package() {
        Ok(package) => {
            let version = fs::read_to_string(package.join("version.py")).unwrap_or_default();
            torch_of(&version, &package)
        }
        Err(why) => Row::warn("torch", why, ADVICE),
    }
}

/// Where torch is, or why there is none.
fn torch_package() -> std::result::Result<PathBuf, &'static str> {
    const SCRIPT: &str = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')";
    let python = ["python3", "python"].iter().find_map(|name| find::on_path(OsStr::new(name)));
    let output = std::process::Command::new(python.ok_or("no python")?).args(["-c", SCRIPT]).output();
    let origin = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let origin = origin.map_err(|_| "not installed")?;
    Path::new(&origin).parent().map(Path::to_path_buf).ok_or("not installed")
}

/// Whether our libraries have what torch's ask for.
fn torch_functions() -> Row {
    const NAME: &str = "torch's CUDA";
    let Ok(package) = torch_package() else { return Row::ok(NAME, "no torch to look at") };
    match setup::missing(&package) {
        Ok(missing) if missing.is_empty() => Row::ok(NAME, "every function that it links is here"),
        Ok(missing) => {
            let some = missing.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
            let seen = format!("{} functions are not here: {some}", missing.len());
            Row::warn(NAME, seen, "use a torch for CUDA 12 or 13 that was tested (README)")
        }
        Err(error) => {
            Row::warn(NAME, format!("{error:#}"), "set FAKEGPU_LIB_DIR to the folder of our libraries")
        }
    }
}

/// What torch's own version file says.
fn torch_of(version: &str, package: &Path) -> Row {
    let quoted = |start: &str| {
        let line = version.lines().find_map(|line| line.strip_prefix(start))?;
        line.split('\'').nth(1)
    };
    let name = quoted("__version__").unwrap_or("of unknown version");
    let at = package.display();
    match quoted("cuda") {
        Some(cuda) if cuda.starts_with("12.") || cuda.starts_with("13.") => {
            Row::ok("torch", format!("{name} for CUDA {cuda}, {at}"))
        }
        Some(cuda) => {
            Row::warn("torch", format!("{name} for CUDA {cuda}, {at}"), "FakeGPU has CUDA 12 and 13")
        }
        None => Row::warn(
            "torch",
            format!("{name} without CUDA, {at}"),
            "use the backend `fakegpu`, or a torch with CUDA",
        ),
    }
}

fn driver() -> Row {
    match fs::read_to_string("/proc/driver/nvidia/version") {
        Ok(text) => Row::ok("nvidia driver", text.lines().next().unwrap_or_default().trim().to_owned()),
        Err(_) => Row::ok("nvidia driver", "none, and none is needed"),
    }
}

fn environment() -> Row {
    match check::settings(std::env::vars_os()) {
        Ok(_) => Row::ok("environment", "no mistakes"),
        Err(_) => Row::warn("environment", "has mistakes", "`fakegpu check --env` names them"),
    }
}

/// The variables that are set, with what they are for.
fn variables() -> String {
    let told = |variable: &&fakegpu_config::env::Variable| {
        let value = std::env::var_os(variable.name).filter(|value| !value.is_empty())?;
        let value =
            if variable.name.ends_with("TOKEN") { "(not shown)".into() } else { value.to_string_lossy() };
        Some(format!("  {}={value}\n      {}\n", variable.name, variable.meaning))
    };
    VARIABLES.iter().chain(PLACEMENT_VARIABLES).collect::<Vec<_>>().iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_it_stands_and_what_to_do() {
        let rows = [Row::ok("kernel", "Linux 6.1"), Row::missing("library", "not there", "install it")];
        assert_eq!(
            table(&rows),
            " state    what     seen       what to do\n ok       kernel   Linux 6.1\n missing  library  not there  install it"
        );
    }

    #[test]
    fn torch_is_told_by_its_cuda() {
        let row = |cuda: &str| {
            let text = format!("__version__ = '2.15.0+x'\ndebug = False\ncuda: Optional[str] = {cuda}\n");
            let row = torch_of(&text, Path::new("/site/torch"));
            format!("{} {} {}", row.state.name(), row.seen, row.advice)
        };
        assert_eq!(row("'13.2'"), "ok 2.15.0+x for CUDA 13.2, /site/torch ");
        assert_eq!(row("'11.8'"), "warn 2.15.0+x for CUDA 11.8, /site/torch FakeGPU has CUDA 12 and 13");
        assert!(row("None").contains("without CUDA"));
    }
}
