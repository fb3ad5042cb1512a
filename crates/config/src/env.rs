//! The environment: one table of variables, and what a process's variables mean together.
//!
//! [`Settings::from_vars`] is the only reader. It is handed the variables, looks only at those of the two tables,
//! refuses `FAKEGPU_*` names it does not know, and reports every mistake at once. An empty value counts as unset.

mod address;
mod explain;
mod placement;
mod reader;
pub mod table;

pub use address::{Address, AddressError, Token};
pub use placement::Placement;
pub use reader::{EnvMistake, EnvMistakes};
pub use table::{PLACEMENT_VARIABLES, VARIABLES, Values, Variable, WhenUnset, markdown_table};

use crate::words::words;
use reader::Reader;

words! {
    /// Where device buffers live (`FAKEGPU_MODE`).
    ComputeMode {
        /// In host memory; there is no GPU.
        Simulate = "simulate",
        /// On real GPUs, staged through host memory for communication.
        Hybrid = "hybrid",
        /// On real GPUs, untouched.
        Passthrough = "passthrough",
    }
}

words! {
    /// Who carries out NCCL calls (`FAKEGPU_DIST_MODE`).
    DistMode {
        /// Nobody: every call is refused by name.
        Disabled = "disabled",
        /// FakeGPU, through a coordinator.
        Simulate = "simulate",
        /// The real NCCL, watched and reported to a coordinator.
        Proxy = "proxy",
        /// The real NCCL, unwatched.
        Passthrough = "passthrough",
    }
}

impl DistMode {
    /// Whether the mode cannot work without a coordinator's address.
    pub const fn needs_coordinator(self) -> bool {
        matches!(self, Self::Simulate | Self::Proxy)
    }
}

words! {
    /// A kind of socket (`FAKEGPU_COORDINATOR_TRANSPORT`).
    Transport {
        /// A Unix socket on this host.
        Unix = "unix",
        /// TCP.
        Tcp = "tcp",
    }
}

words! {
    /// Whether tensors are moved (`FAKEGPU_PAYLOAD`).
    Payload {
        /// They are.
        On = "on",
        /// Operations are matched, timed and counted only.
        Off = "off",
    }
}

words! {
    /// What a CUDA call is that cannot be carried out (`FAKEGPU_UNSUPPORTED_API`).
    UnsupportedApi {
        /// An error that names it.
        Error = "error",
        /// Said on stderr once by name, and passed over.
        Warn = "warn",
        /// Passed over; only the report tells.
        Allow = "allow",
    }
}

words! {
    /// How much goes to stderr (`FAKEGPU_LOG`); each level includes those before it.
    LogLevel {
        /// What ended an operation or a session.
        Error = "error",
        /// What works, but not as asked.
        Warn = "warn",
        /// Membership, fallbacks, files written.
        Info = "info",
        /// Each operation.
        Debug = "debug",
        /// Each message.
        Trace = "trace",
    }
}

/// What a process's environment says, checked and complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where device buffers live.
    pub mode: ComputeMode,
    /// Who carries out NCCL calls; `None` starts an embedded coordinator at `ncclGetUniqueId`.
    pub dist_mode: Option<DistMode>,
    /// Where the coordinator listens; always there where `dist_mode` needs it.
    pub coordinator: Option<Address>,
    /// The secret to show it.
    pub token: Option<Token>,
    /// The coordinator program for embedded sessions; `None` searches.
    pub coordinator_bin: Option<String>,
    /// The folder of the library that the launcher gives to ranks.
    pub lib_dir: Option<String>,
    /// How long to wait for other ranks.
    pub timeouts: Timeouts,
    /// How tensors are staged.
    pub staging: Staging,
    /// Whether they are moved at all.
    pub payload: Payload,
    /// The NCCL operation that fails on purpose.
    pub nccl_fault: Option<NcclFault>,
    /// Where the report goes, and how long its timeline is.
    pub report: ReportPaths,
    /// Path of the cluster file. Never set together with `preset`.
    pub cluster_config: Option<String>,
    /// Name of a built-in cluster, known to [`Cluster::preset`](crate::Cluster::preset).
    pub preset: Option<String>,
    /// The GPUs that the process sees.
    pub gpu: GpuSettings,
    /// Path of the fault rules.
    pub faults: Option<String>,
    /// Path of the real `libnccl.so.2`; `None` searches.
    pub real_nccl: Option<String>,
    /// How much goes to stderr.
    pub log: LogLevel,
    /// Whether an answer that is less than faithful is an error.
    pub strict: bool,
    /// Name of the virtual node that the process stands on.
    pub node: Option<String>,
    /// Which rank a launcher made this process.
    pub placement: Option<Placement>,
    /// Whether `dist_mode` was written, rather than implied by an address.
    dist_mode_written: bool,
}

