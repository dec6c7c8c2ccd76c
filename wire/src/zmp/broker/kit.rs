//! Sockets with peers that the test plays: no bytes, only what crosses a link.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Broker, BrokerSettings, Echo, Status};
use crate::zmp::core::{
    Attaching, ConnectionId, Core, CoreOptions, Disconnected, FlowState, Origin, Turn, Weight,
};
use crate::zmp::outcome::Errno;
use crate::zmp::record::{Charge, Inbound, Kind, Lane, Outgoing, Record, RoutingId, SocketKind};

pub(super) fn id(name: &str) -> RoutingId {
    RoutingId::new(name.as_bytes().to_vec()).expect("an id")
}

pub(super) fn options(kind: SocketKind) -> CoreOptions {
    CoreOptions::new(kind, id(kind.name()))
}

/// A socket and the peers of it that the test plays, by name.
pub(super) struct Side {
    pub(super) core: Core,
    peer: SocketKind,
    peers: BTreeMap<String, Peer>,
    connections: u64,
}

struct Peer {
    connection: ConnectionId,
    reads: bool,
    unwritten: Charge,
    taken: Charge,
    got: Vec<Outgoing>,
}

impl Side {
    pub(super) fn new(options: CoreOptions, peer: SocketKind) -> Self {
        Self { core: Core::new(options), peer, peers: BTreeMap::new(), connections: 0 }
    }

    pub(super) fn join(&mut self, now: Instant, name: &str) {
        self.join_as(now, name, self.peer);
    }

    pub(super) fn join_as(&mut self, now: Instant, name: &str, peer: SocketKind) {
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        let attaching = Attaching {
            connection,
            peer,
            routing_id: Bytes::copy_from_slice(name.as_bytes()),
            peer_max_message_size: 0,
            lane: Lane::Application,
            origin: Origin::Accepted(Arc::from("inproc://here")),
            local: Arc::from("here"),
            remote: Arc::from("there"),
        };
        self.core.attach(now, attaching).expect("a peer with its own id");
        let peer = Peer { connection, reads: true, unwritten: 0, taken: 0, got: Vec::new() };
        self.peers.insert(name.to_owned(), peer);
    }

    pub(super) fn leave(&mut self, now: Instant, name: &str) {
        let peer = self.peers.remove(name).expect("a peer of that name");
        self.core.detach(now, peer.connection, Disconnected::Unknown);
    }

    pub(super) fn reads(&mut self, name: &str, reads: bool) {
        self.peers.get_mut(name).expect("a peer of that name").reads = reads;
    }

    /// What of all that this peer sent has been taken, as a charge.
    pub(super) fn taken(&self, name: &str) -> Charge {
        self.peers[name].taken
    }

    pub(super) fn send(&mut self, now: Instant, name: &str, kind: Kind, record: impl Into<Record>) {
        self.say(now, name, Inbound::Record(kind, record.into()));
    }

    pub(super) fn request(&mut self, now: Instant, name: &str, sequence: u64, part: &str) {
        let sequence = NonZeroU64::new(sequence).expect("not zero");
        self.send(now, name, Kind::Request(sequence), part.to_owned());
    }

    pub(super) fn say(&mut self, now: Instant, name: &str, inbound: Inbound) {
        self.turn(now, name, vec![inbound]);
    }

    pub(super) fn weight(&mut self, now: Instant, name: &str, weight: u32) {
        self.say(now, name, Inbound::Weight(Weight::new(weight).expect("a weight")));
    }

    /// Lets every peer write and read. True when one of them did something.
    fn all(&mut self, now: Instant) -> bool {
        let names: Vec<_> = self.peers.keys().cloned().collect();
        let mut got = false;
        for name in names {
            got |= self.turn(now, &name, Vec::new());
        }
        got
    }

    /// Lets one record go to a peer, whether it reads or not.
    pub(super) fn one(&mut self, now: Instant, name: &str) {
        self.exchange(now, name, Vec::new(), 1);
        self.exchange(now, name, Vec::new(), 0);
    }

    fn turn(&mut self, now: Instant, name: &str, received: Vec<Inbound>) -> bool {
        let room = if self.peers[name].reads { 1 << 20 } else { 0 };
        self.exchange(now, name, received, room)
    }

    fn exchange(&mut self, now: Instant, name: &str, received: Vec<Inbound>, room: usize) -> bool {
        let peer = self.peers.get_mut(name).expect("a peer of that name");
        let written = std::mem::take(&mut peer.unwritten);
        let mut turn = Turn { received, written, room, ..Turn::default() };
        self.core.turn(now, peer.connection, &mut turn).expect("no fault of the protocol");
        peer.taken = turn.taken;
        let more = written > 0 || !turn.outgoing.is_empty();
        for outgoing in turn.outgoing {
            if let Outgoing::Record(_, record) = &outgoing {
                peer.unwritten += record.charge();
            }
            peer.got.push(outgoing);
        }
        more
    }

    /// Everything that a peer got since it was last asked.
    pub(super) fn got(&mut self, name: &str) -> Vec<Outgoing> {
        std::mem::take(&mut self.peers.get_mut(name).expect("a peer of that name").got)
    }

