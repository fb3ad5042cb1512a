//! One thread may drive several ranks of a communicator, and call for them one after the other without a group.
//! The first of these calls must not wait for what only the same thread can do: it is put off instead.

use std::collections::BTreeSet;

use crate::communicator::{Communicator, Communicators, Driver};
use crate::operation::Need;
use crate::process;
use crate::submission::{Key, Submission, involved};

/// What this process's other ranks of an operation's communicator are about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Siblings {
    /// They have called, or other threads call for them.
    Come,
    /// Nobody has called for them yet: this thread may, or another.
    Unknown,
    /// This thread has yet to call for them.
    WaitForUs,
}

/// What the other ranks of this process are about to do for submissions of this thread; a submission behind one
/// that was put off waits with it.
pub(crate) fn what_siblings_do(
    comms: &Communicators,
    submissions: &[Submission],
    deferred: &[Submission],
) -> Siblings {
    let here = std::thread::current().id();
    let mut single = None;
    let mut is_single = move || *single.get_or_insert_with(process::is_single_threaded);
    let mut seen = Siblings::Come;
    for comm in involved(submissions.iter()) {
        let siblings = comms.siblings(&comm);
        let calls_one_by_one = |driver: Driver| driver.thread == here && driver.alone;
        let drives_another = siblings.iter().any(|other| other.driver().is_some_and(calls_one_by_one));
        for sibling in &siblings {
            let needs = || needs_of(submissions, &comm);
            if meets_all(needs(), sibling, &comm) {
                continue;
            }
            // A thread that has called for ranks in groups only may leave them to other threads afterwards; one that has
            // called for one after the other will do so again.
            let does = match sibling.driver() {
                Some(driver) if driver.thread != here => Siblings::Come,
                _ if drives_another || is_single() => Siblings::WaitForUs,
                _ => Siblings::Unknown,
            };
            seen = seen.max(does);
        }
    }
    let mut held: Vec<&Submission> = Vec::new();
    for submission in deferred {
        let free = is_free(submission, held.iter().copied());
        if !(free && has_what_it_needs(comms, submission)) {
            held.push(submission);
        }
    }
    let is_behind = submissions.iter().any(|submission| !is_free(submission, held.iter().copied()));
    if is_behind { Siblings::WaitForUs } else { seen }
}

/// Whether a submission that was put off can run now, and none that still waits holds it up.
pub(crate) fn is_runnable(comms: &Communicators, submission: &Submission, waiting: &[Submission]) -> bool {
    is_free(submission, waiting.iter()) && has_what_it_needs(comms, submission)
}

fn is_free<'a>(submission: &Submission, waiting: impl Iterator<Item = &'a Submission>) -> bool {
    let held: BTreeSet<Key> = waiting.flat_map(Submission::busy_keys).collect();
    !submission.busy_keys().any(|key| held.contains(&key))
}

/// Whether all that a submission needs of this process's ranks was called, or is other threads' to call.
fn has_what_it_needs(comms: &Communicators, submission: &Submission) -> bool {
    involved(std::iter::once(submission)).iter().all(|comm| {
        comms.siblings(comm).iter().all(|sibling| {
            let thread = |comm: &Communicator| comm.driver().map(|driver| driver.thread);
            let elsewhere = sibling.driver().is_some() && thread(sibling) != thread(comm);
            elsewhere || meets_all(needs_of(std::slice::from_ref(submission), comm), sibling, comm)
        })
    })
}

fn needs_of<'a>(submissions: &'a [Submission], comm: &'a Communicator) -> impl Iterator<Item = &'a Need> {
    submissions
        .iter()
        .flat_map(Submission::operations)
        .filter(|prepared| prepared.comm.handle == comm.handle)
        .map(|prepared| &prepared.need)
}

fn meets_all<'a>(
    mut needs: impl Iterator<Item = &'a Need>,
    sibling: &Communicator,
    comm: &Communicator,
) -> bool {
    let tally = sibling.tally();
    needs.all(|need| need.is_met_by(sibling.rank(), &tally, comm.rank()))
}
