//! One communicator's planes while its operations run.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use fakegpu_proto::{Descriptor, Fault, ToCoordinator};
use fakegpu_staging_shm::{Progress, RecvBuffer, Run, SendBuffer};
use fakegpu_units::{DataType, SeqNo};

use crate::communicator::{Communicator, Joined};
use crate::drive::{Blame, Failure};
use crate::operation::{Factor, Prepared, Work};
use crate::planes::{Planes, Ticket};

/// How long the reason of a failure may take to follow the failure.
const REASON_PATIENCE: Duration = Duration::from_millis(900);

/// One communicator's planes, taken by the thread that moves its bytes.
pub(crate) struct Lane<'a> {
    pub(crate) comm: &'a Arc<Communicator>,
    joined: &'a Joined,
    planes: MutexGuard<'a, Planes>,
    /// Room for what the transfers' plane says.
    tokens: Vec<u64>,
}

/// Bits of a token that are the place: more operations than that are never submitted together.
const PLACE_BITS: u32 = 24;

/// A ticket as the transfers' plane carries it.
const fn token((submission, place): Ticket) -> u64 {
    (submission << PLACE_BITS) | place as u64
}

fn ticket(token: u64) -> Ticket {
    let place = token & ((1 << PLACE_BITS) - 1);
    (token >> PLACE_BITS, usize::try_from(place).unwrap_or(usize::MAX))
}

