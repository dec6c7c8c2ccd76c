//! Replies that are owed (3.5).

use super::*;
use crate::zmp::frame::ErrorCode;

const NOT_FOUND: SubmitError = SubmitError::new(SubmitResult::NotFound, Errno::ENOENT);

fn take(rig: &mut Rig) -> super::super::ReplyId {
    rig.recv().expect("a request").reply.expect("a token")
}

#[test]
fn router_r_v1_data_has_no_token() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [data("x")]);
    let received = rig.recv().expect("data");
    assert_eq!((received.from, received.reply), (Some(rid("A")), None));
}

#[test]
fn zmp_a_live_sequence_again_ends_the_connection() {
    let mut rig = Rig::new(Router);
    let (peer, other) = (rig.accept(Dealer, "A"), rig.accept(Dealer, "B"));
    rig.feed(peer, [request(7, "x")]);
    rig.feed(other, [request(7, "unrelated")]);
    let fault = rig.try_turn(peer, vec![request(7, "y")], 0).expect_err("a fault");
    assert_eq!(fault.code, ErrorCode::Sequence);
    let token = take(&mut rig);
    let fault = rig.try_turn(peer, vec![request(7, "y")], 0).expect_err("it is live still");
    assert_eq!(fault.code, ErrorCode::Sequence);
    rig.core.try_reply(token, record("z")).expect("taken");
    rig.feed(peer, [request(7, "again")]);
    for _ in 0..2 {
        let token = take(&mut rig);
        rig.core.abandon_reply(token);
    }
    rig.feed(peer, [request(7, "and again")]);
    assert_eq!(rig.core.counters().replies_abandoned, 2);
}

#[test]
fn router_r_p2_a_dealers_reply_meets_hwm_and_pause() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [request(1, "x"), paused(1)]);
    let token = take(&mut rig);
    let refused = rig.core.try_reply(token, hundred()).expect_err("paused");
    assert_eq!((refused.error, refused.token), (EAGAIN, None));
    let waiter = rig.core.wait_reply(token);
    rig.wakes();
    rig.feed(peer, [running(2)]);
    assert_eq!(rig.wakes(), [Wake::Waiter(waiter)]);
    rig.fill(Some("A"));
    let refused = rig.core.try_reply(token, hundred()).expect_err("at HWM");
    assert_eq!(refused.error, EAGAIN, "the token stays usable");
    rig.wakes();
    rig.write(peer);
    assert!(rig.wakes().contains(&Wake::Waiter(waiter)), "each time, until it is forgotten");
    rig.core.forget(waiter);
    rig.feed(peer, [Inbound::Weight(weight(0))]);
    rig.core.try_reply(token, hundred()).expect("the weight is nothing to a reply");
    rig.completions();
}

#[test]
fn router_r_p2_a_routers_reply_meets_neither() {
    let mut rig = Rig::new(Router);
    let (application, completion) = rig.accept_two("A");
    rig.feed(application, (1..=20).map(|number| request(number, "x")));
    rig.feed(completion, [paused(1)]);
    for _ in 0..20 {
        let token = take(&mut rig);
        rig.core.try_reply(token, hundred()).expect("no HWM");
    }
    assert_eq!(rig.write(completion).len(), 20);
}

#[test]
fn zmp_x3_the_completion_lane_holds_64_mib() {
    let mut rig = Rig::new(Router);
    let (application, completion) = rig.accept_two("A");
    rig.feed(application, (1..=3).map(|number| request(number, "x")));
    let tokens = [(); 3].map(|()| take(&mut rig));
    let half = Record::new(vec![0; (32 << 20) - 64]);
    rig.core.try_reply(tokens[0], half.clone()).expect("half of it");
    rig.core.try_reply(tokens[1], half.clone()).expect("the other half");
    let refused = rig.core.try_reply(tokens[2], record("x")).expect_err("it waits");
    assert_eq!(refused.error, EAGAIN);
    let waiter = rig.core.wait_reply(tokens[2]);
    rig.wakes();
    rig.turn(completion, Vec::new(), half.charge());
    assert!(rig.wakes().contains(&Wake::Waiter(waiter)));
    rig.core.try_reply(tokens[2], record("x")).expect("room");
}

#[test]
fn router_r_p3_a_reply_may_go_to_a_new_link_of_its_id() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [request(5, "x")]);
    let token = take(&mut rig);
    rig.detach(peer);
    let refused = rig.core.try_reply(token, record("y")).expect_err("no link");
    assert_eq!(refused.error, EAGAIN);
    let waiter = rig.core.wait_reply(token);
    rig.wakes();
    let peer = rig.accept(Dealer, "A");
    assert!(rig.wakes().contains(&Wake::Waiter(waiter)));
    rig.core.try_reply(token, record("y")).expect("taken");
    let out = rig.write(peer);
    assert_eq!(out, [Outgoing::Record(Kind::Reply(sequence(5)), record("y"))]);
    let refused = rig.core.try_reply(token, record("z")).expect_err("consumed");
    assert_eq!(refused.error, NOT_FOUND);
}

