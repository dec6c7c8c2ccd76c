//! Records that break, peers that go, sockets that close (Z-13, Z-19).

use std::time::Duration;

use lineway_wire::zmp::core::{Core, Disconnected, Submit};
use lineway_wire::zmp::status::Drop;
use lineway_wire::zmp::{Record, RoutingId, SocketKind};
use tokio::time::Instant;

use super::{House, codes};
use crate::messages::{ConnectionWord, Disconnect};
use crate::metrics::ActorKind;
use crate::socket::Stream;
use crate::testkit::zmp::{
    CONTROL, DATA, MORE, REPLY, REQUEST, ROUTER, control, data, frame, frames, greeting, hello,
    ready,
};
use crate::testkit::{run, socket};

fn ended(why: Disconnected) -> ConnectionWord {
    ConnectionWord::Ended { why, handshake: None, rejection: None }
}

fn id(id: &str) -> RoutingId {
    RoutingId::new(id.to_owned()).unwrap()
}

fn send(core: &mut Core, to: &str, record: Record) {
    let now = Instant::now().into_std();
    core.try_submit(now, Some(&id(to)), record, Submit::Send, 0).unwrap();
}

#[test]
fn case_z13_half_a_record_is_never_delivered() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, first) = house.accept_dealer(&kit, "D1").await;
        first.offer(&frame(MORE, DATA, 0, b"A"));
        first.end();
        kit.quiet().await;
        assert_eq!(codes(&first), [0x0a]);
        assert_eq!(house.said(number).last(), Some(&ended(Disconnected::Transport)));
        let (_, second) = house.accept_dealer(&kit, "D2").await;
        second.offer(&data(&[b"one", b"two"]));
        kit.quiet().await;
        let whole = Record::from_parts(["one".into(), "two".into()]).unwrap();
        assert_eq!(house.recv(), Some(("D2".to_owned(), whole)));
        assert_eq!(house.recv(), None);
    });
}

#[test]
fn case_z19_an_odd_frame_ends_its_own_connection_with_its_code() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (_, other) = house.accept_dealer(&kit, "other").await;
        let inside = [frame(MORE, DATA, 0, b"A"), frame(0, REQUEST, 7, b"B")].concat();
        let mut unknown = frame(0, DATA, 0, b"");
        unknown[3] = 9;
        for (at, (bytes, code)) in [
            (frame(0, REQUEST, 0, b"x"), 8),
            (unknown, 7),
            (frame(CONTROL, REQUEST, 1, b"x"), 3),
            (inside, 9),
            (frame(0, REPLY, 1, b"x"), 7),
            ([frame(0, REQUEST, 1, b""), frame(0, REQUEST, 1, b"")].concat(), 8),
        ]
        .into_iter()
        .enumerate()
        {
            let (number, peer) = house.accept_dealer(&kit, &format!("D{at}")).await;
            peer.offer(&data(&[b"before"]));
            peer.offer(&bytes);
            peer.offer(&data(&[b"behind"]));
            kit.quiet().await;
            assert_eq!(codes(&peer), [code], "{bytes:x?}");
            assert_eq!(house.said(number).last(), Some(&ended(Disconnected::Transport)));
        }
        let mut got = std::iter::from_fn(|| house.recv());
        assert!(got.all(|(_, record)| record != Record::new("behind")));
        other.offer(&data(&[b"good"]));
        kit.quiet().await;
        assert_eq!(house.recv(), Some(("other".to_owned(), Record::new("good"))));
    });
}

#[test]
fn case_z13_what_a_dead_peer_got_by_half_is_lost_and_the_next_record_is_whole_elsewhere() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Dealer, 0, |_| ());
        let mut workers = Vec::new();
        for name in ["W1", "W2"] {
            let (stream, peer) = socket();
            let endpoint = house.core(|core| core.add_endpoint(name.into(), None));
            house.start(Stream::Tcp(stream), Some(endpoint));
            let id = name.as_bytes();
            peer.offer(&[hello(ROUTER, id), ready(ROUTER, id, 1, 0)].concat());
            kit.quiet().await;
            peer.take();
            workers.push(peer);
        }
        let record = || Record::from_parts(["one".into(), vec![2; 1000].into()]).unwrap();
        let send = || {
            let now = Instant::now().into_std();
            house.core(|core| core.try_submit(now, None, record(), Submit::Send, 0)).unwrap();
        };
        workers[0].window(500);
        send();
        kit.quiet().await;
        assert_eq!(workers[0].held(), 500, "half of it");
        workers[0].reset();
        kit.quiet().await;
        send();
        kit.quiet().await;
        let mut got = workers[1].take();
        let sizes: Vec<_> = frames(&mut got).iter().map(|frame| frame.body.len()).collect();
        assert_eq!((sizes, got.len()), (vec![3, 1000], 0), "the lost one is not sent again");
        assert_eq!(house.core(|core| core.counters().dropped[Drop::Broken]), 1);
        assert_eq!((house.core(|core| core.queued()), house.total.used()), (0, 0));
    });
}

