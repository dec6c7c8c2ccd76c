//! Rules 25 to 29 and 103 to 111: replies that pass and replies that are made here.

use std::net::SocketAddr;
use std::time::Duration;

use crate::kit::{Scene, Setup, TO_BOB};
use crate::raw::{Sip, Udp, parameter, reply};

/// Answers every request with this.
fn answering(status: &str) -> String {
    format!("KSR.sl.sl_send_reply({status})")
}

/// What has to go back: a request's way is on top, the proxy's own Via first.
fn on_its_way(top: SocketAddr, vias: &str) -> Vec<u8> {
    let text = format!(
        "sip/2.0  183  Session  Progress \r\nX-A :1\r\nVia: SIP/2.0/UDP {top};branch=z9hG4bKp1{vias}\r\n\
         FROM: <sip:alice@x>;tag=a1\r\nt:<sip:bob@y>;tag=\r\n folded\r\nVia: SIP/2.0/UDP last.example\r\n\
         Call-ID:c1\r\nCSeq: 1 INVITE\r\nContact: *\r\n\r\n"
    );
    [text.as_bytes(), b"\0\xff\r\n\r\nx"].concat()
}

#[test]
fn sip_r025_only_the_top_via_value_is_removed() {
    let scene = Scene::new(TO_BOB);
    let alice = scene.alice.at();
    let own = scene.proxy.udp();
    // Alone in its line.
    let sent = on_its_way(own, &format!("\r\nVia: SIP/2.0/UDP {alice};branch=z9hG4bKc1 "));
    let sent =
        String::from_utf8_lossy(&sent).replace("sip/2.0  183  Session", "SIP/2.0 183 Session");
    let came = scene.back(&sent);
    assert_eq!(came.0, Sip(sent.into_bytes()).without_line(2));
    // The first of three in its line, which may be folded.
    for gap in [", ", ",", " ,\r\n  ", "\r\n\t, "] {
        let rest =
            format!("SIP/2.0/UDP {alice};branch=z9hG4bKc1,SIP/2.0/TCP  b.example ;x=\"a,b\"");
        let sent = on_its_way(own, &format!("{gap}{rest}"));
        let sent = String::from_utf8_lossy(&sent).replace("sip/2.0  183  ", "SIP/2.0 183 ");
        let came = scene.back(&sent);
        let first = format!("SIP/2.0/UDP {own};branch=z9hG4bKp1{gap}");
        let trimmed = |text: &str| text.replace("Via:  ", "Via: ");
        assert_eq!(trimmed(&String::from_utf8_lossy(&came.0)), sent.replace(&first, ""), "{gap:?}");
    }
}

#[test]
fn sip_r026_a_reply_with_no_other_via_is_dropped() {
    let scene = Scene::with(Setup::one_worker(), TO_BOB);
    let came = scene.pass(scene.request("INVITE", "c1"));
    let own = format!("Via: {}\r\n", came.all("Via")[0]);
    let other = format!("Via: {}\r\n", came.all("Via")[1]);
    let whole = reply(&came, "200 OK", "");
    let alone = whole.replace(&other, "");
    assert!(alone.contains(&own) && alone != whole);
    scene.bob.send(scene.proxy.udp(), &alone);
    assert_eq!(scene.back(&whole).0, Sip(whole.clone().into_bytes()).without_line(1));
    assert_eq!(scene.proxy.dropped("no-second-via").to_bits(), 1.0_f64.to_bits());
    scene.proxy.answers_first(&scene.alice, "c1");
}

#[test]
fn sip_r027_a_reply_that_matches_no_request_is_relayed_by_its_second_via() {
    let scene = Scene::new(TO_BOB);
    for (n, status) in
        ["180 Ringing", "200 OK", "486 Busy", "699 X", "100 Trying"].iter().enumerate()
    {
        let text = format!(
            "SIP/2.0 {status}\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKnone\r\nVia: SIP/2.0/UDP a.example:9;\
             received=127.0.0.1;rport={};branch=1\r\nFrom: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\n\
             Call-ID: never{n}\r\nCSeq: 7 INVITE\r\n\r\n",
            scene.proxy.udp(),
            scene.alice.at().port(),
        );
        assert_eq!(scene.back(&text).0, Sip(text.clone().into_bytes()).without_line(1));
    }
}

