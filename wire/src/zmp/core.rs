//! One socket: who gets the next record, what waits, what was asked and is still to be answered.
//!
//! Every operation is one step that decides and does no I/O. What somebody outside has to be
//! told is noted as a [`Wake`]; the owner takes them after each step and wakes when it has let go
//! of its lock.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::outcome::{Errno, RequestResult, SubmitError};
use super::record::{Charge, Inbound, Lane, Outgoing, Record, RoutingId, SocketKind};

/// A weight: 0 to 10,000 (D-O1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

impl Weight {
    /// The largest.
    pub const MOST: Self = Self(10_000);
    /// What a peer assumes of a link on which nothing was said (1.5).
    pub const DEFAULT: Self = Self(100);

    /// A weight; `None` above [`Self::MOST`]: nothing is clamped.
    pub const fn new(weight: u32) -> Option<Self> {
        if weight <= 10_000 { Some(Self(weight as u16)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

/// A receive-flow state (D-F1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// Records may come.
    Running,
    /// Records should not come.
    Paused,
}

/// What becomes of a second peer with the routing id of the first, in one direction (R-D1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DuplicatePolicy {
    /// The first one stays.
    #[default]
    Reject,
    /// The second one takes the id over.
    Handover,
}

/// What a socket is made with.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    /// DEALER or ROUTER.
    pub kind: SocketKind,
    /// Its own routing id.
    pub routing_id: RoutingId,
    /// The weight that it tells its peers.
    pub weight: Weight,
    /// Sends one empty record to each new peer (D-O3).
    pub probe: bool,
    /// `REQUEST_TIMEOUT_MS`.
    pub request_timeout: Duration,
    /// ROUTER: a record for an id without a route is an error and not dropped (R-O1).
    pub mandatory: bool,
    /// ROUTER: see there.
    pub duplicates: DuplicatePolicy,
    /// `SNDHWM` of each link in bytes; 0 = no limit.
    pub send_hwm: Charge,
    /// `RCVHWM` of each link in bytes; 0 = no limit.
    pub receive_hwm: Charge,
    /// `MAXMSGSIZE` in bytes; 0 = no limit.
    pub max_message_size: u64,
    /// Wait tokens and requests together (D-W9).
    pub reservations: usize,
    /// Live reply tokens (R-P4).
    pub reply_tokens: usize,
    /// Links at most; one more is refused (B-7).
    pub max_peers: usize,
}

impl CoreOptions {
    /// The defaults of the contract.
    pub fn new(kind: SocketKind, routing_id: RoutingId) -> Self {
        Self {
            kind,
            routing_id,
            weight: Weight::DEFAULT,
            probe: false,
            request_timeout: Duration::from_secs(5),
            mandatory: true,
            duplicates: DuplicatePolicy::Reject,
            send_hwm: 4_096_000,
            receive_hwm: 4_096_000,
            max_message_size: 0,
            reservations: 65_536,
            reply_tokens: 65_536,
            max_peers: 10_000,
        }
    }
}

/// One physical connection of a socket, never used twice: `connection_id` of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// An endpoint that the socket was told to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub u64);

/// A wait token or a request (D-W8); never zero, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompletionId(pub NonZeroU64);

/// A reply that is owed (R-V1); never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyId(pub NonZeroU64);

/// A call that waits for admission (NONE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// Who is to be told something, once the step is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wake {
    /// The connection has something to write, credit to read on, or is to close.
    Connection(ConnectionId),
    /// A record can be taken ([`Core::recv`]).
    Readable,
    /// The completion queue is not empty ([`Core::next_completion`]).
    Completions,
    /// This completion, which its submitter takes itself, is there ([`Core::claimed`]); or the
    /// wait token's WRITABLE record that [`Core::claim_token`] asked for.
    Completion(CompletionId),
    /// The waiting call should try again, or learn that it is over.
    Waiter(WaiterId),
    /// [`Core::next_deadline`] came nearer.
    Timer,
    /// An event of the monitor can be taken.
    Monitor,
    /// Everything queued has been written ([`Core::drained`]).
    Drained,
}

/// Where a connection came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This side dialled it, for this endpoint.
    Dialled(EndpointId),
    /// The peer dialled it, to this bound endpoint.
    Accepted(Arc<str>),
}

/// A connection whose handshake is over.
#[derive(Clone, Debug)]
pub struct Attaching {
    /// Its number.
    pub connection: ConnectionId,
    /// What the peer is.
    pub peer: SocketKind,
    /// The peer's routing id as its HELLO had it; may be empty.
    pub routing_id: Bytes,
    /// The largest record that the peer takes; 0 = no limit.
    pub peer_max_message_size: u64,
    /// Which connection of the link it is.
    pub lane: Lane,
    /// Where it came from.
    pub origin: Origin,
    /// The local address, for the monitor.
    pub local: Arc<str>,
    /// The peer's address, for the monitor.
    pub remote: Arc<str>,
}

