//! From `Init` to the choice: C01 to C04, C07 to C09, C12, C13, C15.

use std::io;
use std::time::Duration;

use lineway_wire::line::LineKind;

use super::{PROBE, PROOF, SECOND, WATCHED, bytes, cast, client, connector, fisher, lost, outcome};
use crate::line::{End, TesterClient};
use crate::settings::NodeSettings;
use crate::testkit::{Outcome, run, settings};

#[test]
fn fisher_c02_c03_every_candidate_sends_its_probe_first_once_its_transport_is_up() {
    run(async |kit| {
        for plan in [Outcome::Up, Outcome::UpAfter(SECOND), Outcome::Hangs] {
            kit.dials.plan(plan);
        }
        let (_, client) = kit.open(&fisher(&kit, 3));
        client.offer(b"hello");
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 3, "Init of all of them");
        let peers = [0, 1, 2].map(|at| kit.dials.peer(at));
        assert_eq!((peers[0].take(), peers[1].written()), (PROBE.to_vec(), 0));
        kit.pass(SECOND).await;
        assert_eq!(peers[1].take(), PROBE);
        assert_eq!((peers[0].written(), peers[1].written(), peers[2].written()), (5, 5, 0));
        kit.assert_metric(r#"lineway_fisher_candidates_total{node="fish"}"#, 3);
    });
}

#[test]
fn fisher_c02_candidates_are_lines_of_the_makers_worker_and_name_it() {
    run(async |kit| {
        let (id, ..) = cast(&kit, 4).await;
        let lines = kit.board.registry.snapshot();
        let children: Vec<_> = lines.iter().filter(|l| l.kind == LineKind::Child).collect();
        assert_eq!((lines.len(), children.len()), (5, 4));
        for child in children {
            assert_eq!((child.maker, child.id.worker, &*child.node), (Some(id), id.worker, "fish"));
        }
        kit.assert_metric(r#"lineway_actors_alive{kind="child-line"}"#, 4);
    });
}

#[test]
fn fisher_c04_c13_without_a_winner_all_ends_five_seconds_later_and_the_supervisor_says_so() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 3).await;
        client.offer(b"queued");
        kit.assert_metric(WATCHED, 1);
        kit.pass(Duration::from_millis(4980)).await;
        assert!(!client.is_dropped() && !peers[0].is_dropped());
        kit.pass(Duration::from_millis(30)).await;
        assert!(client.is_dropped());
        assert!(peers.iter().all(|peer| peer.is_dropped() && peer.held() == 0));
        kit.assert_empty().await;
        kit.assert_metric(r#"lineway_deadlines_fired_total{kind="selection"}"#, 1);
        lost(&kit, "timeout", 3);
        outcome(&kit, "timeout", 1);
        kit.assert_closed("timeout", 1);
    });
}

#[test]
fn fisher_c04_the_deadline_is_gone_with_the_choice() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        kit.assert_metric(WATCHED, 1);
        peers[1].offer(PROOF);
        kit.reported().await;
        kit.assert_metric(WATCHED, 0);
        outcome(&kit, "won", 1);
        kit.pass(SECOND * 60).await;
        client.offer(b"still there");
        kit.quiet().await;
        assert_eq!(peers[1].take(), b"still there");
        kit.assert_metric(r#"lineway_deadlines_fired_total{kind="selection"}"#, 0);
    });
}

#[test]
fn fisher_c07_the_first_est_of_a_candidate_is_told_before_any_proof_and_whether_or_not_it_wins() {
    run(async |kit| {
        for plan in [Outcome::UpAfter(SECOND), Outcome::UpAfter(SECOND * 2)] {
            kit.dials.plan(plan);
        }
        // A tester sends after Est.
        let tester = NodeSettings::TesterClient(settings::tester());
        let chain = kit.chain(vec![
            settings::node("in", tester, Some("fish")),
            client("fish", 2, "out"),
            connector(),
        ]);
        let near = End::TesterClient(Box::new(TesterClient::new(1, 1)));
        kit.worker.open_main_line(&chain, near, None, None, None);
        kit.pass(Duration::from_millis(990)).await;
        kit.assert_metric(super::QUEUED, 0);
        kit.pass(Duration::from_millis(20)).await;
        kit.assert_metric(super::QUEUED, 1);
        kit.dials.peer(0).end();
        kit.pass(SECOND * 2).await;
        kit.dials.peer(1).offer(PROOF);
        kit.quiet().await;
        assert_eq!(kit.dials.peer(1).take(), b"FISH?\x3d", "once, so it sends once");
    });
}

