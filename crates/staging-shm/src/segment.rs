//! One communicator's staging memory: a sealed memfd, mapped by every rank.
//!
//! ```text
//! page 0     header; poison word
//! page 1..   per rank: counters | sleepers and doorbell | descriptors of its last runs
//! then       twice (even and odd rounds), per rank: slot | result area
//! then       per ordered pair of ranks: a channel
//! ```
//!
//! All pages before the channels are allocated when the segment is made. A channel's pages are allocated by whichever
//! of its two ranks needs it first, and never touched before: most pairs of a large communicator never speak.
//!
//! **Invariant:** nothing read from the segment is used as an address, an offset or a length. A peer that breaks
//! the protocol can spoil the bytes of its own communicator and nothing else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use fakegpu_executor::result_bytes;
use fakegpu_units::{CommId, DataType, Rank, SeqNo};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::StagingError;
use crate::pages::{allocate, check_file_size_limit, sealable_memfd};

/// The shape of a segment: every rank must use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    size: u32,
    slot_bytes: u32,
}

/// A mapped segment. Dropping it unmaps; the memory lives as long as a mapping or a descriptor does.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<u8>,
    /// The channels' mapping, where there are any.
    channels: Option<NonNull<u8>>,
    geometry: Geometry,
    /// Kept to allocate channels by.
    fd: OwnedFd,
}

// SAFETY: the mapping belongs to the process; all access to it goes through atomics, or through ranges that the
// exchange protocol gives to one rank at a time.
unsafe impl Send for Segment {}
// SAFETY: as above; `&Segment` hands out atomics only, and raw ranges through `unsafe` functions.
unsafe impl Sync for Segment {}

/// What a rank is doing with its slot, for people and tests that look at a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Descriptor {
    /// Counts the runs of this rank, from 1.
    pub staging_id: u64,
    /// The communicator.
    pub comm: u64,
    /// The operation's number in it.
    pub seq: u64,
    /// The rank whose slot it is.
    pub owner: u32,
    /// Index of the element type in [`DataType::ALL`].
    pub data_type: u32,
    /// Dimensions of the tensor.
    pub dims: u64,
    /// Their extents; only the first `dims` count.
    pub shape: [u64; 1],
    /// Bytes of the tensor sent.
    pub bytes: u64,
    /// What the run is: [`Descriptor::COLLECTIVE`], [`Descriptor::SEND`] or [`Descriptor::RECV`].
    pub kind: u32,
    /// The other rank of a send or receive.
    pub peer: u32,
}

/// Words of a descriptor, and the version word before them.
const DESCRIPTOR_WORDS: usize = size_of::<Descriptor>() / 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: u32,
    size: u32,
    slot_bytes: u32,
    reserved: u32,
    bytes: u64,
}

const MAGIC: [u8; 8] = *b"fgpustag";
const VERSION: u32 = 2;

const PAGE_BYTES: usize = 4096;
const LINE_BYTES: u32 = 64;
const POISON_AT: usize = 128;
const RANKS_AT: usize = PAGE_BYTES;
/// A rank's lines: counters, which it alone writes; sleepers and doorbell, which others write; descriptors.
const RANK_BYTES: usize =
    (DESCRIPTORS_IN_RANK + DESCRIPTORS * 8 * (DESCRIPTOR_WORDS + 1)).next_multiple_of(64);
const RECORDED_IN_RANK: usize = 12;
const SLEEPERS_IN_RANK: usize = 64;
const BELL_IN_RANK: usize = 68;
const BELL_SLEEPERS_IN_RANK: usize = 72;
const DESCRIPTORS_IN_RANK: usize = 128;
/// Runs of a rank that its descriptors tell of.
const DESCRIPTORS: usize = 16;
/// All channels together, where ranks are few; one has at least a page and at most what fills a core's cache.
const CHANNELS_BYTES: usize = 16 << 20;
const CHANNEL_BYTES_MAX: usize = 256 << 10;
/// Beyond this size a communicator has no channels: they would span more than the address space is good for.
const CHANNEL_RANKS_MAX: u32 = 1_024;
/// A channel's counters: one line the sender writes, one the receiver.
const CHANNEL_HEAD_BYTES: usize = 128;
/// Pieces under way in a channel.
pub(crate) const CHANNEL_SLOTS: u32 = 2;
/// Rounds in flight: a rank may publish one ahead of the round it collects.
const PARITIES: usize = 2;

