use std::collections::BTreeMap;

use lineway_wire::sip::own::SocketId;
use lineway_wire::units::Millis;

use super::*;
use crate::settings::DispatcherTarget;

fn settings(targets: &[&str]) -> SipRouterSettings {
    let targets: Vec<_> =
        targets.iter().map(|text| DispatcherTarget::parse(text).unwrap()).collect();
    let dispatcher = BTreeMap::from([(1, targets)]);
    SipRouterSettings { dispatcher, ..SipRouterSettings::default() }
}

fn sets(dispatcher: &Dispatcher, targets: &[&str]) -> Arc<Sets> {
    dispatcher.sets(&settings(targets))
}

fn uri(target: &Target) -> String {
    String::from_utf8(target.uri().to_vec()).unwrap()
}

fn choose(sets: &Sets, by: Algorithm) -> Option<String> {
    let chosen = sets.select(1, by, Instant::now())?;
    Some(uri(chosen.current()))
}

/// How often each is chosen in so many choices.
fn counted(sets: &Sets, by: Algorithm, choices: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..choices {
        *counts.entry(choose(sets, by).unwrap()).or_default() += 1;
    }
    counts
}

fn mark(sets: &Sets, at: usize) {
    sets.by_number[&1].members[at].target.mark_failed(Instant::now());
}

const ABC: [&str; 3] = ["sip:a", "sip:b", "sip:c"];

#[test]
fn turns_go_round_and_leave_out_what_is_inactive() {
    let sets = sets(&Dispatcher::default(), &ABC);
    let three: Vec<_> = (0..4).map(|_| choose(&sets, Algorithm::Turn).unwrap()).collect();
    assert_eq!(three, ["sip:a", "sip:b", "sip:c", "sip:a"]);
    mark(&sets, 1);
    let counts = counted(&sets, Algorithm::Turn, 10);
    assert_eq!(counts, BTreeMap::from([("sip:a".into(), 5), ("sip:c".into(), 5)]));
    mark(&sets, 0);
    mark(&sets, 2);
    assert_eq!(choose(&sets, Algorithm::Turn), None);
}

#[test]
fn a_hash_keeps_its_target_while_others_come_and_go() {
    let sets = sets(&Dispatcher::default(), &ABC);
    let at = |hash| choose(&sets, Algorithm::Hash(hash)).unwrap();
    assert_eq!([0, 1, 2, 3].map(at), ["sip:a", "sip:b", "sip:c", "sip:a"]);
    mark(&sets, 1);
    assert_eq!([0, 1, 2, 3].map(at), ["sip:a", "sip:c", "sip:c", "sip:a"]);
    mark(&sets, 2);
    assert_eq!([0, 1, 2, 3].map(at), ["sip:a"; 4]);
}

#[test]
fn the_highest_priority_is_first_and_the_others_follow() {
    let targets = ["sip:a;priority=1", "sip:b;priority=7", "sip:c;priority=7", "sip:d"];
    let sets = sets(&Dispatcher::default(), &targets);
    let now = Instant::now();
    let mut chosen = sets.select(1, Algorithm::Priority, now).unwrap();
    let mut order = vec![uri(chosen.current())];
    while chosen.next(now) {
        order.push(uri(chosen.current()));
    }
    assert_eq!(order, ["sip:b", "sip:c", "sip:a", "sip:d"]);
    assert_eq!(uri(chosen.current()), "sip:d", "the last one stays the current one");
}

#[test]
fn weights_share_exactly_and_without_long_runs() {
    let targets = ["sip:a;weight=50", "sip:b;weight=30", "sip:c;weight=20", "sip:d"];
    let sets = sets(&Dispatcher::default(), &targets);
    let order: Vec<_> = (0..100).map(|_| choose(&sets, Algorithm::Weight).unwrap()).collect();
    let count = |uri: &str| order.iter().filter(|chosen| *chosen == uri).count();
    assert_eq!(["sip:a", "sip:b", "sip:c", "sip:d"].map(count), [50, 30, 20, 0]);
    let longest = order.chunk_by(|a, b| a == b).map(<[_]>::len).max();
    assert!(longest <= Some(3), "{order:?}");
    mark(&sets, 0);
    let counts = counted(&sets, Algorithm::Weight, 50);
    assert_eq!(counts, BTreeMap::from([("sip:b".into(), 30), ("sip:c".into(), 20)]));
}

#[test]
fn without_weights_they_go_round() {
    let sets = sets(&Dispatcher::default(), &ABC);
    assert_eq!(counted(&sets, Algorithm::Weight, 9).into_values().collect::<Vec<_>>(), [3, 3, 3]);
    let one = self::sets(&Dispatcher::default(), &["sip:a;weight=1"]);
    assert_eq!(counted(&one, Algorithm::Weight, 3).len(), 1);
}

