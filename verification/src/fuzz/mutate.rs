//! Wrong programs: right ones with one change on one rank.

use super::element::DataType;
use super::generate::{generate, to_i32};
use super::program::{Kind, Op, Program, ReduceOp, Step};
use super::random::Random;

/// What may be made wrong.
#[derive(Clone, Copy, Debug)]
enum Change {
    Count,
    Type,
    /// Another type of the same size, where bytes only move: no mistake to NCCL.
    Label,
    Operator,
    Root,
    Kind,
    DropOp,
    DropSend,
    DropStep,
    SwapSteps,
    RecvSize,
    Peer,
    ExtraOp,
    Ungroup,
    BadArgument,
}

const CHANGES: [Change; 15] = [
    Change::Count,
    Change::Type,
    Change::Label,
    Change::Operator,
    Change::Root,
    Change::Kind,
    Change::DropOp,
    Change::DropSend,
    Change::DropStep,
    Change::SwapSteps,
    Change::RecvSize,
    Change::Peer,
    Change::ExtraOp,
    Change::Ungroup,
    Change::BadArgument,
];

/// The right program of a seed with one change. Not every change makes a difference: the forecast tells.
pub fn mutate(seed: u64) -> Program {
    let mut program = generate(seed);
    let mut random = Random::keyed(&[seed, 4]);
    let mutation = (0..100).find_map(|_| {
        let rank = random.below(program.ranks());
        let change = random.pick(&CHANGES);
        let words = apply(&mut program.scripts[rank], change, &mut random)?;
        Some(format!("on rank {rank}, {words}"))
    });
    program.mutation = Some(mutation.unwrap_or_else(|| "nothing that could be".to_owned()));
    program
}

/// Makes a change, if the script has a place for it; what was done, in words.
fn apply(script: &mut Vec<Step>, change: Change, random: &mut Random) -> Option<String> {
    match change {
        Change::DropOp => drop_op(script, random, |_| true),
        Change::DropSend => drop_op(script, random, |op| matches!(op.kind, Kind::Send(_))),
        Change::DropStep => {
            let step = (!script.is_empty()).then(|| random.below(script.len()))?;
            let dropped = script.remove(step);
            Some(format!("step {step} is left out: {dropped}"))
        }
        Change::SwapSteps => {
            let step = (script.len() > 1).then(|| random.below(script.len() - 1))?;
            script.swap(step, step + 1);
            Some(format!("steps {step} and {} change places", step + 1))
        }
        Change::ExtraOp => {
            let kind = random.pick(&[
                Kind::AllReduce(ReduceOp::Sum),
                Kind::Broadcast(0),
                Kind::AllToAll,
                Kind::Gather(0),
                Kind::Send(0),
                Kind::Recv(1),
            ]);
            let op = Op {
                id: 1_000_000,
                comm: 0,
                kind,
                count: random.below(3),
                data_type: DataType::Int32,
                in_place: false,
                bare: false,
            };
            script.push(Step::Group { ops: vec![op], grouped: false });
            Some(format!("{op} is called at the end"))
        }
        Change::Ungroup => ungroup(script, random),
        _ => {
            let fits = |op: &Op| fits(change, op);
            let (step, at) = choose(script, random, fits)?;
            let Step::Group { ops, .. } = &mut script[step] else { return None };
            let op = &mut ops[at];
            let before = *op;
            alter(op, change, random);
            Some(format!("step {step}: {op} instead of {before}"))
        }
    }
}

/// Whether a change can be made to an operation.
fn fits(change: Change, op: &Op) -> bool {
    match change {
        Change::Count => true,
        Change::Type | Change::Operator => op.kind.reduce().is_some(),
        Change::Label => op.kind.reduce().is_none(),
        Change::Root => op.kind.root().is_some(),
        Change::RecvSize => matches!(op.kind, Kind::Recv(_)),
        Change::Peer => op.kind.peer().is_some(),
        Change::Kind => op.kind.peer().is_none(),
        Change::BadArgument => op.kind.peer().is_some() || op.kind.root().is_some(),
        _ => false,
    }
}

