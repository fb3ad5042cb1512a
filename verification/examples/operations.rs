//! Flat memory over many operations: `cargo run --release -p fakegpu-verification --example operations [COUNT]`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::time::{Duration, Instant};

use fakegpu_verification::{Daemon, Job, Layout};

/// Resident memory of a process, in KiB.
fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn main() {
    let layout = Layout::find();
    let count = std::env::args().nth(1).unwrap_or_else(|| "200000".to_owned());
    let daemon = Daemon::start(&layout, "unix", &[]);
    let job =
        Job::new(&layout, 4, &["--loop", &count, "--op", "allreduce", "--bytes", "8"]).coordinator(&daemon);
    let started = Instant::now();
    let running = job.start();
    let pids = running.pids();
    let watched = daemon.pid();
    let watcher = std::thread::spawn(move || {
        println!("| seconds | coordinator KiB | rank 0 KiB |\n|---|---|---|");
        let mut peak = 0;
        while resident_kib(pids[0]) > 0 {
            peak = peak.max(resident_kib(watched));
            println!(
                "| {:.0} | {} | {} |",
                started.elapsed().as_secs_f64(),
                resident_kib(watched),
                resident_kib(pids[0])
            );
            std::thread::park_timeout(Duration::from_secs(2));
        }
        peak
    });
    let outcome = running.wait_at_most(Duration::from_secs(3600));
    outcome.assert_success();
    let peak = watcher.join().unwrap_or(0);
    let seconds = outcome.took.as_secs_f64();
    println!("\n{count} operations on 4 ranks in {seconds:.1} s, coordinator at most {peak} KiB");
    println!("{}", daemon.ask("STATS"));
}
