//! A snapshot of a job as people read it: who waits in what, since when, for whom, and who keeps them all waiting.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use fakegpu_proto::{CommView, RankView, Snapshot};
use fakegpu_units::{GlobalRank, Rank};

use crate::prose::{Ink, counted, plain, ranks, span};

/// More ranks than these are told in groups that do the same.
const ROWS_MAX: usize = 16;

/// The smallest ranks of a group are named with their processes, to look at them.
const NAMED_MAX: usize = 4;

/// Ranks that do the same.
struct Group<'a> {
    doing: &'a str,
    waits_for: &'a [GlobalRank],
    members: Vec<&'a RankView>,
}

/// Every rank, then every communicator with something open.
pub(super) fn ps(snapshot: &Snapshot, ink: Ink) -> String {
    let mut page = Page::new(snapshot, ink);
    page.ranks();
    page.culprits();
    page.communicators(|comm| comm.pending > 0 || comm.fault.is_some());
    page.text
}

/// One line, to tell jobs apart: `4 ranks of train, 3 wait`.
pub(super) fn glance(snapshot: &Snapshot) -> String {
    let mut programs: Vec<&str> = snapshot.ranks.iter().map(|rank| rank.program.as_str()).collect();
    programs.sort_unstable();
    programs.dedup();
    let program = match programs.as_slice() {
        [one] if !one.is_empty() => format!(" of {}", plain(one)),
        _ => String::new(),
    };
    match snapshot.ranks.len() {
        0 => waiting(snapshot),
        all => format!("{}{program}, {}", counted(all, "rank"), waiting(snapshot)),
    }
}

/// How many ranks wait, in words.
fn waiting(snapshot: &Snapshot) -> String {
    let all = snapshot.ranks.len();
    match snapshot.ranks.iter().filter(|rank| is_waiting(rank)).count() {
        0 if all == 0 => "nobody has joined".to_owned(),
        0 => "nobody waits".to_owned(),
        waiting if waiting == all => "all wait".to_owned(),
        1 => "1 waits".to_owned(),
        many => format!("{many} wait"),
    }
}

/// All that is known.
pub(super) fn dump(snapshot: &Snapshot, ink: Ink) -> String {
    let mut page = Page::new(snapshot, ink);
    page.ranks();
    page.culprits();
    page.communicators(|_| true);
    page.calls();
    page.text
}

struct Page<'a> {
    snapshot: &'a Snapshot,
    ink: Ink,
    text: String,
}

