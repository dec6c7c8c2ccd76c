//! The message sockets of the service: which of them run, what answers them, and how they are bound,
//! changed, started again and closed.
//!
//! A `RouterSocket` with what follows it is one chain, kept by one task. A socket lives on one
//! worker, and the two of a chain on different ones where there are several.

mod chain;
mod live;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::TcpListener;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::chain::{Command, Keeper, Parts};
pub(super) use self::live::said;
use self::live::{Held, Live};
use super::StartError;
use crate::settings::{NodePlan, NodeSettings, Plan};
use crate::worker::{Board, WorkerHandle};

/// What all chains share.
struct Site {
    board: Board,
    workers: Vec<WorkerHandle>,
    /// What sockets are bound to, by endpoint. TCP sockets among it are shared with whoever binds
    /// the same after them, so that no connection is refused in between.
    held: RefCell<HashMap<String, Weak<Held>>>,
    /// How many sockets live on each worker.
    load: RefCell<Vec<usize>>,
    /// Sockets that are on their way out.
    leaving: RefCell<Vec<JoinHandle<()>>>,
    /// `drain-timeout-ms`.
    patience: Cell<Duration>,
}

/// A chain as the plan has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spec {
    router: NodePlan,
    /// A `DealerSocket` or an `EchoServer`.
    end: NodePlan,
}

impl Spec {
    fn dealer(&self) -> Option<&NodePlan> {
        matches!(self.end.settings, NodeSettings::DealerSocket(_)).then_some(&self.end)
    }
}

/// The chains of a plan, by the name of their `RouterSocket`.
fn specs(plan: &Plan) -> HashMap<Arc<str>, Spec> {
    let spec = |router: &NodePlan| {
        let next = router.next.as_ref()?;
        let end = plan.nodes.iter().find(|node| node.name == *next)?;
        Some((Arc::clone(&router.name), Spec { router: router.clone(), end: end.clone() }))
    };
    let is_router = |node: &&NodePlan| matches!(node.settings, NodeSettings::RouterSocket(_));
    plan.nodes.iter().filter(is_router).filter_map(spec).collect()
}

/// Sockets of a plan, bound and not yet at work.
#[derive(Default)]
pub(super) struct Prepared {
    chains: Vec<(Spec, Parts)>,
}

impl Prepared {
    /// Every endpoint with the node that is bound to it.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = (&Arc<str>, Arc<str>)> {
        let sockets = self.chains.iter().flat_map(|(_, parts)| parts.each());
        sockets.flat_map(|live| live.bound().into_iter().map(|endpoint| (live.name(), endpoint)))
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.chains.iter().map(|(spec, _)| &spec.router.name)).finish()
    }
}

/// A chain that runs.
struct Running {
    spec: Spec,
    tell: mpsc::UnboundedSender<Command>,
}

/// Every message socket that runs.
pub(super) struct Sockets {
    site: Rc<Site>,
    running: HashMap<Arc<str>, Running>,
}

impl Sockets {
    /// None.
    pub(super) fn new(board: Board, workers: Vec<WorkerHandle>) -> Self {
        let load = RefCell::new(vec![0; workers.len()]);
        let site = Site {
            board,
            workers,
            held: RefCell::default(),
            load,
            leaving: RefCell::default(),
            patience: Cell::new(Duration::ZERO),
        };
        Self { site: Rc::new(site), running: HashMap::new() }
    }

