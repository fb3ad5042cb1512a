//! Communicators made from others: by split, by shrink, by growth; and the calls of all ranks that make windows.

use std::collections::BTreeMap;

use fakegpu_proto::event::FailureKind;
use fakegpu_proto::{
    Action, EventKind, Fault, Member, Origin, ShrinkComm, StagingKind, ToRank, UniqueId, Window,
};
use fakegpu_units::{CommId, HostSpan, HostTime, Rank, Ranks, SessionId};

use crate::comm::{Comm, Entry, Slot, Staging, Standing};
use crate::coordinator::cut_short;
use crate::deadline::Due;
use crate::rendezvous::{FailedAttempt, Founding, Seat};
use crate::{Coordinator, PeerId, sentence};

/// Names of communicators are cut to this many characters.
const NAME_MAX: usize = 64;

/// Ranks that wait for the rest of a smaller communicator.
#[derive(Debug)]
pub(crate) struct Shrinking {
    exclude: Vec<Rank>,
    by_rank: BTreeMap<Rank, Seat>,
    name: Option<String>,
    first_at: HostTime,
    due_at: HostTime,
}

impl Shrinking {
    /// The ranks that wait in it.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        self.by_rank.keys().copied()
    }
}

impl Coordinator {
    /// All ranks have called for a split: every colour becomes a communicator.
    pub(crate) fn split_complete(&mut self, now: HostTime, parent: CommId, slot: Slot) {
        let mut colours: BTreeMap<u32, Vec<(i32, Rank, Entry)>> = BTreeMap::new();
        for (rank, entry) in (0..).map(Rank).zip(slot.entries) {
            let Some(entry) = entry else { continue };
            let Action::Split(split) = &entry.action else { continue };
            match split.color {
                Some(color) => colours.entry(color).or_default().push((split.key, rank, entry)),
                None => self.answer(&entry, ToRank::Done),
            }
        }
        for (color, mut members) in colours {
            members.sort_by_key(|(key, rank, _)| (*key, *rank));
            let ranks: Vec<Rank> = members.iter().map(|(_, rank, _)| *rank).collect();
            let name = members.iter().find_map(|(_, _, entry)| match &entry.action {
                Action::Split(split) => split.name.clone(),
                _ => None,
            });
            let seats = members.into_iter().filter_map(|(_, rank, entry)| self.seat_of(parent, rank, entry));
            let seats: Vec<Seat> = seats.collect();
            if seats.len() != ranks.len() {
                // Whoever is missing here is missing from its communicator, and the rest would move up.
                self.refuse_split(parent, seats);
                continue;
            }
            let Some(members) = self.members_of(parent, &ranks) else { continue };
            let origin = Origin::Split { parent, color };
            self.found(now, Founding { seats, members, origin, name });
        }
    }

    fn refuse_split(&mut self, parent: CommId, seats: Vec<Seat>) {
        let fault = Fault::remote(format!(
            "a rank is gone that called ncclCommSplit on communicator {parent} as well"
        ));
        for seat in seats {
            self.reply(seat.peer, seat.request, ToRank::Failed(fault.clone()));
        }
    }

    fn seat_of(&mut self, parent: CommId, rank: Rank, entry: Entry) -> Option<Seat> {
        let batch = self.batches.remove(entry.batch)?;
        let device = self.comms.get(&parent)?.members.get(rank.index())?.device;
        let listener = match entry.action {
            Action::Split(split) => split.listener,
            _ => None,
        };
        Some(Seat {
            peer: batch.peer,
            request: batch.request,
            session: batch.session,
            device,
            listener,
            at: entry.at,
        })
    }

    /// Some of a communicator's ranks as members of a new one.
    fn members_of(&self, parent: CommId, ranks: &[Rank]) -> Option<Vec<Member>> {
        let comm = self.comms.get(&parent)?;
        let member = |rank: &Rank| {
            let (state, node) = (comm.members.get(rank.index())?, *comm.nodes.get(rank.index())?);
            let device = self.world.placed(state.global).map_or(state.device, |placed| placed.device);
            Some(Member { global: state.global, node, device, pid: state.pid })
        };
        ranks.iter().map(member).collect()
    }

    /// Answers the one call of a submission, and forgets it.
    fn answer(&mut self, entry: &Entry, message: ToRank) {
        if let Some(batch) = self.batches.remove(entry.batch) {
            self.reply(batch.peer, batch.request, message);
        }
    }

