//! The loops: one pass over the destination in tiles whose wide accumulators stay in the first-level cache,
//! and over all sources within a tile, so that every source byte is read once and every result rounded once.

use std::marker::PhantomData;
use std::ops::Range;

use super::element::{Element, Whole};
use crate::simd::{Isa, Kernel};

/// How elements are brought into an accumulator, combined there, and brought back.
pub(super) trait Arithmetic: Copy {
    type Element: Element;
    type Acc: Copy + Default;
    const LOADS_BY_LANES: bool = false;
    const STORES_BY_LANES: bool = false;

    fn load(self, bytes: Bytes<Self>) -> Self::Acc;
    fn combine(self, left: Self::Acc, right: Self::Acc) -> Self::Acc;
    fn store(self, acc: Self::Acc) -> Bytes<Self>;

    #[inline(always)]
    fn load_lanes<I: Isa>(self, _isa: I, lanes: [Bytes<Self>; 8]) -> [Self::Acc; 8] {
        lanes.map(|bytes| self.load(bytes))
    }

    #[inline(always)]
    fn store_lanes<I: Isa>(self, _isa: I, lanes: [Self::Acc; 8]) -> [Bytes<Self>; 8] {
        lanes.map(|acc| self.store(acc))
    }
}

type Bytes<A> = <<A as Arithmetic>::Element as Element>::Bytes;

/// Sums (or products) in the wide type.
pub(super) struct Accumulate<E, const PRODUCT: bool>(pub(super) PhantomData<E>);
/// Sums in the wide type, divided by this many ranks at the end.
pub(super) struct Average<E>(pub(super) u32, pub(super) PhantomData<E>);
/// Minima (or maxima) by key.
pub(super) struct Extremum<E, const LARGEST: bool>(pub(super) PhantomData<E>);

impl<E, const PRODUCT: bool> Copy for Accumulate<E, PRODUCT> {}
impl<E, const PRODUCT: bool> Clone for Accumulate<E, PRODUCT> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E> Copy for Average<E> {}
impl<E> Clone for Average<E> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<E, const LARGEST: bool> Copy for Extremum<E, LARGEST> {}
impl<E, const LARGEST: bool> Clone for Extremum<E, LARGEST> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E: Element, const PRODUCT: bool> Arithmetic for Accumulate<E, PRODUCT> {
    type Element = E;
    type Acc = E::Wide;
    const LOADS_BY_LANES: bool = E::WIDENS_BY_LANES;
    const STORES_BY_LANES: bool = E::NARROWS_BY_LANES;

    #[inline(always)]
    fn load(self, bytes: E::Bytes) -> E::Wide {
        E::widen(bytes)
    }

    #[inline(always)]
    fn combine(self, left: E::Wide, right: E::Wide) -> E::Wide {
        if PRODUCT { E::multiply(left, right) } else { E::add(left, right) }
    }

    #[inline(always)]
    fn store(self, acc: E::Wide) -> E::Bytes {
        E::narrow(acc)
    }

    #[inline(always)]
    fn load_lanes<I: Isa>(self, isa: I, lanes: [E::Bytes; 8]) -> [E::Wide; 8] {
        E::widen_lanes(isa, lanes)
    }

    #[inline(always)]
    fn store_lanes<I: Isa>(self, isa: I, lanes: [E::Wide; 8]) -> [E::Bytes; 8] {
        E::narrow_lanes(isa, lanes)
    }
}

impl<E: Whole> Arithmetic for Average<E> {
    type Element = E;
    type Acc = E::Wide;

    #[inline(always)]
    fn load(self, bytes: E::Bytes) -> E::Wide {
        E::widen(bytes)
    }

    #[inline(always)]
    fn combine(self, left: E::Wide, right: E::Wide) -> E::Wide {
        E::add(left, right)
    }

    #[inline(always)]
    fn store(self, acc: E::Wide) -> E::Bytes {
        E::narrow(E::divide(acc, self.0))
    }
}

impl<E: Element, const LARGEST: bool> Arithmetic for Extremum<E, LARGEST> {
    type Element = E;
    type Acc = E::Key;

    #[inline(always)]
    fn load(self, bytes: E::Bytes) -> E::Key {
        // A NaN loses against every number because its key is the other extreme.
        E::key(bytes, if LARGEST { E::KEY_MIN } else { E::KEY_MAX })
    }

    #[inline(always)]
    fn combine(self, left: E::Key, right: E::Key) -> E::Key {
        if LARGEST { left.max(right) } else { left.min(right) }
    }

    #[inline(always)]
    fn store(self, acc: E::Key) -> E::Bytes {
        E::from_key(acc)
    }
}

/// Elements of a tile: 4 KiB of accumulators at most.
const TILE: usize = 512;

/// The fold of all sources. Sources have the destination's length, a whole number of elements.
pub(super) struct FoldKernel<'a, A> {
    pub(super) arithmetic: A,
    pub(super) dst: &'a mut [u8],
    pub(super) srcs: &'a [&'a [u8]],
}

impl<A: Arithmetic> Kernel for FoldKernel<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Some((first, rest)) = self.srcs.split_first() else { return };
        let mut accs = [A::Acc::default(); TILE];
        for (dst, range) in tiles::<A>(self.dst) {
            let accs = &mut accs[..dst.len()];
            load(self.arithmetic, isa, accs, part::<A>(first, &range));
            let (pairs, odd) = rest.as_chunks::<2>();
            for [left, right] in pairs {
                combine_two(self.arithmetic, isa, accs, part::<A>(left, &range), part::<A>(right, &range));
            }
            for source in odd {
                combine(self.arithmetic, isa, accs, part::<A>(source, &range));
            }
            store(self.arithmetic, isa, dst, accs);
        }
    }
}

