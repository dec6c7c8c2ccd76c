//! What all values are made of: white space with folds, tokens, quoted strings, parameters.

use std::borrow::Cow;
use std::ops::Range;

/// A piece of a message by offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    pub(super) from: u32,
    pub(super) to: u32,
}

impl At {
    pub(super) const fn new(from: usize, to: usize) -> Self {
        Self { from: from as u32, to: to as u32 }
    }

    pub(super) const fn is_empty(self) -> bool {
        self.from == self.to
    }

    pub(super) const fn range(self) -> Range<usize> {
        self.from as usize..self.to as usize
    }

    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.range()]
    }
}

/// White space between the parts of a value. Line ends are there only as part of a fold.
pub(super) const fn is_lws(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// A character of a token (RFC 3261 25.1).
pub(crate) fn is_token(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Names are read byte by byte: one look for each.
static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let is_mark = matches!(
            byte as u8,
            b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~'
        );
        table[byte] = (byte as u8).is_ascii_alphanumeric() || is_mark;
        byte += 1;
    }
    table
};

/// The first place from `at` on that is no white space.
pub(super) fn skip(bytes: &[u8], mut at: usize, to: usize) -> usize {
    while at < to && is_lws(bytes[at]) {
        at += 1;
    }
    at
}

/// The end of what stands in front of `to` without the white space behind it.
pub(super) fn trim_end(bytes: &[u8], from: usize, mut to: usize) -> usize {
    while to > from && is_lws(bytes[to - 1]) {
        to -= 1;
    }
    to
}

/// A text without white space around it.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let from = skip(text, 0, text.len());
    &text[from..trim_end(text, from, text.len())]
}

/// The first place from `at` on that `ends` says yes to, else `to`.
pub(super) fn until(bytes: &[u8], mut at: usize, to: usize, ends: impl Fn(u8) -> bool) -> usize {
    while at < to && !ends(bytes[at]) {
        at += 1;
    }
    at
}

/// Where the quoted string that opens at `at` is over: the place behind its closing quote.
pub(super) fn quoted(bytes: &[u8], mut at: usize, to: usize) -> Option<usize> {
    at += 1;
    while at < to {
        match bytes[at] {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Where the parameters that begin at `at`, behind a semicolon, are over: at `to`, or in a list at
/// the comma. `None` for a quote without its other half, and for an empty parameter where `strict`.
pub(super) fn params_end(
    bytes: &[u8],
    mut at: usize,
    to: usize,
    list: bool,
    strict: bool,
) -> Option<usize> {
    let mut empty = true;
    while at < to {
        match bytes[at] {
            b';' if empty && strict => return None,
            b';' => empty = true,
            b',' if list => break,
            b'"' => {
                at = quoted(bytes, at, to)?;
                empty = false;
                continue;
            }
            byte => empty &= is_lws(byte),
        }
        at += 1;
    }
    (!empty || !strict).then_some(at)
}

/// A value with each fold (a line end and the white space around it) as one space; what has none is
/// borrowed (RFC 3261 7.3.1, S-27).
pub fn unfold(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\n', value).is_none() {
        return Cow::Borrowed(value);
    }
    let (mut text, mut at) = (Vec::with_capacity(value.len()), 0);
    while let Some(end) = memchr::memchr(b'\n', &value[at..]) {
        let end = at + end;
        text.extend_from_slice(&value[at..trim_end(value, at, end)]);
        text.push(b' ');
        at = skip(value, end, value.len());
    }
    text.extend_from_slice(&value[at..]);
    Cow::Owned(text)
}
