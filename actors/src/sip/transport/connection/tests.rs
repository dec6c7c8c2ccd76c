//! Connections: what a peer on a scripted socket sees under paused time, and what one of the system
//! sees.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use lineway_wire::sip::own::{ConnectionId, Transport};
use lineway_wire::units::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::sip::back::{SendError, Way};
use crate::sip::ring::RingLimits;
use crate::sip::transport::Sent;
use crate::sip::transport::link::REFUSED;
use crate::testkit::sip::{FIRST, SipKit, SipKitOptions, options, run};
use crate::testkit::{self, Arrivals, Kit, Outcome};

/// Two messages, the first with a body, as one write would have them.
fn two() -> (Bytes, Bytes, Vec<u8>) {
    let (first, second) = (options("m1", "hello"), options("m2", ""));
    let both = [&first[..], &second].concat();
    (first, second, both)
}

fn scripted(options: SipKitOptions, test: impl AsyncFnOnce(SipKit, Arrivals)) {
    testkit::run(async |kit: Kit| {
        let (kit, arrivals) = SipKit::scripted(kit, options);
        test(kit, arrivals).await;
    });
}

fn server() -> SocketAddr {
    ([198, 51, 100, 1], 5060).into()
}

fn failed(sent: Sent) -> Option<SendError> {
    match sent {
        Sent::Failed(error) => Some(error),
        _ => None,
    }
}

async fn later(sent: Sent) -> Result<(), SendError> {
    match sent {
        Sent::Later(result) => result.await,
        Sent::Done => panic!("it was sent at once"),
        Sent::Failed(error) => panic!("{error}"),
    }
}

#[test]
fn sip_r140_case_s17_several_messages_of_one_segment_come_in_order() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect();
        let (first, second, both) = two();
        let third = options("m3", "");
        peer.offer(&[&both[..], &third[..20]].concat());
        assert_eq!(kit.next(0).await.bytes, first);
        let arrival = kit.next(0).await;
        assert_eq!(arrival.bytes, second);
        assert_eq!(arrival.received.transport, Transport::Tcp);
        assert_eq!(arrival.received.connection, Some(ConnectionId(FIRST)));
        assert_eq!(arrival.received.source, SocketAddr::from(([192, 0, 2, 1], 40_000)));
        kit.kit.quiet().await;
        assert_eq!(kit.rings.of(0).load(), (0, 0), "the third is not whole");
        peer.offer(&third[20..]);
        assert_eq!(kit.next(0).await.bytes, third);
        assert_eq!(kit.counters.messages().0, 3);
    });
}

#[test]
fn sip_r140_case_s18_every_segmentation_gives_the_same_messages() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let (first, second, both) = two();
        let both =
            [&first[..], b"\n\r\n", &second].concat().into_iter().chain(both).collect::<Vec<_>>();
        for most in (1..40).chain([100, 300, 301, 302, 1000]) {
            let peer = arrivals.connect();
            peer.read_at_most(most);
            peer.offer(&both);
            for expected in [&first, &second, &first, &second] {
                assert_eq!(kit.next(0).await.bytes, expected, "{most} at a time");
            }
            peer.end();
            kit.kit.quiet().await;
        }
    });
}

#[test]
fn sip_r141_case_s20_a_ping_gets_a_pong() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect();
        peer.offer(b"\r\n\r\n");
        kit.kit.quiet().await;
        assert_eq!(peer.take(), b"\r\n");
        peer.offer(b"\r\n");
        kit.kit.quiet().await;
        assert_eq!(peer.take(), b"");
        peer.offer(b"\r\n");
        kit.kit.quiet().await;
        assert_eq!(peer.take(), b"\r\n", "a ping in two writes");
        let request = options("one", "");
        peer.offer(&[b"\r\n\r\n", &request[..]].concat());
        assert_eq!(kit.next(0).await.bytes, request);
        assert_eq!(peer.take(), b"\r\n", "a ping and a message in one write");
        peer.offer(&[b"\r\n", &request[..]].concat());
        assert_eq!(kit.next(0).await.bytes, request);
        assert_eq!(peer.take(), b"");
        assert_eq!((kit.counters.messages(), kit.counters.keepalives.get()), ((2, 0), 3));
    });
}

