//! Rules that each hold across several parts of a socket.

use super::*;
use crate::zmp::monitor::EventKind;

#[test]
fn dealer_d_s5_weights_may_change_between_any_two_records() {
    let mut rig = Rig::new(Dealer);
    let (a, b) = (rig.accept(Router, "A"), rig.accept(Router, "B"));
    let mut pair = |number: u64, weights: (u32, u32)| {
        rig.feed(a, [Inbound::Weight(weight(weights.0))]);
        rig.feed(b, [Inbound::Weight(weight(1)), Inbound::Weight(weight(weights.1))]);
        let record = Record::from_parts([number.to_string().into(), "whole".into()]);
        rig.send(None, record.expect("two parts")).expect("room");
        [a, b].map(|peer| rig.write(peer).len())
    };
    // The newest of two changes decides, and nothing of an earlier choice.
    assert_eq!(pair(0, (0, 300)), [0, 1]);
    assert_eq!(pair(1, (300, 0)), [1, 0]);
    assert_eq!(pair(2, (0, 10_000)), [0, 1]);
    assert_eq!(pair(3, (1, 0)), [1, 0]);
}

#[test]
fn dealer_d_d1_one_attempt_is_admitted_or_refused_and_pins_nothing() {
    let mut rig = Rig::new(Dealer);
    let (a, b) = (rig.accept(Router, "A"), rig.accept(Router, "B"));
    assert_eq!(rig.send(None, hundred()).expect("room"), None, "a send has the id 0");
    let asked = rig.ask(None, "x").expect("room");
    assert!(asked.0.get() > 0, "a request has one");
    assert_eq!(rig.completions(), [], "neither has a completion yet");
    rig.feed(a, [paused(1)]);
    rig.feed(b, [paused(1)]);
    let refused = rig.send(None, hundred()).expect_err("nobody can take it");
    assert_eq!((refused.error, refused.record), (EAGAIN, hundred()));
    // Whoever has room first gets it, whoever would have been next before.
    for peer in [b, a] {
        rig.write(a);
        rig.write(b);
        rig.feed(peer, [running(2)]);
        rig.send(None, hundred()).expect("one can take it");
        assert_eq!(rig.write(peer).len(), 1);
        rig.feed(peer, [paused(3)]);
    }
    rig.completions();
}

#[test]
fn dealer_d_w1_the_target_of_a_token_is_whoever_is_a_candidate_when_it_wakes() {
    let mut rig = Rig::new(Dealer);
    let send = rig.send(None, hundred()).expect_err("nobody").token.expect("a token");
    let ask = rig.ask(None, "x").expect_err("nobody").token.expect("a token");
    // A DEALER is a candidate for a record, and none for a request.
    let dealer = rig.accept(Dealer, "A");
    assert_eq!(rig.completion().id, send);
    rig.fill(None);
    rig.completions();
    // One that comes later is; it was no candidate when the token was issued.
    rig.accept(Router, "B");
    assert!(rig.completions().iter().any(|completion| completion.id == ask));
    rig.write(dealer);
}

#[test]
fn dealer_d_r5_a_completion_of_a_dealer_names_no_peer_and_owns_its_parts() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    let asked = rig.ask(None, "answered").expect("room");
    let parts = Record::from_parts(["one".into(), "".into(), "three".into()]).expect("parts");
    rig.feed(peer, [Inbound::Record(Kind::Reply(sequence(1)), parts.clone())]);
    let token = rig.fill(None);
    rig.write(peer);
    let mut both = rig.completions();
    assert_eq!(
        both.iter().map(|c| (c.id, &c.peer)).collect::<Vec<_>>(),
        [(asked, &None), (token, &None)]
    );
    let Outcome::Request { parts: owned, .. } = both.remove(0).outcome else { panic!() };
    rig.detach(peer);
    assert_eq!(owned, Some(parts), "whatever becomes of the socket");
    assert_eq!(both[0].outcome, Outcome::Writable, "without parts");
}

