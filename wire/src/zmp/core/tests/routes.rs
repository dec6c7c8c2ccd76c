//! Sending and asking by routing id (3.1 to 3.3).

use super::*;
use crate::zmp::status::Drop;

const NO_ROUTE: SubmitError = SubmitError::new(SubmitResult::NotConnected, Errno::EHOSTUNREACH);
const NOT_FOUND: SubmitError = SubmitError::new(SubmitResult::NotFound, Errno::ENOENT);

fn begin(rig: &mut Rig, id: &str, submit: Submit) -> Result<WaiterId, SubmitError> {
    match rig.core.begin(rig.now, Some(&rid(id)), hundred(), submit, 0) {
        (Attempt::Waits(_), Some(waiter)) => Ok(waiter),
        (Attempt::Failed(refused), None) => Err(refused.error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn router_r_o1_mandatory_without_a_route() {
    let mut rig = Rig::new(Router);
    let refused = rig.send(Some("A"), hundred()).expect_err("no route");
    assert_eq!((refused.error, refused.token), (NO_ROUTE, None));
    assert_eq!(begin(&mut rig, "A", Submit::Send), Err(NO_ROUTE), "the id never had one");
    let peer = rig.accept(Dealer, "A");
    rig.detach(peer);
    let refused = rig.send(Some("A"), hundred()).expect_err("at once");
    assert_eq!((refused.error, refused.token), (NO_ROUTE, None));
    begin(&mut rig, "A", Submit::Send).expect("R-S1: it may come back");
}

#[test]
fn zmp_x6_mandatory_zero_drops_and_counts_why() {
    let mut rig = Rig::with(Router, |options| options.mandatory = false);
    assert_eq!(rig.send(Some("A"), hundred()).expect("dropped"), None);
    let (attempt, waiter) = rig.core.begin(rig.now, Some(&rid("A")), hundred(), Submit::Send, 0);
    assert!(matches!(attempt, Attempt::Done(None)) && waiter.is_none());
    let peer = rig.accept(Dealer, "A");
    for _ in 0..12 {
        assert_eq!(rig.send(Some("A"), hundred()).expect("taken or dropped"), None);
    }
    assert_eq!(texts(&rig.write(peer)).len(), 10);
    rig.feed(peer, [paused(1)]);
    rig.send(Some("A"), hundred()).expect("dropped");
    let dropped = rig.core.counters().dropped;
    assert_eq!((dropped[Drop::NoRoute], dropped[Drop::Hwm]), (2, 3));
    assert_eq!(rig.core.counters().tokens_issued, 0);
}

#[test]
fn router_r_o2_the_name_of_an_endpoint_lasts_across_reconnects() {
    let mut rig = Rig::new(Router);
    let endpoint = rig.core.add_endpoint("tcp://a".into(), Some(rid("alias")));
    let peer = rig.dial(Dealer, "A", endpoint);
    rig.send(Some("alias"), record("x")).expect("taken");
    rig.send(Some("A"), record("x")).expect_err("its own id is not used");
    rig.feed(peer, [data("y")]);
    assert_eq!(rig.recv().expect("data").from, Some(rid("alias")));
    rig.detach(peer);
    let peer = rig.dial(Dealer, "other", endpoint);
    rig.send(Some("alias"), record("z")).expect("taken");
    assert_eq!(texts(&rig.write(peer)), ["z"]);
}

#[test]
fn router_r_o3_a_peer_without_an_id_gets_one() {
    let mut rig = Rig::new(Router);
    let first = rig.accept(Dealer, "");
    rig.accept(Dealer, "\0\0\0\0\u{2}");
    let second = rig.accept(Dealer, "");
    rig.feed(first, [data("x")]);
    rig.feed(second, [data("y")]);
    let ids = [(); 2].map(|()| rig.recv().expect("data").from.expect("an id"));
    assert_eq!(ids[0].as_bytes(), [0, 0, 0, 0, 1]);
    assert_eq!(ids[1].as_bytes(), [0, 0, 0, 0, 3], "the second one was taken");
    rig.core.try_submit(rig.now, Some(&ids[1]), record("z"), Submit::Send, 0).expect("taken");
    assert_eq!(texts(&rig.write(second)), ["z"]);
}

#[test]
fn router_r_s1_a_call_waits_for_its_id_across_reconnects() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.accept(Dealer, "B");
    rig.detach(peer);
    let call = begin(&mut rig, "A", Submit::Send).expect("waits");
    assert_eq!(rig.wakes().iter().filter(|wake| matches!(wake, Wake::Waiter(_))).count(), 0);
    let peer = rig.accept(Dealer, "A");
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert!(matches!(rig.again(call), Attempt::Done(None)));
    assert_eq!(texts(&rig.write(peer)).len(), 1);
}

#[test]
fn zmp_x6_a_call_that_waited_in_vain() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.fill(Some("A"));
    let call = begin(&mut rig, "A", Submit::Send).expect("waits");
    assert_eq!(rig.core.give_up(call), EAGAIN, "the id has a link");
    let call = begin(&mut rig, "A", Submit::Send).expect("waits");
    rig.detach(peer);
    assert!(!rig.core.has_link(&rid("A")));
    assert_eq!(rig.core.give_up(call), NO_ROUTE);
}

#[test]
fn router_r_s2_a_token_is_bound_to_its_id() {
    let mut rig = Rig::new(Router);
    let (first, second) = (rig.accept(Dealer, "A"), rig.accept(Dealer, "B"));
    let token = rig.fill(Some("A"));
    rig.fill(Some("B"));
    rig.write(second);
    assert_eq!(rig.completion().peer, Some(rid("B")));
    rig.write(first);
    let completion = rig.completion();
    assert_eq!((completion.id, completion.peer), (token, Some(rid("A"))));
    for close in [paused(1), Inbound::Weight(weight(0))] {
        rig.feed(first, [close]);
        let token = rig.send(Some("A"), hundred()).expect_err("refused").token;
        token.expect("PAUSED and weight 0 give a token");
        rig.feed(first, [running(2), Inbound::Weight(weight(5))]);
        assert_eq!(rig.completion().outcome, Outcome::Writable);
    }
}

#[test]
fn router_r_s2_a_route_that_is_adopted_is_an_edge() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    let token = rig.fill(Some("A"));
    rig.detach(peer);
    assert_eq!(rig.completions(), [], "D-W5");
    rig.accept(Dealer, "A");
    assert_eq!(rig.completion().id, token);
}