#[test]
fn fisher_c08_a_reply_in_any_pieces_proves_and_a_wrong_one_ends_its_candidate_alone() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 3).await;
        client.offer(b"hello");
        peers[0].offer(b"XXXX");
        kit.quiet().await;
        assert!(!peers[0].is_dropped(), "looked at when all five are there");
        peers[0].offer(b"X");
        peers[1].offer(b"FISH ");
        kit.quiet().await;
        assert!(peers[0].is_dropped() && peers[1].is_dropped());
        assert!(!client.is_dropped());
        for byte in PROOF {
            assert_eq!(peers[2].held(), 0);
            peers[2].offer(&[*byte]);
            kit.quiet().await;
        }
        assert_eq!(peers[2].take(), b"hello");
        assert_eq!(client.written(), 0, "the handshake is not for the client");
        lost(&kit, "bad-reply", 2);
        outcome(&kit, "won", 1);
    });
}

#[test]
fn fisher_c09_bytes_that_come_with_the_reply_are_the_clients() {
    run(async |kit| {
        for (size, pieces) in [(1, 6), (3, 2), (40_000, usize::MAX), (3_000_000, usize::MAX)] {
            let (_, client, peers) = cast(&kit, 2).await;
            peers[0].read_at_most(pieces);
            peers[0].offer(&[PROOF, &bytes(size)].concat());
            kit.quiet().await;
            assert!(client.take() == bytes(size), "{size}");
            assert_eq!(peers[0].held(), 0);
        }
    });
}

#[test]
fn fisher_c12_a_candidate_that_closes_or_is_refused_leaves_the_others_in_the_race() {
    run(async |kit| {
        for plan in [Outcome::REFUSED, Outcome::Up, Outcome::Up, Outcome::UpAfter(SECOND)] {
            kit.dials.plan(plan);
        }
        let (_, client) = kit.open(&fisher(&kit, 4));
        client.offer(b"hello");
        kit.quiet().await;
        kit.dials.peer(1).end();
        kit.dials.peer(2).reset();
        kit.quiet().await;
        assert!(kit.dials.peer(1).is_dropped() && kit.dials.peer(2).is_dropped());
        lost(&kit, "closed", 3);
        kit.pass(SECOND).await;
        kit.dials.peer(3).offer(PROOF);
        kit.quiet().await;
        assert_eq!(kit.dials.peer(3).take(), b"FISH?hello");
        lost(&kit, "closed", 3);
        lost(&kit, "outrun", 0);
    });
}

#[test]
fn fisher_c12_when_all_have_closed_the_line_ends_at_once() {
    run(async |kit| {
        for plan in [
            Outcome::REFUSED,
            Outcome::Fails(io::ErrorKind::ConnectionRefused, SECOND),
            Outcome::FailsAtOnce(io::ErrorKind::NetworkUnreachable),
        ] {
            kit.dials.plan(plan);
        }
        let (_, client) = kit.open(&fisher(&kit, 3));
        client.offer(b"queued");
        kit.pass(Duration::from_millis(990)).await;
        assert!(!client.is_dropped());
        kit.pass(Duration::from_millis(20)).await;
        assert!(client.is_dropped());
        kit.assert_empty().await;
        lost(&kit, "closed", 3);
        outcome(&kit, "failed", 1);
        kit.assert_closed("connect-failed", 1);
    });
}

#[test]
fn fisher_c15_of_several_that_prove_themselves_in_one_instant_one_wins_and_none_is_reset() {
    run(async |kit| {
        for _ in 0..20 {
            let (_, client, peers) = cast(&kit, 3).await;
            client.offer(b"for one");
            for (peer, letter) in peers.iter().zip(["A", "B", "C"]) {
                peer.offer(&[PROOF, letter.as_bytes()].concat());
            }
            kit.quiet().await;
            let got = client.take();
            let winner = b"ABC".iter().position(|letter| got == [*letter]).expect("one letter");
            for (at, peer) in peers.iter().enumerate() {
                let wanted: &[u8] = if at == winner { b"for one" } else { b"" };
                assert_eq!((peer.take(), peer.is_dropped()), (wanted.to_vec(), at != winner));
                assert_eq!(peer.is_shut_down(), at != winner, "closed in order, before anything");
            }
            client.end();
            peers[winner].end();
            kit.assert_empty().await;
        }
        lost(&kit, "outrun", 40);
        outcome(&kit, "won", 20);
    });
}

#[test]
fn fisher_c15_a_proof_behind_the_choice_changes_nothing() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND * 2));
        kit.dials.plan(Outcome::Up);
        let (_, client) = kit.open(&fisher(&kit, 2));
        kit.quiet().await;
        let (slow, quick) = (kit.dials.peer(0), kit.dials.peer(1));
        slow.offer(PROOF);
        quick.offer(PROOF);
        kit.quiet().await;
        assert_eq!((kit.dials.pending(), slow.is_dropped()), (0, true), "its connect is given up");
        kit.pass(SECOND * 3).await;
        client.offer(b"hello");
        kit.quiet().await;
        assert_eq!((quick.take(), slow.written()), (b"FISH?hello".to_vec(), 0));
    });
}
