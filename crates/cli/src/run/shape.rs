//! Which cluster a run is on, and which part of it this host starts.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fakegpu_config::{Address, Cluster, profiles};
use fakegpu_units::NodeIndex;

use crate::arguments::{HostArguments, ShapeArguments};
use crate::check::read_cluster;

/// Ranks a node has where nothing says how many.
const DEFAULT_RANKS_PER_NODE: u32 = 2;

/// A run over several hosts, as this one sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    /// Hosts that take part.
    pub(crate) count: u32,
    /// The node of the cluster that this host is.
    pub(crate) node: NodeIndex,
    /// Where the coordinator listens.
    pub(crate) coordinator: Address,
    /// Host and port for the ranks' own rendezvous.
    pub(crate) master: (String, u16),
}

impl Host {
    /// What the flags say, or `None` for a run on this host alone.
    pub(crate) fn from_flags(flags: &HostArguments) -> Result<Option<Self>> {
        let (Some(count), Some(node), Some(coordinator)) =
            (flags.nnodes, flags.node_rank, &flags.coordinator)
        else {
            return Ok(None);
        };
        if node >= count {
            bail!("--node-rank is {node}, but --nnodes is {count}: nodes count from 0");
        }
        let address: Address =
            coordinator.parse().with_context(|| format!("--coordinator `{coordinator}`"))?;
        match &address {
            Address::Tcp { host, port: port @ 1..=65_534 } => {
                let master = (host.clone(), port + 1);
                Ok(Some(Self { count, node: NodeIndex(node), master, coordinator: address }))
            }
            _ => bail!("--coordinator is `{coordinator}`; use HOST:PORT with a port from 1 to 65534"),
        }
    }
}

/// The cluster of a run and how many of its ranks are started.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) cluster: Cluster,
    pub(crate) world_size: u32,
}

impl Shape {
    /// By the flags; where they say nothing, by the variables that `variable` looks up.
    pub(crate) fn resolve(
        flags: &ShapeArguments,
        hosts: Option<u32>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let flags = with_variables(flags, &variable)?;
        let mut cluster = cluster(&flags, hosts)?;
        let profile = variable("FAKEGPU_GPU_PROFILE").filter(|value| !value.is_empty());
        // A description of the cluster says itself what its GPUs are.
        if let (Some(profile), None, None) = (profile, &flags.cluster, &flags.preset) {
            equip(&mut cluster, &profile.to_string_lossy())?;
        }
        if let Some(hosts) = hosts
            && cluster.nodes.len() != hosts as usize
        {
            bail!(
                "--nnodes is {hosts}, but the cluster has {} nodes: each host is one node",
                cluster.nodes.len()
            );
        }
        let available = cluster.world_size();
        let world_size = flags.ranks.unwrap_or(available);
        if world_size > available {
            bail!("-n is {world_size}, but the cluster `{}` has {available} ranks", cluster.name);
        }
        Ok(Self { cluster, world_size })
    }
}

/// Gives all ranks the GPU of this profile.
fn equip(cluster: &mut Cluster, name: &str) -> Result<()> {
    let Some(profile) = profiles::find(name) else {
        bail!("FAKEGPU_GPU_PROFILE is `{name}`; profiles are {}", profiles::NAMES.join(", "));
    };
    for gpu in cluster.nodes.iter_mut().flat_map(|node| &mut node.gpus) {
        profile.name.clone_into(&mut gpu.profile);
    }
    Ok(())
}

