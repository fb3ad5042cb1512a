//! What to do about a failure, by its kind.

use fakegpu_proto::event::FailureKind;
use fakegpu_units::GlobalRank;

use crate::prose::ranks;

/// Whom a failure is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concerned<'a> {
    /// The ranks at fault.
    pub(super) ranks: &'a [GlobalRank],
    /// Whether they wait in sends and receives.
    pub(super) is_pairwise: bool,
}

impl Concerned<'_> {
    fn who(self) -> String {
        if self.ranks.is_empty() { "the ranks named above".to_owned() } else { ranks(self.ranks) }
    }

    /// The ranks and what they do, in the right number: `rank 2 decides`, `ranks 0, 1 decide`.
    fn act(self, one: &str, several: &str) -> String {
        format!("{} {}", self.who(), if self.ranks.len() == 1 { one } else { several })
    }
}

/// One or two sentences, the most promising first.
pub(super) fn hints(failure: FailureKind, concerned: &Concerned<'_>) -> Vec<String> {
    let who = concerned.who();
    match failure {
        FailureKind::Mismatch => mismatch(*concerned),
        FailureKind::JoinTimeout => vec![
            format!("Look whether {who} started at all, with the same id, size and coordinator as the others."),
            "Where ranks only start slowly, raise FAKEGPU_JOIN_TIMEOUT_MS.".to_owned(),
        ],
        FailureKind::CollectiveTimeout => vec![
            format!(
                "Look at what {} instead: run it again, and while it hangs, `fakegpu ps` names the process and `py-spy dump --pid` or `gdb -p` shows where it is.",
                concerned.act("does", "do")
            ),
            "Where it only computes for long, raise FAKEGPU_COLLECTIVE_TIMEOUT_MS.".to_owned(),
        ],
        FailureKind::RankDied => vec![
            format!(
                "Begin with the output and the exit status of {who}: 137 (SIGKILL) is mostly lack of memory, 139 (SIGSEGV) a bad pointer."
            ),
            "The errors of the other ranks are consequences.".to_owned(),
        ],
        FailureKind::RankLeft => vec![
            format!("Look why {who} ended in order while others went on: data of another length is the usual reason."),
            "Let all ranks agree on the number of steps, or end the loop together.".to_owned(),
        ],
        FailureKind::Aborted => vec![
            format!("Look in the output of {who} for the reason of ncclCommAbort; PyTorch's watchdog calls it after an error."),
            "The errors of the other ranks are consequences.".to_owned(),
        ],
        FailureKind::JoinRefused => vec![
            "The sentence says which value differs: start all ranks with the same one, and each rank once.".to_owned(),
            "`fakegpu check --env` shows what a process's environment comes to.".to_owned(),
        ],
        FailureKind::Staging => vec![
            "`fakegpu doctor` says how memory, descriptors and limits stand on this machine.".to_owned(),
            "FAKEGPU_STAGING_FORCE_SOCKET=1 does without shared memory.".to_owned(),
        ],
        FailureKind::Deadlock if concerned.is_pairwise => vec![
            "Sends and receives that wait for each other belong between ncclGroupStart and ncclGroupEnd (PyTorch: batch_isend_irecv), or one side must receive first."
                .to_owned(),
        ],
        FailureKind::Deadlock => vec![
            "Ranks that share several communicators must use them in the same order: look which of them comes first where, and why."
                .to_owned(),
        ],
        FailureKind::Revoked => vec![
            "The program asked for it: after ncclCommRevoke, go on in a communicator that ncclCommShrink makes.".to_owned(),
            format!("If it should not have, look for the call in {who}."),
        ],
        FailureKind::Injected => vec![
            "It was asked for (FAKEGPU_NCCL_FAULT_*, or a fault rule): the question is what the program made of it."
                .to_owned(),
            "Unset the variable to run without it.".to_owned(),
        ],
    }
}

fn mismatch(concerned: Concerned<'_>) -> Vec<String> {
    let (reason, subsystem) = if concerned.is_pairwise {
        ("a size that each side computes for itself, a send too many, a peer mistaken", "P2P")
    } else {
        ("a branch on the rank, a loop of another length, a step left out", "COLL")
    };
    vec![
        format!("Look where {} what to call: {reason}.", concerned.act("decides", "decide")),
        format!("NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS={subsystem} lists every call of every rank."),
    ]
}

/// For a job that was stopped: the ranks that had not come to where others waited, and those that ended first.
pub(super) fn after_a_stop(late: &[GlobalRank], first: &[GlobalRank]) -> Vec<String> {
    let hung = if late.is_empty() {
        "If it hung: the calls above say how far each rank came, and in what it waited.".to_owned()
    } else {
        format!(
            "If it hung: look at what happened in {} instead of a call. While a job hangs, `fakegpu ps` names the process.",
            ranks(late)
        )
    };
    vec![hung, format!("If nobody stopped it: begin with the output of {}, which ended first.", ranks(first))]
}
