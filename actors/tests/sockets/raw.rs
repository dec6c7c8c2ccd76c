//! A peer that is nothing but a socket of the system, and what the test makes of it.

use std::net::SocketAddr;
use std::time::Duration;

use lineway_actors::testkit::zmp::{Frame, frames, greeting};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A raw peer.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    bytes: Vec<u8>,
}

/// The address of a tcp endpoint.
pub(crate) fn address(endpoint: &str) -> SocketAddr {
    endpoint.strip_prefix("tcp://").unwrap().parse().unwrap()
}

impl Raw {
    /// Connects; what the kernel keeps for it is small.
    pub(crate) async fn connect(endpoint: &str) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(address(endpoint)).await.unwrap();
        Self { stream, bytes: Vec::new() }
    }

    /// Connects as a DEALER of this name, up to the end of the handshake.
    pub(crate) async fn dealer(endpoint: &str, name: &str) -> Self {
        let mut raw = Self::connect(endpoint).await;
        raw.send(&greeting(name.as_bytes())).await;
        raw.frames(2).await;
        raw
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frames, so many at least.
    pub(crate) async fn frames(&mut self, count: usize) -> Vec<Frame> {
        let mut got = frames(&mut self.bytes);
        while got.len() < count {
            let read = self.read().await;
            assert!(read > 0, "the end, after {got:?}");
            got.extend(frames(&mut self.bytes));
        }
        got
    }

    /// Everything up to the end.
    pub(crate) async fn rest(&mut self) -> Vec<Frame> {
        while self.read().await > 0 {}
        let got = frames(&mut self.bytes);
        assert!(self.bytes.is_empty(), "half a frame");
        got
    }

    async fn read(&mut self) -> usize {
        let mut buffer = [0; 4096];
        let read = self.stream.read(&mut buffer);
        let read = tokio::time::timeout(Duration::from_secs(30), read).await;
        let read = read.expect("something comes").unwrap_or(0);
        self.bytes.extend(&buffer[..read]);
        read
    }
}
