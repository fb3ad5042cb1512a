//! The report: what a run did, in the shape in which it is written.
//!
//! Times of the model are microseconds and reproducible. Times of the machine are milliseconds; their descriptions
//! say "wall clock", and [`Report::digest_value`] leaves them out.

use std::collections::BTreeMap;

use fakegpu_proto::event::{FailureKind, LinkSummary, NodeSummary};
use fakegpu_proto::{Code, RankHistory};
use fakegpu_units::{CommId, DataType, GlobalRank, Rank, ReduceOp, SeqNo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run on a virtual cluster did, and what it would have cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of the writer.
    pub report_version: String,
    /// The version of this shape; fields may be added under one version, none is taken away or changed.
    pub schema_version: String,
    /// The cluster that was simulated.
    pub cluster: Cluster,
    /// What each collective did, over the whole run.
    pub collectives: Collectives,
    /// What sends, receives and one-sided writes did.
    pub point_to_point: PointToPoint,
    /// Links that carried bytes, by source and destination.
    pub links: Vec<Link>,
    /// Every ordered pair of different nodes, also those that exchanged nothing.
    pub node_pairs: Vec<NodePair>,
    /// The job's ranks.
    pub ranks: Vec<RankEntry>,
    /// How tensors were staged.
    pub staging: Staging,
    /// What became of communicators, oldest first.
    pub communicators_log: Vec<CommunicatorEntry>,
    /// Entries that `communicators_log` had no room for; the oldest are dropped.
    pub communicators_log_dropped: u64,
    /// Failures, and how ranks went on after them.
    pub resilience: Resilience,
    /// The last operations.
    pub operation_timeline: Timeline,
    /// What each algorithm carried, by NCCL's name.
    pub algorithms: BTreeMap<String, AlgorithmUse>,
    /// Bytes from node to node, as a matrix.
    pub traffic_matrix: TrafficMatrix,
    /// Predicted times.
    pub virtual_time: VirtualTimes,
    /// What was worth a look, though it failed nothing.
    pub hazards: Vec<Hazard>,
    /// Hazards that `hazards` had no room for.
    pub hazards_dropped: u64,
    /// Every way in which this report, or the run, is less than faithful.
    pub fidelity: Vec<String>,
    /// Why the coordinator ended; null while it runs.
    pub stopped: Option<String>,
}

/// The cluster that was simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cluster {
    /// Its name.
    pub name: String,
    /// Where its description came from.
    pub source: String,
    /// Ranks of the job that are described or have joined.
    pub world_size: u64,
    /// Nodes.
    pub node_count: u64,
    /// Communicators that were made.
    pub communicators: u64,
    /// The nodes in order.
    pub nodes: Vec<NodeSummary>,
    /// Its links.
    pub fabric: Fabric,
    /// How ranks reach the coordinator: `unix` or `tcp`.
    pub transport: String,
}

/// The two classes of links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fabric {
    /// Within a node.
    pub intra_node: LinkSummary,
    /// Between nodes.
    pub inter_node: LinkSummary,
}

/// What each collective did. Every key is always there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Collectives {
    /// All-reduce.
    pub all_reduce: Totals,
    /// Reduce.
    pub reduce: Totals,
    /// Broadcast.
    pub broadcast: Totals,
    /// All-gather.
    pub all_gather: Totals,
    /// Reduce-scatter.
    pub reduce_scatter: Totals,
    /// All-to-all.
    pub all_to_all: Totals,
    /// Barriers of the control plane; the model gives them no cost.
    pub barrier: Totals,
    /// Gather.
    pub gather: Totals,
    /// Scatter.
    pub scatter: Totals,
}

/// What one kind of operation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Operations; one counts once, however many ranks take part.
    pub calls: u64,
    /// Their sizes as nccl-tests counts them: the larger of what a rank sends and receives.
    pub bytes: u64,
    /// Predicted time of all of them, one after another.
    pub estimated_time_us_total: f64,
    /// The part of it that sharing of links adds.
    pub contention_penalty_us_total: f64,
}

/// What sends, receives and one-sided writes did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointToPoint {
    /// Matched pairs, and one-sided writes.
    pub operations: u64,
    /// Sends that met their receive; the operations that are pairs.
    pub sends: u64,
    /// Receives that met their send; as many.
    pub recvs: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Pairs that moved nothing.
    #[serde(default)]
    pub zero_byte: u64,
    /// Writes into a peer's window, which need no call of the peer's; counted above, too.
    #[serde(default)]
    pub one_sided: OneSided,
    /// Predicted time of all of them, one after another.
    pub estimated_time_us_total: f64,
    /// The part of it that sharing of links adds.
    pub contention_penalty_us_total: f64,
}