    /// All ranks have said what becomes a window, or that one ends.
    pub(crate) fn window_complete(&mut self, id: CommId, slot: Slot) {
        let entries: Vec<Entry> = slot.entries.into_iter().flatten().collect();
        let mut bytes = Vec::with_capacity(entries.len());
        let mut mappable = self
            .comms
            .get(&id)
            .is_some_and(|comm| matches!(comm.staging, Staging::Ready(StagingKind::Shared)));
        let mut collector = None;
        for entry in &entries {
            match &entry.action {
                Action::Window(Window::Register { bytes: part, mappable: can, listener }) => {
                    bytes.push(*part);
                    mappable &= *can;
                    if bytes.len() == 1 {
                        collector.clone_from(listener);
                    }
                }
                _ => {
                    entries.iter().for_each(|entry| self.answer(entry, ToRank::Done));
                    return;
                }
            }
        }
        let listener = collector.filter(|_| mappable);
        for entry in &entries {
            self.answer(entry, ToRank::Window { listener: listener.clone(), bytes: bytes.clone() });
        }
    }

    /// All ranks have said whether something went well.
    pub(crate) fn agreement_complete(&mut self, slot: Slot) {
        let entries: Vec<Entry> = slot.entries.into_iter().flatten().collect();
        let fine = entries.iter().all(|entry| entry.action == Action::Agree { fine: true });
        for entry in &entries {
            self.answer(entry, ToRank::Agreed { fine });
        }
    }

