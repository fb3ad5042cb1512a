//! Handles: numbers that name a slot and its generation, so that a stale or foreign one is an answer, not a crash.

/// What a handle names; a part of its number, so that a stream's is never an event's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    Stream = 0x51,
    Event = 0x52,
    Graph = 0x53,
    Exec = 0x54,
    Pool = 0x55,
}

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 24;
/// Low bits that are always 0: programs keep marks of their own in them, and CUDA's special streams are 0, 1 and 2.
const ALIGN_BITS: u32 = 4;
const TAG_SHIFT: u32 = ALIGN_BITS + INDEX_BITS + GENERATION_BITS;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u64 = (1 << GENERATION_BITS) - 1;

/// A slot and its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident = $tag:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) Key);

        impl $name {
            /// The number that a program holds; a multiple of 16, never small, and no address of user space.
            pub const fn into_raw(self) -> u64 {
                pack(Tag::$tag, self.0)
            }

            /// The handle with this number; `None` where it cannot be one. Whether it still names something, the
            /// call that uses it says.
            pub const fn from_raw(raw: u64) -> Option<Self> {
                match unpack(Tag::$tag, raw) {
                    Some(key) => Some(Self(key)),
                    None => None,
                }
            }
        }
    )* };
}

handles! {
    /// A stream that the program made.
    StreamHandle = Stream,
    /// An event.
    EventHandle = Event,
    /// A graph.
    GraphHandle = Graph,
    /// A graph made ready to launch.
    ExecHandle = Exec,
    /// A memory pool.
    PoolHandle = Pool,
}

const fn pack(tag: Tag, key: Key) -> u64 {
    (tag as u64) << TAG_SHIFT
        | (key.generation as u64 & GENERATION_MASK) << (INDEX_BITS + ALIGN_BITS)
        | (key.index as u64 & INDEX_MASK) << ALIGN_BITS
}

/// Both numbers are masked to 24 bits, so nothing is cut off.
const fn unpack(tag: Tag, raw: u64) -> Option<Key> {
    if raw >> TAG_SHIFT != tag as u64 || raw & ((1 << ALIGN_BITS) - 1) != 0 {
        return None;
    }
    let index = (raw >> ALIGN_BITS & INDEX_MASK) as u32;
    let generation = (raw >> (ALIGN_BITS + INDEX_BITS) & GENERATION_MASK) as u32;
    Some(Key { index, generation })
}

/// A stream as a call names it. The two default streams belong to the device that the call is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamRef {
    /// `cudaStreamLegacy`, and 0 in programs without per-thread default streams.
    Legacy,
    /// `cudaStreamPerThread`: the calling thread's own.
    PerThread,
    /// One that was made.
    Made(StreamHandle),
}

impl StreamRef {
    /// The stream of this number: `null_means` for 0, CUDA's special ones for 1 and 2; `None` where it is none.
    pub const fn from_raw(raw: u64, null_means: Self) -> Option<Self> {
        match raw {
            0 => Some(null_means),
            1 => Some(Self::Legacy),
            2 => Some(Self::PerThread),
            _ => match StreamHandle::from_raw(raw) {
                Some(handle) => Some(Self::Made(handle)),
                None => None,
            },
        }
    }
}

impl From<StreamHandle> for StreamRef {
    fn from(handle: StreamHandle) -> Self {
        Self::Made(handle)
    }
}

/// Values by [`Key`]. A slot's generation moves on when it is emptied, so an old key finds nothing.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// `None` when every slot there can be is taken.
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
        if let Some(index) = self.free.pop() {
            let slot = self.slots.get_mut(index as usize)?;
            slot.1 = Some(value);
            return Some(Key { index, generation: slot.0 });
        }
        let index = u32::try_from(self.slots.len()).ok().filter(|&index| u64::from(index) <= INDEX_MASK)?;
        self.slots.push((1, Some(value)));
        Some(Key { index, generation: 1 })
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize).filter(|slot| slot.0 == key.generation)?;
        slot.1.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.0 == key.generation)?;
        slot.1.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.0 == key.generation)?;
        let value = slot.1.take()?;
        // A slot whose generations are used up stays empty for good.
        if u64::from(slot.0) < GENERATION_MASK {
            slot.0 += 1;
            self.free.push(key.index);
        }
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        (0..).zip(&self.slots).filter_map(|(index, (generation, value))| {
            value.as_ref().map(|value| (Key { index, generation: *generation }, value))
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        (0..).zip(&mut self.slots).filter_map(|(index, (generation, value))| {
            let generation = *generation;
            value.as_mut().map(|value| (Key { index, generation }, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_handle_is_a_special_stream_or_of_another_kind() {
        let first = StreamHandle(Key { index: 0, generation: 1 });
        assert!(first.into_raw() > 2 && first.into_raw().is_multiple_of(16));
        assert_eq!(StreamHandle::from_raw(first.into_raw()), Some(first));
        assert_eq!(EventHandle::from_raw(first.into_raw()), None);
        assert_eq!(StreamRef::from_raw(0, StreamRef::PerThread), Some(StreamRef::PerThread));
        assert_eq!(StreamRef::from_raw(1, StreamRef::PerThread), Some(StreamRef::Legacy));
        assert_eq!(StreamRef::from_raw(0x1234_5670, StreamRef::Legacy), None);
    }

    #[test]
    fn an_old_key_finds_nothing() {
        let mut slots = Slots::new();
        let old = slots.insert("a").unwrap();
        assert_eq!(slots.remove(old), Some("a"));
        let new = slots.insert("b").unwrap();
        assert_eq!((old.index, slots.get(old), slots.get(new)), (new.index, None, Some(&"b")));
        assert_eq!(slots.remove(old), None);
    }
}
