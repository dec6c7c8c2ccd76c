use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineway_wire::zmp::Kind;
use lineway_wire::zmp::broker;
use lineway_wire::zmp::outcome::RequestResult;
use lineway_wire::zmp::status::Drop as Dropped;

use super::{service, text};
use crate::metrics::{HandshakeFailure, SocketNow};

/// A socket that the test plays.
#[derive(Clone, Default)]
struct Played(Arc<Mutex<SocketNow>>);

impl Played {
    fn with(&self, change: impl FnOnce(&mut SocketNow)) {
        change(&mut self.0.lock().unwrap());
    }

    fn now(&self) -> impl Fn() -> SocketNow + Send + Sync + 'static {
        let played = Arc::clone(&self.0);
        move || *played.lock().unwrap()
    }
}

fn one() -> std::num::NonZeroU64 {
    std::num::NonZeroU64::MIN
}

#[test]
fn case_m07_what_a_socket_counts_is_read_at_a_scrape() {
    let metrics = service(&[("d", "DealerSocket"), ("r", "RouterSocket")], 0);
    let (dealer, router) = (Played::default(), Played::default());
    let node = |name: &str, kind| metrics.node(&Arc::from(name), kind);
    let _dealer = node("d", "DealerSocket").watch_socket(dealer.now());
    let _router = node("r", "RouterSocket").watch_socket(router.now());
    dealer.with(|now| {
        now.counters.sent.count(Kind::Request(one()), 100);
        now.counters.sent.count(Kind::Request(one()), 20);
        now.counters.received.count(Kind::Reply(one()), 7);
        now.counters.completions[RequestResult::Ok] += 1;
        now.counters.peers_opened = 3;
        now.counters.tokens_issued = 5;
        now.counters.tokens_finished = 3;
        now.handshakes[HandshakeFailure::Timeout as usize] = 2;
        now.status.flow.paused_connections = 1;
        now.status.flow.pause_duration = Duration::from_millis(1500);
        now.weights = 400;
        now.queued = 640;
    });
    router.with(|now| {
        now.counters.received.count(Kind::Request(one()), 100);
        now.counters.sent.count(Kind::ErrorReply(one()), 4);
        now.counters.dropped[Dropped::NoRoute] = 2;
        now.counters.epochs_issued = 9;
        let mut status = broker::Status { held_requests: 4, paused: true, ..Default::default() };
        status.counters.data_dropped[broker::DropReason::NoRoute as usize] = 1;
        status.counters.error_replies[RequestResult::TimedOut as usize] = 1;
        now.broker = Some(status);
    });
    let page = text(&metrics);
    let value = |name: &str, labels: &[(&str, &str)]| page.value(name, labels).expect(name);
    let is = |name: &str, labels: &[(&str, &str)], wanted: f64| {
        let found = value(name, labels);
        assert!((found - wanted).abs() < 1e-9, "{name}{labels:?} is {found}, not {wanted}");
    };
    let up = [("node", "d"), ("kind", "request"), ("direction", "upstream")];
    is("lineway_socket_records_total", &up, 2.0);
    is("lineway_socket_payload_bytes_total", &up, 120.0);
    let down = [("node", "d"), ("kind", "reply"), ("direction", "downstream")];
    is("lineway_socket_payload_bytes_total", &down, 7.0);
    is("lineway_socket_requests_pending", &[("node", "d")], 1.0);
    is("lineway_socket_completions_total", &[("node", "d"), ("result", "ok")], 1.0);
    is("lineway_socket_peers", &[("node", "d")], 3.0);
    is("lineway_socket_wait_tokens", &[("node", "d")], 2.0);
    let late = [("node", "d"), ("reason", "timeout")];
    is("lineway_socket_handshake_failures_total", &late, 2.0);
    is("lineway_socket_peers_paused", &[("node", "d")], 1.0);
    is("lineway_socket_last_pause_seconds", &[("node", "d")], 1.5);
    is("lineway_socket_peer_weights", &[("node", "d")], 400.0);
    is("lineway_queued_bytes", &[("node", "d")], 640.0);
    // From a client a request goes upstream at both sockets, and its answer back down.
    let up = [("node", "r"), ("kind", "request"), ("direction", "upstream")];
    is("lineway_socket_records_total", &up, 1.0);
    let down = [("node", "r"), ("kind", "error_reply"), ("direction", "downstream")];
    is("lineway_socket_records_total", &down, 1.0);
    is("lineway_socket_dropped_total", &[("node", "r"), ("reason", "no_route")], 3.0);
    is("lineway_flow_epochs_issued_total", &[("node", "r")], 9.0);
    is("lineway_broker_held_requests", &[("node", "r")], 4.0);
    is("lineway_broker_paused", &[("node", "r")], 1.0);
    let timed_out = [("node", "r"), ("result", "timed_out")];
    is("lineway_broker_error_replies_total", &timed_out, 1.0);
}

#[test]
fn the_counters_of_a_node_go_on_when_another_socket_takes_its_place() {
    let metrics = service(&[("r", "RouterSocket")], 0);
    let node = metrics.node(&Arc::from("r"), "RouterSocket");
    let before = text(&metrics).series();
    let opened = || text(&metrics).value("lineway_socket_peers_opened_total", &[("node", "r")]);
    let queued = || text(&metrics).value("lineway_queued_bytes", &[("node", "r")]);
    let first = Played::default();
    let watched = node.watch_socket(first.now());
    first.with(|now| (now.counters.peers_opened, now.queued) = (2, 100));
    assert_eq!((opened(), queued()), (Some(2.0), Some(100.0)));
    let second = Played::default();
    let also = node.watch_socket(second.now());
    second.with(|now| (now.counters.peers_opened, now.queued) = (1, 10));
    first.with(|now| now.counters.peers_opened = 5);
    // What it counted last is read when it goes.
    drop(watched);
    assert_eq!((opened(), queued()), (Some(6.0), Some(10.0)));
    second.with(|now| now.counters.peers_opened = 4);
    assert_eq!(opened(), Some(9.0));
    drop(also);
    assert_eq!((opened(), queued()), (Some(9.0), Some(0.0)));
    assert_eq!(text(&metrics).series(), before, "every series is there from the start");
}
