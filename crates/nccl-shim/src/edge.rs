//! The fence between C and the simulation: pointers become buffers, numbers become enums, faults become codes
//! and sentences. Nothing is decided here.
//!
//! The table drives it. A collective is put together from its row, argument by argument; every other row has a
//! function of its name in `answers`; and the rows for device code are refused, since nothing here could call them.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use fakegpu_nccl_abi::types::*;
use fakegpu_nccl_abi::{Answer, Backend, nccl_table};
use fakegpu_simulate::{Code, Fault, Handle, Outcome, Runtime};

use crate::answers;
use crate::collective::RawCall;

/// The simulation, behind NCCL's functions.
#[derive(Debug)]
pub(crate) struct Edge {
    runtime: Runtime,
    /// The process's last sentence, for threads that had none of their own.
    last: Mutex<CString>,
    /// What was told once and need not be told again.
    told: Mutex<BTreeSet<&'static str>>,
}

thread_local! {
    /// What `ncclGetLastError` answered last in this thread; the caller's pointer is good until it asks again.
    static ANSWER: RefCell<CString> = RefCell::default();
}

/// What an answer comes to, before it is what C expects.
pub(crate) trait Given<R> {
    /// The value for C; a fault is remembered for `ncclGetLastError`.
    fn give(self, edge: &Edge) -> R;
}

impl Given<ncclResult_t> for Result<Outcome, Fault> {
    fn give(self, edge: &Edge) -> ncclResult_t {
        match self {
            Ok(Outcome::Done) => ncclResult_t::ncclSuccess,
            Ok(Outcome::InProgress) => ncclResult_t::ncclInProgress,
            Err(fault) => {
                edge.remember(&fault);
                edge.runtime.log_failure(&fault);
                code(&fault)
            }
        }
    }
}

impl Given<ncclResult_t> for Result<(), Fault> {
    fn give(self, edge: &Edge) -> ncclResult_t {
        self.map(|()| Outcome::Done).give(edge)
    }
}

impl<T> Given<T> for T {
    fn give(self, _: &Edge) -> T {
        self
    }
}

/// A fault's code in C.
pub(crate) const fn code(fault: &Fault) -> ncclResult_t {
    match fault.code {
        Code::InvalidArgument => ncclResult_t::ncclInvalidArgument,
        Code::InvalidUsage => ncclResult_t::ncclInvalidUsage,
        Code::SystemError => ncclResult_t::ncclSystemError,
        Code::RemoteError => ncclResult_t::ncclRemoteError,
        Code::InternalError => ncclResult_t::ncclInternalError,
    }
}

/// The number behind a communicator as C holds it.
pub(crate) fn handle(comm: ncclComm_t) -> Handle {
    Handle(comm.addr())
}

/// The pointer a handle is shown as; it is never followed.
pub(crate) const fn pointer(handle: Handle) -> ncclComm_t {
    std::ptr::without_provenance_mut(handle.0)
}

/// Writes an answer where the caller wants it.
///
/// # Safety
/// `to` is NULL or valid for a write of `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T, what: &str) -> Result<(), Fault> {
    if to.is_null() {
        return Err(Fault::argument(format!("{what} is NULL")));
    }
    // SAFETY: not NULL, so valid for the write by this function's contract.
    unsafe { to.write(value) };
    Ok(())
}

impl Edge {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, last: Mutex::default(), told: Mutex::default() }
    }

    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Keeps a failure's sentence for `ncclGetLastError`.
    pub(crate) fn remember(&self, fault: &Fault) {
        tracing::debug!(code = fault.code.nccl_name(), "{}", fault.detail);
        let text = CString::new(fault.detail.replace('\0', " ")).unwrap_or_default();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// The last failure's sentence, as a text that is good until this thread asks again.
    pub(crate) fn last(&self) -> *const c_char {
        let text = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = ANSWER.try_with(|answer| {
            *answer.borrow_mut() = text;
            answer.borrow().as_ptr()
        });
        // In a thread that is ending there is nothing left to keep a text in.
        told.unwrap_or_else(|_| c"the thread that asked is ending".as_ptr())
    }

    /// Whether this is told for the first time.
    pub(crate) fn is_news(&self, what: &'static str) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(what)
    }
}

/// Expands the table into the methods of the backend, row by row.
macro_rules! edge {
    ($( $(#[doc = $doc:literal])*
        [$major:literal, $minor:literal, $section:ident] fn $name:ident $(/ $twin:ident)?
        ($($arg:ident: $ty:ty),* $(,)?) -> $ret:ty; )*) => {
        impl Backend for Edge {
            fn unsupported(&self, call: &'static str) -> ncclResult_t {
                let detail = format!("{call} needs CUDA kernels to call what it makes, and a simulated job has none");
                let fault = Fault::usage(detail);
                if self.is_news(call) {
                    tracing::warn!("{}", fault.detail);
                }
                Err::<(), Fault>(fault).give(self)
            }

            fn panicked(&self, call: &'static str, message: &str) {
                self.remember(&Fault::internal(format!("{call} hit a bug in FakeGPU: {message}")));
            }

            $(
                #[allow(clippy::too_many_arguments, reason = "NCCL's signatures; only some are long")]
                unsafe fn $name(&self, $($arg: $ty),*) -> $ret {
                    row! { $section $name self ($($arg),*) }
                }
            )*
        }
    };
}

/// The body of a row, by its section.
macro_rules! row {
    (Collective $name:ident $edge:ident ($($arg:ident),*)) => {{
        let mut raw = RawCall::new(stringify!($name));
        $(raw.$arg($arg);)*
        // SAFETY: the C caller's buffers and settings are as NCCL requires.
        unsafe { raw.perform($edge) }.give($edge)
    }};
    (Device $name:ident $edge:ident ($($arg:ident),*)) => {{
        let _unused = ($($arg,)*);
        Answer::refused($edge.unsupported(stringify!($name)))
    }};
    ($section:ident $name:ident $edge:ident ($($arg:ident),*)) => {
        // SAFETY: handed on unchanged.
        unsafe { answers::$name($edge, $($arg),*) }.give($edge)
    };
}

nccl_table!(edge);
