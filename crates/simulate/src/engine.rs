//! Submissions on their way to their end: of calls that wait for it, and of calls that have returned and left the rest
//! to their streams.
//!
//! On streams, what they have come to runs, whoever asks. Each submission has a piece of [`StreamWork`] on every stream it is on. A stream that comes to its piece opens
//! that part of the submission; the parts on other streams stay shut until theirs do. Any thread that asks after
//! one piece moves all, so nobody's bytes wait for a thread that is busy elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use fakegpu_proto::Fault;
use fakegpu_units::VirtualSpan;

use crate::communicator::Communicator;
use crate::drive::{self, Blame, Drive, Failure, Submissions};
use crate::streams::{Stream, StreamWork, Turn};
use crate::submission::{Submission, involved};

/// How long one wait keeps others from moving anything.
const SLICE: Duration = Duration::from_millis(1);

/// The same while others want to.
const SHORT_SLICE: Duration = Duration::from_micros(50);

/// How long a call that waits does so before it looks for bad news.
const CALL_SLICE: Duration = Duration::from_millis(20);

/// How often a communicator that ends looks whether its streams have moved.
const FLUSH_SLICE: Duration = Duration::from_millis(5);

/// What is under way, for all streams of the process.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    /// Whoever holds it moves what there is.
    flights: Mutex<Flights>,
    /// What has come meanwhile.
    inbox: Mutex<Inbox>,
    /// Told when submissions have ended.
    landed: Condvar,
    /// Told of news, and when something has ended, together with the inbox.
    stirred: Condvar,
}

#[derive(Debug)]
struct Flights {
    submissions: Submissions,
    told: BTreeMap<u64, Told>,
    /// When something last moved, or nothing waited for others.
    moved_at: Instant,
}

#[derive(Debug, Default)]
struct Inbox {
    /// The number of the next submission.
    next: u64,
    news: Vec<News>,
    /// Counts what came and what ended.
    stirs: u64,
    /// How many threads wait for the holder of the flights.
    waiting: u32,
}

/// What the holder of the flights has to hear.
#[derive(Debug)]
enum News {
    Posted(u64, Box<Submission>, Told),
    Reached(u64, Stream),
    /// A piece will not be asked for again, though it has not ended.
    Dropped(u64),
}

/// Where a submission's pieces read how it ended.
type Told = Arc<OnceLock<Ended>>;

/// How a submission ended.
#[derive(Clone, Debug)]
enum Ended {
    /// It takes this long in the model.
    Well(VirtualSpan),
    /// Its communicator was aborted or revoked: it does no more, and the stream goes on.
    Stopped(Fault),
    Failed(Fault),
}

/// What one stream holds of a submission.
struct Piece {
    engine: Arc<Engine>,
    number: u64,
    stream: Stream,
    told: Told,
    is_reached: bool,
    has_ended: bool,
    /// The inbox's count before its last turn: what came since may have changed things.
    seen: u64,
}

/// Runs submissions to their end: what a call made, together with what was put off for it. Each fails for itself; the
/// answer is about the call's own. A communicator in which something was left to do is given up, and its peers are
/// told: they would wait for bytes that never come.
pub(crate) fn run(put_off: Vec<Submission>, own: Vec<Submission>) -> Result<(), Fault> {
    let comms = involved(put_off.iter().chain(&own));
    let _guards: Vec<_> = comms.iter().map(Communicator::run).collect();
    let mut flights = Flights::default();
    let first = put_off.len();
    let told: Vec<Told> =
        put_off.into_iter().chain(own).zip(0..).map(|(each, number)| flights.add(number, each)).collect();
    loop {
        flights.move_all();
        if flights.submissions.is_empty() {
            break;
        }
        flights.wait(CALL_SLICE);
    }
    let outcome = |told: &Told| match told.get() {
        Some(Ended::Failed(fault) | Ended::Stopped(fault)) => Err(fault.clone()),
        Some(Ended::Well(_)) | None => Ok(()),
    };
    told.iter().skip(first).try_for_each(outcome)
}

