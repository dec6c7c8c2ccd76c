//! Settings of `SipListener` and `SipRouter` (contract sip.md, section 9).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use ipnet::IpNet;
use lineway_wire::sip::hop::Hop;
use lineway_wire::sip::message::Uri;
use lineway_wire::sip::own::{Alias, Own, Socket, SocketId, Transport};
use lineway_wire::sip::registrar::Rules;
use lineway_wire::sip::transaction::{Options, Timing};
use lineway_wire::units::{ByteCount, Millis};

use crate::sip::script::{ScriptLimits, Source};
use crate::sip::users::Users;

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
    /// `tcp-idle-timeout-ms`; 0 = off. Default 120000.
    pub tcp_idle_timeout: Millis,
    /// `max-message-bytes`: [`Self::LEAST_MESSAGE`] to [`Self::MOST_MESSAGE`]. Default 65535.
    pub max_message: ByteCount,
    /// `max-connections`: TCP connections of the node, both directions; 1 to
    /// [`Self::MOST_CONNECTIONS`]. Default 10000.
    pub max_connections: u32,
}

impl SipListenerSettings {
    /// The smallest `max-message-bytes`: below it usual messages would be refused.
    pub const LEAST_MESSAGE: u32 = 1024;
    /// The largest message: what a datagram can hold.
    pub const MOST_MESSAGE: u32 = 65_535;
    /// The most connections. Each has a socket.
    pub const MOST_CONNECTIONS: u32 = 1_000_000;

    /// Settings with these addresses, the rest by default.
    pub fn new(listen: Vec<SipAddress>) -> Self {
        Self {
            listen,
            alias: Vec::new(),
            advertise: None,
            tcp_idle_timeout: Millis::new(120_000),
            max_message: ByteCount::new(u64::from(Self::MOST_MESSAGE)),
            max_connections: 10_000,
        }
    }

    /// The own sockets and names, with the addresses that the sockets are really bound to: one for
    /// each of `listen`, in its order.
    pub fn own(&self, bound: &[SocketAddr]) -> Own {
        let socket = |(place, (listen, address)): (usize, (&SipAddress, &SocketAddr))| {
            let (host, port) = match &self.advertise {
                Some((host, port)) => (host.to_string(), port.unwrap_or(address.port())),
                None if address.is_ipv6() => (format!("[{}]", address.ip()), address.port()),
                None => (address.ip().to_string(), address.port()),
            };
            Socket {
                id: SocketId(u16::try_from(place).unwrap_or(u16::MAX)),
                transport: listen.transport,
                address: *address,
                host: Bytes::from(host),
                port,
            }
        };
        let sockets = self.listen.iter().zip(bound).enumerate().map(socket).collect();
        Own { sockets, aliases: self.alias.clone() }
    }
}

/// One entry of `listen`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SipAddress {
    /// `udp:` or `tcp:`.
    pub transport: Transport,
    /// The address.
    pub address: SocketAddr,
}

impl std::fmt::Display for SipAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.transport.word(), self.address)
    }
}

/// Settings of a `SipRouter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipRouterSettings {
    /// `script`: the file's text, or the built-in one.
    pub script: Source,
    /// `mode` of the built-in script. Default stateful.
    pub mode: SipMode,
    /// `script-time-limit-ms`: at least 1. Default 50.
    pub script_time_limit: Millis,
    /// `resolve-timeout-ms`: at least 1. Default 2000.
    pub resolve_timeout: Millis,
    /// `script-memory-bytes` of each worker's state; at least [`Self::LEAST_MEMORY`]. Default 64
    /// MiB.
    pub script_memory: ByteCount,
    /// `append-fromtag`: Record-Route has `;ftag=`. Default false.
    pub append_fromtag: bool,
    /// `dns-failover` of a send that fails. Default false.
    pub dns_failover: bool,
    /// `udp-mtu`: larger requests go over TCP where there is a socket; [`Self::LEAST_MTU`] to
    /// [`SipListenerSettings::MOST_MESSAGE`], or 0 = off, the default.
    pub udp_mtu: ByteCount,
    /// `max-branches`: 1 to [`Self::MOST_BRANCHES`]. Default 12.
    pub max_branches: u32,
    /// `max-htable-entries` of each table; 1 to [`Self::MOST_ENTRIES`]. Default 100000.
    pub max_htable_entries: u32,
    /// `addresses`: group to networks, for `KSR.permissions.allow_source_address`.
    pub addresses: BTreeMap<u32, Vec<IpNet>>,
    /// `dispatcher`: set to targets.
    pub dispatcher: BTreeMap<u32, Vec<DispatcherTarget>>,
    /// What needs transactions or a registrar.
    pub stateful: StatefulSettings,
}

impl SipRouterSettings {
    /// The most branches of a fork.
    pub const MOST_BRANCHES: u32 = 32;
    /// The most entries of a table, and the most transactions and bindings.
    pub const MOST_ENTRIES: u32 = 100_000_000;
    /// The smallest `udp-mtu`: what every host takes.
    pub const LEAST_MTU: u32 = 576;
    /// The smallest `script-memory-bytes`: a state with its functions needs less.
    pub const LEAST_MEMORY: u32 = 1 << 20;

