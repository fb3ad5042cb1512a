//! Everything that will happen by itself, in order of time.

use std::collections::BTreeSet;

use fakegpu_units::{CommId, HostTime};

use crate::rendezvous::RendezvousKey;

/// Something that is due at some time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// Ranks have had as long as they may to say how mapping their communicator's segment went.
    Staging(CommId),
    /// A communicator's oldest unmatched operation has waited as long as it may.
    Operation(CommId),
    /// A communicator's conflict has waited for the remaining ranks.
    Conflict(CommId),
    /// A communicator's bytes stopped flowing a while ago, and no death explains it.
    Stream(CommId),
    /// A communicator's barrier has waited as long as it may.
    Barrier(CommId),
    /// Ranks have waited for the rest of their communicator.
    Join(RendezvousKey),
    /// It is time to say who waits for whom in a communicator.
    Notice(CommId),
    /// It is time to say who is missing from a rendezvous.
    JoinNotice(RendezvousKey),
    /// Ranks have waited for the rest of a smaller communicator.
    Shrink(CommId),
    /// Matched operations have waited for the rest of their groups.
    Ripe,
    /// Ranks have stood still long enough to look for a circle.
    Deadlock,
}

/// The deadlines; each [`Due`] has at most one.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    by_time: BTreeSet<(HostTime, Due)>,
}

impl Deadlines {
    pub(crate) fn set(&mut self, at: HostTime, due: Due) {
        self.by_time.insert((at, due));
    }

    pub(crate) fn clear(&mut self, at: Option<HostTime>, due: Due) {
        if let Some(at) = at {
            self.by_time.remove(&(at, due));
        }
    }

    pub(crate) fn next(&self) -> Option<HostTime> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes the first deadline that has passed.
    pub(crate) fn pop(&mut self, now: HostTime) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.by_time.pop_first().map(|(_, due)| due)
    }
}
