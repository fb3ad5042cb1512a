//! TCP: ranks and coordinator on different machines, or where unix sockets cannot reach.
//!
//! One family of sockets and nothing else: no frames, no protocol, no environment.
//!
//! Read [`TcpDoor`] (which knows whether a peer is this user on this machine) and [`TcpDialer`] (which tries
//! every address of a name within one deadline).
//!
//! ```
//! use std::time::Duration;
//! use fakegpu_transport::{Dialer, Listener};
//! use fakegpu_transport_tcp::{TcpDialer, TcpDoor};
//!
//! let door = TcpDoor::bind("127.0.0.1:0").unwrap();
//! let wire = TcpDialer::new(&door.address()).dial(Duration::from_secs(1)).unwrap();
//! assert!(door.accept().unwrap().unwrap().trusted);
//! # drop(wire);
//! ```
//!
//! Sources: tcp(7); proc(5) for the owner of a loopback connection.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fakegpu_transport::{Accepted, Dialer, Listener, Wire};
use rustix::net::sockopt;

/// How long sent bytes may stay unacknowledged: a cut cable is an error after this, not after minutes.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(10);

/// A coordinator's socket.
#[derive(Debug)]
pub struct TcpDoor {
    listener: TcpListener,
    address: SocketAddr,
}

impl TcpDoor {
    /// Listens at `host:port`; port 0 takes a free one, and [`Listener::address`] says which.
    pub fn bind(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Whether only this machine can reach it.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

impl Listener for TcpDoor {
    fn accept(&self) -> io::Result<Option<Accepted>> {
        loop {
            match self.listener.accept() {
                // One whose options cannot be set is gone already, and no reason to keep the next waiting.
                Ok((stream, peer)) => match introduced(stream, peer) {
                    Ok(accepted) => return Ok(Some(accepted)),
                    Err(_gone) => {}
                },
                Err(error) => match error.kind() {
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return Ok(None),
                    _ => return Err(error),
                },
            }
        }
    }

    fn address(&self) -> String {
        self.address.to_string()
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn introduced(stream: TcpStream, peer: SocketAddr) -> io::Result<Accepted> {
    let trusted = peer.ip().is_loopback() && owner_is_this_user(peer, stream.local_addr()?);
    Ok(Accepted { wire: tuned(stream)?, trusted, pid: None })
}

/// Small frames go at once, and a silent peer is noticed.
fn tuned(stream: TcpStream) -> io::Result<Wire> {
    stream.set_nodelay(true)?;
    let socket = OwnedFd::from(stream);
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, Duration::from_secs(3))?;
    sockopt::set_tcp_keepintvl(&socket, Duration::from_secs(2))?;
    sockopt::set_tcp_keepcnt(&socket, 3)?;
    sockopt::set_tcp_user_timeout(&socket, u32::try_from(UNACKNOWLEDGED_MAX.as_millis()).unwrap_or(10_000))?;
    Wire::new(socket)
}

/// Whether the kernel's table of connections names this user as the owner of a loopback peer's socket.
fn owner_is_this_user(peer: SocketAddr, local: SocketAddr) -> bool {
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let Ok(text) = std::fs::read_to_string(table) else { return false };
    let uid = rustix::process::geteuid().as_raw().to_string();
    let (peer, local) = (table_address(peer), table_address(local));
    text.lines().skip(1).any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next() == Some(peer.as_str())
            && words.next() == Some(local.as_str())
            && words.nth(4) == Some(uid.as_str())
    })
}

/// An address as the kernel's table writes it: 32-bit words in the machine's order, in hexadecimal.
fn table_address(address: SocketAddr) -> String {
    let bytes = match address {
        SocketAddr::V4(v4) => v4.ip().octets().to_vec(),
        SocketAddr::V6(v6) => v6.ip().octets().to_vec(),
    };
    let words = bytes
        .chunks_exact(4)
        .map(|word| format!("{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]])));
    format!("{}:{:04X}", words.collect::<String>(), address.port())
}

/// The way to a [`TcpDoor`].
#[derive(Clone, Debug)]
pub struct TcpDialer {
    address: String,
}

impl TcpDialer {
    /// To `host:port`.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned() }
    }
}

impl Dialer for TcpDialer {
    fn dial(&self, timeout: Duration) -> io::Result<Wire> {
        let deadline = Instant::now() + timeout;
        let mut last =
            io::Error::new(io::ErrorKind::AddrNotAvailable, format!("`{}` names no address", self.address));
        for address in self.address.to_socket_addrs()? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match TcpStream::connect_timeout(&address, left) {
                Ok(stream) => return tuned(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_the_kernel_does() {
        assert_eq!(
            table_address("127.0.0.1:80".parse().unwrap()),
            format!("{:08X}:0050", u32::from_ne_bytes([127, 0, 0, 1]))
        );
    }

    #[test]
    fn a_connection_of_another_table_is_not_trusted() {
        assert!(!owner_is_this_user("127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()));
    }

    #[test]
    fn nobody_listening_is_an_error_at_once() {
        let door = TcpDoor::bind("127.0.0.1:0").unwrap();
        let address = door.address();
        drop(door);
        let error = TcpDialer::new(&address).dial(Duration::from_secs(5)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
