//! Communicators made from others: split, shrink, grow.

use fakegpu_nccl_abi::types::*;
use fakegpu_simulate::{ChildOptions, Fault, Handle, Outcome};

use super::communicators::{NEW_COMM, bytes_of, ncclCommInitRankConfig, settings};
use crate::edge::{Edge, handle, pointer, put};

/// # Safety
/// As [`settings`].
unsafe fn child_options(edge: &Edge, config: *const ncclConfig_t) -> Result<ChildOptions, Fault> {
    // SAFETY: handed on unchanged.
    let config = unsafe { settings(edge, config) }?;
    Ok(ChildOptions { blocking: config.blocking.map(|blocking| blocking != 0), name: config.comm_name })
}

/// # Safety
/// `newcomm` is writable.
unsafe fn show(newcomm: *mut ncclComm_t, made: (Handle, Outcome)) -> Result<Outcome, Fault> {
    // SAFETY: handed on unchanged.
    unsafe { put(newcomm, pointer(made.0), NEW_COMM) }?;
    Ok(made.1)
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommSplit(
    edge: &Edge,
    comm: ncclComm_t,
    color: c_int,
    key: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> Result<Outcome, Fault> {
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(newcomm, std::ptr::null_mut(), NEW_COMM) }?;
    // SAFETY: NULL or a configuration, as the C function requires.
    let options = unsafe { child_options(edge, config) }?;
    let (made, outcome) = edge.runtime().split(handle(comm), color, key, options)?;
    // SAFETY: as above.
    unsafe { show(newcomm, (made.unwrap_or(Handle(0)), outcome)) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommShrink(
    edge: &Edge,
    comm: ncclComm_t,
    exclude_ranks_list: *mut c_int,
    exclude_ranks_count: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
    shrink_flags: c_int,
) -> Result<Outcome, Fault> {
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(newcomm, std::ptr::null_mut(), NEW_COMM) }?;
    // SAFETY: NULL or a configuration, as the C function requires.
    let options = unsafe { child_options(edge, config) }?;
    let abort = match shrink_flags {
        NCCL_SHRINK_DEFAULT => false,
        NCCL_SHRINK_ABORT => true,
        other => {
            return Err(Fault::argument(format!(
                "ncclCommShrink: {other} are no flags: use NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT"
            )));
        }
    };
    let count = usize::try_from(exclude_ranks_count).ok().filter(|count| *count > 0);
    let Some(count) = count.filter(|_| !exclude_ranks_list.is_null()) else {
        return Err(Fault::argument(format!(
            "ncclCommShrink: a list of {exclude_ranks_count} ranks at {exclude_ranks_list:p} leaves nobody out"
        )));
    };
    // SAFETY: not NULL, so an array of that many numbers.
    let exclude = unsafe { std::slice::from_raw_parts(exclude_ranks_list.cast_const(), count) };
    let made = edge.runtime().shrink(handle(comm), exclude, abort, options)?;
    // SAFETY: as above.
    unsafe { show(newcomm, made) }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommGetUniqueId(
    edge: &Edge,
    comm: ncclComm_t,
    unique_id: *mut ncclUniqueId,
) -> Result<(), Fault> {
    if unique_id.is_null() {
        return Err(Fault::argument("the unique id's address is NULL"));
    }
    let bytes = edge.runtime().grow_id(handle(comm))?;
    let id = ncclUniqueId { internal: std::array::from_fn(|at| bytes[at].cast_signed()) };
    // SAFETY: not NULL, so writable.
    unsafe { put(unique_id, id, "the unique id's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclCommGrow(
    edge: &Edge,
    comm: ncclComm_t,
    n_ranks: c_int,
    unique_id: *const ncclUniqueId,
    rank: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> Result<Outcome, Fault> {
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(newcomm, std::ptr::null_mut(), NEW_COMM) }?;
    // SAFETY: NULL or an id, as the C function requires.
    let id = (!unique_id.is_null()).then(|| unsafe { unique_id.read() });
    if comm.is_null() {
        let Some(id) = id else {
            return Err(Fault::argument(
                "ncclCommGrow: a new rank needs the unique id that ncclCommGetUniqueId made for the communicator",
            ));
        };
        // SAFETY: handed on unchanged.
        return unsafe { ncclCommInitRankConfig(edge, newcomm, n_ranks, id, rank, config) };
    }
    if rank != -1 {
        return Err(Fault::argument(format!(
            "ncclCommGrow: a rank of the communicator keeps its number and passes -1, not {rank}"
        )));
    }
    // SAFETY: NULL or a configuration, as the C function requires.
    let options = unsafe { child_options(edge, config) }?;
    let id = id.as_ref().map(bytes_of);
    let made = edge.runtime().grow(handle(comm), n_ranks, id.as_ref(), options)?;
    // SAFETY: as above.
    unsafe { show(newcomm, made) }
}
