//! The kit of these tests: a supervisor with one worker that the test plays.

mod again;
mod deadlines;
mod full;
mod leases;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use lineway_wire::line::{FinishReason, LineKind};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::{Supervisor, SupervisorHandle, now, start};
use crate::health::Health;
use crate::messages::{
    ActorName, Attach, CidLease, CidLeaseBatch, Closed, DeadlineKind, Expired, ExpiredBatch,
    LeaseCids, Report, Reports, Snapshot, StartAgain, Unwatch, Watch, WatchAgain,
};
use crate::metrics::{ActorKind, Metrics, SupervisorMetrics};
use crate::registry::{LineId, LineView, Registry};
use crate::spawn;

/// Makes the supervisor panic.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Explode;

impl Handler<Explode> for Supervisor {
    type Result = ();

    fn handle(&mut self, _: Explode, _: &mut Self::Context) {
        panic!("of this test");
    }
}

/// What a worker heard.
#[derive(Debug, PartialEq)]
enum Heard {
    Expired(Vec<Expired>),
    Leases(Vec<CidLease>),
    WatchAgain,
    StartAgain(ActorName),
}

/// What a worker answers to `WatchAgain`.
#[derive(Default)]
struct Truth {
    lines: Vec<Arc<LineView>>,
    deadlines: Vec<Watch>,
    leases: Vec<LeaseCids>,
}

/// Plays the worker.
struct Worker {
    index: u16,
    tell: UnboundedSender<Heard>,
    truth: Rc<RefCell<Truth>>,
    supervisor: SupervisorHandle,
}

impl Actor for Worker {
    type Context = Context<Self>;
}

impl Handler<ExpiredBatch> for Worker {
    type Result = ();

    fn handle(&mut self, batch: ExpiredBatch, _: &mut Self::Context) {
        let _ = self.tell.send(Heard::Expired(batch.expired));
    }
}

impl Handler<CidLeaseBatch> for Worker {
    type Result = ();

    fn handle(&mut self, batch: CidLeaseBatch, _: &mut Self::Context) {
        let _ = self.tell.send(Heard::Leases(batch.leases));
    }
}

impl Handler<WatchAgain> for Worker {
    type Result = ();

    fn handle(&mut self, _: WatchAgain, _: &mut Self::Context) {
        let truth = self.truth.borrow();
        self.supervisor.snapshot(Snapshot {
            worker: self.index,
            lines: truth.lines.clone(),
            deadlines: truth.deadlines.clone(),
            leases: truth.leases.clone(),
        });
        let _ = self.tell.send(Heard::WatchAgain);
    }
}

impl Handler<StartAgain> for Worker {
    type Result = ();

    fn handle(&mut self, again: StartAgain, _: &mut Self::Context) {
        let _ = self.tell.send(Heard::StartAgain(again.actor));
    }
}

/// A supervisor with one attached worker.
struct House {
    supervisor: SupervisorHandle,
    metrics: Metrics,
    health: Health,
    registry: Registry,
    heard: UnboundedReceiver<Heard>,
    truth: Rc<RefCell<Truth>>,
}

impl House {
    fn new() -> Self {
        let (metrics, registry) = (Metrics::new("1"), Registry::new());
        let health = Health::new(0, now());
        let supervisor = start(registry.clone(), metrics.clone(), health.clone());
        let (heard, truth) = attach(&supervisor, &metrics, 0);
        Self { supervisor, metrics, health, registry, heard, truth }
    }

    fn send(&self, reports: Vec<Report>) {
        self.supervisor.report(Reports { worker: 0, reports }).expect("it has room");
    }

    fn counts(&self) -> &SupervisorMetrics {
        self.metrics.supervisor()
    }

    /// Pending, set, fired and cancelled deadlines.
    fn deadlines(&self) -> [u64; 4] {
        let counts = self.counts().deadlines(DeadlineKind::Connect);
        let pending = u64::try_from(counts.pending.get()).unwrap();
        assert_eq!(counts.set.get(), pending + counts.fired.get() + counts.cancelled.get());
        [pending, counts.set.get(), counts.fired.get(), counts.cancelled.get()]
    }

    /// Waits until the supervisor has handled what was sent.
    async fn settle(&self) {
        while self.supervisor.waiting() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// The worker heard nothing for so long.
    async fn silent(&mut self, time: Duration) {
        let heard = tokio::time::timeout(time, self.heard.recv()).await;
        assert!(heard.is_err(), "heard {heard:?}");
    }

    async fn hear(&mut self) -> Heard {
        self.heard.recv().await.unwrap()
    }

    /// Makes the supervisor panic and waits for the next one.
    async fn explode(&mut self) {
        self.supervisor.supervisor().unwrap().do_send(Explode);
        assert_eq!(self.hear().await, Heard::WatchAgain);
        self.settle().await;
    }
}

fn attach(
    supervisor: &SupervisorHandle,
    metrics: &Metrics,
    index: u16,
) -> (UnboundedReceiver<Heard>, Rc<RefCell<Truth>>) {
    let (tell, heard) = unbounded_channel();
    let truth: Rc<RefCell<Truth>> = Rc::default();
    let worker = Worker { index, tell, truth: Rc::clone(&truth), supervisor: supervisor.clone() };
    let worker = spawn::start(ActorKind::Worker, metrics.actors(), |_| worker, |_| ());
    supervisor.attach(Attach {
        worker: index,
        expired: worker.clone().recipient(),
        leases: worker.clone().recipient(),
        again: worker.clone().recipient(),
        restart: worker.recipient(),
    });
    (heard, truth)
}

fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    LocalSet::new().block_on(&runtime.unwrap(), test);
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn id(number: u64) -> LineId {
    LineId { worker: 0, number }
}

fn line(id: LineId) -> Arc<LineView> {
    Arc::new(LineView::new(id, LineKind::Main, Arc::from("in"), None, None))
}

fn opened(number: u64) -> Report {
    Report::Opened(line(id(number)))
}

fn closed(number: u64) -> Report {
    Report::Closed(Closed { id: id(number), reason: FinishReason::PeerFinished })
}

fn deadline(number: u64, generation: u32, after: Duration) -> Watch {
    let kind = DeadlineKind::Connect;
    Watch { id: id(number), generation, kind, deadline: now() + after }
}

fn watch(number: u64, generation: u32, after: Duration) -> Report {
    Report::Watch(deadline(number, generation, after))
}

fn unwatch(number: u64, generation: u32) -> Report {
    Report::Unwatch(Unwatch { id: id(number), generation })
}

fn expired(numbers: &[u64]) -> Heard {
    Heard::Expired(numbers.iter().map(|n| Expired { id: id(*n), generation: 1 }).collect())
}

/// A parent that takes `most` children asks for cids.
fn lease(number: u64, most: u32) -> Report {
    Report::LeaseCids(LeaseCids { parent: id(number), most })
}
