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

use super::control::{self, Control, HELLO_BYTES, internal};
use super::decoder::{Credit, Decoded, Decoder};
use super::frame::{ErrorCode, Header, ProtocolError};
use super::handshake::{self, Agreed, Peer};
use super::monitor::HandshakeFault;
use super::record::{Charge, Inbound, Kind, Lane, RoutingId, SocketKind};

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

/// The most that is queued on a Completion lane, which has no limit of its own (X-3).
const COMPLETION_LANE_MOST: Charge = 64 << 20;

/// How far a connection is.
#[derive(Clone, Debug)]
enum Stage {
    /// The peer's HELLO is awaited.
    Hello,
    /// Its READY is.
    Ready(Peer),
    /// It is established, on this lane.
    Established(Lane),
    /// The peer has sent an ERROR.
    Over,
}

/// One physical connection, without its socket.
#[derive(Debug)]
pub struct Connection {
    own: ConnectionOptions,
    stage: Stage,
    decoder: Decoder,
    output: BytesMut,
    /// What ended it.
    fault: Option<ProtocolError>,
}

impl Connection {
    /// A connection whose HELLO is in the output.
    pub fn new(options: ConnectionOptions) -> Self {
        let mut output = BytesMut::new();
        handshake::hello(&options, &mut output);
        Self {
            decoder: Decoder::new(options.max_message_size),
            own: options,
            stage: Stage::Hello,
            output,
            fault: None,
        }
    }

    /// The next thing that the bytes in `input` say; what it used is taken out of them. Payloads
    /// share the buffer. `receive_hwm` is the limit of what is reserved and not taken, 0 = none
    /// (the Completion lane has its own); `taken` is all that was ever taken.
    ///
    /// # Errors
    /// The peer broke the protocol (1.2): the connection is over, and says the same again.
    #[inline]
    pub fn next(
        &mut self,
        input: &mut BytesMut,
        receive_hwm: Charge,
        taken: Charge,
    ) -> Result<Next, ProtocolError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let next = self.advance(input, receive_hwm, taken);
        self.fault = next.as_ref().err().copied();
        next
    }

    fn advance(
        &mut self,
        input: &mut BytesMut,
        receive_hwm: Charge,
        taken: Charge,
    ) -> Result<Next, ProtocolError> {
        let hwm = match self.stage {
            Stage::Established(Lane::Completion) => COMPLETION_LANE_MOST,
            _ => receive_hwm,
        };
        let credit = Credit { hwm, taken };
        loop {
            if matches!(self.stage, Stage::Over) {
                input.clear();
                return Ok(Next::NeedsMore);
            }
            let (own, stage) = (self.own.kind, &self.stage);
            match self.decoder.next(input, credit, |header| stage.judge(own, header))? {
                Decoded::Record(kind, record) => {
                    return Ok(Next::Event(Event::Inbound(Inbound::Record(kind, record))));
                }
                Decoded::NeedsMore => return Ok(Next::NeedsMore),
                Decoded::Blocked => return Ok(Next::Blocked),
                Decoded::Control(body) => {
                    if let Some(event) = self.control(control::parse(&body)?)? {
                        return Ok(Next::Event(event));
                    }
                }
            }
        }
    }

    /// A control frame; no event for one that nobody knows.
    fn control(&mut self, control: Control<'_>) -> Result<Option<Event>, ProtocolError> {
        if let Control::Error { code, reason } = control {
            self.stage = Stage::Over;
            return Ok(Some(Event::Error { code, reason: Bytes::copy_from_slice(reason) }));
        }
        match (&self.stage, control) {
            (Stage::Hello, Control::Hello { socket_type, routing_id }) => {
                let peer = handshake::met(&self.own, socket_type, routing_id, &mut self.output)?;
                let Peer { kind, routing_id } = peer.clone();
                self.stage = Stage::Ready(peer);
                Ok(Some(Event::Hello { kind, routing_id }))
            }
            (Stage::Ready(peer), Control::Ready(ready)) => {
                let agreed = handshake::ready(&self.own, peer, ready, &mut self.output)?;
                let Peer { kind, routing_id } = peer.clone();
                let Agreed { max_message_size, lane } = agreed;
                self.stage = Stage::Established(lane);
                Ok(Some(Event::Established { kind, routing_id, max_message_size, lane }))
            }
            (Stage::Established(..), Control::Weight(weight)) => {
                Ok(Some(Event::Inbound(weight.map_or(Inbound::Malformed, Inbound::Weight))))
            }
            (Stage::Established(..), Control::FlowState(said)) => {
                let inbound = said.map_or(Inbound::Malformed, |(state, epoch)| {
                    Inbound::FlowState { state, epoch }
                });
                Ok(Some(Event::Inbound(inbound)))
            }
            (Stage::Established(..), Control::Unknown) => Ok(None),
            (Stage::Hello, _) => Err(internal("something else before HELLO")),
            (Stage::Ready(_), _) => Err(internal("something else before READY")),
            _ => Err(internal("a handshake frame behind the handshake")),
        }
    }

    /// The stream has ended, after [`Next::NeedsMore`] with what is left in `input`.
    ///
    /// # Errors
    /// It ended inside of a frame or a record (check 11).
    pub fn end(&mut self, input: &BytesMut) -> Result<(), ProtocolError> {
        match (self.fault, &self.stage) {
            (Some(fault), _) => Err(fault),
            (None, Stage::Over) => Ok(()),
            (None, _) => self.decoder.end(input).inspect_err(|fault| self.fault = Some(*fault)),
        }
    }

    /// After [`Next::NeedsMore`]: how many bytes more the next read should have room for, at least.
    /// It grows with what came and not with what a header says.
    pub const fn wanted(&self) -> usize {
        self.decoder.wanted()
    }

    /// The charge of all that was ever admitted; what of it is not taken is outstanding.
    pub const fn reserved(&self) -> Charge {
        self.decoder.reserved()
    }

    /// Bytes of the handshake to write.
    pub fn output(&mut self) -> Option<Bytes> {
        (!self.output.is_empty()).then(|| std::mem::take(&mut self.output).freeze())
    }

    /// The handshake is over.
    pub const fn is_established(&self) -> bool {
        matches!(self.stage, Stage::Established(..))
    }

    /// Which step of the handshake is under way, or failed; `None` once established, and once the
    /// peer has sent an ERROR.
    pub const fn handshake(&self) -> Option<HandshakeFault> {
        match self.stage {
            Stage::Hello => Some(HandshakeFault::Hello),
            Stage::Ready(_) => Some(HandshakeFault::Ready),
            Stage::Established(..) | Stage::Over => None,
        }
    }
}

