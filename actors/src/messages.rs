//! Every typed message of the system, in one place.
//!
//! Payload does not travel through the supervisor, and on a plain chain not through any mailbox:
//! a line holds both of its sockets.

use std::sync::Arc;
use std::time::Instant;

use actix::prelude::*;
use lineway_wire::line::FinishReason;

use crate::registry::{LineId, LineView};

// ---- lifecycle -------------------------------------------------------------------------------

/// Ends a line from outside: an operator, a drain, a reload (L04).
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Finish {
    /// Why.
    pub reason: FinishReason,
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
}

impl DeadlineKind {
    /// Every kind, in the order of the metrics.
    pub const ALL: [Self; 2] = [Self::Connect, Self::Tester];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tester => "tester",
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
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Expired {
    /// The line whose deadline it is.
    pub id: LineId,
    /// The generation that it was watched with.
    pub generation: u32,
}

// ---- workers and listeners ---------------------------------------------------------------------

/// A listener stops: a reload removed it, or the service drains.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Retire {
    /// Connections that wait in the socket's queue are accepted first (T01).
    pub accept_waiting: bool,
}

/// TEMP
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct ExpiredBatch {
    pub expired: Vec<Expired>,
}
/// TEMP
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WatchAgain;
/// TEMP
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StartAgain {
    pub node: Option<Arc<str>>,
}
