//! What happened, in the order the coordinator saw it. A report is a fold over these and nothing else.

use fakegpu_units::{
    CommId, GlobalRank, HostSpan, HostTime, NodeIndex, Rank, SeqNo, SessionId, VirtualSpan, VirtualTime,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Code, Descriptor, StagingKind, Transfer};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When, on the coordinator's clock, from its start.
    pub at: HostTime,
    /// What.
    pub kind: EventKind,
}

/// The predicted cost of an operation, in parts that add up, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// The algorithm, by NCCL's name in lower case.
    pub algorithm: String,
    /// Who chose it: the cluster file, the environment or the model.
    pub chosen_by: String,
    /// Time that does not depend on the bytes.
    pub base_latency: VirtualSpan,
    /// Bytes over effective bandwidth.
    pub transfer: VirtualSpan,
    /// What sharing of links adds.
    pub contention: VirtualSpan,
    /// Steps of the algorithm.
    pub steps: u32,
    /// The link class that bounds it: `intra_node` or `inter_node`; empty for one rank.
    pub bottleneck: String,
    /// Bytes between nodes and within them.
    pub flows: Vec<Flow>,
}

impl Estimate {
    /// The whole cost.
    pub fn total(&self) -> VirtualSpan {
        self.base_latency + self.transfer + self.contention
    }
}

/// Bytes that go from one node to another; within one node the two are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// From.
    pub src: NodeIndex,
    /// To.
    pub dst: NodeIndex,
    /// How many bytes, over the whole operation.
    pub bytes: u64,
}

/// The cluster as a report describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSummary {
    /// Its name.
    pub name: String,
    /// Where the description came from: a file, a preset, or nothing but the ranks themselves.
    pub source: String,
    /// Nodes in order.
    pub nodes: Vec<NodeSummary>,
    /// Links within a node.
    pub intra_node: LinkSummary,
    /// Links between nodes.
    pub inter_node: LinkSummary,
}

/// One node of a [`ClusterSummary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeSummary {
    /// Its id.
    pub id: String,
    /// Its host.
    pub host: String,
    /// The job's ranks on it.
    pub ranks: Vec<GlobalRank>,
    /// GPU profiles by local device.
    pub gpus: Vec<String>,
}

/// One class of links of a [`ClusterSummary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkSummary {
    /// `nvlink`, `infiniband`, …
    pub kind: String,
    /// Gigabits a second, one direction.
    pub bandwidth_gbps: f64,
    /// Microseconds a hop.
    pub latency_us: f64,
    /// How many times more traffic may enter than leave; 1 means none.
    pub oversubscription: f64,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It said goodbye.
    Goodbye,
    /// Its connection ended without a word: the process died.
    Died,
    /// It spoke nonsense and was cut off.
    Refused,
}

/// Why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The ranks' operations do not fit together.
    Mismatch,
    /// Ranks did not join in time.
    JoinTimeout,
    /// Ranks did not call in time.
    CollectiveTimeout,
    /// A process died.
    RankDied,
    /// A process ended while others still needed it.
    RankLeft,
    /// A rank aborted its communicator.
    Aborted,
    /// Joining was refused: a rank claimed twice, sizes that differ, modes that differ.
    JoinRefused,
    /// Tensor bytes could not be moved.
    Staging,
    /// Ranks wait for each other in a circle.
    Deadlock,
    /// A rank revoked its communicator, or made a smaller one from it.
    Revoked,
    /// It was asked for, to see what the program does.
    Injected,
}

/// How a communicator came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "by")]
pub enum Origin {
    /// By a unique id.
    #[default]
    Id,
    /// By `ncclCommSplit`.
    Split {
        /// From this one.
        parent: CommId,
        /// The colour.
        color: u32,
    },
    /// By `ncclCommShrink`.
    Shrink {
        /// From this one.
        parent: CommId,
    },
    /// By `ncclCommGrow`.
    Grow {
        /// From this one.
        parent: CommId,
    },
}

