//! The metrics of one node.

use std::sync::Arc;
use std::time::Duration;

use lineway_wire::fisher::Loss;
use lineway_wire::line::{Direction, FinishReason, LineKind, PauseReason};
use lineway_wire::zmp::SocketKind;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

use super::labels::{
    AcceptError, DialResult, ProbeFailure, Refused, SelectionOutcome, ServerFirst,
};
use super::mux::{MuxFamilies, MuxMetrics, MuxSide};
use super::register;
use super::sip::{SipFamilies, SipListenerMetrics, SipMetrics, SipRouterMetrics, SipSide};
use super::socket::{SocketFamilies, SocketMetrics};

/// Buckets of a dial, in seconds.
const DIAL: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
/// Buckets of a line's lifetime, in seconds.
const LIFETIME: [f64; 8] = [0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 43200.0];

/// What a node of a type can do, and so which series it has.
#[derive(Clone, Copy)]
struct Abilities {
    /// The kinds of lines that it makes.
    lines: &'static [LineKind],
    /// Whether payload enters and waits in its lines; that of a mux client enters at its children.
    carries: bool,
    /// Why its lines' sources can be paused.
    pauses: &'static [PauseReason],
    accepts: bool,
    dials: bool,
    fishes: bool,
    answers: bool,
    muxes: Option<MuxSide>,
    socket: Option<SocketKind>,
    sip: Option<SipSide>,
}

impl Abilities {
    fn of(type_name: &str) -> Self {
        let none = Self {
            lines: &[],
            carries: false,
            pauses: &[],
            accepts: false,
            dials: false,
            fishes: false,
            answers: false,
            muxes: None,
            socket: None,
            sip: None,
        };
        let main =
            Self { lines: &[LineKind::Main], carries: true, pauses: &[PauseReason::Queue], ..none };
        match type_name {
            "TcpListener" => Self { accepts: true, ..main },
            "TesterClient" => main,
            "TcpConnector" => Self { dials: true, ..none },
            "ConnectionFisherClient" => Self {
                lines: &[LineKind::Child],
                carries: true,
                pauses: &[PauseReason::Queue],
                fishes: true,
                ..none
            },
            "ConnectionFisherServer" => Self { answers: true, ..none },
            "MuxClient" => Self {
                lines: &[LineKind::Parent],
                carries: false,
                muxes: Some(MuxSide::Client),
                ..none
            },
            "MuxServer" => Self {
                lines: &[LineKind::Child, LineKind::Parent],
                carries: true,
                pauses: &PauseReason::ALL,
                muxes: Some(MuxSide::Server),
                ..none
            },
            "DealerSocket" => Self { socket: Some(SocketKind::Dealer), ..none },
            "SipListener" => Self { accepts: true, sip: Some(SipSide::Listener), ..none },
            "SipRouter" => Self { sip: Some(SipSide::Router), ..none },
            "RouterSocket" => Self { socket: Some(SocketKind::Router), ..none },
            _ => none,
        }
    }
}

/// The metrics of one node, as handles. What its type does not do is not counted.
#[derive(Debug)]
pub struct NodeMetrics {
    name: Arc<str>,
    type_name: &'static str,
    lines: [Option<Lines>; LineKind::ALL.len()],
    traffic: Option<Traffic>,
    accept_errors: Option<[IntCounter; AcceptError::ALL.len()]>,
    refused: Option<[IntCounter; Refused::ALL.len()]>,
    dials: Option<Dials>,
    fishing: Option<FishingMetrics>,
    probing: Option<ProbingMetrics>,
    pub(super) mux: Option<MuxMetrics>,
    pub(super) socket: Option<SocketMetrics>,
    sip: Option<SipMetrics>,
}

/// The lines of one kind.
#[derive(Debug)]
struct Lines {
    open: IntGauge,
    opened: IntCounter,
    closed: [IntCounter; FinishReason::ALL.len()],
}

/// What the lines of a node carry.
#[derive(Debug)]
struct Traffic {
    payload: [IntCounter; Direction::ALL.len()],
    queued: IntGauge,
    pauses: [[Option<IntCounter>; PauseReason::ALL.len()]; Direction::ALL.len()],
    lifetime: Histogram,
}

#[derive(Debug)]
struct Dials {
    results: [IntCounter; DialResult::ALL.len()],
    seconds: Histogram,
}

#[derive(Debug)]
struct FishingMetrics {
    candidates: IntCounter,
    lost: [IntCounter; Loss::ALL.len()],
    outcomes: [IntCounter; SelectionOutcome::ALL.len()],
    seconds: Histogram,
    queued: IntGauge,
}

#[derive(Debug)]
struct ProbingMetrics {
    failures: [IntCounter; ProbeFailure::ALL.len()],
    first: [IntCounter; ServerFirst::ALL.len()],
}

