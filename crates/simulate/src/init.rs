//! Joining communicators: rendezvous, the shared segment, the decision how bytes move.
//!
//! A thread may join several ranks of one communicator in one group, so every step is taken for all of them
//! before the next: all ask, all are answered, all dial rank 0's private socket, rank 0 hands out, all map.
//! Dialling does not wait for the other side to accept, so one thread can stand on both. Several communicators
//! of a group go on independently, since other processes may join them one after the other.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fakegpu_proto::{
    Fault, JoinComm, Leave, Member, Offer, StagingKind, StagingOutcome, ToCoordinator, ToRank, UniqueId,
};
use fakegpu_staging_shm::{Exchange, Geometry, Segment, SharedExchange, StreamedExchange, engine};
use fakegpu_transport::{Dialer, Wire};
use fakegpu_transport_uds::{PrivateSocket, UdsDialer};
use fakegpu_units::{CommId, Rank};

use crate::communicator::{Communicator, Joined};
use crate::process;
use crate::session::Session;

/// How long the members of a communicator may take to hand out and map its segment, all being alive.
const MAPPING_PATIENCE: Duration = Duration::from_secs(20);

/// The coordinator bounds every wait; beyond its longest bound it must be dead or stopped itself.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(600);

/// How often a wait looks whether it has become pointless.
const SLICE: Duration = Duration::from_millis(100);

/// A rank that is to join.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) comm: Arc<Communicator>,
    pub(crate) session: Arc<Session>,
    pub(crate) unique_id: UniqueId,
}

/// A rank on its way into a communicator.
#[derive(Debug)]
struct Joining {
    pending: Pending,
    listener: Option<PrivateSocket>,
    request: u64,
    met: Option<Met>,
    stands: bool,
}

/// What is known once all ranks of a communicator have come.
#[derive(Debug)]
struct Met {
    comm: CommId,
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
        let (session, rank) = (&self.pending.session, self.pending.comm.rank);
        match &self.met {
            Some(met) => session.tell(&ToCoordinator::Leave { comm: met.comm, rank, how: Leave::Abort }),
            None => {
                session.abandon(self.request);
                session.tell(&ToCoordinator::CancelJoin { unique_id: self.pending.unique_id.clone(), rank });
            }
        }
    }

    fn meets_with(&self, other: &Self) -> bool {
        self.pending.unique_id == other.pending.unique_id
            && Arc::ptr_eq(&self.pending.session, &other.pending.session)
    }

    fn hear(&mut self, reply: ToRank) -> Result<(), Fault> {
        match reply {
            ToRank::Joined { comm, members, offer, slot_bytes } => {
                let geometry = Geometry::new(self.pending.comm.size, slot_bytes).map_err(Fault::system)?;
                self.met = Some(Met { comm, members, offer, geometry });
                Ok(())
            }
            ToRank::Failed(fault) => Err(fault),
            other => Err(Fault::internal(format!("a join was answered with {other:?}"))),
        }
    }
}

fn ask(pending: Pending) -> Result<Joining, Fault> {
    let leads = pending.comm.rank == Rank(0);
    let listener = if leads { private_socket() } else { None };
    let join = ToCoordinator::Join(Box::new(JoinComm {
        unique_id: pending.unique_id.clone(),
        size: pending.comm.size,
        rank: pending.comm.rank,
        device: pending.comm.device,
        listener: listener.as_ref().map(|socket| socket.name().to_owned()),
    }));
    let request = pending.session.request(&join)?;
    Ok(Joining { pending, listener, request, met: None, stands: false })
}

/// Where rank 0 will hand out the segment; without one, bytes are streamed.
fn private_socket() -> Option<PrivateSocket> {
    let name = format!("fakegpu-seg-{}-{}", std::process::id(), process::hex(&process::random::<8>()));
    PrivateSocket::bind(&name)
        .inspect_err(|error| tracing::warn!(%error, "no private socket, bytes will be streamed"))
        .ok()
}

/// Takes every communicator the rest of the way as soon as all its ranks have come, in the order in which the
/// coordinator made them: a process that joins several in another order must not be waited for the wrong way
/// round.
fn gather(joinings: &mut [Joining], no_uring: bool) -> Result<(), Fault> {
    let deadline = Instant::now() + COORDINATOR_PATIENCE;
    loop {
        for joining in joinings.iter_mut().filter(|joining| joining.met.is_none()) {
            if let Some(reply) = joining.pending.session.reply(joining.request, Duration::ZERO)? {
                joining.hear(reply)?;
            }
        }
        if let Some(mut together) = next_together(joinings) {
            stage(&mut together, no_uring)?;
            continue;
        }
        let Some(absent) = joinings.iter_mut().find(|joining| joining.met.is_none()) else { return Ok(()) };
        if let Some(reply) = absent.pending.session.reply(absent.request, SLICE)? {
            absent.hear(reply)?;
        }
        if Instant::now() > deadline {
            return Err(Fault::system(
                "timeout: the coordinator has not answered a join for ten minutes; it may be stopped",
            ));
        }
    }
}

