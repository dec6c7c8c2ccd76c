//! Rules 63 to 67, 74, 75, 82 and 84: branches side by side.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::raw::Sip;
use crate::stage::{Stage, TO_AB, TO_ABC};

#[test]
fn sip_r063_one_copy_for_each_target_with_its_own_uri_and_branch_sent_together() {
    let stage = Stage::new(3, TO_ABC);
    let begun = Instant::now();
    let invite = stage.call("c1");
    let came = stage.all_get("INVITE");
    assert!(begun.elapsed() < Duration::from_secs(2), "one after the other");
    let mut branches = HashSet::new();
    for (n, (sip, name)) in came.iter().zip(["a", "b", "c"]).enumerate() {
        let uri = format!("sip:{name}@{}", stage.phones[n].at());
        assert_eq!(sip.first(), format!("INVITE {uri} SIP/2.0"));
        assert!(branches.insert(sip.branch()));
        // The rest is the same.
        let rest = String::from_utf8(sip.without_line(1)).expect("text");
        assert_eq!(rest.split_once("\r\n").unwrap().1, invite.split_once("\r\n").unwrap().1);
    }
    let common: HashSet<_> = came
        .iter()
        .enumerate()
        .map(|(n, sip)| {
            let branch = sip.branch();
            let (common, index) = branch.rsplit_once('.').expect("an index");
            assert_eq!(index, n.to_string());
            common.to_owned()
        })
        .collect();
    assert_eq!(common.len(), 1, "only the index differs: {branches:?}");
}

/// A fork that rings everywhere.
#[track_caller]
fn ringing(stage: &Stage, call: &str) -> (String, Vec<Sip>) {
    let invite = stage.call(call);
    let came = stage.all_get("INVITE");
    for (n, sip) in came.iter().enumerate() {
        stage.passes(n, sip, "180 Ringing");
    }
    (invite, came)
}

#[test]
fn sip_r064_the_first_2xx_goes_up_once() {
    let stage = Stage::new(3, TO_ABC);
    let (_, came) = ringing(&stage, "c1");
    stage.passes(1, &came[1], "200 OK");
    stage.quiet("c1");
    for n in [0, 2] {
        stage.gets(n, "CANCEL");
        stage.refuses(n, &came[n], "487 Request Terminated");
    }
    stage.quiet("c1");
    stage.quiet_at(1, "c1");
}

#[test]
fn sip_r065_the_others_get_cancel_with_the_reason() {
    let stage = Stage::new(3, TO_ABC);
    let (_, came) = ringing(&stage, "c1");
    stage.passes(1, &came[1], "200 OK");
    for n in [0, 2] {
        let cancel = stage.gets(n, "CANCEL");
        assert_eq!(cancel.one("Reason"), "SIP ;cause=200 ;text=\"Call completed elsewhere\"");
        assert_eq!(cancel.branch(), came[n].branch());
        assert_eq!(cancel.one("CSeq"), "1 CANCEL");
        let uri = came[n].first().replace("INVITE ", "CANCEL ");
        assert_eq!(cancel.first(), uri);
    }
    stage.quiet_at(1, "c1");
    // One that had ended is left alone.
    let (_, came) = ringing(&stage, "c2");
    stage.refuses(0, &came[0], "486 Busy Here");
    stage.passes(1, &came[1], "200 OK");
    stage.gets(2, "CANCEL");
    stage.quiet_at(0, "c2");
}

#[test]
fn sip_r066_their_487_are_acknowledged_and_hidden() {
    let stage = Stage::new(3, TO_ABC);
    let (_, came) = ringing(&stage, "c1");
    stage.passes(0, &came[0], "200 OK");
    for n in [1, 2] {
        let cancel = stage.gets(n, "CANCEL");
        stage.says(n, &cancel, "200 OK");
        for _ in 0..2 {
            stage.refuses(n, &came[n], "487 Request Terminated");
        }
    }
    // Another failure is, too, and a 481 to the CANCEL.
    stage.quiet("c1");
    let (_, came) = ringing(&stage, "c2");
    stage.passes(0, &came[0], "200 OK");
    let cancel = stage.gets(1, "CANCEL");
    stage.says(1, &cancel, "481 Unknown");
    stage.refuses(1, &came[1], "603 Decline");
    stage.quiet("c2");
}

