//! Backpressure and time limits of a line: L06, T04, T05, T06.

use std::time::Duration;

use lineway_wire::line::{Direction, FinishReason};
use lineway_wire::units::Millis;

use super::{OFF, SECOND, bytes, chain_with, marks};
use crate::line::pool::BUFFER;
use crate::testkit::{Kit, Peer, run};

/// An open line over a chain with these marks, and its two peers.
async fn marked(kit: &Kit, high: u64, low: u64) -> (Peer, Peer) {
    let chain = chain_with(kit, |entry, end| {
        marks(&mut entry.socket, high, low);
        marks(&mut end.socket, high, low);
        (entry.initial_idle_timeout, entry.active_idle_timeout) = (OFF, OFF);
        end.idle_timeout = OFF;
    });
    let (_, client) = kit.open(&chain);
    kit.quiet().await;
    (client, kit.dials.peer(kit.dials.len() - 1))
}

#[test]
fn line_l06_a_stalled_sink_pauses_its_source_at_the_mark_and_no_other() {
    run(async |kit| {
        let (client, server) = marked(&kit, 100_000, 50_000).await;
        server.window(0);
        client.offer(&bytes(1_000_000));
        server.offer(&bytes(300_000));
        kit.reported().await;
        let read = client.read() as usize;
        assert!(read >= 100_000, "paused under the mark: {read}");
        assert!(read <= 100_000 + BUFFER, "over the mark by more than a buffer: {read}");
        assert!(client.take() == bytes(300_000), "the other direction stood too");
        let line = kit.board.registry.snapshot().remove(0);
        assert_eq!(line.queued(Direction::Upstream), read as u64);
        assert!(line.paused(Direction::Upstream).paused());
        assert!(!line.paused(Direction::Downstream).paused());
        let pauses = r#"lineway_pauses_total{direction="upstream",node="in",reason="queue"}"#;
        assert!((kit.metric(pauses) - 1.0).abs() < 0.5);
        kit.pass(SECOND * 60).await;
        assert_eq!(client.read() as usize, read, "paused is paused");
    });
}

#[test]
fn tcp_t04_the_source_is_resumed_under_the_low_mark_and_nothing_is_lost() {
    run(async |kit| {
        let (client, server) = marked(&kit, 100_000, 50_000).await;
        server.window(0);
        let sent = bytes(1_000_000);
        client.offer(&sent);
        kit.quiet().await;
        let read = client.read();
        let queued = read as usize;
        // Down to the mark, which is not under it.
        server.window(queued - 50_000);
        kit.quiet().await;
        assert_eq!(client.read(), read, "resumed at the low mark already");
        server.window(queued - 50_000 + 1);
        kit.quiet().await;
        assert!(client.read() > read, "not resumed under the low mark");
        let mut got = server.take();
        while got.len() < sent.len() {
            kit.quiet().await;
            let some = server.take();
            assert!(!some.is_empty(), "it stopped at {}", got.len());
            got.extend(some);
        }
        assert!(got == sent);
    });
}

