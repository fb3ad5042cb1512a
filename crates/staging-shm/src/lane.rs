//! The streamed road, the coordinator's end: one communicator's data connections, folded chunk by chunk.
//!
//! A round's contributions are received as one batch, folded where they lie, and answered as one batch. Memory is
//! a slot a rank for contributions, and for replies [`REPLY_BYTES`] and the longest single one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fakegpu_executor::relay::Replies;
use fakegpu_executor::{Plan, Reduction, Relay, Round};
use fakegpu_transport::Wire;
use fakegpu_units::Rank;

use crate::StagingError;
use crate::engine::{Direction, Engine, Finished, Transfer};

/// The coordinator's end of one communicator's data connections.
#[derive(Debug)]
pub struct RelayLane {
    post: Post,
    slot_bytes: usize,
    poisoned: bool,
}

/// Connections and buffers, by rank.
#[derive(Debug)]
struct Post {
    wires: Vec<Arc<Wire>>,
    engine: Box<dyn Engine>,
    contributions: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    finished: Vec<Finished>,
    round: Round,
}

/// While this many bytes of replies are under way, no further one is started.
const REPLY_BYTES: usize = 4 << 20;

/// How often a waiting lane looks whether it was cancelled.
const SLICE: Duration = Duration::from_millis(20);

impl RelayLane {
    /// A lane over one connection per rank, in rank order, for plans with slots up to `slot_bytes`.
    pub fn new(wires: Vec<Wire>, engine: Box<dyn Engine>, slot_bytes: usize) -> Self {
        let contributions = vec![Vec::new(); wires.len()];
        let wires = wires.into_iter().map(Arc::new).collect();
        let (spare, finished, round) = (Vec::new(), Vec::new(), Round::default());
        let post = Post { wires, engine, contributions, spare, finished, round };
        Self { post, slot_bytes, poisoned: false }
    }

    /// Executes one operation that every rank runs too. Blocks in slices, until done or `cancelled` is set.
    ///
    /// # Errors
    /// Where plan and reduction do not belong together (the lane stays usable), or a rank's connection fails, or
    /// the caller cancels (the lane's connections are closed then, since they are in the middle of a round).
    pub fn run(
        &mut self,
        plan: Plan,
        reduction: Option<Reduction>,
        cancelled: &AtomicBool,
    ) -> Result<(), StagingError> {
        if self.poisoned {
            return Err(StagingError::Poisoned);
        }
        self.check(&plan)?;
        let mut relay = Relay::new(plan, reduction)?;
        let mut rounds = 0..plan.rounds();
        let outcome = rounds.try_for_each(|index| self.post.round(&mut relay, index, cancelled));
        if outcome.is_err() {
            self.close();
        }
        outcome
    }

    /// The engine underneath.
    pub fn engine(&self) -> &dyn Engine {
        &*self.post.engine
    }

    /// Closes all connections: every rank's exchange fails.
    pub fn close(&mut self) {
        self.poisoned = true;
        self.post.engine.cancel_all();
        self.post.wires.iter().for_each(|wire| wire.close());
    }

    fn check(&self, plan: &Plan) -> Result<(), StagingError> {
        let (size, ranks) = (u64::from(plan.shape().size), self.post.wires.len() as u64);
        if size != ranks {
            return Err(StagingError::PlanMismatch { what: "ranks", plan: size, staging: ranks });
        }
        let (plan, staging) = (plan.shape().slot_bytes as u64, self.slot_bytes as u64);
        if plan > staging {
            return Err(StagingError::PlanMismatch { what: "bytes a slot", plan, staging });
        }
        Ok(())
    }
}

impl Post {
    fn round(&mut self, relay: &mut Relay, index: u64, cancelled: &AtomicBool) -> Result<(), StagingError> {
        self.receive(relay, index, cancelled)?;
        let contributions = std::mem::take(&mut self.contributions);
        let slots: Vec<&[u8]> = contributions.iter().map(Vec::as_slice).collect();
        let answered = relay
            .fold(index, &slots)
            .map_err(StagingError::from)
            .and_then(|replies| self.answer(&replies, cancelled));
        self.contributions = contributions;
        answered
    }

    /// Receives what every rank has for this round.
    fn receive(&mut self, relay: &mut Relay, index: u64, cancelled: &AtomicBool) -> Result<(), StagingError> {
        for at in 0..self.wires.len() {
            let rank = Rank::from_index(at);
            let mut buffer = std::mem::take(&mut self.contributions[at]);
            buffer.resize(relay.contribution_bytes(index, rank), 0);
            if buffer.is_empty() {
                self.contributions[at] = buffer;
            } else {
                self.submit(rank, Direction::Receive, buffer)?;
            }
        }
        while self.engine.pending() > 0 {
            self.complete(cancelled)?;
            let mut finished = std::mem::take(&mut self.finished);
            for each in finished.drain(..) {
                let (rank, buffer) = moved(each)?;
                self.contributions[rank.index()] = buffer;
            }
            self.finished = finished;
        }
        Ok(())
    }

    /// Sends every rank its reply, as many at a time as the bound allows.
    fn answer(&mut self, replies: &Replies<'_>, cancelled: &AtomicBool) -> Result<(), StagingError> {
        let ranks = self.wires.len();
        let (mut next, mut under_way) = (0, 0);
        while next < ranks || self.engine.pending() > 0 {
            while next < ranks && under_way < REPLY_BYTES {
                let rank = Rank::from_index(next);
                let mut buffer = self.spare.pop().unwrap_or_default();
                buffer.clear();
                replies.pieces(rank, &mut self.round).for_each(|piece| buffer.extend_from_slice(piece));
                next += 1;
                under_way += buffer.len();
                if buffer.is_empty() {
                    self.spare.push(buffer);
                } else {
                    self.submit(rank, Direction::Send, buffer)?;
                }
            }
            if self.engine.pending() > 0 {
                self.complete(cancelled)?;
            }
            for each in self.finished.drain(..) {
                let (_, buffer) = moved(each)?;
                under_way -= buffer.len();
                self.spare.push(buffer);
            }
        }
        Ok(())
    }

    fn submit(&mut self, rank: Rank, direction: Direction, buffer: Vec<u8>) -> Result<(), StagingError> {
        let wire = Arc::clone(&self.wires[rank.index()]);
        self.engine.submit(Transfer { token: u64::from(rank.0), wire, direction, buffer })
    }

    fn complete(&mut self, cancelled: &AtomicBool) -> Result<(), StagingError> {
        if cancelled.load(Ordering::Relaxed) {
            return Err(StagingError::Cancelled);
        }
        let engine = self.engine.name();
        let failed = |source| StagingError::Engine { engine, source };
        self.engine.complete(SLICE, &mut self.finished).map_err(failed)
    }
}

/// Whose transfer ended, and its buffer; its failure, with the rank.
fn moved(finished: Finished) -> Result<(Rank, Vec<u8>), StagingError> {
    let Finished { token, buffer, result } = finished;
    let rank = Rank(u32::try_from(token).unwrap_or(u32::MAX));
    result.map_err(|source| StagingError::Peer { rank, source })?;
    Ok((rank, buffer))
}
