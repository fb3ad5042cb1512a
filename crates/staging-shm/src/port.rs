//! Frames of the streamed road of sends and receives, and a connection that carries them without ever blocking.

use std::io;

use fakegpu_transport::Wire;
use fakegpu_units::Rank;
use rustix::event::PollFlags;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The longest piece.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// What stands before every piece, and is a request by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 4],
    peer: U32,
    number: U32,
    /// Bytes that follow.
    bytes: U32,
}

const HEAD_BYTES: usize = size_of::<Head>();
const PULL: [u8; 4] = *b"FGpl";
const PIECE: [u8; 4] = *b"FGpc";

/// A request for a piece, or a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Whether it is a request.
    pub(crate) is_pull: bool,
    /// The other rank: whom a frame goes to on its way to the switch, whom it comes from on its way out.
    pub(crate) peer: Rank,
    /// Which transfer of the two ranks in this direction it belongs to, counted from 0.
    pub(crate) number: u32,
}

impl Frame {
    pub(crate) const fn pull(peer: Rank, number: u32) -> Self {
        Self { is_pull: true, peer, number }
    }

    pub(crate) const fn piece(peer: Rank, number: u32) -> Self {
        Self { is_pull: false, peer, number }
    }

    fn head(self, bytes: usize) -> Head {
        Head {
            magic: if self.is_pull { PULL } else { PIECE },
            peer: U32::new(self.peer.0),
            number: U32::new(self.number),
            // Beyond the longest piece, which no reader accepts.
            bytes: U32::new(u32::try_from(bytes).unwrap_or(u32::MAX)),
        }
    }

    /// Reads a head, and how many bytes follow it, from the start of `bytes`; `None` where more must come.
    fn read(bytes: &[u8]) -> io::Result<Option<(Self, usize)>> {
        let Ok((head, _)) = Head::read_from_prefix(bytes) else { return Ok(None) };
        let length = head.bytes.get() as usize;
        let is_pull = head.magic == PULL && length == 0;
        if !is_pull && (head.magic != PIECE || length > PIECE_BYTES_MAX) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the bytes are no frame of a transfer"));
        }
        Ok(Some((Self { is_pull, peer: Rank(head.peer.get()), number: head.number.get() }, length)))
    }
}

/// A connection with what has been read from it and what is to be written to it.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) wire: Wire,
    /// Room for two frames; what was read and not yet taken is in `taken..read`.
    input: Box<[u8]>,
    taken: usize,
    read: usize,
    /// What is to be written; the first `written` bytes are.
    output: Vec<u8>,
    written: usize,
    /// Bytes that were written before `output`'s.
    gone: u64,
}

/// Written bytes that are kept for a while, since moving the rest to the front costs a copy.
const KEPT_BYTES: usize = PIECE_BYTES_MAX;

impl Port {
    pub(crate) fn new(wire: Wire) -> Self {
        let input = vec![0; 2 * (PIECE_BYTES_MAX + HEAD_BYTES)].into_boxed_slice();
        Self { wire, input, taken: 0, read: 0, output: Vec::new(), written: 0, gone: 0 }
    }

    pub(crate) const fn has_output(&self) -> bool {
        self.written < self.output.len()
    }

    /// Whether a part of a frame has come.
    pub(crate) const fn has_input(&self) -> bool {
        self.taken < self.read
    }

    /// What a poll should wait for.
    pub(crate) fn interest(&self) -> PollFlags {
        if self.has_output() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    }

    /// Bytes that were ever pushed.
    pub(crate) const fn pushed(&self) -> u64 {
        self.gone + self.output.len() as u64
    }

    /// How many of them have left the process.
    pub(crate) const fn left(&self) -> u64 {
        self.gone + self.written as u64
    }

    /// Has a frame written with the next flushes.
    pub(crate) fn push(&mut self, frame: Frame, bytes: &[u8]) {
        self.push_with(frame, bytes.len(), |place| place.copy_from_slice(bytes));
    }

    /// The same, for `bytes` bytes that `write` puts in their place.
    pub(crate) fn push_with(&mut self, frame: Frame, bytes: usize, write: impl FnOnce(&mut [u8])) {
        if self.written > KEPT_BYTES && 2 * self.written > self.output.len() {
            self.forget_written();
        }
        self.output.extend_from_slice(frame.head(bytes).as_bytes());
        let start = self.output.len();
        self.output.resize(start + bytes, 0);
        write(&mut self.output[start..]);
    }

