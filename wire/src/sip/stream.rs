//! Messages out of a byte stream (RFC 3261 18.3): Content-Length frames them, keepalives stand
//! between them.

use bytes::{Bytes, BytesMut};

use super::message::Limits;

/// What a stream gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// One whole message.
    Message(Bytes),
    /// A double line end between messages: one CRLF is the answer (R141, RFC 5626 4.4.1).
    Ping,
    /// More bytes are needed.
    NeedsMore,
}

/// A stream that can not be read any further: it is closed, after this answer where one can be given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct StreamError {
    /// What is wrong.
    pub fault: StreamFault,
    /// The start line and headers, where they are whole: a request among them gets 400, or 513.
    pub headers: Option<Bytes>,
}

/// What is wrong with a stream; the `reason` label of closed connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StreamFault {
    /// Content-Length is missing.
    #[error("no Content-Length")]
    NoLength,
    /// Content-Length is no number, or several differ.
    #[error("bad Content-Length")]
    BadLength,
    /// The message is larger than the limits.
    #[error("too large")]
    TooLarge,
    /// It is not SIP.
    #[error("not SIP")]
    NotSip,
}

/// Cuts a stream into messages. Looks at each byte once, whatever the segmentation (S-18).
#[derive(Clone, Debug)]
pub struct Framer {
    _limits: Limits,
}

impl Framer {
    /// For one connection.
    pub const fn new(limits: Limits) -> Self {
        Self { _limits: limits }
    }
    /// The next message of what came; what it takes is split off `input`, its body is not copied.
    ///
    /// # Errors
    /// Nothing that follows can be told apart.
    pub fn next(&mut self, _input: &mut BytesMut) -> Result<Framed, StreamError> {
        unimplemented!()
    }
}
