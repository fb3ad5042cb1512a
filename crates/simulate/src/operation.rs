//! One operation of one rank, ready to be submitted, and what it needs of the process's other ranks.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use fakegpu_executor::Scalar;
use fakegpu_proto::{Action, Awaited, Descriptor, Direction, Fault, Transfer};
use fakegpu_rank::expand;
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};
use fakegpu_units::{Collective, DataType, Rank};

use crate::communicator::Communicator;
use crate::streams::Stream;

/// A number in memory that is read when the operation runs (`ncclScalarDevice`).
pub trait ReadScalar: Send + Sync + Debug {
    /// Its bytes now: one element of the operator's type.
    fn read(&self) -> Vec<u8>;
}

/// A rank's own factor.
#[derive(Clone, Debug)]
pub(crate) enum Factor {
    /// Read already.
    Known(Scalar),
    /// To be read when the operation runs.
    Later(DataType, Arc<dyn ReadScalar>),
}

impl Factor {
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::Known(scalar) => scalar.data_type(),
            Self::Later(data_type, _) => *data_type,
        }
    }

    /// The number itself.
    pub(crate) fn read(&self) -> Result<Scalar, Fault> {
        match self {
            Self::Known(scalar) => Ok(*scalar),
            Self::Later(data_type, source) => {
                Scalar::from_bytes(*data_type, &source.read()).map_err(Fault::argument)
            }
        }
    }
}

/// An operation ready to be submitted.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) comm: Arc<Communicator>,
    pub(crate) work: Work,
    /// Where it is ordered, if a CUDA runtime orders work in this process.
    pub(crate) stream: Option<Stream>,
    /// Set when it is submitted.
    pub(crate) need: Need,
}

/// What is to be done once it may run.
#[derive(Debug)]
pub(crate) enum Work {
    /// An operation of all ranks.
    Collective { descriptor: Descriptor, factor: Option<Factor>, send: SendBuffer, recv: RecvBuffer },
    /// The sending half of a transfer.
    Send(Transfer, SendBuffer),
    /// The receiving half.
    Recv(Transfer, RecvBuffer),
    /// Bytes go into a peer's window, and then a signal to the peer.
    Put { peer: Rank, bytes: u64, local: usize, copy: Box<dyn Copy> },
    /// A signal alone.
    Signal { peer: Rank },
    /// The rank waits for signals.
    Await(Vec<Awaited>),
}

/// Bytes on their way into a window.
pub(crate) trait Copy: Send + Debug {
    /// Copies them.
    fn copy(&self);
}

impl Work {
    /// What the coordinator is told; nothing for a signal, which is a message of its own.
    pub(crate) fn action(&self) -> Option<Action> {
        Some(match self {
            Self::Collective { descriptor, .. } => Action::Collective(*descriptor),
            Self::Send(transfer, _) | Self::Recv(transfer, _) => Action::Transfer(*transfer),
            Self::Put { peer, bytes, .. } => Action::Put { peer: *peer, bytes: *bytes },
            Self::Await(awaited) => Action::Await(awaited.clone()),
            Self::Signal { .. } => return None,
        })
    }

    /// Where its buffers begin, as far as there are any.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        let of_send = |buffer: &SendBuffer| (!buffer.is_empty()).then(|| buffer.address());
        let of_recv = |buffer: &RecvBuffer| (!buffer.is_empty()).then(|| buffer.address());
        let (first, second) = match self {
            Self::Collective { send, recv, .. } => (of_send(send), of_recv(recv)),
            Self::Send(_, buffer) => (of_send(buffer), None),
            Self::Recv(_, buffer) => (of_recv(buffer), None),
            Self::Put { local, .. } => (Some(*local), None),
            Self::Signal { .. } | Self::Await(_) => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Whether it is made of transfers, and is submitted as such.
    pub(crate) const fn is_made_of_transfers(&self, is_alone: bool) -> bool {
        match self {
            Self::Collective { descriptor, .. } => match descriptor.op {
                Collective::Gather | Collective::Scatter => true,
                Collective::AllToAll => !is_alone,
                _ => false,
            },
            _ => false,
        }
    }
}

impl Prepared {
    pub(crate) const fn new(comm: Arc<Communicator>, work: Work) -> Self {
        Self { comm, work, stream: None, need: Need::Nothing }
    }

    /// The same operation once more; none where it cannot be done twice.
    pub(crate) fn again(&self) -> Option<Self> {
        let work = match &self.work {
            Work::Collective { descriptor, factor, send, recv } => {
                Work::Collective { descriptor: *descriptor, factor: factor.clone(), send: *send, recv: *recv }
            }
            Work::Send(transfer, buffer) => Work::Send(*transfer, *buffer),
            Work::Recv(transfer, buffer) => Work::Recv(*transfer, *buffer),
            Work::Put { .. } | Work::Signal { .. } | Work::Await(_) => return None,
        };
        Some(Self { stream: self.stream, ..Self::new(Arc::clone(&self.comm), work) })
    }

