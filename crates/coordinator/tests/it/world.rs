//! A coordinator whose ranks are spoken for one by one.

use fakegpu_coordinator::{Coordinator, CostModel, Free, Options, Outgoing, PeerId};
use fakegpu_proto::{
    Action, Descriptor, EventKind, Fault, Hello, JoinComm, Leave, StagingOutcome, ToCoordinator, ToRank,
    UniqueId,
};
use fakegpu_units::{Collective, CommId, DataType, HostSpan, HostTime, Rank, ReduceOp};

/// A coordinator with a communicator (or several) of ranks that are spoken for one by one.
pub(crate) struct World {
    pub(crate) coordinator: Coordinator,
    pub(crate) now: HostTime,
    pub(crate) requests: u64,
    pub(crate) size: u32,
}

impl World {
    pub(crate) fn new(size: u32) -> Self {
        Self::with_costs(size, Box::new(Free))
    }

    /// One where operations cost something.
    pub(crate) fn with_costs(size: u32, costs: Box<dyn CostModel>) -> Self {
        let mut world = Self {
            coordinator: Coordinator::new(Options::default(), costs),
            now: HostTime::ZERO,
            requests: 0,
            size,
        };
        for rank in 0..size {
            world.newcomer(rank);
        }
        world
    }

    pub(crate) fn say(&mut self, rank: u32, message: ToCoordinator) {
        self.requests += 1;
        self.coordinator.handle_message(self.now, PeerId(rank.into()), self.requests, message);
    }

    pub(crate) fn join(&mut self, id: &str, ranks: &[u32]) {
        self.join_devices(id, &ranks.iter().map(|&of| (of, 0)).collect::<Vec<_>>());
    }

    /// Makes a communicator of these processes' devices.
    pub(crate) fn join_devices(&mut self, id: &str, seats: &[(u32, u32)]) {
        let size = u32::try_from(seats.len()).unwrap();
        for (rank, &(of, device)) in (0..).map(Rank).zip(seats) {
            let unique_id = UniqueId::new(id.as_bytes());
            let listener = Some("@s".into());
            let join = JoinComm { unique_id, size, rank, device, listener, ..JoinComm::default() };
            self.say(of, ToCoordinator::Join(Box::new(join)));
        }
        let of: Vec<u32> = seats.iter().map(|&(of, _)| of).collect();
        self.mapped(self.coordinator.stats().communicators, &of);
    }

    /// The ranks of a communicator have mapped its segment.
    pub(crate) fn mapped(&mut self, comm: u64, ranks: &[u32]) {
        for (rank, &of) in (0..).map(Rank).zip(ranks) {
            let outcome = StagingOutcome::Mapped;
            self.say(of, ToCoordinator::Staging { comm: CommId(comm), rank, outcome });
        }
    }

    pub(crate) fn with_comm(size: u32) -> Self {
        let mut world = Self::new(size);
        world.join("id", &(0..size).collect::<Vec<_>>());
        world.replies();
        world
    }

    pub(crate) fn call(&mut self, rank: u32, descriptors: &[Descriptor]) {
        self.call_on(1, rank, Rank(rank), descriptors);
    }

    pub(crate) fn call_on(&mut self, comm: u64, of: u32, rank: Rank, descriptors: &[Descriptor]) {
        let ops = descriptors.iter().map(|&descriptor| (CommId(comm), rank, descriptor.into())).collect();
        self.say(of, ToCoordinator::Submit { ops, thread: 1 });
    }

    /// A rank of the first communicator submits a group.
    pub(crate) fn act(&mut self, rank: u32, actions: Vec<Action>) {
        self.act_from(rank, 1, actions);
    }

    /// The same from one of its threads.
    pub(crate) fn act_from(&mut self, rank: u32, thread: u64, actions: Vec<Action>) {
        let ops = actions.into_iter().map(|action| (CommId(1), Rank(rank), action)).collect();
        self.say(rank, ToCoordinator::Submit { ops, thread });
    }

    pub(crate) fn leave(&mut self, rank: u32) {
        self.leave_comm(1, rank);
    }

    pub(crate) fn leave_comm(&mut self, comm: u64, rank: u32) {
        self.say(rank, ToCoordinator::Leave { comm: CommId(comm), rank: Rank(rank), how: Leave::Destroy });
    }

