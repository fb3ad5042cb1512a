//! A plan executed in one place for ranks that share no memory: contributions in, replies out.
//!
//! The relay holds nothing between rounds but scratch space: a round's folds, at most one slot's worth, or
//! [`DIRECT_FOLD_BYTES`](crate::plan::DIRECT_FOLD_BYTES). Contributions are at most one slot a rank.

use fakegpu_units::Rank;

use crate::{Collect, FoldStep, FoldTarget, Plan, Reduction, Round, RunError, Source, fold};

/// Executes the rounds of one [`Plan`]. A rank sends, each round, what it would have published (already
/// [`prescale`](crate::prescale)d), and gets back what it would have folded or collected.
#[derive(Debug)]
pub struct Relay {
    plan: Plan,
    reduction: Option<Reduction>,
    folds: Folds,
    scratch: Round,
}

/// The answers to one round, still lying in the contributions and the relay's scratch space.
#[derive(Debug, Clone, Copy)]
pub struct Replies<'a> {
    plan: &'a Plan,
    index: u64,
    slots: &'a [&'a [u8]],
    folds: &'a Folds,
}

/// A round's folded ranges, and which of them is each rank's.
#[derive(Debug, Default)]
struct Folds {
    results: Vec<Vec<u8>>,
    of_rank: Vec<Option<usize>>,
}

impl Relay {
    /// A relay for `plan`, with the reduction exactly where the collective has one.
    ///
    /// # Errors
    /// Where plan and reduction do not belong together.
    pub fn new(plan: Plan, reduction: Option<Reduction>) -> Result<Self, RunError> {
        belong_together(&plan, reduction)?;
        Ok(Self { plan, reduction, folds: Folds::default(), scratch: Round::default() })
    }

    /// The plan being executed.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes `rank` has to send in round `index`.
    pub fn contribution_bytes(&mut self, index: u64, rank: Rank) -> usize {
        self.plan.fill(index, rank, &mut self.scratch);
        self.scratch.contribution_bytes()
    }

    /// Resolves round `index` from one contribution per rank, empty where a rank has none. `replies` gets, for
    /// each rank, its pieces one after the other in the order of [`Round::reply_pieces`]; allocations are kept.
    ///
    /// All replies together may take `size` times a slot for each rank; [`Relay::fold`] copies nothing.
    ///
    /// # Errors
    /// Where there is no such round, or a contribution is missing, short or long.
    pub fn resolve(
        &mut self,
        index: u64,
        slots: &[&[u8]],
        replies: &mut Vec<Vec<u8>>,
    ) -> Result<(), RunError> {
        let resolved = self.fold(index, slots)?;
        replies.resize_with(slots.len(), Vec::new);
        let mut round = Round::default();
        for (rank, reply) in replies.iter_mut().enumerate() {
            reply.clear();
            resolved
                .pieces(Rank::from_index(rank), &mut round)
                .for_each(|piece| reply.extend_from_slice(piece));
        }
        Ok(())
    }

    /// Does the arithmetic of round `index` and leaves the replies where they lie, to be written from there.
    ///
    /// # Errors
    /// As [`Relay::resolve`].
    pub fn fold<'a>(&'a mut self, index: u64, slots: &'a [&'a [u8]]) -> Result<Replies<'a>, RunError> {
        self.check(index, slots)?;
        self.folds.of_rank.clear();
        let (mut used, mut previous) = (0, None);
        for rank in 0..self.plan.shape().size {
            self.plan.fill(index, Rank(rank), &mut self.scratch);
            let step = self.scratch.fold;
            // Where all fold the whole chunk for themselves, one fold serves them all.
            let repeated = step.is_some() && step == previous;
            if let (Some(step), Some(reduction), false) = (step, self.reduction, repeated) {
                self.folds.store(used, reduction, step, slots)?;
                used += 1;
            }
            self.folds.of_rank.push(step.and_then(|_| used.checked_sub(1)));
            previous = step;
        }
        Ok(Replies { plan: &self.plan, index, slots, folds: &self.folds })
    }

    fn check(&mut self, index: u64, slots: &[&[u8]]) -> Result<(), RunError> {
        let (size, rounds) = (self.plan.shape().size, self.plan.rounds());
        if index >= rounds {
            return Err(RunError::NoSuchRound { index, rounds });
        }
        if slots.len() != size as usize {
            return Err(RunError::RankCount { size, seen: slots.len() });
        }
        for (rank, slot) in slots.iter().enumerate() {
            let (rank, seen) = (Rank::from_index(rank), slot.len());
            let expected = self.contribution_bytes(index, rank);
            if seen != expected {
                return Err(RunError::Contribution { rank, index, expected, seen });
            }
        }
        Ok(())
    }
}