    /// The transfers that it is made of, in the protocol's order; itself where it is not.
    pub(crate) fn into_transfers(self) -> Result<Vec<Self>, Fault> {
        let Work::Collective { descriptor, send, recv, .. } = &self.work else { return Ok(vec![self]) };
        let parts = expand(descriptor, self.comm.rank(), self.comm.size());
        if parts.is_empty() {
            return Ok(vec![self]);
        }
        let outside = || Fault::internal("a part of a collective lies outside its buffers");
        let part = |part: fakegpu_rank::Part| {
            let work = match part.transfer.direction {
                Direction::Send => {
                    Work::Send(part.transfer, send.part(part.at, part.bytes).ok_or_else(outside)?)
                }
                Direction::Recv => {
                    Work::Recv(part.transfer, recv.part(part.at, part.bytes).ok_or_else(outside)?)
                }
            };
            Ok(Self { stream: self.stream, ..Self::new(Arc::clone(&self.comm), work) })
        };
        parts.into_iter().map(part).collect()
    }

    /// Counts the call among its rank's, and notes what it needs of other ranks.
    pub(crate) fn count(&mut self) {
        let size = self.comm.size();
        let mut tally = self.comm.tally();
        self.need = match &self.work {
            Work::Collective { descriptor, .. } if descriptor.op == Collective::AllToAll => {
                let half = |direction, peer| (direction, peer);
                let halves = (0..size)
                    .map(Rank)
                    .flat_map(|peer| [half(Direction::Send, peer), half(Direction::Recv, peer)]);
                Need::Halves(halves.map(|(direction, peer)| tally.half(direction, peer)).collect())
            }
            Work::Collective { .. } => Need::Order(tally.order()),
            Work::Send(transfer, _) | Work::Recv(transfer, _) => {
                Need::Halves(vec![tally.half(transfer.direction, transfer.peer)])
            }
            Work::Put { peer, .. } | Work::Signal { peer } => {
                tally.signal(*peer);
                Need::Nothing
            }
            Work::Await(awaited) => {
                Need::Signals(awaited.iter().map(|each| tally.await_signals(each)).collect())
            }
        };
    }
}

/// What must have been called for a communicator's other ranks before an operation can end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// As many operations of all ranks.
    Order(u64),
    /// The other halves of these, which are their owner's n-th of the kind.
    Halves(Vec<(Direction, Rank, u64)>),
    /// As many signals from each, in all.
    Signals(Vec<(Rank, u64)>),
}

impl Need {
    /// Whether a rank of the communicator, with this tally, has called all that is needed of it by rank `of`.
    pub(crate) fn is_met_by(&self, rank: Rank, tally: &Tally, of: Rank) -> bool {
        match self {
            Self::Nothing => true,
            Self::Order(ordinal) => tally.ordered >= *ordinal,
            Self::Halves(halves) => {
                halves.iter().filter(|(_, peer, _)| *peer == rank).all(|(direction, _, ordinal)| {
                    tally.halves.get(&(direction.opposite(), of)).is_some_and(|called| called >= ordinal)
                })
            }
            Self::Signals(signals) => signals
                .iter()
                .filter(|(peer, _)| *peer == rank)
                .all(|(_, count)| tally.signals.get(&of).copied().unwrap_or_default() >= *count),
        }
    }
}

/// What has been called for one rank so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Calls of any kind, as faults on purpose number them.
    calls: u64,
    /// Operations of all ranks.
    ordered: u64,
    halves: BTreeMap<(Direction, Rank), u64>,
    signals: BTreeMap<Rank, u64>,
    awaited: BTreeMap<Rank, u64>,
}

impl Tally {
    /// The number of the next call, from 0.
    pub(crate) fn call(&mut self) -> u64 {
        self.calls += 1;
        self.calls - 1
    }

    /// How many operations of all ranks were called.
    pub(crate) const fn ordered(&self) -> u64 {
        self.ordered
    }

    fn order(&mut self) -> u64 {
        self.ordered += 1;
        self.ordered
    }

    fn half(&mut self, direction: Direction, peer: Rank) -> (Direction, Rank, u64) {
        let count = self.halves.entry((direction, peer)).or_default();
        *count += 1;
        (direction, peer, *count)
    }

    fn signal(&mut self, peer: Rank) {
        *self.signals.entry(peer).or_default() += 1;
    }

    fn await_signals(&mut self, awaited: &Awaited) -> (Rank, u64) {
        let count = self.awaited.entry(awaited.peer).or_default();
        *count += awaited.count;
        (awaited.peer, *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_send_needs_the_second_receive_of_its_peer() {
        let (mut mine, mut theirs) = (Tally::default(), Tally::default());
        let need = |tally: &mut Tally| Need::Halves(vec![tally.half(Direction::Send, Rank(1))]);
        let (first, second) = (need(&mut mine), need(&mut mine));
        assert!(!first.is_met_by(Rank(1), &theirs, Rank(0)));
        theirs.half(Direction::Recv, Rank(0));
        assert!(first.is_met_by(Rank(1), &theirs, Rank(0)));
        assert!(!second.is_met_by(Rank(1), &theirs, Rank(0)));
        assert!(second.is_met_by(Rank(2), &Tally::default(), Rank(0)), "rank 2 has no part in it");
    }

    #[test]
    fn signals_add_up_over_waits() {
        let (mut waiter, mut sender) = (Tally::default(), Tally::default());
        let mut need = || Need::Signals(vec![waiter.await_signals(&Awaited { peer: Rank(1), count: 2 })]);
        let (first, second) = (need(), need());
        (0..2).for_each(|_| sender.signal(Rank(0)));
        assert!(first.is_met_by(Rank(1), &sender, Rank(0)));
        assert!(!second.is_met_by(Rank(1), &sender, Rank(0)));
    }
}
