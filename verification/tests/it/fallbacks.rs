//! Where shared memory or io_uring cannot be had, bytes are streamed: counted, said once, and right.

use std::time::Duration;

use fakegpu_verification::{Daemon, Job, Layout};

#[track_caller]
fn streams_after(prelude: &str, words: &str) {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let job = Job::new(&layout, 3, &["--quick"]).coordinator(&daemon).prelude(0, prelude);
    let outcome = job.run();
    outcome.assert_success();
    assert!(outcome.took < Duration::from_secs(5), "{:?}", outcome.took);
    let report = daemon.stop();
    let created = &report["communicators_log"][0];
    assert_eq!(created["staging"], "streamed", "{created}");
    assert!(created.to_string().contains(words), "{created}");
    assert_eq!(report["staging"]["fallbacks"], 1);
    assert!(report["fidelity"].to_string().contains("stream"), "{}", report["fidelity"]);
}

#[test]
fn a_segment_that_may_not_grow_is_no_signal_but_a_fallback() {
    // Blocks of 512 bytes: the id's file fits, the segment does not. Without care this is SIGXFSZ.
    streams_after("ulimit -f 8", "file size limit");
}

#[test]
fn a_process_without_descriptors_to_spare_falls_back() {
    // The library, the session and the private socket fit; how many more do is the system's to say, so the
    // limit is found by trying: some limit lets the rank join and refuses the segment.
    let layout = Layout::find();
    let mut fell_back = false;
    for limit in 5..12 {
        let daemon = Daemon::start(&layout, "unix", &[]);
        let prelude = format!("ulimit -n {limit}");
        let job = Job::new(&layout, 2, &["--quick", "--only", "broadcast"])
            .coordinator(&daemon)
            .prelude(0, &prelude);
        let outcome = job.env("FAKEGPU_JOIN_TIMEOUT_MS", "1500").run();
        for rank in &outcome.ranks {
            assert_eq!(rank.signal, None, "limit {limit}: {}", rank.output);
        }
        if outcome.ranks.iter().all(|rank| rank.code == Some(0)) {
            fell_back |= daemon.stop()["communicators_log"][0]["staging"] == "streamed";
        }
    }
    assert!(fell_back, "no limit led to the fallback");
}
