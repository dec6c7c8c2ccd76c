//! The supervisor: one actor that watches all others and is never on the path of a payload.
//!
//! It keeps the deadlines of the lines, the registry of live lines, and starts long-lived actors
//! again when they ended by a panic. Workers speak to it through a [`SupervisorHandle`]:
//!
//! ```text
//! worker --- Reports (Opened, Closed, Watch, Unwatch, LeaseCids) -> supervisor
//!        <-- ExpiredBatch, CidLeaseBatch -------------------------
//!        <-- WatchAgain ------------------------------------------  after its own restart
//!        --- Snapshot ------------------------------------------->
//!        --- Died ----------------------------------------------->
//!        <-- StartAgain ------------------------------------------  after a delay
//! ```
//!
//! # What outlives it
//! A panic ends the actor and what it alone knew: the deadlines. It is started again with the same
//! shared state (registry, metrics, attached workers, actors to be started again), asks every
//! worker to watch again, and takes each answer as the whole truth about that worker. A handle
//! reaches whichever supervisor lives.
//!
//! # Memory
//! Its mailbox holds at most [`CAPACITY`] messages of reports; a sender gets one that does not fit
//! back, keeps it and comes again with the next turn ([`Outbox`]). A report speaks of a line, so
//! that deadlines and registry are bounded by the live lines.
//!
//! # Leases
//! `LeaseCids` of a mux parent is answered with a `CidLease`: the range of that parent's own cids
//! behind its mark (M08). The mark is on the parent's place in the registry, where it outlives the
//! supervisor, and is set before the answer leaves. So nothing is granted twice, and whatever dies
//! on the way, nothing is lost: the worker knows what its parents asked for. A request that no
//! supervisor has answered is part of its next [`Snapshot`]; an answer that did not come is found
//! by its mark.
//!
//! `NextEpoch` of a socket is one more lease to come, answered from the shared state with the
//! socket's own count, from 1.

mod backoff;
mod handle;
mod outbox;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Instant;

use actix::fut::ActorFuture;
use actix::prelude::*;
use lineway_wire::mux::lease_behind;
use lineway_wire::wheel::{Key, Wheel};
use tokio::time::{Instant as TokioInstant, Sleep};

pub(crate) use backoff::Backoff;
pub use handle::{CAPACITY, MAIN_THREAD, SupervisorHandle, start};
pub use outbox::Outbox;

use handle::{Deaths, Posted, Shared};

use crate::health::{BEAT, Beating};
use crate::messages::{
    ActorName, CidLease, CidLeaseBatch, DeadlineKind, Expired, ExpiredBatch, LeaseCids, Report,
    Reports, Snapshot, StartAgain, Unwatch, Watch, WatchAgain,
};
use crate::metrics::SupervisorMetrics;
use crate::registry::LineId;
use crate::worker::timers::now;

/// The actor.
struct Supervisor {
    shared: Arc<Shared>,
    life: Life,
    metrics: SupervisorMetrics,
    wheel: Wheel<Due>,
    deadlines: HashMap<LineId, Deadline>,
    /// Lines that a batch says to have ended, and whether it also says that they were made.
    ended: HashMap<LineId, bool>,
    fired: Vec<Due>,
}

/// Whether there was a supervisor before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    First,
    Later,
}

/// What the wheel says when its time has come.
enum Due {
    Deadline(Expired),
    StartAgain(ActorName),
    Beat,
}

/// The deadline of a line.
struct Deadline {
    generation: u32,
    kind: DeadlineKind,
    key: Key,
}

impl Supervisor {
    fn new(shared: Arc<Shared>, life: Life) -> Self {
        Self {
            life,
            metrics: shared.metrics.supervisor().clone(),
            shared,
            wheel: Wheel::new(now()),
            deadlines: HashMap::new(),
            ended: HashMap::new(),
            fired: Vec::new(),
        }
    }

