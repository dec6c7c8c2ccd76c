//! Rules 53 to 62: CANCEL.

use std::time::{Duration, Instant};

use crate::kit::Setup;
use crate::raw::{Udp, reply, request, with_body};
use crate::stage::{CALM, Stage, TO_A, TO_AB, Timers, ack, at_about, cancel};

/// A call that rings at the first callee.
#[track_caller]
fn ringing(stage: &Stage, call: &str) -> (String, crate::raw::Sip) {
    let invite = stage.call(call);
    let came = stage.gets(0, "INVITE");
    stage.passes(0, &came, "180 Ringing");
    (invite, came)
}

#[test]
fn sip_r053_cancel_gets_an_own_200_with_a_to_tag_at_once() {
    let stage = Stage::new(1, TO_A);
    let (invite, came) = ringing(&stage, "c1");
    // The callee says nothing to it.
    let ok = stage.cancels(&invite);
    assert!(ok.to_tag().is_some_and(|tag| !tag.is_empty()), "{ok:?}");
    assert_eq!(ok.all("Via"), [stage.alice.via("c1")]);
    let at_a = stage.gets(0, "CANCEL");
    stage.says(0, &at_a, "200 OK");
    stage.quiet("c1");
    stage.refuses(0, &came, "487 Request Terminated");
    stage.hears("487");
}

