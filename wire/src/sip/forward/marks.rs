//! `received` and `rport` in the top Via of what came (1.3.3, 18.2.1, RFC 3581): where the answer
//! has to go.

use std::fmt::{self, Write};
use std::ops::Range;

use smallvec::SmallVec;

use super::super::draft::Draft;
use super::super::lumps::Patch;
use super::super::message::{Via, host_ip};

/// Short text on the stack.
#[derive(Default)]
pub(super) struct Scratch(SmallVec<[u8; 192]>);

impl Scratch {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Write for Scratch {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// The changes of the top Via; none where its sent-by is the source and nobody asked for rport (R6).
pub(super) struct Marks {
    text: Scratch,
    /// Where each goes, and which part of the text it is; the first in front.
    at: SmallVec<[(Range<usize>, Range<usize>); 2]>,
}

impl Marks {
    pub(super) fn of(draft: &Draft) -> Self {
        let mut marks = Self { text: Scratch::default(), at: SmallVec::new() };
        let via = draft.message.via();
        let source = draft.received.source;
        let (received, rport) = (via.param_at(b"received"), via.param_at(b"rport"));
        let is_source = host_ip(via.host) == Some(source.ip());
        // What is not there comes behind the sent-by, received first.
        let behind = received.as_ref().map_or(via.sent_by_end, |received| received.end);
        if received.is_some() || rport.is_some() || !is_source {
            let at = received.unwrap_or(behind..behind);
            // An IPv6 address has no brackets here (S-23).
            marks.put(at, format_args!(";received={}", source.ip()));
        }
        if rport.is_some() || draft.force_rport {
            let at = rport.unwrap_or(behind..behind);
            marks.put(at, format_args!(";rport={}", source.port()));
        }
        marks.at.sort_by_key(|(at, _)| at.start);
        marks
    }

    fn put(&mut self, at: Range<usize>, text: fmt::Arguments<'_>) {
        let from = self.text.0.len();
        let _ = self.text.write_fmt(text);
        self.at.push((at, from..self.text.0.len()));
    }

    pub(super) fn patches(&self) -> impl Iterator<Item = Patch<'_>> {
        self.at.iter().map(|(at, text)| Patch { at: at.clone(), text: &self.text.0[text.clone()] })
    }
}

/// Writes the header line of the top Via with `received` and `rport` as they have to be, for a reply
/// that is made here: what shares the line follows as it came.
pub fn top_via(draft: &Draft, out: &mut Vec<u8>) {
    let Via { line: (mut from, to), .. } = draft.message.via();
    let bytes = draft.message.bytes();
    for Patch { at, text } in Marks::of(draft).patches() {
        out.extend_from_slice(&bytes[from..at.start]);
        out.extend_from_slice(text);
        from = at.end;
    }
    out.extend_from_slice(&bytes[from..to]);
}
