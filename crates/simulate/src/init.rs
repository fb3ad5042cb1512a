//! Joining communicators, by a unique id or from another one: rendezvous, the shared segment, the decision how
//! bytes move.
//!
//! A thread may join several ranks of one communicator in one group, so every step is taken for all of them
//! before the next: all ask, all are answered, all dial rank 0's private socket, rank 0 hands out, all map.
//! Dialling does not wait for the other side to accept, so one thread can stand on both. Several communicators
//! of a group go on independently, since other processes may join them one after the other.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fakegpu_proto::{
    Action, Fault, JoinComm, Lane, Leave, Member, Offer, ShrinkComm, Split, StagingKind, StagingOutcome,
    ToCoordinator, ToRank, UniqueId,
};
use fakegpu_staging_shm::{Exchange, Geometry, Segment, SharedExchange, StreamedExchange, engine};
use fakegpu_transport::{Dialer, Wire};
use fakegpu_transport_uds::{PrivateSocket, UdsDialer};
use fakegpu_units::{CommId, Rank};

use crate::communicator::{Communicator, Joined, Place};
use crate::planes::{Planes, Road};
use crate::process;
use crate::session::Session;

/// How long the members of a communicator may take to hand out and map its segment, all being alive.
const MAPPING_PATIENCE: Duration = Duration::from_secs(20);

/// How often a wait looks whether it has become pointless.
const SLICE: Duration = Duration::from_millis(100);

/// A rank that is to join.
#[derive(Debug)]
pub(crate) struct Pending {
    /// What it will be a rank of; `None` where it takes part in a split and joins none.
    pub(crate) comm: Option<Arc<Communicator>>,
    /// What it is made from, where it is.
    pub(crate) parent: Option<Arc<Communicator>>,
    pub(crate) session: Arc<Session>,
    pub(crate) way: Way,
}

impl Pending {
    /// The communicator whose mode decides whether the call waits: a new one's own, else its parent's.
    pub(crate) fn decider(&self) -> Option<&Arc<Communicator>> {
        self.parent.as_ref().or(self.comm.as_ref())
    }
}

/// How a rank comes into a communicator.
#[derive(Debug)]
pub(crate) enum Way {
    /// By an id, or as one of those that a communicator grows from.
    Join(Box<JoinComm>),
    /// From another one, which is cut by colour.
    Split {
        /// The communicator that is cut.
        comm: CommId,
        /// The caller's rank in it.
        rank: Rank,
        split: Split,
        /// The calling thread.
        thread: u64,
    },
    /// From another one, without some of its ranks.
    Shrink(Box<ShrinkComm>),
}

/// What ranks meet at.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meeting {
    Id(UniqueId),
    Growth(CommId),
    Colour(CommId, Option<u32>),
    Remainder(CommId),
}

impl Way {
    fn meeting(&self) -> Meeting {
        match self {
            Self::Join(join) => match join.parent {
                Some((parent, _)) => Meeting::Growth(parent),
                None => Meeting::Id(join.unique_id.clone()),
            },
            Self::Split { comm, split, .. } => Meeting::Colour(*comm, split.color),
            Self::Shrink(shrink) => Meeting::Remainder(shrink.parent),
        }
    }

    /// Whether the caller could be rank 0, which hands out the segment.
    fn may_lead(&self) -> bool {
        match self {
            Self::Join(join) => join.rank == Rank(0),
            Self::Split { split, .. } => split.color.is_some(),
            Self::Shrink(_) => true,
        }
    }

    fn message(&self, listener: Option<String>) -> ToCoordinator {
        match self {
            Self::Join(join) => ToCoordinator::Join(Box::new(JoinComm { listener, ..(**join).clone() })),
            Self::Split { comm, rank, split, thread } => ToCoordinator::Submit {
                ops: vec![(*comm, *rank, Action::Split(Split { listener, ..split.clone() }))],
                thread: *thread,
            },
            Self::Shrink(shrink) => {
                ToCoordinator::Shrink(Box::new(ShrinkComm { listener, ..(**shrink).clone() }))
            }
        }
    }
}

/// A rank on its way into a communicator.
#[derive(Debug)]
struct Joining {
    pending: Pending,
    listener: Option<PrivateSocket>,
    request: u64,
    met: Option<Met>,
    /// Whether it takes part in a split and joins none.
    is_left_out: bool,
    stands: bool,
}

