//! The coordinator daemon: the sans-I/O core joined to its sockets, its clock, the relay of streamed bytes
//! and the report.
//!
//! No rule of matching or failing lives here; a decision that does not concern a socket, a file or a thread
//! belongs in `fakegpu-coordinator`.
//!
//! Read [`Daemon`] (the event loop), then [`Setup`] (what it is started with).
//!
//! ```no_run
//! use fakegpu_coordinatord::{Daemon, Setup};
//! let daemon = Daemon::bind("unix", "/tmp/fakegpu.sock", Setup::default())?;
//! println!("listening on {}", daemon.address());
//! daemon.run()?;
//! # anyhow::Ok(())
//! ```
//!
//! Sources: epoll(7) by way of mio; the text protocol and the report's files are described in crates/README.md.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod connection;
mod daemon;
mod model;
mod relay;
mod report;
mod setup;
mod switch;
mod worker;

pub use daemon::Daemon;
pub use setup::Setup;