#[test]
fn sip_r054_cancel_downstream() {
    let lua = "function call()
        KSR.hdr.append(\"X-Edit: 1\\r\\n\")
        KSR.maxfwd.process_maxfwd(70)
        KSR.setdsturi(A)
        KSR.seturi(\"sip:b@phone.example;x=y\")
        KSR.tm.t_relay()
    end";
    let stage = Stage::new(1, lua);
    let more = "Require: x\r\nProxy-Require: y\r\nSubject: s\r\nUser-Agent: phone\r\n\
                Route: <sip:192.0.2.9;lr>\r\nVia: SIP/2.0/UDP second.example\r\n";
    let invite = with_body(&stage.request("INVITE", "c1"), "v=0")
        .replace("Max-Forwards", &format!("{more}Max-Forwards"))
        .replace("From: ", "f :  \"A\" ")
        .replace("To: ", "t: \"B\"  ")
        .replace("CSeq: 1 ", "CSeq: 0017  ");
    stage.begin(&invite);
    let came = stage.gets(0, "INVITE");
    stage.says(0, &came, "180 Ringing");
    stage.hears("180");
    stage.send(cancel(&invite).replace("17  INVITE", "17  CANCEL"));
    stage.hears("200");
    let cancelled = stage.gets(0, "CANCEL");
    assert_eq!(cancelled.first(), "CANCEL sip:b@phone.example;x=y SIP/2.0");
    let mut lines = cancelled.lines().split_off(1);
    assert_eq!(lines.remove(0), came.lines()[1], "the same Via: {cancelled:?}");
    let place = lines.iter().position(|line| line.starts_with("CSeq")).expect("CSeq");
    let cseq = lines.remove(place);
    assert_eq!(cseq.split_whitespace().skip(1).collect::<Vec<_>>(), ["0017", "CANCEL"]);
    lines.retain(|line| !line.starts_with("Reason"));
    lines.sort();
    let mut wanted = [
        "Route: <sip:192.0.2.9;lr>",
        "Max-Forwards: 69",
        "f :  \"A\" <sip:alice@127.0.0.1>;tag=a1",
        "t: \"B\"  <sip:bob@127.0.0.1>",
        "Call-ID: c1",
        "Content-Length: 0",
    ];
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    assert!(cancelled.body().is_empty());
}

#[test]
fn sip_r055_its_reason_phrase_is_canceling() {
    let stage = Stage::new(1, TO_A);
    let (invite, came) = ringing(&stage, "c1");
    assert_eq!(stage.cancels(&invite).first(), "SIP/2.0 200 canceling");
    stage.gets(0, "CANCEL");
    stage.refuses(0, &came, "487 Request Terminated");
    stage.hears("487");
    // Nothing is open any more.
    let late = stage.call("c2");
    let came = stage.gets(0, "INVITE");
    stage.refuses(0, &came, "486 Busy Here");
    stage.hears("486");
    assert_eq!(stage.cancels(&late).first(), "SIP/2.0 200 ok -- no more pending branches");
}

#[test]
fn sip_r056_before_a_provisional_the_cancel_waits() {
    let timers = Timers { t1: 200, t2: 400, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.cancels(&invite);
    // The INVITE goes on being sent again, and nothing else comes.
    for _ in 0..3 {
        assert_eq!(stage.at(0), came);
    }
    stage.says(0, &came, "180 Ringing");
    let cancelled = loop {
        let next = stage.at(0);
        if next != came {
            break next;
        }
    };
    assert!(cancelled.first().starts_with("CANCEL "), "{cancelled:?}");
    assert_eq!(cancelled.branch(), came.branch());
    stage.says(0, &cancelled, "200 OK");
    stage.says(0, &came, "180 Ringing");
    stage.quiet("c1");
    stage.says(0, &came, "487 Request Terminated");
    stage.hears("487");
}

#[test]
fn sip_r056_by_the_setting_it_is_given_up_or_cancelled_at_once() {
    let stage = Stage::with(1, &format!("{CALM}, cancel-b-method = 0"), TO_A);
    let invite = stage.call("c1");
    stage.gets(0, "INVITE");
    stage.cancels(&invite);
    stage.hears("487");
    stage.quiet_at(0, "c1");
    let stage = Stage::with(1, &format!("{CALM}, cancel-b-method = 2"), TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.cancels(&invite);
    let cancelled = stage.gets(0, "CANCEL");
    stage.says(0, &cancelled, "200 OK");
    stage.refuses(0, &came, "487 Request Terminated");
    stage.hears("487");
}

#[test]
fn sip_r056_a_call_without_branches_is_487_at_once() {
    // The target's name is never answered for.
    let dns = crate::common::dns::NameServer::start(crate::common::dns::Says::Nothing);
    let tables = format!("[dns]\nservers = [\"{}\"]\n", dns.address());
    let router = format!("{CALM}, resolve-timeout-ms = 20000");
    let lua = "function call() KSR.tm.t_newtran() KSR.tm.t_relay() end";
    let stage = Stage::setup(Setup { router, tables, ..Setup::one_worker() }, 0, lua);
    let invite = request("INVITE", "sip:bob@slow.example", &stage.alice.via("c1"), "c1");
    stage.send(&invite);
    crate::common::until("it asks", || dns.is_waited_for());
    stage.send(cancel(&invite));
    // Both of what has to come, in any order, with a 100 perhaps.
    let mut came = [stage.alice.receive(), stage.alice.receive()];
    came.sort_by_key(|sip| sip.status());
    assert_eq!((came[0].status(), came[0].one("CSeq").as_str()), (200, "1 CANCEL"));
    assert_eq!((came[1].status(), came[1].one("CSeq").as_str()), (487, "1 INVITE"));
}

#[test]
fn sip_r057_a_200_that_crosses_the_cancel_is_relayed() {
    let stage = Stage::new(1, TO_A);
    let (invite, came) = ringing(&stage, "c1");
    stage.cancels(&invite);
    let cancelled = stage.gets(0, "CANCEL");
    stage.passes(0, &came, "200 OK");
    stage.says(0, &cancelled, "200 OK");
    stage.quiet("c1");
    // Also where the CANCEL still waits.
    let invite = stage.call("c2");
    let came = stage.gets(0, "INVITE");
    stage.cancels(&invite);
    stage.passes(0, &came, "200 OK");
    stage.quiet("c2");
    stage.quiet_at(0, "c2");
}

#[test]
fn sip_r058_cancel_is_sent_again_until_it_is_answered() {
    let timers = Timers { t1: 100, t2: 200, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let (invite, came) = ringing(&stage, "c1");
    let begun = Instant::now();
    stage.cancels(&invite);
    let cancelled = stage.gets(0, "CANCEL");
    for after in [100, 300, 500] {
        assert_eq!(stage.at(0), cancelled);
        at_about(begun, after);
    }
    stage.says(0, &cancelled, "200 OK");
    stage.quiet("c1");
    while stage.phones[0].has_some() {
        assert_eq!(stage.at(0), cancelled);
    }
    stage.phones[0].stays_silent(Duration::from_millis(700));
    stage.refuses(0, &came, "487 Request Terminated");
}

#[test]
fn sip_r059_reason_headers_are_copied() {
    let stage = Stage::new(1, TO_A);
    let (invite, _) = ringing(&stage, "c1");
    let reasons = "Reason: SIP;cause=600;text=\"Busy, everywhere\"\r\nReason: Q.850 ;cause=17\r\n";
    stage.send(cancel(&invite).replace("Contact", &format!("{reasons}Contact")));
    stage.hears("200");
    let cancelled = stage.gets(0, "CANCEL");
    assert_eq!(
        cancelled.all("Reason"),
        ["SIP;cause=600;text=\"Busy, everywhere\"", "Q.850 ;cause=17"]
    );
    // Without one there is none of ours.
    let (invite, _) = ringing(&stage, "c2");
    stage.cancels(&invite);
    assert!(stage.gets(0, "CANCEL").all("Reason").is_empty());
}

#[test]
fn sip_r060_an_unmatched_cancel_is_dropped_by_the_usual_script() {
    let (alice, bob) = (Udp::new(), Udp::new());
    let proxy = Setup::one_worker().built_in();
    let uri = format!("sip:bob@{}", bob.at());
    let invite = request("INVITE", &uri, &alice.via("c1"), "c1");
    alice.send(proxy.udp(), cancel(&invite));
    let (at_bob, at_alice) = proxy.served_behind(&alice, &bob);
    assert!(at_bob.is_empty() && at_alice.is_empty(), "{at_bob:?}{at_alice:?}");
    // One that has its INVITE is not.
    alice.send(proxy.udp(), &invite);
    let came = bob.receive();
    bob.send(proxy.udp(), reply(&came, "180 Ringing", ""));
    assert_eq!(alice.receive().status(), 180);
    alice.send(proxy.udp(), cancel(&invite));
    assert_eq!(alice.receive().first(), "SIP/2.0 200 canceling");
    assert!(bob.receive().first().starts_with("CANCEL "));
}

#[test]
fn sip_r061_cancel_after_the_final_is_200_and_nothing_goes_down() {
    let stage = Stage::new(1, TO_A);
    for (call, status) in [("c1", "200 OK"), ("c2", "486 Busy Here")] {
        let (invite, came) = ringing(&stage, call);
        stage.says(0, &came, status);
        let last = stage.hears(&status[..3]);
        if status.starts_with("486") {
            stage.gets(0, "ACK");
            stage.send(ack(&invite, &last));
        }
        assert!(stage.cancels(&invite).first().ends_with("ok -- no more pending branches"));
        stage.quiet_at(0, call);
        stage.quiet(call);
    }
}

#[test]
fn sip_r062_a_cancelled_branch_that_never_ends_is_487() {
    let timers = Timers { fr: 600, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let (invite, came) = ringing(&stage, "c1");
    let begun = Instant::now();
    stage.cancels(&invite);
    let cancelled = stage.gets(0, "CANCEL");
    stage.says(0, &cancelled, "200 OK");
    let ended = stage.hears("487");
    at_about(begun, 600);
    assert!(ended.to_tag().is_some_and(|tag| tag != "t0"), "a local one: {ended:?}");
    stage.acks(&invite, &ended);
    // What comes then is acknowledged and hidden.
    stage.refuses(0, &came, "487 Request Terminated");
    stage.quiet("c1");
}

#[test]
fn sip_r062_all_cancelled_branches_end_as_one_487() {
    let timers = Timers { fr: 600, ..Timers::FAR };
    let stage = Stage::timed(2, timers, TO_AB);
    let invite = stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.passes(0, &came[0], "180 Ringing");
    stage.passes(1, &came[1], "180 Ringing");
    stage.cancels(&invite);
    let cancels = stage.all_get("CANCEL");
    stage.says(0, &cancels[0], "200 OK");
    stage.says(1, &cancels[1], "200 OK");
    stage.refuses(1, &came[1], "487 Request Terminated");
    stage.hears("487");
    stage.quiet("c1");
}
