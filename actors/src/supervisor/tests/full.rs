//! When the supervisor does not take what is sent (M-12).

use actix::prelude::*;

use super::super::{CAPACITY, Outbox, Supervisor, SupervisorHandle, now, start};
use super::{
    Explode, Heard, House, closed, deadline, expired, id, lease, line, ms, opened, run, unwatch,
    watch,
};
use crate::health::Health;
use crate::messages::{CidLease, Report, Reports};
use crate::metrics::Metrics;
use crate::registry::Registry;

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
fn case_m12_a_full_mailbox_is_full_for_a_while_only() {
    run(async {
        let house = House::new();
        house.settle().await;
        // The supervisor shares this thread, so it stands still until the next await.
        let mut back = Vec::new();
        for number in 0..10 * CAPACITY as u64 {
            let reports = Reports { worker: 0, reports: vec![opened(number)] };
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
    let send = |number| supervisor.report(Reports { worker: 0, reports: vec![opened(number)] });
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
        assert_eq!(house.registry.len(), 0, "the worker says that it has no line");
        house.send(vec![opened(1)]);
        house.settle().await;
        assert_eq!(house.registry.len(), 1);
    });
}

#[test]
fn a_kept_batch_is_thinned_out_to_what_still_matters() {
    run(async {
        let mut house = House::new();
        house.send(vec![opened(1), watch(1, 1, ms(50)), opened(2), watch(2, 1, ms(50))]);
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
            outbox.reports.len() < 2 * super::super::outbox::THIN_OUT,
            "{}",
            outbox.reports.len()
        );
        for report in [
            lease(2, 5000),
            opened(3),
            closed(2),
            watch(1, 2, ms(60)),
            unwatch(1, 2),
            lease(1, 5000),
            watch(3, 1, ms(9)),
        ] {
            outbox.push(report);
        }
        outbox.thin_out();
        let texts: Vec<String> = outbox.reports.iter().map(kind_and_number).collect();
        assert_eq!(texts, ["opened 3", "closed 2", "unwatch 1", "lease 1", "watch 3"]);
        house.truth.borrow_mut().lines = vec![line(id(1)), line(id(2))];
        house.truth.borrow_mut().deadlines = vec![deadline(1, 1, ms(500))];
        assert_eq!(house.hear().await, Heard::WatchAgain);
        house.settle().await;
        assert!(outbox.flush());
        let lease = CidLease { parent: id(1), first: 1, last: 1024 };
        assert_eq!(house.hear().await, Heard::Leases(vec![lease]));
        assert_eq!(house.hear().await, expired(&[3]));
        house.silent(ms(1000)).await;
        let ids: Vec<u64> = house.registry.snapshot().iter().map(|l| l.id.number).collect();
        assert_eq!(ids, [1, 3]);
    });
}

fn kind_and_number(report: &Report) -> String {
    match report {
        Report::Opened(line) => format!("opened {}", line.id.number),
        Report::Closed(closed) => format!("closed {}", closed.id.number),
        Report::Watch(watch) => format!("watch {}", watch.id.number),
        Report::Unwatch(unwatch) => format!("unwatch {}", unwatch.id.number),
        Report::LeaseCids(ask) => format!("lease {}", ask.parent.number),
    }
}