/// The ranks of the first communicator all of whose ranks in this process have met and none stands.
fn next_together(joinings: &mut [Joining]) -> Option<Vec<&mut Joining>> {
    let complete = |at: usize| {
        let candidate = &joinings[at];
        let all_met =
            joinings.iter().filter(|other| other.meets_with(candidate)).all(|other| other.met.is_some());
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
type Shared = Result<Box<dyn Exchange>, String>;

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
            let exchange = SharedExchange::new(Arc::new(segment), joining.pending.comm.rank)
                .map_err(|error| error.to_string())?;
            Ok(Box::new(exchange) as Box<dyn Exchange>)
        })
        .collect()
}

/// The private socket of a communicator that is to be shared.
fn leader_of(joining: &Joining) -> Option<(&Met, &str)> {
    let met = joining.met.as_ref()?;
    match &met.offer {
        Offer::Shared { listener } => Some((met, listener)),
        Offer::Streamed { .. } => None,
    }
}

fn dial_leader(joining: &Joining) -> Result<Option<Wire>, String> {
    let Some((_, listener)) = leader_of(joining) else { return Ok(None) };
    if joining.pending.comm.rank == Rank(0) {
        return Ok(None);
    }
    let dial = UdsDialer::new(listener).dial(MAPPING_PATIENCE);
    dial.map(Some).map_err(|error| format!("rank 0's private socket could not be reached: {error}"))
}

/// Rank 0 makes the segment and hands it to every other rank. Its private socket is closed when it is done: a
/// rank that still waits there learns at once that nothing will come.
fn lead(joining: &mut Joining) -> Option<Result<Segment, String>> {
    let geometry = leader_of(joining)?.0.geometry;
    let listener = joining.listener.take()?;
    let made = Segment::create(geometry).map_err(|error| error.to_string());
    Some(made.and_then(|(segment, fd)| {
        hand_out(joining, &listener, &fd)?;
        Ok(segment)
    }))
}

fn hand_out(joining: &Joining, listener: &PrivateSocket, fd: &OwnedFd) -> Result<(), String> {
    let deadline = Instant::now() + MAPPING_PATIENCE;
    for _ in 1..joining.pending.comm.size {
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
    let fault = joining.met.as_ref().and_then(|met| joining.pending.session.fault_of(met.comm));
    fault.map_or(Ok(()), |fault| Err(fault.detail))
}

/// Receives and maps the segment that rank 0 made.
fn follow(joining: &Joining, wire: Option<Wire>) -> Result<Segment, String> {
    let (Some(wire), Some(met)) = (wire, &joining.met) else {
        return Err(match joining.met.as_ref().map(|met| &met.offer) {
            Some(Offer::Streamed { why }) => why.clone(),
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
    let outcome = match shared {
        Ok(_) => StagingOutcome::Mapped,
        Err(why) => StagingOutcome::Refused(why.clone()),
    };
    let comm = joining.met.as_ref().map(|met| met.comm).unwrap_or_default();
    joining.pending.session.request(&ToCoordinator::Staging {
        comm,
        rank: joining.pending.comm.rank,
        outcome,
    })
}

/// Waits for the decision how bytes move, which the coordinator bounds.
fn decision(session: &Session, request: u64) -> Result<StagingKind, Fault> {
    let deadline = Instant::now() + COORDINATOR_PATIENCE;
    while Instant::now() < deadline {
        match session.reply(request, SLICE)? {
            Some(ToRank::Staged { kind, .. }) => return Ok(kind),
            Some(ToRank::Failed(fault)) => return Err(fault),
            Some(other) => {
                return Err(Fault::internal(format!("the staging outcome was answered with {other:?}")));
            }
            None => {}
        }
    }
    Err(Fault::system(
        "timeout: the coordinator has not decided how bytes move for ten minutes; it may be stopped",
    ))
}

/// Takes the road that was decided; the communicator stands.
fn stand(joining: &mut Joining, request: u64, shared: Shared, no_uring: bool) -> Result<(), Fault> {
    let session = Arc::clone(&joining.pending.session);
    let kind = decision(&session, request)?;
    let Some(met) = &joining.met else {
        return Err(Fault::internal("a rank stands before it has met the others"));
    };
    let (rank, geometry) = (joining.pending.comm.rank, met.geometry);
    let exchange: Box<dyn Exchange> = match (kind, shared) {
        (StagingKind::Shared, Ok(exchange)) => exchange,
        (StagingKind::Shared, Err(why)) => {
            return Err(Fault::internal(format!("shared staging was decided without this rank: {why}")));
        }
        (StagingKind::Streamed, _) => {
            let wire = session.open_data(met.comm, rank)?;
            Box::new(StreamedExchange::new(
                wire,
                rank,
                geometry.size(),
                engine(no_uring),
                geometry.slot_bytes(),
            ))
        }
    };
    tracing::debug!(comm = met.comm.0, rank = rank.0, size = geometry.size(), ?kind, "communicator ready");
    let joined = Joined {
        session,
        comm: met.comm,
        members: met.members.clone(),
        slot_bytes: geometry.slot_bytes(),
        exchange: Mutex::new(exchange),
    };
    joining.stands = true;
    joining.pending.comm.joined.set(joined).map_err(|_| Fault::internal("a communicator was joined twice"))
}
