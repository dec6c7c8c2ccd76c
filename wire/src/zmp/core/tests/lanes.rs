//! Two connections of one link (1.3, 1.4).

use super::*;
use crate::zmp::frame::ErrorCode;
use crate::zmp::monitor::{EventKind, READY_EDGE};

fn accepted() -> Origin {
    Origin::Accepted("tcp://bound".into())
}

#[test]
fn router_a_link_is_ready_with_both_lanes() {
    let mut rig = Rig::new(Router);
    let first = rig.attaching(Router, "A", accepted());
    let application = rig.attach(first).expect("attached");
    assert!(!rig.turn(application, Vec::new(), 0).ready);
    let refused = rig.send(Some("A"), hundred()).expect_err("X-5");
    let token = refused.token.expect("a route that is not ready gives a token");
    rig.feed(application, [data("early")]);
    assert_eq!(rig.recv(), None, "nothing is published before");
    rig.wakes();
    let mut second = rig.attaching(Router, "A", accepted());
    second.lane = Lane::Completion;
    let completion = rig.attach(second).expect("attached");
    assert!(rig.wakes().contains(&Wake::Connection(application)));
    assert!(rig.turn(application, Vec::new(), 0).ready);
    assert!(rig.turn(completion, Vec::new(), 0).ready);
    assert_eq!(first_text(&mut rig), "early");
    assert_eq!(rig.completion().id, token);
    let ready: Vec<_> = std::iter::from_fn(|| rig.core.next_event())
        .filter(|event| event.kind == EventKind::ConnectionReady)
        .map(|event| (event.value, event.flags))
        .collect();
    assert_eq!(ready, [(1, READY_EDGE)], "4.6: two lanes count once");
}

fn first_text(rig: &mut Rig) -> String {
    first(&rig.recv().expect("a record").record)
}

#[test]
fn router_lanes_come_in_any_order_and_are_paired_by_id() {
    let mut rig = Rig::new(Router);
    let half = |rig: &mut Rig, id: &str, lane: Lane| {
        let mut attaching = rig.attaching(Router, id, accepted());
        attaching.lane = lane;
        rig.attach(attaching).expect("attached")
    };
    half(&mut rig, "A", Lane::Completion);
    half(&mut rig, "B", Lane::Application);
    half(&mut rig, "B", Lane::Completion);
    half(&mut rig, "A", Lane::Application);
    let mut ids: Vec<_> = rig.core.peers().into_iter().map(|peer| peer.routing_id).collect();
    ids.sort();
    assert_eq!(ids, ["A", "B"]);
    assert!(rig.core.peers().iter().all(|peer| peer.ready));
}

#[test]
fn router_lanes_that_do_not_agree_are_refused() {
    let mut rig = Rig::new(Router);
    let endpoint = rig.endpoint("tcp://a");
    let dialled = Origin::Dialled(endpoint);
    let first = rig.attaching(Router, "A", dialled.clone());
    rig.attach(first).expect("attached");
    let same = rig.attaching(Router, "A", dialled.clone());
    assert_eq!(rig.attach(same), Err(Rejection::Lane), "the same lane twice");
    let mut other = rig.attaching(Router, "B", dialled);
    other.lane = Lane::Completion;
    assert_eq!(rig.attach(other), Err(Rejection::Lane), "another routing id");
    let mut single = rig.attaching(Dealer, "D", accepted());
    single.lane = Lane::Completion;
    assert_eq!(rig.attach(single), Err(Rejection::Lane), "a DEALER has one lane");
    let nameless = rig.attaching(Router, "", accepted());
    assert_eq!(rig.attach(nameless), Err(Rejection::Lane), "nothing pairs it");
    assert_eq!(rig.core.counters().peers_rejected[Rejection::Lane], 4);
}

#[test]
fn router_the_end_of_one_lane_ends_the_other() {
    let mut rig = Rig::new(Router);
    let (application, completion) = rig.accept_two("A");
    rig.ask(Some("A"), "x").expect("taken");
    rig.detach(completion);
    assert_eq!(rig.result(), (RequestResult::NotConnected, Errno::EHOSTUNREACH));
    assert!(rig.wakes().contains(&Wake::Connection(application)));
    let turn = rig.turn(application, Vec::new(), 0);
    assert_eq!((turn.close, turn.outgoing.len()), (Some(Closing::OtherLane), 0));
    rig.detach(application);
    assert_eq!(rig.core.peers(), []);
    let ended: Vec<_> = std::iter::from_fn(|| rig.core.next_event())
        .filter(|event| event.kind == EventKind::Disconnected)
        .map(|event| (event.connection, event.lane))
        .collect();
    let expected = [(Some(completion), Lane::Completion), (Some(application), Lane::Application)];
    assert_eq!(ended, expected);
}

