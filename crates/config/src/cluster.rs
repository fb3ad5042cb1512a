//! The cluster file: nodes, ranks, GPUs and the fabric between them.
//!
//! Bandwidths are **gigabits per second, per direction**: inside a node per GPU, between nodes per NIC, or per pair
//! of nodes where no NICs are listed. Latencies are microseconds, one way. Both are the hardware's numbers; what a
//! protocol makes of them is the fabric model's business.
//!
//! ```
//! let cluster = fakegpu_config::Cluster::parse("dev.yaml", "
//! version: 1
//! cluster: {name: dev, default_backend: nccl}
//! nodes:
//!   - {id: node0, host: 127.0.0.1, ranks: [0, 1], gpus: [{profile: a100}, {profile: a100}]}
//! fabric:
//!   intra_node: {type: nvlink, bandwidth_gbps: 2400, latency_us: 3}
//!   inter_node: {type: infiniband, bandwidth_gbps: 200, latency_us: 15, oversubscription: 1.5}
//! ")?;
//! assert_eq!(cluster.world_size(), 2);
//! assert_eq!(cluster.fabric.intra_node.bandwidth_gbps, 2400.0);
//! # Ok::<(), fakegpu_config::Mistakes>(())
//! ```

mod checker;
mod mistakes;
mod presets;
mod ranks;
mod read;
mod shape;
mod summary;
mod tree;
mod write;

use std::collections::BTreeMap;

use fakegpu_units::{Collective, GlobalRank, NodeIndex};

pub use mistakes::{Mistake, Mistakes};
pub(crate) use presets::NAMES as PRESETS;
pub use shape::ShapeError;

use crate::profiles::{self, Profile};
use crate::words::words;

/// Longest cluster file that is read, in bytes.
pub const MAX_BYTES: usize = 4 << 20;

/// Most ranks a cluster may have.
pub const MAX_RANKS: u32 = 65_536;

/// A cluster: what the file describes, checked. Ranks are unique and contiguous from 0, node names unique, and each
/// rank has one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    /// Its name, for reports.
    pub name: String,
    /// The communication library that its jobs use, for reports.
    pub default_backend: String,
    /// The nodes, in file order; at least one. A [`NodeIndex`] counts them from 0.
    pub nodes: Vec<Node>,
    /// What connects GPUs and nodes.
    pub fabric: FabricSpec,
}

/// A virtual node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name, unique in the cluster.
    pub id: String,
    /// Host that its ranks run on.
    pub host: String,
    /// The job's ranks on this node, by local device; at least one.
    pub ranks: Vec<GlobalRank>,
    /// As many GPUs as ranks.
    pub gpus: Vec<Gpu>,
    /// Its network cards; empty in short files, where the inter-node link class stands for all there is.
    pub nics: Vec<Nic>,
    /// Its NUMA domains; empty where the file says nothing of them.
    pub numa: Vec<Numa>,
}

/// A virtual GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// A name from [`profiles::PROFILES`].
    pub profile: String,
}

impl Gpu {
    /// What the profile says. `None` only for a `Gpu` that was made by hand with a name outside the table.
    pub fn spec(&self) -> Option<&'static Profile> {
        profiles::find(&self.profile)
    }
}

/// A network card.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    /// Its name, unique in the node.
    pub id: String,
    /// Gb/s per direction.
    pub bandwidth_gbps: f64,
    /// Microseconds that a message spends in it; 0 where the file says nothing.
    pub latency_us: f64,
    /// The NUMA domain it hangs off.
    pub numa: Option<u32>,
    /// The rail it belongs to: NICs of equal rail meet at the same leaf switch.
    pub rail: Option<u32>,
}

/// A NUMA domain of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numa {
    /// Its number, unique in the node.
    pub id: u32,
    /// The local devices on it, counted from 0.
    pub gpus: Vec<u32>,
}

/// What connects GPUs and nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricSpec {
    /// Between the GPUs of a node; bandwidth per GPU.
    pub intra_node: LinkClass,
    /// Between nodes; bandwidth per NIC, or per pair of nodes where no NICs are listed.
    pub inter_node: LinkClass,
    /// The algorithm of collectives without an entry in `algorithms`.
    pub algorithm: AlgorithmChoice,
    /// The algorithm of single collectives.
    pub algorithms: BTreeMap<Collective, AlgorithmChoice>,
    /// Switches between the nodes; empty where the inter-node class stands for them.
    pub switches: Vec<Switch>,
    /// Pairs of nodes whose link differs from the inter-node class.
    pub links: Vec<LinkOverride>,
    /// Whether modelled time delays real calls.
    pub pace: Pace,
}

