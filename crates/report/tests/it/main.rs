//! Reports of worked logs, and laws of the fold.

mod laws;
mod shape;
mod worked;

use fakegpu_proto::event::{ClusterSummary, Ending, FailureKind, LinkSummary, NodeSummary};
use fakegpu_proto::{
    Code, Descriptor, Direction, Estimate, Event, EventKind, Flow, Origin, RankHistory, StagingKind, Transfer,
};
use fakegpu_units::{
    Collective, CommId, DataType, GlobalRank, HostSpan, HostTime, NodeIndex, Rank, ReduceOp, SeqNo,
    SessionId, VirtualSpan, VirtualTime,
};

/// A log in the making: two nodes of four ranks, a millisecond between events.
#[derive(Debug, Default)]
struct Log {
    events: Vec<Event>,
    clock: VirtualTime,
}

impl Log {
    fn push(&mut self, kind: EventKind) {
        let at = HostTime::from_nanos(self.events.len() as u64 * 1_000_000);
        self.events.push(Event { at, kind });
    }

    /// The coordinator listens, eight processes connect and join one communicator.
    fn joined() -> Self {
        let mut log = Self::default();
        log.push(EventKind::Started { transport: "unix".to_owned(), cluster: cluster() });
        for rank in 0..8 {
            let session = SessionId(u64::from(rank) + 1);
            let program = "train".to_owned();
            log.push(EventKind::SessionOpened { session, pid: 4000 + rank, program });
            let (node, device) = (NodeIndex(rank / 4), rank % 4);
            log.push(EventKind::RankPlaced { rank: GlobalRank(rank), session, node, device });
        }
        log.create(1, (0..8).map(GlobalRank).collect(), None);
        log
    }

    fn create(&mut self, comm: u64, members: Vec<GlobalRank>, fallback: Option<&str>) {
        let waits = waits(members.len());
        let staging = if fallback.is_some() { StagingKind::Streamed } else { StagingKind::Shared };
        let fallback = fallback.map(str::to_owned);
        let (comm, origin, name) = (CommId(comm), Origin::Id, None);
        self.push(EventKind::CommCreated { comm, members, waits, staging, fallback, origin, name });
    }

    fn derive(
        &mut self,
        comm: u64,
        members: &[u32],
        staging: StagingKind,
        origin: Origin,
        name: Option<&str>,
    ) {
        self.push(EventKind::CommCreated {
            comm: CommId(comm),
            members: members.iter().copied().map(GlobalRank).collect(),
            waits: waits(members.len()),
            staging,
            fallback: None,
            origin,
            name: name.map(str::to_owned),
        });
    }

    /// A pair on communicator `comm`; the sender came 2 ms before the receiver. Does not advance the model's clock, as
    /// the pairs of a group do not.
    fn send(&mut self, comm: u64, src: u32, dst: u32, count: u64) {
        let transfer = Transfer {
            direction: Direction::Send,
            peer: Rank(dst),
            count,
            data_type: DataType::BFloat16,
            of: None,
        };
        self.push(EventKind::Transfer {
            comm: CommId(comm),
            src: Rank(src),
            dst: Rank(dst),
            transfer,
            send_wait: HostSpan::from_millis(if src == dst { 0 } else { 2 }),
            recv_wait: HostSpan::ZERO,
            start: self.clock,
            estimate: direct(src, dst, transfer.bytes()),
            chunks: transfer.bytes().div_ceil(1 << 18),
        });
    }

    fn put(&mut self, comm: u64, src: u32, dst: u32, bytes: u64) {
        let (comm, start, estimate) = (CommId(comm), self.clock, direct(src, dst, bytes));
        self.push(EventKind::Put { comm, src: Rank(src), dst: Rank(dst), bytes, start, estimate });
    }

    fn run(&mut self, comm: u64, seq: u64, op: Collective, count: u64, size: u32) {
        let estimate = estimate(op, count);
        let start = self.clock;
        self.clock = start + estimate.total();
        self.push(EventKind::Operation {
            comm: CommId(comm),
            seq: SeqNo(seq),
            descriptor: descriptor(op, count),
            size,
            waits: waits(size as usize),
            start,
            estimate,
            chunks: count.div_ceil(1 << 18),
        });
    }
}

