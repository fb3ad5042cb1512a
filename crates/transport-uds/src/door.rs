//! A listening socket at a path (or an `@abstract` name), and the way to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fakegpu_transport::{Accepted, Dialer, Listener, Wire};
use rustix::fs::Mode;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, socket_with,
    sockopt,
};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A coordinator's socket.
#[derive(Debug)]
pub struct UdsListener {
    socket: OwnedFd,
    address: String,
    /// The path and inode that dropping removes; an abstract name removes itself.
    file: Option<(PathBuf, u64)>,
}

/// The address of a path, or of an abstract name written `@name`.
pub(crate) fn socket_address(address: &str) -> io::Result<SocketAddrUnix> {
    let parsed = match address.strip_prefix('@') {
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        None => SocketAddrUnix::new(address),
    };
    parsed.map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{address}` is too long for a unix socket: at most 107 bytes"),
        )
    })
}

pub(crate) fn stream_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?)
}

impl UdsListener {
    /// Listens at `address`. A socket file that nobody listens at any more is replaced; one in use, or a file
    /// of another kind, is left alone and refused.
    pub fn bind(address: &str) -> io::Result<Self> {
        let name = socket_address(address)?;
        let path = (!address.starts_with('@')).then(|| PathBuf::from(address));
        if let Some(path) = &path {
            clear_stale(path)?;
        }
        let socket = stream_socket()?;
        // The mode a bound file gets is the socket's own, so there is no moment at which others could connect.
        rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &name)?;
        let file = match path {
            Some(path) => {
                let inode = std::fs::symlink_metadata(&path)?.ino();
                Some((path, inode))
            }
            None => None,
        };
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, address: address.to_owned(), file })
    }
}

/// Removes a socket file that no process listens at.
fn clear_stale(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("`{}` exists and is no socket", path.display()),
        ));
    }
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("another coordinator listens at `{}`", path.display()),
        ));
    }
    std::fs::remove_file(path)
}

impl Listener for UdsListener {
    fn accept(&self) -> io::Result<Option<Accepted>> {
        loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                // One whose options cannot be read is gone already, and no reason to keep the next waiting.
                Ok(socket) => match introduced(socket) {
                    Ok(accepted) => return Ok(Some(accepted)),
                    Err(_gone) => {}
                },
                Err(rustix::io::Errno::CONNABORTED | rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn address(&self) -> String {
        self.address.clone()
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn introduced(socket: OwnedFd) -> io::Result<Accepted> {
    let peer = sockopt::socket_peercred(&socket)?;
    let trusted = peer.uid == rustix::process::geteuid();
    // A process of an outer pid namespace has no number here, and the kernel says 0.
    let pid = u32::try_from(rustix::process::Pid::as_raw(Some(peer.pid))).ok().filter(|&pid| pid != 0);
    Ok(Accepted { wire: Wire::new(socket)?, trusted, pid })
}

impl Drop for UdsListener {
    fn drop(&mut self) {
        let Some((path, inode)) = &self.file else { return };
        // Someone may have replaced the file since; theirs is not ours to remove.
        if std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.ino() == *inode) {
            drop(std::fs::remove_file(path));
        }
    }
}

/// The way to a [`UdsListener`].
#[derive(Clone, Debug)]
pub struct UdsDialer {
    address: String,
}

impl UdsDialer {
    /// To the socket at a path or `@abstract` name.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned() }
    }
}

impl Dialer for UdsDialer {
    fn dial(&self, timeout: Duration) -> io::Result<Wire> {
        let name = socket_address(&self.address)?;
        let deadline = Instant::now() + timeout;
        loop {
            let socket = stream_socket()?;
            match connect(&socket, &name) {
                Ok(()) => return Wire::new(socket),
                // A full backlog: the listener lives and is busy.
                Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn address(&self) -> String {
        self.address.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder_and_path() -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s").to_str().unwrap().to_owned();
        (folder, path)
    }

    #[test]
    fn the_socket_is_its_users_alone_and_goes_with_the_listener() {
        let (_folder, path) = folder_and_path();
        let listener = UdsListener::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(listener);
        assert!(!Path::new(&path).exists());
    }

    #[test]
    fn a_live_coordinator_is_not_replaced_and_a_dead_one_is() {
        let (_folder, path) = folder_and_path();
        let live = UdsListener::bind(&path).unwrap();
        assert_eq!(UdsListener::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(live);
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(Path::new(&path).exists(), "std leaves the file");
        UdsListener::bind(&path).unwrap();
    }

    #[test]
    fn a_file_of_another_kind_is_left_alone() {
        let (_folder, path) = folder_and_path();
        std::fs::write(&path, "precious").unwrap();
        assert_eq!(UdsListener::bind(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_connection_names_its_process() {
        let (_folder, path) = folder_and_path();
        let listener = UdsListener::bind(&path).unwrap();
        let _wire = UdsDialer::new(&path).dial(Duration::from_secs(1)).unwrap();
        assert_eq!(listener.accept().unwrap().unwrap().pid, Some(std::process::id()));
    }

    #[test]
    fn a_name_too_long_is_said_so() {
        let error = UdsListener::bind(&format!("/tmp/{}", "x".repeat(200))).unwrap_err();
        assert!(error.to_string().contains("107 bytes"), "{error}");
    }
}
