//! The fold: what an event changes.

use std::collections::BTreeMap;

use fakegpu_proto::event::{ClusterSummary, Ending, FailureKind};
use fakegpu_proto::{
    Code, Descriptor, Estimate, Event, EventKind, Origin, RankHistory, StagingKind, Transfer,
};
use fakegpu_units::{
    Collective, CommId, GlobalRank, HostSpan, HostTime, NodeIndex, Rank, SeqNo, SessionId, VirtualSpan,
    VirtualTime,
};

use crate::model::{
    CommunicatorEntry, CommunicatorEvent, Death, FailureEntry, Hazard, OneSided, RecoveryEntry, Report,
    Staging, TimelineEntry,
};
use crate::rank::RankState;
use crate::recent::{First, Last};
use crate::tally::{AlgorithmTally, Tally};

/// How much a report keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many operations are listed; earlier ones are only counted.
    pub timeline_max: usize,
}

impl Default for Options {
    /// 4096 operations.
    fn default() -> Self {
        Self { timeline_max: 4096 }
    }
}

/// Entries that the log of communicators keeps.
const COMMUNICATORS_LOG_MAX: usize = 10_000;

/// Failures, deaths, recoveries and hazards that are kept, each.
const EVENTS_MAX: usize = 1_000;

/// Failures that keep what ranks did before; the first is the one to read.
const HISTORIES_MAX: usize = 16;

/// Ranks and calls of one of them that are kept.
const HISTORY_RANKS_MAX: usize = 64;
const HISTORY_CALLS_MAX: usize = 32;

/// A report in the making. It grows with ranks, communicators and pairs of nodes, not with operations.
#[derive(Clone, Debug)]
pub struct Fold {
    pub(crate) transport: String,
    pub(crate) cluster: ClusterSummary,
    pub(crate) communicators: u64,
    pub(crate) ranks: BTreeMap<GlobalRank, RankState>,
    sessions: BTreeMap<SessionId, Process>,
    live: BTreeMap<CommId, Members>,
    pub(crate) collectives: BTreeMap<Collective, Tally>,
    pub(crate) barriers: Tally,
    pub(crate) point_to_point: Tally,
    /// Of the point-to-point operations, those of two sides.
    pub(crate) pairs: u64,
    pub(crate) zero_byte: u64,
    pub(crate) one_sided: OneSided,
    pub(crate) links: BTreeMap<(NodeIndex, NodeIndex), Tally>,
    pub(crate) algorithms: BTreeMap<String, AlgorithmTally>,
    pub(crate) staging: Staging,
    /// Communicators that move no bytes.
    pub(crate) payload_off: u64,
    pub(crate) makespan: VirtualTime,
    pub(crate) operations: u64,
    pub(crate) timeline: Last<TimelineEntry>,
    pub(crate) communicators_log: Last<CommunicatorEntry>,
    pub(crate) deaths: First<Death>,
    pub(crate) failures: First<FailureEntry>,
    pub(crate) recoveries: First<RecoveryEntry>,
    pub(crate) hazards: First<Hazard>,
    /// Operations of communicators whose making the log does not show.
    pub(crate) unattributed: u64,
    pub(crate) stopped: Option<String>,
}

/// A connected process.
#[derive(Clone, Debug)]
struct Process {
    pid: u32,
    program: String,
}

/// A communicator's members by rank, and how many have not left.
#[derive(Clone, Debug)]
struct Members {
    by_rank: Vec<GlobalRank>,
    remaining: usize,
}

/// An operation as its event tells it.
struct Operation<'a> {
    comm: CommId,
    seq: SeqNo,
    descriptor: &'a Descriptor,
    size: u32,
    waits: &'a [HostSpan],
    start: VirtualTime,
    estimate: &'a Estimate,
    chunks: u64,
}

/// A point-to-point operation as its event tells it.
struct Sent<'a> {
    comm: CommId,
    src: Rank,
    dst: Rank,
    /// The sender's side; `None` for a write that needs no receiver.
    transfer: Option<&'a Transfer>,
    bytes: u64,
    send_wait: HostSpan,
    recv_wait: HostSpan,
    start: VirtualTime,
    estimate: &'a Estimate,
    chunks: u64,
}

/// A communicator as its event tells of its making.
struct Made<'a> {
    comm: CommId,
    members: &'a [GlobalRank],
    waits: &'a [HostSpan],
    staging: StagingKind,
    fallback: Option<&'a str>,
    origin: Origin,
    name: Option<&'a str>,
}

