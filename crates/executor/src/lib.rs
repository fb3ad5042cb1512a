//! How each collective is cut into rounds, and the arithmetic that folds one element of every rank into one.
//!
//! No sockets, shared memory, threads, clocks or environment enter: whoever owns the bytes (ranks over shared
//! slots, the coordinator over connections) hands slices in. Both execute the same [`Plan`] with the same
//! kernels, so a program sees the same bits whichever road its data took.
//!
//! Read [`Plan`] first (what a [`Round`] asks of a rank), then [`Reduction`] and [`fold`] (what the bits of a
//! reduction are), then [`Relay`] (the plan executed for ranks that share no memory).
//!
//! ```
//! use fakegpu_executor::{Plan, Reduction, Shape, local};
//! use fakegpu_units::{Collective, DataType, Rank, ReduceOp};
//!
//! let plan = Plan::new(Shape {
//!     op: Collective::AllReduce,
//!     size: 2,
//!     root: Rank(0),
//!     count: 3,
//!     elem_bytes: DataType::UInt8.size(),
//!     slot_bytes: 64,
//! })?;
//! let sum = Reduction { data_type: DataType::UInt8, op: ReduceOp::Sum, size: 2 };
//! let mut received = vec![vec![0; 3]; 2];
//! local::run_local(&plan, Some(sum), &[vec![1, 2, 3], vec![10, 20, 30]], &mut received)?;
//! assert_eq!(received, [[11, 22, 33], [11, 22, 33]]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Sources: IEEE 754-2019 §5.3.1 (`minimumNumber`, `maximumNumber`); the OCP 8-bit floating point
//! specification (E4M3, E5M2, saturating conversion); NCCL 2.32 `src/enqueue.cc` (scalar of an average).
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod error;
pub mod kernels;
pub mod local;
pub mod plan;
pub mod relay;
mod simd;
mod work;

pub use error::{KernelError, PlanError, RunError};
pub use kernels::{Reduction, Scalar, fold, prescale, prescale_in_place};
pub use plan::{Collect, FoldStep, FoldTarget, Plan, Publish, Round, Shape, Source, result_bytes};
pub use relay::{Relay, Replies};
pub use work::plan_of;
