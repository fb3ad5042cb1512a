//! What each rank of a simulated cluster does.

use fakegpu_proto::Descriptor;
use fakegpu_units::{Collective, DataType, Rank, ReduceOp};

use crate::Random;

/// One thing a rank does; it goes on when that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Join the communicator of everybody.
    Join,
    /// Submit these operations as one group.
    Group(Vec<Descriptor>),
    /// Meet at a barrier.
    Barrier,
    /// Leave in order.
    Leave,
    /// Die: the connection ends without a word.
    Die,
    /// Compute for this many microseconds.
    Compute(u64),
}

impl Step {
    /// An all-reduce of this many floats.
    pub fn all_reduce(count: u64) -> Self {
        Self::Group(vec![all_reduce(count)])
    }
}

/// An all-reduce of this many floats.
pub(crate) fn all_reduce(count: u64) -> Descriptor {
    Descriptor {
        op: Collective::AllReduce,
        count,
        data_type: DataType::Float32,
        reduce: Some(ReduceOp::Sum),
        root: None,
    }
}

/// What all ranks do.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The steps of each rank.
    pub programs: Vec<Vec<Step>>,
    /// The join time-out.
    pub join_timeout_ms: u64,
    /// The collective time-out.
    pub collective_timeout_ms: u64,
    /// How often, in a hundred steps, a rank's process dies in the middle of one.
    pub crash_percent: u64,
}

impl Scenario {
    /// Every rank does the same.
    pub fn same(ranks: usize, program: Vec<Step>) -> Self {
        Self {
            programs: vec![program; ranks],
            join_timeout_ms: 5_000,
            collective_timeout_ms: 5_000,
            crash_percent: 0,
        }
    }

    /// A program that is right, drawn from a seed: joins, groups, barriers and computing, then leaving.
    pub fn random(random: &mut Random, ranks: usize, steps: usize) -> Self {
        let mut program = vec![Step::Join];
        for _ in 0..steps {
            program.push(match random.below(5) {
                0 => Step::Barrier,
                1 => Step::Compute(random.below(3_000)),
                2 => Step::Group((0..=random.below(4)).map(|_| operation(random, ranks)).collect()),
                _ => Step::Group(vec![operation(random, ranks)]),
            });
        }
        program.push(Step::Leave);
        Self::same(ranks, program)
    }
}

fn operation(random: &mut Random, ranks: usize) -> Descriptor {
    let pick = |random: &mut Random, length: usize| usize::try_from(random.below(length as u64)).unwrap_or(0);
    let op = Collective::ALL[pick(random, Collective::ALL.len())];
    Descriptor {
        op,
        count: 1 + random.below(1_000),
        data_type: DataType::ALL[pick(random, DataType::ALL.len())],
        reduce: op.reduces().then(|| ReduceOp::ALL[pick(random, ReduceOp::ALL.len())]),
        root: op.has_root().then(|| Rank::from_index(pick(random, ranks))),
    }
}
