//! The shape of the JSON: what the schema says, what is promised to be reproducible.

use fakegpu_proto::{Event, EventKind};
use fakegpu_report::{Fold, Report, WALL_CLOCK_FIELDS, schema};
use serde_json::Value;

use crate::{failed, healthy, payload_off, pipeline};

const COMMITTED: &str = include_str!("../../schema/cluster_report.schema.json");

#[test]
fn the_committed_schema_is_the_one_of_the_types() {
    assert_eq!(
        COMMITTED,
        schema(),
        "write the text of `fakegpu_report::schema()` to schema/cluster_report.schema.json"
    );
}

#[test]
fn reports_are_valid_under_the_schema_and_read_back_as_they_were() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema()).unwrap()).unwrap();
    for events in [vec![], healthy(), failed(), pipeline(), payload_off()] {
        let report = Fold::from_events(&events).report();
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(serde_json::from_value::<Report>(value).unwrap(), report);
    }
}

#[test]
fn a_report_written_before_fields_were_added_is_still_read() {
    let report = Fold::from_events(&pipeline()).report();
    let mut value = serde_json::to_value(&report).unwrap();
    let p2p = value["point_to_point"].as_object_mut().unwrap();
    p2p.remove("zero_byte");
    p2p.remove("one_sided");
    value["resilience"]["failure_events"][0].as_object_mut().unwrap().remove("history");
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema()).unwrap()).unwrap();
    assert!(validator.is_valid(&value));
    assert_eq!(serde_json::from_value::<Report>(value).unwrap().ranks, report.ranks);
}

#[test]
fn a_report_that_lacks_a_collective_is_not_valid() {
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema()).unwrap()).unwrap();
    let mut value = serde_json::to_value(Fold::from_events(&[]).report()).unwrap();
    value["collectives"].as_object_mut().unwrap().remove("scatter");
    assert!(!validator.is_valid(&value));
}

#[test]
fn fields_outside_the_digest_say_so_in_the_schema() {
    let mut said = Vec::new();
    collect_wall_clock(&serde_json::from_str(&schema()).unwrap(), &mut said);
    said.sort_unstable();
    said.dedup();
    assert_eq!(said, WALL_CLOCK_FIELDS);
}

/// Names of properties whose description speaks of the wall clock.
fn collect_wall_clock(schema: &Value, said: &mut Vec<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let speaks = |property: &Value| {
            let description = property.get("description").and_then(Value::as_str);
            description.is_some_and(|text| text.to_lowercase().contains("wall clock"))
        };
        said.extend(properties.iter().filter(|(_, property)| speaks(property)).map(|(name, _)| name.clone()));
    }
    match schema {
        Value::Object(fields) => fields.values().for_each(|field| collect_wall_clock(field, said)),
        Value::Array(entries) => entries.iter().for_each(|entry| collect_wall_clock(entry, said)),
        _ => {}
    }
}

#[test]
fn waits_and_times_of_the_machine_do_not_change_the_digest() {
    let events: Vec<Event> = failed().into_iter().chain(pipeline()).collect();
    let mut other: Vec<Event> = events.clone();
    for event in &mut other {
        event.at = fakegpu_units::HostTime::from_nanos(event.at.as_nanos() * 3 + 1);
        match &mut event.kind {
            EventKind::Operation { waits, .. }
            | EventKind::Barrier { waits, .. }
            | EventKind::CommCreated { waits, .. } => {
                waits.rotate_left(3);
            }
            EventKind::Transfer { send_wait, recv_wait, .. } => std::mem::swap(send_wait, recv_wait),
            EventKind::Failure { history, .. } => history.clear(),
            EventKind::SessionOpened { pid, .. } => *pid += 1,
            _ => {}
        }
    }
    let (report, moved) = (Fold::from_events(&events).report(), Fold::from_events(&other).report());
    assert_ne!(report.to_json(), moved.to_json());
    assert_eq!(report.to_json_without_wall_clock(), moved.to_json_without_wall_clock());
}

#[test]
fn the_same_log_gives_the_same_bytes() {
    let text = || Fold::from_events(&healthy()).report().to_json();
    assert_eq!(text(), text());
    assert!(text().ends_with("}\n"));
}
