//! Reports that people read, whole.

use fakegpu_proto::Event;
use fakegpu_report::{Fold, Report};
use fakegpu_units::GlobalRank;

use crate::{failed, healthy, payload_off, pipeline};

const GOLDEN: &str = include_str!("data/failed.jsonl");

fn report(events: &[Event]) -> Report {
    Fold::from_events(events).report()
}

#[test]
fn two_nodes_of_four_in_markdown() {
    insta::assert_snapshot!(report(&healthy()).to_markdown());
}

#[test]
fn two_nodes_of_four_in_json() {
    insta::assert_snapshot!(report(&healthy()).to_json());
}

#[test]
fn a_pipeline_in_markdown() {
    insta::assert_snapshot!(report(&pipeline()).to_markdown());
}

#[test]
fn a_pipeline_in_json() {
    insta::assert_snapshot!(report(&pipeline()).to_json());
}

#[test]
fn a_run_that_moved_no_bytes_says_so_before_anything_else() {
    let report = report(&payload_off());
    assert_eq!(
        report.fidelity[0],
        "payload off: operations were matched, timed and counted, no bytes were moved"
    );
    insta::assert_snapshot!(report.to_markdown().lines().take(6).collect::<Vec<_>>().join("\n"));
    assert_eq!(report.communicators_log[0].staging.as_deref(), Some("off"));
}

#[test]
fn a_pair_waits_on_the_side_that_came_first() {
    let report = report(&pipeline());
    let rank = |rank: usize| &report.ranks[rank];
    // Two ranks' sends: rank 0 to 4, and to 1. Waits of the all-reduce and the barrier are 1.75 ms for rank 0 each.
    assert_eq!(rank(0).wait_time_ms, 2.0 + 2.0 + 1.75 + 1.75);
    assert_eq!(rank(0).longest_wait_ms, 2.0);
    assert_eq!(
        report.ranks.iter().map(|rank| rank.point_to_point_calls).collect::<Vec<_>>(),
        [2, 2, 1, 3, 1, 2, 1, 1]
    );
}

#[test]
fn the_pairs_of_a_group_run_side_by_side() {
    let report = report(&pipeline());
    let all_reduce = report.collectives.all_reduce.estimated_time_us_total;
    // The longer of rank 0's two sends: 10 µs and 2 MiB at 200 ps a byte.
    let longest = 10.0 + f64::from(2 << 20) * 200e-6;
    let told = report.virtual_time.ranks[0].communication_us;
    assert!((told - all_reduce - longest).abs() < 1e-6, "{told}");
    assert_eq!(report.virtual_time.ranks[0].other_us, 0.0);
}

#[test]
fn a_failed_run_in_markdown() {
    insta::assert_snapshot!(report(&failed()).to_markdown());
}

#[test]
fn who_died_is_the_first_thing_said() {
    let markdown = report(&failed()).to_markdown();
    let first = markdown.lines().find(|line| line.starts_with("- ")).unwrap();
    assert_eq!(first, "- **rank 2 died**: train (pid 4002), at 19.0 ms.");
    assert_eq!(markdown.lines().find(|line| line.starts_with("## ")), Some("## Failures"));
}

#[test]
fn a_run_without_failures_has_no_section_for_them() {
    assert!(!report(&healthy()).to_markdown().contains("## Failures"));
}

#[test]
fn a_session_without_operations_writes_zeros() {
    let report = report(&[]);
    insta::assert_snapshot!(report.to_markdown());
    let collectives = serde_json::to_value(&report.collectives).unwrap();
    let collectives = collectives.as_object().unwrap();
    assert_eq!(collectives.len(), 9);
    assert!(collectives.values().all(|totals| totals["calls"] == 0 && totals["bytes"] == 0));
}

#[test]
fn a_saved_log_gives_the_report_of_the_run() {
    let saved: Vec<Event> = GOLDEN.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(saved, failed(), "the vocabulary of events has changed under saved logs");
    assert_eq!(report(&saved).to_json(), report(&failed()).to_json());
}

#[test]
fn a_time_out_is_booked_on_the_ranks_that_it_failed() {
    let report = report(&failed());
    let timeouts: Vec<u64> = report.ranks.iter().map(|rank| rank.timeouts).collect();
    assert_eq!(timeouts, [1, 1, 0, 1, 1, 1, 1, 1]);
    let died: Vec<_> = report.ranks.iter().filter(|rank| rank.died).map(|rank| rank.rank).collect();
    assert_eq!(died, [GlobalRank(2)]);
    assert_eq!(report.ranks.iter().map(|rank| rank.aborts).sum::<u64>(), 1);
}

#[test]
fn ranks_that_make_a_new_communicator_after_a_failure_have_recovered() {
    let resilience = report(&failed()).resilience;
    assert_eq!((resilience.failure_count, resilience.recovery_count), (2, 1));
    assert_eq!(resilience.recovery_events[0].ranks, [0, 1, 3, 4, 5, 6, 7].map(GlobalRank));
}

#[test]
fn an_operation_counts_once_and_by_its_nccl_tests_size() {
    let report = report(&healthy());
    let gathers = report.collectives.all_gather;
    assert_eq!((gathers.calls, gathers.bytes), (3, 3 * 8 * 4 * (1 << 12)));
    assert_eq!(report.collectives.all_reduce.bytes, 3 * 4 * (1 << 20));
    assert_eq!(report.ranks[0].collective_calls, 7);
    assert_eq!(report.ranks[7].collective_calls, 8);
    assert_eq!(report.collectives.barrier.calls, 1);
}

#[test]
fn a_link_s_utilisation_is_its_share_of_the_makespan() {
    let report = report(&healthy());
    let link = report.links.iter().find(|link| link.src == "node0" && link.dst == "node1").unwrap();
    let capacity = 200e9 / 8.0 * report.virtual_time.makespan_us / 1e6;
    assert!((link.utilisation - link.bytes as f64 / capacity).abs() < 1e-12);
    assert!(link.utilisation > 0.0);
}

#[test]
fn every_pair_of_nodes_is_listed_even_if_idle() {
    let report = report(&healthy()[..1]);
    let pairs: Vec<_> =
        report.node_pairs.iter().map(|pair| (pair.src.as_str(), pair.dst.as_str(), pair.bytes)).collect();
    assert_eq!(pairs, [("node0", "node1", 0), ("node1", "node0", 0)]);
}
