//! The client of a mux against a server that the test plays.

use std::time::{Duration, Instant};

use crate::common::peers::{
    self, Far, Reserved, connect, ended, finish, read, read_all, send, serve_once,
};
use crate::common::{Service, connector, listener, until};
use crate::far::{
    CLOSE, Frame, Peer, answer, asking, close, data, fin, flow_pause, flow_resume, open, pieces,
};
use crate::{ONE_WORKER, client_to, closed, counter, mux_client, no_child_left, parents, pattern};

/// The next parent of a client.
#[track_caller]
fn parent(far: &Far) -> Peer {
    Peer::on(far.accept())
}

/// A client of the service whose Open the peer has seen.
#[track_caller]
fn opened(service: &Service, peer: &Peer, cid: u32) -> std::net::TcpStream {
    let client = connect(service.at("in"));
    peer.expect([asking(cid)]);
    client
}

#[test]
fn mux_m07_cids_count_from_one_and_the_open_does_not_wait_for_payload() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "");
    let mut clients = vec![connect(service.at("in"))];
    let mut peer = parent(&far);
    peer.expect([asking(1)]);
    for cid in 2..=20 {
        clients.push(opened(&service, &peer, cid));
    }
    // M15: who speaks first is heard.
    peer.send((1..=20).map(|cid| data(cid, cid.to_be_bytes())));
    for (client, cid) in clients.iter_mut().zip(1_u32..) {
        assert_eq!(read(client, 4), cid.to_be_bytes());
    }
    drop(clients);
    // Nobody agreed on half-closes: a client that is gone may still want its reply (M31).
    peer.send((1..=20).map(close));
    no_child_left(&service);
    // A number is never used twice.
    let _client = connect(service.at("in"));
    let frames: Vec<_> =
        std::iter::from_fn(|| Some(peer.frame())).take_while(|f| *f != asking(21)).collect();
    assert!(frames.iter().all(|frame| frame.flags == CLOSE), "{frames:?}");
    assert!(far.waiting().is_none(), "one parent");
}

#[test]
fn mux_m02_a_large_payload_is_cut_into_frames_of_at_most_65527_bytes() {
    let far = Far::new();
    let service = client_to(far.address, &counter(1), "half-close = false,");
    let payload = pattern(2, 200_000);
    let mut client = connect(service.at("in"));
    send(&mut client, &payload);
    let peer = parent(&far);
    peer.expect([open(1)]);
    let mut got = Vec::new();
    while got.len() < payload.len() {
        let frame = peer.frame();
        assert_eq!((frame.flags, frame.pad, frame.cid), (4, 0, 1));
        assert!((1..=65_527).contains(&frame.payload.len()), "{frame:?}");
        got.extend(frame.payload);
    }
    assert!(got == payload, "the same bytes in order");
    peers::reset(client);
    peer.expect([close(1)]);
    peer.ended();
}

#[test]
fn mux_m11_m12_the_only_child_of_a_parent_is_its_last_one() {
    let far = Far::new();
    let service = client_to(far.address, &counter(1), "");
    for round in 0..20 {
        let mut client = connect(service.at("in"));
        let mut peer = parent(&far);
        peer.expect([asking(1)]);
        peer.send([answer(1), data(1, "hello")]);
        assert_eq!(read(&mut client, 5), b"hello", "{round}");
        service.until_metric("lineway_mux_parents_exhausted", &[("node", "mux")], 1.0);
        finish(&client);
        peer.expect([fin(1)]);
        peer.send([fin(1)]);
        assert_eq!(read_all(&mut client), b"");
        // Closed with its last child.
        peer.ended();
        drop(peer);
        parents(&service, "mux", 0);
    }
    no_child_left(&service);
}

