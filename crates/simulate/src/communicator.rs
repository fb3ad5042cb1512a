//! A communicator as its rank's process holds it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use fakegpu_proto::{Fault, Leave, Member, ToCoordinator, UniqueId};
use fakegpu_staging_shm::Exchange;
use fakegpu_units::{CommId, Rank};

use crate::session::Session;

/// What a C handle stands for: a number that is never used twice, so a stale handle is an answer, not a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub usize);

/// One rank's membership in a communicator.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) handle: Handle,
    pub(crate) rank: Rank,
    pub(crate) size: u32,
    pub(crate) device: u32,
    /// Set once all ranks have joined.
    pub(crate) joined: OnceLock<Joined>,
    /// The thread that drives this rank, once one has called for it; another rank of the communicator may be
    /// driven by the same one.
    driver: Mutex<Option<ThreadId>>,
    /// What its ranks met at: two ranks of one process that meet at the same have devices of their own.
    unique_id: UniqueId,
    pub(crate) state: Mutex<State>,
    pub(crate) aborted: AtomicBool,
    /// Operations called so far, to see which of a thread's ranks have yet to call.
    pub(crate) called: AtomicU64,
    /// Whether it was told that two threads use it at once.
    pub(crate) crowd_told: AtomicBool,
}

/// What is known once a communicator stands.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) session: Arc<Session>,
    pub(crate) comm: CommId,
    pub(crate) members: Vec<Member>,
    pub(crate) slot_bytes: usize,
    pub(crate) exchange: Mutex<Box<dyn Exchange>>,
}

/// What changes in a communicator's life.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The failure that ended it.
    pub(crate) fault: Option<Fault>,
    pub(crate) finalized: bool,
}

impl Communicator {
    fn new(handle: Handle, unique_id: UniqueId, rank: Rank, size: u32, device: u32) -> Self {
        Self {
            handle,
            unique_id,
            rank,
            size,
            device,
            joined: OnceLock::new(),
            driver: Mutex::new(None),
            state: Mutex::new(State::default()),
            aborted: AtomicBool::new(false),
            called: AtomicU64::new(0),
            crowd_told: AtomicBool::new(false),
        }
    }

    /// The standing communicator, or why it cannot be used.
    pub(crate) fn ready(&self) -> Result<&Joined, Fault> {
        if self.aborted.load(Ordering::Acquire) {
            return Err(Fault::usage("the communicator was aborted"));
        }
        if let Some(fault) = &self.state().fault {
            return Err(fault.clone());
        }
        self.joined.get().ok_or_else(|| {
            Fault::argument("the communicator is not ready: its group has not ended, or its init failed")
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the failure that ended it; the first one stays.
    pub(crate) fn note_fault(&self, fault: &Fault) {
        self.state().fault.get_or_insert_with(|| fault.clone());
    }

    /// The failure that ended it, looking for news from the coordinator too.
    pub(crate) fn fault(&self) -> Option<Fault> {
        if let Some(fault) = &self.state().fault {
            return Some(fault.clone());
        }
        let joined = self.joined.get()?;
        let fault = joined.session.fault_of(joined.comm)?;
        self.note_fault(&fault);
        Some(fault)
    }

    pub(crate) fn driver(&self) -> Option<ThreadId> {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread drives the rank from now on.
    pub(crate) fn driven_here(&self) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::thread::current().id());
    }

    /// Leaves the communicator, if it stands, without waiting for anybody.
    pub(crate) fn leave_at_once(&self) {
        if let Some(joined) = self.joined.get() {
            joined.session.tell(&ToCoordinator::Leave {
                comm: joined.comm,
                rank: self.rank,
                how: Leave::Abort,
            });
        }
    }
}

/// The process's communicators.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    inner: Mutex<(usize, BTreeMap<Handle, Arc<Communicator>>)>,
}

/// Handles step by this much, so that they look like pointers: never small, always aligned.
const HANDLE_STEP: usize = 64;

impl Communicators {
    /// Makes one, not yet joined. Without a device of the caller's choice it takes `preferred`, or else the
    /// lowest that no other rank of this process holds at the same meeting.
    pub(crate) fn add(
        &self,
        unique_id: &UniqueId,
        rank: Rank,
        size: u32,
        device: Option<u32>,
        preferred: u32,
    ) -> Arc<Communicator> {
        let mut inner = self.lock();
        inner.0 += 1;
        let handle = Handle(0x10_0000 + inner.0 * HANDLE_STEP);
        let held: Vec<u32> =
            inner.1.values().filter(|comm| comm.unique_id == *unique_id).map(|comm| comm.device).collect();
        let device = device.unwrap_or_else(|| {
            let mut candidates = std::iter::once(preferred).chain(0..);
            candidates.find(|candidate| !held.contains(candidate)).unwrap_or(preferred)
        });
        let comm = Arc::new(Communicator::new(handle, unique_id.clone(), rank, size, device));
        inner.1.insert(handle, Arc::clone(&comm));
        comm
    }

    pub(crate) fn find(&self, handle: Handle) -> Result<Arc<Communicator>, Fault> {
        if handle.0 == 0 {
            return Err(Fault::argument("the communicator is NULL"));
        }
        let inner = self.lock();
        inner.1.get(&handle).cloned().ok_or_else(|| {
            let was = handle.0 > 0x10_0000 && handle.0 <= 0x10_0000 + inner.0 * HANDLE_STEP;
            let why = if was { "it was destroyed" } else { "it never was one" };
            Fault::usage(format!("{:#x} is no communicator: {why}", handle.0))
        })
    }

    pub(crate) fn remove(&self, handle: Handle) {
        self.lock().1.remove(&handle);
    }

    /// The process's other ranks of a communicator.
    pub(crate) fn siblings(&self, comm: &Communicator) -> Vec<Arc<Communicator>> {
        let Some(joined) = comm.joined.get() else { return Vec::new() };
        let same = |other: &&Arc<Communicator>| {
            other.handle != comm.handle
                && other.joined.get().is_some_and(|other| {
                    other.comm == joined.comm && Arc::ptr_eq(&other.session, &joined.session)
                })
        };
        self.lock().1.values().filter(same).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, (usize, BTreeMap<Handle, Arc<Communicator>>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
