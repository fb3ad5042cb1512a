//! What holds for every sequence of events.

use std::collections::BTreeMap;

use fakegpu_proto::{Event, EventKind, RankHistory};
use fakegpu_report::{Fold, Options, Report};
use fakegpu_units::{Collective, CommId, GlobalRank, HostTime, VirtualTime};
use proptest::prelude::*;

use crate::{Log, cluster, waits};

#[derive(Clone, Debug)]
enum Step {
    Run { op: Collective, count: u64 },
    Send { src: u32, dst: u32, count: u64 },
    Put { src: u32, dst: u32, bytes: u64 },
    Barrier,
    Create,
    Leave(u32),
    Hazard(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let run = (0..Collective::ALL.len(), 1..1_u64 << 40);
    let send = (0..8_u32, 0..8_u32, prop_oneof![Just(0), 1..1_u64 << 40]);
    let put = (0..8_u32, 0..8_u32, 0..1_u64 << 40);
    let step = prop_oneof![
        6 => send.prop_map(|(src, dst, count)| Step::Send { src, dst, count }),
        2 => put.prop_map(|(src, dst, bytes)| Step::Put { src, dst, bytes }),
        6 => run.prop_map(|(op, count)| Step::Run { op: Collective::ALL[op], count }),
        2 => Just(Step::Barrier),
        1 => Just(Step::Create),
        1 => (0..9_u32).prop_map(Step::Leave),
        1 => any::<u8>().prop_map(Step::Hazard),
    ];
    prop::collection::vec(step, 0..60)
}

/// A log whose ranks may leave early, so that some operations belong to communicators that are gone.
fn log(steps: &[Step], joined: bool) -> Vec<Event> {
    let mut log = if joined { Log::joined() } else { Log::default() };
    for (seq, step) in (0..).zip(steps) {
        match *step {
            Step::Run { op, count } => log.run(1, seq, op, count, 8),
            Step::Send { src, dst, count } => log.send(1, src, dst, count),
            Step::Put { src, dst, bytes } => log.put(1, src, dst, bytes),
            Step::Barrier => log.push(EventKind::Barrier {
                comm: CommId(1),
                waits: waits(8),
                bytes: 0,
                took: fakegpu_units::VirtualSpan::ZERO,
            }),
            Step::Create => log.create(2 + seq, (0..8).map(GlobalRank).collect(), None),
            Step::Leave(rank) => {
                log.push(EventKind::CommLeft {
                    comm: CommId(1),
                    rank: fakegpu_units::Rank(rank),
                    aborted: rank > 6,
                });
            }
            Step::Hazard(number) => {
                log.push(EventKind::Hazard { comm: CommId(1), detail: format!("hazard {number}") });
            }
        }
    }
    log.events
}

fn fold(events: &[Event], timeline_max: usize) -> Report {
    let mut fold = Fold::new(Options { timeline_max });
    events.iter().for_each(|event| fold.apply(event));
    fold.report()
}

fn totals(report: &Report) -> BTreeMap<String, (u64, u64)> {
    let value = serde_json::to_value(&report.collectives).expect("plain fields");
    let number = |totals: &serde_json::Value, name: &str| totals[name].as_u64().expect("a count");
    let pairs = value.as_object().expect("a mapping").iter();
    pairs.map(|(name, totals)| (name.clone(), (number(totals, "calls"), number(totals, "bytes")))).collect()
}

proptest! {
    #[test]
    fn every_operation_is_listed_or_counted_as_dropped(steps in steps(), joined: bool, timeline_max in 0..20_usize) {
        let report = fold(&log(&steps, joined), timeline_max);
        let calls: u64 = totals(&report).values().map(|(calls, _)| calls).sum();
        let timeline = &report.operation_timeline;
        prop_assert_eq!(calls + report.point_to_point.operations, timeline.retained_entries + timeline.dropped_entries);
        prop_assert_eq!(timeline.retained_entries, timeline.entries.len() as u64);
        prop_assert!(timeline.entries.len() <= timeline_max);
        let indices: Vec<u64> = timeline.entries.iter().map(|entry| entry.index).collect();
        let all = calls + report.point_to_point.operations;
        prop_assert_eq!(indices, (timeline.dropped_entries..all).collect::<Vec<_>>());
    }

    #[test]
    fn totals_are_the_plain_sums(steps in steps(), joined: bool) {
        let events = log(&steps, joined);
        let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let mut end = VirtualTime::ZERO;
        for event in &events {
            let (name, bytes, start, estimate) = match &event.kind {
                EventKind::Operation { descriptor, size, start, estimate, .. } => {
                    (descriptor.op.name(), descriptor.booked_bytes(*size), *start, estimate)
                }
                EventKind::Transfer { transfer, start, estimate, .. } => {
                    ("send_recv", transfer.bytes(), *start, estimate)
                }
                EventKind::Put { bytes, start, estimate, .. } => ("put", *bytes, *start, estimate),
                _ => continue,
            };
            let sum = expected.entry(name.to_owned()).or_default();
            *sum = (sum.0 + 1, sum.1 + bytes);
            end = end.max(start + estimate.total());
        }
        let report = fold(&events, 4);
        for (name, sum) in totals(&report).into_iter().filter(|(name, _)| name != "barrier") {
            prop_assert_eq!(sum, expected.get(&name).copied().unwrap_or_default(), "{}", name);
        }
        let of = |name: &str| expected.get(name).copied().unwrap_or_default();
        let (pairs, puts, told) = (of("send_recv"), of("put"), report.point_to_point);
        prop_assert_eq!((told.sends, told.recvs, told.operations), (pairs.0, pairs.0, pairs.0 + puts.0));
        prop_assert_eq!((told.bytes, told.one_sided.puts, told.one_sided.bytes), (pairs.1 + puts.1, puts.0, puts.1));
        prop_assert_eq!(report.virtual_time.makespan_us, end.since(VirtualTime::ZERO).as_micros_f64());
        let by_algorithm: u64 = report.algorithms.values().map(|used| used.operations).sum();
        prop_assert_eq!(by_algorithm, expected.values().map(|(calls, _)| calls).sum::<u64>());
    }

    #[test]
    fn a_pair_is_a_call_of_each_of_its_sides(steps in steps()) {
        // Nobody leaves, so that every operation can be booked on its ranks.
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Leave(_))).collect();
        let mut expected = [0_u64; 8];
        for step in &steps {
            match *step {
                Step::Send { src, dst, .. } => [src, dst].iter().for_each(|rank| expected[*rank as usize] += 1),
                Step::Put { src, .. } => expected[src as usize] += 1,
                _ => {}
            }
        }
        let report = fold(&log(&steps, true), 4);
        let told: Vec<u64> = report.ranks.iter().map(|rank| rank.point_to_point_calls).collect();
        prop_assert_eq!(told, expected);
    }

    #[test]
    fn no_rank_communicates_longer_than_until_its_last_operation_ends(steps in steps()) {
        for rank in fold(&log(&steps, true), 4).virtual_time.ranks {
            prop_assert!(rank.communication_us <= rank.end_us);
        }
    }

    #[test]
    fn the_matrix_the_links_and_the_pairs_tell_the_same_bytes(steps in steps()) {
        let report = fold(&log(&steps, true), 0);
        let matrix: u64 = report.traffic_matrix.bytes.iter().flatten().sum();
        prop_assert_eq!(matrix, report.links.iter().map(|link| link.bytes).sum::<u64>());
        let between: u64 = report.node_pairs.iter().map(|pair| pair.bytes).sum();
        let diagonal: u64 = (0..2).map(|node| report.traffic_matrix.bytes[node][node]).sum();
        prop_assert_eq!(between, matrix - diagonal);
    }

    #[test]
    fn markdown_is_written_for_every_log(steps in steps(), joined: bool) {
        let markdown = fold(&log(&steps, joined), 30).to_markdown();
        prop_assert!(markdown.ends_with('\n') && markdown.contains("## Recent Operation Timeline"));
    }
}

