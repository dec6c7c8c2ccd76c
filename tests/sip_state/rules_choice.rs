//! Rules 68 to 73, 76 to 81 and 83: which failure goes up, and as what. S-07 is among them.

use crate::kit::fresh;
use crate::raw::Sip;
use crate::stage::{CALM, Stage, TO_A, TO_AB, TO_ABC, Timers};

/// Header lines that a refusal needs.
fn more(code: u16, phone: usize) -> String {
    match code {
        401 => format!("WWW-Authenticate: Digest realm=\"r{phone}\", nonce=\"n\"\r\n"),
        407 => format!("Proxy-Authenticate: Digest realm=\"r{phone}\", nonce=\"n\"\r\n"),
        300..=399 => "Contact: <sip:elsewhere@192.0.2.1>\r\n".to_owned(),
        503 => "Retry-After: 7\r\n".to_owned(),
        _ => String::new(),
    }
}

/// All branches of a call end with these codes, in this order of branches; what goes up, when all
/// have ended and not before.
#[track_caller]
fn choice(stage: &Stage, codes: &[u16], order: &[usize]) -> Sip {
    let call = fresh("call");
    let invite = stage.call(&call);
    let came = stage.all_get("INVITE");
    for (place, &n) in order.iter().enumerate() {
        if place > 0 {
            stage.quiet(&call);
        }
        stage.says_more(n, &came[n], &format!("{} R{n}", codes[n]), &more(codes[n], n));
        stage.gets(n, "ACK");
    }
    let up = stage.alice.hear();
    stage.acks(&invite, &up);
    stage.quiet(&call);
    up
}

