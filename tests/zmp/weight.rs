//! Delivery of weights between peers: items 6 to 13.

use lineway::zmp::monitor::EventKind::{ConnectionReady, Disconnected, PeerWeightChanged};
use lineway::zmp::monitor::EventKind::{SendFlowPaused, SendFlowResumed};
use lineway::zmp::{
    Context, Errno, Lane, Outcome, Record, SocketKind, SocketOptions, SubmitResult, status,
};

use crate::common::until;
use crate::kit::{
    BLOCKED, HUGE, Model, Under, dealer, dealer_with, follows, id, listen_small, parts, refusal,
    router_with, wait,
};
use crate::raw::{DATA, DEALER, Peer, ROUTER, Ready, control, flow_state, hello, listen, weight};

/// The weight of the peer with this routing id, as the socket has it.
fn known(peers: &[status::PeerStatus], id: &str) -> Option<u32> {
    let peer = peers.iter().find(|peer| peer.routing_id == id.as_bytes() && !peer.standby)?;
    Some(peer.weight.get())
}

/// The WEIGHT and FLOWSTATE that came between records.
fn controls(peer: &Peer) -> Vec<Vec<u8>> {
    peer.controls.iter().map(|frame| control(&frame.body)).collect()
}

#[test]
fn item_06_both_sides_use_the_weight_that_was_set_before() {
    let d = dealer_with("D1", |options| options.core.weight = lineway::zmp::Weight::MOST);
    let (mut a, mut b, mut c) = (d.peer(ROUTER, "A"), d.peer(ROUTER, "B"), d.peer(DEALER, "C"));
    for far in [&mut a, &mut b, &mut c] {
        assert_eq!(far.control(), weight(10_000)[8..]);
    }
    a.weighs(&d, 200);
    c.weighs(&d, 0);
    // B said nothing: 100.
    assert_eq!(["A", "B", "C"].map(|id| known(&d.peers(), id)), [Some(200), Some(100), Some(0)]);
    let mut model = Model::new(&[('A', 200), ('B', 100), ('C', 0)]);
    let order = follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b), ('C', &mut c)], "", 30);
    assert_eq!(order.matches('A').count(), 20);
    assert_eq!(order.matches('B').count(), 10);
}

#[test]
fn item_06_two_of_the_library_use_the_weights_of_each_other() {
    let (x, y) = (dealer("X"), dealer("Y"));
    x.set_weight(3).unwrap();
    y.set_weight(0).unwrap();
    wait(y.connect(&format!("tcp://{}", x.bound()))).unwrap();
    assert_eq!(x.event(PeerWeightChanged).value, 0);
    assert_eq!(y.event(PeerWeightChanged).value, 3);
    assert_eq!(refusal(&x.try_send("to nobody", 0).unwrap_err()), BLOCKED);
    y.say("to X");
    assert_eq!(x.hear(), b"to X");
}

#[test]
fn item_07_a_change_is_an_event_of_its_connection() {
    let d = dealer("D1");
    let (listener, endpoint) = listen();
    wait(d.connect(&endpoint)).unwrap();
    let mut far = Peer::accept(&listener, ROUTER, b"R1");
    let ready = d.event(ConnectionReady).connection;
    assert!(ready.is_some());
    for value in [7, 0, 10_000] {
        far.send(&weight(value));
        let event = d.event(PeerWeightChanged);
        assert_eq!(event.value, u64::from(value));
        assert_eq!(event.lane, Lane::Application);
        assert_eq!((event.connection, event.flags), (ready, 0));
        assert_eq!(&*event.routing_id, b"R1");
    }
    // The other way: one frame for each change.
    for value in [9, 0, 5] {
        d.set_weight(value).unwrap();
        assert_eq!(far.control(), weight(value)[8..]);
    }
    d.say("nothing else");
    assert_eq!(far.record().single(), b"nothing else");
    assert!(far.controls.is_empty());

    // Without a network.
    let context = Context::new().unwrap();
    let d = Under::new(context.dealer(SocketOptions::new(SocketKind::Dealer, id("D2"))));
    let r = Under::new(context.router(SocketOptions::new(SocketKind::Router, id("R2"))));
    wait(r.bind("inproc://weights")).unwrap();
    wait(d.connect("inproc://weights")).unwrap();
    let ready = d.event(ConnectionReady).connection;
    r.event(ConnectionReady);
    for value in [42, 0] {
        r.set_weight(value).unwrap();
        let event = d.event(PeerWeightChanged);
        assert_eq!((event.value, event.connection), (u64::from(value), ready));
        assert_eq!(event.lane, Lane::Application);
    }
}

