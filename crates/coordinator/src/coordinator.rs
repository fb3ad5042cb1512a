//! The face of the core: what goes in, what comes out, and who handles it.

use std::collections::{BTreeMap, VecDeque};

use fakegpu_proto::event::Ending;
use fakegpu_proto::{
    Code, Descriptor, Event, EventKind, Fault, Hello, Lane, StatsReply, ToCoordinator, ToRank,
};
use fakegpu_units::{CommId, GlobalRank, HostTime, Rank, SeqNo, VirtualTime};

use crate::batches::Batches;
use crate::comm::Comm;
use crate::deadline::{Deadlines, Due};
use crate::recorder::Recorder;
use crate::rendezvous::Rendezvous;
use crate::session::{Peer, Peers, Role, check_names};
use crate::text::TextComms;
use crate::world::World;
use crate::{CostModel, Options};

/// A connection, numbered by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId(pub u64);

/// Something to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// To whom.
    pub peer: PeerId,
    /// What.
    pub outgoing: Outgoing,
}

/// What can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A message; the number pairs it with its request, 0 where nobody asked.
    Frame(u64, ToRank),
    /// A line of the text protocol, newline included.
    Line(String),
}

/// Something the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// This connection carries a rank's tensor bytes from here on; it sends no more control frames.
    Attach {
        /// The connection.
        peer: PeerId,
        /// The communicator.
        comm: CommId,
        /// The rank.
        rank: Rank,
        /// What it carries.
        lane: Lane,
        /// Ranks in the communicator.
        size: u32,
        /// Bytes of a slot.
        slot_bytes: u32,
    },
    /// Move and reduce the bytes of an operation that all ranks of a streamed communicator have called.
    Stream {
        /// The communicator.
        comm: CommId,
        /// Its place in the order.
        seq: SeqNo,
        /// What.
        descriptor: Descriptor,
    },
    /// The communicator is gone; its data connections are to be closed.
    Detach {
        /// The communicator.
        comm: CommId,
    },
    /// Close this connection when what was queued for it is sent.
    Close(PeerId),
    /// Write the report and end.
    Stop,
}

/// The coordinator.
///
/// Three kinds of methods. *Input*: the `handle_` methods, each with the time; they never fail, because peers
/// are input: a bad message becomes a reply to its sender and an event. *Output*: after each input, drain
/// [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event) and
/// [`poll_errand`](Self::poll_errand) until `None`. *Waiting*: sleep until the next input or
/// [`poll_timeout`](Self::poll_timeout), then call [`handle_timeout`](Self::handle_timeout).
#[derive(Debug)]
pub struct Coordinator {
    pub(crate) options: Options,
    pub(crate) cost: CostBox,
    pub(crate) peers: Peers,
    pub(crate) world: World,
    pub(crate) rendezvous: Rendezvous,
    pub(crate) comms: BTreeMap<CommId, Comm>,
    pub(crate) batches: Batches,
    pub(crate) recorder: Recorder,
    pub(crate) text_comms: TextComms,
    pub(crate) deadlines: Deadlines,
    /// When matched operations are looked at, and when a circle of waits is looked for.
    pub(crate) ripe_at: Option<HostTime>,
    pub(crate) deadlock_at: Option<HostTime>,
    pub(crate) clocks: BTreeMap<GlobalRank, VirtualTime>,
    pub(crate) comms_made: u64,
    pub(crate) operations: u64,
    pub(crate) failures: u64,
    out: VecDeque<Transmit>,
    events: VecDeque<Event>,
    errands: VecDeque<Errand>,
}

/// The model behind a pointer, printable.
pub(crate) struct CostBox(pub(crate) Box<dyn CostModel>);

impl std::fmt::Debug for CostBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CostModel")
    }
}

impl Coordinator {
    /// A coordinator that nobody has spoken to.
    pub fn new(options: Options, cost: Box<dyn CostModel>) -> Self {
        let world = World::new(options.cluster.clone());
        let started =
            EventKind::Started { transport: options.transport.clone(), cluster: world.cluster().clone() };
        let mut coordinator = Self {
            options,
            cost: CostBox(cost),
            peers: Peers::default(),
            world,
            rendezvous: Rendezvous::default(),
            comms: BTreeMap::new(),
            batches: Batches::default(),
            recorder: Recorder::default(),
            text_comms: TextComms::default(),
            deadlines: Deadlines::default(),
            ripe_at: None,
            deadlock_at: None,
            clocks: BTreeMap::new(),
            comms_made: 0,
            operations: 0,
            failures: 0,
            out: VecDeque::new(),
            events: VecDeque::new(),
            errands: VecDeque::new(),
        };
        coordinator.event(HostTime::ZERO, started);
        coordinator
    }

