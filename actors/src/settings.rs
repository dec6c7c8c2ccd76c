//! The typed plan of a service: what a configuration file becomes once it was read.
//!
//! Every value here can only be right; nothing in this crate checks a setting again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::net::ListenKey;
use ipnet::IpNet;
use lineway_wire::mux::Limits;
use lineway_wire::units::{ByteCount, Millis, Port};

mod sip;
mod socket;

pub use sip::{
    DispatcherTarget, Location, SipAddress, SipListenerSettings, SipMode, SipRouterSettings,
    StatefulSettings, UnmatchedCancel, built_in_script,
};
pub use socket::{DealerSocketSettings, MessageSettings, RouterSocketSettings};

/// The whole service: what `lineway run` builds and what a reload compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Settings of the process.
    pub service: ServiceSettings,
    /// The nodes in the order of the file. Names are unique and every `next` names one of them.
    pub nodes: Vec<NodePlan>,
}

/// The `[service]` table, and `[dns]` beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSettings {
    /// `workers`: threads that carry lines; 0 = one a core.
    pub workers: usize,
    /// `drain-timeout-ms`: how long lines may go on after a stop was asked for.
    pub drain_timeout: Millis,
    /// `total-queue-bytes`: what all message sockets together may hold; above it they read no more
    /// (B-7). Default [`Self::TOTAL_QUEUE`].
    pub total_queue: ByteCount,
    /// How names are resolved.
    pub dns: DnsSettings,
}

impl ServiceSettings {
    /// `total-queue-bytes` where none is written.
    pub const TOTAL_QUEUE: ByteCount = ByteCount::new(512 << 20);
}

/// The `[dns]` table: how host names are resolved (T10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsSettings {
    /// `servers`: name servers to ask; empty = those of the system's `resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// `timeout-ms`: how long one question to one server may take.
    pub timeout: Millis,
}

/// One `[[node]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePlan {
    /// The unique name.
    pub name: Arc<str>,
    /// The node's type with its settings.
    pub settings: NodeSettings,
    /// The name of the node that follows upstream.
    pub next: Option<Arc<str>>,
}

impl NodePlan {
    /// The addresses that the node listens on, as configured.
    pub fn listen_addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let (ip, ports) = match &self.settings {
            NodeSettings::TcpListener(settings) => (settings.address, settings.ports.as_slice()),
            _ => (IpAddr::from([0, 0, 0, 0]), [].as_slice()),
        };
        ports.iter().map(move |port| SocketAddr::new(ip, port.get()))
    }

    /// The same addresses as keys of their sockets.
    pub fn listen_keys(&self) -> impl Iterator<Item = ListenKey> + '_ {
        self.listen_addresses().map(|address| ListenKey::new(&self.name, address))
    }
}

/// A node's type and settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSettings {
    /// Accepts TCP connections and starts a line for each.
    TcpListener(TcpListenerSettings),
    /// Ends a chain with a TCP connection to a server.
    TcpConnector(TcpConnectorSettings),
    /// Ends a chain and sends back what it gets.
    EchoServer,
    /// Starts lines that send and check the tester's pattern.
    TesterClient(TesterSettings),
    /// Ends a chain, checks the tester's pattern and answers with its own.
    TesterServer(TesterSettings),
    /// Opens several candidates for each line and keeps the first that proves itself.
    ConnectionFisherClient(FisherClientSettings),
    /// Proves itself to a `ConnectionFisherClient` and is then out of the way.
    ConnectionFisherServer(FisherServerSettings),
    /// Carries many lines over few connections to a `MuxServer`.
    MuxClient(MuxClientSettings),
    /// Takes those connections and starts a line for each that they carry.
    MuxServer(MuxServerSettings),
    /// Sends the requests of the `RouterSocket` before it to its peers.
    DealerSocket(DealerSocketSettings),
    /// Takes records and requests of its peers, and answers them.
    RouterSocket(RouterSocketSettings),
    /// Takes SIP messages over UDP and TCP.
    SipListener(SipListenerSettings),
    /// Decides by a script where the SIP messages of the `SipListener` before it go.
    SipRouter(Arc<SipRouterSettings>),
}

