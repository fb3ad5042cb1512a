//! Copies and memsets: checked against what is known of their memory, then put into a stream.

use fakegpu_units::VirtualSpan;

use crate::account::Route;
use crate::devices::Ordinal;
use crate::engine::Work;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::handle::StreamRef;
use crate::memory::{Attributes, Element, Layout, MemoryKind, Move, Set, Shape, Vouched};
use crate::world::World;

/// Which way the program says that a copy goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyKind {
    /// From host memory to host memory.
    HostToHost,
    /// From host memory to a device.
    HostToDevice,
    /// From a device to host memory.
    DeviceToHost,
    /// From a device to it or another.
    DeviceToDevice,
    /// As the addresses tell.
    #[default]
    Default,
}

impl CopyKind {
    /// By its number in `cudaMemcpyKind`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidMemcpyDirection`].
    pub fn from_raw(raw: i32) -> Result<Self> {
        Ok(match raw {
            0 => Self::HostToHost,
            1 => Self::HostToDevice,
            2 => Self::DeviceToHost,
            3 => Self::DeviceToDevice,
            4 => Self::Default,
            _ => {
                let text = format!("{raw} is no cudaMemcpyKind; there are 0 to 4");
                return Err(Error::new(ErrorKind::InvalidMemcpyDirection, text));
            }
        })
    }
}

/// A copy of rows of bytes: `height` rows a slice, `depth` slices. Pitches are bytes from one row to the next, slices
/// bytes from one slice to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// Where to.
    pub dst: Vouched,
    /// Where from.
    pub src: Vouched,
    /// Pitch there.
    pub dst_pitch: usize,
    /// Pitch here.
    pub src_pitch: usize,
    /// Slice there.
    pub dst_slice: usize,
    /// Slice here.
    pub src_slice: usize,
    /// Bytes of a row.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// Which way the program says that it goes.
    pub kind: CopyKind,
}

impl Copy {
    /// A copy of bytes in a row.
    pub const fn flat(dst: Vouched, src: Vouched, bytes: usize, kind: CopyKind) -> Self {
        Self {
            dst,
            src,
            dst_pitch: bytes,
            src_pitch: bytes,
            dst_slice: bytes,
            src_slice: bytes,
            width: bytes,
            height: 1,
            depth: 1,
            kind,
        }
    }
}

/// A copy that was found to be in order.
struct Planned {
    copy: Move,
    bytes: usize,
    dst: Attributes,
    src: Attributes,
    route: Route,
    /// The device to whose account it goes.
    device: Ordinal,
    span: VirtualSpan,
}

/// More than this is not set aside: the copy waits for its stream instead.
const STAGED_BYTES_MAX: usize = 64 << 20;

const fn is_device(known: &Attributes) -> bool {
    matches!(known.kind, MemoryKind::Device | MemoryKind::Managed)
}

const fn is_pageable(known: &Attributes) -> bool {
    matches!(known.kind, MemoryKind::Unregistered)
}

impl World {
    /// Copies in a stream's order. Pageable host memory that is read may be reused on return; pageable host memory
    /// that is written is written on return.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidValue`] where an end runs over its allocation, lies in none that is alive, or is not the
    /// device's that `kind` says; [`ErrorKind::InvalidPitchValue`] for rows that overlap;
    /// [`ErrorKind::MemoryAllocation`] where the machine has no room for what is written; as all work.
    pub fn copy(&self, device: Ordinal, stream: StreamRef, copy: &Copy) -> Result<()> {
        self.device(device)?;
        let Some(planned) = self.plan(device, copy)? else { return Ok(()) };
        let pageable = (is_pageable(&planned.src), is_pageable(&planned.dst));
        if pageable != (false, false) && self.engine.is_capturing(device, stream)? {
            let what = "a copy from or to pageable host memory";
            return self.engine.refuse_captured(device, stream, what);
        }
        let waits = match pageable {
            (_, true) => true,
            (true, false) if planned.bytes > STAGED_BYTES_MAX => true,
            (true, false) => self.engine.is_stream_quiet(device, stream)?,
            (false, false) => false,
        };
        let work = match pageable {
            (true, false) if !waits => Work::Staged(planned.copy.gather(), planned.copy, planned.span),
            _ => Work::Move(planned.copy, planned.span),
        };
        self.put(device, stream, &planned, work, waits)
    }

