//! The sentences, as people read them.

use fakegpu_coordinator::{Coordinator, Free, Options, PeerId};
use fakegpu_proto::{
    Action, DataHello, Direction, EventKind, Fault, Hello, JoinComm, Lane, Release, StagingOutcome,
    ToCoordinator, ToRank, Transfer, UniqueId,
};
use fakegpu_units::{Collective, CommId, DataType, HostTime, Rank, SessionId};

use crate::world::{World, all_reduce, broadcast, hello};

#[test]
fn ranks_are_grouped_by_what_they_called_the_minority_first() {
    let mut world = World::with_comm(8);
    for rank in 0..8 {
        world.call(rank, &[all_reduce(16, DataType::Float32)]);
    }
    world.replies();
    world.call(0, &[broadcast(25_503_912, DataType::Float16, 0)]);
    for rank in 1..8 {
        world.call(rank, &[broadcast(53, DataType::Int64, 0)]);
    }
    insta::assert_snapshot!(world.common_fault().detail, @"mismatch at operation 1 of communicator 1 (8 ranks): count differs: rank 0 called ncclBroadcast(count=25503912, float16, root=0); ranks 1-7 called ncclBroadcast(count=53, int64, root=0). Before it, all called ncclAllReduce(count=16, float32, sum). All ranks must make the same calls in the same order");
}

#[test]
fn a_conflict_waits_briefly_for_the_others_and_then_names_who_had_not_called() {
    let mut world = World::with_comm(4);
    world.call(0, &[all_reduce(16, DataType::Float32)]);
    world.call(3, &[all_reduce(16, DataType::Int32)]);
    assert!(world.replies().is_empty(), "the others have 200 ms to come");
    world.pass(200);
    insta::assert_snapshot!(world.common_fault().detail, @"mismatch at operation 0 of communicator 1 (4 ranks): datatype differs: rank 3 called ncclAllReduce(count=16, int32, sum); rank 0 called ncclAllReduce(count=16, float32, sum); ranks 1, 2 had not called yet. It is the communicator's first operation. All ranks must make the same calls in the same order");
}

#[test]
fn a_rank_that_skipped_one_is_called_one_ahead() {
    let mut world = World::with_comm(3);
    let (first, second) = (all_reduce(1025, DataType::Float32), all_reduce(262_144, DataType::Float32));
    world.call(0, &[first, second]);
    world.call(2, &[first, second]);
    world.call(1, &[second]);
    insta::assert_snapshot!(world.common_fault().detail, @"mismatch at operation 0 of communicator 1 (3 ranks): count differs: rank 1 called ncclAllReduce(count=262144, float32, sum); ranks 0, 2 called ncclAllReduce(count=1025, float32, sum). What rank 1 called is what the others call next: it is one operation ahead. It is the communicator's first operation. After it, rank 0 called ncclAllReduce(count=262144, float32, sum). All ranks must make the same calls in the same order");
}

#[test]
fn equal_bytes_of_another_type_are_no_mismatch_where_bytes_only_move() {
    let mut world = World::with_comm(2);
    world.call(0, &[broadcast(8, DataType::Float32, 0)]);
    world.call(1, &[broadcast(16, DataType::BFloat16, 0)]);
    assert!(world.replies().iter().all(|(_, reply)| *reply == ToRank::Go(Release::Rest)));
}

#[test]
fn a_group_is_all_or_nothing() {
    let mut world = World::with_comm(2);
    let good = all_reduce(4, DataType::Float32);
    world.call(0, &[good, all_reduce(5, DataType::Float32)]);
    world.call(1, &[good, all_reduce(6, DataType::Float32)]);
    let replies = world.replies();
    assert!(!replies.iter().any(|(_, reply)| matches!(reply, ToRank::Go(_))), "{replies:?}");
    assert!(
        replies
            .iter()
            .any(|(_, reply)| matches!(reply, ToRank::Failed(fault) if fault.detail.contains("operation 1")))
    );
}

