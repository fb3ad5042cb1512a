//! The sentences people read when ranks do not fit together: who, what, where, and what to do.

use std::collections::BTreeMap;

use fakegpu_proto::{Conflict, Descriptor};
use fakegpu_units::{HostSpan, Rank, Ranks};

use crate::Coordinator;
use crate::batch::Missed;
use crate::comm::{Comm, Slot, Standing};
use crate::occupation::{Occupation, Occupations};

/// A mismatch, described.
pub(crate) struct Mismatch {
    pub(crate) text: String,
    pub(crate) minority: Vec<Rank>,
}

/// One way of calling, and who called so.
struct Camp {
    descriptor: Descriptor,
    ranks: Vec<Rank>,
}

/// Groups the calls of a slot by what must be the same, the smallest camp first.
fn camps(slot: &Slot) -> Vec<Camp> {
    let mut camps: Vec<Camp> = Vec::new();
    for (rank, entry) in slot.present() {
        match camps.iter_mut().find(|camp| camp.descriptor.signature() == entry.descriptor.signature()) {
            Some(camp) => camp.ranks.push(rank),
            None => camps.push(Camp { descriptor: entry.descriptor, ranks: vec![rank] }),
        }
    }
    camps.sort_by_key(|camp| (camp.ranks.len(), std::cmp::Reverse(camp.ranks[0])));
    camps
}

/// Describes the oldest conflict of a communicator.
pub(crate) fn mismatch(comm: &Comm) -> Option<Mismatch> {
    let (at, slot) = comm.slots.iter().enumerate().find(|(_, slot)| slot.conflict)?;
    let camps = camps(slot);
    let (minority, majority) = (camps.first()?, camps.last()?);
    let fields = fields(&camps);
    let calls: Vec<String> =
        camps.iter().map(|camp| format!("{} called {}", Ranks(&camp.ranks), camp.descriptor)).collect();
    let mut text = format!(
        "mismatch at operation {} of communicator {} ({} ranks): {fields}: {}",
        comm.base + at as u64,
        comm.id,
        comm.size(),
        calls.join("; ")
    );
    let missing = slot.missing();
    if !missing.is_empty() {
        text.push_str(&format!("; {} had not called yet", Ranks(&missing)));
    }
    if let Some(ahead) = one_ahead(comm, at, minority, majority) {
        text.push_str(&ahead);
    }
    if comm.history.is_empty() {
        text.push_str(". It is the communicator's first operation");
    } else {
        let before: Vec<String> = comm.history.iter().map(ToString::to_string).collect();
        text.push_str(&format!(". Before it, all called {}", before.join(", ")));
    }
    text.push_str(". All ranks must make the same calls in the same order");
    Some(Mismatch { text, minority: minority.ranks.clone() })
}

fn fields(camps: &[Camp]) -> String {
    let mut differing: Vec<Conflict> = Vec::new();
    for camp in &camps[1..] {
        for conflict in camps[0].descriptor.conflicts(&camp.descriptor) {
            if !differing.contains(&conflict) {
                differing.push(conflict);
            }
        }
    }
    let names: Vec<&str> = differing.iter().map(|conflict| conflict.field()).collect();
    match names.as_slice() {
        [] => "calls differ".to_owned(),
        [one] => format!("{one} differs"),
        [rest @ .., last] => format!("{} and {last} differ", rest.join(", ")),
    }
}

/// Whether the minority's call is the one the majority makes next: then it skipped one.
fn one_ahead(comm: &Comm, at: usize, minority: &Camp, majority: &Camp) -> Option<String> {
    let next = comm.slots.get(at + 1)?;
    let (_, entry) = next.present().find(|(rank, _)| majority.ranks.contains(rank))?;
    (entry.descriptor.signature() == minority.descriptor.signature()).then(|| {
        format!(
            ". What {} called is what the others call next: it is one operation ahead",
            Ranks(&minority.ranks)
        )
    })
}

/// Describes an operation that nobody completed in time.
pub(crate) fn late(coordinator: &Coordinator, comm: &Comm, waited: HostSpan) -> String {
    format!(
        "timeout after {waited}: {}. If they are only slow, raise FAKEGPU_COLLECTIVE_TIMEOUT_MS",
        absence(coordinator, comm)
    )
}

/// Describes an operation that is not complete yet.
pub(crate) fn waiting(coordinator: &Coordinator, comm: &Comm, waited: HostSpan) -> String {
    format!("still waiting after {waited}: {}", absence(coordinator, comm))
}

