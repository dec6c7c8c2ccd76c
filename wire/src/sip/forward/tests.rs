use proptest::prelude::*;

use super::*;
use crate::sip::kit::{self, Text};
use crate::sip::own::{Received, SocketId};
use crate::sip::{maxfwd, reply};

fn sent(text: &Text) -> String {
    kit::forwarded(&text.draft(), &kit::own(), 0)
}

/// The Via lines of what leaves, the branch of the own one left out.
fn vias(sent: &str) -> Vec<String> {
    let lines = kit::lines(sent, "Via");
    lines.into_iter().map(without_branch).collect()
}

fn without_branch(line: &str) -> String {
    match line.split_once(";branch=z9hG4bK") {
        Some((front, rest)) if front.starts_with("Via: SIP/2.0/UDP 127.0.0.1") => {
            let rest = rest.find(';').map_or("", |at| &rest[at..]);
            format!("{front};branch{rest}")
        }
        _ => line.to_owned(),
    }
}

/// The received top Via as it leaves, from this sender.
fn top(via: &str, source: &str) -> String {
    let draft = kit::invite().set("Via", via).draft_from(kit::udp_from(source));
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    kit::lines(&sent, "Via")[1].trim_start_matches("Via: ").to_owned()
}

#[test]
fn sip_r001_the_own_via_is_a_line_of_its_own_on_top() {
    let sent = sent(&kit::invite());
    let line = sent.lines().nth(1).expect("a header");
    assert!(line.starts_with("Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bK"), "{line}");
    let other = kit::forwarded(&kit::invite().draft(), &kit::owning(&["tcp:10.0.0.1:5070"]), 0);
    let line = kit::value(&other, "Via");
    assert!(line.starts_with("SIP/2.0/TCP 10.0.0.1:5070;branch="), "{line}");
}

#[test]
fn sip_r001_it_stands_directly_in_front_of_the_received_one() {
    let text = kit::invite().top("X-First: 1");
    let sent = sent(&text);
    let names: Vec<_> =
        sent.lines().skip(1).take(3).filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["X-First", "Via", "Via"]);
}

#[test]
fn sip_r002_the_branch_has_the_cookie_and_is_that_of_its_index() {
    let draft = kit::invite().draft();
    let own = kit::own();
    let branches = [0, 1].map(|index| {
        let mut out = Vec::new();
        request(&draft, &own, &own.sockets[0], index, &mut out);
        let sent = String::from_utf8(out).expect("text");
        kit::value(&sent, "Via").split_once("branch=").expect("a branch").1.to_owned()
    });
    assert!(branches.iter().all(|branch| branch.starts_with("z9hG4bK")));
    assert_ne!(branches[0], branches[1]);
}

#[test]
fn sip_r004_received_vias_stay_in_order() {
    let text = kit::invite()
        .behind("Via", "v: SIP/2.0/TCP b.example;branch=z9hG4bK2, SIP/2.0/UDP c.example")
        .line("Via: SIP/2.0/UDP d.example;branch=z9hG4bK4");
    let sent = sent(&text);
    assert!(
        sent.contains("\r\nv: SIP/2.0/TCP b.example;branch=z9hG4bK2, SIP/2.0/UDP c.example\r\n")
    );
    assert_eq!(
        kit::lines(&sent, "Via")[1..],
        [
            "Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1",
            "Via: SIP/2.0/UDP d.example;branch=z9hG4bK4"
        ]
    );
}

#[test]
fn sip_r005_received_is_added_where_the_sent_by_is_not_the_source() {
    let via = "SIP/2.0/UDP 10.99.99.99:5078;branch=z9hG4bKc1";
    assert_eq!(
        top(via, kit::CALLER),
        "SIP/2.0/UDP 10.99.99.99:5078;received=127.0.0.1;branch=z9hG4bKc1"
    );
    assert_eq!(
        top("SIP/2.0/UDP pc.example;branch=z9hG4bKc1", kit::CALLER),
        "SIP/2.0/UDP pc.example;received=127.0.0.1;branch=z9hG4bKc1"
    );
    assert_eq!(
        top("SIP/2.0/UDP pc.example", kit::CALLER),
        "SIP/2.0/UDP pc.example;received=127.0.0.1"
    );
}

