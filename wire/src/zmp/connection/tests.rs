use std::num::NonZeroU64;

use super::*;
use crate::zmp::core::{FlowState, Weight};
use crate::zmp::record::{Record, Sequence};
use crate::zmp::tester::{
    all, all_of, code, control, established, greeting, hello, hex, options, parts_of, properties,
    property, ready_of, record,
};

use Lane::{Application, Completion};
use SocketKind::{Dealer, Router};

const TYPED: &str = "5a 01 00 KK 00 00 00 00 00 00 00 00 00 00 00 01";

fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

/// A ROUTER that accepted a connection and has read this.
fn accepted(bytes: &[u8]) -> (Vec<Event>, Result<Next, ProtocolError>) {
    all(&mut Connection::new(options(Router, false)), bytes)
}

// ---- handshake ----------------------------------------------------------------------------------

#[test]
fn zmp_1_5_hello_at_once_and_ready_after_the_peer_has_spoken() {
    let mut dealer = Connection::new(options(Dealer, true));
    let mut router = Connection::new(options(Router, false));
    let hello_of_dealer = dealer.output().expect("HELLO");
    let hello_of_router = router.output().expect("HELLO");
    assert_eq!(hello_of_dealer, hello(5, "D1"));
    assert_eq!(hello_of_router, hello(6, "R1"));
    assert_eq!((dealer.output(), router.output()), (None, None));

    let told = |kind, id: &'static str| Event::Hello { kind, routing_id: id.into() };
    assert_eq!(all(&mut router, &hello_of_dealer).0, [told(Dealer, "D1")]);
    assert_eq!(router.output(), None, "the accepted side waits for READY");
    assert_eq!(all(&mut dealer, &hello_of_router).0, [told(Router, "R1")]);
    let ready = dealer.output().expect("READY");
    assert_eq!(ready, ready_of(&properties(Dealer, "D1", 1, 0)));
    assert!(!dealer.is_established() && !router.is_established());

    let both = |kind, id: &'static str| Event::Established {
        kind,
        routing_id: id.into(),
        max_message_size: 0,
        lane: Application,
    };
    assert_eq!(all(&mut router, &ready).0, [both(Dealer, "D1")]);
    let answer = router.output().expect("READY");
    assert_eq!(answer, ready_of(&properties(Router, "R1", 1, 0)));
    assert_eq!(all(&mut dealer, &answer).0, [both(Router, "R1")]);
    assert!(dealer.is_established() && router.is_established());
    assert_eq!((dealer.output(), router.output()), (None, None));
}

#[test]
fn zmp_1_5_a_dialled_peer_may_send_ready_behind_hello() {
    let mut dealer = Connection::new(options(Dealer, true));
    let (events, _) = all(&mut dealer, &greeting(Dealer, Router, "R1", 0));
    assert_eq!(events.len(), 2);
    let output = dealer.output().expect("both");
    assert_eq!(output, greeting(Router, Dealer, "D1", 0));
}

#[test]
fn zmp_1_4_two_lanes_between_routers_only() {
    for (own, peer, count) in
        [(Dealer, Dealer, 1), (Dealer, Router, 1), (Router, Dealer, 1), (Router, Router, 2)]
    {
        let mut connection = Connection::new(options(own, true));
        connection.output();
        assert_eq!(all(&mut connection, &hello(peer.byte(), "P")).0.len(), 1);
        let id = if own == Router { "R1" } else { "D1" };
        let ready = connection.output().expect("READY");
        assert_eq!(ready, ready_of(&properties(own, id, count, 0)), "{own:?} {peer:?}");
    }
}

#[test]
fn zmp_1_5_the_accepted_side_repeats_the_lane() {
    for (number, lane) in [(0, Application), (1, Completion)] {
        let mut router = Connection::new(options(Router, false));
        let (events, _) = all(&mut router, &greeting(Router, Router, "R2", number));
        let Event::Established { lane: told, .. } = events[1] else { panic!("{events:?}") };
        assert_eq!(told, lane);
        assert_eq!(router.output().unwrap(), greeting(Router, Router, "R1", number));
    }
}