#[test]
fn mux_m18_one_close_for_each_child_and_none_for_an_answer() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "");
    let mut first = connect(service.at("in"));
    let mut peer = parent(&far);
    peer.expect([asking(1)]);
    peer.send([answer(1), data(1, "bye"), close(1)]);
    assert_eq!(read_all(&mut first), b"bye");
    drop(first);
    let second = opened(&service, &peer, 2);
    peers::reset(second);
    peer.expect([close(2)]);
    // It crosses ours.
    peer.send([close(2)]);
    let _third = opened(&service, &peer, 3);
    closed(&service, "mux", "peer-closed", 1);
    closed(&service, "mux", "reset", 1);
}

#[test]
fn mux_m26_flow_pause_of_the_peer_stops_that_child_alone() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "");
    let mut slow = connect(service.at("in"));
    let mut peer = parent(&far);
    peer.expect([asking(1)]);
    let mut quick = opened(&service, &peer, 2);
    peer.send([flow_pause(1), flow_pause(1), data(2, "paused")]);
    assert_eq!(read(&mut quick, 6), b"paused");
    let payload = pattern(26, 16 << 20);
    let sent = payload.clone();
    let writer = std::thread::spawn(move || {
        send(&mut slow, &sent);
        slow
    });
    for _ in 0..50 {
        send(&mut quick, "go");
        assert_eq!(peer.payload(2, 2), b"go");
    }
    // Held back in the client's socket, not in the process.
    let queued = service.metric("lineway_queued_bytes", &[]);
    assert!(queued < f64::from(4 << 20), "{queued}");
    assert!(!writer.is_finished());
    peer.send([flow_resume(1)]);
    assert!(peer.payload(1, payload.len()) == payload, "nothing lost, in order");
    drop(writer.join());
}

#[test]
fn mux_m20_what_has_come_is_delivered_when_the_parent_is_lost() {
    let far = Far::new();
    let replies: Vec<_> = (1..=4).map(|cid| pattern(cid, 5 << 20)).collect();
    let service = client_to(far.address, &counter(100), "");
    let mut clients = vec![connect(service.at("in"))];
    let mut peer = parent(&far);
    peer.expect([asking(1)]);
    clients.extend((2..=4).map(|cid| opened(&service, &peer, cid)));
    for (reply, cid) in replies.iter().zip(1..) {
        peer.send(pieces(cid, reply));
    }
    // Half a frame at the end, which is lost.
    peer.send_bytes(&data(1, "never whole").bytes()[..12]);
    let labels = [("node", "mux"), ("direction", "downstream")];
    let all = f64::from(4 * (5 << 20));
    service.until_metric("lineway_mux_payload_bytes_total", &labels, all);
    drop(peer);
    service.until_metric("lineway_lines_open", &[("kind", "parent")], 0.0);
    for (client, reply) in clients.iter_mut().zip(&replies) {
        assert!(read_all(client) == *reply, "all of it, then the end");
    }
    drop(clients);
    closed(&service, "mux", "parent-lost", 4);
    no_child_left(&service);
    parents(&service, "mux", 0);
}

#[test]
fn mux_m31_a_client_that_ended_its_input_gets_the_whole_reply() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "half-close-timeout-ms = 600,");
    let mut client = connect(service.at("in"));
    send(&mut client, "req");
    finish(&client);
    let mut peer = parent(&far);
    peer.expect([asking(1), data(1, "req")]);
    let reply = pattern(31, 1 << 20);
    for part in reply.chunks(reply.len() / 8) {
        // Longer than the limit in all, and each byte restarts it.
        assert_eq!(peer.frame_within(Duration::from_millis(120)), None, "no Close, no Fin");
        peer.send(pieces(1, part));
    }
    peer.send([close(1)]);
    assert!(read_all(&mut client) == reply);
    drop(client);
    no_child_left(&service);
    closed(&service, "mux", "peer-closed", 1);
    assert_eq!(peer.frame_within(Duration::from_millis(50)), None, "a Close is not answered");
}

