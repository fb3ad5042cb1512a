//! The last calls of several ranks, a line for each way of calling, so that the place where they part is seen.

use fakegpu_proto::RankHistory;
use fakegpu_report::FailureEntry;
use fakegpu_units::{CommId, GlobalRank};

use crate::prose::{Ink, WIDTH, cut, plain, ranks};

/// Rows around the one where ranks part, by distance, the most telling first.
const AROUND: [isize; 6] = [0, -1, 1, -2, 2, -3];

/// Lines of the table.
const LINES_MAX: usize = 12;

/// Numbers of calls that differ by more than this count different things: ranks with communicators of their own.
const APART_MAX: u64 = 16;

/// Ways of calling that are shown of one place.
const WAYS_MAX: usize = 4;

/// Characters of a row's place, `call 1234567`.
const PLACE_WIDTH: usize = 12;

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
    /// Where: `call 42`, or `2 before` the last.
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

impl<'a> Call<'a> {
    /// From the recorder's words: `AllReduce(…) on communicator 3`.
    fn parse(text: &'a str) -> Self {
        if let Some((call, comm)) = text.rsplit_once(" on communicator ")
            && let Ok(comm) = comm.parse()
        {
            return Self { text: call, comm: Some(CommId(comm)) };
        }
        Self { text, comm: None }
    }

    /// Whether it is one rank's own, so that others may do something else at the same place.
    fn is_own(&self) -> bool {
        ["Send(", "Recv(", "PutSignal(", "WaitSignal("].iter().any(|name| self.text.starts_with(name))
    }

    /// Whether two ranks may call these at one place. Groups of ranks use communicators of their own side by side, but
    /// all ranks of a failure belong to the communicator that failed.
    fn fits(&self, other: &Self, failed: Option<CommId>) -> bool {
        self.text == other.text && (self.comm == failed) == (other.comm == failed)
    }
}

/// The lines of the table; empty where the report has no history.
///
/// Where ranks call the same number of times, a row is a place in their order, and the first at which they part is
/// marked. Where they do not, as with sends and receives, a row counts back from each rank's last call, and nothing is
/// marked: ranks may well differ there.
pub(super) fn table(failure: &FailureEntry, ink: Ink) -> Vec<String> {
    let failed = failure.communicator;
    let is_aligned = is_aligned(&failure.history);
    let rows = if is_aligned { by_place(failure) } else { from_the_end(failure) };
    let parting = if is_aligned { rows.iter().position(|row| row.parts(failed)) } else { None };
    let Some(pivot) = parting.or_else(|| rows.len().checked_sub(1)) else { return Vec::new() };
    let width = names_width(&rows);
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

/// Whether the same number means the same place on all ranks.
fn is_aligned(history: &[RankHistory]) -> bool {
    let calls = || history.iter().map(|rank| rank.calls);
    let apart = calls().max().unwrap_or(0) - calls().min().unwrap_or(0);
    apart <= APART_MAX && !history.iter().flat_map(|rank| &rank.recent).any(|call| Call::parse(call).is_own())
}

/// The number of the first call that the recorder remembers of a rank.
fn first(rank: &RankHistory) -> u64 {
    rank.calls.saturating_sub(rank.recent.len() as u64)
}

/// A row for each place that is remembered of all ranks, or that some have not reached.
fn by_place(failure: &FailureEntry) -> Vec<Row<'_>> {
    let history = &failure.history;
    let start = history.iter().map(first).max().unwrap_or(0);
    let end = history.iter().map(|rank| rank.calls).max().unwrap_or(0);
    let row = |place: u64| {
        let at = |rank: &RankHistory| usize::try_from(place - first(rank)).unwrap_or(usize::MAX);
        let calls = history.iter().map(|rank| (rank.rank, rank.recent.get(at(rank))));
        Row::of(format!("call {place}"), calls, failure.communicator)
    };
    (start..end).map(row).collect()
}

/// A row for each of the last calls, the last one last.
fn from_the_end(failure: &FailureEntry) -> Vec<Row<'_>> {
    let history = &failure.history;
    let longest = history.iter().map(|rank| rank.recent.len()).max().unwrap_or(0);
    let row = |back: usize| {
        let calls = history.iter().map(|rank| {
            (rank.rank, rank.recent.len().checked_sub(back + 1).and_then(|at| rank.recent.get(at)))
        });
        let place = if back == 0 { "last call".to_owned() } else { format!("{back} before") };
        Row::of(place, calls, failure.communicator)
    };
    (0..longest.min(AROUND.len())).rev().map(row).collect()
}

fn names_width(rows: &[Row<'_>]) -> usize {
    let names = rows.iter().flat_map(|row| &row.ways).map(|way| ranks(&way.ranks).chars().count());
    names.max().unwrap_or(0)
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
            let line = format!("{place:<PLACE_WIDTH$}  {:<width$}  {}", ranks(&way.ranks), way.text(failed));
            let line = cut(&line, WIDTH - 4);
            let arrow = is_parting && at == 0;
            lines.push(if arrow { ink.mark(&format!("  → {line}")) } else { format!("    {line}") });
        }
        if let more @ 1.. = ways.len().saturating_sub(WAYS_MAX) {
            lines.push(format!("    {:PLACE_WIDTH$}  and {more} more ways", ""));
        }
        lines
    }
}

impl Way<'_> {
    fn text(&self, failed: Option<CommId>) -> String {
        match &self.call {
            None => "had not called".to_owned(),
            // Most calls are on the communicator that failed, and the headline names it.
            Some(Call { text, comm: Some(comm) }) if Some(*comm) != failed => {
                plain(&format!("{text} on communicator {comm}"))
            }
            Some(call) => plain(call.text),
        }
    }
}
