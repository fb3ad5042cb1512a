//! NCCL's C interface as data: every function once, the types they take, and what is derived from both.
//!
//! Nothing here communicates, allocates for a caller or keeps state. The one thing it does with foreign memory
//! is to read the caller's versioned structs field by field ([`Config::read`]); everything else is types and
//! tables, so that a library that exports NCCL, one that forwards to it and a test double cannot disagree.
//!
//! Read [`nccl_table!`] first: exports, twins, [`Backend`] and [`ABI_ROWS`] are expansions of it. Then
//! [`Backend`], whose default methods answer "not supported", and [`types`], where C enums are open newtypes:
//! a caller's unknown value is a value to refuse, not undefined behaviour.
//!
//! ```
//! use fakegpu_nccl_abi::{ABI_ROWS, types::ncclDataType_t};
//! use fakegpu_units::DataType;
//!
//! let row = ABI_ROWS.iter().find(|row| row.name == "ncclAlltoAll").unwrap();
//! assert_eq!((row.twin, row.since), (Some("pncclAlltoAll"), (2, 28)));
//! assert_eq!(ncclDataType_t::ncclHalf.parse(), Some(DataType::Float16));
//! assert_eq!(ncclDataType_t(99).parse(), None);
//! ```
//!
//! Sources: the exported symbols, declarations and struct layouts of NCCL 2.32.3 and its user guide. The
//! wording, here and in the generated header, is ours.
#![warn(missing_docs)]

#[macro_use]
mod describe;

pub mod backend;
pub mod config;
pub mod convert;
pub mod header;
pub mod rows;
mod table;
pub mod types;

pub use backend::{Answer, Backend};
pub use config::{Config, Preamble, StructError};
pub use rows::{ABI_ROWS, Param, Row, Section};

/// The version this interface describes, as `ncclGetVersion` writes it: 2.32.3.
pub const VERSION_CODE: std::ffi::c_int = VERSION.0 * 10_000 + VERSION.1 * 100 + VERSION.2;

/// Major, minor and patch number of [`VERSION_CODE`].
pub const VERSION: (std::ffi::c_int, std::ffi::c_int, std::ffi::c_int) = (2, 32, 3);
