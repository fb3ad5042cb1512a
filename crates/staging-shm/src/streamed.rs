//! The streamed road, a rank's end: contributions go to the coordinator, what they became comes back.
//!
//! Two contributions may be under way while the reply to the first is awaited, so that the coordinator folds one
//! round while the next arrives. A reply is awaited one at a time.

use std::sync::Arc;
use std::time::Duration;

use fakegpu_executor::{Round, Scalar};
use fakegpu_transport::Wire;
use fakegpu_units::Rank;

use crate::engine::{Direction, Engine, Finished, Transfer};
use crate::{Exchange, Progress, Run, StagingError, StagingStats};

/// One rank's end of a data connection to the coordinator.
#[derive(Debug)]
pub struct StreamedExchange {
    wire: Arc<Wire>,
    rank: Rank,
    size: u32,
    slot_bytes: usize,
    engine: Box<dyn Engine>,
    active: Option<Active>,
    /// Buffers not in use: contributions and replies each find one that has grown to their size.
    spare_sends: Vec<Vec<u8>>,
    spare_reply: Vec<u8>,
    /// What the current reply means; the plan writes into it each round.
    sending: Round,
    receiving: Round,
    finished: Vec<Finished>,
    poisoned: bool,
    stats: StagingStats,
}

/// A run in progress.
#[derive(Debug)]
struct Active {
    run: Run,
    factor: Option<Scalar>,
    rounds: u64,
    /// Contributions handed to the engine, and how many of them are still with it.
    submitted: u64,
    sends_in_flight: usize,
    /// The round whose reply is next, and whether its receive is with the engine.
    replied: u64,
    receiving: bool,
}

const SEND: u64 = 0;
const RECEIVE: u64 = 1;
/// Contributions under way.
const SENDS_AHEAD: usize = 2;

impl StreamedExchange {
    /// `rank`'s end of `wire`, in a communicator of `size` with slots of `slot_bytes`.
    pub fn new(wire: Wire, rank: Rank, size: u32, engine: Box<dyn Engine>, slot_bytes: usize) -> Self {
        Self {
            wire: Arc::new(wire),
            rank,
            size,
            slot_bytes,
            engine,
            active: None,
            spare_sends: Vec::new(),
            spare_reply: Vec::new(),
            sending: Round::default(),
            receiving: Round::default(),
            finished: Vec::new(),
            poisoned: false,
            stats: StagingStats::default(),
        }
    }

