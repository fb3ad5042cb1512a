//! Lists with a limit: the last entries of a stream, or the first ones, and how many there was no room for.

use std::collections::VecDeque;

/// The last entries, up to a limit.
#[derive(Clone, Debug)]
pub(crate) struct Last<T> {
    entries: VecDeque<T>,
    max: usize,
    dropped: u64,
}

/// The first entries, up to a limit.
#[derive(Clone, Debug)]
pub(crate) struct First<T> {
    entries: Vec<T>,
    max: usize,
    dropped: u64,
}

impl<T> Last<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { entries: VecDeque::new(), max, dropped: 0 }
    }

    pub(crate) fn push(&mut self, entry: T) {
        if self.entries.len() >= self.max {
            self.dropped += 1;
            if self.entries.pop_front().is_none() {
                return;
            }
        }
        self.entries.push_back(entry);
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter()
    }
}

impl<T> First<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { entries: Vec::new(), max, dropped: 0 }
    }

    pub(crate) fn push(&mut self, entry: T) {
        if self.entries.len() < self.max {
            self.entries.push(entry);
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn total(&self) -> u64 {
        self.entries.len() as u64 + self.dropped
    }

    pub(crate) fn entries(&self) -> &[T] {
        &self.entries
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [T] {
        &mut self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entries_stay_and_the_rest_is_counted() {
        let mut last = Last::new(2);
        (0..5).for_each(|entry| last.push(entry));
        assert_eq!((last.iter().copied().collect::<Vec<_>>(), last.dropped()), (vec![3, 4], 3));
    }

    #[test]
    fn a_limit_of_none_keeps_none_and_counts_all() {
        let mut last = Last::new(0);
        (0..5).for_each(|entry| last.push(entry));
        assert_eq!((last.iter().count(), last.dropped()), (0, 5));
    }

    #[test]
    fn the_first_entries_stay_and_the_rest_is_counted() {
        let mut first = First::new(2);
        (0..5).for_each(|entry| first.push(entry));
        assert_eq!((first.entries(), first.dropped(), first.total()), (&[0, 1][..], 3, 5));
    }
}
