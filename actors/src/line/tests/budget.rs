//! Lines beside each other: budgets, panics, a supervisor that is started again.

use super::{OFF, SECOND, bytes, chain_with};
use crate::messages::{Snapshot, WatchAgain};
use crate::testkit::{Outcome, Peer, run};

#[test]
fn line_a_flood_lets_its_neighbours_run_and_is_counted() {
    run(async |kit| {
        let chain = kit.plain_chain();
        let (_, flood) = kit.open(&chain);
        let (_, neighbour) = kit.open(&chain);
        kit.quiet().await;
        let (sink, server) = (kit.dials.peer(0), kit.dials.peer(1));
        sink.swallow();
        flood.offer_endless();
        // The clock stands still for as long as somebody runs, so turns are counted instead.
        for round in 0..5 {
            neighbour.offer(b"me too");
            let mut turns = 0;
            while server.held() == 0 {
                tokio::task::yield_now().await;
                turns += 1;
                assert!(turns < 20, "the neighbour starves in round {round}");
            }
            assert_eq!(server.take(), b"me too");
        }
        assert!(sink.written() > 0);
        let exhausted = kit.metric(r#"lineway_budget_exhausted_total{worker="0"}"#);
        assert!(exhausted >= 4.0, "{exhausted}");
        flood.end();
        kit.quiet().await;
        assert!(sink.is_shut_down());
        assert_eq!(sink.written(), flood.read());
    });
}

#[test]
fn line_l08_a_panic_ends_one_line_and_frees_what_it_held() {
    run(async |kit| {
        let chain = kit.plain_chain();
        let (_, doomed) = kit.open(&chain);
        let (_, neighbour) = kit.open(&chain);
        kit.quiet().await;
        let (far, server) = (kit.dials.peer(0), kit.dials.peer(1));
        far.window(0);
        doomed.offer(&bytes(10_000));
        neighbour.offer(b"before");
        kit.reported().await;
        let queued = r#"lineway_queued_bytes{node="in"}"#;
        assert!((kit.metric(queued) - 10_000.0).abs() < 0.5);
        doomed.explode();
        kit.reported().await;
        assert!(doomed.is_dropped() && far.is_dropped());
        let panics = r#"lineway_actor_panics_total{kind="main-line"}"#;
        assert!((kit.metric(panics) - 1.0).abs() < 0.5);
        assert!((kit.closed("panic") - 1.0).abs() < 0.5);
        assert!(kit.metric(queued).abs() < 0.5);
        assert_eq!(kit.board.registry.len(), 1);
        neighbour.offer(b" and after");
        kit.quiet().await;
        assert_eq!(server.take(), b"before and after");
        neighbour.end();
        server.end();
        kit.assert_empty().await;
    });
}

#[test]
fn line_a_thousand_lines_leave_nothing_behind() {
    run(async |kit| {
        let chain = kit.plain_chain();
        for round in 0..10 {
            let clients: Vec<_> = (0..100).map(|_| kit.open(&chain).1).collect();
            kit.quiet().await;
            for (place, client) in clients.iter().enumerate() {
                let server = kit.dials.peer(round * 100 + place);
                client.offer(&bytes(place * 10));
                match place % 4 {
                    0 => (client.end(), server.end()).0,
                    1 => (client.reset(), server.reset()).0,
                    2 => client.explode(),
                    _ => server.end(),
                }
            }
            kit.quiet().await;
            clients.iter().for_each(Peer::end);
            kit.assert_empty().await;
        }
        assert!(kit.worker.timers.is_empty(), "timers of nobody");
    });
}

#[test]
fn line_a_supervisor_that_was_started_again_knows_lines_and_deadlines() {
    run(async |kit| {
        let chain = chain_with(&kit, |entry, _| entry.initial_idle_timeout = OFF);
        kit.dials.plan(Outcome::Hangs);
        kit.dials.plan(Outcome::UpAfter(SECOND * 2));
        let (slow, _) = kit.open(&chain);
        let (quick, _) = kit.open(&chain);
        kit.reported().await;
        let pending = r#"lineway_deadlines_pending{kind="connect"}"#;
        assert!((kit.metric(pending) - 2.0).abs() < 0.5);
        // As if it knew nothing: no line and no deadline of this worker.
        kit.board.supervisor.snapshot(Snapshot {
            worker: 0,
            lines: Vec::new(),
            deadlines: Vec::new(),
            leases: Vec::new(),
        });
        kit.quiet().await;
        assert!(kit.board.registry.is_empty());
        assert!(kit.metric(pending).abs() < 0.5);
        kit.actor.send(WatchAgain).await.expect("the worker lives");
        kit.reported().await;
        assert_eq!(kit.board.registry.len(), 2);
        assert!((kit.metric(pending) - 2.0).abs() < 0.5);
        let fired = r#"lineway_deadlines_fired_total{kind="connect"}"#;
        kit.pass(SECOND * 3).await;
        assert!(kit.line(quick).is_some(), "it came up in time");
        kit.pass(SECOND * 9).await;
        assert!(kit.line(slow).is_none());
        assert!(kit.metric(fired) <= 1.0);
        assert!((kit.closed("timeout") - 1.0).abs() < 0.5);
    });
}
