//! The product's promises, held against real processes.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod collectives;
mod daemon;
mod deaths;
mod embedded;
mod endurance;
mod fabric;
mod failures;
mod fallbacks;
mod fuzz;
mod hosts;
mod life;
mod lifecycle;
mod pairs;
mod perf;
mod sanitizers;