#[test]
fn case_z14_b_a_size_above_the_limit_ends_the_connection_and_reserves_nothing() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept_dealer(&kit, "D1").await;
        peer.offer(&[0x5a, 1, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        kit.quiet().await;
        assert_eq!(codes(&peer), [4]);
        assert_eq!(house.said(number).last(), Some(&ended(Disconnected::Transport)));
        assert_eq!(house.total.used(), 0);
    });
}

#[test]
fn case_z19_records_that_only_look_odd_are_as_good_as_any() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (_, peer) = house.accept_dealer(&kit, "D1").await;
        let envelope: [&[u8]; 4] = [b"\x01", b"\x01", b"\x01", &[0; 8]];
        let many = vec![&b"x"[..]; 1000];
        peer.offer(&[data(&envelope), data(&many), frame(0, REQUEST, 5, b"ping")].concat());
        kit.quiet().await;
        assert_eq!(house.recv().unwrap().1.parts(), envelope);
        assert_eq!(house.recv().unwrap().1.parts(), many);
        let request = house.core(Core::recv).unwrap();
        assert_eq!(request.record, Record::new("ping"));
        house.core(|core| core.try_reply(request.reply.unwrap(), Record::new("pong"))).unwrap();
        kit.quiet().await;
        assert_eq!(peer.take(), frame(0, REPLY, 5, b"pong"));
    });
}

#[test]
fn zmp_1_2_an_error_of_the_peer_ends_the_connection_without_an_answer() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept_dealer(&kit, "D1").await;
        peer.offer(&data(&[b"hi"]));
        peer.offer(&control(&[5, 0x7f, 2, b'n', b'o']));
        kit.quiet().await;
        assert!(peer.take().is_empty());
        assert!(peer.is_shut_down());
        assert_eq!(house.said(number).last(), Some(&ended(Disconnected::Transport)));
    });
}

#[test]
fn connection_ends_are_said_once_with_their_reason() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (orderly, peer) = house.accept_dealer(&kit, "D1").await;
        peer.end();
        let (reset, peer) = house.accept_dealer(&kit, "D2").await;
        peer.reset();
        let (broken, peer) = house.accept_dealer(&kit, "D3").await;
        peer.explode();
        peer.offer(b"x");
        kit.pass(Duration::from_secs(5)).await;
        for (number, why) in [
            (orderly, Disconnected::Unknown),
            (reset, Disconnected::Transport),
            (broken, Disconnected::Unknown),
        ] {
            let said = house.said(number);
            let ends = said.iter().filter(|word| matches!(word, ConnectionWord::Ended { .. }));
            assert_eq!(ends.collect::<Vec<_>>(), [&ended(why)]);
        }
        assert_eq!(house.actors.kind(ActorKind::PeerConnection).panics(), 1);
        assert_eq!(house.alive(), 0);
        assert_eq!(house.core(|core| core.peers().len()), 0);
    });
}

#[test]
fn connection_what_a_peer_sent_before_it_went_deaf_is_delivered() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept_dealer(&kit, "D1").await;
        peer.refuse_writes();
        peer.offer(&data(&[b"last words"]));
        peer.end();
        house.core(|core| send(core, "D1", Record::new("unheard")));
        kit.quiet().await;
        assert_eq!(house.recv().map(|(_, record)| record), Some(Record::new("last words")));
        assert!(matches!(house.said(number).last(), Some(ConnectionWord::Ended { .. })));
    });
}

#[test]
fn connection_a_closing_socket_writes_what_is_queued_and_then_ends_its_side() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept_dealer(&kit, "D1").await;
        peer.window(100);
        for _ in 0..3 {
            house.core(|core| send(core, "D1", Record::new(vec![7; 100_000])));
        }
        kit.quiet().await;
        house.core(|core| core.close(Instant::now().into_std()));
        let mut got = Vec::new();
        while !peer.is_shut_down() {
            kit.pass(Duration::from_millis(100)).await;
            got.extend(peer.take());
            peer.window(50_000);
        }
        let sent = frames(&mut got);
        assert_eq!(sent.iter().map(|frame| frame.body.len()).collect::<Vec<_>>(), [100_000; 3]);
        assert!(house.core(|core| core.drained()));
        assert_eq!(house.said(number).last(), Some(&ended(Disconnected::ContextEnd)));
    });
}

#[test]
fn connection_a_socket_that_has_lingered_enough_drops_what_is_queued() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (stream, peer) = socket();
        let (number, address) = house.start(Stream::Tcp(stream), None);
        peer.offer(&greeting(b"D1"));
        kit.quiet().await;
        peer.window(0);
        house.core(|core| send(core, "D1", Record::new("x")));
        kit.quiet().await;
        address.do_send(Disconnect { why: Disconnected::ContextEnd });
        kit.quiet().await;
        assert!(peer.is_dropped());
        assert_eq!(house.said(number).last(), Some(&ended(Disconnected::ContextEnd)));
        assert_eq!(house.total.used(), 0);
        assert!(house.core(|core| core.drained()));
    });
}
