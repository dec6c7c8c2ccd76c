//! Settings with their documented defaults.

use std::net::SocketAddr;
use std::sync::Arc;

use lineway_wire::units::{Millis, Port};

use crate::settings::{
    DnsSettings, DomainStrategy, Host, NodePlan, NodeSettings, Plan, ServiceSettings,
    SocketSettings, Target, TcpConnectorSettings, TcpListenerSettings, TesterSettings,
};

/// A socket with every default.
pub fn socket() -> SocketSettings {
    SocketSettings::default()
}

/// A `TcpListener` on this address with every default.
pub fn listener(at: SocketAddr) -> NodeSettings {
    NodeSettings::TcpListener(TcpListenerSettings {
        address: at.ip(),
        ports: vec![port(at.port())],
        socket: socket(),
        initial_idle_timeout: Millis::new(5000),
        active_idle_timeout: Millis::new(300_000),
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        backlog: 4096,
        max_lines: None,
    })
}

/// A `TcpConnector` to this address with every default.
pub fn connector(to: SocketAddr) -> NodeSettings {
    connector_to(Host::Ip(to.ip()), to.port())
}

/// A `TcpConnector` to this host with every default.
pub fn connector_to(host: Host, to: u16) -> NodeSettings {
    NodeSettings::TcpConnector(TcpConnectorSettings {
        targets: vec![Target { host, port: port(to), weight: 1 }],
        socket: socket(),
        fastopen: false,
        connect_timeout: Millis::new(10_000),
        source_ip: None,
        idle_timeout: Millis::new(300_000),
        domain_strategy: DomainStrategy::PreferIpv4,
    })
}

/// The same listener or connector without idle times, so that a test sees the limits of the nodes
/// behind and before it.
pub fn patient(mut settings: NodeSettings) -> NodeSettings {
    const OFF: Millis = Millis::new(0);
    match &mut settings {
        NodeSettings::TcpListener(listener) => {
            listener.initial_idle_timeout = OFF;
            listener.active_idle_timeout = OFF;
        }
        NodeSettings::TcpConnector(connector) => connector.idle_timeout = OFF,
        _ => {}
    }
    settings
}

/// A tester with every default, but that it does not end the process.
pub fn tester() -> TesterSettings {
    TesterSettings { chunk_count: 11, timeout: Millis::new(30_000), terminate: false, lines: 1 }
}

/// A node.
pub fn node(name: &str, settings: NodeSettings, next: Option<&str>) -> NodePlan {
    NodePlan { name: name.into(), settings, next: next.map(Arc::from) }
}

/// A plan of these nodes for one worker.
pub fn plan(nodes: Vec<NodePlan>) -> Plan {
    let dns = DnsSettings { servers: Vec::new(), timeout: Millis::new(2000) };
    let service = ServiceSettings {
        workers: 1,
        drain_timeout: Millis::new(10_000),
        total_queue: ServiceSettings::TOTAL_QUEUE,
        dns,
    };
    Plan { service, nodes }
}

fn port(number: u16) -> Port {
    Port::new(i64::from(number)).unwrap_or(Port::ANY)
}
