//! The right failure: every rank is told, soon, in a sentence that names ranks and values.

use std::time::Duration;

use fakegpu_verification::{Daemon, Job, Layout};

/// Rank 1 deviates; the client exits 0 only if its call was refused with `ncclInvalidUsage`.
fn mismatch(kind: &str, words: &[&str]) {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    for ranks in [2, 4, 8] {
        let outcome = Job::new(&layout, ranks, &["--mismatch", kind]).coordinator(&daemon).run();
        outcome.assert_success();
        for rank in &outcome.ranks {
            for word in words.iter().chain(&["rank 1", "mismatch at operation 0"]) {
                assert!(rank.output.contains(word), "`{word}` is missing: {}", rank.output);
            }
            assert!(milliseconds(&rank.output) < 1000.0, "{}", rank.output);
        }
    }
    let report = daemon.stop();
    assert_eq!(report["resilience"]["failure_count"], 3);
}

/// The client prints `… after N ms: …`.
fn milliseconds(output: &str) -> f64 {
    let after = output
        .split(" after ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|number| number.parse().ok());
    after.unwrap_or_else(|| panic!("no time in: {output}"))
}

#[test]
fn a_mismatched_operator_is_named_on_every_rank() {
    mismatch("op", &["reduction operator differs", "max", "sum"]);
}

#[test]
fn a_mismatched_count_is_named_on_every_rank() {
    mismatch("count", &["count differs", "count=1000", "count=1024"]);
}

#[test]
fn a_mismatched_type_is_named_on_every_rank() {
    mismatch("dtype", &["datatype differs", "int32", "float32"]);
}

#[test]
fn a_mismatched_root_is_named_on_every_rank() {
    mismatch("root", &["root differs", "root=1", "root=0"]);
}

#[test]
fn a_missing_rank_ends_at_the_timeout_with_who_is_missing() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let outcome = Job::new(&layout, 4, &["--missing"])
        .coordinator(&daemon)
        .env("FAKEGPU_COLLECTIVE_TIMEOUT_MS", "700")
        .run();
    outcome.assert_success();
    for rank in &outcome.ranks[..3] {
        assert!(rank.output.contains("timeout") && rank.output.contains("misses rank 3"), "{}", rank.output);
        let took = milliseconds(&rank.output);
        assert!((650.0..2_000.0).contains(&took), "{took} ms");
    }
    let report = daemon.stop();
    assert_eq!(report["ranks"][3]["timeouts"], 1, "the rank that was missed");
}

#[test]
fn a_rank_that_never_joins_is_named() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    // The job says there are three; only two are started.
    let job = Job::new(&layout, 2, &["--quick"])
        .coordinator(&daemon)
        .env("FAKEGPU_JOIN_TIMEOUT_MS", "500")
        .env("WORLD_SIZE", "3");
    let outcome = job.run();
    for rank in &outcome.ranks {
        assert_eq!(rank.code, Some(1));
        assert!(rank.output.contains("misses rank 2"), "{}", rank.output);
    }
    assert!(outcome.took < Duration::from_secs(5));
}

#[test]
fn a_coordinator_that_is_not_there_is_said_so() {
    let layout = Layout::find();
    let job =
        Job::new(&layout, 1, &["--quick"]).env("FAKEGPU_COORDINATOR_ADDR", "/nonexistent/coordinator.sock");
    let outcome = job.run();
    assert_eq!(outcome.ranks[0].code, Some(1));
    assert!(
        outcome.output().contains("connect() failed")
            && outcome.output().contains("/nonexistent/coordinator.sock"),
        "{}",
        outcome.output()
    );
}

#[test]
fn half_a_configuration_names_the_variable() {
    let layout = Layout::find();
    let outcome = Job::new(&layout, 1, &["--quick"]).env("FAKEGPU_DIST_MODE", "simulate").run();
    assert!(outcome.output().contains("FAKEGPU_COORDINATOR_ADDR"), "{}", outcome.output());
    let outcome = Job::new(&layout, 1, &["--quick"]).env("FAKEGPU_DIST_MODE", "sideways").run();
    assert!(
        outcome.output().contains("FAKEGPU_DIST_MODE") && outcome.output().contains("sideways"),
        "{}",
        outcome.output()
    );
}
