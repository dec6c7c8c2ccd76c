//! The phone that answers: 180 and 200 to an INVITE, 200 to anything else but ACK.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use lineway_wire::sip::message::{Limits, Message, Method, Name};
use tokio::net::UdpSocket;

/// A phone on one UDP port.
#[derive(Debug)]
pub struct Callee {
    socket: UdpSocket,
    address: SocketAddr,
}

impl Callee {
    /// Listens.
    ///
    /// # Errors
    /// The address does not resolve, or is taken.
    pub async fn bind(address: &str) -> io::Result<Self> {
        let socket = UdpSocket::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers for ever. Each copy of a request gets the same bytes.
    ///
    /// # Errors
    /// The socket fails.
    pub async fn serve(&self) -> io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let Ok((length, source)) = self.socket.recv_from(&mut buffer).await else {
                // An earlier answer was refused: that phone is gone.
                tokio::task::yield_now().await;
                continue;
            };
            let bytes = Bytes::copy_from_slice(&buffer[..length]);
            let Ok(request) = Message::parse(bytes, &Limits::default()) else { continue };
            if !request.is_request() {
                continue;
            }
            for answer in answers(&request, self.address) {
                let _ = self.socket.send_to(&answer, source).await;
            }
        }
    }
}

/// What a request gets.
pub(super) fn answers(request: &Message, own: SocketAddr) -> Vec<Vec<u8>> {
    match request.method() {
        Method::Ack => Vec::new(),
        Method::Invite => {
            vec![answer(request, own, "180 Ringing"), answer(request, own, "200 OK")]
        }
        _ => vec![answer(request, own, "200 OK")],
    }
}

fn answer(request: &Message, own: SocketAddr, status: &str) -> Vec<u8> {
    let mut out = format!("SIP/2.0 {status}\r\n").into_bytes();
    for header in request.headers() {
        let copied = matches!(
            header.name,
            Name::Via | Name::From | Name::To | Name::CallId | Name::CSeq | Name::RecordRoute
        );
        if !copied {
            continue;
        }
        out.extend_from_slice(header.written);
        out.extend_from_slice(b": ");
        out.extend_from_slice(header.value);
        if header.name == Name::To && request.to().tag().is_none() {
            out.extend_from_slice(b";tag=callee");
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("Contact: <sip:{own}>\r\nContent-Length: 0\r\n\r\n").as_bytes());
    out
}