/// A counter of a rank; the value is its place in the rank's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    Published = 0,
    Folded = 4,
    Consumed = 8,
}

impl Geometry {
    /// A segment for `size` ranks that publish up to `slot_bytes` a round, a multiple of 64.
    ///
    /// # Errors
    /// Where a number is 0, the slot is no multiple of 64, or the whole exceeds the address space.
    pub fn new(size: u32, slot_bytes: u32) -> Result<Self, StagingError> {
        let refuse = |why| Err(StagingError::Geometry { size, slot_bytes, why });
        if size == 0 {
            return refuse("a communicator has at least one rank");
        }
        if slot_bytes == 0 || !slot_bytes.is_multiple_of(LINE_BYTES) {
            return refuse("a slot is a positive multiple of 64 bytes");
        }
        let geometry = Self { size, slot_bytes };
        match geometry.checked_bytes() {
            Some(_) => Ok(geometry),
            None => refuse("that exceeds the address space; make slots smaller"),
        }
    }

    /// The largest slots up to `slot_bytes` with which the segment stays within `max_bytes`.
    ///
    /// # Errors
    /// Where not even slots of 64 bytes do.
    pub fn within(size: u32, slot_bytes: u32, max_bytes: usize) -> Result<Self, StagingError> {
        let fixed = Self::new(size, LINE_BYTES)?.data_at() as u64;
        // Slot and result area of a rank, twice; a result area takes at most a line more than 1/size of a slot.
        let per_rank = (max_bytes as u64).saturating_sub(fixed) / (PARITIES as u64 * u64::from(size));
        let share =
            per_rank.saturating_sub(2 * u64::from(LINE_BYTES)) * u64::from(size) / (u64::from(size) + 1);
        let wanted = u64::from(slot_bytes).min(share);
        let lines = u32::try_from(wanted).unwrap_or(u32::MAX) / LINE_BYTES;
        if lines == 0 {
            let why = "staging memory is bounded too tightly; allow more bytes";
            return Err(StagingError::Geometry { size, slot_bytes, why });
        }
        Self::new(size, lines * LINE_BYTES)
    }

    /// Ranks that share the segment.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Bytes a rank publishes in one round at most.
    pub const fn slot_bytes(&self) -> usize {
        self.slot_bytes as usize
    }

    /// Bytes of the whole segment.
    pub const fn bytes(&self) -> usize {
        self.channels_at() + self.channels_bytes()
    }

    /// Bytes that are allocated when the segment is made: all but the channels.
    pub const fn channels_at(&self) -> usize {
        (self.data_at() + PARITIES * self.size as usize * self.stride()).next_multiple_of(PAGE_BYTES)
    }

    const fn channels_bytes(&self) -> usize {
        if self.size > CHANNEL_RANKS_MAX {
            0
        } else {
            self.size as usize * self.size as usize * self.channel_bytes()
        }
    }

    /// Bytes of one channel, a power of two.
    const fn channel_bytes(&self) -> usize {
        let pairs = self.size as usize * self.size as usize;
        let mut bytes = CHANNEL_BYTES_MAX;
        while bytes > PAGE_BYTES && bytes * pairs > CHANNELS_BYTES {
            bytes /= 2;
        }
        bytes
    }

    /// Bytes of one piece of a channel.
    pub const fn piece_bytes(&self) -> usize {
        let share = (self.channel_bytes() - CHANNEL_HEAD_BYTES) / CHANNEL_SLOTS as usize;
        share - share % 64
    }

    const fn result_bytes(&self) -> usize {
        result_bytes(self.slot_bytes(), self.size)
    }