    /// What a script may use.
    pub fn limits(&self) -> ScriptLimits {
        let (time, memory) = (self.script_time_limit.duration(), self.script_memory.as_len());
        ScriptLimits { time, memory }
    }
}

impl Default for SipRouterSettings {
    fn default() -> Self {
        Self {
            script: built_in_script(),
            mode: SipMode::Stateful,
            script_time_limit: Millis::new(50),
            resolve_timeout: Millis::new(2000),
            script_memory: ByteCount::new(64 << 20),
            append_fromtag: false,
            dns_failover: false,
            udp_mtu: ByteCount::new(0),
            max_branches: 12,
            max_htable_entries: 100_000,
            addresses: BTreeMap::new(),
            dispatcher: BTreeMap::new(),
            stateful: StatefulSettings::default(),
        }
    }
}

/// One target of a set of the dispatcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherTarget {
    /// Its URI, without what is for the dispatcher alone.
    pub uri: Arc<str>,
    /// `;weight=`: 0 to [`Self::MOST_WEIGHT`]. Default 0.
    pub weight: u32,
    /// `;priority=`: any number; the highest goes first. Default 0.
    pub priority: i32,
}

impl DispatcherTarget {
    /// The largest weight.
    pub const MOST_WEIGHT: u32 = 65_535;

    /// Reads a SIP URI with the parameters `weight` and `priority`; `None` where it is none, or one
    /// that nothing is sent to from here, such as sips.
    pub fn parse(text: &str) -> Option<Self> {
        Hop::of(text.as_bytes()).ok()?;
        let uri = Uri::parse(text.as_bytes()).ok().filter(Uri::is_sip)?;
        let (mut weight, mut priority) = (0, 0);
        let head = text.len() - uri.headers.map_or(0, |headers| headers.len() + 1);
        let begin = head - uri.params.0.len();
        let mut kept = text[..begin].trim_end_matches(';').to_owned();
        for param in text[begin..head].split(';').filter(|param| !param.is_empty()) {
            match param.split_once('=') {
                Some(("weight", value)) => {
                    weight = value.parse().ok().filter(|weight| *weight <= Self::MOST_WEIGHT)?;
                }
                Some(("priority", value)) => priority = value.parse().ok()?,
                _ => kept.extend([";", param]),
            }
        }
        kept.push_str(&text[head..]);
        Some(Self { uri: kept.into(), weight, priority })
    }
}

/// The script of a `SipRouter` that names none: `examples/sip/basic.lua`.
pub fn built_in_script() -> Source {
    const TEXT: &[u8] = include_bytes!("../../../examples/sip/basic.lua");
    Source { name: Arc::from(BUILT_IN_NAME), text: Arc::from(TEXT) }
}

/// How messages call the built-in script.
const BUILT_IN_NAME: &str = "(built-in)";

/// `mode` of the built-in script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SipMode {
    /// `stateless`: nothing is stored.
    Stateless,
    /// `stateful`: each request is a transaction.
    Stateful,
}

impl SipMode {
    /// The mode as written in the configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::Stateful => "stateful",
        }
    }
}

/// Settings of a `SipRouter` that only transactions, the registrar and the dispatcher use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatefulSettings {
    /// `fr-timer-ms`: no reply at all on a branch. Default 30000.
    pub fr_timer: Millis,
    /// `fr-inv-timer-ms`: an INVITE branch after a provisional reply. Default 120000.
    pub fr_inv_timer: Millis,
    /// `retr-timer1-ms`: the first interval of retransmission. Default 500.
    pub retr_timer1: Millis,
    /// `retr-timer2-ms`: up to where it doubles; not below the first. Default 4000.
    pub retr_timer2: Millis,
    /// `wt-timer-ms`: how long a finished transaction stays. Default 5000.
    pub wt_timer: Millis,
    /// `max-inv-lifetime-ms`: the end of an INVITE's timers. Default 180000.
    pub max_inv_lifetime: Millis,
    /// `max-noninv-lifetime-ms`: the end of other timers. Default 32000.
    pub max_noninv_lifetime: Millis,
    /// `relay-503`: a 503 goes up as it is, not as 500. Default false.
    pub relay_503: bool,
    /// `prefer-real-replies`: a received failure wins against a timeout. Default false.
    pub prefer_real_replies: bool,
    /// `cancel-b-method`: what a CANCEL does to a branch without a reply; 0 to 2. Default 1.
    pub cancel_b_method: u8,
    /// `unmatched-cancel`. Default relay.
    pub unmatched_cancel: UnmatchedCancel,
    /// `rfc6026`: the timers of RFC 6026. Default false.
    pub rfc6026: bool,
    /// `rfc4320`: what RFC 4320 says of requests other than INVITE. Default false.
    pub rfc4320: bool,
    /// `loop-detection` (RFC 5393). Default false.
    pub loop_detection: bool,
    /// `max-breadth` (RFC 5393); 0 = off, the default.
    pub max_breadth: u32,
    /// `strict-answers`: 405, 416 and 420 where RFC 3261 wants them. Default false.
    pub strict_answers: bool,
    /// `min-expires` of a registration, seconds. Default 60.
    pub min_expires: u32,
    /// `max-expires` of a registration, seconds; 0 = no limit, the default.
    pub max_expires: u32,
    /// `max-contacts` of one address; 0 = no limit, the default.
    pub max_contacts: u32,
    /// `users`: what the file says. Default nobody.
    pub users: Arc<Users>,
    /// `realm` of challenges.
    pub realm: Option<Arc<str>>,
    /// `dispatcher-ping-ms`; 0 = off, the default.
    pub dispatcher_ping: Millis,
    /// `max-transactions` at a time. Default 100000.
    pub max_transactions: u32,
    /// `max-bindings` at a time. Default 1000000.
    pub max_bindings: u32,
    /// `location`: where bindings are kept. Default memory.
    pub location: Location,
}

