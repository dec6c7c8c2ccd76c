//! Calls that wait (NONE): what they are pinned to, when they are woken, how they end.

use super::*;

fn done(attempt: Attempt) -> Submitted {
    match attempt {
        Attempt::Done(submitted) => submitted,
        other => panic!("{other:?}"),
    }
}

fn failed(attempt: Attempt) -> SubmitError {
    match attempt {
        Attempt::Failed(refused) => refused.error,
        other => panic!("{other:?}"),
    }
}

fn waits(attempt: Attempt) {
    assert!(matches!(attempt, Attempt::Waits(_)), "{attempt:?}");
}

#[test]
fn dealer_d_n1_a_call_waits_for_room() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.fill(None);
    let (send, ask) = (rig.wait(None, Submit::Send), rig.wait(None, ASK));
    rig.wakes();
    rig.write(peer);
    assert!(rig.wakes().contains(&Wake::Waiter(send)), "one of them is woken");
    assert_eq!(done(rig.again(send)), None, "a send has no id and no completion");
    assert_eq!(rig.wakes(), [Wake::Connection(peer), Wake::Waiter(ask)], "then the next one");
    assert!(done(rig.again(ask)).is_some(), "a request has one");
    assert_eq!(sequences(&rig.write(peer)), [1]);
    rig.completions();
}

#[test]
fn dealer_a_woken_call_that_goes_away_passes_its_chance_on() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.fill(None);
    let calls = [(); 3].map(|()| rig.wait(None, Submit::Send));
    rig.write(peer);
    assert!(rig.wakes().contains(&Wake::Waiter(calls[0])));
    rig.core.forget(calls[0]);
    assert_eq!(rig.wakes(), [Wake::Waiter(calls[1])]);
    assert_eq!(rig.core.give_up(calls[1]), EAGAIN, "D-N3");
    assert_eq!(rig.wakes(), [Wake::Waiter(calls[2])]);
    assert_eq!(done(rig.again(calls[2])), None);
}

#[test]
fn dealer_a_call_that_tried_in_vain_is_woken_again() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.fill(None);
    let call = rig.wait(None, Submit::Send);
    rig.write(peer);
    rig.fill(None);
    waits(rig.again(call));
    rig.wakes();
    rig.write(peer);
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(done(rig.again(call)), None);
}

#[test]
fn dealer_d_n2_a_call_is_pinned_to_one_endpoint_across_reconnects() {
    let mut rig = Rig::new(Dealer);
    let (a, b) = (rig.endpoint("tcp://a"), rig.endpoint("tcp://b"));
    let (first, second) = (rig.dial(Router, "A", a), rig.dial(Router, "B", b));
    rig.fill(None);
    let call = rig.wait(None, Submit::Send);
    rig.wakes();
    rig.write(first);
    let woken = rig.wakes().contains(&Wake::Waiter(call));
    assert!(!woken, "A was full first, so that B is preferred, and was pinned");
    waits(rig.again(call));
    rig.detach(second);
    waits(rig.again(call));
    let second = rig.dial(Router, "B", b);
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(done(rig.again(call)), None);
    assert_eq!(texts(&rig.write(second)).len(), 1);
    assert_eq!(texts(&rig.write(first)).len(), 0);
}

#[test]
fn dealer_d_n2_an_accepted_peer_is_pinned_by_its_id() {
    let mut rig = Rig::new(Dealer);
    let first = rig.accept(Router, "A");
    rig.fill(None);
    let call = rig.wait(None, Submit::Send);
    rig.detach(first);
    let other = rig.accept(Router, "B");
    waits(rig.again(call));
    let first = rig.accept(Router, "A");
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(done(rig.again(call)), None);
    assert_eq!(texts(&rig.write(first)).len(), 1);
    assert!(rig.write(other).is_empty());
}

#[test]
fn dealer_d_n2_a_pinned_call_goes_on_with_another_link_of_its_peer() {
    let mut rig = Rig::new(Dealer);
    let first = rig.accept(Router, "A");
    rig.fill(None);
    let call = rig.wait(None, Submit::Send);
    // The peer has come back, and the end of its first link is not known yet.
    let second = rig.accept(Router, "A");
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(done(rig.again(call)), None, "not the link that is full");
    assert_eq!(texts(&rig.write(second)).len(), 1);
    assert_eq!(texts(&rig.write(first)).len(), 10);
}

#[test]
fn dealer_d_n2_the_end_of_a_link_wakes_the_calls_that_are_pinned_to_its_peer() {
    let mut rig = Rig::new(Dealer);
    let first = rig.accept(Router, "A");
    rig.fill(None);
    let call = rig.wait(None, Submit::Send);
    rig.wakes();
    rig.detach(first);
    assert!(rig.wakes().contains(&Wake::Waiter(call)), "it may have another link");
    waits(rig.again(call));
}

