//! The cluster: ranks, network, clock, coordinator.

use std::collections::BTreeMap;

use fakegpu_coordinator::{Coordinator, CostModel, Options, Outgoing, PeerId, TransferWork, Work};
use fakegpu_proto::{
    Action, Estimate, Fault, Hello, JoinComm, Leave, Placement, Release, StagingOutcome, ToCoordinator,
    ToRank, UniqueId,
};
use fakegpu_units::{CommId, GlobalRank, HostSpan, HostTime, Rank, VirtualSpan};

use crate::invariants::Invariants;
use crate::{Random, Scenario, Step};

/// How a rank's program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It did everything.
    Finished,
    /// A call failed; later calls were not made.
    Failed(Fault),
    /// Its process died.
    Died,
    /// Its call was never answered: a bug.
    Hung,
}

/// What became of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankOutcome {
    /// How it ended.
    pub ending: Ending,
    /// When.
    pub at: HostTime,
    /// Operations that were released to it.
    pub operations: u64,
}

/// What became of a cluster.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Each rank.
    pub ranks: Vec<RankOutcome>,
    /// Everything that happened, one JSON object a line.
    pub log: Vec<String>,
    /// When the first rank died, if one did.
    pub first_death: Option<HostTime>,
}

/// A message under way, or a step that is due.
#[derive(Debug)]
enum Due {
    ToCoordinator(usize, u64, ToCoordinator),
    ToRank(usize, u64, ToRank),
    /// The rank's connection ends.
    Disconnect(usize),
    /// The rank goes on with its program.
    Resume(usize),
}

#[derive(Debug)]
struct SimRank {
    program: std::vec::IntoIter<Step>,
    comm: Option<CommId>,
    next_request: u64,
    waiting: Option<u64>,
    group: u64,
    released: u64,
    outcome: Option<Ending>,
    ended_at: HostTime,
    operations: u64,
    /// When the last message in each direction arrives: a connection keeps its order.
    last_up: HostTime,
    last_down: HostTime,
}

/// Every operation takes some modelled time, so that clocks move.
#[derive(Debug)]
struct Unit;

impl CostModel for Unit {
    fn estimate(&self, work: &Work<'_>) -> Estimate {
        Estimate { base_latency: VirtualSpan::from_micros(1 + work.descriptor.count), ..Estimate::default() }
    }

    fn transfers(&self, works: &[TransferWork], _: u32) -> Vec<Estimate> {
        let cost = |work: &TransferWork| VirtualSpan::from_micros(1 + work.bytes);
        works.iter().map(|work| Estimate { base_latency: cost(work), ..Estimate::default() }).collect()
    }
}

/// A simulated cluster.
#[derive(Debug)]
pub struct Cluster {
    coordinator: Coordinator,
    ranks: Vec<SimRank>,
    scenario: Scenario,
    random: Random,
    now: HostTime,
    queue: BTreeMap<(HostTime, u64), Due>,
    queued: u64,
    invariants: Invariants,
    log: Vec<String>,
    first_death: Option<HostTime>,
}

/// Events after which a run is called endless.
const EVENTS_MAX: u64 = 2_000_000;

impl Cluster {
    /// A cluster that will do the scenario, with delays and crashes from the seed.
    pub fn new(seed: u64, scenario: Scenario) -> Self {
        let ranks = scenario.programs.iter().map(|program| SimRank::new(program.clone())).collect();
        Self {
            coordinator: Coordinator::new(Options::default(), Box::new(Unit)),
            ranks,
            scenario,
            random: Random::new(seed),
            now: HostTime::ZERO,
            queue: BTreeMap::new(),
            queued: 0,
            invariants: Invariants::default(),
            log: Vec::new(),
            first_death: None,
        }
    }

    /// Runs until nothing more will happen.
    ///
    /// # Panics
    /// Where an invariant is broken; its name is in the message.
    pub fn run(mut self) -> Outcome {
        for rank in 0..self.ranks.len() {
            self.coordinator.handle_connect(self.now, PeerId(rank as u64), true, rank as u64);
            self.send(rank, ToCoordinator::Hello(Box::new(self.hello(rank))));
        }
        let mut events = 0;
        while let Some(at) = self.next_at() {
            events += 1;
            assert!(events < EVENTS_MAX, "invariant_every_run_ends");
            self.now = self.now.max(at);
            self.step();
            self.drain();
        }
        let end = self.now;
        let ranks = self.ranks.into_iter().map(|rank| rank.into_outcome(end)).collect();
        Outcome { ranks, log: self.log, first_death: self.first_death }
    }

