//! The actor that a `SipRouter` has on each worker: it takes the messages of its calls in order,
//! runs the script and sends what that decided.

mod admission;
mod calls;
pub(in crate::sip) mod core;
pub(in crate::sip) mod sending;
#[cfg(test)]
mod tests;
pub(in crate::sip) mod tm;
mod view;

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use actix::fut::ActorFuture;
use actix::prelude::*;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lineway_wire::sip::locate::LocateOptions;
use lineway_wire::sip::message::Limits;
use lineway_wire::sip::own::{Own, Received, SocketId};
use lineway_wire::sip::stream::StreamError;

use self::admission::Drain;
use self::core::{Core, Generation, Job};
use self::sending::Sending;
use self::view::List;
use super::dispatcher::pinger::{self, Pinger};
use super::ring::{Arrival, Ring};
use super::script::{Script, ScriptError};
use super::shared::ScriptEnv;
use super::site::SipSite;
use super::transaction::Home;
use super::transport::{Fault, TransportStart, Transports};
use crate::health::NodeHealth;
use crate::metrics::{ActorKind, SipRegistration};
use crate::registry::TransactionView;
use crate::settings::{SipListenerSettings, SipRouterSettings};
use crate::spawn;
use crate::worker::Worker;

/// Messages that are handled in one turn, before others of the worker get theirs.
const BATCH: usize = 64;

/// Turns of the ring in one wake.
const TURNS: usize = 4;

/// Generations of a script that may live at once on a worker.
const MOST_GENERATIONS: usize = 4;

/// How long the connect to a next hop may take.
const CONNECT: Duration = Duration::from_secs(4);

/// How often bindings that are over are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// How long after a panic the actor is started again.
const AGAIN: Duration = Duration::from_millis(100);

/// What a worker gets of a chain from a `SipListener` to a `SipRouter`.
#[derive(Debug)]
pub struct RouterStart {
    /// The settings of the `SipListener`.
    pub listener_settings: Arc<SipListenerSettings>,
    /// The name of the `SipRouter`.
    pub router: Arc<str>,
    /// Its settings.
    pub router_settings: Arc<SipRouterSettings>,
    /// Own sockets and names, with the real ports.
    pub own: Own,
    /// The worker's own UDP sockets.
    pub udp: Vec<(SocketId, std::net::UdpSocket)>,
    /// The worker's own listening sockets.
    pub tcp: Vec<(SocketId, std::net::TcpListener)>,
    /// What all workers share.
    pub site: Arc<SipSite>,
}

/// Why other settings can not be taken up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The script is not right.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Too many scripts are in use: transactions of earlier ones are not over.
    #[error(
        "{MOST_GENERATIONS} scripts are in use, and transactions that began with the earlier ones are not over"
    )]
    Generations,
    /// The actor is not there at the moment.
    #[error("the router of a worker does not answer")]
    Gone,
}

/// Why a router does not start on a worker.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    /// The script is not right.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A socket can not be used.
    #[error("a socket can not be used: {0}")]
    Socket(#[from] std::io::Error),
}

/// What outlives a panic of the actor.
struct Belongings {
    worker: Rc<Worker>,
    node: Arc<str>,
    own: Rc<Own>,
    ring: Ring,
    limits: Limits,
    site: Arc<SipSite>,
    transports: Rc<Transports>,
    /// The transactions of this worker.
    home: Rc<Home>,
    settings: RefCell<Arc<SipRouterSettings>>,
    /// What answers a stream that can not be read any further; shared with the connections.
    env: Rc<RefCell<Option<Rc<ScriptEnv>>>>,
    /// Whether the script runs on this worker.
    health: NodeHealth,
    /// What asks the targets of the dispatcher, on the first worker.
    pinger: RefCell<Option<Pinger>>,
}

impl Belongings {
    fn generation(&self, settings: &Arc<SipRouterSettings>) -> Result<Rc<Generation>, ScriptError> {
        let script = Script::load(&settings.script, settings.limits())?;
        let (node, own) = (Arc::clone(&self.node), Rc::clone(&self.own));
        let shared = Arc::clone(&self.site.shared);
        let env = Rc::new(ScriptEnv::new(node, own, Arc::clone(settings), shared));
        let sending = Rc::new(Sending {
            worker: Rc::clone(&self.worker),
            own: Rc::clone(&self.own),
            transports: Rc::clone(&self.transports),
            metrics: Arc::clone(&self.site.router_metrics),
            settings: Arc::clone(settings),
            locating: LocateOptions::of(&self.own, true),
            scratch: Cell::default(),
        });
        Ok(Rc::new(Generation { script, env, sending }))
    }
}

/// Reaches the router of one worker from any thread, also after it was started again.
#[derive(Clone)]
pub struct SipHandle {
    address: Arc<RwLock<Addr<SipRouter>>>,
}

impl std::fmt::Debug for SipHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SipHandle")
    }
}

