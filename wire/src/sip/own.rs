//! Own sockets and own names: what a URI, a Route or a source is compared with.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::message::{Method, Uri, host_ip};

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

impl Socket {
    /// Whether host and port (absent = 5060) are those of this socket, as bound or as told.
    fn is(&self, host: &Host<'_>, port: u16) -> bool {
        (self.port == port && host.is(&self.host))
            || (self.address.port() == port
                && !self.address.ip().is_unspecified()
                && host.ip == Some(self.address.ip()))
    }
}

/// A host that is compared with own ones: an address by what it is, a name without case and final
/// dot.
struct Host<'a> {
    text: &'a [u8],
    ip: Option<IpAddr>,
}

impl<'a> Host<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text: text.strip_suffix(b".").unwrap_or(text), ip: host_ip(text) }
    }
    fn is(&self, own: &[u8]) -> bool {
        self.text.eq_ignore_ascii_case(own) || (self.ip.is_some() && self.ip == host_ip(own))
    }
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
    /// The socket that a message leaves by (contract 1.2): the forced one, or one of its address that
    /// can go that way; else the one that the message came in by, so that a call keeps to one of
    /// several addresses and its replies pass the same NAT; else the first of this transport and
    /// address family.
    pub fn outgoing(
        &self,
        forced: Option<SocketId>,
        received: SocketId,
        transport: Transport,
        to: IpAddr,
    ) -> Option<&Socket> {
        let fits = |socket: &&Socket| {
            socket.transport == transport && socket.address.is_ipv4() == to.is_ipv4()
        };
        let forced = forced.and_then(|id| self.socket(id));
        let beside = |forced: &Socket| {
            let ip = forced.address.ip();
            self.sockets.iter().filter(fits).find(|socket| socket.address.ip() == ip)
        };
        forced
            .filter(fits)
            .or_else(|| forced.and_then(beside))
            .or_else(|| self.socket(received).filter(fits))
            .or_else(|| self.first(transport, to))
    }
    /// The socket that a Route entry of ours names, for what leaves by it (S-11): the first with
    /// this host and port (absent = 5060). Without a transport UDP goes first, as a Record-Route of
    /// ours leaves it out.
    pub fn named(
        &self,
        host: &[u8],
        port: Option<u16>,
        transport: Option<Transport>,
    ) -> Option<&Socket> {
        let host = Host::new(host);
        let port = port.unwrap_or(DEFAULT_PORT);
        let of = |transport| {
            let named = |socket: &&Socket| socket.transport == transport && socket.is(&host, port);
            self.sockets.iter().find(named)
        };
        match transport {
            Some(transport) => of(transport),
            None => of(Transport::Udp).or_else(|| of(Transport::Tcp)),
        }
    }
    /// Whether host, port (absent = 5060) and transport (absent = any) are own: those of a socket,
    /// as bound or as told, or an alias. Names are compared without case, addresses by what they
    /// are. A socket on an unspecified address (`0.0.0.0`, `[::]`) is own by `advertise` and `alias`
    /// only: which of the machine's addresses lead to it is not known here.
    pub fn is_own(&self, host: &[u8], port: Option<u16>, transport: Option<Transport>) -> bool {
        let host = Host::new(host);
        let port = port.unwrap_or(DEFAULT_PORT);
        let carried = |own: Transport| transport.is_none_or(|asked| asked == own);
        self.sockets.iter().any(|own| carried(own.transport) && own.is(&host, port))
            || self.aliases.iter().any(|alias| {
                alias.transport.is_none_or(carried)
                    && alias.port.is_none_or(|own| own == port)
                    && host.is(&alias.host)
            })
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

#[cfg(test)]
mod tests;