impl<'a> Page<'a> {
    fn new(snapshot: &'a Snapshot, ink: Ink) -> Self {
        let mut page = Self { snapshot, ink, text: String::new() };
        let head = format!(
            "{}, {}, {} after the coordinator's start: {}",
            counted(snapshot.ranks.len(), "rank"),
            counted(snapshot.communicators.len(), "communicator"),
            span(snapshot.at_ms),
            waiting(snapshot),
        );
        page.line(&ink.head(&head));
        page
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn ranks(&mut self) {
        let snapshot = self.snapshot;
        if snapshot.ranks.is_empty() {
            return;
        }
        self.line("");
        if snapshot.ranks.len() <= ROWS_MAX {
            let table = table(&snapshot.ranks);
            table.lines().for_each(|line| self.line(line));
        } else {
            for group in groups(&snapshot.ranks) {
                self.line(&group.sentence());
            }
        }
    }

    /// Who is waited for and waits for no rank: where a person must look. Nobody, where ranks wait in a circle.
    fn culprits(&mut self) {
        let snapshot = self.snapshot;
        let by_rank: BTreeMap<GlobalRank, &RankView> =
            snapshot.ranks.iter().map(|rank| (rank.rank, rank)).collect();
        let mut awaited: Vec<GlobalRank> =
            snapshot.ranks.iter().flat_map(|rank| rank.waits_for.iter().copied()).collect();
        awaited.sort_unstable();
        awaited.dedup();
        if awaited.is_empty() {
            return;
        }
        let free: Vec<GlobalRank> = awaited
            .iter()
            .copied()
            .filter(|rank| by_rank.get(rank).is_none_or(|rank| rank.waits_for.is_empty()))
            .collect();
        self.line("");
        if free.is_empty() {
            let circle = circle(&by_rank, &awaited);
            return self.line(&self.ink.mark(&format!("They wait in a circle: {circle}.")));
        }
        let known: Vec<&RankView> = free.iter().filter_map(|rank| by_rank.get(rank).copied()).collect();
        let listed = known.len() == free.len() && free.len() <= NAMED_MAX;
        let who = if listed { String::new() } else { format!(" {}", ranks(&free)) };
        self.line(&self.ink.mark(&format!("Who keeps them waiting:{who}")));
        for rank in known.iter().take(NAMED_MAX) {
            let place = format!("rank {} (pid {}, {})", rank.rank, pid(rank), plain(&rank.node));
            let how = if rank.doing.contains("outside NCCL") {
                format!("; `py-spy dump --pid {0}` or `gdb -p {0}` shows where", rank.pid)
            } else {
                String::new()
            };
            self.line(&format!("  {place}: {}{how}", does(rank, false)));
        }
    }

    fn communicators(&mut self, shown: impl Fn(&CommView) -> bool) {
        let snapshot = self.snapshot;
        let mut shown = snapshot.communicators.iter().filter(|comm| shown(comm)).peekable();
        if shown.peek().is_some() {
            self.line("");
        }
        for comm in shown {
            self.line(&communicator(comm));
            if let Some(fault) = &comm.fault {
                self.line(&self.ink.bad(&format!("  failed: {}", plain(fault))));
            }
        }
    }

    fn calls(&mut self) {
        let mut groups: Vec<(&RankView, Vec<GlobalRank>)> = Vec::new();
        for rank in &self.snapshot.ranks {
            let same = |(first, _): &&mut (&RankView, Vec<GlobalRank>)| {
                (first.calls, &first.recent) == (rank.calls, &rank.recent)
            };
            match groups.iter_mut().find(same) {
                Some((_, members)) => members.push(rank.rank),
                None => groups.push((rank, vec![rank.rank])),
            }
        }
        for (rank, members) in groups {
            self.line("");
            let calls = counted(usize::try_from(rank.calls).unwrap_or(usize::MAX), "call");
            self.line(&self.ink.head(&format!("{}: {calls}", ranks(&members))));
            let first = rank.calls.saturating_sub(rank.recent.len() as u64);
            for (place, call) in (first..).zip(&rank.recent) {
                self.line(&format!("  {place:>6}  {}", plain(call)));
            }
        }
    }
}

/// A way round among ranks that all wait, from the first of them; a long one is cut.
fn circle(by_rank: &BTreeMap<GlobalRank, &RankView>, awaited: &[GlobalRank]) -> String {
    const SHOWN: usize = 8;
    let mut path: Vec<GlobalRank> = Vec::new();
    let mut next = awaited.first().copied();
    while let Some(rank) = next {
        if let Some(start) = path.iter().position(|seen| *seen == rank) {
            path.drain(..start);
            break;
        }
        path.push(rank);
        next = by_rank.get(&rank).and_then(|view| view.waits_for.first().copied());
    }
    let heirs = path.iter().skip(1).chain(path.first());
    let mut steps: Vec<String> = path
        .iter()
        .zip(heirs)
        .take(SHOWN)
        .map(|(one, other)| format!("rank {one} for rank {other}"))
        .collect();
    if path.len() > SHOWN {
        steps.push(format!("and on over {} ranks", path.len()));
    }
    steps.join(", ")
}

fn table(all: &[RankView]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["RANK", "PID", "NODE", "SINCE", "DOES", "WAITS FOR"]);
    table.add_rows(all.iter().map(|rank| {
        [
            rank.rank.to_string(),
            pid(rank),
            plain(&rank.node),
            rank.waiting_ms.map_or_else(String::new, span),
            does(rank, false),
            if rank.waits_for.is_empty() { String::new() } else { ranks(&rank.waits_for) },
        ]
    }));
    for at in [0, 1, 3] {
        if let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn is_waiting(rank: &RankView) -> bool {
    rank.waiting_ms.is_some() || rank.doing.starts_with("waiting ")
}

/// Its process; nothing of it is left where the rank is gone.
fn pid(rank: &RankView) -> String {
    if rank.pid == 0 { "-".to_owned() } else { rank.pid.to_string() }
}

/// What a rank does, as a verb: `waits in …`, or `wait in …` for several; what is no waiting is said as it is.
fn does(rank: &RankView, many: bool) -> String {
    let verb = if many { "wait" } else { "waits" };
    match (rank.doing.strip_prefix("waiting "), rank.waiting_ms) {
        (Some(rest), _) => format!("{verb} {}", plain(rest)),
        (None, Some(_)) => format!("{verb} in {}", plain(&rank.doing)),
        (None, None) => plain(&rank.doing),
    }
}

fn groups(all: &[RankView]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, &[GlobalRank], bool), usize> = BTreeMap::new();
    for rank in all {
        let key = (rank.doing.as_str(), rank.waits_for.as_slice(), rank.waiting_ms.is_some());
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.members.push(rank),
            None => {
                groups.push(Group { doing: &rank.doing, waits_for: &rank.waits_for, members: vec![rank] });
            }
        }
    }
    groups
}

