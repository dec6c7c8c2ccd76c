//! Answers as they arrive.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, Shared};
use lineway_wire::dial::Family;

use super::records::Records;
use super::{Addresses, DnsError};

/// The answer for one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The family that was asked for.
    pub family: Family,
    /// Its addresses.
    pub result: Result<Addresses, DnsError>,
}

/// A question on its way, shared by all lookups of the name.
///
/// It runs when one of them is polled and ends with the last of them.
pub(super) type Question = Shared<LocalBoxFuture<'static, Result<Records, DnsError>>>;

/// One lookup of a line: at most one answer for each family that was asked for.
pub struct Lookup {
    parts: [Part; 2],
}

/// One family's part of a lookup.
pub(super) enum Part {
    Ready(Answer),
    Asking(Family, Question),
    Done,
}

impl Lookup {
    /// A lookup of both parts; the first comes first when both are ready.
    pub(super) const fn new(first: Part, second: Part) -> Self {
        Self { parts: [first, second] }
    }

    /// The next answer; `None` when every family was answered. A name that does not exist has no
    /// address of the other family either, so that is not waited for (RFC 8020).
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Answer>> {
        let mut asking = false;
        for place in 0..self.parts.len() {
            let answer = match &mut self.parts[place] {
                Part::Done => continue,
                Part::Ready(answer) => answer.clone(),
                Part::Asking(family, question) => match question.poll_unpin(cx) {
                    Poll::Pending => {
                        asking = true;
                        continue;
                    }
                    Poll::Ready(result) => {
                        Answer { family: *family, result: result.map(Records::addresses) }
                    }
                },
            };
            self.parts[place] = Part::Done;
            if answer.result == Err(DnsError::NotFound) {
                self.other_is_not_found(place);
            }
            return Poll::Ready(Some(answer));
        }
        if asking { Poll::Pending } else { Poll::Ready(None) }
    }

    /// The next answer; `None` when every family was answered.
    pub async fn next(&mut self) -> Option<Answer> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn other_is_not_found(&mut self, place: usize) {
        let other = &mut self.parts[1 - place];
        if let Part::Asking(family, _) = *other {
            *other = Part::Ready(Answer { family, result: Err(DnsError::NotFound) });
        }
    }
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.parts.each_ref().map(|part| match part {
            Part::Ready(_) => "ready",
            Part::Asking(..) => "asking",
            Part::Done => "done",
        });
        f.debug_tuple("Lookup").field(&words).finish()
    }
}
