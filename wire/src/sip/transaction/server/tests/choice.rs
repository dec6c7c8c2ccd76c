//! Which reply goes up (contract 2.7, 2.9).

use super::*;
use crate::sip::transaction::server::CancelWhy::{Answered, Refused};

/// Both orders of arrival give the same.
fn choose(start: TransactionStart, codes: [u16; 2]) -> String {
    let mut outcome = [[0, 1], [1, 0]].map(|order| {
        let mut call = Call::of(start, 2);
        for branch in order {
            assert_eq!(call.went_up(), [""; 0], "too early");
            match codes[usize::from(branch)] {
                0 => call.times_out(branch),
                code => call.says(branch, code),
            };
        }
        let mut up = call.went_up();
        assert_eq!(up.len(), 1, "{codes:?}: {up:?}");
        up.remove(0)
    });
    assert_eq!(outcome[0], outcome[1], "{codes:?}");
    std::mem::take(&mut outcome[0])
}

#[test]
fn case_s07_the_ranking() {
    for (a, b, expected) in [
        (480, 486, "480 of 0"),
        (404, 500, "404 of 0"),
        (302, 486, "302 of 0"),
        (603, 302, "603 of 0"),
        (407, 404, "407 of 0"),
        (484, 401, "401 of 1"),
        (503, 500, "500 of 1"),
        (0, 486, "408 Request Timeout"),
    ] {
        assert_eq!(choose(INVITE, [a, b]), expected, "{a} {b}");
        assert_eq!(choose(OTHER, [a, b]), expected, "{a} {b}");
    }
}

#[test]
fn sip_r068_the_lowest_4xx_whatever_the_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut call = Call::of(INVITE, 3);
        for branch in order {
            call.says(branch, [486, 503, 480][usize::from(branch)]);
        }
        assert_eq!(call.went_up(), ["480 of 2"], "{order:?}");
    }
}

#[test]
fn sip_r069_what_the_caller_can_mend_beats_other_4xx() {
    for code in [401, 407, 415, 420, 484] {
        assert_eq!(choose(INVITE, [400, code]), format!("{code} of 1"));
    }
}

#[test]
fn sip_r070_3xx_beats_4xx_and_5xx() {
    for other in [400, 401, 486, 500, 503] {
        assert_eq!(choose(INVITE, [other, 399]), "399 of 1");
    }
}

#[test]
fn sip_r071_6xx_beats_all_others() {
    for other in [300, 302, 400, 401, 500, 700] {
        assert_eq!(choose(INVITE, [other, 699]), "699 of 1");
    }
}

#[test]
fn sip_r072_5xx_last_and_the_lowest_first() {
    assert_eq!(choose(INVITE, [501, 499]), "499 of 1");
    assert_eq!(choose(INVITE, [504, 501]), "501 of 1");
    assert_eq!(choose(INVITE, [700, 599]), "599 of 1", "what is none of these comes behind");
}

#[test]
fn sip_r073_the_lowest_branch_of_equal_ones() {
    assert_eq!(choose(INVITE, [486, 486]), "486 of 0");
    assert_eq!(choose(OTHER, [404, 404]), "404 of 0");
}

#[test]
fn sip_r064_r065_the_first_2xx_goes_up_and_the_others_are_cancelled() {
    let mut call = Call::of(INVITE, 3);
    call.says(0, 180).says(1, 180).says(1, 200);
    assert_eq!(
        call.did(),
        ["180 of 0", "180 of 1", "200 of 1", &cancel(0, Answered), &cancel(2, Answered), "settle",]
    );
    call.says(0, 487).says(2, 487);
    assert_eq!(call.did(), [""; 0], "R66");
    assert_eq!(call.tm.open(), 0);
}

#[test]
fn sip_r046_r050_every_2xx_of_an_invite_goes_up() {
    let mut call = Call::of(INVITE, 2);
    call.says(0, 200).did();
    call.says(0, 200).says(1, 200).says(1, 200);
    assert_eq!(call.did(), ["200 of 0", "200 of 1", "200 of 1"], "nothing is settled twice");
}

#[test]
fn case_s01_two_phones_answer_in_the_same_moment() {
    let mut call = Call::of(INVITE, 2);
    call.says(0, 180).says(1, 180).says(0, 200);
    call.after(ms(20));
    call.says(1, 200);
    let cancels = call.log.iter().filter(|line| line.starts_with("cancel")).count();
    assert_eq!(cancels, 1);
    assert_eq!(call.went_up(), ["180 of 0", "180 of 1", "200 of 0", "200 of 1"]);
    call.after(secs(5));
    assert_eq!(call.did(), ["over"]);
    call.says(1, 200);
    assert_eq!(call.did(), [""; 0], "it is not here any more: stateless forwarding");
}