/// The GPUs that a process sees, and what becomes of calls to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSettings {
    /// Name of the profile, known to [`profiles::find`](crate::profiles::find).
    pub profile: String,
    /// How many there are; `None` takes the launcher's word.
    pub count: Option<u32>,
    /// What a call is that cannot be carried out.
    pub unsupported: UnsupportedApi,
    /// Where the report goes.
    pub report: String,
}

impl GpuSettings {
    fn read(reader: &mut Reader) -> Self {
        Self {
            profile: reader.choice(&table::GPU_PROFILE).unwrap_or_default(),
            count: reader.ranks(&table::GPU_COUNT),
            unsupported: reader.word(&table::UNSUPPORTED_API).unwrap_or(UnsupportedApi::Error),
            report: reader.text(&table::GPU_REPORT_PATH).unwrap_or_default(),
        }
    }
}

/// How long to wait for other ranks, in milliseconds; `None` keeps the built-in rules (60 s for a rank that cannot
/// come any more, 9 minutes for one that still may).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// For a communicator's ranks to join.
    pub join_ms: Option<u64>,
    /// For an operation's ranks to arrive.
    pub collective_ms: Option<u64>,
}

/// How tensors are staged between ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Staging {
    /// Bytes staged at a time; `None` lets the plan choose. Never above `max_bytes`.
    pub chunk_bytes: Option<usize>,
    /// Most staging memory a process takes, in bytes.
    pub max_bytes: Option<usize>,
    /// Stream through the connection even where shared memory would do.
    pub force_socket: bool,
    /// Stream without io_uring.
    pub no_uring: bool,
}

/// Which NCCL operation fails on purpose; what is `None` fits any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NcclFault {
    /// Of this rank.
    pub rank: Option<u32>,
    /// The rank's call with this number on its communicator, from 0.
    pub seqno: Option<u64>,
    /// Calls of this name only, in lower case without `nccl` and underscores.
    pub operation: Option<String>,
}

impl NcclFault {
    fn read(reader: &mut Reader) -> Option<Self> {
        let fault = Self {
            rank: reader.ranks(&table::NCCL_FAULT_RANK),
            seqno: reader.number(&table::NCCL_FAULT_SEQNO),
            operation: reader.text(&table::NCCL_FAULT_OPERATION).map(|name| plain(&name)),
        };
        (fault != Self::default()).then_some(fault)
    }

    /// Whether it means this call: the rank, the number of its call on the communicator, and the C function.
    pub fn means(&self, rank: u32, seqno: u64, nccl_name: &str) -> bool {
        self.rank.is_none_or(|wanted| wanted == rank)
            && self.seqno.is_none_or(|wanted| wanted == seqno)
            && self.operation.as_ref().is_none_or(|wanted| *wanted == plain(nccl_name))
    }
}

/// `ncclAllReduce`, `all_reduce` and `AllReduce` are one name.
fn plain(name: &str) -> String {
    let lower = name.to_ascii_lowercase().replace(['_', '-'], "");
    lower.strip_prefix("nccl").unwrap_or(&lower).to_owned()
}

/// Where the report goes, and how long its timeline is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPaths {
    /// The JSON report.
    pub json: String,
    /// The Markdown report.
    pub markdown: String,
    /// How many of the last operations are listed one by one.
    pub max_operations: usize,
}

impl Settings {
    /// What `vars` say. Variables outside the tables are not looked at, so a whole environment may be handed in; of
    /// several values for one name the last holds.
    ///
    /// # Errors
    /// Every mistake there is: unknown `FAKEGPU_*` names, values that are not accepted or too long, and variables
    /// that contradict or lack one another.
    pub fn from_vars(vars: impl IntoIterator<Item = (String, String)>) -> Result<Self, EnvMistakes> {
        let mut reader = Reader::new(vars);
        let settings = Self::read(&mut reader);
        reader.finish().map(|()| settings)
    }

    /// Whether `ncclGetUniqueId` starts a coordinator of its own.
    pub const fn is_embedded(&self) -> bool {
        self.dist_mode.is_none()
    }

    fn read(reader: &mut Reader) -> Self {
        let coordinator = read_address(reader);
        let written = reader.word(&table::DIST_MODE);
        let dist_mode = read_dist_mode(reader, written, coordinator.is_some());
        Self {
            mode: reader.word(&table::MODE).unwrap_or(ComputeMode::Simulate),
            dist_mode,
            coordinator,
            token: reader.text(&table::COORDINATOR_TOKEN).map(Token::new),
            coordinator_bin: reader.text(&table::COORDINATOR_BIN),
            lib_dir: reader.text(&table::LIB_DIR),
            timeouts: Timeouts::read(reader),
            staging: Staging::read(reader),
            payload: reader.word(&table::PAYLOAD).unwrap_or(Payload::On),
            nccl_fault: NcclFault::read(reader),
            report: ReportPaths::read(reader),
            cluster_config: reader.text(&table::CLUSTER_CONFIG),
            preset: read_preset(reader),
            gpu: GpuSettings::read(reader),
            faults: reader.text(&table::FAULTS),
            real_nccl: reader.text(&table::REAL_NCCL_PATH),
            log: reader.word(&table::LOG).unwrap_or(LogLevel::Warn),
            strict: reader.flag(&table::STRICT),
            node: reader.text(&table::NODE),
            placement: Placement::read(reader),
            dist_mode_written: written.is_some(),
        }
    }
}

