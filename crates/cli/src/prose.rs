//! Text that people read on a terminal: ranks in ranges, times in words, lines of a bounded width, and colours.

use fakegpu_units::{GlobalRank, Rank, Ranks};

/// Columns of a page.
pub(crate) const WIDTH: usize = 100;

/// Longest list of ranks that is written out, in ranges; a longer one is counted.
const RANKS_TEXT_MAX: usize = 40;

/// Colours, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ink {
    pub(crate) coloured: bool,
}

impl Ink {
    /// What went wrong.
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    /// Where to look.
    pub(crate) fn mark(self, text: &str) -> String {
        self.paint("1;33", text)
    }

    /// What stands above other lines.
    pub(crate) fn head(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.coloured && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Ranks of the job as `rank 3` or `ranks 0-2, 5`, or their number where even that is long.
pub(crate) fn ranks(ranks: &[GlobalRank]) -> String {
    let mut sorted: Vec<Rank> = ranks.iter().map(|rank| Rank(rank.0)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let text = Ranks(&sorted).to_string();
    match sorted.len() {
        0 => "no rank".to_owned(),
        _ if text.len() <= RANKS_TEXT_MAX => text,
        many => format!("{many} ranks"),
    }
}

/// A count and its noun, whose plural takes an `s`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Milliseconds as people say them.
pub(crate) fn span(millis: u64) -> String {
    const MINUTE: u64 = 60_000;
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..MINUTE => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ if millis < 60 * MINUTE => format!("{} min {} s", millis / MINUTE, millis % MINUTE / 1_000),
        _ => format!("{} h {} min", millis / (60 * MINUTE), millis % (60 * MINUTE) / MINUTE),
    }
}

/// Cuts a text into lines of at most `width` characters, at spaces; a longer word is cut where the line ends.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        for piece in pieces(word, width.max(1)) {
            let length = piece.chars().count();
            if used > 0 && used + 1 + length > width {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            line.push_str(&piece);
            used += length;
        }
    }
    if used > 0 {
        lines.push(line);
    }
    lines
}

fn pieces(word: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    letters.chunks(width).map(|piece| piece.iter().collect()).collect()
}

/// At most `max` lines; where there are more, the last of them ends in an ellipsis.
pub(crate) fn at_most(mut lines: Vec<String>, max: usize) -> Vec<String> {
    if lines.len() > max {
        lines.truncate(max);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} …"), WIDTH);
        }
    }
    lines
}

/// A text of at most `width` characters, with an ellipsis where something is missing.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A program's or person's text without what moves a terminal's cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_long_words_where_they_must() {
        assert_eq!(wrap("a bc def ghij", 6), ["a bc", "def", "ghij"]);
        assert_eq!(wrap("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrap("  ", 3), Vec::<String>::new());
        assert_eq!(at_most(wrap("a b c", 1), 2), ["a", "b …"]);
    }

    #[test]
    fn spans_have_two_units_at_most() {
        let told = [7, 12_345, 125_000, 3_720_000].map(span);
        assert_eq!(told, ["7 ms", "12.3 s", "2 min 5 s", "1 h 2 min"]);
    }

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(
            (cut("abc", 3).as_str(), cut("abcd", 3).as_str(), cut("ab cd", 4).as_str()),
            ("abc", "ab…", "ab…")
        );
    }

    #[test]
    fn ranks_are_ranges_or_a_number() {
        let of = |numbers: &[u32]| ranks(&numbers.iter().copied().map(GlobalRank).collect::<Vec<_>>());
        assert_eq!([of(&[]), of(&[3]), of(&[2, 0, 1, 2])], ["no rank", "rank 3", "ranks 0-2"]);
        assert_eq!(of(&(0..60).map(|rank| rank * 2).collect::<Vec<_>>()), "60 ranks");
    }
}
