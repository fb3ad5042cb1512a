//! Random operations, what they must deliver, and one rank's part in them.

use std::time::Duration;

use fakegpu_executor::local::run_local;
use fakegpu_executor::{Plan, Reduction, Scalar, Shape, prescale_in_place};
use fakegpu_staging_shm::{Exchange, RecvBuffer, Run, SendBuffer, StagingError, finish};
use fakegpu_units::{Collective, CommId, DataType, Rank, ReduceOp, SeqNo};
use proptest::prelude::*;

/// Longer than any test takes; a hang becomes a failure.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// An operation with all it needs, for all ranks.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) shape: Shape,
    pub(crate) data_type: DataType,
    pub(crate) op: ReduceOp,
    /// Whether all-reduce uses one buffer for both sides.
    pub(crate) in_place: bool,
    pub(crate) seed: u64,
}

pub(crate) fn any_case(size: u32, slot_bytes: usize) -> impl Strategy<Value = Case> {
    let count = prop_oneof![0..20_u64, 60..70_u64, 125..130_u64, 1000..1030_u64, 4090..4100_u64];
    let what = (prop::sample::select(Collective::ALL), prop::sample::select(DataType::ALL));
    let how = (prop::sample::select(ReduceOp::ALL), any::<bool>(), any::<u64>());
    (what, how, count, 0..size).prop_map(
        move |((collective, data_type), (op, in_place, seed), count, root)| {
            let elem_bytes = data_type.size();
            let shape = Shape { op: collective, size, root: Rank(root), count, elem_bytes, slot_bytes };
            Case { shape, data_type, op, in_place: in_place && collective == Collective::AllReduce, seed }
        },
    )
}

fn random_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..bytes).map(|_| next()).collect()
}

impl Case {
    pub(crate) fn plan(&self) -> Plan {
        Plan::new(self.shape).unwrap()
    }

    pub(crate) fn reduction(&self) -> Option<Reduction> {
        let Self { data_type, op, .. } = *self;
        self.shape.op.reduces().then_some(Reduction { data_type, op, size: self.shape.size })
    }

    pub(crate) fn send(&self, rank: Rank) -> Vec<u8> {
        random_bytes(self.seed ^ (u64::from(rank.0) << 32), self.plan().send_bytes(rank))
    }

    fn scalar(&self, rank: Rank) -> Option<Scalar> {
        let scaled = self.op == ReduceOp::PreMulSum && self.shape.op.reduces();
        let bytes = random_bytes(self.seed + u64::from(rank.0), self.data_type.size());
        scaled.then(|| Scalar::from_bytes(self.data_type, &bytes).unwrap())
    }

    /// What every rank must receive.
    pub(crate) fn expected(&self) -> Vec<Vec<u8>> {
        let plan = self.plan();
        let ranks = || (0..self.shape.size).map(Rank);
        let scaled = |rank| {
            let mut send = self.send(rank);
            if let Some(scalar) = self.scalar(rank) {
                prescale_in_place(self.data_type, scalar, &mut send).unwrap();
            }
            send
        };
        let sends: Vec<_> = ranks().map(scaled).collect();
        let mut recvs: Vec<_> = ranks().map(|rank| vec![0; plan.recv_bytes(rank)]).collect();
        run_local(&plan, self.reduction(), &sends, &mut recvs).unwrap();
        recvs
    }

    /// `rank`'s run over `memory`, which must outlive it unmoved.
    pub(crate) fn run(&self, rank: Rank, seq: u64, memory: &mut Memory) -> Run {
        let recv = memory.recv.as_mut_ptr();
        let send = if self.in_place { recv.cast_const() } else { memory.send.as_ptr() };
        Run {
            plan: self.plan(),
            reduction: self.reduction(),
            scalar: self.scalar(rank),
            // SAFETY: by this function's contract, and nothing else touches the memory during the run.
            send: unsafe { SendBuffer::new(send, memory.send.len()) },
            // SAFETY: as above.
            recv: unsafe { RecvBuffer::new(recv, memory.recv.len()) },
            data_type: self.data_type,
            comm: CommId(7),
            seq: SeqNo(seq),
        }
    }

    /// Executes `rank`'s part; what it received.
    pub(crate) fn execute(
        &self,
        exchange: &mut dyn Exchange,
        rank: Rank,
        seq: u64,
    ) -> Result<Vec<u8>, StagingError> {
        let mut memory = Memory::new(self, rank);
        finish(exchange, self.run(rank, seq, &mut memory), LIMIT)?;
        Ok(memory.recv)
    }
}

/// One rank's user memory.
pub(crate) struct Memory {
    pub(crate) send: Vec<u8>,
    pub(crate) recv: Vec<u8>,
}

impl Memory {
    pub(crate) fn new(case: &Case, rank: Rank) -> Self {
        let send = case.send(rank);
        let recv = if case.in_place { send.clone() } else { vec![0xa5; case.plan().recv_bytes(rank)] };
        Self { send, recv }
    }
}

/// A large sum in many rounds.
pub(crate) fn long_sum(size: u32, slot_bytes: usize) -> Case {
    let (data_type, op) = (DataType::Float32, ReduceOp::Sum);
    let shape =
        Shape { op: Collective::AllReduce, size, root: Rank(0), count: 100_000, elem_bytes: 4, slot_bytes };
    Case { shape, data_type, op, in_place: false, seed: 1 }
}
