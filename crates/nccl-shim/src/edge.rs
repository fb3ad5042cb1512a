//! The fence between C and the simulation: pointers become buffers, numbers become enums, faults become codes
//! and sentences. Nothing is decided here.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use fakegpu_nccl_abi::types::*;
use fakegpu_nccl_abi::{Backend, Config};
use fakegpu_rank::Call;
use fakegpu_simulate::{Code, Fault};
use fakegpu_simulate::{Collective, Handle, RedOp, Request, Runtime};
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};
use fakegpu_units::{Collective as Op, DataType, Rank};

/// The simulation, behind NCCL's functions.
#[derive(Debug)]
pub(crate) struct Edge {
    runtime: Runtime,
    /// The process's last sentence, for threads that had none of their own.
    last: Mutex<CString>,
    /// Functions that were refused; each is told once.
    refused: Mutex<BTreeSet<&'static str>>,
}

thread_local! {
    /// What `ncclGetLastError` answered last in this thread; the caller's pointer is good until it asks again.
    static ANSWER: RefCell<CString> = RefCell::default();
}

/// Result of a body: what goes wrong becomes code and sentence in one place.
type Outcome = Result<(), Fault>;

const fn code(fault: &Fault) -> ncclResult_t {
    match fault.code {
        Code::InvalidArgument => ncclResult_t::ncclInvalidArgument,
        Code::InvalidUsage => ncclResult_t::ncclInvalidUsage,
        Code::SystemError => ncclResult_t::ncclSystemError,
        Code::RemoteError => ncclResult_t::ncclRemoteError,
        Code::InternalError => ncclResult_t::ncclInternalError,
    }
}

fn handle(comm: ncclComm_t) -> Handle {
    Handle(comm.addr())
}

/// The pointer a handle is shown as; it is never followed.
fn pointer(handle: Handle) -> ncclComm_t {
    std::ptr::without_provenance_mut(handle.0)
}

/// Writes an answer where the caller wants it.
///
/// # Safety
/// `to` is NULL or valid for a write of `T`.
unsafe fn put<T>(to: *mut T, value: T, what: &str) -> Outcome {
    if to.is_null() {
        return Err(Fault::argument(format!("{what} is NULL")));
    }
    // SAFETY: not NULL, so valid for the write by this function's contract.
    unsafe { to.write(value) };
    Ok(())
}

fn data_type(given: ncclDataType_t) -> Result<DataType, Fault> {
    given.parse().ok_or_else(|| Fault::argument(format!("{} is no data type of NCCL 2.32", given.0)))
}

fn red_op(given: ncclRedOp_t) -> RedOp {
    given.parse().map_or(RedOp::User(given.0), RedOp::Builtin)
}

/// A collective as C calls it, before anything is checked.
struct RawCall {
    op: Op,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    data_type: ncclDataType_t,
    reduce: Option<ncclRedOp_t>,
    root: Option<c_int>,
    comm: ncclComm_t,
}

