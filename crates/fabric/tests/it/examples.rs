//! Predictions worked by hand, to the picosecond.
//!
//! The fabric: 80 Gb/s within a node is 10 GB/s on the wire and 8 GB/s of payload, so 125 ps a byte; 8 Gb/s between
//! nodes is 1 GB/s and 0.9 GB/s, so 10/9 ns a byte. A hop takes 1 µs within and 5 µs between; a launch 6.8 µs.

use fakegpu_config::cluster::AlgorithmChoice;
use fakegpu_fabric::explain;
use fakegpu_proto::{Estimate, Flow};
use fakegpu_units::{Collective, NodeIndex};

use crate::{Case, fabric};

const LAUNCH: u64 = 6_800_000;
const MICRO: u64 = 1_000_000;

/// Picoseconds of `bytes` within a node, and between nodes.
fn within(bytes: u64) -> u64 {
    bytes * 125
}

fn between(bytes: u64) -> u64 {
    (bytes * 10_000).div_ceil(9)
}

#[track_caller]
fn check(estimate: &Estimate, algorithm: &str, steps: u32, latency: u64, transfer: u64) {
    let parts = (estimate.algorithm.as_str(), estimate.steps, estimate.base_latency.as_picos());
    assert_eq!(parts, (algorithm, steps, LAUNCH + latency));
    assert_eq!(estimate.transfer.as_picos(), transfer);
    assert_eq!(estimate.contention.as_picos(), 0);
}

fn flows(expected: &[(u32, u32, u64)]) -> Vec<Flow> {
    let flow = |&(src, dst, bytes)| Flow { src: NodeIndex(src), dst: NodeIndex(dst), bytes };
    expected.iter().map(flow).collect()
}

#[test]
fn a_ring_all_reduce_takes_two_rounds_over_its_slowest_hop() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Ring;
    let estimate = Case::new(Collective::AllReduce, 8_000).on(&[4, 4]).estimate(&spec);
    // 14 steps of 5 µs; each hop carries 2 × 7/8 of 8000 bytes.
    check(&estimate, "ring", 14, 14 * 5 * MICRO, between(14_000));
    assert_eq!(
        estimate.flows,
        flows(&[(0, 0, 3 * 14_000), (0, 1, 14_000), (1, 0, 14_000), (1, 1, 3 * 14_000)])
    );
    assert_eq!((estimate.bottleneck.as_str(), estimate.chosen_by.as_str()), ("inter_node", "cluster file"));
}

#[test]
fn a_ring_within_a_node_is_bounded_by_its_ports() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Ring;
    let estimate = Case::new(Collective::AllReduce, 8_000).on(&[8]).estimate(&spec);
    check(&estimate, "ring", 14, 14 * MICRO, within(14_000));
    assert_eq!(estimate.bottleneck, "intra_node");
}

#[test]
fn a_tree_all_reduce_goes_up_and_down_its_levels() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Tree;
    let estimate = Case::new(Collective::AllReduce, 8_000).on(&[4, 4]).estimate(&spec);
    // Two levels below each leader and one between the leaders; between two nodes, each way carries the bytes once.
    check(&estimate, "tree", 6, 2 * (5 + 2) * MICRO, between(8_000));
    assert_eq!(estimate.flows, flows(&[(0, 0, 48_000), (0, 1, 8_000), (1, 0, 8_000), (1, 1, 48_000)]));
}

#[test]
fn a_double_tree_lets_no_node_send_more_than_twice_the_bytes() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Tree;
    let estimate = Case::new(Collective::AllReduce, 9_000).on(&[1; 8]).estimate(&spec);
    check(&estimate, "tree", 6, 6 * 5 * MICRO, 2 * between(9_000));
}

#[test]
fn gathers_and_scatters_of_slices_take_one_round() {
    for op in [Collective::AllGather, Collective::ReduceScatter] {
        let estimate = Case::new(op, 1_000).on(&[4, 4]).estimate(&fabric());
        check(&estimate, "ring", 7, 7 * 5 * MICRO, between(7_000));
        assert_eq!(estimate.flows, flows(&[(0, 0, 21_000), (0, 1, 7_000), (1, 0, 7_000), (1, 1, 21_000)]));
    }
}

#[test]
fn a_pipelined_broadcast_leaves_the_hop_into_its_root_idle() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Ring;
    let broadcast = Case::new(Collective::Broadcast, 9_000).on(&[2, 2]).rooted_at(1).estimate(&spec);
    check(&broadcast, "ring", 3, 3 * 5 * MICRO, between(9_000));
    assert_eq!(broadcast.flows, flows(&[(0, 1, 9_000), (1, 0, 9_000), (1, 1, 9_000)]));
    let reduce = Case::new(Collective::Reduce, 9_000).on(&[2, 2]).rooted_at(1).estimate(&spec);
    check(&reduce, "ring", 3, 3 * 5 * MICRO, between(9_000));
    assert_eq!(reduce.flows, flows(&[(0, 0, 9_000), (1, 0, 9_000), (1, 1, 9_000)]));
}

