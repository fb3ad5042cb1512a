//! A failure as it travels: a code the program branches on and a sentence for the person who repairs.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of failure; each maps to one `ncclResult_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// An argument of the call is wrong (`ncclInvalidArgument`).
    InvalidArgument,
    /// The ranks' calls do not fit together, or come at the wrong time (`ncclInvalidUsage`).
    InvalidUsage,
    /// The system or a missing rank is at fault: time-outs, sockets, memory (`ncclSystemError`).
    SystemError,
    /// Another process died, left or aborted (`ncclRemoteError`).
    RemoteError,
    /// A bug of ours (`ncclInternalError`).
    InternalError,
}

impl Code {
    /// The name NCCL gives it.
    pub const fn nccl_name(self) -> &'static str {
        match self {
            Self::InvalidArgument => "ncclInvalidArgument",
            Self::InvalidUsage => "ncclInvalidUsage",
            Self::SystemError => "ncclSystemError",
            Self::RemoteError => "ncclRemoteError",
            Self::InternalError => "ncclInternalError",
        }
    }
}

/// A failure with its sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{detail}")]
pub struct Fault {
    /// What the program sees.
    pub code: Code,
    /// What the person reads: what was seen, where, and what to do.
    pub detail: String,
}

impl Fault {
    /// A fault of this code.
    pub fn new(code: Code, detail: impl fmt::Display) -> Self {
        Self { code, detail: detail.to_string() }
    }

    /// Short for a [`Code::SystemError`].
    pub fn system(detail: impl fmt::Display) -> Self {
        Self::new(Code::SystemError, detail)
    }

    /// Short for a [`Code::InvalidUsage`].
    pub fn usage(detail: impl fmt::Display) -> Self {
        Self::new(Code::InvalidUsage, detail)
    }

    /// Short for a [`Code::InvalidArgument`].
    pub fn argument(detail: impl fmt::Display) -> Self {
        Self::new(Code::InvalidArgument, detail)
    }

    /// Short for a [`Code::RemoteError`].
    pub fn remote(detail: impl fmt::Display) -> Self {
        Self::new(Code::RemoteError, detail)
    }

    /// Short for a [`Code::InternalError`].
    pub fn internal(detail: impl fmt::Display) -> Self {
        Self::new(Code::InternalError, detail)
    }
}