#[test]
fn what_became_inactive_since_is_not_next() {
    let sets = sets(&Dispatcher::default(), &ABC);
    let now = Instant::now();
    let mut chosen = sets.select(1, Algorithm::Turn, now).unwrap();
    mark(&sets, 1);
    assert!(chosen.next(now));
    assert_eq!(uri(chosen.current()), "sip:c");
    assert!(!chosen.next(now));
}

#[test]
fn a_marked_target_that_nobody_asks_comes_back_by_time() {
    let sets = sets(&Dispatcher::default(), &ABC);
    let target = Arc::clone(&sets.by_number[&1].members[0].target);
    let now = Instant::now();
    target.mark_failed(now);
    assert!(!target.is_active(now));
    assert!(!target.is_active(now + LEFT_OUT.mul_f32(0.9)));
    assert!(target.is_active(now + LEFT_OUT));
}

#[test]
fn a_marked_target_that_is_asked_comes_back_with_an_answer() {
    let dispatcher = Dispatcher::default();
    let sets = sets(&dispatcher, &ABC);
    let target = Arc::clone(&sets.by_number[&1].members[0].target);
    let now = Instant::now();
    target.set_probe(Some(Duration::from_secs(10)), now, now);
    target.mark_failed(now);
    assert!(!target.is_active(now + LEFT_OUT * 2));
    assert_eq!(dispatcher.due(&target, now), Some(Act::Ask(1)));
    target.change(now, |probe| probe.reply(1, 200));
    assert!(target.is_active(now));
}

#[test]
fn one_that_is_not_asked_any_more_comes_back_by_time() {
    let dispatcher = Dispatcher::default();
    let sets = sets(&dispatcher, &ABC);
    let target = Arc::clone(&sets.by_number[&1].members[0].target);
    let now = Instant::now();
    target.set_probe(Some(Duration::from_secs(10)), now, now);
    target.mark_failed(now);
    target.set_probe(None, now, now);
    assert!(!target.is_active(now));
    assert!(target.is_active(now + LEFT_OUT));
}

#[test]
fn what_is_known_of_a_target_outlives_a_change_of_the_configuration() {
    let dispatcher = Dispatcher::default();
    let before = sets(&dispatcher, &ABC);
    mark(&before, 1);
    let after = sets(&dispatcher, &["sip:b;weight=3", "sip:z"]);
    drop(before);
    assert_ne!(choose(&after, Algorithm::Turn).as_deref(), Some("sip:b"));
    dispatcher.adopt(&after);
    assert_eq!(dispatcher.counts(Instant::now()), [(1, 1, 1)]);
    assert_eq!(after.targets().len(), 2);
    let same = sets(&dispatcher, &["sip:b;weight=3", "sip:z"]);
    assert_eq!(same, after);
    assert_ne!(same, sets(&dispatcher, &["sip:b;weight=4", "sip:z"]));
}

#[test]
fn a_target_that_is_in_two_sets_is_one() {
    let dispatcher = Dispatcher::default();
    let mut settings = settings(&["sip:a"]);
    settings.dispatcher.insert(2, vec![DispatcherTarget::parse("sip:a;priority=2").unwrap()]);
    let sets = dispatcher.sets(&settings);
    mark(&sets, 0);
    assert!(sets.select(2, Algorithm::Turn, Instant::now()).is_none());
    assert_eq!(sets.targets().len(), 1);
}

#[test]
fn a_source_is_known_by_address_and_over_udp_by_port() {
    let sets = sets(&Dispatcher::default(), &["sip:10.0.0.1", "sip:[2001:db8::1]:5070", "sip:b"]);
    let is_from = |source: &str, transport| {
        let source = source.parse().unwrap();
        let received = Received { source, socket: SocketId(0), transport, connection: None };
        (
            sets.has_source(1, &received),
            sets.has_source(-1, &received),
            sets.has_source(2, &received),
        )
    };
    let (yes, no) = ((true, true, false), (false, false, false));
    assert_eq!(is_from("10.0.0.1:5060", Transport::Udp), yes);
    assert_eq!(is_from("[::ffff:10.0.0.1]:5060", Transport::Udp), yes);
    assert_eq!(is_from("10.0.0.1:5061", Transport::Udp), no);
    assert_eq!(is_from("10.0.0.1:40000", Transport::Tcp), yes);
    assert_eq!(is_from("[2001:db8::1]:5070", Transport::Udp), yes);
    assert_eq!(is_from("10.0.0.2:5060", Transport::Udp), no);
    sets.by_number[&1].members[2].target.is_found_at(vec!["10.0.0.9:5060".parse().unwrap()]);
    assert_eq!(is_from("10.0.0.9:5060", Transport::Udp), yes);
}

#[test]
fn the_interval_is_a_part_of_the_configuration() {
    let dispatcher = Dispatcher::default();
    let mut settings = settings(&ABC);
    let off = dispatcher.sets(&settings);
    settings.stateful.dispatcher_ping = Millis::new(500);
    let on = dispatcher.sets(&settings);
    assert_eq!((off.ping, on.ping), (None, Some(Duration::from_millis(500))));
    assert_ne!(off, on);
}
