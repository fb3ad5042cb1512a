//! A whole cluster in one thread: N ranks, one coordinator, a network that delays and drops, and a virtual clock, all from one seed.
//!
//! Only ever a dev-dependency. Nothing here knows a socket or the machine's clock, so a seed replays everything.
//!
//! Read [`Scenario`] (what each rank does), [`Cluster`] (which runs it and checks named invariants after every
//! event), then [`Outcome`] (what each rank saw, and the event log).
//!
//! ```
//! use fakegpu_testkit::{Cluster, Ending, Scenario, Step};
//!
//! let outcome = Cluster::new(7, Scenario::same(4, vec![Step::Join, Step::all_reduce(8), Step::Leave])).run();
//! assert!(outcome.ranks.iter().all(|rank| rank.ending == Ending::Finished));
//! ```
//!
//! Sources: the simulation style of distributed databases and of QUIC test fixtures: seed plus code is the bug.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cluster;
mod invariants;
mod random;
mod scenario;

pub use cluster::{Cluster, Ending, Outcome, RankOutcome};
pub use random::Random;
pub use scenario::{Scenario, Step};
