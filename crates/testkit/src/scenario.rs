//! What each rank of a simulated cluster does.

use fakegpu_proto::{Action, Descriptor, Direction, Transfer};
use fakegpu_units::{Collective, DataType, Rank, ReduceOp};

use crate::Random;

/// One thing a rank does; it goes on when that is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Join the communicator of everybody.
    Join,
    /// Submit these operations as one group.
    Group(Vec<Action>),
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
        Self::Group(vec![all_reduce(count).into()])
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

    /// A program that is right, drawn from a seed: joins, groups of collectives and transfers, barriers and
    /// computing, then leaving.
    pub fn random(random: &mut Random, ranks: usize, steps: usize) -> Self {
        let mut programs = vec![vec![Step::Join]; ranks];
        for _ in 0..steps {
            match random.below(6) {
                0 => programs.iter_mut().for_each(|program| program.push(Step::Barrier)),
                1 => {
                    let step = Step::Compute(random.below(3_000));
                    programs.iter_mut().for_each(|program| program.push(step.clone()));
                }
                2 => push_groups(
                    &mut programs,
                    &(0..=random.below(4)).map(|_| Pattern::random(random, ranks)).collect::<Vec<_>>(),
                ),
                3 => {
                    let exchange = Descriptor {
                        op: Collective::AllToAll,
                        reduce: None,
                        ..all_reduce(1 + random.below(99))
                    };
                    programs.iter_mut().for_each(|program| program.push(Step::Group(vec![exchange.into()])));
                }
                _ => push_groups(&mut programs, &[Pattern::random(random, ranks)]),
            }
        }
        for program in &mut programs {
            program.push(Step::Leave);
        }
        Self { programs, ..Self::same(0, Vec::new()) }
    }
}

/// One operation, as all ranks call it together.
#[derive(Clone, Copy, Debug)]
enum Pattern {
    /// All ranks call the same.
    Collective(Descriptor),
    /// Every rank sends to the one that many places on.
    Shift(usize, u64, DataType),
    /// By sends and receives.
    Parts(Descriptor),
}

impl Pattern {
    fn random(random: &mut Random, ranks: usize) -> Self {
        let descriptor = operation(random, ranks);
        match descriptor.op {
            Collective::AllToAll | Collective::Gather | Collective::Scatter => Self::Parts(descriptor),
            _ if random.percent(40) => {
                Self::Shift(pick(random, ranks), random.below(50), descriptor.data_type)
            }
            _ => Self::Collective(descriptor),
        }
    }

    /// What one rank calls.
    fn actions(&self, rank: usize, ranks: usize) -> Vec<Action> {
        let at = |peer: usize| Rank::from_index(peer % ranks);
        match self {
            Self::Collective(descriptor) => vec![(*descriptor).into()],
            Self::Shift(by, count, data_type) => {
                let half = |direction, peer| {
                    Transfer { direction, peer: at(peer), count: *count, data_type: *data_type, of: None }
                        .into()
                };
                vec![half(Direction::Send, rank + by), half(Direction::Recv, rank + ranks - by)]
            }
            Self::Parts(descriptor) => parts(descriptor, Rank::from_index(rank), ranks),
        }
    }
}

/// The sends and receives that an all-to-all, a gather or a scatter stands for.
fn parts(descriptor: &Descriptor, rank: Rank, ranks: usize) -> Vec<Action> {
    let root = descriptor.root.unwrap_or_default();
    let all = || (0..ranks).map(Rank::from_index);
    let only = |is: bool| all().filter(move |_| is);
    let (sends, recvs): (Vec<Rank>, Vec<Rank>) = match descriptor.op {
        Collective::Gather => (vec![root], only(rank == root).collect()),
        Collective::Scatter => (only(rank == root).collect(), vec![root]),
        _ => (all().collect(), all().collect()),
    };
    let half = |direction| {
        move |peer| {
            let (count, data_type, of) = (descriptor.count, descriptor.data_type, Some(descriptor.op));
            Action::Transfer(Transfer { direction, peer, count, data_type, of })
        }
    };
    sends.into_iter().map(half(Direction::Send)).chain(recvs.into_iter().map(half(Direction::Recv))).collect()
}

fn push_groups(programs: &mut [Vec<Step>], patterns: &[Pattern]) {
    let ranks = programs.len();
    for (rank, program) in programs.iter_mut().enumerate() {
        let actions = patterns.iter().flat_map(|pattern| pattern.actions(rank, ranks)).collect();
        program.push(Step::Group(actions));
    }
}

fn pick(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64)).unwrap_or(0)
}

fn operation(random: &mut Random, ranks: usize) -> Descriptor {
    let op = Collective::ALL[pick(random, Collective::ALL.len())];
    Descriptor {
        op,
        count: 1 + random.below(1_000),
        data_type: DataType::ALL[pick(random, DataType::ALL.len())],
        reduce: op.reduces().then(|| ReduceOp::ALL[pick(random, ReduceOp::ALL.len())]),
        root: op.has_root().then(|| Rank::from_index(pick(random, ranks))),
    }
}
