use std::time::Duration;

use bytes::Bytes;

use crate::zmp::broker::DropReason;
use crate::zmp::broker::kit::{EchoWorld, reply};
use crate::zmp::record::{Kind, Record};

fn data(parts: &[&str]) -> (Kind, Vec<Bytes>) {
    (Kind::Data, parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes())).collect())
}

fn record(parts: &[&str]) -> Record {
    Record::from_parts(parts.iter().map(|part| Bytes::copy_from_slice(part.as_bytes()))).unwrap()
}

#[test]
fn echo_answers_a_request_with_its_own_parts_and_sends_data_back() {
    let mut world = EchoWorld::with(|_| {});
    world.clients.join(world.now, "a");
    world.clients.join(world.now, "b");
    world.clients.request(world.now, "a", 3, "ping");
    world.clients.send(world.now, "a", Kind::Data, record(&["", "x"]));
    world.clients.send(world.now, "b", Kind::Data, record(&["y"]));
    world.run();
    assert_eq!(world.clients.records("a"), [reply(3, &["ping"]), data(&["", "x"])]);
    assert_eq!(world.clients.records("b"), [data(&["y"])]);
    let counters = world.echo.status().counters;
    assert_eq!((counters.requests, counters.replies, counters.data_to_clients), (1, 1, 2));
    assert_eq!(world.clients.core.queued(), 0);
}

#[test]
fn echo_reads_no_further_from_one_that_does_not_read_and_goes_on_with_others() {
    let mut world = EchoWorld::with(|router| router.send_hwm = 200);
    world.clients.join(world.now, "slow");
    world.clients.join(world.now, "quick");
    world.clients.reads("slow", false);
    for sequence in 1..=100 {
        world.clients.request(world.now, "slow", sequence, "0123456789");
        world.clients.send(world.now, "slow", Kind::Data, "0123456789");
    }
    world.clients.request(world.now, "quick", 1, "ping");
    world.run();
    assert_eq!(world.clients.records("quick"), [reply(1, &["ping"])]);
    assert_eq!(world.clients.taken("slow"), 2 * 74, "two answers are on its link");
    assert_eq!(world.echo.status().waiting_answers, 198);

    world.clients.reads("slow", true);
    world.run();
    let records = world.clients.records("slow");
    assert_eq!(records.len(), 200);
    for (index, record) in records.iter().enumerate() {
        let sequence = index as u64 / 2 + 1;
        let expected =
            if index % 2 == 0 { reply(sequence, &["0123456789"]) } else { data(&["0123456789"]) };
        assert_eq!(*record, expected);
    }
    assert_eq!((world.clients.core.queued(), world.clients.taken("slow")), (0, 200 * 74));
    assert_eq!(world.echo.status().counters.data_dropped, [0; 4]);
}

#[test]
fn echo_gives_up_what_is_for_a_client_that_left() {
    let mut world = EchoWorld::with(|router| {
        router.send_hwm = 1;
        router.request_timeout = Duration::from_secs(1);
    });
    world.clients.join(world.now, "c");
    world.clients.reads("c", false);
    for sequence in 1..=3 {
        world.clients.request(world.now, "c", sequence, "r");
        world.clients.send(world.now, "c", Kind::Data, "d");
    }
    world.run();
    world.clients.leave(world.now, "c");
    let mut looks = 0;
    while let Some(deadline) = world.echo.next_deadline() {
        world.now = deadline;
        world.run();
        looks += 1;
        assert!(looks < 20);
    }
    let status = world.echo.status();
    assert_eq!((status.waiting_answers, status.counters.replies_abandoned), (0, 2));
    assert_eq!(status.counters.drops(DropReason::NoRoute), 3);
    assert_eq!(world.clients.core.queued(), 0);
}

#[test]
fn echo_that_stops_sends_what_it_has_and_takes_no_more() {
    let mut world = EchoWorld::with(|router| router.send_hwm = 1);
    world.clients.join(world.now, "c");
    world.clients.reads("c", false);
    world.clients.request(world.now, "c", 1, "one");
    world.clients.request(world.now, "c", 2, "two");
    world.run();
    let end = world.now + Duration::from_millis(100);
    world.echo.stop(end);
    world.clients.request(world.now, "c", 3, "three");
    world.run();
    assert!(!world.echo.is_over());
    assert_eq!(world.echo.next_deadline().map(|at| at <= end), Some(true));
    world.clients.reads("c", true);
    world.run();
    assert_eq!(world.clients.records("c"), [reply(1, &["one"]), reply(2, &["two"])]);
    assert!(world.echo.is_over());
}