#[test]
fn ranks_that_group_differently_are_run_one_by_one() {
    let mut world = World::with_comm(2);
    let (a, b) = (all_reduce(4, DataType::Float32), all_reduce(5, DataType::Float32));
    world.call(0, &[a, b]);
    world.call(1, &[a]);
    assert_eq!(
        world.replies(),
        vec![(0, ToRank::Go(Release::Some(vec![0]))), (1, ToRank::Go(Release::Rest))]
    );
    world.call(1, &[b]);
    assert_eq!(world.replies(), vec![(0, ToRank::Go(Release::Rest)), (1, ToRank::Go(Release::Rest))]);
    assert_eq!(world.hazards(), 1);
}

#[test]
fn one_group_over_two_communicators_may_list_them_in_any_order() {
    let mut world = World::with_comm(2);
    world.join("second", &[0, 1]);
    world.replies();
    let op = all_reduce(4, DataType::Float32);
    let on = |comm, rank| (CommId(comm), Rank(rank), op.into());
    world.say(0, ToCoordinator::Submit { ops: vec![on(1, 0), on(2, 0)], thread: 1 });
    world.say(1, ToCoordinator::Submit { ops: vec![on(2, 1), on(1, 1)], thread: 1 });
    assert_eq!(world.replies(), vec![(0, ToRank::Go(Release::Rest)), (1, ToRank::Go(Release::Rest))]);
}

