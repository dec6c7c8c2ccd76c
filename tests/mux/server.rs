//! The server of a mux against a client that the test plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::common::peers::{
    self, Far, Reserved, Silent, echo, finish, read, read_all, send, serve,
};
use crate::common::{Service, connector, listener};
use crate::far::{
    FLOW_RESUME, Frame, Peer, answer, asking, close, data, fin, flow_pause, flow_resume, open,
    pieces,
};
use crate::stall::echo_or_stall;
use crate::{ONE_WORKER, closed, fisher, mux_server, no_child_left, parents, pattern, server_to};

/// How many frames were dropped for this reason.
#[track_caller]
fn dropped(service: &Service, reason: &str, count: u32) {
    let labels = [("node", "demux"), ("reason", reason)];
    service.until_metric("lineway_mux_dropped_frames_total", &labels, f64::from(count));
}

/// Waits until so many frames of a kind have come.
#[track_caller]
fn received(service: &Service, kind: &str, count: u32) {
    let labels = [("node", "demux"), ("kind", kind), ("direction", "upstream")];
    service.until_metric("lineway_mux_frames_total", &labels, f64::from(count));
}

#[test]
fn case_t02_a_child_that_is_not_read_keeps_nobody_waiting() {
    let (backend, stalled) = echo_or_stall();
    let service = server_to(backend, "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([open(1), open(2), data(1, "aaaa")]);
    let mut stalled = stalled.recv().expect("child 1 is connected");
    let mut sent = 4;
    let large = vec![b'a'; 65_535];
    let paused = loop {
        peer.send([data(1, &large)]);
        sent += large.len();
        if let Some(frame) = peer.frame_within(Duration::ZERO) {
            break frame;
        }
        assert!(sent < 64 << 20, "no FlowPause after {sent} bytes");
    };
    // M21: once, and for nobody else.
    assert_eq!(paused, flow_pause(1));
    for round in 0..20 {
        let begun = Instant::now();
        peer.send([data(1, &large), data(2, "x")]);
        sent += large.len();
        peer.expect([data(2, "x")]);
        assert!(begun.elapsed() < Duration::from_millis(100), "{round}: {:?}", begun.elapsed());
    }
    let queued = || service.metric("lineway_mux_queued_bytes", &[]);
    assert!(queued() > 1e6, "{}", queued());
    service.until_metric("lineway_mux_children_paused", &[("node", "demux")], 1.0);
    // M23: below the mark, exactly one FlowResume.
    assert!(read(&mut stalled, sent - 4 + 3).iter().all(|byte| *byte == b'a'));
    peer.expect([flow_resume(1)]);
    peer.send([data(1, "end"), close(1), data(2, "y")]);
    peer.expect([data(2, "y")]);
    assert_eq!(read_all(&mut stalled), b"end");
    peer.send([close(2)]);
    drop(stalled);
    no_child_left(&service);
    assert!(peer.frame_within(Duration::from_millis(50)).is_none(), "no second FlowResume");
}

#[test]
fn case_t05_the_end_comes_behind_the_last_byte_while_the_backend_is_not_connected() {
    // With a fisher behind the mux, nothing is connected until a candidate has its reply.
    let ends: [fn(&mut Peer); 2] = [|_| {}, |peer| peer.finish()];
    for end in ends {
        let far = Far::new();
        let nodes = listener("in", "demux", "")
            + &mux_server("race", "")
            + &fisher("race", "out", 1)
            + &connector("out", far.address, "");
        let service = Service::start(&(ONE_WORKER.to_owned() + &nodes));
        let mut peer = Peer::connect(service.at("in"));
        let bytes = [open(7), data(7, "abc"), close(7)].map(|frame| frame.bytes()).concat();
        peer.send_bytes(&bytes);
        end(&mut peer);
        received(&service, "close", 1);
        let mut candidate = far.accept();
        assert_eq!(read(&mut candidate, 5), b"FISH?");
        send(&mut candidate, "FISH!");
        assert_eq!(read_all(&mut candidate), b"abc");
        drop(candidate);
        closed(&service, "demux", "peer-closed", 1);
        no_child_left(&service);
        assert!(far.waiting().is_none(), "one connection");
    }
}

#[test]
fn mux_m19_m20_case_t05_the_end_comes_behind_the_last_byte_while_the_connect_is_pending() {
    for lost in [false, true] {
        let silent = Silent::new(([127, 0, 0, 1], 0).into());
        // `linger-ms` begins once the backend is connected.
        let nodes = listener("in", "demux", "")
            + &mux_server("out", "")
            + &connector("out", silent.address, "linger-ms = 1,");
        let service = Service::start(&(ONE_WORKER.to_owned() + &nodes));
        let mut peer = Peer::connect(service.at("in"));
        let mut frames = vec![open(7), data(7, "abc")];
        frames.extend((!lost).then(|| close(7)));
        // A child of which nothing came is not waited for.
        frames.extend([open(8), close(8)]);
        peer.send(frames);
        if lost {
            peer.finish();
            service.until_metric("lineway_lines_open", &[("kind", "main")], 0.0);
        } else {
            received(&service, "close", 2);
        }
        service.until_metric("lineway_lines_open", &[("kind", "child")], 1.0);
        let backend = silent.answers();
        let got = std::iter::repeat_with(|| read_all(&mut backend.accept().expect("one comes").0))
            .find(|bytes| !bytes.is_empty());
        assert_eq!(got.as_deref(), Some(&b"abc"[..]));
        no_child_left(&service);
        service.until_metric("lineway_lines_open", &[("kind", "child")], 0.0);
    }
}

#[test]
fn case_t05_the_end_comes_behind_the_last_byte_while_the_backend_does_not_read() {
    for lost in [false, true] {
        let (backend, stalled) = echo_or_stall();
        let service = server_to(backend, "");
        let mut peer = Peer::connect(service.at("in"));
        let payload = [b"a".to_vec(), pattern(5, 7 << 20)].concat();
        peer.send([open(7)]);
        peer.send(pieces(7, &payload));
        let labels = [("node", "demux"), ("direction", "upstream")];
        let all = payload.len() as f64;
        service.until_metric("lineway_mux_payload_bytes_total", &labels, all);
        assert!(service.metric("lineway_mux_queued_bytes", &[]) > 0.0);
        if lost {
            // M20: the parent goes, the child's queue stays.
            drop(peer);
            service.until_metric("lineway_lines_open", &[("kind", "main")], 0.0);
        } else {
            peer.send([close(7)]);
            received(&service, "close", 1);
        }
        let mut stalled = stalled.recv().expect("it is connected");
        assert!(read_all(&mut stalled) == payload[1..], "the same bytes");
        drop(stalled);
        closed(&service, "demux", if lost { "parent-lost" } else { "peer-closed" }, 1);
        no_child_left(&service);
        assert!(service.metric("lineway_mux_lost_bytes_total", &[]).total_cmp(&0.0).is_eq());
    }
}

#[test]
fn case_t23_late_frames_are_normal_and_harmless() {
    let dialled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&dialled);
    let backend = serve(move |mut stream| {
        counted.fetch_add(1, Relaxed);
        let mut from = stream.try_clone().expect("a descriptor");
        let _ = std::io::copy(&mut from, &mut stream);
    });
    let service = server_to(backend, "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([open(3), data(3, "up")]);
    peer.expect([data(3, "up")]);
    peer.send_bytes(&[
        0, 2, 4, 0, 0, 0, 0, 9, 0x68, 0x69, // Data for a cid that was never opened
        0, 0, 3, 0, 0, 0, 0, 9, // FlowResume of it
        0, 0, 1, 0, 0, 0, 0, 9, // Close of it
        0, 0, 0, 0, 0, 0, 0, 3, // Open of a live one
        0, 0, 0x7f, 0, 0, 0, 0, 3, // a flag that nobody knows
        0, 2, 4, 0, 0, 0, 0, 3, 0x6f, 0x6b, // Data 3 "ok"
    ]);
    peer.expect([data(3, "ok")]);
    for (reason, count) in [("unknown-cid", 3), ("open-live-cid", 1), ("unknown-flag", 1)] {
        dropped(&service, reason, count);
    }
    // M03: a pad byte has no meaning, payload on a control frame neither.
    peer.send([
        Frame { pad: 0xff, ..data(3, "pad") },
        Frame { flags: FLOW_RESUME, ..data(3, "skipped") },
        data(3, ""),
        fin(3),
        data(3, "still"),
    ]);
    assert_eq!(peer.payload(3, 8), b"padstill");
    for (reason, count) in [("payload-on-control", 1), ("empty-data", 1), ("fin-unagreed", 1)] {
        dropped(&service, reason, count);
    }
    // A child that is over is nobody's: late frames of it, and a Close that crossed.
    peer.send([close(3)]);
    no_child_left(&service);
    peer.send([data(3, "late"), flow_pause(3), close(3), open(4), data(4, "next")]);
    peer.expect([data(4, "next")]);
    dropped(&service, "unknown-cid", 6);
    parents(&service, "demux", 1);
    assert_eq!(dialled.load(Relaxed), 2, "for children 3 and 4 alone");
    let told = service.log.whole();
    assert!(!told.contains("WARN") && !told.contains("ERROR"), "{told}");
}

#[test]
fn case_t12_a_refusal_is_passed_back_at_once() {
    let nobody = Reserved::port();
    let service = server_to(nobody.address(), "");
    let mut peer = Peer::connect(service.at("in"));
    for cid in [1, 77, u32::MAX] {
        let begun = Instant::now();
        peer.send([open(cid), data(cid, "abc")]);
        peer.expect([close(cid)]);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    no_child_left(&service);
    parents(&service, "demux", 1);
}

#[test]
fn mux_m15_a_backend_that_speaks_first_is_heard_without_a_byte_of_the_client() {
    let backend = serve(|mut stream| {
        send(&mut stream, "220 ready");
        assert_eq!(read_all(&mut stream), b"");
    });
    let service = server_to(backend, "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([open(1)]);
    peer.expect([data(1, "220 ready")]);
}

#[test]
fn mux_m16_the_lazy_forms_are_taken() {
    let service = server_to(echo(), "");
    let mut peer = Peer::connect(service.at("in"));
    // Open and Data in one write, byte by byte, and Open directly followed by Close.
    peer.send([open(0), data(0, "zero")]);
    peer.expect([data(0, "zero")]);
    for byte in [open(9), data(9, "nine")].iter().flat_map(Frame::bytes) {
        peer.send_bytes(&[byte]);
    }
    assert_eq!(peer.payload(9, 4), b"nine");
    peer.send([open(5), close(5), close(0), close(9)]);
    closed(&service, "demux", "peer-closed", 3);
    no_child_left(&service);
    // M18: a Close is not answered.
    peer.finish();
    peer.ended();
    parents(&service, "demux", 0);
}

#[test]
fn mux_m30_the_answer_comes_before_any_other_frame_and_each_direction_ends_by_itself() {
    let backend = serve(|mut stream| {
        send(&mut stream, "hello");
        let request = read_all(&mut stream);
        send(&mut stream, [b"got ", &request[..]].concat());
    });
    let service = server_to(backend, "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([asking(1)]);
    peer.expect([answer(1), data(1, "hello")]);
    peer.send([data(1, "req"), fin(1)]);
    assert_eq!(peer.payload(1, 7), b"got req");
    peer.expect([fin(1)]);
    no_child_left(&service);
    closed(&service, "demux", "finished", 1);
    // Once agreed, for the whole parent: also of a child that did not ask, and a reset is Close.
    peer.send([open(2)]);
    peer.expect([data(2, "hello")]);
    peer.send([fin(2)]);
    assert_eq!(peer.payload(2, 4), b"got ");
    peer.expect([fin(2)]);
    no_child_left(&service);
    service.until_metric("lineway_mux_half_close_agreements_total", &[("node", "demux")], 1.0);
    peer.finish();
    peer.ended();
}

#[test]
fn mux_m30_data_after_fin_is_dropped_and_the_child_lives() {
    let far = Far::new();
    let service = server_to(far.address, "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([asking(1), data(1, "all"), fin(1), data(1, "more"), fin(1)]);
    peer.expect([answer(1)]);
    let mut backend = far.accept();
    assert_eq!(read_all(&mut backend), b"all");
    dropped(&service, "after-fin", 2);
    send(&mut backend, "reply");
    peer.expect([data(1, "reply")]);
    peers::reset(backend);
    // M30: a reset is never Fin.
    peer.expect([close(1)]);
    no_child_left(&service);
}

#[test]
fn mux_m31_an_end_of_the_backend_is_close_where_nobody_agreed() {
    for more in ["", "half-close = false,"] {
        let far = Far::new();
        let service = server_to(far.address, more);
        let mut peer = Peer::connect(service.at("in"));
        // Without the question, or with one that is not answered.
        peer.send([if more.is_empty() { open(1) } else { asking(1) }]);
        let mut backend = far.accept();
        let reply = pattern(31, 1 << 20);
        send(&mut backend, &reply);
        finish(&backend);
        assert!(peer.payload(1, reply.len()) == reply, "the reply, in order");
        peer.expect([close(1)]);
        peers::ended(&mut backend);
        no_child_left(&service);
    }
}

#[test]
fn mux_m32_more_children_than_allowed_get_close_and_dial_nothing() {
    let far = Far::new();
    let service = server_to(far.address, "max-children = 2,");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([open(1), open(2), open(3), data(3, "nobody's"), open(4)]);
    peer.expect([close(3), close(4)]);
    let _backends = [far.accept(), far.accept()];
    closed(&service, "demux", "max-children", 2);
    peer.send([close(1)]);
    service.until_metric("lineway_mux_children_open", &[], 1.0);
    peer.send([open(5), data(5, "five")]);
    let mut fifth = far.accept();
    assert_eq!(read(&mut fifth, 4), b"five");
    // The limit is for each parent.
    let mut other = Peer::connect(service.at("in"));
    other.send([open(1), open(2)]);
    let _more = [far.accept(), far.accept()];
    assert!(far.waiting().is_none(), "nothing else was dialled");
    service.until_metric("lineway_mux_children_open", &[], 4.0);
}

#[test]
fn mux_m32_a_flood_of_opens_is_bounded_and_answered() {
    let nobody = Reserved::port();
    let service = server_to(nobody.address(), "max-children = 1,");
    let before = service.rss();
    let mut peer = Peer::connect(service.at("in"));
    let many = 50_000;
    for first in (1..=many).step_by(1000) {
        peer.send((first..first + 1000).map(open));
    }
    let mut answers: Vec<_> = (0..many).map(|_| peer.frame()).collect();
    answers.sort_by_key(|frame| frame.cid);
    assert_eq!(answers, (1..=many).map(close).collect::<Vec<_>>());
    no_child_left(&service);
    assert!(service.rss() < before + (32 << 20), "{} then {}", before, service.rss());
    peer.send([open(many + 1)]);
    peer.expect([close(many + 1)]);
}
