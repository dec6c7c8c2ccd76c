//! Ways out: where bytes go, and what came of sending them.

use std::net::SocketAddr;

use lineway_wire::sip::draft::Draft;
use lineway_wire::sip::own::{ConnectionId, SocketId, Transport};
use lineway_wire::sip::sl::Back;

/// A way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The own socket; for TCP whose node and source address it is.
    pub socket: SocketId,
    /// The transport.
    pub transport: Transport,
    /// Where to.
    pub to: SocketAddr,
    /// The connection that is tried first, for TCP.
    pub connection: Option<ConnectionId>,
    /// Without a live connection one is opened.
    pub may_connect: bool,
    /// The connection is closed once it is written (`set_reply_close`).
    pub close_after: bool,
}

impl Way {
    /// The way back of a reply that is made here.
    pub const fn back(back: Back, draft: &Draft) -> Self {
        Self {
            socket: back.socket,
            transport: back.transport,
            to: back.to,
            connection: back.connection,
            may_connect: !draft.reply_no_connect,
            close_after: draft.reply_close,
        }
    }
}

/// Why a message could not be sent; the `reason` label of send errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SendError {
    /// The system refused it.
    #[error("the system refused to send")]
    System,
    /// It is larger than a datagram can be.
    #[error("too large for a datagram")]
    TooLarge,
    /// The connect was refused or the peer is unreachable (R154).
    #[error("the next hop refused the connection")]
    Refused,
    /// The connect took too long.
    #[error("the next hop did not answer the connect")]
    Timeout,
    /// What waits for the connection or socket is at its limit.
    #[error("too much waits for the next hop")]
    Full,
    /// The connection is gone and none may be opened.
    #[error("no connection")]
    NoConnection,
    /// No own socket of that transport and address family (contract 1.2).
    #[error("no socket of that transport and address family")]
    NoSocket,
}

impl SendError {
    /// Every reason, in the order of the metrics.
    pub const ALL: [Self; 7] = [
        Self::System,
        Self::TooLarge,
        Self::Refused,
        Self::Timeout,
        Self::Full,
        Self::NoConnection,
        Self::NoSocket,
    ];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::TooLarge => "too-large",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::Full => "full",
            Self::NoConnection => "no-connection",
            Self::NoSocket => "no-socket",
        }
    }
}
