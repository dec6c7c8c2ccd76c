//! Settings of the nodes that speak ZMP.

use std::time::Duration;

use lineway_wire::units::{ByteCount, Millis};
use lineway_wire::zmp::core::{CoreOptions, DuplicatePolicy, Weight};
use lineway_wire::zmp::endpoint::Endpoint;
use lineway_wire::zmp::{RoutingId, SocketKind};

use crate::socket::{SocketOptions, random_routing_id};

/// Settings of a `DealerSocket`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DealerSocketSettings {
    /// What both types have.
    pub common: MessageSettings,
}

/// Settings of a `RouterSocket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterSocketSettings {
    /// What both types have.
    pub common: MessageSettings,
    /// `mandatory`: a record for an id without a route is an error and not dropped (R-O1). Default
    /// true.
    pub mandatory: bool,
    /// `rid-duplicate-policy`: what becomes of a second peer with the id of the first (R-D1).
    pub duplicates: DuplicatePolicy,
    /// `data-envelope`: DATA goes both ways between its clients and the workers of the DealerSocket
    /// behind it, with the client's routing id as the first part. Default false.
    pub data_envelope: bool,
}

impl Default for RouterSocketSettings {
    fn default() -> Self {
        Self {
            common: MessageSettings::default(),
            mandatory: true,
            duplicates: DuplicatePolicy::Reject,
            data_envelope: false,
        }
    }
}

/// What a `DealerSocket` and a `RouterSocket` have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSettings {
    /// `bind`: where peers connect to; no endpoint twice. One of `bind` and `connect` is not empty.
    pub bind: Vec<Endpoint>,
    /// `connect`: the peers that are connected to; no endpoint twice.
    pub connect: Vec<Endpoint>,
    /// `routing-id`; `None` = 16 random bytes at each start (4.1).
    pub routing_id: Option<RoutingId>,
    /// `probe`: an empty record to each new peer (D-O3). Default false.
    pub probe: bool,
    /// `weight`: what peers choose it by (D-G1). Default 100.
    pub weight: Weight,
    /// `request-timeout-ms`: until a request is answered (D-R2); 0 = at once. Default 5000.
    pub request_timeout: Millis,
    /// `send-hwm-bytes`: what may wait to be sent to one peer (4.2); 0 = no limit. Default 4096000.
    pub send_hwm: ByteCount,
    /// `receive-hwm-bytes`: what may wait that one peer has sent; 0 = no limit. Default 4096000.
    pub receive_hwm: ByteCount,
    /// `max-message-size`: bytes of one record; 0 = no limit. Default 64 MiB.
    pub max_message_size: ByteCount,
    /// `handshake-interval-ms`: how long a handshake may take (1.5); at least 1. Default 30000.
    pub handshake_interval: Millis,
    /// `reconnect-interval-ms`: from the end of a connection to the next try (4.3); at least 1.
    /// Default 100.
    pub reconnect_interval: Millis,
    /// `reconnect-interval-max-ms`: up to where the interval doubles, not below it; 0 = it does
    /// not. Default 0.
    pub reconnect_interval_max: Millis,
    /// `linger-ms`: how long what is queued may take to leave when the socket closes. Default
    /// 10000.
    pub linger: Millis,
    /// `send-timeout-ms`: how long a record may wait for room; `None`, written -1, is for ever.
    /// Default 1000.
    pub send_timeout: Option<Millis>,
    /// `max-peers`: peers at most, one more is refused (B-7); 1 to [`Self::MOST_PEERS`]. Default
    /// 10000.
    pub max_peers: usize,
    /// `max-handshakes`: accepted connections whose handshake is not over; 1 to
    /// [`Self::MOST_PEERS`]. Default 1024.
    pub max_handshakes: usize,
    /// `max-outstanding`: requests and wait tokens, and as many replies that are owed (D-W9, R-P4);
    /// 1 to [`Self::MOST_OUTSTANDING`]. Default 65536.
    pub max_outstanding: usize,
    /// `tcp-keepalive-ms`: how long a connection may be quiet until the kernel asks whether the
    /// peer is there; 0 = the system's way. Default 10000.
    pub tcp_keepalive: Millis,
    /// `tcp-user-timeout-ms`: how long sent bytes may be without an acknowledgement; 0 = the
    /// system's way. Default 30000.
    pub tcp_user_timeout: Millis,
}

impl MessageSettings {
    /// Connections that the kernel keeps until they are accepted: peers may come back all at once.
    pub const BACKLOG: u32 = 4096;
    /// The most peers, and the most handshakes at once. Each has a socket.
    pub const MOST_PEERS: u32 = 1_000_000;
    /// The most requests at once.
    pub const MOST_OUTSTANDING: u32 = 1 << 24;
    /// The largest record, as the size field of a frame can say it.
    pub const MOST_MESSAGE_SIZE: u32 = u32::MAX;
}

impl Default for MessageSettings {
    fn default() -> Self {
        Self {
            bind: Vec::new(),
            connect: Vec::new(),
            routing_id: None,
            probe: false,
            weight: Weight::DEFAULT,
            request_timeout: Millis::new(5000),
            send_hwm: ByteCount::new(4_096_000),
            receive_hwm: ByteCount::new(4_096_000),
            max_message_size: ByteCount::new(64 << 20),
            handshake_interval: Millis::new(30_000),
            reconnect_interval: Millis::new(100),
            reconnect_interval_max: Millis::new(0),
            linger: Millis::new(10_000),
            send_timeout: Some(Millis::new(1000)),
            max_peers: 10_000,
            max_handshakes: 1024,
            max_outstanding: 65_536,
            tcp_keepalive: Millis::new(10_000),
            tcp_user_timeout: Millis::new(30_000),
        }
    }
}

impl DealerSocketSettings {
    /// The same as the socket takes it; an id of its own where none is written.
    pub fn options(&self) -> SocketOptions {
        self.common.options(SocketKind::Dealer)
    }
}

impl RouterSocketSettings {
    /// The same as the socket takes it; an id of its own where none is written.
    pub fn options(&self) -> SocketOptions {
        let mut options = self.common.options(SocketKind::Router);
        options.core.mandatory = self.mandatory;
        options.core.duplicates = self.duplicates;
        options
    }
}

/// How long one dial may take; the next one follows after the interval.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl MessageSettings {
    fn options(&self, kind: SocketKind) -> SocketOptions {
        let id = self.routing_id.clone().unwrap_or_else(random_routing_id);
        let new = SocketOptions::new(kind, id);
        SocketOptions {
            core: CoreOptions {
                weight: self.weight,
                probe: self.probe,
                request_timeout: self.request_timeout.duration(),
                send_hwm: self.send_hwm.get(),
                receive_hwm: self.receive_hwm.get(),
                max_message_size: self.max_message_size.get(),
                reservations: self.max_outstanding,
                reply_tokens: self.max_outstanding,
                max_peers: self.max_peers,
                ..new.core
            },
            handshake_interval: self.handshake_interval.duration(),
            reconnect_interval: self.reconnect_interval.duration(),
            reconnect_interval_max: self.reconnect_interval_max.limit(),
            linger: Some(self.linger.duration()),
            send_timeout: self.send_timeout.map(Millis::duration),
            connect_timeout: Some(CONNECT_TIMEOUT),
            backlog: Self::BACKLOG,
            max_handshakes: self.max_handshakes,
            tcp_keepalive: self.tcp_keepalive.limit(),
            tcp_user_timeout: self.tcp_user_timeout.limit(),
            ..new
        }
    }
}
