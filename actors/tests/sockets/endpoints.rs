//! Binding, connecting, and what the monitor tells of it (4.3, 4.4, 4.6).

use std::net::TcpListener;
use std::time::{Duration, Instant};

use lineway_actors::metrics::ActorKind;
use lineway_actors::testkit::zmp::{DEALER, greeting, hello, ready};
use lineway_actors::wire::zmp::Lane;
use lineway_actors::wire::zmp::core::ConnectionId;
use lineway_actors::wire::zmp::monitor::{ALL_EVENTS, Event, EventKind, HandshakeFault};
use lineway_actors::wire::zmp::outcome::Errno;

use crate::house::{LOOPBACK, SHORT, from, id, peers, run, text, until};
use crate::raw::Raw;

#[test]
fn endpoint_4_4_binds_that_fail_say_why_with_their_numbers() {
    run(async |house| {
        let (router, other) = (house.router("R1"), house.router("R2"));
        let mut events = router.monitor(ALL_EVENTS).unwrap();
        let taken = other.bind(LOOPBACK).await.unwrap();
        assert_eq!(other.last_endpoint().as_ref(), Some(&taken));
        let cases = [
            (&*taken, 502, Errno::EADDRINUSE),
            ("wss://127.0.0.1:1", 503, Errno::EPROTONOSUPPORT),
            ("pgm://127.0.0.1:1", 503, Errno::EPROTONOSUPPORT),
            ("127.0.0.1:1", 501, Errno::EINVAL),
            ("tcp://127.0.0.1:99999", 501, Errno::EINVAL),
        ];
        for (endpoint, number, errno) in cases {
            let error = router.bind(endpoint).await.unwrap_err();
            assert_eq!((error.result.number(), error.errno), (number, errno), "{endpoint}");
            let event = events.next().await.unwrap();
            assert_eq!((event.kind, &*event.local), (EventKind::BindFailed, endpoint));
            assert_eq!(event.value, u64::try_from(errno.0).unwrap());
        }
        for (endpoint, number, errno) in
            [("ws://h:1", 602, Errno::EPROTONOSUPPORT), ("tcp://h:*", 601, Errno::EINVAL)]
        {
            let error = router.connect(endpoint).await.unwrap_err();
            assert_eq!((error.result.number(), error.errno), (number, errno), "{endpoint}");
        }
    });
}

#[test]
fn endpoint_4_4_an_address_can_be_bound_again_right_after_its_unbind() {
    run(async |house| {
        let (router, dealer) = (house.router("R1"), house.dealer("D1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        dealer.send("one").await.unwrap();
        router.recv().await.unwrap();
        for _ in 0..20 {
            router.unbind(&endpoint).await.unwrap();
            assert_eq!(router.bind(&endpoint).await.unwrap(), endpoint);
        }
        dealer.send("two").await.unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).1, "two", "its link lives on");
        let error = router.unbind("tcp://127.0.0.1:1").await.unwrap_err();
        assert_eq!((error.result.number(), error.errno), (605, Errno::ENOENT));
        router.unbind(&endpoint).await.unwrap();
        assert!(router.unbind(&endpoint).await.is_err());
        router.close().await.unwrap();
        let next = house.router("R2");
        assert_eq!(next.bind(&endpoint).await.unwrap(), endpoint);
    });
}

#[test]
fn endpoint_4_4_many_binds_and_connects_of_every_transport() {
    run(async |house| {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("ipc://{}", folder.path().join("s").display());
        let dealer = house.dealer("D1");
        // Either order.
        dealer.connect("inproc://later").await.unwrap();
        let router = house.router("R1");
        for endpoint in [LOOPBACK, "ipc://*", "inproc://later", &path] {
            let bound = router.bind(endpoint).await.unwrap();
            assert_eq!(router.last_endpoint().as_ref(), Some(&bound));
            let peer = house.dealer(&format!("of {endpoint}"));
            peer.connect(&bound).await.unwrap();
            peer.send(endpoint.to_owned()).await.unwrap();
            let (sender, sent) = from(&router.recv().await.unwrap());
            assert_eq!((sender, &*sent), (format!("of {endpoint}"), endpoint));
        }
        dealer.send("waited for its bind").await.unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).0, "D1");
        router.unbind(&path).await.unwrap();
        assert!(!folder.path().join("s").exists(), "its file goes with it");
    });
}

#[test]
fn endpoint_4_4_a_listener_of_the_system_is_taken_over() {
    run(async |house| {
        let (router, dealer) = (house.router("R1"), house.dealer("D1"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let bound = router.adopt("tcp://127.0.0.1:0", listener).await.unwrap();
        assert_eq!(*bound, *format!("tcp://{address}"));
        dealer.connect(&bound).await.unwrap();
        dealer.send("x").await.unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).1, "x");
        router.unbind("tcp://127.0.0.1:0").await.unwrap();
    });
}

#[test]
fn router_r_o2_the_peer_of_a_connect_has_the_name_that_it_was_given() {
    run(async |house| {
        let (router, dealer) = (house.router("R1"), house.dealer("D1"));
        let endpoint = dealer.bind(LOOPBACK).await.unwrap();
        router.connect_with_id(&endpoint, id("alias")).await.unwrap();
        peers(&router, 1).await;
        router.send(&id("alias"), "x").await.unwrap();
        assert_eq!(text(&dealer.recv().await.unwrap()), ["x"]);
        dealer.send("y").await.unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).0, "alias");
    });
}

/// The next event of this kind.
async fn event(events: &mut lineway_actors::socket::Monitor, kind: EventKind) -> Event {
    loop {
        let event = events.next().await.expect("the socket lives");
        if event.kind == kind {
            return event;
        }
    }
}