#[test]
fn dealer_d_r7_a_local_pause_holds_replies_back_until_the_request_times_out() {
    let mut dealer = Rig::new(Dealer);
    let mut router = Rig::new(Router);
    let (there, here) = (dealer.accept(Router, "R"), router.accept(Dealer, "D"));
    dealer.ask(None, "x").expect("room");
    dealer.core.set_receive_flow_state(dealer.now, FlowState::Paused);
    let said: Vec<_> = dealer.write(there).into_iter().map(inbound).collect();
    router.feed(here, said);
    let token = router.recv().expect("the request").reply.expect("owed");
    let refused = router.core.try_reply(token, record("y")).expect_err("it is paused");
    assert_eq!(refused.error, EAGAIN);
    dealer.pass(5000);
    assert_eq!(dealer.result(), (RequestResult::TimedOut, Errno::ETIMEDOUT));
    dealer.core.set_receive_flow_state(dealer.now, FlowState::Running);
    router.feed(here, dealer.write(there).into_iter().map(inbound).collect::<Vec<_>>());
    router.core.try_reply(token, record("y")).expect("it runs");
    dealer.feed(there, router.write(here).into_iter().map(inbound).collect::<Vec<_>>());
    assert_eq!(dealer.completions(), [], "late");
}

/// What one side sends, as the other one gets it.
fn inbound(outgoing: Outgoing) -> Inbound {
    match outgoing {
        Outgoing::Record(kind, record) => Inbound::Record(kind, record),
        Outgoing::Weight(weight) => Inbound::Weight(weight),
        Outgoing::FlowState { state, epoch } => Inbound::FlowState { state, epoch },
    }
}

#[test]
fn dealer_d_a2_every_record_comes_back_whole_or_is_taken() {
    let mut rig = Rig::with(Dealer, |options| options.max_message_size = 50);
    let sent = Record::from_parts(["a".into(), "".into(), "bc".into()]).expect("parts");
    let nobody = rig.send(None, sent.clone()).expect_err("nobody");
    assert_eq!(nobody.record, sent);
    let peer = rig.accept(Router, "A");
    rig.completions();
    let large = Record::new(vec![7; 51]);
    assert_eq!(rig.send(None, large.clone()).expect_err("too large").record, large);
    rig.send(None, nobody.record).expect("room");
    assert_eq!(rig.write(peer), [Outgoing::Record(Kind::Data, sent)]);
}

#[test]
fn dealer_d_a3_a_peer_sees_no_part_of_a_record_that_failed() {
    let mut rig = Rig::with(Dealer, |options| options.max_message_size = 4);
    let peer = rig.accept(Router, "A");
    let parts = |last: &'static str| Record::from_parts(["ab".into(), last.into()]);
    rig.send(None, parts("cde").expect("parts")).expect_err("the second part is too much");
    assert_eq!(rig.write(peer), []);
    assert_eq!(rig.core.queued(), 0);
    rig.send(None, parts("cd").expect("parts")).expect("room");
    assert_eq!(rig.write(peer).len(), 1);
}

#[test]
fn dealer_d_v2_d_v5_a_dealer_receives_data_alone_and_is_told_no_sender() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "x").expect("room");
    rig.ask(None, "y").expect("room");
    let refusal = Record::new(2_u32.to_be_bytes().to_vec());
    rig.feed(
        peer,
        [
            reply(1, "answer"),
            Inbound::Record(Kind::ErrorReply(sequence(2)), refusal),
            reply(99, "unasked"),
            Inbound::Weight(weight(5)),
            paused(1),
            running(2),
            data("data"),
        ],
    );
    let received = rig.recv().expect("data");
    assert_eq!((received.from, first(&received.record)), (None, "data".to_owned()));
    assert_eq!((rig.recv(), rig.completions().len()), (None, 2));
}

#[test]
fn dealer_d_f8_flow_states_are_no_records_and_complete_nothing() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.wakes();
    rig.feed(peer, [paused(1), paused(1), running(2), paused(3), running(4)]);
    rig.core.set_receive_flow_state(rig.now, FlowState::Paused);
    assert_eq!((rig.recv(), rig.completions()), (None, Vec::new()));
    let readiness = rig.core.readiness();
    assert!(!readiness.input && !readiness.completion);
    let wakes = rig.wakes();
    assert!(!wakes.contains(&Wake::Readable) && !wakes.contains(&Wake::Completions), "{wakes:?}");
}

#[test]
fn router_r_v2_the_id_of_a_record_outlives_the_next_one_and_the_peer() {
    let mut rig = Rig::new(Router);
    let (a, b) = (rig.accept(Dealer, "A"), rig.accept(Dealer, "B"));
    rig.feed(a, [data("1")]);
    let from = rig.recv().expect("data").from;
    rig.feed(b, [data("2")]);
    rig.recv().expect("data");
    rig.detach(a);
    assert_eq!(rig.recv(), None, "and one that fails");
    assert_eq!(from, Some(rid("A")));
}

