//! Who and which: ranks, nodes, communicators, sessions, sequence numbers, and how lists of ranks are written.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) }
        }
    };
}

id! {
    /// A rank within one communicator.
    Rank(u32)
}
id! {
    /// A rank of the whole job: one (process, device) pair, whatever communicators it joins.
    GlobalRank(u32)
}
id! {
    /// A node of the cluster file, in file order.
    NodeIndex(u32)
}
id! {
    /// A communicator, numbered by the coordinator in order of creation.
    CommId(u64)
}
id! {
    /// An operation's place in its communicator's order; the first is 0.
    SeqNo(u64)
}
id! {
    /// A process's connection to the coordinator.
    SessionId(u64)
}

macro_rules! index {
    ($($name:ident),*) => { $(
        impl $name {
            /// The number as an index into a table of such things.
            pub const fn index(self) -> usize { self.0 as usize }
        }
    )* };
}
index!(Rank, GlobalRank, NodeIndex);

impl Rank {
    /// The rank for a table index.
    pub fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// A sorted list of ranks as people write it: `rank 3`, `ranks 0-2, 5`.
#[derive(Debug)]
pub struct Ranks<'a>(pub &'a [Rank]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks = self.0;
        f.write_str(if ranks.len() == 1 { "rank " } else { "ranks " })?;
        if ranks.is_empty() {
            return f.write_str("none");
        }
        let mut at = 0;
        while at < ranks.len() {
            let mut end = at;
            while end + 1 < ranks.len() && ranks[end + 1].0 == ranks[end].0 + 1 {
                end += 1;
            }
            if at > 0 {
                f.write_str(", ")?;
            }
            match end - at {
                0 => write!(f, "{}", ranks[at])?,
                1 => write!(f, "{}, {}", ranks[at], ranks[end])?,
                _ => write!(f, "{}-{}", ranks[at], ranks[end])?,
            }
            at = end + 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ranks: &[u32], expected: &str) {
        let ranks: Vec<Rank> = ranks.iter().copied().map(Rank).collect();
        assert_eq!(Ranks(&ranks).to_string(), expected);
    }

    #[test]
    fn rank_lists_fold_runs() {
        check(&[], "ranks none");
        check(&[3], "rank 3");
        check(&[0, 1], "ranks 0, 1");
        check(&[0, 1, 2, 5, 7, 8], "ranks 0-2, 5, 7, 8");
    }
}
