//! What a thread holds back: the calls of its open group, and which device it last sat on.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fakegpu_proto::Fault;
use fakegpu_rank::{Group, GroupEnd};

use crate::init::Pending;
use crate::operation::Prepared;
use crate::window::PendingWindow;

/// A call held back by a group.
#[derive(Debug)]
pub(crate) enum Held {
    /// Joining a communicator.
    Join(Pending),
    /// Making or ending a window.
    Window(PendingWindow),
    /// An operation.
    Operation(Prepared),
}

thread_local! {
    static GROUP: RefCell<Group<Held>> = RefCell::default();
    static DEVICE: Cell<u32> = const { Cell::new(0) };
    static NUMBER: u64 = next_number();
    static BARRIER: Cell<bool> = const { Cell::new(false) };
}

/// Calls that all threads hold back.
static GROUPED: AtomicU32 = AtomicU32::new(0);

/// The last thread's number.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

fn next_number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed) + 1
}

/// This thread, as the coordinator knows it; a thread that is ending is a new one each time.
pub(crate) fn thread_number() -> u64 {
    NUMBER.try_with(|number| *number).unwrap_or_else(|_| next_number())
}

/// Does something with this thread's group. In a thread that is ending (a program may destroy communicators in
/// its static destructors) the group is gone, and none is open.
pub(crate) fn with_group<T>(act: impl FnOnce(&mut Group<Held>) -> T) -> T {
    let mut act = Some(act);
    let mut run = |group: &mut Group<Held>| act.take().map(|act| act(group));
    let done = GROUP.try_with(|group| run(&mut group.borrow_mut())).ok().flatten();
    match done.or_else(|| run(&mut Group::default())) {
        Some(done) => done,
        None => unreachable!("one of the two has run it"),
    }
}

/// Whether this thread holds calls back.
pub(crate) fn is_open() -> bool {
    with_group(|group| group.is_open())
}

/// Holds a call back; outside a group gives it back to run at once.
pub(crate) fn hold(call: Held) -> Option<Held> {
    let back = with_group(|group| group.hold(call));
    if back.is_none() {
        GROUPED.fetch_add(1, Ordering::Relaxed);
    }
    back
}

/// Leaves a group.
pub(crate) fn end() -> Result<GroupEnd<Held>, Fault> {
    let (ended, dropped) = with_group(|group| {
        let held = group.len();
        (group.end(), held - group.len())
    });
    let dropped = u32::try_from(dropped).unwrap_or(u32::MAX);
    GROUPED.fetch_sub(dropped, Ordering::Relaxed);
    ended
}

/// How many calls all threads of the process hold back.
pub(crate) fn grouped() -> u32 {
    GROUPED.load(Ordering::Relaxed)
}

/// The device this thread last sat on: it sits there in its next communicators too, if it is free.
pub(crate) fn last_device() -> u32 {
    DEVICE.get()
}

/// The thread's next all-reduce is a barrier.
pub(crate) fn mark_barrier() {
    BARRIER.set(true);
}

/// Whether the thread's all-reduce is one; the next is not.
pub(crate) fn take_barrier_mark() -> bool {
    BARRIER.take()
}

/// Remembers a device for [`last_device`].
pub(crate) fn sit_on(device: u32) {
    DEVICE.set(device);
}
