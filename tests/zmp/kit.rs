//! Sockets of the library under test, each with its monitor, and raw peers that it connects to.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use lineway::zmp::monitor::{ALL_EVENTS, Event, EventKind};
use lineway::zmp::{
    Context, Dealer, Errno, Monitor, Record, RecvError, RecvResult, Router, RoutingId, SendError,
    Socket, SocketKind, SocketOptions, SubmitResult,
};
use socket2::{Domain, Type};

use crate::common::{PATIENCE, until};
use crate::raw::{Peer, listen};

/// Larger than all that the system takes of a connection that nobody reads.
pub(crate) const HUGE: usize = 24 << 20;

pub(crate) fn id(text: &str) -> RoutingId {
    text.parse().expect("a routing id")
}

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A record of these parts.
pub(crate) fn parts(parts: &[&str]) -> Record {
    Record::from_parts(parts.iter().map(|part| part.to_string().into())).expect("a part")
}

/// Waits for a future on this thread, in time.
#[track_caller]
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let timed = async { tokio::time::timeout(PATIENCE, future).await };
    runtime.expect("a runtime").block_on(timed).expect("it ends in time")
}

/// Begins something that has to wait, and goes on with it on a thread of its own.
#[track_caller]
pub(crate) fn begin<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let mut future = Box::pin(future);
    let mut cx = TaskContext::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut cx).is_pending(), "it did not wait");
    std::thread::spawn(move || wait(future))
}

/// Polls once.
pub(crate) fn is_pending<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> bool {
    future.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_pending()
}

/// A socket under test.
pub(crate) struct Under<S> {
    pub(crate) socket: S,
    monitor: Mutex<(Monitor, VecDeque<Event>)>,
}

impl<S: Deref<Target = Socket>> Under<S> {
    pub(crate) fn new(socket: S) -> Self {
        let monitor = socket.monitor(ALL_EVENTS).expect("nobody else watches");
        Self { socket, monitor: Mutex::new((monitor, VecDeque::new())) }
    }

    /// The next event of this kind that was not looked at.
    #[track_caller]
    pub(crate) fn event(&self, kind: EventKind) -> Event {
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        let (monitor, queue) = &mut *monitor;
        loop {
            if let Some(at) = queue.iter().position(|event| event.kind == kind) {
                return queue.remove(at).expect("it is there");
            }
            queue.push_back(wait(monitor.next()).expect("the socket lives"));
        }
    }

    /// How many events of this kind came that were not looked at.
    pub(crate) fn events(&self, kind: EventKind) -> usize {
        let mut monitor = self.monitor.lock().unwrap_or_else(PoisonError::into_inner);
        let (monitor, queue) = &mut *monitor;
        queue.extend(std::iter::from_fn(|| monitor.try_next()));
        queue.iter().filter(|event| event.kind == kind).count()
    }

    /// Everything that was sent is with the system.
    #[track_caller]
    pub(crate) fn written(&self) {
        until("all of it is written", || {
            let waits = self.socket.status().send;
            waits.pending_bytes + waits.bytes_in_flight == 0
        });
    }

    /// Binds to a free port.
    #[track_caller]
    pub(crate) fn bound(&self) -> SocketAddr {
        let endpoint = wait(self.socket.bind("tcp://127.0.0.1:*")).expect("a free port");
        endpoint.strip_prefix("tcp://").expect("tcp").parse().expect("an address")
    }

    /// Connects to a raw peer, until it is ready.
    #[track_caller]
    pub(crate) fn peer(&self, kind: u8, id: &str) -> Far {
        self.peer_at(listen(), kind, id)
    }

    /// The same, with a listener of the test's own.
    #[track_caller]
    pub(crate) fn peer_at(
        &self,
        (listener, endpoint): (TcpListener, String),
        kind: u8,
        id: &str,
    ) -> Far {
        wait(self.socket.connect(&endpoint)).expect("an endpoint");
        let peer = Peer::accept(&listener, kind, id.as_bytes());
        self.event(EventKind::ConnectionReady);
        Far { peer: Some(peer), listener, endpoint, kind, id: id.to_owned() }
    }

