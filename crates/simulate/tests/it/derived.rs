//! Communicators made from others, and what is left of those.

use fakegpu_simulate::{ChildOptions, Code, Handle, Outcome, Runtime, Standing};

use crate::{Desk, Place, all, join_with, recv, seats, send, sum};

fn plain() -> ChildOptions {
    ChildOptions::default()
}

fn split(runtime: &Runtime, comm: Handle, color: i32, key: i32) -> Option<Handle> {
    runtime.split(comm, color, key, plain()).unwrap().0
}

#[test]
fn a_split_orders_by_key_and_leaves_out_who_has_no_colour() {
    let desk = Desk::new();
    let seats = seats(&desk, 4, &[]);
    let places = all(&seats, |runtime, comm, rank| {
        let color = if rank == 2 { -1 } else { 0 };
        let child = split(runtime, comm, color, -i32::try_from(rank).unwrap())?;
        let mut value = rank as f32;
        sum(runtime, child, &mut value).unwrap();
        assert_eq!(value, 4.0);
        Some((runtime.rank(child).unwrap().0, runtime.size(child).unwrap()))
    });
    assert_eq!(places, [Some((2, 3)), Some((1, 3)), None, Some((0, 3))]);
}

#[test]
fn equal_keys_keep_the_parents_order_and_children_can_be_cut_again() {
    let desk = Desk::new();
    let seats = seats(&desk, 4, &[]);
    all(&seats, |runtime, comm, rank| {
        let half = split(runtime, comm, i32::try_from(rank / 2).unwrap(), 5).unwrap();
        assert_eq!(runtime.rank(half).unwrap().index(), rank % 2);
        let own = split(runtime, half, i32::try_from(rank).unwrap(), 0).unwrap();
        assert_eq!(runtime.size(own).unwrap(), 1);
        let mut value = 1.0;
        sum(runtime, own, &mut value).unwrap();
        sum(runtime, half, &mut value).unwrap();
        sum(runtime, comm, &mut value).unwrap();
        assert_eq!(value, 8.0);
    });
}

#[test]
fn nobody_with_a_colour_is_success_for_all_and_other_negative_colours_are_none() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let children = all(&seats, |runtime, comm, _| split(runtime, comm, -1, 0));
    assert_eq!(children, [None, None]);
    let (runtime, comm) = &seats[0];
    assert_eq!(runtime.split(*comm, -2, 0, plain()).unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn in_a_group_the_handle_is_there_at_once_and_good_when_the_group_has_ended() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    all(&seats, |runtime, comm, _| {
        runtime.group_start();
        let children = [0, 0].map(|color| split(runtime, comm, color, 0).unwrap());
        assert_eq!(sum(runtime, children[0], &mut 1.0).unwrap_err().code, Code::InvalidArgument);
        runtime.group_end().unwrap();
        for child in children {
            let mut value = 1.0;
            sum(runtime, child, &mut value).unwrap();
            assert_eq!(value, 2.0);
        }
    });
}

#[test]
fn a_split_against_a_collective_is_a_mismatch() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let faults = all(&seats, |runtime, comm, rank| match rank {
        0 => sum(runtime, comm, &mut 1.0).unwrap_err(),
        _ => runtime.split(comm, 0, 0, plain()).unwrap_err(),
    });
    for fault in faults {
        assert_eq!(fault.code, Code::InvalidUsage);
        assert!(fault.detail.contains("CommSplit") && fault.detail.contains("AllReduce"), "{}", fault.detail);
    }
}

#[test]
fn a_shrink_leaves_ranks_behind_and_checks_its_list() {
    let desk = Desk::new();
    let seats = seats(&desk, 3, &[]);
    let (runtime, comm) = &seats[0];
    for bad in [&[][..], &[3], &[0], &[1, 1], &[-1]] {
        let fault = runtime.shrink(*comm, bad, false, plain()).unwrap_err();
        assert_eq!(fault.code, Code::InvalidArgument, "{bad:?}");
    }
    let places = all(&seats, |runtime, comm, rank| {
        if rank == 1 {
            return None;
        }
        let (child, _) = runtime.shrink(comm, &[1], false, plain()).unwrap();
        let mut value = 1.0;
        sum(runtime, child, &mut value).unwrap();
        assert_eq!(value, 2.0);
        Some(runtime.rank(child).unwrap().0)
    });
    assert_eq!(places, [Some(0), None, Some(1)]);
}

#[test]
fn survivors_of_a_failure_shrink_with_abort() {
    let desk = Desk::new();
    let mut seats = seats(&desk, 3, &[]);
    let (gone, comm) = seats.remove(1);
    gone.abort(comm).unwrap();
    let sums = all(&seats, |runtime, comm, _| {
        sum(runtime, comm, &mut 1.0).unwrap_err();
        runtime.shrink(comm, &[1], false, plain()).unwrap_err();
        let (child, _) = runtime.shrink(comm, &[1], true, plain()).unwrap();
        let mut value = 1.0;
        sum(runtime, child, &mut value).unwrap();
        value
    });
    assert_eq!(sums, [2.0, 2.0]);
}

