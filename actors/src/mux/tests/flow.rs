//! M21 to M29: backpressure from the client's socket to the wire and back, and credit.

use lineway_wire::mux::FrameKind;

use super::{
    MILLI, SECOND, Wire, accept, begun, buffers, bytes, client, client_with, data, ended, far,
    fixed, leave, server_with,
};
use crate::testkit::{Kit, run};

const PAUSES: &str = "lineway_mux_parent_pauses_total";
const QUEUED: &str = r#"lineway_mux_queued_bytes{node="mux"}"#;

/// What a socket and its line hold, and what is under way between line and parent.
const BEFORE: usize = (512 + 256 + 64) * 1024;

#[test]
fn mux_m21_m22_m23_a_paused_child_is_told_queued_and_drained_in_order() {
    run(async |kit| {
        let (clients, mut wire) = begun(&kit, client(fixed(1)), 2).await;
        clients[0].window(0);
        let sent = bytes(3_000_000);
        wire.data(1, &sent);
        kit.reported().await;
        // Before its line pauses, it may have taken the first of it.
        let mut told = wire.frames();
        assert_in_turn(&told, true);
        let queued = kit.metric(QUEUED) as usize;
        assert!(queued + BEFORE >= sent.len(), "{queued} wait in the parent");
        // M22: the other one goes on.
        wire.data(2, b"ping");
        clients[1].offer(b"pong");
        kit.quiet().await;
        assert_eq!(clients[1].take(), b"ping");
        assert_eq!(wire.frames(), ["data 2 pong"]);
        // M26: what is paused downstream goes on upstream.
        clients[0].offer(b"still heard");
        kit.quiet().await;
        assert_eq!(wire.frames(), ["data 1 still heard"]);
        let mut got = Vec::new();
        while got.len() < sent.len() {
            clients[0].window(50_000);
            let came = clients[0].take();
            assert!(!came.is_empty() || got.is_empty(), "{} of {}", got.len(), sent.len());
            got.extend(came);
            kit.quiet().await;
            let queued = kit.metric(QUEUED) as usize;
            for frame in wire.frames() {
                assert!(queued < 512 * 1024, "{frame} with {queued}");
                told.push(frame);
            }
        }
        assert!(got == sent);
        clients[0].open_window();
        // Its line may have paused again for what it was given.
        assert_in_turn(&told, false);
        let pauses = told.len() / 2;
        for (kind, direction) in [("flow-pause", "upstream"), ("flow-resume", "upstream")] {
            let name = "lineway_mux_frames_total";
            let labels = format!(r#"node="mux",direction="{direction}",kind="{kind}""#);
            kit.assert_metric(&format!("{name}{{{labels}}}"), pauses as u32);
        }
        finish(&kit, &wire, 2).await;
        super::end_all(&clients);
        leave(&kit).await;
    });
}

/// Each FlowPause of the first child has its FlowResume, but for the last if it is paused.
#[track_caller]
fn assert_in_turn(told: &[String], paused: bool) {
    let wanted = |at: usize| if at.is_multiple_of(2) { "flow-pause 1" } else { "flow-resume 1" };
    let in_turn = told.iter().enumerate().all(|(at, frame)| frame == wanted(at));
    assert!(in_turn && !told.is_empty() && told.len().is_multiple_of(2) != paused, "{told:?}");
}

async fn finish(kit: &Kit, wire: &Wire, children: u32) {
    for cid in 1..=children {
        wire.send(FrameKind::Close, cid);
    }
    kit.quiet().await;
}

#[test]
fn mux_m26_a_peer_that_pauses_a_child_stops_its_source_alone() {
    run(async |kit| {
        let (clients, mut wire) = begun(&kit, client(fixed(1)), 2).await;
        wire.send(FrameKind::FlowPause, 1);
        kit.quiet().await;
        for client in &clients {
            client.offer(b"hello");
        }
        kit.quiet().await;
        assert_eq!(wire.frames(), ["data 2 hello"]);
        assert_eq!(clients[0].offered(), 5, "its socket is not read");
        wire.send(FrameKind::FlowResume, 1);
        kit.quiet().await;
        assert_eq!(wire.frames(), ["data 1 hello"]);
        finish(&kit, &wire, 2).await;
        super::end_all(&clients);
        leave(&kit).await;
    });
}

#[test]
fn mux_m27_a_transport_that_takes_nothing_stops_those_that_write() {
    run(async |kit| {
        let (clients, mut wire) = begun(&kit, client(fixed(1)), 3).await;
        wire.peer.window(1000);
        clients[0].offer(&bytes(2_000_000));
        clients[1].offer(&bytes(20_000));
        kit.quiet().await;
        let read = clients[0].read() as usize;
        assert!(read < BEFORE + 256 * 1024, "{read} bytes of a writer wait");
        // M28: a control frame passes what waits, but for what is in the transport's queue.
        clients[2].window(0);
        wire.data(3, &bytes(900_000));
        kit.quiet().await;
        let mut ahead = 0;
        let (mut got, mut paused) = (Vec::new(), false);
        for _ in 0..5000 {
            for (header, payload) in wire.raw() {
                paused |= header.flags == FrameKind::FlowPause as u8;
                ahead += if paused { 0 } else { payload.len() };
                if header.cid == 1 {
                    got.extend(payload);
                }
            }
            kit.quiet().await;
        }
        assert!(paused && ahead <= 70_000, "{ahead} bytes went before it");
        assert!(got == bytes(2_000_000), "{}", got.len());
        for client in &clients {
            client.open_window();
        }
        kit.quiet().await;
        assert_eq!(clients[2].take(), bytes(900_000));
        finish(&kit, &wire, 3).await;
        super::end_all(&clients);
        leave(&kit).await;
    });
}

#[test]
fn mux_credit_never_more_than_its_mark_is_under_way_whatever_the_size_of_a_frame() {
    run(async |kit| {
        let (clients, wire) = begun(&kit, client(fixed(1)), 1).await;
        let sent = bytes(400_000);
        // Buffers, rather than bytes, are what many small frames use up.
        clients[0].window(100);
        for piece in sent.chunks(7) {
            wire.peer.offer(&data(1, piece));
        }
        kit.quiet().await;
        let mut got = Vec::new();
        while got.len() < sent.len() {
            got.extend(clients[0].take());
            clients[0].window(40_000);
            kit.quiet().await;
        }
        assert!(got == sent);
        finish(&kit, &wire, 1).await;
        clients[0].end();
        leave(&kit).await;
    });
}

#[test]
fn mux_m24_a_dead_reader_at_its_limit_is_ended_and_the_rest_goes_on() {
    run(async |kit| {
        let mux = client_with(fixed(1), |mux| buffers(&mut mux.mux, 1 << 20, 1 << 18));
        let (clients, mut wire) = begun(&kit, mux, 2).await;
        clients[0].window(0);
        wire.data(1, &bytes(3_000_000));
        wire.data(2, b"behind");
        kit.reported().await;
        // Once until its line was full as well, and then for good.
        kit.assert_metric(&format!(r#"{PAUSES}{{node="mux",reason="child-buffer"}}"#), 2);
        assert!(wire.peer.offered() > 0, "the parent is not read");
        assert_eq!(wire.frames(), ["flow-pause 1"]);
        // Upstream goes on (M32).
        clients[1].offer(b"up");
        kit.quiet().await;
        assert_eq!(wire.frames(), ["data 2 up"]);
        kit.pass(SECOND * 9).await;
        assert!(clients[1].take().is_empty());
        kit.pass(SECOND + MILLI * 50).await;
        assert_eq!(clients[1].take(), b"behind");
        assert_eq!(wire.frames(), ["close 1"]);
        clients[0].reset();
        kit.pass(SECOND * 2).await;
        ended(&kit, "mux", "overflow", 1);
        kit.assert_closed("overflow", 1);
        finish(&kit, &wire, 2).await;
        clients[1].end();
        leave(&kit).await;
    });
}

#[test]
fn mux_m24_a_reader_that_drains_is_left_alone_and_reading_goes_on() {
    run(async |kit| {
        let mux = client_with(fixed(1), |mux| buffers(&mut mux.mux, 1 << 20, 1 << 18));
        let (clients, wire) = begun(&kit, mux, 1).await;
        clients[0].window(0);
        let sent = bytes(4_000_000);
        wire.data(1, &sent);
        kit.quiet().await;
        let mut got = Vec::new();
        while got.len() < sent.len() {
            kit.pass(SECOND).await;
            got.extend(clients[0].take());
            clients[0].window(400_000);
        }
        assert!(got == sent);
        wire.send(FrameKind::Close, 1);
        clients[0].end();
        leave(&kit).await;
        ended(&kit, "mux", "overflow", 0);
    });
}

#[test]
fn mux_m25_all_queues_together_and_nobody_drains() {
    const SENT: [usize; 3] = [1_200_000, 1_300_000, 4_000_000];
    run(async |kit| {
        let server = server_with(|mux| {
            buffers(&mut mux.mux, 8 << 20, 1 << 18);
            mux.mux.parent_buffer_limit = Some(lineway_wire::units::ByteCount::new(2_600_000));
        });
        let (_, mut wire) = accept(&kit, &far(&kit, server));
        for cid in 1..=3 {
            wire.send(FrameKind::Open, cid);
            kit.quiet().await;
            kit.dials.peer(cid as usize - 1).window(0);
        }
        for cid in 1..=3 {
            wire.data(cid, &bytes(SENT[cid as usize - 1]));
            kit.quiet().await;
        }
        kit.reported().await;
        kit.assert_metric(&format!(r#"{PAUSES}{{node="demux",reason="parent-buffer"}}"#), 1);
        let mut frames = wire.frames();
        frames.sort();
        frames.dedup();
        frames.retain(|frame| frame.starts_with("flow-pause"));
        assert_eq!(frames, ["flow-pause 1", "flow-pause 2", "flow-pause 3"]);
        kit.pass(SECOND * 9).await;
        ended(&kit, "demux", "stalled", 0);
        kit.pass(SECOND + MILLI * 50).await;
        ended(&kit, "demux", "stalled", 1);
        assert_eq!(wire.frames(), ["close 3"], "the largest");
        wire.peer.end();
        kit.quiet().await;
        for (at, sent) in SENT.into_iter().enumerate() {
            let backend = kit.dials.peer(at);
            backend.open_window();
            kit.quiet().await;
            if at < 2 {
                assert!(backend.take() == bytes(sent), "{at}");
            }
            assert!(backend.is_shut_down());
            backend.end();
        }
        kit.pass(SECOND * 2).await;
        kit.assert_empty().await;
    });
}
