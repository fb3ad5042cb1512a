//! Clusters by numbers: so many nodes with so many ranks each.

use fakegpu_units::GlobalRank;

use super::{Cluster, Gpu, MAX_RANKS, Node, Numa, presets};
use crate::profiles;

/// Why a cluster cannot have a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// No nodes, or nodes without ranks.
    #[error("a cluster has at least one node with one rank, not {nodes} × {ranks_per_node}")]
    Empty {
        /// Nodes asked for.
        nodes: u32,
        /// Ranks asked for on each.
        ranks_per_node: u32,
    },
    /// More ranks than [`MAX_RANKS`].
    #[error("{nodes} nodes of {ranks_per_node} ranks are more than {MAX_RANKS} ranks")]
    TooLarge {
        /// Nodes asked for.
        nodes: u32,
        /// Ranks asked for on each.
        ranks_per_node: u32,
    },
}

impl Cluster {
    /// `nodes` alike with `ranks_per_node` H100 each, joined like the `dgx-h100` preset.
    ///
    /// For numbers that come from a running job: 0 counts as 1, and ranks beyond [`MAX_RANKS`] are left out, nodes
    /// first. Use [`Cluster::resized`] for numbers that a person wrote.
    ///
    /// ```
    /// let cluster = fakegpu_config::Cluster::uniform(2, 4);
    /// assert_eq!((cluster.world_size(), cluster.nodes[1].id.as_str()), (8, "node1"));
    /// ```
    pub fn uniform(nodes: u32, ranks_per_node: u32) -> Self {
        let ranks_per_node = ranks_per_node.clamp(1, MAX_RANKS);
        let nodes = nodes.clamp(1, MAX_RANKS / ranks_per_node);
        let mut cluster = presets::dgx_h100();
        "uniform".clone_into(&mut cluster.name);
        cluster.reshape(nodes, ranks_per_node);
        cluster
    }

    /// The cluster with `nodes` copies of its first node, named `node0` …, and `ranks_per_node` ranks on each,
    /// numbered through. GPUs repeat the first node's in order; NICs stay as they are. Switches and link overrides
    /// are kept while all they name is there, else dropped, since they describe another number of nodes.
    ///
    /// # Errors
    /// No ranks, or more than [`MAX_RANKS`].
    pub fn resized(&self, nodes: u32, ranks_per_node: u32) -> Result<Self, ShapeError> {
        if nodes == 0 || ranks_per_node == 0 {
            return Err(ShapeError::Empty { nodes, ranks_per_node });
        }
        if nodes.checked_mul(ranks_per_node).is_none_or(|ranks| ranks > MAX_RANKS) {
            return Err(ShapeError::TooLarge { nodes, ranks_per_node });
        }
        let mut cluster = self.clone();
        cluster.reshape(nodes, ranks_per_node);
        Ok(cluster)
    }

    fn reshape(&mut self, nodes: u32, ranks_per_node: u32) {
        let template = self.nodes.first();
        self.nodes = (0..nodes).map(|node| shaped(template, node, ranks_per_node)).collect();
        let there = |node: &fakegpu_units::NodeIndex| node.0 < nodes;
        self.fabric.switches.retain(|switch| switch.nodes.iter().all(there));
        self.fabric.links.retain(|link| there(&link.src) && there(&link.dst));
    }
}

/// The `index`-th node, made like `template`.
fn shaped(template: Option<&Node>, index: u32, ranks: u32) -> Node {
    let profiles = template.map_or(&[][..], |node| &node.gpus);
    let default = || Gpu { profile: profiles::DEFAULT.to_owned() };
    let gpu = |device: u32| {
        let known = profiles.iter().cycle().nth(device as usize % profiles.len().max(1));
        known.cloned().unwrap_or_else(default)
    };
    Node {
        id: format!("node{index}"),
        host: template.map_or_else(|| super::read::DEFAULT_HOST.to_owned(), |node| node.host.clone()),
        ranks: (index * ranks..(index + 1) * ranks).map(GlobalRank).collect(),
        gpus: (0..ranks).map(gpu).collect(),
        nics: template.map(|node| node.nics.clone()).unwrap_or_default(),
        numa: template.map(|node| spread(&node.numa, ranks)).unwrap_or_default(),
    }
}

/// The domains with `devices` GPUs dealt out in blocks, as the boards do.
fn spread(domains: &[Numa], devices: u32) -> Vec<Numa> {
    let count = u32::try_from(domains.len()).unwrap_or(u32::MAX).max(1);
    let share = devices.div_ceil(count);
    (0..)
        .zip(domains)
        .map(|(at, domain)| {
            let gpus = (at * share).min(devices)..((at + 1) * share).min(devices);
            Numa { id: domain.id, gpus: gpus.collect() }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use fakegpu_units::NodeIndex;

    use super::*;

    #[test]
    fn world_size_is_nodes_times_ranks_and_ranks_count_through() {
        let cluster = Cluster::uniform(3, 4);
        assert_eq!(cluster.world_size(), 12);
        assert_eq!(cluster.node_of(GlobalRank(7)), Some(NodeIndex(1)));
        assert_eq!(cluster.local_device_of(GlobalRank(7)), Some(3));
        assert_eq!(cluster.node_of(GlobalRank(12)), None);
        assert_eq!(cluster.node_by_id("node2").map(|(index, _)| index), Some(NodeIndex(2)));
    }

    #[test]
    fn uniform_brings_odd_numbers_into_bounds() {
        assert_eq!(Cluster::uniform(0, 0).world_size(), 1);
        assert_eq!(Cluster::uniform(u32::MAX, u32::MAX).world_size(), MAX_RANKS);
    }

    #[test]
    fn resized_refuses_shapes_by_name() {
        let cluster = Cluster::uniform(1, 1);
        assert_eq!(
            cluster.resized(0, 8).unwrap_err().to_string(),
            "a cluster has at least one node with one rank, not 0 × 8"
        );
        assert_eq!(
            cluster.resized(u32::MAX, 2).unwrap_err().to_string(),
            "4294967295 nodes of 2 ranks are more than 65536 ranks"
        );
    }

    #[test]
    fn domains_share_the_devices_in_blocks() {
        let node = &presets::dgx_h100().resized(2, 6).unwrap().nodes[1];
        let shares: Vec<_> = node.numa.iter().map(|domain| domain.gpus.clone()).collect();
        assert_eq!(shares, [vec![0, 1, 2], vec![3, 4, 5]]);
    }
}
