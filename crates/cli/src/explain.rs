//! `fakegpu explain`: the story of a run on one screen, from its report.
//!
//! What failed first comes first: who died, then the sentence, then what each rank called before it, side by side, so
//! that the place where they part is seen; then where each stood, and what to do.

mod advice;
mod calls;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use fakegpu_proto::RankHistory;
use fakegpu_proto::event::FailureKind;
use fakegpu_report::{CommunicatorEntry, Death, FailureEntry, Report};
use fakegpu_units::GlobalRank;

use self::advice::Concerned;
use crate::arguments::ExplainArguments;
use crate::prose::{Ink, WIDTH, at_most, counted, cut, plain, ranks, span, wrap};
use crate::say;

/// The report's name in the folder of a run.
const REPORT: &str = "cluster_report.json";

/// No report is larger: what could grow in it is bounded.
const REPORT_BYTES_MAX: u64 = 1 << 30;

/// Lines of the sentence, and of the list of where ranks stood.
const SENTENCE_LINES: usize = 7;
const STANDING_LINES: usize = 5;

/// Processes that end this close to each other were ended by something else than each other.
const TOGETHER_MS: f64 = 50.0;

/// Prints the story.
pub(crate) fn explain(arguments: &ExplainArguments) -> Result<u8> {
    let report = read(&arguments.report)?;
    say::out(&story(&report, Ink { coloured: say::is_coloured() }));
    Ok(0)
}

fn read(path: &Path) -> Result<Report> {
    let path = if path.is_dir() { path.join(REPORT) } else { path.to_path_buf() };
    let name = path.display().to_string();
    let told = || format!("cannot read `{name}`");
    let file = File::open(&path).with_context(told)?;
    let mut bytes = Vec::new();
    file.take(REPORT_BYTES_MAX).read_to_end(&mut bytes).with_context(told)?;
    parse(&name, &bytes)
}

fn parse(name: &str, bytes: &[u8]) -> Result<Report> {
    const WANTED: &str = "`fakegpu run --report DIR` leaves one as DIR/cluster_report.json";
    let value: serde_json::Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) if is_event_log(bytes) => {
            bail!(
                "`{name}` is an event log: make a report of it with `fakegpu report {name} --json {REPORT}`"
            )
        }
        Err(_) if bytes.starts_with(b"# ") => {
            bail!("`{name}` is a report for people; the one to explain is the JSON file beside it")
        }
        Err(error) => bail!("`{name}` is no report: {error}; {WANTED}"),
    };
    match value.get("schema_version").and_then(serde_json::Value::as_str) {
        Some("cluster_report.v1") => {}
        Some(other) => {
            bail!("`{name}` has the schema `{}`, this build reads `cluster_report.v1`", plain(other))
        }
        None if is_event_log(bytes) => {
            bail!(
                "`{name}` is an event log: make a report of it with `fakegpu report {name} --json {REPORT}`"
            )
        }
        None => bail!("`{name}` is JSON, but no report; {WANTED}"),
    }
    serde_json::from_value(value).with_context(|| format!("`{name}` is a report, but not a whole one"))
}

fn is_event_log(bytes: &[u8]) -> bool {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice::<fakegpu_proto::Event>(first).is_ok()
}

