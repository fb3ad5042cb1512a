//! What a coordinator is given when it is made.

use fakegpu_proto::event::ClusterSummary;
use fakegpu_proto::{Descriptor, Estimate};
use fakegpu_units::{GlobalRank, HostSpan, NodeIndex};

/// The settings of one coordinator.
#[derive(Clone, Debug)]
pub struct Options {
    /// `unix` or `tcp`; PING says it.
    pub transport: String,
    /// The secret every peer must show; with `None`, only trusted peers may speak.
    pub token: Option<String>,
    /// The cluster it simulates; with no nodes, it grows as ranks join.
    pub cluster: ClusterSummary,
    /// How long ranks may wait for the rest of their communicator, where their environment does not say.
    pub join_timeout: HostSpan,
    /// How long a rank may take to say whether it could map its communicator's segment.
    pub staging_timeout: HostSpan,
    /// How long a call may wait for a rank that never joined, left, or is itself blocked.
    pub stuck_timeout: HostSpan,
    /// How long a call may wait for a rank whose process lives and computes.
    pub patience: HostSpan,
    /// How long a conflict may wait for the remaining ranks, so that the sentence can name everybody.
    pub conflict_grace: HostSpan,
    /// When the first line about who waits for whom is due.
    pub notice_after: HostSpan,
    /// When it is due again.
    pub notice_again: HostSpan,
    /// The staging memory of one communicator, at most.
    pub staging_bytes_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            transport: "unix".to_owned(),
            token: None,
            cluster: ClusterSummary::default(),
            join_timeout: HostSpan::from_millis(60_000),
            staging_timeout: HostSpan::from_millis(30_000),
            stuck_timeout: HostSpan::from_millis(60_000),
            patience: HostSpan::from_millis(540_000),
            conflict_grace: HostSpan::from_millis(200),
            notice_after: HostSpan::from_millis(2_000),
            notice_again: HostSpan::from_millis(60_000),
            staging_bytes_max: 16 << 20,
        }
    }
}

/// One operation, as the cost model is asked about it.
#[derive(Debug)]
pub struct Work<'a> {
    /// What is done.
    pub descriptor: &'a Descriptor,
    /// The node of each member, by rank.
    pub nodes: &'a [NodeIndex],
    /// How many operations of other communicators run at the same modelled time on the same nodes.
    pub concurrent: u32,
}

/// A point-to-point operation, as the cost model is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct TransferWork {
    /// The sender's node.
    pub src: NodeIndex,
    /// The receiver's node.
    pub dst: NodeIndex,
    /// The sender.
    pub from: GlobalRank,
    /// The receiver.
    pub to: GlobalRank,
    /// How many bytes.
    pub bytes: u64,
}

/// Predicts what an operation costs on the simulated cluster.
pub trait CostModel: Send {
    /// The cost of `work`, with its reason.
    fn estimate(&self, work: &Work<'_>) -> Estimate;

    /// The cost of transfers that start together, in their order; `concurrent` as in [`Work`].
    fn transfers(&self, works: &[TransferWork], concurrent: u32) -> Vec<Estimate>;
}

/// The cost model of a cluster where everything is free; for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Free;

impl CostModel for Free {
    fn estimate(&self, _: &Work<'_>) -> Estimate {
        Estimate::default()
    }

    fn transfers(&self, works: &[TransferWork], _: u32) -> Vec<Estimate> {
        vec![Estimate::default(); works.len()]
    }
}