fn cluster() -> ClusterSummary {
    let node = |index: u32| NodeSummary {
        id: format!("node{index}"),
        host: "127.0.0.1".to_owned(),
        ranks: (index * 4..index * 4 + 4).map(GlobalRank).collect(),
        gpus: vec!["h100".to_owned(); 4],
    };
    let link = |kind: &str, bandwidth_gbps, latency_us, oversubscription| LinkSummary {
        kind: kind.to_owned(),
        bandwidth_gbps,
        latency_us,
        oversubscription,
    };
    ClusterSummary {
        name: "dev".to_owned(),
        source: "dev.yaml".to_owned(),
        nodes: vec![node(0), node(1)],
        intra_node: link("nvlink", 2400.0, 3.0, 1.0),
        inter_node: link("infiniband", 200.0, 15.0, 1.5),
    }
}

fn descriptor(op: Collective, count: u64) -> Descriptor {
    Descriptor {
        op,
        count,
        data_type: DataType::Float32,
        reduce: op.reduces().then_some(ReduceOp::Sum),
        root: op.has_root().then_some(Rank(0)),
    }
}

/// Made up, but in the shape of the model's: what a report does with it is the question here.
fn estimate(op: Collective, count: u64) -> Estimate {
    let flow = |src, dst, bytes| Flow { src: NodeIndex(src), dst: NodeIndex(dst), bytes };
    let direct = matches!(op, Collective::AllToAll | Collective::Gather | Collective::Scatter);
    Estimate {
        algorithm: if direct { "direct" } else { "ring" }.to_owned(),
        chosen_by: "model".to_owned(),
        base_latency: VirtualSpan::from_micros(100),
        transfer: VirtualSpan::from_picos(count * 280),
        contention: VirtualSpan::from_picos(count * 140),
        steps: 14,
        bottleneck: "inter_node".to_owned(),
        flows: vec![
            flow(0, 0, count * 21),
            flow(0, 1, count * 7),
            flow(1, 0, count * 7),
            flow(1, 1, count * 21),
        ],
    }
}

/// One hop between two of the eight ranks.
fn direct(src: u32, dst: u32, bytes: u64) -> Estimate {
    let (from, to) = (NodeIndex(src / 4), NodeIndex(dst / 4));
    let flows = if src == dst { Vec::new() } else { vec![Flow { src: from, dst: to, bytes }] };
    Estimate {
        algorithm: "direct".to_owned(),
        chosen_by: "model".to_owned(),
        base_latency: VirtualSpan::from_micros(10),
        transfer: VirtualSpan::from_picos(bytes * 45),
        contention: VirtualSpan::from_picos(bytes * 155),
        steps: 1,
        bottleneck: if from == to { "intra_node" } else { "inter_node" }.to_owned(),
        flows,
    }
}

/// The last rank to come waits for nobody.
fn waits(ranks: usize) -> Vec<HostSpan> {
    (0..ranks as u64).rev().map(|behind| HostSpan::from_nanos(behind * 250_000)).collect()
}

/// A training step or two, and an end in order.
fn healthy() -> Vec<Event> {
    let mut log = Log::joined();
    log.run(1, 0, Collective::Broadcast, 1 << 16, 8);
    for step in 0..3 {
        log.run(1, 1 + 2 * step, Collective::AllReduce, 1 << 20, 8);
        log.run(1, 2 + 2 * step, Collective::AllGather, 1 << 12, 8);
    }
    log.create(2, (4..8).map(GlobalRank).collect(), Some("no shared memory on rank 5's host"));
    log.run(2, 0, Collective::AllToAll, 1 << 10, 4);
    log.push(EventKind::Barrier { comm: CommId(1), waits: waits(8), bytes: 0, took: VirtualSpan::ZERO });
    let detail = "ranks 0, 1 and ranks 2, 3 use communicators 1 and 2 in different orders".to_owned();
    log.push(EventKind::Hazard { comm: CommId(2), detail: detail.clone() });
    log.push(EventKind::Hazard { comm: CommId(2), detail });
    for rank in 0..8 {
        log.push(EventKind::CommLeft { comm: CommId(1), rank: Rank(rank), aborted: false });
    }
    log.push(EventKind::Stopped { why: "idle".to_owned() });
    log.events
}

