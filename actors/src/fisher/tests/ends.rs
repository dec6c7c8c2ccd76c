//! How races and what they became end: C14, C19, L04, L09, panics, reload, drain, supervisor.

use std::time::Duration;

use lineway_wire::line::FinishReason;

use super::{PROBE, PROOF, SECOND, WATCHED, bytes, cast, fisher, lost, outcome};
use crate::messages::{Snapshot, WatchAgain};
use crate::registry::{LineId, LineState};
use crate::testkit::{Kit, Outcome, Peer, run};
use crate::worker::{Control, timers};

/// The lines that this one made, in order.
fn candidates(kit: &Kit, line: LineId) -> Vec<LineId> {
    let mut made: Vec<_> = kit.board.registry.snapshot();
    made.retain(|view| view.maker == Some(line));
    made.sort_by_key(|view| view.id.number);
    made.iter().map(|view| view.id).collect()
}

fn all_closed(peers: &[Peer]) {
    for peer in peers {
        assert!(peer.is_dropped() && peer.held() == 0, "{peer:?}");
    }
}

#[test]
fn fisher_c14_a_reset_of_the_client_closes_every_candidate_and_sends_them_nothing() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 3).await;
        client.reset();
        kit.quiet().await;
        all_closed(&peers);
        kit.assert_empty().await;
        lost(&kit, "cancelled", 3);
        outcome(&kit, "cancelled", 1);
        kit.assert_closed("peer-finished", 1);
    });
}

#[test]
fn fisher_c14_a_reset_is_seen_though_the_source_is_paused() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        client.offer(b"queued");
        kit.quiet().await;
        client.reset();
        kit.pass(Duration::from_millis(1100)).await;
        all_closed(&peers);
        kit.assert_empty().await;
    });
}

#[test]
fn fisher_c14_l09_an_end_with_nothing_queued_cancels_the_race_and_connects_that_wait() {
    run(async |kit| {
        kit.dials.plan(Outcome::Up);
        kit.dials.plan(Outcome::Hangs);
        let (_, client) = kit.open(&fisher(&kit, 2));
        kit.quiet().await;
        client.end();
        kit.quiet().await;
        assert!(client.is_dropped() && kit.dials.peer(0).is_dropped());
        assert_eq!(kit.dials.pending(), 0);
        kit.assert_empty().await;
        outcome(&kit, "cancelled", 1);
    });
}

#[test]
fn fisher_c14_a_half_close_waits_behind_the_payload_and_goes_to_the_winner_alone() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        client.offer(&bytes(300_000));
        client.end();
        kit.pass(SECOND * 4).await;
        assert!(!client.is_dropped() && !peers[0].is_shut_down() && !peers[1].is_shut_down());
        peers[1].window(1000);
        peers[1].offer(PROOF);
        kit.quiet().await;
        assert!(!peers[1].is_shut_down(), "the end overtook bytes");
        peers[1].open_window();
        kit.quiet().await;
        assert!(peers[1].take() == bytes(300_000));
        assert!(peers[1].is_shut_down() && !client.is_dropped());
        kit.pass(SECOND * 60).await;
        peers[1].offer(b"the answer");
        peers[1].end();
        kit.quiet().await;
        assert_eq!(client.take(), b"the answer");
        assert!(client.is_shut_down());
        kit.assert_empty().await;
        kit.assert_closed("peer-finished", 1);
    });
}

#[test]
fn fisher_c14_a_half_close_without_a_winner_ends_with_the_race() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        client.offer(b"queued");
        client.end();
        kit.pass(Duration::from_millis(5010)).await;
        assert!(client.is_dropped());
        all_closed(&peers);
        kit.assert_empty().await;
        kit.assert_closed("timeout", 1);
    });
}

