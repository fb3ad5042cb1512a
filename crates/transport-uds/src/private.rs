//! Private sockets: an abstract name, known to the members of one communicator, at which its leader hands
//! out a file descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fakegpu_transport::Wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, accept_with, bind, listen, recvmsg, sendmsg, sockopt,
};

use crate::door::{socket_address, stream_socket};

/// A listening socket with an abstract name: nothing in the file system, nothing to leak.
#[derive(Debug)]
pub struct PrivateSocket {
    socket: OwnedFd,
    name: String,
}

impl PrivateSocket {
    /// Listens at `@name`; the caller makes the name unique.
    pub fn bind(name: &str) -> io::Result<Self> {
        let name = format!("@{name}");
        let socket = stream_socket()?;
        bind(&socket, &socket_address(&name)?)?;
        listen(&socket, 4096)?;
        Ok(Self { socket, name })
    }

    /// The name, with its `@`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for one connection of this user and sends it `fd`; a stranger is turned away and not counted.
    pub fn hand_out(&self, fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
        send_fd(self.accept_socket(timeout)?.as_fd(), fd)
    }

    /// Waits for one connection of this user, over which descriptors travel both ways with
    /// [`send_tagged`](crate::send_tagged) and [`receive_tagged`](crate::receive_tagged).
    pub fn accept(&self, timeout: Duration) -> io::Result<Wire> {
        Wire::new(self.accept_socket(timeout)?)
    }