#[test]
fn item_08_weights_are_no_records_and_the_same_again_is_no_event() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    for bytes in [weight(50), weight(50), weight(50)] {
        far.send(&bytes);
    }
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!(d.events(PeerWeightChanged), 1);
    // What is none has no effect, and the link stays.
    let long = [&b"WEIGHT"[..], &[0; 5]].concat();
    let short = [&b"WEIGHT"[..], &[0; 3]].concat();
    for body in [&long, &short, &b"WEIGHT".to_vec()] {
        far.send(&control(body));
    }
    far.send(&weight(10_001));
    far.send(&weight(u32::MAX));
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!((known(&d.peers(), "R1"), d.events(PeerWeightChanged)), (Some(50), 1));
    assert_eq!(d.counters().malformed, 5);

    for _ in 0..3 {
        d.set_weight(60).unwrap();
    }
    d.say("after");
    assert_eq!(far.record().single(), b"after");
    assert_eq!(controls(&far), [weight(60)]);
}

#[test]
fn item_09_changes_within_a_record_do_not_break_it_and_the_last_one_counts() {
    // Without a limit, so that more can be queued behind the record.
    let d = dealer_with("D1", |options| options.core.send_hwm = 0);
    let mut a = d.peer_at(listen_small(), DEALER, "A");
    let mut b = d.peer(DEALER, "B");
    // A has the first turn. It takes the beginning of the record, and no more.
    let part = vec![7; HUGE / 4];
    let record = Record::from_parts((0..4).map(|_| part.clone().into())).unwrap();
    wait(d.send(record)).unwrap();
    a.read_at_least(100);
    for value in [1, 2, 3] {
        d.set_weight(value).unwrap();
    }
    for value in [5, 0, 700] {
        a.send(&weight(value));
    }
    d.barrier(&mut a);
    // What follows is chosen by the newest weight: 700 - 100 to 100 + 100.
    let mut model = Model::new(&[('A', 100), ('B', 100)]);
    assert_eq!(model.next(""), 'A');
    model.weighs('A', 700);
    d.say("next");
    // One unbroken record, which `record` proves frame by frame, and one weight at most behind it.
    let whole = a.record();
    assert_eq!((whole.kind, whole.parts.len()), (DATA, 4));
    assert!(whole.parts.iter().all(|seen| *seen == part));
    assert_eq!(a.controls, []);
    assert_eq!(model.next(""), 'A');
    assert_eq!(a.record().single(), b"next");
    assert_eq!(controls(&a), [weight(3)]);
    follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "", 16);
}

#[test]
fn item_10_weight_zero_does_not_move_a_record_that_was_admitted() {
    let d = dealer("D1");
    let mut a = d.peer_at(listen_small(), DEALER, "A");
    let mut b = d.peer(DEALER, "B");
    let part = vec![9; HUGE];
    wait(d.send(Record::from_parts([part.clone().into(), "tail".into()]).unwrap())).unwrap();
    a.read_at_least(100);
    a.weighs(&d, 0);
    for text in ["1", "2", "3"] {
        d.say(text);
        assert_eq!(b.record().single(), text.as_bytes());
    }
    let whole = a.record();
    assert_eq!((whole.parts.len(), &*whole.parts[1]), (2, &b"tail"[..]));
    assert_eq!(whole.parts[0], part);
    a.weighs(&d, 100);
    // B stands at 0 and A where its own record left it.
    d.say("4");
    assert_eq!(b.record().single(), b"4");
    d.say("5");
    assert_eq!(a.record().single(), b"5");
}

#[test]
fn item_11_a_weight_wakes_those_that_wait_and_zero_does_not() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    far.weighs(&d, 0);
    let send = d.try_send("data", 71).unwrap_err();
    let request = d.try_request("question", None, 72).unwrap_err();
    assert_eq!((refusal(&send), refusal(&request)), (BLOCKED, BLOCKED));
    // Not again 0, and not what has no effect.
    far.send(&weight(0));
    far.send(&weight(10_001));
    d.barrier(&mut far);
    d.has_nothing();
    far.weighs(&d, 5);
    let tokens = [(send.token(), 71), (request.token(), 72)];
    let mut got = [(); 2].map(|()| {
        let completion = wait(d.next_completion()).unwrap();
        assert_eq!((completion.outcome, completion.peer), (Outcome::Writable, None));
        (Some(completion.id), completion.context)
    });
    got.sort_by_key(|got| got.1);
    assert_eq!(got, tokens);
    d.barrier(&mut far);
    d.has_nothing();

    // A token that waits for something else outlives a weight of 0.
    far.pauses(&d, 1);
    let paused = d.try_send("data", 73).unwrap_err();
    far.weighs(&d, 0);
    d.barrier(&mut far);
    d.has_nothing();
    far.resumes(&d, 2);
    far.weighs(&d, 1);
    let completion = wait(d.next_completion()).unwrap();
    assert_eq!((Some(completion.id), completion.context), (paused.token(), 73));
    wait(d.send("data")).unwrap();
    assert_eq!(far.record().single(), b"data");
    assert_eq!((d.counters().tokens_issued, d.counters().tokens_finished), (3, 3));
}

