//! The worked bytes of the wire (1.8), and the answers to what is wrong on it (1.2, 1.3).

use lineway::zmp::monitor::EventKind::{ConnectionReady, Disconnected, HandshakeFailedProtocol};
use lineway::zmp::{Errno, FlowState, Outcome, RequestResult};

use crate::kit::{dealer, parts, router, wait};
use crate::raw::{
    CONTROL, DATA, DEALER, ERROR_REPLY, MORE, Peer, REPLY, REQUEST, ROUTER, Ready, accept, control,
    frame, hello, listen, record,
};

const HELLO_D1: &[u8] = b"\x5a\x01\x02\x00\x00\x00\x00\x05\x01\x05\x02D1";
const HELLO_R1: &[u8] = b"\x5a\x01\x02\x00\x00\x00\x00\x05\x01\x06\x02R1";
const READY_D1: &[u8] = b"\x5a\x01\x02\x00\x00\x00\x00\x71\x04\
    \x0bSocket-Type\x00\x00\x00\x06DEALER\
    \x0aRouting-Id\x00\x00\x00\x02D1\
    \x16Zlink-Max-Message-Size\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\
    \x10Zlink-Lane-Count\x00\x00\x00\x01\x01\
    \x0aZlink-Lane\x00\x00\x00\x01\x00";
const READY_R1: &[u8] = b"\x5a\x01\x02\x00\x00\x00\x00\x71\x04\
    \x0bSocket-Type\x00\x00\x00\x06ROUTER\
    \x0aRouting-Id\x00\x00\x00\x02R1\
    \x16Zlink-Max-Message-Size\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\
    \x10Zlink-Lane-Count\x00\x00\x00\x01\x01\
    \x0aZlink-Lane\x00\x00\x00\x01\x00";
const DATA_HELLO_WORLD: &[u8] =
    b"\x5a\x01\x01\x00\x00\x00\x00\x05hello\x5a\x01\x00\x00\x00\x00\x00\x05world";
const DATA_EMPTY: &[u8] = b"\x5a\x01\x00\x00\x00\x00\x00\x00";
const REQUEST_PING: &[u8] = b"\x5a\x01\x00\x01\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01ping";
const REQUEST_A_BC: &[u8] = b"\x5a\x01\x01\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02a\
    \x5a\x01\x00\x00\x00\x00\x00\x02bc";
const REPLY_PONG: &[u8] = b"\x5a\x01\x00\x02\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01pong";
const ERROR_REPLY_GONE: &[u8] = b"\x5a\x01\x01\x03\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x02\
    \x00\x00\x00\x02\x5a\x01\x00\x00\x00\x00\x00\x04gone";
const WEIGHT_300: &[u8] = b"\x5a\x01\x02\x00\x00\x00\x00\x0aWEIGHT\x00\x00\x01\x2c";
const PAUSED_1: &[u8] =
    b"\x5a\x01\x02\x00\x00\x00\x00\x13FLOWSTATE\x01\x01\x00\x00\x00\x00\x00\x00\x00\x01";
const RUNNING_2: &[u8] =
    b"\x5a\x01\x02\x00\x00\x00\x00\x13FLOWSTATE\x01\x00\x00\x00\x00\x00\x00\x00\x00\x02";
const ERROR_08: &[u8] = b"\x5a\x01\x02\x00\x00\x00\x00\x1b\x05\x08\x18request sequence invalid";