/// The code that goes up, by whichever order they come in and whichever branch has which.
#[track_caller]
fn winner_of_two(stage: &Stage, one: u16, other: u16) -> u16 {
    let mut codes = vec![];
    for branches in [[one, other], [other, one]] {
        for order in [[0, 1], [1, 0]] {
            codes.push(choice(stage, &branches, &order).status());
        }
    }
    codes.dedup();
    assert_eq!(codes.len(), 1, "{one} and {other}: {codes:?}");
    codes[0]
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn sip_r068_the_lowest_4xx_whatever_the_order() {
    let stage = Stage::new(3, TO_ABC);
    for order in ORDERS {
        let up = choice(&stage, &[486, 503, 480], &order);
        assert_eq!(up.first(), "SIP/2.0 480 R2", "{order:?}");
        assert_eq!(up.to_tag().as_deref(), Some("t2"), "as it came");
        assert_eq!(up.all("Via").len(), 1);
    }
}

#[test]
fn sip_r069_what_can_be_mended_beats_other_4xx() {
    let stage = Stage::new(2, TO_AB);
    for mendable in [401, 407, 415, 420, 484] {
        for other in [400, 403, 404, 486] {
            assert_eq!(winner_of_two(&stage, mendable, other), mendable, "{other}");
        }
    }
    // Among them the lowest.
    assert_eq!(winner_of_two(&stage, 484, 415), 415);
    assert_eq!(winner_of_two(&stage, 420, 401), 401);
}

#[test]
fn sip_r070_3xx_beats_4xx_and_5xx() {
    let stage = Stage::new(2, TO_AB);
    for redirect in [300, 302, 380] {
        for other in [400, 401, 486, 500, 503] {
            assert_eq!(winner_of_two(&stage, redirect, other), redirect, "{other}");
        }
    }
    assert_eq!(winner_of_two(&stage, 302, 300), 300);
}

#[test]
fn sip_r071_6xx_beats_all_other_failures() {
    let stage = Stage::new(2, TO_AB);
    for other in [300, 302, 401, 404, 486, 500, 503] {
        assert_eq!(winner_of_two(&stage, 603, other), 603, "{other}");
    }
    assert_eq!(winner_of_two(&stage, 604, 600), 600);
}

#[test]
fn sip_r072_5xx_comes_last_the_lowest_first() {
    let stage = Stage::new(2, TO_AB);
    for other in [302, 400, 404, 486, 499, 603] {
        assert_eq!(winner_of_two(&stage, 500, other), other);
    }
    assert_eq!(winner_of_two(&stage, 502, 501), 501);
    assert_eq!(winner_of_two(&stage, 580, 504), 504);
}

#[test]
fn sip_r073_a_tie_goes_to_the_lowest_branch() {
    let stage = Stage::new(3, TO_ABC);
    for order in ORDERS {
        let up = choice(&stage, &[486, 480, 480], &order);
        assert_eq!(up.to_tag().as_deref(), Some("t1"), "{order:?}");
        let up = choice(&stage, &[500, 500, 500], &order);
        assert_eq!(up.to_tag().as_deref(), Some("t0"), "{order:?}");
    }
}

#[test]
fn sip_r076_the_challenges_of_all_401_and_407_branches_are_merged() {
    let stage = Stage::new(3, TO_ABC);
    for order in ORDERS {
        let up = choice(&stage, &[407, 401, 407], &order);
        assert_eq!(up.status(), 401);
        let sorted = |name: &str| {
            let mut all = up.all(name);
            all.sort();
            all
        };
        assert_eq!(sorted("WWW-Authenticate"), ["Digest realm=\"r1\", nonce=\"n\""]);
        assert_eq!(
            sorted("Proxy-Authenticate"),
            ["Digest realm=\"r0\", nonce=\"n\"", "Digest realm=\"r2\", nonce=\"n\""]
        );
    }
    // What has won is a challenge, one of two.
    let up = choice(&stage, &[404, 401, 401], &[2, 0, 1]);
    assert_eq!((up.status(), up.all("WWW-Authenticate").len()), (401, 2));
    // And not where something better has.
    let up = choice(&stage, &[302, 401, 401], &[2, 0, 1]);
    assert_eq!((up.status(), up.all("WWW-Authenticate").len()), (302, 0));
}

#[test]
fn sip_r077_that_reply_is_made_here() {
    let stage = Stage::new(2, TO_AB);
    let up = choice(&stage, &[401, 407], &[0, 1]);
    let tag = up.to_tag().expect("a tag");
    assert!(tag.len() == 41 && tag.as_bytes()[32] == b'-', "{tag}");
    assert_eq!(up.one("Call-ID").get(..4), Some("call"));
}

#[test]
fn sip_r078_a_single_401_is_relayed_untouched() {
    let stage = Stage::new(2, TO_AB);
    for branches in [[401, 486], [486, 401], [407, 500]] {
        let up = choice(&stage, &branches, &[0, 1]);
        let n = branches.iter().position(|code| [401, 407].contains(code)).expect("one");
        assert_eq!(up.first(), format!("SIP/2.0 {} R{n}", branches[n]));
        assert_eq!(up.to_tag(), Some(format!("t{n}")));
        let lines = up.text();
        assert!(lines.contains(&more(branches[n], n)), "{up:?}");
        assert!(up.all("Server").is_empty(), "{up:?}");
    }
}

#[test]
fn sip_r079_503_goes_up_as_500_with_an_own_to_tag() {
    let stage = Stage::new(2, TO_AB);
    for codes in [[503, 503], [503, 504], [504, 503]] {
        let up = choice(&stage, &codes, &[0, 1]);
        assert_eq!(up.status(), 500);
        assert!(up.to_tag().is_some_and(|tag| !["t0", "t1"].contains(&&*tag)), "{up:?}");
        assert!(up.all("Retry-After").is_empty(), "{up:?}");
    }
    // As it is, by the setting.
    let stage = Stage::with(1, &format!("{CALM}, relay-503 = true"), TO_A);
    let up = choice(&stage, &[503], &[0]);
    assert_eq!((up.first().as_str(), up.one("Retry-After").as_str()), ("SIP/2.0 503 R0", "7"));
    assert_eq!(up.to_tag().as_deref(), Some("t0"));
}

#[test]
fn sip_r080_its_reason_is_service_unavailable() {
    let stage = Stage::new(1, TO_A);
    assert_eq!(choice(&stage, &[503], &[0]).first(), "SIP/2.0 500 Service Unavailable");
}

#[test]
fn sip_r081_3xx_is_relayed_and_not_followed() {
    let stage = Stage::new(1, TO_A);
    let invite = stage.call("c1");
    let came = stage.gets(0, "INVITE");
    let to_itself = format!("Contact: <sip:a@{}>\r\n", stage.phones[0].at());
    stage.says_more(0, &came, "302 Moved", &to_itself);
    stage.gets(0, "ACK");
    let moved = stage.hears("302 Moved");
    assert!(moved.text().contains(&to_itself), "{moved:?}");
    stage.acks(&invite, &moved);
    stage.quiet_at(0, "c1");
}

/// One branch is silent; the other ends with this.
#[track_caller]
fn beside_silence(router: &str, code: u16) -> Sip {
    let lua = "function call() KSR.tm.t_set_fr(0, 700) fork(A, B) end";
    let stage = Stage::with(2, &format!("{CALM}{router}"), lua);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.says(1, &came[1], &format!("{code} R1"));
    stage.gets(1, "ACK");
    stage.quiet("c1");
    stage.alice.hear()
}

#[test]
fn sip_r083_a_silent_branch_is_a_408_in_the_choice() {
    for (code, wins) in [(486, 408), (404, 404), (500, 408), (302, 302), (401, 401), (603, 603)] {
        let up = beside_silence("", code);
        assert_eq!(up.status(), wins, "{code}");
        if wins == 408 {
            assert_eq!(up.first(), "SIP/2.0 408 Request Timeout");
            assert!(up.to_tag().is_some_and(|tag| tag.len() == 41), "{up:?}");
        } else {
            assert_eq!(up.to_tag().as_deref(), Some("t1"));
        }
    }
}

/// The choice where the first branch timed out before the second ended.
#[track_caller]
fn silence_first(router: &str, code: u16) -> u16 {
    // It has rung, so that it has the longer time.
    let timers = Timers { fr: 500, ..Timers::FAR };
    let Timers { t1, t2, fr, fr_inv, .. } = timers;
    let router = format!(
        ", retr-timer1-ms = {t1}, retr-timer2-ms = {t2}, fr-timer-ms = {fr}, fr-inv-timer-ms = \
         {fr_inv}{router}"
    );
    let lua = "function call() KSR.tm.t_on_branch_failure(\"failed\") fork(A, B) end
        function failed() KSR.info(\"a branch failed\") end";
    let stage = Stage::with(2, &router, lua);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.passes(1, &came[1], "180 Ringing");
    stage.proxy.service.log.wait("the timeout", |event| {
        crate::common::text(event, "message").contains("a branch failed")
    });
    stage.says(1, &came[1], &format!("{code} R1"));
    stage.gets(1, "ACK");
    stage.alice.hear().status()
}

#[test]
fn case_s07_which_failure_wins() {
    let stage = Stage::new(2, TO_AB);
    // Both ways round, both branches.
    for (a, b, expected) in [
        (480, 486, 480),
        (404, 500, 404),
        (302, 486, 302),
        (603, 302, 603),
        (407, 404, 407),
        (484, 401, 401),
        (503, 500, 500),
    ] {
        assert_eq!(winner_of_two(&stage, a, b), expected, "{a} and {b}");
    }
    // A local timeout, last and first.
    assert_eq!(beside_silence("", 486).status(), 408);
    assert_eq!(silence_first("", 486), 408);
    // Real replies alone, by the setting.
    assert_eq!(silence_first(", prefer-real-replies = true", 486), 486);
}

#[test]
fn case_s07_a_503_that_wins_is_500_unless_it_may_pass() {
    let stage = Stage::new(2, TO_AB);
    for order in [[0, 1], [1, 0]] {
        let up = choice(&stage, &[503, 504], &order);
        assert_eq!(up.first(), "SIP/2.0 500 Service Unavailable");
    }
    let stage = Stage::with(2, &format!("{CALM}, relay-503 = true"), TO_AB);
    for order in [[0, 1], [1, 0]] {
        let up = choice(&stage, &[503, 504], &order);
        assert_eq!((up.status(), up.to_tag().as_deref()), (503, Some("t0")));
    }
}
