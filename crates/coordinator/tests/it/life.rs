//! Communicators made from others, and ended.

use fakegpu_coordinator::{CostModel, TransferWork, Work};
use fakegpu_proto::{
    Action, Code, Estimate, EventKind, JoinComm, Origin, STREAM, ShrinkComm, Split, StagingOutcome,
    ToCoordinator, ToRank, UniqueId,
};
use fakegpu_units::{CommId, DataType, GlobalRank, Rank, VirtualSpan};

use crate::world::{World, all_reduce};

fn split(color: Option<u32>, key: i32) -> Action {
    Action::Split(Split { color, key, listener: Some("@s".into()), name: None })
}

/// Who joined which communicator as which rank of how many.
fn joined(world: &mut World) -> Vec<(u64, u64, u32, usize)> {
    let replies = world.replies().into_iter();
    let mut joined: Vec<_> = replies
        .filter_map(|(peer, reply)| match reply {
            ToRank::Joined { comm, rank, members, .. } => Some((peer, comm.0, rank.0, members.len())),
            _ => None,
        })
        .collect();
    joined.sort_unstable();
    joined
}

fn shrink(rank: u32, exclude: &[u32], abort: bool) -> ToCoordinator {
    ToCoordinator::Shrink(Box::new(ShrinkComm {
        parent: CommId(1),
        rank: Rank(rank),
        exclude: exclude.iter().copied().map(Rank).collect(),
        abort,
        listener: Some("@s".into()),
        name: None,
    }))
}

#[test]
fn a_split_orders_by_key_and_then_by_the_parents_rank() {
    let mut world = World::with_comm(4);
    for (rank, (color, key)) in (0..).zip([(0, 5), (1, 0), (0, -1), (1, 0)]) {
        world.act(rank, vec![split(Some(color), key)]);
    }
    assert_eq!(joined(&mut world), [(0, 2, 1, 2), (1, 3, 0, 2), (2, 2, 0, 2), (3, 3, 1, 2)]);
    let comm = CommId(2);
    world.say(2, ToCoordinator::Staging { comm, rank: Rank(0), outcome: StagingOutcome::Mapped });
    world.say(0, ToCoordinator::Staging { comm, rank: Rank(1), outcome: StagingOutcome::Mapped });
    let made = world.events().into_iter().find_map(|event| match event {
        EventKind::CommCreated { comm: CommId(2), members, origin, .. } => Some((members, origin)),
        _ => None,
    });
    let origin = Origin::Split { parent: CommId(1), color: 0 };
    assert_eq!(made, Some((vec![GlobalRank(2), GlobalRank(0)], origin)));
}

#[test]
fn a_rank_without_a_colour_is_done_at_once_and_so_are_all() {
    let mut world = World::with_comm(2);
    for rank in 0..2 {
        world.act(rank, vec![split(None, 0)]);
    }
    assert_eq!(world.replies(), [(0, ToRank::Done), (1, ToRank::Done)]);
    for rank in 0..2 {
        world.call(rank, &[all_reduce(1, DataType::Float32)]);
    }
    assert_eq!(world.replies().len(), 2, "the parent goes on");
}

#[test]
fn a_split_that_not_all_enter_is_a_mismatch() {
    let mut world = World::with_comm(2);
    world.call(0, &[all_reduce(1, DataType::Float32)]);
    world.act(1, vec![split(None, 0)]);
    insta::assert_snapshot!(world.common_fault().detail, @"mismatch at operation 0 of communicator 1 (2 ranks): operation differs: rank 1 called ncclCommSplit(color=-1); rank 0 called ncclAllReduce(count=1, float32, sum). It is the communicator's first operation. All ranks must make the same calls in the same order");
}

#[test]
fn a_shrink_leaves_the_dead_behind() {
    let mut world = World::with_comm(3);
    world.die(1);
    world.replies();
    world.say(0, shrink(0, &[1], false));
    assert!(world.refusal().contains("died"), "without abort the failure stands");
    world.say(0, shrink(0, &[1], true));
    world.say(2, shrink(2, &[1], true));
    assert_eq!(joined(&mut world), [(0, 2, 0, 2), (2, 2, 1, 2)]);
}

