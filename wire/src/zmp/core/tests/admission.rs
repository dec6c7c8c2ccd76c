//! Admission, DONTWAIT and wait tokens (2.3, 2.4, 4.2).

use super::*;

fn writable(id: CompletionId, context: u64) -> Completion {
    Completion { id, context, peer: None, outcome: Outcome::Writable }
}

#[test]
fn zmp_hwm_counts_payload_and_64_for_each_frame() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    for _ in 0..10 {
        rig.send(None, hundred()).expect("ten fit");
    }
    let refused = rig.send(None, record("")).expect_err("64 more do not");
    assert_eq!(refused.error, EAGAIN);
    assert_eq!(rig.core.queued(), 1000);
    assert_eq!(texts(&rig.write(peer)).len(), 10);
    assert_eq!(rig.core.queued(), 0);
}

#[test]
fn zmp_x3_an_empty_queue_takes_one_record_of_any_size() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    rig.send(None, Record::new(vec![0; 5000])).expect("the queue is empty");
    rig.send(None, record("x")).expect_err("a second one waits");
    rig.write(peer);
    rig.send(None, record("x")).expect("taken");
    rig.send(None, Record::new(vec![0; 5000])).expect_err("the queue is not empty");
}

#[test]
fn zmp_hwm_zero_is_no_limit() {
    let mut rig = Rig::with(Dealer, |options| options.send_hwm = 0);
    rig.accept(Router, "A");
    for _ in 0..1000 {
        rig.send(None, hundred()).expect("no limit");
    }
}

#[test]
fn zmp_lowering_the_hwm_keeps_what_is_queued() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    for _ in 0..8 {
        rig.send(None, hundred()).expect("eight fit");
    }
    rig.core.set_options(|options| options.send_hwm = 300);
    rig.send(None, hundred()).expect_err("the limit is below what is queued");
    assert_eq!(texts(&rig.write(peer)).len(), 8);
    assert_eq!(rig.core.next_completion().map(|record| record.outcome), Some(Outcome::Writable));
    rig.fill(None);
    assert_eq!(rig.core.queued(), 300);
}

#[test]
fn zmp_raising_the_hwm_is_an_edge() {
    let mut rig = Rig::new(Dealer);
    rig.accept(Router, "A");
    let token = rig.fill(None);
    rig.core.set_options(|options| options.send_hwm = 10_000);
    assert_eq!(rig.completion(), writable(token, 7));
    rig.send(None, hundred()).expect("room");
}

#[test]
fn dealer_d_d2_every_reason_gives_a_token() {
    let mut rig = Rig::new(Dealer);
    let mut tokens = Vec::new();
    let refuse = |rig: &mut Rig, tokens: &mut Vec<CompletionId>, why: &str| {
        for refused in [rig.send(None, hundred()).err(), rig.ask(None, "x").err()] {
            let refused = refused.expect(why);
            assert_eq!(refused.error, EAGAIN, "{why}");
            tokens.push(refused.token.expect(why));
        }
    };
    refuse(&mut rig, &mut tokens, "zero peers");
    let peer = rig.accept(Router, "A");
    rig.feed(peer, [Inbound::Weight(weight(0))]);
    refuse(&mut rig, &mut tokens, "weight 0");
    rig.feed(peer, [Inbound::Weight(weight(1)), paused(1)]);
    refuse(&mut rig, &mut tokens, "paused");
    rig.feed(peer, [running(2)]);
    tokens.push(rig.fill(None));
    refuse(&mut rig, &mut tokens, "HWM");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 9, "D-W8: none is used twice");
    let counters = rig.core.counters();
    assert_eq!((counters.tokens_issued, counters.backpressured), (9, 9));
}

#[test]
fn dealer_d_d2_a_request_without_a_router_gets_a_token() {
    let mut rig = Rig::new(Dealer);
    rig.accept(Dealer, "A");
    let token = rig.ask(None, "x").expect_err("no ROUTER").token.expect("a token");
    assert_eq!(rig.completions(), []);
    rig.accept(Dealer, "B");
    assert_eq!(rig.completions(), [], "D-W1: not its target");
    rig.accept(Router, "C");
    assert_eq!(rig.completion(), writable(token, 9));
}

