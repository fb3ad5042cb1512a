//! What there is once a process: the world, which device was used, and what is left to do at the end.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use fakegpu_config::Cluster;
use fakegpu_config::env::{Settings, UnsupportedApi};
use fakegpu_cuda::{Devices, Kernels, Options, Ordinal, World};
use fakegpu_cuda_abi::types::cudaError_t;

use crate::executor::Executor;
use crate::failure::{Failure, Result};

/// The variable by which a program asks for a report.
const REPORT: &str = "FAKEGPU_GPU_REPORT_PATH";

/// The world of this process and what was made of its environment.
#[derive(Debug)]
struct Process {
    world: World,
    settings: Settings,
    /// Where the report goes, if one was asked for.
    report: Option<PathBuf>,
    id: u32,
}

static PROCESS: OnceLock<std::result::Result<Process, Failure>> = OnceLock::new();
/// Devices that were used, one bit each.
static USED: AtomicU64 = AtomicU64::new(0);
/// How often a library recovered from what it had let fail.
static RECOVERIES: AtomicU32 = AtomicU32::new(0);
/// Flags that `cudaSetDeviceFlags` was given; kept and nothing more.
static DEVICE_FLAGS: AtomicU32 = AtomicU32::new(0);

/// The world; made at the first call, never when the library is loaded.
pub(crate) fn world() -> Result<&'static World> {
    process().map(|process| &process.world)
}

fn process() -> Result<&'static Process> {
    PROCESS.get_or_init(make).as_ref().map_err(Clone::clone)
}

fn make() -> std::result::Result<Process, Failure> {
    let wrong = |text: String| Failure::new(cudaError_t::cudaErrorInitializationError, text);
    let settings = Settings::from_vars(variables()).map_err(|mistakes| wrong(mistakes.to_string()))?;
    let cluster = cluster(&settings).map_err(wrong)?;
    let devices = Devices::new(&settings, cluster.as_ref(), variables())?;
    let kernels: Arc<dyn Kernels> = Arc::new(Executor::default());
    let options =
        Options { kernels: Some(kernels), unsupported: settings.gpu.unsupported, warn: Arc::new(warn) };
    let world = World::new(devices, options)?;
    let report = report_path(&settings);
    if report.is_some() {
        at_exit();
    }
    Ok(Process { world, settings, report, id: std::process::id() })
}

/// The cluster that the settings name.
fn cluster(settings: &Settings) -> std::result::Result<Option<Cluster>, String> {
    if let Some(preset) = &settings.preset {
        return Ok(Cluster::preset(preset));
    }
    let Some(path) = &settings.cluster_config else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("the cluster file {path}: {error}"))?;
    Cluster::parse(path, &text).map(Some).map_err(|mistakes| mistakes.to_string())
}

/// The process's environment, as far as it is text.
fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// What a call is that cannot be carried out.
pub(crate) fn unsupported() -> UnsupportedApi {
    process().map_or(UnsupportedApi::Error, |process| process.settings.gpu.unsupported)
}

/// Whether nothing is outstanding and no stream captures: so it is where nothing was ever started.
pub(crate) fn is_idle() -> bool {
    match PROCESS.get() {
        Some(Ok(process)) => process.world.is_idle(),
        Some(Err(_)) | None => true,
    }
}

/// Whether any device was used.
pub(crate) fn is_any_used() -> bool {
    USED.load(Ordering::Relaxed) != 0
}

/// Notes that a device was used.
pub(crate) fn note_use(device: Ordinal) {
    USED.fetch_or(bit(device), Ordering::Relaxed);
}

/// Whether a device was used.
pub(crate) fn is_used(device: Ordinal) -> bool {
    USED.load(Ordering::Relaxed) & bit(device) != 0
}

const fn bit(device: Ordinal) -> u64 {
    // There are at most 64 devices; beyond, one bit stands for several.
    1 << (device.0 % 64)
}

/// Notes that a library recovered from what it had let fail.
pub(crate) fn note_recovery() {
    RECOVERIES.fetch_add(1, Ordering::Relaxed);
}

/// How often that was.
pub(crate) fn recoveries() -> u32 {
    RECOVERIES.load(Ordering::Relaxed)
}

pub(crate) fn device_flags() -> u32 {
    DEVICE_FLAGS.load(Ordering::Relaxed)
}

pub(crate) fn set_device_flags(flags: u32) {
    DEVICE_FLAGS.store(flags, Ordering::Relaxed);
}

/// Says a sentence to whoever reads the program's standard error.
#[expect(clippy::print_stderr, reason = "the one place where this library speaks up; one write a line")]
pub(crate) fn warn(text: &str) {
    eprintln!("fakegpu: warning: {text}");
}

/// Where the report goes. The ranks of a job share a variable, so each puts its number into the name.
fn report_path(settings: &Settings) -> Option<PathBuf> {
    if std::env::var_os(REPORT).is_none_or(|path| path.is_empty()) {
        return None;
    }
    let path = PathBuf::from(&settings.gpu.report);
    let is_shared = settings.placement.is_some_and(|placement| placement.world_size > 1);
    Some(if is_shared { with_number(&path, std::process::id()) } else { path })
}

/// `dir/name.json` as `dir/name.123.json`.
fn with_number(path: &std::path::Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

fn at_exit() {
    // SAFETY: `end` is an `extern "C"` function without arguments that never unwinds, and the library is linked with
    // `nodelete`, so it is still mapped when the process exits.
    let refused = unsafe { libc::atexit(end) };
    if refused != 0 {
        warn("no exit hook could be registered, so there will be no report of this process's GPUs");
    }
}

extern "C" fn end() {
    // A panic must not unwind into libc; there is nobody left to tell.
    drop(std::panic::catch_unwind(|| {
        let Some(Ok(process)) = PROCESS.get() else { return };
        // A child after fork has its parent's memory, but not its work.
        if USED.load(Ordering::Relaxed) == 0 || process.id != std::process::id() {
            return;
        }
        if let Some(path) = &process.report
            && let Err(error) = write_report(&process.world, path)
        {
            warn(&format!(
                "the report of this process's GPUs could not be written to {}: {error}",
                path.display()
            ));
        }
    }));
}

fn write_report(world: &World, path: &std::path::Path) -> std::io::Result<()> {
    let mut text = serde_json::to_string_pretty(&world.report())?;
    text.push('\n');
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_number_stands_before_the_last_dot() {
        assert_eq!(with_number(Path::new("out/gpu.json"), 7), Path::new("out/gpu.7.json"));
        assert_eq!(with_number(Path::new("gpu"), 7), Path::new("gpu.7"));
    }
}
