//! Point-to-point operations that start together: examples by hand, and what holds for every set of them.

use fakegpu_config::cluster::FabricSpec;
use fakegpu_fabric::{LAUNCH, Model, TransferQuery, TwoClass, explain};
use fakegpu_proto::{Estimate, Flow};
use fakegpu_units::{Collective, GlobalRank, NodeIndex, VirtualSpan};
use proptest::prelude::*;

use crate::{Case, fabric, laws::specs};

/// Ranks stand four on a node.
fn transfer(from: u32, to: u32, bytes: u64) -> TransferQuery {
    let node = |rank| NodeIndex(rank / 4);
    TransferQuery { src: node(from), dst: node(to), from: GlobalRank(from), to: GlobalRank(to), bytes }
}

fn estimates(spec: &FabricSpec, queries: &[TransferQuery]) -> Vec<Estimate> {
    TwoClass::new(spec).transfers(queries, 0)
}

/// Base, transfer and contention, in nanoseconds and rounded down.
fn parts(estimate: &Estimate) -> [u64; 3] {
    [estimate.base_latency, estimate.transfer, estimate.contention].map(|part| part.as_picos() / 1000)
}

#[test]
fn one_byte_costs_the_launch_and_one_hop() {
    let spec = fabric();
    let [within, between] = [transfer(0, 1, 1), transfer(0, 4, 1)].map(|query| estimates(&spec, &[query]));
    assert_eq!(within[0].total(), LAUNCH + VirtualSpan::from_micros(1) + VirtualSpan::from_picos(125));
    assert_eq!(between[0].total(), LAUNCH + VirtualSpan::from_micros(5) + VirtualSpan::from_picos(1_112));
    assert_eq!(between[0].flows, [Flow { src: NodeIndex(0), dst: NodeIndex(1), bytes: 1 }]);
    let told =
        |estimate: &Estimate| (estimate.algorithm.clone(), estimate.steps, estimate.bottleneck.clone());
    assert_eq!(told(&within[0]), ("direct".to_owned(), 1, "intra_node".to_owned()));
    assert_eq!(told(&between[0]), ("direct".to_owned(), 1, "inter_node".to_owned()));
}

#[test]
fn to_itself_costs_a_launch_and_disturbs_nobody() {
    let set = estimates(&fabric(), &[transfer(0, 0, 1 << 30), transfer(0, 1, 8_000)]);
    assert_eq!((set[0].total(), set[0].flows.len(), set[0].bottleneck.as_str()), (LAUNCH, 0, ""));
    assert_eq!(parts(&set[1]), [7_800, 1_000, 0]);
    assert_eq!(explain(&set[0]), "To itself: the launch takes 6.80 µs, and nothing crosses a link.");
}

#[test]
fn a_port_is_shared_by_all_who_send_through_it_or_receive_through_it() {
    // Rank 0 sends twice, rank 3 receives twice; rank 1 to rank 2 shares with nobody.
    let set = estimates(
        &fabric(),
        &[transfer(0, 2, 8_000), transfer(0, 3, 8_000), transfer(1, 3, 16_000), transfer(2, 1, 8_000)],
    );
    let contention: Vec<u64> = set.iter().map(|estimate| parts(estimate)[2]).collect();
    assert_eq!(contention, [1_000, 2_000, 1_000, 0]);
}

#[test]
fn both_directions_of_a_port_work_at_once() {
    let set = estimates(&fabric(), &[transfer(0, 1, 8_000), transfer(1, 0, 8_000)]);
    assert!(set.iter().all(|estimate| parts(estimate) == [7_800, 1_000, 0]));
}

#[test]
fn all_ranks_of_a_node_share_its_link_to_the_others() {
    let set = estimates(
        &fabric(),
        &[transfer(0, 4, 9_000), transfer(1, 5, 9_000), transfer(2, 8, 9_000), transfer(0, 3, 8_000)],
    );
    let each: Vec<_> = set.iter().map(parts).collect();
    assert_eq!(
        each,
        [[11_800, 10_000, 20_000], [11_800, 10_000, 20_000], [11_800, 10_000, 20_000], [7_800, 1_000, 0]]
    );
}

#[test]
fn a_transfer_of_nothing_shares_nothing() {
    let set = estimates(&fabric(), &[transfer(0, 4, 0), transfer(0, 4, 9_000)]);
    assert_eq!((parts(&set[0]), parts(&set[1])), ([11_800, 0, 0], [11_800, 10_000, 0]));
}