    /// The engine underneath.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    fn step(&mut self, active: &mut Active) -> Result<Progress, StagingError> {
        self.reap(Duration::ZERO)?;
        let mut moved = self.settle(active)?;
        while active.submitted < active.rounds && active.sends_in_flight < SENDS_AHEAD {
            self.contribute(active)?;
            moved = true;
        }
        moved |= self.expect_reply(active)?;
        let ended = active.submitted == active.rounds
            && active.replied == active.rounds
            && active.sends_in_flight == 0;
        Ok(match (ended, moved) {
            (true, _) => Progress::Done,
            (false, true) => Progress::Moved,
            (false, false) => Progress::Waiting,
        })
    }

    fn reap(&mut self, timeout: Duration) -> Result<(), StagingError> {
        let engine = self.engine.name();
        let failed = |source| StagingError::Engine { engine, source };
        self.engine.complete(timeout, &mut self.finished).map_err(failed)
    }

    /// Takes in what the engine has finished.
    fn settle(&mut self, active: &mut Active) -> Result<bool, StagingError> {
        let mut finished = std::mem::take(&mut self.finished);
        let moved = !finished.is_empty();
        for Finished { token, buffer, result } in finished.drain(..) {
            result.map_err(|source| StagingError::Connection { source })?;
            match token {
                SEND => {
                    active.sends_in_flight -= 1;
                    self.spare_sends.push(buffer);
                }
                _ => {
                    self.deliver(active, &buffer);
                    self.spare_reply = buffer;
                    active.receiving = false;
                    active.replied += 1;
                    self.stats.chunks += 1;
                }
            }
        }
        self.finished = finished;
        Ok(moved)
    }

    /// Hands the next round's contribution to the engine; an empty one costs nothing.
    fn contribute(&mut self, active: &mut Active) -> Result<(), StagingError> {
        active.run.plan.fill(active.submitted, self.rank, &mut self.sending);
        active.submitted += 1;
        let bytes = self.sending.contribution_bytes();
        if bytes == 0 {
            return Ok(());
        }
        let mut buffer = self.spare_sends.pop().unwrap_or_default();
        buffer.resize(bytes, 0);
        for &piece in &self.sending.publish {
            active.run.publish(active.factor, piece, &mut buffer[piece.slot..piece.slot + piece.bytes])?;
        }
        self.stats.bytes += bytes as u64;
        active.sends_in_flight += 1;
        self.submit(SEND, Direction::Send, buffer)
    }

    /// Has the engine receive the next reply, stepping over rounds that have none; whether anything changed.
    fn expect_reply(&mut self, active: &mut Active) -> Result<bool, StagingError> {
        let mut moved = false;
        // In-place forms allow a round's result to be written only once its contribution has been read.
        while !active.receiving && active.replied < active.submitted {
            moved = true;
            active.run.plan.fill(active.replied, self.rank, &mut self.receiving);
            let bytes = self.receiving.reply_bytes();
            if bytes == 0 {
                active.replied += 1;
                self.stats.chunks += 1;
                continue;
            }
            let mut buffer = std::mem::take(&mut self.spare_reply);
            buffer.resize(bytes, 0);
            active.receiving = true;
            self.submit(RECEIVE, Direction::Receive, buffer)?;
        }
        Ok(moved)
    }

    fn submit(&mut self, token: u64, direction: Direction, buffer: Vec<u8>) -> Result<(), StagingError> {
        self.engine.submit(Transfer { token, wire: Arc::clone(&self.wire), direction, buffer })
    }

    fn deliver(&mut self, active: &Active, reply: &[u8]) {
        let mut at = 0;
        for (user, bytes) in self.receiving.reply_pieces() {
            active.run.recv.copy_from(user, &reply[at..at + bytes]);
            at += bytes;
        }
        self.stats.bytes += reply.len() as u64;
    }
}

impl Exchange for StreamedExchange {
    fn begin(&mut self, run: Run) -> Result<(), StagingError> {
        if self.active.is_some() {
            return Err(StagingError::Busy);
        }
        if self.poisoned {
            return Err(StagingError::Poisoned);
        }
        run.check(self.rank, self.size, self.slot_bytes)?;
        self.stats.operations += 1;
        let (factor, rounds) = (run.factor(), run.plan.rounds());
        self.active = Some(Active {
            run,
            factor,
            rounds,
            submitted: 0,
            sends_in_flight: 0,
            replied: 0,
            receiving: false,
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<Progress, StagingError> {
        if self.poisoned {
            return Err(StagingError::Poisoned);
        }
        let Some(mut active) = self.active.take() else { return Ok(Progress::Done) };
        let stepped = self.step(&mut active);
        match &stepped {
            Ok(Progress::Done) => {}
            Ok(_) => self.active = Some(active),
            Err(_) => self.fail(),
        }
        stepped
    }

    fn wait(&mut self, timeout: Duration) {
        if self.active.is_none() || self.poisoned || !self.finished.is_empty() {
            return;
        }
        self.stats.sleeps += 1;
        if self.reap(timeout).is_err() {
            // The next poll meets the same failure and reports it.
            self.stats.sleeps -= 1;
        }
    }

    fn fail(&mut self) {
        self.active = None;
        self.poisoned = true;
        self.engine.cancel_all();
        self.wire.close();
    }

    fn stats(&self) -> StagingStats {
        self.stats
    }
}