    /// Copies, and waits until it is done; but for copies within and between devices, as CUDA does.
    ///
    /// # Errors
    /// As [`World::copy`]; not during a capture.
    pub fn copy_sync(&self, device: Ordinal, stream: StreamRef, copy: &Copy) -> Result<()> {
        self.device(device)?;
        self.refuse_in_capture("a synchronous copy")?;
        let Some(planned) = self.plan(device, copy)? else { return Ok(()) };
        let waits = !(is_device(&planned.src) && is_device(&planned.dst));
        let work = Work::Move(planned.copy, planned.span);
        self.put(device, stream, &planned, work, waits)?;
        if waits {
            let time = self.stream_time(device, stream)?;
            self.engine.witness(time);
        }
        Ok(())
    }

    fn put(
        &self,
        device: Ordinal,
        stream: StreamRef,
        planned: &Planned,
        work: Work,
        waits: bool,
    ) -> Result<()> {
        let pending = self.engine.enqueue(device, stream, work)?;
        self.account.note_copy(planned.device, planned.route, planned.bytes as u64);
        match pending {
            Some(record) if waits => self.engine.wait(&record).map(drop),
            _ => Ok(()),
        }
    }

    fn plan(&self, device: Ordinal, copy: &Copy) -> Result<Option<Planned>> {
        let shape = Shape { width: copy.width, height: copy.height, depth: copy.depth };
        if shape.width == 0 || shape.height == 0 || shape.depth == 0 {
            return Ok(None);
        }
        let dst = Layout { start: copy.dst, pitch: copy.dst_pitch, slice: copy.dst_slice };
        let src = Layout { start: copy.src, pitch: copy.src_pitch, slice: copy.src_slice };
        let to = self.end(&dst, shape, "the destination of a copy")?;
        let from = self.end(&src, shape, "the source of a copy")?;
        check_direction(copy.kind, &to, &from)?;
        let bytes = shape.width * shape.height * shape.depth;
        self.memory.admit(&to, bytes, "a copy")?;
        let (route, account, span) = self.route(device, &to, &from, bytes as u64)?;
        let copy = Move { dst, src, shape };
        Ok(Some(Planned { copy, bytes, dst: to, src: from, route, device: account, span }))
    }

    /// What one end of a copy lies in.
    fn end(&self, layout: &Layout, shape: Shape, what: &str) -> Result<Attributes> {
        let address = layout.start.address();
        if address == 0 {
            return invalid(format!("{what} is address 0"));
        }
        check_pitch(layout, shape, what)?;
        match layout.span(shape).filter(|span| address.checked_add(*span).is_some()) {
            Some(span) => self.memory.span(address, span, what),
            None => invalid(format!("{what} at {address:#x} exceeds the address space")),
        }
    }

    fn route(
        &self,
        device: Ordinal,
        to: &Attributes,
        from: &Attributes,
        bytes: u64,
    ) -> Result<(Route, Ordinal, VirtualSpan)> {
        let get = |device| self.devices.get(device);
        Ok(match (is_device(from), is_device(to)) {
            (false, false) => (Route::HostToHost, device, get(device)?.host_span(bytes)),
            (false, true) => (Route::HostToDevice, to.device, get(to.device)?.host_span(bytes)),
            (true, false) => (Route::DeviceToHost, from.device, get(from.device)?.host_span(bytes)),
            (true, true) if from.device == to.device && from.is_foreign == to.is_foreign => {
                // Read and written over the same bus.
                (Route::DeviceToDevice, to.device, get(to.device)?.memory_span(bytes.saturating_mul(2)))
            }
            (true, true) => {
                let span = self.devices.peer_span(get(from.device)?, bytes);
                (Route::Peer, from.device, span)
            }
        })
    }

