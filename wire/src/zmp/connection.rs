//! One physical connection: bytes in, events out; handshake bytes to write.
//!
//! ```text
//! new ── HELLO in the output
//!  │
//!  ├─ peer's HELLO ──> Event::Hello; a dialled one puts its READY into the output
//!  ├─ peer's READY ──> Event::Established; an accepted one puts its READY into the output
//!  ├─ records, WEIGHT, FLOWSTATE ──> Event::Inbound
//!  └─ peer's ERROR ──> Event::Error, or anything wrong ──> ProtocolError: the connection is over
//! ```

use bytes::{Bytes, BytesMut};

use super::frame::ProtocolError;
use super::record::{Charge, Inbound, Lane, RoutingId, SocketKind};

/// What a connection is made with.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// What its socket is.
    pub kind: SocketKind,
    /// The routing id of its socket.
    pub routing_id: RoutingId,
    /// This side dialled it.
    pub dialled: bool,
    /// Dialled: which connection of the link it is to be. Accepted: ignored, the peer tells.
    pub lane: Lane,
    /// `MAXMSGSIZE` in bytes; 0 = no limit.
    pub max_message_size: u64,
}

/// What a connection has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer's HELLO is right. [`SocketKind::lanes_with`] tells how many connections the link has.
    Hello {
        /// What the peer is.
        kind: SocketKind,
        /// Its routing id; may be empty.
        routing_id: Bytes,
    },
    /// The peer's READY is right. On an accepted connection the own READY is in the output: the
    /// link must not be used before that is written (1.5), although records of a hasty peer may
    /// follow at once.
    Established {
        /// What the peer is.
        kind: SocketKind,
        /// Its routing id; may be empty.
        routing_id: Bytes,
        /// The largest record that it takes, in bytes; 0 = no limit.
        max_message_size: u64,
        /// Which connection of the link this is.
        lane: Lane,
    },
    /// Something arrived on the established connection.
    Inbound(Inbound),
    /// The peer's ERROR frame: the connection is over.
    Error {
        /// Its code as it stands on the wire.
        code: u8,
        /// Its text, of any bytes.
        reason: Bytes,
    },
}

/// What [`Connection::next`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Something to do; there may be more.
    Event(Event),
    /// More bytes are needed.
    NeedsMore,
    /// The receive limit has no room (X-3). It goes on when more was taken.
    Blocked,
}

/// Which step of the handshake failed, for the monitor (4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeFault {
    /// The peer's HELLO was wrong, or did not come.
    Hello,
    /// The peer's READY was wrong, or did not come.
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

/// One physical connection, without its socket.
#[derive(Debug)]
pub struct Connection {}

#[allow(clippy::unimplemented, unused_variables)]
impl Connection {
    /// A connection whose HELLO is in the output.
    pub fn new(options: ConnectionOptions) -> Self {
        unimplemented!()
    }

    /// The next thing that the bytes in `input` say; what it used is taken out of them. Payloads
    /// share the buffer. `receive_hwm` is the limit of what is reserved and not taken, 0 = none
    /// (the Completion lane has its own); `taken` is all that was ever taken.
    ///
    /// # Errors
    /// The peer broke the protocol (1.2): the connection is over, and says the same again.
    pub fn next(
        &mut self,
        input: &mut BytesMut,
        receive_hwm: Charge,
        taken: Charge,
    ) -> Result<Next, ProtocolError> {
        unimplemented!()
    }

    /// The stream has ended, after [`Next::NeedsMore`] with what is left in `input`.
    ///
    /// # Errors
    /// It ended inside of a frame or a record (check 11).
    pub fn end(&mut self, input: &BytesMut) -> Result<(), ProtocolError> {
        unimplemented!()
    }

    /// After [`Next::NeedsMore`]: how many bytes more the next read should have room for, at least.
    /// It grows with what came and not with what a header says.
    pub fn wanted(&self) -> usize {
        unimplemented!()
    }

    /// The charge of all that was ever admitted; what of it is not taken is outstanding.
    pub fn reserved(&self) -> Charge {
        unimplemented!()
    }

    /// Bytes of the handshake to write.
    pub fn output(&mut self) -> Option<Bytes> {
        unimplemented!()
    }

    /// The handshake is over.
    pub fn is_established(&self) -> bool {
        unimplemented!()
    }

    /// Which step of the handshake is under way, or failed; `None` once established.
    pub fn handshake(&self) -> Option<HandshakeFault> {
        unimplemented!()
    }
}

/// The ERROR frame for a fault, with the default text of its code (1.2).
#[allow(clippy::unimplemented, unused_variables)]
pub fn error_frame(error: &ProtocolError) -> Bytes {
    unimplemented!()
}

/// The fault of a handshake that took too long (`HANDSHAKE_IVL`).
pub const fn handshake_timeout() -> ProtocolError {
    ProtocolError {
        code: super::frame::ErrorCode::HandshakeTimeout,
        what: "the handshake took too long",
    }
}
