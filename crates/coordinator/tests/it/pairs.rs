//! Point to point: what pairs, what does not, who waits for whom in a circle.

use fakegpu_proto::{Action, Awaited, Code, Direction, EventKind, Release, ToCoordinator, ToRank, Transfer};
use fakegpu_units::{Collective, CommId, DataType, Rank};

use crate::world::{World, all_reduce};

fn half(direction: Direction, peer: u32, count: u64) -> Action {
    Action::Transfer(Transfer { direction, peer: Rank(peer), count, data_type: DataType::Float32, of: None })
}

fn send(peer: u32, count: u64) -> Action {
    half(Direction::Send, peer, count)
}

fn recv(peer: u32, count: u64) -> Action {
    half(Direction::Recv, peer, count)
}

/// The sends and receives that a named operation stands for.
fn part(of: Collective, direction: Direction, peer: u32) -> Action {
    Action::Transfer(Transfer {
        direction,
        peer: Rank(peer),
        count: 2,
        data_type: DataType::Float32,
        of: Some(of),
    })
}

fn exchange() -> Action {
    Action::Collective(fakegpu_proto::Descriptor {
        op: Collective::AllToAll,
        reduce: None,
        ..all_reduce(2, DataType::Float32)
    })
}

/// Which ranks were told to go on with everything.
fn gone(world: &mut World) -> Vec<u64> {
    let replies = world.replies().into_iter();
    replies.filter(|(_, reply)| *reply == ToRank::Go(Release::Rest)).map(|(peer, _)| peer).collect()
}

#[test]
fn a_pair_goes_without_the_other_ranks() {
    let mut world = World::with_comm(4);
    world.act(0, vec![send(2, 4)]);
    assert!(world.replies().is_empty());
    world.act(2, vec![recv(0, 4)]);
    assert_eq!(gone(&mut world), [0, 2]);
}

#[test]
fn a_ring_of_groups_goes_together_whoever_lists_what_first() {
    let mut world = World::with_comm(3);
    world.act(0, vec![send(1, 4), recv(2, 4)]);
    world.act(1, vec![recv(0, 4), send(2, 4)]);
    assert!(world.replies().is_empty(), "nothing of a group goes before all of it is matched");
    world.act(2, vec![send(0, 4), recv(1, 4)]);
    assert_eq!(gone(&mut world), [0, 1, 2]);
}

#[test]
fn a_group_that_waits_for_the_rest_lets_its_pairs_go_after_a_quarter_second() {
    let mut world = World::with_comm(3);
    world.act(0, vec![send(1, 4), send(2, 4)]);
    world.act(1, vec![recv(0, 4)]);
    assert!(world.replies().is_empty());
    world.pass(250);
    let replies = world.replies();
    assert_eq!(replies, [(0, ToRank::Go(Release::Some(vec![0]))), (1, ToRank::Go(Release::Rest))]);
    world.act(2, vec![recv(0, 4)]);
    assert_eq!(gone(&mut world), [0, 2]);
}

#[test]
fn sizes_that_differ_fail_both_and_name_the_bytes() {
    for (sent, received) in [(1, 2), (1, 3), (3, 1), (0, 1)] {
        let mut world = World::with_comm(2);
        world.act(0, vec![send(1, sent)]);
        world.act(1, vec![recv(0, received)]);
        let fault = world.common_fault();
        let words = [format!("sends {} bytes", 4 * sent), format!("receives {} bytes", 4 * received)];
        assert!(words.iter().all(|word| fault.detail.contains(word)), "{}", fault.detail);
        assert_eq!(fault.code, Code::InvalidUsage);
    }
    let mut world = World::with_comm(2);
    world.act(0, vec![send(1, 1)]);
    world.act(1, vec![recv(0, 2)]);
    insta::assert_snapshot!(world.common_fault().detail, @"mismatch between rank 0 (pid 4000) and rank 1 (pid 4001) on communicator 1, in their transfer 0: count differs: rank 0 sends 4 bytes by ncclSend(count=1, float32, to rank 1), rank 1 receives 8 bytes by ncclRecv(count=2, float32, from rank 0). Both sides of a transfer must have the same size");
}

