use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::sip::draft::Target;
use crate::sip::kit::{self, CALLER, Text, lines, udp_from, value};
use crate::sip::own::Received;

struct Site {
    sl: Sl,
    now: Instant,
}

impl Site {
    fn new() -> Self {
        Self { sl: Sl::new(&kit::own()), now: Instant::now() }
    }
    fn reply(&mut self, draft: &Draft, code: u16, reason: &str) -> Option<(Back, String)> {
        let mut out = Vec::new();
        let back = self.sl.reply(draft, code, reason.as_bytes(), self.now, &mut out)?;
        Some((back, String::from_utf8(out).unwrap()))
    }
    fn text(&mut self, draft: &Draft, code: u16) -> String {
        self.reply(draft, code, "Well").unwrap().1
    }
    fn back(&mut self, text: &Text, received: Received) -> Back {
        self.reply(&text.draft_from(received), 404, "Not Found").unwrap().0
    }
}

/// The ACK that a client sends for a refusal of its INVITE (RFC 3261 17.1.1.3).
fn ack_of(invite: &Text, reply: &str) -> Text {
    invite.clone().method("ACK").set("To", value(reply, "To")).without("Contact")
}

#[test]
fn sip_r103_a_reply_has_what_the_request_says_of_its_way_and_a_to_tag() {
    let invite = kit::invite()
        .behind("Via", "v: SIP/2.0/TCP a.test;branch=z9hG4bKa, SIP/2.0/UDP b.test")
        .line("Record-Route: <sip:192.0.2.1;lr>")
        .line("Subject: hello")
        .body(b"hello");
    let text = Site::new().reply(&invite.draft(), 404, "Not Found").unwrap().1;
    let to = lines(&text, "To")[0];
    let tag = to.strip_prefix("To: <sip:bob@127.0.0.1>;tag=").unwrap();
    assert_eq!(
        text,
        format!(
            "SIP/2.0 404 Not Found\r\n\
             Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1\r\n\
             v: SIP/2.0/TCP a.test;branch=z9hG4bKa, SIP/2.0/UDP b.test\r\n\
             From: <sip:alice@127.0.0.1>;tag=a1\r\n\
             To: <sip:bob@127.0.0.1>;tag={tag}\r\n\
             Call-ID: c1@127.0.0.1\r\n\
             CSeq: 1 INVITE\r\n\
             Server: lineway\r\n\
             Content-Length: 0\r\n\r\n"
        )
    );
    assert!(kit::parse(text).to().tag().is_some());
}

#[test]
fn sip_r103_headers_keep_the_order_of_the_request_and_the_first_of_two_counts() {
    let odd = Text::of(
        "OPTIONS sip:127.0.0.1 SIP/2.0
i: c9
CSeq: 7
 OPTIONS
t: sip:bob@127.0.0.1
To: <sip:other@127.0.0.1>;tag=
FROM  : \"A\" <sip:a@127.0.0.1>;tag=1
Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bK9",
    )
    .ends("\n");
    let text = Site::new().text(&odd.draft(), 200);
    let head: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(head[1..4], ["i: c9", "CSeq: 7\n OPTIONS", head[3]]);
    assert!(head[3].starts_with("t: sip:bob@127.0.0.1;tag="), "{text}");
    assert_eq!(head[4], "FROM  : \"A\" <sip:a@127.0.0.1>;tag=1");
    assert_eq!(head[5], "Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bK9");
    let again = kit::parse(text.clone());
    assert_eq!((again.call_id(), again.cseq().number), (&b"c9"[..], 7));
}

#[test]
fn sip_r103_lines_of_the_script_come_behind() {
    let mut draft = kit::invite().draft();
    draft.reply_lines = vec!["X-A: 1\r\n".into(), "X-B: 2\r\nX-C: 3".into()];
    let text = Site::new().text(&draft, 486);
    let end = "X-A: 1\r\nX-B: 2\r\nX-C: 3\r\nServer: lineway\r\nContent-Length: 0\r\n\r\n";
    assert!(text.ends_with(end), "{text}");
    draft.reply_lines = vec!["server : me".into()];
    assert_eq!(lines(&Site::new().text(&draft, 486), "Server"), ["server : me"]);
}

