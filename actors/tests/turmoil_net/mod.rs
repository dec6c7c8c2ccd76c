//! The simulated network of turmoil as lines and listeners see it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use lineway_actors::net::{
    Accept, Acceptor, ConnectOptions, Connecting, Early, Network, Socket, Transport,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

/// Connects through the simulation.
pub(crate) struct SimNetwork;

impl Network for SimNetwork {
    fn connect(
        &self,
        to: SocketAddr,
        _: &ConnectOptions,
        _: Early<'_>,
    ) -> io::Result<(Connecting, usize)> {
        let connecting = async move { TcpStream::connect(to).await.map(socket) };
        Ok((Connecting::Other(Box::pin(connecting)), 0))
    }
}

fn socket(stream: TcpStream) -> Socket {
    Socket::Other(Box::new(SimStream(stream)))
}

struct SimStream(TcpStream);

impl Transport for SimStream {}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

type Accepted = io::Result<(TcpStream, SocketAddr)>;

struct SimListener {
    listener: Rc<TcpListener>,
    next: Option<Pin<Box<dyn Future<Output = Accepted>>>>,
}

/// Listens in the simulation.
pub(crate) async fn listen(port: u16) -> io::Result<Acceptor> {
    let listener = Rc::new(TcpListener::bind(("0.0.0.0", port)).await?);
    let source = SimListener { listener, next: None };
    Ok(Acceptor::Other(Box::new(source)))
}

impl Accept for SimListener {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Socket, SocketAddr)>> {
        let listener = Rc::clone(&self.listener);
        let next =
            self.next.get_or_insert_with(|| Box::pin(async move { listener.accept().await }));
        let accepted = ready!(next.as_mut().poll(cx));
        self.next = None;
        Poll::Ready(accepted.map(|(stream, peer)| (socket(stream), peer)))
    }
}
