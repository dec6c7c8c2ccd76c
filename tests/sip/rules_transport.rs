//! Rules 137 to 146 and 152 to 161: connections, framing, garbage.

use crate::kit::{PAST_TO_BOB, Scene, Setup, TO_BOB, fresh, plan};
use crate::raw::{Tcp, TcpPhone, Udp, parameter, reply, request, with_body};

/// Sends to the phone at the Request-URI, over what it says.
const BY_URI: &str = "if SEND() < 0 then KSR.sl.sl_reply_error() end";

#[test]
fn sip_r137_tcp_in_udp_out() {
    let scene = Scene::new(TO_BOB);
    let mut alice = Tcp::connect(scene.proxy.tcp());
    alice.send(request("INVITE", "sip:bob@x", &alice.via("c1"), "c1"));
    let came = scene.bob.receive();
    assert!(came.lines()[1].starts_with(&scene.own_via()), "{came:?}");
    assert_eq!(came.lines()[2], format!("Via: {}", alice.via("c1")));
    for status in ["180 Ringing", "200 OK"] {
        scene.bob.send(scene.proxy.udp(), reply(&came, status, ""));
        let back = alice.receive();
        assert_eq!(back.first(), format!("SIP/2.0 {status}"));
        assert_eq!(back.all("Via"), [alice.via("c1")]);
    }
}

#[test]
fn sip_r137_udp_in_tcp_out() {
    let scene = Scene::new(BY_URI);
    let bob = TcpPhone::new();
    let uri = format!("sip:bob@{};transport=tcp", bob.at());
    scene.send(request("INVITE", &uri, &scene.alice.via("c1"), "c1"));
    let mut line = bob.accept();
    let came = line.receive();
    line.send(reply(&came, "200 OK", ""));
    assert_eq!(scene.alice.receive().all("Via"), [scene.alice.via("c1")]);
    // Other calls to the same phone take the same connection.
    for call in ["c2", "c3", "c4", "c5"] {
        scene.send(request("INVITE", &uri, &scene.alice.via(call), call));
        assert_eq!(line.receive().one("Call-ID"), call);
    }
    bob.has_none();
}

#[test]
fn sip_r138_the_reply_takes_the_same_connection_even_if_the_via_s_port_is_wrong() {
    let scene = Scene::new(TO_BOB);
    for sent_by in ["127.0.0.1:1", "10.0.0.1:5060", "phone.invalid", "127.0.0.1:9;rport"] {
        let mut alice = Tcp::connect(scene.proxy.tcp());
        let via = format!("SIP/2.0/TCP {sent_by};branch=z9hG4bKc1");
        alice.send(request("INVITE", "sip:bob@x", &via, "c1"));
        let came = scene.bob.receive();
        scene.bob.send(scene.proxy.udp(), reply(&came, "200 OK", ""));
        let back = alice.receive();
        assert_eq!((back.status(), back.all("Via").len()), (200, 1));
    }
}

#[test]
fn sip_r138_each_of_many_connections_gets_its_own_replies() {
    let scene = Scene::new(TO_BOB);
    let mut phones: Vec<_> = (0..12).map(|_| Tcp::connect(scene.proxy.tcp())).collect();
    let calls: Vec<_> = (0..12).map(|n| format!("call{n}")).collect();
    for (phone, call) in phones.iter_mut().zip(&calls) {
        // All say the same, but for what a transaction is known by.
        let branch = if crate::STATEFUL { call } else { "x" };
        let via = format!("SIP/2.0/TCP a.invalid;branch=z9hG4bK{branch}");
        phone.send(request("INVITE", "sip:bob@x", &via, call));
    }
    for _ in &calls {
        let came = scene.bob.receive();
        scene.bob.send(scene.proxy.udp(), reply(&came, "200 OK", ""));
    }
    for (phone, call) in phones.iter_mut().zip(&calls) {
        assert_eq!(phone.receive().one("Call-ID"), *call);
    }
}

