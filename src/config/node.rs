//! `[[node]]`: the nodes with their types and settings, and how they are linked.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use lineway_actors::settings::{NodePlan, NodeSettings};
use toml::de::DeTable;

use super::problem::{Problem, visible};
use super::reader::{Place, Reading, Table, did_you_mean, shortened};
use super::{AdminSettings, LoadOptions, listen};
use crate::chain::{self, Bytes, Fault, Layer, Link, Next, Shape};
use crate::suggest::nearest;

mod fisher;
mod mux;
mod sip;
mod socket;
mod tcp;
mod tester;

pub(super) use sip::LISTEN;
pub(super) use socket::{BIND, is_chosen};
pub(super) use tcp::{PORT, PORT_RANGE};

/// The array of nodes.
pub(super) const NODE: &str = "node";
const NAME: &str = "name";
const TYPE: &str = "type";
const NEXT: &str = "next";
pub(super) const SETTINGS: &str = "settings";

const LONGEST_NAME: usize = 64;

/// A node type: its place in a chain and the reader of its settings.
struct NodeType {
    shape: &'static Shape,
    /// Gives `None` only when it noted a problem. Asks for every setting, whatever it finds.
    read: for<'a> fn(&mut Table<'a>) -> Option<NodeSettings>,
}

/// Every node type.
const TYPES: [NodeType; 13] = [
    NodeType { shape: &chain::TCP_LISTENER, read: tcp::listener },
    NodeType { shape: &chain::TCP_CONNECTOR, read: tcp::connector },
    NodeType { shape: &chain::ECHO_SERVER, read: |_| Some(NodeSettings::EchoServer) },
    NodeType { shape: &chain::TESTER_CLIENT, read: tester::client },
    NodeType { shape: &chain::TESTER_SERVER, read: |table| Some(tester::server(table)) },
    NodeType { shape: &chain::FISHER_CLIENT, read: |table| Some(fisher::client(table)) },
    NodeType { shape: &chain::FISHER_SERVER, read: |table| Some(fisher::server(table)) },
    NodeType { shape: &chain::MUX_CLIENT, read: mux::client },
    NodeType { shape: &chain::MUX_SERVER, read: |table| Some(mux::server(table)) },
    NodeType { shape: &chain::DEALER_SOCKET, read: socket::dealer },
    NodeType { shape: &chain::ROUTER_SOCKET, read: socket::router },
    NodeType { shape: &chain::SIP_LISTENER, read: sip::listener },
    NodeType { shape: &chain::SIP_ROUTER, read: sip::router },
];

impl NodeType {
    /// The names of its settings: those that its reader asks for.
    fn setting_names(&self) -> Vec<&'static str> {
        let options = LoadOptions::default();
        let reading = Reading::new("", &options);
        let mut table = Table::left_out(0..0, Place::default(), &reading);
        let _ = (self.read)(&mut table);
        table.asked().to_vec()
    }
}

/// Every node type with its setting names.
#[cfg(test)]
pub(super) fn setting_names() -> Vec<(&'static str, Vec<&'static str>)> {
    TYPES.iter().map(|kind| (kind.shape.name, kind.setting_names())).collect()
}

/// A node while it is read.
pub(super) struct Draft<'a> {
    place: Place,
    span: Range<usize>,
    name: Option<(&'a str, Range<usize>)>,
    kind: Option<&'static NodeType>,
    next: Next<'a>,
    next_span: Range<usize>,
    pub(super) settings: Option<NodeSettings>,
    /// The setting that gives its ports, for a listener, and where it stands.
    ports: Option<(&'static str, Range<usize>)>,
    /// Where the endpoints stand that a message socket binds, or the addresses of a SIP listener.
    binds: Vec<Range<usize>>,
    /// Where `data-envelope` stands.
    envelope: Option<Range<usize>>,
}

impl<'a> Draft<'a> {
    fn link(&self) -> Link<'a> {
        Link {
            name: self.name.as_ref().map(|(name, _)| *name),
            shape: self.kind.map(|kind| kind.shape),
            next: self.next,
        }
    }

    /// The setting that gives a listener's ports, and where it stands.
    pub(super) fn ports(&self) -> (String, Range<usize>) {
        let (name, span) = self.ports.clone().unwrap_or((PORT, self.span.clone()));
        (format!("{SETTINGS}.{name}"), span)
    }

    /// The place of an element of [`BIND`] or [`LISTEN`], and where it stands.
    pub(super) fn bind(&self, setting: &str, index: usize) -> (String, Range<usize>) {
        let span = self.binds.get(index).unwrap_or(&self.span).clone();
        (format!("{SETTINGS}.{setting}[{index}]"), span)
    }

    pub(super) fn title(&self) -> &str {
        self.place.node.as_deref().unwrap_or_default()
    }

    pub(super) fn problem(&self, key: &str, span: &Range<usize>, what: String) -> Problem {
        let place = Place { node: self.place.node.clone(), path: key.to_owned() };
        place.problem(span.clone(), what)
    }
}