impl NodeSettings {
    /// True for a node whose lines come from outside of the chain.
    pub const fn is_entry(&self) -> bool {
        matches!(self, Self::TcpListener(_) | Self::TesterClient(_))
    }

    /// True for a node that ends the process when its work is done.
    pub const fn terminates(&self) -> bool {
        matches!(self, Self::TesterClient(settings) if settings.terminate)
    }

    /// What a message socket has, if it is one.
    pub const fn messages(&self) -> Option<&MessageSettings> {
        match self {
            Self::DealerSocket(settings) => Some(&settings.common),
            Self::RouterSocket(settings) => Some(&settings.common),
            _ => None,
        }
    }

    /// True for a node of a SIP chain.
    pub const fn is_sip(&self) -> bool {
        matches!(self, Self::SipListener(_) | Self::SipRouter(_))
    }

    /// The type as written in the configuration.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::TcpListener(_) => "TcpListener",
            Self::TcpConnector(_) => "TcpConnector",
            Self::EchoServer => "EchoServer",
            Self::TesterClient(_) => "TesterClient",
            Self::TesterServer(_) => "TesterServer",
            Self::ConnectionFisherClient(_) => "ConnectionFisherClient",
            Self::ConnectionFisherServer(_) => "ConnectionFisherServer",
            Self::MuxClient(_) => "MuxClient",
            Self::MuxServer(_) => "MuxServer",
            Self::DealerSocket(_) => "DealerSocket",
            Self::RouterSocket(_) => "RouterSocket",
            Self::SipListener(_) => "SipListener",
            Self::SipRouter(_) => "SipRouter",
        }
    }
}

/// Settings that every accepted or connected TCP socket has (T04, T05).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    /// `nodelay`: small writes leave at once. Default true.
    pub nodelay: bool,
    /// `write-high-water`: queued bytes at which the other side is paused. Default 512 KiB.
    pub write_high_water: ByteCount,
    /// `write-low-water`: queued bytes under which it is resumed; not above `write-high-water`.
    /// Default 256 KiB.
    pub write_low_water: ByteCount,
    /// `linger-ms`: how long queued bytes may take to leave after Finish (T05). Default 60000.
    pub linger: Millis,
    /// `fwmark`: the mark of the socket's packets (`SO_MARK`).
    pub fwmark: Option<u32>,
    /// `interface`: the network interface that the socket is bound to (`SO_BINDTODEVICE`).
    pub interface: Option<Arc<str>>,
}

impl Default for SocketSettings {
    fn default() -> Self {
        Self {
            nodelay: true,
            write_high_water: ByteCount::new(512 << 10),
            write_low_water: ByteCount::new(256 << 10),
            linger: Millis::new(60_000),
            fwmark: None,
            interface: None,
        }
    }
}

/// Settings of a `TcpListener`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpListenerSettings {
    /// `address`: the local IP address; a host name is no address here.
    pub address: IpAddr,
    /// `port` (number or array) or `port-range` (every port of it); never empty, no port twice.
    pub ports: Vec<Port>,
    /// What its accepted sockets have.
    pub socket: SocketSettings,
    /// `initial-idle-timeout-ms`: until the first bytes in either direction; 0 = off. Default 5000.
    pub initial_idle_timeout: Millis,
    /// `active-idle-timeout-ms`: after them; 0 = off. Default 300000.
    pub active_idle_timeout: Millis,
    /// `whitelist`: only these sources are accepted; empty = all.
    pub whitelist: Vec<IpNet>,
    /// `blacklist`: these sources are refused, also when whitelisted.
    pub blacklist: Vec<IpNet>,
    /// `backlog`: connections that the kernel keeps before they are accepted. Default 4096.
    pub backlog: u32,
    /// `max-lines`: live lines of this node over all workers, more wait in the backlog; `None` =
    /// no limit but the descriptors.
    pub max_lines: Option<u64>,
}