#[test]
fn router_r_p3_removal_of_the_id_consumes_tokens() {
    let mut rig = Rig::with(Router, |options| options.reply_tokens = 1);
    let peer = rig.accept(Dealer, "A");
    let other = rig.accept(Dealer, "B");
    rig.feed(peer, [request(1, "x")]);
    let token = take(&mut rig);
    let waits = rig.core.reply_token(token, 77).expect("a token");
    rig.feed(other, [request(1, "x")]);
    assert!(!rig.core.readiness().input);
    rig.wakes();
    rig.core.disconnect_rid(rig.now, &rid("A"));
    assert!(rig.core.readiness().input, "its slot is free");
    assert!(rig.wakes().contains(&Wake::Readable));
    let completion = rig.completion();
    assert_eq!((completion.id, completion.context), (waits, 77));
    assert_eq!(completion.outcome, Outcome::Removed);
    rig.accept(Dealer, "A");
    let refused = rig.core.try_reply(token, record("y")).expect_err("removed");
    assert_eq!(refused.error, NOT_FOUND);
    rig.core.abandon_reply(token);
    assert_eq!(rig.core.counters().replies_abandoned, 0);
    take(&mut rig);
}

#[test]
fn router_r_p4_at_the_limit_links_with_a_request_in_front_wait_in_turn() {
    let mut rig = Rig::with(Router, |options| options.reply_tokens = 2);
    let peers = ["A", "B", "C"].map(|id| rig.accept(Dealer, id));
    rig.feed(peers[0], [request(1, "a1"), request(2, "a2"), data("a3")]);
    rig.feed(peers[1], [request(1, "b1"), data("b2")]);
    rig.feed(peers[2], [data("c1"), request(1, "c2")]);
    let mut tokens = Vec::new();
    let mut take = |rig: &mut Rig| {
        let received = rig.recv()?;
        tokens.extend(received.reply);
        Some(first(&received.record))
    };
    let mut order: Vec<_> = std::iter::from_fn(|| take(&mut rig)).collect();
    assert_eq!(order, ["a1", "b1", "c1", "b2"], "the others go on");
    assert!(!rig.core.readiness().input, "R-V5");
    assert_eq!(rig.core.next_parts(), None);
    rig.wakes();
    let free = |rig: &mut Rig, token| rig.core.try_reply(token, record("y")).expect("taken");
    order.clear();
    free(&mut rig, tokens[0]);
    assert!(rig.wakes().contains(&Wake::Readable));
    order.extend(rig.recv().map(|received| first(&received.record)));
    order.extend(std::iter::from_fn(|| rig.recv()).map(|received| first(&received.record)));
    assert_eq!(order, ["a2", "a3"]);
    free(&mut rig, tokens[1]);
    assert_eq!(first(&rig.recv().expect("the next in turn").record), "c2");
}

#[test]
fn router_r_p4_without_numbers_the_requester_gets_an_error_reply() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.core.replies.last = u64::MAX;
    rig.feed(peer, [request(1, "x"), data("y")]);
    assert_eq!(first(&rig.recv().expect("data").record), "y");
    let eio = Record::new(vec![0, 0, 0, 5]);
    assert_eq!(rig.write(peer), [Outgoing::Record(Kind::ErrorReply(sequence(1)), eio)]);
    assert_eq!(RequestResult::of_errno(Errno::EIO), RequestResult::InternalError);
}

#[test]
fn router_r_p5_an_empty_reply_is_one_empty_part() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [request(1, "x")]);
    let token = take(&mut rig);
    rig.core.try_reply(token, record("")).expect("taken");
    let out = rig.write(peer);
    assert_eq!(out, [Outgoing::Record(Kind::Reply(sequence(1)), record(""))]);
}

#[test]
fn router_reply_tokens_of_the_completion_queue() {
    let mut rig = Rig::with(Router, |options| options.reservations = 1);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [request(1, "x"), paused(1)]);
    let reply = take(&mut rig);
    let token = rig.core.reply_token(reply, 11).expect("a token");
    assert_eq!(rig.core.reply_token(reply, 12), None, "no reservation is free");
    rig.feed(peer, [running(2)]);
    let completion = rig.completion();
    assert_eq!((completion.id, completion.context), (token, 11));
    assert_eq!((completion.peer, completion.outcome), (Some(rid("A")), Outcome::Writable));
    rig.core.abandon_reply(reply);
    assert_eq!(rig.core.reply_token(reply, 13), None, "it is not owed");
    let refused = rig.core.try_reply_error(reply, Errno::EIO, None).expect_err("not owed");
    assert_eq!(refused.error, NOT_FOUND);
}
