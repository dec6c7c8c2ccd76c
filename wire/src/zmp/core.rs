//! One socket: who gets the next record, what waits, what was asked and is still to be answered.
//!
//! Every operation is one step that decides and does no I/O (X-1). What somebody outside has to be
//! told is noted as a [`Wake`]; the owner takes them after each step and wakes when it has let go
//! of its lock.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use self::counted::Counted;
use self::endpoints::Endpoints;
use self::links::{LinkKey, Links, Load};
use self::receive::Turns;
use self::replies::Replies;
use self::requests::Requests;
use self::routes::Routes;
use self::waiting::Waits;
use self::wakes::Wakes;
use super::flow::SendFlow;
use super::monitor::EventQueue;
use super::outcome::{Errno, RequestResult, SubmitError};
use super::record::{Charge, Inbound, Lane, Outgoing, Record, RoutingId, SocketKind};
use super::scheduler::Scheduler;
use super::status::Counters;

pub use self::links::COMPLETION_LIMIT;

mod attach;
mod counted;
mod endpoints;
mod exchange;
mod links;
mod receive;
mod replies;
mod requests;
mod routes;
mod state;
mod submit;
mod waiting;
mod wakes;

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
    /// From the socket: the receive limit of the link as it is, in bytes; 0 = none.
    pub receive_hwm: Charge,
    /// From the socket: more waits to be written than there was room for.
    pub more: bool,
    /// From the socket: every connection of the link is there. Until then the limit of the handshake
    /// runs (1.5).
    pub ready: bool,
    /// From the socket: the connection is to end, once everything is written: it goes on with turns
    /// while there is `more`.
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
///
/// A link to a peer is made of one connection, or of two between ROUTERs:
///
/// ```text
///  attach            every lane there      another link of the id wins (R-D2)
/// ───────> Assembling ─────────> Active ──────────────────────────> Standby
///              │                   │ ^                                 │ │
///              │                   │ └─────────────────────────────────┘ │
///              │                   │        the winner ended             │
///              │ detach, disconnect, replaced by a new one (R-D1)        │
///              └──────────────> Ended <──────────────────────────────────┘
/// ```
///
/// Records go to an active link only. What came on a link that ended is still taken, unless the
/// application removed it. A request ends in one of these ways, and always in one:
///
/// ```text
/// submitted ──> on the link ──┬─ reply in front of its link ──> completion: what the reply says
///                             ├─ its time is over ────────────> completion: TIMED_OUT
///                             ├─ its link ended, stands by ───> completion: NOT_CONNECTED
///                             └─ its target was removed ──────> completion: NOT_FOUND
/// ```
#[derive(Debug)]
pub struct Core {
    options: CoreOptions,
    closed: bool,
    links: Links,
    /// By the number of the connection.
    connections: Counted<(LinkKey, Lane)>,
    /// Accepted links of which a connection is missing, by the routing id that both have to say.
    halves: HashMap<Bytes, LinkKey>,
    routes: Routes,
    endpoints: Endpoints,
    /// DEALER: the active links.
    scheduler: Scheduler<LinkKey>,
    waits: Waits,
    requests: Requests,
    replies: Replies,
    turns: Turns,
    flow: SendFlow,
    wakes: Wakes,
    monitor: EventQueue,
    counters: Counters,
    load: Load,
    /// How many links are active.
    active: usize,
    /// How many of them the monitor knows.
    ready_told: usize,
    /// How many links can take a record.
    writable: usize,
}

impl Core {
    /// A socket without peers.
    pub fn new(options: CoreOptions) -> Self {
        Self {
            options,
            closed: false,
            links: Links::default(),
            connections: Counted::default(),
            halves: HashMap::new(),
            routes: Routes::default(),
            endpoints: Endpoints::default(),
            scheduler: Scheduler::default(),
            waits: Waits::default(),
            requests: Requests::default(),
            replies: Replies::default(),
            turns: Turns::default(),
            flow: SendFlow::new(),
            wakes: Wakes::default(),
            monitor: EventQueue::default(),
            counters: Counters::default(),
            load: Load::default(),
            active: 0,
            ready_told: 0,
            writable: 0,
        }
    }
}

#[cfg(test)]
mod tests;
