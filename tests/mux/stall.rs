//! Children that are not read, beside those that are.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::common::peers::{careful, connect, read, read_all, send, serve};
use crate::common::{Service, until};
use crate::far::{CLOSE, DATA, FLOW_PAUSE, FLOW_RESUME, Frame, Peer, close, data, open, pieces};
use crate::{client_to, closed, counter, no_child_left, parents, pattern, server_to};

/// A backend that echoes, unless the first byte is `a`: then nobody reads, and the test has the
/// connection.
pub(crate) fn echo_or_stall() -> (SocketAddr, Receiver<TcpStream>) {
    let (give, take) = channel();
    let address = serve(move |mut stream| {
        let mut first = [0];
        if std::io::Read::read(&mut stream, &mut first).is_ok_and(|length| length == 1) {
            if first == *b"a" {
                let _ = give.send(stream);
                return;
            }
            send(&mut stream, first);
            let mut from = stream.try_clone().expect("a descriptor");
            let _ = std::io::copy(&mut from, &mut stream);
        }
    });
    (address, take)
}

/// How often reading of a parent was paused for this reason.
fn pauses(service: &Service, reason: &str) -> f64 {
    service.metric("lineway_mux_parent_pauses_total", &[("node", "demux"), ("reason", reason)])
}

const SMALL: &str =
    "child-stall-timeout-ms = 500, child-buffer-limit = 262144, parent-buffer-limit = 0,";

#[test]
fn mux_m24_a_dead_reader_is_closed_and_the_rest_goes_on() {
    let (backend, stalled) = echo_or_stall();
    let service = server_to(backend, SMALL);
    let mut peer = Peer::connect(service.at("in"));
    peer.send([open(1), open(2), data(2, "x"), data(1, "a")]);
    peer.expect([data(2, "x")]);
    let stalled = stalled.recv().expect("it is connected");
    let begun = Instant::now();
    // Without regard to FlowPause; blocks while the parent is not read.
    let piece = vec![b'a'; 32 * 1024];
    loop {
        peer.send([data(1, &piece)]);
        match peer.next() {
            Some(frame) if frame == close(1) => break,
            Some(frame) => assert!(matches!(frame.flags, FLOW_PAUSE | FLOW_RESUME), "{frame:?}"),
            None => {}
        }
    }
    let took = begun.elapsed();
    assert!((500..8000).contains(&took.as_millis()), "{took:?}");
    assert!(pauses(&service, "child-buffer") >= 1.0);
    peer.send([data(2, "y")]);
    peer.expect([data(2, "y")]);
    closed(&service, "demux", "overflow", 1);
    assert!(service.metric("lineway_mux_lost_bytes_total", &[("node", "demux")]) >= 2e5);
    // The line of the dead one is over, and what it is still sent is nobody's.
    drop(stalled);
    peer.send([data(1, "late"), data(2, "z")]);
    peer.expect([data(2, "z")]);
    peer.send([close(2)]);
    no_child_left(&service);
    parents(&service, "demux", 1);
}

#[test]
fn mux_m24_a_reader_that_comes_back_in_time_loses_nothing() {
    let (backend, stalled) = echo_or_stall();
    let more = "child-stall-timeout-ms = 60000, child-buffer-limit = 262144,";
    let service = server_to(backend, more);
    let mut peer = Peer::connect(service.at("in"));
    peer.send([open(1), open(2), data(2, "x")]);
    peer.expect([data(2, "x")]);
    let payload = [b"a".to_vec(), pattern(24, 16 << 20)].concat();
    let wanted = payload.clone();
    std::thread::scope(|scope| {
        // Blocks once the parent is not read, until there is room.
        let sent = scope.spawn(move || {
            peer.send(pieces(1, &payload));
            peer.send([close(1), data(2, "y")]);
            peer
        });
        until("reading is paused", || pauses(&service, "child-buffer") >= 1.0);
        let mut stalled = stalled.recv().expect("it is connected");
        assert!(read_all(&mut stalled) == wanted[1..], "all of it, in order");
        let peer = sent.join().expect("all was sent");
        let frames: Vec<_> =
            std::iter::from_fn(|| Some(peer.frame()).filter(|f| f.cid == 1)).collect();
        assert!(frames.iter().all(|frame| frame.flags != CLOSE), "{frames:?}");
    });
    assert!(service.metric("lineway_mux_lost_bytes_total", &[]).total_cmp(&0.0).is_eq());
}