/// What is known once all ranks of a communicator have come.
#[derive(Debug)]
struct Met {
    comm: CommId,
    rank: Rank,
    members: Vec<Member>,
    offer: Offer,
    geometry: Geometry,
}

/// Joins ranks, each as soon as its communicator has come together; on failure none of them stands.
pub(crate) fn join_all(pendings: Vec<Pending>, no_uring: bool) -> Result<(), Fault> {
    let mut joinings = Vec::with_capacity(pendings.len());
    let outcome = pendings
        .into_iter()
        .try_for_each(|pending| ask(pending).map(|joining| joinings.push(joining)))
        .and_then(|()| gather(&mut joinings, no_uring));
    if outcome.is_err() {
        joinings.iter().for_each(Joining::give_up);
    }
    outcome
}

impl Joining {
    /// Nobody shall wait for this rank.
    fn give_up(&self) {
        let session = &self.pending.session;
        match &self.met {
            Some(met) => {
                session.tell(&ToCoordinator::Leave { comm: met.comm, rank: met.rank, how: Leave::Abort });
                session.forget(met.comm);
            }
            None => {
                session.abandon(self.request);
                if let Way::Join(join) = &self.pending.way {
                    let (unique_id, rank) = (join.unique_id.clone(), join.rank);
                    session.tell(&ToCoordinator::CancelJoin { unique_id, rank });
                }
            }
        }
    }

    fn meets_with(&self, other: &Self) -> bool {
        self.pending.way.meeting() == other.pending.way.meeting()
            && Arc::ptr_eq(&self.pending.session, &other.pending.session)
    }

    /// Whether nothing more is to be heard before the communicator can be staged.
    const fn has_heard(&self) -> bool {
        self.met.is_some() || self.is_left_out
    }

    /// Whether the program has given up while this rank waits.
    fn look_for_abort(&self) -> Result<(), Fault> {
        let aborted = |comm: &Arc<Communicator>| comm.aborted.load(Ordering::Acquire);
        if self.pending.comm.iter().chain(&self.pending.parent).any(aborted) {
            return Err(Fault::usage("the communicator was aborted while its ranks met"));
        }
        Ok(())
    }

    fn hear(&mut self, reply: ToRank) -> Result<(), Fault> {
        match (reply, &self.pending.comm) {
            (ToRank::Joined { comm, rank, members, offer, slot_bytes }, Some(joins)) => {
                let size = u32::try_from(members.len()).map_err(Fault::internal)?;
                joins.take_place(Place { rank, size })?;
                let geometry = Geometry::new(size, slot_bytes).map_err(Fault::system)?;
                self.met = Some(Met { comm, rank, members, offer, geometry });
                Ok(())
            }
            (ToRank::Done, None) => {
                self.is_left_out = true;
                Ok(())
            }
            (ToRank::Failed(fault), _) => Err(fault),
            (other, _) => Err(Fault::internal(format!("a join was answered with {other:?}"))),
        }
    }
}
fn ask(pending: Pending) -> Result<Joining, Fault> {
    let listener = if pending.way.may_lead() { private_socket("seg") } else { None };
    let name = listener.as_ref().map(|socket| socket.name().to_owned());
    let request = pending.session.request(&pending.way.message(name))?;
    Ok(Joining { pending, listener, request, met: None, is_left_out: false, stands: false })
}

/// Where rank 0 will hand out descriptors of memory; without one, bytes are streamed.
pub(crate) fn private_socket(what: &str) -> Option<PrivateSocket> {
    let name = format!("fakegpu-{what}-{}-{}", std::process::id(), process::hex(&process::random::<8>()));
    PrivateSocket::bind(&name)
        .inspect_err(|error| tracing::warn!(%error, "no private socket: memory cannot be shared"))
        .ok()
}

/// Takes every communicator the rest of the way as soon as all its ranks have come, in the order in which the
/// coordinator made them: a process that joins several in another order must not be waited for the wrong way
/// round.
fn gather(joinings: &mut [Joining], no_uring: bool) -> Result<(), Fault> {
    let begun = Instant::now();
    loop {
        for joining in joinings.iter_mut().filter(|joining| !joining.has_heard()) {
            if let Some(reply) = joining.pending.session.reply(joining.request, Duration::ZERO)? {
                joining.hear(reply)?;
            }
        }
        if let Some(mut together) = next_together(joinings) {
            stage(&mut together, no_uring)?;
            continue;
        }
        let Some(absent) = joinings.iter_mut().find(|joining| !joining.has_heard()) else { return Ok(()) };
        absent.look_for_abort()?;
        if let Some(reply) = absent.pending.session.reply(absent.request, SLICE)? {
            absent.hear(reply)?;
        }
        if begun.elapsed() > absent.pending.session.patience {
            return Err(absent.pending.session.silent());
        }
    }
}

