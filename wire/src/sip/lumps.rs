//! The edit list of a message (contract 3): where bytes go and where bytes come, put to work in one
//! walk.
//!
//! Two kinds of edits. A *cut* takes a range of the message out, and may have a text in its place:
//! cuts never overlap, so no later edit can tear an earlier one apart. A *place* is an offset with
//! text attached to it: that text stands for itself, and stays when what is around it is cut.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::message::Message;
use super::own::Socket;

mod length;
mod rewrite;
mod walk;

#[cfg(test)]
mod tests;

pub use length::{Length, content_length};

/// One place of a list: an anchor, or where something was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LumpId(pub u32);

/// A text that is known only when the sending socket is (late marker).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Marker {
    /// Host of the receiving socket.
    ReceivedHost,
    /// Port of the receiving socket.
    ReceivedPort,
    /// Transport word of the receiving socket.
    ReceivedProto,
    /// `host[:port][;transport=x]` of the receiving socket.
    ReceivedAll,
    /// Host of the sending socket.
    SendingHost,
    /// Port of the sending socket.
    SendingPort,
    /// Transport word of the sending socket.
    SendingProto,
    /// `host[:port][;transport=x]` of the sending socket.
    SendingAll,
}

/// What is inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insert {
    /// Bytes.
    Bytes(Bytes),
    /// A late marker.
    Marker(Marker),
    /// The rest of this chain only if the receiving socket differs from the sending one in address,
    /// port or transport.
    IfSocketsDiffer,
    /// The rest of this chain only if they are the same.
    IfSocketsSame,
}

impl Insert {
    /// True for what has to wait for the sending socket.
    const fn is_late(&self) -> bool {
        !matches!(self, Self::Bytes(_))
    }
}

/// The two sockets that late markers speak of.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    /// Where the message came in.
    pub received: &'a Socket,
    /// Where it goes out.
    pub sending: &'a Socket,
}

/// An edit of one copy that leaves: it is no part of the list, so that branches share the list.
///
/// It has the last word: edits of the list inside of its range are gone. Strictly inside of a range
/// that the list cuts it is gone itself. With an empty range it goes behind what the list puts at
/// that offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    /// What it takes the place of.
    pub at: Range<usize>,
    /// What stands there.
    pub text: &'a [u8],
}

/// A range of the message that is gone.
#[derive(Clone, Debug)]
struct Cut {
    start: u32,
    end: u32,
    /// What stands there instead.
    text: Bytes,
}

impl Cut {
    const fn is_empty(&self) -> bool {
        self.start == self.end
    }
    const fn is_inside(&self, range: &Span) -> bool {
        range.start <= self.start && self.end <= range.end
    }
}

/// An offset with text attached.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u32,
    /// Where the deleted range ends, `at` for an anchor: text of `after` goes behind that.
    end: u32,
    before: u32,
    after: u32,
}

/// One chain of inserts, and the one behind it.
#[derive(Clone, Copy, Debug)]
struct Chain {
    first: u32,
    last: u32,
    next: u32,
}

/// No chain.
const NONE: u32 = u32::MAX;

/// A range in offsets of the list.
type Span = Range<u32>;

/// The edit list: headers and body. Offsets are those of the message as it came. Cloning is cheap
/// enough for each branch.
#[derive(Clone, Debug, Default)]
pub struct Lumps {
    /// In order of the message, disjoint.
    cuts: SmallVec<[Cut; 4]>,
    /// In order of their creation.
    places: SmallVec<[Place; 4]>,
    chains: SmallVec<[Chain; 4]>,
    inserts: SmallVec<[Insert; 2]>,
    /// Bytes of all texts that were put in.
    bytes: usize,
    /// The Content-Type line that a new body brought with it.
    type_line: Option<LumpId>,
    /// Content-Length is written though the message has none.
    states_length: bool,
}

impl Lumps {
    /// Bytes of text that one message gets at most; scripts ask [`Lumps::has_room`].
    pub const MAX_BYTES: usize = 1 << 18;
    /// Edits that one message gets at most.
    pub const MAX_EDITS: usize = 1 << 14;

