//! The cases.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Desk, Said, coordinator, fakegpu, said};

/// Runs without a coordinator, for what has nothing to do with one.
const ALONE: &str = "--dist-mode disabled";

#[track_caller]
fn check_refused(command: &mut Command, expected: &str) {
    let Said { code, stdout, stderr } = said(command);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains(expected), "{stderr}");
    assert_eq!(stdout, "");
}

/// Waits until `done` holds; what it waits for is another process's doing.
#[track_caller]
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// Whether a process has the word among its arguments.
fn is_running(word: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
    })
}

fn kill(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_good_cluster_file_is_summed_up() {
    let desk = Desk::new();
    let file = desk.write("two.yaml", b"version: 1\npreset: {name: dgx-h100, nodes: 2}\n");
    let told = said(fakegpu().arg("check").arg(file));
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
    assert!(told.stdout.starts_with("cluster dgx-h100: 2 nodes, 16 ranks"), "{}", told.stdout);
}

#[test]
fn mistaken_files_are_told_with_their_place_or_kind() {
    let desk = Desk::new();
    let check = |name: &str| {
        let mut command = fakegpu();
        command.arg("check").arg(desk.path(name));
        command
    };
    desk.write("typo.yaml", b"version: 1\npreset: dgx-h10\n");
    check_refused(&mut check("typo.yaml"), "did you mean `dgx-h100`?");
    desk.write("bytes.yaml", b"version: 1\n\xff");
    check_refused(&mut check("bytes.yaml"), "is not UTF-8 text: byte 11 belongs to no character");
    check_refused(&mut check("none.yaml"), "none.yaml`: No such file or directory");
    check_refused(fakegpu().args(["check", "/"]), "cannot read `/`: Is a directory");
    check_refused(fakegpu().args(["check", "/dev/zero"]), "which no cluster file is");
    check_refused(fakegpu().arg("check"), "required arguments were not provided");
}

#[test]
fn the_environment_is_explained_or_its_mistakes_are() {
    let told = said(fakegpu().args(["check", "--env"]));
    assert_eq!(told.code, Some(0));
    assert!(told.stdout.starts_with("compute mode        simulate\n"), "{}", told.stdout);
    check_refused(
        fakegpu().args(["check", "--env"]).env("FAKEGPU_DIST_MODE", "simulate"),
        "FAKEGPU_COORDINATOR_ADDR",
    );
    check_refused(fakegpu().args(["check", "--env"]).env("FAKEGPU_MOED", "x"), "FAKEGPU_MODE");
    let bytes = std::ffi::OsStr::from_bytes(b"\xff");
    check_refused(
        fakegpu().args(["check", "--env"]).env("FAKEGPU_LOG", bytes),
        "FAKEGPU_LOG is not UTF-8 text",
    );
}

#[test]
fn a_file_and_the_environment_are_checked_together() {
    let desk = Desk::new();
    let file = desk.write("one.yaml", b"version: 1\npreset: dgx-h100\n");
    let told = said(fakegpu().arg("check").arg(file).arg("--env").env("FAKEGPU_LOG", "loud"));
    assert_eq!(told.code, Some(2));
    assert!(
        told.stdout.contains("1 node, 8 ranks") && told.stderr.contains("FAKEGPU_LOG is `loud`"),
        "{}",
        told.stderr
    );
}

#[test]
fn presets_variables_and_completions_are_printed() {
    for (arguments, expected) in [
        (&["presets"][..], "preset ethernet-25g\ncluster ethernet-25g:"),
        (&["env"], "| `FAKEGPU_MODE` |"),
        (&["completions", "bash"], "_fakegpu()"),
        (&["--version"], "fakegpu "),
        (&["run", "--help"], "one node with two ranks"),
    ] {
        let told = said(fakegpu().args(arguments));
        assert_eq!(told.code, Some(0), "{arguments:?}");
        assert!(told.stdout.contains(expected), "{arguments:?}: {}", told.stdout);
    }
    assert!(!said(fakegpu().arg("--help")).stdout.contains("warden"));
}

#[test]
fn contradictions_and_missing_things_are_refused_before_anything_starts() {
    let desk = Desk::new();
    desk.write("cluster.yaml", b"version: 1\npreset: dgx-h100\n");
    let file = desk.path("cluster.yaml").display().to_string();
    let check = |flags: &str, expected: &str| check_refused(&mut desk.run(flags, "echo ran"), expected);
    check(&format!("--cluster {file} --nodes 2"), "cannot be used with");
    check(&format!("--cluster {file} -n 9"), "-n is 9, but the cluster `dgx-h100` has 8 ranks");
    check("--cluster /no/such.yaml", "cannot read `/no/such.yaml`");
    check("--preset dgx", "there is no preset `dgx`");
    check("--nnodes 2", "required arguments were not provided");
    check("--nnodes 2 --node-rank 2 --coordinator h:1", "nodes count from 0");
    check("--nnodes 2 --node-rank 1 --coordinator h:1", "FAKEGPU_COORDINATOR_TOKEN is not set");
    check("--faults /no/such.yaml", "cannot read --faults `/no/such.yaml`");
    check("--env RANK=1", "--env may not set `RANK`");
    check("--env FAKEGPU_MOED=x", "the ranks' environment has mistakes");
    let nowhere = ["run", "--report", "/dev/null/x", "true"];
    let mut command = fakegpu();
    command.args(nowhere).env("FAKEGPU_LIB_DIR", desk.path(""));
    check_refused(&mut command, "cannot use `/dev/null/x` for the report");
    check_refused(
        fakegpu().args(["run", "--", "./no-such-program"]),
        "there is no program `./no-such-program`",
    );
    check_refused(fakegpu().arg("run"), "<PROGRAM>");
    check_refused(
        fakegpu().args(["run", "sh"]).env("FAKEGPU_LIB_DIR", "/nowhere"),
        "`/nowhere/libnccl.so.2` is not there",
    );
}

#[test]
fn ranks_know_their_place_and_speak_in_whole_lines() {
    let desk = Desk::new();
    let script = "printf 'I am '; echo $RANK of $WORLD_SIZE, local $LOCAL_RANK of $LOCAL_WORLD_SIZE, $FAKEGPU_NODE; \
                  printf 'to stderr' >&2";
    let told = said(&mut desk.run(&format!("{ALONE} --nodes 2 --ranks-per-node 2"), script));
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert_eq!(
        sorted(&told.stdout),
        [
            "[rank 0] I am 0 of 4, local 0 of 2, node0",
            "[rank 1] I am 1 of 4, local 1 of 2, node0",
            "[rank 2] I am 2 of 4, local 0 of 2, node1",
            "[rank 3] I am 3 of 4, local 1 of 2, node1",
            "ranks: 4 finished, 0 failed, 0 stopped",
        ]
    );
    assert_eq!(sorted(&told.stderr)[3], "[rank 3] to stderr");
}

#[test]
fn the_resolved_cluster_is_in_the_reports_folder() {
    let desk = Desk::new();
    let told = said(
        &mut desk.run(&format!("{ALONE} --preset dgx-a100 --nodes 2 -n 1"), "cat $FAKEGPU_CLUSTER_CONFIG"),
    );
    let written = std::fs::read_to_string(desk.path("out/cluster.yaml")).unwrap();
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    assert!(
        written.contains("node1") && told.stdout.contains(written.lines().next().unwrap()),
        "{}",
        told.stdout
    );
}

#[test]
fn the_first_failing_rank_gives_the_exit_code_and_stops_the_others() {
    let desk = Desk::new();
    let told = said(&mut desk.run(ALONE, "test $RANK = 1 && exit 42; exec sleep 600"));
    assert_eq!(told.code, Some(42), "{}", told.stderr);
    assert!(
        told.stderr.contains("fakegpu: rank 1 exited with 42; 1 other may report for 1.5s"),
        "{}",
        told.stderr
    );
    assert_eq!(told.stdout, "ranks: 0 finished, 1 failed, 1 stopped; rank 1 exited with 42 first\n");
}

#[test]
fn a_rank_that_a_signal_kills_gives_128_and_the_signal() {
    let desk = Desk::new();
    let told = said(&mut desk.run(&format!("{ALONE} -n 1"), "kill -SEGV $$"));
    assert_eq!(told.code, Some(139), "{}", told.stderr);
}

#[test]
fn output_without_prefix_is_passed_through() {
    let desk = Desk::new();
    let told = said(&mut desk.run(&format!("{ALONE} -n 1 --no-prefix"), "printf 'a\\0b'"));
    assert_eq!(told.stdout, "a\0branks: 1 finished, 0 failed, 0 stopped\n");
}

/// Starts a run whose ranks each leave a child behind that has `mark` as an argument, and waits until all are there.
fn started(desk: &Desk, mark: &str) -> Child {
    // The child says so itself: only then it has its arguments.
    let script = format!("sh -c 'echo ready; sleep 600; :' {mark} & wait");
    let mut run = desk.run(ALONE, &script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.as_mut().unwrap()).lines();
    for _ in 0..2 {
        assert!(lines.next().unwrap().unwrap().ends_with("] ready"));
    }
    run
}

#[test]
fn ctrl_c_ends_the_ranks_and_their_children() {
    let (desk, mark) = (Desk::new(), format!("left-by-interrupt-{}", std::process::id()));
    let mut run = started(&desk, &mark);
    assert!(is_running(&mark));
    kill(&run, "-TERM");
    assert_eq!(run.wait().unwrap().code(), Some(143));
    assert!(!is_running(&mark));
}

#[test]
fn a_run_that_is_killed_takes_everything_with_it() {
    let (desk, mark) = (Desk::new(), format!("left-by-kill-{}", std::process::id()));
    let mut run = started(&desk, &mark);
    kill(&run, "-KILL");
    run.wait().unwrap();
    eventually("the ranks' children outlive the run", || !is_running(&mark));
}

#[test]
fn a_coordinator_that_does_not_start_is_told_with_its_own_words() {
    let desk = Desk::new();
    let script = desk.write("script", b"#!/bin/sh\necho no socket for you >&2\nexit 1\n");
    let fake = desk.program("fake", script);
    // The one beside `fakegpu` would be found first, so the program is copied to a place of its own.
    let mut command = Command::new(desk.program("fakegpu", fakegpu().get_program()));
    command.env("FAKEGPU_LIB_DIR", desk.path("")).env("FAKEGPU_COORDINATOR_BIN", fake);
    command.args(["run", "--report"]).arg(desk.path("out")).args(["--", "true"]);
    let told = said(&mut command);
    assert_eq!(told.code, Some(2));
    assert!(
        told.stderr.contains("the coordinator did not start; it says:\n  no socket for you"),
        "{}",
        told.stderr
    );
    assert!(told.stderr.contains("it ended before it listened"), "{}", told.stderr);
}

#[test]
fn a_run_with_a_coordinator_ends_with_its_report() {
    let desk = Desk::new();
    for transport in ["unix", "tcp"] {
        let mut run = desk.run(&format!("--transport {transport}"), "echo at $FAKEGPU_COORDINATOR_ADDR");
        let told = said(run.env("FAKEGPU_COORDINATOR_BIN", coordinator()));
        assert_eq!(told.code, Some(0), "{}", told.stderr);
        let report = desk.path("out/cluster_report.md").display().to_string();
        assert!(told.stdout.ends_with(&format!("report: {report}\n")), "{}", told.stdout);
        let json = std::fs::read(desk.path("out/cluster_report.json")).unwrap();
        serde_json::from_slice::<serde_json::Value>(&json).unwrap();
        let address = told.stdout.lines().find_map(|line| line.split_once(" at ")).unwrap().1;
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!sockets.contains(address), "`{address}` is still there");
    }
}

