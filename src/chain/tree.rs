//! The chains as a tree for a person to read.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use lineway_actors::settings::{
    Host, NodePlan, NodeSettings, Plan, Target, TcpListenerSettings, TesterSettings,
};
use lineway_wire::units::Port;

use crate::config::visible;

/// How many ports or targets are written out.
const SHOWN: usize = 8;

/// The chains of a plan, one line for each node: name, type and main settings.
///
/// Nodes that enter one chain stand together above it; a chain that joins another one further down
/// ends with the word `above`.
pub fn tree(plan: &Plan) -> String {
    let width =
        plan.nodes.iter().map(|node| visible(&node.name).chars().count()).max().unwrap_or(0);
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

    let mut out = String::new();
    let mut shown = HashSet::new();
    for group in groups {
        out.push('\n');
        for start in &group {
            write_node(&mut out, "", start, width, "");
        }
        let mut next = group[0].next.as_deref();
        let mut depth = 0;
        while let Some(node) = next.and_then(|name| nodes.get(name)) {
            let indent = format!("{}└─ ", "   ".repeat(depth));
            if !shown.insert(&*node.name) {
                write_node(&mut out, &indent, node, width, " (above)");
                break;
            }
            write_node(&mut out, &indent, node, width, "");
            next = node.next.as_deref();
            depth += 1;
        }
    }
    out
}

fn write_node(out: &mut String, indent: &str, node: &NodePlan, width: usize, after: &str) {
    let room = (width + 3).saturating_sub(indent.chars().count());
    let kind = node.settings.type_name();
    let line =
        format!("{indent}{:<room$}  {kind:<12}  {}", visible(&node.name), describe(&node.settings));
    let _ = writeln!(out, "{}{after}", line.trim_end());
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
            format!("{} each worker, {}", counted(tester.lines, "line"), chunks(tester))
        }
        NodeSettings::TesterServer(tester) => chunks(tester),
        NodeSettings::ConnectionFisherClient(fisher) => {
            let tries = usize::try_from(fisher.simultaneous_tries).unwrap_or(usize::MAX);
            format!("{} each line", counted(tries, "candidate"))
        }
        NodeSettings::ConnectionFisherServer(fisher) => match fisher.server_first_delay.get() {
            0 => "never before payload".to_owned(),
            delay => format!("starts after {delay} ms without payload"),
        },
    }
}

fn chunks(tester: &TesterSettings) -> String {
    counted(tester.chunk_count, "chunk")
}

fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
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