/// The story of a run, for a screen of 40 lines and 100 columns.
fn story(report: &Report, ink: Ink) -> String {
    let mut lines = Vec::new();
    if let Some(note) = report.fidelity.iter().find(|note| note.starts_with("payload off")) {
        lines.push(ink.mark(&cut(note, WIDTH)));
    }
    let failure = report.resilience.failure_events.first();
    match (first_death(report), failure, failure.and_then(|failure| ended_together(report, failure))) {
        (None, None, _) => lines.extend(healthy(report, ink)),
        (Some(death), Some(failure), Some(ended)) => {
            lines.extend(stopped(report, death, failure, &ended, ink));
        }
        (death, failure, _) => lines.extend(failed(report, death, failure, ink)),
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// The death that began it; one that a failure brought about is no beginning.
fn first_death(report: &Report) -> Option<&Death> {
    let death = report.resilience.deaths.first()?;
    let began = report
        .resilience
        .failure_events
        .first()
        .is_none_or(|failure| failure.failure == FailureKind::RankDied || death.at_ms <= failure.at_ms);
    began.then_some(death)
}

/// The ranks of the communicator that failed, where all that were left of them ended at once: somebody stopped the job.
fn ended_together(report: &Report, failure: &FailureEntry) -> Option<Vec<GlobalRank>> {
    let deaths = &report.resilience.deaths;
    let end_ms = deaths.first()?.at_ms + TOGETHER_MS;
    let dead: Vec<GlobalRank> = deaths
        .iter()
        .take_while(|death| death.at_ms <= end_ms)
        .flat_map(|death| death.ranks.iter().copied())
        .collect();
    let was_left = |rank: &&RankHistory| rank.doing != "had left";
    let all = failure.history.iter().filter(was_left).all(|rank| dead.contains(&rank.rank));
    (failure.failure == FailureKind::RankDied && all && dead.len() > 1).then_some(dead)
}

/// The story of a job that was stopped: what matters is where it stood, not which of its processes ended first.
fn stopped(
    report: &Report,
    death: &Death,
    failure: &FailureEntry,
    ended: &[GlobalRank],
    ink: Ink,
) -> Vec<String> {
    let what = format!("{} ended at once", ranks(ended));
    let mut lines = vec![
        ink.bad(&headline("STOPPED", &what, death.at_ms)),
        "  as in a job that is stopped: by Ctrl-C, a scheduler, or a limit of time or memory".to_owned(),
    ];
    let late = calls::late(failure);
    lines.extend(section(&called(report, failure), calls::table(failure, &late, ink), ink));
    lines.extend(section("Where they stood", standing(failure), ink));
    lines.extend(section("What to do", hinted(&advice::after_a_stop(&late, &death.ranks)), ink));
    lines
}

fn failed(report: &Report, death: Option<&Death>, failure: Option<&FailureEntry>, ink: Ink) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(death) = death {
        lines.push(ink.bad(&headline("FAILED", &died(report, death), death.at_ms)));
        if failure.is_some() {
            lines.push(String::new());
        }
    }
    if let Some(failure) = failure {
        lines.push(match death {
            // What the others were told is a consequence.
            Some(_) => {
                ink.head(&cut(&format!("What the others were told, {}:", place(report, failure)), WIDTH))
            }
            None => {
                let said = format!("{} {}", name(failure.failure), place(report, failure));
                ink.bad(&headline("FAILED", &said, failure.at_ms))
            }
        });
        let sentence = at_most(wrap(&plain(&failure.detail), WIDTH - 2), SENTENCE_LINES);
        lines.extend(sentence.into_iter().map(|line| format!("  {line}")));
        let culprits = culprits(report, failure);
        if !culprits.is_empty() && death.is_none_or(|death| death.ranks != culprits) {
            let title = if failure.failure == FailureKind::Deadlock { "In the circle:" } else { "At fault:" };
            lines.push(String::new());
            lines.push(format!("{} {}", ink.head(title), described(report, &culprits)));
        }
        lines.extend(section(&called(report, failure), calls::table(failure, &culprits, ink), ink));
        lines.extend(section("Where they stood", standing(failure), ink));
    }
    lines.extend(section("What to do", advice(report, death, failure), ink));
    lines.extend(aftermath(report, death));
    lines
}

fn headline(how: &str, what: &str, at_ms: f64) -> String {
    cut(&format!("{how} {} after the start: {what}", millis(at_ms)), WIDTH)
}

/// Who is at fault. A circle over several communicators is a failure of each, told in the same words.
fn culprits(report: &Report, failure: &FailureEntry) -> Vec<GlobalRank> {
    let same = |other: &&FailureEntry| (other.failure, &other.detail) == (failure.failure, &failure.detail);
    let told = report.resilience.failure_events.iter().filter(same);
    let mut culprits: Vec<GlobalRank> = told.flat_map(|other| other.culprits.iter().copied()).collect();
    culprits.sort_unstable();
    culprits.dedup();
    culprits
}

fn died(report: &Report, death: &Death) -> String {
    let program = if death.program.is_empty() { "a process" } else { &death.program };
    let pid = death.pid.map(|pid| format!("pid {pid}"));
    let node = report.ranks.iter().find(|rank| death.ranks.first() == Some(&rank.rank));
    let node = node.filter(|rank| !rank.node.is_empty()).map(|rank| rank.node.clone());
    let what: Vec<String> = [Some(program.to_owned()), pid, node].into_iter().flatten().collect();
    let who = if death.ranks.is_empty() {
        "a process that was no rank yet".to_owned()
    } else {
        ranks(&death.ranks)
    };
    format!("{who} died ({})", plain(&what.join(", ")))
}

/// A failure in one or two words.
const fn name(failure: FailureKind) -> &'static str {
    match failure {
        FailureKind::Mismatch => "mismatch",
        FailureKind::JoinTimeout => "ranks did not join",
        FailureKind::CollectiveTimeout => "time-out",
        FailureKind::RankDied => "a rank died",
        FailureKind::RankLeft => "a rank left too early",
        FailureKind::Aborted => "abort",
        FailureKind::JoinRefused => "joining was refused",
        FailureKind::Staging => "bytes could not be moved",
        FailureKind::Deadlock => "deadlock",
        FailureKind::Revoked => "revoked",
        FailureKind::Injected => "failure on request",
    }
}

