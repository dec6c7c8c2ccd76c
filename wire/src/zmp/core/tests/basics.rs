//! Two sockets that speak with each other: the whole path of each record.

use super::wire::Pair;
use super::*;

#[test]
fn dealer_to_router_and_back() {
    let mut pair = Pair::new(Dealer, Router);
    let parts = Record::from_parts(["a", "", "c"].map(Bytes::from)).expect("parts");
    pair.left.try_submit(pair.now, None, parts.clone(), Submit::Send, 0).expect("taken");
    pair.run();
    assert_eq!(pair.right.next_parts(), Some(3));
    let received = pair.right.recv().expect("a record");
    assert_eq!(received, Received { from: Some(rid("L")), record: parts, reply: None });
    let id = rid("L");
    pair.right.try_submit(pair.now, Some(&id), record("back"), Submit::Send, 0).expect("taken");
    pair.run();
    let received = pair.left.recv().expect("a record");
    assert_eq!(received, Received { from: None, record: record("back"), reply: None });
    assert_eq!((pair.left.queued(), pair.right.queued()), (0, 0));
}

#[test]
fn router_r_v1_request_and_reply() {
    for left in [Dealer, Router] {
        let mut pair = Pair::new(left, Router);
        let target = rid("R");
        let target = (left == Router).then_some(&target);
        let id = pair.left.try_submit(pair.now, target, record("ping"), ASK, 9).expect("taken");
        pair.run();
        let received = pair.right.recv().expect("a request");
        assert_eq!((received.from, &received.record), (Some(rid("L")), &record("ping")));
        let reply = received.reply.expect("a token");
        assert!(!pair.left.readiness().completion);
        pair.right.try_reply(reply, record("pong")).expect("taken");
        pair.run();
        assert!(pair.left.readiness().completion);
        assert!(!pair.left.readiness().input, "D-V5: no reply shows up in receive");
        let completion = pair.left.next_completion().expect("a completion");
        let outcome = Outcome::Request {
            result: RequestResult::Ok,
            errno: Errno(0),
            parts: Some(record("pong")),
        };
        let peer = target.cloned();
        let id = id.expect("an id");
        assert_eq!(completion, Completion { id, context: 9, peer, outcome });
        assert_eq!(pair.left.next_completion(), None);
        let refused = pair.right.try_reply(reply, record("again")).expect_err("R-P3");
        assert_eq!(refused.error, error(SubmitResult::NotFound, Errno::ENOENT));
        assert_eq!((pair.left.queued(), pair.right.queued()), (0, 0));
    }
}

#[test]
fn router_error_replies_pass_with_errno_and_parts() {
    let mut pair = Pair::new(Dealer, Router);
    pair.left.try_submit(pair.now, None, record("ping"), ASK, 0).expect("taken");
    pair.run();
    let reply = pair.right.recv().and_then(|received| received.reply).expect("a token");
    pair.right.try_reply_error(reply, Errno::EBUSY, Some(record("later"))).expect("taken");
    pair.run();
    let outcome = pair.left.next_completion().expect("a completion").outcome;
    let (result, errno, parts) = (RequestResult::Busy, Errno::EBUSY, Some(record("later")));
    assert_eq!(outcome, Outcome::Request { result, errno, parts });
}

#[test]
fn zmp_weights_and_flow_states_reach_the_peer() {
    for (left, right) in [(Dealer, Dealer), (Dealer, Router), (Router, Router)] {
        let mut pair = Pair::new(left, right);
        pair.left.set_weight(weight(7));
        pair.left.set_receive_flow_state(pair.now, FlowState::Paused);
        pair.run();
        let peer = pair.right.peers().remove(0);
        assert_eq!((peer.weight, peer.paused), (weight(7), true), "{left:?} {right:?}");
        pair.left.set_receive_flow_state(pair.now, FlowState::Running);
        pair.run();
        assert!(!pair.right.peers()[0].paused);
        assert_eq!(pair.right.counters().flow.stale_total, 0);
        assert!(pair.right.recv().is_none() && pair.right.next_completion().is_none(), "D-F8");
    }
}

#[test]
fn zmp_bursts_arrive_whole_and_in_order() {
    let mut pair = Pair::new(Dealer, Router);
    for round in 0..50 {
        for number in 0..200 {
            let text = format!("{round} {number}");
            pair.left.try_submit(pair.now, None, record(&text), Submit::Send, 0).expect("taken");
        }
        pair.run();
        for number in 0..200 {
            let received = pair.right.recv().expect("a record");
            assert_eq!(first(&received.record), format!("{round} {number}"));
        }
        assert_eq!(pair.right.recv(), None);
    }
    let counters = pair.right.counters();
    assert_eq!(counters.received, pair.left.counters().sent);
    assert_eq!(counters.received.records.total(), 10_000);
}
