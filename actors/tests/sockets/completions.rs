//! Requests and how they end, through the handle (2.5).

use std::time::{Duration, Instant};

use lineway_actors::socket::RequestError;
use lineway_actors::testkit::zmp::{REPLY, ROUTER, frame, hello, ready};
use lineway_actors::wire::zmp::core::Outcome;
use lineway_actors::wire::zmp::outcome::{Errno, RequestResult};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::house::{LONG, LOOPBACK, SHORT, peers, run, text};

#[test]
fn dealer_d_r2_a_request_without_a_timeout_of_its_own_has_that_of_the_socket() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        assert_eq!(dealer.options().request_timeout, Duration::from_secs(5));
        dealer.set_request_timeout(SHORT).unwrap();
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        let begin = Instant::now();
        let error = dealer.request("q", None).await.unwrap_err();
        assert!(begin.elapsed() >= SHORT);
        assert_eq!((error.number(), error.errno()), (101, Errno::ETIMEDOUT));
        let RequestError::Failed { result: RequestResult::TimedOut, parts: None, .. } = error
        else {
            panic!("{error:?}")
        };
        // Its late reply is dropped in silence.
        let request = router.recv().await.unwrap();
        request.reply.unwrap().reply("late").await.unwrap();
        let asked = dealer.request("r", Some(LONG));
        let (reply, ()) = tokio::join!(asked, async {
            router.recv().await.unwrap().reply.unwrap().reply("right").await.unwrap();
        });
        assert_eq!(text(&reply.unwrap()), ["right"]);
        assert_eq!(dealer.counters().replies_late, 1);
    });
}

#[test]
fn dealer_d_r3_a_request_ends_with_its_connection_and_is_not_sent_again() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        let id = dealer.try_request("q", Some(LONG), 5).unwrap();
        let request = router.recv().await.unwrap();
        router.disconnect_rid(&request.from).unwrap();
        let completion = dealer.next_completion().await.unwrap();
        assert_eq!((completion.id, completion.context), (id, 5));
        let Outcome::Request { result, errno, parts: None } = completion.outcome else {
            panic!("{completion:?}")
        };
        assert_eq!((result.number(), errno), (109, Errno::EHOSTUNREACH));
        // The id was removed, and with it the reply that was owed (R-P3).
        let error = request.reply.unwrap().reply("a").await.unwrap_err();
        assert_eq!((error.number(), error.errno()), (3, Errno::ENOENT));
        assert!(error.token.is_none());
        dealer.send("again").await.unwrap();
        assert_eq!(text(&router.recv().await.unwrap().record), ["again"]);
    });
}

#[test]
fn dealer_d_r4_disconnecting_the_endpoint_ends_its_requests_not_found() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        let asked = dealer.request("q", Some(LONG));
        let (asked, ()) = tokio::join!(asked, async {
            router.recv().await.unwrap();
            dealer.disconnect(&endpoint).await.unwrap();
        });
        let error = asked.unwrap_err();
        assert_eq!((error.number(), error.errno()), (102, Errno::ENOENT));
        let error = dealer.disconnect(&endpoint).await.unwrap_err();
        assert_eq!((error.result.number(), error.errno), (605, Errno::ENOENT));
    });
}

#[test]
fn dealer_d_r4_an_error_reply_comes_with_its_mapped_result_and_parts() {
    run(async |house| {
        let dealer = house.dealer("D1");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        dealer.connect(&format!("tcp://{address}")).await.unwrap();
        let (mut router, _) = listener.accept().await.unwrap();
        router.write_all(&hello(ROUTER, b"R1")).await.unwrap();
        router.write_all(&ready(ROUTER, b"R1", 1, 0)).await.unwrap();
        peers(&dealer, 1).await;
        let answers = async {
            let errno = 16_u32.to_be_bytes();
            let mut bytes = frame(1, 3, 1, &errno);
            bytes.extend(frame(0, 0, 0, b"busy now"));
            // Without an errno it is malformed.
            bytes.extend(frame(0, 3, 2, b""));
            bytes.extend(frame(0, REPLY, 3, b"fine"));
            tokio::time::sleep(SHORT).await;
            router.write_all(&bytes).await.unwrap();
        };
        let (first, second, third, ()) = tokio::join!(
            dealer.request("1", None),
            dealer.request("2", None),
            dealer.request("3", None),
            answers
        );
        let error = first.unwrap_err();
        assert_eq!((error.number(), error.errno()), (108, Errno::EBUSY));
        let RequestError::Failed { parts: Some(parts), .. } = error else { panic!("{error:?}") };
        assert_eq!(text(&parts), ["busy now"]);
        let error = second.unwrap_err();
        assert_eq!((error.number(), error.errno()), (104, Errno::EPROTO));
        assert_eq!(text(&third.unwrap()), ["fine"]);
    });
}

#[test]
fn dealer_d_r1_every_request_that_was_taken_ends_once_whatever_its_peer_does() {
    run(async |house| {
        let dealer = house.dealer_with("D1", |options| options.core.send_hwm = 10_000);
        let router = house.router("R1");
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        let mut open = std::collections::HashSet::new();
        for round in 0..60_u32 {
            for number in 0..20 {
                let timeout = if number % 5 == 0 { Duration::from_millis(5) } else { LONG };
                if let Ok(id) = dealer.try_request("q", Some(timeout), 0) {
                    assert!(open.insert(id));
                }
            }
            tokio::task::yield_now().await;
            while let Ok(request) = router.try_recv() {
                let reply = request.reply.unwrap();
                match (round + reply.id().0.get() as u32) % 4 {
                    0 => drop(reply),
                    1 => drop(router.disconnect_rid(&request.from)),
                    _ => drop(reply.try_reply("a")),
                }
            }
            while let Ok(completion) = dealer.try_completion() {
                if let Outcome::Request { .. } = completion.outcome {
                    assert!(open.remove(&completion.id), "it has ended before");
                }
            }
        }
        router.close().await.unwrap();
        while !open.is_empty() {
            let completion = dealer.next_completion().await.unwrap();
            if let Outcome::Request { .. } = completion.outcome {
                assert!(open.remove(&completion.id), "it has ended before");
            }
        }
    });
}