    /// A raw peer that connects to the bound address, until it is ready.
    #[track_caller]
    pub(crate) fn accepts(&self, to: SocketAddr, kind: u8, id: &str) -> Peer {
        let peer = Peer::connect(to, kind, id.as_bytes());
        self.event(EventKind::ConnectionReady);
        peer
    }
}

impl<S> Deref for Under<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

fn options(kind: SocketKind, name: &str) -> SocketOptions {
    let mut options = SocketOptions::new(kind, id(name));
    options.linger = Some(Duration::ZERO);
    options.reconnect_interval = ms(20);
    // A test that waits in vain fails by its own clock.
    options.receive_timeout = Some(PATIENCE);
    options
}

/// A DEALER with a thread of its own.
pub(crate) fn dealer_with(name: &str, set: impl FnOnce(&mut SocketOptions)) -> Under<Dealer> {
    let mut options = options(SocketKind::Dealer, name);
    set(&mut options);
    Under::new(Context::new().expect("a thread").dealer(options))
}

pub(crate) fn dealer(name: &str) -> Under<Dealer> {
    dealer_with(name, |_| {})
}

/// A ROUTER with a thread of its own.
pub(crate) fn router_with(name: &str, set: impl FnOnce(&mut SocketOptions)) -> Under<Router> {
    let mut options = options(SocketKind::Router, name);
    set(&mut options);
    Under::new(Context::new().expect("a thread").router(options))
}

pub(crate) fn router(name: &str) -> Under<Router> {
    router_with(name, |_| {})
}

impl Under<Dealer> {
    /// Sends one part.
    #[track_caller]
    pub(crate) fn say(&self, part: impl Into<Record>) {
        wait(self.socket.send(part)).expect("it is taken");
    }

    /// Receives one part.
    #[track_caller]
    pub(crate) fn hear(&self) -> Vec<u8> {
        let record = wait(self.socket.recv()).expect("a record");
        assert_eq!(record.parts().len(), 1, "{record:?}");
        record.parts()[0].to_vec()
    }

    /// Everything that this peer sent before has been seen.
    #[track_caller]
    pub(crate) fn barrier(&self, peer: &mut Peer) {
        peer.data(&[b"barrier"]);
        assert_eq!(self.hear(), b"barrier");
    }

    /// Neither a record nor a completion is there.
    #[track_caller]
    pub(crate) fn has_nothing(&self) {
        assert_eq!(self.socket.try_recv(), Err(NOTHING));
        assert_eq!(self.socket.try_completion(), Err(NOTHING));
    }
}

impl Under<Router> {
    /// Receives one part, and from whom.
    #[track_caller]
    pub(crate) fn hear(&self) -> (String, Vec<u8>) {
        let got = wait(self.socket.recv()).expect("a record");
        assert_eq!(got.record.parts().len(), 1, "{got:?}");
        let from = String::from_utf8_lossy(got.from.as_bytes()).into_owned();
        (from, got.record.parts()[0].to_vec())
    }
}

/// Nothing is there at the moment.
pub(crate) const NOTHING: RecvError = RecvError::new(RecvResult::NoData, Errno::EAGAIN);

/// The result, errno and whether there is a token.
pub(crate) fn refusal(error: &SendError) -> (SubmitResult, Errno, bool) {
    (error.result(), error.errno(), error.token().is_some())
}

/// No room, and a token.
pub(crate) const BLOCKED: (SubmitResult, Errno, bool) =
    (SubmitResult::Backpressured, Errno::EAGAIN, true);

/// A raw peer that a socket under test connects to.
pub(crate) struct Far {
    peer: Option<Peer>,
    pub(crate) listener: TcpListener,
    pub(crate) endpoint: String,
    kind: u8,
    id: String,
}

impl Far {
    /// Ends the connection.
    pub(crate) fn leave<S: Deref<Target = Socket>>(&mut self, socket: &Under<S>) {
        self.peer = None;
        socket.event(EventKind::Disconnected);
    }

    /// Takes the connection that follows, until it is ready.
    #[track_caller]
    pub(crate) fn back<S: Deref<Target = Socket>>(&mut self, socket: &Under<S>) {
        self.peer = Some(Peer::accept(&self.listener, self.kind, self.id.as_bytes()));
        socket.event(EventKind::ConnectionReady);
    }