#[test]
fn monitor_4_6_a_link_from_its_dial_to_its_end() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let mut near = dealer.monitor(ALL_EVENTS).unwrap();
        let mut far = router.monitor(ALL_EVENTS).unwrap();
        let error = router.monitor(1).unwrap_err();
        assert_eq!((error.result.number(), error.errno), (709, Errno::EBUSY));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        peers(&router, 1).await;

        let listening = far.next().await.unwrap();
        assert_eq!((listening.kind, &listening.local), (EventKind::Listening, &endpoint));
        let accepted = far.next().await.unwrap();
        assert_eq!((accepted.kind, &accepted.local), (EventKind::Accepted, &endpoint));
        let there = far.next().await.unwrap();
        assert_eq!((there.kind, there.value, there.flags), (EventKind::ConnectionReady, 1, 1));
        assert_eq!((&*there.routing_id, there.lane), (&b"D1"[..], Lane::Application));
        assert_eq!(there.connection, accepted.connection);

        let connected = event(&mut near, EventKind::Connected).await;
        assert_eq!(connected.remote, endpoint);
        assert_eq!(connected.local, there.remote, "the two name the same connection");
        let there = event(&mut near, EventKind::ConnectionReady).await;
        assert_eq!((there.value, there.connection), (1, connected.connection));

        router.close().await.unwrap();
        let over = event(&mut near, EventKind::Disconnected).await;
        assert_eq!(over.connection, connected.connection);
        let retried = event(&mut near, EventKind::ConnectRetried).await;
        assert!((20..40).contains(&retried.value), "{retried:?}");
        // Nobody listens any more.
        event(&mut near, EventKind::Closed).await;
        event(&mut near, EventKind::ConnectRetried).await;
        let mut last = None;
        while let Some(event) = far.next().await {
            last = Some(event.kind);
        }
        assert_eq!(last, Some(EventKind::Disconnected));
    });
}

#[test]
fn monitor_4_6_a_handshake_that_fails_is_told_before_its_end() {
    run(async |house| {
        let router = house.router("R1");
        let mut events = router.monitor(ALL_EVENTS).unwrap();
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let mut bad_ready = hello(DEALER, b"D1");
        bad_ready.extend(ready(DEALER, b"D1", 2, 0));
        for (bytes, fault, code) in
            [(hello(2, b"S1"), HandshakeFault::Hello, 5), (bad_ready, HandshakeFault::Ready, 0x7f)]
        {
            let mut raw = Raw::connect(&endpoint).await;
            raw.send(&bytes).await;
            let errors: Vec<_> = raw
                .rest()
                .await
                .iter()
                .filter_map(lineway_actors::testkit::zmp::Frame::error)
                .collect();
            assert_eq!(errors, [code]);
            let failed = event(&mut events, EventKind::HandshakeFailedProtocol).await;
            assert_eq!(failed.value, fault.value());
            let over = events.next().await.unwrap();
            assert_eq!((over.kind, over.value), (EventKind::Disconnected, 3));
            assert_eq!(over.connection, failed.connection);
        }
    });
}

#[test]
fn case_z01_a_second_peer_of_one_id_is_refused_and_both_sides_know() {
    run(async |house| {
        let router = house.router("R1");
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let mut first = Raw::dealer(&endpoint, "D1").await;
        peers(&router, 1).await;
        let mut second = Raw::connect(&endpoint).await;
        second.send(&greeting(b"D1")).await;
        second.rest().await;
        until("it is counted", || router.counters().peers_rejected.total() == 1).await;
        first.send(&lineway_actors::testkit::zmp::data(&[b"one"])).await;
        assert_eq!(from(&router.recv().await.unwrap()), ("D1".into(), "one".into()));
    });
}

#[test]
fn socket_b_7_silent_connections_do_not_keep_a_good_one_away() {
    run(async |house| {
        let router = house.router_with("R1", |options| options.max_handshakes = 8);
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..50 {
            silent.push(Raw::connect(&endpoint).await);
        }
        until("the oldest gave way", || house.alive(ActorKind::PeerConnection) == 8).await;
        let dealer = house.dealer("D1");
        let begin = Instant::now();
        dealer.connect(&endpoint).await.unwrap();
        dealer.send("good").await.unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).1, "good");
        assert!(begin.elapsed() < Duration::from_secs(5));
        let mut last = silent.pop().unwrap();
        last.send(&greeting(b"D2")).await;
        last.frames(2).await;
    });
}

#[test]
fn socket_b_7_more_peers_than_may_be_are_refused() {
    run(async |house| {
        let router = house.router_with("R1", |options| options.core.max_peers = 2);
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let mut raws = Vec::new();
        for name in ["D1", "D2"] {
            raws.push(Raw::dealer(&endpoint, name).await);
        }
        peers(&router, 2).await;
        let mut refused = Raw::connect(&endpoint).await;
        refused.send(&greeting(b"D3")).await;
        refused.rest().await;
        raws.pop();
        peers(&router, 1).await;
        Raw::dealer(&endpoint, "D3").await;
    });
}

#[test]
fn option_4_3_a_dial_gives_up_after_its_time() {
    run(async |house| {
        let dealer = house.dealer_with("D1", |options| options.connect_timeout = Some(SHORT));
        let mut events = dealer.monitor(ALL_EVENTS).unwrap();
        // A backlog that is full lets a SYN wait.
        let listener =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let _first = std::net::TcpStream::connect(address).unwrap();
        let begin = Instant::now();
        dealer.connect(&format!("tcp://{address}")).await.unwrap();
        event(&mut events, EventKind::ConnectDelayed).await;
        event(&mut events, EventKind::ConnectRetried).await;
        assert!(begin.elapsed() >= SHORT);
        assert!(events.try_next().is_none_or(|event| event.connection != Some(ConnectionId(1))));
    });
}
