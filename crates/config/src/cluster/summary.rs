//! A cluster as people like to see it before they run on it.

use fakegpu_units::{Rank, Ranks};

use super::{Cluster, LinkClass, Node};
use crate::words::counted;

/// Nodes listed one by one; a larger cluster is told by its first ones.
const MAX_LISTED: usize = 16;

impl Cluster {
    /// The topology as it was understood, defaults filled in: nodes, ranks, GPUs, link classes, world size. Plain
    /// text for people; its layout may change.
    ///
    /// ```
    /// let text = fakegpu_config::Cluster::uniform(2, 8).summary();
    /// assert!(text.starts_with("cluster uniform: 2 nodes, 16 ranks, backend nccl\n"));
    /// ```
    pub fn summary(&self) -> String {
        let mut out = format!(
            "cluster {}: {}, {}, backend {}\n\n",
            self.name,
            counted(self.nodes.len(), "node"),
            counted(self.world_size() as usize, "rank"),
            self.default_backend,
        );
        out.push_str(&aligned(&self.node_rows()));
        if let Some(more @ 1..) = self.nodes.len().checked_sub(MAX_LISTED) {
            out.push_str(&format!("… and {more} more\n"));
        }
        out.push('\n');
        out.push_str(&aligned(&self.link_rows()));
        out.push_str(&format!("\nalgorithm {}, pace {}\n", self.algorithms(), self.fabric.pace));
        out
    }

    fn node_rows(&self) -> Vec<Vec<String>> {
        let header = ["node", "host", "ranks", "gpus", "nics"].map(str::to_owned).to_vec();
        let rows = self
            .nodes
            .iter()
            .take(MAX_LISTED)
            .map(|node| vec![node.id.clone(), node.host.clone(), ranks(node), gpus(node), nics(node)]);
        std::iter::once(header).chain(rows).collect()
    }

    fn link_rows(&self) -> Vec<Vec<String>> {
        let header = ["link", "type", "Gb/s", "us", "oversubscription"].map(str::to_owned).to_vec();
        let mut rows = vec![
            header,
            link_row("within a node, per GPU", &self.fabric.intra_node),
            link_row("between nodes", &self.fabric.inter_node),
        ];
        rows.extend(self.fabric.links.iter().take(MAX_LISTED).map(|link| {
            let id = |index: fakegpu_units::NodeIndex| {
                self.nodes.get(index.index()).map_or_else(|| index.to_string(), |node| node.id.clone())
            };
            let class = LinkClass {
                bandwidth_gbps: link.bandwidth_gbps.unwrap_or(self.fabric.inter_node.bandwidth_gbps),
                latency_us: link.latency_us.unwrap_or(self.fabric.inter_node.latency_us),
                ..self.fabric.inter_node
            };
            link_row(&format!("{} to {}", id(link.src), id(link.dst)), &class)
        }));
        rows
    }

    fn algorithms(&self) -> String {
        let mut text = self.fabric.algorithm.to_string();
        for (collective, algorithm) in &self.fabric.algorithms {
            text.push_str(&format!(", {collective} {algorithm}"));
        }
        text
    }
}

fn link_row(name: &str, class: &LinkClass) -> Vec<String> {
    vec![
        name.to_owned(),
        class.kind.to_string(),
        class.bandwidth_gbps.to_string(),
        class.latency_us.to_string(),
        class.oversubscription.to_string(),
    ]
}

fn ranks(node: &Node) -> String {
    let mut ranks: Vec<Rank> = node.ranks.iter().map(|rank| Rank(rank.0)).collect();
    ranks.sort_unstable();
    let text = Ranks(&ranks).to_string();
    text.split_once(' ').map_or_else(String::new, |(_, numbers)| numbers.to_owned())
}

fn gpus(node: &Node) -> String {
    folded(node.gpus.iter().map(|gpu| gpu.profile.clone()))
}

fn nics(node: &Node) -> String {
    if node.nics.is_empty() {
        return "-".to_owned();
    }
    folded(node.nics.iter().map(|nic| format!("{} Gb/s", nic.bandwidth_gbps)))
}

/// Runs of equal things: `8 × h100, 1 × l40s`.
fn folded(things: impl Iterator<Item = String>) -> String {
    let mut runs: Vec<(usize, String)> = Vec::new();
    for thing in things {
        match runs.last_mut() {
            Some((count, last)) if *last == thing => *count += 1,
            _ => runs.push((1, thing)),
        }
    }
    let runs: Vec<String> = runs.into_iter().map(|(count, thing)| format!("{count} × {thing}")).collect();
    runs.join(", ")
}

/// Columns as wide as their widest cell, two spaces apart.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}