#[test]
fn two_sends_without_a_group_are_a_circle_after_a_fifth_of_a_second() {
    let mut world = World::with_comm(2);
    world.act(0, vec![send(1, 4)]);
    world.act(1, vec![send(0, 4)]);
    world.pass(199);
    assert!(world.replies().is_empty());
    world.pass(1);
    insta::assert_snapshot!(world.common_fault().detail, @"deadlock: rank 0 (pid 4000) waits in ncclSend(count=4, float32, to rank 1) on communicator 1 for rank 1 (pid 4001) to call ncclRecv; rank 1 (pid 4001) waits in ncclSend(count=4, float32, to rank 0) on communicator 1 for rank 0 (pid 4000) to call ncclRecv. Nobody can go on: put sends and receives that need each other into one group (ncclGroupStart, ncclGroupEnd), or call them in matching order");
}

#[test]
fn a_circle_through_collectives_and_communicators_is_named_with_both() {
    let mut world = World::new(2);
    world.join("a", &[0, 1]);
    world.join("b", &[0, 1]);
    world.replies();
    world.call_on(1, 0, Rank(0), &[all_reduce(4, DataType::Float32)]);
    world.call_on(2, 1, Rank(1), &[all_reduce(8, DataType::Float32)]);
    world.pass(200);
    insta::assert_snapshot!(world.common_fault().detail, @"deadlock: rank 0 (pid 4000) waits in ncclAllReduce(count=4, float32, sum), operation 0 of communicator 1, for rank 1 (pid 4001); rank 1 (pid 4001) waits in ncclAllReduce(count=8, float32, sum), operation 0 of communicator 2, for rank 0 (pid 4000). Nobody can go on: all ranks must call their communicators' operations in one order");
}

#[test]
fn a_thread_that_could_still_call_keeps_a_circle_from_being_one() {
    let mut world = World::with_comm(2);
    world.act_from(0, 7, vec![send(1, 1)]);
    world.act(1, vec![recv(0, 1)]);
    world.replies();
    world.act(0, vec![send(1, 4)]);
    world.act(1, vec![send(0, 4)]);
    world.pass(5_000);
    assert!(
        !world.replies().iter().any(|(_, reply)| matches!(reply, ToRank::Failed(_))),
        "thread 7 may receive"
    );
    world.act_from(0, 7, vec![recv(1, 4)]);
    world.act_from(1, 8, vec![recv(0, 4)]);
    assert_eq!(gone(&mut world).len(), 4);
}

#[test]
fn a_send_and_a_collective_that_wait_for_each_other_are_a_circle() {
    let mut world = World::with_comm(2);
    world.act(0, vec![send(1, 4)]);
    world.act(1, vec![all_reduce(4, DataType::Float32).into()]);
    world.pass(200);
    let fault = world.common_fault();
    assert!(fault.detail.starts_with("deadlock: "), "{}", fault.detail);
}

#[test]
fn one_side_grouped_and_the_other_not_works_with_one_warning() {
    let mut world = World::with_comm(2);
    world.act(0, vec![send(1, 4), recv(1, 4)]);
    world.act(1, vec![send(0, 4)]);
    assert_eq!(gone(&mut world), [1]);
    world.act(1, vec![recv(0, 4)]);
    assert_eq!(gone(&mut world), [0, 1]);
    assert_eq!(world.hazards(), 1);
}

#[test]
fn an_all_to_all_pairs_with_its_grouped_form() {
    let mut world = World::with_comm(2);
    world.act(0, vec![exchange()]);
    world.act(1, vec![send(0, 2), recv(0, 2), send(1, 2), recv(1, 2)]);
    let replies = world.replies();
    assert_eq!(
        replies,
        [(0, ToRank::Go(Release::Pairwise)), (0, ToRank::Go(Release::Rest)), (1, ToRank::Go(Release::Rest)),]
    );
    world.act(1, vec![send(0, 2), recv(0, 2), send(1, 2), recv(1, 2)]);
    world.act(0, vec![exchange()]);
    assert_eq!(world.replies().first(), Some(&(0, ToRank::Go(Release::Pairwise))));
}

#[test]
fn an_all_to_all_that_all_call_by_name_is_one_operation() {
    let mut world = World::with_comm(3);
    for rank in 0..3 {
        world.act(rank, vec![exchange()]);
    }
    assert_eq!(gone(&mut world), [0, 1, 2]);
    let operations = world.events().into_iter().filter(|event| matches!(event, EventKind::Operation { .. }));
    assert_eq!(operations.count(), 1);
}

