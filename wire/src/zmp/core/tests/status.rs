//! What a socket tells of itself (4.6, 4.7).

use super::*;
use crate::zmp::monitor::{ALL_EVENTS, Event, EventKind, READY_EDGE};
use crate::zmp::status::RecordKind;

#[test]
fn zmp_status_counts_what_waits_and_what_is_under_way() {
    let mut rig = Rig::new(Dealer);
    assert!(!rig.core.status().ready && rig.core.status().bound);
    let peer = rig.accept(Router, "A");
    for _ in 0..3 {
        rig.send(None, hundred()).expect("taken");
    }
    let mut turn = Turn { room: 1, ..Turn::default() };
    rig.core.turn(rig.now, peer, &mut turn).expect("no fault");
    rig.feed(peer, [data("12"), data("3456")]);
    rig.recv().expect("data");
    let status = rig.core.status();
    assert!(status.ready);
    let send = status.send;
    assert_eq!((send.pending_msgs, send.pending_bytes, send.bytes_in_flight), (2, 200, 100));
    assert_eq!((send.hwm.planned, send.hwm.applied, send.hwm.deferred), (HWM, HWM, 0), "X-4");
    let receive = status.receive;
    assert_eq!((receive.pending_msgs, receive.pending_bytes), (1, 68));
    assert_eq!(rig.core.queued(), 368);
    let peer = rig.core.peers().remove(0);
    assert_eq!((peer.queued_out, peer.queued_in), (300, 68));
    assert_eq!((peer.records_out, peer.records_in), (3, 2));
    rig.core.count_oversize();
    assert_eq!(rig.core.status().receive.oversize_total, 1);
}

#[test]
fn zmp_peers_tell_their_endpoint_and_state() {
    let mut rig = Rig::new(Router);
    let endpoint = rig.endpoint("tcp://a");
    let connection = rig.dial(Dealer, "A", endpoint);
    rig.feed(connection, [paused(1), Inbound::Weight(weight(7))]);
    let peer = rig.core.peers().remove(0);
    assert_eq!((&*peer.routing_id, peer.kind, &*peer.endpoint), (&b"A"[..], Dealer, "tcp://a"));
    assert_eq!(
        (peer.connection, peer.weight, &*peer.remote),
        (Some(connection), weight(7), "remote")
    );
    assert!(peer.paused && peer.ready && !peer.standby);
}

#[test]
fn zmp_counters_by_kind_and_direction() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [data("12"), request(1, "345")]);
    rig.recv();
    let token = rig.recv().expect("a request").reply.expect("a token");
    rig.core.try_reply_error(token, Errno::EIO, None).expect("taken");
    let counters = rig.core.counters();
    assert_eq!(counters.received.records[RecordKind::Request], 1);
    assert_eq!(counters.received.bytes[RecordKind::Data], 2);
    assert_eq!(counters.sent.records[RecordKind::ErrorReply], 1);
    rig.detach(peer);
    let counters = rig.core.counters();
    assert_eq!((counters.peers_opened, counters.peers_closed[Disconnected::Transport]), (1, 1));
}

#[test]
fn zmp_events_of_a_link() {
    let mut rig = Rig::new(Dealer);
    rig.wakes();
    let first = rig.accept(Router, "A");
    assert!(rig.wakes().contains(&Wake::Monitor));
    rig.accept(Router, "B");
    rig.core.detach(rig.now, first, Disconnected::Unknown);
    rig.accept(Router, "C");
    let told: Vec<_> = std::iter::from_fn(|| rig.core.next_event())
        .map(|event| (event.kind, event.value, event.flags, event.routing_id))
        .collect();
    let ready =
        |value, id: &'static str| (EventKind::ConnectionReady, value, READY_EDGE, Bytes::from(id));
    let ended = (EventKind::Disconnected, 0, 0, Bytes::from("A"));
    assert_eq!(told, [ready(1, "A"), ready(2, "B"), ended, ready(2, "C")]);
}

#[test]
fn zmp_the_monitor_is_bounded_and_has_a_mask() {
    let mut rig = Rig::new(Dealer);
    rig.core.set_monitor(EventKind::Disconnected.bit(), 1);
    let peers = ["A", "B"].map(|id| rig.accept(Router, id));
    for peer in peers {
        rig.detach(peer);
    }
    let event = rig.core.next_event().expect("one");
    assert_eq!((event.kind, event.routing_id), (EventKind::Disconnected, Bytes::from("A")));
    assert_eq!(rig.core.next_event(), None, "4.6: the new one was dropped");
    assert_eq!(rig.core.monitor().dropped(), 1);
    rig.core.set_monitor(ALL_EVENTS, 10);
    rig.core.report(Event::new(EventKind::Listening, 0, "tcp://x".into(), "".into()));
    assert_eq!(rig.core.next_event().map(|event| event.kind), Some(EventKind::Listening));
}

#[test]
fn zmp_options_that_never_change() {
    let mut rig = Rig::new(Router);
    rig.core.set_options(|options| {
        options.kind = Dealer;
        options.routing_id = rid("other");
        options.weight = weight(1);
        options.mandatory = false;
    });
    let options = rig.core.options();
    assert_eq!((options.kind, &options.routing_id), (Router, &rid("M")));
    assert_eq!((options.weight, options.mandatory), (Weight::DEFAULT, false));
}
