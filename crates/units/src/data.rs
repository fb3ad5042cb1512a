//! What is moved and what is done to it: element types, reductions, collectives.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant),*
        }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The name used in reports, errors and files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.pad(self.name()) }
        }
    };
}

named! {
    /// An element type of NCCL 2.32; `char`/`half`/`int`/`float`/`double` are aliases of these.
    DataType {
        /// Signed 8-bit integer.
        Int8 = "int8",
        /// Unsigned 8-bit integer.
        UInt8 = "uint8",
        /// Signed 32-bit integer.
        Int32 = "int32",
        /// Unsigned 32-bit integer.
        UInt32 = "uint32",
        /// Signed 64-bit integer.
        Int64 = "int64",
        /// Unsigned 64-bit integer.
        UInt64 = "uint64",
        /// IEEE binary16.
        Float16 = "float16",
        /// IEEE binary32.
        Float32 = "float32",
        /// IEEE binary64.
        Float64 = "float64",
        /// The upper half of a binary32.
        BFloat16 = "bfloat16",
        /// 8-bit float, 4 exponent bits, no infinity (E4M3FN).
        Float8E4M3 = "float8e4m3",
        /// 8-bit float, 5 exponent bits.
        Float8E5M2 = "float8e5m2",
    }
}

impl DataType {
    /// Bytes an element takes.
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::UInt8 | Self::Float8E4M3 | Self::Float8E5M2 => 1,
            Self::Float16 | Self::BFloat16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 => 8,
        }
    }

    /// Whether elements are floating point.
    pub const fn is_float(self) -> bool {
        !matches!(self, Self::Int8 | Self::UInt8 | Self::Int32 | Self::UInt32 | Self::Int64 | Self::UInt64)
    }

    /// Whether elements are 8-bit floats, whose reductions need compute capability 9.0.
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::Float8E4M3 | Self::Float8E5M2)
    }
}

named! {
    /// How contributions are combined.
    ReduceOp {
        /// Sum.
        Sum = "sum",
        /// Product.
        Prod = "prod",
        /// Minimum.
        Min = "min",
        /// Maximum.
        Max = "max",
        /// Mean over the communicator's ranks.
        Avg = "avg",
        /// Each rank's contribution times its own scalar, summed.
        PreMulSum = "premulsum",
    }
}

named! {
    /// An operation of a whole communicator.
    Collective {
        /// Every rank gets the reduction of all contributions.
        AllReduce = "all_reduce",
        /// The root gets the reduction of all contributions.
        Reduce = "reduce",
        /// Every rank gets the root's buffer.
        Broadcast = "broadcast",
        /// Every rank gets all contributions, in rank order.
        AllGather = "all_gather",
        /// Rank r gets block r of the reduction.
        ReduceScatter = "reduce_scatter",
        /// Rank r's block s becomes rank s's block r.
        AllToAll = "all_to_all",
        /// The root gets all contributions, in rank order.
        Gather = "gather",
        /// Rank r gets the root's block r.
        Scatter = "scatter",
    }
}

impl Collective {
    /// Whether contributions are combined, so that element type and operator matter.
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    /// Whether one rank plays a part of its own.
    pub const fn has_root(self) -> bool {
        matches!(self, Self::Reduce | Self::Broadcast | Self::Gather | Self::Scatter)
    }

    /// The name of the C function.
    pub const fn nccl_name(self) -> &'static str {
        match self {
            Self::AllReduce => "ncclAllReduce",
            Self::Reduce => "ncclReduce",
            Self::Broadcast => "ncclBroadcast",
            Self::AllGather => "ncclAllGather",
            Self::ReduceScatter => "ncclReduceScatter",
            Self::AllToAll => "ncclAlltoAll",
            Self::Gather => "ncclGather",
            Self::Scatter => "ncclScatter",
        }
    }

    /// How many times `count` elements the rank's send buffer holds, in a communicator of `size`.
    pub const fn send_blocks(self, size: u32) -> u32 {
        match self {
            Self::ReduceScatter | Self::AllToAll | Self::Scatter => size,
            _ => 1,
        }
    }

    /// How many times `count` elements the rank's receive buffer holds, in a communicator of `size`.
    pub const fn recv_blocks(self, size: u32) -> u32 {
        match self {
            Self::AllGather | Self::AllToAll | Self::Gather => size,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_serialise_as_printed() {
        for data_type in DataType::ALL {
            assert_eq!(DataType::ALL.iter().filter(|other| other.name() == data_type.name()).count(), 1);
        }
        for op in Collective::ALL {
            assert_eq!(Collective::ALL.iter().filter(|other| other.name() == op.name()).count(), 1);
        }
    }
}
