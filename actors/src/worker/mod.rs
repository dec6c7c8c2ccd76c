//! A worker: one thread with its own event loop, and the lines that live and die on it.

mod actor;
mod desk;
mod lag;
mod leases;
mod reporter;
pub mod timers;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Recipient};
use lineway_wire::line::{Direction, FinishReason, LineKind};

pub use actor::{
    Answer, AnswerWith, Control, HostSip, HostSocket, Install, ListenAt, WorkerActor, WorkerHandle,
};
pub use reporter::Reporter;
pub use timers::Timers;

use leases::Lessees;

use crate::descriptors::{Descriptors, Permit};
use crate::dns::Names;
use crate::health::Health;
use crate::line::{
    Chain, ChildLine, End, LineParts, MainLine, Maker, Node, NodeRole, Pool, TesterClient, Testers,
};
use crate::listener::LineCount;
use crate::messages::{
    CandidateSays, CidLease, Closed, DeadlineKind, Expired, Finish, ParentSays, Report, Snapshot,
    TakeNoMore, WatchAgain,
};
use crate::metrics::{ActorKind, Metrics, WorkerMetrics};
use crate::mux::{Again, Membership, Mux, MuxParent, Returns, Stream};
use crate::net::Network;
use crate::registry::{LineId, LineView, Registry};
use crate::settings::TesterSettings;
use crate::sip::transaction::{Entry, Home};
use crate::socket::{Inproc, SocketEnv, Total};
use crate::spawn;
use crate::supervisor::SupervisorHandle;

/// What all workers of a process share. Everything in it may be used from any thread and is never
/// locked on the path of a payload.
#[derive(Clone)]
pub struct Board {
    /// The counters.
    pub metrics: Metrics,
    /// The live lines, for people.
    pub registry: Registry,
    /// Whether the service lives and can serve.
    pub health: Health,
    /// Descriptors that lines may use.
    pub descriptors: Descriptors,
    /// How tester lines went.
    pub testers: Testers,
    /// What all message sockets together have queued (B-7).
    pub total: Arc<Total>,
    /// The inproc endpoints of the message sockets.
    pub inproc: Inproc,
    /// The supervisor, whichever one it is at the time.
    pub supervisor: SupervisorHandle,
}

/// One worker, as everything on its thread uses it.
pub struct Worker {
    /// Its place among the workers, from 0.
    pub index: u16,
    /// What all workers share.
    pub board: Board,
    /// Its own counters.
    pub metrics: Arc<WorkerMetrics>,
    /// Its read buffers.
    pub pool: Pool,
    /// Its timers.
    pub timers: Rc<Timers>,
    /// What it has for the supervisor.
    pub reporter: Rc<Reporter>,
    /// Where its connections go.
    pub network: Rc<dyn Network>,
    /// How its names are resolved.
    pub names: RefCell<Rc<dyn Names>>,
    /// By number, so that lines are told things in the same order in every run.
    lines: RefCell<BTreeMap<u64, LiveLine>>,
    lessees: Lessees,
    /// SIP transactions: what the supervisor says of the deadlines of their branches goes there.
    transactions: RefCell<HashMap<u64, Rc<Entry>>>,
    /// What a SIP chain that ended has left to the one that takes its place.
    parked_sip: RefCell<Vec<Rc<Home>>>,
    numbers: Cell<u64>,
    drains: Cell<bool>,
    /// `drain-timeout-ms`, for a parent that an operator drains.
    pub drain_timeout: Cell<Duration>,
}

/// Where a line is reached.
#[derive(Clone)]
enum Address {
    Main(Addr<MainLine>),
    Child(Addr<ChildLine>),
    Parent(Addr<MuxParent>),
}

impl Address {
    fn tell<M>(&self, message: M)
    where
        M: actix::Message<Result = ()> + Send + 'static,
        MainLine: actix::Handler<M>,
        ChildLine: actix::Handler<M>,
        MuxParent: actix::Handler<M>,
    {
        match self {
            Self::Main(line) => line.do_send(message),
            Self::Child(line) => line.do_send(message),
            Self::Parent(line) => line.do_send(message),
        }
    }
}

struct LiveLine {
    addr: Address,
    view: Arc<LineView>,
    chain: Rc<Chain>,
}

impl Worker {
    /// A worker without lines; spawns its timers, its reporter and its measuring of lag onto the
    /// thread's `LocalSet`.
    pub fn start(
        index: u16,
        board: Board,
        network: Rc<dyn Network>,
        names: Rc<dyn Names>,
    ) -> Rc<Self> {
        let metrics = board.metrics.worker(index);
        let worker = Rc::new(Self {
            index,
            pool: Pool::new(),
            timers: Rc::new(Timers::default()),
            reporter: Rc::new(Reporter::new(index, board.supervisor.clone())),
            network,
            names: RefCell::new(names),
            lines: RefCell::default(),
            lessees: Lessees::default(),
            transactions: RefCell::default(),
            parked_sip: RefCell::default(),
            numbers: Cell::new(0),
            drains: Cell::new(false),
            drain_timeout: Cell::new(Duration::from_secs(10)),
            board,
            metrics,
        });
        tokio::task::spawn_local(Rc::clone(&worker.timers).drive());
        tokio::task::spawn_local(Rc::clone(&worker.reporter).drive());
        tokio::task::spawn_local(lag::measure(Rc::clone(&worker)));
        worker
    }

