//! Stand-ins for GPU libraries that a program links and never needs.
//!
//! PyTorch's wheel imports some seven hundred functions of cuBLAS, cuDNN and a dozen further libraries; the loader wants
//! every one of them, and none is called where operations run on the CPU. [`Imports`] collects what a set of libraries
//! imports, [`write()`] makes a shared library that exports it: each function tells once on stderr that it is not there,
//! by name, and answers with an error code. No compiler is needed, and nothing of the vendor's is copied.
//!
//! ```
//! use fakegpu_stubs::{Kind, Stub, Symbol, write};
//!
//! let stub = Stub {
//!     soname: "libgpu.so.1".to_owned(),
//!     version: Some("GPU_1".to_owned()),
//!     symbols: vec![Symbol { name: "gpuMultiply".to_owned(), kind: Kind::Refuses { code: 15, told: true } }],
//! };
//! assert!(write(&stub)?.starts_with(b"\x7fELF"));
//! # Ok::<(), fakegpu_stubs::StubError>(())
//! ```
//!
//! Sources: System V ABI (ELF, symbol hashing), its AMD64 supplement (calling convention), Linux's system call numbers.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod code;
mod image;
mod imports;

pub use image::{StubError, write};
pub use imports::{Import, ImportError, Imports};

/// A library to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// The name that programs ask the loader for.
    pub soname: String,
    /// The version that its symbols are imported with.
    pub version: Option<String>,
    /// What it exports.
    pub symbols: Vec<Symbol>,
}

/// A function of a stub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: Kind,
}

/// What a function of a stub does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Answers with a code; with `told` the first call says so on stderr, by name.
    Refuses {
        /// The answer.
        code: i32,
        /// Whether it is told.
        told: bool,
    },
    /// Answers with a text that says there is no such library.
    Text,
}