#[test]
fn item_12_a_limit_below_ten_bytes_disturbs_no_control_frame() {
    let d = dealer_with("D1", |options| options.core.max_message_size = 4);
    let (listener, endpoint) = listen();
    wait(d.connect(&endpoint)).unwrap();
    let mut peer = Peer::of(crate::raw::accept(&listener));
    peer.send(&hello(ROUTER, b"R1"));
    peer.expect_hello();
    let properties = peer.expect_properties();
    let most = properties.iter().find(|(name, _)| name == "Zlink-Max-Message-Size").unwrap();
    assert_eq!(most.1, 4_u64.to_be_bytes());
    peer.send(&Ready::new(ROUTER, b"R1").bytes());
    d.event(ConnectionReady);
    peer.send(&[weight(300), flow_state(true, 1), flow_state(false, 2)].concat());
    assert_eq!(d.event(PeerWeightChanged).value, 300);
    assert_eq!(d.event(SendFlowPaused).value, 1);
    assert_eq!(d.event(SendFlowResumed).value, 2);
    d.set_weight(9).unwrap();
    assert_eq!(peer.control(), weight(9)[8..]);
    d.set_receive_flow_state(lineway::zmp::FlowState::Paused).unwrap();
    assert_eq!(peer.control().len(), 19);
    d.set_receive_flow_state(lineway::zmp::FlowState::Running).unwrap();
    assert_eq!(peer.control().len(), 19);
    // Records are limited, part by part and as a whole, both ways.
    let too_large = (SubmitResult::InvalidArgument, Errno::EMSGSIZE, false);
    assert_eq!(refusal(&d.try_send("12345", 0).unwrap_err()), too_large);
    assert_eq!(refusal(&wait(d.send(parts(&["123", "45"]))).unwrap_err()), too_large);
    assert_eq!(refusal(&d.try_request("12345", None, 0).unwrap_err()), too_large);
    assert_eq!(d.counters().oversize_out, 3);
    d.say(parts(&["12", "34"]));
    assert_eq!(peer.record().parts, [b"12", b"34"]);
    peer.data(&[b"12", b"34"]);
    assert_eq!(wait(d.recv()).unwrap().parts(), ["12", "34"]);
    peer.data(&[b"123", b"45"]);
    assert_eq!(peer.end(), [4]);
    d.event(Disconnected);
    assert!(d.try_recv().is_err());

    // And the limit that a peer tells is one.
    let d = dealer("D2");
    let at = d.bound();
    let mut peer = Peer::connect_with(at, &Ready { most: 4, ..Ready::new(DEALER, b"D3") });
    d.event(ConnectionReady);
    assert_eq!(refusal(&d.try_send("12345", 0).unwrap_err()), too_large);
    d.say("1234");
    assert_eq!(peer.record().single(), b"1234");
}

#[test]
fn item_13_a_reconnected_link_has_the_weight_that_it_tells() {
    let d = dealer("D1");
    let mut a = d.peer(DEALER, "A");
    let mut b = d.peer(DEALER, "B");
    a.weighs(&d, 300);
    a.leave(&d);
    until("the link is gone", || known(&d.peers(), "A").is_none());
    a.back(&d);
    // Nothing of the old link is left.
    assert_eq!(known(&d.peers(), "A"), Some(100));
    a.weighs(&d, 50);
    assert_eq!(known(&d.peers(), "A"), Some(50));
    let mut model = Model::new(&[('A', 50), ('B', 100)]);
    follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "", 9);
    a.leave(&d);
    a.back(&d);
    a.send(&weight(50));
    assert_eq!(d.event(PeerWeightChanged).value, 50);
}

#[test]
fn item_13_a_promoted_standby_has_the_weight_that_it_told_last() {
    // Both connect; the smaller id is that of the socket, so the link that it dialled wins (R-D2).
    let r = router_with("M", |options| options.send_timeout = Some(crate::kit::ms(50)));
    let at = r.bound();
    let mut winner = r.peer(DEALER, "Z");
    let mut standby = Peer::connect(at, DEALER, b"Z");
    standby.send(&[weight(30), weight(0)].concat());
    until("the other link stands by", || r.peers().iter().any(|peer| peer.standby));
    let told = || r.peers().iter().find(|peer| peer.standby).map(|peer| peer.weight.get());
    until("it told its weight", || told() == Some(0));
    let z = id("Z");
    wait(r.send(&z, "to the winner")).unwrap();
    assert_eq!(winner.record().single(), b"to the winner");
    wait(r.disconnect(&winner.endpoint)).unwrap();
    assert_eq!(winner.end(), b"");
    until("it is promoted", || r.peers().iter().any(|peer| peer.ready && !peer.standby));
    assert_eq!(known(&r.peers(), "Z"), Some(0));
    let refused = r.try_send(&z, "not at 0", 4).unwrap_err();
    assert_eq!(refusal(&refused), BLOCKED);
    standby.send(&weight(9));
    let completion = wait(r.next_completion()).unwrap();
    assert_eq!((Some(completion.id), completion.peer), (refused.token(), Some(z.clone())));
    wait(r.send(&z, "promoted")).unwrap();
    assert_eq!(standby.record().single(), b"promoted");
}
