//! What a refusal is: a code of CUDA's, and a sentence for a person.

use std::borrow::Cow;
use std::fmt;

/// The answer of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// A call that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: Cow<'static, str>,
}

impl Error {
    /// A refusal with its sentence: what was seen, where, and what to do.
    pub fn new(kind: ErrorKind, text: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, text: text.into() }
    }

    /// CUDA's code for it.
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Not an error so much as an answer; made without memory, since programs poll for it.
    pub(crate) const fn not_ready() -> Self {
        Self { kind: ErrorKind::NotReady, text: Cow::Borrowed("the work is not done yet") }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.text)
    }
}

impl std::error::Error for Error {}

/// For the commonest refusal.
pub(crate) fn invalid<T>(text: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(Error::new(ErrorKind::InvalidValue, text))
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $code:literal),* $(,)?) => {
        /// A code of CUDA's; the number is that of `cudaError_t` and, but for a few names, of `CUresult`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum ErrorKind {
            $($(#[$doc])* $variant = $code),*
        }

        impl ErrorKind {
            /// Every kind, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The number in `driver_types.h`.
            pub const fn code(self) -> i32 {
                match self { $(Self::$variant => $code),* }
            }

            /// The name in `driver_types.h`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => concat!("cudaError", stringify!($variant))),* }
            }
        }
    };
}

kinds! {
    /// An argument lies outside what the call accepts.
    InvalidValue = 1,
    /// The device, or the host behind it, has no memory left.
    MemoryAllocation = 2,
    /// The world cannot be used here, as in a child after `fork`.
    InitializationError = 3,
    /// No device has a grid or a block of these dimensions.
    InvalidConfiguration = 9,
    /// Rows of a copy overlap.
    InvalidPitchValue = 12,
    /// A copy's kind is none.
    InvalidMemcpyDirection = 21,
    /// No device is visible.
    NoDevice = 100,
    /// There is no device with this ordinal.
    InvalidDevice = 101,
    /// A handle of the process's own cannot be opened in it.
    DeviceUninitialized = 201,
    /// Memory of another process cannot be mapped.
    MapBufferObjectFailed = 205,
    /// The two devices cannot reach each other's memory.
    PeerAccessUnsupported = 217,
    /// A call of the system failed.
    OperatingSystem = 304,
    /// A handle that was never given out, is destroyed, or belongs to another device.
    InvalidResourceHandle = 400,
    /// The object is not in a state for this call.
    IllegalState = 401,
    /// Work is still pending.
    NotReady = 600,
    /// A kernel touched memory that it may not.
    IllegalAddress = 700,
    /// Access was enabled before.
    PeerAccessAlreadyEnabled = 704,
    /// Access was not enabled.
    PeerAccessNotEnabled = 705,
    /// An assertion of a kernel failed.
    Assert = 710,
    /// The host memory is registered already.
    HostMemoryAlreadyRegistered = 712,
    /// The host memory is not registered.
    HostMemoryNotRegistered = 713,
    /// A kernel touched memory at an address that its access cannot have.
    MisalignedAddress = 716,
    /// Work of a stream failed.
    LaunchFailure = 719,
    /// The call is not permitted here, as inside a host function.
    NotPermitted = 800,
    /// The call is not supported.
    NotSupported = 801,
    /// The call is not permitted while a stream captures.
    StreamCaptureUnsupported = 900,
    /// The capture was invalidated by an earlier call.
    StreamCaptureInvalidated = 901,
    /// The call would have merged two captures.
    StreamCaptureMerge = 902,
    /// The stream is not the one on which the capture began.
    StreamCaptureUnmatched = 903,
    /// A stream that joined the capture was not joined back.
    StreamCaptureUnjoined = 904,
    /// A dependency would cross from a capture to work outside.
    StreamCaptureIsolation = 905,
    /// The call implies the legacy stream, which cannot be captured.
    StreamCaptureImplicit = 906,
    /// The event was last recorded in a capture.
    CapturedEvent = 907,
    /// The capture was begun by another thread.
    StreamCaptureWrongThread = 908,
    /// A graph does not have the shape of the one that is to be replaced.
    GraphExecUpdateFailure = 910,
    /// Something else, said in the sentence.
    Unknown = 999,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_ascend() {
        assert!(ErrorKind::ALL.is_sorted_by(|a, b| a.code() < b.code()));
        assert_eq!(ErrorKind::NotReady.name(), "cudaErrorNotReady");
    }

    #[test]
    fn an_error_says_its_code_and_its_sentence() {
        let error = Error::new(ErrorKind::InvalidDevice, "there is no device 9; this process sees 2");
        assert_eq!(error.to_string(), "cudaErrorInvalidDevice: there is no device 9; this process sees 2");
    }
}
