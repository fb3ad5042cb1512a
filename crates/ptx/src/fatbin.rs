//! Fat binaries: one program's device code for several GPUs, as machine code, PTX, or both.

use std::collections::BTreeSet;

use crate::error::{Error, Result};

/// Bytes at the front of a fat binary that tell how long it is.
pub const HEADER_BYTES: usize = 16;

/// The first word of a fat binary.
const MAGIC: u32 = 0xba55_ed50;
/// The shortest header of an entry.
const ENTRY_BYTES: usize = 64;
const KIND_PTX: u16 = 1;
const KIND_ELF: u16 = 2;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
/// More text than any compiler puts into one entry: what claims more is not unpacked.
const TEXT_BYTES_MAX: usize = 512 << 20;

/// A fat binary, of which the entries were found and nothing was unpacked.
#[derive(Clone, Debug)]
pub struct FatBinary<'a> {
    entries: Vec<Entry<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    kind: u16,
    arch: u32,
    flags: u64,
    packed_bytes: usize,
    text_bytes: usize,
    payload: &'a [u8],
}

/// Little-endian numbers at fixed places.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }
    fn u16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }
    fn u32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }
    fn u64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }
    fn size(&self, at: usize) -> Option<usize> {
        usize::try_from(self.u64(at)?).ok()
    }
}

impl<'a> FatBinary<'a> {
    /// How many bytes a fat binary has that begins with these.
    ///
    /// # Errors
    /// Where they are not the beginning of one.
    pub fn bytes(header: &[u8; HEADER_BYTES]) -> Result<usize> {
        let fields = Fields(header);
        let magic = fields.u32(0).unwrap_or(0);
        if magic != MAGIC {
            return Err(Error(format!("no fat binary begins with {magic:#010x}; it would be {MAGIC:#010x}")));
        }
        let length = fields.u16(6).map(usize::from).zip(fields.size(8));
        let total = length.and_then(|(header, entries)| header.checked_add(entries));
        total
            .filter(|total| *total <= isize::MAX.unsigned_abs())
            .ok_or_else(|| Error("the fat binary claims more bytes than there are addresses".to_owned()))
    }

