//! What can be wrong with a plan, a kernel call, or bytes handed to either.

use fakegpu_units::{Collective, DataType, Rank};
use thiserror::Error;

/// Why a [`Shape`](crate::Shape) has no plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A communicator has at least one rank.
    #[error("communicator of `0` ranks: a plan needs at least one")]
    NoRanks,
    /// The root is no rank of the communicator.
    #[error("root `{root}` is outside a communicator of `{size}` ranks: pass 0 to size - 1")]
    RootOutOfRange {
        /// The root asked for.
        root: Rank,
        /// Ranks in the communicator.
        size: u32,
    },
    /// No NCCL data type has this size.
    #[error("element of `{elem_bytes}` bytes: NCCL's types take 1, 2, 4 or 8")]
    ElementSize {
        /// The size asked for.
        elem_bytes: usize,
    },
    /// Slots are whole cache lines.
    #[error("slot of `{slot_bytes}` bytes is not a positive multiple of 64: round it up")]
    SlotUnaligned {
        /// The slot offered.
        slot_bytes: usize,
    },
    /// The slot cannot hold one element of each block a rank publishes.
    #[error(
        "slot of `{slot_bytes}` bytes cannot hold `{pieces}` elements of `{elem_bytes}` bytes, one per block of \
         {op}: enlarge the slot"
    )]
    SlotTooSmall {
        /// The collective.
        op: Collective,
        /// The slot offered.
        slot_bytes: usize,
        /// Blocks a rank publishes in each round.
        pieces: u32,
        /// Bytes of an element.
        elem_bytes: usize,
    },
    /// The whole tensor does not fit the address space.
    #[error("`{count}` elements of `{elem_bytes}` bytes for each of `{size}` ranks exceed the address space")]
    TooLarge {
        /// Elements per block.
        count: u64,
        /// Ranks in the communicator.
        size: u32,
        /// Bytes of an element.
        elem_bytes: usize,
    },
}

/// Why a kernel refused its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Each rank contributes exactly one source.
    #[error("fold over `{size}` ranks got `{sources}` sources: pass one per rank, in rank order")]
    SourceCount {
        /// Ranks of the reduction.
        size: u32,
        /// Sources passed.
        sources: usize,
    },
    /// Source and destination differ in length.
    #[error("source `{source_index}` has `{source_bytes}` bytes where the destination has `{target_bytes}`")]
    Length {
        /// Which source.
        source_index: usize,
        /// Its length.
        source_bytes: usize,
        /// The destination's length.
        target_bytes: usize,
    },
    /// A buffer ends inside an element.
    #[error("`{bytes}` bytes are not a whole number of {data_type} elements")]
    PartialElement {
        /// The buffer's length.
        bytes: usize,
        /// The element type.
        data_type: DataType,
    },
    /// The scalar was made for another element type.
    #[error("scalar is {scalar} where the elements are {elements}")]
    ScalarType {
        /// The scalar's type.
        scalar: DataType,
        /// The elements' type.
        elements: DataType,
    },
}

/// Why a plan could not be executed with what was handed in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// Exactly the reducing collectives come with a reduction.
    #[error("{op} was given {} reduction", if op.reduces() { "no" } else { "a" })]
    Reduction {
        /// The collective.
        op: Collective,
    },
    /// Plan and reduction are about different communicators or element types.
    #[error(
        "reduction over `{reduction_size}` ranks of {data_type} does not fit a plan for `{plan_size}` ranks and \
         elements of `{elem_bytes}` bytes"
    )]
    Mismatch {
        /// Ranks of the reduction.
        reduction_size: u32,
        /// Element type of the reduction.
        data_type: DataType,
        /// Ranks of the plan.
        plan_size: u32,
        /// Bytes of an element in the plan.
        elem_bytes: usize,
    },
    /// The plan has no such round.
    #[error("round `{index}` of a plan that has `{rounds}`")]
    NoSuchRound {
        /// The round asked for.
        index: u64,
        /// Rounds in the plan.
        rounds: u64,
    },
    /// One buffer is wanted per rank.
    #[error("`{seen}` buffers for `{size}` ranks: pass one per rank, empty where a rank has none")]
    RankCount {
        /// Ranks of the plan.
        size: u32,
        /// Buffers passed.
        seen: usize,
    },
    /// A rank sent another number of bytes than the round asks of it.
    #[error("rank {rank} contributed `{seen}` bytes to round `{index}` where the plan says `{expected}`")]
    Contribution {
        /// The contributor.
        rank: Rank,
        /// The round.
        index: u64,
        /// Bytes the plan asks for.
        expected: usize,
        /// Bytes that came.
        seen: usize,
    },
    /// A rank's buffer is shorter than the collective needs.
    #[error("{side} buffer of rank {rank} has `{seen}` bytes where the collective uses `{expected}`")]
    Buffer {
        /// `send` or `receive`.
        side: &'static str,
        /// The buffer's owner.
        rank: Rank,
        /// Bytes the collective uses.
        expected: usize,
        /// Bytes there are.
        seen: usize,
    },
    /// A kernel refused what the plan handed it.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}
