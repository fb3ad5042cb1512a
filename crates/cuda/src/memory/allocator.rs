//! Which bytes of a device are free: offsets only, no memory.
//!
//! Best fit, coalescing. Small pieces start at multiples of 256 bytes, as CUDA promises; large ones take whole blocks
//! of 2 MiB, so that freeing one frees whole pages.

use std::collections::{BTreeMap, BTreeSet};

/// Alignment of everything, in bytes.
pub(crate) const GRAIN_BYTES: u64 = 256;
/// From this size on, whole blocks are given.
const LARGE_BYTES: u64 = 1 << 20;
/// What a large piece is a multiple of, in place and size.
pub(crate) const BLOCK_BYTES: u64 = 2 << 20;

/// A piece of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    pub(crate) const fn end(self) -> u64 {
        self.offset + self.bytes
    }
}

/// The free pieces of a device.
#[derive(Debug)]
pub(crate) struct Allocator {
    /// Length by offset; no two touch.
    free: BTreeMap<u64, u64>,
    /// The same as (length, offset).
    by_bytes: BTreeSet<(u64, u64)>,
    free_bytes: u64,
}

impl Allocator {
    pub(crate) fn new(bytes: u64) -> Self {
        let mut allocator = Self { free: BTreeMap::new(), by_bytes: BTreeSet::new(), free_bytes: 0 };
        allocator.insert(Extent { offset: 0, bytes });
        allocator
    }

    pub(crate) const fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// The longest piece that could be given at once.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.by_bytes.last().map_or(0, |&(bytes, _)| bytes)
    }

    /// A piece for `bytes`, which are rounded up; `None` where no free piece is long enough.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Extent> {
        let (bytes, align) = rounded(bytes)?;
        let fits = |offset: u64, free: u64| {
            let start = offset.next_multiple_of(align);
            (start + bytes <= offset + free).then_some(start)
        };
        let mut candidates = self.by_bytes.range((bytes, 0)..);
        let (found, start) =
            candidates.find_map(|&(free, offset)| Some(((free, offset), fits(offset, free)?)))?;
        let (free, offset) = found;
        self.remove(Extent { offset, bytes: free });
        let taken = Extent { offset: start, bytes };
        self.insert(Extent { offset, bytes: start - offset });
        self.insert(Extent { offset: taken.end(), bytes: offset + free - taken.end() });
        Some(taken)
    }

    /// Takes a piece back and returns the free piece that it is now part of.
    pub(crate) fn give_back(&mut self, piece: Extent) -> Extent {
        let mut whole = piece;
        let before =
            self.free.range(..piece.offset).next_back().map(|(&offset, &bytes)| Extent { offset, bytes });
        if let Some(before) = before.filter(|before| before.end() == piece.offset) {
            self.remove(before);
            whole = Extent { offset: before.offset, bytes: before.bytes + whole.bytes };
        }
        if let Some(&bytes) = self.free.get(&piece.end()) {
            self.remove(Extent { offset: piece.end(), bytes });
            whole.bytes += bytes;
        }
        self.insert(whole);
        whole
    }

    fn insert(&mut self, piece: Extent) {
        if piece.bytes > 0 {
            self.free.insert(piece.offset, piece.bytes);
            self.by_bytes.insert((piece.bytes, piece.offset));
            self.free_bytes += piece.bytes;
        }
    }

    fn remove(&mut self, piece: Extent) {
        self.free.remove(&piece.offset);
        self.by_bytes.remove(&(piece.bytes, piece.offset));
        self.free_bytes -= piece.bytes;
    }
}

/// Size and alignment of a piece for `bytes`; `None` beyond all sizes.
pub(crate) fn rounded(bytes: u64) -> Option<(u64, u64)> {
    let align = if bytes >= LARGE_BYTES { BLOCK_BYTES } else { GRAIN_BYTES };
    Some((bytes.max(1).checked_next_multiple_of(align)?, align))
}

/// Disjoint ranges of a device's file.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    /// End by start; no two touch.
    ranges: BTreeMap<u64, u64>,
    total: u64,
}

impl Ranges {
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Adds what of `start..end` is not in it yet.
    pub(crate) fn insert(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        let touching: Vec<(u64, u64)> = self
            .ranges
            .range(..=end)
            .rev()
            .take_while(|&(_, &until)| until >= start)
            .map(|(&from, &until)| (from, until))
            .collect();
        for (from, until) in touching {
            self.ranges.remove(&from);
            self.total -= until - from;
            start = start.min(from);
            end = end.max(until);
        }
        self.ranges.insert(start, end);
        self.total += end - start;
    }

