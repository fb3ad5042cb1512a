//! The coordinator as a state machine: who joins whom, which calls match, who is late, who died.
//!
//! It performs no I/O whatsoever: no sockets, files, clocks, randomness or threads. Messages and the time are
//! arguments; replies, events and errands for the shell are drained from queues. The same inputs give the
//! same outputs, byte for byte, which is how `testkit::Cluster` replays a whole cluster from a seed. Tensor
//! bytes never enter.
//!
//! Read [`Coordinator`] (its methods come in three kinds, in the order of use), then [`Options`] and
//! [`CostModel`] (what it is given), then [`Errand`] (what it asks of its shell).
//!
//! ```
//! use fakegpu_coordinator::{Coordinator, Free, Options, Outgoing, PeerId};
//! use fakegpu_units::HostTime;
//!
//! let mut coordinator = Coordinator::new(Options::default(), Box::new(Free));
//! let peer = PeerId(1);
//! coordinator.handle_connect(HostTime::ZERO, peer, true, 42);
//! coordinator.handle_text(HostTime::ZERO, peer, "PING");
//! let reply = coordinator.poll_transmit().unwrap();
//! assert_eq!(reply.outgoing, Outgoing::Line("OK status=ready version=1 transport=unix\n".into()));
//! ```
//!
//! Sources: NCCL's matching and lifetime rules; the sans-I/O shape is the one QUIC implementations in Rust use.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod barrier;
mod batch;
mod batches;
mod comm;
mod coordinator;
mod deadline;
mod deadlock;
mod derive;
mod inspect;
mod membership;
mod occupation;
mod options;
mod order;
mod pairs;
mod patience;
mod recorder;
mod rendezvous;
mod run;
mod sentence;
mod session;
mod text;
mod whole;
mod world;

pub use coordinator::{Coordinator, Errand, Outgoing, PeerId, Transmit};
pub use options::{CostModel, Free, Options, TransferWork, Work};
