//! Memory pools: what stream-ordered allocation takes from and gives back to.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::{Kind, Memory, locked};
use crate::devices::Ordinal;
use crate::error::{Error, ErrorKind, Result, invalid};
use crate::handle::{PoolHandle, Slots};

/// What can be asked of a pool, or set; in the order of `cudaMemPoolAttr`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolAttribute {
    /// Whether memory may be reused across streams that an event joins; a mark that is kept.
    ReuseFollowEventDependencies,
    /// Whether memory may be reused as soon as its stream is seen to be done; a mark that is kept.
    ReuseAllowOpportunistic,
    /// Whether a stream may be made to wait for another for its memory; a mark that is kept.
    ReuseAllowInternalDependencies,
    /// Bytes that the pool keeps of what is given back.
    ReleaseThreshold,
    /// Bytes taken from the device.
    ReservedCurrent,
    /// The most there ever were; setting it to 0 starts anew.
    ReservedHigh,
    /// Bytes in use.
    UsedCurrent,
    /// The most there ever were; setting it to 0 starts anew.
    UsedHigh,
}

impl PoolAttribute {
    /// By its number in `cudaMemPoolAttr`.
    pub const fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            1 => Self::ReuseFollowEventDependencies,
            2 => Self::ReuseAllowOpportunistic,
            3 => Self::ReuseAllowInternalDependencies,
            4 => Self::ReleaseThreshold,
            5 => Self::ReservedCurrent,
            6 => Self::ReservedHigh,
            7 => Self::UsedCurrent,
            8 => Self::UsedHigh,
            _ => return None,
        })
    }
}

/// All pools of a process.
#[derive(Debug)]
pub(crate) struct Pools(Mutex<State>);

#[derive(Debug)]
struct State {
    pools: Slots<Pool>,
    /// The pool that each device was born with, and the one that it uses now.
    of_device: Vec<(PoolHandle, PoolHandle)>,
}

#[derive(Debug)]
struct Pool {
    device: Ordinal,
    /// 0 where there is no bound.
    max_bytes: u64,
    /// Whether it goes when its last memory comes back.
    is_retired: bool,
    /// Kept pieces: addresses by size.
    kept: BTreeMap<u64, Vec<usize>>,
    marks: [u64; 3],
    threshold: u64,
    reserved: Gauge,
    used: Gauge,
}

/// A number and the highest it was.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    now: u64,
    high: u64,
}

impl Gauge {
    fn add(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }
}

impl Pool {
    const fn new(device: Ordinal, max_bytes: u64) -> Self {
        Self {
            device,
            max_bytes,
            is_retired: false,
            kept: BTreeMap::new(),
            marks: [1; 3],
            threshold: 0,
            reserved: Gauge { now: 0, high: 0 },
            used: Gauge { now: 0, high: 0 },
        }
    }

    fn take_kept(&mut self, bytes: u64) -> Option<usize> {
        let addresses = self.kept.get_mut(&bytes)?;
        let address = addresses.pop();
        if addresses.is_empty() {
            self.kept.remove(&bytes);
        }
        address
    }

    /// Pieces (address and bytes) to give back to the device until at most `keep` bytes are reserved.
    fn shed(&mut self, keep: u64) -> Shed {
        let mut shed = Vec::new();
        while self.reserved.now > keep {
            let Some((&bytes, _)) = self.kept.last_key_value() else { break };
            shed.extend(self.take_kept(bytes).map(|address| (address, bytes)));
            self.reserved.now -= bytes;
        }
        shed
    }
}

type Shed = Vec<(usize, u64)>;

fn stale() -> Error {
    Error::new(ErrorKind::InvalidValue, "this is no memory pool, or one that was destroyed")
}

impl Pools {
    pub(crate) fn new(devices: u32) -> Self {
        let mut pools = Slots::new();
        let of_device = (0..devices)
            .filter_map(|device| pools.insert(Pool::new(Ordinal(device), 0)))
            .map(|key| (PoolHandle(key), PoolHandle(key)))
            .collect();
        Self(Mutex::new(State { pools, of_device }))
    }

    pub(crate) fn born(&self, device: Ordinal) -> Result<PoolHandle> {
        locked(&self.0).of_device.get(device.index()).map(|pools| pools.0).ok_or_else(stale)
    }