#[test]
fn a_shrink_with_abort_ends_what_is_in_flight() {
    let mut world = World::with_comm(3);
    world.call(0, &[all_reduce(1, DataType::Float32)]);
    world.say(2, shrink(2, &[1], true));
    let fault = world.common_fault();
    assert_eq!(fault.code, Code::RemoteError);
    world.say(0, shrink(0, &[1], true));
    assert_eq!(joined(&mut world), [(0, 2, 0, 2), (2, 2, 1, 2)]);
}

#[test]
fn ranks_that_exclude_different_ranks_are_told_both_lists() {
    let mut world = World::with_comm(4);
    world.say(0, shrink(0, &[3], false));
    world.say(1, shrink(1, &[2], false));
    insta::assert_snapshot!(world.common_refusal(), @"ranks disagree on whom ncclCommShrink leaves out of communicator 1: rank 1 excludes rank 2, others rank 3");
}

#[test]
fn a_shrink_whose_rank_dies_or_never_comes_ends() {
    let mut world = World::with_comm(3);
    world.say(0, shrink(0, &[2], false));
    world.pass(60_000);
    insta::assert_snapshot!(world.refusal(), @"timeout after 60.0 s: ncclCommShrink of communicator 1 misses rank 1 (pid 4001): every rank that is not left out must call it");
    world.say(0, shrink(0, &[2], false));
    world.die(1);
    assert!(world.common_refusal().contains("died"));
}

#[test]
fn a_revoked_communicator_splits_and_shrinks_and_does_nothing_else() {
    let mut world = World::with_comm(2);
    world.call(0, &[all_reduce(1, DataType::Float32)]);
    world.say(1, ToCoordinator::Revoke { comm: CommId(1), rank: Rank(1) });
    assert!(world.common_fault().detail.contains("revoked"));
    world.call(0, &[all_reduce(1, DataType::Float32)]);
    assert!(world.refusal().contains("revoked"));
    for rank in 0..2 {
        world.act(rank, vec![split(Some(0), 0)]);
    }
    assert_eq!(joined(&mut world), [(0, 2, 0, 2), (1, 2, 1, 2)]);
}

#[test]
fn newcomers_and_old_ranks_meet_when_a_communicator_grows() {
    let mut world = World::new(3);
    world.join("id", &[0, 1]);
    world.replies();
    let unique_id = UniqueId::new(b"grown");
    let comm = CommId(1);
    world.say(0, ToCoordinator::GrowId { comm, rank: Rank(0), unique_id: unique_id.clone() });
    assert_eq!(world.replies(), [(0, ToRank::Done)]);
    for rank in 0..2 {
        let join = JoinComm {
            size: 3,
            rank: Rank(rank),
            parent: Some((comm, Rank(rank))),
            listener: Some("@s".into()),
            ..JoinComm::default()
        };
        world.say(rank, ToCoordinator::Join(Box::new(join)));
    }
    let join = JoinComm { unique_id, size: 3, rank: Rank(2), ..JoinComm::default() };
    world.say(2, ToCoordinator::Join(Box::new(join)));
    assert_eq!(joined(&mut world), [(0, 2, 0, 3), (1, 2, 1, 3), (2, 2, 2, 3)]);
}

#[test]
fn an_id_serves_once_and_the_first_communicator_is_named() {
    let mut world = World::with_comm(2);
    let join =
        |rank| JoinComm { unique_id: UniqueId::new(b"id"), size: 2, rank: Rank(rank), ..JoinComm::default() };
    world.say(0, ToCoordinator::Join(Box::new(join(0))));
    insta::assert_snapshot!(world.refusal(), @"this unique id (08b72e07) has served already, for communicator 1: call ncclGetUniqueId for every communicator");
    let again = JoinComm { reusable: true, ..join(0) };
    world.say(0, ToCoordinator::Join(Box::new(again)));
    assert!(world.replies().is_empty(), "NCCL_COMM_ID may be met at again");
}

#[test]
fn every_process_that_claims_a_rank_of_a_failed_meeting_is_told() {
    let mut world = World::new(4);
    let join = |rank| {
        let unique_id = UniqueId::new(b"store");
        ToCoordinator::Join(Box::new(JoinComm {
            unique_id,
            size: 2,
            rank: Rank(rank),
            ..JoinComm::default()
        }))
    };
    for (process, rank) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        world.say(process, join(rank));
    }
    let refusals = world.refusals();
    assert_eq!(refusals.len(), 4, "{refusals:#?}");
    assert!(refusals.iter().all(|refusal| refusal.contains("claimed twice: by pid 4000")), "{refusals:#?}");
}

