//! Enumerations that people write: each value is one lower-case word, stated once beside its meaning.

/// An enumeration read from text; what [`words!`] makes.
pub(crate) trait Word: Copy + 'static {
    /// Every accepted spelling, in declaration order.
    const NAMES: &'static [&'static str];
    /// The value spelled so.
    fn from_name(name: &str) -> Option<Self>;
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant),*
        }

        impl $name {
            /// Every spelling, in declaration order.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// The word as it is written in variables, files and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The value spelled `name`, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::words::Word for $name {
            const NAMES: &'static [&'static str] = Self::NAMES;
            fn from_name(name: &str) -> Option<Self> { Self::from_name(name) }
        }
    };
}
pub(crate) use words;

/// The names as a sentence has them: `a, b or c`.
pub(crate) fn alternatives<S: AsRef<str>>(names: &[S]) -> String {
    match names {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} or {}", most.join(", "), last.as_ref())
        }
    }
}

/// `1 mistake`, `2 mistakes`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A value as errors quote it: control characters escaped, cut after 60 characters.
pub(crate) fn quoted(value: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown: String = value.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if value.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(alternatives(&["a"]), "a");
        assert_eq!(alternatives(&["a", "b", "c"]), "a, b or c");
        assert_eq!(counted(1, "mistake"), "1 mistake");
        assert_eq!(counted(3, "mistake"), "3 mistakes");
    }

    #[test]
    fn quoted_values_are_short_and_printable() {
        assert_eq!(quoted("a\u{1b}[31m\n"), "`a\\u{1b}[31m\\n`");
        assert!(quoted(&"x".repeat(5000)).len() < 70);
    }
}