#[test]
fn operations_leave_nothing_behind_but_counts() {
    let mut fold = Fold::new(Options { timeline_max: 16 });
    let mut log = Log::joined();
    log.run(1, 0, Collective::AllReduce, 1 << 20, 8);
    log.push(EventKind::Barrier {
        comm: CommId(1),
        waits: waits(8),
        bytes: 0,
        took: fakegpu_units::VirtualSpan::ZERO,
    });
    log.send(1, 0, 5, 1 << 20);
    log.put(1, 0, 5, 1 << 20);
    let repeated = log.events.split_off(log.events.len() - 4);
    log.events.iter().for_each(|event| fold.apply(event));
    let state = |fold: &Fold| format!("{fold:?}").len();
    let mut sizes = Vec::new();
    for round in 0..20_000 {
        repeated.iter().for_each(|event| fold.apply(event));
        if round % 5_000 == 4_999 {
            sizes.push(state(&fold));
        }
    }
    // Only digits are added: a list that grew by an entry an operation would add megabytes.
    assert!(sizes[3] - sizes[0] < 200, "{sizes:?}");
    assert_eq!(fold.report().operation_timeline.dropped_entries, 80_000 - 16);
}

#[test]
fn logs_that_repeat_without_end_are_cut_and_say_so() {
    let mut fold = Fold::new(Options::default());
    fold.apply(&Event {
        at: HostTime::ZERO,
        kind: EventKind::Started { transport: "tcp".to_owned(), cluster: cluster() },
    });
    for number in 0..12_000_u64 {
        let kind = match number % 2 {
            0 => EventKind::Hazard { comm: CommId(number), detail: String::new() },
            _ => EventKind::Failure {
                comm: Some(CommId(number)),
                failure: fakegpu_proto::event::FailureKind::Staging,
                code: fakegpu_proto::Code::SystemError,
                detail: String::new(),
                culprits: Vec::new(),
                history: vec![
                    RankHistory { recent: vec!["call".to_owned(); 100], ..RankHistory::default() };
                    100
                ],
            },
        };
        fold.apply(&Event { at: HostTime::ZERO, kind });
    }
    let report = fold.report();
    assert_eq!((report.hazards.len(), report.hazards_dropped), (1_000, 5_000));
    assert_eq!((report.resilience.failure_count, report.resilience.failure_events.len()), (6_000, 1_000));
    assert_eq!(report.resilience.dropped_entries, 5_000);
    let histories: Vec<_> = report.resilience.failure_events.iter().map(|failure| &failure.history).collect();
    assert_eq!(histories.iter().filter(|history| !history.is_empty()).count(), 16);
    assert_eq!((histories[0].len(), histories[0][0].recent.len()), (64, 32));
}