    const fn stride(&self) -> usize {
        self.slot_bytes() + self.result_bytes()
    }

    const fn data_at(&self) -> usize {
        (RANKS_AT + RANK_BYTES * self.size as usize).next_multiple_of(PAGE_BYTES)
    }

    fn checked_bytes(&self) -> Option<usize> {
        let data = self.stride().checked_mul(PARITIES)?.checked_mul(self.size as usize)?;
        let channels = self.channels_bytes().checked_add(PAGE_BYTES)?;
        isize::try_from(data.checked_add(self.data_at())?.checked_add(channels)?).ok()?.try_into().ok()
    }

    fn area_at(&self, round: u32, rank: Rank) -> usize {
        let parity = (round & 1) as usize;
        self.data_at() + (parity * self.size as usize + rank.index()) * self.stride()
    }

    fn header(&self) -> Header {
        let Self { size, slot_bytes } = *self;
        Header { magic: MAGIC, version: VERSION, size, slot_bytes, reserved: 0, bytes: self.bytes() as u64 }
    }
}

impl Segment {
    /// Makes a segment with all its pages, and the descriptor to hand to the other ranks.
    ///
    /// # Errors
    /// Where a limit of the process or the machine's memory does not allow it, naming the call.
    pub fn create(geometry: Geometry) -> Result<(Self, OwnedFd), StagingError> {
        let bytes = geometry.bytes() as u64;
        check_file_size_limit(bytes)?;
        let failed = |call| move |errno: Errno| StagingError::Memory { call, bytes, source: errno.into() };
        let fd = sealable_memfd("fakegpu-staging").map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&fd, bytes).map_err(failed("ftruncate"))?;
        allocate(fd.as_fd(), 0, geometry.channels_at() as u64).map_err(failed("fallocate"))?;
        rustix::fs::fcntl_add_seals(&fd, seals()).map_err(failed("fcntl(F_ADD_SEALS)"))?;
        let kept = fd.try_clone().map_err(|source| StagingError::Memory { call: "dup", bytes, source })?;
        let segment = Self::map(kept, geometry)?;
        segment.write_header();
        Ok((segment, fd))
    }

    /// Maps a segment that a peer made.
    ///
    /// # Errors
    /// Where the file is no segment of this geometry, could still shrink, or cannot be mapped.
    pub fn open(fd: OwnedFd, geometry: Geometry) -> Result<Self, StagingError> {
        let bytes = geometry.bytes() as u64;
        let failed = |call| move |errno: Errno| StagingError::Memory { call, bytes, source: errno.into() };
        let seen = rustix::fs::fstat(&fd).map_err(failed("fstat"))?.st_size;
        due("its size in bytes", u64::try_from(seen).unwrap_or(0), bytes)?;
        let present = rustix::fs::fcntl_get_seals(&fd).map_err(failed("fcntl(F_GET_SEALS)"))?;
        due("its set of seals", u64::from((present & seals()).bits()), u64::from(seals().bits()))?;
        let segment = Self::map(fd, geometry)?;
        segment.check_header()?;
        Ok(segment)
    }

    /// What it was made for.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// What `rank` says it is doing; `None` before its first run, while it is just saying so, or for a rank that is
    /// not there.
    pub fn descriptor(&self, rank: Rank) -> Option<Descriptor> {
        self.recent(rank).pop()
    }

    /// The last runs of `rank`, oldest first, whether it lives or not. What it is just writing is left out.
    pub fn recent(&self, rank: Rank) -> Vec<Descriptor> {
        if rank.0 >= self.geometry.size {
            return Vec::new();
        }
        let mut recent: Vec<Descriptor> =
            (0..DESCRIPTORS).filter_map(|at| self.read_descriptor(rank, at)).collect();
        recent.sort_by_key(|descriptor| descriptor.staging_id);
        recent
    }

    fn read_descriptor(&self, rank: Rank, at: usize) -> Option<Descriptor> {
        let version = self.descriptor_word(rank, at, 0);
        let before = version.load(Ordering::Acquire);
        let words: [u64; DESCRIPTOR_WORDS] =
            std::array::from_fn(|word| self.descriptor_word(rank, at, word + 1).load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let torn = before == 0 || before % 2 == 1 || version.load(Ordering::Relaxed) != before;
        if torn { None } else { Some(zerocopy::transmute!(words)) }
    }

    /// Announces a run of `rank`, in its own descriptors, and numbers it.
    pub(crate) fn describe(&self, descriptor: Descriptor) {
        let rank = Rank(descriptor.owner);
        let number = self.word(self.rank_at(rank) + RECORDED_IN_RANK).fetch_add(1, Ordering::Relaxed);
        let staging_id = u64::from(number) + 1;
        let words: [u64; DESCRIPTOR_WORDS] = zerocopy::transmute!(Descriptor { staging_id, ..descriptor });
        let at = number as usize % DESCRIPTORS;
        let version = self.descriptor_word(rank, at, 0);
        let before = version.load(Ordering::Relaxed);
        version.store(before.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in words.into_iter().enumerate() {
            self.descriptor_word(rank, at, word + 1).store(value, Ordering::Relaxed);
        }
        version.store(before.wrapping_add(2), Ordering::Release);
    }

    pub(crate) fn counter(&self, rank: Rank, counter: Counter) -> &AtomicU32 {
        self.word(self.rank_at(rank) + counter as usize)
    }

    /// How many ranks sleep on one of `rank`'s counters.
    pub(crate) fn sleepers(&self, rank: Rank) -> &AtomicU32 {
        self.word(self.rank_at(rank) + SLEEPERS_IN_RANK)
    }

    /// Not 0 once some rank has given up.
    pub(crate) fn poison(&self) -> &AtomicU32 {
        self.word(POISON_AT)
    }

    /// What `rank` published in `round`.
    ///
    /// # Safety
    /// The caller must know, by `rank`'s counters, that it has published `round` and will not write the slot
    /// again while the slice lives.
    pub(crate) unsafe fn slot(&self, round: u32, rank: Rank, at: usize, bytes: usize) -> &[u8] {
        let start = self.range(round, rank, at, bytes, self.geometry.slot_bytes());
        // SAFETY: inside the mapping by `range`; unchanging by the caller's promise.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// The same, to be written by `rank` itself.
    ///
    /// # Safety
    /// The caller must be `rank`, and know by all counters that nobody reads the slot any more.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the caller's promise, not by the borrow of a mapping"
    )]
    pub(crate) unsafe fn slot_mut(&self, round: u32, rank: Rank, at: usize, bytes: usize) -> &mut [u8] {
        let start = self.range(round, rank, at, bytes, self.geometry.slot_bytes());
        // SAFETY: inside the mapping by `range`; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    /// What `rank` folded in `round`.
    ///
    /// # Safety
    /// As [`Segment::slot`], by the counter of folds.
    pub(crate) unsafe fn result(&self, round: u32, rank: Rank, at: usize, bytes: usize) -> &[u8] {
        let start = self.result_range(round, rank, at, bytes);
        // SAFETY: inside the mapping by `range`; unchanging by the caller's promise.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// The same, to be written by `rank` itself.
    ///
    /// # Safety
    /// As [`Segment::slot_mut`].
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the caller's promise, not by the borrow of a mapping"
    )]
    pub(crate) unsafe fn result_mut(&self, round: u32, rank: Rank, at: usize, bytes: usize) -> &mut [u8] {
        let start = self.result_range(round, rank, at, bytes);
        // SAFETY: inside the mapping by `range`; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    fn result_range(&self, round: u32, rank: Rank, at: usize, bytes: usize) -> *mut u8 {
        let results = at.checked_add(bytes).filter(|&end| end <= self.geometry.result_bytes());
        assert!(results.is_some(), "a plan admitted by begin() stays inside its result area");
        let slot = self.geometry.slot_bytes();
        self.range(round, rank, slot + at, bytes, self.geometry.stride())
    }

    fn range(&self, round: u32, rank: Rank, at: usize, bytes: usize, limit: usize) -> *mut u8 {
        let inside = at.checked_add(bytes).is_some_and(|end| end <= limit);
        assert!(inside && rank.0 < self.geometry.size, "a plan admitted by begin() stays inside its slots");
        // SAFETY: the area of a rank that exists lies inside the mapping by the geometry, and `at + bytes`
        // inside the area by the assertion.
        unsafe { self.base.as_ptr().add(self.geometry.area_at(round, rank) + at) }
    }

    fn rank_at(&self, rank: Rank) -> usize {
        assert!(rank.0 < self.geometry.size, "ranks are checked where they enter");
        RANKS_AT + rank.index() * RANK_BYTES
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at + size_of::<AtomicU32>() <= self.geometry.data_at(), "control words lie before the data");
        // SAFETY: inside the mapping by the assertion.
        let word = unsafe { self.base.as_ptr().add(at) };
        // SAFETY: mapped for the life of `self`, aligned since every offset is a multiple of 4 and the base of
        // a page, and accessed as an atomic by everyone.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    fn descriptor_word(&self, rank: Rank, at: usize, word: usize) -> &AtomicU64 {
        let inside = at < DESCRIPTORS && word <= DESCRIPTOR_WORDS;
        assert!(inside, "a descriptor has a version and its own words");
        let at = self.rank_at(rank) + DESCRIPTORS_IN_RANK + 8 * (at * (DESCRIPTOR_WORDS + 1) + word);
        // SAFETY: inside the rank's control lines, which lie inside the mapping.
        let word = unsafe { self.base.as_ptr().add(at) };
        // SAFETY: mapped for the life of `self`, aligned to 8, and accessed as an atomic by everyone.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }

    /// Rung by peers when they have moved something for `rank`.
    pub(crate) fn bell(&self, rank: Rank) -> &AtomicU32 {
        self.word(self.rank_at(rank) + BELL_IN_RANK)
    }

    /// How many threads of `rank` sleep on its bell.
    pub(crate) fn bell_sleepers(&self, rank: Rank) -> &AtomicU32 {
        self.word(self.rank_at(rank) + BELL_SLEEPERS_IN_RANK)
    }

    /// Whether pairs of ranks have channels: communicators may be too large for them.
    pub const fn has_channels(&self) -> bool {
        self.channels.is_some()
    }

    /// The channel by which `src` sends to `dst`, its memory made sure of.
    ///
    /// # Errors
    /// Where the machine has no memory for it, or the communicator is too large for channels.
    pub(crate) fn channel(&self, src: Rank, dst: Rank) -> Result<Channel, StagingError> {
        let size = self.geometry.size;
        let Some(_) = self.channels else {
            let why = "communicators of more than 1024 ranks have no channels for sends and receives";
            return Err(StagingError::Geometry { size, slot_bytes: self.geometry.slot_bytes, why });
        };
        if let Some(&rank) = [src, dst].iter().find(|rank| rank.0 >= size) {
            return Err(StagingError::NoSuchRank { rank, size });
        }
        let bytes = self.geometry.channel_bytes();
        let at = (src.index() * size as usize + dst.index()) * bytes;
        let from = (self.geometry.channels_at() + at) as u64;
        // Done by both ends, whoever comes first: allocating what is there already changes nothing.
        allocate(self.fd.as_fd(), from, from + bytes as u64).map_err(|errno| StagingError::Memory {
            call: "fallocate",
            bytes: bytes as u64,
            source: errno.into(),
        })?;
        Ok(Channel { at })
    }

    /// How many pieces the sender of a channel has put in.
    pub(crate) fn written(&self, channel: Channel) -> &AtomicU32 {
        self.channel_word(channel, 0)
    }

    /// How many pieces the receiver of a channel has taken out.
    pub(crate) fn taken(&self, channel: Channel) -> &AtomicU32 {
        self.channel_word(channel, 64)
    }

    fn channel_word(&self, channel: Channel, at: usize) -> &AtomicU32 {
        let start = self.channel_range(channel, at, size_of::<AtomicU32>());
        // SAFETY: mapped for the life of `self` and allocated by `channel`, aligned since channels start on pages,
        // and accessed as an atomic by everyone.
        unsafe { AtomicU32::from_ptr(start.cast()) }
    }

    /// Piece `number` of a channel, to be read.
    ///
    /// # Safety
    /// The caller must be the channel's receiver, and know that the piece is written and not yet taken.
    pub(crate) unsafe fn piece(&self, channel: Channel, number: u32, bytes: usize) -> &[u8] {
        let start = self.piece_range(channel, number, bytes);
        // SAFETY: inside the mapping by `channel_range`; unchanging by the caller's promise.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// The same, to be written.
    ///
    /// # Safety
    /// The caller must be the channel's sender, and know that what the piece held before is taken.
    #[expect(
        clippy::mut_from_ref,
        reason = "exclusive by the caller's promise, not by the borrow of a mapping"
    )]
    pub(crate) unsafe fn piece_mut(&self, channel: Channel, number: u32, bytes: usize) -> &mut [u8] {
        let start = self.piece_range(channel, number, bytes);
        // SAFETY: inside the mapping by `channel_range`; exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    fn piece_range(&self, channel: Channel, number: u32, bytes: usize) -> *mut u8 {
        assert!(bytes <= self.geometry.piece_bytes(), "pieces are cut to this size");
        let place = (number % CHANNEL_SLOTS) as usize;
        self.channel_range(channel, CHANNEL_HEAD_BYTES + place * self.geometry.piece_bytes(), bytes)
    }

    fn channel_range(&self, channel: Channel, at: usize, bytes: usize) -> *mut u8 {
        let inside = at + bytes <= self.geometry.channel_bytes()
            && channel.at + self.geometry.channel_bytes() <= self.geometry.channels_bytes();
        let base = self.channels.filter(|_| inside);
        let base = base.unwrap_or_else(|| unreachable!("a channel was made by `channel` for this segment"));
        // SAFETY: inside the channels' mapping by the check above.
        unsafe { base.as_ptr().add(channel.at + at) }
    }

    fn map(fd: OwnedFd, geometry: Geometry) -> Result<Self, StagingError> {
        let whole = geometry.channels_at();
        // Populated at once: a fault on a page that exists already costs more than its share of this call.
        let base = map_range(fd.as_fd(), 0, whole, MapFlags::SHARED | MapFlags::POPULATE)?;
        let mut segment = Self { base, channels: None, geometry, fd };
        if geometry.channels_bytes() > 0 {
            let (at, bytes) = (whole as u64, geometry.channels_bytes());
            segment.channels = Some(map_range(segment.fd.as_fd(), at, bytes, MapFlags::SHARED)?);
        }
        Ok(segment)
    }

    fn write_header(&self) {
        let header = self.geometry.header();
        // SAFETY: the header lies at the start of the mapping, which nobody else has yet.
        unsafe { self.base.as_ptr().cast::<Header>().write_unaligned(header) }
    }

    fn check_header(&self) -> Result<(), StagingError> {
        let mut seen = Header::new_zeroed();
        let start = self.base.as_ptr();
        // SAFETY: the header lies inside the mapping and is written before the descriptor is handed out; a peer
        // that writes it all the same changes what is compared, nothing more.
        unsafe { std::ptr::copy_nonoverlapping(start, seen.as_mut_bytes().as_mut_ptr(), size_of::<Header>()) }
        let expected = self.geometry.header();
        due("its mark", u64::from_ne_bytes(seen.magic), u64::from_ne_bytes(expected.magic))?;
        due("its version", u64::from(seen.version), u64::from(expected.version))?;
        due("its number of ranks", u64::from(seen.size), u64::from(expected.size))?;
        due("its slot in bytes", u64::from(seen.slot_bytes), u64::from(expected.slot_bytes))?;
        due("its recorded size in bytes", seen.bytes, expected.bytes)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let unmap = |base: NonNull<u8>, bytes: usize| {
            // SAFETY: base and length are those of a mapping of ours, and no slice of it outlives `self`.
            let unmapped = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes) };
            debug_assert!(unmapped.is_ok(), "a mapping of ours can be unmapped");
        };
        unmap(self.base, self.geometry.channels_at());
        if let Some(channels) = self.channels {
            unmap(channels, self.geometry.channels_bytes());
        }
    }
}

