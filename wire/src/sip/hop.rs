//! Where a request goes next (contract 1.2).

use bytes::Bytes;
use std::net::IpAddr;

use super::draft::{Draft, Failure};
use super::message::{Uri, host_ip};
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

impl Hop {
    /// Where a URI leads.
    ///
    /// # Errors
    /// No sip URI, or one that asks for what is not carried (sips, TLS, WebSocket, SCTP).
    pub fn of(text: &[u8]) -> Result<Self, Failure> {
        let uri = Uri::parse(text).map_err(|_| BAD_URI)?;
        if !uri.scheme.eq_ignore_ascii_case(b"sip") {
            return Err(UNRESOLVABLE);
        }
        let transport = match uri.params.get(b"transport").flatten() {
            Some(word) => Some(Transport::of(word).ok_or(UNRESOLVABLE)?),
            None => None,
        };
        let host = uri.params.get(b"maddr").flatten().unwrap_or(uri.host);
        if uri.port == Some(0) {
            return Err(BAD_URI);
        }
        Ok(Self { host: HopHost::of(host).ok_or(BAD_URI)?, port: uri.port, transport })
    }
}

impl HopHost {
    /// The host of a text, IPv6 with or without brackets; `None` where it can be neither an address
    /// nor a name.
    pub fn of(text: &[u8]) -> Option<Self> {
        if let Some(ip) = host_ip(text) {
            return Some(Self::Ip(ip));
        }
        let name = text.strip_suffix(b".").unwrap_or(text);
        let in_name =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        (!name.is_empty() && name.len() <= LONGEST_NAME && name.iter().all(in_name))
            .then(|| Self::Name(name.to_ascii_lowercase().into()))
    }
}

/// What a name may have at most (RFC 1035 2.3.4).
const LONGEST_NAME: usize = 253;

/// It leads nowhere.
pub const UNRESOLVABLE: Failure = Failure { code: 478, reason: "Unresolvable destination" };

/// It can not be read.
pub const BAD_URI: Failure =
    Failure { code: 479, reason: "Regretfully, we were not able to process the URI" };

/// The next hop: `explicit` (`forward_uri`), else `$du`, else the Request-URI.
///
/// # Errors
/// No URI that leads anywhere: bad, a scheme or transport that is not carried (sips and TLS too).
pub fn next_hop(draft: &Draft, explicit: Option<&[u8]>) -> Result<Hop, Failure> {
    Hop::of(explicit.or(draft.dst_uri.as_deref()).unwrap_or_else(|| draft.uri()))
}

#[cfg(test)]
mod tests;
