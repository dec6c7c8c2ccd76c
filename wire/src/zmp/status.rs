//! What a socket tells of itself: its status, its peers, and what it has counted (4.7).

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::core::{ConnectionId, Disconnected, Rejection, Weight};
use super::flow::FlowChange;
use super::outcome::RequestResult;
use super::record::{Charge, FRAME_CHARGE, Kind, SocketKind};

#[cfg(test)]
mod tests;

/// The limit of a queue in bytes. Nothing changes it by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hwm {
    /// What it is to be; 0 = no limit.
    pub planned: Charge,
    /// What it is.
    pub applied: Charge,
    /// What of it waits for the queue to drain.
    pub deferred: Charge,
}

impl Hwm {
    /// A limit that was set by hand.
    pub const fn fixed(limit: Charge) -> Self {
        Self { planned: limit, applied: limit, deferred: 0 }
    }
}

/// Records of one direction that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Records that wait for the connection, or for the application.
    pub pending_msgs: u64,
    /// Their charge.
    pub pending_bytes: Charge,
    /// The charge of what is on its way between a queue and the transport.
    pub bytes_in_flight: Charge,
    /// The limit of each link.
    pub hwm: Hwm,
    /// Records refused for their size.
    pub oversize_total: u64,
}

/// Flow states that peers sent (4.7). Only the gauge goes down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowStatus {
    /// Links that are paused: `flow_paused_connections`.
    pub paused_connections: u64,
    /// Transitions to PAUSED: `flow_pause_applied_total`.
    pub pause_applied_total: u64,
    /// Transitions to RUNNING: `flow_resume_applied_total`.
    pub resume_applied_total: u64,
    /// Frames without effect for their epoch or their connection: `flow_state_stale_total`.
    pub stale_total: u64,
    /// How long the pause that ended last took; zero if none has: `flow_pause_duration_ms`.
    pub pause_duration: Duration,
}

impl FlowStatus {
    /// Counts what became of a frame.
    pub fn accepted(&mut self, change: FlowChange) {
        match change {
            FlowChange::Paused => {
                self.paused_connections += 1;
                self.pause_applied_total += 1;
            }
            FlowChange::Resumed { paused_for } => {
                self.resume_applied_total += 1;
                self.pause_ended(paused_for);
            }
            FlowChange::Same => {}
            FlowChange::Stale => self.stale_total += 1,
        }
    }

    /// Counts the end of a connection, with what [`super::flow::PeerFlow::end`] said: no resume.
    pub fn ended(&mut self, paused_for: Option<Duration>) {
        if let Some(paused_for) = paused_for {
            self.pause_ended(paused_for);
        }
    }

    fn pause_ended(&mut self, paused_for: Duration) {
        self.paused_connections -= 1;
        self.pause_duration = paused_for;
    }
}

/// A socket at one moment (4.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// A peer is ready.
    pub ready: bool,
    /// An endpoint is bound.
    pub bound: bool,
    /// The socket is closed.
    pub closed: bool,
    /// Flow states of the peers.
    pub flow: FlowStatus,
    /// To the peers: `snd_*`.
    pub send: Waiting,
    /// From the peers: `rcv_*`.
    pub receive: Waiting,
}

impl Status {
    /// Bit of [`Self::state_flags`].
    pub const READY: u32 = 1 << 0;
    /// Bit of [`Self::state_flags`].
    pub const BOUND_READY: u32 = 1 << 1;
    /// Bit of [`Self::state_flags`].
    pub const CLOSED: u32 = 1 << 3;
    /// Bit of [`Self::detail`]: the flow states are told.
    pub const FLOW_STATE: u32 = 1 << 5;
    /// The charge of an empty frame in bytes: `minimum_core_message_charge_bytes`.
    pub const MINIMUM_CHARGE: Charge = FRAME_CHARGE;

    /// `state_flags`.
    pub const fn state_flags(&self) -> u32 {
        (if self.ready { Self::READY } else { 0 })
            | (if self.bound { Self::BOUND_READY } else { 0 })
            | (if self.closed { Self::CLOSED } else { 0 })
    }

    /// What the status tells beside its common fields: always [`Self::FLOW_STATE`].
    pub const fn detail(&self) -> u32 {
        Self::FLOW_STATE
    }
}

/// One peer at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its routing id; empty where it has none.
    pub routing_id: Bytes,
    /// What it is.
    pub kind: SocketKind,
    /// The endpoint that the link was made through.
    pub endpoint: Arc<str>,
    /// Its address.
    pub remote: Arc<str>,
    /// The connection of the Application lane, once it is there.
    pub connection: Option<ConnectionId>,
    /// The weight that it told.
    pub weight: Weight,
    /// It wants no records.
    pub paused: bool,
    /// All of its lanes are there.
    pub ready: bool,
    /// Another link with its routing id is used (R-D2).
    pub standby: bool,
    /// Charge that waits to be written to it.
    pub queued_out: Charge,
    /// Charge that waits to be taken by the application.
    pub queued_in: Charge,
    /// Records that went to it.
    pub records_out: u64,
    /// Records that came from it.
    pub records_in: u64,
}

