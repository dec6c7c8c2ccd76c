//! Where a request goes next (contract 1.2).

use bytes::Bytes;
use std::net::IpAddr;

use super::draft::{Draft, Failure};
use super::own::Transport;

/// The next hop as its URI has it; RFC 3263 makes addresses of it ([`locate`](super::locate)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The host or `maddr`.
    pub host: HopHost,
    /// The port, where one is written.
    pub port: Option<u16>,
    /// The transport, where the URI says one; `None` = by DNS, else UDP.
    pub transport: Option<Transport>,
}

/// The host of a hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HopHost {
    /// An address.
    Ip(IpAddr),
    /// A name in lower case without a final dot.
    Name(Bytes),
}

/// The next hop: `explicit` (`forward_uri`), else `$du`, else the Request-URI.
///
/// # Errors
/// No URI that leads anywhere: bad, a scheme or transport that is not carried (sips and TLS too).
pub fn next_hop(_draft: &Draft, _explicit: Option<&[u8]>) -> Result<Hop, Failure> {
    unimplemented!()
}