    /// Takes a batch in order. A line that was made and ended within it never reaches the
    /// registry, and its deadlines never reach the wheel.
    fn take(&mut self, batch: Reports) {
        self.metrics.reports.inc_by(batch.reports.len() as u64);
        let mut ended = std::mem::take(&mut self.ended);
        ended.extend(batch.reports.iter().filter_map(|report| match report {
            Report::Closed(closed) => Some((closed.id, false)),
            _ => None,
        }));
        let mut leases = Vec::new();
        for report in batch.reports {
            match report {
                Report::Opened(line) => match ended.get_mut(&line.id) {
                    Some(brief) => *brief = true,
                    None => self.shared.registry.insert(line),
                },
                Report::Closed(closed) => {
                    self.drop_deadline(closed.id);
                    let brief = ended.insert(closed.id, false) == Some(true);
                    if !brief && !self.shared.registry.remove(closed.id) {
                        self.metrics.stale.inc();
                    }
                }
                Report::Watch(watch) if ended.contains_key(&watch.id) => {
                    let counts = self.metrics.deadlines(watch.kind);
                    counts.set.inc();
                    counts.cancelled.inc();
                }
                Report::Watch(watch) => self.watch(watch),
                Report::Unwatch(unwatch) if ended.contains_key(&unwatch.id) => {}
                Report::Unwatch(unwatch) => self.unwatch(unwatch),
                Report::LeaseCids(ask) if ended.contains_key(&ask.parent) => {}
                Report::LeaseCids(ask) => leases.extend(self.lease(ask)),
            }
        }
        ended.clear();
        self.ended = ended;
        self.answer(batch.worker, leases);
    }

    fn watch(&mut self, watch: Watch) {
        self.drop_deadline(watch.id);
        let Watch { id, generation, kind, deadline } = watch;
        let counts = self.metrics.deadlines(kind);
        counts.set.inc();
        counts.pending.inc();
        let key = self.wheel.insert(deadline, Due::Deadline(Expired { id, generation }));
        self.deadlines.insert(id, Deadline { generation, kind, key });
    }

    fn unwatch(&mut self, unwatch: Unwatch) {
        match self.deadlines.get(&unwatch.id) {
            // An older one is over as well: its successor was thinned out of a kept batch.
            Some(deadline) if deadline.generation <= unwatch.generation => {
                self.drop_deadline(unwatch.id);
            }
            _ => self.metrics.stale.inc(),
        }
    }

    /// Forgets the deadline of a line, if it has one.
    fn drop_deadline(&mut self, id: LineId) {
        if let Some(deadline) = self.deadlines.remove(&id) {
            self.wheel.cancel(deadline.key);
            let counts = self.metrics.deadlines(deadline.kind);
            counts.pending.dec();
            counts.cancelled.inc();
        }
    }

    /// Grants a lease (M08): `None` when the parent is gone, or has every number that it may use.
    fn lease(&self, ask: LeaseCids) -> Option<CidLease> {
        let granted = self.shared.registry.get(ask.parent).and_then(|parent| {
            let (first, last) = lease_behind(parent.cids_leased(), ask.most)?;
            parent.set_cids_leased(last);
            self.metrics.cids_leased.inc_by(u64::from(last - first) + 1);
            Some(CidLease { parent: ask.parent, first, last })
        });
        if granted.is_none() {
            self.metrics.stale.inc();
        }
        granted
    }

    /// Sends a worker what its parents were granted. The marks stand already: a worker whose actor
    /// is started again at this moment finds by them what was sent to the one before.
    fn answer(&self, worker: u16, leases: Vec<CidLease>) {
        if !leases.is_empty()
            && let Some(attached) = self.shared.attached(worker)
        {
            attached.leases.do_send(CidLeaseBatch { leases });
        }
    }

    /// Takes a worker's word as the whole truth about that worker.
    fn replace(&mut self, truth: Snapshot) {
        let lines: HashMap<_, _> = truth.lines.into_iter().map(|line| (line.id, line)).collect();
        self.shared
            .registry
            .retain(|line| line.id.worker != truth.worker || lines.contains_key(&line.id));
        for line in lines.into_values() {
            self.shared.registry.insert(line);
        }
        let of_worker = |id: &&LineId| id.worker == truth.worker;
        let before: Vec<LineId> = self.deadlines.keys().filter(of_worker).copied().collect();
        for id in before {
            self.drop_deadline(id);
        }
        for watch in truth.deadlines {
            self.watch(watch);
        }
        let leases = truth.leases.into_iter().filter_map(|ask| self.lease(ask)).collect();
        self.answer(truth.worker, leases);
    }

