//! What a thread holds back: the calls of its open group, and which device it last sat on.

use std::cell::{Cell, RefCell};

use fakegpu_rank::Group;

use crate::drive::Prepared;
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
    static DEVICE: Cell<u32> = const { Cell::new(0) };
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

/// The device this thread last sat on: it sits there in its next communicators too, if it is free.
pub(crate) fn last_device() -> u32 {
    DEVICE.get()
}

/// Remembers a device for [`last_device`].
pub(crate) fn sit_on(device: u32) {
    DEVICE.set(device);
}
