//! A communicator as its rank's process holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use fakegpu_proto::{Fault, Leave, Member, StagingKind, ToCoordinator, UniqueId};
use fakegpu_units::{CommId, GlobalRank, Rank};

use crate::grouping;
use crate::operation::Tally;
use crate::planes::Planes;
use crate::process;
use crate::session::Session;
use crate::streams::Stream;

/// What a C handle stands for: a number that is never used twice, so a stale handle is an answer, not a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(pub usize);

/// What a program asks of a communicator when it makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommOptions {
    /// Whether calls wait for their outcome.
    pub blocking: bool,
    /// Its name, for people.
    pub name: Option<String>,
}

impl Default for CommOptions {
    fn default() -> Self {
        Self { blocking: true, name: None }
    }
}

/// Where a rank stands among how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: Rank,
    pub(crate) size: u32,
}

/// One rank's membership in a communicator.
#[derive(Debug)]
pub(crate) struct Communicator {
    pub(crate) handle: Handle,
    /// Known at once, or once its ranks have met where they decide it.
    place: OnceLock<Place>,
    pub(crate) device: u32,
    /// The device a CUDA runtime names, which need not be the one it is booked on.
    pub(crate) cuda_device: Option<u32>,
    pub(crate) options: CommOptions,
    /// Set once all ranks have joined.
    pub(crate) joined: OnceLock<Joined>,
    /// Who drives this rank, once somebody has called for it; another rank of the communicator may be driven by the
    /// same thread.
    driver: Mutex<Option<Driver>>,
    /// What its ranks met at: two ranks of one process that meet at the same have devices of their own.
    meeting: UniqueId,
    state: Mutex<State>,
    /// Told when a pending operation has ended.
    idle: Condvar,
    pub(crate) aborted: AtomicBool,
    tally: Mutex<Tally>,
}

/// The thread that called for a rank last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    pub(crate) thread: ThreadId,
    /// Whether it called outside a group: then it calls for its ranks one by one.
    pub(crate) alone: bool,
}

/// What is known once a communicator stands.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) session: Arc<Session>,
    pub(crate) comm: CommId,
    pub(crate) members: Vec<Member>,
    pub(crate) slot_bytes: usize,
    pub(crate) kind: StagingKind,
    /// Bytes of memory that this rank stages through.
    pub(crate) staged_bytes: u64,
    pub(crate) planes: Mutex<Planes>,
}

/// What changes in a communicator's life.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The failure that ended it.
    pub(crate) fault: Option<Fault>,
    pub(crate) finalized: bool,
    /// Whether this rank revoked it, and it was well until then.
    pub(crate) revoked: bool,
    pub(crate) suspended: bool,
    /// Operations of a non-blocking communicator that have not ended.
    pending: usize,
    /// Calls that move its bytes now.
    running: usize,
    /// Hazards that were told.
    told: BTreeSet<&'static str>,
    /// Streams that its operations were put on.
    pub(crate) streams: BTreeSet<Stream>,
    /// Buffers registered, by the number that stands for each.
    pub(crate) registered: BTreeMap<usize, usize>,
}

/// How a communicator is, as `ncclCommGetAsyncError` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Well.
    Fine,
    /// An operation of a non-blocking communicator has not ended.
    InProgress,
    /// It failed.
    Failed(Fault),
}

/// What a communicator is made with.
#[derive(Debug)]
pub(crate) struct Newcomer {
    /// What its ranks meet at; empty where they know each other already.
    pub(crate) meeting: UniqueId,
    pub(crate) place: Option<Place>,
    /// The device; without one, `preferred` or else the lowest that no other rank of this process holds at the
    /// same meeting.
    pub(crate) device: Option<u32>,
    pub(crate) preferred: u32,
    pub(crate) cuda_device: Option<u32>,
    pub(crate) options: CommOptions,
}

impl Communicator {
    fn new(handle: Handle, device: u32, newcomer: Newcomer) -> Self {
        let place = OnceLock::new();
        if let Some(known) = newcomer.place {
            place.get_or_init(|| known);
        }
        Self {
            handle,
            place,
            device,
            cuda_device: newcomer.cuda_device,
            options: newcomer.options,
            joined: OnceLock::new(),
            driver: Mutex::new(None),
            meeting: newcomer.meeting,
            state: Mutex::new(State::default()),
            idle: Condvar::new(),
            aborted: AtomicBool::new(false),
            tally: Mutex::default(),
        }
    }

