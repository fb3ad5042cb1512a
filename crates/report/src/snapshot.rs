//! A fold written down as a report.

use fakegpu_units::{Collective, GlobalRank, NodeIndex, VirtualSpan, VirtualTime};

use crate::fold::Fold;
use crate::model::{
    Cluster, Collectives, Fabric, Link, NodePair, PointToPoint, Report, Resilience, Scope, Timeline, Totals,
    TrafficMatrix, VirtualTimes,
};
use crate::rank::RankState;
use crate::tally::Tally;

/// The version of the writer.
const REPORT_VERSION: &str = "1.0.0";

/// The version of the shape.
const SCHEMA_VERSION: &str = "cluster_report.v1";

/// How the note begins that says that no bytes were moved.
pub(crate) const PAYLOAD_OFF: &str = "payload off";

/// What holds for every report.
const ALWAYS: [&str; 2] = [
    "Predicted times are estimates of a model, for comparison and explanation; they are not a promise about a real \
     cluster.",
    "Reductions of float16 are accumulated in float32: an overflow that a real ring would meet half-way \
     is not reproduced.",
];

pub(crate) fn report(fold: &Fold) -> Report {
    Report {
        report_version: REPORT_VERSION.to_owned(),
        schema_version: SCHEMA_VERSION.to_owned(),
        cluster: cluster(fold),
        collectives: collectives(fold),
        point_to_point: point_to_point(fold),
        links: fold.links.iter().map(|(ends, tally)| link(fold, *ends, tally)).collect(),
        node_pairs: node_pairs(fold),
        ranks: fold.ranks.iter().map(|(rank, state)| state.entry(*rank, node_of(fold, state))).collect(),
        staging: fold.staging,
        communicators_log: fold.communicators_log.iter().cloned().collect(),
        communicators_log_dropped: fold.communicators_log.dropped(),
        resilience: resilience(fold),
        operation_timeline: timeline(fold),
        algorithms: fold.algorithms.iter().map(|(name, tally)| (name.clone(), tally.used())).collect(),
        traffic_matrix: traffic_matrix(fold),
        virtual_time: virtual_times(fold),
        hazards: fold.hazards.entries().to_vec(),
        hazards_dropped: fold.hazards.dropped(),
        fidelity: fidelity(fold),
        stopped: fold.stopped.clone(),
    }
}

fn cluster(fold: &Fold) -> Cluster {
    let summary = &fold.cluster;
    Cluster {
        name: summary.name.clone(),
        source: summary.source.clone(),
        world_size: fold.ranks.len() as u64,
        node_count: summary.nodes.len() as u64,
        communicators: fold.communicators,
        nodes: summary.nodes.clone(),
        fabric: Fabric { intra_node: summary.intra_node.clone(), inter_node: summary.inter_node.clone() },
        transport: fold.transport.clone(),
    }
}

fn collectives(fold: &Fold) -> Collectives {
    let of = |op: Collective| fold.collectives.get(&op).map_or_else(Totals::default, Tally::totals);
    Collectives {
        all_reduce: of(Collective::AllReduce),
        reduce: of(Collective::Reduce),
        broadcast: of(Collective::Broadcast),
        all_gather: of(Collective::AllGather),
        reduce_scatter: of(Collective::ReduceScatter),
        all_to_all: of(Collective::AllToAll),
        barrier: fold.barriers.totals(),
        gather: of(Collective::Gather),
        scatter: of(Collective::Scatter),
    }
}

fn point_to_point(fold: &Fold) -> PointToPoint {
    let all = fold.point_to_point.totals();
    PointToPoint {
        operations: all.calls,
        sends: fold.pairs,
        recvs: fold.pairs,
        bytes: all.bytes,
        zero_byte: fold.zero_byte,
        one_sided: fold.one_sided,
        estimated_time_us_total: all.estimated_time_us_total,
        contention_penalty_us_total: all.contention_penalty_us_total,
    }
}

fn link(fold: &Fold, (src, dst): (NodeIndex, NodeIndex), tally: &Tally) -> Link {
    let (scope, class, ports) = if src == dst {
        let ranks = fold.cluster.nodes.get(src.index()).map_or(1, |node| node.ranks.len().max(1));
        (Scope::IntraNode, &fold.cluster.intra_node, ranks)
    } else {
        (Scope::InterNode, &fold.cluster.inter_node, 1)
    };
    let totals = tally.totals();
    Link {
        src: node_id(fold, src),
        dst: node_id(fold, dst),
        scope,
        bytes: tally.bytes,
        operations: tally.calls,
        avg_latency_us: class.latency_us,
        estimated_time_us_total: totals.estimated_time_us_total,
        contention_penalty_us_total: totals.contention_penalty_us_total,
        utilisation: utilisation(tally.bytes, class.bandwidth_gbps * ports as f64, fold.makespan),
    }
}

