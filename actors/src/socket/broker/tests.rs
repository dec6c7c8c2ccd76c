use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lineway_wire::zmp::broker::DropReason;
use lineway_wire::zmp::core::{FlowState, Outcome};
use lineway_wire::zmp::monitor::EventKind;
use lineway_wire::zmp::outcome::{Errno, RequestResult};
use lineway_wire::zmp::{Record, RoutingId, SocketKind};
use tokio::time::Instant;

use super::*;
use crate::dns::StaticNames;
use crate::metrics::Metrics;
use crate::net::KernelNetwork;
use crate::socket::{
    Dealer, Inproc, Received, RequestError, Router, Socket, SocketEnv, SocketOptions, Total,
};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(in crate::socket) fn options(kind: SocketKind, id: &str) -> SocketOptions {
    let id = RoutingId::new(id.as_bytes().to_vec()).expect("an id");
    SocketOptions {
        linger: Some(Duration::ZERO),
        send_timeout: None,
        receive_timeout: None,
        ..SocketOptions::new(kind, id)
    }
}

pub(in crate::socket) fn env() -> SocketEnv {
    SocketEnv {
        network: Rc::new(KernelNetwork),
        names: Rc::new(StaticNames::new()),
        inproc: Inproc::default(),
        actors: Metrics::new("test").actors().clone(),
        total: Arc::new(Total::default()),
    }
}

/// Runs a test under paused time: the clock moves when everybody waits.
pub(in crate::socket) fn run(test: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test());
}

/// Waits for something that no event tells.
pub(in crate::socket) async fn until(mut what: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < end, "it never comes");
        tokio::time::sleep(ms(1)).await;
    }
}

/// Waits until as many peers are ready.
pub(in crate::socket) async fn peers(socket: &Socket, count: usize) {
    until(|| socket.peers().iter().filter(|peer| peer.ready).count() == count).await;
}

/// A RouterSocket, the DealerSocket behind it, and the broker.
struct Scene {
    env: SocketEnv,
    router: Router,
    dealer: Dealer,
    broker: Answering,
}

impl Scene {
    async fn new() -> Self {
        Self::with(BrokerSettings::default(), |_| {}, |_| {}).await
    }

    async fn with(
        settings: BrokerSettings,
        at_router: impl FnOnce(&mut SocketOptions),
        at_dealer: impl FnOnce(&mut SocketOptions),
    ) -> Self {
        let env = env();
        let mut front = options(SocketKind::Router, "front");
        at_router(&mut front);
        let mut back = options(SocketKind::Dealer, "back");
        at_dealer(&mut back);
        let (router, dealer) = (Router::start(front, &env), Dealer::start(back, &env));
        router.bind("inproc://clients").await.expect("bound");
        dealer.bind("inproc://workers").await.expect("bound");
        let broker = start(&router, &dealer, settings);
        Self { env, router, dealer, broker }
    }

    async fn client(&self, id: &str) -> Dealer {
        self.client_with(id, |_| {}).await
    }

    async fn client_with(&self, id: &str, set: impl FnOnce(&mut SocketOptions)) -> Dealer {
        let mut options = options(SocketKind::Dealer, id);
        set(&mut options);
        let client = Dealer::start(options, &self.env);
        client.connect("inproc://clients").await.expect("connected");
        peers(&client, 1).await;
        client
    }

    async fn worker(&self, id: &str, weight: u32) -> Router {
        let before = self.dealer.peers().len();
        let worker = Router::start(options(SocketKind::Router, id), &self.env);
        worker.set_weight(weight).expect("a weight");
        worker.connect("inproc://workers").await.expect("connected");
        peers(&self.dealer, before + 1).await;
        until(|| self.dealer.peers().iter().any(|peer| peer.weight.get() == weight)).await;
        worker
    }

    /// Nothing is left of what crossed the sockets.
    async fn is_clean(&self) {
        until(|| self.env.total.used() == 0).await;
        let status = self.broker.status();
        assert_eq!((status.held_requests, status.held_data, status.in_flight), (0, 0, 0));
        assert_eq!((status.waiting_answers, status.waiting_charge), (0, 0));
    }
}