    /// One more process connects.
    pub(crate) fn newcomer(&mut self, rank: u32) {
        self.coordinator.handle_connect(self.now, PeerId(rank.into()), true, rank.into());
        self.say(rank, ToCoordinator::Hello(Box::new(hello(rank))));
    }

    pub(crate) fn die(&mut self, rank: u32) {
        self.coordinator.handle_disconnect(self.now, PeerId(rank.into()));
    }

    pub(crate) fn events(&mut self) -> Vec<EventKind> {
        std::iter::from_fn(|| self.coordinator.poll_event()).map(|event| event.kind).collect()
    }

    /// The one sentence of all failed requests.
    #[track_caller]
    pub(crate) fn common_refusal(&mut self) -> String {
        let refusals = self.refusals();
        assert!(!refusals.is_empty() && refusals.windows(2).all(|pair| pair[0] == pair[1]), "{refusals:#?}");
        refusals[0].clone()
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += HostSpan::from_millis(millis);
        self.coordinator.handle_timeout(self.now);
    }

    pub(crate) fn replies(&mut self) -> Vec<(u64, ToRank)> {
        let mut replies = Vec::new();
        while let Some(transmit) = self.coordinator.poll_transmit() {
            if let Outgoing::Frame(_, message) = transmit.outgoing {
                replies.push((transmit.peer.0, message));
            }
        }
        replies
    }

    /// What each peer's requests were answered with, by request number; what nobody asked for is left out.
    pub(crate) fn answers(&mut self) -> Vec<(u64, u64, ToRank)> {
        let mut answers = Vec::new();
        while let Some(transmit) = self.coordinator.poll_transmit() {
            if let Outgoing::Frame(request @ 1.., message) = transmit.outgoing {
                answers.push((transmit.peer.0, request, message));
            }
        }
        answers
    }

    pub(crate) fn notices(&mut self) -> String {
        let replies = self.replies().into_iter();
        let notices =
            replies.filter_map(|(_, reply)| if let ToRank::Notice(text) = reply { Some(text) } else { None });
        notices.collect::<Vec<_>>().join("\n")
    }

    /// The sentences of all failed requests.
    pub(crate) fn refusals(&mut self) -> Vec<String> {
        let answers = self.answers().into_iter();
        let refusals =
            answers.filter_map(
                |(.., reply)| if let ToRank::Failed(fault) = reply { Some(fault.detail) } else { None },
            );
        refusals.collect()
    }

    /// The sentence of the only failed request.
    #[track_caller]
    pub(crate) fn refusal(&mut self) -> String {
        match self.replies().as_slice() {
            [(_, ToRank::Failed(fault))] => fault.detail.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// What was told of as a hazard.
    pub(crate) fn hazard_details(&mut self) -> Vec<String> {
        let events = self.events().into_iter();
        events
            .filter_map(|event| match event {
                EventKind::Hazard { detail, .. } => Some(detail),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn hazards(&mut self) -> usize {
        std::iter::from_fn(|| self.coordinator.poll_event())
            .filter(|event| format!("{event:?}").contains("asymmetric grouping"))
            .count()
    }

    /// The one sentence that every rank was told.
    #[track_caller]
    pub(crate) fn common_fault(&mut self) -> Fault {
        let faults: Vec<Fault> = self
            .replies()
            .into_iter()
            .filter_map(|(_, reply)| match reply {
                ToRank::Failed(fault) | ToRank::CommFailed { fault, .. } => Some(fault),
                _ => None,
            })
            .collect();
        assert!(faults.len() >= self.size as usize - 1, "{faults:?}");
        assert!(faults.windows(2).all(|pair| pair[0] == pair[1]), "{faults:#?}");
        faults[0].clone()
    }
}

pub(crate) fn hello(rank: u32) -> Hello {
    Hello {
        pid: 4000 + rank,
        host: "laptop".into(),
        node: None,
        program: "train".into(),
        dist_mode: "simulate".into(),
        force_socket: false,
        token: None,
        placement: None,
        join_timeout_ms: None,
        collective_timeout_ms: None,
        ..Hello::default()
    }
}

pub(crate) fn all_reduce(count: u64, data_type: DataType) -> Descriptor {
    Descriptor { op: Collective::AllReduce, count, data_type, reduce: Some(ReduceOp::Sum), root: None }
}

pub(crate) fn broadcast(count: u64, data_type: DataType, root: u32) -> Descriptor {
    Descriptor { op: Collective::Broadcast, count, data_type, reduce: None, root: Some(Rank(root)) }
}
