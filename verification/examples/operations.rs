//! Flat memory over many operations of every kind, on 4 ranks:
//! `cargo run --release -p fakegpu-verification --example operations [COUNT]`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::time::{Duration, Instant};

use fakegpu_verification::{Daemon, Job, Layout};

/// What a process holds: resident memory in KiB, descriptors, threads.
fn holdings(pid: u32) -> Option<(u64, usize, usize)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let resident = line.split_whitespace().next()?.parse().ok()?;
    let entries =
        |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, |entries| entries.count());
    Some((resident, entries("fd"), entries("task")))
}

fn main() {
    let layout = Layout::find();
    let count = std::env::args().nth(1).unwrap_or_else(|| "1000000".to_owned());
    let daemon = Daemon::start(&layout, "unix", &[]);
    let job = Job::new(&layout, 4, &["--operations", &count]).program(layout.client("endure"));
    let started = Instant::now();
    let running = job.coordinator(&daemon).start();
    let (rank, coordinator) = (running.pids()[0], daemon.pid());
    let watcher = std::thread::spawn(move || {
        println!(
            "| seconds | coordinator KiB, descriptors, threads | rank 0 KiB, descriptors, threads |\n|---|---|---|"
        );
        while let (Some(theirs), Some(its)) = (holdings(coordinator), holdings(rank)) {
            println!("| {:.0} | {theirs:?} | {its:?} |", started.elapsed().as_secs_f64());
            std::thread::park_timeout(Duration::from_secs(5));
        }
    });
    let outcome = running.wait_at_most(Duration::from_secs(3600));
    outcome.assert_success();
    watcher.join().unwrap_or_default();
    println!("\n{count} operations on 4 ranks in {:.1} s", outcome.took.as_secs_f64());
    outcome.ranks.iter().for_each(|rank| print!("{}", rank.output));
    println!("{}", daemon.ask("STATS"));
}
