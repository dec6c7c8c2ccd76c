//! The SIP chains of the service: how they are bound, started, changed and ended.
//!
//! A chain is a `SipListener` with the `SipRouter` behind it. It runs on every worker, with sockets
//! of that worker's own; what the workers share is a [`SipSite`].

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lineway_wire::sip::own::{SocketId, Transport};
use tokio::time::Instant;

use super::{DRAIN_LOOK, StartCause, StartError};
use crate::health::NodeHealth;
use crate::net::ListenOptions;
use crate::net::bind::{self, BindError, Bound, BoundUdp, Hold};
use crate::registry::{AskTransactions, SipView};
use crate::settings::{
    Location, NodePlan, NodeSettings, Plan, SipAddress, SipListenerSettings, SipRouterSettings,
    SocketSettings,
};
use crate::sip::location::{LocationError, Locations};
use crate::sip::router::{Refusal, RouterStart, SipHandle};
use crate::sip::shared::SipShared;
use crate::sip::site::SipSite;
use crate::worker::{Board, HostSip, WorkerHandle};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 4096;

/// How long the end waits for bindings to be written.
const FLUSH: Duration = Duration::from_secs(5);

/// A chain as the plan has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spec {
    listener: NodePlan,
    router: NodePlan,
}

impl Spec {
    fn of(listener: &NodePlan, plan: &Plan) -> Option<Self> {
        let next = listener.next.as_ref()?;
        let router = plan.nodes.iter().find(|node| node.name == *next)?;
        let spec = Self { listener: listener.clone(), router: router.clone() };
        spec.settings().is_some().then_some(spec)
    }

    fn settings(&self) -> Option<(&SipListenerSettings, &Arc<SipRouterSettings>)> {
        match (&self.listener.settings, &self.router.settings) {
            (NodeSettings::SipListener(listener), NodeSettings::SipRouter(router)) => {
                Some((listener, router))
            }
            _ => None,
        }
    }

    /// Where the router keeps its bindings.
    fn location(&self) -> Option<&Location> {
        self.settings().map(|(_, router)| &router.stateful.location)
    }

    /// The addresses of the listener with the keys of their sockets. What the system chooses is
    /// chosen for one place of one node.
    fn addresses(&self) -> impl Iterator<Item = (String, SipAddress)> + '_ {
        let listen = self.settings().map_or(&[][..], |(listener, _)| &listener.listen);
        listen.iter().enumerate().map(|(place, address)| {
            let key = match address.address.port() {
                0 => format!("{address} {} {place}", self.listener.name),
                _ => address.to_string(),
            };
            (key, *address)
        })
    }
}

/// The chains of a plan, in its order.
fn specs(plan: &Plan) -> Vec<Spec> {
    plan.nodes.iter().filter_map(|node| Spec::of(node, plan)).collect()
}

/// What the sockets of one address are held by, for as long as a chain is to have them. The workers
/// get copies, so that a chain that is built anew misses nothing.
struct Held {
    key: String,
    /// With the port that the system chose.
    address: SipAddress,
    sockets: Sockets,
    _hold: Hold,
}

/// One for each worker.
enum Sockets {
    Udp(Vec<UdpSocket>),
    Tcp(Vec<TcpListener>),
}

impl Held {
    fn udp(key: String, bound: BoundUdp) -> Self {
        let BoundUdp { address, sockets, hold } = bound;
        let address = SipAddress { transport: Transport::Udp, address };
        Self { key, address, sockets: Sockets::Udp(sockets), _hold: hold }
    }

    fn tcp(key: String, bound: Bound) -> Self {
        let Bound { address, sockets, hold } = bound;
        let address = SipAddress { transport: Transport::Tcp, address };
        Self { key, address, sockets: Sockets::Tcp(sockets), _hold: hold }
    }
}

