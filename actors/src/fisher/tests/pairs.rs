//! Client and server of the fisher in one chain: relays, pairs without a socket between, races
//! within races.

use std::rc::Rc;
use std::time::Duration;

use lineway_wire::line::FinishReason;

use super::{PROBE, PROOF, SECOND, bytes, client, connector, entry, server};
use crate::line::{Chain, End, TesterClient};
use crate::settings::{NodePlan, NodeSettings, TesterSettings};
use crate::testkit::{Kit, Outcome, run, settings};

/// A chain of an entry `in` and these nodes.
fn chain(kit: &Kit, mut entry: NodePlan, rest: Vec<NodePlan>) -> Rc<Chain> {
    entry.next = Some(std::sync::Arc::clone(&rest[0].name));
    kit.chain(std::iter::once(entry).chain(rest).collect())
}

fn tester(chunk_count: usize) -> TesterSettings {
    TesterSettings { chunk_count, ..settings::tester() }
}

/// Runs a `TesterClient` through these nodes to a `TesterServer`.
async fn prove(kit: &Kit, chunks: usize, between: Vec<NodePlan>) {
    let mut nodes = between;
    nodes.push(settings::node("out", NodeSettings::TesterServer(tester(chunks)), None));
    let entry = settings::node("in", NodeSettings::TesterClient(tester(chunks)), None);
    let chain = chain(kit, entry, nodes);
    kit.board.testers.expect(1);
    let near = End::TesterClient(Box::new(TesterClient::new(chunks as u8, chunks)));
    kit.worker.open_main_line(&chain, near, None, None, None);
    assert!(
        tokio::time::timeout(SECOND * 4, kit.board.testers.all_reported()).await == Ok(true),
        "{chunks} chunks"
    );
    kit.assert_empty().await;
}

#[test]
fn fisher_a_pair_without_a_socket_between_carries_every_count_of_chunks() {
    run(async |kit| {
        for chunks in 1..=11 {
            for tries in [1, 2, 5] {
                let between = vec![client("fish", tries, "serve"), server("serve", 0, "out")];
                prove(&kit, chunks, between).await;
            }
        }
        kit.assert_metric(
            r#"lineway_fisher_server_first_total{node="serve",result="payload"}"#,
            33,
        );
        super::outcome(&kit, "won", 33);
        super::lost(&kit, "outrun", 11 * (1 + 4));
    });
}

#[test]
fn fisher_pairs_behind_and_within_each_other_carry_everything() {
    run(async |kit| {
        for chunks in [1, 4, 11] {
            let pair = |a, b, c| [client(a, 2, b), server(b, 1000, c)];
            let behind = [pair("fish", "serve", "fish2"), pair("fish2", "serve2", "out")];
            prove(&kit, chunks, behind.concat()).await;
            let within = vec![
                client("fish", 2, "fish2"),
                client("fish2", 3, "serve2"),
                server("serve2", 1000, "serve"),
                server("serve", 1000, "out"),
            ];
            prove(&kit, chunks, within).await;
        }
    });
}

#[test]
fn fisher_s04b_a_silent_client_of_a_pair_hears_a_backend_that_speaks_first() {
    run(async |kit| {
        let nodes = vec![client("fish", 3, "serve"), server("serve", 1000, "out"), connector()];
        let (_, client) = kit.open(&chain(&kit, entry(), nodes));
        kit.pass(Duration::from_millis(990)).await;
        assert!(kit.dials.is_empty());
        kit.pass(Duration::from_millis(20)).await;
        assert_eq!(kit.dials.len(), 1, "losers never make a backend connection");
        kit.dials.peer(0).offer(b"220 ready");
        kit.quiet().await;
        assert_eq!(client.take(), b"220 ready");
        client.end();
        kit.quiet().await;
        assert!(kit.dials.peer(0).is_shut_down());
        kit.dials.peer(0).end();
        kit.assert_empty().await;
    });
}

#[test]
fn fisher_a_relay_proves_itself_first_and_then_races_onward() {
    run(async |kit| {
        for plan in [Outcome::UpAfter(SECOND), Outcome::Up] {
            kit.dials.plan(plan);
        }
        let nodes = vec![server("serve", 1000, "fish"), client("fish", 2, "out"), connector()];
        let (_, client) = kit.open(&chain(&kit, entry(), nodes));
        client.offer(PROBE);
        kit.quiet().await;
        assert_eq!((client.take(), kit.dials.len()), (PROOF.to_vec(), 0));
        client.offer(b"hello");
        client.end();
        kit.quiet().await;
        let peers = [0, 1].map(|at| kit.dials.peer(at));
        assert_eq!((peers[0].written(), peers[1].take()), (0, PROBE.to_vec()));
        kit.pass(SECOND).await;
        peers[0].offer(b"FISH!answer");
        kit.quiet().await;
        assert_eq!(peers[0].take(), [PROBE, b"hello"].concat());
        assert!(peers[0].is_shut_down() && peers[1].is_dropped());
        assert_eq!(client.take(), b"answer");
        peers[0].end();
        kit.assert_empty().await;
    });
}

