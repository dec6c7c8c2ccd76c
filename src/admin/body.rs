//! The body of an answer: a whole document, or lines that are written as the client takes them.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use lineway_actors::registry::LineView;

use super::connection::Slot;
use super::json::{LinesPage, write_line};

/// Bytes of lines in one frame, about: ten thousand lines never stand in memory as text.
const FRAME: usize = 32 * 1024;

/// The body of an answer.
pub(super) struct Answer {
    content: Content,
    /// The connection that waits for its next request when the body is gone.
    slot: Option<Rc<Slot>>,
}

enum Content {
    Whole(Bytes),
    Lines(Lines),
}

struct Lines {
    head: Vec<u8>,
    rest: std::vec::IntoIter<Arc<LineView>>,
    now: Instant,
    first: bool,
    done: bool,
}

impl Answer {
    /// A whole document.
    pub(super) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self { content: Content::Whole(bytes.into()), slot: None }
    }

    /// A page of lines.
    pub(super) fn lines(page: LinesPage) -> Self {
        let head = page.head();
        let rest = page.lines.into_iter();
        let lines = Lines { head, rest, now: Instant::now(), first: true, done: false };
        Self { content: Content::Lines(lines), slot: None }
    }

    /// The same body, whose end makes the connection wait for its next request.
    #[must_use]
    pub(super) fn on(mut self, slot: Rc<Slot>) -> Self {
        self.slot = Some(slot);
        self
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.answered();
        }
    }
}

impl Lines {
    fn frame(&mut self) -> Option<Bytes> {
        if self.done {
            return None;
        }
        let mut frame = std::mem::take(&mut self.head);
        frame.reserve(FRAME + 1024);
        while frame.len() < FRAME {
            let Some(line) = self.rest.next() else {
                frame.extend_from_slice(b"]}");
                self.done = true;
                break;
            };
            if !std::mem::take(&mut self.first) {
                frame.push(b',');
            }
            write_line(&mut frame, &line, self.now);
        }
        Some(frame.into())
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = match &mut self.content {
            Content::Whole(bytes) if bytes.is_empty() => None,
            Content::Whole(bytes) => Some(std::mem::take(bytes)),
            Content::Lines(lines) => lines.frame(),
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_empty(),
            Content::Lines(lines) => lines.done,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Content::Lines(_) => SizeHint::default(),
        }
    }
}
