//! Latency and bandwidth of an all-reduce, on 2, 4 and 8 ranks: `cargo run --release -p fakegpu-verification --example figures`.
//!
//! One run is no measurement on a shared machine: take medians of several, and compare ratios.
#![expect(clippy::print_stdout, reason = "a program for people")]

use fakegpu_verification::{Daemon, Job, Layout};

fn main() {
    let layout = Layout::find();
    println!("| ranks | road | bytes | median, p99 | bandwidth |\n|---|---|---|---|---|");
    for (road, environment) in [("shared", None), ("streamed", Some(("FAKEGPU_STAGING_FORCE_SOCKET", "1")))] {
        for ranks in [2, 4, 8] {
            for (bytes, loops) in [("8", "3000"), ("4096", "3000"), ("1048576", "200"), ("67108864", "8")] {
                let daemon = Daemon::start(&layout, "unix", &[]);
                let arguments = ["--loop", loops, "--op", "allreduce", "--bytes", bytes];
                let mut job = Job::new(&layout, ranks, &arguments).coordinator(&daemon);
                if let Some((name, value)) = environment {
                    job = job.env(name, value);
                }
                let outcome = job.run();
                outcome.assert_success();
                // allreduce | 8 bytes | 3000 calls | median 61.0 us | p99 104.1 us | algbw 0.000 GB/s
                let output = outcome.output();
                let line = output.lines().find(|line| line.contains("median")).unwrap_or_default();
                let words: Vec<&str> = line.split(" | ").collect();
                let word = |at: usize| words.get(at).copied().unwrap_or("?");
                println!("| {ranks} | {road} | {bytes} | {}, {} | {} |", word(3), word(4), word(5));
            }
        }
    }
}