impl Group<'_> {
    /// `ranks 0-62 wait in … since 12.3 s for rank 63`.
    fn sentence(&self) -> String {
        let Some(first) = self.members.first() else { return self.doing.to_owned() };
        let members: Vec<GlobalRank> = self.members.iter().map(|rank| rank.rank).collect();
        let colon = if is_waiting(first) { "" } else { ":" };
        let mut text = format!("{}{colon} {}", ranks(&members), does(first, members.len() > 1));
        if let Some(longest) = self.members.iter().filter_map(|rank| rank.waiting_ms).max() {
            text.push_str(&format!(" since {}", span(longest)));
        }
        if !self.waits_for.is_empty() {
            text.push_str(&format!(" for {}", ranks(self.waits_for)));
        }
        if self.members.len() <= NAMED_MAX {
            let named = self.members.iter().map(|rank| format!("pid {} on {}", pid(rank), plain(&rank.node)));
            text.push_str(&format!(" ({})", named.collect::<Vec<_>>().join(", ")));
        }
        text
    }
}

fn communicator(comm: &CommView) -> String {
    let name = comm.name.as_ref().map_or_else(String::new, |name| format!(" `{}`", plain(name)));
    let mut text =
        format!("communicator {}{name}: {}, {}", comm.comm, ranks(&comm.members), plain(&comm.staging));
    match comm.pending {
        0 => text.push_str(&format!(", nothing pending, next is operation {}", comm.next)),
        pending => text.push_str(&format!(", {pending} pending")),
    }
    if let Some(oldest) = &comm.oldest {
        text.push_str(&format!("; the oldest, {}, misses {}", plain(oldest), missed(comm)));
    }
    text
}

/// The missing members, by their ranks in the job where the communicator numbers them otherwise.
fn missed(comm: &CommView) -> String {
    let local: Vec<GlobalRank> = comm.misses.iter().map(|rank| GlobalRank(rank.0)).collect();
    let of = |rank: &Rank| comm.members.get(rank.index()).copied();
    let global: Vec<GlobalRank> = comm.misses.iter().filter_map(of).collect();
    match local.is_empty() {
        true => "nobody".to_owned(),
        false if global == local || global.is_empty() => ranks(&local),
        false => format!("{} ({} of the job)", ranks(&local), ranks(&global)),
    }
}

#[cfg(test)]
mod tests {
    use fakegpu_units::{CommId, SeqNo};

    use super::*;

    const CALL: &str = "ncclAllReduce(count=1048576, float32, sum) on communicator 3";
    const INK: Ink = Ink { coloured: false };

    fn rank(number: u32, doing: &str, waiting_ms: Option<u64>, waits_for: &[u32]) -> RankView {
        RankView {
            rank: GlobalRank(number),
            pid: 4000 + number,
            program: "train".to_owned(),
            node: format!("node{}", number / 8),
            doing: doing.to_owned(),
            waiting_ms,
            waits_for: waits_for.iter().copied().map(GlobalRank).collect(),
            calls: 3,
            recent: vec![CALL.to_owned(); 3],
        }
    }

