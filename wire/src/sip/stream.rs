//! Messages out of a byte stream (RFC 3261 18.3): Content-Length frames them, keepalives stand
//! between them.

use bytes::{Buf, Bytes, BytesMut};

use super::message::{ContentLength, Limits, content_length_of, is_start_line, is_token};

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
    /// The start line and headers, where they are whole: a request among them gets 400.
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

/// The keepalive that asks for an answer.
const PING: [u8; 4] = *b"\r\n\r\n";

/// Cuts a stream into messages. Whatever the segmentation, no byte is looked for a line end twice
/// (S-18).
///
/// ```text
/// Between --other byte--> Head --empty line, Content-Length--> Body --its last byte--> Between
///    \--CR LF CR LF: Ping--> Between              \--fault--> Broken for good
/// ```
#[derive(Clone, Debug)]
pub struct Framer {
    limits: Limits,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between messages; so many bytes of a [`PING`] came.
    Between(usize),
    /// In the start line or the headers.
    Head {
        /// The first line is read.
        started: bool,
        /// Where the line begins that is not over.
        line: usize,
        /// No line end between there and here.
        seen: usize,
    },
    /// Headers and body are so many bytes.
    Body(usize),
    /// After an error.
    Broken(StreamFault),
}

impl Framer {
    /// For one connection.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, state: State::Between(0) }
    }

    /// The next message of what came; what it takes is split off `input`, its body is not copied.
    ///
    /// # Errors
    /// Nothing that follows can be told apart; it stays like that.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Framed, StreamError> {
        loop {
            match self.state {
                State::Between(came) => match self.between(came, input) {
                    Some(framed) => return Ok(framed),
                    None => self.state = State::Head { started: false, line: 0, seen: 0 },
                },
                State::Head { started, line, seen } => {
                    if !self.head(started, line, seen, input)? {
                        return Ok(Framed::NeedsMore);
                    }
                }
                State::Body(whole) if input.len() < whole => return Ok(Framed::NeedsMore),
                State::Body(whole) => {
                    self.state = State::Between(0);
                    return Ok(Framed::Message(input.split_to(whole).freeze()));
                }
                State::Broken(fault) => return Err(StreamError { fault, headers: None }),
            }
        }
    }

    /// Passes over line ends; `None` where a message begins.
    fn between(&mut self, mut came: usize, input: &mut BytesMut) -> Option<Framed> {
        for (at, byte) in input.iter().enumerate() {
            came = match byte {
                byte if *byte == PING[came] => came + 1,
                b'\r' => 1,
                b'\n' => 0,
                _ => {
                    input.advance(at);
                    return None;
                }
            };
            if came == PING.len() {
                input.advance(at + 1);
                self.state = State::Between(0);
                return Some(Framed::Ping);
            }
        }
        input.clear();
        self.state = State::Between(came);
        Some(Framed::NeedsMore)
    }

    /// Looks for the end of the headers; false where more is needed.
    fn head(
        &mut self,
        mut started: bool,
        mut line: usize,
        mut seen: usize,
        input: &mut BytesMut,
    ) -> Result<bool, StreamError> {
        // What is no SIP for sure is not waited for.
        if !started && !input.first().is_some_and(|byte| is_token(*byte)) {
            return Err(self.broken(StreamFault::NotSip, None));
        }
        loop {
            let found = memchr::memchr(b'\n', &input[seen..]);
            let end = found.map_or(input.len(), |found| seen + found + 1);
            let most = if started { self.limits.message_bytes } else { self.limits.header_bytes };
            if end > most {
                return Err(self.broken(StreamFault::TooLarge, None));
            }
            if found.is_none() {
                break;
            }
            if !started {
                if !is_start_line(&input[..end]) {
                    return Err(self.broken(StreamFault::NotSip, None));
                }
                started = true;
            } else if matches!(&input[line..end], b"\n" | b"\r\n") {
                return self.body(end, input);
            }
            (line, seen) = (end, end);
        }
        self.state = State::Head { started, line, seen: input.len() };
        Ok(false)
    }

    /// The start line and headers are so many bytes.
    fn body(&mut self, head: usize, input: &mut BytesMut) -> Result<bool, StreamError> {
        let most = self.limits.message_bytes;
        let fault = match content_length_of(&input[..head]) {
            ContentLength::Missing => StreamFault::NoLength,
            ContentLength::Bad => StreamFault::BadLength,
            ContentLength::Bytes(length) => match usize::try_from(length) {
                Ok(length) if length <= most - head => {
                    self.state = State::Body(head + length);
                    return Ok(true);
                }
                _ => StreamFault::TooLarge,
            },
        };
        let headers = input.split_to(head).freeze();
        Err(self.broken(fault, Some(headers)))
    }

    fn broken(&mut self, fault: StreamFault, headers: Option<Bytes>) -> StreamError {
        self.state = State::Broken(fault);
        StreamError { fault, headers }
    }
}

#[cfg(test)]
mod tests;