    /// Its rank and size, where they are known.
    pub(crate) fn place(&self) -> Option<Place> {
        self.place.get().copied()
    }

    /// Notes the rank and size that its ranks have decided.
    pub(crate) fn take_place(&self, place: Place) -> Result<(), Fault> {
        let taken = *self.place.get_or_init(|| place);
        if taken == place {
            return Ok(());
        }
        Err(Fault::internal(format!("a rank that is {taken:?} was told that it is {place:?}")))
    }

    /// Its rank; 0 while none is known.
    pub(crate) fn rank(&self) -> Rank {
        self.place().map(|place| place.rank).unwrap_or_default()
    }

    /// Its size; 0 while none is known.
    pub(crate) fn size(&self) -> u32 {
        self.place().map(|place| place.size).unwrap_or_default()
    }

    /// The rank of the job behind it.
    pub(crate) fn global(&self) -> Option<GlobalRank> {
        let joined = self.joined.get()?;
        joined.members.get(self.rank().index()).map(|member| member.global)
    }

    /// The communicator if all ranks have joined and it was not aborted, whatever became of it since.
    pub(crate) fn standing(&self) -> Result<&Joined, Fault> {
        if self.aborted.load(Ordering::Acquire) {
            return Err(Fault::usage("the communicator was aborted"));
        }
        self.joined.get().ok_or_else(|| self.state().fault.clone().unwrap_or_else(not_ready))
    }

    /// The standing communicator, or why it cannot be used.
    pub(crate) fn ready(&self) -> Result<&Joined, Fault> {
        let joined = self.standing()?;
        match &self.state().fault {
            Some(fault) => Err(fault.clone()),
            None => Ok(joined),
        }
    }

    /// Whether all its ranks are this process's. Processes of other hosts may have the same number; then waits take
    /// their bound.
    pub(crate) fn is_of_one_process(&self) -> bool {
        let own = std::process::id();
        self.joined.get().is_some_and(|joined| joined.members.iter().all(|member| member.pid == own))
    }

    /// Whether an operation may be called on it now.
    pub(crate) fn check_usable(&self, call: &str) -> Result<(), Fault> {
        self.check_idle(call)?;
        let state = self.state();
        if state.finalized {
            return Err(Fault::usage(format!("{call} after ncclCommFinalize")));
        }
        if state.revoked {
            return Err(Fault::usage(format!(
                "{call} after ncclCommRevoke: split or shrink the communicator, or destroy it"
            )));
        }
        if state.suspended {
            return Err(Fault::usage(format!(
                "{call} on a suspended communicator: call ncclCommResume first"
            )));
        }
        Ok(())
    }

