//! Many operations in flat memory; `--example operations` runs a million.

use fakegpu_verification::{Daemon, Job, Layout};

fn runs_in_flat_memory(environment: &[(&str, &str)]) {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let job = Job::new(&layout, 3, &["--operations", "20000"]).program(layout.client("endure"));
    let job = environment.iter().fold(job.coordinator(&daemon), |job, (name, value)| job.env(name, value));
    job.run().assert_success();
    let left = daemon.ask("STATS");
    assert!(left.starts_with("OK sessions=0 communicators=0 "), "{left}");
    assert!(left.trim_end().ends_with(" pending=0 failures=0"), "{left}");
}

#[test]
fn operations_of_every_kind_leave_nothing_behind() {
    runs_in_flat_memory(&[]);
}

#[test]
fn streamed_operations_leave_nothing_behind() {
    runs_in_flat_memory(&[("FAKEGPU_STAGING_FORCE_SOCKET", "1")]);
}
