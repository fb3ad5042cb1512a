//! The seam between sockets and the rooms that speak over them.
//!
//! It knows bytes, deadlines and frames; what the frames mean is no business of its own, and which family a
//! socket is of is decided by the crate that made it (`transport-uds`, `transport-tcp`).
//!
//! Read [`Wire`] (a connected socket, never blocking, with bounded waits), then [`Link`] (frames over a
//! wire), then [`Listener`] and [`Dialer`], which the families implement.
//!
//! ```
//! use std::time::Duration;
//! use fakegpu_proto::{ToCoordinator, ToRank};
//! use fakegpu_transport::{Link, Wire};
//!
//! let (near, far) = Wire::pair().unwrap();
//! let (near, mut far) = (Link::new(near), Link::new(far));
//! near.send(1, &ToCoordinator::Ping, Duration::from_secs(1)).unwrap();
//! let (request, message) = far.receive::<ToCoordinator>(Duration::from_secs(1)).unwrap().unwrap();
//! assert_eq!((request, message), (1, ToCoordinator::Ping));
//! # let _: Option<ToRank> = None;
//! ```
//!
//! Sources: send(2), recv(2), poll(2); every send carries `MSG_NOSIGNAL`, since the process may be a stranger's.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod link;
mod seam;
mod wire;

pub use link::{Link, LinkError, Receiver, Sender};
pub use seam::{Accepted, Dialer, Listener};
pub use wire::Wire;
