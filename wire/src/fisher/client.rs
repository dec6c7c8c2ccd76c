//! The client's side: the candidates of one main line and the choice among them.

use std::time::Instant;

use super::{BODY_BYTES, Marker, QUEUE_BUFFERS, QUEUE_BYTES, REPLY, SELECTION_LIMIT, Step};
use crate::select::{CandidateId, Event, Selection};

#[cfg(test)]
mod tests;

/// Why a candidate did not win: the `reason` label of the fisher's metrics. Also why a selection
/// has no winner; the greatest that was met says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Loss {
    /// It closed, or could not be connected (C12).
    Closed,
    /// Its first five bytes were no `FISH!` (C08).
    BadReply,
    /// More came with its `FISH!` than may wait (C09).
    Overflow,
    /// It was not chosen in time (C13).
    Timeout,
    /// The main line ended first (C14).
    Cancelled,
    /// Another one was chosen (C15).
    Outrun,
}

impl Loss {
    /// Every reason, in the order of the metrics.
    pub const ALL: [Self; 6] = [
        Self::Closed,
        Self::BadReply,
        Self::Overflow,
        Self::Timeout,
        Self::Cancelled,
        Self::Outrun,
    ];

    /// The word used as metric label and log field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::BadReply => "bad-reply",
            Self::Overflow => "overflow",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Outrun => "outrun",
        }
    }
}

/// What a candidate's bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All of them belong to the handshake, and more are needed (C08).
    More,
    /// `FISH!` is whole; so many of the bytes belonged to it, the rest is the application's (C09).
    Proved(usize),
    /// The candidate is no good.
    Lost(Loss),
}

/// One candidate before the choice: what it has sent so far.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    marker: Marker,
}

impl Default for Candidate {
    fn default() -> Self {
        Self::new()
    }
}

impl Candidate {
    /// A candidate that has sent nothing.
    pub const fn new() -> Self {
        Self { marker: Marker::new(REPLY) }
    }

    /// The next bytes, of which `more` stand behind those given (C08, C09).
    pub fn bytes(&mut self, bytes: &[u8], more: usize) -> Answer {
        match self.marker.feed(bytes) {
            Step::More => Answer::More,
            Step::Wrong => Answer::Lost(Loss::BadReply),
            Step::Right(used) if bytes.len() - used + more > BODY_BYTES => {
                Answer::Lost(Loss::Overflow)
            }
            Step::Right(used) => Answer::Proved(used),
        }
    }

    /// Bytes of the handshake that are kept: 4 at most (C08).
    pub const fn kept(&self) -> usize {
        self.marker.kept()
    }
}

/// What waits for the choice would break a limit (C05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more waits for the choice of a candidate than may wait")]
pub struct NoRoom;

/// The selection of one main line among candidates `C`.
#[derive(Debug)]
pub struct Fisher<C> {
    selection: Selection<C, Loss>,
    established: bool,
}

impl<C> Default for Fisher<C> {
    fn default() -> Self {
        Self { selection: Selection::new(), established: false }
    }
}

impl<C> Fisher<C> {
    /// A selection without candidates.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more candidate (C02).
    ///
    /// # Errors
    /// The candidate, when the choice is made already.
    pub fn start(&mut self, candidate: C) -> Result<CandidateId, C> {
        self.selection.start(candidate)
    }

    /// All candidates are there. Gives the deadline, unless the choice is made already (C04).
    pub fn started(&mut self, now: Instant) -> Option<Instant> {
        self.selection.no_more(Loss::Closed);
        self.selection.set_deadline(now + SELECTION_LIMIT);
        self.deadline()
    }

    /// The transport of a candidate is up. True when the main line is to be told: once, for the
    /// first of them, whether or not it wins (C07).
    pub fn established(&mut self, id: CandidateId) -> bool {
        let live = self.selection.get_mut(id).is_some() && !self.selection.is_decided();
        live && !std::mem::replace(&mut self.established, true)
    }

    /// A candidate's `FISH!` is whole: it wins if it is the first (C15). False when it does not.
    pub fn proved(&mut self, id: CandidateId) -> bool {
        self.selection.win(id)
    }

    /// A candidate ended by itself (C12). Gives it unless it had ended before.
    pub fn lost(&mut self, id: CandidateId, why: Loss) -> Option<C> {
        self.selection.fail(id, why)
    }

    /// When the choice must be made; `None` once it is, or nobody has started (C04).
    pub const fn deadline(&self) -> Option<Instant> {
        self.selection.deadline()
    }

    /// The deadline may be over (C13).
    pub fn expire(&mut self, now: Instant) {
        self.selection.expire(now, Loss::Timeout);
    }

    /// The selection ends without a winner: the main line ended (C14), or broke a limit (C05).
    pub fn end(&mut self, why: Loss) {
        self.selection.cancel(why);
    }

    /// What is to be done, one at a time: losers first, the outcome last.
    pub fn poll(&mut self) -> Option<Event<C, Loss>> {
        self.selection.poll()
    }

    /// A candidate that runs.
    pub fn get_mut(&mut self, id: CandidateId) -> Option<&mut C> {
        self.selection.get_mut(id)
    }

    /// Every candidate that runs.
    pub fn candidates(&mut self) -> impl Iterator<Item = &mut C> {
        self.selection.candidates()
    }

    /// Candidates that run.
    pub const fn running(&self) -> usize {
        self.selection.running()
    }

    /// Whether the outcome is there.
    pub const fn is_decided(&self) -> bool {
        self.selection.is_decided()
    }

    /// Says whether so much may wait for the choice; what does not fit is not taken at all, and
    /// the main line is closed (C05).
    ///
    /// # Errors
    /// A limit would be broken.
    pub const fn room(&self, bytes: usize, buffers: usize) -> Result<(), NoRoom> {
        if bytes > QUEUE_BYTES || buffers > QUEUE_BUFFERS { Err(NoRoom) } else { Ok(()) }
    }
}
