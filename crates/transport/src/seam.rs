//! What a socket family provides.

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::Wire;

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub wire: Wire,
    /// Whether its process is known to be this user's, on this machine.
    pub trusted: bool,
    /// The process that connected, where the family knows it and this process can name it.
    pub pid: Option<u32>,
}

/// A socket that waits for connections; dropping it removes whatever name it has.
pub trait Listener: Debug + Send {
    /// The next connection, or `None` where none waits. Never blocks.
    fn accept(&self) -> io::Result<Option<Accepted>>;
    /// Where it listens, as a peer would write it.
    fn address(&self) -> String;
    /// For a poll loop.
    fn as_fd(&self) -> BorrowedFd<'_>;
}

/// A way to reach a listener.
pub trait Dialer: Debug + Send + Sync {
    /// Connects within `timeout`.
    fn dial(&self, timeout: Duration) -> io::Result<Wire>;
    /// Where to, as a person would write it.
    fn address(&self) -> String;
}
