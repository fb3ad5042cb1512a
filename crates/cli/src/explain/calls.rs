//! The last calls of several ranks: side by side where they must be the same, else one rank's after the other's.

use fakegpu_proto::RankHistory;
use fakegpu_report::FailureEntry;
use fakegpu_units::{CommId, GlobalRank};

use crate::prose::{Ink, WIDTH, counted, cut, plain, ranks};

/// Rows around the one where ranks part, by distance, the most telling first.
const AROUND: [isize; 6] = [0, -1, 1, -2, 2, -3];

/// Lines of the table, side by side and rank after rank.
const LINES_MAX: usize = 12;
const PATH_LINES_MAX: usize = 9;

/// Calls of one rank where they are not compared.
const PATH_CALLS_MAX: usize = 3;

/// Numbers of calls that differ by more than this count different things: ranks with communicators of their own.
const APART_MAX: u64 = 16;

/// Ways of calling that are shown of one place.
const WAYS_MAX: usize = 4;

/// Characters of a row's place, `call 1234567`.
const PLACE_WIDTH: usize = 12;

/// Calls that are one rank's own, so that others may do something else at the same place.
const OWN: [&str; 4] = ["ncclSend(", "ncclRecv(", "ncclPutSignal(", "ncclWaitSignal("];

/// One rank's call at one place, without the communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call<'a> {
    text: &'a str,
    /// The communicator, where the recorder says.
    comm: Option<CommId>,
}

/// What ranks did at one place.
#[derive(Debug)]
struct Row<'a> {
    /// Where: `call 42`.
    place: String,
    ways: Vec<Way<'a>>,
}

/// A way of calling, and who called so.
#[derive(Debug)]
struct Way<'a> {
    /// `None`: they have not come so far.
    call: Option<Call<'a>>,
    ranks: Vec<GlobalRank>,
}

/// The last calls of ranks that made the same.
#[derive(Debug)]
struct Path<'a> {
    ranks: Vec<GlobalRank>,
    calls: Vec<Call<'a>>,
    /// What came after; `None` where they wait in the last call.
    then: Option<&'a str>,
}

impl<'a> Call<'a> {
    /// From the recorder's words: `ncclAllReduce(…) on communicator 3`.
    fn parse(text: &'a str) -> Self {
        if let Some((call, comm)) = text.rsplit_once(" on communicator ")
            && let Ok(comm) = comm.parse()
        {
            return Self { text: call, comm: Some(CommId(comm)) };
        }
        Self { text, comm: None }
    }

    fn is_own(&self) -> bool {
        OWN.iter().any(|name| self.text.starts_with(name))
    }

    /// Whether two ranks may call these at one place. Groups of ranks use communicators of their own side by side, but
    /// all ranks of a failure belong to the communicator that failed.
    fn fits(&self, other: &Self, failed: Option<CommId>) -> bool {
        self.text == other.text && (self.comm == failed) == (other.comm == failed)
    }

    fn words(&self, failed: Option<CommId>) -> String {
        match self.comm {
            // Most calls are on the communicator that failed, and the headline names it.
            Some(comm) if Some(comm) != failed => plain(&format!("{} on communicator {comm}", self.text)),
            _ => plain(self.text),
        }
    }
}

/// The lines of the table; empty where the report has no history.
///
/// Where ranks must call the same, a row is a place in their order, and the first at which they part is marked. Where
/// they need not, as with sends and receives, each rank's calls stand alone, and where those at fault stopped is marked.
pub(super) fn table(failure: &FailureEntry, culprits: &[GlobalRank], ink: Ink) -> Vec<String> {
    let history = remembered(failure);
    if is_aligned(&history) {
        side_by_side(&by_place(&history, failure.communicator), failure.communicator, ink)
    } else {
        one_by_one(&paths(&history), culprits, failure.communicator, ink)
    }
}

/// Ranks that have not come to where others wait, as far as that is known of one that is dead.
pub(super) fn late(failure: &FailureEntry) -> Vec<GlobalRank> {
    let history = remembered(failure);
    let furthest = history.iter().map(|rank| rank.calls).max().unwrap_or(0);
    let is_aligned = is_aligned(&history);
    let is_late = |rank: &&&RankHistory| {
        if is_aligned {
            rank.calls < furthest && !rank.doing.starts_with("waiting ")
        } else {
            rank.doing == "outside NCCL"
        }
    };
    history.iter().filter(is_late).map(|rank| rank.rank).collect()
}

/// Of a process that ended in order nothing is remembered, which does not say that it called nothing.
fn remembered(failure: &FailureEntry) -> Vec<&RankHistory> {
    failure.history.iter().filter(|rank| rank.calls > 0 || rank.doing != "had left").collect()
}

