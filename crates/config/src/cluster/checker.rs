//! Values out of a tree, with every mistake kept.
//!
//! A reader that finds something wrong reports it and returns `None`; its caller reads on. A cluster comes out only
//! if nothing was reported.

use std::collections::BTreeMap;
use std::ops::Range;

use super::mistakes::Finding;
use super::tree::{Tree, Value};
use crate::nearest::{did_you_mean, nearest};
use crate::words::{Word, quoted};

/// More are not collected: a file full of noise should not fill memory with complaints.
pub(super) const MAX_FINDINGS: usize = 1000;

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(super) struct Checker {
    findings: Vec<Finding>,
}

/// A value and the name of the key that it stands under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'t> {
    pub(super) name: &'static str,
    pub(super) tree: &'t Tree,
}

impl Field<'_> {
    pub(super) fn span(&self) -> &Range<usize> {
        &self.tree.span
    }
}

/// A mapping whose keys are known and unique.
#[derive(Debug)]
pub(super) struct Fields<'t> {
    /// Where to say that something is missing.
    at: Range<usize>,
    what: String,
    entries: Vec<Field<'t>>,
}

impl<'t> Fields<'t> {
    pub(super) fn find(&self, name: &str) -> Option<Field<'t>> {
        self.entries.iter().find(|field| field.name == name).copied()
    }

    pub(super) fn at(&self) -> &Range<usize> {
        &self.at
    }
}

/// What a number means and may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantity {
    least: f64,
    /// Whether `least` itself is refused.
    above: bool,
    expected: &'static str,
    help: &'static str,
}

pub(super) const BANDWIDTH: Quantity = Quantity {
    least: 0.0,
    above: true,
    expected: "a finite number above 0",
    help: "write gigabits per second and direction, without a unit, such as 400",
};
pub(super) const LATENCY: Quantity = Quantity {
    least: 0.0,
    above: false,
    expected: "a finite number, 0 or more",
    help: "write microseconds, without a unit, such as 5",
};
pub(super) const OVERSUBSCRIPTION: Quantity = Quantity {
    least: 1.0,
    above: false,
    expected: "a finite number, 1 or more",
    help: "1 means that every port can send at its full rate; 2, at half of it",
};

impl Checker {
    pub(super) fn report(&mut self, finding: Finding) {
        if !self.is_full() {
            self.findings.push(finding);
        }
    }

    /// Whether further reports would be dropped, so that none need be worded.
    pub(super) fn is_full(&self) -> bool {
        self.findings.len() >= MAX_FINDINGS
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    fn wrong_type(&mut self, field: Field<'_>, expected: &str, help: Option<&str>) {
        let finding = Finding::new(
            field.span(),
            format!("`{}` must be {expected}, found {}", field.name, field.tree.value),
        );
        self.report(match help {
            Some(help) => finding.help(help),
            None => finding,
        });
    }

    /// The mapping's entries under `known` keys. Duplicates and strangers are reported; a stranger that can only be
    /// a slip for a key that is not there is read as that key, so that one slip is one mistake.
    pub(super) fn fields<'t>(
        &mut self,
        tree: &'t Tree,
        what: &str,
        known: &[&'static str],
    ) -> Option<Fields<'t>> {
        let Value::Map(entries) = &tree.value else {
            let message = format!("{what} must be a mapping, found {}", tree.value);
            self.report(Finding::new(&tree.span, message).help(format!("its keys are {}", known.join(", "))));
            return None;
        };
        let mut fields = Fields { at: beginning(tree, entries), what: what.to_owned(), entries: Vec::new() };
        let mut strangers = Vec::new();
        for (name, key, value) in self.unique_keys(what, entries) {
            match known.iter().find(|known| **known == name) {
                Some(name) => fields.entries.push(Field { name, tree: value }),
                None => strangers.push((name, key, value)),
            }
        }
        for (name, key, value) in strangers {
            self.unknown_key(name, what, &key.span, known);
            if let Some(name) =
                nearest(name, known.iter().copied()).filter(|name| fields.find(name).is_none())
            {
                fields.entries.push(Field { name, tree: value });
            }
        }
        Some(fields)
    }

