//! Operations that a submission names whole but holds in parts, and what they take in the model.
//!
//! An all-to-all in a group, a gather and a scatter are submitted as transfers. A stream wants to know what the operation
//! takes when its own rank's part is done, and other ranks' parts may be in submissions that have long been answered.

use std::collections::BTreeMap;

use fakegpu_proto::{Action, Descriptor, Direction, Transfer};
use fakegpu_units::{Collective, CommId, Rank, VirtualSpan};

use crate::{Coordinator, Work};

/// An operation of which a submission holds parts.
#[derive(Debug)]
pub(crate) struct Whole {
    comm: CommId,
    descriptor: Descriptor,
    /// The transfers of each rank, by their direction.
    parts: BTreeMap<(Rank, Direction), u64>,
}

impl Whole {
    /// Those of a submission, each once.
    pub(crate) fn all_of(ops: &[(CommId, Rank, Action)]) -> Vec<Self> {
        let mut wholes: Vec<Self> = Vec::new();
        for (comm, rank, action) in ops {
            let Action::Transfer(transfer) = action else { continue };
            let Some(descriptor) = descriptor(*rank, transfer) else { continue };
            let at = wholes.iter().position(|whole| whole.comm == *comm && whole.descriptor == descriptor);
            let at = at.unwrap_or_else(|| {
                wholes.push(Self { comm: *comm, descriptor, parts: BTreeMap::new() });
                wholes.len() - 1
            });
            if let Some(whole) = wholes.get_mut(at) {
                *whole.parts.entry((*rank, transfer.direction)).or_default() += 1;
            }
        }
        wholes
    }

    /// How often the operation was called by the rank that called it most often.
    fn times(&self, size: u64) -> u64 {
        let of = |(&(rank, direction), &count): (&(Rank, Direction), &u64)| {
            let is_root = self.descriptor.root == Some(rank);
            let all = match self.descriptor.op {
                Collective::Gather => is_root && direction == Direction::Recv,
                Collective::Scatter => is_root && direction == Direction::Send,
                _ => true,
            };
            if all { count.div_ceil(size.max(1)) } else { count }
        };
        self.parts.iter().map(of).max().unwrap_or_default()
    }
}

/// The operation that a transfer is a part of.
fn descriptor(rank: Rank, transfer: &Transfer) -> Option<Descriptor> {
    let op = transfer.of?;
    let is_roots = match op {
        Collective::Gather => transfer.direction == Direction::Recv,
        _ => transfer.direction == Direction::Send,
    };
    let root = op.has_root().then_some(if is_roots { rank } else { transfer.peer });
    Some(Descriptor { op, count: transfer.count, data_type: transfer.data_type, reduce: None, root })
}

impl Coordinator {
    /// What these take in the model, one after the other.
    pub(crate) fn parts_span(&self, wholes: &[Whole]) -> VirtualSpan {
        let mut span = VirtualSpan::ZERO;
        for whole in wholes {
            let Some(comm) = self.comms.get(&whole.comm) else { continue };
            let work = Work { descriptor: &whole.descriptor, nodes: &comm.nodes, concurrent: 0 };
            let size = u64::try_from(comm.size()).unwrap_or(u64::MAX);
            span += self.cost.0.estimate(&work).total().times(whole.times(size));
        }
        span
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fakegpu_units::DataType;

    fn part(rank: u32, direction: Direction, peer: u32, of: Collective) -> (CommId, Rank, Action) {
        let transfer =
            Transfer { direction, peer: Rank(peer), count: 4, data_type: DataType::Int8, of: Some(of) };
        (CommId(1), Rank(rank), Action::Transfer(transfer))
    }

    fn times(ops: &[(CommId, Rank, Action)]) -> Vec<u64> {
        Whole::all_of(ops).iter().map(|whole| whole.times(2)).collect()
    }

    #[test]
    fn an_all_to_all_of_several_ranks_is_one_and_two_of_one_rank_are_two() {
        let call = |rank| {
            let both = [Direction::Send, Direction::Recv];
            both.into_iter()
                .flat_map(move |half| (0..2).map(move |peer| part(rank, half, peer, Collective::AllToAll)))
        };
        assert_eq!(times(&call(0).chain(call(1)).collect::<Vec<_>>()), [1]);
        assert_eq!(times(&call(0).chain(call(0)).collect::<Vec<_>>()), [2]);
    }

    #[test]
    fn a_gathers_root_and_its_senders_count_the_same_operation() {
        let sender = part(1, Direction::Send, 0, Collective::Gather);
        let root = [
            part(0, Direction::Send, 0, Collective::Gather),
            part(0, Direction::Recv, 0, Collective::Gather),
            part(0, Direction::Recv, 1, Collective::Gather),
        ];
        assert_eq!(times(&root), [1]);
        assert_eq!(times(std::slice::from_ref(&sender)), [1]);
        assert_eq!(times(&[root.as_slice(), &[sender]].concat()), [1]);
    }
}