    /// Tells its weight, until it is known.
    #[track_caller]
    pub(crate) fn weighs<S: Deref<Target = Socket>>(&mut self, socket: &Under<S>, weight: u32) {
        self.send(&crate::raw::weight(weight));
        assert_eq!(socket.event(EventKind::PeerWeightChanged).value, u64::from(weight));
    }

    /// Asks for a pause, until that is known.
    #[track_caller]
    pub(crate) fn pauses<S: Deref<Target = Socket>>(&mut self, socket: &Under<S>, epoch: u64) {
        self.send(&crate::raw::flow_state(true, epoch));
        assert_eq!(socket.event(EventKind::SendFlowPaused).value, epoch);
    }

    /// Asks to go on, until that is known.
    #[track_caller]
    pub(crate) fn resumes<S: Deref<Target = Socket>>(&mut self, socket: &Under<S>, epoch: u64) {
        self.send(&crate::raw::flow_state(false, epoch));
        assert_eq!(socket.event(EventKind::SendFlowResumed).value, epoch);
    }
}

impl Deref for Far {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        self.peer.as_ref().expect("it is connected")
    }
}

impl DerefMut for Far {
    fn deref_mut(&mut self) -> &mut Peer {
        self.peer.as_mut().expect("it is connected")
    }
}

/// A listener whose connections take little that nobody reads.
pub(crate) fn listen_small() -> (TcpListener, String) {
    let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("an option");
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
    socket.listen(128).expect("it listens");
    let listener = TcpListener::from(socket);
    let endpoint = format!("tcp://{}", listener.local_addr().expect("an address"));
    (listener, endpoint)
}

/// Waits until one of the levels is there, in time.
pub(crate) fn level(poller: &mut lineway::zmp::Poller) -> lineway::zmp::Readiness {
    wait(poll_fn(|cx| match poller.poll_ready(cx) {
        Poll::Ready(levels) => Poll::Ready(levels),
        Poll::Pending => Poll::Pending,
    }))
}

/// Selection as section 2.2 has it, written down a second time.
pub(crate) struct Model(Vec<(char, i64, i64)>);

impl Model {
    pub(crate) fn new(peers: &[(char, i64)]) -> Self {
        let mut peers: Vec<_> = peers.iter().map(|&(id, weight)| (id, weight, 0)).collect();
        peers.sort_unstable();
        Self(peers)
    }

    /// Who gets the next record while these take none.
    pub(crate) fn next(&mut self, out: &str) -> char {
        let mut best: Option<usize> = None;
        let mut sum = 0;
        for at in 0..self.0.len() {
            let (id, weight, accumulator) = &mut self.0[at];
            if out.contains(*id) || *weight == 0 {
                continue;
            }
            *accumulator += *weight;
            sum += *weight;
            let accumulator = *accumulator;
            if best.is_none_or(|best| accumulator > self.0[best].2) {
                best = Some(at);
            }
        }
        let best = &mut self.0[best.expect("a candidate")];
        best.2 -= sum;
        best.0
    }

    /// A peer that came back.
    pub(crate) fn again(&mut self, id: char, weight: i64) {
        let peer = self.0.iter_mut().find(|peer| peer.0 == id).expect("it is known");
        (peer.1, peer.2) = (weight, 0);
    }

    /// A peer told another weight.
    pub(crate) fn weighs(&mut self, id: char, weight: i64) {
        self.0.iter_mut().find(|peer| peer.0 == id).expect("it is known").1 = weight;
    }
}

/// Sends so many records, one after the other, and finds each at the peer that the model names.
#[track_caller]
pub(crate) fn follows(
    dealer: &Under<Dealer>,
    model: &mut Model,
    peers: &mut [(char, &mut Far)],
    out: &str,
    records: usize,
) -> String {
    let mut order = String::new();
    for number in 0..records {
        let text = format!("{number} of {records}");
        dealer.say(text.clone());
        let expected = model.next(out);
        let peer = peers.iter_mut().find(|peer| peer.0 == expected).expect("it is there");
        let record = peer.1.record_within(Duration::from_secs(5));
        let record = record.unwrap_or_else(|| panic!("{text} is not at {expected}, {order}"));
        assert_eq!(record.single(), text.as_bytes(), "at {expected}, {order}");
        order.push(expected);
    }
    order
}
