//! Right bits: 2, 4 and 8 processes, both transports, both roads, both engines; every operation, type and operator.

use fakegpu_verification::{Daemon, Job, Layout};

/// Runs the checking client on 2, 4 and 8 ranks and looks at the report.
fn check(transport: &str, environment: &[(&str, &str)], staging: &str) {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, transport, environment);
    for ranks in [2, 4, 8] {
        let mut job = Job::new(&layout, ranks, &["--quick"]).coordinator(&daemon);
        for (name, value) in environment {
            job = job.env(name, value);
        }
        let outcome = job.run();
        outcome.assert_success();
        assert!(outcome.output().contains(&format!("{0} of {0}", 288 * ranks)), "{}", outcome.output());
    }
    let report = daemon.stop();
    let created = report["communicators_log"].as_array().unwrap();
    let roads: Vec<&str> = created
        .iter()
        .filter(|entry| entry["event"] == "init")
        .filter_map(|entry| entry["staging"].as_str())
        .collect();
    assert_eq!(roads, [staging; 3], "{created:?}");
    assert_eq!(report["resilience"]["failure_count"], 0);
}

#[test]
fn bits_are_right_over_unix_and_shared_memory() {
    check("unix", &[], "shared");
}

#[test]
fn bits_are_right_over_tcp_and_shared_memory() {
    check("tcp", &[], "shared");
}

#[test]
fn bits_are_right_over_unix_sockets_by_io_uring_or_what_replaces_it() {
    check("unix", &[("FAKEGPU_STAGING_FORCE_SOCKET", "1")], "streamed");
}

#[test]
fn bits_are_right_over_unix_sockets_without_io_uring() {
    check("unix", &[("FAKEGPU_STAGING_FORCE_SOCKET", "1"), ("FAKEGPU_STAGING_NO_URING", "1")], "streamed");
}

#[test]
fn bits_are_right_over_tcp_sockets() {
    check("tcp", &[("FAKEGPU_STAGING_FORCE_SOCKET", "1")], "streamed");
}

#[test]
fn bits_are_right_when_tensors_are_cut_into_many_chunks() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let sizes = ["--sizes", "300000", "--only", "allreduce", "--dtype", "float32"];
    Job::new(&layout, 4, &sizes)
        .coordinator(&daemon)
        .env("FAKEGPU_STAGING_CHUNK_BYTES", "4096")
        .run()
        .assert_success();
    let report = daemon.stop();
    let (chunks, calls) = (
        report["staging"]["chunks"].as_u64().unwrap(),
        report["collectives"]["all_reduce"]["calls"].as_u64().unwrap(),
    );
    assert!(chunks > 50 * calls, "{chunks} chunks in {calls} calls");
}

#[test]
fn the_report_counts_what_the_program_called() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    Job::new(&layout, 4, &["--loop", "50", "--op", "allreduce", "--bytes", "4096"])
        .coordinator(&daemon)
        .run()
        .assert_success();
    let report = daemon.stop();
    let calls = report["collectives"]["all_reduce"]["calls"].as_u64().unwrap();
    assert!(calls >= 50, "{calls}");
    let timeline = &report["operation_timeline"];
    let kept = timeline["retained_entries"].as_u64().unwrap() + timeline["dropped_entries"].as_u64().unwrap();
    let all: u64 =
        report["collectives"].as_object().unwrap().values().filter_map(|kind| kind["calls"].as_u64()).sum();
    assert_eq!(kept, all);
    assert_eq!(report["ranks"].as_array().unwrap().len(), 4);
}
