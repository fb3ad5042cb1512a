//! Buffers between guards, and what a call has done to them.

use std::ffi::c_void;
use std::ptr;

use fakegpu_verification::fuzz::{At, Forecast, Memory, Op, Place, Program};

/// Bytes on each side that nobody may touch.
const GUARD: usize = 64;

/// What guards hold.
const GUARD_BYTE: u8 = 0xa5;

/// A buffer between guards.
#[derive(Debug)]
struct Guarded(Vec<u8>);

impl Guarded {
    fn new(bytes: &[u8]) -> Self {
        let mut all = vec![GUARD_BYTE; GUARD];
        all.extend_from_slice(bytes);
        all.resize(bytes.len() + 2 * GUARD, GUARD_BYTE);
        Self(all)
    }

    fn at(&mut self, at: usize) -> *mut c_void {
        self.0[GUARD + at..].as_mut_ptr().cast()
    }

    fn bytes(&self) -> &[u8] {
        &self.0[GUARD..self.0.len() - GUARD]
    }

    fn is_guarded(&self) -> bool {
        let (front, back) = (&self.0[..GUARD], &self.0[self.0.len() - GUARD..]);
        front.iter().chain(back).all(|&byte| byte == GUARD_BYTE)
    }
}

/// The buffers of one call.
#[derive(Debug)]
pub(crate) struct Buffers {
    before: Memory,
    send: Guarded,
    recv: Guarded,
    uses_send: bool,
    uses_recv: bool,
    bare: bool,
}

/// What was found in a call's buffers.
#[derive(Debug, Default)]
pub(crate) struct Finding {
    /// What must not be, in words.
    pub(crate) trouble: Vec<String>,
    /// Pieces of a failed call that are neither as they were nor as they would have become.
    pub(crate) torn: usize,
}

impl Buffers {
    /// Those of an operation.
    pub(crate) fn new(program: &Program, rank: usize, op: &Op, place: Place) -> Self {
        let before = program.memory(rank, op, place);
        Self {
            send: Guarded::new(&before.send),
            recv: Guarded::new(&before.recv),
            uses_send: op.kind.send_blocks(place.member, place.size) > 0,
            uses_recv: op.kind.recv_blocks(place.member, place.size) > 0,
            bare: op.bare,
            before,
        }
    }

    /// What the call is given: where it sends from, and where it receives.
    pub(crate) fn pointers(&mut self) -> (*const c_void, *mut c_void) {
        if self.before.shared {
            return (self.recv.at(self.before.send_at), self.recv.at(self.before.recv_at));
        }
        let bare = |used: bool, at: *mut c_void| if used || !self.bare { at } else { ptr::null_mut() };
        let (send, recv) = (self.send.at(0), self.recv.at(0));
        (bare(self.uses_send, send), bare(self.uses_recv, recv))
    }

    /// What is in the receive buffer.
    pub(crate) fn received(&self) -> &[u8] {
        self.recv.bytes()
    }

    /// Holds the buffers against the model, after a call that succeeded or one that did not.
    pub(crate) fn check(&self, program: &Program, forecast: &Forecast, at: At, succeeded: bool) -> Finding {
        let mut finding = Finding::default();
        let Some(op) = program.op(at) else { return finding };
        let mut rest = self.before.recv.clone();
        for piece in program.pieces(forecast, at) {
            let range = self.before.recv_at + piece.at..self.before.recv_at + piece.at + piece.bytes;
            let (found, before) = (&self.recv.bytes()[range.clone()], &self.before.recv[range.clone()]);
            rest[range].copy_from_slice(found);
            let differs = piece.differs(found);
            if piece.wanted.is_none() && found != before {
                finding.trouble.push(format!("{op}: bytes came that nobody sends (from byte {})", piece.at));
            } else if let Some(element) = differs.filter(|_| succeeded) {
                let size = piece.combined.map_or(1, |data_type| data_type.size());
                let show = |bytes: &[u8]| {
                    let end = bytes.len().min((element + 1) * size);
                    format!("{:02x?}", &bytes[end.saturating_sub(size)..end])
                };
                let wanted = piece.wanted.as_deref().unwrap_or_default();
                finding.trouble.push(format!(
                    "{op}: element {element} of the piece at byte {} is {}, not {}{}",
                    piece.at,
                    show(found),
                    show(wanted),
                    if found == before { "; the buffer is untouched" } else { "" }
                ));
            } else if differs.is_some() && found != before {
                finding.torn += 1;
            }
        }
        if rest != self.recv.bytes() {
            finding.trouble.push(format!("{op}: bytes outside what it receives have changed"));
        }
        if self.before.send != self.send.bytes() {
            finding.trouble.push(format!("{op}: the send buffer has changed"));
        }
        if !self.send.is_guarded() || !self.recv.is_guarded() {
            finding.trouble.push(format!("{op}: bytes beside a buffer have changed"));
        }
        finding
    }
}
