//! name-addr and addr-spec: From, To, Contact, Route, Record-Route.

use std::ops::Range;

use super::{Params, Uri, UriError};

/// An address with an optional display name and parameters of the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAddr<'a> {
    /// The whole of it as written.
    pub text: &'a [u8],
    /// Where it stands in the message; 0..0 for a text of its own.
    pub at: Range<usize>,
    /// The display name as written, with its quotes; empty without one.
    pub display: &'a [u8],
    /// The URI as written, without angle brackets; `*` of a Contact too.
    pub uri: &'a [u8],
    /// Where the URI stands in the message.
    pub uri_at: Range<usize>,
    /// The parameters of the header.
    pub params: Params<'a>,
    /// The header line that it stands on; 0..0 for a text of its own.
    pub line: Range<usize>,
    /// It is the only value of its line.
    pub alone: bool,
}

impl<'a> NameAddr<'a> {
    /// Reads one address from a text of its own.
    ///
    /// # Errors
    /// It has no URI, or a bracket or quote without its other half.
    pub fn parse(_text: &'a [u8]) -> Result<Self, UriError> {
        unimplemented!()
    }
    /// The tag parameter.
    pub fn tag(&self) -> Option<&'a [u8]> {
        self.params.get(b"tag").flatten()
    }
    /// The URI, read.
    ///
    /// # Errors
    /// It is none.
    pub fn parsed_uri(&self) -> Result<Uri<'a>, UriError> {
        Uri::parse(self.uri)
    }
}

/// The addresses of all headers of one name in order; a broken one is an error in its place.
#[derive(Clone, Debug)]
pub struct Addresses<'a> {
    _message: &'a super::Message,
}

impl<'a> Iterator for Addresses<'a> {
    type Item = Result<NameAddr<'a>, UriError>;
    fn next(&mut self) -> Option<Self::Item> {
        unimplemented!()
    }
}
