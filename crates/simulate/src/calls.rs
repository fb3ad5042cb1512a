//! Operations: checked, prepared, and run at once or when the group ends.

use std::sync::Arc;

use fakegpu_executor::Scalar;
use fakegpu_proto::{Descriptor, Fault, ToCoordinator, ToRank};
use fakegpu_rank::{Call, Checked, PointToPoint, check_capability};
use fakegpu_staging_shm::{RecvBuffer, SendBuffer};
use fakegpu_units::{Collective as Op, DataType, ReduceOp, VirtualTime};

use crate::communicator::{Communicator, not_ready};
use crate::debug::Subsystem;
use crate::grouping::{self, Held, with_group};
use crate::job::Outcome;
use crate::operation::{Factor, Prepared, ReadScalar, Work};
use crate::{Handle, RedOp, Runtime, Stream};

/// A collective call with its buffers.
#[derive(Debug)]
pub struct Collective {
    /// The communicator.
    pub comm: Handle,
    /// The arguments; `rank` and `size` are filled in here.
    pub call: Call,
    /// The operator, where values are combined.
    pub op: Option<RedOp>,
    /// The send buffer, as long as the call says.
    pub send: SendBuffer,
    /// The receive buffer, as long as the call says.
    pub recv: RecvBuffer,
    /// The stream it is called on; not looked at where nothing orders streams.
    pub stream: usize,
}

/// A factor of `ncclRedOpCreatePreMulSum`.
#[derive(Clone, Debug)]
pub enum FactorSource {
    /// Its bytes, read before the call returns.
    Now(Vec<u8>),
    /// Read when an operation runs.
    Later(Arc<dyn ReadScalar>),
}

impl Runtime {
    /// A collective call: runs at once, or when the group ends.
    ///
    /// # Errors
    /// Bad arguments (which also fail the open group), a mismatch, a time-out, a death.
    pub fn collective(&self, collective: Collective) -> Result<Outcome, Fault> {
        let stream = collective.stream;
        let prepared = self.prepare(collective);
        self.go(prepared, stream)
    }

    /// The calling thread's next all-reduce is a barrier to its program: reports count it as one. One element alone is no
    /// sign of that.
    pub fn mark_barrier(&self) {
        grouping::mark_barrier();
    }

    /// The modelled time at which the last operation ended that this rank was released for, on any communicator.
    ///
    /// # Errors
    /// Where the communicator is not one, does not stand yet, or its coordinator is gone.
    pub fn modelled_time(&self, comm: Handle) -> Result<VirtualTime, Fault> {
        let comm = self.comms.find(comm)?;
        let joined = comm.ready()?;
        match joined.session.ask(&ToCoordinator::Clock { comm: joined.comm, rank: comm.rank() })? {
            ToRank::Clock(time) => Ok(time),
            ToRank::Failed(fault) => Err(fault),
            other => {
                Err(Fault::internal(format!("a question for the modelled time was answered with {other:?}")))
            }
        }
    }

    /// `ncclSend`; the call's size is filled in here.
    ///
    /// # Errors
    /// As [`Runtime::collective`].
    pub fn send(
        &self,
        comm: Handle,
        call: PointToPoint,
        buffer: SendBuffer,
        stream: usize,
    ) -> Result<Outcome, Fault> {
        let prepared = self.prepare_half(comm, call, |transfer| Work::Send(transfer, buffer));
        self.go(prepared.map(Some), stream)
    }

    /// `ncclRecv`; the call's size is filled in here.
    ///
    /// # Errors
    /// As [`Runtime::collective`].
    pub fn recv(
        &self,
        comm: Handle,
        call: PointToPoint,
        buffer: RecvBuffer,
        stream: usize,
    ) -> Result<Outcome, Fault> {
        let prepared = self.prepare_half(comm, call, |transfer| Work::Recv(transfer, buffer));
        self.go(prepared.map(Some), stream)
    }

    /// Runs what is prepared, or holds it back; a call that was refused fails the open group.
    pub(crate) fn go(
        &self,
        prepared: Result<Option<Prepared>, Fault>,
        stream: usize,
    ) -> Result<Outcome, Fault> {
        let prepared = prepared.and_then(|prepared| self.order(prepared, stream));
        let prepared = prepared.inspect_err(|fault| with_group(|group| group.refuse(fault)))?;
        let Some(prepared) = prepared else { return Ok(Outcome::Done) };
        prepared.comm.driven_here();
        self.hold_or_perform(Held::Operation(prepared))
    }

