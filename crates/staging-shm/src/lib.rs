//! How tensor bytes move between ranks: through one shared segment a communicator, or as chunks over sockets.
//!
//! Memory, futexes and socket transfers live here and nothing else: no configuration, no matching of
//! operations, no clocks but bounded waits, and no decision which road a communicator takes. What moves when is
//! the executor's `Plan`, the same on both roads, so both deliver the same bits.
//!
//! Read [`Exchange`] first (one rank's half of one operation, driven by polling), then [`Segment`] and
//! [`SharedExchange`] (the shared road), then [`StreamedExchange`] and [`RelayLane`] (the two ends of the
//! streamed road) over an [`Engine`] (`io_uring`, or plain sockets). Sends and receives, of which only two ranks
//! know, are [`Transfers`]: [`SharedTransfers`] through the segment, or [`StreamedTransfers`] through a
//! [`SwitchLane`]. [`SharedMemory`] is what programs ask for to put into each other's.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use fakegpu_executor::{Plan, Shape};
//! use fakegpu_staging_shm::{Geometry, RecvBuffer, Run, Segment, SendBuffer, SharedExchange, finish};
//! use fakegpu_units::{Collective, CommId, DataType, Rank, SeqNo};
//!
//! let geometry = Geometry::new(1, 4096)?;
//! let (segment, _fd_for_peers) = Segment::create(geometry)?;
//! let mut exchange = SharedExchange::new(Arc::new(segment), Rank(0))?;
//! let shape = Shape { op: Collective::AllGather, size: 1, root: Rank(0), count: 3, elem_bytes: 1, slot_bytes: 4096 };
//! let (sent, mut received) = ([7_u8, 8, 9], [0_u8; 3]);
//! let run = Run {
//!     plan: Plan::new(shape)?,
//!     reduction: None,
//!     scalar: None,
//!     // SAFETY: both arrays outlive the operation, and nothing else touches them meanwhile.
//!     send: unsafe { SendBuffer::new(sent.as_ptr(), sent.len()) },
//!     // SAFETY: as above.
//!     recv: unsafe { RecvBuffer::new(received.as_mut_ptr(), received.len()) },
//!     data_type: DataType::UInt8,
//!     comm: CommId(0),
//!     seq: SeqNo(0),
//! };
//! finish(&mut exchange, run, Duration::from_secs(5))?;
//! assert_eq!(received, sent);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Limits: a segment's pages are charged when it is created, those of a pair's channel with its first transfer of
//! bytes. A communicator of more than 1024 ranks has no channels: its transfers are streamed. `io_uring` buffers are not registered:
//! a fixed-buffer write cannot carry `MSG_NOSIGNAL` (a closed peer would kill a stranger's process), and a
//! fixed-buffer read of a non-blocking socket answers `EAGAIN` instead of waiting.
//!
//! Sources: memfd_create(2), fcntl(2) on seals, futex(2), io_uring_enter(2).
#![warn(missing_docs)]

pub mod engine;
mod error;
mod exchange;
mod lane;
mod memory;
mod pages;
mod port;
mod segment;
mod shared;
mod shared_transfers;
mod streamed;
mod streamed_transfers;
mod switch;
mod transfers;
mod user;

pub use engine::{Direction, Engine, Finished, PollEngine, Transfer, UringEngine, engine};
pub use error::StagingError;
pub use exchange::{Exchange, Progress, Run, StagingStats, finish};
pub use lane::RelayLane;
pub use memory::SharedMemory;
pub use segment::{Descriptor, Geometry, Segment};
pub use shared::SharedExchange;
pub use shared_transfers::SharedTransfers;
pub use streamed::StreamedExchange;
pub use streamed_transfers::StreamedTransfers;
pub use switch::SwitchLane;
pub use transfers::Transfers;
pub use user::{RecvBuffer, SendBuffer};
