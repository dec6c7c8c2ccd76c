//! What is started again: the supervisor, and the long-lived actors that it watches.

use std::sync::Arc;
use std::time::Duration;

use super::super::TokioInstant;
use super::{
    Explode, Heard, House, attach, closed, deadline, expired, id, line, ms, opened, run, watch,
};
use crate::messages::{ActorName, Died, Report, Reports};
use crate::metrics::ActorKind;
use crate::registry::LineId;

#[test]
fn after_a_restart_every_owner_watches_again_and_nothing_is_lost() {
    run(async {
        let mut house = House::new();
        let (mut other, _) = attach(&house.supervisor, &house.metrics, 7);
        let theirs = line(LineId { worker: 7, number: 1 });
        house
            .supervisor
            .report(Reports { worker: 7, reports: vec![Report::Opened(theirs)] })
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
        let ids: Vec<u64> = house.registry.snapshot().iter().map(|l| l.id.number).collect();
        assert_eq!(ids, [1, 3, 4, 5], "worker 7 said that it has no line");
        assert_eq!(house.deadlines(), [2, 4, 0, 2]);
        let Heard::Expired(mut all) = house.hear().await else { panic!("no deadline") };
        assert_eq!(begin.elapsed(), ms(2000));
        all.sort_unstable_by_key(|e| e.id);
        assert_eq!(Heard::Expired(all), expired(&[1, 5]));
        house.send(vec![closed(3)]);
        house.settle().await;
        assert!(house.registry.get(id(3)).is_none());
        let supervisor = house.metrics.actors().kind(ActorKind::Supervisor);
        assert_eq!((supervisor.alive(), supervisor.panics(), supervisor.restarts()), (1, 1, 1));
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

fn listener(node: &str) -> ActorName {
    ActorName { worker: 0, kind: ActorKind::Listener, node: Some(Arc::from(node)), place: 1 }
}

#[test]
fn a_long_lived_actor_is_started_again_later_each_time() {
    run(async {
        let mut house = House::new();
        for delay in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let begin = TokioInstant::now();
            house.supervisor.died(Died { actor: listener("in") });
            house.supervisor.died(Died { actor: listener("in") });
            assert_eq!(house.hear().await, Heard::StartAgain(listener("in")));
            assert_eq!(begin.elapsed(), ms(delay));
        }
        assert_eq!(house.metrics.actors().kind(ActorKind::Listener).restarts(), 8);
        let begin = TokioInstant::now();
        house.supervisor.died(Died { actor: listener("other") });
        assert_eq!(house.hear().await, Heard::StartAgain(listener("other")));
        assert_eq!(begin.elapsed(), ms(100));
        tokio::time::advance(Duration::from_secs(60)).await;
        let begin = TokioInstant::now();
        house.supervisor.died(Died { actor: listener("in") });
        assert_eq!(house.hear().await, Heard::StartAgain(listener("in")));
        assert_eq!(begin.elapsed(), ms(100));
        house.silent(ms(10_000)).await;
    });
}

#[test]
fn a_planned_restart_outlives_the_supervisor_but_not_its_node() {
    run(async {
        let mut house = House::new();
        house.supervisor.died(Died { actor: listener("in") });
        house.supervisor.died(Died { actor: listener("removed") });
        house.settle().await;
        house.supervisor.supervisor().unwrap().do_send(Explode);
        while house.supervisor.supervisor().is_some() {
            tokio::task::yield_now().await;
        }
        house.supervisor.died(Died { actor: listener("unseen") });
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
        let theirs = ActorName { worker: 7, ..listener("in") };
        house.supervisor.died(Died { actor: theirs.clone() });
        tokio::time::sleep(ms(1000)).await;
        let (mut heard, _) = attach(&house.supervisor, &house.metrics, 7);
        assert_eq!(heard.recv().await, Some(Heard::StartAgain(theirs)));
        assert_eq!(house.metrics.actors().kind(ActorKind::Listener).restarts(), 1);
    });
}
