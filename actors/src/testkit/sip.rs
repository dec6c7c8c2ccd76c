//! A worker that carries SIP over real sockets on 127.0.0.1. The test plays the owners of the calls,
//! and everybody else.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lineway_wire::sip::message::Limits;
use lineway_wire::sip::own::{Own, Socket, SocketId, Transport};
use lineway_wire::sip::stream::{StreamError, StreamFault};
use lineway_wire::units::Millis;
use tokio::time::timeout;

use super::{Arrivals, Kit};
use crate::metrics::SipListenerMetrics;
use crate::net::{Acceptor, KernelNetwork, ListenOptions, bind};
use crate::settings::SocketSettings;
use crate::sip::back::Way;
use crate::sip::ring::{Arrival, RingLimits, Rings};
use crate::sip::transport::{Connections, TransportStart, Transports};

/// Longer than anything takes that comes at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of the first connection: numbers begin again from 0 soon after it.
pub const FIRST: u32 = u32::MAX - 1;

/// How a [`SipKit`] is made.
#[derive(Clone, Copy, Debug)]
pub struct SipKitOptions {
    /// Workers that own calls. All sockets are of the first.
    pub workers: u16,
    /// Datagram sockets, which come before the listening sockets.
    pub udp: u16,
    /// Listening sockets.
    pub tcp: u16,
    /// Limits of each ring.
    pub ring: RingLimits,
    /// Limits of a message.
    pub limits: Limits,
    /// `tcp-idle-timeout-ms`.
    pub idle: Millis,
    /// `max-connections`.
    pub connections: u32,
    /// How long a connect may take.
    pub connect_timeout: Duration,
}

impl Default for SipKitOptions {
    fn default() -> Self {
        Self {
            workers: 1,
            udp: 1,
            tcp: 1,
            ring: RingLimits::default(),
            limits: Limits::default(),
            idle: Millis::new(0),
            connections: 100,
            connect_timeout: PATIENCE,
        }
    }
}

/// The transports of a node named `sip` on one worker.
pub struct SipKit {
    /// The worker.
    pub kit: Kit,
    /// Its sockets.
    pub transports: Rc<Transports>,
    /// The sockets by number.
    pub own: Rc<Own>,
    /// Where what comes in goes.
    pub rings: Arc<Rings>,
    /// The connections.
    pub connections: Arc<Connections>,
    /// What is counted.
    pub counters: Arc<SipListenerMetrics>,
}

