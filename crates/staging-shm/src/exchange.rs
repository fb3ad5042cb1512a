//! One rank's half of one operation, whichever road its bytes take.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use fakegpu_executor::{KernelError, Plan, Publish, Reduction, Relay, RunError, Scalar, prescale};
use fakegpu_units::{CommId, DataType, Rank, SeqNo};

use crate::{RecvBuffer, SendBuffer, StagingError};

/// What one rank does in one operation.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// How the collective is cut; equal on all ranks.
    pub plan: Plan,
    /// The reduction, exactly where the collective has one.
    pub reduction: Option<Reduction>,
    /// A factor this rank's contribution is multiplied by on its way out. Averages of floats bring their own.
    pub scalar: Option<Scalar>,
    /// What is sent.
    pub send: SendBuffer,
    /// Where results go.
    pub recv: RecvBuffer,
    /// The element type.
    pub data_type: DataType,
    /// The communicator, for descriptors.
    pub comm: CommId,
    /// The operation's number, for descriptors.
    pub seq: SeqNo,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It has ended, or there is none.
    Done,
    /// Something happened; poll again.
    Moved,
    /// Nothing can happen before a peer acts.
    Waiting,
}

/// What an exchange has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StagingStats {
    /// Runs begun.
    pub operations: u64,
    /// Rounds completed.
    pub chunks: u64,
    /// Bytes taken from send buffers and put into receive buffers.
    pub bytes: u64,
    /// Times the thread slept for a peer.
    pub sleeps: u64,
}

/// One rank's end of a communicator's data plane. It is driven by polling, so that one thread can serve
/// several ranks or communicators.
pub trait Exchange: Send + Debug {
    /// Starts a run; the previous one must have ended.
    ///
    /// # Errors
    /// Where the run's parts do not fit each other or the staging memory; nothing has been touched then.
    fn begin(&mut self, run: Run) -> Result<(), StagingError>;

    /// Does what can be done without waiting.
    ///
    /// # Errors
    /// Where a peer or the road failed; the exchange is of no more use then.
    fn poll(&mut self) -> Result<Progress, StagingError>;

    /// Parks until something may have changed, at most for `timeout`.
    fn wait(&mut self, timeout: Duration);

    /// Gives up the current run and the communicator: peers see it. User memory is not touched afterwards.
    fn fail(&mut self);

    /// What was done so far.
    fn stats(&self) -> StagingStats;
}

/// Begins `run` and drives it to its end on this thread.
///
/// # Errors
/// As [`Exchange::begin`] and [`Exchange::poll`]; [`StagingError::TimedOut`] where `limit` passes first, and
/// the exchange has been failed then.
pub fn finish(exchange: &mut dyn Exchange, run: Run, limit: Duration) -> Result<(), StagingError> {
    exchange.begin(run)?;
    let mut deadline = None;
    loop {
        match exchange.poll()? {
            Progress::Done => return Ok(()),
            Progress::Moved => {}
            Progress::Waiting => {
                let now = Instant::now();
                let left = deadline.get_or_insert(now + limit).saturating_duration_since(now);
                if left.is_zero() {
                    exchange.fail();
                    return Err(StagingError::TimedOut { limit });
                }
                exchange.wait(left);
            }
        }
    }
}

impl Run {
    /// Checks the parts against each other and against the staging memory of `rank`.
    pub(crate) fn check(&self, rank: Rank, size: u32, slot_bytes: usize) -> Result<(), StagingError> {
        let shape = self.plan.shape();
        fits("ranks", u64::from(shape.size), u64::from(size), shape.size == size)?;
        let plan_slot = shape.slot_bytes;
        fits("bytes a slot", plan_slot as u64, slot_bytes as u64, plan_slot <= slot_bytes)?;
        let elem_bytes = self.data_type.size();
        fits("bytes an element", shape.elem_bytes as u64, elem_bytes as u64, shape.elem_bytes == elem_bytes)?;
        // A relay made and thrown away costs no allocation, and owns the rule what belongs together.
        drop(Relay::new(self.plan, self.reduction)?);
        if let Some(scalar) = self.scalar.filter(|scalar| scalar.data_type() != self.data_type) {
            let (scalar, elements) = (scalar.data_type(), self.data_type);
            return Err(KernelError::ScalarType { scalar, elements }.into());
        }
        long_enough("send", rank, self.plan.send_bytes(rank), self.send.len())?;
        long_enough("receive", rank, self.plan.recv_bytes(rank), self.recv.len())
    }

    /// The factor applied while publishing.
    pub(crate) fn factor(&self) -> Option<Scalar> {
        self.scalar.or_else(|| self.reduction.and_then(|reduction| reduction.prescale_scalar()))
    }

    /// Copies one piece of the send buffer out, multiplied by `factor` if there is one.
    pub(crate) fn publish(
        &self,
        factor: Option<Scalar>,
        piece: Publish,
        target: &mut [u8],
    ) -> Result<(), StagingError> {
        match factor {
            None => self.send.copy_to(piece.user, target),
            Some(scalar) => self
                .send
                .lend(piece.user, piece.bytes, |source| prescale(self.data_type, scalar, target, source))?,
        }
        Ok(())
    }
}

fn fits(what: &'static str, plan: u64, staging: u64, does: bool) -> Result<(), StagingError> {
    if does { Ok(()) } else { Err(StagingError::PlanMismatch { what, plan, staging }) }
}

fn long_enough(side: &'static str, rank: Rank, expected: usize, seen: usize) -> Result<(), StagingError> {
    if seen < expected { Err(RunError::Buffer { side, rank, expected, seen }.into()) } else { Ok(()) }
}
