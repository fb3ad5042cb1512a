//! The fabric's model as the core asks for it, and the cluster as reports describe it.

use fakegpu_config::Cluster;
use fakegpu_config::cluster::LinkClass;
use fakegpu_coordinator::{CostModel, TransferWork, Work};
use fakegpu_fabric::{Model, Query, TransferQuery, TwoClass};
use fakegpu_proto::Estimate;
use fakegpu_proto::event::{ClusterSummary, LinkSummary, NodeSummary};

use crate::Setup;

/// The fabric behind the core's trait.
#[derive(Debug)]
pub(crate) struct FabricModel(TwoClass);

impl FabricModel {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self(match &setup.cluster {
            Some((_, cluster)) => TwoClass::for_cluster(cluster),
            None => TwoClass::new(&Cluster::uniform(1, 1).fabric),
        })
    }
}

impl CostModel for FabricModel {
    fn estimate(&self, work: &Work<'_>) -> Estimate {
        self.0.estimate(&Query {
            descriptor: work.descriptor,
            nodes: work.nodes,
            concurrent: work.concurrent,
        })
    }

    fn transfers(&self, works: &[TransferWork], concurrent: u32) -> Vec<Estimate> {
        let query = |work: &TransferWork| {
            let TransferWork { src, dst, from, to, bytes } = *work;
            TransferQuery { src, dst, from, to, bytes }
        };
        self.0.transfers(&works.iter().map(query).collect::<Vec<_>>(), concurrent)
    }
}

/// The cluster that the daemon starts with. Without a description it has no nodes yet, only the links that
/// times will be predicted for.
pub(crate) fn summary(setup: &Setup) -> ClusterSummary {
    match &setup.cluster {
        Some((source, cluster)) => ClusterSummary {
            name: cluster.name.clone(),
            source: source.clone(),
            nodes: cluster
                .nodes
                .iter()
                .map(|node| NodeSummary {
                    id: node.id.clone(),
                    host: node.host.clone(),
                    ranks: node.ranks.clone(),
                    gpus: node.gpus.iter().map(|gpu| gpu.profile.clone()).collect(),
                })
                .collect(),
            intra_node: link(&cluster.fabric.intra_node),
            inter_node: link(&cluster.fabric.inter_node),
        },
        None => {
            let fabric = Cluster::uniform(1, 1).fabric;
            ClusterSummary {
                name: "undescribed".to_owned(),
                source:
                    "no cluster file: nodes are the hosts the ranks came from, links are the default preset's"
                        .to_owned(),
                nodes: Vec::new(),
                intra_node: link(&fabric.intra_node),
                inter_node: link(&fabric.inter_node),
            }
        }
    }
}

fn link(class: &LinkClass) -> LinkSummary {
    LinkSummary {
        kind: class.kind.name().to_owned(),
        bandwidth_gbps: class.bandwidth_gbps,
        latency_us: class.latency_us,
        oversubscription: class.oversubscription,
    }
}
