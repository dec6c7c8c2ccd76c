//! S-17 to S-20: framing, lengths, keepalives.

use crate::kit::{Proxy, Scene, Setup, TO_BOB, fresh, plan};
use crate::raw::{Sip, Tcp, Udp, reply, request};

/// The MESSAGE of S-17.
fn message(from: &Tcp) -> String {
    format!(
        "MESSAGE sip:bob@127.0.0.1:5060 SIP/2.0\r\nVia: {}\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@127.0.0.1>;tag=a1\r\nTo: <sip:bob@127.0.0.1>\r\nCall-ID: m1@127.0.0.1\r\n\
         CSeq: 1 MESSAGE\r\nContent-Type: text/plain\r\nl: 5\r\n\r\nhello",
        from.via(&fresh("m")),
    )
}

fn options(from: &Tcp, call: &str) -> String {
    request(
        "OPTIONS",
        "sip:bob@127.0.0.1:5060",
        &from.via(&fresh(call)),
        &format!("{call}@127.0.0.1"),
    )
}

/// A proxy of one worker, so that messages of different calls keep their order.
fn ordered() -> Scene {
    Scene::with(Setup::one_worker(), TO_BOB)
}

/// What comes to Bob is these calls, in their order; he answers.
#[track_caller]
fn calls(scene: &Scene, phone: &mut Tcp, wanted: &[&str]) -> Vec<Sip> {
    let came: Vec<_> = wanted.iter().map(|_| scene.bob.receive()).collect();
    for (came, call) in came.iter().zip(wanted) {
        assert_eq!(came.one("Call-ID"), format!("{call}@127.0.0.1"));
        scene.bob.send(scene.proxy.udp(), reply(came, "200 OK", ""));
    }
    for call in wanted {
        assert_eq!(phone.receive().one("Call-ID"), format!("{call}@127.0.0.1"));
    }
    came
}

#[test]
fn case_s17_several_messages_in_one_segment() {
    let scene = ordered();
    let mut alice = Tcp::connect(scene.proxy.tcp());
    let third = options(&alice, "m3");
    let (begin, rest) = third.split_at(20);
    alice.send([&message(&alice), &options(&alice, "m2"), begin].concat());
    // The first two are answered while the third has not come.
    let came = calls(&scene, &mut alice, &["m1", "m2"]);
    assert_eq!(came[0].body(), b"hello");
    assert_eq!(came[0].one("l"), "5", "the compact name stays");
    assert_eq!(came[1].body(), b"");
    alice.send(rest);
    calls(&scene, &mut alice, &["m3"]);
}