#[test]
fn an_all_to_all_sends_true_pairs_through_one_link_a_node() {
    let estimate = Case::new(Collective::AllToAll, 900).on(&[4, 4]).estimate(&fabric());
    // Sixteen pairs cross in each direction; twelve stay within each node.
    check(&estimate, "direct", 7, 7 * 5 * MICRO, between(16 * 900));
    assert_eq!(
        estimate.flows,
        flows(&[(0, 0, 12 * 900), (0, 1, 16 * 900), (1, 0, 16 * 900), (1, 1, 12 * 900)])
    );
}

#[test]
fn a_gather_is_bound_by_its_root() {
    let estimate = Case::new(Collective::Gather, 900).on(&[2, 2, 2]).rooted_at(0).estimate(&fabric());
    check(&estimate, "direct", 5, (1 + 4 * 5) * MICRO, 2 * between(2 * 900));
    assert_eq!(estimate.flows, flows(&[(0, 0, 900), (1, 0, 1_800), (2, 0, 1_800)]));
    let scatter = Case::new(Collective::Scatter, 900).on(&[2, 2, 2]).rooted_at(0).estimate(&fabric());
    assert_eq!(scatter.total(), estimate.total());
    assert_eq!(scatter.flows, flows(&[(0, 0, 900), (0, 1, 1_800), (0, 2, 1_800)]));
}

#[test]
fn hops_that_cross_often_share_their_node_s_link() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Ring;
    let case = Case { nodes: [0, 1, 0, 1].map(NodeIndex).to_vec(), ..Case::new(Collective::AllGather, 900) };
    check(&case.estimate(&spec), "ring", 3, 3 * 5 * MICRO, between(2 * 3 * 900));
}

#[test]
fn contention_is_what_sharing_adds_and_nothing_else_changes() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Ring;
    let case = Case::new(Collective::AllGather, 9_000).on(&[1, 1]);
    let alone = case.estimate(&spec);
    let shared = Case { concurrent: 1, ..case.clone() }.estimate(&spec);
    assert_eq!((shared.base_latency, shared.transfer), (alone.base_latency, alone.transfer));
    assert_eq!(shared.contention, alone.transfer);
    spec.inter_node.oversubscription = 1.5;
    assert_eq!(case.estimate(&spec).contention.as_picos(), between(9_000) / 2);
    assert_eq!(Case { concurrent: 1, ..case }.estimate(&spec).contention.as_picos(), 2 * between(9_000));
}

#[test]
fn one_rank_alone_costs_nothing() {
    for op in Collective::ALL {
        let estimate = Case::new(*op, 1 << 20).on(&[1]).estimate(&fabric());
        assert_eq!((estimate.total().as_picos(), estimate.flows.len(), estimate.steps), (0, 0, 0), "{op}");
        assert_eq!(estimate.bottleneck, "");
    }
}

#[test]
fn the_model_takes_the_tree_for_small_messages_and_the_ring_for_large_ones() {
    let algorithm = |bytes| Case::new(Collective::AllReduce, bytes).on(&[8]).estimate(&fabric()).algorithm;
    assert_eq!(algorithm(8), "tree");
    assert_eq!(algorithm(1 << 30), "ring");
    let crossover = (3..40).find(|bits| algorithm(1 << bits) == "ring").unwrap();
    assert!((3..40).all(|bits| (algorithm(1 << bits) == "ring") == (bits >= crossover)));
    // 8 µs more latency for the ring, and a quarter of the bytes at 125 ps less: even at 256,000 bytes.
    assert_eq!(crossover, 18);
}

#[test]
fn a_choice_for_one_collective_wins_over_the_choice_for_all() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Tree;
    spec.algorithms.insert(Collective::AllReduce, AlgorithmChoice::Ring);
    let chosen = |op| {
        let estimate = Case::new(op, 8).on(&[8]).estimate(&spec);
        (estimate.algorithm, estimate.chosen_by)
    };
    let by_file = |name: &str| (name.to_owned(), "cluster file".to_owned());
    assert_eq!(chosen(Collective::AllReduce), by_file("ring"));
    assert_eq!(chosen(Collective::Broadcast), by_file("tree"));
    // No tree gathers slices: the file's choice cannot be followed, and the answer says that it was not.
    assert_eq!(chosen(Collective::AllGather), ("ring".to_owned(), "model".to_owned()));
}

#[test]
fn a_slow_pair_of_nodes_bounds_the_ring_that_crosses_it() {
    let mut spec = fabric();
    spec.algorithm = AlgorithmChoice::Ring;
    let case = Case::new(Collective::AllGather, 9_000).on(&[1, 1, 1]);
    spec.links.push(fakegpu_config::cluster::LinkOverride {
        src: NodeIndex(1),
        dst: NodeIndex(2),
        bandwidth_gbps: Some(4.0),
        latency_us: Some(20.0),
    });
    check(&case.estimate(&spec), "ring", 2, 2 * 20 * MICRO, 2 * between(2 * 9_000));
}

#[test]
fn two_nodes_of_four_explain_themselves() {
    let mut spec = fabric();
    spec.inter_node.oversubscription = 1.5;
    let mut text = String::new();
    for op in Collective::ALL {
        let estimate = Case::new(*op, 1 << 20).on(&[4, 4]).estimate(&spec);
        text.push_str(&format!("{op}: {}\n", explain(&estimate)));
    }
    insta::assert_snapshot!(text);
}