impl SipHandle {
    fn address(&self) -> Addr<SipRouter> {
        self.address.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes ready for other settings; they are in force after [`SipHandle::adopt`].
    ///
    /// # Errors
    /// They can not be taken up; nothing changes.
    pub async fn prepare(&self, settings: Arc<SipRouterSettings>) -> Result<(), Refusal> {
        self.address().send(Prepare(settings)).await.unwrap_or(Err(Refusal::Gone))
    }

    /// Takes up what was prepared, or forgets it.
    pub async fn adopt(&self, yes: bool) {
        let _ = self.address().send(Adopt(yes)).await;
    }

    /// From here on a call that would begin gets a 503 with Retry-After; all else is handled. The
    /// result is how many transactions live on the worker, those that only absorb what comes late
    /// among them, and calls that wait: with none on any worker nothing is lost by
    /// [`SipHandle::retire`].
    pub async fn drain(&self) -> usize {
        self.address().send(Drain).await.unwrap_or(0)
    }

    /// At most so many transactions of the worker, those that somebody waits for first.
    pub async fn list(&self, most: usize) -> Vec<TransactionView> {
        self.address().send(List { most }).await.unwrap_or_default()
    }

    /// Receives nothing from here on, sends what was decided, and ends. Its transactions end too.
    pub async fn retire(&self) {
        let _ = self.address().send(Retire { hand_over: false }).await;
    }

    /// The same, but for its transactions: they go on with the chain that is started next on this
    /// worker for the same router, and on the same sockets.
    pub async fn hand_over(&self) {
        let _ = self.address().send(Retire { hand_over: true }).await;
    }
}

#[derive(Message)]
#[rtype(result = "Result<(), Refusal>")]
struct Prepare(Arc<SipRouterSettings>);

#[derive(Message)]
#[rtype(result = "()")]
struct Adopt(bool);

#[derive(Message)]
#[rtype(result = "()")]
struct Retire {
    hand_over: bool,
}

/// The actor of a `SipRouter` on one worker.
pub struct SipRouter {
    belongings: Rc<Belongings>,
    core: Core,
    jobs: FuturesUnordered<Job>,
    batch: Vec<Arrival>,
    prepared: Option<(Arc<SipRouterSettings>, Rc<Generation>)>,
    scripts: Vec<Weak<Script>>,
}

impl SipRouter {
    /// Starts the chain on this worker: its sockets and its router.
    ///
    /// # Errors
    /// The script is not right, or a socket is of no use.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start(worker: &Rc<Worker>, start: RouterStart) -> Result<SipHandle, StartFault> {
        let own = Rc::new(start.own);
        let most = usize::try_from(start.listener_settings.max_message.get());
        let limits = Limits { message_bytes: most.unwrap_or(usize::MAX), ..Limits::default() };
        let env: Rc<RefCell<Option<Rc<ScriptEnv>>>> = Rc::default();
        let fault: Rc<Fault> = {
            let env = Rc::clone(&env);
            Rc::new(move |error: &StreamError, received: &Received| {
                let env = env.borrow().clone()?;
                core::refusal(error, *received, &env, &limits, now())
            })
        };
        let transports = Transports::start(
            worker,
            TransportStart {
                metrics: Arc::clone(&start.site.listener_metrics),
                counters: Arc::clone(&start.site.transport_metrics),
                own: Rc::clone(&own),
                udp: start.udp,
                tcp: start.tcp,
                rings: Arc::clone(&start.site.rings),
                connections: Arc::clone(&start.site.connections),
                limits,
                tcp_idle: start.listener_settings.tcp_idle_timeout,
                connect_timeout: CONNECT,
                fault,
            },
        )?;
        let home = worker.parked_sip(&start.router).unwrap_or_else(|| {
            Rc::new(Home::new(
                Rc::clone(worker),
                Arc::clone(&start.router),
                Arc::clone(&start.site.router_metrics),
                Arc::clone(&start.site.shared),
            ))
        });
        let pinger = (worker.index == 0).then(|| {
            Pinger::start(pinger::Site {
                worker: Rc::clone(worker),
                node: Arc::clone(&start.router),
                own: Rc::clone(&own),
                transports: Rc::clone(&transports),
                shared: Arc::clone(&start.site.shared),
            })
        });
        let belongings = Rc::new(Belongings {
            pinger: RefCell::new(pinger),
            home,
            health: worker.board.health.node(&start.router, worker.index, 0),
            worker: Rc::clone(worker),
            node: start.router,
            own,
            ring: start.site.rings.of(worker.index).clone(),
            limits,
            site: start.site,
            transports,
            settings: RefCell::new(start.router_settings),
            env,
        });
        let told = Rc::new(RefCell::new(None));
        let address = Self::launch(&belongings, &told)?;
        let handle = SipHandle { address: Arc::new(RwLock::new(address)) };
        *told.borrow_mut() = Some(handle.clone());
        Ok(handle)
    }

