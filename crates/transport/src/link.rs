//! Frames over a wire.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fakegpu_proto::{FrameError, FrameReader, frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Wire;

/// Why a link is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// The peer ended the connection.
    #[error("the connection was closed by the other side")]
    Closed,
    /// The peer sent no frame.
    #[error("the connection carries no frames: {0}")]
    Frame(#[from] FrameError),
}

/// Sends messages; several threads may, and their frames never mix.
#[derive(Debug)]
pub struct Sender {
    wire: Arc<Wire>,
    /// Held over a whole frame.
    whole: Mutex<()>,
}

impl Sender {
    /// Sends a message; the peer must take it within `timeout`.
    pub fn send<M: Serialize>(&self, request: u64, message: &M, timeout: Duration) -> Result<(), LinkError> {
        let bytes = frame::encode(request, message)?;
        let _whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        self.wire.send_all(&bytes, timeout).map_err(LinkError::from)
    }

    /// The wire underneath.
    pub fn wire(&self) -> &Wire {
        &self.wire
    }
}

/// Receives messages, one thread at a time.
#[derive(Debug)]
pub struct Receiver {
    wire: Arc<Wire>,
    reader: FrameReader,
    buffer: Vec<u8>,
}

impl Receiver {
    /// The next message, or `None` where none came within `timeout` (zero asks without waiting).
    pub fn receive<M: DeserializeOwned>(&mut self, timeout: Duration) -> Result<Option<(u64, M)>, LinkError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(frame) = self.reader.next_frame()? {
                return Ok(Some(frame));
            }
            match self.wire.receive(&mut self.buffer) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(count) => self.reader.extend(&self.buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(None);
                    }
                    self.wire.wait_readable(left)?;
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(LinkError::Closed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Both directions of a wire, for a peer that asks and then waits.
#[derive(Debug)]
pub struct Link {
    sender: Sender,
    receiver: Receiver,
}

impl Link {
    /// A link over a connected wire.
    pub fn new(wire: Wire) -> Self {
        let wire = Arc::new(wire);
        Self {
            sender: Sender { wire: Arc::clone(&wire), whole: Mutex::new(()) },
            receiver: Receiver { wire, reader: FrameReader::default(), buffer: vec![0; 16 << 10] },
        }
    }

    /// Sends a message; the peer must take it within `timeout`.
    pub fn send<M: Serialize>(&self, request: u64, message: &M, timeout: Duration) -> Result<(), LinkError> {
        self.sender.send(request, message, timeout)
    }

    /// The next message, or `None` where none came within `timeout` (zero asks without waiting).
    pub fn receive<M: DeserializeOwned>(&mut self, timeout: Duration) -> Result<Option<(u64, M)>, LinkError> {
        self.receiver.receive(timeout)
    }

    /// The two directions apart.
    pub fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }

    /// Gives the wire back, for a connection that changes its purpose; `None` where something has come that nobody has
    /// read, since it would be lost.
    pub fn into_wire(self) -> Option<Wire> {
        if !self.receiver.reader.is_empty() {
            return None;
        }
        drop(self.receiver);
        Arc::into_inner(self.sender.wire)
    }
}

#[cfg(test)]
mod tests {
    use fakegpu_proto::ToCoordinator;

    use super::*;

    #[test]
    fn a_closed_peer_is_told_from_a_silent_one() {
        let (near, far) = Wire::pair().unwrap();
        let mut near = Link::new(near);
        assert!(near.receive::<ToCoordinator>(Duration::ZERO).unwrap().is_none());
        drop(far);
        assert!(matches!(near.receive::<ToCoordinator>(Duration::from_secs(5)), Err(LinkError::Closed)));
    }
}