#[test]
fn a_late_rank_is_described_by_what_it_is_doing() {
    let mut world = World::with_comm(4);
    world.join("pair", &[2, 3]);
    world.replies();
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    world.call(1, &[all_reduce(4, DataType::Float32)]);
    world.call_on(2, 3, Rank(1), &[broadcast(1, DataType::Int8, 0)]);
    world.pass(2_000);
    insta::assert_snapshot!(world.notices(), @"
    still waiting after 2.0 s: operation 0 of communicator 1, ncclAllReduce(count=4, float32, sum), was called by ranks 0, 1 and misses rank 2 (alive and outside NCCL, on node node0), rank 3 (waiting in ncclBroadcast(count=1, int8, root=0) on communicator 2)
    still waiting after 2.0 s: operation 0 of communicator 2, ncclBroadcast(count=1, int8, root=0), was called by rank 1 and misses rank 0 (alive and outside NCCL, on node node0)
    ");
}

#[test]
fn a_living_rank_that_computes_is_given_nine_minutes() {
    let mut world = World::with_comm(2);
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    world.pass(61_000);
    assert!(
        !world.replies().iter().any(|(_, reply)| matches!(reply, ToRank::Failed(_))),
        "NCCL would wait, too"
    );
    world.pass(480_000);
    insta::assert_snapshot!(world.common_fault().detail, @"timeout after 541.0 s: operation 0 of communicator 1, ncclAllReduce(count=4, float32, sum), was called by rank 0 and misses rank 1 (alive and outside NCCL, on node node0). If they are only slow, raise FAKEGPU_COLLECTIVE_TIMEOUT_MS");
}

#[test]
fn a_death_names_process_and_place() {
    let mut world = World::with_comm(3);
    for rank in 0..3 {
        world.call(rank, &[all_reduce(4, DataType::Float32)]);
    }
    world.replies();
    world.call(0, &[all_reduce(8, DataType::Float32)]);
    world.coordinator.handle_disconnect(world.now, PeerId(2));
    insta::assert_snapshot!(world.common_fault().detail, @"rank 2 of communicator 1 (pid 4002, train) died while operation 1, ncclAllReduce(count=8, float32, sum), was being called");
}

#[test]
fn two_processes_that_claim_one_rank_are_both_named() {
    let mut world = World::new(3);
    for of in 0..2 {
        let join =
            JoinComm { unique_id: UniqueId::new(b"id"), size: 3, rank: Rank(1), ..JoinComm::default() };
        world.say(of, ToCoordinator::Join(Box::new(join)));
    }
    insta::assert_snapshot!(world.common_fault().detail, @"rank 1 of a communicator of 3 (id 08b72e07) is claimed twice: by pid 4000, train and by pid 4001, train. Give every process its own rank");
}

#[test]
fn ranks_with_different_ids_are_told_of_each_other() {
    let mut world = World::new(2);
    for (of, id) in [(0, "first"), (1, "other")] {
        let join = JoinComm {
            unique_id: UniqueId::new(id.as_bytes()),
            size: 2,
            rank: Rank(of),
            ..JoinComm::default()
        };
        world.say(of, ToCoordinator::Join(Box::new(join)));
    }
    world.pass(60_000);
    let faults: Vec<String> = world
        .replies()
        .into_iter()
        .filter_map(|(_, reply)| if let ToRank::Failed(fault) = reply { Some(fault.detail) } else { None })
        .collect();
    assert!(faults[0].contains("waits with another unique id") && faults.len() == 2, "{faults:#?}");
}

#[test]
fn a_latecomer_to_a_failed_meeting_is_told_at_once_and_the_id_can_be_used_again() {
    let mut world = World::new(3);
    let join = |rank: u32| {
        let unique_id = UniqueId::new(b"id");
        ToCoordinator::Join(Box::new(JoinComm {
            unique_id,
            size: 3,
            rank: Rank(rank),
            ..JoinComm::default()
        }))
    };
    world.say(0, join(0));
    world.pass(60_000);
    world.replies();
    for rank in [1, 2] {
        world.say(rank, join(rank));
        let replies = world.replies();
        assert!(
            matches!(&replies[0].1, ToRank::Failed(fault) if fault.detail.contains("timeout")),
            "{replies:?}"
        );
    }
    for rank in 0..3 {
        world.say(rank, join(rank));
    }
    assert!(world.replies().iter().all(|(_, reply)| matches!(reply, ToRank::Joined { .. })));
}

#[test]
fn rank_0s_reason_for_streaming_is_the_one_told_whichever_came_first() {
    let mut world = World::new(3);
    for rank in 0..3 {
        let unique_id = UniqueId::new(b"id");
        let join = JoinComm {
            unique_id,
            size: 3,
            rank: Rank(rank),
            listener: Some("@s".into()),
            ..JoinComm::default()
        };
        world.say(rank, ToCoordinator::Join(Box::new(join)));
    }
    for (rank, why) in [(2, "connection reset"), (0, "file size limit"), (1, "end of file")] {
        let outcome = StagingOutcome::Refused(why.into());
        world.say(rank, ToCoordinator::Staging { comm: CommId(1), rank: Rank(rank), outcome });
    }
    let mut told = Vec::new();
    while let Some(event) = world.coordinator.poll_event() {
        if let EventKind::CommCreated { fallback, .. } = event.kind {
            told.push(fallback);
        }
    }
    assert_eq!(told, [Some("rank 0: file size limit".to_owned())]);
}

#[test]
fn a_session_may_act_only_for_its_own_ranks() {
    let mut world = World::with_comm(2);
    world.call_on(1, 0, Rank(1), &[all_reduce(4, DataType::Float32)]);
    let replies = world.replies();
    assert!(
        matches!(&replies[0].1, ToRank::Failed(fault) if fault.detail.contains("belongs to another process")),
        "{replies:?}"
    );
}

#[test]
fn a_wrong_token_is_refused_and_never_repeated() {
    let options = Options { token: Some("correct horse".into()), ..Options::default() };
    let mut coordinator = Coordinator::new(options, Box::new(Free));
    coordinator.handle_connect(HostTime::ZERO, PeerId(1), true, 0);
    let hello = Hello { token: Some("battery staple".into()), ..hello(0) };
    coordinator.handle_message(HostTime::ZERO, PeerId(1), 1, ToCoordinator::Hello(Box::new(hello)));
    let reply = format!("{:?}", coordinator.poll_transmit().unwrap());
    assert!(
        reply.contains("token is wrong") && !reply.contains("horse") && !reply.contains("staple"),
        "{reply}"
    );
    assert_eq!(coordinator.session_count(), 0);
}

fn join_as(id: &[u8], size: u32, rank: u32) -> ToCoordinator {
    let unique_id = UniqueId::new(id);
    ToCoordinator::Join(Box::new(JoinComm { unique_id, size, rank: Rank(rank), ..JoinComm::default() }))
}

#[test]
fn a_cancelled_join_is_answered_and_leaves_nothing_behind() {
    let mut world = World::new(2);
    world.replies();
    let cancel = || ToCoordinator::CancelJoin { unique_id: UniqueId::new(b"id"), rank: Rank(0) };
    world.say(0, join_as(b"id", 2, 0));
    world.say(1, cancel());
    assert_eq!(world.replies(), vec![(1, ToRank::Done)], "another process's join is not ours to cancel");
    world.say(0, cancel());
    let fault = Fault::usage("the join was cancelled");
    assert_eq!(world.replies(), vec![(0, ToRank::Failed(fault)), (0, ToRank::Done)]);
    assert_eq!(world.coordinator.poll_timeout(), None);
    for rank in 0..2 {
        world.say(rank, join_as(b"id", 2, rank));
    }
    assert!(world.replies().iter().all(|(_, reply)| matches!(reply, ToRank::Joined { .. })));
}

#[test]
fn a_rank_that_cannot_move_bytes_fails_its_communicator_by_name() {
    let mut world = World::with_comm(3);
    let broken = |why: String| ToCoordinator::Broken { comm: CommId(1), rank: Rank(1), why };
    world.say(0, broken("not mine to say".into()));
    assert_eq!(world.refusal(), "rank 1 of communicator 1 belongs to another process");
    world.say(1, broken("x".repeat(5_000)));
    let fault = world.common_fault();
    assert_eq!(fault.detail.len(), "rank 1 (pid 4001) can move no bytes in communicator 1: ".len() + 1_000);
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    assert_eq!(world.refusal(), fault.detail);
}

#[test]
fn a_rank_that_never_maps_the_segment_is_named_after_half_a_minute() {
    let mut world = World::new(3);
    for rank in 0..3 {
        world.say(rank, join_as(b"id", 3, rank));
    }
    for rank in [0, 2] {
        let told =
            ToCoordinator::Staging { comm: CommId(1), rank: Rank(rank), outcome: StagingOutcome::Mapped };
        world.say(rank, told);
    }
    world.replies();
    world.pass(30_000);
    insta::assert_snapshot!(world.common_fault().detail, @"timeout after 30.0 s: communicator 1 was being made, and rank 1 (pid 4001) did not say whether it can map the shared segment: look whether it is stopped");
    assert_eq!(world.coordinator.poll_timeout(), None);
}

#[test]
fn a_failure_reaches_whatever_groups_tie_to_it_and_answers_each_request_once() {
    let mut world = World::new(2);
    for id in ["first", "second", "third"] {
        world.join(id, &[0, 1]);
    }
    world.replies();
    let first_request = world.requests + 1;
    let on = |comm, rank, count| (CommId(comm), Rank(rank), all_reduce(count, DataType::Float32).into());
    // Two threads of rank 0: their groups meet in the second communicator only, in different operations.
    world.say(0, ToCoordinator::Submit { ops: vec![on(1, 0, 4), on(2, 0, 4)], thread: 1 });
    world.say(0, ToCoordinator::Submit { ops: vec![on(2, 0, 4), on(3, 0, 4)], thread: 2 });
    world.say(1, ToCoordinator::Submit { ops: vec![on(1, 1, 5)], thread: 1 });
    world.pass(200);
    let answers = world.answers();
    let answered: Vec<u64> = answers.iter().map(|(_, request, _)| *request).collect();
    let mut sorted = answered.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (first_request..first_request + 3).collect::<Vec<_>>(), "{answers:#?}");
    assert!(answers.iter().all(|(.., reply)| matches!(reply, ToRank::Failed(_))), "{answers:#?}");
    world.call_on(3, 1, Rank(1), &[all_reduce(4, DataType::Float32)]);
    insta::assert_snapshot!(world.refusal(), @"groups tie it to communicator 1, which failed: mismatch at operation 0 of communicator 1 (2 ranks): count differs: rank 1 called ncclAllReduce(count=5, float32, sum); rank 0 called ncclAllReduce(count=4, float32, sum). It is the communicator's first operation. All ranks must make the same calls in the same order");
    assert_eq!((world.coordinator.stats().pending, world.coordinator.poll_timeout()), (0, None));
}

