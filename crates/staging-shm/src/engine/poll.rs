//! Plain sockets: try, and `poll` where nothing can be moved.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::{Direction, Engine, Finished, Flight, Lane, Transfer};
use crate::StagingError;

/// Non-blocking sends and receives, driven by whoever calls [`Engine::complete`].
#[derive(Debug, Default)]
pub struct PollEngine {
    /// The first of each is in flight.
    lanes: BTreeMap<Lane, VecDeque<Flight>>,
    pending: usize,
}

impl PollEngine {
    /// An engine with nothing to do.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves what can be moved.
    fn attempt(&mut self, done: &mut Vec<Finished>) {
        let before = done.len();
        self.lanes.retain(|_, flights| {
            while let Some(result) = flights.front_mut().and_then(Flight::attempt) {
                done.extend(flights.pop_front().map(|flight| flight.finish(result)));
            }
            !flights.is_empty()
        });
        self.pending -= done.len() - before;
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        let heads = self.lanes.values().filter_map(VecDeque::front);
        let mut fds: Vec<_> = heads
            .map(|flight| {
                let wanted = match flight.transfer.direction {
                    Direction::Send => PollFlags::OUT,
                    Direction::Receive => PollFlags::IN,
                };
                PollFd::new(&*flight.transfer.wire, wanted)
            })
            .collect();
        match poll(&mut fds, Some(&bounded(timeout))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// A timeout as the kernel takes it, at most a day.
pub(super) fn bounded(timeout: Duration) -> Timespec {
    let timeout = timeout.min(Duration::from_secs(86_400));
    let seconds = i64::try_from(timeout.as_secs()).unwrap_or(86_400);
    Timespec { tv_sec: seconds, tv_nsec: i64::from(timeout.subsec_nanos()) }
}

impl Flight {
    /// Moves bytes until the transfer ends, or `None` where the socket takes or has no more.
    fn attempt(&mut self) -> Option<io::Result<()>> {
        loop {
            let Transfer { wire, direction, buffer, .. } = &mut self.transfer;
            let rest = &mut buffer[self.moved..];
            if rest.is_empty() {
                return Some(Ok(()));
            }
            let moved = match direction {
                Direction::Send => wire.send(rest),
                Direction::Receive => wire.receive(rest),
            };
            match moved {
                Ok(count) => match self.advance(count) {
                    None => {}
                    end => return end,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Engine for PollEngine {
    fn submit(&mut self, transfer: Transfer) -> Result<(), StagingError> {
        self.lanes.entry(transfer.lane()).or_default().push_back(Flight::new(transfer));
        self.pending += 1;
        Ok(())
    }

    fn complete(&mut self, timeout: Duration, done: &mut Vec<Finished>) -> io::Result<()> {
        let before = done.len();
        self.attempt(done);
        if done.len() == before && self.pending > 0 && !timeout.is_zero() {
            self.wait(timeout)?;
            self.attempt(done);
        }
        Ok(())
    }

    fn name(&self) -> &'static str {
        "poll"
    }

    fn pending(&self) -> usize {
        self.pending
    }

    fn cancel_all(&mut self) {
        for flight in self.lanes.values().flatten() {
            flight.transfer.wire.close();
        }
        self.lanes.clear();
        self.pending = 0;
    }
}