/// The ranks of the first communicator all of whose ranks in this process have met and none stands.
fn next_together(joinings: &mut [Joining]) -> Option<Vec<&mut Joining>> {
    let complete = |at: usize| {
        let candidate = &joinings[at];
        let all_met = joinings.iter().filter(|other| other.meets_with(candidate)).all(Joining::has_heard);
        (!candidate.stands && all_met).then(|| candidate.met.as_ref().map(|met| (met.comm, at))).flatten()
    };
    let (comm, _) = (0..joinings.len()).filter_map(complete).min()?;
    Some(
        joinings
            .iter_mut()
            .filter(|joining| joining.met.as_ref().is_some_and(|met| met.comm == comm))
            .collect(),
    )
}

/// The way from having met to standing, for all of this process's ranks of one communicator in step.
fn stage(together: &mut [&mut Joining], no_uring: bool) -> Result<(), Fault> {
    let shared = share(together);
    let told: Vec<u64> = together
        .iter()
        .zip(&shared)
        .map(|(joining, shared)| tell(joining, shared))
        .collect::<Result<_, _>>()?;
    for ((joining, request), shared) in together.iter_mut().zip(told).zip(shared) {
        stand(joining, request, shared, no_uring)?;
    }
    Ok(())
}

/// A rank's share in the communicator's segment, or why there is none.
type Shared = Result<SharedExchange, String>;

/// Hands out and maps the communicator's segment, if it is to have one.
fn share(together: &mut [&mut Joining]) -> Vec<Shared> {
    let dialled: Vec<Result<Option<Wire>, String>> =
        together.iter().map(|joining| dial_leader(joining)).collect();
    let led: Vec<Option<Result<Segment, String>>> =
        together.iter_mut().map(|joining| lead(joining)).collect();
    led.into_iter()
        .zip(dialled)
        .zip(together)
        .map(|((led, dialled), joining)| {
            let segment = match led {
                Some(segment) => segment?,
                None => follow(joining, dialled?)?,
            };
            let rank = joining.met.as_ref().map(|met| met.rank).unwrap_or_default();
            SharedExchange::new(Arc::new(segment), rank).map_err(|error| error.to_string())
        })
        .collect()
}

/// The private socket of a communicator that is to be shared.
fn leader_of(joining: &Joining) -> Option<(&Met, &str)> {
    let met = joining.met.as_ref()?;
    match &met.offer {
        Offer::Shared { listener } => Some((met, listener)),
        Offer::Streamed { .. } | Offer::Off => None,
    }
}

fn dial_leader(joining: &Joining) -> Result<Option<Wire>, String> {
    let Some((met, listener)) = leader_of(joining) else { return Ok(None) };
    if met.rank == Rank(0) {
        return Ok(None);
    }
    let dial = UdsDialer::new(listener).dial(MAPPING_PATIENCE);
    dial.map(Some).map_err(|error| format!("rank 0's private socket could not be reached: {error}"))
}

/// Rank 0 makes the segment and hands it to every other rank. Its private socket is closed when it is done: a
/// rank that still waits there learns at once that nothing will come.
fn lead(joining: &mut Joining) -> Option<Result<Segment, String>> {
    let met = leader_of(joining).map(|(met, _)| met).filter(|met| met.rank == Rank(0))?;
    let geometry = met.geometry;
    let listener = joining.listener.take()?;
    let made = Segment::create(geometry).map_err(|error| error.to_string());
    Some(made.and_then(|(segment, fd)| {
        hand_out(joining, &listener, &fd)?;
        Ok(segment)
    }))
}

fn hand_out(joining: &Joining, listener: &PrivateSocket, fd: &OwnedFd) -> Result<(), String> {
    let deadline = Instant::now() + MAPPING_PATIENCE;
    let size = joining.met.as_ref().map_or(1, |met| met.geometry.size());
    for _ in 1..size {
        while let Err(error) = listener.hand_out(fd.as_fd(), SLICE) {
            if error.kind() != std::io::ErrorKind::TimedOut || Instant::now() >= deadline {
                return Err(format!("the segment could not be handed out: {error}"));
            }
            look_for_bad_news(joining)?;
        }
    }
    Ok(())
}

