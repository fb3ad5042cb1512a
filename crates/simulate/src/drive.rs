//! Submitting operations, waiting for the coordinator's word, and moving the bytes.
//!
//! One thread may have several ranks and several communicators in hand, whose peers may be each other, so
//! nothing here waits for one of them alone while another could go on: every turn looks at every reply and
//! moves every exchange, and only a turn in which nothing moved waits, for a bounded while.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use fakegpu_executor::Scalar;
use fakegpu_proto::{Descriptor, Fault, Release, ToCoordinator, ToRank};
use fakegpu_staging_shm::{Exchange, Progress, RecvBuffer, Run, SendBuffer};
use fakegpu_units::{DataType, SeqNo};

use crate::communicator::{Communicator, Joined};
use crate::session::Session;

/// How long a turn without movement waits before it looks for bad news.
const SLICE: Duration = Duration::from_millis(20);

/// How long it waits where several things could move.
const SHORT: Duration = Duration::from_micros(200);

/// The coordinator bounds every wait; beyond its longest bound it must be dead or stopped itself.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(600);

/// How long the reason of a failure may take to follow the failure.
const REASON_PATIENCE: Duration = Duration::from_millis(900);

/// An operation ready to be submitted.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) comm: Arc<Communicator>,
    pub(crate) descriptor: Descriptor,
    pub(crate) scalar: Option<Scalar>,
    pub(crate) send: SendBuffer,
    pub(crate) recv: RecvBuffer,
    /// Which of its rank's operations this is, from 1; set when it is submitted.
    pub(crate) ordinal: u64,
}

/// Operations submitted together, on one session.
#[derive(Debug)]
pub(crate) struct Submission {
    session: Arc<Session>,
    request: u64,
    /// Those not yet begun, by their place in the submission.
    waiting: VecDeque<(u32, Prepared)>,
    /// Whether all that wait may run.
    released: bool,
    /// Those that may run although others may not yet.
    some: Vec<u32>,
}

impl Submission {
    /// Submits operations that share a session.
    fn new(session: Arc<Session>, mut operations: Vec<Prepared>) -> Result<Self, Fault> {
        let ops = operations
            .iter()
            .map(|prepared| Ok((prepared.comm.ready()?.comm, prepared.comm.rank, prepared.descriptor)))
            .collect::<Result<Vec<_>, Fault>>()?;
        let request = session.request(&ToCoordinator::Submit { ops })?;
        for prepared in &mut operations {
            prepared.ordinal = prepared.comm.called.fetch_add(1, Ordering::Relaxed) + 1;
        }
        Ok(Self {
            session,
            request,
            waiting: (0..).zip(operations).collect(),
            released: false,
            some: Vec::new(),
        })
    }

    /// The operations that have not begun.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &Prepared> {
        self.waiting.iter().map(|(_, prepared)| prepared)
    }

    /// Waits a bounded while for the word that something of it may run.
    pub(crate) fn is_released_within(&mut self, timeout: Duration) -> Result<bool, Fault> {
        if let Some(reply) = self.session.reply(self.request, timeout)? {
            self.hear(reply)?;
        }
        Ok(self.released || !self.some.is_empty())
    }

    /// Whether more will be said about it.
    fn is_open(&self) -> bool {
        !self.released
    }

    fn hear(&mut self, reply: ToRank) -> Result<(), Fault> {
        match reply {
            ToRank::Go(Release::Rest) => self.released = true,
            ToRank::Go(Release::Some(places)) => self.some.extend(places),
            ToRank::Failed(fault) => return Err(fault),
            other => return Err(Fault::internal(format!("a submission was answered with {other:?}"))),
        }
        Ok(())
    }

    /// Takes the first operation of `comm` that may run now.
    fn next_for(&mut self, comm: &Arc<Communicator>) -> Option<Prepared> {
        let at = self.waiting.iter().position(|(_, prepared)| Arc::ptr_eq(&prepared.comm, comm))?;
        let place = self.waiting[at].0;
        (self.released || self.some.contains(&place))
            .then(|| self.waiting.remove(at))
            .flatten()
            .map(|(_, prepared)| prepared)
    }
}

