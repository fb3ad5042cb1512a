//! The text protocol, as a script sees it.

use fakegpu_coordinator::{Coordinator, Errand, Free, Options, Outgoing, PeerId};
use fakegpu_units::{HostSpan, HostTime};

/// Sends lines from numbered peers and writes down the conversation.
struct Script {
    coordinator: Coordinator,
    now: HostTime,
    transcript: String,
}

impl Script {
    fn new() -> Self {
        let mut coordinator = Coordinator::new(Options::default(), Box::new(Free));
        for peer in 0..8 {
            coordinator.handle_connect(HostTime::ZERO, PeerId(peer), true, peer);
        }
        Self { coordinator, now: HostTime::ZERO, transcript: String::new() }
    }

    fn say(&mut self, peer: u64, line: &str) {
        self.transcript.push_str(&format!("{peer} > {line}\n"));
        self.coordinator.handle_text(self.now, PeerId(peer), line);
        self.listen();
    }

    fn pass(&mut self, millis: u64) {
        self.now += HostSpan::from_millis(millis);
        self.transcript.push_str(&format!("  ({millis} ms pass)\n"));
        self.coordinator.handle_timeout(self.now);
        self.listen();
    }

    fn listen(&mut self) {
        while let Some(transmit) = self.coordinator.poll_transmit() {
            let Outgoing::Line(line) = transmit.outgoing else { continue };
            self.transcript.push_str(&format!("{} < {line}", transmit.peer.0));
        }
    }
}

#[test]
fn a_communicator_is_made_met_in_and_destroyed() {
    let mut script = Script::new();
    script.say(0, "PING");
    script.say(0, "HELLO client=probe");
    script.say(0, "INIT_COMM unique_id=job world_size=2 rank=0 timeout_ms=1000");
    script.say(1, "INIT_COMM unique_id=job world_size=2 rank=1 timeout_ms=1000");
    script.say(0, "BARRIER comm_id=1 rank=0 seqno=1 timeout_ms=1000");
    script.say(0, "BARRIER comm_id=1 rank=0 seqno=1");
    script.say(1, "BARRIER comm_id=1 rank=1 seqno=2");
    script.say(1, "BARRIER comm_id=1 rank=1 seqno=1");
    script.say(1, "BARRIER comm_id=1 rank=1 seqno=1");
    script.say(0, "DESTROY_COMM comm_id=1 rank=0");
    script.say(1, "DESTROY_COMM comm_id=1 rank=1");
    script.say(1, "DESTROY_COMM comm_id=1 rank=1");
    script.say(0, "STATS");
    insta::assert_snapshot!(script.transcript);
}

#[test]
fn failures_are_named_and_barrier_timeouts_stick() {
    let mut script = Script::new();
    script.say(0, "INIT_COMM unique_id=a world_size=2 rank=0 timeout_ms=500");
    script.say(1, "INIT_COMM unique_id=a world_size=2 rank=0");
    script.say(1, "INIT_COMM unique_id=a world_size=3 rank=1");
    script.pass(500);
    script.say(0, "INIT_COMM unique_id=b world_size=2 rank=0 timeout_ms=500");
    script.say(1, "INIT_COMM unique_id=b world_size=2 rank=1 timeout_ms=500");
    script.say(0, "BARRIER comm_id=1 rank=0 seqno=1 timeout_ms=300");
    script.pass(300);
    script.say(1, "BARRIER comm_id=1 rank=1 seqno=1 timeout_ms=300");
    insta::assert_snapshot!(script.transcript);
}

#[test]
fn a_communicator_outlives_the_connections_that_made_it() {
    let mut script = Script::new();
    script.say(0, "INIT_COMM unique_id=a world_size=2 rank=0");
    script.say(1, "INIT_COMM unique_id=a world_size=2 rank=1");
    for peer in 0..2 {
        script.coordinator.handle_disconnect(script.now, PeerId(peer));
    }
    script.say(2, "BARRIER comm_id=1 rank=0 seqno=1");
    script.say(3, "BARRIER comm_id=1 rank=1 seqno=1");
    assert!(script.transcript.ends_with("seqno=1 op=barrier\n"), "{}", script.transcript);
}

#[test]
fn shutdown_is_answered_before_the_end() {
    let mut script = Script::new();
    script.say(0, "SHUTDOWN");
    assert!(script.transcript.ends_with("0 < OK status=stopping\n"));
    assert_eq!(script.coordinator.poll_errand(), Some(Errand::Stop));
}

#[test]
fn a_rank_that_leaves_from_a_barrier_ends_it_for_everybody() {
    let mut script = Script::new();
    for rank in 0..3 {
        script.say(rank, &format!("INIT_COMM unique_id=a world_size=3 rank={rank}"));
    }
    script.say(0, "BARRIER comm_id=1 rank=0 seqno=1");
    script.say(1, "BARRIER comm_id=1 rank=1 seqno=1");
    script.say(3, "DESTROY_COMM comm_id=1 rank=0");
    script.say(2, "BARRIER comm_id=1 rank=2 seqno=1");
    assert!(!script.coordinator.awaits_answer(PeerId(0)) && !script.coordinator.awaits_answer(PeerId(1)));
    insta::assert_snapshot!(script.transcript, @"
    0 > INIT_COMM unique_id=a world_size=3 rank=0
    1 > INIT_COMM unique_id=a world_size=3 rank=1
    2 > INIT_COMM unique_id=a world_size=3 rank=2
    0 < OK comm_id=1 seqno=0 rank=0 world_size=3
    1 < OK comm_id=1 seqno=0 rank=1 world_size=3
    2 < OK comm_id=1 seqno=0 rank=2 world_size=3
    0 > BARRIER comm_id=1 rank=0 seqno=1
    1 > BARRIER comm_id=1 rank=1 seqno=1
    3 > DESTROY_COMM comm_id=1 rank=0
    0 < ERR code=destroyed detail=rank 0 has left communicator 1
    1 < ERR code=destroyed detail=rank 0 has left communicator 1
    3 < OK comm_id=1 rank=0 remaining=2
    2 > BARRIER comm_id=1 rank=2 seqno=1
    2 < ERR code=destroyed detail=rank 0 has left communicator 1
    ");
}
