//! Stories as people read them.

use fakegpu_proto::event::{ClusterSummary, Ending, LinkSummary, NodeSummary};
use fakegpu_proto::{
    Code, Direction, Estimate, Event, EventKind, Flow, Origin, RankHistory, StagingKind, Transfer,
};
use fakegpu_report::Fold;
use fakegpu_units::{
    CommId, DataType, HostSpan, HostTime, NodeIndex, Rank, SessionId, VirtualSpan, VirtualTime,
};

use super::*;

/// A log in the making, ten milliseconds between events.
#[derive(Default)]
struct Log(Vec<Event>);

impl Log {
    fn push(&mut self, kind: EventKind) {
        let at = HostTime::from_nanos(self.0.len() as u64 * 10_000_000);
        self.0.push(Event { at, kind });
    }

    /// Ranks on nodes of eight, in one communicator.
    fn joined(size: u32) -> Self {
        let mut log = Self::default();
        let node = |node: u32| NodeSummary {
            id: format!("node{node}"),
            ranks: (node * 8..(node * 8 + 8).min(size)).map(GlobalRank).collect(),
            ..NodeSummary::default()
        };
        let nodes = (0..size.div_ceil(8)).map(node).collect();
        let inter_node = LinkSummary { bandwidth_gbps: 200.0, ..LinkSummary::default() };
        let cluster =
            ClusterSummary { name: "dev".to_owned(), nodes, inter_node, ..ClusterSummary::default() };
        log.push(EventKind::Started { transport: "unix".to_owned(), cluster });
        for rank in 0..size {
            let session = SessionId(u64::from(rank) + 1);
            log.push(EventKind::SessionOpened { session, pid: 4000 + rank, program: "train".to_owned() });
            let (node, device) = (NodeIndex(rank / 8), rank % 8);
            log.push(EventKind::RankPlaced { rank: GlobalRank(rank), session, node, device });
        }
        log.push(EventKind::CommCreated {
            comm: CommId(1),
            members: (0..size).map(GlobalRank).collect(),
            waits: vec![HostSpan::ZERO; size as usize],
            staging: StagingKind::Shared,
            fallback: None,
            origin: Origin::Id,
            name: Some("world".to_owned()),
        });
        log
    }

    fn fail(
        &mut self,
        failure: FailureKind,
        code: Code,
        culprits: &[u32],
        detail: &str,
        history: Vec<RankHistory>,
    ) {
        self.push(EventKind::Failure {
            comm: Some(CommId(1)),
            failure,
            code,
            detail: detail.to_owned(),
            culprits: culprits.iter().copied().map(GlobalRank).collect(),
            history,
        });
    }

    fn die(&mut self, rank: u32) {
        let session = SessionId(u64::from(rank) + 1);
        self.push(EventKind::SessionClosed { session, ending: Ending::Died, ranks: vec![GlobalRank(rank)] });
    }

    fn story(&self) -> String {
        story(&Fold::from_events(&self.0).report(), Ink { coloured: false })
    }
}

const REDUCE: &str = "ncclAllReduce(count=1048576, float32, sum)";
const GATHER: &str = "ncclAllGather(count=4096, bfloat16)";

fn history(rank: u32, calls: u64, recent: &[&str], doing: &str) -> RankHistory {
    let recent = recent.iter().map(|call| format!("{call} on communicator 1")).collect();
    RankHistory { rank: GlobalRank(rank), calls, recent, doing: doing.to_owned() }
}

fn waiting(call: &str) -> String {
    format!("waiting in {call} on communicator 1")
}

