//! What `/api/nodes` looks like.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use lineway_actors::registry::{LineView, SipView, Takes};
use lineway_actors::settings::{
    Host, MessageSettings, MuxMode, MuxSettings, NodePlan, NodeSettings, Plan,
};
use lineway_actors::wire::units::{ByteCount, Port};
use lineway_actors::wire::zmp::core::DuplicatePolicy;
use lineway_actors::wire::zmp::endpoint::Endpoint;
use serde::Serialize;

use super::json::document;
use super::sip::{Counted, SipSummary};
use super::{Context, NotReady, sockets};

#[derive(Serialize)]
struct Nodes<'a> {
    service: Service<'a>,
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct Service<'a> {
    version: &'a str,
    uptime_seconds: f64,
    ready: bool,
    /// Why the service as a whole is not ready.
    reasons: Vec<&'a str>,
    lines_open: usize,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    #[serde(rename = "type")]
    type_name: &'static str,
    next: Option<&'a str>,
    ready: bool,
    reason: Option<String>,
    lines_open: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    mux: Option<Carried>,
    /// Of a message socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<Connected>,
    /// Of a SIP node that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    sip: Option<Counted>,
    settings: Summary,
}

/// The peers of a message socket.
#[derive(Clone, Copy, Default, Serialize)]
struct Connected {
    peers: u64,
    peers_paused: u64,
    requests_pending: u64,
    /// Requests that wait for a worker.
    held: u64,
    queued: u64,
}

/// What the live parents of a node carry.
#[derive(Clone, Copy, Default, Serialize)]
struct Carried {
    parents_open: usize,
    /// Those that take no further child.
    parents_exhausted: usize,
    children_open: u64,
    children_paused: u64,
    /// Bytes that wait for children.
    queued: u64,
}

/// What is counted of the live lines and sockets of each node.
#[derive(Default)]
struct Open {
    lines: usize,
    carried: Carried,
    connected: Connected,
}

/// The settings that tell one node from another.
#[derive(Default, Serialize)]
struct Summary {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listen: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    connect: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<usize>,
    /// Candidates of each line.
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<u32>,
    /// `server-first-delay-ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_first_delay_ms: Option<u64>,
    #[serde(flatten)]
    mux: Option<MuxSummary>,
    #[serde(flatten)]
    messages: Option<MessageSummary>,
    #[serde(flatten)]
    sip: Option<SipSummary>,
}

/// What tells one message socket from another.
#[derive(Serialize)]
struct MessageSummary {
    bind: Vec<String>,
    #[serde(rename = "connect")]
    connects: Vec<String>,
    /// As configured; the one in force is in `/api/sockets`.
    routing_id: Option<String>,
    weight: u32,
    request_timeout_ms: u64,
    /// 0 = no limit.
    send_hwm_bytes: u64,
    receive_hwm_bytes: u64,
    max_message_size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mandatory: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rid_duplicate_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_envelope: Option<bool>,
}

impl MessageSummary {
    fn of(messages: &MessageSettings) -> Self {
        let all = |endpoints: &[Endpoint]| endpoints.iter().map(ToString::to_string).collect();
        let id = messages.routing_id.as_ref();
        Self {
            bind: all(&messages.bind),
            connects: all(&messages.connect),
            routing_id: id.map(|id| sockets::routing_id(id.as_bytes())),
            weight: messages.weight.get(),
            request_timeout_ms: messages.request_timeout.get(),
            send_hwm_bytes: messages.send_hwm.get(),
            receive_hwm_bytes: messages.receive_hwm.get(),
            max_message_size: messages.max_message_size.get(),
            mandatory: None,
            rid_duplicate_policy: None,
            data_envelope: None,
        }
    }
}

#[derive(Serialize)]
struct MuxSummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection_capacity: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    per_worker_connections_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_retry_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_children: Option<u32>,
    child_buffer_limit: u64,
    /// 0 = off.
    parent_buffer_limit: u64,
    half_close: bool,
}

