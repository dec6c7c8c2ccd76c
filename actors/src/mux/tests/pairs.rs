//! Whole chains in one process: mux behind mux, with fishers and within each other.

use std::rc::Rc;
use std::time::Duration;

use lineway_wire::line::FinishReason;
use lineway_wire::mux::FrameKind;
use lineway_wire::units::Millis;

use super::{
    MILLI, SECOND, Wire, bytes, client, connector, counter, ended, entry, fixed, leave, server,
    timer,
};
use crate::line::{Chain, End, TesterClient};
use crate::settings::{
    FisherClientSettings, FisherServerSettings, MuxMode, NodePlan, NodeSettings,
};
use crate::testkit::{Kit, Outcome, Peer, run, settings};

fn fish(tries: u32) -> NodePlan {
    let client = FisherClientSettings { simultaneous_tries: tries };
    settings::node("fish", NodeSettings::ConnectionFisherClient(client), Some("x"))
}

fn serve() -> NodePlan {
    let server = FisherServerSettings { server_first_delay: Millis::new(1000) };
    settings::node("serve", NodeSettings::ConnectionFisherServer(server), Some("x"))
}

fn named(name: &str, node: NodePlan) -> NodePlan {
    NodePlan { name: name.into(), ..node }
}

/// The ways from a client to a server in one process.
fn ways(mode: MuxMode) -> Vec<(&'static str, Vec<NodePlan>)> {
    let mux = || client(mode);
    vec![
        ("mc ms", vec![mux(), server()]),
        ("fc mc ms fs", vec![fish(2), mux(), server(), serve()]),
        ("mc fc fs ms", vec![mux(), fish(2), serve(), server()]),
        (
            "mc mc ms ms",
            vec![mux(), named("mux2", client(mode)), named("demux2", server()), server()],
        ),
        (
            "mc ms mc ms",
            vec![mux(), server(), named("mux2", client(mode)), named("demux2", server())],
        ),
    ]
}

fn chain(kit: &Kit, entry: NodePlan, between: Vec<NodePlan>, end: NodePlan) -> Rc<Chain> {
    kit.chain([vec![entry], between, vec![end]].concat())
}

/// Opens tester lines on every way and wants them proved.
fn prove(mode: MuxMode, lines: usize) {
    for (name, between) in ways(mode) {
        run(async |kit| {
            let tester = settings::tester();
            let client = NodeSettings::TesterClient(tester.clone());
            let entry = settings::node("tester", client, Some("mux"));
            let end = settings::node("out", NodeSettings::TesterServer(tester), None);
            let chain = chain(&kit, entry, between, end);
            kit.board.testers.expect(lines);
            for line in 0..lines {
                let near = End::TesterClient(Box::new(TesterClient::new(line as u8, 11)));
                kit.worker.open_main_line(&chain, near, None, None, None);
            }
            let reported = tokio::time::timeout(SECOND * 20, kit.board.testers.all_reported());
            assert!(reported.await == Ok(true), "{name} {mode:?}");
            leave(&kit).await;
        });
    }
}

#[test]
fn mux_every_way_carries_the_tester_with_fixed_parents() {
    prove(fixed(2), 3);
}

#[test]
fn mux_every_way_carries_the_tester_with_a_counter() {
    for capacity in [1, 2] {
        prove(counter(capacity), 3);
    }
}

#[test]
fn mux_every_way_carries_the_tester_with_a_timer() {
    prove(timer(61), 2);
}

/// Lines through each of the ways, with what the test does to them.
fn each(play: impl AsyncFn(&Kit, Rc<Chain>, &str)) {
    for (name, between) in ways(fixed(1)) {
        run(async |kit| {
            let chain = chain(&kit, entry(), between, connector());
            play(&kit, chain, name).await;
            leave(&kit).await;
        });
    }
}

/// Opens a line; gives its client and its backend, which hears the first payload.
async fn begin(kit: &Kit, chain: &Rc<Chain>, name: &str) -> (Peer, Peer) {
    let before = kit.dials.len();
    let (_, client) = kit.open(chain);
    client.offer(b"hello");
    kit.pass(MILLI * 20).await;
    assert_eq!(kit.dials.len(), before + 1, "{name}");
    let backend = kit.dials.peer(before);
    assert_eq!(backend.take(), b"hello", "{name}");
    (client, backend)
}

#[test]
fn case_t06_a_client_that_half_closes_gets_its_reply_through_any_way() {
    each(async |kit, chain, name| {
        let (client, backend) = begin(kit, &chain, name).await;
        client.end();
        kit.pass(SECOND * 30).await;
        assert!(backend.is_shut_down(), "{name}");
        backend.offer(&bytes(1_000_000));
        backend.end();
        kit.pass(MILLI * 20).await;
        assert!(client.take() == bytes(1_000_000), "{name}");
        assert!(client.is_shut_down() && client.is_dropped(), "{name}");
        kit.assert_closed("peer-finished", 1);
    });
}

