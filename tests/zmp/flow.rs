//! Receive-flow states: items 40 to 48.

use std::time::Instant;

use lineway::zmp::monitor::EventKind::{
    ConnectionReady, Disconnected, FlowStateStale, SendFlowPaused, SendFlowResumed,
};
use lineway::zmp::monitor::{SEND_FLOW_WRITABLE, STALE_EPOCH};
use lineway::zmp::status::FlowStatus;
use lineway::zmp::{FlowState, Lane, Outcome, Record};

use crate::kit::{BLOCKED, HUGE, dealer, dealer_with, id, listen_small, ms, refusal, router, wait};
use crate::raw::{DATA, DEALER, Peer, ROUTER, accept, control, flow_state, hello, listen, weight};

/// The control frames that came between records.
fn controls(peer: &mut Peer) -> Vec<Vec<u8>> {
    peer.controls.drain(..).map(|frame| control(&frame.body)).collect()
}

#[test]
fn item_40_the_state_is_absolute() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    for _ in 0..3 {
        d.set_receive_flow_state(FlowState::Paused).unwrap();
    }
    d.say("one");
    assert_eq!(far.record().single(), b"one");
    assert_eq!(controls(&mut far), [flow_state(true, 1)]);
    // One RUNNING ends it, however often it was paused.
    for _ in 0..2 {
        d.set_receive_flow_state(FlowState::Running).unwrap();
    }
    d.say("two");
    assert_eq!(far.record().single(), b"two");
    assert_eq!(controls(&mut far), [flow_state(false, 2)]);
    assert_eq!(d.counters().epochs_issued, 2);

    // The first setting is sent, even if it is RUNNING.
    let d = dealer("D2");
    let mut far = d.peer(ROUTER, "R1");
    d.set_receive_flow_state(FlowState::Running).unwrap();
    assert_eq!(control(&far.control()), flow_state(false, 1));
}

#[test]
fn item_41_the_frame_has_an_epoch_and_no_other_identity() {
    let d = dealer("D1");
    let (listener, endpoint) = listen();
    wait(d.connect(&endpoint)).unwrap();
    let mut a = Peer::of(accept(&listener));
    a.send(&hello(ROUTER, b"A"));
    a.expect_hello();
    let names: Vec<_> = a.expect_properties().into_iter().map(|(name, _)| name).collect();
    let expected =
        ["Socket-Type", "Routing-Id", "Zlink-Max-Message-Size", "Zlink-Lane-Count", "Zlink-Lane"];
    assert_eq!(names, expected);
    a.send(&crate::raw::Ready::new(ROUTER, b"A").bytes());
    d.event(ConnectionReady);
    d.set_receive_flow_state(FlowState::Paused).unwrap();
    let frame = a.frame();
    let body = [&b"FLOWSTATE\x01\x01"[..], &1_u64.to_be_bytes()].concat();
    assert_eq!((frame.body.len(), frame.body), (19, body));

    // Applied to the connection that carried it, and to no other.
    let mut b = d.peer(ROUTER, "B");
    assert_eq!(control(&b.control()), flow_state(true, 1));
    b.pauses(&d, 9);
    for text in ["1", "2", "3"] {
        d.say(text);
        assert_eq!(a.record().single(), text.as_bytes());
    }
    a.send(&flow_state(true, 1));
    d.event(SendFlowPaused);
    assert_eq!(refusal(&d.try_send("nobody", 0).unwrap_err()), BLOCKED);
    b.resumes(&d, 10);
    d.say("4");
    assert_eq!(b.record().single(), b"4");
    // The old layout of 35 bytes, and other bodies that are none, have no effect.
    let wrong: [Vec<u8>; 5] = [
        [&b"FLOWSTATE\x01\x00"[..], &[0; 24]].concat(),
        [&b"FLOWSTATE\x02\x00"[..], &11_u64.to_be_bytes()].concat(),
        [&b"FLOWSTATE\x01\x02"[..], &11_u64.to_be_bytes()].concat(),
        [&b"FLOWSTATE\x01\x00"[..], &0_u64.to_be_bytes()].concat(),
        b"FLOWSTATE".to_vec(),
    ];
    assert_eq!(wrong[0].len(), 35);
    for body in wrong {
        a.send(&control(&body));
    }
    d.barrier(&mut a);
    assert_eq!((d.counters().malformed, d.status().flow.stale_total), (5, 0));
    assert_eq!(d.status().flow.paused_connections, 1);
}