    /// What message sockets need that live here.
    pub fn socket_env(&self) -> SocketEnv {
        SocketEnv {
            network: Rc::clone(&self.network),
            names: Rc::clone(&self.names.borrow()),
            inproc: self.board.inproc.clone(),
            actors: self.board.metrics.actors().clone(),
            total: Arc::clone(&self.board.total),
        }
    }

    /// Starts a main line of this chain; its actor runs from the next turn on.
    pub fn open_main_line(
        self: &Rc<Self>,
        chain: &Rc<Chain>,
        near: End,
        peer: Option<SocketAddr>,
        descriptors: Option<Permit>,
        count: Option<LineCount>,
    ) -> LineId {
        self.open(chain, near, peer, (descriptors, count), None)
    }

    fn open(
        self: &Rc<Self>,
        chain: &Rc<Chain>,
        near: End,
        peer: Option<SocketAddr>,
        (descriptors, count): (Option<Permit>, Option<LineCount>),
        limit: Option<(DeadlineKind, Duration)>,
    ) -> LineId {
        let id = self.next_id();
        let node = Arc::clone(&chain.entry.plan.name);
        let view = Arc::new(LineView::new(id, LineKind::Main, node, None, peer));
        if chain.is_parent {
            near.become_parent();
        }
        let parts = self.parts(chain, near, &view);
        if chain.is_parent {
            let parent = MuxParent::new(self, parts, None, descriptors, count);
            self.start_parent(parent, &view, chain);
            return id;
        }
        let mut line = MainLine::new(self, parts, descriptors, count);
        if let Some((kind, limit)) = limit {
            line.line().limit(kind, timers::now() + limit);
        }
        let addr = spawn::start(ActorKind::MainLine, self.board.metrics.actors(), |_| line, |_| {});
        self.enter(&view, Address::Main(addr), chain);
        id
    }

    fn enter(&self, view: &Arc<LineView>, addr: Address, chain: &Rc<Chain>) {
        let live = LiveLine { addr, view: Arc::clone(view), chain: Rc::clone(chain) };
        self.lines.borrow_mut().insert(view.id.number, live);
    }

    fn start_parent(
        &self,
        parent: MuxParent,
        view: &Arc<LineView>,
        chain: &Rc<Chain>,
    ) -> Addr<MuxParent> {
        let actors = self.board.metrics.actors();
        let addr = spawn::start(ActorKind::MuxParent, actors, |_| parent, |_| {});
        self.enter(view, Address::Parent(addr.clone()), chain);
        addr
    }

    /// Starts a parent of a MuxClient (M13), whose children come by this pool.
    pub(crate) fn open_parent(
        self: &Rc<Self>,
        chain: &Rc<Chain>,
        node: &Rc<Node>,
        membership: Membership,
        returns: Arc<Returns>,
        line: &Rc<Cell<LineId>>,
    ) -> Addr<MuxParent> {
        let again = Again { chain: Rc::clone(chain), retry: membership.parents().retry() };
        let limits = membership.parents().limits();
        let mux = Box::new(Mux::client(self, node, limits, membership, returns));
        let parts = self.parent_parts(chain, mux);
        let view = Arc::clone(&parts.view);
        // A parent is made for a client that is there already, so it is made in any case.
        let descriptor = self.board.descriptors.take(1);
        let mut parent = MuxParent::new(self, parts, Some(again), descriptor, None);
        parent.tell_line(line);
        self.start_parent(parent, &view, chain)
    }

    /// What the line of a MuxClient's parent is made of.
    pub(crate) fn parent_parts(self: &Rc<Self>, chain: &Rc<Chain>, mut mux: Box<Mux>) -> LineParts {
        let id = self.next_id();
        let node = Arc::clone(&chain.entry.plan.name);
        let view = Arc::new(LineView::new(id, LineKind::Parent, node, None, None));
        mux.set_marks(&view);
        self.parts(chain, End::Mux(mux), &view)
    }

    /// A parent has another line.
    pub(crate) fn parent_renewed(&self, before: LineId, view: &Arc<LineView>) {
        let live = self.lines.borrow_mut().remove(&before.number);
        if let Some(LiveLine { addr, chain, .. }) = live {
            if let Address::Parent(addr) = &addr {
                self.lessees.left(before);
                self.lessees.enter(view.id, addr.clone().recipient());
            }
            self.enter(view, addr, &chain);
        }
    }

