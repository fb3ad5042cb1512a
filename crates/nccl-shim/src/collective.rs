//! Collectives as C calls them, put together from the table's rows: plain ones, and those with settings of their own.

use std::ffi::{c_int, c_void};

use fakegpu_nccl_abi::Preamble;
use fakegpu_nccl_abi::types::*;
use fakegpu_rank::Call;
use fakegpu_simulate::{Collective, Fault, Outcome, RedOp};
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};
use fakegpu_units::{Collective as Op, DataType, Rank};

use crate::edge::{Edge, handle};

/// A data type as C names it.
pub(crate) fn data_type(given: ncclDataType_t) -> Result<DataType, Fault> {
    given.parse().ok_or_else(|| Fault::argument(format!("{} is no data type of NCCL 2.32", given.0)))
}

/// An operator as C names it.
pub(crate) fn red_op(given: ncclRedOp_t) -> RedOp {
    given.parse().map_or(RedOp::User(given.0), RedOp::Builtin)
}

/// A collective as C calls it, before anything is checked. One method for each argument that a row may have, by
/// its name there.
#[derive(Debug)]
pub(crate) struct RawCall {
    name: &'static str,
    send: *const c_void,
    recv: *mut c_void,
    count: usize,
    data_type: ncclDataType_t,
    reduce: Option<ncclRedOp_t>,
    root: Option<c_int>,
    comm: ncclComm_t,
    stream: usize,
    config: *const ncclCollConfig_t,
}

impl RawCall {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self {
            name,
            send: std::ptr::null(),
            recv: std::ptr::null_mut(),
            count: 0,
            data_type: ncclDataType_t::ncclInt8,
            reduce: None,
            root: None,
            comm: std::ptr::null_mut(),
            stream: 0,
            config: std::ptr::null(),
        }
    }

    pub(crate) const fn sendbuff(&mut self, at: *const c_void) {
        self.send = at;
    }

    pub(crate) const fn recvbuff(&mut self, at: *mut c_void) {
        self.recv = at;
    }

    /// One buffer for both.
    pub(crate) const fn buff(&mut self, at: *mut c_void) {
        self.send = at;
        self.recv = at;
    }

    pub(crate) const fn count(&mut self, count: usize) {
        self.count = count;
    }

    pub(crate) const fn sendcount(&mut self, count: usize) {
        self.count = count;
    }

    pub(crate) const fn recvcount(&mut self, count: usize) {
        self.count = count;
    }

    pub(crate) const fn datatype(&mut self, data_type: ncclDataType_t) {
        self.data_type = data_type;
    }

    pub(crate) const fn op(&mut self, op: ncclRedOp_t) {
        self.reduce = Some(op);
    }

    pub(crate) const fn root(&mut self, root: c_int) {
        self.root = Some(root);
    }

    pub(crate) const fn comm(&mut self, comm: ncclComm_t) {
        self.comm = comm;
    }

    /// A number to the CUDA runtime, where there is one; the handle is never looked into.
    pub(crate) fn stream(&mut self, stream: cudaStream_t) {
        self.stream = stream.addr();
    }

    pub(crate) const fn config(&mut self, config: *const ncclCollConfig_t) {
        self.config = config;
    }

    /// Makes the call.
    ///
    /// # Safety
    /// The buffers are valid as NCCL requires of the call: the send buffer for reads and the receive buffer for
    /// writes of as many bytes as the arguments say, until the operation has ended. The settings are NULL or as
    /// long as they say.
    pub(crate) unsafe fn perform(&self, edge: &Edge) -> Result<Outcome, Fault> {
        let runtime = edge.runtime();
        let comm = handle(self.comm);
        let call = (|| {
            // SAFETY: NULL or a struct as long as it says, by this function's contract.
            unsafe { self.check_config() }?;
            let op = self.operation()?;
            Ok(Call {
                op,
                send: self.send.addr(),
                recv: self.recv.addr(),
                count: self.count,
                data_type: data_type(self.data_type)?,
                reduce: None,
                root: self.root,
                rank: Rank(0),
                size: runtime.size(comm)?,
            })
        })();
        let call = call.inspect_err(|fault| runtime.refuse(fault))?;
        // SAFETY: valid for reads of that many bytes by this function's contract; a rank that does not use its
        // send buffer never reads it.
        let send = unsafe { SendBuffer::new(self.send.cast(), call.send_bytes()) };
        // SAFETY: valid for writes of that many bytes by this function's contract; a rank that does not use its
        // receive buffer never writes it.
        let recv = unsafe { RecvBuffer::new(self.recv.cast(), call.recv_bytes()) };
        runtime.collective(Collective {
            comm,
            call,
            op: self.reduce.map(red_op),
            send,
            recv,
            stream: self.stream,
        })
    }

    fn operation(&self) -> Result<Op, Fault> {
        let plain = self.name.strip_suffix("Config").unwrap_or(self.name);
        let plain = if plain == "ncclBcast" { "ncclBroadcast" } else { plain };
        let found = Op::ALL.iter().copied().find(|op| op.nccl_name() == plain);
        found.ok_or_else(|| Fault::internal(format!("{} is no collective", self.name)))
    }

    /// The settings of one call choose among algorithms that a simulation does not have: they are checked only.
    ///
    /// # Safety
    /// They are NULL or as long as they say.
    unsafe fn check_config(&self) -> Result<(), Fault> {
        if self.config.is_null() {
            return Ok(());
        }
        const NAME: &str = "ncclCollConfig_t";
        // SAFETY: not NULL, so at least a preamble long.
        let read = unsafe {
            Preamble::read(self.config.cast(), NAME, "NCCL_COLLCONFIG_INITIALIZER", NCCL_API_MAGIC)
        };
        read.map(drop).map_err(|error| Fault::argument(format!("{}: {error}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use fakegpu_nccl_abi::{ABI_ROWS, Section};

    use super::*;

    #[test]
    fn every_collective_of_the_table_is_one_of_ours() {
        let rows = ABI_ROWS.iter().filter(|row| row.section == Section::Collective);
        let ops: Vec<Op> = rows.map(|row| RawCall::new(row.name).operation().unwrap()).collect();
        assert_eq!(ops.len(), 17);
        assert!(Op::ALL.iter().all(|op| ops.contains(op)));
    }
}
