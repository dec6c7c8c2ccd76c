//! Alive and ready, which are two questions (M-22).
//!
//! *Alive* is false only when an event loop stands still: a restart of the process would help.
//! *Ready* is false when a node can not serve, or the process should get no new work; it says
//! which and why. A probe reads atomics and a few locks that nobody holds for long.

mod connector;
mod peers;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, IntGaugeVec, Opts};

pub use connector::ConnectorHealth;
pub use peers::PeersHealth;

/// An event loop whose last beat is older than this stands still.
pub const STANDS_STILL: Duration = Duration::from_millis(2500);

/// How often an event loop should beat.
pub const BEAT: Duration = Duration::from_secs(1);

/// What should say that it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Beating {
    /// The supervisor.
    Supervisor,
    /// The event loop of a worker.
    Worker(u16),
}

/// An event loop stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandsStill {
    /// Which.
    pub what: Beating,
    /// How old its last beat is.
    pub age: Duration,
}

impl std::fmt::Display for StandsStill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.what {
            Beating::Supervisor => f.write_str("the supervisor")?,
            Beating::Worker(index) => write!(f, "worker {index}")?,
        }
        write!(f, " has stood still for {} ms", self.age.as_millis())
    }
}

/// Why the whole process is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProcessReason {
    /// Not every node has started.
    Starting = 1,
    /// The service is stopping and takes no lines.
    Draining = 2,
    /// The process has no descriptor left (T02).
    DescriptorsExhausted = 4,
}

impl ProcessReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Starting, Self::Draining, Self::DescriptorsExhausted];

    /// The text for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Draining => "draining",
            Self::DescriptorsExhausted => "out of file descriptors",
        }
    }
}

/// What is not ready, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// A node's name; `None` for the process as a whole.
    pub node: Option<Arc<str>>,
    /// The text for people.
    pub reason: Cow<'static, str>,
}

/// The health of one service.
#[derive(Clone)]
pub struct Health {
    inner: Arc<Inner>,
}

struct Inner {
    start: Instant,
    supervisor: AtomicU64,
    workers: Box<[AtomicU64]>,
    process: AtomicU8,
    nodes: Mutex<BTreeMap<Arc<str>, Node>>,
}

#[derive(Default)]
struct Node {
    parts: HashMap<(u16, u32), Arc<Part>>,
    connector: Option<Arc<Mutex<ConnectorHealth>>>,
}

/// Why a part of a node is not ready; `None` = it is.
type Part = Mutex<Option<Cow<'static, str>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Health {
    /// A service that is starting with so many workers; all of them have just beaten.
    pub fn new(workers: u16, now: Instant) -> Self {
        let inner = Inner {
            start: now,
            supervisor: AtomicU64::new(0),
            workers: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            process: AtomicU8::new(ProcessReason::Starting as u8),
            nodes: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.inner.start).as_millis() as u64
    }

    /// An event loop runs; each should say so every [`BEAT`].
    pub fn beat(&self, what: Beating, now: Instant) {
        let cell = match what {
            Beating::Supervisor => Some(&self.inner.supervisor),
            Beating::Worker(index) => self.inner.workers.get(usize::from(index)),
        };
        if let Some(cell) = cell {
            cell.store(self.millis(now), Relaxed);
        }
    }

    /// Whether every event loop runs.
    ///
    /// # Errors
    /// Those that have not beaten for longer than [`STANDS_STILL`].
    pub fn live(&self, now: Instant) -> Result<(), Vec<StandsStill>> {
        let millis = self.millis(now);
        let workers = (0..).map(Beating::Worker).zip(self.inner.workers.iter());
        let still: Vec<_> = std::iter::once((Beating::Supervisor, &self.inner.supervisor))
            .chain(workers)
            .map(|(what, cell)| StandsStill {
                what,
                age: Duration::from_millis(millis.saturating_sub(cell.load(Relaxed))),
            })
            .filter(|still| still.age > STANDS_STILL)
            .collect();
        if still.is_empty() { Ok(()) } else { Err(still) }
    }

    /// Says that a reason holds for the whole process, or does not any more.
    pub fn process(&self, reason: ProcessReason, holds: bool) {
        if holds {
            self.inner.process.fetch_or(reason as u8, Relaxed);
        } else {
            self.inner.process.fetch_and(!(reason as u8), Relaxed);
        }
    }

    /// Whether every node can serve and the process should get work.
    ///
    /// # Errors
    /// What can not, and why: the process first, then the nodes by name.
    pub fn ready(&self, now: Instant) -> Result<(), Vec<NotReady>> {
        let bits = self.inner.process.load(Relaxed);
        let process = ProcessReason::ALL.into_iter().filter(|r| bits & *r as u8 != 0);
        let mut all: Vec<_> =
            process.map(|r| NotReady { node: None, reason: r.as_str().into() }).collect();
        for (name, node) in lock(&self.inner.nodes).iter() {
            let reasons = node.reasons(now);
            all.extend(
                reasons.into_iter().map(|reason| NotReady { node: Some(name.clone()), reason }),
            );
        }
        if all.is_empty() { Ok(()) } else { Err(all) }
    }

    /// The health of one part of a node: what one worker has of it, and which of several there.
    ///
    /// It is not ready ("starting") until it says so. A node is ready when all of its parts are.
    /// Asking again for the same part takes it over from whoever had it.
    pub fn node(&self, name: &Arc<str>, worker: u16, place: u32) -> NodeHealth {
        let part = Arc::new(Mutex::new(Some("starting".into())));
        let health = self.clone();
        let handle = NodeHealth { health, name: Arc::clone(name), worker, place, part };
        handle.enter();
        handle
    }

    /// The health of a node that is one whole, such as a message socket: what it had of parts before
    /// is over.
    pub fn sole(&self, name: &Arc<str>) -> NodeHealth {
        lock(&self.inner.nodes).entry(Arc::clone(name)).or_default().parts.clear();
        self.node(name, 0, 0)
    }

    /// The health of a node that connects onward, the same for all workers.
    pub fn connector(&self, name: &Arc<str>) -> ConnectorHandle {
        let mut nodes = lock(&self.inner.nodes);
        let node = nodes.entry(Arc::clone(name)).or_default();
        let connector = Arc::clone(node.connector.get_or_insert_default());
        ConnectorHandle { connector }
    }

    /// Enters a node that has nothing to say, or not yet: it is ready.
    pub fn passive(&self, name: &Arc<str>) {
        lock(&self.inner.nodes).entry(Arc::clone(name)).or_default();
    }

    /// A node has this many places on each worker. Parts at others, where nothing runs that could
    /// be ready again, are taken out.
    pub fn keep_places(&self, name: &str, places: usize) {
        if let Some(node) = lock(&self.inner.nodes).get_mut(name) {
            node.parts.retain(|(_, place), _| (*place as usize) < places);
        }
    }

    /// A reload removed a node, or is about to build it anew.
    pub fn forget_node(&self, name: &str) {
        lock(&self.inner.nodes).remove(name);
    }

    /// Whether a node of this name was entered and not forgotten.
    pub fn knows(&self, name: &str) -> bool {
        lock(&self.inner.nodes).contains_key(name)
    }

    /// What a scrape shows of readiness, for [`crate::metrics::Metrics::register`].
    pub fn collector(&self) -> Box<dyn Collector> {
        Box::new(Readiness::new(self.clone()))
    }
}

