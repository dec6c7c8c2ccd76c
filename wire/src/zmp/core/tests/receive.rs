//! Taking records (2.7), and reading on (4.2).

use super::*;

#[test]
fn dealer_d_v1_peers_are_served_in_fair_turns() {
    let mut rig = Rig::new(Dealer);
    let (first_peer, second) = (rig.accept(Router, "A"), rig.accept(Router, "B"));
    rig.feed(first_peer, ["a1", "a2", "a3", "a4"].map(data));
    rig.feed(second, ["b1", "b2"].map(data));
    let third = rig.accept(Dealer, "C");
    let mut order = Vec::new();
    for step in 0..7 {
        if step == 2 {
            rig.feed(third, [data("c1")]);
        }
        order.push(first(&rig.recv().expect("data").record));
    }
    assert_eq!(order, ["a1", "b1", "a2", "b2", "c1", "a3", "a4"]);
    assert_eq!(rig.recv(), None, "D-V4");
}

#[test]
fn dealer_d_v3_the_number_of_parts_is_known_before() {
    let mut rig = Rig::new(Dealer);
    let peer = rig.accept(Router, "A");
    assert_eq!(rig.core.next_parts(), None);
    let parts = Record::from_parts(["", "2", ""].map(Bytes::from)).expect("parts");
    rig.feed(peer, [Inbound::Record(Kind::Data, parts.clone()), data("x")]);
    for _ in 0..2 {
        assert_eq!(rig.core.next_parts(), Some(3), "the record stays");
    }
    assert_eq!(rig.recv().expect("data").record, parts, "D-V2: no sender");
    assert_eq!(rig.core.next_parts(), Some(1));
}

#[test]
fn zmp_credit_to_read_comes_in_batches() {
    let mut rig = Rig::with(Dealer, |options| options.receive_hwm = 1000);
    let peer = rig.accept(Router, "A");
    let received = (0..10).map(|_| Inbound::Record(Kind::Data, hundred())).collect();
    let mut turn = Turn { received, blocked: true, ..Turn::default() };
    rig.core.turn(rig.now, peer, &mut turn).expect("no fault");
    rig.wakes();
    for _ in 0..4 {
        rig.recv().expect("data");
    }
    assert_eq!(rig.wakes(), [], "above the low-water mark");
    for _ in 0..6 {
        rig.recv().expect("data");
    }
    assert_eq!(rig.wakes(), [Wake::Connection(peer)], "once");
    assert_eq!(rig.turn(peer, Vec::new(), 0).taken, 1000);
}

#[test]
fn zmp_a_reader_behind_its_own_open_record_is_woken_as_the_queue_drains() {
    let mut rig = Rig::with(Dealer, |options| options.receive_hwm = 1000);
    let peer = rig.accept(Router, "A");
    rig.feed(peer, [data("1"), data("2")]);
    let mut turn = Turn { blocked: true, ..Turn::default() };
    rig.core.turn(rig.now, peer, &mut turn).expect("no fault");
    rig.wakes();
    rig.recv().expect("data");
    assert_eq!(rig.wakes(), [Wake::Connection(peer)]);
    let mut turn = Turn { blocked: true, ..Turn::default() };
    rig.core.turn(rig.now, peer, &mut turn).expect("no fault");
    rig.recv().expect("data");
    assert_eq!(rig.wakes(), [Wake::Connection(peer)], "everything before it has drained (X-3)");
}

#[test]
fn zmp_held_charge_counts_until_it_is_released() {
    let mut rig = Rig::with(Router, |options| options.receive_hwm = 100);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [Inbound::Record(Kind::Data, hundred())]);
    let (_, held) = rig.core.recv_held().expect("a record");
    assert_eq!((held.connection, held.charge, rig.core.queued()), (peer, 100, 100));
    assert_eq!(rig.turn(peer, Vec::new(), 0).taken, 0);
    rig.core.release(held);
    assert_eq!((rig.core.queued(), rig.turn(peer, Vec::new(), 0).taken), (0, 100));

    rig.feed(peer, [Inbound::Record(Kind::Data, hundred())]);
    let (_, held) = rig.core.recv_held().expect("a record");
    rig.detach(peer);
    assert_eq!(rig.core.queued(), 100);
    rig.core.release(held);
    assert_eq!(rig.core.queued(), 0, "its link has ended");
}

#[test]
fn zmp_what_a_link_brought_is_taken_after_its_end() {
    let mut rig = Rig::new(Router);
    let peer = rig.accept(Dealer, "A");
    rig.feed(peer, [data("1"), request(1, "2")]);
    rig.detach(peer);
    assert_eq!(rig.core.peers(), []);
    assert_eq!(first(&rig.recv().expect("data").record), "1");
    let received = rig.recv().expect("a request");
    assert_eq!(received.from, Some(rid("A")));
    // Its id may come back: the reply goes there (R-P3).
    let peer = rig.accept(Dealer, "A");
    rig.core.try_reply(received.reply.expect("a token"), record("3")).expect("taken");
    assert_eq!(texts(&rig.write(peer)), ["3"]);
}

#[test]
fn zmp_what_a_removed_link_brought_is_dropped_and_counted() {
    let mut rig = Rig::new(Router);
    let (peer, other) = (rig.accept(Dealer, "A"), rig.accept(Dealer, "B"));
    rig.feed(peer, [data("1"), data("2")]);
    rig.feed(other, [data("3")]);
    assert!(rig.core.disconnect_rid(rig.now, &rid("A")));
    assert_eq!(first(&rig.recv().expect("data").record), "3");
    assert_eq!(rig.recv(), None);
    assert_eq!(rig.core.counters().dropped[crate::zmp::status::Drop::Broken], 2);
    rig.feed(peer, [data("4")]);
    assert_eq!(rig.recv(), None, "nor what comes after");
    assert_eq!(rig.core.queued(), 0);
}