#[test]
fn one_that_pings_and_takes_no_pong_is_not_read_for_ever() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect();
        peer.window(0);
        for _ in 0..100 {
            peer.offer(&b"\r\n\r\n".repeat(10_000));
            kit.kit.quiet().await;
        }
        let read = peer.read();
        assert!(peer.offered() > 0 && read < 2_000_000, "{read}");
        peer.swallow();
        peer.open_window();
        kit.until(|_| peer.offered() == 0).await;
        kit.kit.quiet().await;
        assert_eq!(peer.written(), 2_000_000, "each of them has its pong");
    });
}

#[test]
fn sip_r138_a_reply_goes_back_by_the_connection_wherever_its_address_points() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peers = [arrivals.connect(), arrivals.connect()];
        for (at, peer) in peers.iter().enumerate() {
            peer.offer(&options(&at.to_string(), ""));
        }
        for (at, peer) in peers.iter().enumerate() {
            let connection = kit.next(0).await.received.connection;
            assert_eq!(connection, Some(ConnectionId(FIRST.wrapping_add(at as u32))));
            let way = Way { connection, ..kit.way(0, server()) };
            assert!(matches!(kit.transports.send(&way, "SIP/2.0 200".into()), Sent::Done));
            kit.kit.quiet().await;
            assert_eq!(peer.take(), b"SIP/2.0 200");
        }
        assert!(kit.kit.dials.is_empty());
        assert_eq!(kit.counters.messages(), (2, 2));
    });
}

#[test]
fn a_reply_whose_connection_is_gone_opens_another_where_it_may() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect();
        peer.offer(&options("one", ""));
        let connection = kit.next(0).await.received.connection;
        peer.reset();
        kit.until(|kit| kit.connections.is_empty()).await;
        kit.assert_closed("error", 1);
        let way = Way { connection, may_connect: false, ..kit.way(0, server()) };
        assert_eq!(
            failed(kit.transports.send(&way, "reply".into())),
            Some(SendError::NoConnection)
        );
        let way = Way { may_connect: true, ..way };
        assert_eq!(later(kit.transports.send(&way, "reply".into())).await, Ok(()));
        kit.kit.quiet().await;
        assert_eq!(kit.kit.dials.peer(0).take(), b"reply");
    });
}

#[test]
fn a_request_uses_the_connection_that_its_peer_opened() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect_from(server());
        kit.until(|kit| kit.connections.len() == 1).await;
        assert!(matches!(kit.transports.send(&kit.way(0, server()), "one".into()), Sent::Done));
        kit.kit.quiet().await;
        assert_eq!(peer.take(), b"one");
        assert!(kit.kit.dials.is_empty());
    });
}

#[test]
fn all_that_go_to_one_address_wait_for_one_dial_and_keep_their_order() {
    scripted(SipKitOptions::default(), async |kit, _| {
        kit.kit.dials.plan(Outcome::UpAfter(Duration::from_secs(1)));
        let way = kit.way(0, server());
        let sent = ["a", "b", "c"].map(|text| kit.transports.send(&way, text.into()));
        kit.kit.quiet().await;
        assert_eq!(kit.kit.dials.addresses(), [server()]);
        for sent in sent {
            assert_eq!(later(sent).await, Ok(()));
        }
        assert!(matches!(kit.transports.send(&way, "d".into()), Sent::Done));
        kit.kit.quiet().await;
        assert_eq!(kit.kit.dials.peer(0).take(), b"abcd");
        assert_eq!(kit.kit.dials.len(), 1);
        assert_eq!((kit.counters.dialled.get(), kit.counters.open.get()), (1, 1));
        // What comes on it is told apart from what comes on others.
        kit.kit.dials.peer(0).offer(&options("back", ""));
        let received = kit.next(0).await.received;
        assert_eq!((received.source, received.connection), (server(), Some(ConnectionId(FIRST))));
    });
}

