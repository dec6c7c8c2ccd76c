//! Datagrams over real sockets.

use lineway_wire::sip::own::{SocketId, Transport};
use tokio::net::UdpSocket;

use crate::sip::back::SendError;
use crate::sip::ring::RingLimits;
use crate::sip::transport::Sent;
use crate::testkit::sip::{SipKit, SipKitOptions, options, run};

async fn peer() -> UdpSocket {
    UdpSocket::bind(("127.0.0.1", 0)).await.unwrap()
}

#[test]
fn a_datagram_comes_whole_with_its_source_and_an_answer_leaves_by_the_same_socket() {
    run(async || {
        let kit = SipKit::start(SipKitOptions { udp: 2, ..SipKitOptions::default() });
        let peer = peer().await;
        let request = options("one", "body");
        peer.send_to(&request, kit.address(1)).await.unwrap();
        let arrival = kit.next(0).await;
        assert_eq!(arrival.bytes, request);
        assert_eq!(arrival.received.source, peer.local_addr().unwrap());
        assert_eq!(arrival.received.socket, SocketId(1));
        assert_eq!(arrival.received.transport, Transport::Udp);
        assert_eq!(arrival.received.connection, None);
        let sent = kit.transports.send(&kit.way(1, arrival.received.source), "SIP/2.0 200".into());
        assert!(matches!(sent, Sent::Done));
        let mut buffer = [0; 100];
        let (length, from) = peer.recv_from(&mut buffer).await.unwrap();
        assert_eq!((&buffer[..length], from), (&b"SIP/2.0 200"[..], kit.address(1)));
        assert_eq!(kit.counters.messages(), (1, 1));
    });
}

#[test]
fn case_s20_line_ends_and_short_datagrams_are_ignored() {
    run(async || {
        let kit = SipKit::start(SipKitOptions::default());
        let peer = peer().await;
        for ignored in [&b"\r\n\r\n"[..], b"\r\n", b"\0", b"", b"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n"]
        {
            peer.send_to(ignored, kit.address(0)).await.unwrap();
        }
        peer.send_to(&options("one", ""), kit.address(0)).await.unwrap();
        assert_eq!(kit.next(0).await.bytes, options("one", ""));
        assert_eq!(kit.counters.messages().0, 1);
        assert_eq!(kit.counters.keepalives.get(), 3);
        let mut buffer = [0; 10];
        assert!(peer.try_recv(&mut buffer).is_err(), "no pong over UDP");
    });
}

#[test]
fn messages_of_one_source_keep_their_order_over_many_turns() {
    run(async || {
        let kit = SipKit::start(SipKitOptions::default());
        let peer = peer().await;
        for round in 0..5 {
            for at in 0..100 {
                let text = format!("OPTIONS sip:{round}-{at} SIP/2.0");
                peer.send_to(text.as_bytes(), kit.address(0)).await.unwrap();
            }
            for at in 0..100 {
                let text = format!("OPTIONS sip:{round}-{at} SIP/2.0");
                assert_eq!(kit.next(0).await.bytes, text);
            }
        }
    });
}

#[test]
fn what_finds_no_room_in_the_ring_is_dropped_and_counted() {
    run(async || {
        let ring = RingLimits { count: 3, ..RingLimits::default() };
        let kit = SipKit::start(SipKitOptions { ring, ..SipKitOptions::default() });
        let peer = peer().await;
        for at in 0..10 {
            let text = format!("OPTIONS sip:{at} SIP/2.0");
            peer.send_to(text.as_bytes(), kit.address(0)).await.unwrap();
        }
        kit.until(|kit| kit.counters.messages().0 == 10).await;
        assert_eq!(kit.counters.overload.get(), 7);
        for at in 0..3 {
            assert_eq!(kit.next(0).await.bytes, format!("OPTIONS sip:{at} SIP/2.0"));
        }
        assert_eq!(kit.rings.of(0).load(), (0, 0));
    });
}

#[test]
fn a_datagram_above_the_limit_is_cut_behind_it_so_that_the_parser_sees_it() {
    run(async || {
        let mut settings = SipKitOptions::default();
        settings.limits.message_bytes = 1000;
        let kit = SipKit::start(settings);
        let peer = peer().await;
        peer.send_to(&[b'x'; 5000], kit.address(0)).await.unwrap();
        assert_eq!(kit.next(0).await.bytes.len(), 1001);
    });
}

#[test]
fn what_can_not_be_sent_says_why() {
    run(async || {
        let kit = SipKit::start(SipKitOptions::default());
        let peer = peer().await;
        let to = peer.local_addr().unwrap();
        let failed = |sent| match sent {
            Sent::Failed(error) => Some(error),
            _ => None,
        };
        // The runtime hears that a socket can be written when it looks for events first.
        kit.transports.send(&kit.way(0, to), "x".into());
        peer.recv(&mut [0; 10]).await.unwrap();
        let large = vec![b'x'; 65_530];
        let sent = kit.transports.send(&kit.way(0, to), large.into());
        assert_eq!(failed(sent), Some(SendError::TooLarge));
        let sent = kit.transports.send(&kit.way(0, "[::1]:9".parse().unwrap()), "x".into());
        assert_eq!(failed(sent), Some(SendError::System));
        assert_eq!(kit.counters.messages().1, 1);
    });
}

#[test]
fn a_stopped_node_reads_nothing_and_can_still_send() {
    run(async || {
        let kit = SipKit::start(SipKitOptions::default());
        let peer = peer().await;
        kit.transports.stop();
        kit.until(|kit| kit.kit.metric(r#"lineway_actors_alive{kind="sip-transport"}"#) == 0.0)
            .await;
        peer.send_to(&options("one", ""), kit.address(0)).await.unwrap();
        let sent = kit.transports.send(&kit.way(0, peer.local_addr().unwrap()), "last".into());
        assert!(matches!(sent, Sent::Done));
        let mut buffer = [0; 10];
        assert_eq!(peer.recv(&mut buffer).await.unwrap(), 4);
        assert_eq!(kit.counters.messages().0, 0);
    });
}
