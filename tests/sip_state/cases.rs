//! S-01, S-04, S-05, S-10 and S-14; S-07 is with the rules of the choice.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::text;
use crate::kit::Setup;
use crate::raw::{Sip, Udp, reply, reply_as, request};
use crate::stage::{CALM, Stage, TO_A, TO_AB, Timers, ack, at_about, cancel};

/// What Alice sends to one of those who answered.
#[track_caller]
fn within(stage: &Stage, method: &str, phone: usize, ok: &Sip) -> Sip {
    let uri = format!("sip:x@{}", stage.phones[phone].at());
    let route = format!("Route: {}\r\nMax-Forwards", ok.one("Record-Route"));
    let sent = request(method, &uri, &stage.alice.via(&format!("{method}{phone}")), "c1")
        .replace("To: <sip:bob@127.0.0.1>", &format!("To: {}", ok.one("To")))
        .replace("CSeq: 1 BYE", "CSeq: 2 BYE")
        .replace("Max-Forwards", &route);
    stage.send(sent);
    let came = stage.gets(phone, method);
    assert_eq!(came.to_tag(), ok.to_tag());
    came
}

const RECORDED: &str = "function call() KSR.rr.record_route() fork(A, B) end";

#[test]
fn case_s01_two_phones_answer_in_the_same_moment() {
    for late in [false, true] {
        let wt = if late { 400 } else { 60_000 };
        let stage = Stage::timed(2, Timers { wt, ..Timers::FAR }, RECORDED);
        stage.call("c1");
        let came = stage.all_get("INVITE");
        for (n, invite) in came.iter().enumerate() {
            stage.passes(n, invite, "180 Ringing");
        }
        let first = stage.passes(0, &came[0], "200 OK");
        let cancelled = stage.gets(1, "CANCEL");
        if late {
            stage.says(1, &cancelled, "481 Unknown");
            stage.until_gone();
        }
        let second = stage.passes(1, &came[1], "200 OK");
        stage.says(1, &cancelled, "481 Unknown");
        for (phone, ok) in [(0, &first), (1, &second)] {
            within(&stage, "ACK", phone, ok);
        }
        let bye = within(&stage, "BYE", 1, &second);
        stage.says(1, &bye, "200 OK");
        let ended = stage.hears("200");
        assert_eq!(ended.one("CSeq"), "2 BYE");
        // One CANCEL, no 481 and no 487.
        stage.quiet("c1");
        stage.quiet_at(0, "c1");
        stage.quiet_at(1, "c1");
    }
}

#[test]
fn case_s01_without_a_pause_between_them() {
    let setup = Setup { router: CALM.to_owned(), ..Setup::default() };
    let stage = Stage::setup(setup, 2, TO_AB);
    for n in 0..50 {
        let call = format!("c{n}");
        stage.call(&call);
        let came = stage.all_get("INVITE");
        for (phone, invite) in came.iter().enumerate() {
            stage.passes(phone, invite, "180 Ringing");
        }
        for (phone, invite) in came.iter().enumerate() {
            stage.says(phone, invite, "200 OK");
        }
        let mut tags = [stage.hears("200").to_tag(), stage.hears("200").to_tag()];
        tags.sort();
        assert_eq!(tags, [Some("t0".to_owned()), Some("t1".to_owned())]);
        stage.quiet(&call);
        for phone in 0..2 {
            if stage.phones[phone].has_some() {
                let cancelled = stage.gets(phone, "CANCEL");
                stage.says(phone, &cancelled, "481 Unknown");
            }
        }
    }
}