#[test]
fn case_s17_many_messages_in_one_segment() {
    let scene = ordered();
    let mut alice = Tcp::connect(scene.proxy.tcp());
    let names: Vec<_> = (0..60).map(|n| format!("n{n}")).collect();
    let all: Vec<_> = names.iter().map(|name| options(&alice, name)).collect();
    alice.send(all.concat());
    calls(&scene, &mut alice, &names.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn case_s18_cut_anywhere() {
    let scene = ordered();
    let mut alice = Tcp::connect(scene.proxy.tcp());
    let first = |scene: &Scene, alice: &mut Tcp| {
        let came = calls(scene, alice, &["m1", "m2"]);
        assert_eq!((came[0].body(), came[1].body()), (&b"hello"[..], &b""[..]));
        // All but the Vias.
        came.iter().map(|came| came.lines()[3..].to_vec()).collect::<Vec<_>>()
    };
    let whole = message(&alice) + &options(&alice, "m2");
    alice.send(&whole);
    let wanted = first(&scene, &mut alice);
    // (a) One byte for each write.
    for byte in (message(&alice) + &options(&alice, "m2")).as_bytes() {
        alice.send([*byte]);
    }
    assert_eq!(first(&scene, &mut alice), wanted);
    // (b), (c) and every other place. The first part is read by itself, which the answer to a ping
    // in front of it shows.
    for at in 1..whole.len() {
        let one = message(&alice);
        let whole = [&*one, &options(&alice, "m2")].concat();
        alice.send(format!("\r\n\r\n{}", &whole[..at]));
        assert_eq!(alice.bytes(2), b"\r\n", "at {at}");
        if at < one.len() {
            alice.send(&whole[at..]);
            assert_eq!(first(&scene, &mut alice), wanted, "at {at}");
        } else {
            // The first is whole and goes on before the rest comes.
            calls(&scene, &mut alice, &["m1"]);
            alice.send(&whole[at..]);
            calls(&scene, &mut alice, &["m2"]);
        }
    }
}

#[test]
fn case_s18_line_ends_between_messages() {
    let scene = ordered();
    // (d), and its like.
    for between in ["\n\r\n", "\r\n", "\n", "\r\n\n", "\n\n\n"] {
        let mut alice = Tcp::connect(scene.proxy.tcp());
        alice.send([&message(&alice), between, &options(&alice, "m2")].concat());
        let came = [scene.bob.receive(), scene.bob.receive()];
        assert_eq!(came[0].body(), b"hello", "{between:?}");
        assert_eq!(came[1].one("Call-ID"), "m2@127.0.0.1", "{between:?}");
    }
}

#[test]
fn case_s18_a_body_that_looks_like_messages() {
    let scene = ordered();
    let mut alice = Tcp::connect(scene.proxy.tcp());
    // (e)
    let body = "a\r\n\r\nINVITE sip:x SIP/2.0\r\nVia: SIP/2.0/TCP x\r\n\r\n\r\n\r\n";
    let with =
        message(&alice).replace("l: 5\r\n\r\nhello", &format!("l: {}\r\n\r\n{body}", body.len()));
    alice.send(with + &options(&alice, "m2"));
    let came = calls(&scene, &mut alice, &["m1", "m2"]);
    assert_eq!(came[0].body(), body.as_bytes());
}

/// The lengths of S-19, in place of `l: 5`.
const LENGTHS: [&str; 9] = [
    "Content-Length: 2000000000\r\n",
    "Content-Length: 4294967301\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Content-Length: -1\r\n",
    "Content-Length: 5x\r\n",
    "Content-Length:\r\n",
    "Content-Length: 5\r\nContent-Length: 6\r\n",
    "Content-Length: 5\r\nContent-Length: 5\r\n",
    "",
];

/// What a request over UDP comes to.
enum Outcome {
    Refused,
    Passes,
}

#[track_caller]
fn over_udp(proxy: &Proxy, bob: &Udp, length: &str, outcome: Outcome) {
    let alice = Udp::new();
    let sent = request("MESSAGE", &format!("sip:bob@{}", bob.at()), &alice.via("m1"), "m1")
        .replace("Content-Length: 0\r\n", length)
        + "hello";
    alice.send(proxy.udp(), &sent);
    match outcome {
        Outcome::Refused => {
            let refused = alice.receive();
            assert_eq!(refused.status(), 400, "{length:?}: {refused:?}");
            assert!(refused.to_tag().is_some(), "{refused:?}");
        }
        Outcome::Passes => {
            let came = bob.receive();
            assert_eq!(came.body(), b"hello", "{length:?}: {came:?}");
            assert!(came.text().contains(length), "over UDP it stays: {came:?}");
        }
    }
    // And a good one.
    let good = request("INFO", &format!("sip:bob@{}", bob.at()), &alice.via("m2"), "m1");
    alice.send(proxy.udp(), good);
    assert!(bob.receive().first().starts_with("INFO"), "{length:?}");
}

#[test]
fn case_s19_lengths_of_datagrams() {
    let scene = Scene::new("SEND()");
    let built_in = Scene::built_in();
    let short = "Content-Length: 3\r\n";
    let long = "Content-Length: 9\r\n";
    for length in &LENGTHS[..5] {
        over_udp(&scene.proxy, &scene.bob, length, Outcome::Refused);
    }
    over_udp(&scene.proxy, &scene.bob, long, Outcome::Refused);
    over_udp(&scene.proxy, &scene.bob, short, Outcome::Passes);
    over_udp(&scene.proxy, &scene.bob, "", Outcome::Passes);
    for length in &LENGTHS[..7] {
        over_udp(&built_in.proxy, &built_in.bob, length, Outcome::Refused);
    }
    over_udp(&built_in.proxy, &built_in.bob, long, Outcome::Refused);
    over_udp(&built_in.proxy, &built_in.bob, short, Outcome::Refused);
    over_udp(&built_in.proxy, &built_in.bob, "", Outcome::Passes);
}

#[test]
fn case_s19_lengths_of_replies_in_datagrams() {
    let scene = Scene::with(Setup::one_worker(), TO_BOB);
    let came = scene.pass(scene.request("INVITE", "c1"));
    let whole = reply(&came, "200 OK", "");
    for length in ["2000000000", "4294967301", "99999999999999999999", "-1", "5x", "9"] {
        let wrong =
            whole.replace("Content-Length: 0", &format!("Content-Length: {length}")) + "hello";
        scene.bob.send(scene.proxy.udp(), wrong);
        assert_eq!(scene.back(&whole).one("Content-Length"), "0", "{length}");
        scene.proxy.answers_first(&scene.alice, "c1");
    }
    assert_eq!(scene.proxy.dropped("bad-length").to_bits(), 6.0_f64.to_bits());
}

#[test]
fn case_s19_lengths_on_a_stream() {
    for scene in [Scene::new(TO_BOB), Scene::built_in()] {
        let uri = format!("sip:bob@{}", scene.bob.at());
        for length in LENGTHS {
            let mut alice = Tcp::connect(scene.proxy.tcp());
            let wrong = message(&alice).replace("l: 5\r\n", length);
            let wrong = wrong.replace("sip:bob@127.0.0.1:5060", &uri);
            alice.send(&wrong);
            if length == LENGTHS[7] {
                // Twice the same: taken, or refused by a script that looks.
                let refused = scene.bob_or(&mut alice);
                assert!(refused.is_none_or(|refused| refused.status() == 400));
            } else {
                let refused = alice.receive();
                // One that is a number but far too large may be told as that.
                let is_large = LENGTHS[..3].contains(&length);
                let wanted: &[u16] = if is_large { &[400, 413, 513] } else { &[400] };
                assert!(wanted.contains(&refused.status()), "{length:?}: {refused:?}");
                alice.ended();
            }
            let mut next = Tcp::connect(scene.proxy.tcp());
            next.send(message(&next).replace("sip:bob@127.0.0.1:5060", &uri));
            let came = scene.bob.receive();
            assert_eq!(came.body(), b"hello", "{length:?}");
        }
    }
}

impl Scene {
    /// What comes first: the message at Bob, or its answer on the connection.
    #[track_caller]
    fn bob_or(&self, phone: &mut Tcp) -> Option<Sip> {
        let mut is_answered = false;
        crate::common::until("it is handled", || {
            is_answered = phone.has_some();
            is_answered || self.bob.has_some()
        });
        if is_answered {
            return Some(phone.receive());
        }
        assert_eq!(self.bob.receive().body(), b"hello");
        None
    }
}

#[test]
fn case_s19_absurd_lengths_take_no_memory() {
    let scene = Scene::new(TO_BOB);
    let mut lines: Vec<_> = (0..20).map(|_| Tcp::connect(scene.proxy.tcp())).collect();
    for line in &mut lines {
        line.send(request("OPTIONS", "sip:probe@x", &line.via("c1"), "c1"));
        assert_eq!(line.receive().status(), 200);
    }
    let before = scene.proxy.service.rss();
    for (n, line) in lines.iter_mut().enumerate() {
        line.send(message(line).replace("l: 5\r\n", LENGTHS[n % 3]));
        line.receive();
        line.ended();
    }
    for n in 0..200 {
        let sent = scene.request("MESSAGE", "c1").replace("Content-Length: 0\r\n", LENGTHS[n % 3]);
        assert_eq!(scene.ask(sent).status(), 400);
    }
    let grown = scene.proxy.service.rss().saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes");
}

#[test]
fn case_s20_pings_over_tcp() {
    let scene = ordered();
    let mut alice = Tcp::connect(scene.proxy.tcp());
    alice.send("\r\n\r\n");
    assert_eq!(alice.bytes(2), b"\r\n");
    // In two writes, cut anywhere. The single one in front of it shows that it was read by itself.
    for cut in 1..4 {
        alice.send("\r\n\r\n");
        assert_eq!(alice.bytes(2), b"\r\n");
        alice.send(&"\r\n\r\n"[..cut]);
        alice.send(&"\r\n\r\n"[cut..]);
        assert_eq!(alice.bytes(2), b"\r\n");
    }
    // With a message in one write.
    alice.send(["\r\n\r\n", &message(&alice)].concat());
    assert_eq!(alice.bytes(2), b"\r\n");
    let came = calls(&scene, &mut alice, &["m1"]);
    assert_eq!(came[0].body(), b"hello");
    // A single one before a message gets nothing.
    for single in ["\r\n", "\n"] {
        alice.send([single, &message(&alice)].concat());
        calls(&scene, &mut alice, &["m1"]);
    }
    assert_quiet(&scene.proxy);
}

#[test]
fn case_s20_pings_over_udp() {
    let scene = ordered();
    for ping in [&b"\r\n\r\n"[..], b"\0", b"\r\n", b"\n", b"", b"\0\0\0\0", b"\r\n\r\n\r\n\r\n"] {
        scene.send(ping);
        scene.proxy.answers_first(&scene.alice, "c1");
    }
    assert_quiet(&scene.proxy);
}

/// Nothing was logged as an error or counted as a broken message.
#[track_caller]
fn assert_quiet(proxy: &Proxy) {
    for event in proxy.service.log.events() {
        let level = crate::common::text(&event, "level").to_owned();
        assert!(!["ERROR", "WARN"].contains(&level.as_str()), "{event}");
    }
    let dropped = proxy.service.metric("lineway_sip_dropped_total", &[("node", "routes")]);
    assert_eq!(dropped.to_bits(), 0.0_f64.to_bits(), "a keepalive was counted as broken");
}

#[test]
fn case_s18_a_proxy_in_between_gives_the_same_over_udp_and_tcp() {
    let bob = Udp::new();
    let proxy = Setup::default().script(&plan(bob.at(), TO_BOB));
    let mut alice = Tcp::connect(proxy.tcp());
    let phone = Udp::new();
    alice.send(message(&alice));
    let over_tcp = bob.receive();
    phone.send(proxy.udp(), message(&alice));
    let over_udp = bob.receive();
    let rest = |came: &Sip| came.lines()[3..].to_vec();
    assert_eq!((rest(&over_tcp), over_tcp.body()), (rest(&over_udp), over_udp.body()));
}