/// Whether the communicator has failed while this rank waits for another.
fn look_for_bad_news(joining: &Joining) -> Result<(), String> {
    joining.look_for_abort().map_err(|fault| fault.detail)?;
    let fault = joining.met.as_ref().and_then(|met| joining.pending.session.fault_of(met.comm));
    fault.map_or(Ok(()), |fault| Err(fault.detail))
}

/// Receives and maps the segment that rank 0 made.
fn follow(joining: &Joining, wire: Option<Wire>) -> Result<Segment, String> {
    let (Some(wire), Some(met)) = (wire, &joining.met) else {
        return Err(match joining.met.as_ref().map(|met| &met.offer) {
            Some(Offer::Streamed { why }) => why.clone(),
            Some(Offer::Off) => "no bytes are moved".to_owned(),
            _ => "rank 0 has no private socket".to_owned(),
        });
    };
    let deadline = Instant::now() + MAPPING_PATIENCE;
    let fd = loop {
        match UdsDialer::receive_fd(&wire, SLICE) {
            Ok(fd) => break fd,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut && Instant::now() < deadline => {
                look_for_bad_news(joining)?
            }
            Err(error) => return Err(format!("rank 0 handed out no segment: {error}")),
        }
    };
    Segment::open(fd, met.geometry).map_err(|error| error.to_string())
}

fn tell(joining: &Joining, shared: &Shared) -> Result<u64, Fault> {
    let Some(met) = &joining.met else {
        return Err(Fault::internal("a rank tells of its staging before it has met the others"));
    };
    let outcome = match shared {
        Err(why) if met.offer != Offer::Off => StagingOutcome::Refused(why.clone()),
        _ => StagingOutcome::Mapped,
    };
    joining.pending.session.request(&ToCoordinator::Staging { comm: met.comm, rank: met.rank, outcome })
}

/// Waits for the decision how bytes move, which the coordinator bounds.
fn decision(joining: &Joining, request: u64) -> Result<StagingKind, Fault> {
    match joining.pending.session.reply_unless(request, || joining.look_for_abort())? {
        ToRank::Staged { kind, .. } => Ok(kind),
        ToRank::Failed(fault) => Err(fault),
        other => Err(Fault::internal(format!("the staging outcome was answered with {other:?}"))),
    }
}

/// Takes the road that was decided; the communicator stands.
fn stand(joining: &mut Joining, request: u64, shared: Shared, no_uring: bool) -> Result<(), Fault> {
    let session = Arc::clone(&joining.pending.session);
    let kind = decision(joining, request)?;
    let (Some(met), Some(comm)) = (&joining.met, &joining.pending.comm) else {
        return Err(Fault::internal("a rank stands before it has met the others"));
    };
    let (rank, geometry) = (met.rank, met.geometry);
    let (road, exchange): (Road, Option<Box<dyn Exchange>>) = match (kind, shared) {
        (StagingKind::Off, _) => (Road::Off, None),
        (StagingKind::Shared, Ok(exchange)) => {
            (Road::Shared(Arc::clone(exchange.segment())), Some(Box::new(exchange)))
        }
        (StagingKind::Shared, Err(why)) => {
            return Err(Fault::internal(format!("shared staging was decided without this rank: {why}")));
        }
        (StagingKind::Streamed, _) => {
            let wire = session.open_data(met.comm, rank, Lane::Collectives)?;
            let (size, slot_bytes) = (geometry.size(), geometry.slot_bytes());
            let exchange = StreamedExchange::new(wire, rank, size, engine(no_uring), slot_bytes);
            (Road::Streamed, Some(Box::new(exchange)))
        }
    };
    tracing::debug!(comm = met.comm.0, rank = rank.0, size = geometry.size(), ?kind, "communicator ready");
    let slot_bytes = geometry.slot_bytes();
    let planes = Planes::new(road, exchange, slot_bytes);
    let joined = Joined {
        session,
        comm: met.comm,
        members: met.members.clone(),
        slot_bytes,
        kind,
        staged_bytes: planes.staged_bytes(),
        planes: Mutex::new(planes),
    };
    comm.joined.set(joined).map_err(|_| Fault::internal("a communicator was joined twice"))?;
    joining.stands = true;
    Ok(())
}
