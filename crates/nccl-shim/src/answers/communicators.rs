//! Making, asking and ending communicators.

use std::collections::BTreeSet;
use std::mem::MaybeUninit;

use fakegpu_nccl_abi::types::*;
use fakegpu_nccl_abi::{Config, Preamble};
use fakegpu_simulate::{COMM_SIZE_MAX, CommOptions, Fault, Outcome, Request, Standing};

use crate::cuda;
use crate::edge::{Edge, code, handle, pointer, put};
use crate::streams;

/// Where a new communicator goes.
pub(crate) const NEW_COMM: &str = "the communicator's address";

/// Reads the caller's settings.
///
/// # Safety
/// `config` is NULL or points to a configuration as its own size says.
pub(crate) unsafe fn settings(edge: &Edge, config: *const ncclConfig_t) -> Result<Config, Fault> {
    // SAFETY: handed on unchanged.
    let config = unsafe { Config::read(config) }.map_err(|error| Fault::argument(error.to_string()))?;
    if config.unknown_bytes > 0 && edge.is_news("ncclConfig_t") {
        tracing::info!(
            bytes = config.unknown_bytes,
            "ncclConfig_t is of a newer NCCL; the fields it adds are ignored"
        );
    }
    match config.mistake() {
        Some(mistake) => Err(Fault::argument(mistake)),
        None => Ok(config),
    }
}

/// An id's bytes.
pub(crate) fn bytes_of(id: &ncclUniqueId) -> [u8; 128] {
    std::array::from_fn(|at| id.internal[at].cast_unsigned())
}