    /// True without an edit.
    pub fn is_empty(&self) -> bool {
        self.cuts.is_empty() && self.chains.is_empty()
    }
    /// Whether `edits` more edits with `bytes` of text are within the bounds.
    pub fn has_room(&self, edits: usize, bytes: usize) -> bool {
        let count = self.cuts.len().max(self.places.len()).max(self.chains.len());
        count + edits <= Self::MAX_EDITS && self.bytes + bytes <= Self::MAX_BYTES
    }
    /// Deletes a range of the message as it came; what is deleted already is left alone, a text that
    /// stands in the place of a part of it goes too.
    pub fn delete(&mut self, at: Range<usize>) -> LumpId {
        let span = span(at);
        self.cut(span.clone());
        self.place(span)
    }
    /// A place to put text at, behind earlier ones of the same offset.
    pub fn anchor(&mut self, at: usize) -> LumpId {
        self.place(span(at..at))
    }
    /// Puts a text in front of the chain before a lump: the last one comes first.
    pub fn before(&mut self, lump: LumpId, chain: impl IntoIterator<Item = Insert>) {
        let Some(place) = self.places.get(lump.0 as usize) else { return };
        let head = self.chain(place.before, chain);
        self.places[lump.0 as usize].before = head;
    }
    /// Puts a text directly behind a lump: the last one comes first.
    pub fn after(&mut self, lump: LumpId, chain: impl IntoIterator<Item = Insert>) {
        let Some(place) = self.places.get(lump.0 as usize) else { return };
        let head = self.chain(place.after, chain);
        self.places[lump.0 as usize].after = head;
    }
    /// Takes away all that was put in front of a lump and behind it.
    pub fn clear(&mut self, lump: LumpId) {
        let Some(place) = self.places.get_mut(lump.0 as usize) else { return };
        (place.before, place.after) = (NONE, NONE);
    }
    /// Puts bytes at an offset, behind earlier ones: a line between two others. They stay whatever
    /// happens to the lines around.
    pub fn insert(&mut self, at: usize, text: Bytes) {
        let lump = self.anchor(at);
        self.before(lump, [Insert::Bytes(text)]);
    }
    /// Puts a text in the place of a range, and of what earlier edits made of that range. It belongs
    /// to the range: who deletes the line deletes it too. An empty range adds the text behind
    /// earlier ones.
    ///
    /// False if the range, or an end of it, lies inside of a larger one that was deleted or replaced
    /// before: nothing is done then.
    pub fn replace(&mut self, at: Range<usize>, text: Bytes) -> bool {
        let span = span(at);
        if span.is_empty() {
            return self.put(span.start, text);
        }
        let touched = self.touched(&span);
        if !self.cuts[touched.clone()].iter().all(|cut| cut.is_inside(&span)) {
            return false;
        }
        self.swap(touched, Cut { start: span.start, end: span.end, text });
        true
    }
    /// [`Lumps::replace`] for many; gives how many were replaced.
    pub fn replace_all(&mut self, edits: impl IntoIterator<Item = (Range<usize>, Bytes)>) -> usize {
        edits.into_iter().map(|(at, text)| usize::from(self.replace(at, text))).sum()
    }
    /// Whether all of a range is deleted: the header that stands there is gone.
    pub fn is_deleted(&self, at: Range<usize>) -> bool {
        let span = span(at);
        let mut to = span.start;
        for cut in &self.cuts[self.touched(&span)] {
            if cut.start > to || !cut.text.is_empty() {
                return false;
            }
            to = to.max(cut.end);
        }
        to >= span.end
    }
    /// Whether a range is as it came.
    pub fn is_untouched(&self, at: Range<usize>) -> bool {
        self.touched(&span(at)).is_empty()
    }
    /// A range as the edits left it, without the text of places in it.
    pub fn text<'a>(&'a self, bytes: &'a [u8], at: Range<usize>) -> Cow<'a, [u8]> {
        let touched = self.touched(&span(at.clone()));
        let cuts = &self.cuts[touched];
        if cuts.is_empty() {
            return Cow::Borrowed(&bytes[at]);
        }
        if let [cut] = cuts
            && (cut.start as usize, cut.end as usize) == (at.start, at.end)
        {
            return Cow::Borrowed(&cut.text);
        }
        let mut text = Vec::with_capacity(at.len());
        let mut from = at.start;
        for cut in cuts {
            text.extend_from_slice(&bytes[from..(cut.start as usize).max(from)]);
            text.extend_from_slice(&cut.text);
            from = from.max(cut.end as usize);
        }
        text.extend_from_slice(&bytes[from.min(at.end)..at.end]);
        Cow::Owned(text)
    }
    /// Whether the body is changed: Content-Length follows (R100).
    pub fn body_changed(&self, message: &Message) -> bool {
        let body = narrow(message.body_at());
        let has_text = |place: &Place| place.before != NONE || place.after != NONE;
        self.cuts.last().is_some_and(|cut| cut.end > body || cut.start >= body)
            || self.places.iter().any(|place| place.at >= body && has_text(place))
    }
    /// Bytes of the body as the edits left it. Late markers have no place in a body.
    pub fn body_size(&self, message: &Message) -> usize {
        self.walk_size(message.bytes(), message.body_at())
    }

