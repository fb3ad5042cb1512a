//! The one table of variables: what parsing accepts, what errors quote, what `fakegpu doctor` and the README list.

use std::fmt;

use super::{ComputeMode, DistMode, LogLevel, Payload, Transport, UnsupportedApi};
use crate::words::alternatives;

/// One environment variable, stated once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it accepts.
    pub values: Values,
    /// What holds while it is unset.
    pub default: WhenUnset,
    /// What it is for, as a fragment without a full stop.
    pub meaning: &'static str,
    /// A value that is accepted.
    pub example: &'static str,
}

/// What a variable accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number of `unit` between `min` and `max`.
    Number {
        /// Smallest accepted.
        min: u64,
        /// Largest accepted.
        max: u64,
        /// What is counted; empty for a bare number.
        unit: &'static str,
    },
    /// `1`/`0`, `true`/`false`, `yes`/`no` or `on`/`off`.
    Flag,
    /// A file path.
    Path,
    /// A coordinator's address: `/path`, `@abstract` or `host:port`.
    Address,
    /// Any text of at most `max_bytes`.
    Text {
        /// Longest accepted, in bytes.
        max_bytes: usize,
    },
}

impl Values {
    /// Bytes a value may have; a longer one is refused unread.
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::Word(_) | Self::Number { .. } | Self::Flag => 64,
            Self::Path => 4096,
            Self::Address => 512,
            Self::Text { max_bytes } => max_bytes,
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(names) => f.write_str(&alternatives(names)),
            Self::Number { min, max, unit: "" } => write!(f, "a whole number from {min} to {max}"),
            Self::Number { min, max, unit } => write!(f, "a whole number of {unit} from {min} to {max}"),
            Self::Flag => f.write_str("1 or 0 (also true/false, yes/no, on/off)"),
            Self::Path => f.write_str("a path"),
            Self::Address => f.write_str("/path, @abstract-name or host:port"),
            Self::Text { max_bytes } => write!(f, "text of at most {max_bytes} bytes"),
        }
    }
}

/// What holds while a variable is unset or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnset {
    /// The same as if this value had been written.
    Value(&'static str),
    /// What happens instead, in words.
    Unset(&'static str),
}

impl WhenUnset {
    pub(super) const fn value(self) -> Option<&'static str> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unset(_) => None,
        }
    }
}

impl fmt::Display for WhenUnset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "`{value}`"),
            Self::Unset(words) => f.write_str(words),
        }
    }
}

/// Most ranks a job may have; a bound on memory, not on meaning.
pub(crate) const MAX_WORLD: u64 = 65_536;

/// Most GPUs a node may have by `FAKEGPU_GPU_COUNT`: no machine has more.
const MAX_GPUS: u64 = 64;

const MAX_MILLIS: u64 = 7 * 24 * 3600 * 1000;
const MILLIS: Values = Values::Number { min: 1, max: MAX_MILLIS, unit: "milliseconds" };
const RANK: Values = Values::Number { min: 0, max: MAX_WORLD - 1, unit: "" };
const SIZE: Values = Values::Number { min: 1, max: MAX_WORLD, unit: "" };