#[test]
fn sip_r138_where_the_connection_is_gone_another_is_opened_to_the_via() {
    let scene = Scene::new(TO_BOB);
    let home = TcpPhone::new();
    let mut alice = Tcp::connect(scene.proxy.tcp());
    let via = format!("SIP/2.0/TCP {};branch=z9hG4bKc1", home.at());
    alice.send(request("INVITE", "sip:bob@x", &via, "c1"));
    let came = scene.bob.receive();
    let node = [("node", "sip")];
    drop(alice);
    scene.proxy.service.until_metric("lineway_sip_connections_open", &node, 0.0);
    scene.bob.send(scene.proxy.udp(), reply(&came, "200 OK", ""));
    assert_eq!(home.accept().receive().all("Via"), [via]);
}

#[test]
fn sip_r139_the_own_via_has_i_for_requests_over_tcp() {
    let scene = Scene::new(TO_BOB);
    let mut numbers = vec![];
    for n in 0..3 {
        let mut alice = Tcp::connect(scene.proxy.tcp());
        for call in ["a", "b"] {
            alice.send(request("INVITE", "sip:bob@x", &alice.via(call), &format!("{call}{n}")));
            let via = scene.bob.receive().all("Via")[0].clone();
            let id = parameter(&via, "i").unwrap_or_else(|| panic!("no i: {via}"));
            assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()) && !id.is_empty(), "{via}");
            numbers.push(id);
        }
    }
    assert_eq!((&numbers[0], &numbers[2]), (&numbers[1], &numbers[3]), "one for each connection");
    numbers.dedup();
    assert_eq!(numbers.len(), 3, "{numbers:?}");
    let over_udp = scene.pass(scene.request("INVITE", "c1")).all("Via")[0].clone();
    assert_eq!(parameter(&over_udp, "i"), None, "{over_udp}");
}

#[test]
fn sip_r140_tcp_framing_both_ways() {
    let bob = TcpPhone::new();
    let proxy = Setup::default().script(&plan(bob.at(), BY_URI));
    let mut alice = Tcp::connect(proxy.tcp());
    let uri = format!("sip:bob@{};transport=tcp", bob.at());
    let one =
        with_body(&request("MESSAGE", &uri, &alice.via("m1"), "c1"), "hello\r\n\r\nSIP/2.0 200 OK");
    let two = request("MESSAGE", &uri, &alice.via("m2"), "c1").replace("Content-Length", "L ");
    let three = with_body(&request("MESSAGE", &uri, &alice.via("m3"), "c1"), "x");
    let whole = [one, two, three].concat();
    // Cut at odd places.
    let (first, rest) = whole.split_at(whole.len() / 3);
    alice.send(first);
    alice.send(&rest[..7]);
    alice.send(&rest[7..]);
    let mut line = bob.accept();
    let came: Vec<_> = (0..3).map(|_| line.receive()).collect();
    assert_eq!(came[0].body(), b"hello\r\n\r\nSIP/2.0 200 OK");
    assert_eq!((came[1].body(), came[2].body()), (&b""[..], &b"x"[..]));
    // Replies in one segment, cut in the middle of the second.
    let replies: Vec<_> = came.iter().map(|came| reply(came, "200 OK", "")).collect();
    let text = replies.concat();
    let cut = replies[0].len() + replies[1].len() / 2;
    line.send(&text[..cut]);
    let mut branches = vec![alice.receive().branch()];
    line.send(&text[cut..]);
    branches.extend((0..2).map(|_| alice.receive().branch()));
    assert_eq!(branches, ["z9hG4bKm1", "z9hG4bKm2", "z9hG4bKm3"]);
}

