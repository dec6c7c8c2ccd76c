//! What a broker or an echo tells of itself.

use std::time::Duration;

use crate::zmp::outcome::{Errno, RequestResult};
use crate::zmp::record::Charge;

/// Why DATA was dropped; the `reason` of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// Nobody has a link for it, or a worker sent it without `data-envelope` (B-3).
    NoRoute,
    /// More than may wait for its client.
    Hwm,
    /// Larger than its receiver takes.
    TooLarge,
    /// An envelope without a routing id or without anything behind it.
    Malformed,
}

impl DropReason {
    /// Every one, in the order of [`Counters::data_dropped`].
    pub const ALL: [Self; 4] = [Self::NoRoute, Self::Hwm, Self::TooLarge, Self::Malformed];

    /// The word used as metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRoute => "no_route",
            Self::Hwm => "hwm",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
        }
    }
}

/// What was done; numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that came from clients.
    pub requests: u64,
    /// REPLYs that their client's link has taken.
    pub replies: u64,
    /// ERROR REPLYs that their client's link has taken, in the order of [`RequestResult::ALL`] by
    /// what their errno stands for (4.8).
    pub error_replies: [u64; RequestResult::ALL.len()],
    /// Replies that nobody got: their client left, or the time to stop was over.
    pub replies_abandoned: u64,
    /// DATA that workers took.
    pub data_to_workers: u64,
    /// DATA that the links of clients took.
    pub data_to_clients: u64,
    /// DATA that was dropped, in the order of [`DropReason::ALL`].
    pub data_dropped: [u64; DropReason::ALL.len()],
    /// How often the RouterSocket was paused (B-1).
    pub pauses: u64,
}

impl Counters {
    pub(super) fn error(&mut self, errno: Errno) {
        let result = RequestResult::of_errno(errno);
        self.error_replies[result as usize] += 1;
    }

    pub(super) fn dropped(&mut self, reason: DropReason) {
        self.data_dropped[reason as usize] += 1;
    }

    /// How many ERROR REPLYs of this class were sent.
    pub const fn errors(&self, result: RequestResult) -> u64 {
        self.error_replies[result as usize]
    }

    /// How much DATA was dropped for this reason.
    pub const fn drops(&self, reason: DropReason) -> u64 {
        self.data_dropped[reason as usize]
    }
}

/// Counters, and how it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// What was done.
    pub counters: Counters,
    /// Requests that wait for a worker.
    pub held_requests: usize,
    /// DATA that waits for a worker.
    pub held_data: usize,
    /// Requests that a worker has.
    pub in_flight: usize,
    /// Answers that wait for the room of their client's link.
    pub waiting_answers: usize,
    /// What they are charged.
    pub waiting_charge: Charge,
    /// The RouterSocket is paused (B-1).
    pub paused: bool,
    /// No request is taken any more.
    pub draining: bool,
}

/// What a broker is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// `data-envelope`: DATA goes both ways, with the routing id of the client in front.
    pub data_envelope: bool,
    /// What may wait for one client's link beyond its send limit, as a charge. A reply beyond it
    /// becomes an ERROR REPLY EAGAIN.
    pub waiting_each: Charge,
    /// What may wait for all links of clients together, as a charge.
    pub waiting_all: Charge,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self { data_envelope: false, waiting_each: 64 << 20, waiting_all: 256 << 20 }
    }
}

/// The shortest and the longest time between two looks at clients that wait.
pub(super) const LOOK: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
