//! What carries connections: tcp, ipc and inproc, with the same frames on each of them (4.4).

mod dial;
mod ipc;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lineway_wire::dial::{Families, Family};
use lineway_wire::zmp::endpoint::Endpoint;
use lineway_wire::zmp::outcome::{BindError, BindResult, Errno};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::{TcpListener, UnixStream};

pub use dial::dial;

use self::ipc::IpcListener;
use super::inproc::InprocListener;
use super::{SocketEnv, SocketOptions};
use crate::dns::Names;
use crate::net::{Acceptor, ListenOptions, Socket, Vigilance, bind};
use crate::settings::SocketSettings;

/// One connection without its actor.
#[derive(Debug)]
pub enum Stream {
    /// `tcp://`.
    Tcp(Socket),
    /// `ipc://`.
    Ipc(UnixStream),
    /// `inproc://`.
    Inproc(DuplexStream),
}

macro_rules! each {
    ($self:expr, $stream:ident => $call:expr) => {
        match $self {
            Stream::Tcp($stream) => $call,
            Stream::Ipc($stream) => $call,
            Stream::Inproc($stream) => $call,
        }
    };
}

impl Stream {
    /// An error that the stream has seen, a reset for instance, though nobody reads or writes.
    pub fn take_error(&self) -> Option<io::Error> {
        match self {
            Self::Tcp(socket) => socket.take_error(),
            Self::Ipc(socket) => socket.take_error().unwrap_or_else(Some),
            Self::Inproc(_) => None,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        each!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

/// A connection that is up, and between whom.
#[derive(Debug)]
pub struct Arrived {
    /// The connection.
    pub stream: Stream,
    /// The local address; of an accepted connection the bound endpoint.
    pub local: Arc<str>,
    /// The peer's address; of a dialled connection the endpoint, with the address that answered.
    pub remote: Arc<str>,
}

/// A bound endpoint. Dropped, it is free again at once.
pub struct Listening {
    endpoint: Endpoint,
    name: Arc<str>,
    source: Source,
}

enum Source {
    Tcp(Acceptor),
    Ipc(IpcListener),
    Inproc(InprocListener),
}

impl Listening {
    /// Binds an endpoint.
    ///
    /// # Errors
    /// It is taken, not of this machine, or needs a right.
    pub async fn bind(
        endpoint: &Endpoint,
        options: &SocketOptions,
        env: &SocketEnv,
    ) -> Result<Self, BindError> {
        let (endpoint, source) = match endpoint {
            Endpoint::Tcp { host, port } => {
                let listener = bind_tcp(host, port.unwrap_or(0), options, env).await?;
                return Self::adopt(listener, options).map_err(|error| refused(&error));
            }
            Endpoint::Ipc(path) => {
                let listener = IpcListener::bind(path.as_deref(), options.backlog)
                    .map_err(|error| refused(&error))?;
                (Endpoint::Ipc(Some(listener.path().to_owned())), Source::Ipc(listener))
            }
            Endpoint::Inproc(name) => {
                let listener = env.inproc.bind(name).map_err(|error| refused(&error))?;
                (Endpoint::Inproc(Arc::clone(name)), Source::Inproc(listener))
            }
        };
        Ok(Self { name: endpoint.to_string().into(), endpoint, source })
    }

    /// Takes over a TCP socket that listens already.
    ///
    /// # Errors
    /// It is none of the system's sockets.
    pub fn adopt(listener: std::net::TcpListener, options: &SocketOptions) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        bind::reapply(&listener, &listen_options(options))?;
        vigilance(options).apply(&listener)?;
        let address = listener.local_addr()?;
        Ok(Self::on(Acceptor::Tcp(TcpListener::from_std(listener)?), address))
    }

    /// Accepts from this acceptor, of whatever network it is, which is bound to this address.
    pub fn on(acceptor: Acceptor, address: SocketAddr) -> Self {
        let endpoint = endpoint_of(address);
        Self { name: endpoint.to_string().into(), endpoint, source: Source::Tcp(acceptor) }
    }

    /// The endpoint that is bound, with the place that the system chose.
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The same as a text.
    pub const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The next connection.
    ///
    /// # Errors
    /// As `accept(2)`.
    pub fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Arrived>> {
        let (stream, remote) = match &mut self.source {
            Source::Tcp(acceptor) => {
                let (socket, from) = ready!(acceptor.poll_accept(cx))?;
                (Stream::Tcp(socket), endpoint_of(from).to_string().into())
            }
            // Whoever connects to a path or a name has none of its own.
            Source::Ipc(listener) => {
                (Stream::Ipc(ready!(listener.poll_accept(cx))?), Arc::clone(&self.name))
            }
            Source::Inproc(listener) => {
                (Stream::Inproc(ready!(listener.poll_accept(cx))?), Arc::clone(&self.name))
            }
        };
        Poll::Ready(Ok(Arrived { stream, local: Arc::clone(&self.name), remote }))
    }
}

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Listening({})", self.name)
    }
}