/// What changes of a chain.
enum Change {
    /// It is built, on these sockets, with what the scripts of its workers share.
    Anew(Vec<Rc<Held>>, Arc<SipShared>),
    /// Its router gets other settings, which every worker has made ready for.
    Router,
}

impl Change {
    /// The sockets that it is built on.
    fn held(&self) -> &[Rc<Held>] {
        match self {
            Self::Anew(held, _) => held,
            Self::Router => &[],
        }
    }
}

/// Chains of a plan, bound and not yet at work.
#[derive(Default)]
pub(super) struct Prepared {
    chains: Vec<(Spec, Change)>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.chains.iter().map(|(spec, _)| &spec.listener.name)).finish()
    }
}

/// The actors of a chain, on every worker, and its sockets.
struct Chain {
    held: Vec<Rc<Held>>,
    handles: Vec<SipHandle>,
}

impl Chain {
    async fn retire(&self) {
        join_all(self.handles.iter().map(SipHandle::retire)).await;
    }

    /// Ends, and leaves its transactions to the chain that takes its place.
    async fn hand_over(&self) {
        join_all(self.handles.iter().map(SipHandle::hand_over)).await;
    }

    /// Refuses calls that would begin; whether nothing lives any more.
    async fn is_drained(&self) -> bool {
        let live = join_all(self.handles.iter().map(SipHandle::drain)).await;
        live.into_iter().all(|live| live == 0)
    }

    /// Whether it has one of these sockets.
    fn shares(&self, held: &[Rc<Held>]) -> bool {
        self.held.iter().any(|own| held.iter().any(|other| Rc::ptr_eq(own, other)))
    }
}

/// Chains that end once nothing lives in them, each at a time of its own at the latest.
#[derive(Clone, Default)]
pub(super) struct Ending(Rc<RefCell<Vec<(Rc<Chain>, Instant)>>>);

impl Ending {
    fn add(&self, chain: Rc<Chain>, by: Instant) {
        self.0.borrow_mut().push((chain, by));
    }

    /// Waits until the last of them has ended.
    pub(super) async fn drained(self) {
        loop {
            let chains: Vec<_> = self.0.borrow().clone();
            for (chain, by) in chains {
                if chain.is_drained().await || Instant::now() >= by {
                    self.end(|other| Rc::ptr_eq(other, &chain)).await;
                }
            }
            let Some(next) = self.0.borrow().iter().map(|(_, by)| *by).min() else { return };
            tokio::time::sleep_until(next.min(Instant::now() + DRAIN_LOOK)).await;
        }
    }

    /// Ends some at once.
    async fn end(&self, which: impl Fn(&Rc<Chain>) -> bool) {
        let ended: Vec<_> = self.0.borrow_mut().extract_if(.., |(chain, _)| which(chain)).collect();
        join_all(ended.iter().map(|(chain, _)| chain.retire())).await;
    }

    /// None of them has longer than this.
    fn hurry(&self, by: Instant) {
        for (_, own) in &mut *self.0.borrow_mut() {
            *own = by.min(*own);
        }
    }

    /// The socket of this key that one of them has.
    fn held(&self, key: &str) -> Option<Rc<Held>> {
        let chains = self.0.borrow();
        let mut held = chains.iter().flat_map(|(chain, _)| &chain.held);
        held.find(|held| held.key == key).map(Rc::clone)
    }
}

/// A chain that runs.
struct Running {
    spec: Spec,
    chain: Rc<Chain>,
    /// What the scripts of all workers share.
    shared: Arc<SipShared>,
    _health: NodeHealth,
}

impl Running {
    /// Makes every worker ready for other settings of the router, or none.
    async fn prepare(&self, settings: &Arc<SipRouterSettings>) -> Result<(), Refusal> {
        let prepared = self.chain.handles.iter().map(|handle| handle.prepare(Arc::clone(settings)));
        let refused = join_all(prepared).await.into_iter().find_map(Result::err);
        if let Some(refusal) = refused {
            self.adopt(false).await;
            return Err(refusal);
        }
        Ok(())
    }

