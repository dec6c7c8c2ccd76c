//! The rules of the contract, driven through [`Core`] alone: peers are turns made by hand, or a
//! second socket at the other end of a short wire.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{
    Attaching, Attempt, Closing, Completion, CompletionId, ConnectionId, Core, CoreOptions,
    Disconnected, EndpointId, FlowState, Origin, Outcome, Received, Refused, Rejection, Submit,
    Submitted, Turn, WaiterId, Wake, Weight,
};
use crate::zmp::frame::ProtocolError;
use crate::zmp::outcome::{Errno, RequestResult, SubmitError, SubmitResult};
use crate::zmp::record::{
    Charge, Inbound, Kind, Lane, Outgoing, Record, RoutingId, Sequence, SocketKind,
};

use SocketKind::{Dealer, Router};

mod admission;
mod basics;
mod close;
mod duplicates;
mod flow;
mod invariants;
mod lanes;
mod model;
mod none;
mod property;
mod readiness;
mod receive;
mod replies;
mod requests;
mod routes;
mod rules;
mod select;
mod status;
mod wire;

/// The send limit of most tests: ten records of 36 bytes.
const HWM: Charge = 1000;
/// A record charged 100.
const RECORD: [u8; 36] = [b'x'; 36];

fn rid(id: &str) -> RoutingId {
    RoutingId::new(id.to_owned()).expect("an id")
}

fn record(text: &str) -> Record {
    Record::new(text.to_owned())
}

fn hundred() -> Record {
    Record::new(RECORD.to_vec())
}

fn sequence(number: u64) -> Sequence {
    Sequence::new(number).expect("not zero")
}

fn epoch(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("not zero")
}

fn weight(number: u32) -> Weight {
    Weight::new(number).expect("in range")
}

fn data(text: &str) -> Inbound {
    Inbound::Record(Kind::Data, record(text))
}

fn request(number: u64, text: &str) -> Inbound {
    Inbound::Record(Kind::Request(sequence(number)), record(text))
}

fn reply(number: u64, text: &str) -> Inbound {
    Inbound::Record(Kind::Reply(sequence(number)), record(text))
}

fn paused(number: u64) -> Inbound {
    Inbound::FlowState { state: FlowState::Paused, epoch: epoch(number) }
}

fn running(number: u64) -> Inbound {
    Inbound::FlowState { state: FlowState::Running, epoch: epoch(number) }
}

const ASK: Submit = Submit::Request { timeout: None, claim: false };

/// A socket under test, its clock and its connections.
struct Rig {
    core: Core,
    now: Instant,
    connections: u64,
}

impl Rig {
    fn new(kind: SocketKind) -> Self {
        Self::with(kind, |_| {})
    }

    fn with(kind: SocketKind, set: impl FnOnce(&mut CoreOptions)) -> Self {
        let mut options = CoreOptions::new(kind, rid("M"));
        options.send_hwm = HWM;
        set(&mut options);
        let mut core = Core::new(options);
        core.bound("tcp://bound".into());
        core.set_monitor(crate::zmp::monitor::ALL_EVENTS, 1000);
        Self { core, now: Instant::now(), connections: 0 }
    }

    /// Rules that hold whatever was done.
    fn check(&self) {
        invariants::check(&self.core, 0);
    }

    fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.core.expire(self.now);
    }

    fn attaching(&mut self, peer: SocketKind, id: &str, origin: Origin) -> Attaching {
        self.connections += 1;
        Attaching {
            connection: ConnectionId(self.connections),
            peer,
            routing_id: Bytes::copy_from_slice(id.as_bytes()),
            peer_max_message_size: 0,
            lane: Lane::Application,
            origin,
            local: "local".into(),
            remote: "remote".into(),
        }
    }

    fn attach(&mut self, attaching: Attaching) -> Result<ConnectionId, Rejection> {
        let connection = attaching.connection;
        self.core.attach(self.now, attaching).map(|()| connection)
    }

    /// A peer that dialled; one connection.
    fn accept(&mut self, peer: SocketKind, id: &str) -> ConnectionId {
        let attaching = self.attaching(peer, id, Origin::Accepted("tcp://bound".into()));
        self.attach(attaching).expect("accepted")
    }

    /// A peer that this socket dialled; one connection.
    fn dial(&mut self, peer: SocketKind, id: &str, endpoint: EndpointId) -> ConnectionId {
        let attaching = self.attaching(peer, id, Origin::Dialled(endpoint));
        self.attach(attaching).expect("attached")
    }

    fn endpoint(&mut self, name: &str) -> EndpointId {
        self.core.add_endpoint(name.into(), None)
    }

    /// A ROUTER that dialled this ROUTER: both connections.
    fn accept_two(&mut self, id: &str) -> (ConnectionId, ConnectionId) {
        let origin = Origin::Accepted("tcp://bound".into());
        self.two(id, &origin).expect("accepted")
    }

    fn two(
        &mut self,
        id: &str,
        origin: &Origin,
    ) -> Result<(ConnectionId, ConnectionId), Rejection> {
        let first = self.attaching(Router, id, origin.clone());
        let mut second = self.attaching(Router, id, origin.clone());
        second.lane = Lane::Completion;
        Ok((self.attach(first)?, self.attach(second)?))
    }

    fn detach(&mut self, connection: ConnectionId) {
        self.core.detach(self.now, connection, Disconnected::Transport);
    }

    /// One turn with all the room there may be.
    fn turn(&mut self, connection: ConnectionId, received: Vec<Inbound>, written: Charge) -> Turn {
        self.try_turn(connection, received, written).expect("no fault of the peer")
    }

    fn try_turn(
        &mut self,
        connection: ConnectionId,
        received: Vec<Inbound>,
        written: Charge,
    ) -> Result<Turn, ProtocolError> {
        let mut turn = Turn { received, written, room: usize::MAX, ..Turn::default() };
        self.core.turn(self.now, connection, &mut turn).map(|()| turn)
    }

    /// The peer sends this.
    fn feed(&mut self, connection: ConnectionId, received: impl IntoIterator<Item = Inbound>) {
        let mut turn = Turn { received: received.into_iter().collect(), ..Turn::default() };
        self.core.turn(self.now, connection, &mut turn).expect("no fault of the peer");
        assert!(turn.outgoing.is_empty(), "there was no room");
    }

    /// Everything that waits is given out and written at once.
    fn write(&mut self, connection: ConnectionId) -> Vec<Outgoing> {
        let outgoing = self.turn(connection, Vec::new(), 0).outgoing;
        let charge = outgoing.iter().map(charge).sum();
        self.turn(connection, Vec::new(), charge);
        outgoing
    }

    fn send(&mut self, target: Option<&str>, record: Record) -> Result<Submitted, Box<Refused>> {
        let target = target.map(rid);
        self.core.try_submit(self.now, target.as_ref(), record, Submit::Send, 7)
    }

    fn ask(&mut self, target: Option<&str>, text: &str) -> Result<CompletionId, Box<Refused>> {
        let target = target.map(rid);
        let submitted = self.core.try_submit(self.now, target.as_ref(), record(text), ASK, 9)?;
        Ok(submitted.expect("a request has an id"))
    }

    /// A NONE call that has to wait.
    fn wait(&mut self, target: Option<&str>, submit: Submit) -> WaiterId {
        let target = target.map(rid);
        let (attempt, waiter) = self.core.begin(self.now, target.as_ref(), hundred(), submit, 5);
        assert!(matches!(attempt, Attempt::Waits(_)), "{attempt:?}");
        waiter.expect("a call that waits has an id")
    }

    fn again(&mut self, waiter: WaiterId) -> Attempt {
        self.core.again(self.now, waiter, hundred())
    }

    /// Fills a link until it refuses; the token of that.
    fn fill(&mut self, target: Option<&str>) -> CompletionId {
        loop {
            if let Err(refused) = self.send(target, hundred()) {
                assert_eq!(refused.error, EAGAIN);
                return refused.token.expect("a token");
            }
        }
    }

    fn wakes(&mut self) -> Vec<Wake> {
        let mut wakes = Vec::new();
        self.core.take_wakes(&mut wakes);
        wakes
    }

    fn recv(&mut self) -> Option<Received> {
        self.core.recv()
    }

    fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.core.next_completion()).collect()
    }

    /// The one completion that there is.
    fn completion(&mut self) -> Completion {
        let mut all = self.completions();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn result(&mut self) -> (RequestResult, Errno) {
        match self.completion().outcome {
            Outcome::Request { result, errno, .. } => (result, errno),
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

const EAGAIN: SubmitError = SubmitError::new(SubmitResult::Backpressured, Errno::EAGAIN);

fn error(result: SubmitResult, errno: Errno) -> SubmitError {
    SubmitError::new(result, errno)
}

fn charge(outgoing: &Outgoing) -> Charge {
    match outgoing {
        Outgoing::Record(_, record) => record.charge(),
        Outgoing::Weight(_) | Outgoing::FlowState { .. } => 0,
    }
}

/// The records of what goes out, as text.
fn texts(outgoing: &[Outgoing]) -> Vec<String> {
    let text = |outgoing: &Outgoing| match outgoing {
        Outgoing::Record(_, record) => Some(first(record)),
        Outgoing::Weight(_) | Outgoing::FlowState { .. } => None,
    };
    outgoing.iter().filter_map(text).collect()
}

fn first(record: &Record) -> String {
    String::from_utf8_lossy(&record.parts()[0]).into_owned()
}

/// The sequences of the requests of what goes out.
fn sequences(outgoing: &[Outgoing]) -> Vec<u64> {
    let number = |outgoing: &Outgoing| match outgoing {
        Outgoing::Record(Kind::Request(sequence), _) => Some(sequence.get()),
        _ => None,
    };
    outgoing.iter().filter_map(number).collect()
}