    /// Takes out what of `start..end` is in it.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        let touching: Vec<(u64, u64)> = self
            .ranges
            .range(..end)
            .rev()
            .take_while(|&(_, &until)| until > start)
            .map(|(&from, &until)| (from, until))
            .collect();
        for (from, until) in touching {
            self.ranges.remove(&from);
            self.total -= until - from;
            self.insert(from, start.min(until));
            self.insert(end.max(from), until);
        }
    }

    /// Empties it and returns what was in it.
    pub(crate) fn take(&mut self) -> BTreeMap<u64, u64> {
        self.total = 0;
        std::mem::take(&mut self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 64 << 20;

    #[test]
    fn small_pieces_fill_the_gaps_that_large_ones_leave() {
        let mut allocator = Allocator::new(SIZE);
        let small = allocator.take(1).unwrap();
        let large = allocator.take(3 << 20).unwrap();
        let next = allocator.take(300).unwrap();
        assert_eq!(small, Extent { offset: 0, bytes: 256 });
        assert_eq!(large, Extent { offset: 2 << 20, bytes: 4 << 20 });
        assert_eq!(next, Extent { offset: 256, bytes: 512 });
        assert_eq!(allocator.give_back(small), Extent { offset: 0, bytes: 256 });
    }

    #[test]
    fn all_of_it_can_be_taken_and_not_a_byte_more() {
        let mut allocator = Allocator::new(SIZE);
        assert_eq!(allocator.take(SIZE + 1), None);
        let all = allocator.take(SIZE).unwrap();
        assert_eq!((all.bytes, allocator.free_bytes(), allocator.take(1)), (SIZE, 0, None));
        assert_eq!(allocator.take(u64::MAX), None);
        allocator.give_back(all);
        assert_eq!(allocator.largest_bytes(), SIZE);
    }

    /// What the allocator must agree with: a flat list of what is taken.
    #[derive(Default)]
    struct Model(Vec<Extent>);

    impl Model {
        fn check(&self, allocator: &Allocator, taken: Extent, asked: u64) {
            let (bytes, align) = rounded(asked).unwrap();
            assert!(taken.bytes == bytes && taken.offset.is_multiple_of(align) && taken.end() <= SIZE);
            let apart = |other: &Extent| other.end() <= taken.offset || taken.end() <= other.offset;
            assert!(self.0.iter().all(apart), "{taken:?} overlaps {:?}", self.0);
            self.check_sum(allocator, taken.bytes);
        }

        fn check_sum(&self, allocator: &Allocator, and: u64) {
            let taken: u64 = self.0.iter().map(|piece| piece.bytes).sum::<u64>() + and;
            assert_eq!(allocator.free_bytes(), SIZE - taken);
            let sum: u64 = allocator.free.values().sum();
            assert_eq!(sum, allocator.free_bytes());
            assert_eq!(allocator.free.len(), allocator.by_bytes.len());
        }

        /// Whether a place for it exists at all.
        fn has_room(&self, asked: u64) -> bool {
            let (bytes, align) = rounded(asked).unwrap();
            let mut taken = self.0.clone();
            taken.sort_unstable();
            let ends = std::iter::once(0).chain(taken.iter().map(|piece| piece.end()));
            let starts = taken.iter().map(|piece| piece.offset).chain(std::iter::once(SIZE));
            ends.zip(starts).any(|(from, until)| from.next_multiple_of(align) + bytes <= until)
        }
    }

    fn sizes() -> impl Strategy<Value = u64> {
        prop_oneof![4 => 0_u64..5000, 2 => 0_u64..(1 << 20), 3 => (1_u64 << 20)..(12 << 20)]
    }

    proptest! {
        #[test]
        fn no_schedule_of_taking_and_giving_back_overlaps_loses_or_refuses_what_there_is(
            steps in proptest::collection::vec((sizes(), any::<prop::sample::Index>(), any::<bool>()), 1..120)
        ) {
            let mut allocator = Allocator::new(SIZE);
            let mut model = Model::default();
            for (bytes, which, take) in steps {
                if take || model.0.is_empty() {
                    match allocator.take(bytes) {
                        Some(taken) => {
                            model.check(&allocator, taken, bytes);
                            model.0.push(taken);
                        }
                        None => prop_assert!(!model.has_room(bytes), "{bytes} bytes were refused"),
                    }
                } else {
                    let piece = model.0.swap_remove(which.index(model.0.len()));
                    let whole = allocator.give_back(piece);
                    prop_assert!(whole.offset <= piece.offset && piece.end() <= whole.end());
                    model.check_sum(&allocator, 0);
                }
            }
            for piece in model.0.drain(..) {
                allocator.give_back(piece);
            }
            prop_assert_eq!(allocator.largest_bytes(), SIZE, "all of it grows together again");
        }

        #[test]
        fn ranges_are_a_set_of_places(
            steps in proptest::collection::vec((0_u64..64, 0_u64..20, any::<bool>()), 1..60)
        ) {
            let mut ranges = Ranges::default();
            let mut model = BTreeSet::new();
            for (start, length, add) in steps {
                if add {
                    ranges.insert(start, start + length);
                    model.extend(start..start + length);
                } else {
                    ranges.remove(start, start + length);
                    (start..start + length).for_each(|place| { model.remove(&place); });
                }
                prop_assert_eq!(ranges.total(), model.len() as u64);
                let flat: BTreeSet<u64> = ranges.ranges.iter().flat_map(|(&from, &until)| from..until).collect();
                prop_assert_eq!(&flat, &model);
            }
        }
    }
}
