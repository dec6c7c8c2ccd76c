//! Rules 1 to 24, 99 and 100: what becomes of a request.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::common::dns::name_server;
use crate::kit::{PAST_TO_BOB, Scene, Setup, TO_BOB, fresh, plan};
use crate::raw::{TcpPhone, Udp, parameter, reply, request, with_body};

/// Lowers Max-Forwards, or answers 483.
const HOPS: &str = "if KSR.maxfwd.process_maxfwd(70) < 0 then
    KSR.sl.sl_send_reply(483, \"Too Many Hops\")
    return
end
KSR.seturi(BOB)
SEND()";

#[test]
fn sip_r001_the_own_via_is_the_topmost_line() {
    let scene = Scene::new(TO_BOB);
    let sent = scene.request("INVITE", "c1");
    let came = scene.pass(&sent);
    let lines = came.lines();
    assert!(lines[1].starts_with(&scene.own_via()), "{came:?}");
    let own: Vec<_> = sent.trim_end().split("\r\n").collect();
    assert_eq!(lines[2..], own[1..], "{came:?}");
}

#[test]
fn sip_r001_the_own_via_has_transport_and_address_of_the_next_hop_s_socket() {
    let bob = TcpPhone::new();
    let lua = format!("KSR.setdsturi(\"sip:{};transport=tcp\")\nSEND()", bob.at());
    let scene = Scene::new(&lua);
    scene.send(scene.request("OPTIONS", "c1"));
    let came = bob.accept().receive();
    let own = format!("Via: SIP/2.0/TCP {};branch=z9hG4bK", scene.proxy.tcp());
    assert!(came.lines()[1].starts_with(&own), "{came:?}");
    // Something else than how it came.
    assert_eq!(came.lines()[2], format!("Via: {}", scene.alice.via("c1")));
}

#[test]
fn sip_r001_port_5060_is_left_out_of_the_own_via() {
    // An address of this machine that nobody else takes.
    let [.., a, b] = std::process::id().to_be_bytes();
    let ip = Ipv4Addr::new(127, 60, a, b.clamp(1, 254));
    let setup = Setup::on(&format!("\"udp:{ip}:5060\""));
    let scene = Scene::with(setup, "KSR.rr.record_route()\nKSR.setdsturi(BOB)\nSEND()");
    let bob = Udp::on(IpAddr::V4(ip));
    bob.send(scene.proxy.udp(), request("OPTIONS", "sip:x@y", &bob.via("c1"), "c1"));
    let (came, from) = scene.bob.receive_from();
    assert_eq!(came.lines()[1], format!("Record-Route: <sip:{ip};lr>"));
    assert!(came.lines()[2].starts_with(&format!("Via: SIP/2.0/UDP {ip};branch=")), "{came:?}");
    assert_eq!(from, (ip, 5060).into());
}

#[test]
fn sip_r001_the_advertised_name_stands_in_the_own_via() {
    for (advertise, host) in [("sip.example.com", None), ("sip.example.com:5099", Some(5099))] {
        let listener = format!(", advertise = \"{advertise}\"");
        let scene = Scene::with(Setup { listener, ..Setup::default() }, TO_BOB);
        let came = scene.pass(scene.request("OPTIONS", "c1"));
        let port = host.unwrap_or(scene.proxy.udp().port());
        let own = format!("Via: SIP/2.0/UDP sip.example.com:{port};branch=z9hG4bK");
        assert!(came.lines()[1].starts_with(&own), "{came:?}");
    }
}

#[test]
fn sip_r003_the_branch_is_cookie_hash_md5_and_index() {
    let scene = Scene::new(TO_BOB);
    for call in ["c1", "c2", "another@host.example", "x", "%&(*)"] {
        for method in ["INVITE", "BYE", "OPTIONS"] {
            let branch = scene.pass(scene.request(method, call)).branch();
            let parts: Vec<_> =
                branch.strip_prefix("z9hG4bK").expect("a cookie").split('.').collect();
            let [hash, md5, index] = parts[..] else { panic!("{branch}") };
            let is_hex = |text: &str| {
                text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
                    && !text.is_empty()
            };
            assert!(is_hex(hash) && hash.len() <= 4, "{branch}");
            assert!(is_hex(md5) && md5.len() == 32, "{branch}");
            assert_eq!(index, "0", "{branch}");
        }
    }
}

#[test]
fn sip_r004_received_vias_stay_in_order() {
    let scene = Scene::new(TO_BOB);
    let more = "Via: SIP/2.0/TCP 192.0.2.7;branch=z9hG4bKx;received=192.0.2.8, SIP/2.0/UDP b.example\r\n\
                vIA:SIP/2.0/SCTP c.example:9;x=\"a,b\" ;branch=7\r\n";
    let sent =
        scene.request("INVITE", "c1").replace("Max-Forwards", &format!("{more}Max-Forwards"));
    let came = scene.pass(&sent);
    let own = came.without_line(1);
    assert_eq!(
        String::from_utf8_lossy(&own).split_once("\r\n").unwrap().1,
        sent.split_once("\r\n").unwrap().1
    );
}

#[test]
fn sip_r005_received_is_added_where_the_sent_by_is_not_the_source() {
    let scene = Scene::new(TO_BOB);
    for host in ["10.99.99.99:5078", "phone.example", "127.0.0.2:5060", "localhost:15060", "[::1]"]
    {
        let sent = scene.request("INVITE", "c1").replace(&scene.alice.at().to_string(), host);
        let came = scene.pass(&sent);
        let via = format!("Via: SIP/2.0/UDP {host};received=127.0.0.1;branch=z9hG4bKc1");
        assert_eq!(came.lines()[2], via);
    }
}

#[test]
fn sip_r006_a_via_that_is_right_and_asks_for_nothing_is_untouched() {
    let scene = Scene::new(TO_BOB);
    let at = scene.alice.at();
    let shapes = [
        format!("Via: SIP/2.0/UDP {at};branch=z9hG4bKc1"),
        format!("VIA :  sip/2.0/udp   {at} ; branch = z9hG4bKc1 ;maddr=127.0.0.1;x"),
        format!("v: SIP / 2.0 / UDP {at};branch=z9hG4bKc1;ttl=3"),
        "Via: SIP/2.0/UDP 127.0.0.1:1;branch=z9hG4bKc1".to_owned(),
        "Via: SIP/2.0/UDP 127.0.0.1;branch=z9hG4bKc1".to_owned(),
    ];
    for shape in shapes {
        let line = format!("Via: {}", scene.alice.via("c1"));
        let shape = shape.replace("bKc1", &format!("bK{}", fresh("c1")));
        let came = scene.pass(scene.request("INVITE", "c1").replace(&line, &shape));
        assert_eq!(came.lines()[2], shape);
    }
}

#[test]
fn sip_r007_rport_is_filled_where_it_was_asked() {
    let scene = Scene::new(TO_BOB);
    let port = scene.alice.at().port();
    let line = format!("Via: {}", scene.alice.via("c1"));
    let cases = [
        (
            format!("127.0.0.1:{port};rport;branch=z9hG4bKc1"),
            format!("127.0.0.1:{port};received=127.0.0.1;rport={port};branch=z9hG4bKc1"),
        ),
        (
            format!("127.0.0.1:{port};branch=z9hG4bKc1;rport"),
            format!("127.0.0.1:{port};received=127.0.0.1;branch=z9hG4bKc1;rport={port}"),
        ),
        (
            "host:1;branch=z9hG4bKc1;rport=77;x=1".to_owned(),
            format!("host:1;received=127.0.0.1;branch=z9hG4bKc1;rport={port};x=1"),
        ),
        (
            "10.0.0.1;branch=z9hG4bKc1;RPORT".to_owned(),
            format!("10.0.0.1;received=127.0.0.1;branch=z9hG4bKc1;rport={port}"),
        ),
    ];
    for (sent, wanted) in cases {
        let own = format!("bK{}", fresh("c1"));
        let shape = format!("Via: SIP/2.0/UDP {}", sent.replace("bKc1", &own));
        let came = scene.pass(scene.request("INVITE", "c1").replace(&line, &shape));
        let wanted = wanted.replace("bKc1", &own);
        assert_eq!(came.lines()[2], format!("Via: SIP/2.0/UDP {wanted}"));
    }
}

#[test]
fn sip_r007_force_rport_fills_it_unasked() {
    let scene = Scene::new(&format!("KSR.force_rport()\n{TO_BOB}"));
    let came = scene.pass(scene.request("INVITE", "c1"));
    let port = scene.alice.at().port();
    let via = came.lines()[2].clone();
    assert_eq!(parameter(&via, "rport"), Some(port.to_string()), "{via}");
    assert_eq!(parameter(&via, "branch").as_deref(), Some("z9hG4bKc1"), "{via}");
}

#[test]
fn sip_r008_replies_go_to_the_source_port_if_rport_was_asked() {
    let scene = Scene::new(TO_BOB);
    let at = scene.alice.at().to_string();
    for sent_by in
        ["10.99.99.99:5078;rport", "127.0.0.1:9;rport", "a.example;rport", "127.0.0.1;rport=1"]
    {
        let came = scene.pass(scene.request("INVITE", "c1").replace(&at, sent_by));
        assert_eq!(scene.answer(&came, "180 Ringing").status(), 180, "{sent_by}");
    }
}

#[test]
fn sip_r009_else_to_the_source_ip_and_the_via_s_port() {
    let scene = Scene::new(TO_BOB);
    let other = Udp::new();
    let (from, port) = (scene.alice.at().to_string(), other.at().port());
    for sent_by in
        [format!("10.99.99.99:{port}"), format!("127.0.0.1:{port}"), format!("a.example:{port}")]
    {
        let came = scene.pass(scene.request("INVITE", "c1").replace(&from, &sent_by));
        scene.bob.send(scene.proxy.udp(), reply(&came, "200 OK", ""));
        assert_eq!(other.receive().status(), 200, "{sent_by}");
    }
    scene.proxy.answers_first(&scene.alice, "c1");
}

#[test]
fn sip_r010_max_forwards_is_lowered_by_one() {
    let scene = Scene::new(HOPS);
    for (value, lowered) in [("70", "69"), ("69", "68"), ("31", "30"), ("2", "1")] {
        let call = fresh("c");
        let sent = scene.request("INVITE", &call).replace("ds: 70", &format!("ds: {value}"));
        assert_eq!(scene.pass(&sent).one("Max-Forwards"), lowered);
    }
}

#[test]
fn sip_r011_a_missing_max_forwards_is_added_as_70() {
    let scene = Scene::new(HOPS);
    for method in ["INVITE", "OPTIONS", "REGISTER"] {
        let sent = scene.request(method, "c1").replace("Max-Forwards: 70\r\n", "");
        let came = scene.pass(&sent);
        assert_eq!(came.one("Max-Forwards"), "70");
        assert_eq!(came.lines()[1], "Max-Forwards: 70", "the first of all headers: {came:?}");
    }
}

#[test]
fn sip_r012_max_forwards_0_is_483_with_a_to_tag_and_nothing_is_forwarded() {
    let scene = Scene::new(HOPS);
    for (n, value) in ["0", "00", " 0 "].into_iter().enumerate() {
        let call = format!("c{n}");
        let sent = scene.request("INVITE", &call).replace("ds: 70", &format!("ds: {value}"));
        let refused = scene.ask(&sent);
        assert_eq!(refused.first(), "SIP/2.0 483 Too Many Hops");
        assert!(refused.to_tag().is_some_and(|tag| !tag.is_empty()), "{refused:?}");
        scene.proxy.sends_first(&scene.alice, &scene.bob, &call);
    }
}

#[test]
fn sip_r013_max_forwards_1_is_forwarded_as_0() {
    let scene = Scene::new(HOPS);
    let came = scene.pass(scene.request("INVITE", "c1").replace("ds: 70", "ds: 1"));
    assert_eq!(came.one("Max-Forwards"), "0");
}

#[test]
fn sip_r014_the_width_of_max_forwards_is_kept_with_leading_spaces() {
    let scene = Scene::new(HOPS);
    for (value, line) in [
        ("10", "Max-Forwards:  9"),
        ("010", "Max-Forwards:   9"),
        ("0070", "Max-Forwards:   69"),
        ("100", "Max-Forwards:  70"),
        ("000000001", "Max-Forwards:         0"),
    ] {
        let call = fresh("c");
        let sent = scene.request("INVITE", &call).replace("ds: 70", &format!("ds: {value}"));
        let came = scene.pass(&sent);
        assert!(came.lines().contains(&line.to_owned()), "{value}: {came:?}");
    }
}

#[test]
fn sip_r015_every_byte_that_is_not_edited_stays() {
    let scene = Scene::new(PAST_TO_BOB);
    let mut sent = format!(
        "MESSAGE sip:bob@{} SIP/2.0\r\n\
         X-First:no space\r\n\
         sUBJECT:   one\r\n\t two \r\n   three\t\r\n\
         Via: {}\r\n\
         fROM :\"A. \\\"Q\\\" Lé\"<sip:alice@127.0.0.1>;tag=a1;x=\"<>;,\"\r\n\
         TO\t: sip:bob@127.0.0.1  \r\n\
         x-empty:\r\n\
         X-Empty: \r\n\
         Call-ID:c1\r\n\
         CSEQ: 000001   MESSAGE\r\n\
         Contact: <sip:a@b>, \"c\" <sip:d@e>;q=0.5\r\n\
         Contact: sip:f@g\r\n\
         Content-Type: application/octet-stream\r\n\
         Content-Length:   0015  \r\n\r\n",
        scene.proxy.udp(),
        scene.alice.via("c1"),
    )
    .into_bytes();
    // A value of other bytes than text, and a body of all kinds.
    sent.splice(sent.len() - 2..sent.len() - 2, *b"X-Bytes: \xff\xfe\x01 \x80\r\n");
    sent.extend(b"\0\x01\r\n\r\n\xff\n\rVia: x");
    let came = scene.pass(&sent);
    let at = came.lines().iter().position(|line| line.starts_with(&scene.own_via()));
    assert_eq!(at, Some(5), "in front of the Via that was on top: {came:?}");
    assert_eq!(came.without_line(5), sent, "{came:?}");
}

#[test]
fn sip_r016_the_request_uri_is_rewritten_and_to_is_not() {
    let scene = Scene::new(TO_BOB);
    let sent =
        scene.request("INVITE", "c1").replace("To: <sip:bob@127.0.0.1>", "To: \"B\" <sip:bob@x>");
    let came = scene.pass(&sent);
    assert_eq!(came.first(), format!("INVITE sip:bob@{} SIP/2.0", scene.bob.at()));
    assert_eq!(came.one("To"), "\"B\" <sip:bob@x>");
    let rest = |text: &str| text.split_once("\r\n").unwrap().1.to_owned();
    assert_eq!(rest(&String::from_utf8(came.without_line(1)).unwrap()), rest(&sent));
}

#[test]
fn sip_r017_unknown_methods_are_relayed_and_get_no_100() {
    let scene = Scene::new(TO_BOB);
    for method in ["FROBNICATE", "x-y.z", "invite", "A", "PING!%*_+`'~"] {
        let came = scene.pass(scene.request(method, "c1"));
        assert!(came.first().starts_with(&format!("{method} sip:bob@")), "{came:?}");
        assert_eq!(came.one("CSeq"), format!("1 {method}"));
        scene.bob.send(scene.proxy.udp(), reply(&came, "200 OK", ""));
        assert_eq!(scene.alice.hear().status(), 200, "{method}: the first that comes");
    }
}

#[test]
fn sip_r018_no_content_length_is_added_over_udp() {
    let scene = Scene::new(TO_BOB);
    for body in ["", "hello", "a\r\n\r\nb"] {
        let sent =
            scene.request("MESSAGE", &fresh("c")).replace("Content-Length: 0\r\n", "") + body;
        let came = scene.pass(&sent);
        assert!(!came.text().to_lowercase().contains("content-length"), "{came:?}");
        assert_eq!(came.body(), body.as_bytes());
    }
}

#[test]
fn sip_r019_compact_names_work_and_are_kept() {
    let scene = Scene::new(&format!(
        "KSR.hdr.append(\"X-Seen: \" .. KSR.pv.gete(\"$fU\") .. KSR.pv.gete(\"$tu\") .. \
         KSR.kx.get_callid() .. KSR.pv.gete(\"$ct\") .. KSR.pv.gete(\"$hdr(Subject)\") .. \"\\r\\n\")\n{TO_BOB}"
    ));
    let sent = format!(
        "MESSAGE sip:bob@{} SIP/2.0\r\nv: {}\r\nf: <sip:alice@x>;tag=a1\r\nt: <sip:bob@y>\r\n\
         i: f1@z\r\nCSeq: 1 MESSAGE\r\nm: <sip:a@b>\r\ns: hi\r\nk: path\r\nc: text/plain\r\nl: 2\r\n\r\nok",
        scene.proxy.udp(),
        scene.alice.via("c1"),
    );
    let came = scene.pass(&sent);
    let lines = came.lines();
    assert!(lines[1].starts_with(&scene.own_via()), "{came:?}");
    let kept: Vec<_> = sent.split("\r\n").skip(1).take(9).collect();
    assert_eq!(lines[2..11], kept);
    assert_eq!(came.one("X-Seen"), "alicesip:bob@yf1@z<sip:a@b>hi");
    assert_eq!(came.body(), b"ok");
    let ok = scene.answer(&came, "200 OK");
    assert_eq!(ok.all("v"), [scene.alice.via("c1")]);
    assert_eq!((ok.one("i"), ok.all("Via")), ("f1@z".to_owned(), vec![]));
}

#[test]
fn sip_r099_headers_are_appended_inserted_removed_and_substituted() {
    let scene = Scene::new(&format!(
        "KSR.hdr.append(\"X-End: 1\\r\\n\")
        KSR.hdr.append(\"X-End: 2\\r\\n\")
        KSR.hdr.insert(\"X-Top: 1\\r\\n\")
        KSR.hdr.append_after(\"X-Behind: 1\\r\\n\", \"Call-ID\")
        KSR.hdr.insert_before(\"X-Before: 1\\r\\n\", \"Call-ID\")
        KSR.hdr.remove(\"Contact\")
        KSR.textops.remove_hf_re(\"^X-Old\")
        KSR.textops.subst_hf(\"Subject\", \"/(w[a-z]+)/<\\\\1>/\", \"a\")
        KSR.textops.subst(\"/tag=a1/tag=a2/\")
        {PAST_TO_BOB}"
    ));
    let sent = scene.request("INVITE", "c1").replace(
        "Content-Length",
        "X-Old: 1\r\nSubject: hello world\r\nx-older: 2\r\nContact: <sip:second@b>\r\nContent-Length",
    );
    let came = scene.pass(&sent);
    let wanted = format!(
        "{}\r\nX-Top: 1\r\nVia: OWN\r\nVia: {}\r\nMax-Forwards: 70\r\nFrom: <sip:alice@127.0.0.1>;tag=a2\r\n\
         To: <sip:bob@127.0.0.1>\r\nX-Before: 1\r\nCall-ID: c1\r\nX-Behind: 1\r\nCSeq: 1 INVITE\r\n\
         Subject: hello <world>\r\nContent-Length: 0\r\nX-End: 1\r\nX-End: 2",
        sent.split_once("\r\n").unwrap().0,
        scene.alice.via("c1"),
    );
    let mut lines = came.lines();
    let own = lines.iter().position(|line| line.starts_with(&scene.own_via())).expect("a Via");
    lines[own] = "Via: OWN".to_owned();
    assert_eq!(lines, wanted.split("\r\n").collect::<Vec<_>>());
}

#[test]
fn sip_r100_an_edit_of_the_body_mends_content_length() {
    let edits = [
        ("KSR.textops.subst_body(\"/hello/good morning/\")", "good morning bob\r\n"),
        ("KSR.textops.replace_body(\"l+o\", \"y\")", "hey bob\r\n"),
        ("KSR.textops.subst_body(\"/.*bob//\")", "\r\n"),
        ("KSR.textops.set_body(\"0123456789abcdef\", \"text/x\")", "0123456789abcdef"),
    ];
    for (edit, body) in edits {
        let scene = Scene::new(&format!("{edit}\n{PAST_TO_BOB}"));
        for name in ["Content-Length", "l", "CONTENT-LENGTH "] {
            let sent = with_body(&scene.request("MESSAGE", &fresh("c")), "hello bob\r\n");
            let sent =
                sent.replace("Content-Length", &format!("Content-Type: text/plain\r\n{name}"));
            let came = scene.pass(&sent);
            assert_eq!(came.body(), body.as_bytes(), "{edit}: {came:?}");
            let lengths: Vec<_> = came
                .lines()
                .into_iter()
                .filter(|line| {
                    let name = line.split(':').next().unwrap_or_default().trim().to_lowercase();
                    name == "content-length" || name == "l"
                })
                .collect();
            assert_eq!(lengths.len(), 1, "{came:?}");
            let length = lengths[0].split_once(':').unwrap().1.trim();
            assert_eq!(length, body.len().to_string(), "{edit}: {came:?}");
        }
    }
}

#[test]
fn sip_s1_2_a_name_that_has_to_be_asked_for_is_resolved() {
    let bob = Udp::new();
    let dns = name_server(&[Ipv4Addr::LOCALHOST]);
    let tables = format!("[dns]\nservers = [\"{dns}\"]\n");
    let lua = plan(bob.at(), "if SEND() < 0 then KSR.sl.sl_reply_error() end");
    let proxy = Setup { tables, ..Setup::default() }.script(&lua);
    let alice = Udp::new();
    let uri = format!("sip:bob@phones.example:{}", bob.at().port());
    alice.send(proxy.udp(), request("OPTIONS", &uri, &alice.via("c1"), "c1"));
    let came = bob.receive();
    assert_eq!(came.first(), format!("OPTIONS {uri} SIP/2.0"));
    bob.send(proxy.udp(), reply(&came, "200 OK", ""));
    assert_eq!(alice.receive().status(), 200);
}