#[test]
fn zmp_1_5_the_dialled_side_asks_for_its_lane() {
    let second = ConnectionOptions { lane: Completion, ..options(Router, true) };
    let mut router = Connection::new(second.clone());
    assert_eq!(all(&mut router, &greeting(Router, Router, "R2", 1)).0.len(), 2);
    assert_eq!(router.output().unwrap(), greeting(Router, Router, "R1", 1));

    // The same lane twice; and a peer that has only one.
    let mut router = Connection::new(second.clone());
    let (_, end) = all(&mut router, &greeting(Router, Router, "R2", 0));
    assert_eq!(end.unwrap_err().code, ErrorCode::Internal);
    let mut router = Connection::new(second);
    let (events, end) = all(&mut router, &hello(5, "D2"));
    assert_eq!((events.len(), end.unwrap_err().code), (0, ErrorCode::Internal));
}

#[test]
fn zmp_1_3_the_largest_record_is_told_and_learned() {
    let own = ConnectionOptions { max_message_size: 0x1234, ..options(Router, false) };
    let mut router = Connection::new(own);
    let mut given = properties(Dealer, "D1", 1, 0);
    given[2] = property("Zlink-Max-Message-Size", &77u64.to_be_bytes());
    let (events, _) = all(&mut router, &[hello(5, "D1"), ready_of(&given)].concat());
    assert!(matches!(events[1], Event::Established { max_message_size: 77, .. }));
    let mut told = properties(Router, "R1", 1, 0);
    told[2] = property("Zlink-Max-Message-Size", &0x1234u64.to_be_bytes());
    assert_eq!(router.output().unwrap(), [hello(6, "R1"), ready_of(&told)].concat());
}

#[test]
fn zmp_1_3_a_hello_may_have_an_empty_id() {
    let (events, end) = accepted(&greeting(Router, Dealer, "", 0));
    assert_eq!((events.len(), end), (2, Ok(Next::NeedsMore)));
}

#[test]
fn zmp_1_3_case_z14_d_hello_shape() {
    // Sizes 2 and 259, and lengths that are not what they say.
    for bytes in [
        "5a 01 02 00 00 00 00 02",
        "5a 01 02 00 00 00 01 03",
        "5a 01 02 00 00 00 00 04 01 05 00 41",
        "5a 01 02 00 00 00 00 04 01 05 02 41",
    ] {
        let mut router = Connection::new(options(Router, false));
        assert_eq!(code(&mut router, &hex(bytes)), ErrorCode::Internal, "{bytes}");
        assert_eq!(router.handshake(), Some(HandshakeFault::Hello));
    }
}

#[test]
fn zmp_1_3_case_z14_e_other_types_of_sockets() {
    for socket_type in (0..=255).filter(|byte| ![5, 6].contains(byte)) {
        let mut router = Connection::new(options(Router, false));
        let code = code(&mut router, &hello(socket_type, "D1"));
        assert_eq!(code, ErrorCode::SocketType, "{socket_type}");
    }
}

#[test]
fn zmp_1_3_order_of_the_handshake() {
    let data = hex("5a 01 00 00 00 00 00 00");
    let request = hex(&TYPED.replace("KK", "01"));
    let weight = control(b"WEIGHT\0\0\0\x64");
    let unknown = control(&[9]);
    let ready = ready_of(&properties(Dealer, "D1", 1, 0));
    let first = [&ready, &data, &request, &weight, &unknown, &control(&[])];
    for bytes in first {
        let mut router = Connection::new(options(Router, false));
        assert_eq!(code(&mut router, bytes), ErrorCode::Internal, "before HELLO: {bytes:?}");
    }
    let hello = hello(5, "D1");
    for bytes in [&hello, &data, &request, &weight, &unknown, &control(&[])] {
        let (events, end) = accepted(&[&hello[..], bytes].concat());
        let code = end.unwrap_err().code;
        assert_eq!((events.len(), code), (1, ErrorCode::Internal), "before READY: {bytes:?}");
    }
    for bytes in [&hello, &ready, &control(&[])] {
        let (events, end) = accepted(&[&hello[..], &ready, bytes].concat());
        let code = end.unwrap_err().code;
        assert_eq!((events.len(), code), (2, ErrorCode::Internal), "behind READY: {bytes:?}");
    }
}

