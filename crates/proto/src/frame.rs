//! Frames: a fixed header and a bounded body, cut from a byte stream that may come in any pieces.

use serde::Serialize;
use serde::de::DeserializeOwned;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::PROTOCOL_VERSION;

/// The first bytes of every frame; no text request begins so.
pub const MAGIC: [u8; 4] = *b"\xF6GPU";

/// The largest body of a control frame: a group of some forty thousand operations fits.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// What stands before every body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 4],
    /// [`PROTOCOL_VERSION`] of the sender.
    pub version: U16,
    /// Reserved; senders write 0, receivers refuse anything else.
    pub flags: U16,
    /// Bytes of body that follow.
    pub length: U32,
    /// Pairs a reply with its request; 0 for messages nobody asked for.
    pub request: U64,
}

/// Bytes of a [`Header`].
pub const HEADER_BYTES: usize = size_of::<Header>();

/// Why a stream cannot be read on; the connection it came from is closed, nothing else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The first bytes are not ours.
    #[error("the bytes {seen:02x?} do not begin a frame")]
    Magic {
        /// What stood there.
        seen: [u8; 4],
    },
    /// The peer speaks another version.
    #[error(
        "the peer speaks protocol version {seen}, this build speaks {PROTOCOL_VERSION}: use libnccl.so.2 and fakegpu-coordinator of one build"
    )]
    Version {
        /// The peer's version.
        seen: u16,
    },
    /// Reserved bits are set.
    #[error("the reserved header bits are {seen:#x}, expected 0")]
    Flags {
        /// What stood there.
        seen: u16,
    },
    /// A body longer than any message of ours.
    #[error("a body of {length} bytes is announced, at most {BODY_BYTES_MAX} are accepted")]
    Length {
        /// What was announced.
        length: u32,
    },
    /// A body that is not a message.
    #[error("a body of {length} bytes is not a message: {why}")]
    Body {
        /// Its length.
        length: usize,
        /// The decoder's words.
        why: String,
    },
    /// A message too large to send.
    #[error("the message takes {length} bytes, at most {BODY_BYTES_MAX} fit a frame: split the group")]
    TooLarge {
        /// Its length.
        length: usize,
    },
}

/// One frame holding `message`, as a reply to (or as) `request`.
pub fn encode<M: Serialize>(request: u64, message: &M) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes = postcard::to_extend(message, bytes)
        .map_err(|error| FrameError::Body { length: 0, why: error.to_string() })?;
    let length = bytes.len() - HEADER_BYTES;
    let announced = u32::try_from(length)
        .ok()
        .filter(|_| length <= BODY_BYTES_MAX)
        .ok_or(FrameError::TooLarge { length })?;
    let header = Header {
        magic: MAGIC,
        version: U16::new(PROTOCOL_VERSION),
        flags: U16::new(0),
        length: U32::new(announced),
        request: U64::new(request),
    };
    bytes[..HEADER_BYTES].copy_from_slice(header.as_bytes());
    Ok(bytes)
}

/// Cuts frames from a stream. Holds at most one frame and one read beyond it.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    taken: usize,
}

impl FrameReader {
    /// Adds what was read.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.taken > 0 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether nothing is left that was added.
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }

    /// The next whole frame's request number and message, or `None` until more bytes come.
    ///
    /// After an error the stream has no meaning any more: drop the connection.
    pub fn next_frame<M: DeserializeOwned>(&mut self) -> Result<Option<(u64, M)>, FrameError> {
        let Some(header) = self.header()? else { return Ok(None) };
        let length = header.length.get() as usize;
        let start = self.taken + HEADER_BYTES;
        let Some(body) = self.bytes.get(start..start + length) else { return Ok(None) };
        let (message, rest) = postcard::take_from_bytes(body)
            .map_err(|error| FrameError::Body { length, why: error.to_string() })?;
        if !rest.is_empty() {
            return Err(FrameError::Body { length, why: format!("{} bytes are left over", rest.len()) });
        }
        self.taken = start + length;
        Ok(Some((header.request.get(), message)))
    }

    /// Whether a part of a frame is waiting for its rest.
    pub fn is_mid_frame(&self) -> bool {
        self.taken < self.bytes.len()
    }

    fn header(&self) -> Result<Option<Header>, FrameError> {
        let pending = &self.bytes[self.taken..];
        // A wrong first byte is refused at once, not when 20 bytes have come.
        let seen = pending.len().min(MAGIC.len());
        if pending[..seen] != MAGIC[..seen] {
            let mut magic = [0; 4];
            magic[..seen].copy_from_slice(&pending[..seen]);
            return Err(FrameError::Magic { seen: magic });
        }
        let Ok((header, _)) = Header::read_from_prefix(pending) else { return Ok(None) };
        if header.version.get() != PROTOCOL_VERSION {
            return Err(FrameError::Version { seen: header.version.get() });
        }
        if header.flags.get() != 0 {
            return Err(FrameError::Flags { seen: header.flags.get() });
        }
        if header.length.get() as usize > BODY_BYTES_MAX {
            return Err(FrameError::Length { length: header.length.get() });
        }
        Ok(Some(header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToCoordinator;

    #[test]
    fn a_frame_cut_anywhere_is_read_whole() {
        let bytes = encode(9, &ToCoordinator::Stats).unwrap();
        for cut in 0..bytes.len() {
            let mut reader = FrameReader::default();
            reader.extend(&bytes[..cut]);
            assert_eq!(reader.next_frame::<ToCoordinator>().unwrap(), None, "cut at {cut}");
            reader.extend(&bytes[cut..]);
            assert_eq!(reader.next_frame::<ToCoordinator>().unwrap(), Some((9, ToCoordinator::Stats)));
            assert!(!reader.is_mid_frame());
        }
    }

    #[test]
    fn a_huge_length_is_refused_before_memory_is_taken() {
        let mut bytes = encode(1, &ToCoordinator::Ping).unwrap();
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut reader = FrameReader::default();
        reader.extend(&bytes);
        assert_eq!(reader.next_frame::<ToCoordinator>(), Err(FrameError::Length { length: u32::MAX }));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = encode(1, &ToCoordinator::Ping).unwrap();
        bytes[4] = 9;
        let mut reader = FrameReader::default();
        reader.extend(&bytes);
        assert_eq!(reader.next_frame::<ToCoordinator>(), Err(FrameError::Version { seen: 9 }));
    }

    #[test]
    fn left_over_bytes_are_not_a_message() {
        let mut bytes = encode(1, &ToCoordinator::Ping).unwrap();
        bytes.push(0);
        let length = u32::try_from(bytes.len() - HEADER_BYTES).unwrap();
        bytes[8..12].copy_from_slice(&length.to_le_bytes());
        let mut reader = FrameReader::default();
        reader.extend(&bytes);
        assert!(matches!(reader.next_frame::<ToCoordinator>(), Err(FrameError::Body { .. })));
    }
}