    /// Does what is due.
    fn expire(&mut self) {
        let now = now();
        let mut fired = std::mem::take(&mut self.fired);
        self.wheel.expire(now, &mut fired);
        let mut batches: HashMap<u16, Vec<Expired>> = HashMap::new();
        for due in fired.drain(..) {
            match due {
                Due::Deadline(expired) => {
                    if let Some(deadline) = self.deadlines.remove(&expired.id) {
                        let counts = self.metrics.deadlines(deadline.kind);
                        counts.pending.dec();
                        counts.fired.inc();
                        batches.entry(expired.id.worker).or_default().push(expired);
                    }
                }
                Due::StartAgain(actor) => self.start_again(actor, now),
                Due::Beat => self.beat(now),
            }
        }
        self.fired = fired;
        for (worker, expired) in batches {
            if let Some(attached) = self.shared.attached(worker) {
                attached.expired.do_send(ExpiredBatch { expired });
            }
        }
    }

    fn beat(&mut self, now: Instant) {
        self.shared.health.beat(Beating::Supervisor, now);
        self.wheel.insert(now + BEAT, Due::Beat);
    }

    /// Sets the times at which those that died are started again.
    fn take_deaths(&mut self) {
        let now = now();
        for (at, actor) in self.shared.plan_restarts(now) {
            self.wheel.insert(at, Due::StartAgain(actor));
        }
    }

    fn start_again(&mut self, actor: ActorName, now: Instant) {
        if !self.shared.restart_is_due(&actor, now) {
            return;
        }
        let Some(attached) = self.shared.attached(actor.worker) else {
            // Nobody is there to start it: later.
            self.shared.died(actor);
            return self.take_deaths();
        };
        tracing::info!(
            kind = actor.kind.as_str(),
            node = actor.node.as_deref(),
            worker = actor.worker,
            "starting an actor again"
        );
        self.shared.metrics.actors().kind(actor.kind).restarted();
        attached.restart.do_send(StartAgain { actor });
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // What a former supervisor watched is gone with it.
        for kind in DeadlineKind::ALL {
            let counts = self.metrics.deadlines(kind);
            counts.cancelled.inc_by(counts.pending.get().max(0).cast_unsigned());
            counts.pending.set(0);
        }
        self.beat(now());
        for (at, actor) in self.shared.pending_restarts() {
            self.wheel.insert(at, Due::StartAgain(actor));
        }
        self.take_deaths();
        if self.life == Life::Later {
            for attached in self.shared.all_attached() {
                attached.again.do_send(WatchAgain);
            }
        }
        ctx.spawn(Timer { sleep: Box::pin(tokio::time::sleep_until(TokioInstant::now())) });
    }
}

impl Handler<Posted<Reports>> for Supervisor {
    type Result = ();

    fn handle(&mut self, posted: Posted<Reports>, _: &mut Self::Context) {
        self.take(posted.message);
        // The timer is polled when the mailbox is empty, and deadlines can not wait for that.
        self.expire();
    }
}

impl Handler<Posted<Snapshot>> for Supervisor {
    type Result = ();

    fn handle(&mut self, posted: Posted<Snapshot>, _: &mut Self::Context) {
        self.replace(posted.message);
    }
}

impl Handler<Posted<Deaths>> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: Posted<Deaths>, _: &mut Self::Context) {
        self.take_deaths();
    }
}

/// The actor's one timer: polled after each of its messages, it sleeps until the wheel's next tick.
struct Timer {
    sleep: Pin<Box<Sleep>>,
}

impl ActorFuture<Supervisor> for Timer {
    type Output = ();

    fn poll(
        mut self: Pin<&mut Self>,
        actor: &mut Supervisor,
        _: &mut Context<Supervisor>,
        task: &mut task::Context<'_>,
    ) -> Poll<()> {
        loop {
            // The beat is always set, so that there always is a next tick.
            let wake = actor.wheel.next_wake().map_or_else(TokioInstant::now, TokioInstant::from);
            // A sleep that is too short only wakes once more.
            if wake < self.sleep.deadline() || self.sleep.is_elapsed() {
                self.sleep.as_mut().reset(wake);
            }
            if self.sleep.as_mut().poll(task).is_pending() {
                return Poll::Pending;
            }
            actor.expire();
        }
    }
}

#[cfg(test)]
mod tests;
