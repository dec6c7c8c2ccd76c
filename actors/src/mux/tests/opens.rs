//! M07, M08, M15, L09: how a child comes to its Open.

use lineway_wire::mux::FrameKind;

use super::{MILLI, SECOND, Wire, client, ended, fixed, leave, near, open};
use crate::registry::LineState;
use crate::settings::NodeSettings;
use crate::testkit::{Kit, Outcome, Peer, run, settings};

#[test]
fn mux_m15_open_goes_out_at_once_and_est_with_it() {
    run(async |kit| {
        kit.dials.plan(Outcome::UpAfter(SECOND));
        let (id, client) = kit.open(&near(&kit, client(fixed(1))));
        kit.reported().await;
        let state = || kit.line(id).map(|view| view.state());
        assert_ne!(state(), Some(LineState::Open));
        kit.pass(SECOND).await;
        assert_eq!(state(), Some(LineState::Open));
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1"]);
        wire.data(1, b"220 ready");
        kit.quiet().await;
        assert_eq!(client.take(), b"220 ready", "a service that speaks first");
        wire.send(FrameKind::Close, 1);
        client.end();
        kit.quiet().await;
        assert!(wire.frames().is_empty(), "a Close is not answered");
        assert!(client.is_shut_down() && client.is_dropped());
        leave(&kit).await;
        ended(&kit, "mux", "peer-closed", 1);
        kit.assert_closed("peer-finished", 1);
    });
}

#[test]
fn mux_m15_open_and_the_payload_of_the_same_turn_share_a_write() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        // The parent is up.
        let first = open(&kit, &chain, 1);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1"]);
        wire.peer.write_at_most(8 + 8 + 5);
        wire.peer.window(8 + 8 + 5);
        let (_, client) = kit.open(&chain);
        client.offer(b"hello");
        kit.quiet().await;
        assert_eq!(wire.frames(), ["open+ 2", "data 2 hello"]);
        for client in first.iter().chain([&client]) {
            client.reset();
        }
        wire.peer.open_window();
        kit.pass(SECOND * 2).await;
        assert_eq!(wire.frames(), ["close 1", "close 2"]);
        leave(&kit).await;
        ended(&kit, "mux", "reset", 2);
    });
}

#[test]
fn mux_m15_opens_and_their_est_wait_for_a_transport_that_takes_nothing() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let first = open(&kit, &chain, 1);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        wire.frames();
        wire.peer.window(100);
        first[0].offer(&[b'x'; 1000]);
        kit.quiet().await;
        let (id, second) = kit.open(&chain);
        second.offer(b"second");
        kit.reported().await;
        let state = || kit.line(id).map(|view| view.state());
        assert_ne!(state(), Some(LineState::Open));
        assert_eq!(wire.peer.held(), 100);
        wire.peer.open_window();
        kit.quiet().await;
        assert_eq!(state(), Some(LineState::Open));
        assert_eq!(wire.frames(), ["data 1 of 1000", "open+ 2", "data 2 second"]);
        finish(&kit, &mut wire, &[&first[0], &second]).await;
    });
}

/// Clients end and the peer closes their children.
async fn finish(kit: &Kit, wire: &mut Wire, clients: &[&Peer]) {
    for (at, client) in clients.iter().enumerate() {
        wire.send(FrameKind::Close, at as u32 + 1);
        client.end();
    }
    leave(kit).await;
    assert!(wire.frames().is_empty());
}

#[test]
fn mux_m08_more_children_than_a_lease_has_numbers_get_theirs_in_order() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let clients = open(&kit, &chain, 1500);
        kit.reported().await;
        let mut wire = Wire::dialled(&kit, 0);
        let wanted: Vec<_> = (1..=1500).map(|cid| format!("open+ {cid}")).collect();
        kit.reported().await;
        assert_eq!(wire.frames(), wanted);
        kit.assert_metric(r#"lineway_mux_cids_used{node="mux"}"#, 1500);
        // Half of the second lease is 1536.
        kit.assert_metric(r#"lineway_mux_cids_leased{node="mux"}"#, 2048);
        for client in &clients {
            client.reset();
        }
        kit.pass(SECOND * 2).await;
        assert_eq!(wire.frames().len(), 1500);
        leave(&kit).await;
    });
}