impl<'a> Replies<'a> {
    /// The slices whose concatenation is `rank`'s reply. `round` is filled with what they mean to the rank.
    pub fn pieces<'r>(
        &self,
        rank: Rank,
        round: &'r mut Round,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a, 'r> {
        self.plan.fill(self.index, rank, round);
        let replies = *self;
        let delivered = |step: &FoldStep| matches!(step.to, FoldTarget::Recv { .. });
        let folded = round.fold.filter(delivered).map(|_| replies.folds.of(rank));
        let collected = round.collect.iter().map(move |piece| replies.collected(piece));
        folded.into_iter().chain(collected)
    }

    fn collected(&self, piece: &Collect) -> &'a [u8] {
        let area: &'a [u8] = match piece.from {
            Source::Slot(rank) => self.slots[rank.index()],
            Source::Result(rank) => self.folds.of(rank),
        };
        &area[piece.offset..piece.offset + piece.bytes]
    }
}

impl Folds {
    fn store(
        &mut self,
        at: usize,
        reduction: Reduction,
        step: FoldStep,
        slots: &[&[u8]],
    ) -> Result<(), RunError> {
        let sources: Vec<&[u8]> = slots.iter().map(|slot| &slot[step.slot..step.slot + step.bytes]).collect();
        if self.results.len() <= at {
            self.results.resize_with(at + 1, Vec::new);
        }
        let result = &mut self.results[at];
        result.resize(step.bytes, 0);
        Ok(fold(reduction, result, &sources)?)
    }

    fn of(&self, rank: Rank) -> &[u8] {
        self.of_rank.get(rank.index()).copied().flatten().map_or(&[], |at| &self.results[at])
    }
}

/// Checks that a reduction is there exactly where the collective reduces, and speaks of the same ranks and
/// elements.
pub(crate) fn belong_together(plan: &Plan, reduction: Option<Reduction>) -> Result<(), RunError> {
    let shape = plan.shape();
    let Some(reduction) = reduction else {
        return if shape.op.reduces() { Err(RunError::Reduction { op: shape.op }) } else { Ok(()) };
    };
    if !shape.op.reduces() {
        return Err(RunError::Reduction { op: shape.op });
    }
    if reduction.size != shape.size || reduction.data_type.size() != shape.elem_bytes {
        return Err(RunError::Mismatch {
            reduction_size: reduction.size,
            data_type: reduction.data_type,
            plan_size: shape.size,
            elem_bytes: shape.elem_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fakegpu_units::{Collective, DataType, ReduceOp};

    use super::*;
    use crate::Shape;

    const SUM: Reduction = Reduction { data_type: DataType::UInt8, op: ReduceOp::Sum, size: 2 };

    fn plan(op: Collective) -> Plan {
        Plan::new(Shape { op, size: 2, root: Rank(1), count: 3, elem_bytes: 1, slot_bytes: 64 }).unwrap()
    }

    #[test]
    fn peers_that_send_too_little_or_too_much_are_named() {
        let mut relay = Relay::new(plan(Collective::AllReduce), Some(SUM)).unwrap();
        let mut replies = Vec::new();
        let short = relay.resolve(0, &[&[1, 2, 3], &[1, 2]], &mut replies).unwrap_err();
        assert_eq!(short.to_string(), "rank 1 contributed `2` bytes to round `0` where the plan says `3`");
        let missing = relay.resolve(0, &[&[1, 2, 3]], &mut replies).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "`1` buffers for `2` ranks: pass one per rank, empty where a rank has none"
        );
        let late = relay.resolve(1, &[&[], &[]], &mut replies).unwrap_err();
        assert_eq!(late.to_string(), "round `1` of a plan that has `1`");
    }

    #[test]
    fn a_reduction_is_wanted_exactly_where_the_collective_reduces() {
        assert_eq!(
            Relay::new(plan(Collective::Reduce), None).unwrap_err().to_string(),
            "reduce was given no reduction"
        );
        assert_eq!(
            Relay::new(plan(Collective::Gather), Some(SUM)).unwrap_err().to_string(),
            "gather was given a reduction"
        );
        let wider = Reduction { data_type: DataType::Float64, ..SUM };
        assert!(matches!(Relay::new(plan(Collective::Reduce), Some(wider)), Err(RunError::Mismatch { .. })));
    }

    #[test]
    fn ranks_without_a_part_get_empty_replies() {
        let mut relay = Relay::new(plan(Collective::Reduce), Some(SUM)).unwrap();
        let mut replies = Vec::new();
        relay.resolve(0, &[&[1, 2, 3], &[4, 5, 6]], &mut replies).unwrap();
        assert_eq!(replies, [vec![], vec![5, 7, 9]]);
    }
}