    /// Notes the stream of an operation, where there are streams and its memory is the GPU's.
    fn order(&self, prepared: Option<Prepared>, handle: usize) -> Result<Option<Prepared>, Fault> {
        let Some(prepared) = prepared else { return Ok(None) };
        if !self.is_on_stream(&prepared) {
            return Ok(Some(prepared));
        }
        let stream = Stream { handle, device: prepared.comm.cuda_device.unwrap_or(prepared.comm.device) };
        self.streams.is_capturing(stream)?;
        prepared.comm.state().streams.insert(stream);
        Ok(Some(Prepared { stream: Some(stream), ..prepared }))
    }

    /// Whether an operation is about memory of the CUDA runtime's, or of `ncclMemAlloc`, which it would be too. Other
    /// memory no GPU could reach; where there is no memory at all, the communicator's device decides.
    fn is_on_stream(&self, prepared: &Prepared) -> bool {
        let is_device = |address| self.streams.knows(address) || self.windows.covers_address(address);
        let mut addresses = prepared.work.addresses().peekable();
        self.streams.is_there()
            && match addresses.peek() {
                Some(_) => addresses.any(is_device),
                None => prepared.comm.cuda_device.is_some(),
            }
    }

    /// The communicator of a call that may be made now.
    pub(crate) fn usable(&self, handle: Handle, call: &str) -> Result<Arc<Communicator>, Fault> {
        let comm = self.comms.find(handle)?;
        comm.check_usable(call)?;
        if comm.place().is_none() {
            return Err(not_ready());
        }
        // In the group that makes it, a communicator may be used before it stands.
        if !grouping::is_open() {
            comm.ready()?;
        }
        Ok(comm)
    }

    fn prepare(&self, collective: Collective) -> Result<Option<Prepared>, Fault> {
        let name = collective.call.op.nccl_name();
        let comm = self.usable(collective.comm, name)?;
        let (reduce, factor) = match collective.op {
            Some(op) => {
                let (reduce, factor) = self.redops.resolve(collective.comm, op, collective.call.data_type)?;
                (Some(reduce), factor)
            }
            None => (None, None),
        };
        let call = Call { rank: comm.rank(), size: comm.size(), reduce, ..collective.call };
        let checked = call.check()?;
        self.log_collective(&comm, &call, collective.op);
        self.fail_on_purpose(&comm, name)?;
        let Checked::Runs(descriptor) = checked else { return Ok(None) };
        self.check_fp8(&comm, &descriptor)?;
        let root = descriptor.root;
        let send = if call.uses_send(root) { call.send_bytes() } else { 0 };
        let recv = if call.uses_recv(root) { call.recv_bytes() } else { 0 };
        self.check_staging(name, send.max(recv))?;
        self.check_overlap(&comm, &call)?;
        if call.op == Op::AllReduce
            && grouping::take_barrier_mark()
            && let Some(joined) = comm.joined.get()
        {
            joined.session.say(&ToCoordinator::Mark { comm: joined.comm, rank: comm.rank() });
        }
        let work = Work::Collective { descriptor, factor, send: collective.send, recv: collective.recv };
        Ok(Some(Prepared::new(comm, work)))
    }

    fn prepare_half(
        &self,
        handle: Handle,
        call: PointToPoint,
        work: impl FnOnce(fakegpu_proto::Transfer) -> Work,
    ) -> Result<Prepared, Fault> {
        let name = call.nccl_name();
        let comm = self.usable(handle, name)?;
        let transfer = PointToPoint { size: comm.size(), ..call }.check()?;
        let opcount = comm.tally().ordered();
        self.debug.info(Subsystem::PointToPoint, comm.device, || {
            format!(
                "{}: opCount {opcount:x} buff {:#x} count {} datatype {} peer {} comm {:#x} [nranks={}]",
                name.trim_start_matches("nccl"),
                call.buffer,
                call.count,
                number_of(call.data_type),
                call.peer,
                comm.handle.0,
                comm.size()
            )
        });
        self.fail_on_purpose(&comm, name)?;
        self.check_staging(name, usize::try_from(transfer.bytes()).unwrap_or(usize::MAX))?;
        Ok(Prepared::new(comm, work(transfer)))
    }

    fn log_collective(&self, comm: &Communicator, call: &Call, op: Option<RedOp>) {
        let opcount = comm.tally().ordered();
        self.debug.info(Subsystem::Collective, comm.device, || {
            format!(
                "{}: opCount {opcount:x} sendbuff {:#x} recvbuff {:#x} count {} datatype {} op {} root {} comm {:#x} [nranks={}]",
                call.op.nccl_name().trim_start_matches("nccl"),
                call.send,
                call.recv,
                call.count,
                number_of(call.data_type),
                op.map_or(0, RedOp::number),
                call.root.unwrap_or_default(),
                comm.handle.0,
                comm.size()
            )
        });
    }

