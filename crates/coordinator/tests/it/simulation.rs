//! Whole clusters from seeds. A failing seed is printed; `SEED=n` runs it alone.

use fakegpu_proto::Code;
use fakegpu_testkit::{Cluster, Ending, Outcome, Random, Scenario, Step};
use fakegpu_units::HostSpan;

#[expect(
    clippy::disallowed_methods,
    reason = "a seed to replay is the tester's to give, not the core's to read"
)]
fn chosen_seed() -> Option<u64> {
    std::env::var("SEED").ok().and_then(|seed| seed.parse().ok())
}

fn seeds(count: u64) -> Vec<u64> {
    match chosen_seed() {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}

fn random_run(seed: u64, crash_percent: u64) -> Outcome {
    let mut random = Random::new(seed);
    let ranks = 1 + usize::try_from(random.below(8)).unwrap();
    let steps = usize::try_from(random.below(30)).unwrap();
    let scenario = Scenario { crash_percent, ..Scenario::random(&mut random, ranks, steps) };
    Cluster::new(seed, scenario).run()
}

#[test]
fn right_programs_finish_however_arrivals_are_ordered() {
    for seed in seeds(400) {
        let outcome = random_run(seed, 0);
        assert!(
            outcome.ranks.iter().all(|rank| rank.ending == Ending::Finished),
            "SEED={seed}: {:?}",
            outcome.ranks
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_event_log_twice() {
    for seed in seeds(40) {
        assert_eq!(random_run(seed, 4).log, random_run(seed, 4).log, "SEED={seed}");
    }
}

#[test]
fn a_death_is_told_to_everyone_who_waits_within_a_second() {
    let mut deaths = 0;
    for seed in seeds(600) {
        let outcome = random_run(seed, 4);
        let Some(death) = outcome.first_death else { continue };
        deaths += 1;
        for rank in &outcome.ranks {
            match &rank.ending {
                Ending::Finished | Ending::Died => {}
                Ending::Failed(fault) => {
                    assert_eq!(fault.code, Code::RemoteError, "SEED={seed}: {fault}");
                    assert!(fault.detail.contains("died"), "SEED={seed}: {fault}");
                    // A rank that computes learns at its next call; nobody computes for more than 90 ms in all.
                    assert!(
                        rank.at.since(death) < HostSpan::from_millis(1_000),
                        "SEED={seed}: {:?}",
                        rank.at.since(death)
                    );
                }
                Ending::Hung => panic!("SEED={seed}: a rank was never answered"),
            }
        }
    }
    assert!(deaths > 100 || chosen_seed().is_some(), "only {deaths} runs had a death: the test tests little");
}

#[test]
fn a_missing_rank_ends_at_the_timeout_and_is_named() {
    let mut scenario =
        Scenario::same(4, vec![Step::Join, Step::all_reduce(4), Step::all_reduce(5), Step::Leave]);
    scenario.programs[2] = vec![Step::Join, Step::all_reduce(4), Step::Compute(60_000_000)];
    let outcome = Cluster::new(1, scenario).run();
    for rank in [0, 1, 3] {
        let Ending::Failed(fault) = &outcome.ranks[rank].ending else {
            panic!("rank {rank}: {:?}", outcome.ranks[rank])
        };
        assert_eq!(fault.code, Code::SystemError);
        assert!(fault.detail.contains("timeout") && fault.detail.contains("rank 2"), "{fault}");
        assert!(outcome.ranks[rank].at.since(Default::default()) >= HostSpan::from_millis(5_000));
    }
}

#[test]
fn a_rank_that_never_joins_is_named() {
    let mut scenario = Scenario::same(3, vec![Step::Join, Step::Leave]);
    scenario.programs[1] = vec![Step::Compute(60_000_000)];
    let outcome = Cluster::new(1, scenario).run();
    let Ending::Failed(fault) = &outcome.ranks[0].ending else { panic!("{:?}", outcome.ranks) };
    assert!(fault.detail.contains("misses rank 1"), "{fault}");
}

#[test]
fn a_mismatch_fails_every_rank_and_runs_nothing() {
    for seed in seeds(100) {
        let mut random = Random::new(seed);
        let ranks = 2 + usize::try_from(random.below(7)).unwrap();
        let odd = usize::try_from(random.below(ranks as u64)).unwrap();
        let mut scenario =
            Scenario::same(ranks, vec![Step::Join, Step::all_reduce(4), Step::all_reduce(8), Step::Leave]);
        scenario.programs[odd][2] = Step::all_reduce(9);
        let outcome = Cluster::new(seed, scenario).run();
        for rank in &outcome.ranks {
            let Ending::Failed(fault) = &rank.ending else { panic!("SEED={seed}: {:?}", outcome.ranks) };
            assert_eq!((fault.code, rank.operations), (Code::InvalidUsage, 1), "SEED={seed}: {fault}");
            assert!(fault.detail.contains("count differs"), "SEED={seed}: {fault}");
        }
    }
}

#[test]
fn a_process_that_ends_in_order_fails_only_who_needs_it() {
    let mut scenario =
        Scenario::same(3, vec![Step::Join, Step::all_reduce(4), Step::Compute(20_000), Step::all_reduce(4)]);
    scenario.programs[2] = vec![Step::Join, Step::all_reduce(4)];
    let outcome = Cluster::new(3, scenario).run();
    assert_eq!(outcome.ranks[2].ending, Ending::Finished);
    for rank in [0, 1] {
        let Ending::Failed(fault) = &outcome.ranks[rank].ending else { panic!("{:?}", outcome.ranks) };
        assert!(fault.detail.contains("left") || fault.detail.contains("exited"), "{fault}");
        assert_eq!(outcome.ranks[rank].operations, 1);
    }
}
