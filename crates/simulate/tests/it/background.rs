//! Non-blocking communicators.

use std::time::{Duration, Instant};

use fakegpu_simulate::{ChildOptions, Code, CommOptions, Handle, Outcome, Runtime, Standing};
use fakegpu_units::Collective as Op;

use crate::{Desk, Place, collective, join_with, sum};

fn unblocked() -> CommOptions {
    CommOptions { blocking: false, name: None }
}

/// Polls as a program would, and not for ever.
fn settled(runtime: &Runtime, comm: Handle) -> Standing {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match runtime.async_error(comm).unwrap() {
            Standing::InProgress if Instant::now() < deadline => std::thread::yield_now(),
            standing => return standing,
        }
    }
}

fn begin(runtime: &Runtime, id: u8, rank: i32) -> Handle {
    let (comm, outcome) = join_with(runtime, Place { id, size: 2, rank }, unblocked()).unwrap();
    assert_eq!(outcome, Outcome::InProgress);
    comm
}

#[test]
fn one_thread_makes_and_uses_both_ranks_without_a_group() {
    let desk = Desk::new();
    let (here, there) = (desk.runtime(&[]), desk.runtime(&[]));
    let (mine, theirs) = (begin(&here, 1, 0), begin(&there, 1, 1));
    assert_eq!((settled(&here, mine), settled(&there, theirs)), (Standing::Fine, Standing::Fine));
    let mut values = [1.0_f32, 2.0];
    let places = [&raw mut values[0], &raw mut values[1]];
    let ends = [(&here, mine), (&there, theirs)];
    for ((runtime, comm), place) in ends.into_iter().zip(places) {
        let outcome = collective(runtime, comm, (Op::AllReduce, None), 1, (place, place)).unwrap();
        assert_eq!(outcome, Outcome::InProgress);
    }
    assert_eq!((settled(&here, mine), settled(&there, theirs)), (Standing::Fine, Standing::Fine));
    assert_eq!(values, [3.0; 2]);
    here.destroy(mine).unwrap();
    there.destroy(theirs).unwrap();
}

#[test]
fn a_call_before_the_init_is_done_is_refused_and_has_no_effect() {
    let desk = Desk::new();
    let (here, there) = (desk.runtime(&[]), desk.runtime(&[]));
    let mine = begin(&here, 1, 0);
    assert_eq!(here.async_error(mine).unwrap(), Standing::InProgress);
    assert_eq!(sum(&here, mine, &mut 1.0).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(here.size(mine).unwrap_err().code, Code::InvalidArgument);
    assert_eq!(here.destroy(mine).unwrap_err().code, Code::InvalidArgument);
    let theirs = begin(&there, 1, 1);
    assert_eq!((settled(&here, mine), settled(&there, theirs)), (Standing::Fine, Standing::Fine));
    assert_eq!(here.size(mine).unwrap(), 2);
}

#[test]
fn an_abort_ends_an_init_that_nobody_joins_within_a_second() {
    let desk = Desk::new();
    let runtime = desk.runtime(&[]);
    let comm = begin(&runtime, 1, 0);
    let begun = Instant::now();
    runtime.abort(comm).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert_eq!(runtime.async_error(comm).unwrap_err().code, Code::InvalidUsage);
}

#[test]
fn an_abort_ends_an_operation_that_waits_for_a_rank_within_a_second() {
    let desk = Desk::new();
    let (here, there) = (desk.runtime(&[]), desk.runtime(&[]));
    let (mine, theirs) = (begin(&here, 1, 0), begin(&there, 1, 1));
    assert_eq!((settled(&here, mine), settled(&there, theirs)), (Standing::Fine, Standing::Fine));
    let mut value = 1.0_f32;
    let place = &raw mut value;
    collective(&here, mine, (Op::AllReduce, None), 1, (place, place)).unwrap();
    let begun = Instant::now();
    here.abort(mine).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // The peer has nothing under way, and hears of it when the coordinator does.
    let fault = loop {
        match there.async_error(theirs).unwrap() {
            Standing::Failed(fault) => break fault,
            _ => assert!(begun.elapsed() < Duration::from_secs(20), "the peer is told"),
        }
    };
    assert_eq!(fault.code, Code::RemoteError);
}

#[test]
fn a_failure_in_the_background_is_what_the_communicator_says_of_itself() {
    let desk = Desk::new();
    let runtime = desk.runtime(&[("FAKEGPU_JOIN_TIMEOUT_MS", "200")]);
    let comm = begin(&runtime, 1, 0);
    let Standing::Failed(fault) = settled(&runtime, comm) else { panic!("nobody else comes") };
    assert_eq!(fault.code, Code::SystemError);
    assert!(fault.detail.contains("rank 1"), "{}", fault.detail);
    runtime.abort(comm).unwrap();
}

#[test]
fn a_split_keeps_its_parent_busy_until_the_child_exists() {
    let desk = Desk::new();
    let (here, there) = (desk.runtime(&[]), desk.runtime(&[]));
    let (mine, theirs) = (begin(&here, 1, 0), begin(&there, 1, 1));
    assert_eq!((settled(&here, mine), settled(&there, theirs)), (Standing::Fine, Standing::Fine));
    let (child, outcome) = here.split(mine, 0, 0, ChildOptions::default()).unwrap();
    assert_eq!(outcome, Outcome::InProgress);
    let child = child.unwrap();
    assert_eq!(here.async_error(mine).unwrap(), Standing::InProgress);
    assert_eq!(here.async_error(child).unwrap(), Standing::InProgress);
    let (other, _) = there.split(theirs, 0, 0, ChildOptions::default()).unwrap();
    assert_eq!((settled(&here, mine), settled(&here, child)), (Standing::Fine, Standing::Fine));
    assert_eq!(settled(&there, other.unwrap()), Standing::Fine);
    assert_eq!(here.size(child).unwrap(), 2);
}

#[test]
fn blocking_and_not_in_one_group_is_refused() {
    let desk = Desk::new();
    let runtime = desk.runtime(&[]);
    runtime.group_start();
    for (id, options) in [(1, unblocked()), (2, CommOptions::default())] {
        join_with(&runtime, Place { id, size: 1, rank: 0 }, options).unwrap();
    }
    assert_eq!(runtime.group_end().unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn the_environment_overrides_the_mode() {
    let desk = Desk::new();
    let runtime = desk.runtime(&[("NCCL_COMM_BLOCKING", "0")]);
    let place = Place { id: 1, size: 1, rank: 0 };
    let (comm, outcome) = join_with(&runtime, place, CommOptions::default()).unwrap();
    assert_eq!(outcome, Outcome::InProgress);
    assert_eq!(settled(&runtime, comm), Standing::Fine);
}
