//! What a socket is made with, and where it lives.

use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lineway_wire::zmp::core::CoreOptions;
use lineway_wire::zmp::{RoutingId, SocketKind};

use super::{Inproc, Total};
use crate::dns::Names;
use crate::metrics::ActorMetrics;
use crate::net::Network;

/// Options of a socket, with the contract's defaults (4.3) and the bounds of B-7.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// What the socket itself knows: kind, routing id, weight, limits in bytes.
    pub core: CoreOptions,
    /// `HANDSHAKE_IVL`: how long a connection may take until it is ready.
    pub handshake_interval: Duration,
    /// `RECONNECT_IVL`: how long a dial that failed or a connection that ended is waited after.
    pub reconnect_interval: Duration,
    /// `RECONNECT_IVL_MAX`: the wait doubles up to this; `None` = each wait has a random part.
    pub reconnect_interval_max: Option<Duration>,
    /// `LINGER`: how long a close waits for what is queued; `None` = for ever.
    pub linger: Option<Duration>,
    /// `SNDTIMEO`: how long a send waits; `None` = for ever.
    pub send_timeout: Option<Duration>,
    /// `RCVTIMEO`: how long a receive waits; `None` = for ever.
    pub receive_timeout: Option<Duration>,
    /// `CONNECT_TIMEOUT`: how long one dial may take; `None` = as long as the system tries.
    pub connect_timeout: Option<Duration>,
    /// `BACKLOG` of listening sockets.
    pub backlog: u32,
    /// Accepted connections in their handshake; more are accepted when one is over (B-7).
    pub max_handshakes: usize,
    /// `TCP_KEEPALIVE`: the idle time after which a peer is probed; `None` = never.
    pub tcp_keepalive: Option<Duration>,
    /// `TCP_USER_TIMEOUT`: how long sent bytes may be unacknowledged; `None` = the system's.
    pub tcp_user_timeout: Option<Duration>,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
}

impl SocketOptions {
    /// The defaults for a socket with this routing id.
    pub fn new(kind: SocketKind, routing_id: RoutingId) -> Self {
        Self {
            core: CoreOptions::new(kind, routing_id),
            handshake_interval: Duration::from_secs(30),
            reconnect_interval: Duration::from_millis(100),
            reconnect_interval_max: None,
            linger: None,
            send_timeout: Some(Duration::from_secs(1)),
            receive_timeout: Some(Duration::from_secs(1)),
            connect_timeout: None,
            backlog: 100,
            max_handshakes: 1024,
            tcp_keepalive: Some(Duration::from_secs(10)),
            tcp_user_timeout: Some(Duration::from_secs(30)),
            nodelay: true,
        }
    }

    /// The defaults for a DEALER with a routing id of its own.
    pub fn dealer() -> Self {
        Self::new(SocketKind::Dealer, random_routing_id())
    }

    /// The defaults for a ROUTER with a routing id of its own.
    pub fn router() -> Self {
        Self::new(SocketKind::Router, random_routing_id())
    }

    /// The times that may change while the socket lives.
    pub const fn timing(&self) -> Timing {
        Timing {
            handshake_interval: self.handshake_interval,
            reconnect_interval: self.reconnect_interval,
            reconnect_interval_max: self.reconnect_interval_max,
            linger: self.linger,
            send_timeout: self.send_timeout,
            receive_timeout: self.receive_timeout,
            connect_timeout: self.connect_timeout,
        }
    }

    pub(super) const fn set_timing(&mut self, timing: Timing) {
        self.handshake_interval = timing.handshake_interval;
        self.reconnect_interval = timing.reconnect_interval;
        self.reconnect_interval_max = timing.reconnect_interval_max;
        self.linger = timing.linger;
        self.send_timeout = timing.send_timeout;
        self.receive_timeout = timing.receive_timeout;
        self.connect_timeout = timing.connect_timeout;
    }
}

/// A routing id that nobody else has: 16 bytes with the layout of a random UUID (4.1).
pub fn random_routing_id() -> RoutingId {
    let state = RandomState::new();
    let [high, low] = [0_u8, 1].map(|half| state.hash_one(half).to_be_bytes());
    let mut id = [0; 16];
    id[..8].copy_from_slice(&high);
    id[8..].copy_from_slice(&low);
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    RoutingId::new(id.to_vec()).expect("16 bytes are neither none nor too many")
}

/// The times of a socket; each call takes them as they are when it begins. Meanings as in
/// [`SocketOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of SocketOptions say what each is")]
pub struct Timing {
    pub handshake_interval: Duration,
    pub reconnect_interval: Duration,
    pub reconnect_interval_max: Option<Duration>,
    pub linger: Option<Duration>,
    pub send_timeout: Option<Duration>,
    pub receive_timeout: Option<Duration>,
    pub connect_timeout: Option<Duration>,
}

/// What the actors of a socket need of the thread that they live on, which runs a tokio
/// `LocalSet`.
#[derive(Clone)]
pub struct SocketEnv {
    /// Where tcp connections go.
    pub network: Rc<dyn Network>,
    /// Names to addresses.
    pub names: Rc<dyn Names>,
    /// The inproc endpoints that the socket sees.
    pub inproc: Inproc,
    /// Where actors are counted.
    pub actors: ActorMetrics,
    /// What all sockets of the process have queued.
    pub total: Arc<Total>,
}

impl std::fmt::Debug for SocketEnv {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocketEnv").field("total", &self.total).finish_non_exhaustive()
    }
}
