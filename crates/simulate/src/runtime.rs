//! The process's state, and what every kind of NCCL call needs: settings, sessions, groups.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fakegpu_config::env::{Address, ComputeMode, DistMode, LogLevel, Settings};
use fakegpu_proto::{Fault, STREAM, ToCoordinator, ToRank};
use fakegpu_rank::{GroupEnd, IdContent, SelfPairs};

use crate::capability::Capabilities;
use crate::capture::Recipe;
use crate::communicator::{Communicator, Communicators};
use crate::debug::{DebugLog, Subsystem};
use crate::embedded::Way;
use crate::engine::{self, Engine};
use crate::environment::Environment;
use crate::grouping::{self, Held, thread_number, with_group};
use crate::init::{Pending, join_all};
use crate::job::{self, Outcome};
use crate::operation::{Prepared, Work};
use crate::parameters::Parameters;
use crate::redop::RedOps;
use crate::session::Session;
use crate::siblings::{Siblings, is_runnable, what_siblings_do};
use crate::streams::{NoStreams, Stream, Streams};
use crate::submission::{OfSession, Submission, actions_of, by_session, in_parts, involved, submit};
use crate::window::{self, PendingWindow, Windows};
use crate::{Handle, Spawn, embedded, process};

/// The process.
#[derive(Debug)]
pub struct Runtime {
    settings: Result<Settings, Fault>,
    pub(crate) environment: Environment,
    pub(crate) spawn: Box<dyn Spawn>,
    sessions: Mutex<Vec<Arc<Session>>>,
    embedded: Mutex<Option<Embedded>>,
    pub(crate) comms: Communicators,
    pub(crate) redops: RedOps,
    pub(crate) capabilities: Capabilities,
    pub(crate) parameters: Parameters,
    pub(crate) debug: Arc<DebugLog>,
    /// Whether it was told what is odd about the environment.
    pub(crate) environment_told: AtomicBool,
    pub(crate) windows: Arc<Windows>,
    /// Submissions that wait until a thread has called for its other ranks too.
    deferred: Mutex<Vec<Submission>>,
    /// The CUDA runtime's streams.
    pub(crate) streams: Box<dyn Streams>,
    /// What they hold.
    pub(crate) engine: Arc<Engine>,
}

/// A coordinator that this process started.
#[derive(Clone, Debug)]
struct Embedded {
    way: Way,
    since: Instant,
}

/// How long a configured coordinator may take to come up.
const DIAL_PATIENCE: Duration = Duration::from_secs(5);

/// How long a started coordinator surely waits for its first session: half its lingering time.
const EMBEDDED_FRESH: Duration = Duration::from_secs(30);

/// How long a call waits for ranks of this process that no thread has called for yet, before the coordinator is told
/// that its thread may go on.
const SIBLING_PATIENCE: Duration = Duration::from_millis(100);

/// How long it waits then, before its thread does go on: for the thread that calls for those ranks, if it is another.
const STRANGER_PATIENCE: Duration = Duration::from_secs(2);

impl Runtime {
    /// A process with this environment, to which NCCL's configuration files are added. Mistakes in it are answers
    /// to the calls that need it.
    pub fn new(vars: impl IntoIterator<Item = (String, String)>, spawn: Box<dyn Spawn>) -> Self {
        let environment = Environment::read(vars);
        Self {
            settings: Settings::from_vars(environment.all())
                .map_err(|mistakes| Fault::usage(mistakes.to_string().trim_end())),
            debug: Arc::new(DebugLog::new(&environment)),
            parameters: Parameters::new(&environment),
            environment,
            spawn,
            sessions: Mutex::default(),
            embedded: Mutex::default(),
            comms: Communicators::default(),
            redops: RedOps::default(),
            capabilities: Capabilities::default(),
            environment_told: AtomicBool::new(false),
            windows: Arc::default(),
            deferred: Mutex::default(),
            streams: Box::new(NoStreams),
            engine: Arc::default(),
        }
    }

