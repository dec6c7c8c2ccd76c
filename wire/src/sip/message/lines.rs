//! Single headers of bytes that are not parsed.

use memchr::memchr;

use super::Name;
use super::lex::trim;

/// The value of the first header of this name, as parsing would find it; folds are still in it.
fn first(bytes: &[u8], name: Name) -> Option<&[u8]> {
    let mut at = memchr(b'\n', bytes)? + 1;
    loop {
        let line = bytes.get(at..)?;
        if matches!(line, [] | [b'\n', ..] | [b'\r', b'\n', ..]) {
            return None;
        }
        let first_end = memchr(b'\n', line)?;
        let mut end = first_end;
        while let Some(b' ' | b'\t') = line.get(end + 1) {
            end += 1 + memchr(b'\n', &line[end + 1..])?;
        }
        let colon = memchr(b':', &line[..first_end])?;
        if Name::of(line[..colon].trim_ascii_end()) == name {
            return Some(trim(&line[colon + 1..end]));
        }
        at += end + 1;
    }
}

/// The Call-ID of bytes that are not parsed yet, to find the call's owner (contract 2.16).
pub fn call_id_of(bytes: &[u8]) -> Option<&[u8]> {
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    first(&bytes[begin..], Name::CallId).filter(|value| !value.is_empty())
}
