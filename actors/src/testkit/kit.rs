//! A worker with its supervisor, and everything around them played by the kit.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use tokio::time::Instant;

use super::{Arrivals, Dials, Peer, settings, socket};
use crate::descriptors::Descriptors;
use crate::dns::StaticNames;
use crate::health::Health;
use crate::line::{Chain, End, Node, Testers};
use crate::listener::{LineLimit, Listener, Serving};
use crate::metrics::{ActorKind, Metrics};
use crate::net::{Acceptor, Network};
use crate::registry::{LineId, LineView, Registry};
use crate::settings::NodePlan;
use crate::socket::Inproc;
use crate::worker::{Board, Worker, WorkerActor, WorkerHandle};
use crate::{spawn, supervisor};

/// Descriptors that the lines of a kit may use.
const DESCRIPTORS: i64 = 1000;

/// Longer than a worker gathers its reports, and than a turn of its timers.
const REPORTED: Duration = Duration::from_millis(10);

/// What is 0 when no line lives.
const LEFT: [&str; 14] = [
    "lineway_lines_open{",
    "lineway_queued_bytes{",
    "lineway_fisher_queued_bytes{",
    "lineway_deadlines_pending{",
    r#"lineway_actors_alive{kind="main-line"}"#,
    r#"lineway_actors_alive{kind="child-line"}"#,
    r#"lineway_actors_alive{kind="mux-parent"}"#,
    "lineway_mux_parents_open{",
    "lineway_mux_parents_exhausted{",
    "lineway_mux_children_open{",
    "lineway_mux_children_paused{",
    "lineway_mux_queued_bytes{",
    "lineway_mux_cids_leased{",
    "lineway_mux_cids_used{",
];

/// One worker with a real supervisor, on the thread of the test.
pub struct Kit {
    /// What all workers share.
    pub board: Board,
    /// The worker.
    pub worker: Rc<Worker>,
    /// The worker's actor.
    pub actor: WorkerHandle,
    /// Where its connections go.
    pub dials: Dials,
}

