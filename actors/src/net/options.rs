//! What the settings of a node ask of its sockets.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, Socket, TcpKeepalive};

use crate::settings::{SocketSettings, TcpConnectorSettings, TcpListenerSettings};

/// Keepalive of every TCP socket (T06): the first probe after this time.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// `TCP_NOTSENT_LOWAT` of a mux parent's socket in bytes (M26): beyond so much that was not sent yet
/// the kernel takes nothing, so that what is urgent waits behind little.
const PARENT_UNSENT: u32 = 128 << 10;

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

/// How the kernel finds out that the peer of a DEALER or ROUTER connection is gone (B-7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vigilance {
    /// `tcp-keepalive-ms`: the idle time after which the peer is probed, and between probes; in
    /// whole seconds, at least one. `None` = never.
    pub keepalive: Option<Duration>,
    /// `tcp-user-timeout-ms`: how long sent bytes, and probes, may be unanswered. `None` = as the
    /// system has it.
    pub user_timeout: Option<Duration>,
}

/// Probes without an answer that end a connection, where the user timeout does not.
const PROBES: u32 = 3;

impl Vigilance {
    /// Applies it to a connection, or to a listening socket, which hands it on.
    ///
    /// # Errors
    /// The kernel refuses an option; what was set before stays.
    pub fn apply(&self, socket: &impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(socket);
        match self.keepalive {
            Some(time) => {
                let time = Duration::from_secs(time.as_secs().max(1));
                let keepalive =
                    TcpKeepalive::new().with_time(time).with_interval(time).with_retries(PROBES);
                socket.set_tcp_keepalive(&keepalive)?;
            }
            None => socket.set_keepalive(false)?,
        }
        socket.set_tcp_user_timeout(self.user_timeout)
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

/// Applies what the socket of a mux parent has, accepted or connected (M26, T06).
pub(super) fn parent(socket: &Socket) -> io::Result<()> {
    keep_alive(socket)?;
    socket.set_tcp_notsent_lowat(PARENT_UNSENT)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use socket2::SockRef;
    use tokio::net::{TcpListener, TcpStream};

    use crate::net::Socket;

    #[tokio::test]
    async fn mux_m26_t06_connected_and_accepted_parents_have_their_options() {
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let connected = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        for stream in [connected, accepted] {
            // The system may have the right limit for every socket.
            SockRef::from(&stream).set_tcp_notsent_lowat(1).unwrap();
            assert!(!SockRef::from(&stream).keepalive().unwrap());
            let socket = Socket::Tcp(stream);
            socket.becomes_parent().unwrap();
            let Socket::Tcp(stream) = socket else { unreachable!("it was made of one") };
            let kernel = SockRef::from(&stream);
            assert_eq!(kernel.tcp_notsent_lowat().unwrap(), 128 << 10);
            assert!(kernel.keepalive().unwrap());
            assert_eq!(kernel.tcp_keepalive_time().unwrap(), Duration::from_secs(30));
            assert_eq!(kernel.tcp_keepalive_interval().unwrap(), Duration::from_secs(30));
        }
    }
}