impl Engine {
    /// Takes a submission; the work that each of its streams has to be given.
    pub(crate) fn post(self: &Arc<Self>, submission: Submission) -> Vec<(Stream, Box<dyn StreamWork>)> {
        let streams = submission.streams();
        let told = Told::default();
        let number = {
            let mut inbox = self.inbox();
            let number = inbox.next;
            inbox.next += 1;
            inbox.news.push(News::Posted(number, Box::new(submission), Arc::clone(&told)));
            inbox.stirs += 1;
            number
        };
        self.stirred.notify_all();
        let piece = |stream| -> (Stream, Box<dyn StreamWork>) {
            let (engine, told) = (Arc::clone(self), Arc::clone(&told));
            (
                stream,
                Box::new(Piece {
                    engine,
                    number,
                    stream,
                    told,
                    is_reached: false,
                    has_ended: false,
                    seen: 0,
                }),
            )
        };
        streams.into_iter().map(piece).collect()
    }

    /// Waits a bounded while until nothing of a communicator is under way; whether that is so.
    pub(crate) fn flush(&self, comm: &Arc<Communicator>, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            self.hear(&mut flights);
            flights.move_all();
            if !flights.uses(comm) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            // The streams' own thread brings the pieces on; this one only helps.
            flights =
                self.landed.wait_timeout(flights, FLUSH_SLICE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, news: News) {
        self.stir(|inbox| inbox.news.push(news));
    }

    fn stir(&self, change: impl FnOnce(&mut Inbox)) {
        let mut inbox = self.inbox();
        change(&mut inbox);
        inbox.stirs += 1;
        drop(inbox);
        self.stirred.notify_all();
    }

    fn hear(&self, flights: &mut Flights) {
        let news = std::mem::take(&mut self.inbox().news);
        news.into_iter().for_each(|news| flights.hear(news));
    }

    /// Moves what can be moved, unless somebody else does already; what a part took in the model, once it has ended.
    fn turn(&self, number: u64, stream: Stream) -> Option<VirtualSpan> {
        let mut flights = match self.flights.try_lock() {
            Ok(flights) => flights,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let before = flights.submissions.len();
        self.hear(&mut flights);
        flights.move_all();
        if flights.submissions.len() != before {
            self.landed.notify_all();
            self.stir(|_| {});
        }
        let submission = flights.submissions.get(&number)?;
        submission.is_finished_on(stream).then(|| submission.modelled())
    }

    /// Waits a bounded while for the peers, unless somebody else does or only this process can bring things on: then for
    /// whatever stirs here. Nobody queues for the flights: the one who waits for the peers would take them again first.
    fn wait(&self, seen: u64, timeout: Duration) {
        let timeout = timeout.min(SLICE);
        let mut flights = match self.flights.try_lock() {
            Ok(flights) => flights,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.wait_for_stir(seen, timeout),
        };
        self.hear(&mut flights);
        if flights.wait_for_us() {
            drop(flights);
            return self.wait_for_stir(seen, timeout);
        }
        let is_wanted = self.inbox().waiting > 0;
        flights.wait(if is_wanted { timeout.min(SHORT_SLICE) } else { timeout });
    }

    fn wait_for_stir(&self, seen: u64, timeout: Duration) {
        let mut inbox = self.inbox();
        if inbox.stirs != seen {
            return;
        }
        inbox.waiting += 1;
        let mut inbox = self.stirred.wait_timeout(inbox, timeout).unwrap_or_else(PoisonError::into_inner).0;
        inbox.waiting -= 1;
    }
}

impl Default for Flights {
    fn default() -> Self {
        Self { submissions: Submissions::new(), told: BTreeMap::new(), moved_at: Instant::now() }
    }
}

impl Flights {
    fn add(&mut self, number: u64, submission: Submission) -> Told {
        let told = Told::default();
        self.submissions.insert(number, submission);
        self.told.insert(number, Arc::clone(&told));
        told
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Posted(number, submission, told) => {
                self.submissions.insert(number, *submission);
                self.told.insert(number, told);
            }
            News::Reached(number, stream) => {
                if let Some(submission) = self.submissions.get_mut(&number) {
                    submission.reach(stream);
                }
            }
            News::Dropped(number) => {
                if self.submissions.contains_key(&number) {
                    let fault = Fault::usage("the stream of an operation was destroyed before its turn came");
                    self.fail(Failure { blame: Blame::Submission(number), fault });
                }
            }
        }
    }

    /// Moves everything until nothing moves.
    fn move_all(&mut self) {
        while !self.submissions.is_empty() {
            let comms = involved(self.submissions.values());
            let step = Drive::enter(&mut self.submissions, &comms).and_then(|mut drive| {
                let moved = drive.step()?;
                Ok((moved, drive.waits_for_others()))
            });
            match step {
                Ok((moved, waits)) => {
                    if moved || !waits {
                        self.moved_at = Instant::now();
                    }
                    self.land();
                    if !moved {
                        return self.fail_if_silent();
                    }
                }
                Err(failure) => self.fail(failure),
            }
        }
    }

    /// Whether nobody but this process can bring anything on.
    fn wait_for_us(&self) -> bool {
        !self.submissions.is_empty() && self.submissions.values().all(Submission::waits_for_us)
    }

    /// The coordinator bounds every wait: where it says nothing for longer, nobody will.
    fn fail_if_silent(&mut self) {
        let Some(longest) = self.submissions.values().max_by_key(|each| each.session.patience) else {
            return;
        };
        if self.moved_at.elapsed() <= longest.session.patience {
            return;
        }
        let fault = longest.session.silent();
        let all: Vec<u64> = self.submissions.keys().copied().collect();
        for number in all {
            self.fail(Failure { blame: Blame::Submission(number), fault: fault.clone() });
        }
    }

    fn wait(&mut self, timeout: Duration) {
        let comms = involved(self.submissions.values());
        let waited = Drive::enter(&mut self.submissions, &comms).and_then(|mut drive| drive.wait(timeout));
        if let Err(failure) = waited {
            self.fail(failure);
        }
    }

    /// Lets go of what has ended.
    fn land(&mut self) {
        let finished = self.submissions.iter().filter(|(_, each)| each.is_finished());
        let ended: Vec<_> = finished.map(|(&number, each)| (number, each.modelled())).collect();
        ended.into_iter().for_each(|(number, modelled)| self.end(number, Ended::Well(modelled)));
    }

    fn end(&mut self, number: u64, how: Ended) {
        self.submissions.remove(&number);
        if let Some(told) = self.told.remove(&number) {
            told.get_or_init(|| how);
        }
    }

    /// What failed, and all that shares a communicator with it: bytes that never come are waited for nowhere.
    fn fail(&mut self, failure: Failure) {
        let Failure { blame, fault } = failure;
        let is_meant = |number: u64, submission: &Submission| match blame {
            Blame::Submission(meant) => number == meant,
            Blame::Comm(comm) => submission.operations().any(|prepared| prepared.comm.handle == comm),
        };
        let mut numbers: Vec<u64> = self
            .submissions
            .iter()
            .filter(|(number, each)| is_meant(**number, each))
            .map(|(&number, _)| number)
            .collect();
        if numbers.is_empty() {
            // A communicator that nothing of ours is left in.
            numbers = self.submissions.keys().copied().collect();
        }
        drive::give_up(numbers.iter().filter_map(|number| self.submissions.get(number)), &fault);
        for number in numbers {
            let stopped = self.submissions.get(&number).is_some_and(was_stopped);
            self.end(
                number,
                if stopped { Ended::Stopped(fault.clone()) } else { Ended::Failed(fault.clone()) },
            );
        }
    }

    fn uses(&self, comm: &Arc<Communicator>) -> bool {
        let is_of = |submission: &Submission| {
            submission.operations().any(|prepared| Arc::ptr_eq(&prepared.comm, comm))
        };
        self.submissions.values().any(is_of)
    }
}

/// Whether this process has stopped it itself.
fn was_stopped(submission: &Submission) -> bool {
    submission
        .operations()
        .any(|prepared| prepared.comm.aborted.load(Ordering::Acquire) || prepared.comm.state().revoked)
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "piece {} on {:?}", self.number, self.stream)
    }
}

impl StreamWork for Piece {
    fn turn(&mut self) -> Turn {
        if !self.is_reached {
            self.is_reached = true;
            self.engine.say(News::Reached(self.number, self.stream));
        }
        self.seen = self.engine.inbox().stirs;
        let ended = self.engine.turn(self.number, self.stream);
        let turn = match self.told.get() {
            Some(Ended::Failed(fault)) => Turn::Failed(fault.detail.clone()),
            Some(Ended::Well(modelled)) => Turn::Ended(*modelled),
            Some(Ended::Stopped(_)) => Turn::Ended(VirtualSpan::ZERO),
            None => ended.map_or(Turn::Pending, Turn::Ended),
        };
        self.has_ended = turn != Turn::Pending;
        turn
    }

    fn wait(&mut self, timeout: Duration) {
        self.engine.wait(self.seen, timeout);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if !self.has_ended && self.told.get().is_none() {
            self.engine.say(News::Dropped(self.number));
        }
    }
}