#[test]
fn gathers_senders_do_not_wait_for_each_other_and_it_counts_once() {
    use Direction::{Recv, Send};
    let mut world = World::with_comm(3);
    let of = Collective::Gather;
    world.act(0, vec![part(of, Send, 0), part(of, Recv, 0), part(of, Recv, 1), part(of, Recv, 2)]);
    world.act(1, vec![part(of, Send, 0)]);
    let replies = world.replies();
    assert!(replies.contains(&(1, ToRank::Go(Release::Rest))), "{replies:?}");
    world.act(2, vec![part(of, Send, 0)]);
    assert_eq!(gone(&mut world).len(), 2);
    let named: Vec<_> = world
        .events()
        .into_iter()
        .filter(|event| matches!(event, EventKind::Operation { .. } | EventKind::Transfer { .. }))
        .collect();
    assert!(
        matches!(named.as_slice(), [EventKind::Operation { descriptor, .. }] if descriptor.op == of && descriptor.root == Some(Rank(0))),
        "{named:?}"
    );
}

#[test]
fn a_peer_that_left_is_named_with_what_it_did() {
    let mut world = World::with_comm(3);
    for rank in 0..3 {
        world.call(rank, &[all_reduce(4, DataType::Float32)]);
    }
    world.replies();
    world.act(2, vec![send(1, 4)]);
    world.leave(1);
    let fault = world.common_fault();
    insta::assert_snapshot!(fault.detail, @"rank 1 (pid 4001) left communicator 1 after 1 operation while others wait for it in ncclSend(count=4, float32, to rank 1)");
    assert_eq!(fault.code, Code::RemoteError);
}

#[test]
fn late_receivers_are_named_with_what_they_do_instead() {
    let mut world = World::with_comm(3);
    world.act(0, vec![send(1, 4)]);
    world.pass(2_000);
    insta::assert_snapshot!(world.notices(), @"still waiting after 2.0 s: rank 0 waits in ncclSend(count=4, float32, to rank 1) on communicator 1 for rank 1 (alive and outside NCCL, on node node0) to call ncclRecv");
}

#[test]
fn equal_bytes_of_another_type_are_a_hazard_and_no_error() {
    let mut world = World::with_comm(2);
    world.act(0, vec![send(1, 4)]);
    let halves = Transfer {
        direction: Direction::Recv,
        peer: Rank(0),
        count: 8,
        data_type: DataType::BFloat16,
        of: None,
    };
    world.act(1, vec![halves.into()]);
    assert_eq!(gone(&mut world), [0, 1]);
    let told = world.events().iter().filter(|event| matches!(event, EventKind::Hazard { .. })).count();
    assert_eq!(told, 1);
}

#[test]
fn a_wait_for_signals_ends_with_the_last_of_them() {
    let mut world = World::with_comm(2);
    let comm = CommId(1);
    world.act(0, vec![Action::Await(vec![Awaited { peer: Rank(1), count: 2 }])]);
    for expected in [0, 1] {
        assert_eq!(gone(&mut world).len(), 0, "after {expected} signals");
        world.say(1, ToCoordinator::Signal { comm, rank: Rank(1), peer: Rank(0) });
    }
    assert_eq!(gone(&mut world), [0]);
}

#[test]
fn a_put_goes_at_once_and_is_counted() {
    let mut world = World::with_comm(2);
    world.act(0, vec![Action::Put { peer: Rank(1), bytes: 64 }]);
    assert_eq!(gone(&mut world), [0]);
    let puts = world.events().into_iter().filter(|event| matches!(event, EventKind::Put { bytes: 64, .. }));
    assert_eq!(puts.count(), 1);
}

#[test]
fn a_later_call_of_one_thread_does_not_overtake_its_earlier_one() {
    let mut world = World::with_comm(2);
    world.act(0, vec![all_reduce(4, DataType::Float32).into()]);
    world.act(0, vec![send(1, 4)]);
    world.act_from(1, 2, vec![recv(0, 4)]);
    assert!(world.replies().is_empty(), "the send comes behind the all-reduce");
    world.act_from(1, 3, vec![all_reduce(4, DataType::Float32).into()]);
    assert_eq!(gone(&mut world).len(), 4);
}

