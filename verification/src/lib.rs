//! Real processes, the real library, the real daemon: what the product promises, seen from outside.
//!
//! Nothing of the product is linked in: its files are found where `cargo xtask build` lays them out, and its
//! answers are read as a user reads them. Slow runs are examples; the rest are tests in `tests/it`.
//!
//! Read [`Layout`] (the files), [`Daemon`] (a coordinator that ends with its guard), then [`Job`] (ranks of a
//! program, waited for within a bound).
//!
//! ```no_run
//! use fakegpu_verification::{Daemon, Job, Layout};
//! let layout = Layout::find();
//! let daemon = Daemon::start(&layout, "unix", &[]);
//! let outcome = Job::new(&layout, 4, &["--quick"]).coordinator(&daemon).run();
//! outcome.assert_success();
//! ```
//!
//! Sources: the README's promises and `acceptance.yaml` beside this crate.
#![forbid(unsafe_code)]

mod daemon;
pub mod fuzz;
mod job;
mod layout;

pub use daemon::Daemon;
pub use job::{Job, Outcome, RankOutcome};
pub use layout::Layout;
