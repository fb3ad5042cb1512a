//! One rank's view of one operation, and what matches what.

use std::fmt;

use fakegpu_units::{Collective, DataType, Rank, ReduceOp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What one rank says it is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Descriptor {
    /// The operation.
    pub op: Collective,
    /// Elements in a block, as the C call counts them.
    pub count: u64,
    /// Their type.
    pub data_type: DataType,
    /// How they are combined; `None` where nothing is.
    pub reduce: Option<ReduceOp>,
    /// The rank with a part of its own; `None` where there is none.
    pub root: Option<Rank>,
}

/// The part of a descriptor that all ranks must share. Equal signatures match.
///
/// Where bytes only move, the element type does not matter, just how many bytes a block has: PyTorch's
/// pipelining depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    op: Collective,
    root: Option<Rank>,
    reduce: Option<(ReduceOp, DataType)>,
    extent: u64,
}

/// The first field in which two descriptors differ, in the order a person would look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Different operations.
    Op,
    /// Different roots.
    Root,
    /// Different element types, where they are combined.
    DataType,
    /// Different operators.
    Reduce,
    /// Different counts, or byte counts where only bytes matter.
    Count,
}

impl Conflict {
    /// The field's name in sentences.
    pub const fn field(self) -> &'static str {
        match self {
            Self::Op => "operation",
            Self::Root => "root",
            Self::DataType => "datatype",
            Self::Reduce => "reduction operator",
            Self::Count => "count",
        }
    }
}

impl Descriptor {
    /// Bytes of one block.
    pub const fn block_bytes(&self) -> u64 {
        self.count.saturating_mul(self.data_type.size() as u64)
    }

    /// The bytes reports book for this operation in a communicator of `size`: the larger of what a rank sends
    /// and receives, which is the size nccl-tests prints.
    pub const fn booked_bytes(&self, size: u32) -> u64 {
        let blocks = if self.op.send_blocks(size) > self.op.recv_blocks(size) {
            self.op.send_blocks(size)
        } else {
            self.op.recv_blocks(size)
        };
        self.block_bytes().saturating_mul(blocks as u64)
    }

    /// What must be the same on every rank.
    pub fn signature(&self) -> Signature {
        Signature {
            op: self.op,
            root: self.root,
            reduce: self.reduce.map(|op| (op, self.data_type)),
            extent: if self.op.reduces() { self.count } else { self.block_bytes() },
        }
    }

    /// Every field in which the two disagree; empty where they match.
    pub fn conflicts(&self, other: &Self) -> Vec<Conflict> {
        if self.op != other.op {
            return vec![Conflict::Op];
        }
        let (mine, theirs) = (self.signature(), other.signature());
        let mut found = Vec::new();
        if mine.root != theirs.root {
            found.push(Conflict::Root);
        }
        if self.op.reduces() && self.data_type != other.data_type {
            found.push(Conflict::DataType);
        }
        if self.reduce != other.reduce {
            found.push(Conflict::Reduce);
        }
        if mine.extent != theirs.extent {
            found.push(Conflict::Count);
        }
        found
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(count={}, {}", self.op.nccl_name(), self.count, self.data_type)?;
        if let Some(reduce) = self.reduce {
            write!(f, ", {reduce}")?;
        }
        if let Some(root) = self.root {
            write!(f, ", root={root}")?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_reduce(count: u64, data_type: DataType, reduce: ReduceOp) -> Descriptor {
        Descriptor { op: Collective::AllReduce, count, data_type, reduce: Some(reduce), root: None }
    }

    fn broadcast(count: u64, data_type: DataType, root: u32) -> Descriptor {
        Descriptor { op: Collective::Broadcast, count, data_type, reduce: None, root: Some(Rank(root)) }
    }

    #[test]
    fn bytes_decide_where_bytes_only_move() {
        assert_eq!(
            broadcast(8, DataType::Float32, 0).conflicts(&broadcast(16, DataType::BFloat16, 0)),
            vec![]
        );
        assert_eq!(
            broadcast(8, DataType::Float32, 0).conflicts(&broadcast(8, DataType::BFloat16, 0)),
            vec![Conflict::Count]
        );
    }

    #[test]
    fn types_decide_where_values_are_combined() {
        let (float, brain) = (DataType::Float32, DataType::BFloat16);
        assert_eq!(
            all_reduce(8, float, ReduceOp::Sum).conflicts(&all_reduce(16, brain, ReduceOp::Sum)),
            vec![Conflict::DataType, Conflict::Count]
        );
        assert_eq!(
            all_reduce(8, float, ReduceOp::Sum).conflicts(&all_reduce(8, float, ReduceOp::Max)),
            vec![Conflict::Reduce]
        );
    }

    #[test]
    fn another_operation_hides_the_rest() {
        assert_eq!(
            all_reduce(8, DataType::Int8, ReduceOp::Sum).conflicts(&broadcast(9, DataType::Int32, 1)),
            vec![Conflict::Op]
        );
    }

    #[test]
    fn signatures_are_equal_exactly_where_nothing_conflicts() {
        let some = [
            all_reduce(8, DataType::Float32, ReduceOp::Sum),
            all_reduce(9, DataType::Float32, ReduceOp::Sum),
            all_reduce(8, DataType::Int32, ReduceOp::Sum),
            broadcast(8, DataType::Float32, 0),
            broadcast(8, DataType::Float32, 1),
            broadcast(16, DataType::Float16, 0),
        ];
        for a in &some {
            for b in &some {
                assert_eq!(a.signature() == b.signature(), a.conflicts(b).is_empty(), "{a} against {b}");
            }
        }
    }

    #[test]
    fn booked_bytes_are_the_size_that_nccl_tests_prints() {
        let gather = Descriptor {
            op: Collective::AllGather,
            count: 4,
            data_type: DataType::Int32,
            reduce: None,
            root: None,
        };
        assert_eq!(gather.booked_bytes(8), 128);
        assert_eq!(all_reduce(4, DataType::Int32, ReduceOp::Sum).booked_bytes(8), 16);
    }
}