#[test]
fn sizes_that_differ_fail_the_whole_group_whatever_is_listed_first() {
    let reduce: Action = all_reduce(4, DataType::Float32).into();
    let first = vec![(CommId(1), Rank(0), send(1, 1)), (CommId(2), Rank(0), reduce.clone())];
    let last = first.iter().rev().cloned().collect();
    for ops in [first, last] {
        let mut world = World::new(2);
        world.join("a", &[0, 1]);
        world.join("b", &[0, 1]);
        world.replies();
        world.act_from(1, 1, vec![recv(0, 2)]);
        world.say(0, ToCoordinator::Submit { ops, thread: 1 });
        assert_eq!(world.refusals().len(), 2);
        world.call_on(2, 1, Rank(1), &[all_reduce(4, DataType::Float32)]);
        let refusal = world.refusal();
        assert!(refusal.starts_with("groups tie it to communicator 1"), "{refusal}");
        assert_eq!(world.coordinator.stats().pending, 0);
    }
    let mut world = World::with_comm(3);
    world.act(1, vec![recv(0, 2)]);
    world.act(0, vec![send(1, 1), send(2, 4)]);
    assert_eq!((world.refusals().len(), world.coordinator.stats().pending), (2, 0));
}

#[test]
fn all_to_alls_whose_parts_do_not_fit_fail_whole() {
    let exchange = |count| {
        let descriptor = fakegpu_proto::Descriptor {
            op: Collective::AllToAll,
            reduce: None,
            ..all_reduce(count, DataType::Float32)
        };
        Action::Collective(descriptor)
    };
    let mut world = World::with_comm(3);
    world.act(0, vec![exchange(2)]);
    world.act(1, vec![exchange(4)]);
    world.act(2, vec![send(0, 2)]);
    assert_eq!((world.refusals().len(), world.coordinator.stats().pending), (3, 0));
    // Nothing that was left behind may look like a wait.
    world.join("pair", &[0, 2]);
    world.replies();
    world.call_on(2, 0, Rank(0), &[all_reduce(4, DataType::Float32)]);
    world.pass(300);
    world.pass(300);
    assert!(world.refusals().is_empty(), "rank 2 computes");
}

#[test]
fn all_to_alls_and_waits_that_run_ahead_are_bounded_like_all_calls() {
    let wait = || Action::Await(vec![Awaited { peer: Rank(1), count: 1 }]);
    for (action, most) in [(exchange(), 2_048), (wait(), 4_096)] {
        let mut world = World::with_comm(1_024);
        let mut submitted = 0;
        while world.refusals().is_empty() {
            world.act(0, vec![action.clone()]);
            submitted += 1;
            assert!(submitted < 10_000, "{action} without end");
        }
        assert_eq!(submitted, most + 1, "{action}");
    }
}

#[test]
fn a_wait_for_signals_of_a_rank_that_has_left_is_refused_at_once() {
    let wait = |count| vec![Action::Await(vec![Awaited { peer: Rank(1), count }])];
    let mut world = World::with_comm(2);
    world.say(1, ToCoordinator::Signal { comm: CommId(1), rank: Rank(1), peer: Rank(0) });
    world.leave(1);
    world.replies();
    world.act(0, wait(1));
    assert_eq!(gone(&mut world), [0], "what it signalled before counts");
    world.act(0, wait(1));
    insta::assert_snapshot!(world.refusals().join("\n"), @"rank 0 calls ncclWaitSignal(1 from rank 1) on communicator 1, which rank 1 (pid 4001) has left before its first operation: all ranks must make the same calls before they destroy a communicator or exit");
}

#[test]
fn what_a_rank_called_before_it_left_still_counts() {
    let mut world = World::with_comm(2);
    let op: Action = all_reduce(4, DataType::Float32).into();
    world.act(1, vec![op.clone()]);
    let submission = world.requests;
    world.say(1, ToCoordinator::PutOff { submission });
    world.leave(1);
    world.replies();
    world.act(0, vec![op.clone()]);
    assert_eq!(gone(&mut world), [1, 0]);
    for ops in [1, 2] {
        let mut world = World::with_comm(2);
        world.act(1, vec![op.clone(); ops]);
        let submission = world.requests;
        world.say(1, ToCoordinator::PutOff { submission });
        world.leave(1);
        world.replies();
        world.act(0, vec![op.clone(); ops + 1]);
        let refused = world.replies();
        assert!(
            refused.iter().any(|(peer, reply)| *peer == 0 && matches!(reply, ToRank::Failed(_))),
            "{refused:?}"
        );
    }
    let mut world = World::with_comm(2);
    world.act(1, vec![op.clone()]);
    world.leave(1);
    world.say(1, ToCoordinator::Goodbye { grouped: 0 });
    world.replies();
    world.die(1);
    world.act(0, vec![op]);
    let refusal = world.refusals().join("\n");
    assert!(refusal.contains("exited in the middle of a call"), "{refusal}");
}
