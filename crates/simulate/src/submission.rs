//! Operations submitted together, and which of them may run.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fakegpu_proto::{Action, Fault, Release, ToCoordinator, ToRank};
use fakegpu_units::{CommId, GlobalRank, Rank, VirtualSpan};

use crate::Handle;
use crate::communicator::Communicator;
use crate::operation::{Prepared, Work};
use crate::session::Session;
use crate::streams::Stream;

/// What runs in the order of its submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// All that a rank of the job does, by its session, where there are no streams: a call ends before it returns.
    Rank(usize, GlobalRank),
    /// What is called on a communicator, where streams order the rest.
    Comm(Handle),
}

/// Operations submitted together, on one session.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) session: Arc<Session>,
    /// The thread that called, or the stream it called on, as the coordinator knows it.
    pub(crate) thread: u64,
    /// The request it was submitted by; none where it holds only signals, which nobody has to release.
    request: Option<u64>,
    entries: Vec<Entry>,
    /// Entries by the place the coordinator knows them by.
    places: Vec<usize>,
    /// Entries that may run and have not begun, in the order of their release.
    ready: VecDeque<usize>,
    /// Whether more will be said about it.
    open: bool,
    /// Operations that have not ended, by what they follow.
    unfinished: BTreeMap<Key, usize>,
    /// What it takes in the model, as the coordinator said.
    modelled: VirtualSpan,
    /// Streams whose earlier work has ended: what is on others may not begin yet.
    reached: BTreeSet<Stream>,
}

/// One operation and how far it is.
#[derive(Debug)]
struct Entry {
    prepared: Prepared,
    key: Key,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Ready,
    Running,
    Ended,
}

impl Submission {
    /// Submits operations that share a session.
    fn new(session: Arc<Session>, operations: Vec<Prepared>, thread: u64) -> Result<Self, Fault> {
        let operations = in_parts(operations)?;
        let ops = actions_of(&operations)?;
        let request = match ops.is_empty() {
            true => None,
            false => Some(session.request(&ToCoordinator::Submit { ops, thread })?),
        };
        let mut submission = Self {
            session,
            thread,
            request,
            entries: Vec::new(),
            places: Vec::new(),
            ready: VecDeque::new(),
            open: request.is_some(),
            unfinished: BTreeMap::new(),
            modelled: VirtualSpan::ZERO,
            reached: BTreeSet::new(),
        };
        submission.enter(operations);
        submission.entries.iter_mut().for_each(|entry| entry.prepared.count());
        Ok(submission)
    }

    /// Makes these its operations.
    fn enter(&mut self, operations: Vec<Prepared>) {
        let session = Arc::as_ptr(&self.session).addr();
        self.entries = operations
            .into_iter()
            .map(|prepared| {
                let key = match prepared.stream {
                    Some(_) => Key::Comm(prepared.comm.handle),
                    None => Key::Rank(session, prepared.comm.global().unwrap_or_default()),
                };
                Entry { prepared, key, state: State::Waiting }
            })
            .collect();
        let has_place = |index: &usize| self.entries[*index].prepared.work.action().is_some();
        self.places = (0..self.entries.len()).filter(has_place).collect();
        self.unfinished.clear();
        for index in 0..self.entries.len() {
            *self.unfinished.entry(self.entries[index].key).or_default() += 1;
            if matches!(self.entries[index].prepared.work, Work::Signal { .. }) {
                self.make_ready(index);
            }
        }
    }

    /// The operations that have not ended.
    pub(crate) fn operations(&self) -> impl Iterator<Item = &Prepared> {
        self.entries.iter().filter(|entry| entry.state != State::Ended).map(|entry| &entry.prepared)
    }

    /// One of its operations.
    pub(crate) fn operation(&self, index: usize) -> &Prepared {
        &self.entries[index].prepared
    }

