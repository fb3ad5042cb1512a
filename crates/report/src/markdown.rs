//! The report as Markdown: what failed first, then what ran, where bytes went and how long it would have taken.

mod page;
mod timeline;
mod units;

use fakegpu_units::{GlobalRank, Rank, Ranks};

use crate::model::{CommunicatorEntry, CommunicatorEvent, Link, NodePair, OneSided, Report, Scope, Totals};
use crate::snapshot::PAYLOAD_OFF;
use page::{Align, Page};
use units::{bytes, count, gbps, millis, time, word};

/// Rows a table has at most; the JSON has the rest.
const ROWS_MAX: usize = 64;

/// Longest list of ranks that is written out, in ranges; a longer one is counted.
const RANKS_TEXT_MAX: usize = 60;

impl Report {
    /// The report for people: Markdown that also reads well as plain text. The whole is in [`Report::to_json`]; tables
    /// here have at most 64 rows.
    pub fn to_markdown(&self) -> String {
        let mut page = Page::new("FakeGPU cluster report");
        page.paragraph(&summary(self));
        for note in self.fidelity.iter().filter(|note| note.starts_with(PAYLOAD_OFF)) {
            page.paragraph(&format!("**{note}.**"));
        }
        failures(self, &mut page);
        collectives(self, &mut page);
        links(self, &mut page);
        node_pairs(self, &mut page);
        ranks(self, &mut page);
        communicators(self, &mut page);
        point_to_point(self, &mut page);
        timeline::section(self, &mut page);
        resilience(self, &mut page);
        hazards(self, &mut page);
        page.section("Fidelity");
        self.fidelity.iter().for_each(|note| page.item(note));
        page.finish()
    }
}

fn summary(report: &Report) -> String {
    let cluster = &report.cluster;
    let name = if cluster.name.is_empty() { "unnamed cluster" } else { &cluster.name };
    let operations = report.operation_timeline.retained_entries + report.operation_timeline.dropped_entries;
    format!(
        "{name}: {} on {}, {}, {} in {} of predicted time; {}.",
        word(cluster.world_size, "rank"),
        word(cluster.node_count, "node"),
        word(cluster.communicators, "communicator"),
        word(operations, "operation"),
        time(report.virtual_time.makespan_us),
        outcome(report),
    )
}

fn outcome(report: &Report) -> String {
    match report.resilience.failure_count {
        0 if report.resilience.deaths.is_empty() => "nothing failed".to_owned(),
        0 => word(report.resilience.deaths.len() as u64, "process died|processes died"),
        failures => word(failures, "failure"),
    }
}

fn failures(report: &Report, page: &mut Page) {
    let resilience = &report.resilience;
    if resilience.failure_count == 0 && resilience.deaths.is_empty() {
        return;
    }
    page.section("Failures");
    for death in &resilience.deaths {
        let pid = death.pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        let program = if death.program.is_empty() { "a process" } else { &death.program };
        page.item(&format!(
            "**{} died**: {program}{pid}, at {}.",
            ranks_text(&death.ranks),
            millis(death.at_ms)
        ));
    }
    for failure in &resilience.failure_events {
        let place = failure.communicator.map_or_else(
            || "while a communicator was being made".to_owned(),
            |comm| format!("on communicator {comm}"),
        );
        let at = millis(failure.at_ms);
        page.item(&format!("{} {place}, at {at}: {}", failure.code.nccl_name(), failure.detail));
    }
    if resilience.failure_events.iter().any(|failure| !failure.history.is_empty()) {
        page.paragraph("What ranks did before is in the JSON; `fakegpu explain` tells it.");
    }
    if resilience.dropped_entries > 0 {
        page.paragraph(&format!("{} more are counted, but not kept.", count(resilience.dropped_entries)));
    }
}

