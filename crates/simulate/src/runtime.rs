//! The process's state, and one method for each kind of NCCL call.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fakegpu_config::env::{Address, ComputeMode, DistMode, LogLevel, Settings};
use fakegpu_executor::Scalar;
use fakegpu_proto::{Fault, Leave, ToCoordinator, UniqueId};
use fakegpu_rank::{Call, Checked, GroupEnd, IdContent};
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};
use fakegpu_units::{DataType, Rank};

use crate::communicator::{Communicator, Communicators, Joined};
use crate::drive::{self, Prepared, Submission};
use crate::grouping::{Held, last_device, sit_on, with_group};
use crate::init::{Pending, join_all};
use crate::redop::RedOps;
use crate::session::Session;
use crate::{Handle, RedOp, Spawn, embedded, process};

/// A request to join a communicator.
#[derive(Debug)]
pub struct Request<'a> {
    /// The rendezvous.
    pub unique_id: &'a [u8; 128],
    /// Ranks, as the C call gives them.
    pub size: i32,
    /// The rank claimed.
    pub rank: i32,
    /// The device, where the caller chose one.
    pub device: Option<u32>,
}

/// A collective call with its buffers.
#[derive(Debug)]
pub struct Collective {
    /// The communicator.
    pub comm: Handle,
    /// The arguments; `rank` and `size` are filled in here.
    pub call: Call,
    /// The operator, where values are combined.
    pub op: Option<RedOp>,
    /// The send buffer, as long as the call says.
    pub send: SendBuffer,
    /// The receive buffer, as long as the call says.
    pub recv: RecvBuffer,
}

/// The process.
#[derive(Debug)]
pub struct Runtime {
    settings: Result<Settings, Fault>,
    spawn: Box<dyn Spawn>,
    sessions: Mutex<Vec<Arc<Session>>>,
    embedded: Mutex<Option<Embedded>>,
    comms: Communicators,
    redops: RedOps,
    /// Submissions that wait until a thread has called for its other ranks too.
    deferred: Mutex<Vec<Submission>>,
    overlaps_told: Mutex<u32>,
}

/// The way to a coordinator that this process started.
#[derive(Clone, Debug)]
struct Embedded {
    address: Address,
    token: String,
    since: Instant,
}

/// What this process's other ranks of an operation's communicator are about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Siblings {
    /// They have called, or other threads call for them.
    Come,
    /// Nobody has called for them yet: this thread may, or another.
    Unknown,
    /// This thread has yet to call for them.
    WaitForUs,
}

/// How long a configured coordinator may take to come up.
const DIAL_PATIENCE: Duration = Duration::from_secs(5);

/// How long a started coordinator surely waits for its first session: half its lingering time.
const EMBEDDED_FRESH: Duration = Duration::from_secs(30);

/// How long a call waits for ranks of this process that no thread has called for yet.
const SIBLING_PATIENCE: Duration = Duration::from_millis(100);

/// Overlaps reported before they are only counted.
const OVERLAPS_TOLD_MAX: u32 = 10;

