//! The metrics of the message sockets, read from each socket at a scrape.
//!
//! A socket counts behind its own lock and knows nothing of a registry. At each scrape what it
//! counted since the last one is added here, so that a node's counters go on growing when a reload
//! or a panic has put another socket in its place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};

use lineway_wire::line::Direction;
use lineway_wire::zmp::broker::{self, DropReason};
use lineway_wire::zmp::outcome::RequestResult;
use lineway_wire::zmp::status::{Counters, Drop, Label, RecordKind, Status};
use lineway_wire::zmp::{Charge, SocketKind};
use prometheus::{
    Gauge, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

use super::labels::HandshakeFailure;
use super::node::NodeMetrics;
use super::{node_counter, node_gauge, register};
use crate::socket::Total;

/// A socket at one moment, as the metrics want it.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketNow {
    /// What it has counted.
    pub counters: Counters,
    /// How it stands.
    pub status: Status,
    /// What waits in it, both ways (4.2).
    pub queued: Charge,
    /// The weights of its ready peers, added up.
    pub weights: u64,
    /// Connections that never became ready, by why.
    pub handshakes: [u64; HandshakeFailure::ALL.len()],
    /// What answers it, for a `RouterSocket` with a `DealerSocket` behind it.
    pub broker: Option<broker::Status>,
}

impl SocketNow {
    /// Peers that are ready.
    pub fn peers(&self) -> u64 {
        self.counters.peers_opened.saturating_sub(self.counters.peers_closed.total())
    }

    fn tokens(&self) -> u64 {
        self.counters.tokens_issued.saturating_sub(self.counters.tokens_finished)
    }

    /// Requests that are not answered yet.
    pub fn requests_pending(&self) -> u64 {
        let sent = self.counters.sent.records[RecordKind::Request];
        sent.saturating_sub(self.counters.completions.total())
    }

    fn broker(&self) -> broker::Status {
        self.broker.unwrap_or_default()
    }
}

/// What a series shows of a socket.
type Read = Box<dyn Fn(&SocketNow) -> u64 + Send + Sync>;

fn read(read: impl Fn(&SocketNow) -> u64 + Send + Sync + 'static) -> Read {
    Box::new(read)
}

/// The metrics of one node, as handles.
pub(super) struct SocketMetrics {
    counters: Vec<(IntCounter, Read)>,
    gauges: Vec<(IntGauge, Read)>,
    last_pause: Gauge,
    sources: Mutex<Vec<Source>>,
    numbers: AtomicU64,
}

/// A socket that is read.
struct Source {
    number: u64,
    now: Box<dyn Fn() -> SocketNow + Send + Sync>,
    /// What its counters were when they were read last, in the order of the series.
    seen: Vec<u64>,
}

impl std::fmt::Debug for SocketMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketMetrics")
            .field("counters", &self.counters.len())
            .finish_non_exhaustive()
    }
}

/// A socket is read for the metrics of its node as long as this lives; what it counted last is read
/// when this is dropped.
#[must_use = "a socket that nobody holds is not read"]
pub struct Watched {
    node: Arc<NodeMetrics>,
    number: u64,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("node", self.node.name()).finish_non_exhaustive()
    }
}

impl std::ops::Drop for Watched {
    fn drop(&mut self) {
        if let Some(socket) = &self.node.socket {
            socket.refresh();
            socket.sources().retain(|source| source.number != self.number);
            socket.refresh();
        }
    }
}

impl NodeMetrics {
    /// Reads a socket of this node from here on; `now` is called at each scrape. Nothing is read
    /// for a node that is no message socket.
    pub fn watch_socket(
        self: &Arc<Self>,
        now: impl Fn() -> SocketNow + Send + Sync + 'static,
    ) -> Watched {
        let mut number = 0;
        if let Some(socket) = &self.socket {
            number = socket.numbers.fetch_add(1, Relaxed);
            let seen = vec![0; socket.counters.len()];
            socket.sources().push(Source { number, now: Box::new(now), seen });
        }
        Watched { node: Arc::clone(self), number }
    }