#[test]
fn dealer_d_n2_the_pinned_one_is_charged_its_turn() {
    let mut rig = Rig::new(Dealer);
    let (first, second) = (rig.accept(Router, "A"), rig.accept(Router, "B"));
    rig.fill(None);
    let call = rig.wait(None, Submit::Send);
    rig.write(first);
    rig.write(second);
    assert_eq!(done(rig.again(call)), None);
    assert_eq!(rig.write(second).len(), 1);
    rig.send(None, hundred()).expect("room");
    assert_eq!(rig.write(first).len(), 1, "B had its turn");
}

#[test]
fn dealer_d_n4_what_a_request_that_waited_in_vain_says() {
    let mut rig = Rig::new(Dealer);
    let call = rig.wait(None, ASK);
    rig.accept(Dealer, "D");
    waits(rig.again(call));
    let not_connected = error(SubmitResult::NotConnected, Errno::ENOTCONN);
    assert_eq!(rig.core.give_up(call), not_connected, "a DEALER takes no request");

    let endpoint = rig.endpoint("tcp://a");
    let peer = rig.dial(Router, "R", endpoint);
    rig.feed(peer, [Inbound::Weight(weight(0))]);
    let call = rig.wait(None, ASK);
    let not_admitted = error(SubmitResult::NotAdmitted, Errno::ECONNREFUSED);
    assert_eq!(rig.core.give_up(call), not_admitted, "all at weight 0");

    rig.feed(peer, [Inbound::Weight(weight(1)), paused(1)]);
    let call = rig.wait(None, ASK);
    assert_eq!(rig.core.give_up(call), EAGAIN, "D-N3");

    rig.detach(peer);
    let call = rig.wait(None, ASK);
    assert_eq!(rig.core.give_up(call), EAGAIN, "it is known and may come back");
}

#[test]
fn dealer_d_n4_a_detached_known_router_is_pinned() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let peer = rig.dial(Router, "R", endpoint);
    rig.detach(peer);
    let call = rig.wait(None, ASK);
    let other = rig.accept(Router, "S");
    waits(rig.again(call));
    let peer = rig.dial(Router, "R", endpoint);
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert!(done(rig.again(call)).is_some());
    assert_eq!(sequences(&rig.write(peer)), [1]);
    assert!(rig.write(other).is_empty());
}

#[test]
fn dealer_d_n4_the_wait_covers_a_first_connection() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let call = rig.wait(None, ASK);
    let peer = rig.dial(Router, "R", endpoint);
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert!(done(rig.again(call)).is_some());
    assert_eq!(sequences(&rig.write(peer)), [1]);
}

#[test]
fn dealer_d_n5_a_send_to_weights_of_zero_is_not_admitted() {
    let mut rig = Rig::new(Dealer);
    let call = rig.wait(None, Submit::Send);
    assert_eq!(rig.core.give_up(call), EAGAIN, "no peer at all");
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [Inbound::Weight(weight(0))]);
    let call = rig.wait(None, Submit::Send);
    let not_admitted = error(SubmitResult::NotAdmitted, Errno::ECONNREFUSED);
    assert_eq!(rig.core.give_up(call), not_admitted);
}

#[test]
fn dealer_d_n6_removal_and_close_end_a_call() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let peer = rig.dial(Router, "R", endpoint);
    rig.fill(None);
    let (call, other) = (rig.wait(None, ASK), rig.wait(None, Submit::Send));
    rig.core.remove_endpoint(rig.now, endpoint);
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(failed(rig.again(call)), error(SubmitResult::NotFound, Errno::ENOENT));
    assert_eq!(rig.core.give_up(other), error(SubmitResult::NotFound, Errno::ENOENT));
    rig.detach(peer);

    let call = rig.wait(None, ASK);
    rig.core.close(rig.now);
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(failed(rig.again(call)), error(SubmitResult::Terminated, Errno::ESHUTDOWN));
    assert_eq!(rig.completions(), [], "all without a completion");
}

#[test]
fn dealer_a_pinned_link_that_stands_by_unpins() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    rig.core.set_options(|_| {});
    // The peer's id is smaller than "M": the link that it makes wins.
    let dialled = rig.dial(Router, "A", endpoint);
    rig.fill(None);
    let call = rig.wait(None, Submit::Send);
    let accepted = rig.accept(Router, "A");
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(done(rig.again(call)), None);
    assert_eq!(texts(&rig.write(accepted)).len(), 1);
    rig.detach(dialled);
}