    /// Content-Length is written even where the message has none.
    pub(super) fn state_length(&mut self) {
        self.states_length = true;
    }
    /// The new body of a message that came without one, in place of an earlier one: there are no
    /// bytes that both could stand for.
    pub(super) fn new_text(&mut self, at: usize, text: Bytes) {
        let at = narrow(at);
        self.cuts.retain(|cut| !(cut.is_empty() && cut.start == at));
        self.put(at, text);
    }
    /// A new body brings its Content-Type, in place of the one that an earlier new body brought, and
    /// is told the length of. `None`: the headers have that type.
    pub(super) fn new_body(&mut self, end: usize, content_type: Option<Bytes>) {
        self.state_length();
        let Some(line) = content_type else { return };
        let lump = *self.type_line.get_or_insert(LumpId(narrow(self.places.len())));
        if self.places.len() == lump.0 as usize {
            self.anchor(end);
        }
        self.places[lump.0 as usize].before = NONE;
        self.before(lump, [Insert::Bytes(line)]);
    }
    /// Takes a range out, with the texts that stand in the place of parts of it.
    pub fn remove(&mut self, at: Range<usize>) {
        self.cut(span(at));
    }
    fn cut(&mut self, span: Span) {
        if span.is_empty() {
            return;
        }
        let touched = self.touched(&span);
        let mut whole = Cut { start: span.start, end: span.end, text: Bytes::new() };
        // Only raw ranges overlap in part: both are gone then, and no text is lost.
        for cut in &self.cuts[touched.clone()] {
            if !cut.is_inside(&span) {
                whole.start = whole.start.min(cut.start);
                whole.end = whole.end.max(cut.end);
                whole.text = joined(&whole.text, &cut.text);
            }
        }
        self.swap(touched, whole);
    }
    fn put(&mut self, at: u32, text: Bytes) -> bool {
        let touched = self.touched(&(at..at));
        if self.cuts[touched.clone()].iter().any(|cut| !cut.is_empty()) {
            return false;
        }
        self.bytes += text.len();
        self.cuts.insert(touched.end, Cut { start: at, end: at, text });
        true
    }
    /// The cuts that share bytes with a range, and the texts at both of its ends.
    fn touched(&self, span: &Span) -> Range<usize> {
        let (start, end) = (span.start, span.end);
        // What comes last is what scripts edit next: no search for it.
        if self.cuts.last().is_none_or(|cut| cut.end < start) {
            return self.cuts.len()..self.cuts.len();
        }
        let lo = |cut: &Cut| cut.end < start || (cut.end == start && !cut.is_empty());
        let hi = |cut: &Cut| cut.start < end || (cut.start == end && cut.is_empty());
        let lo = self.cuts.partition_point(lo);
        let more = self.cuts[lo..].partition_point(hi);
        lo..lo + more
    }
    fn swap(&mut self, old: Range<usize>, cut: Cut) {
        let gone: usize = self.cuts[old.clone()].iter().map(|cut| cut.text.len()).sum();
        self.bytes = self.bytes - gone + cut.text.len();
        if old.is_empty() {
            self.cuts.insert(old.start, cut);
        } else {
            self.cuts[old.start] = cut;
            if old.len() > 1 {
                self.cuts.drain(old.start + 1..old.end);
            }
        }
    }
    fn place(&mut self, span: Span) -> LumpId {
        let id = LumpId(narrow(self.places.len()));
        let place = Place { at: span.start, end: span.end, before: NONE, after: NONE };
        self.places.push(place);
        id
    }
    fn chain(&mut self, next: u32, chain: impl IntoIterator<Item = Insert>) -> u32 {
        let first = narrow(self.inserts.len());
        for insert in chain {
            self.bytes += match &insert {
                Insert::Bytes(text) => text.len(),
                Insert::Marker(_) | Insert::IfSocketsDiffer | Insert::IfSocketsSame => 0,
            };
            self.inserts.push(insert);
        }
        self.chains.push(Chain { first, last: narrow(self.inserts.len()), next });
        narrow(self.chains.len() - 1)
    }
}

/// Offsets and counts fit: a message has at most a few hundred thousand bytes.
fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX - 1)
}

fn span(at: Range<usize>) -> Span {
    let start = narrow(at.start);
    start..narrow(at.end).max(start)
}

fn joined(left: &Bytes, right: &Bytes) -> Bytes {
    match (left.is_empty(), right.is_empty()) {
        (true, _) => right.clone(),
        (_, true) => left.clone(),
        _ => {
            let mut both = BytesMut::with_capacity(left.len() + right.len());
            both.extend_from_slice(left);
            both.extend_from_slice(right);
            both.freeze()
        }
    }
}
