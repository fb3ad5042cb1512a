//! Several calls as one.

use fakegpu_nccl_abi::Preamble;
use fakegpu_nccl_abi::types::*;
use fakegpu_simulate::{Fault, Outcome};

use crate::edge::Edge;

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclGroupStart(edge: &Edge) -> Result<(), Fault> {
    edge.runtime().group_start();
    Ok(())
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclGroupEnd(edge: &Edge) -> Result<Outcome, Fault> {
    edge.runtime().group_end()
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclGroupSimulateEnd(edge: &Edge, sim_info: *mut ncclSimInfo_t) -> Result<(), Fault> {
    // SAFETY: NULL or a struct as long as it says, as the C function requires.
    let place = unsafe { estimate_of(sim_info) };
    let micros = edge.runtime().group_simulate_end()?;
    if let Some(place) = place? {
        #[expect(clippy::cast_possible_truncation, reason = "an estimate in C's float")]
        let micros = micros as f32;
        // SAFETY: inside the struct, by its own size.
        unsafe { place.write(micros) };
    }
    Ok(())
}

/// Where the estimate goes; the group ends whatever is wrong with the struct.
///
/// # Safety
/// `sim_info` is NULL or a struct as long as it says.
unsafe fn estimate_of(sim_info: *mut ncclSimInfo_t) -> Result<Option<*mut f32>, Fault> {
    if sim_info.is_null() {
        return Ok(None);
    }
    const INITIALIZER: &str = "NCCL_SIM_INFO_INITIALIZER";
    // SAFETY: not NULL, so a struct that is at least a preamble long.
    let preamble =
        unsafe { Preamble::read(sim_info.cast(), "ncclSimInfo_t", INITIALIZER, NCCL_SIM_INFO_MAGIC) };
    let preamble = preamble.map_err(|error| Fault::argument(error.to_string()))?;
    let end = std::mem::offset_of!(ncclSimInfo_t, estimatedTime) + size_of::<f32>();
    if preamble.size < end {
        return Err(Fault::argument("ncclSimInfo_t ends before its estimate"));
    }
    // SAFETY: the struct's own size covers the member.
    Ok(Some(unsafe { &raw mut (*sim_info).estimatedTime }))
}
