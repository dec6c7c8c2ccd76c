//! What sockets keep: memory, descriptors and peers of a service that peers come to and leave.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Service, until};
use crate::kit::{dealer_with, ms, wait};
use crate::raw::{DATA, DEALER, MORE, Peer, REQUEST, ROUTER, Ready, frame, hello, record};
use crate::service::{at, router_node};

/// A service that sends back what it gets.
fn echo(more: &str) -> Service {
    Service::start(&format!(
        "{}{}",
        router_node("clients", "echo", more),
        crate::common::end("echo", "EchoServer")
    ))
}

/// A client that was answered once.
fn answered(to: SocketAddr, id: &str) -> Peer {
    let mut peer = Peer::connect(to, DEALER, id.as_bytes());
    echoed(&mut peer, 1);
    peer
}

fn echoed(peer: &mut Peer, sequence: u64) {
    peer.request(sequence, &[b"ping", b""]);
    let reply = peer.record();
    assert_eq!((reply.sequence, reply.parts), (Some(sequence), vec![b"ping".to_vec(), vec![]]));
}

/// Address space in bytes.
fn reserved(service: &Service) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmSize:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn case_z14_junk_is_refused_and_nothing_is_allocated_for_it() {
    let service = echo("max-message-size = 1048576,");
    let to = at(&service, "clients");
    let mut good = answered(to, "good");
    let hello_d1 = hello(DEALER, b"D1");
    let established = [&hello_d1[..], &Ready::new(DEALER, b"D1").bytes()].concat();
    let of_size = |size: u32| {
        let mut bytes = hello_d1.clone();
        bytes[4..8].copy_from_slice(&size.to_be_bytes());
        bytes.resize(8 + size as usize, 0);
        bytes
    };
    let claims = |size: &[u8]| [&established[..], b"\x5a\x01\x00\x00", size].concat();
    let junk: [(&str, Vec<u8>, u8); 9] = [
        ("telnet", b"\xfb\x18\xff\xfb\x1f\xff\xfb\x20".to_vec(), 0x01),
        ("http", b"GET / HTTP/1.1\r\n\r\n".to_vec(), 0x01),
        ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), 0x01),
        ("4 GiB of 1 MiB", claims(b"\xff\xff\xff\xff"), 0x04),
        ("one byte too many", claims(b"\x00\x10\x00\x01"), 0x04),
        ("a HELLO of 259", of_size(259), 0x7f),
        ("a HELLO of 2", of_size(2), 0x7f),
        ("a HELLO of 4 GiB", [&hello_d1[..4], &[0xff; 4]].concat(), 0x04),
        ("another kind of socket", hello(2, b"D1"), 0x05),
    ];
    for (sequence, (what, bytes, code)) in (2..).zip(&junk) {
        let mut peer = Peer::dial(to);
        peer.try_send(bytes);
        assert_eq!(peer.end(), [*code], "{what}");
        echoed(&mut good, sequence);
    }
    // A megabyte of noise, of which the first byte is right.
    let mut noise: Vec<u8> =
        (0_u32..1 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    noise[0] = 0x5a;
    let mut peer = Peer::dial(to);
    peer.try_send(&noise);
    drop(peer);
    echoed(&mut good, 100);
    let failures = |service: &Service| {
        service.metric("lineway_socket_handshake_failures_total", &[("node", "clients")])
    };
    until("they are counted", || failures(&service) >= 7.0);
}

#[test]
fn case_z14_a_size_alone_takes_no_memory() {
    const PEERS: u64 = 64;
    // Without a limit: four gigabytes from each are right.
    let service = echo("max-message-size = 0, receive-hwm-bytes = 0,");
    let to = at(&service, "clients");
    let mut peers: Vec<_> = (0..PEERS).map(|n| answered(to, &format!("D{n}"))).collect();
    let before = (service.rss(), reserved(&service));
    let claim = |kind: u8, sequence: Option<u64>| {
        let mut bytes = record(REQUEST, Some(2), &[b"in front"]);
        let header = frame(0, kind, sequence, b"");
        bytes.extend(&header[..4]);
        bytes.extend([0xff; 4]);
        bytes.extend(&header[8..]);
        bytes.extend([7; 10]);
        bytes
    };
    for (number, peer) in peers.iter_mut().enumerate() {
        let bytes = if number % 2 == 0 { claim(DATA, None) } else { claim(REQUEST, Some(9)) };
        peer.send(&bytes);
    }
    for peer in &mut peers {
        // What stands in front of it in the same write was read.
        assert_eq!(peer.record().single(), b"in front");
    }
    let grown = service.rss().saturating_sub(before.0);
    assert!(grown < PEERS * (64 << 10), "{grown} bytes for {PEERS} peers");
    let grown = reserved(&service).saturating_sub(before.1);
    assert!(grown < 4 << 30, "{grown} bytes reserved for {PEERS} peers");
    // What really comes is kept, and given back with its peer.
    let mut piece = vec![7; 1 << 20];
    for _ in 0..8 {
        peers[0].send(&piece);
    }
    piece.clear();
    drop(peers);
    service.until_metric("lineway_socket_peers", &[("node", "clients")], 0.0);
    answered(to, "after");
}

