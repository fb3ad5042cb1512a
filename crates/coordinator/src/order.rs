//! Submissions that hold each other up by the order of their calls alone: each waits for one that was called before it,
//! on the same thread or stream, or before another rank's part in the same operation. Threads and streams never turn
//! the order round, so a circle of such waits is for ever, whoever may call what later.

use std::collections::{BTreeMap, BTreeSet};

use fakegpu_proto::Fault;
use fakegpu_proto::event::FailureKind;
use fakegpu_units::{HostTime, Rank};

use crate::Coordinator;
use crate::batches::{BatchId, Booked};
use crate::deadlock::more_in_circle;

/// Steps of a circle that a sentence names.
const STEPS_SHOWN: usize = 6;

/// A rank's call that stands behind another of the same rank, which has to end first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    behind: Booked,
    before: BatchId,
}

impl Coordinator {
    /// Fails what can never run for its order; whether there was such a circle.
    pub(crate) fn fail_order_circle(&mut self, now: HostTime) -> bool {
        let Some(circle) = self.order_circle(self.batches.by_id.keys().copied()) else { return false };
        let shown: Vec<String> =
            circle.iter().take(STEPS_SHOWN).filter_map(|step| self.step_words(*step)).collect();
        let more = more_in_circle(circle.len(), STEPS_SHOWN);
        let fault = Fault::usage(format!(
            "deadlock: {}{more}. None can ever begin: all ranks must call their communicators' operations in one order on a \
             stream, or on streams of their own",
            shown.join("; ")
        ));
        let mut culprits: BTreeMap<_, BTreeSet<Rank>> = BTreeMap::new();
        for step in &circle {
            culprits.entry(step.behind.key.comm()).or_default().insert(step.behind.rank);
        }
        for (comm, ranks) in culprits {
            let ranks: Vec<Rank> = ranks.into_iter().collect();
            self.fail_comm(now, comm, FailureKind::Deadlock, fault.clone(), &ranks);
        }
        true
    }

    /// A circle that one of these leads to, if there is one: a walk that goes deeper as long as it finds somebody new.
    pub(crate) fn order_circle(&self, starts: impl Iterator<Item = BatchId>) -> Option<Vec<Step>> {
        let mut done = BTreeSet::new();
        for start in starts {
            let (mut path, mut on_path) = (Vec::<(BatchId, Vec<Step>, Step)>::new(), Vec::new());
            let mut at = start;
            let mut left = self.steps(at);
            on_path.push(at);
            loop {
                let next = left.pop().filter(|_| !done.contains(&at));
                match next {
                    Some(step) => {
                        if let Some(begin) = on_path.iter().position(|&seen| seen == step.before) {
                            let mut circle: Vec<Step> =
                                path[begin..].iter().map(|(.., step)| *step).collect();
                            circle.push(step);
                            return Some(circle);
                        }
                        if done.contains(&step.before) {
                            continue;
                        }
                        path.push((at, std::mem::take(&mut left), step));
                        at = step.before;
                        on_path.push(at);
                        left = self.steps(at);
                    }
                    None => {
                        done.insert(at);
                        on_path.pop();
                        let Some((above, rest, _)) = path.pop() else { break };
                        (at, left) = (above, rest);
                    }
                }
            }
        }
        None
    }

    /// What a submission stands behind: the last call before each rank's part in its operations, its own included.
    fn steps(&self, id: BatchId) -> Vec<Step> {
        let Some(batch) = self.batches.by_id.get(&id) else { return Vec::new() };
        let mut steps = Vec::new();
        for op in batch.waiting() {
            for part in self.batches_at(op.key) {
                let Some(before) = self.batches.last_before(part) else { continue };
                let booked = self
                    .batches
                    .by_id
                    .get(&part)
                    .and_then(|part| part.waiting().find(|other| other.key == op.key));
                steps.extend(booked.map(|behind| Step { behind, before }));
            }
        }
        steps
    }

    fn step_words(&self, step: Step) -> Option<String> {
        let comm = self.comms.get(&step.behind.key.comm())?;
        let first = self.batches.by_id.get(&step.before)?.waiting().next()?;
        let (before, after) =
            (self.call_at(first.key, first.rank)?, self.call_at(step.behind.key, step.behind.rank)?);
        Some(format!(
            "{} called {before} on communicator {} before {after} on communicator {}",
            comm.member_name(step.behind.rank),
            first.key.comm(),
            comm.id
        ))
    }
}
