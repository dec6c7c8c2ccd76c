//! What the JSON of the admin interface looks like.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use jiff::Timestamp;
use lineway_actors::registry::{LineId, LineState, LineView, Registry};
use lineway_actors::settings::{Host, NodePlan, NodeSettings, Plan};
use lineway_actors::wire::line::Direction::{self, Downstream, Upstream};
use lineway_actors::wire::units::Port;
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
    peer: Option<SocketAddr>,
    opened_at: Shown<Rfc3339>,
    age_seconds: f64,
    state: &'static str,
    bytes: Both<u64>,
    queued: Both<u64>,
    paused: Both<Vec<&'static str>>,
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
    let line = Line {
        id: Shown(line.id),
        kind: line.kind.as_str(),
        node: &line.node,
        maker: line.maker.map(Shown),
        peer: line.peer,
        opened_at: Shown(Rfc3339(line.opened_at)),
        age_seconds: age.as_millis() as f64 / 1000.0,
        state: LineState::as_str(line.state()),
        bytes: Both::of(|direction| line.bytes(direction)),
        queued: Both::of(|direction| line.queued(direction)),
        paused: Both::of(|direction| line.paused(direction).words().collect()),
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
        let total = lines.len();
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
    settings: Summary,
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
}

/// The document of `/api/nodes`.
pub(super) fn nodes(context: &Context) -> Bytes {
    let plan: Arc<Plan> = (context.plan)();
    let not_ready = (context.ready)().err().unwrap_or_default();
    let lines = context.registry.snapshot();
    let mut open: HashMap<&str, usize> = HashMap::new();
    for line in &lines {
        *open.entry(&line.node).or_default() += 1;
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
    let nodes = plan.nodes.iter().map(|node| self::node(node, &not_ready, &open)).collect();
    document(&Nodes { service, nodes })
}

fn node<'a>(node: &'a NodePlan, not_ready: &[NotReady], open: &HashMap<&str, usize>) -> Node<'a> {
    let reasons: Vec<&str> = not_ready
        .iter()
        .filter(|not| not.node.as_ref() == Some(&node.name))
        .map(|not| not.reason.as_str())
        .collect();
    Node {
        name: &node.name,
        type_name: node.settings.type_name(),
        next: node.next.as_deref(),
        ready: reasons.is_empty(),
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
        lines_open: open.get(&*node.name).copied().unwrap_or_default(),
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
        NodeSettings::EchoServer
        | NodeSettings::TesterServer(_)
        | NodeSettings::MuxClient(_)
        | NodeSettings::MuxServer(_) => Summary::default(),
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
