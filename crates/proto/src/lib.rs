//! What ranks and the coordinator say to each other, how it is framed, and the events a run leaves behind.
//!
//! No sockets, no clocks: framing works on byte slices, and every length is bounded before memory is taken,
//! because the bytes come from whoever connected.
//!
//! Read [`Descriptor`] (one rank's view of one operation, and what matches what), then [`ToCoordinator`] and
//! [`ToRank`], then [`Event`], from which every report is folded.
//!
//! ```
//! use fakegpu_proto::{FrameReader, ToCoordinator, frame};
//! let bytes = frame::encode(7, &ToCoordinator::Ping).unwrap();
//! let mut reader = FrameReader::default();
//! reader.extend(&bytes);
//! let (request, message) = reader.next_frame::<ToCoordinator>().unwrap().unwrap();
//! assert_eq!((request, message), (7, ToCoordinator::Ping));
//! ```
//!
//! Sources: NCCL's matching rules as its source states them; the body encoding is postcard's published format.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod descriptor;
pub mod event;
pub mod fault;
pub mod frame;
pub mod message;
pub mod text;

pub use descriptor::{Conflict, Descriptor, Signature};
pub use event::{Estimate, Event, EventKind, Flow};
pub use fault::{Code, Fault};
pub use frame::{FrameError, FrameReader, Header};
pub use message::{
    DataHello, Hello, JoinComm, Leave, Member, Offer, Placement, Release, StagingKind, StagingOutcome,
    StatsReply, ToCoordinator, ToRank, UniqueId,
};

/// The protocol's version; a peer with another one is refused by name.
pub const PROTOCOL_VERSION: u16 = 1;
