//! Bytes of a recorded pair of another implementation: compared by child and content, since that
//! one opens with the first payload.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::common::peers::{Far, connect, finish, read, read_all, reset, send, serve};
use crate::common::{Service, connector, listener};
use crate::far::{DATA, Frame, Peer, close, open};
use crate::{
    ONE_WORKER, client_listener, client_to, counter, fisher, fisher_server, mux_client, mux_server,
    no_child_left, no_line_left_but, server_to,
};

/// What the client sent and what the server sent.
const MUX: [&[u8]; 2] = [
    include_bytes!("../golden/mux_basic.c0.c2s.bin"),
    include_bytes!("../golden/mux_basic.c0.s2c.bin"),
];

/// The same behind a fisher: the connection that won, and the other one.
const FISHED: [[&[u8]; 2]; 2] = [
    [
        include_bytes!("../golden/fmux_basic.c0.c2s.bin"),
        include_bytes!("../golden/fmux_basic.c0.s2c.bin"),
    ],
    [
        include_bytes!("../golden/fmux_basic.c1.c2s.bin"),
        include_bytes!("../golden/fmux_basic.c1.s2c.bin"),
    ],
];

/// Of each child: its payload, and whether it was closed.
type Children = BTreeMap<u32, (Vec<u8>, bool)>;

fn add(children: &mut Children, frame: &Frame) {
    let child = children.entry(frame.cid).or_default();
    match frame.flags {
        DATA => child.0.extend(&frame.payload),
        1 => child.1 = true,
        _ => {}
    }
}

fn by_child(frames: &[Frame]) -> Children {
    let mut children = Children::new();
    for frame in frames {
        add(&mut children, frame);
    }
    children
}

/// The recorded backend.
fn backend() -> SocketAddr {
    serve(|mut stream| {
        let mut request = Vec::new();
        let mut piece = [0; 64];
        while let Ok(length @ 1..) = std::io::Read::read(&mut stream, &mut piece) {
            request.extend(&piece[..length]);
            let (reply, ends) = match &request[..] {
                b"hello-A" => ("reply-A", false),
                b"hello-B" => ("reply-B", false),
                b"hello-B-1hello-B-2" => ("reply-B", true),
                b"last" => ("bye", true),
                _ => continue,
            };
            send(&mut stream, reply);
            if ends {
                return;
            }
        }
    })
}

/// Plays the recorded client; the answers are the recorded ones.
fn play_client(peer: &mut Peer, sent: &[Frame], answers: &[Frame]) {
    let wanted = by_child(answers);
    let mut got = Children::new();
    // One by one: a child is answered before its Close.
    for frame in sent {
        if frame.flags == 1 {
            while let Some(wanted) = wanted.get(&frame.cid)
                && got.get(&frame.cid).is_none_or(|got| got.0 != wanted.0)
            {
                add(&mut got, &peer.frame());
            }
        }
        peer.send([frame.clone()]);
    }
    while got != wanted {
        let frame = peer.frame();
        assert_eq!(frame.pad, 0, "{frame:?}");
        add(&mut got, &frame);
    }
}

#[test]
fn the_server_answers_a_recorded_client_as_the_recorded_server_did() {
    let service = server_to(backend(), "");
    let mut peer = Peer::connect(service.at("in"));
    let [sent, answers] = MUX.map(Frame::all);
    play_client(&mut peer, &sent, &answers);
    no_child_left(&service);
    peer.finish();
    peer.ended();
}

#[test]
fn the_server_answers_a_recorded_client_behind_a_fisher() {
    let nodes = listener("in", "proof", "")
        + &fisher_server("proof", "demux")
        + &mux_server("out", "")
        + &connector("out", backend(), "");
    let service = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let [[sent, answers], [loser, reply]] = FISHED;
    let mut other = connect(service.at("in"));
    send(&mut other, loser);
    assert_eq!(read(&mut other, 5), reply);
    drop(other);
    let mut winner = connect(service.at("in"));
    send(&mut winner, &sent[..5]);
    assert_eq!(read(&mut winner, 5), &answers[..5]);
    let mut peer = Peer::on(winner);
    play_client(&mut peer, &Frame::all(&sent[5..]), &Frame::all(&answers[5..]));
    no_child_left(&service);
    peer.finish();
    peer.ended();
}