    /// Sets `count` elements of `element_bytes` (1, 2 or 4) to the low bytes of `value`, in a stream's order.
    ///
    /// # Errors
    /// As [`World::copy`]; [`ErrorKind::InvalidValue`] for pageable host memory and other sizes of element.
    pub fn fill(
        &self,
        device: Ordinal,
        stream: StreamRef,
        target: Vouched,
        value: u32,
        element_bytes: usize,
        count: usize,
    ) -> Result<()> {
        let rows = Rows { pitch: 0, slice: 0, width: count, height: 1, depth: 1 };
        self.fill_rows(device, stream, target, (value, element_bytes), rows)
    }

    /// The same in rows.
    ///
    /// # Errors
    /// As [`World::fill`].
    pub fn fill_rows(
        &self,
        device: Ordinal,
        stream: StreamRef,
        target: Vouched,
        (value, element_bytes): (u32, usize),
        rows: Rows,
    ) -> Result<()> {
        self.device(device)?;
        let element = match element_bytes {
            1 => Element::Byte,
            2 => Element::Half,
            4 => Element::Word,
            other => return invalid(format!("a memset repeats 1, 2 or 4 bytes, not {other}")),
        };
        if rows.width == 0 || rows.height == 0 || rows.depth == 0 {
            return Ok(());
        }
        let Some(width) = rows.width.checked_mul(element_bytes) else {
            return invalid("a memset exceeds the address space");
        };
        if !target.address().is_multiple_of(element_bytes) {
            let at = target.address();
            return invalid(format!(
                "a memset of {element_bytes}-byte elements at {at:#x} is not aligned to them"
            ));
        }
        let shape = Shape { width, height: rows.height, depth: rows.depth };
        let dst = Layout { start: target, pitch: rows.pitch, slice: rows.slice };
        let known = self.end(&dst, shape, "a memset")?;
        if is_pageable(&known) {
            let at = target.address();
            return invalid(format!("a memset at {at:#x}: that is no memory of a device, nor page-locked"));
        }
        let bytes = width * rows.height * rows.depth;
        self.memory.admit(&known, bytes, "a memset")?;
        let span = self.devices.get(known.device)?.memory_span(bytes as u64);
        self.engine.enqueue(device, stream, Work::Set(Set { dst, shape, value, element }, span))?;
        self.account.note_memset(known.device, bytes as u64);
        Ok(())
    }
}

/// Rows of elements to set: `width` elements a row, `height` rows a slice, `depth` slices; `pitch` bytes from one row
/// to the next, `slice` bytes from one slice to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Bytes from one slice to the next.
    pub slice: usize,
    /// Elements of a row.
    pub width: usize,
    /// Rows of a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
}

fn check_pitch(layout: &Layout, shape: Shape, what: &str) -> Result<()> {
    let overlaps = (shape.height > 1 && layout.pitch < shape.width)
        || (shape.depth > 1 && layout.slice / shape.height < layout.pitch.min(shape.width));
    if overlaps {
        let (pitch, width) = (layout.pitch, shape.width);
        let text = format!("{what} has rows of {width} bytes, but only {pitch} from one to the next");
        return Err(Error::new(ErrorKind::InvalidPitchValue, text));
    }
    Ok(())
}

/// A device's end must be memory that a device can reach; what the program calls the host's may be anybody's.
fn check_direction(kind: CopyKind, dst: &Attributes, src: &Attributes) -> Result<()> {
    let (to_device, from_device) = match kind {
        CopyKind::HostToHost | CopyKind::Default => (false, false),
        CopyKind::HostToDevice => (true, false),
        CopyKind::DeviceToHost => (false, true),
        CopyKind::DeviceToDevice => (true, true),
    };
    for (must, known, end) in [(to_device, dst, "destination"), (from_device, src, "source")] {
        if must && is_pageable(known) {
            let at = known.base;
            return invalid(format!(
                "the {end} of a copy, {at:#x}, is said to be a device's, but is ordinary host memory"
            ));
        }
    }
    Ok(())
}
