//! Right programs from a seed.

use super::element::DataType;
use super::program::{Kind, Op, Program, ReduceOp, Step};
use super::random::Random;

/// The most ranks that a program has.
pub const RANKS_MAX: usize = 8;

/// A right program.
pub fn generate(seed: u64) -> Program {
    let mut random = Random::keyed(&[seed, 1]);
    let ranks = random.within(2, RANKS_MAX);
    let special = random.percent(20);
    let mut builder = Builder {
        scripts: vec![Vec::new(); ranks],
        comms: vec![vec![(0..ranks).collect()]],
        random,
        next_id: 0,
    };
    for _ in 0..builder.random.below(3) {
        builder.split();
    }
    for _ in 0..builder.random.within(1, 7) {
        builder.step();
    }
    let comms = builder.comms.len();
    Program { seed, scripts: builder.scripts, comms, special, mutation: None }
}

/// A program as far as it has been made.
struct Builder {
    random: Random,
    scripts: Vec<Vec<Step>>,
    /// Each communicator's instances: ranks of the world, in order. A split makes one for each colour.
    comms: Vec<Vec<Vec<usize>>>,
    next_id: u32,
}

/// Calls of a group in the making: those of one list keep their order, on every rank.
type Strand = Vec<Vec<Op>>;

impl Builder {
    fn step(&mut self) {
        match self.random.below(100) {
            0..6 => self.split(),
            6..40 => self.one_collective(),
            40..55 => self.transfers_alone(),
            55..80 => self.mixed(),
            80..90 => self.pairs_in_order(),
            _ => self.grouped_by_some(),
        }
    }

    fn split(&mut self) {
        let parent = self.random.below(self.comms.len());
        let child = self.comms.len();
        let colours = self.random.within(1, 3);
        let mut children: Vec<Vec<usize>> = Vec::new();
        for members in self.comms[parent].clone() {
            let mut cast: Vec<(Option<i32>, i32, usize)> = Vec::new();
            for rank in members {
                let colour = (!self.random.percent(12)).then(|| to_i32(self.random.below(colours)) * 3);
                let key = to_i32(self.random.below(5)) - 2;
                self.scripts[rank].push(Step::Split { parent, child, colour, key });
                cast.push((colour, key, rank));
            }
            for colour in (0..colours).map(|colour| Some(to_i32(colour) * 3)) {
                let mut chosen: Vec<_> = cast.iter().filter(|(other, ..)| *other == colour).collect();
                // Equal keys keep the parent's order, which a stable sort does too.
                chosen.sort_by_key(|(_, key, _)| *key);
                if !chosen.is_empty() {
                    children.push(chosen.iter().map(|(_, _, rank)| *rank).collect());
                }
            }
        }
        self.comms.push(children);
    }

    /// A communicator and its instances, one of them at least.
    fn comm(&mut self) -> (usize, Vec<Vec<usize>>) {
        let comm = self.random.below(self.comms.len());
        let comm = if self.comms[comm].is_empty() { 0 } else { comm };
        (comm, self.comms[comm].clone())
    }

    fn push(&mut self, rank: usize, ops: Vec<Op>, grouped: bool) {
        if !ops.is_empty() {
            self.scripts[rank].push(Step::Group { ops, grouped });
        }
    }

    fn count(&mut self) -> usize {
        match self.random.below(100) {
            0..8 => 0,
            8..18 => 1,
            18..70 => self.random.within(2, 64),
            70..90 => self.random.within(65, 1_500),
            90..98 => self.random.within(1_501, 6_000),
            98 => self.random.within(6_001, 20_000),
            // Further than a slot of shared memory, in some types.
            _ => self.random.within(20_001, 90_000),
        }
    }

    fn collective_kind(&mut self, size: usize) -> Kind {
        let op = self.random.pick(&ReduceOp::ALL);
        let root = to_i32(self.random.below(size));
        match self.random.below(12) {
            0..3 => Kind::AllReduce(op),
            3 => Kind::Reduce(op, root),
            4 | 5 => Kind::Broadcast(root),
            6 => Kind::AllGather,
            7 => Kind::ReduceScatter(op),
            8 | 9 => Kind::AllToAll,
            10 => Kind::Gather(root),
            _ => Kind::Scatter(root),
        }
    }

    fn op(&mut self, comm: usize, kind: Kind) -> Op {
        self.next_id += 1;
        let data_type = self.random.pick(&DataType::ALL);
        Op { id: self.next_id, comm, kind, count: self.count(), data_type, in_place: false, bare: false }
    }

    /// A collective of one instance, as each of its ranks calls it.
    fn collective(&mut self, comm: usize, size: usize) -> Vec<Op> {
        let kind = self.collective_kind(size);
        let op = self.op(comm, kind);
        let alike = self.random.percent(50);
        let in_place = self.random.percent(25);
        (0..size)
            .map(|_| Op {
                in_place: kind != Kind::AllToAll && if alike { in_place } else { self.random.percent(25) },
                bare: self.random.percent(50),
                ..op
            })
            .collect()
    }

    fn one_collective(&mut self) {
        let (comm, instances) = self.comm();
        for members in instances {
            let ops = self.collective(comm, members.len());
            for (op, &rank) in ops.into_iter().zip(&members) {
                let grouped = self.random.percent(15);
                self.push(rank, vec![op], grouped);
            }
        }
    }