async fn bind_tcp(
    host: &Arc<str>,
    port: u16,
    options: &SocketOptions,
    env: &SocketEnv,
) -> Result<std::net::TcpListener, BindError> {
    let bind = |ip: IpAddr| {
        bind::listen_alone(SocketAddr::new(ip, port), &listen_options(options)).map_err(|error| {
            tracing::debug!(%error, "not bound");
            error.cause
        })
    };
    let bound = if &**host == "*" {
        // Without IPv6 in the system, what is left is every IPv4 address.
        match bind(Ipv6Addr::UNSPECIFIED.into()) {
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                bind(Ipv4Addr::UNSPECIFIED.into())
            }
            bound => bound,
        }
    } else {
        bind(address_of(host, &*env.names).await?)
    };
    bound.map_err(|error| refused(&error))
}

/// The address of a host to bind.
async fn address_of(host: &Arc<str>, names: &dyn Names) -> Result<IpAddr, BindError> {
    if let Ok(ip) = host.parse() {
        return Ok(ip);
    }
    let mut lookup = names.lookup(&lower(host), FAMILIES);
    while let Some(answer) = std::future::poll_fn(|cx| lookup.poll_next(cx)).await {
        if let Ok(addresses) = answer.result
            && let Some(ip) = addresses.first()
        {
            return Ok(*ip);
        }
    }
    Err(BindError::new(BindResult::InvalidArgument, Errno::EINVAL))
}

/// Both families of a name are of use, IPv6 first (RFC 8305 4).
const FAMILIES: Families = Families { first: Family::V6, both: true };

/// A name as [`Names`] wants it.
fn lower(host: &str) -> Arc<str> {
    host.trim_end_matches('.').to_ascii_lowercase().into()
}

fn endpoint_of(address: SocketAddr) -> Endpoint {
    let host = address.ip().to_canonical().to_string().into();
    Endpoint::Tcp { host, port: Some(address.port()) }
}

fn socket_settings(options: &SocketOptions) -> SocketSettings {
    SocketSettings { nodelay: options.nodelay, ..SocketSettings::default() }
}

fn listen_options(options: &SocketOptions) -> ListenOptions {
    ListenOptions { socket: socket_settings(options), backlog: options.backlog }
}

const fn vigilance(options: &SocketOptions) -> Vigilance {
    Vigilance { keepalive: options.tcp_keepalive, user_timeout: options.tcp_user_timeout }
}

/// What a bind that failed says to the application (4.8).
fn refused(error: &io::Error) -> BindError {
    let errno = |other| error.raw_os_error().map_or(other, Errno);
    match error.kind() {
        io::ErrorKind::AddrInUse => BindError::new(BindResult::InUse, Errno::EADDRINUSE),
        io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::NotFound => {
            BindError::new(BindResult::InvalidArgument, errno(Errno::EINVAL))
        }
        _ => BindError::new(BindResult::InternalError, errno(Errno::EIO)),
    }
}

#[cfg(test)]
mod tests;