impl Edge {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, last: Mutex::default(), refused: Mutex::default() }
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn answer(&self, outcome: Outcome) -> ncclResult_t {
        match outcome {
            Ok(()) => ncclResult_t::ncclSuccess,
            Err(fault) => {
                self.remember(&fault);
                code(&fault)
            }
        }
    }

    fn remember(&self, fault: &Fault) {
        tracing::debug!(code = fault.code.nccl_name(), "{}", fault.detail);
        let text = CString::new(fault.detail.replace('\0', " ")).unwrap_or_default();
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    /// # Safety
    /// The buffers are valid as NCCL requires of the call: the send buffer for reads and the receive buffer for
    /// writes of as many bytes as the arguments say, until the operation has ended.
    unsafe fn collective(&self, raw: &RawCall) -> ncclResult_t {
        // SAFETY: handed on unchanged.
        self.answer(unsafe { self.try_collective(raw) })
    }

    /// # Safety
    /// As [`Edge::collective`].
    unsafe fn try_collective(&self, raw: &RawCall) -> Outcome {
        let comm = handle(raw.comm);
        let size = self.runtime.size(comm).inspect_err(|fault| self.runtime.refuse(fault))?;
        let call = Call {
            op: raw.op,
            send: raw.send.addr(),
            recv: raw.recv.addr(),
            count: raw.count,
            data_type: data_type(raw.data_type).inspect_err(|fault| self.runtime.refuse(fault))?,
            reduce: None,
            root: raw.root,
            rank: Rank(0),
            size,
        };
        // SAFETY: valid for reads of that many bytes by this function's contract; a rank that does not use its
        // send buffer never reads it.
        let send = unsafe { SendBuffer::new(raw.send.cast(), call.send_bytes()) };
        // SAFETY: valid for writes of that many bytes by this function's contract; a rank that does not use its
        // receive buffer never writes it.
        let recv = unsafe { RecvBuffer::new(raw.recv.cast(), call.recv_bytes()) };
        self.runtime.collective(Collective { comm, call, op: raw.reduce.map(red_op), send, recv })
    }

    /// # Safety
    /// `comm` is NULL or valid for a write.
    unsafe fn init(&self, comm: *mut ncclComm_t, size: c_int, id: &ncclUniqueId, rank: c_int) -> Outcome {
        // SAFETY: handed on unchanged.
        unsafe { put(comm, std::ptr::null_mut(), "the communicator's address") }?;
        let bytes: [u8; 128] = std::array::from_fn(|at| id.internal[at].cast_unsigned());
        let made = self.runtime.init(&Request { unique_id: &bytes, size, rank, device: None })?;
        // SAFETY: handed on unchanged.
        unsafe { put(comm, pointer(made), "the communicator's address") }
    }

    /// # Safety
    /// `config` is NULL or points to a configuration as its own size says.
    unsafe fn check_config(&self, config: *const ncclConfig_t) -> Outcome {
        // SAFETY: handed on unchanged.
        let config = unsafe { Config::read(config) }.map_err(|error| Fault::argument(error.to_string()))?;
        if config.unknown_bytes > 0 {
            tracing::info!(
                bytes = config.unknown_bytes,
                "ncclConfig_t is of a newer NCCL; the fields it adds are ignored"
            );
        }
        if config.is_blocking() {
            Ok(())
        } else {
            Err(Fault::usage(
                "non-blocking communicators (ncclConfig_t.blocking = 0) are not supported yet: use blocking ones",
            ))
        }
    }
}

impl Backend for Edge {
    fn unsupported(&self, call: &'static str) -> ncclResult_t {
        let fault = Fault::usage(format!("{call} is not supported by this version of FakeGPU yet"));
        if self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(call) {
            tracing::warn!("{}", fault.detail);
        }
        self.answer(Err(fault))
    }

    fn panicked(&self, call: &'static str, message: &str) {
        self.remember(&Fault::internal(format!("{call} hit a bug in FakeGPU: {message}")));
    }

    unsafe fn ncclGetLastError(&self, comm: ncclComm_t) -> *const c_char {
        let of_comm =
            (!comm.is_null()).then(|| self.runtime.async_error(handle(comm)).ok().flatten()).flatten();
        if let Some(fault) = of_comm {
            self.remember(&fault);
        }
        let text = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = ANSWER.try_with(|answer| {
            *answer.borrow_mut() = text;
            answer.borrow().as_ptr()
        });
        // In a thread that is ending there is nothing left to keep a text in.
        told.unwrap_or_else(|_| c"the thread that asked is ending".as_ptr())
    }