#[test]
fn case_z24_the_last_record_of_a_program_arrives_whole() {
    const REPEATS: usize = 12;
    let contents: Vec<u8> =
        (0_u32..1 << 20).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect();
    for repeat in 0..REPEATS {
        let (listener, endpoint) = crate::kit::listen_small();
        let mut child = Command::new(env!("CARGO_BIN_EXE_lineway"))
            .args(["send", &endpoint, "first", "-", "last"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&contents).unwrap();
        let mut peer = Peer::accept(&listener, ROUTER, b"R1");
        // Slower than the program, which would be over in no time.
        for part in 1..=16 {
            peer.read_at_least(part * 64 * 1024);
            std::thread::sleep(ms(2));
        }
        let still_there = child.try_wait().unwrap().is_none();
        let got = peer.record();
        assert_eq!(got.parts.len(), 3);
        assert!(got.parts[1] == contents, "repeat {repeat}");
        assert_eq!((&*got.parts[0], &*got.parts[2]), (&b"first"[..], &b"last"[..]));
        let begun = Instant::now();
        assert!(child.wait().unwrap().success());
        assert!(begun.elapsed() < Duration::from_secs(5), "not the whole linger");
        assert_eq!(peer.end(), b"");
        // Three megabytes were not with the system yet.
        assert!(still_there || cfg!(not(target_os = "linux")), "it ended before it was done");
    }
}

#[test]
fn case_z24_close_gives_when_the_bytes_are_with_the_system() {
    for (records, size) in [(1000, 100), (1, 16 << 20)] {
        let (listener, endpoint) = crate::kit::listen_small();
        let d = dealer_with("D1", |options| {
            options.linger = Some(Duration::from_secs(10));
            options.core.send_hwm = 0;
        });
        wait(d.connect(&endpoint)).unwrap();
        let reads = std::thread::spawn(move || {
            let mut peer = Peer::accept(&listener, ROUTER, b"R1");
            peer.read_at_least(1000);
            std::thread::sleep(ms(100));
            for number in 0..records {
                let record = peer.record();
                assert_eq!(record.single().len(), size);
                assert_eq!(record.single()[..4], u32::to_be_bytes(number));
            }
            assert_eq!(peer.end(), b"");
        });
        d.set_send_timeout(None).unwrap();
        for number in 0..records {
            let mut bytes = vec![0; size];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            d.say(bytes);
        }
        let begun = Instant::now();
        wait(d.close()).unwrap();
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert!(size < 1 << 20 || took > ms(50), "nobody had read it: {took:?}");
        reads.join().unwrap();
        drop(d);
    }
    // Nobody is there to read: the linger ends it.
    let (listener, endpoint) = crate::kit::listen_small();
    let d = dealer_with("D1", |options| options.linger = Some(ms(200)));
    wait(d.connect(&endpoint)).unwrap();
    let peer = Peer::accept(&listener, ROUTER, b"R1");
    d.say(vec![0; crate::kit::HUGE]);
    let begun = Instant::now();
    wait(d.close()).unwrap();
    let took = begun.elapsed();
    assert!(took >= ms(150) && took < Duration::from_secs(5), "{took:?}");
    drop(peer);
}

/// The socket of the service.
fn shown(service: &Service) -> Value {
    service.json("/api/sockets")["sockets"][0].take()
}

/// Nothing is queued for peers or from them, and they are owed nothing.
fn is_empty(service: &Service) -> bool {
    let socket = shown(service);
    let zero = |value: &Value| value == &Value::from(0);
    let queued = &socket["queued"];
    zero(&queued["in"])
        && zero(&queued["out"])
        && zero(&socket["replies_owed"])
        && zero(&socket["answers"]["waiting_answers"])
}

/// One that comes, does something, and leaves in its way.
fn visit(to: SocketAddr, number: usize) {
    let id = format!("visitor {number}");
    match number % 5 {
        // Without a word, or in its handshake.
        0 => drop(Peer::dial(to)),
        1 => {
            let mut peer = Peer::dial(to);
            peer.send(&hello(DEALER, id.as_bytes()));
            peer.expect_hello();
        }
        // In a record.
        2 => {
            let mut peer = answered(to, &id);
            peer.send(&frame(MORE, REQUEST, Some(7), &[1; 5000]));
        }
        // With answers that it does not take, and a reset.
        3 => {
            let mut peer = answered(to, &id);
            for sequence in 2..10 {
                peer.request(sequence, &[&[2; 100]]);
            }
            socket2::SockRef::from(&peer.stream).set_linger(Some(Duration::ZERO)).unwrap();
        }
        _ => {
            let mut peer = answered(to, &id);
            peer.send(&crate::raw::weight(7));
            peer.send(&crate::raw::flow_state(true, 1));
            peer.data(&[b"never taken"]);
        }
    }
}

#[test]
fn a_thousand_peers_that_come_and_go_leave_nothing() {
    // Answers to those that have left are kept no longer than this.
    let service = echo("request-timeout-ms = 200,");
    let to = at(&service, "clients");
    let mut good = answered(to, "good");
    let settled = || {
        service.until_metric("lineway_socket_peers", &[("node", "clients")], 1.0);
        until("nothing is owed", || is_empty(&service));
        (service.descriptors(), service.rss())
    };
    (0..400).for_each(|number| visit(to, number));
    let (descriptors, rss) = settled();
    (400..1400).for_each(|number| visit(to, number));
    until("descriptors are closed", || service.descriptors() <= descriptors);
    let (_, after) = settled();
    // Four kilobytes for each; an allocator keeps a part of what was ever needed at once.
    assert!(after < rss + (4 << 20), "{rss} bytes, and {after} after a thousand peers");
    echoed(&mut good, 2);
    assert_eq!(shown(&service)["peers_total"], 1);
    until("nothing is kept", || is_empty(&service));
}

#[test]
fn peers_that_stop_reading_keep_what_their_limits_allow() {
    const PEERS: u64 = 4;
    const LIMIT: u64 = 1 << 20;
    // What a connection has beside its queues, and what an echo holds back of each peer.
    const BESIDE: u64 = 1 << 20;
    let service = echo("send-hwm-bytes = 1048576, receive-hwm-bytes = 1048576,");
    let to = at(&service, "clients");
    let mut good = answered(to, "good");
    let before = service.rss();
    let mut peers: Vec<_> = (0..PEERS).map(|n| answered(to, &format!("D{n}"))).collect();
    let bytes = record(DATA, None, &[&[9; 1000]]).repeat(256);
    let mut sent = 0;
    for peer in &mut peers {
        peer.stream.set_write_timeout(Some(ms(300))).unwrap();
        // As much as is taken, which ends once both queues and the system's buffers are full.
        loop {
            match peer.stream.write(&bytes) {
                Ok(length) => sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
            assert!(sent < 1 << 30, "a peer that does not read is read for ever");
        }
    }
    let grown = service.rss().saturating_sub(before);
    let allowed = PEERS * (2 * LIMIT + BESIDE) + (4 << 20);
    assert!(grown < allowed, "{grown} bytes, {allowed} are allowed, {sent} were sent");
    // Others are served as before.
    echoed(&mut good, 2);
    for peer in shown(&service)["peers"].as_array().unwrap() {
        for way in ["in", "out"] {
            let queued = peer["queued"][way].as_u64().unwrap();
            assert!(queued <= LIMIT + 2000, "{peer}");
        }
    }
    drop(peers);
    service.until_metric("lineway_socket_peers", &[("node", "clients")], 1.0);
    until("nothing is queued", || is_empty(&service));
}

#[test]
fn all_peers_together_keep_what_the_process_allows() {
    const PEERS: usize = 24;
    // Less than one limit of each: it is the sum that ends the reading.
    let total = 8 << 20;
    let service = Service::start(&format!(
        "[service]\ntotal-queue-bytes = {total}\n{}{}",
        router_node("clients", "echo", ""),
        crate::common::end("echo", "EchoServer")
    ));
    let to = at(&service, "clients");
    let mut peers: Vec<_> = (0..PEERS).map(|n| answered(to, &format!("D{n}"))).collect();
    let before = service.rss();
    let bytes = record(DATA, None, &[&[9; 1000]]).repeat(64);
    for peer in &mut peers {
        peer.stream.set_nonblocking(true).unwrap();
    }
    // In turns, until nothing was taken of anybody for a while.
    let mut left = vec![0; PEERS];
    let mut last = Instant::now();
    while last.elapsed() < ms(500) {
        for (peer, done) in peers.iter_mut().zip(&mut left) {
            match peer.stream.write(&bytes[*done..]) {
                Ok(length) => (*done, last) = ((*done + length) % bytes.len(), Instant::now()),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        std::thread::yield_now();
    }
    let queued = &shown(&service)["queued"];
    let sum = queued["in"].as_u64().unwrap() + queued["out"].as_u64().unwrap();
    // Nothing is read above the limit, but for what one read brings.
    assert!(sum <= total + (1 << 20), "{queued}");
    let grown = service.rss().saturating_sub(before);
    // Charge is no memory: each record has its place in queues, each connection its buffers. The
    // limits of all peers would be 24 times the total.
    assert!(grown < 5 * total, "{grown} bytes for {queued}");
    // Whoever leaves gives back what it took, and the others go on.
    let mut reader = peers.swap_remove(0);
    drop(peers);
    reader.stream.set_nonblocking(false).unwrap();
    for _ in 0..100 {
        assert_eq!(reader.record().single(), [9; 1000]);
    }
    answered(to, "after");
}
