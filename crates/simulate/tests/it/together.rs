//! Runtimes that need each other: right results, and bounded ends when one of them is not there.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fakegpu_simulate::{Code, CommOptions, Fault, Handle, Runtime};

use crate::{Desk, Place, join, join_with, sum};

/// Two runtimes with a communicator over both.
fn pair(desk: &Desk, more: &[(&str, &str)]) -> (Arc<Runtime>, Handle, Arc<Runtime>, Handle) {
    let (here, there) = (Arc::new(desk.runtime(more)), Arc::new(desk.runtime(more)));
    let other = Arc::clone(&there);
    let joining = std::thread::spawn(move || join(&other, 1, 1));
    let mine = join(&here, 1, 0).unwrap();
    (here, mine, there, joining.join().unwrap().unwrap())
}

#[test]
fn an_id_that_programs_invent_is_a_rendezvous() {
    for more in [&[][..], &[("FAKEGPU_STAGING_FORCE_SOCKET", "1")][..]] {
        let desk = Desk::new();
        let (here, mine, there, theirs) = pair(&desk, more);
        let other = std::thread::spawn(move || {
            let mut value = 2.0;
            sum(&there, theirs, &mut value).unwrap();
            there.destroy(theirs).unwrap();
            value
        });
        let mut value = 1.0;
        sum(&here, mine, &mut value).unwrap();
        here.destroy(mine).unwrap();
        assert_eq!((value, other.join().unwrap()), (3.0, 3.0));
    }
}

#[test]
fn an_abort_from_another_thread_ends_a_waiting_call_within_a_second() {
    let desk = Desk::new();
    let (here, mine, there, theirs) = pair(&desk, &[]);
    let waiting = Arc::clone(&here);
    let (started, has_started) = channel();
    let call = std::thread::spawn(move || {
        started.send(()).unwrap();
        sum(&waiting, mine, &mut 1.0)
    });
    has_started.recv().unwrap();
    while !desk.ask("STATS").contains("pending=1") {
        std::thread::yield_now();
    }
    let begun = Instant::now();
    here.abort(mine).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    call.join().unwrap().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(1));
    let fault = sum(&there, theirs, &mut 1.0).unwrap_err();
    assert_eq!(fault.code, Code::RemoteError);
    assert!(fault.detail.contains("aborted"), "{}", fault.detail);
}

#[test]
fn a_coordinator_that_is_gone_fails_destroy_and_not_abort() {
    let mut desk = Desk::new();
    let (here, mine, there, theirs) = pair(&desk, &[]);
    desk.stop();
    let fault = sum(&here, mine, &mut 1.0).unwrap_err();
    assert!(fault.detail.contains("connect() failed"), "{}", fault.detail);
    let fault = here.destroy(mine).unwrap_err();
    assert!(fault.detail.contains("connect() failed"), "{}", fault.detail);
    there.abort(theirs).unwrap();
}

#[test]
fn a_join_that_failed_beside_another_leaves_nobody_waiting() {
    let desk = Desk::new();
    let (here, there) = (desk.runtime(&[("FAKEGPU_JOIN_TIMEOUT_MS", "400")]), Arc::new(desk.runtime(&[])));
    let other = Arc::clone(&there);
    let second = std::thread::spawn(move || join(&other, 2, 1).and_then(|comm| sum(&other, comm, &mut 1.0)));
    here.group_start();
    // Nobody else comes to the first.
    let handles: Vec<Handle> = [1, 2].into_iter().map(|id| join(&here, id, 0).unwrap()).collect();
    let begun = Instant::now();
    let fault = here.group_end().unwrap_err();
    assert!(fault.detail.contains("misses rank 1"), "{}", fault.detail);
    second.join().unwrap().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    handles.into_iter().for_each(|handle| here.abort(handle).unwrap());
    assert!(desk.ask("STATS").contains("pending=0"), "{}", desk.ask("STATS"));
}

#[test]
fn a_session_that_was_lost_is_not_used_again() {
    let mut desk = Desk::new();
    let runtime = desk.runtime(&[]);
    join_alone(&runtime);
    desk.stop();
    let address = desk.address();
    let again =
        fakegpu_coordinatord::Daemon::bind("unix", &address, fakegpu_coordinatord::Setup::default()).unwrap();
    desk.daemon = Some(std::thread::spawn(|| again.run()));
    // The first call may be the one that notices; the next one connects anew.
    let first = alone(&runtime, 9);
    if first.is_err() {
        alone(&runtime, 9).unwrap();
    }
}

fn alone(runtime: &Runtime, id: u8) -> Result<Handle, Fault> {
    join_with(runtime, Place { id, size: 1, rank: 0 }, CommOptions::default()).map(|(handle, _)| handle)
}

fn join_alone(runtime: &Runtime) {
    let comm = alone(runtime, 8).unwrap();
    let mut value = 5.0;
    sum(runtime, comm, &mut value).unwrap();
    assert_eq!(value, 5.0);
}
