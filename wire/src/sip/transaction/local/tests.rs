use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::sip::kit::{self, Text, lines, value};
use crate::sip::sl::Sl;

fn ack_text(sent: &Text, reply: &Text) -> String {
    String::from_utf8(ack(&sent.message(), &reply.message())).unwrap()
}

fn cancel_text(sent: &Text, reasons: &[&'static str]) -> String {
    let reasons: Vec<Bytes> = reasons.iter().map(|line| Bytes::from(*line)).collect();
    String::from_utf8(cancel(&sent.message(), &reasons)).unwrap()
}

/// The INVITE of the cases as it left towards A, with everything that a caller may put in.
fn sent() -> Text {
    Text::of(
        "INVITE sip:bob@127.0.0.1:15071;x=1 SIP/2.0
Record-Route: <sip:127.0.0.1;lr>
Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKab1.0123456789abcdef0123456789abcdef.0
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1
Max-Forwards: 69
f: \"A\" <sip:alice@127.0.0.1>
 ;tag=a1
To: <sip:bob@127.0.0.1>
i: c1@127.0.0.1
CSeq:   0017
  INVITE
Route: <sip:192.0.2.1;lr>, <sip:192.0.2.2;lr>
Contact: <sip:alice@127.0.0.1:15060>
Subject: one
Require: 100rel
Proxy-Require: x
User-Agent: phone
ROUTE: <sip:192.0.2.3;lr>
Content-Type: text/plain
Content-Length: 0",
    )
    .body(b"hello")
}

#[test]
fn sip_r044_r120_the_ack_is_the_invite_as_it_was_sent_with_the_to_of_the_reply() {
    let reply = kit::reply(486, "Busy").set("To", "\"B\"  <sip:bob@127.0.0.1> ;\r\n\ttag=ta;x=y");
    assert_eq!(
        ack_text(&sent(), &reply),
        "ACK sip:bob@127.0.0.1:15071;x=1 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKab1.0123456789abcdef0123456789abcdef.0\r\n\
         Max-Forwards: 69\r\n\
         f: \"A\" <sip:alice@127.0.0.1>\r\n ;tag=a1\r\n\
         To: \"B\"  <sip:bob@127.0.0.1> ;\r\n\ttag=ta;x=y\r\n\
         i: c1@127.0.0.1\r\n\
         CSeq: 0017 ACK\r\n\
         Route: <sip:192.0.2.1;lr>, <sip:192.0.2.2;lr>\r\n\
         ROUTE: <sip:192.0.2.3;lr>\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn sip_r054_r120_the_cancel_has_the_to_of_the_invite() {
    assert_eq!(
        cancel_text(&sent(), &[]),
        "CANCEL sip:bob@127.0.0.1:15071;x=1 SIP/2.0\r\n\
         Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKab1.0123456789abcdef0123456789abcdef.0\r\n\
         Max-Forwards: 69\r\n\
         f: \"A\" <sip:alice@127.0.0.1>\r\n ;tag=a1\r\n\
         To: <sip:bob@127.0.0.1>\r\n\
         i: c1@127.0.0.1\r\n\
         CSeq: 0017 CANCEL\r\n\
         Route: <sip:192.0.2.1;lr>, <sip:192.0.2.2;lr>\r\n\
         ROUTE: <sip:192.0.2.3;lr>\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn sip_r059_r065_reasons_come_behind_as_they_are_given() {
    let answered = "Reason: SIP ;cause=200 ;text=\"Call completed elsewhere\"";
    let text = cancel_text(&kit::invite(), &[answered, "reason: Q.850;cause=16\r\n"]);
    let end = format!("{answered}\r\nreason: Q.850;cause=16\r\nContent-Length: 0\r\n\r\n");
    assert!(text.ends_with(&end), "{text}");
    // The INVITE's own Reason is not that of the CANCEL.
    let with_reason = kit::invite().line("Reason: SIP;cause=302");
    assert!(lines(&cancel_text(&with_reason, &[]), "Reason").is_empty());
}

#[test]
fn sip_r044_one_via_though_values_share_its_line_and_one_of_each_that_counts_once() {
    let twice = kit::invite()
        .set("Via", "SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKown , SIP/2.0/UDP h;branch=z9hG4bK2")
        .line("Via: SIP/2.0/UDP other")
        .line("To: <sip:second@127.0.0.1>")
        .line("From: <sip:second@127.0.0.1>;tag=2")
        .line("Call-ID: second")
        .line("CSeq: 2 INVITE")
        .line("Max-Forwards: 2");
    let text = ack_text(&twice, &kit::reply(404, "Not Found").line("To: <sip:x@y>;tag=second"));
    assert_eq!(lines(&text, "Via"), ["Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKown"]);
    for (name, only) in [
        ("To", "<sip:bob@127.0.0.1>;tag=ta"),
        ("From", "<sip:alice@127.0.0.1>;tag=a1"),
        ("Call-ID", "c1@127.0.0.1"),
        ("CSeq", "1 ACK"),
        ("Max-Forwards", "70"),
    ] {
        assert_eq!((lines(&text, name).len(), value(&text, name)), (1, only), "{name}");
    }
}

#[test]
fn sip_r146_bare_line_feeds_become_line_ends() {
    let reply = kit::reply(404, "Not Found").ends("\n");
    let text = ack_text(&kit::invite().ends("\n"), &reply);
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    assert_eq!(text, ack_text(&kit::invite(), &kit::reply(404, "Not Found")));
}

// ---- replies -------------------------------------------------------------------------------------

fn made(text: &Text, code: u16, lines: &[Bytes]) -> String {
    let draft = text.draft();
    let tag = Tag::new(&kit::own(), &draft.message);
    let mut out = Vec::new();
    reply_headers(&draft, code, b"Well", &tag, lines, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn sip_r109_the_tag_is_32_digits_a_hyphen_and_8_digits() {
    let tag = |text: &Text, own| {
        let tag = Tag::new(own, &text.message()).0;
        String::from_utf8(tag.to_vec()).unwrap()
    };
    let own = kit::own();
    let first = tag(&kit::invite(), &own);
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let (fixed, mine) = first.split_once('-').unwrap();
    assert_eq!((fixed.len(), mine.len()), (32, 8));
    assert!(is_hex(fixed) && is_hex(mine), "{first}");
    assert_eq!(tag(&kit::invite(), &own), first, "who makes it again gets the same");
    let other = tag(&kit::invite().set("Call-ID", "c2"), &own);
    assert_eq!(other.split_once('-').unwrap().0, fixed);
    assert_ne!(other, first);
    let elsewhere = tag(&kit::invite(), &kit::owning(&["udp:127.0.0.9:5060"]));
    assert_ne!(elsewhere.split_once('-').unwrap().0, fixed);
    // Not that of a stateless reply: its ACK would be taken for one of those.
    let mut out = Vec::new();
    let draft = kit::invite().draft();
    Sl::new(&own).reply(&draft, 404, b"", Instant::now(), &mut out).unwrap();
    let stateless = value(std::str::from_utf8(&out).unwrap(), "To").to_owned();
    assert!(!stateless.contains(fixed) && !stateless.contains('-'), "{stateless}");
}

#[test]
fn sip_r038_r108_a_reply_is_that_of_sl_but_for_its_tag() {
    let own = kit::own();
    let invite = kit::invite()
        .set("Via", "SIP/2.0/UDP 10.99.99.99:5078;rport;branch=z9hG4bK1")
        .line("Record-Route: <sip:192.0.2.1;lr>")
        .line("Proxy-Require: foo");
    let mut draft = invite.draft();
    draft.reply_lines = vec!["X-A: 1".into()];
    draft.uri = Some("sip:one@10.0.0.1".into());
    for code in [100, 180, 200, 302, 408, 420, 487, 500] {
        let mut stateless = Vec::new();
        Sl::new(&own).reply(&draft, code, b"Well", Instant::now(), &mut stateless).unwrap();
        let stateless = String::from_utf8(stateless).unwrap();
        let mut text = Vec::new();
        let tag = Tag::new(&own, &draft.message);
        reply_headers(&draft, code, b"Well", &tag, &[], &mut text);
        let text = String::from_utf8(text).unwrap();
        let to = format!("To: <sip:bob@127.0.0.1>;tag={}", std::str::from_utf8(&tag.0).unwrap());
        let expected = match code {
            100 => stateless,
            _ => stateless.replace(lines(&stateless, "To")[0], &to),
        };
        assert_eq!(text, expected);
    }
}

#[test]
fn sip_r030_r031_the_100_says_that_it_tries_and_has_no_tag() {
    let mut out = Vec::new();
    let draft = kit::invite().draft();
    let tag = Tag::new(&kit::own(), &draft.message);
    reply_headers(&draft, 100, TRYING.as_bytes(), &tag, &[], &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "SIP/2.0 100 trying -- your call is important to us\r\n\
         Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1\r\n\
         From: <sip:alice@127.0.0.1>;tag=a1\r\n\
         To: <sip:bob@127.0.0.1>\r\n\
         Call-ID: c1@127.0.0.1\r\n\
         CSeq: 1 INVITE\r\n\
         Server: lineway\r\n\
         Content-Length: 0\r\n\r\n"
    );
}

#[test]
fn sip_r076_r077_challenges_come_behind_with_the_own_tag() {
    let challenges: [Bytes; 2] = [
        "WWW-Authenticate: Digest realm=\"a\",\r\n nonce=\"1\"\r\n".into(),
        "Proxy-Authenticate: Digest realm=\"b\"".into(),
    ];
    let text = made(&kit::invite(), 401, &challenges);
    let end = "WWW-Authenticate: Digest realm=\"a\",\r\n nonce=\"1\"\r\n\
               Proxy-Authenticate: Digest realm=\"b\"\r\n\
               Server: lineway\r\nContent-Length: 0\r\n\r\n";
    assert!(text.ends_with(end), "{text}");
    let tag = Tag::new(&kit::own(), &kit::invite().message());
    assert_eq!(kit::parse(text).to().tag(), Some(&tag.0[..]));
}

#[test]
fn a_server_among_the_given_lines_is_the_only_one() {
    let text = made(&kit::invite(), 404, &["SERVER: me".into()]);
    assert_eq!(lines(&text, "Server"), ["SERVER: me"]);
}

#[test]
fn sip_r108_a_tag_that_is_there_stays() {
    let text = made(&kit::invite().set("To", "<sip:bob@127.0.0.1>;tag=ta"), 487, &[]);
    assert_eq!(value(&text, "To"), "<sip:bob@127.0.0.1>;tag=ta");
}

proptest! {
    #[test]
    fn sip_r044_r054_what_is_made_of_any_invite_parses_and_belongs_to_it(
        to in "(\"[^\"\\\\\r\n]{0,9}\" ?)?<sip:[a-z]{1,9}@[a-z]{1,9}>(;x=\"[a-z;,]{0,9}\"| ;y)?",
        call_id in "[a-zA-Z0-9.!%*_+~-]{1,40}(@[a-z.]{1,9})?",
        uri in "sip:[a-z]{1,9}@[a-z]{1,9}(;[a-z]{1,5}){0,2}",
        number in 0..u32::MAX,
        routes in proptest::collection::vec("<sip:[a-z]{1,9};lr>", 0..4),
        end in prop_oneof![Just("\r\n"), Just("\n")],
    ) {
        let mut invite = kit::invite().uri(&uri).set("To", &to).set("Call-ID", &call_id);
        invite = invite.set("CSeq", &format!("{number} INVITE")).ends(end);
        for route in &routes {
            invite = invite.line(&format!("Route: {route}"));
        }
        let sent = invite.message();
        let reply = kit::reply(486, "Busy").set("To", &format!("{to};tag=z")).message();
        let core = kit::parse(core_of(&sent));
        prop_assert_eq!(ack(&core, &reply), ack(&sent, &reply));
        prop_assert_eq!(cancel(&core, &[]), cancel(&sent, &[]));
        for (made, method, tag) in [
            (ack(&sent, &reply), "ACK", Some(&b"z"[..])),
            (cancel(&sent, &[]), "CANCEL", None),
        ] {
            let made = kit::parse(made);
            prop_assert_eq!(made.method().as_bytes(), method.as_bytes());
            prop_assert_eq!(made.cseq().method, made.method());
            prop_assert_eq!(made.cseq().number, number);
            prop_assert_eq!(&made.bytes()[made.uri_at()], uri.as_bytes());
            prop_assert_eq!(made.via().text, sent.via().text);
            prop_assert_eq!(made.vias().count(), 1);
            prop_assert_eq!(made.from().text, sent.from().text);
            prop_assert_eq!(made.call_id(), sent.call_id());
            prop_assert_eq!(made.to().uri, sent.to().uri);
            prop_assert_eq!(made.to().tag(), tag);
            prop_assert_eq!(made.all(Name::Route).count(), routes.len());
            prop_assert_eq!(made.body(), b"");
        }
    }
}
