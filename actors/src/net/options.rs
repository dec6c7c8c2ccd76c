//! What the settings of a node ask of its sockets.

use std::io;
use std::net::IpAddr;

use socket2::{SockRef, Socket, TcpKeepalive};

use crate::settings::{SocketSettings, TcpConnectorSettings, TcpListenerSettings};

/// Keepalive of every TCP socket (T06): the first probe after this time.
const KEEPALIVE: std::time::Duration = std::time::Duration::from_secs(30);

/// What an accepted socket has. Linux hands these options from the listening socket on, so that
/// accepting costs no further system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// Options of the sockets.
    pub socket: SocketSettings,
    /// `backlog`.
    pub backlog: u32,
}

impl From<&TcpListenerSettings> for ListenOptions {
    fn from(settings: &TcpListenerSettings) -> Self {
        Self { socket: settings.socket.clone(), backlog: settings.backlog }
    }
}

/// What a connected socket has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Options of the socket.
    pub socket: SocketSettings,
    /// `source-ip`.
    pub source: Option<IpAddr>,
    /// `fastopen`.
    pub fastopen: bool,
    /// No idle time ends the line: the kernel has to find out that the peer is gone.
    pub keepalive: bool,
}

impl From<&TcpConnectorSettings> for ConnectOptions {
    fn from(settings: &TcpConnectorSettings) -> Self {
        Self {
            socket: settings.socket.clone(),
            source: settings.source_ip,
            fastopen: settings.fastopen,
            keepalive: settings.idle_timeout.limit().is_none(),
        }
    }
}

/// Applies what both sorts of sockets have.
pub(super) fn apply(socket: &Socket, settings: &SocketSettings) -> io::Result<()> {
    SockRef::from(socket).set_tcp_nodelay(settings.nodelay)?;
    if let Some(mark) = settings.fwmark {
        socket.set_mark(mark)?;
    }
    if let Some(interface) = &settings.interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    Ok(())
}

/// Lets the kernel find out that a peer is gone.
pub(super) fn keep_alive(socket: &Socket) -> io::Result<()> {
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))
}
