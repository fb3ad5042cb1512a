//! Everything a rank can ask the others to take part in, one submission's entries.

use std::fmt;

use fakegpu_units::{Collective, DataType, Rank};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::descriptor::{Conflict, Descriptor, Signature};

/// One entry of a submission.
///
/// Collectives, splits, windows and agreements take the next place of their communicator's order on every rank.
/// Transfers pair by (source, destination) alone, puts and waits are one rank's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Action {
    /// An operation of all ranks.
    Collective(Descriptor),
    /// One side of a point-to-point operation.
    Transfer(Transfer),
    /// The communicator is cut into one per colour. Alone in its submission.
    Split(Split),
    /// Memory becomes a window of all ranks, or stops being one. Alone in its submission.
    Window(Window),
    /// All ranks say whether something local went well. Alone in its submission.
    Agree {
        /// Whether it did here.
        fine: bool,
    },
    /// Bytes are written into a peer's window; released at once, signalled by the rank when they are there.
    Put {
        /// Whose window.
        peer: Rank,
        /// How many bytes.
        bytes: u64,
    },
    /// The rank waits until peers have signalled.
    Await(Vec<Awaited>),
}

/// Which side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The rank sends to its peer.
    Send,
    /// The rank receives from its peer.
    Recv,
}

/// One side of a point-to-point operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Transfer {
    /// Which side.
    pub direction: Direction,
    /// The other rank; may be the caller itself.
    pub peer: Rank,
    /// Elements.
    pub count: u64,
    /// Their type; only the bytes must agree.
    pub data_type: DataType,
    /// The call it is a part of, where that was `ncclAlltoAll`, `ncclGather` or `ncclScatter`.
    pub of: Option<Collective>,
}

/// One rank's part in a split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// Its communicator's colour; `None` joins none.
    pub color: Option<u32>,
    /// Orders ranks within a colour; equal keys keep the parent's order.
    pub key: i32,
    /// Where this rank hands out the segment, should it be rank 0: the name of a private listening socket.
    pub listener: Option<String>,
    /// The new communicator's name, for people.
    pub name: Option<String>,
}

/// One rank's part in making or ending a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Window {
    /// Memory becomes a window.
    Register {
        /// Bytes of this rank's part.
        bytes: u64,
        /// Whether this rank's memory can be mapped by others.
        mappable: bool,
        /// Where rank 0 collects and hands out descriptors of memory.
        listener: Option<String>,
    },
    /// A window ends.
    Deregister,
}

/// Signals that a rank waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Awaited {
    /// Whose.
    pub peer: Rank,
    /// How many.
    pub count: u64,
}

/// The part of an action that must be the same on all ranks; equal signatures match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActionSignature {
    /// A collective's.
    Collective(Signature),
    /// A split.
    Split,
    /// Making a window.
    Register,
    /// Ending a window.
    Deregister,
    /// An agreement.
    Agree,
    /// Not matched by the communicator's order.
    Own,
}

impl Action {
    /// What must be the same on every rank.
    pub fn signature(&self) -> ActionSignature {
        match self {
            Self::Collective(descriptor) => ActionSignature::Collective(descriptor.signature()),
            Self::Split(_) => ActionSignature::Split,
            Self::Window(Window::Register { .. }) => ActionSignature::Register,
            Self::Window(Window::Deregister) => ActionSignature::Deregister,
            Self::Agree { .. } => ActionSignature::Agree,
            Self::Transfer(_) | Self::Put { .. } | Self::Await(_) => ActionSignature::Own,
        }
    }

    /// Every field in which two calls of one place in the order disagree; empty where they match.
    pub fn conflicts(&self, other: &Self) -> Vec<Conflict> {
        match (self, other) {
            (Self::Collective(mine), Self::Collective(theirs)) => mine.conflicts(theirs),
            _ if self.signature() == other.signature() => Vec::new(),
            _ => vec![Conflict::Op],
        }
    }

    /// Whether it takes a place in the communicator's order.
    pub const fn is_ordered(&self) -> bool {
        !matches!(self, Self::Transfer(_) | Self::Put { .. } | Self::Await(_))
    }

