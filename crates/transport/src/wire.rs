//! A connected stream socket with bounded waits.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, socketpair};

/// A connected stream socket. It never blocks: waits are explicit and bounded.
#[derive(Debug)]
pub struct Wire(OwnedFd);

impl Wire {
    /// Takes a connected stream socket and makes it non-blocking.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self(socket))
    }

    /// Two ends that are connected to each other, with no address.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (near, far) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok((Self(near), Self(far)))
    }

    /// Reads what is there; `WouldBlock` where nothing is, `Ok(0)` at the end of the stream.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::net::recv(&self.0, &mut *buffer, RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes what fits; `WouldBlock` where nothing does.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match rustix::net::send(&self.0, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => return Ok(count),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes all of `bytes`, or fails with `TimedOut`.
    pub fn send_all(&self, mut bytes: &[u8], timeout: Duration) -> io::Result<()> {
        let deadline = Instant::now() + timeout;
        while !bytes.is_empty() {
            match self.send(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::Error::new(
                            io::ErrorKind::TimedOut,
                            "the peer does not read what is sent to it",
                        ));
                    }
                    self.wait(PollFlags::OUT, left)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something can be read, or the stream has ended; whether that happened in time.
    pub fn wait_readable(&self, timeout: Duration) -> io::Result<bool> {
        self.wait(PollFlags::IN, timeout)
    }

    fn wait(&self, flags: PollFlags, timeout: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.0, flags)];
        let timeout = Timespec::try_from(timeout.min(Duration::from_secs(86_400)))
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        match poll(&mut fds, Some(&timeout)) {
            Ok(count) => Ok(count > 0),
            // A signal is no event of ours: the caller's loop asks the clock again.
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends both directions; readers and writers of this socket wake up.
    pub fn close(&self) {
        // The peer may have closed it already, which is as good.
        rustix::net::shutdown(&self.0, Shutdown::Both).unwrap_or_default();
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_does_not_read_is_an_error_not_a_hang() {
        let (near, _far) = Wire::pair().unwrap();
        let error = near.send_all(&vec![0; 16 << 20], Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn the_end_of_a_stream_is_readable() {
        let (near, far) = Wire::pair().unwrap();
        assert!(!near.wait_readable(Duration::from_millis(1)).unwrap());
        drop(far);
        assert!(near.wait_readable(Duration::from_secs(5)).unwrap());
        assert_eq!(near.receive(&mut [0; 8]).unwrap(), 0);
    }
}