/// A failure as its event tells it.
struct Failed<'a> {
    comm: Option<CommId>,
    failure: FailureKind,
    code: Code,
    detail: &'a str,
    culprits: &'a [GlobalRank],
    history: &'a [RankHistory],
}

impl Fold {
    /// A report of nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            transport: String::new(),
            cluster: ClusterSummary::default(),
            communicators: 0,
            ranks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            live: BTreeMap::new(),
            collectives: BTreeMap::new(),
            barriers: Tally::default(),
            point_to_point: Tally::default(),
            pairs: 0,
            zero_byte: 0,
            one_sided: OneSided::default(),
            links: BTreeMap::new(),
            algorithms: BTreeMap::new(),
            staging: Staging::default(),
            payload_off: 0,
            makespan: VirtualTime::ZERO,
            operations: 0,
            timeline: Last::new(options.timeline_max),
            communicators_log: Last::new(COMMUNICATORS_LOG_MAX),
            deaths: First::new(EVENTS_MAX),
            failures: First::new(EVENTS_MAX),
            recoveries: First::new(EVENTS_MAX),
            hazards: First::new(EVENTS_MAX),
            unattributed: 0,
            stopped: None,
        }
    }

    /// The fold over a whole log, with the default [`Options`].
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut fold = Self::new(Options::default());
        for event in events {
            fold.apply(event);
        }
        fold
    }

    /// Takes one event in; events come in the order of the log.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at;
        match &event.kind {
            EventKind::Started { transport, cluster } => {
                self.transport.clone_from(transport);
                self.describe(cluster);
            }
            EventKind::ClusterChanged { cluster } => self.describe(cluster),
            EventKind::SessionOpened { session, pid, program } => {
                self.sessions.insert(*session, Process { pid: *pid, program: program.clone() });
            }
            EventKind::SessionClosed { session, ending, ranks } => self.close(at, *session, *ending, ranks),
            EventKind::RankPlaced { rank, session, node, device } => {
                self.place(*rank, *session, *node, *device)
            }
            EventKind::CommCreated { comm, members, waits, staging, fallback, origin, name } => {
                let (comm, staging, origin) = (*comm, *staging, *origin);
                let (fallback, name) = (fallback.as_deref(), name.as_deref());
                self.create(&Made { comm, members, waits, staging, fallback, origin, name });
                self.recover(at, comm, members);
            }
            EventKind::CommLeft { comm, rank, aborted } => self.leave(*comm, *rank, *aborted),
            EventKind::Operation { comm, seq, descriptor, size, waits, start, estimate, chunks } => {
                let (comm, seq, size, start, chunks) = (*comm, *seq, *size, *start, *chunks);
                self.run(&Operation { comm, seq, descriptor, size, waits, start, estimate, chunks });
            }
            EventKind::Transfer { .. } | EventKind::Put { .. } => self.apply_point_to_point(&event.kind),
            EventKind::Barrier { comm, waits, bytes, took } => self.barrier(*comm, waits, *bytes, *took),
            EventKind::Hazard { comm, detail } => self.hazard(*comm, detail),
            EventKind::Failure { comm, failure, code, detail, culprits, history } => {
                let (comm, failure, code) = (*comm, *failure, *code);
                self.fail(at, &Failed { comm, failure, code, detail, culprits, history });
            }
            EventKind::Stopped { why } => self.stopped = Some(why.clone()),
        }
    }

    fn apply_point_to_point(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Transfer {
                comm,
                src,
                dst,
                transfer,
                send_wait,
                recv_wait,
                start,
                estimate,
                chunks,
            } => self.send(&Sent {
                comm: *comm,
                src: *src,
                dst: *dst,
                transfer: Some(transfer),
                bytes: transfer.bytes(),
                send_wait: *send_wait,
                recv_wait: *recv_wait,
                start: *start,
                estimate,
                chunks: *chunks,
            }),
            EventKind::Put { comm, src, dst, bytes, start, estimate } => self.send(&Sent {
                comm: *comm,
                src: *src,
                dst: *dst,
                transfer: None,
                bytes: *bytes,
                send_wait: HostSpan::ZERO,
                recv_wait: HostSpan::ZERO,
                start: *start,
                estimate,
                chunks: 0,
            }),
            _ => {}
        }
    }

    /// The report of what has been taken in so far.
    pub fn report(&self) -> Report {
        crate::snapshot::report(self)
    }

    fn describe(&mut self, cluster: &ClusterSummary) {
        self.cluster = cluster.clone();
        for (index, node) in (0..).map(NodeIndex).zip(&cluster.nodes) {
            for (device, rank) in (0..).zip(&node.ranks) {
                let state = self.ranks.entry(*rank).or_default();
                // Where a rank really joined is better known than where the file expects it.
                if state.session.is_none() {
                    (state.node, state.device) = (Some(index), device);
                }
            }
        }
    }

    fn place(&mut self, rank: GlobalRank, session: SessionId, node: NodeIndex, device: u32) {
        let pid = self.sessions.get(&session).map(|process| process.pid);
        let state = self.ranks.entry(rank).or_default();
        (state.session, state.node, state.device, state.pid) = (Some(session), Some(node), device, pid);
    }

    fn close(&mut self, at: HostTime, session: SessionId, ending: Ending, ranks: &[GlobalRank]) {
        let process = self.sessions.remove(&session);
        if ending != Ending::Died {
            return;
        }
        for rank in ranks {
            self.ranks.entry(*rank).or_default().died = true;
        }
        self.deaths.push(Death {
            at_ms: since_start_ms(at),
            pid: process.as_ref().map(|process| process.pid),
            program: process.map_or_else(String::new, |process| process.program),
            ranks: ranks.to_vec(),
        });
    }

    fn create(&mut self, made: &Made<'_>) {
        self.communicators += 1;
        self.staging.fallbacks += u64::from(made.fallback.is_some());
        self.payload_off += u64::from(made.staging == StagingKind::Off);
        for (index, rank) in made.members.iter().enumerate() {
            let state = self.ranks.entry(*rank).or_default();
            state.inits += 1;
            state.join_wait += made.waits.get(index).copied().unwrap_or_default();
        }
        let (by_rank, remaining) = (made.members.to_vec(), made.members.len());
        self.live.insert(made.comm, Members { by_rank, remaining });
        let (event, parent, color) = match made.origin {
            Origin::Id => (CommunicatorEvent::Init, None, None),
            Origin::Split { parent, color } => (CommunicatorEvent::Split, Some(parent), Some(color)),
            Origin::Shrink { parent } => (CommunicatorEvent::Shrink, Some(parent), None),
            Origin::Grow { parent } => (CommunicatorEvent::Grow, Some(parent), None),
        };
        self.communicators_log.push(CommunicatorEntry {
            staging: Some(staging_name(made.staging).to_owned()),
            detail: made.fallback.map(str::to_owned),
            name: made.name.map(str::to_owned),
            parent,
            color,
            ..communicator_entry(Some(made.comm), event, made.members.to_vec())
        });
    }

    /// Notes a communicator of ranks that a failure had reached: they went on.
    fn recover(&mut self, at: HostTime, comm: CommId, members: &[GlobalRank]) {
        let reached = |rank: &&GlobalRank| {
            let state = self.ranks.get_mut(*rank);
            state.is_some_and(|state| std::mem::take(&mut state.unrecovered))
        };
        let ranks: Vec<GlobalRank> = members.iter().filter(reached).copied().collect();
        if !ranks.is_empty() {
            self.recoveries.push(RecoveryEntry { at_ms: since_start_ms(at), communicator: comm, ranks });
        }
    }

    fn leave(&mut self, comm: CommId, rank: Rank, aborted: bool) {
        let mut ranks = Vec::new();
        if let Some(members) = self.live.get_mut(&comm) {
            ranks.extend(members.by_rank.get(rank.index()));
            members.remaining = members.remaining.saturating_sub(1);
            if members.remaining == 0 {
                self.live.remove(&comm);
            }
        }
        for rank in &ranks {
            self.ranks.entry(*rank).or_default().aborts += u64::from(aborted);
        }
        let event = if aborted { CommunicatorEvent::Abort } else { CommunicatorEvent::Leave };
        self.communicators_log.push(communicator_entry(Some(comm), event, ranks));
    }

    fn run(&mut self, operation: &Operation<'_>) {
        let Operation { descriptor, estimate, .. } = operation;
        let (bytes, cost) = (descriptor.booked_bytes(operation.size), estimate.total());
        self.collectives.entry(descriptor.op).or_default().book(bytes, cost, estimate.contention);
        self.book(bytes, estimate, operation.start, operation.chunks);
        self.each_member(operation.comm, |state, index| {
            state.collectives += 1;
            state.wait(operation.waits.get(index).copied().unwrap_or_default());
            state.run(operation.start, cost);
        });
        self.list(entry(operation, bytes));
    }

    /// A pair counts as one operation and as a call of each of its ranks.
    fn send(&mut self, sent: &Sent<'_>) {
        let cost = sent.estimate.total();
        self.point_to_point.book(sent.bytes, cost, sent.estimate.contention);
        self.book(sent.bytes, sent.estimate, sent.start, sent.chunks);
        if sent.transfer.is_some() {
            self.pairs += 1;
            self.zero_byte += u64::from(sent.bytes == 0);
        } else {
            self.one_sided.puts += 1;
            self.one_sided.bytes = self.one_sided.bytes.saturating_add(sent.bytes);
        }
        let sides = [Some((sent.src, sent.send_wait)), sent.transfer.map(|_| (sent.dst, sent.recv_wait))];
        let members = self.live.get(&sent.comm);
        self.unattributed += u64::from(members.is_none());
        for (rank, wait) in sides.into_iter().flatten() {
            let global = members.and_then(|members| members.by_rank.get(rank.index()));
            if let Some(state) = global.and_then(|global| self.ranks.get_mut(global)) {
                state.point_to_point += 1;
                state.wait(wait);
                state.run(sent.start, cost);
            }
        }
        self.list(sent_entry(sent));
    }

    /// What every kind of operation leaves behind.
    fn book(&mut self, bytes: u64, estimate: &Estimate, start: VirtualTime, chunks: u64) {
        self.book_links(estimate);
        self.book_algorithm(bytes, estimate);
        self.staging.chunks = self.staging.chunks.saturating_add(chunks);
        if chunks > 0 {
            self.staging.peak_bytes = self.staging.peak_bytes.max(bytes);
        }
        self.makespan = self.makespan.max(start + estimate.total());
    }

    fn book_links(&mut self, estimate: &Estimate) {
        for flow in &estimate.flows {
            let scope = if flow.src == flow.dst { "intra_node" } else { "inter_node" };
            let contention =
                if estimate.bottleneck == scope { estimate.contention } else { VirtualSpan::ZERO };
            self.links.entry((flow.src, flow.dst)).or_default().book(
                flow.bytes,
                estimate.total(),
                contention,
            );
        }
    }

    fn book_algorithm(&mut self, bytes: u64, estimate: &Estimate) {
        if !self.algorithms.contains_key(&estimate.algorithm) {
            self.algorithms.insert(estimate.algorithm.clone(), AlgorithmTally::default());
        }
        if let Some(tally) = self.algorithms.get_mut(&estimate.algorithm) {
            tally.book(bytes, estimate);
        }
    }

    fn barrier(&mut self, comm: CommId, waits: &[HostSpan], bytes: u64, took: VirtualSpan) {
        self.barriers.book(bytes, took, VirtualSpan::ZERO);
        let mut start = VirtualTime::ZERO;
        self.each_member(comm, |state, index| {
            let wait = waits.get(index).copied().unwrap_or_default();
            state.barriers += 1;
            state.wait(wait);
            state.longest_barrier_wait = state.longest_barrier_wait.max(wait);
            start = start.max(state.end());
        });
        self.list(TimelineEntry {
            index: 0,
            communicator: comm,
            seq: None,
            operation: "barrier".to_owned(),
            src: None,
            dst: None,
            data_type: None,
            reduce: None,
            root: None,
            count: 0,
            bytes,
            ranks: u32::try_from(waits.len()).unwrap_or(u32::MAX),
            start_us: start.since(VirtualTime::ZERO).as_micros_f64(),
            duration_us: took.as_micros_f64(),
            algorithm: String::new(),
            bottleneck: String::new(),
            max_wait_ms: longest_ms(waits),
        });
    }

    fn list(&mut self, entry: TimelineEntry) {
        self.timeline.push(TimelineEntry { index: self.operations, ..entry });
        self.operations += 1;
    }

    fn each_member(&mut self, comm: CommId, mut with: impl FnMut(&mut RankState, usize)) {
        let Some(members) = self.live.get(&comm) else {
            self.unattributed += 1;
            return;
        };
        for (index, rank) in members.by_rank.iter().enumerate() {
            if let Some(state) = self.ranks.get_mut(rank) {
                with(state, index);
            }
        }
    }

    fn hazard(&mut self, comm: CommId, detail: &str) {
        let same = |hazard: &&mut Hazard| hazard.communicator == comm && hazard.detail == detail;
        match self.hazards.entries_mut().iter_mut().find(same) {
            Some(hazard) => hazard.count += 1,
            None => self.hazards.push(Hazard { communicator: comm, detail: detail.to_owned(), count: 1 }),
        }
    }

    fn fail(&mut self, at: HostTime, failed: &Failed<'_>) {
        let timed_out = matches!(failed.failure, FailureKind::JoinTimeout | FailureKind::CollectiveTimeout);
        let members = failed.comm.and_then(|comm| self.live.get(&comm));
        for rank in members.map_or(failed.culprits, |members| &members.by_rank) {
            let state = self.ranks.entry(*rank).or_default();
            state.timeouts += u64::from(timed_out);
            state.unrecovered = true;
        }
        self.communicators_log.push(CommunicatorEntry {
            detail: Some(failed.detail.to_owned()),
            code: Some(failed.code),
            ..communicator_entry(failed.comm, CommunicatorEvent::Failure, failed.culprits.to_vec())
        });
        let history =
            if self.failures.total() < HISTORIES_MAX as u64 { kept(failed.history) } else { Vec::new() };
        self.failures.push(FailureEntry {
            at_ms: since_start_ms(at),
            communicator: failed.comm,
            failure: failed.failure,
            code: failed.code,
            detail: failed.detail.to_owned(),
            culprits: failed.culprits.to_vec(),
            history,
        });
    }
}