    /// Whether it is answered by a message of its own and must be alone in its submission.
    pub const fn is_alone(&self) -> bool {
        matches!(self, Self::Split(_) | Self::Window(_) | Self::Agree { .. })
    }

    /// The collective's descriptor, where it is one.
    pub const fn descriptor(&self) -> Option<&Descriptor> {
        match self {
            Self::Collective(descriptor) => Some(descriptor),
            _ => None,
        }
    }
}

impl From<Descriptor> for Action {
    fn from(descriptor: Descriptor) -> Self {
        Self::Collective(descriptor)
    }
}

impl From<Transfer> for Action {
    fn from(transfer: Transfer) -> Self {
        Self::Transfer(transfer)
    }
}

impl Transfer {
    /// How many bytes.
    pub const fn bytes(&self) -> u64 {
        self.count.saturating_mul(self.data_type.size() as u64)
    }
}

impl Direction {
    /// The other side.
    pub const fn opposite(self) -> Self {
        match self {
            Self::Send => Self::Recv,
            Self::Recv => Self::Send,
        }
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, side) = match self.direction {
            Direction::Send => ("ncclSend", "to"),
            Direction::Recv => ("ncclRecv", "from"),
        };
        write!(f, "{name}(count={}, {}, {side} rank {})", self.count, self.data_type, self.peer)?;
        match self.of {
            Some(of) => write!(f, " of {}", of.nccl_name()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Collective(descriptor) => descriptor.fmt(f),
            Self::Transfer(transfer) => transfer.fmt(f),
            Self::Split(Split { color: Some(color), key, .. }) => {
                write!(f, "ncclCommSplit(color={color}, key={key})")
            }
            Self::Split(Split { color: None, .. }) => f.write_str("ncclCommSplit(color=-1)"),
            Self::Window(Window::Register { bytes, .. }) => {
                write!(f, "ncclCommWindowRegister({bytes} bytes)")
            }
            Self::Window(Window::Deregister) => f.write_str("ncclCommWindowDeregister"),
            Self::Agree { .. } => f.write_str("ncclCommWindowRegister (second step)"),
            Self::Put { peer, bytes } => write!(f, "ncclPutSignal({bytes} bytes, to rank {peer})"),
            Self::Await(awaited) => {
                f.write_str("ncclWaitSignal(")?;
                for (at, each) in awaited.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{} from rank {}", each.count, each.peer)?;
                }
                f.write_str(")")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fakegpu_units::ReduceOp;

    use super::*;

    fn send(count: u64) -> Transfer {
        Transfer { direction: Direction::Send, peer: Rank(3), count, data_type: DataType::Float16, of: None }
    }

    #[test]
    fn a_split_conflicts_with_a_collective_and_not_with_another_colour() {
        let split = |color| Action::Split(Split { color, key: 0, listener: None, name: None });
        let reduce = Action::Collective(Descriptor {
            op: Collective::AllReduce,
            count: 1,
            data_type: DataType::Int8,
            reduce: Some(ReduceOp::Sum),
            root: None,
        });
        assert_eq!(split(None).conflicts(&split(Some(3))), []);
        assert_eq!(split(None).conflicts(&reduce), [Conflict::Op]);
    }

    #[test]
    fn calls_read_as_a_program_wrote_them() {
        assert_eq!(send(2).to_string(), "ncclSend(count=2, float16, to rank 3)");
        let part = Transfer { of: Some(Collective::Gather), direction: Direction::Recv, ..send(2) };
        assert_eq!(part.to_string(), "ncclRecv(count=2, float16, from rank 3) of ncclGather");
        assert_eq!(
            Action::Await(vec![Awaited { peer: Rank(1), count: 2 }]).to_string(),
            "ncclWaitSignal(2 from rank 1)"
        );
    }

    #[test]
    fn a_transfer_has_as_many_bytes_as_its_elements() {
        assert_eq!((send(3).bytes(), send(u64::MAX).bytes()), (6, u64::MAX));
    }
}