#[test]
fn sip_r067_a_branch_without_provisional_gets_its_cancel_when_it_speaks() {
    let stage = Stage::new(3, TO_ABC);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.passes(0, &came[0], "200 OK");
    stage.quiet_at(1, "c1");
    stage.quiet_at(2, "c1");
    stage.says(1, &came[1], "180 Ringing");
    let cancel = stage.gets(1, "CANCEL");
    assert_eq!(cancel.branch(), came[1].branch());
    assert!(cancel.one("Reason").contains("cause=200"));
    stage.says(2, &came[2], "100 Trying");
    stage.gets(2, "CANCEL");
    stage.quiet("c1");
}

#[test]
fn sip_r067_it_is_not_sent_again_when_it_was_given_up() {
    let timers = crate::stage::Timers { t1: 300, t2: 300, wt: 60_000, ..crate::stage::Timers::FAR };
    let stage = Stage::timed(2, timers, TO_AB);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    stage.says(0, &came[0], "200 OK");
    stage.hears("200");
    stage.quiet_at(0, "c1");
    // What was on its way before the answer.
    while stage.phones[1].has_some() {
        stage.gets(1, "INVITE");
    }
    stage.phones[1].stays_silent(Duration::from_secs(1));
}

#[test]
fn sip_r074_a_6xx_cancels_the_rest_and_waits_for_them() {
    let stage = Stage::new(3, TO_ABC);
    let (invite, came) = ringing(&stage, "c1");
    stage.refuses(1, &came[1], "603 Decline");
    for n in [0, 2] {
        let cancel = stage.gets(n, "CANCEL");
        stage.says(n, &cancel, "200 OK");
    }
    stage.quiet("c1");
    stage.refuses(0, &came[0], "487 Request Terminated");
    stage.quiet("c1");
    stage.refuses(2, &came[2], "486 Busy Here");
    let declined = stage.hears("603");
    assert_eq!(declined.to_tag().as_deref(), Some("t1"));
    stage.acks(&invite, &declined);
    stage.quiet("c1");
}

#[test]
fn sip_r075_a_2xx_after_a_6xx_still_wins() {
    let stage = Stage::new(3, TO_ABC);
    let (_, came) = ringing(&stage, "c1");
    stage.refuses(0, &came[0], "600 Busy Everywhere");
    stage.gets(1, "CANCEL");
    stage.gets(2, "CANCEL");
    stage.passes(1, &came[1], "200 OK");
    stage.refuses(2, &came[2], "487 Request Terminated");
    stage.quiet("c1");
}

#[test]
fn sip_r082_provisionals_of_all_branches_go_up() {
    let stage = Stage::new(3, TO_ABC);
    stage.call("c1");
    let came = stage.all_get("INVITE");
    for (n, status) in [(2, "180 Ringing"), (0, "183 X"), (1, "180 Ringing"), (0, "180 Ringing")] {
        stage.passes(n, &came[n], status);
    }
    // Also while another has failed.
    stage.refuses(1, &came[1], "486 Busy Here");
    stage.passes(2, &came[2], "183 X");
}

#[test]
fn sip_r084_of_other_requests_the_first_2xx_wins_and_nothing_is_cancelled() {
    let stage = Stage::new(3, TO_ABC);
    let message = stage.request("MESSAGE", "m1");
    stage.send(&message);
    let came = stage.all_get("MESSAGE");
    stage.says(0, &came[0], "404 Not Found");
    stage.passes(2, &came[2], "183 Working");
    let ok = stage.passes(1, &came[1], "202 Accepted");
    stage.says(2, &came[2], "200 OK");
    stage.says(1, &came[1], "202 Accepted");
    stage.says(0, &came[0], "404 Not Found");
    stage.quiet("m1");
    for n in 0..3 {
        stage.quiet_at(n, "m1");
    }
    stage.send(&message);
    assert_eq!(stage.alice.hear(), ok);
}

#[test]
fn sip_r084_without_a_2xx_the_best_failure_goes_up_and_nothing_is_acknowledged() {
    let stage = Stage::new(2, TO_AB);
    stage.send(stage.request("MESSAGE", "m1"));
    let came = stage.all_get("MESSAGE");
    stage.says(0, &came[0], "486 Busy Here");
    stage.quiet("m1");
    stage.says(1, &came[1], "404 Not Found");
    assert_eq!(stage.hears("404").to_tag().as_deref(), Some("t1"));
    for n in 0..2 {
        stage.quiet_at(n, "m1");
    }
    // A 6xx does not cancel the others, which are waited for.
    stage.send(stage.request("MESSAGE", "m2"));
    let came = stage.all_get("MESSAGE");
    stage.says(0, &came[0], "603 Decline");
    stage.quiet("m2");
    stage.quiet_at(1, "m2");
    stage.passes(1, &came[1], "200 OK");
}
