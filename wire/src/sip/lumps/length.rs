//! Content-Length follows the body (contract 1.3.7).

use std::ops::Range;

use smallvec::SmallVec;

use super::super::message::{Header, Message, Name};
use super::super::own::Transport;
use super::walk::digits;
use super::{Lumps, Patch};

/// What has to be done about Content-Length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Length {
    text: SmallVec<[u8; 40]>,
    /// The first gets the text, the others are taken out.
    at: SmallVec<[Range<usize>; 1]>,
}

impl Length {
    /// The edits of the copy that leaves; none where the headers may stay as they are.
    pub fn patches(&self) -> impl Iterator<Item = Patch<'_>> {
        let text = |index| if index == 0 { self.text.as_slice() } else { b"" };
        self.at
            .iter()
            .enumerate()
            .map(move |(index, at)| Patch { at: at.clone(), text: text(index) })
    }
    fn line(&mut self, size: &[u8]) {
        self.text.extend_from_slice(b"Content-Length: ");
        self.text.extend_from_slice(size);
        self.text.extend_from_slice(b"\r\n");
    }
}

/// What Content-Length needs on the way out: it is written anew when the body was edited (R100); over
/// TCP it is added where it is missing and corrected where it is wrong (R159, R160). Over UDP a body
/// that nobody edited leaves everything as it came, and a missing header is added only to a whole new
/// body, or if a script says so (R18).
pub fn content_length(message: &Message, lumps: &Lumps, transport: Transport) -> Length {
    let edited = lumps.body_changed(message);
    if !edited && !lumps.states_length && !transport.is_reliable() {
        return Length::default();
    }
    let size = if edited { lumps.body_size(message) } else { message.body().len() };
    let size = digits(size as u64);
    let there = |header: &Header<'_>| !lumps.is_deleted(header.line.clone());
    let mut headers = message.all(Name::ContentLength).filter(there);
    let is_right = |header: &Header<'_>| {
        let value = lumps.text(message.bytes(), header.value_at.clone());
        value.as_ref() == size.as_slice()
    };
    let mut length = Length::default();
    match headers.next() {
        None if transport.is_reliable() || lumps.states_length => {
            let end = message.headers_end();
            length.at.push(end..end);
            length.line(&size);
        }
        None => {}
        Some(first) => {
            if is_right(&first) && headers.clone().all(|header| is_right(&header)) {
                return length;
            }
            if lumps.is_untouched(first.line.clone()) {
                length.at.push(first.value_at);
                length.text.extend_from_slice(&size);
            } else {
                length.at.push(first.line);
                length.line(&size);
            }
            length.at.extend(headers.map(|header| header.line));
        }
    }
    length
}