impl NodeMetrics {
    /// The node's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The node's type as written in the configuration.
    pub fn type_name(&self) -> &'static str {
        self.type_name
    }

    /// True for a node of SIP.
    pub(super) const fn is_sip(&self) -> bool {
        self.sip.is_some()
    }

    /// What a `SipListener` counts; `None` for any other node.
    pub fn sip_listener(&self) -> Option<&Arc<SipListenerMetrics>> {
        match &self.sip {
            Some(SipMetrics::Listener(metrics)) => Some(metrics),
            _ => None,
        }
    }

    /// What a `SipRouter` counts; `None` for any other node.
    pub fn sip_router(&self) -> Option<&Arc<SipRouterMetrics>> {
        match &self.sip {
            Some(SipMetrics::Router(metrics)) => Some(metrics),
            _ => None,
        }
    }

    /// A line of this node was made.
    pub fn opened(&self, kind: LineKind) {
        if let Some(lines) = &self.lines[kind as usize] {
            lines.open.inc();
            lines.opened.inc();
        }
    }

    /// A line of this node ended, after it had lived so long (L08).
    pub fn closed(&self, kind: LineKind, reason: FinishReason, lived: Duration) {
        if let Some(lines) = &self.lines[kind as usize] {
            lines.open.dec();
            lines.closed[reason as usize].inc();
        }
        if let Some(traffic) = &self.traffic {
            traffic.lifetime.observe(lived.as_secs_f64());
        }
    }

    /// Payload bytes entered a line of this node.
    pub fn payload(&self, direction: Direction, bytes: u64) {
        if let Some(traffic) = &self.traffic {
            traffic.payload[direction as usize].inc_by(bytes);
        }
    }

    /// So many more bytes wait in lines of this node.
    pub fn queued_add(&self, bytes: u64) {
        if let Some(traffic) = &self.traffic {
            traffic.queued.add(bytes.cast_signed());
        }
    }

    /// So many bytes wait no longer: they left, or were dropped with their line.
    pub fn queued_sub(&self, bytes: u64) {
        if let Some(traffic) = &self.traffic {
            traffic.queued.sub(bytes.cast_signed());
        }
    }

    /// The source of a direction was stopped (L06).
    pub fn paused(&self, direction: Direction, reason: PauseReason) {
        let place = PauseReason::ALL.iter().position(|r| *r == reason).unwrap_or_default();
        if let Some(traffic) = &self.traffic
            && let Some(counter) = &traffic.pauses[direction as usize][place]
        {
            counter.inc();
        }
    }

    /// A connection could not be accepted (T02).
    pub fn accept_error(&self, error: AcceptError) {
        if let Some(counters) = &self.accept_errors {
            counters[error as usize].inc();
        }
    }

    /// A connection was accepted, and closed because of its source.
    pub fn refused(&self, why: Refused) {
        if let Some(counters) = &self.refused {
            counters[why as usize].inc();
        }
    }

    /// An onward connection came out like this, after so long. Cancelled ones say nothing about
    /// how long a connect takes and stay out of the histogram.
    pub fn dialled(&self, result: DialResult, took: Duration) {
        if let Some(dials) = &self.dials {
            dials.results[result as usize].inc();
            if result != DialResult::Cancelled {
                dials.seconds.observe(took.as_secs_f64());
            }
        }
    }

    /// A candidate was opened (C02).
    pub fn candidate(&self) {
        if let Some(fishing) = &self.fishing {
            fishing.candidates.inc();
        }
    }

    /// A candidate did not win.
    pub fn lost(&self, why: Loss) {
        if let Some(fishing) = &self.fishing {
            fishing.lost[why as usize].inc();
        }
    }

    /// A selection came out so long after `Init`: with a winner, or without one for this reason.
    pub fn selected(&self, failure: Option<Loss>, took: Duration) {
        if let Some(fishing) = &self.fishing {
            fishing.outcomes[SelectionOutcome::of(failure) as usize].inc();
            if failure.is_none() {
                fishing.seconds.observe(took.as_secs_f64());
            }
        }
    }

    /// So many bytes of one line wait for a choice, where so many did before.
    pub fn fishing(&self, before: usize, bytes: usize) {
        if let Some(fishing) = &self.fishing
            && before != bytes
        {
            let gauge = |bytes: usize| (bytes as u64).cast_signed();
            fishing.queued.add(gauge(bytes) - gauge(before));
        }
    }

    /// A line did not get past the probe (S02, S08).
    pub fn probe_failed(&self, why: ProbeFailure) {
        if let Some(probing) = &self.probing {
            probing.failures[why as usize].inc();
        }
    }

    /// What came first behind an answered probe (S04b).
    pub fn server_first(&self, result: ServerFirst) {
        if let Some(probing) = &self.probing {
            probing.first[result as usize].inc();
        }
    }
}

