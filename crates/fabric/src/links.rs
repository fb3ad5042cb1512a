//! Links: how fast they carry bytes, how long the first byte takes, and how much they are shared.

use std::collections::BTreeMap;

use fakegpu_config::Cluster;
use fakegpu_config::cluster::{FabricSpec, LinkClass, Nic};
use fakegpu_units::{NodeIndex, VirtualSpan};

/// What is left of a link's rate within a node, in percent, once packet headers and the synchronisation between slices
/// are paid for. Published all-reduce plateaus of rings over NVLink lie at 75 to 82 % of it.
pub const INTRA_NODE_EFFICIENCY_PERCENT: u64 = 80;

/// The same between nodes, where messages are longer; published plateaus over RDMA lie at 88 to 92 %.
pub const INTER_NODE_EFFICIENCY_PERCENT: u64 = 90;

/// Picoseconds in a second.
const PICOS: u128 = 1_000_000_000_000;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Payload bytes a second, after protocol efficiency; at least 1.
    bytes_per_second: u64,
    pub(crate) latency: VirtualSpan,
}

/// How many times longer a transfer takes than it would alone, in thousandths; at least 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Oversubscription(u64);

/// All links of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    pub(crate) intra: Link,
    pub(crate) intra_oversubscription: Oversubscription,
    inter: Link,
    pub(crate) inter_oversubscription: Oversubscription,
    /// What all NICs of a node carry together, where the cluster file lists them.
    nodes: BTreeMap<NodeIndex, Link>,
    /// Pairs of nodes that differ from the class, by (source, destination).
    pairs: BTreeMap<(NodeIndex, NodeIndex), Link>,
}

impl Link {
    fn new(bandwidth_gbps: f64, latency_us: f64, efficiency_percent: u64) -> Self {
        let payload =
            u128::from(wire_bytes_per_second(bandwidth_gbps)) * u128::from(efficiency_percent) / 100;
        Self {
            bytes_per_second: u64::try_from(payload).unwrap_or(u64::MAX).max(1),
            latency: VirtualSpan::from_micros_f64(latency_us),
        }
    }

    /// The time that `bytes` take at this link's rate, rounded up so that no sum of parts beats the wire.
    pub(crate) fn time(self, bytes: u64) -> u128 {
        (u128::from(bytes) * PICOS).div_ceil(u128::from(self.bytes_per_second))
    }
}

impl Oversubscription {
    fn new(factor: f64) -> Self {
        Self(integer(factor * 1000.0).max(1000))
    }

    /// The time of a transfer that takes `alone` without competition and shares its links with `concurrent` others.
    pub(crate) fn stretch(self, alone: u128, concurrent: u32) -> u128 {
        let factor = u128::from(self.0) * (u128::from(concurrent) + 1);
        alone.saturating_mul(factor).div_ceil(1000)
    }
}

impl Links {
    pub(crate) fn new(spec: &FabricSpec) -> Self {
        let mut links = Self {
            intra: link(&spec.intra_node, INTRA_NODE_EFFICIENCY_PERCENT),
            intra_oversubscription: Oversubscription::new(spec.intra_node.oversubscription),
            inter: link(&spec.inter_node, INTER_NODE_EFFICIENCY_PERCENT),
            inter_oversubscription: Oversubscription::new(spec.inter_node.oversubscription),
            nodes: BTreeMap::new(),
            pairs: BTreeMap::new(),
        };
        for special in &spec.links {
            let bandwidth_gbps = special.bandwidth_gbps.unwrap_or(spec.inter_node.bandwidth_gbps);
            let latency_us = special.latency_us.unwrap_or(spec.inter_node.latency_us);
            let link = Link::new(bandwidth_gbps, latency_us, INTER_NODE_EFFICIENCY_PERCENT);
            links.pairs.insert((special.src, special.dst), link);
        }
        links
    }

    pub(crate) fn of_cluster(cluster: &Cluster) -> Self {
        let mut links = Self::new(&cluster.fabric);
        let equipped = cluster.indexed_nodes().filter(|(_, node)| !node.nics.is_empty());
        links.nodes = equipped.map(|(index, node)| (index, together(&node.nics))).collect();
        links
    }

    /// The link from `src` to `dst`, two nodes that differ: the pair's own, or as much of the class as the slower
    /// node's NICs carry.
    pub(crate) fn between(&self, src: NodeIndex, dst: NodeIndex) -> Link {
        if let Some(link) = self.pairs.get(&(src, dst)) {
            return *link;
        }
        match (self.nodes.get(&src), self.nodes.get(&dst)) {
            (None, None) => self.inter,
            (Some(one), None) | (None, Some(one)) => self.through(one, one),
            (Some(from), Some(to)) => self.through(from, to),
        }
    }

    /// The latency of a hop between two ranks on these nodes.
    pub(crate) fn hop_latency(&self, src: NodeIndex, dst: NodeIndex) -> VirtualSpan {
        if src == dst { self.intra.latency } else { self.between(src, dst).latency }
    }

    fn through(&self, from: &Link, to: &Link) -> Link {
        Link {
            bytes_per_second: from.bytes_per_second.min(to.bytes_per_second),
            latency: self.inter.latency + from.latency.max(to.latency),
        }
    }
}

fn link(class: &LinkClass, efficiency_percent: u64) -> Link {
    Link::new(class.bandwidth_gbps, class.latency_us, efficiency_percent)
}

/// The NICs of a node as one link: libraries run a channel over each, so their rates add.
fn together(nics: &[Nic]) -> Link {
    let bandwidth_gbps = nics.iter().map(|nic| nic.bandwidth_gbps).sum();
    let latency_us = nics.iter().map(|nic| nic.latency_us).fold(0.0, f64::max);
    Link::new(bandwidth_gbps, latency_us, INTER_NODE_EFFICIENCY_PERCENT)
}

/// Bytes a second on the wire, of gigabits a second.
fn wire_bytes_per_second(gbps: f64) -> u64 {
    integer(gbps * 1e9 / 8.0)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float casts saturate, which is the wanted answer"
)]
fn integer(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_its_wire_time_over_its_efficiency() {
        let link = Link::new(80.0, 1.5, 80);
        assert_eq!(link.time(8_000), 1_000_000);
        assert_eq!(link.latency.as_picos(), 1_500_000);
    }

    #[test]
    fn parts_are_rounded_up() {
        assert_eq!(Link::new(24.0, 0.0, 100).time(1), 334);
    }

    #[test]
    fn a_rate_below_a_byte_a_second_is_a_byte_a_second() {
        assert_eq!(Link::new(1e-12, 0.0, 80).time(1), PICOS);
    }

    #[test]
    fn oversubscription_and_company_multiply() {
        assert_eq!(Oversubscription::new(1.5).stretch(1000, 0), 1500);
        assert_eq!(Oversubscription::new(1.5).stretch(1000, 1), 3000);
        assert_eq!(Oversubscription::new(1.0).stretch(1000, 0), 1000);
    }

    #[test]
    fn the_nics_of_a_node_carry_their_sum() {
        let cluster = Cluster::preset("dgx-h100").unwrap().resized(2, 8).unwrap();
        let one = Links::new(&cluster.fabric).between(NodeIndex(0), NodeIndex(1));
        let all = Links::of_cluster(&cluster).between(NodeIndex(0), NodeIndex(1));
        assert_eq!(all.bytes_per_second, 8 * one.bytes_per_second);
        assert_eq!(all.latency, one.latency);
    }
}
