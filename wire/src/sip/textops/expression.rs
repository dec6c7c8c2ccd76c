//! `/pattern/replacement/flags`.

use std::sync::Arc;

use regex::bytes::{Captures, Regex};

use super::pattern::{Flags, PatternError, Patterns};

/// A piece of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Text in which pseudo-variables count.
    Text(Vec<u8>),
    /// Text as it is.
    Literal(Vec<u8>),
    /// What a group matched; 0 = all of it.
    Group(usize),
}

/// A substitution as scripts write it: `/pattern/replacement/flags` with any delimiter, flags `i`
/// (any case), `g` (all, not only the first) and `s` (a line end is a byte like others). In the
/// replacement `\0` to `\9` are groups, `\n`, `\r` and `\t` what they are elsewhere, and any other
/// byte behind a backslash is itself.
#[derive(Clone, Debug)]
pub struct Expression {
    pub(super) regex: Arc<Regex>,
    pub(super) all: bool,
    parts: Vec<Part>,
}

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// It is none, or its pattern is of no use.
    pub fn parse(text: &[u8], patterns: &mut Patterns) -> Result<Self, PatternError> {
        let (&delimiter, rest) =
            text.split_first().ok_or(PatternError::Expression("it is empty"))?;
        if delimiter == b'\\' {
            return Err(PatternError::Expression("\\ is no delimiter"));
        }
        let missing = PatternError::Expression("a delimiter is missing");
        let end = delimited(rest, delimiter).ok_or_else(|| missing.clone())?;
        let (pattern, rest) = (&rest[..end], &rest[end + 1..]);
        let end = delimited(rest, delimiter).ok_or(missing)?;
        let (replacement, written) = (&rest[..end], &rest[end + 1..]);
        let mut flags = Flags::default();
        let mut all = false;
        for flag in written {
            match flag {
                b'i' => flags.any_case = true,
                b'g' => all = true,
                b's' => flags.one_line = true,
                _ => return Err(PatternError::Expression("the flags are g, i and s")),
            }
        }
        let regex = patterns.get(pattern, flags)?;
        Ok(Self { regex, all, parts: parts(replacement) })
    }
    /// Gives the texts of the replacement to what knows pseudo-variables. What it gives back stands
    /// as it is: no `\1` in it is a group.
    pub fn expand(&mut self, mut value: impl FnMut(&[u8]) -> Vec<u8>) {
        for part in &mut self.parts {
            if let Part::Text(text) = part {
                *part = Part::Literal(value(text));
            }
        }
    }
    /// What stands in the place of a match.
    pub(super) fn replacement(&self, groups: &Captures<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        for part in &self.parts {
            match part {
                Part::Text(bytes) | Part::Literal(bytes) => text.extend_from_slice(bytes),
                Part::Group(group) => {
                    text.extend_from_slice(
                        groups.get(*group).map_or(b"", |group| group.as_bytes()),
                    );
                }
            }
        }
        text
    }
}

/// Where the delimiter is that no backslash stands before.
fn delimited(text: &[u8], delimiter: u8) -> Option<usize> {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            _ if byte == delimiter => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

fn parts(replacement: &[u8]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        let escaped = if byte == b'\\' { bytes.next() } else { None };
        let literal = match escaped {
            Some(digit @ b'0'..=b'9') => {
                parts.push(Part::Group(usize::from(digit - b'0')));
                continue;
            }
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(&other) => other,
            None => {
                match parts.last_mut() {
                    Some(Part::Text(text)) => text.push(byte),
                    _ => parts.push(Part::Text(vec![byte])),
                }
                continue;
            }
        };
        match parts.last_mut() {
            Some(Part::Literal(text)) => text.push(literal),
            _ => parts.push(Part::Literal(vec![literal])),
        }
    }
    parts
}
