//! Whether a record is taken: NONE and DONTWAIT (2.3, 3.2), and what a caller gets back.

use std::time::Instant;

use futures_util::FutureExt;
use lineway_actors::socket::RequestError;
use lineway_actors::testkit::zmp::data;
use lineway_actors::wire::zmp::Record;
use lineway_actors::wire::zmp::core::Outcome;
use lineway_actors::wire::zmp::outcome::{Errno, SubmitResult};
use lineway_actors::wire::zmp::status::{Drop, RecordKind};

use crate::house::{LONG, LOOPBACK, SHORT, from, id, peers, run, text, until};
use crate::raw::Raw;

#[test]
fn dealer_d_n1_d_n3_a_send_without_a_peer_waits_its_time_and_gives_the_record_back() {
    run(async |house| {
        let dealer = house.dealer_with("D1", |options| options.send_timeout = Some(SHORT));
        let begin = Instant::now();
        let record = Record::from_parts(["a".into(), "b".into()]).unwrap();
        let error = dealer.send(record).await.unwrap_err();
        assert!(begin.elapsed() >= SHORT);
        assert_eq!((error.number(), error.errno()), (1, Errno::EAGAIN));
        assert_eq!(error.token(), None);
        assert_eq!(text(error.record()), ["a", "b"]);
        dealer.set_send_timeout(Some(std::time::Duration::ZERO)).unwrap();
        let error = dealer.send("c").now_or_never().expect("0 is at once").unwrap_err();
        assert_eq!(error.result(), SubmitResult::Backpressured);
    });
}

#[test]
fn dealer_d_n1_a_send_waits_for_the_first_peer() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let connects = async {
            let endpoint = router.bind(LOOPBACK).await.unwrap();
            dealer.connect(&endpoint).await.unwrap();
            from(&router.recv().await.unwrap())
        };
        let (sent, got) = tokio::join!(dealer.send("early"), connects);
        sent.unwrap();
        assert_eq!(got, ("D1".into(), "early".into()));
    });
}

#[test]
fn dealer_d_n4_a_request_without_a_router_is_not_connected_and_with_weight_0_not_admitted() {
    run(async |house| {
        let dealer = house.dealer_with("D1", |options| options.send_timeout = Some(SHORT));
        let error = dealer.request("q", None).await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (2, Errno::ENOTCONN));
        let RequestError::NotSent(error) = error else { panic!("it was sent") };
        assert_eq!(text(&error.into_record()), ["q"]);

        let router = house.router("R1");
        router.set_weight(0).unwrap();
        let endpoint = router.bind("inproc://r").await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        until("the weight is known", || {
            dealer.peers().first().is_some_and(|peer| peer.ready && peer.weight.get() == 0)
        })
        .await;
        let error = dealer.request("q", None).await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (13, Errno::ECONNREFUSED));
    });
}

#[test]
fn dealer_d_d2_d_w3_a_refused_record_has_a_token_and_its_writable_record_the_context() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let refused = dealer.try_send("one", 41).unwrap_err();
        assert_eq!((refused.number(), refused.errno()), (1, Errno::EAGAIN));
        let token = refused.token().unwrap();
        let asked = dealer.try_request("two", None, 42).unwrap_err();
        assert_eq!((asked.number(), asked.errno()), (1, Errno::EAGAIN));
        let other = asked.token().unwrap();
        assert!(other.0 > token.0, "ids are never used again");

        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        for (token, context) in [(token, 41), (other, 42)] {
            let completion = dealer.next_completion().await.unwrap();
            assert_eq!((completion.id, completion.context), (token, context));
            assert_eq!((completion.outcome, completion.peer), (Outcome::Writable, None));
        }
        assert_eq!(dealer.try_completion().unwrap_err().errno, Errno::EAGAIN);
        dealer.try_send(refused.into_record(), 41).unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).1, "one");
    });
}

#[test]
fn dealer_d_w6_a_token_whose_target_is_removed_ends_with_enoent() {
    run(async |house| {
        let dealer = house.dealer("D1");
        dealer.connect("inproc://nobody").await.unwrap();
        let token = dealer.try_send("one", 0).unwrap_err().token().unwrap();
        let (writable, disconnected) =
            tokio::join!(dealer.writable(token), dealer.disconnect("inproc://nobody"));
        disconnected.unwrap();
        let error = writable.unwrap_err();
        assert_eq!((error.result.number(), error.errno), (3, Errno::ENOENT));
        let error = dealer.writable(token).await.unwrap_err();
        assert_eq!(error.errno, Errno::ENOENT, "a token is waited for once");
    });
}

#[test]
fn dealer_d_a1_a_dropped_send_has_sent_nothing_and_leaves_no_trace() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        for _ in 0..100 {
            assert!(dealer.send("dropped").now_or_never().is_none());
        }
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        dealer.send("kept").await.unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).1, "kept");
        assert_eq!(dealer.counters().sent.records[RecordKind::Data], 1);
    });
}

#[test]
fn dealer_d_r1_a_dropped_request_gives_up_its_reply_and_its_reservation() {
    run(async |house| {
        let dealer = house.dealer_with("D1", |options| options.core.reservations = 1);
        let router = house.router("R1");
        let endpoint = router.bind("inproc://r").await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        for round in 0..3 {
            let asked = dealer.request(format!("{round}"), None).now_or_never();
            assert!(asked.is_none(), "it was sent, and waits");
            let request = router.recv().await.unwrap();
            assert_eq!(text(&request.record), [format!("{round}")]);
            request.reply.unwrap().reply("late").await.unwrap();
            // Until the request ends, its reservation is held.
            until("it has ended", || dealer.counters().completions.total() == round + 1).await;
        }
        let (reply, ()) = tokio::join!(dealer.request("last", Some(LONG)), async {
            let request = router.recv().await.unwrap();
            request.reply.unwrap().reply("right").await.unwrap();
        });
        assert_eq!(text(&reply.unwrap()), ["right"]);
        assert_eq!(dealer.try_completion().unwrap_err().errno, Errno::EAGAIN);
    });
}

