//! A process's connection to a coordinator, shared by all its threads.
//!
//! Any thread sends. To receive, one of the waiting threads reads for all: it files each reply under its
//! request, each failure under its communicator, and passes the reading on when its own reply has come. So
//! there is no thread of ours in the program, and a single-threaded program pays one read a reply.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fakegpu_config::env::{Address, Payload, Settings};
use fakegpu_proto::{DataHello, Fault, Hello, Lane, Placement, Release, ToCoordinator, ToRank};
use fakegpu_transport::{Dialer, Link, LinkError, Receiver, Sender, Wire};
use fakegpu_transport_tcp::TcpDialer;
use fakegpu_transport_uds::UdsDialer;
use fakegpu_units::{CommId, GlobalRank, Rank, SessionId};

use crate::process;

/// How long a coordinator may take to take or answer what needs no other rank.
const PROMPT: Duration = Duration::from_secs(20);

/// The coordinator bounds every wait. Where nothing else is set, beyond this it must be dead or stopped itself.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(600);

/// What it may take beyond a time-out that was set.
const COORDINATOR_GRACE: Duration = Duration::from_secs(60);

/// How long a coordinator that was there a moment ago may take to be dialled again: it may be busy, not late.
const REDIAL: Duration = Duration::from_millis(500);

/// How often a wait looks whether it has become pointless.
const SLICE: Duration = Duration::from_millis(50);

/// A connection to a coordinator.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) address: Address,
    pub(crate) token: Option<String>,
    pub(crate) id: SessionId,
    secret: u64,
    pid: u32,
    dialer: Box<dyn Dialer>,
    sender: Sender,
    receiver: Mutex<Receiver>,
    inbox: Mutex<Inbox>,
    changed: Condvar,
    next_request: AtomicU64,
    /// Beyond this the coordinator must be dead or stopped itself.
    pub(crate) patience: Duration,
}

/// What has come and not been taken.
#[derive(Debug, Default)]
struct Inbox {
    replies: BTreeMap<u64, Vec<ToRank>>,
    /// Communicators that have a rank in this process; what is said of others is of no interest any more.
    live: BTreeSet<CommId>,
    faults: BTreeMap<CommId, Fault>,
    /// Requests whose answers nobody will fetch.
    abandoned: BTreeSet<u64>,
    lost: Option<String>,
    reading: bool,
}

fn dialer(address: &Address) -> Box<dyn Dialer> {
    match address {
        Address::Unix(path) => Box::new(UdsDialer::new(path)),
        Address::Tcp { .. } => Box::new(TcpDialer::new(&address.to_string())),
    }
}

