//! `ipc://`: sockets of the file system.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use rustix::io::Errno;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

/// Names that are tried for a free path.
const TRIES: u64 = 16;

/// A listening socket of the file system. Its file goes with it.
#[derive(Debug)]
pub(super) struct IpcListener {
    listener: UnixListener,
    file: File,
}

impl IpcListener {
    /// Binds a path; `None` = a free one in the folder for temporary files. A file that a dead
    /// process left behind is replaced.
    ///
    /// # Errors
    /// Somebody listens there, something else is there, the folder does not take it, or the path is
    /// too long.
    pub(super) fn bind(path: Option<&Path>, backlog: u32) -> io::Result<Self> {
        let Some(path) = path else {
            return Self::bind_free(backlog);
        };
        match open(path, backlog) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
                std::fs::remove_file(path)?;
                open(path, backlog)
            }
            opened => opened,
        }
    }

    fn bind_free(backlog: u32) -> io::Result<Self> {
        let (folder, seed) = (std::env::temp_dir(), RandomState::new());
        let mut opened = Err(io::ErrorKind::AddrInUse.into());
        for attempt in 0..TRIES {
            let path = folder.join(format!("lineway-{:016x}.ipc", seed.hash_one(attempt)));
            opened = open(&path, backlog);
            if !matches!(&opened, Err(error) if error.kind() == io::ErrorKind::AddrInUse) {
                break;
            }
        }
        opened
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The next connection.
    pub(super) fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
    }
}

fn open(path: &Path, backlog: u32) -> io::Result<IpcListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    let file = File::of(path)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(IpcListener { listener: UnixListener::from_std(socket.into())?, file })
}

/// True for a socket at which nobody listens.
fn is_stale(path: &Path) -> bool {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    // It must not wait for one that listens and does not accept.
    let connect = || {
        Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?.connect(&SockAddr::unix(path)?)
    };
    is_socket && matches!(connect(), Err(e) if Errno::from_io_error(&e) == Some(Errno::CONNREFUSED))
}

/// The file of a socket, which goes with it unless somebody else has put another one there.
#[derive(Debug)]
struct File {
    path: PathBuf,
    identity: (u64, u64),
}

impl File {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: identity(path)? })
    }
}

/// Which file it is: its device and its number there.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Drop for File {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a socket's file stays behind");
        }
    }
}
