//! Ranks that wait for the rest of their communicator, and the making of it once all have come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fakegpu_proto::event::FailureKind;
use fakegpu_proto::{
    EventKind, Fault, Gpu, JoinComm, Member, Offer, Origin, StagingKind, StagingOutcome, ToRank, UniqueId,
};
use fakegpu_units::{CommId, GlobalRank, HostSpan, HostTime, Rank, Ranks, SessionId, VirtualTime};

use crate::barrier::Barrier;
use crate::comm::{Comm, Crossings, Lineup, MemberState, Staging, Standing};
use crate::coordinator::cut_short;
use crate::deadline::Due;
use crate::derive::{grow_key, short_name};
use crate::pairs::{Pairs, Signals};
use crate::session::{Departed, process_name};
use crate::world::Joiner;
use crate::{Coordinator, PeerId, sentence};

/// What ranks meet at: the bytes of the unique id.
pub(crate) type RendezvousKey = UniqueId;

/// Communicators in the making, at most; a peer could otherwise make up ids without end.
const MEETINGS_MAX: usize = 16_384;

/// The largest communicator: every rank is told of every member.
const COMM_SIZE_MAX: u32 = 4_096;

/// Bytes of a private socket's name, at most: what a unix address holds.
const LISTENER_BYTES_MAX: usize = 108;

/// One rank that has come.
#[derive(Debug)]
pub(crate) struct Waiter {
    peer: PeerId,
    request: u64,
    session: SessionId,
    join: JoinComm,
    at: HostTime,
}

/// Ranks that have come for one id.
#[derive(Debug)]
pub(crate) struct Meeting {
    size: u32,
    by_rank: BTreeMap<Rank, Waiter>,
    first_at: HostTime,
    due_at: HostTime,
    notice_at: HostTime,
}

/// A rank of a communicator that is about to be made.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub(crate) peer: PeerId,
    pub(crate) request: u64,
    pub(crate) session: SessionId,
    pub(crate) device: u32,
    pub(crate) listener: Option<String>,
    pub(crate) at: HostTime,
}

/// A communicator all of whose ranks have come, by rank.
#[derive(Debug)]
pub(crate) struct Founding {
    pub(crate) seats: Vec<Seat>,
    pub(crate) members: Vec<Member>,
    pub(crate) origin: Origin,
    pub(crate) name: Option<String>,
}

/// All communicators in the making.
#[derive(Debug, Default)]
pub(crate) struct Rendezvous {
    by_id: BTreeMap<RendezvousKey, Meeting>,
    /// Ids whose communicator was made, with its number, oldest first: an id serves once.
    used: VecDeque<(RendezvousKey, CommId)>,
    /// Ids that stand for the meeting of a growing communicator.
    aliases: VecDeque<(UniqueId, RendezvousKey)>,
    /// Meetings that failed before all had come, oldest first: the latecomers are told at once.
    failed: VecDeque<(RendezvousKey, FailedAttempt)>,
}

/// An attempt to make a communicator that failed before all had come.
#[derive(Clone, Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) at: HostTime,
    pub(crate) fault: Fault,
    /// The processes that have heard of it.
    pub(crate) told: BTreeSet<SessionId>,
    /// Who has not come yet.
    pub(crate) absent: BTreeSet<Rank>,
}

impl FailedAttempt {
    /// What a rank of a process that comes late is told, once. `None` where a new attempt begins: with a rank that
    /// was there and comes again, and with whoever comes when `memory` is over.
    pub(crate) fn news(
        &mut self,
        now: HostTime,
        memory: HostSpan,
        (session, rank): (SessionId, Rank),
    ) -> Option<Fault> {
        let is_news = self.told.insert(session) || self.absent.contains(&rank);
        self.absent.remove(&rank);
        (now.since(self.at) <= memory && is_news).then(|| self.fault.clone())
    }
}

/// Failed meetings that are remembered.
const FAILED_MAX: usize = 256;

/// Used ids and aliases that are remembered, each.
const USED_MAX: usize = 4_096;

impl Rendezvous {
    /// What a process that comes to a failed meeting is told. Programs may use an id twice.
    fn latecomer(
        &mut self,
        now: HostTime,
        memory: HostSpan,
        key: &RendezvousKey,
        (session, rank): (SessionId, Rank),
    ) -> Option<Fault> {
        let at = self.failed.iter().position(|(failed, _)| failed == key)?;
        let news = self.failed[at].1.news(now, memory, (session, rank));
        if news.is_none() {
            self.failed.remove(at);
        }
        news
    }