impl Runtime {
    /// A process with this environment. Mistakes in it are answers to the calls that need it.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, spawn: Box<dyn Spawn>) -> Self {
        Self {
            settings: Settings::from_vars(vars)
                .map_err(|mistakes| Fault::usage(mistakes.to_string().trim_end())),
            spawn,
            sessions: Mutex::new(Vec::new()),
            embedded: Mutex::new(None),
            comms: Communicators::default(),
            redops: RedOps::default(),
            deferred: Mutex::new(Vec::new()),
            overlaps_told: Mutex::new(0),
        }
    }

    /// How much the environment wants to read of this library.
    pub fn log_level(&self) -> LogLevel {
        self.settings.as_ref().map_or(LogLevel::Warn, |settings| settings.log)
    }

    /// A call of the open group was refused before it came here: the group will fail with it.
    pub fn refuse(&self, fault: &Fault) {
        with_group(|group| group.refuse(fault));
    }

    /// The settings, if they are in order and ask for simulation.
    fn settings(&self) -> Result<&Settings, Fault> {
        let settings = self.settings.as_ref().map_err(Clone::clone)?;
        match (settings.mode, settings.dist_mode) {
            (_, Some(DistMode::Disabled)) => Err(Fault::usage(
                "FAKEGPU_DIST_MODE is `disabled`, so NCCL calls are refused: unset it, or set it to `simulate`",
            )),
            (_, Some(mode @ (DistMode::Proxy | DistMode::Passthrough))) => Err(Fault::usage(format!(
                "FAKEGPU_DIST_MODE is `{mode}`, which this build does not have yet: use `simulate`"
            ))),
            (mode @ (ComputeMode::Hybrid | ComputeMode::Passthrough), _) => Err(Fault::usage(format!(
                "FAKEGPU_MODE is `{mode}`, which this build does not have yet: use `simulate`"
            ))),
            (ComputeMode::Simulate, None | Some(DistMode::Simulate)) => Ok(settings),
        }
    }

    /// `ncclGetUniqueId`: an id unlike any other. Where no coordinator is configured, it carries the way to an
    /// embedded one, which is started if this process has none yet.
    ///
    /// # Errors
    /// Where the environment is wrong, or the coordinator cannot be started.
    pub fn unique_id(&self) -> Result<[u8; 128], Fault> {
        let settings = self.settings()?;
        let way = if settings.coordinator.is_some() { None } else { Some(self.embedded_way(settings)?) };
        let (address, token) =
            way.map_or((None, None), |(address, token)| (Some(address.to_string()), Some(token)));
        IdContent { address, token, random: process::random() }.encode().map_err(Fault::system)
    }

    /// The coordinator that new ids point to: the one this process already speaks to, or a new one.
    fn embedded_way(&self, settings: &Settings) -> Result<(Address, String), Fault> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| !session.is_lost());
        if let Some(session) = sessions.first()
            && let Some(token) = &session.token
        {
            return Ok((session.address.clone(), token.clone()));
        }
        drop(sessions);
        let mut embedded = self.embedded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fresh) = embedded.as_ref().filter(|embedded| embedded.since.elapsed() < EMBEDDED_FRESH) {
            return Ok((fresh.address.clone(), fresh.token.clone()));
        }
        let configured = settings.coordinator_bin.as_ref().map(PathBuf::from);
        let (address, token) = embedded::start(&*self.spawn, configured.as_deref())?;
        *embedded = Some(Embedded { address: address.clone(), token: token.clone(), since: Instant::now() });
        Ok((address, token))
    }

    /// `ncclCommInitRank`: joins, at once or when the group ends. The handle is good for calls once it stands.
    ///
    /// # Errors
    /// Bad arguments, a wrong environment, and whatever keeps the communicator from coming together.
    pub fn init(&self, request: &Request<'_>) -> Result<Handle, Fault> {
        let settings = self.settings()?;
        let (size, rank) = checked_rank(request.size, request.rank)?;
        let session = self.session(settings, request.unique_id)?;
        let unique_id = UniqueId::new(request.unique_id);
        let comm = self.comms.add(&unique_id, rank, size, request.device, last_device());
        sit_on(comm.device);
        let handle = comm.handle;
        if !with_group(|group| group.is_open()) {
            comm.driven_here();
        }
        let held = with_group(|group| group.hold(Held::Init(Pending { comm, session, unique_id })));
        if let Some(Held::Init(pending)) = held
            && let Err(fault) = join_all(vec![pending], settings.staging.no_uring)
        {
            self.comms.remove(handle);
            return Err(fault);
        }
        Ok(handle)
    }

    /// `ncclCommInitAll`: all ranks of a communicator in this process, driven by this thread.
    ///
    /// # Errors
    /// As [`Runtime::init`].
    pub fn init_all(&self, devices: &[u32]) -> Result<Vec<Handle>, Fault> {
        let id = self.unique_id()?;
        let size = i32::try_from(devices.len()).map_err(|_| Fault::argument("too many devices"))?;
        with_group(|group| group.start());
        let handles: Result<Vec<Handle>, Fault> = (0..size)
            .zip(devices)
            .map(|(rank, &device)| self.init(&Request { unique_id: &id, size, rank, device: Some(device) }))
            .collect();
        let ended = self.group_end();
        let handles = handles?;
        ended?;
        Ok(handles)
    }

    /// The session that an id leads to: the configured coordinator, or the one the id names.
    fn session(&self, settings: &Settings, id: &[u8; 128]) -> Result<Arc<Session>, Fault> {
        let (address, token) = match &settings.coordinator {
            Some(address) => {
                (address.clone(), settings.token.as_ref().map(|token| token.reveal().to_owned()))
            }
            None => way_of(id)?,
        };
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.iter().find(|session| session.address == address) {
            session.check_process()?;
        }
        sessions.retain(|session| !session.is_lost());
        if let Some(session) = sessions.iter().find(|session| session.address == address) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::open(address, token, settings, DIAL_PATIENCE)?);
        sessions.push(Arc::clone(&session));
        Ok(session)
    }

    /// `ncclGroupStart`.
    pub fn group_start(&self) {
        with_group(|group| group.start());
    }

    /// `ncclGroupEnd`: joins and runs what the group held.
    ///
    /// # Errors
    /// Where there is no group, a call of it was refused, or anything in it fails: then nothing of it ran,
    /// unless the ranks grouped differently.
    pub fn group_end(&self) -> Result<(), Fault> {
        let held = match with_group(|group| group.end())? {
            GroupEnd::Nested => return Ok(()),
            GroupEnd::Goes(held) => held,
        };
        let (mut inits, mut operations) = (Vec::new(), Vec::new());
        for held in held {
            match held {
                Held::Init(pending) => inits.push(pending),
                Held::Operation(prepared) => operations.push(prepared),
            }
        }
        if !inits.is_empty() {
            let handles: Vec<Handle> = inits.iter().map(|pending| pending.comm.handle).collect();
            let no_uring = self.settings()?.staging.no_uring;
            join_all(inits, no_uring).inspect_err(|fault| self.note_init_fault(&handles, fault))?;
        }
        if operations.is_empty() { Ok(()) } else { self.run(operations) }
    }

    /// Handles of a failed group stay valid for the calls that clean up after it.
    fn note_init_fault(&self, handles: &[Handle], fault: &Fault) {
        for comm in handles.iter().filter_map(|&handle| self.comms.find(handle).ok()) {
            comm.note_fault(fault);
        }
    }

    /// A collective call: runs at once, or when the group ends.
    ///
    /// # Errors
    /// Bad arguments (which also fail the open group), a mismatch, a time-out, a death.
    pub fn collective(&self, collective: Collective) -> Result<(), Fault> {
        let prepared =
            self.prepare(collective).inspect_err(|fault| with_group(|group| group.refuse(fault)))?;
        let Some(prepared) = prepared else { return Ok(()) };
        prepared.comm.driven_here();
        match with_group(|group| group.hold(Held::Operation(prepared))) {
            Some(Held::Operation(prepared)) => self.run(vec![prepared]),
            Some(Held::Init(_)) | None => Ok(()),
        }
    }

    fn prepare(&self, collective: Collective) -> Result<Option<Prepared>, Fault> {
        let comm = self.comms.find(collective.comm)?;
        let (reduce, scalar) = match collective.op {
            Some(op) => {
                let (reduce, scalar) = self.redops.resolve(collective.comm, op, collective.call.data_type)?;
                (Some(reduce), scalar)
            }
            None => (None, None),
        };
        let call = Call { rank: comm.rank, size: comm.size, reduce, ..collective.call };
        let checked = call.check()?;
        if comm.state().finalized {
            return Err(Fault::usage(format!("{} after ncclCommFinalize", call.op.nccl_name())));
        }
        if !with_group(|group| group.is_open()) {
            comm.ready()?;
        }
        let Checked::Runs(descriptor) = checked else { return Ok(None) };
        self.check_overlap(&call)?;
        Ok(Some(Prepared {
            comm,
            descriptor,
            scalar,
            send: collective.send,
            recv: collective.recv,
            ordinal: 0,
        }))
    }

    /// NCCL does not check overlaps: neither is one an error here, unless asked for.
    fn check_overlap(&self, call: &Call) -> Result<(), Fault> {
        let Some(overlap) = call.overlap() else { return Ok(()) };
        if self.settings()?.strict {
            return Err(Fault::usage(overlap.detail));
        }
        let mut told = self.overlaps_told.lock().unwrap_or_else(PoisonError::into_inner);
        *told = told.saturating_add(1);
        if *told <= OVERLAPS_TOLD_MAX {
            tracing::warn!("{}", overlap.detail);
        }
        Ok(())
    }

    /// Submits operations and runs them, together with what was put off for them; or puts them off, where this
    /// thread has yet to call for further ranks of the same communicator.
    fn run(&self, operations: Vec<Prepared>) -> Result<(), Fault> {
        let mut submissions = drive::submit(operations)?;
        let siblings =
            submissions.iter().flat_map(Submission::operations).map(|prepared| self.siblings(prepared)).max();
        let put_off = match siblings {
            None | Some(Siblings::Come) => false,
            Some(Siblings::WaitForUs) => true,
            Some(Siblings::Unknown) => !released_within(&mut submissions, SIBLING_PATIENCE)?,
        };
        if put_off {
            self.deferred().extend(submissions);
            return Ok(());
        }
        submissions.extend(self.take_runnable());
        drive::run(submissions)
    }

    fn deferred(&self) -> MutexGuard<'_, Vec<Submission>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the submissions that need no further call of the thread that put them off.
    fn take_runnable(&self) -> Vec<Submission> {
        let mut deferred = self.deferred();
        if deferred.is_empty() {
            return Vec::new();
        }
        let (ready, rest) = std::mem::take(&mut *deferred).into_iter().partition(|submission| {
            submission.operations().all(|prepared| {
                let driver = prepared.comm.driver();
                let has_come = |sibling: &Arc<Communicator>| {
                    sibling.called.load(Ordering::Relaxed) >= prepared.ordinal
                        || (sibling.driver().is_some() && sibling.driver() != driver)
                };
                self.comms.siblings(&prepared.comm).iter().all(has_come)
            })
        });
        *deferred = rest;
        ready
    }

    fn siblings(&self, prepared: &Prepared) -> Siblings {
        let here = std::thread::current().id();
        let behind = |sibling: &Arc<Communicator>| match sibling.driver() {
            _ if sibling.called.load(Ordering::Relaxed) >= prepared.ordinal => Siblings::Come,
            Some(driver) if driver == here => Siblings::WaitForUs,
            Some(_) => Siblings::Come,
            None if process::is_single_threaded() => Siblings::WaitForUs,
            None => Siblings::Unknown,
        };
        self.comms.siblings(&prepared.comm).iter().map(behind).max().unwrap_or(Siblings::Come)
    }

    /// `ncclRedOpCreatePreMulSum` with a scalar already read: the number of the new operator.
    ///
    /// # Errors
    /// Where the communicator is not one.
    pub fn create_pre_mul_sum(&self, comm: Handle, data_type: DataType, scalar: &[u8]) -> Result<i32, Fault> {
        self.comms.find(comm)?;
        let scalar = Scalar::from_bytes(data_type, scalar).map_err(Fault::argument)?;
        Ok(self.redops.create(comm, scalar))
    }

    /// `ncclRedOpDestroy`.
    ///
    /// # Errors
    /// Where the operator is not this communicator's.
    pub fn destroy_redop(&self, comm: Handle, number: i32) -> Result<(), Fault> {
        self.comms.find(comm)?;
        self.redops.destroy(comm, number)
    }

    /// Ranks of the communicator.
    ///
    /// # Errors
    /// Where the communicator is not one.
    pub fn size(&self, comm: Handle) -> Result<u32, Fault> {
        Ok(self.comms.find(comm)?.size)
    }

    /// The caller's rank in it.
    ///
    /// # Errors
    /// Where the communicator is not one.
    pub fn rank(&self, comm: Handle) -> Result<Rank, Fault> {
        Ok(self.comms.find(comm)?.rank)
    }

    /// The rank's device on its virtual node.
    ///
    /// # Errors
    /// Where the communicator is not one, or does not stand yet.
    pub fn device(&self, comm: Handle) -> Result<u32, Fault> {
        let comm = self.comms.find(comm)?;
        let member = comm.joined.get().and_then(|joined| joined.members.get(comm.rank.index()).cloned());
        Ok(member.map_or(comm.device, |member| member.device))
    }

    /// `ncclCommGetAsyncError`: the failure that ended the communicator, if any.
    ///
    /// # Errors
    /// Where the communicator is not one.
    pub fn async_error(&self, comm: Handle) -> Result<Option<Fault>, Fault> {
        Ok(self.comms.find(comm)?.fault())
    }

    /// `ncclCommFinalize`: local; it never waits for peers.
    ///
    /// # Errors
    /// Where it was finalized already.
    pub fn finalize(&self, comm: Handle) -> Result<(), Fault> {
        let comm = self.comms.find(comm)?;
        if std::mem::replace(&mut comm.state().finalized, true) {
            return Err(Fault::argument("ncclCommFinalize was called twice"));
        }
        Ok(())
    }

    /// `ncclCommDestroy`: leaves in order. The handle is gone whatever happens.
    ///
    /// # Errors
    /// Where the communicator is not one, or the coordinator is gone.
    pub fn destroy(&self, handle: Handle) -> Result<(), Fault> {
        let comm = self.comms.find(handle)?;
        if self
            .deferred()
            .iter()
            .flat_map(Submission::operations)
            .any(|prepared| Arc::ptr_eq(&prepared.comm, &comm))
        {
            tracing::warn!(
                rank = comm.rank.0,
                "a communicator is destroyed while an operation waits for this thread's other ranks"
            );
        }
        self.comms.remove(handle);
        self.redops.forget(handle);
        let Some(joined) = comm.joined.get() else { return Ok(()) };
        let leave = ToCoordinator::Leave { comm: joined.comm, rank: comm.rank, how: Leave::Destroy };
        let left = joined.session.ask(&leave).map(|_| ());
        self.forget(&comm, joined);
        left
    }

    /// What the session remembers of a communicator goes with the process's last rank in it.
    fn forget(&self, comm: &Communicator, joined: &Joined) {
        if self.comms.siblings(comm).is_empty() {
            joined.session.forget(joined.comm);
        }
    }

    /// `ncclCommAbort`: leaves at once, from any thread, whatever the communicator is doing; always succeeds.
    pub fn abort(&self, handle: Handle) {
        let Ok(comm) = self.comms.find(handle) else { return };
        comm.aborted.store(true, Ordering::Release);
        self.comms.remove(handle);
        self.redops.forget(handle);
        let Some(joined) = comm.joined.get() else { return };
        comm.leave_at_once();
        self.forget(&comm, joined);
    }

    /// The process ends in order: its sessions say so, and the end of their connections is no death.
    pub fn goodbye(&self) {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        for session in sessions.iter() {
            session.goodbye();
        }
    }
}

