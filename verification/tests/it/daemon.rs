//! The daemon against strangers: whatever they send ends their own session only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use fakegpu_proto::{ToCoordinator, frame};
use fakegpu_testkit::Random;
use fakegpu_verification::{Daemon, Job, Layout};
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

/// Bytes that once looked dangerous, and always will.
fn corpus() -> Vec<Vec<u8>> {
    let good = frame::encode(1, &ToCoordinator::Ping).unwrap();
    let mut huge = good.clone();
    huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut version = good.clone();
    version[4] = 0xff;
    let mut flags = good.clone();
    flags[6] = 1;
    let submit = frame::encode(2, &ToCoordinator::Submit { ops: Vec::new(), thread: 0 }).unwrap();
    let mut corpus = vec![
        Vec::new(),
        good[..7].to_vec(),
        huge,
        version,
        flags,
        submit,
        b"\n\n\n".to_vec(),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![b'A'; 100_000],
        vec![0; 4096],
        b"INIT_COMM unique_id=x world_size=4294967295 rank=0\n".to_vec(),
        b"BARRIER comm_id=18446744073709551615 rank=0 seqno=1\n".to_vec(),
        b"PING \xff\xfe\n".to_vec(),
        [good.clone(), b"trailing text\n".to_vec()].concat(),
    ];
    let mut random = Random::new(42);
    for _ in 0..200 {
        let length = usize::try_from(random.below(400)).unwrap();
        let mut noise: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
        if random.percent(50) && noise.len() >= 24 {
            // Behind a good header, so that the body's decoder is reached.
            noise[..20].copy_from_slice(&good[..20]);
            let body = u32::try_from(noise.len() - 20).unwrap();
            noise[8..12].copy_from_slice(&body.to_le_bytes());
        }
        corpus.push(noise);
    }
    corpus
}

#[test]
fn strangers_end_their_own_session_only() {
    let layout = Layout::find();
    for transport in ["unix", "tcp"] {
        let daemon = Daemon::start(&layout, transport, &[]);
        let idle: Vec<_> = (0..20).map(|_| daemon.connect()).collect();
        let job = Job::new(&layout, 3, &["--quick"]).coordinator(&daemon).start();
        for bytes in corpus() {
            let mut stream = daemon.connect();
            // The daemon may close while we still write, which is its right.
            stream.write_all(&bytes).unwrap_or_default();
            stream.flush().unwrap_or_default();
        }
        job.wait().assert_success();
        assert!(daemon.ask("PING").starts_with("OK status=ready version=1 transport="));
        let stats = daemon.ask("STATS");
        assert!(stats.starts_with("OK sessions=0 communicators=0"), "{stats}");
        daemon.stop();
        drop(idle);
    }
}

#[test]
fn a_half_frame_waits_without_harm_and_a_wrong_one_is_told_why() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let half = frame::encode(1, &ToCoordinator::Ping).unwrap();
    let mut waiting = daemon.connect();
    waiting.write_all(&half[..9]).unwrap();
    assert!(daemon.ask("PING").starts_with("OK"));
    waiting.write_all(&half[9..]).unwrap();
    let mut reply = [0; 20];
    waiting.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], frame::MAGIC);
    let mut wrong = daemon.connect();
    wrong.write_all(&[&half[..4], &[9, 0], &half[6..]].concat()).unwrap();
    let mut told = Vec::new();
    wrong.read_to_end(&mut told).unwrap();
    assert!(
        String::from_utf8_lossy(&told).contains("protocol version 9"),
        "{}",
        String::from_utf8_lossy(&told)
    );
}

#[test]
fn it_is_ready_within_a_second_and_leaves_no_socket() {
    let layout = Layout::find();
    let started = Instant::now();
    let daemon = Daemon::start(&layout, "unix", &[]);
    assert!(daemon.ask("PING").contains("transport=unix"));
    assert!(started.elapsed() < Duration::from_secs(1));
    let socket = std::path::PathBuf::from(daemon.address());
    assert!(socket.exists());
    let _idle = daemon.connect();
    daemon.stop();
    assert!(!socket.exists());
}

#[test]
fn signals_write_the_report_as_shutdown_does() {
    let layout = Layout::find();
    for signal in [Signal::TERM, Signal::INT] {
        let mut daemon = Daemon::start(&layout, "unix", &[]);
        Job::new(&layout, 2, &["--quick", "--only", "gather"]).coordinator(&daemon).run().assert_success();
        daemon.signal(signal);
        assert_eq!(daemon.wait(), Some(0));
        assert!(daemon.report()["collectives"]["gather"]["calls"].as_u64().unwrap() > 0);
        assert!(!std::path::Path::new(daemon.address()).exists());
    }
}

#[test]
fn a_session_without_operations_is_reported_with_zeros_and_the_schema_holds() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let report = daemon.stop();
    assert_eq!(report["collectives"]["all_reduce"]["calls"], 0);
    let parsed: fakegpu_report::Report = serde_json::from_value(report).unwrap();
    assert!(parsed.to_markdown().contains("Collectives"));
}