/// Ranks 0 and 1 share communicator 1, ranks 0 and 2 communicator 2; rank 0's group ties an operation of each,
/// and rank 2 has called its own.
fn tied_pair() -> World {
    let mut world = World::new(3);
    world.join("first", &[0, 1]);
    world.join("second", &[0, 2]);
    world.replies();
    let op = all_reduce(4, DataType::Float32);
    world.call_on(2, 2, Rank(1), &[op]);
    world.pass(1);
    world.say(
        0,
        ToCoordinator::Submit {
            ops: vec![(CommId(1), Rank(0), op.into()), (CommId(2), Rank(0), op.into())],
            thread: 1,
        },
    );
    assert!(world.replies().is_empty());
    world
}

#[test]
fn an_operation_that_becomes_the_oldest_gets_a_deadline_whoever_made_it_so() {
    let mut world = tied_pair();
    // Another thread of rank 0 queues behind the tied operation of communicator 2.
    world.call_on(2, 0, Rank(0), &[all_reduce(8, DataType::Float32)]);
    world.call_on(1, 1, Rank(1), &[all_reduce(4, DataType::Float32)]);
    assert_eq!(world.replies().len(), 3, "both operations ran");
    world.pass(541_000);
    world.pass(541_000);
    assert!(world.refusals().concat().contains("operation 1 of communicator 2"));
}

