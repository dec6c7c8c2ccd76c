//! Rules 30 to 41: what is absorbed, what is sent again, what times out.

use std::time::{Duration, Instant};

use crate::raw::Sip;
use crate::stage::{Stage, TO_A, Timers, at_about};

#[test]
fn sip_r030_invite_gets_100_within_200_ms_without_a_to_tag() {
    let stage = Stage::new(1, TO_A);
    let mut best = Duration::MAX;
    for n in 0..5 {
        let begun = Instant::now();
        stage.send(stage.request("INVITE", &format!("c{n}")));
        let trying = stage.hears("100");
        best = best.min(begun.elapsed());
        assert_eq!(trying.one("To"), "<sip:bob@127.0.0.1>");
        assert_eq!(trying.one("CSeq"), "1 INVITE");
    }
    assert!(best < Duration::from_millis(200), "{best:?}");
    // Others get none.
    for method in ["MESSAGE", "OPTIONS", "FROB"] {
        stage.send(stage.request(method, method));
        while !stage.at(0).first().starts_with(method) {}
        stage.quiet(method);
    }
}

#[test]
fn sip_r031_reason_and_headers_of_the_100() {
    let stage = Stage::new(1, TO_A);
    let port = stage.alice.at().port();
    let via = format!("Via: {}", stage.alice.via("c1"));
    let asked = "Via: SIP/2.0/UDP 10.0.0.1:7;rport;branch=z9hG4bKc1";
    let second = "Via: SIP/2.0/TCP b.example;x=1";
    let invite = stage
        .request("INVITE", "c1")
        .replace(&via, &format!("{asked}\r\n{second}"))
        .replace("Contact", "Subject: s\r\nRecord-Route: <sip:192.0.2.1;lr>\r\nContact");
    stage.send(invite);
    let trying = stage.hears("100");
    let mut lines = trying.lines();
    let server = lines.iter().position(|line| line.starts_with("Server: ")).expect("Server");
    lines.remove(server);
    assert_eq!(
        lines,
        [
            "SIP/2.0 100 trying -- your call is important to us".to_owned(),
            format!("Via: SIP/2.0/UDP 10.0.0.1:7;received=127.0.0.1;rport={port};branch=z9hG4bKc1"),
            second.to_owned(),
            "From: <sip:alice@127.0.0.1>;tag=a1".to_owned(),
            "To: <sip:bob@127.0.0.1>".to_owned(),
            "Call-ID: c1".to_owned(),
            "CSeq: 1 INVITE".to_owned(),
            "Content-Length: 0".to_owned(),
        ]
    );
    assert!(trying.body().is_empty());
}

#[test]
fn sip_r032_copies_of_an_invite_are_absorbed_and_get_the_last_provisional() {
    let stage = Stage::new(1, TO_A);
    let invite = stage.request("INVITE", "c1");
    stage.send(&invite);
    let trying = stage.hears("100");
    let came = stage.gets(0, "INVITE");
    for _ in 0..2 {
        stage.send(&invite);
        assert_eq!(stage.alice.hear(), trying);
    }
    stage.quiet_at(0, "c1");
    for status in ["180 Ringing", "183 Session Progress"] {
        let last = stage.passes(0, &came, status);
        for _ in 0..2 {
            stage.send(&invite);
            assert_eq!(stage.alice.hear(), last);
        }
    }
    // 100 from below is none that was sent up.
    stage.says(0, &came, "100 Trying");
    stage.send(&invite);
    stage.hears("183");
    stage.quiet_at(0, "c1");
    stage.quiet("c1");
}

