//! What is dropped, and what is let through.

use super::*;
use std::time::{Duration, Instant};

#[test]
fn sip_r144_garbage_is_told_from_keepalives() {
    for nothing in ["", "\0", "\r\n\r\n", "\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", "abc", "\n"] {
        assert_eq!(parse(nothing).unwrap_err(), Malformed::Empty, "{nothing:?}");
    }
    for garbage in [
        "GET / HTTP/1.1\r\n\r\n",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "INVITE sip:x\r\n\r\n\r\n\r\n",
        "INVITE sip:x SIP/2.1\r\n",
        "INVITE sip:x SIP/2.0 x\r\n",
        "INVITE  sip:x SIP/2.0\r\n",
        "INVITE sip:x  SIP/2.0\r\n",
        "INVITE\tsip:x SIP/2.0\r\n",
        "INV@TE sip:x SIP/2.0\r\n",
        " INVITE sip:x SIP/2.0\r\n",
        "INVITE sip:x; lr SIP/2.0\r\n",
        "SIP/2.0 4294967301 big\r\n",
        "SIP/2.0 20 OK small\r\n",
        "SIP/2.0 20x OK\r\n",
        "SIP/2.1 200 OK\r\n",
        "SIP/2.0  200 OK\r\n",
        "SIP/2.0 200 OK without a line end",
    ] {
        assert_eq!(parse(garbage).unwrap_err(), Malformed::NotSip, "{garbage:?}");
    }
}

#[test]
fn the_version_in_any_case_and_blanks_behind_it() {
    assert!(with("SIP/2.0\r\nVia", "sip/2.0  \r\nVia").is_ok());
}

#[test]
fn sip_r029_sip_r145_what_every_message_needs() {
    let lines = [
        ("Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1\r\n", Malformed::Via),
        ("From: <sip:alice@127.0.0.1>;tag=a1\r\n", Malformed::From),
        ("To: <sip:bob@127.0.0.1>\r\n", Malformed::To),
        ("Call-ID: c1@127.0.0.1\r\n", Malformed::CallId),
        ("CSeq: 1 INVITE\r\n", Malformed::CSeq),
    ];
    for (line, malformed) in lines {
        assert_eq!(with(line, "").unwrap_err(), malformed);
        let reply = INVITE.replace("INVITE sip:bob@127.0.0.1:5060 SIP/2.0", "SIP/2.0 200 OK");
        assert_eq!(parse(reply.replace(line, "")).unwrap_err(), malformed);
        let (name, _) = line.split_once(':').unwrap();
        assert_eq!(with(line, &format!("{name}:\r\n")).unwrap_err(), malformed, "{name} is empty");
    }
}

#[test]
fn a_top_via_that_can_not_be_read() {
    for broken in [
        "SIP/2.0/UDP",
        "SIP/2.0/UDP ",
        "SIP/2.0/UDP :;branch=",
        "SIP/2.0/UDP ;branch=z",
        "SIP/2.0/ h",
        "SIP/2.0 h",
        "SIP/3.0/UDP h",
        "SAP/2.0/UDP h",
        "SIP/2.0/UDP h:",
        "SIP/2.0/UDP h:x",
        "SIP/2.0/UDP h:65536",
        "SIP/2.0/UDP h:99999999999999999999",
        "SIP/2.0/UDP [::1",
        "SIP/2.0/UDP []",
        "SIP/2.0/UDP 2001:db8::9:1",
        "SIP/2.0/UDP h x",
        "SIP/2.0/UDP h;",
        "SIP/2.0/UDP h;;branch=x",
        "SIP/2.0/UDP h;x=\"",
        "SIP/2.0/UDP h;;,;,,",
        ", SIP/2.0/UDP h",
        ";,",
        "\0",
    ] {
        let told = with("SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1", broken);
        assert_eq!(told.unwrap_err(), Malformed::Via, "{broken}");
    }
}

#[test]
fn case_s28_shapes_that_crashed_parsers() {
    let named = |call: &str| INVITE.replace("c1@", call);
    // a: the first counts.
    let twice = with("Call-ID", "To: <sip:b@127.0.0.1>;tag=\r\nCall-ID").unwrap();
    assert_eq!((twice.to().uri, twice.to().tag()), (&b"sip:bob@127.0.0.1"[..], None));
    // d
    assert_eq!(parse(INVITE.replace("\r\n", "")).unwrap_err(), Malformed::NotSip);
    assert_eq!(parse(INVITE.replace("\r\n", "\r")).unwrap_err(), Malformed::NotSip);
    // f, g: bodies are nobody's here.
    for boundary in ["", ";boundary=x"] {
        let kind = format!("multipart/mixed{boundary}\r\nContent-Length: 1024");
        let text = named("f").replace("Content-Length: 0", &format!("Content-Type: {kind}"));
        let body = "--x\r\n".repeat(205) + "x";
        assert_eq!(parse(text + &body).unwrap().body().len(), 1026);
    }
    // i: more than a number holds is told, and refused by the sanity check.
    let huge = with("CSeq: 1 ", "CSeq: 4294967296 ").unwrap();
    assert_eq!((huge.cseq().number, huge.cseq().digits), (u32::MAX, &b"4294967296"[..]));
    // j
    let other = with("CSeq: 1 INVITE", "CSeq: 1 BYE").unwrap();
    assert_eq!((other.method(), other.cseq().method), (Method::Invite, Method::Bye));
    // k
    assert_eq!(with("alice@127.0.0.1>;", "alice@127.0.0.1;").unwrap_err(), Malformed::From);
    // l
    let nul = with("To: <sip:bob", "To: <sip:b\0b").unwrap();
    assert_eq!(nul.to().parsed_uri(), Err(UriError));
}

