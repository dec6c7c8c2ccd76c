use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use lineway_wire::line::{FinishReason, LineKind};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

use super::{CAPACITY, Outbox, Supervisor, SupervisorHandle, TokioInstant, now, start};
use crate::health::{BEAT, Health};
use crate::messages::{
    ActorName, Attach, Closed, DeadlineKind, Died, Expired, ExpiredBatch, Report, Reports,
    Snapshot, StartAgain, Unwatch, Watch, WatchAgain,
};
use crate::metrics::{ActorKind, Metrics, SupervisorMetrics};
use crate::registry::{LineId, LineView, Registry};
use crate::spawn;

/// Makes the supervisor panic.
#[derive(Message)]
#[rtype(result = "()")]
struct Explode;

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
    WatchAgain,
    StartAgain(ActorName),
}

/// What a worker answers to `WatchAgain`.
#[derive(Default)]
struct Truth {
    lines: Vec<Arc<LineView>>,
    deadlines: Vec<Watch>,
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

impl Handler<WatchAgain> for Worker {
    type Result = ();

    fn handle(&mut self, _: WatchAgain, _: &mut Self::Context) {
        let truth = self.truth.borrow();
        self.supervisor.snapshot(Snapshot {
            worker: self.index,
            lines: truth.lines.clone(),
            deadlines: truth.deadlines.clone(),
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
        Self {
            supervisor,
            metrics,
            health,
            registry,
            heard,
            truth,
        }
    }

    fn send(&self, reports: Vec<Report>) {
        self.supervisor
            .report(Reports { worker: 0, reports })
            .expect("it has room");
    }

    fn counts(&self) -> &SupervisorMetrics {
        self.metrics.supervisor()
    }

    /// Pending, set, fired and cancelled deadlines.
    fn deadlines(&self) -> [u64; 4] {
        let counts = self.counts().deadlines(DeadlineKind::Connect);
        let pending = u64::try_from(counts.pending.get()).unwrap();
        assert_eq!(
            counts.set.get(),
            pending + counts.fired.get() + counts.cancelled.get()
        );
        [
            pending,
            counts.set.get(),
            counts.fired.get(),
            counts.cancelled.get(),
        ]
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
    let worker = Worker {
        index,
        tell,
        truth: Rc::clone(&truth),
        supervisor: supervisor.clone(),
    };
    let worker = spawn::start(ActorKind::Worker, metrics.actors(), |_| worker, |_| ());
    supervisor.attach(Attach {
        worker: index,
        expired: worker.clone().recipient(),
        again: worker.clone().recipient(),
        restart: worker.recipient(),
    });
    (heard, truth)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    LocalSet::new().block_on(&runtime.unwrap(), test);
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn id(number: u64) -> LineId {
    LineId { worker: 0, number }
}

fn line(id: LineId) -> Arc<LineView> {
    Arc::new(LineView::new(
        id,
        LineKind::Main,
        Arc::from("in"),
        None,
        None,
    ))
}

fn opened(number: u64) -> Report {
    Report::Opened(line(id(number)))
}

fn closed(number: u64) -> Report {
    Report::Closed(Closed {
        id: id(number),
        reason: FinishReason::PeerFinished,
    })
}

fn deadline(number: u64, generation: u32, after: Duration) -> Watch {
    let kind = DeadlineKind::Connect;
    Watch {
        id: id(number),
        generation,
        kind,
        deadline: now() + after,
    }
}

fn watch(number: u64, generation: u32, after: Duration) -> Report {
    Report::Watch(deadline(number, generation, after))
}

fn unwatch(number: u64, generation: u32) -> Report {
    Report::Unwatch(Unwatch {
        id: id(number),
        generation,
    })
}

fn expired(numbers: &[u64]) -> Heard {
    Heard::Expired(
        numbers
            .iter()
            .map(|n| Expired {
                id: id(*n),
                generation: 1,
            })
            .collect(),
    )
}

#[test]
fn a_deadline_comes_once_to_its_worker_at_its_time() {
    run(async {
        let mut house = House::new();
        let (mut other, _) = attach(&house.supervisor, &house.metrics, 7);
        let begin = TokioInstant::now();
        house.send(vec![
            watch(3, 1, ms(30)),
            watch(1, 1, ms(10)),
            watch(2, 1, ms(10)),
        ]);
        let theirs = LineId {
            worker: 7,
            number: 1,
        };
        let of_seven = Watch {
            id: theirs,
            ..deadline(1, 5, ms(10))
        };
        house
            .supervisor
            .report(Reports {
                worker: 7,
                reports: vec![Report::Watch(of_seven)],
            })
            .unwrap();
        let Heard::Expired(mut first) = house.hear().await else {
            panic!("no deadline")
        };
        assert_eq!(begin.elapsed(), ms(10));
        first.sort_unstable_by_key(|e| e.id);
        assert_eq!(Heard::Expired(first), expired(&[1, 2]));
        let seven = Heard::Expired(vec![Expired {
            id: theirs,
            generation: 5,
        }]);
        assert_eq!(other.recv().await, Some(seven));
        assert_eq!(house.hear().await, expired(&[3]));
        assert_eq!(begin.elapsed(), ms(30));
        assert_eq!(house.deadlines(), [0, 4, 4, 0]);
        house.silent(ms(10_000)).await;
    });
}

#[test]
fn an_earlier_deadline_that_is_set_later_comes_first() {
    run(async {
        let mut house = House::new();
        house.send(vec![watch(1, 1, ms(500))]);
        house.settle().await;
        house.send(vec![watch(2, 1, ms(5))]);
        let begin = TokioInstant::now();
        assert_eq!(house.hear().await, expired(&[2]));
        assert_eq!(begin.elapsed(), ms(5));
        assert_eq!(house.hear().await, expired(&[1]));
        assert_eq!(begin.elapsed(), ms(500));
    });
}

#[test]
fn a_deadline_ends_by_unwatch_by_its_successor_and_with_its_line() {
    run(async {
        let mut house = House::new();
        house.send(vec![opened(1), opened(2), opened(3), opened(4)]);
        house.send((1..=4).map(|n| watch(n, 0, ms(10))).collect());
        house.settle().await;
        assert_eq!(house.deadlines(), [4, 4, 0, 0]);
        house.send(vec![
            unwatch(1, 0),
            watch(2, 1, ms(20)),
            closed(3),
            unwatch(4, 1),
        ]);
        assert_eq!(house.hear().await, expired(&[2]));
        assert_eq!(house.deadlines(), [0, 5, 1, 4]);
        house.silent(ms(1000)).await;
        assert_eq!(house.counts().stale.get(), 0);
        house.send(vec![
            watch(2, 5, ms(1)),
            unwatch(2, 4),
            unwatch(8, 0),
            closed(9),
        ]);
        house.settle().await;
        assert_eq!(house.counts().stale.get(), 3);
        let still = Heard::Expired(vec![Expired {
            id: id(2),
            generation: 5,
        }]);
        assert_eq!(house.hear().await, still);
    });
}

#[test]
fn the_registry_holds_the_live_lines() {
    run(async {
        let house = House::new();
        house.send(vec![opened(1), opened(2)]);
        house.send(vec![opened(3), closed(1)]);
        house.settle().await;
        let ids: Vec<u64> = house
            .registry
            .snapshot()
            .iter()
            .map(|l| l.id.number)
            .collect();
        assert_eq!(ids, [2, 3]);
        assert_eq!(house.counts().reports.get(), 4);
    });
}

#[test]
fn a_line_that_was_made_and_ended_in_one_batch_does_not_touch_the_registry() {
    run(async {
        let mut house = House::new();
        // Would be replaced and removed by whoever touched it.
        let marker = line(id(1));
        house.registry.insert(Arc::clone(&marker));
        house.send(vec![
            opened(1),
            watch(1, 1, ms(1)),
            unwatch(1, 1),
            closed(1),
            opened(2),
        ]);
        house.send(vec![opened(3), watch(3, 1, ms(1)), closed(3)]);
        house.settle().await;
        assert!(Arc::ptr_eq(&house.registry.get(id(1)).unwrap(), &marker));
        assert_eq!(house.registry.len(), 2);
        assert_eq!(house.deadlines(), [0, 2, 0, 2]);
        assert_eq!(house.counts().stale.get(), 0);
        house.silent(ms(1000)).await;
    });
}

#[test]
fn after_a_restart_every_owner_watches_again_and_nothing_is_lost() {
    run(async {
        let mut house = House::new();
        let (mut other, _) = attach(&house.supervisor, &house.metrics, 7);
        let theirs = line(LineId {
            worker: 7,
            number: 1,
        });
        house
            .supervisor
            .report(Reports {
                worker: 7,
                reports: vec![Report::Opened(theirs)],
            })
            .unwrap();
        house.send((1..=4).map(opened).collect());
        house.send(vec![watch(1, 1, ms(1000)), watch(2, 1, ms(1000))]);
        house.settle().await;
        // Line 1 goes on with a later deadline, 2 ended, 5 is new: all of it unheard.
        {
            let mut truth = house.truth.borrow_mut();
            truth.lines = [1, 3, 4, 5].map(|n| line(id(n))).into();
            truth.deadlines = vec![deadline(1, 1, ms(2000)), deadline(5, 1, ms(2000))];
        }
        let begin = TokioInstant::now();
        house.explode().await;
        assert_eq!(other.recv().await, Some(Heard::WatchAgain));
        house.settle().await;
        let ids: Vec<u64> = house
            .registry
            .snapshot()
            .iter()
            .map(|l| l.id.number)
            .collect();
        assert_eq!(ids, [1, 3, 4, 5], "worker 7 said that it has no line");
        assert_eq!(house.deadlines(), [2, 4, 0, 2]);
        let Heard::Expired(mut all) = house.hear().await else {
            panic!("no deadline")
        };
        assert_eq!(begin.elapsed(), ms(2000));
        all.sort_unstable_by_key(|e| e.id);
        assert_eq!(Heard::Expired(all), expired(&[1, 5]));
        house.send(vec![closed(3)]);
        house.settle().await;
        assert!(house.registry.get(id(3)).is_none());
        let supervisor = house.metrics.actors().kind(ActorKind::Supervisor);
        assert_eq!(
            (
                supervisor.alive(),
                supervisor.panics(),
                supervisor.restarts()
            ),
            (1, 1, 1)
        );
    });
}

#[test]
fn while_no_supervisor_lives_reports_come_back_and_the_outbox_keeps_them() {
    run(async {
        let mut house = House::new();
        let mut outbox = Outbox::new(0, house.supervisor.clone());
        house.supervisor.supervisor().unwrap().do_send(Explode);
        while house.supervisor.supervisor().is_some() {
            tokio::task::yield_now().await;
        }
        outbox.push(opened(1));
        assert!(!outbox.flush());
        outbox.push(opened(2));
        assert!(!outbox.flush() && !outbox.is_empty());
        assert_eq!(house.counts().rejected.get(), 2);
        assert_eq!(house.hear().await, Heard::WatchAgain);
        house.settle().await;
        assert!(outbox.flush() && outbox.is_empty());
        house.settle().await;
        assert_eq!(house.registry.len(), 2);
    });
}

#[test]
fn the_next_supervisor_comes_later_each_time_until_one_lives_for_a_minute() {
    run(async {
        let mut house = House::new();
        for delay in [100, 200, 400] {
            let begin = TokioInstant::now();
            house.explode().await;
            assert_eq!(begin.elapsed(), ms(delay));
        }
        tokio::time::advance(Duration::from_secs(60)).await;
        let begin = TokioInstant::now();
        house.explode().await;
        assert_eq!(begin.elapsed(), ms(100));
    });
}

#[test]
fn case_m12_a_full_mailbox_is_full_for_a_while_only() {
    run(async {
        let house = House::new();
        house.settle().await;
        // The supervisor shares this thread, so it stands still until the next await.
        let mut back = Vec::new();
        for number in 0..10 * CAPACITY as u64 {
            let reports = Reports {
                worker: 0,
                reports: vec![opened(number)],
            };
            back.extend(house.supervisor.report(reports).err());
        }
        assert_eq!(house.supervisor.waiting(), CAPACITY);
        assert_eq!(back.len(), 9 * CAPACITY);
        assert_eq!(house.counts().rejected.get(), 9 * CAPACITY as u64);
        house.settle().await;
        assert_eq!(house.registry.len(), CAPACITY);
        for reports in back.drain(..).take(50) {
            house.supervisor.report(reports).expect("it has room again");
        }
        house.settle().await;
        assert_eq!(house.registry.len(), CAPACITY + 50);
        assert_eq!(house.counts().waiting.get(), 0);
    });
}

/// Holds the supervisor up until it hears something.
#[derive(Message)]
#[rtype(result = "()")]
struct Block(std::sync::mpsc::Receiver<()>);

impl Handler<Block> for Supervisor {
    type Result = ();

    fn handle(&mut self, Block(release): Block, _: &mut Self::Context) {
        release.recv().unwrap();
    }
}

#[test]
fn case_m12_a_handler_that_stands_still_hangs_no_sender_on_another_thread() {
    let metrics = Metrics::new("1");
    let (tell, started) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let theirs = metrics.clone();
    let thread = std::thread::spawn(move || {
        run(async move {
            let health = Health::new(0, now());
            tell.send(start(Registry::new(), theirs, health)).unwrap();
            stopped.await.unwrap();
        });
    });
    let supervisor = started.recv().unwrap();
    let handled = |supervisor: &SupervisorHandle| {
        while supervisor.waiting() > 0 {
            std::thread::yield_now();
        }
        supervisor.registry().len()
    };
    let (release, blocked) = std::sync::mpsc::channel();
    supervisor.supervisor().unwrap().do_send(Block(blocked));
    let send = |number| {
        supervisor.report(Reports {
            worker: 0,
            reports: vec![opened(number)],
        })
    };
    let burst = 10 * CAPACITY as u64;
    let back = (0..burst).filter_map(|number| send(number).err()).count();
    assert_eq!(back, 9 * CAPACITY);
    release.send(()).unwrap();
    assert_eq!(handled(&supervisor), CAPACITY);
    for number in burst..burst + 50 {
        send(number).expect("it has room again");
    }
    assert_eq!(handled(&supervisor), CAPACITY + 50);
    assert_eq!(metrics.supervisor().rejected.get(), 9 * CAPACITY as u64);
    stop.send(()).unwrap();
    thread.join().unwrap();
}

#[test]
fn messages_that_die_with_a_supervisor_wait_no_longer() {
    run(async {
        let mut house = House::new();
        house.supervisor.supervisor().unwrap().do_send(Explode);
        for number in 0..CAPACITY as u64 {
            house.send(vec![opened(number)]);
        }
        assert_eq!(house.hear().await, Heard::WatchAgain);
        house.settle().await;
        assert_eq!(
            house.registry.len(),
            0,
            "the worker says that it has no line"
        );
        house.send(vec![opened(1)]);
        house.settle().await;
        assert_eq!(house.registry.len(), 1);
    });
}

fn listener(node: &str) -> ActorName {
    ActorName {
        worker: 0,
        kind: ActorKind::Listener,
        node: Some(Arc::from(node)),
        place: 1,
    }
}

#[test]
fn a_long_lived_actor_is_started_again_later_each_time() {
    run(async {
        let mut house = House::new();
        for delay in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let begin = TokioInstant::now();
            house.supervisor.died(Died {
                actor: listener("in"),
            });
            house.supervisor.died(Died {
                actor: listener("in"),
            });
            assert_eq!(house.hear().await, Heard::StartAgain(listener("in")));
            assert_eq!(begin.elapsed(), ms(delay));
        }
        assert_eq!(
            house.metrics.actors().kind(ActorKind::Listener).restarts(),
            8
        );
        let begin = TokioInstant::now();
        house.supervisor.died(Died {
            actor: listener("other"),
        });
        assert_eq!(house.hear().await, Heard::StartAgain(listener("other")));
        assert_eq!(begin.elapsed(), ms(100));
        tokio::time::advance(Duration::from_secs(60)).await;
        let begin = TokioInstant::now();
        house.supervisor.died(Died {
            actor: listener("in"),
        });
        assert_eq!(house.hear().await, Heard::StartAgain(listener("in")));
        assert_eq!(begin.elapsed(), ms(100));
        house.silent(ms(10_000)).await;
    });
}

#[test]
fn a_planned_restart_outlives_the_supervisor_but_not_its_node() {
    run(async {
        let mut house = House::new();
        house.supervisor.died(Died {
            actor: listener("in"),
        });
        house.supervisor.died(Died {
            actor: listener("removed"),
        });
        house.settle().await;
        house.supervisor.supervisor().unwrap().do_send(Explode);
        while house.supervisor.supervisor().is_some() {
            tokio::task::yield_now().await;
        }
        house.supervisor.died(Died {
            actor: listener("unseen"),
        });
        house.supervisor.forget_node("removed");
        assert_eq!(house.hear().await, Heard::WatchAgain);
        assert_eq!(house.hear().await, Heard::StartAgain(listener("in")));
        assert_eq!(house.hear().await, Heard::StartAgain(listener("unseen")));
        house.silent(ms(10_000)).await;
    });
}

#[test]
fn an_actor_whose_worker_is_not_there_is_started_when_it_is() {
    run(async {
        let house = House::new();
        let theirs = ActorName {
            worker: 7,
            ..listener("in")
        };
        house.supervisor.died(Died {
            actor: theirs.clone(),
        });
        tokio::time::sleep(ms(1000)).await;
        let (mut heard, _) = attach(&house.supervisor, &house.metrics, 7);
        assert_eq!(heard.recv().await, Some(Heard::StartAgain(theirs)));
        assert_eq!(
            house.metrics.actors().kind(ActorKind::Listener).restarts(),
            1
        );
    });
}

#[test]
fn case_m22_the_supervisor_beats() {
    run(async {
        let mut house = House::new();
        house.silent(BEAT * 10).await;
        assert_eq!(house.health.live(now()), Ok(()));
    });
}

#[test]
fn a_kept_batch_is_thinned_out_to_what_still_matters() {
    run(async {
        let mut house = House::new();
        house.send(vec![
            opened(1),
            watch(1, 1, ms(50)),
            opened(2),
            watch(2, 1, ms(50)),
        ]);
        house.settle().await;
        house.supervisor.supervisor().unwrap().do_send(Explode);
        while house.supervisor.supervisor().is_some() {
            tokio::task::yield_now().await;
        }
        let mut outbox = Outbox::new(0, house.supervisor.clone());
        for number in 100..50_000 {
            for report in [opened(number), watch(number, 1, ms(5)), closed(number)] {
                outbox.push(report);
            }
            outbox.flush();
        }
        assert!(
            outbox.reports.len() < 2 * super::outbox::THIN_OUT,
            "{}",
            outbox.reports.len()
        );
        for report in [
            opened(3),
            closed(2),
            watch(1, 2, ms(60)),
            unwatch(1, 2),
            watch(3, 1, ms(9)),
        ] {
            outbox.push(report);
        }
        outbox.thin_out();
        let texts: Vec<String> = outbox.reports.iter().map(kind_and_number).collect();
        assert_eq!(texts, ["opened 3", "closed 2", "unwatch 1", "watch 3"]);
        house.truth.borrow_mut().lines = vec![line(id(1)), line(id(2))];
        house.truth.borrow_mut().deadlines = vec![deadline(1, 1, ms(500))];
        assert_eq!(house.hear().await, Heard::WatchAgain);
        house.settle().await;
        assert!(outbox.flush());
        assert_eq!(house.hear().await, expired(&[3]));
        house.silent(ms(1000)).await;
        let ids: Vec<u64> = house
            .registry
            .snapshot()
            .iter()
            .map(|l| l.id.number)
            .collect();
        assert_eq!(ids, [1, 3]);
    });
}

fn kind_and_number(report: &Report) -> String {
    match report {
        Report::Opened(line) => format!("opened {}", line.id.number),
        Report::Closed(closed) => format!("closed {}", closed.id.number),
        Report::Watch(watch) => format!("watch {}", watch.id.number),
        Report::Unwatch(unwatch) => format!("unwatch {}", unwatch.id.number),
    }
}
