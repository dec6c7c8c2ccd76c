//! How others reach the supervisor, and what outlives it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use actix::prelude::*;
use prometheus::IntGauge;

use super::backoff::Backoff;
use super::{Life, Supervisor, now};
use crate::health::Health;
use crate::messages::{ActorName, Attach, Died, Reports, Snapshot};
use crate::metrics::{ActorKind, Metrics};
use crate::registry::Registry;
use crate::spawn;

/// So many messages of reports wait for the supervisor; more are given back to their sender.
pub const CAPACITY: usize = 1024;

/// The index under which the main thread attaches, for the long-lived actors that it starts.
pub const MAIN_THREAD: u16 = u16::MAX;

/// What every supervisor of the process shares.
pub(super) struct Shared {
    pub(super) registry: Registry,
    pub(super) metrics: Metrics,
    pub(super) health: Health,
    /// The living supervisor, if one lives.
    address: RwLock<Option<Addr<Supervisor>>>,
    workers: Mutex<BTreeMap<u16, Attach>>,
    restarts: Mutex<Restarts>,
    own: Mutex<Backoff>,
}

/// The long-lived actors that have ever died.
#[derive(Default)]
struct Restarts {
    /// Those that nobody has looked at.
    died: Vec<ActorName>,
    actors: HashMap<ActorName, Restart>,
}

#[derive(Default)]
struct Restart {
    backoff: Backoff,
    /// When it is to be started again; `None` while it lives.
    due: Option<Instant>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn attached(&self, worker: u16) -> Option<Attach> {
        lock(&self.workers).get(&worker).cloned()
    }

    pub(super) fn all_attached(&self) -> Vec<Attach> {
        lock(&self.workers).values().cloned().collect()
    }

    /// Notes a death, for the next [`Self::plan_restarts`].
    pub(super) fn died(&self, actor: ActorName) {
        lock(&self.restarts).died.push(actor);
    }

    /// Gives each actor that died its time; those that have one already keep it.
    pub(super) fn plan_restarts(&self, now: Instant) -> Vec<(Instant, ActorName)> {
        let mut guard = lock(&self.restarts);
        let Restarts { died, actors } = &mut *guard;
        let mut planned = Vec::new();
        for name in died.drain(..) {
            let restart = actors.entry(name.clone()).or_default();
            if restart.due.is_none() {
                let at = restart.backoff.died(now);
                restart.due = Some(at);
                planned.push((at, name));
            }
        }
        planned
    }

    /// The restarts that a former supervisor planned and did not live to do.
    pub(super) fn pending_restarts(&self) -> Vec<(Instant, ActorName)> {
        let restarts = lock(&self.restarts);
        let due = restarts.actors.iter().filter_map(|(name, r)| Some((r.due?, name.clone())));
        due.collect()
    }

    /// Takes a planned restart; false when it is not wanted any more.
    pub(super) fn restart_is_due(&self, actor: &ActorName, now: Instant) -> bool {
        let mut restarts = lock(&self.restarts);
        let restart = restarts.actors.get_mut(actor);
        restart.is_some_and(|restart| restart.due.take_if(|due| *due <= now).is_some())
    }

    fn address(&self) -> Option<Addr<Supervisor>> {
        self.address.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_address(&self, address: Option<Addr<Supervisor>>) {
        *self.address.write().unwrap_or_else(PoisonError::into_inner) = address;
    }
}

/// Reaches the supervisor from any thread, whichever lives at the time.
#[derive(Clone)]
pub struct SupervisorHandle {
    shared: Arc<Shared>,
}

impl SupervisorHandle {
    /// Makes a worker known, or its new addresses.
    pub fn attach(&self, worker: Attach) {
        lock(&self.shared.workers).insert(worker.worker, worker);
    }

    /// Sends what one turn of a worker has to say.
    ///
    /// # Errors
    /// The reports, when [`CAPACITY`] messages wait or no supervisor lives at the moment: send them
    /// again later, before any others. Each refusal is counted.
    pub fn report(&self, reports: Reports) -> Result<(), Reports> {
        let full = self.waiting() >= CAPACITY;
        match self.shared.address() {
            Some(address) if !full => {
                address.do_send(self.posted(reports));
                Ok(())
            }
            _ => {
                self.shared.metrics.supervisor().rejected.inc();
                Err(reports)
            }
        }
    }

    /// Answers a [`WatchAgain`](crate::messages::WatchAgain). Never refused: there is one for each
    /// worker and each life of the supervisor.
    pub fn snapshot(&self, snapshot: Snapshot) {
        // One that nobody takes is asked for again by the next supervisor.
        if let Some(address) = self.shared.address() {
            address.do_send(self.posted(snapshot));
        }
    }

    /// A long-lived actor ended by a panic. It is noted at once, whether a supervisor lives or not.
    pub fn died(&self, died: Died) {
        self.shared.died(died.actor);
        if let Some(address) = self.shared.address() {
            address.do_send(self.posted(Deaths));
        }
    }

    /// A reload removed a node: its actors are not started again.
    pub fn forget_node(&self, node: &str) {
        let others = |actor: &ActorName| actor.node.as_deref() != Some(node);
        let mut restarts = lock(&self.shared.restarts);
        restarts.died.retain(others);
        restarts.actors.retain(|actor, _| others(actor));
    }

    /// How many messages wait for the supervisor.
    pub fn waiting(&self) -> usize {
        usize::try_from(self.shared.metrics.supervisor().waiting.get()).unwrap_or(0)
    }

    /// The live lines.
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    fn posted<M>(&self, message: M) -> Posted<M> {
        let waiting = self.shared.metrics.supervisor().waiting.clone();
        waiting.inc();
        Posted { message, _ticket: Ticket(waiting) }
    }

    /// Makes the supervisor panic; what waits for it dies with it.
    #[cfg(test)]
    pub(crate) fn explode(&self) {
        if let Some(supervisor) = self.supervisor() {
            supervisor.do_send(super::tests::Explode);
        }
    }

    #[cfg(test)]
    pub(super) fn supervisor(&self) -> Option<Addr<Supervisor>> {
        self.shared.address()
    }
}

/// A message that counts as waiting until it was handled, or dropped with its mailbox.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Posted<M> {
    pub(super) message: M,
    _ticket: Ticket,
}

struct Ticket(IntGauge);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Somebody died: the names are in the shared state.
pub(super) struct Deaths;

/// Starts the supervisor on this thread, where it is started again after each panic.
///
/// # Panics
/// Outside of a tokio `LocalSet`.
pub fn start(registry: Registry, metrics: Metrics, health: Health) -> SupervisorHandle {
    let shared = Arc::new(Shared {
        registry,
        metrics,
        health,
        address: RwLock::default(),
        workers: Mutex::default(),
        restarts: Mutex::default(),
        own: Mutex::default(),
    });
    launch(Arc::clone(&shared), Life::First);
    SupervisorHandle { shared }
}

fn launch(shared: Arc<Shared>, life: Life) {
    let again = Arc::clone(&shared);
    let address = spawn::start(
        ActorKind::Supervisor,
        shared.metrics.actors(),
        |_| Supervisor::new(Arc::clone(&shared), life),
        move |_| {
            again.set_address(None);
            let at = lock(&again.own).died(now());
            tokio::task::spawn_local(async move {
                tokio::time::sleep_until(at.into()).await;
                again.metrics.actors().kind(ActorKind::Supervisor).restarted();
                launch(again, Life::Later);
            });
        },
    );
    shared.set_address(Some(address));
}
