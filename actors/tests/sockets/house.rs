//! Where the sockets of a test live.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineway_actors::dns::StaticNames;
use lineway_actors::metrics::{ActorKind, Metrics};
use lineway_actors::net::KernelNetwork;
use lineway_actors::socket::{
    Dealer, Inproc, Received, Router, Socket, SocketEnv, SocketOptions, Total,
};
use lineway_actors::wire::zmp::core::Readiness;
use lineway_actors::wire::zmp::{Record, RoutingId, SocketKind};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// Longer than anything takes that comes at all, however busy the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// Short enough for a test to wait for it to be over.
pub(crate) const SHORT: Duration = Duration::from_millis(50);

/// Any port of this machine.
pub(crate) const LOOPBACK: &str = "tcp://127.0.0.1:*";

/// Runs a test, and the sockets that it makes, on this thread.
pub(crate) fn run<F: Future<Output = ()>>(test: impl FnOnce(House) -> F) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test(House::new()));
}

/// Sockets of one context.
#[derive(Clone)]
pub(crate) struct House {
    pub(crate) env: SocketEnv,
}

impl House {
    fn new() -> Self {
        let env = SocketEnv {
            network: Rc::new(KernelNetwork),
            names: Rc::new(StaticNames::new()),
            inproc: Inproc::default(),
            actors: Metrics::new("test").actors().clone(),
            total: Arc::new(Total::new(0)),
        };
        Self { env }
    }

    /// A DEALER of this name that waits long.
    pub(crate) fn dealer(&self, name: &str) -> Dealer {
        self.dealer_with(name, |_| ())
    }

    pub(crate) fn dealer_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut SocketOptions),
    ) -> Dealer {
        Dealer::start(options(SocketKind::Dealer, name, change), &self.env)
    }

    /// A ROUTER of this name that waits long.
    pub(crate) fn router(&self, name: &str) -> Router {
        self.router_with(name, |_| ())
    }

    pub(crate) fn router_with(
        &self,
        name: &str,
        change: impl FnOnce(&mut SocketOptions),
    ) -> Router {
        Router::start(options(SocketKind::Router, name, change), &self.env)
    }

    /// How many actors of a kind live.
    pub(crate) fn alive(&self, kind: ActorKind) -> u64 {
        self.env.actors.kind(kind).alive()
    }
}

pub(crate) fn options(
    kind: SocketKind,
    name: &str,
    change: impl FnOnce(&mut SocketOptions),
) -> SocketOptions {
    let mut options = SocketOptions::new(kind, id(name));
    options.send_timeout = Some(LONG);
    options.receive_timeout = Some(LONG);
    options.reconnect_interval = Duration::from_millis(20);
    change(&mut options);
    options
}

pub(crate) fn id(name: &str) -> RoutingId {
    RoutingId::new(name.to_owned()).unwrap()
}

/// The parts of a record as text.
pub(crate) fn text(record: &Record) -> Vec<String> {
    record.parts().iter().map(|part| String::from_utf8(part.to_vec()).unwrap()).collect()
}

/// The one part of a record that has no reply to come, and who sent it.
pub(crate) fn from(received: &Received) -> (String, String) {
    assert!(received.reply.is_none());
    let from = String::from_utf8(received.from.as_bytes().to_vec()).unwrap();
    (from, text(&received.record).join("|"))
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < LONG, "{what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until so many peers are ready.
pub(crate) async fn peers(socket: &Socket, count: usize) {
    until("the peers are there", || {
        socket.peers().iter().filter(|peer| peer.ready).count() == count
    })
    .await;
}

pub(crate) const INPUT: Readiness = Readiness { input: true, output: false, completion: false };
pub(crate) const OUTPUT: Readiness = Readiness { input: false, output: true, completion: false };
pub(crate) const COMPLETION: Readiness =
    Readiness { input: false, output: false, completion: true };
