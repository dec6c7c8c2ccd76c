//! M16, M17, M32: the children of a MuxServer.

use std::io;

use lineway_wire::line::FinishReason;
use lineway_wire::mux::FrameKind;

use super::{
    MILLI, SECOND, accept, connector, data, ended, entry, far, leave, server, server_with,
};
use crate::settings::{FisherServerSettings, NodeSettings};
use crate::testkit::{Outcome, run, settings};

#[test]
fn mux_m16_m17_the_lazy_form_and_an_open_that_is_closed_at_once() {
    run(async |kit| {
        let (_, mut wire) = accept(&kit, &far(&kit, server()));
        kit.dials.plan(Outcome::UpAfter(SECOND));
        wire.send(FrameKind::Open, 9);
        wire.data(9, b"hello");
        wire.send(FrameKind::Open, 0);
        wire.send(FrameKind::Close, 0);
        kit.quiet().await;
        assert_eq!(kit.dials.pending(), 1, "the dial of one that is gone is given up");
        kit.pass(SECOND).await;
        let backend = kit.dials.peer(0);
        assert_eq!(backend.take(), b"hello");
        backend.offer(b"answer");
        backend.end();
        kit.quiet().await;
        // M31: this peer did not agree, so an end of input is Close, behind its Data.
        assert_eq!(wire.frames(), ["data 9 answer", "close 9"]);
        assert!(backend.is_shut_down() && backend.is_dropped());
        wire.peer.end();
        kit.quiet().await;
        kit.assert_empty().await;
        kit.assert_closed("peer-finished", 1);
        ended(&kit, "demux", "finished", 1);
        ended(&kit, "demux", "peer-closed", 1);
    });
}

#[test]
fn mux_m17_a_refused_backend_is_close_at_once() {
    run(async |kit| {
        let (_, mut wire) = accept(&kit, &far(&kit, server()));
        kit.dials.plan(Outcome::REFUSED);
        kit.dials.plan(Outcome::FailsAtOnce(io::ErrorKind::HostUnreachable));
        for cid in [5, 6] {
            wire.send_marked(FrameKind::Open, cid);
            wire.data(cid, b"hello");
        }
        kit.quiet().await;
        let frames = wire.frames();
        assert_eq!(frames, ["flow-resume+ 5", "flow-resume+ 6", "close 5", "close 6"]);
        leave(&kit).await;
        ended(&kit, "demux", "refused", 2);
    });
}

#[test]
fn mux_m32_an_open_beyond_the_limit_gets_close_and_dials_nothing() {
    run(async |kit| {
        let (_, mut wire) = accept(&kit, &far(&kit, server_with(|mux| mux.max_children = 2)));
        for cid in 1..=4 {
            wire.send(FrameKind::Open, cid);
        }
        kit.reported().await;
        assert_eq!(wire.frames(), ["close 3", "close 4"]);
        assert_eq!(kit.dials.len(), 2);
        wire.send(FrameKind::Close, 1);
        wire.send(FrameKind::Open, 5);
        kit.reported().await;
        assert_eq!((wire.frames().len(), kit.dials.len()), (0, 3));
        ended(&kit, "demux", "max-children", 2);
        wire.peer.reset();
        kit.quiet().await;
        for at in 1..3 {
            assert!(kit.dials.peer(at).is_shut_down());
        }
        kit.pass(SECOND * 70).await;
        kit.assert_empty().await;
        ended(&kit, "demux", "parent-lost", 2);
    });
}

#[test]
fn mux_m32_a_peer_that_broke_ends_its_parent_though_control_frames_wait() {
    run(async |kit| {
        let (_, wire) = accept(&kit, &far(&kit, server_with(|mux| mux.max_children = 1)));
        wire.peer.window(0);
        for cid in 0..30_000 {
            wire.send(FrameKind::Open, cid);
        }
        kit.reported().await;
        assert!(wire.peer.offered() > 0, "it is not read");
        wire.peer.refuse_writes();
        wire.peer.end();
        kit.quiet().await;
        assert!(kit.dials.peer(0).is_shut_down(), "its child is over");
        kit.assert_empty().await;
        ended(&kit, "demux", "max-children", 29_999);
        ended(&kit, "demux", "parent-lost", 1);
    });
}

