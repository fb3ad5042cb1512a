//! User-made reduction operators: a scalar of one data type, tied to one communicator.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fakegpu_proto::Fault;
use fakegpu_units::{DataType, ReduceOp};

use crate::Handle;
use crate::operation::Factor;

/// Built-in operators have numbers below this.
const BUILTIN_MAX: i32 = 5;

/// An operator as a C call names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedOp {
    /// One of NCCL's own.
    Builtin(ReduceOp),
    /// One made by `ncclRedOpCreatePreMulSum`.
    User(i32),
}

#[derive(Clone, Debug)]
struct UserOp {
    comm: Handle,
    factor: Factor,
}

/// The operators that the process has made.
#[derive(Debug, Default)]
pub(crate) struct RedOps {
    inner: Mutex<(i32, BTreeMap<i32, UserOp>)>,
}

impl RedOps {
    /// Makes an operator; its number is never used again.
    pub(crate) fn create(&self, comm: Handle, factor: Factor) -> i32 {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let number = inner.0.max(BUILTIN_MAX);
        inner.0 = number + 1;
        inner.1.insert(number, UserOp { comm, factor });
        number
    }

    pub(crate) fn destroy(&self, comm: Handle, number: i32) -> Result<(), Fault> {
        self.find(comm, number)?;
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
        Ok(())
    }

    /// What an operator means for this communicator and data type: the operator to match by, and this rank's
    /// own scalar.
    pub(crate) fn resolve(
        &self,
        comm: Handle,
        op: RedOp,
        data_type: DataType,
    ) -> Result<(ReduceOp, Option<Factor>), Fault> {
        let number = match op {
            RedOp::Builtin(op) => return Ok((op, None)),
            RedOp::User(number) => number,
        };
        let found = self.find(comm, number)?;
        if found.factor.data_type() != data_type {
            return Err(Fault::argument(format!(
                "the reduction operator {number} was made for {}, the call is of {data_type}",
                found.factor.data_type()
            )));
        }
        Ok((ReduceOp::PreMulSum, Some(found.factor)))
    }

    fn find(&self, comm: Handle, number: i32) -> Result<UserOp, Fault> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.1.get(&number) {
            Some(op) if op.comm == comm => Ok(op.clone()),
            Some(_) => Err(Fault::argument(format!(
                "the reduction operator {number} belongs to another communicator"
            ))),
            None => Err(Fault::argument(format!(
                "{number} is no reduction operator: it was never made, or is destroyed"
            ))),
        }
    }

    /// Forgets a communicator's operators.
    pub(crate) fn forget(&self, comm: Handle) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).1.retain(|_, op| op.comm != comm);
    }
}