#[test]
fn router_r_v3_what_a_router_receives_always_has_a_sender() {
    let mut rig = Rig::new(Router);
    let (named, nameless) = (rig.accept(Dealer, "A"), rig.accept(Dealer, ""));
    rig.feed(named, [data("1"), request(1, "2")]);
    rig.feed(nameless, [data("3")]);
    let all: Vec<_> = std::iter::from_fn(|| rig.recv()).collect();
    assert_eq!(all.len(), 3);
    assert!(all.iter().all(|received| received.from.is_some()), "{all:?}");
}

#[test]
fn router_r_v4_sending_a_received_request_on_does_not_make_it_one() {
    let mut rig = Rig::new(Router);
    let (a, b) = (rig.accept(Dealer, "A"), rig.accept(Dealer, "B"));
    rig.feed(a, [request(1, "x")]);
    let received = rig.recv().expect("a request");
    rig.send(Some("B"), received.record).expect("room");
    assert_eq!(rig.write(b), [Outgoing::Record(Kind::Data, record("x"))]);
    rig.core.try_reply(received.reply.expect("owed"), record("y")).expect("owed all the same");
}

#[test]
fn router_r_v5_input_is_off_while_every_head_waits_for_a_token() {
    let mut rig = Rig::with(Router, |options| options.reply_tokens = 1);
    let (a, b) = (rig.accept(Dealer, "A"), rig.accept(Dealer, "B"));
    rig.feed(a, [request(1, "1"), request(2, "2")]);
    assert!(rig.core.readiness().input);
    let token = rig.recv().expect("a request").reply.expect("a token");
    assert!(!rig.core.readiness().input, "no slot for the next one");
    assert_eq!(rig.recv(), None);
    rig.feed(b, [data("3")]);
    assert!(rig.core.readiness().input, "one that needs none");
    rig.recv().expect("data");
    assert!(!rig.core.readiness().input);
    rig.core.abandon_reply(token);
    assert!(rig.core.readiness().input);
}

#[test]
fn router_r_p1_a_reply_takes_its_record_and_its_token_once() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [request(4, "x")]);
    let token = rig.recv().expect("a request").reply.expect("a token");
    rig.core.try_reply(token, record("y")).expect("owed");
    let again = rig.core.try_reply(token, record("z")).expect_err("given");
    assert_eq!(again.error, error(SubmitResult::NotFound, Errno::ENOENT));
    assert_eq!(again.record, record("z"), "it comes back");
    assert_eq!(rig.write(peer), [Outgoing::Record(Kind::Reply(sequence(4)), record("y"))]);
}

#[test]
fn router_r_d4_a_refused_side_sees_its_link_ready_and_then_end() {
    // The side that refuses.
    let mut refuses = Rig::new(Router);
    refuses.accept(Dealer, "D");
    let second = refuses.attaching(Dealer, "D", Origin::Accepted("tcp://bound".into()));
    assert_eq!(refuses.attach(second), Err(Rejection::DuplicateId));
    // The side that is refused: its transport was up.
    let mut refused = Rig::new(Dealer);
    let endpoint = refused.endpoint("tcp://r");
    let link = refused.dial(Router, "M", endpoint);
    refused.core.detach(refused.now, link, Disconnected::Unknown);
    let kinds: Vec<_> = std::iter::from_fn(|| refused.core.next_event()).map(|e| e.kind).collect();
    assert_eq!(kinds, [EventKind::ConnectionReady, EventKind::Disconnected]);
}

#[test]
fn zmp_x1_a_refusal_and_its_token_are_one_step() {
    // Between the two steps of one socket anything may happen; within one nothing does.
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    let token = rig.fill(None);
    rig.wakes();
    rig.write(peer);
    assert_eq!(rig.completion().id, token, "an edge right behind it is not lost");
    assert!(rig.wakes().contains(&Wake::Completions), "told once the step is over");
    assert_eq!(rig.wakes(), [], "and once");
}

#[test]
fn zmp_x5_a_link_that_is_not_ready_queues_nothing() {
    let mut rig = Rig::new(Router);
    let first = rig.attaching(Router, "A", Origin::Accepted("tcp://bound".into()));
    let half = rig.attach(first).expect("the first of two");
    let refused = rig.send(Some("A"), hundred()).expect_err("half a link");
    assert_eq!(refused.error, EAGAIN);
    let token = refused.token.expect("a token");
    assert_eq!((rig.core.queued(), rig.write(half)), (0, Vec::new()));
    let mut second = rig.attaching(Router, "A", Origin::Accepted("tcp://bound".into()));
    second.lane = Lane::Completion;
    rig.attach(second).expect("the second");
    assert_eq!(rig.completion().id, token, "worth another try");
}
