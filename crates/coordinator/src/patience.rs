//! How long what waits may wait: for the rest of a group, for a line that says who waits for whom, for ever never.

use fakegpu_proto::event::FailureKind;
use fakegpu_proto::{EventKind, Fault, ToRank};
use fakegpu_units::{CommId, HostSpan, HostTime, Rank};

use crate::Coordinator;
use crate::batch::Closure;
use crate::batches::Key;
use crate::deadline::Due;
use crate::occupation::Occupations;
use crate::sentence;

/// How long a matched operation waits for the rest of its group.
pub(crate) const GROUP_PATIENCE: HostSpan = HostSpan::from_millis(250);

/// An operation that misses ranks.
#[derive(Debug)]
pub(crate) struct Missed {
    pub(crate) key: Key,
    pub(crate) ranks: Vec<Rank>,
}

impl Coordinator {
    pub(crate) fn ripe_watch(&mut self, at: HostTime) {
        if self.ripe_at.is_none() {
            self.ripe_at = Some(at);
            self.deadlines.set(at, Due::Ripe);
        }
    }

    /// Matched operations have waited long enough for the rest of their groups.
    pub(crate) fn ripe_due(&mut self, now: HostTime) {
        self.ripe_at = None;
        let (mut ripe, mut next) = (Closure::default(), None::<HostTime>);
        for op in self.batches.by_id.values().flat_map(|batch| batch.waiting()) {
            let Some(due) = self.matched_at(op.key).map(|at| at + GROUP_PATIENCE) else { continue };
            if due <= now {
                ripe.keys.insert(op.key);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        for &key in &ripe.keys {
            ripe.batches.extend(self.batches_at(key));
        }
        if self.is_in_conflict(&ripe) {
            // All of it is about to fail, and nothing has moved.
            return self.ripe_watch(now + GROUP_PATIENCE);
        }
        self.tell_parts(now, &ripe);
        let ranks = self.run_ready(now, &ripe);
        self.release_from(now, self.unblocked(&ripe, &ranks));
        // What is ripe and still waits has an earlier call before it, and goes when that has gone.
        if ripe.keys.iter().any(|&key| self.is_matched(key)) {
            next = Some(next.map_or(now + GROUP_PATIENCE, |next| next.min(now + GROUP_PATIENCE)));
        }
        if let Some(next) = next {
            self.ripe_watch(next);
        }
    }

    /// Whether calls that do not fit one another are among what these operations are tied to.
    fn is_in_conflict(&self, ripe: &Closure) -> bool {
        let tied = self.closure_of(ripe.keys.iter().copied());
        tied.comms().iter().any(|comm| self.comms.get(comm).is_some_and(|comm| comm.conflict_at.is_some()))
    }

    /// When the last rank that an operation needs has called, where all have. Waits for signals have no such time.
    fn matched_at(&self, key: Key) -> Option<HostTime> {
        match key {
            Key::Pair(id, ends, number) => self.comms.get(&id)?.pairs.get(ends, number)?.matched_at(),
            Key::Order(..) | Key::Exchange(..) => {
                let slot = self.slot(key).filter(|slot| slot.is_matched())?;
                slot.present().map(|(_, entry)| entry.at).max()
            }
            Key::Await(..) | Key::Free(_) => None,
        }
    }

    /// Says once for a communicator that a group's collective goes without the rest of the group.
    fn tell_parts(&mut self, now: HostTime, ripe: &Closure) {
        let runs = |key: &&Key| {
            matches!(key, Key::Order(..) | Key::Exchange(..)) && self.is_front(**key) && self.is_next(**key)
        };
        let comms: Vec<CommId> = ripe.keys.iter().filter(runs).map(|key| key.comm()).collect();
        for comm in comms {
            let Some(found) = self.comms.get_mut(&comm) else { continue };
            if !std::mem::replace(&mut found.asymmetry_told, true) {
                let detail = format!(
                    "an operation of a group ran without the rest of it, which ranks had not called after {GROUP_PATIENCE}: a mismatch \
                     in the rest cannot undo it"
                );
                self.event(now, EventKind::Hazard { comm, detail });
            }
        }
    }

    /// Keeps a communicator's deadline on what has waited longest in it.
    pub(crate) fn watch(&mut self, now: HostTime, id: CommId) {
        let timeout = self.timeout_of(id);
        let notice_after = self.options.notice_after;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if !comm.takes_calls() || comm.due_at.is_some() || comm.is_idle() {
            return;
        }
        let (due, notice) = (now + timeout, now + notice_after);
        comm.due_at = Some(due);
        self.deadlines.set(due, Due::Operation(id));
        if comm.notice_at.is_none() {
            comm.notice_at = Some(notice);
            self.deadlines.set(notice, Due::Notice(id));
        }
    }

    /// How long this communicator's operations may wait at first: the environment's word, else the built-in.
    pub(crate) fn timeout_of(&self, id: CommId) -> HostSpan {
        self.comms.get(&id).and_then(|comm| comm.timeout).unwrap_or(self.options.stuck_timeout)
    }

    /// What has waited longest in a communicator, and since when.
    pub(crate) fn longest(&self, id: CommId) -> Option<(HostTime, Key)> {
        let heads = self.comms.get(&id)?.heads();
        heads.filter_map(|(first_at, key)| Some((self.waiting_since(first_at, key)?, key))).min()
    }

    /// Since when an operation stands at the head of its queue and of a thread that called it: what queued behind
    /// others has not been waited for. `None` where it still queues.
    fn waiting_since(&self, first_at: HostTime, key: Key) -> Option<HostTime> {
        let callers = self.batches_at(key).into_iter().filter(|&id| self.batches.is_head(id));
        let ready = callers.filter_map(|id| Some(self.batches.by_id.get(&id)?.moved_at)).min()?;
        Some(ready.max(first_at).max(self.comms.get(&key.comm())?.moved_at(key)))
    }

    pub(crate) fn operation_due(&mut self, now: HostTime, id: CommId) {
        let timeout = self.timeout_of(id);
        let Some(comm) = self.comms.get_mut(&id) else { return };
        comm.due_at = None;
        let (patient, is_idle) = (comm.timeout.is_none(), comm.is_idle());
        let Some((since, _)) = self.longest(id) else {
            if !is_idle {
                self.operation_again(id, now + timeout);
            }
            return;
        };
        if since + timeout > now {
            return self.operation_again(id, since + timeout);
        }
        let missed = self.missed(id);
        // A rank that lives and is not itself blocked here may be computing: NCCL would wait, and so do we. It may
        // come to be blocked, so it is looked at again.
        let deadline = since + self.options.patience;
        if patient && now < deadline && self.all_compute(&missed) {
            return self.operation_again(id, deadline.min(now + timeout));
        }
        let fault = Fault::system(sentence::late(self, &self.comms[&id], now.since(since)));
        // Where the operation is complete and only tied to one that is not, that one's communicator is the
        // culprit, and takes this one with it.
        let (culprit, ranks) =
            missed.into_iter().next().map_or((id, Vec::new()), |missed| (missed.key.comm(), missed.ranks));
        self.fail_comm(now, culprit, FailureKind::CollectiveTimeout, fault, &ranks);
    }

    fn operation_again(&mut self, id: CommId, at: HostTime) {
        if let Some(comm) = self.comms.get_mut(&id) {
            comm.due_at = Some(at);
            self.deadlines.set(at, Due::Operation(id));
        }
    }

    /// What keeps the operation that has waited longest in a communicator: itself, if ranks are missing from it;
    /// else the operations it is tied to that miss ranks.
    pub(crate) fn missed(&self, id: CommId) -> Vec<Missed> {
        let Some((_, longest)) = self.longest(id) else { return Vec::new() };
        let itself = self.missing(longest);
        if !itself.is_empty() {
            return vec![Missed { key: longest, ranks: itself }];
        }
        let closure = self.closure_of([longest]);
        let missed = closure.keys.iter().map(|&key| Missed { key, ranks: self.missing(key) });
        missed.filter(|missed| !missed.ranks.is_empty()).collect()
    }

    /// Whether there are missing ranks, and all of them compute.
    fn all_compute(&self, missed: &[Missed]) -> bool {
        let occupations = Occupations::of(self);
        let mut ranks =
            missed.iter().flat_map(|missed| missed.ranks.iter().map(|&rank| (missed.key.comm(), rank)));
        !missed.is_empty()
            && ranks.all(|(comm, rank)| {
                self.comms.get(&comm).is_some_and(|comm| self.is_computing(&occupations, comm, rank))
            })
    }

    pub(crate) fn notice_due(&mut self, now: HostTime, id: CommId) {
        let (after, again) = (self.options.notice_after, now + self.options.notice_again);
        let longest = self.longest(id);
        let Some(comm) = self.comms.get_mut(&id) else { return };
        comm.notice_at = None;
        if comm.is_idle() {
            return;
        }
        let early = longest.map(|(since, _)| since + after).filter(|&at| at > now);
        let next = early.unwrap_or(again);
        comm.notice_at = Some(next);
        self.deadlines.set(next, Due::Notice(id));
        let Some((since, key)) = longest.filter(|_| early.is_none()) else { return };
        let teller = self.batches_at(key).first().and_then(|id| self.batches.by_id.get(id));
        let Some(peer) = teller.map(|batch| batch.peer) else { return };
        let text = sentence::waiting(self, &self.comms[&id], now.since(since));
        self.reply(peer, 0, ToRank::Notice(text));
    }
}