#[test]
fn an_operation_that_only_waits_behind_a_late_one_waits_as_long_and_says_so() {
    let mut world = tied_pair();
    // Another thread of rank 0 queues behind the group's operation of communicator 2, before which it called another.
    world.call_on(1, 1, Rank(1), &[all_reduce(4, DataType::Float32)]);
    world.replies();
    world.call_on(1, 0, Rank(0), &[all_reduce(8, DataType::Float32)]);
    let submission = world.requests;
    world.say(0, ToCoordinator::PutOff { submission });
    world.call_on(2, 0, Rank(0), &[all_reduce(8, DataType::Float32)]);
    world.call_on(2, 2, Rank(1), &[all_reduce(8, DataType::Float32)]);
    world.pass(2_000);
    insta::assert_snapshot!(world.notices(), @"
    still waiting after 2.0 s: operation 1 of communicator 2, ncclAllReduce(count=8, float32, sum), was called by all its ranks, but what they called before it or in one group with it is not complete: operation 1 of communicator 1, ncclAllReduce(count=8, float32, sum), was called by rank 0 and misses rank 1 (alive and outside NCCL, on node node0)
    still waiting after 2.0 s: operation 1 of communicator 1, ncclAllReduce(count=8, float32, sum), was called by rank 0 and misses rank 1 (alive and outside NCCL, on node node0)
    ");
    world.pass(60_000);
    assert!(!world.replies().iter().any(|(_, reply)| matches!(reply, ToRank::Failed(_))), "rank 1 computes");
    world.pass(480_000);
    let replies = world.replies();
    let failed: Vec<&str> = replies
        .iter()
        .filter_map(|(_, reply)| if let ToRank::Failed(fault) = reply { Some(&*fault.detail) } else { None })
        .collect();
    insta::assert_snapshot!(failed.join("\n"), @"timeout after 542.0 s: operation 1 of communicator 1, ncclAllReduce(count=8, float32, sum), was called by rank 0 and misses rank 1 (alive and outside NCCL, on node node0). If they are only slow, raise FAKEGPU_COLLECTIVE_TIMEOUT_MS");
    let gone = replies.iter().filter(|(_, reply)| matches!(reply, ToRank::Go(_)));
    assert_eq!(gone.count(), 2, "what comes after a call that failed goes: {replies:#?}");
}

#[test]
fn ranks_of_one_process_are_not_taken_for_one() {
    let mut world = World::new(2);
    world.join_devices("id", &[(0, 0), (0, 1), (1, 0)]);
    world.replies();
    let (a, b) = (all_reduce(4, DataType::Float32), all_reduce(5, DataType::Float32));
    world.call_on(1, 1, Rank(2), &[a, b]);
    world.call_on(1, 0, Rank(0), &[a, b]);
    assert_eq!(world.hazards(), 0, "rank 1 is late, and nothing is asymmetric");
    world.pass(2_000);
    insta::assert_snapshot!(world.notices(), @"still waiting after 2.0 s: operation 0 of communicator 1, ncclAllReduce(count=4, float32, sum), was called by ranks 0, 2 and misses rank 1 (alive and outside NCCL, on node node0)");
    world.pass(60_000);
    assert!(!world.replies().iter().any(|(_, reply)| matches!(reply, ToRank::Failed(_))), "rank 1 computes");
    world.call_on(1, 0, Rank(1), &[a, b]);
    assert!(world.replies().iter().all(|(_, reply)| *reply == ToRank::Go(Release::Rest)));
}

#[test]
fn a_rank_at_a_barrier_or_in_a_join_is_blocked() {
    let mut world = World::with_comm(3);
    world.join("pair", &[0, 1]);
    world.join("other", &[0, 2]);
    world.replies();
    world.say(1, ToCoordinator::Barrier { comm: CommId(2), rank: Rank(1) });
    world.say(2, join_as(b"never", 2, 0));
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    world.pass(2_000);
    insta::assert_snapshot!(world.notices(), @"
    still waiting after 2.0 s: operation 0 of communicator 1, ncclAllReduce(count=4, float32, sum), was called by rank 0 and misses rank 1 (waiting at the barrier of communicator 2), rank 2 (waiting in ncclCommInitRank for another communicator)
    still waiting after 2.0 s: a communicator of 2 (id cbd8031e) has rank 0, and misses rank 1, which never called ncclCommInitRank with this id (a process of that rank is alive and connected)
    ");
    world.pass(58_000);
    assert!(world.refusals().iter().any(|detail| detail.contains("ncclAllReduce")), "nobody computes");
}

#[test]
fn a_failed_meeting_is_forgotten_after_the_join_timeout() {
    let mut world = World::new(2);
    world.say(0, join_as(b"id", 2, 0));
    world.pass(60_000);
    world.replies();
    world.pass(60_001);
    for rank in [1, 0] {
        world.say(rank, join_as(b"id", 2, rank));
    }
    assert!(world.replies().iter().all(|(_, reply)| matches!(reply, ToRank::Joined { .. })));
}

#[test]
fn a_refused_rank_is_told_once() {
    let mut world = World::new(2);
    world.replies();
    world.say(0, join_as(b"id", 2, 0));
    world.say(1, join_as(b"id", 3, 1));
    assert_eq!(world.refusals().len(), 2);
    // Both come again, the second with the right size now.
    for rank in [1, 0] {
        world.say(rank, join_as(b"id", 2, rank));
    }
    assert!(world.replies().iter().all(|(_, reply)| matches!(reply, ToRank::Joined { .. })));
}

#[test]
fn what_a_peer_may_make_us_keep_is_bounded() {
    let mut world = World::new(64);
    world.replies();
    let long = ToCoordinator::Join(Box::new(JoinComm {
        unique_id: UniqueId::new(b"id"),
        size: 2,
        rank: Rank(0),
        listener: Some("@".repeat(109)),
        ..JoinComm::default()
    }));
    world.say(0, long);
    assert_eq!(world.refusal(), "the private socket's name has 109 bytes, at most 108 are accepted");
    world.say(0, join_as(b"id", 4_097, 0));
    assert_eq!(
        world.refusal(),
        "rank 0 of 4097 is no rank: a communicator has 1 to 4096 ranks, numbered from 0"
    );
    world.join("id", &(0..64).collect::<Vec<_>>());
    world.replies();
    world.call(0, &vec![all_reduce(4, DataType::Float32); (1 << 16) + 1]);
    assert_eq!(
        world.refusal(),
        "rank 0 is more than 65536 operations ahead of communicator 1, which has 64 ranks: split the group"
    );
    world.coordinator.handle_connect(world.now, PeerId(100), true, 100);
    world.say(100, ToCoordinator::Hello(Box::new(Hello { program: "x".repeat(513), ..hello(100) })));
    assert_eq!(world.refusal(), "the hello's `program` has 513 bytes, at most 512 are accepted");
}

#[test]
fn a_data_connection_of_a_failed_communicator_is_told_its_fault() {
    let mut world = World::with_comm(2);
    world.say(1, ToCoordinator::Broken { comm: CommId(1), rank: Rank(1), why: "no memory".into() });
    world.replies();
    world.coordinator.handle_connect(world.now, PeerId(100), true, 100);
    world.say(
        100,
        ToCoordinator::Data(DataHello {
            session: SessionId(1),
            secret: 0,
            comm: CommId(1),
            rank: Rank(0),
            lane: Lane::Collectives,
        }),
    );
    assert!(world.refusal().contains("no memory"));
}

#[test]
fn how_far_a_communicator_had_come_is_counted_in_operations_and_transfers() {
    let transfer = |direction, peer| {
        let peer = Rank(peer);
        let of = None;
        Action::Transfer(Transfer { direction, peer, count: 4, data_type: DataType::Float32, of })
    };
    let mut world = World::with_comm(2);
    let mut told = Vec::new();
    for step in 0..3 {
        let mut ended = World::with_comm(2);
        for (rank, direction) in [(0, Direction::Send), (1, Direction::Recv)] {
            if step > 0 {
                ended.act(rank, vec![transfer(direction, 1 - rank)]);
            }
        }
        for rank in 0..2 {
            if step > 1 {
                ended.call(rank, &[all_reduce(4, DataType::Float32)]);
                ended.call(rank, &[all_reduce(4, DataType::Float32)]);
            }
        }
        ended.replies();
        ended.die(1);
        told.push(ended.common_fault().detail);
    }
    world.leave(1);
    world.replies();
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    told.extend(world.refusals());
    let mut world = World::with_comm(2);
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    world.leave(1);
    told.extend(world.refusals());
    insta::assert_snapshot!(told.join("\n"), @"
    rank 1 of communicator 1 (pid 4001, train) died before its first operation
    rank 1 of communicator 1 (pid 4001, train) died after 1 transfer
    rank 1 of communicator 1 (pid 4001, train) died after 2 operations and 1 transfer
    rank 0 calls ncclAllReduce(count=4, float32, sum) on communicator 1, which rank 1 (pid 4001) has left before its first operation: all ranks must make the same calls before they destroy a communicator or exit
    rank 1 (pid 4001) left communicator 1 before its first operation while others wait for it in ncclAllReduce(count=4, float32, sum)
    ");
}

#[test]
fn what_was_paired_rank_by_rank_comes_before_a_mismatch_too() {
    let part = |direction, peer| {
        let (peer, of) = (Rank(peer), Some(Collective::Gather));
        Action::Transfer(Transfer { direction, peer, count: 2, data_type: DataType::Float32, of })
    };
    let mut world = World::with_comm(2);
    world.act(0, vec![part(Direction::Send, 0), part(Direction::Recv, 0), part(Direction::Recv, 1)]);
    world.act(1, vec![part(Direction::Send, 0)]);
    world.replies();
    for rank in 0..2 {
        world.call(rank, &[all_reduce(4 + u64::from(rank), DataType::Float32)]);
    }
    insta::assert_snapshot!(world.common_fault().detail, @"mismatch at operation 1 of communicator 1 (2 ranks): count differs: rank 1 called ncclAllReduce(count=5, float32, sum); rank 0 called ncclAllReduce(count=4, float32, sum). Before it, all called ncclGather(count=2, float32, root=0). All ranks must make the same calls in the same order");
}

#[test]
fn bytes_that_stop_flowing_fail_their_communicator_and_no_other() {
    let mut world = World::new(2);
    world.join("a", &[0, 1]);
    world.join("b", &[0, 1]);
    world.replies();
    world.coordinator.handle_stream_failure(world.now, CommId(1), "no thread could be started");
    world.pass(200);
    insta::assert_snapshot!(world.common_fault().detail, @"the bytes of communicator 1 could not be moved: no thread could be started");
    for rank in 0..2 {
        world.call_on(2, rank, Rank(rank), &[all_reduce(4, DataType::Float32)]);
    }
    assert_eq!(world.replies().len(), 2, "the other communicator goes on");
    let mut world = World::with_comm(2);
    world.coordinator.handle_stream_failure(world.now, CommId(1), "no thread could be started");
    let why = "connection closed".into();
    world.say(1, ToCoordinator::Broken { comm: CommId(1), rank: Rank(1), why });
    insta::assert_snapshot!(world.common_fault().detail, @"rank 1 (pid 4001) can move no bytes in communicator 1: connection closed (the coordinator's relay: no thread could be started)");
}
