//! The words that the whole of `zmp` shares: records, who sends them, and what crosses a link.

use std::num::NonZeroU64;

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use super::core::{FlowState, Weight};

/// What a frame is charged beside its payload, in bytes (4.2).
pub const FRAME_CHARGE: u64 = 64;

/// Bytes as a queue's limit counts them: payload and [`FRAME_CHARGE`] for each frame (4.2).
pub type Charge = u64;

/// The number that ties a reply to its request on one connection (1.6); never zero.
pub type Sequence = NonZeroU64;

/// A DEALER or a ROUTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// Sends to peers that it chooses by weight.
    Dealer,
    /// Sends to peers by their routing id.
    Router,
}

impl SocketKind {
    /// The byte of a HELLO (1.3).
    pub const fn byte(self) -> u8 {
        match self {
            Self::Dealer => 5,
            Self::Router => 6,
        }
    }

    /// The kind with this byte; `None` for every other type of socket.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            5 => Some(Self::Dealer),
            6 => Some(Self::Router),
            _ => None,
        }
    }

    /// The value of the READY property `Socket-Type` (1.3).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dealer => "DEALER",
            Self::Router => "ROUTER",
        }
    }

    /// How many connections a link between two kinds has (1.4).
    pub const fn lanes_with(self, peer: Self) -> u8 {
        match (self, peer) {
            (Self::Router, Self::Router) => 2,
            _ => 1,
        }
    }
}

/// Which connection of a link (1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Lane 0: records of the application.
    Application,
    /// Lane 1, between two ROUTERs: replies and flow states.
    Completion,
}

impl Lane {
    /// The byte of the READY property `Zlink-Lane`.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Application => 0,
            Self::Completion => 1,
        }
    }
}

/// The name of a peer for its ROUTERs: 1 to 255 bytes (4.1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoutingId(Bytes);

impl RoutingId {
    /// The longest in bytes.
    pub const LONGEST: usize = 255;

    /// A routing id; `None` when it is empty or too long.
    pub fn new(bytes: impl Into<Bytes>) -> Option<Self> {
        let bytes = bytes.into();
        (1..=Self::LONGEST).contains(&bytes.len()).then_some(Self(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes, shared.
    pub fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }
}

/// A text is no routing id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a routing id has 1 to 255 bytes: text, or \"hex:\" with pairs of hexadecimal digits")]
pub struct WrongRoutingId;

impl std::str::FromStr for RoutingId {
    type Err = WrongRoutingId;

    /// The bytes of the text; behind `hex:`, pairs of hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, WrongRoutingId> {
        let bytes = match text.strip_prefix("hex:") {
            Some(digits) => unhex(digits).ok_or(WrongRoutingId)?,
            None => text.as_bytes().to_vec(),
        };
        Self::new(bytes).ok_or(WrongRoutingId)
    }
}

/// The bytes of pairs of hexadecimal digits.
fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(pair[1])?);
    digits.len().is_multiple_of(2).then(|| digits.chunks_exact(2).map(byte).collect())?
}

impl std::fmt::Debug for RoutingId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// One whole message of one or more parts.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    parts: SmallVec<[Bytes; 1]>,
}

impl Record {
    /// A record of one part.
    pub fn new(part: impl Into<Bytes>) -> Self {
        Self { parts: smallvec![part.into()] }
    }

    /// A record of these parts; `None` when there is none.
    pub fn from_parts(parts: impl IntoIterator<Item = Bytes>) -> Option<Self> {
        let parts: SmallVec<_> = parts.into_iter().collect();
        (!parts.is_empty()).then_some(Self { parts })
    }

    /// Adds a part at the end.
    pub fn push(&mut self, part: impl Into<Bytes>) {
        self.parts.push(part.into());
    }

    /// The parts in order; at least one.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// The parts in order, owned.
    pub fn into_parts(self) -> SmallVec<[Bytes; 1]> {
        self.parts
    }

    /// The bytes of all parts.
    pub fn payload(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    /// What the record is charged in a queue (4.2).
    pub fn charge(&self) -> Charge {
        self.payload() + FRAME_CHARGE * self.parts.len() as u64
    }
}

impl<T: Into<Bytes>> From<T> for Record {
    fn from(part: T) -> Self {
        Self::new(part)
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.parts).finish()
    }
}

/// What a record is, by the first of its frames (1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A record of its own.
    Data,
    /// Wants one reply with the same sequence.
    Request(Sequence),
    /// Answers a request.
    Reply(Sequence),
    /// Answers a request with an errno as the first part (1.6).
    ErrorReply(Sequence),
}

/// What arrives on a link that is ready, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A record.
    Record(Kind, Record),
    /// The peer's weight (1.7).
    Weight(Weight),
    /// The peer's receive-flow state (1.7), not yet compared with the last epoch.
    FlowState {
        /// What it asks for.
        state: FlowState,
        /// Its epoch.
        epoch: NonZeroU64,
    },
    /// A WEIGHT or FLOWSTATE that is none (1.7): counted, without effect.
    Malformed,
}

/// What a link has to send, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A record.
    Record(Kind, Record),
    /// The socket's weight.
    Weight(Weight),
    /// The socket's receive-flow state.
    FlowState {
        /// The state.
        state: FlowState,
        /// Its epoch.
        epoch: NonZeroU64,
    },
}

#[cfg(test)]
mod tests {
    use super::{RoutingId, WrongRoutingId};

    #[test]
    fn zmp_4_1_a_routing_id_is_text_or_pairs_of_digits_of_1_to_255_bytes() {
        let id = |text: &str| text.parse::<RoutingId>();
        assert_eq!(id("D1").unwrap().as_bytes(), b"D1");
        assert_eq!(id("hex:00fF").unwrap().as_bytes(), [0, 255]);
        assert_eq!(id(&"a".repeat(255)).unwrap().as_bytes().len(), 255);
        for wrong in ["", "hex:", "hex:0", "hex:0g", "hex:+1", "hex:ü", &"a".repeat(256)] {
            assert_eq!(id(wrong), Err(WrongRoutingId), "{wrong}");
        }
    }
}
