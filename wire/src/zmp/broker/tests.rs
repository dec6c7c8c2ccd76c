use std::num::NonZeroU64;

use super::kit::{World, error, reply};
use super::*;
use crate::zmp::core::CoreOptions;
use crate::zmp::record::{Kind, SocketKind};

mod property;

const PAUSED: FlowState = FlowState::Paused;
const RUNNING: FlowState = FlowState::Running;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn errno_part(errno: i32) -> Bytes {
    Bytes::copy_from_slice(&errno.to_be_bytes())
}

fn asked(world: &mut World, worker: &str) -> Vec<String> {
    let records = world.workers.records(worker).into_iter();
    records.map(|(_, parts)| String::from_utf8_lossy(&parts[0]).into_owned()).collect()
}

#[test]
fn a_request_goes_to_a_worker_and_its_completion_is_the_reply() {
    let mut world = World::new();
    world.client("c");
    world.worker("w");
    world.request("c", 7, "ping");
    assert_eq!(world.status().in_flight, 1);
    world.answer("w", |asked| Record::from_parts([asked.to_owned().into(), "b".into()]).unwrap());
    assert_eq!(world.clients.records("c"), [reply(7, &["ping", "b"])]);
    let status = world.status();
    assert_eq!((status.counters.requests, status.counters.replies), (1, 1));
    assert_eq!((status.in_flight, status.held_requests, status.paused), (0, 0, false));
}

#[test]
fn requests_are_spread_by_weight() {
    let mut world = World::new();
    for (worker, weight) in [("a", 1), ("b", 2), ("c", 1)] {
        world.workers.join(world.now, worker);
        world.workers.weight(world.now, worker, weight);
    }
    world.client("c");
    for sequence in 1..=400 {
        world.request("c", sequence, "r");
    }
    let counts = ["a", "b", "c"].map(|worker| world.workers.records(worker).len());
    assert_eq!(counts, [100, 200, 100]);
}

#[test]
fn broker_b1_without_a_worker_the_whole_router_is_paused_and_nothing_is_lost() {
    let mut world = World::new();
    world.client("c");
    world.client("other");
    world.request("c", 1, "one");
    assert!(world.status().paused);
    assert_eq!(world.clients.flow("c"), [PAUSED]);
    assert_eq!(world.clients.flow("other"), [PAUSED]);
    world.request("c", 2, "two");
    world.request("other", 1, "three");
    assert_eq!(world.status().held_requests, 3);
    assert_eq!(world.clients.flow("c"), [], "paused is said once");

    world.worker("w");
    assert_eq!(world.clients.flow("c"), [RUNNING]);
    assert_eq!(world.clients.flow("other"), [RUNNING]);
    assert_eq!(asked(&mut world, "w"), ["one", "three", "two"]);
    assert_eq!(world.status().counters.pauses, 1);
}

#[test]
fn broker_b1_what_is_held_keeps_its_charge_on_its_link() {
    let mut world = World::new();
    world.client("c");
    world.request("c", 1, "0123456789");
    world.clients.send(world.now, "c", Kind::Data, "data");
    world.run();
    assert_eq!(world.clients.taken("c"), 0);
    assert!(world.clients.core.queued() >= 64 + 10 + 64 + 4);
    world.worker("w");
    assert_eq!(world.clients.taken("c"), 64 + 10 + 64 + 4);
    assert_eq!(world.clients.core.queued(), 0);
}

#[test]
fn broker_b1_running_comes_below_half_and_when_a_worker_takes_one() {
    // A worker's link has room for one request at a time.
    let mut world = World::with(BrokerSettings::default(), |_| {}, |dealer| dealer.send_hwm = 1);
    world.client("c");
    world.workers.join(world.now, "w");
    world.workers.reads("w", false);
    for sequence in 1..=9 {
        world.request("c", sequence, "r");
    }
    assert_eq!((world.status().held_requests, world.status().paused), (8, true));
    assert_eq!(world.clients.flow("c"), [PAUSED]);
    for held in (0..8).rev() {
        // One request leaves the worker's link, which takes the next one and no more.
        world.workers.one(world.now, "w");
        world.run();
        assert_eq!(world.status().held_requests, held);
        let expected: &[_] = if held == 0 { &[RUNNING] } else { &[] };
        assert_eq!(world.clients.flow("c"), expected, "{held} are held");
    }
    assert!(!world.status().paused);
}

