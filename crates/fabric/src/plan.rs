//! Algorithms: which bytes cross which links, and in how many steps.

use std::collections::BTreeMap;

use fakegpu_proto::{Descriptor, Flow};
use fakegpu_units::{Collective, NodeIndex, VirtualSpan};

use crate::links::Links;

/// An algorithm, by NCCL's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Each rank sends to the next; the last to the first.
    Ring,
    /// Two trees that carry half of the bytes each, so that most ranks are a leaf in one of them.
    Tree,
    /// Each rank sends to whom the bytes are for.
    Direct,
}

impl Algorithm {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Direct => "direct",
        }
    }

    /// The algorithms that can carry out `op`; the first is what is taken where they are equally fast.
    pub(crate) const fn for_collective(op: Collective) -> &'static [Self] {
        match op {
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce => &[Self::Ring, Self::Tree],
            Collective::AllGather | Collective::ReduceScatter => &[Self::Ring],
            Collective::AllToAll | Collective::Gather | Collective::Scatter => &[Self::Direct],
        }
    }
}

/// An algorithm applied to one operation.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) algorithm: Algorithm,
    pub(crate) steps: u32,
    /// Of all steps together.
    pub(crate) latency: VirtualSpan,
    pub(crate) traffic: Traffic,
}

/// The bytes that an operation puts on links.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// By (source, destination); within a node the two are the same.
    nodes: BTreeMap<(NodeIndex, NodeIndex), u64>,
    /// What the busiest GPU sends, or receives, within its node.
    busiest_port: u64,
}

impl Traffic {
    /// The time of the slowest link within a node and between nodes, were each alone; picoseconds.
    pub(crate) fn times(&self, links: &Links) -> (u128, u128) {
        let mut out: BTreeMap<NodeIndex, u128> = BTreeMap::new();
        let mut into: BTreeMap<NodeIndex, u128> = BTreeMap::new();
        for (&(src, dst), &bytes) in self.nodes.iter().filter(|((src, dst), _)| src != dst) {
            // All traffic of a node passes its network interface, whatever rank it belongs to.
            let time = links.between(src, dst).time(bytes);
            *out.entry(src).or_default() += time;
            *into.entry(dst).or_default() += time;
        }
        let inter = out.values().chain(into.values()).max();
        (links.intra.time(self.busiest_port), inter.copied().unwrap_or(0))
    }

    pub(crate) fn crosses_nodes(&self) -> bool {
        self.nodes.keys().any(|(src, dst)| src != dst)
    }

    pub(crate) fn into_flows(self) -> Vec<Flow> {
        self.nodes.into_iter().map(|((src, dst), bytes)| Flow { src, dst, bytes }).collect()
    }
}

/// The members of a communicator, where they are and what they do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    pub(crate) links: &'a Links,
    pub(crate) nodes: &'a [NodeIndex],
    op: Collective,
    block_bytes: u64,
    root: usize,
}

/// Adds up traffic hop by hop.
struct Hops<'a> {
    work: Work<'a>,
    traffic: Traffic,
    sent: Vec<u64>,
    received: Vec<u64>,
    slowest_intra: VirtualSpan,
    slowest_inter: VirtualSpan,
}

impl<'a> Hops<'a> {
    fn new(work: Work<'a>) -> Self {
        let ports = vec![0; work.nodes.len()];
        Self {
            work,
            traffic: Traffic::default(),
            sent: ports.clone(),
            received: ports,
            slowest_intra: VirtualSpan::ZERO,
            slowest_inter: VirtualSpan::ZERO,
        }
    }

    fn add(&mut self, src: usize, dst: usize, bytes: u64) {
        let ends @ (from, to) = (self.work.nodes[src], self.work.nodes[dst]);
        add(self.traffic.nodes.entry(ends).or_default(), bytes);
        let latency = self.work.links.hop_latency(from, to);
        if from == to {
            add(&mut self.sent[src], bytes);
            add(&mut self.received[dst], bytes);
            self.slowest_intra = self.slowest_intra.max(latency);
        } else {
            self.slowest_inter = self.slowest_inter.max(latency);
        }
    }