#[test]
fn dealer_d_d3_a_request_falls_back_to_another_router() {
    let mut rig = Rig::new(Dealer);
    let (first, second) = (rig.accept(Router, "A"), rig.accept(Router, "B"));
    rig.feed(first, [paused(1)]);
    rig.ask(None, "x").expect("the other one takes it");
    assert_eq!(sequences(&rig.write(second)), [1]);
}

#[test]
fn dealer_d_w2_the_edges() {
    // Each in turn: what closes the way, and what opens it.
    let mut rig = Rig::new(Dealer);
    let token = rig.send(None, hundred()).expect_err("zero peers").token.expect("a token");
    let peer = rig.accept(Router, "A");
    assert_eq!(rig.completion(), writable(token, 7), "a peer attached");

    rig.feed(peer, [paused(1)]);
    let token = rig.send(None, hundred()).expect_err("paused").token.expect("a token");
    rig.feed(peer, [running(2)]);
    assert_eq!(rig.completion(), writable(token, 7), "RUNNING");

    rig.feed(peer, [Inbound::Weight(weight(0))]);
    let token = rig.send(None, hundred()).expect_err("weight 0").token.expect("a token");
    rig.feed(peer, [Inbound::Weight(weight(5))]);
    assert_eq!(rig.completion(), writable(token, 7), "a weight");

    let token = rig.fill(None);
    let out = rig.turn(peer, Vec::new(), 0).outgoing;
    assert_eq!(out.len(), 10);
    rig.turn(peer, Vec::new(), 499);
    assert_eq!(rig.completions(), [], "above the low-water mark");
    rig.turn(peer, Vec::new(), 1);
    assert_eq!(rig.completion(), writable(token, 7), "ceil(HWM / 2)");
    rig.turn(peer, Vec::new(), 500);
    assert_eq!(rig.completions(), [], "D-W3: one record for each token");
}

#[test]
fn dealer_d_w3_each_token_gets_one_record_in_order() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    let first = rig.fill(None);
    let second = rig.send(None, hundred()).expect_err("full").token.expect("a token");
    let ask = rig.ask(None, "x").expect_err("full").token.expect("a token");
    rig.wakes();
    rig.write(peer);
    assert_eq!(rig.wakes().iter().filter(|wake| **wake == Wake::Completions).count(), 1);
    let expected = [writable(first, 7), writable(second, 7), writable(ask, 9)];
    assert_eq!(rig.completions(), expected);
    assert_eq!(rig.core.counters().tokens_finished, 3);
}

#[test]
fn dealer_d_w4_no_lost_wake() {
    // Whatever the order of refusals and credit, a token that was given is finished when the way
    // is free.
    for edge in 0..=10 {
        let mut rig = Rig::new(Dealer);
        let peer = rig.accept(Router, "A");
        let outgoing = loop {
            rig.send(None, hundred()).expect("room");
            if rig.core.queued() == 1000 {
                break rig.turn(peer, Vec::new(), 0).outgoing;
            }
        };
        assert_eq!(outgoing.len(), 10);
        let mut token = None;
        for step in 0..=10 {
            if step == edge {
                token = rig.send(None, Record::new(vec![0; 936])).expect_err("full").token;
                assert!(token.is_some());
            }
            if step < 10 {
                rig.turn(peer, Vec::new(), 100);
            }
            if rig.core.queued() == 0 {
                break;
            }
        }
        if let Some(token) = token {
            assert_eq!(rig.completion(), writable(token, 7), "refused after {edge}");
        }
    }
}

#[test]
fn dealer_d_w5_weight_zero_and_disconnects_keep_a_token() {
    let mut rig = Rig::new(Dealer);
    let endpoint = rig.endpoint("tcp://a");
    let peer = rig.dial(Router, "A", endpoint);
    let token = rig.fill(None);
    rig.feed(peer, [Inbound::Weight(weight(0))]);
    rig.detach(peer);
    assert_eq!(rig.completions(), []);
    rig.dial(Router, "A", endpoint);
    assert_eq!(rig.completion(), writable(token, 7));
}