/// Why a connection is refused after a good handshake; the `reason` of `peer_rejected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// Another peer has its routing id (R-D1).
    DuplicateId,
    /// Its link has this lane already, or the two lanes do not agree (1.3).
    Lane,
    /// The socket has its most peers (B-7).
    TooManyPeers,
    /// The socket is closed, or the endpoint was removed.
    Closed,
}

/// Why a connection is to close, as the socket has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closing {
    /// A new link took its routing id over (R-D1).
    HandedOver,
    /// The other lane of its link ended (1.5).
    OtherLane,
    /// `disconnect` or `disconnect_rid`.
    Removed,
    /// The socket closes.
    Socket,
}

/// Why a connection ended; the value of a DISCONNECTED event (4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disconnected {
    /// The peer closed it in order, or nobody knows.
    Unknown,
    /// The handshake failed.
    Handshake,
    /// An error of the transport or of the protocol.
    Transport,
    /// The socket or its context ended.
    ContextEnd,
}

/// What a connection and its socket exchange in one step.
#[derive(Debug, Default)]
pub struct Turn {
    /// To the socket: what was decoded, in order. Empty afterwards.
    pub received: Vec<Inbound>,
    /// To the socket: the charge of the records that were wholly written since the last turn.
    /// Zero afterwards.
    pub written: Charge,
    /// To the socket: reading waits until more of what was read has been taken.
    pub blocked: bool,
    /// To the socket: about how many bytes the connection takes to write; 0 = none. One record goes
    /// out whatever its size.
    pub room: usize,
    /// From the socket: what to write, in order.
    pub outgoing: Vec<Outgoing>,
    /// From the socket: the charge of everything that was ever taken from this connection. What
    /// the decoder has reserved beyond that is outstanding.
    pub taken: Charge,
    /// From the socket: more waits to be written than there was room for.
    pub more: bool,
    /// From the socket: every connection of the link is there. Until then the limit of the handshake
    /// runs (1.5).
    pub ready: bool,
    /// From the socket: the connection is to end, once `outgoing` is written.
    pub close: Option<Closing>,
}

/// A record that a socket did not take.
#[derive(Debug)]
pub struct Refused {
    /// The record, as it was given.
    pub record: Record,
    /// Why.
    pub error: SubmitError,
    /// DONTWAIT: completes with a WRITABLE record when trying again is worth it (D-W3).
    pub token: Option<CompletionId>,
}

/// What a record asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// Nothing (`send`).
    Send,
    /// One completion (`request`).
    Request {
        /// `None`: the socket's `request_timeout` (D-R2).
        timeout: Option<Duration>,
        /// True: its submitter takes the completion itself with [`Core::claimed`]; it does not
        /// go through the completion queue.
        claim: bool,
    },
}

/// A record that was taken; the id of a request.
pub type Submitted = Option<CompletionId>;

/// Who gets a record: the socket chooses (DEALER, `None`), or this peer (ROUTER).
pub type Target<'a> = Option<&'a RoutingId>;

/// What a waiting call learns.
#[derive(Debug)]
pub enum Attempt {
    /// The record was taken.
    Done(Submitted),
    /// Not yet: the record comes back, a [`Wake::Waiter`] follows.
    Waits(Record),
    /// It never will be.
    Failed(Refused),
}

/// A record that was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// ROUTER: the sender. DEALER: `None` (D-V2).
    pub from: Option<RoutingId>,
    /// The record.
    pub record: Record,
    /// ROUTER: a reply is owed (R-V1).
    pub reply: Option<ReplyId>,
}

/// What a record is charged that was received with [`Core::recv_held`], until it is given back.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a charge that is not released stops the reading of its link"]
pub struct HeldCharge {
    /// The connection that it came on.
    pub connection: ConnectionId,
    /// The charge.
    pub charge: Charge,
}

/// How an operation ended, for which a submit had given an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id of the request, or the wait token.
    pub id: CompletionId,
    /// The context that the submit had.
    pub context: u64,
    /// ROUTER: the target of the submit. DEALER: `None` (D-R5).
    pub peer: Option<RoutingId>,
    /// What it says.
    pub outcome: Outcome,
}

/// What a completion says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Kind 2: a request ended. The parts are those of the reply, or what follows the errno of an
    /// error reply.
    Request {
        /// How.
        result: RequestResult,
        /// 0 with [`RequestResult::Ok`].
        errno: Errno,
        /// None where there is no part.
        parts: Option<Record>,
    },
    /// Kind 3, `ADMITTED`: submitting again is worth it.
    Writable,
    /// Kind 3, `TERMINAL` with ENOENT: the target was removed (D-W6).
    Removed,
}

