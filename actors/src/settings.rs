//! The typed plan of a service: what a configuration file becomes once it was read.
//!
//! Every value here can only be right; nothing in this crate checks a setting again.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::net::ListenKey;
use ipnet::IpNet;
use lineway_wire::units::{ByteCount, Millis, Port};

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
    /// How names are resolved.
    pub dns: DnsSettings,
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
