//! Rules 42 to 52, 101, 102, 108, 109 and 120: finals, their ACKs, what is answered here.

use std::time::{Duration, Instant};

use crate::common::dns::{NameServer, Says};
use crate::kit::Setup;
use crate::raw::{Sip, TcpPhone, request, with_body};
use crate::stage::{CALM, Stage, TO_A, TO_AB, Timers, ack, at_about, cancel};

#[test]
fn sip_r042_the_caller_s_ack_of_a_failure_is_not_forwarded() {
    // Whether the script looks at it or sends everything on.
    let bare = "local routes = ksr_request_route
        function ksr_request_route()
            if KSR.is_ACK() and KSR.kx.gete_ruser() == \"bob\" then KSR.tm.t_relay() else routes() end
        end";
    for lua in [TO_A.to_owned(), format!("{TO_A}\n{bare}")] {
        let stage = Stage::new(1, &lua);
        for status in ["302 Moved", "404 Not Found", "500 Error", "603 Decline"] {
            let call = &status[..3];
            let invite = stage.call(call);
            let came = stage.gets(0, "INVITE");
            stage.refuses(0, &came, status);
            let failure = stage.hears(call);
            for _ in 0..2 {
                stage.acks(&invite, &failure);
                stage.quiet_at(0, call);
            }
            stage.quiet(call);
        }
    }
}

#[test]
fn sip_r043_a_failure_is_acknowledged_at_once() {
    let stage = Stage::new(2, TO_AB);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    // Though the other one still rings and the caller knows nothing yet.
    stage.passes(1, &came[1], "180 Ringing");
    let begun = Instant::now();
    stage.refuses(0, &came[0], "486 Busy Here");
    assert!(begun.elapsed() < Duration::from_secs(2));
    stage.quiet("c1");
}

