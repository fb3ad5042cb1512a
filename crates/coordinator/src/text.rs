//! Communicators of the text protocol: made, met in and left by lines. They outlive the connections that
//! speak for them, and text acts on no others.

use std::collections::BTreeMap;

use fakegpu_proto::text::{TextError, TextLine, TextRequest, ok_line};
use fakegpu_proto::{TEXT_VERSION, UniqueId};
use fakegpu_units::{CommId, HostSpan, HostTime, Rank, Ranks, SeqNo};

use crate::session::Role;
use crate::{Coordinator, PeerId};

/// A line that waits for its answer.
#[derive(Debug)]
struct Waiting {
    peer: PeerId,
    due_at: HostTime,
}

/// A text communicator: being made until `id` is set.
#[derive(Debug)]
struct TextComm {
    id: Option<CommId>,
    size: u32,
    /// Lines that wait, by rank: for the communicator, or for the barrier `barriers + 1`.
    waiting: BTreeMap<Rank, Waiting>,
    /// Ranks that take part (seated while it is made, members once it is).
    ranks: std::collections::BTreeSet<Rank>,
    barriers: u64,
    /// A barrier that failed fails all later ones.
    failed: Option<TextError>,
}

/// The text communicators.
#[derive(Debug, Default)]
pub(crate) struct TextComms {
    making: BTreeMap<UniqueId, TextComm>,
    made: BTreeMap<CommId, TextComm>,
}

const TEXT_COMMS_MAX: usize = 4096;
const TEXT_RANKS_MAX: u32 = 4096;

impl TextComms {
    /// A connection ended: its lines wait no more, its ranks stay.
    pub(crate) fn forget_waiter(&mut self, peer: PeerId) {
        for comm in self.making.values_mut() {
            let gone: Vec<Rank> = comm
                .waiting
                .iter()
                .filter(|(_, waiting)| waiting.peer == peer)
                .map(|(&rank, _)| rank)
                .collect();
            for rank in gone {
                comm.waiting.remove(&rank);
                comm.ranks.remove(&rank);
            }
        }
        self.making.retain(|_, comm| !comm.waiting.is_empty());
        for comm in self.made.values_mut() {
            comm.waiting.retain(|_, waiting| waiting.peer != peer);
        }
    }

    /// Whether a line of this connection waits for its answer.
    pub(crate) fn has_waiter(&self, peer: PeerId) -> bool {
        let comms = self.making.values().chain(self.made.values());
        comms.flat_map(|comm| comm.waiting.values()).any(|waiting| waiting.peer == peer)
    }

    pub(crate) fn next_due(&self) -> Option<HostTime> {
        self.making
            .values()
            .chain(self.made.values())
            .flat_map(|comm| comm.waiting.values())
            .map(|waiting| waiting.due_at)
            .min()
    }
}

impl Coordinator {
    /// A line of text came, without its newline.
    pub fn handle_text(&mut self, now: HostTime, peer: PeerId, line: &str) {
        match self.peers.role_mut(peer) {
            None => return,
            Some(role @ Role::New) => *role = Role::Text,
            Some(Role::Text | Role::Session(_)) => {}
        }
        let answer = TextLine::parse(line).and_then(|line| self.text_request(now, peer, line));
        match answer {
            Ok(Some(line)) => self.line(peer, line),
            Ok(None) => {}
            Err(error) => self.line(peer, error.to_line()),
        }
    }

