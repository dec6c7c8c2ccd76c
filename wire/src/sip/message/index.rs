//! The index of a message: one pass over its lines.

use std::ops::Range;

use memchr::memchr;
use smallvec::SmallVec;

use super::address::AddressAt;
use super::cseq::CSeqAt;
use super::lex::{At, is_token, skip, trim_end, until};
use super::via::ViaAt;
use super::{Limits, Malformed, Name};

/// Fewer bytes than this are no start line: keepalives and the like (contract 1.1).
const SHORTEST: usize = 12;

/// One header line; offsets behind the first are counted from there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    from: u32,
    written: u16,
    value_from: u16,
    value_to: u16,
    to: u16,
    pub(super) name: Name,
}

impl Entry {
    pub(super) const fn line(&self) -> Range<usize> {
        let from = self.from as usize;
        from..from + self.to as usize
    }

    pub(super) const fn written(&self) -> Range<usize> {
        let from = self.from as usize;
        from..from + self.written as usize
    }

    pub(super) const fn value(&self) -> Range<usize> {
        let from = self.from as usize;
        from + self.value_from as usize..from + self.value_to as usize
    }
}

/// The first line by offsets.
#[derive(Clone, Copy, Debug)]
pub(super) enum StartAt {
    Request { method: At, uri: At },
    Reply { code: u16, reason: At },
}

/// Where everything is. Most messages have no more lines than fit without an allocation.
#[derive(Clone, Debug)]
pub(super) struct Index {
    pub(super) start: StartAt,
    pub(super) entries: SmallVec<[Entry; 24]>,
    pub(super) headers_end: u32,
    pub(super) body_at: u32,
    pub(super) via: ViaAt,
    pub(super) via_entry: u16,
    pub(super) from: AddressAt,
    pub(super) from_entry: u16,
    pub(super) to: AddressAt,
    pub(super) to_entry: u16,
    pub(super) call_id: At,
    pub(super) cseq: CSeqAt,
}

/// Not met yet.
const NONE: u16 = u16::MAX;

impl Index {
    /// Of nothing. It is filled where it stands: moving it costs as much as reading a few lines.
    pub(super) fn new() -> Self {
        Self {
            start: StartAt::Reply { code: 0, reason: At::default() },
            entries: SmallVec::new(),
            headers_end: 0,
            body_at: 0,
            via: ViaAt::default(),
            via_entry: NONE,
            from: AddressAt::default(),
            from_entry: NONE,
            to: AddressAt::default(),
            to_entry: NONE,
            call_id: At::default(),
            cseq: CSeqAt::default(),
        }
    }

    pub(super) fn read(&mut self, bytes: &[u8], limits: &Limits) -> Result<(), Malformed> {
        if bytes.len() < SHORTEST {
            return Err(Malformed::Empty);
        }
        if bytes.len() > limits.message_bytes.min(u32::MAX as usize) {
            return Err(Malformed::TooLarge);
        }
        let end = memchr(b'\n', bytes).ok_or(Malformed::NotSip)?;
        self.start = StartAt::of(bytes, end).ok_or(Malformed::NotSip)?;
        self.lines(bytes, end + 1, limits)?;
        self.complete()
    }

    /// All lines up to the empty one.
    fn lines(&mut self, bytes: &[u8], mut at: usize, limits: &Limits) -> Result<(), Malformed> {
        // Offsets within a line, and the places of lines, are kept in 16 bits.
        let longest = limits.header_bytes.min(usize::from(u16::MAX));
        let most = limits.headers.min(usize::from(NONE));
        loop {
            match bytes.get(at..).unwrap_or_default() {
                [b'\n', ..] => {
                    (self.headers_end, self.body_at) = (at as u32, at as u32 + 1);
                    return Ok(());
                }
                [b'\r', b'\n', ..] => {
                    (self.headers_end, self.body_at) = (at as u32, at as u32 + 2);
                    return Ok(());
                }
                // Only behind the start line: elsewhere it is the fold of a header.
                [b' ' | b'\t', ..] | [] => return Err(Malformed::Header),
                _ => {}
            }
            let first_end = at + memchr(b'\n', &bytes[at..]).ok_or(Malformed::Header)?;
            let mut end = first_end;
            while let Some(b' ' | b'\t') = bytes.get(end + 1) {
                end += 1 + memchr(b'\n', &bytes[end + 1..]).ok_or(Malformed::Header)?;
            }
            let next = end + 1;
            if next - at > longest || self.entries.len() == most {
                return Err(Malformed::TooLarge);
            }
            self.line(bytes, at, first_end, next)?;
            at = next;
        }
    }

