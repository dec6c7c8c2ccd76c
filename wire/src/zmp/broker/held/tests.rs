use std::num::NonZeroU64;
use std::time::Duration;

use super::*;
use crate::zmp::core::ConnectionId;

fn id(name: &str) -> RoutingId {
    RoutingId::new(name.as_bytes().to_vec()).expect("an id")
}

fn charge() -> HeldCharge {
    HeldCharge { connection: ConnectionId(1), charge: 64 }
}

fn data(text: &'static str) -> Entry {
    let due = Instant::now() + Duration::from_secs(3600);
    Entry { record: Record::new(text), charge: charge(), reply: None, due }
}

fn request(text: &'static str, due: Instant) -> Entry {
    let reply = Some(ReplyId(NonZeroU64::MIN));
    Entry { record: Record::new(text), charge: charge(), reply, due }
}

fn text(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.record.parts()[0]).into_owned()
}

fn all(held: &mut Held, may: impl Fn(Sort) -> bool) -> Vec<String> {
    std::iter::from_fn(|| held.next(&may)).map(|taken| text(&taken.entry)).collect()
}

#[test]
fn broker_b2_clients_have_turns_whatever_one_of_them_has_sent() {
    let mut held = Held::default();
    let later = Instant::now() + Duration::from_secs(1);
    for entry in ["a1", "a2", "a3", "a4"] {
        held.push(&id("a"), false, request(entry, later));
    }
    held.push(&id("b"), false, request("b1", later));
    held.push(&id("c"), false, request("c1", later));
    held.push(&id("c"), false, request("c2", later));
    assert_eq!(held.ready(), 7);
    assert_eq!(all(&mut held, |_| true), ["a1", "b1", "c1", "a2", "c2", "a3", "a4"]);
    assert_eq!((held.ready(), held.requests(), held.clients.len()), (0, 0, 0));
}

#[test]
fn broker_b2_what_is_put_back_has_kept_its_place_and_its_turn() {
    let mut held = Held::default();
    let later = Instant::now() + Duration::from_secs(1);
    for (client, entry) in [("a", "a1"), ("a", "a2"), ("b", "b1")] {
        held.push(&id(client), false, request(entry, later));
    }
    for _ in 0..3 {
        let taken = held.next(|_| true).expect("a1");
        assert_eq!(text(&taken.entry), "a1");
        held.put_back(taken);
    }
    let alone = {
        assert_eq!(text(&held.next(|_| true).expect("a1").entry), "a1");
        held.next(|_| true).expect("b1")
    };
    held.put_back(alone);
    assert_eq!(held.requests(), 2);
    assert_eq!(all(&mut held, |_| true), ["b1", "a2"]);
}

#[test]
fn broker_b2_order_of_one_client_holds_across_data_and_requests() {
    let mut held = Held::default();
    let later = Instant::now() + Duration::from_secs(1);
    held.push(&id("a"), false, data("a-data"));
    held.push(&id("a"), false, request("a-request", later));
    held.push(&id("b"), false, request("b-request", later));
    held.push(&id("b"), false, data("b-data"));
    assert_eq!(all(&mut held, |sort| sort == Sort::Request), ["b-request"]);
    assert_eq!(all(&mut held, |sort| sort == Sort::Request), Vec::<String>::new());
    assert_eq!(all(&mut held, |_| true), ["a-data", "b-data", "a-request"]);
}

#[test]
fn broker_b4_requests_expire_wherever_they_wait_and_data_never() {
    let mut held = Held::default();
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    held.push(&id("a"), false, data("a0"));
    held.push(&id("a"), false, request("a1", at(10)));
    held.push(&id("b"), true, request("b1", at(20)));
    held.push(&id("a"), false, request("a2", at(30)));
    assert_eq!(held.next_due(), Some(at(10)));
    assert!(held.expired(at(9)).is_none());
    let mut over: Vec<_> = Vec::new();
    while let Some((client, entry)) = held.expired(at(25)) {
        over.push((client, text(&entry)));
    }
    assert_eq!(over, [(id("a"), "a1".to_owned()), (id("b"), "b1".to_owned())]);
    assert_eq!((held.requests(), held.data(), held.ready()), (1, 1, 2));
    assert_eq!(held.clients.len(), 1, "b is forgotten");
    assert_eq!(all(&mut held, |_| true), ["a0", "a2"]);
    assert_eq!(held.next_due(), None);
}

#[test]
fn a_stalled_client_has_no_turn_and_is_not_counted_until_it_reads_again() {
    let mut held = Held::default();
    let later = Instant::now() + Duration::from_secs(1);
    held.push(&id("a"), true, request("a1", later));
    held.push(&id("a"), true, request("a2", later));
    held.push(&id("b"), false, request("b1", later));
    assert_eq!(held.ready(), 1);
    held.stall(&id("b"), true);
    assert_eq!((held.ready(), all(&mut held, |_| true).len()), (0, 0));
    held.stall(&id("a"), false);
    held.stall(&id("b"), false);
    held.stall(&id("nobody"), false);
    assert_eq!(held.ready(), 3);
    assert_eq!(all(&mut held, |_| true), ["a1", "b1", "a2"]);
}

#[test]
fn clients_that_come_wait_and_go_leave_nothing() {
    let mut held = Held::default();
    let now = Instant::now();
    for round in 0..1_000 {
        let client = id(&format!("client {round}"));
        held.push(&client, round % 3 == 0, request("r", now));
        held.push(&client, round % 3 == 0, request("s", now));
        while held.expired(now).is_some() {}
    }
    assert!(held.ids.is_empty() && held.clients.is_empty() && held.entries.is_empty());
    assert!(held.due.iter().all(BTreeSet::is_empty) && held.turns.iter().all(BTreeMap::is_empty));
    assert_eq!(held.ready, 0);
}