impl MuxSummary {
    fn of(mux: &MuxSettings) -> Self {
        Self {
            mode: None,
            connection_duration_ms: None,
            connection_capacity: None,
            per_worker_connections_count: None,
            parent_retry_ms: None,
            max_children: None,
            child_buffer_limit: mux.child_buffer_limit.get(),
            parent_buffer_limit: mux.parent_buffer_limit.map_or(0, ByteCount::get),
            half_close: mux.half_close,
        }
    }
}

/// The document of `/api/nodes`.
pub(super) fn document_of(context: &Context) -> Bytes {
    let plan: Arc<Plan> = (context.plan)();
    let not_ready = (context.ready)().err().unwrap_or_default();
    let lines = context.registry.snapshot();
    let mut open = open(&lines);
    for socket in context.registry.sockets().snapshot() {
        let (now, of) = (socket.now(), open.entry(Arc::clone(&socket.node)).or_default());
        of.connected.peers += now.peers();
        of.connected.peers_paused += now.status.flow.paused_connections;
        of.connected.requests_pending += now.requests_pending();
        of.connected.held += now.broker.map_or(0, |broker| broker.held_requests as u64);
        of.connected.queued += now.queued;
    }
    let service = Service {
        version: context.version,
        uptime_seconds: context.started.elapsed().as_millis() as f64 / 1000.0,
        ready: not_ready.is_empty(),
        reasons: not_ready
            .iter()
            .filter(|not| not.node.is_none())
            .map(|not| not.reason.as_str())
            .collect(),
        lines_open: lines.len(),
    };
    let chains = context.registry.sip().snapshot();
    let node = |node| self::node(node, &not_ready, &open, &chains);
    let nodes = plan.nodes.iter().map(node).collect();
    document(&Nodes { service, nodes })
}

fn open(lines: &[Arc<LineView>]) -> HashMap<Arc<str>, Open> {
    let mut open: HashMap<Arc<str>, Open> = HashMap::new();
    for line in lines {
        open.entry(Arc::clone(&line.node)).or_default().lines += 1;
        for (_, view) in line.mux().each() {
            let (of, now) =
                (&mut open.entry(Arc::clone(&view.node)).or_default().carried, view.now());
            of.parents_open += 1;
            of.parents_exhausted += usize::from(now.takes != Takes::Taking);
            of.children_open += u64::from(now.children);
            of.children_paused += u64::from(now.paused);
            of.queued += now.queued;
        }
    }
    open
}

fn node<'a>(
    node: &'a NodePlan,
    not_ready: &[NotReady],
    open: &HashMap<Arc<str>, Open>,
    chains: &[SipView],
) -> Node<'a> {
    let reasons: Vec<&str> = not_ready
        .iter()
        .filter(|not| not.node.as_ref() == Some(&node.name))
        .map(|not| not.reason.as_str())
        .collect();
    let open = open.get(&node.name);
    let is_mux = matches!(node.settings, NodeSettings::MuxClient(_) | NodeSettings::MuxServer(_));
    Node {
        name: &node.name,
        type_name: node.settings.type_name(),
        next: node.next.as_deref(),
        ready: reasons.is_empty(),
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        lines_open: open.map_or(0, |open| open.lines),
        mux: is_mux.then(|| open.map_or_else(Carried::default, |open| open.carried)),
        socket: node
            .settings
            .messages()
            .map(|_| open.map_or_else(Connected::default, |o| o.connected)),
        sip: sip(node, chains),
        settings: summary(&node.settings),
    }
}

fn sip(node: &NodePlan, chains: &[SipView]) -> Option<Counted> {
    match &node.settings {
        NodeSettings::SipListener(_) => {
            chains.iter().find(|chain| chain.listener == node.name).map(Counted::listener)
        }
        NodeSettings::SipRouter(_) => {
            chains.iter().find(|chain| chain.router == node.name).map(Counted::router)
        }
        _ => None,
    }
}

