//! What can be asked on the command line, and the help that teaches it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs programs written for NCCL without GPUs: as the ranks of a virtual cluster, with the right data, the right
/// errors and a predicted time.
#[derive(Debug, Parser)]
#[command(name = "fakegpu", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  fakegpu doctor                                        what works on this machine
  fakegpu run -- ./my_nccl_program                      two ranks on one virtual node
  fakegpu run --nodes 2 --ranks-per-node 4 -- python train.py
  fakegpu run --preset dgx-h100 -n 8 -- ./all_reduce_perf -b 8 -e 128M
  fakegpu check cluster.yaml                            what a cluster file says, or what is wrong with it
  fakegpu explain fakegpu-report                        why a run failed
  fakegpu ps                                            what a live job's ranks do, and wait for

`fakegpu COMMAND --help` says more about each.";

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a program as the ranks of a virtual cluster
    Run(Box<RunArguments>),
    /// Run a launcher (torchrun, mpirun) whose processes become the ranks
    Exec(Box<RunArguments>),
    /// Set up what programs need: PyTorch without GPU libraries
    Setup {
        /// What to set up
        #[command(subcommand)]
        what: SetupWhat,
    },
    /// Check a cluster file or the environment, with every mistake at once
    Check(CheckArguments),
    /// Say what works on this machine, and what to do about what does not
    #[command(after_help = "Exit status: 0, or 1 where something that every run needs is missing.")]
    Doctor,
    /// Tell why a run failed: who, where, what each rank did before, and what to do
    Explain(ExplainArguments),
    /// Make the report of a run from its saved events
    Report(ReportArguments),
    /// Show what the ranks of a live job do, since when, and whom they wait for
    Ps(WatchArguments),
    /// Show all that is known of a live job: also recent calls and every communicator
    Dump(WatchArguments),
    /// Run the coordinator by hand, for ranks that something else starts
    #[command(
        disable_help_flag = true,
        after_help = "Example:\n  fakegpu coordinator --address /tmp/fakegpu.sock\n  FAKEGPU_COORDINATOR_ADDR=/tmp/fakegpu.sock mpirun -np 4 ./app"
    )]
    Coordinator {
        /// Arguments of `fakegpu-coordinator`; `--help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print every environment variable with its values, default and meaning (Markdown)
    Env,
    /// List the built-in clusters
    Presets,
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  source <(fakegpu completions bash)")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Ends what a run has started should the run itself be killed
    #[command(hide = true)]
    Warden,
}

#[derive(Debug, Args)]
#[command(after_help = CHECK_HELP)]
pub(crate) struct CheckArguments {
    /// Cluster file to check
    #[arg(required_unless_present = "env")]
    pub(crate) file: Option<PathBuf>,
    /// Check the FAKEGPU_* and launcher variables of this shell
    #[arg(long)]
    pub(crate) env: bool,
}

const CHECK_HELP: &str = "\
Exit status: 0 where all is well, 2 where there are mistakes; they go to stderr.

Examples:
  fakegpu check cluster.yaml
  FAKEGPU_DIST_MODE=simulate fakegpu check --env";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_HELP)]
pub(crate) struct ExplainArguments {
    /// The report: cluster_report.json, or the folder that has it
    #[arg(value_name = "REPORT")]
    pub(crate) report: PathBuf,
}

const EXPLAIN_HELP: &str = "\
Exit status: 0, also where the run failed; 2 where the file is no report.

Examples:
  fakegpu explain fakegpu-report/cluster_report.json
  fakegpu explain fakegpu-report                        the same, by its folder";

#[derive(Debug, Args)]
#[command(after_help = REPORT_HELP)]
pub(crate) struct ReportArguments {
    /// The event log, one JSON object a line
    #[arg(value_name = "EVENTS")]
    pub(crate) events: PathBuf,
    /// Write the JSON report there; `-` is stdout
    #[arg(long, value_name = "PATH")]
    pub(crate) json: Option<PathBuf>,
    /// Write the Markdown report there; `-` is stdout [default: -, unless --json is given]
    #[arg(long, value_name = "PATH")]
    pub(crate) markdown: Option<PathBuf>,
}

const REPORT_HELP: &str = "\
FAKEGPU_CLUSTER_REPORT_MAX_OPERATIONS says how many operations are listed one by one, as in a run.

Exit status: 0, or 2 where the log cannot be read. A killed coordinator leaves a last line that is
cut off: it is said and skipped.

Examples:
  fakegpu-coordinator --address /tmp/fakegpu.sock --events events.jsonl
  fakegpu report events.jsonl | less
  fakegpu report events.jsonl --json cluster_report.json && fakegpu explain cluster_report.json";

#[derive(Debug, Args)]
#[command(after_help = WATCH_HELP)]
pub(crate) struct WatchArguments {
    /// Where the job's coordinator listens [default: FAKEGPU_COORDINATOR_ADDR, else the one of this user that runs]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<String>,
    /// The coordinator's token [default: FAKEGPU_COORDINATOR_TOKEN, else as it was set for the coordinator, where that is
    /// a process of this user]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const WATCH_HELP: &str = "\
The job goes on undisturbed: nothing is joined, and no rank notices.

Exit status: 0, or 2 where no coordinator answers, or several run and --address does not say which.

Examples:
  fakegpu ps
  fakegpu ps --address @fakegpu-run-4711-0a1b2c3d4e5f
  watch -n 1 fakegpu ps
  fakegpu dump --json | jq '.ranks[] | select(.waiting_ms == null)'";

/// What becomes of the other ranks when one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFailure {
    /// They have 1.5 s to report their own errors, then SIGTERM, and SIGKILL 3 s later
    Kill,
    /// They run on to their own end
    Continue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// A unix socket with an abstract name
    Unix,
    /// TCP on 127.0.0.1
    Tcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Buffers are in host memory; no GPU is needed
    Simulate,
    /// Buffers are on real GPUs, staged through the host
    Hybrid,
    /// Real GPUs, untouched
    Passthrough,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DistMode {
    /// NCCL calls are refused by name
    Disabled,
    /// FakeGPU carries them out
    Simulate,
    /// The real NCCL carries them out, watched
    Proxy,
    /// The real NCCL carries them out, unwatched
    Passthrough,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The name of a flag's value, which is the variable's value, too.
pub(crate) fn word<V: ValueEnum>(value: V) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) shape: ShapeArguments,
    #[command(flatten)]
    pub(crate) hosts: HostArguments,

