//! NCCL's own log lines (`NCCL_DEBUG`), in the form that people and scripts know from it.
//!
//! NCCL writes to standard output unless `NCCL_DEBUG_FILE` names a file. Inside a program, standard output is the
//! program's: these lines go to standard error instead.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::environment::Environment;
use crate::process;

/// The version that is simulated.
pub(crate) const NCCL_VERSION: &str = "2.32.3";

/// How much is written; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    #[default]
    None,
    Version,
    Warn,
    Info,
    Trace,
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subsystem {
    Init,
    Collective,
    PointToPoint,
    Environment,
    Registration,
}

impl Subsystem {
    const ALL: [Self; 5] =
        [Self::Init, Self::Collective, Self::PointToPoint, Self::Environment, Self::Registration];

    const fn name(self) -> &'static str {
        match self {
            Self::Init => "INIT",
            Self::Collective => "COLL",
            Self::PointToPoint => "P2P",
            Self::Environment => "ENV",
            Self::Registration => "REG",
        }
    }
}

/// What `NCCL_DEBUG` and its companions say, and where the lines go.
#[derive(Debug)]
pub(crate) struct DebugLog(Mutex<Log>);

#[derive(Debug)]
struct Log {
    level: Level,
    subsystems: Vec<Subsystem>,
    file: Option<File>,
    has_told_version: bool,
}

impl DebugLog {
    pub(crate) fn new(environment: &Environment) -> Self {
        Self(Mutex::new(Log::new(environment)))
    }

    /// `ncclResetDebugInit`: reads the settings again.
    pub(crate) fn reset(&self, environment: &Environment) {
        *self.lock() = Log::new(environment);
    }

    /// The version, once, at the first communicator.
    pub(crate) fn version(&self) {
        let mut log = self.lock();
        if log.level >= Level::Version && !std::mem::replace(&mut log.has_told_version, true) {
            log.write(&format!(
                "NCCL version {NCCL_VERSION}, simulated by FakeGPU {}",
                env!("CARGO_PKG_VERSION")
            ));
        }
    }

    /// A line about something that goes as it should; made only where it is wanted.
    pub(crate) fn info(&self, about: Subsystem, device: u32, line: impl FnOnce() -> String) {
        let mut log = self.lock();
        if log.level >= Level::Info && log.subsystems.contains(&about) {
            log.write_from(device, "INFO", &line());
        }
    }

    /// A line about something that does not.
    pub(crate) fn warn(&self, device: u32, line: &str) {
        let mut log = self.lock();
        if log.level >= Level::Warn {
            log.write_from(device, "WARN", line);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn new(environment: &Environment) -> Self {
        let level = match environment.get("NCCL_DEBUG").unwrap_or_default().to_ascii_uppercase().as_str() {
            "VERSION" => Level::Version,
            "WARN" => Level::Warn,
            "INFO" | "ABORT" => Level::Info,
            "TRACE" => Level::Trace,
            _ => Level::None,
        };
        let subsystems = subsystems(environment.get("NCCL_DEBUG_SUBSYS").unwrap_or("INIT,BOOTSTRAP,ENV"));
        let file = environment.get("NCCL_DEBUG_FILE").filter(|_| level > Level::Version).and_then(|name| {
            let name = expand(name);
            File::create(&name)
                .inspect_err(|error| tracing::warn!("NCCL_DEBUG_FILE: `{name}` cannot be written: {error}"))
                .ok()
        });
        Self { level, subsystems, file, has_told_version: false }
    }

    fn write_from(&mut self, device: u32, level: &str, line: &str) {
        let host = process::host_name();
        let (pid, thread) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero());
        self.write(&format!("{host}:{pid}:{thread} [{device}] NCCL {level} {line}"));
    }

    fn write(&mut self, line: &str) {
        let line = format!("{line}\n");
        let written = match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
        // A log that cannot be written is nobody's failure.
        drop(written);
    }
}

/// The subsystems of a list: names, `ALL`, and with `^` in front all but those.
fn subsystems(list: &str) -> Vec<Subsystem> {
    let (is_inverted, list) = list.strip_prefix('^').map_or((false, list), |rest| (true, rest));
    let names: Vec<String> = list.split(',').map(|name| name.trim().to_ascii_uppercase()).collect();
    let is_named = |subsystem: &Subsystem| {
        names.iter().any(|name| name == "ALL" || name == subsystem.name()) != is_inverted
    };
    Subsystem::ALL.into_iter().filter(is_named).collect()
}

/// A file's name with `%h` and `%p` filled in.
fn expand(name: &str) -> String {
    name.replace("%h", &process::host_name()).replace("%p", &std::process::id().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(vars: &[(&str, &str)]) -> (DebugLog, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log-%p").to_str().unwrap().to_owned();
        let own = [("NCCL_DEBUG_FILE", file.as_str())];
        let vars = vars.iter().chain(&own);
        let environment =
            Environment::read(vars.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        (DebugLog::new(&environment), folder)
    }

    fn text(folder: &tempfile::TempDir) -> String {
        std::fs::read_to_string(folder.path().join(format!("log-{}", std::process::id()))).unwrap_or_default()
    }

    #[test]
    fn lines_look_like_nccls() {
        let (log, folder) = log(&[("NCCL_DEBUG", "INFO")]);
        log.info(Subsystem::Init, 3, || "comm Init COMPLETE".to_owned());
        log.info(Subsystem::Collective, 3, || "AllReduce".to_owned());
        log.warn(3, "no");
        let (text, host, pid) = (text(&folder), process::host_name(), std::process::id());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with(&format!("{host}:{pid}:")), "{text}");
        assert!(lines[0].ends_with(" [3] NCCL INFO comm Init COMPLETE"), "{text}");
        assert!(lines[1].ends_with(" [3] NCCL WARN no"), "{text}");
    }

    #[test]
    fn without_a_level_nothing_is_written() {
        let (log, folder) = log(&[]);
        log.warn(0, "no");
        log.version();
        assert_eq!(text(&folder), "");
    }

    #[test]
    fn subsystems_are_a_list_all_or_all_but() {
        assert_eq!(subsystems("coll, p2p"), [Subsystem::Collective, Subsystem::PointToPoint]);
        assert_eq!(subsystems("ALL"), Subsystem::ALL);
        assert!(!subsystems("^COLL").contains(&Subsystem::Collective));
    }
}