    /// True for a message socket.
    pub(super) const fn is_socket(&self) -> bool {
        self.socket.is_some()
    }

    /// Reads the sockets of this node.
    pub(super) fn refresh_sockets(&self) {
        if let Some(socket) = &self.socket {
            socket.refresh();
        }
    }
}

impl SocketMetrics {
    fn sources(&self) -> MutexGuard<'_, Vec<Source>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refresh(&self) {
        let mut sources = self.sources();
        let mut gauges = vec![0; self.gauges.len()];
        for source in sources.iter_mut() {
            let now = (source.now)();
            for ((counter, read), seen) in self.counters.iter().zip(&mut source.seen) {
                let count = read(&now);
                counter.inc_by(count.saturating_sub(*seen));
                *seen = count.max(*seen);
            }
            for ((_, read), sum) in self.gauges.iter().zip(&mut gauges) {
                *sum += read(&now);
            }
            self.last_pause.set(now.status.flow.pause_duration.as_secs_f64());
        }
        // Under the lock, so that two scrapes at once do not leave the older numbers.
        for ((gauge, _), sum) in self.gauges.iter().zip(gauges) {
            gauge.set(sum.cast_signed());
        }
    }
}

/// Where a record of a kind goes by way of this type of node: `None` when there is none of it.
fn direction(socket: SocketKind, kind: RecordKind, sent: bool) -> Option<Direction> {
    // A RouterSocket has its clients before it, a DealerSocket its workers behind it.
    let asks = sent == (socket == SocketKind::Dealer);
    match kind {
        RecordKind::Data if asks => Some(Direction::Upstream),
        RecordKind::Data => Some(Direction::Downstream),
        RecordKind::Request => asks.then_some(Direction::Upstream),
        RecordKind::Reply | RecordKind::ErrorReply => (!asks).then_some(Direction::Downstream),
    }
}

/// What all message sockets share; shown once there is a node of them.
pub(super) struct TotalMetrics {
    limit: IntGauge,
    used: IntGauge,
    waiting: IntGauge,
    total: OnceLock<Arc<Total>>,
    shown: Once,
}

impl TotalMetrics {
    pub(super) fn new() -> Self {
        let gauge = |name, help| IntGauge::new(name, help).expect("a right name");
        Self {
            limit: gauge(
                "lineway_socket_queue_limit_bytes",
                "What all message sockets together may hold; 0 = no limit.",
            ),
            used: gauge("lineway_socket_queue_bytes", "What all message sockets together hold."),
            waiting: gauge(
                "lineway_socket_reads_stopped",
                "Connections that are not read, as all message sockets together hold too much.",
            ),
            total: OnceLock::new(),
            shown: Once::new(),
        }
    }

    pub(super) fn show(&self, registry: &Registry) {
        self.shown.call_once(|| {
            for gauge in [&self.limit, &self.used, &self.waiting] {
                register(registry, Ok(gauge.clone()));
            }
        });
    }

    /// Shows this from here on; the first one stays.
    pub(super) fn watch(&self, total: Arc<Total>) {
        let _ = self.total.set(total);
    }

    pub(super) fn refresh(&self) {
        if let Some(total) = self.total.get() {
            self.limit.set(total.limit().unwrap_or(0).cast_signed());
            self.used.set(total.used().cast_signed());
            self.waiting.set((total.waiting() as u64).cast_signed());
        }
    }
}