/// Dials until the coordinator answers: a launcher may start it at the same moment as the ranks.
fn dial(dialer: &dyn Dialer, patience: Duration) -> Result<Wire, Fault> {
    let deadline = Instant::now() + patience;
    let mut pause = Duration::from_millis(1);
    loop {
        match dialer.dial(patience.max(Duration::from_secs(1))) {
            Ok(wire) => return Ok(wire),
            Err(error) if Instant::now() >= deadline => {
                return Err(Fault::system(format!(
                    "connect() failed for the coordinator at `{}`: {error}. Is it running? `fakegpu run` starts one, \
                     and so does `fakegpu-coordinator`",
                    dialer.address()
                )));
            }
            Err(_) => {
                std::thread::park_timeout(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
    }
}

impl Session {
    /// Connects and says hello.
    pub(crate) fn open(
        address: Address,
        token: Option<String>,
        settings: &Settings,
        patience: Duration,
    ) -> Result<Self, Fault> {
        let dialer = dialer(&address);
        let mut link = Link::new(dial(&*dialer, patience)?);
        let hello = ToCoordinator::Hello(Box::new(hello(settings, token.clone())));
        let lost =
            |error: LinkError| Fault::system(format!("the coordinator at `{}`: {error}", dialer.address()));
        link.send(1, &hello, PROMPT).map_err(lost)?;
        let (id, secret) = match link.receive::<ToRank>(PROMPT).map_err(lost)? {
            Some((_, ToRank::Welcome { session, secret })) => (session, secret),
            Some((_, ToRank::Failed(fault))) => return Err(fault),
            Some((_, other)) => {
                return Err(Fault::internal(format!("the coordinator answered hello with {other:?}")));
            }
            None => {
                return Err(Fault::system(format!(
                    "the coordinator at `{}` does not answer",
                    dialer.address()
                )));
            }
        };
        tracing::debug!(%address, session = id.0, "session open");
        let (sender, receiver) = link.split();
        Ok(Self {
            address,
            token,
            id,
            secret,
            pid: std::process::id(),
            dialer,
            sender,
            receiver: Mutex::new(receiver),
            inbox: Mutex::new(Inbox::default()),
            changed: Condvar::new(),
            next_request: AtomicU64::new(2),
            patience: patience_of(settings),
        })
    }

    /// Whether somebody listens at an address.
    pub(crate) fn is_there(address: &Address) -> bool {
        dialer(address).dial(Duration::from_secs(1)).is_ok()
    }

    /// Sends a request; its reply is fetched by the number.
    pub(crate) fn request(&self, message: &ToCoordinator) -> Result<u64, Fault> {
        self.check_process()?;
        let request = self.next_request.fetch_add(1, Ordering::Relaxed);
        self.sender.send(request, message, PROMPT).map_err(|error| {
            // Half a frame may be in the stream: nothing that follows would mean anything.
            let why = error.to_string();
            self.inbox().lost = Some(why.clone());
            self.changed.notify_all();
            self.lost_fault(&why)
        })?;
        Ok(request)
    }

    /// Sends what needs no answer. A coordinator that is gone needs not be told.
    pub(crate) fn tell(&self, message: &ToCoordinator) {
        if let Ok(request) = self.request(message) {
            self.abandon(request);
        }
    }

    /// Sends what the coordinator does not answer.
    pub(crate) fn say(&self, message: &ToCoordinator) {
        // A coordinator that is gone needs not be told, and whoever waits for it notices.
        drop(self.request(message));
    }

    /// Nobody will fetch this request's answers any more.
    pub(crate) fn abandon(&self, request: u64) {
        let mut inbox = self.inbox();
        let come = inbox.replies.remove(&request);
        if !come.is_some_and(|replies| replies.iter().any(is_last)) {
            inbox.abandoned.insert(request);
        }
    }

    /// Waits for a request's reply as long as the coordinator may take, unless `stop` has a reason not to.
    pub(crate) fn reply_unless(
        &self,
        request: u64,
        stop: impl Fn() -> Result<(), Fault>,
    ) -> Result<ToRank, Fault> {
        let deadline = Instant::now() + self.patience;
        while Instant::now() < deadline {
            if let Some(reply) = self.reply(request, SLICE)? {
                return Ok(reply);
            }
            stop().inspect_err(|_| self.abandon(request))?;
        }
        self.abandon(request);
        Err(self.silent())
    }

    /// Nothing has been heard for longer than the coordinator lets anything last.
    pub(crate) fn silent(&self) -> Fault {
        let (address, seconds) = (&self.address, self.patience.as_secs());
        Fault::system(format!(
            "timeout: the coordinator at `{address}` has said nothing for {seconds} s; it may be stopped"
        ))
    }

    /// What is remembered of a communicator's failure goes with the communicator.
    pub(crate) fn forget(&self, comm: CommId) {
        let mut inbox = self.inbox();
        inbox.live.remove(&comm);
        inbox.faults.remove(&comm);
    }

    /// Whether the connection is gone, as far as anyone has noticed.
    pub(crate) fn is_lost(&self) -> bool {
        self.inbox().lost.is_some()
    }

    /// Sends a request and waits for its one reply, which needs no other rank.
    pub(crate) fn ask(&self, message: &ToCoordinator) -> Result<ToRank, Fault> {
        let request = self.request(message)?;
        self.reply(request, PROMPT)?
            .ok_or_else(|| Fault::system(format!("the coordinator at `{}` does not answer", self.address)))
    }

    /// The next reply to a request, or `None` where none came in time.
    pub(crate) fn reply(&self, request: u64, timeout: Duration) -> Result<Option<ToRank>, Fault> {
        self.check_process()?;
        let deadline = Instant::now() + timeout;
        let mut inbox = self.inbox();
        loop {
            if let Some(reply) = inbox.take(request) {
                return Ok(Some(reply));
            }
            if let Some(why) = &inbox.lost {
                return Err(self.lost_fault(why));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if inbox.reading {
                if left.is_zero() {
                    return Ok(None);
                }
                inbox = self.changed.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner).0;
            } else {
                let came;
                (inbox, came) = self.read_for_all(inbox, left);
                if !came && left.is_zero() {
                    return Ok(inbox.take(request));
                }
            }
        }
    }

    /// Files whatever has come, without waiting; then whether a communicator has failed.
    pub(crate) fn fault_of(&self, comm: CommId) -> Option<Fault> {
        if let Err(fault) = self.check_process() {
            return Some(fault);
        }
        let mut inbox = self.inbox();
        while !inbox.reading && inbox.lost.is_none() {
            let came;
            (inbox, came) = self.read_for_all(inbox, Duration::ZERO);
            if !came {
                break;
            }
        }
        let lost = inbox.lost.clone();
        inbox.faults.get(&comm).cloned().or_else(|| lost.map(|why| self.lost_fault(&why)))
    }

    /// Reads one message, with the inbox unlocked meanwhile; whether one came.
    fn read_for_all<'a>(
        &'a self,
        mut inbox: MutexGuard<'a, Inbox>,
        timeout: Duration,
    ) -> (MutexGuard<'a, Inbox>, bool) {
        inbox.reading = true;
        drop(inbox);
        let got = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).receive::<ToRank>(timeout);
        let mut inbox = self.inbox();
        inbox.reading = false;
        let came = matches!(got, Ok(Some(_)));
        match got {
            Ok(Some((request, message))) => inbox.file(request, message),
            Ok(None) => {}
            Err(error) => inbox.lost = Some(error.to_string()),
        }
        self.changed.notify_all();
        (inbox, came)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A second connection, for one rank's tensor bytes.
    pub(crate) fn open_data(&self, comm: CommId, rank: Rank, lane: Lane) -> Result<Wire, Fault> {
        let mut link = Link::new(dial(&*self.dialer, REDIAL)?);
        let hello =
            ToCoordinator::Data(DataHello { session: self.id, secret: self.secret, comm, rank, lane });
        link.send(1, &hello, PROMPT).map_err(|error| self.lost_fault(&error.to_string()))?;
        match link.receive::<ToRank>(PROMPT).map_err(|error| self.lost_fault(&error.to_string()))? {
            Some((_, ToRank::Attached)) => {
                link.into_wire().ok_or_else(|| Fault::internal("the data connection is still in use"))
            }
            Some((_, ToRank::Failed(fault))) => Err(fault),
            _ => Err(Fault::system("the coordinator did not accept a data connection")),
        }
    }

    /// Says that the process ends in order. Nothing is waited for long: the process is on its way out.
    pub(crate) fn goodbye(&self, grouped: u32) {
        if self.check_process().is_ok()
            && let Ok(request) = self.request(&ToCoordinator::Goodbye { grouped })
            && let Err(fault) = self.reply(request, Duration::from_millis(500))
        {
            tracing::debug!(%fault, "goodbye was not heard");
        }
    }

    /// A forked child shares the socket with its parent and would steal its replies.
    pub(crate) fn check_process(&self) -> Result<(), Fault> {
        process::check_not_forked(self.pid)
    }

    fn lost_fault(&self, why: &str) -> Fault {
        Fault::system(format!("connect() failed: the coordinator at `{}` is gone ({why})", self.address))
    }
}

impl Inbox {
    fn take(&mut self, request: u64) -> Option<ToRank> {
        let replies = self.replies.get_mut(&request)?;
        let reply = replies.remove(0);
        if replies.is_empty() {
            self.replies.remove(&request);
        }
        Some(reply)
    }

    fn file(&mut self, request: u64, message: ToRank) {
        match message {
            ToRank::CommFailed { comm, fault } => {
                if self.live.contains(&comm) {
                    self.faults.entry(comm).or_insert(fault);
                }
            }
            ToRank::Notice(text) => tracing::warn!("{text}"),
            message if self.abandoned.contains(&request) => {
                if is_last(&message) {
                    self.abandoned.remove(&request);
                }
            }
            message => {
                // What follows is told of the communicator alone, before anybody may have read this.
                if let ToRank::Joined { comm, .. } = &message {
                    self.live.insert(*comm);
                }
                self.replies.entry(request).or_default().push(message);
            }
        }
    }
}

/// Whether nothing more is said about a request.
const fn is_last(message: &ToRank) -> bool {
    !matches!(message, ToRank::Go(Release::Some(_) | Release::Pairwise) | ToRank::Modelled(_))
}

fn patience_of(settings: &Settings) -> Duration {
    let timeouts = [settings.timeouts.join_ms, settings.timeouts.collective_ms];
    let longest = timeouts.into_iter().flatten().max().map(Duration::from_millis).unwrap_or_default();
    COORDINATOR_PATIENCE.max(longest.saturating_add(COORDINATOR_GRACE))
}

fn hello(settings: &Settings, token: Option<String>) -> Hello {
    Hello {
        pid: std::process::id(),
        host: process::host_identity(),
        node: settings.node.clone(),
        program: process::program_name(),
        dist_mode: settings.dist_mode.map_or_else(|| "simulate".to_owned(), |mode| mode.to_string()),
        force_socket: settings.staging.force_socket,
        token,
        placement: settings.placement.as_ref().map(|placement| Placement {
            global_rank: GlobalRank(placement.global_rank),
            world_size: placement.world_size,
            local_rank: placement.local_rank,
        }),
        join_timeout_ms: settings.timeouts.join_ms,
        collective_timeout_ms: settings.timeouts.collective_ms,
        chunk_bytes: settings.staging.chunk_bytes.and_then(|bytes| u32::try_from(bytes).ok()),
        payload_off: settings.payload == Payload::Off,
    }
}
