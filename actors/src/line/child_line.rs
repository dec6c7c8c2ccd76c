//! The actor of a line that another line made: a candidate of a fisher, or a child that the peer of
//! a parent opened.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use actix::fut::ActorFuture;
use actix::prelude::*;
use lineway_wire::fisher::Loss;
use lineway_wire::line::FinishReason;
use lineway_wire::select::CandidateId;

use super::core::{Line, LineParts};
use super::end::End;
use crate::descriptors::Permit;
use crate::fisher::Berth;
use crate::messages::{CandidateSays, Expired, Finish, ParentSays, Says, WatchAgain};
use crate::registry::LineId;
use crate::worker::Worker;

/// Who made a candidate, and where it leaves what it hands over.
#[derive(Debug)]
pub struct Maker {
    /// The main line.
    pub line: LineId,
    /// The candidate's number there.
    pub candidate: CandidateId,
    /// What the main line takes when the candidate wins.
    pub berth: Berth,
    /// Somebody waits for `Est`; a client's connection does not.
    pub wants_est: bool,
}

/// One line from its maker to its outbound connection.
#[derive(Debug)]
pub struct ChildLine {
    line: Line,
    role: Role,
    descriptor: Option<Permit>,
}

#[derive(Debug)]
enum Role {
    /// It races for its main line.
    Candidate {
        maker: Box<Maker>,
        told_est: bool,
        /// Its maker knows how it ended, or ended it.
        over: bool,
    },
    /// It came from a parent, which hears of its end through its near end.
    Stream,
}

impl ChildLine {
    /// A candidate of these parts.
    pub fn new(
        worker: &Rc<Worker>,
        parts: LineParts,
        maker: Maker,
        descriptor: Option<Permit>,
    ) -> Self {
        let line = Line::new(worker, parts);
        let role = Role::Candidate { maker: Box::new(maker), told_est: false, over: false };
        Self { line, role, descriptor }
    }

    /// A child that the peer of a parent opened (M17).
    pub fn of_parent(worker: &Rc<Worker>, parts: LineParts, descriptor: Option<Permit>) -> Self {
        Self { line: Line::new(worker, parts), role: Role::Stream, descriptor }
    }

    /// One turn; `Ready` when the actor has nothing to do any more.
    fn turn(
        &mut self,
        home: impl Fn() -> Recipient<ParentSays>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        let turn = self.line.turn_at(home, cx);
        let Role::Candidate { maker, told_est, over } = &mut self.role else {
            let reason = std::task::ready!(turn);
            self.line.close(reason);
            return Poll::Ready(());
        };
        let End::Fishing(fishing) = self.line.near() else {
            return Poll::Ready(());
        };
        let (established, proved, lost) =
            (fishing.is_established(), fishing.is_proved(), fishing.lost());
        let worker = Rc::clone(self.line.worker());
        let tells = maker.wants_est && established;
        if tells && !std::mem::replace(told_est, true) {
            maker.tell(&worker, Says::Est);
        }
        if proved && !*over && turn.is_pending() && self.line.carries() {
            // What a parent says to it is for the main line from here on.
            if self.line.lives_on_parent()
                && let Some(home) = worker.home(maker.line)
            {
                self.line.move_home(&home);
            }
            let handover = self.line.hand_over(self.descriptor.take());
            maker.berth.replace(Some(handover));
            maker.tell(&worker, Says::Proved);
            *over = true;
            return Poll::Ready(());
        }
        let reason = match turn {
            Poll::Ready(reason) => reason,
            Poll::Pending if lost.is_some() || proved => FinishReason::PeerFinished,
            Poll::Pending => return Poll::Pending,
        };
        self.line.close(reason);
        self.lost(lost.unwrap_or(Loss::Closed), reason);
        Poll::Ready(())
    }

    fn lost(&mut self, why: Loss, reason: FinishReason) {
        if let Role::Candidate { maker, over, .. } = &mut self.role
            && !std::mem::replace(over, true)
        {
            maker.tell(self.line.worker(), Says::Lost(why, reason));
        }
    }
}

impl Maker {
    fn tell(&self, worker: &Worker, says: Says) {
        worker.tell_maker(self.line, CandidateSays { candidate: self.candidate, says });
    }
}

impl Actor for ChildLine {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Pump);
    }
}

impl Drop for ChildLine {
    fn drop(&mut self) {
        // Not told before: its actor panicked.
        self.lost(Loss::Closed, FinishReason::Panic);
        if !self.line.handed_over() {
            self.line.worker().line_gone(self.line.view().id);
        }
    }
}

struct Pump;

impl ActorFuture<ChildLine> for Pump {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut ChildLine,
        ctx: &mut Context<ChildLine>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        std::task::ready!(actor.turn(|| ctx.address().recipient(), cx));
        ctx.stop();
        Poll::Ready(())
    }
}

// The pump is polled behind every message, so a handler only notes what it was told.

impl Handler<Finish> for ChildLine {
    type Result = ();

    fn handle(&mut self, finish: Finish, _: &mut Self::Context) {
        match &mut self.role {
            Role::Candidate { over, .. } => {
                // Its maker knows; an operator has not told it.
                *over |= finish.reason != FinishReason::Admin;
                self.line.give_up(finish.reason);
            }
            Role::Stream => self.line.finish(finish.reason),
        }
    }
}

impl Handler<CandidateSays> for ChildLine {
    type Result = ();

    fn handle(&mut self, says: CandidateSays, _: &mut Self::Context) {
        self.line.candidate_says(says);
    }
}

impl Handler<ParentSays> for ChildLine {
    type Result = ();

    fn handle(&mut self, says: ParentSays, _: &mut Self::Context) {
        self.line.parent_says(says);
    }
}

impl Handler<Expired> for ChildLine {
    type Result = ();

    fn handle(&mut self, expired: Expired, _: &mut Self::Context) {
        self.line.expired(expired.generation);
    }
}

impl Handler<WatchAgain> for ChildLine {
    type Result = ();

    fn handle(&mut self, _: WatchAgain, _: &mut Self::Context) {
        self.line.watch_again();
    }
}