#[test]
fn sip_r154_a_refused_connect_is_said_at_once_to_all_that_wait() {
    scripted(SipKitOptions::default(), async |kit, _| {
        let way = kit.way(0, server());
        kit.kit
            .dials
            .plan(Outcome::Fails(std::io::ErrorKind::ConnectionRefused, Duration::from_millis(20)));
        let begun = tokio::time::Instant::now();
        let sent = ["a", "b"].map(|text| kit.transports.send(&way, text.into()));
        for sent in sent {
            assert_eq!(later(sent).await, Err(SendError::Refused));
        }
        assert!(begun.elapsed() < Duration::from_millis(100));
        for text in ["e", "f"] {
            assert_eq!(failed(kit.transports.send(&way, text.into())), Some(SendError::Refused));
        }
        assert_eq!(kit.kit.dials.len(), 1, "it has just refused");
        tokio::time::sleep(REFUSED).await;
        kit.kit.dials.plan(Outcome::FailsAtOnce(std::io::ErrorKind::NetworkUnreachable));
        assert_eq!(failed(kit.transports.send(&way, "c".into())), Some(SendError::Refused));
        kit.kit.quiet().await;
        assert!(kit.connections.is_empty());
        assert_eq!(later(kit.transports.send(&way, "d".into())).await, Ok(()), "it is tried again");
        kit.kit.quiet().await;
        assert_eq!(kit.kit.dials.peer(2).take(), b"d", "what failed is not sent later");
    });
}

#[test]
fn a_connect_that_hangs_is_given_up() {
    let settings =
        SipKitOptions { connect_timeout: Duration::from_secs(2), ..SipKitOptions::default() };
    scripted(settings, async |kit, _| {
        kit.kit.dials.plan(Outcome::Hangs);
        let begun = tokio::time::Instant::now();
        let sent = later(kit.transports.send(&kit.way(0, server()), "a".into())).await;
        assert_eq!(sent, Err(SendError::Timeout));
        assert!((1990..2100).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        kit.kit.quiet().await;
        assert_eq!(kit.kit.dials.pending(), 0);
        assert!(kit.connections.is_empty());
    });
}

#[test]
fn what_waits_for_a_connection_is_bounded() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect_from(server());
        peer.window(0);
        kit.until(|kit| kit.connections.len() == 1).await;
        let message = Bytes::from(vec![b'x'; 60_000]);
        let sent = (0..100)
            .take_while(|_| {
                matches!(kit.transports.send(&kit.way(0, server()), message.clone()), Sent::Done)
            })
            .count();
        assert!((5..20).contains(&sent), "{sent}");
        let full = kit.transports.send(&kit.way(0, server()), message.clone());
        assert_eq!(failed(full), Some(SendError::Full));
        peer.swallow();
        peer.open_window();
        kit.until(|_| peer.written() == 60_000 * sent as u64).await;
        assert!(matches!(kit.transports.send(&kit.way(0, server()), message), Sent::Done));
    });
}

#[test]
fn connections_are_limited_in_both_directions() {
    let settings = SipKitOptions { connections: 2, ..SipKitOptions::default() };
    scripted(settings, async |kit, arrivals| {
        let peers = [arrivals.connect(), arrivals.connect(), arrivals.connect()];
        kit.kit.quiet().await;
        assert_eq!((kit.connections.len(), arrivals.waiting()), (2, 1));
        let sent = kit.transports.send(&kit.way(0, server()), "a".into());
        assert_eq!(failed(sent), Some(SendError::Full));
        peers[0].end();
        kit.until(|_| arrivals.waiting() == 0).await;
        kit.kit.quiet().await;
        assert_eq!(kit.connections.len(), 2);
        kit.assert_closed("peer", 1);
    });
}

#[test]
fn a_full_ring_stops_reading_and_loses_nothing() {
    let ring = RingLimits { count: 4, ..RingLimits::default() };
    scripted(SipKitOptions { ring, ..SipKitOptions::default() }, async |kit, arrivals| {
        let peer = arrivals.connect();
        let messages: Vec<_> = (0..1000).map(|at| options(&at.to_string(), "")).collect();
        for message in &messages {
            peer.offer(message);
        }
        kit.kit.quiet().await;
        assert_eq!(kit.rings.of(0).load().0, 4);
        assert!(peer.read() < 20_000, "it reads no further: {}", peer.read());
        for message in &messages {
            assert_eq!(kit.next(0).await.bytes, message);
        }
        assert_eq!(kit.counters.overload.get(), 0);
    });
}

