//! Sockets as lines see them: the kernel's TCP, or another network that plays it (a simulation,
//! the test kit).

pub mod bind;
mod options;
mod tcp;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

pub use options::{ConnectOptions, ListenOptions, Vigilance};
pub use tcp::KernelNetwork;

/// One address that a node listens on, as configured. Where the system chooses the port, two nodes
/// may name the same address and mean different ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListenKey {
    address: SocketAddr,
    node: Option<Arc<str>>,
}

impl ListenKey {
    /// The key of an address of this node.
    pub fn new(node: &Arc<str>, address: SocketAddr) -> Self {
        Self { address, node: (address.port() == 0).then(|| Arc::clone(node)) }
    }
}

impl std::fmt::Display for ListenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}

/// A connection of another network than the kernel's TCP.
pub trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// An error that the transport has seen, a reset for instance, though nobody reads or writes.
    ///
    /// # Errors
    /// None of its own; `Ok(None)` where nothing is wrong.
    fn take_error(&self) -> io::Result<Option<io::Error>> {
        Ok(None)
    }

    /// What the transport has measured as the time to its peer and back, where it does.
    fn round_trip(&self) -> Option<Duration> {
        None
    }
}

/// A source of accepted connections of another network.
pub trait Accept {
    /// The next connection.
    ///
    /// # Errors
    /// As `accept(2)`.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Socket, SocketAddr)>>;
}

/// Bytes that wait for a connection when it is started.
#[derive(Clone, Copy, Debug)]
pub struct Early<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// They may travel with the SYN (`fastopen`): this is the one address that they can go to.
    pub in_syn: bool,
    /// They are a question that is answered at once, and what follows is again: an acknowledgement
    /// of its own would only cost a packet.
    pub asks: bool,
}

/// The network that a worker's lines live in.
pub trait Network {
    /// Starts a connection, whose result is polled. The number tells how many of the early bytes
    /// were taken.
    ///
    /// # Errors
    /// What can be said at once: no descriptors, no such source address, no route.
    fn connect(
        &self,
        to: SocketAddr,
        options: &ConnectOptions,
        early: Early<'_>,
    ) -> io::Result<(Connecting, usize)>;
}

/// A connection.
pub enum Socket {
    /// The kernel's.
    Tcp(TcpStream),
    /// Of another network.
    Other(Box<dyn Transport>),
}

macro_rules! each {
    ($self:expr, $socket:ident => $call:expr) => {
        match $self {
            Socket::Tcp($socket) => $call,
            Socket::Other($socket) => $call,
        }
    };
}

impl Socket {
    /// An error that the socket has seen though nobody reads or writes.
    pub fn take_error(&self) -> Option<io::Error> {
        each!(self, socket => socket.take_error()).unwrap_or_else(Some)
    }

    /// What the transport has measured as the time to its peer and back, where it does.
    pub fn round_trip(&self) -> Option<Duration> {
        match self {
            Self::Tcp(socket) => tcp::round_trip(socket),
            Self::Other(socket) => socket.round_trip(),
        }
    }

    /// Makes it the socket of a mux parent: the kernel finds out that the peer is gone (T06), and
    /// takes little that it can not send yet (M26). On another network it changes nothing.
    ///
    /// # Errors
    /// The kernel refuses an option; what was set before stays.
    pub fn becomes_parent(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => options::parent(&SockRef::from(socket)),
            Self::Other(_) => Ok(()),
        }
    }

    /// The local address, where there is one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(socket) => socket.local_addr().ok(),
            Self::Other(_) => None,
        }
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(socket) => socket.fmt(f),
            Self::Other(_) => f.write_str("Socket::Other"),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self.get_mut(), socket => Pin::new(socket).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), socket => Pin::new(socket).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), socket => Pin::new(socket).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        each!(self, socket => socket.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), socket => Pin::new(socket).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), socket => Pin::new(socket).poll_shutdown(cx))
    }
}

/// A connection that is being made.
pub enum Connecting {
    /// The kernel works on it.
    Tcp {
        /// `None` once it was handed over.
        stream: Option<TcpStream>,
        /// It took bytes already, so it is up.
        up: bool,
    },
    /// Another network works on it.
    Other(LocalBoxFuture<'static, io::Result<Socket>>),
}

impl Connecting {
    /// The connection, once it is up.
    ///
    /// # Errors
    /// Why it can not be made.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Socket>> {
        match self {
            Self::Tcp { stream: slot, up } => {
                let Some(stream) = slot.as_ref() else {
                    return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
                };
                if !*up {
                    std::task::ready!(stream.poll_write_ready(cx))?;
                    if let Some(error) = stream.take_error()? {
                        return Poll::Ready(Err(error));
                    }
                }
                match slot.take() {
                    Some(stream) => Poll::Ready(Ok(Socket::Tcp(stream))),
                    None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                }
            }
            Self::Other(future) => future.as_mut().poll(cx),
        }
    }
}

/// A listening socket.
pub enum Acceptor {
    /// The kernel's.
    Tcp(TcpListener),
    /// Of another network.
    Other(Box<dyn Accept>),
}

impl Acceptor {
    /// Says whether what clients send first is answered at once, as a probe is: then it needs no
    /// acknowledgement of its own. Accepted connections inherit it.
    pub fn answers(&self, at_once: bool) {
        if let Self::Tcp(listener) = self {
            // Without it there is one packet more.
            let _ = rustix::net::sockopt::set_tcp_quickack(listener, !at_once);
        }
    }

    /// The next connection.
    ///
    /// # Errors
    /// As `accept(2)`.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Socket, SocketAddr)>> {
        match self {
            Self::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, peer)| (Socket::Tcp(stream), peer))
            }
            Self::Other(listener) => listener.poll_accept(cx),
        }
    }

    /// The next of the connections that wait already, pending when there is none (T01). It asks
    /// the kernel itself: the runtime hears of a connection only when it looks for events again.
    ///
    /// # Errors
    /// As `accept(2)`.
    pub fn accept_waiting(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(Socket, SocketAddr)>> {
        let listener = match self {
            Self::Tcp(listener) => listener,
            Self::Other(listener) => return listener.poll_accept(cx),
        };
        let accepted = loop {
            match SockRef::from(&*listener).accept() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                accepted => break accepted,
            }
        };
        let (socket, peer) = match accepted {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            accepted => accepted?,
        };
        socket.set_nonblocking(true)?;
        let stream = TcpStream::from_std(socket.into())?;
        let peer = peer.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Poll::Ready(Ok((Socket::Tcp(stream), peer)))
    }
}
