//! The closed form over two classes of links: within a node, and between nodes.

use std::collections::BTreeMap;

use fakegpu_config::Cluster;
use fakegpu_config::cluster::{AlgorithmChoice, FabricSpec};
use fakegpu_proto::Estimate;
use fakegpu_units::{Collective, VirtualSpan};

use crate::links::Links;
use crate::plan::{Algorithm, Plan, Work};
use crate::transfers::Load;
use crate::{Model, Query, TransferQuery};

/// What an operation costs before its first byte moves: the launch of its kernel, and the first flags between GPUs.
/// NCCL's own tuning counts 6.8 µs for it with its low-latency protocol.
pub const LAUNCH: VirtualSpan = VirtualSpan::from_picos(6_800_000);

/// Cost as launch and latency of the steps, plus bytes over effective bandwidth, plus contention.
///
/// - A GPU has one port in each direction within its node, and a node one link in each direction to the others, which
///   its ranks share. The transfer lasts as long as the busiest of them is busy.
/// - A ring runs in rank order and is pipelined: all its hops work at once, each step as long as its slowest hop. A
///   tree is a double binary tree over one leader a node, with another below each leader.
/// - A transfer ends no earlier than the busier of its ends is done with all that starts together with it: its ranks'
///   ports within a node, its nodes' links between them. So the pairs of an all-to-all cost what the all-to-all costs.
/// - Oversubscription counts in full, as if the rest of the cluster were sending as well, and each concurrent
///   operation takes an equal share; both add to [`Estimate::contention`] and to nothing else.
#[derive(Clone, Debug)]
pub struct TwoClass {
    links: Links,
    default: AlgorithmChoice,
    by_collective: BTreeMap<Collective, AlgorithmChoice>,
}

impl TwoClass {
    /// A model of `spec` in which a node's link to the others has the inter-node class's bandwidth.
    pub fn new(spec: &FabricSpec) -> Self {
        Self::with_links(Links::new(spec), spec)
    }

    /// A model of `cluster` in which a node that lists NICs sends and receives with all of them together.
    pub fn for_cluster(cluster: &Cluster) -> Self {
        Self::with_links(Links::of_cluster(cluster), &cluster.fabric)
    }

    fn with_links(links: Links, spec: &FabricSpec) -> Self {
        Self { links, default: spec.algorithm, by_collective: spec.algorithms.clone() }
    }

    /// The algorithms to compare for `op`, and who chose them. A choice that `op` has no algorithm for is no choice.
    fn candidates(&self, op: Collective) -> (&'static [Algorithm], &'static str) {
        let possible = Algorithm::for_collective(op);
        let wanted: &'static [Algorithm] = match self.by_collective.get(&op).unwrap_or(&self.default) {
            AlgorithmChoice::Auto => &[],
            AlgorithmChoice::Ring => &[Algorithm::Ring],
            AlgorithmChoice::Tree => &[Algorithm::Tree],
        };
        match wanted {
            [one] if possible.contains(one) => (wanted, "cluster file"),
            _ => (possible, "model"),
        }
    }

    fn price(&self, plan: Plan, chosen_by: &str, concurrent: u32) -> Estimate {
        let (intra, inter) = plan.traffic.times(&self.links);
        let shared_intra = self.links.intra_oversubscription.stretch(intra, concurrent);
        let shared_inter = self.links.inter_oversubscription.stretch(inter, concurrent);
        let between = plan.traffic.crosses_nodes() && shared_inter >= shared_intra;
        let alone = intra.max(inter);
        Estimate {
            algorithm: plan.algorithm.name().to_owned(),
            chosen_by: chosen_by.to_owned(),
            base_latency: LAUNCH + plan.latency,
            transfer: span(alone),
            contention: span(shared_intra.max(shared_inter).saturating_sub(alone)),
            steps: plan.steps,
            bottleneck: if between { "inter_node" } else { "intra_node" }.to_owned(),
            flows: plan.traffic.into_flows(),
        }
    }
}

impl Model for TwoClass {
    fn estimate(&self, query: &Query<'_>) -> Estimate {
        let (algorithms, chosen_by) = self.candidates(query.descriptor.op);
        let cheapest = Work::new(&self.links, query.nodes, query.descriptor).and_then(|work| {
            let price =
                |algorithm: &Algorithm| self.price(work.plan(*algorithm), chosen_by, query.concurrent);
            algorithms.iter().map(price).min_by_key(Estimate::total)
        });
        cheapest.unwrap_or_else(|| Estimate {
            algorithm: "none".to_owned(),
            chosen_by: "model".to_owned(),
            ..Estimate::default()
        })
    }

    fn transfers(&self, queries: &[TransferQuery], concurrent: u32) -> Vec<Estimate> {
        let load = Load::new(&self.links, queries);
        queries.iter().map(|query| load.price(query, concurrent)).collect()
    }
}

pub(crate) fn span(picos: u128) -> VirtualSpan {
    VirtualSpan::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
}