#[test]
fn sip_r051_r082_provisionals_of_all_branches_go_up() {
    for start in [INVITE, OTHER] {
        let mut call = Call::of(start, 2);
        call.says(0, 180).says(1, 183).says(0, 180).says(1, 182);
        assert_eq!(call.did(), ["180 of 0", "183 of 1", "180 of 0", "182 of 1"]);
    }
}

#[test]
fn sip_r148_no_provisional_behind_a_final() {
    let mut call = Call::of(INVITE, 2);
    call.says(0, 200).did();
    call.says(1, 180);
    assert_eq!(call.did(), [""; 0]);
    assert!(!call.tm.may_reply(180) && !call.tm.may_reply(486) && call.tm.may_reply(200));
    call.tm.replied(180, "180".into(), true, call.now);
    assert_eq!(call.tm.status(), 200, "it does not count as one");
}

#[test]
fn sip_r148_no_provisional_of_a_branch_with_its_final() {
    let mut call = Call::of(INVITE, 2);
    call.says(0, 486).says(0, 180);
    assert_eq!(call.did(), [""; 0]);
}

#[test]
fn sip_r074_6xx_cancels_the_rest_and_waits_for_them() {
    let mut call = Call::of(INVITE, 3);
    call.says(0, 180).says(1, 603);
    assert_eq!(call.did(), ["180 of 0", &cancel(0, Refused), &cancel(2, Refused)]);
    call.says(0, 180);
    assert_eq!(call.did(), [""; 0], "a branch that was cancelled does not ring");
    call.says(0, 487);
    assert_eq!(call.did(), [""; 0]);
    call.says(2, 606);
    assert_eq!(call.did(), ["failed 1 603", "603 of 1", "settle"]);
}

#[test]
fn sip_r074_nothing_joins_a_leg_that_was_refused() {
    let mut call = Call::new(INVITE);
    call.tm.add();
    call.tm.add();
    call.says(0, 600);
    assert_eq!(call.tm.add(), None);
    call.says(1, 487);
    assert_eq!(call.did(), [cancel(1, Refused)], "more could have come");
    call.leg(0);
    assert_eq!(call.did(), ["failed 0 600", "600 of 0", "settle"]);
}

#[test]
fn sip_r074_what_is_no_invite_is_not_cancelled() {
    let mut call = Call::of(OTHER, 2);
    call.says(0, 603);
    assert_eq!(call.did(), [""; 0]);
    call.says(1, 200);
    assert_eq!(call.did(), ["200 of 1", "settle"]);
}

#[test]
fn sip_r075_2xx_behind_6xx_still_wins() {
    let mut call = Call::of(INVITE, 3);
    call.says(0, 600).did();
    call.says(1, 200);
    assert_eq!(call.did(), ["200 of 1", "settle"], "they were cancelled before");
}

#[test]
fn sip_r147_2xx_behind_a_negative_final_still_goes_up() {
    let mut call = Call::of(INVITE, 2);
    call.says(0, 486).times_out(1);
    assert_eq!(call.went_up(), ["408 Request Timeout"]);
    call.says(1, 200);
    assert_eq!(call.did(), ["200 of 1"]);
    assert_eq!(call.tm.status(), 200);
    assert_eq!(call.after(secs(4)), [], "the failure is not sent again behind it");
    call.after(secs(1));
    assert!(call.is_over());
}

#[test]
fn sip_r084_first_2xx_of_what_is_no_invite_wins() {
    let mut call = Call::of(OTHER, 3);
    call.says(1, 200);
    assert_eq!(call.did(), ["200 of 1", "settle"]);
    call.says(0, 200).says(1, 200).says(2, 404);
    assert_eq!(call.did(), [""; 0]);
    assert_eq!(call.tm.open(), 0);
}

#[test]
fn sip_r084_a_2xx_behind_the_time_out_of_its_branch_wins_while_others_are_open() {
    let mut call = Call::of(OTHER, 2);
    call.times_out(0).says(0, 200);
    assert_eq!(call.did(), ["200 of 0", "settle"]);
}

#[test]
fn sip_r084_no_2xx_behind_a_negative_final_of_what_is_no_invite() {
    let mut call = Call::of(OTHER, 1);
    call.says(0, 404).did();
    call.says(0, 200);
    assert_eq!(call.did(), [""; 0]);
}

#[test]
fn sip_r076_r077_challenges_are_merged() {
    for (codes, expected) in [
        ([401, 407, 401], "401 with 401 of 0, 407 of 1, 401 of 2"),
        ([407, 486, 407], "407 with 407 of 0, 407 of 2"),
        ([486, 407, 401], "401 with 407 of 1, 401 of 2"),
    ] {
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let mut call = Call::of(INVITE, 3);
            for branch in order {
                call.says(branch, codes[usize::from(branch)]);
            }
            assert_eq!(call.went_up(), [expected]);
        }
    }
}