#[test]
fn sip_r033_other_copies_are_absorbed_in_silence_and_get_the_final() {
    let stage = Stage::new(1, TO_A);
    for method in ["MESSAGE", "BYE", "REGISTER", "FROB"] {
        let sent = stage.request(method, method);
        stage.send(&sent);
        let came = stage.gets(0, method);
        for _ in 0..2 {
            stage.send(&sent);
            stage.quiet(method);
        }
        stage.quiet_at(0, method);
        let last = stage.passes(0, &came, "202 Accepted");
        for _ in 0..3 {
            stage.send(&sent);
            assert_eq!(stage.alice.hear(), last);
        }
        stage.quiet_at(0, method);
    }
}

#[test]
fn sip_r034_invite_is_sent_again_at_t1_and_3_t1_with_the_same_bytes() {
    let timers = Timers { t1: 200, t2: 4000, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let begun = Instant::now();
    stage.call("c1");
    let first = stage.gets(0, "INVITE");
    for after in [200, 600, 1400] {
        assert_eq!(stage.at(0), first);
        at_about(begun, after);
    }
    let copies = [("node", "routes"), ("what", "request")];
    let counted = || stage.proxy.service.metric("lineway_sip_retransmissions_total", &copies);
    crate::common::until("they are counted", || counted() >= 3.0);
}

#[test]
fn sip_r034_nothing_is_sent_again_over_tcp() {
    let timers = Timers { t1: 50, t2: 100, fr: 600, ..Timers::FAR };
    let bob = crate::raw::TcpPhone::new();
    let lua = format!("function call() fork(\"sip:bob@{};transport=tcp\") end", bob.at());
    let stage = Stage::timed(0, timers, &lua);
    stage.call("c1");
    let mut line = bob.accept();
    line.receive();
    // It would have been sent several times by then.
    stage.hears("408");
    assert!(!line.has_some());
}

#[test]
fn sip_r035_a_provisional_stops_that() {
    // The CANCEL behind the last timer is what comes next.
    let timers = Timers { t1: 400, t2: 4000, fr_inv: 1800, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    for (call, status) in [("c1", "100 Trying"), ("c2", "183 Session Progress")] {
        stage.call(call);
        let came = stage.gets(0, "INVITE");
        stage.says(0, &came, status);
        let cancel = stage.gets(0, "CANCEL");
        stage.says(0, &cancel, "200 OK");
        if status.starts_with("183") {
            stage.hears("183");
        }
        stage.hears("408");
    }
}

/// When copies come after `since`, in milliseconds.
fn copies(stage: &Stage, first: &Sip, since: Instant, count: usize) -> Vec<u128> {
    let copy = |_| {
        assert_eq!(stage.at(0), *first);
        since.elapsed().as_millis()
    };
    (0..count).map(copy).collect()
}

#[test]
fn sip_r036_after_a_provisional_others_are_sent_again_every_t2() {
    let timers = Timers { t1: 100, t2: 700, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    stage.send(stage.request("MESSAGE", "m1"));
    let came = stage.gets(0, "MESSAGE");
    let begun = Instant::now();
    stage.says(0, &came, "183 Working");
    // Without it the second would come at 300.
    let times = copies(&stage, &came, begun, 3);
    assert!(times[1] >= 700 && times[2] >= 1400 && times[2] < 6000, "{times:?}");
    stage.says(0, &came, "200 OK");
    stage.hears("183");
    stage.hears("200");
}

#[test]
fn sip_r037_the_spacing_is_capped_at_t2_for_invite_too() {
    let timers = Timers { t1: 100, t2: 200, fr: 1500, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let begun = Instant::now();
    stage.call("c1");
    let first = stage.gets(0, "INVITE");
    let times = copies(&stage, &first, begun, 5);
    for (time, least) in times.iter().zip([100, 300, 500, 700, 900]) {
        assert!(*time >= least, "{times:?}");
    }
    // Doubling without end three would have come by now.
    assert!(!stage.alice.has_some(), "{times:?}");
    stage.hears("408");
    at_about(begun, 1500);
}

#[test]
fn sip_r038_silence_is_408_after_fr_timer_without_cancel() {
    let timers = Timers { t1: 200, t2: 4000, fr: 800, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let begun = Instant::now();
    let invite = stage.call("c1");
    let first = stage.gets(0, "INVITE");
    let timeout = stage.hears("408");
    at_about(begun, 800);
    assert_eq!(timeout.first(), "SIP/2.0 408 Request Timeout");
    assert!(timeout.to_tag().is_some_and(|tag| !tag.is_empty()), "{timeout:?}");
    stage.acks(&invite, &timeout);
    // Copies alone, and none from here on.
    copies(&stage, &first, begun, 2);
    stage.quiet_at(0, "c1");
    stage.phones[0].stays_silent(Duration::from_millis(900));
}

#[test]
fn sip_r039_ringing_only_is_cancel_and_408_after_fr_inv_timer() {
    let timers = Timers { fr_inv: 700, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let begun = Instant::now();
    stage.passes(0, &came, "180 Ringing");
    let cancel = stage.gets(0, "CANCEL");
    at_about(begun, 700);
    assert_eq!(cancel.branch(), came.branch());
    let timeout = stage.hears("408");
    assert!(timeout.to_tag().is_some_and(|tag| tag != "t0"), "{timeout:?}");
    stage.acks(&invite, &timeout);
    stage.says(0, &cancel, "200 OK");
    // The late one is acknowledged and hidden.
    stage.refuses(0, &came, "487 Request Terminated");
    stage.refuses(0, &came, "487 Request Terminated");
    stage.quiet("c1");
    stage.quiet_at(0, "c1");
}

#[test]
fn sip_r040_each_provisional_starts_fr_inv_timer_again() {
    let timers = Timers { fr_inv: 1000, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let mut begun = Instant::now();
    for status in ["180 Ringing", "180 Ringing", "183 Session Progress"] {
        begun = Instant::now();
        stage.passes(0, &came, status);
        if status.starts_with("180") {
            stage.phones[0].stays_silent(Duration::from_millis(600));
        }
    }
    stage.gets(0, "CANCEL");
    at_about(begun, 1000);
    stage.hears("408");
}

#[test]
fn sip_r041_a_failure_is_repeated_to_the_caller_until_its_ack() {
    let timers = Timers { t1: 200, t2: 4000, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let begun = Instant::now();
    stage.says(0, &came, "486 Busy Here");
    let busy = stage.hears("486");
    for after in [200, 600] {
        assert_eq!(stage.alice.hear(), busy);
        at_about(begun, after);
    }
    stage.acks(&invite, &busy);
    // One may have been on its way; the next would come at 1400.
    while stage.alice.has_some() {
        assert_eq!(stage.alice.hear(), busy);
    }
    stage.alice.stays_silent(Duration::from_millis(1200));
    stage.quiet("c1");
}

#[test]
fn sip_r041_a_failure_without_ack_ends_with_fr_timer() {
    let timers = Timers { t1: 100, t2: 200, fr: 900, wt: 100, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.refuses(0, &came, "486 Busy Here");
    let busy = stage.hears("486");
    stage.until_gone();
    let mut copies = 0;
    while stage.alice.has_some() {
        assert_eq!(stage.alice.hear(), busy);
        copies += 1;
    }
    assert!((2..=5).contains(&copies), "{copies}");
    stage.quiet("c1");
}

#[test]
fn sip_r041_a_failure_is_not_repeated_over_tcp() {
    let timers = Timers { t1: 50, t2: 100, fr: 600, wt: 50, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    let mut alice = crate::raw::Tcp::connect(stage.proxy.tcp());
    alice.send(crate::raw::request("INVITE", "sip:bob@x", &alice.via("c1"), "c1"));
    let came = stage.gets(0, "INVITE");
    stage.refuses(0, &came, "486 Busy Here");
    assert_eq!(alice.hear().status(), 100);
    assert_eq!(alice.receive().status(), 486);
    stage.until_gone();
    assert!(!alice.has_some());
}
