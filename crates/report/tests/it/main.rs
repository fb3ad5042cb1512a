//! Reports of worked logs, and laws of the fold.

mod laws;
mod shape;
mod worked;

use fakegpu_proto::event::{ClusterSummary, Ending, FailureKind, LinkSummary, NodeSummary};
use fakegpu_proto::{Code, Descriptor, Estimate, Event, EventKind, Flow, StagingKind};
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
        self.push(EventKind::CommCreated { comm: CommId(comm), members, waits, staging, fallback });
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
    log.push(EventKind::Barrier { comm: CommId(1), waits: waits(8) });
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
    });
    log.push(EventKind::Stopped { why: "SIGTERM".to_owned() });
    log.events
}