#[test]
fn sip_r141_a_double_crlf_is_answered_with_one() {
    let scene = Scene::new(TO_BOB);
    let mut alice = Tcp::connect(scene.proxy.tcp());
    for _ in 0..3 {
        alice.send("\r\n\r\n");
        assert_eq!(alice.bytes(2), b"\r\n");
    }
    let message =
        request("OPTIONS", &format!("sip:probe@{}", scene.proxy.udp()), &alice.via("c1"), "c1");
    alice.send(format!("\r\n\r\n{message}\r\n\r\n"));
    assert_eq!(alice.bytes(2), b"\r\n");
    let (mut pongs, mut text) = (0, vec![]);
    // The answer, which crosses workers, and the pong come in any order.
    while pongs == 0 || !text.ends_with(b"\r\n\r\n") {
        let two = alice.bytes(2);
        if two == b"\r\n" && (text.is_empty() || text.ends_with(b"\r\n\r\n")) {
            pongs += 1;
        } else {
            text.extend(two);
            while !text.ends_with(b"\r\n\r\n") {
                text.extend(alice.bytes(1));
            }
        }
    }
    assert!(text.starts_with(b"SIP/2.0 200 Probe\r\n"));
}

#[test]
fn sip_r142_big_messages_over_tcp_are_unchanged() {
    let bob = TcpPhone::new();
    let lua = format!("KSR.setdsturi(\"sip:{};transport=tcp\")\nSEND()", bob.at());
    let scene = Scene::new(&lua);
    let mut alice = Tcp::connect(scene.proxy.tcp());
    let mut line = None;
    for size in [1, 1300, 9000, 40_000, 64_000] {
        let body: String = (0..size).map(|n| char::from(b' ' + (n % 90) as u8)).collect();
        let sent =
            with_body(&request("MESSAGE", "sip:bob@x", &alice.via(&fresh("c")), "c1"), &body);
        alice.send(&sent);
        let line = line.get_or_insert_with(|| bob.accept());
        let came = line.receive();
        assert!(came.without_line(1) == sent.as_bytes(), "{size} bytes");
        // Back, too.
        let answer = reply(&came, "200 OK", "")
            .replace("Content-Length: 0", &format!("Content-Length: {size}"));
        line.send(format!("{answer}{body}"));
        assert!(alice.receive().body() == body.as_bytes(), "{size} bytes");
    }
}

#[test]
fn sip_r143_record_route_is_double_where_transports_differ() {
    let scene = Scene::new(
        "if KSR.siputils.has_totag() > 0 then
            KSR.rr.loose_route()
            SEND()
            return
        end
        KSR.rr.record_route()
        KSR.seturi(BOB)
        SEND()",
    );
    let mut alice = Tcp::connect(scene.proxy.tcp());
    alice.send(request("INVITE", "sip:bob@x", &alice.via("c1"), "c1"));
    let came = scene.bob.receive();
    let (udp, tcp) = (scene.proxy.udp(), scene.proxy.tcp());
    let (out, inward) =
        (format!("<sip:{udp};r2=on;lr>"), format!("<sip:{tcp};transport=tcp;r2=on;lr>"));
    let lines = came.lines();
    assert_eq!(lines[1..3], [format!("Record-Route: {out}"), format!("Record-Route: {inward}")]);
    // From the caller the inward one is first; both are removed and the call goes on over UDP.
    let to = "To: <sip:bob@127.0.0.1>;tag=tb";
    for routes in
        [format!("Route: {inward}\r\nRoute: {out}\r\n"), format!("Route: {inward},{out}\r\n")]
    {
        let uri = format!("sip:bob@{}", scene.bob.at());
        let bye = request("BYE", &uri, &alice.via(&fresh("d")), "c1")
            .replace("To: <sip:bob@127.0.0.1>", to);
        alice.send(bye.replace("Max-Forwards", &format!("{routes}Max-Forwards")));
        let came = scene.bob.receive();
        assert!(came.all("Route").is_empty(), "{came:?}");
        assert!(came.lines()[1].starts_with(&scene.own_via()), "{came:?}");
    }
    // From the callee it is the other way round; it leaves by the caller's connection.
    let uri = format!("sip:alice@{};transport=tcp", alice.at());
    let bye =
        request("BYE", &uri, &scene.bob.via("e1"), "c1").replace("To: <sip:bob@127.0.0.1>", to);
    scene.bob.send(
        udp,
        bye.replace("Max-Forwards", &format!("Route: {out}\r\nRoute: {inward}\r\nMax-Forwards")),
    );
    let came = alice.receive();
    assert!(came.all("Route").is_empty(), "{came:?}");
    assert!(came.lines()[1].starts_with(&format!("Via: SIP/2.0/TCP {tcp};branch=")), "{came:?}");
}