#[test]
fn sip_r006_the_line_is_untouched_where_the_host_matches() {
    for via in [
        "SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1",
        "SIP/2.0/UDP   127.0.0.1:9 ; branch=z9hG4bKc1;x=\"a;b\"",
        "SIP/2.0/UDP 127.0.0.1",
    ] {
        assert_eq!(top(via, kit::CALLER), via);
    }
}

#[test]
fn sip_r007_asked_rport_is_filled_and_received_is_added() {
    assert_eq!(
        top("SIP/2.0/UDP 127.0.0.1:1;branch=z9hG4bKc1;rport;x=y", kit::CALLER),
        "SIP/2.0/UDP 127.0.0.1:1;received=127.0.0.1;branch=z9hG4bKc1;rport=15060;x=y"
    );
    assert_eq!(
        top("SIP/2.0/UDP 127.0.0.1;rport;branch=z9hG4bKc1", kit::CALLER),
        "SIP/2.0/UDP 127.0.0.1;received=127.0.0.1;rport=15060;branch=z9hG4bKc1"
    );
}

#[test]
fn case_s30_rport_and_received() {
    let ours = [
        ("10.99.99.99:5078", "", "10.99.99.99:5078;received=127.0.0.1"),
        ("10.99.99.99:5078", ";rport", "10.99.99.99:5078;received=127.0.0.1;rport=15060"),
        ("127.0.0.1:15099", "", "127.0.0.1:15099"),
        ("127.0.0.1:15060", ";rport=1", "127.0.0.1:15060;received=127.0.0.1;rport=15060"),
        ("127.0.0.1:15060", ";received=6.6.6.6", "127.0.0.1:15060;received=127.0.0.1"),
        ("127.0.0.1", ";received=::9;rport=", "127.0.0.1;received=127.0.0.1;rport=15060"),
        ("127.0.0.1", ";received;RPORT", "127.0.0.1;received=127.0.0.1;rport=15060"),
    ];
    for (sent_by, params, wanted) in ours {
        let via = format!("SIP/2.0/UDP {sent_by}{params};branch=z9hG4bK1");
        assert_eq!(
            top(&via, kit::CALLER),
            format!("SIP/2.0/UDP {wanted};branch=z9hG4bK1"),
            "{via}"
        );
    }
}

#[test]
fn what_is_there_is_replaced_in_its_place() {
    let via = "SIP/2.0/UDP 10.0.0.1;x=1;rport=1;received=6.6.6.6;branch=z9hG4bK1;y=2";
    assert_eq!(
        top(via, kit::CALLER),
        "SIP/2.0/UDP 10.0.0.1;x=1;rport=15060;received=127.0.0.1;branch=z9hG4bK1;y=2"
    );
}

#[test]
fn force_rport_adds_what_nobody_asked_for() {
    let mut draft = kit::invite().set("Via", "SIP/2.0/UDP 10.0.0.1:9;branch=z9hG4bK1").draft();
    draft.force_rport = true;
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(
        kit::lines(&sent, "Via")[1],
        "Via: SIP/2.0/UDP 10.0.0.1:9;received=127.0.0.1;rport=15060;branch=z9hG4bK1"
    );
    let there = "SIP/2.0/UDP 127.0.0.1;received=6.6.6.6;branch=z9hG4bK1";
    let mut draft = kit::invite().set("Via", there).draft();
    draft.force_rport = true;
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(
        kit::lines(&sent, "Via")[1],
        "Via: SIP/2.0/UDP 127.0.0.1;received=127.0.0.1;rport=15060;branch=z9hG4bK1"
    );
}

#[test]
fn sip_r006_force_rport_adds_no_received_where_the_host_matches() {
    let mut draft = kit::invite().draft();
    draft.force_rport = true;
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(
        kit::lines(&sent, "Via")[1],
        "Via: SIP/2.0/UDP 127.0.0.1:15060;rport=15060;branch=z9hG4bKc1"
    );
}

