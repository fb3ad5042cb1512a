//! One connection of the daemon: bytes in, messages out, and the other way round.

use std::io;

use fakegpu_coordinator::Outgoing;
use fakegpu_proto::text::LINE_BYTES_MAX;
use fakegpu_proto::{FrameReader, ToCoordinator, frame};
use fakegpu_transport::Wire;

/// Bytes that may wait for a peer that does not read; then it is cut off.
const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// Bytes read from one connection before the others have their turn.
const TURN_BYTES: usize = 1 << 20;

/// How a connection speaks; its first byte decides.
#[derive(Debug)]
enum Speech {
    Unknown,
    Frames(FrameReader),
    Text(Vec<u8>),
}

/// What a peer said.
#[derive(Debug)]
pub(crate) enum Said {
    Message(u64, Box<ToCoordinator>),
    Line(String),
    /// Nothing that can be understood; the connection is of no more use.
    Nonsense(String),
}

/// What reading came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Nothing is left to read now.
    Drained,
    /// There may be more, but it is others' turn.
    More,
    /// The stream has ended.
    Ended,
}

/// A connection and what waits in either direction.
#[derive(Debug)]
pub(crate) struct Connection {
    wire: Wire,
    speech: Speech,
    outbox: Vec<u8>,
    sent: usize,
    /// To be closed once the outbox is empty.
    pub(crate) closing: bool,
}

impl Connection {
    pub(crate) fn new(wire: Wire) -> Self {
        Self { wire, speech: Speech::Unknown, outbox: Vec::new(), sent: 0, closing: false }
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Gives the wire to another owner. Replies that are queued go first.
    pub(crate) fn into_wire(mut self) -> io::Result<Wire> {
        self.wire
            .send_all(&std::mem::take(&mut self.outbox)[self.sent..], std::time::Duration::from_secs(5))?;
        Ok(self.wire)
    }

    /// Reads what is there and adds what it says to `said`.
    pub(crate) fn read(&mut self, buffer: &mut [u8], said: &mut Vec<Said>) -> Reading {
        let mut turn = 0;
        loop {
            match self.wire.receive(buffer) {
                Ok(0) => return Reading::Ended,
                Ok(count) => {
                    self.hear(&buffer[..count], said);
                    // A data connection's bytes after its hello are not frames: leave them to its next owner.
                    if matches!(said.last(), Some(Said::Message(_, message)) if matches!(**message, ToCoordinator::Data(_)))
                    {
                        return Reading::Drained;
                    }
                    turn += count;
                    if turn >= TURN_BYTES {
                        return Reading::More;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Reading::Drained,
                Err(_) => return Reading::Ended,
            }
        }
    }

    fn hear(&mut self, bytes: &[u8], said: &mut Vec<Said>) {
        if matches!(self.speech, Speech::Unknown) {
            self.speech = if bytes[0] == frame::MAGIC[0] {
                Speech::Frames(FrameReader::default())
            } else {
                Speech::Text(Vec::new())
            };
        }
        match &mut self.speech {
            Speech::Frames(reader) => hear_frames(reader, bytes, said),
            Speech::Text(pending) => hear_lines(pending, bytes, said),
            Speech::Unknown => {}
        }
    }

    /// Whether the peer speaks text.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.speech, Speech::Text(_))
    }

    /// Queues something to send; false if the peer has stopped reading and must go.
    pub(crate) fn queue(&mut self, outgoing: &Outgoing) -> bool {
        match outgoing {
            Outgoing::Frame(request, message) => match frame::encode(*request, message) {
                Ok(bytes) => self.outbox.extend_from_slice(&bytes),
                Err(error) => {
                    tracing::error!(%error, "a reply does not fit a frame");
                    return false;
                }
            },
            Outgoing::Line(line) => self.outbox.extend_from_slice(line.as_bytes()),
        }
        self.outbox.len() - self.sent <= OUTBOX_BYTES_MAX
    }

    /// Sends what fits; whether the outbox is empty now.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.outbox.len() {
            match self.wire.send(&self.outbox[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(true)
    }
}

fn hear_frames(reader: &mut FrameReader, bytes: &[u8], said: &mut Vec<Said>) {
    reader.extend(bytes);
    loop {
        match reader.next_frame::<ToCoordinator>() {
            Ok(Some((request, message))) => said.push(Said::Message(request, Box::new(message))),
            Ok(None) => return,
            Err(error) => return said.push(Said::Nonsense(error.to_string())),
        }
    }
}

fn hear_lines(pending: &mut Vec<u8>, bytes: &[u8], said: &mut Vec<Said>) {
    pending.extend_from_slice(bytes);
    while let Some(end) = pending.iter().position(|&byte| byte == b'\n') {
        let line: Vec<u8> = pending.drain(..=end).collect();
        match std::str::from_utf8(&line[..end]) {
            Ok(line) => said.push(Said::Line(line.trim_end_matches('\r').to_owned())),
            Err(_) => return said.push(Said::Nonsense("the request is not UTF-8 text".to_owned())),
        }
    }
    if pending.len() > LINE_BYTES_MAX {
        said.push(Said::Nonsense(format!("a request line has at most {LINE_BYTES_MAX} bytes")));
    }
}
