//! 1.5, and what becomes of peers that are none (Z-14, Z-16, Z-17).

use std::time::Duration;

use lineway_wire::zmp::core::{Disconnected, Rejection};
use lineway_wire::zmp::monitor::HandshakeFault;
use lineway_wire::zmp::{Record, SocketKind};
use tokio::time::Instant;

use super::{HANDSHAKE, House, codes};
use crate::messages::ConnectionWord;
use crate::testkit::run;
use crate::testkit::zmp::{
    DATA, DEALER, ROUTER, control, data, frame, frames, greeting, hello, ready,
};

const fn failed(handshake: Option<HandshakeFault>) -> ConnectionWord {
    ConnectionWord::Ended { why: Disconnected::Handshake, handshake, rejection: None }
}

#[test]
fn zmp_1_5_hello_is_said_at_once_and_ready_answers_ready() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept();
        kit.quiet().await;
        assert_eq!(peer.take(), hello(ROUTER, b"own"));
        peer.offer(&hello(DEALER, b"D1"));
        kit.quiet().await;
        assert!(peer.take().is_empty(), "an accepted connection answers");
        assert_eq!(house.said(number), [ConnectionWord::Hello(SocketKind::Dealer)]);
        peer.offer(&ready(DEALER, b"D1", 1, 0));
        kit.quiet().await;
        let mut sent = peer.take();
        let answer = frames(&mut sent);
        assert_eq!((answer.len(), answer[0].body[0]), (1, 4), "READY");
        assert_eq!(house.said(number).last(), Some(&ConnectionWord::Ready));
    });
}

#[test]
fn zmp_1_5_a_dialled_connection_speaks_ready_first() {
    run(async |kit| {
        let mut house = House::with(&kit, SocketKind::Dealer, 0, |_| ());
        let endpoint = house.core(|core| core.add_endpoint("tcp://there:2".into(), None));
        let (stream, peer) = crate::testkit::socket();
        let (number, _) = house.start(crate::socket::Stream::Tcp(stream), Some(endpoint));
        peer.offer(&hello(ROUTER, b"R1"));
        kit.quiet().await;
        assert_eq!(frames(&mut peer.take()).len(), 2, "HELLO and READY");
        assert_eq!(house.said(number).len(), 1);
        peer.offer(&ready(ROUTER, b"R1", 1, 0));
        kit.quiet().await;
        assert_eq!(house.said(number).last(), Some(&ConnectionWord::Ready));
    });
}

#[test]
fn zmp_1_5_nothing_is_published_before_the_own_ready_is_written() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept();
        kit.quiet().await;
        peer.take();
        peer.window(10);
        peer.offer(&greeting(b"D1"));
        peer.offer(&data(&[b"hi"]));
        kit.quiet().await;
        assert_eq!(house.said(number), [ConnectionWord::Hello(SocketKind::Dealer)]);
        assert_eq!(house.recv(), None);
        peer.open_window();
        kit.quiet().await;
        assert_eq!(house.said(number).last(), Some(&ConnectionWord::Ready));
        assert_eq!(house.recv(), Some(("D1".to_owned(), Record::new("hi"))));
    });
}

#[test]
fn zmp_1_5_a_failed_write_of_ready_fails_the_handshake() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept();
        kit.quiet().await;
        peer.refuse_writes();
        peer.offer(&greeting(b"D1"));
        kit.quiet().await;
        assert_eq!(house.said(number).last(), Some(&failed(None)));
        assert!(peer.is_dropped());
    });
}

#[test]
fn case_z14_junk_ends_its_connection_with_its_code() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let mut long = hello(DEALER, &[b'x'; 255]);
        long[7] += 1;
        let short = control(&[1, DEALER]);
        let subscriber = hello(2, b"S1");
        let scanner = vec![0xfb, 0x18, 0xff, 0xfb, 0x1f, 0xff, 0xfb, 0x20];
        let unready = [hello(DEALER, b"D1"), ready(DEALER, b"D1", 2, 0)].concat();
        let early = data(&[b"hi"]);
        let bad_hello = Some(HandshakeFault::Hello);
        let bad_ready = Some(HandshakeFault::Ready);
        for (bytes, code, fault) in [
            (scanner, 1, bad_hello),
            (long, 0x7f, bad_hello),
            (short, 0x7f, bad_hello),
            (subscriber, 5, bad_hello),
            (unready, 0x7f, bad_ready),
            (early, 0x7f, bad_hello),
        ] {
            let (number, peer) = house.accept();
            peer.offer(&bytes);
            kit.quiet().await;
            assert_eq!(codes(&peer), [code], "{bytes:x?}");
            assert!(peer.is_shut_down());
            assert_eq!(house.said(number).last(), Some(&failed(fault)), "{bytes:x?}");
            peer.end();
            kit.quiet().await;
            assert!(peer.is_dropped(), "it goes when the peer has read its last words");
        }
        house.accept_dealer(&kit, "good").await;
        assert_eq!(house.alive(), 1);
    });
}

