//! A job of a real coordinator: what it says is what `fakegpu ps` and `fakegpu explain` understand.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fakegpu_proto::{
    Action, Descriptor, Direction, Hello, JoinComm, StagingOutcome, ToCoordinator, ToRank, Transfer, UniqueId,
};
use fakegpu_transport::{Dialer, Link};
use fakegpu_transport_uds::UdsDialer;
use fakegpu_units::{Collective, CommId, DataType, Rank, ReduceOp};

use crate::support::{Desk, coordinator, fakegpu, said};

const PATIENCE: Duration = Duration::from_secs(10);

/// A coordinator of the test's own, which ends with it.
struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(desk: &Desk) -> Self {
        let address = desk.path("socket").display().to_string();
        let mut command = Command::new(coordinator());
        command.env_clear().args(["--no-report", "--address", &address, "--events"]);
        command.arg(desk.path("events.jsonl")).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        Self { child, address }
    }

    /// What a person reads who looks at the job.
    fn look(&self, verb: &str) -> String {
        let told = said(fakegpu().args([verb, "--address", &self.address]));
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
        told.stdout
    }

    /// Ends it in order, and tells the story of its events.
    fn story(mut self, desk: &Desk) -> String {
        assert!(
            Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap().success()
        );
        assert!(self.child.wait().unwrap().success());
        let (log, report) = (desk.path("events.jsonl"), desk.path("cluster_report.json"));
        let told = said(fakegpu().arg("report").arg(log).arg("--json").arg(&report));
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""));
        said(fakegpu().arg("explain").arg(report)).stdout
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended in order.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// One rank of the job, as its library would speak. It moves no bytes.
struct Member {
    link: Link,
    rank: Rank,
    comm: CommId,
    requests: u64,
}

impl Member {
    /// Both ranks of a job, joined.
    fn pair(daemon: &Daemon) -> [Self; 2] {
        let mut pair = [0, 1].map(|rank| Self::hello(daemon, Rank(rank)));
        for member in &mut pair {
            let join = JoinComm {
                unique_id: UniqueId::new(b"job"),
                size: 2,
                rank: member.rank,
                ..JoinComm::default()
            };
            member.ask(ToCoordinator::Join(Box::new(join)));
        }
        for member in &mut pair {
            let ToRank::Joined { comm, .. } = member.answer() else { panic!("no communicator") };
            member.comm = comm;
            let (rank, outcome) = (member.rank, StagingOutcome::Mapped);
            member.ask(ToCoordinator::Staging { comm, rank, outcome });
        }
        for member in &mut pair {
            assert!(matches!(member.answer(), ToRank::Staged { .. }));
        }
        pair
    }

    fn hello(daemon: &Daemon, rank: Rank) -> Self {
        let link = Link::new(UdsDialer::new(&daemon.address).dial(PATIENCE).unwrap());
        let mut member = Self { link, rank, comm: CommId(0), requests: 0 };
        let hello = Hello {
            pid: std::process::id(),
            program: "train".to_owned(),
            payload_off: true,
            ..Hello::default()
        };
        member.ask(ToCoordinator::Hello(Box::new(hello)));
        assert!(matches!(member.answer(), ToRank::Welcome { .. }));
        member
    }

    fn ask(&mut self, message: ToCoordinator) {
        self.requests += 1;
        self.link.send(self.requests, &message, PATIENCE).unwrap();
    }

    fn call(&mut self, action: Action) {
        let ops = vec![(self.comm, self.rank, action)];
        self.ask(ToCoordinator::Submit { ops, thread: 1 });
    }

    /// The answer to the last request; what comes unasked is passed over.
    fn answer(&mut self) -> ToRank {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "rank {} has no answer", self.rank);
            match self.link.receive(PATIENCE).unwrap() {
                Some((request, answer)) if request == self.requests => return answer,
                _ => {}
            }
        }
    }

    /// The last call runs.
    fn goes(&mut self) {
        let answer = self.answer();
        assert!(matches!(answer, ToRank::Go(_)), "{answer:?}");
    }

    /// The last call fails.
    fn fails(&mut self) {
        let answer = self.answer();
        assert!(matches!(answer, ToRank::Failed(_)), "{answer:?}");
    }
}

fn collective(op: Collective, reduce: Option<ReduceOp>) -> Action {
    Descriptor { op, count: 1024, data_type: DataType::Float32, reduce, root: None }.into()
}

fn all_reduce() -> Action {
    collective(Collective::AllReduce, Some(ReduceOp::Sum))
}

fn transfer(direction: Direction, peer: u32, count: u64) -> Action {
    Transfer { direction, peer: Rank(peer), count, data_type: DataType::BFloat16, of: None }.into()
}

/// The lines of one section of a story.
fn section<'a>(story: &'a str, title: &str) -> Vec<&'a str> {
    story
        .lines()
        .skip_while(|line| !line.starts_with(title))
        .skip(1)
        .take_while(|line| !line.is_empty())
        .collect()
}

#[test]
fn a_rank_that_waits_is_shown_with_whom_it_waits_for_and_a_mismatch_with_where_ranks_part() {
    let desk = Desk::new();
    let daemon = Daemon::start(&desk);
    let [mut zero, mut one] = Member::pair(&daemon);
    zero.call(all_reduce());
    one.call(all_reduce());
    zero.goes();
    one.goes();
    zero.call(all_reduce());
    // The coordinator reads one session's messages in order, and another's when it likes.
    let waits = "waits in ncclAllReduce(count=1024, float32, sum) on communicator 1  rank 1";
    let deadline = Instant::now() + PATIENCE;
    let mut shown = daemon.look("ps");
    while !shown.contains(waits) && Instant::now() < deadline {
        shown = daemon.look("ps");
    }
    assert!(shown.contains(waits), "{shown}");
    assert!(shown.contains("Who keeps them waiting:\n  rank 1 (pid "), "{shown}");
    assert!(shown.contains("misses rank 1"), "{shown}");
    let dumped = daemon.look("dump");
    assert!(dumped.contains("rank 1: 1 call\n       0  ncclAllReduce(count=1024, float32, sum)"), "{dumped}");
    one.call(collective(Collective::AllGather, None));
    zero.fails();
    one.fails();
    let story = daemon.story(&desk);
    assert_eq!(
        section(&story, "What they called last:"),
        [
            "    call 0        ranks 0, 1  ncclAllReduce(count=1024, float32, sum)",
            "  → call 1        rank 1      ncclAllGather(count=1024, float32)",
            "                  rank 0      ncclAllReduce(count=1024, float32, sum)",
        ],
        "{story}"
    );
}

#[test]
fn sides_of_a_pair_are_told_one_by_one_and_not_held_to_one_order() {
    let desk = Desk::new();
    let daemon = Daemon::start(&desk);
    let [mut zero, mut one] = Member::pair(&daemon);
    zero.call(all_reduce());
    one.call(all_reduce());
    zero.goes();
    one.goes();
    zero.call(transfer(Direction::Send, 1, 4));
    one.call(transfer(Direction::Recv, 0, 8));
    zero.fails();
    one.fails();
    let story = daemon.story(&desk);
    assert_eq!(
        section(&story, "What they called last:"),
        [
            "    rank 0  ncclAllReduce(count=1024, float32, sum)",
            "  →         ncclSend(count=4, bfloat16, to rank 1)",
            "    rank 1  ncclAllReduce(count=1024, float32, sum)",
            "  →         ncclRecv(count=8, bfloat16, from rank 0)",
        ],
        "{story}"
    );
    assert!(story.starts_with("payload off: "), "{story}");
}
