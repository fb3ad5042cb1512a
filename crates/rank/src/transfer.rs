//! Point to point: one send or receive, the pairs a rank makes with itself, and the collectives that are made of
//! such pairs.

use std::collections::BTreeMap;

use fakegpu_proto::{Descriptor, Direction, Fault, Transfer};
use fakegpu_units::{Collective, DataType, Rank};

/// A send or receive as the C interface gives it, with addresses as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointToPoint {
    /// Which side.
    pub direction: Direction,
    /// The buffer's address; 0 is NULL.
    pub buffer: usize,
    /// Elements.
    pub count: usize,
    /// Their type.
    pub data_type: DataType,
    /// The other rank, as given.
    pub peer: i32,
    /// Ranks in the communicator.
    pub size: u32,
}

impl PointToPoint {
    /// Checks the arguments as NCCL does. A count of 0 is no reason to drop the call: the two sides still pair.
    ///
    /// # Errors
    /// A peer that is no rank, more bytes than memory has, a NULL buffer for elements that there are.
    pub fn check(&self) -> Result<Transfer, Fault> {
        let name = self.nccl_name();
        let peer = checked_peer(name, self.peer, self.size)?;
        let bytes = (self.count as u64).checked_mul(self.data_type.size() as u64);
        if bytes.is_none_or(|bytes| bytes > isize::MAX as u64) {
            return Err(Fault::argument(format!(
                "{name}: count {} of {} is more bytes than memory has",
                self.count, self.data_type
            )));
        }
        if self.buffer == 0 && self.count > 0 {
            return Err(Fault::argument(format!("{name}: the buffer is NULL, but count is {}", self.count)));
        }
        Ok(Transfer {
            direction: self.direction,
            peer,
            count: self.count as u64,
            data_type: self.data_type,
            of: None,
        })
    }

    /// The name of the C function.
    pub const fn nccl_name(&self) -> &'static str {
        match self.direction {
            Direction::Send => "ncclSend",
            Direction::Recv => "ncclRecv",
        }
    }
}

/// A peer as C gives it, as a rank.
///
/// # Errors
/// Where it is none.
pub fn checked_peer(name: &str, peer: i32, size: u32) -> Result<Rank, Fault> {
    match u32::try_from(peer) {
        Ok(rank) if rank < size => Ok(Rank(rank)),
        _ => Err(Fault::argument(format!("{name}: peer {peer} is no rank of a communicator of {size}"))),
    }
}

/// The sends and receives that one rank of one communicator has in a group with itself: nobody else will ever
/// bring the other half.
#[derive(Clone, Debug, Default)]
pub struct SelfPairs {
    by_comm: BTreeMap<usize, [Vec<u64>; 2]>,
}

impl SelfPairs {
    /// Takes a transfer of `rank` in the communicator numbered `comm`, if it is one with itself.
    pub fn add(&mut self, comm: usize, rank: Rank, transfer: &Transfer) {
        if transfer.peer == rank {
            let [sends, receives] = self.by_comm.entry(comm).or_default();
            match transfer.direction {
                Direction::Send => sends.push(transfer.bytes()),
                Direction::Recv => receives.push(transfer.bytes()),
            }
        }
    }

    /// Whether every send has its receive, of as many bytes.
    ///
    /// # Errors
    /// Invalid usage, where one has not.
    pub fn check(&self) -> Result<(), Fault> {
        for [sends, receives] in self.by_comm.values() {
            if sends.len() != receives.len() {
                return Err(Fault::usage(format!(
                    "a rank sends to itself {} times and receives from itself {} times in one group: both halves must stand between \
                     the same ncclGroupStart and ncclGroupEnd",
                    sends.len(),
                    receives.len()
                )));
            }
            if let Some((send, receive)) = sends.iter().zip(receives).find(|(send, receive)| send != receive)
            {
                return Err(Fault::usage(format!(
                    "a rank sends itself {send} bytes where it receives {receive}: the two must be equal"
                )));
            }
        }
        Ok(())
    }
}

/// One transfer of a collective that is made of transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The transfer.
    pub transfer: Transfer,
    /// Where its bytes begin in the call's send or receive buffer.
    pub at: usize,
    /// How many they are.
    pub bytes: usize,
}

