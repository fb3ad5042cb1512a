//! The one-line protocol for people with `socat` and for scripts: `VERB key=value …`, answered by `OK …` or `ERR code=… detail=…`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fakegpu_units::{CommId, Rank, SeqNo};

use crate::UniqueId;

/// The longest line accepted, newline included.
pub const LINE_BYTES_MAX: usize = 4096;

/// A request in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextRequest {
    /// `PING`
    Ping,
    /// `HELLO client=NAME`
    Hello {
        /// Who asks.
        client: String,
    },
    /// `INIT_COMM unique_id= world_size= rank= [timeout_ms=]`
    InitComm {
        /// The rendezvous.
        unique_id: UniqueId,
        /// Ranks.
        world_size: u32,
        /// The rank claimed.
        rank: Rank,
        /// How long to wait for the others.
        timeout_ms: Option<u64>,
    },
    /// `DESTROY_COMM comm_id= rank=`
    DestroyComm {
        /// The communicator.
        comm: CommId,
        /// The rank that leaves.
        rank: Rank,
    },
    /// `BARRIER comm_id= rank= seqno= [timeout_ms=]`
    Barrier {
        /// The communicator.
        comm: CommId,
        /// The rank that arrives.
        rank: Rank,
        /// Which barrier: the first is 1 (0 is the communicator's making).
        seqno: SeqNo,
        /// How long to wait for the others.
        timeout_ms: Option<u64>,
    },
    /// `STATS`
    Stats,
    /// `SHUTDOWN`
    Shutdown,
}

/// A request together with the token it carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLine {
    /// What is asked.
    pub request: TextRequest,
    /// `token=…`
    pub token: Option<String>,
}

/// A negative answer: `ERR code=… detail=…`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct TextError {
    /// For scripts.
    pub code: &'static str,
    /// For people.
    pub detail: String,
}

impl TextError {
    /// An error of this code.
    pub fn new(code: &'static str, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// The line to send.
    pub fn to_line(&self) -> String {
        format!("ERR code={} detail={}\n", self.code, self.detail.replace(['\n', '\r'], " "))
    }
}

/// An `OK` line of these pairs.
pub fn ok_line(pairs: &[(&str, &dyn std::fmt::Display)]) -> String {
    let mut line = String::from("OK");
    for (key, value) in pairs {
        // Writing to a String cannot fail.
        write!(line, " {key}={value}").unwrap_or_default();
    }
    line.push('\n');
    line
}

impl TextLine {
    /// Reads one line, without its newline.
    pub fn parse(line: &str) -> Result<Self, TextError> {
        let mut words = line.split_ascii_whitespace();
        let verb =
            words.next().ok_or_else(|| TextError::new("empty_request", "the line is empty; try PING"))?;
        let mut fields = Fields::read(words)?;
        let token = fields.optional("token");
        let request = match verb {
            "PING" => TextRequest::Ping,
            "HELLO" => TextRequest::Hello { client: fields.optional("client").unwrap_or_default() },
            "INIT_COMM" => TextRequest::InitComm {
                unique_id: UniqueId::new(fields.required("unique_id")?.as_bytes()),
                world_size: fields.number("world_size")?,
                rank: Rank(fields.number("rank")?),
                timeout_ms: fields.optional_number("timeout_ms")?,
            },
            "DESTROY_COMM" => TextRequest::DestroyComm {
                comm: CommId(fields.number("comm_id")?),
                rank: Rank(fields.number("rank")?),
            },
            "BARRIER" => TextRequest::Barrier {
                comm: CommId(fields.number("comm_id")?),
                rank: Rank(fields.number("rank")?),
                seqno: SeqNo(fields.number("seqno")?),
                timeout_ms: fields.optional_number("timeout_ms")?,
            },
            "STATS" => TextRequest::Stats,
            "SHUTDOWN" => TextRequest::Shutdown,
            other => {
                return Err(TextError::new(
                    "unknown_request",
                    format!(
                        "`{}` is no request; known: PING HELLO INIT_COMM DESTROY_COMM BARRIER STATS SHUTDOWN",
                        shown(other)
                    ),
                ));
            }
        };
        fields.finish(verb)?;
        Ok(Self { request, token })
    }
}

/// The `key=value` pairs of a line; each is taken once, and what is left over is an error.
struct Fields(BTreeMap<String, String>);

impl Fields {
    fn read<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, TextError> {
        let mut fields = BTreeMap::new();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                TextError::new("malformed_field", format!("`{}` is not key=value", shown(word)))
            })?;
            if fields.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(TextError::new("duplicate_field", format!("`{}` is given twice", shown(key))));
            }
        }
        Ok(Self(fields))
    }

    fn optional(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    fn required(&mut self, key: &str) -> Result<String, TextError> {
        self.optional(key).ok_or_else(|| TextError::new("missing_field", format!("`{key}=` is missing")))
    }

    fn number<N: std::str::FromStr>(&mut self, key: &str) -> Result<N, TextError> {
        let value = self.required(key)?;
        value.parse().map_err(|_| {
            TextError::new("invalid_field", format!("`{key}={}` is not a number in range", shown(&value)))
        })
    }

    fn optional_number<N: std::str::FromStr>(&mut self, key: &str) -> Result<Option<N>, TextError> {
        if self.0.contains_key(key) { self.number(key).map(Some) } else { Ok(None) }
    }

    fn finish(self, verb: &str) -> Result<(), TextError> {
        match self.0.keys().next() {
            Some(key) => {
                Err(TextError::new("unknown_field", format!("{verb} has no field `{}`", shown(key))))
            }
            None => Ok(()),
        }
    }
}

/// A stranger's word, cut short and made printable.
fn shown(word: &str) -> String {
    word.chars().take(40).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(line: &str, code: &str) {
        assert_eq!(TextLine::parse(line).unwrap_err().code, code, "{line}");
    }

    #[test]
    fn requests_are_read_with_fields_in_any_order() {
        let line =
            TextLine::parse("INIT_COMM rank=1 world_size=2 unique_id=abc timeout_ms=500 token=t").unwrap();
        assert_eq!(line.token.as_deref(), Some("t"));
        assert_eq!(
            line.request,
            TextRequest::InitComm {
                unique_id: UniqueId::new(b"abc"),
                world_size: 2,
                rank: Rank(1),
                timeout_ms: Some(500)
            }
        );
    }

    #[test]
    fn every_mistake_has_a_code_of_its_own() {
        refused("", "empty_request");
        refused("BOO", "unknown_request");
        refused("BARRIER comm_id=1 rank=0", "missing_field");
        refused("BARRIER comm_id=x rank=0 seqno=1", "invalid_field");
        refused("INIT_COMM unique_id=a world_size=-1 rank=0", "invalid_field");
        refused("PING nonsense", "malformed_field");
        refused("PING a=1 a=2", "duplicate_field");
        refused("PING a=1", "unknown_field");
    }

    #[test]
    fn an_answer_is_one_line_whatever_the_question_held() {
        let error = TextLine::parse("PING a\u{7}b").unwrap_err();
        assert_eq!(error.to_line().matches('\n').count(), 1);
        assert!(!error.to_line().contains('\u{7}'));
    }
}
