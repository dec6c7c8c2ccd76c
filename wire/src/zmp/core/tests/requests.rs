//! Requests and their completions (2.5).

use super::*;

fn ended(result: RequestResult, errno: Errno, parts: Option<Record>) -> Outcome {
    Outcome::Request { result, errno, parts }
}

fn error_reply(number: u64, parts: &[&'static [u8]]) -> Inbound {
    let parts = parts.iter().map(|part| Bytes::from_static(part));
    let record = Record::from_parts(parts).expect("parts");
    Inbound::Record(Kind::ErrorReply(sequence(number)), record)
}

#[test]
fn dealer_d_r1_a_failure_has_no_id_and_no_completion() {
    let mut rig = Rig::with(Dealer, |options| options.max_message_size = 4);
    rig.accept(Router, "A");
    let refused = rig.ask(None, "12345").expect_err("too large");
    assert_eq!((refused.error.errno, refused.token), (Errno::EMSGSIZE, None));
    assert_eq!(refused.record, record("12345"));
    rig.pass(10_000);
    assert_eq!(rig.completions(), []);
}

#[test]
fn dealer_d_r2_the_time_begins_with_admission() {
    let mut rig = Rig::with(Dealer, |options| {
        options.request_timeout = Duration::from_millis(200);
    });
    let token = rig.ask(None, "x").expect_err("no peer").token;
    rig.pass(10_000);
    assert_eq!(rig.completions(), [], "no clock runs for a token");
    rig.accept(Router, "A");
    assert_eq!(rig.completion().id, token.expect("a token"));
    let id = rig.ask(None, "x").expect("taken");
    rig.pass(199);
    assert_eq!(rig.completions(), []);
    rig.pass(2);
    let completion = rig.completion();
    assert_eq!((completion.id, completion.context), (id, 9));
    let timed_out = ended(RequestResult::TimedOut, Errno::ETIMEDOUT, None);
    assert_eq!(completion.outcome, timed_out);
}

#[test]
fn dealer_d_r2_the_first_of_reply_and_timeout_wins() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "x").expect("taken");
    rig.ask(None, "y").expect("taken");
    rig.feed(peer, [reply(1, "in time")]);
    rig.pass(6_000);
    rig.feed(peer, [reply(2, "late"), reply(1, "twice"), reply(99, "never asked")]);
    let results: Vec<_> = rig.completions().into_iter().map(|one| one.outcome).collect();
    let ok = ended(RequestResult::Ok, Errno(0), Some(record("in time")));
    assert_eq!(results, [ok, ended(RequestResult::TimedOut, Errno::ETIMEDOUT, None)]);
    assert_eq!(rig.core.counters().replies_late, 3);
    assert_eq!(rig.core.queued(), 130, "only what was asked is still to be written");
}

#[test]
fn dealer_an_own_timeout_replaces_the_default() {
    let mut rig = Rig::new(Dealer);
    rig.accept(Router, "A");
    let timeout = Some(Duration::from_millis(20));
    let submit = Submit::Request { timeout, claim: false };
    rig.core.try_submit(rig.now, None, record("x"), submit, 0).expect("taken");
    rig.pass(21);
    assert_eq!(rig.result(), (RequestResult::TimedOut, Errno::ETIMEDOUT));
}

#[test]
fn dealer_the_timer_is_armed_for_nearer_deadlines_only() {
    let mut rig = Rig::new(Dealer);
    rig.accept(Router, "A");
    let ask = |rig: &mut Rig, millis: u64| {
        let submit = Submit::Request { timeout: Some(Duration::from_millis(millis)), claim: false };
        let asked = rig.core.try_submit(rig.now, None, record("x"), submit, 0);
        asked.expect("taken");
        rig.wakes().contains(&Wake::Timer)
    };
    assert!(ask(&mut rig, 40), "the first one");
    assert!(!ask(&mut rig, 40) && !ask(&mut rig, 50), "not nearer");
    assert!(ask(&mut rig, 10));
    assert!(rig.core.next_deadline().is_some_and(|at| at <= rig.now + Duration::from_millis(11)));
    rig.pass(12);
    rig.pass(60);
    assert_eq!(rig.completions().len(), 4);
    assert_eq!(rig.core.next_deadline(), None);
}