#[test]
fn two_ranks_on_one_gpu_are_refused_with_its_name() {
    let mut world = World::new(2);
    for rank in 0..2 {
        let gpu = Some(fakegpu_proto::Gpu { host: "laptop".into(), id: "0000:17:00.0".into() });
        let join = JoinComm {
            unique_id: UniqueId::new(b"id"),
            size: 2,
            rank: Rank(rank),
            gpu,
            ..JoinComm::default()
        };
        world.say(rank, ToCoordinator::Join(Box::new(join)));
    }
    insta::assert_snapshot!(world.common_refusal(), @"rank 0 (pid 4000, train) and rank 1 (pid 4001, train) of one communicator both use the GPU 0000:17:00.0 of one machine: call cudaSetDevice (torch.cuda.set_device, or device_id=) with a device of its own on every rank, or set NCCL_MULTI_RANK_GPU_ENABLE=1");
}

#[test]
fn a_live_job_says_who_waits_for_whom() {
    let mut world = World::with_comm(3);
    world.call(0, &[all_reduce(4, DataType::Float32)]);
    world.call(2, &[all_reduce(4, DataType::Float32)]);
    world.pass(1_500);
    world.replies();
    world.say(1, ToCoordinator::Inspect);
    let snapshot = world.replies().into_iter().find_map(|(_, reply)| match reply {
        ToRank::Snapshot(snapshot) => Some(snapshot),
        _ => None,
    });
    insta::assert_json_snapshot!(snapshot.unwrap());
}

fn revoke(world: &mut World, rank: u32) {
    world.say(rank, ToCoordinator::Revoke { comm: CommId(1), rank: Rank(rank) });
}

#[test]
fn a_split_of_a_revoked_communicator_ends_with_a_death_and_nobody_moves_up() {
    let mut world = World::with_comm(3);
    revoke(&mut world, 0);
    for rank in [0, 1] {
        world.act(rank, vec![split(Some(0), 0)]);
    }
    world.replies();
    world.die(0);
    assert!(world.refusal().starts_with("rank 0 of communicator 1 (pid 4000, train) died"));
    world.act(2, vec![split(Some(0), 0)]);
    insta::assert_snapshot!(world.refusal(), @"rank 2 calls ncclCommSplit(color=0, key=0) on communicator 1, and rank 0 (pid 4000), which would have to call it too, has died: leave the dead behind with ncclCommShrink");
    world.pass(1_000);
    assert_eq!(world.coordinator.poll_timeout(), None);
}

#[test]
fn who_waits_to_split_a_revoked_communicator_is_told_at_once_of_who_dies_or_leaves() {
    for dies in [true, false] {
        let mut world = World::with_comm(3);
        revoke(&mut world, 0);
        for rank in [0, 1] {
            world.act(rank, vec![split(Some(0), 0)]);
        }
        world.replies();
        if dies {
            world.die(2)
        } else {
            world.leave(2)
        }
        let told = world.refusals();
        assert!(told.len() == 2 && told[0] == told[1] && told[0].contains("rank 2"), "{told:#?}");
    }
}

#[test]
fn a_split_of_a_revoked_communicator_waits_no_longer_than_any_other_call() {
    let mut world = World::with_comm(3);
    revoke(&mut world, 0);
    for rank in [0, 1] {
        world.act(rank, vec![split(Some(0), 0)]);
    }
    world.replies();
    for _ in 0..9 {
        world.pass(60_000);
    }
    assert!(world.common_refusal().contains("timeout after 540.0 s"));
    for rank in 0..3 {
        world.act(rank, vec![split(Some(0), 0)]);
    }
    assert_eq!(joined(&mut world).len(), 3, "it may be tried again");
}

