//! Which peer gets a record: items 14 to 20.

use lineway::zmp::{Errno, Outcome, SubmitResult};

use crate::common::{Service, until};
use crate::kit::{
    BLOCKED, Far, HUGE, Model, dealer, dealer_with, follows, listen_small, ms, refusal, wait,
};
use crate::raw::{DATA, DEALER, Peer, ROUTER, listen, record, weight};

/// Three of different weights, whose kinds do not matter.
fn three(d: &crate::kit::Under<lineway::zmp::Dealer>) -> (Far, Far, Far) {
    let (mut a, mut b, mut c) = (d.peer(DEALER, "A"), d.peer(ROUTER, "B"), d.peer(DEALER, "C"));
    a.weighs(d, 1);
    b.weighs(d, 2);
    c.weighs(d, 7);
    (a, b, c)
}

#[test]
fn item_14_the_lighter_peer_with_the_smaller_id_is_second() {
    let d = dealer("D1");
    let (mut a, mut b) = (d.peer(DEALER, "A"), d.peer(DEALER, "B"));
    b.weighs(&d, 300);
    let mut model = Model::new(&[('A', 100), ('B', 300)]);
    let order = follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "", 12);
    assert_eq!(order, "BABBBABBBABB");

    // The same weights with the ids the other way.
    let d = dealer("D1");
    let (mut b, mut a) = (d.peer(DEALER, "B"), d.peer(DEALER, "A"));
    a.weighs(&d, 300);
    let mut model = Model::new(&[('A', 300), ('B', 100)]);
    let order = follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "", 8);
    assert_eq!(order, "AABAAABA");

    // Equal ids: the endpoint that the link was made through.
    let d = dealer("D1");
    let (one, other) = (d.peer(DEALER, "A"), d.peer(DEALER, "A"));
    let (mut first, mut second) =
        if one.endpoint < other.endpoint { (one, other) } else { (other, one) };
    for text in ["1", "2", "3", "4"] {
        d.say(text);
        let turn = if text == "1" || text == "3" { &mut first } else { &mut second };
        assert_eq!(turn.record().single(), text.as_bytes());
    }
}

#[test]
fn item_15_equal_ones_alternate_and_a_long_run_has_the_ratio() {
    let d = dealer("D1");
    let (mut a, mut b, mut c) = (d.peer(DEALER, "A"), d.peer(DEALER, "B"), d.peer(DEALER, "C"));
    let mut model = Model::new(&[('A', 100), ('B', 100), ('C', 100)]);
    let mut peers = [('A', &mut a), ('B', &mut b), ('C', &mut c)];
    assert_eq!(follows(&d, &mut model, &mut peers, "", 6), "ABCABC");
    c.weighs(&d, 0);
    model.weighs('C', 0);
    let mut peers = [('A', &mut a), ('B', &mut b)];
    assert_eq!(follows(&d, &mut model, &mut peers, "", 6), "ABABAB");

    let d = dealer("D1");
    let (mut a, mut b, mut c) = three(&d);
    for number in 0..1000 {
        d.say(number.to_string());
    }
    let mut seen = vec![false; 1000];
    for (far, share) in [(&mut a, 100), (&mut b, 200), (&mut c, 700)] {
        let mut last = None;
        for _ in 0..share {
            let number: usize =
                String::from_utf8_lossy(far.record().single()).parse().expect("a number");
            assert!(last < Some(number), "{number} after {last:?}");
            assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
            last = Some(number);
        }
    }
    assert!(seen.iter().all(|seen| *seen), "all are there, so nobody has more than its share");
}

#[test]
fn item_16_with_every_weight_zero_a_send_is_not_admitted() {
    let d = dealer_with("D1", |options| options.send_timeout = Some(ms(100)));
    let (mut a, mut b) = (d.peer(DEALER, "A"), d.peer(ROUTER, "B"));
    a.weighs(&d, 0);
    b.weighs(&d, 0);
    let error = wait(d.send("to nobody")).unwrap_err();
    let refused = (SubmitResult::NotAdmitted, Errno::ECONNREFUSED, false);
    assert_eq!((refusal(&error), error.number(), error.errno().0), (refused, 13, 111));
    assert_eq!(error.into_record().parts(), ["to nobody"]);
    // DONTWAIT does not say so (D-D2).
    assert_eq!(refusal(&d.try_send("to nobody", 0).unwrap_err()), BLOCKED);
    b.weighs(&d, 1);
    d.say("to B");
    assert_eq!(b.record().single(), b"to B");
}