fn side_by_side(rows: &[Row<'_>], failed: Option<CommId>, ink: Ink) -> Vec<String> {
    let parting = rows.iter().position(|row| row.parts(failed));
    let Some(pivot) = parting.or_else(|| rows.len().checked_sub(1)) else { return Vec::new() };
    let width = widest(rows.iter().flat_map(|row| &row.ways).map(|way| way.ranks.as_slice()));
    let mut shown: Vec<(usize, Vec<String>)> = Vec::new();
    for distance in AROUND {
        let Some(at) = pivot.checked_add_signed(distance) else { continue };
        let Some(row) = rows.get(at) else { continue };
        let lines = row.lines(parting == Some(at), width, failed, ink);
        if shown.iter().map(|(_, lines)| lines.len()).sum::<usize>() + lines.len() > LINES_MAX {
            break;
        }
        shown.push((at, lines));
    }
    shown.sort_by_key(|(at, _)| *at);
    shown.into_iter().flat_map(|(_, lines)| lines).collect()
}

fn one_by_one(paths: &[Path<'_>], culprits: &[GlobalRank], failed: Option<CommId>, ink: Ink) -> Vec<String> {
    let (shown, hidden) = paths.split_at(paths.len().min(PATH_LINES_MAX));
    let depth = (PATH_LINES_MAX / shown.len().max(1)).min(PATH_CALLS_MAX);
    let width = widest(shown.iter().map(|path| path.ranks.as_slice()));
    let mut lines = Vec::new();
    for path in shown {
        let is_culprit = path.ranks.iter().any(|rank| culprits.contains(rank));
        let words = path.words(depth, failed);
        for (at, word) in words.iter().enumerate() {
            let name = if at == 0 { ranks(&path.ranks) } else { String::new() };
            let is_last = at + 1 == words.len();
            lines.push(marked(&format!("{name:<width$}  {word}"), is_culprit && is_last, ink));
        }
    }
    if let more @ 1.. = hidden.iter().map(|path| path.ranks.len()).sum::<usize>() {
        lines.push(format!("    and {}", counted(more, "more rank")));
    }
    lines
}

/// Whether the same number means the same place on all ranks.
fn is_aligned(history: &[&RankHistory]) -> bool {
    let calls = || history.iter().map(|rank| rank.calls);
    let apart = calls().max().unwrap_or(0) - calls().min().unwrap_or(0);
    apart <= APART_MAX && !history.iter().flat_map(|rank| &rank.recent).any(|call| Call::parse(call).is_own())
}

/// The number of the first call that the recorder remembers of a rank.
fn first(rank: &RankHistory) -> u64 {
    rank.calls.saturating_sub(rank.recent.len() as u64)
}

/// A row for each place that is remembered of all ranks, or that some have not reached.
fn by_place<'a>(history: &[&'a RankHistory], failed: Option<CommId>) -> Vec<Row<'a>> {
    let start = history.iter().map(|rank| first(rank)).max().unwrap_or(0);
    let end = history.iter().map(|rank| rank.calls).max().unwrap_or(0);
    let row = |place: u64| {
        let at = |rank: &RankHistory| usize::try_from(place - first(rank)).unwrap_or(usize::MAX);
        let calls = history.iter().map(|rank| (rank.rank, rank.recent.get(at(rank))));
        Row::of(format!("call {place}"), calls, failed)
    };
    (start..end).map(row).collect()
}

/// Ranks by their last calls, in the history's order.
fn paths<'a>(history: &[&'a RankHistory]) -> Vec<Path<'a>> {
    let mut paths: Vec<Path<'a>> = Vec::new();
    for rank in history {
        let path = Path::of(rank);
        let same = |other: &&mut Path<'_>| (&other.calls, other.then) == (&path.calls, path.then);
        match paths.iter_mut().find(same) {
            Some(other) => other.ranks.push(rank.rank),
            None => paths.push(path),
        }
    }
    paths
}

fn widest<'a>(names: impl Iterator<Item = &'a [GlobalRank]>) -> usize {
    names.map(|name| ranks(name).chars().count()).max().unwrap_or(0)
}

impl<'a> Path<'a> {
    /// The calls up to the one that the rank waits in; with groups and streams, later ones may be queued behind it.
    fn of(rank: &'a RankHistory) -> Self {
        let waits_in = rank.doing.strip_prefix("waiting in ");
        let waits_at = waits_in.and_then(|call| rank.recent.iter().rposition(|recent| recent == call));
        let end = waits_at.map_or(rank.recent.len(), |at| at + 1);
        let last = &rank.recent[end.saturating_sub(PATH_CALLS_MAX)..end];
        let calls = last.iter().map(|call| Call::parse(call)).collect();
        let then = (waits_at.is_none() && !rank.doing.is_empty()).then_some(rank.doing.as_str());
        Self { ranks: vec![rank.rank], calls, then }
    }