/// Levels of readiness (2.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// POLLIN.
    pub input: bool,
    /// POLLOUT.
    pub output: bool,
    /// POLLCOMPLETION.
    pub completion: bool,
}

/// One DEALER or ROUTER.
#[derive(Debug)]
pub struct Core {
    options: CoreOptions,
}

#[allow(clippy::unimplemented, unused_variables, missing_docs)]
impl Core {
    /// A socket without peers.
    pub fn new(options: CoreOptions) -> Self {
        Self { options }
    }

    // ---- what is to be told -------------------------------------------------------------------

    /// Moves everything that is to be told to the end of `wakes`, each once, in order.
    pub fn take_wakes(&mut self, wakes: &mut Vec<Wake>) {
        unimplemented!()
    }

    // ---- endpoints and connections ------------------------------------------------------------

    /// `connect`: the socket counts with this endpoint from now on. `routing_id` is
    /// `CONNECT_ROUTING_ID` (R-O2).
    pub fn add_endpoint(&mut self, name: Arc<str>, routing_id: Option<RoutingId>) -> EndpointId {
        unimplemented!()
    }

    /// `disconnect`: its links close, requests end NOT_FOUND, tokens and waiting calls whose target
    /// this was end (D-W6, D-N6). False when there is no such endpoint.
    pub fn remove_endpoint(&mut self, now: Instant, endpoint: EndpointId) -> bool {
        unimplemented!()
    }

    /// `unbind`: its links live on; False when nobody is bound to it.
    pub fn bound(&mut self, endpoint: Arc<str>) {
        unimplemented!()
    }

    /// A connection whose handshake is over, and whose own READY is written (1.5). The link is
    /// ready when all of its lanes are there.
    ///
    /// # Errors
    /// It is refused: it must be closed.
    pub fn attach(&mut self, now: Instant, attaching: Attaching) -> Result<(), Rejection> {
        unimplemented!()
    }

    /// A connection has ended, or never got to [`Self::attach`]. Nothing for one that is unknown.
    pub fn detach(&mut self, now: Instant, connection: ConnectionId, why: Disconnected) {
        unimplemented!()
    }

    /// One exchange with a connection.
    ///
    /// # Errors
    /// The peer broke the protocol with a record that no decoder can judge: a REQUEST at a DEALER,
    /// a live sequence again, a REPLY on a wrong lane. What came before it was taken.
    pub fn turn(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        turn: &mut Turn,
    ) -> Result<(), super::frame::ProtocolError> {
        unimplemented!()
    }

    // ---- submitting ---------------------------------------------------------------------------

    /// DONTWAIT: one attempt (D-D1). Without room it gives a wait token with `context`.
    ///
    /// # Errors
    /// The record comes back.
    pub fn try_submit(
        &mut self,
        now: Instant,
        target: Target<'_>,
        record: Record,
        submit: Submit,
        context: u64,
    ) -> Result<Submitted, Box<Refused>> {
        unimplemented!()
    }

    /// NONE: the first attempt. `Waits` has begun a wait of this id, whose limit the caller keeps.
    pub fn begin(
        &mut self,
        now: Instant,
        target: Target<'_>,
        record: Record,
        submit: Submit,
        context: u64,
    ) -> (Attempt, Option<WaiterId>) {
        unimplemented!()
    }

    /// The next attempt of a waiting call, after its [`Wake::Waiter`].
    pub fn again(&mut self, now: Instant, waiter: WaiterId, record: Record) -> Attempt {
        unimplemented!()
    }

    /// The time of a waiting call is over: what it ends with (D-N3, D-N4).
    pub fn give_up(&mut self, waiter: WaiterId) -> SubmitError {
        unimplemented!()
    }

    /// Nobody waits any more: the call was dropped.
    pub fn forget(&mut self, waiter: WaiterId) {
        unimplemented!()
    }

    /// Answers a request (R-P1): one attempt on the current link of its peer.
    ///
    /// # Errors
    /// The record comes back. `Backpressured` leaves the reply owed.
    pub fn try_reply(&mut self, reply: ReplyId, record: Record) -> Result<(), Box<Refused>> {
        unimplemented!()
    }

    /// Answers a request with an error reply: the errno and more parts (1.6). Only a broker does.
    ///
    /// # Errors
    /// As [`Self::try_reply`].
    pub fn try_reply_error(
        &mut self,
        reply: ReplyId,
        errno: Errno,
        parts: Option<Record>,
    ) -> Result<(), Box<Refused>> {
        unimplemented!()
    }

    /// Begins to wait for the room of a reply; a [`Wake::Waiter`] says when to try again.
    pub fn wait_reply(&mut self, reply: ReplyId) -> WaiterId {
        unimplemented!()
    }

