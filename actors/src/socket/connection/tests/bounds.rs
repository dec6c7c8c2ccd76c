//! What a connection may hold: slow readers, full queues, the total of the process (X-3, B-7).

use std::time::Duration;

use actix::prelude::*;
use lineway_wire::zmp::core::Submit;
use lineway_wire::zmp::status::RecordKind;
use lineway_wire::zmp::{Record, RoutingId, SocketKind};
use tokio::time::Instant;

use super::{House, PeerConnection};
use crate::messages::ConnectionWord;
use crate::socket::Stream;
use crate::testkit::zmp::{MORE, data, frame, frames, greeting};
use crate::testkit::{Peer, run, socket};

/// Asks how much memory a connection keeps: bytes of its input, a writer, a timer.
#[derive(Message)]
#[rtype(result = "(usize, bool, bool)")]
struct Keeps;

impl Handler<Keeps> for PeerConnection {
    type Result = MessageResult<Keeps>;

    fn handle(&mut self, _: Keeps, _: &mut Self::Context) -> Self::Result {
        MessageResult((self.input.capacity(), self.writer.is_some(), self.times.is_armed()))
    }
}

#[test]
fn connection_a_silent_one_keeps_no_buffer_and_no_timer() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (stream, peer) = socket();
        let (_, address) = house.start(Stream::Tcp(stream), None);
        kit.quiet().await;
        assert_eq!(
            address.send(Keeps).await.unwrap(),
            (0, false, true),
            "its handshake has a limit"
        );
        peer.offer(&greeting(b"D1"));
        peer.offer(&data(&[&vec![1; 100_000]]));
        kit.quiet().await;
        assert_eq!(address.send(Keeps).await.unwrap(), (0, false, false));
        peer.offer(&frame(0, 0, 0, &[1; 1000])[..500]);
        kit.quiet().await;
        assert_eq!(
            address.send(Keeps).await.unwrap(),
            (492, false, false),
            "exactly what is there"
        );
    });
}

#[test]
fn connection_a_small_record_keeps_no_large_buffer() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (_, peer) = house.accept_dealer(&kit, "D1").await;
        peer.offer(&data(&[&vec![1; 500_000]]));
        peer.offer(&data(&[b"small"]));
        kit.quiet().await;
        let (_, large) = house.recv().unwrap();
        let (_, small) = house.recv().unwrap();
        let part = |record: &Record| record.parts()[0].clone();
        assert_eq!((part(&large).len(), &part(&small)[..]), (500_000, &b"small"[..]));
        drop(large);
        let small = small.into_parts().remove(0).try_into_mut().expect("it is the only one");
        assert!(small.capacity() < 100, "{} bytes for five", small.capacity());
    });
}

#[test]
fn connection_a_slow_reader_holds_one_batch_outside_of_the_queue() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Router, 0, |core| core.send_hwm = 0);
        let (_, peer) = house.accept_dealer(&kit, "D1").await;
        peer.window(0);
        let to = RoutingId::new("D1").unwrap();
        let submit = |n: usize| {
            let now = Instant::now().into_std();
            let record = Record::new(vec![1; n]);
            house.core(|core| core.try_submit(now, Some(&to), record, Submit::Send, 0)).unwrap();
        };
        for _ in 0..1000 {
            submit(1000);
        }
        kit.quiet().await;
        let queued = house.core(|core| core.queued());
        assert_eq!(queued, 1000 * 1064, "nothing is given back before it is written");
        let outside = |house: &House| {
            let send = house.core(|core| core.status().send);
            house.core(|core| core.queued()) - send.pending_bytes
        };
        assert!((1..70_000).contains(&outside(&house)), "{}", outside(&house));
        peer.window(500_000);
        kit.quiet().await;
        assert_eq!(peer.held(), 500_000);
        assert!((1..70_000).contains(&outside(&house)), "{}", outside(&house));
        // A record of any size is a batch of its own.
        submit(900_000);
        submit(900_000);
        peer.open_window();
        kit.quiet().await;
        let mut sent = peer.take();
        assert_eq!(frames(&mut sent).len(), 1002);
        assert_eq!((house.core(|core| core.queued()), house.total.used()), (0, 0));
    });
}

#[test]
fn connection_records_of_one_turn_share_a_write_and_a_lone_one_does_not_wait() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (_, peer) = house.accept_dealer(&kit, "D1").await;
        let to = RoutingId::new("D1").unwrap();
        let submit = || {
            let now = Instant::now().into_std();
            let record = Record::new("ping");
            house.core(|core| core.try_submit(now, Some(&to), record, Submit::Send, 0)).unwrap();
        };
        let before = peer.writes();
        for _ in 0..100 {
            submit();
        }
        kit.quiet().await;
        assert_eq!(peer.writes() - before, 1);
        assert_eq!(frames(&mut peer.take()).len(), 100);
        submit();
        tokio::task::yield_now().await;
        kit.quiet().await;
        assert_eq!(frames(&mut peer.take()).len(), 1);
    });
}