    /// Takes up what was prepared, or forgets it.
    async fn adopt(&self, yes: bool) {
        join_all(self.chain.handles.iter().map(|handle| handle.adopt(yes))).await;
    }
}

/// Every SIP chain that runs.
pub(super) struct Sip {
    board: Board,
    workers: Vec<WorkerHandle>,
    /// By the name of the listener.
    running: HashMap<Arc<str>, Running>,
    ending: Ending,
    /// Which worker a call belongs to stands on it, and stays so when a chain is built anew.
    seed: u64,
}

impl Sip {
    /// None.
    pub(super) fn new(board: Board, workers: Vec<WorkerHandle>) -> Self {
        let seed = RandomState::new().hash_one(0);
        Self { board, workers, running: HashMap::new(), ending: Ending::default(), seed }
    }

    /// Binds what a plan has beyond what runs, and makes the workers ready for changed routers.
    pub(super) async fn prepare(
        &self,
        plan: &Plan,
        inherited: &[TcpListener],
    ) -> Result<Prepared, Vec<StartError>> {
        let mut prepared = Prepared::default();
        let mut errors = Vec::new();
        let specs = specs(plan);
        let keys: Vec<String> =
            specs.iter().flat_map(Spec::addresses).map(|(key, _)| key).collect();
        for spec in &specs {
            let before = self.running.get(&spec.listener.name);
            if before.is_some_and(|running| running.spec == *spec) {
                continue;
            }
            let same_way = |running: &&Running| {
                running.spec.listener == spec.listener
                    && running.chain.handles.len() == self.workers.len()
                    && running.spec.location() == spec.location()
            };
            if let Some(running) = before.filter(same_way)
                && let Some((_, settings)) = spec.settings()
            {
                match running.prepare(settings).await {
                    Ok(()) => prepared.chains.push((spec.clone(), Change::Router)),
                    Err(refusal) => errors.push(StartError {
                        node: Arc::clone(&spec.router.name),
                        setting: "script",
                        cause: StartCause::Script(refusal),
                    }),
                }
                continue;
            }
            let mut all_held = Vec::new();
            for (key, address) in spec.addresses() {
                match self.bind(key, address, &keys, inherited) {
                    Ok(held) => all_held.push(held),
                    Err(error) => errors.push(StartError {
                        node: Arc::clone(&spec.listener.name),
                        setting: "listen",
                        cause: error.into(),
                    }),
                }
            }
            match shared(before, spec).await {
                Ok(shared) => {
                    prepared.chains.push((spec.clone(), Change::Anew(all_held, shared)));
                }
                Err(error) => errors.push(StartError {
                    node: Arc::clone(&spec.router.name),
                    setting: "location",
                    cause: error.into(),
                }),
            }
        }
        if errors.is_empty() {
            return Ok(prepared);
        }
        self.forget(prepared).await;
        Err(errors)
    }

    /// What was prepared is not put in force.
    pub(super) async fn forget(&self, prepared: Prepared) {
        for (spec, change) in prepared.chains {
            if let (Change::Router, Some(running)) = (change, self.running.get(&spec.listener.name))
            {
                running.adopt(false).await;
            }
        }
    }