/// What writes into peers' windows did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OneSided {
    /// Writes.
    pub puts: u64,
    /// Bytes they wrote.
    pub bytes: u64,
}

/// Where a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Between the GPUs of a node, all of them together.
    IntraNode,
    /// From one node to another.
    InterNode,
}

/// A link that carried bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The node that sends.
    pub src: String,
    /// The node that receives; the same within a node.
    pub dst: String,
    /// Which class of links it belongs to.
    pub scope: Scope,
    /// Bytes it carried.
    pub bytes: u64,
    /// Operations that used it.
    pub operations: u64,
    /// Latency of a hop over it.
    pub avg_latency_us: f64,
    /// Predicted time of the operations that used it, one after another.
    pub estimated_time_us_total: f64,
    /// What sharing added to those of them that this class of links bounds.
    pub contention_penalty_us_total: f64,
    /// Bytes, as a share of what the link could have carried until the last operation ended in the model; within a
    /// node, of what one port a rank could have carried.
    pub utilisation: f64,
}

/// What one node sent to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodePair {
    /// The node that sends.
    pub src: String,
    /// The node that receives.
    pub dst: String,
    /// Bytes.
    pub bytes: u64,
    /// Operations that had bytes for it.
    pub operations: u64,
}

/// One rank of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankEntry {
    /// Its number in the job.
    pub rank: GlobalRank,
    /// Its node's id; empty if it never joined and no file places it.
    pub node: String,
    /// Its GPU on that node.
    pub local_device: u32,
    /// Its process; null if it never joined. Differs from run to run, as the wall clock does.
    pub pid: Option<u32>,
    /// Wall clock: how long it waited for other ranks in operations and barriers.
    pub wait_time_ms: f64,
    /// Wall clock: the longest of its waits in a barrier.
    pub longest_barrier_wait_ms: f64,
    /// Wall clock: the longest of all its waits.
    pub longest_wait_ms: f64,
    /// Time-outs that failed its communicators.
    pub timeouts: u64,
    /// Communicators it aborted.
    pub aborts: u64,
    /// Communicators it joined.
    pub communicator_inits: u64,
    /// Collectives it took part in, barriers apart.
    pub collective_calls: u64,
    /// Sends and receives it called, and writes into a peer's window; a pair of its own counts as two.
    pub point_to_point_calls: u64,
    /// Barriers it took part in.
    pub barrier_calls: u64,
    /// Wall clock: how long it waited for others to join its communicators.
    pub join_wait_ms: f64,
    /// Whether its process died.
    pub died: bool,
}

/// How tensors were staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Staging {
    /// Chunks that tensors were cut into.
    pub chunks: u64,
    /// Communicators that fell back to streaming.
    pub fallbacks: u64,
    /// Chunks moved again.
    pub retries: u64,
    /// The size of the largest operation that was staged.
    pub peak_bytes: u64,
}

/// What can become of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommunicatorEvent {
    /// All ranks joined by a unique id.
    Init,
    /// It was split from another.
    Split,
    /// It is another without some of its ranks.
    Shrink,
    /// It is another with further ranks.
    Grow,
    /// A rank left.
    Leave,
    /// A rank aborted.
    Abort,
    /// It, or the making of it, failed.
    Failure,
}

/// Something that became of a communicator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicatorEntry {
    /// Its number; null if it failed before it had one.
    pub communicator: Option<CommId>,
    /// What.
    pub event: CommunicatorEvent,
    /// The job's ranks concerned: who joined, left or aborted, or is at fault.
    pub ranks: Vec<GlobalRank>,
    /// How bytes move: `shared`, `streamed` or `off`; only where a communicator was made.
    pub staging: Option<String>,
    /// Why, in a sentence; may quote process ids and waits, and so differs from run to run, as the wall clock does.
    pub detail: Option<String>,
    /// What the ranks were told; on `failure` only.
    pub code: Option<Code>,
    /// The name its program gave it; only where a communicator was made.
    #[serde(default)]
    pub name: Option<String>,
    /// The communicator it was made from; on `split`, `shrink` and `grow`.
    #[serde(default)]
    pub parent: Option<CommId>,
    /// Its colour; on `split` only.
    #[serde(default)]
    pub color: Option<u32>,
}

/// Failures, and how ranks went on after them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resilience {
    /// Failures.
    pub failure_count: u64,
    /// Communicators that ranks of a failed one made afterwards.
    pub recovery_count: u64,
    /// Processes that died, in order.
    pub deaths: Vec<Death>,
    /// The first failures; the first is the one to read.
    pub failure_events: Vec<FailureEntry>,
    /// The first recoveries.
    pub recovery_events: Vec<RecoveryEntry>,
    /// Entries that the lists above had no room for.
    pub dropped_entries: u64,
}