#[test]
fn sip_r027_the_way_back_is_received_else_host_and_rport_else_port() {
    let scene = Scene::new(TO_BOB);
    let (ip, port) = (scene.alice.at().ip(), scene.alice.at().port());
    for via in [
        format!("SIP/2.0/UDP {ip}:{port};branch=1"),
        format!("SIP/2.0/UDP 10.0.0.1:{port};received={ip}"),
        format!("SIP/2.0/UDP {ip}:1;rport={port}"),
        format!("SIP/2.0/UDP 10.0.0.1:1;rport={port};x;received={ip};branch=z9hG4bK"),
    ] {
        let text = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP {}\r\nVia: {via}\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@d>;tag=2\r\nCall-ID: c1\r\nCSeq: 7 INVITE\r\n\r\n",
            scene.proxy.udp(),
        );
        assert_eq!(scene.back(&text).all("Via"), [via]);
    }
}

#[test]
fn sip_r028_the_top_via_of_a_reply_is_not_checked_to_be_ours() {
    let scene = Scene::new(TO_BOB);
    let came = scene.pass(scene.request("INVITE", "c1"));
    let whole = reply(&came, "200 OK", "");
    for other in ["192.0.2.1:5060", "other.example", "[2001:db8::1]:7", "127.0.0.1:1"] {
        let text = whole.replacen(&scene.proxy.udp().to_string(), other, 1);
        assert_ne!(text, whole);
        assert_eq!(scene.back(&text).0, Sip(text.clone().into_bytes()).without_line(1));
    }
}

#[test]
fn sip_r029_a_reply_without_call_id_or_cseq_is_dropped() {
    let scene = Scene::with(Setup::one_worker(), TO_BOB);
    let came = scene.pass(scene.request("INVITE", "c1"));
    let whole = reply(&came, "200 OK", "");
    let broken = [
        whole.replace("Call-ID: c1\r\n", ""),
        whole.replace("Call-ID: c1\r\n", "Call-ID:\r\n"),
        whole.replace("CSeq: 1 INVITE\r\n", ""),
        whole.replace("CSeq: 1 INVITE", "CSeq: INVITE"),
        whole.replace("CSeq: 1 INVITE", "CSeq: 1"),
        whole.replace("From: ", "X-From: "),
        whole.replace("To: ", "X-To: "),
    ];
    for text in broken {
        assert_ne!(text, whole);
        scene.bob.send(scene.proxy.udp(), &text);
        assert_eq!(scene.back(&whole).0, Sip(whole.clone().into_bytes()).without_line(1), "{text}");
        scene.proxy.answers_first(&scene.alice, "c1");
    }
}

#[test]
fn sip_r103_a_reply_made_here_has_what_the_request_had() {
    let scene = Scene::new(&answering("486, \"Busy Here\""));
    let port = scene.alice.at().port();
    let sent = scene.request("INVITE", "c1").replace(
        &format!("Via: {}\r\n", scene.alice.via("c1")),
        "Record-Route: <sip:192.0.2.1;lr>\r\n\
         Via: SIP/2.0/UDP 10.1.1.1;rport;branch=z9hG4bKc1, SIP/2.0/TCP b.example;x=1\r\nSubject: s\r\n\
         v:  SIP/2.0/UDP c.example;branch=z9hG4bKd;received=192.0.2.3\r\n",
    );
    let busy = scene.ask(&sent);
    let lines = busy.lines();
    assert_eq!(lines[0], "SIP/2.0 486 Busy Here");
    let top = format!(
        "Via: SIP/2.0/UDP 10.1.1.1;received=127.0.0.1;rport={port};branch=z9hG4bKc1, SIP/2.0/TCP b.example;x=1"
    );
    assert_eq!(lines[1], top, "{busy:?}");
    assert_eq!(lines[2], "v:  SIP/2.0/UDP c.example;branch=z9hG4bKd;received=192.0.2.3");
    assert_eq!(lines[3], "From: <sip:alice@127.0.0.1>;tag=a1");
    assert!(lines[4].starts_with("To: <sip:bob@127.0.0.1>;tag="), "{busy:?}");
    assert_eq!(lines[5..7], ["Call-ID: c1", "CSeq: 1 INVITE"]);
    assert!(!busy.one("Server").is_empty());
    assert_eq!(busy.one("Content-Length"), "0");
    assert_eq!(lines.len(), 9, "{busy:?}");
}