/// A closed set of reasons, kinds or results: a label of a metric.
pub trait Label: Copy + 'static {
    /// Every one.
    const ALL: &'static [Self];

    /// The word used as metric label and log field.
    fn as_str(self) -> &'static str;

    /// Its place in [`Self::ALL`].
    fn index(self) -> usize;
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $name {
                $($(#[$each])* $variant,)*
            }

            labels!(@label $name { $($variant = $word,)* });
        )*
    };
    (@label $name:ident { $($variant:ident = $word:literal,)* }) => {
        impl Label for $name {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

labels! {
    /// What a record is.
    RecordKind {
        /// A record of its own.
        Data = "data",
        /// Wants a reply.
        Request = "request",
        /// A reply.
        Reply = "reply",
        /// A reply that is an error.
        ErrorReply = "error_reply",
    }

    /// Why a record, taken or received, went nowhere.
    Drop {
        /// It has no route (R-O1), or nobody wants it (B-3).
        NoRoute = "no_route",
        /// Its route had no room, and nobody waits for it.
        Hwm = "hwm",
        /// Its peer ended before it was written.
        NoPeer = "no_peer",
        /// It was received only in part, or not taken before its link was replaced.
        Broken = "broken",
    }
}

labels!(@label Rejection {
    DuplicateId = "duplicate_id",
    Lane = "lane",
    TooManyPeers = "too_many_peers",
    Closed = "closed",
});

labels!(@label Disconnected {
    Unknown = "closed",
    Handshake = "handshake",
    Transport = "transport",
    ContextEnd = "context_end",
});

impl Label for RequestResult {
    const ALL: &'static [Self] = RequestResult::ALL;

    fn as_str(self) -> &'static str {
        RequestResult::as_str(self)
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl From<Kind> for RecordKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Data => Self::Data,
            Kind::Request(_) => Self::Request,
            Kind::Reply(_) => Self::Reply,
            Kind::ErrorReply(_) => Self::ErrorReply,
        }
    }
}

/// A counter for each value of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally<L, const N: usize> {
    counts: [u64; N],
    label: std::marker::PhantomData<L>,
}

impl<L: Label, const N: usize> Tally<L, N> {
    /// All at zero.
    pub const fn new() -> Self {
        const { assert!(N == L::ALL.len(), "one counter for each value") };
        Self { counts: [0; N], label: std::marker::PhantomData }
    }

    /// Every value with its counter.
    pub fn iter(&self) -> impl Iterator<Item = (L, u64)> + '_ {
        L::ALL.iter().map(|&label| (label, self[label]))
    }

    /// The sum of all.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl<L: Label, const N: usize> Default for Tally<L, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L: Label, const N: usize> Index<L> for Tally<L, N> {
    type Output = u64;

    fn index(&self, label: L) -> &u64 {
        &self.counts[label.index()]
    }
}

impl<L: Label, const N: usize> IndexMut<L> for Tally<L, N> {
    fn index_mut(&mut self, label: L) -> &mut u64 {
        &mut self.counts[label.index()]
    }
}

/// Records of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub records: Tally<RecordKind, 4>,
    /// Their payload.
    pub bytes: Tally<RecordKind, 4>,
}

impl Traffic {
    /// Counts a record with this payload in bytes.
    pub fn count(&mut self, kind: Kind, payload: u64) {
        let kind = RecordKind::from(kind);
        self.records[kind] += 1;
        self.bytes[kind] += payload;
    }
}

/// What a socket has counted since it was made. Nothing goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records taken for sending.
    pub sent: Traffic,
    /// Records that arrived.
    pub received: Traffic,
    /// Submits refused for want of room.
    pub backpressured: u64,
    /// Wait tokens given (D-D2).
    pub tokens_issued: u64,
    /// Wait tokens that ended, with a record or silently.
    pub tokens_finished: u64,
    /// Requests that ended, by result.
    pub completions: Tally<RequestResult, 14>,
    /// Flow epochs of this socket.
    pub epochs_issued: u64,
    /// Flow states that peers sent.
    pub flow: FlowStatus,
    /// WEIGHT and FLOWSTATE frames that are none (1.7).
    pub malformed: u64,
    /// Records that went nowhere.
    pub dropped: Tally<Drop, 4>,
    /// Links that became ready.
    pub peers_opened: u64,
    /// Links that were ready and ended.
    pub peers_closed: Tally<Disconnected, 4>,
    /// Connections refused after a good handshake.
    pub peers_rejected: Tally<Rejection, 4>,
    /// Replies owed and never given.
    pub replies_abandoned: u64,
    /// Replies to a request that was over (1.6).
    pub replies_late: u64,
    /// Records for sending that were refused for their size (D-S2).
    pub oversize_out: u64,
    /// Records from peers that were refused for their size (1.2).
    pub oversize_in: u64,
}
