//! What of a program can ever happen: calls matched rank against rank, by order alone.
//!
//! Ranks are sequential and calls meet in queues, in call order, so what matches does not depend on who is
//! faster. This goes as far as any library may go: a call ends once everything it needs has been called, and
//! nothing else holds it up. What does not come to its end here must not come to its end anywhere.

use std::collections::BTreeMap;

use super::program::{Kind, Op, Program, Step};

/// A call of a rank of the world: a step of its script, and the place in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The rank.
    pub rank: usize,
    /// The step.
    pub step: usize,
    /// The place in the group.
    pub op: usize,
}

/// Where a rank stands in a communicator.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    instance: usize,
    /// Its rank there.
    pub member: usize,
    /// Ranks there.
    pub size: usize,
}

/// A block that a rank receives, and the sender's call and block where it was matched.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Which block of the receive buffer.
    pub block: usize,
    /// The call that sent it, and which block of its send buffer it was.
    pub from: Option<(At, usize)>,
}

/// What became of a call.
#[derive(Clone, Debug)]
pub enum Met {
    /// It was never made: an earlier step has no end, or it was refused for its own arguments.
    Never,
    /// It has no elements and needs nobody.
    Dropped,
    /// It is one of these calls, by rank of the communicator; none where they have not all come or differ.
    Ordered(Option<Vec<At>>),
    /// It is made of pairs; these are the blocks that it receives.
    Paired(Vec<Received>),
}

/// How far each rank can come, and who meets whom.
#[derive(Debug)]
pub struct Forecast {
    ranks: Vec<RankState>,
    instances: Vec<Instance>,
    met: BTreeMap<At, Met>,
}

#[derive(Debug)]
struct RankState {
    /// Steps that have ended.
    step: usize,
    /// What the step that has begun still needs.
    needs: Option<Vec<Need>>,
    refused: bool,
    places: Vec<Option<Place>>,
    /// The same as they were at each step.
    seen: Vec<Vec<Option<Place>>>,
}

#[derive(Clone, Copy, Debug)]
enum Need {
    Slot(usize, usize),
    Pair(usize, (usize, usize), usize),
}

/// A communicator.
#[derive(Debug, Default)]
struct Instance {
    next: Vec<usize>,
    slots: Vec<Vec<Option<At>>>,
    ran: usize,
    pairs: BTreeMap<(usize, usize), Queue>,
}

/// The pairs of a source and a destination.
#[derive(Debug, Default)]
struct Queue {
    sends: Vec<Half>,
    recvs: Vec<Half>,
    ran: usize,
}

#[derive(Clone, Copy, Debug)]
struct Half {
    at: At,
    block: usize,
    bytes: usize,
}

/// One side of a pair that a call is made of.
struct Part {
    sends: bool,
    peer: usize,
    block: usize,
}

impl Forecast {
    /// Of a program.
    pub fn of(program: &Program) -> Self {
        let ranks = program.ranks();
        let mut forecast = Self { ranks: Vec::new(), instances: Vec::new(), met: BTreeMap::new() };
        for _ in 0..ranks {
            let places = vec![None; program.comms];
            forecast.ranks.push(RankState { step: 0, needs: None, refused: false, places, seen: Vec::new() });
        }
        forecast.make(&(0..ranks).map(|rank| (rank, 0)).collect::<Vec<_>>());
        while forecast.begin(program) | forecast.run(program) | forecast.end() {}
        forecast
    }

    /// How many steps of a rank's script can end.
    pub fn reach(&self, rank: usize) -> usize {
        self.ranks[rank].step
    }

    /// Whether every rank can come to its end.
    pub fn is_whole(&self, program: &Program) -> bool {
        program.scripts.iter().enumerate().all(|(rank, script)| self.reach(rank) == script.len())
    }

    /// Where a rank stands in a communicator when it takes a step; `None` where it has none.
    pub fn place(&self, rank: usize, step: usize, comm: usize) -> Option<Place> {
        self.ranks[rank].seen.get(step)?.get(comm).copied().flatten()
    }

    /// What became of a call.
    pub fn met(&self, at: At) -> &Met {
        self.met.get(&at).unwrap_or(&Met::Never)
    }