#[test]
fn an_idle_connection_is_closed_and_a_dripping_one_is_idle() {
    let settings = SipKitOptions { idle: Millis::new(1000), ..SipKitOptions::default() };
    scripted(settings, async |kit, arrivals| {
        let (silent, dripping, busy) = (arrivals.connect(), arrivals.connect(), arrivals.connect());
        for byte in &options("one", "")[..18] {
            dripping.offer(&[*byte]);
            busy.offer(b"\r\n\r\n");
            kit.kit.pass(Duration::from_millis(50)).await;
        }
        assert!(!silent.is_shut_down() && !dripping.is_shut_down());
        kit.kit.pass(Duration::from_millis(150)).await;
        assert!(silent.is_shut_down() && dripping.is_shut_down() && !busy.is_shut_down());
        kit.kit.pass(Duration::from_millis(950)).await;
        assert!(busy.is_shut_down());
        // Peers that do not end their side are not waited for.
        kit.kit.pass(Duration::from_secs(3)).await;
        assert!(silent.is_dropped() && dripping.is_dropped() && busy.is_dropped());
        kit.assert_closed("idle", 3);
        assert!(kit.connections.is_empty());
        assert_eq!(kit.counters.open.get(), 0);
    });
}

#[test]
fn a_peer_that_takes_nothing_is_closed_though_idle_times_are_off() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect_from(server());
        peer.window(0);
        kit.until(|kit| kit.connections.len() == 1).await;
        assert!(matches!(kit.transports.send(&kit.way(0, server()), "a".into()), Sent::Done));
        kit.kit.pass(Duration::from_secs(29)).await;
        assert!(!peer.is_dropped());
        kit.kit.pass(Duration::from_secs(2)).await;
        assert!(peer.is_dropped());
        kit.assert_closed("idle", 1);
    });
}

#[test]
fn case_s19_a_stream_that_can_not_be_read_gets_an_answer_and_its_end() {
    let request = |length: &str| {
        let request = String::from_utf8(options("one", "").to_vec()).unwrap();
        request.replace("Content-Length: 0\r\n", length)
    };
    let cases = [
        ("", "no-length", "400"),
        ("Content-Length: -1\r\n", "bad-length", "400"),
        ("Content-Length: 5x\r\n", "bad-length", "400"),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "bad-length", "400"),
        ("Content-Length: 4294967301\r\n", "too-large", "513"),
    ];
    for (length, reason, code) in cases {
        scripted(SipKitOptions::default(), async |kit, arrivals| {
            let peer = arrivals.connect();
            peer.offer(request(length).as_bytes());
            peer.offer(&options("behind", ""));
            kit.kit.quiet().await;
            let answer = String::from_utf8(peer.take()).unwrap();
            assert!(answer.starts_with(&format!("SIP/2.0 {code}")), "{length}: {answer}");
            assert!(peer.is_shut_down() && !peer.is_dropped(), "{length}");
            peer.offer(b"what the peer has still to say");
            peer.end();
            kit.kit.quiet().await;
            assert!(peer.is_dropped(), "{length}");
            kit.assert_closed(reason, 1);
            assert_eq!(kit.rings.of(0).load(), (0, 0), "{length}");
        });
    }
}

#[test]
fn what_came_before_a_fault_is_handled_and_its_reply_may_be_gone() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect();
        peer.offer(&[&options("one", "")[..], b"no SIP at all\r\n\r\n"].concat());
        let received = kit.next(0).await.received;
        kit.kit.quiet().await;
        let connection = received.connection;
        let way = Way { connection, may_connect: false, ..kit.way(0, received.source) };
        let sent = kit.transports.send(&way, "SIP/2.0 200".into());
        assert_eq!(failed(sent), Some(SendError::NoConnection));
        peer.end();
        kit.kit.quiet().await;
        kit.assert_closed("not-sip", 1);
    });
}