fn mismatch() -> Log {
    let mut log = Log::joined(8);
    let others = |rank| history(rank, 43, &[REDUCE, GATHER, REDUCE, GATHER, REDUCE], &waiting(REDUCE));
    let odd = history(2, 44, &[REDUCE, GATHER, REDUCE, GATHER, GATHER, REDUCE], &waiting(GATHER));
    let all = [odd].into_iter().chain((0..8).filter(|rank| *rank != 2).map(others)).collect();
    log.fail(
        FailureKind::Mismatch,
        Code::InvalidUsage,
        &[2],
        "mismatch at operation 42 of communicator 1 (8 ranks): operation differs: rank 2 called ncclAllGather(count=4096, bfloat16); \
         ranks 0, 1, 3-7 called ncclAllReduce(count=1048576, float32, sum). Before it, all called ncclAllReduce(count=1048576, float32, sum), \
         ncclAllGather(count=4096, bfloat16), ncclAllReduce(count=1048576, float32, sum). All ranks must make the same calls in the same order",
        all,
    );
    log.die(0);
    log.die(5);
    log
}

#[test]
fn a_mismatch_shows_where_the_ranks_part() {
    insta::assert_snapshot!(mismatch().story());
}

#[test]
fn colours_are_for_terminals() {
    let report = Fold::from_events(&mismatch().0).report();
    let painted = story(&report, Ink { coloured: true });
    assert!(painted.starts_with("\u{1b}[1;31mFAILED"));
    assert!(painted.contains("\u{1b}[1;33m  → call 42"));
    assert!(!mismatch().story().contains('\u{1b}'));
}

#[test]
fn a_time_out_of_many_ranks_shows_who_had_not_called() {
    let mut log = Log::joined(64);
    let others =
        |rank| history(rank, 7, &[REDUCE, GATHER, REDUCE, GATHER, REDUCE, GATHER, REDUCE], &waiting(REDUCE));
    let late = history(63, 6, &[REDUCE, GATHER, REDUCE, GATHER, REDUCE, GATHER], "outside NCCL");
    let all = [late].into_iter().chain((0..15).map(others)).collect();
    log.fail(
        FailureKind::CollectiveTimeout,
        Code::SystemError,
        &[63],
        "timeout after 540.0 s: operation 6 of communicator 1, ncclAllReduce(count=1048576, float32, sum), was called by ranks 0-62 and \
         misses rank 63 (alive and outside NCCL, on node node7). If they are only slow, raise FAKEGPU_COLLECTIVE_TIMEOUT_MS",
        all,
    );
    insta::assert_snapshot!(log.story());
}

#[test]
fn a_death_comes_before_what_the_others_were_told() {
    let mut log = Log::joined(4);
    log.die(2);
    log.fail(
        FailureKind::RankDied,
        Code::RemoteError,
        &[2],
        "rank 2 of communicator 1 died (train, pid 4002) while operation 1, ncclAllGather(count=4096, bfloat16), was being called",
        [2, 0, 1, 3]
            .map(|rank| {
                let dead = rank == 2;
                let doing = if dead { "died".to_owned() } else { waiting(GATHER) };
                history(rank, if dead { 1 } else { 2 }, &[REDUCE, GATHER][..if dead { 1 } else { 2 }], &doing)
            })
            .to_vec(),
    );
    log.push(EventKind::CommCreated {
        comm: CommId(2),
        members: [0, 1, 3].map(GlobalRank).to_vec(),
        waits: Vec::new(),
        staging: StagingKind::Shared,
        fallback: None,
        origin: Origin::Shrink { parent: CommId(1) },
        name: None,
    });
    log.fail(FailureKind::CollectiveTimeout, Code::SystemError, &[], "later", Vec::new());
    insta::assert_snapshot!(log.story());
}

#[test]
fn a_circle_of_sends_is_told_without_blame_for_being_different() {
    let mut log = Log::joined(2);
    let side = |rank: u32| {
        let peer = 1 - rank;
        let (recv, send) = (
            format!("ncclRecv(count=4, bfloat16, from rank {peer})"),
            format!("ncclSend(count=4, bfloat16, to rank {peer})"),
        );
        let calls: &[&str] = if rank == 0 { &[REDUCE, &send] } else { &[REDUCE, &recv, &send] };
        history(rank, calls.len() as u64, calls, &waiting(&send))
    };
    log.fail(
        FailureKind::Deadlock,
        Code::InvalidUsage,
        &[0, 1],
        "deadlock: rank 0 waits in ncclSend(count=4, bfloat16, to rank 1) for rank 1, which waits in ncclSend(count=4, bfloat16, to rank 0) \
         for rank 0",
        vec![side(0), side(1)],
    );
    insta::assert_snapshot!(log.story());
}