/// The families whose series have a `node` label.
pub(super) struct NodeFamilies {
    open: IntGaugeVec,
    opened: IntCounterVec,
    closed: IntCounterVec,
    payload: IntCounterVec,
    queued: IntGaugeVec,
    pauses: IntCounterVec,
    lifetime: HistogramVec,
    accept_errors: IntCounterVec,
    refused: IntCounterVec,
    dials: IntCounterVec,
    dial_seconds: HistogramVec,
    candidates: IntCounterVec,
    lost: IntCounterVec,
    selections: IntCounterVec,
    selection_seconds: HistogramVec,
    fishing: IntGaugeVec,
    probe_failures: IntCounterVec,
    server_first: IntCounterVec,
    mux: MuxFamilies,
    sockets: SocketFamilies,
    sip: SipFamilies,
}

impl NodeFamilies {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter = |name, help, labels: &[&str]| {
            register(registry, IntCounterVec::new(Opts::new(name, help), labels))
        };
        let gauge = |name, help, labels: &[&str]| {
            register(registry, IntGaugeVec::new(Opts::new(name, help), labels))
        };
        let histogram = |name, help, buckets: &[f64]| {
            let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            register(registry, HistogramVec::new(opts, &["node"]))
        };
        Self {
            open: gauge(
                "lineway_lines_open",
                "Live lines, by the node that made them.",
                &["node", "kind"],
            ),
            opened: counter(
                "lineway_lines_opened_total",
                "Lines that were made.",
                &["node", "kind"],
            ),
            closed: counter(
                "lineway_lines_closed_total",
                "Lines that ended, by why they did.",
                &["node", "kind", "reason"],
            ),
            payload: counter(
                "lineway_payload_bytes_total",
                "Payload bytes that entered a line; upstream is towards the server.",
                &["node", "direction"],
            ),
            queued: gauge(
                "lineway_queued_bytes",
                "Bytes that wait because the other side does not take them: payload in lines, charge in message sockets.",
                &["node"],
            ),
            pauses: counter(
                "lineway_pauses_total",
                "Times that the source of a direction was stopped, by why it was.",
                &["node", "direction", "reason"],
            ),
            lifetime: histogram(
                "lineway_line_lifetime_seconds",
                "How long lines lived, seen when they end.",
                &LIFETIME,
            ),
            accept_errors: counter(
                "lineway_accept_errors_total",
                "Connections that could not be accepted, by the error of accept.",
                &["node", "reason"],
            ),
            refused: counter(
                "lineway_accept_refused_total",
                "Connections that were closed because of their source address.",
                &["node", "reason"],
            ),
            dials: counter(
                "lineway_dials_total",
                "Onward connections, by how they came out.",
                &["node", "result"],
            ),
            dial_seconds: histogram(
                "lineway_dial_seconds",
                "How long onward connections took to come out, name included; without cancelled ones.",
                &DIAL,
            ),
            candidates: counter(
                "lineway_fisher_candidates_total",
                "Candidates that were opened.",
                &["node"],
            ),
            lost: counter(
                "lineway_fisher_lost_total",
                "Candidates that did not win, by why not.",
                &["node", "reason"],
            ),
            selections: counter(
                "lineway_fisher_selections_total",
                "Selections among candidates, by how they came out; won is also the count of winners.",
                &["node", "result"],
            ),
            selection_seconds: histogram(
                "lineway_fisher_selection_seconds",
                "How long it took from the start of a line to the choice of a candidate.",
                &DIAL,
            ),
            fishing: gauge(
                "lineway_fisher_queued_bytes",
                "Payload bytes that wait for the choice of a candidate.",
                &["node"],
            ),
            probe_failures: counter(
                "lineway_fisher_probe_failures_total",
                "Lines that did not get past the probe, by why not.",
                &["node", "reason"],
            ),
            server_first: counter(
                "lineway_fisher_server_first_total",
                "What came first behind an answered probe: a payload, the time to dial without one, or the end.",
                &["node", "result"],
            ),
            mux: MuxFamilies::new(registry),
            sockets: SocketFamilies::new(registry),
            sip: SipFamilies::new(registry),
        }
    }

    /// Makes every series that a node of this type has.
    pub(super) fn node(&self, name: &Arc<str>, type_name: &'static str) -> NodeMetrics {
        let abilities = Abilities::of(type_name);
        let node: &str = name;
        let lines = LineKind::ALL.map(|kind| {
            abilities.lines.contains(&kind).then(|| Lines {
                open: self.open.with_label_values(&[node, kind.as_str()]),
                opened: self.opened.with_label_values(&[node, kind.as_str()]),
                closed: FinishReason::ALL.map(|reason| {
                    self.closed.with_label_values(&[node, kind.as_str(), reason.as_str()])
                }),
            })
        });
        let traffic = abilities.carries.then(|| Traffic {
            payload: Direction::ALL
                .map(|direction| self.payload.with_label_values(&[node, direction.as_str()])),
            queued: self.queued.with_label_values(&[node]),
            pauses: Direction::ALL.map(|direction| {
                PauseReason::ALL.map(|reason| {
                    abilities.pauses.contains(&reason).then(|| {
                        let labels = [node, direction.as_str(), reason.as_str()];
                        self.pauses.with_label_values(&labels)
                    })
                })
            }),
            lifetime: self.lifetime.with_label_values(&[node]),
        });
        NodeMetrics {
            name: Arc::clone(name),
            type_name,
            lines,
            traffic,
            accept_errors: abilities.accepts.then(|| {
                AcceptError::ALL
                    .map(|error| self.accept_errors.with_label_values(&[node, error.as_str()]))
            }),
            refused: abilities.accepts.then(|| {
                Refused::ALL.map(|why| self.refused.with_label_values(&[node, why.as_str()]))
            }),
            dials: abilities.dials.then(|| Dials {
                results: DialResult::ALL
                    .map(|result| self.dials.with_label_values(&[node, result.as_str()])),
                seconds: self.dial_seconds.with_label_values(&[node]),
            }),
            fishing: abilities.fishes.then(|| FishingMetrics {
                candidates: self.candidates.with_label_values(&[node]),
                lost: Loss::ALL.map(|why| self.lost.with_label_values(&[node, why.as_str()])),
                outcomes: SelectionOutcome::ALL
                    .map(|outcome| self.selections.with_label_values(&[node, outcome.as_str()])),
                seconds: self.selection_seconds.with_label_values(&[node]),
                queued: self.fishing.with_label_values(&[node]),
            }),
            probing: abilities.answers.then(|| ProbingMetrics {
                failures: ProbeFailure::ALL
                    .map(|why| self.probe_failures.with_label_values(&[node, why.as_str()])),
                first: ServerFirst::ALL
                    .map(|result| self.server_first.with_label_values(&[node, result.as_str()])),
            }),
            mux: abilities.muxes.map(|side| self.mux.node(node, side)),
            socket: abilities
                .socket
                .map(|kind| self.sockets.node(node, kind, self.queued.with_label_values(&[node]))),
            sip: abilities.sip.map(|side| self.sip.node(node, side)),
        }
    }

    /// Takes every series of a node away. Those that it never had are no matter.
    pub(super) fn remove(&self, node: &str) {
        for kind in LineKind::ALL {
            let _ = self.open.remove_label_values(&[node, kind.as_str()]);
            let _ = self.opened.remove_label_values(&[node, kind.as_str()]);
            for reason in FinishReason::ALL {
                let _ = self.closed.remove_label_values(&[node, kind.as_str(), reason.as_str()]);
            }
        }
        for direction in Direction::ALL {
            let _ = self.payload.remove_label_values(&[node, direction.as_str()]);
            for reason in PauseReason::ALL {
                let labels = [node, direction.as_str(), reason.as_str()];
                let _ = self.pauses.remove_label_values(&labels);
            }
        }
        let _ = self.queued.remove_label_values(&[node]);
        let _ = self.lifetime.remove_label_values(&[node]);
        for error in AcceptError::ALL {
            let _ = self.accept_errors.remove_label_values(&[node, error.as_str()]);
        }
        for why in Refused::ALL {
            let _ = self.refused.remove_label_values(&[node, why.as_str()]);
        }
        for result in DialResult::ALL {
            let _ = self.dials.remove_label_values(&[node, result.as_str()]);
        }
        let _ = self.dial_seconds.remove_label_values(&[node]);
        let _ = self.candidates.remove_label_values(&[node]);
        let _ = self.selection_seconds.remove_label_values(&[node]);
        let _ = self.fishing.remove_label_values(&[node]);
        for why in Loss::ALL {
            let _ = self.lost.remove_label_values(&[node, why.as_str()]);
        }
        for outcome in SelectionOutcome::ALL {
            let _ = self.selections.remove_label_values(&[node, outcome.as_str()]);
        }
        for why in ProbeFailure::ALL {
            let _ = self.probe_failures.remove_label_values(&[node, why.as_str()]);
        }
        for result in ServerFirst::ALL {
            let _ = self.server_first.remove_label_values(&[node, result.as_str()]);
        }
        self.mux.remove(node);
        self.sockets.remove(node);
        self.sip.remove(node);
    }
}