#[test]
fn sip_r144_garbage_does_no_harm_and_gets_no_answer() {
    let scene = Scene::with(Setup::one_worker(), "KSR.sl.sl_send_reply(200, \"OK\")");
    let whole = scene.request("OPTIONS", "c1");
    let mut garbage: Vec<Vec<u8>> = vec![
        b"\r\n\r\n".to_vec(),
        b"\0".to_vec(),
        b"\r".to_vec(),
        vec![],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        vec![0; 1500],
        vec![0xff; 9000],
        (0..=255).collect(),
        whole.replace("SIP/2.0\r\nVia", "SIP/3.0\r\nVia").into_bytes(),
        whole.replace("SIP/2.0\r\nVia", "HTTP/1.1\r\nVia").into_bytes(),
        whole.replace("OPTIONS sip", "sip").into_bytes(),
        whole.replace("OPTIONS ", "").into_bytes(),
        whole.replace("OPTIONS sip", "SIP/2.0 2x0 sip").into_bytes(),
        whole.replacen("Via:", "Via", 1).into_bytes(),
        whole.replace("Via", "Wia").into_bytes(),
        whole.replace("\r\n", "").into_bytes(),
        whole.replace("\r\n", "\r").into_bytes(),
        whole.replace("Call-ID: c1", "Call-ID:").into_bytes(),
    ];
    // Cut anywhere before its end of headers.
    let end = whole.len() - 4;
    garbage.extend((0..end).step_by(7).map(|at| whole.as_bytes()[..at].to_vec()).filter(|cut| {
        // What is whole up to its mandatory headers may be answered.
        !String::from_utf8_lossy(cut).contains("CSeq: 1 OPTIONS")
    }));
    for bytes in &garbage {
        scene.send(bytes);
    }
    scene.proxy.answers_first(&scene.alice, "c1");
    assert_eq!(scene.ask(&whole).status(), 200);
    // Over TCP it ends the connection it came on, at most.
    for bytes in garbage.iter().filter(|bytes| bytes.len() > 4) {
        let mut other = Tcp::connect(scene.proxy.tcp());
        other.send(bytes);
    }
    let mut good = Tcp::connect(scene.proxy.tcp());
    good.send(request("OPTIONS", "sip:x", &good.via("c1"), "c1"));
    assert_eq!(good.receive().status(), 200);
    assert!(!scene.proxy.service.log.whole().contains("panic"));
}

#[test]
fn sip_r145_requests_without_from_to_or_cseq_are_dropped_silently() {
    for (name, reason) in [
        ("From", "bad-from"),
        ("To", "bad-to"),
        ("CSeq", "bad-cseq"),
        ("Call-ID", "no-call-id"),
        ("Via", "bad-via"),
    ] {
        let scene = Scene::with(Setup::one_worker(), "KSR.sl.sl_send_reply(200, \"OK\")");
        let whole = scene.request("OPTIONS", "c1");
        let without = whole.replace(&format!("{name}: "), &format!("X-{name}: "));
        assert_ne!(without, whole);
        scene.send(without);
        scene.proxy.answers_first(&scene.alice, "c1");
        assert_eq!(scene.proxy.dropped(reason).to_bits(), 1.0_f64.to_bits(), "{name}");
        assert_eq!(scene.ask(whole).status(), 200);
    }
}

