//! Lists: every item read, no name twice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use crate::cluster::checker::{Checker, Field};
use crate::cluster::mistakes::Finding;
use crate::cluster::tree::Tree;
use crate::words::quoted;

/// A name and where it is written.
pub(super) type Named = (String, Range<usize>);

/// Every item read; `None` if one could not be, after all were tried.
pub(super) fn each<T>(
    checker: &mut Checker,
    field: Field<'_>,
    mut read: impl FnMut(&mut Checker, &Tree) -> Option<T>,
) -> Option<Vec<T>> {
    let items: Vec<Option<T>> = checker.list(field)?.iter().map(|item| read(checker, item)).collect();
    items.into_iter().collect()
}

/// Reports names that appear again, with the first place of each.
pub(super) fn unique<'a>(checker: &mut Checker, what: &str, named: impl IntoIterator<Item = &'a Named>) {
    for (name, first, again) in repeated(named.into_iter().map(|(name, span)| (name, span))) {
        checker.report(
            Finding::new(again, format!("{what} {} appears twice", quoted(name)))
                .label("again here")
                .also(first, "first here")
                .help(format!("name each {what} once")),
        );
    }
}

/// What appears again: the thing, its first place, and the place of each repetition.
pub(super) fn repeated<'a, T: Ord + Copy>(
    things: impl Iterator<Item = (T, &'a Range<usize>)>,
) -> Vec<(T, &'a Range<usize>, &'a Range<usize>)> {
    let mut places = BTreeMap::new();
    let mut repeated = Vec::new();
    for (thing, place) in things {
        match places.entry(thing) {
            Entry::Vacant(first) => drop(first.insert(place)),
            Entry::Occupied(first) => repeated.push((thing, *first.get(), place)),
        }
    }
    repeated
}
