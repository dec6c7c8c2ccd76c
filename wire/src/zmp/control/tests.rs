use super::*;
use crate::zmp::tester::{hex, property};

fn written(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes);
    bytes
}

fn epoch(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).unwrap()
}

#[test]
fn zmp_1_8_hello() {
    let dealer = hex("5a 01 02 00 00 00 00 05 | 01 05 02 44 31");
    let router = hex("5a 01 02 00 00 00 00 05 | 01 06 02 52 31");
    assert_eq!(written(|to| put_hello(to, SocketKind::Dealer, b"D1")), dealer);
    assert_eq!(written(|to| put_hello(to, SocketKind::Router, b"R1")), router);
    assert_eq!(parse(&dealer[8..]), Ok(Control::Hello { socket_type: 5, routing_id: b"D1" }));
}

#[test]
fn zmp_1_8_ready_is_121_bytes() {
    let bytes = hex(r#"5a 01 02 00 00 00 00 71 | 04
        0b "Socket-Type" 00000006 "DEALER"
        0a "Routing-Id" 00000002 44 31
        16 "Zlink-Max-Message-Size" 00000008 0000000000000000
        10 "Zlink-Lane-Count" 00000001 01
        0a "Zlink-Lane" 00000001 00"#);
    assert_eq!(bytes.len(), 121);
    let lane = Lane::Application;
    let own = written(|to| put_ready(to, SocketKind::Dealer, b"D1", 0, 1, lane));
    assert_eq!(own, bytes);
    let ready = Ready {
        socket_type: Some(b"DEALER"),
        routing_id: Some(b"D1"),
        max_message_size: Some(&[0; 8]),
        lane_count: Some(&[1]),
        lane: Some(&[0]),
    };
    assert_eq!(parse(&bytes[8..]), Ok(Control::Ready(ready)));
}

#[test]
fn zmp_1_8_error() {
    let bytes = hex(r#"5a 01 02 00 00 00 00 1b 05 08 18 "request sequence invalid""#);
    assert_eq!(written(|to| put_error(to, ErrorCode::Sequence)), bytes);
    let reason = b"request sequence invalid";
    assert_eq!(parse(&bytes[8..]), Ok(Control::Error { code: 8, reason }));
}

#[test]
fn zmp_1_8_weight() {
    let bytes = hex("5a 01 02 00 00 00 00 0a 57 45 49 47 48 54 00 00 01 2c");
    let weight = Weight::new(300).unwrap();
    assert_eq!(written(|to| put_weight(to, weight)), bytes);
    assert_eq!(parse(&bytes[8..]), Ok(Control::Weight(Some(weight))));
}

#[test]
fn zmp_1_8_flowstate() {
    let paused =
        hex("5a 01 02 00 00 00 00 13 46 4c 4f 57 53 54 41 54 45 01 01 00 00 00 00 00 00 00 01");
    let running =
        hex("5a 01 02 00 00 00 00 13 46 4c 4f 57 53 54 41 54 45 01 00 00 00 00 00 00 00 00 02");
    for (bytes, state, number) in [(paused, FlowState::Paused, 1), (running, FlowState::Running, 2)]
    {
        assert_eq!(written(|to| put_flow_state(to, state, epoch(number))), bytes);
        assert_eq!(parse(&bytes[8..]), Ok(Control::FlowState(Some((state, epoch(number))))));
    }
}

#[test]
fn zmp_1_7_what_only_begins_like_a_weight() {
    let weight = |rest: &str| parse(&hex(&format!("\"WEIGHT\" {rest}"))).map(|c| format!("{c:?}"));
    for rest in ["", "00", "00 00 00", "00 00 00 01 00", "00 00 27 11", "ff ff ff ff"] {
        assert_eq!(weight(rest), Ok("Weight(None)".to_owned()), "{rest}");
    }
    assert_eq!(weight("00 00 27 10"), Ok("Weight(Some(Weight(10000)))".to_owned()));
    assert_eq!(weight("00 00 00 00"), Ok("Weight(Some(Weight(0)))".to_owned()));
}

#[test]
fn zmp_1_7_what_only_begins_like_a_flowstate() {
    for rest in [
        "",
        "01",
        "01 01 00 00 00 00 00 00 00",
        "01 01 00 00 00 00 00 00 00 01 00",
        "02 01 00 00 00 00 00 00 00 01",
        "01 02 00 00 00 00 00 00 00 01",
        "01 01 00 00 00 00 00 00 00 00",
        // 35 bytes, as an older form had.
        "01 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00 01",
    ] {
        let body = hex(&format!("\"FLOWSTATE\" {rest}"));
        assert_eq!(parse(&body), Ok(Control::FlowState(None)), "{rest}");
    }
}

#[test]
fn zmp_1_3_bodies_end_where_they_say() {
    for body in ["", "01", "01 05", "01 05 01", "01 05 01 41 42", "05", "05 01 01", "05 01 00 41"] {
        let error = parse(&hex(body)).expect_err(body);
        assert_eq!(error.code, ErrorCode::Internal, "{body}");
    }
    let longest = [&[1, 6, 255], &[7; 255][..]].concat();
    assert_eq!(longest.len(), *HELLO_BYTES.end() as usize);
    assert!(
        matches!(parse(&longest), Ok(Control::Hello { routing_id, .. }) if routing_id == [7; 255])
    );
    assert_eq!(parse(&[1, 5, 0]), Ok(Control::Hello { socket_type: 5, routing_id: b"" }));
    assert_eq!(parse(&[5, 9, 0]), Ok(Control::Error { code: 9, reason: b"" }));
    for unknown in ["00", "02", "03 01", "\"WEIGH\"", "\"FLOWSTAT\"", "ff ff"] {
        assert_eq!(parse(&hex(unknown)), Ok(Control::Unknown), "{unknown}");
    }
}

#[test]
fn zmp_1_3_ready_consumes_its_body_exactly() {
    let good = [property("Zlink-Lane", &[0]), property("", b""), property("Zlink-Lane", &[1])];
    let body = [&[4], &good.concat()[..]].concat();
    let ready = Ready { lane: Some(&[1]), ..Ready::default() };
    assert_eq!(parse(&body), Ok(Control::Ready(ready)), "the last one of repeated ones");
    for length in 2..body.len() {
        let cut = good.iter().scan(1, |end, one| {
            *end += one.len();
            Some(*end)
        });
        let whole = cut.into_iter().any(|end| end == length);
        assert_eq!(parse(&body[..length]).is_ok(), whole, "{length}");
    }
    let stray = [&body[..], &[0]].concat();
    assert_eq!(parse(&stray).expect_err("a stray byte").code, ErrorCode::Internal);
    let overrun = hex("04 01 \"x\" ff ff ff ff 00");
    assert_eq!(parse(&overrun).expect_err("an overrun").code, ErrorCode::Internal);
    assert_eq!(parse(&[4]), Ok(Control::Ready(Ready::default())));
}

#[test]
fn zmp_1_3_names_are_exact() {
    let body = [&[4], &property("zlink-lane", &[1])[..], &property("Zlink-Lane ", &[1])].concat();
    assert_eq!(parse(&body), Ok(Control::Ready(Ready::default())));
}