/// The flags, completed by FAKEGPU_CLUSTER_CONFIG or FAKEGPU_PRESET where none of them names a cluster or a size.
fn with_variables(
    flags: &ShapeArguments,
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<ShapeArguments> {
    let mut flags = flags.clone();
    let ShapeArguments { nodes: None, ranks_per_node: None, cluster: None, preset: None, ranks: None } =
        &flags
    else {
        return Ok(flags);
    };
    let written = |name: &str| variable(name).filter(|value| !value.is_empty());
    flags.cluster = written("FAKEGPU_CLUSTER_CONFIG").map(Into::into);
    flags.preset = match (&flags.cluster, written("FAKEGPU_PRESET")) {
        (Some(_), Some(_)) => {
            bail!("FAKEGPU_CLUSTER_CONFIG and FAKEGPU_PRESET are both set: unset one of them")
        }
        (_, preset) => preset.map(|name| name.to_string_lossy().into_owned()),
    };
    Ok(flags)
}

fn cluster(flags: &ShapeArguments, hosts: Option<u32>) -> Result<Cluster> {
    if let Some(path) = &flags.cluster {
        return read_cluster(Path::new(path));
    }
    let nodes = flags.nodes.or(hosts);
    let Some(name) = &flags.preset else {
        let ranks_per_node =
            flags.ranks_per_node.or_else(|| default_ranks(flags)).unwrap_or(DEFAULT_RANKS_PER_NODE);
        return Ok(Cluster::uniform(1, 1).resized(nodes.unwrap_or(1), ranks_per_node)?);
    };
    let preset = Cluster::preset(name)
        .with_context(|| format!("there is no preset `{name}`; known: {}", Cluster::presets().join(", ")))?;
    if nodes.is_none() && flags.ranks_per_node.is_none() {
        return Ok(preset);
    }
    let own_nodes = u32::try_from(preset.nodes.len()).unwrap_or(u32::MAX);
    let own_ranks = preset.nodes.first().map_or(1, |node| node.ranks.len());
    let ranks_per_node = flags.ranks_per_node.unwrap_or_else(|| u32::try_from(own_ranks).unwrap_or(u32::MAX));
    Ok(preset.resized(nodes.unwrap_or(own_nodes), ranks_per_node)?)
}

/// `-n 4` alone is a node of four ranks; beside `--nodes` it picks from the nodes' ranks, which must be enough.
fn default_ranks(flags: &ShapeArguments) -> Option<u32> {
    Some(flags.ranks?.div_ceil(flags.nodes.unwrap_or(1).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> ShapeArguments {
        use clap::Parser;
        #[derive(Debug, Parser)]
        struct Only {
            #[command(flatten)]
            shape: ShapeArguments,
        }
        Only::try_parse_from(std::iter::once("x").chain(text.split_ascii_whitespace())).unwrap().shape
    }

    /// What the flags come to: `ranks of nodes x ranks on the first`, or the error.
    #[track_caller]
    fn check(text: &str, hosts: Option<u32>, expected: &str) {
        let told = match Shape::resolve(&flags(text), hosts, |_| None) {
            Ok(Shape { cluster, world_size }) => {
                format!("{world_size} of {} x {}", cluster.nodes.len(), cluster.nodes[0].ranks.len())
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(told, expected, "{text}");
    }

    #[test]
    fn flags_say_how_large_the_cluster_is() {
        check("", None, "2 of 1 x 2");
        check("--nodes 2 --ranks-per-node 4", None, "8 of 2 x 4");
        check("--nodes 3", None, "6 of 3 x 2");
        check("-n 4", None, "4 of 1 x 4");
        check("-n 3 --nodes 2", None, "3 of 2 x 2");
        check("-n 3 --preset dgx-h100", None, "3 of 1 x 8");
        check("--preset dgx-h100 --nodes 2", None, "16 of 2 x 8");
        check("--preset dgx-h100 --ranks-per-node 2", None, "2 of 1 x 2");
        check("--ranks-per-node 4", Some(2), "8 of 2 x 4");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        check("-n 3 --ranks-per-node 2", None, "-n is 3, but the cluster `uniform` has 2 ranks");
        check("--nodes 0", None, "a cluster has at least one node with one rank, not 0 × 2");
        check("--preset dgx", None, "there is no preset `dgx`; known: dgx-h100, dgx-a100, ethernet-25g");
    }

    #[test]
    fn variables_name_the_cluster_only_where_no_flag_does() {
        let preset = |name: &str| (name == "FAKEGPU_PRESET").then(|| "dgx-a100".into());
        assert_eq!(Shape::resolve(&flags(""), None, preset).unwrap().cluster.name, "dgx-a100");
        assert_eq!(Shape::resolve(&flags("--nodes 1"), None, preset).unwrap().cluster.name, "uniform");
        let profile = |value: &'static str| {
            move |name: &str| (name == "FAKEGPU_GPU_PROFILE").then(|| OsString::from(value))
        };
        let shape = Shape::resolve(&flags("--nodes 2"), None, profile("a100")).unwrap();
        assert!(shape.cluster.nodes.iter().all(|node| node.gpus.iter().all(|gpu| gpu.profile == "a100")));
        let told = Shape::resolve(&flags("--nodes 1"), None, profile("a1000")).unwrap_err().to_string();
        assert!(told.starts_with("FAKEGPU_GPU_PROFILE is `a1000`; profiles are b200,"), "{told}");
        let both = Shape::resolve(&flags(""), None, |_| Some("x".into())).unwrap_err();
        assert!(both.to_string().contains("both set"), "{both}");
    }

    #[test]
    fn hosts_count_from_zero_and_meet_at_a_port() {
        let told = |node_rank, coordinator: &str| {
            let flags = HostArguments {
                nnodes: Some(2),
                node_rank: Some(node_rank),
                coordinator: Some(coordinator.to_owned()),
            };
            Host::from_flags(&flags).map(|host| host.unwrap().master).map_err(|error| error.to_string())
        };
        assert_eq!(told(1, "head:4000"), Ok(("head".to_owned(), 4001)));
        assert_eq!(
            told(2, "head:4000"),
            Err("--node-rank is 2, but --nnodes is 2: nodes count from 0".to_owned())
        );
        let refused = "; use HOST:PORT with a port from 1 to 65534";
        assert_eq!(told(0, "head:0"), Err(format!("--coordinator is `head:0`{refused}")));
        assert_eq!(told(0, "/tmp/s"), Err(format!("--coordinator is `/tmp/s`{refused}")));
    }
}