    /// Starts the line of a child that the peer of a parent opened (M17). `None` when descriptors
    /// are out.
    pub(crate) fn open_stream(
        self: &Rc<Self>,
        chain: &Rc<Chain>,
        stream: Stream,
    ) -> Option<Recipient<ParentSays>> {
        let descriptor = match chain.end.role {
            NodeRole::Connector(_) | NodeRole::FisherClient { .. } => {
                Some(self.board.descriptors.take(1)?)
            }
            _ => None,
        };
        let id = self.next_id();
        let node = Arc::clone(&chain.entry.plan.name);
        let maker = stream.parent_line();
        let view = Arc::new(LineView::new(id, LineKind::Child, node, Some(maker), None));
        view.set_parent(maker);
        let parts = self.parts(chain, End::Stream(Box::new(stream)), &view);
        if chain.is_parent {
            // A mux within a mux: the child is a parent itself.
            let parent = MuxParent::new(self, parts, None, descriptor, None);
            return Some(self.start_parent(parent, &view, chain).recipient());
        }
        let child = ChildLine::of_parent(self, parts, descriptor);
        Some(self.start_child(child, &view, chain).recipient())
    }

    /// Where a parent reaches this line.
    pub(crate) fn home(&self, line: LineId) -> Option<Recipient<ParentSays>> {
        Some(match &self.lines.borrow().get(&line.number)?.addr {
            Address::Main(addr) => addr.clone().recipient(),
            Address::Child(addr) => addr.clone().recipient(),
            Address::Parent(addr) => addr.clone().recipient(),
        })
    }

    /// Parents take no further child: the worker drains. Those without one end, and those that a
    /// line of before still needs end with it.
    pub fn drain_parents(&self) {
        self.drains.set(true);
        for line in self.lines.borrow().values() {
            if let Address::Parent(addr) = &line.addr {
                addr.do_send(TakeNoMore);
            }
        }
    }

    /// Starts a candidate of this main line on the way that begins with its fisher.
    pub(crate) fn open_candidate(
        self: &Rc<Self>,
        chain: &Rc<Chain>,
        maker: Maker,
        descriptor: Option<Permit>,
    ) -> Addr<ChildLine> {
        let id = self.next_id();
        let node = Arc::clone(&chain.entry.plan.name);
        let view = Arc::new(LineView::new(id, LineKind::Child, node, Some(maker.line), None));
        let near = End::Fishing(Box::default());
        let parts = self.parts(chain, near, &view);
        self.start_child(ChildLine::new(self, parts, maker, descriptor), &view, chain)
    }

    fn start_child(
        &self,
        child: ChildLine,
        view: &Arc<LineView>,
        chain: &Rc<Chain>,
    ) -> Addr<ChildLine> {
        let actors = self.board.metrics.actors();
        let addr = spawn::start(ActorKind::ChildLine, actors, |_| child, |_| {});
        self.enter(view, Address::Child(addr.clone()), chain);
        addr
    }

    /// True once parents take no further child.
    pub(crate) const fn drains(&self) -> bool {
        self.drains.get()
    }

    /// The number of a line that is about to be made.
    pub(crate) fn next_id(&self) -> LineId {
        let number = self.numbers.get() + 1;
        self.numbers.set(number);
        LineId { worker: self.index, number }
    }

    fn parts(self: &Rc<Self>, chain: &Rc<Chain>, near: End, view: &Arc<LineView>) -> LineParts {
        let stages = chain.stages();
        let far = if stages.is_empty() { chain.begin_far(self) } else { End::Waiting };
        LineParts { view: Arc::clone(view), chain: Rc::clone(chain), near, stages, far }
    }

    /// A candidate tells the line that made it.
    pub(crate) fn tell_maker(&self, line: LineId, says: CandidateSays) {
        if let Some(live) = self.lines.borrow().get(&line.number) {
            live.addr.tell(says);
        }
    }

    /// A candidate is part of the line that made it: what is meant for it goes there.
    pub(crate) fn adopted(&self, candidate: LineId, line: LineId) {
        let mut lines = self.lines.borrow_mut();
        let Some(addr) = lines.get(&line.number).map(|live| live.addr.clone()) else {
            return;
        };
        if let Some(live) = lines.get_mut(&candidate.number) {
            live.addr = addr;
        }
    }

    /// Starts one line of a TesterClient.
    pub(crate) fn open_tester_line(
        self: &Rc<Self>,
        chain: &Rc<Chain>,
        settings: &TesterSettings,
        line: usize,
    ) {
        // Every line of the process has a flow of its own, as far as one byte can name it.
        let flow = (usize::from(self.index) * settings.lines + line) as u8;
        let near = End::TesterClient(Box::new(TesterClient::new(flow, settings.chunk_count)));
        let limit = settings.timeout.duration();
        self.open(chain, near, None, (None, None), Some((DeadlineKind::Tester, limit)));
    }