impl Node {
    /// Why the node is not ready, each reason once.
    fn reasons(&self, now: Instant) -> Vec<Cow<'static, str>> {
        let mut reasons: Vec<_> =
            self.parts.values().filter_map(|part| lock(part).clone()).collect();
        let connector = self.connector.as_ref().map(|connector| lock(connector).ready(now));
        if let Some(Err(reason)) = connector {
            reasons.push(reason.into());
        }
        reasons.sort_unstable();
        reasons.dedup();
        reasons
    }
}

/// One part of a node says whether it can serve. When it is dropped the part can not.
pub struct NodeHealth {
    health: Health,
    name: Arc<str>,
    worker: u16,
    place: u32,
    part: Arc<Part>,
}

impl NodeHealth {
    /// Enters the part as it is, in case that the node was forgotten and is back.
    pub fn enter(&self) {
        let mut nodes = lock(&self.health.inner.nodes);
        let node = nodes.entry(Arc::clone(&self.name)).or_default();
        node.parts.insert((self.worker, self.place), Arc::clone(&self.part));
    }

    /// The part can serve.
    pub fn ready(&self) {
        *lock(&self.part) = None;
    }

    /// The part can not serve.
    pub fn not_ready(&self, reason: impl Into<Cow<'static, str>>) {
        *lock(&self.part) = Some(reason.into());
    }
}

impl std::fmt::Debug for NodeHealth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeHealth").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for NodeHealth {
    fn drop(&mut self) {
        self.not_ready("not running");
    }
}

/// A node that connects onward says how its connects come out, from any worker.
#[derive(Clone, Debug)]
pub struct ConnectorHandle {
    connector: Arc<Mutex<ConnectorHealth>>,
}

impl ConnectorHandle {
    /// A connect succeeded.
    pub fn succeeded(&self) {
        lock(&self.connector).succeeded();
    }

    /// A connect failed; one that was cancelled says nothing.
    pub fn failed(&self, now: Instant) {
        lock(&self.connector).failed(now);
    }
}

/// The readiness metrics, asked at each scrape.
struct Readiness {
    health: Health,
    process: IntGauge,
    nodes: IntGaugeVec,
}

impl Readiness {
    fn new(health: Health) -> Self {
        let process = Opts::new("lineway_ready", "1 when every node can serve and work may come.");
        let nodes = Opts::new("lineway_node_ready", "1 when the node can serve.");
        Self {
            health,
            process: IntGauge::with_opts(process).expect("a right name"),
            nodes: IntGaugeVec::new(nodes, &["node"]).expect("a right name"),
        }
    }
}

impl Collector for Readiness {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.process.desc();
        all.extend(self.nodes.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = tokio::time::Instant::now().into_std();
        self.process.set(self.health.ready(now).is_ok().into());
        // Two scrapes at once must not see each other's half-filled family.
        let nodes = lock(&self.health.inner.nodes);
        self.nodes.reset();
        for (name, node) in nodes.iter() {
            self.nodes.with_label_values(&[name]).set(node.reasons(now).is_empty().into());
        }
        let mut all = self.process.collect();
        all.extend(self.nodes.collect());
        all
    }
}

#[cfg(test)]
mod tests;
