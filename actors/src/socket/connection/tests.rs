//! A connection against a raw peer: what both see of each other, and what the socket hears.

mod bounds;
mod ends;
mod handshake;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use lineway_wire::zmp::connection::ConnectionOptions;
use lineway_wire::zmp::core::{ConnectionId, Core, CoreOptions, EndpointId, Origin, Received};
use lineway_wire::zmp::{Lane, Record, RoutingId, SocketKind};

use super::{ConnectionStart, PeerConnection};
use crate::messages::{ConnectionSays, ConnectionWord};
use crate::metrics::ActorMetrics;
use crate::socket::{Shared, SocketOptions, Stream, Total};
use crate::testkit::zmp::{errors, frames, greeting};
use crate::testkit::{Kit, Peer, socket};

/// The handshake limit of the tests.
const HANDSHAKE: Duration = Duration::from_secs(2);

/// A socket without its actor, whose connections the test starts.
struct House {
    shared: Arc<Shared>,
    total: Arc<Total>,
    options: SocketOptions,
    said: Rc<RefCell<Vec<(u64, ConnectionWord)>>>,
    says: Recipient<ConnectionSays>,
    actors: ActorMetrics,
    next: u64,
}

/// Writes down what connections say.
struct Listener(Rc<RefCell<Vec<(u64, ConnectionWord)>>>);

impl Actor for Listener {
    type Context = Context<Self>;
}

impl Handler<ConnectionSays> for Listener {
    type Result = ();

    fn handle(&mut self, says: ConnectionSays, _: &mut Self::Context) {
        self.0.borrow_mut().push((says.connection.0, says.says));
    }
}

impl House {
    fn with(
        kit: &Kit,
        kind: SocketKind,
        limit: u64,
        change: impl FnOnce(&mut CoreOptions),
    ) -> Self {
        let mut options = SocketOptions::new(kind, RoutingId::new("own").unwrap());
        options.core.max_message_size = 1 << 20;
        change(&mut options.core);
        let total = Arc::new(Total::new(limit));
        let said = Rc::default();
        Self {
            shared: Arc::new(Shared::new(&options, Arc::clone(&total))),
            total,
            options,
            says: Listener(Rc::clone(&said)).start().recipient(),
            said,
            actors: kit.board.metrics.actors().clone(),
            next: 0,
        }
    }

    fn router(kit: &Kit) -> Self {
        Self::with(kit, SocketKind::Router, 0, |_| ())
    }

    fn start(
        &mut self,
        stream: Stream,
        dialled: Option<EndpointId>,
    ) -> (u64, Addr<PeerConnection>) {
        self.next += 1;
        let start = ConnectionStart {
            stream,
            options: ConnectionOptions {
                kind: self.options.core.kind,
                routing_id: self.options.core.routing_id.clone(),
                dialled: dialled.is_some(),
                lane: Lane::Application,
                max_message_size: self.options.core.max_message_size,
            },
            id: ConnectionId(self.next),
            origin: dialled
                .map_or_else(|| Origin::Accepted("tcp://here:1".into()), Origin::Dialled),
            local: "tcp://here:1".into(),
            remote: "tcp://there:2".into(),
            handshake_interval: HANDSHAKE,
            receive_hwm: self.options.core.receive_hwm,
            shared: Arc::clone(&self.shared),
            total: Arc::clone(&self.total),
            says: self.says.clone(),
        };
        (self.next, PeerConnection::start(start, &self.actors))
    }

    /// A connection that the test's peer dialled.
    fn accept(&mut self) -> (u64, Peer) {
        let (stream, peer) = socket();
        (self.start(Stream::Tcp(stream), None).0, peer)
    }

    /// One of a DEALER with this id whose handshake is over.
    async fn accept_dealer(&mut self, kit: &Kit, id: &str) -> (u64, Peer) {
        let (number, peer) = self.accept();
        peer.offer(&greeting(id.as_bytes()));
        kit.quiet().await;
        let mut sent = peer.take();
        assert_eq!(frames(&mut sent).len(), 2, "HELLO and READY");
        assert!(sent.is_empty());
        (number, peer)
    }

    /// What a connection said.
    fn said(&self, connection: u64) -> Vec<ConnectionWord> {
        let said = self.said.borrow();
        said.iter().filter(|(of, _)| *of == connection).map(|(_, word)| word.clone()).collect()
    }

    fn core<R>(&self, step: impl FnOnce(&mut Core) -> R) -> R {
        self.shared.with(step)
    }

    /// The next record, with its sender.
    fn recv(&self) -> Option<(String, Record)> {
        self.core(Core::recv).map(|Received { from, record, .. }| {
            let from = from.map_or_else(Vec::new, |id| id.as_bytes().to_vec());
            (String::from_utf8(from).unwrap(), record)
        })
    }

    fn alive(&self) -> u64 {
        self.actors.kind(crate::metrics::ActorKind::PeerConnection).alive()
    }
}

/// The codes of the ERROR frames that a peer got.
fn codes(peer: &Peer) -> Vec<u8> {
    errors(&peer.take())
}

/// Starts a connection of a ROUTER that nobody looks at.
pub(crate) fn accept_for_good(stream: Stream) {
    let kit = Kit::new();
    House::router(&kit).start(stream, None);
}
