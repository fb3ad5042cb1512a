//! What holds for every operation, cluster and size.

use fakegpu_config::cluster::{AlgorithmChoice, FabricSpec};
use fakegpu_proto::Estimate;
use fakegpu_units::{Collective, NodeIndex};
use proptest::prelude::*;

use crate::{Case, fabric};

pub(crate) fn specs() -> impl Strategy<Value = FabricSpec> {
    let class = || (1.0..4000.0_f64, 0.0..50.0_f64, 1.0..4.0_f64);
    (class(), class(), 0..3_usize).prop_map(|(intra, inter, choice)| {
        let mut spec = fabric();
        for (class, values) in [(&mut spec.intra_node, intra), (&mut spec.inter_node, inter)] {
            (class.bandwidth_gbps, class.latency_us, class.oversubscription) = values;
        }
        spec.algorithm = [AlgorithmChoice::Auto, AlgorithmChoice::Ring, AlgorithmChoice::Tree][choice];
        spec
    })
}

/// Ranks anywhere on up to five nodes, not in order.
fn cases() -> impl Strategy<Value = Case> {
    let nodes = prop::collection::vec((0..5_u32).prop_map(NodeIndex), 1..20);
    (0..Collective::ALL.len(), 0..1_u64 << 34, nodes, 0..20_u32, 0..3_u32).prop_map(
        |(op, bytes, nodes, root, concurrent)| {
            let root = root % u32::try_from(nodes.len()).expect("at most 19 ranks");
            let case = Case::new(Collective::ALL[op], bytes).rooted_at(root);
            Case { nodes, concurrent, ..case }
        },
    )
}

fn moved(estimate: &Estimate) -> u64 {
    estimate.flows.iter().map(|flow| flow.bytes).sum()
}

/// The bytes that must cross links, whatever the algorithm.
fn due(case: &Case) -> u64 {
    let peers = case.nodes.len() as u64 - 1;
    match case.op {
        Collective::AllReduce => 2 * peers * case.bytes,
        Collective::Reduce | Collective::Broadcast | Collective::Gather | Collective::Scatter => {
            peers * case.bytes
        }
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => {
            (peers + 1) * peers * case.bytes
        }
    }
}

proptest! {
    #[test]
    fn bytes_are_accounted_for_exactly(spec in specs(), case in cases()) {
        prop_assert_eq!(moved(&case.estimate(&spec)), due(&case));
    }

    #[test]
    fn flows_are_sorted_and_each_pair_is_there_once(spec in specs(), case in cases()) {
        let flows = case.estimate(&spec).flows;
        let ends: Vec<_> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
        prop_assert!(ends.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn more_bytes_never_take_less_time(spec in specs(), case in cases(), more in 0..1_u64 << 34) {
        let larger = Case { bytes: case.bytes + more, ..case.clone() };
        prop_assert!(larger.estimate(&spec).total() >= case.estimate(&spec).total());
    }

    #[test]
    fn no_transfer_beats_the_wire(spec in specs(), case in cases()) {
        let estimate = case.estimate(&spec);
        let mut out = std::collections::BTreeMap::new();
        for flow in estimate.flows.iter().filter(|flow| flow.src != flow.dst) {
            *out.entry(flow.src).or_insert(0_u64) += flow.bytes;
        }
        let busiest = out.into_values().max().unwrap_or(0);
        let wire_ps = busiest as f64 * 8.0 / spec.inter_node.bandwidth_gbps * 1e3;
        prop_assert!(estimate.transfer.as_picos() as f64 >= wire_ps * 0.999_999);
    }

    #[test]
    fn without_sharing_there_is_no_contention(spec in specs(), case in cases()) {
        let mut spec = spec;
        (spec.intra_node.oversubscription, spec.inter_node.oversubscription) = (1.0, 1.0);
        let alone = Case { concurrent: 0, ..case };
        prop_assert_eq!(alone.estimate(&spec).contention.as_picos(), 0);
    }

    #[test]
    fn company_adds_contention_and_changes_no_other_part(spec in specs(), case in cases()) {
        let mut spec = spec;
        spec.algorithm = AlgorithmChoice::Ring;
        let alone = Case { concurrent: 0, ..case.clone() }.estimate(&spec);
        let shared = Case { concurrent: 2, ..case }.estimate(&spec);
        prop_assert_eq!((alone.base_latency, alone.transfer), (shared.base_latency, shared.transfer));
        prop_assert!(shared.contention >= alone.contention);
    }

    #[test]
    fn the_model_s_choice_is_never_worse_than_either(spec in specs(), case in cases()) {
        let cost = |algorithm| case.estimate(&FabricSpec { algorithm, ..spec.clone() }).total();
        let auto = cost(AlgorithmChoice::Auto);
        prop_assert!(auto <= cost(AlgorithmChoice::Ring) && auto <= cost(AlgorithmChoice::Tree));
    }
}

#[test]
fn a_slower_fabric_takes_longer_for_every_collective() {
    for op in Collective::ALL {
        let time = |change: &dyn Fn(&mut FabricSpec)| {
            let mut spec = fabric();
            change(&mut spec);
            Case::new(*op, 1 << 20).on(&[4, 4]).estimate(&spec).total()
        };
        let base = time(&|_| {});
        assert!(time(&|spec| spec.inter_node.bandwidth_gbps /= 2.0) > base, "{op}: half the bandwidth");
        assert!(time(&|spec| spec.inter_node.latency_us *= 2.0) > base, "{op}: twice the latency");
        assert!(time(&|spec| spec.inter_node.oversubscription = 2.0) > base, "{op}: oversubscribed");
    }
}

#[test]
fn sizes_that_cannot_be_counted_saturate() {
    for op in Collective::ALL {
        let estimate = Case::new(*op, u64::MAX).on(&[4, 4]).estimate(&fabric());
        assert!(estimate.total() >= estimate.transfer, "{op}");
        assert!(estimate.transfer.as_picos() > 1 << 60, "{op}");
    }
}