#[test]
fn mux_m24_busy_children_of_a_pair_go_on_beside_a_dead_reader() {
    let (backend, stalled) = echo_or_stall();
    let back = server_to(backend, "child-stall-timeout-ms = 500,");
    let front = client_to(back.at("in"), &counter(100), "child-stall-timeout-ms = 500,");
    let mut dead = connect(front.at("in"));
    send(&mut dead, "a");
    let held = stalled.recv().expect("it is connected");
    let writer = std::thread::spawn(move || {
        // Takes what there is room for, and then no more: FlowPause stops it.
        dead.set_write_timeout(Some(Duration::from_millis(300))).expect("an option");
        let piece = vec![b'a'; 1 << 16];
        while std::io::Write::write_all(&mut dead, &piece).is_ok() {}
        dead
    });
    let mut busy: Vec<_> = (0..8).map(|_| connect(front.at("in"))).collect();
    let begun = Instant::now();
    let mut worst = Duration::ZERO;
    while !writer.is_finished() || begun.elapsed() < Duration::from_secs(1) {
        for client in &mut busy {
            let asked = Instant::now();
            send(client, "hello");
            assert_eq!(read(client, 5), b"hello");
            worst = worst.max(asked.elapsed());
        }
    }
    assert!(worst < Duration::from_secs(3), "{worst:?}");
    // A peer that keeps to FlowPause is not closed for it.
    back.until_metric("lineway_mux_children_open", &[], 9.0);
    assert!(pauses(&back, "child-buffer").total_cmp(&0.0).is_eq());
    drop((held, writer.join()));
    drop(busy);
    no_child_left(&back);
    no_child_left(&front);
}

#[test]
fn mux_m25_queues_of_one_parent_are_bounded_together_and_the_largest_goes() {
    let (backend, stalled) = echo_or_stall();
    let more = "child-stall-timeout-ms = 500, child-buffer-limit = 8388608, \
                parent-buffer-limit = 1048576,";
    let service = server_to(backend, more);
    let mut peer = Peer::connect(service.at("in"));
    let cids = 1..=4_u32;
    peer.send(cids.clone().flat_map(|cid| [open(cid), data(cid, "a")]));
    peer.send([open(9), data(9, "x")]);
    peer.expect([data(9, "x")]);
    let held: Vec<_> = cids.clone().map(|_| stalled.recv().expect("connected")).collect();
    let before = service.rss();
    // What the sockets take, and more of child 3.
    let piece = vec![b'a'; 32 * 1024];
    let mut sent = 0;
    while pauses(&service, "parent-buffer").total_cmp(&0.0).is_eq() {
        peer.send([1, 3, 2, 3, 4, 3].map(|cid| data(cid, &piece)));
        sent += 6 * piece.len();
        assert!(sent < 64 << 20, "never paused");
    }
    let queued = service.metric("lineway_mux_queued_bytes", &[("node", "demux")]);
    assert!((786_432.0..1_400_000.0).contains(&queued), "{queued}");
    closed(&service, "demux", "stalled", 1);
    let mut gone: Vec<Frame> = Vec::new();
    while gone.iter().all(|frame| frame.flags != CLOSE) {
        gone.push(peer.frame());
    }
    assert_eq!(gone.pop(), Some(close(3)), "the one with the largest queue");
    assert!(gone.iter().all(|frame| frame.flags == FLOW_PAUSE), "{gone:?}");
    assert!(service.rss() < before + (48 << 20));
    peer.send([data(9, "y")]);
    let next = std::iter::repeat_with(|| peer.frame()).find(|frame| frame.cid == 9);
    assert_eq!(next, Some(data(9, "y")));
    drop(held);
    peer.send(cids.map(close));
    peer.send([close(9)]);
    no_child_left(&service);
}