    /// Makes and binds what a plan has beyond what runs as it is.
    pub(super) async fn prepare(
        &self,
        plan: &Plan,
        inherited: &[TcpListener],
    ) -> Result<Prepared, Vec<StartError>> {
        let mut prepared = Prepared::default();
        let mut errors = Vec::new();
        let specs = specs(plan);
        // In the order of the plan, so that every start of it gives the workers the same sockets.
        for spec in plan.nodes.iter().filter_map(|node| specs.get(&node.name)) {
            let before = self.running.get(&spec.router.name).map(|running| &running.spec);
            if before == Some(spec) {
                continue;
            }
            let mut parts = Parts::default();
            if before.is_none_or(|before| before.router != spec.router) {
                match Live::prepare(&self.site, &spec.router, None, inherited).await {
                    Ok(router) => parts.router = Some(router),
                    Err(found) => errors.extend(found),
                }
            }
            if let Some(dealer) = spec.dealer()
                && before.is_none_or(|before| before.end != *dealer)
            {
                let apart = parts.router.as_ref().map(Live::worker);
                match Live::prepare(&self.site, dealer, apart, inherited).await {
                    Ok(dealer) => parts.dealer = Some(dealer),
                    Err(found) => errors.extend(found),
                }
            }
            prepared.chains.push((spec.clone(), parts));
        }
        if errors.is_empty() {
            return Ok(prepared);
        }
        Err(errors)
    }

    /// Puts a plan in force: what it does not have, or not so, goes once its requests are answered;
    /// what was prepared takes its place.
    pub(super) async fn install(&mut self, plan: &Plan, prepared: Prepared) {
        self.site.patience.set(plan.service.drain_timeout.duration());
        self.site.board.total.set_limit(plan.service.total_queue.get());
        let specs = specs(plan);
        self.running.retain(|name, running| {
            let stays = specs.contains_key(name);
            if !stays {
                let (done, _) = oneshot::channel();
                let _ = running.tell.send(Command::Stop(self.site.patience.get(), done));
            }
            stays
        });
        let mut begun = Vec::new();
        for (spec, parts) in prepared.chains {
            let (begins, at_work) = oneshot::channel();
            if let Some(running) = self.running.get_mut(&spec.router.name) {
                running.spec = spec.clone();
                // It waits for requests that are to be answered first.
                let _ = running.tell.send(Command::Replace(Box::new((spec, parts))));
                continue;
            }
            let Some(router) = parts.router else { continue };
            let (tell, told) = mpsc::unbounded_channel();
            let keeper = Keeper::new(&self.site, spec.clone(), router, parts.dealer);
            tokio::task::spawn_local(keeper.run(told, begins));
            self.running.insert(Arc::clone(&spec.router.name), Running { spec, tell });
            begun.push(at_work);
        }
        join_all(begun).await;
    }

    /// Accepts no peer any more, answers what was taken for so long, and closes every socket, which
    /// writes what is queued while `linger-ms` lasts.
    pub(super) fn stop(&mut self, patience: Duration) -> impl Future<Output = ()> + use<> {
        let chains = std::mem::take(&mut self.running).into_values();
        let stopped: Vec<_> = chains
            .map(|running| {
                let (done, stopped) = oneshot::channel();
                let _ = running.tell.send(Command::Stop(patience, done));
                stopped
            })
            .collect();
        let site = Rc::clone(&self.site);
        async move {
            join_all(stopped).await;
            loop {
                let leaving = site.leaving.take();
                if leaving.is_empty() {
                    return;
                }
                join_all(leaving).await;
            }
        }
    }
}

impl Site {
    /// The worker with the fewest sockets; not the one of which to keep apart where there is another.
    fn choose(&self, apart: Option<usize>) -> usize {
        let mut load = self.load.borrow_mut();
        let others = (0..load.len()).filter(|worker| load.len() == 1 || Some(*worker) != apart);
        let chosen = others.min_by_key(|worker| load[*worker]).unwrap_or_default();
        if let Some(load) = load.get_mut(chosen) {
            *load += 1;
        }
        chosen
    }

    fn left(&self, worker: usize) {
        if let Some(load) = self.load.borrow_mut().get_mut(worker) {
            *load = load.saturating_sub(1);
        }
    }

    /// Closes a socket beside everything else.
    fn leave(self: &Rc<Self>, live: Live) {
        let closing = tokio::task::spawn_local(live.close());
        let mut leaving = self.leaving.borrow_mut();
        leaving.retain(|task| !task.is_finished());
        leaving.push(closing);
    }
}