#[test]
fn sip_r078_a_single_challenge_is_relayed() {
    assert_eq!(choose(INVITE, [401, 486]), "401 of 0");
    assert_eq!(choose(INVITE, [0, 407]), "407 of 1");
    assert_eq!(choose(INVITE, [302, 407]), "302 of 0", "it does not win");
}

#[test]
fn sip_r079_r080_503_goes_up_as_500() {
    for start in [INVITE, OTHER] {
        let mut call = Call::of(start, 2);
        call.says(0, 504).says(1, 503);
        assert_eq!(call.went_up(), ["500 Service Unavailable"]);
    }
    let mut call = Call::of(with(INVITE, Options { relay_503: true, ..OPTIONS }), 1);
    call.says(0, 503);
    assert_eq!(call.went_up(), ["503 of 0"]);
}

#[test]
fn sip_r081_3xx_is_relayed() {
    let mut call = Call::of(INVITE, 1);
    call.says(0, 302);
    assert_eq!(call.went_up(), ["302 of 0"]);
}

#[test]
fn sip_r083_a_silent_branch_is_a_408_in_the_choice() {
    assert_eq!(choose(INVITE, [0, 486]), "408 Request Timeout");
    assert_eq!(choose(INVITE, [0, 404]), "404 of 1");
    assert_eq!(choose(INVITE, [0, 0]), "408 Request Timeout");
}

#[test]
fn sip_r083_real_replies_can_be_preferred() {
    let start = with(INVITE, Options { prefer_real_replies: true, ..OPTIONS });
    assert_eq!(choose(start, [0, 486]), "486 of 1");
    assert_eq!(choose(start, [0, 599]), "599 of 1");
    assert_eq!(choose(start, [0, 0]), "408 Request Timeout");
}

#[test]
fn sip_r149_silence_to_what_is_no_invite_is_408() {
    let mut call = Call::of(OTHER, 1);
    call.times_out(0);
    assert_eq!(call.did(), ["failed 0 408", "408 Request Timeout", "settle"]);
}

#[test]
fn rfc4320_no_408_and_no_late_final_for_what_is_no_invite() {
    let strict = Options { rfc4320: true, ..OPTIONS };
    let silent = |says: fn(&mut Call)| {
        let mut call = Call::of(with(OTHER, strict), 1);
        says(&mut call);
        assert_eq!(call.went_up(), [""; 0]);
        assert_eq!(call.again(), None);
        call.after(secs(5));
        assert_eq!(call.did(), ["over"]);
    };
    silent(|call| {
        call.times_out(0);
    });
    silent(|call| {
        call.says(0, 408);
    });
    silent(|call| {
        call.after(secs(32));
        call.says(0, 200);
    });
    silent(|call| {
        call.after(secs(32));
        call.says(0, 404);
    });
    assert_eq!(choose(with(OTHER, strict), [404, 486]), "404 of 0");
    assert_eq!(choose(with(INVITE, strict), [0, 0]), "408 Request Timeout");
}

#[test]
fn a_branch_that_could_not_be_sent_never_wins() {
    let mut call = Call::of(INVITE, 2);
    call.hears(0, Says::Unsent).says(1, 599);
    assert_eq!(call.went_up(), ["599 of 1"]);

    let mut call = Call::of(INVITE, 2);
    call.hears(0, Says::Unsent).hears(1, Says::Unsent);
    assert_eq!(call.did(), [""; 0], "the owner answers the error");
    call.replies(478);
    assert_eq!(call.did(), ["settle"]);
}

#[test]
fn case_s10_a_finished_branch_is_left_alone() {
    let mut call = Call::of(INVITE, 1);
    call.says(0, 503).did();
    call.tm.replied(500, "500".into(), true, call.now);
    assert_eq!(call.did(), [""; 0], "no CANCEL");

    // A reply route answers while the other one is open.
    let mut call = Call::of(INVITE, 2);
    call.says(0, 503);
    call.replies(500);
    assert_eq!(call.did(), [cancel(1, Refused), "settle".to_owned()]);
}

#[test]
fn case_s10_a_second_final_on_a_branch_is_ignored() {
    let mut call = Call::of(INVITE, 2);
    call.says(1, 180).says(0, 500).says(0, 500).says(0, 486);
    assert_eq!(call.tm.finals().collect::<Vec<_>>(), [(0, 500, false)]);
    call.says(1, 486);
    assert_eq!(call.went_up(), ["180 of 1", "486 of 1"]);
}

#[test]
fn a_reply_of_no_branch_is_of_no_interest() {
    for start in [INVITE, OTHER] {
        let mut call = Call::of(start, 1);
        call.says(1, 180).says(7, 200).says(u16::MAX, 486).times_out(3);
        assert_eq!(call.did(), [""; 0]);
        assert_eq!(call.tm.open(), 1);
    }
}