/// The share of what a link of this rate carries until `makespan`; 0 where it carries nothing.
fn utilisation(bytes: u64, bandwidth_gbps: f64, makespan: VirtualTime) -> f64 {
    // A gigabit a second is a thousand bits a microsecond.
    let capacity_bits = bandwidth_gbps * 1e3 * makespan.since(VirtualTime::ZERO).as_micros_f64();
    if capacity_bits > 0.0 { bytes as f64 * 8.0 / capacity_bits } else { 0.0 }
}

fn node_pairs(fold: &Fold) -> Vec<NodePair> {
    let mut pairs = Vec::new();
    for src in nodes(fold) {
        for dst in nodes(fold).filter(|dst| *dst != src) {
            let tally = fold.links.get(&(src, dst)).copied().unwrap_or_default();
            pairs.push(NodePair {
                src: node_id(fold, src),
                dst: node_id(fold, dst),
                bytes: tally.bytes,
                operations: tally.calls,
            });
        }
    }
    pairs
}

fn traffic_matrix(fold: &Fold) -> TrafficMatrix {
    let bytes = |src, dst| fold.links.get(&(src, dst)).map_or(0, |tally| tally.bytes);
    TrafficMatrix {
        nodes: nodes(fold).map(|node| node_id(fold, node)).collect(),
        bytes: nodes(fold).map(|src| nodes(fold).map(|dst| bytes(src, dst)).collect()).collect(),
    }
}

fn resilience(fold: &Fold) -> Resilience {
    Resilience {
        failure_count: fold.failures.total(),
        recovery_count: fold.recoveries.total(),
        deaths: fold.deaths.entries().to_vec(),
        failure_events: fold.failures.entries().to_vec(),
        recovery_events: fold.recoveries.entries().to_vec(),
        dropped_entries: fold.deaths.dropped() + fold.failures.dropped() + fold.recoveries.dropped(),
    }
}

fn timeline(fold: &Fold) -> Timeline {
    let entries: Vec<_> = fold.timeline.iter().cloned().collect();
    Timeline { retained_entries: entries.len() as u64, dropped_entries: fold.timeline.dropped(), entries }
}

fn virtual_times(fold: &Fold) -> VirtualTimes {
    VirtualTimes {
        makespan_us: fold.makespan.since(VirtualTime::ZERO).as_micros_f64(),
        communication_us: fold
            .collectives
            .values()
            .chain([&fold.point_to_point])
            .map(|tally| tally.time)
            .sum::<VirtualSpan>()
            .as_micros_f64(),
        ranks: fold.ranks.iter().map(|(rank, state): (&GlobalRank, &RankState)| state.times(*rank)).collect(),
    }
}

fn fidelity(fold: &Fold) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if fold.payload_off > 0 {
        notes.push(payload_off(fold));
    }
    notes.extend(ALWAYS.map(str::to_owned));
    if fold.staging.fallbacks > 0 {
        notes.push(format!(
            "{} of {} communicators could not use shared memory and streamed their bytes through the coordinator: data and \
             predicted times are the same, the run itself is slower.",
            fold.staging.fallbacks, fold.communicators
        ));
    }
    if fold.unattributed > 0 {
        notes.push(format!(
            "{} operations belong to communicators whose making the event log does not show; they are counted, but not by \
             rank.",
            fold.unattributed
        ));
    }
    notes
}

/// Said first, and on top of the Markdown, so that nobody takes such a run's results for real ones.
fn payload_off(fold: &Fold) -> String {
    let note = format!("{PAYLOAD_OFF}: operations were matched, timed and counted, no bytes were moved");
    if fold.payload_off == fold.communicators {
        note
    } else {
        format!("{note} ({} of {} communicators)", fold.payload_off, fold.communicators)
    }
}

fn nodes(fold: &Fold) -> impl Iterator<Item = NodeIndex> + use<> {
    (0..u32::try_from(fold.cluster.nodes.len()).unwrap_or(u32::MAX)).map(NodeIndex)
}

fn node_of(fold: &Fold, state: &RankState) -> String {
    state.node.map_or_else(String::new, |node| node_id(fold, node))
}

/// A node's id; its number where the log does not describe it.
fn node_id(fold: &Fold, node: NodeIndex) -> String {
    fold.cluster.nodes.get(node.index()).map_or_else(|| node.to_string(), |node| node.id.clone())
}