    /// A connection was accepted. `trusted` says whether the shell knows its process to be the same user's on
    /// this machine; `nonce` is a random number, unlike any other connection's.
    pub fn handle_connect(&mut self, _now: HostTime, peer: PeerId, trusted: bool, nonce: u64) {
        self.peers.add(peer, Peer { trusted, nonce, role: Role::New });
    }

    /// A frame came.
    pub fn handle_message(&mut self, now: HostTime, peer: PeerId, request: u64, message: ToCoordinator) {
        let is_session = self.peers.session(peer).is_some();
        match message {
            ToCoordinator::Ping => self.reply(peer, request, ToRank::Pong),
            ToCoordinator::Hello(hello) if !is_session => self.open_session(now, peer, request, *hello),
            ToCoordinator::Data(hello) if !is_session => self.attach(peer, request, &hello),
            ToCoordinator::Hello(_) | ToCoordinator::Data(_) => {
                self.refuse(now, peer, request, Fault::usage("a session says hello once, first"));
            }
            _ if !is_session => {
                self.refuse(
                    now,
                    peer,
                    request,
                    Fault::usage("the first message of a connection must be a hello"),
                );
            }
            ToCoordinator::Join(join) => self.join(now, peer, request, *join),
            ToCoordinator::Staging { comm, rank, outcome } => {
                self.staging(now, peer, request, comm, rank, outcome)
            }
            ToCoordinator::Submit { ops, thread } => self.submit(now, peer, request, ops, thread),
            ToCoordinator::PutOff { submission } => self.put_off(peer, submission),
            ToCoordinator::Shrink(shrink) => self.shrink(now, peer, request, *shrink),
            ToCoordinator::Revoke { comm, rank } => self.revoke(now, peer, request, comm, rank),
            ToCoordinator::GrowId { comm, rank, unique_id } => {
                self.grow_id(peer, request, comm, rank, unique_id)
            }
            ToCoordinator::Signal { comm, rank, peer: to } => match self.owned(peer, comm, rank) {
                Ok(_) => self.signal(now, comm, rank, to),
                Err(fault) => self.reply(peer, request, ToRank::Failed(fault)),
            },
            ToCoordinator::Hazard { comm, rank, detail } => self.hazard(now, peer, comm, rank, &detail),
            ToCoordinator::Mark { comm, rank } => self.mark(peer, comm, rank),
            ToCoordinator::Clock { comm, rank } => {
                let answer = self.owned(peer, comm, rank).map(|comm| comm.members[rank.index()].global);
                let answer = answer.map(|global| ToRank::Clock(self.clock(global)));
                self.reply(peer, request, answer.unwrap_or_else(ToRank::Failed));
            }
            ToCoordinator::Predict { ops } => {
                let time = self.predict(&ops);
                self.reply(peer, request, ToRank::Predicted(time));
            }
            ToCoordinator::Inject { comm, rank, detail } => {
                self.inject(now, peer, request, comm, rank, &detail)
            }
            ToCoordinator::Inspect => {
                let snapshot = Box::new(self.snapshot(now));
                self.reply(peer, request, ToRank::Snapshot(snapshot));
            }
            ToCoordinator::Barrier { comm, rank } => self.barrier_message(now, peer, request, comm, rank),
            ToCoordinator::CancelJoin { unique_id, rank } => {
                self.cancel_join(peer, request, &unique_id, rank)
            }
            ToCoordinator::Broken { comm, rank, why } => self.broken(now, peer, request, comm, rank, &why),
            ToCoordinator::Leave { comm, rank, how } => self.leave(now, peer, request, comm, rank, how),
            ToCoordinator::Stats => {
                let stats = self.stats();
                self.reply(peer, request, ToRank::Stats(stats));
            }
            ToCoordinator::Shutdown => {
                self.reply(peer, request, ToRank::Done);
                self.stop(now, "shutdown");
            }
            ToCoordinator::Goodbye { grouped } => {
                self.goodbye(now, peer, grouped);
                self.reply(peer, request, ToRank::Done);
            }
        }
        self.release_freed(now);
    }