/// Bytes that busy children echoed in a while, each.
fn rates(front: &Service, busy: usize, while_: Duration) -> Vec<u64> {
    let over = Arc::new(AtomicBool::new(false));
    let counts: Vec<_> = (0..busy).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let workers: Vec<_> = counts
        .iter()
        .map(|count| {
            let (count, over) = (Arc::clone(count), Arc::clone(&over));
            let mut client = connect(front.at("in"));
            std::thread::Builder::new()
                .stack_size(256 * 1024)
                .spawn(move || {
                    let piece = vec![b'b'; 4096];
                    while !over.load(Relaxed) {
                        send(&mut client, &piece);
                        read(&mut client, piece.len());
                        count.fetch_add(1, Relaxed);
                    }
                })
                .expect("a thread")
        })
        .collect();
    std::thread::sleep(while_);
    over.store(true, Relaxed);
    for worker in workers {
        worker.join().expect("it echoes");
    }
    counts.iter().map(|count| count.load(Relaxed)).collect()
}

#[test]
fn one_stalled_child_beside_49_busy_ones_slows_nobody() {
    let (backend, stalled) = echo_or_stall();
    let back = server_to(backend, "");
    let front = client_to(back.at("in"), &counter(1000), "");
    let alone = rates(&front, 49, Duration::from_millis(2500));
    let mut dead = connect(front.at("in"));
    dead.set_write_timeout(Some(Duration::from_millis(500))).expect("an option");
    let piece = vec![b'a'; 1 << 16];
    while std::io::Write::write_all(&mut dead, &piece).is_ok() {}
    let _held = stalled.recv().expect("it is connected");
    let beside = rates(&front, 49, Duration::from_millis(2500));
    let sum = |all: &[u64]| all.iter().sum::<u64>();
    let (sums, least) = ((sum(&alone), sum(&beside)), beside.iter().min().expect("49"));
    assert!(sums.1 * 2 > sums.0, "{sums:?}");
    assert!(*least * 49 * 4 > sums.1, "{least} of {}", sums.1);
}

#[test]
fn mux_m29_what_an_interactive_child_sends_does_not_wait_behind_a_bulk_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    // Little is on the way.
    socket2::SockRef::from(&listener).set_recv_buffer_size(64 * 1024).expect("an option");
    let service = client_to(listener.local_addr().expect("an address"), &counter(100), "");
    let mut bulk = connect(service.at("in"));
    let (parent, _) = listener.accept().expect("a parent");
    let mut parent = careful(parent);
    assert_eq!(read(&mut parent, 8)[..4], [0, 0, 0, 1]);
    let mut quick = connect(service.at("in"));
    assert_eq!(read(&mut parent, 8)[..4], [0, 0, 0, 1]);
    let payload = pattern(29, 16 << 20);
    let writer = std::thread::spawn(move || {
        send(&mut bulk, &payload);
        bulk
    });
    // The parent's transport is full, and the bulk child is stopped.
    let read_from = |bytes: u64| {
        let page = service.json("/api/lines");
        let lines = page["lines"].as_array().expect("lines").clone();
        lines.iter().any(|line| line["bytes"]["upstream"].as_u64() == Some(bytes))
    };
    let mut before = 0.0;
    until("the bulk child is stopped", || {
        let now = service.metric("lineway_mux_payload_bytes_total", &[]);
        std::mem::replace(&mut before, now) >= now && now > 0.0
    });
    send(&mut quick, "hello");
    until("the process has it", || read_from(5));
    let mut ahead = 0;
    loop {
        let header = read(&mut parent, 8);
        let length = usize::from(u16::from_be_bytes([header[0], header[1]]));
        let payload = read(&mut parent, length);
        if header[4..] == [0, 0, 0, 2] {
            assert_eq!((header[2], &payload[..]), (DATA, &b"hello"[..]));
            break;
        }
        ahead += length;
    }
    // Two sockets' buffers, and 64 KiB.
    assert!(ahead < 2 << 20, "{ahead} of 16 MiB");
    drop(parent);
    drop(writer.join());
}