#[test]
fn a_peer_that_ends_its_side_still_gets_the_replies_to_its_requests() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect();
        peer.offer(&two().2);
        peer.end();
        for _ in 0..2 {
            let received = kit.next(0).await.received;
            kit.kit.pass(Duration::from_secs(1)).await;
            assert!(!peer.is_dropped());
            let way = Way { connection: received.connection, ..kit.way(0, received.source) };
            for reply in ["SIP/2.0 180 ", "SIP/2.0 200 "] {
                assert!(matches!(kit.transports.send(&way, reply.into()), Sent::Done));
                kit.kit.quiet().await;
            }
        }
        assert_eq!(peer.take(), b"SIP/2.0 180 SIP/2.0 200 ".repeat(2));
        assert!(peer.is_dropped());
        kit.assert_closed("peer", 1);
        let peer = arrivals.connect();
        peer.offer(&options("three", ""));
        peer.end();
        let received = kit.next(0).await.received;
        assert!(!peer.is_dropped());
        let sent = kit.transports.send(&kit.way(0, received.source), "request".into());
        assert!(matches!(sent, Sent::Later(_)), "no request goes to one that has ended");
        kit.kit.pass(Duration::from_secs(5)).await;
        assert!(peer.is_dropped(), "replies are not waited for for ever");
        kit.assert_closed("peer", 2);
    });
}

#[test]
fn a_connection_ends_behind_a_reply_that_closes_it() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let peer = arrivals.connect();
        peer.write_at_most(3);
        peer.offer(&options("one", ""));
        let received = kit.next(0).await.received;
        let connection = received.connection;
        let way = Way { connection, close_after: true, ..kit.way(0, received.source) };
        assert!(matches!(kit.transports.send(&way, "SIP/2.0 403".into()), Sent::Done));
        kit.kit.quiet().await;
        assert_eq!(peer.take(), b"SIP/2.0 403");
        assert!(peer.is_shut_down());
        peer.end();
        kit.kit.quiet().await;
        assert!(peer.is_dropped());
        kit.assert_closed("script", 1);
    });
}

#[test]
fn a_panic_ends_one_connection_and_nothing_else() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let (broken, other) = (arrivals.connect(), arrivals.connect());
        kit.kit.quiet().await;
        broken.explode();
        broken.offer(b"x");
        kit.kit.quiet().await;
        assert!(broken.is_dropped() && !other.is_dropped());
        other.offer(&options("one", ""));
        kit.next(0).await;
        kit.assert_closed("panic", 1);
        assert_eq!((kit.connections.len(), kit.counters.open.get()), (1, 1));
    });
}

#[test]
fn accepting_goes_on_after_a_panic_and_after_descriptors_were_out() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        arrivals.explode();
        let first = arrivals.connect();
        kit.kit.pass(Duration::from_millis(200)).await;
        assert_eq!((kit.connections.len(), arrivals.waiting()), (1, 0));
        arrivals.fail(rustix::io::Errno::MFILE);
        let second = arrivals.connect();
        kit.kit.pass(Duration::from_secs(1)).await;
        assert_eq!(arrivals.waiting(), 1);
        assert!(arrivals.asked() < 30, "{}", arrivals.asked());
        arrivals.recover();
        kit.until(|kit| kit.connections.len() == 2).await;
        drop((first, second));
        kit.kit.assert_metric(r#"lineway_actor_restarts_total{kind="sip-transport"}"#, 1);
    });
}