    /// A connection broke the protocol: it is told why and closed; nobody else is touched.
    pub fn handle_nonsense(&mut self, now: HostTime, peer: PeerId, why: &str) {
        if self.peers.peer(peer).is_some() {
            self.refuse(now, peer, 0, Fault::usage(why));
            self.release_freed(now);
        }
    }

    /// A connection ended. For a session without goodbye this is the death of its process.
    pub fn handle_disconnect(&mut self, now: HostTime, peer: PeerId) {
        self.text_comms.forget_waiter(peer);
        if let Some(session) = self.peers.remove(peer, Ending::Died) {
            self.session_ended(now, &session);
            self.release_freed(now);
        }
    }

    /// The relay could not move a streamed communicator's bytes.
    pub fn handle_stream_failure(&mut self, now: HostTime, comm: CommId, why: &str) {
        self.stream_failed(now, comm, why);
    }

    /// A deadline has passed; call when [`poll_timeout`](Self::poll_timeout) is due.
    pub fn handle_timeout(&mut self, now: HostTime) {
        self.text_due(now);
        while let Some(due) = self.deadlines.pop(now) {
            match due {
                Due::Staging(comm) => self.staging_due(now, comm),
                Due::Operation(comm) => self.operation_due(now, comm),
                Due::Conflict(comm) => self.conflict_due(now, comm),
                Due::Stream(comm) => self.stream_due(now, comm),
                Due::Barrier(comm) => self.barrier_due(now, comm),
                Due::Join(key) => self.join_due(now, &key),
                Due::Notice(comm) => self.notice_due(now, comm),
                Due::JoinNotice(key) => self.join_notice_due(now, &key),
                Due::Shrink(comm) => self.shrink_due(now, comm),
                Due::Ripe => self.ripe_due(now),
                Due::Deadlock => self.deadlock_due(now),
            }
            self.release_freed(now);
        }
    }

    /// The shell was told to end, by a signal or for want of work.
    pub fn handle_stop(&mut self, now: HostTime, why: &str) {
        self.stop(now, why);
    }

    /// The next thing to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.out.pop_front()
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next thing the shell must do.
    pub fn poll_errand(&mut self) -> Option<Errand> {
        self.errands.pop_front()
    }

    /// When something will happen by itself; `None` if nothing will.
    pub fn poll_timeout(&self) -> Option<HostTime> {
        [self.deadlines.next(), self.text_comms.next_due()].into_iter().flatten().min()
    }

    /// Whether a line of this connection will still be answered, so that it must stay open although its peer
    /// has said all it had to say.
    pub fn awaits_answer(&self, peer: PeerId) -> bool {
        self.text_comms.has_waiter(peer)
    }

    /// How many processes are connected.
    pub fn session_count(&self) -> usize {
        self.peers.session_count()
    }

    /// Numbers about the coordinator.
    pub fn stats(&self) -> StatsReply {
        StatsReply {
            sessions: self.peers.session_count() as u64,
            communicators: self.comms.len() as u64,
            operations: self.operations,
            pending: self.batches.len() as u64,
            failures: self.failures,
        }
    }

    /// A process ends in order.
    fn goodbye(&mut self, now: HostTime, peer: PeerId, grouped: u32) {
        let Some(session) = self.peers.session_mut(peer) else { return };
        session.goodbye = true;
        let id = session.id;
        if grouped == 0 {
            return;
        }
        let ranks: Vec<Rank> = self.world.ranks_of(id).into_iter().map(|rank| Rank(rank.0)).collect();
        let detail = format!(
            "a group was left open on {}: {grouped} calls between ncclGroupStart and a missing ncclGroupEnd never ran",
            fakegpu_units::Ranks(&ranks)
        );
        let comm = self.comms.values().find(|comm| !comm.ranks_of(id).is_empty()).map(|comm| comm.id);
        self.event(now, EventKind::Hazard { comm: comm.unwrap_or_default(), detail });
    }

