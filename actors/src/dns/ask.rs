//! One question to one name server: UDP, and TCP when the answer does not fit.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::Family;
use super::message::{Reply, UDP_SIZE, answer, question};

/// Asks once. `Failed` also stands for a server that did not answer in time.
pub(super) async fn ask(server: SocketAddr, name: &str, family: Family, limit: Duration) -> Reply {
    let id = random_id();
    let Some(query) = question(id, name, family) else {
        return Reply::NotFound(Duration::ZERO);
    };
    let reply = match timeout(limit, over_udp(server, &query, id, name, family)).await {
        Ok(Ok(Reply::Truncated)) => {
            timeout(limit, over_tcp(server, &query, id, name, family)).await
        }
        other => other,
    };
    match reply {
        Ok(Ok(Reply::Truncated)) => Reply::Failed,
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => {
            tracing::debug!(%server, name, %error, "name server");
            Reply::Failed
        }
        Err(_) => {
            tracing::debug!(%server, name, "the name server did not answer in time");
            Reply::Failed
        }
    }
}

/// A socket of its own for each question: the port is one more thing that a forger must guess.
async fn over_udp(
    server: SocketAddr,
    query: &[u8],
    id: u16,
    name: &str,
    family: Family,
) -> io::Result<Reply> {
    let own = match server {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(own).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut buffer = [0; UDP_SIZE as usize];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What is no answer to this question is not listened to: the right one may follow.
        if let Some(reply) = answer(&buffer[..length], id, name, family) {
            return Ok(reply);
        }
    }
}

async fn over_tcp(
    server: SocketAddr,
    query: &[u8],
    id: u16,
    name: &str,
    family: Family,
) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(server).await?;
    let mut framed = Vec::with_capacity(query.len() + 2);
    framed.extend_from_slice(&u16::try_from(query.len()).unwrap_or(u16::MAX).to_be_bytes());
    framed.extend_from_slice(query);
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut buffer = vec![0; usize::from(length)];
    stream.read_exact(&mut buffer).await?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "no answer to the question");
    answer(&buffer, id, name, family).ok_or_else(wrong)
}

/// A number that nobody can guess: the standard library keys its hashers from the system.
fn random_id() -> u16 {
    RandomState::new().build_hasher().finish() as u16
}
