//! The running service as a whole: which plan is in force, and how it changes and ends.
//!
//! It lives beside the workers, on the thread of the supervisor, and speaks to them by messages.

mod diff;
mod sip;
mod sockets;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::{join, join3};
use lineway_wire::line::FinishReason;
use lineway_wire::zmp::outcome;

pub use diff::{Changes, diff};

use crate::dns::DnsError;
use crate::listener::LineLimit;
use crate::metrics::ReloadResult;
use crate::net::bind::{self, BindError, Bound, Hold};
use crate::net::{ListenKey, ListenOptions};
use crate::registry::LineId;
use crate::settings::{NodePlan, NodeSettings, Plan};
use crate::sip::location::LocationError;
use crate::sip::router::Refusal;
use crate::worker::{Board, Control, Install, ListenAt, WorkerHandle, timers};

use sip::Sip;
use sockets::{Prepared, Sockets};

/// How often a drain looks whether the last line is over.
const DRAIN_LOOK: Duration = Duration::from_millis(20);

/// How long lines may take to end once they were told to.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// Something stands in the way of the start, or of a reload.
#[derive(Debug, thiserror::Error)]
#[error("node \"{node}\", settings.{setting}: {cause}")]
pub struct StartError {
    /// The node.
    pub node: Arc<str>,
    /// The setting.
    pub setting: &'static str,
    /// What stands in the way.
    #[source]
    pub cause: StartCause,
}

/// What stands in the way of a start.
#[derive(Debug, thiserror::Error)]
pub enum StartCause {
    /// An address can not be listened on (T03).
    #[error(transparent)]
    Bind(#[from] BindError),
    /// An endpoint of a message socket can not be bound.
    #[error("cannot bind {endpoint}: {} ({})", sockets::said(*.cause), .cause.errno)]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// Why.
        cause: outcome::BindError,
    },
    /// The worker that a socket was to live on does not answer.
    #[error("worker {0} does not answer")]
    Worker(usize),
    /// The router of a SIP chain does not take its settings up.
    #[error(transparent)]
    Script(Refusal),
    /// The bindings of a registrar can not be kept where they are to be.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// A host name does not resolve.
    #[error("the name {name} does not resolve: {why}")]
    Name {
        /// The name.
        name: Arc<str>,
        /// Why.
        why: DnsError,
    },
}

/// Listening sockets of a plan, bound and not yet handed out.
#[derive(Debug, Default)]
pub struct Bindings {
    bound: Vec<(Arc<str>, ListenKey, Bound)>,
    sockets: Prepared,
    sip: sip::Prepared,
}

impl Bindings {
    /// Every address with the node that listens there; the port is the real one.
    pub fn addresses(&self) -> impl Iterator<Item = (&Arc<str>, SocketAddr)> {
        self.bound.iter().map(|(node, _, bound)| (node, bound.address))
    }

    /// Every endpoint with the message socket that is bound to it; the port is the real one.
    pub fn endpoints(&self) -> impl Iterator<Item = (&Arc<str>, Arc<str>)> {
        self.sockets.endpoints()
    }
}

struct Held {
    address: SocketAddr,
    _hold: Hold,
}

/// The running service.
pub struct Service {
    board: Board,
    workers: Vec<WorkerHandle>,
    plan: Arc<Plan>,
    held: HashMap<ListenKey, Held>,
    limits: HashMap<Arc<str>, LineLimit>,
    sockets: Sockets,
    sip: Sip,
}

impl Service {
    /// A service on these workers that does nothing yet.
    pub fn new(board: Board, workers: Vec<WorkerHandle>, plan: Arc<Plan>) -> Self {
        let sockets = Sockets::new(board.clone(), workers.clone());
        let sip = Sip::new(board.clone(), workers.clone());
        let (held, limits) = (HashMap::new(), HashMap::new());
        Self { board, workers, plan, held, limits, sockets, sip }
    }