    /// Whether no operation of a non-blocking communicator is under way.
    pub(crate) fn check_idle(&self, call: &str) -> Result<(), Fault> {
        if self.state().pending == 0 {
            return Ok(());
        }
        let fault = Fault::argument(format!(
            "{call} while an operation of this non-blocking communicator is in progress: poll ncclCommGetAsyncError until it \
             is not ncclInProgress"
        ));
        tracing::warn!("{}", fault.detail);
        self.hazard("pending", &fault.detail);
        Err(fault)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation of this non-blocking communicator begins; other calls are refused until it has ended.
    pub(crate) fn begin_pending(&self) {
        self.state().pending += 1;
    }

    /// It has ended.
    pub(crate) fn end_pending(&self, fault: Option<&Fault>) {
        let mut state = self.state();
        state.pending = state.pending.saturating_sub(1);
        if let Some(fault) = fault {
            state.fault.get_or_insert_with(|| fault.clone());
        }
        drop(state);
        self.idle.notify_all();
    }

    /// A call begins to move its bytes, until the guard goes.
    pub(crate) fn run(self: &Arc<Self>) -> RunGuard {
        self.state().running += 1;
        RunGuard(Arc::clone(self))
    }

    /// Waits a bounded while until nothing is pending and no call moves its bytes.
    pub(crate) fn wait_idle(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        let mut state = self.state();
        while state.pending > 0 || state.running > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.idle.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How it is, news from the coordinator included.
    pub(crate) fn how_it_is(&self) -> Standing {
        {
            let state = self.state();
            match &state.fault {
                _ if state.pending > 0 => return Standing::InProgress,
                _ if state.revoked => return Standing::Fine,
                Some(fault) => return Standing::Failed(fault.clone()),
                None => {}
            }
        }
        self.fault().map_or(Standing::Fine, Standing::Failed)
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

    /// Tells a hazard of this kind, once: to whoever reads the log, and to the report.
    pub(crate) fn hazard(&self, kind: &'static str, detail: &str) {
        if !self.state().told.insert(kind) {
            return;
        }
        if kind != "pending" {
            tracing::warn!("{detail}");
        }
        if let Some(joined) = self.joined.get() {
            let (comm, rank) = (joined.comm, self.rank());
            joined.session.say(&ToCoordinator::Hazard { comm, rank, detail: detail.to_owned() });
        }
    }

    /// The communicator as NCCL's log lines describe it.
    pub(crate) fn described(&self) -> String {
        let id = self.joined.get().map_or(0, |joined| joined.comm.0);
        let device = self.cuda_device.unwrap_or(self.device);
        format!(
            "ncclComm {:#x} rank {} nranks {} cudaDev {device} commId {id:#x}",
            self.handle.0,
            self.rank(),
            self.size()
        )
    }

    pub(crate) fn driver(&self) -> Option<Driver> {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread drives the rank from now on.
    pub(crate) fn driven_here(&self) {
        let (thread, alone) = (std::thread::current().id(), !grouping::is_open());
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(Driver { thread, alone });
    }

    /// Leaves the communicator, if it stands, without waiting for anybody.
    pub(crate) fn leave_at_once(&self) {
        if let Some(joined) = self.joined.get() {
            let (comm, rank) = (joined.comm, self.rank());
            joined.session.tell(&ToCoordinator::Leave { comm, rank, how: Leave::Abort });
        }
    }
}

/// A call moves a communicator's bytes as long as this lives.
#[derive(Debug)]
pub(crate) struct RunGuard(Arc<Communicator>);

impl Drop for RunGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.running = state.running.saturating_sub(1);
        drop(state);
        self.0.idle.notify_all();
    }
}

pub(crate) fn not_ready() -> Fault {
    Fault::argument("the communicator is not ready: its group has not ended, or its init failed")
}

/// The process's communicators.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    inner: Mutex<(usize, BTreeMap<Handle, Arc<Communicator>>)>,
    /// The process that made the first one; 0 while there is none.
    owner: AtomicU32,
}

/// Handles step by this much, so that they look like pointers: never small, always aligned.
const HANDLE_STEP: usize = 64;

/// Below the first handle.
const HANDLE_BASE: usize = 0x10_0000;

impl Communicators {
    /// Makes one, not yet joined.
    pub(crate) fn add(&self, newcomer: Newcomer) -> Arc<Communicator> {
        // The first one stays.
        let (nobody, here) = (0, std::process::id());
        self.owner.compare_exchange(nobody, here, Ordering::AcqRel, Ordering::Acquire).unwrap_or_default();
        let mut inner = self.lock();
        inner.0 += 1;
        let handle = Handle(HANDLE_BASE + inner.0 * HANDLE_STEP);
        let held: Vec<u32> = inner
            .1
            .values()
            .filter(|comm| comm.meeting == newcomer.meeting)
            .map(|comm| comm.device)
            .collect();
        let device = newcomer.device.unwrap_or_else(|| {
            let mut candidates = std::iter::once(newcomer.preferred).chain(0..);
            candidates.find(|candidate| !held.contains(candidate)).unwrap_or(newcomer.preferred)
        });
        let comm = Arc::new(Communicator::new(handle, device, newcomer));
        inner.1.insert(handle, Arc::clone(&comm));
        comm
    }

    /// Whether this is the process that made the communicators. Asked before any lock is taken: a forked child may have
    /// inherited it locked, by a thread that it did not inherit.
    pub(crate) fn check_process(&self) -> Result<(), Fault> {
        match self.owner.load(Ordering::Acquire) {
            0 => Ok(()),
            owner => process::check_not_forked(owner),
        }
    }

    pub(crate) fn find(&self, handle: Handle) -> Result<Arc<Communicator>, Fault> {
        self.check_process()?;
        if handle.0 == 0 {
            return Err(Fault::argument("the communicator is NULL"));
        }
        let inner = self.lock();
        inner.1.get(&handle).cloned().ok_or_else(|| {
            let was = handle.0 > HANDLE_BASE
                && handle.0 <= HANDLE_BASE + inner.0 * HANDLE_STEP
                && (handle.0 - HANDLE_BASE).is_multiple_of(HANDLE_STEP);
            let why = if was { "it was destroyed or aborted" } else { "it never was one" };
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