#[test]
fn mux_a_server_that_speaks_first_and_a_client_that_never_does() {
    each(async |kit, chain, name| {
        let (_, client) = kit.open(&chain);
        kit.pass(SECOND * 2).await;
        let backend = kit.dials.peer(kit.dials.len() - 1);
        backend.offer(b"220 ready");
        backend.end();
        kit.pass(MILLI * 20).await;
        assert_eq!(client.take(), b"220 ready", "{name}");
        assert!(client.is_shut_down(), "{name}");
        client.end();
    });
}

#[test]
fn mux_a_reset_on_either_side_ends_the_other_through_any_way() {
    each(async |kit, chain, name| {
        for resets in 0..4 {
            let (client, backend) = begin(kit, &chain, name).await;
            let (one, other) =
                if resets % 2 == 0 { (&client, &backend) } else { (&backend, &client) };
            if resets < 2 {
                other.window(0);
                one.offer(&bytes(3_000_000));
                kit.quiet().await;
                other.open_window();
            }
            one.reset();
            kit.pass(SECOND * 3).await;
            assert!(other.is_shut_down(), "{name} {resets}");
            other.end();
            kit.pass(SECOND * 3).await;
            assert!(other.is_dropped() && one.is_dropped(), "{name} {resets}");
        }
    });
}

#[test]
fn mux_m17_a_refused_backend_ends_the_client_within_milliseconds() {
    each(async |kit, chain, name| {
        kit.dials.plan(Outcome::REFUSED);
        let (_, client) = kit.open(&chain);
        client.offer(b"hello");
        kit.pass(Duration::from_millis(20)).await;
        assert!(client.is_shut_down(), "{name}");
        client.end();
    });
}

#[test]
fn line_l08_the_service_ends_every_line_of_every_way() {
    each(async |kit, chain, name| {
        let (client, backend) = begin(kit, &chain, name).await;
        kit.worker.finish_lines(FinishReason::Drain, |_| true);
        kit.pass(MILLI * 20).await;
        assert!(client.is_dropped(), "{name}");
        assert!(backend.is_shut_down(), "{name}");
        backend.end();
        kit.assert_closed("drain", 1);
    });
}

#[test]
fn mux_m22_one_stalled_child_beside_busy_ones_through_any_way() {
    each(async |kit, chain, name| {
        let (stalled, source) = begin(kit, &chain, name).await;
        let (busy, backend) = begin(kit, &chain, name).await;
        stalled.window(0);
        source.offer(&bytes(5_000_000));
        kit.pass(MILLI * 20).await;
        for round in 0..20 {
            backend.offer(&bytes(300_000));
            busy.offer(&bytes(300_000));
            kit.pass(MILLI * 20).await;
            assert!(busy.take() == bytes(300_000), "{name} {round}");
            assert!(backend.take() == bytes(300_000), "{name} {round}");
        }
        stalled.open_window();
        kit.pass(SECOND).await;
        assert!(stalled.take() == bytes(5_000_000), "{name}");
        for peer in [&stalled, &source, &busy, &backend] {
            peer.end();
        }
        kit.pass(MILLI * 20).await;
    });
}

#[test]
fn mux_m14_a_race_behind_a_parent_that_fails_follows_the_same_rule() {
    run(async |kit| {
        for _ in 0..4 {
            kit.dials.plan(Outcome::REFUSED);
        }
        let chain = kit.chain(vec![entry(), client(fixed(1)), fish(2), connector()]);
        let (_, client) = kit.open(&chain);
        client.offer(b"hello");
        kit.pass(MILLI * 350).await;
        assert_eq!(kit.dials.len(), 6);
        let winner = kit.dials.peer(5);
        assert_eq!(winner.take(), b"FISH?");
        winner.offer(b"FISH!");
        kit.quiet().await;
        let mut wire = Wire::of(winner);
        assert_eq!(wire.frames(), ["open+ 1", "data 1 hello"]);
        assert!(kit.dials.peer(4).is_dropped());
        wire.send(FrameKind::Close, 1);
        client.end();
        leave(&kit).await;
        kit.assert_metric(r#"lineway_mux_parent_retries_total{node="mux"}"#, 2);
        // Nobody proves itself: the child waits for its own time.
        for _ in 0..10 {
            kit.dials.plan(Outcome::Up);
        }
        let (_, client) = kit.open(&chain);
        client.offer(b"hello");
        kit.pass(SECOND * 6).await;
        assert!(client.is_shut_down());
        client.end();
        leave(&kit).await;
        ended(&kit, "mux", "parent-failed", 1);
    });
}