#[test]
fn router_r_s3_disconnect_rid_finishes_tokens_and_calls() {
    let mut rig = Rig::new(Router);
    let (application, completion) = rig.accept_two("A");
    rig.ask(Some("A"), "x").expect("taken");
    let token = rig.fill(Some("A"));
    let call = begin(&mut rig, "A", Submit::Send).expect("waits");
    assert!(!rig.core.disconnect_rid(rig.now, &rid("B")), "no such id");
    assert!(rig.core.disconnect_rid(rig.now, &rid("A")));
    assert!(rig.wakes().contains(&Wake::Waiter(call)));
    assert_eq!(rig.core.give_up(call), NOT_FOUND);
    let completions = rig.completions();
    assert_eq!((completions[0].id, &completions[0].outcome), (token, &Outcome::Removed));
    assert_eq!(completions[0].peer, Some(rid("A")));
    let not_found =
        Outcome::Request { result: RequestResult::NotFound, errno: Errno::ENOENT, parts: None };
    assert_eq!(completions[1].outcome, not_found);
    for connection in [application, completion] {
        assert_eq!(rig.turn(connection, Vec::new(), 0).close, Some(Closing::Removed));
    }
    let refused = rig.send(Some("A"), hundred()).expect_err("removed");
    assert_eq!(refused.error, NO_ROUTE);
    rig.accept_two("A");
    rig.send(Some("A"), hundred()).expect("a new peer of this id");
}