/// The families of message sockets.
pub(super) struct SocketFamilies {
    peers: IntGaugeVec,
    opened: IntCounterVec,
    closed: IntCounterVec,
    rejected: IntCounterVec,
    handshakes: IntCounterVec,
    weights: IntGaugeVec,
    paused: IntGaugeVec,
    pauses: IntCounterVec,
    resumes: IntCounterVec,
    last_pause: GaugeVec,
    stale: IntCounterVec,
    malformed: IntCounterVec,
    epochs: IntCounterVec,
    records: IntCounterVec,
    payload: IntCounterVec,
    backpressured: IntCounterVec,
    tokens: IntGaugeVec,
    tokens_issued: IntCounterVec,
    tokens_finished: IntCounterVec,
    requests: IntGaugeVec,
    completions: IntCounterVec,
    dropped: IntCounterVec,
    oversize: IntCounterVec,
    abandoned: IntCounterVec,
    late: IntCounterVec,
    broker: BrokerFamilies,
}

/// The families of what joins a `RouterSocket` and a `DealerSocket`.
struct BrokerFamilies {
    held: IntGaugeVec,
    in_flight: IntGaugeVec,
    answers: IntGaugeVec,
    paused: IntGaugeVec,
    pauses: IntCounterVec,
    errors: IntCounterVec,
}

/// Labels behind `node`, in the order of the family.
type Labels = Vec<&'static str>;

