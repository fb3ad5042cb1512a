//! What a thread holds back: the calls of an open group, and submissions that wait for the thread's other ranks.

use std::cell::RefCell;
use std::sync::Arc;

use fakegpu_rank::Group;

use crate::communicator::Communicator;
use crate::drive::{Prepared, Submission};
use crate::init::Pending;

/// A call held back by a group.
#[derive(Debug)]
pub(crate) enum Held {
    /// Joining a communicator.
    Init(Pending),
    /// An operation.
    Operation(Prepared),
}

thread_local! {
    static GROUP: RefCell<Group<Held>> = RefCell::default();
    static DEFERRED: RefCell<Vec<Submission>> = const { RefCell::new(Vec::new()) };
}

/// Does something with this thread's group.
pub(crate) fn with_group<T>(act: impl FnOnce(&mut Group<Held>) -> T) -> T {
    GROUP.with(|group| act(&mut group.borrow_mut()))
}

/// Puts a submission off until the thread's other ranks have called too.
pub(crate) fn defer(submission: Submission) {
    DEFERRED.with(|deferred| deferred.borrow_mut().push(submission));
}

/// Takes what was put off.
pub(crate) fn take_deferred() -> Vec<Submission> {
    DEFERRED.with(|deferred| std::mem::take(&mut *deferred.borrow_mut()))
}

/// Whether an operation of this communicator's rank was put off and has not run.
pub(crate) fn is_deferred(comm: &Arc<Communicator>) -> bool {
    DEFERRED.with(|deferred| deferred.borrow().iter().any(|submission| submission.involves(comm)))
}
