//! M14: parents that can not be made, and those that are lost while children wait.

use std::io;
use std::time::Duration;

use lineway_wire::mux::FrameKind;
use lineway_wire::units::Millis;

use super::{MILLI, SECOND, Wire, client, client_with, ended, fixed, leave, near, open};
use crate::testkit::{Kit, Outcome, run};

const RETRIES: &str = r#"lineway_mux_parent_retries_total{node="mux"}"#;

fn refuse(kit: &Kit, times: usize) {
    for _ in 0..times {
        kit.dials.plan(Outcome::REFUSED);
    }
}

#[test]
fn mux_m14_a_refused_parent_is_tried_again_while_children_wait() {
    run(async |kit| {
        refuse(&kit, 2);
        let chain = near(&kit, client(fixed(1)));
        let (_, first) = kit.open(&chain);
        first.offer(b"first");
        kit.pass(MILLI * 50).await;
        assert_eq!(kit.dials.len(), 1);
        // Joins during the first backoff.
        let (_, second) = kit.open(&chain);
        kit.pass(MILLI * 70).await;
        assert_eq!(kit.dials.len(), 2);
        kit.pass(MILLI * 150).await;
        assert_eq!(kit.dials.len(), 2, "the backoff doubles");
        kit.pass(MILLI * 60).await;
        assert_eq!(kit.dials.len(), 3);
        let mut wire = Wire::dialled(&kit, 2);
        assert_eq!(wire.frames(), ["open+ 1", "open+ 2", "data 1 first"]);
        kit.assert_metric(RETRIES, 2);
        for (cid, client) in [(1, &first), (2, &second)] {
            wire.data(cid, b"hi");
            wire.send(FrameKind::Close, cid);
            client.end();
        }
        kit.quiet().await;
        assert_eq!((first.take(), second.take()), (b"hi".to_vec(), b"hi".to_vec()));
        leave(&kit).await;
        kit.assert_closed("peer-finished", 2);
    });
}

#[test]
fn mux_m14_each_child_waits_for_its_own_time_and_then_gets_finish() {
    run(async |kit| {
        refuse(&kit, 100);
        let chain = near(&kit, client(fixed(1)));
        let (_, first) = kit.open(&chain);
        kit.pass(SECOND * 2).await;
        let (_, second) = kit.open(&chain);
        kit.pass(MILLI * 990).await;
        assert!(!first.is_dropped());
        kit.pass(MILLI * 30).await;
        assert!(first.is_dropped() || first.is_shut_down(), "its 3 seconds are over");
        assert!(!second.is_shut_down());
        first.end();
        kit.pass(MILLI * 1950).await;
        assert!(!second.is_shut_down());
        kit.pass(MILLI * 50).await;
        assert!(second.is_shut_down());
        second.end();
        kit.quiet().await;
        // 0.1 + 0.2 + 0.4 + 0.8, and then a second each.
        let dials = kit.dials.len();
        assert!((7..=8).contains(&dials), "{dials}");
        kit.assert_empty().await;
        ended(&kit, "mux", "parent-failed", 2);
        kit.assert_closed("connect-failed", 2);
        // The next child has a parent of its own.
        let (_, third) = kit.open(&chain);
        kit.quiet().await;
        assert_eq!(kit.dials.len(), dials + 1);
        third.reset();
        kit.pass(SECOND * 4).await;
        kit.assert_empty().await;
    });
}

#[test]
fn mux_m14_with_0_the_first_failure_ends_the_children() {
    run(async |kit| {
        kit.dials.plan(Outcome::Fails(io::ErrorKind::ConnectionRefused, MILLI * 20));
        let chain = near(&kit, client_with(fixed(1), |mux| mux.parent_retry = Millis::new(0)));
        let clients = open(&kit, &chain, 3);
        kit.pass(MILLI * 30).await;
        for client in &clients {
            assert!(client.is_shut_down());
            client.end();
        }
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 1);
        kit.assert_empty().await;
        ended(&kit, "mux", "parent-failed", 3);
        kit.assert_metric(RETRIES, 0);
    });
}