fn place(report: &Report, failure: &FailureEntry) -> String {
    let code = failure.code.nccl_name();
    let Some(comm) = failure.communicator else {
        return format!("({code})");
    };
    let name = made(report, failure).and_then(|entry| entry.name.as_deref());
    let name = name.map_or_else(String::new, |name| format!(" `{}`", cut(&plain(name), 24)));
    format!("on communicator {comm}{name} ({code})")
}

/// The title of the table of calls; of a large communicator the coordinator keeps a few histories.
fn called(report: &Report, failure: &FailureEntry) -> String {
    let size = made(report, failure).map_or(0, |entry| entry.ranks.len());
    let shown = failure.history.len();
    if shown < size {
        format!("What they called last ({shown} of {size} ranks)")
    } else {
        "What they called last".to_owned()
    }
}

/// How the communicator that failed came to be.
fn made<'a>(report: &'a Report, failure: &FailureEntry) -> Option<&'a CommunicatorEntry> {
    let of =
        |entry: &&CommunicatorEntry| entry.communicator == failure.communicator && entry.staging.is_some();
    failure.communicator.and_then(|_| report.communicators_log.iter().find(of))
}

/// Ranks with what is needed to look for them: node and process.
fn described(report: &Report, culprits: &[GlobalRank]) -> String {
    const SHOWN: usize = 3;
    if culprits.len() > SHOWN {
        return ranks(culprits);
    }
    let described = culprits.iter().map(|culprit| {
        let known = report.ranks.iter().find(|rank| rank.rank == *culprit);
        let node = known.filter(|rank| !rank.node.is_empty()).map(|rank| plain(&rank.node));
        let pid = known.and_then(|rank| rank.pid).map(|pid| format!("pid {pid}"));
        let what: Vec<String> = node.into_iter().chain(pid).collect();
        if what.is_empty() {
            format!("rank {culprit}")
        } else {
            format!("rank {culprit} ({})", what.join(", "))
        }
    });
    described.collect::<Vec<_>>().join("; ")
}

/// What each rank did at the moment of the failure; ranks that did the same on one line.
fn standing(failure: &FailureEntry) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<GlobalRank>)> = Vec::new();
    for rank in failure.history.iter().filter(|rank| !rank.doing.is_empty()) {
        match groups.iter_mut().find(|(doing, _)| *doing == rank.doing) {
            Some((_, ranks)) => ranks.push(rank.rank),
            None => groups.push((&rank.doing, vec![rank.rank])),
        }
    }
    let named: Vec<(String, &str)> = groups.iter().map(|(doing, members)| (ranks(members), *doing)).collect();
    let width = named.iter().map(|(ranks, _)| ranks.chars().count()).max().unwrap_or(0);
    let line = |(ranks, doing): &(String, &str)| cut(&format!("  {ranks:<width$}  {}", plain(doing)), WIDTH);
    let mut lines: Vec<String> = named.iter().take(STANDING_LINES).map(line).collect();
    if let more @ 1.. = named.len().saturating_sub(STANDING_LINES) {
        lines.push(format!("  and {more} more"));
    }
    lines
}

fn advice(report: &Report, death: Option<&Death>, failure: Option<&FailureEntry>) -> Vec<String> {
    let (kind, concerned) = match (death, failure) {
        (Some(death), _) => (FailureKind::RankDied, death.ranks.clone()),
        (None, Some(failure)) => (failure.failure, culprits(report, failure)),
        (None, None) => return Vec::new(),
    };
    let history = failure.map_or(&[][..], |failure| &failure.history);
    let is_pairwise = history
        .iter()
        .filter(|rank| concerned.contains(&rank.rank))
        .any(|rank| ["ncclSend(", "ncclRecv("].iter().any(|call| rank.doing.contains(call)));
    hinted(&advice::hints(kind, &Concerned { ranks: &concerned, is_pairwise }))
}

fn hinted(hints: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for hint in hints {
        for (at, line) in wrap(hint, WIDTH - 4).into_iter().enumerate() {
            lines.push(format!("  {} {line}", if at == 0 { "-" } else { " " }));
        }
    }
    lines
}