#[test]
fn mux_m08_a_child_without_a_number_waits_without_open_for_the_next_supervisor() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        let first = open(&kit, &chain, 600);
        // Dead before it reads a request.
        kit.board.supervisor.explode();
        let more = open(&kit, &chain, 600);
        kit.quiet().await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames().len(), 1024);
        more[599].offer(b"late");
        kit.quiet().await;
        assert!(wire.frames().is_empty());
        kit.pass(SECOND).await;
        let wanted: Vec<_> = (1025..=1200).map(|cid| format!("open+ {cid}")).collect();
        let mut frames = wire.frames();
        assert_eq!(frames.pop().as_deref(), Some("data 1200 late"));
        assert_eq!(frames, wanted);
        kit.assert_metric(r#"lineway_mux_cids_leased{node="mux"}"#, 2048);
        for client in first.iter().chain(&more) {
            client.reset();
        }
        kit.pass(SECOND * 2).await;
        leave(&kit).await;
    });
}

#[test]
fn line_l09_a_client_that_ends_before_its_parent_is_up() {
    run(async |kit| {
        let chain = near(&kit, client(fixed(1)));
        kit.dials.plan(Outcome::UpAfter(SECOND * 3));
        let clients = open(&kit, &chain, 3);
        kit.quiet().await;
        clients[0].end();
        clients[1].offer(b"question");
        clients[1].end();
        clients[2].offer(b"lost");
        kit.quiet().await;
        clients[2].reset();
        kit.pass(SECOND * 2).await;
        assert!(clients[0].is_dropped(), "nothing was queued");
        assert!(clients[2].is_dropped(), "a reset ends it at once");
        assert!(!clients[1].is_dropped());
        kit.pass(SECOND).await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1", "data 1 question"]);
        wire.send_marked(FrameKind::FlowResume, 1);
        wire.data(1, b"answer");
        kit.quiet().await;
        assert_eq!(wire.frames(), ["fin 1"]);
        assert_eq!(clients[1].take(), b"answer");
        wire.send(FrameKind::Fin, 1);
        kit.quiet().await;
        assert!(clients[1].is_shut_down() && clients[1].is_dropped());
        assert!(wire.frames().is_empty(), "after two Fins no Close is sent");
        leave(&kit).await;
    });
}

#[test]
fn tcp_t06_a_child_has_the_idle_times_of_its_listener_and_a_parent_none() {
    run(async |kit| {
        let entry = settings::node("in", settings::listener(([192, 0, 2, 9], 1).into()), None);
        let NodeSettings::TcpConnector(mut out) =
            settings::connector(([198, 51, 100, 1], 1).into())
        else {
            return;
        };
        out.idle_timeout = lineway_wire::units::Millis::new(1000);
        let out = settings::node("out", NodeSettings::TcpConnector(out), None);
        let chain = kit.chain(vec![entry, client(fixed(1)), out]);
        let clients = open(&kit, &chain, 2);
        clients[1].offer(b"x");
        kit.pass(SECOND * 5 + MILLI * 10).await;
        assert!(clients[0].is_dropped(), "the listener's initial limit");
        assert!(!clients[1].is_dropped());
        kit.pass(SECOND * 295).await;
        assert!(clients[1].is_dropped(), "the listener's active limit");
        kit.pass(SECOND * 10_000).await;
        let mut wire = Wire::dialled(&kit, 0);
        assert_eq!(wire.frames(), ["open+ 1", "open+ 2", "data 2 x", "close 1", "close 2"]);
        assert!(!wire.peer.is_dropped());
        kit.assert_closed("idle", 2);
        ended(&kit, "mux", "line-ended", 2);
        leave(&kit).await;
    });
}
