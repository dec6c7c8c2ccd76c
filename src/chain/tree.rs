//! The chains as a tree for a person to read.

use std::collections::{HashMap, HashSet};
use std::fmt::{Display, Write as _};
use std::net::{IpAddr, SocketAddr};

use lineway_actors::settings::{
    Host, MessageSettings, MuxMode, NodePlan, NodeSettings, Plan, SipAddress, Target,
    TcpListenerSettings, TesterSettings, built_in_script,
};
use lineway_wire::units::Port;
use lineway_wire::zmp::core::Weight;
use lineway_wire::zmp::endpoint::Endpoint;

use crate::config::visible;

/// How many ports or targets are written out.
const SHOWN: usize = 8;

/// The chains of a plan, one line for each node: name, type and main settings.
///
/// Nodes that enter one chain stand together above it; a chain that joins another one further down
/// ends with the word `above`.
pub fn tree(plan: &Plan) -> String {
    let nodes: HashMap<&str, &NodePlan> = plan.nodes.iter().map(|n| (&*n.name, n)).collect();
    let followers: HashSet<&str> = plan.nodes.iter().filter_map(|n| n.next.as_deref()).collect();
    let starts = plan.nodes.iter().filter(|node| !followers.contains(&*node.name));

    let mut groups: Vec<Vec<&NodePlan>> = Vec::new();
    for start in starts {
        match groups.iter_mut().find(|g| start.next.is_some() && g[0].next == start.next) {
            Some(group) => group.push(start),
            None => groups.push(vec![start]),
        }
    }

    let mut rows = Vec::new();
    let mut shown = HashSet::new();
    for group in groups {
        for (number, start) in group.iter().enumerate() {
            rows.push(Row { depth: None, first: number == 0, node: start, above: false });
        }
        let mut next = group[0].next.as_deref();
        let mut depth = 0;
        while let Some(node) = next.and_then(|name| nodes.get(name)) {
            let above = !shown.insert(&*node.name);
            rows.push(Row { depth: Some(depth), first: false, node, above });
            if above {
                break;
            }
            next = node.next.as_deref();
            depth += 1;
        }
    }
    write_rows(&rows)
}

/// A node in the tree.
struct Row<'a> {
    /// How far it stands from the node that enters the chain; `None` for that one.
    depth: Option<usize>,
    /// Begins a group of chains.
    first: bool,
    node: &'a NodePlan,
    /// Its chain goes on further up.
    above: bool,
}

impl Row<'_> {
    fn branch(&self) -> String {
        let indent = self.depth.map(|depth| format!("{}└─ ", "   ".repeat(depth)));
        format!("{}{}", indent.unwrap_or_default(), visible(&self.node.name))
    }
}