/// Submits operations, in call order, to the sessions they belong to.
pub(crate) fn submit(operations: Vec<Prepared>) -> Result<Vec<Submission>, Fault> {
    let mut by_session: Vec<(Arc<Session>, Vec<Prepared>)> = Vec::new();
    for prepared in operations {
        let session = Arc::clone(&prepared.comm.ready()?.session);
        match by_session.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &session)) {
            Some((_, operations)) => operations.push(prepared),
            None => by_session.push((session, vec![prepared])),
        }
    }
    by_session.into_iter().map(|(session, operations)| Submission::new(session, operations)).collect()
}

/// One communicator's exchange while its operations run.
struct Lane<'a> {
    comm: &'a Arc<Communicator>,
    joined: &'a Joined,
    exchange: MutexGuard<'a, Box<dyn Exchange>>,
    busy: bool,
}

impl Lane<'_> {
    fn begin(&mut self, prepared: &Prepared) -> Result<(), Fault> {
        let (plan, reduction) =
            fakegpu_executor::plan_of(&prepared.descriptor, self.comm.size, self.joined.slot_bytes)
                .map_err(Fault::system)?;
        let scalar = prepared.scalar.or_else(|| reduction.and_then(|reduction| reduction.prescale_scalar()));
        let run = Run {
            plan,
            reduction,
            scalar,
            send: prepared.send,
            recv: prepared.recv,
            // A plan that only moves counts bytes, whatever their type.
            data_type: reduction.map_or(DataType::UInt8, |reduction| reduction.data_type),
            comm: self.joined.comm,
            seq: SeqNo(self.comm.called.load(Ordering::Relaxed)),
        };
        self.busy = true;
        let begun = self.exchange.begin(run);
        begun.map_err(|error| self.reason(&error.to_string()))
    }

    /// Moves what can be moved; whether anything was.
    fn turn(&mut self) -> Result<bool, Fault> {
        let mut moved = false;
        while self.busy {
            match self.exchange.poll() {
                Ok(Progress::Done) => {
                    self.busy = false;
                    moved = true;
                }
                Ok(Progress::Moved) => moved = true,
                Ok(Progress::Waiting) => break,
                Err(error) => return Err(self.reason(&error.to_string())),
            }
        }
        Ok(moved)
    }

    /// Poisons the exchange; the coordinator is told unless it was the one that said so.
    fn give_up(&mut self, fault: &Fault) {
        let is_news = self.comm.fault().is_none();
        self.exchange.fail();
        self.comm.note_fault(fault);
        if is_news {
            let why = fault.detail.clone();
            self.joined.session.tell(&ToCoordinator::Broken {
                comm: self.joined.comm,
                rank: self.comm.rank,
                why,
            });
        }
    }

    /// An exchange fails because a peer did: the coordinator knows better why, and is about to say so.
    fn reason(&self, seen: &str) -> Fault {
        let deadline = Instant::now() + REASON_PATIENCE;
        while Instant::now() < deadline {
            if let Some(fault) = self.comm.fault() {
                return fault;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        Fault::remote(format!("the bytes of communicator {} could not be moved: {seen}", self.joined.comm))
    }
}

/// Runs submissions to their end. On failure every communicator in which something was left to do is given up,
/// and its peers are told: they would wait for bytes that never come.
pub(crate) fn run(mut submissions: Vec<Submission>) -> Result<(), Fault> {
    let comms = involved(&submissions);
    let mut lanes = lock(&comms)?;
    let outcome = run_lanes(&mut submissions, &mut lanes);
    if let Err(fault) = &outcome {
        for submission in &submissions {
            if submission.is_open() {
                submission.session.abandon(submission.request);
            }
        }
        for lane in &mut lanes {
            let left = submissions
                .iter()
                .flat_map(Submission::operations)
                .any(|prepared| Arc::ptr_eq(&prepared.comm, lane.comm));
            if lane.busy || left {
                lane.give_up(fault);
            }
        }
    }
    outcome
}

fn involved(submissions: &[Submission]) -> Vec<Arc<Communicator>> {
    let mut comms: Vec<Arc<Communicator>> = Vec::new();
    for prepared in submissions.iter().flat_map(Submission::operations) {
        if !comms.iter().any(|comm| Arc::ptr_eq(comm, &prepared.comm)) {
            comms.push(Arc::clone(&prepared.comm));
        }
    }
    // One order for all threads, so that two groups over the same communicators cannot block each other.
    comms.sort_by_key(|comm| comm.handle);
    comms
}

fn lock(comms: &[Arc<Communicator>]) -> Result<Vec<Lane<'_>>, Fault> {
    comms
        .iter()
        .map(|comm| {
            let joined = comm.ready()?;
            Ok(Lane { comm, joined, exchange: enter(comm, joined), busy: false })
        })
        .collect()
}