#[test]
fn connection_a_flood_of_small_frames_lets_others_have_their_turn() {
    const ALL: u64 = 100_000;
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Router, 0, |core| core.receive_hwm = 0);
        let (_, peer) = house.accept_dealer(&kit, "D1").await;
        peer.offer(&data(&[b""]).repeat(ALL as usize));
        let (mut seen, mut most) = (0, 0);
        while seen < ALL {
            tokio::task::yield_now().await;
            let received = house.core(|core| core.counters().received.records[RecordKind::Data]);
            most = most.max(received - seen);
            seen = received;
        }
        // What one read brings, on top of what ends a turn.
        assert!(most <= 1024 + (64 << 10) / 8, "{most} in one turn");
    });
}

#[test]
fn zmp_x3_reading_stops_at_the_receive_limit_and_goes_on_when_records_are_taken() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Router, 0, |core| core.receive_hwm = 10_000);
        let (number, peer) = house.accept_dealer(&kit, "D1").await;
        for _ in 0..1000 {
            peer.offer(&data(&[&[1; 1000]]));
        }
        kit.quiet().await;
        let read = peer.read();
        assert!(read < 200_000, "{read} bytes were read");
        assert!(house.core(|core| core.queued()) <= 10_000);
        kit.pass(Duration::from_secs(10)).await;
        assert_eq!(peer.read(), read, "nobody takes a record");
        let mut taken = 0;
        while house.recv().is_some() {
            taken += 1;
            kit.quiet().await;
        }
        assert_eq!((taken, peer.offered()), (1000, 0));
        assert_eq!(house.said(number).last(), Some(&ConnectionWord::Ready));
    });
}

#[test]
fn zmp_x3_a_record_larger_than_the_receive_limit_passes_an_empty_queue() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Router, 0, |core| core.receive_hwm = 1000);
        let (_, peer) = house.accept_dealer(&kit, "D1").await;
        for _ in 0..3 {
            peer.offer(&data(&[&vec![1; 200_000], b"and", b"more"]));
        }
        for _ in 0..3 {
            kit.quiet().await;
            assert_eq!(house.recv().unwrap().1.parts().len(), 3);
            assert_eq!(house.recv(), None, "one at a time");
        }
    });
}

#[test]
fn connection_a_reset_is_seen_though_nobody_takes_records() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Router, 0, |core| core.receive_hwm = 1000);
        let (number, peer) = house.accept_dealer(&kit, "D1").await;
        for _ in 0..100 {
            peer.offer(&data(&[&[1; 1000]]));
        }
        kit.quiet().await;
        peer.reset();
        kit.pass(Duration::from_secs(2)).await;
        assert!(matches!(house.said(number).last(), Some(ConnectionWord::Ended { .. })));
    });
}

#[test]
fn total_b7_above_the_limit_nobody_is_read_and_all_go_on_when_records_are_taken() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Router, 100_000, |core| core.receive_hwm = 0);
        let mut peers = Vec::new();
        for at in 0..5 {
            peers.push(house.accept_dealer(&kit, &format!("D{at}")).await.1);
        }
        for peer in &peers {
            for _ in 0..500 {
                peer.offer(&data(&[&[1; 1000]]));
            }
        }
        kit.quiet().await;
        let read: u64 = peers.iter().map(Peer::read).sum();
        assert!(read < 100_000 + 5 * 66_000, "{read} bytes were read");
        let mut taken = 0;
        while house.recv().is_some() {
            taken += 1;
            kit.quiet().await;
        }
        assert_eq!(taken, 2500);
        assert_eq!((house.total.used(), house.total.waiting()), (0, 0));
    });
}

#[test]
fn total_b7_large_records_finish_one_by_one_beyond_the_limit() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Router, 600_000, |core| core.receive_hwm = 0);
        let mut peers = Vec::new();
        for at in 0..4 {
            let (_, peer) = house.accept_dealer(&kit, &format!("D{at}")).await;
            // Two thirds of a record, and then silence: together more than the limit.
            peer.offer(&frame(MORE, 0, 0, &vec![1; 300_000]));
            peers.push(peer);
        }
        kit.quiet().await;
        let used = house.total.used();
        assert!((300_000..=1_000_000).contains(&used), "{used} bytes");
        // The others send theirs to the end; the first one never does.
        for peer in &peers[1..] {
            peer.offer(&frame(0, 0, 0, &vec![2; 300_000]));
        }
        let mut got = 0;
        for _ in 0..40 {
            kit.pass(Duration::from_millis(500)).await;
            got += usize::from(house.recv().is_some());
        }
        assert_eq!(got, 3);
    });
}