#[test]
fn fisher_s04b_a_relay_whose_client_is_silent_races_after_the_delay() {
    run(async |kit| {
        let nodes = vec![server("serve", 1000, "fish"), client("fish", 2, "out"), connector()];
        let (_, client) = kit.open(&chain(&kit, entry(), nodes));
        client.offer(PROBE);
        kit.pass(Duration::from_millis(1010)).await;
        assert_eq!(kit.dials.len(), 2);
        kit.dials.peer(1).offer(b"FISH!220 ready");
        kit.quiet().await;
        assert_eq!(client.take(), b"FISH!220 ready");
        client.end();
        kit.dials.peer(1).end();
        kit.assert_empty().await;
    });
}

#[test]
fn fisher_s01_s04_of_two_servers_both_want_their_probe_before_the_backend_gets_init() {
    run(async |kit| {
        let nodes = || vec![server("one", 0, "two"), server("two", 0, "out"), connector()];
        let (_, client) = kit.open(&chain(&kit, entry(), nodes()));
        client.offer(PROBE);
        // The line begins for the second one with the first payload, however long that takes.
        kit.pass(SECOND * 8).await;
        assert_eq!(client.take(), PROOF);
        client.offer(b"FISH");
        kit.pass(Duration::from_millis(4990)).await;
        assert!(kit.dials.is_empty() && !client.is_dropped());
        client.offer(b"?");
        kit.quiet().await;
        assert_eq!((client.take(), kit.dials.len()), (PROOF.to_vec(), 0));
        client.offer(b"hi");
        kit.quiet().await;
        assert_eq!(kit.dials.peer(0).take(), b"hi");
        let (_, wrong) = kit.open(&chain(&kit, entry(), nodes()));
        wrong.offer(b"FISH?wrong");
        kit.quiet().await;
        assert_eq!((wrong.take(), wrong.is_dropped()), (PROOF.to_vec(), true));
        let (_, late) = kit.open(&chain(&kit, entry(), nodes()));
        late.offer(b"FISH?FISH");
        kit.pass(Duration::from_millis(5010)).await;
        assert_eq!((late.take(), late.is_dropped()), (PROOF.to_vec(), true));
        assert_eq!(kit.dials.len(), 1);
    });
}

#[test]
fn fisher_a_race_within_a_race_ends_with_every_one_of_its_lines() {
    run(async |kit| {
        let nodes = || vec![client("fish", 2, "fish2"), client("fish2", 2, "out"), connector()];
        for round in 0..4 {
            let before = kit.dials.len();
            let (id, client) = kit.open(&chain(&kit, entry(), nodes()));
            client.offer(b"hello");
            kit.reported().await;
            let peers: Vec<_> = (before..before + 4).map(|at| kit.dials.peer(at)).collect();
            assert!(peers.iter().all(|peer| peer.take() == PROBE));
            assert_eq!(kit.board.registry.len(), 1 + 2 + 4);
            if round == 0 {
                client.reset();
                kit.pass(SECOND * 2).await;
                kit.assert_empty().await;
                continue;
            }
            peers[2].offer(PROOF);
            kit.quiet().await;
            assert_eq!(peers[2].take(), PROBE, "of the outer race");
            peers[2].offer(b"FISH!hi");
            kit.reported().await;
            assert_eq!((peers[2].take(), client.take()), (b"hello".to_vec(), b"hi".to_vec()));
            assert!([0, 1, 3].iter().all(|at| peers[*at].is_dropped()));
            let lines = kit.board.registry.snapshot();
            assert_eq!(lines.len(), 3, "the line, and a winner in each race");
            let innermost = lines.iter().max_by_key(|line| line.id.number).map(|line| line.id);
            match round {
                1 => {
                    client.end();
                    peers[2].end();
                }
                2 => assert!(kit.worker.finish_line(innermost.unwrap_or(id), FinishReason::Admin)),
                _ => client.explode(),
            }
            kit.quiet().await;
            assert!(client.is_dropped() && peers[2].is_dropped());
            kit.assert_empty().await;
        }
        for reason in ["admin", "panic"] {
            kit.assert_closed(reason, 1);
        }
        kit.assert_closed("peer-finished", 2);
        let (_, client) = kit.open(&chain(&kit, entry(), nodes()));
        client.offer(&bytes(100));
        kit.pass(Duration::from_millis(5010)).await;
        assert!(client.is_dropped());
        kit.assert_empty().await;
        kit.assert_closed("timeout", 1);
    });
}
