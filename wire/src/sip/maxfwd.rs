//! Max-Forwards (contract 6.1).

use bytes::Bytes;

use super::draft::Draft;
use super::message::{Header, Name};

/// `max_limit`: larger values become this one (R152).
pub const MOST: u32 = 70;

/// `process_maxfwd(limit)`: 1 lowered (R10), 2 added with this value (R11), -1 it was 0 (R12), -2 it
/// can not be read (R153). It acts on what earlier edits left; the first header counts.
pub fn process(draft: &mut Draft, limit: i64) -> i64 {
    let Some(header) = header(draft) else {
        if !draft.maxfwd_added {
            draft.maxfwd_added = true;
            let line = format!("Max-Forwards: {}\r\n", limit.clamp(0, 255));
            let first = draft.message.headers_at();
            draft.lumps.insert(first, line.into());
        }
        return 2;
    };
    let at = header.value_at;
    let text = draft.lumps.text(draft.message.bytes(), at.clone());
    let (width, value) = (text.len(), read(&text));
    drop(text);
    match value {
        None => -2,
        Some(0) => -1,
        Some(value) => {
            let value = if value > MOST { MOST } else { value - 1 };
            draft.lumps.replace(at, padded(value, width));
            1
        }
    }
}

/// `is_maxfwd_lt(limit)`: 1 lower, -1 not, -2 not there, -3 not readable.
pub fn is_lower(draft: &Draft, limit: i64) -> i64 {
    let Some(header) = header(draft) else { return -2 };
    match read(&draft.lumps.text(draft.message.bytes(), header.value_at)) {
        Some(value) if i64::from(value) < limit => 1,
        Some(_) => -1,
        None => -3,
    }
}

/// The first one that no edit has taken out.
fn header(draft: &Draft) -> Option<Header<'_>> {
    let there = |header: &Header<'_>| !draft.lumps.is_deleted(header.line.clone());
    draft.message.all(Name::MaxForwards).find(there)
}

/// A number; what is larger than any stays large.
fn read(text: &[u8]) -> Option<u32> {
    let digits = text.trim_ascii();
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u32::from(byte - b'0'));
    let add = |sum: u32, byte| Some(sum.saturating_mul(10).saturating_add(digit(byte)?));
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// The value in the width of the one before, with spaces in front (R14).
fn padded(value: u32, width: usize) -> Bytes {
    /// 0 to 70, two bytes each.
    const TWO: &[u8; 142] =
        b" 0 1 2 3 4 5 6 7 8 910111213141516171819202122232425262728293031323334\
        3536373839404142434445464748495051525354555657585960616263646566676869\
        70";
    let at = 2 * value as usize;
    match (width, TWO.get(at..at + 2)) {
        (2, Some(text)) => Bytes::from_static(text),
        (1, Some([b' ', ..])) => Bytes::from_static(&TWO[at + 1..at + 2]),
        _ => format!("{value:>width$}").into(),
    }
}

#[cfg(test)]
mod tests;