/// What all links of one kind have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkClass {
    /// The technology.
    pub kind: LinkKind,
    /// Gb/s per direction; finite and above 0.
    pub bandwidth_gbps: f64,
    /// Microseconds one way; finite and at least 0.
    pub latency_us: f64,
    /// How many times what the far side can carry may be offered at once; at least 1.
    pub oversubscription: f64,
}

/// A switch between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name, unique in the cluster.
    pub id: String,
    /// Its tier.
    pub kind: SwitchKind,
    /// The nodes below it.
    pub nodes: Vec<NodeIndex>,
}

/// A link that differs from its class, in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkOverride {
    /// Where traffic enters.
    pub src: NodeIndex,
    /// Where it leaves; another node.
    pub dst: NodeIndex,
    /// Gb/s, if not the class's.
    pub bandwidth_gbps: Option<f64>,
    /// Microseconds, if not the class's.
    pub latency_us: Option<f64>,
}

words! {
    /// A link technology. `Custom` is any other, known by its numbers alone.
    LinkKind {
        /// NVLink between pairs of GPUs.
        Nvlink = "nvlink",
        /// NVLink through NVSwitch.
        Nvswitch = "nvswitch",
        /// PCI Express.
        Pcie = "pcie",
        /// InfiniBand.
        Infiniband = "infiniband",
        /// RDMA over converged Ethernet.
        Roce = "roce",
        /// Ethernet with TCP.
        Ethernet = "ethernet",
        /// AWS Elastic Fabric Adapter.
        Efa = "efa",
        /// HPE Slingshot.
        Slingshot = "slingshot",
        /// Anything else.
        Custom = "custom",
    }
}

words! {
    /// Which algorithm carries out a collective.
    AlgorithmChoice {
        /// The one the model finds fastest.
        Auto = "auto",
        /// A ring through all ranks.
        Ring = "ring",
        /// A double binary tree.
        Tree = "tree",
    }
}

words! {
    /// Whether modelled time delays real calls.
    Pace {
        /// Never.
        Off = "off",
        /// A call returns no earlier than the model says.
        Real = "real",
    }
}

words! {
    /// A switch's tier.
    SwitchKind {
        /// Nodes are attached to it.
        Leaf = "leaf",
        /// Leaves are attached to it.
        Spine = "spine",
    }
}

impl Cluster {
    /// Reads a cluster file. `source_name` is what diagnostics call it, usually its path.
    ///
    /// # Errors
    /// Every mistake in the file, each with its place; a syntax error is alone, as nothing behind it can be trusted.
    /// Files above [`MAX_BYTES`] and files that expand without bound are refused unread.
    pub fn parse(source_name: &str, text: &str) -> Result<Self, Mistakes> {
        read::cluster(source_name, text)
    }

    /// How many ranks the cluster has.
    pub fn world_size(&self) -> u32 {
        self.nodes.iter().map(|node| u32::try_from(node.ranks.len()).unwrap_or(u32::MAX)).sum()
    }

    /// Where each rank is, by rank: its node, and which of the node's GPUs it drives.
    ///
    /// Use this table where many ranks are asked for; [`Cluster::node_of`] searches.
    pub fn places(&self) -> Vec<(NodeIndex, u32)> {
        let mut places = vec![(NodeIndex(0), 0); self.world_size() as usize];
        for (index, node) in self.indexed_nodes() {
            for (device, rank) in (0..).zip(&node.ranks) {
                if let Some(place) = places.get_mut(rank.index()) {
                    *place = (index, device);
                }
            }
        }
        places
    }

    /// The node that `rank` is on.
    pub fn node_of(&self, rank: GlobalRank) -> Option<NodeIndex> {
        self.place_of(rank).map(|(node, _)| node)
    }

    /// Which of its node's GPUs `rank` drives, counted from 0.
    pub fn local_device_of(&self, rank: GlobalRank) -> Option<u32> {
        self.place_of(rank).map(|(_, device)| device)
    }

    /// The node named `id`, with its index.
    pub fn node_by_id(&self, id: &str) -> Option<(NodeIndex, &Node)> {
        self.indexed_nodes().find(|(_, node)| node.id == id)
    }

    /// The nodes with their indices.
    pub fn indexed_nodes(&self) -> impl Iterator<Item = (NodeIndex, &Node)> {
        (0..).map(NodeIndex).zip(&self.nodes)
    }

    fn place_of(&self, rank: GlobalRank) -> Option<(NodeIndex, u32)> {
        self.indexed_nodes().find_map(|(index, node)| {
            (0..).zip(&node.ranks).find(|(_, at)| **at == rank).map(|(device, _)| (index, device))
        })
    }
}
