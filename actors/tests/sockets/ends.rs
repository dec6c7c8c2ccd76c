//! The end of a socket (4.3, 4.5, Z-24).

use std::time::{Duration, Instant};

use futures_util::FutureExt;
use lineway_actors::metrics::ActorKind;
use lineway_actors::socket::RequestError;
use lineway_actors::wire::zmp::outcome::Errno;

use crate::house::{LONG, LOOPBACK, SHORT, from, id, peers, run, until};
use crate::raw::Raw;

#[test]
fn dealer_d_n6_d_w7_closing_ends_every_call_that_waits() {
    run(async |house| {
        let dealer = house.dealer("D1");
        let token = dealer.try_send("x", 0).unwrap_err().token().unwrap();
        let other = dealer.clone();
        let waits = async {
            let all = tokio::join!(
                dealer.send("a"),
                dealer.request("b", None),
                dealer.writable(token),
                dealer.send("c")
            );
            let sent = [all.0.unwrap_err(), all.3.unwrap_err()];
            assert!(sent.iter().all(|e| (e.number(), e.errno()) == (4, Errno::ESHUTDOWN)));
            let RequestError::NotSent(error) = all.1.unwrap_err() else { panic!("it was sent") };
            assert_eq!((error.number(), error.errno()), (4, Errno::ESHUTDOWN));
            let error = all.2.unwrap_err();
            assert_eq!((error.result.number(), error.errno), (4, Errno::ESHUTDOWN));
        };
        let ((), closed) = tokio::join!(waits, other.close());
        closed.unwrap();
        let error = dealer.close().await.unwrap_err();
        assert_eq!((error.result.number(), error.errno), (402, Errno::ESHUTDOWN));
        let error = dealer.try_send("x", 0).unwrap_err();
        assert_eq!((error.number(), error.errno(), error.token()), (4, Errno::ESHUTDOWN, None));
        let error = dealer.bind(LOOPBACK).await.unwrap_err();
        assert_eq!((error.result.number(), error.errno), (504, Errno::ESHUTDOWN));
        let error = dealer.connect("inproc://x").await.unwrap_err();
        assert_eq!((error.result.number(), error.errno), (603, Errno::ESHUTDOWN));
        until("its actor is over", || house.alive(ActorKind::DealerSocket) == 0).await;
    });
}

#[test]
fn dealer_d_r4_a_request_that_waits_for_its_reply_ends_with_its_socket() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        let (asked, ()) = tokio::join!(dealer.request("q", Some(LONG)), async {
            let token = router.recv().await.unwrap().reply.unwrap();
            dealer.close().await.unwrap();
            drop(token);
        });
        let error = asked.unwrap_err();
        assert_eq!((error.number(), error.errno()), (103, Errno::ESHUTDOWN));
    });
}

#[test]
fn case_z24_a_close_waits_for_a_slow_reader_and_no_longer() {
    run(async |house| {
        let router = house.router_with("R1", |options| options.linger = Some(LONG));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let mut raw = Raw::dealer(&endpoint, "D1").await;
        peers(&router, 1).await;
        let large: Vec<u8> = (0..4_u32 << 20).map(|n| (n % 251) as u8).collect();
        router.send(&id("D1"), large.clone()).await.unwrap();
        let mut closing = Box::pin(router.close());
        tokio::time::timeout(SHORT, &mut closing).await.expect_err("it is not read yet");
        let begin = Instant::now();
        let (closed, frames) = tokio::join!(closing, raw.rest());
        closed.unwrap();
        assert!(begin.elapsed() < LONG / 2, "not at its limit");
        assert_eq!(frames.len(), 1);
        assert!(frames[0].body == large);
    });
}

#[test]
fn case_z24_a_dropped_handle_still_delivers_what_was_sent() {
    run(async |house| {
        let router = house.router("R1");
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        for _ in 0..50 {
            let dealer = house.dealer("D1");
            dealer.connect(&endpoint).await.unwrap();
            peers(&dealer, 1).await;
            for number in 0..100_u32 {
                dealer.send(number.to_be_bytes().to_vec()).await.unwrap();
            }
            dealer.send(vec![7; 300_000]).await.unwrap();
            drop(dealer);
            for number in 0..100_u32 {
                let record = router.recv().await.unwrap().record;
                assert_eq!(record.parts()[0], number.to_be_bytes()[..]);
            }
            assert_eq!(router.recv().await.unwrap().record.payload(), 300_000);
            peers(&router, 0).await;
        }
    });
}

#[test]
fn option_4_3_linger_limits_a_close_and_0_drops_what_is_queued() {
    run(async |house| {
        for linger in [Duration::ZERO, SHORT] {
            let router = house.router_with("R1", |options| options.linger = Some(linger));
            let endpoint = router.bind(LOOPBACK).await.unwrap();
            let _raw = Raw::dealer(&endpoint, "D1").await;
            peers(&router, 1).await;
            router.send(&id("D1"), vec![0; 16 << 20]).await.unwrap();
            let begin = Instant::now();
            router.close().await.unwrap();
            assert!(begin.elapsed() >= linger);
            assert!(begin.elapsed() < LONG / 2);
        }
    });
}

#[test]
fn socket_a_close_that_nobody_waits_for_goes_on() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        dealer.send("x").await.unwrap();
        assert!(dealer.close().now_or_never().is_none());
        assert_eq!(from(&router.recv().await.unwrap()).1, "x");
        until("it is over", || house.alive(ActorKind::DealerSocket) == 0).await;
        assert!(dealer.is_closed());
    });
}
