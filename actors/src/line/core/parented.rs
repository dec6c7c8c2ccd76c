//! What a line has to do with parents: as a child of one, or as the line of one.

use actix::Recipient;
use lineway_wire::line::{Direction, FinishReason};

use super::{Line, become_parent};
use crate::line::end::End;
use crate::messages::ParentSays;
use crate::mux::{Heard, Mux, Stream};

impl Line {
    /// True until the parents on which it has a place know where to reach it.
    pub fn is_homeless(&mut self) -> bool {
        self.streams().any(|stream| stream.is_homeless())
    }

    /// What parents say is said to this actor.
    pub fn set_home(&mut self, home: &Recipient<ParentSays>) {
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
        let flow = &mut self.flows[direction as usize];
        match stream.hear(says.says) {
            Heard::Nothing => {}
            Heard::Est => {
                self.view.set_parent(stream.parent_line());
                self.established();
            }
            Heard::Pause(reason) => {
                if !flow.paused.holds(reason) {
                    flow.paused.pause(reason);
                    self.chain.entry.metrics.paused(direction, reason);
                }
            }
            Heard::Resume(reason) => {
                flow.paused.resume(reason);
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
        let is_mux = self.near.is_mux();
        match &mut self.far {
            End::Socket(socket) if is_mux => become_parent(socket),
            End::Stream(stream) => {
                let (stopped, closed) = (stream.stopped(), stream.closed().is_some());
                self.view.set_parent(stream.parent_line());
                self.flows[Direction::Upstream as usize].paused.add(stopped);
                if closed {
                    self.stream_closed(Direction::Upstream);
                }
            }
            _ => {}
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
        let taken = ends.into_iter().filter_map(|end| {
            if !end.is_mux() {
                return None;
            }
            match std::mem::replace(end, End::Waiting) {
                End::Mux(mux) => Some(mux),
                _ => None,
            }
        });
        taken.collect()
    }

    /// True when the far side is up.
    pub const fn is_open(&self) -> bool {
        self.far.is_up()
    }
}