    fn next_at(&self) -> Option<HostTime> {
        let queued = self.queue.keys().next().map(|(at, _)| *at);
        // Deadlines alone keep a run going only while somebody waits for one.
        let waits = self.ranks.iter().any(|rank| rank.outcome.is_none());
        let timeout = self.coordinator.poll_timeout().filter(|_| waits);
        [queued, timeout].into_iter().flatten().min()
    }

    fn step(&mut self) {
        self.coordinator.handle_timeout(self.now);
        let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= self.now) else { return };
        match entry.remove() {
            Due::ToCoordinator(rank, request, message) => {
                if let ToCoordinator::Submit { ops, .. } = &message {
                    for (comm, of, action) in ops {
                        self.invariants.submission(*comm, *of, action);
                    }
                }
                self.coordinator.handle_message(self.now, PeerId(rank as u64), request, message);
            }
            Due::ToRank(rank, request, message) => self.receive(rank, request, message),
            Due::Disconnect(rank) => self.coordinator.handle_disconnect(self.now, PeerId(rank as u64)),
            Due::Resume(rank) => self.resume(rank),
        }
    }

    fn drain(&mut self) {
        while let Some(event) = self.coordinator.poll_event() {
            self.invariants.event(&event);
            self.log.push(serde_json::to_string(&event).unwrap_or_default());
        }
        while let Some(transmit) = self.coordinator.poll_transmit() {
            let rank = usize::try_from(transmit.peer.0).unwrap_or(usize::MAX);
            let Outgoing::Frame(request, message) = transmit.outgoing else { continue };
            let at = self.arrival(self.ranks[rank].last_down);
            self.ranks[rank].last_down = at;
            self.push(at, Due::ToRank(rank, request, message));
        }
        while self.coordinator.poll_errand().is_some() {}
    }

    /// When a message sent now arrives, behind those sent before it.
    fn arrival(&mut self, last: HostTime) -> HostTime {
        // Mostly quick, sometimes slow: arrivals of different ranks change places.
        let micros =
            if self.random.percent(10) { self.random.below(20_000) } else { 5 + self.random.below(200) };
        (self.now + HostSpan::from_nanos(micros * 1_000)).max(last)
    }

    fn push(&mut self, at: HostTime, due: Due) {
        self.queued += 1;
        self.queue.insert((at, self.queued), due);
    }

    fn send(&mut self, rank: usize, message: ToCoordinator) {
        let request = self.ranks[rank].next_request;
        self.ranks[rank].next_request += 1;
        self.ranks[rank].waiting = Some(request);
        // Whoever dies before it has asked to join anything was never seen, and is missed at the join time-out.
        let is_known = !matches!(message, ToCoordinator::Hello(_));
        let at = self.arrival(self.ranks[rank].last_up);
        self.ranks[rank].last_up = at;
        self.push(at, Due::ToCoordinator(rank, request, message));
        if is_known && self.random.below(10_000) < self.scenario.crash_percent * 100 {
            self.crash(rank);
        }
    }

    fn crash(&mut self, rank: usize) {
        self.ranks[rank].end(Ending::Died, self.now);
        self.first_death.get_or_insert(self.now);
        let at = self.ranks[rank].last_up;
        self.push(at.max(self.now), Due::Disconnect(rank));
    }

    fn hello(&self, rank: usize) -> Hello {
        Hello {
            pid: 1000 + u32::try_from(rank).unwrap_or(0),
            host: "host".to_owned(),
            node: Some(format!("node{}", rank / 4)),
            program: "sim".to_owned(),
            dist_mode: "simulate".to_owned(),
            force_socket: false,
            token: None,
            placement: Some(Placement {
                global_rank: GlobalRank(u32::try_from(rank).unwrap_or(0)),
                world_size: u32::try_from(self.ranks.len()).unwrap_or(0),
                local_rank: None,
            }),
            join_timeout_ms: Some(self.scenario.join_timeout_ms),
            collective_timeout_ms: Some(self.scenario.collective_timeout_ms),
            ..Hello::default()
        }
    }

    fn resume(&mut self, rank: usize) {
        if self.ranks[rank].outcome.is_some() {
            return;
        }
        let of = Rank::from_index(rank);
        let Some(step) = self.ranks[rank].program.next() else {
            self.ranks[rank].end(Ending::Finished, self.now);
            // The process exits in order.
            let at = self.arrival(self.ranks[rank].last_up);
            self.push(at, Due::ToCoordinator(rank, 0, ToCoordinator::Goodbye { grouped: 0 }));
            return self.push(at, Due::Disconnect(rank));
        };
        match step {
            Step::Join => {
                let size = u32::try_from(self.ranks.len()).unwrap_or(0);
                let listener = (rank == 0).then(|| "@segment".to_owned());
                let join = JoinComm {
                    unique_id: UniqueId::new(b"world"),
                    size,
                    rank: of,
                    listener,
                    ..JoinComm::default()
                };
                self.send(rank, ToCoordinator::Join(Box::new(join)));
            }
            Step::Group(actions) => self.submit(rank, &actions),
            Step::Barrier => match self.ranks[rank].comm {
                Some(comm) => self.send(rank, ToCoordinator::Barrier { comm, rank: of }),
                None => self.push(self.now, Due::Resume(rank)),
            },
            Step::Leave => match self.ranks[rank].comm {
                Some(comm) => self.send(rank, ToCoordinator::Leave { comm, rank: of, how: Leave::Destroy }),
                None => self.push(self.now, Due::Resume(rank)),
            },
            Step::Die => self.crash(rank),
            Step::Compute(micros) => {
                let at = self.now + HostSpan::from_nanos(micros * 1_000);
                self.push(at, Due::Resume(rank));
            }
        }
    }

    fn submit(&mut self, rank: usize, actions: &[Action]) {
        let Some(comm) = self.ranks[rank].comm else { return self.push(self.now, Due::Resume(rank)) };
        let of = Rank::from_index(rank);
        self.ranks[rank].group = actions.len() as u64;
        self.ranks[rank].released = 0;
        self.send(
            rank,
            ToCoordinator::Submit {
                ops: actions.iter().map(|action| (comm, of, action.clone())).collect(),
                thread: 1,
            },
        );
    }

    fn receive(&mut self, rank: usize, request: u64, message: ToRank) {
        let sim = &mut self.ranks[rank];
        if sim.outcome.is_some() || sim.waiting != Some(request) {
            return;
        }
        if !matches!(message, ToRank::Go(Release::Some(_) | Release::Pairwise)) {
            self.invariants.answer(rank, request);
            sim.waiting = None;
        }
        match message {
            ToRank::Joined { comm, .. } => {
                sim.comm = Some(comm);
                let of = Rank::from_index(rank);
                self.send(rank, ToCoordinator::Staging { comm, rank: of, outcome: StagingOutcome::Mapped });
            }
            ToRank::Go(Release::Pairwise) => {}
            ToRank::Go(Release::Some(places)) => sim.released += places.len() as u64,
            ToRank::Go(Release::Rest) => {
                sim.operations += sim.group;
                self.push(self.now, Due::Resume(rank));
            }
            ToRank::Failed(fault) => sim.end(Ending::Failed(fault), self.now),
            _ => self.push(self.now, Due::Resume(rank)),
        }
    }
}

impl SimRank {
    fn new(program: Vec<Step>) -> Self {
        Self {
            program: program.into_iter(),
            comm: None,
            next_request: 1,
            waiting: None,
            group: 0,
            released: 0,
            outcome: None,
            ended_at: HostTime::ZERO,
            operations: 0,
            last_up: HostTime::ZERO,
            last_down: HostTime::ZERO,
        }
    }

    fn end(&mut self, ending: Ending, at: HostTime) {
        if self.outcome.is_none() {
            self.outcome = Some(ending);
            self.ended_at = at;
        }
    }

    fn into_outcome(self, end: HostTime) -> RankOutcome {
        let hung = self.outcome.is_none();
        RankOutcome {
            ending: self.outcome.unwrap_or(Ending::Hung),
            at: if hung { end } else { self.ended_at },
            operations: self.operations,
        }
    }
}
