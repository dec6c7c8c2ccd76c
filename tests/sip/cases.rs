//! S-11, S-23, S-24, S-27, S-28 and S-30.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::kit::{PAST_TO_BOB, Proxy, Scene, Setup, TO_BOB, fresh, plan};
use crate::raw::{Sip, Tcp, Udp, parameter, reply, request, with_body};

/// The route of a dialog is followed and recorded again by what may change it; a call's begin records
/// one.
const DIALOGS: &str = "if KSR.siputils.has_totag() > 0 then
    if KSR.rr.loose_route() < 0 then KSR.sl.sl_send_reply(404, \"Not here\") return end
else
    KSR.seturi(BOB)
end
if KSR.is_INVITE() then KSR.rr.record_route() end
SEND()";

/// Two sockets: one for the callees, one for the callers.
fn multi_homed(bob: &Udp) -> (Proxy, SocketAddr, SocketAddr) {
    let setup = Setup::on("\"udp:127.0.0.2:0\", \"udp:127.0.0.1:0\"");
    let proxy = setup.script(&plan(bob.at(), DIALOGS));
    let [outer, inner] = proxy.at[..] else { panic!("two sockets") };
    let ips = [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::LOCALHOST].map(IpAddr::V4);
    assert_eq!([outer.ip(), inner.ip()], ips);
    (proxy, outer, inner)
}

#[test]
fn case_s11_ack_with_two_routes_of_ours() {
    let (alice, bob) = (Udp::new(), Udp::new());
    let (_proxy, outer, inner) = multi_homed(&bob);
    let (record_out, record_in) =
        (format!("<sip:{outer};r2=on;lr>"), format!("<sip:{inner};r2=on;lr>"));
    let uri = format!("sip:bob@{}", bob.at());
    for routes in [
        format!("Route: {record_in}\r\nRoute: {record_out}\r\n"),
        format!("Route: {record_in}, {record_out}\r\n"),
        format!("Route: {record_in},\r\n {record_out}\r\n"),
    ] {
        for method in ["ACK", "BYE", "INVITE"] {
            let sent = request(method, &uri, &alice.via(&fresh("ack")), "c1")
                .replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb")
                .replace("Max-Forwards", &format!("{routes}Max-Forwards"));
            alice.send(inner, sent);
            let (came, from) = bob.receive_from();
            assert_eq!(from, outer, "{came:?}");
            assert_eq!(came.first(), format!("{method} {uri} SIP/2.0"));
            assert!(came.all("Route").is_empty(), "{came:?}");
            assert!(came.all("Via")[0].starts_with(&format!("SIP/2.0/UDP {outer};")), "{came:?}");
            if method == "INVITE" {
                assert_eq!(came.all("Record-Route"), [record_out.clone(), record_in.clone()]);
            }
            if method != "ACK" {
                bob.send(outer, reply(&came, "200 OK", ""));
                assert_eq!(alice.receive().status(), 200);
            }
        }
    }
    // The other direction mirrors it: in by the first socket, out by the second.
    let uri = format!("sip:alice@{}", alice.at());
    for routes in [
        format!("Route: {record_out}\r\nRoute: {record_in}\r\n"),
        format!("Route: {record_out},{record_in}\r\n"),
    ] {
        let sent = request("BYE", &uri, &bob.via(&fresh("bye")), "c1")
            .replace("To: <sip:bob@127.0.0.1>", "To: <sip:alice@127.0.0.1>;tag=a1")
            .replace("Max-Forwards", &format!("{routes}Max-Forwards"));
        bob.send(outer, sent);
        let (came, from) = alice.receive_from();
        assert_eq!(from, inner, "{came:?}");
        assert!(came.all("Route").is_empty(), "{came:?}");
        assert!(came.all("Via")[0].starts_with(&format!("SIP/2.0/UDP {inner};")), "{came:?}");
        alice.send(inner, reply(&came, "200 OK", ""));
        assert_eq!(bob.receive().status(), 200);
    }
}

#[test]
fn case_s11_one_socket_for_both_legs_records_one_route() {
    let (alice, bob) = (Udp::new(), Udp::new());
    let (_proxy, outer, _) = multi_homed(&bob);
    alice.send(outer, request("INVITE", &format!("sip:bob@{outer}"), &alice.via("i1"), "c1"));
    let invite = bob.receive();
    assert_eq!(invite.all("Record-Route"), [format!("<sip:{outer};lr>")]);
    bob.send(outer, reply(&invite, "200 OK", ""));
    assert_eq!(alice.receive().all("Record-Route"), invite.all("Record-Route"));
    let sent = request("BYE", &format!("sip:bob@{}", bob.at()), &alice.via("b1"), "c1")
        .replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb")
        .replace("Max-Forwards", &format!("Route: <sip:{outer};lr>\r\nMax-Forwards"));
    alice.send(outer, sent);
    let (bye, from) = bob.receive_from();
    assert_eq!((bye.all("Route").len(), from), (0, outer));
    bob.send(outer, reply(&bye, "200 OK", ""));
    assert_eq!(alice.receive().status(), 200);
}

const SIX: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[test]
fn case_s23_ipv6_in_via_record_route_and_received() {
    let (alice, bob) = (Udp::on(SIX), Udp::on(SIX));
    let lua = "KSR.rr.record_route()\nKSR.setdsturi(BOB)\nSEND()";
    let proxy = Setup::on("\"udp:[::1]:0\"").script(&plan(bob.at(), lua));
    let (at, port) = (proxy.udp(), alice.at().port());
    let via = |sent_by: &str| format!("SIP/2.0/UDP {sent_by}");
    let cases = [
        (
            "[2001:db8:8131:ffdf:4398:8903:f613:58b6];branch=z9hG4bK6a".to_owned(),
            "[2001:db8:8131:ffdf:4398:8903:f613:58b6];received=::1;branch=z9hG4bK6a".to_owned(),
        ),
        (
            format!("[::1]:{port};rport;branch=z9hG4bK6b"),
            format!("[::1]:{port};received=::1;rport={port};branch=z9hG4bK6b"),
        ),
        (format!("[::1]:{port};branch=z9hG4bK6d"), format!("[::1]:{port};branch=z9hG4bK6d")),
        (
            format!("[0:0:0:0:0:0:0:1]:{port};branch=z9hG4bK6e"),
            format!("[0:0:0:0:0:0:0:1]:{port};"),
        ),
        (
            format!("[::1]:{port};received=[::9];branch=z9hG4bK6f"),
            format!("[::1]:{port};received=::1;branch=z9hG4bK6f"),
        ),
        (
            format!("[2001:DB8::1]:{port};branch=z9hG4bK6g;rport;received=::2"),
            format!("[2001:DB8::1]:{port};branch=z9hG4bK6g;rport={port};received=::1"),
        ),
        (
            format!("192.0.2.1:{port};branch=z9hG4bK6h"),
            format!("192.0.2.1:{port};received=::1;branch=z9hG4bK6h"),
        ),
    ];
    for (sent, wanted) in cases {
        alice.send(at, request("OPTIONS", "sip:bob@x", &via(&sent), "c1"));
        let came = bob.receive();
        let lines = came.lines();
        assert_eq!(lines[1], format!("Record-Route: <sip:{at};lr>"));
        assert!(lines[2].starts_with(&format!("Via: SIP/2.0/UDP {at};branch=z9hG4bK")), "{came:?}");
        assert!(lines[3].starts_with(&format!("Via: {}", via(&wanted))), "{wanted}: {came:?}");
        if !sent.starts_with("[2001:db8:8131") {
            // To ::1, and the port that the Via or the source has.
            bob.send(at, reply(&came, "200 OK", ""));
            assert_eq!(alice.receive().status(), 200, "{sent}");
        }
    }
    // A zone: refused or taken, whatever; a good one behind it passes.
    for zone in [
        "[fe80::1%25lo]:15060",
        "[fe80::1%lo]",
        "[::1%25]",
        "[",
        "[]",
        "[::1",
        "[::g]:1",
        "[1:2:3:4:5:6:7:8:9]",
    ] {
        alice.send(
            at,
            request("OPTIONS", "sip:bob@x", &via(&format!("{zone};branch=z9hG4bK6c;rport")), "c1"),
        );
        proxy.served_behind(&alice, &bob);
    }
    // A reply whose way back has brackets in received, and one without.
    for received in ["[::1]", "::1", "0:0::1"] {
        let text = format!(
            "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bKp\r\nVia: SIP/2.0/UDP \
             [2001:db8::5]:{port};received={received};branch=z9hG4bKc1\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@d>;tag=2\r\nCall-ID: c1\r\nCSeq: 1 OPTIONS\r\n\r\n"
        );
        bob.send(at, &text);
        assert_eq!(alice.receive().0, Sip(text.into_bytes()).without_line(1));
    }
    // The route comes back and is known as own, however it is written.
    let lua = "KSR.hdr.append(\"X-Own: \" .. KSR.rr.loose_route() .. \"\\r\\n\")\nKSR.setdsturi(BOB)\nSEND()";
    let proxy = Setup::on("\"udp:[::1]:0\"").script(&plan(bob.at(), lua));
    for host in ["[::1]", "[0:0:0:0:0:0:0:1]", "[0::0001]"] {
        let route = format!("Route: <sip:{host}:{};lr>\r\nMax-Forwards", proxy.udp().port());
        let sent = request("BYE", "sip:bob@x", &alice.via(&fresh("c")), "c1")
            .replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb")
            .replace("Max-Forwards", &route);
        alice.send(proxy.udp(), sent);
        let came = bob.receive();
        assert_eq!((came.all("Route").len(), came.one("X-Own").as_str()), (0, "1"), "{host}");
    }
}

#[test]
fn case_s23_an_advertised_address_keeps_its_brackets() {
    let (alice, bob) = (Udp::on(SIX), Udp::on(SIX));
    let setup = Setup {
        listener: ", advertise = \"[2001:db8::9]:5070\"".to_owned(),
        ..Setup::on("\"udp:[::1]:0\"")
    };
    let lua = "KSR.rr.record_route()\nKSR.setdsturi(BOB)\nSEND()";
    let proxy = setup.script(&plan(bob.at(), lua));
    alice.send(proxy.udp(), request("OPTIONS", "sip:bob@x", &alice.via("c1"), "c1"));
    let came = bob.receive();
    assert_eq!(came.one("Record-Route"), "<sip:[2001:db8::9]:5070;lr>");
    assert!(came.all("Via")[0].starts_with("SIP/2.0/UDP [2001:db8::9]:5070;branch="), "{came:?}");
}

/// What becomes of one Max-Forwards line; `None` for the headers of a request without it.
#[track_caller]
fn hops(scene: &Scene, line: &str) -> Result<String, u16> {
    let sent = scene.direct("OPTIONS", &fresh("c")).replace("Max-Forwards: 70\r\n", line);
    scene.send(sent);
    let (mut at_bob, mut at_alice) = scene.proxy.served_behind(&scene.alice, &scene.bob);
    match (at_bob.pop(), at_alice.pop()) {
        (Some(came), None) => {
            let lines = came.lines();
            let named = lines.iter().find(|line| line.starts_with("Max-Forwards"));
            let line = named.unwrap_or_else(|| panic!("none: {came:?}"));
            Ok(line.split_once(':').expect("a name").1.to_owned())
        }
        (None, Some(answer)) => Err(answer.status()),
        both => panic!("{line:?}: {both:?}"),
    }
}

#[test]
fn case_s24_max_forwards() {
    let lua = "if KSR.maxfwd.process_maxfwd(70) < 0 then
        KSR.sl.sl_send_reply(483, \"Too Many Hops\")
        return
    end
    SEND()";
    let scene = Scene::with(Setup::one_worker(), lua);
    let built_in = {
        let proxy = Setup::one_worker().built_in();
        Scene { proxy, alice: Udp::new(), bob: Udp::new() }
    };
    for scene in [scene, built_in] {
        let passes = [
            ("Max-Forwards: 70", "69"),
            ("Max-Forwards: 1", "0"),
            ("Max-Forwards: 100", "70"),
            ("Max-Forwards: 010", "9"),
            ("Max-Forwards: 256", "70"),
            ("Max-Forwards :  9  ", "8"),
            ("max-forwards:71", "70"),
            ("Max-Forwards: 4294967296", "70"),
            ("Max-Forwards:\r\n 12", "11"),
        ];
        for (line, wanted) in passes {
            if let Some(rest) = line.strip_prefix("max-forwards:") {
                // A name of another case is the same header.
                let sent = scene
                    .direct("OPTIONS", &fresh("c"))
                    .replace("Max-Forwards: 70", &format!("max-forwards:{rest}"));
                assert_eq!(scene.pass(sent).one("max-forwards"), wanted);
                continue;
            }
            let line = format!("{line}\r\n");
            if line.contains("\r\n ") {
                let sent =
                    scene.direct("OPTIONS", &fresh("c")).replace("Max-Forwards: 70\r\n", &line);
                assert!(
                    scene.pass(sent).text().contains(&format!("Max-Forwards:\r\n {wanted}\r\n"))
                );
                continue;
            }
            let value = hops(&scene, &line).unwrap_or_else(|code| panic!("{line:?}: {code}"));
            assert_eq!(value.trim(), wanted, "{line:?}");
            assert!(value.bytes().all(|byte| byte.is_ascii_digit() || byte == b' '), "{value:?}");
        }
        for line in ["0", "00", "-1", "abc", "1x", "", "99999999999999999999999x"] {
            assert_eq!(hops(&scene, &format!("Max-Forwards: {line}\r\n")), Err(483), "{line:?}");
        }
        assert_eq!(hops(&scene, "").as_deref().map(str::trim), Ok("70"), "added with the default");
        let two = "Max-Forwards: 5\r\nMax-Forwards: 9\r\n";
        let first = hops(&scene, two);
        assert!(first == Err(400) || first.as_deref().map(str::trim) == Ok("4"), "{first:?}");
        for _ in 0..5 {
            assert_eq!(hops(&scene, two), first, "the same every time");
        }
    }
}

#[test]
fn case_s24_options_for_the_proxy_itself_at_0() {
    let scene = Scene::built_in();
    let options = scene.request("OPTIONS", "c1").replace("sip:bob@", "sip:");
    let answer =
        |value: &str| scene.ask(options.replace("ds: 70", &format!("ds: {value}"))).status();
    assert_eq!((answer("0"), answer("1"), answer("70")), (483, 200, 200));
}

fn folded(uri: &str, port: u16) -> String {
    format!(
        "INVITE {uri} SIP/2.0\r\nv: SIP/2.0/UDP 127.0.0.1:{port}\r\n ;branch=z9hG4bKf1\r\n\
         Max-Forwards: 70\r\nf: <sip:alice@127.0.0.1>\r\n\t;tag=a1\r\nt: <sip:bob@127.0.0.1>\r\n\
         i: f1@127.0.0.1\r\nCSeq: 1\r\n  INVITE\r\nm: <sip:alice@127.0.0.1:15060>\r\n\
         Subject: one\r\n two\r\nl: 0\r\n\r\n"
    )
}

#[test]
fn case_s27_folded_and_compact_headers() {
    let seen = "KSR.hdr.append(\"X-Seen: \" .. KSR.pv.gete(\"$ft\") .. \"|\" .. KSR.pv.gete(\"$hdr(Subject)\")
        .. \"|\" .. KSR.pv.gete(\"$rm\") .. KSR.pv.gete(\"$cs\") .. \"\\r\\n\")\n";
    let scene = Scene::new(&format!("{seen}SEND()"));
    let built_in = Scene::built_in();
    for (scene, sees) in [(&scene, true), (&built_in, false)] {
        let sent = folded(&format!("sip:bob@{}", scene.bob.at()), scene.alice.at().port());
        // Lines of blanks within folded headers do not end them.
        for sent in [
            sent.clone(),
            sent.replace(" ;branch", " \r\n ;branch"),
            sent.replace("Subject: one\r\n two", "Subject: one\r\n \r\n\t\r\n two"),
            sent.replace("CSeq: 1\r\n  INVITE", "CSeq:\r\n 1\r\n \t\r\n INVITE"),
            sent.replace("t: <sip:bob", "t:\r\n  <sip:bob"),
            sent.replace("\r\n", "\n"),
        ] {
            // A call of its own.
            let sent = sent.replace("bKf1", &format!("bK{}", fresh("f1")));
            let came = scene.pass(&sent);
            let text = came.text();
            assert!(text.contains("z9hG4bKf1") && text.contains("tag=a1"), "{came:?}");
            if sees {
                let seen = came.one("X-Seen");
                let parts: Vec<_> = seen.split('|').collect();
                assert_eq!((parts[0], parts[2]), ("a1", "INVITE1"), "{came:?}");
                let subject: Vec<_> = parts[1].split_whitespace().collect();
                assert_eq!(subject, ["one", "two"], "{came:?}");
            }
            let subject = text.find("Subject: one").unwrap_or_else(|| panic!("{came:?}"));
            let two = text.find("two").unwrap_or_else(|| panic!("{came:?}"));
            assert!(subject < two);
            // Replies are matched by the caller: the Via is whole.
            let back = scene.answer(&came, "200 OK");
            let own = "z9hG4bKf1";
            assert!(
                back.text().contains(own) && back.text().matches("branch=").count() == 1,
                "{back:?}"
            );
        }
    }
}

/// A whole INVITE to Bob's own address, as S-28 changes it.
pub(crate) fn shapes(scene: &Scene) -> Vec<(&'static str, Vec<u8>)> {
    let base = scene.direct("INVITE", "c1");
    let via = format!("Via: {}\r\n", scene.alice.via("c1"));
    let to = "To: <sip:bob@127.0.0.1>\r\n";
    let multipart = |boundary: &str, body: &str| {
        let typed = format!("Content-Type: multipart/mixed{boundary}\r\nContent-Length");
        with_body(&base, body).replace("Content-Length", &typed)
    };
    let long = "x".repeat(1024);
    let port = scene.alice.at().port();
    let many = format!(
        "Via: SIP/2.0/UDP 127.0.0.1:{port};branch=z9hG4bKc1{}\r\n",
        ", SIP/2.0/UDP a".repeat(4200)
    );
    let shapes: Vec<(&str, String)> = vec![
        ("a", base.replace(to, &format!("{to}To: <sip:b@127.0.0.1>;tag=\r\n"))),
        ("b", base.replace(&via, "Via: SIP/2.0/UDP\r\n")),
        ("c", base.replace(&via, "Via: SIP/2.0/UDP :;branch=\r\n")),
        ("d", base.replace("\r\n", "")),
        ("e", base.replace("\r\n", "\n")),
        ("f", multipart("", &long)),
        ("g", multipart(";boundary=b", &format!("--b\r\n\r\n{long}\r\n--b"))),
        ("g quoted", multipart(";boundary=\"b", &format!("--b\r\n\r\n{long}"))),
        ("h", base.replace("CSeq: 1 INVITE\r\n", "")),
        ("i", base.replace("CSeq: 1 ", "CSeq: 4294967296 ")),
        ("j", base.replace("CSeq: 1 INVITE", "CSeq: 1 BYE")),
        ("k", base.replace("From: <sip:alice@127.0.0.1>", "From: <sip:alice@127.0.0.1")),
        ("l", base.replace("INVITE sip:bob@", "INVITE sip:b\0b@")),
        ("l From", base.replace("<sip:alice@127.0.0.1>;", "<sip:al\0ice@127.0.0.1>;")),
        ("m", base.replace(&via, &many)),
        ("n", base.replace("Contact", &format!("X-Long: {}\r\nContact", "y".repeat(60 << 10)))),
    ];
    // Each is a call of its own.
    let own = |text: String| text.replacen("bKc1", &format!("bK{}", fresh("c1")), 1).into_bytes();
    shapes.into_iter().map(|(name, text)| (name, own(text))).collect()
}

#[test]
fn case_s28_header_shapes_that_crashed_parsers() {
    let nobody = Udp::new();
    let scripted = Setup::one_worker().script(&plan(nobody.at(), "SEND()"));
    let built_in = Setup::one_worker().built_in();
    for (proxy, sane) in [(scripted, false), (built_in, true)] {
        let scene = Scene { proxy, alice: Udp::new(), bob: Udp::new() };
        for (name, sent) in shapes(&scene) {
            scene.send(&sent);
            let (at_bob, at_alice) = scene.proxy.served_behind(&scene.alice, &scene.bob);
            let outcome = match (&at_bob[..], &at_alice[..]) {
                ([], []) => "dropped".to_owned(),
                ([_], []) => "forwarded".to_owned(),
                ([], [answer]) => answer.status().to_string(),
                other => panic!("({name}): {other:?}"),
            };
            // Without a sound Via, From, To, Call-ID and CSeq there is nobody to answer.
            let allowed: &[&str] = match name {
                "b" | "c" | "d" | "h" | "k" => &["dropped"],
                "i" | "j" | "l" if sane => &["400"],
                "l From" if sane => &["400", "dropped"],
                "a" if sane => &["400", "forwarded"],
                "e" | "f" | "g" | "g quoted" => &["forwarded"],
                "m" | "n" => &["forwarded", "400", "413", "513", "dropped"],
                // What t_relay says of a URI that it can not read.
                "l" if crate::STATEFUL => &["479", "400", "dropped"],
                _ => &["forwarded", "400", "dropped"],
            };
            assert!(allowed.contains(&outcome.as_str()), "({name}) {outcome}, built-in: {sane}");
        }
        assert!(!scene.proxy.service.log.whole().contains("panic"));
    }
}

#[test]
fn case_s28_the_same_over_tcp() {
    let proxy = Setup::one_worker().built_in();
    let scene = Scene { proxy, alice: Udp::new(), bob: Udp::new() };
    let over = "Via: SIP/2.0/UDP 127.0.0.1:15060;branch=z9hG4bKc1\r\n".repeat(10_000);
    let many = scene.direct("INVITE", "c1").replace("Max-Forwards", &format!("{over}Max-Forwards"));
    let mut shapes = shapes(&scene);
    shapes.push(("m, 10,000 lines", many.into_bytes()));
    for (name, sent) in shapes {
        let mut line = Tcp::connect(scene.proxy.tcp());
        // It may be closed before all was taken.
        let _ = std::io::Write::write_all(&mut line.stream, &sent);
        let mut other = Tcp::connect(scene.proxy.tcp());
        let uri = format!("sip:{}", scene.proxy.udp());
        other.send(request("OPTIONS", &uri, &other.via("c1"), "c1"));
        assert_eq!(other.receive().status(), 200, "({name})");
        if name == "m, 10,000 lines" {
            // No end of its headers within the limit: there is nothing to answer.
            line.ended();
        }
    }
    assert!(!scene.proxy.service.log.whole().contains("panic"));
}

#[test]
fn case_s30_rport_and_received() {
    for (scene, built_in) in
        [(Scene::new(TO_BOB), false), (Scene::new(PAST_TO_BOB), false), (Scene::built_in(), true)]
    {
        let other = Udp::new();
        let (port, second) = (scene.alice.at().port(), other.at().port());
        let at = scene.alice.at().to_string();
        let base =
            if built_in { scene.direct("INVITE", "c1") } else { scene.request("INVITE", "c1") };
        // What the sent-by is, what it becomes, and whether the reply goes to where it came from.
        let cases = [
            (
                format!("10.99.99.99:{second}"),
                format!("10.99.99.99:{second};received=127.0.0.1;branch"),
                false,
            ),
            (
                format!("10.99.99.99:{second};rport"),
                format!("10.99.99.99:{second};received=127.0.0.1;rport={port};branch"),
                true,
            ),
            (format!("127.0.0.1:{second}"), format!("127.0.0.1:{second};branch"), false),
            (
                format!("10.99.99.99:{second};rport=1"),
                format!("10.99.99.99:{second};received=127.0.0.1;rport={port};branch"),
                true,
            ),
            (
                format!("10.99.99.99:{second};received=6.6.6.6"),
                format!("10.99.99.99:{second};received=127.0.0.1;branch"),
                false,
            ),
            (
                format!("127.0.0.1:{second};received=6.6.6.6"),
                format!("127.0.0.1:{second};received=127.0.0.1;branch"),
                false,
            ),
        ];
        for (sent_by, wanted, to_source) in cases {
            // A call of its own.
            let base = base.replace("bKc1", &format!("bK{}", fresh("c1")));
            let came = scene.pass(base.replace(&at, &sent_by));
            let via = &came.all("Via")[1];
            assert!(via.starts_with(&format!("SIP/2.0/UDP {wanted}=z9hG4bKc1")), "{via}");
            scene.bob.send(scene.proxy.udp(), reply(&came, "200 OK", ""));
            let back = if to_source { scene.alice.receive() } else { other.receive() };
            assert_eq!(back.one("Via"), *via, "it goes back as it was sent on");
            assert_eq!(parameter(via, "rport").is_some(), to_source, "{via}");
            scene.proxy.nothing_waits(&scene);
        }
    }
}

impl Proxy {
    /// Nothing else waits at Alice's.
    #[track_caller]
    fn nothing_waits(&self, scene: &Scene) {
        let (at_bob, at_alice) = self.served_behind(&scene.alice, &scene.bob);
        assert_eq!((at_bob, at_alice), (vec![], vec![]));
    }
}