#[test]
fn tcp_t04_memory_is_bounded_by_the_marks_however_much_is_sent() {
    run(async |kit| {
        let (client, server) = marked(&kit, 512 * 1024, 256 * 1024).await;
        server.window(0);
        client.window(0);
        client.offer_endless();
        server.offer_endless();
        kit.reported().await;
        let most = 2.0 * (512 * 1024 + BUFFER) as f64;
        let queued = kit.metric(r#"lineway_queued_bytes{node="in"}"#);
        assert!((2.0 * 512.0 * 1024.0..=most).contains(&queued), "{queued}");
        client.reset();
        server.reset();
        kit.pass(SECOND * 2).await;
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t04_a_socket_that_takes_a_byte_at_a_time_gets_every_byte() {
    run(async |kit| {
        let (client, server) = marked(&kit, 1000, 10).await;
        server.write_at_most(1);
        client.read_at_most(7);
        let sent = bytes(20_000);
        client.offer(&sent);
        client.end();
        kit.quiet().await;
        assert!(server.take() == sent && server.is_shut_down());
    });
}

#[test]
fn tcp_t05_queued_bytes_have_the_linger_time_to_leave_and_no_longer() {
    run(async |kit| {
        for in_time in [true, false] {
            let chain = chain_with(&kit, |entry, end| {
                entry.socket.linger = Millis::new(7000);
                end.socket.linger = Millis::new(7000);
            });
            let before = kit.dials.len();
            let (id, client) = kit.open(&chain);
            kit.quiet().await;
            let server = kit.dials.peer(before);
            server.window(3);
            client.offer(b"queued");
            kit.quiet().await;
            assert!(kit.worker.finish_line(id, FinishReason::Admin));
            kit.pass(Duration::from_millis(6990)).await;
            assert!(!server.is_dropped());
            if in_time {
                server.open_window();
                kit.quiet().await;
                assert_eq!(server.take(), b"queued");
            } else {
                kit.pass(Duration::from_millis(20)).await;
                assert_eq!(server.take(), b"que");
            }
            assert!(server.is_dropped() && client.is_dropped());
        }
        assert!((kit.closed("admin") - 2.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t05_a_drain_whose_time_is_over_ends_a_line_at_once() {
    run(async |kit| {
        let (client, server) = marked(&kit, 1000, 10).await;
        server.window(0);
        client.offer(b"queued");
        kit.quiet().await;
        assert_eq!(kit.worker.finish_lines(FinishReason::Drain, |_| true), 1);
        kit.quiet().await;
        assert!(server.is_dropped() && client.is_dropped());
        assert!((kit.closed("drain") - 1.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t06_the_initial_limit_ends_a_silent_line_and_the_active_one_a_line_that_fell_silent() {
    run(async |kit| {
        let chain = chain_with(&kit, |entry, end| {
            entry.initial_idle_timeout = Millis::new(5000);
            entry.active_idle_timeout = Millis::new(20_000);
            end.idle_timeout = OFF;
        });
        let (_, silent) = kit.open(&chain);
        let (_, talker) = kit.open(&chain);
        kit.quiet().await;
        let server = kit.dials.peer(1);
        server.offer(b"the server may be the one that talks");
        kit.pass(Duration::from_millis(4990)).await;
        assert!(!silent.is_dropped());
        kit.pass(Duration::from_millis(20)).await;
        assert!(silent.is_dropped() && !talker.is_dropped());
        assert!((kit.closed("idle") - 1.0).abs() < 0.5);
        // Each payload moves the limit, in either direction.
        for peer in [&talker, &server, &talker] {
            kit.pass(SECOND * 14).await;
            peer.offer(b"x");
            kit.quiet().await;
        }
        kit.pass(Duration::from_millis(19_990)).await;
        assert!(!talker.is_dropped());
        kit.pass(Duration::from_millis(20)).await;
        assert!(talker.is_dropped());
        assert!((kit.closed("idle") - 2.0).abs() < 0.5);
        kit.assert_empty().await;
    });
}

#[test]
fn tcp_t06_zero_switches_each_limit_off_and_the_shorter_of_a_chain_holds() {
    run(async |kit| {
        // Initial off, active 10 s at the listener, 4 s at the connector: both limits of it.
        let chain = chain_with(&kit, |entry, end| {
            entry.initial_idle_timeout = OFF;
            entry.active_idle_timeout = Millis::new(10_000);
            end.idle_timeout = OFF;
        });
        let (_, silent) = kit.open(&chain);
        kit.pass(SECOND * 1000).await;
        assert!(!silent.is_dropped(), "the initial limit is off");
        silent.offer(b"x");
        kit.pass(SECOND * 11).await;
        assert!(silent.is_dropped(), "the active one is not");
        let chain = chain_with(&kit, |entry, end| {
            entry.initial_idle_timeout = Millis::new(10_000);
            entry.active_idle_timeout = OFF;
            end.idle_timeout = Millis::new(4000);
        });
        let (_, client) = kit.open(&chain);
        kit.pass(Duration::from_millis(3990)).await;
        assert!(!client.is_dropped());
        kit.pass(Duration::from_millis(20)).await;
        assert!(client.is_dropped(), "the connector's limit is the shorter one");
        let (client, _) = marked(&kit, 1000, 10).await;
        client.offer(b"x");
        kit.pass(SECOND * 1000).await;
        assert!(!client.is_dropped(), "all of them are off");
    });
}
