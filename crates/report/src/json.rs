//! The report as JSON, its schema, and the part of it that is the same in every run.

use serde_json::Value;

use crate::model::Report;

/// Fields that differ from run to run: times of the machine, process ids, sentences that may quote them, and how far
/// ranks had come when another failed. Their
/// descriptions in the schema say "wall clock".
pub const WALL_CLOCK_FIELDS: [&str; 9] = [
    "at_ms",
    "detail",
    "history",
    "join_wait_ms",
    "longest_barrier_wait_ms",
    "longest_wait_ms",
    "max_wait_ms",
    "pid",
    "wait_time_ms",
];

impl Report {
    /// The report as JSON: indented, fields in the order of the types, one newline at the end.
    pub fn to_json(&self) -> String {
        pretty(self)
    }

    /// The report without [`WALL_CLOCK_FIELDS`]: the same for the same program on the same cluster.
    pub fn digest_value(&self) -> Value {
        let mut value = serde_json::to_value(self).expect("a report has text keys alone");
        strip(&mut value);
        value
    }

    /// [`Report::digest_value`] as text, to compare or to hash.
    pub fn to_json_without_wall_clock(&self) -> String {
        pretty(&self.digest_value())
    }
}

/// The JSON Schema of [`Report`], as text.
pub fn schema() -> String {
    pretty(&schemars::schema_for!(Report))
}

fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("a report has text keys alone");
    text.push('\n');
    text
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !WALL_CLOCK_FIELDS.contains(&name.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(entries) => entries.iter_mut().for_each(strip),
        _ => {}
    }
}