#[test]
fn a_communicator_grows_by_an_id_that_one_of_its_ranks_makes() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let (first, comm) = &seats[0];
    assert_eq!(first.grow(*comm, 2, None, plain()).unwrap_err().code, Code::InvalidArgument);
    let id = first.grow_id(*comm).unwrap();
    let newcomer = desk.runtime(&[]);
    let grown = std::thread::scope(|scope| {
        let joins = scope.spawn(|| {
            let request = fakegpu_simulate::Request {
                unique_id: &id,
                size: 3,
                rank: 2,
                device: None,
                gpu: None,
                options: fakegpu_simulate::CommOptions::default(),
            };
            let (comm, _) = newcomer.init(&request).unwrap();
            let mut value = 4.0;
            sum(&newcomer, comm, &mut value).unwrap();
            value
        });
        let mut sums = all(&seats, |runtime, comm, rank| {
            let id = (rank == 0).then_some(&id);
            let (child, _) = runtime.grow(comm, 3, id, plain()).unwrap();
            assert_eq!((runtime.rank(child).unwrap().index(), runtime.size(child).unwrap()), (rank, 3));
            let mut value = 1.0;
            sum(runtime, child, &mut value).unwrap();
            value
        });
        sums.push(joins.join().unwrap());
        sums
    });
    assert_eq!(grown, [6.0; 3]);
}

#[test]
fn a_revoked_communicator_refuses_operations_and_can_still_be_cut() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let refused = |outcome: Result<(), fakegpu_simulate::Fault>| outcome.unwrap_err().code;
    all(&seats, |runtime, comm, _| {
        assert_eq!(refused(runtime.revoke(comm, 1)), Code::InvalidArgument);
        runtime.revoke(comm, 0).unwrap();
        assert_eq!(refused(runtime.revoke(comm, 0)), Code::InvalidArgument);
        assert_eq!(refused(sum(runtime, comm, &mut 1.0)), Code::InvalidUsage);
        assert_eq!(refused(runtime.finalize(comm)), Code::InvalidArgument);
        let child = split(runtime, comm, 0, 0).unwrap();
        let mut value = 1.0;
        sum(runtime, child, &mut value).unwrap();
        assert_eq!(value, 2.0);
        runtime.destroy(comm).unwrap();
    });
}

#[test]
fn a_revocation_ends_what_another_rank_waits_in() {
    let desk = Desk::new();
    let seats = seats(&desk, 2, &[]);
    let faults = all(&seats, |runtime, comm, rank| {
        if rank == 0 {
            return Some(recv(runtime, comm, 1, &mut [0.0]).unwrap_err());
        }
        while !desk.ask("STATS").contains("pending=1") {
            std::thread::yield_now();
        }
        runtime.revoke(comm, 0).unwrap();
        None
    });
    let fault = faults[0].as_ref().unwrap();
    assert!(fault.detail.contains("revoked"), "{}", fault.detail);
}

#[test]
fn ends_come_once_and_a_suspended_communicator_waits_for_its_resumption() {
    let desk = Desk::new();
    let seats = seats(&desk, 1, &[]);
    let (runtime, comm) = (&seats[0].0, seats[0].1);
    assert_eq!(runtime.resume(comm).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(runtime.suspend(comm, 0).unwrap_err().code, Code::InvalidArgument);
    runtime.suspend(comm, 1).unwrap();
    let fault = send(runtime, comm, 0, &[1.0]).unwrap_err();
    assert_eq!(fault.code, Code::InvalidUsage);
    assert!(fault.detail.contains("ncclCommResume"), "{}", fault.detail);
    runtime.resume(comm).unwrap();
    sum(runtime, comm, &mut 1.0).unwrap();
    assert_eq!(runtime.async_error(comm).unwrap(), Standing::Fine);
    runtime.finalize(comm).unwrap();
    assert_eq!(runtime.finalize(comm).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(sum(runtime, comm, &mut 1.0).unwrap_err().code, Code::InvalidUsage);
    runtime.destroy(comm).unwrap();
    assert_eq!(runtime.destroy(comm).unwrap_err().code, Code::InvalidUsage);
    let place = Place { id: 2, size: 1, rank: 0 };
    let (other, outcome) = join_with(runtime, place, fakegpu_simulate::CommOptions::default()).unwrap();
    assert_eq!(outcome, Outcome::Done);
    runtime.abort(other).unwrap();
    assert_eq!(runtime.destroy(other).unwrap_err().code, Code::InvalidUsage);
}