    /// Answers the lines that have waited as long as they may.
    pub(crate) fn text_due(&mut self, now: HostTime) {
        let late: Vec<UniqueId> = self
            .text_comms
            .making
            .iter()
            .filter(|(_, comm)| comm.is_late(now))
            .map(|(id, _)| id.clone())
            .collect();
        for id in late {
            let Some(comm) = self.text_comms.making.remove(&id) else { continue };
            let missing: Vec<Rank> =
                (0..comm.size).map(Rank).filter(|rank| !comm.ranks.contains(rank)).collect();
            let error =
                TextError::new("timeout_waiting_for_ranks", format!("{} did not come", Ranks(&missing)));
            self.answer_all(&comm.waiting, &error.to_line());
        }
        let late: Vec<CommId> =
            self.text_comms.made.iter().filter(|(_, comm)| comm.is_late(now)).map(|(&id, _)| id).collect();
        for id in late {
            let Some(comm) = self.text_comms.made.get_mut(&id) else { continue };
            comm.failed = Some(TextError::new(
                "timeout_waiting_for_barrier",
                "an earlier barrier of this communicator timed out",
            ));
            let missing: Vec<Rank> =
                comm.ranks.iter().copied().filter(|rank| !comm.waiting.contains_key(rank)).collect();
            let waiting = std::mem::take(&mut comm.waiting);
            let error =
                TextError::new("timeout_waiting_for_barrier", format!("{} did not come", Ranks(&missing)));
            self.answer_all(&waiting, &error.to_line());
        }
    }

    fn answer_all(&mut self, waiting: &BTreeMap<Rank, Waiting>, line: &str) {
        for waiting in waiting.values() {
            self.line(waiting.peer, line.to_owned());
        }
    }

    /// Answers a request now (`Some`), later (`None`), or with an error.
    fn text_request(
        &mut self,
        now: HostTime,
        peer: PeerId,
        line: TextLine,
    ) -> Result<Option<String>, TextError> {
        let TextLine { request, token } = line;
        if request != TextRequest::Ping {
            self.authorise(peer, token.as_deref()).map_err(|why| TextError::new("unauthorised", why))?;
        }
        match request {
            TextRequest::Ping => Ok(Some(ok_line(&[
                ("status", &"ready"),
                ("version", &TEXT_VERSION),
                ("transport", &self.options.transport),
            ]))),
            TextRequest::Hello { client } => {
                Ok(Some(ok_line(&[("client", &client), ("version", &TEXT_VERSION)])))
            }
            TextRequest::Stats => {
                let stats = self.stats();
                Ok(Some(ok_line(&[
                    ("sessions", &stats.sessions),
                    ("communicators", &(stats.communicators + self.text_comms.made.len() as u64)),
                    ("operations", &stats.operations),
                    ("pending", &stats.pending),
                    ("failures", &stats.failures),
                ])))
            }
            TextRequest::Shutdown => {
                self.line(peer, ok_line(&[("status", &"stopping")]));
                self.handle_stop(now, "shutdown");
                Ok(None)
            }
            TextRequest::InitComm { unique_id, world_size, rank, timeout_ms } => {
                let due_at = now + timeout_ms.map_or(self.options.join_timeout, HostSpan::from_millis);
                self.text_init(peer, unique_id, world_size, rank, due_at)
            }
            TextRequest::DestroyComm { comm, rank } => self.text_destroy(comm, rank).map(Some),
            TextRequest::Barrier { comm, rank, seqno, timeout_ms } => {
                let due_at = now + timeout_ms.map_or(self.options.stuck_timeout, HostSpan::from_millis);
                self.text_barrier(peer, comm, rank, seqno, due_at)
            }
        }
    }

