//! The kernel's TCP.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

use super::options::{apply, keep_alive};
use super::{ConnectOptions, Connecting, Network};

/// `MSG_FASTOPEN` of Linux: connect and send in one call (RFC 7413).
const MSG_FASTOPEN: i32 = 0x2000_0000;

/// The network of a real service.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelNetwork;

impl Network for KernelNetwork {
    fn connect(
        &self,
        to: SocketAddr,
        options: &ConnectOptions,
        early: &[u8],
    ) -> io::Result<(Connecting, usize)> {
        let kind = Type::STREAM.nonblocking();
        let socket = Socket::new(Domain::for_address(to), kind, Some(Protocol::TCP))?;
        apply(&socket, &options.socket)?;
        if options.keepalive {
            keep_alive(&socket)?;
        }
        if let Some(source) = options.source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        let sent = start(&socket, to, early)?;
        Ok((Connecting::Tcp(Some(TcpStream::from_std(socket.into())?)), sent))
    }
}

/// Sends the SYN, with early bytes in it where the kernel holds a cookie of that server. Gives how
/// many of them the kernel took.
fn start(socket: &Socket, to: SocketAddr, early: &[u8]) -> io::Result<usize> {
    let pending =
        |error: &io::Error| error.raw_os_error() == Some(Errno::INPROGRESS.raw_os_error());
    if !early.is_empty() {
        match socket.send_to_with_flags(early, &to.into(), MSG_FASTOPEN) {
            Ok(sent) => return Ok(sent),
            Err(error) if pending(&error) => return Ok(0),
            // Switched off in this kernel: an ordinary connection then.
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    match socket.connect(&to.into()) {
        Err(error) if !pending(&error) => Err(error),
        _ => Ok(0),
    }
}
