//! What `/api/sockets` looks like: the message sockets with their peers.

use std::fmt::Write as _;

use bytes::Bytes;
use lineway_actors::registry::{Registry, SocketSnapshot, SocketView};
use lineway_actors::wire::zmp::broker;
use lineway_actors::wire::zmp::core::FlowState;
use lineway_actors::wire::zmp::status::{
    Counters, Hwm, PeerStatus, RecordKind, Status, Traffic, Waiting,
};
use serde::Serialize;

use super::json::{Rfc3339, Shown, document};

/// Peers of each socket in an answer unless the query says otherwise.
const DEFAULT_LIMIT: usize = 100;
/// The most peers of each socket that an answer can have.
const MAX_LIMIT: usize = 10_000;

/// Which sockets are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SocketsQuery {
    /// At most so many peers of each.
    limit: usize,
    /// Only those of this node.
    node: Option<String>,
}

impl SocketsQuery {
    /// Reads the part of a URI after `?`.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(super) fn parse(query: &str) -> Result<Self, String> {
        let mut this = Self { limit: DEFAULT_LIMIT, node: None };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| *limit <= MAX_LIMIT);
                    let wrong = || format!("limit: expected a number from 0 to {MAX_LIMIT}");
                    this.limit = limit.ok_or_else(wrong)?;
                }
                "node" => this.node = Some(value.into_owned()),
                _ => return Err(format!("{}: expected limit or node", name.escape_debug())),
            }
        }
        Ok(this)
    }
}

#[derive(Serialize)]
struct Sockets<'a> {
    total: usize,
    sockets: Vec<Socket<'a>>,
}

#[derive(Serialize)]
struct Socket<'a> {
    id: u64,
    node: &'a str,
    #[serde(rename = "type")]
    type_name: &'static str,
    kind: &'static str,
    /// `open` or `closing`.
    state: &'static str,
    worker: u16,
    opened_at: Shown<Rfc3339>,
    age_seconds: f64,
    routing_id: String,
    weight: u32,
    /// Where it is bound, with the ports and paths that the system chose.
    bind: Vec<String>,
    connect: &'a [String],
    /// A peer is ready.
    ready: bool,
    /// What it asked of its peers; `null` while it never asked.
    flow: Option<Flow>,
    queued: Both<u64>,
    records: Both<Kinds>,
    bytes: Both<Kinds>,
    requests_pending: u64,
    wait_tokens: u64,
    replies_owed: usize,
    /// What joins it with a `DealerSocket`, or echoes; of a `RouterSocket`.
    answers: Option<Answering>,
    status: Snapshot,
    peers_total: usize,
    peers: Vec<Peer>,
}

#[derive(Serialize)]
struct Both<T> {
    out: T,
    #[serde(rename = "in")]
    inward: T,
}

#[derive(Serialize)]
struct Flow {
    state: &'static str,
    epoch: u64,
}

/// A number for each kind of record.
#[derive(Serialize)]
struct Kinds {
    data: u64,
    request: u64,
    reply: u64,
    error_reply: u64,
}

#[derive(Serialize)]
struct Answering {
    held_requests: usize,
    held_data: usize,
    in_flight: usize,
    waiting_answers: usize,
    /// All clients are asked to pause, as no worker takes a request.
    paused: bool,
    draining: bool,
}

/// The status of a socket in the contract's names.
#[derive(Serialize)]
struct Snapshot {
    state_flags: u32,
    detail: u32,
    flow_paused_connections: u64,
    flow_pause_applied_total: u64,
    flow_resume_applied_total: u64,
    flow_state_stale_total: u64,
    flow_pause_duration_ms: u64,
    snd: Side,
    rcv: Side,
    minimum_core_message_charge_bytes: u64,
}

#[derive(Serialize)]
struct Side {
    pending_msgs: u64,
    pending_bytes: u64,
    bytes_in_flight: u64,
    /// 0 = no limit.
    planned_hwm_bytes: u64,
    applied_hwm_bytes: u64,
    deferred_hwm_bytes: u64,
    oversize_total: u64,
}

#[derive(Serialize)]
struct Peer {
    routing_id: String,
    kind: &'static str,
    endpoint: String,
    remote: String,
    connection: Option<u64>,
    weight: u32,
    /// `ready`, `standby`, or `assembling` while a connection of it is missing.
    state: &'static str,
    paused: bool,
    queued: Both<u64>,
    records: Both<u64>,
}

/// The document of `/api/sockets`.
pub(super) fn document_of(registry: &Registry, query: &SocketsQuery) -> Bytes {
    let mut views = registry.sockets().snapshot();
    if let Some(node) = &query.node {
        views.retain(|view| *view.node == **node);
    }
    let sockets: Vec<_> = views.iter().map(|view| socket(view, query.limit)).collect();
    document(&Sockets { total: sockets.len(), sockets })
}

