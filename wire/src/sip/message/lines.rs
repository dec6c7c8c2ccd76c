//! Single headers of bytes that are not parsed.

use memchr::memchr;

use super::index::StartAt;
use super::lex::trim;
use super::{ContentLength, Name};

/// The header lines of bytes that begin with a start line, up to the empty line or what is none.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self(memchr(b'\n', bytes).map_or(b"", |end| &bytes[end + 1..]))
    }
}

impl<'a> Iterator for Lines<'a> {
    /// The name, and the value with its folds.
    type Item = (Name, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0;
        if matches!(rest, [] | [b'\n', ..] | [b'\r', b'\n', ..]) {
            return None;
        }
        let first_end = memchr(b'\n', rest)?;
        let mut end = first_end;
        while let Some(b' ' | b'\t') = rest.get(end + 1) {
            end += 1 + memchr(b'\n', &rest[end + 1..])?;
        }
        let colon = memchr(b':', &rest[..first_end])?;
        self.0 = &rest[end + 1..];
        Some((Name::of(rest[..colon].trim_ascii_end()), trim(&rest[colon + 1..end])))
    }
}

/// The Call-ID of bytes that are not parsed yet, to find the call's owner (contract 2.16). It is the
/// one that parsing finds.
pub fn call_id_of(bytes: &[u8]) -> Option<&[u8]> {
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let is_first = |(name, value): (Name, &'_ [u8])| name == Name::CallId && !value.is_empty();
    let mut lines = Lines::of(&bytes[begin..]);
    lines.find(|line| is_first(*line)).map(|(_, value)| value)
}

/// What the Content-Length headers of a start line and headers say together.
pub(crate) fn content_length_of(head: &[u8]) -> ContentLength {
    Lines::of(head)
        .filter(|(name, _)| *name == Name::ContentLength)
        .fold(ContentLength::Missing, |sum, (_, value)| sum.and(value))
}

/// Whether a line, with its line feed, is a start line of SIP/2.0.
pub(crate) fn is_start_line(line: &[u8]) -> bool {
    StartAt::of(line, line.len() - 1).is_some()
}