    fn slowest(&self) -> VirtualSpan {
        self.slowest_intra.max(self.slowest_inter)
    }

    fn finish(mut self) -> Traffic {
        self.traffic.busiest_port = self.sent.into_iter().chain(self.received).max().unwrap_or(0);
        self.traffic
    }
}

impl<'a> Work<'a> {
    /// `None` for fewer than two ranks, which have no links between them.
    pub(crate) fn new(links: &'a Links, nodes: &'a [NodeIndex], descriptor: &Descriptor) -> Option<Self> {
        let last = nodes.len().checked_sub(1).filter(|last| *last > 0)?;
        // A root outside the communicator is refused long before anything is estimated.
        let root = descriptor.root.map_or(0, |root| root.index().min(last));
        Some(Self { links, nodes, op: descriptor.op, block_bytes: descriptor.block_bytes(), root })
    }

    pub(crate) fn plan(self, algorithm: Algorithm) -> Plan {
        match algorithm {
            Algorithm::Ring => self.ring(),
            Algorithm::Tree => self.tree(),
            Algorithm::Direct if self.op == Collective::AllToAll => self.all_to_all(),
            Algorithm::Direct => self.star(),
        }
    }

    /// In rank order. All hops work at once, so each step lasts as long as its slowest hop.
    fn ring(self) -> Plan {
        let size = self.nodes.len();
        let mut hops = Hops::new(self);
        for src in 0..size {
            if let Some(bytes) = self.ring_hop_bytes(src) {
                hops.add(src, (src + 1) % size, bytes);
            }
        }
        let rounds = if self.op == Collective::AllReduce { 2 } else { 1 };
        let steps = rounds * self.peers();
        let latency = hops.slowest().times(steps);
        self.made(Algorithm::Ring, steps, latency, hops.finish())
    }

    /// What the hop from `src` to its successor carries; `None` where the ring is not closed.
    fn ring_hop_bytes(self, src: usize) -> Option<u64> {
        let size = self.nodes.len();
        match self.op {
            // A round of reduce-scatter, in which `src` passes on every slice but the one after its own, and a
            // round of all-gather, in which it passes on every slice but the one after that.
            Collective::AllReduce => {
                let kept = self.slice_bytes((src + 1) % size) + self.slice_bytes((src + 2) % size);
                Some(self.block_bytes.saturating_mul(2).saturating_sub(kept))
            }
            Collective::Broadcast => ((src + 1) % size != self.root).then_some(self.block_bytes),
            Collective::Reduce => (src != self.root).then_some(self.block_bytes),
            _ => Some(self.block_bytes.saturating_mul(self.peers())),
        }
    }

    /// Bytes of slice `index` when a block is cut into one slice a rank, the first ones a byte longer.
    fn slice_bytes(self, index: usize) -> u64 {
        let size = self.nodes.len() as u64;
        self.block_bytes / size + u64::from((index as u64) < self.block_bytes % size)
    }

    /// A tree between nodes, over one leader each, and a tree below each leader.
    fn tree(self) -> Plan {
        let teams = self.teams();
        let leaders: Vec<usize> = teams.iter().map(|team| team[0]).collect();
        let mut hops = Hops::new(self);
        self.add_tree(&leaders, &mut hops);
        for team in &teams {
            self.add_tree(team, &mut hops);
        }
        let inter_levels = depth(leaders.len());
        let intra_levels = teams.iter().map(|team| depth(team.len())).max().unwrap_or(0);
        let passes = if self.op == Collective::AllReduce { 2 } else { 1 };
        let once = hops.slowest_inter.times(inter_levels) + hops.slowest_intra.times(intra_levels);
        self.made(Algorithm::Tree, passes * (inter_levels + intra_levels), once.times(passes), hops.finish())
    }

