//! A rank's half of NCCL's rules: which calls are well formed, what a group holds together, what a unique id carries.
//!
//! Pure logic: no sockets, no memory of the caller's is touched (addresses are numbers here), no environment.
//!
//! Read [`Call`] (one C call, checked into a [`fakegpu_proto::Descriptor`]), then [`PointToPoint`] and [`expand`]
//! (sends, receives, and what is made of them), then [`Group`] (nesting, all or nothing), then [`IdContent`] (what `ncclGetUniqueId` puts into its 128 bytes).
//!
//! ```
//! use fakegpu_rank::{Call, Checked};
//! use fakegpu_units::{Collective, DataType, Rank, ReduceOp};
//!
//! let call = Call {
//!     op: Collective::AllReduce, send: 0x1000, recv: 0x2000, count: 4, data_type: DataType::Float32,
//!     reduce: Some(ReduceOp::Sum), root: None, rank: Rank(0), size: 2,
//! };
//! assert!(matches!(call.check(), Ok(Checked::Runs(_))));
//! ```
//!
//! Sources: NCCL's argument checks and group semantics, restated.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod call;
mod group;
mod transfer;
mod unique_id;

pub use call::{Call, Checked, Overlap, check_capability};
pub use group::{Group, GroupEnd};
pub use transfer::{Part, PointToPoint, SelfPairs, checked_peer, expand};
pub use unique_id::{IdContent, IdError};