fn entry(operation: &Operation<'_>, bytes: u64) -> TimelineEntry {
    let Operation { descriptor, estimate, .. } = operation;
    TimelineEntry {
        index: 0,
        communicator: operation.comm,
        seq: Some(operation.seq),
        operation: descriptor.op.name().to_owned(),
        src: None,
        dst: None,
        data_type: Some(descriptor.data_type),
        reduce: descriptor.reduce,
        root: descriptor.root,
        count: descriptor.count,
        bytes,
        ranks: operation.size,
        start_us: operation.start.since(VirtualTime::ZERO).as_micros_f64(),
        duration_us: estimate.total().as_micros_f64(),
        algorithm: estimate.algorithm.clone(),
        bottleneck: estimate.bottleneck.clone(),
        max_wait_ms: longest_ms(operation.waits),
    }
}

fn sent_entry(sent: &Sent<'_>) -> TimelineEntry {
    let Sent { transfer, estimate, .. } = sent;
    TimelineEntry {
        index: 0,
        communicator: sent.comm,
        seq: None,
        operation: if transfer.is_some() { "send_recv" } else { "put" }.to_owned(),
        src: Some(sent.src),
        dst: Some(sent.dst),
        data_type: transfer.map(|transfer| transfer.data_type),
        reduce: None,
        root: None,
        count: transfer.map_or(sent.bytes, |transfer| transfer.count),
        bytes: sent.bytes,
        ranks: if sent.src == sent.dst { 1 } else { 2 },
        start_us: sent.start.since(VirtualTime::ZERO).as_micros_f64(),
        duration_us: estimate.total().as_micros_f64(),
        algorithm: estimate.algorithm.clone(),
        bottleneck: estimate.bottleneck.clone(),
        max_wait_ms: sent.send_wait.max(sent.recv_wait).as_millis_f64(),
    }
}

fn communicator_entry(
    communicator: Option<CommId>,
    event: CommunicatorEvent,
    ranks: Vec<GlobalRank>,
) -> CommunicatorEntry {
    CommunicatorEntry {
        communicator,
        event,
        ranks,
        staging: None,
        detail: None,
        code: None,
        name: None,
        parent: None,
        color: None,
    }
}

/// As much of what ranks did as a report keeps: of each the last calls.
fn kept(history: &[RankHistory]) -> Vec<RankHistory> {
    let kept = |rank: &RankHistory| RankHistory {
        recent: rank.recent[rank.recent.len().saturating_sub(HISTORY_CALLS_MAX)..].to_vec(),
        ..rank.clone()
    };
    history.iter().take(HISTORY_RANKS_MAX).map(kept).collect()
}

fn staging_name(staging: StagingKind) -> &'static str {
    match staging {
        StagingKind::Shared => "shared",
        StagingKind::Streamed => "streamed",
        StagingKind::Off => "off",
    }
}

fn longest_ms(waits: &[HostSpan]) -> f64 {
    waits.iter().max().copied().unwrap_or_default().as_millis_f64()
}

fn since_start_ms(at: HostTime) -> f64 {
    at.since(HostTime::ZERO).as_millis_f64()
}