    /// The plan in force.
    pub const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Binds what a plan listens on beyond what is bound already (T01, T03). `inherited` sockets
    /// are used for the addresses that they are bound to.
    ///
    /// # Errors
    /// Every address that can not be bound. Nothing stays bound then.
    pub async fn bind(
        &self,
        plan: &Plan,
        inherited: &[TcpListener],
    ) -> Result<Bindings, Vec<StartError>> {
        let mut bindings = Bindings::default();
        let mut errors = Vec::new();
        match self.sockets.prepare(plan, inherited).await {
            Ok(prepared) => bindings.sockets = prepared,
            Err(found) => errors.extend(found),
        }
        for node in &plan.nodes {
            let NodeSettings::TcpListener(settings) = &node.settings else {
                continue;
            };
            let options = ListenOptions::from(settings);
            for address in node.listen_addresses() {
                let key = ListenKey::new(&node.name, address);
                if self.held.contains_key(&key) {
                    continue;
                }
                match self.bind_one(plan, address, &options, inherited) {
                    Ok(bound) => bindings.bound.push((Arc::clone(&node.name), key, bound)),
                    Err(error) => errors.push(StartError {
                        node: Arc::clone(&node.name),
                        setting: if settings.ports.len() > 1 { "port-range" } else { "port" },
                        cause: error.into(),
                    }),
                }
            }
        }
        match self.sip.prepare(plan, inherited).await {
            Ok(prepared) if errors.is_empty() => bindings.sip = prepared,
            Ok(prepared) => self.sip.forget(prepared).await,
            Err(found) => errors.extend(found),
        }
        if errors.is_empty() { Ok(bindings) } else { Err(errors) }
    }

    fn bind_one(
        &self,
        plan: &Plan,
        address: SocketAddr,
        options: &ListenOptions,
        inherited: &[TcpListener],
    ) -> Result<Bound, BindError> {
        let same = |socket: &&TcpListener| socket.local_addr().is_ok_and(|at| at == address);
        if let Some(socket) = inherited.iter().find(same) {
            return bind::inherit(socket, options, self.workers.len());
        }
        // A listener that moves between an address and all addresses keeps its port all the while.
        let leaves = |key: &ListenKey, held: &Held| {
            held.address.port() == address.port()
                && !plan.nodes.iter().any(|node| node.listen_keys().any(|other| other == *key))
        };
        if self.held.iter().any(|(key, held)| leaves(key, held)) {
            return bind::listen_beside(address, options, self.workers.len());
        }
        bind::listen(address, options, self.workers.len())
    }

    /// Puts a plan in force on every worker, and waits until it is.
    pub async fn install(&mut self, plan: Arc<Plan>, bindings: Bindings, start_testers: bool) {
        let mut sockets: Vec<Vec<ListenAt>> = self.workers.iter().map(|_| Vec::new()).collect();
        for (node, key, bound) in bindings.bound {
            let Bound { address, sockets: own, hold } = bound;
            tracing::info!(%node, %address, "listening");
            for (worker, socket) in sockets.iter_mut().zip(own) {
                worker.push(ListenAt { key: key.clone(), socket });
            }
            self.held.insert(key, Held { address, _hold: hold });
        }
        self.held.retain(|key, _| plan.nodes.iter().any(|n| n.listen_keys().any(|k| k == *key)));
        for node in &plan.nodes {
            self.limits.entry(Arc::clone(&node.name)).or_default();
            // Known from here on, so that nothing left over from an earlier reload forgets it.
            self.board.health.passive(&node.name);
        }
        if start_testers {
            self.board.testers.expect(tester_lines(&plan, self.workers.len()));
        }
        for (worker, listen) in self.workers.iter().zip(sockets) {
            let limits = self.limits.clone();
            let install = Install { plan: Arc::clone(&plan), listen, limits, start_testers };
            // A worker that does not answer is seen by its heartbeat.
            let _ = worker.send(install).await;
        }
        for node in &plan.nodes {
            if node.settings.messages().is_none() && !node.settings.is_sip() {
                self.board.health.keep_places(&node.name, node.listen_keys().count());
            }
        }
        self.sockets.install(&plan, bindings.sockets).await;
        self.sip.install(&plan, bindings.sip).await;
        self.plan = plan;
    }

    /// Puts another plan in force: what did not change stays, with its live lines. On an error
    /// nothing changes.
    ///
    /// # Errors
    /// Every address that can not be bound.
    pub async fn reload(&mut self, plan: Arc<Plan>) -> Result<Changes, Vec<StartError>> {
        let bindings = match self.bind(&plan, &[]).await {
            Ok(bindings) => bindings,
            Err(errors) => {
                self.board.metrics.supervisor().reloaded(ReloadResult::Failed, SystemTime::now());
                return Err(errors);
            }
        };
        let changes = diff(&self.plan, &plan);
        self.install(plan, bindings, false).await;
        for node in &changes.removed {
            self.board.health.forget_node(node);
            self.board.supervisor.forget_node(node);
        }
        self.board.metrics.supervisor().reloaded(ReloadResult::Applied, SystemTime::now());
        Ok(changes)
    }