fn alter(op: &mut Op, change: Change, random: &mut Random) {
    let near = to_i32(random.below(3));
    match change {
        Change::Count | Change::RecvSize => {
            op.count = match random.below(4) {
                0 => op.count + 1,
                1 => op.count.saturating_sub(1),
                2 => op.count * 2 + 1,
                _ => 0,
            };
        }
        Change::Type => op.data_type = random.pick(&DataType::ALL),
        Change::Label => {
            let alike = DataType::ALL.into_iter().filter(|other| other.size() == op.data_type.size());
            op.data_type = random.pick(&alike.collect::<Vec<_>>());
        }
        Change::Operator => op.kind = with_operator(op.kind, random.pick(&ReduceOp::ALL)),
        Change::Root | Change::Peer => op.kind = with_number(op.kind, near),
        Change::BadArgument => op.kind = with_number(op.kind, if near == 0 { -1 } else { 7 + near }),
        Change::Kind => {
            op.kind = random.pick(&[
                Kind::AllReduce(ReduceOp::Sum),
                Kind::Reduce(ReduceOp::Sum, 0),
                Kind::Broadcast(0),
                Kind::AllGather,
                Kind::ReduceScatter(ReduceOp::Sum),
                Kind::AllToAll,
                Kind::Gather(0),
                Kind::Scatter(0),
            ]);
            op.in_place &= op.kind != Kind::AllToAll;
        }
        _ => {}
    }
}

const fn with_operator(kind: Kind, op: ReduceOp) -> Kind {
    match kind {
        Kind::AllReduce(_) => Kind::AllReduce(op),
        Kind::Reduce(_, root) => Kind::Reduce(op, root),
        Kind::ReduceScatter(_) => Kind::ReduceScatter(op),
        other => other,
    }
}

const fn with_number(kind: Kind, number: i32) -> Kind {
    match kind {
        Kind::Reduce(op, _) => Kind::Reduce(op, number),
        Kind::Broadcast(_) => Kind::Broadcast(number),
        Kind::Gather(_) => Kind::Gather(number),
        Kind::Scatter(_) => Kind::Scatter(number),
        Kind::Send(_) => Kind::Send(number),
        Kind::Recv(_) => Kind::Recv(number),
        other => other,
    }
}

/// One of the script's operations that fit.
fn choose(script: &[Step], random: &mut Random, fits: impl Fn(&Op) -> bool) -> Option<(usize, usize)> {
    let mut found = Vec::new();
    for (step, ops) in script.iter().enumerate() {
        if let Step::Group { ops, .. } = ops {
            found.extend(ops.iter().enumerate().filter(|(_, op)| fits(op)).map(|(at, _)| (step, at)));
        }
    }
    (!found.is_empty()).then(|| random.pick(&found))
}

fn drop_op(script: &mut Vec<Step>, random: &mut Random, fits: impl Fn(&Op) -> bool) -> Option<String> {
    let (step, at) = choose(script, random, fits)?;
    let Step::Group { ops, .. } = &mut script[step] else { return None };
    let dropped = ops.remove(at);
    if ops.is_empty() {
        script.remove(step);
    }
    Some(format!("step {step} lacks {dropped}"))
}

/// Calls that were one group become calls of their own, one after the other.
fn ungroup(script: &mut Vec<Step>, random: &mut Random) -> Option<String> {
    let is_long = |step: &Step| matches!(step, Step::Group { ops, .. } if ops.len() > 1);
    let long: Vec<usize> = (0..script.len()).filter(|&at| is_long(&script[at])).collect();
    let at = (!long.is_empty()).then(|| random.pick(&long))?;
    let Step::Group { ops, .. } = script.remove(at) else { return None };
    let singles = ops.into_iter().map(|op| Step::Group { ops: vec![op], grouped: false });
    script.splice(at..at, singles);
    Some(format!("the calls of step {at} are not grouped"))
}

#[cfg(test)]
mod tests {
    use super::super::matching::Forecast;
    use super::*;

    #[test]
    fn most_changes_make_a_program_that_cannot_end() {
        let wrong = (0..1_000).map(mutate).filter(|program| !Forecast::of(program).is_whole(program)).count();
        assert!((600..950).contains(&wrong), "{wrong} of 1000");
    }
}
