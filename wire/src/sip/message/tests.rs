use super::*;

mod broken;

const INVITE: &str = "INVITE sip:bob@127.0.0.1:5060 SIP/2.0\r\n\
    Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1\r\n\
    Max-Forwards: 70\r\n\
    From: <sip:alice@127.0.0.1>;tag=a1\r\n\
    To: <sip:bob@127.0.0.1>\r\n\
    Call-ID: c1@127.0.0.1\r\n\
    CSeq: 1 INVITE\r\n\
    Contact: <sip:alice@127.0.0.1:15060>\r\n\
    Content-Length: 0\r\n\r\n";

fn parse(text: impl AsRef<[u8]>) -> Result<Message, Malformed> {
    Message::parse(Bytes::copy_from_slice(text.as_ref()), &Limits::default())
}

/// The base request with one text put in place of another.
fn with(before: &str, after: &str) -> Result<Message, Malformed> {
    assert!(INVITE.contains(before), "{before}");
    parse(INVITE.replace(before, after))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_parts_of_a_request() {
    let message = parse(INVITE).unwrap();
    assert!(message.is_request());
    assert_eq!((message.status(), message.method()), (0, Method::Invite));
    let uri = &b"sip:bob@127.0.0.1:5060"[..];
    assert_eq!(message.start(), Start::Request { method: Method::Invite, uri });
    assert_eq!(&message.bytes()[message.uri_at()], uri);
    assert_eq!(message.call_id(), b"c1@127.0.0.1");
    assert_eq!(message.cseq(), CSeq { number: 1, digits: b"1", method: Method::Invite });
    assert_eq!(message.from().tag(), Some(&b"a1"[..]));
    assert_eq!(message.from().uri, b"sip:alice@127.0.0.1");
    assert_eq!(message.to().tag(), None);
    assert_eq!(message.content_length(), ContentLength::Bytes(0));
    assert_eq!(message.headers().count(), 8);
    assert_eq!(message.body(), b"");
    assert_eq!(&message.bytes()[message.headers_end()..], b"\r\n");
    let via = message.via();
    assert_eq!((text(via.transport), text(via.host), via.port), ("UDP", "127.0.0.1", Some(15060)));
    assert_eq!(via.branch(), Some(&b"z9hG4bKc1"[..]));
    assert_eq!(&message.bytes()[via.param_at(b"branch").unwrap()], b";branch=z9hG4bKc1");
    assert_eq!(&message.bytes()[..via.sent_by_end].last_chunk::<6>(), &Some(b":15060"));
    assert!(!via.shares_line);
    assert_eq!(message.vias().collect::<Vec<_>>(), [via]);
}

#[test]
fn the_parts_of_a_reply() {
    for (line, code, phrase) in [
        ("SIP/2.0 180 Ringing a bell", 180, "Ringing a bell"),
        ("sip/2.0 200 ", 200, ""),
        ("SIP/2.0 200", 200, ""),
        ("SIP/2.0 999 = 2**3", 999, "= 2**3"),
    ] {
        let message = with("INVITE sip:bob@127.0.0.1:5060 SIP/2.0", line).unwrap();
        assert_eq!(message.start(), Start::Reply { code, reason: phrase.as_bytes() });
        assert!(!message.is_request());
        assert_eq!((message.status(), message.method()), (code, Method::Invite));
        assert_eq!(message.uri_at(), 0..0);
    }
}

#[test]
fn sip_r017_any_token_is_a_method() {
    let message = parse(INVITE.replace("INVITE", "mumble-!%*_+`'~")).unwrap();
    assert_eq!(message.method(), Method::Other(b"mumble-!%*_+`'~"));
    assert_eq!(message.cseq().method, message.method());
    let lower = parse(INVITE.replace("INVITE", "invite")).unwrap();
    assert_eq!(lower.method(), Method::Other(b"invite"), "case matters");
}

#[test]
fn sip_r019_case_s27_compact_and_folded_headers() {
    let message = parse(
        "INVITE sip:bob@127.0.0.1:5060 SIP/2.0\r\n\
         v: SIP/2.0/UDP 127.0.0.1:15060\r\n ;branch=z9hG4bKf1\r\n\
         Max-Forwards: 70\r\n\
         f: <sip:alice@127.0.0.1>\r\n\t;tag=a1\r\n\
         t: <sip:bob@127.0.0.1>\r\n\
         i: f1@127.0.0.1\r\n\
         CSeq: 1\r\n  INVITE\r\n\
         m: <sip:alice@127.0.0.1:15060>\r\n\
         Subject: one\r\n two\r\n   \t\r\n\
         X-Y:\r\n  \r\n z\r\n\
         l: 0\r\n\r\n",
    )
    .unwrap();
    assert_eq!(message.via().branch(), Some(&b"z9hG4bKf1"[..]));
    assert_eq!(message.via().port, Some(15060));
    assert_eq!(message.from().tag(), Some(&b"a1"[..]));
    assert_eq!(message.cseq(), CSeq { number: 1, digits: b"1", method: Method::Invite });
    assert_eq!(message.call_id(), b"f1@127.0.0.1");
    let subject = message.first(Name::Subject).unwrap();
    assert_eq!(unfold(subject.value), &b"one two"[..]);
    assert_eq!(&message.bytes()[subject.line], b"Subject: one\r\n two\r\n   \t\r\n");
    assert_eq!(message.named(b"x-y").next().unwrap().value, b"z");
    assert_eq!(message.content_length(), ContentLength::Bytes(0));
    assert_eq!(message.headers().count(), 10);
}

#[test]
fn sip_r146_case_s28e_bare_line_feeds() {
    let message = parse(INVITE.replace("\r\n", "\n") + "body\n").unwrap();
    assert_eq!(message.via().branch(), Some(&b"z9hG4bKc1"[..]));
    assert_eq!((message.headers().count(), message.body()), (8, &b"body\n"[..]));
    assert_eq!(&message.bytes()[message.headers_end()..message.body_at()], b"\n");
}

#[test]
fn sip_r015_what_stands_behind_the_length_is_body() {
    let body = b"\0\xff\r\n\r\nINVITE sip:x SIP/2.0\r\nVia: x\r\n";
    let message = parse([INVITE.as_bytes(), body].concat()).unwrap();
    assert_eq!((message.body(), message.vias().count()), (&body[..], 1));
}

#[test]
fn line_ends_in_front_are_left_out() {
    let message = parse(format!("\r\n\n\r\n{INVITE}")).unwrap();
    assert_eq!(message.bytes(), INVITE);
}

#[test]
fn sip_r004_all_via_values_in_order() {
    let message = with(
        "branch=z9hG4bKc1\r\n",
        "branch=z9hG4bKc1 , SIP / 2.0 / TCP [2001:db8::1] : 5080 ;rport; x=\"a,;b\",\r\n \
         sip/2.0/TLS c.example.com\r\nX: y\r\nv: SIP/2.0/UDP d;received=::1\r\n",
    )
    .unwrap();
    let vias: Vec<_> = message.vias().collect();
    let told: Vec<_> = vias
        .iter()
        .map(|via| (text(via.transport), text(via.host), via.port, via.shares_line))
        .collect();
    assert_eq!(
        told,
        [
            ("UDP", "127.0.0.1", Some(15060), true),
            ("TCP", "[2001:db8::1]", Some(5080), true),
            ("TLS", "c.example.com", None, true),
            ("UDP", "d", None, false),
        ]
    );
    assert_eq!(message.via(), vias[0]);
    for via in &vias {
        assert_eq!(&message.bytes()[via.at.0..via.at.1], via.text);
    }
    assert_eq!(vias[0].text, b"SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1");
    assert_eq!(vias[1].port_text, Some(&b"5080"[..]));
    assert_eq!(vias[1].rport(), Some(None));
    assert_eq!(vias[1].params.get(b"X"), Some(Some(&b"a,;b"[..])));
    assert_eq!(&message.bytes()[vias[1].param_at(b"X").unwrap()], b"; x=\"a,;b\"");
    assert!(message.bytes()[vias[1].sent_by_end..].starts_with(b" ;rport"));
    assert_eq!(vias[3].received(), Some(&b"::1"[..]));
    assert_eq!(vias[3].param_at(b"branch"), None);
    let line = vias[3].line;
    assert_eq!(&message.bytes()[line.0..line.1], b"v: SIP/2.0/UDP d;received=::1\r\n");
}

#[test]
fn a_via_that_can_not_be_read_ends_them() {
    let message = with("z9hG4bKc1", "z9hG4bKc1, SIP/2.0/UDP, SIP/2.0/UDP z").unwrap();
    assert_eq!(message.vias().count(), 1);
    assert!(message.via().shares_line);
    let later = "z9hG4bKc1\r\nVia: SIP/2.0/UDP ok\r\nVia: junk\r\nVia: SIP/2.0/UDP z";
    assert_eq!(with("z9hG4bKc1", later).unwrap().vias().count(), 2);
}

#[test]
fn case_s23_ipv6_in_a_via() {
    let full = "[2001:db8:8131:ffdf:4398:8903:f613:58b6]";
    for (sent_by, host, port) in [
        (full, full, None),
        ("[::1]:15060", "[::1]", Some(15060)),
        ("[fe80::1%25lo]:15060", "[fe80::1%25lo]", Some(15060)),
    ] {
        let message = with("127.0.0.1:15060;branch", &format!("{sent_by};branch")).unwrap();
        assert_eq!((text(message.via().host), message.via().port), (host, port));
    }
    for received in ["[::1]", "::1"] {
        let message = with("z9hG4bKc1", &format!("z9hG4bKc1;received={received}")).unwrap();
        let told = message.via().received().and_then(host_ip);
        assert_eq!(told, Some("::1".parse().unwrap()));
    }
}

#[test]
fn addresses_of_all_lines_in_order() {
    let message = with(
        "Contact: <sip:alice@127.0.0.1:15060>\r\n",
        "Contact: \"A, \\\"<B>\" <sip:a@h;lr>;q=0.5 , sip:b@h;expires=3\r\n\
         X: <sip:no@h>\r\n\
         m:*\r\n\
         m: C D<sip:c@h>,<sip:d@h\r\n\
         Contact: < sip:e@h >\r\n",
    )
    .unwrap();
    let addresses: Vec<_> = message.addresses(Name::Contact).collect();
    let uris: Vec<_> = addresses
        .iter()
        .map(|one| one.as_ref().map(|one| (text(one.display), text(one.uri), one.alone)))
        .collect();
    assert_eq!(
        uris,
        [
            Ok(("\"A, \\\"<B>\"", "sip:a@h;lr", false)),
            Ok(("", "sip:b@h", false)),
            Ok(("", "*", true)),
            Ok(("C D", "sip:c@h", false)),
            Err(&UriError),
            Ok(("", "sip:e@h", true)),
        ]
    );
    assert_eq!(addresses[1].as_ref().unwrap().params.get(b"EXPIRES"), Some(Some(&b"3"[..])));
    for one in addresses.iter().flatten() {
        assert_eq!(&message.bytes()[one.at.clone()], one.text);
        assert_eq!(&message.bytes()[one.uri_at.clone()], one.uri);
        assert!(message.bytes()[one.line.clone()].ends_with(b"\r\n"));
    }
    assert_eq!(message.addresses(Name::Route).count(), 0);
}

#[test]
fn an_address_of_its_own() {
    let one = NameAddr::parse(b" \"Bob\" <sip:b@h> ; tag = x;lr ").unwrap();
    assert_eq!(
        (one.display, one.uri, one.tag()),
        (&b"\"Bob\""[..], &b"sip:b@h"[..], Some(&b"x"[..]))
    );
    assert_eq!(one.text, b"\"Bob\" <sip:b@h> ; tag = x;lr");
    assert_eq!((one.at, one.line, one.alone), (0..0, 0..0, true));
    for broken in ["", " ", "<", "<>", "< >", "\"x", "\"x\"", "<sip:a@b> x", "a b", ";tag=1"] {
        assert_eq!(NameAddr::parse(broken.as_bytes()), Err(UriError), "{broken}");
    }
}

#[test]
fn headers_by_any_name() {
    let message =
        with("Content-Length: 0", "X-A: 1\r\nx-a : 2\r\nK: path\r\nSupported: 100rel").unwrap();
    let values = |name: &'static str| -> Vec<String> {
        message.named(name.as_bytes()).map(|header| text(header.value).to_owned()).collect()
    };
    assert_eq!(values("X-a"), ["1", "2"]);
    assert_eq!(values("supported"), ["path", "100rel"]);
    assert_eq!(values("k"), ["path", "100rel"]);
    assert_eq!(values("X-B"), Vec::<String>::new());
    assert_eq!(message.all(Name::Other).count(), 2);
    let last = message.named(b"X-A").next_back().unwrap();
    assert_eq!((last.written, last.name), (&b"x-a"[..], Name::Other));
}

#[test]
fn folds_are_one_space() {
    assert!(matches!(unfold(b"a  b"), std::borrow::Cow::Borrowed(b"a  b")));
    assert_eq!(unfold(b"a \r\n\t b\n c"), &b"a b c"[..]);
    assert_eq!(unfold(b"a\r\n \r\n b"), &b"a b"[..]);
}
