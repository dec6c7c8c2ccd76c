//! Via.

use std::ops::Range;

use super::Params;
use super::lex::{At, is_lws, is_token, params_end, skip, trim_end, until};

/// One Via value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// The whole value as written, without white space around it.
    pub text: &'a [u8],
    /// The transport as written, such as `UDP`.
    pub transport: &'a [u8],
    /// The host of the sent-by as written, IPv6 with its brackets.
    pub host: &'a [u8],
    /// The port as written, where there is one (for the branch's hash).
    pub port_text: Option<&'a [u8]>,
    /// The port, where there is one.
    pub port: Option<u16>,
    /// Its parameters.
    pub params: Params<'a>,
    /// Where the value stands in the message.
    pub at: (usize, usize),
    /// Where the sent-by ends in the message: `received` is put there.
    pub sent_by_end: usize,
    /// The header line that it stands on.
    pub line: (usize, usize),
    /// It shares that line with other values.
    pub shares_line: bool,
}

impl<'a> Via<'a> {
    /// The branch parameter.
    pub fn branch(&self) -> Option<&'a [u8]> {
        self.params.get(b"branch").flatten()
    }
    /// The received parameter as written.
    pub fn received(&self) -> Option<&'a [u8]> {
        self.params.get(b"received").flatten()
    }
    /// `Some(None)`: an rport that is to be filled.
    pub fn rport(&self) -> Option<Option<&'a [u8]>> {
        self.params.get(b"rport")
    }
    /// Where a parameter stands in the message, from its semicolon to its end.
    pub fn param_at(&self, name: &[u8]) -> Option<Range<usize>> {
        let base = self.at.1 - self.params.0.len();
        let found = self.params.parts().find(|part| part.name.eq_ignore_ascii_case(name))?;
        Some(base + found.from - 1..base + found.to)
    }
}

/// The Via values of a message in order, up to the first that can not be read.
#[derive(Clone, Debug)]
pub struct Vias<'a> {
    message: &'a super::Message,
    /// The header line that is being read.
    entry: usize,
    /// Where the next value begins; 0 at the beginning of a line.
    next: usize,
}

impl<'a> Vias<'a> {
    pub(super) const fn new(message: &'a super::Message) -> Self {
        Self { message, entry: 0, next: 0 }
    }
}

impl<'a> Iterator for Vias<'a> {
    type Item = Via<'a>;

    fn next(&mut self) -> Option<Via<'a>> {
        let index = &self.message.index;
        let entries = &index.entries;
        if self.next == 0 {
            self.entry += entries
                .get(self.entry..)?
                .iter()
                .position(|entry| entry.name == super::Name::Via)?;
        }
        let entry = entries.get(self.entry)?;
        let value = entry.value();
        let from = self.next.max(value.start);
        // The top one is read already.
        let top = self.next == 0 && self.entry == usize::from(index.via_entry);
        let read =
            if top { Some(index.via) } else { ViaAt::read(self.message.bytes(), from, value.end) };
        let Some(via) = read else {
            self.entry = entries.len();
            return None;
        };
        let shares_line = self.next > 0 || (via.end as usize) < value.end;
        if (via.end as usize) < value.end {
            self.next = via.end as usize + 1;
        } else {
            (self.entry, self.next) = (self.entry + 1, 0);
        }
        Some(via.view(self.message.bytes(), entry.line(), shares_line))
    }
}

/// One Via value by offsets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ViaAt {
    at: At,
    transport: At,
    host: At,
    /// Empty for none.
    port_text: At,
    port: u16,
    params: At,
    /// Where the value is over: at the comma in front of the next one, or at the end of the header.
    pub(super) end: u32,
}

impl ViaAt {
    /// Reads one value that begins at `from` of a header value that ends at `to`.
    pub(super) fn read(bytes: &[u8], from: usize, to: usize) -> Option<Self> {
        let from = skip(bytes, from, to);
        let transport_from = if bytes[from..to].starts_with(b"SIP/2.0/") {
            from + 8
        } else {
            let after = word(bytes, from, to, b"SIP")?;
            word(bytes, after, to, b"2.0")?
        };
        let transport_from = skip(bytes, transport_from, to);
        let transport_to = until(bytes, transport_from, to, |byte| !is_token(byte));
        let host_from = skip(bytes, transport_to, to);
        if transport_from == transport_to || host_from == transport_to {
            return None;
        }
        let host_to = host_end(bytes, host_from, to)?;
        let mut at = host_to;
        let mut next = skip(bytes, at, to);
        let (mut port_text, mut port) = (At::new(at, at), 0);
        if next < to && bytes[next] == b':' {
            let digits = skip(bytes, next + 1, to);
            at = until(bytes, digits, to, |byte| !byte.is_ascii_digit());
            (port_text, port) = (At::new(digits, at), number(&bytes[digits..at])?);
            next = skip(bytes, at, to);
        }
        let (end, params_from) = match bytes[..to].get(next) {
            None | Some(b',') => (next, None),
            Some(b';') => (params_end(bytes, next + 1, to, true, true)?, Some(next + 1)),
            Some(_) => return None,
        };
        let text_to = trim_end(bytes, at, end);
        Some(Self {
            at: At::new(from, text_to),
            transport: At::new(transport_from, transport_to),
            host: At::new(host_from, host_to),
            port_text,
            port,
            params: At::new(params_from.unwrap_or(text_to), text_to),
            end: end as u32,
        })
    }

    /// The value as others see it.
    pub(super) fn view(self, bytes: &[u8], line: Range<usize>, shares_line: bool) -> Via<'_> {
        let has_port = !self.port_text.is_empty();
        let sent_by = if has_port { self.port_text } else { self.host };
        Via {
            text: self.at.of(bytes),
            transport: self.transport.of(bytes),
            host: self.host.of(bytes),
            port_text: has_port.then(|| self.port_text.of(bytes)),
            port: has_port.then_some(self.port),
            params: Params(self.params.of(bytes)),
            at: (self.at.from as usize, self.at.to as usize),
            sent_by_end: sent_by.to as usize,
            line: (line.start, line.end),
            shares_line,
        }
    }
}

/// The place behind a word, in any case, and the slash that follows.
fn word(bytes: &[u8], from: usize, to: usize, word: &[u8]) -> Option<usize> {
    let from = skip(bytes, from, to);
    let written = bytes[..to].get(from..from + word.len())?;
    let slash = skip(bytes, from + word.len(), to);
    let fits = written.eq_ignore_ascii_case(word) && slash < to && bytes[slash] == b'/';
    fits.then_some(slash + 1)
}

/// The end of the host that begins at `from`; `None` where there is none.
pub(super) fn host_end(bytes: &[u8], from: usize, to: usize) -> Option<usize> {
    let end = if bytes[..to].get(from) == Some(&b'[') {
        let close = until(bytes, from, to, |byte| byte == b']' || is_lws(byte));
        if close == to || bytes[close] != b']' || close < from + 3 {
            return None;
        }
        close + 1
    } else {
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        until(bytes, from, to, |byte| !is_host(byte))
    };
    (end > from).then_some(end)
}

/// A port.
pub(super) fn number(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u16, |sum, digit| {
        let digit = digit.is_ascii_digit().then_some(digit.wrapping_sub(b'0'))?;
        sum.checked_mul(10)?.checked_add(digit.into())
    })
}