/// A process that died.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Death {
    /// Wall clock: when, from the coordinator's start.
    pub at_ms: f64,
    /// The process; null where the log begins after it connected. Differs from run to run, as the wall clock does.
    pub pid: Option<u32>,
    /// Its program, as far as known.
    pub program: String,
    /// The job's ranks it held.
    pub ranks: Vec<GlobalRank>,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureEntry {
    /// Wall clock: when, from the coordinator's start.
    pub at_ms: f64,
    /// The communicator, once it had a number.
    pub communicator: Option<CommId>,
    /// Why.
    pub failure: FailureKind,
    /// What the ranks were told.
    pub code: Code,
    /// The sentence; may quote process ids and waits, and so differs from run to run, as the wall clock does.
    pub detail: String,
    /// The job's ranks at fault, as far as known.
    pub culprits: Vec<GlobalRank>,
    /// What ranks did before, the culprits first. Of the first failures, and not all of many ranks. How far ranks had
    /// come when another failed differs from run to run, as the wall clock does.
    #[serde(default)]
    pub history: Vec<RankHistory>,
}

/// A communicator that ranks of a failed one made afterwards.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryEntry {
    /// Wall clock: when, from the coordinator's start.
    pub at_ms: f64,
    /// The new communicator.
    pub communicator: CommId,
    /// Its members that a failure had reached.
    pub ranks: Vec<GlobalRank>,
}

/// The last operations.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// Entries below.
    pub retained_entries: u64,
    /// Earlier operations, which are counted but not listed.
    pub dropped_entries: u64,
    /// The operations, oldest first.
    pub entries: Vec<TimelineEntry>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimelineEntry {
    /// Its place among all operations of the run, from 0.
    pub index: u64,
    /// Its communicator.
    pub communicator: CommId,
    /// Its place in the communicator's order; null for barriers and point-to-point operations.
    pub seq: Option<SeqNo>,
    /// What: a collective's name, `barrier`, `send_recv` or `put`.
    pub operation: String,
    /// The rank that sends; null for what all ranks do.
    #[serde(default)]
    pub src: Option<Rank>,
    /// The rank that receives; null for what all ranks do.
    #[serde(default)]
    pub dst: Option<Rank>,
    /// Element type; null for barriers and one-sided writes.
    pub data_type: Option<DataType>,
    /// How elements were combined; null where nothing was.
    pub reduce: Option<ReduceOp>,
    /// The rank with a part of its own; null where there was none.
    pub root: Option<Rank>,
    /// Elements in a block, as the C call counts them; bytes of a one-sided write.
    pub count: u64,
    /// Its size as nccl-tests counts it; what moved, where one rank sends.
    pub bytes: u64,
    /// How many ranks took part.
    pub ranks: u32,
    /// When it starts in the model.
    pub start_us: f64,
    /// What it costs there.
    pub duration_us: f64,
    /// The algorithm; empty for barriers.
    pub algorithm: String,
    /// The class of links that bounds it; empty where none does.
    pub bottleneck: String,
    /// Wall clock: how long the first rank waited for the last.
    pub max_wait_ms: f64,
}

/// What an algorithm carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlgorithmUse {
    /// Operations.
    pub operations: u64,
    /// Their sizes as nccl-tests counts them.
    pub bytes: u64,
    /// Predicted time of all of them, one after another.
    pub estimated_time_us_total: f64,
    /// Operations by who chose the algorithm.
    pub chosen_by: BTreeMap<String, u64>,
}

/// Bytes from node to node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrafficMatrix {
    /// Ids of the nodes, in the order of rows and columns.
    pub nodes: Vec<String>,
    /// A row for each node that sends, in it a number for each node that receives; the diagonal is traffic within.
    pub bytes: Vec<Vec<u64>>,
}

/// Predicted times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualTimes {
    /// When the last operation ends.
    pub makespan_us: f64,
    /// How long at least one operation runs, as the sum over operations; above the makespan where some overlap.
    pub communication_us: f64,
    /// The same by rank.
    pub ranks: Vec<RankTimes>,
}

/// Predicted times of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankTimes {
    /// The rank.
    pub rank: GlobalRank,
    /// When its last operation ends.
    pub end_us: f64,
    /// How long at least one of its operations runs.
    pub communication_us: f64,
    /// The rest: computing, or waiting for other ranks.
    pub other_us: f64,
}

/// Something worth a look, though it failed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hazard {
    /// The communicator.
    pub communicator: CommId,
    /// What was seen; may quote process ids and waits, and so differs from run to run, as the wall clock does.
    pub detail: String,
    /// How often.
    pub count: u64,
}
