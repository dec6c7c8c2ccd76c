use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix::prelude::*;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use super::{PanicReport, start};
use crate::metrics::{ActorKind, Metrics};

#[derive(Message)]
#[rtype(result = "u32")]
struct Add(u32);

#[derive(Message)]
#[rtype(result = "()")]
enum End {
    Panic(String),
    PanicInFuture,
    Stop,
}

/// Adds up; counts how often its life was ended by which hook.
struct Adder {
    sum: u32,
    drop_panics: bool,
    dropped: Rc<Cell<u32>>,
    stopped: Rc<Cell<u32>>,
}

impl Actor for Adder {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.stopped.set(self.stopped.get() + 1);
    }
}

impl Handler<Add> for Adder {
    type Result = u32;

    fn handle(&mut self, Add(number): Add, _: &mut Self::Context) -> u32 {
        self.sum += number;
        self.sum
    }
}

impl Handler<End> for Adder {
    type Result = ();

    fn handle(&mut self, end: End, ctx: &mut Self::Context) {
        match end {
            End::Panic(text) => std::panic::panic_any(text),
            End::PanicInFuture => {
                ctx.spawn(async { panic!("in a future") }.into_actor(self));
            }
            End::Stop => ctx.stop(),
        }
    }
}

impl Drop for Adder {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
        assert!(!self.drop_panics, "in a drop");
    }
}

struct Started {
    address: Addr<Adder>,
    panicked: oneshot::Receiver<PanicReport>,
    dropped: Rc<Cell<u32>>,
    stopped: Rc<Cell<u32>>,
}

fn adder(metrics: &Metrics, drop_panics: bool) -> Started {
    let (tell, panicked) = oneshot::channel();
    let (dropped, stopped) = (Rc::default(), Rc::default());
    let actor =
        Adder { sum: 0, drop_panics, dropped: Rc::clone(&dropped), stopped: Rc::clone(&stopped) };
    let seen = Rc::clone(&dropped);
    let address = start(
        ActorKind::MainLine,
        metrics.actors(),
        |_| actor,
        move |report| {
            assert_eq!(seen.get(), 1, "the actor is gone before its end is told");
            tell.send(report).expect("the test listens");
        },
    );
    Started { address, panicked, dropped, stopped }
}

fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    LocalSet::new().block_on(&runtime.unwrap(), test);
}

#[test]
fn a_panic_ends_one_actor_is_counted_and_its_neighbour_lives_on() {
    run(async {
        let metrics = Metrics::new("1");
        let lines = Arc::clone(metrics.actors().kind(ActorKind::MainLine));
        let (neighbour, doomed) = (adder(&metrics, false), adder(&metrics, false));
        assert_eq!(neighbour.address.send(Add(1)).await, Ok(1));
        assert_eq!(lines.alive(), 2);
        doomed.address.do_send(End::Panic("of this test".to_owned()));
        let unheard = doomed.address.send(Add(1));
        let report = doomed.panicked.await.unwrap();
        assert_eq!(report.kind, ActorKind::MainLine);
        assert_eq!(report.message, "of this test");
        assert_eq!(unheard.await, Err(MailboxError::Closed));
        assert_eq!((doomed.dropped.get(), doomed.stopped.get()), (1, 0));
        assert_eq!((lines.alive(), lines.panics(), lines.restarts()), (1, 1, 0));
        assert_eq!(neighbour.address.send(Add(2)).await, Ok(3));
    });
}

#[test]
fn a_panic_in_a_future_of_the_actor_ends_it_too() {
    run(async {
        let metrics = Metrics::new("1");
        let doomed = adder(&metrics, false);
        doomed.address.do_send(End::PanicInFuture);
        assert_eq!(doomed.panicked.await.unwrap().message, "in a future");
        assert_eq!(doomed.dropped.get(), 1);
    });
}

#[test]
fn a_second_panic_while_the_actor_is_dropped_stays_inside() {
    run(async {
        let metrics = Metrics::new("1");
        let lines = metrics.actors().kind(ActorKind::MainLine);
        let doomed = adder(&metrics, true);
        doomed.address.do_send(End::Panic("first".to_owned()));
        assert_eq!(doomed.panicked.await.unwrap().message, "first");
        let doomed = adder(&metrics, true);
        doomed.address.do_send(End::Stop);
        assert_eq!(doomed.panicked.await.unwrap().message, "in a drop");
        tokio::task::yield_now().await;
        assert_eq!((lines.alive(), lines.panics()), (0, 2));
    });
}

#[test]
fn an_orderly_end_is_no_panic() {
    run(async {
        let metrics = Metrics::new("1");
        let lines = metrics.actors().kind(ActorKind::MainLine);
        let ended = adder(&metrics, false);
        ended.address.do_send(End::Stop);
        assert!(ended.panicked.await.is_err(), "on_panic was dropped unused");
        assert_eq!((ended.dropped.get(), ended.stopped.get()), (1, 1));
        assert_eq!((lines.alive(), lines.panics()), (0, 0));
    });
}

/// Sleeps from its start on.
struct Sleeper;

impl Actor for Sleeper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let sleep = tokio::time::sleep(std::time::Duration::from_secs(60));
        ctx.spawn(sleep.into_actor(self));
    }
}

#[test]
fn actors_end_with_their_runtime_without_a_panic() {
    let metrics = Metrics::new("1");
    let build = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (runtime, local) = (build(), LocalSet::new());
    let ran = local.block_on(&runtime, async {
        let ran = start(ActorKind::Worker, metrics.actors(), |_| Sleeper, |_| {});
        tokio::task::yield_now().await;
        // This one has no turn before the end.
        start(ActorKind::Worker, metrics.actors(), |_| Sleeper, |_| {});
        ran
    });
    drop(runtime);
    drop(local);
    assert!(!ran.connected());
    let workers = metrics.actors().kind(ActorKind::Worker);
    assert_eq!((workers.alive.get(), workers.panics.get()), (0, 0));
}