#[test]
fn case_s28mn_floods_end_at_the_limits_and_fast() {
    let via = "Via: SIP/2.0/UDP h;branch=z9hG4bKx\r\n";
    let begun = Instant::now();
    let lines = INVITE.replacen("Via", &(via.repeat(10_000) + "Via"), 1);
    assert_eq!(parse(lines).unwrap_err(), Malformed::TooLarge);
    let values = with("z9hG4bKc1", &format!("z9hG4bKc1{}", ", SIP/2.0/UDP h".repeat(10_000)));
    assert_eq!(values.unwrap_err(), Malformed::TooLarge);
    let long = with("Max-Forwards: 70", &format!("Subject: {}", "x".repeat(60_000)));
    assert_eq!(long.unwrap_err(), Malformed::TooLarge);
    let folds = with("Max-Forwards: 70", &format!("Subject: x{}", "\r\n x".repeat(12_000)));
    assert_eq!(folds.unwrap_err(), Malformed::TooLarge);
    let semicolons = with("z9hG4bKc1", &format!("z9hG4bKc1{}", ";x".repeat(8000))).unwrap();
    assert_eq!(semicolons.via().params.iter().count(), 8001);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn limits_are_met_exactly() {
    let limits =
        |message_bytes, headers, header_bytes| Limits { message_bytes, headers, header_bytes };
    let parse = |limits| Message::parse(Bytes::from_static(INVITE.as_bytes()), &limits).err();
    let longest = INVITE.lines().map(str::len).max().unwrap() + 2;
    assert_eq!(parse(limits(INVITE.len(), 8, longest)), None);
    assert_eq!(parse(limits(INVITE.len() - 1, 8, longest)), Some(Malformed::TooLarge));
    assert_eq!(parse(limits(INVITE.len(), 7, longest)), Some(Malformed::TooLarge));
    assert_eq!(parse(limits(INVITE.len(), 8, longest - 1)), Some(Malformed::TooLarge));
    // Offsets hold whatever is allowed.
    let all = limits(usize::MAX, usize::MAX, usize::MAX);
    let text = INVITE.replace("Max-Forwards: 70", &format!("Subject: {}", "x".repeat(70_000)));
    assert_eq!(Message::parse(text.into(), &all).unwrap_err(), Malformed::TooLarge);
    let text = INVITE.replace("Max-Forwards: 70\r\n", &"X: y\r\n".repeat(70_000));
    assert_eq!(Message::parse(text.into(), &all).unwrap_err(), Malformed::TooLarge);
}

#[test]
fn headers_that_are_none() {
    for broken in ["Junk", "Foo Bar: x", ": x", "Max\r-Forwards: 1", "\u{e9}: x", "X\r\n : y"] {
        assert_eq!(with("Max-Forwards: 70", broken).unwrap_err(), Malformed::Header, "{broken}");
    }
    let folded = with("SIP/2.0\r\nVia", "SIP/2.0\r\n X: y\r\nVia");
    assert_eq!(folded.unwrap_err(), Malformed::Header);
    for cut in 1..=4 {
        let cut = &INVITE[..INVITE.len() - cut];
        assert_eq!(parse(cut).unwrap_err(), Malformed::Header, "{cut}");
    }
}

#[test]
fn case_s19_what_content_lengths_say() {
    let said = |lines: &str| with("Content-Length: 0", lines).unwrap().content_length();
    assert_eq!(said("X: 1"), ContentLength::Missing);
    assert_eq!(said("l: 4294967301"), ContentLength::Bytes(4_294_967_301));
    assert_eq!(said("l: 5\r\nContent-Length: 005"), ContentLength::Bytes(5));
    for bad in ["l: 99999999999999999999", "l: -1", "l: 5x", "l:", "l: 5\r\nl: 6", "l: x\r\nl: 5"] {
        assert_eq!(said(bad), ContentLength::Bad, "{bad}");
    }
}

#[test]
fn call_ids_of_what_is_not_parsed() {
    for text in [
        INVITE.to_owned(),
        INVITE.replace("\r\n", "\n"),
        format!("\r\n\r\n{INVITE}"),
        INVITE.replace("Call-ID: ", "i\t:\r\n "),
        INVITE.replace("Call-ID", "call-id"),
        INVITE.replace("Call-ID: ", "Call-ID:\r\nCall-ID: "),
        INVITE.replace("Via", "Subject: x\r\n Call-ID: no\r\nVia"),
    ] {
        let message = parse(&text).unwrap();
        assert_eq!(call_id_of(text.as_bytes()), Some(message.call_id()), "{text}");
        assert_eq!(message.call_id(), b"c1@127.0.0.1");
    }
    for text in ["", "\r\n", "INVITE", "INVITE sip:x SIP/2.0\r\n\r\nCall-ID: x\r\n", "a\ni:\n\n"] {
        assert_eq!(call_id_of(text.as_bytes()), None);
    }
}

#[test]
fn sip_r015_a_broken_line_behind_what_every_message_needs_stays_as_it_is() {
    for broken in ["no colon here", ": no name", "two words: x", "\x01\x02"] {
        let behind = INVITE.replace("Content-Length: 0\r\n", &format!("{broken}\r\nX: 1\r\n"));
        let message = parse(&*behind).unwrap();
        assert_eq!(message.bytes(), behind.as_bytes());
        assert_eq!(message.named(b"X").next().unwrap().value, b"1", "{broken}");
        let before = INVITE.replace("Via:", &format!("{broken}\r\nVia:"));
        assert_eq!(parse(&*before).unwrap_err(), Malformed::Header, "{broken}");
    }
}