impl<'a> Lane<'a> {
    /// Takes a communicator's planes. NCCL leaves it to programs to keep two threads out of one communicator; we
    /// say so once and let them in one after the other.
    pub(crate) fn enter(comm: &'a Arc<Communicator>) -> Result<Self, Fault> {
        let joined = comm.ready()?;
        let planes = match joined.planes.try_lock() {
            Ok(planes) => planes,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                comm.hazard(
                    "threads",
                    &format!(
                        "two threads use communicator {} at once: the order of their calls is left to chance",
                        joined.comm
                    ),
                );
                joined.planes.lock().unwrap_or_else(PoisonError::into_inner)
            }
        };
        Ok(Self { comm, joined, planes, tokens: Vec::new() })
    }

    /// Whether a collective runs.
    pub(crate) fn is_folding(&self) -> bool {
        self.planes.traffic.running.is_some()
    }

    /// Whether transfers are under way.
    pub(crate) fn is_flying(&self) -> bool {
        self.planes.traffic.flying > 0
    }

    /// Begins an operation that may run; whether it has ended with that. A collective only queues: those of one
    /// communicator run one after the other.
    pub(crate) fn begin(&mut self, at: Ticket, prepared: &Prepared) -> Result<bool, Fault> {
        let (joined, rank, size) = (self.joined, self.comm.rank(), self.comm.size());
        let session = &joined.session;
        let token = token(at);
        let begun = match &prepared.work {
            Work::Collective { .. } => {
                if self.planes.exchange.is_none() {
                    return Ok(true);
                }
                self.planes.traffic.queue.push_back(at);
                return Ok(false);
            }
            Work::Send(transfer, buffer) => match self.planes.transfers(session, joined.comm, rank, size)? {
                Some(plane) => plane.send(token, transfer.peer, *buffer),
                None => return Ok(true),
            },
            Work::Recv(transfer, buffer) => match self.planes.transfers(session, joined.comm, rank, size)? {
                Some(plane) => plane.recv(token, transfer.peer, *buffer),
                None => return Ok(true),
            },
            Work::Put { peer, copy, .. } => {
                copy.copy();
                self.signal(*peer);
                return Ok(true);
            }
            Work::Signal { peer } => {
                self.signal(*peer);
                return Ok(true);
            }
            Work::Await(_) => return Ok(true),
        };
        self.planes.traffic.flying += 1;
        begun.map(|()| false).map_err(|error| self.reason(&error.to_string()))
    }

    fn signal(&self, peer: fakegpu_units::Rank) {
        let (comm, rank) = (self.joined.comm, self.comm.rank());
        self.joined.session.say(&ToCoordinator::Signal { comm, rank, peer });
    }

    /// The collective to run next, where none runs.
    pub(crate) fn next_collective(&mut self) -> Option<Ticket> {
        let traffic = &mut self.planes.traffic;
        if traffic.running.is_some() {
            return None;
        }
        traffic.queue.pop_front()
    }

    /// Runs a collective.
    pub(crate) fn run(&mut self, at: Ticket, prepared: &Prepared) -> Result<(), Fault> {
        let Work::Collective { descriptor, factor, send, recv } = &prepared.work else {
            return Err(Fault::internal("only collectives queue"));
        };
        let run = self.plan(descriptor, factor.as_ref(), *send, *recv)?;
        let Planes { exchange: Some(exchange), traffic, .. } = &mut *self.planes else { return Ok(()) };
        traffic.running = Some(at);
        let begun = exchange.begin(run);
        begun.map_err(|error| self.reason(&error.to_string()))
    }

    fn plan(
        &self,
        descriptor: &Descriptor,
        factor: Option<&Factor>,
        send: SendBuffer,
        recv: RecvBuffer,
    ) -> Result<Run, Fault> {
        let (plan, reduction) =
            fakegpu_executor::plan_of(descriptor, self.comm.size(), self.joined.slot_bytes)
                .map_err(Fault::system)?;
        let own = factor.map(Factor::read).transpose()?;
        Ok(Run {
            plan,
            reduction,
            scalar: own.or_else(|| reduction.and_then(|reduction| reduction.prescale_scalar())),
            send,
            recv,
            // A plan that only moves counts bytes, whatever their type.
            data_type: reduction.map_or(DataType::UInt8, |reduction| reduction.data_type),
            comm: self.joined.comm,
            seq: SeqNo(self.comm.tally().ordered()),
        })
    }

    /// Moves what can be moved; whether anything was, and in `ended` what has ended.
    pub(crate) fn turn(&mut self, ended: &mut Vec<Ticket>) -> Result<bool, Fault> {
        Ok(self.turn_exchange(ended)? | self.turn_transfers(ended)?)
    }

    fn turn_exchange(&mut self, ended: &mut Vec<Ticket>) -> Result<bool, Fault> {
        let mut moved = false;
        while let Planes { exchange: Some(exchange), traffic, .. } = &mut *self.planes
            && let Some(at) = traffic.running
        {
            if self.comm.aborted.load(Ordering::Acquire) {
                return Err(aborted());
            }
            match exchange.poll() {
                Ok(Progress::Done) => {
                    traffic.running = None;
                    ended.push(at);
                    moved = true;
                }
                Ok(Progress::Moved) => moved = true,
                Ok(Progress::Waiting) => break,
                Err(error) => return Err(self.reason(&error.to_string())),
            }
        }
        Ok(moved)
    }

    fn turn_transfers(&mut self, ended: &mut Vec<Ticket>) -> Result<bool, Fault> {
        let Planes { transfers: Some(transfers), traffic, .. } = &mut *self.planes else { return Ok(false) };
        if traffic.flying == 0 {
            return Ok(false);
        }
        let outcome = transfers.poll(&mut self.tokens);
        let moved = !self.tokens.is_empty() || matches!(outcome, Ok(Progress::Moved));
        traffic.flying = traffic.flying.saturating_sub(self.tokens.len());
        ended.extend(self.tokens.drain(..).map(ticket));
        outcome.map_err(|error| self.reason(&error.to_string()))?;
        Ok(moved)
    }

    /// Parks until something of this communicator may have moved.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        let planes = &mut *self.planes;
        match (&mut planes.exchange, planes.traffic.running) {
            (Some(exchange), Some(_)) => exchange.wait(timeout),
            _ => {
                if let Some(transfers) = &mut planes.transfers {
                    transfers.wait(timeout);
                }
            }
        }
    }

    /// The communicator is what failed.
    pub(crate) fn failed(&self, fault: Fault) -> Failure {
        Failure { blame: Blame::Comm(self.comm.handle), fault }
    }

    /// Whether the communicator has failed or was aborted.
    pub(crate) fn look_for_bad_news(&self) -> Result<(), Fault> {
        if self.comm.aborted.load(Ordering::Acquire) {
            return Err(aborted());
        }
        self.comm.fault().map_or(Ok(()), Err)
    }

    /// A plane fails because a peer did: the coordinator knows better why, and is about to say so.
    fn reason(&self, seen: &str) -> Fault {
        let deadline = Instant::now() + REASON_PATIENCE;
        while Instant::now() < deadline && !self.comm.aborted.load(Ordering::Acquire) {
            if let Some(fault) = self.comm.fault() {
                return fault;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        if self.comm.aborted.load(Ordering::Acquire) {
            return aborted();
        }
        Fault::remote(format!("the bytes of communicator {} could not be moved: {seen}", self.joined.comm))
    }
}

fn aborted() -> Fault {
    Fault::usage("the communicator was aborted while an operation ran")
}

/// Gives a communicator's planes up; the coordinator is told unless it was the one that said so.
pub(crate) fn give_up(comm: &Communicator, fault: &Fault) {
    let Some(joined) = comm.joined.get() else { return };
    let is_news = comm.fault().is_none();
    joined.planes.lock().unwrap_or_else(PoisonError::into_inner).fail();
    comm.note_fault(fault);
    if is_news {
        let (comm, rank, why) = (joined.comm, comm.rank(), fault.detail.clone());
        joined.session.tell(&ToCoordinator::Broken { comm, rank, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_survives_the_transfers_plane() {
        for at in [(0, 0), (3, 70_000), (70_000, 1)] {
            assert_eq!(ticket(token(at)), at);
        }
    }
}