/// What a rank did before a failure: its last calls, and where it stood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankHistory {
    /// The rank.
    pub rank: GlobalRank,
    /// Operations it had submitted.
    pub calls: u64,
    /// The last of them, oldest first, as sentences name them.
    pub recent: Vec<String>,
    /// What it waited in, or that it was outside NCCL.
    pub doing: String,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The coordinator listens.
    Started {
        /// `unix` or `tcp`.
        transport: String,
        /// The cluster it simulates.
        cluster: ClusterSummary,
    },
    /// The cluster grew: no file described it, and a rank stood on a new node.
    ClusterChanged {
        /// The cluster now.
        cluster: ClusterSummary,
    },
    /// A process connected.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// Its process.
        pid: u32,
        /// Its program.
        program: String,
    },
    /// A process is gone.
    SessionClosed {
        /// The session.
        session: SessionId,
        /// How.
        ending: Ending,
        /// The job's ranks it held.
        ranks: Vec<GlobalRank>,
    },
    /// A rank of the job is known.
    RankPlaced {
        /// The rank.
        rank: GlobalRank,
        /// Its session.
        session: SessionId,
        /// Its node.
        node: NodeIndex,
        /// Its device there.
        device: u32,
    },
    /// A communicator is ready.
    CommCreated {
        /// The communicator.
        comm: CommId,
        /// Its members by rank.
        members: Vec<GlobalRank>,
        /// How long each member waited for the last to join.
        waits: Vec<HostSpan>,
        /// How bytes move.
        staging: StagingKind,
        /// Why not by shared memory, where that was wanted.
        fallback: Option<String>,
        /// How it came to be.
        #[serde(default)]
        origin: Origin,
        /// The name its program gave it.
        #[serde(default)]
        name: Option<String>,
    },
    /// A rank left a communicator.
    CommLeft {
        /// The communicator.
        comm: CommId,
        /// The rank.
        rank: Rank,
        /// Whether by abort.
        aborted: bool,
    },
    /// All ranks have called; the operation runs.
    Operation {
        /// The communicator.
        comm: CommId,
        /// Its place in the communicator's order.
        seq: SeqNo,
        /// What.
        descriptor: Descriptor,
        /// Ranks in the communicator.
        size: u32,
        /// How long each member waited for the last to call, by rank.
        waits: Vec<HostSpan>,
        /// When it starts in the model.
        start: VirtualTime,
        /// What it costs there.
        estimate: Estimate,
        /// Chunks the tensor was staged in.
        chunks: u64,
    },
    /// Both ranks of a pair have called; the bytes move. Parts of an `ncclAlltoAll`, `ncclGather` or
    /// `ncclScatter` that both ranks called by that name are in that operation's event instead.
    Transfer {
        /// The communicator.
        comm: CommId,
        /// The rank that sends.
        src: Rank,
        /// The rank that receives.
        dst: Rank,
        /// The sender's side.
        transfer: Transfer,
        /// How long the sender waited for the receiver.
        send_wait: HostSpan,
        /// How long the receiver waited for the sender.
        recv_wait: HostSpan,
        /// When it starts in the model.
        start: VirtualTime,
        /// What it costs there.
        estimate: Estimate,
        /// Chunks it was staged in.
        chunks: u64,
    },
    /// A rank wrote into a peer's window.
    Put {
        /// The communicator.
        comm: CommId,
        /// The rank that wrote.
        src: Rank,
        /// The rank whose window it was.
        dst: Rank,
        /// How many bytes.
        bytes: u64,
        /// When it starts in the model.
        start: VirtualTime,
        /// What it costs there.
        estimate: Estimate,
    },
    /// A barrier completed: one of the coordinator's own, which moves nothing, or an all-reduce that its ranks called as
    /// one.
    Barrier {
        /// The communicator.
        comm: CommId,
        /// How long each member waited, by rank.
        waits: Vec<HostSpan>,
        /// Bytes of the all-reduce.
        #[serde(default)]
        bytes: u64,
        /// What it takes in the model.
        #[serde(default)]
        took: VirtualSpan,
    },
    /// Something less than faithful, or worth a look, that failed nothing.
    Hazard {
        /// The communicator.
        comm: CommId,
        /// What was seen.
        detail: String,
    },
    /// A communicator, or the making of one, failed.
    Failure {
        /// The communicator, once it has a number.
        comm: Option<CommId>,
        /// Why.
        failure: FailureKind,
        /// What the ranks were told.
        code: Code,
        /// The sentence.
        detail: String,
        /// The job's ranks at fault, as far as known.
        culprits: Vec<GlobalRank>,
        /// What its members did before; the culprits first, and not all of a large communicator.
        #[serde(default)]
        history: Vec<RankHistory>,
    },
    /// The coordinator ends.
    Stopped {
        /// Why: `shutdown`, a signal's name, or `idle`.
        why: String,
    },
}