#[test]
fn sip_r103_record_route_is_repeated_for_180_to_299_alone_and_no_tag_below_180() {
    let codes = [
        (100, false, false),
        (180, true, true),
        (183, true, true),
        (200, true, true),
        (300, false, true),
        (404, false, true),
    ];
    for (code, routes, tag) in codes {
        let scene = Scene::new(&answering(&format!("{code}, \"X\"")));
        let record = "Record-Route: <sip:192.0.2.1;lr>\r\nrecord-route: <sip:192.0.2.2;lr>\r\n";
        let sent = scene.request("INVITE", "c1").replace("Call-ID", &format!("{record}Call-ID"));
        let came = scene.ask(&sent);
        assert_eq!(came.text().contains(record), routes, "{came:?}");
        assert_eq!(came.to_tag().is_some(), tag, "{came:?}");
        // A tag that is there stays, and there is no second one.
        let came =
            scene.ask(sent.replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb"));
        assert_eq!(came.one("To"), "<sip:bob@127.0.0.1>;tag=tb");
    }
}

#[test]
fn sip_r103_lines_of_the_script_are_added() {
    let scene = Scene::new(
        "KSR.hdr.append_to_reply(\"Retry-After: 5\\r\\n\")
        KSR.hdr.append_to_reply(\"X-Why: full\\r\\n\")
        KSR.sl.send_reply(503, \"Service Unavailable\")",
    );
    let came = scene.ask(scene.request("INVITE", "c1"));
    assert_eq!(
        (came.status(), came.one("Retry-After"), came.one("X-Why")),
        (503, "5".into(), "full".into())
    );
    // They were for one reply.
    let again = scene.ask(scene.request("INVITE", "c1"));
    assert_eq!(again, came);
}

#[test]
fn sip_r104_the_same_request_gets_the_same_bytes() {
    let scene = Scene::new(&answering("404, \"Not Found\""));
    let sent = scene.request("INVITE", "c1");
    let first = scene.ask(&sent);
    for _ in 0..3 {
        assert_eq!(scene.ask(&sent), first);
    }
    // Another call has another tag.
    let others = [sent.replace("Call-ID: c1", "Call-ID: c2"), sent.replace("bKc1", "bKc2")];
    for other in others {
        assert_ne!(scene.ask(&other).to_tag(), first.to_tag());
    }
}

#[test]
fn sip_r105_a_reply_made_here_is_never_retransmitted() {
    let scene = Scene::new(&answering("404, \"Not Found\""));
    assert_eq!(scene.ask(scene.request("INVITE", "c1")).status(), 404);
    // A transaction would send it again after half a second.
    scene.alice.stays_silent(Duration::from_millis(700));
    scene.proxy.answers_first(&scene.alice, "c1");
}

#[test]
fn sip_r106_the_ack_of_a_reply_made_here_is_absorbed() {
    let scene = Scene::new(&format!(
        "if KSR.is_ACK() then\n{TO_BOB}\nelse\nKSR.sl.sl_send_reply(486, \"Busy Here\")\nend"
    ));
    let invite = scene.request("INVITE", "c1");
    let busy = scene.ask(&invite);
    let ack = |to: &str| {
        invite.replace("INVITE", "ACK").replace("To: <sip:bob@127.0.0.1>", &format!("To: {to}"))
    };
    scene.send(ack(&busy.one("To")));
    scene.proxy.sends_first(&scene.alice, &scene.bob, "c1");
    scene.proxy.answers_first(&scene.alice, "c1");
    assert_eq!(scene.proxy.dropped("absorbed-ack").to_bits(), 1.0_f64.to_bits());
    // The ACK of another reply is none of ours: the script has it.
    for other in ["<sip:bob@127.0.0.1>;tag=tb", "<sip:bob@127.0.0.1>"] {
        let came = scene.pass(ack(other));
        assert!(came.first().starts_with("ACK sip:bob@"), "{came:?}");
    }
    let tag = busy.to_tag().expect("a tag");
    let turned = if tag.ends_with('0') { '1' } else { '0' };
    let forged = format!("<sip:bob@127.0.0.1>;tag={}{turned}", &tag[..tag.len() - 1]);
    assert!(scene.pass(ack(&forged)).first().starts_with("ACK sip:bob@"));
}

#[test]
fn sip_r106_nothing_answers_an_ack() {
    let scene = Scene::new(&answering("404, \"Not Found\""));
    for to in ["To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb"] {
        scene.send(scene.request("ACK", "c1").replace("To: <sip:bob@127.0.0.1>", to));
        scene.proxy.answers_first(&scene.alice, "c1");
    }
    // Not even a script error does.
    let scene = Scene::new("error(\"no\")");
    scene.send(scene.request("ACK", "c1"));
    scene.proxy.answers_first(&scene.alice, "c1");
}

#[test]
fn sip_r107_the_tag_is_32_hex_digits_a_dot_and_8() {
    let scene = Scene::new(&answering("404, \"Not Found\""));
    let mut first = None;
    for call in ["c1", "c2", "c3@host"] {
        let tag = scene.ask(scene.request("INVITE", call)).to_tag().expect("a tag");
        let (server, request) = tag.split_once('.').expect("a dot");
        for (part, length) in [(server, 32), (request, 8)] {
            assert_eq!(part.len(), length, "{tag}");
            assert!(part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{tag}");
        }
        assert_eq!(first.get_or_insert_with(|| server.to_owned()), server, "the server's part");
    }
}

#[test]
fn sip_r110_options_to_the_proxy_is_200() {
    let scene = Scene::built_in();
    for uri in
        [format!("sip:{}", scene.proxy.udp()), format!("sip:{};transport=udp", scene.proxy.udp())]
    {
        let sent =
            scene.request("OPTIONS", "c1").replace(&format!("sip:bob@{}", scene.proxy.udp()), &uri);
        let ok = scene.ask(&sent);
        assert_eq!(ok.status(), 200, "{uri}");
        assert!(ok.to_tag().is_some());
    }
}

#[test]
fn sip_r111_a_local_302_lists_the_destination_set_with_q() {
    let lists = [
        (
            "KSR.seturi(\"sip:one@10.0.0.1\")
            KSR.corex.append_branch_uri_q(\"sip:two@10.0.0.2;transport=tcp\", \"0.5\")
            KSR.corex.append_branch_uri(\"sip:three@10.0.0.3\")",
            "<sip:one@10.0.0.1>, <sip:two@10.0.0.2;transport=tcp>;q=0.5, <sip:three@10.0.0.3>",
        ),
        (
            "KSR.corex.append_branch_uri_q(\"sip:two@10.0.0.2\", \"0.75\")",
            "<sip:two@10.0.0.2>;q=0.75",
        ),
        ("KSR.seturi(\"sip:one@10.0.0.1\")", "<sip:one@10.0.0.1>"),
    ];
    for (lua, contact) in lists {
        let scene = Scene::new(&format!("{lua}\nKSR.sl.sl_send_reply(302, \"Moved\")"));
        let moved = scene.ask(scene.request("INVITE", "c1"));
        assert_eq!((moved.status(), moved.one("Contact").as_str()), (302, contact));
    }
}

#[test]
fn sip_s4_a_reply_made_here_goes_to_source_ip_and_rport_or_via_port() {
    let scene = Scene::new(&answering("404, \"Not Found\""));
    let other = Udp::new();
    let at = scene.alice.at().to_string();
    let by_via = format!("10.0.0.1:{}", other.at().port());
    scene.send(scene.request("INVITE", "c1").replace(&at, &by_via));
    let came = other.receive();
    assert_eq!(parameter(&came.one("Via"), "received").as_deref(), Some("127.0.0.1"));
    let asked = scene.ask(scene.request("INVITE", "c1").replace(&at, "10.0.0.1:9;rport"));
    assert_eq!(parameter(&asked.one("Via"), "rport"), Some(scene.alice.at().port().to_string()));
}
