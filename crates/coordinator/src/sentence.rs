//! The sentences people read when ranks do not fit together: who, what, where, and what to do.

use std::collections::BTreeMap;

use fakegpu_proto::{Action, Conflict, Fault};
use fakegpu_units::{GlobalRank, HostSpan, Rank, Ranks};

use crate::Coordinator;
use crate::batches::Key;
use crate::comm::{Comm, Lineup, Slot, Standing};
use crate::occupation::{Occupation, Occupations};
use crate::pairs::Ends;
use crate::patience::Missed;

/// A mismatch, described.
pub(crate) struct Mismatch {
    pub(crate) text: String,
    pub(crate) minority: Vec<Rank>,
}

/// One way of calling, and who called so.
struct Camp {
    action: Action,
    ranks: Vec<Rank>,
}

/// Groups the calls of a slot by what must be the same, the smallest camp first.
fn camps(slot: &Slot) -> Vec<Camp> {
    let mut camps: Vec<Camp> = Vec::new();
    for (rank, entry) in slot.present() {
        match camps.iter_mut().find(|camp| camp.action.signature() == entry.action.signature()) {
            Some(camp) => camp.ranks.push(rank),
            None => camps.push(Camp { action: entry.action.clone(), ranks: vec![rank] }),
        }
    }
    camps.sort_by_key(|camp| (camp.ranks.len(), std::cmp::Reverse(camp.ranks[0])));
    camps
}

/// Describes the oldest conflict of a communicator.
pub(crate) fn mismatch(comm: &Comm) -> Option<Mismatch> {
    let conflict = |lineup: &'_ Lineup| lineup.slots.iter().position(|slot| slot.conflict);
    let (lineup, at) = match conflict(&comm.order) {
        Some(at) => (&comm.order, at),
        None => (&comm.exchanges, conflict(&comm.exchanges)?),
    };
    let slot = lineup.slots.get(at)?;
    let camps = camps(slot);
    let (minority, majority) = (camps.first()?, camps.last()?);
    let fields = fields(&camps);
    let calls: Vec<String> =
        camps.iter().map(|camp| format!("{} called {}", Ranks(&camp.ranks), camp.action)).collect();
    let mut text = format!(
        "mismatch at operation {} of communicator {} ({} ranks): {fields}: {}",
        comm.ran + at as u64,
        comm.id,
        comm.size(),
        calls.join("; ")
    );
    let missing = slot.missing();
    if !missing.is_empty() {
        text.push_str(&format!("; {} had not called yet", Ranks(&missing)));
    }
    text.push_str(&shifted(comm, lineup, at, minority, majority).unwrap_or_default());
    if comm.history.is_empty() {
        text.push_str(&match comm.transfers {
            0 => ". It is the communicator's first operation".to_owned(),
            _ => format!(". Its ranks called it {}", comm.progress()),
        });
    } else {
        let skip = comm.history.len().saturating_sub(NEIGHBOURS);
        let before: Vec<String> = comm.history.iter().skip(skip).map(ToString::to_string).collect();
        text.push_str(&format!(". Before it, all called {}", before.join(", ")));
    }
    for camp in [minority, majority] {
        text.push_str(&after(lineup, at, camp));
    }
    text.push_str(". All ranks must make the same calls in the same order");
    Some(Mismatch { text, minority: minority.ranks.clone() })
}

/// What a camp has called behind the conflict already, if it has.
fn after(lineup: &Lineup, at: usize, camp: &Camp) -> String {
    let Some(&rank) = camp.ranks.first() else { return String::new() };
    let calls: Vec<String> = lineup
        .slots
        .iter()
        .skip(at + 1)
        .take(NEIGHBOURS)
        .filter_map(|slot| Some(slot.entries.get(rank.index())?.as_ref()?.action.to_string()))
        .collect();
    if calls.is_empty() {
        String::new()
    } else {
        format!(". After it, rank {rank} called {}", calls.join(", "))
    }
}

/// Describes a send and a receive whose sizes differ.
pub(crate) fn unequal(comm: &Comm, ends: Ends, number: u64) -> String {
    let Some((send, recv)) = comm.pairs.get(ends, number).and_then(|pair| pair.send.zip(pair.recv)) else {
        return String::new();
    };
    format!(
        "mismatch between {} and {} on communicator {}, in their transfer {number}: count differs: {} sends {} bytes by {}, {} receives {} bytes by {}. \
         Both sides of a transfer must have the same size",
        comm.member_name(ends.src),
        comm.member_name(ends.dst),
        comm.id,
        Ranks(&[ends.src]),
        send.transfer.bytes(),
        send.transfer,
        Ranks(&[ends.dst]),
        recv.transfer.bytes(),
        recv.transfer,
    )
}

