//! What a run did, as a report: a fold over the coordinator's events, written as JSON and as Markdown.
//!
//! No files, clocks or sockets: events come in one by one, text goes out. Nothing enters a report but events, so that
//! one rebuilt from a saved event log is the same to the byte; and an operation leaves nothing behind but counts, so
//! that a million of them take the memory of one.
//!
//! Read [`Fold`] first (events in, report out), then [`Report`] (what is said, and which fields are promised to be
//! reproducible), then [`Report::to_markdown`].
//!
//! ```
//! use fakegpu_proto::{Event, EventKind};
//! use fakegpu_report::{Fold, Options};
//! use fakegpu_units::{CommId, HostSpan, HostTime};
//!
//! let mut fold = Fold::new(Options::default());
//! let waits = vec![HostSpan::ZERO; 2];
//! fold.apply(&Event { at: HostTime::ZERO, kind: EventKind::Barrier { comm: CommId(1), waits, bytes: 0, took: fakegpu_units::VirtualSpan::ZERO } });
//! let report = fold.report();
//! assert_eq!(report.collectives.barrier.calls, 1);
//! assert!(report.to_json().contains("\"schema_version\": \"cluster_report.v1\""));
//! ```
//!
//! Sources: the accounting is nccl-tests' (the size it prints for an operation is the size booked here); JSON Schema
//! 2020-12.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod fold;
mod json;
mod markdown;
mod model;
mod rank;
mod recent;
mod snapshot;
mod tally;

pub use fold::{Fold, Options};
pub use json::{WALL_CLOCK_FIELDS, schema};
pub use model::*;