/// Each element times a scalar. `src` has the destination's length, or is the destination where `None`.
pub(super) struct PrescaleKernel<'a, E: Element> {
    pub(super) scalar: E::Wide,
    pub(super) dst: &'a mut [u8],
    pub(super) src: Option<&'a [u8]>,
}

impl<E: Element> Kernel for PrescaleKernel<'_, E> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let product = Accumulate::<E, true>(PhantomData);
        let mut accs = [E::Wide::default(); TILE];
        for (dst, range) in tiles::<Accumulate<E, true>>(self.dst) {
            let accs = &mut accs[..dst.len()];
            let source: &[E::Bytes] = match self.src {
                Some(src) => &E::split(src)[range],
                None => dst,
            };
            load(product, isa, accs, source);
            for acc in &mut *accs {
                *acc = E::multiply(*acc, self.scalar);
            }
            store(product, isa, dst, accs);
        }
    }
}

/// The destination in tiles, each with its range of elements.
#[inline(always)]
fn tiles<A: Arithmetic>(dst: &mut [u8]) -> impl Iterator<Item = (&mut [Bytes<A>], Range<usize>)> {
    A::Element::split_mut(dst).chunks_mut(TILE).enumerate().map(|(index, tile)| {
        let start = index * TILE;
        let range = start..start + tile.len();
        (tile, range)
    })
}

#[inline(always)]
fn part<'a, A: Arithmetic>(source: &'a [u8], range: &Range<usize>) -> &'a [Bytes<A>] {
    &A::Element::split(source)[range.clone()]
}

#[inline(always)]
fn load<A: Arithmetic, I: Isa>(arithmetic: A, isa: I, accs: &mut [A::Acc], source: &[Bytes<A>]) {
    let lanes = whole_lanes(I::LANES && A::LOADS_BY_LANES, accs.len());
    let (source_lanes, source) = source.split_at(lanes);
    let (acc_lanes, accs) = accs.split_at_mut(lanes);
    for (accs, source) in acc_lanes.as_chunks_mut().0.iter_mut().zip(source_lanes.as_chunks().0) {
        *accs = arithmetic.load_lanes(isa, *source);
    }
    for (acc, bytes) in accs.iter_mut().zip(source) {
        *acc = arithmetic.load(*bytes);
    }
}

#[inline(always)]
fn combine<A: Arithmetic, I: Isa>(arithmetic: A, isa: I, accs: &mut [A::Acc], source: &[Bytes<A>]) {
    let lanes = whole_lanes(I::LANES && A::LOADS_BY_LANES, accs.len());
    let (source_lanes, source) = source.split_at(lanes);
    let (acc_lanes, accs) = accs.split_at_mut(lanes);
    for (accs, source) in acc_lanes.as_chunks_mut().0.iter_mut().zip(source_lanes.as_chunks().0) {
        *accs = zip(arithmetic, *accs, arithmetic.load_lanes(isa, *source));
    }
    for (acc, bytes) in accs.iter_mut().zip(source) {
        *acc = arithmetic.combine(*acc, arithmetic.load(*bytes));
    }
}

/// Two sources in one pass over the accumulators, which halves the traffic to them; in order, as ever.
#[inline(always)]
fn combine_two<A: Arithmetic, I: Isa>(
    arithmetic: A,
    isa: I,
    accs: &mut [A::Acc],
    left: &[Bytes<A>],
    right: &[Bytes<A>],
) {
    let lanes = whole_lanes(I::LANES && A::LOADS_BY_LANES, accs.len());
    let (left_lanes, left) = left.split_at(lanes);
    let (right_lanes, right) = right.split_at(lanes);
    let (acc_lanes, accs) = accs.split_at_mut(lanes);
    let source_lanes = left_lanes.as_chunks().0.iter().zip(right_lanes.as_chunks().0);
    for (accs, (left, right)) in acc_lanes.as_chunks_mut().0.iter_mut().zip(source_lanes) {
        let sum = zip(arithmetic, *accs, arithmetic.load_lanes(isa, *left));
        *accs = zip(arithmetic, sum, arithmetic.load_lanes(isa, *right));
    }
    for (acc, (left, right)) in accs.iter_mut().zip(left.iter().zip(right)) {
        let sum = arithmetic.combine(*acc, arithmetic.load(*left));
        *acc = arithmetic.combine(sum, arithmetic.load(*right));
    }
}

#[inline(always)]
fn store<A: Arithmetic, I: Isa>(arithmetic: A, isa: I, dst: &mut [Bytes<A>], accs: &[A::Acc]) {
    let lanes = whole_lanes(I::LANES && A::STORES_BY_LANES, accs.len());
    let (acc_lanes, accs) = accs.split_at(lanes);
    let (dst_lanes, dst) = dst.split_at_mut(lanes);
    for (dst, accs) in dst_lanes.as_chunks_mut().0.iter_mut().zip(acc_lanes.as_chunks().0) {
        *dst = arithmetic.store_lanes(isa, *accs);
    }
    for (bytes, acc) in dst.iter_mut().zip(accs) {
        *bytes = arithmetic.store(*acc);
    }
}

#[inline(always)]
fn zip<A: Arithmetic>(arithmetic: A, mut left: [A::Acc; 8], right: [A::Acc; 8]) -> [A::Acc; 8] {
    for (left, right) in left.iter_mut().zip(right) {
        *left = arithmetic.combine(*left, right);
    }
    left
}

/// How many of `count` elements go eight at a time; the others go one by one, in a loop the compiler vectorises.
#[inline(always)]
fn whole_lanes(by_lanes: bool, count: usize) -> usize {
    if by_lanes { count / 8 * 8 } else { 0 }
}