fn summary(settings: &NodeSettings) -> Summary {
    match settings {
        NodeSettings::TcpListener(listener) => {
            let ports = port_ranges(&listener.ports);
            let address = |port: String| match listener.address {
                std::net::IpAddr::V4(ip) => format!("{ip}:{port}"),
                std::net::IpAddr::V6(ip) => format!("[{ip}]:{port}"),
            };
            Summary { listen: ports.into_iter().map(address).collect(), ..Summary::default() }
        }
        NodeSettings::TcpConnector(connector) => {
            let targets = connector.targets.iter().map(|target| match &target.host {
                Host::Ip(ip) => SocketAddr::new(*ip, target.port.get()).to_string(),
                Host::Name(name) => format!("{name}:{}", target.port),
            });
            Summary { connect: targets.collect(), ..Summary::default() }
        }
        NodeSettings::TesterClient(tester) => {
            Summary { lines: Some(tester.lines), ..Summary::default() }
        }
        NodeSettings::ConnectionFisherClient(fisher) => {
            Summary { candidates: Some(fisher.simultaneous_tries), ..Summary::default() }
        }
        NodeSettings::ConnectionFisherServer(fisher) => Summary {
            server_first_delay_ms: Some(fisher.server_first_delay.get()),
            ..Summary::default()
        },
        NodeSettings::MuxClient(client) => {
            let mut mux = MuxSummary::of(&client.mux);
            mux.mode = Some(client.mode.name());
            mux.parent_retry_ms = Some(client.parent_retry.get());
            match client.mode {
                MuxMode::Timer { connection_duration } => {
                    mux.connection_duration_ms = Some(connection_duration.get());
                }
                MuxMode::Counter { connection_capacity } => {
                    mux.connection_capacity = Some(connection_capacity);
                }
                MuxMode::FixedConnectionsCount { per_worker } => {
                    mux.per_worker_connections_count = Some(per_worker);
                }
            }
            Summary { mux: Some(mux), ..Summary::default() }
        }
        NodeSettings::MuxServer(server) => {
            let mut mux = MuxSummary::of(&server.mux);
            mux.max_children = Some(server.max_children);
            Summary { mux: Some(mux), ..Summary::default() }
        }
        NodeSettings::DealerSocket(dealer) => {
            let messages = Some(MessageSummary::of(&dealer.common));
            Summary { messages, ..Summary::default() }
        }
        NodeSettings::RouterSocket(router) => {
            let mut messages = MessageSummary::of(&router.common);
            messages.mandatory = Some(router.mandatory);
            messages.rid_duplicate_policy = Some(match router.duplicates {
                DuplicatePolicy::Reject => "reject",
                DuplicatePolicy::Handover => "handover",
            });
            messages.data_envelope = Some(router.data_envelope);
            Summary { messages: Some(messages), ..Summary::default() }
        }
        NodeSettings::SipListener(sip) => {
            let listen = sip.listen.iter().map(ToString::to_string).collect();
            Summary { listen, ..Summary::default() }
        }
        NodeSettings::SipRouter(sip) => {
            Summary { sip: Some(SipSummary::of(sip)), ..Summary::default() }
        }
        NodeSettings::EchoServer | NodeSettings::TesterServer(_) => Summary::default(),
    }
}

/// Ports in their order, neighbours as `7000-7099`: a range may have all 65,535.
fn port_ranges(ports: &[Port]) -> Vec<String> {
    let mut ports: Vec<u16> = ports.iter().map(|port| port.get()).collect();
    ports.sort_unstable();
    let follows = |a: &u16, b: &u16| u32::from(*b) <= u32::from(*a) + 1;
    let range = |run: &[u16]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    };
    ports.chunk_by(follows).map(range).collect()
}

#[cfg(test)]
mod tests {
    use lineway_actors::wire::units::Port;

    use super::port_ranges;

    #[test]
    fn neighbouring_ports_are_shown_as_a_range() {
        let ports = |numbers: &[i64]| {
            let ports: Vec<_> = numbers.iter().map(|n| Port::new(*n).unwrap()).collect();
            port_ranges(&ports)
        };
        assert_eq!(ports(&[7000]), ["7000"]);
        assert_eq!(ports(&[9000, 7001, 7000, 7002, 65535]), ["7000-7002", "9000", "65535"]);
        assert_eq!(ports(&(1..=65535).collect::<Vec<_>>()), ["1-65535"]);
    }
}