    /// The records of it, flow states left out.
    pub(super) fn records(&mut self, name: &str) -> Vec<(Kind, Vec<Bytes>)> {
        let got = self.got(name).into_iter();
        got.filter_map(|outgoing| match outgoing {
            Outgoing::Record(kind, record) => Some((kind, record.into_parts().into_vec())),
            _ => None,
        })
        .collect()
    }

    /// The flow states of it, records left out.
    pub(super) fn flow(&mut self, name: &str) -> Vec<FlowState> {
        let got = self.got(name).into_iter();
        got.filter_map(|outgoing| match outgoing {
            Outgoing::FlowState { state, .. } => Some(state),
            _ => None,
        })
        .collect()
    }
}

/// A broker with its clients and its workers.
pub(super) struct World {
    pub(super) now: Instant,
    pub(super) clients: Side,
    pub(super) workers: Side,
    pub(super) broker: Broker,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(BrokerSettings::default(), |_| {}, |_| {})
    }

    pub(super) fn with(
        settings: BrokerSettings,
        router: impl FnOnce(&mut CoreOptions),
        dealer: impl FnOnce(&mut CoreOptions),
    ) -> Self {
        let (mut at_router, mut at_dealer) =
            (options(SocketKind::Router), options(SocketKind::Dealer));
        router(&mut at_router);
        dealer(&mut at_dealer);
        Self {
            now: Instant::now(),
            clients: Side::new(at_router, SocketKind::Dealer),
            workers: Side::new(at_dealer, SocketKind::Router),
            broker: Broker::new(settings),
        }
    }

    pub(super) fn client(&mut self, name: &str) {
        self.clients.join(self.now, name);
    }

    pub(super) fn worker(&mut self, name: &str) {
        self.workers.join(self.now, name);
        self.run();
    }

    pub(super) fn request(&mut self, name: &str, sequence: u64, part: &str) {
        self.clients.request(self.now, name, sequence, part);
        self.run();
    }

    /// Steps until nobody has anything to do.
    pub(super) fn run(&mut self) {
        self.run_with(64);
    }

    pub(super) fn run_with(&mut self, budget: usize) {
        loop {
            self.workers.core.expire(self.now);
            let mut more = self.broker.at_router(self.now, &mut self.clients.core, budget);
            more |= self.broker.at_dealer(self.now, &mut self.workers.core, budget);
            more |= self.clients.all(self.now) | self.workers.all(self.now);
            if !more && !self.broker.wants_router() && !self.broker.wants_dealer() {
                return;
            }
        }
    }

    /// Steps as an owner does that was woken once, and as often as the broker asks for.
    pub(super) fn turn(&mut self) {
        let (mut at_router, mut at_dealer) = (true, true);
        while at_router || at_dealer {
            let (router, dealer) = (&mut self.clients.core, &mut self.workers.core);
            let more = at_router && self.broker.at_router(self.now, router, 64);
            at_dealer |= self.broker.wants_dealer();
            at_dealer = at_dealer && self.broker.at_dealer(self.now, dealer, 64);
            at_router = more || self.broker.wants_router();
            at_dealer |= self.broker.wants_dealer();
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.run();
    }

    pub(super) fn status(&self) -> Status {
        self.broker.status()
    }

    /// The worker answers everything that it was asked with `answer` of the request.
    pub(super) fn answer(&mut self, worker: &str, answer: impl Fn(&str) -> Record) {
        for (kind, parts) in self.workers.records(worker) {
            if let Kind::Request(sequence) = kind {
                let asked = String::from_utf8_lossy(&parts[0]).into_owned();
                self.workers.send(self.now, worker, Kind::Reply(sequence), answer(&asked));
            }
        }
        self.run();
    }
}

/// An echo with its clients.
pub(super) struct EchoWorld {
    pub(super) now: Instant,
    pub(super) clients: Side,
    pub(super) echo: Echo,
}

impl EchoWorld {
    pub(super) fn with(router: impl FnOnce(&mut CoreOptions)) -> Self {
        let mut options = options(SocketKind::Router);
        router(&mut options);
        Self {
            now: Instant::now(),
            clients: Side::new(options, SocketKind::Dealer),
            echo: Echo::default(),
        }
    }

    pub(super) fn run(&mut self) {
        loop {
            let more = self.echo.step(self.now, &mut self.clients.core, 16);
            if !more & !self.clients.all(self.now) {
                return;
            }
        }
    }
}

pub(super) fn reply(sequence: u64, parts: &[&str]) -> (Kind, Vec<Bytes>) {
    let sequence = NonZeroU64::new(sequence).expect("not zero");
    (
        Kind::Reply(sequence),
        parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect(),
    )
}

pub(super) fn error(sequence: u64, errno: Errno, parts: &[&str]) -> (Kind, Vec<Bytes>) {
    let sequence = NonZeroU64::new(sequence).expect("not zero");
    let errno = Bytes::copy_from_slice(&errno.0.to_be_bytes());
    let parts = parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes()));
    (Kind::ErrorReply(sequence), std::iter::once(errno).chain(parts).collect())
}
