//! Flow states and the order of choices, seen by the application (2.2, 2.9).

use lineway_actors::wire::zmp::core::{FlowState, Outcome};
use lineway_actors::wire::zmp::monitor::{ALL_EVENTS, EventKind};

use crate::house::{LOOPBACK, from, id, peers, run, until};

#[test]
fn dealer_2_2_weights_give_the_worked_sequence() {
    run(async |house| {
        let dealer = house.dealer("D1");
        let mut workers = Vec::new();
        for (name, weight) in [("A", 100), ("B", 300)] {
            let router = house.router(name);
            router.set_weight(weight).unwrap();
            let endpoint = router.bind("inproc://".to_owned().as_str()).await;
            assert!(endpoint.is_err(), "a name is needed");
            let endpoint = router.bind(&format!("inproc://{name}")).await.unwrap();
            dealer.connect(&endpoint).await.unwrap();
            workers.push(router);
        }
        until("both weights are known", || {
            let peers = dealer.peers();
            peers.len() == 2 && peers.iter().any(|peer| peer.ready && peer.weight.get() == 300)
        })
        .await;
        for number in 0..8 {
            dealer.send(format!("{number}")).await.unwrap();
        }
        let mut order = Vec::new();
        for (router, count) in workers.iter().zip([2, 6]) {
            for _ in 0..count {
                let number: usize = from(&router.recv().await.unwrap()).1.parse().unwrap();
                order.push((number, router.routing_id()));
            }
        }
        order.sort_unstable();
        let order: Vec<_> = order.iter().map(|(_, id)| id.as_bytes()[0]).collect();
        assert_eq!(order, b"BABBBABB");
    });
}

#[test]
fn dealer_d_f1_d_f6_a_pause_holds_records_back_and_its_end_wakes_tokens() {
    run(async |house| {
        let (dealer, router) = (house.dealer("D1"), house.router("R1"));
        let endpoint = router.bind(LOOPBACK).await.unwrap();
        dealer.connect(&endpoint).await.unwrap();
        peers(&dealer, 1).await;
        let mut events = dealer.monitor(ALL_EVENTS).unwrap();
        router.set_receive_flow_state(FlowState::Paused).unwrap();
        router.set_receive_flow_state(FlowState::Paused).unwrap();
        let paused = events.next().await.unwrap();
        assert_eq!((paused.kind, paused.value), (EventKind::SendFlowPaused, 1));
        let refused = dealer.try_send("x", 5).unwrap_err();
        assert_eq!(dealer.status().flow.paused_connections, 1);
        router.set_receive_flow_state(FlowState::Running).unwrap();
        let resumed = events.next().await.unwrap();
        assert_eq!((resumed.kind, resumed.value), (EventKind::SendFlowResumed, 2));
        let completion = dealer.next_completion().await.unwrap();
        assert_eq!((Some(completion.id), completion.context), (refused.token(), 5));
        assert_eq!(completion.outcome, Outcome::Writable);
        dealer.try_send(refused.into_record(), 5).unwrap();
        assert_eq!(from(&router.recv().await.unwrap()).1, "x");
        let flow = dealer.status().flow;
        assert_eq!((flow.pause_applied_total, flow.resume_applied_total), (1, 1));
    });
}

#[test]
fn router_r_s2_a_token_of_one_id_is_not_woken_by_another() {
    run(async |house| {
        let router = house.router("R1");
        let endpoint = router.bind("inproc://r").await.unwrap();
        let dealers = ["D1", "D2"].map(|name| house.dealer(name));
        for dealer in &dealers {
            dealer.connect(&endpoint).await.unwrap();
            dealer.set_receive_flow_state(FlowState::Paused).unwrap();
        }
        until("both are paused", || router.peers().iter().filter(|peer| peer.paused).count() == 2)
            .await;
        let first = router.try_send(&id("D1"), "x", 1).unwrap_err();
        let second = router.try_send(&id("D2"), "x", 2).unwrap_err();
        dealers[1].set_receive_flow_state(FlowState::Running).unwrap();
        let completion = router.next_completion().await.unwrap();
        assert_eq!(Some(completion.id), second.token());
        assert_eq!((completion.context, completion.peer), (2, Some(id("D2"))));
        assert!(router.try_completion().is_err());
        dealers[0].set_receive_flow_state(FlowState::Running).unwrap();
        assert_eq!(Some(router.next_completion().await.unwrap().id), first.token());
    });
}