    /// A rank asks for a communicator without some ranks.
    pub(crate) fn shrink(&mut self, now: HostTime, peer: PeerId, request: u64, shrink: ShrinkComm) {
        let parent = shrink.parent;
        if let Err(fault) = self.check_shrink(peer, &shrink) {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let Some(session) = self.peers.session(peer) else { return };
        let timeout = session.hello.join_timeout_ms.map_or(self.options.join_timeout, HostSpan::from_millis);
        let session = session.id;
        if let Some(fault) = self.late_to_shrink(now, timeout, &shrink, session) {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        if shrink.abort && self.comms.get(&parent).is_some_and(|comm| comm.fault.is_none()) {
            let name = self.comms[&parent].member_name(shrink.rank);
            let fault = Fault::remote(format!(
                "{name} stops communicator {parent} to make a smaller one (ncclCommShrink with NCCL_SHRINK_ABORT)"
            ));
            self.fail_comm(now, parent, FailureKind::Revoked, fault, &[]);
        }
        let Some(comm) = self.comms.get_mut(&parent) else { return };
        let device = comm.members[shrink.rank.index()].device;
        let (fresh, due_at) = (comm.shrinking.is_none(), now + timeout);
        let shrinking = comm.shrinking.get_or_insert_with(|| Shrinking {
            exclude: shrink.exclude.clone(),
            by_rank: BTreeMap::new(),
            name: shrink.name.clone(),
            first_at: now,
            due_at,
        });
        let seat = Seat { peer, request, session, device, listener: shrink.listener, at: now };
        let differs = shrinking.exclude != shrink.exclude;
        let lists = (Ranks(&shrinking.exclude).to_string(), Ranks(&shrink.exclude).to_string());
        let twice = shrinking.by_rank.insert(shrink.rank, seat);
        if fresh {
            self.deadlines.set(due_at, Due::Shrink(parent));
        }
        if let Some(twice) = twice {
            let fault = Fault::usage(format!("rank {} calls ncclCommShrink twice", shrink.rank));
            self.reply(twice.peer, twice.request, ToRank::Failed(fault));
        }
        if differs {
            let fault = Fault::usage(format!(
                "ranks disagree on whom ncclCommShrink leaves out of communicator {parent}: rank {} excludes {}, others {}",
                shrink.rank, lists.1, lists.0
            ));
            return self.fail_shrinking_for_all(now, parent, &fault, &[]);
        }
        self.shrink_if_complete(now, parent);
    }

    /// What a rank is told that comes to a smaller communicator after its making has failed.
    fn late_to_shrink(
        &mut self,
        now: HostTime,
        memory: HostSpan,
        shrink: &ShrinkComm,
        session: SessionId,
    ) -> Option<Fault> {
        let comm = self.comms.get_mut(&shrink.parent)?;
        let news = comm.shrink_failed.as_mut()?.news(now, memory, (session, shrink.rank));
        if news.is_none() {
            comm.shrink_failed = None;
        }
        news
    }

    fn check_shrink(&self, peer: PeerId, shrink: &ShrinkComm) -> Result<(), Fault> {
        let comm = self.owned(peer, shrink.parent, shrink.rank)?;
        if let Some(fault) = comm.fault.as_ref().filter(|_| !shrink.abort && !comm.revoked) {
            return Err(fault.clone());
        }
        if matches!(comm.staging, Staging::Mapping { .. }) {
            return Err(Fault::usage(format!("communicator {} is not ready yet", shrink.parent)));
        }
        if let Some(gone) = comm.departed().find(|rank| !shrink.exclude.contains(rank)) {
            let how = match comm.members[gone.index()].standing {
                Standing::Dead => "has died",
                Standing::Left | Standing::Member => "has left it",
            };
            return Err(Fault::remote(format!(
                "ncclCommShrink of communicator {} needs {}, which {how}: leave it out, too",
                shrink.parent,
                comm.member_name(gone)
            )));
        }
        let size = comm.size();
        let bad = shrink.exclude.iter().find(|rank| rank.index() >= size || **rank == shrink.rank);
        match bad {
            Some(rank) => Err(Fault::argument(format!(
                "rank {rank} cannot be left out by rank {} of a communicator of {size}",
                shrink.rank
            ))),
            None if shrink.exclude.is_empty() => {
                Err(Fault::argument("ncclCommShrink needs at least one rank to leave out"))
            }
            None => Ok(()),
        }
    }

    fn shrink_if_complete(&mut self, now: HostTime, parent: CommId) {
        let Some(comm) = self.comms.get_mut(&parent) else { return };
        let stays = |exclude: &[Rank]| {
            (0..comm.members.len()).map(Rank::from_index).filter(|rank| !exclude.contains(rank)).collect()
        };
        let Some(shrinking) = &comm.shrinking else { return };
        let ranks: Vec<Rank> = stays(&shrinking.exclude);
        if !ranks.iter().all(|rank| shrinking.by_rank.contains_key(rank)) {
            return;
        }
        let Some(shrinking) = comm.shrinking.take() else { return };
        self.deadlines.clear(Some(shrinking.due_at), Due::Shrink(parent));
        let Some(members) = self.members_of(parent, &ranks) else { return };
        let seats = shrinking.by_rank.into_values().collect();
        let (origin, name) = (Origin::Shrink { parent }, shrinking.name);
        self.found(now, Founding { seats, members, origin, name });
    }

    pub(crate) fn shrink_due(&mut self, now: HostTime, parent: CommId) {
        let Some(comm) = self.comms.get(&parent) else { return };
        let Some(shrinking) = &comm.shrinking else { return };
        let excluded = shrinking.exclude.clone();
        let missing: Vec<String> = (0..comm.size())
            .map(Rank::from_index)
            .filter(|rank| !excluded.contains(rank) && !shrinking.by_rank.contains_key(rank))
            .map(|rank| comm.member_name(rank))
            .collect();
        let fault = Fault::system(format!(
            "timeout after {}: ncclCommShrink of communicator {parent} misses {}: every rank that is not left out must call it",
            now.since(shrinking.first_at),
            missing.join(", ")
        ));
        self.fail_shrinking_for_all(now, parent, &fault, &excluded);
    }

    /// Ends the wait for a smaller communicator, also for the ranks that have yet to come to it; but for those
    /// that all leave out.
    fn fail_shrinking_for_all(&mut self, now: HostTime, parent: CommId, fault: &Fault, excluded: &[Rank]) {
        let Some(comm) = self.comms.get_mut(&parent) else { return };
        let Some(shrinking) = &comm.shrinking else { return };
        let told = shrinking.by_rank.values().map(|seat| seat.session).collect();
        let absent = (0..comm.members.len())
            .map(Rank::from_index)
            .filter(|rank| !excluded.contains(rank) && !shrinking.by_rank.contains_key(rank))
            .collect();
        comm.shrink_failed = Some(FailedAttempt { at: now, fault: fault.clone(), told, absent });
        self.fail_shrinking(parent, fault);
    }

    /// Ends the wait for a smaller communicator.
    pub(crate) fn fail_shrinking(&mut self, parent: CommId, fault: &Fault) {
        let Some(shrinking) = self.comms.get_mut(&parent).and_then(|comm| comm.shrinking.take()) else {
            return;
        };
        self.deadlines.clear(Some(shrinking.due_at), Due::Shrink(parent));
        for seat in shrinking.by_rank.into_values() {
            self.reply(seat.peer, seat.request, ToRank::Failed(fault.clone()));
        }
    }

    /// A process is gone or has left: a smaller communicator that needs it will not come to be.
    pub(crate) fn shrinking_without(&mut self, parent: CommId, gone: &[Rank], what: &str) {
        let Some(comm) = self.comms.get_mut(&parent) else { return };
        let Some(shrinking) = &mut comm.shrinking else { return };
        let needed: Vec<Rank> =
            gone.iter().copied().filter(|rank| !shrinking.exclude.contains(rank)).collect();
        if needed.is_empty() {
            return;
        }
        for rank in &needed {
            shrinking.by_rank.remove(rank);
        }
        let fault = Fault::remote(format!("{what} while communicator {parent} was being made smaller"));
        self.fail_shrinking(parent, &fault);
    }

    /// New ranks will come for a communicator by an id that one of its ranks made.
    pub(crate) fn grow_id(
        &mut self,
        peer: PeerId,
        request: u64,
        id: CommId,
        rank: Rank,
        unique_id: UniqueId,
    ) {
        let outcome =
            self.owned(peer, id, rank).and_then(|comm| match (&comm.fault, comm.departed().next()) {
                (Some(fault), _) => Err(fault.clone()),
                (None, Some(leaver)) => Err(sentence::cannot_grow(comm, leaver)),
                (None, None) => Ok(grow_key(comm)),
            });
        match outcome {
            Ok(key) => {
                // With a new id they try anew, whatever became of the last.
                self.rendezvous.begin_anew(&key);
                self.rendezvous.alias(unique_id, key);
                self.reply(peer, request, ToRank::Done);
            }
            Err(fault) => self.reply(peer, request, ToRank::Failed(fault)),
        }
    }

    /// A communicator's ranks and its newcomers need not wait for one another any more.
    pub(crate) fn fail_growth(&mut self, now: HostTime, id: CommId, failure: FailureKind, fault: &Fault) {
        if let Some(key) = self.comms.get(&id).map(grow_key) {
            self.fail_meeting(now, &key, failure, fault.clone(), (&[], None));
        }
    }

    /// Ranks have left: the communicator does not grow, unless they had come to that already.
    pub(crate) fn growing_without(&mut self, now: HostTime, id: CommId, gone: &[Rank], what: &str) {
        let Some(key) = self.comms.get(&id).map(grow_key) else { return };
        if self.rendezvous.misses(&key, gone) {
            let fault = Fault::remote(format!("{what} while communicator {id} was growing"));
            self.fail_growth(now, id, FailureKind::RankLeft, &fault);
        }
    }

    /// A rank stops a communicator for good, but for what can be made from it.
    pub(crate) fn revoke(&mut self, now: HostTime, peer: PeerId, request: u64, id: CommId, rank: Rank) {
        let ended = self.ended_by(now, (peer, request), (id, rank), FailureKind::Revoked, |name| {
            Fault::remote(format!(
                "{name} revoked communicator {id}: split or shrink it, or destroy it and make another"
            ))
        });
        if ended && let Some(comm) = self.comms.get_mut(&id) {
            comm.revoked = true;
        }
    }

    /// A rank was asked to fail.
    pub(crate) fn inject(
        &mut self,
        now: HostTime,
        peer: PeerId,
        request: u64,
        id: CommId,
        rank: Rank,
        detail: &str,
    ) {
        self.ended_by(now, (peer, request), (id, rank), FailureKind::Injected, |name| {
            let detail = cut_short(detail);
            Fault::remote(format!("{name} was asked to fail on communicator {id}: {detail}"))
        });
    }

    /// A rank's library saw something worth a place in the report.
    pub(crate) fn hazard(&mut self, now: HostTime, peer: PeerId, id: CommId, rank: Rank, detail: &str) {
        if self.owned(peer, id, rank).is_err() {
            return;
        }
        let Some(session) = self.peers.session_mut(peer) else { return };
        if session.hazards >= HAZARDS_MAX {
            return;
        }
        session.hazards += 1;
        let detail = format!("rank {rank}: {}", cut_short(detail));
        self.event(now, EventKind::Hazard { comm: id, detail });
    }
}

/// Hazards that are taken from one process.
const HAZARDS_MAX: u32 = 100;

/// Where the ranks of a communicator and its newcomers meet.
pub(crate) fn grow_key(comm: &Comm) -> UniqueId {
    UniqueId::new(format!("\u{1}grow {} {}", comm.id, comm.grown).as_bytes())
}

/// A communicator's name, short enough to repeat.
pub(crate) fn short_name(name: Option<String>) -> Option<String> {
    name.map(|name| name.chars().take(NAME_MAX).collect())
}

impl Comm {
    /// How people number an operation of the order: all that ran come before it.
    pub(crate) fn number_of(&self, number: u64) -> u64 {
        self.ran + number.saturating_sub(self.order.base)
    }
}
