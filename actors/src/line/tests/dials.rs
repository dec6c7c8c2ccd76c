//! Lines whose server is not up: L09, T11, T12.

use std::io;
use std::time::Duration;

use lineway_wire::units::Millis;

use super::{OFF, SECOND, bytes, chain_with, marks};
use crate::line::pool::BUFFER;
use crate::registry::LineState;
use crate::testkit::{Outcome, run};

#[test]
fn line_l09_an_end_with_nothing_queued_cancels_the_connect_at_once() {
    run(async |kit| {
        kit.dials.plan(Outcome::Hangs);
        let (_, client) = kit.open(&kit.plain_chain());
        kit.quiet().await;
        assert_eq!(kit.dials.pending(), 1);
        client.end();
        kit.quiet().await;
        assert_eq!(kit.dials.pending(), 0, "the attempt goes on for nobody");
        assert!(client.is_dropped());
        assert!((kit.closed("peer-finished") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn line_l09_queued_bytes_keep_the_line_until_it_is_up_and_the_end_follows_them() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND * 3));
        let (_, client) = kit.open(&kit.plain_chain());
        client.offer(b"ten bytes.");
        client.end();
        kit.pass(Duration::from_millis(2990)).await;
        assert!(!client.is_dropped());
        assert_eq!(kit.dials.pending(), 1);
        kit.pass(Duration::from_millis(20)).await;
        let server = kit.dials.peer(0);
        assert_eq!(server.take(), b"ten bytes.");
        assert!(server.is_shut_down());
        server.offer(b"answer");
        server.end();
        kit.quiet().await;
        assert_eq!(client.take(), b"answer");
        kit.assert_empty().await;
    });
}

#[test]
fn line_l09_queued_bytes_keep_the_line_no_longer_than_a_connect_may_take() {
    run(async |kit| {
        kit.dials.plan(Outcome::Hangs);
        let chain = chain_with(&kit, |_, end| end.connect_timeout = Millis::new(4000));
        let (_, client) = kit.open(&chain);
        client.offer(b"ten bytes.");
        client.end();
        kit.pass(Duration::from_millis(3990)).await;
        assert!(!client.is_dropped());
        kit.pass(Duration::from_millis(1100)).await;
        assert!(client.is_dropped());
        assert!((kit.closed("timeout") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn line_l09_a_reset_ends_it_at_once_whatever_is_queued() {
    run(async |kit| {
        kit.dials.plan(Outcome::Hangs);
        let (_, client) = kit.open(&kit.plain_chain());
        client.offer(b"ten bytes.");
        kit.quiet().await;
        client.reset();
        kit.quiet().await;
        assert!(client.is_dropped());
        assert_eq!(kit.dials.pending(), 0);
        assert!((kit.closed("peer-finished") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn line_l09_a_reset_is_seen_while_reading_is_paused() {
    run(async |kit| {
        kit.dials.plan(Outcome::Hangs);
        let chain = chain_with(&kit, |_, end| marks(&mut end.socket, 50_000, 20_000));
        let (_, client) = kit.open(&chain);
        client.offer(&bytes(1_000_000));
        kit.quiet().await;
        assert!(client.offered() > 0, "reading is paused at the mark");
        client.reset();
        kit.pass(Duration::from_millis(1100)).await;
        assert!(client.is_dropped());
        assert!((kit.closed("peer-finished") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn line_l09_a_reset_behind_an_end_of_input_is_seen() {
    run(async |kit| {
        kit.dials.plan(Outcome::Hangs);
        let (_, client) = kit.open(&kit.plain_chain());
        client.offer(b"ten bytes.");
        client.end();
        kit.quiet().await;
        client.reset();
        kit.pass(Duration::from_millis(1100)).await;
        assert!(client.is_dropped(), "nobody is left to answer to");
        kit.assert_empty().await;
    });
}

#[test]
fn line_l09_a_server_that_resets_while_it_is_not_read_is_seen() {
    run(async |kit| {
        let chain = chain_with(&kit, |entry, _| marks(&mut entry.socket, 50_000, 20_000));
        let (id, client) = kit.open(&chain);
        kit.quiet().await;
        let server = kit.dials.peer(0);
        client.window(0);
        server.offer(&bytes(1_000_000));
        kit.quiet().await;
        server.reset();
        kit.pass(Duration::from_millis(1100)).await;
        let state = kit.line(id).map(|line| line.state());
        assert_eq!(state, Some(LineState::Closing), "seen within a second");
        assert!(!client.is_dropped(), "L02: what it sent before is owed");
        client.open_window();
        kit.quiet().await;
        assert!(client.held() >= 50_000);
        assert!(client.is_shut_down() && client.is_dropped());
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t11_bytes_before_the_connect_are_queued_under_the_marks_and_never_dropped() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND * 8));
        let chain = chain_with(&kit, |_, end| marks(&mut end.socket, 200_000, 100_000));
        let (_, client) = kit.open(&chain);
        let sent = bytes(2_000_000);
        client.offer(&sent);
        kit.reported().await;
        let read = client.read() as usize;
        assert!((200_000..=200_000 + BUFFER).contains(&read), "{read}");
        kit.pass(SECOND * 7).await;
        assert_eq!(client.read() as usize, read);
        kit.pass(SECOND * 2).await;
        assert!(kit.dials.peer(0).take() == sent);
    });
}

#[test]
fn tcp_t12_a_refused_connect_ends_the_line_at_once() {
    run(async |kit| {
        let at_once = Outcome::FailsAtOnce(io::ErrorKind::NetworkUnreachable);
        for outcome in [Outcome::REFUSED, at_once] {
            kit.dials.plan(outcome);
            let (_, client) = kit.open(&kit.plain_chain());
            client.offer(b"queued");
            kit.quiet().await;
            assert!(client.is_dropped());
            assert_eq!(client.written(), 0);
        }
        assert!((kit.closed("connect-failed") - 2.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t12_a_connect_that_hangs_ends_the_line_after_its_time() {
    run(async |kit| {
        kit.dials.plan(Outcome::Hangs);
        let chain = chain_with(&kit, |entry, end| {
            entry.initial_idle_timeout = OFF;
            end.connect_timeout = Millis::new(2500);
        });
        let (_, client) = kit.open(&chain);
        kit.pass(Duration::from_millis(2490)).await;
        assert!(!client.is_dropped());
        let watched = r#"lineway_deadlines_pending{kind="connect"}"#;
        assert!((kit.metric(watched) - 1.0).abs() < 0.5);
        kit.pass(Duration::from_millis(1100)).await;
        assert!(client.is_dropped());
        assert!((kit.closed("timeout") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t12_a_deadline_that_was_met_is_watched_no_more() {
    run(async |kit| {
        let chain = chain_with(&kit, |entry, _| entry.initial_idle_timeout = OFF);
        kit.dials.plan(Outcome::UpAfter(SECOND * 9));
        let (_, client) = kit.open(&chain);
        kit.pass(SECOND * 9 + Duration::from_millis(20)).await;
        let watched = r#"lineway_deadlines_pending{kind="connect"}"#;
        assert!(kit.metric(watched).abs() < 0.5);
        kit.pass(SECOND * 60).await;
        assert!(!client.is_dropped());
    });
}
