//! Events of a socket for whoever watches it (4.6).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use super::core::{ConnectionId, Disconnected};
use super::record::Lane;

#[cfg(test)]
mod tests;

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $bit:literal, $name:literal;)*) => {
        /// What happened.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $variant,)*
        }

        impl EventKind {
            /// Every one, in the order of their bits.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its bit in a mask.
            pub const fn bit(self) -> u32 {
                match self { $(Self::$variant => 1 << $bit,)* }
            }

            /// The contract's name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

events! {
    /// A dialled transport is connected.
    Connected = 0, "CONNECTED";
    /// A dial has begun and takes its time.
    ConnectDelayed = 1, "CONNECT_DELAYED";
    /// A dial is tried again; the value is the wait in milliseconds.
    ConnectRetried = 2, "CONNECT_RETRIED";
    /// An endpoint is bound.
    Listening = 3, "LISTENING";
    /// An endpoint could not be bound; the value is the errno.
    BindFailed = 4, "BIND_FAILED";
    /// A transport was accepted.
    Accepted = 5, "ACCEPTED";
    /// Accepting failed; the value is the errno.
    AcceptFailed = 6, "ACCEPT_FAILED";
    /// A listener, or a transport that never had a handshake, was closed.
    Closed = 7, "CLOSED";
    /// Closing failed; the value is the errno.
    CloseFailed = 8, "CLOSE_FAILED";
    /// A connection ended; the value is [`Disconnected::value`].
    Disconnected = 9, "DISCONNECTED";
    /// The last event.
    MonitorStopped = 10, "MONITOR_STOPPED";
    /// A handshake failed, for no reason of the protocol.
    HandshakeFailedNoDetail = 11, "HANDSHAKE_FAILED_NO_DETAIL";
    /// A link is ready; the value is the number of ready logical peers.
    ConnectionReady = 12, "CONNECTION_READY";
    /// A handshake broke the protocol; the value is [`HandshakeFault::value`].
    HandshakeFailedProtocol = 13, "HANDSHAKE_FAILED_PROTOCOL";
    /// A handshake failed to authenticate.
    HandshakeFailedAuth = 14, "HANDSHAKE_FAILED_AUTH";
    /// A peer's weight changed; the value is the weight.
    PeerWeightChanged = 15, "PEER_WEIGHT_CHANGED";
    /// A peer's PAUSED was applied; the value is its epoch.
    SendFlowPaused = 16, "SEND_FLOW_PAUSED";
    /// A peer's RUNNING was applied; the value is its epoch.
    SendFlowResumed = 17, "SEND_FLOW_RESUMED";
    /// A peer's flow state was not applied; the value is the epoch received.
    FlowStateStale = 18, "FLOW_STATE_STALE";
}

/// Every event in a mask.
pub const ALL_EVENTS: u32 = 0x7_FFFF;

/// Flag: the number of ready logical peers grew.
pub const READY_EDGE: u32 = 1 << 0;
/// Flag of a RESUMED: nothing else holds records back.
pub const SEND_FLOW_WRITABLE: u32 = 1 << 1;
/// Flag of a STALE: its epoch is not above the last one of the same connection.
pub const STALE_EPOCH: u32 = 1 << 3;

/// Which step of a handshake broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeFault {
    /// The HELLO.
    Hello,
    /// The READY.
    Ready,
}

impl HandshakeFault {
    /// The value of a `HANDSHAKE_FAILED_PROTOCOL` event.
    pub const fn value(self) -> u64 {
        match self {
            Self::Hello => 0x1000_0013,
            Self::Ready => 0x1000_0016,
        }
    }
}

impl Disconnected {
    /// The value of a DISCONNECTED event.
    pub const fn value(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Handshake => 3,
            Self::Transport => 4,
            Self::ContextEnd => 5,
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// A number whose meaning depends on the kind.
    pub value: u64,
    /// The peer's routing id; empty where it is not known.
    pub routing_id: Bytes,
    /// The local address; empty where there is none.
    pub local: Arc<str>,
    /// The peer's address; empty where there is none.
    pub remote: Arc<str>,
    /// The connection; `None` for an event of an endpoint.
    pub connection: Option<ConnectionId>,
    /// The lane of the connection.
    pub lane: Lane,
    /// [`READY_EDGE`], [`SEND_FLOW_WRITABLE`], [`STALE_EPOCH`].
    pub flags: u32,
}

impl Event {
    /// An event of an endpoint: no peer, no connection, lane 0, no flags.
    pub fn new(kind: EventKind, value: u64, local: Arc<str>, remote: Arc<str>) -> Self {
        Self {
            kind,
            value,
            routing_id: Bytes::new(),
            local,
            remote,
            connection: None,
            lane: Lane::Application,
            flags: 0,
        }
    }
}

/// Events that wait to be taken. Bounded: a full queue drops the event that comes.
#[derive(Debug, Default)]
pub struct EventQueue {
    mask: u32,
    capacity: usize,
    events: VecDeque<Event>,
    dropped: u64,
}

impl EventQueue {
    /// A queue that takes the kinds of this mask, as many as `capacity` at a time.
    pub fn new(mask: u32, capacity: usize) -> Self {
        Self { mask: mask & ALL_EVENTS, capacity, events: VecDeque::new(), dropped: 0 }
    }

    /// Takes other kinds, and another number of them. What waits stays.
    pub fn set(&mut self, mask: u32, capacity: usize) {
        self.mask = mask & ALL_EVENTS;
        self.capacity = capacity;
    }

    /// Somebody wants this kind: ask before making an event.
    pub const fn wants(&self, kind: EventKind) -> bool {
        self.mask & kind.bit() != 0
    }

    /// Adds an event. True when the queue was empty before it: whoever waits is to be woken.
    pub fn push(&mut self, event: Event) -> bool {
        if !self.wants(event.kind) {
            return false;
        }
        if self.events.len() >= self.capacity {
            self.dropped += 1;
            return false;
        }
        self.events.push_back(event);
        self.events.len() == 1
    }

    /// Takes the oldest event.
    pub fn pop(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// None waits.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many found the queue full.
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}