#[test]
fn broker_b1_flow_runs_again_below_half_of_the_most_and_not_while_nobody_takes() {
    let mut flow = Flow::default();
    assert!(!flow.update(0, false), "nothing is held");
    assert!(flow.update(3, false));
    flow.update(10, false);
    flow.update(5, true);
    assert!(flow.paused, "five of ten is not below half");
    flow.update(0, false);
    assert!(flow.paused, "nobody takes a request");
    flow.update(4, true);
    assert!(!flow.paused);
    assert!(!flow.update(4, true), "what is held is going");
    assert!(flow.update(4, false));
}

#[test]
fn broker_b2_of_many_clients_one_that_floods_takes_one_turn() {
    let mut world = World::with(BrokerSettings::default(), |_| {}, |dealer| dealer.send_hwm = 200);
    world.workers.join(world.now, "w");
    world.workers.reads("w", false);
    world.client("flood");
    for sequence in 1..=2_000 {
        world.clients.request(world.now, "flood", sequence, "flood");
    }
    world.run();
    for client in 0..99 {
        let name = format!("c{client}");
        world.client(&name);
        world.request(&name, 1, "few");
    }
    assert!(world.status().held_requests > 2_000);
    assert_eq!(world.workers.records("w"), []);
    world.workers.reads("w", true);
    world.run();
    let order = asked(&mut world, "w");
    assert_eq!(order.len(), 2_099);
    let last = order.iter().rposition(|who| who == "few").expect("the few");
    assert!(last < 210, "the last of the few is number {last}");
}

#[test]
fn broker_b2_one_token_at_a_time_whatever_waits() {
    let mut world = World::new();
    world.client("c");
    for sequence in 1..=1_000 {
        world.clients.request(world.now, "c", sequence, "r");
        world.clients.send(world.now, "c", Kind::Data, "d");
    }
    world.run();
    assert_eq!((world.status().held_requests, world.status().held_data), (1_000, 1_000));
    assert_eq!(world.workers.core.counters().tokens_issued, 1);
    world.worker("w");
    assert_eq!(world.workers.records("w").len(), 2_000);
}

#[test]
fn broker_b3_data_of_a_worker_is_dropped_and_counted_and_holds_up_no_reply() {
    let mut world = World::new();
    world.client("c");
    world.worker("w");
    world.request("c", 1, "ping");
    world.workers.send(world.now, "w", Kind::Data, "unasked");
    world.answer("w", |_| "pong".into());
    assert_eq!(world.clients.records("c"), [reply(1, &["pong"])]);
    assert_eq!(world.status().counters.drops(DropReason::NoRoute), 1);
}

#[test]
fn data_goes_to_workers_and_is_held_while_there_is_none() {
    let mut world = World::new();
    world.client("c");
    world.clients.send(world.now, "c", Kind::Data, "one");
    world.run();
    assert_eq!((world.status().held_data, world.status().paused), (1, true));
    world.pass(ms(60_000));
    assert_eq!(world.status().held_data, 1, "it has no limit of time");
    world.worker("w");
    world.clients.send(world.now, "c", Kind::Data, "two");
    world.run();
    assert_eq!(asked(&mut world, "w"), ["one", "two"]);
    assert_eq!(world.status().counters.data_to_workers, 2);
    assert_eq!(world.status().counters.data_dropped, [0; 4]);
}

#[test]
fn data_envelope_has_the_routing_id_in_front_both_ways() {
    let settings = BrokerSettings { data_envelope: true, ..BrokerSettings::default() };
    let mut world = World::with(settings, |_| {}, |_| {});
    world.client("c");
    world.worker("w");
    let two = || Record::from_parts(["a".into(), "b".into()]).unwrap();
    world.clients.send(world.now, "c", Kind::Data, two());
    world.request("c", 1, "request");
    let got: Vec<_> = world.workers.records("w").into_iter().map(|(_, parts)| parts).collect();
    assert_eq!(got, [vec!["c", "a", "b"], vec!["request"]], "a request has no envelope");

    let parts = |parts: &[&'static str]| {
        Record::from_parts(parts.iter().map(|part| Bytes::from_static(part.as_bytes()))).unwrap()
    };
    for record in [&["c", "", "x"][..], &["nobody", "x"], &["c"], &["", "x"]] {
        world.workers.send(world.now, "w", Kind::Data, parts(record));
    }
    world.run();
    assert_eq!(world.clients.records("c"), [(Kind::Data, vec!["".into(), "x".into()])]);
    let counters = world.status().counters;
    assert_eq!(counters.drops(DropReason::NoRoute), 1, "nobody");
    assert_eq!(counters.drops(DropReason::Malformed), 2);
    assert_eq!((counters.data_to_workers, counters.data_to_clients), (1, 1));
}