#[test]
fn case_s04_timeout_and_cancel_collide() {
    // (a), with the CANCEL at all moments around the end of the timer.
    let fr = 400;
    let stage = Stage::timed(1, Timers { fr, wt: 100, ..Timers::FAR }, TO_A);
    let mut finals = [0, 0];
    for (n, after) in
        [370, 380, 390, 395, 398, 400, 402, 405, 410, 420, 440].into_iter().enumerate()
    {
        let call = format!("c{n}");
        let begun = Instant::now();
        let invite = stage.call(&call);
        stage.gets(0, "INVITE");
        sleep(Duration::from_millis(after).saturating_sub(begun.elapsed()));
        stage.send(cancel(&invite));
        let came = [stage.alice.hear(), stage.alice.hear()];
        assert!(begun.elapsed() >= Duration::from_millis(fr));
        let of = |cseq: &str| {
            let found: Vec<_> = came.iter().filter(|sip| sip.one("CSeq") == cseq).collect();
            assert_eq!(found.len(), 1, "{cseq}: {came:?}");
            found[0].clone()
        };
        assert_eq!(of("1 CANCEL").status(), 200);
        let ended = of("1 INVITE");
        let place = [408, 487].iter().position(|code| *code == ended.status());
        finals[place.unwrap_or_else(|| panic!("{ended:?}"))] += 1;
        // The CANCEL was handled first where its 200 came first.
        if came[0].status() == 200 {
            assert_eq!(ended.status(), 487);
        }
        stage.acks(&invite, &ended);
        stage.quiet(&call);
    }
    assert_eq!(finals[0] + finals[1], 11);
    stage.until_gone();
}