    /// Whoever comes to a meeting does not hear how the last one there failed, and who was to come to that does
    /// not come to this one.
    pub(crate) fn begin_anew(&mut self, key: &RendezvousKey) {
        if self.failed.iter().any(|(failed, _)| failed == key) {
            self.failed.retain(|(failed, _)| failed != key);
            self.aliases.retain(|(_, of)| of != key);
        }
    }

    /// Whether others wait at a meeting to which one of these ranks has not come.
    pub(crate) fn misses(&self, key: &RendezvousKey, ranks: &[Rank]) -> bool {
        let meeting = self.by_id.get(key);
        meeting.is_some_and(|meeting| ranks.iter().any(|rank| !meeting.by_rank.contains_key(rank)))
    }

    /// The ids that stand for a meeting.
    fn ids_of(&self, key: &RendezvousKey) -> Vec<UniqueId> {
        self.aliases.iter().filter(|(_, of)| of == key).map(|(id, _)| id.clone()).collect()
    }

    /// Ranks that come by this id meet at that key.
    pub(crate) fn alias(&mut self, unique_id: UniqueId, key: RendezvousKey) {
        if self.aliases.len() == USED_MAX {
            self.aliases.pop_front();
        }
        self.aliases.push_back((unique_id, key));
    }

    fn resolve(&self, unique_id: UniqueId) -> RendezvousKey {
        let alias = self.aliases.iter().rev().find(|(id, _)| *id == unique_id);
        alias.map_or(unique_id, |(_, key)| key.clone())
    }

    fn made(&mut self, key: RendezvousKey, comm: CommId) {
        if self.used.len() == USED_MAX {
            self.used.pop_front();
        }
        self.used.push_back((key, comm));
    }

    fn user_of(&self, key: &RendezvousKey) -> Option<CommId> {
        self.used.iter().rev().find(|(used, _)| used == key).map(|(_, comm)| *comm)
    }

    /// The meeting at which a rank of this connection waits: the id's, or, where it helps a communicator grow
    /// without knowing the id, wherever it is.
    fn place_of(&self, peer: PeerId, unique_id: &UniqueId, rank: Rank) -> Option<RendezvousKey> {
        let waits = |meeting: &Meeting| meeting.by_rank.get(&rank).is_some_and(|waiter| waiter.peer == peer);
        let key = self.resolve(unique_id.clone());
        if self.by_id.get(&key).is_some_and(waits) {
            return Some(key);
        }
        let mut grows = self.by_id.iter().filter(|(_, meeting)| {
            waits(meeting) && meeting.by_rank.get(&rank).is_some_and(|waiter| waiter.join.parent.is_some())
        });
        grows.next().map(|(key, _)| key.clone()).filter(|_| unique_id.as_bytes().is_empty())
    }

    /// Takes a rank of this connection out of a meeting.
    fn withdraw(&mut self, peer: PeerId, key: &RendezvousKey, rank: Rank) -> Option<Waiter> {
        let meeting = self.by_id.get_mut(key)?;
        meeting.by_rank.get(&rank).filter(|waiter| waiter.peer == peer)?;
        meeting.by_rank.remove(&rank)
    }

    fn remember(&mut self, key: RendezvousKey, failed: FailedAttempt) {
        if self.failed.len() == FAILED_MAX {
            self.failed.pop_front();
        }
        self.failed.push_back((key, failed));
    }
}

