//! `kill -9` of a rank at any point: survivors are told within a second, the coordinator lives, nothing is left.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fakegpu_proto::{Hello, ToCoordinator, frame};
use fakegpu_testkit::Random;
use fakegpu_verification::{Daemon, Job, Layout};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// How many kills; `KILLS=1000` for a long night, `SEED=n` for one.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KILLS").unwrap_or(200),
    }
}

/// One job with one kill. The client exits 0 only if a call of its was answered with `ncclRemoteError` within a
/// second; ranks killed before they all joined see their join fail instead.
fn kill_one(layout: &Layout, daemon: &Daemon, seed: u64) {
    let mut random = Random::new(seed);
    let ranks = u32::try_from(2 + random.below(5)).unwrap();
    let victim = usize::try_from(random.below(ranks.into())).unwrap();
    let streamed = random.percent(25);
    let delay = Duration::from_micros(random.below(60_000));
    let mut job = Job::new(layout, ranks, &["--until-failure"])
        .coordinator(daemon)
        .env("FAKEGPU_JOIN_TIMEOUT_MS", "900");
    if streamed {
        job = job.env("FAKEGPU_STAGING_FORCE_SOCKET", "1");
    }
    let id = job.folder().join("nccl.id");
    let mut running = job.start();
    // Rank 0 makes the rendezvous; a kill before that would leave the others to wait for a file, which is no
    // business of the library's.
    while !id.exists() {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    std::thread::park_timeout(delay);
    running.kill(victim);
    let outcome = running.wait();
    for (rank, outcome) in outcome.ranks.iter().enumerate() {
        if rank == victim {
            assert_eq!(
                outcome.signal,
                Some(9),
                "SEED={seed}: the victim ended by itself\n{}",
                outcome.output
            );
            continue;
        }
        let told =
            outcome.output.contains("died") || outcome.output.contains("never called ncclCommInitRank");
        assert!(told, "SEED={seed}: rank {rank} of {ranks}: {:?}\n{}", outcome.code, outcome.output);
        assert!(
            outcome.code == Some(0) || !outcome.output.contains("code 6"),
            "SEED={seed}: too late\n{}",
            outcome.output
        );
    }
}

#[test]
fn a_rank_killed_at_any_point_is_reported_and_nothing_is_left() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let before = descriptors(daemon.pid());
    let seeds = seeds();
    let kills = seeds.end - seeds.start;
    for seed in seeds {
        kill_one(&layout, &daemon, seed);
    }
    let stats = daemon.ask("STATS");
    assert!(stats.starts_with("OK sessions=0 communicators=0 ") && stats.contains(" pending=0 "), "{stats}");
    // Our own last question's descriptors go when the daemon has seen us hang up.
    let deadline = Instant::now() + Duration::from_secs(5);
    while descriptors(daemon.pid()) > before {
        let now = descriptors(daemon.pid());
        assert!(Instant::now() < deadline, "the coordinator had {before} descriptors and has {now}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
    assert_eq!(shared_segments(), Vec::<String>::new(), "sockets with our names are left");
    let report = daemon.stop();
    let text = report["resilience"].to_string();
    assert!(kills < 10 || text.contains("died"), "{text}");
}

fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Abstract sockets that hand out segments: with their last holder gone, so are the segments.
fn shared_segments() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    table
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .filter(|name| name.starts_with("@fakegpu-seg-"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn survivors_are_told_within_a_second_of_a_rank_that_kills_itself() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "tcp", &[]);
    let outcome = Job::new(&layout, 8, &["--die", "5@40"]).coordinator(&daemon).run();
    for (rank, outcome) in outcome.ranks.iter().enumerate().filter(|(rank, _)| *rank != 5) {
        assert!(outcome.output.contains("rank 5 of communicator"), "rank {rank}: {}", outcome.output);
    }
    let report = daemon.stop();
    assert_eq!(report["ranks"][5]["died"], true);
}

#[test]
fn a_coordinator_that_dies_in_the_middle_ends_every_rank_with_a_sentence() {
    let layout = Layout::find();
    for environment in [&[][..], &[("FAKEGPU_STAGING_FORCE_SOCKET", "1")][..]] {
        let daemon = Daemon::start(&layout, "unix", &[]);
        let mut job = Job::new(&layout, 3, &["--until-failure"]).coordinator(&daemon);
        for (name, value) in environment {
            job = job.env(name, value);
        }
        let running = job.start();
        while !daemon.ask("STATS").contains("communicators=1") {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        daemon.signal(Signal::KILL);
        let outcome = running.wait();
        for rank in &outcome.ranks {
            assert_eq!(rank.signal, None);
            assert!(
                rank.output.contains("connect() failed") || rank.output.contains("could not be moved"),
                "{}",
                rank.output
            );
        }
        assert!(outcome.took < Duration::from_secs(5), "{:?}", outcome.took);
    }
}

/// Opens a session, then forks a child that holds the socket for a while and says nothing.
const FORKING_RANK: &str = "
import os, socket, sys, time
session = socket.socket(socket.AF_UNIX)
session.connect(sys.argv[1])
session.sendall(bytes.fromhex(sys.argv[2]))
session.recv(1)
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(30)
";

fn hello() -> Hello {
    Hello {
        pid: 1,
        host: "here".into(),
        node: None,
        program: "forking".into(),
        dist_mode: "simulate".into(),
        force_socket: false,
        token: None,
        placement: None,
        join_timeout_ms: None,
        collective_timeout_ms: None,
        ..Hello::default()
    }
}

#[test]
fn a_death_is_seen_though_a_child_holds_the_socket() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let hello = frame::encode(1, &ToCoordinator::Hello(Box::new(hello()))).unwrap();
    let hello: String = hello.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut rank = Command::new("python3")
        .args(["-c", FORKING_RANK, daemon.address(), &hello])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(rank.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let child = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    let before = daemon.ask("STATS");
    rank.kill().unwrap();
    rank.wait().unwrap();
    let killed = Instant::now();
    while !daemon.ask("STATS").starts_with("OK sessions=0 ") && killed.elapsed() < Duration::from_secs(1) {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let (after, holds) = (daemon.ask("STATS"), test_kill_process(child).is_ok());
    kill_process(child, Signal::KILL).unwrap();
    assert!(before.starts_with("OK sessions=1 "), "{before}");
    assert!(after.starts_with("OK sessions=0 ") && holds, "{after}");
}