/// Where one rank sends to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel {
    at: usize,
}

fn map_range(
    fd: BorrowedFd<'_>,
    at: u64,
    bytes: usize,
    flags: MapFlags,
) -> Result<NonNull<u8>, StagingError> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no memory of ours.
    let mapped = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, access, flags, fd, at) };
    let failed = |source| StagingError::Memory { call: "mmap", bytes: bytes as u64, source };
    let base = mapped.map_err(|errno| failed(errno.into()))?;
    NonNull::new(base.cast()).ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))
}

impl Descriptor {
    /// The kind of a collective.
    pub const COLLECTIVE: u32 = 0;
    /// The kind of a send.
    pub const SEND: u32 = 1;
    /// The kind of a receive.
    pub const RECV: u32 = 2;

    /// What `rank` sends in a run of a collective.
    pub(crate) fn new(rank: Rank, run: &crate::Run) -> Self {
        let bytes = run.plan.send_bytes(rank) as u64;
        let data_type = DataType::ALL.iter().position(|&each| each == run.data_type);
        Self {
            staging_id: 0,
            comm: run.comm.0,
            seq: run.seq.0,
            owner: rank.0,
            data_type: data_type.and_then(|index| index.try_into().ok()).unwrap_or(u32::MAX),
            dims: 1,
            shape: [bytes / run.data_type.size() as u64],
            bytes,
            kind: Self::COLLECTIVE,
            peer: 0,
        }
    }