    /// At least one line and at most `depth` of them.
    fn words(&self, depth: usize, failed: Option<CommId>) -> Vec<String> {
        let mut words: Vec<String> = self.calls.iter().map(|call| call.words(failed)).collect();
        match self.then {
            Some(then) if words.is_empty() => words.push(format!("no call: {}", plain(then))),
            Some(then) => words.push(format!("then {}", plain(then))),
            None if words.is_empty() => words.push("no call".to_owned()),
            None => {}
        }
        words.split_off(words.len().saturating_sub(depth))
    }
}

/// A line of the table, with an arrow where to look.
fn marked(line: &str, is_marked: bool, ink: Ink) -> String {
    let line = cut(line, WIDTH - 4);
    if is_marked { ink.mark(&format!("  → {line}")) } else { format!("    {line}") }
}

impl<'a> Row<'a> {
    fn of(
        place: String,
        calls: impl Iterator<Item = (GlobalRank, Option<&'a String>)>,
        failed: Option<CommId>,
    ) -> Self {
        let mut row = Self { place, ways: Vec::new() };
        for (rank, text) in calls {
            row.add(rank, text.map(|text| Call::parse(text)), failed);
        }
        row
    }

    fn add(&mut self, rank: GlobalRank, call: Option<Call<'a>>, failed: Option<CommId>) {
        let same = |way: &&mut Way<'a>| match (&way.call, &call) {
            (Some(one), Some(other)) => one.fits(other, failed),
            (None, None) => true,
            _ => false,
        };
        match self.ways.iter_mut().find(same) {
            Some(way) => {
                way.ranks.push(rank);
                // Communicators of several groups side by side: naming one of them would mislead.
                if let (Some(mine), Some(theirs)) = (&mut way.call, &call)
                    && mine.comm != theirs.comm
                {
                    mine.comm = None;
                }
            }
            None => self.ways.push(Way { call, ranks: vec![rank] }),
        }
    }

    /// Whether ranks that must call the same do not.
    fn parts(&self, failed: Option<CommId>) -> bool {
        let mut calls = self.ways.iter().map(|way| &way.call);
        let Some(first) = calls.next() else { return false };
        calls.any(|call| match (first, call) {
            (Some(one), Some(other)) => !one.fits(other, failed),
            (None, None) => false,
            _ => true,
        })
    }

    fn lines(&self, is_parting: bool, width: usize, failed: Option<CommId>, ink: Ink) -> Vec<String> {
        // The minority is where to look.
        let mut ways: Vec<&Way<'_>> =
            self.ways.iter().filter(|way| is_parting || way.call.is_some()).collect();
        ways.sort_by_key(|way| way.ranks.len());
        let mut lines = Vec::new();
        for (at, way) in ways.iter().take(WAYS_MAX).enumerate() {
            let place = if at == 0 { self.place.as_str() } else { "" };
            let line = format!("{place:<PLACE_WIDTH$}  {:<width$}  {}", ranks(&way.ranks), way.words(failed));
            lines.push(marked(&line, is_parting && at == 0, ink));
        }
        if let more @ 1.. = ways.len().saturating_sub(WAYS_MAX) {
            lines.push(format!("    {:PLACE_WIDTH$}  and {more} more ways", ""));
        }
        lines
    }
}

impl Way<'_> {
    fn words(&self, failed: Option<CommId>) -> String {
        self.call.as_ref().map_or_else(|| "had not called".to_owned(), |call| call.words(failed))
    }
}

#[cfg(test)]
mod tests {
    use fakegpu_proto::{Action, Awaited, Direction, Transfer};
    use fakegpu_units::{DataType, Rank};

    use super::*;

    #[test]
    fn a_rank_s_own_calls_are_known_by_the_names_that_the_recorder_gives_them() {
        let transfer = |direction| {
            let (peer, count, data_type) = (Rank(1), 4, DataType::BFloat16);
            Action::Transfer(Transfer { direction, peer, count, data_type, of: None })
        };
        let own = [
            transfer(Direction::Send),
            transfer(Direction::Recv),
            Action::Put { peer: Rank(1), bytes: 4 },
            Action::Await(vec![Awaited { peer: Rank(1), count: 1 }]),
        ];
        for action in own {
            let text = format!("{action} on communicator 3");
            let call = Call::parse(&text);
            assert!(call.is_own() && call.comm == Some(CommId(3)), "{text}");
        }
        assert!(!Call::parse(&Action::Agree { fine: true }.to_string()).is_own());
    }
}