#[test]
fn another_machine_could_connect_only_with_a_token() {
    let layout = Layout::find();
    let refused =
        std::process::Command::new(layout.coordinator()).args(["--address", "0.0.0.0:0"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("FAKEGPU_COORDINATOR_TOKEN"));
    let daemon = Daemon::start(&layout, "unix", &[("FAKEGPU_COORDINATOR_TOKEN", "sesame")]);
    assert!(daemon.ask("STATS").starts_with("ERR code=unauthorised"));
    assert!(daemon.ask("STATS token=wrong").starts_with("ERR code=unauthorised"));
    assert!(daemon.ask("STATS token=sesame").starts_with("OK "));
    let refused = Job::new(&layout, 1, &["--quick"]).coordinator(&daemon).run();
    assert!(refused.output().contains("needs a token"), "{}", refused.output());
    let job = Job::new(&layout, 2, &["--quick", "--only", "scatter"])
        .coordinator(&daemon)
        .env("FAKEGPU_COORDINATOR_TOKEN", "sesame");
    job.run().assert_success();
}

#[test]
fn the_text_protocol_is_answered_over_both_transports() {
    let layout = Layout::find();
    for transport in ["unix", "tcp"] {
        let daemon = Daemon::start(&layout, transport, &[]);
        let (mut first, mut second) = (daemon.connect(), daemon.connect());
        first.write_all(b"INIT_COMM unique_id=j world_size=2 rank=0 timeout_ms=5000\n").unwrap();
        second.write_all(b"INIT_COMM unique_id=j world_size=2 rank=1 timeout_ms=5000\n").unwrap();
        let mut answers = String::new();
        BufReader::new(first).read_line(&mut answers).unwrap();
        BufReader::new(second).read_line(&mut answers).unwrap();
        assert_eq!(
            answers,
            "OK comm_id=1 seqno=0 rank=0 world_size=2\nOK comm_id=1 seqno=0 rank=1 world_size=2\n"
        );
        let late = daemon.ask("INIT_COMM unique_id=k world_size=2 rank=0 timeout_ms=50");
        assert!(late.starts_with("ERR code=timeout_waiting_for_ranks"), "{late}");
    }
}

/// Says its lines, ends its own direction at once as `echo … | socat` does, and gives all that comes back.
fn tell(transport: &str, address: &str, lines: &str) -> String {
    const PATIENCE: Option<Duration> = Some(Duration::from_secs(10));
    let mut answers = String::new();
    if transport == "unix" {
        let mut stream = UnixStream::connect(address).unwrap();
        stream.set_read_timeout(PATIENCE).unwrap();
        stream.write_all(lines.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_string(&mut answers).unwrap();
    } else {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(PATIENCE).unwrap();
        stream.write_all(lines.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_string(&mut answers).unwrap();
    }
    answers
}

#[test]
fn a_script_that_stops_talking_gets_every_answer_and_then_the_end() {
    let layout = Layout::find();
    for transport in ["unix", "tcp"] {
        let daemon = Daemon::start(&layout, transport, &[]);
        for round in 0..50 {
            let answers = tell(transport, daemon.address(), "PING\nHELLO client=x\n");
            let lines: Vec<&str> = answers.lines().collect();
            assert!(
                matches!(lines[..], [ping, hello] if ping.starts_with("OK status=ready") && hello.contains("client=x")),
                "{transport}, round {round}: {answers:?}"
            );
        }
        std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..2)
                .map(|rank| {
                    let line = format!("INIT_COMM unique_id=j world_size=2 rank={rank} timeout_ms=5000\n");
                    scope.spawn(|| tell(transport, daemon.address(), &{ line }))
                })
                .collect();
            for (rank, told) in ranks.into_iter().enumerate() {
                assert_eq!(told.join().unwrap(), format!("OK comm_id=1 seqno=0 rank={rank} world_size=2\n"));
            }
        });
    }
}

#[test]
fn connections_that_found_no_descriptor_are_served_once_there_is_one() {
    let layout = Layout::find();
    let daemon = Daemon::start(&layout, "unix", &[]);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap().count() as u64;
    let limit = open() + 4;
    let pid = Pid::from_raw(i32::try_from(daemon.pid()).unwrap());
    prlimit(pid, Resource::Nofile, Rlimit { current: Some(limit), maximum: Some(limit) }).unwrap();
    let held: Vec<_> = (0..8).map(|_| daemon.connect()).collect();
    let mut late = daemon.connect();
    late.write_all(b"PING\n").unwrap();
    let started = Instant::now();
    while open() < limit {
        assert!(started.elapsed() < Duration::from_secs(10), "the daemon has descriptors left");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    drop(held);
    let mut answer = String::new();
    BufReader::new(late).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("OK status=ready"), "{answer}");
}

#[test]
fn fault_rules_are_refused_rather_than_ignored() {
    let layout = Layout::find();
    let refused = std::process::Command::new(layout.coordinator())
        .args(["--address", "127.0.0.1:0"])
        .env("FAKEGPU_FAULTS", "/tmp/faults.yaml")
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no fault rules yet"));
}