    /// Counts a call, and fails it where the environment asks for that.
    pub(crate) fn fail_on_purpose(&self, comm: &Communicator, name: &str) -> Result<(), Fault> {
        let number = comm.tally().call();
        let Some(wanted) = &self.settings()?.nccl_fault else { return Ok(()) };
        let rank = comm.global().map_or_else(|| comm.rank().0, |global| global.0);
        if !wanted.means(rank, number, name) {
            return Ok(());
        }
        let (joined, rank) = (comm.ready()?, comm.rank());
        let detail = format!("{name}, call {number} of the communicator (FAKEGPU_NCCL_FAULT_*)");
        joined.session.ask(&ToCoordinator::Inject { comm: joined.comm, rank, detail: detail.clone() })?;
        Err(comm.fault().unwrap_or_else(|| Fault::remote(format!("rank {rank} was asked to fail: {detail}"))))
    }

    fn check_fp8(&self, comm: &Communicator, descriptor: &Descriptor) -> Result<(), Fault> {
        if descriptor.reduce.is_none() || !descriptor.data_type.is_fp8() {
            return Ok(());
        }
        let member = comm.joined.get().and_then(|joined| joined.members.get(comm.rank().index()));
        let Some(member) = member else { return Ok(()) };
        self.capabilities
            .of(self.settings()?, member)
            .map_or(Ok(()), |capability| check_capability(descriptor, capability))
    }

    /// A limit on staging memory without a chunk size is a limit on tensors.
    pub(crate) fn check_staging(&self, name: &str, bytes: usize) -> Result<(), Fault> {
        let staging = &self.settings()?.staging;
        match (staging.max_bytes, staging.chunk_bytes) {
            (Some(max), None) if bytes > max => Err(Fault::system(format!(
                "system error: {name} moves {bytes} bytes, and FAKEGPU_STAGING_MAX_BYTES allows {max}: raise it, or set \
                 FAKEGPU_STAGING_CHUNK_BYTES to at most that, so that tensors are staged in chunks"
            ))),
            _ => Ok(()),
        }
    }

    /// NCCL does not check overlaps: neither is one an error here, unless asked for.
    fn check_overlap(&self, comm: &Communicator, call: &Call) -> Result<(), Fault> {
        let Some(overlap) = call.overlap() else { return Ok(()) };
        if self.settings()?.strict {
            return Err(Fault::usage(overlap.detail));
        }
        comm.hazard("overlap", &overlap.detail);
        Ok(())
    }

    /// `ncclRedOpCreatePreMulSum`: the number of the new operator.
    ///
    /// # Errors
    /// Where the communicator is not one, or the factor not of the type.
    pub fn create_pre_mul_sum(
        &self,
        comm: Handle,
        data_type: DataType,
        factor: FactorSource,
    ) -> Result<i32, Fault> {
        self.comms.find(comm)?.check_idle("ncclRedOpCreatePreMulSum")?;
        let factor = match factor {
            FactorSource::Now(bytes) => {
                Factor::Known(Scalar::from_bytes(data_type, &bytes).map_err(Fault::argument)?)
            }
            FactorSource::Later(source) => Factor::Later(data_type, source),
        };
        Ok(self.redops.create(comm, factor))
    }

    /// `ncclRedOpDestroy`.
    ///
    /// # Errors
    /// Where the operator is not this communicator's.
    pub fn destroy_redop(&self, comm: Handle, number: i32) -> Result<(), Fault> {
        self.comms.find(comm)?;
        self.redops.destroy(comm, number)
    }
}

/// NCCL's number of a data type, which is its place in the list of all.
fn number_of(data_type: DataType) -> usize {
    DataType::ALL.iter().position(|other| *other == data_type).unwrap_or_default()
}

impl RedOp {
    /// NCCL's number of an operator.
    pub(crate) const fn number(self) -> i32 {
        match self {
            Self::Builtin(ReduceOp::Sum) => 0,
            Self::Builtin(ReduceOp::Prod) => 1,
            Self::Builtin(ReduceOp::Max) => 2,
            Self::Builtin(ReduceOp::Min) => 3,
            Self::Builtin(ReduceOp::Avg | ReduceOp::PreMulSum) => 4,
            Self::User(number) => number,
        }
    }
}