    /// Folder for the report, the cluster file and the coordinator's log
    #[arg(long, value_name = "DIR", default_value = "./fakegpu-report")]
    pub(crate) report: PathBuf,
    /// What to do with the other ranks when one fails
    #[arg(long, value_enum, default_value_t = OnFailure::Kill)]
    pub(crate) on_failure: OnFailure,
    /// Where device buffers live [default: FAKEGPU_MODE, else simulate]
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    /// Who carries out NCCL calls
    #[arg(long, value_enum, default_value_t = DistMode::Simulate)]
    pub(crate) dist_mode: DistMode,
    /// How ranks reach the coordinator
    #[arg(long, value_enum, default_value_t = Transport::Unix)]
    pub(crate) transport: Transport,
    /// The real libnccl.so.2, for --dist-mode proxy and passthrough
    #[arg(long, value_name = "PATH")]
    pub(crate) real_nccl: Option<PathBuf>,
    /// File of fault rules
    #[arg(long, value_name = "FILE")]
    pub(crate) faults: Option<PathBuf>,
    /// How long ranks wait for one another, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout_ms: Option<u64>,
    /// How much FakeGPU says on stderr [default: FAKEGPU_LOG, else warn]
    #[arg(long, value_enum)]
    pub(crate) log_level: Option<LogLevel>,
    /// Pass the ranks' output through as it is
    #[arg(long)]
    pub(crate) no_prefix: bool,
    /// Set a variable for every rank; may be given several times
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(crate) variables: Vec<OsString>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// Which cluster; by default one node with two ranks.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ShapeArguments {
    /// Virtual nodes [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<u32>,
    /// Ranks on each node [default: 2, or the preset's]
    #[arg(long, value_name = "M")]
    pub(crate) ranks_per_node: Option<u32>,
    /// Cluster file; `fakegpu check FILE` shows what it says
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "nodes", "ranks_per_node"])]
    pub(crate) cluster: Option<PathBuf>,
    /// Built-in cluster, in its own size or resized by --nodes and --ranks-per-node
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Ranks to start: the first RANKS of the cluster [default: all]
    #[arg(short = 'n', long = "ranks", value_name = "RANKS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
}

/// One run over several real hosts: the same command on each, with its own --node-rank.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Several hosts")]
pub(crate) struct HostArguments {
    /// Hosts that take part, each as one node of the cluster
    #[arg(long, value_name = "K", requires_all = ["node_rank", "coordinator"], conflicts_with_all = ["ranks", "nodes"], value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) nnodes: Option<u32>,
    /// Which of them this is, from 0; host 0 runs the coordinator
    #[arg(long, value_name = "I", requires = "nnodes")]
    pub(crate) node_rank: Option<u32>,
    /// Host 0's address and a free port there; the port above it is the ranks' MASTER_PORT
    #[arg(long, value_name = "HOST:PORT", requires = "nnodes")]
    pub(crate) coordinator: Option<String>,
}

const RUN_HELP: &str = "\
Without --nodes, --ranks-per-node, --cluster, --preset or -n, the cluster is the one that FAKEGPU_CLUSTER_CONFIG or
FAKEGPU_PRESET names, else one node with two ranks.

Every rank sees RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, GROUP_RANK, MASTER_ADDR and MASTER_PORT as
under torchrun, OMPI_COMM_WORLD_{RANK,SIZE,LOCAL_RANK,LOCAL_SIZE} as under mpirun, and FakeGPU's library before any
other NCCL. Its stdin is empty. What a rank leaves running ends with it.

Exit status: 0, or that of the first rank that failed (128 + the signal's number where one killed it), 130 or 143
after Ctrl-C or SIGTERM (passed on to the ranks; a second one kills them), 2 where nothing could be started.

Examples:
  fakegpu run --nodes 2 --ranks-per-node 4 -- ./train --steps 10
  fakegpu run --cluster cluster.yaml --report out -- python train.py
  fakegpu run -n 4 --on-failure continue -- ./train
  host0$ fakegpu run --nnodes 2 --node-rank 0 --ranks-per-node 4 --coordinator host0:4000 -- ./train
  host1$ FAKEGPU_COORDINATOR_TOKEN=... fakegpu run --nnodes 2 --node-rank 1 ... (host 0 prints the line)";

/// What can be set up.
#[derive(Debug, Subcommand)]
pub(crate) enum SetupWhat {
    /// Install PyTorch in a virtual environment, without the GPU libraries it asks for (1.4 GB instead of 5.3)
    Torch(SetupArguments),
}

/// How to set PyTorch up.
#[derive(Debug, clap::Args)]
pub(crate) struct SetupArguments {
    /// The virtual environment, made if it is not there; the active one if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) venv: Option<PathBuf>,
    /// The Python to make it with
    #[arg(long, value_name = "PYTHON")]
    pub(crate) python: Option<OsString>,
    /// Which torch, as pip writes it, where none is installed yet
    #[arg(long, value_name = "SPEC", default_value = "==2.15.0")]
    pub(crate) version: String,
}