#[test]
fn item_42_an_epoch_that_is_not_newer_is_stale() {
    let d = dealer("D1");
    let (listener, endpoint) = listen();
    wait(d.connect(&endpoint)).unwrap();
    let mut far = Peer::accept(&listener, ROUTER, b"R1");
    let ready = d.event(ConnectionReady).connection;
    far.send(&[flow_state(true, 5), flow_state(false, 5), flow_state(false, 4)].concat());
    let paused = d.event(SendFlowPaused);
    assert_eq!((paused.value, paused.connection, paused.lane), (5, ready, Lane::Application));
    for epoch in [5, 4] {
        let stale = d.event(FlowStateStale);
        assert_eq!((stale.value, stale.flags, stale.connection), (epoch, STALE_EPOCH, ready));
    }
    assert_eq!(d.status().flow.stale_total, 2);
    assert_eq!(refusal(&d.try_send("still paused", 0).unwrap_err()), BLOCKED);
    // A newer epoch with the same state is remembered, and is no event.
    far.send(&[flow_state(true, 8), flow_state(false, 7)].concat());
    assert_eq!(d.event(FlowStateStale).value, 7);
    far.send(&flow_state(false, 9));
    let resumed = d.event(SendFlowResumed);
    assert_eq!((resumed.value, resumed.flags), (9, SEND_FLOW_WRITABLE));
    assert_eq!(d.events(SendFlowPaused), 0);

    // Another connection has epochs of its own.
    drop(far);
    d.event(Disconnected);
    let mut far = Peer::accept(&listener, ROUTER, b"R1");
    let again = d.event(ConnectionReady).connection;
    assert_ne!(again, ready);
    far.send(&flow_state(true, 1));
    let paused = d.event(SendFlowPaused);
    assert_eq!((paused.value, paused.connection), (1, again));
    assert_eq!(d.status().flow.stale_total, 3);
}

#[test]
fn item_43_who_connects_while_paused_learns_it() {
    let d = dealer("D1");
    let mut never = d.peer(DEALER, "B");
    d.say("nothing set");
    assert_eq!(never.record().single(), b"nothing set");
    assert_eq!(never.controls, []);
    drop(never);
    d.event(Disconnected);

    let d = dealer("D1");
    let at = d.bound();
    d.set_receive_flow_state(FlowState::Paused).unwrap();
    d.set_weight(7).unwrap();
    d.set_probe(true).unwrap();
    let mut far = d.peer(ROUTER, "R1");
    for _ in 0..2 {
        // In front of all records: weight, state, probe (1.5).
        assert_eq!(far.record().single(), b"");
        assert_eq!(controls(&mut far), [weight(7), flow_state(true, 1)]);
        far.leave(&d);
        far.back(&d);
    }
    let mut accepted = d.accepts(at, DEALER, "A");
    assert_eq!(accepted.record().single(), b"");
    assert_eq!(controls(&mut accepted), [weight(7), flow_state(true, 1)]);
    d.set_receive_flow_state(FlowState::Running).unwrap();
    assert_eq!(control(&accepted.control()), flow_state(false, 2));
    let mut late = d.accepts(at, DEALER, "C");
    assert_eq!(late.record().single(), b"");
    assert_eq!(controls(&mut late), [weight(7), flow_state(false, 2)]);
}

