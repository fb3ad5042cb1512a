//! What an operation costs on a virtual cluster, and why: algorithms expanded to bytes per link and steps.
//!
//! No sockets, files, clocks or threads, and no floating point past the cluster file: a bandwidth becomes whole bytes
//! a second once, after that everything is an integer of picoseconds, so that a prediction is the same on every
//! machine. Nothing here delays data; whoever asks decides what to do with the answer.
//!
//! Read [`Model`] first (what is asked and what is answered: a collective by [`Query`], point-to-point operations that
//! start together by [`TransferQuery`]), then [`TwoClass`] (the closed form over links within and between nodes), then
//! [`explain()`] (an answer as a person reads it).
//!
//! ```
//! use fakegpu_config::Cluster;
//! use fakegpu_fabric::{Model, Query, TwoClass, explain};
//! use fakegpu_proto::Descriptor;
//! use fakegpu_units::{Collective, DataType, NodeIndex, ReduceOp};
//!
//! let cluster = Cluster::uniform(2, 4);
//! let descriptor = Descriptor {
//!     op: Collective::AllReduce,
//!     count: 1 << 20,
//!     data_type: DataType::Float32,
//!     reduce: Some(ReduceOp::Sum),
//!     root: None,
//! };
//! let nodes = [0, 0, 0, 0, 1, 1, 1, 1].map(NodeIndex);
//! let estimate = TwoClass::new(&cluster.fabric).estimate(&Query { descriptor: &descriptor, nodes: &nodes, concurrent: 0 });
//! assert_eq!(estimate.total(), estimate.base_latency + estimate.transfer + estimate.contention);
//! assert!(explain(&estimate).contains("steps"));
//! ```
//!
//! Sources: the latency-bandwidth view of collectives of Hockney, and of Thakur, Rabenseifner and Gropp, "Optimization
//! of Collective Communication Operations in MPICH" (2005); the double tree of Sanders, Speck and Träff, "Two-tree
//! algorithms for full bandwidth broadcast, reduction and scan" (2009), which NCCL uses between nodes; NCCL's
//! `src/graph/tuning.cc` for the base latency of a launch.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod explain;
mod links;
mod plan;
mod transfers;
mod two_class;

use fakegpu_proto::{Descriptor, Estimate};
use fakegpu_units::NodeIndex;

pub use explain::explain;
pub use links::{INTER_NODE_EFFICIENCY_PERCENT, INTRA_NODE_EFFICIENCY_PERCENT};
pub use transfers::TransferQuery;
pub use two_class::{LAUNCH, TwoClass};

/// Predicts the cost of operations. The closed form is [`TwoClass`]; a simulation of flows can stand in its place.
pub trait Model {
    /// What `query` costs, in parts that add up, and why.
    ///
    /// Pure: the same query has the same answer. One rank alone costs nothing and moves nothing.
    fn estimate(&self, query: &Query<'_>) -> Estimate;

    /// What point-to-point operations cost that start together, in the order of `queries`, while `concurrent` other
    /// operations use their links.
    ///
    /// Each costs its launch, one hop and its bytes; what sharing with the rest of the set adds is contention. One to
    /// oneself costs its launch. Grows with the number of queries, not with that of pairs.
    fn transfers(&self, queries: &[TransferQuery], concurrent: u32) -> Vec<Estimate>;
}

/// One operation, as a [`Model`] needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// What is done.
    pub descriptor: &'a Descriptor,
    /// The node of each member, by its rank in the communicator.
    pub nodes: &'a [NodeIndex],
    /// Other operations that use these nodes' links at the same modelled time.
    pub concurrent: u32,
}