/// Rank 2's process dies after the first step; the others go on without it.
fn failed() -> Vec<Event> {
    let mut log = Log::joined();
    log.run(1, 0, Collective::AllReduce, 1 << 20, 8);
    log.push(EventKind::SessionClosed {
        session: SessionId(3),
        ending: Ending::Died,
        ranks: vec![GlobalRank(2)],
    });
    log.push(EventKind::Failure {
        comm: Some(CommId(1)),
        failure: FailureKind::RankDied,
        code: Code::RemoteError,
        detail: "rank 2 of communicator 1 (pid 4002) died while operation 1, ncclAllReduce(count=1048576, float32, sum), \
                 was being called"
            .to_owned(),
        culprits: vec![GlobalRank(2)],
        history: Vec::new(),
    });
    log.push(EventKind::CommLeft { comm: CommId(1), rank: Rank(0), aborted: true });
    log.create(2, [0, 1, 3, 4, 5, 6, 7].map(GlobalRank).to_vec(), None);
    log.run(2, 0, Collective::AllReduce, 1 << 20, 7);
    log.push(EventKind::Failure {
        comm: Some(CommId(2)),
        failure: FailureKind::CollectiveTimeout,
        code: Code::SystemError,
        detail: "ncclBroadcast on communicator 2 waited 60.0 s for rank 6 (alive and outside NCCL)"
            .to_owned(),
        culprits: vec![GlobalRank(7)],
        history: Vec::new(),
    });
    log.push(EventKind::Stopped { why: "SIGTERM".to_owned() });
    log.events
}

/// A pipeline of two stages: the ranks of a node pass activations to the other node's, one writes into a peer's window,
/// and in the end two wait for each other.
fn pipeline() -> Vec<Event> {
    let mut log = Log::joined();
    let parent = CommId(1);
    log.derive(2, &[0, 1, 2, 3], StagingKind::Shared, Origin::Split { parent, color: 0 }, Some("stage 0"));
    log.derive(3, &[4, 5, 6, 7], StagingKind::Shared, Origin::Split { parent, color: 1 }, Some("stage 1"));
    log.derive(4, &[0, 1, 2, 3, 4, 5, 6], StagingKind::Streamed, Origin::Shrink { parent }, None);
    log.derive(5, &[0, 1, 2, 3, 4, 5, 6, 7], StagingKind::Shared, Origin::Grow { parent: CommId(4) }, None);
    log.run(1, 0, Collective::AllReduce, 1 << 10, 8);
    for rank in 0..4 {
        log.send(1, rank, rank + 4, 1 << 20);
    }
    log.send(1, 0, 1, 0);
    log.send(1, 3, 3, 1 << 10);
    log.put(1, 5, 1, 4096);
    log.push(EventKind::Barrier { comm: CommId(1), waits: waits(8), bytes: 0, took: VirtualSpan::ZERO });
    log.push(EventKind::Failure {
        comm: Some(CommId(1)),
        failure: FailureKind::Deadlock,
        code: Code::InvalidUsage,
        detail: "deadlock on communicator 1: rank 0 waits in ncclSend(count=4, bfloat16, to rank 4) for rank 4, which waits in \
                 ncclSend(count=4, bfloat16, to rank 0) for rank 0"
            .to_owned(),
        culprits: vec![GlobalRank(0), GlobalRank(4)],
        history: [0, 4].map(history).to_vec(),
    });
    log.events
}

/// What rank 0 or 4 did before they waited for each other.
fn history(rank: u32) -> RankHistory {
    let peer = (rank + 4) % 8;
    let call =
        |name: &str, side: &str| format!("{name}(count=4, bfloat16, {side} rank {peer}) on communicator 1");
    RankHistory {
        rank: GlobalRank(rank),
        calls: 3,
        recent: vec![
            "ncclAllReduce(count=1024, float32, sum) on communicator 1".to_owned(),
            call("ncclRecv", "from"),
            call("ncclSend", "to"),
        ],
        doing: format!("waiting in {}", call("ncclSend", "to")),
    }
}

/// As above, of a run that moved no bytes.
fn payload_off() -> Vec<Event> {
    let mut log = Log { events: Log::joined().events, ..Log::default() };
    for event in &mut log.events {
        if let EventKind::CommCreated { staging, .. } = &mut event.kind {
            *staging = StagingKind::Off;
        }
    }
    log.run(1, 0, Collective::AllReduce, 1 << 10, 8);
    log.events
}