    fn launch(
        belongings: &Rc<Belongings>,
        handle: &Rc<RefCell<Option<SipHandle>>>,
    ) -> Result<Addr<Self>, ScriptError> {
        let settings = Arc::clone(&belongings.settings.borrow());
        let generation = belongings.generation(&settings)?;
        *belongings.env.borrow_mut() = Some(Rc::clone(&generation.env));
        generation.env.shared.dispatcher.adopt(&generation.env.targets);
        let router = Self {
            belongings: Rc::clone(belongings),
            scripts: vec![Rc::downgrade(&generation.script)],
            core: Core::new(generation, belongings.limits, Rc::clone(&belongings.home)),
            jobs: FuturesUnordered::new(),
            batch: Vec::with_capacity(BATCH),
            prepared: None,
        };
        let actors = belongings.worker.board.metrics.actors().clone();
        let again = actors.clone();
        let (belongings, handle) = (Rc::clone(belongings), Rc::clone(handle));
        let start = |_: &mut Context<Self>| router;
        belongings.health.ready();
        Ok(spawn::start(ActorKind::SipRouter, &actors, start, move |_| {
            belongings.health.not_ready("it is being started again");
            tokio::task::spawn_local(async move {
                tokio::time::sleep(AGAIN).await;
                again.kind(ActorKind::SipRouter).restarted();
                // What it had taken is gone with it, and so is the room of that.
                belongings.ring.clear();
                match Self::launch(&belongings, &handle) {
                    Ok(address) => {
                        if let Some(handle) = &*handle.borrow() {
                            *handle.address.write().unwrap_or_else(PoisonError::into_inner) =
                                address;
                        }
                    }
                    Err(error) => {
                        tracing::error!(node = %belongings.node, %error, "the router does not start again");
                        belongings.health.not_ready(format!("it does not start again: {error}"));
                    }
                }
            });
        }))
    }

    fn poll(&mut self, cx: &mut TaskContext<'_>) {
        let now = now();
        for _ in 0..TURNS {
            let mut idle = true;
            while let Poll::Ready(Some(done)) = self.jobs.poll_next_unpin(cx) {
                self.core.done(done, now);
                self.jobs.extend(self.core.begun());
            }
            self.core.go_on_with_freed(now, cx);
            if self.belongings.ring.poll_take(&mut self.batch, BATCH, cx).is_ready() {
                idle = false;
                let bytes = self.batch.iter().map(|arrival| arrival.bytes.len()).sum();
                let count = self.batch.len();
                for arrival in self.batch.drain(..) {
                    self.core.arrived(arrival, now);
                }
                self.belongings.ring.handled(bytes, count);
            }
            let begun = self.jobs.len();
            self.jobs.extend(self.core.begun());
            if idle && self.jobs.len() == begun {
                return;
            }
        }
        self.belongings.worker.metrics.budget_exhausted();
        cx.waker().wake_by_ref();
    }

    /// Lets go of bindings that are over.
    fn sweep(&self) {
        let SipSite { shared, router_metrics, .. } = &*self.belongings.site;
        let expired = shared.locations.sweep(now());
        router_metrics.registrar.registered(SipRegistration::Expired, expired as u64);
        router_metrics.registrar.bindings(shared.locations.bindings() as u64);
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl std::fmt::Debug for SipRouter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SipRouter").field("node", &self.belongings.node).finish_non_exhaustive()
    }
}

impl Actor for SipRouter {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Routing);
        ctx.run_interval(SWEEP, |router, _| router.sweep());
    }
}

/// The life of a router; polled behind its mailbox.
struct Routing;

impl ActorFuture<SipRouter> for Routing {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut SipRouter,
        _: &mut Context<SipRouter>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        actor.poll(cx);
        Poll::Pending
    }
}

impl Handler<Prepare> for SipRouter {
    type Result = Result<(), Refusal>;

    fn handle(&mut self, Prepare(settings): Prepare, _: &mut Self::Context) -> Self::Result {
        self.scripts.retain(|script| script.strong_count() > 0);
        if self.scripts.len() >= MOST_GENERATIONS {
            return Err(Refusal::Generations);
        }
        let generation = self.belongings.generation(&settings)?;
        self.prepared = Some((settings, generation));
        Ok(())
    }
}

impl Handler<Adopt> for SipRouter {
    type Result = ();

    fn handle(&mut self, Adopt(yes): Adopt, _: &mut Self::Context) {
        if let Some((settings, generation)) = self.prepared.take().filter(|_| yes) {
            self.scripts.push(Rc::downgrade(&generation.script));
            *self.belongings.settings.borrow_mut() = settings;
            *self.belongings.env.borrow_mut() = Some(Rc::clone(&generation.env));
            // The ACKs of what it has answered are still to come.
            self.core.generation.env.sl.swap(&generation.env.sl);
            generation.env.shared.dispatcher.adopt(&generation.env.targets);
            self.core.generation = generation;
        }
    }
}

impl Handler<Retire> for SipRouter {
    type Result = ();

    fn handle(&mut self, Retire { hand_over }: Retire, ctx: &mut Self::Context) {
        let Belongings { home, worker, transports, .. } = &*self.belongings;
        self.belongings.pinger.take();
        transports.stop();
        if hand_over && !home.table.borrow().is_empty() {
            worker.park_sip(Rc::clone(home));
        } else {
            home.finish_all();
        }
        ctx.stop();
    }
}