#[test]
fn broker_b4_waiting_for_a_worker_counts_against_the_timeout() {
    let mut world = World::with(BrokerSettings::default(), |_| {}, timeout(1_000));
    world.client("c");
    world.request("c", 1, "lost");
    world.pass(ms(600));
    world.request("c", 2, "late");
    world.pass(ms(399));
    assert_eq!(world.clients.records("c"), []);
    assert_eq!(world.broker.next_deadline(), Some(world.now + ms(1)));
    world.pass(ms(1));
    assert_eq!(world.clients.records("c"), [error(1, Errno::ETIMEDOUT, &[])]);
    assert_eq!(world.clients.taken("c"), 64 + 4);

    // The second one has 600 ms left; its worker does not answer.
    world.worker("w");
    assert_eq!(asked(&mut world, "w"), ["late"]);
    world.pass(ms(590));
    assert_eq!(world.clients.records("c"), []);
    world.pass(ms(20));
    assert_eq!(world.clients.records("c"), [error(2, Errno::ETIMEDOUT, &[])]);
    assert_eq!(world.status().counters.errors(RequestResult::TimedOut), 2);
    assert_eq!(world.status().in_flight, 0);
}

#[test]
fn broker_b4_data_behind_a_request_that_expires_goes_to_the_peer_that_takes_it() {
    let mut world = World::new();
    world.client("c");
    world.workers.join_as(world.now, "w", SocketKind::Dealer);
    world.request("c", 1, "asks");
    world.clients.send(world.now, "c", Kind::Data, "data");
    world.run();
    assert_eq!(asked(&mut world, "w"), Vec::<String>::new(), "in order of the client");
    world.now += ms(5000);
    world.turn();
    assert_eq!(world.status().held_data, 0, "no further event is needed");
    world.run();
    assert_eq!(world.clients.records("c"), [error(1, Errno::ETIMEDOUT, &[])]);
    assert_eq!(asked(&mut world, "w"), ["data"]);
}

#[test]
fn broker_b1_data_of_a_connection_that_ended_is_held_no_longer_than_a_request() {
    let mut world = World::new();
    world.client("c");
    world.client("d");
    for client in ["c", "d"] {
        world.clients.send(world.now, client, Kind::Data, "data");
    }
    world.run();
    world.clients.leave(world.now, "c");
    // Its name comes back, which is another connection.
    world.client("c");
    world.pass(ms(4999));
    assert_eq!(world.status().held_data, 2, "a worker may still come");
    world.pass(ms(2));
    assert_eq!(world.status().held_data, 1, "one of a client that is there waits on");
    assert_eq!(world.status().counters.drops(DropReason::NoRoute), 1);
    world.worker("w");
    world.run();
    assert_eq!(asked(&mut world, "w"), ["data"]);
    assert_eq!(world.clients.core.queued(), 0, "every charge came back");
}

#[test]
fn broker_b4_a_timeout_of_zero_is_at_once() {
    let mut world = World::with(BrokerSettings::default(), |_| {}, timeout(0));
    world.client("c");
    world.request("c", 1, "r");
    assert_eq!(world.clients.records("c"), [error(1, Errno::ETIMEDOUT, &[])]);
    assert_eq!(world.status().held_requests, 0);
}

fn timeout(after: u64) -> impl FnOnce(&mut CoreOptions) {
    move |dealer| dealer.request_timeout = ms(after)
}

#[test]
fn broker_b5_results_have_their_errno_and_no_further_parts() {
    let expected = [
        (RequestResult::TimedOut, "ETIMEDOUT"),
        (RequestResult::NotFound, "ENOENT"),
        (RequestResult::Terminated, "ESHUTDOWN"),
        (RequestResult::ProtocolError, "EPROTO"),
        (RequestResult::InternalError, "EIO"),
        (RequestResult::Rejected, "ECONNREFUSED"),
        (RequestResult::Conflict, "EEXIST"),
        (RequestResult::Busy, "EBUSY"),
        (RequestResult::NotConnected, "EHOSTUNREACH"),
        (RequestResult::InvalidArgument, "EINVAL"),
        (RequestResult::InvalidState, "EALREADY"),
        (RequestResult::NotSupported, "ENOTSUP"),
        (RequestResult::Backpressured, "EAGAIN"),
    ];
    assert_eq!(expected.len() + 1, RequestResult::ALL.len());
    for (result, name) in expected {
        let errno = errno_of(result);
        assert_eq!(errno.name(), Some(name));
        assert_eq!(RequestResult::of_errno(errno), result, "the client sees the same result");
    }
}

