//! Leaving, dying and failing: what happens to a communicator when a rank is no longer there.

use fakegpu_proto::event::{Ending, FailureKind};
use fakegpu_proto::{DataHello, EventKind, Fault, Leave, ToRank};
use fakegpu_units::{CommId, GlobalRank, HostTime, Rank, Ranks};

use crate::comm::{Comm, Staging, Standing};
use crate::coordinator::cut_short;
use crate::deadline::Due;
use crate::session::{Departed, Session, process_name};
use crate::{Coordinator, Errand, PeerId, sentence};

impl Coordinator {
    pub(crate) fn leave(
        &mut self,
        now: HostTime,
        peer: PeerId,
        request: u64,
        id: CommId,
        rank: Rank,
        how: Leave,
    ) {
        if let Err(fault) = self.owned(peer, id, rank) {
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.members[rank.index()].standing != Standing::Member {
            let fault = Fault::usage(format!("rank {rank} has left communicator {id} already"));
            return self.reply(peer, request, ToRank::Failed(fault));
        }
        comm.depart(rank, Standing::Left);
        let (name, is_last) = (comm.member_name(rank), comm.is_deserted());
        let is_sound = comm.fault.is_none();
        let what = format!("{name} left communicator {id}");
        let aborted = how == Leave::Abort;
        self.event(now, EventKind::CommLeft { comm: id, rank, aborted });
        self.shrinking_without(id, &[rank], &what);
        self.growing_without(now, id, &[rank], &what);
        if aborted && is_sound && !is_last {
            let fault = Fault::remote(format!("{name} aborted communicator {id}"));
            self.fail_comm(now, id, FailureKind::Aborted, fault, &[rank]);
        } else {
            self.fail_if_missed(now, id, &[rank], &what, FailureKind::RankLeft);
        }
        if how == Leave::Destroy {
            self.tell_undestroyed(now, id, peer);
        }
        self.reply(peer, request, ToRank::Done);
        self.bury(id);
    }

    /// Tells who destroys a communicator of those that ended without: once.
    fn tell_undestroyed(&mut self, now: HostTime, id: CommId, peer: PeerId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let undestroyed = std::mem::take(&mut comm.undestroyed);
        if undestroyed.is_empty() {
            return;
        }
        let ranks: Vec<Rank> = undestroyed.into_iter().collect();
        let detail = format!(
            "ncclCommDestroy of communicator {id}: {} ended without destroying it; NCCL may wait for all ranks here, so let each \
             destroy it, or abort it where some cannot",
            Ranks(&ranks)
        );
        self.reply(peer, 0, ToRank::Notice(detail.clone()));
        self.event(now, EventKind::Hazard { comm: id, detail });
    }

    /// A process is gone: its communicators fail at once if it died, or where others still need it.
    pub(crate) fn session_ended(&mut self, now: HostTime, session: &Session) {
        let ending = self.peers.departed(session.id).map_or(Ending::Died, |departed| departed.ending);
        let departed = Departed {
            session: session.id,
            ending,
            pid: session.hello.pid,
            program: session.hello.program.clone(),
        };
        let waited: Vec<CommId> =
            self.comms.keys().copied().filter(|&id| self.waits_in(session.id, id)).collect();
        self.drop_batches_of(session.id);
        self.meetings_without(now, session.id, &departed);
        let comms: Vec<CommId> = self.comms.keys().copied().collect();
        for id in comms {
            self.comm_without(now, id, &departed, waited.contains(&id));
        }
        let ranks = self.world.ranks_of(session.id);
        self.world.forget(session.id);
        self.event(now, EventKind::SessionClosed { session: session.id, ending, ranks });
    }

    fn comm_without(&mut self, now: HostTime, id: CommId, departed: &Departed, waited: bool) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let theirs = comm.ranks_of(departed.session);
        let is_member = |rank: &Rank| comm.members[rank.index()].standing == Standing::Member;
        let members: Vec<Rank> = theirs.iter().copied().filter(is_member).collect();
        // What a rank called before it left still counts, while its process is there.
        let gone = if members.is_empty() && waited { theirs } else { members.clone() };
        if gone.is_empty() {
            return;
        }
        let died = departed.ending != Ending::Goodbye;
        for &rank in &members {
            comm.depart(rank, if died { Standing::Dead } else { Standing::Left });
        }
        if !died {
            comm.undestroyed.extend(&members);
        }
        let process = process_name(departed.pid, &departed.program);
        let how = if died { "died" } else { "exited" };
        let what = format!("{} ({process}) {how}", Ranks(&gone));
        self.shrinking_without(id, &gone, &what);
        if !died {
            self.growing_without(now, id, &gone, &what);
        }
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let concerns_others = comm.takes_calls() && !comm.is_deserted();
        if died && concerns_others {
            let fault = Fault::remote(sentence::death(comm, &gone, &process));
            self.fail_comm(now, id, FailureKind::RankDied, fault, &gone);
        } else if waited && concerns_others {
            // Its own calls wait with the others' and would be taken for promises.
            let fault = Fault::remote(format!("{what} in the middle of a call on communicator {id}"));
            self.fail_comm(now, id, FailureKind::RankLeft, fault, &gone);
        } else {
            self.fail_if_missed(now, id, &gone, &what, FailureKind::RankLeft);
        }
        self.bury(id);
    }

