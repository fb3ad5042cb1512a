//! "Did you mean": the known name nearest to a mistyped one.

/// The candidate nearest to `typed`, if it is near enough to be a slip: at most a third of its letters differ,
/// upper and lower case and `-`/`_` counting as equal.
///
/// The earlier of two equally near candidates wins.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody mistypes a name into a page of text, and the distance is quadratic in the length.
    const LONGEST: usize = 64;
    if typed.len() > LONGEST {
        return None;
    }
    let typed = folded(typed);
    candidates
        .into_iter()
        .map(|candidate| (distance(&typed, &folded(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The help line for a mistyped name: the nearest one, else those there are.
pub(crate) fn did_you_mean(typed: &str, candidates: &[&str]) -> String {
    const LISTED: usize = 16;
    // Names by the thousand are made by a program, and so is the slip.
    const COMPARED: usize = 512;
    let compared = &candidates[..candidates.len().min(COMPARED)];
    if let Some(near) = nearest(typed, compared.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    match candidates.split_at_checked(LISTED) {
        Some((listed, more @ [_, ..])) => {
            format!("known here: {} and {} more", listed.join(", "), more.len())
        }
        _ => format!("known here: {}", candidates.join(", ")),
    }
}

fn folded(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Edit distance in which swapping two neighbouring letters is one slip, the commonest there is.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, &from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &to) in b.iter().enumerate() {
            let mut best = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from == b[j - 1] && a[i - 1] == to {
                best = best.min(before_last[j - 1] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, expected: Option<&str>) {
        assert_eq!(nearest(typed, ["bandwidth_gbps", "latency_us", "ranks", "id"]), expected);
    }

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_does_not() {
        check("bandwith_gbps", Some("bandwidth_gbps"));
        check("Bandwidth-Gbps", Some("bandwidth_gbps"));
        check("rnaks", Some("ranks"));
        check("rank", Some("ranks"));
        check("di", Some("id"));
        check("colour", None);
        check("", None);
        check(&"r".repeat(100_000), None);
    }
}
