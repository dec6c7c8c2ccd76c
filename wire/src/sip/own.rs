//! Own sockets and own names: what a URI, a Route or a source is compared with.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::message::{Method, Uri};

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A TCP connection.
    Tcp,
}

impl Transport {
    /// As in a Via: `UDP`, `TCP`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }
    /// As in a URI and in metrics: `udp`, `tcp`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
    /// The transport of a word, any case; `None` for one that is not carried (TLS, WS, SCTP).
    pub fn of(word: &[u8]) -> Option<Self> {
        match word {
            word if word.eq_ignore_ascii_case(b"UDP") => Some(Self::Udp),
            word if word.eq_ignore_ascii_case(b"TCP") => Some(Self::Tcp),
            _ => None,
        }
    }
    /// True where the transport delivers by itself.
    pub const fn is_reliable(self) -> bool {
        matches!(self, Self::Tcp)
    }
}

/// The port that is left out where it is written (contract 1.3).
pub const DEFAULT_PORT: u16 = 5060;

/// The place of a listening socket among those of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId(pub u16);

/// The number of a TCP connection, unique in the process; in a Via as `;i=` (R139).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// One listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its place.
    pub id: SocketId,
    /// What it carries.
    pub transport: Transport,
    /// What it is bound to.
    pub address: SocketAddr,
    /// The host as it is told to others: the address (IPv6 in brackets) or `advertise`.
    pub host: Bytes,
    /// The port as it is told to others.
    pub port: u16,
}

/// One own name: `alias` of a `SipListener`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Host, compared without case; IPv6 in brackets.
    pub host: Bytes,
    /// Only with this port; `None` = any.
    pub port: Option<u16>,
    /// Only with this transport; `None` = any.
    pub transport: Option<Transport>,
}

/// The own sockets and names of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// In the order of the configuration.
    pub sockets: Vec<Socket>,
    /// `alias`.
    pub aliases: Vec<Alias>,
}

impl Own {
    /// The socket of this place.
    pub fn socket(&self, id: SocketId) -> Option<&Socket> {
        self.sockets.get(usize::from(id.0))
    }
    /// The first socket of this transport and address family (contract 1.2).
    pub fn first(&self, transport: Transport, to: IpAddr) -> Option<&Socket> {
        let fits = |socket: &&Socket| {
            socket.transport == transport && socket.address.is_ipv4() == to.is_ipv4()
        };
        self.sockets.iter().find(fits)
    }
    /// The socket that a Route entry of ours names, for what leaves by it (S-11).
    pub fn named(
        &self,
        _host: &[u8],
        _port: Option<u16>,
        _transport: Option<Transport>,
    ) -> Option<&Socket> {
        unimplemented!()
    }
    /// Whether host, port (absent = 5060) and transport are own: a socket or an alias.
    pub fn is_own(&self, _host: &[u8], _port: Option<u16>, _transport: Option<Transport>) -> bool {
        unimplemented!()
    }
    /// Whether a URI is own.
    pub fn is_own_uri(&self, uri: &Uri<'_>) -> bool {
        let transport = uri.params.get(b"transport").flatten().and_then(Transport::of);
        uri.is_sip() && self.is_own(uri.host, uri.port, transport)
    }
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its sender.
    pub source: SocketAddr,
    /// The socket that it came in by; for a connection the listening socket, or the one it was
    /// dialled from.
    pub socket: SocketId,
    /// What it came over.
    pub transport: Transport,
    /// The connection, for TCP.
    pub connection: Option<ConnectionId>,
}

/// True for a method whose transaction has an ACK.
pub const fn is_invite(method: Method<'_>) -> bool {
    matches!(method, Method::Invite)
}