    fn text_init(
        &mut self,
        peer: PeerId,
        id: UniqueId,
        size: u32,
        rank: Rank,
        due_at: HostTime,
    ) -> Result<Option<String>, TextError> {
        if size == 0 || size > TEXT_RANKS_MAX || rank.0 >= size {
            return Err(TextError::new(
                "invalid_rank",
                format!("rank {rank} of {size}: ranks run from 0, at most {TEXT_RANKS_MAX} of them"),
            ));
        }
        if self.text_comms.making.len() + self.text_comms.made.len() >= TEXT_COMMS_MAX {
            return Err(TextError::new(
                "too_many_communicators",
                format!("at most {TEXT_COMMS_MAX} at a time"),
            ));
        }
        let comm = self.text_comms.making.entry(id.clone()).or_insert_with(|| TextComm::new(size));
        if comm.size != size {
            return Err(TextError::new(
                "world_size_mismatch",
                format!("rank {rank} says {size}, others say {}", comm.size),
            ));
        }
        if !comm.ranks.insert(rank) {
            return Err(TextError::new("duplicate_rank", format!("rank {rank} has come already")));
        }
        comm.waiting.insert(rank, Waiting { peer, due_at });
        if comm.waiting.len() < size as usize {
            return Ok(None);
        }
        let Some(mut comm) = self.text_comms.making.remove(&id) else { return Ok(None) };
        self.comms_made += 1;
        let number = CommId(self.comms_made);
        comm.id = Some(number);
        for (rank, waiting) in std::mem::take(&mut comm.waiting) {
            self.line(
                waiting.peer,
                ok_line(&[("comm_id", &number), ("seqno", &0), ("rank", &rank), ("world_size", &size)]),
            );
        }
        self.text_comms.made.insert(number, comm);
        Ok(None)
    }

    fn text_destroy(&mut self, id: CommId, rank: Rank) -> Result<String, TextError> {
        let comm = self.text_comms.member(id, rank)?;
        comm.ranks.remove(&rank);
        let left = comm.ranks.len();
        // A barrier that ranks wait at cannot be complete any more, whether this one had come to it or not.
        let waiting = std::mem::take(&mut comm.waiting);
        let error = TextError::new("destroyed", format!("rank {rank} has left communicator {id}"));
        if !waiting.is_empty() {
            comm.failed = Some(error.clone());
        }
        if left == 0 {
            self.text_comms.made.remove(&id);
        }
        self.answer_all(&waiting, &error.to_line());
        Ok(ok_line(&[("comm_id", &id), ("rank", &rank), ("remaining", &left)]))
    }

    fn text_barrier(
        &mut self,
        peer: PeerId,
        id: CommId,
        rank: Rank,
        seqno: SeqNo,
        due_at: HostTime,
    ) -> Result<Option<String>, TextError> {
        let comm = self.text_comms.member(id, rank)?;
        let next = comm.barriers + 1;
        if let Some(error) = &comm.failed {
            return Err(error.clone());
        }
        if comm.waiting.contains_key(&rank) {
            return Err(TextError::new(
                "repeated_seqno",
                format!("rank {rank} is already at barrier {next}"),
            ));
        }
        if seqno.0 < next {
            return Err(TextError::new(
                "stale_seqno",
                format!("barrier {seqno} is over, the next is {next}"),
            ));
        }
        if seqno.0 > next {
            return Err(TextError::new("early_seqno", format!("barrier {seqno} is not next, {next} is")));
        }
        comm.waiting.insert(rank, Waiting { peer, due_at });
        if comm.waiting.len() < comm.size as usize {
            return Ok(None);
        }
        comm.barriers = next;
        for (rank, waiting) in std::mem::take(&mut comm.waiting) {
            self.line(
                waiting.peer,
                ok_line(&[("comm_id", &id), ("rank", &rank), ("seqno", &seqno), ("op", &"barrier")]),
            );
        }
        Ok(None)
    }
}

impl TextComms {
    fn member(&mut self, id: CommId, rank: Rank) -> Result<&mut TextComm, TextError> {
        let comm = self.made.get_mut(&id).ok_or_else(|| {
            TextError::new("unknown_communicator", format!("{id} was not made by INIT_COMM, or is destroyed"))
        })?;
        if comm.ranks.contains(&rank) {
            Ok(comm)
        } else {
            Err(TextError::new("unknown_rank", format!("rank {rank} is not in communicator {id}")))
        }
    }
}

impl TextComm {
    fn new(size: u32) -> Self {
        Self {
            id: None,
            size,
            waiting: BTreeMap::new(),
            ranks: std::collections::BTreeSet::new(),
            barriers: 0,
            failed: None,
        }
    }

    fn is_late(&self, now: HostTime) -> bool {
        self.waiting.values().any(|waiting| waiting.due_at <= now)
    }
}