#[test]
fn mux_m05_frames_without_a_meaning_are_dropped_and_the_parent_lives_on() {
    run(async |kit| {
        let (_, mut wire) = accept(&kit, &far(&kit, server()));
        wire.peer.offer(&[0, 3, 77, 0, 0, 0, 0, 1, 1, 2, 3]);
        wire.data(8, b"nobody");
        wire.send(FrameKind::Close, 8);
        wire.send(FrameKind::Open, 1);
        wire.send(FrameKind::Open, 1);
        wire.peer.offer(&data(1, b""));
        wire.send(FrameKind::Fin, 1);
        wire.data(1, b"hello");
        kit.quiet().await;
        assert_eq!(kit.dials.len(), 1);
        assert_eq!(kit.dials.peer(0).take(), b"hello");
        assert!(wire.frames().is_empty());
        for (why, count) in
            [("unknown-flag", 1), ("unknown-cid", 2), ("open-live-cid", 1), ("empty-data", 1)]
        {
            let name = "lineway_mux_dropped_frames_total";
            kit.assert_metric(&format!(r#"{name}{{node="demux",reason="{why}"}}"#), count);
        }
        wire.send(FrameKind::Close, 1);
        kit.quiet().await;
        leave(&kit).await;
    });
}

#[test]
fn mux_m32_without_descriptors_a_child_is_refused_and_its_neighbours_go_on() {
    run(async |kit| {
        let (_, mut wire) = accept(&kit, &far(&kit, server()));
        wire.send(FrameKind::Open, 1);
        kit.quiet().await;
        let free = kit.board.descriptors.free();
        let all = kit.board.descriptors.take(u16::try_from(free).unwrap_or(0));
        assert!(all.is_some());
        wire.send(FrameKind::Open, 2);
        wire.data(1, b"hello");
        kit.quiet().await;
        assert_eq!(wire.frames(), ["close 2"]);
        assert_eq!((kit.dials.len(), kit.dials.peer(0).take()), (1, b"hello".to_vec()));
        drop(all);
        wire.send(FrameKind::Open, 3);
        kit.quiet().await;
        assert_eq!((kit.dials.len(), wire.frames().len()), (2, 0));
        for cid in [1, 3] {
            wire.send(FrameKind::Close, cid);
        }
        kit.quiet().await;
        leave(&kit).await;
    });
}

#[test]
fn mux_m17_a_child_that_an_operator_ends_is_close() {
    run(async |kit| {
        let (id, mut wire) = accept(&kit, &far(&kit, server()));
        wire.send(FrameKind::Open, 1);
        wire.send(FrameKind::Open, 2);
        kit.reported().await;
        let lines = kit.board.registry.snapshot();
        let child = lines.iter().find(|line| line.parent() == Some(id)).map(|line| line.id);
        assert!(kit.worker.finish_line(child.unwrap_or(id), FinishReason::Admin));
        kit.quiet().await;
        assert_eq!(wire.frames(), ["close 1"]);
        // A drained parent of a server opens nothing.
        assert!(kit.worker.finish_line(id, FinishReason::Admin));
        wire.send(FrameKind::Open, 3);
        kit.quiet().await;
        assert_eq!(wire.frames(), ["close 3"]);
        wire.send(FrameKind::Close, 2);
        kit.quiet().await;
        assert!(wire.peer.is_dropped());
        kit.assert_empty().await;
        ended(&kit, "demux", "admin", 1);
        ended(&kit, "demux", "drain", 1);
    });
}

#[test]
fn mux_m20_all_that_came_with_the_end_of_a_parent_is_delivered() {
    run(async |kit| {
        for probed in [false, true] {
            let before = kit.dials.len();
            let fisher = FisherServerSettings { server_first_delay: super::Millis::new(0) };
            let fisher = NodeSettings::ConnectionFisherServer(fisher);
            let fisher = settings::node("serve", fisher, Some("demux"));
            let mut nodes = vec![entry(), server(), connector()];
            if probed {
                nodes.insert(1, fisher);
            }
            let (_, wire) = accept(&kit, &kit.chain(nodes));
            if probed {
                wire.peer.offer(b"FISH?");
            }
            wire.send(FrameKind::Open, 1);
            wire.data(1, b"hello");
            wire.send(FrameKind::Open, 2);
            wire.data(2, b"world");
            // No whole frame: lost.
            wire.peer.offer(&data(2, b"incomplete")[..12]);
            wire.peer.end();
            kit.quiet().await;
            assert_eq!(kit.dials.len(), before + 2, "{probed}");
            for (at, said) in [(0, b"hello"), (1, b"world")] {
                let backend = kit.dials.peer(before + at);
                assert_eq!(backend.take(), said);
                assert!(backend.is_shut_down());
                backend.end();
            }
            kit.pass(MILLI * 10).await;
            kit.assert_empty().await;
        }
    });
}
