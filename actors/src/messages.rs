//! Every typed message of the system, in one place.
//!
//! Payload does not travel through the supervisor, and on a plain chain not through any mailbox:
//! a line holds both of its sockets.

use std::sync::Arc;
use std::time::Instant;

use actix::prelude::*;
use lineway_wire::fisher::Loss;
use lineway_wire::line::{FinishReason, PauseReason};
use lineway_wire::mux::{ChildEnd, ChildKey};
use lineway_wire::select::CandidateId;
use lineway_wire::zmp::SocketKind;
use lineway_wire::zmp::core::{ConnectionId, Disconnected, Rejection};
use lineway_wire::zmp::monitor::HandshakeFault;

use crate::metrics::ActorKind;
use crate::mux::{Batch, Joining};
use crate::registry::{LineId, LineView};

// ---- lifecycle -------------------------------------------------------------------------------

/// Ends a line from outside: an operator, a drain, a reload (L04).
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
}

// ---- candidates -------------------------------------------------------------------------------

/// A candidate tells its maker.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct CandidateSays {
    /// Which candidate of the main line it is.
    pub candidate: CandidateId,
    /// What it says.
    pub says: Says,
}

/// What a candidate says.
#[derive(Clone, Copy, Debug)]
pub enum Says {
    /// Its transport is up (C07).
    Est,
    /// Its `FISH!` was there, and what it holds is ready to be taken over (C15).
    Proved,
    /// It ended by itself (C12), and its line for this reason.
    Lost(Loss, FinishReason),
}

// ---- children of a mux -------------------------------------------------------------------------

/// Which end of a parent's line its child stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// The near end: the child came to a MuxClient.
    Near,
    /// The far end: the peer opened the child at a MuxServer.
    Far,
}

/// A child tells its parent.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ChildSays {
    /// The child.
    pub key: ChildKey,
    /// Where it stands.
    pub face: Face,
    /// What it says.
    pub says: ChildWord,
}

/// What a child says.
#[derive(Debug)]
pub enum ChildWord {
    /// It comes: its first word at a MuxClient (M15).
    Join(Joining),
    /// Payload towards the peer.
    Payload(Batch),
    /// Its line takes no payload at the moment (M21).
    Pause,
    /// Its line takes payload again (M23).
    Resume,
    /// Nothing follows what it sent; it still takes payload (M30, M31).
    InputEnded,
    /// Its line is over.
    Gone(ChildEnd),
    /// It stood for its reply alone, and too many of its worker do (M31).
    Evicted,
}

/// A parent tells a child.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ParentSays {
    /// The child.
    pub key: ChildKey,
    /// Where it stands.
    pub face: Face,
    /// What the parent says.
    pub says: ParentWord,
}

/// What a parent says.
#[derive(Debug)]
pub enum ParentWord {
    /// Its Open is out (M15), on this line of its parent.
    Est(Option<LineId>),
    /// Payload from the peer.
    Payload(Batch),
    /// Its source is to stop for this reason (M26, M27).
    Pause(PauseReason),
    /// This reason to stop is over.
    Resume(PauseReason),
    /// Nothing follows what was delivered; the other direction goes on (M30).
    InputEnded,
    /// It is over, behind what was delivered.
    Finish(ChildEnd),
}

/// A parent takes no further child: its worker drains.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct TakeNoMore;

// ---- connections of a DEALER or ROUTER ---------------------------------------------------------

/// A connection tells its socket.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ConnectionSays {
    /// Which connection.
    pub connection: ConnectionId,
    /// What it says.
    pub says: ConnectionWord,
}

/// What a connection says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionWord {
    /// Its peer is of this kind: the dialler of a link with two lanes opens the other one.
    Hello(SocketKind),
    /// Its handshake is over, and its socket has taken it.
    Ready,
    /// It has ended; said once, and the last word.
    Ended {
        /// Why.
        why: Disconnected,
        /// What was wrong with its handshake, where that failed by a fault of the peer.
        handshake: Option<HandshakeFault>,
        /// Its socket refused it after a good handshake.
        rejection: Option<Rejection>,
    },
}

/// A connection is to end at once, whatever is queued: its socket has lingered long enough.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Disconnect {
    /// What it ends with.
    pub why: Disconnected,
}

// ---- supervision -----------------------------------------------------------------------------

/// What one turn of a worker has for the supervisor, in order.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Reports {
    /// The worker's index.
    pub worker: u16,
    /// The reports, in the order in which they were made.
    pub reports: Vec<Report>,
}

/// One report of a worker.
#[derive(Debug)]
pub enum Report {
    /// A line was made.
    Opened(Arc<LineView>),
    /// A line ended.
    Closed(Closed),
    /// A deadline begins.
    Watch(Watch),
    /// A deadline is not needed any more.
    Unwatch(Unwatch),
    /// A parent's cids run short.
    LeaseCids(LeaseCids),
}