/// What came after; it is rarely the cause.
fn aftermath(report: &Report, first: Option<&Death>) -> Vec<String> {
    let resilience = &report.resilience;
    let mut parts = Vec::new();
    let first_told = resilience.failure_events.first();
    let again = first_told.map_or(0, |failure| {
        resilience.failure_events.iter().filter(|other| other.detail == failure.detail).count() as u64
    });
    if let more @ 1.. = resilience.failure_count.saturating_sub(again.max(1)) {
        parts.push(counted(usize::try_from(more).unwrap_or(usize::MAX), "more failure"));
    }
    let later = resilience.deaths.iter().skip(usize::from(first.is_some()));
    let dead: Vec<GlobalRank> = later.flat_map(|death| death.ranks.iter().copied()).collect();
    if !dead.is_empty() {
        parts.push(format!("the end of {}", ranks(&dead)));
    }
    let mut lines = Vec::new();
    if !parts.is_empty() {
        lines.push(cut(
            &format!("Afterwards: {}; `resilience` in the report has them.", parts.join(", ")),
            WIDTH,
        ));
    }
    if resilience.recovery_count > 0 {
        let went_on: Vec<GlobalRank> =
            resilience.recovery_events.iter().flat_map(|event| event.ranks.iter().copied()).collect();
        lines.push(cut(&format!("{} went on in a new communicator.", capitalised(&ranks(&went_on))), WIDTH));
    }
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

fn section(title: &str, body: Vec<String>, ink: Ink) -> Vec<String> {
    if body.is_empty() {
        return body;
    }
    let mut lines = vec![String::new(), ink.head(&format!("{title}:"))];
    lines.extend(body);
    lines
}

/// A run in which nothing failed, in a few lines.
fn healthy(report: &Report, ink: Ink) -> Vec<String> {
    let cluster = &report.cluster;
    let operations = report.operation_timeline.retained_entries + report.operation_timeline.dropped_entries;
    let mut lines = vec![
        ink.head("Nothing failed."),
        format!(
            "{} on {}: {}, {}, {} of predicted time.",
            counted(narrow(cluster.world_size), "rank"),
            counted(narrow(cluster.node_count), "node"),
            counted(narrow(operations), "operation"),
            bytes(moved(report)),
            millis(report.virtual_time.makespan_us / 1e3),
        ),
    ];
    let slowest = report.links.iter().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    if let Some(link) = slowest {
        lines.push(cut(
            &format!(
                "Busiest link: {} to {}, {}, {:.1} % of what it can carry{}.",
                plain(&link.src),
                plain(&link.dst),
                bytes(link.bytes),
                link.utilisation * 100.0,
                sharing(link.contention_penalty_us_total),
            ),
            WIDTH,
        ));
    }
    lines.extend(straggler(report));
    for hazard in report.hazards.iter().take(2) {
        let text = format!("Worth a look: communicator {}: {}", hazard.communicator, plain(&hazard.detail));
        lines.extend(at_most(wrap(&text, WIDTH), 2));
    }
    if report.stopped.is_none() {
        lines.push("The coordinator still ran when this report was written.".to_owned());
    }
    lines
}

fn sharing(contention_us: f64) -> String {
    if contention_us > 0.0 {
        format!("; sharing it cost {}", millis(contention_us / 1e3))
    } else {
        String::new()
    }
}

/// The rank that waited least is the one that the others waited for.
fn straggler(report: &Report) -> Option<String> {
    let by_wait = |a: &&fakegpu_report::RankEntry, b: &&fakegpu_report::RankEntry| {
        a.wait_time_ms.total_cmp(&b.wait_time_ms)
    };
    let least = report.ranks.iter().min_by(by_wait)?;
    let most = report.ranks.iter().max_by(by_wait)?;
    if most.wait_time_ms <= 0.0 {
        return None;
    }
    Some(format!(
        "Straggler: rank {} (waited {} for others; rank {} waited {}).",
        least.rank,
        millis(least.wait_time_ms),
        most.rank,
        millis(most.wait_time_ms),
    ))
}

/// Bytes of all operations, as the report counts them.
fn moved(report: &Report) -> u64 {
    let all = &report.collectives;
    let kinds = [
        all.all_reduce,
        all.reduce,
        all.broadcast,
        all.all_gather,
        all.reduce_scatter,
        all.all_to_all,
        all.gather,
        all.scatter,
    ];
    kinds.iter().fold(report.point_to_point.bytes, |sum, kind| sum.saturating_add(kind.bytes))
}

fn narrow(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(unit) = count.checked_ilog2().and_then(|bits| (bits / 10).checked_sub(1)) else {
        return format!("{count} B");
    };
    let size = count as f64 / f64::from(1 << 10).powi(i32::try_from(unit + 1).unwrap_or(1));
    format!("{size:.1} {}", UNITS[unit as usize])
}

/// Milliseconds, however short.
fn millis(millis: f64) -> String {
    if millis <= 0.0 {
        return "0 s".to_owned();
    }
    if millis < 1.0 {
        return format!("{:.0} µs", millis * 1e3);
    }
    if millis < 1e3 {
        return format!("{millis:.1} ms");
    }
    span(whole(millis))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
