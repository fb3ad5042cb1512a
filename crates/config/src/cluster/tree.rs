//! YAML as a tree in which every key and value knows its bytes.
//!
//! Nothing is decided here but syntax and size, so that what is wrong with the meaning can be collected over the
//! whole file. Duplicate keys survive for the same reason. All that is particular to the YAML library is here.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::options::{AliasLimits, DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_yaml::{DefaultMessageFormatter, Error, Location, MessageFormatter, Options, Spanned};

/// A value and the bytes it was written in; for an alias, those of the alias.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// What was written.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Whole(i128),
    Real(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
}

/// Why a text is no tree.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub(super) span: Range<usize>,
    pub(super) message: String,
    pub(super) help: Option<&'static str>,
}

/// Collections inside one another that are followed; a cluster file needs 6.
const MAX_DEPTH: usize = 24;
/// Values in a file: a full world, written out, has four a rank.
const MAX_VALUES: usize = 500_000;
/// Events that aliases may replay, all together.
const MAX_REPLAYED: usize = 100_000;

/// Reads one document. An empty one is [`Value::Null`].
pub(super) fn parse(text: &str) -> Result<Tree, SyntaxError> {
    serde_yaml::from_str_with_options::<Tree>(text, options()).or_else(|error| {
        match error.without_snippet() {
            Error::Eof { .. } if blank(text) => Ok(Tree { span: 0..0, value: Value::Null }),
            error => Err(SyntaxError::new(text, error)),
        }
    })
}

/// Whether there is nothing but white space and comments.
fn blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#'))
}

fn options() -> Options {
    let mut budget = serde_yaml::Budget::default();
    budget.max_depth = MAX_DEPTH;
    budget.max_nodes = MAX_VALUES;
    budget.max_events = 2 * MAX_VALUES;
    budget.max_recorded_anchor_events = MAX_REPLAYED;
    let mut aliases = AliasLimits::default();
    aliases.max_total_replayed_events = MAX_REPLAYED;
    aliases.max_replay_stack_depth = MAX_DEPTH;
    serde_yaml::options! {
        budget: Some(budget),
        alias_limits: aliases,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        with_snippet: false,
    }
}

impl SyntaxError {
    fn new(text: &str, error: &Error) -> Self {
        let (message, help) = match error {
            Error::AliasError { error, .. } => return Self::new(text, error),
            Error::MultipleDocuments { .. } => (
                "a second document begins here".to_owned(),
                Some("one file describes one cluster: remove `---`"),
            ),
            error if is_excess(error) => (
                "this file nests or repeats itself beyond reason".to_owned(),
                Some("write the values out: no cluster needs this depth or this many aliases"),
            ),
            error => {
                let message = plain(error);
                let help = HELP.iter().find(|(part, _)| message.contains(part)).map(|(_, help)| *help);
                (message, help)
            }
        };
        let at = error.location().map_or(0, |location| offset_of(text, &location));
        Self { span: at..at + 1, message, help }
    }
}

/// What to do about the commonest syntax errors, by a part of what the parser says.
const HELP: &[(&str, &str)] = &[
    ("tab", "indent with spaces"),
    ("flow", "a bracket, brace or quote may be left open before this place"),
    ("block mapping", "keys of one mapping stand in one column"),
    ("unknown anchor", "mark the value to repeat with `&` and a name, before the first `*` with that name"),
];

/// Whether the text was given up for its size once read, rather than for its syntax.
fn is_excess(error: &Error) -> bool {
    matches!(
        error,
        Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
    ) // The scanner's own limit on brackets has no variant.
        || plain(error).contains("recursion limit")
}

fn plain(error: &Error) -> String {
    DefaultMessageFormatter.format_message(error).into_owned()
}

/// Syntax errors have a line and a column in characters, and no bytes.
fn offset_of(text: &str, location: &Location) -> usize {
    let before = |count: u64| usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
    let start: usize = text.split_inclusive('\n').take(before(location.line())).map(str::len).sum();
    let line = text[start..].lines().next().unwrap_or_default();
    start + line.chars().take(before(location.column())).map(char::len_utf8).sum::<usize>()
}

fn bytes_of(location: &Location) -> Range<usize> {
    let span = location.span();
    let at = |number: Option<u64>| number.and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let start = at(span.byte_offset());
    start..start.saturating_add(at(span.byte_len()))
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { span: bytes_of(&spanned.referenced), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Whole(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}

impl fmt::Display for Value {
    /// What was found, as the end of "… must be a number, found …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(value) => write!(f, "the truth value `{value}`"),
            Self::Whole(value) => write!(f, "the number `{value}`"),
            Self::Real(value) => write!(f, "the number `{value}`"),
            Self::Text(text) => write!(f, "the text {}", crate::words::quoted(text)),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a mapping"),
        }
    }
}
