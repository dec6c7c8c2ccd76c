//! The kernel's TCP.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_quickack;
use rustix::net::{SendFlags, send};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpStream;

use super::options::{apply, keep_alive};
use super::{ConnectOptions, Connecting, Early, Network};

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
        early: Early<'_>,
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
        let (sent, up) = start(&socket, to, early)?;
        let stream = Some(TcpStream::from_std(socket.into())?);
        Ok((Connecting::Tcp { stream, up }, sent))
    }
}

/// Sends the SYN, and early bytes as soon as the kernel takes them. Gives how many of them it took,
/// and whether that says that the connection is up.
fn start(socket: &Socket, to: SocketAddr, early: Early<'_>) -> io::Result<(usize, bool)> {
    let Early { bytes, in_syn, asks } = early;
    let errno = |error: &io::Error| Errno::from_io_error(error);
    if in_syn && !bytes.is_empty() {
        match socket.send_to_with_flags(bytes, &to.into(), MSG_FASTOPEN) {
            Ok(sent) => return Ok((sent, false)),
            Err(error) if errno(&error) == Some(Errno::INPROGRESS) => return Ok((0, false)),
            // Switched off in this kernel: an ordinary connection then.
            Err(error) if errno(&error) == Some(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    if bytes.is_empty() {
        return start_empty(socket, to).map(|()| (0, false));
    }
    // A server on this machine answers within the call. Then the last packet of the handshake can
    // wait for the bytes, and the two are one; afterwards acknowledgements are as quick as ever.
    let near = to.ip().is_loopback();
    if near || asks {
        set_tcp_quickack(socket, false)?;
    }
    start_empty(socket, to)?;
    let sent = send(socket, bytes, SendFlags::NOSIGNAL);
    if near && !asks {
        set_tcp_quickack(socket, true)?;
    }
    match sent {
        Ok(sent) => Ok((sent, true)),
        Err(Errno::AGAIN) => Ok((0, false)),
        Err(error) => Err(error.into()),
    }
}

fn start_empty(socket: &Socket, to: SocketAddr) -> io::Result<()> {
    match socket.connect(&to.into()) {
        Err(error) if Errno::from_io_error(&error) != Some(Errno::INPROGRESS) => Err(error),
        _ => Ok(()),
    }
}

/// The smoothed round-trip time that the kernel has measured (`tcp(7)`, `TCP_INFO`).
#[expect(unsafe_code, reason = "no safe wrapper of TCP_INFO is at hand")]
pub(super) fn round_trip(stream: &TcpStream) -> Option<Duration> {
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the descriptor is open for the whole call; `info` has room for `length` bytes, and
    // the kernel writes no more than that.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // SAFETY: it is plain numbers, for which zeroes are values like any other: whatever part of it
    // the kernel wrote, all of it is initialised.
    let info = unsafe { info.assume_init() };
    (failed == 0 && info.tcpi_rtt > 0).then(|| Duration::from_micros(info.tcpi_rtt.into()))
}