/// Plays the recorded server: what it sent of each child, once the child has sent what it did.
fn play_server(peer: &mut Peer, sent: &Children, answers: &[Frame]) -> Children {
    let mut got = Children::new();
    let mut told = 0;
    while got != *sent {
        let frame = peer.frame();
        assert!(frame.pad == 0 || frame.pad == 1 && frame.flags == 0, "{frame:?}");
        add(&mut got, &frame);
        let cid = frame.cid;
        if frame.flags == DATA && got[&cid].0 == sent[&cid].0 {
            let mine = answers.iter().filter(|answer| answer.cid == cid).cloned();
            peer.send(mine);
            told += 1;
        }
    }
    assert_eq!(told, by_child(answers).len(), "every child was answered");
    got
}

/// The lines of the recording, from the outside.
fn play_lines(service: &Service) {
    let at = service.at("in");
    let mut a = connect(at);
    send(&mut a, "hello-A");
    assert_eq!(read(&mut a, 7), b"reply-A");
    let mut b = connect(at);
    send(&mut b, "hello-B-1");
    send(&mut b, "hello-B-2");
    drop(a);
    assert_eq!(read_all(&mut b), b"reply-B");
    // Opened and closed without a byte, as the recorded one: a reset, since only that is over.
    let c = connect(at);
    let opens = [("node", "mux"), ("kind", "open")];
    service.until_metric("lineway_mux_frames_total", &opens, 3.0);
    reset(c);
    let mut d = connect(at);
    send(&mut d, "last");
    assert_eq!(read_all(&mut d), b"bye");
}

#[test]
fn the_client_sends_what_a_recorded_client_sent() {
    let far = Far::new();
    let service = client_to(far.address, &counter(100), "half-close-timeout-ms = 100,");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut peer = Peer::on(far.accept());
            let [sent, answers] = MUX.map(Frame::all);
            play_server(&mut peer, &by_child(&sent), &answers);
        });
        play_lines(&service);
    });
    no_child_left(&service);
    assert!(far.waiting().is_none(), "one parent");
}

#[test]
fn the_client_sends_what_a_recorded_client_sent_behind_a_fisher() {
    let far = Far::new();
    let nodes = client_listener()
        + &mux_client("race", &counter(100), "half-close-timeout-ms = 100,")
        + &fisher("race", "out", 2)
        + &connector("out", far.address, "");
    let service = Service::start(&(ONE_WORKER.to_owned() + &nodes));
    let [[sent, answers], [loser, reply]] = FISHED;
    let (mut a, mut b) = (connect(service.at("in")), None);
    let (mut winner, mut other) = (far.accept(), far.accept());
    for candidate in [&mut winner, &mut other] {
        assert_eq!(read(candidate, 5), loser);
    }
    send(&mut winner, reply);
    assert_eq!(read_all(&mut other), b"", "nothing of a child goes to the other one");
    drop(other);
    send(&mut a, "hello-A");
    let mut peer = Peer::on(winner);
    let [sent, answers] = [&sent[5..], &answers[5..]].map(Frame::all);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| play_server(&mut peer, &by_child(&sent), &answers));
        assert_eq!(read(&mut a, 7), b"reply-A");
        let b = b.insert(connect(service.at("in")));
        send(b, "hello-B");
        assert_eq!(read(b, 7), b"reply-B");
        finish(&a);
        finish(b);
        assert_eq!(served.join().expect("it was played").len(), 2);
    });
    // The candidate that won is part of the parent.
    no_line_left_but(&service, 1.0);
    // What the recording shows last: the ends of both children.
    assert_eq!(sent[sent.len() - 2..], [close(1), close(2)]);
    assert_eq!(sent[0], open(1));
}
