//! Rules 147 to 157: what comes late, twice, or for nobody.

use std::time::{Duration, Instant};

use crate::kit::Setup;
use crate::raw::{TcpPhone, request};
use crate::stage::{CALM, Stage, TO_A, TO_AB, Timers, ack, at_about, cancel};

#[test]
fn sip_r147_a_2xx_after_a_failure_still_goes_up() {
    let stage = Stage::new(2, TO_AB);
    let invite = stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.refuses(0, &came[0], "480 Away");
    stage.refuses(1, &came[1], "486 Busy Here");
    let away = stage.hears("480");
    stage.passes(1, &came[1], "200 OK");
    stage.acks(&invite, &away);
    stage.passes(0, &came[0], "200 OK");
    stage.passes(0, &came[0], "200 OK");
    // Not of another method.
    stage.send(stage.request("MESSAGE", "m1"));
    let came = stage.all_get("MESSAGE");
    stage.says(0, &came[0], "404 Not Found");
    stage.says(1, &came[1], "404 Not Found");
    stage.hears("404");
    stage.says(0, &came[0], "200 OK");
    stage.quiet("m1");
}

#[test]
fn sip_r147_after_a_timeout_too() {
    let stage = Stage::timed(1, Timers { fr: 500, ..Timers::FAR }, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let timeout = stage.hears("408");
    stage.acks(&invite, &timeout);
    stage.passes(0, &came, "200 OK");
}

#[test]
fn sip_r148_a_1xx_after_a_final_does_not_go_up() {
    for last in ["200 OK", "486 Busy Here"] {
        let stage = Stage::new(2, TO_AB);
        let call = &last[..3];
        stage.call(call);
        let came = stage.all_get("INVITE");
        stage.passes(1, &came[1], "180 Ringing");
        stage.says(0, &came[0], last);
        if call == "486" {
            stage.gets(0, "ACK");
            stage.refuses(1, &came[1], "486 Busy Here");
            stage.hears("486");
        } else {
            stage.hears("200");
            stage.gets(1, "CANCEL");
        }
        for (n, invite) in came.iter().enumerate() {
            for status in ["180 Ringing", "183 Session Progress"] {
                stage.says(n, invite, status);
            }
        }
        stage.quiet(call);
    }
}

#[test]
fn sip_r149_a_timeout_of_another_request_is_408() {
    let timers = Timers { t1: 200, t2: 400, fr: 900, ..Timers::FAR };
    let stage = Stage::timed(1, timers, TO_A);
    for method in ["MESSAGE", "BYE"] {
        let begun = Instant::now();
        stage.send(stage.request(method, method));
        let timeout = stage.hears("408");
        at_about(begun, 900);
        assert_eq!(timeout.one("CSeq"), format!("1 {method}"));
        assert!(timeout.to_tag().is_some());
    }
    // RFC 4320 is silent there.
    let router = ", fr-timer-ms = 300, wt-timer-ms = 50, retr-timer1-ms = 100, rfc4320 = true";
    let stage = Stage::with(1, router, TO_A);
    stage.send(stage.request("MESSAGE", "m1"));
    stage.gets(0, "MESSAGE");
    stage.until_gone();
    stage.quiet("m1");
}

#[test]
fn sip_r150_two_branches_of_a_request_are_two_transactions() {
    let stage = Stage::new(1, TO_A);
    let first = stage.request("INVITE", "c1");
    let second = first.replace("bKc1", "bKc2");
    stage.begin(&first);
    let one = stage.gets(0, "INVITE");
    stage.begin(&second);
    let two = stage.gets(0, "INVITE");
    assert_ne!(one.branch(), two.branch());
    for (sip, via) in [(&two, "c2"), (&one, "c1")] {
        let back = stage.passes(0, sip, "180 Ringing");
        assert_eq!(back.one("Via"), stage.alice.via(via));
    }
    assert_eq!(stage.transactions().to_bits(), 2.0_f64.to_bits());
}

#[test]
fn sip_r151_without_the_cookie_the_headers_match() {
    let stage = Stage::new(1, TO_A);
    for (n, branch) in [";branch=1", "", ";branch=z9hG4bK", ";branch=Z9HG"].into_iter().enumerate()
    {
        let call = format!("c{n}");
        let at = stage.alice.at();
        let own = format!("Via: {}", stage.alice.via(&call));
        let invite =
            stage.request("INVITE", &call).replace(&own, &format!("Via: SIP/2.0/UDP {at}{branch}"));
        stage.begin(&invite);
        let came = stage.gets(0, "INVITE");
        // A copy is absorbed.
        stage.send(&invite);
        stage.hears("100");
        stage.quiet_at(0, &call);
        // Another in any of the parts is another request.
        let others = [
            ("CSeq: 1 ", "CSeq: 2 "),
            ("tag=a1", "tag=a2"),
            ("sip:bob@127.0.0.1>", "sip:bob@127.0.0.2>"),
            ("INVITE sip:bob@", "INVITE sip:robert@"),
        ];
        for (from, to) in others {
            stage.begin(&invite.replacen(from, to, 1));
            stage.gets(0, "INVITE");
        }
        stage.passes(0, &came, "180 Ringing");
        // CANCEL and ACK find it.
        stage.cancels(&invite);
        let cancelled = stage.gets(0, "CANCEL");
        assert_eq!(cancelled.branch(), came.branch());
        stage.says(0, &cancelled, "200 OK");
        stage.refuses(0, &came, "487 Request Terminated");
        let ended = stage.hears("487");
        stage.acks(&invite, &ended);
        stage.quiet_at(0, &call);
    }
}

#[test]
fn sip_r154_a_refused_tcp_next_hop_is_477_at_once() {
    let refused = TcpPhone::new().at();
    let lua = format!("function call() fork(\"sip:bob@{refused};transport=tcp\") end");
    let stage = Stage::new(0, &lua);
    let invite = stage.request("INVITE", "c1");
    let begun = Instant::now();
    stage.send(&invite);
    let answer = stage.alice.receive();
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(
        answer.first(),
        "SIP/2.0 477 Unfortunately error on sending to next hop occurred (477/TM)"
    );
    stage.send(ack(&invite, &answer));
    stage.quiet("c1");
}

#[test]
fn sip_r154_in_a_fork_the_others_go_on() {
    let refused = TcpPhone::new().at();
    let lua = format!("function call() fork(\"sip:bob@{refused};transport=tcp\", A) end");
    let stage = Stage::new(1, &lua);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.refuses(0, &came, "486 Busy Here");
    // What could not be sent never wins.
    let busy = stage.hears("486");
    stage.acks(&invite, &busy);
    stage.quiet("c1");
}

#[test]
fn sip_r155_after_wt_timer_a_copy_of_a_2xx_goes_up_without_state() {
    let stage = Stage::timed(1, Timers { wt: 300, ..Timers::FAR }, TO_A);
    let begun = Instant::now();
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let ok = stage.passes(0, &came, "200 OK");
    stage.until_gone();
    at_about(begun, 300);
    assert_eq!(stage.passes(0, &came, "200 OK"), ok);
    // Whatever it is.
    stage.passes(0, &came, "180 Ringing");
    stage.quiet_at(0, "c1");
}

#[test]
fn sip_r156_after_wt_timer_a_copy_of_an_invite_is_a_new_call() {
    let stage = Stage::timed(1, Timers { wt: 300, ..Timers::FAR }, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    stage.passes(0, &came, "200 OK");
    stage.until_gone();
    stage.begin(&invite);
    assert_eq!(stage.gets(0, "INVITE").branch(), came.branch(), "the same, as without state");
}

#[test]
fn sip_r157_a_reply_with_an_unused_branch_index_is_relayed_without_state() {
    let lua = "function call() KSR.tm.t_on_reply(\"replied\") fork(A) end
        function replied() KSR.hdr.append(\"X-Own: 1\\r\\n\") end";
    let stage = Stage::new(1, lua);
    stage.call("c1");
    let mut came = stage.gets(0, "INVITE");
    assert_eq!(stage.passes(0, &came, "180 Ringing").all("X-Own").len(), 1);
    let branch = came.branch();
    let (common, _) = branch.rsplit_once('.').expect("an index");
    let other = came.text().replace(&branch, &format!("{common}.3"));
    came.0 = other.into_bytes();
    for status in ["100 Trying", "183 X", "486 Busy Here", "200 OK"] {
        let back = stage.passes_untagged(&came, status);
        assert!(back.all("X-Own").is_empty(), "{back:?}");
    }
    // Nothing was acknowledged, and the call goes on.
    stage.quiet_at(0, "c1");
    let whole = other_index(&came.text(), common, "0");
    came.0 = whole.into_bytes();
    assert_eq!(stage.passes(0, &came, "486 Busy Here").all("X-Own").len(), 1);
}

fn other_index(text: &str, common: &str, index: &str) -> String {
    text.replace(&format!("{common}.3"), &format!("{common}.{index}"))
}

impl Stage {
    /// A reply of the first callee as it comes to Alice, a 100 too.
    #[track_caller]
    fn passes_untagged(&self, to: &crate::raw::Sip, status: &str) -> crate::raw::Sip {
        self.says(0, to, status);
        self.hears(status)
    }
}

#[test]
fn sip_s2_2_a_reply_of_another_method_or_hash_is_relayed_without_state() {
    let stage = Stage::new(1, TO_A);
    stage.call("c1");
    let came = stage.gets(0, "INVITE");
    for (from, to) in [("CSeq: 1 INVITE", "CSeq: 1 BYE"), ("branch=z9hG4bK", "branch=z9hG4bKf")] {
        let mut other = came.clone();
        other.0 = came.text().replacen(from, to, 1).into_bytes();
        stage.passes(0, &other, "500 Other");
    }
    stage.quiet_at(0, "c1");
    stage.passes(0, &came, "180 Ringing");
}

#[test]
fn sip_s2_8_a_cancel_that_overtakes_its_invite() {
    // Both settings of what an unmatched CANCEL is worth: the script drops it here.
    let stage = Stage::with(1, CALM, TO_A);
    let invite = stage.request("INVITE", "c1");
    stage.send(cancel(&invite));
    stage.begin(&invite);
    stage.gets(0, "INVITE");
    stage.quiet("c1");
}

#[test]
fn sip_s9_above_max_transactions_is_503_with_retry_after() {
    let router = format!("{CALM}, max-transactions = 3");
    let stage = Stage::setup(Setup { router, ..Setup::one_worker() }, 1, TO_A);
    let mut calls = vec![];
    for n in 0..3 {
        stage.call(&format!("c{n}"));
        calls.push(stage.gets(0, "INVITE"));
    }
    for method in ["INVITE", "MESSAGE"] {
        stage.send(stage.request(method, &format!("over{method}")));
        let refused = stage.hears("503");
        assert!(refused.one("Retry-After").parse::<u32>().is_ok_and(|after| after > 0));
        stage.quiet_at(0, &format!("over{method}"));
    }
    let refused = [("node", "routes"), ("reason", "max-transactions")];
    let refused = stage.proxy.service.metric("lineway_sip_transactions_refused_total", &refused);
    assert_eq!(refused.to_bits(), 2.0_f64.to_bits());
    // The calls that are there go on.
    for came in &calls {
        stage.passes(0, came, "180 Ringing");
        stage.passes(0, came, "200 OK");
    }
    // An ACK is never answered.
    stage.send(request(
        "ACK",
        &format!("sip:a@{}", stage.phones[0].at()),
        &stage.alice.via("ack"),
        "over",
    ));
    stage.quiet("over");
}