/// A pair on communicator 1 between ranks 0 and 1 of four; the others wait in an all-reduce.
#[test]
fn sides_of_a_pair_that_differ_are_told_apart_from_who_only_waits() {
    let mut log = Log::joined(4);
    let (send, recv) = ("ncclSend(count=4, bfloat16, to rank 1)", "ncclRecv(count=8, bfloat16, from rank 0)");
    let all = [send, recv, REDUCE, REDUCE].into_iter().zip(0..);
    let all =
        all.map(|(call, rank)| history(rank, 4, &[GATHER, REDUCE, GATHER, call], &waiting(call))).collect();
    log.fail(
        FailureKind::Mismatch,
        Code::InvalidUsage,
        &[0, 1],
        "mismatch between rank 0 (pid 4000) and rank 1 (pid 4001) on communicator 1, in their transfer 0: count differs: rank 0 sends 8 \
         bytes by ncclSend(count=4, bfloat16, to rank 1), rank 1 receives 16 bytes by ncclRecv(count=8, bfloat16, from rank 0). Both sides \
         of a transfer must have the same size",
        all,
    );
    insta::assert_snapshot!(log.story());
}

#[test]
fn a_circle_over_two_communicators_is_one_failure_of_all_its_ranks() {
    let mut log = Log::joined(2);
    let on = |rank: u32, comm: u32| RankHistory {
        rank: GlobalRank(rank),
        calls: 2,
        recent: vec![
            "ncclCommSplit(color=0, key=0) on communicator 1".to_owned(),
            format!("{REDUCE} on communicator {comm}"),
        ],
        doing: format!("waiting in {REDUCE} on communicator {comm}"),
    };
    for culprit in [0, 1] {
        log.fail(
            FailureKind::Deadlock,
            Code::InvalidUsage,
            &[culprit],
            "deadlock: rank 0 waits on communicator 1 for rank 1; rank 1 waits on communicator 2 for rank 0",
            vec![on(0, 1), on(1, 2)],
        );
    }
    insta::assert_snapshot!(log.story());
}

/// All ranks that are left end within milliseconds.
fn stopped_while_rank_3_is_elsewhere() -> Log {
    let mut log = Log::joined(4);
    log.die(2);
    let all = [2, 0, 1, 3].map(|rank| {
        let (calls, doing) = match rank {
            2 => (2, "died".to_owned()),
            3 => (1, "outside NCCL".to_owned()),
            _ => (2, waiting(GATHER)),
        };
        history(rank, calls as u64, &[REDUCE, GATHER][..calls], &doing)
    });
    log.fail(FailureKind::RankDied, Code::RemoteError, &[2], "rank 2 died", all.to_vec());
    log
}

#[test]
fn a_job_that_was_stopped_is_told_by_where_it_stood_and_not_by_who_ended_first() {
    let mut log = stopped_while_rank_3_is_elsewhere();
    [0, 1, 3].into_iter().for_each(|rank| log.die(rank));
    insta::assert_snapshot!(log.story());
}

