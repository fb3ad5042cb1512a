//! How long what waits may wait, and what goes meanwhile.

use fakegpu_proto::{
    Action, Direction, EventKind, JoinComm, Release, ToCoordinator, ToRank, Transfer, UniqueId,
};
use fakegpu_units::{CommId, DataType, Rank};

use crate::world::{World, all_reduce};

fn half(direction: Direction, peer: u32) -> Action {
    Action::Transfer(Transfer {
        direction,
        peer: Rank(peer),
        count: 4,
        data_type: DataType::Float32,
        of: None,
    })
}

fn send(peer: u32) -> Action {
    half(Direction::Send, peer)
}

fn recv(peer: u32) -> Action {
    half(Direction::Recv, peer)
}

fn on(comm: u64, rank: u32, count: u64) -> (CommId, Rank, Action) {
    (CommId(comm), Rank(rank), all_reduce(count, DataType::Float32).into())
}

/// The last submission's thread goes on.
fn put_off(world: &mut World, rank: u32) {
    let submission = world.requests;
    world.say(rank, ToCoordinator::PutOff { submission });
}

/// Which processes were told to run something.
fn gone(world: &mut World) -> Vec<u64> {
    let replies = world.replies().into_iter();
    replies.filter(|(_, reply)| matches!(reply, ToRank::Go(_))).map(|(peer, _)| peer).collect()
}

#[test]
fn a_wait_times_out_although_others_in_its_communicator_move() {
    let mut world = World::with_comm(4);
    world.act(0, vec![recv(1)]);
    for _ in 0..539 {
        world.pass(1_000);
        world.act(2, vec![send(3)]);
        world.act(3, vec![recv(2)]);
    }
    assert!(world.refusals().is_empty(), "rank 1 computes");
    world.pass(1_000);
    insta::assert_snapshot!(world.refusals().join("\n"), @"timeout after 540.0 s: rank 0 waits in ncclRecv(count=4, float32, from rank 1) on communicator 1 for rank 1 (alive and outside NCCL, on node node0) to call ncclSend. If they are only slow, raise FAKEGPU_COLLECTIVE_TIMEOUT_MS");
}

#[test]
fn what_queued_behind_others_has_not_waited_yet() {
    let mut world = World::with_comm(2);
    for _ in 0..3 {
        world.call(0, &[all_reduce(4, DataType::Float32)]);
        put_off(&mut world, 0);
    }
    world.act(0, vec![send(1)]);
    put_off(&mut world, 0);
    for _ in 0..3 {
        world.pass(500_000);
        world.call(1, &[all_reduce(4, DataType::Float32)]);
    }
    world.pass(500_000);
    assert!(world.refusals().is_empty(), "every wait began when the one before it had ended");
    world.act(1, vec![recv(0)]);
    assert_eq!(gone(&mut world), [0, 1]);
}

#[test]
fn a_rank_that_comes_to_be_blocked_is_noticed_within_the_shorter_timeout() {
    let mut world = World::with_comm(2);
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    world.pass(70_000);
    assert!(world.refusals().is_empty(), "rank 1 computes");
    for second in 0..62 {
        if second % 50 == 0 {
            let unique_id = UniqueId::new(format!("elsewhere {second}").as_bytes());
            let join = JoinComm { unique_id, size: 2, rank: Rank(1), ..JoinComm::default() };
            world.say(1, ToCoordinator::Join(Box::new(join)));
        }
        world.pass(1_000);
    }
    let told = world.refusals();
    assert!(told.iter().any(|told| told.contains("ncclCommInitRank for another communicator")), "{told:#?}");
}

