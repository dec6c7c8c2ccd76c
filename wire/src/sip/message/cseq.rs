//! CSeq.

use super::Method;
use super::lex::{At, is_token, skip, until};

/// The CSeq header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// The sequence number; `u32::MAX` for one above it.
    pub number: u32,
    /// The number as written: digits, of any count.
    pub digits: &'a [u8],
    /// The method.
    pub method: Method<'a>,
}

/// A CSeq by offsets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CSeqAt {
    number: u32,
    digits: At,
    method: At,
}

impl CSeqAt {
    /// Reads a value: digits, white space, a method and nothing behind it.
    pub(super) fn read(bytes: &[u8], value: At) -> Option<Self> {
        let std::ops::Range { start, end } = value.range();
        let digits = until(bytes, start, end, |byte| !byte.is_ascii_digit());
        let method = skip(bytes, digits, end);
        let is_over = until(bytes, method, end, |byte| !is_token(byte)) == end;
        if digits == start || method == digits || method == end || !is_over {
            return None;
        }
        let number = bytes[start..digits].iter().fold(0_u32, |sum, digit| {
            sum.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        });
        Some(Self { number, digits: At::new(start, digits), method: At::new(method, end) })
    }

    pub(super) const fn is_missing(self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn view(self, bytes: &[u8]) -> CSeq<'_> {
        CSeq {
            number: self.number,
            digits: self.digits.of(bytes),
            method: Method::of(self.method.of(bytes)),
        }
    }
}