/// What an accepted ROUTER says to a READY of these properties of `D1`.
fn ready_code(properties: &[Vec<u8>]) -> Option<ErrorCode> {
    ready_code_of(Dealer, properties)
}

fn ready_code_of(peer: SocketKind, properties: &[Vec<u8>]) -> Option<ErrorCode> {
    let mut router = Connection::new(options(Router, false));
    let stream = [hello(peer.byte(), "D1"), ready_of(properties)].concat();
    let (events, end) = all(&mut router, &stream);
    router.output().expect("HELLO at least");
    let code = end.err().map(|error| error.code);
    assert_eq!(events.len(), if code.is_some() { 1 } else { 2 });
    let fault = if code.is_some() { Some(HandshakeFault::Ready) } else { None };
    assert_eq!(router.handshake(), fault);
    code
}

#[test]
fn zmp_1_3_ready_properties_in_any_order_with_unknown_and_repeated_ones() {
    let given = properties(Dealer, "D1", 1, 0);
    let mut other: Vec<_> = given.iter().rev().cloned().collect();
    assert_eq!(ready_code(&other), None);
    other.insert(0, property("Zlink-Lane", &[7, 7]));
    other.insert(0, property("Zlink-Pair-Id", &[0; 16]));
    other.push(property("", &[]));
    assert_eq!(ready_code(&other), None, "the last one of repeated ones");
    other.push(property("Zlink-Lane", &[7]));
    assert_eq!(ready_code(&other), Some(ErrorCode::Internal));
}

#[test]
fn zmp_1_3_ready_without_a_size_or_a_name() {
    let given = properties(Dealer, "D1", 1, 0);
    for place in 0..3 {
        let mut some = given.to_vec();
        some.remove(place);
        assert_eq!(ready_code(&some), None, "without property {place}");
    }
}

#[test]
fn zmp_1_3_ready_error_lane_count() {
    let with = |count: &[u8]| {
        let mut given = properties(Dealer, "D1", 1, 0).to_vec();
        given[3] = property("Zlink-Lane-Count", count);
        ready_code(&given)
    };
    assert_eq!(with(&[1]), None);
    for count in [&[][..], &[0], &[2], &[3], &[255], &[0, 1], &[1, 0]] {
        assert_eq!(with(count), Some(ErrorCode::Internal), "{count:?}");
    }
    let mut missing = properties(Dealer, "D1", 1, 0).to_vec();
    missing.remove(3);
    assert_eq!(ready_code(&missing), Some(ErrorCode::Internal));
    let one_of_two = properties(Router, "D1", 1, 0);
    assert_eq!(ready_code_of(Router, &one_of_two), Some(ErrorCode::Internal));
    assert_eq!(ready_code_of(Router, &properties(Router, "D1", 2, 1)), None);
}

#[test]
fn zmp_1_3_ready_error_lane() {
    let with = |peer: SocketKind, count, lane: &[u8]| {
        let mut given = properties(peer, "D1", count, 0).to_vec();
        given[4] = property("Zlink-Lane", lane);
        ready_code_of(peer, &given)
    };
    for lane in [&[][..], &[1], &[2], &[255], &[0, 0]] {
        assert_eq!(with(Dealer, 1, lane), Some(ErrorCode::Internal), "{lane:?} of 1");
    }
    for lane in [&[][..], &[2], &[255], &[0, 1]] {
        assert_eq!(with(Router, 2, lane), Some(ErrorCode::Internal), "{lane:?} of 2");
    }
    let mut missing = properties(Dealer, "D1", 1, 0).to_vec();
    missing.pop();
    assert_eq!(ready_code(&missing), Some(ErrorCode::Internal));
}