#[test]
fn add_local_rport_asks_for_rport() {
    let mut draft = kit::invite().draft();
    draft.local_rport = true;
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(vias(&sent)[0], "Via: SIP/2.0/UDP 127.0.0.1;branch;rport");
}

#[test]
fn sip_r015_every_byte_that_is_not_edited_stays() {
    let odd = Text::of(
        "INVITE sip:bob@127.0.0.1:5060 SIP/2.0
vIA : SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1
X-Odd   :   a  b
\tfolded
FROM: \"A,B\" <sip:alice@127.0.0.1> ; tag=a1
t: <sip:bob@127.0.0.1>
i:c1@127.0.0.1
CSeq:1   INVITE
Content-length: 4",
    );
    let body = [0, 255, b'\r', b'\n'];
    let text = odd.body(&body);
    let came = text.bytes();
    let mut out = Vec::new();
    request(&text.draft(), &kit::own(), &kit::own().sockets[0], 0, &mut out);
    let via_at = came.windows(3).position(|bytes| bytes == b"vIA").expect("the Via");
    let (front, rest) = came.split_at(via_at);
    assert!(out.starts_with(front));
    assert!(out.ends_with(rest), "{}", String::from_utf8_lossy(&out));
    assert_eq!(out.len() - came.len(), own_via_length(&out[via_at..]));
}

fn own_via_length(from: &[u8]) -> usize {
    from.windows(2).position(|end| end == b"\r\n").expect("a line end") + 2
}

#[test]
fn sip_r016_the_request_uri_is_rewritten_and_to_is_not() {
    let mut draft = kit::invite().draft();
    draft.uri = Some("sip:bob@127.0.0.1:15071;x=y".into());
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert!(sent.starts_with("INVITE sip:bob@127.0.0.1:15071;x=y SIP/2.0\r\nVia: "), "{sent}");
    assert_eq!(kit::value(&sent, "To"), "<sip:bob@127.0.0.1>");
}

#[test]
fn sip_r017_unknown_methods_go_on() {
    let sent = sent(&kit::request("FROBNICATE"));
    assert!(sent.starts_with("FROBNICATE sip:bob@127.0.0.1:5060 SIP/2.0\r\n"));
    assert_eq!(kit::value(&sent, "CSeq"), "1 FROBNICATE");
}

#[test]
fn sip_r018_no_content_length_is_added_over_udp() {
    let sent = sent(&kit::invite().without("Content-Length"));
    assert!(!sent.contains("Content-Length"), "{sent}");
    let wrong = kit::invite().body(b"hello").set("Content-Length", "3");
    assert_eq!(kit::value(&kit::forwarded(&wrong.draft(), &kit::own(), 0), "Content-Length"), "3");
}

#[test]
fn sip_r159_content_length_is_added_towards_tcp() {
    let draft = kit::invite().without("Content-Length").body(b"hello").draft();
    let sent = kit::forwarded(&draft, &kit::own(), 1);
    assert_eq!(kit::value(&sent, "Content-Length"), "5");
    assert!(sent.ends_with("\r\n\r\nhello"));
    let wrong = kit::invite().body(b"hello").set("Content-Length", "3").draft();
    assert_eq!(kit::value(&kit::forwarded(&wrong, &kit::own(), 1), "Content-Length"), "5");
}

#[test]
fn sip_r019_compact_names_work_and_are_kept() {
    let text = Text::of(
        "INVITE sip:bob@127.0.0.1:5060 SIP/2.0
v: SIP/2.0/UDP 127.0.0.1:15060;rport;branch=z9hG4bKc1
f: <sip:alice@127.0.0.1>;tag=a1
t: <sip:bob@127.0.0.1>
i: c1@127.0.0.1
CSeq: 1 INVITE
l: 0",
    );
    let sent = sent(&text);
    let names: Vec<_> = sent.lines().skip(1).filter_map(|line| line.split_once(':')).collect();
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["Via", "v", "f", "t", "i", "CSeq", "l"]);
    assert!(sent.contains("v: SIP/2.0/UDP 127.0.0.1:15060;received=127.0.0.1;rport=15060;branch"));
}