/// How messages call a node: by its name, else by its number in the file.
pub(super) fn title(table: &DeTable<'_>, index: usize) -> String {
    match table.get(NAME).and_then(|name| name.get_ref().as_str()) {
        Some(name) if !name.is_empty() => {
            format!("node \"{}\"", visible(&shortened(name)))
        }
        _ => format!("node number {}", index + 1),
    }
}

/// Reads every node and checks how they are linked. `None` only when a problem was noted.
pub(super) fn nodes(root: &mut Table<'_>, admin: &AdminSettings) -> Option<Vec<NodePlan>> {
    const EXPECTED: &str = "at least one [[node]]";
    let value = root.required(NODE, EXPECTED)?;
    if value.as_table().is_some() {
        let help = "write [[node]] with two brackets on each side".to_owned();
        value.wrong_but(EXPECTED, Some(help));
        return None;
    }
    let elements = value.elements(EXPECTED)?;
    if elements.is_empty() {
        value.wrong(EXPECTED);
    }
    let mut drafts = Vec::with_capacity(elements.len());
    for (index, mut element) in elements.into_iter().enumerate() {
        if let Some(table) = element.as_table() {
            element.place = Place { node: Some(title(table, index)), path: String::new() };
        }
        if let Some(table) = element.table("a table with name, type, next and settings") {
            drafts.push(draft(table));
        }
    }
    let reading = root.reading;
    note_double_names(&drafts, reading);
    note_faults(&drafts, reading);
    note_envelopes(&drafts, reading);
    listen::note_clashes(&drafts, admin, reading);
    drafts.into_iter().map(plan).collect()
}

fn plan(draft: Draft<'_>) -> Option<NodePlan> {
    let next = match draft.next {
        Next::To(name) => Some(Arc::from(name)),
        Next::Nobody => None,
        Next::Unreadable => return None,
    };
    Some(NodePlan { name: Arc::from(draft.name?.0), settings: draft.settings?, next })
}

