//! What the ranks of a job call, in order: one script a rank.

use std::fmt;

use super::element::DataType;

/// A built-in operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceOp {
    /// Sum.
    Sum,
    /// Product.
    Prod,
    /// Largest.
    Max,
    /// Smallest.
    Min,
    /// Sum divided by the number of ranks.
    Avg,
}

impl ReduceOp {
    /// All, in NCCL's order.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Prod, Self::Max, Self::Min, Self::Avg];

    /// NCCL's number of it.
    pub const fn number(self) -> i32 {
        self as i32
    }
}

/// Which call. Roots and peers are ranks of the communicator, as given: a wrong program may give any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ncclAllReduce`.
    AllReduce(ReduceOp),
    /// `ncclReduce`, to a root.
    Reduce(ReduceOp, i32),
    /// `ncclBroadcast`, from a root.
    Broadcast(i32),
    /// `ncclAllGather`.
    AllGather,
    /// `ncclReduceScatter`.
    ReduceScatter(ReduceOp),
    /// `ncclAlltoAll`.
    AllToAll,
    /// `ncclGather`, to a root.
    Gather(i32),
    /// `ncclScatter`, from a root.
    Scatter(i32),
    /// `ncclSend`, to a peer.
    Send(i32),
    /// `ncclRecv`, from a peer.
    Recv(i32),
}

impl Kind {
    /// The operator, where values are combined.
    pub const fn reduce(self) -> Option<ReduceOp> {
        match self {
            Self::AllReduce(op) | Self::Reduce(op, _) | Self::ReduceScatter(op) => Some(op),
            _ => None,
        }
    }

    /// The root.
    pub const fn root(self) -> Option<i32> {
        match self {
            Self::Reduce(_, root) | Self::Broadcast(root) | Self::Gather(root) | Self::Scatter(root) => {
                Some(root)
            }
            _ => None,
        }
    }

    /// The other rank of a send or receive.
    pub const fn peer(self) -> Option<i32> {
        match self {
            Self::Send(peer) | Self::Recv(peer) => Some(peer),
            _ => None,
        }
    }

    /// Whether it is made of sends and receives.
    pub const fn is_pairwise(self) -> bool {
        matches!(self, Self::AllToAll | Self::Gather(_) | Self::Scatter(_) | Self::Send(_) | Self::Recv(_))
    }

    /// The C function.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce(_) => "ncclAllReduce",
            Self::Reduce(..) => "ncclReduce",
            Self::Broadcast(_) => "ncclBroadcast",
            Self::AllGather => "ncclAllGather",
            Self::ReduceScatter(_) => "ncclReduceScatter",
            Self::AllToAll => "ncclAlltoAll",
            Self::Gather(_) => "ncclGather",
            Self::Scatter(_) => "ncclScatter",
            Self::Send(_) => "ncclSend",
            Self::Recv(_) => "ncclRecv",
        }
    }

    /// Blocks of `count` elements that `rank` of `size` sends from its buffer; 0 where it sends nothing.
    pub fn send_blocks(self, rank: usize, size: usize) -> usize {
        let is_root = self.root() == i32::try_from(rank).ok();
        match self {
            Self::ReduceScatter(_) | Self::AllToAll => size,
            Self::Scatter(_) => usize::from(is_root) * size,
            Self::Broadcast(_) => usize::from(is_root),
            Self::Recv(_) => 0,
            _ => 1,
        }
    }

    /// Blocks of `count` elements that `rank` of `size` receives into its buffer; 0 where it receives nothing.
    pub fn recv_blocks(self, rank: usize, size: usize) -> usize {
        let is_root = self.root() == i32::try_from(rank).ok();
        match self {
            Self::AllGather | Self::AllToAll => size,
            Self::Gather(_) => usize::from(is_root) * size,
            Self::Reduce(..) => usize::from(is_root),
            Self::Send(_) => 0,
            _ => 1,
        }
    }
}

/// One call of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Its number, from which its data are made; ranks that call the same operation share it.
    pub id: u32,
    /// The communicator, as the program numbers them.
    pub comm: usize,
    /// Which call.
    pub kind: Kind,
    /// Elements in a block.
    pub count: usize,
    /// Their type.
    pub data_type: DataType,
    /// Whether the buffers are one, in NCCL's in-place form.
    pub in_place: bool,
    /// Whether buffers that the rank does not use are NULL.
    pub bare: bool,
}

impl Op {
    /// Bytes of a block.
    pub const fn block(&self) -> usize {
        self.count * self.data_type.size()
    }

    /// Whether it succeeds without matching anything.
    pub const fn is_dropped(&self) -> bool {
        self.count == 0 && self.kind.peer().is_none()
    }
}

/// What a rank does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// `ncclCommSplit`.
    Split {
        /// The communicator that is cut.
        parent: usize,
        /// The number of what it becomes.
        child: usize,
        /// Those of one colour stay together; `None` takes part and joins none.
        colour: Option<i32>,
        /// By which they are ordered.
        key: i32,
    },
    /// Calls that go together.
    Group {
        /// In call order.
        ops: Vec<Op>,
        /// Whether `ncclGroupStart` and `ncclGroupEnd` stand around them.
        grouped: bool,
    },
}

/// A program of several ranks.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it was made from.
    pub seed: u64,
    /// What each rank of communicator 0, the world, does.
    pub scripts: Vec<Vec<Step>>,
    /// Communicators, the world included.
    pub comms: usize,
    /// Whether its floats are infinite, no numbers or close to nothing now and then.
    pub special: bool,
    /// What was made wrong with it, if anything was.
    pub mutation: Option<String>,
}

impl Program {
    /// The number of ranks.
    pub const fn ranks(&self) -> usize {
        self.scripts.len()
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}#{}(comm {}, {} x {:?}",
            self.kind.name(),
            self.id,
            self.comm,
            self.count,
            self.data_type
        )?;
        if let Some(op) = self.kind.reduce() {
            write!(f, ", {op:?}")?;
        }
        if let Some(root) = self.kind.root() {
            write!(f, ", root {root}")?;
        }
        if let Some(peer) = self.kind.peer() {
            write!(f, ", peer {peer}")?;
        }
        f.write_str(if self.in_place { ", in place)" } else { ")" })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Split { parent, child, colour, key } => {
                let colour = colour.map_or_else(|| "none".to_owned(), |colour| colour.to_string());
                write!(f, "split comm {parent} into comm {child}: colour {colour}, key {key}")
            }
            Self::Group { ops, grouped } => {
                let ops: Vec<String> = ops.iter().map(ToString::to_string).collect();
                if *grouped {
                    write!(f, "group {{ {} }}", ops.join("; "))
                } else {
                    f.write_str(&ops.join("; "))
                }
            }
        }
    }
}

/// Every rank's script, steps numbered.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mutation = self.mutation.as_deref().unwrap_or("nothing");
        writeln!(f, "program {}: {} ranks, made wrong: {mutation}", self.seed, self.ranks())?;
        for (rank, script) in self.scripts.iter().enumerate() {
            writeln!(f, "rank {rank}:")?;
            for (at, step) in script.iter().enumerate() {
                writeln!(f, "  {at}: {step}")?;
            }
        }
        Ok(())
    }
}
