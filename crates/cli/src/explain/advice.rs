//! What to do about a failure, by its kind.

use fakegpu_proto::event::FailureKind;
use fakegpu_units::GlobalRank;

use crate::prose::ranks;

/// One or two sentences, the most promising first.
pub(super) fn hints(failure: FailureKind, concerned: &[GlobalRank], pid: Option<u32>) -> Vec<String> {
    let who = if concerned.is_empty() { "the ranks named above".to_owned() } else { ranks(concerned) };
    let hints: &[String] = &match failure {
        FailureKind::Mismatch => [
            format!(
                "Look where {who} decides what to call: a branch on the rank, a loop of another length, a step left out."
            ),
            "All ranks of a communicator must make the same calls in the same order, with equal counts and types."
                .to_owned(),
        ],
        FailureKind::JoinTimeout => [
            format!("Look whether {who} was started at all, with the same id, size and coordinator as the others."),
            "Where ranks only start slowly, raise FAKEGPU_JOIN_TIMEOUT_MS.".to_owned(),
        ],
        FailureKind::CollectiveTimeout => [
            match pid {
                Some(pid) => format!(
                    "Look at what {who} does instead of calling: `py-spy dump --pid {pid}`, or `gdb -p {pid}`, while it lives."
                ),
                None => format!("Look at what {who} does instead of calling; `fakegpu ps` shows a live job."),
            },
            "Where it only computes for long, raise FAKEGPU_COLLECTIVE_TIMEOUT_MS.".to_owned(),
        ],
        FailureKind::RankDied => [
            format!(
                "Begin with the output and the exit status of {who}: 137 (SIGKILL) is mostly lack of memory, 139 (SIGSEGV) a bad pointer."
            ),
            "The errors of the other ranks are consequences.".to_owned(),
        ],
        FailureKind::RankLeft => [
            format!("Look why {who} ended in order while others went on: data of another length is the usual reason."),
            "Let all ranks agree on the number of steps, or end the loop together.".to_owned(),
        ],
        FailureKind::Aborted => [
            format!("Look in the output of {who} why it called ncclCommAbort; PyTorch's watchdog does it after an error."),
            "The errors of the other ranks are consequences.".to_owned(),
        ],
        FailureKind::JoinRefused => [
            "The sentence says which value differs: start all ranks with the same one, and each rank once.".to_owned(),
            "`fakegpu check --env` shows what a process's environment comes to.".to_owned(),
        ],
        FailureKind::Staging => [
            "`fakegpu doctor` says how memory, descriptors and limits stand on this machine.".to_owned(),
            "FAKEGPU_STAGING_FORCE_SOCKET=1 does without shared memory.".to_owned(),
        ],
        FailureKind::Deadlock => [
            "Sends and receives that wait for each other belong between ncclGroupStart and ncclGroupEnd, or one side must receive first."
                .to_owned(),
            "Ranks that share several communicators must use them in the same order.".to_owned(),
        ],
        FailureKind::Revoked => [
            "The program asked for it: after ncclCommRevoke, go on in a communicator that ncclCommShrink makes.".to_owned(),
            format!("If it should not have, look for the call in {who}."),
        ],
        FailureKind::Injected => [
            "It was asked for (FAKEGPU_NCCL_FAULT_*, or a fault rule): the question is what the program made of it."
                .to_owned(),
            "Unset the variable to run without it.".to_owned(),
        ],
    };
    hints.to_vec()
}
