//! How a collective is cut: rounds over chunks of the tensor, and what each rank does in a round.
//!
//! A round has up to three steps, the same on every road:
//!
//! 1. *publish*: the rank copies pieces of its send buffer into its slot;
//! 2. *fold*: once all have published, it folds one range of every slot, into its result area or straight
//!    into its receive buffer;
//! 3. *collect*: it copies pieces out of slots, or, once all have folded, out of result areas.
//!
//! **Invariant:** a rank publishes all of a round before it writes to its receive buffer in that round, and no
//! later round publishes bytes at offsets that an earlier one delivered to. That alone makes NCCL's in-place
//! forms right, because they overlay the two buffers so that equal offsets of a round coincide.

use fakegpu_units::{Collective, Rank};

use crate::PlanError;

/// What is to be done: everything a plan depends on, equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The collective.
    pub op: Collective,
    /// Ranks in the communicator.
    pub size: u32,
    /// The rank with a part of its own; ignored where [`Collective::has_root`] is false.
    pub root: Rank,
    /// NCCL's count: elements per block.
    pub count: u64,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub elem_bytes: usize,
    /// Capacity of one rank's slot in one round, a multiple of 64.
    pub slot_bytes: usize,
}

/// A collective cut into rounds. Its size does not depend on the tensor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    shape: Shape,
    /// Bytes of a block that a full round covers.
    chunk_bytes: usize,
    /// Bytes of one block: `count` elements.
    block_bytes: usize,
}

/// What one rank does in one round; reused from round to round by [`Plan::fill`].
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// First: pieces of the send buffer that go into the rank's own slot.
    pub publish: Vec<Publish>,
    /// Then: the range this rank folds.
    pub fold: Option<FoldStep>,
    /// Last: pieces that go into the receive buffer.
    pub collect: Vec<Collect>,
}

/// A copy from the rank's send buffer into its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish {
    /// Byte offset in the send buffer.
    pub user: usize,
    /// Byte offset in the rank's slot; the pieces of a round fill the slot without gaps, in order.
    pub slot: usize,
    /// Bytes to copy.
    pub bytes: usize,
}

/// A reduction over one range of every rank's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldStep {
    /// Where the range starts, the same in every slot.
    pub slot: usize,
    /// Its length.
    pub bytes: usize,
    /// Where the result goes.
    pub to: FoldTarget,
}

/// Where a fold's result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoldTarget {
    /// The folding rank's result area, for others to collect.
    Result {
        /// Byte offset in the result area.
        offset: usize,
    },
    /// The folding rank's receive buffer.
    Recv {
        /// Byte offset in the receive buffer.
        user: usize,
    },
}

/// A copy into the rank's receive buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Collect {
    /// The area read.
    pub from: Source,
    /// Byte offset in that area.
    pub offset: usize,
    /// Byte offset in the receive buffer.
    pub user: usize,
    /// Bytes to copy.
    pub bytes: usize,
}

/// An area of staging memory that ranks read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// What that rank published.
    Slot(Rank),
    /// What that rank folded.
    Result(Rank),
}

/// Up to this many bytes in all slots together, every rank that wants the result folds the whole chunk itself:
/// folding 8 KiB takes well under a microsecond, a barrier among processes several.
pub const DIRECT_FOLD_BYTES: usize = 8 << 10;

/// Slices start on multiples of this, so that no two ranks write one cache line.
const LINE_BYTES: usize = 64;

/// Bytes any rank's result area must hold for plans over slots of `slot_bytes` among `size` ranks.
pub const fn result_bytes(slot_bytes: usize, size: u32) -> usize {
    let ranks = if size == 0 { 1 } else { size as usize };
    slot_bytes.div_ceil(LINE_BYTES).div_ceil(ranks) * LINE_BYTES
}

