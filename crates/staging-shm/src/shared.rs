//! The shared road: ranks copy, fold and collect in one segment, and follow each other by counters.
//!
//! Each rank counts the rounds it has *published*, *folded* and *consumed*, over the communicator's whole life.
//! Round k uses the slots of its parity, so publishing it waits until all have consumed round k - 2; a fold waits
//! until all have published; a collect, for the one rank it reads. Every rank advances every counter in every
//! round, also where it has nothing to do. While it must wait in round k, a rank publishes round k + 1 ahead.
//!
//! A counter is also the futex its followers sleep on. The follower counts itself among the sleepers, then looks
//! again; the owner advances, then looks for sleepers: one of the two sees the other, since both are sequentially
//! consistent. Only somebody's sleep costs a system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fakegpu_executor::{Collect, FoldStep, FoldTarget, Reduction, Round, Scalar, Source, fold};
use fakegpu_units::Rank;
use rustix::thread::futex;

use crate::segment::{Counter, Descriptor, Segment};
use crate::{Exchange, Progress, Run, StagingError, StagingStats};

/// One rank's end of a shared segment.
#[derive(Debug)]
pub struct SharedExchange {
    segment: Arc<Segment>,
    rank: Rank,
    /// Rounds of all runs before the current one.
    base: u32,
    active: Option<Active>,
    /// What this rank does in the current round and the one published ahead, by parity; reused.
    rounds: [Round; 2],
    awaited: Option<Awaited>,
    patience: Patience,
    stats: StagingStats,
}

/// A run in progress.
#[derive(Debug)]
struct Active {
    run: Run,
    factor: Option<Scalar>,
    rounds: u64,
    /// Rounds this rank has published: the current one, and maybe the next.
    published: u64,
    /// The round being folded and collected.
    index: u64,
    phase: Phase,
    /// How many ranks, or pieces, of the phase are known to be ready.
    ready: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fold,
    Collect,
}

/// The one counter value that is missing.
#[derive(Debug, Clone, Copy)]
struct Awaited {
    rank: Rank,
    counter: Counter,
    target: u32,
}

/// How a thread waits: pauses where every rank has a core, then yields, then sleeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pauses: u32,
    yields: u32,
}

/// A longest sleep: a poisoning that falls between the last look and the sleep is noticed after it.
const NAP: Duration = Duration::from_millis(50);

impl SharedExchange {
    /// `rank`'s end of `segment`. The segment must be fresh: counters start at 0 with it.
    ///
    /// # Errors
    /// Where the segment has no such rank.
    pub fn new(segment: Arc<Segment>, rank: Rank) -> Result<Self, StagingError> {
        let size = segment.geometry().size();
        if rank.0 >= size {
            return Err(StagingError::NoSuchRank { rank, size });
        }
        Ok(Self {
            segment,
            rank,
            base: 0,
            active: None,
            rounds: [Round::default(), Round::default()],
            awaited: None,
            patience: Patience::for_ranks(size),
            stats: StagingStats::default(),
        })
    }