    /// Fails a communicator only if one of its waiting operations needs a rank that has left.
    fn fail_if_missed(&mut self, now: HostTime, id: CommId, gone: &[Rank], what: &str, failure: FailureKind) {
        let Some(comm) = self.comms.get(&id) else { return };
        if !comm.takes_calls() {
            return;
        }
        let waited = comm.keys().into_iter().find_map(|key| {
            let missing = self.missing(key);
            gone.iter().any(|rank| missing.contains(rank)).then_some((key, missing))
        });
        let at_barrier = !comm.barrier.is_empty();
        let text = match waited {
            Some((key, missing)) => {
                let callers = (0..comm.size()).map(Rank::from_index).filter(|rank| !missing.contains(rank));
                let call = callers.filter_map(|rank| self.call_at(key, rank)).next().unwrap_or_default();
                format!("{what} {} while others wait for it in {call}", comm.progress())
            }
            None if at_barrier => format!("{what} while others wait for it at a barrier"),
            None if matches!(comm.staging, Staging::Mapping { .. }) => {
                format!("{what} while the communicator was being made")
            }
            None => return,
        };
        self.fail_comm(now, id, failure, Fault::remote(text), gone);
    }

    /// A communicator has failed: everything that waits in it, or is tied to it, is told; the rest learn when
    /// they call, or in the middle of moving bytes.
    pub(crate) fn fail_comm(
        &mut self,
        now: HostTime,
        id: CommId,
        failure: FailureKind,
        fault: Fault,
        culprits: &[Rank],
    ) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.fault.is_some() {
            return self.fail_splits(now, id, failure, &fault, culprits);
        }
        comm.fault = Some(fault.clone());
        self.failure_event(now, (id, Some(id)), failure, &fault, culprits);
        self.fail_tied(now, id, failure, &fault);
    }

    /// Ends the splits that wait in a revoked communicator, whose own fault stays what it was.
    fn fail_splits(
        &mut self,
        now: HostTime,
        id: CommId,
        failure: FailureKind,
        fault: &Fault,
        culprits: &[Rank],
    ) {
        let waits = self.comms.get(&id).is_some_and(|comm| comm.revoked && !comm.is_idle());
        if !waits {
            return;
        }
        // It is the communicators in the making that fail.
        self.failure_event(now, (id, None), failure, fault, culprits);
        self.fail_batches(id, fault);
        if let Some(comm) = self.comms.get_mut(&id) {
            comm.clear();
        }
        self.clear_deadlines(id);
    }

    /// Tells of a failure: whose ranks it concerns, and which communicator has failed by it.
    fn failure_event(
        &mut self,
        now: HostTime,
        (id, failed): (CommId, Option<CommId>),
        failure: FailureKind,
        fault: &Fault,
        culprits: &[Rank],
    ) {
        let Some(comm) = self.comms.get(&id) else { return };
        let history = self.histories(comm, culprits);
        let culprits: Vec<GlobalRank> =
            culprits.iter().filter_map(|rank| Some(comm.members.get(rank.index())?.global)).collect();
        self.failures += 1;
        let (code, detail) = (fault.code, fault.detail.clone());
        self.event(now, EventKind::Failure { comm: failed, failure, code, detail, culprits, history });
    }

    /// Ends what waits in a communicator that has failed, and in all that groups tie to it, however far.
    fn fail_tied(&mut self, now: HostTime, id: CommId, failure: FailureKind, fault: &Fault) {
        let detail = format!("groups tie it to communicator {id}, which failed: {}", fault.detail);
        let tied_fault = Fault::new(fault.code, detail);
        let mut failing = vec![(id, fault)];
        while let Some((id, fault)) = failing.pop() {
            let tied = self.fail_batches(id, fault);
            self.poison(now, id, failure, fault);
            for other in tied {
                if let Some(comm) = self.comms.get_mut(&other)
                    && comm.fault.is_none()
                {
                    comm.fault = Some(tied_fault.clone());
                    failing.push((other, &tied_fault));
                }
            }
        }
    }

    /// A rank says that it can move no bytes any more.
    pub(crate) fn broken(
        &mut self,
        now: HostTime,
        peer: PeerId,
        request: u64,
        id: CommId,
        rank: Rank,
        why: &str,
    ) {
        // Where the relay gave up first, its reason is behind the rank's.
        let relay = self.comms.get(&id).and_then(|comm| comm.stream_fault.as_ref());
        let relay = relay.map_or_else(String::new, |(_, why)| format!(" (the coordinator's relay: {why})"));
        self.ended_by(now, (peer, request), (id, rank), FailureKind::Staging, |name| {
            let why = cut_short(why);
            Fault::system(format!("{name} can move no bytes in communicator {id}: {why}{relay}"))
        });
    }

    /// A rank ends its communicator for all, for a reason that names it; whether it is the rank's to end.
    pub(crate) fn ended_by(
        &mut self,
        now: HostTime,
        (peer, request): (PeerId, u64),
        (id, rank): (CommId, Rank),
        failure: FailureKind,
        fault: impl FnOnce(&str) -> Fault,
    ) -> bool {
        let (name, is_revoked) = match self.owned(peer, id, rank) {
            Ok(comm) => (comm.member_name(rank), comm.revoked),
            Err(fault) => {
                self.reply(peer, request, ToRank::Failed(fault));
                return false;
            }
        };
        // A revoked communicator has ended for all, and what waits in it now is to outlive it.
        if !is_revoked {
            self.fail_comm(now, id, failure, fault(&name), &[rank]);
        }
        self.reply(peer, request, ToRank::Done);
        true
    }

    /// Ends everything that waits in a failed communicator and tells its processes.
    fn poison(&mut self, now: HostTime, id: CommId, failure: FailureKind, fault: &Fault) {
        self.fail_staging(id, fault);
        self.fail_growth(now, id, failure, fault);
        if fault.code != fakegpu_proto::Code::RemoteError {
            self.fail_shrinking(id, fault);
        }
        let Some(comm) = self.comms.get_mut(&id) else { return };
        comm.clear();
        let barrier = std::mem::take(&mut comm.barrier);
        comm.barrier.due_at = barrier.due_at;
        let sessions = comm.live_sessions();
        self.clear_deadlines(id);
        for arrival in barrier.arrived.into_iter().flatten() {
            self.reply(arrival.peer, arrival.request, ToRank::Failed(fault.clone()));
        }
        for session in sessions {
            if let Some(peer) = self.peers.peer_of(session) {
                self.reply(peer, 0, ToRank::CommFailed { comm: id, fault: fault.clone() });
            }
        }
        self.errand(Errand::Detach { comm: id });
    }

    /// Forgets a communicator that nobody holds any more.
    fn bury(&mut self, id: CommId) {
        let Some(comm) = self.comms.get(&id) else { return };
        if !comm.is_deserted() {
            return;
        }
        self.fail_shrinking(id, &Fault::usage("the communicator is gone"));
        self.clear_deadlines(id);
        self.comms.remove(&id);
        for other in self.comms.values_mut() {
            other.crossings.forget(id);
        }
        self.errand(Errand::Detach { comm: id });
    }

    /// Nothing of a communicator happens by itself any more.
    fn clear_deadlines(&mut self, id: CommId) {
        let Some(comm) = self.comms.get_mut(&id) else { return };
        let stream = comm.stream_fault.take().map(|(at, _)| at);
        self.deadlines.clear(comm.staging_at.take(), Due::Staging(id));
        self.deadlines.clear(comm.due_at.take(), Due::Operation(id));
        self.deadlines.clear(comm.notice_at.take(), Due::Notice(id));
        self.deadlines.clear(comm.conflict_at.take(), Due::Conflict(id));
        self.deadlines.clear(comm.barrier.due_at.take(), Due::Barrier(id));
        self.deadlines.clear(stream, Due::Stream(id));
    }

    /// A connection offers itself as a rank's data connection.
    pub(crate) fn attach(&mut self, peer: PeerId, request: u64, hello: &DataHello) {
        let size = self.check_attach(hello);
        match size {
            Ok((size, slot_bytes)) => {
                if let Some(comm) = self.comms.get_mut(&hello.comm) {
                    comm.members[hello.rank.index()].attached.insert(hello.lane);
                }
                self.reply(peer, request, ToRank::Attached);
                let DataHello { comm, rank, lane, .. } = *hello;
                self.errand(Errand::Attach { peer, comm, rank, lane, size, slot_bytes });
            }
            Err(fault) => {
                self.reply(peer, request, ToRank::Failed(fault));
                self.errand(Errand::Close(peer));
            }
        }
    }

    fn check_attach(&self, hello: &DataHello) -> Result<(u32, u32), Fault> {
        if self.peers.nonce_of(hello.session) != Some(hello.secret) {
            return Err(Fault::usage("the data connection does not belong to a session"));
        }
        let comm = self
            .comms
            .get(&hello.comm)
            .ok_or_else(|| Fault::usage("the data connection's communicator does not exist"))?;
        let member = comm.members.get(hello.rank.index());
        match member {
            Some(member) if member.session == hello.session && !member.attached.contains(&hello.lane) => {
                match &comm.fault {
                    Some(fault) => Err(fault.clone()),
                    None => Ok((u32::try_from(comm.size()).unwrap_or(u32::MAX), comm.slot_bytes)),
                }
            }
            _ => Err(Fault::usage(format!(
                "rank {} of communicator {} is not this session's to attach",
                hello.rank, hello.comm
            ))),
        }
    }

    /// The relay gave up. A data connection's end is usually a process's death, which its session is about to
    /// say with more words: wait for them a little.
    pub(crate) fn stream_failed(&mut self, now: HostTime, id: CommId, why: &str) {
        let at = now + self.options.conflict_grace;
        let Some(comm) = self.comms.get_mut(&id) else { return };
        if comm.fault.is_none() && comm.stream_fault.is_none() {
            comm.stream_fault = Some((at, why.to_owned()));
            self.deadlines.set(at, Due::Stream(id));
        }
    }

    pub(crate) fn stream_due(&mut self, now: HostTime, id: CommId) {
        let Some((_, why)) = self.comms.get_mut(&id).and_then(|comm| comm.stream_fault.take()) else {
            return;
        };
        let fault = Fault::system(format!("the bytes of communicator {id} could not be moved: {why}"));
        self.fail_comm(now, id, FailureKind::Staging, fault, &[]);
    }
}

impl Comm {
    /// How sentences name a member: its rank, and its process.
    pub(crate) fn member_name(&self, rank: Rank) -> String {
        match self.members.get(rank.index()) {
            Some(member) if member.global.0 == rank.0 => format!("rank {rank} (pid {})", member.pid),
            Some(member) => format!("rank {rank} (global rank {}, pid {})", member.global, member.pid),
            None => format!("rank {rank}"),
        }
    }
}
