//! Point to point among real processes: bytes, orders and groups; and what must fail, soon and by name.

use fakegpu_verification::{Daemon, Job, Layout};

fn pairs(layout: &Layout, ranks: u32, arguments: &[&str]) -> Job {
    Job::new(layout, ranks, arguments).program(layout.client("pairs"))
}

/// Everything that must work, over one road.
fn everything(transport: &str, environment: &[(&str, &str)]) {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, transport, &[]);
    for ranks in [1, 2, 3, 5, 8] {
        let job = pairs(&layout, ranks, &[]).coordinator(&daemon);
        let job = environment.iter().fold(job, |job, (name, value)| job.env(name, value));
        let outcome = job.run();
        outcome.assert_success();
        let words = format!("{ranks} of {ranks} ranks right");
        assert!(outcome.ranks[0].output.contains(&words), "{}", outcome.ranks[0].output);
    }
    let report = daemon.stop();
    assert_eq!(report["resilience"]["failure_count"], 0);
    assert!(report["point_to_point"]["operations"].as_u64().unwrap() > 1_000);
    // Of three gathers a job one is by name on all ranks; a job of one rank has two of those.
    assert_eq!(report["collectives"]["gather"]["calls"], 6);
}

#[test]
fn bytes_are_right_through_shared_memory() {
    everything("unix", &[]);
}

#[test]
fn bytes_are_right_through_the_coordinators_switch() {
    everything("tcp", &[("FAKEGPU_STAGING_FORCE_SOCKET", "1")]);
}

#[test]
fn unequal_sizes_fail_both_sides_with_both_byte_counts_and_no_byte_moved() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    for (sent, received) in [("1", "2"), ("1", "3"), ("3", "1"), ("0", "1")] {
        let outcome = pairs(&layout, 2, &["--unequal", sent, received]).coordinator(&daemon).run();
        outcome.assert_success();
        let bytes = |count: &str| count.parse::<u32>().unwrap() * 4;
        for rank in &outcome.ranks {
            for words in
                [format!("sends {} bytes", bytes(sent)), format!("receives {} bytes", bytes(received))]
            {
                assert!(rank.output.contains(&words), "{}", rank.output);
            }
        }
    }
}

#[test]
fn sends_without_a_group_are_named_as_a_circle_within_a_second() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    for ranks in [2, 4] {
        let outcome = pairs(&layout, ranks, &["--circle"]).coordinator(&daemon).run();
        outcome.assert_success();
        for rank in &outcome.ranks {
            let told = rank.output.contains("deadlock: ") && rank.output.contains("to call ncclRecv");
            assert!(told, "{}", rank.output);
        }
    }
    let report = daemon.stop();
    assert_eq!(report["resilience"]["failure_events"][0]["failure"], "deadlock");
}

#[test]
fn a_send_to_a_rank_that_left_fails_at_once_and_names_it() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let outcome = pairs(&layout, 3, &["--left"]).coordinator(&daemon).run();
    outcome.assert_success();
    assert!(outcome.ranks[2].output.contains("rank 1"), "{}", outcome.ranks[2].output);
}

#[test]
fn counts_beyond_two_to_the_31_are_exact_and_need_no_memory() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let job = pairs(&layout, 8, &["--huge"]).coordinator(&daemon).env("FAKEGPU_PAYLOAD", "off");
    job.run().assert_success();
    let report = daemon.stop();
    let bytes = |kind: &str| report["collectives"][kind]["bytes"].as_u64().unwrap();
    assert_eq!(bytes("all_reduce"), (1 << 31) + 8);
    assert_eq!((bytes("all_gather"), bytes("reduce_scatter")), (8 << 30, 1 << 33));
    assert_eq!(report["point_to_point"]["bytes"], ((1_u64 << 31) + 8) * 4);
    assert!(report["fidelity"].to_string().contains("payload off"));
}
