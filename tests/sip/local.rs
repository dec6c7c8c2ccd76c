//! The built-in script: what it sends on and what it answers.

use crate::kit::{BOTH, Scene, Setup};
use crate::raw::{Tcp, TcpPhone, Udp, reply, request};

#[test]
fn sip_s6_3_a_request_for_another_host_is_sent_on_and_a_call_records_its_route() {
    let scene = Scene::built_in();
    for method in ["INVITE", "SUBSCRIBE", "REFER"] {
        let came = scene.pass(scene.direct(method, "c1"));
        assert_eq!(came.one("Record-Route"), format!("<sip:{};lr>", scene.proxy.udp()));
        assert_eq!(came.one("Max-Forwards"), "69");
        assert_eq!(scene.answer(&came, "200 OK").one("CSeq"), format!("1 {method}"));
    }
    for method in ["OPTIONS", "MESSAGE", "REGISTER", "PUBLISH", "FROB"] {
        let came = scene.pass(scene.direct(method, "c1"));
        assert!(came.all("Record-Route").is_empty(), "{came:?}");
        assert_eq!(came.first(), scene.direct(method, "c1").lines().next().unwrap());
        assert_eq!(scene.answer(&came, "200 OK").status(), 200);
    }
}

#[test]
fn sip_s6_3_a_whole_call_with_cancel() {
    let scene = Scene::built_in();
    let invite = scene.direct("INVITE", "c1");
    let came = scene.pass(&invite);
    assert_eq!(scene.answer(&came, "180 Ringing").status(), 180);
    let cancel = scene.pass(invite.replace("INVITE", "CANCEL"));
    assert_eq!(cancel.branch(), came.branch());
    assert_eq!(scene.answer(&cancel, "200 OK").one("CSeq"), "1 CANCEL");
    let ended = scene.answer(&came, "487 Request Terminated");
    assert_eq!(ended.status(), 487);
    let ack = invite
        .replace("INVITE", "ACK")
        .replace("To: <sip:bob@127.0.0.1>", &format!("To: {}", ended.one("To")));
    let ack = scene.pass(ack);
    assert_eq!((ack.one("CSeq").as_str(), ack.branch()), ("1 ACK", came.branch()));
}

#[test]
fn sip_s6_3_a_whole_call_that_is_answered() {
    let scene = Scene::built_in();
    let came = scene.pass(scene.direct("INVITE", "c1"));
    for status in ["100 Trying", "180 Ringing", "183 Session Progress", "200 OK"] {
        assert_eq!(scene.answer(&came, status).first(), format!("SIP/2.0 {status}"));
    }
    let ok = scene.answer(&came, "200 OK");
    for (method, branch) in [("ACK", "ack"), ("BYE", "bye")] {
        let sent =
            request(method, &format!("sip:bob@{}", scene.bob.at()), &scene.alice.via(branch), "c1")
                .replace("To: <sip:bob@127.0.0.1>", &format!("To: {}", ok.one("To")))
                .replace(
                    "Max-Forwards",
                    &format!("Route: {}\r\nMax-Forwards", ok.one("Record-Route")),
                );
        let came = scene.pass(&sent);
        assert!(came.all("Route").is_empty() && came.all("Record-Route").is_empty(), "{came:?}");
        assert_eq!(came.one("CSeq"), format!("1 {method}"));
    }
}

#[test]
fn sip_s6_3_what_is_for_this_host_gets_an_answer_that_says_so() {
    let scene = Scene::built_in();
    for (method, code) in
        [("INVITE", 404), ("MESSAGE", 404), ("OPTIONS", 404), ("CANCEL", 481), ("REGISTER", 405)]
    {
        let answer = scene.ask(scene.request(method, method));
        assert_eq!(answer.status(), code, "{method}");
        assert!(answer.to_tag().is_some());
    }
    assert!(!scene.ask(scene.request("REGISTER", "c1")).one("Allow").is_empty());
}