#[test]
fn mux_m14_children_without_open_survive_the_loss_of_their_parent_and_count_from_1() {
    run(async |kit| {
        kit.dials.plan(Outcome::Up);
        refuse(&kit, 1);
        let chain = near(&kit, client(fixed(1)));
        let (_, first) = kit.open(&chain);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1"]);
        wire.peer.window(0);
        first.offer(&super::bytes(100_000));
        kit.quiet().await;
        let waiting = open(&kit, &chain, 2);
        waiting[0].offer(b"zero");
        waiting[1].offer(b"one");
        kit.quiet().await;
        wire.peer.reset();
        kit.quiet().await;
        assert!(first.is_shut_down(), "something of it was sent");
        first.end();
        kit.pass(MILLI * 110).await;
        assert_eq!(kit.dials.len(), 2, "refused");
        kit.pass(MILLI * 210).await;
        let mut wire = Wire::dialled(&kit, 2);
        assert_eq!(wire.frames(), ["open+ 1", "open+ 2", "data 1 zero", "data 2 one"]);
        kit.assert_metric(r#"lineway_mux_cids_used{node="mux"}"#, 2);
        kit.assert_metric(r#"lineway_mux_cids_leased{node="mux"}"#, 1024);
        // M13: one slot still, and this is its parent.
        let (_, later) = kit.open(&chain);
        kit.quiet().await;
        assert_eq!(wire.frames(), ["open+ 3"]);
        wire.peer.reset();
        kit.quiet().await;
        for client in waiting.iter().chain([&later]) {
            assert!(client.is_shut_down());
            client.end();
        }
        kit.quiet().await;
        kit.assert_empty().await;
        ended(&kit, "mux", "parent-lost", 4);
        kit.assert_metric(RETRIES, 2);
    });
}

#[test]
fn mux_m14_nobody_waits_so_nothing_is_tried_again() {
    run(async |kit| {
        refuse(&kit, 1);
        let chain = near(&kit, client(fixed(2)));
        let (_, client) = kit.open(&chain);
        kit.pass(MILLI * 50).await;
        assert_eq!(kit.dials.len(), 2, "the first child opens all");
        client.reset();
        kit.pass(SECOND * 4).await;
        // The refused one had the child; it went during the backoff.
        assert_eq!(kit.dials.len(), 2);
        leave(&kit).await;
        kit.assert_metric(RETRIES, 0);
    });
}

#[test]
fn mux_m14_a_connect_that_hangs_is_bounded_by_its_own_limit() {
    run(async |kit| {
        kit.dials.plan(Outcome::Hangs);
        let chain = near(&kit, client(fixed(1)));
        let (_, early) = kit.open(&chain);
        early.offer(b"x");
        kit.pass(Duration::from_secs(9)).await;
        assert!(!early.is_shut_down());
        let (_, late) = kit.open(&chain);
        kit.pass(SECOND + MILLI * 200).await;
        assert!(early.is_shut_down(), "it joined more than 3 seconds ago");
        early.end();
        assert_eq!(kit.dials.len(), 2);
        let mut wire = Wire::dialled(&kit, 1);
        assert_eq!(wire.frames(), ["open+ 1"], "the other one did not");
        wire.send(FrameKind::Close, 1);
        late.end();
        leave(&kit).await;
        ended(&kit, "mux", "parent-failed", 1);
        kit.assert_closed("connect-failed", 1);
    });
}

#[test]
fn mux_m14_an_operator_ends_a_parent_between_two_tries() {
    run(async |kit| {
        kit.dials.plan(Outcome::Fails(io::ErrorKind::ConnectionRefused, MILLI * 20));
        refuse(&kit, 100);
        kit.worker.drain_timeout.set(SECOND);
        let chain = near(&kit, client(fixed(1)));
        let (_, client) = kit.open(&chain);
        kit.reported().await;
        let parent = super::parents::parent_of(&kit);
        kit.pass(MILLI * 50).await;
        assert!(kit.worker.finish_line(parent, lineway_wire::line::FinishReason::Admin));
        kit.pass(SECOND + MILLI * 10).await;
        assert!(client.is_shut_down(), "the drain limit is over");
        client.end();
        kit.quiet().await;
        kit.assert_empty().await;
        kit.assert_closed("admin", 1);
    });
}
