//! What the children of one parent share: its transport, and the limits that hold for all of them.

use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::peers::{
    Far, Reserved, careful, connect, echo, echoed, ended, finish, read, read_all, reset, send,
};
use crate::common::{PATIENCE, Service, Signal, connector, end, listener, until};
use crate::far::{Frame, Peer, answer, asking, close, data, open};
use crate::{
    ONE_WORKER, client_listener, client_to, closed, counter, fisher, many_descriptors, mux_client,
    mux_server, no_child_left, no_line_left_but, parents, pattern, server_to,
};

/// Listener, client, fisher with one candidate, connector.
fn fished_to(far: std::net::SocketAddr, more: &str) -> Service {
    let nodes = client_listener()
        + &mux_client("race", &counter(100), more)
        + &fisher("race", "out", 1)
        + &connector("out", far, "");
    Service::start(&(ONE_WORKER.to_owned() + &nodes))
}

#[test]
fn mux_m15_opens_wait_in_the_parent_until_a_candidate_has_won() {
    let far = Far::new();
    let service = fished_to(far.address, "");
    let mut clients: Vec<_> = (0..3).map(|_| connect(service.at("in"))).collect();
    for client in &mut clients {
        send(client, "early");
    }
    let mut candidate = far.accept();
    assert_eq!(read(&mut candidate, 5), b"FISH?");
    service.until_metric("lineway_mux_children_opened_total", &[("node", "mux")], 3.0);
    candidate.set_read_timeout(Some(Duration::from_millis(100))).expect("an option");
    assert!(candidate.read(&mut [0]).is_err(), "nothing but the probe");
    send(&mut candidate, "FISH!");
    let mut peer = Peer::on(careful(candidate));
    let mut frames: Vec<_> = (0..6).map(|_| peer.frame()).collect();
    frames.sort_by_key(|frame| (frame.cid, frame.flags));
    let wanted: Vec<_> = (1..=3).flat_map(|cid| [asking(cid), data(cid, "early")]).collect();
    assert_eq!(frames, wanted);
    peer.send((1..=3).flat_map(|cid| [data(cid, "reply"), close(cid)]));
    for client in &mut clients {
        assert_eq!(read_all(client), b"reply");
    }
    drop(clients);
    no_line_left_but(&service, 1.0);
}

#[test]
fn mux_m14_a_race_that_fails_behind_a_parent_is_tried_again_as_well() {
    let nobody = Reserved::port();
    let service = fished_to(nobody.address(), "parent-retry-ms = 500,");
    let begun = Instant::now();
    let mut client = connect(service.at("in"));
    send(&mut client, "hello");
    ended(&mut client);
    let took = begun.elapsed();
    assert!((500..2500).contains(&took.as_millis()), "{took:?}");
    drop(client);
    closed(&service, "mux", "parent-failed", 1);
    assert!(service.metric("lineway_mux_parent_retries_total", &[]) >= 1.0);
    no_child_left(&service);
    parents(&service, "mux", 0);

    let service = fished_to(nobody.address(), "parent-retry-ms = 15000,");
    let mut client = connect(service.at("in"));
    send(&mut client, "hello");
    until("it was tried again", || service.metric("lineway_mux_parent_retries_total", &[]) >= 2.0);
    let far = nobody.listen();
    let mut candidate = far.accept();
    assert_eq!(read(&mut candidate, 5), b"FISH?");
    send(&mut candidate, "FISH!");
    Peer::on(candidate).expect([asking(1), data(1, "hello")]);
}