    /// The header line from `at` to `next`, whose name has to be over at `first_end`.
    fn line(
        &mut self,
        bytes: &[u8],
        at: usize,
        first_end: usize,
        next: usize,
    ) -> Result<(), Malformed> {
        let written = until(bytes, at, first_end, |byte| !is_token(byte));
        let colon = until(bytes, written, first_end, |byte| !matches!(byte, b' ' | b'\t'));
        let is_header = written > at && bytes[colon] == b':';
        // What is broken behind the headers that every message needs is met by nobody (contract
        // 1.1): it stays as it is, a line without a name.
        if !is_header && self.complete().is_err() {
            return Err(Malformed::Header);
        }
        let (name, written, value_from) = if is_header {
            (Name::of(&bytes[at..written]), written, skip(bytes, colon + 1, next))
        } else {
            (Name::Other, at, at)
        };
        let value_to = trim_end(bytes, value_from, next);
        let place = self.entries.len() as u16;
        self.entries.push(Entry {
            from: at as u32,
            written: (written - at) as u16,
            value_from: (value_from - at) as u16,
            value_to: (value_to - at) as u16,
            to: (next - at) as u16,
            name,
        });
        let value = At::new(value_from, value_to);
        let address = || AddressAt::read(bytes, value_from, value_to, false);
        match name {
            Name::Via if self.via_entry == NONE => {
                self.via = ViaAt::read(bytes, value_from, value_to).ok_or(Malformed::Via)?;
                self.via_entry = place;
            }
            Name::From if self.from_entry == NONE => {
                self.from = address().ok_or(Malformed::From)?;
                self.from_entry = place;
            }
            Name::To if self.to_entry == NONE => {
                self.to = address().ok_or(Malformed::To)?;
                self.to_entry = place;
            }
            Name::CallId if self.call_id.is_empty() => self.call_id = value,
            Name::CSeq if self.cseq.is_missing() => {
                self.cseq = CSeqAt::read(bytes, value).ok_or(Malformed::CSeq)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn complete(&self) -> Result<(), Malformed> {
        for (is_missing, malformed) in [
            (self.via_entry == NONE, Malformed::Via),
            (self.from_entry == NONE, Malformed::From),
            (self.to_entry == NONE, Malformed::To),
            (self.call_id.is_empty(), Malformed::CallId),
            (self.cseq.is_missing(), Malformed::CSeq),
        ] {
            if is_missing {
                return Err(malformed);
            }
        }
        Ok(())
    }
}

impl StartAt {
    /// Reads the first line, whose line feed stands at `end`.
    pub(super) fn of(bytes: &[u8], end: usize) -> Option<Self> {
        let end = end - usize::from(end > 0 && bytes[end - 1] == b'\r');
        let line = &bytes[..end];
        if let Some((version, rest)) = line.split_first_chunk::<8>()
            && version.eq_ignore_ascii_case(b"SIP/2.0 ")
        {
            let code = rest.get(..3).filter(|code| code.iter().all(u8::is_ascii_digit))?;
            let code = code.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
            let reason = match rest.get(3) {
                None => end,
                Some(b' ') => 12,
                Some(_) => return None,
            };
            return Some(Self::Reply { code, reason: At::new(reason, end) });
        }
        let method = until(line, 0, end, |byte| !is_token(byte));
        // One space: others that count the spaces would take the line for another one.
        let uri = method + 1;
        let uri_end = until(line, uri, end, |byte| byte == b' ');
        let version = line.get(uri_end + 1..).unwrap_or_default();
        let is_request = method > 0
            && line.get(method) == Some(&b' ')
            && uri_end > uri
            && version.trim_ascii_end().eq_ignore_ascii_case(b"SIP/2.0");
        is_request.then(|| Self::Request { method: At::new(0, method), uri: At::new(uri, uri_end) })
    }
}
