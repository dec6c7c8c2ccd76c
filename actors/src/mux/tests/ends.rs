//! M18 to M20, M30, M31: how children end.

use lineway_wire::mux::FrameKind;

use super::{
    MILLI, SECOND, Wire, accept, begun, bytes, client, client_with, ended, far, fixed, leave, near,
    open, server,
};
use crate::testkit::run;

#[test]
fn mux_m18_crossing_closes_are_normal_and_a_close_is_not_answered() {
    run(async |kit| {
        let (clients, mut wire) = begun(&kit, client(fixed(1)), 2).await;
        clients[0].reset();
        wire.send(FrameKind::Close, 1);
        wire.send(FrameKind::Close, 2);
        kit.quiet().await;
        assert!(wire.frames().len() <= 1, "at most the one that crosses");
        assert!(clients[1].is_shut_down());
        clients[1].end();
        wire.send(FrameKind::Close, 1);
        kit.quiet().await;
        assert!(wire.frames().is_empty());
        leave(&kit).await;
    });
}

#[test]
fn mux_m19_close_stands_behind_the_data_before_it() {
    run(async |kit| {
        let clients = open(&kit, &near(&kit, client(fixed(1))), 1);
        kit.quiet().await;
        let wire = Wire::dialled(&kit, 0);
        clients[0].window(0);
        wire.data(1, &bytes(2_000_000));
        wire.send(FrameKind::Close, 1);
        kit.pass(SECOND * 5).await;
        assert!(!clients[0].is_shut_down());
        clients[0].open_window();
        kit.quiet().await;
        assert!(clients[0].take() == bytes(2_000_000));
        assert!(clients[0].is_shut_down());
        clients[0].end();
        leave(&kit).await;
        kit.assert_closed("peer-finished", 1);
    });
}

#[test]
fn mux_m20_a_lost_parent_still_delivers_what_came_and_a_paused_child_drains_by_itself() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let clients = open(&kit, &chain, 2);
        kit.quiet().await;
        let wire = Wire::dialled(&kit, 0);
        clients[0].window(0);
        wire.data(1, &bytes(2_000_000));
        wire.data(2, b"last words");
        wire.peer.offer(&super::data(2, b"incomplete")[..11]);
        kit.quiet().await;
        wire.peer.end();
        kit.quiet().await;
        assert!(wire.peer.is_dropped());
        assert_eq!(clients[1].take(), b"last words");
        assert!(clients[1].is_shut_down());
        clients[1].end();
        kit.reported().await;
        kit.assert_metric(r#"lineway_mux_parents_open{node="mux"}"#, 1);
        // M13: it is out of the pool.
        let young = open(&kit, &chain, 1);
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 2);
        let mut got = Vec::new();
        while got.len() < 2_000_000 {
            kit.pass(SECOND).await;
            got.extend(clients[0].take());
            clients[0].window(300_000);
        }
        assert!(got == bytes(2_000_000));
        kit.quiet().await;
        assert!(clients[0].is_shut_down());
        clients[0].end();
        kit.reported().await;
        kit.assert_metric(r#"lineway_mux_parents_open{node="mux"}"#, 1);
        young[0].reset();
        kit.pass(SECOND * 2).await;
        leave(&kit).await;
        ended(&kit, "mux", "parent-lost", 2);
    });
}

#[test]
fn mux_m30_two_lineways_half_close_in_either_order() {
    run(async |kit| {
        let (_, mut wire) = accept(&kit, &far(&kit, server()));
        for cid in [1, 2] {
            wire.send_marked(FrameKind::Open, cid);
        }
        kit.quiet().await;
        assert_eq!(wire.frames(), ["flow-resume+ 1", "flow-resume+ 2"]);
        let [first, second] = [0, 1].map(|at| kit.dials.peer(at));
        wire.data(1, b"question");
        wire.send(FrameKind::Fin, 1);
        second.offer(b"bye");
        second.end();
        kit.quiet().await;
        assert_eq!(first.take(), b"question");
        assert!(first.is_shut_down());
        assert_eq!(wire.frames(), ["data 2 bye", "fin 2"]);
        kit.pass(SECOND * 100).await;
        first.offer(b"answer");
        first.end();
        wire.data(2, b"and more");
        wire.send(FrameKind::Fin, 2);
        kit.quiet().await;
        assert_eq!(wire.frames(), ["data 1 answer", "fin 1"]);
        assert_eq!(second.take(), b"and more");
        assert!(second.is_dropped() && first.is_dropped());
        leave(&kit).await;
        ended(&kit, "demux", "finished", 2);
    });
}

