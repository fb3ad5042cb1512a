//! What ranks and the coordinator say to each other, how it is framed, and the events a run leaves behind.
//!
//! No sockets, no clocks: framing works on byte slices, and every length is bounded before memory is taken,
//! because the bytes come from whoever connected.
//!
//! Read [`Descriptor`] (one rank's view of a collective, and what matches what) and [`Action`] (everything a rank can
//! ask for), then [`ToCoordinator`] and [`ToRank`], then [`Event`], from which every report is folded, and
//! [`Snapshot`] (a live job).
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

pub mod action;
pub mod descriptor;
pub mod event;
pub mod fault;
pub mod frame;
pub mod message;
pub mod snapshot;
pub mod text;

pub use action::{Action, ActionSignature, Awaited, Direction, Split, Transfer, Window};
pub use descriptor::{Conflict, Descriptor, Signature};
pub use event::{Estimate, Event, EventKind, Flow, Origin, RankHistory};
pub use fault::{Code, Fault};
pub use frame::{FrameError, FrameReader, Header};
pub use message::{
    DataHello, Gpu, Hello, JoinComm, Lane, Leave, Member, Offer, Placement, Release, STREAM, ShrinkComm,
    StagingKind, StagingOutcome, StatsReply, ToCoordinator, ToRank, UniqueId,
};
pub use snapshot::{CommView, RankView, Snapshot};

/// The protocol's version; a peer with another one is refused by name.
pub const PROTOCOL_VERSION: u16 = 4;

/// The text protocol's version, which scripts look at.
pub const TEXT_VERSION: u16 = 1;

/// Most ranks of a communicator.
pub const COMM_SIZE_MAX: u32 = 4_096;
