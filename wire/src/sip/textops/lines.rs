//! What may stand among headers.

use std::ops::Range;

use bytes::Bytes;

/// A text as whole header lines, with a line end behind the last; white space around it does not
/// count. `None` if it is anything else.
pub(super) fn whole(text: &[u8]) -> Option<Bytes> {
    let trimmed = text.trim_ascii_start();
    let content = trimmed.trim_ascii_end();
    if content.is_empty() {
        return Some(Bytes::new());
    }
    let is_ended = trimmed.len() > content.len() && trimmed[content.len()..] == *b"\r\n";
    let lines =
        if is_ended { Bytes::copy_from_slice(trimmed) } else { [content, b"\r\n"].concat().into() };
    (is_block(&lines) && bare(&lines) == 0).then_some(lines)
}

/// Whole lines without those that state the length of the body, and whether there were such: the
/// length follows the body, and is never stated twice.
pub(super) fn without_length(lines: Bytes) -> (Bytes, bool) {
    let states = |line: &[u8]| {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii();
        name.eq_ignore_ascii_case(b"Content-Length") || name.eq_ignore_ascii_case(b"l")
    };
    if !lines.split(|byte| *byte == b'\n').any(states) {
        return (lines, false);
    }
    let mut kept = Vec::with_capacity(lines.len());
    let mut is_length = false;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        if !matches!(line.first(), Some(b' ' | b'\t')) {
            is_length = states(line);
        }
        if !is_length {
            kept.extend_from_slice(line);
        }
    }
    (kept.into(), true)
}

/// Whether this is one header line with its end, no more.
pub(super) fn is_one(line: &[u8]) -> bool {
    memchr::memchr(b'\n', line) == Some(line.len() - 1) && is_block(line) && bare(line) == 0
}

/// Whether a name can be one.
pub(super) fn is_name(name: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(byte);
    !name.is_empty() && name.iter().all(is_token)
}

/// Whether what became of a line, or of the lines that an edit made of it, can take its place.
pub(super) fn is_line(before: &[u8], after: &[u8]) -> bool {
    after.ends_with(b"\n") && is_block(after) && bare(after) <= bare(before)
}

/// Where the value of a line is.
pub(super) fn value(line: &[u8]) -> Range<usize> {
    let colon = memchr::memchr(b':', line).map_or(line.len(), |colon| colon + 1);
    let end = colon + line[colon..].trim_ascii_end().len();
    let value = line[colon..end].trim_ascii_start();
    end - value.len()..end
}

/// Header lines and folds, each with its end, the first one a header.
fn is_block(text: &[u8]) -> bool {
    let Some(text) = text.strip_suffix(b"\n") else { return false };
    text.split(|byte| *byte == b'\n').enumerate().all(|(index, line)| match line.first() {
        Some(b' ' | b'\t') => index > 0,
        _ => is_header(line),
    })
}

/// A line with a name in front of a colon.
fn is_header(line: &[u8]) -> bool {
    memchr::memchr(b':', line).is_some_and(|colon| is_name(line[..colon].trim_ascii_end()))
}

/// Carriage returns that no line feed follows: some take them for line ends.
fn bare(text: &[u8]) -> usize {
    memchr::memchr_iter(b'\r', text).filter(|at| text.get(at + 1) != Some(&b'\n')).count()
}