    /// Writes what fits; whether anything did.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let before = self.left();
        while self.has_output() {
            match self.wire.send(&self.output[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let wrote = self.left() > before;
        if !self.has_output() {
            self.forget_written();
        }
        Ok(wrote)
    }

    fn forget_written(&mut self) {
        self.gone += self.written as u64;
        self.output.drain(..self.written);
        self.written = 0;
    }

    /// Reads what is there, a bounded amount; `None` at the end of the stream, else whether anything came. Whole
    /// frames that came before must have been taken.
    pub(crate) fn fill(&mut self) -> io::Result<Option<bool>> {
        self.input.copy_within(self.taken..self.read, 0);
        (self.taken, self.read) = (0, self.read - self.taken);
        match self.wire.receive(&mut self.input[self.read..]) {
            Ok(0) => Ok(None),
            Ok(count) => {
                self.read += count;
                Ok(Some(true))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }

    /// The next whole frame and its bytes.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Frame, &[u8])>> {
        let Some((frame, length)) = Frame::read(&self.input[self.taken..self.read])? else { return Ok(None) };
        let start = self.taken + HEAD_BYTES;
        let end = start + length;
        if end > self.read {
            return Ok(None);
        }
        self.taken = end;
        Ok(Some((frame, &self.input[start..end])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_and_noise_is_refused() {
        for (frame, bytes) in [(Frame::pull(Rank(3), 7), 0), (Frame::piece(Rank(4), u32::MAX), 5)] {
            let head = frame.head(bytes);
            assert_eq!(Frame::read(head.as_bytes()).unwrap(), Some((frame, bytes)));
            assert_eq!(Frame::read(&head.as_bytes()[..HEAD_BYTES - 1]).unwrap(), None);
        }
        for head in [
            Frame::piece(Rank(0), 0).head(PIECE_BYTES_MAX + 1),
            Frame::pull(Rank(0), 0).head(1),
            Head { magic: [0; 4], ..Frame::pull(Rank(0), 0).head(0) },
        ] {
            assert!(Frame::read(head.as_bytes()).is_err(), "{head:?}");
        }
    }

    #[test]
    fn frames_arrive_whole_however_they_were_cut() {
        let (near, far) = Wire::pair().unwrap();
        let mut port = Port::new(far);
        let long = vec![7; PIECE_BYTES_MAX];
        let frames = [(Frame::piece(Rank(1), 0), &long[..]), (Frame::pull(Rank(2), 1), &[])];
        let stream: Vec<u8> = frames
            .iter()
            .flat_map(|(frame, bytes)| [frame.head(bytes.len()).as_bytes(), bytes].concat())
            .collect();
        let mut frames = frames.into_iter();
        for cut in stream.repeat(1).chunks(10_007) {
            near.send_all(cut, std::time::Duration::from_secs(5)).unwrap();
            assert_eq!(port.fill().unwrap(), Some(true));
            while let Some(frame) = port.next().unwrap() {
                assert_eq!(frames.next(), Some(frame));
            }
        }
        assert_eq!((frames.next(), port.has_input()), (None, false));
        near.send_all(&stream[..5], std::time::Duration::from_secs(5)).unwrap();
        drop(near);
        assert_eq!(port.fill().unwrap(), Some(true));
        assert!(port.next().unwrap().is_none() && port.has_input());
        assert_eq!(port.fill().unwrap(), None);
    }

    /// A connection under way all the time, as that of a rank which many others send to.
    #[test]
    fn output_that_never_runs_dry_takes_no_more_room() {
        let (near, far) = Wire::pair().unwrap();
        let mut port = Port::new(near);
        let (piece, mut drained) = (vec![1; PIECE_BYTES_MAX], vec![0; PIECE_BYTES_MAX]);
        while port.pushed() - port.left() < 8 * PIECE_BYTES_MAX as u64 {
            port.push(Frame::piece(Rank(0), 0), &piece);
            port.flush().unwrap();
        }
        for _ in 0..1000 {
            far.receive(&mut drained).unwrap();
            port.flush().unwrap();
            while port.pushed() - port.left() < 8 * PIECE_BYTES_MAX as u64 {
                port.push(Frame::piece(Rank(0), 0), &piece);
            }
            assert!(port.has_output() && port.output.len() < 20 * PIECE_BYTES_MAX, "{}", port.output.len());
        }
    }
}
