//! Ranks that wait for each other in a circle, found without waiting for a time-out.
//!
//! Nobody here can see what a program is about to do, only who stands still. So a rank counts as unable to act
//! only if every thread that ever called for it has stood in a call of ours for a fifth of a second, and each of
//! those calls needs a rank that cannot act either. What remains when all others are struck out is a deadlock.

use std::collections::{BTreeMap, BTreeSet};

use fakegpu_proto::Fault;
use fakegpu_proto::event::FailureKind;
use fakegpu_units::{GlobalRank, HostSpan, HostTime, Rank, SessionId};

use crate::Coordinator;
use crate::batches::{BatchId, Key};
use crate::deadline::Due;
use crate::run::wanted;

/// How long a thread must have stood before it counts as blocked.
const STANDSTILL: HostSpan = HostSpan::from_millis(200);

/// Links of a circle that a sentence names.
const LINKS_SHOWN: usize = 8;

/// One rank's wait for another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    waiter: GlobalRank,
    key: Key,
    rank: Rank,
    for_rank: Rank,
    pub(crate) for_global: GlobalRank,
}

/// The threads that have stood long enough, each with its call.
type Held = BTreeMap<(SessionId, u64), BatchId>;

/// How a sentence says that a circle goes on beyond what it names.
pub(crate) fn more_in_circle(length: usize, shown: usize) -> String {
    match length.saturating_sub(shown) {
        0 => String::new(),
        more => format!("; and {more} more in the circle"),
    }
}

impl Coordinator {
    /// Looks for a circle once what waits now has stood long enough.
    pub(crate) fn deadlock_watch(&mut self, now: HostTime) {
        if self.deadlock_at.is_none() {
            let at = now + STANDSTILL;
            self.deadlock_at = Some(at);
            self.deadlines.set(at, Due::Deadlock);
        }
    }

    pub(crate) fn deadlock_due(&mut self, now: HostTime) {
        self.deadlock_at = None;
        // Each fails its communicators, so that there is one fewer.
        while self.fail_order_circle(now) {}
        let stuck = self.stuck(now);
        if let Some(circle) = stuck.first().map(|&start| self.circle(&stuck, start)) {
            self.fail_circle(now, &circle);
        }
        // Whoever has not stood long enough is looked at again; nothing else changes by itself.
        let youngest = self.batches.by_id.values().map(|batch| batch.at + STANDSTILL).max();
        if let Some(at) = youngest.filter(|&at| at > now) {
            self.deadlock_at = Some(at);
            self.deadlines.set(at, Due::Deadlock);
        }
    }

    /// The ranks that can never act again, in order.
    fn stuck(&self, now: HostTime) -> Vec<GlobalRank> {
        let mut held = self.batches.held_threads();
        held.retain(|_, id| self.batches.by_id.get(id).is_some_and(|batch| batch.at + STANDSTILL <= now));
        let mut calls: BTreeMap<GlobalRank, Vec<BatchId>> = BTreeMap::new();
        for rank in self.batches.ranks() {
            if let Some(blocking) = self.blocking_calls(&held, rank) {
                calls.insert(rank, blocking);
            }
        }
        loop {
            let free: Vec<GlobalRank> = calls
                .iter()
                .filter(|(_, blocking)| {
                    !blocking.iter().all(|&batch| {
                        self.links(batch).iter().any(|link| calls.contains_key(&link.for_global))
                    })
                })
                .map(|(&rank, _)| rank)
                .collect();
            if free.is_empty() {
                return calls.into_keys().collect();
            }
            for rank in free {
                calls.remove(&rank);
            }
        }
    }

    /// The calls that hold up a rank's threads, one a thread; `None` where one of them may still act.
    fn blocking_calls(&self, held: &Held, rank: GlobalRank) -> Option<Vec<BatchId>> {
        let record = self.recorder.get(rank).filter(|record| !record.is_crowded())?;
        record.threads.iter().map(|thread| held.get(thread).copied()).collect()
    }

    /// Whom a batch waits for.
    pub(crate) fn links(&self, id: BatchId) -> Vec<Link> {
        let Some(batch) = self.batches.by_id.get(&id) else { return Vec::new() };
        let mut links = Vec::new();
        for op in batch.waiting() {
            let Some(comm) = self.comms.get(&op.key.comm()) else { continue };
            let waiter = comm.members[op.rank.index()].global;
            links.extend(self.missing(op.key).into_iter().map(|for_rank| Link {
                waiter,
                key: op.key,
                rank: op.rank,
                for_rank,
                for_global: comm.members[for_rank.index()].global,
            }));
        }
        links
    }

    /// Follows the waits from a stuck rank until they come round.
    fn circle(&self, stuck: &[GlobalRank], start: GlobalRank) -> Vec<Link> {
        let (mut path, mut seen, mut at) = (Vec::<Link>::new(), BTreeSet::new(), start);
        while seen.insert(at) {
            let batches = self.batches.of_rank(at);
            let mut links = batches.flat_map(|batch| self.links(batch));
            let Some(link) = links.find(|link| stuck.contains(&link.for_global)) else { break };
            path.push(link);
            at = link.for_global;
        }
        // What leads to the circle is not part of it.
        let begin = path.iter().position(|link| link.waiter == at).unwrap_or(0);
        path.split_off(begin)
    }

    fn fail_circle(&mut self, now: HostTime, circle: &[Link]) {
        let shown: Vec<String> = circle.iter().take(LINKS_SHOWN).map(|link| self.link_words(*link)).collect();
        if shown.is_empty() {
            return;
        }
        let more = more_in_circle(circle.len(), LINKS_SHOWN);
        let hint = if circle.iter().any(|link| matches!(link.key, Key::Pair(..))) {
            "put sends and receives that need each other into one group (ncclGroupStart, ncclGroupEnd), or call them in matching order"
        } else {
            "all ranks must call their communicators' operations in one order"
        };
        let fault = Fault::usage(format!("deadlock: {}{more}. Nobody can go on: {hint}", shown.join("; ")));
        let mut told = BTreeSet::new();
        for link in circle {
            let id = link.key.comm();
            if told.insert(id) {
                let culprits: Vec<Rank> =
                    circle.iter().filter(|other| other.key.comm() == id).map(|other| other.rank).collect();
                self.fail_comm(now, id, FailureKind::Deadlock, fault.clone(), &culprits);
            }
        }
    }

    fn link_words(&self, link: Link) -> String {
        let call = self.call_at(link.key, link.rank).unwrap_or_default();
        let Some(comm) = self.comms.get(&link.key.comm()) else { return String::new() };
        let (waiter, missed) = (comm.member_name(link.rank), comm.member_name(link.for_rank));
        match link.key {
            Key::Pair(_, ends, number) => {
                let pair = comm.pairs.get(ends, number).and_then(|pair| pair.halves().next());
                let call_of_peer = pair.map_or("", |half| wanted(half.transfer.direction));
                format!(
                    "{waiter} waits in {call} on communicator {} for {missed} to call {call_of_peer}",
                    comm.id
                )
            }
            Key::Order(_, number) => format!(
                "{waiter} waits in {call}, operation {} of communicator {}, for {missed}",
                comm.number_of(number),
                comm.id
            ),
            _ => format!("{waiter} waits in {call} on communicator {} for {missed}", comm.id),
        }
    }
}
