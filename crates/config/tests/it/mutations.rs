//! Valid files, damaged at random: the reader answers, and points into the file.

use std::time::{Duration, Instant};

use fakegpu_config::Cluster;
use proptest::prelude::*;

use crate::files;

/// One act of damage.
#[derive(Clone, Debug)]
enum Damage {
    DeleteLine(usize),
    DuplicateLine(usize),
    SwapLines(usize, usize),
    Insert(usize, char),
    Remove(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<usize>;
    let telling =
        prop::sample::select("{}[]:,-&*#'\"|>?%@`!<~ \t\n\r0.\u{feff}\u{0}😀".chars().collect::<Vec<_>>());
    prop_oneof![
        at().prop_map(Damage::DeleteLine),
        at().prop_map(Damage::DuplicateLine),
        (at(), at()).prop_map(|(a, b)| Damage::SwapLines(a, b)),
        (at(), prop_oneof![telling, any::<char>()]).prop_map(|(at, c)| Damage::Insert(at, c)),
        at().prop_map(Damage::Remove),
    ]
}

fn apply(text: &str, damage: &Damage) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut chars: Vec<char> = text.chars().collect();
    let (line_count, char_count) = (lines.len().max(1), chars.len().max(1));
    match *damage {
        _ if text.is_empty() => return String::new(),
        Damage::DeleteLine(at) => drop(lines.remove(at % line_count)),
        Damage::DuplicateLine(at) => lines.insert(at % line_count, lines[at % line_count]),
        Damage::SwapLines(a, b) => lines.swap(a % line_count, b % line_count),
        Damage::Insert(at, c) => {
            chars.insert(at % char_count, c);
            return chars.into_iter().collect();
        }
        Damage::Remove(at) => {
            chars.remove(at % char_count);
            return chars.into_iter().collect();
        }
    }
    lines.concat()
}

/// Either a cluster that keeps its promises or mistakes that lie in the file.
fn answer(text: &str) -> Result<(), TestCaseError> {
    let start = Instant::now();
    match Cluster::parse("damaged.yaml", text) {
        Ok(cluster) => {
            for (rank, place) in (0..).map(fakegpu_units::GlobalRank).zip(cluster.places()) {
                let found = cluster.node_of(rank).zip(cluster.local_device_of(rank));
                prop_assert_eq!(found, Some(place), "rank {}", rank);
            }
            let written = Cluster::parse("written.yaml", &cluster.to_yaml());
            prop_assert_eq!(written.as_ref(), Ok(&cluster));
            prop_assert!(cluster.nodes.iter().all(|node| node.ranks.len() == node.gpus.len()));
        }
        Err(mistakes) => {
            let lines = text.lines().count().max(1);
            prop_assert!(mistakes.iter().next().is_some(), "refused without a reason");
            for mistake in &mistakes {
                prop_assert!((1..=lines).contains(&mistake.line), "line {} of {lines}", mistake.line);
                prop_assert!(mistake.column >= 1);
            }
            let text = mistakes.to_string();
            let all = mistakes.iter().count();
            let shown = text.lines().filter(|line| line.starts_with("error")).count();
            let total = if shown < all {
                format!("in damaged.yaml, the first {shown} are shown")
            } else {
                "in damaged.yaml".to_owned()
            };
            prop_assert!(text.ends_with(&total), "{text}");
        }
    }
    prop_assert!(start.elapsed() < Duration::from_secs(5));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_answered(file in any::<prop::sample::Index>(), acts in prop::collection::vec(damage(), 1..6)) {
        let files = files("valid");
        let text = acts.iter().fold(file.get(&files).1.clone(), |text, act| apply(&text, act));
        answer(&text)?;
    }

    #[test]
    fn random_text_is_answered(text in "[\\PC\n\t]{0,80}") {
        answer(&text)?;
    }

    #[test]
    fn random_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        answer(&String::from_utf8_lossy(&bytes))?;
    }
}