#[test]
fn a_stopped_node_accepts_nothing_and_its_connections_end_when_all_is_written() {
    scripted(SipKitOptions::default(), async |kit, arrivals| {
        let (idle, full) = (arrivals.connect(), arrivals.connect_from(server()));
        full.window(0);
        kit.until(|kit| kit.connections.len() == 2).await;
        assert!(matches!(kit.transports.send(&kit.way(0, server()), "last".into()), Sent::Done));
        kit.kit.quiet().await;
        kit.transports.stop();
        kit.kit.quiet().await;
        assert!(arrivals.is_dropped());
        assert!(idle.is_shut_down() && !full.is_shut_down());
        full.open_window();
        kit.kit.quiet().await;
        assert_eq!(full.take(), b"last");
        assert!(full.is_shut_down());
        for peer in [&idle, &full] {
            peer.end();
        }
        kit.kit.quiet().await;
        kit.assert_closed("drain", 2);
        let sent = kit.transports.send(&kit.way(0, server()), "later".into());
        assert_eq!(failed(sent), Some(SendError::NoConnection));
        kit.kit.assert_metric(r#"lineway_actors_alive{kind="sip-transport"}"#, 0);
    });
}

#[test]
fn contract_2_16_each_call_goes_to_its_owner_in_order_over_both_transports() {
    run(async || {
        let kit = SipKit::start(SipKitOptions { workers: 2, ..SipKitOptions::default() });
        let udp = tokio::net::UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        let mut tcp = TcpStream::connect(kit.address(1)).await.unwrap();
        let calls: Vec<_> = (0..8).map(|call| format!("call-{call}")).collect();
        let mut expected = [Vec::new(), Vec::new()];
        for at in 0..20 {
            for call in &calls {
                let message = options(call, &at.to_string());
                expected[usize::from(kit.rings.owner(call.as_bytes()))].push(message);
            }
        }
        assert!(expected.iter().all(|messages| !messages.is_empty()), "both own calls");
        let mut stream = Vec::new();
        for at in 0..20 {
            for call in &calls {
                let message = options(call, &at.to_string());
                udp.send_to(&message, kit.address(0)).await.unwrap();
                stream.extend_from_slice(&message);
            }
        }
        tcp.write_all(&stream).await.unwrap();
        for (owner, expected) in (0..).zip(&expected) {
            let (mut datagrams, mut streamed) = (Vec::new(), Vec::new());
            for _ in 0..expected.len() * 2 {
                let arrival = kit.next(owner).await;
                match arrival.received.transport {
                    Transport::Udp => datagrams.push(arrival.bytes),
                    Transport::Tcp => streamed.push(arrival.bytes),
                }
            }
            assert_eq!((&datagrams, &streamed), (expected, expected));
        }
    });
}

#[test]
fn sip_r142_big_messages_pass_over_sockets_of_the_system_both_ways() {
    run(async || {
        let kit = SipKit::start(SipKitOptions::default());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let to = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(kit.address(1)).await.unwrap();
        let request = options("big", &"b".repeat(60_000));
        client.write_all(&request).await.unwrap();
        let arrival = kit.next(0).await;
        assert_eq!(arrival.bytes, request);
        assert_eq!(arrival.received.source, client.local_addr().unwrap());
        let sent = kit.transports.send(&kit.way(1, to), arrival.bytes);
        let (result, accepted) = tokio::join!(later(sent), listener.accept());
        assert_eq!(result, Ok(()));
        let (mut server, from) = accepted.unwrap();
        assert_eq!(from.ip(), kit.address(1).ip());
        let mut forwarded = vec![0; request.len()];
        server.read_exact(&mut forwarded).await.unwrap();
        assert_eq!(forwarded, request);
        let way = Way { connection: arrival.received.connection, ..kit.way(1, to) };
        let reply = options("reply", &"r".repeat(50_000));
        assert!(matches!(kit.transports.send(&way, reply.clone()), Sent::Done));
        let mut replied = vec![0; reply.len()];
        client.read_exact(&mut replied).await.unwrap();
        assert_eq!(replied, reply);
    });
}

#[test]
fn sip_r154_a_closed_port_refuses_within_a_second() {
    run(async || {
        let kit = SipKit::start(SipKitOptions::default());
        let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap();
        let begun = tokio::time::Instant::now();
        let sent = kit.transports.send(&kit.way(1, closed), "x".into());
        let result = match sent {
            Sent::Later(result) => result.await,
            sent => failed(sent).map_or(Ok(()), Err),
        };
        assert_eq!(result, Err(SendError::Refused));
        assert!(begun.elapsed() < Duration::from_secs(1));
    });
}
