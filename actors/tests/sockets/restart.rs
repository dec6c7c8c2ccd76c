//! Peers that leave and come back (Z-10, Z-21).

use std::time::{Duration, Instant};

use lineway_actors::metrics::ActorKind;
use lineway_actors::wire::zmp::outcome::Errno;

use crate::house::{LOOPBACK, from, id, peers, run, text, until};

#[test]
fn case_z10_a_worker_that_left_gets_no_turn_and_one_that_is_back_every_second() {
    run(async |house| {
        let dealer = house.dealer("D1");
        let (one, two) = (house.router("W1"), house.router("W2"));
        let first = one.bind(LOOPBACK).await.unwrap();
        let second = two.bind(LOOPBACK).await.unwrap();
        dealer.connect(&first).await.unwrap();
        dealer.connect(&second).await.unwrap();
        peers(&dealer, 2).await;
        for number in 0..10 {
            dealer.send(format!("{number}")).await.unwrap();
        }
        for worker in [&one, &two] {
            for _ in 0..5 {
                worker.recv().await.unwrap();
            }
            assert_eq!(worker.try_recv().unwrap_err().errno, Errno::EAGAIN);
        }
        one.close().await.unwrap();
        peers(&dealer, 1).await;
        for number in 0..10 {
            dealer.send(format!("{number}")).await.unwrap();
        }
        for number in 0..10 {
            assert_eq!(from(&two.recv().await.unwrap()).1, format!("{number}"));
        }
        let one = house.router("W1");
        one.bind(&first).await.unwrap();
        peers(&dealer, 2).await;
        for number in 0..10 {
            dealer.send(format!("{number}")).await.unwrap();
        }
        for worker in [&one, &two] {
            for _ in 0..5 {
                worker.recv().await.unwrap();
            }
        }
    });
}

#[test]
fn case_z21_the_route_of_a_connecting_router_follows_the_id_of_each_connection() {
    run(async |house| {
        let router = house.router("A");
        let before = house.router("B1");
        let endpoint = before.bind(LOOPBACK).await.unwrap();
        router.connect(&endpoint).await.unwrap();
        peers(&router, 1).await;
        router.send(&id("B1"), "x").await.unwrap();
        assert_eq!(from(&before.recv().await.unwrap()).1, "x");
        before.close().await.unwrap();
        let after = house.router("B2");
        after.bind(&endpoint).await.unwrap();
        until("the new id is there", || {
            router.peers().iter().any(|peer| peer.ready && peer.routing_id == *"B2")
        })
        .await;
        router.send(&id("B2"), "y").await.unwrap();
        assert_eq!(from(&after.recv().await.unwrap()).1, "y");
        let error = router.try_send(&id("B1"), "z", 0).unwrap_err();
        assert_eq!((error.number(), error.errno()), (2, Errno::EHOSTUNREACH));
    });
}

#[test]
fn case_z21_disconnecting_and_connecting_at_once_works_every_time() {
    run(async |house| {
        let (router, other) = (house.router("A"), house.router("B"));
        let endpoint = other.bind(LOOPBACK).await.unwrap();
        for round in 0..100 {
            router.connect(&endpoint).await.unwrap();
            let begin = Instant::now();
            until("the route is there", || {
                router.peers().iter().any(|peer| peer.ready && !peer.standby)
            })
            .await;
            router.send(&id("B"), format!("{round}")).await.unwrap();
            assert_eq!(from(&other.recv().await.unwrap()).1, format!("{round}"));
            assert!(begin.elapsed() < Duration::from_secs(5), "round {round}");
            router.disconnect(&endpoint).await.unwrap();
        }
        until("nothing is left", || house.alive(ActorKind::PeerConnection) == 0).await;
    });
}

#[test]
fn router_1_5_both_lanes_of_a_link_are_opened_again_when_one_drops() {
    run(async |house| {
        let (router, other) = (house.router("A"), house.router("B"));
        let endpoint = other.bind(LOOPBACK).await.unwrap();
        router.connect(&endpoint).await.unwrap();
        for round in 0..5 {
            peers(&router, 1).await;
            peers(&other, 1).await;
            assert_eq!(house.alive(ActorKind::PeerConnection), 4);
            let opened = router.counters().peers_opened;
            let to = id("B");
            let reply = router.request(&to, format!("{round}"), None);
            let (reply, ()) = tokio::join!(reply, async {
                other.recv().await.unwrap().reply.unwrap().reply("a").await.unwrap();
            });
            assert_eq!(text(&reply.unwrap()), ["a"]);
            other.disconnect_rid(&id("A")).unwrap();
            until("it is there again", || router.counters().peers_opened > opened).await;
        }
    });
}

#[test]
fn socket_a_thousand_peers_that_come_and_go_leave_nothing() {
    run(async |house| {
        let router = house.router("R1");
        let endpoint = router.bind("inproc://r").await.unwrap();
        for round in 0..10 {
            let mut dealers = Vec::new();
            for number in 0..100 {
                let dealer = house.dealer(&format!("{round}.{number}"));
                dealer.connect(&endpoint).await.unwrap();
                dealer.send("here").await.unwrap();
                dealers.push(dealer);
            }
            for _ in 0..100 {
                router.recv().await.unwrap();
            }
            drop(dealers);
        }
        peers(&router, 0).await;
        until("every actor is over", || {
            house.alive(ActorKind::PeerConnection) + house.alive(ActorKind::DealerSocket) == 0
        })
        .await;
        assert_eq!(house.env.total.used(), 0);
        let status = router.status();
        assert_eq!((status.send.pending_msgs, status.receive.pending_msgs), (0, 0));
    });
}
