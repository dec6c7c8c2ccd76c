//! The choice between the branches of a fork (contract 2.7, 2.9): which reply goes up.
//!
//! The branches of a leg are the candidates of a [`Selection`]: the first 2xx wins, and with all of
//! them failed the final of the smallest priority is the outcome. Legs follow each other: a failure
//! route may add another once one has failed. The finals of all legs that count stay here until one
//! of them goes up.

use std::cmp::Reverse;

use smallvec::SmallVec;

use crate::select::{CandidateId, Event, Selection};

/// What a final is worth in the choice; the greatest one goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(Reverse<(bool, u16, u16)>);

impl Rank {
    /// Of a branch that could not be sent: it never wins.
    const UNSENT: Self = Self(Reverse((true, u16::MAX, u16::MAX)));

    const fn new(last: bool, code: u16, branch: u16) -> Self {
        Self(Reverse((last, priority(code), branch)))
    }

    /// Whose it is.
    fn branch(self) -> Option<u16> {
        (self != Self::UNSENT).then_some(self.0.0.2)
    }
}

/// The priority of a final reply; the smallest goes up (contract 2.9; R68 to R72).
pub(super) const fn priority(code: u16) -> u16 {
    match code {
        600..=699 => 1000 + code % 100,
        300..=399 => 3000 + code % 100,
        401 | 407 | 415 | 420 | 484 => 4000 + code % 100,
        400..=499 => 4100 + code % 100,
        500..=599 => 5000 + code % 100,
        _ => 10_000 + code,
    }
}

/// A final of 300 and above.
#[derive(Debug)]
pub(super) struct Final<R> {
    /// Its status; that of a branch which said nothing was made here.
    pub(super) code: u16,
    /// The reply, where one was received.
    pub(super) reply: Option<R>,
    /// The branch waited long enough.
    pub(super) timed_out: bool,
}

/// One branch.
#[derive(Debug)]
enum Branch<R> {
    /// It was sent and has no final.
    Open { id: CandidateId, cancelled: bool },
    /// Its final.
    Failed(Final<R>),
    /// It has a 2xx.
    Answered(u16),
    /// Its final counts no more, or it was never sent.
    Gone,
}

/// What becomes of the finals of earlier legs once there is another (`t_drop_replies`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// None counts (R94).
    Nothing,
    /// Those of the last leg do not count.
    AllButLast,
    /// All count.
    All,
}

/// How a leg came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Not yet.
    Open,
    /// A 2xx: the fork is over.
    Answered,
    /// All have failed; this branch's final goes up, or another leg follows.
    Failed(u16),
    /// None could be sent, and no final of an earlier leg counts.
    Nothing,
}

/// What goes up once all have failed.
#[derive(Debug)]
pub(super) enum Winner<R> {
    /// The reply as it came.
    Reply(u16, u16, R),
    /// The challenges of several branches (R76).
    Challenges(u16, Vec<R>),
    /// What was made here, with this status.
    Made(u16),
}

/// All branches of a transaction.
#[derive(Debug)]
pub(super) struct Fork<R> {
    branches: SmallVec<[Branch<R>; 1]>,
    leg: Selection<u16, Rank>,
    /// The first branch of the leg.
    first: u16,
    outcome: Outcome,
    /// What the script said of the finals there are; without a word they count until another leg
    /// has been sent.
    keep: Option<Keep>,
    /// The winner of the legs before, whose finals count no more once this leg has one.
    before: Option<u16>,
    /// A 6xx of this leg: no further branches join it.
    refused: bool,
    prefer_real: bool,
}

impl<R> Fork<R> {
    /// Without branches. `prefer_real`: what was made here loses to what was received.
    pub(super) fn new(prefer_real: bool) -> Self {
        Self {
            branches: SmallVec::new(),
            leg: Selection::new(),
            first: 0,
            outcome: Outcome::Open,
            keep: None,
            before: None,
            refused: false,
            prefer_real,
        }
    }

    /// How many branches there are, of all legs: the index of the next one.
    pub(super) fn len(&self) -> u16 {
        self.branches.len() as u16
    }