#[test]
fn mux_m27_a_full_transport_stops_its_writers_and_bounds_what_waits() {
    const CLIENTS: usize = 20;
    const EACH: usize = 4 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    socket2::SockRef::from(&listener).set_recv_buffer_size(64 * 1024).expect("an option");
    let service = client_to(listener.local_addr().expect("an address"), &counter(100), "");
    let before = service.rss();
    let payload = pattern(27, EACH);
    let writers: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (mut client, payload) = (connect(service.at("in")), payload.clone());
            std::thread::spawn(move || {
                send(&mut client, &payload);
                client
            })
        })
        .collect();
    let (parent, _) = listener.accept().expect("a parent");
    // Until nothing moves any more.
    let mut last = -1.0;
    until("all writers are stopped", || {
        std::thread::sleep(Duration::from_millis(100));
        let now = service.metric("lineway_payload_bytes_total", &[("node", "in")]);
        std::mem::replace(&mut last, now).total_cmp(&now).is_eq()
            && service.metric("lineway_mux_children_open", &[]) >= CLIENTS as f64
    });
    // Of each child at most 256 KiB on its way and 512 KiB at its line, and the transport's part.
    let grown = service.rss().saturating_sub(before);
    assert!(grown < (CLIENTS as u64 + 8) << 20, "{grown}");
    assert!(last < (CLIENTS << 20) as f64, "{last} bytes taken from the clients");
    let peer = Peer::on(parent);
    let mut got = vec![Vec::new(); CLIENTS];
    while got.iter().any(|bytes| bytes.len() < EACH) {
        let frame = peer.frame();
        got[frame.cid as usize - 1].extend(frame.payload);
    }
    assert!(got.iter().all(|bytes| *bytes == payload), "every byte, in order");
    drop(writers.into_iter().map(|writer| writer.join().expect("sent")).collect::<Vec<_>>());
}

#[test]
fn mux_m31_no_more_than_1024_children_stand_for_a_reply_alone() {
    many_descriptors();
    let far = Far::new();
    let service = client_to(far.address, &counter(10_000), "half-close-timeout-ms = 600000,");
    let mut clients: Vec<TcpStream> = Vec::new();
    let mut peer: Option<Peer> = None;
    for cid in 1..=1030 {
        let mut client = connect(service.at("in"));
        send(&mut client, "req");
        finish(&client);
        let peer = peer.get_or_insert_with(|| Peer::on(far.accept()));
        let mut opened = Vec::new();
        while opened.len() < 2 {
            let frame = peer.frame();
            // Those that are one too many: the oldest.
            if frame.cid == cid { opened.push(frame) } else { assert_eq!(frame.flags, 1) }
        }
        assert_eq!(opened, [asking(cid), data(cid, "req")]);
        clients.push(client);
    }
    closed(&service, "mux", "half-close-limit", 6);
    for client in &mut clients[..6] {
        ended(client);
    }
    let mut peer = peer.expect("a parent");
    peer.send([data(7, "reply"), close(7), data(1030, "reply"), close(1030)]);
    for at in [6, 1029] {
        assert_eq!(read_all(&mut clients[at]), b"reply");
    }
    service.until_metric("lineway_mux_children_open", &[], 1022.0);
}

#[test]
fn a_storm_of_opens_that_are_closed_at_once_leaves_nothing() {
    const STORM: u32 = 1500;
    let service = server_to(echo(), "");
    let mut peer = Peer::connect(service.at("in"));
    let mut storm = |number: u32| {
        peer.send((0..STORM).flat_map(|at| {
            let cid = number * STORM + at;
            [open(cid), close(cid)]
        }));
        closed(&service, "demux", "peer-closed", (number + 1) * STORM);
        no_child_left(&service);
    };
    // What so many at a time need is kept for the next ones.
    storm(0);
    let (descriptors, rss) = (service.descriptors(), service.rss());
    for number in 1..4 {
        storm(number);
    }
    until("descriptors are those of before", || service.descriptors() <= descriptors);
    assert!(service.rss() < rss + (16 << 20), "{rss} bytes, then {}", service.rss());
    peer.send([open(u32::MAX), data(u32::MAX, "x")]);
    peer.expect([data(u32::MAX, "x")]);
}

/// True when the kernel probes a connection between these ports within 30 s of silence.
fn keeps_alive(local: u16, remote: u16) -> bool {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("it is Linux");
    let ends = [format!(":{local:04X}"), format!(":{remote:04X}")];
    table.lines().skip(1).any(|row| {
        let row: Vec<_> = row.split_whitespace().collect();
        // Which timer, and when, in hundredths of a second; 2 is that of keepalive.
        let at = row[5].strip_prefix("02:").and_then(|at| u32::from_str_radix(at, 16).ok());
        row[1].ends_with(&ends[0]) && row[2].ends_with(&ends[1]) && at.is_some_and(|at| at <= 3000)
    })
}