#[test]
fn case_s04_a_cancelled_branch_never_ends() {
    // (b)
    let timers = Timers { t1: 100, t2: 400, fr: 700, wt: 200, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.passes(0, &came, "180 Ringing");
    let begun = Instant::now();
    stage.cancels(&invite);
    let cancelled = loop {
        let next = stage.at(0);
        if next != came {
            break next;
        }
    };
    assert!(cancelled.first().starts_with("CANCEL "));
    stage.says(0, &cancelled, "200 OK");
    let ended = stage.hears("487");
    at_about(begun, 700);
    stage.acks(&invite, &ended);
    stage.until_gone();
    assert!(begun.elapsed() >= Duration::from_millis(900));
}

#[test]
fn case_s04_the_invite_is_sent_again_until_fr_timer_ends_it() {
    let timers = Timers { t1: 100, t2: 200, fr: 1000, wt: 100, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.cancels(&invite);
    let ended = stage.hears("487");
    stage.acks(&invite, &ended);
    stage.until_gone();
    let mut copies = 0;
    while stage.phones[0].has_some() {
        assert_eq!(stage.at(0), came, "no CANCEL");
        copies += 1;
    }
    assert!((3..=6).contains(&copies), "{copies}");
}

#[test]
fn case_s05_a_repeated_cancel() {
    let stage = Stage::new(1, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.passes(0, &came, "180 Ringing");
    let first = stage.cancels(&invite);
    let cancelled = stage.gets(0, "CANCEL");
    assert_eq!(stage.cancels(&invite), first, "the same 200");
    stage.says(0, &cancelled, "200 OK");
    assert_eq!(stage.cancels(&invite), first, "the same 200");
    stage.refuses(0, &came, "487 Request Terminated");
    let ended = stage.hears("487");
    stage.acks(&invite, &ended);
    // And behind it all.
    assert_eq!(stage.cancels(&invite), first, "the same 200");
    stage.quiet_at(0, "c1");
    stage.quiet("c1");
}

#[test]
fn case_s05_a_cancel_that_matches_nothing() {
    // Everything is sent on to A, CANCEL too.
    let lua = "local routes = ksr_request_route
        function ksr_request_route()
            if KSR.is_CANCEL() then KSR.seturi(A) KSR.tm.t_relay() else routes() end
        end
        function call() fork(A) end";
    for setting in ["", ", unmatched-cancel = \"stateless\"", ", unmatched-cancel = \"drop\""] {
        let stage = Stage::with(1, &format!("{CALM}{setting}"), lua);
        let lost = cancel(&stage.request("INVITE", "c1"));
        stage.send(&lost);
        if setting.contains("drop") {
            stage.quiet_at(0, "c1");
        } else {
            let came = stage.gets(0, "CANCEL");
            assert_eq!(came.first(), format!("CANCEL sip:a@{} SIP/2.0", stage.phones[0].at()));
            let transactions = if setting.is_empty() { 1.0_f64 } else { 0.0 };
            assert_eq!(stage.transactions().to_bits(), transactions.to_bits());
            stage.passes(0, &came, "481 Unknown");
        }
        stage.quiet("c1");
    }
}

#[test]
fn case_s10_no_cancel_for_a_branch_that_ended() {
    // (a)
    let lua = "function call() KSR.tm.t_on_reply(\"replied\") fork(A) end
        function replied()
            if KSR.kx.get_status() == 503 then KSR.tm.t_reply(500, \"Ours\") end
        end";
    let stage = Stage::new(1, lua);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.says(0, &came, "100 Trying");
    stage.refuses(0, &came, "503 Service Unavailable");
    let up = stage.hears("500 Ours");
    stage.acks(&invite, &up);
    stage.quiet("c1");
    stage.quiet_at(0, "c1");
}

#[test]
fn case_s10_a_second_final_on_one_branch() {
    // (b)
    let stage = Stage::new(2, TO_AB);
    let invite = stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.passes(1, &came[1], "180 Ringing");
    stage.refuses(0, &came[0], "500 Error");
    stage.refuses(0, &came[0], "500 Error");
    stage.says(0, &came[0], "486 Busy Here");
    stage.quiet("c1");
    stage.refuses(1, &came[1], "486 Busy Here");
    let up = stage.hears("486");
    assert_eq!(up.to_tag().as_deref(), Some("t1"));
    stage.acks(&invite, &up);
    stage.quiet("c1");
    let events = stage.proxy.service.log.events();
    let level = |wanted: &str| events.iter().filter(|event| text(event, "level") == wanted).count();
    assert_eq!((level("WARN"), level("ERROR")), (1, 0));
}

/// The built-in script, and one that looks at nothing before it relays.
const RELAY: &str = "function ksr_request_route()
    if KSR.kx.gete_ruser() == \"fence\" then KSR.forward() return end
    KSR.tm.t_relay()
end";

#[test]
fn case_s14_hop_by_hop_ack_with_a_preloaded_route() {
    let router = ", retr-timer1-ms = 200, retr-timer2-ms = 400".to_owned();
    let setup = || Setup { router: router.clone(), ..Setup::one_worker() };
    for proxy in [setup().built_in(), setup().script(RELAY)] {
        let (alice, bob) = (Udp::new(), Udp::new());
        let uri = format!("sip:bob@{}", bob.at());
        let route = format!("Route: <sip:{};lr>\r\nMax-Forwards", proxy.udp());
        let invite =
            request("INVITE", &uri, &alice.via("c1"), "c1").replace("Max-Forwards", &route);
        alice.send(proxy.udp(), &invite);
        let came = bob.hear();
        bob.send(proxy.udp(), reply_as("tb", &came, "100 Trying", ""));
        bob.send(proxy.udp(), reply(&came, "486 Busy Here", ""));
        let acked = bob.hear();
        assert!(acked.first().starts_with("ACK "), "{acked:?}");
        assert_eq!(acked.branch(), came.branch());
        let busy = alice.receive();
        assert_eq!(busy.status(), 486);
        alice.send(proxy.udp(), ack(&invite, &busy));
        // Consumed: nothing more comes to either.
        let (at_bob, at_alice) = proxy.served_behind(&alice, &bob);
        assert!(at_bob.is_empty(), "{at_bob:?}");
        assert!(at_alice.iter().all(|sip| *sip == busy), "{at_alice:?}");
        alice.stays_silent(Duration::from_millis(900));
        for event in proxy.service.log.events() {
            assert!(!["ERROR", "WARN"].contains(&text(&event, "level")), "{event}");
        }
    }
}
