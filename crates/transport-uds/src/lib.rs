//! Unix-domain sockets: the coordinator's usual door, and the private sockets that hand out shared segments.
//!
//! One family of sockets and nothing else: no frames, no protocol, no environment.
//!
//! Read [`UdsListener`] (mode 0600, stale names replaced, live ones respected), [`UdsDialer`], then
//! [`PrivateSocket`] (an abstract name that leaves nothing behind, over which file descriptors travel).
//!
//! ```
//! use std::time::Duration;
//! use fakegpu_transport::{Dialer, Listener};
//! use fakegpu_transport_uds::{UdsDialer, UdsListener};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("door");
//! let listener = UdsListener::bind(path.to_str().unwrap()).unwrap();
//! let wire = UdsDialer::new(path.to_str().unwrap()).dial(Duration::from_secs(1)).unwrap();
//! assert!(listener.accept().unwrap().unwrap().trusted);
//! # drop(wire);
//! ```
//!
//! Sources: unix(7), `SO_PEERCRED` and `SCM_RIGHTS`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod door;
mod private;

pub use door::{UdsDialer, UdsListener};
pub use private::{PrivateSocket, Tag, receive_tagged, send_tagged};
