//! The words every other room speaks: virtual and host time, ranks and communicators, data types and operations.
//!
//! Nothing here does anything: no I/O, no clocks, no randomness, no policy. A bare `u64` never crosses a
//! crate boundary where one of these types says what it is.
//!
//! Read [`time`] first ([`VirtualTime`] and [`HostTime`] have no conversion between them on purpose), then
//! [`ids`], then [`data`] ([`DataType`], [`ReduceOp`], [`Collective`]).
//!
//! ```
//! use fakegpu_units::{DataType, VirtualSpan, VirtualTime};
//! let start = VirtualTime::ZERO;
//! assert_eq!(start + VirtualSpan::from_micros(3), VirtualTime::from_picos(3_000_000));
//! assert_eq!(DataType::BFloat16.size(), 2);
//! ```
//!
//! Sources: the enumerations follow `nccl.h` of NCCL 2.32.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod data;
pub mod ids;
pub mod time;

pub use data::{Collective, DataType, ReduceOp};
pub use ids::{CommId, GlobalRank, NodeIndex, Rank, Ranks, SeqNo, SessionId};
pub use time::{HostSpan, HostTime, VirtualSpan, VirtualTime};
