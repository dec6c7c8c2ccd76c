use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lineway_wire::sip::own::Transport;
use lineway_wire::units::Millis;
use tokio::net::UdpSocket;
use tokio::task::LocalSet;

use crate::dns::StaticNames;
use crate::metrics::{ActorMetrics, SipRouterMetrics};
use crate::settings::{SipAddress, SipListenerSettings, SipRouterSettings};
use crate::sip::location::Locations;
use crate::sip::router::{RouterStart, SipHandle, SipRouter};
use crate::sip::script::Source;
use crate::sip::shared::SipShared;
use crate::sip::site::SipSite;
use crate::testkit::Kit;

/// Longer than anything takes that is to come.
const LIMIT: Duration = Duration::from_secs(5);

/// A router that runs.
pub(super) struct Site {
    pub(super) proxy: SocketAddr,
    pub(super) handle: SipHandle,
    pub(super) metrics: Arc<SipRouterMetrics>,
    pub(super) names: Rc<StaticNames>,
    pub(super) settings: SipRouterSettings,
    shared: Arc<SipShared>,
    pub(super) locations: Arc<Locations>,
    kit: Kit,
}

pub(super) fn source(text: &str) -> Source {
    Source { name: "test.lua".into(), text: text.as_bytes().into() }
}

impl Site {
    /// A router with this script.
    pub(super) fn new(script: &str) -> Self {
        Self::with(script, |_| {})
    }

    /// With other settings too.
    pub(super) fn with(script: &str, change: impl FnOnce(&mut SipRouterSettings)) -> Self {
        let kit = Kit::new();
        let names = Rc::new(StaticNames::new());
        *kit.worker.names.borrow_mut() = names.clone();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let proxy = socket.local_addr().unwrap();
        let at = SipAddress { transport: Transport::Udp, address: proxy };
        let listener = SipListenerSettings::new(vec![at]);
        let mut settings =
            SipRouterSettings { script: source(script), ..SipRouterSettings::default() };
        settings.resolve_timeout = Millis::new(150);
        change(&mut settings);
        let metrics = kit.board.metrics.clone();
        let (in_front, behind) =
            (metrics.node(&"in".into(), "SipListener"), metrics.node(&"route".into(), "SipRouter"));
        let shared: Arc<SipShared> = Arc::default();
        let locations = Arc::clone(&shared.locations);
        let site = SipSite::new(1, &listener, &in_front, &behind, Arc::clone(&shared), 1).unwrap();
        let own = listener.own(&[proxy]);
        let first = own.sockets[0].id;
        let handle = SipRouter::start(
            &kit.worker,
            RouterStart {
                listener_settings: Arc::new(listener),
                router: "route".into(),
                router_settings: Arc::new(settings.clone()),
                own,
                udp: vec![(first, socket)],
                tcp: Vec::new(),
                site,
            },
        )
        .unwrap();
        let metrics = Arc::clone(behind.sip_router().unwrap());
        Self { proxy, handle, metrics, names, settings, shared, locations, kit }
    }

    /// A phone at this address.
    pub(super) async fn phone_at(&self, at: SocketAddr) -> Phone {
        Phone { socket: UdpSocket::bind(at).await.unwrap(), proxy: self.proxy }
    }

    /// A phone that speaks with the proxy.
    pub(super) async fn phone(&self) -> Phone {
        Phone { socket: UdpSocket::bind("127.0.0.1:0").await.unwrap(), proxy: self.proxy }
    }

    /// For each set of the dispatcher the targets that are active, and those that are not.
    pub(super) fn targets(&self) -> Vec<(u32, usize, usize)> {
        self.shared.dispatcher.counts(tokio::time::Instant::now().into_std())
    }

    /// The actors of the process.
    pub(super) fn actors(&self) -> ActorMetrics {
        self.kit.board.metrics.actors().clone()
    }

    /// What a metric says once it says it.
    pub(super) async fn until(&self, done: impl Fn(&SipRouterMetrics) -> bool) {
        let waiting = async {
            while !done(&self.metrics) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, waiting).await.expect("the metric says so in time");
    }
}

/// A phone.
pub(super) struct Phone {
    socket: UdpSocket,
    proxy: SocketAddr,
}

impl Phone {
    /// A phone that speaks with nobody yet.
    pub(super) async fn alone() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let proxy = socket.local_addr().unwrap();
        Self { socket, proxy }
    }

    /// The same, speaking with this proxy.
    pub(super) fn to(self, proxy: SocketAddr) -> Self {
        Self { proxy, ..self }
    }

    pub(super) fn at(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    pub(super) async fn send(&self, text: &str) {
        self.socket.send_to(text.as_bytes(), self.proxy).await.unwrap();
    }

    /// What comes next.
    pub(super) async fn receive(&self) -> String {
        self.receive_within(LIMIT).await
    }

    /// What comes next, for which the clock may run so far.
    pub(super) async fn receive_within(&self, limit: Duration) -> String {
        let mut buffer = vec![0; 65_536];
        let received = tokio::time::timeout(limit, self.socket.recv(&mut buffer)).await;
        let length = received.expect("a message comes in time").unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Nothing is there.
    pub(super) fn assert_silent(&self) {
        let mut buffer = [0; 2048];
        if let Ok(length) = self.socket.try_recv(&mut buffer) {
            panic!("unexpected: {}", String::from_utf8_lossy(&buffer[..length]));
        }
    }

    /// A request of a call to a URI.
    pub(super) fn request(&self, method: &str, uri: &str, call: &str, number: u32) -> String {
        let own = self.at();
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{call}{number}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@127.0.0.1>;tag=a1\r\nTo: <sip:bob@127.0.0.1>\r\n\
             Call-ID: {call}\r\nCSeq: {number} {method}\r\nContent-Length: 0\r\n\r\n"
        )
    }
}

/// The reply to a request as it came.
pub(super) fn reply(request: &str, status: &str) -> String {
    let kept = request.lines().filter(|line| {
        ["Via:", "From:", "To:", "Call-ID:", "CSeq:"].iter().any(|name| line.starts_with(name))
    });
    let kept: Vec<_> = kept.collect();
    format!("SIP/2.0 {status}\r\n{}\r\nContent-Length: 0\r\n\r\n", kept.join("\r\n"))
}

/// Runs a test on one thread.
pub(super) async fn run(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}