#[test]
fn a_second_revocation_leaves_the_splits_alone_that_follow_the_first() {
    let mut world = World::with_comm(2);
    revoke(&mut world, 0);
    world.act(0, vec![split(Some(0), 0)]);
    world.replies();
    revoke(&mut world, 1);
    assert_eq!(world.replies(), [(1, ToRank::Done)]);
    world.act(1, vec![split(Some(0), 0)]);
    assert_eq!(joined(&mut world), [(0, 2, 0, 2), (1, 2, 1, 2)]);
}

/// A communicator of ranks 0 and 1, of which the first awaits newcomers by this id.
fn growing(id: &str, newcomers: &[u32]) -> World {
    let mut world = World::with_comm(2);
    for &newcomer in newcomers {
        world.newcomer(newcomer);
    }
    begin_growth(&mut world, id);
    world
}

fn begin_growth(world: &mut World, id: &str) {
    let unique_id = UniqueId::new(id.as_bytes());
    world.say(0, ToCoordinator::GrowId { comm: CommId(1), rank: Rank(0), unique_id });
}

fn grow(world: &mut World, rank: u32) {
    let (rank, listener) = (Rank(rank), Some("@s".into()));
    let join = JoinComm { size: 3, rank, parent: Some((CommId(1), rank)), listener, ..JoinComm::default() };
    world.say(rank.0, ToCoordinator::Join(Box::new(join)));
}

fn come(world: &mut World, of: u32, id: &str) {
    let join = JoinComm {
        unique_id: UniqueId::new(id.as_bytes()),
        size: 3,
        rank: Rank(2),
        listener: Some("@s".into()),
        ..JoinComm::default()
    };
    world.say(of, ToCoordinator::Join(Box::new(join)));
}

#[test]
fn a_growth_that_failed_may_be_tried_again_with_another_id() {
    let mut world = growing("first", &[2, 3, 4]);
    grow(&mut world, 0);
    come(&mut world, 2, "first");
    world.replies();
    world.die(2);
    assert!(world.refusal().contains("died"));
    begin_growth(&mut world, "second");
    world.replies();
    come(&mut world, 3, "second");
    grow(&mut world, 0);
    assert!(world.replies().is_empty());
    come(&mut world, 4, "first");
    assert!(world.refusal().contains("died"), "who comes by the first id is too late");
    grow(&mut world, 1);
    assert_eq!(joined(&mut world), [(0, 2, 0, 3), (1, 2, 1, 3), (3, 2, 2, 3)]);
}

#[test]
fn a_growth_ends_with_the_death_or_the_departure_of_a_rank_that_it_needs() {
    for dies in [true, false] {
        let mut world = growing("id", &[2]);
        grow(&mut world, 0);
        come(&mut world, 2, "id");
        world.replies();
        if dies {
            world.die(1)
        } else {
            world.leave(1)
        }
        let told = world.refusals();
        assert!(told.len() == 2 && told[0] == told[1] && told[0].contains("rank 1"), "{told:#?}");
    }
    let mut world = World::with_comm(2);
    world.leave(1);
    world.replies();
    begin_growth(&mut world, "id");
    insta::assert_snapshot!(world.refusal(), @"communicator 1 cannot grow: rank 1 (pid 4001) has left it, and all its ranks must take part");
}

#[test]
fn a_shrink_that_needs_a_rank_which_is_gone_is_refused_at_once() {
    let mut world = World::with_comm(4);
    world.die(2);
    world.leave(3);
    world.replies();
    for rank in [0, 1] {
        world.say(rank, shrink(rank, &[3], true));
    }
    insta::assert_snapshot!(world.common_refusal(), @"ncclCommShrink of communicator 1 needs rank 2 (pid 4002), which has died: leave it out, too");
    for rank in [0, 1] {
        world.say(rank, shrink(rank, &[2, 3], true));
    }
    assert_eq!(joined(&mut world), [(0, 2, 0, 2), (1, 2, 1, 2)]);
}

#[test]
fn a_disagreement_on_a_shrink_is_told_to_who_comes_late() {
    let mut world = World::with_comm(4);
    for (rank, out) in [(0, 3), (1, 2), (2, 3)] {
        world.say(rank, shrink(rank, &[out], false));
    }
    assert!(world.common_refusal().contains("rank 1 excludes rank 2, others rank 3"));
    for rank in [0, 1, 2] {
        world.say(rank, shrink(rank, &[3], false));
    }
    assert_eq!(joined(&mut world).len(), 3, "those who were there begin anew");
}

