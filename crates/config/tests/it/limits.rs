//! Files that are too much: refused in bounded time and memory, with a sentence.

use std::fmt::Write;
use std::time::{Duration, Instant};

use fakegpu_config::Cluster;
use fakegpu_config::cluster::{MAX_BYTES, MAX_RANKS};

/// Far above what any of these takes, far below what an unbounded reader would.
const BOUND: Duration = Duration::from_secs(10);

#[track_caller]
fn refuse(text: &str, expected: &str) {
    let start = Instant::now();
    let told = Cluster::parse("big.yaml", text).expect_err("refused").to_string();
    assert!(start.elapsed() < BOUND, "took {:?}", start.elapsed());
    assert!(told.contains(expected), "{}", &told[..told.floor_char_boundary(2000)]);
    assert!(told.len() < 200_000, "a diagnostic of {} bytes", told.len());
}

#[test]
fn a_10_mb_file_is_refused_unread() {
    refuse(&"x".repeat(10_000_000), "the file has 10000000 bytes; a cluster file has at most 4194304");
}

#[test]
fn yaml_bombs_are_refused() {
    let beyond_reason = "beyond reason";
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{}", level - 1);
        writeln!(laughs, "a{level}: &a{level} [{}]", [alias.as_str(); 10].join(", ")).unwrap();
    }
    refuse(&laughs, beyond_reason);
    refuse(&"[".repeat(100_000), beyond_reason);
    refuse(&"- ".repeat(100_000), beyond_reason);
    refuse(&"{a: ".repeat(100_000), beyond_reason);
    let mut quadratic = format!("a: &a [{}]\nb:\n", "x, ".repeat(10_000));
    quadratic.push_str(&"  - *a\n".repeat(10_000));
    refuse(&quadratic, beyond_reason);
}

#[test]
fn noise_up_to_the_size_limit_is_answered_in_bounded_time() {
    for unit in
        ["- \n", "x: 1\n", "[],", "? ", "&a ", "\"", "#\n", "a: {b: 1, b: 2}\n", "😀", "\t", "|\n", "%"]
    {
        let text = unit.repeat(MAX_BYTES / unit.len());
        let start = Instant::now();
        let told = Cluster::parse("noise.yaml", &text).expect_err(unit).to_string();
        assert!(start.elapsed() < BOUND, "{unit:?} took {:?}", start.elapsed());
        assert!(told.len() < 1_000_000, "{unit:?} told {} bytes", told.len());
    }
}

/// A file with all ranks on nodes of eight.
fn world(ranks: u32) -> String {
    let mut text = "version: 1\nnodes:\n".to_owned();
    for node in 0..ranks.div_ceil(8) {
        let own: Vec<String> = (node * 8..(node * 8 + 8).min(ranks)).map(|rank| rank.to_string()).collect();
        writeln!(text, "  - {{id: node{node}, ranks: [{}]}}", own.join(", ")).unwrap();
    }
    text.push_str("fabric:\n  intra_node: {type: pcie, bandwidth_gbps: 1, latency_us: 1}\n");
    text.push_str("  inter_node: {type: efa, bandwidth_gbps: 1, latency_us: 1}\n");
    text
}

#[test]
fn world_size_goes_to_its_limit_and_no_further() {
    let cluster = Cluster::parse("world.yaml", &world(MAX_RANKS)).unwrap();
    assert_eq!(cluster.world_size(), MAX_RANKS);
    refuse(&world(MAX_RANKS + 1), "found the number `65536`");
    refuse(
        &format!("version: 1\nnodes:\n  - {{id: a, ranks: [{}0]}}\n", "0, ".repeat(MAX_RANKS as usize)),
        "the file has 65537 ranks, more than 65536",
    );
}

#[test]
fn many_names_that_are_not_there_are_answered_in_bounded_time() {
    let mut text = world(MAX_RANKS);
    text.push_str("  links:\n");
    text.push_str(&"    - {src: nodeX, dst: nodY, latency_us: 1}\n".repeat(20_000));
    refuse(&text, "there is no node `nodeX`");
}

#[test]
fn a_flood_of_mistakes_is_cut_off() {
    refuse(
        &format!("version: 1\npreset: dgx-h100\n{}", "x: 1\n".repeat(5000)),
        "1000 mistakes or more in big.yaml, the first 50 are shown",
    );
}

#[test]
fn two_places_far_apart_are_both_shown() {
    let text = format!("version: 1\n{}version: 1\npreset: dgx-h100\n", "# filler\n".repeat(2000));
    insta::assert_snapshot!(Cluster::parse("far.yaml", &text).unwrap_err());
}