impl Plan {
    /// Cuts a collective into rounds.
    ///
    /// # Errors
    /// Where the shape describes no possible operation, or a slot cannot hold one element of each block.
    pub fn new(shape: Shape) -> Result<Self, PlanError> {
        let Shape { op, size, root, count, elem_bytes, slot_bytes } = shape;
        if size == 0 {
            return Err(PlanError::NoRanks);
        }
        if op.has_root() && root.0 >= size {
            return Err(PlanError::RootOutOfRange { root, size });
        }
        if !matches!(elem_bytes, 1 | 2 | 4 | 8) {
            return Err(PlanError::ElementSize { elem_bytes });
        }
        if slot_bytes == 0 || !slot_bytes.is_multiple_of(LINE_BYTES) {
            return Err(PlanError::SlotUnaligned { slot_bytes });
        }
        let block_bytes =
            block_bytes(count, size, elem_bytes).ok_or(PlanError::TooLarge { count, size, elem_bytes })?;
        let pieces = op.send_blocks(size);
        match piece_capacity(slot_bytes, pieces, elem_bytes) {
            0 => Err(PlanError::SlotTooSmall { op, slot_bytes, pieces, elem_bytes }),
            chunk_bytes => Ok(Self { shape, chunk_bytes, block_bytes }),
        }
    }

    /// What the plan was made for.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How many rounds there are; none where the count is 0.
    pub const fn rounds(&self) -> u64 {
        self.block_bytes.div_ceil(self.chunk_bytes) as u64
    }

    /// Bytes of a rank's send buffer that the collective looks at.
    pub const fn send_bytes(&self, rank: Rank) -> usize {
        let reads = match self.shape.op {
            Collective::Broadcast | Collective::Scatter => rank.0 == self.shape.root.0,
            _ => true,
        };
        if reads { self.block_bytes * self.shape.op.send_blocks(self.shape.size) as usize } else { 0 }
    }

    /// Bytes of a rank's receive buffer that the collective writes.
    pub const fn recv_bytes(&self, rank: Rank) -> usize {
        let writes = match self.shape.op {
            Collective::Reduce | Collective::Gather => rank.0 == self.shape.root.0,
            _ => true,
        };
        if writes { self.block_bytes * self.shape.op.recv_blocks(self.shape.size) as usize } else { 0 }
    }

    /// Whether some rank folds into its result area in this round, so that all must wait for all between
    /// folding and collecting.
    pub fn needs_result_barrier(&self, index: u64) -> bool {
        matches!(self.shape.op, Collective::AllReduce | Collective::Reduce)
            && self.chunk(index).is_some_and(|chunk| !self.folds_directly(chunk))
    }

    /// Writes what `rank` does in round `index` into `round`, keeping its allocations. A rank or an index
    /// beyond the plan's has nothing to do.
    pub fn fill(&self, index: u64, rank: Rank, round: &mut Round) {
        round.clear();
        let Some(chunk) = self.chunk(index).filter(|_| rank.0 < self.shape.size) else { return };
        self.fill_publish(chunk, rank, &mut round.publish);
        round.fold = self.fold_step(chunk, rank);
        self.fill_collect(chunk, rank, &mut round.collect);
    }

    fn chunk(&self, index: u64) -> Option<Chunk> {
        let offset = usize::try_from(index).ok()?.checked_mul(self.chunk_bytes)?;
        let left = self.block_bytes.checked_sub(offset).filter(|&left| left > 0)?;
        Some(Chunk { offset, bytes: left.min(self.chunk_bytes) })
    }

    fn is_root(&self, rank: Rank) -> bool {
        rank == self.shape.root
    }

    fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.shape.size).map(Rank)
    }

    fn folds_directly(&self, chunk: Chunk) -> bool {
        self.shape.size == 1 || chunk.bytes.saturating_mul(self.shape.size as usize) <= DIRECT_FOLD_BYTES
    }

    fn fill_publish(&self, chunk: Chunk, rank: Rank, publish: &mut Vec<Publish>) {
        if self.send_bytes(rank) == 0 {
            return;
        }
        let pieces = 0..self.shape.op.send_blocks(self.shape.size) as usize;
        publish.extend(pieces.map(|piece| Publish {
            user: piece * self.block_bytes + chunk.offset,
            slot: piece * chunk.bytes,
            bytes: chunk.bytes,
        }));
    }

    fn fold_step(&self, chunk: Chunk, rank: Rank) -> Option<FoldStep> {
        let whole = FoldStep { slot: 0, bytes: chunk.bytes, to: FoldTarget::Recv { user: chunk.offset } };
        match self.shape.op {
            Collective::ReduceScatter => Some(FoldStep { slot: rank.index() * chunk.bytes, ..whole }),
            Collective::AllReduce if self.folds_directly(chunk) => Some(whole),
            Collective::Reduce if self.folds_directly(chunk) => self.is_root(rank).then_some(whole),
            Collective::AllReduce | Collective::Reduce => {
                let Slice { start, bytes } = chunk.slice(rank, self.shape.size)?;
                Some(FoldStep { slot: start, bytes, to: FoldTarget::Result { offset: 0 } })
            }
            _ => None,
        }
    }

    fn fill_collect(&self, chunk: Chunk, rank: Rank, collect: &mut Vec<Collect>) {
        let Shape { op, root, size, .. } = self.shape;
        let Chunk { offset: at, bytes } = chunk;
        let piece = rank.index() * bytes;
        let block = |from: Rank| from.index() * self.block_bytes + at;
        match op {
            Collective::AllReduce | Collective::Reduce => {
                if self.recv_bytes(rank) > 0 && !self.folds_directly(chunk) {
                    collect.extend(self.ranks().filter_map(|from| {
                        let Slice { start, bytes } = chunk.slice(from, size)?;
                        Some(Collect { from: Source::Result(from), offset: 0, user: at + start, bytes })
                    }));
                }
            }
            Collective::ReduceScatter => {}
            Collective::Broadcast => {
                collect.push(Collect { from: Source::Slot(root), offset: 0, user: at, bytes });
            }
            Collective::Scatter => {
                collect.push(Collect { from: Source::Slot(root), offset: piece, user: at, bytes });
            }
            Collective::AllGather | Collective::Gather => {
                if self.recv_bytes(rank) > 0 {
                    collect.extend(self.ranks().map(|from| Collect {
                        from: Source::Slot(from),
                        offset: 0,
                        user: block(from),
                        bytes,
                    }));
                }
            }
            Collective::AllToAll => collect.extend(self.ranks().map(|from| Collect {
                from: Source::Slot(from),
                offset: piece,
                user: block(from),
                bytes,
            })),
        }
    }
}

impl Round {
    /// Bytes the rank publishes: how much of its slot is in use.
    pub fn contribution_bytes(&self) -> usize {
        self.publish.iter().map(|piece| piece.bytes).sum()
    }

    /// The pieces delivered to the receive buffer, as (byte offset in it, bytes), in the order a
    /// [`Relay`](crate::Relay) concatenates them: the fold, then each collect.
    pub fn reply_pieces(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let folded = self.fold.and_then(|step| match step.to {
            FoldTarget::Recv { user } => Some((user, step.bytes)),
            FoldTarget::Result { .. } => None,
        });
        folded.into_iter().chain(self.collect.iter().map(|piece| (piece.user, piece.bytes)))
    }

    /// Bytes delivered to the receive buffer.
    pub fn reply_bytes(&self) -> usize {
        self.reply_pieces().map(|(_, bytes)| bytes).sum()
    }

    /// Whether the rank reads other ranks' memory in this round.
    pub fn reads(&self) -> bool {
        self.fold.is_some() || !self.collect.is_empty()
    }

    fn clear(&mut self) {
        self.publish.clear();
        self.fold = None;
        self.collect.clear();
    }
}

/// The part of every block that one round covers.
#[derive(Clone, Copy)]
struct Chunk {
    offset: usize,
    bytes: usize,
}

/// The part of a chunk that one rank folds.
struct Slice {
    start: usize,
    bytes: usize,
}

impl Chunk {
    /// Deals the chunk's cache lines out evenly; none where there are more ranks than lines.
    fn slice(self, rank: Rank, size: u32) -> Option<Slice> {
        let (lines, ranks) = (self.bytes.div_ceil(LINE_BYTES), size as usize);
        let (share, extra) = (lines / ranks, lines % ranks);
        let first_line = |rank: usize| share * rank + rank.min(extra);
        let start = first_line(rank.index()) * LINE_BYTES;
        let end = (first_line(rank.index() + 1) * LINE_BYTES).min(self.bytes);
        (start < end).then(|| Slice { start, bytes: end - start })
    }
}