#[test]
fn sip_r044_the_ack_of_a_failure() {
    let lua = "function call()
        KSR.hdr.append(\"X-Edit: 1\\r\\n\")
        KSR.maxfwd.process_maxfwd(70)
        KSR.setdsturi(A)
        KSR.seturi(\"sip:b%6fb@phone.example;user=phone\")
        KSR.tm.t_relay()
    end";
    let stage = Stage::new(1, lua);
    let more = "Route: <sip:192.0.2.9;lr>\r\nRequire: x\r\nProxy-Require: y\r\nSubject: s\r\n\
                User-Agent: phone\r\nVia: SIP/2.0/UDP second.example\r\n";
    let invite = with_body(&stage.request("INVITE", "c1"), "v=0")
        .replace("Max-Forwards", &format!("{more}Max-Forwards"))
        .replace("From: ", "f :  \"A\" ")
        .replace("CSeq: 1 ", "CSeq: 0017  ");
    stage.begin(&invite);
    let came = stage.gets(0, "INVITE");
    let to = "To:  <sip:bob@127.0.0.1> ;tag=\"x\"; a=b";
    let busy = format!(
        "SIP/2.0 486 Busy\r\nVia: {}\r\nVia: {}\r\nFrom: <sip:alice@127.0.0.1>;tag=a1\r\n{to}\r\n\
         Call-ID: c1\r\nCSeq: 17 INVITE\r\nRecord-Route: <sip:192.0.2.1;lr>\r\nContent-Length: 0\r\n\r\n",
        came.all("Via")[0],
        came.all("Via")[1],
    );
    stage.phones[0].send(stage.proxy.udp(), busy);
    let ack = stage.at(0);
    assert_eq!(ack.first(), "ACK sip:b%6fb@phone.example;user=phone SIP/2.0");
    let mut lines = ack.lines().split_off(1);
    assert_eq!(lines.remove(0), came.lines()[1], "the same Via: {ack:?}");
    lines.sort();
    let cseq = lines.iter().find(|line| line.starts_with("CSeq")).cloned().expect("CSeq");
    assert_eq!(cseq.split_whitespace().skip(1).collect::<Vec<_>>(), ["0017", "ACK"], "{ack:?}");
    lines.retain(|line| !line.starts_with("CSeq"));
    let mut wanted = [
        "Route: <sip:192.0.2.9;lr>",
        "Max-Forwards: 69",
        "f :  \"A\" <sip:alice@127.0.0.1>;tag=a1",
        to,
        "Call-ID: c1",
        "Content-Length: 0",
    ];
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    assert!(ack.body().is_empty());
}

#[test]
fn sip_r045_a_repeated_failure_is_acknowledged_again_and_not_relayed_again() {
    let stage = Stage::new(1, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.refuses(0, &came, "486 Busy Here");
    let busy = stage.hears("486");
    for _ in 0..3 {
        stage.refuses(0, &came, "486 Busy Here");
        stage.quiet("c1");
    }
    stage.acks(&invite, &busy);
    stage.refuses(0, &came, "486 Busy Here");
    stage.quiet("c1");
    stage.quiet_at(0, "c1");
}

#[test]
fn sip_r046_a_2xx_is_relayed_at_once_and_each_copy_again() {
    let stage = Stage::new(2, TO_AB);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    let begun = Instant::now();
    let first = stage.passes(0, &came[0], "200 OK");
    assert!(begun.elapsed() < Duration::from_secs(2));
    for _ in 0..3 {
        assert_eq!(stage.passes(0, &came[0], "200 OK"), first);
    }
    stage.quiet("c1");
}

#[test]
fn sip_r047_a_relayed_2xx_is_never_sent_again() {
    let timers = Timers { t1: 50, t2: 100, wt: 1500, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let setup = [("INVITE", "200 OK"), ("MESSAGE", "200 OK"), ("MESSAGE", "404 Not Found")];
    for (n, (method, status)) in setup.into_iter().enumerate() {
        let call = format!("c{n}");
        stage.send(stage.request(method, &call));
        let came = stage.gets(0, method);
        stage.says(0, &came, status);
        let came = stage.alice.receive();
        assert_eq!(came.first(), format!("SIP/2.0 {status}"));
        stage.until_gone();
        stage.quiet(&call);
        while stage.phones[0].has_some() {
            stage.gets(0, method);
        }
    }
}

#[test]
fn sip_r048_the_ack_of_a_2xx_travels_end_to_end_with_a_fresh_branch() {
    let lua = "function call() KSR.rr.record_route() fork(A) end";
    let stage = Stage::new(1, lua);
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let ok = stage.passes(0, &came, "200 OK");
    let route = format!("Route: {}\r\nMax-Forwards", ok.one("Record-Route"));
    let uri = format!("sip:a@{}", stage.phones[0].at());
    let ack = request("ACK", &uri, &stage.alice.via("ack"), "c1")
        .replace("To: <sip:bob@127.0.0.1>", &format!("To: {}", ok.one("To")))
        .replace("Max-Forwards", &route);
    stage.send(&ack);
    let at_a = stage.gets(0, "ACK");
    assert_ne!(at_a.branch(), came.branch());
    assert!(at_a.branch().starts_with("z9hG4bK"));
    assert!(at_a.all("Route").is_empty(), "{at_a:?}");
    assert_eq!(at_a.all("Via").len(), 2);
    // Each copy travels.
    stage.send(&ack);
    stage.gets(0, "ACK");
    stage.quiet("c1");
}

#[test]
fn sip_r049_a_copy_of_an_answered_invite_gets_the_2xx_again() {
    let stage = Stage::new(1, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let ok = stage.passes(0, &came, "200 OK");
    for _ in 0..2 {
        stage.send(&invite);
        assert_eq!(stage.alice.hear(), ok);
    }
    stage.quiet_at(0, "c1");
    // As RFC 6026 has it: in silence.
    let stage = Stage::with(1, &format!("{CALM}, rfc6026 = true"), TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.passes(0, &came, "200 OK");
    stage.send(&invite);
    stage.quiet("c1");
    stage.quiet_at(0, "c1");
}

#[test]
fn sip_r050_a_second_2xx_of_another_branch_is_relayed() {
    let stage = Stage::new(2, TO_AB);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.passes(0, &came[0], "200 OK");
    stage.passes(1, &came[1], "200 OK");
    stage.passes(0, &came[0], "200 OK");
    stage.passes(1, &came[1], "299 Fine");
}

#[test]
fn sip_r051_all_provisionals_but_100_are_relayed_repeats_too() {
    let stage = Stage::new(1, TO_A);
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    for status in ["180 Ringing", "180 Ringing", "181 X", "182 X", "183 X", "199 X", "180 Ringing"]
    {
        let back = stage.passes(0, &came, status);
        assert_eq!(back.first(), format!("SIP/2.0 {status}"));
        assert_eq!(back.all("Via"), [stage.alice.via("c1")]);
    }
    // Of other requests too.
    stage.send(stage.request("MESSAGE", "m1"));
    let came = stage.gets(0, "MESSAGE");
    for _ in 0..2 {
        stage.passes(0, &came, "183 Working");
    }
}

#[test]
fn sip_r052_100_is_not_relayed() {
    let stage = Stage::new(1, TO_A);
    for method in ["INVITE", "MESSAGE"] {
        let sent = stage.request(method, method);
        stage.send(&sent);
        if method == "INVITE" {
            stage.hears("100");
        }
        let came = stage.gets(0, method);
        for status in ["100 Trying", "100 Still"] {
            stage.says(0, &came, status);
            stage.quiet(method);
        }
    }
}

#[test]
fn sip_r101_what_can_not_be_routed_is_one_answer_at_once() {
    let dns = NameServer::start(Says::Absent);
    // With the usual idiom, which must not answer twice.
    let idioms = [
        "function call() KSR.tm.t_relay() end",
        "function call() if KSR.tm.t_relay() < 0 then KSR.sl.sl_reply_error() end end",
    ];
    for lua in idioms {
        let tables = format!("[dns]\nservers = [\"{}\"]\n", dns.address());
        let router = CALM.to_owned();
        let stage = Stage::setup(Setup { router, tables, ..Setup::one_worker() }, 0, lua);
        let refused = TcpPhone::new().at();
        let uris = [
            "sip:bob@none.example".to_owned(),
            format!("sip:bob@{refused};transport=tcp"),
            "sip:bob@192.0.2.1;transport=sctp".to_owned(),
        ];
        for (n, uri) in uris.iter().enumerate() {
            for method in ["INVITE", "MESSAGE"] {
                let call = format!("{method}{n}");
                let begun = Instant::now();
                let sent = request(method, uri, &stage.alice.via(&call), &call);
                stage.send(&sent);
                let answer = stage.alice.receive();
                assert!(begun.elapsed() < Duration::from_secs(3), "{uri}");
                assert!((400..600).contains(&answer.status()), "{uri}: {answer:?}");
                assert!(answer.to_tag().is_some());
                if method == "INVITE" {
                    stage.send(ack(&sent, &answer));
                }
                stage.quiet(&call);
            }
        }
    }
}

#[test]
fn sip_r102_it_is_478_unresolvable_destination() {
    let dns = NameServer::start(Says::Absent);
    let tables = format!("[dns]\nservers = [\"{}\"]\n", dns.address());
    let lua = "function call() KSR.tm.t_relay() end";
    let router = CALM.to_owned();
    let stage = Stage::setup(Setup { router, tables, ..Setup::one_worker() }, 0, lua);
    stage.send(request("INVITE", "sip:bob@none.example", &stage.alice.via("c1"), "c1"));
    let answer = stage.alice.receive();
    assert_eq!(answer.first(), "SIP/2.0 478 Unresolvable destination (478/TM)");
}

#[test]
fn sip_r108_a_reply_of_a_transaction_has_a_to_tag_and_is_repeated_until_its_ack() {
    let timers = Timers { t1: 200, t2: 4000, ..Timers::FAR };
    for made in [
        "KSR.tm.t_reply(404, \"Not here\")",
        "if KSR.tm.t_newtran() > 0 then KSR.sl.send_reply(404, \"Not here\") end",
    ] {
        let stage = Stage::timed(0, timers, &format!("function call()\n{made}\nend"));
        let invite = stage.request("INVITE", "c1");
        let begun = Instant::now();
        stage.send(&invite);
        let refused = stage.hears("404 Not here");
        assert!(refused.to_tag().is_some_and(|tag| !tag.is_empty()));
        for after in [200, 600] {
            assert_eq!(stage.alice.hear(), refused);
            at_about(begun, after);
        }
        stage.acks(&invite, &refused);
        while stage.alice.has_some() {
            assert_eq!(stage.alice.hear(), refused);
        }
        stage.alice.stays_silent(Duration::from_millis(1200));
        // Others are repeated on request only.
        let message = stage.request("MESSAGE", "m1");
        stage.send(&message);
        let refused = stage.hears("404");
        stage.alice.stays_silent(Duration::from_millis(500));
        stage.send(&message);
        assert_eq!(stage.alice.hear(), refused);
    }
}

#[test]
fn sip_r108_a_2xx_made_here_is_repeated_until_its_ack_over_tcp_too() {
    let timers = Timers { t1: 150, t2: 4000, ..Timers::FAR };
    let stage = Stage::timed(0, timers, "function call() KSR.tm.t_reply(200, \"OK\") end");
    let invite = stage.request("INVITE", "c1");
    let begun = Instant::now();
    stage.send(&invite);
    let ok = stage.hears("200");
    assert_eq!(stage.alice.hear(), ok);
    at_about(begun, 150);
    // The ACK of a 2xx has a branch of its own.
    stage.send(ack(&invite, &ok).replace("bKc1", "bKack"));
    while stage.alice.has_some() {
        assert_eq!(stage.alice.hear(), ok);
    }
    stage.alice.stays_silent(Duration::from_millis(900));
    let mut alice = crate::raw::Tcp::connect(stage.proxy.tcp());
    alice.send(request("INVITE", "sip:bob@x", &alice.via("c2"), "c2"));
    let ok = alice.receive();
    assert_eq!((ok.status(), alice.receive()), (200, ok));
}

#[test]
fn sip_r109_the_tag_is_32_hex_digits_a_hyphen_and_8() {
    let stage = Stage::new(0, "function call() KSR.tm.t_reply(404, \"Not here\") end");
    let mut first = None;
    for call in ["c1", "c2", "c3@host"] {
        stage.send(stage.request("INVITE", call));
        let tag = stage.hears("404").to_tag().expect("a tag");
        let (server, own) = tag.split_once('-').expect("a hyphen");
        for (part, length) in [(server, 32), (own, 8)] {
            assert_eq!(part.len(), length, "{tag}");
            assert!(part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{tag}");
        }
        assert_eq!(first.get_or_insert_with(|| server.to_owned()), server, "the server's part");
    }
}

/// Alice's INVITE with the routes by which it came here and goes on.
fn preloaded(stage: &Stage, call: &str) -> String {
    let routes = format!(
        "Route: <sip:{};lr>, <sip:{};lr>\r\nRoute: <sip:192.0.2.9;lr>\r\nMax-Forwards",
        stage.proxy.udp(),
        stage.phones[0].at()
    );
    stage
        .request("INVITE", call)
        .replace(&format!("sip:bob@{} ", stage.proxy.udp()), "sip:bob@far.example ")
        .replace("Max-Forwards", &routes)
}

#[test]
fn sip_r120_hop_by_hop_ack_and_cancel_carry_the_route_of_the_invite() {
    let stage = Stage::new(1, "function call() KSR.rr.loose_route() KSR.tm.t_relay() end");
    let routes = |sip: &Sip| {
        let routes = sip.all("Route").join(",");
        routes.split(',').map(|route| route.trim().to_owned()).collect::<Vec<_>>()
    };
    let wanted = [format!("<sip:{};lr>", stage.phones[0].at()), "<sip:192.0.2.9;lr>".to_owned()];
    let invite = preloaded(&stage, "c1");
    stage.begin(&invite);
    let came = stage.gets(0, "INVITE");
    assert_eq!(routes(&came), wanted, "{came:?}");
    stage.passes(0, &came, "180 Ringing");
    stage.send(cancel(&invite));
    stage.hears("200");
    let cancelled = stage.gets(0, "CANCEL");
    assert_eq!(
        (routes(&cancelled), cancelled.first()),
        (wanted.to_vec(), "CANCEL sip:bob@far.example SIP/2.0".to_owned())
    );
    stage.says(0, &cancelled, "200 OK");
    stage.says(0, &came, "487 Request Terminated");
    let acked = stage.gets(0, "ACK");
    assert_eq!(
        (routes(&acked), acked.first()),
        (wanted.to_vec(), "ACK sip:bob@far.example SIP/2.0".to_owned())
    );
    stage.hears("487");
}