/// A process whose DEALER connects to these peers in this order; where each of so many records went.
fn order_of_a_process(ids: [(char, u32); 3]) -> String {
    let peers = ids.map(|(id, weight)| (id, weight, listen()));
    let connect: Vec<_> = peers.iter().map(|(_, _, at)| format!("\"{}\"", at.1)).collect();
    let service = Service::start(&format!(
        "[[node]]\nname = \"clients\"\ntype = \"RouterSocket\"\nnext = \"workers\"\n\
         settings = {{ bind = [\"tcp://127.0.0.1:0\"] }}\n\
         [[node]]\nname = \"workers\"\ntype = \"DealerSocket\"\n\
         settings = {{ connect = [{}] }}\n",
        connect.join(", ")
    ));
    let mut peers = peers.map(|(id, value, (listener, _))| {
        let mut peer = Peer::accept(&listener, ROUTER, id.to_string().as_bytes());
        peer.send(&weight(value));
        (id, peer, listener)
    });
    let sum = ids.iter().map(|(_, weight)| f64::from(*weight)).sum();
    service.until_metric("lineway_socket_peer_weights", &[("node", "workers")], sum);
    let mut client = Peer::connect(crate::service::at(&service, "clients"), DEALER, b"client");
    let mut order = String::new();
    for number in 0..30 {
        let text = format!("{number}");
        client.send(&record(DATA, None, &[text.as_bytes()]));
        until("the record arrives", || {
            for (id, peer, _) in &mut peers {
                if let Some(record) = peer.record_within(ms(2)) {
                    assert_eq!(record.single(), text.as_bytes());
                    order.push(*id);
                    return true;
                }
            }
            false
        });
    }
    order
}

#[test]
fn item_17_two_processes_choose_the_same_order() {
    let one = order_of_a_process([('A', 100), ('B', 250), ('C', 70)]);
    let other = order_of_a_process([('C', 70), ('B', 250), ('A', 100)]);
    assert_eq!(one, other);
    let mut model = Model::new(&[('A', 100), ('B', 250), ('C', 70)]);
    assert_eq!(one, (0..30).map(|_| model.next("")).collect::<String>());
}

#[test]
fn item_18_a_reconnected_peer_begins_at_zero_in_its_old_place() {
    let d = dealer("D1");
    let (mut a, mut b, mut c) = three(&d);
    let mut model = Model::new(&[('A', 1), ('B', 2), ('C', 7)]);
    let mut peers = [('A', &mut a), ('B', &mut b), ('C', &mut c)];
    follows(&d, &mut model, &mut peers, "", 4);
    c.leave(&d);
    until("the link is gone", || d.peers().len() == 2);
    let mut peers = [('A', &mut a), ('B', &mut b)];
    follows(&d, &mut model, &mut peers, "C", 2);
    c.back(&d);
    c.weighs(&d, 7);
    model.again('C', 7);
    let mut peers = [('A', &mut a), ('B', &mut b), ('C', &mut c)];
    follows(&d, &mut model, &mut peers, "", 25);
}

#[test]
fn item_19_a_peer_without_room_is_passed_over_and_keeps_its_accumulator() {
    let d = dealer("D1");
    let (mut a, mut b) = (d.peer(DEALER, "A"), d.peer(DEALER, "B"));
    b.weighs(&d, 300);
    let mut model = Model::new(&[('A', 100), ('B', 300)]);
    let mut order = String::new();
    order += &follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "", 1);
    b.pauses(&d, 1);
    order += &follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "B", 2);
    b.resumes(&d, 2);
    order += &follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "", 3);
    assert_eq!(order, "BAAABB");

    // The same with a peer that does not read.
    let d = dealer("D1");
    let mut a = d.peer(DEALER, "A");
    let mut b = d.peer_at(listen_small(), DEALER, "B");
    b.weighs(&d, 300);
    let mut model = Model::new(&[('A', 100), ('B', 300)]);
    assert_eq!(model.next(""), 'B');
    d.say(vec![1; HUGE]);
    follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "B", 5);
    assert_eq!(b.record().single().len(), HUGE);
    d.written();
    follows(&d, &mut model, &mut [('A', &mut a), ('B', &mut b)], "", 8);
}

#[test]
fn item_20_dontwait_pins_nothing_and_one_wake_is_enough() {
    let d = dealer("D1");
    // No peer at all.
    let first = d.try_send("payload", 1).unwrap_err();
    assert_eq!(refusal(&first), BLOCKED);
    let request = d.try_request("payload", None, 2).unwrap_err();
    assert_eq!(refusal(&request), BLOCKED);
    d.has_nothing();
    // A DEALER is somebody to send to, and nobody to ask.
    let mut a = d.peer(DEALER, "A");
    let writable = wait(d.next_completion()).unwrap();
    assert_eq!((Some(writable.id), writable.context), (first.token(), 1));
    assert_eq!(writable.outcome, Outcome::Writable);
    d.barrier(&mut a);
    d.has_nothing();
    let mut b = d.peer(ROUTER, "B");
    let writable = wait(d.next_completion()).unwrap();
    assert_eq!((Some(writable.id), writable.context), (request.token(), 2));
    d.barrier(&mut b);
    d.has_nothing();
    // Nothing was kept: the next record is that of the call that follows.
    a.pauses(&d, 1);
    d.try_send("again", 3).unwrap();
    assert_eq!(b.record().single(), b"again");
    // Both refuse: B, which refused last, is not waited for when A can take it.
    b.pauses(&d, 1);
    let third = d.try_send("chosen afresh", 4).unwrap_err();
    a.resumes(&d, 2);
    let writable = wait(d.next_completion()).unwrap();
    assert_eq!(Some(writable.id), third.token());
    d.try_send(third.into_record(), 5).unwrap();
    assert_eq!(a.record().single(), b"chosen afresh");
    b.resumes(&d, 2);
    d.barrier(&mut b);
    d.has_nothing();
}