    /// Makes a communicator of these ranks of the world, each with its own number of it: ranks of a wrong program
    /// may not number what they make alike.
    fn make(&mut self, members: &[(usize, usize)]) {
        let (instance, size) = (self.instances.len(), members.len());
        for (member, &(rank, comm)) in members.iter().enumerate() {
            self.ranks[rank].places[comm] = Some(Place { instance, member, size });
        }
        self.instances.push(Instance { next: vec![0; size], ..Instance::default() });
    }

    /// Ranks that have ended a step take the next one.
    fn begin(&mut self, program: &Program) -> bool {
        let mut begun = false;
        for (rank, script) in program.scripts.iter().enumerate() {
            let state = &mut self.ranks[rank];
            let Some(step) = script.get(state.step).filter(|_| state.needs.is_none() && !state.refused)
            else {
                continue;
            };
            begun = true;
            state.seen.push(state.places.clone());
            let at = At { rank, step: state.step, op: 0 };
            match self.is_refused(rank, step) {
                true => self.ranks[rank].refused = true,
                false => {
                    let needs = self.submit(at, step);
                    self.ranks[rank].needs = Some(needs);
                }
            }
        }
        begun
    }

    /// Whether a step fails for its own arguments alone.
    fn is_refused(&self, rank: usize, step: &Step) -> bool {
        let places = &self.ranks[rank].places;
        let ops = match step {
            Step::Split { parent, .. } => return places[*parent].is_none(),
            Step::Group { ops, .. } => ops,
        };
        let mut own: BTreeMap<usize, [Vec<usize>; 2]> = BTreeMap::new();
        for op in ops {
            let Some(place) = places[op.comm] else { return true };
            let there = |other: i32| usize::try_from(other).is_ok_and(|other| other < place.size);
            if !op.kind.root().is_none_or(there) || !op.kind.peer().is_none_or(there) {
                return true;
            }
            let is_own = op.kind.peer().is_some_and(|peer| usize::try_from(peer) == Ok(place.member));
            if is_own {
                own.entry(op.comm).or_default()[usize::from(matches!(op.kind, Kind::Send(_)))]
                    .push(op.block());
            }
        }
        own.values().any(|[sends, recvs]| sends != recvs)
    }

    fn submit(&mut self, at: At, step: &Step) -> Vec<Need> {
        let mut needs = Vec::new();
        match step {
            Step::Split { parent, .. } => needs.extend(self.enqueue(at, *parent)),
            Step::Group { ops, .. } => {
                for (op, call) in ops.iter().enumerate() {
                    needs.extend(self.submit_op(At { op, ..at }, call));
                }
            }
        }
        needs
    }

    fn submit_op(&mut self, at: At, op: &Op) -> Vec<Need> {
        if op.is_dropped() {
            self.met.insert(at, Met::Dropped);
            return Vec::new();
        }
        if !op.kind.is_pairwise() {
            self.met.insert(at, Met::Ordered(None));
            return self.enqueue(at, op.comm).into_iter().collect();
        }
        let Some(place) = self.ranks[at.rank].places[op.comm] else { return Vec::new() };
        let mut needs = Vec::new();
        let mut received = Vec::new();
        for part in parts(op.kind, place) {
            let ends = if part.sends { (place.member, part.peer) } else { (part.peer, place.member) };
            let queue = self.instances[place.instance].pairs.entry(ends).or_default();
            let side = if part.sends { &mut queue.sends } else { &mut queue.recvs };
            needs.push(Need::Pair(place.instance, ends, side.len()));
            side.push(Half { at, block: part.block, bytes: op.block() });
            if !part.sends {
                received.push(Received { block: part.block, from: None });
            }
        }
        self.met.insert(at, Met::Paired(received));
        needs
    }

    fn enqueue(&mut self, at: At, comm: usize) -> Option<Need> {
        let place = self.ranks[at.rank].places[comm]?;
        let instance = &mut self.instances[place.instance];
        let number = instance.next[place.member];
        instance.next[place.member] += 1;
        if instance.slots.len() <= number {
            instance.slots.push(vec![None; place.size]);
        }
        instance.slots[number][place.member] = Some(at);
        Some(Need::Slot(place.instance, number))
    }