#[test]
fn sip_r103_record_route_is_in_replies_that_may_begin_a_dialog_only() {
    let draft = kit::invite().line("Record-Route: <sip:192.0.2.1;lr>").draft();
    for (code, count) in [(100, 0), (179, 0), (180, 1), (200, 1), (299, 1), (300, 0), (404, 0)] {
        let text = Site::new().text(&draft, code);
        assert_eq!(lines(&text, "Record-Route").len(), count, "{code}");
    }
}

#[test]
fn a_reply_below_180_has_no_tag_and_a_tag_that_is_there_stays() {
    let tags = |to: &str, code| {
        let text = Site::new().text(&kit::invite().set("To", to).draft(), code);
        value(&text, "To").to_owned()
    };
    assert_eq!(tags("<sip:bob@127.0.0.1>", 100), "<sip:bob@127.0.0.1>");
    assert_eq!(tags("<sip:bob@127.0.0.1>", 179), "<sip:bob@127.0.0.1>");
    assert_ne!(tags("<sip:bob@127.0.0.1>", 180), "<sip:bob@127.0.0.1>");
    for to in ["<sip:bob@127.0.0.1>;tag=ta", "<sip:bob@127.0.0.1>;TAG=ta;x", "<sip:b@h>;tag="] {
        assert_eq!(tags(to, 481), to);
    }
}

#[test]
fn sip_r104_the_same_request_gets_the_same_bytes_on_every_worker() {
    let draft = kit::invite().set("Via", "SIP/2.0/UDP a.test;rport;branch=z9hG4bKc1").draft();
    let first = Site::new().text(&draft, 486);
    let mut other = Site::new();
    other.now += Duration::from_secs(60);
    assert_eq!(other.text(&draft, 486), first);
    assert_eq!(other.text(&draft, 486), first);
}

#[test]
fn sip_r106_the_ack_of_a_reply_is_absorbed_within_two_seconds() {
    let mut site = Site::new();
    let invite = kit::invite().behind("Via", "Via: SIP/2.0/UDP b.test;branch=z9hG4bKb");
    let reply = site.text(&invite.draft(), 486);
    let ack = ack_of(&invite.clone().without("Via").top(lines(&invite.text(), "Via")[0]), &reply);
    let ack = ack.message();
    assert!(site.sl.absorbs(&ack, site.now));
    assert!(site.sl.absorbs(&ack, site.now + Duration::from_secs(2)));
    assert!(!site.sl.absorbs(&ack, site.now + Duration::from_millis(2_001)));
    assert!(!Site::new().sl.absorbs(&ack, site.now), "nothing was answered");
}

#[test]
fn sip_r106_another_ack_is_not_absorbed() {
    let mut site = Site::new();
    let invite = kit::invite();
    let reply = site.text(&invite.draft(), 486);
    let ack = ack_of(&invite, &reply);
    assert!(site.sl.absorbs(&ack.message(), site.now));
    let to = value(&reply, "To");
    for other in [
        ack.clone().set("To", "<sip:bob@127.0.0.1>"),
        ack.clone().set("To", "<sip:bob@127.0.0.1>;tag="),
        ack.clone().set("To", "<sip:bob@127.0.0.1>;tag=ta"),
        ack.clone().set("To", &to[..to.len() - 1]),
        ack.clone().set("To", &format!("{to}0")),
        ack.clone().set("Call-ID", "c2@127.0.0.1"),
        ack.clone().set("Via", "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc2"),
        ack.clone().set("Via", "SIP/2.0/UDP 127.0.0.1:15061;branch=z9hG4bKc1"),
        ack.clone().set("Via", "SIP/2.0/UDP 127.0.0.2:15060;branch=z9hG4bKc1"),
        ack.clone().method("BYE"),
    ] {
        assert!(!site.sl.absorbs(&other.message(), site.now), "{}", other.text());
    }
    let elsewhere = Sl { last: Some(site.now), ..Sl::new(&kit::owning(&["udp:127.0.0.9:5060"])) };
    assert!(!elsewhere.absorbs(&ack.message(), site.now), "the reply of another proxy");
}