    /// As [`Self::wait_reply`], but what says when to try again is a [`Outcome::Writable`] in the
    /// completion queue, with `context` and the id of the reply's peer: one waits for many. A link
    /// that is new to the id is an edge too; `disconnect_rid` ends it as [`Outcome::Removed`].
    /// `None` when the reply is not owed, or no reservation is free.
    pub fn reply_token(&mut self, reply: ReplyId, context: u64) -> Option<CompletionId> {
        unimplemented!()
    }

    /// ROUTER: this id has a link that is ready.
    pub fn has_link(&self, id: &RoutingId) -> bool {
        unimplemented!()
    }

    /// The reply will not be given: its slot is free.
    pub fn abandon_reply(&mut self, reply: ReplyId) {
        unimplemented!()
    }

    // ---- receiving ----------------------------------------------------------------------------

    /// The next record, in fair turns over the links (D-V1).
    pub fn recv(&mut self) -> Option<Received> {
        unimplemented!()
    }

    /// As [`Self::recv`], but the record goes on to count as queued on its link, and in
    /// [`Self::queued`], until its charge is given back with [`Self::release`]: for a broker, which
    /// holds what it can not pass on inside the receive limit of each link (B-1).
    pub fn recv_held(&mut self) -> Option<(Received, HeldCharge)> {
        unimplemented!()
    }

    /// What [`Self::recv_held`] gave has been passed on. Where its link has ended, only
    /// [`Self::queued`] falls.
    pub fn release(&mut self, held: HeldCharge) {
        unimplemented!()
    }

    /// How many parts the next record has (D-V3).
    pub fn next_parts(&self) -> Option<usize> {
        unimplemented!()
    }

    /// The next completion of the queue.
    pub fn next_completion(&mut self) -> Option<Completion> {
        unimplemented!()
    }

    /// The completion of a request that was submitted with `claim`, or of a claimed token.
    pub fn claimed(&mut self, id: CompletionId) -> Option<Completion> {
        unimplemented!()
    }

    /// From now on this token's record does not go through the queue (it is taken out of it if it
    /// is there already). False when there is no such token and no record of it.
    pub fn claim_token(&mut self, token: CompletionId) -> bool {
        unimplemented!()
    }

    /// Nobody takes the completion of this request or token any more.
    pub fn disclaim(&mut self, id: CompletionId) {
        unimplemented!()
    }

    // ---- state --------------------------------------------------------------------------------

    /// Levels of readiness (2.8).
    pub fn readiness(&self) -> Readiness {
        unimplemented!()
    }

    /// `set_receive_flow_state` (D-F1).
    pub fn set_receive_flow_state(&mut self, now: Instant, state: FlowState) {
        unimplemented!()
    }

    /// Sets the weight that peers are told (D-G1).
    pub fn set_weight(&mut self, weight: Weight) {
        unimplemented!()
    }

    /// The options as they are.
    pub fn options(&self) -> &CoreOptions {
        &self.options
    }

    /// Changes options that may change at any time: probe, request timeout, mandatory, duplicates,
    /// the two limits, the size. Neither kind nor routing id nor weight.
    pub fn set_options(&mut self, set: impl FnOnce(&mut CoreOptions)) {
        unimplemented!()
    }

    /// `disconnect_rid`: the link of this id closes, its tokens and replies end (R-S3, R-P3).
    /// False when there is no such id.
    pub fn disconnect_rid(&mut self, now: Instant, id: &RoutingId) -> bool {
        unimplemented!()
    }

    /// The next time at which [`Self::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        unimplemented!()
    }

    /// Ends what is over: requests (D-R4).
    pub fn expire(&mut self, now: Instant) {
        unimplemented!()
    }

    /// Takes nothing more; tokens end silently (D-W7). What is queued can still be written.
    pub fn close(&mut self, now: Instant) {
        unimplemented!()
    }

    /// What all links have queued or under way, in both directions.
    pub fn queued(&self) -> Charge {
        unimplemented!()
    }

    /// Nobody is bound to it any more; its links live on. False when nobody was.
    pub fn unbound(&mut self, endpoint: &str) -> bool {
        unimplemented!()
    }

    /// Adds an event of an endpoint or of a connection that was never attached.
    pub fn report(&mut self, event: super::monitor::Event) {
        unimplemented!()
    }

    /// Takes events of the kinds in this mask, so many at a time.
    pub fn set_monitor(&mut self, mask: u32, capacity: usize) {
        unimplemented!()
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<super::monitor::Event> {
        unimplemented!()
    }

    /// The socket at this moment (4.7).
    pub fn status(&self) -> super::status::Status {
        unimplemented!()
    }

    /// Its peers.
    pub fn peers(&self) -> Vec<super::status::PeerStatus> {
        unimplemented!()
    }

    /// What it has counted.
    pub fn counters(&self) -> &super::status::Counters {
        unimplemented!()
    }

    /// Nothing is queued or under way on any link.
    pub fn drained(&self) -> bool {
        unimplemented!()
    }
}