/// # Safety
/// `comm` is NULL or valid for a write; `config` is as [`settings`] wants it.
unsafe fn init(
    edge: &Edge,
    comm: *mut ncclComm_t,
    (size, rank): (c_int, c_int),
    id: &ncclUniqueId,
    config: *const ncclConfig_t,
) -> Result<Outcome, Fault> {
    // SAFETY: handed on unchanged.
    unsafe { put(comm, std::ptr::null_mut(), NEW_COMM) }?;
    // SAFETY: handed on unchanged.
    let config = unsafe { settings(edge, config) }?;
    let options = CommOptions { blocking: config.is_blocking(), name: config.comm_name };
    let unique_id = bytes_of(id);
    let request = Request { unique_id: &unique_id, size, rank, device: None, gpu: cuda::device(), options };
    let (made, outcome) = edge.runtime().init(&request)?;
    // SAFETY: handed on unchanged.
    unsafe { put(comm, pointer(made), NEW_COMM) }?;
    Ok(outcome)
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclGetUniqueId(edge: &Edge, unique_id: *mut ncclUniqueId) -> Result<(), Fault> {
    let bytes = edge.runtime().unique_id()?;
    let id = ncclUniqueId { internal: std::array::from_fn(|at| bytes[at].cast_signed()) };
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(unique_id, id, "the unique id's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommInitRank(
    edge: &Edge,
    comm: *mut ncclComm_t,
    nranks: c_int,
    comm_id: ncclUniqueId,
    rank: c_int,
) -> Result<Outcome, Fault> {
    // SAFETY: handed on unchanged.
    unsafe { init(edge, comm, (nranks, rank), &comm_id, std::ptr::null()) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommInitRankConfig(
    edge: &Edge,
    comm: *mut ncclComm_t,
    nranks: c_int,
    comm_id: ncclUniqueId,
    rank: c_int,
    config: *mut ncclConfig_t,
) -> Result<Outcome, Fault> {
    // SAFETY: handed on unchanged.
    unsafe { init(edge, comm, (nranks, rank), &comm_id, config) }
}

/// Ranks meet at the first id; the others only spread a load that is not there.
///
/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommInitRankScalable(
    edge: &Edge,
    newcomm: *mut ncclComm_t,
    nranks: c_int,
    myrank: c_int,
    n_id: c_int,
    comm_ids: *mut ncclUniqueId,
    config: *mut ncclConfig_t,
) -> Result<Outcome, Fault> {
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(newcomm, std::ptr::null_mut(), NEW_COMM) }?;
    if comm_ids.is_null() || n_id < 1 || n_id > nranks {
        return Err(Fault::argument(format!(
            "ncclCommInitRankScalable: {n_id} unique ids for {nranks} ranks: pass at least one and at most one a rank"
        )));
    }
    // SAFETY: not NULL, so an array of at least one id.
    let id = unsafe { comm_ids.read() };
    // SAFETY: handed on unchanged.
    unsafe { init(edge, newcomm, (nranks, myrank), &id, config) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommInitAll(
    edge: &Edge,
    comms: *mut ncclComm_t,
    ndev: c_int,
    devlist: *const c_int,
) -> Result<(), Fault> {
    if comms.is_null() {
        return Err(Fault::argument("the communicators' address is NULL"));
    }
    let count = usize::try_from(ndev).ok().filter(|&count| count > 0);
    let count = count.filter(|&count| count <= COMM_SIZE_MAX as usize).ok_or_else(|| {
        Fault::argument(format!("{ndev} devices are no communicator: it has 1 to {COMM_SIZE_MAX} ranks"))
    })?;
    // SAFETY: the C caller passes NULL or an array of `ndev` numbers.
    let given = (!devlist.is_null()).then(|| unsafe { std::slice::from_raw_parts(devlist, count) });
    let all: Vec<c_int> = (0..ndev).collect();
    let devices = given
        .unwrap_or(&all)
        .iter()
        .map(|&device| u32::try_from(device).map_err(|_| Fault::argument(format!("{device} is no device"))))
        .collect::<Result<Vec<u32>, Fault>>()?;
    let unique: BTreeSet<u32> = devices.iter().copied().collect();
    if unique.len() != devices.len() {
        return Err(Fault::usage("a device is listed twice: every rank needs its own"));
    }
    // SAFETY: the C caller passes an array of `ndev` communicators to be written; a handle is plain bits, so
    // whatever stands there may be overwritten.
    let places = unsafe { std::slice::from_raw_parts_mut(comms.cast::<MaybeUninit<ncclComm_t>>(), count) };
    streams::look_for_runtime();
    for (place, made) in places.iter_mut().zip(edge.runtime().init_all(&devices)?) {
        place.write(pointer(made));
    }
    Ok(())
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommFinalize(edge: &Edge, comm: ncclComm_t) -> Result<(), Fault> {
    if comm.is_null() { Ok(()) } else { edge.runtime().finalize(handle(comm)) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommDestroy(edge: &Edge, comm: ncclComm_t) -> Result<(), Fault> {
    if comm.is_null() { Ok(()) } else { edge.runtime().destroy(handle(comm)) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommAbort(edge: &Edge, comm: ncclComm_t) -> Result<(), Fault> {
    if comm.is_null() { Ok(()) } else { edge.runtime().abort(handle(comm)) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommRevoke(edge: &Edge, comm: ncclComm_t, revoke_flags: c_int) -> Result<(), Fault> {
    edge.runtime().revoke(handle(comm), revoke_flags)
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommSuspend(edge: &Edge, comm: ncclComm_t, flags: c_int) -> Result<(), Fault> {
    edge.runtime().suspend(handle(comm), flags)
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommResume(edge: &Edge, comm: ncclComm_t) -> Result<(), Fault> {
    edge.runtime().resume(handle(comm))
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommGetAsyncError(
    edge: &Edge,
    comm: ncclComm_t,
    async_error: *mut ncclResult_t,
) -> Result<(), Fault> {
    let state = match edge.runtime().async_error(handle(comm))? {
        Standing::Fine => ncclResult_t::ncclSuccess,
        Standing::InProgress => ncclResult_t::ncclInProgress,
        Standing::Failed(fault) => {
            edge.remember(&fault);
            code(&fault)
        }
    };
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(async_error, state, "the error's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommCount(edge: &Edge, comm: ncclComm_t, count: *mut c_int) -> Result<(), Fault> {
    let size = edge.runtime().size(handle(comm))?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(count, size.cast_signed(), "the count's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommUserRank(edge: &Edge, comm: ncclComm_t, rank: *mut c_int) -> Result<(), Fault> {
    let found = edge.runtime().rank(handle(comm))?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(rank, found.0.cast_signed(), "the rank's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommCuDevice(
    edge: &Edge,
    comm: ncclComm_t,
    device: *mut c_int,
) -> Result<(), Fault> {
    let found = edge.runtime().device(handle(comm))?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(device, found.cast_signed(), "the device's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommMemStats(
    edge: &Edge,
    comm: ncclComm_t,
    stat: ncclCommMemStat_t,
    value: *mut u64,
) -> Result<(), Fault> {
    let kept = edge.runtime().memory(handle(comm))?;
    let bytes = match stat {
        ncclCommMemStat_t::ncclStatGpuMemPersist | ncclCommMemStat_t::ncclStatGpuMemTotal => kept,
        // Nothing is given back by a suspend.
        ncclCommMemStat_t::ncclStatGpuMemSuspend | ncclCommMemStat_t::ncclStatGpuMemSuspended => 0,
        other => return Err(Fault::argument(format!("ncclCommMemStats: {} is no statistic", other.0))),
    };
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(value, bytes, "the value's address") }
}

/// Members of the properties that the caller's struct has room for are filled in.
///
/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommQueryProperties(
    edge: &Edge,
    comm: ncclComm_t,
    props: *mut ncclCommProperties_t,
) -> Result<(), Fault> {
    if props.is_null() {
        return Err(Fault::argument("the properties' address is NULL"));
    }
    const INITIALIZER: &str = "NCCL_COMM_PROPERTIES_INITIALIZER";
    // SAFETY: not NULL, so a struct that is at least a preamble long.
    let preamble =
        unsafe { Preamble::read(props.cast(), "ncclCommProperties_t", INITIALIZER, NCCL_API_MAGIC) };
    let preamble = preamble.map_err(|error| Fault::argument(error.to_string()))?;
    let found = edge.runtime().properties(handle(comm))?;
    let device = found.device.cast_signed();
    let all = ncclCommProperties_t {
        size: preamble.size,
        magic: preamble.magic,
        version: preamble.version,
        rank: found.rank.0.cast_signed(),
        nRanks: found.size.cast_signed(),
        cudaDev: device,
        nvmlDev: device,
        deviceApiSupport: 0,
        multimemSupport: 0,
        ginType: ncclGinType_t::NCCL_GIN_TYPE_NONE,
        nLsaTeams: found.size.cast_signed(),
        hostRmaSupport: u8::from(found.has_windows),
        railedGinType: ncclGinType_t::NCCL_GIN_TYPE_NONE,
        commHash: found.hash,
        ginMinStride: 0,
        ginConnectionType: ncclGinConnectionType_t::NCCL_GIN_CONNECTION_NONE,
        ginSupport: [0; 64],
        devCommRuntimeVersionSize: 0,
        cftSupport: 0,
        cftMulticastSupport: 0,
        cftCountedSupport: 0,
    };
    let bytes = preamble.size.min(size_of::<ncclCommProperties_t>());
    // SAFETY: the caller's struct has at least `bytes` writable bytes by its own size, and `all` has as many to read.
    unsafe { std::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), props.cast::<u8>(), bytes) };
    Ok(())
}