/// Answers everything with the worker's name.
fn answers(worker: &Router, name: &'static str) {
    let worker = worker.clone();
    tokio::task::spawn_local(async move {
        while let Ok(Received { reply, .. }) = worker.recv().await {
            if let Some(reply) = reply {
                reply.reply(name).await.expect("the broker reads");
            }
        }
    });
}

fn errno(result: Result<Record, RequestError>) -> Errno {
    result.expect_err("no reply").errno()
}

#[test]
fn three_workers_share_requests_by_weight() {
    run(async || {
        let scene = Scene::new().await;
        for (name, weight) in [("w1", 1), ("w2", 2), ("w3", 1)] {
            answers(&scene.worker(name, weight).await, name);
        }
        until(|| scene.dealer.peers().iter().map(|peer| peer.weight.get()).sum::<u32>() == 4).await;
        let client = scene.client("c").await;
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..400 {
            let reply = client.request("r", None).await.expect("a reply");
            *counts.entry(reply.into_parts()[0].clone()).or_insert(0) += 1;
        }
        let counts: Vec<_> = counts.into_values().collect();
        assert_eq!(counts, [100, 200, 100]);
        scene.is_clean().await;
        assert_eq!(scene.broker.status().counters.replies, 400);
    });
}

#[test]
fn broker_b5_a_worker_that_dies_in_the_midst_of_a_request_is_ehostunreach() {
    run(async || {
        let scene = Scene::new().await;
        let worker = scene.worker("w", 100).await;
        let client = scene.client("c").await;
        let dies = async {
            let received = worker.recv().await.expect("the request");
            assert!(received.reply.is_some());
            worker.close().await.expect("closed");
        };
        let (ended, ()) = tokio::join!(client.request("r", None), dies);
        assert_eq!(errno(ended), Errno::EHOSTUNREACH);
        answers(&scene.worker("w2", 100).await, "w2");
        assert_eq!(client.request("r", None).await.expect("a reply"), Record::new("w2"));
        scene.is_clean().await;
    });
}

#[test]
fn broker_b5_a_workers_error_reply_passes_with_its_parts() {
    run(async || {
        let scene = Scene::new().await;
        let worker = scene.worker("w", 100).await;
        let client = scene.client("c").await;
        let refuses = async {
            let token = worker.recv().await.expect("the request").reply.expect("a reply is owed");
            let parts = Some(Record::new("not today"));
            worker
                .shared()
                .with(|core| core.try_reply_error(token.id(), Errno::EBUSY, parts))
                .expect("room");
        };
        let (ended, ()) = tokio::join!(client.request("r", None), refuses);
        let Err(RequestError::Failed { result, errno, parts }) = ended else { panic!("{ended:?}") };
        assert_eq!((result, errno), (RequestResult::Busy, Errno::EBUSY));
        assert_eq!(parts, Some(Record::new("not today")));
    });
}

#[test]
fn broker_b1_workers_that_pause_pause_the_clients_and_nothing_is_lost() {
    run(async || {
        let scene = Scene::new().await;
        let (one, two) = (scene.worker("w1", 100).await, scene.worker("w2", 100).await);
        for worker in [&one, &two] {
            worker.set_receive_flow_state(FlowState::Paused).expect("open");
            answers(worker, "w");
        }
        until(|| scene.dealer.peers().iter().all(|peer| peer.paused)).await;
        let client = scene.client("c").await;
        let idle = scene.client("idle").await;
        let flow = EventKind::SendFlowPaused.bit() | EventKind::SendFlowResumed.bit();
        let mut monitor = idle.monitor(flow).expect("nobody else watches");
        for context in 0..100 {
            client.try_request("r", None, context).expect("room");
        }
        assert_eq!(monitor.next().await.expect("open").kind, EventKind::SendFlowPaused);
        until(|| scene.broker.status().held_requests == 100).await;
        assert!(scene.env.total.used() >= 6_500, "what is held is charged");

        one.set_receive_flow_state(FlowState::Running).expect("open");
        assert_eq!(monitor.next().await.expect("open").kind, EventKind::SendFlowResumed);
        let mut contexts = Vec::new();
        while contexts.len() < 100 {
            let completion = client.next_completion().await.expect("open");
            assert!(matches!(
                completion.outcome,
                Outcome::Request { result: RequestResult::Ok, .. }
            ));
            contexts.push(completion.context);
        }
        contexts.sort_unstable();
        assert!(contexts.into_iter().eq(0..100));
        assert_eq!(scene.broker.status().counters.pauses, 1);
        scene.is_clean().await;
    });
}

