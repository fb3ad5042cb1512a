//! Both roads against the executor's own single-threaded run, and what happens when a peer or a limit says no.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod case;
mod engines;
mod limits;
mod processes;
mod shared;
mod streamed;
mod switch;
mod transfers;