    /// What is left to do after a reload, once its lines had `drain-timeout-ms` to end: ends the
    /// lines that still go through removed or changed nodes, and forgets the removed ones.
    pub fn after_reload(&self, changes: &Changes) -> impl Future<Output = ()> + 'static {
        let limit = self.plan.service.drain_timeout.duration();
        let (workers, board) = (self.workers.clone(), self.board.clone());
        let removed = changes.removed.clone();
        let by = timers::now();
        let sip = self.sip.ending().drained();
        async move {
            join(tokio::time::sleep(limit), sip).await;
            broadcast(&workers, Control::FinishRetired(FinishReason::Drain, by)).await;
            tokio::time::sleep(LAST_WORDS).await;
            for node in removed {
                // A later reload may have brought it back.
                if !board.health.knows(&node) {
                    board.metrics.forget_node(&node);
                }
            }
        }
    }

    /// Takes no new lines.
    pub async fn stop_listening(&mut self) {
        broadcast(&self.workers, Control::StopListening).await;
        self.held.clear();
    }

    /// Waits until every line is over, every request is answered and no SIP transaction lives, at
    /// most `limit`; then ends those that are left. SIP calls that would begin are refused. What
    /// message sockets have queued is written while their `linger-ms` lasts.
    pub async fn drain(&mut self, limit: Duration) -> usize {
        self.stop_listening().await;
        let Self { workers, sockets, sip, .. } = self;
        let lines = async {
            if wait_for_lines(workers, limit).await == 0 {
                return 0;
            }
            end_lines(workers).await
        };
        join3(lines, sockets.stop(limit), sip.stop(limit)).await.0
    }

    /// Ends every line at once, whatever it has queued. Gives how many there were.
    pub async fn end_lines(&self) -> usize {
        end_lines(&self.workers).await
    }

    /// What asks lines to end, from any thread.
    pub fn finisher(&self) -> Finisher {
        Finisher { workers: self.workers.clone().into() }
    }
}

/// Asks single lines to end, for an operator.
#[derive(Clone, Debug)]
pub struct Finisher {
    workers: Arc<[WorkerHandle]>,
}

impl Finisher {
    /// Asks one line to end; false if there is no such line.
    pub fn finish_line(&self, id: LineId) -> impl Future<Output = bool> + Send + 'static {
        let worker = self.workers.get(usize::from(id.worker)).cloned();
        async move {
            let Some(worker) = worker else { return false };
            let finish = Control::FinishLine(id, FinishReason::Admin);
            worker.send(finish).await.is_ok_and(|found| found > 0)
        }
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("plan", &self.plan).finish_non_exhaustive()
    }
}

async fn end_lines(workers: &[WorkerHandle]) -> usize {
    let ended = broadcast(workers, Control::FinishLines(FinishReason::Drain)).await;
    wait_for_lines(workers, LAST_WORDS).await;
    ended
}

async fn wait_for_lines(workers: &[WorkerHandle], limit: Duration) -> usize {
    let until = tokio::time::Instant::now() + limit;
    loop {
        let lines = broadcast(workers, Control::CountLines).await;
        let now = tokio::time::Instant::now();
        if lines == 0 || now >= until {
            return lines;
        }
        tokio::time::sleep(DRAIN_LOOK.min(until - now)).await;
    }
}

async fn broadcast(workers: &[WorkerHandle], control: Control) -> usize {
    let answers: Vec<_> = workers.iter().map(|worker| worker.send(control)).collect();
    let mut total = 0;
    for answer in answers {
        total += answer.await.unwrap_or(0);
    }
    total
}

fn tester_lines(plan: &Plan, workers: usize) -> usize {
    let lines = |node: &NodePlan| match &node.settings {
        NodeSettings::TesterClient(settings) => settings.lines,
        _ => 0,
    };
    plan.nodes.iter().map(lines).sum::<usize>() * workers
}

#[cfg(test)]
mod tests;