macro_rules! variables {
    ($(#[$doc:meta])* $table:ident: $(
        $id:ident = $name:literal { $values:expr, $default:expr, $meaning:literal, $example:literal }
    )*) => {
        $(
            #[doc = concat!("`", $name, "`: ", $meaning, ".")]
            pub const $id: Variable = Variable {
                name: $name, values: $values, default: $default, meaning: $meaning, example: $example,
            };
        )*
        $(#[$doc])*
        pub const $table: &[Variable] = &[$($id),*];
    };
}

use WhenUnset::{Unset, Value};

variables! {
    /// Every variable of FakeGPU's own, in the order in which a reader wants to meet them.
    VARIABLES:
    MODE = "FAKEGPU_MODE" {
        Values::Word(ComputeMode::NAMES), Value("simulate"),
        "where device buffers live: in host memory, on real GPUs staged through the host, or untouched", "hybrid"
    }
    DIST_MODE = "FAKEGPU_DIST_MODE" {
        Values::Word(DistMode::NAMES), Unset("`simulate` with an address, else an embedded coordinator"),
        "who carries out NCCL calls", "simulate"
    }
    COORDINATOR_ADDR = "FAKEGPU_COORDINATOR_ADDR" {
        Values::Address, Unset("none; an embedded coordinator makes its own"),
        "where the coordinator listens", "/tmp/fakegpu.sock"
    }
    COORDINATOR_TRANSPORT = "FAKEGPU_COORDINATOR_TRANSPORT" {
        Values::Word(Transport::NAMES), Unset("told from the address: a path is unix, host:port is tcp"),
        "how to reach the coordinator; must agree with the address", "unix"
    }
    COORDINATOR_TOKEN = "FAKEGPU_COORDINATOR_TOKEN" {
        Values::Text { max_bytes: 256 }, Unset("none"),
        "the secret that peers must show; never printed", "correct-horse"
    }
    COORDINATOR_BIN = "FAKEGPU_COORDINATOR_BIN" {
        Values::Path, Unset("`../bin` beside the library, then PATH"),
        "the coordinator program that an embedded session starts", "/opt/fakegpu/bin/fakegpu-coordinator"
    }
    LIB_DIR = "FAKEGPU_LIB_DIR" {
        Values::Path, Unset("`../lib` beside the launcher"),
        "the folder of the `libnccl.so.2` that `fakegpu run` gives to ranks", "/opt/fakegpu/lib"
    }
    COORDINATOR_TIMEOUT_MS = "FAKEGPU_COORDINATOR_TIMEOUT_MS" {
        MILLIS, Unset("60 s for a rank that cannot come, 9 min for one that still may"),
        "how long to wait for other ranks, both to join and in an operation", "30000"
    }
    JOIN_TIMEOUT_MS = "FAKEGPU_JOIN_TIMEOUT_MS" {
        MILLIS, Unset("FAKEGPU_COORDINATOR_TIMEOUT_MS"),
        "how long a communicator waits for its ranks", "10000"
    }
    COLLECTIVE_TIMEOUT_MS = "FAKEGPU_COLLECTIVE_TIMEOUT_MS" {
        MILLIS, Unset("FAKEGPU_COORDINATOR_TIMEOUT_MS"),
        "how long an operation waits for its ranks", "10000"
    }
    CLUSTER_CONFIG = "FAKEGPU_CLUSTER_CONFIG" {
        Values::Path, Unset("FAKEGPU_PRESET, else one node as large as the job"),
        "the cluster file", "cluster.yaml"
    }
    PRESET = "FAKEGPU_PRESET" {
        Values::Word(crate::cluster::PRESETS), Unset("none"),
        "a built-in cluster instead of a file", "dgx-h100"
    }
    NODE = "FAKEGPU_NODE" {
        Values::Text { max_bytes: 255 }, Unset("the node whose ranks the process joins as"),
        "the virtual node this process stands on; set by the launcher", "node0"
    }
    GPU_PROFILE = "FAKEGPU_GPU_PROFILE" {
        Values::Word(crate::profiles::NAMES), Value(crate::profiles::DEFAULT),
        "the kind of the GPUs that a process sees, where no cluster file says it", "a100"
    }
    GPU_COUNT = "FAKEGPU_GPU_COUNT" {
        Values::Number { min: 0, max: MAX_GPUS, unit: "GPUs" }, Unset("the launcher's ranks on this node, else 8"),
        "how many GPUs a process sees, where no cluster file says it", "2"
    }
    UNSUPPORTED_API = "FAKEGPU_UNSUPPORTED_API" {
        Values::Word(UnsupportedApi::NAMES), Value("error"),
        "what a CUDA kernel launch is that cannot be executed: an error, a warning, or nothing", "warn"
    }
    GPU_REPORT_PATH = "FAKEGPU_GPU_REPORT_PATH" {
        Values::Path, Value("fake_gpu_report.json"), "where a process's report of its GPUs goes", "out/gpus.json"
    }
    FAULTS = "FAKEGPU_FAULTS" { Values::Path, Unset("no faults"), "the file of fault rules", "faults.yaml" }
    NCCL_FAULT_RANK = "FAKEGPU_NCCL_FAULT_RANK" {
        RANK, Unset("no fault, or every rank where another FAKEGPU_NCCL_FAULT_ variable is set"),
        "the rank whose NCCL operation fails on purpose", "1"
    }
    NCCL_FAULT_SEQNO = "FAKEGPU_NCCL_FAULT_SEQNO" {
        Values::Number { min: 0, max: u64::MAX, unit: "" }, Unset("the first that fits"),
        "which of its calls on a communicator fails, counted from 0", "3"
    }
    NCCL_FAULT_OPERATION = "FAKEGPU_NCCL_FAULT_OPERATION" {
        Values::Text { max_bytes: 64 }, Unset("any"),
        "the operation that fails: all_reduce or ncclAllReduce, send, recv and so on", "all_reduce"
    }
    PAYLOAD = "FAKEGPU_PAYLOAD" {
        Values::Word(Payload::NAMES), Value("on"),
        "whether tensors are moved; off matches, times and counts operations and leaves receive buffers alone", "off"
    }
    STAGING_CHUNK_BYTES = "FAKEGPU_STAGING_CHUNK_BYTES" {
        Values::Number { min: 64, max: 1 << 30, unit: "bytes" }, Unset("chosen by the plan"),
        "how much of a tensor is staged at a time", "262144"
    }
    STAGING_MAX_BYTES = "FAKEGPU_STAGING_MAX_BYTES" {
        Values::Number { min: 4096, max: 1 << 36, unit: "bytes" }, Unset("16 MiB a process"),
        "the most staging memory a process takes, whatever its tensors' size", "16777216"
    }
    STAGING_FORCE_SOCKET = "FAKEGPU_STAGING_FORCE_SOCKET" {
        Values::Flag, Value("0"), "stream through the connection even where shared memory would do", "1"
    }
    STAGING_NO_URING = "FAKEGPU_STAGING_NO_URING" {
        Values::Flag, Value("0"), "stream with plain sockets, without io_uring", "1"
    }
    REPORT_PATH = "FAKEGPU_CLUSTER_REPORT_PATH" {
        Values::Path, Value("fake_gpu_cluster_report.json"), "where the JSON report goes", "out/report.json"
    }
    REPORT_MARKDOWN_PATH = "FAKEGPU_CLUSTER_REPORT_MARKDOWN_PATH" {
        Values::Path, Unset("beside the JSON report, with `.md`"), "where the Markdown report goes", "out/report.md"
    }
    REPORT_MAX_OPERATIONS = "FAKEGPU_CLUSTER_REPORT_MAX_OPERATIONS" {
        Values::Number { min: 0, max: 10_000_000, unit: "operations" }, Value("4096"),
        "how many of the last operations the report lists one by one; all are counted", "100"
    }
    REAL_NCCL_PATH = "FAKEGPU_REAL_NCCL_PATH" {
        Values::Path, Unset("searched for"), "the real libnccl.so.2 for proxy and passthrough", "/usr/lib/libnccl.so.2"
    }
    STRICT = "FAKEGPU_STRICT" {
        Values::Flag, Value("0"), "turn every answer that is less than faithful into an error", "1"
    }
    LOG = "FAKEGPU_LOG" { Values::Word(LogLevel::NAMES), Value("warn"), "how much goes to stderr", "debug" }
}

variables! {
    /// The launchers' variables that say which rank a process is. The first launcher with any of its variables
    /// set decides; those further down are not read.
    PLACEMENT_VARIABLES:
    TORCH_RANK = "RANK" { RANK, Unset("the next launcher"), "the process's rank, from torchrun", "0" }
    TORCH_WORLD_SIZE = "WORLD_SIZE" { SIZE, Unset("the next launcher"), "the number of ranks, from torchrun", "4" }
    TORCH_LOCAL_RANK = "LOCAL_RANK" { RANK, Unset("unknown"), "the rank within its node, from torchrun", "0" }
    TORCH_LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE" { SIZE, Unset("unknown"), "ranks on the node, from torchrun", "4" }
    OMPI_RANK = "OMPI_COMM_WORLD_RANK" { RANK, Unset("the next launcher"), "the process's rank, from Open MPI", "0" }
    OMPI_SIZE = "OMPI_COMM_WORLD_SIZE" { SIZE, Unset("the next launcher"), "the number of ranks, from Open MPI", "4" }
    OMPI_LOCAL_RANK = "OMPI_COMM_WORLD_LOCAL_RANK" {
        RANK, Unset("unknown"), "the rank within its node, from Open MPI", "0"
    }
    PMI_RANK = "PMI_RANK" { RANK, Unset("the next launcher"), "the process's rank, from MPICH and other PMI launchers", "0" }
    PMI_SIZE = "PMI_SIZE" { SIZE, Unset("the next launcher"), "the number of ranks, from PMI launchers", "4" }
    SLURM_PROCID = "SLURM_PROCID" { RANK, Unset("order of joining"), "the process's rank, from srun", "0" }
    SLURM_NTASKS = "SLURM_NTASKS" { SIZE, Unset("order of joining"), "the number of ranks, from srun", "4" }
    SLURM_LOCALID = "SLURM_LOCALID" { RANK, Unset("unknown"), "the rank within its node, from srun", "0" }
}

/// The table as GitHub Markdown, for the README: name, values, default, meaning.
pub fn markdown_table() -> String {
    let mut out = String::from("| variable | values | unset | meaning |\n| --- | --- | --- | --- |\n");
    for Variable { name, values, default, meaning, .. } in VARIABLES.iter().chain(PLACEMENT_VARIABLES) {
        out.push_str(&format!("| `{name}` | {values} | {default} | {meaning} |\n"));
    }
    out
}
