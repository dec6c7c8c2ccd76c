//! What the JSON of the admin interface looks like.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use jiff::Timestamp;
use lineway_actors::registry::{LineId, LineState, LineView, MuxSides, MuxView, Registry, Takes};
use lineway_actors::settings::{Host, MuxMode, MuxSettings, NodePlan, NodeSettings, Plan};
use lineway_actors::wire::line::Direction::{self, Downstream, Upstream};
use lineway_actors::wire::mux::ParentPause;
use lineway_actors::wire::units::{ByteCount, Port};
use serde::Serialize;

use super::query::LinesQuery;
use super::{Context, NotReady};

/// The document of a value that can always be written.
pub(super) fn document(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).map(Bytes::from).unwrap_or_default()
}

/// A text that only appears as JSON string.
struct Shown<T>(T);

impl<T: std::fmt::Display> Serialize for Shown<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
struct Both<T> {
    upstream: T,
    downstream: T,
}

impl<T> Both<T> {
    fn of(value: impl Fn(Direction) -> T) -> Self {
        Self { upstream: value(Upstream), downstream: value(Downstream) }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    id: Shown<LineId>,
    kind: &'static str,
    node: &'a str,
    maker: Option<Shown<LineId>>,
    /// The parent that carries it, for the child of a mux.
    parent: Option<Shown<LineId>>,
    peer: Option<SocketAddr>,
    opened_at: Shown<Rfc3339>,
    age_seconds: f64,
    state: &'static str,
    bytes: Both<u64>,
    queued: Both<u64>,
    paused: Both<Vec<&'static str>>,
    /// The sides of a mux that it is a parent of.
    mux: Vec<Side<'a>>,
}

/// One side of a mux on its parent.
#[derive(Serialize)]
struct Side<'a> {
    side: &'static str,
    node: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    state: &'static str,
    children: u32,
    children_paused: u32,
    /// Bytes that wait for its children.
    queued: u64,
    /// Why the parent is not read.
    reading_paused: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cids: Option<Cids>,
}

#[derive(Serialize)]
struct Cids {
    leased: u32,
    used: u32,
}

fn sides<'a>(line: &LineView, mux: &'a MuxSides) -> Vec<Side<'a>> {
    let side = |(direction, view): (Direction, &'a Arc<MuxView>)| {
        let (now, client) = (view.now(), direction == Downstream);
        Side {
            side: if client { "client" } else { "server" },
            node: &view.node,
            mode: view.mode,
            state: now.takes.as_str(),
            children: now.children,
            children_paused: now.paused,
            queued: now.queued,
            reading_paused: now.reading.map(ParentPause::as_str),
            cids: client.then(|| Cids { leased: line.cids_leased(), used: line.cids_used() }),
        }
    };
    mux.each().map(side).collect()
}

/// The word for where a line is in its life; a parent that takes no further child says so.
fn state(line: &LineView, mux: &MuxSides) -> &'static str {
    match (line.state(), mux.takes()) {
        (LineState::Open | LineState::Opening, Takes::Draining) => Takes::Draining.as_str(),
        (LineState::Open, Takes::Exhausted) => Takes::Exhausted.as_str(),
        (state, _) => state.as_str(),
    }
}

struct Rfc3339(SystemTime);

impl std::fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = Timestamp::try_from(self.0).unwrap_or(Timestamp::UNIX_EPOCH);
        write!(f, "{time:.3}")
    }
}

/// Appends one line to a document.
pub(super) fn write_line(to: &mut Vec<u8>, line: &LineView, now: Instant) {
    let age = now.saturating_duration_since(line.opened);
    let mux = line.mux();
    let line = Line {
        id: Shown(line.id),
        kind: line.kind.as_str(),
        node: &line.node,
        maker: line.maker.map(Shown),
        parent: line.parent().map(Shown),
        peer: line.peer,
        opened_at: Shown(Rfc3339(line.opened_at)),
        age_seconds: age.as_millis() as f64 / 1000.0,
        state: state(line, &mux),
        bytes: Both::of(|direction| line.bytes(direction)),
        queued: Both::of(|direction| line.queued(direction)),
        paused: Both::of(|direction| line.paused(direction).words().collect()),
        mux: sides(line, &mux),
    };
    // Writing into memory, of a value whose keys are all strings, does not fail.
    let _ = serde_json::to_writer(to, &line);
}