#[test]
fn sip_r146_bare_lf_line_ends_are_accepted() {
    let scene = Scene::new(PAST_TO_BOB);
    let sent = with_body(&scene.request("MESSAGE", "c1"), "a\r\nb\n").replace("\r\n", "\n");
    let sent = sent.replace("Content-Length: 5", "Content-Length: 4");
    let came = scene.pass(&sent);
    assert!(came.lines()[1].starts_with(&scene.own_via()), "{came:?}");
    assert_eq!(came.without_line(1), sent.as_bytes(), "{came:?}");
    assert_eq!(came.body(), b"a\nb\n");
    let back = reply(&came, "200 OK", "").replace("\r\n", "\n");
    assert_eq!(scene.back(&back).status(), 200);
    // Mixed, and over TCP.
    let mixed = scene.request("MESSAGE", "c2").replacen("\r\n", "\n", 3);
    assert_eq!(scene.pass(&mixed).without_line(1), mixed.as_bytes());
    let mut alice = Tcp::connect(scene.proxy.tcp());
    let sent =
        request("OPTIONS", &format!("sip:probe@{}", scene.proxy.udp()), &alice.via("c1"), "c1");
    alice.send(sent.replace("\r\n", "\n").repeat(2));
    assert_eq!((alice.receive().status(), alice.receive().status()), (200, 200));
}

#[test]
fn sip_r154_a_refused_tcp_next_hop_is_477_at_once() {
    let scene = Scene::new(BY_URI);
    let nobody = TcpPhone::new().at();
    let uri = format!("sip:bob@{nobody};transport=tcp");
    let refused = scene.ask(request("INVITE", &uri, &scene.alice.via("c1"), "c1"));
    assert_eq!(refused.status(), 477);
}

#[test]
fn sip_r158_a_stray_ack_is_never_answered() {
    // Whatever a script says to it, and whatever is wrong with it.
    let scenes = [
        Scene::new("KSR.sl.sl_send_reply(404, \"Not here\")"),
        Scene::new("KSR.sanity.sanity_check(17895, 7)\nKSR.sl.sl_reply_error()"),
        Scene::new("error(\"no\")"),
    ];
    for scene in &scenes {
        let ack = scene.request("ACK", "c1");
        for ack in [
            ack.clone(),
            ack.replace("ds: 70", "ds: 0"),
            ack.replace("CSeq: 1 ACK", "CSeq: 1 BYE"),
            ack.replace("Content-Length: 0", "Content-Length: 9"),
            ack.replace("Content-Length: 0", "Content-Length: x"),
            ack.replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=x"),
        ] {
            scene.send(ack);
            scene.proxy.answers_first(&scene.alice, "c1");
        }
    }
    let scene = Scene::built_in();
    let options = scene.request("OPTIONS", "c1").replace("sip:bob@", "sip:");
    for ack in [
        scene.request("ACK", "c1"),
        scene.request("ACK", "c1").replace("ds: 70", "ds: 0"),
        scene.request("ACK", "c1").replace("CSeq: 1 ACK", "CSeq: 1 BYE"),
        scene.request("ACK", "c1").replace("Content-Length: 0", "Content-Length: 9"),
        scene.request("ACK", "c1").replace("sip:bob@127.0.0.1", "tel:12"),
    ] {
        scene.send(ack);
        assert_eq!(scene.ask(&options).one("CSeq"), "1 OPTIONS");
    }
}