    /// What has something left to do in it.
    pub(crate) fn busy_keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.unfinished.keys().copied()
    }

    /// Whether it has to do with any of these: a communicator, or what it has to follow.
    pub(crate) fn concerns(&self, others: &[Self]) -> bool {
        let session = |submission: &Self| Arc::as_ptr(&submission.session).addr();
        let comms = |submission: &Self| -> BTreeSet<CommId> {
            submission.operations().filter_map(|prepared| Some(prepared.comm.joined.get()?.comm)).collect()
        };
        let (here, own) = (session(self), comms(self));
        others.iter().any(|other| {
            session(other) == here
                && (!comms(other).is_disjoint(&own)
                    || other.busy_keys().any(|key| self.unfinished.contains_key(&key)))
        })
    }

    /// The streams it is on, each once.
    pub(crate) fn streams(&self) -> BTreeSet<Stream> {
        self.entries.iter().filter_map(|entry| entry.prepared.stream).collect()
    }

    /// Whether only this process can bring it on: the coordinator has said all, and what is missing is a stream that has
    /// not come to it, or another rank of the process.
    pub(crate) fn waits_for_us(&self) -> bool {
        !self.open
            && (self.waits_for_streams()
                || self.operations().all(|prepared| prepared.comm.is_of_one_process()))
    }

    /// Whether nothing of it can go on before a stream has come to it.
    fn waits_for_streams(&self) -> bool {
        let is_shut =
            |entry: &&Entry| entry.prepared.stream.is_some_and(|stream| !self.reached.contains(&stream));
        self.entries.iter().filter(|entry| entry.state != State::Ended).any(|entry| is_shut(&entry))
    }

    /// A stream's earlier work has ended.
    pub(crate) fn reach(&mut self, stream: Stream) {
        self.reached.insert(stream);
    }

    /// The operation at a place of its, if there is one.
    pub(crate) fn at(&self, place: usize) -> Option<&Prepared> {
        self.entries.get(place).map(|entry| &entry.prepared)
    }

    /// Whether all of it that is on a stream has ended.
    pub(crate) fn is_finished_on(&self, stream: Stream) -> bool {
        self.operations().all(|prepared| prepared.stream != Some(stream))
    }

    /// Whether all has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.unfinished.is_empty()
    }

    /// What it takes in the model; nothing where that is not known.
    pub(crate) const fn modelled(&self) -> VirtualSpan {
        self.modelled
    }

    /// Whether more will be said about it.
    pub(crate) const fn is_open(&self) -> bool {
        self.open
    }

    /// Waits a bounded while for the word that something of it may run.
    pub(crate) fn is_released_within(&mut self, timeout: Duration) -> Result<bool, Fault> {
        self.hear_one(timeout)?;
        Ok(!self.open || !self.ready.is_empty())
    }

    /// Hears the next word about it, if one comes in time.
    pub(crate) fn hear_one(&mut self, timeout: Duration) -> Result<bool, Fault> {
        let Some(request) = self.request.filter(|_| self.open) else { return Ok(false) };
        let Some(reply) = self.session.reply(request, timeout)? else { return Ok(false) };
        self.hear(reply)?;
        Ok(true)
    }

    fn hear(&mut self, reply: ToRank) -> Result<(), Fault> {
        match reply {
            ToRank::Go(Release::Rest) => {
                self.open = false;
                (0..self.entries.len()).for_each(|index| self.make_ready(index));
            }
            ToRank::Go(Release::Some(places)) => {
                for place in places {
                    let index = usize::try_from(place).ok().and_then(|place| self.places.get(place).copied());
                    self.make_ready(
                        index.ok_or_else(|| Fault::internal(format!("no operation has place {place}")))?,
                    );
                }
            }
            ToRank::Go(Release::Pairwise) => self.become_pairwise()?,
            ToRank::Modelled(span) => self.modelled = span,
            ToRank::Failed(fault) => {
                self.open = false;
                return Err(fault);
            }
            other => return Err(Fault::internal(format!("a submission was answered with {other:?}"))),
        }
        Ok(())
    }

    fn make_ready(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index).filter(|entry| entry.state == State::Waiting) {
            entry.state = State::Ready;
            self.ready.push_back(index);
        }
    }

    /// Its one collective runs as transfers. What it needs of other ranks stays what it was.
    fn become_pairwise(&mut self) -> Result<(), Fault> {
        let (Some(only), true) = (self.entries.pop(), self.entries.is_empty()) else {
            return Err(Fault::internal("a submission of several operations was told to run in pairs"));
        };
        let need = only.prepared.need.clone();
        let mut parts = only.prepared.into_transfers()?;
        parts.iter_mut().for_each(|part| part.need = need.clone());
        self.ready.clear();
        self.enter(parts);
        Ok(())
    }

    /// Takes the operations that may begin now, in the order of their release: those of ranks that earlier
    /// submissions do not hold up.
    pub(crate) fn take_ready(&mut self, is_held: impl Fn(Key) -> bool) -> Vec<usize> {
        let mut begun = Vec::new();
        let mut held = VecDeque::new();
        while let Some(index) = self.ready.pop_front() {
            let entry = &self.entries[index];
            // A signal says that what was put before it has arrived.
            let comes_too_early = matches!(entry.prepared.work, Work::Signal { .. })
                && self.entries[..index].iter().any(|other| {
                    other.state != State::Ended && matches!(other.prepared.work, Work::Put { .. })
                })
                && !begun.iter().any(|&other| other < index && self.is_put(other));
            let is_reached = entry.prepared.stream.is_none_or(|stream| self.reached.contains(&stream));
            if is_held(entry.key) || comes_too_early || !is_reached {
                held.push_back(index);
            } else {
                self.entries[index].state = State::Running;
                begun.push(index);
            }
        }
        self.ready = held;
        begun
    }

    fn is_put(&self, index: usize) -> bool {
        matches!(self.entries[index].prepared.work, Work::Put { .. })
    }

    /// An operation has ended.
    pub(crate) fn end(&mut self, index: usize) {
        let Some(entry) = self.entries.get_mut(index) else { return };
        if std::mem::replace(&mut entry.state, State::Ended) == State::Ended {
            return;
        }
        let key = entry.key;
        if let Some(count) = self.unfinished.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.unfinished.remove(&key);
            }
        }
    }

    /// The thread goes on without waiting for it.
    pub(crate) fn put_off(&self) {
        if let Some(submission) = self.request {
            self.session.say(&ToCoordinator::PutOff { submission });
        }
    }

    /// Nobody will hear what is said about it.
    pub(crate) fn abandon(&self) {
        if let Some(request) = self.request.filter(|_| self.open) {
            self.session.abandon(request);
        }
    }
}