/// The next bytes are these.
#[track_caller]
fn expect(peer: &mut Peer, expected: &[u8]) {
    let before = peer.seen.len();
    peer.read_at_least(expected.len());
    let seen = peer.take(expected.len());
    assert_eq!(seen.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{before}");
}

#[test]
fn wire_1_8_a_dealer_says_the_worked_bytes() {
    let d = dealer("D1");
    let (listener, endpoint) = listen();
    wait(d.connect(&endpoint)).unwrap();
    let mut peer = Peer::of(accept(&listener));
    // HELLO alone until the other's has come (1.5).
    expect(&mut peer, HELLO_D1);
    peer.silent(crate::kit::ms(50));
    peer.send(HELLO_R1);
    expect(&mut peer, READY_D1);
    assert_eq!(READY_D1.len(), 121);
    peer.send(READY_R1);
    d.event(ConnectionReady);
    d.say(parts(&["hello", "world"]));
    expect(&mut peer, DATA_HELLO_WORLD);
    d.say("");
    expect(&mut peer, DATA_EMPTY);
    let one = d.try_request("ping", None, 11).unwrap();
    expect(&mut peer, REQUEST_PING);
    let two = d.try_request(parts(&["a", "bc"]), None, 12).unwrap();
    expect(&mut peer, REQUEST_A_BC);
    d.set_weight(300).unwrap();
    expect(&mut peer, WEIGHT_300);
    d.set_receive_flow_state(FlowState::Paused).unwrap();
    expect(&mut peer, PAUSED_1);
    d.set_receive_flow_state(FlowState::Running).unwrap();
    expect(&mut peer, RUNNING_2);
    peer.send(&[REPLY_PONG, ERROR_REPLY_GONE].concat());
    let reply = wait(d.next_completion()).unwrap();
    let Outcome::Request { result: RequestResult::Ok, parts: Some(record), .. } = reply.outcome
    else {
        panic!("{reply:?}")
    };
    assert_eq!((reply.id, reply.context, record.parts()), (one, 11, &["pong".into()][..]));
    let error = wait(d.next_completion()).unwrap();
    let Outcome::Request { result, errno, parts: Some(record) } = error.outcome else {
        panic!("{error:?}")
    };
    assert_eq!((error.id, error.context, record.parts()), (two, 12, &["gone".into()][..]));
    assert_eq!((result, errno), (RequestResult::NotFound, Errno::ENOENT));
}

#[test]
fn wire_1_8_a_router_says_the_worked_bytes() {
    let r = router("R1");
    let at = r.bound();
    let mut peer = Peer::dial(at);
    expect(&mut peer, HELLO_R1);
    // READY straight behind HELLO is right as well (1.5).
    peer.send(&[HELLO_D1, READY_D1].concat());
    expect(&mut peer, READY_R1);
    r.event(ConnectionReady);
    peer.send(
        &[DATA_HELLO_WORLD, DATA_EMPTY, REQUEST_PING, WEIGHT_300, PAUSED_1, RUNNING_2].concat(),
    );
    let data = wait(r.recv()).unwrap();
    assert_eq!(
        (data.record.parts(), data.reply.is_none()),
        (&["hello".into(), "world".into()][..], true)
    );
    assert_eq!(wait(r.recv()).unwrap().record.parts(), [""]);
    let ping = wait(r.recv()).unwrap();
    assert_eq!((ping.from.as_bytes(), ping.record.parts()), (&b"D1"[..], &["ping".into()][..]));
    wait(ping.reply.unwrap().reply("pong")).unwrap();
    expect(&mut peer, REPLY_PONG);
    assert_eq!(r.event(lineway::zmp::monitor::EventKind::PeerWeightChanged).value, 300);
    // The same sequence is free again once it was answered, and wrong while it is not (1.6).
    peer.send(REQUEST_PING);
    let ping = wait(r.recv()).unwrap();
    peer.send(REQUEST_PING);
    expect(&mut peer, ERROR_08);
    assert_eq!(peer.end(), b"");
    drop(ping);
}

/// The ERROR codes with which a ROUTER ends a connection that says this.
fn answer(
    r: &crate::kit::Under<lineway::zmp::Router>,
    at: std::net::SocketAddr,
    bytes: &[u8],
) -> Vec<u8> {
    let mut peer = Peer::dial(at);
    // It may end before all is taken.
    peer.try_send(bytes);
    let codes = peer.end();
    r.event(Disconnected);
    codes
}

#[test]
fn wire_1_3_wrong_handshakes_end_with_their_code() {
    let r = router("R1");
    let at = r.bound();
    let mut good = r.accepts(at, DEALER, "good");
    let hello_bytes = hello(DEALER, b"D1");
    let ready = Ready::new(DEALER, b"D1").bytes();
    let behind = |bytes: &[u8]| [&hello_bytes[..], bytes].concat();
    let ready_with = |set: fn(&mut Ready)| {
        let mut ready = Ready::new(DEALER, b"D1");
        set(&mut ready);
        behind(&ready.bytes())
    };
    let mut trailing = Ready::new(DEALER, b"D1").bytes()[8..].to_vec();
    trailing.push(0);
    // Up to the lanes, which an old READY does not have.
    let old = control(&Ready::new(DEALER, b"D1").bytes()[8..8 + 79]);
    let hellos: [(&str, Vec<u8>, u8); 9] = [
        ("magic", vec![0x59, 1, 2, 0, 0, 0, 0, 5], 0x01),
        ("version", vec![0x5a, 2, 2, 0, 0, 0, 0, 5], 0x02),
        ("kind", vec![0x5a, 1, 2, 4, 0, 0, 0, 5], 0x07),
        ("flags", vec![0x5a, 1, 0x22, 0, 0, 0, 0, 5], 0x03),
        ("PUB", hello(1, b"D1"), 0x05),
        ("no body", control(&[]), 0x7f),
        ("id longer than it", control(&[1, 5, 3, b'D', b'1']), 0x7f),
        ("data first", record(DATA, None, &[b"hi"]), 0x7f),
        ("WEIGHT first", crate::raw::weight(5), 0x7f),
    ];
    for (what, bytes, code) in hellos {
        assert_eq!(answer(&r, at, &bytes), [code], "{what}");
        let failed = r.event(HandshakeFailedProtocol);
        assert_eq!(failed.value, 0x1000_0013, "{what}");
    }
    let readies = [
        ("two lanes", ready_with(|ready| ready.lanes = 2)),
        ("lane 1 of 1", ready_with(|ready| ready.lane = 1)),
        ("lane 2", ready_with(|ready| ready.lane = 2)),
        ("another type", ready_with(|ready| ready.kind = ROUTER)),
        ("another id", ready_with(|ready| ready.id = b"D2".to_vec())),
        ("a byte behind it", behind(&control(&trailing))),
        ("no lanes", behind(&old)),
        ("data first", behind(&record(DATA, None, &[b"hi"]))),
    ];
    for (what, bytes) in readies {
        assert_eq!(answer(&r, at, &bytes), [0x7f], "{what}");
        assert_eq!(r.event(HandshakeFailedProtocol).value, 0x1000_0016, "{what}");
    }
    // Behind a right handshake.
    let after = |bytes: Vec<u8>| [&hello_bytes[..], &ready, &bytes].concat();
    let established: [(&str, Vec<u8>, u8); 11] = [
        ("a second READY", ready.clone(), 0x7f),
        ("an empty control", control(&[]), 0x7f),
        ("sequence 0", frame(0, REQUEST, Some(0), b"ping"), 0x08),
        ("kind 9", vec![0x5a, 1, 0, 9, 0, 0, 0, 0], 0x07),
        ("a REQUEST that is CONTROL", frame(CONTROL, REQUEST, Some(1), b"ping"), 0x03),
        ("CONTROL with MORE", frame(CONTROL | MORE, DATA, None, b"x"), 0x03),
        (
            "REQUEST inside of a record",
            [frame(MORE, DATA, None, b"x"), frame(0, REQUEST, Some(1), b"y")].concat(),
            0x09,
        ),
        (
            "CONTROL inside of a record",
            [frame(MORE, DATA, None, b"x"), crate::raw::weight(5)].concat(),
            0x09,
        ),
        ("a REPLY", record(REPLY, Some(1), &[b"pong"]), 0x07),
        ("an ERROR REPLY", record(ERROR_REPLY, Some(1), &[&[0, 0, 0, 2]]), 0x07),
        ("a control of 4097 bytes", control(&[9; 4097]), 0x04),
    ];
    for (what, bytes, code) in established {
        let codes: Vec<_> = answer(&r, at, &after(bytes));
        assert_eq!(codes, [code], "{what}");
    }
    // Unknown control is nobody's (1.3), and 4096 bytes of it are allowed.
    let mut peer = Peer::dial(at);
    peer.send(&after(control(&[9; 4096])));
    peer.data(&[b"still here"]);
    assert_eq!(r.hear(), ("D1".to_owned(), b"still here".to_vec()));
    good.data(&[b"good"]);
    assert_eq!(r.hear(), ("good".to_owned(), b"good".to_vec()));
}

#[test]
fn wire_1_4_a_dealer_takes_no_request_and_two_routers_have_two_lanes() {
    let d = dealer("D1");
    let mut far = d.peer(ROUTER, "R1");
    far.request(1, &[b"for a DEALER"]);
    assert_eq!(far.end(), [0x7f]);
    d.event(Disconnected);
    d.has_nothing();

    let r = router("R1");
    let (listener, endpoint) = listen();
    wait(r.connect(&endpoint)).unwrap();
    let mut lanes = [(); 2].map(|()| {
        let mut peer = Peer::of(accept(&listener));
        peer.send(&hello(ROUTER, b"R2"));
        assert_eq!(peer.expect_hello(), (ROUTER, b"R1".to_vec()));
        let (count, lane) = peer.expect_ready();
        assert_eq!(count, 2);
        peer.send(&Ready { lanes: 2, lane, ..Ready::new(ROUTER, b"R2") }.bytes());
        (lane, peer)
    });
    lanes.sort_by_key(|lane| lane.0);
    assert_eq!(lanes.each_ref().map(|lane| lane.0), [0, 1]);
    let ready = r.event(ConnectionReady);
    assert_eq!((ready.value, r.events(ConnectionReady)), (1, 0));
    let [(_, application), (_, completion)] = &mut lanes;
    // Requests and weights on lane 0, replies and flow states on lane 1.
    r.set_weight(300).unwrap();
    assert_eq!(application.control(), WEIGHT_300[8..]);
    r.set_receive_flow_state(FlowState::Paused).unwrap();
    assert_eq!(completion.control(), PAUSED_1[8..]);
    let peer = crate::kit::id("R2");
    r.try_request(&peer, "ping", None, 1).unwrap();
    let asked = application.record();
    assert_eq!((asked.kind, asked.single()), (REQUEST, &b"ping"[..]));
    completion.reply(asked.sequence.unwrap(), &[b"pong"]);
    let reply = wait(r.next_completion()).unwrap();
    assert_eq!(reply.peer, Some(peer));
    assert!(matches!(reply.outcome, Outcome::Request { result: RequestResult::Ok, .. }));
    application.request(9, &[b"yours"]);
    let asked = wait(r.recv()).unwrap();
    asked.reply.unwrap().try_reply("mine").unwrap();
    let given = completion.record();
    assert_eq!((given.kind, given.sequence), (REPLY, Some(9)));
    // One lane ends, and with it the other; both come again.
    let [(_, application), (_, mut completion)] = lanes;
    drop(application);
    assert_eq!(completion.end(), b"");
}