    /// The sockets of an address: those that this process has already, or others. `keys` are all
    /// that the plan wants.
    fn bind(
        &self,
        key: String,
        listen: SipAddress,
        keys: &[String],
        inherited: &[TcpListener],
    ) -> Result<Rc<Held>, BindError> {
        let mut all = self.running.values().flat_map(|running| &running.chain.held);
        if let Some(held) = all.clone().find(|held| held.key == key) {
            return Ok(Rc::clone(held));
        }
        if let Some(held) = self.ending.held(&key) {
            return Ok(held);
        }
        // A listener that moves between an address and all addresses keeps its port all the while.
        let leaves = |held: &Rc<Held>| {
            held.address.transport == listen.transport
                && held.address.address.port() == listen.address.port()
                && !keys.contains(&held.key)
        };
        let beside = all.any(leaves);
        let (address, workers) = (listen.address, self.workers.len());
        Ok(Rc::new(match listen.transport {
            Transport::Udp if beside => Held::udp(key, bind::bind_udp_beside(address, workers)?),
            Transport::Udp => Held::udp(key, bind::bind_udp(address, workers)?),
            Transport::Tcp => {
                let options = ListenOptions { socket: SocketSettings::default(), backlog: BACKLOG };
                let same =
                    |socket: &&TcpListener| socket.local_addr().is_ok_and(|at| at == address);
                let bound = match inherited.iter().find(same) {
                    Some(socket) => bind::inherit(socket, &options, workers)?,
                    None if beside => bind::listen_beside(address, &options, workers)?,
                    None => bind::listen(address, &options, workers)?,
                };
                Held::tcp(key, bound)
            }
        }))
    }

    /// Puts a plan in force. Chains that it does not have, or not so, end; what was prepared takes
    /// their place. One whose sockets another takes over ends at once, and leaves its transactions to
    /// the one of its name: what comes in goes to one of both only. The others end once nothing lives
    /// in them any more, at the latest after the drain limit ([`Ending::drained`]).
    pub(super) async fn install(&mut self, plan: &Plan, prepared: Prepared) {
        let specs = specs(plan);
        let anew = |name: &Arc<str>| {
            let is = |(spec, change): &(Spec, Change)| {
                spec.listener.name == *name && matches!(change, Change::Anew(..))
            };
            prepared.chains.iter().any(is)
        };
        let planned = |name: &Arc<str>| specs.iter().any(|spec| spec.listener.name == *name);
        let taken: Vec<_> = prepared.chains.iter().flat_map(|(_, change)| change.held()).collect();
        let taken: Vec<Rc<Held>> = taken.into_iter().map(Rc::clone).collect();
        let ending: Vec<_> =
            self.running.extract_if(|name, _| !planned(name) || anew(name)).collect();
        let by = Instant::now() + plan.service.drain_timeout.duration();
        self.ending.end(|chain| chain.shares(&taken)).await;
        for (name, running) in ending {
            self.board.registry.sip().remove(&name);
            let chain = running.chain;
            if chain.shares(&taken) {
                chain.hand_over().await;
            } else {
                // It refuses calls from here on, whenever it is looked after.
                chain.is_drained().await;
                self.ending.add(chain, by);
            }
        }
        for (spec, change) in prepared.chains {
            match change {
                Change::Anew(held, shared) => self.start(spec, held, shared).await,
                Change::Router => {
                    if let Some(running) = self.running.get_mut(&spec.listener.name) {
                        running.adopt(true).await;
                        running.spec = spec;
                    }
                }
            }
        }
    }

