//! The messages, by direction. Requests carry a request number in their frame; a reply carries it back.

use std::fmt;

use fakegpu_units::{CommId, GlobalRank, NodeIndex, Rank, SessionId, VirtualSpan, VirtualTime};
use serde::{Deserialize, Serialize};

use crate::{Action, Fault, Snapshot};

/// NCCL's 128 opaque bytes. Rendezvous is by their value, whoever made them.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UniqueId(Vec<u8>);

impl UniqueId {
    /// Bytes of an id in the C ABI.
    pub const BYTES: usize = 128;

    /// From the C struct's bytes, or from any text a script invents (at most 128 bytes are looked at).
    pub fn new(bytes: &[u8]) -> Self {
        let bytes = &bytes[..bytes.len().min(Self::BYTES)];
        // Trailing zeros carry nothing, and a text id padded by a C struct is still the same id.
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        Self(bytes[..end].to_vec())
    }

    /// The bytes without trailing zeros.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// A short stable name for sentences; the bytes may hold a token, so they are never printed.
    pub fn short(&self) -> String {
        let hash = self.0.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        format!("{:08x}", hash >> 32)
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueId({})", self.short())
    }
}

/// Where a launcher says this process stands in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Its rank in the job.
    pub global_rank: GlobalRank,
    /// How many ranks the job has.
    pub world_size: u32,
    /// Its rank on its node, where the launcher says.
    pub local_rank: Option<u32>,
}

/// The first message of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The process.
    pub pid: u32,
    /// What machine and namespaces it stands in; equal strings can share memory.
    pub host: String,
    /// The virtual node it was told it stands on, if any.
    pub node: Option<String>,
    /// The program's name, for reports.
    pub program: String,
    /// The communication mode; ranks of one communicator must share it.
    pub dist_mode: String,
    /// Whether it refuses shared memory (`FAKEGPU_STAGING_FORCE_SOCKET`).
    pub force_socket: bool,
    /// The token, where the coordinator asks for one.
    pub token: Option<String>,
    /// Where a launcher put it.
    pub placement: Option<Placement>,
    /// The environment's join time-out.
    pub join_timeout_ms: Option<u64>,
    /// The environment's collective time-out.
    pub collective_timeout_ms: Option<u64>,
    /// The environment's chunk size for staging.
    pub chunk_bytes: Option<u32>,
    /// Whether it wants operations matched, timed and counted, but no bytes moved (`FAKEGPU_PAYLOAD=off`).
    pub payload_off: bool,
}

/// The GPU a rank sits on, where a CUDA runtime says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// What tells machines apart: `NCCL_HOSTID`, else the machine's own identity.
    pub host: String,
    /// What tells GPUs of one machine apart: a PCI bus id, or a UUID.
    pub id: String,
}

/// One rank asks to join a communicator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinComm {
    /// The rendezvous.
    pub unique_id: UniqueId,
    /// Ranks in the communicator.
    pub size: u32,
    /// The rank claimed.
    pub rank: Rank,
    /// The process's device for this rank.
    pub device: u32,
    /// Where rank 0 hands out the shared segment: the name of a private listening socket.
    pub listener: Option<String>,
    /// Its GPU, where there is one; two ranks of a communicator on one GPU are refused.
    pub gpu: Option<Gpu>,
    /// Whether the id may be met at again once its communicator is complete (`NCCL_COMM_ID`).
    pub reusable: bool,
    /// The communicator that grows, and the caller's rank in it; `None` for newcomers and for new communicators.
    pub parent: Option<(CommId, Rank)>,
    /// The communicator's name, for people.
    pub name: Option<String>,
}

/// One rank asks for a communicator without some of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShrinkComm {
    /// The communicator.
    pub parent: CommId,
    /// The caller.
    pub rank: Rank,
    /// The ranks to leave out; sorted, each once.
    pub exclude: Vec<Rank>,
    /// Whether operations in flight in the parent are stopped first.
    pub abort: bool,
    /// As in [`JoinComm`].
    pub listener: Option<String>,
    /// As in [`JoinComm`].
    pub name: Option<String>,
}

/// How a rank leaves a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leave {
    /// In order.
    Destroy,
    /// At once, failing whoever still needs this rank.
    Abort,
}

/// What became of a rank's attempt to map the communicator's shared segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StagingOutcome {
    /// Mapped.
    Mapped,
    /// Not possible here, and why.
    Refused(String),
}

