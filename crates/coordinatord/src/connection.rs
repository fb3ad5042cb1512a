//! One connection of the daemon: bytes in, messages out, and the other way round.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use fakegpu_coordinator::Outgoing;
use fakegpu_proto::text::LINE_BYTES_MAX;
use fakegpu_proto::{FrameReader, ToCoordinator, frame};
use fakegpu_transport::Wire;

/// Bytes that may wait for a peer that does not read; then it is cut off.
const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// Sent bytes that an outbox may keep in front of the others, if these are fewer.
const SENT_BYTES_MAX: usize = 64 << 10;

/// How long a connection that changes hands may hold up everybody else.
const HANDOVER: Duration = Duration::from_millis(100);

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
    /// Readable once the peer's process has ended, whoever else still holds its socket.
    process: Option<OwnedFd>,
    /// To be closed once the outbox is empty.
    pub(crate) closing: bool,
}

impl Connection {
    pub(crate) fn new(wire: Wire, process: Option<OwnedFd>) -> Self {
        Self { wire, speech: Speech::Unknown, outbox: Vec::new(), sent: 0, process, closing: false }
    }

    pub(crate) fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.sent == self.outbox.len()
    }

    pub(crate) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Gives the wire to another owner. Replies that are queued go first.
    pub(crate) fn into_wire(mut self) -> io::Result<Wire> {
        self.wire.send_all(&std::mem::take(&mut self.outbox)[self.sent..], HANDOVER)?;
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.forget_sent();
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.outbox.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Drops what was sent from a long outbox. Never moves more bytes than it drops.
    fn forget_sent(&mut self) {
        if self.sent > SENT_BYTES_MAX && self.sent >= self.outbox.len() / 2 {
            self.outbox.drain(..self.sent);
            self.sent = 0;
        }
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

#[cfg(test)]
mod tests {
    use fakegpu_proto::ToRank;

    use super::*;

    #[test]
    fn a_slow_reader_costs_what_it_has_not_read_and_gets_every_byte() {
        let (near, far) = Wire::pair().unwrap();
        let mut connection = Connection::new(near, None);
        let mut buffer = vec![0; 256 << 10];
        let (mut queued, mut received) = (0, 0);
        for _ in 0..200 {
            let notice = ToRank::Notice("x".repeat(64 << 10));
            queued += frame::encode(0, &notice).unwrap().len();
            assert!(connection.queue(&Outgoing::Frame(0, notice)));
            connection.flush().unwrap();
            received += far.receive(&mut buffer).unwrap();
            let unsent = connection.outbox.len() - connection.sent;
            assert!(
                connection.outbox.len() <= 2 * unsent + SENT_BYTES_MAX + 1,
                "{}",
                connection.outbox.len()
            );
        }
        while received < queued {
            connection.flush().unwrap();
            received += far.receive(&mut buffer).unwrap();
        }
        assert!(connection.is_flushed());
    }

    #[test]
    fn a_peer_that_does_not_read_cannot_hold_up_a_handover() {
        let (near, _far) = Wire::pair().unwrap();
        let mut connection = Connection::new(near, None);
        connection.queue(&Outgoing::Line("x".repeat(16 << 20)));
        let started = std::time::Instant::now();
        assert_eq!(connection.into_wire().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}