/// Collectives that are made of transfers become those, but for an all-to-all that is alone.
pub(crate) fn in_parts(operations: Vec<Prepared>) -> Result<Vec<Prepared>, Fault> {
    let is_alone = operations.len() == 1;
    if !operations.iter().any(|prepared| prepared.work.is_made_of_transfers(is_alone)) {
        return Ok(operations);
    }
    let mut parts = Vec::new();
    for prepared in operations {
        if prepared.work.is_made_of_transfers(is_alone) {
            parts.extend(prepared.into_transfers()?);
        } else {
            parts.push(prepared);
        }
    }
    Ok(parts)
}

/// Submits operations, in call order, to the sessions they belong to.
pub(crate) fn submit(operations: Vec<Prepared>, thread: u64) -> Result<Vec<Submission>, Fault> {
    by_session(operations)?
        .into_iter()
        .map(|(session, operations)| Submission::new(session, operations, thread))
        .collect()
}

/// Operations of communicators of one session.
pub(crate) type OfSession = (Arc<Session>, Vec<Prepared>);

/// Operations by the session of their communicators, in call order.
pub(crate) fn by_session(operations: Vec<Prepared>) -> Result<Vec<OfSession>, Fault> {
    let mut by_session: Vec<OfSession> = Vec::new();
    for prepared in operations {
        let session = Arc::clone(&prepared.comm.ready()?.session);
        match by_session.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &session)) {
            Some((_, operations)) => operations.push(prepared),
            None => by_session.push((session, vec![prepared])),
        }
    }
    Ok(by_session)
}

/// Operations as the coordinator is told of them; those that it need not know of are left out.
pub(crate) fn actions_of(operations: &[Prepared]) -> Result<Vec<(CommId, Rank, Action)>, Fault> {
    let mut ops = Vec::with_capacity(operations.len());
    for prepared in operations {
        if let Some(action) = prepared.work.action() {
            ops.push((prepared.comm.ready()?.comm, prepared.comm.rank(), action));
        }
    }
    Ok(ops)
}

/// The communicators in which submissions have something left to do, each once, by handle: one order for all
/// threads, so that two groups over the same communicators cannot block each other.
pub(crate) fn involved<'a>(submissions: impl Iterator<Item = &'a Submission>) -> Vec<Arc<Communicator>> {
    let mut comms = BTreeMap::new();
    for prepared in submissions.flat_map(Submission::operations) {
        comms.entry(prepared.comm.handle).or_insert_with(|| Arc::clone(&prepared.comm));
    }
    comms.into_values().collect()
}