#[test]
fn fisher_c19_what_the_winner_does_reaches_the_client_and_the_other_way_round() {
    run(async |kit| {
        for winner_first in [true, false] {
            let (id, client, peers) = cast(&kit, 2).await;
            peers[0].offer(PROOF);
            kit.reported().await;
            assert_eq!(kit.line(id).map(|line| line.state()), Some(LineState::Open));
            assert_eq!(candidates(&kit, id).len(), 1, "the winner stays, the loser is gone");
            kit.assert_metric(r#"lineway_actors_alive{kind="child-line"}"#, 0);
            client.window(0);
            peers[0].window(0);
            client.offer(&bytes(900_000));
            peers[0].offer(&bytes(900_000));
            kit.quiet().await;
            assert!(client.offered() > 0 && peers[0].offered() > 0, "T04 both ways");
            client.open_window();
            peers[0].open_window();
            kit.quiet().await;
            assert!(client.take() == bytes(900_000) && peers[0].take() == bytes(900_000));
            let (first, second) =
                if winner_first { (&peers[0], &client) } else { (&client, &peers[0]) };
            first.end();
            kit.quiet().await;
            assert!(second.is_shut_down() && !second.is_dropped());
            second.end();
            kit.quiet().await;
            assert!(first.is_shut_down() && first.is_dropped() && second.is_dropped());
            kit.assert_empty().await;
        }
        kit.assert_closed("peer-finished", 2);
        let children =
            r#"lineway_lines_closed_total{kind="child",node="fish",reason="peer-finished"}"#;
        kit.assert_metric(children, 4);
    });
}

#[test]
fn fisher_c19_a_reset_of_the_winner_ends_the_line_and_one_of_the_client_the_winner() {
    run(async |kit| {
        for winner_first in [true, false] {
            let (_, client, peers) = cast(&kit, 2).await;
            peers[0].offer(PROOF);
            kit.quiet().await;
            let (first, second) =
                if winner_first { (&peers[0], &client) } else { (&client, &peers[0]) };
            first.reset();
            kit.quiet().await;
            assert!(first.is_dropped() && second.is_dropped());
            kit.assert_empty().await;
        }
    });
}

#[test]
fn fisher_c19_a_winner_that_ends_behind_its_proof_still_wins_and_its_bytes_are_delivered() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        client.offer(b"question");
        peers[0].offer(b"FISH!answer");
        peers[0].end();
        kit.quiet().await;
        assert_eq!((client.take(), peers[0].take()), (b"answer".to_vec(), b"question".to_vec()));
        assert!(client.is_shut_down());
        client.end();
        kit.quiet().await;
        assert!(peers[0].is_shut_down());
        kit.assert_empty().await;
    });
}

#[test]
fn fisher_l04_an_operator_ends_a_candidate_or_the_winner_by_its_own_id() {
    run(async |kit| {
        let finish = |id| kit.actor.send(Control::FinishLine(id, FinishReason::Admin));
        let (id, client, peers) = cast(&kit, 2).await;
        let ids = candidates(&kit, id);
        client.offer(b"hello");
        assert_eq!(finish(ids[0]).await, Ok(1));
        kit.reported().await;
        assert_eq!(candidates(&kit, id), [ids[1]]);
        assert!(peers[0].is_dropped() && !peers[1].is_dropped() && !client.is_dropped());
        lost(&kit, "closed", 1);
        peers[1].offer(PROOF);
        kit.reported().await;
        assert_eq!(peers[1].take(), b"hello");
        assert_eq!(finish(ids[0]).await, Ok(0), "it is gone");
        assert_eq!(finish(ids[1]).await, Ok(1));
        kit.quiet().await;
        assert!(peers[1].is_dropped() && client.is_dropped());
        kit.assert_empty().await;
        kit.assert_closed("admin", 1);
        let child = r#"lineway_lines_closed_total{kind="child",node="fish",reason="admin"}"#;
        kit.assert_metric(child, 2);
    });
}

#[test]
fn fisher_l04_an_operator_ends_every_candidate_or_the_main_line_during_the_race() {
    run(async |kit| {
        for main in [true, false] {
            let (id, client, peers) = cast(&kit, 3).await;
            client.offer(b"queued");
            kit.quiet().await;
            let ids = if main { vec![id] } else { candidates(&kit, id) };
            for id in ids {
                assert!(kit.worker.finish_line(id, FinishReason::Admin));
            }
            kit.quiet().await;
            assert!(client.is_dropped(), "{main}");
            all_closed(&peers);
            kit.assert_empty().await;
            kit.assert_metric(WATCHED, 0);
        }
        kit.assert_closed("admin", 2);
    });
}

