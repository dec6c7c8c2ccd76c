//! Frames: their header, and what is wrong with one (1.1, 1.2).

use super::record::{Charge, FRAME_CHARGE, Kind, Sequence};

/// Bytes of a header without its extension.
pub const HEADER_BYTES: usize = 8;

/// Bytes of the extension, the sequence, behind the header of a request or a reply.
pub const EXTENSION_BYTES: usize = 8;

/// The largest body of a control frame, whatever `MAXMSGSIZE` is (1.2).
pub const MOST_CONTROL: u32 = 4096;

/// The first byte of a frame.
const MAGIC: u8 = 0x5A;
/// The second one.
const VERSION: u8 = 1;

/// Another frame of the same record follows.
const MORE: u8 = 0x01;
/// The body is one of 1.3.
const CONTROL: u8 = 0x02;
/// Sets a routing id; DEALER and ROUTER do not use it.
const IDENTITY: u8 = 0x04;
/// Of PUB and SUB.
const SUBSCRIBE: u8 = 0x08;
/// Of PUB and SUB.
const CANCEL: u8 = 0x10;
/// All of these but [`MORE`].
const SPECIAL: u8 = CONTROL | IDENTITY | SUBSCRIBE | CANCEL;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $byte:literal, $text:literal;)*) => {
        /// Codes of an ERROR frame (1.2).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
        }

        impl ErrorCode {
            /// Every one, in the order of their bytes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The byte of the ERROR frame.
            pub const fn byte(self) -> u8 {
                match self { $(Self::$name => $byte,)* }
            }

            /// The text that an ERROR frame has with it.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// `01`.
    Magic = 0x01, "invalid magic";
    /// `02`.
    Version = 0x02, "version mismatch";
    /// `03`.
    Flags = 0x03, "flags invalid";
    /// `04`.
    Size = 0x04, "body too large";
    /// `05`.
    SocketType = 0x05, "socket type mismatch";
    /// `06`.
    HandshakeTimeout = 0x06, "handshake timeout";
    /// `07`.
    Kind = 0x07, "message kind invalid";
    /// `08`.
    Sequence = 0x08, "request sequence invalid";
    /// `09`.
    Multipart = 0x09, "multipart frame invalid";
    /// `0A`.
    Incomplete = 0x0A, "frame incomplete";
    /// `7F`.
    Internal = 0x7F, "internal error";
}

/// The peer broke the protocol: its connection ends, with an ERROR frame where that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct ProtocolError {
    /// The code of the ERROR frame.
    pub code: ErrorCode,
    /// What is wrong, for the log.
    pub what: &'static str,
}

impl ProtocolError {
    /// A fault with this code.
    pub(super) const fn new(code: ErrorCode, what: &'static str) -> Self {
        Self { code, what }
    }
}

/// A header that passed the checks which need nothing but its own bytes: 1 to 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    flags: u8,
    /// Of the first frame of a record. Every other frame has [`Kind::Data`].
    pub(super) kind: Kind,
    /// Bytes of payload.
    pub(super) size: u32,
}

impl Header {
    /// The header of a frame of a record.
    pub(super) const fn part(kind: Kind, more: bool, size: u32) -> Self {
        Self { flags: if more { MORE } else { 0 }, kind, size }
    }

    /// The header of a control frame.
    pub(super) const fn control(size: u32) -> Self {
        Self { flags: CONTROL, kind: Kind::Data, size }
    }