/// A part of the live lines.
pub(super) struct LinesPage {
    /// The lines that match, on every page.
    pub(super) total: usize,
    /// Where the next page begins, if there is one.
    pub(super) next: Option<LineId>,
    /// The lines of this page, ordered by id.
    pub(super) lines: Vec<Arc<LineView>>,
}

impl LinesPage {
    /// The page that a query asks for.
    pub(super) fn of(registry: &Registry, query: &LinesQuery) -> Self {
        let mut lines = registry.snapshot();
        if let Some(node) = &query.node {
            lines.retain(|line| *line.node == **node);
        }
        if let Some(parent) = query.parent {
            lines.retain(|line| line.id == parent || line.parent() == Some(parent));
        }
        let total = lines.len();
        if let Some(most) = query.children {
            thin_out(&mut lines, most);
        }
        if let Some(after) = query.after {
            let before = lines.partition_point(|line| line.id <= after);
            lines.drain(..before);
        }
        let more = lines.len() > query.limit;
        lines.truncate(query.limit);
        let last = lines.last().map(|line| line.id);
        Self { total, next: if more { last } else { None }, lines }
    }

    /// What stands before the first line.
    pub(super) fn head(&self) -> Vec<u8> {
        let next = self.next.map_or_else(|| "null".to_owned(), |id| format!("\"{id}\""));
        format!("{{\"total\":{},\"next\":{next},\"lines\":[", self.total).into_bytes()
    }
}

/// Keeps at most so many children of each node on each parent, the oldest ones.
fn thin_out(lines: &mut Vec<Arc<LineView>>, most: usize) {
    let mut seen: HashMap<(LineId, Arc<str>), usize> = HashMap::new();
    lines.retain(|line| {
        let Some(parent) = line.parent() else {
            return true;
        };
        let children = seen.entry((parent, Arc::clone(&line.node))).or_default();
        *children += 1;
        *children <= most
    });
}

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
    mux: Option<Parents>,
    settings: Summary,
}

/// What the live parents of a node carry.
#[derive(Clone, Copy, Default, Serialize)]
struct Parents {
    parents_open: usize,
    /// Those that take no further child.
    parents_exhausted: usize,
    children_open: u64,
    children_paused: u64,
    /// Bytes that wait for children.
    queued: u64,
}

/// What is counted of the live lines of each node.
#[derive(Default)]
struct Open {
    lines: usize,
    parents: Parents,
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
pub(super) fn nodes(context: &Context) -> Bytes {
    let plan: Arc<Plan> = (context.plan)();
    let not_ready = (context.ready)().err().unwrap_or_default();
    let lines = context.registry.snapshot();
    let open = open(&lines);
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
    let nodes = plan.nodes.iter().map(|node| self::node(node, &not_ready, &open)).collect();
    document(&Nodes { service, nodes })
}

fn open(lines: &[Arc<LineView>]) -> HashMap<Arc<str>, Open> {
    let mut open: HashMap<Arc<str>, Open> = HashMap::new();
    for line in lines {
        open.entry(Arc::clone(&line.node)).or_default().lines += 1;
        for (_, view) in line.mux().each() {
            let (of, now) =
                (&mut open.entry(Arc::clone(&view.node)).or_default().parents, view.now());
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
        mux: is_mux.then(|| open.map_or_else(Parents::default, |open| open.parents)),
        settings: summary(&node.settings),
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
    use std::time::{Duration, SystemTime};

    use lineway_actors::wire::units::Port;

    use super::{Rfc3339, port_ranges};

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(951_782_400_045);
        assert_eq!(Rfc3339(time).to_string(), "2000-02-29T00:00:00.045Z");
    }

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
