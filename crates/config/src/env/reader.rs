//! Values out of variables, by the table, with every mistake kept.

use std::collections::BTreeMap;
use std::fmt;

use super::Address;
use super::table::{PLACEMENT_VARIABLES, VARIABLES, Values, Variable};
use crate::nearest::{did_you_mean, nearest};
use crate::words::{Word, alternatives, counted, quoted};

/// One thing wrong with the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvMistake {
    /// The variable's name.
    pub variable: String,
    /// What is wrong with it, as the rest of a sentence that begins with its name.
    pub message: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for EnvMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}; {}", self.variable, self.message, self.help)
    }
}

/// Everything wrong with the environment; never empty. `Display` has one mistake a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvMistakes(Vec<EnvMistake>);

impl EnvMistakes {
    /// The mistakes, in the table's order as far as each concerns one variable.
    pub fn iter(&self) -> std::slice::Iter<'_, EnvMistake> {
        self.0.iter()
    }
}

impl fmt::Display for EnvMistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        write!(f, "{} in the environment:", counted(self.0.len(), "mistake"))?;
        self.0.iter().try_for_each(|mistake| write!(f, "\n  {mistake}"))
    }
}

impl std::error::Error for EnvMistakes {}

/// The variables of the tables, and what was found wrong with them so far.
pub(super) struct Reader {
    vars: BTreeMap<&'static str, String>,
    mistakes: Vec<EnvMistake>,
}

impl Reader {
    /// Keeps what the tables know and reports what they should know.
    pub(super) fn new(vars: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut reader = Self { vars: BTreeMap::new(), mistakes: Vec::new() };
        for (name, value) in vars {
            let known = VARIABLES.iter().chain(PLACEMENT_VARIABLES).find(|variable| variable.name == name);
            match known {
                Some(_) if value.is_empty() => {}
                Some(variable) => reader.keep(variable, value),
                None if name.starts_with("FAKEGPU_") => reader.unknown(&name),
                None => {}
            }
        }
        reader
    }

    fn keep(&mut self, variable: &Variable, value: String) {
        let max = variable.values.max_bytes();
        if value.len() > max {
            let message = format!("has {} bytes", value.len());
            return self.mistake(variable, message, &format!("at most {max} are accepted"));
        }
        self.vars.insert(variable.name, value);
    }

    fn unknown(&mut self, name: &str) {
        let near = nearest(name, VARIABLES.iter().map(|variable| variable.name));
        self.mistakes.push(EnvMistake {
            variable: quoted(name).trim_matches('`').to_owned(),
            message: "is not a variable of FakeGPU".to_owned(),
            help: near.map_or_else(
                || "unset it, or see `fakegpu doctor` for those there are".to_owned(),
                |near| format!("did you mean {near}?"),
            ),
        });
    }

    pub(super) fn mistake(&mut self, variable: &Variable, message: String, help: &str) {
        self.mistakes.push(EnvMistake { variable: variable.name.to_owned(), message, help: help.to_owned() });
    }

    pub(super) fn finish(self) -> Result<(), EnvMistakes> {
        if self.mistakes.is_empty() { Ok(()) } else { Err(EnvMistakes(self.mistakes)) }
    }

    /// Whether the user set it to anything.
    pub(super) fn is_set(&self, variable: &Variable) -> bool {
        self.vars.contains_key(variable.name)
            || self.mistakes.iter().any(|mistake| mistake.variable == variable.name)
    }

    /// The value, or the table's default.
    pub(super) fn text(&self, variable: &Variable) -> Option<String> {
        let written = self.vars.get(variable.name).map(String::as_str);
        written.or_else(|| variable.default.value()).map(str::to_owned)
    }

    /// The value if it is one of the table's words.
    pub(super) fn choice(&mut self, variable: &Variable) -> Option<String> {
        let Values::Word(names) = variable.values else { return None };
        let text = self.text(variable)?;
        if names.contains(&text.as_str()) {
            return Some(text);
        }
        let help = match nearest(&text, names.iter().copied()) {
            Some(_) => did_you_mean(&text, names),
            None => format!("use {}", alternatives(names)),
        };
        self.mistake(variable, format!("is {}", quoted(&text)), &help);
        None
    }

    pub(super) fn word<T: Word>(&mut self, variable: &Variable) -> Option<T> {
        debug_assert_eq!(variable.values, Values::Word(T::NAMES), "{} reads its own words", variable.name);
        self.choice(variable).and_then(|name| T::from_name(&name))
    }

    pub(super) fn number(&mut self, variable: &Variable) -> Option<u64> {
        let Values::Number { min, max, .. } = variable.values else { return None };
        let text = self.text(variable)?;
        // `u64::from_str` would also take `+5`.
        let number = text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        let accepted = number.filter(|number| (min..=max).contains(number));
        if accepted.is_none() {
            self.mistake(variable, format!("is {}", quoted(&text)), &format!("use {}", variable.values));
        }
        accepted
    }

    /// A number of bytes or things, as this machine counts them.
    pub(super) fn size(&mut self, variable: &Variable) -> Option<usize> {
        self.number(variable).and_then(|number| usize::try_from(number).ok())
    }

    /// A rank or a number of ranks; the table bounds both far below `u32::MAX`.
    pub(super) fn ranks(&mut self, variable: &Variable) -> Option<u32> {
        self.number(variable).and_then(|number| u32::try_from(number).ok())
    }

    pub(super) fn flag(&mut self, variable: &Variable) -> bool {
        let text = self.text(variable).unwrap_or_default();
        match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => true,
            "0" | "false" | "no" | "off" => false,
            _ => {
                self.mistake(variable, format!("is {}", quoted(&text)), &format!("use {}", variable.values));
                false
            }
        }
    }

    /// An address that can be connected to.
    pub(super) fn address(&mut self, variable: &Variable) -> Option<Address> {
        let text = self.text(variable)?;
        let message = match text.parse() {
            Ok(Address::Tcp { port: 0, .. }) => "has port 0, which is no place to connect to".to_owned(),
            Ok(address) => return Some(address),
            Err(error) => format!("is not an address: {error}"),
        };
        self.mistake(variable, message, &format!("use {}", variable.values));
        None
    }
}