#[test]
fn dealer_d_r3_the_end_of_its_link_ends_a_request_at_once() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let peer = rig.dial(Router, "A", endpoint);
    let ids = [rig.ask(None, "x").expect("taken"), rig.ask(None, "y").expect("taken")];
    rig.write(peer);
    rig.detach(peer);
    let completions = rig.completions();
    assert_eq!(completions.iter().map(|one| one.id).collect::<Vec<_>>(), ids);
    let not_connected = ended(RequestResult::NotConnected, Errno::EHOSTUNREACH, None);
    assert!(completions.iter().all(|one| one.outcome == not_connected));
    let again = rig.dial(Router, "A", endpoint);
    assert!(rig.write(again).is_empty(), "nothing is replayed");
    rig.feed(again, [reply(1, "D-F7: void")]);
    assert_eq!(rig.completions(), []);
    rig.pass(10_000);
    assert_eq!(rig.completions(), [], "exactly one completion");
}

#[test]
fn dealer_d_r3_no_other_connection_answers() {
    let mut rig = Rig::new(Dealer);
    let (first, second) = (rig.accept(Router, "A"), rig.accept(Router, "B"));
    rig.ask(None, "x").expect("taken");
    assert_eq!(sequences(&rig.write(first)), [1]);
    rig.feed(second, [reply(1, "not yours")]);
    assert_eq!(rig.completions(), []);
    rig.feed(first, [reply(1, "mine")]);
    assert_eq!(rig.result(), (RequestResult::Ok, Errno(0)));
}

#[test]
fn dealer_d_r4_error_replies_are_mapped() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    for _ in 0..5 {
        rig.ask(None, "x").expect("taken");
    }
    let enoent: &[u8] = &[0, 0, 0, 2];
    rig.feed(
        peer,
        [
            error_reply(1, &[enoent, b"gone"]),
            error_reply(2, &[enoent]),
            error_reply(3, &[&[0, 0, 0, 0]]),
            error_reply(4, &[b"long one", b"lost"]),
            error_reply(5, &[&[0, 0, 3, 0xe7]]),
        ],
    );
    let outcomes: Vec<_> = rig.completions().into_iter().map(|one| one.outcome).collect();
    let broken = ended(RequestResult::ProtocolError, Errno::EPROTO, None);
    let expected = [
        ended(RequestResult::NotFound, Errno::ENOENT, Some(record("gone"))),
        ended(RequestResult::NotFound, Errno::ENOENT, None),
        broken.clone(),
        broken,
        ended(RequestResult::InternalError, Errno(999), None),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(rig.core.counters().completions[RequestResult::NotFound], 2);
}

#[test]
fn dealer_d_r4_removal_of_the_endpoint_is_not_found() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let peer = rig.dial(Router, "A", endpoint);
    rig.ask(None, "x").expect("taken");
    assert!(rig.core.remove_endpoint(rig.now, endpoint));
    assert_eq!(rig.result(), (RequestResult::NotFound, Errno::ENOENT));
    let turn = rig.turn(peer, Vec::new(), 0);
    assert_eq!(turn.close, Some(Closing::Removed));
    assert_eq!(texts(&turn.outgoing), ["x"], "what was taken is written before");
    rig.detach(peer);
    let late = rig.attaching(Router, "A", Origin::Dialled(endpoint));
    assert_eq!(rig.attach(late), Err(Rejection::Closed));
}

#[test]
fn dealer_d_r6_a_reply_behind_data_is_no_completion_yet() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    for _ in 0..2 {
        rig.ask(None, "x").expect("taken");
    }
    rig.feed(peer, [data("1"), data("2"), reply(1, "one"), data("3"), reply(2, "two")]);
    for text in ["1", "2"] {
        assert!(!rig.core.readiness().completion);
        assert_eq!(first(&rig.recv().expect("data").record), text);
    }
    assert_eq!(rig.result(), (RequestResult::Ok, Errno(0)));
    assert_eq!(first(&rig.recv().expect("data").record), "3");
    assert_eq!(rig.result(), (RequestResult::Ok, Errno(0)));
    assert_eq!(rig.recv(), None, "D-V5");
}

