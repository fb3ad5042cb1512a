//! Communicators made from others, joined without blocking, grown, shrunk, revoked; windows and signals.

use fakegpu_verification::{Daemon, Job, Layout};

fn every_rule(transport: &str, environment: &[(&str, &str)]) {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, transport, &[]);
    for ranks in [3, 4, 8] {
        let job = Job::new(&layout, ranks, &[]).program(layout.client("life")).coordinator(&daemon);
        let job = environment.iter().fold(job, |job, (name, value)| job.env(name, value));
        let outcome = job.run();
        outcome.assert_success();
        assert!(outcome.ranks[0].output.contains("rules hold"), "{}", outcome.ranks[0].output);
    }
    let report = daemon.stop();
    let log = report["communicators_log"].to_string();
    for word in ["\"split\"", "\"shrink\"", "\"grow\""] {
        assert!(log.contains(word), "{word} is missing: {log}");
    }
}

#[test]
fn every_rule_holds_on_one_host() {
    every_rule("unix", &[]);
}

#[test]
fn every_rule_holds_where_bytes_are_streamed() {
    every_rule("tcp", &[("FAKEGPU_STAGING_FORCE_SOCKET", "1")]);
}