#[test]
fn oversubscription_and_company_count_as_for_collectives() {
    let mut spec = fabric();
    spec.inter_node.oversubscription = 1.5;
    let set = TwoClass::new(&spec).transfers(&[transfer(0, 4, 9_000)], 1);
    assert_eq!(parts(&set[0]), [11_800, 10_000, 20_000]);
}

#[test]
fn the_pairs_of_an_all_to_all_keep_links_as_busy_as_the_all_to_all() {
    let spec = fabric();
    let pairs: Vec<_> = (0..8).flat_map(|from| (0..8).map(move |to| transfer(from, to, 900))).collect();
    let whole = Case::new(Collective::AllToAll, 900).on(&[4, 4]).estimate(&spec);
    let slowest = estimates(&spec, &pairs).iter().map(|each| each.transfer + each.contention).max().unwrap();
    assert_eq!(slowest, whole.transfer + whole.contention);
}

#[test]
fn no_query_has_no_answer() {
    assert_eq!(estimates(&fabric(), &[]), []);
}

#[test]
fn sizes_that_cannot_be_counted_saturate() {
    let set =
        estimates(&fabric(), &[transfer(0, 4, u64::MAX), transfer(0, 5, u64::MAX), transfer(0, 1, u64::MAX)]);
    assert!(set.iter().all(|estimate| estimate.total().as_picos() > 1 << 60));
}

#[test]
fn a_group_of_many_thousands_is_priced_in_time_that_grows_with_it() {
    // Every pair of 512 ranks: were each priced against each other, this would take hours.
    let pairs: Vec<_> = (0..512).flat_map(|from| (0..512).map(move |to| transfer(from, to, 64))).collect();
    assert_eq!(estimates(&fabric(), &pairs).len(), 512 * 512);
}

fn sets() -> impl Strategy<Value = Vec<TransferQuery>> {
    let one = (0..12_u32, 0..12_u32, 0..1_u64 << 34).prop_map(|(from, to, bytes)| transfer(from, to, bytes));
    prop::collection::vec(one, 1..24)
}

proptest! {
    #[test]
    fn more_bytes_make_no_transfer_of_the_set_cheaper(
        spec in specs(), set in sets(), at in any::<prop::sample::Index>(), more in 0..1_u64 << 34,
    ) {
        let mut larger = set.clone();
        larger[at.index(set.len())].bytes += more;
        for (before, after) in estimates(&spec, &set).iter().zip(estimates(&spec, &larger)) {
            prop_assert!(after.total() >= before.total());
        }
    }

    #[test]
    fn another_transfer_makes_none_cheaper_and_adds_only_contention(spec in specs(), set in sets()) {
        let all = estimates(&spec, &set);
        for (before, after) in estimates(&spec, &set[1..]).iter().zip(&all[1..]) {
            prop_assert_eq!((before.base_latency, before.transfer), (after.base_latency, after.transfer));
            prop_assert!(after.contention >= before.contention);
        }
    }

    #[test]
    fn half_the_bandwidth_between_nodes_raises_what_crosses_them_and_nothing_else(spec in specs(), set in sets()) {
        let mut slower = spec.clone();
        slower.inter_node.bandwidth_gbps /= 2.0;
        for (query, (fast, slow)) in set.iter().zip(estimates(&spec, &set).iter().zip(estimates(&slower, &set))) {
            if query.src == query.dst {
                prop_assert_eq!(fast, &slow);
            } else if query.bytes > 0 {
                prop_assert!(slow.total() > fast.total());
            }
        }
    }

    #[test]
    fn the_order_of_the_set_does_not_matter(spec in specs(), set in sets()) {
        let backward: Vec<_> = set.iter().rev().copied().collect();
        let mut turned = estimates(&spec, &backward);
        turned.reverse();
        prop_assert_eq!(turned, estimates(&spec, &set));
    }

    #[test]
    fn bytes_of_transfers_are_accounted_for_exactly(spec in specs(), set in sets()) {
        let moved: u64 = estimates(&spec, &set).iter().flat_map(|each| &each.flows).map(|flow| flow.bytes).sum();
        let due: u64 = set.iter().filter(|query| query.from != query.to).map(|query| query.bytes).sum();
        prop_assert_eq!(moved, due);
    }
}