#[test]
fn what_has_ended_leaves_nothing_behind() {
    let mut world = World::new(4);
    world.join("world", &[0, 1, 2, 3]);
    let mut comm = 1;
    let mut sizes = Vec::new();
    for round in 0..200 {
        comm += 1;
        for rank in 0..3 {
            let unique_id = UniqueId::new(b"again");
            let join = JoinComm {
                unique_id,
                size: 3,
                rank: Rank(rank),
                reusable: true,
                listener: Some("@s".into()),
                ..JoinComm::default()
            };
            world.say(rank, ToCoordinator::Join(Box::new(join)));
        }
        world.mapped(comm, &[0, 1, 2]);
        for rank in 0..3 {
            world.call_on(comm, rank, Rank(rank), &[all_reduce(4, DataType::Float32)]);
            let ops = vec![(CommId(comm), Rank(rank), split(Some(0), 0))];
            world.say(rank, ToCoordinator::Submit { ops, thread: 1 });
        }
        world.mapped(comm + 1, &[0, 1, 2]);
        if round % 2 == 0 {
            world.say(0, ToCoordinator::Revoke { comm: CommId(comm + 1), rank: Rank(0) });
            let ops = vec![(CommId(comm + 1), Rank(0), split(Some(0), 0))];
            world.say(0, ToCoordinator::Submit { ops, thread: 1 });
        }
        for rank in 0..3 {
            world.leave_comm(comm, rank);
            world.leave_comm(comm + 1, rank);
        }
        comm += 1;
        world.pass(1_000);
        world.replies();
        world.events();
        while world.coordinator.poll_errand().is_some() {}
        sizes.push(format!("{:?}", world.coordinator).len());
    }
    assert_eq!(world.coordinator.stats().communicators, 1);
    assert!(sizes[199] < sizes[99] + 200, "{} {}", sizes[99], sizes[199]);
}

#[test]
fn who_destroys_is_told_once_of_a_rank_that_ended_without() {
    let mut world = World::with_comm(3);
    world.say(1, ToCoordinator::Goodbye { grouped: 0 });
    world.die(1);
    world.replies();
    world.leave(0);
    world.leave(2);
    let notice = |reply: (u64, ToRank)| match reply {
        (peer, ToRank::Notice(text)) => Some(format!("{peer}: {text}")),
        _ => None,
    };
    let told: Vec<String> = world.replies().into_iter().filter_map(notice).collect();
    insta::assert_snapshot!(told.join("\n"), @"0: ncclCommDestroy of communicator 1: rank 1 ended without destroying it; NCCL may wait for all ranks here, so let each destroy it, or abort it where some cannot");
}

/// Whatever it is, it takes a microsecond.
struct Microsecond;

impl CostModel for Microsecond {
    fn estimate(&self, _: &Work<'_>) -> Estimate {
        Estimate { transfer: VirtualSpan::from_micros(1), ..Estimate::default() }
    }

    fn transfers(&self, works: &[TransferWork], _: u32) -> Vec<Estimate> {
        let each = Estimate { transfer: VirtualSpan::from_micros(1), ..Estimate::default() };
        vec![each; works.len()]
    }
}

#[test]
fn a_stream_is_told_an_operations_time_once_whoever_submits_its_ranks_together() {
    let modelled = |groups: &[&[u32]]| -> Vec<VirtualSpan> {
        let mut world = World::with_costs(2, Box::new(Microsecond));
        world.join_devices("devices", &[(0, 0), (0, 1)]);
        world.replies();
        for ranks in groups {
            let op = Action::Collective(all_reduce(1 << 20, DataType::Float32));
            let ops = ranks.iter().map(|&rank| (CommId(1), Rank(rank), op.clone())).collect();
            world.say(0, ToCoordinator::Submit { ops, thread: STREAM | 1 });
        }
        let told = |(_, reply)| match reply {
            ToRank::Modelled(span) => Some(span),
            _ => None,
        };
        world.replies().into_iter().filter_map(told).collect()
    };
    let apart = modelled(&[&[0], &[1]]);
    assert_eq!(apart, [VirtualSpan::from_micros(1); 2]);
    assert_eq!(modelled(&[&[0, 1]]), [VirtualSpan::from_micros(1)]);
}
