//! Levels (2.8) and wakes.

use super::*;

#[test]
fn dealer_d_p1_input_is_data() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "x").expect("taken");
    rig.wakes();
    rig.feed(peer, [reply(1, "y")]);
    assert!(!rig.core.readiness().input);
    assert_eq!(rig.wakes(), [Wake::Completions]);
    rig.feed(peer, [data("z")]);
    assert!(rig.core.readiness().input);
    assert_eq!(rig.wakes(), [Wake::Readable]);
    rig.recv().expect("data");
    assert!(!rig.core.readiness().input);
}

#[test]
fn dealer_d_p3_output_is_a_peer_with_room_or_an_unread_writable() {
    let mut rig = Rig::new(Dealer);
    assert!(!rig.core.readiness().output);
    let peer = rig.accept(Router, "A");
    assert!(rig.core.readiness().output);
    rig.fill(None);
    assert!(!rig.core.readiness().output);
    rig.write(peer);
    rig.feed(peer, [paused(1)]);
    assert_eq!(
        (rig.core.readiness().output, rig.core.readiness().completion),
        (true, true),
        "an unread WRITABLE holds both"
    );
    rig.completion();
    let readiness = rig.core.readiness();
    assert!(!readiness.output && !readiness.completion);
    rig.feed(peer, [running(2)]);
    assert!(rig.core.readiness().output);
    rig.feed(peer, [Inbound::Weight(weight(0))]);
    assert!(!rig.core.readiness().output);
}

#[test]
fn dealer_d_p2_a_reply_sets_completion_and_not_output() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "x").expect("taken");
    rig.feed(peer, [paused(1), reply(1, "y")]);
    let readiness = rig.core.readiness();
    assert!(readiness.completion && !readiness.output);
}

#[test]
fn zmp_a_connection_is_woken_once_until_its_turn() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.turn(peer, Vec::new(), 0);
    rig.wakes();
    rig.send(None, record("1")).expect("taken");
    rig.send(None, record("2")).expect("taken");
    assert_eq!(rig.wakes(), [Wake::Connection(peer)]);
    rig.send(None, record("3")).expect("taken");
    assert_eq!(rig.wakes(), [], "it was told");
    let mut turn = Turn { room: 1, ..Turn::default() };
    rig.core.turn(rig.now, peer, &mut turn).expect("no fault");
    assert_eq!((texts(&turn.outgoing), turn.more), (vec!["1".to_owned()], true));
    rig.send(None, record("4")).expect("taken");
    assert_eq!(rig.wakes(), [], "it knows of more");
    let turn = rig.turn(peer, Vec::new(), 0);
    assert_eq!((texts(&turn.outgoing).len(), turn.more), (3, false));
    rig.send(None, record("5")).expect("taken");
    assert_eq!(rig.wakes(), [Wake::Connection(peer)]);
}

#[test]
fn zmp_a_turn_gives_what_there_is_room_for() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    for _ in 0..10 {
        rig.send(None, hundred()).expect("taken");
    }
    // A record of 36 bytes with its header is about 52.
    let mut turn = Turn { room: 200, ..Turn::default() };
    rig.core.turn(rig.now, peer, &mut turn).expect("no fault");
    assert_eq!((turn.outgoing.len(), turn.more), (4, true));
    let mut none = Turn::default();
    rig.core.turn(rig.now, peer, &mut none).expect("no fault");
    assert_eq!((none.outgoing.len(), none.more), (0, true));
}

#[test]
fn zmp_an_unknown_connection_is_told_to_close() {
    let mut rig = Rig::new(Dealer);
    let mut turn = Turn { received: vec![data("x")], written: 7, ..Turn::default() };
    rig.core.turn(rig.now, ConnectionId(77), &mut turn).expect("no fault");
    assert!(turn.close.is_some() && turn.received.is_empty() && turn.written == 0);
    rig.core.detach(rig.now, ConnectionId(77), Disconnected::Unknown);
}