fn collectives(report: &Report, page: &mut Page) {
    page.section("Collectives");
    let all = &report.collectives;
    let rows = [
        ("all_reduce", all.all_reduce),
        ("reduce", all.reduce),
        ("broadcast", all.broadcast),
        ("all_gather", all.all_gather),
        ("reduce_scatter", all.reduce_scatter),
        ("all_to_all", all.all_to_all),
        ("barrier", all.barrier),
        ("gather", all.gather),
        ("scatter", all.scatter),
    ];
    let row = |(name, totals): (&str, Totals)| {
        vec![
            name.to_owned(),
            count(totals.calls),
            bytes(totals.bytes),
            time(totals.estimated_time_us_total),
            time(totals.contention_penalty_us_total),
        ]
    };
    page.table(
        &[
            ("collective", Align::Left),
            ("calls", Align::Right),
            ("bytes", Align::Right),
            ("estimated time", Align::Right),
            ("of it contention", Align::Right),
        ],
        &rows.map(row),
    );
    for (name, used) in &report.algorithms {
        let chosen: Vec<String> =
            used.chosen_by.iter().map(|(who, times)| format!("{who} {}", count(*times))).collect();
        page.item(&format!(
            "Algorithm {name}: {}, {}, {}; chosen by: {}.",
            word(used.operations, "operation"),
            bytes(used.bytes),
            time(used.estimated_time_us_total),
            chosen.join(", "),
        ));
    }
}

fn links(report: &Report, page: &mut Page) {
    page.section("Links");
    let fabric = &report.cluster.fabric;
    for (name, class) in [("Within a node", &fabric.intra_node), ("Between nodes", &fabric.inter_node)] {
        if class.bandwidth_gbps > 0.0 {
            page.item(&format!(
                "{name}: {}, {} a direction, {} a hop, oversubscription {}.",
                class.kind,
                gbps(class.bandwidth_gbps),
                time(class.latency_us),
                class.oversubscription,
            ));
        }
    }
    if report.links.is_empty() {
        page.paragraph("No link carried anything.");
        return;
    }
    let rows: Vec<_> = report.links.iter().map(link_row).collect();
    page.table(
        &[
            ("from", Align::Left),
            ("to", Align::Left),
            ("scope", Align::Left),
            ("bytes", Align::Right),
            ("operations", Align::Right),
            ("their time", Align::Right),
            ("contention", Align::Right),
            ("utilisation", Align::Right),
        ],
        &rows,
    );
}

fn link_row(link: &Link) -> Vec<String> {
    let scope = match link.scope {
        Scope::IntraNode => "intra_node",
        Scope::InterNode => "inter_node",
    };
    vec![
        link.src.clone(),
        link.dst.clone(),
        scope.to_owned(),
        bytes(link.bytes),
        count(link.operations),
        time(link.estimated_time_us_total),
        time(link.contention_penalty_us_total),
        format!("{:.1} %", link.utilisation * 100.0),
    ]
}

fn node_pairs(report: &Report, page: &mut Page) {
    page.section("Node-Pair Communication");
    let row =
        |pair: &NodePair| vec![pair.src.clone(), pair.dst.clone(), bytes(pair.bytes), count(pair.operations)];
    let busy: Vec<_> = report.node_pairs.iter().filter(|pair| pair.operations > 0).map(row).collect();
    if busy.is_empty() {
        page.paragraph("No two nodes exchanged anything.");
        return;
    }
    let columns =
        [("from", Align::Left), ("to", Align::Left), ("bytes", Align::Right), ("operations", Align::Right)];
    page.table(&columns, &busy);
    if let Some(idle @ 1..) = report.node_pairs.len().checked_sub(busy.len()) {
        page.paragraph(&format!("{} exchanged nothing.", word(idle as u64, "other pair")));
    }
}

fn ranks(report: &Report, page: &mut Page) {
    page.section("Ranks");
    if report.ranks.is_empty() {
        page.paragraph("No rank joined.");
        return;
    }
    let rows: Vec<_> = report
        .ranks
        .iter()
        .zip(&report.virtual_time.ranks)
        .map(|(rank, times)| {
            vec![
                rank.rank.to_string(),
                rank.node.clone(),
                rank.local_device.to_string(),
                count(rank.collective_calls),
                count(rank.point_to_point_calls),
                count(rank.barrier_calls),
                time(times.communication_us),
                time(times.other_us),
                millis(rank.wait_time_ms),
                millis(rank.longest_wait_ms),
                millis(rank.join_wait_ms),
                if rank.died { "died" } else { "" }.to_owned(),
            ]
        })
        .collect();
    page.table(
        &[
            ("rank", Align::Right),
            ("node", Align::Left),
            ("device", Align::Right),
            ("collectives", Align::Right),
            ("p2p calls", Align::Right),
            ("barriers", Align::Right),
            ("communicating", Align::Right),
            ("otherwise", Align::Right),
            ("waited", Align::Right),
            ("longest", Align::Right),
            ("for joins", Align::Right),
            ("", Align::Left),
        ],
        &rows,
    );
    page.paragraph("Communicating and otherwise are predicted times; waits are this machine's.");
}

