//! `fakegpu report`: the report of a run, from its events.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use fakegpu_proto::Event;
use fakegpu_report::{Fold, Options};

use crate::arguments::ReportArguments;
use crate::{check, say};

/// The longest line that is read; the longest event, a failure of a large communicator, is far shorter.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Prints or writes the report of a saved event log.
pub(crate) fn rebuild(arguments: &ReportArguments) -> Result<u8> {
    let path = &arguments.events;
    let name = path.display().to_string();
    let told = || format!("cannot read `{name}`");
    if path.is_dir() {
        bail!("`{name}` is a folder: name the file that `fakegpu-coordinator --events` wrote");
    }
    let file = File::open(path).with_context(told)?;
    let options = Options { timeline_max: check::settings(std::env::vars_os())?.report.max_operations };
    let log = read(BufReader::new(file), options).with_context(told)?;
    for note in &log.notes {
        say::err(&format!("fakegpu: `{name}`: {note}\n"));
    }
    let report = log.fold.report();
    if let Some(to) = &arguments.json {
        write(to, &report.to_json())?;
    }
    if let Some(to) = &arguments.markdown {
        write(to, &report.to_markdown())?;
    }
    if arguments.json.is_none() && arguments.markdown.is_none() {
        say::out(&report.to_markdown());
    }
    Ok(0)
}

fn write(to: &Path, text: &str) -> Result<()> {
    if to.as_os_str() == "-" {
        say::out(text);
        return Ok(());
    }
    std::fs::write(to, text).with_context(|| format!("cannot write `{}`", to.display()))
}

/// A log, read.
#[derive(Debug)]
struct Log {
    fold: Fold,
    /// What a person should know about it.
    notes: Vec<String>,
}

/// Folds a log line by line, so that its size does not matter.
fn read(mut lines: impl BufRead, options: Options) -> Result<Log> {
    let mut log = Log { fold: Fold::new(options), notes: Vec::new() };
    let (mut number, mut events) = (0_u64, 0_u64);
    // Only what follows tells a line that is cut off from one that is wrong.
    let mut broken: Option<(u64, serde_json::Error)> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        number += 1;
        if lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 == LINE_BYTES_MAX {
            bail!("line {number} is longer than {LINE_BYTES_MAX} bytes, which no event is");
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some((number, error)) = broken {
            return Err(mistaken(number, &error, events));
        }
        match serde_json::from_slice::<Event>(line.trim_ascii_end()) {
            Ok(event) => {
                events += 1;
                log.fold.apply(&event);
            }
            Err(error) => broken = Some((number, error)),
        }
    }
    match broken {
        Some((number, error)) if events == 0 => return Err(mistaken(number, &error, events)),
        Some((number, error)) => log.notes.push(format!(
            "line {number}, the last, is cut off and left out ({}): the coordinator was killed while it wrote",
            reason(&error)
        )),
        None if events == 0 => bail!("it has no events"),
        None if log.fold.report().stopped.is_none() => {
            log.notes.push("the log ends before the coordinator does: it was killed, or still runs".to_owned());
        }
        None => {}
    }
    Ok(log)
}

fn mistaken(number: u64, error: &serde_json::Error, events: u64) -> anyhow::Error {
    let advice =
        if events == 0 { "; an event log is what `fakegpu-coordinator --events FILE` writes" } else { "" };
    anyhow::anyhow!("line {number} is no event: {}{advice}", reason(error))
}

/// The parser's words. To it, every line is the first of its text.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("{what} at column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPPED: &str = r#"{"at":0,"kind":{"event":"stopped","why":"idle"}}"#;
    const HAZARD: &str = r#"{"at":7,"kind":{"event":"hazard","comm":1,"detail":"x"}}"#;

    fn notes(text: &str) -> Result<Vec<String>, String> {
        read(text.as_bytes(), Options::default()).map(|log| log.notes).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_log_is_folded_in_silence() {
        let log = read(format!("{HAZARD}\n\n{STOPPED}\n").as_bytes(), Options::default()).unwrap();
        assert_eq!((log.notes, log.fold.report().hazards.len()), (Vec::new(), 1));
    }

    #[test]
    fn a_last_line_that_is_cut_off_is_said_and_left_out() {
        let notes = notes(&format!("{HAZARD}\n{}", &STOPPED[..30])).unwrap();
        insta::assert_snapshot!(notes.join("\n"), @"line 2, the last, is cut off and left out (EOF while parsing a string at column 30): the coordinator was killed while it wrote");
    }

    #[test]
    fn a_log_whose_coordinator_did_not_end_says_so() {
        insta::assert_snapshot!(notes(&format!("{HAZARD}\n")).unwrap().join("\n"), @"the log ends before the coordinator does: it was killed, or still runs");
    }

    #[test]
    fn a_broken_line_before_the_last_is_an_error_with_its_number() {
        insta::assert_snapshot!(notes(&format!("{HAZARD}\n{{\n{HAZARD}\n")).unwrap_err(), @"line 2 is no event: EOF while parsing an object at column 1");
    }

    #[test]
    fn what_is_no_event_log_is_told_what_one_is() {
        insta::assert_snapshot!(notes("# A report\n").unwrap_err(), @"line 1 is no event: expected value at column 1; an event log is what `fakegpu-coordinator --events FILE` writes");
        insta::assert_snapshot!(notes("").unwrap_err(), @"it has no events");
    }
}
