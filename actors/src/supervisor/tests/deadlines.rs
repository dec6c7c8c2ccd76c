//! Deadlines, and the registry of live lines.

use std::sync::Arc;

use super::super::{TokioInstant, now};
use super::{
    Heard, House, attach, closed, deadline, expired, id, line, ms, opened, run, unwatch, watch,
};
use crate::health::BEAT;
use crate::messages::{Expired, Report, Reports, Watch};
use crate::registry::LineId;

#[test]
fn a_deadline_comes_once_to_its_worker_at_its_time() {
    run(async {
        let mut house = House::new();
        let (mut other, _) = attach(&house.supervisor, &house.metrics, 7);
        let begin = TokioInstant::now();
        house.send(vec![watch(3, 1, ms(30)), watch(1, 1, ms(10)), watch(2, 1, ms(10))]);
        let theirs = LineId { worker: 7, number: 1 };
        let of_seven = Watch { id: theirs, ..deadline(1, 5, ms(10)) };
        house
            .supervisor
            .report(Reports { worker: 7, reports: vec![Report::Watch(of_seven)] })
            .unwrap();
        let Heard::Expired(mut first) = house.hear().await else { panic!("no deadline") };
        assert_eq!(begin.elapsed(), ms(10));
        first.sort_unstable_by_key(|e| e.id);
        assert_eq!(Heard::Expired(first), expired(&[1, 2]));
        let seven = Heard::Expired(vec![Expired { id: theirs, generation: 5 }]);
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
        house.send(vec![unwatch(1, 0), watch(2, 1, ms(20)), closed(3), unwatch(4, 1)]);
        assert_eq!(house.hear().await, expired(&[2]));
        assert_eq!(house.deadlines(), [0, 5, 1, 4]);
        house.silent(ms(1000)).await;
        assert_eq!(house.counts().stale.get(), 0);
        house.send(vec![watch(2, 5, ms(1)), unwatch(2, 4), unwatch(8, 0), closed(9)]);
        house.settle().await;
        assert_eq!(house.counts().stale.get(), 3);
        let still = Heard::Expired(vec![Expired { id: id(2), generation: 5 }]);
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
        let ids: Vec<u64> = house.registry.snapshot().iter().map(|l| l.id.number).collect();
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
        house.send(vec![opened(1), watch(1, 1, ms(1)), unwatch(1, 1), closed(1), opened(2)]);
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
fn case_m22_the_supervisor_beats() {
    run(async {
        let mut house = House::new();
        house.silent(BEAT * 10).await;
        assert_eq!(house.health.live(now()), Ok(()));
    });
}