impl Stage {
    /// Whether a frame may come at all, by its header; not asked inside of a record.
    #[inline]
    fn judge(&self, own: SocketKind, header: Header) -> Result<(), ProtocolError> {
        match *self {
            Self::Established(lane) if !header.is_special() => lane_takes(own, lane, header.kind),
            Self::Established(..) if header.is_control() => Ok(()),
            Self::Established(..) => {
                let what = "a flag of other types of sockets";
                Err(ProtocolError::new(ErrorCode::Flags, what))
            }
            // An ERROR is never larger either.
            Self::Hello if header.is_control() && !HELLO_BYTES.contains(&header.size) => {
                Err(internal("no HELLO has this size"))
            }
            _ if header.is_control() => Ok(()),
            Self::Hello => Err(internal("a record before HELLO")),
            _ => Err(internal("a record before READY")),
        }
    }
}

/// What the socket takes on a lane (1.4, 1.6, X-8).
#[inline]
fn lane_takes(own: SocketKind, lane: Lane, kind: Kind) -> Result<(), ProtocolError> {
    let what = match (own, lane, kind) {
        (SocketKind::Dealer, _, Kind::Request(_)) => {
            return Err(internal("a request to a DEALER"));
        }
        (SocketKind::Router, Lane::Application, Kind::Reply(_) | Kind::ErrorReply(_)) => {
            "a reply on the Application lane of a ROUTER"
        }
        (SocketKind::Router, Lane::Completion, Kind::Data | Kind::Request(_)) => {
            "no reply on a Completion lane"
        }
        _ => return Ok(()),
    };
    Err(ProtocolError::new(ErrorCode::Kind, what))
}

/// The ERROR frame for a fault, with the default text of its code (1.2).
pub fn error_frame(error: &ProtocolError) -> Bytes {
    let mut frame = BytesMut::new();
    control::put_error(&mut frame, error.code);
    frame.freeze()
}

/// The fault of a handshake that took too long (`HANDSHAKE_IVL`).
pub const fn handshake_timeout() -> ProtocolError {
    ProtocolError::new(ErrorCode::HandshakeTimeout, "the handshake took too long")
}

#[cfg(test)]
mod tests;
