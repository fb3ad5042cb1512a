//! Ranks over the whole file: unique, and contiguous from 0.

use std::collections::BTreeMap;
use std::ops::Range;

use fakegpu_units::{Rank, Ranks};

use super::MAX_RANKS;
use super::checker::Checker;
use super::mistakes::Finding;
use crate::words::counted;

/// A rank and where it is written.
pub(super) type Written = (u32, Range<usize>);

/// Reports ranks that appear twice, are left out, or are more than a world may have.
pub(super) fn check(checker: &mut Checker, written: &[Written]) {
    let mut places: BTreeMap<u32, Vec<&Range<usize>>> = BTreeMap::new();
    for (rank, span) in written {
        places.entry(*rank).or_default().push(span);
    }
    for (rank, spans) in &places {
        if let [first, again, ..] = spans.as_slice() {
            let often = if spans.len() == 2 { "twice".to_owned() } else { format!("{} times", spans.len()) };
            let finding = Finding::new(again, format!("rank {rank} appears {often}")).label("again here");
            checker.report(finding.also(first, "first here").help("a rank is one process with one GPU"));
        }
    }
    check_count(checker, written);
    check_gaps(checker, &places);
}

fn check_count(checker: &mut Checker, written: &[Written]) {
    if let Some((_, span)) = written.get(MAX_RANKS as usize) {
        let message = format!("the file has {} ranks, more than {MAX_RANKS}", written.len());
        checker.report(
            Finding::new(span, message).label("the first too many").help("use fewer or smaller nodes"),
        );
    }
}

/// Missing ranks that are named; a large world with holes has more than anyone reads.
const MAX_NAMED: usize = 32;

/// Reports every gap at once, at the first rank above one.
fn check_gaps(checker: &mut Checker, places: &BTreeMap<u32, Vec<&Range<usize>>>) {
    let Some((&last, _)) = places.last_key_value() else { return };
    let missing: Vec<Rank> = (0..last).filter(|rank| !places.contains_key(rank)).map(Rank).collect();
    let Some(first) = missing.first() else { return };
    let Some((above, spans)) = places.range(first.0..).next() else { return };
    let finding = Finding::new(spans[0], format!("{} missing below rank {last}", named(&missing)));
    let count = places.len();
    checker.report(finding.label(format!("rank {above} leaves a gap before it")).help(format!(
        "{} count from 0 to {}",
        counted(count, "rank"),
        count.saturating_sub(1)
    )));
}

/// The ranks with the verb that goes with them. Runs take one place each in the text, so they count as one.
fn named(missing: &[Rank]) -> String {
    let mut runs = 0;
    let shown = missing.iter().enumerate().take_while(|(at, rank)| {
        runs += usize::from(*at == 0 || missing[at - 1].0 + 1 != rank.0);
        runs <= MAX_NAMED
    });
    let shown = &missing[..shown.count()];
    match missing.len() - shown.len() {
        0 if missing.len() == 1 => format!("{} is", Ranks(shown)),
        0 => format!("{} are", Ranks(shown)),
        more => format!("{} and {more} more are", Ranks(shown)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_named(missing: impl IntoIterator<Item = u32>, expected: &str) {
        let missing: Vec<Rank> = missing.into_iter().map(Rank).collect();
        assert_eq!(named(&missing), expected);
    }

    #[test]
    fn missing_ranks_are_named_by_runs_and_not_without_end() {
        check_named([3], "rank 3 is");
        check_named(1..60_000, "ranks 1-59999 are");
        check_named([1, 2, 5], "ranks 1, 2, 5 are");
        let holes = named(&(0..1000).map(|hole| Rank(2 * hole)).collect::<Vec<_>>());
        assert!(holes.ends_with("60, 62 and 968 more are"), "{holes}");
    }
}
