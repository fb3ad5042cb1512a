//! Where a coordinator listens, and the secret it may ask for.

use std::fmt;
use std::str::FromStr;

use super::Transport;
use crate::words::quoted;

/// Where a coordinator listens.
///
/// Written `/absolute/path` or `@abstract-name` for a Unix socket, `host:port` or `[::1]:port` for TCP.
///
/// ```
/// use fakegpu_config::Address;
/// let address: Address = "[::1]:4000".parse()?;
/// assert_eq!(address, Address::Tcp { host: "::1".to_owned(), port: 4000 });
/// assert_eq!(address.to_string(), "[::1]:4000");
/// assert!("run/fakegpu.sock".parse::<Address>().is_err());
/// # Ok::<(), fakegpu_config::env::AddressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// An absolute path, or `@` and a name in Linux's abstract namespace.
    Unix(String),
    /// A host and a port.
    Tcp {
        /// Name or literal address, without brackets.
        host: String,
        /// Port; 0 asks a listener for any free one and is no place to connect to.
        port: u16,
    },
}

impl Address {
    /// Longest Unix address, in bytes: `sun_path` less its terminating zero.
    pub const MAX_UNIX_BYTES: usize = 107;

    /// The kind of socket it names.
    pub const fn transport(&self) -> Transport {
        match self {
            Self::Unix(_) => Transport::Unix,
            Self::Tcp { .. } => Transport::Tcp,
        }
    }

    /// Whether only processes of this host can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
            }
        }
    }
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// Neither form.
    #[error("{} is neither an absolute path, an @abstract-name nor host:port", quoted(.0))]
    Unclear(String),
    /// A Unix address that `sun_path` cannot hold.
    #[error("a unix address has at most {max} bytes, this one has {len}", max = Address::MAX_UNIX_BYTES)]
    TooLong {
        /// Bytes it has.
        len: usize,
    },
    /// `@` alone.
    #[error("`@` needs a name behind it")]
    NoName,
    /// The host is missing or holds what no host name holds.
    #[error("{} has no usable host before the port", quoted(.0))]
    Host(String),
    /// The port is missing or not a number below 65536.
    #[error("{} is not a port; a port is a number from 0 to 65535", quoted(.0))]
    Port(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with(['/', '@']) {
            return match text {
                "@" => Err(AddressError::NoName),
                _ if text.len() > Self::MAX_UNIX_BYTES => Err(AddressError::TooLong { len: text.len() }),
                _ => Ok(Self::Unix(text.to_owned())),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| AddressError::Unclear(text.to_owned()))?;
        let port = parse_port(port).ok_or_else(|| AddressError::Port(port.to_owned()))?;
        let host = bare_host(host).ok_or_else(|| AddressError::Host(text.to_owned()))?;
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

/// `u16::from_str` would also take `+80`.
fn parse_port(text: &str) -> Option<u16> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The host without the brackets that an IPv6 literal needs before a port.
fn bare_host(host: &str) -> Option<&str> {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']')?;
        return inner.parse::<std::net::Ipv6Addr>().is_ok().then_some(inner);
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (!host.is_empty() && host.chars().all(plain)).then_some(host)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => f.write_str(path),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A secret shown to a coordinator. Equality takes the same time wherever two tokens differ, and `Debug` hides it.
///
/// ```
/// let token = fakegpu_config::Token::new("s3cret");
/// assert_eq!(format!("{token:?}"), "<redacted>");
/// assert!(token == fakegpu_config::Token::new("s3cret"));
/// ```
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The secret as given.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for the wire; never for people.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.0.as_bytes(), other.0.as_bytes());
        // The length is not secret; which byte differs is. `black_box` keeps the fold from being cut short.
        let differing = ours.iter().zip(theirs).fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b)));
        ours.len() == theirs.len() && differing == 0
    }
}

impl Eq for Token {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        match text.parse::<Address>() {
            Ok(address) => {
                assert_eq!(address.to_string(), text, "an address prints as it was written");
                assert_eq!(address.transport().name(), expected);
            }
            Err(error) => assert_eq!(error.to_string(), expected),
        }
    }

    #[test]
    fn addresses_are_told_apart_by_their_form() {
        check("/run/fakegpu.sock", "unix");
        check("@fakegpu", "unix");
        check("127.0.0.1:4000", "tcp");
        check("node-3.cluster:0", "tcp");
        check("[fe80::1]:4000", "tcp");
    }

    #[test]
    fn what_is_no_address_is_told_why() {
        check("run/f.sock", "`run/f.sock` is neither an absolute path, an @abstract-name nor host:port");
        check("", "`` is neither an absolute path, an @abstract-name nor host:port");
        check("@", "`@` needs a name behind it");
        check(":80", "`:80` has no usable host before the port");
        check("::1:80", "`::1:80` has no usable host before the port");
        check("host:+80", "`+80` is not a port; a port is a number from 0 to 65535");
        check("host:65536", "`65536` is not a port; a port is a number from 0 to 65535");
        check("host:", "`` is not a port; a port is a number from 0 to 65535");
        let long = format!("/{}", "x".repeat(107));
        check(&long, "a unix address has at most 107 bytes, this one has 108");
    }

    #[test]
    fn only_loopback_is_local() {
        for (text, local) in [("@a", true), ("127.9.9.9:1", true), ("[::1]:1", true), ("0.0.0.0:1", false)] {
            assert_eq!(text.parse::<Address>().unwrap().is_local(), local, "{text}");
        }
    }

    #[test]
    fn tokens_compare_by_every_byte() {
        let token = Token::new("abc");
        for (other, equal) in [("abc", true), ("abd", false), ("ab", false), ("abcd", false), ("", false)] {
            assert_eq!(token == Token::new(other), equal, "{other}");
        }
    }
}
