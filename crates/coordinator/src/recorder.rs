//! The flight recorder: what every rank called last, kept although its process dies.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fakegpu_proto::{Action, RankHistory};
use fakegpu_units::{CommId, GlobalRank, SessionId};

/// Calls of a rank that are remembered.
const CALLS_MAX: usize = 32;

/// Threads of a rank that are told apart; more are taken for one that may always call again.
const THREADS_MAX: usize = 64;

/// What one rank has done.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) calls: u64,
    recent: VecDeque<(CommId, Action)>,
    /// Every thread that has ever called for it.
    pub(crate) threads: BTreeSet<(SessionId, u64)>,
}

/// What all ranks have done.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    by_rank: BTreeMap<GlobalRank, Record>,
}

impl Recorder {
    pub(crate) fn note(&mut self, rank: GlobalRank, comm: CommId, action: &Action, thread: (SessionId, u64)) {
        let record = self.by_rank.entry(rank).or_default();
        record.calls += 1;
        if record.recent.len() == CALLS_MAX {
            record.recent.pop_front();
        }
        record.recent.push_back((comm, action.clone()));
        if record.threads.len() < THREADS_MAX {
            record.threads.insert(thread);
        }
    }

    pub(crate) fn get(&self, rank: GlobalRank) -> Option<&Record> {
        self.by_rank.get(&rank)
    }

    /// A rank's number is another process's from now on. Until then its calls are kept, for the stories of others.
    pub(crate) fn forget(&mut self, rank: GlobalRank) {
        self.by_rank.remove(&rank);
    }
}

impl Record {
    /// Its last calls, oldest first, as people read them.
    pub(crate) fn recent(&self) -> Vec<String> {
        self.recent.iter().map(|(comm, action)| format!("{action} on communicator {comm}")).collect()
    }

    /// Whether too many threads called to tell them apart.
    pub(crate) fn is_crowded(&self) -> bool {
        self.threads.len() >= THREADS_MAX
    }

    pub(crate) fn history(&self, rank: GlobalRank, doing: String) -> RankHistory {
        RankHistory { rank, calls: self.calls, recent: self.recent(), doing }
    }
}
