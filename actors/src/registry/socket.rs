//! What a message socket shows of itself.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use dashmap::DashMap;
use lineway_wire::zmp::Charge;
use lineway_wire::zmp::broker;
use lineway_wire::zmp::core::{CoreOptions, FlowState};
use lineway_wire::zmp::status::{Counters, PeerStatus, Status};

use crate::metrics::SocketNow;
use crate::socket::Shared;

/// How what answers a socket stands.
pub type Answers = Arc<dyn Fn() -> broker::Status + Send + Sync>;

/// One message socket as others may see it. Looking takes its lock for a moment.
pub struct SocketView {
    /// Its number in the process, counted from 1 and never used twice.
    pub number: u64,
    /// The node that it is.
    pub node: Arc<str>,
    /// The node's type as written in the configuration.
    pub type_name: &'static str,
    /// The worker that it lives on.
    pub worker: u16,
    /// When it was made, for ages.
    pub opened: Instant,
    /// When it was made, for people.
    pub opened_at: SystemTime,
    /// What it connects to.
    pub connect: Vec<String>,
    shared: Arc<Shared>,
    bound: Mutex<Vec<Arc<str>>>,
    closing: AtomicBool,
    answers: Mutex<Option<Answers>>,
}

/// A message socket at one moment.
#[derive(Clone, Debug)]
pub struct SocketSnapshot {
    /// Its options: kind, routing id, weight, limits.
    pub options: CoreOptions,
    /// How it stands (4.7).
    pub status: Status,
    /// What it has counted.
    pub counters: Counters,
    /// What waits in it, both ways (4.2).
    pub queued: Charge,
    /// The state that it asked of its peers, with the epoch of that; `None` while it never did.
    pub flow: Option<(FlowState, NonZeroU64)>,
    /// Replies that it owes.
    pub replies_owed: usize,
    /// Its peers.
    pub peers: Vec<PeerStatus>,
    /// How what answers it stands, for a `RouterSocket`.
    pub answers: Option<broker::Status>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SocketView {
    /// A socket that was just made for this node.
    pub fn new(
        node: Arc<str>,
        type_name: &'static str,
        worker: u16,
        connect: Vec<String>,
        shared: Arc<Shared>,
    ) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            number: NUMBERS.fetch_add(1, Relaxed),
            node,
            type_name,
            worker,
            opened: tokio::time::Instant::now().into_std(),
            opened_at: SystemTime::now(),
            connect,
            shared,
            bound: Mutex::default(),
            closing: AtomicBool::new(false),
            answers: Mutex::default(),
        }
    }

    /// The endpoints that it is bound to, with the places that the system chose.
    pub fn bound(&self) -> Vec<Arc<str>> {
        lock(&self.bound).clone()
    }

    /// It is bound to one more.
    pub fn add_bound(&self, endpoint: Arc<str>) {
        lock(&self.bound).push(endpoint);
    }

    /// It accepts nobody any more; gives the endpoints that it was bound to.
    pub fn take_bound(&self) -> Vec<Arc<str>> {
        std::mem::take(&mut lock(&self.bound))
    }

    /// It is on its way out: it was removed or changed, or the service stops.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Relaxed)
    }

    /// Notes that it is on its way out.
    pub fn set_closing(&self) {
        self.closing.store(true, Relaxed);
    }

    /// Notes who answers it.
    pub fn set_answers(&self, answers: Answers) {
        *lock(&self.answers) = Some(answers);
    }

    fn answers(&self) -> Option<broker::Status> {
        let answers = lock(&self.answers).clone();
        answers.map(|answers| answers())
    }

    /// Whether it is bound, and whether a peer is ready.
    pub fn status(&self) -> Status {
        self.shared.with(|core| core.status())
    }

    /// The socket itself.
    #[cfg(test)]
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Everything at this moment.
    pub fn snapshot(&self) -> SocketSnapshot {
        let answers = self.answers();
        self.shared.with(|core| SocketSnapshot {
            options: core.options().clone(),
            status: core.status(),
            counters: *core.counters(),
            queued: core.queued(),
            flow: core.receive_flow_state(),
            replies_owed: core.replies_owed(),
            peers: core.peers(),
            answers,
        })
    }

    /// What the metrics want of it.
    pub fn now(&self) -> SocketNow {
        let (broker, handshakes) = (self.answers(), self.shared.handshakes_failed());
        self.shared.with(|core| SocketNow {
            counters: *core.counters(),
            status: core.status(),
            queued: core.queued(),
            weights: core.peer_weights(),
            handshakes,
            broker,
        })
    }
}

impl std::fmt::Debug for SocketView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SocketView({} {})", self.number, self.node)
    }
}

/// Every message socket of the process, those on their way out included.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    sockets: Arc<DashMap<u64, Arc<SocketView>>>,
}

impl Sockets {
    /// Enters a socket.
    pub fn insert(&self, socket: Arc<SocketView>) {
        self.sockets.insert(socket.number, socket);
    }

    /// Takes a socket out.
    pub fn remove(&self, number: u64) {
        self.sockets.remove(&number);
    }

    /// Every socket, by node and then by age.
    pub fn snapshot(&self) -> Vec<Arc<SocketView>> {
        let mut sockets: Vec<_> = self.sockets.iter().map(|e| Arc::clone(e.value())).collect();
        sockets.sort_unstable_by(|a, b| (&a.node, a.number).cmp(&(&b.node, b.number)));
        sockets
    }
}