    pub(crate) fn current(&self, device: Ordinal) -> Result<PoolHandle> {
        locked(&self.0).of_device.get(device.index()).map(|pools| pools.1).ok_or_else(stale)
    }

    pub(crate) fn set_current(&self, device: Ordinal, pool: PoolHandle) -> Result<()> {
        let mut state = locked(&self.0);
        let home = state.pools.get(pool.0).filter(|pool| !pool.is_retired).ok_or_else(stale)?.device;
        if home != device {
            return invalid(format!("the pool is device {home}'s and cannot serve device {device}"));
        }
        state.of_device.get_mut(device.index()).ok_or_else(stale)?.1 = pool;
        Ok(())
    }

    pub(crate) fn create(&self, device: Ordinal, max_bytes: u64) -> Result<PoolHandle> {
        let key = locked(&self.0).pools.insert(Pool::new(device, max_bytes));
        key.map(PoolHandle).ok_or_else(|| Error::new(ErrorKind::MemoryAllocation, "there are too many pools"))
    }

    pub(crate) fn device(&self, pool: PoolHandle) -> Result<Ordinal> {
        locked(&self.0).pools.get(pool.0).map(|pool| pool.device).ok_or_else(stale)
    }

    pub(crate) fn attribute(&self, pool: PoolHandle, attribute: PoolAttribute) -> Result<u64> {
        let state = locked(&self.0);
        let pool = state.pools.get(pool.0).ok_or_else(stale)?;
        Ok(match attribute {
            PoolAttribute::ReuseFollowEventDependencies => pool.marks[0],
            PoolAttribute::ReuseAllowOpportunistic => pool.marks[1],
            PoolAttribute::ReuseAllowInternalDependencies => pool.marks[2],
            PoolAttribute::ReleaseThreshold => pool.threshold,
            PoolAttribute::ReservedCurrent => pool.reserved.now,
            PoolAttribute::ReservedHigh => pool.reserved.high,
            PoolAttribute::UsedCurrent => pool.used.now,
            PoolAttribute::UsedHigh => pool.used.high,
        })
    }