impl Kit {
    /// A worker whose connections go to a scripted network.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn new() -> Self {
        let dials = Dials::new();
        Self { dials: dials.clone(), ..Self::on(Rc::new(dials)) }
    }

    /// A worker in another network, a simulated one for instance; its `dials` stay empty.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn on(network: Rc<dyn Network>) -> Self {
        let (metrics, registry) = (Metrics::new("test"), Registry::new());
        let health = Health::new(1, Instant::now().into_std());
        let board = Board {
            supervisor: supervisor::start(registry.clone(), metrics.clone(), health.clone()),
            metrics,
            registry,
            health,
            descriptors: Descriptors::new(DESCRIPTORS),
            testers: Testers::default(),
            total: Arc::default(),
            inproc: Inproc::default(),
        };
        let worker = Worker::start(0, board.clone(), network, Rc::new(StaticNames::new()));
        let actor = WorkerActor::start(Rc::clone(&worker));
        Self { board, worker, actor, dials: Dials::new() }
    }

    /// The chain of these nodes, in order, on this worker.
    ///
    /// # Panics
    /// With fewer than two nodes: that is no chain.
    pub fn chain(&self, nodes: Vec<NodePlan>) -> Rc<Chain> {
        let nodes: Vec<_> =
            nodes.into_iter().map(|plan| Rc::new(Node::new(Arc::new(plan), &self.board))).collect();
        Rc::new(Chain::new(&nodes).expect("a chain has two nodes at least"))
    }

    /// A chain from a listener `in` to a connector `out`, with every default.
    pub fn plain_chain(&self) -> Rc<Chain> {
        self.chain(vec![
            settings::node("in", settings::listener(any()), Some("out")),
            settings::node("out", settings::connector(server()), None),
        ])
    }

    /// A chain from a listener `in` to an `EchoServer` `out`, with every default.
    pub fn echo_chain(&self) -> Rc<Chain> {
        self.chain(vec![
            settings::node("in", settings::listener(any()), Some("out")),
            settings::node("out", crate::settings::NodeSettings::EchoServer, None),
        ])
    }

    /// Opens a line whose client is played by the test.
    pub fn open(&self, chain: &Rc<Chain>) -> (LineId, Peer) {
        let (socket, client) = socket();
        let descriptors = self.board.descriptors.take(2);
        let near = End::Socket(socket);
        let id = self.worker.open_main_line(chain, near, None, descriptors, None);
        (id, client)
    }

    /// Starts a listener of this chain at which the test plays the clients.
    pub fn listen(&self, chain: &Rc<Chain>, limit: LineLimit) -> (Addr<Listener>, Arrivals) {
        let (acceptor, arrivals) = Arrivals::new();
        (self.listen_on(chain, limit, acceptor), arrivals)
    }

    /// Starts a listener of this chain on a socket of another network.
    pub fn listen_on(
        &self,
        chain: &Rc<Chain>,
        limit: LineLimit,
        acceptor: Acceptor,
    ) -> Addr<Listener> {
        let serving = Serving { chain: Rc::clone(chain), place: 0, limit };
        let slot = Rc::new(RefCell::new(serving));
        let acceptor = Rc::new(RefCell::new(acceptor));
        let listener = Listener::new(&self.worker, slot, acceptor);
        let actors = self.board.metrics.actors();
        spawn::start(ActorKind::Listener, actors, |_| listener, |_| {})
    }

    /// Waits until nobody has anything left to do at this time. Under paused time this moves the
    /// clock by the smallest step of it.
    pub async fn quiet(&self) {
        // A paused clock moves only when every task waits.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// Waits until everything is quiet and the supervisor has heard of it.
    pub async fn reported(&self) {
        tokio::time::sleep(REPORTED).await;
    }

    /// Lets so much time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// A live line as the supervisor knows it.
    pub fn line(&self, id: LineId) -> Option<Arc<LineView>> {
        self.board.registry.get(id)
    }

    /// The value of one series, such as `lineway_lines_open{node="in",kind="main"}`; 0 where there
    /// is none.
    pub fn metric(&self, series: &str) -> f64 {
        value(&self.board.metrics, series)
    }

    /// Asserts the value of a series.
    ///
    /// # Panics
    /// It is another one.
    #[track_caller]
    pub fn assert_metric(&self, series: &str, wanted: u32) {
        let value = self.metric(series);
        assert!((value - f64::from(wanted)).abs() < 0.5, "{series} is {value}, not {wanted}");
    }

    /// Asserts how many lines of node `in` ended for this reason (L08).
    ///
    /// # Panics
    /// It is another number.
    #[track_caller]
    pub fn assert_closed(&self, reason: &str, wanted: u32) {
        let closed = self.closed(reason);
        assert!((closed - f64::from(wanted)).abs() < 0.5, "{reason}: {closed}, not {wanted}");
    }

    /// How many lines of node `in` ended for this reason (L08).
    pub fn closed(&self, reason: &str) -> f64 {
        self.metric(&format!(
            r#"lineway_lines_closed_total{{kind="main",node="in",reason="{reason}"}}"#
        ))
    }

    /// Waits until reported, and asserts that nothing is left: no line of any kind, no actor of
    /// one, no child of a mux, no cid, no queued byte, no descriptor, no deadline, no timer.
    ///
    /// # Panics
    /// When something is left.
    pub async fn assert_empty(&self) {
        self.reported().await;
        assert_eq!(self.worker.line_count(), 0, "live lines");
        assert!(self.board.registry.is_empty(), "lines in the registry");
        let text = self.board.metrics.text();
        for gauge in text.lines().filter(|line| LEFT.iter().any(|name| line.starts_with(name))) {
            assert!(gauge.ends_with(" 0"), "{gauge}");
        }
        assert_eq!(self.board.descriptors.free(), DESCRIPTORS, "descriptors");
        assert!(self.worker.timers.is_empty(), "timers of nobody");
        assert_eq!(self.dials.pending(), 0, "connects that nobody waits for");
    }
}

impl Default for Kit {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Kit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kit").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// The value of one series of a scrape, its labels in any order.
fn value(metrics: &Metrics, series: &str) -> f64 {
    let labels_of = |series: &str| -> (String, Vec<String>) {
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(',');
        let mut labels: Vec<_> = labels.map(str::to_owned).collect();
        labels.sort_unstable();
        (name.to_owned(), labels)
    };
    let wanted = labels_of(series);
    metrics
        .text()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .find(|(found, _)| labels_of(found) == wanted)
        .map_or(0.0, |(_, value)| value.parse().unwrap_or(f64::NAN))
}

fn any() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 9], 7000))
}

fn server() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 80))
}

/// Runs a test of a kit under paused time: the clock moves when everybody waits, to the next time
/// that somebody waits for.
///
/// # Panics
/// When the test does.
#[cfg(any(test, feature = "testkit"))]
pub fn run(test: impl AsyncFnOnce(Kit)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async move { test(Kit::new()).await });
}