/// From a rank's process to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToCoordinator {
    /// Who this is. First, once.
    Hello(Box<Hello>),
    /// Are you there?
    Ping,
    /// Join a communicator; answered when all have joined.
    Join(Box<JoinComm>),
    /// How mapping the offered segment went; answered when all have said.
    Staging {
        /// The communicator.
        comm: CommId,
        /// The rank that tells.
        rank: Rank,
        /// How it went.
        outcome: StagingOutcome,
    },
    /// Operations to match, all or nothing; answered by [`ToRank::Go`] or [`ToRank::Failed`].
    Submit {
        /// In call order.
        ops: Vec<(CommId, Rank, Action)>,
        /// The calling thread, numbered by its process: who else could still call for these ranks. Or, with
        /// [`STREAM`] in it, the stream that the operations are on.
        thread: u64,
    },
    /// The thread that submitted this goes on without waiting: it drives further ranks.
    PutOff {
        /// The submission's request number.
        submission: u64,
    },
    /// Make a communicator without some ranks; answered like a join.
    Shrink(Box<ShrinkComm>),
    /// Stop what is in flight in a communicator and accept no further operation of it.
    Revoke {
        /// The communicator.
        comm: CommId,
        /// The rank that revokes.
        rank: Rank,
    },
    /// New ranks will come for this communicator by this id.
    GrowId {
        /// The communicator.
        comm: CommId,
        /// The rank that asks.
        rank: Rank,
        /// The id it made.
        unique_id: UniqueId,
    },
    /// A rank signals a peer.
    Signal {
        /// The communicator.
        comm: CommId,
        /// Who signals.
        rank: Rank,
        /// Whom.
        peer: Rank,
    },
    /// The rank's library saw something that fails nothing but deserves a place in the report.
    Hazard {
        /// The communicator.
        comm: CommId,
        /// The rank.
        rank: Rank,
        /// What it saw.
        detail: String,
    },
    /// What would these operations of the caller's cost, were all ranks to call them now? Nothing is matched.
    Predict {
        /// In call order.
        ops: Vec<(CommId, Rank, Action)>,
    },
    /// The rank was asked to fail here (`FAKEGPU_NCCL_FAULT_*`): its communicator fails on all ranks.
    Inject {
        /// The communicator.
        comm: CommId,
        /// The rank.
        rank: Rank,
        /// Which operation, and who asked for it.
        detail: String,
    },
    /// Who waits for whom?
    Inspect,
    /// The rank's next all-reduce on the communicator is a barrier to its program. Not answered.
    Mark {
        /// The communicator.
        comm: CommId,
        /// The rank.
        rank: Rank,
    },
    /// When did the rank's last operation end, in the model?
    Clock {
        /// The communicator.
        comm: CommId,
        /// The rank.
        rank: Rank,
    },
    /// All ranks meet; answered when all have come.
    Barrier {
        /// The communicator.
        comm: CommId,
        /// The rank that arrives.
        rank: Rank,
    },
    /// Join no more: the rank that asked has given up. Its join, if still unanswered, is answered as failed.
    CancelJoin {
        /// The rendezvous.
        unique_id: UniqueId,
        /// The rank that gave up.
        rank: Rank,
    },
    /// This rank can move no bytes in the communicator any more, so nobody can.
    Broken {
        /// The communicator.
        comm: CommId,
        /// The rank that tells.
        rank: Rank,
        /// What it saw.
        why: String,
    },
    /// Leave a communicator.
    Leave {
        /// The communicator.
        comm: CommId,
        /// The rank that leaves.
        rank: Rank,
        /// In order, or not.
        how: Leave,
    },
    /// This connection carries tensor bytes of one rank of one communicator from here on.
    Data(DataHello),
    /// Numbers about the coordinator.
    Stats,
    /// Write the report and end.
    Shutdown,
    /// The process ends in order.
    Goodbye {
        /// Calls that its threads had grouped and never ended.
        grouped: u32,
    },
}

/// What makes a second connection a rank's data connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataHello {
    /// The session that owns the rank.
    pub session: SessionId,
    /// What [`ToRank::Welcome`] said; proves the session.
    pub secret: u64,
    /// The communicator.
    pub comm: CommId,
    /// The rank.
    pub rank: Rank,
    /// What it will carry.
    pub lane: Lane,
}

