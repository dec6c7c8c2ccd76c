//! Replies that are owed (3.5), and receiving (2.7, 3.4).

use std::time::Instant;

use bytes::Bytes;
use lineway_actors::wire::zmp::core::FlowState;
use lineway_actors::wire::zmp::outcome::Errno;
use lineway_actors::wire::zmp::{Record, SocketKind};

use crate::house::{LONG, LOOPBACK, SHORT, from, id, peers, run, text, until};

#[test]
fn router_r_p2_r_p3_a_reply_that_finds_no_room_gives_its_token_back() {
    run(async |house| {
        let router = house.router_with("R1", |options| options.send_timeout = Some(SHORT));
        let dealer = house.dealer("D1");
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        let asked = dealer.request("q", Some(LONG));
        let (reply, ()) = tokio::join!(asked, async {
            let token = router.recv().await.unwrap().reply.unwrap();
            dealer.set_receive_flow_state(FlowState::Paused).unwrap();
            until("the pause is there", || router.peers().iter().any(|peer| peer.paused)).await;
            let error = token.try_reply("a").unwrap_err();
            assert_eq!((error.number(), error.errno()), (1, Errno::EAGAIN));
            assert_eq!(text(&error.record), ["a"]);
            let begin = Instant::now();
            let error = error.token.unwrap().reply(error.record).await.unwrap_err();
            assert!(begin.elapsed() >= SHORT);
            assert_eq!((error.number(), error.errno()), (1, Errno::EAGAIN));
            router.set_send_timeout(Some(LONG)).unwrap();
            let (replied, resumed) = tokio::join!(error.token.unwrap().reply("b"), async {
                dealer.set_receive_flow_state(FlowState::Running)
            });
            replied.unwrap();
            resumed.unwrap();
        });
        assert_eq!(text(&reply.unwrap()), ["b"]);
        assert_eq!(router.counters().replies_abandoned, 0);
    });
}

#[test]
fn router_x_2_a_dropped_token_is_counted_and_frees_its_slot() {
    run(async |house| {
        let router = house.router_with("R1", |options| options.core.reply_tokens = 1);
        let dealer = house.dealer("D1");
        let endpoint = router.bind("inproc://r").await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        for context in 0..3 {
            dealer.try_request("q", Some(LONG), context).unwrap();
        }
        for abandoned in 1..=3 {
            drop(router.recv().await.unwrap().reply.unwrap());
            assert_eq!(router.counters().replies_abandoned, abandoned);
        }
    });
}

#[test]
fn router_r_p3_a_reply_goes_to_the_new_link_of_the_id_and_is_dropped_there() {
    run(async |house| {
        let router = house.router("R1");
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let first = house.dealer("D1");
        first.connect(&endpoint).await.unwrap();
        peers(&first, 1).await;
        first.try_request("q", Some(LONG), 0).unwrap();
        let token = router.recv().await.unwrap().reply.unwrap();
        first.close().await.unwrap();
        peers(&router, 0).await;
        let second = house.dealer("D1");
        second.connect(&endpoint).await.unwrap();
        // It waits for the link.
        token.reply("for the first").await.unwrap();
        until("it came", || second.counters().replies_late == 1).await;
        assert_eq!(second.try_completion().unwrap_err().errno, Errno::EAGAIN);
    });
}

#[test]
fn router_r_q2_routers_ask_each_other_over_two_lanes() {
    run(async |house| {
        let (asker, answerer) = (house.router("A"), house.router("B"));
        let endpoint = answerer.bind(LOOPBACK).await.unwrap();
        asker.connect(&endpoint).await.unwrap();
        peers(&asker, 1).await;
        let to = id("B");
        let asked = asker.request(&to, "q", Some(LONG));
        let (reply, ()) = tokio::join!(asked, async {
            let request = answerer.recv().await.unwrap();
            assert_eq!(request.from, id("A"));
            request.reply.unwrap().reply("a").await.unwrap();
        });
        assert_eq!(text(&reply.unwrap()), ["a"]);
        asker.send(&id("B"), "data").await.unwrap();
        assert_eq!(from(&answerer.recv().await.unwrap()), ("A".into(), "data".into()));
        assert_eq!(answerer.peers()[0].kind, SocketKind::Router);
    });
}

#[test]
fn dealer_d_v3_d_a4_too_few_slots_leave_the_record_and_the_slots_as_they_are() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&router, 1).await;
        let record = || Record::from_parts(["a", "", "c"].map(Bytes::from)).unwrap();
        router.send(&id("D1"), record()).await.unwrap();
        let mut slots = ["x", "y", "z", "w"].map(Bytes::from);
        let error = dealer.recv_into(&mut slots[..2]).await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (207, Errno::ENOBUFS));
        assert_eq!(error.needed, Some(3));
        assert_eq!(slots, ["x", "y", "z", "w"]);
        assert_eq!(dealer.recv_into(&mut slots).await, Ok(3));
        assert_eq!(slots, ["a", "", "c", "w"]);
        assert_eq!(dealer.try_recv().unwrap_err().errno, Errno::EAGAIN);

        dealer.send(record()).await.unwrap();
        let error = router.recv_into(&mut []).await.unwrap_err();
        assert_eq!(error.needed, Some(3));
        let (sender, count, reply) = router.recv_into(&mut slots[1..]).await.unwrap();
        assert_eq!((sender, count, reply.is_none()), (id("D1"), 3, true));
        assert_eq!(slots, ["a", "a", "", "c"]);
    });
}

#[test]
fn dealer_d_v4_a_receive_ends_after_its_time_or_with_its_socket() {
    run(async |house| {
        let dealer = house.dealer_with("D1", |options| options.receive_timeout = Some(SHORT));
        let begin = Instant::now();
        let error = dealer.recv().await.unwrap_err();
        assert!(begin.elapsed() >= SHORT);
        assert_eq!((error.result.number(), error.errno), (201, Errno::EAGAIN));
        dealer.set_receive_timeout(None).unwrap();
        let (received, completed, closed) =
            tokio::join!(dealer.recv(), dealer.next_completion(), dealer.close());
        closed.unwrap();
        for error in [received.unwrap_err(), completed.unwrap_err()] {
            assert_eq!((error.result.number(), error.errno), (208, Errno::ESHUTDOWN));
        }
    });
}