    /// The header that `bytes` begin with; `None` while it is not complete. What is there of it is
    /// checked already, so that a stranger is known by the first byte.
    ///
    /// # Errors
    /// Checks 1 to 8 of 1.2, in their order.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, ProtocolError> {
        if let Some(header) = bytes.first_chunk::<HEADER_BYTES>() {
            let [magic, version, flags, kind, size @ ..] = *header;
            first_four(magic, version, flags, kind)?;
            let size = u32::from_be_bytes(size);
            if kind == 0 {
                return Ok(Some(Self { flags, kind: Kind::Data, size }));
            }
            return Self::parse_typed(bytes, flags, kind, size);
        }
        match *bytes {
            [magic, version, flags, kind, ..] => first_four(magic, version, flags, kind)?,
            [magic, version, ..] => first_four(magic, version, 0, 0)?,
            [magic] => first_four(magic, VERSION, 0, 0)?,
            [] => {}
        }
        Ok(None)
    }

    /// The rest of a header with an extension.
    fn parse_typed(
        bytes: &[u8],
        flags: u8,
        kind: u8,
        size: u32,
    ) -> Result<Option<Self>, ProtocolError> {
        let Some(sequence) = bytes[HEADER_BYTES..].first_chunk() else {
            return Ok(None);
        };
        let Some(sequence) = Sequence::new(u64::from_be_bytes(*sequence)) else {
            return Err(ProtocolError::new(ErrorCode::Sequence, "a sequence of zero"));
        };
        if flags & SPECIAL != 0 {
            return Err(ProtocolError::new(ErrorCode::Flags, "a special flag on a typed record"));
        }
        let kind = match kind {
            1 => Kind::Request(sequence),
            2 => Kind::Reply(sequence),
            _ => Kind::ErrorReply(sequence),
        };
        Ok(Some(Self { flags, kind, size }))
    }

    /// The bytes of the header, and how many of them it has.
    #[inline]
    pub(super) fn encode(self) -> ([u8; HEADER_BYTES + EXTENSION_BYTES], usize) {
        let (kind, sequence) = match self.kind {
            Kind::Data => (0, 0),
            Kind::Request(sequence) => (1, sequence.get()),
            Kind::Reply(sequence) => (2, sequence.get()),
            Kind::ErrorReply(sequence) => (3, sequence.get()),
        };
        let mut bytes = [0; HEADER_BYTES + EXTENSION_BYTES];
        bytes[..4].copy_from_slice(&[MAGIC, VERSION, self.flags, kind]);
        bytes[4..HEADER_BYTES].copy_from_slice(&self.size.to_be_bytes());
        bytes[HEADER_BYTES..].copy_from_slice(&sequence.to_be_bytes());
        (bytes, self.length())
    }

    /// Bytes of the header with its extension.
    pub(super) const fn length(self) -> usize {
        match self.kind {
            Kind::Data => HEADER_BYTES,
            _ => HEADER_BYTES + EXTENSION_BYTES,
        }
    }

    /// Another frame of the same record follows.
    pub(super) const fn has_more(self) -> bool {
        self.flags & MORE != 0
    }

    /// The body is one of 1.3.
    pub(super) const fn is_control(self) -> bool {
        self.flags & CONTROL != 0
    }

    /// Not a part of a record.
    pub(super) const fn is_special(self) -> bool {
        self.flags & SPECIAL != 0
    }

    /// What the frame is charged (4.2).
    pub(super) const fn charge(self) -> Charge {
        self.size as u64 + FRAME_CHARGE
    }
}

/// Checks 1 to 6.
fn first_four(magic: u8, version: u8, flags: u8, kind: u8) -> Result<(), ProtocolError> {
    if magic == MAGIC && version == VERSION && kind <= 3 && flags <= CONTROL {
        // None of the flags that need a look at each other.
        return Ok(());
    }
    let fault = |code, what| Err(ProtocolError::new(code, what));
    if magic != MAGIC {
        return fault(ErrorCode::Magic, "not the first byte of a frame");
    }
    if version != VERSION {
        return fault(ErrorCode::Version, "a version that is not 1");
    }
    if kind > 3 {
        return fault(ErrorCode::Kind, "no such kind of record");
    }
    if flags & !(MORE | SPECIAL) != 0 {
        return fault(ErrorCode::Flags, "a flag that does not exist");
    }
    if flags & CONTROL != 0 && flags & (IDENTITY | MORE) != 0 {
        return fault(ErrorCode::Flags, "CONTROL with IDENTITY or MORE");
    }
    if flags & (SUBSCRIBE | CANCEL) != 0 && flags.count_ones() > 1 {
        return fault(ErrorCode::Flags, "SUBSCRIBE or CANCEL with another flag");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
