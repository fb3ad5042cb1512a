//! The last operations, with a bar each for when they run in the model.

use super::page::Page;
use super::units::{bytes, millis, time, word};
use crate::model::{Report, TimelineEntry};

/// Operations that are drawn.
const SHOWN: usize = 20;

/// Characters of a bar.
const WIDTH: usize = 24;

pub(super) fn section(report: &Report, page: &mut Page) {
    page.section("Recent Operation Timeline");
    let timeline = &report.operation_timeline;
    let hidden = timeline.entries.len().saturating_sub(SHOWN);
    let shown = &timeline.entries[hidden..];
    if shown.is_empty() {
        let all = timeline.retained_entries + timeline.dropped_entries;
        page.paragraph(&format!("{} ran, none is listed.", word(all, "operation")));
        return;
    }
    let earlier = hidden as u64 + timeline.dropped_entries;
    if earlier > 0 {
        page.paragraph(&format!("{} before these.", word(earlier, "operation")));
    }
    let window = Window::around(shown);
    let width = shown.iter().map(|entry| what(entry).chars().count()).max().unwrap_or(0);
    page.literal(&shown.iter().map(|entry| line(entry, &window, width)).collect::<Vec<_>>());
}

/// The span of modelled time that the bars show.
struct Window {
    start_us: f64,
    length_us: f64,
}

impl Window {
    fn around(entries: &[TimelineEntry]) -> Self {
        let start_us = entries.iter().map(|entry| entry.start_us).fold(f64::INFINITY, f64::min);
        let end_us = entries.iter().map(|entry| entry.start_us + entry.duration_us).fold(0.0, f64::max);
        Self { start_us, length_us: end_us - start_us }
    }

    /// At least one mark, however short the operation.
    fn bar(&self, entry: &TimelineEntry) -> String {
        let from = self.column(entry.start_us).min(WIDTH - 1);
        let to = self.column(entry.start_us + entry.duration_us).clamp(from + 1, WIDTH);
        format!("{}{}{}", "·".repeat(from), "█".repeat(to - from), "·".repeat(WIDTH - to))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, and bars are clamped"
    )]
    fn column(&self, at_us: f64) -> usize {
        let share = if self.length_us > 0.0 { (at_us - self.start_us) / self.length_us } else { 0.0 };
        (share * WIDTH as f64).round() as usize
    }
}

/// The operation, and the two ranks where it has two.
fn what(entry: &TimelineEntry) -> String {
    match (entry.src, entry.dst) {
        (Some(src), Some(dst)) => format!("{} {src} → {dst}", entry.operation),
        _ => entry.operation.clone(),
    }
}

fn line(entry: &TimelineEntry, window: &Window, width: usize) -> String {
    let seq = entry.seq.map_or_else(String::new, |seq| format!(".{seq}"));
    let place = format!("{}{seq}", entry.communicator);
    let mut text = format!(
        "{} {:>6} {place:>6} {:<width$}  {} + {}",
        window.bar(entry),
        entry.index,
        what(entry),
        time(entry.start_us),
        time(entry.duration_us),
    );
    if entry.bytes > 0 {
        text.push_str(&format!(", {}", bytes(entry.bytes)));
    }
    for word in [&entry.algorithm, &entry.bottleneck] {
        if !word.is_empty() {
            text.push_str(&format!(", {word}"));
        }
    }
    if entry.max_wait_ms > 0.0 {
        text.push_str(&format!(", waited {}", millis(entry.max_wait_ms)));
    }
    text
}
