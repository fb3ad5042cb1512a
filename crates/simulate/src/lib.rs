//! NCCL calls answered without a GPU: a process's sessions with coordinators, its communicators, and the
//! moving of real bytes once the coordinator has said go.
//!
//! No C types and no pointers to dereference enter here (`nccl-shim` keeps those at its fence), and no rule
//! about what matches what (the coordinator has those).
//!
//! Read [`Runtime`] (the process's state, one method a kind of call), then [`Request`] and [`Collective`] (what
//! it is asked), then [`Outcome`] (how far a call is when it returns), then [`Spawn`] (how an embedded coordinator
//! and threads are started).
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

mod calls;
mod capability;
mod capture;
mod communicator;
mod debug;
mod drive;
mod embedded;
mod engine;
mod environment;
mod grouping;
mod init;
mod job;
mod lane;
mod lifecycle;
mod operation;
mod parameters;
mod planes;
mod process;
mod redop;
mod runtime;
mod session;
mod siblings;
mod streams;
mod submission;
mod window;

pub use calls::{Collective, FactorSource};
pub use communicator::{CommOptions, Handle, Standing};
pub use embedded::{NeverSpawn, Spawn, THREAD_NAME};
pub use fakegpu_proto::{COMM_SIZE_MAX, Code, Direction, Fault};
pub use job::Outcome;
pub use lifecycle::{ChildOptions, CudaDevice, Properties, Request};
pub use operation::ReadScalar;
pub use parameters::ParameterId;
pub use redop::RedOp;
pub use runtime::Runtime;
pub use streams::{NoStreams, Remake, Stream, StreamWork, Streams, Turn};
pub use window::{Awaiting, OneSided, Put};