/// Settings of a `TcpConnector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConnectorSettings {
    /// `address` + `port`, or `addresses`: where to connect; never empty.
    pub targets: Vec<Target>,
    /// What its sockets have.
    pub socket: SocketSettings,
    /// `fastopen`: the first bytes travel with the SYN where both sides allow it. Default false.
    pub fastopen: bool,
    /// `connect-timeout-ms`: how long a connect may take in all, name and every address included;
    /// at least 1. Default 10000.
    pub connect_timeout: Millis,
    /// `source-ip`: the local address to connect from.
    pub source_ip: Option<IpAddr>,
    /// `idle-timeout-ms`: 0 = off. Default 300000.
    pub idle_timeout: Millis,
    /// `domain-strategy`: which address families of a name are used, and in which order.
    pub domain_strategy: DomainStrategy,
}

/// One target of a `TcpConnector`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// An IP address or a host name.
    pub host: Host,
    /// The port.
    pub port: Port,
    /// `weight`: its share of new connections among `addresses`, 1 to 65535. Default 1.
    pub weight: u32,
}

/// An IP address or a host name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Needs no resolving.
    Ip(IpAddr),
    /// Resolved for each connect within the record's TTL (T10). Lower case, without a final dot.
    Name(Arc<str>),
}

/// `domain-strategy` of a `TcpConnector`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DomainStrategy {
    /// `prefer-ipv4`: both families, IPv4 first.
    #[default]
    PreferIpv4,
    /// `prefer-ipv6`: both families, IPv6 first.
    PreferIpv6,
    /// `only-ipv4`.
    OnlyIpv4,
    /// `only-ipv6`.
    OnlyIpv6,
}

/// Settings of `TesterClient` and `TesterServer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TesterSettings {
    /// `chunk-count`: how many of the eleven chunk sizes are used, 1 to 11. Default 11.
    pub chunk_count: usize,
    /// `timeout-ms`: how long the whole test may take. Client only. Default 30000.
    pub timeout: Millis,
    /// `terminate`: end the process when every line is done. Client only. Default true.
    pub terminate: bool,
    /// `lines`: lines for each worker. Client only. Default 1.
    pub lines: usize,
}

/// Settings of a `ConnectionFisherClient`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FisherClientSettings {
    /// `simultaneous-tries-perline`: candidates that are opened for each line (C02), 1 to
    /// [`Self::MOST_TRIES`]. Default 2.
    pub simultaneous_tries: u32,
}

impl FisherClientSettings {
    /// The most candidates of one line. Each has a socket of its own, so a slip in the setting
    /// would use up the descriptors within a few lines.
    pub const MOST_TRIES: u32 = 64;
}

impl Default for FisherClientSettings {
    fn default() -> Self {
        Self { simultaneous_tries: 2 }
    }
}

/// Settings of a `ConnectionFisherServer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FisherServerSettings {
    /// `server-first-delay-ms`: how long a line may stay without payload after its proof until
    /// `next` is started all the same, for backends that speak first (S04b); 0 = off, `next`
    /// waits for payload. Default 1000.
    pub server_first_delay: Millis,
}

impl Default for FisherServerSettings {
    fn default() -> Self {
        Self { server_first_delay: Millis::new(1000) }
    }
}

/// Settings of a `MuxClient`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuxClientSettings {
    /// `mode`, with the setting that belongs to it.
    pub mode: MuxMode,
    /// What both sides have.
    pub mux: MuxSettings,
    /// `parent-retry-ms`: how long the connect of a parent is tried again while children wait of
    /// which nothing was sent (M14); 0 = off, they end with the first failure. Default 3000.
    pub parent_retry: Millis,
}

impl MuxClientSettings {
    /// Settings of a mode, the rest by default.
    pub fn new(mode: MuxMode) -> Self {
        Self { mode, mux: MuxSettings::default(), parent_retry: Millis::new(3000) }
    }
}

/// `mode` of a `MuxClient`: when a child gets a parent of its own (M10 to M13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MuxMode {
    /// `timer`: a parent takes children for so long, then the next child opens another.
    Timer {
        /// `connection-duration`, or `connection-duration-ms`: [`Self::LEAST_DURATION_MS`] or
        /// more.
        connection_duration: Millis,
    },
    /// `counter`: a parent takes so many children in its life, then the next child opens another.
    Counter {
        /// `connection-capacity`: 1 to [`Self::MOST_CAPACITY`].
        connection_capacity: u32,
    },
    /// `fixed-connections-count`: children share a fixed number of parents.
    FixedConnectionsCount {
        /// `per-worker-connections-count`: parents of each worker, 1 to
        /// [`Self::MOST_PER_WORKER`].
        per_worker: u32,
    },
}