    /// Pairs of an instance by some pattern: who sends whom.
    fn pattern(&mut self, size: usize) -> Vec<(usize, usize)> {
        match self.random.below(4) {
            0 => {
                let by = self.random.below(size);
                (0..size).map(|rank| (rank, (rank + by) % size)).collect()
            }
            1 => {
                let mut to: Vec<usize> = (0..size).collect();
                self.random.shuffle(&mut to);
                to.into_iter().enumerate().collect()
            }
            _ => (0..self.random.within(1, 2 * size))
                .map(|_| (self.random.below(size), self.random.below(size)))
                .collect(),
        }
    }

    /// Sends and receives of an instance, by member.
    fn transfers(&mut self, comm: usize, size: usize) -> Strand {
        let mut strand = vec![Vec::new(); size];
        for (src, dst) in self.pattern(size) {
            let op = self.op(comm, Kind::Send(to_i32(dst)));
            let recv = Op { kind: Kind::Recv(to_i32(src)), bare: self.random.percent(50), ..op };
            strand[src].push(op);
            strand[dst].push(recv);
        }
        strand
    }

    fn transfers_alone(&mut self) {
        let (comm, instances) = self.comm();
        for members in instances {
            let strand = self.transfers(comm, members.len());
            self.lay(vec![(members, strand)]);
        }
    }

    /// Collectives and transfers of several communicators in one group.
    fn mixed(&mut self) {
        let mut strands = Vec::new();
        let mut used = Vec::new();
        for _ in 0..self.random.within(1, 3) {
            let (comm, instances) = self.comm();
            if used.contains(&comm) {
                continue;
            }
            used.push(comm);
            for members in instances {
                // Pairwise collectives share their queues with sends and receives, so they keep one order.
                let (mut ordered, mut paired) =
                    (vec![Vec::new(); members.len()], vec![Vec::new(); members.len()]);
                for _ in 0..self.random.within(1, 3) {
                    let ops = if self.random.percent(40) {
                        self.transfers(comm, members.len())
                    } else {
                        self.collective(comm, members.len()).into_iter().map(|op| vec![op]).collect()
                    };
                    for (member, ops) in ops.into_iter().enumerate() {
                        let is_pairwise = ops.first().is_some_and(|op| op.kind.is_pairwise());
                        let strand = if is_pairwise { &mut paired } else { &mut ordered };
                        strand[member].extend(ops);
                    }
                }
                strands.push((members.clone(), ordered));
                strands.push((members, paired));
            }
        }
        self.lay(strands);
    }

    /// Makes one group a rank of strands, woven at random.
    fn lay(&mut self, strands: Vec<(Vec<usize>, Strand)>) {
        for rank in 0..self.scripts.len() {
            let mut mine: Vec<std::collections::VecDeque<Op>> = strands
                .iter()
                .filter_map(|(members, strand)| {
                    let at = members.iter().position(|&member| member == rank)?;
                    Some(strand[at].iter().copied().collect())
                })
                .collect();
            let mut woven = Vec::new();
            while mine.iter().any(|ops| !ops.is_empty()) {
                let at = self.random.below(mine.len());
                woven.extend(mine[at].pop_front());
            }
            self.push(rank, woven, true);
        }
    }

    /// Pairs one after the other, without a group: everybody follows one order, so the first that is not done
    /// can always be done.
    fn pairs_in_order(&mut self) {
        let (comm, instances) = self.comm();
        for members in instances {
            for _ in 0..self.random.within(1, 6) {
                let (src, dst) = (self.random.below(members.len()), self.random.below(members.len()));
                if src == dst {
                    continue;
                }
                let op = self.op(comm, Kind::Send(to_i32(dst)));
                self.push(members[src], vec![op], false);
                self.push(members[dst], vec![Op { kind: Kind::Recv(to_i32(src)), ..op }], false);
            }
        }
    }

    /// The same collectives, which some ranks group and others call one by one.
    fn grouped_by_some(&mut self) {
        let (comm, instances) = self.comm();
        for members in instances {
            let calls: Vec<Vec<Op>> =
                (0..self.random.within(2, 4)).map(|_| self.collective(comm, members.len())).collect();
            for (at, &rank) in members.iter().enumerate() {
                let ops: Vec<Op> = calls.iter().map(|ranks| ranks[at]).collect();
                if self.random.percent(50) {
                    self.push(rank, ops, true);
                } else {
                    ops.into_iter().for_each(|op| self.push(rank, vec![op], false));
                }
            }
        }
    }
}

/// A small number as C has it.
pub(super) fn to_i32(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::matching::Forecast;
    use super::*;

    #[test]
    fn right_programs_come_to_their_end_in_the_model() {
        for seed in 0..2_000 {
            let program = generate(seed);
            let forecast = Forecast::of(&program);
            for (rank, script) in program.scripts.iter().enumerate() {
                assert_eq!(forecast.reach(rank), script.len(), "rank {rank}: {program}");
            }
        }
    }

    #[test]
    fn everything_that_there_is_occurs() {
        let mut names = std::collections::BTreeSet::new();
        let mut types = std::collections::BTreeSet::new();
        let (mut left_out, mut in_place, mut long, mut empty) = (0, 0, 0, 0);
        for seed in 0..500 {
            for step in generate(seed).scripts.into_iter().flatten() {
                match step {
                    Step::Split { colour, .. } => left_out += usize::from(colour.is_none()),
                    Step::Group { ops, .. } => {
                        for op in ops {
                            names.insert(op.kind.name());
                            types.insert(op.data_type);
                            in_place += usize::from(op.in_place);
                            long += usize::from(op.block() > 256 << 10);
                            empty += usize::from(op.count == 0);
                        }
                    }
                }
            }
        }
        assert_eq!((names.len(), types.len()), (10, 12));
        assert!(left_out > 50 && in_place > 50 && long > 5 && empty > 50);
    }
}