    /// The entries with a key that is text and not there before.
    fn unique_keys<'t>(
        &mut self,
        what: &str,
        entries: &'t [(Tree, Tree)],
    ) -> Vec<(&'t str, &'t Tree, &'t Tree)> {
        let mut seen: BTreeMap<&str, &Range<usize>> = BTreeMap::new();
        let mut unique = Vec::new();
        for (key, value) in entries {
            let Some(name) = self.key(key, what) else { continue };
            if let Some(first) = seen.get(name) {
                self.duplicate_key(name, what, first, &key.span);
            } else {
                seen.insert(name, &key.span);
                unique.push((name, key, value));
            }
        }
        unique
    }

    fn key<'t>(&mut self, key: &'t Tree, what: &str) -> Option<&'t str> {
        if let Value::Text(name) = &key.value {
            return Some(name);
        }
        self.report(Finding::new(&key.span, format!("a key of {what} must be text, found {}", key.value)));
        None
    }

    fn duplicate_key(&mut self, name: &str, what: &str, first: &Range<usize>, again: &Range<usize>) {
        let message = format!("{what} has the key {} twice", quoted(name));
        let finding = Finding::new(again, message).label("again here").also(first, "first here");
        self.report(finding.help("keep one of them"));
    }

    fn unknown_key(&mut self, name: &str, what: &str, span: &Range<usize>, known: &[&str]) {
        let help = if name == "<<" {
            "merge keys are not followed: write the keys out".to_owned()
        } else {
            did_you_mean(name, known)
        };
        self.report(Finding::new(span, format!("{what} has no key {}", quoted(name))).help(help));
    }

    /// The entry, or a mistake that shows how to write it.
    pub(super) fn require<'t>(
        &mut self,
        fields: &Fields<'t>,
        name: &str,
        example: &str,
    ) -> Option<Field<'t>> {
        let field = fields.find(name);
        if field.is_none() {
            let message = format!("{} lacks the key `{name}`", fields.what);
            self.report(Finding::new(&fields.at, message).help(format!("add `{name}: {example}`")));
        }
        field
    }

    pub(super) fn list<'t>(&mut self, field: Field<'t>) -> Option<&'t [Tree]> {
        if let Value::List(items) = &field.tree.value {
            return Some(items);
        }
        let help = match &field.tree.value {
            Value::Null => format!("write `{}: []` for an empty list", field.name),
            _ => format!("put it into brackets: `{}: [...]`", field.name),
        };
        self.wrong_type(field, "a list", Some(&help));
        None
    }

    /// A name: text that is not empty, of at most 255 bytes.
    pub(super) fn text<'t>(&mut self, field: Field<'t>) -> Option<&'t str> {
        const MAX_NAME_BYTES: usize = 255;
        match &field.tree.value {
            Value::Text(text) if text.trim().is_empty() => {
                self.report(Finding::new(field.span(), format!("`{}` is blank", field.name)));
                None
            }
            Value::Text(text) if text.len() > MAX_NAME_BYTES => {
                let message =
                    format!("`{}` has {} bytes, more than {MAX_NAME_BYTES}", field.name, text.len());
                self.report(Finding::new(field.span(), message));
                None
            }
            Value::Text(text) => Some(text),
            Value::Whole(_) | Value::Real(_) | Value::Bool(_) => {
                self.wrong_type(field, "text", Some("put it into quotes to make it text"));
                None
            }
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.wrong_type(field, "text", None);
                None
            }
        }
    }

    /// One of the words that `T` is written as.
    pub(super) fn word<T: Word>(&mut self, field: Field<'_>) -> Option<T> {
        self.one_of(field, T::NAMES).and_then(T::from_name)
    }

    /// Text that is one of `names`.
    pub(super) fn one_of<'t>(&mut self, field: Field<'t>, names: &[&str]) -> Option<&'t str> {
        let text = self.text(field)?;
        if names.contains(&text) {
            return Some(text);
        }
        let message = format!("unknown {} {}", field.name, quoted(text));
        self.report(Finding::new(field.span(), message).help(did_you_mean(text, names)));
        None
    }

    pub(super) fn quantity(&mut self, field: Field<'_>, quantity: Quantity) -> Option<f64> {
        let number = match field.tree.value {
            #[expect(clippy::cast_precision_loss, reason = "no bandwidth needs more than 53 bits")]
            Value::Whole(number) => number as f64,
            Value::Real(number) => number,
            _ => {
                self.wrong_type(field, "a number", Some(quantity.help));
                return None;
            }
        };
        let too_small = number < quantity.least || (quantity.above && number <= quantity.least);
        if !number.is_finite() || too_small {
            self.wrong_type(field, quantity.expected, Some(quantity.help));
            return None;
        }
        Some(number)
    }

    /// A whole number from `least` to `most`.
    pub(super) fn whole(&mut self, field: Field<'_>, least: u32, most: u32) -> Option<u32> {
        if let Value::Whole(number) = field.tree.value
            && let Ok(number) = u32::try_from(number)
            && (least..=most).contains(&number)
        {
            return Some(number);
        }
        self.wrong_type(field, &format!("a whole number from {least} to {most}"), None);
        None
    }
}

/// Where a mapping begins, for the eye: its first key if that is where it starts, else its brace.
fn beginning(tree: &Tree, entries: &[(Tree, Tree)]) -> Range<usize> {
    match entries.first() {
        Some((key, _)) if key.span.start <= tree.span.start => key.span.clone(),
        _ => tree.span.clone(),
    }
}