impl SocketFamilies {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name, help, labels: &[&str]| node_counter(registry, name, help, labels);
        let gauge = |name, help| node_gauge(registry, name, help);
        Self {
            peers: gauge("lineway_socket_peers", "Peers that are ready."),
            opened: counter("lineway_socket_peers_opened_total", "Peers that became ready.", &[]),
            closed: counter(
                "lineway_socket_peers_closed_total",
                "Peers that were ready and are not, by why.",
                &["reason"],
            ),
            rejected: counter(
                "lineway_socket_peers_rejected_total",
                "Connections that were refused after a right handshake, by why.",
                &["reason"],
            ),
            handshakes: counter(
                "lineway_socket_handshake_failures_total",
                "Connections whose handshake failed, by why.",
                &["reason"],
            ),
            weights: gauge(
                "lineway_socket_peer_weights",
                "The weights of all ready peers, added up; 0 with peers means that none is to be chosen.",
            ),
            paused: gauge(
                "lineway_socket_peers_paused",
                "Peers that want no records at the moment.",
            ),
            pauses: counter(
                "lineway_socket_pauses_total",
                "Times that a peer wanted no more records.",
                &[],
            ),
            resumes: counter(
                "lineway_socket_resumes_total",
                "Times that a peer wanted records again.",
                &[],
            ),
            last_pause: register(
                registry,
                GaugeVec::new(
                    Opts::new(
                        "lineway_socket_last_pause_seconds",
                        "How long the pause of a peer took that ended last; 0 when none has.",
                    ),
                    &["node"],
                ),
            ),
            stale: counter(
                "lineway_socket_stale_frames_total",
                "Flow states of peers without effect, as their epoch was not newer or their connection was replaced.",
                &[],
            ),
            malformed: counter(
                "lineway_socket_malformed_frames_total",
                "Weights and flow states of peers that are none, and had no effect.",
                &[],
            ),
            epochs: counter(
                "lineway_flow_epochs_issued_total",
                "Epochs that sockets gave to changes of their own flow state; each counts its own from 1.",
                &[],
            ),
            records: counter(
                "lineway_socket_records_total",
                "Records by kind; upstream is from a client to a worker.",
                &["direction", "kind"],
            ),
            payload: counter(
                "lineway_socket_payload_bytes_total",
                "Payload bytes of those records.",
                &["direction", "kind"],
            ),
            backpressured: counter(
                "lineway_socket_backpressured_total",
                "Records that were not taken for want of room, by any peer.",
                &[],
            ),
            tokens: gauge("lineway_socket_wait_tokens", "Refused records that wait for room."),
            tokens_issued: counter(
                "lineway_socket_wait_tokens_issued_total",
                "Wait tokens that refused records got.",
                &[],
            ),
            tokens_finished: counter(
                "lineway_socket_wait_tokens_finished_total",
                "Wait tokens that are over, as there was room or their target went away.",
                &[],
            ),
            requests: gauge(
                "lineway_socket_requests_pending",
                "Requests that are not answered yet.",
            ),
            completions: counter(
                "lineway_socket_completions_total",
                "Requests that ended, by how they did.",
                &["result"],
            ),
            dropped: counter(
                "lineway_socket_dropped_total",
                "Records that went nowhere, by why.",
                &["reason"],
            ),
            oversize: counter(
                "lineway_socket_oversize_total",
                "Records that were refused for their size.",
                &["direction"],
            ),
            abandoned: counter(
                "lineway_socket_replies_abandoned_total",
                "Replies that were owed and not given.",
                &[],
            ),
            late: counter(
                "lineway_socket_replies_late_total",
                "Replies to requests that were over.",
                &[],
            ),
            broker: BrokerFamilies {
                held: gauge("lineway_broker_held_requests", "Requests that wait for a worker."),
                in_flight: gauge(
                    "lineway_broker_requests_in_flight",
                    "Requests that a worker has.",
                ),
                answers: gauge(
                    "lineway_broker_waiting_answers",
                    "Answers that wait for the room of their client.",
                ),
                paused: gauge(
                    "lineway_broker_paused",
                    "1 while all clients are asked to pause, as no worker takes a request.",
                ),
                pauses: counter(
                    "lineway_broker_pauses_total",
                    "Times that all clients were asked to pause.",
                    &[],
                ),
                errors: counter(
                    "lineway_broker_error_replies_total",
                    "Error replies that clients got, by what they say.",
                    &["result"],
                ),
            },
        }
    }

    /// Every counter of a type of node, with its labels.
    fn counters(&self, socket: SocketKind) -> Vec<(&IntCounterVec, Labels, Read)> {
        let mut all: Vec<(&IntCounterVec, Labels, Read)> = vec![
            (&self.opened, vec![], read(|now| now.counters.peers_opened)),
            (&self.pauses, vec![], read(|now| now.status.flow.pause_applied_total)),
            (&self.resumes, vec![], read(|now| now.status.flow.resume_applied_total)),
            (&self.stale, vec![], read(|now| now.status.flow.stale_total)),
            (&self.malformed, vec![], read(|now| now.counters.malformed)),
            (&self.epochs, vec![], read(|now| now.counters.epochs_issued)),
            (&self.backpressured, vec![], read(|now| now.counters.backpressured)),
            (&self.tokens_issued, vec![], read(|now| now.counters.tokens_issued)),
            (&self.tokens_finished, vec![], read(|now| now.counters.tokens_finished)),
        ];
        for &why in Label::ALL {
            let count = read(move |now| now.counters.peers_closed[why]);
            all.push((&self.closed, vec![Label::as_str(why)], count));
        }
        for &why in Label::ALL {
            let count = read(move |now| now.counters.peers_rejected[why]);
            all.push((&self.rejected, vec![Label::as_str(why)], count));
        }
        for why in HandshakeFailure::ALL {
            let count = read(move |now| now.handshakes[why as usize]);
            all.push((&self.handshakes, vec![why.as_str()], count));
        }
        for &why in Drop::ALL {
            let same = DropReason::ALL.into_iter().find(|other| other.as_str() == why.as_str());
            let of_broker =
                move |now: &SocketNow| same.map_or(0, |same| now.broker().counters.drops(same));
            let count = read(move |now| now.counters.dropped[why] + of_broker(now));
            all.push((&self.dropped, vec![why.as_str()], count));
        }
        for sent in [true, false] {
            for &kind in RecordKind::ALL {
                let Some(to) = direction(socket, kind, sent) else { continue };
                let traffic = move |now: &SocketNow| {
                    if sent { now.counters.sent } else { now.counters.received }
                };
                let labels = vec![to.as_str(), kind.as_str()];
                let count = read(move |now| traffic(now).records[kind]);
                all.push((&self.records, labels.clone(), count));
                all.push((&self.payload, labels, read(move |now| traffic(now).bytes[kind])));
                if kind == RecordKind::Data {
                    let count = read(move |now| {
                        if sent { now.counters.oversize_out } else { now.counters.oversize_in }
                    });
                    all.push((&self.oversize, vec![to.as_str()], count));
                }
            }
        }
        match socket {
            SocketKind::Dealer => {
                all.push((&self.late, vec![], read(|now| now.counters.replies_late)));
                for &result in RequestResult::ALL {
                    let count = read(move |now| now.counters.completions[result]);
                    all.push((&self.completions, vec![result.as_str()], count));
                }
            }
            SocketKind::Router => {
                let broker = &self.broker;
                all.push((&self.abandoned, vec![], read(|now| now.counters.replies_abandoned)));
                all.push((&broker.pauses, vec![], read(|now| now.broker().counters.pauses)));
                // What neither counts for a socket alone.
                for why in DropReason::ALL {
                    if Drop::ALL.iter().all(|other| other.as_str() != why.as_str()) {
                        let count = read(move |now| now.broker().counters.drops(why));
                        all.push((&self.dropped, vec![why.as_str()], count));
                    }
                }
                for &result in RequestResult::ALL.iter().filter(|r| **r != RequestResult::Ok) {
                    let count = read(move |now| now.broker().counters.errors(result));
                    all.push((&broker.errors, vec![result.as_str()], count));
                }
            }
        }
        all
    }

    /// Every gauge of a type of node.
    fn gauges(&self, socket: SocketKind) -> Vec<(&IntGaugeVec, Read)> {
        let mut all: Vec<(&IntGaugeVec, Read)> = vec![
            (&self.peers, read(SocketNow::peers)),
            (&self.weights, read(|now| now.weights)),
            (&self.paused, read(|now| now.status.flow.paused_connections)),
            (&self.tokens, read(SocketNow::tokens)),
        ];
        match socket {
            SocketKind::Dealer => all.push((&self.requests, read(SocketNow::requests_pending))),
            SocketKind::Router => all.extend([
                (&self.broker.held, read(|now| now.broker().held_requests as u64)),
                (&self.broker.in_flight, read(|now| now.broker().in_flight as u64)),
                (&self.broker.answers, read(|now| now.broker().waiting_answers as u64)),
                (&self.broker.paused, read(|now| now.broker().paused.into())),
            ]),
        }
        all
    }

    /// Makes every series of a node; `queued` is that of [`SocketNow::queued`].
    pub(super) fn node(&self, node: &str, socket: SocketKind, queued: IntGauge) -> SocketMetrics {
        let counters = self.counters(socket).into_iter().map(|(family, labels, read)| {
            let labels: Vec<_> = std::iter::once(node).chain(labels).collect();
            (family.with_label_values(&labels), read)
        });
        let gauges = self.gauges(socket).into_iter();
        let gauges = gauges.map(|(family, read)| (family.with_label_values(&[node]), read));
        SocketMetrics {
            counters: counters.collect(),
            gauges: gauges.chain([(queued, read(|now| now.queued))]).collect(),
            last_pause: self.last_pause.with_label_values(&[node]),
            sources: Mutex::default(),
            numbers: AtomicU64::new(0),
        }
    }

    /// Takes every series of a node away.
    pub(super) fn remove(&self, node: &str) {
        for socket in [SocketKind::Dealer, SocketKind::Router] {
            for (family, labels, _) in self.counters(socket) {
                let labels: Vec<_> = std::iter::once(node).chain(labels).collect();
                let _ = family.remove_label_values(&labels);
            }
            for (family, _) in self.gauges(socket) {
                let _ = family.remove_label_values(&[node]);
            }
        }
        let _ = self.last_pause.remove_label_values(&[node]);
    }
}