impl Timeouts {
    fn read(reader: &mut Reader) -> Self {
        let common = reader.number(&table::COORDINATOR_TIMEOUT_MS);
        Self {
            join_ms: reader.number(&table::JOIN_TIMEOUT_MS).or(common),
            collective_ms: reader.number(&table::COLLECTIVE_TIMEOUT_MS).or(common),
        }
    }
}

impl Staging {
    fn read(reader: &mut Reader) -> Self {
        let staging = Self {
            chunk_bytes: reader.size(&table::STAGING_CHUNK_BYTES),
            max_bytes: reader.size(&table::STAGING_MAX_BYTES),
            force_socket: reader.flag(&table::STAGING_FORCE_SOCKET),
            no_uring: reader.flag(&table::STAGING_NO_URING),
        };
        if let (Some(chunk), Some(max)) = (staging.chunk_bytes, staging.max_bytes)
            && chunk > max
        {
            reader.mistake(
                &table::STAGING_CHUNK_BYTES,
                format!("is {chunk}, more than FAKEGPU_STAGING_MAX_BYTES, which is {max}"),
                "a chunk must fit into the staging memory: lower the one or raise the other",
            );
        }
        staging
    }
}

impl ReportPaths {
    fn read(reader: &mut Reader) -> Self {
        let json = reader.text(&table::REPORT_PATH).unwrap_or_default();
        let beside = format!("{}.md", json.strip_suffix(".json").unwrap_or(&json));
        let markdown = reader.text(&table::REPORT_MARKDOWN_PATH).unwrap_or(beside);
        if markdown == json {
            reader.mistake(
                &table::REPORT_MARKDOWN_PATH,
                "is the same file as FAKEGPU_CLUSTER_REPORT_PATH".to_owned(),
                "one report would overwrite the other: give each a path of its own",
            );
        }
        Self {
            json,
            markdown,
            max_operations: reader.size(&table::REPORT_MAX_OPERATIONS).unwrap_or_default(),
        }
    }
}

/// The address, agreeing with the transport if one is named.
fn read_address(reader: &mut Reader) -> Option<Address> {
    let transport: Option<Transport> = reader.word(&table::COORDINATOR_TRANSPORT);
    let address = reader.address(&table::COORDINATOR_ADDR);
    match (transport, &address) {
        (Some(transport), None) if !reader.is_set(&table::COORDINATOR_ADDR) => reader.mistake(
            &table::COORDINATOR_TRANSPORT,
            format!("is `{transport}`, but FAKEGPU_COORDINATOR_ADDR is not set"),
            "set the address too, or unset both for an embedded coordinator",
        ),
        (Some(transport), Some(address)) if transport != address.transport() => reader.mistake(
            &table::COORDINATOR_TRANSPORT,
            format!("is `{transport}`, but FAKEGPU_COORDINATOR_ADDR is a {} address", address.transport()),
            "unset the transport: the address says it already",
        ),
        _ => {}
    }
    address
}

/// The mode as written, or `simulate` where only an address is.
fn read_dist_mode(reader: &mut Reader, written: Option<DistMode>, has_address: bool) -> Option<DistMode> {
    if let Some(mode) = written
        && mode.needs_coordinator()
        && !reader.is_set(&table::COORDINATOR_ADDR)
    {
        reader.mistake(
            &table::COORDINATOR_ADDR,
            format!("is not set, but FAKEGPU_DIST_MODE is `{mode}`, which needs a coordinator"),
            "set it to the coordinator's address, such as /tmp/fakegpu.sock, or unset FAKEGPU_DIST_MODE for an embedded \
             coordinator",
        );
    }
    written.or_else(|| has_address.then_some(DistMode::Simulate))
}

fn read_preset(reader: &mut Reader) -> Option<String> {
    let preset = reader.choice(&table::PRESET)?;
    if reader.is_set(&table::CLUSTER_CONFIG) {
        reader.mistake(
            &table::PRESET,
            "is set together with FAKEGPU_CLUSTER_CONFIG".to_owned(),
            "a job runs on one cluster: unset one of them, or name the preset inside the file",
        );
    }
    Some(preset)
}

#[cfg(test)]
mod tests;
