//! NCCL calls answered without a GPU: a process's sessions with coordinators, its communicators, and the
//! moving of real bytes once the coordinator has said go.
//!
//! No C types and no pointers to dereference enter here (`nccl-shim` keeps those at its fence), and no rule
//! about what matches what (the coordinator has those).
//!
//! Read [`Runtime`] (the process's state, one method a kind of call), then [`Request`] and [`Collective`] (what
//! it is asked), then [`Spawn`] (how an embedded coordinator is started).
//!
//! ```
//! use fakegpu_simulate::{NeverSpawn, Runtime};
//!
//! let vars = [("FAKEGPU_DIST_MODE".to_owned(), "disabled".to_owned())];
//! let runtime = Runtime::new(vars, Box::new(NeverSpawn));
//! let fault = runtime.unique_id().unwrap_err();
//! assert!(fault.detail.contains("FAKEGPU_DIST_MODE"));
//! ```
//!
//! Sources: NCCL's lifetime and group rules as `rank` and `coordinator` state them.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod communicator;
mod drive;
mod embedded;
mod grouping;
mod init;
mod process;
mod redop;
mod runtime;
mod session;

pub use communicator::Handle;
pub use embedded::{NeverSpawn, Spawn};
pub use fakegpu_proto::{Code, Fault};
pub use redop::RedOp;
pub use runtime::{Collective, Request, Runtime};