    /// The members by node, each node's leader first, the root's node first.
    fn teams(self) -> Vec<Vec<usize>> {
        let size = self.nodes.len();
        let mut places: BTreeMap<NodeIndex, usize> = BTreeMap::new();
        let mut teams: Vec<Vec<usize>> = Vec::new();
        for rank in (self.root..size).chain(0..self.root) {
            let place = *places.entry(self.nodes[rank]).or_insert(teams.len());
            match teams.get_mut(place) {
                Some(team) => team.push(rank),
                None => teams.push(vec![rank]),
            }
        }
        teams
    }

    /// Two binary trees below the first member, half of the bytes in each. The second has the others in reverse, so
    /// that who has children in one is a leaf in the other and no member sends more than twice the bytes.
    fn add_tree(self, members: &[usize], hops: &mut Hops<'_>) {
        let Some((&top, rest)) = members.split_first() else { return };
        let halves = [self.block_bytes / 2, self.block_bytes - self.block_bytes / 2];
        for (tree, bytes) in halves.into_iter().enumerate() {
            let member = |at: usize| if tree == 0 { rest[at] } else { rest[rest.len() - 1 - at] };
            for at in 0..rest.len() {
                let parent = at.checked_sub(1).map_or(top, |below| member(below / 2));
                if self.op != Collective::Broadcast {
                    hops.add(member(at), parent, bytes);
                }
                if self.op != Collective::Reduce {
                    hops.add(parent, member(at), bytes);
                }
            }
        }
    }

    /// Every rank and the root, one after another: the root's own links are the limit.
    fn star(self) -> Plan {
        let mut hops = Hops::new(self);
        let mut latency = VirtualSpan::ZERO;
        for rank in (0..self.nodes.len()).filter(|rank| *rank != self.root) {
            let (src, dst) =
                if self.op == Collective::Gather { (rank, self.root) } else { (self.root, rank) };
            hops.add(src, dst, self.block_bytes);
            latency += self.links.hop_latency(self.nodes[src], self.nodes[dst]);
        }
        self.made(Algorithm::Direct, self.peers(), latency, hops.finish())
    }

    /// Every pair, in as many rounds as a rank has peers. Counted by node: a thousand ranks have a million pairs.
    fn all_to_all(self) -> Plan {
        let mut locals: BTreeMap<NodeIndex, u64> = BTreeMap::new();
        for node in self.nodes {
            *locals.entry(*node).or_default() += 1;
        }
        let mut traffic = Traffic::default();
        let mut slowest = VirtualSpan::ZERO;
        for (&src, &senders) in &locals {
            for (&dst, &receivers) in &locals {
                let pairs = if src == dst { senders * (senders - 1) } else { senders * receivers };
                if pairs > 0 {
                    traffic.nodes.insert((src, dst), self.block_bytes.saturating_mul(pairs));
                    slowest = slowest.max(self.links.hop_latency(src, dst));
                }
            }
        }
        let most = locals.into_values().max().unwrap_or(1);
        traffic.busiest_port = self.block_bytes.saturating_mul(most - 1);
        self.made(Algorithm::Direct, self.peers(), slowest.times(self.peers()), traffic)
    }

    fn peers(self) -> u64 {
        self.nodes.len() as u64 - 1
    }

    fn made(self, algorithm: Algorithm, steps: u64, latency: VirtualSpan, traffic: Traffic) -> Plan {
        Plan { algorithm, steps: u32::try_from(steps).unwrap_or(u32::MAX), latency, traffic }
    }
}

/// Levels below the top of a tree: the top has one child in each tree, every other member up to two.
fn depth(members: usize) -> u64 {
    members.checked_sub(1).and_then(usize::checked_ilog2).map_or(0, |levels| u64::from(levels) + 1)
}

fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_as_deep_as_the_logarithm_rounded_up() {
        let depths: Vec<u64> = [0, 1, 2, 3, 4, 5, 8, 9, 16, 17].map(depth).to_vec();
        assert_eq!(depths, [0, 0, 1, 2, 2, 3, 3, 4, 4, 5]);
    }
}
