//! Settings of `SipListener` and `SipRouter` (contract sip.md, section 9).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use lineway_wire::sip::own::{Alias, Transport};
use lineway_wire::units::{ByteCount, Millis};

use crate::sip::script::Source;

/// Settings of a `SipListener`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipListenerSettings {
    /// `listen`: where messages come in; never empty, none twice.
    pub listen: Vec<SipAddress>,
    /// `alias`: own names beside the sockets.
    pub alias: Vec<Alias>,
    /// `advertise`: host and port that others are told in place of the address; the port may be
    /// left out.
    pub advertise: Option<(Arc<str>, Option<u16>)>,
    /// `tcp-idle-timeout-ms`; 0 = off.
    pub tcp_idle_timeout: Millis,
    /// `max-message-bytes`: at most 65535.
    pub max_message: ByteCount,
    /// `max-connections`: TCP connections of the node, both directions.
    pub max_connections: u32,
}

/// One entry of `listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SipAddress {
    /// `udp:` or `tcp:`.
    pub transport: Transport,
    /// The address.
    pub address: SocketAddr,
}

/// Settings of a `SipRouter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipRouterSettings {
    /// `script`: the file's text, or the built-in one.
    pub script: Source,
    /// `script-time-limit-ms`.
    pub script_time_limit: Millis,
    /// `resolve-timeout-ms`.
    pub resolve_timeout: Millis,
    /// `script-memory-bytes`.
    pub script_memory: ByteCount,
    /// `append-fromtag`: Record-Route has `;ftag=`.
    pub append_fromtag: bool,
    /// `dns-failover` of a send that fails.
    pub dns_failover: bool,
    /// `udp-mtu`: larger requests go over TCP where there is a socket; 0 = off.
    pub udp_mtu: ByteCount,
    /// `max-branches`.
    pub max_branches: u32,
    /// `max-htable-entries` of each table.
    pub max_htable_entries: u32,
    /// `dispatcher`: set to URIs.
    pub dispatcher: BTreeMap<u32, Vec<Arc<str>>>,
}