    /// Reports the end of a line of this chain (L08).
    pub(crate) fn closed(&self, chain: &Chain, view: &LineView, reason: FinishReason) {
        let lived = timers::now().saturating_duration_since(view.opened);
        chain.entry.metrics.closed(view.kind, reason, lived);
        self.reporter.report(Report::Closed(Closed { id: view.id, reason }));
        tracing::debug!(
            line = %view.id,
            node = %view.node,
            %reason,
            upstream = view.bytes(Direction::Upstream),
            downstream = view.bytes(Direction::Downstream),
            "line closed"
        );
    }

    /// A line's actor is gone.
    pub(crate) fn line_gone(&self, id: LineId) {
        self.lines.borrow_mut().remove(&id.number);
        self.lessees.left(id);
    }

    /// How many lines live here.
    pub fn line_count(&self) -> usize {
        self.lines.borrow().len()
    }

    /// Asks one line to end; false if there is none of this id.
    pub fn finish_line(&self, id: LineId, reason: FinishReason) -> bool {
        let lines = self.lines.borrow();
        let line = lines.get(&id.number).filter(|_| id.worker == self.index);
        line.map(|line| line.addr.tell(Finish { reason })).is_some()
    }

    /// Asks main lines to end, and with each its candidates: all, or those of chains that were
    /// retired by a reload.
    pub fn finish_lines(&self, reason: FinishReason, which: impl Fn(&Chain) -> bool) -> usize {
        let lines = self.lines.borrow();
        let main = |line: &&LiveLine| line.view.kind != LineKind::Child;
        let chosen = lines.values().filter(main).filter(|line| which(&line.chain));
        chosen.map(|line| line.addr.tell(Finish { reason })).count()
    }

    /// Passes an expired deadline on to its line.
    pub fn expired(&self, expired: Expired) {
        if let Some(line) = self.lines.borrow().get(&expired.id.number) {
            return line.addr.tell(expired);
        }
        let transaction = self.transactions.borrow().get(&expired.id.number).cloned();
        if let Some(transaction) = transaction {
            transaction.expired(expired, &self.reporter, timers::now());
        }
    }

    /// Enters a SIP transaction, whose branches have their deadlines watched under its line's name.
    pub(crate) fn enter_transaction(&self, transaction: &Rc<Entry>) {
        let number = transaction.line.number;
        self.transactions.borrow_mut().insert(number, Rc::clone(transaction));
    }

    /// A SIP transaction is gone.
    pub(crate) fn transaction_gone(&self, transaction: &Entry) {
        self.transactions.borrow_mut().remove(&transaction.line.number);
    }

    /// Keeps the transactions of a router that ends for the one that takes its place.
    pub(crate) fn park_sip(&self, home: Rc<Home>) {
        let mut parked = self.parked_sip.borrow_mut();
        parked.retain(|other| other.node != home.node);
        parked.push(home);
    }

    /// The transactions that the router of this name has left.
    pub(crate) fn parked_sip(&self, node: &str) -> Option<Rc<Home>> {
        let mut parked = self.parked_sip.borrow_mut();
        let place = parked.iter().position(|home| *home.node == *node)?;
        Some(parked.swap_remove(place))
    }

    /// Enters a mux parent: its leases of cids go to this recipient, until its line is gone (M08).
    pub fn lessee(&self, id: LineId, recipient: Recipient<CidLease>) {
        self.lessees.enter(id, recipient);
    }

    /// Asks for the next lease of a parent that was [entered](Self::lessee) and takes `most`
    /// children in all. The answer comes as a [`CidLease`], also when the supervisor or the
    /// worker's actor is started again: the parent never asks twice for one lease.
    pub fn lease_cids(&self, parent: &Arc<LineView>, most: u32) {
        self.reporter.report(Report::LeaseCids(self.lessees.ask(parent, most)));
    }

    /// Passes a lease on to its parent.
    pub fn leased(&self, lease: CidLease) {
        self.lessees.pass_on(lease);
    }

    /// Tells a supervisor that was started again of every live line; each line then watches its
    /// deadline again.
    pub fn account(&self) {
        let lines = self.lines.borrow();
        self.reporter.snapshot(Snapshot {
            worker: self.index,
            lines: lines.values().map(|line| Arc::clone(&line.view)).collect(),
            deadlines: Vec::new(),
            leases: self.lessees.outstanding(),
        });
        for line in lines.values() {
            line.addr.tell(WatchAgain);
        }
        for transaction in self.transactions.borrow().values() {
            transaction.watch_again(&self.reporter);
        }
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("index", &self.index).finish_non_exhaustive()
    }
}