#[test]
fn sip_r159_content_length_is_added_towards_tcp_in_requests() {
    let scene = Scene::new(BY_URI);
    let bob = TcpPhone::new();
    let uri = format!("sip:bob@{};transport=tcp", bob.at());
    let mut line = None;
    for body in ["", "hello", "a\r\n\r\nb"] {
        let sent = request("MESSAGE", &uri, &scene.alice.via(&fresh("c")), "c1");
        scene.send(sent.replace("Content-Length: 0\r\n", "") + body);
        let came = line.get_or_insert_with(|| bob.accept()).receive();
        assert_eq!(came.one("Content-Length"), body.len().to_string());
        assert_eq!(came.body(), body.as_bytes());
    }
    // One that is wrong is put right: what came beyond it is part of it.
    for name in ["Content-Length", "l"] {
        let sent = request("MESSAGE", &uri, &scene.alice.via(&fresh("c")), "c1");
        let sent = with_body(&sent, "hello");
        scene.send(sent.replace("Content-Length: 5", &format!("{name}: 2")));
        let came = line.as_mut().unwrap().receive();
        assert_eq!((came.one(name).as_str(), came.body()), ("5", &b"hello"[..]), "{came:?}");
    }
}

#[test]
fn sip_r160_content_length_is_added_towards_tcp_in_replies() {
    let scene = Scene::new(TO_BOB);
    let mut alice = Tcp::connect(scene.proxy.tcp());
    alice.send(request("INVITE", "sip:bob@x", &alice.via("c1"), "c1"));
    let came = scene.bob.receive();
    for body in ["", "hello", "a\r\n\r\nb"] {
        let answer = reply(&came, "200 OK", "").replace("Content-Length: 0\r\n", "") + body;
        scene.bob.send(scene.proxy.udp(), answer);
        let back = alice.receive();
        assert_eq!(back.one("Content-Length"), body.len().to_string());
        assert_eq!(back.body(), body.as_bytes());
    }
}

#[test]
fn sip_r161_of_via_values_that_share_a_line_the_first_alone_gets_received_and_rport() {
    let scene = Scene::new(TO_BOB);
    let (at, port) = (scene.alice.at(), scene.alice.at().port());
    let line = format!("Via: {}", scene.alice.via("c1"));
    let second = "SIP/2.0/UDP 10.0.0.7;rport;branch=z9hG4bKz";
    for gap in [", ", ",", " ,\r\n "] {
        let own = fresh("c1");
        let first = format!("SIP/2.0/UDP 10.0.0.1:7;branch=z9hG4bK{own};rport{gap}{second}");
        let came =
            scene.pass(scene.request("INVITE", "c1").replace(&line, &format!("Via: {first}")));
        let wanted = format!(
            "Via: SIP/2.0/UDP 10.0.0.1:7;received=127.0.0.1;branch=z9hG4bK{own};rport={port}{gap}{second}\r\n"
        );
        assert!(came.text().contains(&wanted), "{came:?}");
        let untouched = format!("Via: SIP/2.0/UDP {at};branch=z9hG4bK{own}{gap}{second}");
        let came = scene.pass(scene.request("INVITE", "c1").replace(&line, &untouched));
        assert!(came.text().contains(&format!("{untouched}\r\n")), "{came:?}");
    }
}

#[test]
fn sip_s2_16_messages_of_one_call_stay_in_order() {
    let scene = Scene::with(Setup { workers: 2, ..Setup::default() }, TO_BOB);
    let second = Udp::new();
    for call in 0..4 {
        let call = format!("call{call}");
        for n in 1..=50 {
            // From two sources by turns, which the system gives to two workers.
            let from = if n % 2 == 0 { &second } else { &scene.alice };
            let text = request("INFO", "sip:bob@x", &from.via(&format!("{call}x{n}")), &call);
            from.send(scene.proxy.udp(), text.replace("CSeq: 1 ", &format!("CSeq: {n} ")));
            if n % 10 == 0 {
                // Each source's own stay in order; across sources by what was seen.
                let came: Vec<_> = (0..10).map(|_| scene.bob.receive().one("CSeq")).collect();
                let number =
                    |cseq: &String| cseq.split(' ').next().unwrap().parse::<u32>().unwrap();
                let numbers: Vec<_> = came.iter().map(number).collect();
                for parity in [0, 1] {
                    let own: Vec<_> = numbers.iter().filter(|n| *n % 2 == parity).collect();
                    assert!(own.is_sorted(), "{numbers:?}");
                }
            }
        }
    }
}
