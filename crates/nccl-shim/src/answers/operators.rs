//! Reduction operators.

use std::sync::Arc;

use fakegpu_nccl_abi::types::*;
use fakegpu_simulate::{FactorSource, Fault, ReadScalar, RedOp};

use crate::collective::{data_type, red_op};
use crate::edge::{Edge, handle, put};

/// A scalar that stays where the program keeps it until an operation runs.
#[derive(Debug)]
struct InPlace {
    at: *const u8,
    bytes: usize,
}

// SAFETY: the pointer is only read, under the contract of `ncclRedOpCreatePreMulSum`, which names no thread.
unsafe impl Send for InPlace {}
// SAFETY: as above.
unsafe impl Sync for InPlace {}

impl ReadScalar for InPlace {
    fn read(&self) -> Vec<u8> {
        // SAFETY: the C caller keeps one element of the operator's type readable there until the operations that use
        // it have run. Without a CUDA runtime device memory is host memory.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }.to_vec()
    }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclRedOpCreatePreMulSum(
    edge: &Edge,
    op: *mut ncclRedOp_t,
    scalar: *mut c_void,
    datatype: ncclDataType_t,
    residence: ncclScalarResidence_t,
    comm: ncclComm_t,
) -> Result<(), Fault> {
    let data_type = data_type(datatype)?;
    if scalar.is_null() {
        return Err(Fault::argument("the scalar's address is NULL"));
    }
    let source = InPlace { at: scalar.cast_const().cast(), bytes: data_type.size() };
    let factor = match residence {
        ncclScalarResidence_t::ncclScalarHostImmediate => FactorSource::Now(source.read()),
        ncclScalarResidence_t::ncclScalarDevice => FactorSource::Later(Arc::new(source)),
        other => return Err(Fault::argument(format!("{} is no scalar residence", other.0))),
    };
    let number = edge.runtime().create_pre_mul_sum(handle(comm), data_type, factor)?;
    // SAFETY: NULL or writable, as the C function requires.
    unsafe { put(op, ncclRedOp_t(number), "the operator's address") }
}

/// # Safety
/// As the C function.
pub(crate) unsafe fn ncclRedOpDestroy(edge: &Edge, op: ncclRedOp_t, comm: ncclComm_t) -> Result<(), Fault> {
    match red_op(op) {
        RedOp::Builtin(builtin) => {
            Err(Fault::argument(format!("{builtin} is NCCL's own operator and cannot be destroyed")))
        }
        RedOp::User(number) => edge.runtime().destroy_redop(handle(comm), number),
    }
}
