//! A SIP message as it came, with an index of its lines; every byte is kept.
//!
//! Parsing finds the start line and the offsets of all headers in one pass. What a header says is
//! read when somebody asks; only what every message needs is read at once: the top Via, From, To,
//! Call-ID and CSeq.

use std::ops::Range;

use bytes::Bytes;

mod address;
mod method;
mod name;
mod uri;
mod via;

pub use address::{Addresses, NameAddr};
pub use method::Method;
pub use name::Name;
pub use uri::{Params, Uri, UriError, host_ip};
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

/// The CSeq header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// The sequence number.
    pub number: u32,
    /// The method.
    pub method: Method<'a>,
}

/// A message: the bytes as they came, and where everything is in them. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Bytes,
}

impl Message {
    /// Reads one whole message. Bytes behind its Content-Length belong to its body (contract 1.1).
    ///
    /// # Errors
    /// [`Malformed`]: it is to be dropped without an answer (R29, R144, R145).
    pub fn parse(_bytes: Bytes, _limits: &Limits) -> Result<Self, Malformed> {
        unimplemented!()
    }
    /// The bytes as they came.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }
    /// The first line.
    pub fn start(&self) -> Start<'_> {
        unimplemented!()
    }
    /// True for a request.
    pub fn is_request(&self) -> bool {
        unimplemented!()
    }
    /// The method of a request; that of the CSeq for a reply.
    pub fn method(&self) -> Method<'_> {
        unimplemented!()
    }
    /// Where the Request-URI stands; empty for a reply.
    pub fn uri_at(&self) -> Range<usize> {
        unimplemented!()
    }
    /// The status of a reply; 0 for a request.
    pub fn status(&self) -> u16 {
        unimplemented!()
    }
    /// Every header in order.
    pub fn headers(&self) -> impl DoubleEndedIterator<Item = Header<'_>> + Clone {
        std::iter::empty()
    }
    /// The headers of this name, in order.
    pub fn all(&self, name: Name) -> impl Iterator<Item = Header<'_>> + Clone {
        self.headers().filter(move |header| header.name == name)
    }
    /// The first header of this name.
    pub fn first(&self, name: Name) -> Option<Header<'_>> {
        self.all(name).next()
    }
    /// The headers of a name as people write it: any case, compact or long.
    pub fn named<'a>(&'a self, _name: &'a [u8]) -> impl Iterator<Item = Header<'a>> + Clone {
        std::iter::empty()
    }
    /// Where the empty line behind the headers begins: what is appended goes there.
    pub fn headers_end(&self) -> usize {
        unimplemented!()
    }
    /// Where the body begins.
    pub fn body_at(&self) -> usize {
        unimplemented!()
    }
    /// The body: everything behind the empty line.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_at()..]
    }
    /// The top Via.
    pub fn via(&self) -> Via<'_> {
        unimplemented!()
    }
    /// Every Via value in order, of all lines; broken ones are left out.
    pub fn vias(&self) -> Vias<'_> {
        unimplemented!()
    }
    /// The From.
    pub fn from(&self) -> NameAddr<'_> {
        unimplemented!()
    }
    /// The To.
    pub fn to(&self) -> NameAddr<'_> {
        unimplemented!()
    }
    /// The Call-ID.
    pub fn call_id(&self) -> &[u8] {
        unimplemented!()
    }
    /// The CSeq.
    pub fn cseq(&self) -> CSeq<'_> {
        unimplemented!()
    }
    /// Every address of all headers of this name (Contact, Route, Record-Route, Path).
    pub fn addresses(&self, _name: Name) -> Addresses<'_> {
        unimplemented!()
    }
    /// What the Content-Length headers say together.
    pub fn content_length(&self) -> ContentLength {
        unimplemented!()
    }
}

/// What the Content-Length headers of a message say (S-19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentLength {
    /// There is none.
    Missing,
    /// One number; several equal headers are one.
    Bytes(u64),
    /// Not a number, negative, above what a `u64` holds, or several that differ.
    Bad,
}

/// The Call-ID of bytes that are not parsed yet, to find the call's owner (contract 2.16).
pub fn call_id_of(_bytes: &[u8]) -> Option<&[u8]> {
    unimplemented!()
}