#[test]
fn the_late_rank_of_a_stopped_job_is_named_also_where_it_ended_first() {
    let mut log = Log::joined(3);
    log.die(1);
    let all = [1, 0, 2].map(|rank| {
        let (calls, doing) = if rank == 1 { (1, "died".to_owned()) } else { (2, waiting(GATHER)) };
        history(rank, calls as u64, &[REDUCE, GATHER][..calls], &doing)
    });
    log.fail(FailureKind::RankDied, Code::RemoteError, &[1], "rank 1 died", all.to_vec());
    [0, 2].into_iter().for_each(|rank| log.die(rank));
    let story = log.story();
    assert!(story.starts_with("STOPPED"), "{story}");
    assert!(story.contains("look at what happened in rank 1 instead of a call"), "{story}");
    // Where ranks send and receive, how far a dead one should have come is not known, and nothing is claimed.
    let send = "ncclSend(count=4, bfloat16, to rank 0)";
    let mut log = Log::joined(2);
    log.die(1);
    let all =
        vec![history(1, 1, &[send], "died"), history(0, 3, &[REDUCE, GATHER, REDUCE], &waiting(REDUCE))];
    log.fail(FailureKind::RankDied, Code::RemoteError, &[1], "rank 1 died", all);
    log.die(0);
    assert!(log.story().contains("the calls above say how far each rank came"), "{}", log.story());
}

#[test]
fn a_rank_that_lives_on_or_ends_later_makes_the_first_death_the_cause() {
    let mut log = stopped_while_rank_3_is_elsewhere();
    log.die(0);
    assert!(log.story().contains("rank 2 died (train, pid 4002, node0)"), "{}", log.story());
    // The launcher ends the others once it has seen the first.
    (0..10).for_each(|_| {
        log.push(EventKind::Barrier { comm: CommId(1), waits: Vec::new(), bytes: 0, took: VirtualSpan::ZERO })
    });
    [1, 3].into_iter().for_each(|rank| log.die(rank));
    assert!(log.story().contains("rank 2 died (train, pid 4002, node0)"), "{}", log.story());
}

#[test]
fn of_a_rank_that_ended_in_order_it_is_not_said_that_it_never_called() {
    let mut log = Log::joined(3);
    let gone = RankHistory { rank: GlobalRank(2), doing: "had left".to_owned(), ..RankHistory::default() };
    let late =
        RankHistory { rank: GlobalRank(1), doing: "outside NCCL".to_owned(), ..RankHistory::default() };
    let all = vec![late, gone, history(0, 1, &[REDUCE], &waiting(REDUCE))];
    log.fail(FailureKind::CollectiveTimeout, Code::SystemError, &[1], "rank 1 is late", all);
    let story = log.story();
    assert!(story.contains("  → call 0        rank 1  had not called"), "{story}");
    assert_eq!(story.matches("had not called").count(), 1, "{story}");
    assert!(story.contains("rank 2  had left"), "{story}");
}

#[test]
fn groups_of_ranks_with_communicators_of_their_own_do_not_part() {
    let on = |rank: u32, comm: u32, last: &str| RankHistory {
        rank: GlobalRank(rank),
        calls: 2,
        recent: vec![format!("{REDUCE} on communicator {comm}"), last.to_owned()],
        doing: String::new(),
    };
    let mut log = Log::joined(4);
    let world = format!("{GATHER} on communicator 1");
    let side = format!("{GATHER} on communicator 3");
    let all = vec![on(3, 3, &side), on(0, 2, &world), on(1, 2, &world), on(2, 3, &world)];
    log.fail(FailureKind::CollectiveTimeout, Code::SystemError, &[3], "rank 3 is elsewhere", all);
    insta::assert_snapshot!(log.story());
}

#[test]
fn ranks_that_have_called_very_different_numbers_of_times_are_not_compared() {
    let mut log = Log::joined(3);
    let none =
        RankHistory { rank: GlobalRank(2), doing: "outside NCCL".to_owned(), ..RankHistory::default() };
    let all = vec![
        none,
        history(0, 1 << 40, &[GATHER, REDUCE], &waiting(REDUCE)),
        history(1, 100, &[REDUCE, REDUCE], &waiting(REDUCE)),
    ];
    log.fail(FailureKind::CollectiveTimeout, Code::SystemError, &[2], "rank 2 has called nothing", all);
    insta::assert_snapshot!(log.story());
}

