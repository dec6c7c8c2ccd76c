//! When the source of a direction is stopped, and when it goes on (T04, L06).

use lineway_wire::line::{Direction, Edge, FinishReason, PauseReason};

use super::Line;
use crate::line::end::End;

impl Line {
    /// Stops the source of a direction, or lets it go on, by what waits.
    pub(super) fn mind_the_water(&mut self, direction: Direction) {
        let flow = &mut self.flows[direction as usize];
        if direction == Direction::Upstream
            && let End::Race(race) = &mut self.far
        {
            if race.waits(flow.queue.len(), flow.queue.buffers()).is_err() {
                self.over.get_or_insert(FinishReason::Overflow);
            }
            if !flow.queue.is_empty() {
                // C06: the first payload that waits stops its source.
                self.hold(direction);
            }
            return;
        }
        let sink = match direction {
            Direction::Upstream => &self.far,
            Direction::Downstream => &self.near,
        };
        if sink.has_queue() && !flow.queue.is_empty() {
            // Its own queue is full, which is all that may wait: what stands about gets cold.
            return self.hold(direction);
        }
        let _: Option<Edge> = flow.water.level(flow.queue.len());
        if flow.water.is_stopped() || sink.stops_reading() {
            self.stop_for_queue(direction);
        } else if flow.paused.holds(PauseReason::Queue) {
            flow.paused.resume(PauseReason::Queue);
            self.source(direction).pause(false);
        }
    }

    /// Stops the source of a direction until all that waits in it has left.
    pub(super) fn hold(&mut self, direction: Direction) {
        self.flows[direction as usize].water.stop_until_empty();
        self.stop_for_queue(direction);
    }

    /// What comes from the source is not taken at the moment.
    fn stop_for_queue(&mut self, direction: Direction) {
        if self.stop(direction, PauseReason::Queue) {
            self.source(direction).pause(true);
        }
    }

    /// The source is not read for this reason. True if it did not hold before.
    pub(super) fn stop(&mut self, direction: Direction, reason: PauseReason) -> bool {
        let paused = &mut self.flows[direction as usize].paused;
        if paused.holds(reason) {
            return false;
        }
        paused.pause(reason);
        self.chain.entry.metrics.paused(direction, reason);
        true
    }
}
