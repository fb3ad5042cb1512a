//! The coordinator under simulation: whole clusters from seeds, and the sentences people read.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod life;
mod pairs;
mod patience;
mod sentences;
mod simulation;
mod text;
mod world;