#[test]
fn zmp_1_3_ready_error_other_than_hello() {
    let mut type_differs = properties(Dealer, "D1", 1, 0);
    type_differs[0] = property("Socket-Type", b"ROUTER");
    assert_eq!(ready_code(&type_differs), Some(ErrorCode::Internal));
    let mut id_differs = properties(Dealer, "D1", 1, 0);
    id_differs[1] = property("Routing-Id", b"D2");
    assert_eq!(ready_code(&id_differs), Some(ErrorCode::Internal));
}

#[test]
fn zmp_1_3_ready_error_size_that_is_not_8_bytes() {
    for length in [0, 4, 7, 9] {
        let mut given = properties(Dealer, "D1", 1, 0);
        given[2] = property("Zlink-Max-Message-Size", &vec![0; length]);
        assert_eq!(ready_code(&given), Some(ErrorCode::Internal), "{length}");
    }
}

#[test]
fn zmp_1_3_ready_error_stray_byte_and_overrun() {
    let mut stray = properties(Dealer, "D1", 1, 0).to_vec();
    stray.push(vec![0]);
    assert_eq!(ready_code(&stray), Some(ErrorCode::Internal));
    stray[5] = hex("01 \"x\" 00 00 00 02 00");
    assert_eq!(ready_code(&stray), Some(ErrorCode::Internal));
}

#[test]
fn zmp_1_2_an_error_of_the_peer_is_the_end_in_every_stage() {
    let said = control(&hex("05 05 03 \"why\""));
    let told = Event::Error { code: 5, reason: "why".into() };
    let greeting = greeting(Router, Dealer, "D1", 0);
    for before in [&[][..], &greeting[..13], &greeting] {
        let mut router = Connection::new(options(Router, false));
        let mut input = BytesMut::from(&[before, &said, b"anything"].concat()[..]);
        let (events, end) = all_of(&mut router, &mut input);
        assert_eq!((events.last(), end), (Some(&told), Ok(Next::NeedsMore)));
        assert!(input.is_empty(), "what follows is let go");
        assert_eq!((router.end(&input), router.handshake()), (Ok(()), None));
    }
}

