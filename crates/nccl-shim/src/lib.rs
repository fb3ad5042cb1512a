//! The `libnccl.so.2` that programs load in NVIDIA's place: NCCL's exported functions, and nothing more.
//!
//! What a call means is not decided here. Each function of [`nccl_table!`](fakegpu_nccl_abi::nccl_table) and its
//! `pnccl` twin goes through the `fence` to the backend of `choice`; a panic ends there as `ncclInternalError`.
//! Nothing runs when the library is loaded: no constructor, no signal handler, no allocator, no global logger.
//! Whatever a backend needs from the environment it reads at the first call.
//!
//! Read `exports` first, then `choice`, then `edge`, where C's pointers and numbers become words of ours, row by row:
//! `collective` for the collectives, `answers` for the rest.
//!
//! ```c
//! int version;
//! ncclGetVersion(&version); // 23203
//! ```
//!
//! Sources: the export list of NCCL 2.32.3, whose symbols carry no version.

mod answers;
mod choice;
mod collective;
mod cuda;
mod edge;
mod exit;
mod exports;
mod fence;
mod log;
mod spawn;
mod streams;