/// A line ended (L08).
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// Which line.
    pub id: LineId,
    /// Why.
    pub reason: FinishReason,
}

/// What a deadline is for; the `kind` label of the deadline metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadlineKind {
    /// The onward connection of a line: one of its addresses must answer (T12).
    Connect,
    /// The whole of a `TesterClient`'s test.
    Tester,
    /// The choice of a fisher's candidate (C04).
    Selection,
    /// The final reply of a SIP branch: `fr_timer`, `fr_inv_timer`, the lifetime.
    FinalReply,
}

impl DeadlineKind {
    /// Every kind, in the order of the metrics.
    pub const ALL: [Self; 4] = [Self::Connect, Self::Tester, Self::Selection, Self::FinalReply];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tester => "tester",
            Self::Selection => "selection",
            Self::FinalReply => "final-reply",
        }
    }
}

/// Asks the supervisor to say [`Expired`] at a deadline.
///
/// A second `Watch` of the same line replaces the first. The owner ignores an `Expired` whose
/// generation is not its current one: it can cross an `Unwatch`.
#[derive(Clone, Debug)]
pub struct Watch {
    /// The line whose deadline it is.
    pub id: LineId,
    /// The owner's count of its deadlines.
    pub generation: u32,
    /// What it is for.
    pub kind: DeadlineKind,
    /// When.
    pub deadline: Instant,
}

/// The deadline is not needed any more.
#[derive(Clone, Copy, Debug)]
pub struct Unwatch {
    /// The line whose deadline it was.
    pub id: LineId,
    /// The generation that it was watched with.
    pub generation: u32,
}

/// A watched deadline is over. The supervisor sends it to the line's worker, which passes it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Expired {
    /// The line whose deadline it is.
    pub id: LineId,
    /// The generation that it was watched with.
    pub generation: u32,
}

/// Every deadline of one worker that is over, in one message.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct ExpiredBatch {
    /// In the order in which they were over, to the millisecond.
    pub expired: Vec<Expired>,
}

/// Asks the supervisor for the next lease of a mux parent's own cids (M08).
///
/// The mark behind which the lease stands is on the parent's [`LineView`]. A parent asks through
/// [`Worker::lease_cids`](crate::worker::Worker::lease_cids), which sees to it that the answer
/// comes whatever is started again on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseCids {
    /// The parent.
    pub parent: LineId,
    /// How many children it takes in all: no number above it is granted.
    pub most: u32,
}

/// A lease of cids: numbers of this parent that nobody else gives to a child. The supervisor sends
/// it to the parent's worker, which passes it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct CidLease {
    /// The parent.
    pub parent: LineId,
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
}

/// Every lease that the parents of one worker get, in one message.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct CidLeaseBatch {
    /// In the order in which they were asked for.
    pub leases: Vec<CidLease>,
}

/// How the supervisor reaches a worker. The worker hands it over before it carries lines.
#[derive(Clone)]
pub struct Attach {
    /// The worker's index.
    pub worker: u16,
    /// Takes the deadlines that are over.
    pub expired: Recipient<ExpiredBatch>,
    /// Takes the leases of its parents.
    pub leases: Recipient<CidLeaseBatch>,
    /// Takes the wish for a [`Snapshot`].
    pub again: Recipient<WatchAgain>,
    /// Takes the order to start an actor again.
    pub restart: Recipient<StartAgain>,
}

/// The supervisor was started again and knows no deadline: the worker answers with a [`Snapshot`].
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct WatchAgain;

/// All that the supervisor has to know of one worker. What is not in it does not exist; reports of
/// the worker that were not sent before are part of it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Snapshot {
    /// The worker's index.
    pub worker: u16,
    /// Every live line.
    pub lines: Vec<Arc<LineView>>,
    /// Every deadline that runs.
    pub deadlines: Vec<Watch>,
    /// Every lease that was asked for and is still to be granted.
    pub leases: Vec<LeaseCids>,
}

/// The name of a long-lived actor, which is the same after it was started again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActorName {
    /// The worker that starts it.
    pub worker: u16,
    /// What sort of actor it is; never a line.
    pub kind: ActorKind,
    /// The node that it works for, if it works for one.
    pub node: Option<Arc<str>>,
    /// Which of several it is, such as the place of a listener's port among the ports of its node.
    pub place: u32,
}

/// A long-lived actor ended by a panic: it is to be started again.
#[derive(Clone, Debug)]
pub struct Died {
    /// Which.
    pub actor: ActorName,
}

/// Asks a worker to start a long-lived actor again. A worker that has no such actor any more, since
/// a reload took its node away, does nothing.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct StartAgain {
    /// Which.
    pub actor: ActorName,
}

// ---- workers and listeners ----------------------------------------------------------------------

/// A listener stops: a reload removed it, or the service drains.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Retire {
    /// Connections that wait in the socket's queue are accepted first (T01).
    pub accept_waiting: bool,
}

/// A reload changed what a listener works for: it takes that up, though no client may come.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct ServeAnew;
