//! PTX kernels as functions of the host: translated by Cranelift, run block by block, every access checked.
//!
//! A kernel becomes one function that runs one of its threads. The threads of a block run one after the other, blocks
//! side by side on as many threads of the host as it has cores. That is right for kernels whose threads do not talk to
//! each other but by atomics; those that do are refused by `fakegpu-ptx` with their reason.
//!
//! Read [`Kernel`] first (a translated kernel), then [`Launch`] (what it is to be run over), then [`Job`] (a launch under
//! way). Memory is asked for at [`Memory`]: each place of the code that reads or writes through a pointer keeps the range
//! that it found last, so the question is asked once a range and place.
//!
//! **Limits.** A kernel that never ends takes its threads of the host for ever: only the end of the process ends it. A
//! thread of a block that waits for a later one of the same block, or a block for one that has not begun, waits for ever,
//! too.
//!
//! Sources: PTX ISA 9.0.
#![warn(missing_docs)]

mod alu;
mod compile;
mod context;
mod convert;
mod helpers;
mod memory;
mod pool;
mod run;
mod translate;

pub use compile::Kernel;
pub use pool::{Job, Pool};
pub use run::{Fault, FaultKind, Launch, Memory};