#[test]
fn sip_r106_r158_an_ack_and_a_reply_get_no_reply() {
    let mut site = Site::new();
    assert_eq!(site.reply(&kit::request("ACK").draft(), 404, "Not Found"), None);
    assert_eq!(site.reply(&kit::reply(200, "OK").draft(), 404, "Not Found"), None);
    let ack = ack_of(&kit::invite(), &Site::new().text(&kit::invite().draft(), 486));
    assert!(!site.sl.absorbs(&ack.message(), site.now), "and none was sent");
}

#[test]
fn sip_r107_the_tag_is_32_digits_a_dot_and_8_digits() {
    let tag = |text: &Text| {
        let text = Site::new().text(&text.draft(), 404);
        value(&text, "To").rsplit_once("tag=").unwrap().1.to_owned()
    };
    let first = tag(&kit::invite());
    let (fixed, own) = first.split_once('.').unwrap();
    assert_eq!((fixed.len(), own.len()), (32, 8));
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    assert!(is_hex(fixed) && is_hex(own), "{first}");
    let other = tag(&kit::invite().set("Call-ID", "other"));
    assert_eq!(other.split_once('.').unwrap().0, fixed);
    assert_ne!(other, first);
}

#[test]
fn sip_r110_options_to_the_proxy_gets_a_200() {
    let options = kit::request("OPTIONS").uri("sip:127.0.0.1:5060");
    let (back, text) = Site::new().reply(&options.draft(), 200, "OK").unwrap();
    assert!(text.starts_with("SIP/2.0 200 OK\r\n"));
    assert_eq!(value(&text, "CSeq"), "1 OPTIONS");
    assert_eq!(back.to.to_string(), CALLER);
}

#[test]
fn sip_r111_a_redirection_lists_the_destination_set_with_q() {
    let mut draft = kit::invite().draft();
    assert!(lines(&Site::new().text(&draft, 302), "Contact").is_empty(), "nothing was changed");
    let target = |uri: &'static str, q| Target { uri: uri.into(), q, ..Target::default() };
    draft.branches = vec![
        target("sip:two@10.0.0.2;transport=tcp", Some(500)),
        target("sip:three@10.0.0.3", None),
        target("sip:four@10.0.0.4", Some(1_000)),
        target("sip:five@10.0.0.5", Some(7)),
        target("sip:six@10.0.0.6", Some(0)),
    ];
    let branches = "<sip:two@10.0.0.2;transport=tcp>;q=0.5, <sip:three@10.0.0.3>, \
                    <sip:four@10.0.0.4>;q=1, <sip:five@10.0.0.5>;q=0.007, <sip:six@10.0.0.6>;q=0";
    assert_eq!(value(&Site::new().text(&draft, 302), "Contact"), branches);
    draft.uri = Some("sip:one@10.0.0.1".into());
    let text = Site::new().text(&draft, 302);
    assert_eq!(value(&text, "Contact"), format!("<sip:one@10.0.0.1>, {branches}"));
    assert_eq!(kit::parse(text).addresses(Name::Contact).flatten().count(), 6);
    assert!(lines(&Site::new().text(&draft, 404), "Contact").is_empty(), "only a 3xx has them");
}

#[test]
fn a_420_names_what_was_required() {
    let draft = kit::invite().line("Proxy-Require: foo,\r\n bar").draft();
    let text = Site::new().text(&draft, 420);
    assert_eq!(value(&text, "Unsupported"), "foo,\r\n bar");
    assert!(lines(&Site::new().text(&draft, 400), "Unsupported").is_empty());
}

#[test]
fn sip_r008_r009_a_reply_goes_to_the_source_at_the_port_of_rport_or_via() {
    let via = |text: &str| kit::invite().set("Via", &format!("SIP/2.0/UDP {text};branch=z9hG4bK1"));
    let to = |text: &str| Site::new().back(&via(text), udp_from(CALLER)).to.to_string();
    assert_eq!(to("10.99.99.99:5078"), "127.0.0.1:5078");
    assert_eq!(to("10.99.99.99:5078;rport"), CALLER);
    assert_eq!(to("127.0.0.1:15099"), "127.0.0.1:15099");
    assert_eq!(to("127.0.0.1:15099;rport=1"), CALLER);
    assert_eq!(to("127.0.0.1"), "127.0.0.1:5060");
    assert_eq!(to("host.test"), "127.0.0.1:5060");
    let mut forced = via("10.99.99.99:5078").draft();
    forced.force_rport = true;
    assert_eq!(Site::new().reply(&forced, 404, "").unwrap().0.to.to_string(), CALLER);
    let six = Site::new().back(&via("[::1]:7"), udp_from("[2001:db8::1]:9"));
    assert_eq!(six.to.to_string(), "[2001:db8::1]:7");
}

