use std::time::Duration;

use lineway_wire::zmp::core::Outcome;
use lineway_wire::zmp::outcome::RequestResult;
use lineway_wire::zmp::{Record, SocketKind};

use crate::socket::broker::tests::{env, options, peers, run, until};
use crate::socket::{Dealer, Router};

fn parts(parts: &[&'static str]) -> Record {
    Record::from_parts(parts.iter().map(|part| (*part).into())).expect("a part")
}

#[test]
fn echo_answers_requests_and_data_over_tcp() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let env = env();
        let router = Router::start(options(SocketKind::Router, "r"), &env);
        let endpoint = router.bind("tcp://127.0.0.1:0").await.expect("bound");
        let echo = super::start(&router);
        let client = Dealer::start(options(SocketKind::Dealer, "c"), &env);
        client.connect(&endpoint).await.expect("connected");
        let asked = parts(&["", "a", "b"]);
        let reply = client.request(asked.clone(), Some(Duration::from_secs(10))).await;
        assert_eq!(reply.expect("a reply"), asked);
        client.send(parts(&["x", ""])).await.expect("room");
        assert_eq!(client.recv().await.expect("open"), parts(&["x", ""]));
        let counters = echo.status().counters;
        assert_eq!((counters.replies, counters.data_to_clients), (1, 1));
    });
}

#[test]
fn echo_reads_no_further_from_a_client_that_does_not_read_and_loses_nothing() {
    run(async || {
        let env = env();
        let mut front = options(SocketKind::Router, "r");
        (front.core.send_hwm, front.core.receive_hwm) = (20_000, 20_000);
        let router = Router::start(front, &env);
        router.bind("inproc://echo").await.expect("bound");
        let mut echo = super::start(&router);
        let mut back = options(SocketKind::Dealer, "slow");
        back.core.receive_hwm = 20_000;
        let slow = Dealer::start(back, &env);
        let quick = Dealer::start(options(SocketKind::Dealer, "quick"), &env);
        for client in [&slow, &quick] {
            client.connect("inproc://echo").await.expect("connected");
            peers(client, 1).await;
        }
        for context in 0..1_000 {
            slow.try_request(vec![7; 1_000], Some(Duration::from_secs(600)), context)
                .expect("room");
        }
        until(|| echo.status().waiting_answers > 0).await;
        for _ in 0..50 {
            quick.request("r", Some(Duration::from_secs(1))).await.expect("a reply");
        }
        let taken = echo.status().counters.requests - 50;
        assert!(taken < 250, "{taken} of 1,000 were taken");

        for context in 0..1_000 {
            let completion = slow.next_completion().await.expect("open");
            assert_eq!(completion.context, context);
            let Outcome::Request { result, .. } = completion.outcome else { panic!() };
            assert_eq!(result, RequestResult::Ok);
        }
        until(|| env.total.used() == 0).await;
        echo.stop(Duration::from_secs(1)).await;
        assert!(echo.ended().await);
    });
}