fn draft(mut table: Table<'_>) -> Draft<'_> {
    const NAME_EXPECTED: &str = "string of 1 to 64 characters";
    const NEXT_EXPECTED: &str = "string, the name of the node that follows";
    let known = TYPES.map(|kind| kind.shape.name);
    let known_types = known.join(", ");

    let name = table.required(NAME, NAME_EXPECTED).and_then(|value| {
        let right = |text: &&str| (1..=LONGEST_NAME).contains(&text.chars().count());
        let name = value.text().filter(right);
        if name.is_none() {
            value.wrong(NAME_EXPECTED);
        }
        name.map(|name| (name, value.span.clone()))
    });

    let kind = table.required(TYPE, &format!("one of {known_types}")).and_then(|value| {
        let Some(written) = value.text() else {
            value.wrong(&format!("string, one of {known_types}"));
            return None;
        };
        let kind = TYPES.iter().find(|kind| kind.shape.name == written);
        if kind.is_none() {
            let near = nearest(written, known).map(did_you_mean);
            let mut problem = value.problem(format!("found {}, unknown node type", value.found()));
            let known = format!("known types: {known_types}");
            problem.label = Some(near.clone().unwrap_or_else(|| "unknown node type".to_owned()));
            problem.help = Some(near.map_or(known.clone(), |near| format!("{near} {known}")));
            value.note(problem);
        }
        kind
    });

    let next = table.get(NEXT);
    let next_span = next.as_ref().map_or(table.span.clone(), |value| value.span.clone());
    let next = match next {
        None => Next::Nobody,
        Some(value) => value.text().map_or_else(
            || {
                value.wrong(NEXT_EXPECTED);
                Next::Unreadable
            },
            Next::To,
        ),
    };

    let value = table.get(SETTINGS);
    let mut ports = None;
    let (mut binds, mut envelope) = (Vec::new(), None);
    let settings = kind.and_then(|kind| {
        let mut settings = if let Some(value) = &value {
            value.table("table of settings")?
        } else {
            let place = Place { node: table.place.node.clone(), path: SETTINGS.to_owned() };
            Table::left_out(table.span.clone(), place, table.reading)
        };
        let read = (kind.read)(&mut settings);
        settings.finish(&a(kind.shape.name), |name| elsewhere(kind, name));
        ports = settings.written([PORT, PORT_RANGE]);
        let bind = if *kind.shape == chain::SIP_LISTENER { LISTEN } else { BIND };
        binds = settings.element_spans(bind);
        envelope = settings.span_of(socket::DATA_ENVELOPE);
        read
    });

    table.finish("a node", |name| {
        let settings = kind.map(NodeType::setting_names).unwrap_or_default();
        settings.contains(&name).then(|| format!("it belongs into {SETTINGS}"))
    });
    Draft {
        place: table.place.clone(),
        span: table.span.clone(),
        name,
        kind,
        next,
        next_span,
        settings,
        ports,
        binds,
        envelope,
    }
}

/// Where an unknown setting of a node type belongs.
fn elsewhere(kind: &NodeType, name: &str) -> Option<String> {
    if [NAME, TYPE, NEXT].contains(&name) {
        return Some(format!("it belongs to the node itself, outside of {SETTINGS}"));
    }
    let has = |other: &&NodeType| other.setting_names().contains(&name);
    let owners: Vec<_> = TYPES.iter().filter(has).map(|other| other.shape.name).collect();
    if owners.is_empty() {
        return None;
    }
    let near = nearest(name, kind.setting_names()).map(did_you_mean);
    let owners = format!("it belongs to {}", owners.join(", "));
    Some(near.map_or(owners.clone(), |near| format!("{owners}; {near}")))
}

/// A name with its article.
fn a(name: &str) -> String {
    let article = if name.starts_with(['A', 'E', 'I', 'O', 'U']) { "an" } else { "a" };
    format!("{article} {name}")
}

fn note_double_names(drafts: &[Draft<'_>], reading: &Reading<'_>) {
    let mut first: HashMap<&str, &Range<usize>> = HashMap::new();
    for draft in drafts {
        let Some((name, span)) = &draft.name else {
            continue;
        };
        if let Some(first) = first.get(name) {
            let mut problem = draft.problem(NAME, span, "another node has this name".to_owned());
            problem.label = Some("second".to_owned());
            problem.also = Some(((*first).clone(), "first"));
            problem.help = Some("names are unique".to_owned());
            reading.note(problem);
        } else {
            first.insert(name, span);
        }
    }
}

fn note_faults(drafts: &[Draft<'_>], reading: &Reading<'_>) {
    let links: Vec<_> = drafts.iter().map(Draft::link).collect();
    for fault in chain::check(&links) {
        reading.note(fault_problem(drafts, &fault));
    }
}

/// Notes each `data-envelope` without a DealerSocket behind it: there is nobody who would get one.
fn note_envelopes(drafts: &[Draft<'_>], reading: &Reading<'_>) {
    for draft in drafts {
        let (Some(NodeSettings::RouterSocket(settings)), Next::To(next)) =
            (&draft.settings, draft.next)
        else {
            continue;
        };
        let is_next = |other: &&Draft<'_>| other.name.as_ref().is_some_and(|(n, _)| *n == next);
        let next = drafts.iter().find(is_next).and_then(|next| next.kind);
        let Some(span) = draft.envelope.as_ref().filter(|_| settings.data_envelope) else {
            continue;
        };
        if let Some(next) = next.filter(|next| *next.shape == chain::ECHO_SERVER) {
            let what = format!("found true, but {} follows", a(next.shape.name));
            let key = format!("{SETTINGS}.{}", socket::DATA_ENVELOPE);
            let mut problem = draft.problem(&key, span, what);
            problem.label = Some("only with a DealerSocket behind it".to_owned());
            problem.help.clone_from(&problem.label);
            reading.note(problem);
        }
    }
}

fn fault_problem(drafts: &[Draft<'_>], fault: &Fault) -> Problem {
    let name = |node: usize| drafts[node].name.as_ref().map_or("", |(name, _)| name);
    let kind = |node: usize| a(drafts[node].kind.map_or("node", |kind| kind.shape.name));
    let written = |node: usize| match drafts[node].next {
        Next::To(next) => format!("found string {}", shortened(&format!("{next:?}"))),
        _ => "missing".to_owned(),
    };
    let at_next = |node: usize, what: String| {
        let draft = &drafts[node];
        draft.problem(NEXT, &draft.next_span, what)
    };
    let mut problem = match *fault {
        Fault::MissingNext { node } => {
            let mut problem = at_next(node, "missing, expected the name of a node".to_owned());
            problem.help = Some(format!("{} needs a node that follows it", kind(node)));
            problem.label = Some(format!("`{NEXT}` is missing"));
            problem
        }
        Fault::UnknownNext { node, near } => {
            let names: Vec<_> = drafts
                .iter()
                .filter_map(|draft| draft.name.as_ref().map(|(name, _)| *name))
                .filter(|other| *other != name(node))
                .take(20)
                .collect();
            let what = format!("{}, expected the name of a node", written(node));
            let mut problem = at_next(node, what);
            problem.help = near
                .map(|near| did_you_mean(name(near)))
                .or_else(|| (!names.is_empty()).then(|| format!("known: {}", names.join(", "))));
            problem.label = Some("no node has this name".to_owned());
            problem
        }
        Fault::Loop { node, ref nodes } => {
            let round: Vec<_> = nodes.iter().chain(&nodes[..1]).map(|&node| name(node)).collect();
            let round = shortened(&round.join(" -> "));
            let what = format!("{}, which makes the chain a loop: {round}", written(node));
            let mut problem = at_next(node, what);
            let end = drafts[node].kind.is_some_and(|kind| kind.shape.gives.is_none());
            problem.help = Some(if end {
                format!("{} ends a chain: take `{NEXT}` out", kind(node))
            } else {
                "a chain has an end".to_owned()
            });
            problem.label = Some("a loop".to_owned());
            problem
        }
        Fault::NextOfEnd { node } => {
            let what = format!("{}, but {} ends a chain", written(node), kind(node));
            let mut problem = at_next(node, what);
            problem.help = Some(format!("nothing can follow it: take `{NEXT}` out"));
            problem.label = Some("nothing can follow".to_owned());
            problem
        }
        Fault::NextIsStart { node, next } => {
            let what = format!("{}, but {} starts a chain", written(node), kind(next));
            let mut problem = at_next(node, what);
            problem.help = Some("nothing can come before it".to_owned());
            problem.label = problem.help.clone();
            problem
        }
        Fault::Misfit { node, next } => {
            let gives = drafts[node].kind.and_then(|kind| kind.shape.gives);
            let takes = drafts[next].kind.map_or(&[][..], |kind| kind.shape.takes);
            let takes: Vec<_> = takes.iter().map(|traffic| traffic.as_str()).collect();
            let what = format!(
                "{}, {}, which takes {}; {} gives {}",
                written(node),
                kind(next),
                takes.join(" or "),
                kind(node),
                gives.map_or("", chain::Traffic::as_str),
            );
            let mut problem = at_next(node, what);
            let takers = TYPES.iter().map(|kind| kind.shape);
            let takers = takers.filter(|shape| gives.is_some_and(|g| shape.takes.contains(&g)));
            let takers: Vec<_> = takers.map(|shape| shape.name).collect();
            problem.help = Some(format!("what can follow: {}", takers.join(", ")));
            problem
        }
        Fault::SecondBefore { node, next, first } => {
            let owner = shortened(&format!("{:?}", name(first)));
            let what = format!("{}, {}, which works for {owner}", written(node), kind(next));
            let mut problem = at_next(node, what);
            problem.also = Some((drafts[first].next_span.clone(), "first"));
            let more = match drafts[next].kind.map(|kind| kind.shape.takes) {
                Some([chain::Traffic::Sip]) => "listen on more addresses",
                _ => "bind more endpoints",
            };
            problem.help = Some(format!("it works for one node: let {owner} {more} instead"));
            problem
        }
        Fault::WrongBytes { node, next, from } => {
            let shape = drafts[from].kind.map(|kind| kind.shape);
            let sender = shape.map_or("node", |shape| shape.name);
            let sender = format!("the {sender} {}", shortened(&format!("{:?}", name(from))));
            let (trouble, help) = match shape.map(|shape| shape.bytes) {
                Some(Bytes::Adds(Layer::Frames)) => (
                    format!("which can not read the frames of {sender}"),
                    "a MuxServer reads them, a TcpConnector carries them to one",
                ),
                Some(Bytes::Adds(Layer::Probe)) => (
                    format!("which can not read the probe of {sender}"),
                    "put a ConnectionFisherServer between",
                ),
                _ => (
                    format!("which needs the frames of a MuxClient; {sender} sends none"),
                    "put a MuxClient between",
                ),
            };
            let what = format!("{}, {}, {trouble}", written(node), kind(next));
            let mut problem = at_next(node, what);
            problem.label = Some(help.to_owned());
            problem.help = problem.label.clone();
            problem
        }
        Fault::Unreached { node } => {
            let draft = &drafts[node];
            let span = draft.name.as_ref().map_or(&draft.span, |(_, span)| span);
            let mut problem = draft.problem("", span, "no chain leads to it".to_owned());
            problem.setting = None;
            let next = shortened(&format!("{:?}", name(node)));
            let before = match draft.kind.map(|kind| kind.shape.takes) {
                Some([chain::Traffic::Messages]) => "the RouterSocket before it",
                Some([chain::Traffic::Sip]) => "the SipListener before it",
                _ => "the node before it",
            };
            problem.help = Some(format!("write {NEXT} = {next} in {before}, or take it out"));
            problem.label = Some("no node has this as its `next`".to_owned());
            problem
        }
    };
    problem.absence = true;
    problem
}