#[test]
fn item_44_one_connection_carries_it_for_both_kinds_of_peer() {
    for kind in [DEALER, ROUTER] {
        let d = dealer("D1");
        let mut far = d.peer(kind, "P1");
        d.set_receive_flow_state(FlowState::Paused).unwrap();
        assert_eq!(control(&far.control()), flow_state(true, 1));
        far.pauses(&d, 1);
        far.resumes(&d, 2);
        far.send(&flow_state(false, 2));
        assert_eq!(d.event(FlowStateStale).value, 2);
        d.has_nothing();
        d.barrier(&mut far);
        d.has_nothing();
        d.say("on the same connection");
        assert_eq!(far.record().single(), b"on the same connection");
        far.listener.set_nonblocking(true).unwrap();
        assert!(far.listener.accept().is_err(), "a second connection");
        assert_eq!(d.peers().len(), 1);
    }
}

#[test]
fn item_45_a_reconnected_link_is_told_the_state_and_forgets_the_old_one() {
    let d = dealer("D1");
    d.set_receive_flow_state(FlowState::Paused).unwrap();
    let mut far = d.peer(ROUTER, "R1");
    assert_eq!(control(&far.control()), flow_state(true, 1));
    let id = d.try_request("question", Some(ms(60_000)), 1).unwrap();
    let asked = far.record();
    far.pauses(&d, 3);
    far.leave(&d);
    let completion = wait(d.next_completion()).unwrap();
    assert_eq!(completion.id, id);
    assert!(matches!(completion.outcome, Outcome::Request { parts: None, .. }));
    far.back(&d);
    // The PAUSED of the old connection holds for it alone; ours is told again.
    d.say("not paused");
    assert_eq!(far.record().single(), b"not paused");
    assert_eq!(controls(&mut far), [flow_state(true, 1)]);
    far.reply(asked.sequence.unwrap(), &[b"of the old one"]);
    d.barrier(&mut far);
    d.has_nothing();
    assert_eq!((d.counters().replies_late, d.status().flow.stale_total), (1, 0));
    assert_eq!(d.status().flow.paused_connections, 0);
    // A sequence of the new connection is answered.
    d.try_request("question", None, 2).unwrap();
    let asked = far.record();
    far.reply(asked.sequence.unwrap(), &[b"answer"]);
    assert_eq!(wait(d.next_completion()).unwrap().context, 2);
    far.listener.set_nonblocking(true).unwrap();
    assert!(far.listener.accept().is_err(), "a second connection");
}

#[test]
fn item_46_the_end_of_a_pause_is_a_reason_to_try_and_no_promise() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    far.pauses(&d, 1);
    let refused = d.try_send("data", 46).unwrap_err();
    assert_eq!(refusal(&refused), BLOCKED);
    d.barrier(&mut far);
    d.has_nothing();
    far.resumes(&d, 2);
    let writable = wait(d.next_completion()).unwrap();
    assert_eq!((Some(writable.id), writable.context), (refused.token(), 46));
    assert_eq!(writable.outcome, Outcome::Writable);
    d.barrier(&mut far);
    d.has_nothing();
    d.try_send(refused.into_record(), 0).unwrap();
    assert_eq!(far.record().single(), b"data");

    // With the limit reached as well, the end of the pause leaves that.
    let d = dealer_with("D2", |options| options.core.send_hwm = 1000);
    let mut far = d.peer_at(listen_small(), ROUTER, "R1");
    d.try_send(vec![1; HUGE], 0).unwrap();
    far.read_at_least(100);
    far.send(&flow_state(true, 1));
    d.event(SendFlowPaused);
    assert_eq!(refusal(&d.try_send("data", 47).unwrap_err()), BLOCKED);
    far.send(&flow_state(false, 2));
    // It says so: not writable yet.
    assert_eq!(d.event(SendFlowResumed).flags, 0);
    assert_eq!(refusal(&d.try_send("data", 48).unwrap_err()), BLOCKED);
    assert_eq!(far.record().single().len(), HUGE);
    let woken = wait(d.next_completion()).unwrap();
    assert_eq!(woken.outcome, Outcome::Writable);
    d.say("data");
    assert_eq!(far.record().single(), b"data");
}