#[test]
fn mux_t06_both_ends_of_a_parent_are_kept_alive() {
    let back = server_to(echo(), "");
    let front = client_to(back.at("in"), &counter(100), "");
    let mut client = connect(front.at("in"));
    echoed(&mut client, "hello");
    let mut peer = None;
    until("the parent is listed", || {
        let page = back.json("/api/lines");
        let parent = page["lines"]
            .as_array()
            .and_then(|all| all.iter().find(|l| l["kind"] == "main").cloned());
        peer = parent.and_then(|line| line["peer"].as_str()?.parse::<std::net::SocketAddr>().ok());
        peer.is_some()
    });
    let peer = peer.expect("an address");
    let at = back.at("in").port();
    until("keepalive of the client's end", || keeps_alive(peer.port(), at));
    until("keepalive of the server's end", || keeps_alive(at, peer.port()));
}

#[test]
fn sigterm_does_not_wait_for_parents_without_children() {
    let mut back = server_to(echo(), "");
    let mut front = client_to(back.at("in"), &counter(100), "");
    let mut client = connect(front.at("in"));
    echoed(&mut client, "hello");
    drop(client);
    no_child_left(&front);
    no_child_left(&back);
    // A peer that has a parent and nothing on it, too.
    let idle = Peer::connect(back.at("in"));
    parents(&back, "demux", 2);
    for service in [&mut back, &mut front] {
        let begun = Instant::now();
        service.signal(Signal::TERM);
        assert_eq!(service.wait(PATIENCE).code(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    idle.ended();
}

#[test]
fn sigterm_ends_children_that_wait_for_a_parent_when_the_drain_limit_is_over() {
    let nobody = Reserved::port();
    let drain = "[service]\nworkers = 1\ndrain-timeout-ms = 500\n".to_owned();
    let nodes = client_listener()
        + &mux_client("out", &counter(100), "parent-retry-ms = 600000,")
        + &connector("out", nobody.address(), "");
    let mut service = Service::start(&(drain + &nodes));
    let mut client = connect(service.at("in"));
    send(&mut client, "hello");
    until("it was tried again", || service.metric("lineway_mux_parent_retries_total", &[]) >= 1.0);
    let begun = Instant::now();
    service.signal(Signal::TERM);
    assert_eq!(service.wait(PATIENCE).code(), Some(0));
    let took = begun.elapsed();
    assert!((500..3000).contains(&took.as_millis()), "{took:?}");
    ended(&mut client);
}

#[test]
fn a_reload_that_removes_both_ends_lets_their_children_live_on() {
    let other = listener("other", "echo", "") + &end("echo", "EchoServer");
    let both =
        client_listener() + &mux_client("demux", &counter(100), "") + &mux_server("echo", "");
    let service = Service::start(&(ONE_WORKER.to_owned() + &both + &other));
    let mut client = connect(service.at("in"));
    echoed(&mut client, "before");
    service.reload_and_wait(&(ONE_WORKER.to_owned() + &other));
    echoed(&mut client, "after");
    finish(&client);
    assert_eq!(read_all(&mut client), b"");
    service.until_metric("lineway_actors_alive", &[("kind", "mux-parent")], 0.0);
    until("an empty list", || service.json("/api/lines")["total"] == 0);
    echoed(&mut connect(service.at("other")), "other");
}

#[test]
fn mux_m05_a_child_that_is_being_closed_takes_nothing_more() {
    let far = Far::new();
    let service = server_to(far.address, "");
    let mut peer = Peer::connect(service.at("in"));
    peer.send([asking(1)]);
    peer.expect([answer(1)]);
    let backend = far.accept();
    reset(backend);
    peer.expect([close(1)]);
    // On their way while the Close was.
    peer.send([data(1, "late"), Frame { flags: 5, ..close(1) }, close(1)]);
    let labels = [("node", "demux"), ("reason", "unknown-cid")];
    service.until_metric("lineway_mux_dropped_frames_total", &labels, 3.0);
    assert_eq!(peer.frame_within(Duration::from_millis(50)), None, "no second Close");
    no_child_left(&service);
}