    fn accept_socket(&self, timeout: Duration) -> io::Result<OwnedFd> {
        let deadline = Instant::now() + timeout;
        loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(peer) if sockopt::socket_peercred(&peer)?.uid == rustix::process::geteuid() => {
                    return Ok(peer);
                }
                Ok(_stranger) => {}
                Err(rustix::io::Errno::AGAIN) => wait_readable(self.socket.as_fd(), deadline)?,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn wait_readable(fd: BorrowedFd<'_>, deadline: Instant) -> io::Result<()> {
    wait_for(fd, PollFlags::IN, deadline)
}

fn wait_for(fd: BorrowedFd<'_>, flags: PollFlags, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side did not come in time"));
    }
    let timeout = Timespec::try_from(left).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match poll(&mut [PollFd::new(&fd, flags)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn send_fd(to: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::other("no room for one file descriptor"));
    }
    sendmsg(to, &[IoSlice::new(b"f")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// What travels with a descriptor: three numbers of the sender's choice.
pub type Tag = [u64; 3];

/// Bytes of a tag on the wire.
const TAG_BYTES: usize = size_of::<Tag>();

/// Between two looks whether receivers have taken some of the descriptors that are under way.
const NAP: Duration = Duration::from_millis(1);

/// Sends a descriptor with a tag over a wire between a [`PrivateSocket`] and whoever dialled it.
///
/// # Errors
/// `TimedOut` where the peer does not take it, or the socket's own.
pub fn send_tagged(wire: &Wire, fd: BorrowedFd<'_>, tag: Tag, timeout: Duration) -> io::Result<()> {
    let deadline = Instant::now() + timeout;
    let mut bytes = [0; TAG_BYTES];
    for (place, number) in bytes.chunks_exact_mut(size_of::<u64>()).zip(tag) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(io::Error::other("no room for one file descriptor"));
        }
        match sendmsg(wire, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL) {
            Ok(TAG_BYTES) => return Ok(()),
            // So few bytes go whole or not at all.
            Ok(_) => return Err(io::Error::other("a descriptor's tag was cut")),
            Err(rustix::io::Errno::AGAIN) => wait_for(wire.as_fd(), PollFlags::OUT, deadline)?,
            // A user may have only as many under way as a process may have open, over all its sockets.
            Err(rustix::io::Errno::TOOMANYREFS) if Instant::now() < deadline => std::thread::sleep(NAP),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives what [`send_tagged`] sent.
///
/// # Errors
/// `TimedOut` where nothing comes, `UnexpectedEof` where the peer has closed, or the socket's own.
pub fn receive_tagged(wire: &Wire, timeout: Duration) -> io::Result<(OwnedFd, Tag)> {
    let deadline = Instant::now() + timeout;
    let mut bytes = [0; TAG_BYTES];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(wire, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) if message.bytes == TAG_BYTES => {
                let fd = taken(&mut control, message.flags)?;
                let number = |at: usize| {
                    let place = &bytes[at * size_of::<u64>()..(at + 1) * size_of::<u64>()];
                    place.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
                };
                return Ok((fd, std::array::from_fn(number)));
            }
            Ok(_) => return Err(closed()),
            Err(rustix::io::Errno::AGAIN) => wait_readable(wire.as_fd(), deadline)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives the file descriptor that [`PrivateSocket::hand_out`] sends over `wire`.
pub(crate) fn receive_fd(wire: &Wire, timeout: Duration) -> io::Result<OwnedFd> {
    let deadline = Instant::now() + timeout;
    loop {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(wire, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(message) if message.bytes > 0 => return taken(&mut control, message.flags),
            Ok(_) => return Err(closed()),
            Err(rustix::io::Errno::AGAIN) => wait_readable(wire.as_fd(), deadline)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The descriptor that came with a message.
fn taken(control: &mut RecvAncillaryBuffer<'_>, flags: ReturnFlags) -> io::Result<OwnedFd> {
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fd.ok_or_else(|| {
        if flags.contains(ReturnFlags::CTRUNC) {
            let why = "a file descriptor came that this process has no room for: raise `ulimit -n`";
            io::Error::other(why)
        } else {
            io::Error::new(io::ErrorKind::UnexpectedEof, "no file descriptor came")
        }
    })
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the other side closed the connection")
}

impl crate::UdsDialer {
    /// Receives the file descriptor that a [`PrivateSocket`] hands out over a wire dialled to it.
    pub fn receive_fd(wire: &Wire, timeout: Duration) -> io::Result<OwnedFd> {
        receive_fd(wire, timeout)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};

    use fakegpu_transport::Dialer;

    use super::*;
    use crate::UdsDialer;

    #[test]
    fn a_file_travels_even_when_the_receiver_dials_first() {
        let name = format!("fakegpu-test-{}-{:?}", std::process::id(), std::thread::current().id());
        let door = PrivateSocket::bind(&name).unwrap();
        let wire = UdsDialer::new(door.name()).dial(Duration::from_secs(1)).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"through the wall").unwrap();
        door.hand_out(file.as_fd(), Duration::from_secs(5)).unwrap();
        let mut received = std::fs::File::from(UdsDialer::receive_fd(&wire, Duration::from_secs(5)).unwrap());
        received.rewind().unwrap();
        let mut text = String::new();
        received.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the wall");
    }

    #[test]
    fn descriptors_travel_both_ways_with_their_tags() {
        let door = PrivateSocket::bind(&format!("fakegpu-test-tagged-{}", std::process::id())).unwrap();
        let near = UdsDialer::new(door.name()).dial(Duration::from_secs(1)).unwrap();
        let far = door.accept(Duration::from_secs(5)).unwrap();
        let file = tempfile::tempfile().unwrap();
        let second = Duration::from_secs(1);
        for tag in [[1, 2, u64::MAX], [4, 5, 6]] {
            send_tagged(&near, file.as_fd(), tag, second).unwrap();
            send_tagged(&far, file.as_fd(), tag, second).unwrap();
        }
        for tag in [[1, 2, u64::MAX], [4, 5, 6]] {
            assert_eq!(receive_tagged(&far, second).unwrap().1, tag);
            assert_eq!(receive_tagged(&near, second).unwrap().1, tag);
        }
        drop(near);
        assert_eq!(receive_tagged(&far, second).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_receiver_without_room_for_a_descriptor_says_so() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "private::tests::child_without_descriptors"])
            .env("FAKEGPU_TEST_CHILD", "1")
            .output()
            .unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    }

    #[test]
    #[ignore = "lowers limits of its process; run by another test"]
    fn child_without_descriptors() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        if std::env::var_os("FAKEGPU_TEST_CHILD").is_none() {
            return;
        }
        let (near, far) = Wire::pair().unwrap();
        let (file, second) = (tempfile::tempfile().unwrap(), Duration::from_secs(1));
        send_tagged(&near, file.as_fd(), [1, 2, 3], second).unwrap();
        send_fd(near.as_fd(), file.as_fd()).unwrap();
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum }).unwrap();
        for error in [receive_tagged(&far, second).unwrap_err(), receive_fd(&far, second).unwrap_err()] {
            assert!(error.to_string().contains("raise `ulimit -n`"), "{error}");
        }
    }

    #[test]
    fn nobody_coming_is_a_timeout() {
        let door = PrivateSocket::bind(&format!("fakegpu-test-none-{}", std::process::id())).unwrap();
        let file = tempfile::tempfile().unwrap();
        let error = door.hand_out(file.as_fd(), Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