#[test]
fn router_r_s4_a_pause_is_that_peers_alone() {
    let mut rig = Rig::new(Router);
    let first = rig.accept(Dealer, "A");
    rig.accept(Dealer, "B");
    rig.feed(first, [paused(1)]);
    rig.send(Some("A"), hundred()).expect_err("paused");
    rig.send(Some("B"), hundred()).expect("not paused");
}

#[test]
fn router_r_q1_who_takes_requests() {
    let mut rig = Rig::with(Router, |options| options.mandatory = false);
    let dealer = rig.accept(Dealer, "D");
    let refused = rig.ask(Some("D"), "x").expect_err("a DEALER");
    assert_eq!(refused.error, error(SubmitResult::NotAdmitted, Errno::EPROTOTYPE));
    rig.send(Some("D"), record("x")).expect("DATA is legal");
    let refused = rig.ask(Some("A"), "x").expect_err("unknown");
    assert_eq!((refused.error, refused.token), (NO_ROUTE, None), "whatever MANDATORY says");
    assert_eq!(begin(&mut rig, "A", ASK), Err(NOT_FOUND));
    let (application, completion) = rig.accept_two("A");
    rig.ask(Some("A"), "x").expect("a ROUTER");
    assert_eq!(sequences(&rig.write(application)), [1]);
    rig.feed(completion, [reply(1, "y")]);
    assert_eq!(rig.completion().peer, Some(rid("A")), "R-Q2");
    rig.feed(completion, [paused(1)]);
    let refused = rig.ask(Some("A"), "x").expect_err("paused");
    assert!(refused.error == EAGAIN && refused.token.is_some());
    rig.detach(application);
    begin(&mut rig, "A", ASK).expect("R-S1: it may come back");
    rig.completions();
    rig.detach(dealer);
}

#[test]
fn router_the_peers_limit_counts() {
    let mut rig = Rig::new(Router);
    let mut attaching = rig.attaching(Dealer, "A", Origin::Accepted("tcp://bound".into()));
    attaching.peer_max_message_size = 4;
    let peer = rig.attach(attaching).expect("attached");
    let too_large = error(SubmitResult::InvalidArgument, Errno::EMSGSIZE);
    assert_eq!(rig.send(Some("A"), record("12345")).expect_err("too large").error, too_large);
    rig.feed(peer, [request(1, "x")]);
    let token = rig.recv().expect("a request").reply.expect("a token");
    let refused = rig.core.try_reply(token, record("12345")).expect_err("too large");
    assert_eq!(refused.error, too_large);
    rig.core.try_reply(token, record("1234")).expect("the token is still good");
}

#[test]
fn zmp_ids_that_left_are_forgotten_in_time() {
    let mut rig = Rig::with(Router, |options| options.max_peers = 10);
    for number in 0..1000 {
        let peer = rig.accept(Dealer, &format!("peer {number}"));
        rig.detach(peer);
    }
    assert_eq!(rig.core.routes.len(), 10);
    assert_eq!(begin(&mut rig, "peer 1", Submit::Send), Err(NO_ROUTE));
    let call = begin(&mut rig, "peer 990", Submit::Send).expect("known");
    for number in 0..20 {
        let peer = rig.accept(Dealer, &format!("more {number}"));
        rig.detach(peer);
    }
    assert_eq!(rig.core.routes.len(), 11, "somebody waits for it");
    rig.core.forget(call);
    assert_eq!(rig.core.routes.len(), 10);
}

#[test]
fn zmp_b7_one_peer_too_many_is_refused() {
    let mut rig = Rig::with(Router, |options| options.max_peers = 2);
    let peer = rig.accept(Dealer, "A");
    rig.accept(Dealer, "B");
    let third = rig.attaching(Dealer, "C", Origin::Accepted("tcp://bound".into()));
    assert_eq!(rig.attach(third), Err(Rejection::TooManyPeers));
    rig.feed(peer, [data("x")]);
    rig.detach(peer);
    let third = rig.attaching(Dealer, "C", Origin::Accepted("tcp://bound".into()));
    assert_eq!(rig.attach(third), Err(Rejection::TooManyPeers), "what it brought is still there");
    rig.recv().expect("data");
    rig.accept(Dealer, "C");
}