impl Coordinator {
    pub(crate) fn join(&mut self, now: HostTime, peer: PeerId, request: u64, join: JoinComm) {
        let Some((session, timeout)) =
            self.peers.session(peer).map(|session| (session.id, session.hello.join_timeout_ms))
        else {
            return;
        };
        if let Err(fault) = check_join(&join) {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let mut join = join;
        let id = join.unique_id.clone();
        match self.meeting_place(peer, &join) {
            Ok(key) => join.unique_id = key,
            Err(fault) => {
                self.reply(peer, request, ToRank::Failed(fault.clone()));
                return self.end_growth(now, &join, &fault);
            }
        }
        if self.rendezvous.by_id.len() >= MEETINGS_MAX {
            let fault = Fault::system(format!("{MEETINGS_MAX} communicators are being made already"));
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let key = join.unique_id.clone();
        let timeout = timeout.map_or(self.options.join_timeout, HostSpan::from_millis);
        let mut late = |key| self.rendezvous.latecomer(now, timeout, key, (session, join.rank));
        let by_key = late(&key);
        let by_id = if id == key { None } else { late(&id) };
        if let Some(fault) = by_key.or(by_id) {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let (due_at, notice_at) = (now + timeout, now + self.options.notice_after);
        if !self.rendezvous.by_id.contains_key(&key) {
            let meeting =
                Meeting { size: join.size, by_rank: BTreeMap::new(), first_at: now, due_at, notice_at };
            self.rendezvous.by_id.insert(key.clone(), meeting);
            self.deadlines.set(due_at, Due::Join(key.clone()));
            self.deadlines.set(notice_at, Due::JoinNotice(key.clone()));
        }
        let waiter = Waiter { peer, request, session, join, at: now };
        if let Err((fault, waiter)) = self.admit(&key, waiter) {
            self.reply(waiter.peer, waiter.request, ToRank::Failed(fault.clone()));
            let told = (&[waiter.join.rank][..], Some(waiter.session));
            return self.fail_meeting(now, &key, FailureKind::JoinRefused, fault, told);
        }
        let meeting = &self.rendezvous.by_id[&key];
        if meeting.by_rank.len() == meeting.size as usize {
            self.make_comm(now, &key);
        }
    }

    /// Ends the meeting of a growing communicator that a rank has left: its newcomers cannot know.
    fn end_growth(&mut self, now: HostTime, join: &JoinComm, fault: &Fault) {
        let parent = join.parent.and_then(|(parent, _)| self.comms.get(&parent));
        if let Some(id) = parent.filter(|comm| comm.departed().next().is_some()).map(|comm| comm.id) {
            self.fail_growth(now, id, FailureKind::RankLeft, fault);
        }
    }

    /// Where a rank meets the others: at its id, or, where a communicator grows, at a place of that communicator.
    fn meeting_place(&self, peer: PeerId, join: &JoinComm) -> Result<RendezvousKey, Fault> {
        let Some((parent, rank)) = join.parent else {
            let key = self.rendezvous.resolve(join.unique_id.clone());
            return match self.rendezvous.user_of(&key).filter(|_| !join.reusable) {
                Some(comm) => Err(Fault::usage(format!(
                    "this unique id ({}) has served already, for communicator {comm}: call ncclGetUniqueId for every communicator",
                    join.unique_id.short()
                ))),
                None => Ok(key),
            };
        };
        let comm = self.owned(peer, parent, rank)?;
        if let Some(fault) = &comm.fault {
            return Err(fault.clone());
        }
        if let Some(leaver) = comm.departed().next() {
            return Err(sentence::cannot_grow(comm, leaver));
        }
        if rank != join.rank || join.size as usize <= comm.size() {
            return Err(Fault::argument(format!(
                "communicator {parent} of {} ranks cannot grow to {}",
                comm.size(),
                join.size
            )));
        }
        Ok(grow_key(comm))
    }

    /// Seats a rank, or gives back why it cannot be.
    fn admit(&mut self, key: &RendezvousKey, waiter: Waiter) -> Result<(), (Fault, Box<Waiter>)> {
        let Some(meeting) = self.rendezvous.by_id.get_mut(key) else { return Ok(()) };
        let rank = waiter.join.rank;
        let name = |waiter: &Waiter, peers: &crate::session::Peers| {
            peers
                .session(waiter.peer)
                .map_or_else(String::new, |session| process_name(session.hello.pid, &session.hello.program))
        };
        if meeting.size != waiter.join.size {
            let other = meeting.by_rank.values().next();
            let fault = Fault::argument(format!(
                "ranks disagree on the size of a communicator (id {}): rank {rank} ({}) says {}, rank {} ({}) says {}",
                key.short(),
                name(&waiter, &self.peers),
                waiter.join.size,
                other.map_or(Rank(0), |other| other.join.rank),
                other.map_or_else(String::new, |other| name(other, &self.peers)),
                meeting.size,
            ));
            return Err((fault, Box::new(waiter)));
        }
        if let Some(holder) = meeting.by_rank.get(&rank) {
            let fault = Fault::usage(format!(
                "rank {rank} of a communicator of {} (id {}) is claimed twice: by {} and by {}. Give every process its own rank",
                meeting.size,
                key.short(),
                name(holder, &self.peers),
                name(&waiter, &self.peers),
            ));
            return Err((fault, Box::new(waiter)));
        }
        let mode =
            |waiter: &Waiter| self.peers.session(waiter.peer).map(|session| session.hello.dist_mode.clone());
        if let Some(other) = meeting.by_rank.values().find(|other| mode(other) != mode(&waiter)) {
            let fault = Fault::usage(format!(
                "FAKEGPU_DIST_MODE differs: rank {rank} has `{}`, rank {} has `{}`",
                mode(&waiter).unwrap_or_default(),
                other.join.rank,
                mode(other).unwrap_or_default(),
            ));
            return Err((fault, Box::new(waiter)));
        }
        let payload =
            |waiter: &Waiter| self.peers.session(waiter.peer).map(|session| session.hello.payload_off);
        if let Some(other) = meeting.by_rank.values().find(|other| payload(other) != payload(&waiter)) {
            let word = |off: Option<bool>| if off == Some(true) { "off" } else { "on" };
            let fault = Fault::usage(format!(
                "FAKEGPU_PAYLOAD differs: it is {} for rank {rank} and {} for rank {}",
                word(payload(&waiter)),
                word(payload(other)),
                other.join.rank,
            ));
            return Err((fault, Box::new(waiter)));
        }
        let twin = meeting.by_rank.values().find(|other| same_gpu(&other.join.gpu, &waiter.join.gpu));
        if let Some((twin, gpu)) = twin.zip(waiter.join.gpu.as_ref()) {
            let fault = Fault::usage(format!(
                "rank {} ({}) and rank {rank} ({}) of one communicator both use the GPU {} of one machine: \
                 call cudaSetDevice (torch.cuda.set_device, or device_id=) with a device of its own on every rank, or set NCCL_MULTI_RANK_GPU_ENABLE=1",
                twin.join.rank,
                name(twin, &self.peers),
                name(&waiter, &self.peers),
                gpu.id,
            ));
            return Err((fault, Box::new(waiter)));
        }
        meeting.by_rank.insert(rank, waiter);
        Ok(())
    }

    /// Ends a meeting. Its absent ranks will be told when they come, except those in `told`, who know.
    pub(crate) fn fail_meeting(
        &mut self,
        now: HostTime,
        key: &RendezvousKey,
        failure: FailureKind,
        fault: Fault,
        (told, also): (&[Rank], Option<SessionId>),
    ) {
        let Some(meeting) = self.rendezvous.by_id.remove(key) else { return };
        self.close_meeting(key, &meeting);
        self.failures += 1;
        let absent = meeting.missing().into_iter().filter(|rank| !told.contains(rank)).collect();
        let heard = meeting.by_rank.values().map(|waiter| waiter.session).chain(also).collect();
        let failed = FailedAttempt { at: now, fault: fault.clone(), told: heard, absent };
        // An id that stood for this meeting stands for this attempt at it.
        for id in self.rendezvous.ids_of(key) {
            self.rendezvous.remember(id, failed.clone());
        }
        self.rendezvous.remember(key.clone(), failed);
        for waiter in meeting.by_rank.values() {
            self.reply(waiter.peer, waiter.request, ToRank::Failed(fault.clone()));
        }
        self.event(
            now,
            EventKind::Failure {
                comm: None,
                failure,
                code: fault.code,
                detail: fault.detail,
                culprits: Vec::new(),
                history: Vec::new(),
            },
        );
    }

    fn close_meeting(&mut self, key: &RendezvousKey, meeting: &Meeting) {
        self.deadlines.clear(Some(meeting.due_at), Due::Join(key.clone()));
        self.deadlines.clear(Some(meeting.notice_at), Due::JoinNotice(key.clone()));
    }

    fn make_comm(&mut self, now: HostTime, key: &RendezvousKey) {
        let Some(meeting) = self.rendezvous.by_id.remove(key) else { return };
        self.close_meeting(key, &meeting);
        let waiters: Vec<&Waiter> = meeting.by_rank.values().collect();
        let members = match self.seat(now, &waiters) {
            Ok(members) => members,
            Err(why) => {
                let fault = Fault::usage(why);
                self.rendezvous.by_id.insert(key.clone(), meeting);
                return self.fail_meeting(now, key, FailureKind::JoinRefused, fault, (&[], None));
            }
        };
        let seats = waiters.iter().map(|waiter| waiter.seat()).collect();
        let parent = waiters.iter().find_map(|waiter| waiter.join.parent).map(|(parent, _)| parent);
        let origin = parent.map_or(Origin::Id, |parent| Origin::Grow { parent });
        let name = waiters.iter().find_map(|waiter| waiter.join.name.clone());
        if let Some(parent) = parent.and_then(|parent| self.comms.get_mut(&parent)) {
            parent.grown += 1;
        }
        let reusable = waiters.iter().any(|waiter| waiter.join.reusable);
        let id = self.found(now, Founding { seats, members, origin, name });
        if !reusable {
            self.rendezvous.made(key.clone(), id);
        }
    }

    /// Makes a communicator of ranks that have all come, and offers them a way to move bytes.
    pub(crate) fn found(&mut self, now: HostTime, founding: Founding) -> CommId {
        let Founding { seats, members, origin, name } = founding;
        self.comms_made += 1;
        let id = CommId(self.comms_made);
        let size = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let (offer, chunk) = self.offer(&seats);
        let slot_bytes = slot_bytes(size, chunk, self.options.staging_bytes_max);
        let refused = match &offer {
            Offer::Shared { .. } | Offer::Off => None,
            Offer::Streamed { why } => Some((None, why.clone())),
        };
        let timeout = seats
            .iter()
            .filter_map(|seat| self.peers.session(seat.peer)?.hello.collective_timeout_ms)
            .min()
            .map(HostSpan::from_millis);
        let staging_at = now + self.options.staging_timeout;
        self.deadlines.set(staging_at, Due::Staging(id));
        let comm = Comm {
            id,
            nodes: members.iter().map(|member| member.node).collect(),
            members: seats.iter().zip(&members).map(|(seat, member)| member_state(seat, member)).collect(),
            staging: Staging::Mapping {
                told: vec![None; seats.len()],
                count: 0,
                refused,
                waits: seats.iter().map(|seat| now.since(seat.at)).collect(),
                off: offer == Offer::Off,
            },
            departures: 0,
            fault: None,
            slot_bytes,
            timeout,
            barrier: Barrier::default(),
            order: Lineup::default(),
            exchanges: Lineup::default(),
            pairs: Pairs::default(),
            signals: Signals::default(),
            ran: 0,
            transfers: 0,
            history: VecDeque::new(),
            origin,
            name: short_name(name),
            revoked: false,
            shrinking: None,
            shrink_failed: None,
            grown: 0,
            crossings: Crossings::default(),
            types_told: false,
            leave_told: false,
            busy_until: VirtualTime::ZERO,
            busy_from: VirtualTime::ZERO,
            staging_at: Some(staging_at),
            due_at: None,
            notice_at: None,
            conflict_at: None,
            asymmetry_told: false,
            marked: BTreeSet::new(),
            undestroyed: BTreeSet::new(),
            stream_fault: None,
        };
        self.comms.insert(id, comm);
        for (rank, seat) in (0..).map(Rank).zip(&seats) {
            let (members, offer) = (members.clone(), offer.clone());
            self.reply(
                seat.peer,
                seat.request,
                ToRank::Joined { comm: id, rank, members, offer, slot_bytes },
            );
        }
        id
    }

    fn seat(&mut self, now: HostTime, waiters: &[&Waiter]) -> Result<Vec<Member>, String> {
        let joiners: Vec<Joiner<'_>> = waiters
            .iter()
            .filter_map(|waiter| {
                let hello = &self.peers.session(waiter.peer)?.hello;
                Some(Joiner {
                    session: waiter.session,
                    hello,
                    device: waiter.join.device,
                    rank: waiter.join.rank,
                })
            })
            .collect();
        let (mut grew, mut placed) = (false, Vec::new());
        let members = self.world.place(&joiners, &mut grew, &mut placed)?;
        if grew {
            let cluster = self.world.cluster().clone();
            self.event(now, EventKind::ClusterChanged { cluster });
        }
        for rank in placed {
            if let Some(at) = self.world.placed(rank) {
                let (session, node, device) = (at.session, at.node, at.device);
                self.recorder.forget(rank);
                self.event(now, EventKind::RankPlaced { rank, session, node, device });
            }
        }
        Ok(members)
    }

    /// How bytes may move: by shared memory where all stand on one host and nobody refuses.
    fn offer(&self, seats: &[Seat]) -> (Offer, Option<u32>) {
        let hellos: Vec<_> =
            seats.iter().filter_map(|seat| Some(&self.peers.session(seat.peer)?.hello)).collect();
        let chunk = hellos.iter().filter_map(|hello| hello.chunk_bytes).min();
        let offer = if hellos.iter().any(|hello| hello.payload_off) {
            Offer::Off
        } else if hellos.iter().any(|hello| hello.force_socket) {
            Offer::Streamed { why: "FAKEGPU_STAGING_FORCE_SOCKET is set".to_owned() }
        } else if hellos.windows(2).any(|pair| pair[0].host != pair[1].host) {
            Offer::Streamed { why: "the ranks stand on different hosts".to_owned() }
        } else {
            match seats.first().and_then(|leader| leader.listener.clone()) {
                Some(listener) => Offer::Shared { listener },
                None => Offer::Streamed { why: "rank 0 could not open a private socket".to_owned() },
            }
        };
        (offer, chunk)
    }

    pub(crate) fn staging(
        &mut self,
        now: HostTime,
        peer: PeerId,
        request: u64,
        id: CommId,
        rank: Rank,
        outcome: StagingOutcome,
    ) {
        let checked = self.owned(peer, id, rank).and_then(|comm| match (&comm.fault, &comm.staging) {
            (Some(fault), _) => Err(fault.clone()),
            (None, Staging::Mapping { told, .. }) if told[rank.index()].is_none() => Ok(()),
            (None, _) => {
                Err(Fault::usage(format!("rank {rank} of communicator {id} has told of its staging already")))
            }
        });
        if let Err(fault) = checked {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let Staging::Mapping { told, count, refused, .. } = &mut comm.staging else { return };
        told[rank.index()] = Some((peer, request));
        *count += 1;
        if let StagingOutcome::Refused(why) = outcome
            && refused.as_ref().is_none_or(|(by, _)| Some(rank) < *by)
        {
            *refused = Some((Some(rank), format!("rank {rank}: {}", cut_short(&why))));
        }
        if *count == comm.members.len() {
            self.staging_decided(now, id);
        }
    }

    fn staging_decided(&mut self, now: HostTime, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let members: Vec<GlobalRank> = comm.members.iter().map(|member| member.global).collect();
        let Staging::Mapping { told, refused, waits, off, .. } =
            std::mem::replace(&mut comm.staging, Staging::Ready(StagingKind::Shared))
        else {
            return;
        };
        let kind = match refused {
            _ if off => StagingKind::Off,
            Some(_) => StagingKind::Streamed,
            None => StagingKind::Shared,
        };
        let (origin, name) = (comm.origin, comm.name.clone());
        comm.staging = Staging::Ready(kind);
        self.deadlines.clear(comm.staging_at.take(), Due::Staging(id));
        for (peer, request) in told.into_iter().flatten() {
            self.reply(peer, request, ToRank::Staged { comm: id, kind });
        }
        self.event(
            now,
            EventKind::CommCreated {
                comm: id,
                members,
                waits,
                staging: kind,
                fallback: refused.map(|(_, why)| why),
                origin,
                name,
            },
        );
    }

    /// A rank that never says how its mapping went would hold up all others for ever.
    pub(crate) fn staging_due(&mut self, now: HostTime, id: CommId) {
        let timeout = self.options.staging_timeout;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        comm.staging_at = None;
        let Staging::Mapping { told, .. } = &comm.staging else { return };
        let silent: Vec<Rank> =
            (0..told.len()).filter(|&rank| told[rank].is_none()).map(Rank::from_index).collect();
        let names: Vec<String> = silent.iter().map(|&rank| comm.member_name(rank)).collect();
        let fault = Fault::system(format!(
            "timeout after {timeout}: communicator {id} was being made, and {} did not say whether it can map the shared segment: look whether it is stopped",
            names.join(", ")
        ));
        self.fail_comm(now, id, FailureKind::Staging, fault, &silent);
    }

    /// A rank has given up on its join: it waits no more, and the others wait as if it had not come.
    pub(crate) fn cancel_join(&mut self, peer: PeerId, request: u64, key: &RendezvousKey, rank: Rank) {
        let Some(key) = self.rendezvous.place_of(peer, key, rank) else {
            return self.reply(peer, request, ToRank::Done);
        };
        let key = &key;
        if let Some(waiter) = self.rendezvous.withdraw(peer, key, rank) {
            let fault = Fault::usage("the join was cancelled");
            self.reply(waiter.peer, waiter.request, ToRank::Failed(fault));
            if self.rendezvous.by_id[key].by_rank.is_empty()
                && let Some(meeting) = self.rendezvous.by_id.remove(key)
            {
                self.close_meeting(key, &meeting);
            }
        }
        self.reply(peer, request, ToRank::Done);
    }

    /// The ranks of the job that wait for the rest of a communicator.
    pub(crate) fn joining(&self) -> impl Iterator<Item = GlobalRank> {
        let waiters = self.rendezvous.by_id.values().flat_map(|meeting| meeting.by_rank.values());
        waiters.filter_map(|waiter| self.world.rank_at(waiter.session, waiter.join.device))
    }

    /// Fails the staging requests that wait in a communicator that has failed.
    pub(crate) fn fail_staging(&mut self, id: CommId, fault: &Fault) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let Staging::Mapping { told, .. } = &mut comm.staging else { return };
        for (peer, request) in std::mem::take(told).into_iter().flatten() {
            self.reply(peer, request, ToRank::Failed(fault.clone()));
        }
    }

    pub(crate) fn join_due(&mut self, now: HostTime, key: &RendezvousKey) {
        let Some(meeting) = self.rendezvous.by_id.get(key) else { return };
        let text = format!(
            "timeout after {}: {}. If they are only late, raise FAKEGPU_JOIN_TIMEOUT_MS; if they cannot come, look at their output",
            now.since(meeting.first_at),
            self.absence(key, meeting)
        );
        self.fail_meeting(now, key, FailureKind::JoinTimeout, Fault::system(text), (&[], None));
    }

    pub(crate) fn join_notice_due(&mut self, now: HostTime, key: &RendezvousKey) {
        let again = now + self.options.notice_again;
        let Some(meeting) = self.rendezvous.by_id.get(key) else { return };
        let text =
            format!("still waiting after {}: {}", now.since(meeting.first_at), self.absence(key, meeting));
        let teller = meeting.by_rank.values().next().map(|waiter| waiter.peer);
        if let Some(meeting) = self.rendezvous.by_id.get_mut(key) {
            meeting.notice_at = again;
        }
        self.deadlines.set(again, Due::JoinNotice(key.clone()));
        if let Some(peer) = teller {
            self.reply(peer, 0, ToRank::Notice(text));
        }
    }

    fn absence(&self, key: &RendezvousKey, meeting: &Meeting) -> String {
        let present: Vec<Rank> = meeting.by_rank.keys().copied().collect();
        let missing = meeting.missing();
        let mut text = format!(
            "a communicator of {} (id {}) has {}, and misses {}",
            meeting.size,
            key.short(),
            Ranks(&present),
            Ranks(&missing)
        );
        let elsewhere = self.rendezvous.by_id.iter().find(|(other, others)| {
            *other != key
                && others.size == meeting.size
                && missing.iter().any(|rank| others.by_rank.contains_key(rank))
        });
        if let Some((other, others)) = elsewhere {
            let there: Vec<Rank> = others.by_rank.keys().copied().collect();
            text.push_str(&format!(
                ": {} waits with another unique id ({}); rank 0's id must reach every rank",
                Ranks(&there),
                other.short()
            ));
        } else {
            text.push_str(", which never called ncclCommInitRank with this id");
            text.push_str(self.world_hint(meeting, &missing));
        }
        text
    }

    /// Why somebody may be missing, as far as can be guessed.
    fn world_hint(&self, meeting: &Meeting, missing: &[Rank]) -> &'static str {
        let alone = meeting.by_rank.len() == 1 && meeting.size > 1;
        let live = missing.iter().any(|rank| self.world.placed(GlobalRank(rank.0)).is_some());
        match (live, alone) {
            (true, _) => " (a process of that rank is alive and connected)",
            (false, true) => {
                " (did every rank call ncclGetUniqueId? One rank must, and give its id to the others. Does one thread join all ranks? \
                 It must do so in a group)"
            }
            (false, false) => "",
        }
    }

    /// A process is gone: whoever waits with it is told. That it will be missed elsewhere is not known: the
    /// coordinator may serve several jobs, and the next one's ranks have the same numbers.
    pub(crate) fn meetings_without(&mut self, now: HostTime, session: SessionId, departed: &Departed) {
        let keys: Vec<RendezvousKey> = self.rendezvous.by_id.keys().cloned().collect();
        for key in keys {
            let Some(meeting) = self.rendezvous.by_id.get_mut(&key) else { continue };
            let held: Vec<Rank> = meeting
                .by_rank
                .iter()
                .filter(|(_, waiter)| waiter.session == session)
                .map(|(&rank, _)| rank)
                .collect();
            if held.is_empty() {
                continue;
            }
            for rank in &held {
                meeting.by_rank.remove(rank);
            }
            let fault = Fault::remote(format!(
                "{} ({}) died while a communicator of {} (id {}) was being made",
                Ranks(&held),
                process_name(departed.pid, &departed.program),
                meeting.size,
                key.short()
            ));
            self.fail_meeting(now, &key, FailureKind::RankDied, fault, (&held, None));
        }
    }
}

fn check_join(join: &JoinComm) -> Result<(), Fault> {
    if join.size == 0 || join.size > COMM_SIZE_MAX || join.rank.0 >= join.size {
        return Err(Fault::argument(format!(
            "rank {} of {} is no rank: a communicator has 1 to {COMM_SIZE_MAX} ranks, numbered from 0",
            join.rank, join.size
        )));
    }
    let (id, listener) = (join.unique_id.as_bytes().len(), join.listener.as_ref().map_or(0, String::len));
    if id > UniqueId::BYTES {
        return Err(Fault::argument(format!(
            "the unique id has {id} bytes, at most {} are accepted",
            UniqueId::BYTES
        )));
    }
    if listener > LISTENER_BYTES_MAX {
        return Err(Fault::argument(format!(
            "the private socket's name has {listener} bytes, at most {LISTENER_BYTES_MAX} are accepted"
        )));
    }
    Ok(())
}

impl Meeting {
    fn missing(&self) -> Vec<Rank> {
        (0..self.size).map(Rank).filter(|rank| !self.by_rank.contains_key(rank)).collect()
    }
}

impl Waiter {
    fn seat(&self) -> Seat {
        Seat {
            peer: self.peer,
            request: self.request,
            session: self.session,
            device: self.join.device,
            listener: self.join.listener.clone(),
            at: self.at,
        }
    }
}

fn member_state(seat: &Seat, member: &Member) -> MemberState {
    MemberState {
        session: seat.session,
        global: member.global,
        pid: member.pid,
        device: seat.device,
        standing: Standing::Member,
        next: 0,
        next_exchange: 0,
        attached: BTreeSet::new(),
    }
}

fn same_gpu(one: &Option<Gpu>, two: &Option<Gpu>) -> bool {
    one.is_some() && one == two
}

/// Bytes of one rank's slot of a round. Two rounds of slots and results of all ranks stay within the staging
/// bound; large enough for one 8-byte element to every rank, small enough to stay in a core's cache.
fn slot_bytes(size: u32, chunk: Option<u32>, staging_bytes_max: u32) -> u32 {
    const CACHE_FRIENDLY: u32 = 256 << 10;
    let share = staging_bytes_max / (4 * size.max(1));
    let floor = 4096.max(size.saturating_mul(64));
    let wanted = chunk.unwrap_or(CACHE_FRIENDLY).min(share.max(floor)).max(floor.min(4096));
    // One element per rank must fit, and slots start on cache lines.
    wanted.max(size.saturating_mul(8)).next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staging_stays_within_its_bound_and_holds_an_element_per_rank() {
        for size in [1, 2, 3, 8, 64, 1024, COMM_SIZE_MAX] {
            let bytes = slot_bytes(size, None, 16 << 20);
            assert!(bytes >= size * 8, "{size} ranks: {bytes}");
            assert!(
                size > 1024 || u64::from(bytes) * 4 * u64::from(size) <= 256 << 20,
                "{size} ranks: {bytes}"
            );
            assert_eq!(bytes % 64, 0);
        }
        assert_eq!(slot_bytes(8, None, 16 << 20), 256 << 10);
        assert_eq!(slot_bytes(8, Some(32_768), 16 << 20), 32_768);
    }
}
