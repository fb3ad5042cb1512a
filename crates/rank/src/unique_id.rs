//! What the 128 bytes of a unique id carry: randomness always, and the way to an embedded coordinator.

use std::fmt;

/// The content of an id that this library made.
///
/// Layout: magic (4), version (1), address length (1), address (64), token length (1), token (32), random (16).
#[derive(Clone, PartialEq, Eq)]
pub struct IdContent {
    /// Where the embedded coordinator listens; `None` where the environment says it.
    pub address: Option<String>,
    /// The secret it asks for.
    pub token: Option<String>,
    /// Makes every id unlike every other.
    pub random: [u8; 16],
}

/// Why an address does not fit an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdError {
    /// The address is too long.
    AddressTooLong(usize),
    /// The token is too long.
    TokenTooLong(usize),
}

const MAGIC: &[u8; 4] = b"FGid";
const VERSION: u8 = 1;
const ADDRESS_AT: usize = 6;
const ADDRESS_MAX: usize = 64;
const TOKEN_AT: usize = ADDRESS_AT + ADDRESS_MAX + 1;
const TOKEN_MAX: usize = 32;
const RANDOM_AT: usize = TOKEN_AT + TOKEN_MAX;

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressTooLong(bytes) => {
                write!(
                    f,
                    "the coordinator's address takes {bytes} bytes, a unique id holds {ADDRESS_MAX}: set a shorter TMPDIR"
                )
            }
            Self::TokenTooLong(bytes) => {
                write!(f, "the token takes {bytes} bytes, a unique id holds {TOKEN_MAX}")
            }
        }
    }
}

impl fmt::Debug for IdContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdContent").field("address", &self.address).finish_non_exhaustive()
    }
}

impl IdContent {
    /// The 128 bytes.
    pub fn encode(&self) -> Result<[u8; 128], IdError> {
        let mut bytes = [0; 128];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = VERSION;
        let address = self.address.as_deref().unwrap_or("").as_bytes();
        let token = self.token.as_deref().unwrap_or("").as_bytes();
        bytes[5] = length(address, ADDRESS_MAX).ok_or(IdError::AddressTooLong(address.len()))?;
        bytes[ADDRESS_AT..ADDRESS_AT + address.len()].copy_from_slice(address);
        bytes[TOKEN_AT - 1] = length(token, TOKEN_MAX).ok_or(IdError::TokenTooLong(token.len()))?;
        bytes[TOKEN_AT..TOKEN_AT + token.len()].copy_from_slice(token);
        bytes[RANDOM_AT..RANDOM_AT + 16].copy_from_slice(&self.random);
        Ok(bytes)
    }

    /// Reads an id; `None` where this library did not make it. Programs may invent ids, so that is no error.
    pub fn decode(bytes: &[u8; 128]) -> Option<Self> {
        if &bytes[..4] != MAGIC || bytes[4] != VERSION {
            return None;
        }
        let mut random = [0; 16];
        random.copy_from_slice(&bytes[RANDOM_AT..RANDOM_AT + 16]);
        Some(Self {
            address: text(bytes, ADDRESS_AT, bytes[5])?,
            token: text(bytes, TOKEN_AT, bytes[TOKEN_AT - 1])?,
            random,
        })
    }
}

fn length(bytes: &[u8], max: usize) -> Option<u8> {
    u8::try_from(bytes.len()).ok().filter(|_| bytes.len() <= max)
}

/// A text field: `Some(None)` where it is empty, `None` where it is malformed.
fn text(bytes: &[u8; 128], at: usize, length: u8) -> Option<Option<String>> {
    let text = std::str::from_utf8(bytes.get(at..at + usize::from(length))?).ok()?;
    Some((!text.is_empty()).then(|| text.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(address in "[a-z/@0-9]{0,64}", token in "[0-9a-f]{0,32}", random: [u8; 16]) {
            let content = IdContent {
                address: (!address.is_empty()).then_some(address),
                token: (!token.is_empty()).then_some(token),
                random,
            };
            prop_assert_eq!(IdContent::decode(&content.encode().unwrap()), Some(content));
        }

        #[test]
        fn invented_ids_are_no_error(bytes in prop::collection::vec(any::<u8>(), 128)) {
            let mut id = [0; 128];
            id.copy_from_slice(&bytes);
            let _: Option<IdContent> = IdContent::decode(&id);
            id[..5].copy_from_slice(b"FGid\x01");
            let _: Option<IdContent> = IdContent::decode(&id);
        }
    }

    #[test]
    fn an_address_that_does_not_fit_is_said_so() {
        let content = IdContent { address: Some("x".repeat(65)), token: None, random: [0; 16] };
        assert_eq!(content.encode(), Err(IdError::AddressTooLong(65)));
    }
}