    /// The segment underneath.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    fn poisoned(&self) -> bool {
        self.segment.poison().load(Ordering::Relaxed) != 0
    }

    fn step(&mut self, active: &mut Active) -> Result<Progress, StagingError> {
        if active.index == active.rounds {
            return Ok(Progress::Done);
        }
        if active.published == active.index && !self.publish(active)? {
            return Ok(Progress::Waiting);
        }
        if self.resolve(active)? {
            self.stats.chunks += 1;
            active.index += 1;
            (active.phase, active.ready) = (Phase::Fold, 0);
            return Ok(if active.index == active.rounds { Progress::Done } else { Progress::Moved });
        }
        let awaited = self.awaited;
        let ahead = active.published == active.index + 1 && active.published < active.rounds;
        if ahead && self.publish(active)? {
            return Ok(Progress::Moved);
        }
        self.awaited = awaited;
        Ok(Progress::Waiting)
    }

    fn round_number(&self, index: u64) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "counters wrap")]
        self.base.wrapping_add(index as u32)
    }

    fn reached(&self, rank: Rank, counter: Counter, target: u32) -> bool {
        reached(self.segment.counter(rank, counter).load(Ordering::Acquire), target)
    }

    /// Whether `rank`'s counter has reached `target`; what is awaited, otherwise.
    fn ready(&mut self, rank: Rank, counter: Counter, target: u32) -> bool {
        let reached = self.reached(rank, counter, target);
        if !reached {
            self.awaited = Some(Awaited { rank, counter, target });
        }
        reached
    }

    /// Copies the next unpublished round out, if its slot is free.
    fn publish(&mut self, active: &mut Active) -> Result<bool, StagingError> {
        let number = self.round_number(active.published);
        let size = self.segment.geometry().size();
        let freed = number.wrapping_sub(1);
        if !(0..size).all(|rank| self.ready(Rank(rank), Counter::Consumed, freed)) {
            return Ok(false);
        }
        let round = &mut self.rounds[(active.published & 1) as usize];
        active.run.plan.fill(active.published, self.rank, round);
        for &piece in &round.publish {
            // SAFETY: the slot is this rank's, and all have consumed what it held two rounds ago.
            let target = unsafe { self.segment.slot_mut(number, self.rank, piece.slot, piece.bytes) };
            active.run.publish(active.factor, piece, target)?;
            self.stats.bytes += piece.bytes as u64;
        }
        active.published += 1;
        self.advance(Counter::Published, number.wrapping_add(1));
        Ok(true)
    }

    /// Folds and collects the current round as far as peers allow; whether it is finished.
    fn resolve(&mut self, active: &mut Active) -> Result<bool, StagingError> {
        let number = self.round_number(active.index);
        let done = number.wrapping_add(1);
        if active.phase == Phase::Fold {
            if !self.fold(active, number)? {
                return Ok(false);
            }
            (active.phase, active.ready) = (Phase::Collect, 0);
            if active.run.plan.needs_result_barrier(active.index) {
                self.advance(Counter::Folded, done);
            } else {
                // Nobody waits for this one; it only keeps the count.
                self.segment.counter(self.rank, Counter::Folded).store(done, Ordering::Release);
            }
        }
        if !self.collect(active, number) {
            return Ok(false);
        }
        self.advance(Counter::Consumed, done);
        Ok(true)
    }

    fn fold(&mut self, active: &mut Active, number: u32) -> Result<bool, StagingError> {
        let parity = (active.index & 1) as usize;
        let (Some(step), Some(reduction)) = (self.rounds[parity].fold, active.run.reduction) else {
            return Ok(true);
        };
        while active.ready < self.segment.geometry().size() as usize {
            if !self.ready(Rank::from_index(active.ready), Counter::Published, number.wrapping_add(1)) {
                return Ok(false);
            }
            active.ready += 1;
        }
        match step.to {
            FoldTarget::Recv { user } => {
                self.stats.bytes += step.bytes as u64;
                active
                    .run
                    .recv
                    .lend(user, step.bytes, |target| self.fold_into(reduction, step, number, target))?;
            }
            FoldTarget::Result { offset } => {
                // SAFETY: the area is this rank's; it published this round after all had consumed what the
                // area held two rounds ago.
                let target = unsafe { self.segment.result_mut(number, self.rank, offset, step.bytes) };
                self.fold_into(reduction, step, number, target)?;
            }
        }
        Ok(true)
    }

    fn fold_into(
        &self,
        reduction: Reduction,
        step: FoldStep,
        number: u32,
        target: &mut [u8],
    ) -> Result<(), StagingError> {
        let source = |rank: usize| {
            // SAFETY: `fold` has seen that every rank has published this round, and none writes its slot again
            // before this rank has consumed it.
            unsafe { self.segment.slot(number, Rank::from_index(rank), step.slot, step.bytes) }
        };
        with_sources(self.segment.geometry().size() as usize, source, |sources| {
            Ok(fold(reduction, target, sources)?)
        })
    }

    /// Collects piece after piece, starting at this rank's own so that ranks do not queue at one slot.
    fn collect(&mut self, active: &mut Active, number: u32) -> bool {
        let parity = (active.index & 1) as usize;
        let pieces = self.rounds[parity].collect.len();
        while active.ready < pieces {
            let piece = self.rounds[parity].collect[(active.ready + self.rank.index()) % pieces];
            let (rank, counter) = match piece.from {
                Source::Slot(rank) => (rank, Counter::Published),
                Source::Result(rank) => (rank, Counter::Folded),
            };
            if !self.ready(rank, counter, number.wrapping_add(1)) {
                return false;
            }
            active.run.recv.copy_from(piece.user, self.source(piece, number));
            self.stats.bytes += piece.bytes as u64;
            active.ready += 1;
        }
        true
    }

    fn source(&self, piece: Collect, number: u32) -> &[u8] {
        match piece.from {
            // SAFETY: `collect` has seen that the rank has published this round.
            Source::Slot(rank) => unsafe { self.segment.slot(number, rank, piece.offset, piece.bytes) },
            // SAFETY: `collect` has seen that the rank has folded this round.
            Source::Result(rank) => unsafe { self.segment.result(number, rank, piece.offset, piece.bytes) },
        }
    }

    /// Moves one of this rank's counters, and wakes whoever sleeps on them.
    fn advance(&self, counter: Counter, value: u32) {
        let word = self.segment.counter(self.rank, counter);
        word.store(value, Ordering::SeqCst);
        if self.segment.sleepers(self.rank).load(Ordering::SeqCst) != 0 {
            wake_all(word);
        }
    }

    fn sleep(&mut self, awaited: Awaited, timeout: Duration) {
        let sleepers = self.segment.sleepers(awaited.rank);
        let word = self.segment.counter(awaited.rank, awaited.counter);
        let is_news = |seen| reached(seen, awaited.target);
        self.stats.sleeps += u64::from(sleep_on(&self.segment, sleepers, word, timeout, is_news));
    }
}