#[test]
fn broker_b5_a_worker_that_dies_is_ehostunreach_and_its_request_is_not_replayed() {
    let mut world = World::new();
    world.client("c");
    world.worker("w1");
    world.request("c", 1, "r");
    world.worker("w2");
    world.workers.leave(world.now, "w1");
    world.run();
    assert_eq!(world.clients.records("c"), [error(1, Errno::EHOSTUNREACH, &[])]);
    assert_eq!(world.workers.records("w2"), []);
    assert_eq!(world.status().counters.errors(RequestResult::NotConnected), 1);
}

#[test]
fn broker_b5_a_workers_own_error_reply_passes_with_errno_and_parts() {
    let mut world = World::new();
    world.client("c");
    world.worker("w");
    for (sequence, parts) in [
        (1, vec![errno_part(2), "gone".into(), "for good".into()]),
        (2, vec![errno_part(4_711)]),
        (3, vec![errno_part(0)]),
        (4, vec!["no errno".into()]),
    ] {
        world.request("c", sequence, "r");
        let (kind, _) = world.workers.records("w")[0];
        let Kind::Request(asked) = kind else { panic!("{kind:?}") };
        let record = Record::from_parts(parts).unwrap();
        world.workers.send(world.now, "w", Kind::ErrorReply(asked), record);
        world.run();
    }
    assert_eq!(
        world.clients.records("c"),
        [
            error(1, Errno::ENOENT, &["gone", "for good"]),
            error(2, Errno(4_711), &[]),
            error(3, Errno::EPROTO, &[]),
            error(4, Errno::EPROTO, &[]),
        ]
    );
}

#[test]
fn broker_b5_a_request_that_no_worker_takes_for_its_size_is_einval() {
    let mut world =
        World::with(BrokerSettings::default(), |_| {}, |dealer| dealer.max_message_size = 8);
    world.client("c");
    world.worker("w");
    world.request("c", 1, "more than eight");
    world.clients.send(world.now, "c", Kind::Data, "more than eight");
    world.run();
    assert_eq!(world.clients.records("c"), [error(1, Errno::EINVAL, &[])]);
    assert_eq!(world.status().counters.drops(DropReason::TooLarge), 1);
    assert_eq!((world.clients.core.queued(), world.status().paused), (0, false));
}

#[test]
fn an_empty_reply_is_one_part_of_no_length() {
    let mut world = World::new();
    world.client("c");
    world.worker("w");
    world.request("c", 1, "r");
    world.answer("w", |_| Record::new(Bytes::new()));
    assert_eq!(world.clients.records("c"), [reply(1, &[""])]);
}

#[test]
fn x2_a_client_that_does_not_read_holds_up_no_other_and_is_asked_no_further() {
    let mut world = World::with(BrokerSettings::default(), |router| router.send_hwm = 100, |_| {});
    world.client("slow");
    world.client("quick");
    world.worker("w");
    world.clients.reads("slow", false);
    for sequence in 1..=4 {
        world.request("slow", sequence, "r");
    }
    world.answer("w", |_| "reply".into());
    assert_eq!(world.status().waiting_answers, 3, "one is on the link");

    world.request("slow", 5, "not yet");
    world.request("quick", 1, "r");
    assert_eq!(asked(&mut world, "w"), ["r"]);
    world.workers.reads("w", true);
    assert_eq!((world.status().held_requests, world.status().paused), (1, false));

    world.clients.reads("slow", true);
    world.run();
    assert_eq!(world.clients.records("slow").len(), 4);
    assert_eq!(world.status().waiting_answers, 0);
    world.answer("w", |_| "reply".into());
    assert_eq!(world.clients.records("slow"), [reply(5, &["reply"])]);
}

#[test]
fn x2_a_reply_whose_client_left_is_abandoned_after_the_request_timeout() {
    let mut world = World::with(BrokerSettings::default(), |_| {}, timeout(2_000));
    world.client("c");
    world.worker("w");
    world.request("c", 1, "r");
    world.clients.leave(world.now, "c");
    world.answer("w", |_| "reply".into());
    assert_eq!(world.status().waiting_answers, 1);
    world.pass(ms(1_900));
    assert_eq!(world.status().waiting_answers, 1);
    let mut steps = 0;
    while let Some(deadline) = world.broker.next_deadline() {
        world.now = deadline;
        world.run();
        steps += 1;
        assert!(steps < 20);
    }
    assert_eq!(world.status().waiting_answers, 0);
    assert_eq!(world.status().counters.replies_abandoned, 1);
    assert_eq!(world.clients.core.queued(), 0);
}