/// The transfers that a rank's all-to-all, gather or scatter is made of; empty for other collectives, which are
/// not made of transfers. In the order that the protocol numbers an all-to-all's: to rank 0, from rank 0, to
/// rank 1, and so on.
pub fn expand(descriptor: &Descriptor, rank: Rank, size: u32) -> Vec<Part> {
    let bytes = usize::try_from(descriptor.block_bytes()).unwrap_or(usize::MAX);
    let part = |direction, peer: Rank, block: Rank| Part {
        transfer: Transfer {
            direction,
            peer,
            count: descriptor.count,
            data_type: descriptor.data_type,
            of: Some(descriptor.op),
        },
        at: block.index().saturating_mul(bytes),
        bytes,
    };
    let peers = (0..size).map(Rank);
    let root = descriptor.root.unwrap_or(Rank(0));
    // What is no root has one block; the root has one a rank, and is a peer of its own.
    let (only, is_root) = (Rank(0), rank == root);
    match descriptor.op {
        Collective::AllToAll => peers
            .flat_map(|peer| [part(Direction::Send, peer, peer), part(Direction::Recv, peer, peer)])
            .collect(),
        Collective::Gather => std::iter::once(part(Direction::Send, root, only))
            .chain(peers.filter(|_| is_root).map(|peer| part(Direction::Recv, peer, peer)))
            .collect(),
        Collective::Scatter => peers
            .filter(|_| is_root)
            .map(|peer| part(Direction::Send, peer, peer))
            .chain(std::iter::once(part(Direction::Recv, root, only)))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use fakegpu_proto::Code;

    use super::*;

    const SEND: PointToPoint = PointToPoint {
        direction: Direction::Send,
        buffer: 0x1000,
        count: 3,
        data_type: DataType::Float8E4M3,
        peer: 1,
        size: 2,
    };

    #[track_caller]
    fn refused(call: PointToPoint, words: &str) {
        let fault = call.check().unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument);
        assert!(fault.detail.contains(words), "{}", fault.detail);
    }

    #[test]
    fn no_elements_still_pair_and_need_no_buffer() {
        assert_eq!(PointToPoint { count: 0, buffer: 0, ..SEND }.check().unwrap().bytes(), 0);
        refused(PointToPoint { buffer: 0, ..SEND }, "the buffer is NULL");
    }

    #[test]
    fn peers_and_sizes_are_checked_even_without_elements() {
        refused(
            PointToPoint { peer: 2, count: 0, ..SEND },
            "ncclSend: peer 2 is no rank of a communicator of 2",
        );
        refused(PointToPoint { peer: -1, direction: Direction::Recv, ..SEND }, "ncclRecv: peer -1");
        refused(
            PointToPoint { count: usize::MAX / 2, data_type: DataType::Float64, ..SEND },
            "more bytes than memory",
        );
    }

    #[test]
    fn what_a_rank_sends_itself_it_must_receive_in_the_same_group() {
        let own = |direction, count| PointToPoint { direction, peer: 0, count, ..SEND }.check().unwrap();
        let check = |transfers: &[Transfer]| {
            let mut pairs = SelfPairs::default();
            transfers.iter().for_each(|transfer| pairs.add(7, Rank(0), transfer));
            pairs.check()
        };
        assert_eq!(check(&[own(Direction::Recv, 3), own(Direction::Send, 3)]), Ok(()));
        assert_eq!(check(&[own(Direction::Send, 3)]).unwrap_err().code, Code::InvalidUsage);
        let unequal = check(&[own(Direction::Send, 3), own(Direction::Recv, 4)]).unwrap_err();
        assert!(unequal.detail.contains("3 bytes where it receives 4"), "{}", unequal.detail);
        // What goes to others is their business.
        assert_eq!(check(&[SEND.check().unwrap()]), Ok(()));
    }

    #[test]
    fn halves_in_different_communicators_are_no_pair() {
        let mut pairs = SelfPairs::default();
        let own = |direction| PointToPoint { direction, peer: 0, ..SEND }.check().unwrap();
        pairs.add(1, Rank(0), &own(Direction::Send));
        pairs.add(2, Rank(0), &own(Direction::Recv));
        assert!(pairs.check().is_err());
    }

    fn parts(op: Collective, rank: u32) -> Vec<(Direction, u32, usize)> {
        let root = op.has_root().then_some(Rank(1));
        let descriptor = Descriptor { op, count: 5, data_type: DataType::Float16, reduce: None, root };
        expand(&descriptor, Rank(rank), 3)
            .into_iter()
            .map(|part| {
                assert_eq!((part.bytes, part.transfer.of), (10, Some(op)));
                (part.transfer.direction, part.transfer.peer.0, part.at)
            })
            .collect()
    }

    #[test]
    fn an_all_to_all_alternates_in_rank_order() {
        use Direction::{Recv, Send};
        assert_eq!(
            parts(Collective::AllToAll, 2),
            [(Send, 0, 0), (Recv, 0, 0), (Send, 1, 10), (Recv, 1, 10), (Send, 2, 20), (Recv, 2, 20)]
        );
    }

    #[test]
    fn a_root_takes_part_in_its_own_gather_and_scatter() {
        use Direction::{Recv, Send};
        assert_eq!(parts(Collective::Gather, 0), [(Send, 1, 0)]);
        assert_eq!(parts(Collective::Gather, 1), [(Send, 1, 0), (Recv, 0, 0), (Recv, 1, 10), (Recv, 2, 20)]);
        assert_eq!(parts(Collective::Scatter, 2), [(Recv, 1, 0)]);
        assert_eq!(parts(Collective::Scatter, 1), [(Send, 0, 0), (Send, 1, 10), (Send, 2, 20), (Recv, 1, 0)]);
        assert_eq!(parts(Collective::AllGather, 0), []);
    }
}