    /// Runs what is matched, in the order of each queue.
    fn run(&mut self, program: &Program) -> bool {
        let mut ran = false;
        for instance in 0..self.instances.len() {
            while let Some(calls) = self.instances[instance].front(program) {
                self.instances[instance].ran += 1;
                self.run_ordered(program, &calls);
                ran = true;
            }
            let mut matched = Vec::new();
            for queue in self.instances[instance].pairs.values_mut() {
                while let Some((send, recv)) = queue.front() {
                    queue.ran += 1;
                    matched.push((send, recv));
                }
            }
            for (send, recv) in matched {
                ran = true;
                if let Some(Met::Paired(received)) = self.met.get_mut(&recv.at) {
                    let block = received
                        .iter_mut()
                        .find(|received| received.block == recv.block && received.from.is_none());
                    if let Some(block) = block {
                        block.from = Some((send.at, send.block));
                    }
                }
            }
        }
        ran
    }

    fn run_ordered(&mut self, program: &Program, calls: &[At]) {
        let mut cast = BTreeMap::<i32, Vec<(i32, (usize, usize))>>::new();
        for &at in calls {
            match &program.scripts[at.rank][at.step] {
                Step::Split { child, colour: Some(colour), key, .. } => {
                    cast.entry(*colour).or_default().push((*key, (at.rank, *child)));
                }
                Step::Split { .. } => {}
                Step::Group { .. } => {
                    self.met.insert(at, Met::Ordered(Some(calls.to_vec())));
                }
            }
        }
        for mut members in cast.into_values() {
            // Equal keys keep the parent's order.
            members.sort_by_key(|(key, _)| *key);
            self.make(&members.into_iter().map(|(_, member)| member).collect::<Vec<_>>());
        }
    }

    /// Steps of which everything has run have ended.
    fn end(&mut self) -> bool {
        let mut ended = false;
        for state in &mut self.ranks {
            let has_run = |need: &Need| match *need {
                Need::Slot(instance, number) => self.instances[instance].ran > number,
                Need::Pair(instance, ends, number) => {
                    self.instances[instance].pairs.get(&ends).is_some_and(|queue| queue.ran > number)
                }
            };
            if state.needs.as_ref().is_some_and(|needs| needs.iter().all(has_run)) {
                state.needs = None;
                state.step += 1;
                ended = true;
            }
        }
        ended
    }
}

impl Instance {
    /// The calls of the oldest operation that has not run, if all have come and agree.
    fn front(&self, program: &Program) -> Option<Vec<At>> {
        let calls: Vec<At> = self.slots.get(self.ran)?.iter().copied().collect::<Option<_>>()?;
        let first = step_of(program, *calls.first()?);
        calls.iter().all(|&at| agree(&first, &step_of(program, at))).then_some(calls)
    }
}

impl Queue {
    fn front(&self) -> Option<(Half, Half)> {
        let (send, recv) = (*self.sends.get(self.ran)?, *self.recvs.get(self.ran)?);
        (send.bytes == recv.bytes).then_some((send, recv))
    }
}

/// A call of an order: an operation, or a split of what would otherwise be one.
fn step_of(program: &Program, at: At) -> Option<Op> {
    program.op(at).copied()
}

/// Whether two calls are one operation. Types count where values are combined, elsewhere bytes do.
fn agree(one: &Option<Op>, other: &Option<Op>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
    let reduces = one.kind.reduce().is_some();
    one.kind == other.kind
        && one.block() == other.block()
        && (!reduces || (one.data_type == other.data_type && one.count == other.count))
}

/// The pairs that a rank's call is made of: NCCL batches them in any order, but for each pair of ranks by call.
fn parts(kind: Kind, place: Place) -> Vec<Part> {
    let number = |rank: i32| usize::try_from(rank).unwrap_or(usize::MAX);
    let all = |sends: bool| (0..place.size).map(move |peer| Part { sends, peer, block: peer });
    let one = |sends: bool, peer: i32| Part { sends, peer: number(peer), block: 0 };
    match kind {
        Kind::Send(peer) => vec![one(true, peer)],
        Kind::Recv(peer) => vec![one(false, peer)],
        Kind::AllToAll => all(true).chain(all(false)).collect(),
        Kind::Gather(root) => {
            let taken = all(false).filter(|_| number(root) == place.member);
            std::iter::once(one(true, root)).chain(taken).collect()
        }
        Kind::Scatter(root) => {
            let given = all(true).filter(|_| number(root) == place.member);
            given.chain(std::iter::once(one(false, root))).collect()
        }
        _ => Vec::new(),
    }
}
