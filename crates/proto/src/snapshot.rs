//! A live job as the coordinator sees it: who waits for whom, since when, and what they did before.

use fakegpu_units::{CommId, GlobalRank, Rank, SeqNo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The job at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Milliseconds since the coordinator started.
    pub at_ms: u64,
    /// Its ranks.
    pub ranks: Vec<RankView>,
    /// Its communicators.
    pub communicators: Vec<CommView>,
}

/// One rank of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RankView {
    /// The rank.
    pub rank: GlobalRank,
    /// Its process.
    pub pid: u32,
    /// Its program's name.
    pub program: String,
    /// Its node's name.
    pub node: String,
    /// What it does, in words: a call it waits in, or that it is outside NCCL.
    pub doing: String,
    /// Milliseconds it has waited; `None` where it does not wait.
    pub waiting_ms: Option<u64>,
    /// Whom it waits for.
    pub waits_for: Vec<GlobalRank>,
    /// Operations it has submitted.
    pub calls: u64,
    /// Its last calls, oldest first.
    pub recent: Vec<String>,
}

/// One communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommView {
    /// The communicator.
    pub comm: CommId,
    /// The name its program gave it.
    pub name: Option<String>,
    /// Its members' ranks of the job, by rank.
    pub members: Vec<GlobalRank>,
    /// How bytes move: `shared`, `streamed`, `off`, or `making`.
    pub staging: String,
    /// The next operation to complete.
    pub next: SeqNo,
    /// Operations that wait for ranks.
    pub pending: u64,
    /// The oldest of them, where there is one.
    pub oldest: Option<String>,
    /// The ranks it misses.
    pub misses: Vec<Rank>,
    /// Why it failed, where it did.
    pub fault: Option<String>,
}