#[test]
fn dealer_d_s2_a_record_that_no_peer_takes_for_its_size_is_refused() {
    run(async |house| {
        let router = house.router_with("R1", |options| options.core.max_message_size = 100);
        let dealer = house.dealer("D1");
        let endpoint = router.bind("inproc://r").await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        let error = dealer.send(vec![0; 101]).await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (6, Errno::EMSGSIZE));
        dealer.send(vec![0; 100]).await.unwrap();
        assert_eq!(router.recv().await.unwrap().record.payload(), 100);
    });
}

#[test]
fn case_z04_a_mandatory_send_that_waits_ends_when_its_peer_leaves() {
    run(async |house| {
        let router = house.router_with("R1", |options| {
            options.core.send_hwm = 10 * 1088;
            options.send_timeout = None;
        });
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let stuck = Raw::dealer(&endpoint, "D1").await;
        let good = house.dealer("D2");
        good.connect(&endpoint).await.unwrap();
        peers(&router, 2).await;
        let payload = vec![7; 1024];
        let refused = loop {
            match router.try_send(&id("D1"), payload.clone(), 0) {
                // The connection takes what it can write.
                Ok(()) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        };
        assert_eq!((refused.number(), refused.errno()), (1, Errno::EAGAIN));
        let to = id("D1");
        let blocked = loop {
            let mut send = Box::pin(router.send(&to, payload.clone()));
            match send.as_mut().now_or_never() {
                None => break send,
                // Room had come since.
                Some(sent) => sent.unwrap(),
            }
            tokio::task::yield_now().await;
        };
        router.send(&id("D2"), "another").await.unwrap();
        assert_eq!(text(&good.recv().await.unwrap()), ["another"]);

        let begin = Instant::now();
        drop(stuck);
        let error = blocked.await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (2, Errno::EHOSTUNREACH));
        assert!(begin.elapsed() < LONG / 2);
        assert_eq!(error.record().payload(), 1024);
    });
}

#[test]
fn case_z05_what_a_router_drops_is_counted_by_reason() {
    run(async |house| {
        let router = house.router_with("R1", |options| {
            options.core.mandatory = false;
            options.core.send_hwm = 37 * 1088;
        });
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        for _ in 0..100 {
            router.try_send(&id("NOPE"), "x", 0).unwrap();
        }
        assert_eq!(router.counters().dropped[Drop::NoRoute], 100);
        let mut raw = Raw::dealer(&endpoint, "D1").await;
        peers(&router, 1).await;
        // Until the kernel takes nothing any more, every record leaves the queue.
        let mut sent = 0_u64;
        while router.counters().dropped[Drop::Hwm] < 100 {
            router.try_send(&id("D1"), vec![0; 1024], 0).unwrap();
            sent += 1;
            tokio::task::yield_now().await;
        }
        let dropped = router.counters().dropped[Drop::Hwm];
        // The rest is written while it is read.
        let mut got = 0;
        while got < sent - dropped {
            got += raw.frames(1).await.len() as u64;
        }
        assert_eq!(got + dropped, sent);
        raw.send(&data(&[b"still there"])).await;
        assert_eq!(from(&router.recv().await.unwrap()).1, "still there");
        assert_eq!(router.counters().dropped[Drop::Hwm], dropped);
    });
}

#[test]
fn router_r_q1_a_request_to_a_dealer_is_not_admitted_and_to_nobody_not_found() {
    run(async |house| {
        let (router, dealer) = (house.router("R1"), house.dealer("D1"));
        let endpoint = router.bind("inproc://r").await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&router, 1).await;
        let error = router.request(&id("D1"), "q", None).await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (13, Errno::EPROTOTYPE));
        let error = router.request(&id("NOPE"), "q", None).await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (3, Errno::ENOENT));
        let error = router.try_request(&id("NOPE"), "q", None, 0).unwrap_err();
        assert_eq!((error.number(), error.errno()), (2, Errno::EHOSTUNREACH));
        assert_eq!(error.token(), None);
        router.send(&id("D1"), "data").await.unwrap();
        assert_eq!(text(&dealer.recv().await.unwrap()), ["data"]);
    });
}

#[test]
fn router_r_s3_disconnect_rid_ends_the_tokens_and_the_link_of_an_id() {
    run(async |house| {
        let (router, dealer) = (house.router("R1"), house.dealer("D1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&router, 1).await;
        dealer.set_receive_flow_state(lineway_actors::wire::zmp::core::FlowState::Paused).unwrap();
        until("the pause is there", || router.peers().iter().any(|peer| peer.paused)).await;
        let refused = router.try_send(&id("D1"), "x", 9).unwrap_err();
        router.disconnect_rid(&id("D1")).unwrap();
        let completion = router.next_completion().await.unwrap();
        assert_eq!((Some(completion.id), completion.context), (refused.token(), 9));
        assert_eq!((completion.outcome, completion.peer), (Outcome::Removed, Some(id("D1"))));
        let error = router.disconnect_rid(&id("NOPE")).unwrap_err();
        assert_eq!((error.result.number(), error.errno), (706, Errno::ENOENT));
    });
}
