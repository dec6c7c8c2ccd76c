//! Parameters of URIs and headers.

use super::lex::{quoted, trim, trim_end};

/// Parameters such as `;lr;transport=tcp`: the text behind the first semicolon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(pub &'a [u8]);

impl<'a> Params<'a> {
    /// The value of a parameter (any case); `Some(None)` where it has none. Quotes are left out.
    pub fn get(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.parts().find(|part| part.name.eq_ignore_ascii_case(name)).map(|part| part.value)
    }
    /// True where it is there, with or without a value.
    pub fn has(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }
    /// Each parameter with its value, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        self.parts().map(|part| (part.name, part.value))
    }

    /// Each parameter with its place; empty ones are passed over.
    pub(super) const fn parts(self) -> Parts<'a> {
        Parts { text: self.0, at: 0 }
    }
}

/// One parameter.
pub(super) struct Part<'a> {
    /// Where it begins in the text of all: behind its semicolon.
    pub(super) from: usize,
    /// Where it ends, without white space.
    pub(super) to: usize,
    pub(super) name: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
}

pub(super) struct Parts<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        let text = self.text;
        loop {
            if self.at >= text.len() {
                return None;
            }
            let (from, mut end, mut equals) = (self.at, self.at, None);
            while end < text.len() && text[end] != b';' {
                match text[end] {
                    // A quote without its other half: the rest is one value.
                    b'"' => end = quoted(text, end, text.len()).unwrap_or(text.len()),
                    b'=' if equals.is_none() => {
                        equals = Some(end);
                        end += 1;
                    }
                    _ => end += 1,
                }
            }
            self.at = end + 1;
            let name = trim(&text[from..equals.unwrap_or(end)]);
            if name.is_empty() {
                continue;
            }
            let value = equals.map(|equals| {
                let value = trim(&text[equals + 1..end]);
                value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
            });
            return Some(Part { from, to: trim_end(text, from, end), name, value });
        }
    }
}