    fn set_attribute(&self, pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()> {
        let mut state = locked(&self.0);
        let pool = state.pools.get_mut(pool.0).ok_or_else(stale)?;
        match (attribute, value) {
            (PoolAttribute::ReuseFollowEventDependencies, _) => pool.marks[0] = value,
            (PoolAttribute::ReuseAllowOpportunistic, _) => pool.marks[1] = value,
            (PoolAttribute::ReuseAllowInternalDependencies, _) => pool.marks[2] = value,
            (PoolAttribute::ReleaseThreshold, _) => pool.threshold = value,
            (PoolAttribute::ReservedHigh, 0) => pool.reserved.high = pool.reserved.now,
            (PoolAttribute::UsedHigh, 0) => pool.used.high = pool.used.now,
            (PoolAttribute::ReservedHigh | PoolAttribute::UsedHigh, _) => {
                return invalid("a pool's high-water mark can be set to 0 only");
            }
            (PoolAttribute::ReservedCurrent | PoolAttribute::UsedCurrent, _) => {
                return invalid("what a pool holds can be read, not set");
            }
        }
        Ok(())
    }

    /// A kept piece of exactly this size.
    fn reuse(&self, pool: PoolHandle, bytes: u64) -> Result<Option<usize>> {
        let mut state = locked(&self.0);
        let pool = state.pools.get_mut(pool.0).filter(|pool| !pool.is_retired).ok_or_else(stale)?;
        let found = pool.take_kept(bytes);
        if found.is_some() {
            pool.used.add(bytes);
        } else if pool.max_bytes != 0 && pool.reserved.now.saturating_add(bytes) > pool.max_bytes {
            return Err(Error::new(
                ErrorKind::MemoryAllocation,
                format!("the pool may hold {} bytes and holds {}", pool.max_bytes, pool.reserved.now),
            ));
        }
        Ok(found)
    }

    fn note_taken(&self, pool: PoolHandle, bytes: u64) {
        if let Some(pool) = locked(&self.0).pools.get_mut(pool.0) {
            pool.reserved.add(bytes);
            pool.used.add(bytes);
        }
    }

    /// Whether the pool keeps the piece; else it is the device's again.
    fn keep(&self, handle: PoolHandle, address: usize, bytes: u64) -> bool {
        let mut state = locked(&self.0);
        let Some(pool) = state.pools.get_mut(handle.0) else { return false };
        pool.used.now -= bytes;
        let keeps = !pool.is_retired && pool.reserved.now <= pool.threshold;
        if keeps {
            pool.kept.entry(bytes).or_default().push(address);
        } else {
            pool.reserved.now -= bytes;
        }
        if pool.is_retired && pool.used.now == 0 {
            state.pools.remove(handle.0);
        }
        keeps
    }

    fn shed(&self, pool: PoolHandle, keep: u64) -> Result<Shed> {
        locked(&self.0).pools.get_mut(pool.0).map(|pool| pool.shed(keep)).ok_or_else(stale)
    }

    fn shed_device(&self, device: Ordinal) -> Shed {
        let mut state = locked(&self.0);
        let mine = state.pools.iter_mut().filter(|(_, pool)| pool.device == device);
        mine.flat_map(|(_, pool)| pool.shed(0)).collect()
    }

    fn retire(&self, handle: PoolHandle) -> Result<Shed> {
        let mut state = locked(&self.0);
        if state.of_device.iter().any(|pools| pools.0 == handle) {
            return invalid("a device's default pool cannot be destroyed");
        }
        let pool = state.pools.get_mut(handle.0).filter(|pool| !pool.is_retired).ok_or_else(stale)?;
        pool.is_retired = true;
        let shed = pool.shed(0);
        let is_empty = pool.used.now == 0;
        if is_empty {
            state.pools.remove(handle.0);
        }
        for pools in &mut state.of_device {
            if pools.1 == handle {
                pools.1 = pools.0;
            }
        }
        Ok(shed)
    }
}

impl Memory {
    /// Memory from a pool.
    pub(crate) fn allocate_pooled(&self, pool: PoolHandle, bytes: usize) -> Result<usize> {
        let device = self.pools.device(pool)?;
        let (rounded, _) = super::allocator::rounded(bytes as u64).ok_or_else(stale)?;
        if let Some(address) = self.pools.reuse(pool, rounded)? {
            self.revive(device, address, (bytes, rounded), pool);
            return Ok(address);
        }
        let address = self.allocate(device, bytes, Kind::Device, Some(pool))?;
        self.pools.note_taken(pool, rounded);
        Ok(address)
    }

    /// After the block at `address` left the table: the pool keeps it, or the device has it back.
    pub(super) fn give_back_pooled(&self, pool: PoolHandle, device: Ordinal, address: usize, bytes: u64) {
        if !self.pools.keep(pool, address, bytes) {
            self.give_back_at(device, address, bytes);
        }
    }

    fn give_back_shed(&self, device: Ordinal, shed: Shed) {
        for (address, bytes) in shed {
            self.give_back_at(device, address, bytes);
        }
    }

    /// Everything that pools of a device keep, back to the device; whether that was anything.
    pub(super) fn shed_pools(&self, device: Ordinal) -> bool {
        let shed = self.pools.shed_device(device);
        let any = !shed.is_empty();
        self.give_back_shed(device, shed);
        any
    }

    pub(crate) fn trim_pool(&self, pool: PoolHandle, keep: u64) -> Result<()> {
        let device = self.pools.device(pool)?;
        let shed = self.pools.shed(pool, keep)?;
        self.give_back_shed(device, shed);
        Ok(())
    }

    pub(crate) fn destroy_pool(&self, pool: PoolHandle) -> Result<()> {
        let device = self.pools.device(pool)?;
        let shed = self.pools.retire(pool)?;
        self.give_back_shed(device, shed);
        Ok(())
    }

    pub(crate) fn set_pool_attribute(&self, pool: PoolHandle, what: PoolAttribute, value: u64) -> Result<()> {
        self.pools.set_attribute(pool, what, value)?;
        if what == PoolAttribute::ReleaseThreshold {
            self.trim_pool(pool, value)?;
        }
        Ok(())
    }
}
