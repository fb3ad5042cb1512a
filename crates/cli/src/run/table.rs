//! The report in a few lines, from its JSON.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::Value;

/// What a run comes to: a line for each kind of operation, then what went wrong first.
pub(crate) fn summary(report: &Value) -> String {
    let mut text = operations(report).map(|table| format!("{table}\n")).unwrap_or_default();
    if let Some(first) = report.pointer("/resilience/failure_events/0/detail").and_then(Value::as_str) {
        text.push_str(&format!("failure: {first}\n"));
        let count = report.pointer("/resilience/failure_count").and_then(Value::as_u64).unwrap_or(1);
        if let more @ 1.. = count.saturating_sub(1) {
            text.push_str(&format!("         and {more} more, in the report\n"));
        }
    }
    text
}

/// Calls, bytes and predicted time by kind; `None` where nothing was called.
fn operations(report: &Value) -> Option<String> {
    let collectives = report.get("collectives").and_then(Value::as_object).into_iter().flatten();
    let mut rows: Vec<[String; 4]> = collectives.filter_map(|(name, totals)| row(name, totals)).collect();
    rows.extend(report.get("point_to_point").and_then(|totals| row("point_to_point", totals)));
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(["operation", "calls", "bytes", "estimated time"])
        .add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Some(table.trim_fmt())
}

fn row(name: &str, totals: &Value) -> Option<[String; 4]> {
    let number = |keys: &[&str]| keys.iter().find_map(|key| totals.get(key)).and_then(Value::as_f64);
    let calls = number(&["calls", "operations"]).filter(|calls| *calls > 0.0)?;
    let micros = number(&["estimated_time_us_total"]);
    Some([
        name.to_owned(),
        calls.to_string(),
        number(&["bytes"]).map_or_else(|| "-".to_owned(), bytes),
        micros.map_or_else(|| "-".to_owned(), time),
    ])
}

/// Bytes as people say them: three digits and a unit of 1024.
fn bytes(count: f64) -> String {
    scaled(count, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Microseconds as people say them.
fn time(micros: f64) -> String {
    scaled(micros, 1000.0, &["us", "ms", "s"])
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut at = 0;
    while value >= step && at + 1 < units.len() {
        value /= step;
        at += 1;
    }
    let digits = if value.fract() == 0.0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_a_line_for_each_operation_and_the_first_failure() {
        let report = serde_json::json!({
            "collectives": {
                "all_reduce": {"calls": 120, "bytes": 987_654_321_u64, "estimated_time_us_total": 12_345.6},
                "all_gather": {"calls": 1, "bytes": 64},
                "broadcast": {"calls": 0, "bytes": 0},
            },
            "point_to_point": {"operations": 2, "bytes": 2048, "estimated_time_us_total": 7.0},
            "resilience": {"failure_count": 2, "failure_events": [{"detail": "rank 1 died"}, {"detail": "rank 0 waited"}]},
        });
        insta::assert_snapshot!(summary(&report), @"
         operation       calls    bytes  estimated time
         all_gather          1     64 B               -
         all_reduce        120  942 MiB         12.3 ms
         point_to_point      2    2 KiB            7 us
        failure: rank 1 died
                 and 1 more, in the report
        ");
    }

    #[test]
    fn a_run_without_calls_has_nothing_to_tell() {
        assert_eq!(summary(&serde_json::json!({"collectives": {}})), "");
        assert_eq!(summary(&Value::Null), "");
    }

    #[test]
    fn numbers_have_the_unit_that_people_use() {
        assert_eq!([bytes(0.0), bytes(1023.0), bytes(1536.0)], ["0 B", "1023 B", "1.5 KiB"]);
        assert_eq!([time(0.5), time(999.0), time(2_500_000.0)], ["0.5 us", "999 us", "2.5 s"]);
    }
}