#[test]
fn zmp_1_2_last_words_wait_for_a_peer_that_goes_on_but_not_for_ever() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (_, peer) = house.accept();
        peer.offer(&vec![0xfb; 100_000]);
        kit.quiet().await;
        assert_eq!(codes(&peer), [1]);
        assert_eq!(peer.offered(), 0, "unread bytes would make a reset of the close");
        assert!(!peer.is_dropped());
        kit.pass(Duration::from_secs(1)).await;
        assert!(peer.is_dropped());

        let (_, flood) = house.accept();
        flood.offer_endless();
        kit.quiet().await;
        assert!(flood.is_dropped());
        assert!(flood.read() < 20 << 20);
    });
}

#[test]
fn case_z16_a_the_limit_covers_the_handshake_only() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept_dealer(&kit, "D1").await;
        kit.pass(Duration::from_secs(10)).await;
        peer.offer(&data(&[b"late"]));
        kit.quiet().await;
        assert_eq!(house.recv(), Some(("D1".to_owned(), Record::new("late"))));
        assert_eq!(house.said(number).last(), Some(&ConnectionWord::Ready));
    });
}

#[test]
fn case_z16_b_and_c_silence_and_trickling_end_at_the_limit() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let began = Instant::now();
        let (silent, quiet) = house.accept();
        let (trickling, drops) = house.accept();
        for byte in hello(DEALER, b"D1").into_iter().cycle() {
            if drops.is_shut_down() {
                break;
            }
            drops.offer(&[byte]);
            kit.pass(Duration::from_millis(300)).await;
        }
        let took = began.elapsed();
        assert!(took >= HANDSHAKE && took < Duration::from_millis(2500), "{took:?}");
        for (number, peer) in [(silent, quiet), (trickling, drops)] {
            assert_eq!(codes(&peer), [6]);
            assert_eq!(house.said(number).last(), Some(&failed(None)), "nothing is known of it");
        }
    });
}

#[test]
fn case_z16_a_thousand_silent_connections_do_not_delay_a_good_one() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let silent: Vec<_> = (0..1000).map(|_| house.accept().1).collect();
        kit.quiet().await;
        let began = Instant::now();
        let (_, good) = house.accept_dealer(&kit, "D1").await;
        good.offer(&data(&[b"hi"]));
        kit.quiet().await;
        assert_eq!(house.recv(), Some(("D1".to_owned(), Record::new("hi"))));
        assert!(began.elapsed() < Duration::from_millis(100));
        kit.pass(HANDSHAKE).await;
        assert!(silent.iter().all(|peer| codes(peer) == [6]));
        kit.pass(Duration::from_secs(1)).await;
        assert_eq!(house.alive(), 1);
    });
}

#[test]
fn case_z17_the_handshake_comes_in_any_pieces() {
    run(async |kit| {
        let bytes = [greeting(b"D1"), data(&[b"hi"]), frame(0, DATA, 0, b"")].concat();
        let hello_end = hello(DEALER, b"D1").len();
        let ready_end = greeting(b"D1").len();
        let in_headers = [3, hello_end + 5, ready_end + 7, ready_end + 13];
        let each_byte: Vec<_> = (1..bytes.len()).collect();
        for cuts in [&[][..], &each_byte, &in_headers] {
            let mut house = House::router(&kit);
            let (_, peer) = house.accept();
            let mut from = 0;
            for cut in cuts.iter().copied().chain([bytes.len()]) {
                peer.offer(&bytes[from..cut]);
                from = cut;
                kit.quiet().await;
            }
            assert_eq!(house.recv(), Some(("D1".to_owned(), Record::new("hi"))), "{cuts:?}");
            assert_eq!(house.recv(), Some(("D1".to_owned(), Record::new(""))));
            assert_eq!(frames(&mut peer.take()).len(), 2);
        }
    });
}

#[test]
fn zmp_r_d1_a_refused_peer_is_closed_without_a_word() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (_, first) = house.accept_dealer(&kit, "D1").await;
        let (number, second) = house.accept_dealer(&kit, "D1").await;
        assert!(second.is_shut_down());
        assert!(second.take().is_empty());
        let ended = ConnectionWord::Ended {
            why: Disconnected::Handshake,
            handshake: None,
            rejection: Some(Rejection::DuplicateId),
        };
        assert_eq!(house.said(number).last(), Some(&ended));
        first.offer(&data(&[b"hi"]));
        kit.quiet().await;
        assert!(house.recv().is_some());
    });
}

#[test]
fn zmp_1_3_a_link_whose_second_lane_does_not_come_ends() {
    run(async |kit| {
        let mut house = House::router(&kit);
        let (number, peer) = house.accept();
        peer.offer(&[hello(ROUTER, b"R2"), ready(ROUTER, b"R2", 2, 0)].concat());
        kit.quiet().await;
        assert_eq!(house.said(number).last(), Some(&ConnectionWord::Ready));
        kit.pass(HANDSHAKE).await;
        assert_eq!(codes(&peer), [0x7f]);
        assert_eq!(house.said(number).last(), Some(&failed(Some(HandshakeFault::Ready))));
    });
}

#[test]
fn zmp_1_5_a_link_of_two_lanes_is_ready_with_the_second() {
    run(async |kit| {
        let mut house = House::router(&kit);
        for lane in [1, 0] {
            let (_, peer) = house.accept();
            peer.offer(&[hello(ROUTER, b"R2"), ready(ROUTER, b"R2", 2, lane)].concat());
            kit.pass(Duration::from_millis(500)).await;
        }
        kit.pass(2 * HANDSHAKE).await;
        assert_eq!(house.alive(), 2);
    });
}