    /// Adds a branch: to the leg that runs, or to another one behind a leg that has failed.
    /// `None` behind a 2xx or 6xx of the leg.
    pub(super) fn add(&mut self) -> Option<u16> {
        let branch = self.len();
        if branch == u16::MAX {
            return None;
        }
        match self.outcome {
            Outcome::Open if self.refused => return None,
            Outcome::Open => self.leg.reopen(),
            Outcome::Answered => return None,
            Outcome::Failed(_) | Outcome::Nothing => self.next_leg(),
        }
        let id = self.leg.start(branch).ok()?;
        self.branches.push(Branch::Open { id, cancelled: false });
        Some(branch)
    }

    fn next_leg(&mut self) {
        self.leg = Selection::new();
        self.before = match (self.keep.take(), self.outcome) {
            (None, Outcome::Failed(winner)) => Some(winner),
            (keep, _) => {
                let from = match keep {
                    Some(Keep::All) => self.len(),
                    Some(Keep::AllButLast) => self.first,
                    Some(Keep::Nothing) | None => 0,
                };
                self.forget(from);
                for rank in self.ranks() {
                    self.leg.note(rank);
                }
                None
            }
        };
        self.first = self.len();
        self.outcome = Outcome::Open;
        self.refused = false;
    }

    /// The ranks of the finals that count.
    fn ranks(&self) -> SmallVec<[Rank; 4]> {
        let rank = |(at, branch): (usize, &Branch<R>)| match branch {
            Branch::Failed(last) => Some(self.rank(at as u16, last)),
            _ => None,
        };
        self.branches.iter().enumerate().filter_map(rank).collect()
    }

    fn rank(&self, branch: u16, last: &Final<R>) -> Rank {
        Rank::new(self.prefer_real && last.reply.is_none(), last.code, branch)
    }

    /// The finals of the branches from this one on count no more.
    fn forget(&mut self, from: u16) {
        for branch in &mut self.branches[usize::from(from)..] {
            if !matches!(branch, Branch::Open { .. }) {
                *branch = Branch::Gone;
            }
        }
    }

    /// What becomes of the finals there are once another leg begins.
    pub(super) const fn keep(&mut self, keep: Keep) {
        self.keep = Some(keep);
    }

    /// The leg has all of its branches.
    pub(super) fn seal(&mut self) {
        self.leg.no_more(Rank::UNSENT);
        self.settle(|_| ());
    }

    /// How the leg came out.
    pub(super) const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether the leg came to nothing, so that it is the failure before it which counts.
    pub(super) fn came_to_nothing(&self) -> bool {
        self.before.is_some_and(|winner| self.outcome == Outcome::Failed(winner))
    }

    /// How many branches of the leg have no final.
    pub(super) fn open(&self) -> usize {
        let leg = &self.branches[usize::from(self.first)..];
        leg.iter().filter(|branch| matches!(branch, Branch::Open { .. })).count()
    }

    /// Whether a provisional of this branch may go up.
    pub(super) fn may_ring(&self, branch: u16) -> bool {
        let branch = self.branches.get(usize::from(branch));
        matches!(branch, Some(Branch::Open { cancelled: false, .. }))
    }

    /// A branch has a 2xx. With the first one, branches that are open and were not cancelled go to
    /// `lost`.
    pub(super) fn answer(&mut self, branch: u16, code: u16, lost: impl FnMut(u16)) {
        let Some(place) = self.branches.get_mut(usize::from(branch)) else {
            return;
        };
        let before = std::mem::replace(place, Branch::Answered(code));
        if self.outcome == Outcome::Answered {
            return;
        }
        match before {
            Branch::Open { id, .. } => {
                self.leg.win(id);
            }
            // Its leg has failed and another one may run: that is over as well.
            _ => self.leg.cancel(Rank::UNSENT),
        }
        self.settle(lost);
        self.outcome = Outcome::Answered;
    }

    /// A branch has its final of 300 and above. `false` when it had one before.
    pub(super) fn fail(&mut self, branch: u16, last: Final<R>) -> bool {
        if self.outcome == Outcome::Open && self.before.take().is_some() {
            self.forget(0);
        }
        let rank = self.rank(branch, &last);
        self.end(branch, Branch::Failed(last), rank)
    }

    /// A branch could not be sent. `false` when it had a final before.
    pub(super) fn unsent(&mut self, branch: u16) -> bool {
        self.end(branch, Branch::Gone, Rank::UNSENT)
    }