#[test]
fn broker_b2_of_a_hundred_clients_one_that_floods_waits_its_turn() {
    run(async || {
        let scene = Scene::new().await;
        let flood = scene.client("flood").await;
        let mut few = Vec::new();
        for client in 0..99 {
            few.push(scene.client(&format!("c{client}")).await);
        }
        // Without a pause between them: nobody has heard of PAUSED.
        for _ in 0..2_000 {
            flood.try_request("flood", None, 0).expect("room");
        }
        for client in &few {
            client.try_request("few", None, 0).expect("room");
        }
        until(|| scene.broker.status().held_requests == 2_099).await;

        let worker = scene.worker("w", 100).await;
        let mut last = 0;
        for place in 1..=2_099 {
            let received = worker.recv().await.expect("open");
            if received.record.parts()[0] == "few" {
                last = place;
            }
            received.reply.expect("owed").reply("done").await.expect("the broker reads");
        }
        assert!(last <= 200, "the last of the few came as number {last}");
        for client in &few {
            client.next_completion().await.expect("a reply");
        }
        for _ in 0..2_000 {
            flood.next_completion().await.expect("a reply");
        }
        scene.is_clean().await;
    });
}

#[test]
fn broker_b4_without_a_worker_a_request_ends_after_the_dealers_timeout() {
    run(async || {
        let scene = Scene::with(
            BrokerSettings::default(),
            |_| {},
            |dealer| {
                dealer.core.request_timeout = ms(300);
            },
        )
        .await;
        let client = scene.client("c").await;
        let before = Instant::now();
        let ended = client.request("r", Some(ms(10_000))).await;
        assert_eq!(errno(ended), Errno::ETIMEDOUT);
        let took = before.elapsed();
        assert!(took >= ms(300) && took < ms(330), "{took:?}");
        assert_eq!(scene.broker.status().counters.errors(RequestResult::TimedOut), 1);
        scene.is_clean().await;
    });
}

#[test]
fn broker_b4_a_worker_that_says_nothing_has_what_is_left_of_the_timeout() {
    run(async || {
        let scene = Scene::with(
            BrokerSettings::default(),
            |_| {},
            |dealer| {
                dealer.core.request_timeout = ms(1_000);
            },
        )
        .await;
        let client = scene.client("c").await;
        let before = Instant::now();
        let late = async {
            tokio::time::sleep(ms(600)).await;
            let worker = scene.worker("w", 100).await;
            let received = worker.recv().await.expect("the request");
            (worker, received)
        };
        let (ended, _silent) = tokio::join!(client.request("r", Some(ms(10_000))), late);
        assert_eq!(errno(ended), Errno::ETIMEDOUT);
        let took = before.elapsed();
        assert!(took >= ms(1_000) && took < ms(1_100), "{took:?}");
    });
}

#[test]
fn x2_a_reply_for_a_client_that_left_is_abandoned() {
    run(async || {
        let scene = Scene::with(
            BrokerSettings::default(),
            |_| {},
            |dealer| {
                dealer.core.request_timeout = ms(2_000);
            },
        )
        .await;
        let worker = scene.worker("w", 100).await;
        let client = scene.client("c").await;
        client.try_request("r", None, 0).expect("room");
        let received = worker.recv().await.expect("the request");
        client.close().await.expect("closed");
        until(|| scene.router.peers().is_empty()).await;
        received.reply.expect("owed").reply("late").await.expect("the broker reads");
        until(|| scene.broker.status().waiting_answers == 1).await;
        assert!(scene.env.total.used() >= 68, "what waits is counted");
        let before = Instant::now();
        until(|| scene.broker.status().counters.replies_abandoned == 1).await;
        let took = before.elapsed();
        assert!(took >= ms(1_900) && took <= ms(2_500), "{took:?}");
        scene.is_clean().await;
    });
}