#[test]
fn what_failed_before_there_was_a_communicator_is_told_without_history() {
    let mut log = Log::default();
    log.push(EventKind::Failure {
        comm: None,
        failure: FailureKind::JoinTimeout,
        code: Code::SystemError,
        detail: "timeout after 60.0 s: 3 of 4 ranks joined, rank 2 did not".to_owned(),
        culprits: vec![GlobalRank(2)],
        history: Vec::new(),
    });
    insta::assert_snapshot!(log.story());
}

#[test]
fn a_run_without_failure_is_summed_up() {
    let mut log = Log::joined(10);
    let bytes = 1 << 20;
    let sent = EventKind::Transfer {
        comm: CommId(1),
        src: Rank(0),
        dst: Rank(9),
        transfer: Transfer {
            direction: Direction::Send,
            peer: Rank(9),
            count: bytes,
            data_type: DataType::Int8,
            of: None,
        },
        send_wait: HostSpan::ZERO,
        recv_wait: HostSpan::from_millis(7),
        start: VirtualTime::ZERO,
        estimate: Estimate {
            transfer: VirtualSpan::from_micros(50),
            contention: VirtualSpan::from_micros(20),
            bottleneck: "inter_node".to_owned(),
            flows: vec![Flow { src: NodeIndex(0), dst: NodeIndex(1), bytes }],
            ..Estimate::default()
        },
        chunks: 1,
    };
    for kind in [
        sent,
        EventKind::Barrier {
            comm: CommId(1),
            waits: (0..10).map(|rank| HostSpan::from_millis(rank * 5)).collect(),
            bytes: 0,
            took: VirtualSpan::ZERO,
        },
        EventKind::Hazard { comm: CommId(1), detail: "ranks group the same calls differently".to_owned() },
        EventKind::Stopped { why: "idle".to_owned() },
    ] {
        log.push(kind);
    }
    insta::assert_snapshot!(log.story());
}

#[test]
fn a_run_that_moved_no_bytes_says_so_first() {
    let mut log = Log::joined(2);
    if let Some(Event { kind: EventKind::CommCreated { staging, .. }, .. }) = log.0.last_mut() {
        *staging = StagingKind::Off;
    }
    assert!(log.story().starts_with("payload off: "));
}

#[test]
fn whatever_happened_fits_a_screen() {
    for kind in
        [FailureKind::Mismatch, FailureKind::Deadlock, FailureKind::JoinRefused, FailureKind::RankDied]
    {
        let mut log = Log::joined(600);
        let all = (0..600).map(|rank| {
            let calls: Vec<String> = (0..40)
                .map(|call| format!("ncclAllReduce(count={}, float32, {})", rank * call, "x".repeat(300)))
                .collect();
            let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
            history(rank, 1 << 40, &calls, &format!("waiting {rank} {}", "y".repeat(300)))
        });
        let culprits: Vec<u32> = (0..600).step_by(2).collect();
        let all = all.collect();
        log.fail(kind, Code::InternalError, &culprits, &"\u{1b}[2Jword ".repeat(2_000), all);
        log.fail(kind, Code::InternalError, &culprits, "again", Vec::new());
        for rank in (0..600).step_by(3) {
            log.die(rank);
        }
        let story = log.story();
        assert!(story.lines().count() <= 40, "{story}");
        assert!(story.lines().all(|line| line.chars().count() <= 100), "{story}");
        assert!(!story.contains('\u{1b}'));
    }
}

#[test]
fn what_is_no_report_is_told_what_it_is() {
    let told = |bytes: &[u8]| parse("x", bytes).unwrap_err().to_string();
    let mut event = serde_json::to_vec(&Log::joined(1).0[0]).unwrap();
    event.push(b'\n');
    let all = [
        told(b"\xff\xfe"),
        told(b"# FakeGPU cluster report\n"),
        told(b"{\"a\": 1}"),
        told(b"{\"schema_version\": \"cluster_report.v9\"}"),
        told(b"{\"schema_version\": \"cluster_report.v1\"}"),
        told(&event),
        told(&[event.clone(), event.clone()].concat()),
    ];
    insta::assert_snapshot!(all.join("\n"));
}
