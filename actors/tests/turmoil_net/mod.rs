//! The simulated network of turmoil as lines and listeners see it.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lineway_actors::net::{
    Accept, Acceptor, ConnectOptions, Connecting, Early, Network, Socket, Transport,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use turmoil::net::{TcpListener, TcpStream};

/// The port that every host listens on.
pub(crate) const PORT: u16 = 7000;

/// How a host, or a client, ends.
pub(crate) type Checked = Result<(), Box<dyn std::error::Error>>;

/// A network whose messages take 1 to 40 ms, the same ones for the same seed.
pub(crate) fn simulation<'a>(seed: u64) -> turmoil::Sim<'a> {
    turmoil::Builder::new()
        .rng_seed(seed)
        .enable_random_order()
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(40))
        .tick_duration(Duration::from_millis(2))
        .simulation_duration(Duration::from_secs(120))
        .build()
}

/// A host that sends back what it gets, and ends when the other side does.
pub(crate) async fn echo() -> Checked {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::task::spawn_local(async move {
            let (mut from, mut to) = stream.into_split();
            let mut buffer = vec![0; 3000];
            // A client that resets is no matter.
            while let Ok(n) = from.read(&mut buffer).await
                && n > 0
                && to.write_all(&buffer[..n]).await.is_ok()
            {}
            // The other side may be gone already.
            let _ = to.shutdown().await;
        });
    }
}

/// Asserts that the same seed gives the same log and another one another; gives the log.
#[track_caller]
pub(crate) fn a_seed_is_a_log(simulate: impl Fn(u64) -> Vec<String>) -> Vec<String> {
    let first = simulate(7);
    let again = simulate(7);
    for (place, (one, two)) in first.iter().zip(&again).enumerate() {
        assert_eq!(one, two, "line {place}");
    }
    assert_eq!(first.len(), again.len());
    assert_ne!(first, simulate(8), "another seed is another run");
    first
}

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
