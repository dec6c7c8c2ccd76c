//! One in, several out, the first good answer wins.
//!
//! A dial races addresses, a fisher races candidates, a SIP proxy races branches: all of them start
//! several candidates, take the first that proves good, end the others and have one outcome.
//! [`Selection`] is that shape without what a candidate is or how it proves itself.

use std::time::Instant;

use smallvec::SmallVec;

#[cfg(test)]
mod tests;

/// A candidate's number within its selection, in the order of starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateId(u32);

impl CandidateId {
    /// The number: 0 for the candidate that was started first.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the owner of a [`Selection`] has to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<C, E> {
    /// This candidate did not win: end it.
    Lost(CandidateId, C),
    /// The one outcome; it comes after every `Lost`, and nothing comes after it.
    Settled(Result<(CandidateId, C), E>),
}

/// A race of candidates `C` with exactly one outcome.
///
/// ```text
///   start, fail        start refused; fail
///    ┌───┐                 ┌───┐
///    ▼   │    no_more      ▼   │
///   ┌──────┐───────────▶┌────────┐ the last one failed, win, expire, cancel ┌──────────┐
///   │ Open │   reopen   │ Sealed │─────────────────────────────────────────▶│ Settling │
///   └──────┘◀───────────└────────┘                                          └──────────┘
///      │        win, expire, cancel                            ▲                 │ poll: Lost for each
///      └───────────────────────────────────────────────────────┘                 │ loser, then Settled
///                                                                                ▼
///                                                                              Done
/// ```
///
/// Every candidate that was started ends exactly once, and its value `C` leaves the selection at
/// that moment: by [`Selection::fail`], as [`Event::Lost`], or as the winner in
/// [`Event::Settled`]. What happens after the outcome changes nothing.
///
/// Errors are ordered: the greatest one that was met is the most telling and is the outcome when
/// every candidate failed.
#[derive(Debug)]
pub struct Selection<C, E> {
    state: State<C, E>,
    candidates: SmallVec<[Option<C>; 2]>,
    running: usize,
    deadline: Option<Instant>,
    /// The most telling error so far.
    error: Option<E>,
}

#[derive(Debug)]
enum State<C, E> {
    /// Candidates may be started.
    Open,
    /// No more candidates come.
    Sealed,
    /// Decided; losers and the outcome are to be handed out.
    Settling(Result<(CandidateId, C), E>),
    /// Everything was handed out.
    Done,
}

impl<C, E: Ord> Selection<C, E> {
    /// A selection without candidates and without a deadline.
    pub fn new() -> Self {
        Self {
            state: State::Open,
            candidates: SmallVec::new(),
            running: 0,
            deadline: None,
            error: None,
        }
    }

    /// Adds a candidate that runs from here on; gives it back when the selection is decided or
    /// sealed, so that a loop of starts ends by itself once there is a winner (C02).
    ///
    /// # Errors
    /// The candidate itself, not started.
    pub fn start(&mut self, candidate: C) -> Result<CandidateId, C> {
        if !matches!(self.state, State::Open) {
            return Err(candidate);
        }
        let Ok(number) = u32::try_from(self.candidates.len()) else {
            return Err(candidate);
        };
        self.candidates.push(Some(candidate));
        self.running += 1;
        Ok(CandidateId(number))
    }

    /// Says that no more candidates come: with none running, the selection has failed. `error` is
    /// what it failed with if no candidate ever gave an error.
    pub fn no_more(&mut self, error: E) {
        if matches!(self.state, State::Open) {
            self.state = State::Sealed;
            self.error.get_or_insert(error);
            self.settle_if_all_failed();
        }
    }

    /// Takes [`Selection::no_more`] back while candidates run: more come after all.
    pub fn reopen(&mut self) {
        if matches!(self.state, State::Sealed) {
            self.state = State::Open;
        }
    }

    /// Sets the deadline; decided selections have none (C04).
    pub fn set_deadline(&mut self, deadline: Instant) {
        if !self.is_decided() {
            self.deadline = Some(deadline);
        }
    }

    /// When [`Selection::expire`] has work to do; `None` once decided.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A candidate proved good: it wins if it runs and nothing was decided yet. Returns whether it
    /// did.
    pub fn win(&mut self, id: CandidateId) -> bool {
        if self.is_decided() {
            return false;
        }
        let Some(winner) = self.take(id) else {
            return false;
        };
        self.settle(Ok((id, winner)));
        true
    }

    /// A candidate ended by itself: the others go on (C12), and if none is left and none comes,
    /// the selection has failed. Returns the candidate unless it had ended before.
    pub fn fail(&mut self, id: CandidateId, error: E) -> Option<C> {
        let ended = self.take(id)?;
        if !self.is_decided() {
            self.note(error);
            self.settle_if_all_failed();
        }
        Some(ended)
    }

    /// Remembers an error that belongs to no candidate; the most telling of all is kept.
    pub fn note(&mut self, error: E) {
        if self.error.as_ref().is_none_or(|known| *known < error) {
            self.error = Some(error);
        }
    }

    /// Decides with `error` if the deadline has passed (C13).
    pub fn expire(&mut self, now: Instant, error: E) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.cancel(error);
        }
    }

    /// Decides with `error` at once: the owner does not want an answer any more (C14).
    pub fn cancel(&mut self, error: E) {
        if !self.is_decided() {
            self.settle(Err(error));
        }
    }

    /// What is to be done, one at a time: losers first, the outcome last.
    pub fn poll(&mut self) -> Option<Event<C, E>> {
        if !matches!(self.state, State::Settling(_)) {
            return None;
        }
        if self.running > 0 {
            for (number, slot) in self.candidates.iter_mut().enumerate() {
                if let Some(loser) = slot.take() {
                    self.running -= 1;
                    return Some(Event::Lost(CandidateId(number as u32), loser));
                }
            }
        }
        match std::mem::replace(&mut self.state, State::Done) {
            State::Settling(outcome) => Some(Event::Settled(outcome)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// A candidate that runs.
    pub fn get_mut(&mut self, id: CandidateId) -> Option<&mut C> {
        self.candidates.get_mut(id.index())?.as_mut()
    }

    /// Every candidate that runs, in the order in which they were started.
    pub fn candidates(&mut self) -> impl Iterator<Item = &mut C> {
        self.candidates.iter_mut().flatten()
    }

    /// Candidates that run.
    pub const fn running(&self) -> usize {
        self.running
    }

    /// Candidates that were started so far, ended ones included.
    pub fn started(&self) -> usize {
        self.candidates.len()
    }

    /// Whether the outcome is settled, handed out or not.
    pub const fn is_decided(&self) -> bool {
        matches!(self.state, State::Settling(_) | State::Done)
    }

    fn take(&mut self, id: CandidateId) -> Option<C> {
        let ended = self.candidates.get_mut(id.index())?.take()?;
        self.running -= 1;
        Some(ended)
    }

    fn settle_if_all_failed(&mut self) {
        if self.running == 0
            && matches!(self.state, State::Sealed)
            && let Some(error) = self.error.take()
        {
            self.settle(Err(error));
        }
    }

    fn settle(&mut self, outcome: Result<(CandidateId, C), E>) {
        self.state = State::Settling(outcome);
        self.deadline = None;
        debug_assert_eq!(
            self.running,
            self.candidates.iter().flatten().count(),
            "the count of running candidates is wrong"
        );
    }
}

impl<C, E: Ord> Default for Selection<C, E> {
    fn default() -> Self {
        Self::new()
    }
}
