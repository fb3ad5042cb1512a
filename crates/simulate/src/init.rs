//! Joining communicators: rendezvous, the shared segment, the decision how bytes move.
//!
//! A thread may join several ranks of one communicator in one group, so every step is taken for all of them
//! before the next: all ask, all are answered, all dial rank 0's private socket, rank 0 hands out, all map.
//! Dialling does not wait for the other side to accept, so one thread can stand on both.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fakegpu_proto::{
    Fault, JoinComm, Member, Offer, StagingKind, StagingOutcome, ToCoordinator, ToRank, UniqueId,
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

/// How often a wait looks whether it has become pointless.
const SLICE: Duration = Duration::from_millis(100);

/// A rank that is to join.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) comm: Arc<Communicator>,
    pub(crate) session: Arc<Session>,
    pub(crate) unique_id: UniqueId,
}

/// A rank whose communicator has come together.
#[derive(Debug)]
struct Met {
    pending: Pending,
    comm: CommId,
    members: Vec<Member>,
    offer: Offer,
    geometry: Geometry,
    listener: Option<PrivateSocket>,
}

/// Joins ranks together; on failure none of them stands.
pub(crate) fn join_all(pendings: Vec<Pending>, no_uring: bool) -> Result<(), Fault> {
    let asked: Vec<(Pending, Option<PrivateSocket>, u64)> =
        pendings.into_iter().map(ask).collect::<Result<_, _>>()?;
    let mut mets = Vec::with_capacity(asked.len());
    for (pending, listener, request) in asked {
        mets.push(meet(pending, listener, request)?);
    }
    let mut exchanges = share(&mut mets);
    let told: Vec<u64> =
        mets.iter().zip(&exchanges).map(|(met, exchange)| tell(met, exchange)).collect::<Result<_, _>>()?;
    for ((met, request), exchange) in mets.into_iter().zip(told).zip(exchanges.drain(..)) {
        stand(met, request, exchange, no_uring)?;
    }
    Ok(())
}

fn ask(pending: Pending) -> Result<(Pending, Option<PrivateSocket>, u64), Fault> {
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
    Ok((pending, listener, request))
}

/// Where rank 0 will hand out the segment; without one, bytes are streamed.
fn private_socket() -> Option<PrivateSocket> {
    let name = format!("fakegpu-seg-{}-{}", std::process::id(), process::hex(&process::random::<8>()));
    PrivateSocket::bind(&name)
        .inspect_err(|error| tracing::warn!(%error, "no private socket, bytes will be streamed"))
        .ok()
}

/// Waits for the rest of the communicator; the coordinator bounds the wait.
fn meet(pending: Pending, listener: Option<PrivateSocket>, request: u64) -> Result<Met, Fault> {
    loop {
        match pending.session.reply(request, SLICE)? {
            Some(ToRank::Joined { comm, members, offer, slot_bytes }) => {
                let geometry = Geometry::new(pending.comm.size, slot_bytes).map_err(Fault::system)?;
                return Ok(Met { pending, comm, members, offer, geometry, listener });
            }
            Some(ToRank::Failed(fault)) => return Err(fault),
            Some(other) => return Err(Fault::internal(format!("a join was answered with {other:?}"))),
            None => {}
        }
    }
}

/// A rank's share in the communicator's segment, or why there is none.
type Shared = Result<Box<dyn Exchange>, String>;

/// Hands out and maps the segments of all communicators that are to have one.
fn share(mets: &mut [Met]) -> Vec<Shared> {
    let dialled: Vec<Result<Option<Wire>, String>> = mets.iter().map(dial_leader).collect();
    let led: Vec<Option<Result<Segment, String>>> = mets.iter_mut().map(lead).collect();
    let received = dialled.into_iter().zip(mets);
    led.into_iter()
        .zip(received)
        .map(|(led, (dialled, met))| {
            let segment = match led {
                Some(segment) => segment?,
                None => follow(met, dialled?)?,
            };
            let exchange = SharedExchange::new(Arc::new(segment), met.pending.comm.rank)
                .map_err(|error| error.to_string())?;
            Ok(Box::new(exchange) as Box<dyn Exchange>)
        })
        .collect()
}