impl SipKit {
    /// Binds and starts.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`, or when there is no socket to be had.
    pub fn start(options: SipKitOptions) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut own = Own::default();
        let mut udp = Vec::new();
        for _ in 0..options.udp {
            let bound = bind::bind_udp(any, 1).expect("a datagram socket");
            let id = add(&mut own, Transport::Udp, bound.address);
            udp.extend(bound.sockets.into_iter().map(|socket| (id, socket)));
        }
        let mut tcp = Vec::new();
        for _ in 0..options.tcp {
            let listen = ListenOptions { socket: SocketSettings::default(), backlog: 64 };
            let bound = bind::listen(any, &listen, 1).expect("a listening socket");
            let id = add(&mut own, Transport::Tcp, bound.address);
            tcp.extend(bound.sockets.into_iter().map(|socket| (id, socket)));
        }
        Self::build(Kit::on(Rc::new(KernelNetwork)), options, own, udp, tcp, Vec::new())
    }

    /// A node whose only socket is a listening one, 0, at which the test plays the clients; it plays
    /// the servers in the network of the kit, too. For paused time.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn scripted(kit: Kit, options: SipKitOptions) -> (Self, Arrivals) {
        let (acceptor, arrivals) = Arrivals::new();
        let mut own = Own::default();
        let id = add(&mut own, Transport::Tcp, ([192, 0, 2, 9], 5060).into());
        let acceptors = vec![(id, acceptor)];
        (Self::build(kit, options, own, Vec::new(), Vec::new(), acceptors), arrivals)
    }

    fn build(
        kit: Kit,
        options: SipKitOptions,
        own: Own,
        udp: Vec<(SocketId, std::net::UdpSocket)>,
        tcp: Vec<(SocketId, std::net::TcpListener)>,
        acceptors: Vec<(SocketId, Acceptor)>,
    ) -> Self {
        let metrics = kit.board.metrics.node(&"sip".into(), "SipListener");
        let counters = Arc::clone(metrics.sip_listener().expect("it is a SipListener"));
        let rings = Arc::new(Rings::new(options.workers, options.ring, 1));
        let connections = Arc::new(Connections::new(options.connections, FIRST));
        let own = Rc::new(own);
        let start = TransportStart {
            metrics,
            counters: Arc::clone(&counters),
            own: Rc::clone(&own),
            udp,
            tcp,
            rings: Arc::clone(&rings),
            connections: Arc::clone(&connections),
            limits: options.limits,
            tcp_idle: options.idle,
            connect_timeout: options.connect_timeout,
            fault: Rc::new(|error, _| answer(error)),
        };
        let transports = Transports::start_with(&kit.worker, start, acceptors);
        let transports = transports.expect("sockets that can be watched");
        Self { kit, transports, own, rings, connections, counters }
    }

    /// Asserts how many connections ended for this reason.
    ///
    /// # Panics
    /// It is another number.
    #[track_caller]
    pub fn assert_closed(&self, reason: &str, wanted: u32) {
        let series =
            format!(r#"lineway_sip_connections_closed_total{{node="sip",reason="{reason}"}}"#);
        self.kit.assert_metric(&series, wanted);
    }

    /// The address of a socket.
    ///
    /// # Panics
    /// There is no such socket.
    pub fn address(&self, socket: u16) -> SocketAddr {
        self.own.socket(SocketId(socket)).expect("a socket of the kit").address
    }

    /// A way out by this socket.
    ///
    /// # Panics
    /// There is no such socket.
    pub fn way(&self, socket: u16, to: SocketAddr) -> Way {
        let socket = self.own.socket(SocketId(socket)).expect("a socket of the kit");
        Way {
            socket: socket.id,
            transport: socket.transport,
            to,
            connection: None,
            may_connect: true,
            close_after: false,
        }
    }

    /// The next message for this owner, which is handled with that.
    ///
    /// # Panics
    /// None comes.
    pub async fn next(&self, owner: u16) -> Arrival {
        let take = poll_fn(|cx| {
            let mut taken = Vec::new();
            self.rings.of(owner).poll_take(&mut taken, 1, cx).map(|()| taken)
        });
        let taken = timeout(PATIENCE, take).await.expect("a message comes").pop().expect("one");
        self.rings.of(owner).handled(taken.bytes.len(), 1);
        taken
    }

    /// Waits until this becomes true.
    ///
    /// # Panics
    /// It does not.
    pub async fn until(&self, mut what: impl FnMut(&Self) -> bool) {
        let wait = async {
            while !what(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, wait).await.expect("it becomes true");
    }
}

impl std::fmt::Debug for SipKit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SipKit").field("own", &self.own).finish_non_exhaustive()
    }
}

fn add(own: &mut Own, transport: Transport, address: SocketAddr) -> SocketId {
    let id = SocketId(own.sockets.len() as u16);
    let host = Bytes::from(address.ip().to_string());
    own.sockets.push(Socket { id, transport, address, host, port: address.port() });
    id
}

/// What a stream gets for an error where its headers are whole.
fn answer(error: &StreamError) -> Option<Bytes> {
    error.headers.as_ref()?;
    Some(match error.fault {
        StreamFault::TooLarge => Bytes::from_static(b"SIP/2.0 513 Message Too Large\r\n\r\n"),
        _ => Bytes::from_static(b"SIP/2.0 400 Bad Request\r\n\r\n"),
    })
}

/// An OPTIONS of this call, with this body.
pub fn options(call_id: &str, body: &str) -> Bytes {
    let length = body.len();
    let head = "OPTIONS sip:bob@127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:9;branch=z9hG4bK1\r\n\
        Max-Forwards: 70\r\nFrom: <sip:alice@127.0.0.1>;tag=1\r\nTo: <sip:bob@127.0.0.1>\r\n";
    let tail =
        format!("Call-ID: {call_id}\r\nCSeq: 1 OPTIONS\r\nContent-Length: {length}\r\n\r\n{body}");
    Bytes::from(format!("{head}{tail}"))
}

/// Runs a test over real sockets, in real time.
///
/// # Panics
/// When the test does.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async move { test().await });
}