    /// With a CUDA runtime's streams: calls return when they are submitted, and their work is done in stream order.
    #[must_use]
    pub fn on_streams(mut self, streams: Box<dyn Streams>) -> Self {
        self.streams = streams;
        self
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
    pub(crate) fn settings(&self) -> Result<&Settings, Fault> {
        self.comms.check_process()?;
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

    /// `ncclGetUniqueId`: an id unlike any other, or the one that `NCCL_COMM_ID` stands for. Where no coordinator is
    /// configured, it carries the way to an embedded one, which is started if this process has none yet.
    ///
    /// # Errors
    /// Where the environment is wrong, or the coordinator cannot be started.
    pub fn unique_id(&self) -> Result<[u8; 128], Fault> {
        let settings = self.settings()?;
        let comm_id = self.environment.get("NCCL_COMM_ID");
        let way = match (&settings.coordinator, comm_id) {
            (Some(_), _) => None,
            (None, Some(comm_id)) => Some(Way::of_comm_id(comm_id)),
            (None, None) => Some(self.embedded_way(settings)?),
        };
        let random = comm_id.map_or_else(process::random, process::digest);
        content(way, random).encode().map_err(Fault::system)
    }

    /// An id that leads to where a session leads.
    pub(crate) fn id_of(&self, session: &Session) -> Result<[u8; 128], Fault> {
        let is_embedded = self.settings()?.coordinator.is_none();
        let token = session.token.clone().filter(|_| is_embedded);
        let way = token.map(|token| Way { address: session.address.clone(), token });
        content(way, process::random()).encode().map_err(Fault::system)
    }

    /// The coordinator that new ids point to: the one this process already speaks to, or a new one.
    fn embedded_way(&self, settings: &Settings) -> Result<Way, Fault> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| !session.is_lost());
        if let Some(session) = sessions.first()
            && let Some(token) = &session.token
        {
            return Ok(Way { address: session.address.clone(), token: token.clone() });
        }
        drop(sessions);
        let mut embedded = self.embedded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fresh) = embedded.as_ref().filter(|embedded| embedded.since.elapsed() < EMBEDDED_FRESH) {
            return Ok(fresh.way.clone());
        }
        let way = Way::fresh();
        self.start_coordinator(settings, &way)?;
        *embedded = Some(Embedded { way: way.clone(), since: Instant::now() });
        Ok(way)
    }

    fn start_coordinator(&self, settings: &Settings, way: &Way) -> Result<(), Fault> {
        let configured = settings.coordinator_bin.as_ref().map(PathBuf::from);
        embedded::start(&*self.spawn, configured.as_deref(), way)
    }

    /// The session that an id leads to: the configured coordinator, or the one the id names.
    pub(crate) fn session(&self, settings: &Settings, id: &[u8; 128]) -> Result<Arc<Session>, Fault> {
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
        if let Some(comm_id) = self.environment.get("NCCL_COMM_ID")
            && settings.coordinator.is_none()
            && Way::of_comm_id(comm_id).address == address
            && !Session::is_there(&address)
        {
            // Whoever finds nobody starts one. Of two that do, the second finds the name taken and ends.
            self.start_coordinator(settings, &Way::of_comm_id(comm_id))?;
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
    pub fn group_end(&self) -> Result<Outcome, Fault> {
        let held = match grouping::end()? {
            GroupEnd::Nested => return Ok(Outcome::Done),
            GroupEnd::Goes(held) => held,
        };
        let mut calls = Calls::default();
        held.into_iter().for_each(|held| calls.add(held));
        self.perform(calls)
    }

    /// `ncclGroupSimulateEnd`: what the group would cost, in microseconds of the model; nothing of it runs.
    ///
    /// # Errors
    /// Where there is no group, or a call of it was refused.
    pub fn group_simulate_end(&self) -> Result<f64, Fault> {
        let held = match grouping::end()? {
            GroupEnd::Nested => return Ok(0.0),
            GroupEnd::Goes(held) => held,
        };
        let operations = held.into_iter().filter_map(|held| match held {
            Held::Operation(prepared) => Some(prepared),
            Held::Join(_) | Held::Window(_) => None,
        });
        let predict = |(session, operations): OfSession| {
            let ops = actions_of(&operations)?;
            match session.ask(&ToCoordinator::Predict { ops })? {
                ToRank::Predicted(span) => Ok(span.as_micros_f64()),
                ToRank::Failed(fault) => Err(fault),
                other => Err(Fault::internal(format!("a prediction was answered with {other:?}"))),
            }
        };
        let sessions = by_session(in_parts(operations.collect())?)?;
        let micros = sessions.into_iter().map(predict).collect::<Result<Vec<f64>, Fault>>()?;
        Ok(micros.into_iter().fold(0.0, f64::max))
    }

    /// Holds a call back where a group is open, else performs it.
    pub(crate) fn hold_or_perform(&self, call: Held) -> Result<Outcome, Fault> {
        let Some(call) = grouping::hold(call) else { return Ok(Outcome::Done) };
        let mut calls = Calls::default();
        calls.add(call);
        self.perform(calls)
    }

    /// Joins, makes windows, then runs; in the background where the communicators are non-blocking.
    fn perform(&self, calls: Calls) -> Result<Outcome, Fault> {
        let Some(blocking) = calls.mode()? else { return Ok(Outcome::Done) };
        check_self_pairs(&calls.operations)?;
        let no_uring = self.settings()?.staging.no_uring;
        let is_ordered = self.streams.is_there();
        if blocking || (is_ordered && calls.joins.is_empty() && calls.windows.is_empty()) {
            join_and_tell(calls.joins, no_uring, &self.debug)?;
            window::perform(calls.windows)?;
            return if calls.operations.is_empty() { Ok(Outcome::Done) } else { self.run(calls.operations) };
        }
        let debug = Arc::clone(&self.debug);
        job::start(&*self.spawn, calls.communicators(), move || {
            join_and_tell(calls.joins, no_uring, &debug)?;
            window::perform(calls.windows)?;
            if calls.operations.is_empty() {
                return Ok(());
            }
            let submissions = submit(calls.operations, thread_number())?;
            // The thread that called goes on, and may call for whoever is waited for.
            submissions.iter().for_each(Submission::put_off);
            engine::run(Vec::new(), submissions)
        })
    }

    /// Submits operations and runs them, together with what was put off for them; or puts them off, where this
    /// thread has yet to call for further ranks of the same communicator.
    fn run(&self, operations: Vec<Prepared>) -> Result<Outcome, Fault> {
        if operations.iter().all(|prepared| prepared.stream.is_some()) {
            return self.put_on_streams(operations);
        }
        let mut submissions = submit(operations, thread_number())?;
        let siblings = what_siblings_do(&self.comms, &submissions, &self.deferred());
        let put_off = match siblings {
            Siblings::Come => false,
            Siblings::WaitForUs => true,
            Siblings::Unknown => !released_within(&mut submissions, SIBLING_PATIENCE)?,
        };
        if put_off {
            submissions.iter().for_each(Submission::put_off);
            // Had another thread been about to call, this one would go on without its data: it waits long first.
            if siblings == Siblings::WaitForUs || !released_within(&mut submissions, STRANGER_PATIENCE)? {
                self.deferred().extend(submissions);
                return Ok(Outcome::Done);
            }
        }
        let others = self.take_runnable(&submissions);
        engine::run(others, submissions).map(|()| Outcome::Done)
    }

    /// Submits operations and leaves them to their streams. A communicator that is used on several streams at once
    /// makes them wait for each other, as NCCL does.
    fn put_on_streams(&self, operations: Vec<Prepared>) -> Result<Outcome, Fault> {
        let several = streams_of_one_communicator(&operations);
        let lane = operations.iter().find_map(|prepared| prepared.stream).map(stream_number);
        for streams in &several {
            self.streams.join(streams)?;
        }
        if self.is_captured(&operations)? {
            self.write_down(operations)?;
            for streams in &several {
                self.streams.join(streams)?;
            }
            return Ok(Outcome::Done);
        }
        for submission in submit(operations, lane.unwrap_or_default())? {
            // The thread goes on, and may call for whoever is waited for.
            submission.put_off();
            for (stream, work) in self.engine.post(submission) {
                self.streams.enqueue(stream, work)?;
            }
        }
        for streams in &several {
            self.streams.join(streams)?;
        }
        Ok(Outcome::Done)
    }

    /// Whether the streams of these operations capture.
    fn is_captured(&self, operations: &[Prepared]) -> Result<bool, Fault> {
        let streams: BTreeSet<Stream> = operations.iter().filter_map(|prepared| prepared.stream).collect();
        let mut capturing = 0;
        for &stream in &streams {
            capturing += usize::from(self.streams.is_capturing(stream)?);
        }
        match capturing {
            0 => Ok(false),
            all if all == streams.len() => Ok(true),
            some => Err(Fault::usage(format!(
                "{some} of the {} streams of this group capture into a CUDA graph, and the others do not: let them wait for an \
                 event of the capture first, or call them in groups of their own",
                streams.len()
            ))),
        }
    }

    /// Leaves operations to the graphs that their streams capture.
    fn write_down(&self, operations: Vec<Prepared>) -> Result<(), Fault> {
        for (_, operations) in by_session(operations)? {
            for (stream, work) in Recipe::nodes(&self.engine, operations)? {
                self.streams.capture(stream, work)?;
            }
        }
        Ok(())
    }

    fn deferred(&self) -> MutexGuard<'_, Vec<Submission>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the submissions that need no further call of the thread that put them off, if these have to do with them.
    fn take_runnable(&self, own: &[Submission]) -> Vec<Submission> {
        let here = thread_number();
        let mut deferred = self.deferred();
        let (mut ready, mut rest) = (Vec::new(), Vec::new());
        for submission in std::mem::take(&mut *deferred) {
            if submission.concerns(own) && is_runnable(&self.comms, &submission, &rest) {
                if submission.thread != here {
                    tell_taken_over(&submission);
                }
                ready.push(submission);
            } else {
                rest.push(submission);
            }
        }
        *deferred = rest;
        ready
    }

    /// What was put off on a communicator that ends never runs.
    pub(crate) fn drop_deferred(&self, comm: &Communicator) {
        self.deferred().retain(|submission| {
            let ends = submission.operations().any(|prepared| prepared.comm.handle == comm.handle);
            if ends {
                submission.abandon();
            }
            !ends
        });
    }

    /// Whether an operation of the communicator waits for this process's other ranks.
    pub(crate) fn is_deferred(&self, comm: &Arc<Communicator>) -> bool {
        let is_of = |prepared: &Prepared| Arc::ptr_eq(&prepared.comm, comm);
        self.deferred().iter().flat_map(Submission::operations).any(is_of)
    }

    /// The process ends in order: its sessions say so, and the end of their connections is no death.
    pub fn goodbye(&self) {
        if self.comms.check_process().is_err() {
            return;
        }
        let grouped = grouping::grouped();
        // Whoever opens a session now has nothing to lose yet.
        let Ok(sessions) = self.sessions.try_lock() else { return };
        for session in sessions.iter() {
            session.goodbye(grouped);
        }
    }
}

fn content(way: Option<Way>, random: [u8; 16]) -> IdContent {
    let (address, token) = way.map_or((None, None), |way| (Some(way.address.to_string()), Some(way.token)));
    IdContent { address, token, random }
}

/// The calls that go together, in the order in which they are made.
#[derive(Debug, Default)]
struct Calls {
    joins: Vec<Pending>,
    windows: Vec<PendingWindow>,
    operations: Vec<Prepared>,
}

impl Calls {
    fn add(&mut self, held: Held) {
        match held {
            Held::Join(pending) => self.joins.push(pending),
            Held::Window(pending) => self.windows.push(pending),
            Held::Operation(prepared) => self.operations.push(prepared),
        }
    }

    /// Whether the communicators are blocking ones; `None` where there are no calls.
    fn mode(&self) -> Result<Option<bool>, Fault> {
        let deciders = self.joins.iter().filter_map(Pending::decider).chain(self.used());
        let mut modes = deciders.map(|comm| comm.options.blocking);
        let Some(first) = modes.next() else { return Ok(None) };
        if modes.any(|mode| mode != first) {
            return Err(Fault::argument("blocking and non-blocking communicators are used in one group"));
        }
        Ok(Some(first))
    }

    fn used(&self) -> impl Iterator<Item = &Arc<Communicator>> {
        let windows = self.windows.iter().map(|pending| &pending.comm);
        windows.chain(self.operations.iter().map(|prepared| &prepared.comm))
    }

    /// The communicators, each once, those that others are made from included.
    fn communicators(&self) -> Vec<Arc<Communicator>> {
        let made = self.joins.iter().flat_map(|pending| pending.comm.iter().chain(&pending.parent));
        let mut comms: Vec<_> = made.chain(self.used()).cloned().collect();
        comms.sort_by_key(|comm| comm.handle);
        comms.dedup_by_key(|comm| comm.handle);
        comms
    }
}

/// Joins. Handles of what failed stay valid for the calls that clean up after it.
fn join_and_tell(joins: Vec<Pending>, no_uring: bool, debug: &DebugLog) -> Result<(), Fault> {
    if joins.is_empty() {
        return Ok(());
    }
    let comms: Vec<_> = joins.iter().filter_map(|pending| pending.comm.clone()).collect();
    if let Err(fault) = join_all(joins, no_uring) {
        comms.iter().for_each(|comm| comm.note_fault(&fault));
        return Err(fault);
    }
    for comm in comms {
        debug.info(Subsystem::Init, comm.device, || format!("{} - Init COMPLETE", comm.described()));
    }
    Ok(())
}

/// A call returned without its data, for a thread that was to call for the other ranks too; and another one did.
fn tell_taken_over(submission: &Submission) {
    for comm in involved(std::iter::once(submission)) {
        let rank = comm.rank();
        comm.hazard(
            "put off",
            &format!(
                "a call for rank {rank} returned before its data had come, for its thread seemed to drive the other ranks of \
                 this process too, and another thread called for them: call for all ranks of a process in a group, or \
                 for each in a thread of its own"
            ),
        );
    }
}

/// A stream as the coordinator knows it: what it holds comes one after the other, as what a thread calls does.
fn stream_number(stream: Stream) -> u64 {
    STREAM | (stream.handle as u64) << 8 | u64::from(stream.device)
}

/// The streams of each communicator that is used on several of them.
fn streams_of_one_communicator(operations: &[Prepared]) -> Vec<Vec<Stream>> {
    let mut streams: BTreeMap<Handle, BTreeSet<Stream>> = BTreeMap::new();
    for prepared in operations {
        streams.entry(prepared.comm.handle).or_default().extend(prepared.stream);
    }
    streams
        .into_values()
        .filter(|streams| streams.len() > 1)
        .map(|streams| streams.into_iter().collect())
        .collect()
}

fn check_self_pairs(operations: &[Prepared]) -> Result<(), Fault> {
    let mut pairs = SelfPairs::default();
    for prepared in operations {
        if let Work::Send(transfer, _) | Work::Recv(transfer, _) = &prepared.work {
            pairs.add(prepared.comm.handle.0, prepared.comm.rank(), transfer);
        }
    }
    pairs.check()
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