    /// Finds the entries of a fat binary.
    ///
    /// # Errors
    /// Where an entry runs over the end, or is none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let header = Fields(bytes).array(0);
        let header = header.ok_or_else(|| Error("the fat binary ends in its header".to_owned()))?;
        let total = Self::bytes(&header)?;
        let inside = Fields(bytes).u16(6).map_or(0, usize::from);
        let Some(mut rest) = bytes.get(inside..total) else {
            return Err(Error(format!("the fat binary claims {total} bytes and has {}", bytes.len())));
        };
        let mut entries = Vec::new();
        while rest.len() >= ENTRY_BYTES {
            let (entry, next) = Entry::parse(rest).ok_or_else(|| {
                Error(format!("entry {} of the fat binary runs over its end", entries.len()))
            })?;
            entries.push(entry);
            rest = next;
        }
        Ok(Self { entries })
    }

    /// The PTX for the newest architecture.
    ///
    /// # Errors
    /// Where there is none, naming what there is; where it cannot be unpacked.
    pub fn ptx(&self) -> Result<String> {
        let texts = self.entries.iter().filter(|entry| entry.kind == KIND_PTX);
        match texts.max_by_key(|entry| entry.arch) {
            Some(entry) => entry.text(),
            None => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Error {
        let machine = self.entries.iter().filter(|entry| entry.kind == KIND_ELF);
        let archs: BTreeSet<u32> = machine.map(|entry| entry.arch).collect();
        let archs: Vec<String> = archs.into_iter().map(|arch| format!("sm_{arch}")).collect();
        let only = match archs.as_slice() {
            [] => "nothing".to_owned(),
            archs => format!("only SASS for {}", archs.join(", ")),
        };
        Error(format!(
            "the fat binary holds no PTX ({only}); build with -gencode arch=compute_80,code=compute_80"
        ))
    }
}

impl<'a> Entry<'a> {
    /// The first entry and what follows it.
    fn parse(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let fields = Fields(bytes);
        let header = usize::try_from(fields.u32(4)?).ok()?;
        let padded = fields.size(8)?;
        if header < ENTRY_BYTES {
            return None;
        }
        let end = header.checked_add(padded)?;
        let entry = Self {
            kind: fields.u16(0)?,
            arch: fields.u32(28)?,
            flags: fields.u64(40)?,
            packed_bytes: usize::try_from(fields.u32(16)?).ok()?,
            text_bytes: fields.size(56)?,
            payload: bytes.get(header..end)?,
        };
        Some((entry, bytes.get(end..)?))
    }

    fn text(&self) -> Result<String> {
        let packed = match self.packed_bytes {
            0 => self.payload,
            bytes => self.payload.get(..bytes).unwrap_or(self.payload),
        };
        if self.flags & (FLAG_LZ4 | FLAG_ZSTD) != 0 && self.text_bytes > TEXT_BYTES_MAX {
            return Err(Error(format!("the fat binary claims {} bytes of PTX", self.text_bytes)));
        }
        let mut bytes = if self.flags & FLAG_ZSTD != 0 {
            unpack_zstd(packed, self.text_bytes)?
        } else if self.flags & FLAG_LZ4 != 0 {
            lz4_flex::block::decompress(packed, self.text_bytes)
                .map_err(|error| Error(format!("the PTX (LZ4) cannot be unpacked: {error}")))?
        } else {
            self.payload.to_vec()
        };
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        String::from_utf8(bytes).map_err(|_| Error("the PTX is no text".to_owned()))
    }
}

fn unpack_zstd(packed: &[u8], expected: usize) -> Result<Vec<u8>> {
    use std::io::Read;
    let failed = |error: &dyn std::fmt::Display| Error(format!("the PTX (zstd) cannot be unpacked: {error}"));
    let decoder = ruzstd::decoding::StreamingDecoder::new(packed).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    // A frame may hold more than it says; more than was claimed is not taken.
    let limit = if expected == 0 { TEXT_BYTES_MAX } else { expected };
    decoder.take(limit as u64).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(kind: u16, arch: u32, flags: u64, payload: &[u8], text_bytes: u64) -> Vec<u8> {
        let mut bytes = vec![0; ENTRY_BYTES];
        let padded = payload.len().next_multiple_of(8);
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
        bytes[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        bytes[16..20].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        bytes[28..32].copy_from_slice(&arch.to_le_bytes());
        bytes[40..48].copy_from_slice(&flags.to_le_bytes());
        bytes[56..64].copy_from_slice(&text_bytes.to_le_bytes());
        bytes.extend_from_slice(payload);
        bytes.resize(ENTRY_BYTES + padded, 0);
        bytes
    }

    fn fat(entries: &[Vec<u8>]) -> Vec<u8> {
        let inside: Vec<u8> = entries.concat();
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&1_u16.to_le_bytes());
        bytes.extend_from_slice(&16_u16.to_le_bytes());
        bytes.extend_from_slice(&(inside.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&inside);
        bytes
    }

    #[test]
    fn the_newest_text_is_taken_plain_or_packed() {
        let old = entry(KIND_PTX, 70, 0, b"old\0", 0);
        let text = "new text, new text, new text, new text";
        let packed = lz4_flex::block::compress(text.as_bytes());
        let lz4 = entry(KIND_PTX, 90, FLAG_LZ4, &packed, text.len() as u64);
        let machine = entry(KIND_ELF, 120, 0, b"\x7fELF", 0);
        let bytes = fat(&[old.clone(), lz4, machine]);
        assert_eq!(FatBinary::parse(&bytes).unwrap().ptx().unwrap(), text);
        assert_eq!(FatBinary::parse(&fat(&[old])).unwrap().ptx().unwrap(), "old");
    }

    #[test]
    fn machine_code_alone_is_refused_with_what_to_do() {
        let bytes = fat(&[entry(KIND_ELF, 90, 0, b"x", 0), entry(KIND_ELF, 80, 0, b"x", 0)]);
        let refused = FatBinary::parse(&bytes).unwrap().ptx().unwrap_err();
        insta::assert_snapshot!(refused, @"the fat binary holds no PTX (only SASS for sm_80, sm_90); build with -gencode arch=compute_80,code=compute_80");
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_an_error_and_never_a_panic(
            body in proptest::collection::vec(any::<u8>(), 0..300),
            flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let packed = lz4_flex::block::compress(&body);
            let mut bytes = fat(&[
                entry(KIND_PTX, 80, FLAG_LZ4, &packed, body.len() as u64),
                entry(KIND_PTX, 81, FLAG_ZSTD, &body, 100),
            ]);
            for (at, value) in flips {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Ok(fat) = FatBinary::parse(&bytes) {
                prop_assert!(fat.ptx().map_or(true, |text| text.len() <= TEXT_BYTES_MAX));
            }
        }
    }
}
