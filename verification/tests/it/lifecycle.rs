//! What one process may and may not do: communicators of one thread and of several, groups, arguments, ends, forks.

use fakegpu_verification::{Daemon, Job, Layout};

#[test]
fn every_rule_of_a_single_process_holds_with_an_embedded_coordinator() {
    let layout = Layout::find();
    let outcome = Job::new(&layout, 1, &[]).program(layout.client("lifecycle")).run();
    outcome.assert_success();
    assert!(outcome.output().contains("rules hold"), "{}", outcome.output());
}

#[test]
fn every_rule_of_a_single_process_holds_over_sockets() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "tcp", &[]);
    let job = Job::new(&layout, 1, &[]).program(layout.client("lifecycle")).coordinator(&daemon);
    job.env("FAKEGPU_STAGING_FORCE_SOCKET", "1").run().assert_success();
    let stats = daemon.ask("STATS");
    assert!(stats.starts_with("OK sessions=0 communicators=0"), "{stats}");
}

#[test]
fn the_library_is_silent_unless_it_has_something_to_say() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let loud = Job::new(&layout, 1, &[]).program(layout.client("lifecycle")).coordinator(&daemon).run();
    assert!(loud.output().contains("ncclDevCommCreate needs CUDA kernels"), "{}", loud.output());
    let quiet = Job::new(&layout, 1, &[]).program(layout.client("lifecycle")).coordinator(&daemon);
    let quiet = quiet.env("FAKEGPU_LOG", "error").run();
    assert_eq!(quiet.output().lines().count(), 1, "{}", quiet.output());
}
