//! How a phone's messages travel: datagrams, or one connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{Bytes, BytesMut};
use lineway_wire::sip::message::Limits;
use lineway_wire::sip::stream::{Framed, Framer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use super::By;

/// Room for one read: no datagram is larger.
const ROOM: usize = 64 << 10;

/// A way to a proxy.
#[derive(Debug)]
pub(super) enum Link {
    Udp { socket: UdpSocket, buffer: Vec<u8> },
    Tcp { stream: TcpStream, framer: Framer, input: BytesMut },
}

impl Link {
    /// Opens a way to this address.
    pub(super) async fn open(by: By, to: SocketAddr) -> io::Result<Self> {
        match by {
            By::Udp => {
                let any: IpAddr = match to {
                    SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                let socket = UdpSocket::bind((any, 0)).await?;
                socket.connect(to).await?;
                Ok(Self::Udp { socket, buffer: vec![0; ROOM] })
            }
            By::Tcp => {
                let stream = TcpStream::connect(to).await?;
                stream.set_nodelay(true)?;
                let framer = Framer::new(Limits::default());
                Ok(Self::Tcp { stream, framer, input: BytesMut::new() })
            }
        }
    }

    /// The own address.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Udp { socket, .. } => socket.local_addr(),
            Self::Tcp { stream, .. } => stream.local_addr(),
        }
    }

    /// Sends one message. A datagram that the system does not take is one that was lost.
    pub(super) async fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp { socket, .. } => {
                let _ = socket.send(message).await;
                Ok(())
            }
            Self::Tcp { stream, .. } => stream.write_all(message).await,
        }
    }

    /// The next message. May be dropped and called again: nothing is lost.
    pub(super) async fn receive(&mut self) -> io::Result<Bytes> {
        match self {
            Self::Udp { socket, buffer } => loop {
                // Refused: nobody listens there yet, or any more; the operation's time runs.
                if let Ok(length) = socket.recv(buffer).await {
                    return Ok(Bytes::copy_from_slice(&buffer[..length]));
                }
                tokio::task::yield_now().await;
            },
            Self::Tcp { stream, framer, input } => loop {
                match framer.next(input).map_err(io::Error::other)? {
                    Framed::Message(message) => return Ok(message),
                    Framed::Ping => {}
                    Framed::NeedsMore => {
                        if stream.read_buf(input).await? == 0 {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                }
            },
        }
    }
}
