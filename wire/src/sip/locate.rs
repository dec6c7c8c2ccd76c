//! RFC 3263: from the URI of a hop to addresses, in the order in which they are tried.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::draft::Failure;
use super::hop::Hop;
use super::own::Transport;

/// One question to DNS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// NAPTR of a domain.
    Naptr(Bytes),
    /// SRV such as `_sip._udp.example.com`.
    Srv(Bytes),
    /// Addresses of a name.
    Address(Bytes),
}

/// One NAPTR record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of RFC 3403 4.1")]
pub struct Naptr {
    pub order: u16,
    pub preference: u16,
    pub flags: Bytes,
    pub services: Bytes,
    pub replacement: Bytes,
}

/// One SRV record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of RFC 2782")]
pub struct Srv {
    pub priority: u16,
    pub weight: u16,
    pub port: u16,
    pub target: Bytes,
}

/// The answer to a question; an empty list = the name has no such record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To [`Question::Naptr`].
    Naptr(Vec<Naptr>),
    /// To [`Question::Srv`].
    Srv(Vec<Srv>),
    /// To [`Question::Address`].
    Addresses(Vec<IpAddr>),
    /// No server gave a usable answer.
    Failed,
}

/// How names are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocateOptions {
    /// NAPTR is asked for a name without port and transport.
    pub naptr: bool,
    /// What the node can send by, IPv4 and IPv6.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
    /// A TCP socket is there.
    pub tcp: bool,
}

/// Where a request can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// By which transport.
    pub transport: Transport,
    /// To which address.
    pub address: SocketAddr,
}

/// A search for the addresses of one hop. `seed` (from the branch) makes every copy of a request
/// choose alike, as a stateless proxy has to (RFC 3263 4.3).
#[derive(Debug)]
pub struct Locate {
    _hop: Hop,
}

/// What a search wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// An answer to this; several may be asked for at once.
    Ask(Vec<Question>),
    /// Done: in the order in which they are tried, never empty.
    Found(Vec<Destination>),
}

impl Locate {
    /// Begins; a hop with an address is found at once.
    ///
    /// # Errors
    /// 478: nothing can be sent there.
    pub fn new(
        _hop: Hop,
        _options: LocateOptions,
        _seed: u64,
    ) -> Result<(Self, Progress), Failure> {
        unimplemented!()
    }
    /// Takes the answers to all that was asked, in that order.
    ///
    /// # Errors
    /// 478: it does not lead to an address.
    pub fn answer(&mut self, _answers: Vec<Answer>) -> Result<Progress, Failure> {
        unimplemented!()
    }
}
