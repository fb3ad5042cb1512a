//! What can go wrong with staging memory, a peer, or a run.

use std::io;
use std::time::Duration;

use fakegpu_executor::{KernelError, RunError};
use fakegpu_units::Rank;
use thiserror::Error;

/// Why bytes could not be moved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StagingError {
    /// No segment has this shape.
    #[error("segment for `{size}` ranks with slots of `{slot_bytes}` bytes: {why}")]
    Geometry {
        /// Ranks asked for.
        size: u32,
        /// Slot asked for.
        slot_bytes: u32,
        /// What is wrong and what to do.
        why: &'static str,
    },
    /// The process may not create a file of the segment's size, and trying would kill it.
    #[error(
        "segment of `{bytes}` bytes exceeds this process's file size limit of `{limit}`: raise `ulimit -f`"
    )]
    FileSizeLimit {
        /// Bytes of the segment.
        bytes: u64,
        /// The soft `RLIMIT_FSIZE`.
        limit: u64,
    },
    /// A system call that makes or maps a segment failed.
    #[error("{call} for a shared segment of `{bytes}` bytes failed: {source}")]
    Memory {
        /// The call, e.g. `memfd_create`.
        call: &'static str,
        /// Bytes of the segment.
        bytes: u64,
        /// The system's answer.
        source: io::Error,
    },
    /// A descriptor that came from a peer is no segment of ours, or another one.
    #[error("received file is not the expected shared segment: {what} is `{seen}` where `{expected}` is due")]
    Foreign {
        /// The property that differs.
        what: &'static str,
        /// Its value.
        seen: u64,
        /// The value it should have.
        expected: u64,
    },
    /// The rank has no place here.
    #[error("rank `{rank}` is outside a communicator of `{size}` ranks")]
    NoSuchRank {
        /// The rank asked for.
        rank: Rank,
        /// Ranks there are.
        size: u32,
    },
    /// A run was begun before the previous one ended.
    #[error("an operation was begun while another is in progress: poll it to its end first")]
    Busy,
    /// Plan and staging memory do not fit each other.
    #[error("plan for `{plan}` {what} does not fit staging memory for `{staging}`")]
    PlanMismatch {
        /// What is counted.
        what: &'static str,
        /// The plan's number.
        plan: u64,
        /// The staging memory's.
        staging: u64,
    },
    /// The operation's parts do not belong together.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A kernel refused its arguments.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// This rank or a peer gave up; nothing moves on this communicator any more.
    #[error("the communicator's data exchange was given up by one of its ranks")]
    Poisoned,
    /// The other end of a rank's data connection is gone.
    #[error("the data connection to the coordinator failed: {source}")]
    Connection {
        /// The system's answer.
        source: io::Error,
    },
    /// One rank's data connection failed, seen by the coordinator.
    #[error("the data connection of rank {rank} failed: {source}")]
    Peer {
        /// Whose connection.
        rank: Rank,
        /// The system's answer.
        source: io::Error,
    },
    /// The transfer engine itself failed.
    #[error("the {engine} transfer engine failed: {source}")]
    Engine {
        /// Its name.
        engine: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// `io_uring` cannot be used.
    #[error("io_uring is not usable here: {what}: {source}")]
    UringRefused {
        /// The step that failed.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The caller's own limit passed.
    #[error("no end of the operation within {limit:?}")]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
}
