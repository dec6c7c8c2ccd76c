//! Many records, and limits that are very small (Z-07, Z-25).

use std::time::Duration;

use futures_util::FutureExt;
use lineway_actors::wire::zmp::Record;
use lineway_actors::wire::zmp::outcome::SubmitResult;
use lineway_actors::wire::zmp::status::Drop;

use crate::house::{House, LOOPBACK, id, peers, run, text, until};

const BURST: u32 = 10_000;

/// Sends a burst to `D1` and gives what arrives, once everything sent has arrived or was dropped.
async fn burst(house: &House, hwm: u64, mandatory: bool) -> Vec<u32> {
    let router = house.router_with("R1", |options| {
        options.core.send_hwm = hwm;
        options.core.mandatory = mandatory;
    });
    let dealer = house.dealer("D1");
    let endpoint = router.bind(LOOPBACK).await.unwrap();
    dealer.connect(&endpoint).await.unwrap();
    peers(&router, 1).await;
    let sends = async {
        for number in 0..BURST {
            let record = number.to_be_bytes().to_vec();
            if mandatory {
                router.send(&id("D1"), record).await.unwrap();
            } else {
                router.try_send(&id("D1"), record, 0).unwrap();
            }
        }
        u64::from(BURST) - router.counters().dropped[Drop::Hwm]
    };
    let mut got = Vec::new();
    let take = |record: Record| u32::from_be_bytes(record.parts()[0].as_ref().try_into().unwrap());
    let mut sends = std::pin::pin!(sends);
    let expected = loop {
        tokio::select! {
            biased;
            expected = &mut sends => break expected,
            record = dealer.recv() => got.push(take(record.unwrap())),
        }
    };
    while (got.len() as u64) < expected {
        got.push(take(dealer.recv().await.unwrap()));
    }
    assert!(dealer.recv().now_or_never().is_none());
    got
}

#[test]
fn case_z07_a_burst_arrives_whole_or_what_is_missing_is_counted() {
    run(async |house| {
        let all: Vec<u32> = (0..BURST).collect();
        assert_eq!(burst(&house, 4_096_000, true).await, all);
        assert_eq!(burst(&house, 1000 * 68, true).await, all);
        let some = burst(&house, 1000 * 68, false).await;
        assert!(!some.is_empty());
        assert!(some.is_sorted(), "in order");
    });
}

#[test]
fn case_z25_a_limit_of_one_byte_holds_back_only_the_second_unread_record() {
    run(async |house| {
        let small = |options: &mut lineway_actors::socket::SocketOptions| {
            options.core.send_hwm = 1;
            options.core.receive_hwm = 1;
        };
        let (router, dealer) = (house.router_with("R1", small), house.dealer_with("D1", small));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        for parts in [1, 3] {
            for number in 0..100 {
                let question = Record::from_parts(
                    (0..parts).map(|part| bytes::Bytes::from(format!("{number}.{part}"))),
                );
                let (reply, ()) =
                    tokio::join!(dealer.request(question.clone().unwrap(), None), async {
                        let request = router.recv().await.unwrap();
                        request.reply.unwrap().reply(request.record).await.unwrap();
                    });
                assert_eq!(text(&reply.unwrap()), text(&question.unwrap()));
            }
        }
        // Those that the kernel's buffers and both ends hold, and not one more.
        dealer.set_send_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut sent = 0;
        let error = loop {
            match dealer.send(vec![0; 1 << 20]).await {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.result(), SubmitResult::Backpressured);
        assert!(sent < 20, "{sent}");
        for _ in 0..sent {
            router.recv().await.unwrap();
        }
        until("there is room", || dealer.readiness().output).await;
    });
}