#[test]
fn mux_m31_a_reply_that_does_not_come_ends_the_child() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "half-close-timeout-ms = 300,");
    let mut client = connect(service.at("in"));
    send(&mut client, "req");
    let peer = parent(&far);
    peer.expect([asking(1), data(1, "req")]);
    let begun = Instant::now();
    finish(&client);
    peer.expect([close(1)]);
    assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
    ended(&mut client);
    drop(client);
    closed(&service, "mux", "half-close-timeout", 1);
    // A reset ends it at once.
    let mut client = opened(&service, &peer, 2);
    send(&mut client, "req");
    peer.expect([data(2, "req")]);
    peers::reset(client);
    peer.expect([close(2)]);
    closed(&service, "mux", "reset", 1);
    no_child_left(&service);
}

#[test]
fn mux_m31_a_reset_behind_the_end_of_input_ends_the_child_at_once() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "half-close-timeout-ms = 60000,");
    let mut client = connect(service.at("in"));
    send(&mut client, "req");
    finish(&client);
    let mut peer = parent(&far);
    peer.expect([asking(1), data(1, "req")]);
    peer.send([data(1, "part")]);
    assert_eq!(read(&mut client, 4), b"part");
    peers::reset(client);
    peer.expect([close(1)]);
    no_child_left(&service);
}

#[test]
fn mux_m30_an_end_of_input_waits_for_the_answer() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "");
    let mut client = connect(service.at("in"));
    send(&mut client, "req");
    finish(&client);
    let mut peer = parent(&far);
    peer.expect([asking(1), data(1, "req")]);
    assert_eq!(peer.frame_within(Duration::from_millis(100)), None);
    peer.send([answer(1)]);
    peer.expect([fin(1)]);
    peer.send([data(1, "reply"), fin(1)]);
    assert_eq!(read_all(&mut client), b"reply");
    drop(client);
    no_child_left(&service);
    // One answer is for the whole parent. The other side may end first.
    let mut client = opened(&service, &peer, 2);
    peer.send([data(2, "done"), fin(2)]);
    assert_eq!(read_all(&mut client), b"done");
    send(&mut client, "thanks");
    finish(&client);
    peer.expect([data(2, "thanks"), fin(2)]);
    drop(client);
    no_child_left(&service);
    closed(&service, "mux", "finished", 2);
    assert_eq!(peer.frame_within(Duration::from_millis(50)), None, "two Fins and no Close");
}

#[test]
fn mux_m14_a_far_side_that_is_not_there_ends_clients_after_parent_retry() {
    for retry in [0, 500] {
        let nobody = Reserved::port();
        let more = format!("parent-retry-ms = {retry},");
        let service = client_to(nobody.address(), &counter(100), &more);
        let begun = Instant::now();
        let mut clients: Vec<_> = (0..10).map(|_| connect(service.at("in"))).collect();
        for client in &mut clients {
            send(client, "hello");
        }
        for client in &mut clients {
            ended(client);
        }
        let took = begun.elapsed();
        let least = Duration::from_millis(retry);
        assert!((least..least + Duration::from_secs(1)).contains(&took), "{retry}: {took:?}");
        drop(clients);
        closed(&service, "mux", "parent-failed", 10);
        no_child_left(&service);
        parents(&service, "mux", 0);
        let retries = service.metric("lineway_mux_parent_retries_total", &[]);
        assert_eq!(retries > 0.0, retry > 0, "{retries} retries");
    }
}

