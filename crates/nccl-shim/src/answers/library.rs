//! The library itself.

use fakegpu_nccl_abi::types::*;
use fakegpu_nccl_abi::{Preamble, VERSION_CODE};
use fakegpu_simulate::{Fault, Standing};

use crate::choice;
use crate::edge::{Edge, handle, put};

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclGetVersion(_: &Edge, version: *mut c_int) -> Result<(), Fault> {
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(version, VERSION_CODE, "the version's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclGetErrorString(_: &Edge, result: ncclResult_t) -> *const c_char {
    result.text().as_ptr()
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclGetLastError(edge: &Edge, comm: ncclComm_t) -> *const c_char {
    if !comm.is_null()
        && let Ok(Standing::Failed(fault)) = edge.runtime().async_error(handle(comm))
    {
        edge.remember(&fault);
    }
    edge.last()
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclResetDebugInit(edge: &Edge) {
    edge.runtime().reset_debug(choice::variables());
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclResetDebugInitInternal(edge: &Edge) {
    edge.runtime().reset_debug(choice::variables());
}

/// A simulated job's sockets are of one machine, or protected by the coordinator's token; a mode that asks for more
/// would be a promise that nothing keeps.
///
/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclSetEncryption(_: &Edge, config: *const ncclEncryptionConfig_t) -> Result<(), Fault> {
    if config.is_null() {
        return Err(Fault::argument("the encryption settings are NULL"));
    }
    const INITIALIZER: &str = "NCCL_ENCRYPTION_CONFIG_INITIALIZER";
    // SAFETY: not NULL, so a struct that is at least a preamble long.
    let preamble =
        unsafe { Preamble::read(config.cast(), "ncclEncryptionConfig_t", INITIALIZER, NCCL_API_MAGIC) };
    let preamble = preamble.map_err(|error| Fault::argument(error.to_string()))?;
    let mode_end = std::mem::offset_of!(ncclEncryptionConfig_t, mode) + size_of::<c_int>();
    if preamble.size < mode_end {
        return Err(Fault::argument("ncclEncryptionConfig_t ends before its mode"));
    }
    // SAFETY: the struct's own size covers the member.
    let place = unsafe { &raw const (*config).mode };
    // SAFETY: in bounds as above, and aligned since the struct is.
    let mode = unsafe { place.read() };
    match ncclEncryptionMode_t(mode) {
        ncclEncryptionMode_t::NCCL_ENCRYPTION_MODE_NONE => Ok(()),
        ncclEncryptionMode_t::NCCL_ENCRYPTION_MODE_PSK => Err(Fault::usage(
            "ncclSetEncryption: a simulated job does not encrypt; its sockets are local, or protected by FAKEGPU_COORDINATOR_TOKEN. \
             Use NCCL_ENCRYPTION_MODE_NONE",
        )),
        other => Err(Fault::argument(format!("ncclSetEncryption: {} is no mode", other.0))),
    }
}