#[test]
fn case_s30_the_top_via_of_a_reply_says_where_it_went() {
    for (sent_by, expected) in [
        ("10.99.99.99:5078", "10.99.99.99:5078;received=127.0.0.1"),
        ("10.99.99.99:5078;rport", "10.99.99.99:5078;received=127.0.0.1;rport=15060"),
        ("127.0.0.1:15099", "127.0.0.1:15099"),
        ("127.0.0.1:15060;received=6.6.6.6", "127.0.0.1:15060;received=127.0.0.1"),
    ] {
        let text = kit::invite().set("Via", &format!("SIP/2.0/UDP {sent_by};branch=z9hG4bK1"));
        let reply = Site::new().text(&text.draft(), 404);
        assert_eq!(value(&reply, "Via"), format!("SIP/2.0/UDP {expected};branch=z9hG4bK1"));
    }
}

#[test]
fn sip_r138_over_tcp_the_connection_comes_first_and_the_via_port_is_what_is_left() {
    let text = kit::invite().set("Via", "SIP/2.0/TCP 127.0.0.1:9;rport;branch=z9hG4bK1");
    let back = Site::new().back(&text, kit::tcp_from(CALLER, 77));
    assert_eq!(
        back,
        Back {
            socket: SocketId(1),
            transport: Transport::Tcp,
            to: "127.0.0.1:9".parse().unwrap(),
            connection: Some(ConnectionId(77)),
        }
    );
}

#[test]
fn a_reason_never_ends_its_line() {
    let (_, text) = Site::new().reply(&kit::invite().draft(), 404, "No\r\nX: y").unwrap();
    assert!(text.starts_with("SIP/2.0 404 NoX: y\r\nVia: "), "{text}");
}

proptest! {
    #[test]
    fn sip_r103_r106_whatever_parses_gets_a_reply_that_parses_and_whose_ack_is_known(
        to in "(\"[^\"\\\\\r\n]{0,9}\" ?)?<sip:[a-z]{1,9}@[a-z]{1,9}(;[a-z]{1,5}(=[a-z0-9]{1,5})?){0,2}>(;x=\"[a-z;,]{0,9}\"| ;y){0,2}",
        call_id in "[a-zA-Z0-9.!%*_+~-]{1,40}(@[a-z.]{1,9})?",
        host in "[a-z]{1,9}(\\.[a-z]{1,9}){0,3}|\\[::[0-9a-f]{1,4}\\]",
        params in proptest::collection::vec("rport|received=1\\.1\\.1\\.1|branch=z9hG4bK[a-z0-9]{1,9}|x=\"[a-z,;]{0,9}\"", 0..5),
        end in prop_oneof![Just("\r\n"), Just("\n"), Just("\r\n ")],
    ) {
        let mut via = format!("SIP/2.0/UDP {host}");
        for param in &params {
            via.push_str(if end == "\r\n " { "\r\n ;" } else { ";" });
            via.push_str(param);
        }
        let invite = kit::invite().set("Via", &via).set("To", &to).set("Call-ID", &call_id);
        let invite = invite.ends(if end == "\n" { "\n" } else { "\r\n" });
        let mut site = Site::new();
        let reply = site.text(&invite.draft(), 486);
        let read = kit::parse(Bytes::from(reply.clone()));
        prop_assert_eq!(read.status(), 486);
        prop_assert_eq!(read.call_id(), call_id.as_bytes());
        prop_assert_eq!(read.body(), b"");
        let unfolded = value(&reply, "To").replace("\r\n", " ");
        let ack = invite.clone().method("ACK").set("To", &unfolded).message();
        prop_assert!(site.sl.absorbs(&ack, site.now), "{}", reply);
    }
}