#[test]
fn x2_a_client_that_does_not_take_its_replies_holds_up_no_other() {
    run(async || {
        let scene =
            Scene::with(BrokerSettings::default(), |router| router.core.send_hwm = 20_000, |_| {})
                .await;
        let worker = scene.worker("w", 100).await;
        tokio::task::spawn_local(async move {
            while let Ok(Received { reply: Some(reply), .. }) = worker.recv().await {
                reply.reply(vec![7; 10_000]).await.expect("the broker reads");
            }
        });
        let slow = scene.client_with("slow", |client| client.core.receive_hwm = 20_000).await;
        let quick = scene.client("quick").await;
        for context in 0..100 {
            slow.try_request("r", None, context).expect("room");
        }
        until(|| scene.broker.status().waiting_answers > 0).await;
        for _ in 0..50 {
            quick.request("r", Some(ms(1_000))).await.expect("a reply");
        }
        for _ in 0..100 {
            let completion = slow.next_completion().await.expect("open");
            let Outcome::Request { result, parts, .. } = completion.outcome else { panic!() };
            assert_eq!(result, RequestResult::Ok);
            assert_eq!(parts.map(|parts| parts.payload()), Some(10_000));
        }
        scene.is_clean().await;
    });
}

#[test]
fn data_goes_to_workers_and_back_only_in_an_envelope() {
    run(async || {
        let scene = Scene::new().await;
        let worker = scene.worker("w", 100).await;
        let client = scene.client("c").await;
        client.send("plain").await.expect("room");
        let got = worker.recv().await.expect("open");
        assert_eq!(got.record, Record::new("plain"));
        worker.send(&got.from, "unasked").await.expect("room");
        until(|| scene.broker.status().counters.drops(DropReason::NoRoute) == 1).await;
        scene.is_clean().await;

        let settings = BrokerSettings { data_envelope: true, ..BrokerSettings::default() };
        let scene = Scene::with(settings, |_| {}, |_| {}).await;
        let worker = scene.worker("w", 100).await;
        let client = scene.client("c").await;
        client.send("wrapped").await.expect("room");
        let got = worker.recv().await.expect("open");
        assert_eq!(got.record.parts(), ["c", "wrapped"]);
        worker.send(&got.from, got.record).await.expect("room");
        assert_eq!(client.recv().await.expect("open"), Record::new("wrapped"));
        scene.is_clean().await;
    });
}

#[test]
fn a_broker_that_is_stopped_answers_what_it_has_and_then_ends() {
    run(async || {
        let mut scene = Scene::new().await;
        let worker = scene.worker("w", 100).await;
        let client = scene.client("c").await;
        client.try_request("one", None, 1).expect("room");
        let received = worker.recv().await.expect("the request");
        let late = async {
            tokio::time::sleep(ms(200)).await;
            received.reply.expect("owed").reply("done").await.expect("the broker reads");
        };
        let before = Instant::now();
        tokio::join!(scene.broker.stop(ms(5_000)), late);
        assert!(before.elapsed() < ms(300));
        let completion = client.next_completion().await.expect("a reply");
        assert!(matches!(completion.outcome, Outcome::Request { result: RequestResult::Ok, .. }));
        assert!(scene.broker.ended().await);
    });
}

#[test]
fn at_the_end_of_its_patience_a_broker_says_eshutdown() {
    run(async || {
        let mut scene = Scene::new().await;
        let client = scene.client("c").await;
        client.try_request("one", None, 1).expect("room");
        until(|| scene.broker.status().held_requests == 1).await;
        let before = Instant::now();
        scene.broker.stop(ms(700)).await;
        assert!(before.elapsed() >= ms(700) && before.elapsed() < ms(720));
        let completion = client.next_completion().await.expect("an error reply");
        let Outcome::Request { errno, .. } = completion.outcome else { panic!() };
        assert_eq!(errno, Errno::ESHUTDOWN);
    });
}

#[test]
fn a_broker_whose_dealer_is_closed_says_eshutdown_and_ends() {
    run(async || {
        let mut scene = Scene::new().await;
        let worker = scene.worker("w", 100).await;
        let client = scene.client("c").await;
        let closes = async {
            let _received = worker.recv().await.expect("the request");
            scene.dealer.close().await.expect("closed");
        };
        let (ended, ()) = tokio::join!(client.request("r", None), closes);
        assert_eq!(errno(ended), Errno::ESHUTDOWN);
        assert!(scene.broker.ended().await);
    });
}