#[test]
fn fisher_a_panic_of_a_candidate_leaves_the_others_and_one_of_the_main_line_nobody() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 3).await;
        client.offer(b"hello");
        peers[0].explode();
        kit.reported().await;
        assert!(peers[0].is_dropped() && !client.is_dropped());
        kit.assert_metric(r#"lineway_actor_panics_total{kind="child-line"}"#, 1);
        lost(&kit, "closed", 1);
        peers[1].offer(PROOF);
        kit.quiet().await;
        assert_eq!(peers[1].take(), b"hello");
        // The winner's socket is the main line's.
        peers[1].explode();
        kit.quiet().await;
        assert!(client.is_dropped() && peers[1].is_dropped() && peers[2].is_dropped());
        kit.assert_empty().await;
        kit.assert_closed("panic", 1);
        let (_, client, peers) = cast(&kit, 2).await;
        client.explode();
        kit.quiet().await;
        assert!(client.is_dropped());
        all_closed(&peers);
        kit.assert_empty().await;
        kit.assert_closed("panic", 2);
        let (_, client, peers) = cast(&kit, 2).await;
        peers.iter().for_each(Peer::explode);
        kit.quiet().await;
        assert!(client.is_dropped());
        kit.assert_empty().await;
        kit.assert_closed("panic", 3);
    });
}

#[test]
fn fisher_a_supervisor_that_was_started_again_knows_the_race_and_its_deadline() {
    run(async |kit| {
        let (id, client, _) = cast(&kit, 2).await;
        kit.board.supervisor.snapshot(Snapshot {
            worker: 0,
            lines: Vec::new(),
            deadlines: Vec::new(),
            leases: Vec::new(),
        });
        kit.quiet().await;
        kit.assert_metric(WATCHED, 0);
        kit.actor.send(WatchAgain).await.expect("the worker lives");
        kit.reported().await;
        kit.assert_metric(WATCHED, 1);
        assert_eq!(candidates(&kit, id).len(), 2);
        kit.pass(SECOND * 5).await;
        assert!(client.is_dropped());
        kit.assert_empty().await;
        kit.assert_closed("timeout", 1);
    });
}

#[test]
fn fisher_c13_a_supervisor_that_says_nothing_costs_one_second() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        kit.board.supervisor.snapshot(Snapshot {
            worker: 0,
            lines: Vec::new(),
            deadlines: Vec::new(),
            leases: Vec::new(),
        });
        kit.pass(Duration::from_millis(5900)).await;
        assert!(!client.is_dropped());
        kit.pass(Duration::from_millis(100)).await;
        assert!(client.is_dropped());
        all_closed(&peers);
        outcome(&kit, "timeout", 1);
    });
}

#[test]
fn fisher_a_drain_ends_a_race_at_once_and_a_reload_lets_it_go_on() {
    run(async |kit| {
        let (_, client, peers) = cast(&kit, 2).await;
        client.offer(b"queued");
        kit.quiet().await;
        assert_eq!(kit.worker.finish_lines(FinishReason::Drain, |_| true), 1, "main lines alone");
        kit.quiet().await;
        assert!(client.is_dropped());
        all_closed(&peers);
        kit.assert_empty().await;
        kit.assert_closed("drain", 1);
        let chain = fisher(&kit, 2);
        let before = kit.dials.len();
        let (_, client) = kit.open(&chain);
        kit.quiet().await;
        chain.retired.set(Some(timers::now()));
        kit.dials.peer(before + 1).offer(PROOF);
        client.offer(b"hello");
        kit.quiet().await;
        assert_eq!(kit.dials.peer(before + 1).take(), [PROBE, b"hello"].concat());
        assert_eq!(kit.worker.finish_lines(FinishReason::Drain, |c| c.retired.get().is_some()), 1);
        kit.quiet().await;
        assert!(client.is_dropped());
        kit.assert_empty().await;
        kit.assert_closed("drain", 2);
    });
}

#[test]
fn fisher_without_descriptors_a_line_has_fewer_candidates_and_gives_all_of_them_back() {
    run(async |kit| {
        let taken = kit.board.descriptors.take(1000 - 3);
        let (_, client) = kit.open(&fisher(&kit, 5));
        kit.quiet().await;
        assert_eq!((kit.dials.len(), kit.board.descriptors.free()), (2, 0));
        drop(taken);
        kit.dials.peer(1).offer(PROOF);
        client.offer(b"hello");
        kit.quiet().await;
        assert_eq!(kit.dials.peer(1).take(), [PROBE, b"hello"].concat());
        client.reset();
        kit.assert_empty().await;
    });
}
