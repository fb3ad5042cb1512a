//! What a process knows about itself.

use std::path::{Path, PathBuf};

use fakegpu_proto::Fault;

/// Names the machine, user and network namespace: processes with equal names can hand each other memory over
/// a private socket.
pub(crate) fn host_identity() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{name}/{}/{}/{}", boot.trim(), network.display(), rustix::process::geteuid().as_raw())
}

/// Whether this process is the one that initialised NCCL.
pub(crate) fn check_not_forked(owner: u32) -> Result<(), Fault> {
    let here = std::process::id();
    if here == owner {
        return Ok(());
    }
    Err(Fault::usage(format!(
        "process {here} was forked from {owner}, which had initialised NCCL: a communicator does not survive fork(); fork \
         before the first communicator is made, or start workers with spawn"
    )))
}

/// The program's file name, for reports.
pub(crate) fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Where this library was loaded from, as the process's memory map says it.
pub(crate) fn library_path() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| Path::new(&line[at..])));
    let ours =
        |path: &&Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnccl.so"));
    paths.filter(ours).map(Path::to_path_buf).next()
}

/// Whether this thread is the process's only one, so that nobody else can be about to call.
pub(crate) fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // No kernel that has the rest of what we need lacks it; ids stay distinct by process at least.
            Err(_) => return std::array::from_fn(|at| std::process::id().to_le_bytes()[at % 4]),
        }
    }
    bytes
}

/// Bytes as hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sixteen bytes that equal texts share and different ones hardly ever. No secret: whoever knows the text knows them.
pub(crate) fn digest(text: &str) -> [u8; 16] {
    let half = |seed: u64| {
        text.bytes()
            .fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
            .to_le_bytes()
    };
    let (low, high) = (half(0xcbf2_9ce4_8422_2325), half(0x6c62_272e_07bb_0142));
    std::array::from_fn(|at| if at < 8 { low[at] } else { high[at - 8] })
}

/// The machine's name, up to its first dot.
pub(crate) fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}
