//! CUDA's C interface as data: every function of the runtime and of the driver once, the types they take, and what is
//! derived from both.
//!
//! Nothing here computes, allocates for a caller or keeps state. A library that exports the runtime, the library that
//! answers it and a test double expand the same rows, so they cannot disagree.
//!
//! Read [`runtime_table!`] first: the exports of `libcudart.so.12` and `.13` ([`runtime_exports!`]), the table between
//! them and `libcuda.so.1` ([`RuntimeTable`]), the answers behind it ([`runtime::answers`], whose default methods refuse by
//! name) and [`RUNTIME_ROWS`] are expansions of it. Then [`driver_table!`], for `libcuda.so.1` itself ([`driver`]), and
//! [`StreamTable`], by which work of other libraries becomes items of streams. [`client`] finds both tables in a process.
//!
//! ```
//! use fakegpu_cuda_abi::{DRIVER_ROWS, RUNTIME_ROWS, types::cudaError_t};
//!
//! let row = RUNTIME_ROWS.iter().find(|row| row.name == "cudaGetDeviceProperties_v13").unwrap();
//! assert_eq!(row.symbol(13), Some("cudaGetDeviceProperties"));
//! assert_eq!(row.symbol(12), None);
//! let row = DRIVER_ROWS.iter().find(|row| row.name == "cuMemAlloc_v2").unwrap();
//! assert_eq!((row.asked, row.since), ("cuMemAlloc", 3020));
//! assert_eq!(cudaError_t(2).name(), c"cudaErrorMemoryAllocation");
//! ```
//!
//! Sources: the exported symbols, declarations and struct layouts of the CUDA runtime 12.8.90 and 13.2.86 and of the
//! driver interface 13.2. The wording is ours.
#![warn(missing_docs)]

mod answer;
pub mod client;
pub mod codes;
pub mod driver;
mod exports;
pub mod layouts;
pub mod rows;
pub mod runtime;
pub mod streams;
mod table;
pub mod types;

pub use answer::{Answer, DriverAnswer};
pub use rows::{DRIVER_ROWS, DriverRow, Export, RUNTIME_ROWS, RuntimeRow};
pub use runtime::{RuntimeTable, TABLE_VERSION};
pub use streams::StreamTable;

/// The version of CUDA that the driver speaks, as `cuDriverGetVersion` writes it: 13.2.
pub const DRIVER_VERSION: std::ffi::c_int = 13_020;

/// The version that a runtime of this major says it is, as `cudaRuntimeGetVersion` writes it.
pub const fn runtime_version(major: u32) -> std::ffi::c_int {
    if major == 12 { 12_080 } else { 13_020 }
}