impl Exchange for SharedExchange {
    fn begin(&mut self, run: Run) -> Result<(), StagingError> {
        if self.active.is_some() {
            return Err(StagingError::Busy);
        }
        if self.poisoned() {
            return Err(StagingError::Poisoned);
        }
        let geometry = self.segment.geometry();
        run.check(self.rank, geometry.size(), geometry.slot_bytes())?;
        self.stats.operations += 1;
        self.segment.describe(Descriptor::new(self.rank, &run));
        let (factor, rounds) = (run.factor(), run.plan.rounds());
        let phase = Phase::Fold;
        self.active = Some(Active { run, factor, rounds, published: 0, index: 0, phase, ready: 0 });
        Ok(())
    }

    fn poll(&mut self) -> Result<Progress, StagingError> {
        if self.poisoned() {
            self.active = None;
            return Err(StagingError::Poisoned);
        }
        let Some(mut active) = self.active.take() else { return Ok(Progress::Done) };
        self.awaited = None;
        match self.step(&mut active) {
            Ok(Progress::Done) => self.base = self.round_number(active.rounds),
            Ok(progress) => {
                self.active = Some(active);
                return Ok(progress);
            }
            Err(error) => {
                self.fail();
                return Err(error);
            }
        }
        Ok(Progress::Done)
    }

    fn wait(&mut self, timeout: Duration) {
        let Some(awaited) = self.awaited else { return };
        let here = |exchange: &Self| {
            exchange.reached(awaited.rank, awaited.counter, awaited.target) || exchange.poisoned()
        };
        self.patience.wait(self, timeout, here, |exchange, left| exchange.sleep(awaited, left));
    }

    fn fail(&mut self) {
        self.active = None;
        poison(&self.segment);
    }

    fn stats(&self) -> StagingStats {
        self.stats
    }
}

impl Drop for SharedExchange {
    fn drop(&mut self) {
        if self.active.is_some() {
            self.fail();
        }
    }
}

