//! The fold: what an event changes.

use std::collections::BTreeMap;

use fakegpu_proto::event::{ClusterSummary, Ending, FailureKind};
use fakegpu_proto::{Code, Descriptor, Estimate, Event, EventKind, StagingKind};
use fakegpu_units::{
    Collective, CommId, GlobalRank, HostSpan, HostTime, NodeIndex, Rank, SeqNo, SessionId, VirtualSpan,
    VirtualTime,
};

use crate::model::{
    CommunicatorEntry, CommunicatorEvent, Death, FailureEntry, Hazard, RecoveryEntry, Report, Staging,
    TimelineEntry,
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
    pub(crate) links: BTreeMap<(NodeIndex, NodeIndex), Tally>,
    pub(crate) algorithms: BTreeMap<String, AlgorithmTally>,
    pub(crate) staging: Staging,
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

/// A failure as its event tells it.
struct Failed<'a> {
    comm: Option<CommId>,
    failure: FailureKind,
    code: Code,
    detail: &'a str,
    culprits: &'a [GlobalRank],
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
            links: BTreeMap::new(),
            algorithms: BTreeMap::new(),
            staging: Staging::default(),
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
            EventKind::CommCreated { comm, members, waits, staging, fallback } => {
                self.create(*comm, members, waits, *staging, fallback.as_deref());
                self.recover(at, *comm, members);
            }
            EventKind::CommLeft { comm, rank, aborted } => self.leave(*comm, *rank, *aborted),
            EventKind::Operation { comm, seq, descriptor, size, waits, start, estimate, chunks } => {
                let (comm, seq, size, start, chunks) = (*comm, *seq, *size, *start, *chunks);
                self.run(&Operation { comm, seq, descriptor, size, waits, start, estimate, chunks });
            }
            EventKind::Barrier { comm, waits } => self.barrier(*comm, waits),
            EventKind::Hazard { comm, detail } => self.hazard(*comm, detail),
            EventKind::Failure { comm, failure, code, detail, culprits } => {
                self.fail(at, &Failed { comm: *comm, failure: *failure, code: *code, detail, culprits });
            }
            EventKind::Stopped { why } => self.stopped = Some(why.clone()),
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

    fn create(
        &mut self,
        comm: CommId,
        members: &[GlobalRank],
        waits: &[HostSpan],
        staging: StagingKind,
        fallback: Option<&str>,
    ) {
        self.communicators += 1;
        self.staging.fallbacks += u64::from(fallback.is_some());
        for (index, rank) in members.iter().enumerate() {
            let state = self.ranks.entry(*rank).or_default();
            state.inits += 1;
            state.join_wait += waits.get(index).copied().unwrap_or_default();
        }
        self.live.insert(comm, Members { by_rank: members.to_vec(), remaining: members.len() });
        self.communicators_log.push(CommunicatorEntry {
            communicator: Some(comm),
            event: CommunicatorEvent::Init,
            ranks: members.to_vec(),
            staging: Some(staging_name(staging).to_owned()),
            detail: fallback.map(str::to_owned),
            code: None,
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
        self.communicators_log.push(CommunicatorEntry {
            communicator: Some(comm),
            event,
            ranks,
            staging: None,
            detail: None,
            code: None,
        });
    }

    fn run(&mut self, operation: &Operation<'_>) {
        let Operation { descriptor, estimate, .. } = operation;
        let (bytes, cost) = (descriptor.booked_bytes(operation.size), estimate.total());
        self.collectives.entry(descriptor.op).or_default().book(bytes, cost, estimate.contention);
        self.book_links(estimate);
        self.book_algorithm(bytes, estimate);
        self.staging.chunks = self.staging.chunks.saturating_add(operation.chunks);
        if operation.chunks > 0 {
            self.staging.peak_bytes = self.staging.peak_bytes.max(bytes);
        }
        self.makespan = self.makespan.max(operation.start + cost);
        self.each_member(operation.comm, |state, index| {
            state.collectives += 1;
            state.wait(operation.waits.get(index).copied().unwrap_or_default());
            state.run(operation.start, cost);
        });
        self.list(entry(operation, bytes));
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

    fn barrier(&mut self, comm: CommId, waits: &[HostSpan]) {
        self.barriers.book(0, VirtualSpan::ZERO, VirtualSpan::ZERO);
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
            data_type: None,
            reduce: None,
            root: None,
            count: 0,
            bytes: 0,
            ranks: u32::try_from(waits.len()).unwrap_or(u32::MAX),
            start_us: start.since(VirtualTime::ZERO).as_micros_f64(),
            duration_us: 0.0,
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
            communicator: failed.comm,
            event: CommunicatorEvent::Failure,
            ranks: failed.culprits.to_vec(),
            staging: None,
            detail: Some(failed.detail.to_owned()),
            code: Some(failed.code),
        });
        self.failures.push(FailureEntry {
            at_ms: since_start_ms(at),
            communicator: failed.comm,
            failure: failed.failure,
            code: failed.code,
            detail: failed.detail.to_owned(),
            culprits: failed.culprits.to_vec(),
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

fn staging_name(staging: StagingKind) -> &'static str {
    match staging {
        StagingKind::Shared => "shared",
        StagingKind::Streamed => "streamed",
    }
}

fn longest_ms(waits: &[HostSpan]) -> f64 {
    waits.iter().max().copied().unwrap_or_default().as_millis_f64()
}

fn since_start_ms(at: HostTime) -> f64 {
    at.since(HostTime::ZERO).as_millis_f64()
}
