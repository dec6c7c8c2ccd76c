//! Levels of readiness (2.8), weights and options through the handle.

use futures_util::FutureExt;
use lineway_actors::socket::Socket;
use lineway_actors::wire::zmp::core::{FlowState, Outcome, Readiness, Weight};
use lineway_actors::wire::zmp::outcome::{ConfigError, ConfigResult, Errno};

use crate::house::{COMPLETION, INPUT, LOOPBACK, OUTPUT, SHORT, peers, run, until};

#[test]
fn dealer_d_p1_to_d_p4_a_poller_is_woken_by_each_level() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let [mut input, mut output, mut completion] =
            [INPUT, OUTPUT, COMPLETION].map(|level| dealer.poller(level).unwrap());
        assert!(input.ready().now_or_never().is_none());
        assert!(completion.ready().now_or_never().is_none());
        let refused = dealer.try_send("one", 3).unwrap_err();
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        let (writable, connected) = tokio::join!(output.ready(), dealer.connect(&endpoint));
        connected.unwrap();
        assert_eq!(writable, OUTPUT);
        assert_eq!(completion.ready().await, COMPLETION);
        // An unread WRITABLE holds both (D-P3).
        assert!(dealer.readiness().output && dealer.readiness().completion);
        assert_eq!(dealer.try_completion().unwrap().outcome, Outcome::Writable);
        assert!(!dealer.readiness().completion);
        assert!(completion.ready().now_or_never().is_none());

        dealer.send(refused.into_record()).await.unwrap();
        let received = router.recv().await.unwrap();
        let (there, sent) = tokio::join!(input.ready(), router.send(&received.from, "back"));
        sent.unwrap();
        assert_eq!(there, INPUT);
        assert_eq!(input.ready().await, INPUT, "it is a level");
        dealer.try_recv().unwrap();
        assert!(input.ready().now_or_never().is_none());
        dealer.close().await.unwrap();
        assert_eq!(input.ready().await, Readiness::default(), "nothing comes any more");
    });
}

#[test]
fn dealer_d_p5_one_poller_at_a_time_watches_completions() {
    run(async |house| {
        let dealer = house.dealer("D1");
        let first = dealer.poller(COMPLETION).unwrap();
        let error = dealer.poller(COMPLETION).unwrap_err();
        assert_eq!((error.result.number(), error.errno), (705, Errno::EBUSY));
        dealer.poller(INPUT).unwrap();
        drop(first);
        dealer.poller(COMPLETION).unwrap();
    });
}

#[test]
fn dealer_d_o1_d_o4_wrong_options_are_refused_and_change_nothing() {
    run(async |house| {
        let dealer = house.dealer("D1");
        let error = dealer.set_weight(10_001).unwrap_err();
        assert_eq!((error.result.number(), error.errno), (702, Errno::EINVAL));
        assert_eq!(dealer.options().weight.get(), 100);
        dealer.set_weight(10_000).unwrap();
        assert_eq!(dealer.options().weight.get(), 10_000);
        let error = dealer.set_conflate(true).unwrap_err();
        assert_eq!((error.result.number(), error.errno), (703, Errno::ENOTSUP));
        dealer.set_conflate(false).unwrap();
        assert!(!dealer.conflate());
        assert!(!dealer.options().probe);
        dealer.set_probe(true).unwrap();
        assert!(dealer.options().probe);
        dealer.close().await.unwrap();
        let error = dealer.set_weight(1).unwrap_err();
        assert_eq!((error.result.number(), error.errno), (705, Errno::ESHUTDOWN));
    });
}

#[test]
fn dealer_d_o3_a_probe_shows_the_link_to_a_peer_that_was_sent_nothing() {
    run(async |house| {
        let router = house.router("R1");
        let dealer = house.dealer_with("D1", |options| options.core.probe = true);
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        let probe = router.recv().await.unwrap();
        assert_eq!(probe.from.as_bytes(), b"D1");
        assert_eq!(probe.record.parts(), [""]);
    });
}

#[test]
fn dealer_d_g1_d_g4_weights_cross_in_both_directions_whatever_the_size_limit() {
    run(async |house| {
        let router = house.router_with("R1", |options| options.core.max_message_size = 4);
        let dealer = house.dealer_with("D1", |options| options.core.max_message_size = 4);
        router.set_weight(300).unwrap();
        dealer.set_weight(7).unwrap();
        let endpoint = router.bind("inproc://r").await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        let knows = |peers: Vec<lineway_actors::wire::zmp::status::PeerStatus>, weight| {
            peers.first().is_some_and(|peer| peer.weight.get() == weight)
        };
        until("300", || knows(dealer.peers(), 300)).await;
        until("7", || knows(router.peers(), 7)).await;
        router.set_weight(0).unwrap();
        until("0", || knows(dealer.peers(), 0)).await;
    });
}

#[test]
fn dealer_d_o2_an_option_is_read_back_as_it_was_set() {
    run(async |house| {
        let dealer = house.dealer("D1");
        assert_eq!(dealer.options().weight, Weight::DEFAULT);
        dealer.set_weight(10_000).unwrap();
        dealer.set_request_timeout(SHORT).unwrap();
        let options = dealer.options();
        assert_eq!((options.weight.get(), options.request_timeout), (10_000, SHORT));
    });
}

#[test]
fn dealer_d_o5_the_probe_is_one_option_for_both_kinds() {
    run(async |house| {
        let set = |socket: &Socket| {
            socket.set_probe(true).unwrap();
            socket.options().probe
        };
        assert!(set(&house.dealer("D1")) && set(&house.router("R1")));
    });
}

#[test]
fn dealer_d_f3_a_socket_that_is_closed_has_no_flow_state_to_set() {
    run(async |house| {
        let dealer = house.dealer("D1");
        dealer.set_receive_flow_state(FlowState::Paused).unwrap();
        dealer.close().await.unwrap();
        let error = dealer.set_receive_flow_state(FlowState::Running).unwrap_err();
        let late = ConfigError::new(ConfigResult::InvalidState, Errno::ESHUTDOWN);
        assert_eq!((error, error.result.number()), (late, 705));
    });
}
