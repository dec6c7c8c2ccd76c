//! A candidate becomes part of its main line.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use lineway_wire::fisher::BODY_BYTES;
use lineway_wire::line::{Direction, FinishReason};

use super::Line;
use crate::descriptors::Permit;
use crate::fisher::{Handover, Outcome, Tenure};
use crate::line::end::End;
use crate::line::stage::Stages;
use crate::messages::{CandidateSays, DeadlineKind};
use crate::registry::LineState;
use crate::worker::timers;

impl Line {
    /// A candidate tells its maker; ignored once the choice is made.
    pub fn candidate_says(&mut self, says: CandidateSays) {
        if let End::Race(race) = &mut self.far {
            race.says(says);
        }
    }

    /// Lets candidates race, until one of them is chosen.
    pub(super) fn race(&mut self, now: Instant) {
        let End::Race(race) = &mut self.far else {
            return;
        };
        let begun = race.begin(self.view.id, !self.near.is_socket(), now);
        let established = race.take_est();
        let outcome = race.poll(now);
        if let Some(deadline) = begun {
            self.watch(DeadlineKind::Selection, deadline);
        }
        if established && !self.near.is_mux() {
            self.tell_est();
        }
        let Some(outcome) = outcome else {
            return;
        };
        if matches!(self.deadline.watched, Some((DeadlineKind::Selection, _))) {
            self.unwatch();
        }
        match outcome {
            Outcome::Won(handover) => self.join(*handover),
            Outcome::Failed(reason) => {
                self.over.get_or_insert(reason);
            }
        }
    }

    /// Takes over what the winner holds: from here on it is a line like any other (C19, C20).
    fn join(&mut self, handover: Handover) {
        let Handover { far, onward, stages, queues: [unsent, mut body], input_ended, tenure } =
            handover;
        if let End::Race(mut race) = std::mem::replace(&mut self.far, far) {
            race.given_up(FinishReason::PeerFinished);
        }
        self.move_in();
        self.onward = onward;
        self.idle.begins(timers::now());
        tenure.adopted_by(self.view.id);
        let first = self.stages.len();
        self.stages.append(stages);
        // C16, C18: until what waits has left, it is not the marks that count.
        if !self.flows[Direction::Upstream as usize].queue.is_empty() {
            self.hold(Direction::Upstream);
        }
        if !body.is_empty() {
            self.hold(Direction::Downstream);
        }
        // C17: what the candidate has not sent, then what waited for the choice, in order.
        let mut waited =
            std::mem::replace(&mut self.flows[Direction::Upstream as usize].queue, unsent);
        if !waited.is_empty() {
            let pool = &self.worker.pool;
            let given = self.stages.payload_from(
                Direction::Upstream,
                self.stages.at(first),
                &mut waited,
                pool,
            );
            self.absorb(given);
        }
        if self.ends.has_ended(Direction::Upstream) {
            let given = self.stages.input_ended_from(
                Direction::Upstream,
                self.stages.at(first),
                &self.worker.pool,
            );
            self.absorb(given);
        }
        if body.len() > BODY_BYTES {
            self.over.get_or_insert(FinishReason::Overflow);
            body.clear(&self.worker.pool);
        }
        let above = first.checked_sub(1);
        if !body.is_empty() {
            let pool = &self.worker.pool;
            let given = self.stages.payload_from(Direction::Downstream, above, &mut body, pool);
            self.absorb(given);
        }
        if input_ended {
            self.ends.input_ended(Direction::Downstream);
            let given =
                self.stages.input_ended_from(Direction::Downstream, above, &self.worker.pool);
            self.absorb(given);
        }
        self.winner = Some(Box::new(tenure));
        self.view.set_state(LineState::Open);
        if self.near.is_mux() {
            // Its Opens wait for the choice: what a race that fails has got is not sent (M14, M15).
            self.tell_est();
        }
        for direction in Direction::ALL {
            self.mind_the_water(direction);
        }
    }

    /// True while bytes of both directions can be delivered.
    pub fn carries(&self) -> bool {
        Direction::ALL.into_iter().all(|direction| self.ends.delivers(direction))
    }

    /// Gives away all that the line holds but its near end; its owner ends it then.
    pub fn hand_over(&mut self, descriptor: Option<Permit>) -> Handover {
        self.unwatch();
        self.disarm();
        let queues = Direction::ALL.map(|d| std::mem::take(&mut self.flows[d as usize].queue));
        self.publish();
        self.closed = true;
        let (worker, chain) = (Rc::clone(&self.worker), Rc::clone(&self.chain));
        let view = Arc::clone(&self.view);
        Handover {
            far: std::mem::replace(&mut self.far, End::Waiting),
            onward: Rc::clone(&self.onward),
            stages: std::mem::take(&mut self.stages),
            queues,
            input_ended: self.ends.has_ended(Direction::Downstream),
            tenure: Tenure::new(worker, chain, view, descriptor, self.winner.take()),
        }
    }

    /// True once the line has given away what it held, or was closed.
    pub const fn handed_over(&self) -> bool {
        self.closed && self.over.is_none()
    }

    /// Ends a candidate, which owes nobody anything (C15).
    pub fn give_up(&mut self, reason: FinishReason) {
        self.far.end_now();
        self.over.get_or_insert(reason);
    }
}

impl Stages {
    /// The place of a stage, `None` behind the last.
    fn at(&self, place: usize) -> Option<usize> {
        Some(place).filter(|place| *place < self.len())
    }
}