impl StatefulSettings {
    /// What is set for registrations.
    pub const fn rules(&self) -> Rules {
        Rules {
            min_expires: self.min_expires,
            max_expires: self.max_expires,
            max_contacts: self.max_contacts,
        }
    }

    /// The times of a transaction, as it begins.
    pub const fn timing(&self) -> Timing {
        Timing {
            fr: self.fr_timer.duration(),
            fr_inv: self.fr_inv_timer.duration(),
            t1: self.retr_timer1.duration(),
            t2: self.retr_timer2.duration(),
            wt: self.wt_timer.duration(),
            max_inv: self.max_inv_lifetime.duration(),
            max_noninv: self.max_noninv_lifetime.duration(),
        }
    }

    /// What is set for all transactions of a router.
    pub const fn options(&self) -> Options {
        Options {
            relay_503: self.relay_503,
            prefer_real_replies: self.prefer_real_replies,
            cancel_b_method: self.cancel_b_method,
            rfc6026: self.rfc6026,
            rfc4320: self.rfc4320,
        }
    }
}

impl Default for StatefulSettings {
    fn default() -> Self {
        Self {
            fr_timer: Millis::new(30_000),
            fr_inv_timer: Millis::new(120_000),
            retr_timer1: Millis::new(500),
            retr_timer2: Millis::new(4000),
            wt_timer: Millis::new(5000),
            max_inv_lifetime: Millis::new(180_000),
            max_noninv_lifetime: Millis::new(32_000),
            relay_503: false,
            prefer_real_replies: false,
            cancel_b_method: 1,
            unmatched_cancel: UnmatchedCancel::Relay,
            rfc6026: false,
            rfc4320: false,
            loop_detection: false,
            max_breadth: 0,
            strict_answers: false,
            min_expires: 60,
            max_expires: 0,
            max_contacts: 0,
            users: Arc::default(),
            realm: None,
            dispatcher_ping: Millis::new(0),
            max_transactions: 100_000,
            max_bindings: 1_000_000,
            location: Location::Memory,
        }
    }
}

/// `unmatched-cancel`: what becomes of a CANCEL that no transaction knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnmatchedCancel {
    /// `relay`: it goes on as a transaction of its own.
    Relay,
    /// `stateless`: it goes on without state.
    Stateless,
    /// `drop`.
    Drop,
}

/// `location`: where the registrar keeps its bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// `memory`: they end with the process.
    Memory,
    /// `redb:FILE`.
    Redb(PathBuf),
}

#[cfg(test)]
mod tests {
    use super::DispatcherTarget;

    #[test]
    fn a_target_has_a_uri_and_what_is_for_the_dispatcher_alone() {
        let read = |text: &str| {
            DispatcherTarget::parse(text).map(|at| (at.uri.to_string(), at.weight, at.priority))
        };
        let is = |uri: &str, weight, priority| Some((uri.to_owned(), weight, priority));
        assert_eq!(read("sip:192.0.2.1:5060"), is("sip:192.0.2.1:5060", 0, 0));
        assert_eq!(
            read("sip:a.example;weight=30;transport=tcp;priority=-2;lr"),
            is("sip:a.example;transport=tcp;lr", 30, -2)
        );
        assert_eq!(read("sip:a.example;priority=7"), is("sip:a.example", 0, 7));
        assert_eq!(read("sip:a;weight=1@a.example"), is("sip:a;weight=1@a.example", 0, 0));
        assert_eq!(read("sip:a.example;weight=1?x=y"), is("sip:a.example?x=y", 1, 0));
        for bad in [
            "a.example",
            "tel:123",
            "sip:",
            "sips:a.example",
            "sip:a.example;transport=tls",
            "sip:a;weight=x",
            "sip:a;weight=-1",
            "sip:a;weight=65536",
            "sip:a;priority=",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