    fn end(&mut self, branch: u16, end: Branch<R>, rank: Rank) -> bool {
        let Some(place) = self.branches.get_mut(usize::from(branch)) else {
            return false;
        };
        let Branch::Open { id, .. } = *place else {
            return false;
        };
        if self.outcome == Outcome::Open {
            *place = end;
            self.leg.fail(id, rank);
            self.settle(|_| ());
        } else {
            *place = Branch::Gone;
        }
        true
    }

    /// No branch is wanted any more, but the fork waits for the finals of those which are open;
    /// they go to `lost` unless they were cancelled before (R74).
    pub(super) fn cancel(&mut self, mut lost: impl FnMut(u16)) {
        for (branch, state) in self.branches.iter_mut().enumerate() {
            if let Branch::Open { cancelled, .. } = state
                && !std::mem::replace(cancelled, true)
            {
                lost(branch as u16);
            }
        }
    }

    /// A 6xx came: see [`Fork::cancel`]; and no branches join the leg.
    pub(super) fn refuse(&mut self, lost: impl FnMut(u16)) {
        self.refused = true;
        self.cancel(lost);
    }

    /// The fork is over: a final went up that is none of its own, or none will.
    pub(super) fn abandon(&mut self, lost: impl FnMut(u16)) {
        self.leg.cancel(Rank::UNSENT);
        self.settle(lost);
        self.outcome = Outcome::Answered;
        self.forget(0);
    }

    /// What goes up of a leg that has failed; the fork is over.
    pub(super) fn take(&mut self) -> Option<Winner<R>> {
        let Outcome::Failed(branch) = self.outcome else {
            return None;
        };
        self.outcome = Outcome::Answered;
        let place = self.branches.get_mut(usize::from(branch))?;
        let Branch::Failed(Final { code, reply, .. }) = std::mem::replace(place, Branch::Gone)
        else {
            return None;
        };
        let Some(reply) = reply else {
            self.forget(0);
            return Some(Winner::Made(code));
        };
        if !is_challenge(code) || !self.branches.iter().any(Branch::is_challenge) {
            self.forget(0);
            return Some(Winner::Reply(branch, code, reply));
        }
        let mut replies = Vec::new();
        let mut winner = Some(reply);
        for (at, state) in self.branches.iter_mut().enumerate() {
            if at == usize::from(branch) {
                replies.extend(winner.take());
            } else if state.is_challenge()
                && let Branch::Failed(last) = std::mem::replace(state, Branch::Gone)
            {
                replies.extend(last.reply);
            }
        }
        self.forget(0);
        Some(Winner::Challenges(code, replies))
    }

    /// The finals that count: branch, status, and whether it timed out.
    pub(super) fn finals(&self) -> impl Iterator<Item = (u16, u16, bool)> + '_ {
        let last = |(at, branch): (usize, &Branch<R>)| match branch {
            Branch::Failed(last) => Some((at as u16, last.code, last.timed_out)),
            Branch::Answered(code) => Some((at as u16, *code, false)),
            Branch::Open { .. } | Branch::Gone => None,
        };
        self.branches.iter().enumerate().filter_map(last)
    }

    /// The status of the final of this branch that counts.
    pub(super) fn code(&self, branch: u16) -> Option<u16> {
        match self.branches.get(usize::from(branch))? {
            Branch::Failed(last) => Some(last.code),
            _ => None,
        }
    }

    /// Takes what the selection has come to.
    fn settle(&mut self, mut lost: impl FnMut(u16)) {
        while let Some(event) = self.leg.poll() {
            match event {
                Event::Lost(_, branch) => {
                    if let Some(Branch::Open { cancelled, .. }) =
                        self.branches.get_mut(usize::from(branch))
                        && !std::mem::replace(cancelled, true)
                    {
                        lost(branch);
                    }
                }
                Event::Settled(Ok(_)) => self.outcome = Outcome::Answered,
                Event::Settled(Err(rank)) => {
                    self.outcome = match rank.branch().or(self.before) {
                        Some(branch) => Outcome::Failed(branch),
                        None => Outcome::Nothing,
                    };
                }
            }
        }
    }
}

impl<R> Branch<R> {
    const fn is_challenge(&self) -> bool {
        matches!(self, Self::Failed(Final { code, reply: Some(_), .. }) if is_challenge(*code))
    }
}

/// A status whose reply asks for credentials.
const fn is_challenge(code: u16) -> bool {
    matches!(code, 401 | 407)
}

#[cfg(test)]
mod tests;