#[test]
fn sip_r139_the_connection_is_named_in_the_own_via() {
    let draft = kit::invite().draft_from(kit::tcp_from(kit::CALLER, 0x1a));
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(vias(&sent)[0], "Via: SIP/2.0/UDP 127.0.0.1;branch;i=a1", "least digit first");
    assert!(!vias(&self::sent(&kit::invite()))[0].contains(";i="), "none for UDP");
}

#[test]
fn sip_r137_the_via_names_the_transport_of_the_next_hop() {
    let draft = kit::invite().draft_from(kit::tcp_from(kit::CALLER, 7));
    let via = |socket| kit::value(&kit::forwarded(&draft, &kit::own(), socket), "Via").to_owned();
    assert!(via(0).starts_with("SIP/2.0/UDP 127.0.0.1;"), "TCP in, UDP out");
    assert!(via(1).starts_with("SIP/2.0/TCP 127.0.0.1;"));
}

#[test]
fn sip_r161_only_the_first_value_of_a_line_is_marked() {
    let via = "SIP/2.0/UDP 10.0.0.1;rport, SIP/2.0/UDP 10.0.0.2;rport ,SIP/2.0/UDP 10.0.0.3";
    assert_eq!(
        top(via, kit::CALLER),
        "SIP/2.0/UDP 10.0.0.1;received=127.0.0.1;rport=15060, \
         SIP/2.0/UDP 10.0.0.2;rport ,SIP/2.0/UDP 10.0.0.3"
    );
}

#[test]
fn sip_r146_bare_line_feeds_stay_and_our_lines_end_in_crlf() {
    let draft = kit::invite().ends("\n").body(b"").draft();
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    let mut lines = sent.split_inclusive('\n');
    assert_eq!(lines.next(), Some("INVITE sip:bob@127.0.0.1:5060 SIP/2.0\n"));
    assert!(lines.next().expect("the own Via").ends_with("\r\n"));
    assert!(lines.all(|line| !line.ends_with("\r\n")));
}

