//! A SIP message as it came, with an index of its lines; every byte is kept.
//!
//! Parsing finds the start line and the offsets of all headers in one pass. What a header says is
//! read when somebody asks; only what every message needs is read at once: the top Via, From, To,
//! Call-ID and CSeq.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use bytes::{Buf, Bytes};

mod address;
mod cseq;
mod index;
mod length;
mod lex;
mod lines;
mod method;
mod name;
mod params;
mod uri;
mod via;

use index::{Entry, Index, StartAt};

pub use address::{Addresses, NameAddr};
pub use cseq::CSeq;
pub use length::ContentLength;
pub(super) use lex::is_token;
pub use lex::unfold;
pub use lines::call_id_of;
pub(super) use lines::{content_length_of, is_start_line};
pub use method::Method;
pub use name::Name;
pub use params::Params;
pub use uri::{Uri, UriError, host_ip};
pub use via::{Via, Vias};

/// What a message may have at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole message.
    pub message_bytes: usize,
    /// Header lines.
    pub headers: usize,
    /// Bytes of one header, its folds included.
    pub header_bytes: usize,
}

impl Limits {
    /// None, for what was let in once and is read again.
    pub const NONE: Self =
        Self { message_bytes: usize::MAX, headers: usize::MAX, header_bytes: usize::MAX };
}

impl Default for Limits {
    fn default() -> Self {
        Self { message_bytes: 65_535, headers: 256, header_bytes: 16_384 }
    }
}

/// Why bytes are no message that can be handled; the `reason` label of what is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// Nothing but line ends, or shorter than any start line: no message at all, not counted as bad.
    #[error("no message")]
    Empty,
    /// The first line is neither a request line nor a status line of SIP/2.0.
    #[error("not SIP/2.0")]
    NotSip,
    /// A header line without a colon, or the headers have no end.
    #[error("a header is broken")]
    Header,
    /// No top Via that can be read.
    #[error("no usable Via")]
    Via,
    /// No From that can be read.
    #[error("no usable From")]
    From,
    /// No To that can be read.
    #[error("no usable To")]
    To,
    /// No Call-ID.
    #[error("no Call-ID")]
    CallId,
    /// No CSeq that can be read.
    #[error("no usable CSeq")]
    CSeq,
    /// Above one of the [`Limits`].
    #[error("larger than the limits")]
    TooLarge,
}

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// A request line.
    Request {
        /// The method.
        method: Method<'a>,
        /// The Request-URI as written.
        uri: &'a [u8],
    },
    /// A status line.
    Reply {
        /// 100 to 699, or what else has three digits.
        code: u16,
        /// The reason phrase, may be empty.
        reason: &'a [u8],
    },
}

/// One header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Which it is; compact names are their long ones.
    pub name: Name,
    /// The name as written.
    pub written: &'a [u8],
    /// Its value without white space around it; folds are still in it.
    pub value: &'a [u8],
    /// The whole of it in the message: name to line end, folded lines included.
    pub line: Range<usize>,
    /// The value in the message.
    pub value_at: Range<usize>,
}

/// A message: the bytes as they came, and where everything is in them. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Bytes,
    index: Arc<Index>,
}

