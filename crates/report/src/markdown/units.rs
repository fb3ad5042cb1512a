//! Numbers as people read them, exact where they are counts.

/// A count with separators: `1,048,576`.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun, whose plural takes an `s` or is given behind a bar: `2 ranks`, `1 entry|entries`.
pub(super) fn word(value: u64, noun: &str) -> String {
    let (one, many) =
        noun.split_once('|').map_or_else(|| (noun, format!("{noun}s")), |(one, many)| (one, many.to_owned()));
    if value == 1 { format!("1 {one}") } else { format!("{} {many}", count(value)) }
}

/// Bytes, exact, with the rounded size behind: `4,194,304 B (4.0 MiB)`.
pub(super) fn bytes(value: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let exact = format!("{} B", count(value));
    // Each unit is worth ten bits; the largest that leaves at least 1.
    let Some(unit) = value.checked_ilog2().and_then(|bits| (bits / 10).checked_sub(1)) else { return exact };
    let size = value as f64 / f64::from(1 << 10).powi(i32::try_from(unit + 1).unwrap_or(1));
    format!("{exact} ({size:.1} {})", UNITS[unit as usize])
}

/// Predicted microseconds in the unit a person would pick.
pub(super) fn time(micros: f64) -> String {
    match micros {
        0.0 => "0".to_owned(),
        _ if micros < 1e3 => format!("{micros:.2} µs"),
        _ if micros < 1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// Milliseconds of the wall clock in the unit a person would pick.
pub(super) fn millis(millis: f64) -> String {
    match millis {
        0.0 => "0".to_owned(),
        _ if millis < 1.0 => format!("{:.0} µs", millis * 1e3),
        _ if millis < 1e3 => format!("{millis:.1} ms"),
        _ => format!("{:.1} s", millis / 1e3),
    }
}

/// A bandwidth: `400 Gb/s`.
pub(super) fn gbps(value: f64) -> String {
    format!("{value} Gb/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_keep_every_digit() {
        assert_eq!([0, 999, 1_000, 1_048_576].map(count), ["0", "999", "1,000", "1,048,576"]);
    }

    #[test]
    fn sizes_are_exact_first_and_rounded_behind() {
        assert_eq!(
            [0, 1_023, 1_024, 4_194_304, u64::MAX].map(bytes),
            [
                "0 B",
                "1,023 B",
                "1,024 B (1.0 KiB)",
                "4,194,304 B (4.0 MiB)",
                "18,446,744,073,709,551,615 B (16.0 EiB)"
            ]
        );
    }

    #[test]
    fn times_take_the_unit_a_person_would_pick() {
        assert_eq!([0.0, 12.345, 12_345.0, 12_345_678.0].map(time), ["0", "12.35 µs", "12.35 ms", "12.35 s"]);
        assert_eq!([0.0, 0.25, 2.0, 2_500.0].map(millis), ["0", "250 µs", "2.0 ms", "2.5 s"]);
    }

    #[test]
    fn nouns_agree_with_their_number() {
        assert_eq!([word(1, "rank"), word(2, "rank")], ["1 rank", "2 ranks"]);
        assert_eq!([word(1, "entry|entries"), word(0, "entry|entries")], ["1 entry", "0 entries"]);
    }
}