impl MuxMode {
    /// The shortest `connection-duration` in milliseconds: more than 60.
    pub const LEAST_DURATION_MS: u32 = 61;
    /// The most children in the life of one parent: each has a cid of its own, and the last
    /// number is never given (M09).
    pub const MOST_CAPACITY: u32 = u32::MAX - 1;
    /// The most parents of one worker. Each has a socket, so a slip in the setting would use up
    /// the descriptors with the first child of each worker.
    pub const MOST_PER_WORKER: u32 = 1024;

    /// The mode as written in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timer { .. } => "timer",
            Self::Counter { .. } => "counter",
            Self::FixedConnectionsCount { .. } => "fixed-connections-count",
        }
    }
}

/// Settings of a `MuxServer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuxServerSettings {
    /// What both sides have.
    pub mux: MuxSettings,
    /// `max-children`: live children of one parent, 1 to [`Self::MOST_CHILDREN`]; a further one
    /// gets Close (M32). Default 65536.
    pub max_children: u32,
}

impl MuxServerSettings {
    /// The most children of one parent. Each is a line with a connection of its own.
    pub const MOST_CHILDREN: u32 = 1_000_000;
}

impl Default for MuxServerSettings {
    fn default() -> Self {
        Self { mux: MuxSettings::default(), max_children: 65_536 }
    }
}

/// What `MuxClient` and `MuxServer` have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MuxSettings {
    /// `child-buffer-limit`: bytes queued for one paused child at which its parent is not read
    /// (M24); at least 1. Default 8 MiB.
    pub child_buffer_limit: ByteCount,
    /// `child-buffer-resume-threshold`: queued bytes of a child under which its peer may go on
    /// (M23); at least 1, not above `child_buffer_limit`. Default
    /// [`Self::default_resume_threshold`].
    pub child_buffer_resume_threshold: ByteCount,
    /// `child-stall-timeout-ms`: how long a child that drains nothing may keep its parent from
    /// being read (M24, M25); at least 1. Default 10000.
    pub child_stall_timeout: Millis,
    /// `parent-buffer-limit`: bytes queued for all children of one parent at which it is not read
    /// (M25); `None`, written 0, is no such limit. Default 32 MiB.
    pub parent_buffer_limit: Option<ByteCount>,
    /// `half-close`: an end of one direction of a child is told to a peer that agrees (M30).
    /// Default true.
    pub half_close: bool,
    /// `half-close-timeout-ms`: without that agreement, how long a child whose client ended its
    /// input waits for the next byte of the reply (M31); at least 1. Default 2000.
    pub half_close_timeout: Millis,
}

impl MuxSettings {
    /// The same as the state machine takes it.
    pub fn limits(&self) -> Limits {
        Limits {
            child_buffer: self.child_buffer_limit.as_len(),
            child_resume: self.child_buffer_resume_threshold.as_len(),
            child_stall: self.child_stall_timeout.duration(),
            parent_buffer: self.parent_buffer_limit.map(ByteCount::as_len),
            half_close: self.half_close,
            half_close_timeout: self.half_close_timeout.duration(),
            ..Limits::default()
        }
    }

    /// `child-buffer-resume-threshold` where none is written: the smaller of 512 KiB and half of
    /// the limit.
    pub fn default_resume_threshold(child_buffer_limit: ByteCount) -> ByteCount {
        let half = child_buffer_limit.get() / 2;
        ByteCount::new(half.clamp(1, 512 << 10))
    }
}

impl Default for MuxSettings {
    fn default() -> Self {
        let child_buffer_limit = ByteCount::new(8 << 20);
        Self {
            child_buffer_limit,
            child_buffer_resume_threshold: Self::default_resume_threshold(child_buffer_limit),
            child_stall_timeout: Millis::new(10_000),
            parent_buffer_limit: Some(ByteCount::new(32 << 20)),
            half_close: true,
            half_close_timeout: Millis::new(2000),
        }
    }
}