    /// A send or a receive of `owner`.
    pub(crate) fn of_transfer(kind: u32, owner: Rank, peer: Rank, bytes: usize) -> Self {
        let bytes = bytes as u64;
        let data_type = u32::MAX;
        let (comm, seq, staging_id) = (0, 0, 0);
        Self {
            staging_id,
            comm,
            seq,
            owner: owner.0,
            data_type,
            dims: 1,
            shape: [bytes],
            bytes,
            kind,
            peer: peer.0,
        }
    }

    /// The communicator.
    pub const fn comm(&self) -> CommId {
        CommId(self.comm)
    }

    /// The operation's number.
    pub const fn seq(&self) -> SeqNo {
        SeqNo(self.seq)
    }

    /// The element type, if it is one.
    pub fn data_type(&self) -> Option<DataType> {
        DataType::ALL.get(self.data_type as usize).copied()
    }
}

fn seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

fn due(what: &'static str, seen: u64, expected: u64) -> Result<(), StagingError> {
    if seen == expected { Ok(()) } else { Err(StagingError::Foreign { what, seen, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_being_written_is_left_out_and_the_older_ones_stay() {
        let (segment, _fd) = Segment::create(Geometry::new(2, 64).unwrap()).unwrap();
        for bytes in 0..20 {
            segment.describe(Descriptor::of_transfer(Descriptor::SEND, Rank(1), Rank(0), bytes));
        }
        let told = |segment: &Segment| -> Vec<u64> {
            segment.recent(Rank(1)).iter().map(|descriptor| descriptor.bytes).collect()
        };
        assert_eq!(told(&segment), (4..20).collect::<Vec<_>>());
        // As the owner leaves it that dies while it overwrites the oldest.
        segment.descriptor_word(Rank(1), 20 % DESCRIPTORS, 0).fetch_add(1, Ordering::SeqCst);
        assert_eq!(told(&segment), (5..20).collect::<Vec<_>>());
        assert_eq!(segment.descriptor(Rank(1)).unwrap().bytes, 19);
        assert!(segment.recent(Rank(2)).is_empty(), "nobody there");
    }
}