/// Whether something of every submission may run within a bounded while.
fn released_within(submissions: &mut [Submission], patience: Duration) -> Result<bool, Fault> {
    let deadline = Instant::now() + patience;
    for submission in submissions {
        if !submission.is_released_within(deadline.saturating_duration_since(Instant::now()))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn checked_rank(size: i32, rank: i32) -> Result<(u32, Rank), Fault> {
    match (u32::try_from(size), u32::try_from(rank)) {
        (Ok(size), Ok(rank)) if size > 0 && rank < size => Ok((size, Rank(rank))),
        _ => Err(Fault::argument(format!(
            "rank {rank} of {size} is no rank: a communicator has at least one, numbered from 0"
        ))),
    }
}

/// The coordinator that an id names.
fn way_of(id: &[u8; 128]) -> Result<(Address, Option<String>), Fault> {
    let content = IdContent::decode(id).ok_or_else(|| {
        Fault::usage(
            "this unique id was not made by ncclGetUniqueId of this library, and no coordinator is configured: \
             use `fakegpu run`, or set FAKEGPU_COORDINATOR_ADDR for every rank",
        )
    })?;
    let address = content.address.ok_or_else(|| {
        Fault::usage("this unique id was made where FAKEGPU_COORDINATOR_ADDR is set, and here it is not: set it for every rank")
    })?;
    let address = address.parse().map_err(|error| {
        Fault::usage(format!("the unique id names a coordinator at `{address}`: {error}"))
    })?;
    Ok((address, content.token))
}