/// How many of the operations that another is tied to are described.
const TIES_SHOWN: usize = 3;

fn absence(coordinator: &Coordinator, comm: &Comm) -> String {
    let missed = coordinator.missed(comm.id);
    let occupations = Occupations::of(coordinator);
    let describe = |missed: &Missed| described(coordinator, &occupations, missed);
    if let [one] = missed.as_slice()
        && one.comm == comm.id
    {
        return describe(one);
    }
    let call = comm.slots.front().and_then(|slot| slot.present().next());
    let call = call.map(|(_, entry)| entry.descriptor.to_string()).unwrap_or_default();
    let mut text =
        format!("operation {} of communicator {}, {call}, was called by all its ranks", comm.base, comm.id);
    if !missed.is_empty() {
        let shown: Vec<String> = missed.iter().take(TIES_SHOWN).map(describe).collect();
        text.push_str(&format!(", but groups tie it to others that are not complete: {}", shown.join("; ")));
    }
    if missed.len() > TIES_SHOWN {
        text.push_str(&format!("; and {} more", missed.len() - TIES_SHOWN));
    }
    text
}

/// An operation that misses ranks: who called it, and what the others are doing.
fn described(coordinator: &Coordinator, occupations: &Occupations, missed: &Missed) -> String {
    let Some(comm) = coordinator.comms.get(&missed.comm) else { return String::new() };
    let Some(slot) = comm.slot_at(missed.seq.0) else { return String::new() };
    let present: Vec<Rank> = slot.present().map(|(rank, _)| rank).collect();
    let call = slot.present().next().map(|(_, entry)| entry.descriptor.to_string()).unwrap_or_default();
    let mut reasons: BTreeMap<String, Vec<Rank>> = BTreeMap::new();
    for &rank in &missed.ranks {
        reasons.entry(whereabouts(coordinator, occupations, comm, rank)).or_default().push(rank);
    }
    let missing: Vec<String> =
        reasons.iter().map(|(reason, ranks)| format!("{} ({reason})", Ranks(ranks))).collect();
    format!(
        "operation {} of communicator {}, {call}, was called by {} and misses {}",
        missed.seq,
        comm.id,
        Ranks(&present),
        missing.join(", ")
    )
}

/// What a missing rank is doing, as far as can be seen from here.
fn whereabouts(coordinator: &Coordinator, occupations: &Occupations, comm: &Comm, rank: Rank) -> String {
    let member = &comm.members[rank.index()];
    if member.standing != Standing::Member {
        return "left".to_owned();
    }
    if coordinator.peers.peer_of(member.session).is_none() {
        return "gone".to_owned();
    }
    match occupations.get(member.global) {
        Some(occupation) => waits_in(coordinator, occupation),
        None => {
            format!(
                "alive and outside NCCL, on node {}",
                coordinator.world.node_name(comm.nodes[rank.index()])
            )
        }
    }
}

fn waits_in(coordinator: &Coordinator, occupation: Occupation) -> String {
    match occupation {
        Occupation::Calls(batch) => match coordinator.call_of(batch) {
            Some((comm, descriptor)) => format!("waiting in {descriptor} on communicator {comm}"),
            None => "waiting in another NCCL call".to_owned(),
        },
        Occupation::Barrier(comm) => format!("waiting at the barrier of communicator {comm}"),
        Occupation::Staging(comm) => format!("waiting for the others to map communicator {comm}'s segment"),
        Occupation::Joining => "waiting in ncclCommInitRank for another communicator".to_owned(),
    }
}

/// Describes a death.
pub(crate) fn death(comm: &Comm, gone: &[Rank], process: &str) -> String {
    let globals: Vec<Rank> = gone.iter().map(|rank| Rank(comm.members[rank.index()].global.0)).collect();
    let global = if globals == gone { String::new() } else { format!(", global {}", Ranks(&globals)) };
    let place = match comm.slots.front() {
        Some(slot) => match slot.present().next() {
            Some((_, entry)) => {
                format!("while operation {}, {}, was being called", comm.base, entry.descriptor)
            }
            None => format!("before operation {}", comm.base),
        },
        None => format!("after operation {} was matched", comm.base.saturating_sub(1)),
    };
    let place =
        if comm.base == 0 && comm.slots.is_empty() { "before its first operation".to_owned() } else { place };
    format!("{} of communicator {}{global} ({process}) died {place}", Ranks(gone), comm.id)
}
