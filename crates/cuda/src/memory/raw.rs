//! Bytes moved and set through addresses: the only place where they are touched.

/// An address that the caller vouches for: what a copy or a memset may touch from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vouched(usize);

impl Vouched {
    /// An address as a program gave it.
    ///
    /// # Safety
    /// If it is host memory, then every byte that the call touches must be readable or writable, as the call needs,
    /// until the stream has done the work, as CUDA demands of its callers; and what is written must not be borrowed
    /// by Rust code. Memory that a [`World`](crate::World) gave out needs no promise.
    pub const unsafe fn new(address: usize) -> Self {
        Self(address)
    }

    /// An address that a world gave out.
    pub(crate) const fn own(address: usize) -> Self {
        Self(address)
    }

    /// The address.
    pub const fn address(self) -> usize {
        self.0
    }
}

/// Rows of bytes: `height` rows a slice, `depth` slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// Where rows lie: bytes from one row to the next, and from one slice to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) start: Vouched,
    pub(crate) pitch: usize,
    pub(crate) slice: usize,
}

impl Layout {
    /// Bytes from the first to behind the last; `None` beyond the address space.
    pub(crate) fn span(&self, shape: Shape) -> Option<usize> {
        if shape.width == 0 || shape.height == 0 || shape.depth == 0 {
            return Some(0);
        }
        let rows = (shape.height - 1).checked_mul(self.pitch)?;
        let slices = (shape.depth - 1).checked_mul(self.slice)?;
        rows.checked_add(slices)?.checked_add(shape.width)
    }

    fn row(&self, slice: usize, row: usize) -> usize {
        self.start.0 + slice * self.slice + row * self.pitch
    }
}

/// A checked copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    pub(crate) dst: Layout,
    pub(crate) src: Layout,
    pub(crate) shape: Shape,
}

impl Move {
    pub(crate) fn run(&self) {
        let Shape { width, height, depth } = self.shape;
        let dense = |layout: &Layout| {
            (height == 1 || layout.pitch == width) && (depth == 1 || layout.slice == width * height)
        };
        if dense(&self.dst) && dense(&self.src) {
            return copy(self.dst.start.0, self.src.start.0, width * height * depth);
        }
        for slice in 0..depth {
            for row in 0..height {
                copy(self.dst.row(slice, row), self.src.row(slice, row), width);
            }
        }
    }

    /// The source's bytes as they are now, row after row.
    pub(crate) fn gather(&self) -> Vec<u8> {
        let Shape { width, height, depth } = self.shape;
        let mut bytes = vec![0; width * height * depth];
        // SAFETY: the vector's own memory, which outlives the run below.
        let start = unsafe { Vouched::new(bytes.as_mut_ptr().expose_provenance()) };
        let dst = Layout { start, pitch: width, slice: width * height };
        Self { dst, ..*self }.run();
        bytes
    }

    /// The same copy out of bytes that were gathered.
    pub(crate) fn scatter(&self, bytes: &[u8]) {
        let Shape { width, height, .. } = self.shape;
        // SAFETY: the slice's own memory, only read, which outlives the run below.
        let start = unsafe { Vouched::new(bytes.as_ptr().expose_provenance()) };
        let src = Layout { start, pitch: width, slice: width * height };
        Self { src, ..*self }.run();
    }
}

fn copy(dst: usize, src: usize, bytes: usize) {
    let dst = std::ptr::with_exposed_provenance_mut::<u8>(dst);
    let src = std::ptr::with_exposed_provenance::<u8>(src);
    // SAFETY: both ends were checked against the allocation that they lie in, whose mapping stays as long as work is
    // pending; or are host memory that the caller vouched for in `Vouched::new`. They may overlap. That nobody else
    // writes them meanwhile is what CUDA demands of programs; if somebody does, the bytes are as undefined as there.
    unsafe { std::ptr::copy(src, dst, bytes) }
}

/// A checked memset: `shape.width` is in bytes, a multiple of the element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) dst: Layout,
    pub(crate) shape: Shape,
    pub(crate) value: u32,
    pub(crate) element: Element,
}

/// What a memset repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Byte,
    Half,
    Word,
}

impl Set {
    pub(crate) fn run(&self) {
        let Shape { width, height, depth } = self.shape;
        for slice in 0..depth {
            for row in 0..height {
                self.row(self.dst.row(slice, row), width);
            }
        }
    }

    fn row(&self, at: usize, bytes: usize) {
        let [first, second, ..] = self.value.to_le_bytes();
        let half = u16::from_le_bytes([first, second]);
        match self.element {
            Element::Byte => {
                let start = std::ptr::with_exposed_provenance_mut::<u8>(at);
                // SAFETY: the row was checked against its allocation, or is host memory vouched for.
                unsafe { start.write_bytes(first, bytes) }
            }
            Element::Half => repeat(at, half, bytes / 2),
            Element::Word => repeat(at, self.value, bytes / 4),
        }
    }
}

fn repeat<T: Copy>(at: usize, value: T, count: usize) {
    let start = std::ptr::with_exposed_provenance_mut::<T>(at);
    for index in 0..count {
        // SAFETY: inside the row, which was checked against its allocation or is host memory vouched for.
        let place = unsafe { start.add(index) };
        // SAFETY: as above; aligned or not.
        unsafe { place.write_unaligned(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(at: usize, pitch: usize, slice: usize) -> Layout {
        // SAFETY: tests name memory of their own.
        Layout { start: unsafe { Vouched::new(at) }, pitch, slice }
    }

    #[test]
    fn strided_copies_leave_the_gaps_alone() {
        let src: Vec<u8> = (0..32).collect();
        let mut dst = [0xff_u8; 40];
        let shape = Shape { width: 3, height: 2, depth: 2 };
        let to = layout(dst.as_mut_ptr().expose_provenance(), 5, 20);
        let from = layout(src.as_ptr().expose_provenance(), 4, 16);
        let copy = Move { dst: to, src: from, shape };
        copy.run();
        assert_eq!(dst[..10], [0, 1, 2, 255, 255, 4, 5, 6, 255, 255]);
        assert_eq!(dst[20..30], [16, 17, 18, 255, 255, 20, 21, 22, 255, 255]);
        assert_eq!(to.span(shape), Some(28));
        let gathered = copy.gather();
        assert_eq!(gathered, [0, 1, 2, 4, 5, 6, 16, 17, 18, 20, 21, 22]);
        copy.scatter(&[9; 12]);
        assert_eq!(dst[..5], [9, 9, 9, 255, 255]);
    }

    #[test]
    fn a_memset_repeats_its_element() {
        let mut dst = [0_u8; 12];
        let at = dst.as_mut_ptr().expose_provenance();
        let shape = |width| Shape { width, height: 1, depth: 1 };
        let set = |element, width| {
            Set { dst: layout(at, 0, 0), shape: shape(width), value: 0x0403_0201, element }.run();
        };
        set(Element::Byte, 12);
        assert_eq!(dst, [1; 12]);
        set(Element::Half, 4);
        assert_eq!(dst[..5], [1, 2, 1, 2, 1]);
        set(Element::Word, 8);
        assert_eq!(dst[..9], [1, 2, 3, 4, 1, 2, 3, 4, 1]);
    }
}
