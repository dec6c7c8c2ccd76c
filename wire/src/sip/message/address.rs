//! name-addr and addr-spec: From, To, Contact, Route, Record-Route.

use std::ops::Range;

use super::lex::{At, is_lws, params_end, quoted, skip, trim_end};
use super::{Name, Params, Uri, UriError};

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
    /// Where the URI stands in the message, or in a text of its own.
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
    pub fn parse(text: &'a [u8]) -> Result<Self, UriError> {
        let end = trim_end(text, 0, text.len());
        let read = AddressAt::read(text, 0, end, false).ok_or(UriError)?;
        Ok(Self { at: 0..0, ..read.view(text, 0..0, true) })
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

/// The addresses of all headers of one name in order; a broken one is an error in its place, and
/// what follows it on its line is left out.
#[derive(Clone, Debug)]
pub struct Addresses<'a> {
    message: &'a super::Message,
    name: Name,
    /// The header line that is being read.
    entry: usize,
    /// Where the next value begins; 0 at the beginning of a line.
    next: usize,
}

impl<'a> Addresses<'a> {
    pub(super) const fn new(message: &'a super::Message, name: Name) -> Self {
        Self { message, name, entry: 0, next: 0 }
    }
}

impl<'a> Iterator for Addresses<'a> {
    type Item = Result<NameAddr<'a>, UriError>;

    fn next(&mut self) -> Option<Self::Item> {
        let entries = &self.message.index.entries;
        if self.next == 0 {
            self.entry +=
                entries.get(self.entry..)?.iter().position(|entry| entry.name == self.name)?;
        }
        let entry = entries.get(self.entry)?;
        let (bytes, value, is_first) = (self.message.bytes(), entry.value(), self.next == 0);
        let read = AddressAt::read(bytes, self.next.max(value.start), value.end, true);
        let end = read.map_or(value.end, |address| address.end as usize);
        if end < value.end {
            self.next = end + 1;
        } else {
            (self.entry, self.next) = (self.entry + 1, 0);
        }
        let alone = is_first && end == value.end;
        Some(read.ok_or(UriError).map(|address| address.view(bytes, entry.line(), alone)))
    }
}

/// An address by offsets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AddressAt {
    text: At,
    display: At,
    uri: At,
    params: At,
    /// Where it is over: at the comma in front of the next one, or at the end of the header.
    end: u32,
}

impl AddressAt {
    /// Reads the address that begins at `from` of a header value that ends at `to`; in a list it
    /// ends at a comma.
    pub(super) fn read(bytes: &[u8], from: usize, to: usize, list: bool) -> Option<Self> {
        let from = skip(bytes, from, to);
        let mut at = from;
        let (mut is_bracket, mut is_quoted) = (false, false);
        while at < to {
            match bytes[at] {
                b'<' => {
                    is_bracket = true;
                    break;
                }
                b';' => break,
                b',' if list => break,
                b'"' => {
                    at = quoted(bytes, at, to)?;
                    is_quoted = true;
                }
                _ => at += 1,
            }
        }
        let (display, uri, after) = if is_bracket {
            let close = at + memchr::memchr(b'>', &bytes[at..to])?;
            let uri_from = skip(bytes, at + 1, close);
            let display = At::new(from, trim_end(bytes, from, at));
            (display, At::new(uri_from, trim_end(bytes, uri_from, close)), close + 1)
        } else {
            let uri = At::new(from, trim_end(bytes, from, at));
            if is_quoted || uri.of(bytes).iter().any(|byte| is_lws(*byte)) {
                return None;
            }
            (At::new(from, from), uri, at)
        };
        if uri.is_empty() {
            return None;
        }
        let next = skip(bytes, after, to);
        let (end, params_from) = match bytes[..to].get(next) {
            None => (next, None),
            Some(b',') if list => (next, None),
            Some(b';') => (params_end(bytes, next + 1, to, list, false)?, Some(next + 1)),
            Some(_) => return None,
        };
        let text_to = trim_end(bytes, after, end);
        Some(Self {
            text: At::new(from, text_to),
            display,
            uri,
            params: At::new(params_from.map_or(text_to, |params| params.min(text_to)), text_to),
            end: end as u32,
        })
    }

    /// The address as others see it.
    pub(super) fn view(self, bytes: &[u8], line: Range<usize>, alone: bool) -> NameAddr<'_> {
        NameAddr {
            text: self.text.of(bytes),
            at: self.text.range(),
            display: self.display.of(bytes),
            uri: self.uri.of(bytes),
            uri_at: self.uri.range(),
            params: Params(self.params.of(bytes)),
            line,
            alone,
        }
    }
}