/// Takes a communicator's exchange. NCCL leaves it to programs to keep two threads out of one communicator; we
/// say so once and let them in one after the other.
fn enter<'a>(comm: &Communicator, joined: &'a Joined) -> MutexGuard<'a, Box<dyn Exchange>> {
    match joined.exchange.try_lock() {
        Ok(exchange) => exchange,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            if !comm.crowd_told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    "two threads use communicator {} at once: the order of their calls is left to chance",
                    joined.comm
                );
            }
            joined.exchange.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

fn run_lanes(submissions: &mut [Submission], lanes: &mut [Lane<'_>]) -> Result<(), Fault> {
    let mut last_moved = Instant::now();
    loop {
        let mut moved = hear_all(submissions)?;
        for lane in lanes.iter_mut() {
            moved |= lane.turn()?;
            while !lane.busy
                && let Some(prepared) =
                    submissions.iter_mut().find_map(|submission| submission.next_for(lane.comm))
            {
                lane.begin(&prepared)?;
                moved = true;
                lane.turn()?;
            }
        }
        if submissions.iter().all(|submission| submission.waiting.is_empty())
            && lanes.iter().all(|lane| !lane.busy)
        {
            return Ok(());
        }
        if moved {
            last_moved = Instant::now();
            continue;
        }
        wait(submissions, lanes)?;
        look_for_bad_news(lanes)?;
        if last_moved.elapsed() > COORDINATOR_PATIENCE {
            return Err(Fault::system(
                "timeout: the coordinator has said nothing for ten minutes; it may be stopped",
            ));
        }
    }
}

/// Hears what has come about submissions, without waiting.
fn hear_all(submissions: &mut [Submission]) -> Result<bool, Fault> {
    let mut heard = false;
    for submission in submissions.iter_mut() {
        while submission.is_open()
            && let Some(reply) = submission.session.reply(submission.request, Duration::ZERO)?
        {
            submission.hear(reply)?;
            heard = true;
        }
    }
    Ok(heard)
}

/// Waits until something may have moved.
fn wait(submissions: &mut [Submission], lanes: &mut [Lane<'_>]) -> Result<(), Fault> {
    let busy = lanes.iter().filter(|lane| lane.busy).count();
    let open = submissions.iter().filter(|submission| submission.is_open()).count();
    let alone = busy + open == 1;
    if let Some(lane) = lanes.iter_mut().find(|lane| lane.busy) {
        lane.exchange.wait(if alone { SLICE } else { SHORT });
    } else if let Some(submission) = submissions.iter_mut().find(|submission| submission.is_open())
        && let Some(reply) =
            submission.session.reply(submission.request, if alone { SLICE } else { SHORT })?
    {
        submission.hear(reply)?;
    }
    Ok(())
}

/// Whether a communicator in hand has failed or was aborted.
fn look_for_bad_news(lanes: &[Lane<'_>]) -> Result<(), Fault> {
    for lane in lanes {
        if lane.comm.aborted.load(Ordering::Acquire) {
            return Err(Fault::usage("the communicator was aborted while an operation ran"));
        }
        if let Some(fault) = lane.comm.fault() {
            return Err(fault);
        }
    }
    Ok(())
}