    fn open_session(&mut self, now: HostTime, peer: PeerId, request: u64, hello: Hello) {
        if let Err(why) = self.authorise(peer, hello.token.as_deref()) {
            return self.refuse(now, peer, request, Fault::usage(why));
        }
        if let Err(why) = check_names(&hello) {
            return self.refuse(now, peer, request, Fault::argument(why));
        }
        let (pid, program) = (hello.pid, hello.program.clone());
        let Some(session) = self.peers.open(peer, hello) else { return };
        self.event(now, EventKind::SessionOpened { session, pid, program });
        let secret = self.peers.nonce_of(session).unwrap_or(0);
        self.reply(peer, request, ToRank::Welcome { session, secret });
    }

    /// Whether a peer may speak, by its token or by who it is.
    pub(crate) fn authorise(&self, peer: PeerId, token: Option<&str>) -> Result<(), &'static str> {
        let trusted = self.peers.peer(peer).is_some_and(|peer| peer.trusted);
        match (&self.options.token, token) {
            (None, _) if trusted => Ok(()),
            (None, _) => Err(
                "this coordinator accepts other users and hosts only with a token: start it with FAKEGPU_COORDINATOR_TOKEN",
            ),
            (Some(wanted), Some(given)) if same_secret(wanted, given) => Ok(()),
            (Some(_), Some(_)) => {
                Err("the token is wrong: every rank needs the coordinator's FAKEGPU_COORDINATOR_TOKEN")
            }
            (Some(_), None) => Err(
                "this coordinator needs a token: set FAKEGPU_COORDINATOR_TOKEN as it was set for the coordinator",
            ),
        }
    }

    fn stop(&mut self, now: HostTime, why: &str) {
        self.event(now, EventKind::Stopped { why: why.to_owned() });
        self.errand(Errand::Stop);
    }

    /// Tells a peer that it broke the rules and closes its connection.
    fn refuse(&mut self, now: HostTime, peer: PeerId, request: u64, fault: Fault) {
        self.reply(peer, request, ToRank::Failed(fault));
        self.errand(Errand::Close(peer));
        self.text_comms.forget_waiter(peer);
        if let Some(session) = self.peers.remove(peer, Ending::Refused) {
            self.session_ended(now, &session);
        }
    }

    pub(crate) fn event(&mut self, at: HostTime, kind: EventKind) {
        self.events.push_back(Event { at, kind });
    }

    pub(crate) fn errand(&mut self, errand: Errand) {
        self.errands.push_back(errand);
    }

    pub(crate) fn reply(&mut self, peer: PeerId, request: u64, message: ToRank) {
        self.out.push_back(Transmit { peer, outgoing: Outgoing::Frame(request, message) });
    }

    pub(crate) fn line(&mut self, peer: PeerId, line: String) {
        self.out.push_back(Transmit { peer, outgoing: Outgoing::Line(line) });
    }

    /// A communicator that this peer may act in as `rank`, or the fault to answer with.
    pub(crate) fn owned(&self, peer: PeerId, comm: CommId, rank: Rank) -> Result<&Comm, Fault> {
        let found = self.comms.get(&comm).ok_or_else(|| {
            Fault::usage(format!(
                "communicator {comm} does not exist here: it was destroyed by all its ranks, or never made"
            ))
        })?;
        let session = self.peers.session(peer).map(|session| session.id);
        match found.members.get(rank.index()) {
            Some(member) if Some(member.session) == session => Ok(found),
            Some(_) => {
                Err(Fault::usage(format!("rank {rank} of communicator {comm} belongs to another process")))
            }
            None => Err(Fault::new(
                Code::InvalidArgument,
                format!("communicator {comm} has {} ranks, there is no rank {rank}", found.members.len()),
            )),
        }
    }
}

/// Characters of a peer's own words that are kept, at most.
const WORDS_MAX: usize = 1_000;

/// A peer's words, short enough to keep and to repeat to everybody.
pub(crate) fn cut_short(words: &str) -> String {
    words.chars().take(WORDS_MAX).collect()
}

/// Compares secrets in a time that depends on the lengths alone.
fn same_secret(wanted: &str, given: &str) -> bool {
    wanted.len() == given.len()
        && wanted.bytes().zip(given.bytes()).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}