#[test]
fn item_47_a_pause_holds_from_the_next_record_on() {
    let d = dealer("D1");
    let mut far = d.peer_at(listen_small(), DEALER, "A");
    let part = vec![4; HUGE / 8];
    wait(d.send(Record::from_parts((0..8).map(|_| part.clone().into())).unwrap())).unwrap();
    far.read_at_least(100);
    far.pauses(&d, 1);
    assert_eq!(refusal(&d.try_send("next", 0).unwrap_err()), BLOCKED);
    let whole = far.record();
    assert_eq!((whole.kind, whole.parts.len()), (DATA, 8));
    assert!(whole.parts.iter().all(|seen| *seen == part));
    // Nothing follows it, also with all the room there is.
    d.written();
    assert_eq!(refusal(&d.try_send("next", 0).unwrap_err()), BLOCKED);
    far.silent(ms(30));
    far.resumes(&d, 2);
    d.say("next");
    assert_eq!(far.record().single(), b"next");

    // Of a ROUTER, replies are held back as well, and for that peer only.
    let r = router("R1");
    let (mut a, mut b) = (r.peer(DEALER, "A"), r.peer(DEALER, "B"));
    a.request(1, &[b"question"]);
    let asked = wait(r.recv()).unwrap();
    a.pauses(&r, 1);
    let refused = asked.reply.unwrap().try_reply("answer").unwrap_err();
    assert_eq!(refused.number(), 1);
    assert_eq!(refusal(&r.try_send(&id("A"), "data", 0).unwrap_err()), BLOCKED);
    r.try_send(&id("B"), "data", 0).unwrap();
    assert_eq!(b.record().single(), b"data");
    a.resumes(&r, 2);
    refused.token.unwrap().try_reply(refused.record).unwrap();
    assert_eq!(a.record().single(), b"answer");
}

#[test]
fn item_48_the_snapshot_tells_pauses() {
    let d = dealer("D1");
    let (mut a, mut b) = (d.peer(DEALER, "A"), d.peer(ROUTER, "B"));
    let flow = || d.status().flow;
    assert_eq!(flow(), FlowStatus::default());
    assert_eq!(d.status().detail() & 1 << 5, 1 << 5);
    let begun = Instant::now();
    a.pauses(&d, 1);
    b.pauses(&d, 1);
    assert_eq!((flow().paused_connections, flow().pause_applied_total), (2, 2));
    assert!(d.peers().iter().all(|peer| peer.paused));
    // A pause has a length that can be told; it ends when the peer says so.
    d.set_send_timeout(Some(ms(40))).unwrap();
    assert!(wait(d.send("nobody")).is_err());
    a.resumes(&d, 2);
    let pause = flow().pause_duration;
    assert!(pause >= ms(40) && pause <= begun.elapsed(), "{pause:?}");
    assert_eq!((flow().paused_connections, flow().resume_applied_total), (1, 1));
    a.send(&flow_state(true, 2));
    d.event(FlowStateStale);
    assert_eq!(flow().stale_total, 1);
    // An end while paused is no resume, and ends the pause.
    assert!(wait(d.send("A takes it")).is_ok());
    b.leave(&d);
    let last = flow();
    assert_eq!((last.paused_connections, last.pause_applied_total), (0, 2));
    assert_eq!((last.resume_applied_total, last.stale_total), (1, 1));
    // That of B, which began later and took longer.
    assert!(last.pause_duration >= ms(40) && last.pause_duration <= begun.elapsed());
    assert_ne!(last.pause_duration, pause);
    // Counters stay with the socket.
    b.back(&d);
    assert_eq!(flow(), last);
}