#[test]
fn mux_m30_a_reset_is_close_also_behind_an_agreement() {
    run(async |kit| {
        let clients = open(&kit, &near(&kit, client(fixed(1))), 2);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        wire.send_marked(FrameKind::FlowResume, 1);
        kit.quiet().await;
        wire.frames();
        clients[0].reset();
        clients[1].end();
        kit.quiet().await;
        let mut frames = wire.frames();
        frames.sort();
        assert_eq!(frames, ["close 1", "fin 2"]);
        // Half of it is over, and the client resets then: its socket is looked at.
        clients[1].reset();
        kit.pass(SECOND * 2).await;
        assert_eq!(wire.frames(), ["close 2"]);
        leave(&kit).await;
        ended(&kit, "mux", "reset", 2);
    });
}

#[test]
fn mux_m31_without_agreement_the_child_is_kept_for_the_reply_alone() {
    run(async |kit| {
        let (clients, mut wire) = begun(&kit, client(fixed(1)), 3).await;
        for client in &clients {
            client.offer(b"question");
            client.end();
        }
        kit.quiet().await;
        assert!(wire.frames().iter().all(|frame| frame.starts_with("data")));
        kit.pass(MILLI * 1900).await;
        wire.data(1, b"one");
        wire.send(FrameKind::Close, 3);
        kit.pass(MILLI * 200).await;
        assert_eq!(wire.frames(), ["close 2"], "no byte came for 2 seconds");
        kit.pass(MILLI * 1700).await;
        assert!(wire.frames().is_empty());
        wire.data(1, b" two");
        wire.send(FrameKind::Close, 1);
        kit.quiet().await;
        assert_eq!(clients[0].take(), b"one two");
        assert!(clients.iter().all(super::Peer::is_dropped));
        leave(&kit).await;
        ended(&kit, "mux", "half-close-timeout", 1);
        kit.assert_closed("timeout", 1);
        kit.assert_closed("peer-finished", 2);
    });
}

#[test]
fn mux_m31_more_than_1024_on_a_worker_close_the_oldest_over_all_parents() {
    run(async |kit| {
        let mux = client_with(fixed(3), |mux| mux.mux.half_close = false);
        let clients = open(&kit, &near(&kit, mux), 1030);
        kit.quiet().await;
        let mut wires: Vec<_> = (0..3).map(|at| Wire::dialled(&kit, at)).collect();
        for (at, client) in clients.iter().enumerate() {
            client.end();
            if at < 10 {
                kit.quiet().await;
            }
        }
        // Within the two seconds, so that no other limit ends any.
        kit.quiet().await;
        let mut closes = 0;
        for wire in &mut wires {
            let frames = wire.frames();
            assert!(frames.iter().all(|frame| !frame.contains('+')), "no mark without half-close");
            closes += frames.iter().filter(|frame| frame.starts_with("close")).count();
        }
        assert_eq!(closes, 6);
        let early: Vec<_> = (0..1030).filter(|at| clients[*at].is_dropped()).collect();
        assert_eq!(early, [0, 1, 2, 3, 4, 5]);
        ended(&kit, "mux", "half-close-limit", 6);
        kit.pass(SECOND * 3).await;
        ended(&kit, "mux", "half-close-timeout", 1024);
        leave(&kit).await;
        kit.assert_closed("overflow", 6);
    });
}
