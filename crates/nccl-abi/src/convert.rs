//! From C's open enums to the closed ones the rest of the workspace matches on.

use fakegpu_units::{DataType, ReduceOp};

use crate::types::{ncclDataType_t, ncclRedOp_t, ncclResult_t};

impl ncclDataType_t {
    /// The element type, or `None` for a value NCCL 2.32 does not have.
    pub const fn parse(self) -> Option<DataType> {
        Some(match self {
            Self::ncclInt8 => DataType::Int8,
            Self::ncclUint8 => DataType::UInt8,
            Self::ncclInt32 => DataType::Int32,
            Self::ncclUint32 => DataType::UInt32,
            Self::ncclInt64 => DataType::Int64,
            Self::ncclUint64 => DataType::UInt64,
            Self::ncclFloat16 => DataType::Float16,
            Self::ncclFloat32 => DataType::Float32,
            Self::ncclFloat64 => DataType::Float64,
            Self::ncclBfloat16 => DataType::BFloat16,
            Self::ncclFloat8e4m3 => DataType::Float8E4M3,
            Self::ncclFloat8e5m2 => DataType::Float8E5M2,
            _ => return None,
        })
    }
}

impl From<DataType> for ncclDataType_t {
    fn from(dtype: DataType) -> Self {
        match dtype {
            DataType::Int8 => Self::ncclInt8,
            DataType::UInt8 => Self::ncclUint8,
            DataType::Int32 => Self::ncclInt32,
            DataType::UInt32 => Self::ncclUint32,
            DataType::Int64 => Self::ncclInt64,
            DataType::UInt64 => Self::ncclUint64,
            DataType::Float16 => Self::ncclFloat16,
            DataType::Float32 => Self::ncclFloat32,
            DataType::Float64 => Self::ncclFloat64,
            DataType::BFloat16 => Self::ncclBfloat16,
            DataType::Float8E4M3 => Self::ncclFloat8e4m3,
            DataType::Float8E5M2 => Self::ncclFloat8e5m2,
        }
    }
}

impl ncclRedOp_t {
    /// The built-in operator; `None` for one made by `ncclRedOpCreatePreMulSum` and for no operator at all,
    /// which only the communicator that made it can tell apart.
    pub const fn parse(self) -> Option<ReduceOp> {
        Some(match self {
            Self::ncclSum => ReduceOp::Sum,
            Self::ncclProd => ReduceOp::Prod,
            Self::ncclMax => ReduceOp::Max,
            Self::ncclMin => ReduceOp::Min,
            Self::ncclAvg => ReduceOp::Avg,
            _ => return None,
        })
    }
}

impl ncclResult_t {
    /// Whether the call did what was asked.
    pub const fn is_success(self) -> bool {
        matches!(self, Self::ncclSuccess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_type_survives_the_round_trip() {
        for &dtype in DataType::ALL {
            assert_eq!(ncclDataType_t::from(dtype).parse(), Some(dtype));
        }
        assert_eq!((ncclDataType_t::ncclNumTypes.parse(), ncclDataType_t(-1).parse()), (None, None));
    }

    #[test]
    fn min_and_max_are_not_swapped() {
        assert_eq!(
            (ncclRedOp_t(2).parse(), ncclRedOp_t(3).parse()),
            (Some(ReduceOp::Max), Some(ReduceOp::Min))
        );
        assert_eq!((ncclRedOp_t::ncclNumOps.parse(), ncclRedOp_t(4096).parse()), (None, None));
    }
}
