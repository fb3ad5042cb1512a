//! Point-to-point operations that start together: each alone, and what sharing ports and node links adds.

use std::collections::BTreeMap;

use fakegpu_proto::{Estimate, Flow};
use fakegpu_units::{GlobalRank, NodeIndex};

use crate::links::{Link, Links};
use crate::plan::Algorithm;
use crate::two_class::{LAUNCH, span};

/// One point-to-point operation, as a [`crate::Model`] needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferQuery {
    /// The sender's node.
    pub src: NodeIndex,
    /// The receiver's node.
    pub dst: NodeIndex,
    /// Who sends.
    pub from: GlobalRank,
    /// Who receives; may be the sender itself.
    pub to: GlobalRank,
    /// How many bytes.
    pub bytes: u64,
}

/// What a set of transfers puts on everything that they share.
#[derive(Debug)]
pub(crate) struct Load<'a> {
    links: &'a Links,
    /// Bytes out of each GPU's port within its node, and into it.
    sent: BTreeMap<GlobalRank, u64>,
    received: BTreeMap<GlobalRank, u64>,
    /// How long each node's link to the others is busy in each direction, in picoseconds.
    out: BTreeMap<NodeIndex, u128>,
    into: BTreeMap<NodeIndex, u128>,
}

impl TransferQuery {
    fn is_to_itself(&self) -> bool {
        self.from == self.to
    }

    fn crosses_nodes(&self) -> bool {
        self.src != self.dst
    }
}

impl<'a> Load<'a> {
    /// One pass over the set, and one over the pairs of nodes it crosses.
    pub(crate) fn new(links: &'a Links, queries: &[TransferQuery]) -> Self {
        let mut load = Self {
            links,
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            out: BTreeMap::new(),
            into: BTreeMap::new(),
        };
        let mut crossing: BTreeMap<(NodeIndex, NodeIndex), u64> = BTreeMap::new();
        for query in queries.iter().filter(|query| !query.is_to_itself()) {
            if query.crosses_nodes() {
                add(&mut crossing, (query.src, query.dst), query.bytes);
            } else {
                add(&mut load.sent, query.from, query.bytes);
                add(&mut load.received, query.to, query.bytes);
            }
        }
        // By pair and not by transfer: a pair of nodes may have a link of its own, and rounding counts once.
        for ((src, dst), bytes) in crossing {
            let time = links.between(src, dst).time(bytes);
            *load.out.entry(src).or_default() += time;
            *load.into.entry(dst).or_default() += time;
        }
        load
    }

    /// What `query`, one of the set, costs while the others run and `concurrent` further operations use its links.
    pub(crate) fn price(&self, query: &TransferQuery, concurrent: u32) -> Estimate {
        if query.is_to_itself() {
            return Estimate { base_latency: LAUNCH, ..direct() };
        }
        let link = self.link(query);
        let alone = link.time(query.bytes);
        // What puts no byte on a link shares none.
        let busy = if query.bytes == 0 { 0 } else { self.busiest(query) };
        let oversubscription = if query.crosses_nodes() {
            self.links.inter_oversubscription
        } else {
            self.links.intra_oversubscription
        };
        Estimate {
            base_latency: LAUNCH + link.latency,
            transfer: span(alone),
            contention: span(oversubscription.stretch(busy, concurrent).saturating_sub(alone)),
            steps: 1,
            bottleneck: if query.crosses_nodes() { "inter_node" } else { "intra_node" }.to_owned(),
            flows: vec![Flow { src: query.src, dst: query.dst, bytes: query.bytes }],
            ..direct()
        }
    }

    fn link(&self, query: &TransferQuery) -> Link {
        if query.crosses_nodes() { self.links.between(query.src, query.dst) } else { self.links.intra }
    }

    /// How long the busier end of a transfer is busy with the whole set.
    fn busiest(&self, query: &TransferQuery) -> u128 {
        if query.crosses_nodes() {
            busier(self.out.get(&query.src), self.into.get(&query.dst))
        } else {
            self.links.intra.time(busier(self.sent.get(&query.from), self.received.get(&query.to)))
        }
    }
}

fn busier<T: Copy + Default + Ord>(sender: Option<&T>, receiver: Option<&T>) -> T {
    sender.max(receiver).copied().unwrap_or_default()
}

fn add<K: Ord>(sums: &mut BTreeMap<K, u64>, key: K, bytes: u64) {
    let sum = sums.entry(key).or_default();
    *sum = sum.saturating_add(bytes);
}

/// There is one way to send to one peer.
fn direct() -> Estimate {
    Estimate {
        algorithm: Algorithm::Direct.name().to_owned(),
        chosen_by: "model".to_owned(),
        ..Estimate::default()
    }
}