#[test]
fn zmp_1_2_error_frames_have_the_text_of_their_code() {
    let fault = ProtocolError::new(ErrorCode::Sequence, "for the log");
    let frame = hex(r#"5a 01 02 00 00 00 00 1b 05 08 18 "request sequence invalid""#);
    assert_eq!(error_frame(&fault), frame);
    let timeout = hex(r#"5a 01 02 00 00 00 00 14 05 06 11 "handshake timeout""#);
    assert_eq!(error_frame(&handshake_timeout()), timeout);
}

#[test]
fn zmp_4_6_values_of_handshake_faults() {
    assert_eq!(HandshakeFault::Hello.value(), 0x1000_0013);
    assert_eq!(HandshakeFault::Ready.value(), 0x1000_0016);
}

// ---- records ------------------------------------------------------------------------------------

#[test]
fn zmp_1_8_records() {
    let mut router = established(Router, Dealer, 0, 0);
    let stream = hex(r"5a 01 01 00 00 00 00 05 68 65 6c 6c 6f
        5a 01 00 00 00 00 00 05 77 6f 72 6c 64
        5a 01 00 00 00 00 00 00
        5a 01 00 01 00 00 00 04 00 00 00 00 00 00 00 01 70 69 6e 67
        5a 01 01 01 00 00 00 01 00 00 00 00 00 00 00 02 61
        5a 01 00 00 00 00 00 02 62 63");
    let expected = [
        record(Kind::Data, &["hello", "world"]),
        record(Kind::Data, &[""]),
        record(Kind::Request(sequence(1)), &["ping"]),
        record(Kind::Request(sequence(2)), &["a", "bc"]),
    ];
    assert_eq!(all(&mut router, &stream), (expected.to_vec(), Ok(Next::NeedsMore)));

    let mut dealer = established(Dealer, Router, 0, 0);
    let stream = hex(r"5a 01 00 02 00 00 00 04 00 00 00 00 00 00 00 01 70 6f 6e 67
        5a 01 01 03 00 00 00 04 00 00 00 00 00 00 00 02 00 00 00 02
        5a 01 00 00 00 00 00 04 67 6f 6e 65");
    let expected = [
        record(Kind::Reply(sequence(1)), &["pong"]),
        record(Kind::ErrorReply(sequence(2)), &["\0\0\0\x02", "gone"]),
    ];
    assert_eq!(all(&mut dealer, &stream), (expected.to_vec(), Ok(Next::NeedsMore)));
}

#[test]
fn zmp_1_7_weight_and_flowstate_come_with_the_records() {
    let mut router = established(Router, Dealer, 0, 4);
    let paused = hex("\"FLOWSTATE\" 01 01 00 00 00 00 00 00 00 05");
    let stream = [
        control(b"WEIGHT\0\0\x01\x2c"),
        control(&paused),
        control(b"WEIGHT"),
        control(b"FLOWSTATE\x02"),
        control(b"somebody else's"),
        hex("5a 01 00 00 00 00 00 04 61 62 63 64"),
    ];
    let epoch = NonZeroU64::new(5).unwrap();
    let expected = [
        Event::Inbound(Inbound::Weight(Weight::new(300).unwrap())),
        Event::Inbound(Inbound::FlowState { state: FlowState::Paused, epoch }),
        Event::Inbound(Inbound::Malformed),
        Event::Inbound(Inbound::Malformed),
        record(Kind::Data, &["abcd"]),
    ];
    // D-G4: all of them are longer than MAXMSGSIZE.
    assert_eq!(all(&mut router, &stream.concat()), (expected.to_vec(), Ok(Next::NeedsMore)));
    let more = hex("5a 01 00 00 00 00 00 05");
    assert_eq!(code(&mut router, &more), ErrorCode::Size);
}

#[test]
fn zmp_1_4_what_a_lane_takes() {
    let bytes = |kind: u8| match kind {
        0 => hex("5a 01 00 00 00 00 00 00"),
        _ => hex(&TYPED.replace("KK", &format!("{kind:02x}"))),
    };
    let table = [
        (Dealer, Router, 0, [None, Some(ErrorCode::Internal), None, None]),
        (Dealer, Dealer, 0, [None, Some(ErrorCode::Internal), None, None]),
        (Router, Dealer, 0, [None, None, Some(ErrorCode::Kind), Some(ErrorCode::Kind)]),
        (Router, Router, 0, [None, None, Some(ErrorCode::Kind), Some(ErrorCode::Kind)]),
        (Router, Router, 1, [Some(ErrorCode::Kind), Some(ErrorCode::Kind), None, None]),
    ];
    for (own, peer, lane, expected) in table {
        for kind in 0..4 {
            let mut connection = established(own, peer, lane, 0);
            let (events, end) = all(&mut connection, &bytes(kind));
            let code = end.err().map(|error| error.code);
            assert_eq!(code, expected[usize::from(kind)], "{own:?} {peer:?} {lane} {kind}");
            assert_eq!(events.len(), usize::from(code.is_none()));
        }
    }
}

#[test]
fn zmp_1_4_later_parts_of_a_reply_on_the_completion_lane() {
    let mut router = established(Router, Router, 1, 0);
    let first = TYPED.replace("KK", "02").replacen("01 00", "01 01", 1);
    let bytes = [hex(&first), hex("5a 01 00 00 00 00 00 01 61")].concat();
    let (events, _) = all(&mut router, &bytes);
    assert_eq!(events, [record(Kind::Reply(sequence(1)), &["", "a"])]);
}

#[test]
fn zmp_1_1_flags_of_other_sockets_are_refused() {
    for flag in ["04", "05", "08", "10"] {
        let mut router = established(Router, Dealer, 0, 0);
        let bytes = hex(&format!("5a 01 {flag} 00 00 00 00 00"));
        assert_eq!(code(&mut router, &bytes), ErrorCode::Flags, "{flag}");
    }
}

#[test]
fn zmp_x_3_the_completion_lane_has_no_limit_but_its_own() {
    let mut router = established(Router, Router, 1, 0);
    let reply = TYPED.replace("KK", "02").replacen("00 00 00 00", "00 80 00 00", 1);
    let reply = [hex(&reply), vec![0; 8 << 20]].concat();
    let mut input = BytesMut::new();
    for place in 0..8 {
        input.extend_from_slice(&reply);
        let next = router.next(&mut input, 1, 0).unwrap();
        if place < 7 {
            assert!(matches!(next, Next::Event(Event::Inbound(_))), "{place}");
        } else {
            assert_eq!(next, Next::Blocked, "64 MiB, and 64 bytes for each");
        }
    }
    assert!(matches!(router.next(&mut input, 1, 8 << 20), Ok(Next::Event(_))));
}

#[test]
fn zmp_x_3_control_frames_pass_behind_a_full_queue() {
    let mut router = established(Router, Dealer, 0, 0);
    let data = hex("5a 01 00 00 00 00 00 00");
    let weight = control(b"WEIGHT\0\0\0\x07");
    let mut input = BytesMut::from(&[&data[..], &weight, &data, &weight].concat()[..]);
    assert!(matches!(router.next(&mut input, 64, 0), Ok(Next::Event(_))));
    let weight = Event::Inbound(Inbound::Weight(Weight::new(7).unwrap()));
    assert_eq!(router.next(&mut input, 64, 0), Ok(Next::Event(weight.clone())));
    assert_eq!(router.next(&mut input, 64, 0), Ok(Next::Blocked));
    assert_eq!(router.reserved(), 64);
    assert!(matches!(router.next(&mut input, 64, 64), Ok(Next::Event(_))));
    assert_eq!(router.next(&mut input, 64, 64), Ok(Next::Event(weight)));
}

// ---- cases --------------------------------------------------------------------------------------

#[test]
fn zmp_1_2_check_11_case_z13_the_peer_drops_inside_of_a_record() {
    let mut router = established(Router, Dealer, 0, 0);
    let mut input = BytesMut::from(&hex("5a 01 01 00 00 00 00 01 41")[..]);
    assert_eq!(all_of(&mut router, &mut input), (vec![], Ok(Next::NeedsMore)));
    let fault = router.end(&input).expect_err("an open record");
    assert_eq!(fault.code, ErrorCode::Incomplete);
    assert_eq!(router.next(&mut input, 0, 0), Err(fault), "it stays so");

    let mut other = established(Router, Dealer, 0, 0);
    let bytes = hex("5a 01 01 00 00 00 00 01 41 5a 01 00 00 00 00 00 01 42");
    assert_eq!(all(&mut other, &bytes).0, [record(Kind::Data, &["A", "B"])]);
    assert_eq!(other.end(&BytesMut::new()), Ok(()));
}

#[test]
fn zmp_1_2_check_1_case_z14_a_junk_of_a_scanner() {
    let mut router = Connection::new(options(Router, false));
    assert_eq!(code(&mut router, &hex("fb 18 ff fb 1f ff fb 20")), ErrorCode::Magic);
    let mut router = Connection::new(options(Router, false));
    assert_eq!(code(&mut router, b"G"), ErrorCode::Magic);
}

#[test]
fn zmp_1_2_check_10_case_z14_b_a_header_above_the_limit() {
    let mut router = established(Router, Dealer, 0, 1 << 20);
    assert_eq!(code(&mut router, &hex("5a 01 00 00 ff ff ff ff")), ErrorCode::Size);
}

#[test]
fn zmp_case_z14_c_a_header_without_limit_takes_no_memory() {
    let mut router = established(Router, Dealer, 0, 0);
    let mut input =
        BytesMut::from(&hex("5a 01 00 00 ff ff ff ff 00 01 02 03 04 05 06 07 08 09")[..]);
    let before = input.capacity();
    assert_eq!(router.next(&mut input, 4_096_000, 0), Ok(Next::NeedsMore));
    assert!(input.capacity() <= before && router.wanted() < 64 * 1024);
    assert_eq!(router.reserved(), 0xFFFF_FFFF + 64, "alone it may, whatever its size");
}

#[test]
fn zmp_case_z17_any_segmentation_of_the_handshake() {
    let greeting = greeting(Router, Dealer, "D1", 0);
    let stream =
        [&greeting[..], &hex("5a 01 00 00 00 00 00 02 68 69 5a 01 00 00 00 00 00 00")].concat();
    let whole = accepted(&stream);
    assert_eq!(whole.0.len(), 4);
    assert_eq!(whole.0[2..], [record(Kind::Data, &["hi"]), record(Kind::Data, &[""])]);
    let in_pieces = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut router, mut input) = (Connection::new(options(Router, false)), BytesMut::new());
        let mut events = Vec::new();
        for piece in pieces {
            input.extend_from_slice(piece);
            let (more, end) = all_of(&mut router, &mut input);
            events.extend(more);
            assert_eq!(end, Ok(Next::NeedsMore));
        }
        (events, Ok(Next::NeedsMore))
    };
    assert_eq!(in_pieces(&mut stream.chunks(1)), whole);
    for first in 0..stream.len() {
        for second in [first + 1, first + 4, first + 9] {
            let (head, rest) = stream.split_at(first);
            let (middle, tail) = rest.split_at((second - first).min(rest.len()));
            assert_eq!(in_pieces(&mut [head, middle, tail].into_iter()), whole, "{first} {second}");
        }
    }
}

#[test]
fn zmp_case_z19_odd_messages_end_their_own_connection() {
    for (bytes, expected) in [
        ("5a 01 00 01 00 00 00 00 00 00 00 00 00 00 00 00", ErrorCode::Sequence),
        ("5a 01 00 09 00 00 00 00", ErrorCode::Kind),
        ("5a 01 02 01 00 00 00 00 00 00 00 00 00 00 00 01", ErrorCode::Flags),
        (
            "5a 01 01 00 00 00 00 01 41 5a 01 00 01 00 00 00 00 00 00 00 00 00 00 00 01",
            ErrorCode::Multipart,
        ),
        ("5a 01 00 02 00 00 00 00 00 00 00 00 00 00 00 01", ErrorCode::Kind),
    ] {
        let mut router = established(Router, Dealer, 0, 0);
        assert_eq!(code(&mut router, &hex(bytes)), expected, "{bytes}");
    }
}

#[test]
fn zmp_case_z19_look_alikes_and_many_parts_are_data() {
    let mut router = established(Router, Dealer, 0, 0);
    let old_envelope = hex(r#"5a 01 01 00 00 00 00 01 01 | 5a 01 01 00 00 00 00 01 01
        5a 01 01 00 00 00 00 01 01 | 5a 01 00 00 00 00 00 08 "12345678""#);
    let many = [hex("5a 01 01 00 00 00 00 01 78").repeat(999), hex("5a 01 00 00 00 00 00 00")];
    let request = hex(r#"5a 01 00 01 00 00 00 04 00 00 00 00 00 00 00 05 "ping""#);
    let (events, end) = all(&mut router, &[old_envelope, many.concat(), request].concat());
    assert_eq!(end, Ok(Next::NeedsMore));
    let thousand = Record::from_parts(
        (0..1000).map(|part| if part < 999 { Bytes::from("x") } else { Bytes::new() }),
    );
    assert_eq!(
        events,
        [
            record(Kind::Data, &["\x01", "\x01", "\x01", "12345678"]),
            Event::Inbound(Inbound::Record(Kind::Data, thousand.unwrap())),
            Event::Inbound(Inbound::Record(Kind::Request(sequence(5)), parts_of(&["ping"]))),
        ]
    );
}