/// Bytes of one block, if `size` such blocks fit the address space.
fn block_bytes(count: u64, size: u32, elem_bytes: usize) -> Option<usize> {
    let block = usize::try_from(count).ok()?.checked_mul(elem_bytes)?;
    let all = block.checked_mul(size as usize)?;
    isize::try_from(all).ok().map(|_| block)
}

/// Bytes of each of `pieces` equal parts of a slot: whole cache lines if one fits, else whole elements.
fn piece_capacity(slot_bytes: usize, pieces: u32, elem_bytes: usize) -> usize {
    let share = slot_bytes / pieces as usize;
    let unit = if share >= LINE_BYTES { LINE_BYTES } else { elem_bytes };
    share - share % unit
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        op: Collective::AllReduce,
        size: 4,
        root: Rank(1),
        count: 10_000,
        elem_bytes: 4,
        slot_bytes: 4096,
    };

    #[track_caller]
    fn check_refused(shape: Shape, expected: &str) {
        assert_eq!(Plan::new(shape).unwrap_err().to_string(), expected);
    }

    #[test]
    fn impossible_shapes_are_refused_with_what_to_do() {
        check_refused(Shape { size: 0, ..SHAPE }, "communicator of `0` ranks: a plan needs at least one");
        check_refused(
            Shape { op: Collective::Gather, root: Rank(4), ..SHAPE },
            "root `4` is outside a communicator of `4` ranks: pass 0 to size - 1",
        );
        check_refused(
            Shape { elem_bytes: 3, ..SHAPE },
            "element of `3` bytes: NCCL's types take 1, 2, 4 or 8",
        );
        check_refused(
            Shape { slot_bytes: 100, ..SHAPE },
            "slot of `100` bytes is not a positive multiple of 64: round it up",
        );
        check_refused(
            Shape { op: Collective::AllToAll, size: 17, slot_bytes: 64, ..SHAPE },
            "slot of `64` bytes cannot hold `17` elements of `4` bytes, one per block of all_to_all: enlarge the slot",
        );
        check_refused(
            Shape { count: 1 << 60, ..SHAPE },
            "`1152921504606846976` elements of `4` bytes for each of `4` ranks exceed the address space",
        );
    }

    #[test]
    fn a_root_is_ignored_where_there_is_none() {
        assert!(Plan::new(Shape { root: Rank(99), ..SHAPE }).is_ok());
    }

    #[test]
    fn nothing_to_move_takes_no_round() {
        let plan = Plan::new(Shape { count: 0, ..SHAPE }).unwrap();
        let mut round = Round { fold: None, publish: vec![], collect: vec![] };
        plan.fill(0, Rank(0), &mut round);
        assert_eq!((plan.rounds(), round), (0, Round::default()));
    }

    #[test]
    fn only_big_chunks_pay_for_the_second_barrier() {
        let plan = Plan::new(Shape { count: 1024 + 512, ..SHAPE }).unwrap();
        assert_eq!(plan.rounds(), 2);
        assert!(plan.needs_result_barrier(0), "4096 bytes × 4 ranks");
        assert!(!plan.needs_result_barrier(1), "2048 bytes × 4 ranks");
        assert!(!plan.needs_result_barrier(2), "no such round");
        let alone = Plan::new(Shape { size: 1, ..SHAPE }).unwrap();
        assert!(!alone.needs_result_barrier(0));
    }

    #[test]
    fn slices_share_no_cache_line_and_cover_the_chunk() {
        let chunk = Chunk { offset: 0, bytes: 64 * 9 + 4 };
        let slices: Vec<_> =
            (0..4).map(|r| chunk.slice(Rank(r), 4).map(|s| (s.start, s.bytes)).unwrap()).collect();
        assert_eq!(slices, [(0, 192), (192, 192), (384, 128), (512, 68)]);
        assert!(Chunk { offset: 0, bytes: 65 }.slice(Rank(2), 4).is_none(), "two lines, four ranks");
    }
}