impl Patience {
    pub(crate) fn for_ranks(size: u32) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { pauses: if size as usize <= cores { 100 } else { 0 }, yields: 50 }
    }
}

impl Patience {
    /// Waits until what `waiter` waits for is `here`, at most for `timeout`.
    pub(crate) fn wait<W>(
        self,
        waiter: &mut W,
        timeout: Duration,
        here: impl Fn(&W) -> bool,
        mut sleep: impl FnMut(&mut W, Duration),
    ) {
        for _ in 0..self.pauses {
            if here(waiter) {
                return;
            }
            std::hint::spin_loop();
        }
        for _ in 0..self.yields {
            if here(waiter) {
                return;
            }
            rustix::thread::sched_yield();
        }
        let deadline = Instant::now() + timeout;
        while !here(waiter) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sleep(waiter, left);
        }
    }
}

/// Sleeps on a word of the segment unless it `is_news` by now, counted among its sleepers; whether it slept.
pub(crate) fn sleep_on(
    segment: &Segment,
    sleepers: &AtomicU32,
    word: &AtomicU32,
    timeout: Duration,
    is_news: impl Fn(u32) -> bool,
) -> bool {
    sleepers.fetch_add(1, Ordering::SeqCst);
    let seen = word.load(Ordering::SeqCst);
    let sleeps = !is_news(seen) && segment.poison().load(Ordering::SeqCst) == 0;
    if sleeps {
        let timeout = timeout.min(NAP);
        let timeout = futex::Timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // Changed, woken, interrupted and timed out are all one to a caller that looks again.
        futex::wait(word, futex::Flags::empty(), seen, Some(&timeout)).unwrap_or_default();
    }
    sleepers.fetch_sub(1, Ordering::SeqCst);
    sleeps
}

/// Whether a counter that wraps is at `target` or past it; the two are never far apart.
fn reached(value: u32, target: u32) -> bool {
    value.wrapping_sub(target).cast_signed() >= 0
}

/// Gives the communicator up for all its ranks, and wakes whoever sleeps.
pub(crate) fn poison(segment: &Segment) {
    segment.poison().store(1, Ordering::SeqCst);
    for rank in (0..segment.geometry().size()).map(Rank) {
        for counter in [Counter::Published, Counter::Folded, Counter::Consumed] {
            wake_all(segment.counter(rank, counter));
        }
        wake_all(segment.bell(rank));
    }
}

pub(crate) fn wake_all(word: &AtomicU32) {
    // Only an address outside the process could fail, and this one is mapped.
    futex::wake(word, futex::Flags::empty(), i32::MAX.cast_unsigned()).unwrap_or_default();
}

/// Hands `count` sources to `use_sources`, from the stack where they are few.
fn with_sources<'a, R>(
    count: usize,
    source: impl Fn(usize) -> &'a [u8],
    use_sources: impl FnOnce(&[&[u8]]) -> R,
) -> R {
    const FEW: usize = 32;
    if count > FEW {
        return use_sources(&(0..count).map(source).collect::<Vec<_>>());
    }
    let mut few: [&[u8]; FEW] = [&[]; FEW];
    few.iter_mut().zip(0..count).for_each(|(each, rank)| *each = source(rank));
    use_sources(&few[..count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_followed_across_their_wrap() {
        assert!(reached(0, u32::MAX));
        assert!(!reached(u32::MAX, 0));
        assert!(reached(5, 5));
        assert!(reached(0, 0_u32.wrapping_sub(1)), "round 0 has nothing to wait for");
    }

    #[test]
    fn sources_are_in_rank_order_however_many() {
        let bytes: Vec<u8> = (0..100).collect();
        for count in [1, 32, 33, 100] {
            let firsts = with_sources(
                count,
                |rank| &bytes[rank..],
                |sources| sources.iter().map(|source| source[0]).collect::<Vec<_>>(),
            );
            assert_eq!(firsts, bytes[..count]);
        }
    }
}
