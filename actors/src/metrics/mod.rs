//! What the service counts: every metric, as handles that are plain atomics.
//!
//! Labels come from the configuration and from closed sets, never from traffic (M-01). All label
//! sets of a node exist from the moment when the node does, so that rates begin at 0. Whoever
//! counts holds a handle: no label is looked up on the way of a payload. `docs/metrics.md` lists
//! every metric, and a test holds that list against the registry.

mod actors;
#[macro_use]
mod labels;
mod mux;
mod node;
mod openmetrics;
mod sip;
mod socket;
mod supervisor;
mod worker;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder};

pub use actors::{ActorMetrics, KindMetrics};
pub use labels::{
    AcceptError, ActorKind, DialResult, HandshakeFailure, ProbeFailure, Refused, ReloadResult,
    SelectionOutcome, ServerFirst,
};
pub use mux::{ParentMetrics, ParentNow};
pub use node::NodeMetrics;
pub use sip::{
    SipAck, SipAgain, SipAuth, SipAuthMetrics, SipBranchEnd, SipCancel, SipCancelFound, SipClass,
    SipClosed, SipConnectionEnd, SipDispatcherMetrics, SipDrop, SipKind, SipListenerMetrics,
    SipLookup, SipMethod, SipProbe, SipRefused, SipRegistrarMetrics, SipRegistration, SipRoute,
    SipRouterMetrics, SipScriptMetrics, SipTargetState, SipTimeout, SipTotals,
    SipTransactionMetrics,
};
pub use socket::{SocketNow, Watched};
pub use supervisor::SupervisorMetrics;
pub use worker::WorkerMetrics;

use node::NodeFamilies;
use socket::TotalMetrics;
use worker::WorkerFamilies;

use crate::socket::Total;

/// The content type of [`Metrics::text`].
pub const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The content type of [`Metrics::open_metrics`].
pub const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every metric of one service.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    node_families: NodeFamilies,
    nodes: Mutex<HashMap<Arc<str>, Arc<NodeMetrics>>>,
    worker_families: WorkerFamilies,
    workers: Mutex<HashMap<u16, Arc<WorkerMetrics>>>,
    actors: ActorMetrics,
    supervisor: SupervisorMetrics,
    total: TotalMetrics,
}

impl Metrics {
    /// The metrics of a service of this version, with those of the process that runs it.
    pub fn new(version: &str) -> Self {
        let registry = Registry::new();
        let build = register(
            &registry,
            IntGaugeVec::new(
                Opts::new("lineway_build_info", "The version that runs; always 1."),
                &["version"],
            ),
        );
        build.with_label_values(&[version]).set(1);
        // Refused only when its names are taken, and this registry has no others of these.
        let _ = registry.register(Box::new(ProcessCollector::for_self()));
        let inner = Inner {
            node_families: NodeFamilies::new(&registry),
            nodes: Mutex::default(),
            worker_families: WorkerFamilies::new(&registry),
            workers: Mutex::default(),
            actors: ActorMetrics::new(&registry),
            supervisor: SupervisorMetrics::new(&registry),
            total: TotalMetrics::new(),
            registry,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The metrics of a node: the same handles for the same name and type.
    ///
    /// `type_name` is the type as written in the configuration; it decides which series the node
    /// has. A name that comes back with another type starts again at 0.
    pub fn node(&self, name: &Arc<str>, type_name: &'static str) -> Arc<NodeMetrics> {
        let mut nodes = self.inner.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        match nodes.get(name) {
            Some(node) if node.type_name() == type_name => return Arc::clone(node),
            Some(_) => self.inner.node_families.remove(name),
            None => {}
        }
        let node = Arc::new(self.inner.node_families.node(name, type_name));
        if node.is_socket() {
            self.inner.actors.show_sockets();
            self.inner.total.show(&self.inner.registry);
        }
        if node.is_sip() {
            self.inner.actors.show_sip();
            self.inner.supervisor.show_sip();
        }
        nodes.insert(Arc::clone(name), Arc::clone(&node));
        node
    }

    /// Takes the series of a node away: a reload removed it and its last line is over. Handles
    /// that somebody still holds go on counting, unseen.
    pub fn forget_node(&self, name: &str) {
        let mut nodes = self.inner.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if nodes.remove(name).is_some() {
            self.inner.node_families.remove(name);
        }
    }

    /// The metrics of a worker: the same handles for the same index.
    pub fn worker(&self, index: u16) -> Arc<WorkerMetrics> {
        let mut workers = self.inner.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let worker =
            workers.entry(index).or_insert_with(|| self.inner.worker_families.worker(index).into());
        Arc::clone(worker)
    }

    /// The metrics of the actors, by kind.
    pub fn actors(&self) -> &ActorMetrics {
        &self.inner.actors
    }

    /// The metrics of the supervisor, and of reloads.
    pub fn supervisor(&self) -> &SupervisorMetrics {
        &self.inner.supervisor
    }

    /// Shows what all message sockets together hold (B-7).
    pub fn watch_total(&self, total: Arc<Total>) {
        self.inner.total.watch(total);
    }

    /// Adds what is asked at each scrape.
    ///
    /// # Errors
    /// One of its names is taken.
    pub fn register(&self, collector: Box<dyn Collector>) -> Result<(), prometheus::Error> {
        self.inner.registry.register(collector)
    }

    /// Every metric in the Prometheus text format, version 0.0.4 ([`TEXT_TYPE`]).
    pub fn text(&self) -> String {
        let mut page = String::new();
        // The encoder refuses families without a name or a sample, and a registry gives none.
        if let Err(error) = TextEncoder::new().encode_utf8(&self.gather(), &mut page) {
            tracing::error!(%error, "the metrics page is cut short");
        }
        page
    }

    /// Every metric in the `OpenMetrics` text format, version 1.0 ([`OPEN_METRICS_TYPE`]).
    pub fn open_metrics(&self) -> String {
        openmetrics::encode(&self.gather())
    }

    fn gather(&self) -> Vec<MetricFamily> {
        let nodes = self.inner.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes: Vec<_> = nodes.values().cloned().collect();
        for node in nodes {
            node.refresh_sockets();
        }
        self.inner.total.refresh();
        self.inner.registry.gather()
    }
}

/// Registers a family.
///
/// # Panics
/// When its name or its labels are wrong or its name is taken: a mistake in this crate that the
/// first test of all would show.
fn register<C: Collector + Clone + 'static>(
    registry: &Registry,
    family: Result<C, prometheus::Error>,
) -> C {
    let family = family.expect("a family has a right name and right labels");
    registry.register(Box::new(family.clone())).expect("each family is registered once");
    family
}

/// Registers a family of counters of nodes, with these labels behind `node`.
fn node_counter(
    registry: &Registry,
    name: &'static str,
    help: &'static str,
    labels: &[&str],
) -> IntCounterVec {
    let labels: Vec<_> = std::iter::once("node").chain(labels.iter().copied()).collect();
    register(registry, IntCounterVec::new(Opts::new(name, help), &labels))
}

/// Registers a family of gauges of nodes.
fn node_gauge(registry: &Registry, name: &'static str, help: &'static str) -> IntGaugeVec {
    register(registry, IntGaugeVec::new(Opts::new(name, help), &["node"]))
}

#[cfg(test)]
mod tests;
