//! Failure routes and further legs (contract 2.11).

use super::*;
use crate::sip::transaction::server::CancelWhy::{Answered, Caller, Refused};

/// One branch, a failure route, and a failure of it.
fn failed(code: u16) -> Call {
    let mut call = Call::of(INVITE, 1);
    call.route = true;
    call.says(0, code);
    assert_eq!(call.did(), [format!("failed 0 {code}")]);
    call
}

#[test]
fn sip_r085_the_failure_is_hidden_and_a_second_target_is_tried() {
    let mut call = failed(503);
    call.leg(1);
    call.says(1, 180).says(1, 200);
    assert_eq!(call.did(), ["180 of 1", "200 of 1", "settle"]);
}

#[test]
fn sip_r086_another_branch_takes_the_next_index() {
    let mut call = failed(503);
    assert_eq!(call.tm.next_index(), 1);
    assert_eq!(call.tm.add(), Some(1));
    assert_eq!(call.tm.add(), Some(2));
    assert_eq!(call.tm.open(), 2);
}

#[test]
fn sip_r097_an_index_that_was_not_taken_is_the_next_one_again() {
    let mut call = Call::new(INVITE);
    assert_eq!((call.tm.next_index(), call.tm.next_index()), (0, 0));
    assert_eq!(call.tm.add(), Some(0));
    assert_eq!(call.tm.next_index(), 1);
}

#[test]
fn sip_r087_a_timeout_is_a_failure_too() {
    let mut call = Call::of(INVITE, 2);
    call.route = true;
    call.hears(0, Says::Timeout { spoke: true }).says(1, 486);
    assert_eq!(call.did(), ["failed 0 408"]);
    assert_eq!(call.tm.finals().collect::<Vec<_>>(), [(0, 408, true), (1, 486, false)]);
}

#[test]
fn sip_r088_r091_the_winner_goes_up_when_the_route_does_nothing() {
    let mut call = failed(486);
    call.decline();
    call.decline();
    assert_eq!(call.did(), ["486 of 0", "settle"]);
}

#[test]
fn sip_r090_a_reply_of_the_route_replaces_the_failure() {
    let mut call = failed(486);
    call.replies(404);
    call.decline();
    assert_eq!(call.did(), ["settle"]);
    assert_eq!(call.tm.status(), 404);
    assert_eq!(call.tm.finals().count(), 0, "the stored replies are forgotten");
    assert_eq!(call.tm.add(), None);
}

#[test]
fn sip_r092_no_failure_behind_a_2xx() {
    let mut call = Call::of(INVITE, 2);
    call.route = true;
    call.says(0, 200).says(1, 487);
    assert_eq!(call.did(), ["200 of 0", &cancel(1, Answered), "settle"]);

    let mut call = Call::of(OTHER, 2);
    call.route = true;
    call.says(0, 404).says(1, 202);
    assert_eq!(call.did(), ["202 of 1", "settle"]);
}

#[test]
fn sip_r092_a_2xx_while_the_route_runs_goes_up() {
    let mut call = failed(486);
    call.says(0, 200);
    assert_eq!(call.tm.add(), None);
    call.decline();
    assert_eq!(call.did(), ["200 of 0", "settle"]);
}

#[test]
fn sip_r093_r094_of_three_targets_the_last_one_counts() {
    let mut call = failed(401);
    call.leg(1);
    call.says(1, 404);
    assert_eq!(call.did(), ["failed 1 404"]);
    call.leg(1);
    call.route = false;
    call.says(2, 488);
    assert_eq!(call.did(), ["failed 2 488", "488 of 2", "settle"]);
}

#[test]
fn sip_r094_drop_replies_says_which_finals_still_count() {
    // Legs of 404, 486 and 503; the choice behind the last one.
    for (first, second, expected) in [
        ('a', 'a', "500 Service Unavailable"),
        ('n', 'a', "500 Service Unavailable"),
        ('a', 'n', "486 of 1"),
        ('n', 'n', "404 of 0"),
        ('n', 'l', "404 of 0"),
        ('l', 'n', "486 of 1"),
        ('a', 'l', "500 Service Unavailable"),
    ] {
        let mut call = failed(404);
        call.tm.drop_replies(first);
        call.leg(1);
        call.says(1, 486);
        call.tm.drop_replies(second);
        call.leg(1);
        call.route = false;
        call.says(2, 503);
        assert_eq!(call.went_up(), [expected], "{first} {second}");
    }
}

#[test]
fn sip_r094_drop_replies_holds_for_one_leg() {
    let mut call = failed(404);
    call.tm.drop_replies('n');
    call.leg(1);
    call.says(1, 486);
    call.leg(1);
    call.decline();
    call.says(2, 503);
    assert_eq!(call.did(), ["failed 0 404", "failed 2 503"]);
}

