//! The actor of a line that another line made: a candidate of a fisher.

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
use crate::messages::{CandidateSays, Expired, Finish, Says, WatchAgain};
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

/// A candidate: one line from its probe to its outbound connection.
#[derive(Debug)]
pub struct ChildLine {
    line: Line,
    maker: Maker,
    descriptor: Option<Permit>,
    told_est: bool,
    /// Its maker knows how it ended, or ended it.
    over: bool,
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
        Self { line, maker, descriptor, told_est: false, over: false }
    }

    fn tell(&self, says: Says) {
        let Maker { line, candidate, .. } = self.maker;
        self.line.worker().tell_maker(line, CandidateSays { candidate, says });
    }

    /// One turn; `Ready` when the actor has nothing to do any more.
    fn turn(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let turn = self.line.turn(cx);
        let End::Fishing(fishing) = self.line.near() else {
            return Poll::Ready(());
        };
        let (established, proved, lost) =
            (fishing.is_established(), fishing.is_proved(), fishing.lost());
        let tells = self.maker.wants_est && established;
        if tells && !std::mem::replace(&mut self.told_est, true) {
            self.tell(Says::Est);
        }
        if proved && !self.over && turn.is_pending() && self.line.carries() {
            let handover = self.line.hand_over(self.descriptor.take());
            self.maker.berth.replace(Some(handover));
            self.tell(Says::Proved);
            self.over = true;
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
        if !std::mem::replace(&mut self.over, true) {
            self.tell(Says::Lost(why, reason));
        }
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
        std::task::ready!(actor.turn(cx));
        ctx.stop();
        Poll::Ready(())
    }
}

// The pump is polled behind every message, so a handler only notes what it was told.

impl Handler<Finish> for ChildLine {
    type Result = ();

    fn handle(&mut self, finish: Finish, _: &mut Self::Context) {
        // Its maker knows; an operator has not told it.
        self.over |= finish.reason != FinishReason::Admin;
        self.line.give_up(finish.reason);
    }
}

impl Handler<CandidateSays> for ChildLine {
    type Result = ();

    fn handle(&mut self, says: CandidateSays, _: &mut Self::Context) {
        self.line.candidate_says(says);
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