fn socket(view: &SocketView, limit: usize) -> Socket<'_> {
    let now: SocketSnapshot = view.snapshot();
    let counters = &now.counters;
    let mut peers = now.peers;
    let peers_total = peers.len();
    // Those that something is wrong with are of more interest than the others.
    peers.sort_by_key(|peer| (peer.ready && !peer.paused && !peer.standby, peer.connection));
    peers.truncate(limit);
    let kinds = |traffic: &Traffic, bytes: bool| {
        let of = if bytes { &traffic.bytes } else { &traffic.records };
        Kinds {
            data: of[RecordKind::Data],
            request: of[RecordKind::Request],
            reply: of[RecordKind::Reply],
            error_reply: of[RecordKind::ErrorReply],
        }
    };
    let both = |bytes| Both {
        out: kinds(&counters.sent, bytes),
        inward: kinds(&counters.received, bytes),
    };
    Socket {
        id: view.number,
        node: &view.node,
        type_name: view.type_name,
        kind: now.options.kind.name(),
        state: if view.is_closing() { "closing" } else { "open" },
        worker: view.worker,
        opened_at: Shown(Rfc3339(view.opened_at)),
        age_seconds: view.opened.elapsed().as_millis() as f64 / 1000.0,
        routing_id: routing_id(now.options.routing_id.as_bytes()),
        weight: now.options.weight.get(),
        bind: view.bound().iter().map(ToString::to_string).collect(),
        connect: &view.connect,
        ready: now.status.ready,
        flow: now.flow.map(|(state, epoch)| Flow { state: word(state), epoch: epoch.get() }),
        queued: queued(&now.status),
        records: both(false),
        bytes: both(true),
        requests_pending: requests_pending(counters),
        wait_tokens: counters.tokens_issued.saturating_sub(counters.tokens_finished),
        replies_owed: now.replies_owed,
        answers: now.answers.as_ref().map(answers),
        status: snapshot(&now.status),
        peers_total,
        peers: peers.into_iter().map(peer).collect(),
    }
}

/// A routing id as a configuration could have it: its text, or `hex:` and digits.
pub(crate) fn routing_id(id: &[u8]) -> String {
    const HEX: &str = "hex:";
    let plain = id.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    match std::str::from_utf8(id) {
        Ok(text) if plain && !text.starts_with(HEX) => text.to_owned(),
        _ => id.iter().fold(HEX.to_owned(), |mut hex, byte| {
            // Writing to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        }),
    }
}

const fn word(state: FlowState) -> &'static str {
    match state {
        FlowState::Running => "running",
        FlowState::Paused => "paused",
    }
}

fn requests_pending(counters: &Counters) -> u64 {
    let sent = counters.sent.records[RecordKind::Request];
    sent.saturating_sub(counters.completions.total())
}

fn queued(status: &Status) -> Both<u64> {
    let all = |waiting: &Waiting| waiting.pending_bytes + waiting.bytes_in_flight;
    Both { out: all(&status.send), inward: all(&status.receive) }
}

fn answers(status: &broker::Status) -> Answering {
    Answering {
        held_requests: status.held_requests,
        held_data: status.held_data,
        in_flight: status.in_flight,
        waiting_answers: status.waiting_answers,
        paused: status.paused,
        draining: status.draining,
    }
}

fn snapshot(status: &Status) -> Snapshot {
    let side = |waiting: &Waiting| {
        let Hwm { planned, applied, deferred } = waiting.hwm;
        Side {
            pending_msgs: waiting.pending_msgs,
            pending_bytes: waiting.pending_bytes,
            bytes_in_flight: waiting.bytes_in_flight,
            planned_hwm_bytes: planned,
            applied_hwm_bytes: applied,
            deferred_hwm_bytes: deferred,
            oversize_total: waiting.oversize_total,
        }
    };
    Snapshot {
        state_flags: status.state_flags(),
        detail: status.detail(),
        flow_paused_connections: status.flow.paused_connections,
        flow_pause_applied_total: status.flow.pause_applied_total,
        flow_resume_applied_total: status.flow.resume_applied_total,
        flow_state_stale_total: status.flow.stale_total,
        flow_pause_duration_ms: status.flow.pause_duration.as_millis() as u64,
        snd: side(&status.send),
        rcv: side(&status.receive),
        minimum_core_message_charge_bytes: Status::MINIMUM_CHARGE,
    }
}

fn peer(peer: PeerStatus) -> Peer {
    Peer {
        routing_id: routing_id(&peer.routing_id),
        kind: peer.kind.name(),
        endpoint: peer.endpoint.to_string(),
        remote: peer.remote.to_string(),
        connection: peer.connection.map(|connection| connection.0),
        weight: peer.weight.get(),
        state: match (peer.standby, peer.ready) {
            (true, _) => "standby",
            (false, true) => "ready",
            (false, false) => "assembling",
        },
        paused: peer.paused,
        queued: Both { out: peer.queued_out, inward: peer.queued_in },
        records: Both { out: peer.records_out, inward: peer.records_in },
    }
}

#[cfg(test)]
mod tests {
    use super::{SocketsQuery, routing_id};

    #[test]
    fn a_routing_id_is_shown_as_a_configuration_would_have_it() {
        for (id, shown) in [
            (&b"D1"[..], "D1"),
            (b"a b", "a b"),
            (b"", ""),
            (b"\x00\xff", "hex:00ff"),
            (b"hex:00", "hex:6865783a3030"),
            ("\u{202e}".as_bytes(), "hex:e280ae"),
        ] {
            assert_eq!(routing_id(id), shown);
        }
    }

    #[test]
    fn a_query_bounds_the_peers_and_names_a_node() {
        let query = SocketsQuery::parse("limit=5&node=a+b%0A").unwrap();
        assert_eq!((query.limit, query.node.as_deref()), (5, Some("a b\n")));
        assert_eq!(SocketsQuery::parse("").unwrap(), SocketsQuery { limit: 100, node: None });
        for (wrong, name) in
            [("limit=-1", "limit:"), ("limit=10001", "limit:"), ("peers=1", "peers:")]
        {
            let error = SocketsQuery::parse(wrong).unwrap_err();
            assert!(error.starts_with(name), "{wrong}: {error}");
        }
    }
}
