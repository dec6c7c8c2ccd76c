//! Answers every request with its own parts, and sends DATA back.

use std::time::Instant;

use crate::zmp::core::{Core, Received};

use super::counters::{Counters, Status};
use super::outbox::{Answer, Limits, Outbox, Via};

/// The EchoServer behind a RouterSocket.
///
/// What a client has not read yet keeps its charge on that client's link: one that does not read is
/// not read any further, and holds up nobody else.
#[derive(Debug)]
pub struct Echo {
    outbox: Outbox,
    stopping: Option<Instant>,
    counters: Counters,
}

impl Default for Echo {
    fn default() -> Self {
        let limits = Limits { each: u64::MAX, all: u64::MAX };
        Self { outbox: Outbox::new(limits), stopping: None, counters: Counters::default() }
    }
}

impl Echo {
    /// One step at the RouterSocket, with up to `budget` records. True when that was not all.
    pub fn step(&mut self, now: Instant, router: &mut Core, budget: usize) -> bool {
        let patience = router.options().request_timeout;
        let mut via = Via { now, core: router, counters: &mut self.counters };
        let more = self.outbox.rooms(&mut via, budget, |_| {});
        self.outbox.look(&mut via, patience, |_| {});
        if let Some(deadline) = self.stopping {
            if deadline <= now {
                self.outbox.abandon_all(&mut via);
            }
            return more;
        }
        for _ in 0..budget {
            let Some((received, held)) = via.core.recv_held() else { return more };
            let Received { from, record, reply } = received;
            let Some(client) = from else {
                via.release(Some(held));
                continue;
            };
            via.counters.requests += u64::from(reply.is_some());
            let answer = match reply {
                Some(reply) => Answer::Reply(reply, record),
                None => Answer::Data(record),
            };
            self.outbox.give(&mut via, &client, answer, Some(held));
        }
        true
    }

    /// When a step is due, whatever happens until then.
    pub fn next_deadline(&self) -> Option<Instant> {
        let stop = self.stopping.filter(|_| !self.is_over());
        [self.outbox.next_look(), stop].into_iter().flatten().min()
    }

    /// Takes nothing more. What was taken is answered until `deadline`.
    pub fn stop(&mut self, deadline: Instant) {
        self.stopping = Some(self.stopping.map_or(deadline, |before| before.min(deadline)));
    }

    /// It was stopped, and owes nothing any more.
    pub fn is_over(&self) -> bool {
        self.stopping.is_some() && self.outbox.len() == 0
    }

    /// Counters, and how it stands.
    pub fn status(&self) -> Status {
        Status {
            counters: self.counters,
            waiting_answers: self.outbox.len(),
            waiting_charge: self.outbox.charge(),
            draining: self.stopping.is_some(),
            ..Status::default()
        }
    }
}

#[cfg(test)]
mod tests;