fn fields(camps: &[Camp]) -> String {
    let mut differing: Vec<Conflict> = Vec::new();
    for camp in &camps[1..] {
        for conflict in camps[0].action.conflicts(&camp.action) {
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

/// Whether the minority is one operation ahead of the others, having skipped one, or behind, having called one
/// twice. What the others call next is known where they have called it; else it is taken from what followed the
/// last time.
fn shifted(comm: &Comm, lineup: &Lineup, at: usize, minority: &Camp, majority: &Camp) -> Option<String> {
    let (odd, usual) = (minority.action.signature(), majority.action.signature());
    let next = lineup.slots.get(at + 1).and_then(|slot| {
        let (_, entry) = slot.present().find(|(rank, _)| majority.ranks.contains(rank))?;
        Some(entry.action.signature())
    });
    let ranks = Ranks(&minority.ranks);
    let are = if minority.ranks.len() == 1 { "it is" } else { "they are" };
    if next == Some(odd) {
        return Some(format!(
            ". What {ranks} called is what the others call next: {are} one operation ahead"
        ));
    }
    let history: Vec<_> = comm.history.iter().map(Action::signature).collect();
    let followed = history.windows(2).rev().find(|pair| pair[0] == usual).map(|pair| pair[1]);
    if at == 0 && followed == Some(odd) {
        return Some(format!(
            ". What {ranks} called is what followed the others' call before: {are} one operation ahead, having skipped one"
        ));
    }
    if at == 0 && history.last() == Some(&odd) {
        return Some(format!(
            ". What {ranks} called is what all called just before: {are} one operation behind, having called one more"
        ));
    }
    None
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

/// Operations around a conflict that are named, on each side.
const NEIGHBOURS: usize = 3;

/// How many of the operations that another is tied to are described.
const TIES_SHOWN: usize = 3;

fn absence(coordinator: &Coordinator, comm: &Comm) -> String {
    let missed = coordinator.missed(comm.id);
    let occupations = Occupations::of(coordinator);
    let describe = |missed: &Missed| described(coordinator, &occupations, missed);
    let oldest = coordinator.longest(comm.id).map(|(_, key)| key);
    if let [one] = missed.as_slice()
        && Some(one.key) == oldest
    {
        return describe(one);
    }
    let Some(oldest) = oldest else { return String::new() };
    let call = (0..comm.size()).find_map(|rank| coordinator.call_at(oldest, Rank::from_index(rank)));
    let call = call.unwrap_or_default();
    let mut text = match oldest {
        Key::Order(_, number) => format!(
            "operation {} of communicator {}, {call}, was called by all its ranks",
            comm.number_of(number),
            comm.id
        ),
        _ => format!("{call} on communicator {} was called by all it needs", comm.id),
    };
    if !missed.is_empty() {
        let shown: Vec<String> = missed.iter().take(TIES_SHOWN).map(describe).collect();
        text.push_str(&format!(
            ", but what they called before it or in one group with it is not complete: {}",
            shown.join("; ")
        ));
    }
    if missed.len() > TIES_SHOWN {
        text.push_str(&format!("; and {} more", missed.len() - TIES_SHOWN));
    }
    text
}

/// An operation that misses ranks: who called it, and what the others are doing.
fn described(coordinator: &Coordinator, occupations: &Occupations, missed: &Missed) -> String {
    let Some(comm) = coordinator.comms.get(&missed.key.comm()) else { return String::new() };
    let mut reasons: BTreeMap<String, Vec<Rank>> = BTreeMap::new();
    for &rank in &missed.ranks {
        reasons.entry(whereabouts(coordinator, occupations, comm, rank)).or_default().push(rank);
    }
    let missing: Vec<String> =
        reasons.iter().map(|(reason, ranks)| format!("{} ({reason})", Ranks(ranks))).collect();
    let missing = missing.join(", ");
    let callers = |rank: &Rank| !missed.ranks.contains(rank);
    let call = |rank: Rank| coordinator.call_at(missed.key, rank).unwrap_or_default();
    match missed.key {
        Key::Order(_, number) | Key::Exchange(_, number) => {
            let present: Vec<Rank> = coordinator
                .slot(missed.key)
                .map_or_else(Vec::new, |slot| slot.present().map(|(rank, _)| rank).collect());
            let name = present.first().map(|&rank| call(rank)).unwrap_or_default();
            let number = match missed.key {
                Key::Order(..) => comm.number_of(number),
                _ => comm.ran + number.saturating_sub(comm.exchanges.base),
            };
            format!(
                "operation {number} of communicator {}, {name}, was called by {} and misses {missing}",
                comm.id,
                Ranks(&present)
            )
        }
        Key::Pair(_, ends, _) => {
            let waiter = [ends.src, ends.dst].into_iter().find(callers).unwrap_or(ends.src);
            let peer_calls = if waiter == ends.src { "ncclRecv" } else { "ncclSend" };
            format!(
                "rank {waiter} waits in {} on communicator {} for {missing} to call {peer_calls}",
                call(waiter),
                comm.id
            )
        }
        Key::Await(_, rank, _) => {
            format!("rank {rank} waits in {} on communicator {} for {missing} to signal", call(rank), comm.id)
        }
        Key::Free(_) => String::new(),
    }
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
            let outside = outside(coordinator, member.global);
            format!("alive and {outside}, on node {}", coordinator.world.node_name(comm.nodes[rank.index()]))
        }
    }
}

/// What a rank does that waits in nothing.
pub(crate) fn outside(coordinator: &Coordinator, rank: GlobalRank) -> String {
    match coordinator.batches.count_of(rank) {
        0 => "outside NCCL".to_owned(),
        1 => "outside NCCL, with 1 call under way".to_owned(),
        count => format!("outside NCCL, with {count} calls under way"),
    }
}

pub(crate) fn waits_in(coordinator: &Coordinator, occupation: Occupation) -> String {
    match occupation {
        Occupation::Calls(batch) => match coordinator.call_of(batch) {
            Some((comm, call)) => format!("waiting in {call} on communicator {comm}"),
            None => "waiting in another NCCL call".to_owned(),
        },
        Occupation::Barrier(comm) => format!("waiting at the barrier of communicator {comm}"),
        Occupation::Staging(comm) => format!("waiting for the others to map communicator {comm}'s segment"),
        Occupation::Shrinking(comm) => format!("waiting in ncclCommShrink of communicator {comm}"),
        Occupation::Joining => "waiting in ncclCommInitRank for another communicator".to_owned(),
    }
}

/// Describes a death.
pub(crate) fn death(comm: &Comm, gone: &[Rank], process: &str) -> String {
    let globals: Vec<Rank> = gone.iter().map(|rank| Rank(comm.members[rank.index()].global.0)).collect();
    let global = if globals == gone { String::new() } else { format!(", global {}", Ranks(&globals)) };
    let waiting = comm.order.slots.front().and_then(|slot| slot.present().next());
    let place = match waiting {
        Some((_, entry)) => format!("while operation {}, {}, was being called", comm.ran, entry.action),
        None if comm.is_idle() => comm.progress(),
        None => "while others wait in sends and receives".to_owned(),
    };
    format!("{} of communicator {}{global} ({process}) died {place}", Ranks(gone), comm.id)
}

/// Describes a call that a rank which is no longer there would have to make, too.
pub(crate) fn needs_leaver(comm: &Comm, rank: Rank, action: &Action, leaver: Rank) -> String {
    let name = comm.member_name(leaver);
    if comm.members[leaver.index()].standing == Standing::Dead {
        return format!(
            "rank {rank} calls {action} on communicator {}, and {name}, which would have to call it too, has died: \
             leave the dead behind with ncclCommShrink",
            comm.id
        );
    }
    format!(
        "rank {rank} calls {action} on communicator {}, which {name} has left {}: \
         all ranks must make the same calls before they destroy a communicator or exit",
        comm.id,
        comm.progress()
    )
}

/// Why a communicator cannot grow that a rank has left.
pub(crate) fn cannot_grow(comm: &Comm, leaver: Rank) -> Fault {
    let name = comm.member_name(leaver);
    Fault::remote(format!(
        "communicator {} cannot grow: {name} has left it, and all its ranks must take part",
        comm.id
    ))
}

/// Describes a call on a communicator that another rank has left, where that rank is not needed.
pub(crate) fn used_after_leave(comm: &Comm, rank: Rank, action: &Action, leaver: Rank) -> String {
    format!(
        "rank {rank} calls {action} on communicator {}, which {} has left already: with NCCL this may hang or fail, \
         destroy a communicator when all its ranks are done with it",
        comm.id,
        comm.member_name(leaver)
    )
}

impl Comm {
    /// How far it has come, in words.
    pub(crate) fn progress(&self) -> String {
        let count = |number: u64, what: &str| match number {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{number} {what}s")),
        };
        match (count(self.ran, "operation"), count(self.transfers, "transfer")) {
            (None, None) => "before its first operation".to_owned(),
            (Some(ran), None) => format!("after {ran}"),
            (None, Some(transfers)) => format!("after {transfers}"),
            (Some(ran), Some(transfers)) => format!("after {ran} and {transfers}"),
        }
    }
}
