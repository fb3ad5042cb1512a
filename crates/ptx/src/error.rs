//! What is said of binaries and texts that cannot be read, and of kernels that are not translated.

use std::fmt;

/// The answer of a reader.
pub type Result<T> = std::result::Result<T, Error>;

/// A binary or a text that cannot be read, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl Error {
    pub(crate) fn at(line: u32, text: impl fmt::Display) -> Self {
        Self(format!("line {line} of the PTX: {text}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Why a kernel of a module that can be read is not translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What it does, as the end of "it ...", such as "uses shared memory (`bar.sync` at line 120 of the PTX)".
    pub reason: String,
}

impl Unsupported {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it {}", self.reason)
    }
}

impl std::error::Error for Unsupported {}

impl From<Error> for Unsupported {
    fn from(error: Error) -> Self {
        Self { reason: format!("cannot be read: {error}") }
    }
}