#[test]
fn sip_s6_3_what_is_not_sound_is_400_and_says_what_is_wrong() {
    let scene = Scene::built_in();
    let base = scene.direct("INVITE", "c1");
    let scheme = base.replace("INVITE sip:", "INVITE xyz:");
    let broken = [
        ("scheme", scheme),
        ("CSeq", base.replace("CSeq: 1 INVITE", "CSeq: 1 BYE")),
        ("length", base.replace("Content-Length: 0", "Content-Length: 9")),
        ("short", base.clone() + "more"),
        ("Expires", base.replace("Contact", "Expires: soon\r\nContact")),
    ];
    let mut reasons = std::collections::HashSet::new();
    for (what, sent) in broken {
        let answer = scene.ask(&sent);
        assert_eq!(answer.status(), 400, "{what}: {answer:?}");
        assert!(answer.to_tag().is_some() && answer.first().len() > "SIP/2.0 400 ".len());
        if what != "short" {
            assert!(reasons.insert(answer.first()), "{what}: {answer:?}");
        }
        scene.proxy.served_behind(&scene.alice, &scene.bob);
    }
}

#[test]
fn sip_s6_3_where_it_can_not_be_sent_to_is_told() {
    let scene = Scene::built_in();
    let refused = TcpPhone::new().at();
    let uris = [
        (format!("sip:bob@{refused};transport=tcp"), 477),
        ("sip:bob@192.0.2.1;transport=tls".to_owned(), 0),
        ("sip:bob@[2001:db8::1]".to_owned(), 0),
        ("tel:+491".to_owned(), 0),
    ];
    for (uri, code) in uris {
        let answer = scene.ask(request("INVITE", &uri, &scene.alice.via("c1"), "c1"));
        assert!(answer.status() >= 400, "{uri}: {answer:?}");
        assert!(code == 0 || answer.status() == code, "{uri}: {answer:?}");
        scene.proxy.answers_own_options(&scene.alice);
    }
}

impl crate::kit::Proxy {
    /// Nothing else waits at a phone: the answer to what it asks the built-in script comes first.
    #[track_caller]
    fn answers_own_options(&self, phone: &Udp) {
        let uri = format!("sip:{}", self.udp());
        phone.send(self.udp(), request("OPTIONS", &uri, &phone.via("own"), "c1"));
        let answer = phone.receive();
        assert_eq!((answer.status(), answer.one("CSeq").as_str()), (200, "1 OPTIONS"));
    }
}

#[test]
fn sip_s6_3_an_ack_is_answered_by_nothing_and_goes_where_its_invite_went() {
    let scene = Scene::built_in();
    let ack = scene.direct("ACK", "c1");
    assert_eq!(scene.pass(&ack).one("CSeq"), "1 ACK");
    let tagged = ack.replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb");
    assert_eq!(scene.pass(&tagged).one("CSeq"), "1 ACK");
    for lost in [
        scene.request("ACK", "c1"),
        scene
            .request("ACK", "c1")
            .replace("To: <sip:bob@127.0.0.1>", "To: <sip:bob@127.0.0.1>;tag=tb"),
        scene.direct("ACK", "c1").replace("ds: 70", "ds: 0"),
        request("ACK", "sip:bob@192.0.2.1;transport=tls", &scene.alice.via("c1"), "c1"),
    ] {
        scene.send(lost);
        scene.proxy.answers_own_options(&scene.alice);
    }
}

#[test]
fn sip_s6_3_tcp_and_udp_meet() {
    let proxy = Setup::on(BOTH).built_in();
    let phone = TcpPhone::new();
    let mut alice = Tcp::connect(proxy.tcp());
    let uri = format!("sip:bob@{};transport=tcp", phone.at());
    alice.send(request("INVITE", &uri, &alice.via("c1"), "c1"));
    let mut line = phone.accept();
    let came = line.receive();
    assert_eq!(came.one("Record-Route"), format!("<sip:{};transport=tcp;lr>", proxy.tcp()));
    line.send(reply(&came, "200 OK", ""));
    assert_eq!(alice.receive().status(), 200);
    let bob = Udp::new();
    alice.send(request("INVITE", &format!("sip:bob@{}", bob.at()), &alice.via("c2"), "c2"));
    let came = bob.receive();
    assert_eq!(came.all("Record-Route").len(), 2, "{came:?}");
    bob.send(proxy.udp(), reply(&came, "200 OK", ""));
    assert_eq!(alice.receive().all("Record-Route"), came.all("Record-Route"));
}