#[test]
fn an_interrupted_run_still_writes_its_report() {
    let desk = Desk::new();
    let mut command = desk.run("", "echo ready; exec sleep 600");
    let run = command.env("FAKEGPU_COORDINATOR_BIN", coordinator());
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(run.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    kill(&run, "-INT");
    stdout.read_to_string(&mut String::new()).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    assert!(desk.path("out/cluster_report.json").exists());
}

#[test]
fn two_hosts_share_host_0s_coordinator() {
    let desk = Desk::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let host = |node: u32, script: &str| {
        let flags =
            format!("--nnodes 2 --node-rank {node} --ranks-per-node 2 --coordinator 127.0.0.1:{port}");
        let mut command = desk.run(&flags, script);
        command.env("FAKEGPU_COORDINATOR_BIN", coordinator()).env("FAKEGPU_COORDINATOR_TOKEN", "shared");
        command
    };
    // Host 1's ranks need host 0's coordinator, which lives as long as its own ranks: those wait for a gate to open.
    let gate = desk.path("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let mut first = host(0, "cat $GATE; echo $RANK of $WORLD_SIZE on $FAKEGPU_NODE");
    let first = first.env("GATE", &gate).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let second = said(&mut host(1, "echo $RANK of $WORLD_SIZE on $FAKEGPU_NODE"));
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(sorted(&second.stdout)[..2], ["[rank 2] 2 of 4 on node1", "[rank 3] 3 of 4 on node1"]);
    drop(std::fs::File::options().write(true).open(&gate).unwrap());
    let first = first.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&first.stdout);
    assert!(first.status.success() && text.contains("[rank 1] 1 of 4 on node0"), "{text}");
}

#[test]
fn the_doctor_finds_the_coordinator_and_says_what_is_missing() {
    let desk = Desk::new();
    let told = said(
        fakegpu()
            .arg("doctor")
            .env("FAKEGPU_COORDINATOR_BIN", coordinator())
            .env("FAKEGPU_LIB_DIR", desk.path("")),
    );
    // The stand-in is no library, and a run needs one.
    assert_eq!(told.code, Some(1), "{}", told.stdout);
    let row = |name: &str| told.stdout.lines().find(|line| line.contains(name)).unwrap_or_default();
    assert!(row("coordinator").contains("says status=ready"), "{}", told.stdout);
    assert!(row("no shared library").trim_start().starts_with("missing"), "{}", told.stdout);
}

#[test]
fn a_failed_run_is_explained_from_its_events() {
    let desk = Desk::new();
    let log = desk.write("events.jsonl", FAILED_EVENTS.as_bytes());
    let told = said(fakegpu().arg("report").arg(&log).arg("--json").arg(desk.path("cluster_report.json")));
    assert_eq!((told.code, told.stdout.as_str(), told.stderr.as_str()), (Some(0), "", ""));
    for name in ["cluster_report.json", "."] {
        let told = said(fakegpu().arg("explain").arg(desk.path(name)));
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
        assert!(
            told.stdout.starts_with("FAILED 2.0 ms after the start: rank 2 died (train, pid 4002)\n"),
            "{}",
            told.stdout
        );
        assert!(!told.stdout.contains('\u{1b}'), "{}", told.stdout);
    }
}

#[test]
fn a_log_becomes_a_report_for_people_and_a_cut_off_end_is_said() {
    let desk = Desk::new();
    let whole = desk.write("whole.jsonl", FAILED_EVENTS.as_bytes());
    let told = said(fakegpu().arg("report").arg(whole));
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
    assert!(told.stdout.starts_with("# FakeGPU cluster report\n") && told.stdout.contains("**rank 2 died**"));
    let cut = desk.write("cut.jsonl", &FAILED_EVENTS.as_bytes()[..FAILED_EVENTS.len() - 20]);
    let told = said(fakegpu().arg("report").arg(cut));
    assert_eq!(told.code, Some(0));
    assert!(told.stderr.contains("line 4, the last, is cut off and left out"), "{}", told.stderr);
    assert!(told.stdout.contains("**rank 2 died**"));
}

#[test]
fn files_that_are_no_log_or_report_are_refused_with_what_to_do() {
    let desk = Desk::new();
    let broken = desk.write("broken.jsonl", FAILED_EVENTS.replacen("stopped", "paused", 1).as_bytes());
    let log = desk.write("events.jsonl", FAILED_EVENTS.as_bytes());
    let text = desk.write("notes.txt", b"hello\nhello\n");
    // Not the last line: an error, and its number.
    let twice = desk.write(
        "twice.jsonl",
        format!("{}{FAILED_EVENTS}", std::fs::read_to_string(broken).unwrap()).as_bytes(),
    );
    check_refused(fakegpu().arg("report").arg(twice), "line 4 is no event: unknown variant `paused`");
    check_refused(fakegpu().arg("report").arg(&text), "line 1 is no event");
    check_refused(fakegpu().args(["report", "/"]), "is a folder");
    check_refused(fakegpu().arg("report").arg(desk.path("none")), "No such file or directory");
    check_refused(
        fakegpu().arg("explain").arg(log),
        "is an event log: make a report of it with `fakegpu report",
    );
    check_refused(fakegpu().arg("explain").arg(text), "is no report");
    check_refused(fakegpu().arg("explain").arg(desk.path("none")), "No such file or directory");
}

#[test]
fn a_coordinator_that_does_not_answer_is_said_to_be_there_or_not() {
    let ps = |address: &str| {
        let mut command = fakegpu();
        command.args(["ps", "--address", address]);
        command
    };
    check_refused(&mut ps("@fakegpu-no-such"), "cannot connect to the coordinator at `@fakegpu-no-such`");
    check_refused(&mut ps("here"), "--address: `here` is neither");
    check_refused(
        fakegpu().arg("dump").env("FAKEGPU_COORDINATOR_ADDR", "here"),
        "FAKEGPU_COORDINATOR_ADDR: `here`",
    );
    assert!(said(fakegpu().args(["ps", "--help"])).stdout.contains("no rank notices"));
}

#[test]
fn a_live_job_is_shown_and_goes_on() {
    let coordinator = coordinator();
    let desk = Desk::new();
    let mut command = desk.run(
        "-n 1 --dist-mode simulate",
        "echo $FAKEGPU_COORDINATOR_ADDR >addr.tmp; mv addr.tmp addr; cat <gate; exit 7",
    );
    // It may stand in the layout and not beside the launcher under test.
    command.env("FAKEGPU_COORDINATOR_BIN", coordinator);
    command.current_dir(desk.path(".")).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(Command::new("mkfifo").arg(desk.path("gate")).status().unwrap().success());
    let mut child = command.spawn().unwrap();
    eventually("the rank says where its coordinator is", || desk.path("addr").exists());
    let address = std::fs::read_to_string(desk.path("addr")).unwrap();
    // Nobody gives the token: it is the one that `fakegpu run` made up for its coordinator.
    let told = said(fakegpu().args(["ps", "--address", address.trim()]));
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
    assert!(told.stdout.contains("nobody has joined"), "{}", told.stdout);
    let told = said(fakegpu().args(["dump", "--json", "--address", address.trim()]));
    assert!(told.stdout.contains("\"communicators\": []"), "{}", told.stdout);
    let refused = said(fakegpu().args(["ps", "--token", "wrong", "--address", address.trim()]));
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("the token is wrong"), "{}", refused.stderr);
    // Opens the gate; the job has not noticed anything.
    std::fs::write(desk.path("gate"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let report = std::fs::read_to_string(desk.path("out/cluster_report.json")).unwrap();
    assert!(report.contains("\"deaths\": []"), "a watcher that leaves is no death: {report}");
}

/// Rank 2 dies, and the others are told.
const FAILED_EVENTS: &str = r#"{"at":0,"kind":{"event":"session_opened","session":3,"pid":4002,"program":"train"}}
{"at":2000000,"kind":{"event":"session_closed","session":3,"ending":"died","ranks":[2]}}
{"at":3000000,"kind":{"event":"failure","comm":1,"failure":"rank_died","code":"remote_error","detail":"rank 2 died","culprits":[2]}}
{"at":4000000,"kind":{"event":"stopped","why":"idle"}}
"#;
