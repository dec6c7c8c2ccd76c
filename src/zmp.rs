#![doc = include_str!("../docs/library.md")]

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use lineway_actors::dns::Resolver;
use lineway_actors::metrics::Metrics;
use lineway_actors::net::KernelNetwork;
use lineway_actors::settings::DnsSettings;
use lineway_wire::units::Millis;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

pub use lineway_actors::socket::{
    Dealer, Monitor, Poller, Received, RecvIntoError, ReplyError, ReplyToken, RequestError, Router,
    SendError, Socket, SocketOptions, Timing,
};
pub use lineway_wire::zmp::core::{
    Completion, CompletionId, ConnectionId, DuplicatePolicy, FlowState, Outcome, Readiness,
    Rejection, ReplyId, Weight,
};
pub use lineway_wire::zmp::outcome::{
    BindError, BindResult, CloseError, CloseResult, ConfigError, ConfigResult, ConnectError,
    ConnectResult, Errno, RecvError, RecvResult, RequestResult, SubmitError, SubmitResult,
};
pub use lineway_wire::zmp::{Lane, Record, RoutingId, SocketKind, monitor, status};

use lineway_actors::socket::{Inproc, SocketEnv, Total, Unstarted};

/// How long one question to one name server may take.
const DNS_TIMEOUT: Millis = Millis::new(2000);

/// One thread that carries sockets. `inproc://` names are known to the sockets of one context.
///
/// A clone is the same context. When the last clone and the last socket are gone, the thread ends;
/// [`Context::join`] waits for that.
#[derive(Clone, Debug)]
pub struct Context {
    sockets: mpsc::UnboundedSender<Unstarted>,
    total: Arc<Total>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Context {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread or no descriptors for it.
    pub fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let total = Arc::new(Total::new(0));
        let (sockets, arrivals) = mpsc::unbounded_channel();
        let shared = Arc::clone(&total);
        let work = move || {
            let local = LocalSet::new();
            runtime.block_on(local.run_until(carry(arrivals, shared)));
            // Sockets that are left write what they have queued, within their linger.
            runtime.block_on(local);
        };
        let thread = thread::Builder::new().name("lineway-zmp".into()).spawn(work)?;
        Ok(Self { sockets, total, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// A DEALER.
    pub fn dealer(&self, options: SocketOptions) -> Dealer {
        let (dealer, unstarted) = Dealer::new(options, Arc::clone(&self.total));
        self.start(unstarted);
        dealer
    }

    /// A ROUTER.
    pub fn router(&self, options: SocketOptions) -> Router {
        let (router, unstarted) = Router::new(options, Arc::clone(&self.total));
        self.start(unstarted);
        router
    }

    /// What all sockets of the context may have queued together, in bytes; 0 = no limit. Above it
    /// nothing is read from the peers.
    pub fn set_total_queue(&self, bytes: u64) {
        self.total.set_limit(bytes);
    }

    /// Waits, on this thread, until every socket of the context is over and all that they had
    /// queued is with the system. To be called when every [`Dealer`] and [`Router`] is closed or
    /// dropped, and no other clone of the context is left: otherwise it does not end.
    pub fn join(self) {
        let Self { sockets, thread, .. } = self;
        drop(sockets);
        let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of one actor does not reach the thread; one of the thread is told there.
            let _ = thread.join();
        }
    }

    fn start(&self, unstarted: Unstarted) {
        // A context whose thread has ended has none but closed sockets.
        let _ = self.sockets.send(unstarted);
    }
}

/// Starts every socket that comes.
async fn carry(mut arrivals: mpsc::UnboundedReceiver<Unstarted>, total: Arc<Total>) {
    let dns = DnsSettings { servers: Vec::new(), timeout: DNS_TIMEOUT };
    let env = SocketEnv {
        network: Rc::new(KernelNetwork),
        names: Rc::new(Resolver::new(&dns)),
        inproc: Inproc::default(),
        actors: Metrics::new(env!("CARGO_PKG_VERSION")).actors().clone(),
        total,
    };
    while let Some(unstarted) = arrivals.recv().await {
        unstarted.start(&env);
    }
}

/// Waits for a future on this thread, which has no runtime.
///
/// ```
/// # use lineway::zmp::block_on;
/// assert_eq!(block_on(async { 6 * 7 }), 42);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}