fn write_rows(rows: &[Row<'_>]) -> String {
    let branches: Vec<_> = rows.iter().map(Row::branch).collect();
    let branch_width = branches.iter().map(|branch| branch.chars().count()).max().unwrap_or(0);
    let kinds = rows.iter().map(|row| row.node.settings.type_name());
    let kind_width = kinds.map(str::len).max().unwrap_or(0);

    let mut out = String::new();
    for (row, branch) in rows.iter().zip(branches) {
        if row.first {
            out.push('\n');
        }
        let (kind, settings) = (row.node.settings.type_name(), describe(&row.node.settings));
        let line = format!("{branch:<branch_width$}  {kind:<kind_width$}  {settings}");
        let after = if row.above { " (above)" } else { "" };
        let _ = writeln!(out, "{}{after}", line.trim_end());
    }
    out
}

/// The main settings of a node in a few words: where it listens, where it connects.
pub fn describe(settings: &NodeSettings) -> String {
    match settings {
        NodeSettings::TcpListener(listener) => listens(listener),
        NodeSettings::TcpConnector(connector) => {
            listed(connector.targets.iter().map(target).collect())
        }
        NodeSettings::EchoServer => String::new(),
        NodeSettings::TesterClient(tester) => {
            format!("{} each worker, {}", counted(tester.lines, "line", "lines"), chunks(tester))
        }
        NodeSettings::TesterServer(tester) => chunks(tester),
        NodeSettings::ConnectionFisherClient(fisher) => {
            format!("{} each line", counted(fisher.simultaneous_tries, "candidate", "candidates"))
        }
        NodeSettings::ConnectionFisherServer(fisher) => match fisher.server_first_delay.get() {
            0 => "next starts with the first payload".to_owned(),
            delay => format!("next starts with the first payload, or after {delay} ms"),
        },
        NodeSettings::MuxClient(mux) => parents(mux.mode),
        NodeSettings::MuxServer(mux) => {
            format!("at most {} on each parent", counted(mux.max_children, "child", "children"))
        }
        NodeSettings::DealerSocket(dealer) => places(&dealer.common),
        NodeSettings::RouterSocket(router) => {
            let envelope = if router.data_envelope { "; data both ways" } else { "" };
            format!("{}{envelope}", places(&router.common))
        }
        NodeSettings::SipListener(sip) => listed(sip.listen.iter().map(sip_address).collect()),
        NodeSettings::SipRouter(sip) if sip.script == built_in_script() => {
            format!("built-in script, {}", sip.mode.as_str())
        }
        NodeSettings::SipRouter(sip) => format!("script {}", visible(&sip.script.name)),
    }
}

fn sip_address(listen: &SipAddress) -> String {
    match (listen.address.port(), listen.address.ip()) {
        (0, IpAddr::V4(ip)) => format!("{}:{ip}:(a free port)", listen.transport.word()),
        (0, IpAddr::V6(ip)) => format!("{}:[{ip}]:(a free port)", listen.transport.word()),
        _ => listen.to_string(),
    }
}

/// Where a message socket binds and connects, and its weight where that is not as usual.
fn places(messages: &MessageSettings) -> String {
    let all = |word: &str, endpoints: &[Endpoint]| {
        let words = endpoints.iter().map(|endpoint| match endpoint {
            Endpoint::Tcp { host, port: None } => format!("tcp://{host}:(a free port)"),
            Endpoint::Ipc(None) => "ipc://(a free path)".to_owned(),
            // A path may have anything in it.
            endpoint => visible(&endpoint.to_string()),
        });
        (!endpoints.is_empty()).then(|| format!("{word} {}", listed(words.collect())))
    };
    let weight = messages.weight;
    let weight = (weight != Weight::DEFAULT).then(|| format!("weight {}", weight.get()));
    let places = [all("bind", &messages.bind), all("connect", &messages.connect), weight];
    places.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// When a `MuxClient` opens another parent.
fn parents(mode: MuxMode) -> String {
    match mode {
        MuxMode::Timer { connection_duration } => {
            format!("timer: another parent after {} ms", connection_duration.get())
        }
        MuxMode::Counter { connection_capacity } => {
            let children = counted(connection_capacity, "child", "children");
            format!("counter: another parent after {children}")
        }
        MuxMode::FixedConnectionsCount { per_worker } => {
            let parents = counted(per_worker, "parent", "parents");
            format!("{}: {parents} each worker", mode.name())
        }
    }
}

fn chunks(tester: &TesterSettings) -> String {
    counted(tester.chunk_count, "chunk", "chunks")
}

fn counted<N: Display + PartialEq + From<u8>>(count: N, one: &str, more: &str) -> String {
    let things = if count == N::from(1) { one } else { more };
    format!("{count} {things}")
}

fn listens(listener: &TcpListenerSettings) -> String {
    let mut ports: Vec<Port> = listener.ports.clone();
    ports.sort_unstable();
    let mut runs: Vec<(Port, Port)> = Vec::new();
    for port in ports {
        match runs.last_mut() {
            Some((_, last)) if u32::from(last.get()) + 1 == u32::from(port.get()) => *last = port,
            _ => runs.push((port, port)),
        }
    }
    let run = |&(first, last): &(Port, Port)| match (first, last) {
        (Port::ANY, Port::ANY) => "(a free port)".to_owned(),
        _ if first == last => first.to_string(),
        _ => format!("{first}-{last}"),
    };
    let ports = listed(runs.iter().map(run).collect());
    match listener.address {
        IpAddr::V4(address) => format!("{address}:{ports}"),
        IpAddr::V6(address) => format!("[{address}]:{ports}"),
    }
}

fn target(target: &Target) -> String {
    let place = match &target.host {
        Host::Ip(ip) => SocketAddr::new(*ip, target.port.get()).to_string(),
        Host::Name(name) => format!("{name}:{}", target.port),
    };
    if target.weight == 1 { place } else { format!("{place} (weight {})", target.weight) }
}

fn listed(mut words: Vec<String>) -> String {
    if words.len() > SHOWN {
        let more = words.len() - SHOWN;
        words.truncate(SHOWN);
        words.push(format!("{more} more"));
    }
    words.join(", ")
}