#[test]
fn mux_m14_a_far_side_that_comes_in_time_serves_those_who_wait() {
    let reserved = Reserved::port();
    let service = client_to(reserved.address(), &counter(100), "parent-retry-ms = 15000,");
    let mut clients: Vec<_> = (0..10).map(|_| connect(service.at("in"))).collect();
    for (client, n) in clients.iter_mut().zip(0_u8..) {
        send(client, [b'a' + n; 3]);
    }
    until("it was tried again", || service.metric("lineway_mux_parent_retries_total", &[]) >= 2.0);
    let far = reserved.listen();
    let mut peer = parent(&far);
    let mut got = std::collections::BTreeMap::new();
    while got.len() < 10 {
        let frame = peer.frame();
        if frame.payload.is_empty() {
            assert_eq!(frame, asking(frame.cid), "{frame:?}");
        } else {
            got.insert(frame.cid, frame.payload);
        }
    }
    // M07: the numbers begin with 1.
    assert_eq!(got.keys().copied().collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    peer.send(got.iter().map(|(cid, payload)| data(*cid, payload)));
    for (client, n) in clients.iter_mut().zip(0_u8..) {
        assert_eq!(read(client, 3), [b'a' + n; 3]);
    }
    parents(&service, "mux", 1);
}

#[test]
fn mux_m14_children_of_which_something_was_sent_are_not_tried_again() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "parent-retry-ms = 15000,");
    let mut client = connect(service.at("in"));
    let peer = parent(&far);
    peer.expect([asking(1)]);
    let begun = Instant::now();
    drop(peer);
    ended(&mut client);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // The next one gets another parent.
    let _client = connect(service.at("in"));
    parent(&far).expect([asking(1)]);
}

#[test]
fn case_t12_a_close_of_the_server_reaches_the_client_within_a_second() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "");
    let mut client = connect(service.at("in"));
    send(&mut client, "abc");
    let mut peer = parent(&far);
    peer.expect([asking(1), data(1, "abc")]);
    let begun = Instant::now();
    peer.send([close(1)]);
    ended(&mut client);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(client);
    no_child_left(&service);
}

#[test]
fn case_t23_late_frames_do_not_trouble_a_client() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "");
    let mut client = connect(service.at("in"));
    let mut peer = parent(&far);
    peer.expect([asking(1)]);
    peer.send([
        data(9, "hi"),
        flow_resume(9),
        close(9),
        open(9),
        open(1),
        Frame { flags: 0x7f, ..data(1, "") },
        data(0, "zero"),
        close(u32::MAX),
        Frame { pad: 0xff, ..data(1, "ok") },
    ]);
    assert_eq!(read(&mut client, 2), b"ok");
    for (reason, count) in [("unknown-cid", 6.0), ("open-live-cid", 1.0), ("unknown-flag", 1.0)] {
        let labels = [("node", "mux"), ("reason", reason)];
        service.until_metric("lineway_mux_dropped_frames_total", &labels, count);
    }
    send(&mut client, "fine");
    peer.expect([data(1, "fine")]);
    parents(&service, "mux", 1);
}

#[test]
fn mux_t06_idle_times_do_not_end_a_parent() {
    let far = Far::new();
    let idle = "initial-idle-timeout-ms = 200, active-idle-timeout-ms = 200,";
    let nodes = listener("in", "mux", idle)
        + &mux_client("out", &crate::fixed(2), "")
        + &connector("out", far.address, "idle-timeout-ms = 200,");
    let service = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let mut client = connect(service.at("in"));
    let (first, spare) = (parent(&far), parent(&far));
    // The client's line is idle, and ended; its parent and the spare one stay.
    ended(&mut client);
    let (first, spare) = if first.frame_within(Duration::from_millis(300)).is_some() {
        (first, spare)
    } else {
        (spare, first)
    };
    assert_eq!(spare.frame_within(Duration::from_millis(600)), None, "it does not end");
    until("the child is gone", || first.frame_within(Duration::from_millis(10)).is_none());
    parents(&service, "mux", 2);
    let told = service.log.whole();
    assert!(!told.contains("WARN"), "{told}");
}

#[test]
fn mux_t06_idle_times_do_not_end_the_parents_of_a_server() {
    let (backend, _served) = serve_once(|mut stream| read_all(&mut stream));
    let idle = "initial-idle-timeout-ms = 100, active-idle-timeout-ms = 100,";
    let nodes = listener("in", "demux", idle)
        + &crate::mux_server("out", "")
        + &connector("out", backend, "");
    let service = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let mut peer = Peer::connect(service.at("in"));
    assert_eq!(peer.frame_within(Duration::from_millis(500)), None, "it does not end");
    peer.send([asking(1)]);
    peer.expect([answer(1)]);
    parents(&service, "demux", 1);
}