#[test]
fn case_s23_ipv6_in_via_and_received() {
    let own = kit::owning(&["udp:[::1]:5060"]);
    let from = kit::udp_from("[::1]:15060");
    let forwarded = |via: &str| {
        let draft = kit::request("OPTIONS").set("Via", via).draft_from(from);
        let sent = kit::forwarded(&draft, &own, 0);
        kit::lines(&sent, "Via").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = forwarded("SIP/2.0/UDP [2001:db8:8131:ffdf:4398:8903:f613:58b6];branch=z9hG4bK6a");
    assert!(lines[0].starts_with("Via: SIP/2.0/UDP [::1];branch=z9hG4bK"), "{}", lines[0]);
    assert_eq!(
        lines[1],
        "Via: SIP/2.0/UDP [2001:db8:8131:ffdf:4398:8903:f613:58b6];received=::1;branch=z9hG4bK6a"
    );
    let lines = forwarded("SIP/2.0/UDP [::1]:15060;rport;branch=z9hG4bK6b");
    assert_eq!(lines[1], "Via: SIP/2.0/UDP [::1]:15060;received=::1;rport=15060;branch=z9hG4bK6b");
    let lines = forwarded("SIP/2.0/UDP [0:0:0:0:0:0:0:1]:15060;branch=z9hG4bK6d");
    assert_eq!(lines[1], "Via: SIP/2.0/UDP [0:0:0:0:0:0:0:1]:15060;branch=z9hG4bK6d");
}

/// Where the answer to a request with this top Via goes, once the request has been passed on.
fn answered(via: &str, received: Received) -> reply::ReplyHop {
    let draft = kit::invite().set("Via", via).draft_from(received);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    let answer = kit::reply(200, "OK").without("Via");
    let answer = kit::lines(&sent, "Via").into_iter().rev().fold(answer, kit::Text::top);
    reply::next_hop(&answer.draft_from(kit::udp_from("127.0.0.1:15071"))).expect("a hop")
}

#[test]
fn case_s30_the_reply_goes_where_the_request_says() {
    for (via, wanted) in [
        ("10.99.99.99:5078", "127.0.0.1:5078"),
        ("10.99.99.99:5078;rport", "127.0.0.1:15060"),
        ("127.0.0.1:15099", "127.0.0.1:15099"),
        ("127.0.0.1:15099;rport=1", "127.0.0.1:15060"),
        ("127.0.0.1:15060;received=6.6.6.6", "127.0.0.1:15060"),
        ("pc.example", "127.0.0.1:5060"),
    ] {
        let via = format!("SIP/2.0/UDP {via};branch=z9hG4bK1");
        let hop = answered(&via, kit::udp_from(kit::CALLER));
        assert_eq!(hop.to, reply::ReplyTo::Address(wanted.parse().expect("an address")), "{via}");
    }
}

#[test]
fn sip_r138_the_reply_finds_the_connection_of_the_request() {
    let via = "SIP/2.0/TCP 10.0.0.9:1;branch=z9hG4bK1";
    for connection in [1, 0x00c0_ffee, u32::MAX] {
        let hop = answered(via, kit::tcp_from(kit::CALLER, connection));
        assert_eq!(hop.connection, Some(crate::sip::own::ConnectionId(connection)));
        assert_eq!(hop.transport, crate::sip::own::Transport::Tcp);
    }
}

#[test]
fn sip_r121_r122_a_loop_ends_by_max_forwards() {
    let own = kit::own();
    let mut bytes = kit::invite().bytes();
    let mut branches = std::collections::HashSet::new();
    for round in 0.. {
        let mut draft = Draft::new(kit::parse(bytes), kit::udp_from("127.0.0.1:5060"));
        if maxfwd::process(&mut draft, 70) != 1 {
            assert_eq!(maxfwd::process(&mut draft, 70), -1, "483");
            assert_eq!(round, 70);
            break;
        }
        let sent = kit::forwarded(&draft, &own, 0);
        assert!(branches.insert(kit::value(&sent, "Via").to_owned()), "each round has its branch");
        bytes = sent.into();
    }
}

#[test]
fn sip_r142_a_big_message_goes_over_tcp_unchanged() {
    let body: Vec<u8> = (0..60_000_u32).map(|byte| (byte % 251) as u8).collect();
    let text = kit::invite().body(&body);
    let own = kit::own();
    let mut out = Vec::new();
    let draft = text.draft_from(kit::tcp_from(kit::CALLER, 1));
    request(&draft, &own, &own.sockets[1], 0, &mut out);
    let sent = kit::parse(out);
    assert_eq!(sent.body(), body);
    assert_eq!(sent.headers().count(), draft.message.headers().count() + 1);
}

#[test]
fn an_advertised_address_stands_in_the_via() {
    let mut own = kit::own();
    own.sockets[0].host = "sip.example".into();
    own.sockets[0].port = 5080;
    let sent = kit::forwarded(&kit::invite().draft(), &own, 0);
    assert!(kit::value(&sent, "Via").starts_with("SIP/2.0/UDP sip.example:5080;branch="));
}

#[test]
fn a_path_goes_in_front_of_the_first_route_that_is_left() {
    let routes = kit::invite().line("Route: <sip:a;lr>").line("X: 1").line("Route: <sip:b;lr>");
    let mut draft = routes.draft();
    draft.path = Some("<sip:p1;lr>,<sip:p2;lr>".into());
    let first = draft.message.first(Name::Route).expect("a Route").line;
    draft.lumps.delete(first);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(kit::lines(&sent, "Route"), ["Route: <sip:p1;lr>,<sip:p2;lr>", "Route: <sip:b;lr>"]);
    let mut draft = kit::invite().draft();
    draft.path = Some("<sip:p1;lr>".into());
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert!(sent.contains("branch=z9hG4bKc1\r\nRoute: <sip:p1;lr>\r\nMax-Forwards"), "{sent}");
}

#[test]
fn a_via_that_a_script_took_out_leaves_no_mark_behind() {
    let mut draft = kit::invite().set("Via", "SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bK1").draft();
    let (from, to) = draft.message.via().line;
    draft.lumps.delete(from..to);
    let sent = kit::forwarded(&draft, &kit::own(), 0);
    assert_eq!(kit::lines(&sent, "Via").len(), 1, "{sent}");
    assert_eq!(kit::parse(sent).headers().count(), 8);
}

#[test]
fn the_top_via_of_a_reply_made_here_has_the_same_marks() {
    let via = "SIP/2.0/UDP 10.0.0.1;rport;branch=z9hG4bK1, SIP/2.0/UDP b.example";
    let draft = kit::invite().set("Via", via).draft();
    let mut out = Vec::new();
    top_via(&draft, &mut out);
    assert_eq!(
        String::from_utf8(out).expect("text"),
        "Via: SIP/2.0/UDP 10.0.0.1;received=127.0.0.1;rport=15060;branch=z9hG4bK1, \
         SIP/2.0/UDP b.example\r\n"
    );
}

#[test]
fn the_room_is_reserved_at_once() {
    let mut draft =
        kit::invite().set("Via", "SIP/2.0/UDP 10.0.0.1;rport").body(&[b'x'; 900]).draft();
    draft.uri = Some(format!("sip:{}@127.0.0.1", "u".repeat(300)).into());
    draft.path = Some(format!("<sip:{}>", "p".repeat(300)).into());
    let own = kit::own();
    let mut out = Vec::new();
    request(&draft, &own, &own.sockets[1], 0, &mut out);
    let written = out.len();
    let mut again = Vec::with_capacity(1);
    request(&draft, &own, &own.sockets[1], 0, &mut again);
    assert_eq!(again, out);
    assert!(out.capacity() < written + 256, "{} for {written}", out.capacity());
}

proptest! {
    /// Whatever the Via and the source are: what leaves parses, has one Via more, and says the source.
    #[test]
    fn what_leaves_parses_and_leads_back(
        host in prop::sample::select(vec!["127.0.0.1", "10.0.0.1", "pc.example", "[::1]", "[2001:db8::1]"]),
        port in prop::option::of(1_u16..),
        params in prop::collection::vec(
            prop::sample::select(vec![";rport", ";rport=7", ";received=6.6.6.6", ";branch=z9hG4bKp", ";x=\"a;b,c\"", ";ttl=1"]),
            0..6,
        ),
        v6: bool,
        source_port in 1_u16..,
        force_rport: bool,
    ) {
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        let via = format!("SIP/2.0/UDP {host}{port}{}", params.concat());
        let source = if v6 { format!("[::1]:{source_port}") } else { format!("127.0.0.1:{source_port}") };
        let received = Received { socket: SocketId(0), ..kit::udp_from(&source) };
        let mut draft = kit::invite().set("Via", &via).draft_from(received);
        draft.force_rport = force_rport;
        let sent = kit::parse(kit::forwarded(&draft, &kit::own(), 0));
        prop_assert_eq!(sent.vias().count(), 2);
        let marked = sent.vias().nth(1).expect("the received one");
        let asked = params.iter().any(|param| param.starts_with(";rport"));
        let source: std::net::SocketAddr = source.parse().expect("an address");
        let is_source = crate::sip::message::host_ip(host.as_bytes()) == Some(source.ip());
        if asked || !is_source || params.contains(&";received=6.6.6.6") {
            let text = source.ip().to_string();
            prop_assert_eq!(marked.received(), Some(text.as_bytes()));
        } else {
            prop_assert_eq!(marked.received(), None);
        }
        let rport = source.port().to_string();
        let wanted = (asked || force_rport).then_some(Some(rport.as_bytes()));
        prop_assert_eq!(marked.rport(), wanted);
    }
}
