//! Operations of two ranks.

use fakegpu_nccl_abi::types::*;
use fakegpu_rank::PointToPoint;
use fakegpu_simulate::{Awaiting, Direction, Fault, Handle, OneSided, Outcome, Put};
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};

use crate::collective::data_type;
use crate::edge::{Edge, handle};

/// The communicator, and the call with what it says.
fn half(
    edge: &Edge,
    direction: Direction,
    buffer: usize,
    (count, data): (usize, ncclDataType_t),
    peer: c_int,
    comm: ncclComm_t,
) -> Result<(Handle, PointToPoint), Fault> {
    let data_type = data_type(data).inspect_err(|fault| edge.runtime().refuse(fault))?;
    Ok((handle(comm), PointToPoint { direction, buffer, count, data_type, peer, size: 0 }))
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclSend(
    edge: &Edge,
    sendbuff: *const c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> Result<Outcome, Fault> {
    let (comm, call) = half(edge, Direction::Send, sendbuff.addr(), (count, datatype), peer, comm)?;
    // SAFETY: the C caller's buffer is readable for that many elements until the operation has ended.
    let buffer = unsafe { SendBuffer::new(sendbuff.cast(), count.saturating_mul(call.data_type.size())) };
    edge.runtime().send(comm, call, buffer, stream.addr())
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclRecv(
    edge: &Edge,
    recvbuff: *mut c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> Result<Outcome, Fault> {
    let (comm, call) = half(edge, Direction::Recv, recvbuff.addr(), (count, datatype), peer, comm)?;
    // SAFETY: the C caller's buffer is writable for that many elements until the operation has ended.
    let buffer = unsafe { RecvBuffer::new(recvbuff.cast(), count.saturating_mul(call.data_type.size())) };
    edge.runtime().recv(comm, call, buffer, stream.addr())
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclPutSignal(
    edge: &Edge,
    localbuff: *const c_void,
    count: usize,
    datatype: ncclDataType_t,
    peer: c_int,
    peer_win: ncclWindow_t,
    peer_win_offset: usize,
    sig_idx: c_int,
    ctx: c_int,
    flags: c_uint,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> Result<Outcome, Fault> {
    let data_type = data_type(datatype).inspect_err(|fault| edge.runtime().refuse(fault))?;
    // SAFETY: the C caller's buffer is readable for that many elements until the operation has ended.
    let from = unsafe { SendBuffer::new(localbuff.cast(), count.saturating_mul(data_type.size())) };
    edge.runtime().put_signal(&Put {
        one: OneSided { comm: handle(comm), peer, sig_idx, ctx, flags, stream: stream.addr() },
        local: localbuff.addr(),
        from,
        count,
        data_type,
        window: peer_win.addr(),
        offset: peer_win_offset,
    })
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclSignal(
    edge: &Edge,
    peer: c_int,
    sig_idx: c_int,
    ctx: c_int,
    flags: c_uint,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> Result<Outcome, Fault> {
    edge.runtime().signal(&OneSided { comm: handle(comm), peer, sig_idx, ctx, flags, stream: stream.addr() })
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclWaitSignal(
    edge: &Edge,
    n_desc: c_int,
    signal_descs: *mut ncclWaitSignalDesc_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> Result<Outcome, Fault> {
    let count = usize::try_from(n_desc).ok().filter(|count| *count > 0 && !signal_descs.is_null());
    let Some(count) = count else {
        let fault = Fault::argument(format!(
            "ncclWaitSignal: {n_desc} descriptions at {signal_descs:p} wait for nothing"
        ));
        edge.runtime().refuse(&fault);
        return Err(fault);
    };
    // SAFETY: not NULL, so an array of that many descriptions.
    let descriptions = unsafe { std::slice::from_raw_parts(signal_descs.cast_const(), count) };
    let awaiting: Vec<Awaiting> = descriptions
        .iter()
        .map(|each| Awaiting { peer: each.peer, count: each.opCnt, sig_idx: each.sigIdx, ctx: each.ctx })
        .collect();
    edge.runtime().wait_signal(handle(comm), &awaiting, stream.addr())
}