#[test]
fn a_call_that_its_thread_went_on_from_does_not_make_a_rank_blocked() {
    let mut world = World::with_comm(3);
    for thread in [9, 10] {
        world.act_from(1, thread, vec![recv(2)]);
        put_off(&mut world, 1);
    }
    world.join("pair", &[0, 1]);
    world.replies();
    world.call_on(2, 0, Rank(0), &[all_reduce(4, DataType::Float32)]);
    world.pass(2_000);
    insta::assert_snapshot!(world.notices(), @"
    still waiting after 2.0 s: rank 1 waits in ncclRecv(count=4, float32, from rank 2) on communicator 1 for rank 2 (alive and outside NCCL, on node node0) to call ncclSend
    still waiting after 2.0 s: operation 0 of communicator 2, ncclAllReduce(count=4, float32, sum), was called by rank 0 and misses rank 1 (alive and outside NCCL, with 2 calls under way, on node node0)
    ");
    world.pass(63_000);
    assert!(world.refusals().is_empty(), "rank 1 computes");
}

#[test]
fn an_operation_that_is_complete_waits_a_quarter_second_for_the_rest_of_its_group() {
    let mut world = World::new(3);
    world.join("a", &[0, 1]);
    world.join("b", &[0, 2]);
    world.replies();
    world.say(0, ToCoordinator::Submit { ops: vec![on(1, 0, 4), on(2, 0, 4)], thread: 1 });
    world.call_on(1, 1, Rank(1), &[all_reduce(4, DataType::Float32)]);
    world.pass(249);
    assert!(world.replies().is_empty());
    world.pass(1);
    // Rank 2 may need rank 1 to finish before it comes to communicator 2.
    assert_eq!(world.replies(), [(0, ToRank::Go(Release::Some(vec![0]))), (1, ToRank::Go(Release::Rest))]);
    let hazards: Vec<String> = world.hazard_details();
    insta::assert_snapshot!(hazards.join("\n"), @"an operation of a group ran without the rest of it, which ranks had not called after 250.0 ms: a mismatch in the rest cannot undo it");
    world.call_on(2, 2, Rank(1), &[all_reduce(4, DataType::Float32)]);
    assert_eq!(gone(&mut world), [0, 2]);
}

#[test]
fn nothing_of_a_group_goes_while_a_conflict_in_it_waits_for_its_words() {
    let mut world = World::new(4);
    world.join("a", &[0, 1]);
    world.join("b", &[0, 2, 3]);
    world.replies();
    world.say(0, ToCoordinator::Submit { ops: vec![on(1, 0, 4), on(2, 0, 4)], thread: 1 });
    world.call_on(1, 1, Rank(1), &[all_reduce(4, DataType::Float32)]);
    world.pass(100);
    world.call_on(2, 2, Rank(1), &[all_reduce(5, DataType::Float32)]);
    for _ in 0..20 {
        world.pass(50);
    }
    let replies = world.replies();
    assert!(!replies.iter().any(|(_, reply)| matches!(reply, ToRank::Go(_))), "{replies:#?}");
    assert!(
        replies.iter().filter(|(_, reply)| matches!(reply, ToRank::Failed(_))).count() == 3,
        "{replies:#?}"
    );
}

#[test]
fn a_pair_that_is_ripe_behind_an_earlier_call_goes_after_it() {
    let mut world = World::with_comm(3);
    world.join("pair", &[0, 1]);
    world.replies();
    world.call_on(2, 0, Rank(0), &[all_reduce(4, DataType::Float32)]);
    put_off(&mut world, 0);
    world.act(0, vec![send(1), send(2)]);
    world.act_from(1, 2, vec![recv(0)]);
    world.pass(300);
    world.call_on(2, 1, Rank(1), &[all_reduce(4, DataType::Float32)]);
    assert_eq!(gone(&mut world), [0, 1]);
    world.pass(250);
    let replies = world.replies();
    assert_eq!(replies, [(0, ToRank::Go(Release::Some(vec![0]))), (1, ToRank::Go(Release::Rest))]);
}

#[test]
fn what_one_thread_waited_for_lets_each_thread_of_its_ranks_go_on() {
    let mut world = World::with_comm(3);
    world.join("pair", &[0, 1]);
    world.replies();
    for rank in [0, 1] {
        world.act_from(rank, 9, vec![recv(2)]);
    }
    world.act_from(0, 1, vec![send(1)]);
    put_off(&mut world, 0);
    world.call_on(2, 0, Rank(0), &[all_reduce(4, DataType::Float32)]);
    world.say(1, ToCoordinator::Submit { ops: vec![on(2, 1, 4)], thread: 3 });
    assert!(world.replies().is_empty(), "rank 0's send comes first");
    world.act_from(1, 4, vec![recv(0)]);
    assert_eq!(gone(&mut world).len(), 4);
}

#[test]
fn an_operation_that_runs_in_call_order_on_every_rank_crosses_no_other() {
    let op = all_reduce(4, DataType::Float32);
    let two = || {
        let mut world = World::new(2);
        world.join("a", &[0, 1]);
        world.join("b", &[0, 1]);
        world.replies();
        world
    };
    let mut world = two();
    world.call_on(1, 0, Rank(0), &[op]);
    put_off(&mut world, 0);
    for (comm, rank) in [(2, 0), (1, 1), (2, 1)] {
        world.call_on(comm, rank, Rank(rank), &[op]);
    }
    assert_eq!(world.hazard_details(), Vec::<String>::new());
    let mut world = two();
    world.say(0, ToCoordinator::Submit { ops: vec![on(1, 0, 4), on(2, 0, 4)], thread: 1 });
    for comm in [1, 2] {
        world.call_on(comm, 1, Rank(1), &[op]);
    }
    assert!(!world.hazard_details().concat().contains("different orders"), "a group has no order");
}

#[test]
fn communicators_that_ranks_call_in_different_orders_are_told_of_once() {
    let mut world = World::new(2);
    world.join("a", &[0, 1]);
    world.join("b", &[0, 1]);
    world.replies();
    for _ in 0..3 {
        for (rank, comm, thread) in [(0, 1, 1), (0, 2, 2), (1, 2, 2), (1, 1, 1)] {
            world.say(rank, ToCoordinator::Submit { ops: vec![on(comm, rank, 4)], thread });
        }
    }
    assert_eq!(gone(&mut world).len(), 12);
    insta::assert_snapshot!(world.hazard_details().join("\n"), @"communicators 2 and 1 share ranks, which call them concurrently in different orders: on real GPUs this can hang, unless every rank calls them in one order (or each runs where the others' kernels cannot block it)");
}

#[test]
fn communicators_that_come_and_go_leave_no_trace_of_their_crossings() {
    let mut world = World::new(2);
    world.join("world", &[0, 1]);
    let (mut sizes, mut told) = (Vec::new(), 0);
    for comm in 2..302 {
        for rank in 0..2 {
            let unique_id = UniqueId::new(b"again");
            let join =
                JoinComm { unique_id, reusable: true, size: 2, rank: Rank(rank), ..JoinComm::default() };
            world.say(rank, ToCoordinator::Join(Box::new(join)));
        }
        world.mapped(comm, &[0, 1]);
        for (rank, comm, thread) in [(0, comm, 2), (0, 1, 1), (1, 1, 1), (1, comm, 2)] {
            world.say(rank, ToCoordinator::Submit { ops: vec![on(comm, rank, 4)], thread });
        }
        for rank in 0..2 {
            world.leave_comm(comm, rank);
        }
        world.replies();
        told += world.hazard_details().len();
        while world.coordinator.poll_errand().is_some() {}
        sizes.push(format!("{:?}", world.coordinator).len());
    }
    assert!(sizes[299] < sizes[99] + 100, "{} {}", sizes[99], sizes[299]);
    assert_eq!(told, 16, "one communicator's crossings are told of so often and no more");
}

#[test]
fn ranks_that_use_what_a_peer_has_left_are_told_once_and_who_needs_it_is_refused() {
    let mut world = World::with_comm(3);
    world.leave(1);
    world.replies();
    for _ in 0..2 {
        world.act(0, vec![send(2)]);
        world.act(2, vec![recv(0)]);
    }
    let notice = world.notices();
    let hazards = world.events().into_iter().filter(|event| matches!(event, EventKind::Hazard { .. }));
    assert_eq!(hazards.count(), 1);
    insta::assert_snapshot!(notice, @"rank 0 calls ncclSend(count=4, float32, to rank 2) on communicator 1, which rank 1 (pid 4001) has left already: with NCCL this may hang or fail, destroy a communicator when all its ranks are done with it");
    world.act(0, vec![send(1)]);
    insta::assert_snapshot!(world.refusals().join("\n"), @"rank 0 calls ncclSend(count=4, float32, to rank 1) on communicator 1, which rank 1 (pid 4001) has left after 2 transfers: all ranks must make the same calls before they destroy a communicator or exit");
}

#[test]
fn calls_that_stand_behind_each_other_on_their_streams_fail_although_nobody_is_blocked() {
    let mut world = World::new(2);
    world.join("a", &[0, 1]);
    world.join("b", &[0, 1]);
    world.replies();
    for (rank, first, second) in [(0, 1, 2), (1, 2, 1)] {
        for comm in [first, second] {
            world.say(rank, ToCoordinator::Submit { ops: vec![on(comm, rank, 4)], thread: 1 });
            put_off(&mut world, rank);
        }
    }
    assert_eq!(gone(&mut world), [0_u64; 0]);
    world.pass(250);
    insta::assert_snapshot!(world.common_fault().detail, @"deadlock: rank 1 (pid 4001) called ncclAllReduce(count=4, float32, sum) on communicator 2 before ncclAllReduce(count=4, float32, sum) on communicator 1; rank 0 (pid 4000) called ncclAllReduce(count=4, float32, sum) on communicator 1 before ncclAllReduce(count=4, float32, sum) on communicator 2. None can ever begin: all ranks must call their communicators' operations in one order on a stream, or on streams of their own");
}

#[test]
fn calls_in_opposite_orders_on_streams_of_their_own_run() {
    let mut world = World::new(2);
    world.join("a", &[0, 1]);
    world.join("b", &[0, 1]);
    world.replies();
    for (rank, first, second) in [(0, 1, 2), (1, 2, 1)] {
        for comm in [first, second] {
            world.say(rank, ToCoordinator::Submit { ops: vec![on(comm, rank, 4)], thread: comm });
            put_off(&mut world, rank);
        }
    }
    assert_eq!(gone(&mut world).len(), 4);
    world.pass(1_000);
    assert!(world.refusals().is_empty());
}
