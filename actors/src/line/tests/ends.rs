//! How a line begins and ends: L01 to L05, L07, L08.

use lineway_wire::line::FinishReason;

use super::{SECOND, bytes, chain_with};
use crate::registry::LineState;
use crate::testkit::{Journal, Outcome, run};
use crate::worker::Control;

#[test]
fn line_l01_payload_follows_at_once_without_waiting_for_est() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND));
        let (id, client) = kit.open(&kit.plain_chain());
        client.offer(b"hello");
        kit.reported().await;
        assert_eq!(kit.dials.len(), 1, "Init once");
        assert_eq!(client.offered(), 0, "read before the server is up");
        let line = kit.line(id).expect("it lives");
        assert_eq!(line.state(), LineState::Opening);
        kit.pass(SECOND).await;
        assert_eq!(kit.dials.peer(0).take(), b"hello");
        assert_eq!(line.state(), LineState::Open);
        assert_eq!(kit.dials.len(), 1);
    });
}

#[test]
fn line_l02_order_holds_and_the_end_comes_behind_the_bytes() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.plain_chain());
        kit.quiet().await;
        let server = kit.dials.peer(0);
        server.window(1000);
        let sent = bytes(300_000);
        client.offer(&sent);
        client.end();
        kit.quiet().await;
        let mut got = Vec::new();
        while got.len() < sent.len() {
            let all_left = server.written() == sent.len() as u64;
            assert_eq!(server.is_shut_down(), all_left, "the end overtook bytes");
            let some = server.take_some(777);
            assert!(!some.is_empty(), "it stopped at {}", got.len());
            got.extend(some);
            kit.quiet().await;
        }
        assert!(got == sent, "other bytes, or another order");
        assert!(server.is_shut_down());
    });
}