impl Message {
    /// Reads one whole message. Line ends in front of it are left out (7.5); bytes behind its
    /// Content-Length belong to its body (contract 1.1).
    ///
    /// # Errors
    /// [`Malformed`]: it is to be dropped without an answer (R29, R144, R145).
    pub fn parse(mut bytes: Bytes, limits: &Limits) -> Result<Self, Malformed> {
        let begin = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        bytes.advance(begin);
        let mut index = Index::new();
        index.read(&bytes, limits)?;
        Ok(Self { bytes, index: Arc::new(index) })
    }
    /// The same bytes without the index: nothing can be read of it.
    pub(super) fn closed(&self) -> Self {
        static NONE: LazyLock<Arc<Index>> = LazyLock::new(|| Arc::new(Index::new()));
        Self { bytes: self.bytes.clone(), index: Arc::clone(&NONE) }
    }
    /// The bytes as they came.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
    /// The first line.
    pub fn start(&self) -> Start<'_> {
        match self.index.start {
            StartAt::Request { method, uri } => Start::Request {
                method: Method::of(method.of(&self.bytes)),
                uri: uri.of(&self.bytes),
            },
            StartAt::Reply { code, reason } => {
                Start::Reply { code, reason: reason.of(&self.bytes) }
            }
        }
    }
    /// True for a request.
    pub fn is_request(&self) -> bool {
        matches!(self.index.start, StartAt::Request { .. })
    }
    /// The method of a request; that of the CSeq for a reply.
    pub fn method(&self) -> Method<'_> {
        match self.index.start {
            StartAt::Request { method, .. } => Method::of(method.of(&self.bytes)),
            StartAt::Reply { .. } => self.cseq().method,
        }
    }
    /// Where the Request-URI stands; empty for a reply.
    pub fn uri_at(&self) -> Range<usize> {
        match self.index.start {
            StartAt::Request { uri, .. } => uri.range(),
            StartAt::Reply { .. } => 0..0,
        }
    }
    /// The status of a reply; 0 for a request.
    pub fn status(&self) -> u16 {
        match self.index.start {
            StartAt::Request { .. } => 0,
            StartAt::Reply { code, .. } => code,
        }
    }
    /// Where the first header begins, behind the start line.
    pub fn headers_at(&self) -> usize {
        self.index.entries.first().map_or(0, |entry| entry.line().start)
    }
    /// Every header in order.
    pub fn headers(&self) -> impl DoubleEndedIterator<Item = Header<'_>> + Clone {
        self.index.entries.iter().map(|entry| self.header(entry))
    }
    /// The headers of this name, in order.
    pub fn all(&self, name: Name) -> impl DoubleEndedIterator<Item = Header<'_>> + Clone {
        let fits = move |entry: &&Entry| entry.name == name;
        self.index.entries.iter().filter(fits).map(|entry| self.header(entry))
    }
    /// The first header of this name.
    pub fn first(&self, name: Name) -> Option<Header<'_>> {
        self.all(name).next()
    }
    /// The headers of a name as people write it: any case, compact or long.
    pub fn named<'a>(&'a self, name: &[u8]) -> impl DoubleEndedIterator<Item = Header<'a>> + Clone {
        let known = Name::of(name);
        let fits = move |entry: &&Entry| {
            entry.name == known
                && (known != Name::Other || self.bytes[entry.written()].eq_ignore_ascii_case(name))
        };
        self.index.entries.iter().filter(fits).map(|entry| self.header(entry))
    }
    fn header(&self, entry: &Entry) -> Header<'_> {
        let value_at = entry.value();
        Header {
            name: entry.name,
            written: &self.bytes[entry.written()],
            value: &self.bytes[value_at.clone()],
            line: entry.line(),
            value_at,
        }
    }
    fn line(&self, place: u16) -> Range<usize> {
        self.index.entries[usize::from(place)].line()
    }
    /// Where the empty line behind the headers begins: what is appended goes there.
    pub fn headers_end(&self) -> usize {
        self.index.headers_end as usize
    }
    /// Where the body begins.
    pub fn body_at(&self) -> usize {
        self.index.body_at as usize
    }
    /// The body: everything behind the empty line.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_at()..]
    }
    /// The top Via.
    pub fn via(&self) -> Via<'_> {
        let entry = &self.index.entries[usize::from(self.index.via_entry)];
        let shares_line = (self.index.via.end as usize) < entry.value().end;
        self.index.via.view(&self.bytes, entry.line(), shares_line)
    }
    /// Every Via value in order, of all lines, up to the first that can not be read: what stands
    /// behind that is nobody's.
    pub const fn vias(&self) -> Vias<'_> {
        Vias::new(self)
    }
    /// The From.
    pub fn from(&self) -> NameAddr<'_> {
        self.index.from.view(&self.bytes, self.line(self.index.from_entry), true)
    }
    /// The To.
    pub fn to(&self) -> NameAddr<'_> {
        self.index.to.view(&self.bytes, self.line(self.index.to_entry), true)
    }
    /// The Call-ID.
    pub fn call_id(&self) -> &[u8] {
        self.index.call_id.of(&self.bytes)
    }
    /// The CSeq.
    pub fn cseq(&self) -> CSeq<'_> {
        self.index.cseq.view(&self.bytes)
    }
    /// Every address of all headers of this name (Contact, Route, Record-Route, Path).
    pub const fn addresses(&self, name: Name) -> Addresses<'_> {
        Addresses::new(self, name)
    }
    /// What the Content-Length headers say together.
    pub fn content_length(&self) -> ContentLength {
        self.all(Name::ContentLength)
            .fold(ContentLength::Missing, |sum, header| sum.and(header.value))
    }
}

#[cfg(test)]
mod tests;
