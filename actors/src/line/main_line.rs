//! The actor of a line that came from outside.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use actix::fut::ActorFuture;
use actix::prelude::*;

use super::core::{Line, LineParts};
use super::end::End;
use crate::descriptors::Permit;
use crate::listener::LineCount;
use crate::messages::{CandidateSays, Expired, Finish, ParentSays, WatchAgain};
use crate::worker::Worker;

/// A main line: one accepted connection or tester line, with both of its ends.
#[derive(Debug)]
pub struct MainLine {
    line: Line,
    /// Given back when the line is gone.
    _descriptors: Option<Permit>,
    _count: Option<LineCount>,
}

impl MainLine {
    /// A line of these parts.
    pub fn new(
        worker: &Rc<Worker>,
        parts: LineParts,
        descriptors: Option<Permit>,
        count: Option<LineCount>,
    ) -> Self {
        Self { line: Line::new(worker, parts), _descriptors: descriptors, _count: count }
    }

    /// The line.
    pub const fn line(&mut self) -> &mut Line {
        &mut self.line
    }
}

impl Actor for MainLine {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Pump);
    }
}

impl Drop for MainLine {
    fn drop(&mut self) {
        let worker = self.line.worker();
        worker.line_gone(self.line.view().id);
        if let End::TesterClient(tester) = self.line.near() {
            worker.board.testers.report(tester.outcome());
        }
    }
}

/// Moves the line's bytes whenever the actor is woken: by a socket, a timer or a message.
struct Pump;

impl ActorFuture<MainLine> for Pump {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut MainLine,
        ctx: &mut Context<MainLine>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        let turn = actor.line.turn_at(|| ctx.address().recipient(), cx);
        actor.line.close(std::task::ready!(turn));
        ctx.stop();
        Poll::Ready(())
    }
}

// The pump is polled behind every message, so a handler only notes what it was told.

impl Handler<Finish> for MainLine {
    type Result = ();

    fn handle(&mut self, finish: Finish, _: &mut Self::Context) {
        self.line.finish(finish.reason);
    }
}

impl Handler<CandidateSays> for MainLine {
    type Result = ();

    fn handle(&mut self, says: CandidateSays, _: &mut Self::Context) {
        self.line.candidate_says(says);
    }
}

impl Handler<ParentSays> for MainLine {
    type Result = ();

    fn handle(&mut self, says: ParentSays, _: &mut Self::Context) {
        self.line.parent_says(says);
    }
}

impl Handler<Expired> for MainLine {
    type Result = ();

    fn handle(&mut self, expired: Expired, _: &mut Self::Context) {
        self.line.expired(expired.generation);
    }
}

impl Handler<WatchAgain> for MainLine {
    type Result = ();

    fn handle(&mut self, _: WatchAgain, _: &mut Self::Context) {
        self.line.watch_again();
    }
}