fn communicators(report: &Report, page: &mut Page) {
    page.section("Communicators");
    if report.communicators_log.is_empty() {
        page.paragraph("None was made.");
        return;
    }
    // The last rows are the ones that tell how it ended.
    let hidden = report.communicators_log.len().saturating_sub(ROWS_MAX);
    let before = hidden as u64 + report.communicators_log_dropped;
    if before > 0 {
        page.paragraph(&format!("{} before these.", word(before, "entry|entries")));
    }
    let rows: Vec<_> = report.communicators_log.iter().skip(hidden).map(communicator_row).collect();
    page.table(
        &[
            ("communicator", Align::Right),
            ("event", Align::Left),
            ("ranks", Align::Left),
            ("detail", Align::Left),
        ],
        &rows,
    );
}

fn communicator_row(entry: &CommunicatorEntry) -> Vec<String> {
    let event = match entry.event {
        CommunicatorEvent::Init => "init",
        CommunicatorEvent::Split => "split",
        CommunicatorEvent::Shrink => "shrink",
        CommunicatorEvent::Grow => "grow",
        CommunicatorEvent::Leave => "leave",
        CommunicatorEvent::Abort => "abort",
        CommunicatorEvent::Failure => "failure",
    };
    let code = entry.code.map(|code| code.nccl_name().to_owned());
    let name = entry.name.as_ref().map(|name| format!("`{name}`"));
    let from = entry.parent.map(|parent| match entry.color {
        Some(color) => format!("from communicator {parent}, colour {color}"),
        None => format!("from communicator {parent}"),
    });
    let detail: Vec<String> =
        [name, from, entry.staging.clone(), code, entry.detail.clone()].into_iter().flatten().collect();
    let ranks = if entry.ranks.is_empty() { String::new() } else { ranks_text(&entry.ranks) };
    let communicator = entry.communicator.map_or_else(|| "none yet".to_owned(), |comm| comm.to_string());
    vec![communicator, event.to_owned(), ranks, detail.join("; ")]
}

fn point_to_point(report: &Report, page: &mut Page) {
    page.section("Point-to-Point Summary");
    let all = &report.point_to_point;
    page.paragraph(&format!(
        "{} ({}, {}), {}, {} of predicted time, {} of it contention.",
        word(all.operations, "operation"),
        word(all.sends, "send"),
        word(all.recvs, "receive"),
        bytes(all.bytes),
        time(all.estimated_time_us_total),
        time(all.contention_penalty_us_total),
    ));
    if all.zero_byte > 0 {
        page.item(&format!("{} moved no byte.", word(all.zero_byte, "pair")));
    }
    if all.one_sided.puts > 0 {
        let OneSided { puts, bytes: written } = all.one_sided;
        page.item(&format!("{} into a peer's window, {}.", word(puts, "one-sided write"), bytes(written)));
    }
}

fn resilience(report: &Report, page: &mut Page) {
    page.section("Resilience Events");
    let all = &report.resilience;
    page.paragraph(&format!(
        "{}, {}, {}.",
        word(all.deaths.len() as u64, "death"),
        word(all.failure_count, "failure"),
        word(all.recovery_count, "recovery|recoveries")
    ));
    for recovery in &all.recovery_events {
        let (ranks, at) = (ranks_text(&recovery.ranks), millis(recovery.at_ms));
        page.item(&format!("{ranks} went on in communicator {}, at {at}.", recovery.communicator));
    }
}

fn hazards(report: &Report, page: &mut Page) {
    page.section("Hazards");
    if report.hazards.is_empty() {
        page.paragraph("None was seen.");
    }
    for hazard in &report.hazards {
        let times =
            if hazard.count > 1 { format!(" ({} times)", count(hazard.count)) } else { String::new() };
        page.item(&format!("Communicator {}: {}{times}", hazard.communicator, hazard.detail));
    }
    if report.hazards_dropped > 0 {
        page.paragraph(&format!("{} more are counted, but not kept.", count(report.hazards_dropped)));
    }
}

/// Ranks of the job in ranges, or their number where even that is long.
fn ranks_text(ranks: &[GlobalRank]) -> String {
    let mut sorted: Vec<Rank> = ranks.iter().map(|rank| Rank(rank.0)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let text = Ranks(&sorted).to_string();
    match sorted.len() {
        0 => "no rank".to_owned(),
        _ if text.len() <= RANKS_TEXT_MAX => text,
        many => word(many as u64, "rank"),
    }
}
