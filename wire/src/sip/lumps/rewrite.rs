//! A range as earlier edits left it, and edits of that text put back into the list.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::{Cut, Lumps, narrow, span};

/// A stretch of a view: bytes that came, or a text that stands in their place.
#[derive(Clone, Debug)]
struct Piece {
    /// Where its text ends in the view.
    end: usize,
    /// Where it stands in the message.
    at: Range<usize>,
    /// True for bytes that came.
    came: bool,
}

/// The text of a range, and where each of its bytes is from.
#[derive(Clone, Debug)]
pub(in super::super) struct View<'a> {
    /// The text as the edits left it, without what is attached to places.
    pub(in super::super) text: Cow<'a, [u8]>,
    at: Range<usize>,
    /// Empty for a text that is as it came.
    pieces: Vec<Piece>,
}

/// Cuts at work: the one that is not done, and the bytes of all.
#[derive(Default)]
struct Making {
    done: Vec<(Range<usize>, Range<usize>)>,
    open: Option<(Range<usize>, Range<usize>)>,
    texts: Vec<u8>,
}

impl Making {
    /// Adds bytes that came to what is cut out.
    fn cut(&mut self, at: Range<usize>) {
        let text = self.texts.len();
        match &mut self.open {
            Some((open, _)) => open.end = at.end,
            None => self.open = Some((at, text..text)),
        }
    }
    /// Adds text to what stands there; `at` is where, if nothing is cut.
    fn put(&mut self, at: usize, text: &[u8]) {
        let from = self.texts.len();
        self.texts.extend_from_slice(text);
        let (_, open) = self.open.get_or_insert((at..at, from..from));
        open.end = self.texts.len();
    }
    fn close(&mut self) {
        self.done.extend(self.open.take());
    }
}

impl Lumps {
    /// The text of a range for edits.
    pub(in super::super) fn view<'a>(&self, source: &'a [u8], at: Range<usize>) -> View<'a> {
        let cuts = &self.cuts[self.touched(&span(at.clone()))];
        if cuts.is_empty() {
            return View { text: Cow::Borrowed(&source[at.clone()]), at, pieces: Vec::new() };
        }
        let mut text = Vec::with_capacity(at.len());
        let mut pieces = Vec::with_capacity(2 * cuts.len() + 1);
        let mut from = at.start;
        for cut in cuts {
            let (start, end) = (cut.start as usize, cut.end as usize);
            if start > from {
                text.extend_from_slice(&source[from..start]);
                pieces.push(Piece { end: text.len(), at: from..start, came: true });
            }
            text.extend_from_slice(&cut.text);
            pieces.push(Piece { end: text.len(), at: start..end, came: false });
            from = from.max(end);
        }
        if at.end > from {
            text.extend_from_slice(&source[from..at.end]);
            pieces.push(Piece { end: text.len(), at: from..at.end, came: true });
        }
        View { text: Cow::Owned(text), at, pieces }
    }
    /// Puts texts in the place of ranges of a view; they are in order and do not overlap, and nothing
    /// was edited since the view was taken. False, and nothing is done, above the bounds.
    pub(in super::super) fn splice(
        &mut self,
        view: &View<'_>,
        edits: &[(Range<usize>, Vec<u8>)],
    ) -> bool {
        let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
        if !self.has_room(edits.len(), added) {
            return false;
        }
        let whole = [Piece { end: view.text.len(), at: view.at.clone(), came: true }];
        let pieces = if view.pieces.is_empty() { &whole[..] } else { &view.pieces };
        let mut making = Making::default();
        let mut edits = edits.iter().peekable();
        let mut pos = 0;
        for piece in pieces {
            let start = pos;
            // Where a byte of the view is in the message.
            let came = |at: usize| piece.at.start + (at - start);
            let keep = |making: &mut Making, at: Range<usize>| {
                if piece.came {
                    making.close();
                } else {
                    making.put(piece.at.start, &view.text[at]);
                }
            };
            let cut_out = |making: &mut Making, at: Range<usize>| {
                if piece.came {
                    making.cut(came(at.start)..came(at.end));
                }
            };
            if !piece.came {
                making.cut(piece.at.clone());
            }
            while let Some((at, text)) =
                edits.peek().copied().filter(|(at, _)| at.start < piece.end)
            {
                if at.start > pos {
                    keep(&mut making, pos..at.start);
                    pos = at.start;
                }
                let end = at.end.min(piece.end);
                cut_out(&mut making, pos..end);
                pos = end;
                if at.end > piece.end {
                    break;
                }
                making.put(if piece.came { came(end) } else { piece.at.end }, text);
                edits.next();
            }
            let inside = edits.peek().is_some_and(|(at, _)| at.start < piece.end);
            if !inside {
                if pos < piece.end {
                    keep(&mut making, pos..piece.end);
                }
                making.close();
            }
            pos = piece.end;
        }
        making.close();
        self.rebuild(view, making);
        true
    }
    fn rebuild(&mut self, view: &View<'_>, making: Making) {
        let old = self.touched(&span(view.at.clone()));
        let gone: usize = self.cuts[old.clone()].iter().map(|cut| cut.text.len()).sum();
        self.bytes = self.bytes - gone + making.texts.len();
        let texts = Bytes::from(making.texts);
        let cuts = making.done.into_iter().map(|(at, text)| Cut {
            start: narrow(at.start),
            end: narrow(at.end),
            text: texts.slice(text),
        });
        let behind: Vec<Cut> = self.cuts.drain(old.end..).collect();
        self.cuts.truncate(old.start);
        self.cuts.extend(cuts);
        self.cuts.extend(behind);
    }
}
