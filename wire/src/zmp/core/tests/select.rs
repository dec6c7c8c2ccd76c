//! Choosing a peer (2.2). The rule itself is proven with the scheduler.

use super::*;

/// The peers that `count` records go to, by the first byte of their ids.
fn order(rig: &mut Rig, peers: &[(&str, ConnectionId)], count: usize) -> String {
    let mut order = String::new();
    for _ in 0..count {
        rig.send(None, record("x")).expect("taken");
        for (id, connection) in peers {
            if !rig.write(*connection).is_empty() {
                order.push_str(id);
            }
        }
    }
    order
}

fn two(weights: [u32; 2]) -> (Rig, [(&'static str, ConnectionId); 2]) {
    let mut rig = Rig::new(Dealer);
    let peers = ["A", "B"].map(|id| (id, rig.accept(Router, id)));
    for ((_, connection), number) in peers.iter().zip(weights) {
        rig.feed(*connection, [Inbound::Weight(weight(number))]);
    }
    (rig, peers)
}

#[test]
fn dealer_weights_decide_and_ids_break_ties() {
    for (weights, expected) in
        [([100, 300], "BABBBABB"), ([300, 100], "AABAAABA"), ([100, 100], "ABABABAB")]
    {
        let (mut rig, peers) = two(weights);
        assert_eq!(order(&mut rig, &peers, 8), expected, "{weights:?}");
    }
}

#[test]
fn dealer_equal_ids_go_by_endpoint() {
    let mut rig = Rig::new(Dealer);
    let (late, early) = (rig.endpoint("tcp://b"), rig.endpoint("tcp://a"));
    let second = rig.dial(Router, "A", late);
    let first = rig.dial(Router, "A", early);
    assert_eq!(order(&mut rig, &[("1", first), ("2", second)], 4), "1212");
}

#[test]
fn dealer_d_s1_a_full_peer_is_left_out_and_its_accumulator_stands_still() {
    let (mut rig, peers) = two([100, 300]);
    assert_eq!(order(&mut rig, &peers, 1), "B");
    rig.feed(peers[1].1, [paused(1)]);
    assert_eq!(order(&mut rig, &peers, 2), "AA");
    rig.feed(peers[1].1, [running(2)]);
    assert_eq!(order(&mut rig, &peers, 3), "ABB", "the pattern goes on where it stopped");
}

#[test]
fn dealer_d_s1_a_winner_without_room_for_this_record_loses_the_attempt() {
    let (mut rig, peers) = two([100, 300]);
    // B has 950 of 1000 queued: a record of 100 does not fit any more.
    rig.feed(peers[0].1, [paused(1)]);
    rig.send(None, Record::new(vec![0; 886])).expect("taken");
    rig.feed(peers[0].1, [running(2)]);
    rig.send(None, hundred()).expect("taken by the other one");
    assert_eq!(texts(&rig.write(peers[0].1)).len(), 1);
    // A alone was the candidate of the accepting run, so that it is still at zero.
    assert_eq!(texts(&rig.write(peers[1].1)).len(), 1);
    assert_eq!(order(&mut rig, &peers, 4), "BABB");
}

#[test]
fn dealer_d_s2_a_record_too_large_for_its_peer_goes_to_no_other() {
    let mut rig = Rig::new(Dealer);
    let mut small = rig.attaching(Router, "A", Origin::Accepted("tcp://bound".into()));
    small.peer_max_message_size = 4;
    let small = rig.attach(small).expect("attached");
    let large = rig.accept(Router, "B");
    let refused = rig.send(None, record("12345")).expect_err("too large for A");
    assert_eq!(refused.error, error(SubmitResult::InvalidArgument, Errno::EMSGSIZE));
    assert_eq!((refused.record, refused.token), (record("12345"), None));
    assert!(rig.write(small).is_empty() && rig.write(large).is_empty(), "D-A3");
    rig.send(None, record("1234")).expect("as large as A takes");
    assert_eq!(texts(&rig.write(small)), ["1234"], "the refused run did not count");
    assert_eq!(rig.core.counters().oversize_out, 1);
}

#[test]
fn dealer_d_s2_more_parts_than_a_decoder_takes_are_too_many() {
    let mut rig = Rig::with(Dealer, |options| options.send_hwm = 0);
    rig.accept(Router, "A");
    let parts = |count| Record::from_parts(vec![Bytes::new(); count]).expect("parts");
    rig.send(None, parts(crate::zmp::MOST_PARTS)).expect("as many as a decoder takes");
    let refused = rig.send(None, parts(crate::zmp::MOST_PARTS + 1)).expect_err("one more");
    assert_eq!(refused.error, error(SubmitResult::InvalidArgument, Errno::EMSGSIZE));
}

#[test]
fn dealer_d_s2_the_own_limit_counts_all_parts() {
    let mut rig = Rig::with(Dealer, |options| options.max_message_size = 4);
    rig.accept(Router, "A");
    let parts = |parts: &[&'static str]| {
        Record::from_parts(parts.iter().map(|part| Bytes::from(*part))).expect("parts")
    };
    rig.send(None, parts(&["12", "34"])).expect("four bytes");
    let refused = rig.send(None, parts(&["12", "345"])).expect_err("five bytes");
    assert_eq!(refused.error, error(SubmitResult::InvalidArgument, Errno::EMSGSIZE));
    assert_eq!(rig.core.status().send.oversize_total, 1);
}

#[test]
fn dealer_d_s3_weight_zero_keeps_the_accumulator_and_a_reconnect_does_not() {
    let (mut rig, peers) = two([100, 300]);
    assert_eq!(order(&mut rig, &peers, 1), "B");
    rig.feed(peers[1].1, [Inbound::Weight(weight(0))]);
    assert_eq!(order(&mut rig, &peers, 2), "AA");
    rig.feed(peers[1].1, [Inbound::Weight(weight(300))]);
    assert_eq!(order(&mut rig, &peers, 2), "AB");
    rig.detach(peers[1].1);
    let again = rig.accept(Router, "B");
    rig.feed(again, [Inbound::Weight(weight(300))]);
    let peers = [peers[0], ("B", again)];
    assert_eq!(order(&mut rig, &peers, 1), "B", "A kept -200, B begins at 0");
}

#[test]
fn dealer_d_s4_a_weight_change_does_not_move_a_record() {
    let (mut rig, peers) = two([100, 300]);
    rig.send(None, record("stays")).expect("taken");
    rig.feed(peers[1].1, [Inbound::Weight(weight(0))]);
    rig.send(None, record("next")).expect("taken");
    assert_eq!(texts(&rig.write(peers[1].1)), ["stays"]);
    assert_eq!(texts(&rig.write(peers[0].1)), ["next"]);
}

#[test]
fn dealer_requests_go_to_routers_only() {
    let mut rig = Rig::new(Dealer);
    let (dealer, router) = (rig.accept(Dealer, "A"), rig.accept(Router, "B"));
    for _ in 0..3 {
        rig.ask(None, "ping").expect("taken");
    }
    assert!(rig.write(dealer).is_empty());
    assert_eq!(sequences(&rig.write(router)), [1, 2, 3], "1.6: the sequences count up from 1");
}