#[test]
fn router_a_half_link_ends_with_its_connection() {
    let mut rig = Rig::new(Router);
    let first = rig.attaching(Router, "A", accepted());
    let half = rig.attach(first).expect("attached");
    rig.detach(half);
    let (application, _) = rig.accept_two("A");
    rig.send(Some("A"), record("x")).expect("taken");
    assert_eq!(texts(&rig.write(application)), ["x"]);
}

#[test]
fn router_each_kind_has_its_lane() {
    let mut rig = Rig::new(Router);
    let (application, completion) = rig.accept_two("A");
    rig.feed(application, [request(1, "ask")]);
    let token = rig.recv().expect("a request").reply.expect("a token");
    rig.send(Some("A"), record("data")).expect("taken");
    rig.ask(Some("A"), "asked").expect("taken");
    rig.core.try_reply(token, record("reply")).expect("taken");
    rig.core.set_weight(weight(7));
    rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    let out = rig.write(application);
    assert_eq!((texts(&out), out.len()), (vec!["data".into(), "asked".into()], 3));
    assert_eq!(out[2], Outgoing::Weight(weight(7)));
    let out = rig.write(completion);
    assert_eq!(out[0], Outgoing::Record(Kind::Reply(sequence(1)), record("reply")));
    let state = Outgoing::FlowState { state: FlowState::Paused, epoch: epoch(1) };
    assert_eq!(out[1..], [state], "X-8");
}

#[test]
fn zmp_x8_replies_and_records_on_the_wrong_lane_end_a_connection() {
    let mut rig = Rig::new(Router);
    let (application, completion) = rig.accept_two("A");
    let dealer = rig.accept(Dealer, "D");
    for connection in [application, dealer] {
        let fault = rig.try_turn(connection, vec![reply(1, "x")], 0).expect_err("a fault");
        assert_eq!(fault.code, ErrorCode::Kind);
    }
    for inbound in [data("x"), request(1, "x")] {
        let fault = rig.try_turn(completion, vec![inbound], 0).expect_err("a fault");
        assert_eq!(fault.code, ErrorCode::Kind);
    }
}

#[test]
fn zmp_x8_controls_on_the_wrong_lane_have_no_effect() {
    let mut rig = Rig::new(Router);
    let (application, completion) = rig.accept_two("A");
    rig.feed(application, [paused(1)]);
    rig.feed(completion, [Inbound::Weight(weight(7))]);
    let peer = rig.core.peers().remove(0);
    assert!(!peer.paused && peer.weight == Weight::DEFAULT);
    assert_eq!(rig.core.counters().flow.stale_total, 1, "D-F4: a wrong identity, without event");
    assert_eq!(rig.core.counters().malformed, 1);
    rig.feed(completion, [paused(1)]);
    assert!(rig.core.peers()[0].paused);
}

#[test]
fn router_dialled_lanes_are_paired_by_endpoint() {
    let mut rig = Rig::new(Router);
    let (a, b) = (rig.endpoint("tcp://a"), rig.endpoint("tcp://b"));
    let half = |rig: &mut Rig, id: &str, endpoint, lane| {
        let mut attaching = rig.attaching(Router, id, Origin::Dialled(endpoint));
        attaching.lane = lane;
        rig.attach(attaching).expect("attached")
    };
    half(&mut rig, "", a, Lane::Application);
    half(&mut rig, "B", b, Lane::Application);
    half(&mut rig, "", a, Lane::Completion);
    half(&mut rig, "B", b, Lane::Completion);
    let mut ids: Vec<_> = rig.core.peers().into_iter().map(|peer| peer.routing_id).collect();
    ids.sort();
    assert_eq!(ids, [Bytes::from_static(&[0, 0, 0, 0, 1]), Bytes::from("B")]);
}