fn dial_leader(met: &Met) -> Result<Option<Wire>, String> {
    let Offer::Shared { listener } = &met.offer else { return Ok(None) };
    if met.pending.comm.rank == Rank(0) {
        return Ok(None);
    }
    let dial = UdsDialer::new(listener).dial(MAPPING_PATIENCE);
    dial.map(Some).map_err(|error| format!("rank 0's private socket could not be reached: {error}"))
}

/// Rank 0 makes the segment and hands it to every other rank. Its private socket is closed when it is done: a
/// rank that still waits there learns at once that nothing will come.
fn lead(met: &mut Met) -> Option<Result<Segment, String>> {
    let Offer::Shared { .. } = met.offer else { return None };
    let listener = met.listener.take()?;
    let made = Segment::create(met.geometry).map_err(|error| error.to_string());
    Some(made.and_then(|(segment, fd)| {
        hand_out(met, &listener, &fd)?;
        Ok(segment)
    }))
}

fn hand_out(met: &Met, listener: &PrivateSocket, fd: &OwnedFd) -> Result<(), String> {
    let deadline = Instant::now() + MAPPING_PATIENCE;
    for _ in 1..met.pending.comm.size {
        while let Err(error) = listener.hand_out(fd.as_fd(), SLICE) {
            if error.kind() != std::io::ErrorKind::TimedOut || Instant::now() >= deadline {
                return Err(format!("the segment could not be handed out: {error}"));
            }
            if let Some(fault) = met.pending.session.fault_of(met.comm) {
                return Err(fault.detail);
            }
        }
    }
    Ok(())
}

/// Receives and maps the segment that rank 0 made.
fn follow(met: &Met, wire: Option<Wire>) -> Result<Segment, String> {
    let Some(wire) = wire else {
        return Err(match &met.offer {
            Offer::Streamed { why } => why.clone(),
            Offer::Shared { .. } => "rank 0 has no private socket".to_owned(),
        });
    };
    let deadline = Instant::now() + MAPPING_PATIENCE;
    let fd = loop {
        match UdsDialer::receive_fd(&wire, SLICE) {
            Ok(fd) => break fd,
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut && Instant::now() < deadline => {
                if let Some(fault) = met.pending.session.fault_of(met.comm) {
                    return Err(fault.detail);
                }
            }
            Err(error) => return Err(format!("rank 0 handed out no segment: {error}")),
        }
    };
    Segment::open(fd, met.geometry).map_err(|error| error.to_string())
}

fn tell(met: &Met, shared: &Shared) -> Result<u64, Fault> {
    let outcome = match shared {
        Ok(_) => StagingOutcome::Mapped,
        Err(why) => StagingOutcome::Refused(why.clone()),
    };
    met.pending.session.request(&ToCoordinator::Staging {
        comm: met.comm,
        rank: met.pending.comm.rank,
        outcome,
    })
}

/// Takes the road that was decided; the communicator stands.
fn stand(met: Met, request: u64, shared: Shared, no_uring: bool) -> Result<(), Fault> {
    let session = &met.pending.session;
    let kind = loop {
        match session.reply(request, SLICE)? {
            Some(ToRank::Staged { kind, .. }) => break kind,
            Some(ToRank::Failed(fault)) => return Err(fault),
            Some(other) => {
                return Err(Fault::internal(format!("the staging outcome was answered with {other:?}")));
            }
            None => {}
        }
    };
    let rank = met.pending.comm.rank;
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
                met.geometry.size(),
                engine(no_uring),
                met.geometry.slot_bytes(),
            ))
        }
    };
    tracing::debug!(
        comm = met.comm.0,
        rank = rank.0,
        size = met.geometry.size(),
        ?kind,
        "communicator ready"
    );
    let joined = Joined {
        session: Arc::clone(session),
        comm: met.comm,
        members: met.members,
        slot_bytes: met.geometry.slot_bytes(),
        exchange: Mutex::new(exchange),
    };
    met.pending.comm.joined.set(joined).map_err(|_| Fault::internal("a communicator was joined twice"))
}