#[test]
fn dealer_d_w6_removal_of_the_last_endpoint_finishes_tokens() {
    let mut rig = Rig::new(Dealer);
    assert!(rig.core.unbound("tcp://bound"));
    let (first, second) = (rig.endpoint("tcp://a"), rig.endpoint("tcp://b"));
    let token = rig.send(None, hundred()).expect_err("zero peers").token.expect("a token");
    assert!(rig.core.remove_endpoint(rig.now, first));
    assert!(!rig.core.remove_endpoint(rig.now, first));
    assert_eq!(rig.completions(), [], "D-W1: the other endpoint is its target as well");
    assert!(rig.core.remove_endpoint(rig.now, second));
    let removed = Completion { outcome: Outcome::Removed, ..writable(token, 7) };
    assert_eq!(rig.completion(), removed);
}

#[test]
fn dealer_d_w8_numbers_end() {
    let mut rig = Rig::new(Dealer);
    rig.core.requests.id = u64::MAX - 1;
    let token = rig.send(None, hundred()).expect_err("zero peers").token.expect("the last one");
    assert_eq!(token.0.get(), u64::MAX);
    let over = error(SubmitResult::SeqExhausted, Errno::EOVERFLOW);
    let refused = rig.send(None, hundred()).expect_err("no number");
    assert_eq!((refused.error, refused.token), (over, None));
    rig.accept(Router, "A");
    let refused = rig.ask(None, "x").expect_err("no number");
    assert_eq!(refused.error, over);
    assert_eq!(rig.core.queued(), 0, "D-R1: nothing is on the wire");
}

#[test]
fn dealer_d_w9_one_pool_of_reservations() {
    let mut rig = Rig::with(Dealer, |options| options.reservations = 3);
    let peer = rig.accept(Router, "A");
    rig.ask(None, "1").expect("one");
    rig.ask(None, "2").expect("two");
    rig.fill(None);
    let refused = rig.send(None, hundred()).expect_err("full");
    assert_eq!(refused.error, error(SubmitResult::OutOfMemory, Errno::ENOMEM));
    assert_eq!(refused.token, None);
    rig.write(peer);
    let refused = rig.ask(None, "3").expect_err("no reservation");
    assert_eq!((refused.error, refused.token), (EAGAIN, None));
    let (attempt, waiter) = rig.core.begin(rig.now, None, hundred(), ASK, 0);
    assert!(matches!(attempt, Attempt::Failed(Refused { error, .. }) if error == EAGAIN));
    assert_eq!(waiter, None);
    rig.send(None, hundred()).expect("a send that finds room needs none");
    rig.completion();
    rig.ask(None, "3").expect("pulling one record frees one");
}

#[test]
fn dealer_claimed_tokens_bypass_the_queue() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    let (early, late, gone) = (rig.fill(None), rig.fill(None), rig.fill(None));
    assert!(rig.core.claim_token(early));
    assert!(rig.core.claim_token(gone));
    rig.core.disclaim(gone);
    assert_eq!(rig.core.claimed(early), None, "not yet");
    rig.write(peer);
    assert!(rig.wakes().contains(&Wake::Completion(early)));
    assert!(rig.core.claim_token(late), "taken out of the queue");
    assert_eq!(rig.completions(), []);
    assert!(!rig.core.readiness().completion);
    for token in [early, late] {
        assert_eq!(rig.core.claimed(token), Some(writable(token, 7)));
        assert_eq!(rig.core.claimed(token), None);
    }
    assert!(!rig.core.claim_token(gone) && rig.core.claimed(gone).is_none());
    assert_eq!(rig.core.counters().tokens_finished, 3);
}

#[test]
fn zmp_arguments_come_before_everything_else() {
    let mut dealer = Rig::new(Dealer);
    let refused = dealer.send(Some("A"), hundred()).expect_err("a DEALER chooses itself");
    assert_eq!(refused.error, error(SubmitResult::InvalidArgument, Errno::EINVAL));
    let mut router = Rig::new(Router);
    router.core.close(router.now);
    let refused = router.send(None, hundred()).expect_err("a ROUTER needs an id");
    assert_eq!(refused.error, error(SubmitResult::InvalidArgument, Errno::EINVAL));
}