/// What a data connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lane {
    /// The rounds of collectives; opened when the communicator is made.
    Collectives,
    /// Point-to-point operations; opened when the rank takes part in its first one.
    Transfers,
}

/// One member of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its rank in the whole job.
    pub global: GlobalRank,
    /// The virtual node it is booked on.
    pub node: NodeIndex,
    /// Its device there.
    pub device: u32,
    /// Its process.
    pub pid: u32,
}

/// How tensor bytes will move in a communicator, before anyone has tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Offer {
    /// All on one host: rank 0 hands out a segment at this private socket.
    Shared {
        /// The socket's abstract name.
        listener: String,
    },
    /// Bytes go through the coordinator.
    Streamed {
        /// Why not by shared memory.
        why: String,
    },
    /// Bytes are not moved at all.
    Off,
}

/// How tensor bytes move in a communicator, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StagingKind {
    /// Through one shared segment.
    Shared,
    /// Through data connections to the coordinator.
    Streamed,
    /// Not at all: operations are matched, timed and counted only.
    Off,
}

/// Which operations of a submission may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Release {
    /// All that have not run; nothing more will be said about the submission.
    Rest,
    /// These, by their place in the submission; more will be said.
    Some(Vec<u32>),
    /// The submission's one collective runs as point-to-point operations, since some rank called it so. From here
    /// on, places mean the transfers: to rank 0, from rank 0, to rank 1, and so on. More will be said.
    Pairwise,
}

/// Numbers about a coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsReply {
    /// Sessions connected now.
    pub sessions: u64,
    /// Communicators alive now.
    pub communicators: u64,
    /// Operations completed so far.
    pub operations: u64,
    /// Operations waiting for ranks now.
    pub pending: u64,
    /// Failures so far.
    pub failures: u64,
}

/// From the coordinator to a rank's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRank {
    /// The session stands.
    Welcome {
        /// Its number.
        session: SessionId,
        /// Proves the session to data connections.
        secret: u64,
    },
    /// Answer to a ping.
    Pong,
    /// All ranks have joined.
    Joined {
        /// The communicator.
        comm: CommId,
        /// The caller's rank in it.
        rank: Rank,
        /// Its members by rank.
        members: Vec<Member>,
        /// How bytes may move.
        offer: Offer,
        /// Bytes of one rank's slot of a round.
        slot_bytes: u32,
    },
    /// How bytes do move; the communicator is ready.
    Staged {
        /// The communicator.
        comm: CommId,
        /// The road.
        kind: StagingKind,
    },
    /// Operations of the submission may run: those of one communicator in order, those of several side by side.
    Go(Release),
    /// All ranks have said what becomes a window.
    Window {
        /// Where rank 0 collects and hands out descriptors of memory; `None` where there will be no window.
        listener: Option<String>,
        /// Bytes of every rank's part.
        bytes: Vec<u64>,
    },
    /// What all ranks agreed on.
    Agreed {
        /// Whether it went well everywhere.
        fine: bool,
    },
    /// A barrier is complete, or a rank has left, or a split left the caller out.
    Done,
    /// The data connection is accepted.
    Attached,
    /// The request failed.
    Failed(Fault),
    /// A communicator failed, whatever its ranks are doing.
    CommFailed {
        /// The communicator.
        comm: CommId,
        /// Why.
        fault: Fault,
    },
    /// A line for a person, about who waits for whom.
    Notice(String),
    /// Answer to stats.
    Stats(StatsReply),
    /// Answer to a prediction.
    Predicted(VirtualSpan),
    /// Answer to an inspection.
    Snapshot(Box<Snapshot>),
    /// What a submission on a stream takes in the model; its release follows.
    Modelled(VirtualSpan),
    /// The modelled time at which a rank's last operation ended.
    Clock(VirtualTime),
}

/// The bit that makes a number of [`ToCoordinator::Submit`] that of a stream. A thread that puts work on a stream goes
/// on, and the stream wants to know how long it takes.
pub const STREAM: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_does_not_change_an_id() {
        let mut padded = [0_u8; 128];
        padded[..3].copy_from_slice(b"job");
        assert_eq!(UniqueId::new(&padded), UniqueId::new(b"job"));
    }

    #[test]
    fn an_id_never_prints_its_bytes() {
        assert!(!format!("{:?}", UniqueId::new(b"secret-token")).contains("secret"));
    }
}