#[test]
fn sip_r076_challenges_of_all_legs_that_count_are_merged() {
    let mut call = failed(401);
    call.tm.drop_replies('n');
    call.leg(1);
    call.says(1, 407).decline();
    assert_eq!(call.went_up(), ["401 with 401 of 0, 407 of 1"]);
    let mut call = failed(401);
    call.leg(1);
    call.says(1, 407).decline();
    assert_eq!(call.went_up(), ["407 of 1"]);
}

#[test]
fn sip_r088_a_leg_that_could_not_be_sent_leaves_the_failure_before_it() {
    let mut call = failed(486);
    call.tm.add();
    call.hears(1, Says::Unsent);
    assert!(!call.tm.has_failed(), "there may be another branch");
    call.tm.seal();
    assert_eq!((call.did(), call.tm.has_failed()), (vec![], true), "its route has run");
    call.decline();
    assert_eq!(call.did(), ["486 of 0", "settle"]);
    assert!(!call.tm.has_failed());

    // The leg behind one that was not sent is one like others.
    let mut call = failed(486);
    call.tm.add();
    call.hears(1, Says::Unsent);
    call.tm.seal();
    call.leg(2);
    call.says(2, 503);
    assert_eq!(call.tm.finals().collect::<Vec<_>>(), [(2, 503, false)]);
    call.says(3, 404).decline();
    assert_eq!(call.did(), ["failed 3 404", "404 of 3", "settle"]);
}

#[test]
fn a_leg_that_could_not_be_sent_leaves_the_error_to_the_owner() {
    let mut call = failed(486);
    call.tm.drop_replies('a');
    call.tm.add();
    call.tm.seal();
    call.hears(1, Says::Unsent);
    call.decline();
    assert_eq!(call.did(), [""; 0]);
    call.replies(478);
    assert_eq!(call.did(), ["settle"]);

    let mut call = failed(486);
    call.tm.drop_replies('n');
    call.tm.add();
    call.hears(1, Says::Unsent);
    call.leg(0);
    call.decline();
    assert_eq!(call.did(), ["failed 0 486", "486 of 0", "settle"], "one that counts goes up");
}

#[test]
fn sip_r095_no_branch_once_it_is_cancelled() {
    let mut call = failed(486);
    assert!(!call.cancel());
    assert!(call.tm.is_cancelled());
    assert_eq!(call.tm.add(), None);
    call.decline();
    assert_eq!(call.did(), ["486 of 0", "settle"]);

    let mut call = Call::of(INVITE, 1);
    assert!(call.cancel());
    assert_eq!(call.tm.add(), None);
}

#[test]
fn a_cancelled_call_fails_as_any_other() {
    let mut call = Call::of(INVITE, 1);
    call.route = true;
    call.cancel();
    call.says(0, 487);
    assert_eq!(call.did(), [&cancel(0, Caller), "failed 0 487"]);
}

#[test]
fn a_branch_may_join_a_leg_that_runs() {
    let mut call = Call::of(INVITE, 1);
    call.leg(1);
    call.says(0, 503);
    assert_eq!(call.did(), [""; 0]);
    assert_eq!(call.tm.add(), Some(2));
    call.says(1, 486);
    assert_eq!(call.tm.open(), 1);
    call.says(2, 480);
    assert_eq!(call.did(), [""; 0], "more may come");
    call.leg(0);
    assert_eq!(call.went_up(), ["480 of 2"]);
}

#[test]
fn sip_r147_a_2xx_of_an_earlier_leg_ends_the_one_that_runs() {
    let mut call = Call::of(INVITE, 1);
    call.route = true;
    call.times_out(0);
    call.leg(2);
    call.says(1, 180).did();
    call.says(0, 200);
    assert_eq!(call.did(), ["200 of 0", &cancel(1, Answered), &cancel(2, Answered), "settle"]);
    call.says(1, 200).says(2, 487);
    assert_eq!(call.did(), ["200 of 1"]);
}

#[test]
fn provisionals_of_an_earlier_leg_do_not_go_up() {
    let mut call = failed(486);
    call.leg(1);
    call.says(0, 180);
    assert_eq!(call.did(), [""; 0]);
}

#[test]
fn sip_r090_a_reply_of_a_reply_route_cancels_what_is_open() {
    for (start, expected) in [
        (INVITE, vec![cancel(0, Refused), "settle".to_owned()]),
        (OTHER, vec!["settle".to_owned()]),
    ] {
        let mut call = Call::of(start, 2);
        call.says(1, 500).did();
        call.replies(503);
        assert_eq!(call.did(), expected);
        call.says(0, 487);
        assert_eq!(call.did(), [""; 0]);
        assert_eq!(call.tm.status(), 503);
    }
}

#[test]
fn a_leg_is_not_over_before_it_is_whole() {
    let mut call = Call::new(INVITE);
    call.tm.add();
    call.says(0, 486);
    assert_eq!(call.did(), [""; 0]);
    call.tm.add();
    call.leg(0);
    assert_eq!(call.did(), [""; 0]);
    call.says(1, 404);
    assert_eq!(call.went_up(), ["404 of 1"]);
}