#[test]
fn dealer_d_r6_the_timeout_may_come_first() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "x").expect("taken");
    rig.write(peer);
    rig.feed(peer, [data("1"), reply(1, "one")]);
    rig.pass(6_000);
    assert_eq!(rig.result(), (RequestResult::TimedOut, Errno::ETIMEDOUT));
    rig.recv().expect("data");
    assert_eq!(rig.completions(), [], "dropped when it is reached");
    assert_eq!((rig.core.queued(), rig.core.counters().replies_late), (0, 1));
}

#[test]
fn dealer_d_r8_completions_come_in_the_order_of_their_ends() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    let ids = [(); 3].map(|()| rig.ask(None, "x").expect("taken"));
    rig.feed(peer, [reply(3, ""), reply(1, "")]);
    rig.pass(6_000);
    let order: Vec<_> = rig.completions().into_iter().map(|one| one.id).collect();
    assert_eq!(order, [ids[2], ids[0], ids[1]]);
}

#[test]
fn zmp_x3_a_reply_keeps_its_charge_until_its_completion_is_pulled() {
    let mut rig = Rig::with(Dealer, |options| options.receive_hwm = 100);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "x").expect("taken");
    rig.write(peer);
    rig.feed(peer, [Inbound::Record(Kind::Reply(sequence(1)), hundred())]);
    assert_eq!(rig.core.queued(), 100);
    let mut turn = Turn { blocked: true, ..Turn::default() };
    rig.core.turn(rig.now, peer, &mut turn).expect("no fault");
    assert_eq!(turn.taken, 0);
    rig.wakes();
    rig.completion();
    assert_eq!(rig.wakes(), [Wake::Connection(peer)], "it reads on");
    assert_eq!(rig.turn(peer, Vec::new(), 0).taken, 100);
}

#[test]
fn dealer_claimed_requests_bypass_the_queue() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    let submit = Submit::Request { timeout: None, claim: true };
    let ask = |rig: &mut Rig| {
        let asked = rig.core.try_submit(rig.now, None, record("x"), submit, 3);
        asked.expect("taken").expect("an id")
    };
    let ids = [ask(&mut rig), ask(&mut rig), ask(&mut rig)];
    rig.write(peer);
    rig.core.disclaim(ids[1]);
    assert_eq!(rig.core.claimed(ids[0]), None);
    rig.wakes();
    rig.feed(peer, [reply(1, "a"), reply(2, "b"), reply(3, "c")]);
    assert_eq!(rig.wakes(), [Wake::Completion(ids[0]), Wake::Completion(ids[2])]);
    assert!(!rig.core.readiness().completion);
    let completion = rig.core.claimed(ids[0]).expect("there");
    assert_eq!((completion.id, completion.context), (ids[0], 3));
    assert_eq!(rig.core.claimed(ids[0]), None);
    rig.core.disclaim(ids[2]);
    assert_eq!(rig.core.claimed(ids[2]), None);
    assert_eq!(rig.core.queued(), 0, "the charge of what nobody takes is free");
    assert_eq!(rig.core.counters().completions[RequestResult::Ok], 3);
}

#[test]
fn zmp_sequences_are_not_the_public_ids() {
    let mut rig = Rig::new(Dealer);
    rig.send(None, hundred()).expect_err("a token takes an id");
    let peer = rig.accept(Router, "A");
    let id = rig.ask(None, "x").expect("taken");
    assert_eq!((id.0.get(), sequences(&rig.write(peer))), (2, vec![1]));
}

#[test]
fn dealer_a_request_from_a_peer_breaks_the_protocol() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    let fault = rig.try_turn(peer, vec![data("1"), request(1, "2"), data("3")], 0);
    let fault = fault.expect_err("a fault");
    assert_eq!(fault.code, crate::zmp::frame::ErrorCode::Internal);
    assert_eq!(first(&rig.recv().expect("what came before").record), "1");
    assert_eq!(rig.recv(), None);
}