#[test]
fn x2_a_client_that_comes_back_gets_what_waited_for_it() {
    let mut world = World::new();
    world.client("c");
    world.worker("w");
    world.request("c", 9, "r");
    world.clients.leave(world.now, "c");
    world.answer("w", |_| "reply".into());
    world.client("c");
    world.run();
    assert_eq!(world.clients.records("c"), [reply(9, &["reply"])]);
    assert_eq!(world.broker.next_deadline(), None);
}

#[test]
fn what_waits_for_clients_is_bounded_and_replies_beyond_it_become_eagain() {
    let settings = BrokerSettings { waiting_each: 400, ..BrokerSettings::default() };
    let mut world = World::with(settings, |router| router.send_hwm = 1, |_| {});
    world.client("c");
    world.worker("w");
    world.clients.reads("c", false);
    for sequence in 1..=6 {
        world.clients.request(world.now, "c", sequence, "r");
    }
    world.run();
    world.answer("w", |_| vec![0; 100].into());
    assert!(world.status().waiting_charge <= 400 + 3 * 68, "{}", world.status().waiting_charge);
    world.clients.reads("c", true);
    world.run();
    let kinds: Vec<_> = world.clients.records("c").into_iter().map(|(kind, _)| kind).collect();
    let n = |n| NonZeroU64::new(n).unwrap();
    assert_eq!(
        kinds,
        [
            Kind::Reply(n(1)),
            Kind::Reply(n(2)),
            Kind::Reply(n(3)),
            Kind::ErrorReply(n(4)),
            Kind::ErrorReply(n(5)),
            Kind::ErrorReply(n(6)),
        ]
    );
    assert_eq!(world.status().counters.errors(RequestResult::Backpressured), 3);
}

#[test]
fn a_dealer_among_the_workers_gets_data_and_no_request() {
    let mut world = World::new();
    world.client("c");
    world.workers.join_as(world.now, "d", SocketKind::Dealer);
    world.clients.send(world.now, "c", Kind::Data, "data");
    world.request("c", 1, "request");
    assert_eq!(asked(&mut world, "d"), ["data"]);
    assert_eq!(world.status().held_requests, 1);
}

#[test]
fn broker_d_w9_without_a_reservation_it_goes_on_with_the_next_completion() {
    let mut world =
        World::with(BrokerSettings::default(), |_| {}, |dealer| dealer.reservations = 2);
    world.client("c");
    world.worker("w");
    for sequence in 1..=5 {
        world.request("c", sequence, "r");
    }
    assert_eq!((world.status().in_flight, world.status().held_requests), (2, 3));
    assert!(world.status().paused);
    for left in [1, 0, 0] {
        world.answer("w", |_| "reply".into());
        assert_eq!(world.status().held_requests, left);
    }
    assert_eq!(world.clients.records("c").len(), 5);
    assert!(!world.status().paused);
}

#[test]
fn a_broker_that_stops_answers_what_it_has_taken_and_takes_no_more() {
    let mut world = World::new();
    world.client("c");
    world.worker("w");
    world.request("c", 1, "one");
    world.broker.stop(world.now + ms(500));
    world.request("c", 2, "two");
    assert_eq!(world.clients.flow("c"), [PAUSED]);
    assert!(!world.broker.is_over());
    world.answer("w", |_| "reply".into());
    assert_eq!(world.clients.records("c"), [reply(1, &["reply"])]);
    assert!(world.broker.is_over());
    assert_eq!(world.broker.next_deadline(), None);
    assert_eq!(world.status().counters.requests, 1);
}

#[test]
fn at_the_end_of_the_time_to_stop_what_is_left_gets_eshutdown() {
    let mut world =
        World::with(BrokerSettings::default(), |_| {}, |dealer| dealer.reservations = 1);
    world.client("c");
    world.client("gone");
    world.worker("w");
    world.request("c", 1, "in flight");
    world.request("c", 2, "held");
    world.request("gone", 1, "held");
    world.clients.leave(world.now, "gone");
    world.broker.stop(world.now + ms(500));
    assert_eq!(world.broker.next_deadline(), Some(world.now + ms(500)));
    world.pass(ms(499));
    assert!(!world.broker.is_over());
    world.pass(ms(1));
    let records = world.clients.records("c");
    assert_eq!(records.len(), 2, "{records:?}");
    for record in records {
        assert_eq!(record.1, [errno_part(Errno::ESHUTDOWN.0)]);
    }
    assert!(world.broker.is_over());
    assert_eq!(world.status().counters.replies_abandoned, 1);
    assert_eq!(world.clients.core.queued(), 0);
}