#[test]
fn line_l03_nothing_goes_back_to_a_side_that_reset() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.plain_chain());
        kit.quiet().await;
        let server = kit.dials.peer(0);
        server.window(4);
        client.offer(b"last words");
        kit.quiet().await;
        client.reset();
        kit.quiet().await;
        server.offer(b"too late");
        kit.quiet().await;
        assert_eq!((client.written(), client.is_shut_down()), (0, false));
        assert_eq!(server.take(), b"last");
        server.open_window();
        kit.quiet().await;
        assert_eq!(server.take(), b" words", "L02: accepted before the end");
        assert!(client.is_dropped() && server.is_dropped());
        assert!((kit.closed("peer-finished") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn line_l04_a_close_from_the_middle_delivers_what_is_queued_then_ends_both_sides() {
    run(async |kit| {
        let (id, client) = kit.open(&kit.plain_chain());
        kit.quiet().await;
        let server = kit.dials.peer(0);
        client.window(3);
        server.window(3);
        client.offer(b"upstream");
        server.offer(b"downstream");
        kit.reported().await;
        let found = kit.actor.send(Control::FinishLine(id, FinishReason::Admin));
        assert_eq!(found.await, Ok(1));
        kit.quiet().await;
        client.offer(b"not any more");
        kit.quiet().await;
        assert_eq!(client.offered(), 12, "no input is read after Finish");
        assert_eq!(kit.line(id).map(|l| l.state()), Some(LineState::Closing));
        client.open_window();
        kit.quiet().await;
        assert!(!client.is_dropped(), "the other side is still owed bytes");
        server.open_window();
        kit.quiet().await;
        assert_eq!(client.take(), b"downstream");
        assert_eq!(server.take(), b"upstream");
        assert!(client.is_dropped() && server.is_dropped());
        assert!((kit.closed("admin") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn line_l05_a_line_of_a_listener_ends_with_its_actor_and_no_earlier() {
    run(async |kit| {
        let (id, client) = kit.open(&kit.plain_chain());
        kit.reported().await;
        assert!(kit.line(id).is_some());
        let unknown = crate::registry::LineId { number: 99, ..id };
        let other = Control::FinishLine(unknown, FinishReason::Admin);
        assert_eq!(kit.actor.send(other).await, Ok(0));
        assert!(!client.is_dropped());
        client.end();
        kit.quiet().await;
        assert!(!client.is_dropped(), "the server has not ended");
        kit.dials.peer(0).end();
        kit.assert_empty().await;
        assert!(client.is_dropped());
    });
}

#[test]
fn line_l07_the_client_ends_and_the_answer_still_comes() {
    run(async |kit| {
        let (id, client) = kit.open(&kit.plain_chain());
        client.offer(b"question");
        client.end();
        kit.quiet().await;
        let server = kit.dials.peer(0);
        // With bytes queued while it was not up, the end follows them (L09).
        assert_eq!(server.take(), b"question");
        assert!(server.is_shut_down() && !client.is_shut_down());
        kit.reported().await;
        assert_eq!(kit.line(id).map(|l| l.state()), Some(LineState::HalfClosed));
        for _ in 0..3 {
            kit.pass(SECOND * 60).await;
            server.offer(&bytes(5000));
            kit.quiet().await;
            assert!(client.take() == bytes(5000));
        }
        server.end();
        kit.quiet().await;
        assert!(client.is_shut_down());
        assert!((kit.closed("peer-finished") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn line_l07_the_server_ends_first_and_still_gets_what_the_client_sends() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.plain_chain());
        kit.quiet().await;
        let server = kit.dials.peer(0);
        server.offer(b"banner");
        server.end();
        kit.quiet().await;
        assert_eq!(client.take(), b"banner");
        assert!(client.is_shut_down() && !client.is_dropped());
        client.offer(&bytes(100_000));
        kit.quiet().await;
        assert!(server.take() == bytes(100_000));
        assert!(!server.is_shut_down());
        client.end();
        kit.assert_empty().await;
        assert!(server.is_shut_down());
    });
}

#[test]
fn line_l07_a_server_that_reads_no_more_may_still_answer() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.plain_chain());
        kit.quiet().await;
        let server = kit.dials.peer(0);
        server.refuse_writes();
        client.offer(b"a long upload");
        kit.quiet().await;
        server.offer(b"413 too large");
        server.end();
        kit.quiet().await;
        assert_eq!(client.take(), b"413 too large");
        assert!(client.is_shut_down());
        client.offer(&bytes(10_000));
        kit.quiet().await;
        assert_eq!(client.offered(), 0, "unread bytes would reset the answer away");
        kit.pass(SECOND * 3).await;
        assert!(client.is_dropped(), "but not for ever");
        kit.assert_empty().await;
    });
}

#[test]
fn line_l08_every_reason_reaches_metrics_and_log() {
    run(async |kit| {
        let journal = Journal::new();
        let _guard = journal.install();
        let chain = chain_with(&kit, |entry, _| entry.initial_idle_timeout = super::OFF);
        // peer-finished
        let (_, client) = kit.open(&chain);
        kit.quiet().await;
        client.end();
        kit.dials.peer(0).end();
        // connect-failed
        kit.quiet().await;
        kit.dials.plan(Outcome::REFUSED);
        kit.open(&chain);
        // timeout
        kit.quiet().await;
        kit.dials.plan(Outcome::Hangs);
        kit.open(&chain);
        kit.pass(SECOND * 12).await;
        // idle
        let (_, client) = kit.open(&chain);
        client.offer(b"x");
        kit.pass(SECOND * 301).await;
        // admin, drain, panic
        let ids = [(); 3].map(|()| kit.open(&chain));
        kit.quiet().await;
        assert!(kit.worker.finish_line(ids[0].0, FinishReason::Admin));
        assert!(kit.worker.finish_line(ids[1].0, FinishReason::Drain));
        ids[2].1.explode();
        kit.reported().await;
        for reason in
            ["peer-finished", "connect-failed", "timeout", "idle", "admin", "drain", "panic"]
        {
            assert!((kit.closed(reason) - 1.0).abs() < 0.5, "{reason} in the metrics");
            let log = format!("reason={reason}");
            assert_eq!(journal.count(&log), 1, "{log} in {:#?}", journal.lines());
        }
        assert_eq!(journal.count("line closed"), 7, "each line ends once");
        kit.assert_empty().await;
    });
}

#[test]
fn line_l08_a_lifetime_is_measured_in_the_time_of_the_actors() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.plain_chain());
        client.offer(b"x");
        kit.pass(SECOND * 100).await;
        client.reset();
        kit.reported().await;
        let lived = kit.metric(r#"lineway_line_lifetime_seconds_sum{node="in"}"#);
        assert!((100.0..101.0).contains(&lived), "{lived}");
    });
}

#[test]
fn tcp_t06_bytes_that_wait_for_the_server_end_the_initial_idle_time() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(6 * SECOND));
        let (_, client) = kit.open(&kit.plain_chain());
        client.offer(b"question");
        kit.pass(7 * SECOND).await;
        assert_eq!(kit.dials.peer(0).take(), b"question");
    });
}

#[test]
fn tcp_t06_a_line_that_moved_bytes_is_not_woken_for_its_initial_idle_time() {
    run(async |kit| {
        let (_, client) = kit.open(&kit.plain_chain());
        kit.quiet().await;
        let wakes_in = || {
            let at = kit.worker.timers.next_wake().expect("an idle time runs");
            at.saturating_duration_since(tokio::time::Instant::now().into_std())
        };
        assert!(wakes_in() <= 5 * SECOND, "{:?}", wakes_in());
        client.offer(b"x");
        kit.quiet().await;
        assert!(wakes_in() > 5 * SECOND, "{:?}", wakes_in());
    });
}
