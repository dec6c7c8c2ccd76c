//! What a line has to do with parents: as a child of one, or as the line of one.

use std::sync::Arc;
use std::task::{Context, Poll};

use actix::{Addr, Recipient};
use lineway_wire::line::{Direction, FinishReason};

use super::Line;
use crate::line::end::End;
use crate::messages::ParentSays;
use crate::mux::{Heard, Mux, MuxParent, Stream};

impl Line {
    /// True until the parents on which it has a place know where to reach it.
    fn is_homeless(&mut self) -> bool {
        self.streams().any(|stream| stream.is_homeless())
    }

    /// One [turn](Self::turn) of a line whose actor is reached so. Parents hear of it before bytes
    /// move, also of a place on one that began in this very turn.
    pub fn turn_at(
        &mut self,
        home: impl Fn() -> Recipient<ParentSays>,
        cx: &mut Context<'_>,
    ) -> Poll<FinishReason> {
        loop {
            if self.is_homeless() {
                self.set_home(&home());
            }
            match self.turn(cx) {
                Poll::Pending if self.is_homeless() => {}
                turn => return turn,
            }
        }
    }

    /// What parents say is said to this actor.
    fn set_home(&mut self, home: &Recipient<ParentSays>) {
        let parent =
            self.streams().filter(|stream| stream.is_homeless()).fold(None, |_, stream| {
                stream.set_home(home.clone());
                Some(stream.parent_line())
            });
        if let Some(parent) = parent {
            self.view.set_parent(parent);
        }
    }

    /// True for a child of a mux.
    pub fn lives_on_parent(&mut self) -> bool {
        self.streams().next().is_some()
    }

    /// What parents say is said to another actor from here on.
    pub fn move_home(&mut self, home: &Recipient<ParentSays>) {
        self.streams().for_each(|stream| stream.set_home(home.clone()));
    }

    /// A parent says something; ignored if the child is not here.
    pub fn parent_says(&mut self, says: ParentSays) {
        let (direction, stream) = match (&mut self.near, &mut self.far) {
            (End::Stream(stream), _) if stream.is_meant(&says) => (Direction::Downstream, stream),
            (_, End::Stream(stream)) if stream.is_meant(&says) => (Direction::Upstream, stream),
            (_, End::Race(race)) => return race.parent_says(says),
            _ => return,
        };
        match stream.hear(says.says) {
            Heard::Nothing => {}
            Heard::Est => {
                self.view.set_parent(stream.parent_line());
                self.established();
            }
            Heard::Pause(reason) => {
                self.stop(direction, reason);
            }
            Heard::Resume(reason) => {
                self.flows[direction as usize].paused.resume(reason);
            }
            Heard::Closed => self.stream_closed(direction),
        }
    }

    /// Nothing can go to the parent any more.
    fn stream_closed(&mut self, direction: Direction) {
        self.flows[direction as usize].queue.clear(&self.worker.pool);
        self.ends.sink_broke(direction);
        self.discards |= direction == Direction::Upstream;
    }

    /// A winner's far end is here: what was said to it holds for this line.
    pub(super) fn move_in(&mut self) {
        if self.near.is_mux() {
            self.far.become_parent();
        }
        let End::Stream(stream) = &mut self.far else {
            return;
        };
        let (stopped, closed) = (stream.stopped(), stream.closed().is_some());
        self.view.set_parent(stream.parent_line());
        self.flows[Direction::Upstream as usize].paused.add(stopped);
        if closed {
            self.stream_closed(Direction::Upstream);
        }
    }

    /// The reason of a line that its parent ended.
    pub(super) fn reason_of_parent(&self, reason: FinishReason) -> FinishReason {
        let ended = |end: &End| match end {
            End::Stream(stream) => stream.closed(),
            _ => None,
        };
        let said = ended(&self.near).or_else(|| ended(&self.far));
        if reason == FinishReason::PeerFinished { said.unwrap_or(reason) } else { reason }
    }

    fn streams(&mut self) -> impl Iterator<Item = &mut Stream> {
        [&mut self.near, &mut self.far].into_iter().filter_map(|end| match end {
            End::Stream(stream) => Some(&mut **stream),
            _ => None,
        })
    }

    /// The ends where children stand, of a parent's line.
    pub fn muxes(&mut self) -> impl Iterator<Item = &mut Mux> {
        [&mut self.near, &mut self.far].into_iter().filter_map(|end| match end {
            End::Mux(mux) => Some(&mut **mux),
            _ => None,
        })
    }

    /// Takes these ends away, from a line that is over.
    pub fn take_muxes(&mut self) -> Vec<Box<Mux>> {
        let ends = [&mut self.near, &mut self.far];
        let taken = ends.into_iter().filter_map(|end| match std::mem::replace(end, End::Waiting) {
            End::Mux(mux) => Some(mux),
            other => {
                *end = other;
                None
            }
        });
        taken.collect()
    }

    /// Tells the ends where children stand which actor they are part of.
    pub fn settle_in(&mut self, home: impl Fn() -> Addr<MuxParent>) {
        let view = Arc::clone(&self.view);
        for mux in self.muxes().filter(|mux| mux.is_homeless()) {
            mux.set_home(home(), &view);
        }
    }

    /// Asks for leases of cids that run short (M08).
    pub fn mind_cids(&mut self) {
        let view = Arc::clone(&self.view);
        self.muxes().for_each(|mux| mux.mind_cids(&view));
    }

    /// True when the far side is up.
    pub const fn is_open(&self) -> bool {
        self.far.is_up()
    }
}