    /// All but the last of `size` ranks wait for it.
    fn hung(size: u32) -> Snapshot {
        let last = size - 1;
        let mut all: Vec<RankView> = (0..last)
            .map(|number| {
                rank(number, &format!("waiting in {CALL}"), Some(12_300 + u64::from(number)), &[last])
            })
            .collect();
        all.push(RankView {
            calls: 2,
            recent: vec![CALL.to_owned(); 2],
            ..rank(last, "outside NCCL", None, &[])
        });
        let comm = |comm: u64, members: Vec<u32>| CommView {
            comm: CommId(comm),
            members: members.into_iter().map(GlobalRank).collect(),
            staging: "shared".to_owned(),
            next: SeqNo(2),
            ..CommView::default()
        };
        Snapshot {
            at_ms: 72_400,
            ranks: all,
            communicators: vec![
                comm(1, (0..size).collect()),
                CommView {
                    name: Some("dp".to_owned()),
                    pending: 1,
                    oldest: Some("ncclAllReduce(count=1048576, float32, sum)".to_owned()),
                    misses: vec![Rank(0)],
                    ..comm(3, (0..size).rev().collect())
                },
            ],
        }
    }

    #[test]
    fn a_glance_tells_jobs_apart() {
        assert_eq!(glance(&hung(4)), "4 ranks of train, 3 wait");
        assert_eq!(glance(&Snapshot::default()), "nobody has joined");
        let mut mixed = hung(2);
        mixed.ranks[0].program = "serve".to_owned();
        assert_eq!(glance(&mixed), "2 ranks, 1 waits");
    }

    #[test]
    fn a_few_ranks_are_a_table() {
        insta::assert_snapshot!(ps(&hung(4), INK));
    }

    #[test]
    fn many_ranks_are_told_in_groups() {
        insta::assert_snapshot!(ps(&hung(64), INK));
    }

    #[test]
    fn a_dump_has_calls_and_every_communicator() {
        insta::assert_snapshot!(dump(&hung(64), INK));
    }

    #[test]
    fn a_circle_is_said_to_be_one() {
        let mut snapshot = hung(2);
        snapshot.ranks = vec![
            rank(0, "ncclSend(count=4, bfloat16, to rank 1)", Some(900), &[1]),
            rank(1, "ncclSend(count=4, bfloat16, to rank 0)", Some(800), &[0]),
        ];
        snapshot.communicators[1].fault =
            Some("deadlock: rank 0 waits for rank 1, which waits for rank 0".to_owned());
        insta::assert_snapshot!(ps(&snapshot, INK));
    }

    #[test]
    fn a_job_that_runs_and_one_that_has_not_begun() {
        let mut snapshot = hung(2);
        snapshot.ranks = vec![rank(0, "outside NCCL", None, &[]), rank(1, "outside NCCL", None, &[])];
        snapshot.communicators.truncate(1);
        insta::assert_snapshot!(format!("{}--\n{}", ps(&snapshot, INK), ps(&Snapshot::default(), INK)));
    }

    #[test]
    fn ranks_that_are_gone_or_still_joining_are_told_apart_from_those_that_compute() {
        let mut snapshot = hung(4);
        snapshot.ranks[2] = rank(2, "waiting in ncclCommInitRank for another communicator", None, &[]);
        snapshot.ranks[3] = RankView { pid: 0, ..rank(3, "gone", None, &[]) };
        snapshot.ranks[0].waits_for = vec![GlobalRank(2), GlobalRank(3)];
        insta::assert_snapshot!(ps(&snapshot, INK));
    }

    #[test]
    fn names_of_programs_move_no_cursor() {
        let mut snapshot = hung(3);
        snapshot.ranks[0].node = "\u{1b}[2Jnode".to_owned();
        snapshot.communicators[1].name = Some("a\nb".to_owned());
        let text = dump(&snapshot, INK);
        assert!(!text.contains('\u{1b}') && text.contains("`a b`"), "{text}");
    }

    #[test]
    fn ten_thousand_ranks_are_told_at_once() {
        assert!(ps(&hung(10_000), INK).lines().count() < 10);
    }
}