    unsafe fn ncclGetUniqueId(&self, unique_id: *mut ncclUniqueId) -> ncclResult_t {
        let outcome = self.runtime.unique_id().and_then(|bytes| {
            let id = ncclUniqueId { internal: std::array::from_fn(|at| bytes[at].cast_signed()) };
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(unique_id, id, "the unique id's address") }
        });
        self.answer(outcome)
    }

    unsafe fn ncclCommInitRank(
        &self,
        comm: *mut ncclComm_t,
        nranks: c_int,
        comm_id: ncclUniqueId,
        rank: c_int,
    ) -> ncclResult_t {
        // SAFETY: NULL or writable, as the C function requires.
        self.answer(unsafe { self.init(comm, nranks, &comm_id, rank) })
    }

    unsafe fn ncclCommInitRankConfig(
        &self,
        comm: *mut ncclComm_t,
        nranks: c_int,
        comm_id: ncclUniqueId,
        rank: c_int,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t {
        // SAFETY: NULL or a configuration, as the C function requires.
        let checked = unsafe { self.check_config(config) };
        // SAFETY: NULL or writable, as the C function requires.
        self.answer(checked.and_then(|()| unsafe { self.init(comm, nranks, &comm_id, rank) }))
    }

    unsafe fn ncclCommInitAll(
        &self,
        comms: *mut ncclComm_t,
        ndev: c_int,
        devlist: *const c_int,
    ) -> ncclResult_t {
        let outcome = (|| {
            if comms.is_null() {
                return Err(Fault::argument("the communicators' address is NULL"));
            }
            let count = usize::try_from(ndev).ok().filter(|&count| count > 0);
            let count =
                count.ok_or_else(|| Fault::argument(format!("{ndev} devices are no communicator")))?;
            // SAFETY: the C caller passes NULL or an array of `ndev` numbers.
            let given = (!devlist.is_null()).then(|| unsafe { std::slice::from_raw_parts(devlist, count) });
            let all: Vec<c_int> = (0..ndev).collect();
            let devices = given
                .unwrap_or(&all)
                .iter()
                .map(|&device| {
                    u32::try_from(device).map_err(|_| Fault::argument(format!("{device} is no device")))
                })
                .collect::<Result<Vec<u32>, Fault>>()?;
            let unique: BTreeSet<u32> = devices.iter().copied().collect();
            if unique.len() != devices.len() {
                return Err(Fault::usage("a device is listed twice: every rank needs its own"));
            }
            // SAFETY: the C caller passes an array of `ndev` communicators to be written; a handle is plain bits,
            // so whatever stands there may be overwritten.
            let places =
                unsafe { std::slice::from_raw_parts_mut(comms.cast::<MaybeUninit<ncclComm_t>>(), count) };
            for (place, made) in places.iter_mut().zip(self.runtime.init_all(&devices)?) {
                place.write(pointer(made));
            }
            Ok(())
        })();
        self.answer(outcome)
    }

    unsafe fn ncclCommFinalize(&self, comm: ncclComm_t) -> ncclResult_t {
        self.answer(if comm.is_null() { Ok(()) } else { self.runtime.finalize(handle(comm)) })
    }

    unsafe fn ncclCommDestroy(&self, comm: ncclComm_t) -> ncclResult_t {
        self.answer(if comm.is_null() { Ok(()) } else { self.runtime.destroy(handle(comm)) })
    }

    unsafe fn ncclCommAbort(&self, comm: ncclComm_t) -> ncclResult_t {
        if !comm.is_null() {
            self.runtime.abort(handle(comm));
        }
        ncclResult_t::ncclSuccess
    }

    unsafe fn ncclCommGetAsyncError(&self, comm: ncclComm_t, async_error: *mut ncclResult_t) -> ncclResult_t {
        let outcome = self.runtime.async_error(handle(comm)).and_then(|fault| {
            let state = fault.as_ref().map_or(ncclResult_t::ncclSuccess, code);
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(async_error, state, "the error's address") }
        });
        self.answer(outcome)
    }

    unsafe fn ncclCommCount(&self, comm: ncclComm_t, count: *mut c_int) -> ncclResult_t {
        let outcome = self.runtime.size(handle(comm)).and_then(|size| {
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(count, size.cast_signed(), "the count's address") }
        });
        self.answer(outcome)
    }

    unsafe fn ncclCommUserRank(&self, comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t {
        let outcome = self.runtime.rank(handle(comm)).and_then(|found| {
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(rank, found.0.cast_signed(), "the rank's address") }
        });
        self.answer(outcome)
    }

    unsafe fn ncclCommCuDevice(&self, comm: ncclComm_t, device: *mut c_int) -> ncclResult_t {
        let outcome = self.runtime.device(handle(comm)).and_then(|found| {
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(device, found.cast_signed(), "the device's address") }
        });
        self.answer(outcome)
    }

    unsafe fn ncclGroupStart(&self) -> ncclResult_t {
        self.runtime.group_start();
        ncclResult_t::ncclSuccess
    }

    unsafe fn ncclGroupEnd(&self) -> ncclResult_t {
        self.answer(self.runtime.group_end())
    }

    unsafe fn ncclRedOpCreatePreMulSum(
        &self,
        op: *mut ncclRedOp_t,
        scalar: *mut c_void,
        datatype: ncclDataType_t,
        residence: ncclScalarResidence_t,
        comm: ncclComm_t,
    ) -> ncclResult_t {
        let outcome = data_type(datatype).and_then(|data_type| {
            if scalar.is_null() {
                return Err(Fault::argument("the scalar's address is NULL"));
            }
            if residence != ncclScalarResidence_t::ncclScalarHostImmediate
                && residence != ncclScalarResidence_t::ncclScalarDevice
            {
                return Err(Fault::argument(format!("{} is no scalar residence", residence.0)));
            }
            // Without a CUDA runtime device memory is host memory, and a call ends before it returns: reading
            // the scalar now or when the operation runs is the same for a program that keeps NCCL's rules.
            // SAFETY: the C caller passes the address of one element of `datatype`.
            let bytes = unsafe { std::slice::from_raw_parts(scalar.cast::<u8>(), data_type.size()) };
            let number = self.runtime.create_pre_mul_sum(handle(comm), data_type, bytes)?;
            // SAFETY: NULL or writable, as the C function requires.
            unsafe { put(op, ncclRedOp_t(number), "the operator's address") }
        });
        self.answer(outcome)
    }

    unsafe fn ncclRedOpDestroy(&self, op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t {
        let outcome = match red_op(op) {
            RedOp::Builtin(builtin) => {
                Err(Fault::argument(format!("{builtin} is NCCL's own operator and cannot be destroyed")))
            }
            RedOp::User(number) => self.runtime.destroy_redop(handle(comm), number),
        };
        self.answer(outcome)
    }

    unsafe fn ncclAllReduce(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw =
            RawCall { op: Op::AllReduce, send, recv, count, data_type, reduce: Some(op), root: None, comm };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclReduce(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        op: ncclRedOp_t,
        root: c_int,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw = RawCall {
            op: Op::Reduce,
            send,
            recv,
            count,
            data_type,
            reduce: Some(op),
            root: Some(root),
            comm,
        };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclBroadcast(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw =
            RawCall { op: Op::Broadcast, send, recv, count, data_type, reduce: None, root: Some(root), comm };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclBcast(
        &self,
        buff: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw = RawCall {
            op: Op::Broadcast,
            send: buff,
            recv: buff,
            count,
            data_type,
            reduce: None,
            root: Some(root),
            comm,
        };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclAllGather(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw = RawCall { op: Op::AllGather, send, recv, count, data_type, reduce: None, root: None, comm };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclReduceScatter(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        op: ncclRedOp_t,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw = RawCall {
            op: Op::ReduceScatter,
            send,
            recv,
            count,
            data_type,
            reduce: Some(op),
            root: None,
            comm,
        };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclAlltoAll(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw = RawCall { op: Op::AllToAll, send, recv, count, data_type, reduce: None, root: None, comm };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclGather(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw =
            RawCall { op: Op::Gather, send, recv, count, data_type, reduce: None, root: Some(root), comm };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }

    unsafe fn ncclScatter(
        &self,
        send: *const c_void,
        recv: *mut c_void,
        count: usize,
        data_type: ncclDataType_t,
        root: c_int,
        comm: ncclComm_t,
        _: cudaStream_t,
    ) -> ncclResult_t {
        let raw =
            RawCall { op: Op::Scatter, send, recv, count, data_type, reduce: None, root: Some(root), comm };
        // SAFETY: the C caller's buffers are as NCCL requires.
        unsafe { self.collective(&raw) }
    }
}