    async fn start(&mut self, spec: Spec, held: Vec<Rc<Held>>, shared: Arc<SipShared>) {
        let Some((listener, router)) = spec.settings() else { return };
        let metrics =
            |node: &NodePlan| self.board.metrics.node(&node.name, node.settings.type_name());
        let (carried, routed) = (metrics(&spec.listener), metrics(&spec.router));
        let workers = u16::try_from(self.workers.len()).unwrap_or(u16::MAX);
        let site =
            SipSite::new(workers, listener, &carried, &routed, Arc::clone(&shared), self.seed);
        let Some(site) = site else { return };
        let addresses: Vec<_> = held.iter().map(|held| held.address.address).collect();
        // The router says on each worker whether its script runs.
        let health = self.board.health.sole(&spec.listener.name);

        let starts = self.workers.iter().enumerate().map(|(index, worker)| {
            let own = listener.own(&addresses);
            let copies = copies(&held, index);
            let (router, name) = (Arc::clone(router), Arc::clone(&spec.router.name));
            let (listener, site) = (Arc::new(listener.clone()), Arc::clone(&site));
            async move {
                let (udp, tcp) = copies.map_err(|error| error.to_string())?;
                let start = RouterStart {
                    listener_settings: listener,
                    router: name,
                    router_settings: router,
                    own,
                    udp,
                    tcp,
                    site,
                };
                let started = worker.send(HostSip(start)).await;
                let started = started.map_err(|_| format!("worker {index} does not answer"))?;
                started.map_err(|error| error.to_string())
            }
        });
        let mut handles = Vec::with_capacity(self.workers.len());
        let mut failed = None;
        for started in join_all(starts).await {
            match started {
                Ok(handle) => handles.push(handle),
                Err(why) => failed = Some(why),
            }
        }
        for held in &held {
            let (address, transport) = (held.address.address, held.address.transport.word());
            tracing::info!(node = %spec.listener.name, %address, transport, "listening");
        }
        if let Some(why) = failed {
            tracing::error!(node = %spec.router.name, "not started: {why}");
            health.not_ready(format!("it is not started: {why}"));
        } else {
            health.ready();
        }
        self.board.registry.sip().insert(SipView {
            listener: Arc::clone(&spec.listener.name),
            router: Arc::clone(&spec.router.name),
            listen: held.iter().map(|held| held.address).collect(),
            carried: Arc::clone(&site.transport_metrics),
            routed: Arc::clone(&site.router_metrics),
            transactions: AskTransactions::of(handles.clone()),
        });
        let name = Arc::clone(&spec.listener.name);
        let chain = Rc::new(Chain { held, handles });
        self.running.insert(name, Running { spec, chain, shared, _health: health });
    }

    /// Refuses calls that would begin, and ends once nothing lives any more, at most after `limit`.
    /// Then nothing is received; what was decided is sent.
    pub(super) async fn stop(&mut self, limit: Duration) {
        let by = Instant::now() + limit;
        self.ending.hurry(by);
        let mut bindings = Vec::new();
        for running in std::mem::take(&mut self.running).into_values() {
            bindings.push(Arc::clone(&running.shared.locations));
            self.ending.add(running.chain, by);
        }
        self.ending.clone().drained().await;
        let flush = move || bindings.iter().all(|locations| locations.flush(FLUSH));
        if !matches!(tokio::task::spawn_blocking(flush).await, Ok(true)) {
            tracing::error!("the last bindings are not written");
        }
    }

    /// Chains that a reload took out.
    pub(super) fn ending(&self) -> Ending {
        self.ending.clone()
    }
}

/// What the scripts of a chain that is built share: what they have already, if it is of this router
/// and keeps its bindings where it did; else bindings that are there. A file is read beside
/// everything else.
async fn shared(before: Option<&Running>, spec: &Spec) -> Result<Arc<SipShared>, LocationError> {
    let is_same = |running: &&Running| {
        running.spec.router.name == spec.router.name && running.spec.location() == spec.location()
    };
    if let Some(running) = before.filter(is_same) {
        return Ok(Arc::clone(&running.shared));
    }
    let Some(location) = spec.location().cloned() else { return Ok(Arc::default()) };
    let opened = tokio::task::spawn_blocking(move || Locations::open(&location)).await;
    let locations = opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
    Ok(Arc::new(SipShared::with(locations)))
}

type Copies = (Vec<(SocketId, UdpSocket)>, Vec<(SocketId, TcpListener)>);

/// The sockets of one worker.
fn copies(held: &[Rc<Held>], worker: usize) -> io::Result<Copies> {
    let (mut udp, mut tcp) = (Vec::new(), Vec::new());
    for (place, held) in (0..).map(SocketId).zip(held) {
        match &held.sockets {
            Sockets::Udp(sockets) => udp.push((place, sockets[worker].try_clone()?)),
            Sockets::Tcp(sockets) => tcp.push((place, sockets[worker].try_clone()?)),
        }
    }
    Ok((udp, tcp))
}
