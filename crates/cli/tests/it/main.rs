//! `fakegpu` as a person meets it: flags in, text and exit codes out; and beside a job of a real coordinator.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod cases;
mod live;
mod support;
