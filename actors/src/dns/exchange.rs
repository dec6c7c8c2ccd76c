//! Questions to name servers: tries, rounds, TCP, aliases and the search list.

use std::cell::Cell;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use domain::base::Message;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{Instant, timeout_at};
use tracing::trace;

use super::DnsError;
use super::message::{self, MAX_ALIASES, OwnedName, Reply};
use super::records::{Kind, Records};
use super::system::Servers;

/// Datagrams that may arrive instead of the answer before the next server is asked: an answer
/// that was guessed or is late must not end the question, a flood must.
const MAX_STRAYS: usize = 64;

/// Room for an answer over UDP, also of servers that ignore the size that was asked for.
const UDP_BUFFER: usize = 4_096;

/// Everything that one question needs.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    pub(super) servers: &'a Servers,
    /// For one try.
    pub(super) timeout: Duration,
    /// The place of the server that answered last and is asked first.
    pub(super) first: &'a Cell<usize>,
}

/// What is known about a name, and for how long.
pub(super) type Known = (Result<Records, DnsError>, Duration);

const FAILED: Known = (Err(DnsError::Failed), Duration::MAX);

impl Exchange<'_> {
    /// The records of a name as it was configured.
    pub(super) async fn resolve(&self, name: &str, kind: Kind) -> Known {
        let mut nothing: Option<Duration> = None;
        let mut absent = Duration::MAX;
        for candidate in self.servers.candidates(name) {
            // A name that can not be written does not exist.
            let Ok(candidate) = OwnedName::vec_from_str(&candidate) else {
                continue;
            };
            match self.follow(candidate, kind).await {
                (Ok(list), ttl) if list.is_empty() => {
                    nothing = Some(nothing.map_or(ttl, |known| known.min(ttl)));
                }
                (Err(DnsError::NotFound), ttl) => absent = absent.min(ttl),
                known => return known,
            }
        }
        match nothing {
            Some(ttl) => (Ok(kind.nothing()), ttl.min(absent)),
            None => (Err(DnsError::NotFound), absent),
        }
    }

    /// The records of a full name, or of what it stands for.
    async fn follow(&self, mut name: OwnedName, kind: Kind) -> Known {
        let mut left = MAX_ALIASES;
        let mut least = Duration::MAX;
        loop {
            let (result, ttl) = match self.ask(&name, kind).await {
                Reply::Found(records, ttl) => (Ok(records), ttl),
                Reply::NoData(ttl) => (Ok(kind.nothing()), ttl),
                Reply::NotFound(ttl) => (Err(DnsError::NotFound), ttl),
                Reply::Alias { name: target, aliases, ttl } if aliases <= left => {
                    left -= aliases;
                    least = least.min(ttl);
                    name = target;
                    continue;
                }
                _ => return FAILED,
            };
            return (result, least.min(ttl));
        }
    }

    /// Asks each server in each round until one gives an answer. A server that was given up on is
    /// still heard: a late answer is one.
    async fn ask(&self, name: &OwnedName, kind: Kind) -> Reply {
        let addresses = &self.servers.addresses;
        let mut tries = FuturesUnordered::new();
        for attempt in 0..self.servers.rounds * addresses.len() {
            let place = (self.first.get() + attempt) % addresses.len();
            tries.push(async move {
                (attempt, place, self.ask_one(addresses[place], name, kind).await)
            });
            let until = Instant::now() + self.timeout;
            while let Ok(Some((at, place, result))) = timeout_at(until, tries.next()).await {
                let server = addresses[place];
                match result {
                    Ok(Reply::Unusable | Reply::NotUnderstood | Reply::Truncated) => {
                        trace!(%server, %name, "no usable answer");
                    }
                    Ok(reply) => {
                        self.first.set(place);
                        return reply;
                    }
                    Err(error) => trace!(%server, %name, %error, "not asked"),
                }
                if at == attempt {
                    break;
                }
            }
        }
        Reply::Unusable
    }

    /// One try with one server.
    async fn ask_one(&self, server: SocketAddr, name: &OwnedName, kind: Kind) -> io::Result<Reply> {
        let mut reply = Reply::Unusable;
        for edns in [true, false] {
            let Some(question) = message::question(name, kind, edns) else {
                return Ok(Reply::Unusable);
            };
            reply = ask_udp(server, &question, kind).await?;
            if reply == Reply::Truncated {
                reply = ask_tcp(server, &question, kind).await?;
            }
            if reply != Reply::NotUnderstood {
                break;
            }
        }
        Ok(reply)
    }
}

/// A socket of its own for each question: the source port is as hard to guess as the id.
async fn ask_udp(server: SocketAddr, question: &Message<Vec<u8>>, kind: Kind) -> io::Result<Reply> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(question.as_slice()).await?;
    let mut buffer = vec![0; UDP_BUFFER];
    for _ in 0..MAX_STRAYS {
        let len = socket.recv(&mut buffer).await?;
        match message::read(question, &buffer[..len], kind) {
            None => {}
            // Cut by our own buffer.
            Some(Reply::Unusable) if len == UDP_BUFFER => return Ok(Reply::Truncated),
            Some(reply) => return Ok(reply),
        }
    }
    Ok(Reply::Unusable)
}

async fn ask_tcp(server: SocketAddr, question: &Message<Vec<u8>>, kind: Kind) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(server).await?;
    let bytes = question.as_slice();
    let mut framed = Vec::with_capacity(bytes.len() + 2);
    framed.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    framed.extend_from_slice(bytes);
    stream.write_all(&framed).await?;
    let len = stream.read_u16().await?;
    let mut answer = vec![0; len.into()];
    stream.read_exact(&mut answer).await?;
    Ok(message::read(question, &answer, kind).unwrap_or(Reply::Unusable))
}
