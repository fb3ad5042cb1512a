//! One rank's sends and receives, whichever road their bytes take.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use fakegpu_units::Rank;

use crate::{Progress, RecvBuffer, SendBuffer, StagingError, StagingStats};

/// One rank's end of a communicator's point-to-point plane, driven by polling.
///
/// Whoever uses it knows that both sides of a transfer have been told to go and agree on its bytes. Transfers of one
/// ordered pair of ranks run in the order in which they were begun; others go side by side, and none waits for a
/// rank that has no part in it.
pub trait Transfers: Send + Debug {
    /// Starts sending the whole buffer to `peer`. The transfer ends, under the caller's `token`, when the buffer may
    /// be used again.
    ///
    /// # Errors
    /// Where there is no such peer, or no memory to move bytes by.
    fn send(&mut self, token: u64, peer: Rank, buffer: SendBuffer) -> Result<(), StagingError>;

    /// Starts receiving the whole buffer from `peer`.
    ///
    /// # Errors
    /// As [`Transfers::send`].
    fn recv(&mut self, token: u64, peer: Rank, buffer: RecvBuffer) -> Result<(), StagingError>;

    /// Does what can be done without waiting; tokens of transfers that have ended are pushed to `ended`.
    ///
    /// # Errors
    /// Where a peer or the road failed; the plane is of no more use then.
    fn poll(&mut self, ended: &mut Vec<u64>) -> Result<Progress, StagingError>;

    /// Parks until something may have changed, at most for `timeout`.
    fn wait(&mut self, timeout: Duration);

    /// Gives up all transfers and the communicator: peers see it. User memory is not touched afterwards.
    fn fail(&mut self);

    /// What was done so far.
    fn stats(&self) -> StagingStats;
}

/// A buffer on its way.
#[derive(Debug)]
pub(crate) struct Item<B> {
    pub(crate) token: u64,
    pub(crate) buffer: B,
    /// Bytes that are done.
    pub(crate) at: usize,
}

impl<B> Item<B> {
    pub(crate) const fn new(token: u64, buffer: B) -> Self {
        Self { token, buffer, at: 0 }
    }
}

/// A rank's transfers with itself: plain moves.
#[derive(Debug, Default)]
pub(crate) struct Own {
    sends: VecDeque<Item<SendBuffer>>,
    recvs: VecDeque<Item<RecvBuffer>>,
}

impl Own {
    pub(crate) fn send(&mut self, token: u64, buffer: SendBuffer) {
        self.sends.push_back(Item::new(token, buffer));
    }

    pub(crate) fn recv(&mut self, token: u64, buffer: RecvBuffer) {
        self.recvs.push_back(Item::new(token, buffer));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.sends.is_empty() && self.recvs.is_empty()
    }

    /// Moves what has both its sides; whether anything did.
    pub(crate) fn step(&mut self, ended: &mut Vec<u64>, stats: &mut StagingStats) -> bool {
        let mut moved = false;
        while !self.sends.is_empty()
            && !self.recvs.is_empty()
            && let (Some(send), Some(recv)) = (self.sends.pop_front(), self.recvs.pop_front())
        {
            recv.buffer.move_from(&send.buffer);
            stats.bytes += 2 * recv.buffer.len() as u64;
            ended.extend([send.token, recv.token]);
            moved = true;
        }
        moved
    }
}
